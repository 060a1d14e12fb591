"""Exchanges: functions that need a sharded dimension complete, next to a free dimension.

An all-to-all moves the sharding to a free dimension: one that the function does not use, and whose
block divides over the mesh axes. Each device then computes some of the slices, and another
all-to-all moves the sharding back. A device sends at most its block twice, where a gather over `n`
devices sends it `n - 1` times, and stores no more than its block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

import jax

from namedax.core.names import MeshAxes
from namedax.core.padded_sharding import plain
from namedax.core.records import Record
from namedax.resources.layout import Layout, relayout
from namedax.resources.serial import LoopAxis, count_along

__all__ = ["Exchange", "device_count"]

T = TypeVar("T")


def device_count(axes: Iterable[str]) -> int:
    """Return the number of devices along mesh axes; 0 if one of them is the axis of a loop."""
    axes = tuple(axes)
    if any(isinstance(axis, LoopAxis) for axis in axes):
        return 0
    return count_along(axes)


class Exchange(Record):
    """The layouts before and after the sharding of some dimensions moves to a free one.

    Attributes:
      sharded: the layout with these dimensions sharded.
      complete: the layout with these dimensions complete, and `free` sharded instead.
      free: the free dimension.
      axes: its mesh axes in `complete`.
      devices: the number of devices along them.
    """

    sharded: Layout
    complete: Layout
    free: int
    axes: MeshAxes
    devices: int

    @classmethod
    def of(
        cls, shape: Sequence[int], used: Iterable[int], places: Mapping[int, MeshAxes]
    ) -> Exchange | None:
        """Return the exchange of a block; `None` if no free dimension divides.

        Args:
          shape: the shape of the block.
          used: the dimensions that the function uses.
          places: the placements of those that are sharded.
        """
        axes = tuple(axis for place in places.values() for axis in plain(place))
        devices, used = device_count(axes), {*used}
        free = (i for i, n in enumerate(shape) if i not in used and n and n % devices == 0)
        if devices < 2 or (dim := next(free, None)) is None:
            return None
        sharded: list[MeshAxes] = [places.get(i, ()) for i in range(len(shape))]
        complete: list[MeshAxes] = [()] * len(shape)
        complete[dim] = axes
        return cls(tuple(sharded), tuple(complete), dim, axes, devices)

    def blocks(self, there: int, back: int = 0) -> float:
        """Return the sent blocks, of some arrays on the way there and of others on the way back."""
        return (there + back) * (self.devices - 1) / self.devices

    def run(self, function: Callable[..., T], *datas: jax.Array) -> T:
        """Call a function on the complete dimensions of arrays; shard its results again."""
        return jax.tree.map(self.to_sharded, function(*map(self.to_complete, datas)))

    def to_complete(self, data: jax.Array) -> jax.Array:
        """Make the dimensions complete, without padding; more dimensions may follow."""
        return self._moved(data, self.sharded, self.complete)

    def to_sharded(self, data: jax.Array) -> jax.Array:
        """Shard the dimensions again, with padding where their sizes do not divide."""
        return self._moved(data, self.complete, self.sharded)

    @staticmethod
    def _moved(data: jax.Array, old: Layout, new: Layout) -> jax.Array:
        more: Layout = ((),) * (data.ndim - len(old))
        return relayout(data, old + more, new + more)
