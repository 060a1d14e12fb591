"""The gradient of padding is zero: two primitives that give their operand back, and differ in what flows back through them.

Cotangents that a user makes, for `jax.vjp` or in a rule, have values in padding as all arrays have, and JAX takes them to what a function was
given without asking. So what an operation returns (`mask_cotangent`) is something to which only the gradients of real entries come back, also
where JAX transposes the operation itself. Where padding is put in by an operation (`zero_cotangent`) nothing comes back at all; JAX's
`stop_gradient` is that, but cannot be transposed, as the tangents of a rule are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
from jax import lax
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from namedax.core.variance import cast_alike

__all__ = ["MASK_COTANGENT", "ZERO_COTANGENT", "mask_cotangent", "zero_cotangent"]


def mask_cotangent(data: Any, real: Any) -> Any:
    """`data`, to which gradients come back where `real` holds, a mask with size 1 along the dimensions over which it is repeated."""
    return MASK_COTANGENT.bind(*cast_alike([data, real]))


def zero_cotangent(data: Any) -> Any:
    """`data`, to which no gradient comes back."""
    return ZERO_COTANGENT.bind(data) if jnp.issubdtype(data.dtype, jnp.inexact) else data


MASK_COTANGENT, ZERO_COTANGENT = Primitive("mask_cotangent"), Primitive("zero_cotangent")


def _transpose(cotangent: Any, operand: Any, real: Any) -> list[Any]:
    if type(cotangent) is ad.Zero:
        return [ad.Zero(operand.aval), None]
    mask, cotangent = cast_alike([jnp.broadcast_to(real, cotangent.shape), cotangent])
    return [lax.select(mask, cotangent, lax.full_like(cotangent, 0)), None]


def _batch(operands: Sequence[Any], batched: Sequence[int | None]) -> tuple[Any, int]:
    # Both have one dimension more, the mask of size 1 where it has none.
    in_front = [
        lax.expand_dims(operand, [0]) if at is None else jnp.moveaxis(operand, at, 0)
        for operand, at in zip(operands, batched, strict=True)
    ]
    data, real = in_front
    if batched[0] is None:
        data = jnp.broadcast_to(data, (real.shape[0], *data.shape[1:]))
    return mask_cotangent(data, real), 0


MASK_COTANGENT.def_abstract_eval(lambda data, real: data)
MASK_COTANGENT.def_impl(lambda data, real: data)
ad.defjvp(MASK_COTANGENT, lambda tangent, data, real: mask_cotangent(tangent, real), None)
ad.primitive_transposes[MASK_COTANGENT] = _transpose
batching.primitive_batchers[MASK_COTANGENT] = _batch
mlir.register_lowering(MASK_COTANGENT, lambda _, data, real: [data])

ZERO_COTANGENT.def_abstract_eval(lambda data: data)
ZERO_COTANGENT.def_impl(lambda data: data)
ad.primitive_jvps[ZERO_COTANGENT] = lambda primals, _: (zero_cotangent(*primals), ad.Zero(primals[0].aval.to_tangent_aval()))
ad.primitive_transposes[ZERO_COTANGENT] = lambda cotangent, operand: [ad.Zero(operand.aval)]
batching.defvectorized(ZERO_COTANGENT)
mlir.register_lowering(ZERO_COTANGENT, lambda _, data: [data])
