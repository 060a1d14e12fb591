"""Padding of axes whose size their mesh axes do not divide.

Padding repeats the last element of the axis. It is added before an array is split into blocks, and
removed after blocks are gathered. The gradient of padding is zero. Operations that combine elements
mask it, see `namedax.resources.padding_masks`.
"""

from __future__ import annotations

from typing import Any

from jax import lax

from namedax.core.padded_sharding import Uneven, block_of
from namedax.resources.microbatches import count_along
from namedax.resources.padding_gradients import zero_cotangent

__all__ = ["padded", "padded_size", "unpadded"]


def padded_size(place: Uneven) -> int:
    """Return the padded size of an axis over mesh axes of the ambient mesh."""
    blocks = count_along(place)
    return block_of(place.size, blocks) * blocks


def padded(data: Any, dim: int, size: int) -> Any:
    """Pad `data`, which is unsharded along `dim`, to `size` by repeating its last element."""
    more = size - data.shape[dim]
    if not more:
        return data
    last = zero_cotangent(lax.slice_in_dim(data, data.shape[dim] - 1, data.shape[dim], axis=dim))
    return lax.concatenate([data, *[last] * more], dim)


def unpadded(data: Any, dim: int, size: int) -> Any:
    """Remove the padding of `data`, which is unsharded along `dim`, and keep the first `size` elements."""
    return data if data.shape[dim] == size else lax.slice_in_dim(data, 0, size, axis=dim)
