"""Reductions with the additional parameters of JAX's: `var(mean=)`, `logsumexp(b=)`, `quantile(weights=)`, and the like.

The ordinary form of each is in `namedax.ops`, and is called whenever none of these arguments is
given.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from namedax.core.annotations import AnyArray
from namedax.core.array import NamedArray, as_array, dims_of
from namedax.core.element_types import inexact_type
from namedax.errors import ArgumentError, format_value, refuse_names
from namedax.operands.along_axes import to_front
from namedax.operands.axes import resolve_axis
from namedax.operands.broadcasting import make_result
from namedax.operands.nmap import nmap
from namedax.operands.operation import REDUCED, Explicit, operation
from namedax.ops.elementwise import FUNCTIONS as _ELEMENTWISE
from namedax.ops.reduction.reductions import REDUCTIONS
from namedax.ops.statistics import without_nans
from namedax.ops.statistics.quantiles import FUNCTIONS as _QUANTILES

__all__ = [
    "LOGSUMEXP",
    "REDUCTION_FORMS",
    "logsumexp",
    "nanpercentile",
    "nanquantile",
    "nanstd",
    "nanvar",
    "percentile",
    "quantile",
    "std",
    "var",
]

_sum, _max = REDUCTIONS["sum"], REDUCTIONS["max"]
_where, _isfinite, _exp, _log, _abs, _sign, _real, _conj, _sqrt = (
    _ELEMENTWISE[name]
    for name in ("where", "isfinite", "exp", "log", "abs", "sign", "real", "conj", "sqrt")
)


def _ones_like(x: Any, dtype: Any) -> Any:
    return nmap(lambda data: jnp.ones_like(data, dtype))(x)


def _spread(
    name: str,
    base: Callable[..., Any],
    x: Any,
    axis: Any,
    dtype: Any,
    ddof: float,
    keepdims: bool,
    where: Any,
    mean: Any,
    correction: float | None,
    *,
    skips_nans: bool,
) -> Any:
    """`base`, or the mean square of the deviations from a mean that is known."""
    if correction is not None:
        if not isinstance(ddof, int) or ddof != 0:
            raise ArgumentError(
                f"{name}: ddof={ddof} and correction={correction} mean the same; give one of them."
            )
        ddof = correction
    if mean is None:
        return base(x, axis, dtype, ddof=ddof, keepdims=keepdims, where=where)
    return _about(x, mean, axis, dtype, ddof, keepdims, where, skips_nans)


@operation(requires_axis=REDUCED, explicit=Explicit.AS_JAX, cached=True)
def var(
    x: Any,
    axis: Any = None,
    dtype: Any = None,
    *,
    ddof: float = 0,
    keepdims: bool = False,
    where: Any = None,
    mean: Any = None,
    correction: float | None = None,
) -> AnyArray:
    """The variance over positional and named axes together.

    Args:
      x: an array, named or not.
      axis: a position, a name, or a tuple of both; `None` means all positional axes, `...` all
        axes.
      dtype: element type of the result.
      ddof: what is subtracted from the count.
      keepdims: whether reduced positional axes stay, with size 1.
      where: a boolean array, named or not; elements where it is false are left out.
      mean: the mean, if it is known already: an array that broadcasts with `x`, as `nx.mean(x,
        axis, keepdims=True)` does. The deviations from it are squared, whatever it is.
      correction: the array API's word for `ddof`.

    Returns:
      An array with the remaining axes. Over a sharded name: two all-reduces, or one if `mean` is
      given.

    Raises:
      AxisNotFoundError: `x` has no axis of that name.
      ArgumentError: `ddof` and `correction` are both given.

    >>> import jax.numpy as jnp, namedax as nx
    >>> nx.var(nx.named(jnp.array([1.0, 3.0, 5.0]), ["batch"]), "batch", correction=1)
    Array(4., dtype=float32)
    """
    return _spread(
        "var",
        REDUCTIONS["var"],
        x,
        axis,
        dtype,
        ddof,
        keepdims,
        where,
        mean,
        correction,
        skips_nans=False,
    )


@operation(requires_axis=REDUCED, explicit=Explicit.AS_JAX, cached=True)
def std(
    x: Any,
    axis: Any = None,
    dtype: Any = None,
    *,
    ddof: float = 0,
    keepdims: bool = False,
    where: Any = None,
    mean: Any = None,
    correction: float | None = None,
) -> AnyArray:
    """The standard deviation over positional and named axes together.

    Arguments and costs as for `var`.

    >>> import jax.numpy as jnp, namedax as nx
    >>> nx.std(nx.named(jnp.array([1.0, 3.0, 5.0]), ["batch"]), "batch", correction=1)
    Array(2., dtype=float32)
    """
    result = _spread(
        "std",
        REDUCTIONS["std"],
        x,
        axis,
        dtype,
        ddof,
        keepdims,
        where,
        mean,
        correction,
        skips_nans=False,
    )
    return result if mean is None else _sqrt(result)


@operation(requires_axis=REDUCED, explicit=Explicit.KEPT)
def nanvar(
    x: Any,
    axis: Any = None,
    dtype: Any = None,
    *,
    ddof: float = 0,
    keepdims: bool = False,
    where: Any = None,
    mean: Any = None,
    correction: float | None = None,
) -> AnyArray:
    """The variance of the elements that are not NaN; NaN if there are none.

    Arguments and costs as for `var`.

    >>> import jax.numpy as jnp, namedax as nx
    >>> nx.nanvar(nx.named(jnp.array([1.0, jnp.nan, 3.0, 5.0]), ["batch"]), "batch", correction=1)
    Array(4., dtype=float32)
    """
    return _spread(
        "nanvar",
        without_nans.nanvar,
        x,
        axis,
        dtype,
        ddof,
        keepdims,
        where,
        mean,
        correction,
        skips_nans=True,
    )


@operation(requires_axis=REDUCED, explicit=Explicit.KEPT)
def nanstd(
    x: Any,
    axis: Any = None,
    dtype: Any = None,
    *,
    ddof: float = 0,
    keepdims: bool = False,
    where: Any = None,
    mean: Any = None,
    correction: float | None = None,
) -> AnyArray:
    """The standard deviation of the elements that are not NaN; NaN if there are none.

    Arguments and costs as for `var`.

    >>> import jax.numpy as jnp, namedax as nx
    >>> nx.nanstd(nx.named(jnp.array([1.0, jnp.nan, 3.0, 5.0]), ["batch"]), "batch", correction=1)
    Array(2., dtype=float32)
    """
    result = _spread(
        "nanstd",
        without_nans.nanstd,
        x,
        axis,
        dtype,
        ddof,
        keepdims,
        where,
        mean,
        correction,
        skips_nans=True,
    )
    return result if mean is None else _sqrt(result)


def _about(
    x: Any,
    mean: Any,
    axis: Any,
    dtype: Any,
    ddof: float,
    keepdims: bool,
    where: Any,
    skips_nans: bool,
) -> Any:
    """The mean square of `x - mean`."""
    x, mean = as_array(x), as_array(mean)
    of = inexact_type(x.dtype)
    result = (jnp.zeros((), of).real.dtype) if dtype is None else jnp.zeros((), dtype).dtype
    wide = of if dtype is None else result
    wide = jnp.float32 if wide in (jnp.float16, jnp.bfloat16) else wide
    if skips_nans and jnp.issubdtype(x.dtype, jnp.inexact):
        x, where = without_nans.without_nans("nanvar", x, where)
    centred = x.astype(wide) - mean.astype(wide)
    squares = _real(centred * _conj(centred))
    total = _sum(squares, axis, keepdims=keepdims, where=where)
    count = _sum(
        _ones_like(squares, squares.dtype), axis, keepdims=keepdims, where=where
    ) - jnp.asarray(ddof, squares.dtype)
    valid = count > 0
    variance = total / _where(valid, count, jnp.ones((), squares.dtype))
    return _where(valid, variance, np.asarray(np.nan, squares.dtype)).astype(result)


@operation(requires_axis=REDUCED, explicit=Explicit.KEPT, cached=True)
def logsumexp(
    x: Any,
    axis: Any = None,
    b: Any = None,
    keepdims: bool = False,
    return_sign: bool = False,
    where: Any = None,
) -> AnyArray | tuple[AnyArray, AnyArray]:
    """`log(sum(b * exp(x)))` over positional and named axes, without overflow.

    Args:
      x: an array, named or not.
      axis: a position, a name, or a tuple of both; `None` means all positional axes.
      b: factors, named or not, that broadcast with `x`; 1 if they are left out.
      keepdims: whether reduced positional axes stay, with size 1.
      return_sign: whether the sum's sign is returned too, and the logarithm is that of its absolute
        value. Otherwise the logarithm of a negative sum is NaN.
      where: a boolean array, named or not; elements where it is false are left out.

    Returns:
      An array with the remaining axes, or a pair of them with `return_sign`.

    Costs over a sharded name: two all-reduces.

    Raises:
      AxisNotFoundError: `x` has no axis of that name.

    >>> import jax.numpy as jnp, namedax as nx
    >>> x, b = nx.named(jnp.array([0.0, 1000.0]), ["k"]), nx.named(jnp.array([5.0, -2.0]), ["k"])
    >>> value, sign = nx.nn.logsumexp(x, "k", b=b, return_sign=True)
    >>> round(float(value), 3), float(sign)
    (1000.693, -1.0)
    """
    if b is None and not return_sign:
        return REDUCTIONS["logsumexp"](x, axis, keepdims=keepdims, where=where)
    x = as_array(x)
    dtype = inexact_type(x.dtype)
    if b is not None:
        b = as_array(b)
        dtype = inexact_type(jnp.promote_types(x.dtype, b.dtype))
        b = b.astype(dtype)
        x = _where(b != 0, x.astype(dtype), jnp.asarray(-jnp.inf, dtype))
    x = x.astype(dtype)
    low = jnp.asarray(-jnp.inf, jnp.zeros((), dtype).real.dtype)
    positions = tuple(
        dims_of(x)[:i].count(None)
        for i in resolve_axis("logsumexp", x, axis)
        if dims_of(x)[i] is None
    )
    top = nmap(lax.stop_gradient)(_max(_real(x), axis, keepdims=True, where=where, initial=low))
    top = _where(_isfinite(top), top, jnp.zeros((), low.dtype))
    terms = _exp(x - top.astype(dtype))
    total = _sum(terms if b is None else terms * b, axis, keepdims=keepdims, where=where)
    sign = _sign(total)
    is_complex = jnp.issubdtype(dtype, jnp.complexfloating)
    if return_sign or not is_complex:
        total = _abs(total)
    # Over axes of size 1 a sum only drops them.
    result = _log(total) + (top if keepdims or not positions else _sum(top, positions)).astype(
        total.dtype
    )
    if return_sign:
        return result, sign
    return result if is_complex else _where(sign < 0, np.asarray(np.nan, result.dtype), result)


def _weighted(
    name: str, x: Any, q: Any, axis: Any, method: str, keepdims: bool, weights: Any
) -> Any:
    refuse_names(name, q, "a number")
    q = _fractions(name, q)
    if weights is None and method != "inverted_cdf":
        return _QUANTILES[name](x, q, axis, method=method, keepdims=keepdims)
    x, function = as_array(x, name), getattr(jnp, name)
    resolve_axis(name, x, axis)
    entries = () if axis is None else tuple(axis) if isinstance(axis, (tuple, list)) else (axis,)
    names = [entry for entry in entries if not isinstance(entry, (int, np.integer))]
    places = tuple(
        names.index(entry) if entry in names else int(entry) + len(names) * (int(entry) >= 0)
        for entry in entries
    )

    def of_whole(x: Any, weights: Any) -> Any:
        return function(
            x, q, places if entries else None, method=method, keepdims=keepdims, weights=weights
        )

    result = nmap(of_whole)(to_front(x, names, name), to_front(weights, names, name))
    return (
        _drop_positions(result, range(np.ndim(q), np.ndim(q) + len(names))) if keepdims else result
    )


def _fractions(name: str, q: Any) -> Any:
    """`q`, a list as an array.

    What is known of it, numbers of Python and NumPy, is checked: JAX takes the nearest entry for
    what is out of range.
    """
    top = 100 if name.endswith("percentile") else 1
    entries = q if isinstance(q, (list, tuple)) else (q,)
    for entry in entries:
        if isinstance(entry, (int, float, np.ndarray, np.generic)) and np.any(
            (np.less(entry, 0)) | (np.greater(entry, top))
        ):
            other = (
                f" For percent write nx.{name.replace('quantile', 'percentile')}."
                if top == 1
                else ""
            )
            raise ArgumentError(f"{name}: q={format_value(q)} must be from 0 to {top}.{other}")
    return jnp.asarray(q) if entries is q else q


@operation(requires_axis=REDUCED)
def quantile(
    x: Any,
    q: Any,
    axis: Any = None,
    *,
    method: str = "linear",
    keepdims: bool = False,
    weights: Any = None,
) -> AnyArray:
    """Quantiles over positional and named axes together; NaN where one element is NaN.

    Args:
      x: an array, named or not.
      q: a number between 0 and 1, or an array or list of them with one positional axis.
      axis: a position, a name, or a tuple of both; `None` means all positional axes.
      method: between two elements: `"linear"`, `"lower"`, `"higher"`, `"midpoint"`, `"nearest"` or
        `"inverted_cdf"`.
      keepdims: whether reduced positional axes stay, with size 1.
      weights: how much each element counts, named or not: with the positional axes of `x`, or those
        that are reduced. As in JAX they need `method="inverted_cdf"`.

    Returns:
      An array with the remaining axes, and with the axis of `q` in front if it has one. Over a
      sharded name the blocks are sorted as by `sort`, and the axis is never gathered. With
      `weights`, and with `method="inverted_cdf"`, it is: one all-gather of the array, and one of
      the weights.

    Raises:
      AxisNotFoundError: `x` has no axis of that name.
      ArgumentError: `q` is a number of Python or NumPy that is out of range; one that is computed
        gives the nearest entry, as in JAX.

    >>> import jax.numpy as jnp, namedax as nx
    >>> x, w = nx.named(jnp.array([3.0, 1.0, 2.0]), ["k"]), nx.named(jnp.array([4.0, 1.0, 1.0]), ["k"])
    >>> float(nx.quantile(x, 0.5, "k", method="inverted_cdf", weights=w))
    3.0
    """
    return _weighted("quantile", x, q, axis, method, keepdims, weights)


@operation(requires_axis=REDUCED)
def nanquantile(
    x: Any,
    q: Any,
    axis: Any = None,
    *,
    method: str = "linear",
    keepdims: bool = False,
    weights: Any = None,
) -> AnyArray:
    """Quantiles of the elements that are not NaN. Arguments and costs as for `quantile`.

    >>> import jax.numpy as jnp, namedax as nx
    >>> float(nx.nanquantile(nx.named(jnp.array([3.0, jnp.nan, 2.0]), ["k"]), 0.5, "k"))
    2.5
    """
    return _weighted("nanquantile", x, q, axis, method, keepdims, weights)


@operation(requires_axis=REDUCED)
def percentile(
    x: Any,
    q: Any,
    axis: Any = None,
    *,
    method: str = "linear",
    keepdims: bool = False,
    weights: Any = None,
) -> AnyArray:
    """Percentiles over positional and named axes together; NaN where one element is NaN. As `quantile`, with `q` between 0 and 100.

    >>> import jax.numpy as jnp, namedax as nx
    >>> float(nx.percentile(nx.named(jnp.array([3.0, 1.0, 2.0]), ["k"]), 25, "k"))
    1.5
    """
    return _weighted("percentile", x, q, axis, method, keepdims, weights)


@operation(requires_axis=REDUCED)
def nanpercentile(
    x: Any,
    q: Any,
    axis: Any = None,
    *,
    method: str = "linear",
    keepdims: bool = False,
    weights: Any = None,
) -> AnyArray:
    """Percentiles of the elements that are not NaN. As `quantile`, with `q` between 0 and 100.

    >>> import jax.numpy as jnp, namedax as nx
    >>> float(nx.nanpercentile(nx.named(jnp.array([3.0, jnp.nan, 2.0]), ["k"]), 50, "k"))
    2.5
    """
    return _weighted("nanpercentile", x, q, axis, method, keepdims, weights)


def _drop_positions(x: Any, positions: Any) -> Any:
    """`x` without these positional axes of size 1."""
    dims = dims_of(x)
    places = [i for i, dim in enumerate(dims) if dim is None]
    drop = tuple(places[i] for i in positions)
    data = x.data if isinstance(x, NamedArray) else x
    return make_result(
        lax.squeeze(data, drop), tuple(dim for i, dim in enumerate(dims) if i not in drop)
    )


#: Those of `jax.numpy`.
REDUCTION_FORMS: dict[str, Callable[..., Any]] = {
    f.__name__: f
    for f in (var, std, nanvar, nanstd, quantile, nanquantile, percentile, nanpercentile)
}
#: The one of `jax.nn` and `jax.scipy.special`.
LOGSUMEXP: dict[str, Callable[..., Any]] = {"logsumexp": logsumexp}
