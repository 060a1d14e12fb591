"""Reading by name: `x["batch", 3]` and `x[{"batch": ids, "k": slice(0, 4)}]`.

An index by names is resolved into parts, one per axis: an integer, a range or an array. The integers and ranges of axes that
are whole on every device are cut out first; then all arrays are read together, per instance, in one gather.
`namedax.ops.indexing.updates` writes with the same parts.

What a read costs over a sharded axis: an integer or an array one all-reduce of the result; a slice nothing if every device
keeps a part of its own block, one collective-permute of the result's blocks if whole blocks change places (a flip), and
otherwise one reduce-scatter of the result. The array that is read never moves, and reading along other axes sends nothing. The
gradients send nothing more, but for the transposes of these.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from namedax.core.annotations import Array
from namedax.core.array import NamedArray, dims_of, make_in_region
from namedax.core.display import type_text
from namedax.core.element_types import beyond, weak_as
from namedax.core.name_scopes import in_scope, names_in, scope_text
from namedax.core.names import Dims
from namedax.core.padded_sharding import Uneven, plain
from namedax.core.region import ambient
from namedax.core.variance import cast, cast_data, varying
from namedax.errors import AxisSizeError, PositionalAxisError, format_value
from namedax.operands import kernels
from namedax.operands.broadcasting import make_result, to_local
from namedax.operands.operation import operation
from namedax.ops.indexing.parts import (
    ARRAY,
    READ_MODES,
    OwnAxis,
    Part,
    by_name,
    global_size,
    is_mask,
    joint_indices,
    refuse_positions,
    resolve,
    visible_order,
)
from namedax.ops.indexing.take import index_positional
from namedax.resources import communication as comm
from namedax.resources.padding_gradients import zero_cotangent
from namedax.resources.padding_masks import refilled
from namedax.resources.row_moves import FILL, move_rows

__all__ = ["cut_range", "getitem", "read", "read_parts"]


def read(
    op: str, x: Any, index: Any, mode: str | None = None, fill_value: Any = None, hints: Mapping[str, Any] | None = None
) -> Any:
    """`x[index]` for an index by names, with the mode of `x.at[index].get`."""
    if mode not in READ_MODES:
        raise PositionalAxisError(f"{op}: mode={format_value(mode)} is none of {READ_MODES}.")
    x = to_local(x, op, ambient())
    entries = by_name(op, index, x)
    parts, arrays = resolve(op, x, entries or {})
    if ambient() is None:
        x, parts = _cut_at_operands(op, x, parts)
        if not parts:
            return x
    static = (parts, mode, fill_value, tuple((hints or {}).items()))
    if not isinstance(fill_value, (int, float, complex, type(None))):
        return in_scope(scope_text(op, names_in(entries)), _wrapped_read, op, (), *static, x, *arrays)
    return kernels.run(op, _wrapped_read, tuple(entries or ()), static, x, *arrays)


# --- one program for all places ---------------------------------------------------------------------------------------


def _cut_at_operands(op: str, x: Any, parts: tuple[Part, ...]) -> tuple[Any, tuple[Part, ...]]:
    """`x` after its integers and its ranges of neighbours, and the parts that are left.

    Where they begin is an operand of the kernel, so that a loop over an axis compiles one program, as it does in `jnp`. In a program
    that is traced, and of an array on several devices, they stay what they are: there XLA may know better.
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


def _is_cut_at_operands(data: Any) -> bool:
    """Whether `data` is an array on one device, and no tracer."""
    return isinstance(data, jax.Array) and not isinstance(data, jax.core.Tracer) and len(data.sharding.device_set) == 1


_LARGEST = np.iinfo(np.int32).max


def _cut(op: str, _: None, cuts: tuple[tuple[int, int | None], ...], x: NamedArray, *starts: Any) -> Any:
    """`x` with a part of each dimension of `cuts`: one entry, and the dimension goes, or so many from where it starts."""
    data = x._data
    for (dim, length), start in zip(cuts, starts, strict=True):
        data = lax.dynamic_slice_in_dim(data, start, length or 1, dim, allow_negative_indices=False)
    gone = [dim for dim, length in cuts if length is None]
    return make_result(lax.squeeze(data, gone), tuple(name for dim, name in enumerate(x._dims) if dim not in gone))


def _wrapped_read(op: str, _: Any, parts: Sequence[Part], mode: Any, fill_value: Any, hints: Any, x: Any, *arrays: Any) -> Any:
    return make_result(*read_parts(op, x, parts, arrays, mode, fill_value, dict(hints)))


def read_parts(
    op: str, x: Any, parts: Sequence[Part], arrays: Sequence[Any], mode: Any, fill_value: Any, hints: Any
) -> tuple[Any, Dims]:
    """The data and the dims of a read, whose parts are known.

    Args:
      op: the operation.
      x: the local block.
      parts: the index.
      arrays: for each part that is `ARRAY`, where it reads.
      mode: what is read out of range, as in `x.at[...].get`.
      fill_value: what to fill with.
      hints: for `x.at[...].get`.
    """
    region = ambient()
    data, dims = (x._data, x._dims) if isinstance(x, NamedArray) else (jnp.asarray(x), dims_of(x))
    supply: Iterator[Any] = iter(arrays)
    labels = list(range(len(dims)))  # the dimensions of x that `data` still has
    gathered: list[int] = []
    indices: list[Any] = []
    own = {name: OwnAxis(name) for name in (dims[part.dim] for part in parts) if name is not None}
    for part in parts:
        placed = region.place(dims[part.dim]) if region is not None and dims[part.dim] is not None else ()
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
                indices.append(make_in_region(jnp.asarray(np.asarray(part.at)), (own[dims[part.dim]],)))
            else:
                data = moved
    if not gathered:
        return data, tuple(dims[i] for i in labels)
    own = {name: axis for name, axis in own.items() if any(dims[i] == name for i in gathered)}
    datas, joint = joint_indices(op, x, own, indices)
    return _gather(op, x, data, labels, parts, gathered, datas, joint, mode, fill_value, hints)


def cut_range(data: Any, dim: int, at: range) -> Any:
    """The entries of a static range along a dimension that is whole."""
    if len(at) == data.shape[dim] and at.step == 1:
        return data
    if not len(at):
        return lax.slice_in_dim(data, 0, 0, axis=dim)
    first, last = min(at[0], at[-1]), max(at[0], at[-1])
    part = lax.slice_in_dim(data, first, last + 1, abs(at.step), dim)
    return lax.rev(part, (dim,)) if at.step < 0 else part


def _slice_blocks(data: Any, dim: int, at: range, mesh_axes: tuple[str, ...]) -> Any:
    """The entries of a range along a sharded dimension, if every device's new block comes from one device; else `None`."""
    if isinstance(mesh_axes, Uneven):  # whose size does not change: as it is, or in reverse order
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
        # Each device sends the part of its block that starts at an offset of its own.
        first = jnp.asarray(starts)[comm.block_index(mesh_axes)]
        union = varying(data) | frozenset(mesh_axes)
        index = cast_data(first + at.step * jnp.arange(new), union)
        data = jnp.take(cast_data(data, union), index, axis=dim, mode="clip")
    return data if all(a == b for a, b in perm) else comm.ppermute(data, mesh_axes, perm)


def _flipped(data: Any, dim: int, place: Uneven) -> Any:
    """A dimension with padding in reverse order: rows to other devices, and one all-reduce of the row that is the last one then."""
    block, devices = data.shape[dim], int(np.prod([lax.axis_size(axis) for axis in place]))
    entry = np.arange(block * devices).reshape(devices, block)
    rows = np.where(entry < place.size, place.size - 1 - entry, FILL)
    return refilled(move_rows(data, dim, plain(place), rows), dim, place)


def _gather(
    op: str,
    x: Any,
    data: Any,
    labels: list[int],
    parts: Sequence[Part],
    gathered: list[int],
    indices: list[Any],
    joint: Dims,
    mode: str | None,
    fill_value: Any,
    hints: Mapping[str, Any],
) -> tuple[Any, Dims]:
    """Reads `data` at the index arrays, per instance, and puts what the devices found together."""
    region, dims = ambient(), dims_of(x)
    names = [dims[i] for i in labels]
    placements = [region.place(dims[i]) if region is not None and dims[i] is not None else () for i in gathered]
    mesh_axes = tuple(axis for placement in placements for axis in placement)
    if region is not None and region.manual:
        data, indices = _varying_alike(x, data, indices, mesh_axes)
    shared = [dim for dim in joint if dim is not None and dim in names]
    _check_shared(op, x, {name: data.shape[names.index(name)] for name in shared}, joint, indices)
    # Shared names in front, then what is read, then the rest.
    order = [names.index(name) for name in shared] + [labels.index(i) for i in gathered]
    rest = [i for i in range(len(labels)) if i not in order]
    index_order = [joint.index(name) for name in shared]
    index_order += [i for i in range(len(joint)) if i not in index_order]
    data = lax.transpose(data, order + rest)
    indices = [lax.transpose(index, index_order) if np.ndim(index) else index for index in indices]
    if mesh_axes:
        blocks = data.shape[len(shared) : len(order)]
        sizes = [global_size(region, dims[i], block) for i, block in zip(gathered, blocks, strict=True)]
        function = _local_read(mode, fill_value, blocks, sizes, placements, mesh_axes)
    else:
        function = lambda rows, *at: rows.at[at].get(mode=mode, fill_value=fill_value, **hints)  # noqa: E731
    for _ in shared:
        function = jax.vmap(function, in_axes=(0, *(0 if np.ndim(index) else None for index in indices)))
    result = weak_as(function(data, *indices), data)
    out = [joint[i] for i in index_order] + [dims[labels[i]] for i in rest]
    out = [dim.name if isinstance(dim, OwnAxis) else dim for dim in out]
    if mesh_axes:
        placed = {dims[i]: placement for i, placement in zip(gathered, placements, strict=True) if placement}
        own = [(n, placed[dim]) for n, dim in enumerate(out[: len(joint)]) if dim is not None and dim in placed]
        result = _combine(result, own, mesh_axes)
        if comm.is_keys(data):
            result = jax.random.wrap_key_data(result, impl=jax.random.key_impl(data))
    # Positional axes as the caller sees them.
    rank = joint.count(None)
    internal = [("index", k) for k in range(rank)] + [labels[i] for i in rest if dims[labels[i]] is None]
    return _in_visible_order(result, out, internal, visible_order(dims, parts, rank)), tuple(out)


def _varying_alike(x: Any, data: Any, indices: Sequence[Any], mesh_axes: tuple[str, ...]) -> tuple[Any, list[Any]]:
    """What is read, a part of `x` or all of it, and the indices, cast to one device variance."""
    union = varying(data) | frozenset(mesh_axes)
    union |= frozenset[str]().union(*(varying(i) for i in indices if hasattr(i, "dtype")))
    data = cast(x, union) if isinstance(x, NamedArray) and data is x._data else cast_data(data, union)
    return data, [cast_data(jnp.asarray(index), union) for index in indices]


def _check_shared(op: str, x: Any, sizes: Mapping[Hashable, int], joint: Dims, indices: Sequence[Any]) -> None:
    """Raises where an axis that `x` and an index have has two sizes; `sizes` are those in `x`."""
    shape = next((np.shape(index) for index in indices if np.ndim(index)), ())
    for name, size in sizes.items():
        if size != shape[joint.index(name)]:
            raise AxisSizeError(
                f"{op}: axis {name!r} has size {size} in the array, {type_text(x)}, and size {shape[joint.index(name)]} in an index; a name "
                "has one size. Rename one of the two axes."
            )


def _in_visible_order(result: Any, dims: Sequence[Any], internal: Sequence[Any], wanted: Sequence[Any]) -> Any:
    """A result whose positional axes, those of `dims` without a name, are `internal`, with these as they are `wanted`."""
    if internal == wanted:
        return result
    places = [n for n, dim in enumerate(dims) if dim is None]
    final = list(range(len(dims)))
    for place, what in zip(places, wanted, strict=True):
        final[place] = places[internal.index(what)]
    return lax.transpose(result, final)


def _local_read(
    mode: str | None,
    fill_value: Any,
    blocks: Sequence[int],
    sizes: Sequence[int],
    placements: Sequence[tuple[str, ...]],
    mesh_axes: tuple[str, ...],
) -> Callable[..., Any]:
    """A device's share of a read: the rows that it has, and zeros for the others."""

    def read_local(rows: Any, *at: Any) -> Any:
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
        if comm.is_keys(values):  # whose words can be added up
            values = jax.random.key_data(values)

        def over(flag: Any) -> Any:
            return jnp.reshape(flag, flag.shape + (1,) * (values.ndim - flag.ndim))

        if mode is None or mode == "promise_in_bounds":
            # As in jnp: an index out of range reads the end, and has no gradient.
            values = jnp.where(over(valid), values, zero_cotangent(values))
        values = comm.only_where(over(here), values)
        if mode not in ("fill", "drop"):
            return values
        # An index out of range belongs to no device; the first one answers for it.
        nobody = ~valid & (comm.block_index(mesh_axes) == 0)
        return jnp.where(
            over(nobody), beyond(values.dtype) if fill_value is None else jnp.asarray(fill_value, values.dtype), values
        )

    return read_local


def _combine(partial: Any, own: Sequence[tuple[int, tuple[str, ...]]], mesh_axes: tuple[str, ...]) -> Any:
    """Adds up the devices' shares: one reduce-scatter for an axis that stays sharded, one all-reduce for the others."""
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
def getitem(x: Any, index: Any, /) -> Array:
    """`x[index]`, by name or by position.

    By name the index is a name followed by its index, several such pairs, or a dict from names (and positions) to indices. By
    position it is what `jnp` takes, over the positional axes; an index array with names is used per instance.

    Args:
      x: a named array.
      index: integers drop their axis; slices keep its name; integer arrays, named or not, are broadcast by name, and their axes
        replace the axis. Axes that an index array shares with `x` are batch axes; one that has the very axis that is read
        gathers along it. A boolean array only where its values are known when the program is compiled.

    Returns:
      The axes of the index arrays, and the axes of `x` that are left. Positional axes of index arrays stand where a positional
      axis stood that they read, and in front where only names are read. An index array out of range reads the end, as in `jnp`.

    Costs over a sharded axis: an integer or an array one all-reduce of the result (one all-gather of the index and one
    reduce-scatter of the result if the index has that axis itself). A slice nothing if every device keeps a part of its own
    block (`::2`), one collective-permute if blocks change places (`::-1`), and otherwise one reduce-scatter of the result.
    Along other axes nothing.

    Raises:
      AxisNotFoundError: `x` lacks a name.
      AxisSizeError: an integer is out of range; an axis has two sizes; a slice changes a size that the mapped function fixes.
      PlacementConflictError: an index array has an axis on the mesh axis of another axis of `x`.
      PositionalAxisError: the index is malformed, or the result's shape would depend on data.

    >>> import jax.numpy as jnp, namedax as nx
    >>> x = nx.named(jnp.arange(12.0).reshape(4, 3), ["batch", "k"])
    >>> getitem(x, ("batch", 3))
    NamedArray(f32[]{k:3}, dims=(k),
    [ 9., 10., 11.])
    >>> getitem(x, {"batch": slice(0, 2), "k": nx.named(jnp.array([2, 0]), ["pick"])}).named_shape["pick"]
    2
    """
    if by_name("getitem", index, x) is not None:
        return read("getitem", x, index)
    for part in index if isinstance(index, tuple) else (index,):
        if is_mask(part) and (isinstance(part, NamedArray) or isinstance(part, jax.core.Tracer)):
            raise PositionalAxisError(
                f"getitem: the shape of {type_text(x)} read at the boolean mask {type_text(part)} would depend on data. Keep "
                "the shape with nx.where(mask, x, fill)."
            ).about(depends_on_data=True)
    refuse_positions("getitem", "x", x, index)
    entries = _cuts_by_position(x, index)
    return index_positional(x, index) if entries is None else read("getitem", x, entries)


def _cuts_by_position(x: NamedArray, index: Any) -> dict[int, Any] | None:
    """The entries of an index of integers in range and slices, where they have one program for all places; otherwise `None`."""
    parts = index if isinstance(index, tuple) else (index,)
    if ambient() is not None or not _is_cut_at_operands(x._data):
        return None
    shape, entries = x.shape, dict[int, Any]()
    position, rest = 0, len(shape) - sum(part is not Ellipsis for part in parts)
    for part in parts:
        if part is Ellipsis and rest >= 0:
            position, rest = position + rest, -1  # there is one at most
            continue
        if position >= len(shape):
            return None
        n = shape[position]
        if type(part) is int and -n <= part < n:
            entries[position] = part
        elif type(part) is slice and all(bound is None or type(bound) is int for bound in (part.start, part.stop, part.step)):
            entries[position] = part
        else:
            return None
        position += 1
    return entries
