"""Workaround for Fourier transforms in a mapped region on CPUs: XLA's backend fails for some layouts (JAX 0.10 and 0.11).

The transforms fail if the operand or the result does not have the default layout. XLA chooses the layout freely next to a
collective, in plain JAX too. This module flattens both to one dimension around the transform, so that XLA has no choice.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax import lax
from jax.extend.core import jaxpr_as_fun

from namedax.programs.evaluator import Evaluator, inlined
from namedax.programs.hijax import programs_within
from namedax.programs.primitives import Kind, bind, called, kind_of

__all__ = ["with_plain_layouts"]


def with_plain_layouts(function: Callable[..., Any], datas: Sequence[Any]) -> Any:
    """Evaluate `function(*datas)` with default layouts for every Fourier transform and its gradient."""
    places = [i for i, data in enumerate(datas) if isinstance(data, jax.Array)]  # the others are axis indices and sizes

    def of_arrays(*arrays: Any) -> Any:
        filled = list(datas)
        for i, array in zip(places, arrays, strict=True):
            filled[i] = array
        return function(*filled)

    arrays = [datas[i] for i in places]
    closed, shape = jax.make_jaxpr(of_arrays, return_shape=True)(*arrays)
    if _transforms(closed.jaxpr):
        flat: Sequence[Any] = _evaluate(closed.jaxpr, [*closed.consts, *arrays])
    else:
        flat = jaxpr_as_fun(closed)(*arrays)
    return jax.tree.unflatten(jax.tree.structure(shape), flat)


def _transforms(jaxpr: Any) -> bool:
    return any(kind_of(eqn) == Kind.TRANSFORM for eqn in jaxpr.eqns) or any(map(_transforms, programs_within(jaxpr)))


def _evaluate(jaxpr: Any, values: Sequence[Any]) -> list[Any]:
    jaxpr = inlined(jaxpr)
    evaluator = Evaluator(jaxpr, values)

    def rule(eqn: Any) -> Any:
        inner = called(eqn)
        if kind_of(eqn) == Kind.TRANSFORM:
            return lambda: map(_flat_for_a_moment, bind(eqn, list(map(_flat_for_a_moment, evaluator.operands(eqn)))))
        if inner is not None and _transforms(inner):
            return lambda: jax.jit(functools.partial(_evaluate, inner))(evaluator.operands(eqn))
        return None

    return evaluator.run(rule)


def _flat_for_a_moment(data: Any) -> Any:
    # Without the barrier XLA would remove the two reshapes.
    return lax.optimization_barrier(data.reshape(-1)).reshape(data.shape)
