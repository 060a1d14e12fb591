"""Counting of elements by value: `bincount` and `histogram`.

Every device counts its own elements, and the counts are summed.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from namedax.core.annotations import AnyArray, ArrayLike, AxisSpec
from namedax.core.array import NamedArray, as_array, dims_of
from namedax.core.display import type_text
from namedax.core.element_types import as_inexact, to_type
from namedax.core.names import Dims, DType
from namedax.core.region import ambient
from namedax.core.reshape import as_one
from namedax.core.variance import cast_data
from namedax.errors import ArgumentError, ArgumentTypeError, AxisSizeError, as_integer, format_value
from namedax.ops.operands import kernels
from namedax.ops.operands.axes import axis_key
from namedax.ops.operands.broadcasting import align, make_result, to_local
from namedax.ops.operands.new_axis import finish_with_new_axis, new_axis_placement
from namedax.ops.operands.operation import MOVED, operation
from namedax.ops.operands.pytree import data_of
from namedax.ops.reduction.plan import ReductionPlan, reduction_plan
from namedax.ops.reduction.reductions import REDUCTIONS
from namedax.ops.sorting.sorting import search
from namedax.resources import communication as comm

__all__ = ["bincount", "histogram"]

_sum, _max, _min = (REDUCTIONS[name] for name in ("sum", "max", "min"))


def _flat_last(data: jax.Array, axes: tuple[int, ...]) -> jax.Array:
    """Merge the axes `axes` of `data` into one at the end."""
    rest = [i for i in range(data.ndim) if i not in axes]
    data = lax.transpose(data, [*rest, *sorted(axes)])
    return as_one(data, len(rest), len(axes))


def _scatter_add(index: jax.Array, weights: jax.Array, length: int) -> jax.Array:
    """Scatter `[..., m]` indices and weights to `[..., length]` sums.

    Indices of `length` or more are dropped.
    """
    add: Callable[..., Any] = jax.vmap(
        lambda i, w: jnp.zeros(length, w.dtype).at[i].add(w, mode="drop")
    )
    rows = index.shape[:-1]
    result = add(as_one(index, 0, len(rows)), as_one(weights, 0, len(rows)))
    return result.reshape((*rows, length))


def _combine_counts(
    op: str, partial: jax.Array, plan: ReductionPlan, out_axis: Hashable | None
) -> AnyArray:
    """Sum over all devices along a new last axis.

    This is one all-reduce, or one reduce-scatter if the new axis has the same sharding.
    """
    dims = (*plan.dims, None)
    placement = new_axis_placement(op, out_axis, partial.shape[-1], plan.dims)
    if placement and placement == plan.mesh_axes:
        partial = comm.psum_scatter(partial, partial.ndim - 1, placement)
        return make_result(partial, (*plan.dims, out_axis))
    if plan.mesh_axes:
        partial = comm.psum(cast_data(partial, plan.mesh_axes), plan.mesh_axes)
    return finish_with_new_axis(op, partial, dims, len(dims) - 1, out_axis)


def _prepared(
    op: str, x: AnyArray, weights: AnyArray | None, axis: AxisSpec
) -> tuple[ReductionPlan, jax.Array | None]:
    """Return the plan for `x`, and weights of the shape of its data; both broadcast by name."""
    if weights is None:
        return reduction_plan(op, x, axis, supports_padding=True), None
    datas, dims = align(op, x, weights)
    data, weight = jnp.broadcast_arrays(*datas)
    return reduction_plan(op, make_result(data, dims), axis, supports_padding=True), weight


def _without_padding(index: jax.Array, plan: ReductionPlan, nowhere: int) -> jax.Array:
    """Assign padding to a bin that does not exist."""
    real = plan.real()
    if real is None:
        return index
    index = (
        index.astype(jnp.promote_types(index.dtype, jnp.int32))
        if index.dtype.itemsize < 4
        else index
    )
    return jnp.where(_flat_last(jnp.broadcast_to(real, plan.data.shape), plan.axes), index, nowhere)


@operation(requires_axis=MOVED)
def bincount(
    x: ArrayLike,
    weights: ArrayLike | None = None,
    minlength: int = 0,
    *,
    length: int | None = None,
    axis: AxisSpec = None,
    out_axis: Hashable | None = None,
) -> AnyArray:
    """Count how often each integer from 0 on occurs, over positional and named axes.

    Args:
      x: integers, named or not. Negative ones count as 0, and integers of `length` or more are
        dropped, as in `jnp.bincount`.
      weights: the weight of each element, broadcast by name; by default 1.
      minlength: the minimum length if `length` is not given; by default 0.
      length: the number of bins. Required in a mapped function and under `jit`, since it determines
        the shape of the result. By default `None`.
      axis: a positional axis, an axis name, or a tuple of both; `None` (default) selects all
        positional axes. Required if every axis is named.
      out_axis: the name of the axis of the bins; by default `None`, a positional axis at the end.

    Returns:
      An array with the remaining axes and the axis of the bins.

    Communication: over a sharded axis, one all-reduce of the local counts, or one reduce-scatter if
    `out_axis` is sharded over the same mesh axes.

    Raises:
      AxisNotFoundError: `x` has no axis of that name.

    >>> import jax.numpy as jnp, namedax as nx
    >>> nx.bincount(nx.named(jnp.array([2, 0, 2]), ["token"]), length=4, axis="token")
    Array([1, 0, 2, 0], dtype=int32)
    """
    x = as_array(x)
    if x.dtype != jnp.bool_ and not jnp.issubdtype(x.dtype, jnp.integer):
        raise ArgumentTypeError(
            f"bincount: the argument must contain integers, got {type_text(x)}."
        )
    if length is None:
        data = x._data if isinstance(x, NamedArray) else x
        if isinstance(data, jax.core.Tracer):
            raise AxisSizeError(
                "bincount: length= is required during tracing, because it determines the shape of"
                " the result. Pass length=."
            )
        length = max(
            as_integer("bincount", "minlength", minlength, 0),
            int(data.max()) + 1 if data.size else 0,
        )
    length = as_integer("bincount", "length", length, 0)
    operands = (x,) if weights is None else (x, weights)
    return kernels.run(
        "bincount",
        _bincount,
        kernels.AxesAndNew(axis_key("bincount", axis), out_axis),
        (length,),
        *operands,
    )


def _bincount(
    op: str, axes: kernels.AxesAndNew, length: int, x: AnyArray, *more: AnyArray
) -> AnyArray:
    plan, weight = _prepared(op, x, more[0] if more else None, axes.axes)
    index = _flat_last(plan.data, plan.axes)
    index = _without_padding(
        jnp.maximum(index.astype(jnp.int32) if index.dtype == jnp.bool_ else index, 0), plan, length
    )
    flat = (
        jnp.ones(index.shape, jnp.arange(0).dtype)
        if weight is None
        else _flat_last(weight, plan.axes)
    )
    return _combine_counts(op, _scatter_add(index, flat, length), plan, axes.new)


@operation(requires_axis=MOVED)
def histogram(
    x: ArrayLike,
    bins: ArrayLike = 10,
    range: ArrayLike | Sequence[ArrayLike] | None = None,
    weights: ArrayLike | None = None,
    density: bool | None = None,
    *,
    axis: AxisSpec = None,
    out_axis: Hashable | None = None,
) -> tuple[AnyArray, AnyArray]:
    """Count the elements in each bin, over positional and named axes.

    Args:
      x: an array, named or not.
      bins: the number of bins of equal width, or an array of their edges with one positional axis;
        by default 10.
      range: the ends of the first and last bin; by default minimum and maximum, for each instance
        of the remaining axes.
      weights: the weight of each element, broadcast by name; by default 1.
      density: if `True`, divide by the width of the bin and the sum of all counts; by default
        `None`.
      axis: a positional axis, an axis name, or a tuple of both; `None` (default) selects all
        positional axes. Required if every axis is named.
      out_axis: the name of the axis of the bins in the counts; by default `None`, a positional axis
        at the end.

    Returns:
      The counts, with the remaining axes and the axis of the bins, and the edges, with their axis
      positional and last. The edges also have the remaining axes if they differ between instances:
      with a number of bins and no `range`.

    Communication: over a sharded axis, one all-reduce of the local counts (one reduce-scatter if
    `out_axis` is sharded over the same mesh axes). Without `range`, one more each for the minimum
    and the maximum.

    Raises:
      AxisNotFoundError: `x` has no axis of that name.

    >>> import jax.numpy as jnp, namedax as nx
    >>> x = nx.named(jnp.array([0.0, 0.2, 0.9]), ["k"])
    >>> nx.histogram(x, 2, (0, 1), axis="k")
    (Array([2., 1.], dtype=float32), Array([0. , 0.5, 1. ], dtype=float32))
    """
    x = as_inexact(as_array(x))
    dtype = x.dtype
    if weights is not None:
        weights = as_array(weights)
        dtype = jnp.promote_types(dtype, jnp.promote_types(weights.dtype, dtype))
        x, weights = to_type(x, dtype), to_type(weights, dtype)
    axis = tuple(axis) if isinstance(axis, list) else axis
    if isinstance(bins, str):
        raise ArgumentError(
            "histogram: string values for bins are not supported, as in jnp.histogram. Pass a"
            " number or the edges."
        )
    edges = (
        jnp.asarray(bins, dtype)
        if np.ndim(bins) == 1
        else _equal_edges(x, as_integer("histogram", "bins", bins, 1), range, axis, dtype)
    )
    operands = (x, edges) if weights is None else (x, edges, weights)
    counts = kernels.run(
        "histogram",
        _histogram,
        kernels.AxesAndNew(axis_key("histogram", axis), out_axis),
        (dtype,),
        *operands,
    )
    if density:
        counts = _density(counts, edges, out_axis)
    return counts, edges


def _histogram(
    op: str, axes: kernels.AxesAndNew, dtype: DType, x: AnyArray, edges: AnyArray, *more: AnyArray
) -> AnyArray:
    plan, weight = _prepared(op, x, more[0] if more else None, axes.axes)
    values = _flat_last(plan.data, plan.axes)
    flat = jnp.ones(values.shape, dtype) if weight is None else _flat_last(weight, plan.axes)
    if isinstance(edges, NamedArray) or edges.ndim > 1:
        (ends, _), dims = align(op, edges, make_result(values[..., :1], (*plan.dims, None)))
        # In the order of the values: the dims of the plan, then the edges.
        ends = _reorder(ends, dims, (*plan.dims, None))
        ends = jnp.broadcast_to(ends, (*values.shape[:-1], ends.shape[-1]))
    else:
        ends = edges
    ends = cast_data(ends, plan.mesh_axes)
    if ends.ndim == 1:
        index, last = search(ends, values, "right"), ends[-1]
    else:
        find = jnp.vectorize(lambda e, v: search(e, v, "right"), signature="(b),(m)->(m)")
        index, last = find(ends, values), ends[..., -1:]
    count = ends.shape[-1] - 1
    index = jnp.where(values == last, count, index)
    # 0 precedes the first bin, count + 1 follows the last: both are dropped.
    counts = _scatter_add(
        _without_padding(jnp.where(index == 0, count + 1, index) - 1, plan, count), flat, count
    )
    return _combine_counts(op, counts, plan, axes.new)


def _reorder(data: jax.Array, dims: Dims, target: Dims) -> jax.Array:
    places = iter([i for i, dim in enumerate(dims) if dim is None])
    return lax.transpose(data, [next(places) if dim is None else dims.index(dim) for dim in target])


def _equal_edges(
    x: AnyArray,
    bins: int,
    range: ArrayLike | Sequence[ArrayLike] | None,
    axis: AxisSpec,
    dtype: DType,
) -> AnyArray:
    """Return `bins + 1` equally spaced edges along a last positional axis."""
    if range is not None:
        ends = jnp.asarray(range, dtype)
        if ends.shape != (2,):
            raise ArgumentError(
                f"histogram: range={format_value(range)} must be None, or two numbers."
            )
        first, last = ends[0], ends[1]
    else:
        first, last = lax.stop_gradient(_min(x, axis)), lax.stop_gradient(_max(x, axis))

    def edges(first: jax.Array, last: jax.Array) -> jax.Array:
        point = first == last
        first, last = jnp.where(point, first - 0.5, first), jnp.where(point, last + 0.5, last)
        return jnp.linspace(first, last, bins + 1, axis=-1, dtype=dtype)

    (low, high), dims = align("histogram", first, last)
    return make_result(edges(jnp.asarray(low), jnp.asarray(high)), (*dims, None))


def _density(counts: AnyArray, edges: AnyArray, out_axis: Hashable | None) -> AnyArray:
    last = out_axis if out_axis is not None else -1
    total = _sum(counts, last, keepdims=out_axis is None)
    block = as_array(to_local(edges, "histogram", ambient()))
    dims = dims_of(block)
    widths = jnp.diff(data_of(block), axis=-1)
    result = finish_with_new_axis("histogram", widths, dims, widths.ndim - 1, out_axis)
    return counts / result / total
