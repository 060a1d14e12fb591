"""Padding of axes whose size their mesh axes do not divide.

Padding repeats the last element of the axis. It is added before an array is split into blocks, and
removed after blocks are gathered. The gradient of padding is zero. Operations that combine elements
mask it, see `namedax.resources.padding_masks`.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jax import lax
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from namedax.core.padded_sharding import Uneven, block_size
from namedax.core.variance import cast_alike
from namedax.resources.serial import count_along

__all__ = [
    "MASK_COTANGENT",
    "ZERO_COTANGENT",
    "mask_cotangent",
    "padded",
    "padded_size",
    "unpadded",
    "zero_cotangent",
]


def padded_size(place: Uneven) -> int:
    """Return the padded size of an axis over mesh axes of the ambient mesh."""
    blocks = count_along(place)
    return block_size(place.size, blocks) * blocks


def padded(data: jax.Array, dim: int, size: int) -> jax.Array:
    """Pad `data`, which is unsharded along `dim`, to `size` by repeating its last element."""
    more = size - data.shape[dim]
    if not more:
        return data
    last = zero_cotangent(lax.slice_in_dim(data, data.shape[dim] - 1, data.shape[dim], axis=dim))
    return lax.concatenate([data, *[last] * more], dim)


def unpadded(data: jax.Array, dim: int, size: int) -> jax.Array:
    """Keep the first `size` elements of `data` along `dim`, where it is unsharded."""
    return data if data.shape[dim] == size else lax.slice_in_dim(data, 0, size, axis=dim)


# --- primitives that keep the gradient of padding zero --------------------------------------------
# A cotangent from a user, for `jax.vjp` or in a custom rule, can have any values in the padding.
# JAX passes it on to the arguments unchanged. So operations wrap their results in `mask_cotangent`,
# which zeroes the cotangent of padding. It also does so where JAX transposes the operation itself.
# Operations that insert padding wrap it in `zero_cotangent`, which has no cotangent at all. JAX's
# `stop_gradient` cannot replace it: it has no transpose rule, and JAX transposes the tangents of a
# custom rule.


def mask_cotangent(data: jax.Array, real: jax.Array) -> jax.Array:
    """Return `data` with its cotangent masked by `real`.

    The mask has size 1 along the dimensions over which it broadcasts.
    """
    return MASK_COTANGENT.bind(*cast_alike([data, real]))


def zero_cotangent(data: jax.Array) -> jax.Array:
    """Return `data` with a zero cotangent."""
    return ZERO_COTANGENT.bind(data) if jnp.issubdtype(data.dtype, jnp.inexact) else data


MASK_COTANGENT, ZERO_COTANGENT = Primitive("mask_cotangent"), Primitive("zero_cotangent")


def _transpose(
    cotangent: jax.Array | ad.Zero, operand: ad.UndefinedPrimal, real: jax.Array
) -> list[jax.Array | ad.Zero | None]:
    if isinstance(cotangent, ad.Zero):
        return [ad.Zero(operand.aval), None]
    mask, block = cast_alike([jnp.broadcast_to(real, cotangent.shape), cotangent])
    return [lax.select(mask, block, lax.full_like(block, 0)), None]


def _batch(operands: Sequence[jax.Array], batched: Sequence[int | None]) -> tuple[jax.Array, int]:
    # Add a leading batch dimension to both; an unbatched mask gets size 1.
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
ad.primitive_jvps[ZERO_COTANGENT] = lambda primals, _: (
    zero_cotangent(*primals),
    ad.Zero(primals[0].aval.to_tangent_aval()),
)
ad.primitive_transposes[ZERO_COTANGENT] = lambda cotangent, operand: [ad.Zero(operand.aval)]
batching.defvectorized(ZERO_COTANGENT)
mlir.register_lowering(ZERO_COTANGENT, lambda _, data: [data])
