"""Transfers of expert slots between devices that have tokens and devices that have experts."""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp

from namedax.core.records import Record
from namedax.core.types import MeshAxes
from namedax.ops.experts.slots import divided
from namedax.resources import communication as comm

__all__ = ["Exchange"]


class Exchange(Record):
    """A plan to send slots from the devices that have the tokens to the devices that have the experts, and back.

    Attributes:
      experts: the number of experts, including padding.
      sizes: the number of devices along each mesh axis of the experts, major first.
      own: the mesh axes along which the tokens are replicated; each device takes the slots of its
        own experts.
      exchanged: the mesh axes that shard the groups of tokens; they need an all-to-all.
      summed: the mesh axes that shard the tokens of one group; devices fill different slots, which
        are summed.
      cut: the mesh axes that shard the tokens of one group, but not the experts; the sum of the
        slots is scattered over them.
      cut_size: the number of devices along the mesh axes `cut`.
    """

    experts: int
    sizes: tuple[tuple[str, int], ...] = ()
    own: MeshAxes = ()
    exchanged: MeshAxes = ()
    summed: MeshAxes = ()
    cut: MeshAxes = ()
    cut_size: int = 1

    def blocks(self, axes: MeshAxes) -> int:
        """Return the number of devices along some of the mesh axes of the experts."""
        return math.prod(n for axis, n in self.sizes if axis in axes)

    @property
    def inner(self) -> int:
        """Return the number of experts of one device."""
        return self.experts // math.prod(n for _, n in self.sizes)

    @property
    def count(self) -> int:
        """Return the number of experts for which one device has slots before the exchange."""
        return self.experts // self.blocks(self.own)

    def number(self, index: Any) -> Any:
        """Return the index of experts among the experts with slots on this device, or `count` for the others."""
        within, rest = divided(
            index, self.inner
        )  # the values for numbers out of range are irrelevant: they are not `here`
        digits = {}
        for i, (axis, n) in reversed(list(enumerate(self.sizes))):
            digits[axis], rest = divided(rest, n) if i else (rest, rest)
        at: Any = jnp.zeros_like(index)
        for axis, n in self.sizes:
            if axis in self.exchanged:
                at = at * n + digits[axis]
        for axis, n in self.sizes:
            if axis in self.summed:
                at = at * n + digits[axis]
        here = (index >= 0) & (index < self.experts)
        for axis in self.own:
            here &= digits[axis] == comm.block_index((axis,)).astype(index.dtype)
        return jnp.where(here, at * self.inner + within, self.count)

    def send(self, data: Any) -> Any:
        """Send slots `[count, slots, features]` to the devices of the experts, as `[inner, more slots, features]`."""
        n, m = self.blocks(self.exchanged), self.blocks(self.summed)
        data = data.reshape(n, m, self.inner, *data.shape[1:])
        if self.summed:
            data = comm.psum_scatter(data, 1, self.summed)
        if self.cut:
            data = comm.psum_scatter(data, 3, self.cut)
        if self.exchanged:
            data = comm.all_to_all(data, 0, 3, self.exchanged)
        return data.reshape(data.shape[2:])

    def back(self, data: Any) -> Any:
        """Reverse `send`."""
        data = data[None, None]
        if self.exchanged:
            data = comm.all_to_all(data, 3, 0, self.exchanged)
        if self.cut:
            data = comm.all_gather(data, 3, self.cut, "varying")
        if self.summed:
            data = comm.all_gather(data, 1, self.summed, "varying")
        return data.reshape(self.count, *data.shape[3:])
