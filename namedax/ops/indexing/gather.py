"""The computation of a read: slices and one gather, at resolved parts.

Integers and ranges of axes that are not sharded are sliced first. Then one gather per instance of
the names that an index shares with the array reads all other parts together. Over sharded axes each
device reads the elements of its block, and one reduction combines the results.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import NamedSharding, PartitionSpec

from namedax.core.annotations import AnyArray, ArrayLike
from namedax.core.array import NamedArray, dims_of, make_in_region
from namedax.core.display import type_text
from namedax.core.element_types import beyond, to_type, weak_as
from namedax.core.names import Dims, MeshAxes
from namedax.core.padded_sharding import Uneven, plain
from namedax.core.records import Record
from namedax.core.region import ambient, place_of
from namedax.core.variance import cast, cast_data, varying
from namedax.errors import AxisSizeError
from namedax.ops.indexing.parts import (
    ARRAY,
    OwnAxis,
    Part,
    global_size,
    joint_indices,
    per_instance,
    visible_order,
)
from namedax.resources import communication as comm
from namedax.resources.mesh import explicit_axes_of, is_tracked, replicated
from namedax.resources.padding import zero_cotangent
from namedax.resources.padding_masks import refilled
from namedax.resources.row_moves import FILL, move_rows

__all__ = ["cut_range", "read_parts"]


def read_parts(
    op: str, x: AnyArray, parts: Sequence[Part], arrays: Sequence[Any], options: Mapping[str, Any]
) -> tuple[Any, Dims]:
    """Read an index with resolved parts, and return the data and the dims.

    Args:
      op: the operation.
      x: the local block.
      parts: the resolved index.
      arrays: the index array of each part that is `ARRAY`.
      options: the options of `x.at[...].get`, with at least `mode` and `fill_value`.
    """
    source = _slice_parts(x, parts, arrays)
    dims = dims_of(x)
    if not source.gathered:
        return source.data, tuple(dims[i] for i in source.labels)
    indices, joint = joint_indices(op, x, source.own, source.indices)
    order = _GatherOrder(dims, source.labels, source.gathered, source.places, joint)
    result = _gather(op, x, source.data, indices, order, options)
    # Positional axes in the order that the caller sees.
    rank = joint.count(None)
    internal = [*(("index", k) for k in range(rank)), *order.kept_positions]
    wanted = visible_order(dims, parts, rank)
    return _in_visible_order(result, order.out, internal, wanted), order.out


class _Source(Record):
    """The data to gather from, and the indices.

    Attributes:
      data: an array, after all parts that need no gather have been sliced.
      labels: the dimensions of the array that remain in `data`.
      gathered: the dimensions that are read at indices.
      places: the mesh axes of each of them.
      indices: the index along each of them.
      own: temporary names for the axes of `gathered`, which the indices may have themselves.
    """

    data: Any
    labels: Sequence[int]
    gathered: Sequence[int]
    places: Sequence[MeshAxes]
    indices: Sequence[Any]
    own: Mapping[Hashable, OwnAxis]


def _slice_parts(x: AnyArray, parts: Sequence[Part], arrays: Sequence[Any]) -> _Source:
    """Slice `x` at all parts that need no gather."""
    region, dims, supply = ambient(), dims_of(x), iter(arrays)
    data = x._data if isinstance(x, NamedArray) else jnp.asarray(x)
    labels = list(range(len(dims)))
    gathered: list[tuple[int, MeshAxes, Any]] = []
    own: dict[Hashable, OwnAxis] = {}
    for part in parts:
        name, at, dim = dims[part.dim], part.at, labels.index(part.dim)
        place = place_of(region, name)
        if isinstance(at, int) and not place:
            data = lax.index_in_dim(data, at, dim, keepdims=False)
            labels.remove(part.dim)
            continue
        if isinstance(at, range):
            sliced = _slice_blocks(data, dim, at, place) if place else cut_range(data, dim, at)
            if sliced is not None:
                data = sliced
                continue
        if name is not None:
            own[name] = OwnAxis(name)
        index: Any = next(supply) if at == ARRAY else at
        if isinstance(at, range):
            index = make_in_region(jnp.asarray(np.asarray(at)), (own[name],))
        gathered.append((part.dim, place, index))
    at_dims, places, indices = zip(*gathered, strict=True) if gathered else ((), (), ())
    return _Source(data, labels, at_dims, places, indices, own)


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


class _GatherOrder(Record):
    """The order of the dimensions in a gather.

    The data has the names that it shares with the indices in front, then the gathered dimensions,
    then the rest. So the instances of the gather are its leading dimensions. The indices have the
    shared names in front too. The result has the dimensions of the indices, then the rest.

    Attributes:
      dims: the dims of the array.
      labels: the dimensions of the array that remain in the data.
      gathered: the dimensions that are read at indices.
      places: the mesh axes of each of `gathered`.
      joint: the dims of the indices.
    """

    dims: Dims
    labels: Sequence[int]
    gathered: Sequence[int]
    places: Sequence[MeshAxes]
    joint: Dims

    @property
    def names(self) -> list[Hashable | None]:
        """Return the dims of the data."""
        return [self.dims[i] for i in self.labels]

    @property
    def shared(self) -> list[Hashable]:
        """Return the names that the data shares with the indices."""
        return [dim for dim in self.joint if dim is not None and dim in self.names]

    @property
    def front(self) -> list[int]:
        """Return the dimensions of the data that are shared or gathered."""
        shared = [self.names.index(name) for name in self.shared]
        return shared + [self.labels.index(i) for i in self.gathered]

    @property
    def rest(self) -> list[int]:
        """Return the other dimensions of the data."""
        front = self.front
        return [i for i in range(len(self.labels)) if i not in front]

    @property
    def index_order(self) -> list[int]:
        """Return the dimensions of an index, the shared ones first."""
        shared = [self.joint.index(name) for name in self.shared]
        return shared + [i for i in range(len(self.joint)) if i not in shared]

    @property
    def out(self) -> Dims:
        """Return the dims of the result."""
        read = (self.joint[i] for i in self.index_order)
        kept = (self.names[i] for i in self.rest)
        return (*(dim.name if isinstance(dim, OwnAxis) else dim for dim in read), *kept)

    @property
    def kept_positions(self) -> list[int]:
        """Return the positional dimensions of the array that the result keeps."""
        return [self.labels[i] for i in self.rest if self.names[i] is None]

    @property
    def mesh_axes(self) -> MeshAxes:
        """Return the mesh axes of the gathered dimensions."""
        return tuple(axis for place in self.places for axis in place)

    @property
    def scattered(self) -> list[tuple[int, MeshAxes]]:
        """Return the dimensions of the result that have a gathered, sharded axis, and its place."""
        placed = {
            self.dims[i]: place
            for i, place in zip(self.gathered, self.places, strict=True)
            if place
        }
        read = enumerate(self.out[: len(self.joint)])
        return [(n, placed[dim]) for n, dim in read if dim is not None and dim in placed]

    def per_instance(self, function: Callable[..., Any], indices: Sequence[Any]) -> Any:
        """Map a function of the data and the indices over the shared names."""
        held = [self.shared if np.ndim(index) else () for index in indices]
        return per_instance(function, self.shared, [self.shared, *held])


def _gather(
    op: str,
    x: AnyArray,
    data: jax.Array,
    indices: list[Any],
    order: _GatherOrder,
    options: Mapping[str, Any],
) -> jax.Array:
    """Read `data` at the index arrays, per instance, and combine the reads of the devices."""
    region = ambient()
    if region is not None and region.manual:
        data, indices = _varying_alike(x, data, indices, order.mesh_axes)
    sizes = {name: data.shape[order.names.index(name)] for name in order.shared}
    _check_shared(op, x, sizes, order.joint, indices)
    data = lax.transpose(data, order.front + order.rest)
    turned = order.index_order
    indices = [lax.transpose(index, turned) if np.ndim(index) else index for index in indices]
    return (_read_blocks if order.mesh_axes else _read_whole)(data, indices, order, options)


def _read_whole(
    data: jax.Array, indices: list[Any], order: _GatherOrder, options: Mapping[str, Any]
) -> jax.Array:
    """Gather from an array that is not sharded along the gathered dimensions."""
    sharding = _read_sharding(data, indices, len(order.front))
    if order.shared and sharding is not None:
        # JAX maps instances only if they are sharded alike.
        indices = [replicated(index) if np.ndim(index) else index for index in indices]
    elif sharding is not None:
        data = jax.reshard(data, sharding.update(spec=PartitionSpec(*[None] * data.ndim)))
        options = {**options, "out_sharding": sharding}

    def gather(rows: jax.Array, *at: jax.Array) -> jax.Array:
        return rows.at[at].get(**options)

    return weak_as(order.per_instance(gather, indices)(data, *indices), data)


def _read_blocks(
    data: jax.Array, indices: list[Any], order: _GatherOrder, options: Mapping[str, Any]
) -> jax.Array:
    """Gather from the block of each device, and combine the partial results."""
    region, shared = ambient(), len(order.shared)
    blocks = data.shape[shared : shared + len(order.gathered)]
    axes = tuple(
        _GatheredAxis(block, global_size(region, order.dims[i], block), place)
        for i, block, place in zip(order.gathered, blocks, order.places, strict=True)
    )
    gather = _local_read(axes, options["mode"], options["fill_value"])
    partial = weak_as(order.per_instance(gather, indices)(data, *indices), data)
    result = _combine(partial, order.scattered, order.mesh_axes)
    if comm.is_keys(data):
        keys: jax.Array = jax.random.wrap_key_data(result, impl=jax.random.key_impl(data))
        return keys
    return to_type(result, data.dtype)


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


class _GatheredAxis(Record):
    """A dimension that is read at indices.

    Attributes:
      block: its size on this device.
      size: its global size.
      place: its mesh axes.
    """

    block: int
    size: int
    place: MeshAxes

    def find(self, index: jax.Array, clips: bool) -> tuple[jax.Array, jax.Array, jax.Array]:
        """Find global indices in the block of this device.

        Return the indices in the block, which element has one, and which index is in range.
        """
        index = jnp.where(index < 0, index + self.size, index)
        is_valid = (index >= 0) & (index < self.size)
        if clips:
            index = jnp.clip(index, 0, self.size - 1)
        local = index
        if self.place:
            local = index - comm.block_index(self.place).astype(index.dtype) * self.block
        is_here = (local >= 0) & (local < self.block)
        if isinstance(self.place, Uneven) and not clips:  # not in the padding
            is_here = is_here & (index < self.size)
        return jnp.clip(local, 0, self.block - 1), is_here, is_valid


def _local_read(
    axes: Sequence[_GatheredAxis], mode: str | None, fill_value: ArrayLike | None
) -> Callable[..., jax.Array]:
    """Build the read of one device, which returns its own rows, and zeros for the others."""
    fills = mode in ("fill", "drop")
    mesh_axes = tuple(axis for each in axes for axis in each.place)

    def read_local(rows: jax.Array, *at: jax.Array) -> jax.Array:
        found = [axis.find(index, not fills) for axis, index in zip(axes, at, strict=True)]
        places, here, valid = zip(*found, strict=True)
        is_here, is_valid = (functools.reduce(operator.and_, flags) for flags in (here, valid))
        values = rows.at[places].get(mode="promise_in_bounds")
        if comm.is_keys(values):  # words can be summed
            values = jax.random.key_data(values)

        def over(flag: jax.Array) -> jax.Array:
            return jnp.reshape(flag, flag.shape + (1,) * (values.ndim - flag.ndim))

        if mode is None or mode == "promise_in_bounds":
            # As in jnp, an index out of range reads the last element, and has no gradient.
            values = jnp.where(over(is_valid), values, zero_cotangent(values))
        values = comm.only_where(over(is_here), values)
        if not fills:
            return values
        # An index out of range belongs to no device; the first device fills it.
        fill = beyond(values.dtype) if fill_value is None else fill_value
        is_filled = ~is_valid & (comm.block_index(mesh_axes) == 0)
        return jnp.where(over(is_filled), jnp.asarray(fill, values.dtype), values)

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
