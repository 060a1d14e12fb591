"""Quantiles over axes, named or positional, with and without NaNs.

Along a sharded axis `namedax.ops.sorting.network` sorts the elements, and one all-reduce finds the
elements at a rank.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from namedax.core.annotations import AnyArray, ArrayLike, AxisSpec
from namedax.core.array import NamedArray, as_array, dims_of
from namedax.core.display import type_text
from namedax.core.element_types import accumulates, common_type, inexact_type
from namedax.core.reshape import as_one
from namedax.core.variance import cast_data
from namedax.errors import (
    ArgumentError,
    ArgumentTypeError,
    NamedAxesLeftError,
    PositionalAxisError,
    did_you_mean,
    format_value,
    reject_names,
)
from namedax.ops.operands import kernels
from namedax.ops.operands.along_axes import entries_of, to_front, with_complete_axes
from namedax.ops.operands.axes import axis_key, resolve_axis
from namedax.ops.operands.broadcasting import make_result
from namedax.ops.operands.nmap import nmap
from namedax.ops.operands.operation import REDUCED, operation
from namedax.ops.operands.pytree import data_of
from namedax.ops.reduction.plan import ReductionPlan, reduction_plan
from namedax.ops.sorting.network import cheaper_exchange, global_positions, sort_local, sort_values
from namedax.resources import communication as comm

__all__ = ["median", "nanmedian", "nanpercentile", "nanquantile", "percentile", "quantile"]


_METHODS = ("linear", "lower", "higher", "midpoint", "nearest")


def _at_rank(ordered: jax.Array, rank: jax.Array, mesh_axes: tuple[str, ...]) -> jax.Array:
    """Read elements of `ordered` along its last axis, at ranks `[..., q]`.

    If that axis is sharded, this is one all-reduce of the result.
    """
    if not mesh_axes:
        return jnp.take_along_axis(ordered, rank, -1)
    block = ordered.shape[-1]
    mine = cast_data(rank, mesh_axes) - comm.block_index(mesh_axes).astype(rank.dtype) * block
    here = (mine >= 0) & (mine < block)
    values = jnp.take_along_axis(ordered, jnp.where(here, mine, 0), -1)
    return comm.psum(comm.only_where(here, values), mesh_axes)


def _quantile(plan: ReductionPlan, q: jax.Array, method: str, skip_nans: bool) -> jax.Array:
    """Compute quantiles of shape `[*q.shape, *rest]`.

    If there is a free dimension, each device has complete axes of some results, and one all-gather
    of the results follows.
    """
    width = plan.data.dtype.itemsize
    if (exchange := cheaper_exchange(plan, width, width)) is None:
        return _quantile_of_blocks(plan, q, method, skip_nans)
    data = exchange.to_complete(plan.data)
    complete = plan.replace(data=data, mesh_axes=(), uneven=())
    result = _quantile_of_blocks(complete, q, method, skip_nans)
    before = sum(axis < exchange.free for axis in plan.axes)
    return comm.all_gather(result, np.ndim(q) + exchange.free - before, exchange.axes, "invarying")


def _quantile_of_blocks(
    plan: ReductionPlan, q: jax.Array, method: str, skip_nans: bool
) -> jax.Array:
    dtype = inexact_type(plan.data.dtype)
    if jnp.issubdtype(dtype, jnp.complexfloating):
        raise ArgumentTypeError(
            "quantile: complex numbers have no order. Take their nx.abs, nx.real or nx.imag first."
        )
    data = plan.data.astype(dtype)
    q = jnp.asarray(q)
    q = q.astype(common_type(dtype, q.dtype if jnp.issubdtype(q.dtype, jnp.floating) else dtype))
    rest = [i for i in range(data.ndim) if i not in plan.axes]
    order = [*rest, *sorted(plan.axes)]

    def flat(array: jax.Array) -> jax.Array:
        array = lax.transpose(array, order)
        return as_one(array, len(rest), len(plan.axes))

    missing = jnp.isnan(data)
    if (real := plan.real()) is not None:  # a NaN follows all numbers, and counts if it is real
        missing, data = missing & real, jnp.where(real, data, jnp.nan)
    invalid = jnp.sum(missing, plan.axes, dtype=jnp.int32)
    if plan.mesh_axes:
        invalid = comm.psum(invalid, plan.mesh_axes)
    data, index = flat(data), flat(global_positions(plan, jnp.int32))
    last = data.ndim - 1
    if plan.mesh_axes:
        ordered = sort_values(data, index, last, plan.mesh_axes, False)
    else:
        ordered = sort_local(data, last)
    count = plan.count - invalid if skip_nans else jnp.full(invalid.shape, plan.count, jnp.int32)
    top = jnp.maximum(count - 1, 0)[..., None]
    position = jnp.broadcast_to(jnp.ravel(q), (*count.shape, q.size)) * (
        count[..., None] - 1
    ).astype(q.dtype)
    low, high = jnp.floor(position), jnp.ceil(position)
    above = position - low
    ranks = [jnp.clip(rank.astype(jnp.int32), 0, top) for rank in (low, high)]
    picked = _at_rank(ordered, jnp.concatenate(ranks, -1), plan.mesh_axes)
    low_value, high_value = jnp.split(picked, 2, -1)
    if method == "linear":
        result = low_value.astype(q.dtype) * (1 - above) + high_value.astype(q.dtype) * above
    elif method == "midpoint":
        result = (low_value + high_value) * jnp.asarray(0.5, dtype)
    elif method == "nearest":
        result = jnp.where(above <= 0.5, low_value, high_value)
    else:
        result = low_value if method == "lower" else high_value
    empty = count == 0 if skip_nans else invalid > 0
    result = jnp.where(empty[..., None], jnp.nan, result).astype(dtype)
    return jnp.moveaxis(result, -1, 0).reshape((*q.shape, *result.shape[:-1]))


def _run_quantile(
    op: str,
    x: ArrayLike,
    q: ArrayLike,
    axis: AxisSpec,
    method: str,
    keepdims: bool,
    skip_nans: bool,
) -> AnyArray:
    if isinstance(q, NamedArray):
        raise NamedAxesLeftError(
            f"{op}: q, {type_text(q)}, has named axes. Pass it as a number or a positional array."
        )
    if np.ndim(q) > 1:
        raise PositionalAxisError(
            f"{op}: q must be a number or have one axis, got shape {np.shape(q)}."
        )
    if method not in _METHODS:
        raise ArgumentError(
            f"{op}: method must be one of {_METHODS}, got {format_value(method)}."
            f"{did_you_mean(method, _METHODS)}"
        )
    return kernels.run(
        op, _quantiles, axis_key(op, axis), (method, keepdims, skip_nans), x, jnp.asarray(q)
    )


@accumulates("x")
def _quantiles(
    op: str, axis: AxisSpec, method: str, keepdims: bool, skip_nans: bool, x: AnyArray, q: jax.Array
) -> AnyArray:
    plan = reduction_plan(op, x, axis, keepdims, supports_padding=True)
    data = _quantile(plan, q, method, skip_nans)
    leading = np.ndim(q)
    if keepdims:
        data = jnp.expand_dims(data, [leading + i for i in sorted(plan.axes)])
        data = lax.squeeze(data, [leading + i for i in plan.named])
    return make_result(data, (None,) * leading + plan.dims)


def _check_fractions(op: str, q: object, top: int) -> None:
    """Raise if numbers of Python or NumPy are out of range; JAX would take the nearest element."""
    for entry in q if isinstance(q, (list, tuple)) else (q,):
        if isinstance(entry, (int, float, np.ndarray, np.generic)) and np.any(
            (np.less(entry, 0)) | (np.greater(entry, top))
        ):
            other = (
                f" For percent write nx.{op.replace('quantile', 'percentile')}." if top == 1 else ""
            )
            raise ArgumentError(f"{op}: q={format_value(q)} must be from 0 to {top}.{other}")


def _run_weighted(
    op: str,
    x: ArrayLike,
    q: ArrayLike,
    axis: AxisSpec,
    method: str,
    keepdims: bool,
    weights: ArrayLike | None,
) -> AnyArray:
    """Run one of the functions with weights; `inverted_cdf` and weights gather named axes."""
    reject_names(op, q, "a number")
    top = 100 if op.endswith("percentile") else 1
    _check_fractions(op, q, top)
    q = jnp.asarray(q) if isinstance(q, (list, tuple)) else q
    if weights is None and method != "inverted_cdf":
        # a named array raises later
        fractions = q if top == 1 or isinstance(q, NamedArray) else jnp.true_divide(q, 100)
        return _run_quantile(op, x, fractions, axis, method, keepdims, op.startswith("nan"))
    x, function = as_array(x, op), getattr(jnp, op)
    resolve_axis(op, x, axis)
    entries = () if axis is None else entries_of(axis)
    names = [entry for entry in entries if not isinstance(entry, (int, np.integer))]
    positions = tuple(
        names.index(entry) if entry in names else int(entry) + len(names) * (int(entry) >= 0)
        for entry in entries
    )

    def of_whole(x: jax.Array, weights: jax.Array | None) -> jax.Array:
        return function(
            x, q, positions if entries else None, method=method, keepdims=keepdims, weights=weights
        )

    def of_leaves(leaves: Sequence[Any]) -> AnyArray:
        return nmap(of_whole)(*[to_front(leaf, names, op) for leaf in leaves])

    result = with_complete_axes(op, of_leaves, (x, weights), names)
    return _drop_positions(result, np.ndim(q), len(names)) if keepdims else result


def _drop_positions(x: AnyArray, first: int, count: int) -> AnyArray:
    """Remove `count` positional axes of size 1, from the positional axis `first` on."""
    dims = dims_of(x)
    drop = [i for i, dim in enumerate(dims) if dim is None][first : first + count]
    kept = tuple(dim for i, dim in enumerate(dims) if i not in drop)
    return make_result(lax.squeeze(data_of(x), drop), kept)


@operation(requires_axis=REDUCED, on_blocks=True)
def quantile(
    x: ArrayLike,
    q: ArrayLike,
    axis: AxisSpec = None,
    *,
    method: str = "linear",
    keepdims: bool = False,
    weights: ArrayLike | None = None,
) -> AnyArray:
    """Compute quantiles over positional and named axes, NaN if one element is NaN.

    Args:
      x: an array, named or not.
      q: a number between 0 and 1, or an array or list of them with one positional axis.
      axis: a positional axis, an axis name, or a tuple of both; `None` (default) selects all
        positional axes. Required if every axis is named.
      method: the value between two elements: `"linear"` (default), `"lower"`, `"higher"`,
        `"midpoint"`, `"nearest"` or `"inverted_cdf"`.
      keepdims: if `True`, reduced positional axes remain with size 1; by default `False`.
      weights: the weights of the elements, named or not, by default `None`: with the positional
        axes of `x`, or the reduced ones. As in JAX they require `method="inverted_cdf"`.

    Returns:
      An array with the remaining axes, preceded by the axis of `q` if it has one.

    Communication: over a sharded axis, one all-to-all of the block and one all-gather of the
    results, if the array has another axis whose block divides over the devices. Otherwise the
    blocks are sorted as by `sort`, and two all-reduces of the result's size pick the elements and
    count the NaNs; the axis is never gathered. `weights` and `method="inverted_cdf"`
    exchange the array and the weights if a name divides, and gather them otherwise.

    Raises:
      AxisNotFoundError: `x` has no axis of that name.
      ArgumentError: `q` is a number of Python or NumPy that is out of range; a computed one gives
        the nearest element, as in JAX.

    >>> import jax.numpy as jnp, namedax as nx
    >>> x = nx.named(jnp.array([3.0, 1.0, 2.0]), ["k"])
    >>> w = nx.named(jnp.array([4.0, 1.0, 1.0]), ["k"])
    >>> float(nx.quantile(x, 0.5, "k", method="inverted_cdf", weights=w))
    3.0
    """
    return _run_weighted("quantile", x, q, axis, method, keepdims, weights)


@operation(requires_axis=REDUCED, on_blocks=True)
def nanquantile(
    x: ArrayLike,
    q: ArrayLike,
    axis: AxisSpec = None,
    *,
    method: str = "linear",
    keepdims: bool = False,
    weights: ArrayLike | None = None,
) -> AnyArray:
    """Compute quantiles of the elements that are not NaN.

    Args:
      x: an array, named or not.
      q: a number between 0 and 1, or an array or list of them with one positional axis.
      axis: a positional axis, an axis name, or a tuple of both; `None` (default) selects all
        positional axes. Required if every axis is named.
      method: the value between two elements, as for `nx.quantile`; by default `"linear"`.
      keepdims: if `True`, reduced positional axes remain with size 1; by default `False`. Reduced
        named axes are removed.
      weights: the weights of the elements, as for `nx.quantile`; by default `None`.

    Returns:
      An array with the remaining axes, preceded by the axis of `q` if it has one.

    Communication: as for `nx.quantile`.

    Raises:
      AxisNotFoundError: `x` has no axis of that name.
      ArgumentError: `q` is a number of Python or NumPy that is out of range.

    >>> import jax.numpy as jnp, namedax as nx
    >>> float(nx.nanquantile(nx.named(jnp.array([3.0, jnp.nan, 2.0]), ["k"]), 0.5, "k"))
    2.5
    """
    return _run_weighted("nanquantile", x, q, axis, method, keepdims, weights)


@operation(requires_axis=REDUCED, on_blocks=True)
def percentile(
    x: ArrayLike,
    q: ArrayLike,
    axis: AxisSpec = None,
    *,
    method: str = "linear",
    keepdims: bool = False,
    weights: ArrayLike | None = None,
) -> AnyArray:
    """Compute percentiles over positional and named axes, NaN if one element is NaN.

    Args:
      x: an array, named or not.
      q: a number between 0 and 100, or an array or list of them with one positional axis.
      axis: a positional axis, an axis name, or a tuple of both; `None` (default) selects all
        positional axes. Required if every axis is named.
      method: the value between two elements, as for `nx.quantile`; by default `"linear"`.
      keepdims: if `True`, reduced positional axes remain with size 1; by default `False`. Reduced
        named axes are removed.
      weights: the weights of the elements, as for `nx.quantile`; by default `None`.

    Returns:
      An array with the remaining axes, preceded by the axis of `q` if it has one.

    Communication: as for `nx.quantile`.

    Raises:
      AxisNotFoundError: `x` has no axis of that name.
      ArgumentError: `q` is a number of Python or NumPy that is out of range.

    >>> import jax.numpy as jnp, namedax as nx
    >>> float(nx.percentile(nx.named(jnp.array([3.0, 1.0, 2.0]), ["k"]), 25, "k"))
    1.5
    """
    return _run_weighted("percentile", x, q, axis, method, keepdims, weights)


@operation(requires_axis=REDUCED, on_blocks=True)
def nanpercentile(
    x: ArrayLike,
    q: ArrayLike,
    axis: AxisSpec = None,
    *,
    method: str = "linear",
    keepdims: bool = False,
    weights: ArrayLike | None = None,
) -> AnyArray:
    """Compute percentiles of the elements that are not NaN.

    Args:
      x: an array, named or not.
      q: a number between 0 and 100, or an array or list of them with one positional axis.
      axis: a positional axis, an axis name, or a tuple of both; `None` (default) selects all
        positional axes. Required if every axis is named.
      method: the value between two elements, as for `nx.quantile`; by default `"linear"`.
      keepdims: if `True`, reduced positional axes remain with size 1; by default `False`. Reduced
        named axes are removed.
      weights: the weights of the elements, as for `nx.quantile`; by default `None`.

    Returns:
      An array with the remaining axes, preceded by the axis of `q` if it has one.

    Communication: as for `nx.quantile`.

    Raises:
      AxisNotFoundError: `x` has no axis of that name.
      ArgumentError: `q` is a number of Python or NumPy that is out of range.

    >>> import jax.numpy as jnp, namedax as nx
    >>> float(nx.nanpercentile(nx.named(jnp.array([3.0, jnp.nan, 2.0]), ["k"]), 50, "k"))
    2.5
    """
    return _run_weighted("nanpercentile", x, q, axis, method, keepdims, weights)


@operation(requires_axis=REDUCED, on_blocks=True)
def median(x: ArrayLike, axis: AxisSpec = None, *, keepdims: bool = False) -> AnyArray:
    """Compute the median over positional and named axes at once, NaN if one element is NaN.

    Args:
      x: an array, named or not.
      axis: a positional axis, an axis name, or a tuple of both; `None` (default) selects all
        positional axes. Required if every axis is named.
      keepdims: if `True`, reduced positional axes remain with size 1; by default `False`. Reduced
        named axes are removed.

    Returns:
      An array with the remaining axes; a plain `jax.Array` if no named axis remains.

    Communication: as for `nx.quantile`.

    Raises:
      AxisNotFoundError: `x` has no axis of that name.

    >>> import jax.numpy as jnp, namedax as nx
    >>> float(nx.median(nx.named(jnp.array([3.0, 1.0, 2.0, 5.0]), ["k"]), "k"))
    2.5
    """
    return _run_quantile("median", x, 0.5, axis, "midpoint", keepdims, False)


@operation(requires_axis=REDUCED, on_blocks=True)
def nanmedian(x: ArrayLike, axis: AxisSpec = None, *, keepdims: bool = False) -> AnyArray:
    """Compute the median of the elements that are not NaN.

    Args:
      x: an array, named or not.
      axis: a positional axis, an axis name, or a tuple of both; `None` (default) selects all
        positional axes. Required if every axis is named.
      keepdims: if `True`, reduced positional axes remain with size 1; by default `False`. Reduced
        named axes are removed.

    Returns:
      An array with the remaining axes; a plain `jax.Array` if no named axis remains.

    Communication: as for `nx.quantile`.

    Raises:
      AxisNotFoundError: `x` has no axis of that name.

    >>> import jax.numpy as jnp, namedax as nx
    >>> float(nx.nanmedian(nx.named(jnp.array([3.0, jnp.nan, 2.0]), ["k"]), "k"))
    2.5
    """
    return _run_quantile("nanmedian", x, 0.5, axis, "midpoint", keepdims, True)
