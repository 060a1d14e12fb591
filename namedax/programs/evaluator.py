"""What the equations of a traced program do: casts to device-varying, calls of other programs, communication.

JAX has more than one primitive for some of these, and other ones in other versions. What several modules know of their names is in
this one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, DropVar, Literal, Var, jaxpr_as_fun, subjaxprs

__all__ = [
    "CALLS",
    "CASTS",
    "REMAT",
    "MeshAxes",
    "Replay",
    "axes_of",
    "barrier",
    "cast_axes",
    "collective_axes",
    "commutes",
    "has_side_effects",
    "inlined",
    "inner_jaxpr",
    "is_inexact",
    "number_of",
    "programs_of",
]

MeshAxes = frozenset[str]

CASTS = ("pvary", "pcast")
# The primitives that call a jaxpr once, and how their parameter for it is called.
CALLS = {"jit": "jaxpr", "pjit": "jaxpr", "closed_call": "call_jaxpr"}
REMAT = ("checkpoint", "remat", "remat2")
# The number of operations of the functions of `jnp` that are compiled on their own, such as `jnp.take`.
_SMALL = 32


def axes_of(eqn: Any) -> tuple[str, ...]:
    """The mesh axes that an equation speaks of (a cast, a collective, the index of a device), in its order."""
    axes = eqn.params.get("axes", eqn.params.get("axis_name", ()))
    axes = axes if isinstance(axes, (tuple, list, frozenset, set)) else (axes,)
    return tuple(axis for axis in axes if isinstance(axis, str))  # those of a reduction are numbers


def cast_axes(eqn: Any) -> MeshAxes:
    """The mesh axes over which an equation casts its operand to device-varying; none if it is no cast."""
    is_cast = eqn.primitive.name in CASTS and eqn.params.get("to", "varying") == "varying"
    return frozenset(axes_of(eqn)) if is_cast else frozenset()


def inner_jaxpr(eqn: Any) -> Any:
    """The (open) jaxpr that an equation calls once, with its operands; or `None`."""
    name = eqn.primitive.name
    jaxpr = eqn.params.get("jaxpr") if name in REMAT else eqn.params.get(CALLS[name]) if name in CALLS else None
    if isinstance(jaxpr, ClosedJaxpr):
        return None if jaxpr.consts else jaxpr.jaxpr
    return jaxpr


def _is_inlined(eqn: Any) -> bool:
    inner = inner_jaxpr(eqn)
    if inner is None or eqn.primitive.name in REMAT or eqn.params.get("compiler_options_kvs"):
        return False
    return bool(eqn.params.get("inline")) or len(inner.eqns) <= _SMALL


def inlined(jaxpr: Any) -> Any:
    """An open jaxpr without the calls that are to be inlined, which JAX 0.12 leaves to its lowering, nor calls of small programs."""
    if not any(map(_is_inlined, jaxpr.eqns)):
        return jaxpr
    eqns: list[Any] = []
    stands_for: dict[Any, Any] = {}

    def now(var: Any) -> Any:
        return var if isinstance(var, Literal) else stands_for.get(var, var)

    for eqn in jaxpr.eqns:
        operands, inner = [now(var) for var in eqn.invars], inner_jaxpr(eqn)
        if not _is_inlined(eqn):
            eqns.append(eqn.replace(invars=operands))
            continue
        within = dict(zip(inner.invars, operands, strict=True))
        # The same program may be called many times: each time its variables are others.
        for part in (inner := inlined(inner)).eqns:
            fresh = [var if isinstance(var, DropVar) else Var(var.aval) for var in part.outvars]
            inputs = [var if isinstance(var, Literal) else within[var] for var in part.invars]
            within.update(zip(part.outvars, fresh, strict=True))
            eqns.append(part.replace(invars=inputs, outvars=fresh))
        results = [var if isinstance(var, Literal) else within[var] for var in inner.outvars]
        stands_for.update(zip(eqn.outvars, results, strict=True))
    return jaxpr.replace(eqns=eqns, outvars=[now(var) for var in jaxpr.outvars])


def has_side_effects(eqn: Any) -> bool:
    """Whether an equation does something beside giving its results; JAX counts it as an effect that a collective names an axis."""
    return any(type(effect).__name__ != "NamedAxisEffect" for effect in eqn.effects)


def commutes(eqn: Any) -> bool:
    """Whether an operation of values that were cast is the operation, cast."""
    if eqn.effects or eqn.primitive.name in CASTS or axes_of(eqn):
        return False
    return not programs_of(eqn) and not any(map(callable, _parts_of(eqn)))


def programs_of(eqn: Any) -> list[Any]:
    """The programs that an equation has among its parameters, open or closed."""
    return [part for part in _parts_of(eqn) if hasattr(part, "eqns") or hasattr(part, "jaxpr")]


def _parts_of(eqn: Any) -> list[Any]:
    return [part for value in eqn.params.values() for part in (value if isinstance(value, (tuple, list)) else (value,))]


def barrier(values: Sequence[Any]) -> list[Any]:
    """`jax.lax.optimization_barrier` of values that may vary over different mesh axes, and go on doing so."""
    if len({jax.typeof(value).manual_axis_type for value in values}) > 1:
        # JAX 0.10 gives all results the variance of all operands; but for what it computes anew for a gradient.
        (again,) = jax.make_jaxpr(jax.checkpoint(lambda *xs: list(xs)))(*values).jaxpr.eqns
        if "differentiated" in again.params:
            return list(again.primitive.bind(*values, **{**again.params, "differentiated": True}))
    return list(jax.lax.optimization_barrier(tuple(values)))


def is_inexact(aval: Any) -> bool:
    """Whether values of this type can be differentiated."""
    return bool(jnp.issubdtype(aval.dtype, jnp.inexact))


def number_of(literal: Literal) -> Any:
    """The scalar number, or truth value, that a literal stands for; `None` where it is something else.

    The tangents of integers, for one, have a type of their own.
    """
    value, dtype = literal.val, literal.aval.dtype  # type: ignore[attr-defined]
    is_number = dtype == jnp.bool_ or jnp.issubdtype(dtype, jnp.number)
    return None if isinstance(value, jax.core.Tracer) or np.ndim(value) or not is_number else value


def collective_axes(jaxpr: Any, or_index: bool = False) -> MeshAxes:
    """The mesh axes along which a program communicates; with `or_index` also those along which it asks where its device is."""
    silent = CASTS if or_index else (*CASTS, "axis_index")
    found = (axes_of(eqn) for eqn in jaxpr.eqns if eqn.primitive.name not in silent)
    return frozenset[str]().union(*found, *(collective_axes(inner, or_index) for inner in subjaxprs(jaxpr)))


class Replay:
    """Evaluates the equations of an open jaxpr, some of them otherwise than they stand.

    Those that are evaluated as they stand are so in groups, by JAX itself, which keeps what it knows of where they come from.

    Attributes:
      known: the values of variables.
    """

    def __init__(self, jaxpr: Any, values: Sequence[Any]):
        self._jaxpr, self._waiting = jaxpr, list[Any]()
        self.known: dict[Any, Any] = dict(zip([*jaxpr.constvars, *jaxpr.invars], values, strict=True))

    def read(self, var: Any) -> Any:
        """The value of an operand."""
        return var.val if isinstance(var, Literal) else self.known[var]

    def give(self, eqn: Any, results: Sequence[Any]) -> None:
        """Notes the results of an equation."""
        self.known.update(zip(eqn.outvars, results, strict=True))

    def later(self, eqn: Any) -> None:
        """Puts an equation into the group that waits."""
        self._waiting.append(eqn)

    def flush(self) -> None:
        """Evaluates the equations that wait, as one small jaxpr."""
        if not self._waiting:
            return
        variables = (v for eqn in self._waiting for v in eqn.invars if not isinstance(v, Literal))
        inputs = list(dict.fromkeys(v for v in variables if v in self.known))
        outputs = [v for eqn in self._waiting for v in eqn.outvars if not isinstance(v, DropVar)]
        effects = frozenset().union(*(eqn.effects for eqn in self._waiting))
        part = self._jaxpr.replace(constvars=[], invars=inputs, outvars=outputs, eqns=self._waiting, effects=effects)
        results = jaxpr_as_fun(ClosedJaxpr(part, ()))(*(self.known[v] for v in inputs))
        self.known.update(zip(outputs, results, strict=True))
        self._waiting = []

    def results(self) -> list[Any]:
        """The results of the program."""
        self.flush()
        return [self.read(var) for var in self._jaxpr.outvars]
