"""Read along one axis: slices under new names, and elements at indices that differ.

In a mapped function a name has one size, so a slice (`slice`) has another name, which may have
another sharding. Only the requested rows move. `take_along_axis` takes an index for each element.
"""

from __future__ import annotations

import builtins
from collections.abc import Hashable, Mapping

import jax.numpy as jnp
import numpy as np
from jax import lax

from namedax.core.annotations import AnyArray, ArrayLike, AxisSpec, LikeArguments
from namedax.core.array import NamedArray, as_array, dims_of, make_in_region
from namedax.core.display import type_text
from namedax.core.element_types import check_fits, common_type
from namedax.core.names import is_name
from namedax.core.region import ambient
from namedax.errors import (
    ArgumentError,
    ArgumentTypeError,
    AxisSizeError,
    PositionalAxisError,
    as_integer,
    format_value,
)
from namedax.operands.along_axes import along_axes, by_name, names_in
from namedax.operands.axes import new_names, resolve_axis, unwrap_single
from namedax.operands.broadcasting import make_result, to_local
from namedax.operands.one_axis import along, run
from namedax.operands.operation import operation
from namedax.operands.pytree import wide_index
from namedax.ops.collectives.reducing import global_index
from namedax.ops.elementwise import FUNCTIONS as _ELEMENTWISE
from namedax.ops.indexing.getitem import cut_range, getitem, read, read_parts
from namedax.ops.indexing.parts import ARRAY, READ_MODES, Part, StandIn, range_of
from namedax.ops.shape.broadcast_to import expand_dims
from namedax.ops.shape.inspection import size

__all__ = ["LAX_FUNCTIONS", "slice", "take_along_axis"]


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

    Communication over a sharded axis: if the new name has the same mesh axes, each device receives
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
            f"{op}: the index {format_value(index)} is not a mapping; write nx.slice(x, {{'w':"
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
    return run("slice", _slice, (name, new), (entry.start, entry.stop, entry.step), x)


def _slice(
    op: str,
    names: tuple[Hashable, Hashable | None],
    start: int | None,
    stop: int | None,
    step: int | None,
    x: ArrayLike,
) -> AnyArray:
    name, new = names
    site = along(op, x, name, supports_padding=True)
    at = range_of(op, builtins.slice(start, stop, step), name, site.size)
    rows = np.asarray(at, int)
    dims, placed = site.result(new, len(at))
    # If the slice is replicated, each device contributes its rows; gathering all rows sends less if
    # most of them are requested.
    moves = placed and len(at) % site.blocks(site.old) == 0
    if site.old and not moves and not set(placed) & set(site.old) and 2 * len(at) < site.size:
        first = at.start + at.step * global_index(op, dims[site.dim], len(at))
        return read(op, x, {name: first})
    return site.remap(new, rows, 0, lambda data: cut_range(data, site.dim, at))


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

    Along a named axis it is `x[name, start:limit:stride]`, with the same communication.

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


class _Place(StandIn):
    """A temporary name for a positional axis."""


def _without_negative(
    x: ArrayLike, indices: ArrayLike, axis: AxisSpec, mode: str | None
) -> AnyArray:
    """Replace negative indices by the size of the axis, to be filled, or by 0, to be clipped."""
    (dim,) = resolve_axis("take_along_axis", x, (axis,))
    name = dims_of(x)[dim]
    n = size(x, dims_of(x)[:dim].count(None) if name is None else name)
    index: AnyArray = as_array(indices)
    index = index.astype(common_type(index.dtype, jnp.int32))
    outside = jnp.asarray(0 if mode == "clip" else n, index.dtype)
    return _ELEMENTWISE["where"](index < 0, outside, index)


@operation(scope=True)
def take_along_axis(
    x: ArrayLike,
    indices: ArrayLike,
    axis: AxisSpec = -1,
    mode: str | None = None,
    fill_value: ArrayLike | None = None,
    *,
    wrap_negative_indices: bool | None = None,
) -> AnyArray:
    """Take elements of `x` along one axis, at indices that differ between elements.

    Args:
      x: an array, named or not.
      indices: integers. Along `axis` their size may differ from that of `x` (not in a mapped
        function that fixes it). If they lack `axis`, so does the result. All other axes, named and
        positional, broadcast with those of `x`.
      axis: a positional or named axis; by default -1.
      mode: the result for an index out of range: `"fill"` (default; NaN, or the least integer, or
        `fill_value`), `"clip"`, or `"promise_in_bounds"`.
      fill_value: the fill value; by default `None`.
      wrap_negative_indices: if `False`, negative indices are out of range; by default they count
        from the end.

    Communication: along a sharded axis, one all-gather of the indices and one reduce-scatter of the
    result.

    Raises:
      AxisNotFoundError: `x` lacks the name.

    >>> import jax.numpy as jnp, namedax as nx
    >>> x = nx.named(jnp.array([[3.0, 1.0, 2.0], [5.0, 6.0, 4.0]]), ["batch", "k"])
    >>> order = nx.named(jnp.array([[1, 2, 0], [2, 0, 1]]), ["batch", "k"])
    >>> nx.positional(nx.take_along_axis(x, order, "k"), ["batch", "k"])
    Array([[1., 2., 3.],
           [4., 5., 6.]], dtype=float32)
    """
    if wrap_negative_indices is False and mode != "promise_in_bounds":
        indices = _without_negative(x, indices, axis, mode)
    op = "take_along_axis"
    region = ambient()
    array: AnyArray = as_array(to_local(x, op, region))
    index: AnyArray = as_array(to_local(indices, op, region))
    if not jnp.issubdtype(index.dtype, jnp.integer):
        raise PositionalAxisError(f"{op}: the indices {type_text(index)} are not integers.")
    index = wide_index(index)
    axis = unwrap_single(axis, dims_of(array))
    (dim,) = resolve_axis(op, array, (axis,))
    if not is_name(axis) and array.ndim != index.ndim:
        raise PositionalAxisError(
            f"{op}: {type_text(array)} and the indices {type_text(index)} have {array.ndim} and"
            f" {index.ndim} positional axes; along a positional axis these numbers must be equal."
        )
    # Positional axes temporarily become names, so that they broadcast.
    count = max(array.ndim, index.ndim)
    stand_ins = [_Place(-1 - n) for n in range(count)][::-1]
    at = dims_of(array)[:dim].count(None) if not is_name(axis) else None
    shapes = [list(v.shape) for v in (array, index)]
    if at is not None:
        for shape in shapes:
            shape[at] = 1
    try:
        common = np.broadcast_shapes(*map(tuple, shapes))
    except ValueError:
        raise PositionalAxisError(
            f"{op}: the positional axes of {type_text(array)} and of the indices {type_text(index)}"
            " do not broadcast."
        ) from None
    target = axis if at is None else stand_ins[at]

    def stand_in(value: AnyArray) -> NamedArray:
        data, dims = value._data if isinstance(value, NamedArray) else value, dims_of(value)
        own = iter(stand_ins[count - value.ndim :])
        named = [next(own) if dim is None else dim for dim in dims]
        # An axis of size 1 broadcasts; a missing name does the same.
        ones = [
            i
            for i, dim in enumerate(named)
            if isinstance(dim, _Place)
            and dim is not target
            and data.shape[i] == 1
            and common[stand_ins.index(dim)] != 1
        ]
        data = lax.squeeze(data, ones)
        return make_in_region(data, tuple(dim for i, dim in enumerate(named) if i not in ones))

    if mode not in READ_MODES:
        raise PositionalAxisError(
            f"{op}: mode must be one of {READ_MODES}, got {format_value(mode)}."
        )
    check_fits(op, "fill_value", fill_value, array.dtype)
    source, at_index = stand_in(array), stand_in(index)
    data, dims = read_parts(
        op,
        source,
        (Part(source._dims.index(target), ARRAY),),
        [at_index],
        mode or "fill",
        fill_value,
        {},
    )
    order = [dims.index(dim) for dim in stand_ins if dim in dims]
    names = [i for i, dim in enumerate(dims) if not isinstance(dim, _Place)]
    return make_result(
        lax.transpose(data, names + order), tuple(dims[i] for i in names) + (None,) * len(order)
    )
