"""Quantiles over axes, named or positional, with and without NaNs.

Along a sharded axis `namedax.ops.sorting.network` sorts the elements, and one all-reduce finds the
elements at a rank.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from namedax.core.annotations import AnyArray, ArrayLike, AxisSpec
from namedax.core.array import NamedArray
from namedax.core.display import type_text
from namedax.core.element_types import common_type, inexact_type
from namedax.core.reshape import as_one
from namedax.core.variance import cast_data
from namedax.errors import (
    ArgumentError,
    ArgumentTypeError,
    NamedAxesLeftError,
    PositionalAxisError,
    format_value,
)
from namedax.operands import kernels
from namedax.operands.axes import axis_key
from namedax.operands.broadcasting import make_result
from namedax.operands.nmap import explain_type_errors
from namedax.operands.operation import REDUCED, operation
from namedax.ops.reduction.site import ReductionPlan, reduction_site
from namedax.ops.sorting.network import global_positions, sort_local, sort_values
from namedax.resources import communication as comm

__all__ = [
    "FUNCTIONS",
    "median",
    "nanmedian",
    "nanpercentile",
    "nanquantile",
    "percentile",
    "quantile",
]


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


def _quantile(site: ReductionPlan, q: jax.Array, method: str, skip_nans: bool) -> jax.Array:
    """Compute quantiles of shape `[*q.shape, *rest]`."""
    dtype = inexact_type(site.data.dtype)
    if jnp.issubdtype(dtype, jnp.complexfloating):
        raise ArgumentTypeError(
            "quantile: complex numbers have no order. Take their nx.abs, nx.real or nx.imag first."
        )
    data = site.data.astype(dtype)
    q = jnp.asarray(q)
    q = q.astype(common_type(dtype, q.dtype if jnp.issubdtype(q.dtype, jnp.floating) else dtype))
    rest = [i for i in range(data.ndim) if i not in site.axes]
    order = [*rest, *sorted(site.axes)]

    def flat(array: jax.Array) -> jax.Array:
        array = lax.transpose(array, order)
        return as_one(array, len(rest), len(site.axes))

    missing = jnp.isnan(data)
    if (real := site.real()) is not None:  # a NaN follows all numbers, and counts if it is real
        missing, data = missing & real, jnp.where(real, data, jnp.nan)
    invalid = jnp.sum(missing, site.axes, dtype=jnp.int32)
    if site.mesh_axes:
        invalid = comm.psum(invalid, site.mesh_axes)
    data, index = flat(data), flat(global_positions(site, jnp.int32))
    last = data.ndim - 1
    if site.mesh_axes:
        ordered = sort_values(data, index, last, site.mesh_axes, False)
    else:
        ordered = sort_local(data, last)
    count = site.count - invalid if skip_nans else jnp.full(invalid.shape, site.count, jnp.int32)
    top = jnp.maximum(count - 1, 0)[..., None]
    position = jnp.broadcast_to(jnp.ravel(q), (*count.shape, q.size)) * (
        count[..., None] - 1
    ).astype(q.dtype)
    low, high = jnp.floor(position), jnp.ceil(position)
    above = position - low
    ranks = [jnp.clip(rank.astype(jnp.int32), 0, top) for rank in (low, high)]
    picked = _at_rank(ordered, jnp.concatenate(ranks, -1), site.mesh_axes)
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
        raise ArgumentError(f"{op}: method must be one of {_METHODS}, got {format_value(method)}.")
    with explain_type_errors:
        return kernels.run(
            op, _quantiles, axis_key(op, axis), (method, keepdims, skip_nans), x, jnp.asarray(q)
        )


def _quantiles(
    op: str, axis: AxisSpec, method: str, keepdims: bool, skip_nans: bool, x: AnyArray, q: jax.Array
) -> AnyArray:
    site = reduction_site(op, x, axis, keepdims, supports_padding=True)
    data = _quantile(site, q, method, skip_nans)
    leading = np.ndim(q)
    if keepdims:
        data = jnp.expand_dims(data, [leading + i for i in sorted(site.axes)])
        data = lax.squeeze(data, [leading + i for i in site.named])
    return make_result(data, (None,) * leading + site.dims)


def quantile(
    x: ArrayLike,
    q: ArrayLike,
    axis: AxisSpec = None,
    *,
    method: str = "linear",
    keepdims: bool = False,
) -> AnyArray:
    """Compute quantiles; weights are in the public form, in `namespaces.reduction_forms`.

    Communication: over a sharded axis the blocks are sorted as by `sort`. Two all-reduces of the
    result's size pick the elements and count the NaNs; the axis is never gathered.
    """
    return _run_quantile("quantile", x, q, axis, method, keepdims, False)


def nanquantile(
    x: ArrayLike,
    q: ArrayLike,
    axis: AxisSpec = None,
    *,
    method: str = "linear",
    keepdims: bool = False,
) -> AnyArray:
    """Compute quantiles of the elements that are not NaN."""
    return _run_quantile("nanquantile", x, q, axis, method, keepdims, True)


def _percent(q: ArrayLike) -> ArrayLike:
    return q if isinstance(q, NamedArray) else jnp.true_divide(q, 100)  # a named array raises later


def percentile(
    x: ArrayLike,
    q: ArrayLike,
    axis: AxisSpec = None,
    *,
    method: str = "linear",
    keepdims: bool = False,
) -> AnyArray:
    """Compute percentiles."""
    return _run_quantile("percentile", x, _percent(q), axis, method, keepdims, False)


def nanpercentile(
    x: ArrayLike,
    q: ArrayLike,
    axis: AxisSpec = None,
    *,
    method: str = "linear",
    keepdims: bool = False,
) -> AnyArray:
    """Compute percentiles of the elements that are not NaN."""
    return _run_quantile("nanpercentile", x, _percent(q), axis, method, keepdims, True)


@operation(requires_axis=REDUCED)
def median(x: ArrayLike, axis: AxisSpec = None, *, keepdims: bool = False) -> AnyArray:
    """Compute the median over positional and named axes at once, NaN if one element is NaN.

    The communication is as for `quantile`.

    >>> import jax.numpy as jnp, namedax as nx
    >>> float(nx.median(nx.named(jnp.array([3.0, 1.0, 2.0, 5.0]), ["k"]), "k"))
    2.5
    """
    return _run_quantile("median", x, 0.5, axis, "midpoint", keepdims, False)


@operation(requires_axis=REDUCED)
def nanmedian(x: ArrayLike, axis: AxisSpec = None, *, keepdims: bool = False) -> AnyArray:
    """Compute the median of the elements that are not NaN; see `median`.

    >>> import jax.numpy as jnp, namedax as nx
    >>> float(nx.nanmedian(nx.named(jnp.array([3.0, jnp.nan, 2.0]), ["k"]), "k"))
    2.5
    """
    return _run_quantile("nanmedian", x, 0.5, axis, "midpoint", keepdims, True)


#: The public `quantile` and similar functions, which take weights, are in
#: `namespaces.reduction_forms`; these check no axis.
FUNCTIONS: dict[str, Callable[..., Any]] = {
    f.__name__: f for f in (median, quantile, percentile, nanmedian, nanquantile, nanpercentile)
}
