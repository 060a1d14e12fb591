"""Statistics over axes, named or positional: the nan-variants, ptp, average, norms, histogram and bincount.

Nearly all are compositions of the reductions of `namedax.ops.reduction.reductions`, and cost what these cost. `axis` takes a position, a
name, or a tuple of both; `None` means all positional axes.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Hashable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from namedax.core.annotations import Array
from namedax.core.array import NamedArray, dims_of
from namedax.core.display import type_text
from namedax.core.element_types import inexact_type
from namedax.core.region import ambient
from namedax.core.variance import cast_data
from namedax.errors import ArgumentError, ArgumentTypeError, AxisSizeError, PositionalAxisError, as_integer
from namedax.operands import compiled_ops
from namedax.operands.axes import as_in_jax, axis_key, axis_said, resolve_axis
from namedax.operands.broadcasting import align, local_block, wrap
from namedax.operands.nmap import explain_type_errors
from namedax.ops.elementwise import FUNCTIONS as _ELEMENTWISE
from namedax.ops.elementwise import apply_elementwise
from namedax.ops.reduction.reductions import REDUCTIONS
from namedax.ops.reduction.site import Site, reduction_site
from namedax.ops.sorting.sorting import finish_with_new_axis, new_axis_placement, search
from namedax.resources import communication as comm

__all__ = ["FUNCTIONS", "LINALG_FUNCTIONS", "without_nans"]

_sum, _prod, _mean, _var = (REDUCTIONS[name] for name in ("sum", "prod", "mean", "var"))
_max, _min, _all = (REDUCTIONS[name] for name in ("max", "min", "all"))
_where, _isnan, _sqrt, _abs = (_ELEMENTWISE[name] for name in ("where", "isnan", "sqrt", "abs"))


def _array(x: Any) -> Any:
    return x if isinstance(x, NamedArray) else jnp.asarray(x)


def _cast(x: Any, dtype: Any) -> Any:
    return x if x.dtype == dtype else x.astype(dtype)


def _inexact(x: Any) -> Any:
    x = _array(x)
    return x.astype(inexact_type(x.dtype))


def _has_nans(x: Any) -> bool:
    return jnp.issubdtype(x.dtype, jnp.inexact)


# --- without NaNs ---------------------------------------------------------------------------------------------------


@axis_said
def nansum(
    x: Any, axis: Any = None, dtype: Any = None, *, keepdims: bool = False, initial: Any = None, where: Any = None
) -> Array:
    """Sum of the elements that are not NaN. Arguments and costs as for `nx.sum`.

    >>> import jax.numpy as jnp, namedax as nx
    >>> from namedax.ops.statistics.statistics import nansum
    >>> float(nansum(nx.named(jnp.array([1.0, jnp.nan, 3.0]), ["k"]), "k"))
    4.0
    """
    x = _array(x)
    return _sum(_where(_isnan(x), 0, x) if _has_nans(x) else x, axis, dtype, keepdims=keepdims, initial=initial, where=where)


@axis_said
def nanprod(
    x: Any, axis: Any = None, dtype: Any = None, *, keepdims: bool = False, initial: Any = None, where: Any = None
) -> Array:
    """Product of the elements that are not NaN. Arguments and costs as for `nx.prod`.

    >>> import jax.numpy as jnp, namedax as nx
    >>> from namedax.ops.statistics.statistics import nanprod
    >>> float(nanprod(nx.named(jnp.array([2.0, jnp.nan, 3.0]), ["k"]), "k"))
    6.0
    """
    x = _array(x)
    return _prod(_where(_isnan(x), 1, x) if _has_nans(x) else x, axis, dtype, keepdims=keepdims, initial=initial, where=where)


def without_nans(x: Any, where: Any) -> tuple[Any, Any]:
    """`x` with zeros for NaNs (so that no derivative meets one), and the mask of what counts."""
    missing = _isnan(x)
    present = _ELEMENTWISE["logical_not"](missing)
    if where is not None:
        where = _array(where)
        present = _ELEMENTWISE["logical_and"](present, where if where.dtype == jnp.bool_ else where != 0)
    return _where(missing, 0, x), present


@axis_said
def nanmean(x: Any, axis: Any = None, dtype: Any = None, *, keepdims: bool = False, where: Any = None) -> Array:
    """Mean of the elements that are not NaN; NaN if there are none. Arguments and costs as for `nx.mean` with `where`.

    >>> import jax.numpy as jnp, namedax as nx
    >>> from namedax.ops.statistics.statistics import nanmean
    >>> float(nanmean(nx.named(jnp.array([1.0, jnp.nan, 3.0]), ["k"]), "k"))
    2.0
    """
    x = _array(x)
    if _has_nans(x):
        x, where = without_nans(x, where)
    return _mean(x, axis, dtype, keepdims=keepdims, where=where)


def nanvar(x: Any, axis: Any = None, dtype: Any = None, *, ddof: float = 0, keepdims: bool = False, where: Any = None) -> Any:
    """Variance of the elements that are not NaN. Arguments and costs as for `nx.var` with `where`.

    >>> import jax.numpy as jnp, namedax as nx
    >>> from namedax.ops.statistics.statistics import nanvar
    >>> float(nanvar(nx.named(jnp.array([1.0, jnp.nan, 3.0]), ["k"]), "k"))
    1.0
    """
    x = _array(x)
    if _has_nans(x):
        x, where = without_nans(x, where)
    return _var(x, axis, dtype, ddof=ddof, keepdims=keepdims, where=where)


def nanstd(x: Any, axis: Any = None, dtype: Any = None, *, ddof: float = 0, keepdims: bool = False, where: Any = None) -> Any:
    """Standard deviation of the elements that are not NaN; see `nanvar`.

    >>> import jax.numpy as jnp, namedax as nx
    >>> from namedax.ops.statistics.statistics import nanstd
    >>> float(nanstd(nx.named(jnp.array([1.0, jnp.nan, 3.0]), ["k"]), "k"))
    1.0
    """
    return _sqrt(nanvar(x, axis, dtype, ddof=ddof, keepdims=keepdims, where=where))


def _nan_extremum(name: str, x: Any, axis: Any, keepdims: bool, initial: Any, where: Any) -> Any:
    x = _array(x)
    reduce = REDUCTIONS[name]
    if not _has_nans(x):
        return reduce(x, axis, keepdims=keepdims, initial=initial, where=where)
    missing = _isnan(x)
    found = reduce(
        _where(missing, -jnp.inf if name == "max" else jnp.inf, x), axis, keepdims=keepdims, initial=initial, where=where
    )
    if initial is not None:  # it takes part, so that something always does
        return found
    return _where(_all(missing, axis, keepdims=keepdims, where=where), jnp.nan, found)


@axis_said
def nanmax(x: Any, axis: Any = None, *, keepdims: bool = False, initial: Any = None, where: Any = None) -> Array:
    """Maximum of the elements that are not NaN; NaN if there are none. Arguments as for `nx.max`.

    Over a sharded name: an all-reduce for the maximum, and one that asks whether there was anything but NaN.

    >>> import jax.numpy as jnp, namedax as nx
    >>> from namedax.ops.statistics.statistics import nanmax
    >>> float(nanmax(nx.named(jnp.array([1.0, jnp.nan, 3.0]), ["k"]), "k"))
    3.0
    """
    return _nan_extremum("max", x, axis, keepdims, initial, where)


@axis_said
def nanmin(x: Any, axis: Any = None, *, keepdims: bool = False, initial: Any = None, where: Any = None) -> Array:
    """Minimum of the elements that are not NaN; see `nanmax`.

    >>> import jax.numpy as jnp, namedax as nx
    >>> from namedax.ops.statistics.statistics import nanmin
    >>> float(nanmin(nx.named(jnp.array([1.0, jnp.nan, 3.0]), ["k"]), "k"))
    1.0
    """
    return _nan_extremum("min", x, axis, keepdims, initial, where)


def _nan_arg(name: str, x: Any, axis: Any, keepdims: bool) -> Any:
    x = _array(x)
    reduce = REDUCTIONS[name]
    if not _has_nans(x):
        return reduce(x, axis, keepdims=keepdims)
    missing = _isnan(x)
    index = reduce(_where(missing, -jnp.inf if name == "argmax" else jnp.inf, x), axis, keepdims=keepdims)
    return _where(_all(missing, axis, keepdims=keepdims), -1, index)


@axis_said
def nanargmax(x: Any, axis: Any = None, *, keepdims: bool = False) -> Array:
    """Index of the first maximum of the elements that are not NaN; -1 if there are none. Arguments as for `nx.argmax`.

    >>> import jax.numpy as jnp, namedax as nx
    >>> from namedax.ops.statistics.statistics import nanargmax
    >>> int(nanargmax(nx.named(jnp.array([1.0, jnp.nan, 3.0]), ["k"]), "k"))
    2
    """
    return _nan_arg("argmax", x, axis, keepdims)


@axis_said
def nanargmin(x: Any, axis: Any = None, *, keepdims: bool = False) -> Array:
    """Index of the first minimum of the elements that are not NaN; see `nanargmax`.

    >>> import jax.numpy as jnp, namedax as nx
    >>> from namedax.ops.statistics.statistics import nanargmin
    >>> int(nanargmin(nx.named(jnp.array([1.0, jnp.nan, 3.0]), ["k"]), "k"))
    0
    """
    return _nan_arg("argmin", x, axis, keepdims)


@axis_said
def ptp(x: Any, axis: Any = None, *, keepdims: bool = False) -> Array:
    """Maximum less minimum. Arguments as for `nx.max`, costs those of both.

    >>> import jax.numpy as jnp, namedax as nx
    >>> from namedax.ops.statistics.statistics import ptp
    >>> float(ptp(nx.named(jnp.array([1.0, -2.0, 3.0]), ["k"]), "k"))
    5.0
    """
    return _max(x, axis, keepdims=keepdims) - _min(x, axis, keepdims=keepdims)


# --- average --------------------------------------------------------------------------------------------------------


@axis_said
def average(
    x: Any, axis: Any = None, weights: Any = None, returned: bool = False, keepdims: bool = False
) -> Array | tuple[Array, Array]:
    """Weighted mean over positional and named axes.

    Args:
      x: an array, named or not.
      axis: a position, a name, or a tuple of both; `None` means all positional axes.
      weights: an array, named or not. Named axes meet those of `x` by name, and may be fewer. Positional axes are all those of
        `x`, or those of the positions in `axis`, in their order.
      returned: whether to return the sum of the weights too.
      keepdims: whether reduced positional axes stay, with size 1.

    Returns:
      The average, or a tuple of it and the sum of the weights, both with the remaining axes.

    Over a sharded name: one all-reduce, which takes the sum of the weights along if they have that name.

    Raises:
      AxisNotFoundError: `x` has no axis of that name.
      PositionalAxisError: the positional axes of `weights` do not fit.

    >>> import jax.numpy as jnp, namedax as nx
    >>> from namedax.ops.statistics.statistics import average
    >>> x, w = nx.named(jnp.array([1.0, 2.0]), ["k"]), nx.named(jnp.array([3.0, 1.0]), ["k"])
    >>> float(average(x, "k", weights=w))
    1.25
    """
    x = _inexact(x)
    if weights is None:
        result = _mean(x, axis, keepdims=keepdims)
        if not returned:
            return result
        count = reduction_site("average", x, axis).count
        return result, apply_elementwise("average", lambda r: jnp.full(r.shape, count, r.dtype), result)
    weights = _inexact(weights)
    dtype = jnp.promote_types(x.dtype, weights.dtype)
    x, weights = _cast(x, dtype), _cast(weights, dtype)
    dims = dims_of(x)
    reduced = resolve_axis("average", x, axis)
    shape = x.shape
    if weights.ndim:
        weights = _fit_positions(x, weights, [dims[:i].count(None) for i in reduced if dims[i] is None], shape)
    own = dims_of(weights)
    entries = [dims[:i].count(None) if dims[i] is None else dims[i] for i in reduced]
    counted = tuple(e for e in entries if (weights.ndim > 0 if isinstance(e, int) else e in own))
    repeats = (
        reduction_site("average", x, tuple(e for e in entries if e not in counted)).count if len(counted) < len(entries) else 1
    )
    total = _sum(weights, counted, keepdims=keepdims) if counted else weights
    if repeats != 1:
        total = total * jnp.asarray(repeats, dtype)
    if keepdims and not weights.ndim and dims.count(None):
        total = total + jnp.zeros((1,) * dims.count(None), dtype)
    result = _sum(x * weights, axis, keepdims=keepdims) / total
    if not returned:
        return result
    return result, apply_elementwise("average", lambda r, t: jnp.broadcast_to(t, r.shape), result, total)


def _fit_positions(x: Any, weights: Any, positions: list[int], shape: tuple[int, ...]) -> Any:
    """`weights` with the positional axes of `x`."""
    if weights.shape == shape:
        return weights
    if weights.shape != tuple(shape[i] for i in positions):
        raise PositionalAxisError(
            f"average: the weights, {type_text(weights)}, do not fit {type_text(x)}. Their positional axes are all those of "
            "the array, or those in axis, in that order; give the other axes names."
        )
    data, own = (weights.data, weights.dims) if isinstance(weights, NamedArray) else (weights, dims_of(weights))
    names = [i for i, dim in enumerate(own) if dim is not None]
    places = [i for i, dim in enumerate(own) if dim is None]
    data = lax.transpose(data, names + [places[i] for i in np.argsort(positions)])
    kept = data.shape[: len(names)]
    data = data.reshape(kept + tuple(n if i in positions else 1 for i, n in enumerate(shape)))
    data = jnp.broadcast_to(data, kept + shape)
    return wrap(data, tuple(own[i] for i in names) + (None,) * len(shape))


# --- norms ----------------------------------------------------------------------------------------------------------


def _vector_norm(x: Any, ord: Any, axis: Any, keepdims: bool) -> Any:
    real = x.real.dtype
    if ord is None or ord == 2:
        return _sqrt(_sum(_ELEMENTWISE["real"](x * _ELEMENTWISE["conj"](x)), axis, keepdims=keepdims))
    if isinstance(ord, str):
        raise ArgumentError(f"norm: ord={ord!r} is no order of a vector norm; it is a number, also inf or -inf.")
    if ord == math.inf:
        return _max(_abs(x), axis, keepdims=keepdims)
    if ord == -math.inf:
        return _min(_abs(x), axis, keepdims=keepdims)
    if ord == 0:
        return _sum(x != 0, axis, dtype=real, keepdims=keepdims)
    if ord == 1:
        return _sum(_abs(x), axis, keepdims=keepdims)
    power = jnp.asarray(ord, real)
    return _ELEMENTWISE["power"](_sum(_ELEMENTWISE["power"](_abs(x), power), axis, keepdims=keepdims), 1 / power)


@axis_said
def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Array:
    """Norm over one axis (of vectors) or two (of matrices), named or positional, as `jnp.linalg.norm`.

    Args:
      x: an array, named or not.
      ord: the order. For vectors a number, also inf, -inf or 0; for matrices `"fro"`, 1, -1, inf, -inf, 2, -2 or `"nuc"`.
        Default: the root of the sum of the squares.
      axis: a position, a name, or a tuple of one or two of them (rows, then columns); `None` means all positional axes.
      keepdims: whether reduced positional axes stay, with size 1.

    Returns:
      An array with the remaining axes.

    Over a sharded name: the one all-reduce of a sum, maximum or minimum, for matrices one for each axis. The orders 2, -2 and
    `"nuc"` of a matrix need its singular values: a sharded name is gathered for them (one all-gather).

    Raises:
      AxisNotFoundError: `x` has no axis of that name.

    >>> import jax.numpy as jnp, namedax as nx
    >>> from namedax.ops.statistics.statistics import norm
    >>> float(norm(nx.named(jnp.array([3.0, 4.0]), ["k"]), axis="k"))
    5.0
    """
    x = _inexact(x)
    axis = tuple(axis) if isinstance(axis, list) else axis
    if axis is None and ord is None:
        return _vector_norm(x, None, None, keepdims)
    if axis is None:
        axis = tuple(range(x.ndim))
    axes = axis if isinstance(axis, tuple) else (axis,)
    if len(axes) == 1:
        return _vector_norm(x, ord, axes, keepdims)
    if len(axes) != 2:
        raise PositionalAxisError(
            f"norm: axis={axis!r} must be one axis (vectors) or two (matrices); nx.linalg.vector_norm takes any number."
        )
    if ord is None or ord in ("f", "fro"):
        return _vector_norm(x, None, axes, keepdims)
    if ord in (1, -1, math.inf, -math.inf):
        inner, outer = axes if ord in (1, -1) else axes[::-1]
        resolve_axis("norm", x, axes)  # both, before one is gone
        if isinstance(outer, (int, np.integer)):
            outer = operator.index(outer) % x.ndim
            if isinstance(inner, (int, np.integer)) and not keepdims and inner % x.ndim < outer:
                outer -= 1
        sums = _sum(_abs(x), inner, keepdims=keepdims)
        return _max(sums, outer, keepdims=keepdims, initial=0) if ord > 0 else _min(sums, outer, keepdims=keepdims)
    if ord not in (2, -2, "nuc"):
        raise ArgumentError(f"norm: ord={ord!r} is no order of a matrix norm; it is 'fro', 'nuc', 1, -1, 2, -2, inf or -inf.")
    with explain_type_errors:
        return compiled_ops.run("norm", _singular_norm, axis_key("norm", axes), (ord, keepdims), x)


def _singular_norm(op: str, axes: Any, ord: Any, keepdims: bool, x: Any) -> Any:
    site = reduction_site(op, x, axes, keepdims)
    data = site.data
    region = ambient()
    for i in site.named:
        placement = region.placement(site.dims_in[i]) if region is not None and site.mesh_axes else ()
        if placement:
            data = comm.all_gather(data, i, placement, "invarying")
    return site.finish(jnp.linalg.norm(data, ord, site.axes, keepdims))


def vector_norm(x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Array:
    """Vector norm over any number of axes, named or positional, together; `None` means all positional axes. Else as `norm`.

    >>> import jax.numpy as jnp, namedax as nx
    >>> from namedax.ops.statistics.statistics import vector_norm
    >>> float(vector_norm(nx.named(jnp.array([3.0, -4.0]), ["k"]), axis="k", ord=1))
    7.0
    """
    return _vector_norm(_inexact(x), ord, axis, keepdims)


# --- counting -------------------------------------------------------------------------------------------------------


def _flat_last(data: Any, axes: tuple[int, ...]) -> Any:
    """The axes `axes` of `data` as one, the last."""
    rest = [i for i in range(data.ndim) if i not in axes]
    data = lax.transpose(data, [*rest, *sorted(axes)])
    return data.reshape((*data.shape[: len(rest)], -1))


def _scatter_add(index: Any, weights: Any, length: int) -> Any:
    """`[..., m]` indices and weights to `[..., length]` sums; an index of `length` or more counts nowhere."""
    add: Callable[..., Any] = jax.vmap(lambda i, w: jnp.zeros(length, w.dtype).at[i].add(w, mode="drop"))
    rows = index.shape[:-1]
    result = add(index.reshape((-1, index.shape[-1])), weights.reshape((-1, index.shape[-1])))
    return result.reshape((*rows, length))


def _combine_counts(op: str, partial: Any, site: Site, out_axis: Hashable | None) -> Any:
    """The sums of all devices, along a new last axis: one all-reduce, or one reduce-scatter if it is sharded as they were."""
    dims = (*site.dims, None)
    placement = new_axis_placement(op, out_axis, partial.shape[-1], site.dims)
    if placement and placement == site.mesh_axes:
        partial = comm.psum_scatter(partial, partial.ndim - 1, placement)
        return wrap(partial, (*site.dims, out_axis))
    if site.mesh_axes:
        partial = comm.psum(cast_data(partial, site.mesh_axes), site.mesh_axes)
    return finish_with_new_axis(op, partial, dims, len(dims) - 1, out_axis)


def _prepared(op: str, x: Any, weights: Any, axis: Any) -> tuple[Site, Any]:
    """The site of `x`, and weights of the shape of its data; both broadcast by name."""
    if weights is None:
        return reduction_site(op, x, axis), None
    (data, weights), dims = align(op, x, weights)
    data, weights = jnp.broadcast_arrays(data, weights)
    return reduction_site(op, wrap(data, dims), axis), weights


def bincount(
    x: Any,
    weights: Any = None,
    minlength: int = 0,
    *,
    length: int | None = None,
    axis: Any = None,
    out_axis: Hashable | None = None,
) -> Array:
    """How often each integer from 0 on occurs, over positional and named axes.

    Args:
      x: integers, named or not. Negative ones count as 0, and those of `length` or more are left out, as in `jnp.bincount`.
      weights: what each element counts, broadcast by name; default: 1.
      minlength: the least length, where `length` is not given.
      length: the number of bins. Needed in a mapped function and under `jit`, since it shapes the result.
      axis: a position, a name, or a tuple of both; `None` means all positional axes.
      out_axis: the name of the bins' axis; default: it is positional, and the last.

    Returns:
      An array with the remaining axes and that of the bins.

    Over a sharded name: a local count and one all-reduce of the result; one reduce-scatter if `out_axis` is on the same
    mesh axes.

    Raises:
      AxisNotFoundError: `x` has no axis of that name.

    >>> import jax.numpy as jnp, namedax as nx
    >>> from namedax.ops.statistics.statistics import bincount
    >>> bincount(nx.named(jnp.array([2, 0, 2]), ["token"]), length=4, axis="token")
    Array([1, 0, 2, 0], dtype=int32)
    """
    x = _array(x)
    if x.dtype != jnp.bool_ and not jnp.issubdtype(x.dtype, jnp.integer):
        raise ArgumentTypeError(f"bincount: the argument must be of integers, got {type_text(x)}.")
    if length is None:
        data = x.data if isinstance(x, NamedArray) else x
        if isinstance(data, jax.core.Tracer):
            raise AxisSizeError(
                "bincount: length= is needed here; it shapes the result, and the values are not known while tracing."
            )
        length = max(as_integer("bincount", "minlength", minlength, 0), int(data.max()) + 1 if data.size else 0)
    length = as_integer("bincount", "length", length, 0)
    operands = (x,) if weights is None else (x, weights)
    with explain_type_errors:
        return compiled_ops.run(
            "bincount", _bincount, compiled_ops.AxesAndNew(axis_key("bincount", axis), out_axis), (length,), *operands
        )


def _bincount(op: str, axes: compiled_ops.AxesAndNew, length: int, x: Any, *more: Any) -> Any:
    site, weight = _prepared(op, x, more[0] if more else None, axes.axes)
    index = _flat_last(site.data, site.axes)
    index = jnp.maximum(index.astype(jnp.int32) if index.dtype == jnp.bool_ else index, 0)
    flat = jnp.ones(index.shape, jnp.arange(0).dtype) if weight is None else _flat_last(weight, site.axes)
    return _combine_counts(op, _scatter_add(index, flat, length), site, axes.new)


def histogram(
    x: Any,
    bins: Any = 10,
    range: Any = None,
    weights: Any = None,
    density: bool | None = None,
    *,
    axis: Any = None,
    out_axis: Hashable | None = None,
) -> tuple[Array, Array]:
    """How many elements fall into each bin, over positional and named axes.

    Args:
      x: an array, named or not.
      bins: the number of bins of equal width, or an array of their edges with one positional axis.
      range: the ends of the first and last bin; default: minimum and maximum, for each instance of the remaining axes.
      weights: what each element counts, broadcast by name; default: 1.
      density: whether to divide by the width of the bin and the sum of all.
      axis: a position, a name, or a tuple of both; `None` means all positional axes.
      out_axis: the name of the bins' axis in the counts; default: it is positional, and the last.

    Returns:
      The counts, with the remaining axes and that of the bins, and the edges, whose axis is positional and the last. The edges
      have the remaining axes too where they differ between instances: with a number of bins and no `range`.

    Over a sharded name: a local count and one all-reduce of the counts (one reduce-scatter if `out_axis` is on the same mesh
    axes); without `range`, one each for minimum and maximum before.

    Raises:
      AxisNotFoundError: `x` has no axis of that name.

    >>> import jax.numpy as jnp, namedax as nx
    >>> from namedax.ops.statistics.statistics import histogram
    >>> counts, edges = histogram(nx.named(jnp.array([0.0, 0.2, 0.9]), ["k"]), 2, (0, 1), axis="k")
    >>> counts, edges
    (Array([2., 1.], dtype=float32), Array([0. , 0.5, 1. ], dtype=float32))
    """
    x = _inexact(x)
    dtype = x.dtype
    if weights is not None:
        weights = _array(weights)
        dtype = jnp.promote_types(dtype, jnp.promote_types(weights.dtype, dtype))
        x, weights = _cast(x, dtype), _cast(weights, dtype)
    axis = tuple(axis) if isinstance(axis, list) else axis
    if isinstance(bins, str):
        raise ArgumentError(
            "histogram: string values for bins are not supported, as in jnp.histogram; give a number or the edges."
        )
    edges = (
        jnp.asarray(bins, dtype)
        if np.ndim(bins) == 1
        else _equal_edges(x, as_integer("histogram", "bins", bins, 1), range, axis, dtype)
    )
    operands = (x, edges) if weights is None else (x, edges, weights)
    with explain_type_errors:
        counts = compiled_ops.run(
            "histogram", _histogram, compiled_ops.AxesAndNew(axis_key("histogram", axis), out_axis), (dtype,), *operands
        )
    if density:
        counts = _density(counts, edges, out_axis)
    return counts, edges


def _histogram(op: str, axes: compiled_ops.AxesAndNew, dtype: Any, x: Any, edges: Any, *more: Any) -> Any:
    site, weight = _prepared(op, x, more[0] if more else None, axes.axes)
    values = _flat_last(site.data, site.axes)
    flat = jnp.ones(values.shape, dtype) if weight is None else _flat_last(weight, site.axes)
    ends = edges
    if isinstance(edges, NamedArray) or edges.ndim > 1:
        (ends, _), dims = align(op, edges, wrap(values[..., :1], (*site.dims, None)))
        # In the order of the values: the dims of the site, then the edges.
        ends = _reorder(ends, dims, (*site.dims, None))
        ends = jnp.broadcast_to(ends, (*values.shape[:-1], ends.shape[-1]))
    ends = cast_data(ends, site.mesh_axes)
    if ends.ndim == 1:
        index, last = search(ends, values, "right"), ends[-1]
    else:
        find = jnp.vectorize(lambda e, v: search(e, v, "right"), signature="(b),(m)->(m)")
        index, last = find(ends, values), ends[..., -1:]
    count = ends.shape[-1] - 1
    index = jnp.where(values == last, count, index)
    # 0 is before the first bin, count + 1 behind the last: both fall away.
    counts = _scatter_add(jnp.where(index == 0, count + 1, index) - 1, flat, count)
    return _combine_counts(op, counts, site, axes.new)


def _reorder(data: Any, dims: tuple[Any, ...], target: tuple[Any, ...]) -> Any:
    places = iter([i for i, dim in enumerate(dims) if dim is None])
    return lax.transpose(data, [next(places) if dim is None else dims.index(dim) for dim in target])


def _equal_edges(x: Any, bins: int, range: Any, axis: Any, dtype: Any) -> Any:
    """`bins + 1` edges of equal distance, along a last positional axis."""
    if range is not None:
        ends = jnp.asarray(range, dtype)
        if ends.shape != (2,):
            raise ArgumentError(f"histogram: range={range!r} must be None, or two numbers.")
        first, last = ends[0], ends[1]
    else:
        first, last = lax.stop_gradient(_min(x, axis)), lax.stop_gradient(_max(x, axis))

    def edges(first: Any, last: Any) -> Any:
        point = first == last
        first, last = jnp.where(point, first - 0.5, first), jnp.where(point, last + 0.5, last)
        return jnp.linspace(first, last, bins + 1, axis=-1, dtype=dtype)

    (low, high), dims = align("histogram", first, last)
    return wrap(edges(jnp.asarray(low), jnp.asarray(high)), (*dims, None))


def _density(counts: Any, edges: Any, out_axis: Hashable | None) -> Any:
    last = out_axis if out_axis is not None else -1
    total = _sum(counts, last, keepdims=out_axis is None)
    edges = local_block(edges, "histogram", ambient())
    data, dims = (edges.data, edges.dims) if isinstance(edges, NamedArray) else (edges, dims_of(edges))
    widths = jnp.diff(data, axis=-1)
    result = finish_with_new_axis("histogram", widths, dims, widths.ndim - 1, out_axis)
    return counts / result / total


#: The functions of `jax.numpy`.
FUNCTIONS: dict[str, Callable[..., Any]] = {
    f.__name__: as_in_jax(f)
    for f in (
        nansum, nanprod, nanmean, nanvar, nanstd, nanmax, nanmin, nanargmax, nanargmin, ptp, average, norm, histogram, bincount,
    )
}  # fmt: skip
#: The functions of `jax.numpy.linalg`.
LINALG_FUNCTIONS: dict[str, Callable[..., Any]] = {"norm": as_in_jax(norm), "vector_norm": vector_norm}
