"""`pgather`: reads of elements along axes that may be sharded."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from namedax.core.annotations import AnyArray, ArrayLike, AxisSpec
from namedax.core.array import NamedArray, dims_of
from namedax.core.display import type_text
from namedax.core.element_types import beyond
from namedax.core.names import MeshAxes
from namedax.core.padded_sharding import Uneven
from namedax.core.region import ambient
from namedax.core.variance import cast, cast_data, varying
from namedax.errors import AxisSizeError, PositionalAxisError
from namedax.ops.operands.along_axes import entries_of
from namedax.ops.operands.axes import resolve_axis
from namedax.ops.operands.broadcasting import make_result, to_local
from namedax.ops.operands.operation import Explicit, operation
from namedax.ops.operands.pytree import data_of
from namedax.resources import communication as comm

__all__ = ["gather_entries", "pgather"]


@operation(explicit=Explicit.KEPT, scope=True)
def pgather(x: ArrayLike, idx: ArrayLike, axes: AxisSpec) -> AnyArray:
    """Gather elements of `x` along one or several axes, at row-major indices over these axes.

    Args:
      x: an array, named or not.
      idx: integers, named or not: row-major indices over `axes`. Axes that `idx` shares
        with `x` are batch axes, except the gathered axes, which become axes of the result. Negative
        indices count from the end.
      axes: a positional axis, an axis name, or a tuple of them.

    Returns:
      The axes of `idx`, positional axes first, then the axes of `x` without `axes`. An index out of
      range gives NaN for floats, the least integer for signed types, and `True` for booleans. It
      gives the largest integer for unsigned types and for the words of random keys.

    Communication: every device reads its own block, and one all-reduce of the result combines the
    reads; `x` is never gathered. If `idx` itself has a sharded axis that is gathered: one
    all-gather of the indices, and one reduce-scatter of the result.

    Raises:
      AxisNotFoundError: `x` lacks an axis.
      PositionalAxisError: an axis is out of range, an axis is given twice, or `idx` does not
        contain integers.
      PlacementConflictError: `idx` has another axis that is sharded over the mesh axis of a
        gathered axis.

    >>> import jax.numpy as jnp, namedax as nx
    >>> table = nx.named(jnp.arange(12).reshape(3, 2, 2), ["vocab", None, "k"])
    >>> nx.lax.pgather(table, jnp.array([5, 0]), ("vocab", 0)).dims
    (None, 'k')
    """
    region = ambient()
    x, idx = to_local(x, "pgather", region), to_local(idx, "pgather", region)
    x = x if isinstance(x, NamedArray) else jnp.asarray(x)
    idx = idx if isinstance(idx, NamedArray) else jnp.asarray(idx)
    if not jnp.issubdtype(idx.dtype, jnp.integer):
        raise PositionalAxisError(
            f"pgather: the indices are {type_text(idx)}; indices must be integers."
        )
    return gather_entries("pgather", x, idx, axes)


def gather_entries(
    op: str, x: AnyArray, idx: AnyArray, axes: AxisSpec, whole: bool = False
) -> AnyArray:
    """Apply `pgather` to blocks.

    `whole` marks an `idx` that is complete along gathered axes and equal on all devices.
    """
    if comm.is_keys(x):
        return _gather_keys(op, x, idx, axes, whole)
    region = ambient()
    dims, own = dims_of(x), dims_of(idx)
    read = resolve_axis(op, x, entries_of(axes))
    names = [dims[i] for i in read]
    shared = [dim for dim in own if dim is not None and dim in dims and dim not in names]
    alone = [dim for dim in own if dim is not None and dim not in shared]
    if region is not None and region.resources:
        region.check_placement(op, dict.fromkeys(dim for dim in (*dims, *own) if dim is not None))
        region.seen.update(dim for dim in (*dims, *own) if dim is not None)
    data = data_of(x)
    index = data_of(idx)
    for name in shared:
        if data.shape[dims.index(name)] != index.shape[own.index(name)]:
            raise AxisSizeError(
                f"{op}: axis {name!r} has two sizes, in {type_text(x)} and in {type_text(idx)}; a"
                " name has one size."
            )
    places: list[MeshAxes] = [
        () if region is None or name is None or not region.manual else region.place(name)
        for name in names
    ]
    if region is not None and region.manual:
        variance = varying(data) | varying(index) | {axis for place in places for axis in place}
        data, index = (
            cast(x, variance),
            cast_data(index, varying(index) | {a for n in shared for a in region.place(n)}),
        )
    else:
        variance = frozenset()
    # The index axes: batch axes, other names, positional axes. Along gathered names every device
    # needs all indices.
    order = [own.index(name) for name in (*shared, *alone)] + [
        i for i, dim in enumerate(own) if dim is None
    ]
    index = lax.transpose(index, order)
    scattered = {
        len(shared) + i: places[names.index(name)] for i, name in enumerate(alone) if name in names
    }
    scattered = {dim: place for dim, place in scattered.items() if place}
    if not whole:
        for dim, place in scattered.items():
            index = comm.all_gather(index, dim, place, "invarying")
    rest = [i for i in range(len(dims)) if i not in read and dims[i] not in shared]
    rows = lax.transpose(data, [dims.index(name) for name in shared] + list(read) + rest)
    blocks = [data.shape[i] for i in read]
    rows = rows.reshape(
        (*rows.shape[: len(shared)], math.prod(blocks), *rows.shape[len(shared) + len(read) :])
    )
    at, here, valid = _locate(index, blocks, places, variance)
    lookup: Callable[..., Any] = functools.partial(jnp.take, axis=0, mode="clip")
    for _ in shared:
        lookup = jax.vmap(lookup)
    values = lookup(rows, jnp.where(here, at, 0))
    if any(places):
        values, valid = _put_together(values, here, valid, places, scattered)
    values = jnp.where(
        cast_data(_over(valid, values), varying(values)), values, beyond(values.dtype)
    )
    return make_result(
        values, (*shared, *alone, *(None,) * own.count(None), *(dims[i] for i in rest))
    )


def _locate(
    index: jax.Array, blocks: Sequence[int], places: Sequence[MeshAxes], variance: frozenset[str]
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Convert row-major global indices to local ones.

    Return masks of the indices in this block and in the array, too.
    """
    sizes = [
        place.size if isinstance(place, Uneven) else n * math.prod(map(lax.axis_size, place))
        for n, place in zip(blocks, places, strict=True)
    ]
    total = math.prod(sizes)
    if (
        not jnp.issubdtype(index.dtype, jnp.signedinteger) or jnp.iinfo(index.dtype).bits < 32
    ):  # may be too narrow
        index = index.astype(jnp.int32)
    index = jnp.where(index < 0, index + total, index)
    valid = (index >= 0) & (index < total)
    index = cast_data(index, variance)
    here, local, remaining = cast_data(valid, variance), jnp.zeros_like(index), index
    for i in range(len(sizes)):
        stride = math.prod(sizes[i + 1 :])
        entry = remaining // stride
        remaining = remaining - entry * stride
        if places[i]:
            entry = entry - comm.block_index(places[i]).astype(entry.dtype) * blocks[i]
            here = here & (entry >= 0) & (entry < blocks[i])
        local = local * blocks[i] + entry
    return local, here, valid


def _put_together(
    values: jax.Array,
    here: jax.Array,
    valid: jax.Array,
    places: Sequence[MeshAxes],
    scattered: Mapping[int, MeshAxes],
) -> tuple[jax.Array, jax.Array]:
    """Sum the partial reads.

    One reduce-scatter serves gathered axes that the result keeps, one all-reduce the others.
    """
    dtype = values.dtype
    values = comm.only_where(_over(here, values), values)
    values = values.astype(jnp.int32) if dtype == jnp.bool_ else values
    for dim, place in scattered.items():
        values = comm.psum_scatter(values, dim, place)
        valid = comm.cut(valid, dim, place)
    summed = tuple(axis for place in places for axis in place if place not in scattered.values())
    return comm.psum(values, summed).astype(dtype), valid


def _over(mask: jax.Array, values: jax.Array) -> jax.Array:
    return mask.reshape(mask.shape + (1,) * (values.ndim - mask.ndim))


def _gather_keys(op: str, x: AnyArray, idx: AnyArray, axes: AxisSpec, whole: bool) -> AnyArray:
    """Run `gather_entries` on the words of random keys, which compare and add.

    The words form one more positional axis.
    """
    dims = dims_of(x)
    keys = data_of(x)
    read = resolve_axis(op, x, entries_of(axes))
    axes = tuple(dims[:i].count(None) if dims[i] is None else dims[i] for i in read)
    words = gather_entries(
        op, make_result(jax.random.key_data(keys), (*dims, None)), idx, axes, whole
    )
    own = jax.random.wrap_key_data(data_of(words), impl=jax.random.key_impl(keys))
    return make_result(own, dims_of(words)[:-1])
