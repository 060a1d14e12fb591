"""The gate primitive: an identity function with a cotangent that passes only if the gate is open.

In the idle ticks of a pipeline a stage computes values that are not used. The cotangents there are
zero, but zero times an infinite derivative is NaN. A sum over ticks would add this NaN to the
gradient of the weights. A `where` on the weights would prevent this. But it would make the weights
depend on the tick, so that each tick kept a copy of them for the gradient. The value of a gate is
the operand itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
from jax import lax
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from namedax.core.variance import cast_data, varying

__all__ = ["PRIMITIVE", "gate"]

PRIMITIVE = Primitive("gate")


def gate(value: Any, is_open: Any) -> Any:
    """Return `value` with a cotangent that is zero unless the boolean `is_open` holds."""
    if not jnp.issubdtype(value.dtype, jnp.inexact):
        return value
    return PRIMITIVE.bind(cast_data(value, varying(is_open)), is_open)


def _value(value: Any, is_open: Any) -> Any:
    return value


def _derivative(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    (value, is_open), (tangent, _) = primals, tangents
    # The primal passes without another gate: a gated primal would be kept for the gradient once per
    # tick.
    return value, tangent if type(tangent) is ad.Zero else PRIMITIVE.bind(tangent, is_open)


def _transpose(cotangent: Any, value: Any, is_open: Any) -> list[Any]:
    if type(cotangent) is ad.Zero:
        return [ad.Zero(value.aval), None]
    return [
        lax.select(
            jnp.broadcast_to(is_open, cotangent.shape), cotangent, jnp.zeros_like(cotangent)
        ),
        None,
    ]


def _batch(operands: Sequence[Any], batched: Sequence[Any]) -> tuple[Any, Any]:
    (value, is_open), (at, per_entry) = operands, batched
    if per_entry is None:
        return PRIMITIVE.bind(value, is_open), at
    if at is None:
        value, at = jnp.broadcast_to(value, (is_open.shape[per_entry], *value.shape)), 0
    value, is_open = jnp.moveaxis(value, at, 0), jnp.moveaxis(is_open, per_entry, 0)
    return (
        jnp.where(is_open.reshape(-1, *[1] * (value.ndim - 1)), value, lax.stop_gradient(value)),
        0,
    )


PRIMITIVE.def_abstract_eval(_value)
PRIMITIVE.def_impl(_value)
ad.primitive_jvps[PRIMITIVE] = _derivative
ad.primitive_transposes[PRIMITIVE] = _transpose
batching.primitive_batchers[PRIMITIVE] = _batch
mlir.register_lowering(PRIMITIVE, mlir.lower_fun(_value, multiple_results=False))
