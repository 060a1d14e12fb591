"""Psums that a jaxpr returns as its results, taken after the call of the jaxpr.

The gradient of a function that is recomputed, or compiled on its own, ends with the psums that are the transposes of its casts.
Their later use is visible only outside of it.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from jax.extend.core import DropVar, Literal, Var

from namedax.programs.primitives import Kind, called, facts_of, is_whole_sum
from namedax.programs.remat import with_program

__all__ = ["with_sums_after_calls"]


def with_sums_after_calls(jaxpr: Any) -> Any:
    """Move psums out of calls.

    Return an equivalent open jaxpr. No call in it has a psum as a result that is used exactly once by another equation.
    """
    eqns: list[Any] = []
    changed = False
    uses: Counter[Any] | None = None
    for eqn, fact in zip(jaxpr.eqns, facts_of(jaxpr.eqns), strict=True):
        inner = called(eqn) if fact.kind in (Kind.CALL, Kind.REMAT) else None
        if inner is None:
            eqns.append(eqn)
            continue
        uses = _uses(jaxpr) if uses is None else uses
        parts = _apart(eqn, with_sums_after_calls(inner), uses)
        changed = changed or parts is not None
        eqns += [eqn] if parts is None else parts
    return jaxpr.replace(eqns=eqns) if changed else jaxpr


def _uses(jaxpr: Any) -> Counter[Any]:
    """Count the uses of each variable as an operand; results count twice, since a returned value is used as it is."""
    variables = [var for eqn in jaxpr.eqns for var in eqn.invars] + 2 * list(jaxpr.outvars)
    return Counter(var for var in variables if not isinstance(var, Literal))


def _apart(eqn: Any, inner: Any, uses: Counter[Any]) -> list[Any] | None:
    """Split a call of `inner` into the call and the psums that it returned; `None` if it returns none."""
    sums = {var: part for part in inner.eqns if is_whole_sum(part) for var in part.outvars}
    within = _uses(inner) if sums else Counter[Any]()
    results, made, after = list(inner.outvars), list(eqn.outvars), list[Any]()
    for i, (var, out) in enumerate(zip(inner.outvars, eqn.outvars, strict=True)):
        part = None if isinstance(var, Literal) or isinstance(out, DropVar) else sums.get(var)
        if part is None or within[var] != 2 or uses[out] != 1:
            continue
        operand = part.invars[part.outvars.index(var)]
        if isinstance(operand, Literal):
            continue
        results[i], made[i] = operand, Var(operand.aval)
        after.append(part.replace(invars=[made[i]], outvars=[out]))
    return [with_program(eqn, inner.replace(outvars=results), eqn.invars, made), *after] if after else None
