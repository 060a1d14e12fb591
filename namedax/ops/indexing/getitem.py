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

import dataclasses
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from namedax.core.annotations import Array
from namedax.core.array import NamedArray, dims_of, make_in_region
from namedax.core.display import type_text
from namedax.core.names import Dims, is_name
from namedax.core.region import Region, ambient
from namedax.core.variance import cast, cast_data, varying
from namedax.errors import AxisSizeError, PositionalAxisError
from namedax.operands import compiled_ops
from namedax.operands.axes import resolve_axis
from namedax.operands.broadcasting import align, local_block, wrap
from namedax.operands.leaves import wide_index
from namedax.ops.indexing.take import index_positional
from namedax.resources import communication as comm

__all__ = [
    "ARRAY",
    "FUNCTIONS",
    "READ_MODES",
    "OwnAxis",
    "Part",
    "by_name",
    "gather_own_axes",
    "getitem",
    "is_mask",
    "joint_indices",
    "range_of",
    "read",
    "resolve",
    "visible_order",
]

#: A part that reads at an array; the arrays stand in a list of their own.
ARRAY = "array"
READ_MODES = (None, "fill", "drop", "clip", "promise_in_bounds")


@dataclasses.dataclass(frozen=True)
class Part:
    """One entry of an index: the dimension of the array, and what is read of it.

    Attributes:
      dim: the dimension, counted in the data.
      at: an integer (from 0), a `range` of them, or `ARRAY`.
    """

    dim: int
    at: int | range | str


class StandIn:
    """A name that stands for another axis while an operation runs."""

    def __init__(self, name: Hashable):
        self.name = name

    def __repr__(self) -> str:
        return repr(self.name)


class OwnAxis(StandIn):
    """Stands, in an index array, for an axis of the same name as the one that is read, until that is gone."""


class _Place(StandIn):
    """Stands for a positional axis."""


# --- what an index says ---------------------------------------------------------------------------------------------


def by_name(op: str, index: Any) -> Mapping[Any, Any] | None:
    """The entries of an index by names, or `None` if it is one by position.

    Raises:
      PositionalAxisError: names and indices do not come in pairs.
    """
    if isinstance(index, Mapping):
        return index
    parts = index if isinstance(index, tuple) else (index,)
    if not any(is_name(part) for part in parts):
        return None
    entries: dict[Any, Any] = {}
    if len(parts) % 2 or not all(is_name(name) for name in parts[::2]):
        raise PositionalAxisError(
            f"{op}: the index {index!r} names an axis, but is not made of pairs of a name and its index. Write x['batch', 3], "
            "x['batch', 3, 'k', 0:2], or a dict, x[{'batch': 3, 0: idx}], which may have positions too."
        )
    for name, entry in zip(parts[::2], parts[1::2], strict=True):
        if name in entries:
            raise PositionalAxisError(f"{op}: axis {name!r} is given twice in the index {index!r}.")
        entries[name] = entry
    return entries


def is_mask(entry: Any) -> bool:
    """Whether an entry of an index is a boolean array."""
    return hasattr(entry, "dtype") and entry.dtype == jnp.bool_


def resolve(op: str, x: Any, entries: Mapping[Any, Any], resize: bool = True) -> tuple[tuple[Part, ...], list[Any]]:
    """The parts of an index by names, and its arrays.

    Args:
      op: the operation.
      x: the array, as the body of the region sees it.
      entries: indices by axis (a name or a position).
      resize: whether slices become axes of the result, so that they have to fit the region.

    Raises:
      AxisNotFoundError: `x` lacks a name.
      AxisSizeError: an integer is out of range, or a slice changes the size of an axis whose size the mapped function fixes.
      PositionalAxisError: an entry is no index, or an axis is given twice.
    """
    region = ambient()
    dims, shape = dims_of(x), np.shape(x._data if isinstance(x, NamedArray) else x)
    parts: list[Part] = []
    arrays: list[Any] = []
    for axis, entry in entries.items():
        (dim,) = resolve_axis(op, x, (axis,))
        if any(part.dim == dim for part in parts):
            raise PositionalAxisError(f"{op}: axis {axis!r} of {type_text(x)} is given twice in the index.")
        size = _global_size(region, dims[dim], shape[dim])
        if isinstance(entry, (int, np.integer)) and not isinstance(entry, bool):
            if not -size <= entry < size:
                raise AxisSizeError(f"{op}: index {entry} is out of range for axis {axis!r} of size {size} in {type_text(x)}.")
            parts.append(Part(dim, int(entry) % size))
        elif isinstance(entry, slice):
            parts.append(Part(dim, range_of(op, entry, axis, size)))
            if resize and dims[dim] is not None:
                _check_slice(op, x, dims[dim], size, len(parts[-1].at), region)  # type: ignore[arg-type]
        elif hasattr(entry, "dtype") and jnp.issubdtype(entry.dtype, jnp.integer):
            parts.append(Part(dim, ARRAY))
            arrays.append(wide_index(entry))
        elif is_mask(entry):
            parts.append(Part(dim, ARRAY))
            arrays.append(_indices_of_mask(op, entry, axis, size, region))
        else:
            raise PositionalAxisError(
                f"{op}: {entry!r} is no index for axis {axis!r} of {type_text(x)}; write an integer, a slice, or an integer "
                "array, named or not (a list as jnp.array([...]))."
            )
    return tuple(parts), arrays


def _global_size(region: Region | None, dim: Hashable | None, block: int) -> int:
    return block if region is None or not region.manual or dim is None else region.global_size(dim, block)


def range_of(op: str, entry: slice, axis: Any, size: int) -> range:
    """The entries that a slice means, of an axis of this size."""
    bounds = (entry.start, entry.stop, entry.step)
    if not all(bound is None or isinstance(bound, (int, np.integer)) for bound in bounds):
        raise PositionalAxisError(
            f"{op}: the slice {entry} of axis {axis!r} needs integers that are known when the program is compiled. Read at an "
            "array, such as start + nx.arange(length, axis=...)."
        )
    return range(*entry.indices(size))


def _check_slice(op: str, x: Any, name: Hashable, size: int, length: int, region: Region | None) -> None:
    if region is None or length == size:
        return
    if name in region.sizes:
        raise AxisSizeError(
            f"{op}: a slice of axis {name!r} of {type_text(x)} would leave {length} of {size} entries, but {name!r} has size "
            f"{size} in this mapped function; a name has one size. Give the part a name of its own: nx.slice(x, {{{name!r}: slice(...)}}, "
            f"out_axes={{{name!r}: 'part'}})."
        )
    region.block_size(name, length, op)


def _indices_of_mask(op: str, mask: Any, axis: Any, size: int, region: Region | None) -> Any:
    """The positions where a mask holds, if they are known when the program is compiled."""
    data = mask._data if isinstance(mask, NamedArray) else mask
    fits = dims_of(mask) in ((None,), (axis,)) and data.shape == (size,)
    if not fits or isinstance(data, jax.core.Tracer) or (region is not None and axis in region.sizes):
        raise PositionalAxisError(
            f"{op}: the shape of a read at the boolean mask {type_text(mask)} along axis {axis!r} of size {size} would depend "
            "on data. Keep the shape with nx.where(mask, x, fill), or read at a fixed number of indices."
        )
    found = np.nonzero(np.asarray(data))[0]
    return make_in_region(jnp.asarray(found), (axis,)) if is_name(axis) else jnp.asarray(found)


# --- the index arrays together --------------------------------------------------------------------------------------


def joint_indices(op: str, x: Any, own: Mapping[Any, OwnAxis], indices: Sequence[Any]) -> tuple[list[Any], Dims]:
    """The index arrays broadcast by name, and their dims. Their axes among those of `own` become these, whole on every device.

    Indices without dimensions stay scalars.

    Raises:
      PlacementConflictError: an index has an axis on a mesh axis that an axis of `x` is on.
    """
    region = ambient()
    blocks = [local_block(index, op, region) for index in indices]
    if region is not None and region.resources:
        names = [
            dim
            for group in (dims_of(x), *map(dims_of, blocks))
            for dim in group
            if dim is not None and not isinstance(dim, StandIn)
        ]
        region.check_placement(op, dict.fromkeys(names))
        region.seen.update(names)
    return align(op, *(gather_own_axes(block, own, region) for block in blocks))


def gather_own_axes(block: Any, own: Mapping[Any, OwnAxis], region: Region | None, to: str = "invarying") -> Any:
    """`block` with stand-ins for the axes of `own`, which are gathered where they are sharded."""
    if not isinstance(block, NamedArray) or not any(dim in own for dim in block._dims):
        return block
    data = block._data
    for i, dim in enumerate(block._dims):
        if dim in own and region is not None and region.placement(dim):
            data = comm.all_gather(data, i, region.placement(dim), to)  # type: ignore[arg-type]
    return make_in_region(data, tuple(own.get(dim, dim) for dim in block._dims))


def visible_order(dims: Dims, parts: Sequence[Part], rank: int) -> list[Any]:
    """The positional axes of `x[index]`: dimensions of `x`, and `("index", k)` for those of the index arrays, of rank `rank`.

    As in NumPy the axes of the arrays stand where the axes were that they read, if those are neighbours, and in front
    otherwise, also where only names are read. (Integers are gone before.)
    """
    joint = [("index", k) for k in range(rank)]
    gone = [part.dim for part in parts if isinstance(part.at, int)]
    kept = [i for i, dim in enumerate(dims) if dim is None and i not in gone]
    arrays = [part.dim for part in parts if part.at == ARRAY]
    places = [n for n, i in enumerate(kept) if i in arrays]
    rest: list[Any] = [i for i in kept if i not in arrays]
    at = places[0] if places and places[-1] - places[0] + 1 == len(places) else 0
    return [*rest[:at], *joint, *rest[at:]]


# --- reading --------------------------------------------------------------------------------------------------------


def read(
    op: str, x: Any, index: Any, mode: str | None = None, fill_value: Any = None, hints: Mapping[str, Any] | None = None
) -> Any:
    """`x[index]` for an index by names, with the mode of `x.at[index].get`."""
    if mode not in READ_MODES:
        raise PositionalAxisError(f"{op}: mode={mode!r} is none of {READ_MODES}.")
    x = local_block(x, op, ambient())
    entries = by_name(op, index)
    parts, arrays = resolve(op, x, entries or {})
    static = (parts, mode, fill_value, tuple((hints or {}).items()))
    if not isinstance(fill_value, (int, float, complex, type(None))):
        return _read_parts(op, None, *static, x, *arrays)
    return compiled_ops.run(op, _read_parts, None, static, x, *arrays)


def _read_parts(op: str, _: None, parts: Sequence[Part], mode: Any, fill_value: Any, hints: Any, x: Any, *arrays: Any) -> Any:
    return wrap(*_read(op, x, parts, arrays, mode, fill_value, dict(hints)))


def _read(
    op: str, x: Any, parts: Sequence[Part], arrays: Sequence[Any], mode: Any, fill_value: Any, hints: Any
) -> tuple[Any, Dims]:
    region = ambient()
    data, dims = (x._data, x._dims) if isinstance(x, NamedArray) else (jnp.asarray(x), dims_of(x))
    supply: Iterator[Any] = iter(arrays)
    labels = list(range(len(dims)))  # the dimensions of x that `data` still has
    gathered: list[int] = []
    indices: list[Any] = []
    own = {name: OwnAxis(name) for name in (dims[part.dim] for part in parts) if name is not None}
    for part in parts:
        placed = region.placement(dims[part.dim]) if region is not None and dims[part.dim] is not None else ()
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
    region = ambient()
    dims = dims_of(x)
    names = [dims[i] for i in labels]
    mesh_of = {i: region.placement(dims[i]) if region is not None and dims[i] is not None else () for i in gathered}
    mesh_axes = tuple(axis for i in gathered for axis in mesh_of[i])
    shared = [dim for dim in joint if dim is not None and dim in names]
    if region is not None and region.manual:
        union = varying(data) | frozenset(mesh_axes)
        union |= frozenset[str]().union(*(varying(i) for i in indices if hasattr(i, "dtype")))
        data = cast(x, union) if isinstance(x, NamedArray) and data is x._data else cast_data(data, union)
        indices = [cast_data(jnp.asarray(index), union) for index in indices]
    joint_shape = next((np.shape(index) for index in indices if np.ndim(index)), ())
    for name in shared:
        if data.shape[names.index(name)] != joint_shape[joint.index(name)]:
            raise AxisSizeError(
                f"{op}: axis {name!r} has size {data.shape[names.index(name)]} in the array, {type_text(x)}, and size "
                f"{joint_shape[joint.index(name)]} in an index; a name has one size. Rename one of the two axes."
            )
    # Shared names in front, then what is read, then the rest.
    order = [names.index(name) for name in shared] + [labels.index(i) for i in gathered]
    order += [i for i in range(len(labels)) if i not in order]
    rest = order[len(shared) + len(gathered) :]
    index_order = [joint.index(name) for name in shared]
    index_order += [i for i in range(len(joint)) if i not in index_order]
    data = lax.transpose(data, order)
    indices = [lax.transpose(index, index_order) if np.ndim(index) else index for index in indices]

    if mesh_axes:
        blocks = [data.shape[len(shared) + n] for n in range(len(gathered))]
        sizes = [_global_size(region, dims[i], block) for i, block in zip(gathered, blocks, strict=True)]
        function = _local_read(mode, fill_value, data.dtype, blocks, sizes, [mesh_of[i] for i in gathered], mesh_axes)
    else:

        def function(rows: Any, *at: Any) -> Any:
            return rows.at[at].get(mode=mode, fill_value=fill_value, **hints)

    for _ in shared:
        function = jax.vmap(function, in_axes=(0, *(0 if np.ndim(index) else None for index in indices)))
    result = function(data, *indices)

    out: list[Any] = [joint[i] for i in index_order] + [dims[labels[i]] for i in rest]
    for n, dim in enumerate(out):
        if isinstance(dim, OwnAxis):
            out[n] = dim.name
    if mesh_axes:
        own = [
            (n, mesh_of[i])
            for n, dim in enumerate(out[: len(joint)])
            for i in gathered
            if dim is not None and dims[i] == dim and mesh_of[i]
        ]
        result = _combine(result, own, mesh_axes)
        if comm.is_keys(data):
            result = jax.random.wrap_key_data(result, impl=jax.random.key_impl(data))
    # Positional axes as the caller sees them.
    internal: list[Any] = [("index", k) for k in range(joint.count(None))] + [
        labels[i] for i in rest if dims[labels[i]] is None
    ]
    wanted = visible_order(dims, parts, joint.count(None))
    if internal != wanted:
        places = [n for n, dim in enumerate(out) if dim is None]
        final = list(range(len(out)))
        for place, what in zip(places, wanted, strict=True):
            final[place] = places[internal.index(what)]
        result = lax.transpose(result, final)
    return result, tuple(out)


def _local_read(
    mode: str | None,
    fill_value: Any,
    dtype: Any,
    blocks: list[int],
    sizes: list[int],
    placements: list[tuple[str, ...]],
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
            values = jnp.where(over(valid), values, lax.stop_gradient(values))
        values = jnp.where(over(here), values, jnp.zeros((), values.dtype))
        if mode not in ("fill", "drop"):
            return values
        # An index out of range is nobody's; the first device answers for it.
        nobody = ~valid & (comm.block_index(mesh_axes) == 0)
        return jnp.where(
            over(nobody), _fill(values.dtype) if fill_value is None else jnp.asarray(fill_value, values.dtype), values
        )

    return read_local


def _fill(dtype: Any) -> Any:
    """What `jnp` gives for an index out of range."""
    if jnp.issubdtype(dtype, jnp.inexact):
        return jnp.asarray(jnp.nan, dtype)
    if dtype == jnp.bool_:
        return jnp.asarray(True)
    info = jnp.iinfo(dtype)
    return jnp.asarray(info.min if jnp.issubdtype(dtype, jnp.signedinteger) else info.max, dtype)


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
    if by_name("getitem", index) is not None:
        return read("getitem", x, index)
    for part in index if isinstance(index, tuple) else (index,):
        if is_mask(part) and (isinstance(part, NamedArray) or isinstance(part, jax.core.Tracer)):
            raise PositionalAxisError(
                f"getitem: the shape of {type_text(x)} read at the boolean mask {type_text(part)} would depend on data. Keep "
                "the shape with nx.where(mask, x, fill)."
            )
    return index_positional(x, index)


def take_along_axis(x: Any, indices: Any, axis: Any = -1, mode: str | None = None, fill_value: Any = None) -> Any:
    """`nx.take_along_axis` with negative indices that count from the end."""
    op = "take_along_axis"
    region = ambient()
    x, indices = local_block(x, op, region), local_block(indices, op, region)
    x, indices = (v if isinstance(v, NamedArray) else jnp.asarray(v) for v in (x, indices))
    if not jnp.issubdtype(indices.dtype, jnp.integer):
        raise PositionalAxisError(f"{op}: the indices {type_text(indices)} are no integers.")
    indices = wide_index(indices)
    (dim,) = resolve_axis(op, x, (axis,))
    if not is_name(axis) and x.ndim != indices.ndim:
        raise PositionalAxisError(
            f"{op}: {type_text(x)} and the indices {type_text(indices)} have {x.ndim} and {indices.ndim} positional axes; "
            "along a position they need equally many."
        )
    # Positional axes become names for a while, so that they broadcast.
    count = max(x.ndim, indices.ndim)
    stand_ins = [_Place(-1 - n) for n in range(count)][::-1]
    at = dims_of(x)[:dim].count(None) if not is_name(axis) else None
    shapes = [list(v.shape) for v in (x, indices)]
    if at is not None:
        for shape in shapes:
            shape[at] = 1
    try:
        common = np.broadcast_shapes(*map(tuple, shapes))
    except ValueError:
        raise PositionalAxisError(
            f"{op}: the positional axes of {type_text(x)} and of the indices {type_text(indices)} do not broadcast."
        ) from None
    target = axis if at is None else stand_ins[at]

    def stand_in(value: Any) -> NamedArray:
        data, dims = value._data if isinstance(value, NamedArray) else value, dims_of(value)
        own = iter(stand_ins[count - value.ndim :])
        named = [next(own) if dim is None else dim for dim in dims]
        # An axis of size 1 broadcasts, which a name does by being absent.
        ones = [
            i
            for i, dim in enumerate(named)
            if isinstance(dim, _Place) and dim is not target and data.shape[i] == 1 and common[stand_ins.index(dim)] != 1
        ]
        data = lax.squeeze(data, ones)
        return make_in_region(data, tuple(dim for i, dim in enumerate(named) if i not in ones))

    if mode not in READ_MODES:
        raise PositionalAxisError(f"{op}: mode={mode!r} is none of {READ_MODES}.")
    x, indices = stand_in(x), stand_in(indices)
    data, dims = _read(op, x, (Part(x._dims.index(target), ARRAY),), [indices], mode or "fill", fill_value, {})
    order = [dims.index(dim) for dim in stand_ins if dim in dims]
    names = [i for i, dim in enumerate(dims) if not isinstance(dim, _Place)]
    return wrap(lax.transpose(data, names + order), tuple(dims[i] for i in names) + (None,) * len(order))


FUNCTIONS: dict[str, Callable[..., Any]] = {"take_along_axis": take_along_axis}
