"""Which entries of a block are real, where a name does not divide over its mesh axes: how padding is left out.

An operation that mixes entries puts its identity for padding before (`masked`). Where its own result would have anything but copies of the
last real entry for padding, it puts these there again (`refilled`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
from jax import lax

from namedax.core.element_types import weak_as
from namedax.core.padded_sharding import Uneven, block_of
from namedax.core.variance import cast_data, varying
from namedax.resources import communication as comm
from namedax.resources.padding_gradients import mask_cotangent, zero_cotangent

__all__ = ["constant_padding", "is_real", "last_repeated", "masked", "only_real", "real_blocks", "real_entries", "refilled"]

Axes = tuple[str, ...]


def real_entries(place: Uneven, block: int, device: Any = None) -> Any:
    """How many entries of this device's block, or of another's, are real: from 0 to `block`."""
    device = comm.block_index(tuple(place)) if device is None else device
    return jnp.clip(place.size - device * block, 0, block)


def real_blocks(place: Uneven, block: int) -> int:
    """How many of the blocks have real entries: they are the first."""
    return block_of(place.size, block)


def is_real(shape: Sequence[int], dim: int, place: Uneven, device: Any = None) -> Any:
    """Of a block of this shape, this device's or another's, which entries along `dim` are real; with size 1 along the other dimensions."""
    row = lax.broadcasted_iota(jnp.int32, tuple(n if i == dim else 1 for i, n in enumerate(shape)), dim)
    return row < real_entries(place, shape[dim], device)


def masked(data: Any, dim: int, place: Axes, identity: Any) -> Any:
    """The block `data`, with `identity` for padding along `dim`; as it is, where the name divides."""
    if not isinstance(place, Uneven):
        return data
    return only_real(data, lax.full_like(data, identity), dim, place)


def constant_padding(data: Any, dim: int, place: Axes) -> Any:
    """The block `data`, through whose padding along `dim` no gradient flows."""
    if not isinstance(place, Uneven) or not jnp.issubdtype(data.dtype, jnp.inexact):
        return data
    return only_real(data, data, dim, place)


def without_gradient_of_padding(data: Any, dim: int, place: Axes) -> Any:
    """The block `data`, to whose padding along `dim` no gradient comes back, whatever it is. Tangents go through as they are."""
    if not isinstance(place, Uneven) or not jnp.issubdtype(data.dtype, jnp.inexact):
        return data
    return mask_cotangent(cast_data(data, tuple(place)), is_real(data.shape, dim, place))


def only_real(data: Any, padding: Any, dim: int, place: Uneven) -> Any:
    """The block `data` with what `padding` has for padding along `dim`; nothing flows back from there."""
    padding = zero_cotangent(jnp.broadcast_to(padding, data.shape))
    return only_where(is_real(data.shape, dim, place), data, padding)


def only_where(real: Any, data: Any, padding: Any) -> Any:
    """`data` where `real` says so, which may have size 1 along dimensions, and `padding` elsewhere."""
    real = jnp.broadcast_to(real, data.shape)
    everywhere = varying(data) | varying(real) | varying(padding)
    chosen = lax.select(cast_data(real, everywhere), cast_data(data, everywhere), cast_data(padding, everywhere))
    return weak_as(chosen, data)


def last_repeated(data: Any, dim: int, place: Axes) -> Any:
    """The block `data` with its own last real entry, or its first one where none is real, for padding along `dim`; sends nothing."""
    if not isinstance(place, Uneven):
        return data
    real = real_entries(place, data.shape[dim])
    data = cast_data(data, tuple(place))
    return only_real(data, lax.dynamic_slice_in_dim(data, jnp.maximum(real - 1, 0), 1, dim), dim, place)


def refilled(data: Any, dim: int, place: Axes) -> Any:
    """The block `data` with a copy of the last real entry for padding along `dim`.

    It is one all-reduce of that entry; nothing where the last device has it, so that all padding is there.
    """
    if not isinstance(place, Uneven):
        return data
    block, at = data.shape[dim], place.size - 1
    axes = tuple(place)
    row = zero_cotangent(lax.slice_in_dim(data, at % block, at % block + 1, axis=dim))
    if real_blocks(place, block) == math.prod(map(lax.axis_size, axes)):
        return only_real(data, row, dim, place)

    def of_all(row: Any) -> Any:
        has = jnp.broadcast_to(comm.block_index(axes) == at // block, row.shape)
        own = comm.only_where(cast_data(has, varying(row)), cast_data(row, varying(has)))
        return comm.pmax(own, axes) if own.dtype == jnp.bool_ else comm.psum(own, axes)

    last = comm.over_words(of_all, row) if comm.is_keys(row) else of_all(row)
    return only_real(data, last, dim, place)
