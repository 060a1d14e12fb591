"""Padding of blocks, where a name does not divide over its mesh axes: put on and taken off.

Padding is a copy of the last real entry. It goes on where a whole value is cut into blocks, and comes off where blocks are put together.
Nothing flows back through it: the gradient of padding is zero. `real_entries` leaves it out where entries are mixed.
"""

from __future__ import annotations

from typing import Any

from jax import lax

from namedax.core.padded_sharding import Uneven, block_of
from namedax.resources.microbatches import count_along
from namedax.resources.padding_gradients import zero_cotangent

__all__ = ["padded", "padded_size", "unpadded"]


def padded_size(place: Uneven) -> int:
    """The size with padding, where the mesh axes are those of the ambient mesh."""
    blocks = count_along(place)
    return block_of(place.size, blocks) * blocks


def padded(data: Any, dim: int, size: int) -> Any:
    """`data`, whole along `dim`, with its last entry repeated up to `size` entries."""
    more = size - data.shape[dim]
    if not more:
        return data
    last = zero_cotangent(lax.slice_in_dim(data, data.shape[dim] - 1, data.shape[dim], axis=dim))
    return lax.concatenate([data, *[last] * more], dim)


def unpadded(data: Any, dim: int, size: int) -> Any:
    """`data`, whole along `dim`, without its padding."""
    return data if data.shape[dim] == size else lax.slice_in_dim(data, 0, size, axis=dim)
