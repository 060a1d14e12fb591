"""A gate: a value that passes, and whose cotangent passes only where the gate is open; one primitive.

In a pipeline's idle ticks a stage computes what nobody uses. The cotangents there are zero, and zero times an infinite slope is NaN, which a sum
over ticks would carry into the gradient of the weights. A `where` on the weights would stop it, but would make them depend on the tick, so
that each tick kept a copy of them for the gradient. Of a gate, the value is the operand itself.
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
    """`value`, whose cotangent is zero unless `is_open`, a truth value."""
    if not jnp.issubdtype(value.dtype, jnp.inexact):
        return value
    return PRIMITIVE.bind(cast_data(value, varying(is_open)), is_open)


def _value(value: Any, is_open: Any) -> Any:
    return value


def _derivative(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    (value, is_open), (tangent, _) = primals, tangents
    # The primal is not gated again: then it would be kept for the gradient once a tick.
    return value, tangent if type(tangent) is ad.Zero else PRIMITIVE.bind(tangent, is_open)


def _transpose(cotangent: Any, value: Any, is_open: Any) -> list[Any]:
    if type(cotangent) is ad.Zero:
        return [ad.Zero(value.aval), None]
    return [lax.select(jnp.broadcast_to(is_open, cotangent.shape), cotangent, jnp.zeros_like(cotangent)), None]


def _batch(operands: Sequence[Any], batched: Sequence[Any]) -> tuple[Any, Any]:
    (value, is_open), (at, per_entry) = operands, batched
    if per_entry is None:
        return PRIMITIVE.bind(value, is_open), at
    if at is None:
        value, at = jnp.broadcast_to(value, (is_open.shape[per_entry], *value.shape)), 0
    value, is_open = jnp.moveaxis(value, at, 0), jnp.moveaxis(is_open, per_entry, 0)
    return jnp.where(is_open.reshape(-1, *[1] * (value.ndim - 1)), value, lax.stop_gradient(value)), 0


PRIMITIVE.def_abstract_eval(_value)
PRIMITIVE.def_impl(_value)
ad.primitive_jvps[PRIMITIVE] = _derivative
ad.primitive_transposes[PRIMITIVE] = _transpose
batching.primitive_batchers[PRIMITIVE] = _batch
mlir.register_lowering(PRIMITIVE, mlir.lower_fun(_value, multiple_results=False))
