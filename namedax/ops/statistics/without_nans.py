"""Reductions that exclude NaNs (`nansum` and others), with the communication of the reductions."""

from __future__ import annotations

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp

from namedax.core.annotations import AnyArray, ArrayLike, AxisSpec
from namedax.core.array import as_array
from namedax.core.element_types import accumulates, extreme
from namedax.core.names import DType
from namedax.ops.elementwise import FUNCTIONS as _ELEMENTWISE
from namedax.ops.operands.along_axes import along_axes, checks_axes, names_in
from namedax.ops.operands.axes import reject_order_of_storage
from namedax.ops.operands.operation import REDUCED, SEARCHED, Explicit, operation
from namedax.ops.reduction.plan import check_mask
from namedax.ops.reduction.reductions import REDUCTIONS, resolve_ddof
from namedax.ops.shape.inspection import size

__all__ = [
    "nanargmax",
    "nanargmin",
    "nanmax",
    "nanmean",
    "nanmin",
    "nanprod",
    "nanstd",
    "nansum",
    "nanvar",
    "sem",
    "without_nans",
]

_sum, _prod, _mean, _var, _std, _all = (
    REDUCTIONS[name] for name in ("sum", "prod", "mean", "var", "std", "all")
)
_where, _isnan, _sqrt = (_ELEMENTWISE[name] for name in ("where", "isnan", "sqrt"))


def _has_nans(x: AnyArray) -> bool:
    return jnp.issubdtype(x.dtype, jnp.inexact)


@operation(requires_axis=REDUCED, explicit=Explicit.AS_JAX)
@accumulates("x")
def nansum(
    x: ArrayLike,
    axis: AxisSpec = None,
    dtype: DType | None = None,
    *,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> AnyArray:
    """Sum the elements that are not NaN.

    Args:
      x: an array, named or not.
      axis: a positional axis, an axis name, or a tuple of both; `...` selects all axes, `None`
        (default) all positional ones. Required if every axis is named.
      dtype: the dtype of the result, as in `jnp.nansum`; by default `None`.
      keepdims: if `True`, reduced positional axes remain with size 1; by default `False`. Reduced
        named axes are removed.
      initial: the initial value of the sum, by default `None`.
      where: a boolean array, named or not, by default `None`; elements where it is false are
        excluded.

    Returns:
      An array with the remaining axes; a plain `jax.Array` if no named axis remains.

    Communication: as for `nx.sum`.

    Raises:
      AxisNotFoundError: `x` has no axis of that name.

    >>> import jax.numpy as jnp, namedax as nx
    >>> float(nx.nansum(nx.named(jnp.array([1.0, jnp.nan, 3.0]), ["k"]), "k"))
    4.0
    """
    x = as_array(x)
    return _sum(
        _where(_isnan(x), 0, x) if _has_nans(x) else x,
        axis,
        dtype,
        keepdims=keepdims,
        initial=initial,
        where=where,
    )


@operation(requires_axis=REDUCED, explicit=Explicit.MAPPED, on_blocks=True)
@accumulates("x")
def nanprod(
    x: ArrayLike,
    axis: AxisSpec = None,
    dtype: DType | None = None,
    *,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> AnyArray:
    """Multiply the elements that are not NaN.

    Args:
      x: an array, named or not.
      axis: a positional axis, an axis name, or a tuple of both; `...` selects all axes, `None`
        (default) all positional ones. Required if every axis is named.
      dtype: the dtype of the result, as in `jnp.nanprod`; by default `None`.
      keepdims: if `True`, reduced positional axes remain with size 1; by default `False`. Reduced
        named axes are removed.
      initial: the initial value of the product, by default `None`.
      where: a boolean array, named or not, by default `None`; elements where it is false are
        excluded.

    Returns:
      An array with the remaining axes; a plain `jax.Array` if no named axis remains.

    Communication: as for `nx.prod`.

    Raises:
      AxisNotFoundError: `x` has no axis of that name.

    >>> import jax.numpy as jnp, namedax as nx
    >>> float(nx.nanprod(nx.named(jnp.array([2.0, jnp.nan, 3.0]), ["k"]), "k"))
    6.0
    """
    x = as_array(x)
    return _prod(
        _where(_isnan(x), 1, x) if _has_nans(x) else x,
        axis,
        dtype,
        keepdims=keepdims,
        initial=initial,
        where=where,
    )


def without_nans(op: str, x: AnyArray, where: ArrayLike | None) -> tuple[AnyArray, AnyArray]:
    """Replace NaNs in `x` by zeros, and return the mask of valid elements too.

    No derivative then involves a NaN.
    """
    missing = _isnan(x)
    present = _ELEMENTWISE["logical_not"](missing)
    if where is not None:
        where = as_array(where)
        check_mask(op, x, where)
        present = _ELEMENTWISE["logical_and"](
            present, where if where.dtype == jnp.bool_ else where != 0
        )
    return _where(missing, 0, x), present


@operation(requires_axis=REDUCED, explicit=Explicit.AS_JAX)
@accumulates("x")
def nanmean(
    x: ArrayLike,
    axis: AxisSpec = None,
    dtype: DType | None = None,
    *,
    keepdims: bool = False,
    where: ArrayLike | None = None,
) -> AnyArray:
    """Average the elements that are not NaN (NaN if there are none).

    Args:
      x: an array, named or not.
      axis: a positional axis, an axis name, or a tuple of both; `...` selects all axes, `None`
        (default) all positional ones. Required if every axis is named.
      dtype: the dtype of the result, as in `jnp.nanmean`; by default `None`.
      keepdims: if `True`, reduced positional axes remain with size 1; by default `False`. Reduced
        named axes are removed.
      where: a boolean array, named or not, by default `None`; elements where it is false are
        excluded.

    Returns:
      An array with the remaining axes; a plain `jax.Array` if no named axis remains.

    Communication: as for `nx.mean` with `where`.

    Raises:
      AxisNotFoundError: `x` has no axis of that name.

    >>> import jax.numpy as jnp, namedax as nx
    >>> float(nx.nanmean(nx.named(jnp.array([1.0, jnp.nan, 3.0]), ["k"]), "k"))
    2.0
    """
    x = as_array(x)
    if _has_nans(x):
        x, where = without_nans("nanmean", x, where)
    return _mean(x, axis, dtype, keepdims=keepdims, where=where)


@accumulates("x")
def _nanvar(
    x: ArrayLike,
    axis: AxisSpec,
    dtype: DType | None,
    ddof: float,
    keepdims: bool,
    where: ArrayLike | None,
    mean: ArrayLike | None,
) -> AnyArray:
    x = as_array(x)
    if _has_nans(x):
        x, where = without_nans("nanvar", x, where)
    return _var(x, axis, dtype, ddof=ddof, keepdims=keepdims, where=where, mean=mean)


@operation(requires_axis=REDUCED, explicit=Explicit.AS_JAX, on_blocks=True)
def nanvar(
    x: ArrayLike,
    axis: AxisSpec = None,
    dtype: DType | None = None,
    *,
    ddof: float = 0,
    keepdims: bool = False,
    where: ArrayLike | None = None,
    mean: ArrayLike | None = None,
    correction: float | None = None,
) -> AnyArray:
    """Compute the variance of the elements that are not NaN (NaN if there are none).

    Args:
      x: an array, named or not.
      axis: a positional axis, an axis name, or a tuple of both; `...` selects all axes, `None`
        (default) all positional ones. Required if every axis is named.
      dtype: the dtype of the result, as in `jnp.nanvar`; by default `None`.
      ddof: the number that is subtracted from the count of elements, by default 0.
      keepdims: if `True`, reduced positional axes remain with size 1; by default `False`. Reduced
        named axes are removed.
      where: a boolean array, named or not, by default `None`; elements where it is false are
        excluded.
      mean: the mean, if it is already known, by default `None`; as for `nx.var`.
      correction: the array API's name for `ddof`, by default `None`.

    Returns:
      An array with the remaining axes; a plain `jax.Array` if no named axis remains.

    Communication: as for `nx.var`.

    Raises:
      AxisNotFoundError: `x` has no axis of that name.
      ArgumentError: `ddof` and `correction` are both given.

    >>> import jax.numpy as jnp, namedax as nx
    >>> nx.nanvar(nx.named(jnp.array([1.0, jnp.nan, 3.0, 5.0]), ["batch"]), "batch", correction=1)
    Array(4., dtype=float32)
    """
    ddof = resolve_ddof("nanvar", ddof, correction)
    return _nanvar(x, axis, dtype, ddof, keepdims, where, mean)


@operation(requires_axis=REDUCED, explicit=Explicit.AS_JAX, on_blocks=True)
@accumulates("x")
def nanstd(
    x: ArrayLike,
    axis: AxisSpec = None,
    dtype: DType | None = None,
    *,
    ddof: float = 0,
    keepdims: bool = False,
    where: ArrayLike | None = None,
    mean: ArrayLike | None = None,
    correction: float | None = None,
) -> AnyArray:
    """Compute the standard deviation of the elements that are not NaN (NaN if there are none).

    Args:
      x: an array, named or not.
      axis: a positional axis, an axis name, or a tuple of both; `...` selects all axes, `None`
        (default) all positional ones. Required if every axis is named.
      dtype: the dtype of the result, as in `jnp.nanstd`; by default `None`.
      ddof: the number that is subtracted from the count of elements, by default 0.
      keepdims: if `True`, reduced positional axes remain with size 1; by default `False`. Reduced
        named axes are removed.
      where: a boolean array, named or not, by default `None`; elements where it is false are
        excluded.
      mean: the mean, if it is already known, by default `None`; as for `nx.var`.
      correction: the array API's name for `ddof`, by default `None`.

    Returns:
      An array with the remaining axes; a plain `jax.Array` if no named axis remains.

    Communication: as for `nx.var`.

    Raises:
      AxisNotFoundError: `x` has no axis of that name.
      ArgumentError: `ddof` and `correction` are both given.

    >>> import jax.numpy as jnp, namedax as nx
    >>> nx.nanstd(nx.named(jnp.array([1.0, jnp.nan, 3.0, 5.0]), ["batch"]), "batch", correction=1)
    Array(2., dtype=float32)
    """
    ddof = resolve_ddof("nanstd", ddof, correction)
    return _sqrt(_nanvar(x, axis, dtype, ddof, keepdims, where, mean))


@accumulates("x")
def _nan_extremum(
    name: str,
    x: ArrayLike,
    axis: AxisSpec,
    keepdims: bool,
    initial: ArrayLike | None,
    where: ArrayLike | None,
) -> AnyArray:
    x = as_array(x)
    reduce = REDUCTIONS[name]
    if not _has_nans(x):
        return reduce(x, axis, keepdims=keepdims, initial=initial, where=where)
    missing = _isnan(x)
    found = reduce(
        _where(missing, extreme(x.dtype, name == "max"), x),
        axis,
        keepdims=keepdims,
        initial=initial,
        where=where,
    )
    if initial is not None:  # it takes part, so there is always a valid element
        return found
    return _where(_all(missing, axis, keepdims=keepdims, where=where), jnp.nan, found)


@operation(requires_axis=REDUCED, explicit=Explicit.AS_JAX, on_blocks=True)
def nanmax(
    x: ArrayLike,
    axis: AxisSpec = None,
    *,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> AnyArray:
    """Take the maximum of the elements that are not NaN, or NaN if there are none.

    Args:
      x: an array, named or not.
      axis: a positional axis, an axis name, or a tuple of both; `...` selects all axes, `None`
        (default) all positional ones. Required if every axis is named.
      keepdims: if `True`, reduced positional axes remain with size 1; by default `False`. Reduced
        named axes are removed.
      initial: a scalar that takes part in the maximum, by default `None`; required with `where`.
      where: a boolean array, named or not, by default `None`; elements where it is false are
        excluded.

    Returns:
      An array with the remaining axes; a plain `jax.Array` if no named axis remains.

    Communication: over a sharded axis, one all-reduce for the maximum, and one to check for
    elements that are not NaN.

    Raises:
      AxisNotFoundError: `x` has no axis of that name.

    >>> import jax.numpy as jnp, namedax as nx
    >>> float(nx.nanmax(nx.named(jnp.array([1.0, jnp.nan, 3.0]), ["k"]), "k"))
    3.0
    """
    return _nan_extremum("max", x, axis, keepdims, initial, where)


@operation(requires_axis=REDUCED, explicit=Explicit.AS_JAX, on_blocks=True)
def nanmin(
    x: ArrayLike,
    axis: AxisSpec = None,
    *,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> AnyArray:
    """Take the minimum of the elements that are not NaN, or NaN if there are none.

    Args:
      x: an array, named or not.
      axis: a positional axis, an axis name, or a tuple of both; `...` selects all axes, `None`
        (default) all positional ones. Required if every axis is named.
      keepdims: if `True`, reduced positional axes remain with size 1; by default `False`. Reduced
        named axes are removed.
      initial: a scalar that takes part in the minimum, by default `None`; required with `where`.
      where: a boolean array, named or not, by default `None`; elements where it is false are
        excluded.

    Returns:
      An array with the remaining axes; a plain `jax.Array` if no named axis remains.

    Communication: as for `nx.nanmax`.

    Raises:
      AxisNotFoundError: `x` has no axis of that name.

    >>> import jax.numpy as jnp, namedax as nx
    >>> float(nx.nanmin(nx.named(jnp.array([1.0, jnp.nan, 3.0]), ["k"]), "k"))
    1.0
    """
    return _nan_extremum("min", x, axis, keepdims, initial, where)


@accumulates("x")
def _nan_arg(name: str, x: ArrayLike, axis: AxisSpec, keepdims: bool) -> AnyArray:
    x = as_array(x)
    reject_order_of_storage(f"nan{name}", x, axis)
    reduce = REDUCTIONS[name]
    if not _has_nans(x):
        return reduce(x, axis, keepdims=keepdims)
    missing = _isnan(x)
    index = reduce(_where(missing, extreme(x.dtype, name == "argmax"), x), axis, keepdims=keepdims)
    return _where(_all(missing, axis, keepdims=keepdims), -1, index)


@operation(requires_axis=SEARCHED, explicit=Explicit.KEPT, on_blocks=True)
def nanargmax(x: ArrayLike, axis: AxisSpec = None, *, keepdims: bool = False) -> AnyArray:
    """Return the index of the first maximum without NaNs, or -1 if there is none.

    Args:
      x: an array, named or not.
      axis: a positional or named axis; `None` (default) flattens the positional axes. Along several
        axes, a tuple, the index is row-major in the given order. `...` must stand for a single
        axis, since named axes have no order. Required if every axis is named.
      keepdims: if `True`, reduced positional axes remain with size 1; by default `False`. Reduced
        named axes are removed.

    Returns:
      Integers with the remaining axes.

    Communication: as for `nx.argmax`.

    Raises:
      AxisNotFoundError: `x` has no axis of that name.

    >>> import jax.numpy as jnp, namedax as nx
    >>> int(nx.nanargmax(nx.named(jnp.array([1.0, jnp.nan, 3.0]), ["k"]), "k"))
    2
    """
    return _nan_arg("argmax", x, axis, keepdims)


@operation(requires_axis=SEARCHED, explicit=Explicit.KEPT, on_blocks=True)
def nanargmin(x: ArrayLike, axis: AxisSpec = None, *, keepdims: bool = False) -> AnyArray:
    """Return the index of the first minimum without NaNs, or -1 if there is none.

    Args:
      x: an array, named or not.
      axis: a positional or named axis; `None` (default) flattens the positional axes. Along several
        axes, a tuple, the index is row-major in the given order. `...` must stand for a single
        axis, since named axes have no order. Required if every axis is named.
      keepdims: if `True`, reduced positional axes remain with size 1; by default `False`. Reduced
        named axes are removed.

    Returns:
      Integers with the remaining axes.

    Communication: as for `nx.argmax`.

    Raises:
      AxisNotFoundError: `x` has no axis of that name.

    >>> import jax.numpy as jnp, namedax as nx
    >>> int(nx.nanargmin(nx.named(jnp.array([1.0, jnp.nan, 3.0]), ["k"]), "k"))
    0
    """
    return _nan_arg("argmin", x, axis, keepdims)


@functools.cache
def _positional_sem() -> Callable[..., AnyArray]:
    return along_axes(jax.scipy.stats.sem, "sem", ("axis",))  # JAX imports jax.scipy.stats lazily


@checks_axes
@accumulates("a")
def sem(
    a: ArrayLike,
    axis: AxisSpec = 0,
    ddof: int = 1,
    nan_policy: str = "propagate",
    *,
    keepdims: bool = False,
) -> AnyArray:
    """Compute the standard error of the mean, `std / sqrt(count)`, over positional or named axes.

    Args:
      a: an array, named or not.
      axis: a positional axis, an axis name, or a tuple of both; by default 0.
      ddof: the number that is subtracted from the count of elements, by default 1.
      nan_policy: `"propagate"` (default), or `"omit"` to exclude NaNs.
      keepdims: if `True`, reduced positional axes remain with size 1; by default `False`.

    Communication: over sharded axes that of `nx.std`; with `nan_policy="omit"` that of `nx.nanstd`,
    and one all-reduce of the count.

    Raises:
      AxisNotFoundError: `a` lacks a name.

    >>> import jax.numpy as jnp, namedax as nx
    >>> print(f"{nx.scipy.stats.sem(nx.named(jnp.array([2.0, 4.0, 1.0, 5.0]), ['k']), 'k'):.3f}")
    0.913
    """
    if not names_in(axis) or nan_policy not in ("propagate", "omit"):
        return _positional_sem()(a, axis, ddof, nan_policy, keepdims=keepdims)
    if nan_policy == "propagate":
        spread = _std(a, axis, ddof=ddof, keepdims=keepdims)
        return spread / jnp.sqrt(size(a, axis)).astype(spread.dtype)
    spread = _sqrt(_nanvar(a, axis, None, ddof, keepdims, None, None))
    count = _sum(~_isnan(a), axis, keepdims=keepdims)
    return spread / _sqrt(count.astype(spread.dtype))
