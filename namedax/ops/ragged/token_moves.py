"""Transfer of tokens to the devices with the weights of their groups, and of results back, by `jax.lax.ragged_all_to_all`.

That collective requires four offsets and sizes for each other device. They all follow from one
small gathered table: the number of tokens that each device has for each other one. GPUs and TPUs
support the collective; elsewhere tokens are gathered, and results reduce-scattered (`grouped`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import Mesh

from namedax.core.region import Region
from namedax.core.types import MeshAxes
from namedax.core.variance import cast_data, varying
from namedax.resources import communication as comm
from namedax.resources.serial import LoopAxis

__all__ = ["can_be_ragged", "has_ragged_exchange", "in_their_places", "ragged"]


def has_ragged_exchange(platform: str) -> bool:
    """Return True if devices of a platform support `ragged_all_to_all`."""
    return platform in ("gpu", "tpu")


def can_be_ragged(region: Region | None, axes: MeshAxes) -> bool:
    """Return True if tokens can be exchanged along these mesh axes: a single axis, of devices with the collective."""
    mesh = None if region is None else region.mesh
    if not isinstance(mesh, Mesh) or len(axes) != 1 or isinstance(axes[0], LoopAxis):
        return False
    return has_ragged_exchange(mesh.devices.flat[0].platform)


def ragged(
    rows: Any, ids: Any, here: int, axes: MeshAxes, multiply: Callable[[Any, Any], Any]
) -> Any:
    """Compute `multiply(rows, ids)` on the devices that have the groups, with the same number of groups on each.

    Args:
      rows: the tokens of this device, `[tokens, k]`.
      ids: the number of each token's group, among all groups; the number of all groups for none.
      here: the number of groups on a device.
      axes: the single mesh axis of groups and tokens.
      multiply: a function of tokens and the numbers of their groups among the groups of the device,
        `here` for none.
    """
    devices = lax.axis_size(axes[0])
    order = jnp.argsort(ids, stable=True)
    rows, ids = (jnp.take(a, order, axis=0, mode="clip", unique_indices=True) for a in (rows, ids))
    variance = varying(rows) | varying(ids) | frozenset(axes)
    edges = jnp.arange(devices, dtype=ids.dtype) * here
    owner = (ids[:, None] >= edges[None]) & (ids[:, None] < edges[None] + here)
    sent = jnp.sum(owner, 0, dtype=jnp.int32)
    table = comm.all_gather(sent[None], 0, axes, "varying")  # from sender, to receiver
    route = _Route(table, axes, cast_data(jnp.zeros((), jnp.int32), variance))
    buffer = rows.shape[0] * devices
    arrived = route.send(rows, buffer)
    numbers = _exchange(ids + 1, buffer, route.there, axes)  # an unused row of the buffer has 0
    own = numbers - 1 - comm.block_index(axes).astype(ids.dtype) * here
    results = multiply(arrived, jnp.where((numbers > 0) & (own >= 0) & (own < here), own, here))
    back = route.back(results, rows.shape[0])
    tokens = jnp.arange(rows.shape[0], dtype=jnp.int32)
    back = jnp.where((tokens < jnp.sum(sent))[:, None], back, jnp.zeros((), back.dtype))
    return in_their_places(back, order)


def in_their_places(rows: Any, order: Any) -> Any:
    """Reverse the permutation of rows that were taken in `order`."""
    numbers = cast_data(jnp.arange(order.size, dtype=order.dtype), varying(order))
    place = (
        jnp.zeros_like(order).at[order].set(numbers, unique_indices=True, mode="promise_in_bounds")
    )
    return jnp.take(rows, place, axis=0, mode="clip", unique_indices=True)


class _Route:
    """The offsets and sizes of the transfers between devices; each direction is the transpose of the other."""

    def __init__(self, table: Any, axes: MeshAxes, zero: Any):
        self.axes = axes
        me = comm.block_index(axes)
        to, of = table[me] + zero, table[:, me] + zero
        before = jnp.cumsum(table, 0) - table  # tokens of earlier devices, at the receiver
        along = jnp.cumsum(table, 1) - table  # tokens for earlier devices, at the sender
        self.there = (along[me] + zero, to, before[me] + zero, of)
        self.home = (before[:, me] + zero, of, along[:, me] + zero, to)

    def send(self, rows: Any, size: int) -> Any:
        """Send rows to the devices of their groups, in a buffer of `size`."""
        return _both_ways(rows, size, self.there, self.home, self.axes)

    def back(self, rows: Any, size: int) -> Any:
        """Send rows back to their original devices."""
        return _both_ways(rows, size, self.home, self.there, self.axes)


def _both_ways(rows: Any, size: int, way: Any, other: Any, axes: MeshAxes) -> Any:
    @jax.custom_vjp
    def move(rows: Any, way: Any, other: Any) -> Any:
        return _exchange(rows, size, way, axes)

    def forward(rows: Any, way: Any, other: Any) -> Any:
        return move(rows, way, other), (way, other)

    count = rows.shape[0]

    def backward(saved: Any, cotangent: Any) -> Any:
        way, other = saved
        return _both_ways(cotangent, count, other, way, axes), None, None

    move.defvjp(forward, backward)
    return move(rows, way, other)


def _exchange(rows: Any, size: int, way: Any, axes: MeshAxes) -> Any:
    buffer = cast_data(
        jnp.zeros((size, *rows.shape[1:]), rows.dtype), varying(rows).union(*map(varying, way))
    )
    return lax.ragged_all_to_all(
        cast_data(rows, varying(buffer)), buffer, *way, axis_name=comm.own(axes)[0]
    )
