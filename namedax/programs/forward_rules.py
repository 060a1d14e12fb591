"""Functions with a custom JVP rule, repeated for operands that vary over more mesh axes.

JAX traces such a function, and its rule, for the variance of its operands. To repeat it, the jaxprs
of both are evaluated again, with all calls in them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Var, jaxpr_as_fun

from namedax.core.variance import cast_alike
from namedax.primitives.equations import (
    bind,
    called,
    called_in_steps,
    commutes,
    has_forward_rule,
    open_jaxpr,
)
from namedax.primitives.record import Atom, aval_of, is_inexact
from namedax.programs.evaluator import Evaluator, Replacement

__all__ = ["commutes_with_casts", "repeat"]


def commutes_with_casts(eqn: JaxprEqn) -> bool:
    """Return True if an operation, or a local function with a JVP rule, commutes with casts."""
    return commutes(eqn) or (has_forward_rule(eqn) and _parts_of(eqn) is not None)


def repeat(eqn: JaxprEqn, values: Sequence[jax.Array]) -> list[jax.Array]:
    """Return the results of an equation that commutes with casts, for cast operands."""
    if commutes(eqn):
        return bind(eqn, values)
    parts = _parts_of(eqn)
    assert parts is not None
    primal, rule = parts

    @jax.custom_jvp
    def function(*operands: jax.Array) -> list[jax.Array]:
        return _again(primal, operands)

    @function.defjvp
    def _(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        results = _again(rule, [*primals, *tangents])
        return results[: len(eqn.outvars)], results[len(eqn.outvars) :]

    return list(function(*values))


def _parts_of(eqn: JaxprEqn, order: int = 2) -> tuple[Jaxpr, Jaxpr] | None:
    """Return the jaxprs of a function and of its JVP, if both can be evaluated again.

    Args:
      eqn: calls the function.
      order: the order of derivatives up to which the rules are inspected: a rule usually calls the
        function itself. Default: 2.
    """
    inner = called_in_steps(eqn)
    if inner is None or eqn.effects or (isinstance(inner, ClosedJaxpr) and inner.consts):
        return None
    primal = open_jaxpr(inner)
    if not _is_local(primal, order) or not all(
        is_inexact(v.aval) for v in (*eqn.invars, *eqn.outvars)
    ):
        return None
    avals = [aval_of(var) for var in eqn.invars]
    inputs: list[Atom] = [Var(aval) for aval in avals]
    part = primal.replace(
        constvars=[], invars=inputs, outvars=eqn.outvars, eqns=[eqn.replace(invars=inputs)]
    )
    function, count = jaxpr_as_fun(ClosedJaxpr(part, ())), len(avals)

    def differentiated(*values: jax.Array) -> list[Any]:
        primals, tangents = jax.jvp(function, values[:count], values[count:])
        return [*primals, *tangents]

    rule = jax.make_jaxpr(differentiated)(*avals, *avals)
    return (primal, rule.jaxpr) if not rule.consts and _is_local(rule.jaxpr, order - 1) else None


def _is_local(jaxpr: Jaxpr, order: int) -> bool:
    """Return True if a jaxpr has only operations that commute with casts, and calls of these."""
    if jaxpr.constvars:
        return False
    for eqn in jaxpr.eqns:
        inner = called(eqn)
        if has_forward_rule(eqn) and not eqn.effects:
            within = called_in_steps(eqn)
            if within is None or not (
                _parts_of(eqn, order) if order else _is_local(open_jaxpr(within), 0)
            ):
                return False
        elif not (commutes(eqn) if inner is None else _is_local(inner, order)):
            return False
    return True


def _again(jaxpr: Jaxpr, values: Sequence[Any]) -> list[jax.Array]:
    evaluator = Evaluator(jaxpr, values)

    def evaluate(eqn: JaxprEqn) -> list[jax.Array]:
        operands = [
            value if hasattr(value, "aval") else jnp.asarray(value, aval_of(var).dtype)
            for value, var in zip(evaluator.operands(eqn), eqn.invars, strict=True)
        ]
        inner = called(eqn)
        if inner is not None:
            return _again(inner, operands)
        operands = list(cast_alike(operands))
        return repeat(eqn, operands) if has_forward_rule(eqn) else bind(eqn, operands)

    def rule(eqn: JaxprEqn) -> Replacement:
        return lambda: evaluate(eqn)

    return [
        result if hasattr(result, "aval") else jnp.asarray(result, aval_of(var).dtype)
        for result, var in zip(evaluator.run(rule), jaxpr.outvars, strict=True)
    ]
