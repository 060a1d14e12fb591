"""Where the slots of experts are: how they travel between devices that have tokens and devices that have experts."""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp

from namedax.core.records import Record
from namedax.ops.experts.slots import divided
from namedax.resources import communication as comm

__all__ = ["Exchange"]

Axes = tuple[str, ...]


class Exchange(Record):
    """How slots get from the devices that have the tokens to those that have the experts, and back.

    Attributes:
      experts: how many there are, with those that are padding.
      sizes: the number of devices along each mesh axis of the experts, major first.
      own: those on which every device has the tokens: it takes the slots of its own experts.
      exchanged: those that groups of tokens are on: an all-to-all.
      summed: those that one group's tokens are on: devices fill different slots, which are added up.
      cut: mesh axes of one group's tokens that the experts are not on: the slots go onto them, when they are added up.
      cut_size: the number of devices along these.
    """

    experts: int
    sizes: tuple[tuple[str, int], ...] = ()
    own: Axes = ()
    exchanged: Axes = ()
    summed: Axes = ()
    cut: Axes = ()
    cut_size: int = 1

    def blocks(self, axes: Axes) -> int:
        """The number of devices along some of the mesh axes of the experts."""
        return math.prod(n for axis, n in self.sizes if axis in axes)

    @property
    def inner(self) -> int:
        """The number of experts of one device."""
        return self.experts // math.prod(n for _, n in self.sizes)

    @property
    def count(self) -> int:
        """The number of experts that one device has slots for, before anything is sent."""
        return self.experts // self.blocks(self.own)

    def number(self, index: Any) -> Any:
        """Where experts stand among those that this device has slots for; `count` for those that it has none for."""
        within, rest = divided(index, self.inner)  # of numbers out of range it does not matter: they are not `here`
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
        """Slots `[count, slots, features]` as `[inner, more slots, features]` where the experts are."""
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
        """The way back of `send`."""
        data = data[None, None]
        if self.exchanged:
            data = comm.all_to_all(data, 3, 0, self.exchanged)
        if self.cut:
            data = comm.all_gather(data, 3, self.cut, "varying")
        if self.summed:
            data = comm.all_gather(data, 1, self.summed, "varying")
        return data.reshape(self.count, *data.shape[3:])
