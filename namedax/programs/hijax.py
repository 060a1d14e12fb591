"""High primitives: equations of JAX 0.12 that hold an object with its own rules, instead of a primitive with parameters.

They all have one primitive, `call_hi_primitive`, whose parameter is a
`jax.experimental.hijax.HiPrim`. `jnp.nonzero` is one. With the flags `jax_remat3`,
`jax_custom_jvp3` and `jax_custom_vjp3`, so are `jax.checkpoint` and functions with custom
derivative rules. This module gives these the names and the parameters of the older primitives.
Every other high primitive is represented by the jaxpr that its `expand` traces.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import jax
from jax.extend.core import subjaxprs

__all__ = [
    "HIGH",
    "bind_name",
    "names_of",
    "parameters_of",
    "primitive_name",
    "program_of",
    "programs_within",
]

HIGH = "call_hi_primitive"
_OLDER = {
    "RematTraced": "remat2",
    "CustomJVPTraced": "custom_jvp_call",
    "CustomVJPTraced": "custom_vjp_call",
    "CheckpointName": "name",
    "CheckpointNameFwd": "name",
}


def primitive_name(eqn: Any) -> str:
    """Return the name of the primitive of an equation; for a high primitive, that of the equivalent older primitive, if any."""
    name: str = eqn.primitive.name
    return name if name != HIGH else _OLDER.get(type(eqn.params["_prim"]).__name__, HIGH)


def names_of(eqns: Sequence[Any]) -> list[str]:
    """Return the names of the primitives of equations, in one call, because this runs on every jaxpr."""
    return [name if (name := eqn.primitive.name) != HIGH else primitive_name(eqn) for eqn in eqns]


def parameters_of(eqn: Any) -> dict[str, Any]:
    """Return the parameters of an equation, or of its high primitive."""
    params: dict[str, Any] = eqn.params
    return params if eqn.primitive.name != HIGH else params["_prim"].params


def program_of(eqn: Any) -> Any:
    """Return the jaxpr, a function of the equation's operands, that its high primitive calls or expands to."""
    params = parameters_of(eqn)
    program = params["jaxpr"] if "jaxpr" in params else getattr(params.get("traced"), "jaxpr", None)
    if program is not None and len(program.in_avals) == len(eqn.invars):
        return program
    return _expanded(
        eqn.params["_prim"], tuple(var.aval for var in eqn.invars), eqn.ctx.cur_abstract_mesh
    )


# One jaxpr for all passes, which identify jaxprs by `id`.
@functools.lru_cache(maxsize=1024)
def _expanded(prim: Any, avals: tuple[Any, ...], mesh: Any) -> Any:
    def expanded(*values: Any) -> list[Any]:
        return jax.tree.leaves(prim.expand(*jax.tree.unflatten(prim.in_tree, values)))

    with jax.sharding.use_abstract_mesh(mesh):
        return jax.make_jaxpr(expanded)(*avals)


def bind_name(eqn: Any, value: Any) -> list[Any]:
    """Bind a value to the name that an equation gives for `jax.checkpoint`; the high primitive stores the type of its operand."""
    prim = eqn.params["_prim"]
    return [type(prim)(prim.params["name"], jax.typeof(value))(value)]


def programs_within(jaxpr: Any) -> list[Any]:
    """Return the open jaxprs that the equations of an open jaxpr contain."""
    high = [program_of(eqn) for eqn in jaxpr.eqns if eqn.primitive.name == HIGH]
    return [*subjaxprs(jaxpr), *(getattr(program, "jaxpr", program) for program in high)]
