"""Operations along one axis, named or positional: its placement and its rows.

The operations that move, slice or repeat rows of an axis (`neighbours`, `convolution`, `joining`)
share this code.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from namedax.core.annotations import ArrayLike
from namedax.core.array import NamedArray, dims_of
from namedax.core.display import type_text
from namedax.core.names import AxisName, Dims, MeshAxes, check_name, is_name
from namedax.core.padded_sharding import Uneven, block_size, plain
from namedax.core.records import Record
from namedax.core.region import Region, ambient
from namedax.core.variance import cast_data, with_varying_form
from namedax.errors import (
    AxisNameError,
    AxisSizeError,
    PositionalAxisError,
    format_value,
    raise_not_found,
    usage,
)
from namedax.ops.operands import kernels
from namedax.ops.operands.axes import resolve_axis
from namedax.ops.operands.broadcasting import make_result, to_local
from namedax.resources import communication as comm
from namedax.resources.layout import relayout
from namedax.resources.padding_masks import constant_padding
from namedax.resources.row_moves import FILL, along_dim, move_rows

__all__ = ["Along", "along", "data_and_dims", "finish", "position_of", "run"]


class Along(Record):
    """One named axis of an array, and its placement.

    Attributes:
      op: the operation.
      data: the local block.
      dims: its dims.
      dim: the dimension of the axis.
      size: its global size.
      old: the mesh axes of its blocks.
      region: the ambient region.
      supports_padding: True if the operation excludes padding, where the axis or that of the result
        does not divide; default: False.
      new_name: the parameter with the name of the axis in the result; default: `out_axis`.
    """

    op: str
    data: jax.Array
    dims: Dims
    dim: int
    size: int
    old: MeshAxes
    region: Region | None
    supports_padding: bool = False
    new_name: str = "out_axis"

    @property
    def name(self) -> Hashable:
        """The name of the axis."""
        return self.dims[self.dim]

    def blocks(self, mesh_axes: MeshAxes) -> int:
        """Return the number of devices along `mesh_axes`."""
        region = self.region
        return region.mesh_axis_size(mesh_axes) if mesh_axes and region is not None else 1

    def block(self, mesh_axes: MeshAxes, size: int) -> int:
        """Return the number of elements of one block, padding included, of an axis of this size."""
        return block_size(size, self.blocks(mesh_axes))

    def spread(self, mesh_axes: MeshAxes, size: int) -> MeshAxes:
        """Return the placement over `mesh_axes` of an axis of this size."""
        return Uneven(mesh_axes, size) if size % self.blocks(mesh_axes) else plain(mesh_axes)

    def result(self, out_axis: Hashable | None, size: int) -> tuple[Dims, MeshAxes]:
        """Return the dims of a result with `size` elements along the axis, and its mesh axes.

        Raises:
          AxisSizeError: in this mapped function the name has a different size.
          UnevenAxisError: the size does not divide over its mesh axes, and the operation does not
            support padding.
          AxisNameError: the result would have the name twice.
        """
        op, region = self.op, self.region
        new = self.name if out_axis is None else out_axis
        if not is_name(new):
            raise AxisNameError(f"{op}: {self.new_name}={format_value(new)} is not an axis name.")
        if new is not self.name:
            check_name(new, op)
        if new != self.name and new in self.dims:
            raise AxisNameError(
                f"{op}: the result would have the axis {new!r} twice. Choose another"
                f" {self.new_name}."
            )
        dims = tuple(new if i == self.dim else dim for i, dim in enumerate(self.dims))
        if region is None:
            return dims, ()
        known = region.sizes.get(new)
        if known is not None and known != size:
            own = f"a name of its own, {self.new_name}=..."
            raise AxisSizeError(
                f"{op}: axis {new!r} would have size {size}, but it has size {known} in this mapped"
                " function; a name has one size. Give the result"
                f" {own if out_axis is None else 'another name'}."
            )
        region.check_placement(op, [dim for dim in dims if dim is not None])
        region.seen.add(new)
        region.block_size(new, size, op, self.supports_padding)
        ask = region.place if self.supports_padding else region.placement
        return dims, ask(new) if region.manual else ()

    def stays_in_blocks(self, new: MeshAxes, size: int) -> bool:
        """Return True if a result of this size can be moved block by block, without a gather."""
        evenly = not isinstance(self.spread(self.old, size), Uneven)
        return bool(self.old and new) and (
            evenly or any(isinstance(place, Uneven) for place in (self.old, new))
        )

    def moved(
        self,
        data: jax.Array,
        rows: np.ndarray,
        new: MeshAxes,
        keep: frozenset[str],
        fill: jax.typing.ArrayLike = 0,
    ) -> jax.Array:
        """Return the result on `new` whose row `i` is the row `rows[i]` of the blocks `data`.

        It is `fill` where the index is -1; padding repeats the last row.
        """
        between, count = self.spread(self.old, len(rows)), self.blocks(self.old)
        table = np.pad(rows, (0, -len(rows) % count), "edge").reshape(count, -1)
        value = move_rows(data, self.dim, plain(self.old), table, fill)
        return self.relaid(constant_padding(value, self.dim, between), between, new, keep)

    def remap(
        self,
        out_axis: Hashable | None,
        rows: np.ndarray,
        fill: jax.typing.ArrayLike,
        whole: Callable[[jax.Array], jax.Array],
    ) -> NamedArray:
        """Return the result whose global row `i` is the row `rows[i]`, or `fill` where that is -1.

        Args:
          out_axis: the name of the axis in the result.
          rows: the map of rows.
          fill: the fill value.
          whole: does the same to data in which the dimension is not sharded.
        """
        dims, new = self.result(out_axis, len(rows))
        old = self.old
        blocked = self.stays_in_blocks(new, len(rows))
        gathered = frozenset(old) - frozenset(new)

        def compute(keep: frozenset[str]) -> jax.Array:
            keep |= frozenset(new)
            if blocked:
                return self.moved(self.data, rows, new, keep, fill)
            return self.relaid(whole(self.relaid(self.data, old, (), keep)), (), new, keep)

        return finish(compute, dims, gathered)

    def relaid(
        self, value: jax.Array, old: MeshAxes, new: MeshAxes, keep: frozenset[str]
    ) -> jax.Array:
        """Move the dimension of `value` from the mesh axes `old` to `new`."""
        if old == new:
            return value
        rest: list[MeshAxes] = [()] * (value.ndim - 1)
        return relayout(
            value,
            [*rest[: self.dim], old, *rest[self.dim :]],
            [*rest[: self.dim], new, *rest[self.dim :]],
            keep,
        )

    def windows(
        self,
        new: MeshAxes,
        first: int,
        stride: int,
        length: int,
        mode: str,
        fill: jax.typing.ArrayLike,
        keep: frozenset[str],
    ) -> jax.Array:
        """Return `length` rows from `first + stride * d` on device `d` along `new`.

        Rows beyond the ends are `fill` (`mode="fill"`), those of the other end (`"wrap"`), or the
        last one (`"edge"`). If the axis is sharded over the same mesh axes, only rows that a device
        lacks are sent. If it is sharded over others, it is gathered.
        """
        data, dim, size = self.data, self.dim, self.size
        wanted = first + stride * np.arange(self.blocks(new))[:, None] + np.arange(length)
        outside = (wanted < 0) | (wanted >= size)
        if self.old and plain(self.old) == plain(new):
            new = plain(new)
            rows = wanted % size if mode == "wrap" else np.where(outside, FILL, wanted)
            value = move_rows(data, dim, new, rows, fill if mode == "fill" else 0)
            return (
                _extend_edges(value, dim, wanted[:, 0], size, new)
                if mode == "edge" and outside.any()
                else value
            )
        data = self.relaid(data, self.old, (), keep)
        before = max(0, -int(wanted.min(initial=0)))
        after = max(0, int(wanted.max(initial=0)) + 1 - size)
        if before or after:
            data = _padded(data, dim, before, after, mode, fill)
        if not new:
            return lax.slice_in_dim(data, first + before, first + before + length, axis=dim)
        return lax.dynamic_slice_in_dim(
            cast_data(data, new), comm.block_index(new) * stride + (first + before), length, dim
        )


def _padded(
    data: jax.Array, dim: int, before: int, after: int, mode: str, fill: jax.typing.ArrayLike
) -> jax.Array:
    if comm.is_keys(data):
        return comm.over_words(lambda words: _padded(words, dim, before, after, mode, fill), data)
    widths = [(before, after) if i == dim else (0, 0) for i in range(data.ndim)]
    options = {"constant_values": fill} if mode == "fill" else {}
    return jnp.pad(data, widths, {"fill": "constant"}.get(mode, mode), **options)


def _extend_edges(
    value: jax.Array, dim: int, firsts: np.ndarray, size: int, mesh_axes: MeshAxes
) -> jax.Array:
    """Replace rows beyond the ends of the axis by the row at the end.

    `firsts[d]` is the first global row on device `d`.
    """
    first = jnp.asarray(firsts, jnp.int32)[comm.block_index(mesh_axes)]
    low = lax.dynamic_slice_in_dim(value, -first, 1, dim)
    high = lax.dynamic_slice_in_dim(value, size - 1 - first, 1, dim)
    row = along_dim(first + jnp.arange(value.shape[dim]), dim, value.ndim)
    return jnp.where(row < 0, low, jnp.where(row >= size, high, value))


def finish(
    compute: Callable[[frozenset[str]], jax.Array], dims: Dims, gathered: frozenset[str]
) -> Any:
    """Wrap a result gathered over some mesh axes; `compute(axes)` makes it vary over `axes`."""
    if not gathered or all(dim is None for dim in dims):
        return make_result(compute(frozenset()), dims)
    return with_varying_form(compute(frozenset()), dims, gathered, lambda: compute(gathered))


def along(
    op: str,
    x: ArrayLike,
    axis: AxisName,
    supports_padding: bool = False,
    new_name: str = "out_axis",
) -> Along:
    """Find a named axis and its placement.

    Raises:
      AxisNotFoundError: `x` lacks it.
      UnevenAxisError: it does not divide over its mesh axes, and the operation does not support
        padding.
    """
    region = ambient()
    block: Any = to_local(x, op, region)
    dims = dims_of(block)
    if not is_name(axis):
        raise PositionalAxisError(
            f"{op}: axis={format_value(axis)} is not an axis name.{usage(op)}"
        )
    if axis not in dims:
        raise_not_found(op, axis, type_text(block), [dim for dim in dims if dim is not None])
    dim = dims.index(axis)
    n = block._data.shape[dim]
    if region is None or not region.manual:
        return Along(op, block._data, dims, dim, n, (), region, supports_padding, new_name)
    old = region.place(axis) if supports_padding else region.placement(axis)
    size = region.global_size(axis, n)
    return Along(op, block._data, dims, dim, size, old, region, supports_padding, new_name)


#: `kernels.run` without a kernel in a region, where names have sizes and placements.
run = functools.partial(kernels.run, in_region=False)


def position_of(op: str, x: ArrayLike, axis: AxisName) -> int:
    """Return the physical dimension of one axis, positional or named."""
    (place,) = resolve_axis(op, x, (axis,))
    return place


def data_and_dims(op: str, x: ArrayLike) -> tuple[jax.Array, Dims]:
    """Return the local block of `x`, and its dims."""
    x = to_local(x, op, ambient())
    return (x._data, x._dims) if isinstance(x, NamedArray) else (jnp.asarray(x), dims_of(x))
