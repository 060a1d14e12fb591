"""Reads by name: `x["batch", 3]`, `x[{"batch": ids, "k": slice(0, 4)}]` and `take_along_axis`.

An index by names resolves to parts, one per axis: an integer, a range or an array. Integers and
ranges of axes that are not sharded are sliced first; then one gather per instance reads all arrays
together. `namedax.ops.indexing.updates` writes with the same parts.

Communication: over a sharded axis, an integer or an array costs one all-reduce of the result. A
slice costs nothing if every device keeps some of its own block. It costs one collective-permute of
the result's blocks if complete blocks change devices (a flip), and otherwise one reduce-scatter of
the result. The array that is read never moves, and reads along other axes do not communicate. The
gradients communicate only by the transposes of these.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import NamedSharding, PartitionSpec

from namedax.core.annotations import AnyArray, ArrayLike, AxisSpec
from namedax.core.array import NamedArray, as_array, dims_of, make_in_region
from namedax.core.display import type_text
from namedax.core.element_types import beyond, check_fits, common_type, to_type, weak_as
from namedax.core.name_scopes import in_scope, names_in, scope_text
from namedax.core.names import Dims, is_name
from namedax.core.padded_sharding import Uneven, plain
from namedax.core.region import ambient
from namedax.core.variance import cast, cast_data, varying
from namedax.errors import AxisSizeError, PositionalAxisError, format_value
from namedax.ops.elementwise import FUNCTIONS as _ELEMENTWISE
from namedax.ops.indexing.parts import (
    ARRAY,
    READ_MODES,
    OwnAxis,
    Part,
    StandIn,
    by_name,
    global_size,
    is_mask,
    joint_indices,
    reject_positions,
    resolve,
    visible_order,
)
from namedax.ops.indexing.take import index_positional
from namedax.ops.operands import kernels
from namedax.ops.operands.axes import resolve_axis, unwrap_single
from namedax.ops.operands.broadcasting import make_result, to_local
from namedax.ops.operands.operation import operation
from namedax.ops.operands.pytree import data_of, wide_index
from namedax.ops.shape import inspection
from namedax.resources import communication as comm
from namedax.resources.mesh import explicit_axes_of, is_tracked, replicated
from namedax.resources.padding import zero_cotangent
from namedax.resources.padding_masks import refilled
from namedax.resources.row_moves import FILL, move_rows

__all__ = ["cut_range", "getitem", "read", "read_parts", "take_along_axis"]


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
    return make_result(*read_parts(op, x, parts, arrays, mode, fill_value, dict(hints)))


def read_parts(
    op: str,
    x: AnyArray,
    parts: Sequence[Part],
    arrays: Sequence[Any],
    mode: str | None,
    fill_value: ArrayLike | None,
    hints: Mapping[str, Any],
) -> tuple[Any, Dims]:
    """Read an index with resolved parts, and return the data and the dims.

    Args:
      op: the operation.
      x: the local block.
      parts: the resolved index.
      arrays: the index array of each part that is `ARRAY`.
      mode: the handling of indices out of range, as in `x.at[...].get`.
      fill_value: the fill value.
      hints: the other options of `x.at[...].get`.
    """
    region = ambient()
    data, dims = (x._data, x._dims) if isinstance(x, NamedArray) else (jnp.asarray(x), dims_of(x))
    supply: Iterator[Any] = iter(arrays)
    labels = list(range(len(dims)))  # the dimensions of x that remain in `data`
    gathered: list[int] = []
    indices: list[Any] = []
    own = {name: OwnAxis(name) for name in (dims[part.dim] for part in parts) if name is not None}
    for part in parts:
        placed = (
            region.place(dims[part.dim])
            if region is not None and dims[part.dim] is not None
            else ()
        )
        if part.at == ARRAY:
            gathered.append(part.dim)
            indices.append(next(supply))
            continue
        if isinstance(part.at, int) and placed:
            gathered.append(part.dim)
            indices.append(part.at)
            continue
        place = labels.index(part.dim)
        if isinstance(part.at, int):
            data = lax.index_in_dim(data, part.at, place, keepdims=False)
            labels.remove(part.dim)
        elif not placed:
            data = cut_range(data, place, part.at)  # type: ignore[arg-type]
        else:
            moved = _slice_blocks(data, place, part.at, placed)  # type: ignore[arg-type]
            if moved is None:
                gathered.append(part.dim)
                indices.append(
                    make_in_region(jnp.asarray(np.asarray(part.at)), (own[dims[part.dim]],))
                )
            else:
                data = moved
    if not gathered:
        return data, tuple(dims[i] for i in labels)
    own = {name: axis for name, axis in own.items() if any(dims[i] == name for i in gathered)}
    datas, joint = joint_indices(op, x, own, indices)
    return _gather(op, x, data, labels, parts, gathered, datas, joint, mode, fill_value, hints)


def cut_range(data: jax.Array, dim: int, at: range) -> jax.Array:
    """Read the elements of a static range along a dimension that is not sharded."""
    if len(at) == data.shape[dim] and at.step == 1:
        return data
    if not len(at):
        return lax.slice_in_dim(data, 0, 0, axis=dim)
    first, last = min(at[0], at[-1]), max(at[0], at[-1])
    part = lax.slice_in_dim(data, first, last + 1, abs(at.step), dim)
    return lax.rev(part, (dim,)) if at.step < 0 else part


def _slice_blocks(
    data: jax.Array, dim: int, at: range, mesh_axes: tuple[str, ...]
) -> jax.Array | None:
    """Read a range along a sharded dimension, by a permutation of blocks.

    Return `None` if a device needs rows of several devices.
    """
    if isinstance(mesh_axes, Uneven):  # its size does not change: same order or reversed
        return data if at.step == 1 or len(at) == 1 else _flipped(data, dim, mesh_axes)
    devices = int(np.prod([lax.axis_size(axis) for axis in mesh_axes]))
    block, new = data.shape[dim], len(at) // devices
    if not new:
        return lax.slice_in_dim(data, 0, 0, axis=dim)
    wanted = np.asarray(at).reshape(devices, new)
    source = wanted // block
    if (source != source[:, :1]).any() or len(set(source[:, 0])) != devices:
        return None
    perm = [(int(source[target, 0]), target) for target in range(devices)]
    starts = np.empty(devices, int)
    starts[source[:, 0]] = wanted[:, 0] % block
    if len(set(starts)) == 1:
        start = int(starts[0])
        data = cut_range(data, dim, range(start, start + new * at.step, at.step))
    else:
        # Each device sends the slice of its block that starts at its own offset.
        first = jnp.asarray(starts)[comm.block_index(mesh_axes)]
        union = varying(data) | frozenset(mesh_axes)
        index = cast_data(first + at.step * jnp.arange(new), union)
        data = jnp.take(cast_data(data, union), index, axis=dim, mode="clip")
    return data if all(a == b for a, b in perm) else comm.ppermute(data, mesh_axes, perm)


def _flipped(data: jax.Array, dim: int, place: Uneven) -> jax.Array:
    """Reverse a padded dimension by row moves, and refill the padding by an all-reduce of a row."""
    block, devices = data.shape[dim], int(np.prod([lax.axis_size(axis) for axis in place]))
    entry = np.arange(block * devices).reshape(devices, block)
    rows = np.where(entry < place.size, place.size - 1 - entry, FILL)
    return refilled(move_rows(data, dim, plain(place), rows), dim, place)


def _read_sharding(data: Any, indices: Sequence[Any], count: int) -> NamedSharding | None:
    """Return the sharding of a read of an unplaced array at index arrays on Explicit mesh axes.

    JAX does not derive it. The array is indexed along its first `count` axes. Return `None` if it
    is placed itself, or if no index is sharded.
    """
    indices = [index for index in indices if np.ndim(index)]
    rank = max((np.ndim(index) for index in indices), default=0)
    entries: list[tuple[str, ...]] = [()] * rank
    mesh: Any = None
    for index in indices:
        for i in range(np.ndim(index)):
            axes = explicit_axes_of(index, i)
            used = {axis for entry in entries for axis in entry}
            if axes and used.isdisjoint(axes) and not entries[i - np.ndim(index)]:
                entries[i - np.ndim(index)] = axes
                mesh = jax.typeof(index).sharding.mesh
    if mesh is None or is_tracked(data):
        return None
    rest = [None] * (data.ndim - count)
    return NamedSharding(mesh, PartitionSpec(*(entry or None for entry in entries), *rest))


def _gather(
    op: str,
    x: AnyArray,
    data: jax.Array,
    labels: list[int],
    parts: Sequence[Part],
    gathered: list[int],
    indices: list[Any],
    joint: Dims,
    mode: str | None,
    fill_value: ArrayLike | None,
    hints: Mapping[str, Any],
) -> tuple[Any, Dims]:
    """Read `data` at the index arrays, per instance, and combine the reads of the devices."""
    region, dims = ambient(), dims_of(x)
    names = [dims[i] for i in labels]
    placements = [
        region.place(dims[i]) if region is not None and dims[i] is not None else ()
        for i in gathered
    ]
    mesh_axes = tuple(axis for placement in placements for axis in placement)
    if region is not None and region.manual:
        data, indices = _varying_alike(x, data, indices, mesh_axes)
    shared = [dim for dim in joint if dim is not None and dim in names]
    _check_shared(op, x, {name: data.shape[names.index(name)] for name in shared}, joint, indices)
    # Shared names in front, then the axes of the read, then the rest.
    order = [names.index(name) for name in shared] + [labels.index(i) for i in gathered]
    rest = [i for i in range(len(labels)) if i not in order]
    index_order = [joint.index(name) for name in shared]
    index_order += [i for i in range(len(joint)) if i not in index_order]
    data = lax.transpose(data, order + rest)
    indices = [lax.transpose(index, index_order) if np.ndim(index) else index for index in indices]
    if mesh_axes:
        blocks = data.shape[len(shared) : len(order)]
        sizes = [
            global_size(region, dims[i], block) for i, block in zip(gathered, blocks, strict=True)
        ]
        function = _local_read(mode, fill_value, blocks, sizes, placements, mesh_axes)
    else:
        options: dict[str, Any] = {"mode": mode, "fill_value": fill_value, **hints}
        sharding = _read_sharding(data, indices, len(order))
        if shared and sharding is not None:  # JAX maps instances only if they are sharded alike
            indices = [replicated(index) if np.ndim(index) else index for index in indices]
        elif sharding is not None:
            data = jax.reshard(data, sharding.update(spec=PartitionSpec(*[None] * data.ndim)))
            options["out_sharding"] = sharding
        function = lambda rows, *at: rows.at[at].get(**options)  # noqa: E731
    for _ in shared:
        function = jax.vmap(
            function, in_axes=(0, *(0 if np.ndim(index) else None for index in indices))
        )
    result = weak_as(function(data, *indices), data)
    out = [joint[i] for i in index_order] + [dims[labels[i]] for i in rest]
    out = [dim.name if isinstance(dim, OwnAxis) else dim for dim in out]
    if mesh_axes:
        placed = {
            dims[i]: placement
            for i, placement in zip(gathered, placements, strict=True)
            if placement
        }
        own = [
            (n, placed[dim])
            for n, dim in enumerate(out[: len(joint)])
            if dim is not None and dim in placed
        ]
        result = _combine(result, own, mesh_axes)
        if comm.is_keys(data):
            result = jax.random.wrap_key_data(result, impl=jax.random.key_impl(data))
        else:
            result = to_type(result, data.dtype)
    # Positional axes in the order that the caller sees.
    rank = joint.count(None)
    internal = [("index", k) for k in range(rank)] + [
        labels[i] for i in rest if dims[labels[i]] is None
    ]
    return _in_visible_order(result, out, internal, visible_order(dims, parts, rank)), tuple(out)


def _varying_alike(
    x: AnyArray, data: jax.Array, indices: Sequence[Any], mesh_axes: tuple[str, ...]
) -> tuple[Any, list[Any]]:
    """Cast the data to read, a slice of `x` or all of it, and the indices to one variance."""
    union = varying(data) | frozenset(mesh_axes)
    union |= frozenset[str]().union(*(varying(i) for i in indices if hasattr(i, "dtype")))
    data = (
        cast(x, union) if isinstance(x, NamedArray) and data is x._data else cast_data(data, union)
    )
    return data, [cast_data(jnp.asarray(index), union) for index in indices]


def _check_shared(
    op: str, x: AnyArray, sizes: Mapping[Hashable, int], joint: Dims, indices: Sequence[Any]
) -> None:
    """Raise if an axis that `x` and an index share has two sizes; `sizes` are its sizes in `x`."""
    shape = next((np.shape(index) for index in indices if np.ndim(index)), ())
    for name, size in sizes.items():
        if size != shape[joint.index(name)]:
            raise AxisSizeError(
                f"{op}: axis {name!r} has size {size} in the array, {type_text(x)}, and size"
                f" {shape[joint.index(name)]} in an index; a name has one size. Rename one of the"
                " two axes."
            )


def _in_visible_order(
    result: jax.Array, dims: Sequence[Any], internal: Sequence[Any], wanted: Sequence[Any]
) -> jax.Array:
    """Transpose the positional axes of a result from the order `internal` to the order `wanted`."""
    if internal == wanted:
        return result
    places = [n for n, dim in enumerate(dims) if dim is None]
    final = list(range(len(dims)))
    for place, what in zip(places, wanted, strict=True):
        final[place] = places[internal.index(what)]
    return lax.transpose(result, final)


def _local_read(
    mode: str | None,
    fill_value: ArrayLike | None,
    blocks: Sequence[int],
    sizes: Sequence[int],
    placements: Sequence[tuple[str, ...]],
    mesh_axes: tuple[str, ...],
) -> Callable[..., Any]:
    """Build the read of one device, which returns its own rows, and zeros for the others."""

    def read_local(rows: jax.Array, *at: jax.Array) -> jax.Array:
        valid: Any = True
        here: Any = True
        safe = []
        for i, block, size, axes in zip(at, blocks, sizes, placements, strict=True):
            i = jnp.where(i < 0, i + size, i)
            valid = valid & (i >= 0) & (i < size)
            if mode not in ("fill", "drop"):
                i = jnp.clip(i, 0, size - 1)
            elif isinstance(axes, Uneven):
                here = here & (i < size)
            if axes:
                i = i - comm.block_index(axes).astype(i.dtype) * block
            here = here & (i >= 0) & (i < block)
            safe.append(jnp.clip(i, 0, block - 1))
        values = rows.at[tuple(safe)].get(mode="promise_in_bounds")
        if comm.is_keys(values):  # words can be summed
            values = jax.random.key_data(values)

        def over(flag: jax.Array) -> jax.Array:
            return jnp.reshape(flag, flag.shape + (1,) * (values.ndim - flag.ndim))

        if mode is None or mode == "promise_in_bounds":
            # As in jnp, an index out of range reads the last element, and has no gradient.
            values = jnp.where(over(valid), values, zero_cotangent(values))
        values = comm.only_where(over(here), values)
        if mode not in ("fill", "drop"):
            return values
        # An index out of range belongs to no device; the first device fills it.
        nobody = ~valid & (comm.block_index(mesh_axes) == 0)
        return jnp.where(
            over(nobody),
            beyond(values.dtype) if fill_value is None else jnp.asarray(fill_value, values.dtype),
            values,
        )

    return read_local


def _combine(
    partial: jax.Array, own: Sequence[tuple[int, tuple[str, ...]]], mesh_axes: tuple[str, ...]
) -> jax.Array:
    """Sum the partial reads: a reduce-scatter if an axis stays sharded, else an all-reduce."""
    truth = partial.dtype == jnp.bool_
    if truth:
        partial = partial.astype(jnp.int8)
    for dim, axes in own:
        partial = comm.psum_scatter(partial, dim, axes)
        mesh_axes = tuple(axis for axis in mesh_axes if axis not in axes)
    if mesh_axes:
        partial = comm.psum(partial, mesh_axes)
    return partial.astype(jnp.bool_) if truth else partial


@operation(name="getitem")
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
        data, dims = data_of(value), dims_of(value)
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
