"""Slice along one axis, under a new name if the size changes.

In a mapped function a name has one size, so a slice (`slice`) has another name, which may have
another sharding. Only the requested rows move.
"""

from __future__ import annotations

import builtins
from collections.abc import Hashable, Mapping

import numpy as np
from jax import lax

from namedax.core.annotations import AnyArray, ArrayLike, AxisSpec, LikeArguments
from namedax.core.array import as_array
from namedax.core.display import type_text
from namedax.errors import (
    ArgumentError,
    ArgumentTypeError,
    AxisSizeError,
    as_integer,
    format_value,
)
from namedax.ops.collectives.reducing import global_index
from namedax.ops.indexing.gather import cut_range
from namedax.ops.indexing.getitem import getitem, read
from namedax.ops.indexing.parts import range_of
from namedax.ops.operands.along_axes import along_axes, by_name, names_in
from namedax.ops.operands.axes import new_names
from namedax.ops.operands.one_axis import along, run
from namedax.ops.operands.operation import operation
from namedax.ops.shape.broadcast_to import expand_dims
from namedax.ops.shape.inspection import size

__all__ = ["LAX_FUNCTIONS", "slice"]


@operation()
def slice(
    x: ArrayLike,
    index: Mapping[Hashable, builtins.slice],
    *,
    out_axis: Hashable | Mapping[Hashable, Hashable] | None = None,
) -> LikeArguments:
    """Slice named axes, and give the slices new names.

    Args:
      x: a named array.
      index: slices by name, `{"w": slice(3, 7)}`.
      out_axis: new names, `{"w": "part"}`, or `"part"` for one axis; by default `None`. In a mapped
        function, a name with a known size keeps it, so a slice of a different size needs another
        name. Outside, it is optional.

    Returns:
      The sliced array.

    Communication: over a sharded axis whose new name has the same mesh axes, each device receives
    the rows that it lacks, by collective-permutes. Otherwise, one all-reduce of the slice, or one
    all-gather of the axis if that sends less. The communication never exceeds the axis itself.

    Raises:
      AxisNotFoundError: `x` lacks an axis, or `out_axis` has an axis that is not sliced.
      AxisSizeError: the new name has a different size in the mapped function.
      ArgumentTypeError: an entry is not a slice.

    >>> import jax.numpy as jnp, namedax as nx
    >>> x = nx.named(jnp.arange(10), ["w"])
    >>> nx.positional(nx.slice(x, {"w": jnp.s_[3:7]}, out_axis={"w": "part"}), ["part"])
    Array([3, 4, 5, 6], dtype=int32)
    """
    op = "slice"
    if not isinstance(index, Mapping):
        raise ArgumentTypeError(
            f"{op}: the index {format_value(index)} is not a mapping. Write nx.slice(x, {{'w':"
            " slice(3, 7)})."
        )
    renamed = new_names(op, out_axis, index, f"the index {dict(index)!r}")
    for name, entry in index.items():
        if not isinstance(entry, builtins.slice):
            raise ArgumentTypeError(
                f"{op}: the index {format_value(entry)} of axis {name!r} is not a slice. Write"
                f" slice(start, stop, step), or read integers and arrays with x[{name!r}, ...]."
            )
        x = _one(x, name, entry, renamed.get(name))
    return as_array(x, op)


def _one(x: ArrayLike, name: Hashable, entry: builtins.slice, new: Hashable | None) -> AnyArray:
    part = entry.start, entry.stop, entry.step
    return run("slice", _slice, (name, new), part, x, only_axes=True)


def _slice(
    op: str,
    names: tuple[Hashable, Hashable | None],
    start: int | None,
    stop: int | None,
    step: int | None,
    x: ArrayLike,
) -> AnyArray:
    name, new = names
    plan = along(op, x, name, supports_padding=True)
    at = range_of(op, builtins.slice(start, stop, step), name, plan.size)
    rows = np.asarray(at, int)
    dims, placed = plan.result(new, len(at))
    # If the slice is replicated, each device contributes its rows; gathering all rows sends less if
    # most of them are requested.
    moves = placed and len(at) % plan.blocks(plan.old) == 0
    if plan.old and not moves and not set(placed) & set(plan.old) and 2 * len(at) < plan.size:
        first = at.start + at.step * global_index(op, dims[plan.dim], len(at))
        return read(op, x, {name: first})
    return plan.remap(new, rows, 0, lambda data: cut_range(data, plan.dim, at))


_positional_index = along_axes(lax.index_in_dim, "index_in_dim", ("axis",))
_positional_slice = along_axes(lax.slice_in_dim, "slice_in_dim", ("axis",))


def _one_name(op: str, axis: AxisSpec) -> Hashable:
    names = names_in(axis)
    if len(names) != 1:
        raise ArgumentError(
            f"{op}: axis={format_value(axis)} has {len(names)} names, and there is one index. Write"
            f" axis={format_value(names[0])}."
        )
    return names[0]


def index_in_dim(
    operand: ArrayLike, index: int, axis: AxisSpec = 0, keepdims: bool = True
) -> AnyArray:
    """Read one element along a positional or named axis, as `jax.lax.index_in_dim`.

    Args:
      operand: an array, named or not.
      index: the index, an integer; negative ones count from the end.
      axis: a positional or named axis; by default 0.
      keepdims: if `True` (default), the axis remains with size 1.

    Communication: along a sharded axis, that of `x[name, index]`.

    Raises:
      AxisNotFoundError: `operand` lacks the name.
      AxisSizeError: the index is out of range, or the name would keep a size that it cannot have in
        this mapped function.
    """
    if not names_in(axis):
        return _positional_index(operand, index, axis, keepdims)
    name = _one_name("index_in_dim", axis)
    entry = getitem(operand, {name: as_integer("index_in_dim", "index", index)})
    return expand_dims(entry, name) if keepdims else entry


def slice_in_dim(
    operand: ArrayLike,
    start_index: int | None,
    limit_index: int | None,
    stride: int = 1,
    axis: AxisSpec = 0,
) -> AnyArray:
    """Slice a positional or named axis, as `jax.lax.slice_in_dim`.

    Along a named axis it is `x[name, start:limit:stride]`.

    Args:
      operand: an array, named or not.
      start_index: the first index, or `None` for the beginning.
      limit_index: the index after the last one, or `None` for the end.
      stride: the distance between two indices; by default 1.
      axis: a positional or named axis; by default 0.

    Communication: along a sharded axis, that of `x[name, start:limit:stride]`.

    Raises:
      AxisNotFoundError: `operand` lacks the name.
      AxisSizeError: the name would have a different size in this mapped function.
    """
    if not names_in(axis):
        return _positional_slice(operand, start_index, limit_index, stride, axis)
    name = _one_name("slice_in_dim", axis)
    n = size(operand, name)
    for parameter, index in (("start_index", start_index), ("limit_index", limit_index)):
        if index is not None and not -n <= as_integer("slice_in_dim", parameter, index) <= n:
            raise AxisSizeError(
                f"slice_in_dim: index {index} is out of range for axis {name!r} of size {n} in"
                f" {type_text(operand)}."
            )
    return getitem(operand, {name: builtins.slice(start_index, limit_index, stride)})


LAX_FUNCTIONS = by_name(index_in_dim, slice_in_dim)
