"""Collectives over names, with the meaning that JAX gives them over logical indices.

They work the same whether a name is vectorised, sharded one entry per device, or sharded in blocks. A value that lacks the name is
the same in every instance: `psum` multiplies it by the size of the axis, `pmean`, `pmax` and `pmin` return it.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from namedax.core.array import NamedArray, dims_of
from namedax.core.call_errors import checks_signature
from namedax.core.display import type_text
from namedax.core.names import is_name
from namedax.core.padded_sharding import Uneven
from namedax.core.region import ambient, vmapped_by
from namedax.core.variance import with_varying_form
from namedax.errors import (
    AxisNameError,
    AxisNotFoundError,
    PositionalAxisError,
    as_integer,
    did_you_mean,
    format_value,
    show_names,
    usage,
)
from namedax.operands.broadcasting import make_result, to_local
from namedax.operands.operation import Explicit, operation
from namedax.ops.reduction import reductions
from namedax.resources import communication as comm

__all__ = ["all_gather", "axis_index", "axis_size", "global_index", "pmax", "pmean", "pmin", "psum"]

AxisName = Any


def _names(op: str, axis_name: AxisName) -> tuple[Hashable, ...]:
    names = tuple(axis_name) if isinstance(axis_name, (tuple, list)) else (axis_name,)
    for name in names:
        if not is_name(name):
            raise AxisNotFoundError(
                f"{op}: {format_value(name)} is not an axis name; collectives go over named axes.{usage(op) if hasattr(name, 'dtype') else ''}"
            )
    if len(set(names)) < len(names):
        raise AxisNameError(f"{op}: the names {show_names(names)} are not all different; a collective goes over a name once.")
    return names


@checks_signature
def axis_size(axis: AxisName) -> int:
    """The global size of a named axis of the mapped function, or the product for a tuple of names.

    Args:
      axis: a name, or a tuple of names.

    Returns:
      A Python integer.

    Raises:
      AxisNotFoundError: the name has no size here: no argument of the mapped function has it, nor does `axis_sizes`.

    >>> import jax.numpy as jnp, namedax as nx
    >>> nx.xmap(lambda x: x / nx.lax.axis_size("i"), in_axes=["i"], out_axes=["i"])(jnp.ones(4))
    Array([0.25, 0.25, 0.25, 0.25], dtype=float32)
    """
    return math.prod(_size("axis_size", name) for name in _names("axis_size", axis))


def _size(op: str, name: Hashable) -> int:
    region = ambient()
    if region is None or name not in region.sizes:
        known = list(region.sizes) if region is not None else []
        here = f"the names here are {show_names(known)}" if known else "no axis here has a name"
        where = here if region is not None else "no mapped function is being traced here"
        of_mesh = region.mesh_axis_said(name) if region is not None else ""
        remedy = of_mesh or "Give an argument that axis in in_axes, or its size in axis_sizes of xmap."
        meant = "" if of_mesh else did_you_mean(name, known)
        raise AxisNotFoundError(f"{op}: axis {name!r} has no size; {where}.{meant} {remedy}")
    region.seen.add(name)
    return region.sizes[name]


def _size_where_lacking(op: str, name: Hashable) -> int:
    """The global size of a name that a value lacks, because the value is the same in every instance.

    Raises:
      AxisNotFoundError: the name has no size here; or it is hidden, and the value is that of one instance.
    """
    by = vmapped_by(name)
    if by is not None:
        raise AxisNotFoundError(
            f"{op}: {by} takes the axis {name!r} away here, and calls the function for each of its entries, which know nothing of each other. "
            f"Call {op} outside of it, on what it is given or what it returns."
        )
    return _size(op, name)


def axis_index(axis_name: AxisName) -> NamedArray:
    """Every instance's index along a named axis: `i32[]{name}`, with the values 0 to size - 1.

    For a tuple of names the index is row-major in the order given. Moves nothing.

    >>> import jax.numpy as jnp, namedax as nx
    >>> nx.xmap(lambda x: x + nx.lax.axis_index("i"), in_axes=["i"], out_axes=["i"])(jnp.zeros(4))
    Array([0., 1., 2., 3.], dtype=float32)
    """
    index: Any = 0
    for i, name in enumerate(_names("axis_index", axis_name)):
        size = _size("axis_index", name)
        entries = global_index("axis_index", name, size)
        index = entries if i == 0 else index * size + entries
    result: NamedArray = index
    return result


def global_index(op: str, name: Hashable, size: int, dtype: Any = jnp.int32) -> NamedArray:
    """`arange(size)` along `name`, of which every device makes its own block."""
    region = ambient()
    block = size if region is None else region.block_size(name, size, op, supports_padding=True)
    index = lax.iota(dtype, block)
    place = () if region is None else region.place(name)
    if place:
        index = index + comm.block_index(place).astype(dtype) * block
    if isinstance(place, Uneven):
        index = jnp.minimum(index, jnp.asarray(size - 1, dtype))  # padding repeats the last entry
    result: NamedArray = make_result(index, (name,))
    return result


def _split_names(x: Any, names: tuple[Hashable, ...]) -> tuple[tuple[Hashable, ...], tuple[Hashable, ...]]:
    dims = dims_of(x)
    return tuple(n for n in names if n in dims), tuple(n for n in names if n not in dims)


@operation("axis_name", explicit=Explicit.AS_JAX, scope=True)
def psum(x: Any, axis_name: AxisName) -> Any:
    """Sum over a named axis or a tuple of them, of every leaf of `x`; the names are dropped.

    A value that lacks the name is multiplied by the size of the axis, as in JAX; of a Python number the result is one. The element
    type stays, that of narrow integers too (truth values are counted). Sharded: one all-reduce of the local sums.

    Raises:
      AxisNotFoundError: a name is neither an axis of the value nor of the mapped function.

    >>> import jax.numpy as jnp, namedax as nx
    >>> nx.xmap(lambda x: x / nx.lax.psum(x, "i"), in_axes=["i"], out_axes=["i"])(jnp.ones(4))
    Array([0.25, 0.25, 0.25, 0.25], dtype=float32)
    """
    names = _names("psum", axis_name)

    def one(leaf: Any) -> Any:
        if getattr(leaf, "dtype", None) == jnp.bool_:
            leaf = leaf.astype(jnp.int32)
        present, absent = _split_names(leaf, names)
        copies = math.prod(_size_where_lacking("psum", name) for name in absent)
        result = reductions.sum(leaf, present, promote_integers=False) if present else leaf
        return result * copies if absent else result

    return _map(one, x)


def _map(function: Any, x: Any) -> Any:
    return jax.tree.map(function, x, is_leaf=lambda leaf: isinstance(leaf, NamedArray))


def _over_present(op: str, reduction: str, x: Any, axis_name: AxisName) -> Any:
    names = _names(op, axis_name)

    def one(leaf: Any) -> Any:
        present, absent = _split_names(leaf, names)
        for name in absent:
            _size_where_lacking(op, name)
        return reductions.REDUCTIONS[reduction](leaf, present) if present else leaf

    return _map(one, x)


@operation("axis_name", explicit=Explicit.AS_JAX, scope=True)
def pmean(x: Any, axis_name: AxisName) -> Any:
    """Mean over a named axis or a tuple of them, of every leaf; a value that lacks the name is returned as it is. See `psum`."""
    return _over_present("pmean", "mean", x, axis_name)


@operation("axis_name", explicit=Explicit.AS_JAX, scope=True)
def pmax(x: Any, axis_name: AxisName) -> Any:
    """Maximum over a named axis or a tuple of them, of every leaf; a value that lacks the name is returned as it is. See `psum`.

    Differentiable, unlike JAX's: ties share the gradient, as in `nx.max`.
    """
    return _over_present("pmax", "max", x, axis_name)


@operation("axis_name", explicit=Explicit.AS_JAX, scope=True)
def pmin(x: Any, axis_name: AxisName) -> Any:
    """Minimum over a named axis or a tuple of them, of every leaf; see `pmax`."""
    return _over_present("pmin", "min", x, axis_name)


@operation("axis_name", explicit=Explicit.AS_JAX, scope=True)
def all_gather(x: Any, axis_name: AxisName, *, axis: int = 0, tiled: bool = False) -> Any:
    """Turns a named axis, or a tuple of them, into a positional one that every instance sees whole.

    Args:
      x: a named array, or a pytree of them.
      axis_name: the name; a tuple of names gathers in row-major order.
      axis: where the positional axis goes, counted among the positional axes of the result.
      tiled: `False`: a new axis. `True`: the entries are concatenated along the positional axis `axis`, which exists.

    Returns:
      The array without the names. A value that lacks a name is repeated along the new axis, as in JAX.

    Sharded: one all-gather, which is what is asked for: the result is whole on every device. Combined with a value that varies
    over the same mesh axis its transpose is a reduce-scatter, otherwise a slice. (A result in which no name is left is a plain array, and counts
    as replicated: combined, its transpose is an all-reduce and a slice.)

    >>> import jax.numpy as jnp, namedax as nx
    >>> f = nx.xmap(lambda x: nx.lax.all_gather(x, "i") * x, in_axes=["i"], out_axes=["i", None])
    >>> f(jnp.arange(1.0, 4.0))
    Array([[1., 2., 3.],
           [2., 4., 6.],
           [3., 6., 9.]], dtype=float32)
    """
    names = _names("all_gather", axis_name)
    return _map(lambda leaf: _gather_one(leaf, names, axis, tiled), x)


def _gather_one(x: Any, names: tuple[Hashable, ...], axis: int, tiled: bool) -> Any:
    region = ambient()
    x = to_local(x, "all_gather", region)
    if not isinstance(x, NamedArray):
        x = jnp.asarray(x)
    data = x._data if isinstance(x, NamedArray) else x
    dims = dims_of(x)
    absent = [name for name in names if name not in dims]
    for name in absent:  # repeated as often as there are instances; nothing is to be sent
        data = jnp.broadcast_to(data, (_size_where_lacking("all_gather", name), *data.shape))
        dims = (name, *dims)
    rank, axis = dims.count(None), as_integer("all_gather", "axis", axis)
    if not -(rank + (not tiled)) <= axis < rank + (not tiled):
        raise PositionalAxisError(
            f"all_gather: axis={axis} is out of range: {type_text(x)} has {rank} positional axes"
            f"{'' if tiled else ', to which one is added'}."
        )
    axis %= rank + (not tiled)
    # Gathered names stand in front, in the order given; then the result's named axes; then the positional ones.
    kept = [i for i, dim in enumerate(dims) if dim is not None and dim not in names]
    places = [i for i, dim in enumerate(dims) if dim is None]
    front = [dims.index(name) for name in names]
    data = lax.transpose(data, front + kept + places)
    placements = [region.place(name) if region is not None and name not in absent else () for name in names]
    local_shape = data.shape
    shards = [math.prod(lax.axis_size(a) for a in axes) for axes in placements]
    sizes = [n * s for n, s in zip(local_shape, shards, strict=False)]
    sizes = [axes.size if isinstance(axes, Uneven) else n for n, axes in zip(sizes, placements, strict=True)]
    target = len(kept) + axis

    def arrange(to: str) -> Any:
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
