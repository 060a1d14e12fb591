"""Order along an axis: `sort`, `argsort`, `lexsort`, partitions, `top_k`, `searchsorted`.

`network` sorts sharded axes.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from namedax.core.annotations import AnyArray, ArrayLike, AxisSpec, LikeArguments
from namedax.core.array import NamedArray, dims_of, make_in_region
from namedax.core.display import type_text
from namedax.core.element_types import accumulates, widened_type
from namedax.core.names import Dims, DType
from namedax.core.padded_sharding import Uneven
from namedax.core.region import ambient
from namedax.core.variance import cast_data, varying
from namedax.errors import (
    ArgumentError,
    AxisSizeError,
    PositionalAxisError,
    as_integer,
    format_value,
)
from namedax.ops.indexing.getitem import take_along_axis
from namedax.ops.operands import kernels
from namedax.ops.operands.axes import axis_key
from namedax.ops.operands.broadcasting import align, make_result, to_local
from namedax.ops.operands.new_axis import finish_with_new_axis
from namedax.ops.operands.nmap import Lifted
from namedax.ops.operands.operation import operation
from namedax.ops.operands.pytree import data_of
from namedax.ops.reduction.cumulative import flatten_positional, plan_of_one_axis
from namedax.ops.sorting.network import (
    cheaper_exchange,
    global_positions,
    run_complete,
    sort_blocks,
    sort_local,
    sort_values,
)
from namedax.resources import communication as comm
from namedax.resources.padding_masks import real_blocks, real_entries
from namedax.resources.serial import LoopAxis

__all__ = [
    "TopK",
    "argpartition",
    "argsort",
    "lexsort",
    "partition",
    "search",
    "searchsorted",
    "sort",
    "top_k",
]


def _check_kind(op: str, kind: None, order: None) -> None:
    if kind is not None or order is not None:
        raise ArgumentError(
            f"{op}: kind= and order= are not supported, as in jnp.{op}. Use stable=."
        )


@operation(cached=True, on_blocks=True)
def sort(
    x: ArrayLike,
    axis: AxisSpec = -1,
    *,
    kind: None = None,
    order: None = None,
    stable: bool = True,
    descending: bool = False,
) -> LikeArguments:
    """Sort values in ascending order along one axis, NaN last.

    Args:
      x: an array, named or not.
      axis: a positional or named axis, by default -1; `None` flattens the positional axes, as in
        `jnp.sort`.
      kind: not supported, as in `jnp.sort`; by default `None`.
      order: not supported, as in `jnp.sort`; by default `None`.
      stable: if `True` (default), ties keep their order, as in `jnp.sort`; this affects only the
        gradient.
      descending: if `True`, sort from the largest (and NaN); by default `False`.

    Returns:
      An array with the axes of `x`.

    Communication: along a sharded axis, two all-to-alls of the block if the array has another axis
    whose block divides over the devices; the gradient sends the same. Otherwise columnsort: two
    all-to-alls and two collective-permutes of half a block. Two devices, short blocks and uneven
    ones take a sorting network, with 1, 3, 6 collective-permutes of the block over 2, 4, 8 devices.
    The axis is never gathered. With a gradient the indices are sent too, and the gradient sends the
    blocks back in the same steps. Floats of 16 bits are sent as 32 bits if the axis has more than
    1,022 elements, or 126 for `bfloat16`.

    Raises:
      AxisNotFoundError: `x` has no axis of that name.
      PositionalAxisError: `axis` is not a single axis, or is out of range.

    >>> import jax.numpy as jnp, namedax as nx
    >>> nx.positional(nx.sort(nx.named(jnp.array([3.0, 1.0, 2.0]), ["k"]), "k"), ["k"])
    Array([1., 2., 3.], dtype=float32)
    """
    _check_kind("sort", kind, order)
    return kernels.run("sort", _sort, axis_key("sort", axis), (stable, descending), x)


@accumulates("x")
def _sort(op: str, axis: AxisSpec, stable: bool, descending: bool, x: AnyArray) -> AnyArray:
    if axis is None:
        x = flatten_positional(op, x)
    plan = plan_of_one_axis(op, x, -1 if axis is None else axis, supports_padding=True)
    (dim,) = plan.axes

    def of_complete(data: jax.Array) -> jax.Array:
        return sort_local(data, dim, stable, descending)

    def of_blocks(data: jax.Array) -> jax.Array:
        data = sort_values(data, global_positions(plan, jnp.int32), dim, plan.place, descending)
        return lax.rev(data, [dim]) if descending else data

    width = plan.data.dtype.itemsize
    exchange = cheaper_exchange(plan, width, width, width)
    return plan.finish_whole(run_complete(plan, exchange, of_complete, of_blocks, plan.data))


@operation(cached=True, on_blocks=True)
def argsort(
    x: ArrayLike,
    axis: AxisSpec = -1,
    *,
    kind: None = None,
    order: None = None,
    stable: bool = True,
    descending: bool = False,
    dtype: DType | None = None,
) -> LikeArguments:
    """Return the indices that sort along one axis; ties keep their order, NaN last.

    Args:
      x: an array, named or not.
      axis: a positional or named axis, by default -1; `None` flattens the positional axes, as in
        `jnp.argsort`.
      kind: not supported, as in `jnp.argsort`; by default `None`.
      order: not supported, as in `jnp.argsort`; by default `None`.
      stable: as in `jnp.argsort`, by default `True`; along a sharded axis the order is always
        stable.
      descending: if `True`, sort from the largest (and NaN), with ties still in order; by default
        `False`.
      dtype: the dtype of the indices, by default the default integer.

    Returns:
      Integers with the axes of `x`; along a sharded axis, global indices.

    Communication: as for `sort`. With a free axis the values are sent there and the indices back,
    without one both in each step.

    >>> import jax.numpy as jnp, namedax as nx
    >>> nx.positional(nx.argsort(nx.named(jnp.array([3.0, 1.0, 2.0]), ["k"]), "k"), ["k"])
    Array([1, 2, 0], dtype=int32)
    """
    _check_kind("argsort", kind, order)
    return kernels.run(
        "argsort", _argsort, axis_key("argsort", axis), (stable, descending, dtype), x
    )


@accumulates("x")
def _argsort(
    op: str, axis: AxisSpec, stable: bool, descending: bool, dtype: DType | None, x: AnyArray
) -> AnyArray:
    if axis is None:
        x = flatten_positional(op, x)
    plan = plan_of_one_axis(op, x, -1 if axis is None else axis, supports_padding=True)
    (dim,) = plan.axes
    dtype = jnp.arange(0).dtype if dtype is None else dtype
    # Devices exchange 32 bits of each index.
    sent = jnp.dtype(jnp.int32 if plan.mesh_axes else dtype)

    def of_complete(data: jax.Array) -> jax.Array:
        order = jnp.argsort(data, dim, stable=stable, descending=descending, dtype=sent)
        # JAX (0.10 to 0.12) declares the result as the same on all devices.
        return cast_data(order, varying(data))

    def of_blocks(data: jax.Array) -> jax.Array:
        index = global_positions(plan, sent)
        key = -index if descending else index  # reversed in the end, together with its ties
        _, key = sort_blocks((data, key), dim, plan.place, 2, descending)
        return lax.rev(-key, [dim]) if descending else key

    data = lax.stop_gradient(plan.data) if plan.mesh_axes else plan.data
    width = data.dtype.itemsize
    exchange = cheaper_exchange(plan, width + sent.itemsize, width, sent.itemsize)
    index = run_complete(plan, exchange, of_complete, of_blocks, data)
    return plan.finish_whole(index.astype(dtype))


@operation(on_blocks=True)
def lexsort(keys: Iterable[ArrayLike], axis: AxisSpec = -1) -> AnyArray:
    """Return the indices that sort along one axis by several keys, the last one as the primary key.

    Ties keep their order.

    Args:
      keys: a sequence of arrays, named or not, which broadcast by name; or one array with the keys
        along its first positional axis.
      axis: a positional or named axis, by default -1.

    Returns:
      Integers with all axes of the keys.

    Communication: along a sharded axis, as for `argsort`, for all keys.

    >>> import jax.numpy as jnp, namedax as nx
    >>> minor, major = (nx.named(jnp.array(key), ["k"]) for key in ([3, 1, 2], [1, 1, 0]))
    >>> nx.positional(nx.lexsort((minor, major), "k"), ["k"])
    Array([2, 1, 0], dtype=int32)
    """
    keys = tuple(keys)
    if not keys:
        raise ArgumentError("lexsort: needs at least one key; got none.")
    return kernels.run("lexsort", _lexsort, axis_key("lexsort", axis), (), *keys)


def _lexsort(op: str, axis: AxisSpec, *keys: AnyArray) -> AnyArray:
    datas, dims = align(op, *keys)
    datas = [data.astype(widened_type(op, data.dtype)) for data in jnp.broadcast_arrays(*datas)]
    plan = plan_of_one_axis(
        op,
        make_in_region(datas[0], dims) if set(dims) != {None} else datas[0],
        axis,
        supports_padding=True,
    )
    (dim,) = plan.axes
    dtype = jnp.arange(0).dtype
    keys_of = [*map(lax.stop_gradient, reversed(datas))]

    def of_complete(*keys: jax.Array) -> jax.Array:
        index = cast_data(lax.broadcasted_iota(dtype, keys[0].shape, dim), varying(keys[0]))
        return lax.sort([*keys, index], dimension=dim, num_keys=len(keys))[-1]

    def of_blocks(*keys: jax.Array) -> jax.Array:
        operands = [*keys, global_positions(plan, dtype)]
        return sort_blocks(operands, dim, plan.place, len(operands))[-1]

    width, of_index = sum(key.dtype.itemsize for key in keys_of), dtype.itemsize
    exchange = cheaper_exchange(plan, width + of_index, width, of_index)
    return plan.finish_whole(run_complete(plan, exchange, of_complete, of_blocks, *keys_of))


def _run_partition(
    op: str,
    function: Callable[[jax.Array, int, int], jax.Array],
    x: ArrayLike,
    kth: int,
    axis: AxisSpec,
) -> AnyArray:
    kth = as_integer(op, "kth", kth)
    return kernels.run(op, _partition, axis_key(op, axis), (function, kth), x)


@accumulates("x")
def _partition(
    op: str,
    axis: AxisSpec,
    function: Callable[[jax.Array, int, int], jax.Array],
    kth: int,
    x: AnyArray,
) -> AnyArray:
    plan = plan_of_one_axis(op, x, axis, supports_padding=True)
    (dim,) = plan.axes
    data = plan.data
    if (exchange := plan.exchange()) is not None:
        return plan.finish_whole(exchange.run(lambda data: function(data, kth, dim), data))
    if plan.mesh_axes:
        data = comm.all_gather(data, dim, plan.place, "varying")
    data = function(data, kth, dim)
    return plan.finish_whole(comm.cut(data, dim, plan.place) if plan.mesh_axes else data)


@operation(on_blocks=True)
def partition(x: ArrayLike, kth: int, axis: AxisSpec = -1) -> LikeArguments:
    """Partition values along one axis at rank `kth`: smaller values precede it, larger ones follow.

    Args:
      x: an array, named or not.
      kth: the rank, an integer.
      axis: a positional or named axis, by default -1.

    Returns:
      An array with the axes of `x`, as from `jnp.partition`.

    Communication: along a sharded axis, two all-to-alls of the block if another axis divides over
    the devices. Otherwise one all-gather of the axis, since the order of `jnp` within the two
    groups is not ascending. `nx.sort` does not gather, and its result is a partition too.

    >>> import jax.numpy as jnp, namedax as nx
    >>> nx.positional(nx.partition(nx.named(jnp.array([3.0, 1.0, 2.0]), ["k"]), 0, "k"), ["k"])[0]
    Array(1., dtype=float32)
    """
    return _run_partition("partition", jnp.partition, x, kth, axis)


@operation(on_blocks=True)
def argpartition(x: ArrayLike, kth: int, axis: AxisSpec = -1) -> LikeArguments:
    """Return the indices of `partition`, as `jnp.argpartition`.

    Args:
      x: an array, named or not.
      kth: the rank, an integer.
      axis: a positional or named axis, by default -1.

    Returns:
      Integers with the axes of `x`.

    Communication: as for `nx.partition`.

    >>> import jax.numpy as jnp, namedax as nx
    >>> x = nx.named(jnp.array([3.0, 1.0, 2.0]), ["k"])
    >>> nx.positional(nx.argpartition(x, 0, "k"), ["k"])[0]
    Array(1, dtype=int32)
    """
    return _run_partition("argpartition", jnp.argpartition, x, kth, axis)


class TopK(NamedTuple):
    """The largest values along an axis, and their indices."""

    values: AnyArray
    indices: AnyArray


@operation(scope=True, on_blocks=True)
@accumulates("x")
def top_k(x: ArrayLike, k: int, *, axis: AxisSpec = -1, out_axis: Hashable | None = None) -> TopK:
    """Return the `k` largest values along one axis in descending order, with their indices.

    NaN counts as the largest.

    Args:
      x: an array, named or not.
      k: the number of values, a Python integer.
      axis: a positional or named axis, by default -1.
      out_axis: the name of the result's axis of size `k`, by default `None`. Without it that axis
        is positional: it replaces a positional `axis`, and follows the others if `axis` is a name.

    Returns:
      Values and indices; along a sharded axis, global indices. Among equal values, the smaller
      index comes first.

    Communication: along a sharded axis every device finds its own `k` largest values. These
    candidates are gathered (one all-gather of `k` values per device, one of their indices), never
    the axis. In steps (`SerialLoop`), a device merges the candidates of its steps first. The
    gradient adds nothing.

    Raises:
      AxisNotFoundError: `x` has no axis of that name.
      AxisSizeError: `k` is larger than the axis, or `out_axis` has a different size in the mapped
        function.

    >>> import jax.numpy as jnp, namedax as nx
    >>> logits = nx.named(jnp.array([[3.0, 1.0, 2.0]]), ["batch", "classes"])
    >>> values, indices = nx.top_k(logits, 2, axis="classes", out_axis="best")
    >>> values.dims, nx.positional(indices, ["batch", "best"])
    (('batch', 'best'), Array([[0, 2]], dtype=int32))
    """
    k = as_integer("top_k", "k", k)
    x = to_local(x, "top_k", ambient())
    plan = plan_of_one_axis("top_k", x, axis, supports_padding=True)
    (dim,) = plan.axes
    if not 0 <= k <= plan.count:
        raise AxisSizeError(
            f"top_k: k={k} is not between 0 and {plan.count}, the size of axis {format_value(axis)}"
            f" in {type_text(x)}."
        )
    data = jnp.moveaxis(plan.data, dim, -1)
    values, index = (
        _real_top_k(data, k, plan.uneven[0][1])
        if plan.uneven
        else lax.top_k(data, min(k, data.shape[-1]))
    )
    index = lax.convert_element_type(
        index, index.dtype
    )  # JAX's indices are weakly typed if the values are
    if plan.mesh_axes:
        index = index + comm.block_index(plan.mesh_axes).astype(index.dtype) * plan.data.shape[dim]
        # A loop comes last in a placement. Merging its steps first leaves `k` values per device.
        loops = tuple(axis for axis in plan.mesh_axes if isinstance(axis, LoopAxis))
        devices = tuple(axis for axis in plan.mesh_axes if not isinstance(axis, LoopAxis))
        levels = (plan.mesh_axes,) if plan.uneven or not loops else (loops, devices)
        for axes in filter(None, levels):
            values = comm.all_gather(values, values.ndim - 1, axes, "invarying")
            index = comm.all_gather(index, index.ndim - 1, axes, "invarying")
            if plan.uneven:
                real = _real_candidates(plan.uneven[0][1], k, data.shape[-1])
                values, index = values[..., :real], index[..., :real]
            values, chosen = lax.top_k(values, min(k, values.shape[-1]))
            index = jnp.take_along_axis(index, chosen, -1)
    dims: Dims = (*(d for i, d in enumerate(plan.dims_in) if i != dim), None)
    place = len(dims) - 1
    if not plan.named:
        values, index = jnp.moveaxis(values, -1, dim), jnp.moveaxis(index, -1, dim)
        dims, place = plan.dims_in, dim
    return TopK(
        *(finish_with_new_axis("top_k", data, dims, place, out_axis) for data in (values, index))
    )


def _real_top_k(data: jax.Array, k: int, place: Uneven) -> tuple[jax.Array, jax.Array]:
    """Return the `k` largest real elements of the block along the last axis.

    Padding follows if there are fewer.

    If the block is smaller than `k`, the result is the complete block.

    No value reliably precedes or follows all others, so a value cannot mark padding. The search
    therefore includes as many additional candidates as the padding in any block with a real
    element.
    """
    block = data.shape[-1]
    values, index = lax.top_k(data, min(k + _last_padding(place, block), block))
    # Real elements first, in their order.
    order = jnp.argsort(index >= real_entries(place, block), axis=-1, stable=True)[
        ..., : min(k, block)
    ]
    return jnp.take_along_axis(values, order, -1), jnp.take_along_axis(index, order, -1)


def _last_padding(place: Uneven, block: int) -> int:
    """Return the amount of padding in the last block with a real element."""
    return real_blocks(place, block) * block - place.size


def _real_candidates(place: Uneven, k: int, block: int) -> int:
    """Return the number of real candidates of all blocks, with up to `k` in each.

    They precede the others.
    """
    return (real_blocks(place, block) - 1) * min(k, block) + min(
        k, block - _last_padding(place, block)
    )


def search(
    a: jax.Array, v: jax.Array, side: str, method: str = "scan", real: jax.Array | None = None
) -> jax.Array:
    """Apply `jnp.searchsorted` to positional arrays, also to blocks.

    The search is among the first `real` elements of `a` (default all).

    JAX 0.10.2 rejects its own version in a `jax.shard_map` body, because its declared type does not
    vary over the mesh.
    """
    region = ambient()
    if region is None or not region.manual:
        return jnp.searchsorted(a, v, side=side, method=method)
    a, v = jnp.asarray(a), jnp.asarray(v)
    dtype = jnp.promote_types(a.dtype, v.dtype)
    a, v = a.astype(dtype), v.astype(dtype)
    missing = jnp.issubdtype(dtype, jnp.inexact)

    def less(p: jax.Array, q: jax.Array) -> jax.Array:
        return (p < q) | (jnp.isnan(q) & ~jnp.isnan(p)) if missing else p < q

    n = a.shape[0]
    low, high = (
        jnp.zeros(v.shape, jnp.int32),
        jnp.full(v.shape, n if real is None else real, jnp.int32),
    )
    for _ in range(n.bit_length()):
        middle = (low + high) // 2
        entry = a[jnp.minimum(middle, n - 1)]
        behind = (low < high) & (less(entry, v) if side == "left" else ~less(v, entry))
        low, high = jnp.where(behind, middle + 1, low), jnp.where(behind, high, middle)
    return low


@operation(scope=True, on_blocks=True)
def searchsorted(
    a: ArrayLike,
    v: ArrayLike,
    side: str = "left",
    sorter: ArrayLike | None = None,
    *,
    method: str = "scan",
    axis: Hashable | None = None,
) -> AnyArray:
    """Find the indices at which values would keep a sorted array sorted.

    Args:
      a: the sorted array: with one positional axis, or with the named axis `axis`. Its other named
        axes are batch axes.
      v: the values, named or not.
      side: the side of equal elements, `"left"` (default) or `"right"`.
      sorter: indices that sort `a`, with its axes, by default `None`.
      method: as in `jnp.searchsorted`; by default `"scan"`.
      axis: the name of the sorted axis, by default `None`, for the positional axis.

    Returns:
      Integers with the axes of `v` and the other named axes of `a`.

    Communication: along a sharded axis every device counts in its block, and one all-reduce of the
    result sums the counts. A `sorter` is applied before, as by `take_along_axis`.

    Raises:
      AxisNotFoundError: `a` has no axis of that name.
      PlacementConflictError: `v` has an axis that is sharded over the mesh axis of `axis`.

    >>> import jax.numpy as jnp, namedax as nx
    >>> edges = nx.named(jnp.array([1.0, 2.0, 3.0]), ["edge"])
    >>> nx.searchsorted(edges, jnp.array([0.5, 2.0, 9.0]), axis="edge")
    Array([0, 1, 3], dtype=int32)
    """
    if side not in ("left", "right"):
        raise ArgumentError(
            f"searchsorted: side must be 'left' or 'right', got {format_value(side)}."
        )

    def lifted(
        a: ArrayLike, v: ArrayLike, *sorter: ArrayLike, real: jax.Array | None = None
    ) -> AnyArray:
        return Lifted(
            lambda a, v, *s: search(a[s[0]] if s else a, v, side, method, real), "searchsorted"
        )(a, v, *sorter)

    more: tuple[ArrayLike, ...] = () if sorter is None else (sorter,)
    if axis is None:
        return lifted(a, v, *more)
    region = ambient()
    a, v = to_local(a, "searchsorted", region), to_local(v, "searchsorted", region)
    plan = plan_of_one_axis("searchsorted", a, axis, supports_padding=True)
    if dims_of(a).count(None) > (0 if plan.named else 1):
        raise PositionalAxisError(
            f"searchsorted: {type_text(a)} has positional axes in addition to axis"
            f" {format_value(axis)}. Name them."
        )
    if not plan.named:
        return lifted(a, v, *more)
    if axis in dims_of(v):
        raise AxisSizeError(
            f"searchsorted: the values {type_text(v)} have the searched axis {format_value(axis)}."
            " Rename it in the values."
        )
    if region is not None and region.resources:
        names = dict.fromkeys(dim for dim in (*dims_of(a), *dims_of(v)) if dim is not None)
        region.check_placement("searchsorted", names)
        region.seen.update(names)
    if plan.mesh_axes and sorter is not None:
        a, more = take_along_axis(a, sorter, axis), ()

    def as_position(x: ArrayLike) -> ArrayLike:
        block = to_local(x, "searchsorted", region)
        if not isinstance(block, NamedArray) or axis not in block.dims:
            return block
        dims = tuple(None if dim == axis else dim for dim in block.dims)
        return make_in_region(block.data, dims)

    real = (
        real_entries(plan.place, plan.data.shape[plan.axes[0]])
        if isinstance(plan.place, Uneven)
        else None
    )
    result = lifted(as_position(a), v, *map(as_position, more), real=real)
    if not plan.mesh_axes:
        return result
    return make_result(comm.psum(data_of(result), plan.mesh_axes), dims_of(result))
