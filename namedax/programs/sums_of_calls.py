"""Sums over mesh axes that a program gives as its results, taken after the call of the program.

The gradient of a function that is computed anew, or compiled on its own, ends with the sums that are the transposes of its casts. What becomes of
them can be seen only outside of it.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from jax.extend.core import DropVar, Literal, Var

from namedax.programs.primitives import Kind, called, facts_of, is_whole_sum
from namedax.programs.remat import with_program

__all__ = ["with_sums_after_calls"]


def with_sums_after_calls(jaxpr: Any) -> Any:
    """An open jaxpr that gives what `jaxpr` does, in which no call has a result that is a sum and is used once, but not as a result."""
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
    """How often each variable is an operand; results count twice, since what is returned is used as it is."""
    variables = [var for eqn in jaxpr.eqns for var in eqn.invars] + 2 * list(jaxpr.outvars)
    return Counter(var for var in variables if not isinstance(var, Literal))


def _apart(eqn: Any, inner: Any, uses: Counter[Any]) -> list[Any] | None:
    """A call of `inner` as two or more equations: the call, and the sums that it gave; `None` where it gives none."""
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
