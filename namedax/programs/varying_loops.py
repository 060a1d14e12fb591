"""Loops of positional functions whose carries are cast to varying where the loops begin.

A loop of JAX may begin with a constant and continue with values that vary over mesh axes. JAX's
checker of device variance rejects it. A positional function cannot cast the constant, since it does
not know the mesh axes. Its jaxpr is evaluated again, with the casts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn

from namedax.core.names import PyTree
from namedax.core.variance import cast_data, varying
from namedax.primitives.equations import (
    Scan,
    While,
    bind,
    called_in_steps,
    has_forward_rule,
    kind_of,
    name_of,
    parameters_of,
)
from namedax.primitives.record import Kind, aval_of
from namedax.programs.evaluator import Evaluator, Replacement
from namedax.programs.forward_rules import commutes_with_casts, repeat

__all__ = ["with_varying_loops"]


def with_varying_loops(
    function: Callable[..., PyTree], axes: frozenset[str], datas: Sequence[Any]
) -> PyTree:
    """Return `function(*datas)`, whose loops carry values that vary over `axes`.

    Args:
      function: a function of arrays and Python numbers that does not communicate.
      axes: the mesh axes over which some of the arrays vary.
      datas: its arguments.

    Raises:
      TypeError: an operation would keep the types of operands that do not vary, such as a function
        with a derivative rule that has loops or branches.
    """
    positions = [i for i, data in enumerate(datas) if hasattr(data, "dtype")]
    arrays = [datas[i] for i in positions]

    def of_arrays(*arrays: jax.Array) -> PyTree:
        filled = list(datas)
        for i, array in zip(positions, arrays, strict=True):
            filled[i] = array
        return function(*filled)

    types = [
        jax.ShapeDtypeStruct(x.shape, x.dtype, weak_type=getattr(x, "weak_type", False))
        for x in arrays
    ]  # without variance, so that the checker accepts every loop
    closed, shape = jax.make_jaxpr(of_arrays, return_shape=True)(*types)
    flat = _Caster(axes).run(closed, arrays)
    return jax.tree.unflatten(jax.tree.structure(shape), flat)


class _Caster:
    """Evaluates jaxprs; an operation of a varying operand gets all of them varying over `axes`."""

    def __init__(self, axes: frozenset[str]):
        self.axes = axes

    def run(self, closed: ClosedJaxpr, values: Sequence[Any]) -> list[jax.Array]:
        return self._evaluate(closed.jaxpr, [*closed.consts, *values])

    def _cast(self, values: Sequence[jax.Array]) -> list[jax.Array]:
        return [cast_data(value, self.axes) for value in values]

    def _evaluate(self, jaxpr: Jaxpr, values: Sequence[Any]) -> list[jax.Array]:
        evaluator = Evaluator(jaxpr, values)

        def rule(eqn: JaxprEqn) -> Replacement:
            return lambda: self._equation(eqn, _arrays(evaluator.operands(eqn), eqn.invars))

        return _arrays(evaluator.run(rule), jaxpr.outvars)

    def _equation(self, eqn: JaxprEqn, operands: Sequence[jax.Array]) -> list[jax.Array]:
        # A rule of JAX 0.10 cannot be bound again.
        if not any(map(varying, operands)) and kind_of(eqn) is not Kind.RULE:
            return bind(eqn, operands)
        operands = self._cast(operands)
        match kind_of(eqn):
            case Kind.CALL | Kind.REMAT if (inner := called_in_steps(eqn)) is not None:
                closed = inner if isinstance(inner, ClosedJaxpr) else ClosedJaxpr(inner, ())
                return self.run(closed, operands)
            case Kind.WHILE:
                return self._while(While.of(eqn), operands)
            case Kind.SCAN:
                return self._scan(Scan.of(eqn), operands)
            case Kind.BRANCH:
                index, *rest = operands
                branches = [self._branch(branch) for branch in parameters_of(eqn)["branches"]]
                return list(lax.switch(index, branches, *rest))
            case Kind.RULE if not (has_forward_rule(eqn) and commutes_with_casts(eqn)):
                raise TypeError(f"the rule of {name_of(eqn)} has loops or branches")
            case Kind.RULE:
                return repeat(eqn, operands)
        results = [
            result if jnp.issubdtype(result.dtype, jnp.inexact) else cast_data(result, self.axes)
            for result in bind(eqn, operands)
        ]  # JAX types some integers as invariant; they have no gradient
        if not all(self.axes <= varying(result) for result in results):
            raise TypeError(f"{name_of(eqn)} has the types of operands that do not vary")
        return results

    def _branch(self, branch: ClosedJaxpr) -> Callable[..., list[jax.Array]]:
        return lambda *operands: self._cast(self.run(branch, operands))

    def _while(self, loop: While, operands: Sequence[jax.Array]) -> list[jax.Array]:
        first, second = loop.condition_consts, loop.condition_consts + loop.body_consts
        of_condition, of_body = operands[:first], operands[first:second]

        def goes_on(carry: list[jax.Array]) -> jax.Array:
            return self.run(loop.condition, [*of_condition, *carry])[0]

        def step(carry: list[jax.Array]) -> list[jax.Array]:
            new = self._cast(self.run(loop.body, [*of_body, *carry]))
            if not loop.ndim:
                return new
            is_running = self._cast([goes_on(carry)])[0]
            return [
                lax.select(lax.broadcast_in_dim(is_running, x.shape, range(loop.ndim)), x, old)
                for x, old in zip(new, carry, strict=True)
            ]

        def any_goes_on(carry: list[jax.Array]) -> jax.Array:
            return jnp.any(goes_on(carry))

        begin: list[jax.Array] = list(operands[second:])
        return lax.while_loop(any_goes_on, step, begin)

    def _scan(self, loop: Scan, operands: Sequence[jax.Array]) -> list[jax.Array]:
        consts, count = operands[: loop.consts], loop.carries

        def step(
            carry: list[jax.Array], slices: list[jax.Array]
        ) -> tuple[list[jax.Array], list[jax.Array]]:
            results = self._cast(self.run(loop.body, [*consts, *carry, *slices]))
            return results[:count], results[count:]

        begin, end = loop.consts, loop.consts + count
        carry, stacked = lax.scan(
            step, list(operands[begin:end]), list(operands[end:]), **loop.options
        )
        return [*carry, *stacked]


def _arrays(values: Sequence[Any], variables: Sequence[Any]) -> list[jax.Array]:
    """Return values as arrays; literals have the type of their variable."""
    return [
        value if hasattr(value, "aval") else jnp.asarray(value, aval_of(var).dtype)
        for value, var in zip(values, variables, strict=True)
    ]
