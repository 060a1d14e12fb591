"""Reads by name: `x["batch", 3]`, `x[{"batch": ids, "k": slice(0, 4)}]` and `take_along_axis`.

An index by names resolves to parts, one per axis: an integer, a range or an array.
`namedax.ops.indexing.gather` reads them, and `namedax.ops.indexing.updates` writes with the same
parts.

Communication: over a sharded axis, an integer or an array costs one all-reduce of the result. A
slice costs nothing if every device keeps some of its own block. It costs one collective-permute of
the result's blocks if complete blocks change devices (a flip), and otherwise one reduce-scatter of
the result. The array that is read never moves, and reads along other axes do not communicate. The
gradients communicate only by the transposes of these.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from namedax.core.annotations import AnyArray, ArrayLike, AxisSpec
from namedax.core.array import NamedArray, as_array, dims_of, make_in_region
from namedax.core.display import type_text
from namedax.core.element_types import check_fits, common_type
from namedax.core.name_scopes import in_scope, names_in, scope_text
from namedax.core.names import Dims, is_name
from namedax.core.records import Record
from namedax.core.region import ambient
from namedax.errors import PositionalAxisError, format_value
from namedax.ops.elementwise import FUNCTIONS as _ELEMENTWISE
from namedax.ops.indexing.gather import read_parts
from namedax.ops.indexing.parts import (
    ARRAY,
    READ_MODES,
    Part,
    StandIn,
    by_name,
    is_mask,
    reject_positions,
    resolve,
)
from namedax.ops.indexing.take import index_positional
from namedax.ops.operands import kernels
from namedax.ops.operands.axes import resolve_axis, unwrap_single
from namedax.ops.operands.broadcasting import make_result, to_local
from namedax.ops.operands.operation import operation
from namedax.ops.operands.pytree import data_of, wide_index
from namedax.ops.shape import inspection

__all__ = ["getitem", "read", "take_along_axis"]


def read(
    op: str,
    x: ArrayLike,
    index: object,
    mode: str | None = None,
    fill_value: ArrayLike | None = None,
    hints: Mapping[str, Any] | None = None,
) -> AnyArray:
    """Read `x[index]` for an index by names, with the mode of `x.at[index].get`."""
    if mode not in READ_MODES:
        raise PositionalAxisError(
            f"{op}: mode must be one of {READ_MODES}, got {format_value(mode)}."
        )
    array: AnyArray = to_local(x, op, ambient())
    entries = by_name(op, index, array)
    parts, arrays = resolve(op, array, entries or {})
    if ambient() is None:
        array, parts = _cut_at_operands(op, array, parts)
        if not parts:
            return array
    static = (parts, mode, fill_value, tuple((hints or {}).items()))
    if not isinstance(fill_value, (int, float, complex, type(None))):
        return in_scope(
            scope_text(op, names_in(entries)), _wrapped_read, op, (), *static, array, *arrays
        )
    return kernels.run(op, _wrapped_read, tuple(entries or ()), static, array, *arrays)


def _cut_at_operands(op: str, x: AnyArray, parts: tuple[Part, ...]) -> tuple[Any, tuple[Part, ...]]:
    """Slice `x` at its integers and its contiguous ranges, and return the remaining parts.

    The start indices are operands of the kernel, so that a loop over an axis compiles one program,
    as in `jnp`. In a traced program, and for an array on several devices, they remain static,
    because XLA can optimize static indices.
    """
    data = x._data if type(x) is NamedArray else None
    if data is None or not _is_cut_at_operands(data):
        return x, parts
    cuts: list[tuple[int, int | None]] = []
    starts: list[int] = []
    left: list[Part] = []
    for part in parts:
        n = data.shape[part.dim]
        if isinstance(part.at, int) and n <= _LARGEST:
            cuts.append((part.dim, None))
            starts.append(part.at)
        elif isinstance(part.at, range) and part.at.step == 1 and 0 < len(part.at) < n <= _LARGEST:
            cuts.append((part.dim, len(part.at)))
            starts.append(part.at.start)
        else:
            left.append(part)
    if not cuts:
        return x, parts
    gone = [dim for dim, length in cuts if length is None]
    moved = tuple(part.replace(dim=part.dim - sum(dim < part.dim for dim in gone)) for part in left)
    return kernels.run(op, _cut, None, (tuple(cuts),), x, *starts), moved


def _is_cut_at_operands(data: object) -> bool:
    """Return True if `data` is a concrete array on one device."""
    return (
        isinstance(data, jax.Array)
        and not isinstance(data, jax.core.Tracer)
        and len(data.sharding.device_set) == 1
    )


_LARGEST = np.iinfo(np.int32).max


def _cut(
    op: str, _: None, cuts: tuple[tuple[int, int | None], ...], x: NamedArray, *starts: jax.Array
) -> AnyArray:
    """Slice each dimension of `cuts` from its start index, to its length or to one element.

    One element (length `None`) drops the dimension.
    """
    data = x._data
    for (dim, length), start in zip(cuts, starts, strict=True):
        data = lax.dynamic_slice_in_dim(data, start, length or 1, dim, allow_negative_indices=False)
    gone = [dim for dim, length in cuts if length is None]
    return make_result(
        lax.squeeze(data, gone), tuple(name for dim, name in enumerate(x._dims) if dim not in gone)
    )


def _wrapped_read(
    op: str,
    _: object,
    parts: Sequence[Part],
    mode: str | None,
    fill_value: ArrayLike | None,
    hints: tuple[tuple[str, Any], ...],
    x: AnyArray,
    *arrays: AnyArray,
) -> AnyArray:
    options = {"mode": mode, "fill_value": fill_value, **dict(hints)}
    return make_result(*read_parts(op, x, parts, arrays, options))


@operation(lambda x, index: by_name("getitem", index, x), name="getitem", on_blocks=True)
def getitem(x: ArrayLike, index: object, /) -> AnyArray:
    """Read `x[index]`, by name or by position.

    By name, the index is a name followed by its index, several such pairs, or a dict from names
    (and positional axes) to indices. By position, it follows `jnp` over the positional axes; a
    named index array is used per instance.

    Args:
      x: a named array.
      index: integers drop their axis, and slices keep its name. Integer arrays, named or not,
        broadcast by name, and their axes replace the axis. Axes that an index array shares with `x`
        are batch axes, except the indexed axis itself, along which it gathers. A boolean array must
        have static values.

    Returns:
      The axes of the index arrays, and the remaining axes of `x`. Positional axes of index arrays
      replace the positional axes that they index, and come first if only named axes are indexed. An
      index array out of range reads the last element, as in `jnp`.

    Communication: over a sharded axis, an integer or an array costs one all-reduce of the result.
    If the index itself has that axis, it costs one all-gather of the index and one reduce-scatter
    of the result. A slice costs nothing if every device keeps some of its own block (`::2`). It
    costs one collective-permute if blocks change devices (`::-1`), and otherwise one reduce-scatter
    of the result. Along other axes there is no communication.

    Raises:
      AxisNotFoundError: `x` lacks an axis.
      AxisSizeError: an integer is out of range; an axis has two sizes; a slice changes a size that
        the mapped function fixes.
      PlacementConflictError: an index array has an axis that is sharded over the mesh axis of
        another axis of `x`.
      PositionalAxisError: the index is malformed, or the shape of the result would depend on data.

    >>> import jax.numpy as jnp, namedax as nx
    >>> from namedax.ops.indexing.getitem import getitem
    >>> x = nx.named(jnp.arange(12.0).reshape(4, 3), ["batch", "k"])
    >>> getitem(x, ("batch", 3))
    NamedArray(f32[]{k:3}, dims=(k),
    [ 9., 10., 11.])
    >>> pick = nx.named(jnp.array([2, 0]), ["pick"])
    >>> getitem(x, {"batch": slice(0, 2), "k": pick}).named_shape["pick"]
    2
    """
    if by_name("getitem", index, x) is not None:
        return read("getitem", x, index)
    for part in index if isinstance(index, tuple) else (index,):
        if is_mask(part) and (isinstance(part, NamedArray) or isinstance(part, jax.core.Tracer)):
            raise PositionalAxisError(
                f"getitem: the shape of {type_text(x)} read at the boolean mask {type_text(part)}"
                " would depend on data. Keep the shape with nx.where(mask, x, fill)."
            ).about(depends_on_data=True)
    reject_positions("getitem", "x", x, index)
    entries = _cuts_by_position(x, index)
    return index_positional(x, index) if entries is None else read("getitem", x, entries)


def _cuts_by_position(x: ArrayLike, index: object) -> dict[int, Any] | None:
    """Return the integers and slices of a positional index, or `None`.

    It is `None` if the index has other elements, or if the start indices must be static.
    """
    parts = index if isinstance(index, tuple) else (index,)
    if ambient() is not None or not isinstance(x, NamedArray) or not _is_cut_at_operands(x._data):
        return None
    shape, entries = x.shape, dict[int, Any]()
    position, rest = 0, len(shape) - sum(part is not Ellipsis for part in parts)
    for part in parts:
        if part is Ellipsis and rest >= 0:
            position, rest = position + rest, -1  # at most one ellipsis
            continue
        if position >= len(shape):
            return None
        n = shape[position]
        if type(part) is int and -n <= part < n:
            entries[position] = part
        elif type(part) is slice and all(
            bound is None or type(bound) is int for bound in (part.start, part.stop, part.step)
        ):
            entries[position] = part
        else:
            return None
        position += 1
    return entries


class _Place(StandIn):
    """A temporary name for a positional axis."""


def _without_negative(
    x: ArrayLike, indices: ArrayLike, axis: AxisSpec, mode: str | None
) -> AnyArray:
    """Replace negative indices by the size of the axis, to be filled, or by 0, to be clipped."""
    (dim,) = resolve_axis("take_along_axis", x, (axis,))
    name = dims_of(x)[dim]
    size = inspection.size(x, dims_of(x)[:dim].count(None) if name is None else name)
    index: AnyArray = as_array(indices)
    index = index.astype(common_type(index.dtype, jnp.int32))
    outside = jnp.asarray(0 if mode == "clip" else size, index.dtype)
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
    array, index = _array_and_indices(op, x, indices)
    axis = unwrap_single(axis, dims_of(array))
    (dim,) = resolve_axis(op, array, (axis,))
    if not is_name(axis) and array.ndim != index.ndim:
        raise PositionalAxisError(
            f"{op}: {type_text(array)} and the indices {type_text(index)} have {array.ndim} and"
            f" {index.ndim} positional axes; along a positional axis these numbers must be equal."
        )
    at = None if is_name(axis) else dims_of(array)[:dim].count(None)
    stand_ins = _StandIns.of(op, array, index, at)
    if mode not in READ_MODES:
        raise PositionalAxisError(
            f"{op}: mode must be one of {READ_MODES}, got {format_value(mode)}."
        )
    check_fits(op, "fill_value", fill_value, array.dtype)
    source, at_index = stand_ins.rename(array), stand_ins.rename(index)
    parts = (Part(source._dims.index(axis if at is None else stand_ins.target), ARRAY),)
    options = {"mode": mode or "fill", "fill_value": fill_value}
    return stand_ins.restore(*read_parts(op, source, parts, [at_index], options))


def _array_and_indices(
    op: str, x: ArrayLike, indices: ArrayLike
) -> tuple[NamedArray | jax.Array, NamedArray | jax.Array]:
    """Return the local blocks of an array and of integer indices."""
    region = ambient()
    array: AnyArray = as_array(to_local(x, op, region))
    index: AnyArray = as_array(to_local(indices, op, region))
    if not jnp.issubdtype(index.dtype, jnp.integer):
        raise PositionalAxisError(f"{op}: the indices {type_text(index)} are not integers.")
    return array, wide_index(index)


class _StandIns(Record):
    """Temporary names for positional axes, so that these broadcast by name.

    Attributes:
      names: the names, from left to right.
      sizes: the sizes to which the positional axes broadcast; 1 for the target.
      target: the name of the axis to read along; `None` if that axis has a name.
    """

    names: Sequence[_Place]
    sizes: tuple[int, ...]
    target: _Place | None

    @classmethod
    def of(cls, op: str, array: AnyArray, index: AnyArray, at: int | None) -> _StandIns:
        """Return names for the positional axes of both; `at` is the axis to read along."""
        count = max(array.ndim, index.ndim)
        names = [_Place(n - count) for n in range(count)]
        shapes = [list(v.shape) for v in (array, index)]
        if at is not None:
            for shape in shapes:
                shape[at] = 1
        try:
            sizes = np.broadcast_shapes(*map(tuple, shapes))
        except ValueError:
            raise PositionalAxisError(
                f"{op}: the positional axes of {type_text(array)} and of the indices"
                f" {type_text(index)} do not broadcast."
            ) from None
        return cls(names, sizes, None if at is None else names[at])

    def rename(self, value: AnyArray) -> NamedArray:
        """Give the positional axes of `value` their names.

        An axis of size 1 broadcasts. A missing name does the same, so such axes are dropped.
        """
        data, dims = data_of(value), dims_of(value)
        own = iter(range(len(self.names) - value.ndim, len(self.names)))
        places = [None if dim is not None else next(own) for dim in dims]
        ones = [
            i
            for i, n in enumerate(places)
            if n is not None
            and self.names[n] is not self.target
            and data.shape[i] == 1
            and self.sizes[n] != 1
        ]
        named = (dim if n is None else self.names[n] for dim, n in zip(dims, places, strict=True))
        kept = tuple(dim for i, dim in enumerate(named) if i not in ones)
        return make_in_region(lax.squeeze(data, ones), kept)

    def restore(self, data: jax.Array, dims: Dims) -> AnyArray:
        """Make the axes with temporary names positional again, after the named axes."""
        order = [dims.index(name) for name in self.names if name in dims]
        names = [i for i in range(len(dims)) if i not in order]
        result_dims = (*(dims[i] for i in names), *[None] * len(order))
        return make_result(lax.transpose(data, names + order), result_dims)
