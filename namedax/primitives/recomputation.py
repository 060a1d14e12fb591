"""Calls that are recomputed for the gradient (`jax.checkpoint`), and calls with other jaxprs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Var

from namedax.core.memory_kinds import is_host_type
from namedax.primitives.calls import CALL_OF_PYTHON, HIGH
from namedax.primitives.elementwise import COPY
from namedax.primitives.equations import (
    bind,
    has_side_effects,
    jaxprs_of,
    open_jaxpr,
    parameters_of,
)
from namedax.primitives.record import Atom, Kind
from namedax.primitives.table import TABLE, UNKNOWN

__all__ = [
    "is_remat_of_gradient",
    "remat_again",
    "remat_like",
    "saves_all_but_copies",
    "saves_all_but_gathers",
    "with_jaxpr",
    "without_calls_of_python",
]


def remat_again(eqn: JaxprEqn, jaxpr: Jaxpr, values: Sequence[jax.Array]) -> list[jax.Array]:
    """Return the results of another open jaxpr, recomputed for the gradient like this equation."""
    return bind(eqn, values, **_with_jaxpr(eqn, jaxpr))


def saves_all_but_copies(primitive: Any, *avals: Any, **params: object) -> bool:
    """Return True if a result is stored for the gradient: a policy for `jax.checkpoint`.

    Arrays in the memory of the host are copied to the device again, and whatever only moves or
    repeats elements is computed again: otherwise a transposed or converted copy would be stored
    instead.
    """
    known = TABLE.get(primitive.name, UNKNOWN)
    copies = known.moves or known.repeats or known.kind is Kind.CAST
    return not (copies or (primitive.name == COPY and is_host_type(avals[0])))


def saves_all_but_gathers(primitive: Any, *avals: Any, **params: object) -> bool:
    """Return True if a result is stored for the gradient: a policy for `jax.checkpoint`.

    Gathers are computed again, and the copies of `saves_all_but_copies`.
    """
    known = TABLE.get(primitive.name, UNKNOWN)
    return known.kind is not Kind.GATHER and saves_all_but_copies(primitive, *avals)


def with_jaxpr(
    eqn: JaxprEqn, jaxpr: Jaxpr, operands: Sequence[Atom], results: Sequence[Var]
) -> JaxprEqn:
    """Return this call with another open jaxpr, of these operands and results."""
    return eqn.replace(
        invars=list(operands),
        outvars=list(results),
        params={**eqn.params, **_with_jaxpr(eqn, jaxpr)},
    )


def without_calls_of_python(jaxpr: Jaxpr) -> Jaxpr:
    """Return a jaxpr without the calls that show its values once (`nx.debug`).

    For a program that computes these values again.
    """
    if not any(map(has_side_effects, jaxpr.eqns)):
        return jaxpr
    eqns = [
        _without_calls(eqn) if has_side_effects(eqn) else eqn
        for eqn in jaxpr.eqns
        if eqn.primitive.name != CALL_OF_PYTHON
    ]
    effects = frozenset[Any]().union(*(eqn.effects for eqn in eqns))
    return jaxpr.replace(eqns=eqns, effects=frozenset(jaxpr.effects) & effects)


def _without_calls(eqn: JaxprEqn) -> JaxprEqn:
    parts = jaxprs_of(eqn)
    if not parts or eqn.primitive.name == HIGH:
        return eqn

    def changed(value: Any) -> Any:
        if isinstance(value, (tuple, list)):
            return type(value)(map(changed, value))
        if isinstance(value, ClosedJaxpr):
            return ClosedJaxpr(without_calls_of_python(value.jaxpr), value.consts)
        return without_calls_of_python(value) if isinstance(value, Jaxpr) else value

    params = {name: changed(value) for name, value in eqn.params.items()}
    before = frozenset[Any]().union(*(open_jaxpr(part).effects for part in parts))
    eqn = eqn.replace(params=params)
    after = frozenset[Any]().union(*(open_jaxpr(part).effects for part in jaxprs_of(eqn)))
    return eqn.replace(effects=frozenset(eqn.effects) - (before - after))


def _with_jaxpr(eqn: JaxprEqn, jaxpr: Jaxpr) -> dict[str, Any]:
    if eqn.primitive.name == HIGH:
        prim = eqn.params["_prim"]
        return {
            "_prim": type(prim)(
                **{**prim.params, "jaxpr": jaxpr, "prevent_cse": _prevents_cse(eqn)}
            )
        }
    name = next(name for name in ("jaxpr", "call_jaxpr") if name in eqn.params)
    return {name: ClosedJaxpr(jaxpr, ()) if isinstance(eqn.params[name], ClosedJaxpr) else jaxpr}


def remat_like(eqn: JaxprEqn, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return `function`, recomputed for the gradient like the jaxpr of this equation."""
    again: Callable[..., Any] = jax.checkpoint(
        function, prevent_cse=_prevents_cse(eqn), policy=parameters_of(eqn)["policy"]
    )
    return again


def _prevents_cse(eqn: JaxprEqn) -> bool:
    # JAX also takes one boolean for each operand; the other jaxpr may have more operands.
    prevent = parameters_of(eqn)["prevent_cse"]
    return prevent if isinstance(prevent, bool) else any(prevent)


def is_remat_of_gradient(eqn: JaxprEqn) -> bool:
    """Return True if this recomputation must stay separate from the first computation."""
    return bool(eqn.params.get("differentiated") and eqn.params.get("prevent_cse", True))
