"""Collectives over named axes, with JAX's semantics over logical indices.

They work the same for an axis that is vectorized, sharded with one element per device, or sharded
in blocks. A value without the axis is the same in every instance. `psum` multiplies it by the size
of the axis; `pmean`, `pmax` and `pmin` return it.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from namedax.core.annotations import AnyArray, ArrayLike
from namedax.core.array import NamedArray, dims_of
from namedax.core.display import type_text
from namedax.core.names import AxisName, DType, PyTree, is_name
from namedax.core.padded_sharding import Uneven
from namedax.core.records import Record
from namedax.core.region import ambient, vmapped_by
from namedax.core.variance import with_varying_form
from namedax.errors import (
    ArgumentError,
    ArgumentTypeError,
    AxisNameError,
    AxisNotFoundError,
    PositionalAxisError,
    UnsupportedArgumentError,
    as_integer,
    did_you_mean,
    format_value,
    show_names,
    usage,
)
from namedax.messages.call_errors import checks_signature
from namedax.ops.collectives.gathering import gather_entries
from namedax.ops.operands.broadcasting import make_result, to_local
from namedax.ops.operands.nmap import nmap
from namedax.ops.operands.operation import Explicit, operation
from namedax.ops.reduction import reductions, segments
from namedax.resources import communication as comm

__all__ = [
    "all_gather",
    "axis_index",
    "axis_size",
    "global_index",
    "pcast",
    "pmax",
    "pmean",
    "pmin",
    "psum",
]

Groups = Sequence[Sequence[int]]


def check_names(op: str, axis_name: AxisName) -> tuple[Hashable, ...]:
    names = tuple(axis_name) if isinstance(axis_name, (tuple, list)) else (axis_name,)
    for name in names:
        if not is_name(name):
            raise AxisNotFoundError(
                f"{op}: {format_value(name)} is not an axis name; collectives operate on named"
                f" axes.{usage(op) if hasattr(name, 'dtype') else ''}"
            )
    if len(set(names)) < len(names):
        raise AxisNameError(
            f"{op}: the names {show_names(names)} are not all different; a collective takes each"
            " name once."
        )
    return names


@checks_signature
def axis_size(axis: AxisName) -> int:
    """Return the global size of a named axis, or the product of the sizes for a tuple of names.

    Args:
      axis: an axis name, or a tuple of names.

    Returns:
      A Python integer.

    Communication: none.

    Raises:
      AxisNotFoundError: the axis has no size here: no argument of the mapped function has it, and
        `axis_sizes` lacks it.

    >>> import jax.numpy as jnp, namedax as nx
    >>> nx.xmap(lambda x: x / nx.lax.axis_size("i"), in_axes=["i"], out_axes=["i"])(jnp.ones(4))
    Array([0.25, 0.25, 0.25, 0.25], dtype=float32)
    """
    return math.prod(size_of("axis_size", name) for name in check_names("axis_size", axis))


def size_of(op: str, name: Hashable) -> int:
    region = ambient()
    if region is None or name not in region.sizes:
        known = list(region.sizes) if region is not None else []
        here = f"the names here are {show_names(known)}" if known else "no axis here has a name"
        where = here if region is not None else "no mapped function is being traced here"
        of_mesh = region.mesh_axis_hint(name) if region is not None else ""
        remedy = (
            of_mesh or "Give an argument that axis in in_axes, or its size in axis_sizes of xmap."
        )
        meant = "" if of_mesh else did_you_mean(name, known)
        raise AxisNotFoundError(f"{op}: axis {name!r} has no size; {where}.{meant} {remedy}").about(
            axis=name, found_size=None if region is None else region.found_size(name)
        )
    region.seen.add(name)
    return region.sizes[name]


def size_of_absent(op: str, name: Hashable) -> int:
    """Return the global size of an axis that a value lacks, being the same in every instance.

    Raises:
      AxisNotFoundError: the axis has no size here, or a `vmap` hides it and the value belongs to
        one instance.
    """
    by = vmapped_by(name)
    if by is not None:
        raise AxisNotFoundError(
            f"{op}: {by} removes the axis {name!r} here and calls the function on one element at a"
            f" time. Call {op} outside of it, on its arguments or its results."
        )
    return size_of(op, name)


def axis_index(axis_name: AxisName) -> NamedArray:
    """Return the index of every instance along a named axis.

    For a tuple of names the index is row-major in the given order.

    Args:
      axis_name: an axis name, or a tuple of names.

    Returns:
      `i32[]{name}` with the values 0 to size - 1.

    Communication: none.

    >>> import jax.numpy as jnp, namedax as nx
    >>> nx.xmap(lambda x: x + nx.lax.axis_index("i"), in_axes=["i"], out_axes=["i"])(jnp.zeros(4))
    Array([0., 1., 2., 3.], dtype=float32)
    """
    index: Any = 0
    for i, name in enumerate(check_names("axis_index", axis_name)):
        size = size_of("axis_index", name)
        entries = global_index("axis_index", name, size)
        index = entries if i == 0 else index * size + entries
    result: NamedArray = index
    return result


def global_index(op: str, name: Hashable, size: int, dtype: DType = jnp.int32) -> NamedArray:
    """Build `arange(size)` along `name`, with each device computing its own block."""
    region = ambient()
    block = size if region is None else region.block_size(name, size, op, supports_padding=True)
    index = lax.iota(dtype, block)
    place = () if region is None else region.place(name)
    if place:
        index = index + comm.block_index(place).astype(dtype) * block
    if isinstance(place, Uneven):
        index = jnp.minimum(index, jnp.asarray(size - 1, dtype))  # padding repeats the last element
    result: NamedArray = make_result(index, (name,))
    return result


def _split_names(
    x: ArrayLike, names: tuple[Hashable, ...]
) -> tuple[tuple[Hashable, ...], tuple[Hashable, ...]]:
    dims = dims_of(x)
    return tuple(n for n in names if n in dims), tuple(n for n in names if n not in dims)


@operation("axis_name", explicit=Explicit.AS_JAX, scope=True)
def psum(x: PyTree, axis_name: AxisName, *, axis_index_groups: Groups | None = None) -> PyTree:
    """Sum over a named axis or a tuple of them, for every leaf of `x`, and drop these axes.

    As in JAX, a value without the axis is multiplied by its size, and for a Python number the
    result is a Python number. The dtype is preserved, also for narrow integers; booleans are
    counted as `int32`.

    Args:
      x: a pytree of arrays, named or not.
      axis_name: an axis name, or a tuple of names.
      axis_index_groups: lists that together contain every index of the axis once, by default
        `None`. The reduction is within each group and keeps the named axis: every instance has the
        result of its group.

    Returns:
      The tree without the axes.

    Communication: one all-reduce of the local sums; with groups, one all-reduce of one value per
    group.

    Raises:
      AxisNotFoundError: neither the value nor the mapped function has an axis.
      ArgumentError: the groups do not contain every index once.

    >>> import jax.numpy as jnp, namedax as nx
    >>> nx.xmap(lambda x: x / nx.lax.psum(x, "i"), in_axes=["i"], out_axes=["i"])(jnp.ones(4))
    Array([0.25, 0.25, 0.25, 0.25], dtype=float32)
    """
    if axis_index_groups is not None:
        return reduce_groups("psum", "sum", x, axis_name, axis_index_groups)
    names = check_names("psum", axis_name)

    def one(leaf: Any) -> ArrayLike:
        if getattr(leaf, "dtype", None) == jnp.bool_:
            leaf = leaf.astype(jnp.int32)
        present, absent = _split_names(leaf, names)
        copies = math.prod(size_of_absent("psum", name) for name in absent)
        result = reductions.sum(leaf, present, promote_integers=False) if present else leaf
        return result * copies if absent else result

    return map_leaves(one, x)


def map_leaves(function: Callable[[ArrayLike], ArrayLike], x: PyTree) -> PyTree:
    return jax.tree.map(function, x, is_leaf=lambda leaf: isinstance(leaf, NamedArray))


def _over_present(op: str, reduction: str, x: PyTree, axis_name: AxisName) -> PyTree:
    names = check_names(op, axis_name)

    def one(leaf: ArrayLike) -> ArrayLike:
        present, absent = _split_names(leaf, names)
        for name in absent:
            size_of_absent(op, name)
        return reductions.REDUCTIONS[reduction](leaf, present) if present else leaf

    return map_leaves(one, x)


@operation("axis_name", explicit=Explicit.AS_JAX, scope=True)
def pmean(x: PyTree, axis_name: AxisName, *, axis_index_groups: Groups | None = None) -> PyTree:
    """Average every leaf over a named axis or a tuple of them.

    A value without the axis is returned unchanged.

    Args:
      x: a pytree of arrays, named or not.
      axis_name: an axis name, or a tuple of names.
      axis_index_groups: lists that together contain every index of the axis once, by default
        `None`. The reduction is within each group and keeps the named axis: every instance has the
        result of its group.

    Returns:
      The tree without the axes.

    Communication: as for `nx.lax.psum`.

    Raises:
      AxisNotFoundError: neither the value nor the mapped function has an axis.
      ArgumentError: the groups do not contain every index once.
    """
    if axis_index_groups is not None:
        return reduce_groups("pmean", "sum", x, axis_name, axis_index_groups)
    return _over_present("pmean", "mean", x, axis_name)


@operation("axis_name", explicit=Explicit.AS_JAX, scope=True)
def pmax(x: PyTree, axis_name: AxisName, *, axis_index_groups: Groups | None = None) -> PyTree:
    """Take the maximum of every leaf over a named axis or a tuple of them.

    A value without the axis is returned unchanged. Differentiable, unlike `jax.lax.pmax`: ties
    share the gradient, as in `nx.max`.

    Args:
      x: a pytree of arrays, named or not.
      axis_name: an axis name, or a tuple of names.
      axis_index_groups: lists that together contain every index of the axis once, by default
        `None`. The reduction is within each group and keeps the named axis: every instance has the
        result of its group.

    Returns:
      The tree without the axes.

    Communication: as for `nx.lax.psum`.

    Raises:
      AxisNotFoundError: neither the value nor the mapped function has an axis.
      ArgumentError: the groups do not contain every index once.
    """
    if axis_index_groups is not None:
        return reduce_groups("pmax", "max", x, axis_name, axis_index_groups)
    return _over_present("pmax", "max", x, axis_name)


@operation("axis_name", explicit=Explicit.AS_JAX, scope=True)
def pmin(x: PyTree, axis_name: AxisName, *, axis_index_groups: Groups | None = None) -> PyTree:
    """Take the minimum of every leaf over a named axis or a tuple of them.

    A value without the axis is returned unchanged. Differentiable, unlike `jax.lax.pmin`: ties
    share the gradient, as in `nx.min`.

    Args:
      x: a pytree of arrays, named or not.
      axis_name: an axis name, or a tuple of names.
      axis_index_groups: lists that together contain every index of the axis once, by default
        `None`. The reduction is within each group and keeps the named axis: every instance has the
        result of its group.

    Returns:
      The tree without the axes.

    Communication: as for `nx.lax.psum`.

    Raises:
      AxisNotFoundError: neither the value nor the mapped function has an axis.
      ArgumentError: the groups do not contain every index once.
    """
    if axis_index_groups is not None:
        return reduce_groups("pmin", "min", x, axis_name, axis_index_groups)
    return _over_present("pmin", "min", x, axis_name)


@operation("axis_name", explicit=Explicit.KEPT, scope=True)
def all_gather(
    x: PyTree,
    axis_name: AxisName,
    *,
    axis_index_groups: Groups | None = None,
    axis: int = 0,
    tiled: bool = False,
    to: str = "varying",
) -> PyTree:
    """Gather a named axis, or a tuple of them, into a complete positional axis.

    Args:
      x: a named array, or a pytree of them.
      axis_name: the axis name; a tuple of names gathers in row-major order.
      axis_index_groups: lists of equal size that together contain every index of the axis once, by
        default `None`; gather within each group and keep the named axis.
      axis: the index of the positional axis among the positional axes of the result; by default 0.
      tiled: if `False` (default), the result has a new positional axis. If `True`, the elements are
        concatenated along the existing positional axis `axis`.
      to: `"varying"` (default) or `"invarying"`, without effect: the variance of a result follows
        from its names.

    Returns:
      The array without the named axes. A value without a named axis is repeated along the new axis,
      as in JAX.

    Communication: one all-gather, also within groups; the result is replicated on every device. If
    the result is combined with a value that varies over the same mesh axis, the transpose is a
    reduce-scatter, otherwise a slice. A result with no named axis is a plain array and counts as
    replicated. If it is combined with a varying value, its transpose is an all-reduce and a slice.

    >>> import jax.numpy as jnp, namedax as nx
    >>> f = nx.xmap(lambda x: nx.lax.all_gather(x, "i") * x, in_axes=["i"], out_axes=["i", None])
    >>> f(jnp.arange(1.0, 4.0))
    Array([[1., 2., 3.],
           [2., 4., 6.],
           [3., 6., 9.]], dtype=float32)
    """
    if to not in ("varying", "invarying"):
        raise UnsupportedArgumentError(
            f"all_gather: to={format_value(to)} is not supported over names: how a value varies"
            " over a mesh follows from its names. Leave it out."
        )
    if axis_index_groups is not None:
        return _gather_groups(x, axis_name, axis_index_groups, axis, tiled)
    names = check_names("all_gather", axis_name)
    return map_leaves(lambda leaf: _gather_one(leaf, names, axis, tiled), x)


def _gather_one(x: ArrayLike, names: tuple[Hashable, ...], axis: int, tiled: bool) -> AnyArray:
    region = ambient()
    x = to_local(x, "all_gather", region)
    if not isinstance(x, NamedArray):
        x = jnp.asarray(x)
    data = x._data if isinstance(x, NamedArray) else x
    dims = dims_of(x)
    absent = [name for name in names if name not in dims]
    for name in absent:  # repeated once per instance, without communication
        data = jnp.broadcast_to(data, (size_of_absent("all_gather", name), *data.shape))
        dims = (name, *dims)
    rank, axis = dims.count(None), as_integer("all_gather", "axis", axis)
    if not -(rank + (not tiled)) <= axis < rank + (not tiled):
        raise PositionalAxisError(
            f"all_gather: axis={axis} is out of range: {type_text(x)} has {rank} positional axes"
            f"{'' if tiled else ', and the result has one more'}."
        )
    axis %= rank + (not tiled)
    # Gathered axes precede the others, in the given order; then the named axes of the result; then
    # the positional axes.
    kept = [i for i, dim in enumerate(dims) if dim is not None and dim not in names]
    places = [i for i, dim in enumerate(dims) if dim is None]
    front = [dims.index(name) for name in names]
    data = lax.transpose(data, front + kept + places)
    placements = [
        region.place(name) if region is not None and name not in absent else () for name in names
    ]
    local_shape = data.shape
    shards = [math.prod(lax.axis_size(a) for a in axes) for axes in placements]
    sizes = [n * s for n, s in zip(local_shape, shards, strict=False)]
    sizes = [
        axes.size if isinstance(axes, Uneven) else n
        for n, axes in zip(sizes, placements, strict=True)
    ]
    target = len(kept) + axis

    def arrange(to: str) -> jax.Array:
        whole = data
        for i, axes in enumerate(placements):
            if axes:
                whole = comm.all_gather(whole, i, axes, to)  # type: ignore[arg-type]
        whole = whole.reshape((math.prod(sizes), *local_shape[len(names) :]))
        whole = jnp.moveaxis(whole, 0, target)
        if tiled:
            shape = list(whole.shape)
            shape[target : target + 2] = [shape[target] * shape[target + 1]]
            whole = whole.reshape(shape)
        return whole

    out = tuple(dims[i] for i in kept) + (None,) * (rank + (not tiled))
    mesh_axes = frozenset(mesh_axis for axes in placements for mesh_axis in axes)
    if not mesh_axes or not kept:
        return make_result(arrange("invarying"), out)
    return with_varying_form(arrange("invarying"), out, mesh_axes, lambda: arrange("varying"))


# --- groups of instances --------------------------------------------------------------------------
# JAX has them on devices only, not under `jax.vmap`. Here they consist of logical indices.


class _GroupsOf(Record):
    """A temporary name for the axis of the groups of the instances of `name`."""

    name: Hashable


def one_name(op: str, axis_name: AxisName) -> Hashable:
    """Return the single name of a collective within groups.

    Raises:
      UnsupportedArgumentError: there are several names.
    """
    names = check_names(op, axis_name)
    if len(names) != 1:
        raise UnsupportedArgumentError(
            f"{op}: axis_index_groups is for one name, and there are {len(names)}, {names!r}. Merge"
            " them first: nx.merge_axes."
        )
    return names[0]


def _members(op: str, name: Hashable, groups: Groups) -> list[list[int]]:
    """Return the groups as lists.

    Raises:
      ArgumentError: they do not contain every index of the axis exactly once.
    """
    try:
        members = [[operator.index(i) for i in group] for group in groups]
    except TypeError:
        raise ArgumentTypeError(
            f"{op}: axis_index_groups={format_value(groups)} is not a list of lists of integers,"
            " such as [[0, 1], [2, 3]]."
        ) from None
    size = size_of(op, name)
    if sorted(i for group in members for i in group) != list(range(size)) or not all(members):
        raise ArgumentError(
            f"{op}: axis_index_groups={members} must have each index of axis {name!r}, 0 to"
            f" {size - 1}, exactly once, and no empty group."
        )
    return members


def equal_groups(op: str, name: Hashable, groups: Groups) -> tuple[NamedArray, NamedArray, int]:
    """Return the members of the group of each instance, its rank in the group, and the group size.

    Raises:
      ArgumentError: the groups have different sizes.
    """
    members = _members(op, name, groups)
    if len(set(map(len, members))) != 1:
        raise ArgumentError(
            f"{op}: axis_index_groups={members} must be of one size; every instance gets an array"
            " of one shape."
        )
    size, width = size_of(op, name), len(members[0])
    table, ranks = np.zeros((size, width), np.int32), np.zeros(size, np.int32)
    for group in members:
        table[group], ranks[group] = group, range(width)
    return _of_instances(op, name, table), _of_instances(op, name, ranks), width


def _of_instances(op: str, name: Hashable, table: np.ndarray[Any, Any]) -> NamedArray:
    """Return the local block of a table with one row per instance, along `name`."""
    index = global_index(op, name, len(table))
    result: NamedArray = make_result(
        jnp.asarray(table)[index.data], (name, *(None,) * (table.ndim - 1))
    )
    return result


def width_in_group(
    op: str, parameter: str, shape: tuple[int, ...], axis: int, count: int, tiled: bool
) -> int:
    """Return the number of elements of a positional axis for each of `count` instances.

    Raises:
      PositionalAxisError: the size of the axis does not fit.
    """
    axis = as_integer(op, parameter, axis)
    if not -len(shape) <= axis < len(shape) or (
        shape[axis] % count if tiled else shape[axis] != count
    ):
        wanted = f"a multiple of {count}" if tiled else f"{count}"
        raise PositionalAxisError(
            f"{op}: {parameter}={axis} must be a positional axis whose size is {wanted}, the size"
            f" of a group; the positional shape is {shape}."
        )
    return shape[axis] // count


def reduce_groups(
    op: str, reduction: str, x: PyTree, axis_name: AxisName, groups: Groups
) -> PyTree:
    """Reduce within groups by `"sum"`, `"max"` or `"min"`; for `pmean`, divide by their sizes."""
    name = one_name(op, axis_name)
    members = _members(op, name, groups)
    table = np.zeros(size_of(op, name), np.int32)
    for number, group in enumerate(members):
        table[group] = number
    sizes = np.asarray([len(members[number]) for number in table])
    has_one_size = len(set(sizes)) == 1

    def count() -> int | NamedArray:
        return int(sizes[0]) if has_one_size else _of_instances(op, name, sizes)

    def one(leaf: Any) -> AnyArray:
        if name not in dims_of(leaf):
            return leaf if reduction != "sum" or op == "pmean" else leaf * count()
        if leaf.dtype == jnp.bool_:
            leaf = leaf.astype(jnp.int32)
        ids = _of_instances(op, name, table)
        of_groups = segments.FUNCTIONS[f"segment_{reduction}"](
            leaf, ids, len(members), axis=name, out_axis=_GroupsOf(name)
        )
        result = gather_entries(op, of_groups, ids, _GroupsOf(name))
        return result / count() if op == "pmean" else result

    return map_leaves(one, x)


def _gather_groups(
    x: PyTree, axis_name: AxisName, groups: Groups, axis: int, tiled: bool
) -> PyTree:
    name = one_name("all_gather", axis_name)
    members, _, _ = equal_groups("all_gather", name, groups)

    def pick(whole: jax.Array, index: jax.Array) -> jax.Array:
        part = whole[index]
        return jnp.concatenate(list(part), axis) if tiled else jnp.moveaxis(part, 0, axis)

    return map_leaves(lambda leaf: nmap(pick)(_gather_one(leaf, (name,), 0, False), members), x)


# --- casts of variance ----------------------------------------------------------------------------


def pcast(x: PyTree, axis_name: AxisName, *, to: str) -> PyTree:
    """Return `x` unchanged.

    In JAX this casts the variance. Here a value varies over a mesh axis if and only if one of its
    names is mapped to it, and casts are automatic.

    Args:
      x: a named array, or a pytree of them.
      axis_name: an axis name, or a tuple of names.
      to: `"varying"`, which changes no value.

    Communication: none.

    Raises:
      AxisNotFoundError: a name has no size here.
      UnsupportedArgumentError: `to` has another value; postponed sums are internal to namedax.
    """
    for name in check_names("pcast", axis_name):
        size_of("pcast", name)
    if to != "varying":
        raise UnsupportedArgumentError(
            f"pcast: to={format_value(to)} is not supported for axis {format_value(axis_name)}: how"
            " values vary follows from their names. Leave the cast out, and reduce over the name"
            " (nx.lax.psum) where a sum is meant."
        )
    return x
