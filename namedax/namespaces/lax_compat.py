"""Functions of `jax.lax` around its collectives: groups of instances, `pswapaxes`, casts, barriers, and device functions.

A collective within groups keeps the name: each instance has what its own group gives. JAX itself
has them on devices only (under `jax.vmap` they are not implemented); here they have that meaning
over logical indices, wherever these live.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from namedax.core.annotations import AnyArray
from namedax.core.array import NamedArray, dims_of
from namedax.core.call_errors import call_or_refuse
from namedax.core.display import type_text
from namedax.core.functions import joined
from namedax.core.records import Record
from namedax.core.region import ambient
from namedax.errors import (
    ArgumentError,
    ArgumentTypeError,
    PositionalAxisError,
    UnsupportedArgumentError,
    as_integer,
    format_value,
)
from namedax.namespaces.mirror import public
from namedax.operands.axes import holds_names
from namedax.operands.broadcasting import make_result, to_local
from namedax.operands.nmap import nmap
from namedax.operands.operation import Explicit, operation
from namedax.ops.collectives import permuting, reducing
from namedax.ops.collectives.reducing import _map, _names, _size, global_index
from namedax.ops.indexing.take import take
from namedax.ops.reduction import segments
from namedax.programs.primitives import COLLECTIVES

__all__ = ["FUNCTIONS"]

Groups = Sequence[Sequence[int]] | None


# --- groups -------------------------------------------------------------------------------------------------------------


class _GroupsOf(Record):
    """The name of the axis along which the groups of the instances of `name` lie in the meantime."""

    name: Hashable


def _one_name(op: str, axis_name: Any) -> Hashable:
    names = _names(op, axis_name)
    if len(names) != 1:
        raise UnsupportedArgumentError(
            f"{op}: axis_index_groups is for one name, and there are {len(names)}, {names!r}. Merge"
            " them first: nx.merge_axes."
        )
    return names[0]


def _members(op: str, name: Hashable, groups: Sequence[Sequence[int]]) -> list[list[int]]:
    """The groups, which together have every index of the axis once.

    Raises:
      ArgumentError: they do not.
    """
    try:
        members = [[operator.index(i) for i in group] for group in groups]
    except TypeError:
        raise ArgumentTypeError(
            f"{op}: axis_index_groups={format_value(groups)} is not a list of lists of integers,"
            " such as [[0, 1], [2, 3]]."
        ) from None
    size = _size(op, name)
    if sorted(i for group in members for i in group) != list(range(size)) or not all(members):
        raise ArgumentError(
            f"{op}: axis_index_groups={members} must have each index of axis {name!r}, 0 to"
            f" {size - 1}, exactly once, and no empty group."
        )
    return members


def _equal_groups(
    op: str, name: Hashable, groups: Sequence[Sequence[int]]
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """For each instance the members of its group, and its rank among them.

    Raises:
      ArgumentError: the groups are not of one size.
    """
    members = _members(op, name, groups)
    if len(set(map(len, members))) != 1:
        raise ArgumentError(
            f"{op}: axis_index_groups={members} must be of one size; every instance gets an array"
            " of one shape."
        )
    table, ranks = (
        np.zeros((_size(op, name), len(members[0])), np.int32),
        np.zeros(_size(op, name), np.int32),
    )
    for group in members:
        table[group], ranks[group] = group, range(len(group))
    return table, ranks


def _width(op: str, what: str, shape: tuple[int, ...], axis: int, count: int, tiled: bool) -> int:
    """Return the number of elements of an axis for each of `count` instances."""
    axis = as_integer(op, what, axis)
    if not -len(shape) <= axis < len(shape) or (
        shape[axis] % count if tiled else shape[axis] != count
    ):
        wanted = f"a multiple of {count}" if tiled else f"{count}"
        raise PositionalAxisError(
            f"{op}: {what}={axis} must be a positional axis whose size is {wanted}, the size of a"
            f" group; the positional shape is {shape}."
        )
    return shape[axis] // count


def _of_instances(op: str, name: Hashable, table: np.ndarray[Any, Any]) -> NamedArray:
    """`table`, whose first axis is that of the instances, along `name`: the block that is here."""
    index = global_index(op, name, len(table))
    result: NamedArray = make_result(
        jnp.asarray(table)[index.data], (name,) + (None,) * (table.ndim - 1)
    )
    return result


def _reduce_groups(
    op: str, kind: str, x: Any, axis_name: Any, groups: Sequence[Sequence[int]]
) -> Any:
    name = _one_name(op, axis_name)
    members = _members(op, name, groups)
    table = np.zeros(_size(op, name), np.int32)
    for number, group in enumerate(members):
        table[group] = number
    sizes = np.asarray([len(members[number]) for number in table])
    function = {
        "sum": segments.segment_sum,
        "max": segments.segment_max,
        "min": segments.segment_min,
    }[kind]

    def one(leaf: Any) -> Any:
        if name not in dims_of(leaf):
            if kind != "sum":
                return leaf
            return leaf * (
                len(members[0])
                if len(set(map(len, members))) == 1
                else _of_instances(op, name, sizes)
            )
        if leaf.dtype == jnp.bool_:
            leaf = leaf.astype(jnp.int32)
        ids = _of_instances(op, name, table)
        of_groups = function(leaf, ids, len(members), axis=name, out_axis=_GroupsOf(name))
        return take(of_groups, ids, _GroupsOf(name))

    result = _map(one, x)
    if op != "pmean":
        return result
    count: Any = sizes[0] if len(set(sizes)) == 1 else _of_instances(op, name, sizes)

    def divided(leaf: Any, before: Any) -> Any:
        return leaf / count if name in dims_of(before) else before

    return jax.tree.map(divided, result, x, is_leaf=_is_named)


def _with_groups(op: str, kind: str) -> Callable[..., Any]:
    base = getattr(reducing, op)

    @functools.wraps(base)
    def grouped(x: Any, axis_name: Any, *, axis_index_groups: Groups = None) -> AnyArray:
        return (
            base(x, axis_name)
            if axis_index_groups is None
            else _reduce_groups(op, kind, x, axis_name, axis_index_groups)
        )

    del grouped.__wrapped__  # whose signature it does not have
    grouped.__module__ = "namedax.lax"  # where it is found by its name, so that it can be pickled
    grouped.__doc__ = joined(
        base.__doc__,
        """
    `axis_index_groups`, lists that together have every index of the axis once, goes over each of them by itself, and keeps the
    name: every instance has the result of its group. Sharded: one all-reduce of as many values as there are groups.
    """,
    )
    return grouped


@operation(name="all_gather", explicit=Explicit.AS_JAX)
def all_gather(
    x: Any,
    axis_name: Any,
    *,
    axis_index_groups: Groups = None,
    axis: int = 0,
    tiled: bool = False,
    to: str = "varying",
) -> Any:
    if to not in ("varying", "invarying"):
        raise UnsupportedArgumentError(
            f"all_gather: to={format_value(to)} is not supported over names: how a value varies"
            " over a mesh follows from its names. Leave it out."
        )
    if axis_index_groups is None:
        return reducing.all_gather(x, axis_name, axis=axis, tiled=tiled)
    op = "all_gather"
    name = _one_name(op, axis_name)
    table, _ = _equal_groups(op, name, axis_index_groups)

    def pick(whole: Any, index: Any) -> Any:
        part = whole[index]
        if not tiled:
            return jnp.moveaxis(part, 0, axis)
        return jnp.concatenate(list(part), axis)

    def one(leaf: Any) -> Any:
        whole = reducing.all_gather(leaf, name)
        return nmap(pick)(whole, _of_instances(op, name, table))

    return _map(one, x)


all_gather.__doc__ = joined(
    reducing.all_gather.__doc__,
    """
    `axis_index_groups`, lists of one size that together have every index of the axis once,
    gathers within each of them, and keeps the name: every instance has the entries of its group. That too is one all-gather of
    the whole axis. `to=` is JAX's word for how the result varies over a mesh, which follows from its names here: it changes
    nothing.
    """,
)


@operation(name="psum_scatter", explicit=Explicit.AS_JAX)
def psum_scatter(
    x: Any,
    axis_name: Any,
    *,
    scatter_dimension: int = 0,
    axis_index_groups: Groups = None,
    tiled: bool = False,
) -> Any:
    if axis_index_groups is None:
        return permuting.psum_scatter(
            x, axis_name, scatter_dimension=scatter_dimension, tiled=tiled
        )
    op = "psum_scatter"
    name, at = _one_name(op, axis_name), as_integer(op, "scatter_dimension", scatter_dimension)
    table, ranks = _equal_groups(op, name, axis_index_groups)

    def part(total: Any, rank: Any) -> Any:
        width = _width(op, "scatter_dimension", total.shape, at, table.shape[1], tiled)
        kept = lax.dynamic_slice_in_dim(total, rank * width, width, at)
        return kept if tiled else lax.squeeze(kept, (at,))

    totals = _reduce_groups(op, "sum", x, name, axis_index_groups)
    return _map(lambda total: nmap(part)(total, _of_instances(op, name, ranks)), totals)


psum_scatter.__doc__ = joined(
    permuting.psum_scatter.__doc__,
    """
    `axis_index_groups`, lists of one size that together have every index of the axis
    once, sums within each of them, and each instance keeps the part of its rank in its group. Sharded, that is one all-reduce
    of as many values as there are groups.
    """,
)


@operation(name="all_to_all", explicit=Explicit.AS_JAX)
def all_to_all(
    x: Any,
    axis_name: Any,
    split_axis: int,
    concat_axis: int,
    *,
    axis_index_groups: Groups = None,
    tiled: bool = False,
) -> Any:
    if axis_index_groups is None:
        return permuting.all_to_all(x, axis_name, split_axis, concat_axis, tiled=tiled)
    op = "all_to_all"
    name = _one_name(op, axis_name)
    split, concat = (
        as_integer(op, "split_axis", split_axis),
        as_integer(op, "concat_axis", concat_axis),
    )
    table, ranks = _equal_groups(op, name, axis_index_groups)

    def pick(whole: Any, index: Any, rank: Any) -> Any:
        width = _width(op, "split_axis", whole.shape[1:], split, table.shape[1], tiled)
        at = split % (whole.ndim - 1) + 1
        parts = lax.dynamic_slice_in_dim(whole[index], rank * width, width, at)
        return (
            jnp.concatenate(list(parts), concat)
            if tiled
            else jnp.moveaxis(lax.squeeze(parts, (at,)), 0, concat)
        )

    def one(leaf: Any) -> Any:
        return nmap(pick)(
            reducing.all_gather(leaf, name),
            _of_instances(op, name, table),
            _of_instances(op, name, ranks),
        )

    return _map(one, x)


all_to_all.__doc__ = joined(
    permuting.all_to_all.__doc__,
    """
    `axis_index_groups`, lists of one size that together have every index of the axis once,
    exchanges within each of them. Sharded, that is one all-gather of the whole axis.
    """,
)


# --- besides the collectives ---------------------------------------------------------------------------------------------


@operation(name="pswapaxes", explicit=Explicit.AS_JAX)
def pswapaxes(x: Any, axis_name: Any, axis: int, *, axis_index_groups: Groups = None) -> Any:
    """Swaps a named axis and a positional one of the same size: `all_to_all(x, axis_name, axis, axis)`, within groups if they are given.

    >>> import jax.numpy as jnp, namedax as nx
    >>> f = nx.xmap(lambda x: nx.lax.pswapaxes(x, "i", 0), in_axes=["i", None], out_axes=["i", None])
    >>> f(jnp.arange(4).reshape(2, 2))
    Array([[0, 2],
           [1, 3]], dtype=int32)
    """
    return all_to_all(x, axis_name, axis, axis, axis_index_groups=axis_index_groups)


def pcast(x: Any, axis_name: Any, *, to: str) -> Any:
    """`x` itself.

    In JAX a cast of variance; here a value varies over a mesh axis if and only if a name says so,
    and is cast where that is needed.

    Args:
      x: a named array, or a pytree of them.
      axis_name: the name, or a tuple of names.
      to: `"varying"`, which changes no value.

    Raises:
      AxisNotFoundError: a name has no size here.
      UnsupportedArgumentError: `to` is anything else; postponed sums are internal to namedax.
    """
    for name in _names("pcast", axis_name):
        _size("pcast", name)
    if to != "varying":
        raise UnsupportedArgumentError(
            f"pcast: to={format_value(to)} is not supported for axis {format_value(axis_name)}: how"
            " values vary follows from their names. Leave the cast out, and reduce over the name"
            " (nx.lax.psum) where a sum is meant."
        )
    return x


def optimization_barrier(operand: Any) -> Any:
    """The operands, none of which is computed later than any use of the results; see `jax.lax.optimization_barrier`. Changes no value.

    >>> import jax.numpy as jnp, namedax as nx
    >>> x, y = nx.lax.optimization_barrier((nx.named(jnp.arange(3.0), ["k"]), 2.0))
    >>> x.dims
    ('k',)
    """
    region = ambient()
    leaves, tree = jax.tree.flatten(operand, is_leaf=lambda leaf: isinstance(leaf, NamedArray))
    blocks = [to_local(leaf, "optimization_barrier", region) for leaf in leaves]
    datas = lax.optimization_barrier(
        [block.data if isinstance(block, NamedArray) else block for block in blocks]
    )
    return jax.tree.unflatten(
        tree, [make_result(data, dims_of(block)) for data, block in zip(datas, blocks, strict=True)]
    )


def _of_devices(name: str, remedy: str, collective: bool) -> Callable[..., Any]:
    """A function of JAX that concerns devices: for plain arrays as it is, refused for named ones."""
    function = getattr(lax, name)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        region = ambient()
        values = [*args, *kwargs.values()]
        if holds_names(values) or (collective and region is not None and bool(region.resources)):
            named = [leaf for leaf in jax.tree.leaves(values, is_leaf=_is_named) if _is_named(leaf)]
            of = ", ".join(map(type_text, named)) or "a mapped function"
            raise ArgumentTypeError(
                f"{name}: it operates on devices and does not accept named arrays; it was called"
                f" for {of}. {remedy}"
            )
        return call_or_refuse(function, args, kwargs)

    call.__module__ = "namedax.lax"
    call.__doc__ = (
        f"`jax.lax.{name}`, for arrays without names outside of mapped functions. {remedy}"
    )
    return call


def _is_named(leaf: Any) -> bool:
    return isinstance(leaf, NamedArray)


_REMEDIES = {
    "psend": ("Entries travel by nx.lax.ppermute.", True),
    "precv": ("Entries travel by nx.lax.ppermute.", True),
    "ragged_all_to_all": (
        (
            "Entries that go where numbers say travel by nx.take, nx.segment_sum or"
            " nx.nn.mixture_of_experts."
        ),
        True,
    ),
    # Of these JAX 0.12 has `psum_scatter_start`.
    **{
        f"{name}_start": (
            f"Use nx.lax.{name}, which XLA makes asynchronous where that helps.",
            True,
        )
        for name in COLLECTIVES
    },
    "with_sharding_constraint": (
        "Where a named array lives follows from its names: nx.shard(x, axis_resources, mesh).",
        False,
    ),
    "rng_uniform": (
        "Samplers by name stand in nx.random: nx.random.uniform(key, named_shape=...).",
        False,
    ),
    "rng_bit_generator": (
        "Samplers by name stand in nx.random: nx.random.bits(key, named_shape=...).",
        False,
    ),
}

#: Functions of `jax.lax`.
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "psum": _with_groups("psum", "sum"),
    "pmean": _with_groups("pmean", "sum"),
    "pmax": _with_groups("pmax", "max"),
    "pmin": _with_groups("pmin", "min"),
    "all_gather": all_gather,
    "all_to_all": all_to_all,
    "psum_scatter": psum_scatter,
    "pswapaxes": pswapaxes,
    "pcast": pcast,
    "optimization_barrier": optimization_barrier,
    **{name: _of_devices(name, *_REMEDIES[name]) for name in public(lax) if name in _REMEDIES},
}
