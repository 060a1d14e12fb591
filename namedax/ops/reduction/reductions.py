"""Reductions over named and positional axes: a local reduction, and a collective if sharded.

`axis` is an integer (a positional axis), a name, or a tuple of both (or a list, a set, a view of a
dict). `None` selects all positional axes, as in JAX, so that named axes are batch axes; `...`
selects all axes, named and positional. An array without positional axes requires an axis
(`requires_axis`), in `nx.sum` as in `nx.numpy.sum`. The result has the remaining axes. On one
device, reductions call `jnp` directly.

Communication: over sharded axes, one all-reduce of the result's size for sum, mean, max, min, any,
all; two for argmax, argmin, var, std and logsumexp. XLA has no all-reduce for prod, which gathers
one partial product per device. The gradients add none, except for max and min: they count their
ties with one more all-reduce.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from namedax.core.annotations import AnyArray, ArrayLike, AxisSpec
from namedax.core.array import as_array, dims_of
from namedax.core.element_types import (
    accumulates,
    accumulation_type,
    inexact_type,
    to_type,
    widened_type,
)
from namedax.core.names import DType
from namedax.errors import ArgumentError
from namedax.ops.elementwise import FUNCTIONS as _ELEMENTWISE
from namedax.ops.operands.along_axes import along_axes, by_name, checks_axes, entries_of, names_in
from namedax.ops.operands.axes import resolve_axis
from namedax.ops.operands.nmap import nmap
from namedax.ops.operands.operation import REDUCED, Explicit, operation, without_axis_check
from namedax.ops.reduction.computations import (
    reduce_all,
    reduce_any,
    reduce_count_nonzero,
    reduce_logsumexp,
    reduce_mean,
    reduce_prod,
    reduce_std,
    reduce_sum,
    reduce_var,
)
from namedax.ops.reduction.extrema import argmax, argmin, max, min
from namedax.ops.reduction.plan import reduction_plan, run_reduction

__all__ = [
    "LAX_FUNCTIONS",
    "REDUCTIONS",
    "logmeanexp",
    "logsumexp",
    "resolve_ddof",
]

_where, _isfinite, _exp, _log, _abs, _sign, _real, _conj, _sqrt = (
    _ELEMENTWISE[name]
    for name in ("where", "isfinite", "exp", "log", "abs", "sign", "real", "conj", "sqrt")
)


@operation(requires_axis=REDUCED, explicit=Explicit.AS_JAX, cached=True)
def sum(
    x: ArrayLike,
    axis: AxisSpec = None,
    dtype: DType | None = None,
    *,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
    promote_integers: bool = True,
) -> AnyArray:
    """Sum over positional and named axes.

    Args:
      x: an array, named or not.
      axis: a positional axis, an axis name, or a tuple of both; `...` selects all axes, `None`
        (default) all positional ones. Required if every axis is named.
      dtype: the dtype of the result, as in `jnp.sum`; by default `None`.
      keepdims: if `True`, reduced positional axes remain with size 1; by default `False`. Reduced
        named axes are removed.
      initial: the initial value of the sum, by default `None`.
      where: a boolean array, named or not, by default `None`; elements where it is false are
        excluded.
      promote_integers: if `True` (default), narrow integers are summed as `int`, as in `jnp.sum`.

    Returns:
      An array with the remaining axes; a plain `jax.Array` if no named axis remains.

    Communication: over a sharded axis, one all-reduce of the result. The gradient adds none.

    Raises:
      AxisNotFoundError: `x` has no axis of that name.

    >>> import jax.numpy as jnp, namedax as nx
    >>> z = nx.named(jnp.ones((5, 2, 4)), [None, "x", "y"])
    >>> nx.sum(z, axis=(0, "x", "y"))
    Array(40., dtype=float32)
    """
    return run_reduction(
        "sum", reduce_sum, x, axis, keepdims, where, promote_integers, dtype=dtype, initial=initial
    )


@operation(requires_axis=REDUCED, explicit=Explicit.AS_JAX, cached=True)
def mean(
    x: ArrayLike,
    axis: AxisSpec = None,
    dtype: DType | None = None,
    *,
    keepdims: bool = False,
    where: ArrayLike | None = None,
) -> AnyArray:
    """Average over positional and named axes.

    Args:
      x: an array, named or not.
      axis: a positional axis, an axis name, or a tuple of both; `...` selects all axes, `None`
        (default) all positional ones. Required if every axis is named.
      dtype: the dtype of the result, as in `jnp.mean`; by default `None`.
      keepdims: if `True`, reduced positional axes remain with size 1; by default `False`. Reduced
        named axes are removed.
      where: a boolean array, named or not, by default `None`; elements where it is false are
        excluded.

    Returns:
      An array with the remaining axes; a plain `jax.Array` if no named axis remains.

    Communication: over a sharded axis, one all-reduce of the result; with `where`, it also counts
    the elements. The gradient adds none.

    Raises:
      AxisNotFoundError: `x` has no axis of that name.

    >>> import jax.numpy as jnp, namedax as nx
    >>> float(nx.mean(nx.named(jnp.arange(4.0), ["batch"]), "batch"))
    1.5
    """
    return run_reduction("mean", reduce_mean, x, axis, keepdims, where, dtype=dtype)


def resolve_ddof(op: str, ddof: float, correction: float | None) -> float:
    """Return `correction`, the array API's name for `ddof`, or `ddof` if it is `None`.

    Raises:
      ArgumentError: both are given.
    """
    if correction is None:
        return ddof
    if not isinstance(ddof, int) or ddof != 0:
        raise ArgumentError(
            f"{op}: ddof={ddof} and correction={correction} mean the same. Pass one of them."
        )
    return correction


@operation(requires_axis=REDUCED, explicit=Explicit.AS_JAX, cached=True, on_blocks=True)
def var(
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
    """Compute the variance over positional and named axes.

    Args:
      x: an array, named or not.
      axis: a positional axis, an axis name, or a tuple of both; `...` selects all axes, `None`
        (default) all positional ones. Required if every axis is named.
      dtype: the dtype of the result, as in `jnp.var`; by default `None`.
      ddof: the number that is subtracted from the count of elements, by default 0.
      keepdims: if `True`, reduced positional axes remain with size 1; by default `False`.
      where: a boolean array, named or not, by default `None`; elements where it is false are
        excluded.
      mean: the mean, if it is already known, by default `None`: an array that broadcasts with `x`,
        such as `nx.mean(x, axis, keepdims=True)`. Deviations are taken from it, whatever its value.
      correction: the array API's name for `ddof`, by default `None`.

    Returns:
      An array with the remaining axes.

    Communication: over a sharded axis two all-reduces, or one if `mean` is given.

    Raises:
      AxisNotFoundError: `x` has no axis of that name.
      ArgumentError: `ddof` and `correction` are both given.

    >>> import jax.numpy as jnp, namedax as nx
    >>> nx.var(nx.named(jnp.array([1.0, 3.0, 5.0]), ["batch"]), "batch", correction=1)
    Array(4., dtype=float32)
    """
    ddof = resolve_ddof("var", ddof, correction)
    if mean is not None:
        return _mean_square(x, mean, axis, dtype, ddof, keepdims, where)
    return run_reduction("var", reduce_var, x, axis, keepdims, where, ddof, dtype=dtype)


@operation(requires_axis=REDUCED, explicit=Explicit.AS_JAX, cached=True, on_blocks=True)
def std(
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
    """Compute the standard deviation over positional and named axes.

    Args:
      x: an array, named or not.
      axis: a positional axis, an axis name, or a tuple of both; `...` selects all axes, `None`
        (default) all positional ones. Required if every axis is named.
      dtype: the dtype of the result, as in `jnp.std`; by default `None`.
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
    >>> nx.std(nx.named(jnp.array([1.0, 3.0, 5.0]), ["batch"]), "batch", correction=1)
    Array(2., dtype=float32)
    """
    ddof = resolve_ddof("std", ddof, correction)
    if mean is not None:
        return _sqrt(_mean_square(x, mean, axis, dtype, ddof, keepdims, where))
    return run_reduction("std", reduce_std, x, axis, keepdims, where, ddof, dtype=dtype)


def _mean_square(
    x: ArrayLike,
    mean: ArrayLike,
    axis: AxisSpec,
    dtype: DType | None,
    ddof: float,
    keepdims: bool,
    where: ArrayLike | None,
) -> AnyArray:
    """Compute the mean square of the deviations from a known mean."""
    array: AnyArray = as_array(x)
    center: AnyArray = as_array(mean)
    of = inexact_type(array.dtype)
    result = jnp.zeros((), of).real.dtype if dtype is None else jnp.zeros((), dtype).dtype
    wide: Any = of if dtype is None else result
    wide = jnp.float32 if wide in (jnp.float16, jnp.bfloat16) else accumulation_type(wide)
    centred = array.astype(wide) - center.astype(wide)
    squares = _real(centred * _conj(centred))
    total = REDUCTIONS["sum"](squares, axis, keepdims=keepdims, where=where)
    ones = nmap(lambda data: jnp.ones_like(data, squares.dtype))(squares)
    count = REDUCTIONS["sum"](ones, axis, keepdims=keepdims, where=where) - jnp.asarray(
        ddof, squares.dtype
    )
    valid = count > 0
    variance = total / _where(valid, count, jnp.ones((), squares.dtype))
    return _where(valid, variance, np.asarray(np.nan, squares.dtype)).astype(result)


@operation(requires_axis=REDUCED, explicit=Explicit.MAPPED, cached=True, on_blocks=True)
def prod(
    x: ArrayLike,
    axis: AxisSpec = None,
    dtype: DType | None = None,
    *,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
    promote_integers: bool = True,
) -> AnyArray:
    """Multiply over positional and named axes.

    Args:
      x: an array, named or not.
      axis: a positional axis, an axis name, or a tuple of both; `...` selects all axes, `None`
        (default) all positional ones. Required if every axis is named.
      dtype: the dtype of the result, as in `jnp.prod`; by default `None`.
      keepdims: if `True`, reduced positional axes remain with size 1; by default `False`. Reduced
        named axes are removed.
      initial: the initial value of the product, by default `None`.
      where: a boolean array, named or not, by default `None`; elements where it is false are
        excluded.
      promote_integers: if `True` (default), narrow integers are multiplied as `int`, as in
        `jnp.prod`.

    Returns:
      An array with the remaining axes; a plain `jax.Array` if no named axis remains.

    Communication: over a sharded axis, one all-gather of the partial products, one per device,
    because XLA has no all-reduce for products.

    Raises:
      AxisNotFoundError: `x` has no axis of that name.

    >>> import jax.numpy as jnp, namedax as nx
    >>> float(nx.prod(nx.named(jnp.array([2.0, 3.0, 4.0]), ["k"]), "k"))
    24.0
    """
    options: dict[str, Any] = {"dtype": dtype, "initial": initial}
    return run_reduction("prod", reduce_prod, x, axis, keepdims, where, promote_integers, **options)


@operation(requires_axis=REDUCED, explicit=Explicit.AS_JAX, cached=True)
def any(
    x: ArrayLike, axis: AxisSpec = None, *, keepdims: bool = False, where: ArrayLike | None = None
) -> AnyArray:
    """Return True if any element is true, over positional and named axes.

    Args:
      x: an array, named or not.
      axis: a positional axis, an axis name, or a tuple of both; `...` selects all axes, `None`
        (default) all positional ones. Required if every axis is named.
      keepdims: if `True`, reduced positional axes remain with size 1; by default `False`. Reduced
        named axes are removed.
      where: a boolean array, named or not, by default `None`; elements where it is false are
        excluded.

    Returns:
      A boolean array with the remaining axes.

    Communication: over a sharded axis, one all-reduce of the result.

    Raises:
      AxisNotFoundError: `x` has no axis of that name.

    >>> import jax.numpy as jnp, namedax as nx
    >>> nx.any(nx.named(jnp.array([False, True]), ["k"]), "k")
    Array(True, dtype=bool)
    """
    return run_reduction("any", reduce_any, x, axis, keepdims, where)


@operation(requires_axis=REDUCED, explicit=Explicit.AS_JAX, cached=True)
def all(
    x: ArrayLike, axis: AxisSpec = None, *, keepdims: bool = False, where: ArrayLike | None = None
) -> AnyArray:
    """Return True if all elements are true, over positional and named axes.

    Args:
      x: an array, named or not.
      axis: a positional axis, an axis name, or a tuple of both; `...` selects all axes, `None`
        (default) all positional ones. Required if every axis is named.
      keepdims: if `True`, reduced positional axes remain with size 1; by default `False`. Reduced
        named axes are removed.
      where: a boolean array, named or not, by default `None`; elements where it is false are
        excluded.

    Returns:
      A boolean array with the remaining axes.

    Communication: over a sharded axis, one all-reduce of the result.

    Raises:
      AxisNotFoundError: `x` has no axis of that name.

    >>> import jax.numpy as jnp, namedax as nx
    >>> nx.all(nx.named(jnp.array([False, True]), ["k"]), "k")
    Array(False, dtype=bool)
    """
    return run_reduction("all", reduce_all, x, axis, keepdims, where)


@operation(requires_axis=REDUCED, explicit=Explicit.AS_JAX, cached=True)
def count_nonzero(x: ArrayLike, axis: AxisSpec = None, *, keepdims: bool = False) -> AnyArray:
    """Count the nonzero elements over positional and named axes.

    Args:
      x: an array, named or not.
      axis: a positional axis, an axis name, or a tuple of both; `...` selects all axes, `None`
        (default) all positional ones. Required if every axis is named.
      keepdims: if `True`, reduced positional axes remain with size 1; by default `False`. Reduced
        named axes are removed.

    Returns:
      Integers with the remaining axes.

    Communication: over a sharded axis, one all-reduce of the result.

    Raises:
      AxisNotFoundError: `x` has no axis of that name.

    >>> import jax.numpy as jnp, namedax as nx
    >>> int(nx.count_nonzero(nx.named(jnp.array([0, 3, 4]), ["k"]), "k"))
    2
    """
    return run_reduction("count_nonzero", reduce_count_nonzero, x, axis, keepdims, None)


@operation(requires_axis=REDUCED, explicit=Explicit.AS_JAX, cached=True)
def logsumexp(
    x: ArrayLike,
    axis: AxisSpec = None,
    b: ArrayLike | None = None,
    keepdims: bool = False,
    return_sign: bool = False,
    where: ArrayLike | None = None,
) -> AnyArray | tuple[AnyArray, AnyArray]:
    """Compute `log(sum(b * exp(x)))` over positional and named axes, without overflow.

    Args:
      x: an array, named or not.
      axis: a positional axis, an axis name, or a tuple of both; `None` (default) selects all
        positional axes. Required if every axis is named.
      b: factors, named or not, that broadcast with `x`; by default `None`, all 1.
      keepdims: if `True`, reduced positional axes remain with size 1; by default `False`.
      return_sign: if `True`, return the logarithm of the absolute value, and the sign of the sum;
        by default `False`, where the logarithm of a negative sum is NaN.
      where: a boolean array, named or not, by default `None`; elements where it is false are
        excluded.

    Returns:
      An array with the remaining axes; with `return_sign` a pair of such arrays.

    Communication: over sharded axes, two all-reduces.

    Raises:
      AxisNotFoundError: `x` has no axis of that name.

    >>> import jax.numpy as jnp, namedax as nx
    >>> x, b = nx.named(jnp.array([0.0, 1000.0]), ["k"]), nx.named(jnp.array([5.0, -2.0]), ["k"])
    >>> value, sign = nx.nn.logsumexp(x, "k", b=b, return_sign=True)
    >>> round(float(value), 3), float(sign)
    (1000.693, -1.0)
    """
    if b is None and not return_sign:
        return run_reduction("logsumexp", reduce_logsumexp, x, axis, keepdims, where)
    return _weighted_logsumexp(x, axis, b, keepdims, return_sign, where)


@accumulates("x")
def _weighted_logsumexp(
    x: ArrayLike,
    axis: AxisSpec,
    b: ArrayLike | None,
    keepdims: bool,
    return_sign: bool,
    where: ArrayLike | None,
) -> AnyArray | tuple[AnyArray, AnyArray]:
    array: AnyArray = as_array(x)
    dtype = inexact_type(array.dtype)
    factors: AnyArray | None = None
    if b is not None:
        factors = as_array(b)
        factors = to_type(factors, widened_type("logsumexp", factors.dtype))
        dtype = inexact_type(jnp.promote_types(array.dtype, factors.dtype))
        factors = factors.astype(dtype)
        array = _where(factors != 0, array.astype(dtype), jnp.asarray(-jnp.inf, dtype))
    array = array.astype(dtype)
    low = jnp.asarray(-jnp.inf, jnp.zeros((), dtype).real.dtype)
    positions = tuple(
        dims_of(array)[:i].count(None)
        for i in resolve_axis("logsumexp", array, axis)
        if dims_of(array)[i] is None
    )
    largest = REDUCTIONS["max"](_real(array), axis, keepdims=True, where=where, initial=low)
    shift = nmap(lax.stop_gradient)(largest)
    shift = _where(_isfinite(shift), shift, jnp.zeros((), low.dtype))
    terms = _exp(array - shift.astype(dtype))
    total = REDUCTIONS["sum"](
        terms if factors is None else terms * factors, axis, keepdims=keepdims, where=where
    )
    sign = _sign(total)
    is_complex = jnp.issubdtype(dtype, jnp.complexfloating)
    if return_sign or not is_complex:
        total = _abs(total)
    # A sum over axes of size 1 only removes them.
    shift = shift if keepdims or not positions else REDUCTIONS["sum"](shift, positions)
    result = _log(total) + shift.astype(total.dtype)
    if return_sign:
        return result, sign
    return result if is_complex else _where(sign < 0, np.asarray(np.nan, result.dtype), result)


_positional_logmeanexp = along_axes(jax.nn.logmeanexp, "logmeanexp", ("axis",))


@checks_axes
@operation(requires_axis=REDUCED, explicit=Explicit.AS_JAX)
@accumulates("x")
def logmeanexp(
    x: ArrayLike, axis: AxisSpec = None, where: ArrayLike | None = None, keepdims: bool = False
) -> AnyArray:
    """Compute `log(mean(exp(x)))` over positional and named axes, without overflow.

    Args:
      x: an array, named or not.
      axis: the axes, as for `logsumexp`; by default `None`, all positional axes.
      where: a boolean array, named or not, by default `None`; elements where it is false are
        excluded.
      keepdims: if `True`, reduced positional axes remain with size 1; by default `False`.

    Communication: over sharded axes, two all-reduces, and a third one with `where`.

    Raises:
      AxisNotFoundError: `x` lacks a name.

    >>> import jax.numpy as jnp, namedax as nx
    >>> nx.nn.logmeanexp(nx.named(jnp.array([0.0, 0.0, 0.0]), ["k"]), "k")
    Array(0., dtype=float32)
    """
    if axis is not ... and not names_in(axis):
        return _positional_logmeanexp(x, axis, where, keepdims)
    total = REDUCTIONS["logsumexp"](x, axis, where=where, keepdims=keepdims)
    if where is None:
        count = reduction_plan("logmeanexp", x, axis, supports_padding=True).count
        return total - jnp.log(count).astype(total.dtype)
    counted = where + nmap(lambda data: jnp.zeros_like(data, int))(x)
    return total - _log(REDUCTIONS["sum"](counted, axis, keepdims=keepdims).astype(total.dtype))


REDUCTIONS: dict[str, Callable[..., Any]] = {
    f.__name__: without_axis_check(f)
    for f in (
        sum,
        mean,
        var,
        std,
        prod,
        max,
        min,
        any,
        all,
        count_nonzero,
        logsumexp,
        argmax,
        argmin,
    )
}


_GATHERED_BITS = (
    "one all-reduce of the result for booleans; the bits of integers are gathered (one all-gather)"
)
_COMMUNICATION = {
    "reduce_prod": "one all-gather of the products of the blocks",
    "reduce_and": _GATHERED_BITS,
    "reduce_or": _GATHERED_BITS,
}


def _lax_reduction(
    name: str, by_axis_name: Callable[[AnyArray, tuple[Any, ...]], AnyArray]
) -> Callable[..., AnyArray]:
    """Build a reduction of `jax.lax`, which calls `by_axis_name(operand, axes)` for named axes."""
    positional = along_axes(getattr(lax, name), name, ("axes",))

    def reduce(operand: ArrayLike, axes: AxisSpec) -> AnyArray:
        array: AnyArray = as_array(operand, name)
        if not names_in(axes):
            return positional(array, axes)
        return by_axis_name(array, entries_of(axes))

    reduce.__name__ = reduce.__qualname__ = name
    reduce.__doc__ = f"""Apply `jax.lax.{name}` over positional or named axes.

    The dtype is preserved.

    Args:
      operand: an array, named or not.
      axes: a positional axis, an axis name, or a sequence of both.

    Returns:
      An array with the remaining axes.

    Communication: over sharded axes, {_COMMUNICATION.get(name, "one all-reduce of the result")}.

    Raises:
      AxisNotFoundError: `operand` lacks a name.
    """
    return reduce


def _lax_logical(name: str, of_bools: Callable[..., AnyArray]) -> Callable[..., AnyArray]:
    """Build `reduce_and` or `reduce_or`; on integers they combine bits, which are gathered."""
    of_bits = along_axes(getattr(lax, name), name, ("axes",))
    return _lax_reduction(
        name,
        lambda x, axes: of_bools(x, axes) if x.dtype == jnp.bool_ else of_bits(x, axes=axes),
    )


def _lax_arg(name: str) -> Callable[..., AnyArray]:
    positional = along_axes(getattr(lax, name), name, ("axis",))

    def arg(operand: ArrayLike, axis: AxisSpec, index_dtype: DType) -> AnyArray:
        if not names_in(axis):
            return positional(operand, axis, index_dtype)
        return REDUCTIONS[name](operand, axis).astype(index_dtype)

    arg.__name__ = arg.__qualname__ = name
    arg.__doc__ = f"""Apply `jax.lax.{name}` along a positional or named axis.

    Args:
      operand: an array, named or not.
      axis: a positional or named axis.
      index_dtype: the dtype of the indices.

    Returns:
      Integers without the axis.

    Communication: over a sharded axis, two all-reduces of the size of the result.

    Raises:
      AxisNotFoundError: `operand` lacks the name.
    """
    return arg


LAX_FUNCTIONS = by_name(
    _lax_reduction("reduce_sum", lambda x, axes: sum(x, axes, promote_integers=False)),
    _lax_reduction("reduce_prod", lambda x, axes: prod(x, axes, promote_integers=False)),
    _lax_reduction("reduce_max", max),
    _lax_reduction("reduce_min", min),
    _lax_logical("reduce_and", all),
    _lax_logical("reduce_or", any),
    _lax_arg("argmax"),
    _lax_arg("argmin"),
)
