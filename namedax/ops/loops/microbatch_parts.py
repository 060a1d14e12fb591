"""The batch of a pipeline on its devices, if it does not divide into microbatches.

The microbatches of all devices are blocks of equal size, and the last ones may contain padding, as
for any uneven axis. A device then needs as many elements as its microbatches have, which may exceed
its block. Elements move to other devices before the first tick, and the results move back after the
last. If everything divides, this does nothing.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any

import numpy as np

from namedax.core.array import dims_of, make_in_region
from namedax.core.names import Dims
from namedax.core.padded_sharding import Uneven, block_of, plain
from namedax.core.records import Record
from namedax.core.region import Region, ambient
from namedax.operands.broadcasting import to_local
from namedax.operands.pytree_leaves import data_of
from namedax.resources import communication as comm
from namedax.resources.local_slice import sliced
from namedax.resources.padding import padded, unpadded
from namedax.resources.padding_masks import constant_padding
from namedax.resources.row_moves import move_rows
from namedax.resources.serial import LoopAxis

__all__ = ["Parts"]

OP = "pipeline"


class _Fitted(Record):
    """A block with the microbatches of its device, including padding."""

    data: Any
    dims: Dims


class Parts:
    """The partition of the axis `over` into microbatches.

    Args:
      region: the region around the pipeline.
      over: the axis name.
      count: the number of microbatches.
      leaves: blocks, some of which have the axis.
    """

    def __init__(self, region: Region, over: Hashable, count: int, leaves: Iterable[Any]):
        self.over, self.count, self.place = over, count, region.place(over)
        self.axes = plain(self.place)
        self.devices = region.mesh_axis_size(self.axes)
        self.block = next(
            (
                n
                for leaf in leaves
                for dim, n in zip(dims_of(leaf), data_of(leaf).shape, strict=True)
                if dim == over
            ),
            0,
        )
        self.size = region.global_size(over, self.block) if self.block else 0
        self.part = block_of(self.size, self.devices * count)
        self.is_even = self.size == self.part * self.devices * count

    def fitted(self, leaf: Any) -> Any:
        """Extend a block to the microbatches of this device, by moved elements and copies of the last one."""
        if self.is_even or self.over not in dims_of(leaf):
            return leaf
        at = dims_of(leaf).index(self.over)
        return _Fitted(
            self._moved(data_of(leaf), at, self.block, self.part * self.count), dims_of(leaf)
        )

    def put_back(self, data: Any, at: int) -> Any:
        """Reverse `fitted`: convert all microbatches of this device back to its block."""
        return data if self.is_even else self._moved(data, at, self.part * self.count, self.block)

    def at_hand(self, leaf: Any) -> Any:
        """Return the elements of `leaf` in the current microbatch, as seen in the region of that microbatch."""
        region = ambient()
        if not isinstance(leaf, _Fitted):
            return to_local(leaf, OP, region)
        assert region is not None
        return make_in_region(
            sliced(leaf.data, leaf.dims.index(self.over), region.resources[self.over][-1:]),
            leaf.dims,
        )

    def _moved(self, data: Any, at: int, old: int, new: int) -> Any:
        """Redistribute `data` along dimension `at` from blocks of `old` elements to blocks of `new` elements."""
        if old == new:
            return data
        if not self.axes:
            return padded(data, at, new) if new > old else unpadded(data, at, new)
        if any(
            isinstance(axis, LoopAxis) for axis in self.axes
        ):  # a step cannot access the data of other steps
            whole = unpadded(comm.all_gather(data, at, self.axes, "varying"), at, self.size)
            moved = comm.cut(padded(whole, at, new * self.devices), at, self.axes)
        else:
            rows = np.minimum(np.arange(self.devices * new), self.size - 1).reshape(
                self.devices, new
            )
            moved = move_rows(data, at, self.axes, rows)
        return constant_padding(moved, at, Uneven(self.axes, self.size))
