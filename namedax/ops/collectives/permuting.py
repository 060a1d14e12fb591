"""Collectives that keep the named axis: they scatter, exchange or permute its elements.

All follow the semantics of JAX over logical indices, as under `jax.vmap(axis_name=...)`. The result
is the same for an axis that is vectorized, sharded with one element per device, or sharded in
blocks. A value without the axis is the same in every instance.

A permutation is planned during tracing (`namedax.resources.row_moves`). Elements that remain on
their device cost nothing, and the others use as few collective-permutes as the traffic allows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from namedax.core.annotations import AnyArray, ArrayLike
from namedax.core.array import NamedArray, as_array, dims_of
from namedax.core.element_types import accumulate, to_type
from namedax.core.names import AxisName, Dims, DType, MeshAxes, PyTree
from namedax.core.padded_sharding import Uneven
from namedax.core.records import Record
from namedax.core.region import ambient
from namedax.core.variance import cast, cast_alike, cast_data, varying
from namedax.errors import (
    ArgumentTypeError,
    AxisSizeError,
    PositionalAxisError,
    as_integer,
    format_value,
    show_names,
)
from namedax.ops.collectives.reducing import (
    Groups,
    all_gather,
    check_names,
    equal_groups,
    map_leaves,
    one_name,
    reduce_groups,
    size_of_absent,
    width_in_group,
)
from namedax.ops.operands.broadcasting import make_result, to_local
from namedax.ops.operands.nmap import nmap
from namedax.ops.operands.operation import Explicit, operation
from namedax.resources import communication as comm
from namedax.resources.padding import padded, unpadded
from namedax.resources.padding_masks import masked, refilled
from namedax.resources.row_moves import move_rows, rows_of_blocks

__all__ = ["FUNCTIONS", "all_to_all", "pbroadcast", "ppermute", "pshuffle", "psum_scatter"]


class _CollectivePlan(Record):
    """A value with the axes of a collective in front.

    Attributes:
      data: the local block: one dimension per axis (of size 1 if the value lacks it), then the
        other named axes, then the positional axes.
      names: the axis names of the collective.
      sizes: the global sizes.
      blocks: the number of elements of each axis on one device.
      places: the mesh axes of each axis; they also determine the padding to add and remove.
      counts: the number of devices along these mesh axes.
      present: `True` for each axis that the value has.
      kept: the other axis names.
      rank: the number of positional axes.
    """

    data: jax.Array
    names: tuple[Hashable, ...]
    sizes: tuple[int, ...]
    blocks: tuple[int, ...]
    places: tuple[MeshAxes, ...]
    counts: tuple[int, ...]
    present: tuple[bool, ...]
    kept: Dims
    rank: int

    @property
    def total(self) -> int:
        return math.prod(self.sizes)

    @property
    def sharded(self) -> tuple[int, ...]:
        """Return the indices of the axes that the value has and that are sharded."""
        return tuple(i for i, axes in enumerate(self.places) if axes and self.present[i])

    @property
    def uneven(self) -> tuple[tuple[int, MeshAxes], ...]:
        """Return the index and the mesh axes of each padded axis."""
        return tuple((i, place) for i, place in enumerate(self.places) if isinstance(place, Uneven))

    @property
    def mesh_axes(self) -> MeshAxes:
        """Return the mesh axes of the axes that the value has, major first."""
        return tuple(axis for i in self.sharded for axis in self.places[i])

    def position(self, op: str, axis: int, what: str, rank: int) -> int:
        if (
            isinstance(axis, bool)
            or not isinstance(axis, (int, np.integer))
            or not -rank <= axis < rank
        ):
            raise PositionalAxisError(
                f"{op}: {what}={format_value(axis)} is not a positional axis: there are {rank},"
                " numbered without the named ones."
            )
        return int(axis) % rank


def _plan(op: str, x: ArrayLike, names: tuple[Hashable, ...]) -> _CollectivePlan:
    region = ambient()
    x = to_local(x, op, region)
    dims = dims_of(x)
    data = x._data if isinstance(x, NamedArray) else jnp.asarray(x)
    sizes, blocks, places = [], [], []
    for name in names:
        if name in dims:
            n = data.shape[dims.index(name)]
            size = n if region is None else region.global_size(name, n)
        else:
            size = size_of_absent(op, name)
        sizes.append(size)
        blocks.append(
            size if region is None else region.block_size(name, size, op, supports_padding=True)
        )
        places.append(region.place(name) if region is not None and region.manual else ())
    kept = tuple(dim for dim in dims if dim is not None and dim not in names)
    if region is not None and region.resources:
        region.check_placement(op, (*names, *kept))
    if region is not None and region.manual:
        used = frozenset(
            axis for name, axes in zip(names, places, strict=True) if name in dims for axis in axes
        )
        data = cast(x, used | varying(data)) if isinstance(x, NamedArray) else data
    order = [dims.index(name) for name in names if name in dims]
    order += [dims.index(name) for name in kept] + [i for i, dim in enumerate(dims) if dim is None]
    data = lax.transpose(data, order) if order != sorted(order) else data
    present = tuple(name in dims for name in names)
    data = lax.expand_dims(data, [i for i, there in enumerate(present) if not there])
    counts = tuple(1 if region is None else region.mesh_axis_size(place) for place in places)
    return _CollectivePlan(
        data,
        names,
        tuple(sizes),
        tuple(blocks),
        tuple(places),
        counts,
        present,
        kept,
        dims.count(None),
    )


def _move_dims(data: jax.Array, front: Sequence[int]) -> jax.Array:
    """Transpose `data` so that the dimensions `front` precede the others."""
    order = [*front, *(i for i in range(data.ndim) if i not in front)]
    return data if order == sorted(order) else lax.transpose(data, order)


def _devices_to_front(data: jax.Array, plan: _CollectivePlan) -> jax.Array:
    """Split complete axes of `data` by device, with one first dimension for all devices."""
    for i, _ in plan.uneven:
        if plan.present[i]:
            data = padded(data, i, plan.blocks[i] * plan.counts[i])
    shape: list[int] = []
    front = []
    for i, n in enumerate(data.shape):
        if i in plan.sharded:
            front.append(len(shape))
            shape.append(plan.counts[i])
            n = plan.blocks[i]
        shape.append(n)
    data = _move_dims(data.reshape(shape), front)
    return data.reshape(
        (math.prod(plan.counts[i] for i in plan.sharded), *data.shape[len(front) :])
    )


def _split_off(
    op: str, plan: _CollectivePlan, data: jax.Array, place: int, tiled: bool, what: str
) -> jax.Array:
    """Split dimension `place` of `data` into one block per instance.

    The instances become the first dimensions, one per axis.
    """
    size, total = data.shape[place], plan.total
    if size % total if tiled else size != total:
        rule = "a multiple of" if tiled else "equal to"
        raise PositionalAxisError(
            f"{op}: the positional axis {what} has size {size}; with tiled={tiled} it must be"
            f" {rule} the size of the axis {show_names(plan.names)}, {total}, because every"
            " instance receives one block of it."
        )
    part = (size // total,) if tiled else ()
    data = data.reshape((*data.shape[:place], *plan.sizes, *part, *data.shape[place + 1 :]))
    data = _move_dims(data, range(place, place + len(plan.sizes)))
    for i, axes in enumerate(plan.places):
        if axes and not plan.present[i]:  # replicated on all devices
            data = comm.cut(data, i, axes)
    return data


@operation("axis_name", explicit=Explicit.KEPT, scope=True)
def psum_scatter(
    x: PyTree,
    axis_name: AxisName,
    *,
    scatter_dimension: int = 0,
    axis_index_groups: Groups | None = None,
    tiled: bool = False,
) -> PyTree:
    """Sum over a named axis and scatter the sum: instance `i` keeps block `i` of a positional axis.

    Args:
      x: a named array, or a pytree of them.
      axis_name: the axis name; a tuple of names counts instances in row-major order.
      scatter_dimension: the positional axis that is split, one block per instance; by default 0.
      axis_index_groups: lists of equal size that together contain every index of the axis once, by
        default `None`; sum within each group, and scatter over its instances.
      tiled: if `False` (default), the positional axis has the size of the named axis and is
        removed. If `True`, its size is a multiple, and each instance keeps a slice.

    Returns:
      An array that still has the named axis. A value without the axis counts once per instance.

    Communication: one reduce-scatter after the local sum, also over several axes, with one element
    per device or in blocks. Within groups: one all-reduce of one value per group.

    Raises:
      AxisNotFoundError: neither the value nor the mapped function has the axis.
      PositionalAxisError: the positional axis does not exist, or its size does not fit.

    >>> import jax.numpy as jnp, namedax as nx
    >>> f = nx.xmap(lambda x: nx.lax.psum_scatter(x, "i"), in_axes=["i", None], out_axes=["i"])
    >>> f(jnp.arange(4.0).reshape(2, 2))
    Array([2., 4.], dtype=float32)
    """
    if axis_index_groups is not None:
        return _scatter_groups(x, axis_name, axis_index_groups, scatter_dimension, tiled)
    names = check_names("psum_scatter", axis_name)

    def one(leaf: ArrayLike) -> AnyArray:
        return accumulate("psum_scatter", scattered, as_array(leaf))

    def scattered(leaf: AnyArray, dtype: DType | None) -> AnyArray:
        plan = _plan("psum_scatter", leaf, names)
        k = len(names)
        axis = plan.position("psum_scatter", scatter_dimension, "scatter_dimension", plan.rank)
        data = plan.data.astype(jnp.int32) if plan.data.dtype == jnp.bool_ else plan.data
        for i, place in plan.uneven:
            if plan.present[i]:
                data = masked(data, i, place, 0)
        data = jnp.sum(data, tuple(range(k)), dtype=data.dtype)
        data = _split_off(
            "psum_scatter", plan, data, len(plan.kept) + axis, tiled, f"scatter_dimension={axis}"
        )
        if plan.sharded:
            data = comm.psum_scatter(_devices_to_front(data, plan), 0, plan.mesh_axes)
            data = lax.squeeze(data, (0,))
        copies = math.prod(
            n for n, there in zip(plan.sizes, plan.present, strict=True) if not there
        )
        data = data if copies == 1 else data * jnp.asarray(copies, data.dtype)
        return make_result(data, (*names, *plan.kept, *(None,) * (plan.rank - (not tiled))))

    return map_leaves(one, x)


@operation("axis_name", explicit=Explicit.KEPT, scope=True)
def all_to_all(
    x: PyTree,
    axis_name: AxisName,
    split_axis: int,
    concat_axis: int,
    *,
    axis_index_groups: Groups | None = None,
    tiled: bool = False,
) -> PyTree:
    """Exchange a named and a positional axis.

    Instance `i` receives block `i` of `split_axis` from every instance.

    Args:
      x: a named array, or a pytree of them.
      axis_name: the axis name; a tuple of names counts instances in row-major order.
      split_axis: the positional axis that is split, one block per instance.
      concat_axis: the positional axis of the result that enumerates the blocks of all instances.
      axis_index_groups: lists of equal size that together contain every index of the axis once, by
        default `None`; exchange within each group.
      tiled: if `False` (default), `split_axis` has the size of the named axis and is removed, and
        the result has a new axis at `concat_axis`. If `True`, `split_axis` becomes shorter, and the
        blocks are concatenated along `concat_axis`.

    Returns:
      An array that still has the named axis. A value without the axis is the same in every
      instance.

    Communication: one all-to-all and local transposes, also over several axes, with one element per
    device or in blocks. Within groups: one all-gather of the complete axis. For a value without the
    axis: none.

    Raises:
      AxisNotFoundError: neither the value nor the mapped function has the axis.
      PositionalAxisError: a positional axis does not exist, or its size does not fit.

    >>> import jax.numpy as jnp, namedax as nx
    >>> exchange = lambda x: nx.lax.all_to_all(x, "i", 0, 0)
    >>> f = nx.xmap(exchange, in_axes=["i", None], out_axes=["i", None])
    >>> f(jnp.arange(4).reshape(2, 2))
    Array([[0, 2],
           [1, 3]], dtype=int32)
    """
    if axis_index_groups is not None:
        return _exchange_groups(x, axis_name, axis_index_groups, split_axis, concat_axis, tiled)
    names = check_names("all_to_all", axis_name)

    def one(leaf: ArrayLike) -> AnyArray:
        op, k = "all_to_all", len(names)
        plan = _plan(op, leaf, names)
        split = plan.position(op, split_axis, "split_axis", plan.rank)
        concat = plan.position(op, concat_axis, "concat_axis", plan.rank)
        # One dimension per name for the blocks, one per name for their sources, and the rest.
        data = _split_off(
            op, plan, plan.data, k + len(plan.kept) + split, tiled, f"split_axis={split}"
        )
        if plan.sharded:
            data = comm.all_to_all(_devices_to_front(data, plan), 0, 0, plan.mesh_axes)
            devices = [plan.counts[i] for i in plan.sharded]
            data = data.reshape((*devices, *data.shape[1:]))
            # The sending devices are the major factor of the source index.
            order, shape = (
                list(range(len(devices), len(devices) + k)),
                list(data.shape[len(devices) : len(devices) + k]),
            )
            for i in range(k):
                at = len(devices) + k + i
                order += [plan.sharded.index(i), at] if i in plan.sharded else [at]
                shape.append(data.shape[at] * (plan.counts[i] if i in plan.sharded else 1))
            rest = range(len(devices) + 2 * k, data.ndim)
            data = lax.transpose(data, [*order, *rest]).reshape(
                (*shape, *(data.shape[i] for i in rest))
            )
        for i, _ in plan.uneven:
            if plan.present[i]:
                data = unpadded(data, k + i, plan.sizes[i])
        sources = plan.sizes
        if data.shape[k : 2 * k] != sources:
            data = jnp.broadcast_to(data, (*data.shape[:k], *sources, *data.shape[2 * k :]))
        data = data.reshape((*data.shape[:k], plan.total, *data.shape[2 * k :]))
        target = k + len(plan.kept) + concat
        data = jnp.moveaxis(data, k, target)
        if tiled:
            data = data.reshape(
                (
                    *data.shape[:target],
                    data.shape[target] * data.shape[target + 1],
                    *data.shape[target + 2 :],
                )
            )
        return make_result(data, (*names, *plan.kept, *(None,) * plan.rank))

    return map_leaves(one, x)


def _permute(
    op: str, x: ArrayLike, names: tuple[Hashable, ...], source_of: Callable[[int], tuple[int, ...]]
) -> AnyArray:
    plan = _plan(op, x, names)
    sources = source_of(plan.total)
    data, k = plan.data, len(names)
    out = (*names, *plan.kept, *(None,) * plan.rank)
    if any(plan.present):
        shape = (*plan.blocks, *data.shape[k:])
        if data.shape != shape:
            data = jnp.broadcast_to(data, shape)
        axes = tuple(axis for place in plan.places for axis in place)
        data = cast_data(data, axes) if axes else data
        data = data.reshape((math.prod(plan.blocks), *data.shape[k:]))
        data = move_rows(
            data, 0, axes, rows_of_blocks(sources, plan.sizes, plan.blocks, plan.counts)
        ).reshape(shape)
        for i, place in plan.uneven:
            data = refilled(data, i, place)
        return make_result(data, out)
    # The same value everywhere: repeat it, or use zero for instances that receive nothing.
    there = jnp.asarray(np.asarray(sources).reshape(plan.sizes) >= 0)
    for i, place in enumerate(plan.places):
        if place:
            there = comm.cut(there, i, place)
    data, there = cast_alike([data, there])
    there = there.reshape((*there.shape, *(1,) * (data.ndim - k)))
    return make_result(jnp.where(there, data, jnp.zeros((), data.dtype)), out)


@operation("axis_name", explicit=Explicit.KEPT, scope=True)
def ppermute(x: PyTree, axis_name: AxisName, perm: Iterable[tuple[int, int]]) -> PyTree:
    """Send the element of instance `source` to `target`, for all pairs of `perm`.

    Args:
      x: a named array, or a pytree of them.
      axis_name: the axis name; a tuple of names counts instances in row-major order.
      perm: pairs of indices along the axis. No source and no target appears twice.

    Returns:
      An array of the same type. An instance that is not a target receives zeros.

    Communication: for an axis in blocks of `b` elements, elements that remain on their device are
    not sent. A permutation of complete blocks is one collective-permute of a block. A shift by `k
    <= b` elements is one collective-permute of `k` elements; a longer shift is two, of `b` elements
    in total. A reversal is one, of a block. In general, the number of collective-permutes is the
    number of partners of the busiest device, which is the minimum. If that exceeds two and the
    traffic is even, one all-to-all replaces them. Its slots are padded to the largest one, to at
    most twice the bytes of the collective-permutes. Nothing is gathered.

    Raises:
      AxisNotFoundError: neither the value nor the mapped function has the axis.
      AxisSizeError: an index is out of range, or appears twice.

    >>> import jax.numpy as jnp, namedax as nx
    >>> to_right = lambda x: nx.lax.ppermute(x, "i", [(0, 1), (1, 2)])
    >>> f = nx.xmap(to_right, in_axes=["i"], out_axes=["i"])
    >>> f(jnp.array([5, 6, 7]))
    Array([0, 5, 6], dtype=int32)
    """
    names = check_names("ppermute", axis_name)
    perm = list(perm)
    if perm and all(isinstance(entry, (int, np.integer)) for entry in perm):
        raise ArgumentTypeError(
            f"ppermute: perm={format_value(perm)} contains indices, but ppermute takes pairs"
            " (source, target). If instance i should receive the element of instance perm[i],"
            f" write nx.lax.pshuffle(x, {format_value(axis_name)}, perm)."
        )
    pairs = [
        (
            as_integer("ppermute", "a source in perm", source),
            as_integer("ppermute", "a target in perm", target),
        )
        for source, target in perm
    ]

    def source_of(size: int) -> tuple[int, ...]:
        result = [-1] * size
        seen = set()
        for source, target in pairs:
            if not (0 <= source < size and 0 <= target < size):
                raise AxisSizeError(
                    f"ppermute: the pair {(source, target)} is out of range: the axis"
                    f" {show_names(names)} has size {size}, and indices go from 0 to {size - 1}."
                )
            if source in seen or result[target] >= 0:
                raise AxisSizeError(
                    f"ppermute: the source or the target of the pair {(source, target)} appears in"
                    " another pair; an instance sends once and receives once. Use pbroadcast to"
                    " send one element to all instances, or pgather to read one element several"
                    " times."
                )
            seen.add(source)
            result[target] = source
        return tuple(result)

    return map_leaves(lambda leaf: _permute("ppermute", leaf, names, source_of), x)


@operation("axis_name", explicit=Explicit.KEPT, scope=True)
def pshuffle(x: PyTree, axis_name: AxisName, perm: Sequence[int]) -> PyTree:
    """Permute a named axis: instance `i` receives the element of instance `perm[i]`.

    Args:
      x: a named array, or a pytree of them.
      axis_name: the axis name; a tuple of names counts instances in row-major order.
      perm: a permutation of all indices along the axis.

    Returns:
      An array of the same type.

    Communication: as for `nx.lax.ppermute`.

    Raises:
      AxisNotFoundError: neither the value nor the mapped function has the axis.
      AxisSizeError: `perm` is not a permutation of all indices.

    >>> import jax.numpy as jnp, namedax as nx
    >>> nx.positional(nx.lax.pshuffle(nx.named(jnp.array([5, 6, 7]), ["i"]), "i", [2, 0, 1]), ["i"])
    Array([7, 5, 6], dtype=int32)
    """
    names = check_names("pshuffle", axis_name)
    perm = tuple(as_integer("pshuffle", "an element of perm", i) for i in perm)

    def source_of(size: int) -> tuple[int, ...]:
        if sorted(perm) != list(range(size)):
            text = repr(perm) if len(perm) <= 16 else f"of length {len(perm)}"
            raise AxisSizeError(
                f"pshuffle: perm {text} is not a permutation of the {size} indices of the axis"
                f" {show_names(names)}. Write every index from 0 to {size - 1} once; for a partial"
                " permutation use ppermute."
            )
        return perm

    return map_leaves(lambda leaf: _permute("pshuffle", leaf, names, source_of), x)


@operation("axis_name", explicit=Explicit.KEPT, scope=True)
def pbroadcast(x: PyTree, axis_name: AxisName, source: int) -> PyTree:
    """Broadcast the element of instance `source` to every instance.

    Args:
      x: a named array, or a pytree of them.
      axis_name: the axis name; a tuple of names counts instances in row-major order.
      source: an index along the axis.

    Returns:
      An array of the same type.

    Communication: one all-reduce of one element, to which all other devices contribute zeros, and
    the same for the gradient.

    Raises:
      AxisNotFoundError: neither the value nor the mapped function has the axis.
      AxisSizeError: `source` is out of range.

    >>> import jax.numpy as jnp, namedax as nx
    >>> nx.positional(nx.lax.pbroadcast(nx.named(jnp.array([5, 6, 7]), ["i"]), "i", 1), ["i"])
    Array([6, 6, 6], dtype=int32)
    """
    names = check_names("pbroadcast", axis_name)

    def one(leaf: ArrayLike) -> AnyArray:
        plan = _plan("pbroadcast", leaf, names)
        if not 0 <= source < plan.total:
            raise AxisSizeError(
                f"pbroadcast: source {source} is out of range: the axis {show_names(names)} has"
                f" size {plan.total}, and indices go from 0 to {plan.total - 1}."
            )
        data, mine = plan.data, None
        for i, index in enumerate(int(g) for g in np.unravel_index(source, plan.sizes)):
            block, offset = divmod(index, plan.blocks[i])
            data = lax.slice_in_dim(
                data,
                offset if plan.present[i] else 0,
                (offset if plan.present[i] else 0) + 1,
                axis=i,
            )
            if i in plan.sharded:
                here = comm.block_index(plan.places[i]) == block
                mine = here if mine is None else mine & here
        if mine is not None:

            def of_one(data: jax.Array) -> jax.Array:
                own = comm.only_where(mine, data)
                own = own.astype(jnp.int32) if own.dtype == jnp.bool_ else own
                return to_type(comm.psum(own, plan.mesh_axes), data.dtype)

            data = comm.over_words(of_one, data) if comm.is_keys(data) else of_one(data)
        data = cast_data(
            data, (axis for place in plan.places for axis in place)
        )  # before it becomes large
        data = jnp.broadcast_to(data, (*plan.blocks, *data.shape[len(names) :]))
        return make_result(data, (*names, *plan.kept, *(None,) * plan.rank))

    return map_leaves(one, x)


def _scatter_groups(
    x: PyTree, axis_name: AxisName, groups: Groups, scatter_dimension: int, tiled: bool
) -> PyTree:
    op = "psum_scatter"
    name, at = one_name(op, axis_name), as_integer(op, "scatter_dimension", scatter_dimension)
    _, ranks, count = equal_groups(op, name, groups)

    def part(total: jax.Array, rank: jax.Array) -> jax.Array:
        width = width_in_group(op, "scatter_dimension", total.shape, at, count, tiled)
        kept = lax.dynamic_slice_in_dim(total, rank * width, width, at)
        return kept if tiled else lax.squeeze(kept, (at,))

    return map_leaves(
        lambda total: nmap(part)(total, ranks), reduce_groups(op, "sum", x, name, groups)
    )


def _exchange_groups(
    x: PyTree, axis_name: AxisName, groups: Groups, split_axis: int, concat_axis: int, tiled: bool
) -> PyTree:
    op = "all_to_all"
    name = one_name(op, axis_name)
    split = as_integer(op, "split_axis", split_axis)
    concat = as_integer(op, "concat_axis", concat_axis)
    members, ranks, count = equal_groups(op, name, groups)

    def pick(whole: jax.Array, index: jax.Array, rank: jax.Array) -> jax.Array:
        width = width_in_group(op, "split_axis", whole.shape[1:], split, count, tiled)
        at = split % (whole.ndim - 1) + 1
        parts = lax.dynamic_slice_in_dim(whole[index], rank * width, width, at)
        if tiled:
            return jnp.concatenate(list(parts), concat)
        return jnp.moveaxis(lax.squeeze(parts, (at,)), 0, concat)

    return map_leaves(lambda leaf: nmap(pick)(all_gather(leaf, name), members, ranks), x)


@operation("axis_name", explicit=Explicit.KEPT, scope=True)
def pswapaxes(
    x: PyTree, axis_name: AxisName, axis: int, *, axis_index_groups: Groups | None = None
) -> PyTree:
    """Swap a named axis with a positional one of the same size: `all_to_all(x, name, axis, axis)`.

    Args:
      x: a named array, or a pytree of them.
      axis_name: the axis name; a tuple of names counts instances in row-major order.
      axis: the positional axis.
      axis_index_groups: groups, as for `all_to_all`; by default `None`.

    Communication: as for `nx.lax.all_to_all`.

    >>> import jax.numpy as jnp, namedax as nx
    >>> swap = lambda x: nx.lax.pswapaxes(x, "i", 0)
    >>> f = nx.xmap(swap, in_axes=["i", None], out_axes=["i", None])
    >>> f(jnp.arange(4).reshape(2, 2))
    Array([[0, 2],
           [1, 3]], dtype=int32)
    """
    return all_to_all(x, axis_name, axis, axis, axis_index_groups=axis_index_groups)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    f.__name__: f for f in (all_to_all, pbroadcast, ppermute, pshuffle, pswapaxes, psum_scatter)
}
