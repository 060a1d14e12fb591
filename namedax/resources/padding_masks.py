"""Masks for padded blocks, of axes whose size their mesh axes do not divide.

An operation that combines elements first replaces the padding by its identity element (`masked`).
Padding repeats the last element of the axis. An operation whose result would break that rule
restores it (`refilled`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jax import lax

from namedax.core.element_types import to_type, weak_as
from namedax.core.names import MeshAxes
from namedax.core.padded_sharding import Uneven, block_size
from namedax.core.variance import cast_data, varying
from namedax.resources import communication as comm
from namedax.resources.padding import mask_cotangent, zero_cotangent

__all__ = [
    "constant_padding",
    "is_real",
    "last_repeated",
    "masked",
    "only_real",
    "real_blocks",
    "real_entries",
    "refilled",
]


def real_entries(place: Uneven, block: int, device: jax.Array | int | None = None) -> jax.Array:
    """Return the number of elements before the padding in a device's block, from 0 to `block`.

    Default: this device.
    """
    device = comm.block_index(tuple(place)) if device is None else device
    return jnp.clip(place.size - device * block, 0, block)


def real_blocks(place: Uneven, block: int) -> int:
    """Return the number of blocks that do not consist of padding only.

    These are the first blocks.
    """
    return block_size(place.size, block)


def is_real(
    shape: Sequence[int], dim: int, place: Uneven, device: jax.Array | int | None = None
) -> jax.Array:
    """Return a mask of a device's block along `dim`, False at padding. Default: this device.

    The mask has size 1 along the other dimensions.
    """
    row = lax.broadcasted_iota(
        jnp.int32, tuple(n if i == dim else 1 for i, n in enumerate(shape)), dim
    )
    return row < real_entries(place, shape[dim], device)


def masked(data: jax.Array, dim: int, place: MeshAxes, identity: jax.typing.ArrayLike) -> jax.Array:
    """Replace the padding of a block along `dim` by `identity`.

    Return a block without padding unchanged.
    """
    if not isinstance(place, Uneven):
        return data
    return only_real(data, lax.full_like(data, identity), dim, place)


def constant_padding(data: jax.Array, dim: int, place: MeshAxes) -> jax.Array:
    """Stop gradients through the padding of a block along `dim`."""
    if not isinstance(place, Uneven) or not jnp.issubdtype(data.dtype, jnp.inexact):
        return data
    return only_real(data, data, dim, place)


def without_gradient_of_padding(data: jax.Array, dim: int, place: MeshAxes) -> jax.Array:
    """Zero the cotangents of a block's padding along `dim`, whatever they are.

    Tangents pass unchanged.
    """
    if not isinstance(place, Uneven) or not jnp.issubdtype(data.dtype, jnp.inexact):
        return data
    return mask_cotangent(cast_data(data, tuple(place)), is_real(data.shape, dim, place))


def only_real(data: jax.Array, padding: jax.Array, dim: int, place: Uneven) -> jax.Array:
    """Replace the padding of a block by the elements of `padding`, without a cotangent."""
    padding = zero_cotangent(jnp.broadcast_to(padding, data.shape))
    return only_where(is_real(data.shape, dim, place), data, padding)


def only_where(real: jax.Array, data: jax.Array, padding: jax.Array) -> jax.Array:
    """Select `data` where the mask `real` is True, and `padding` elsewhere.

    The mask may have dimensions of size 1.
    """
    real = jnp.broadcast_to(real, data.shape)
    everywhere = varying(data) | varying(real) | varying(padding)
    chosen = lax.select(
        cast_data(real, everywhere), cast_data(data, everywhere), cast_data(padding, everywhere)
    )
    return weak_as(chosen, data)


def last_repeated(data: jax.Array, dim: int, place: MeshAxes) -> jax.Array:
    """Fill the padding of a block along `dim` from the block itself, without communication.

    The fill value is the last element before the padding, or the first element of a block that
    consists of padding only.
    """
    if not isinstance(place, Uneven):
        return data
    real = real_entries(place, data.shape[dim])
    data = cast_data(data, tuple(place))
    return only_real(
        data, lax.dynamic_slice_in_dim(data, jnp.maximum(real - 1, 0), 1, dim), dim, place
    )


def refilled(data: jax.Array, dim: int, place: MeshAxes) -> jax.Array:
    """Fill the padding of a block along `dim` with the last element of the axis.

    Communication: one all-reduce of that element. No communication if the last device has it,
    because only that device has padding then.
    """
    if not isinstance(place, Uneven):
        return data
    block, at = data.shape[dim], place.size - 1
    axes = tuple(place)
    row = zero_cotangent(lax.slice_in_dim(data, at % block, at % block + 1, axis=dim))
    if real_blocks(place, block) == math.prod(map(lax.axis_size, axes)):
        return only_real(data, row, dim, place)

    def of_all(row: jax.Array) -> jax.Array:
        has = jnp.broadcast_to(comm.block_index(axes) == at // block, row.shape)
        own = comm.only_where(cast_data(has, varying(row)), cast_data(row, varying(has)))
        if own.dtype == jnp.bool_:
            return comm.pmax(own, axes)
        return to_type(comm.psum(own, axes), row.dtype)

    last = comm.over_words(of_all, row) if comm.is_keys(row) else of_all(row)
    return only_real(data, last, dim, place)
