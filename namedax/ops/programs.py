"""What the equations of a traced program do: casts to device-varying, calls of other programs, communication.

JAX has more than one primitive for each of these, and other ones in other versions. All that is known of their names here is in this
module.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, subjaxprs

__all__ = ["REMAT", "MeshAxes", "cast_axes", "collective_axes", "commutes", "inner_jaxpr", "is_inexact"]

MeshAxes = frozenset[str]

_CASTS = ("pvary", "pcast")
# The primitives that call a jaxpr once, and how their parameter for it is called.
_CALLS = {"jit": "jaxpr", "pjit": "jaxpr", "closed_call": "call_jaxpr"}
REMAT = ("checkpoint", "remat", "remat2")
_COLLECTIVES = (
    "psum psum2 psum_invariant pmax pmin ppermute pgather all_gather all_gather_invariant all_to_all ragged_all_to_all reduce_scatter "
    "psum_scatter pbroadcast collective_broadcast"
).split()


def cast_axes(eqn: Any) -> MeshAxes:
    """The mesh axes over which an equation casts its operand to device-varying; none if it is no cast."""
    if eqn.primitive.name not in _CASTS or eqn.params.get("to", "varying") != "varying":
        return frozenset()
    axes = eqn.params.get("axes", eqn.params.get("axis_name", ()))
    return frozenset((axes,) if isinstance(axes, str) else axes)


def inner_jaxpr(eqn: Any) -> Any:
    """The (open) jaxpr that an equation calls once, with its operands; or `None`."""
    name = eqn.primitive.name
    jaxpr = eqn.params.get("jaxpr") if name in REMAT else eqn.params.get(_CALLS[name]) if name in _CALLS else None
    if isinstance(jaxpr, ClosedJaxpr):
        return None if jaxpr.consts else jaxpr.jaxpr
    return jaxpr


def commutes(eqn: Any) -> bool:
    """Whether an operation of values that were cast is the operation, cast."""
    if eqn.effects or eqn.primitive.name in (*_COLLECTIVES, *_CASTS, "axis_index"):
        return False
    parts = [part for value in eqn.params.values() for part in (value if isinstance(value, (tuple, list)) else (value,))]
    return not any(hasattr(part, "eqns") or hasattr(part, "jaxpr") or callable(part) for part in parts)


def is_inexact(aval: Any) -> bool:
    """Whether values of this type can be differentiated."""
    return bool(jnp.issubdtype(aval.dtype, jnp.inexact))


def collective_axes(jaxpr: Any) -> MeshAxes:
    """The mesh axes along which a program communicates."""
    found: set[str] = set()
    for eqn in jaxpr.eqns:
        if eqn.primitive.name in _COLLECTIVES:
            axes = eqn.params.get("axes", eqn.params.get("axis_name", ()))
            found.update(axis for axis in ((axes,) if isinstance(axes, str) else axes) if isinstance(axis, str))
    return frozenset(found).union(*map(collective_axes, subjaxprs(jaxpr)))
