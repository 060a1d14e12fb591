"""Covariances and correlations over named axes: `cov` and `corrcoef`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp

from namedax.core.annotations import AnyArray, ArrayLike, AxisSpec
from namedax.core.array import NamedArray
from namedax.core.display import type_text
from namedax.core.element_types import accumulates, inexact_type
from namedax.core.names import AxisName, DType, is_name
from namedax.core.region import ambient
from namedax.errors import (
    ArgumentError,
    ArgumentTypeError,
    AxisNameError,
    PositionalAxisError,
    format_value,
    raise_not_found,
    show_names,
)
from namedax.ops.contraction.einsum import dot
from namedax.ops.elementwise import FUNCTIONS as _ELEMENTWISE
from namedax.ops.operands.along_axes import entries_of
from namedax.ops.operands.broadcasting import to_local
from namedax.ops.operands.nmap import Lifted
from namedax.ops.operands.operation import operation
from namedax.ops.operands.pytree import names_of
from namedax.ops.reduction.reductions import REDUCTIONS
from namedax.ops.shape.conversion import named, untag
from namedax.ops.shape.rename import rename

__all__ = ["corrcoef", "cov"]

_sum = REDUCTIONS["sum"]


class _Variable:
    """A temporary name for the positional axis of the variables."""

    def __repr__(self) -> str:
        return "the positional axis"


@operation(scope=True)
@accumulates("m")
def cov(
    m: ArrayLike,
    y: ArrayLike | None = None,
    rowvar: bool = True,
    bias: bool = False,
    ddof: int | None = None,
    fweights: ArrayLike | None = None,
    aweights: ArrayLike | None = None,
    dtype: DType | None = None,
    *,
    axis: AxisSpec = None,
    variables: Sequence[AxisName] | None = None,
) -> AnyArray:
    """Compute the covariances of variables over observations.

    Args:
      m: an array, named or not.
      y: without `axis`, as in `jnp.cov`; by default `None`.
      rowvar: without `axis`, as in `jnp.cov`; by default `True`.
      bias: if `True`, divide by the number of observations `n` instead of `n - 1`; by default
        `False`.
      ddof: the number subtracted from `n`; by default 1, or 0 with `bias`.
      fweights: the number of repetitions of each observation: integers along `axis`; by default 1.
      aweights: the weight of each observation: floats along `axis`; by default 1.
      dtype: the dtype of the result, by default as in `jnp.cov`.
      axis: the axis name of the observations, or a tuple of names. Without it this is `jnp.cov` of
        the positional axes, and named axes are batch axes. By default `None`.
      variables: with `axis`, the name of the variables and the name for the other side: `("k",
        "k2")`. By default the one positional axis of `m`; if it has none, `m` is one variable. All
        other named axes are batch axes.

    Returns:
      The covariances, with `variables` in place of their name, or two positional axes.

    Communication: over sharded observations, one all-reduce for the means, and one for the
    covariances. Sharded variables are gathered once, for the other side.

    Raises:
      AxisNotFoundError: `m` lacks an axis.
      AxisNameError: `variables` is not a pair of different names.
      PositionalAxisError: `m` has several positional axes, or has one in addition to `variables`;
        or, without `axis`, `m` has named axes only.
      ArgumentTypeError: `y` is an axis name.

    >>> import jax.numpy as jnp, namedax as nx
    >>> x = nx.named(jnp.array([[1.0, 2.0], [3.0, 1.0], [5.0, 6.0]]), ["n", "k"])
    >>> nx.positional(nx.cov(x, axis="n", variables=("k", "k2")), ["k", "k2"])
    Array([[4., 4.],
           [4., 7.]], dtype=float32)
    """
    if axis is None:
        _require_axis("cov", variables, "variables")
        _reject_names_alone("cov", m, y)
        return Lifted(
            lambda m, y, f, a: jnp.cov(
                m, y, rowvar=rowvar, bias=bias, ddof=ddof, fweights=f, aweights=a, dtype=dtype
            ),
            "cov",
        )(m, y, fweights, aweights)
    _reject_second("cov", m, y, axis)
    if ddof is not None and int(ddof) != ddof:
        raise ArgumentError(f"cov: ddof={format_value(ddof)} must be an integer.")
    result, _, place = _covariances(
        "cov",
        m,
        axis,
        variables,
        int(not bias) if ddof is None else int(ddof),
        fweights,
        aweights,
        dtype,
    )
    return place(result)


@operation(scope=True)
@accumulates("x")
def corrcoef(
    x: ArrayLike,
    y: ArrayLike | None = None,
    rowvar: bool = True,
    dtype: DType | None = None,
    *,
    axis: AxisSpec = None,
    variables: Sequence[AxisName] | None = None,
) -> AnyArray:
    """Compute correlation coefficients of variables over observations.

    They are covariances over the roots of both variances.

    See `nx.cov`.

    Args:
      x: an array, named or not.
      y: without `axis`, as in `jnp.corrcoef`; by default `None`.
      rowvar: without `axis`, as in `jnp.corrcoef`; by default `True`.
      dtype: the dtype of the result, by default as in `jnp.corrcoef`.
      axis: the observations, as in `nx.cov`; by default `None`.
      variables: as in `nx.cov`, by default `None`; required if `x` has no positional axis.

    Returns:
      The coefficients, with the axes of `nx.cov`.

    Communication: as for `nx.cov`, and one all-reduce for the variances.

    Raises:
      PositionalAxisError: `x` has no positional axis but named axes in addition to the
        observations, and `variables` is missing: each variable would be correlated with itself
        only.

    >>> import jax.numpy as jnp, namedax as nx
    >>> x = nx.named(jnp.array([[1.0, 2.0], [3.0, 6.0], [5.0, 10.0]]), ["n", "k"])
    >>> nx.positional(nx.corrcoef(x, axis="n", variables=("k", "k2")), ["k", "k2"]).round(3)
    Array([[1., 1.],
           [1., 1.]], dtype=float32)
    """
    if axis is None:
        _require_axis("corrcoef", variables, "variables")
        _reject_names_alone("corrcoef", x, y)
        return Lifted(lambda x, y: jnp.corrcoef(x, y, rowvar, dtype), "corrcoef")(x, y)
    _reject_second("corrcoef", x, y, axis)
    _reject_one_variable(x, axis, variables)
    result, (left, right), place = _covariances(
        "corrcoef", x, axis, variables, 1, None, None, dtype
    )
    result = result / (_ELEMENTWISE["sqrt"](left) * _ELEMENTWISE["sqrt"](right))
    if not jnp.issubdtype(result.dtype, jnp.complexfloating):
        result = _ELEMENTWISE["clip"](result, -1.0, 1.0)
    return place(result)


def _require_axis(op: str, value: object, what: str) -> None:
    if value is not None:
        raise ArgumentError(
            f"{op}: {what}={format_value(value)} requires axis=, the name of the observations. Pass"
            " both."
        )


def _reject_names_alone(op: str, x: ArrayLike, y: object) -> None:
    """Raise if the form without axis= does not fit.

    An array may lack a positional axis, or the second argument may be a name and not an array.
    """
    names = names_of(x.dims) if isinstance(x, NamedArray) and x.ndim == 0 else ()
    entries = y if isinstance(y, (tuple, list)) else (y,)
    if any(isinstance(entry, str) for entry in entries):
        left = [name for name in names if name not in entries]
        pair = f", variables=({left[0]!r}, 'other')" if left else ""
        raise ArgumentTypeError(
            f"{op}: y={format_value(y)} is not an array; the second argument is an array of more"
            f" variables. Pass the name of the observations by keyword: nx.{op}(x,"
            f" axis={format_value(y)}{pair})."
        )
    if names and y is not None:
        raise PositionalAxisError(
            f"{op}: {type_text(x)} has no positional axis, but two arrays must be variables over"
            f" positional observations. {_of_both(op, x, names)}"
        )
    if names:
        pair = f", variables=({names[0]!r}, 'other')" if len(names) > 1 else ""
        raise PositionalAxisError(
            f"{op}: {type_text(x)} has no positional axis, but without axis= the variables and"
            f" observations are positional axes. Choose from {show_names(names)}: pass the"
            f" observations as axis= and the variables as variables=, as in nx.{op}(x,"
            f" axis={names[-1]!r}{pair})."
        )


def _of_both(op: str, x: ArrayLike, axes: Sequence[AxisName]) -> str:
    """Return code for two arrays that are one variable each."""
    if not isinstance(x, NamedArray) or len(names_of(x.dims)) != len(axes) or x.ndim:
        return "Join the variables of both arrays first, nx.concatenate."
    axis = show_names(axes[:1]) if len(axes) == 1 else format_value(tuple(axes))
    new = [name for name in ("variable", "variable2", "side", "side2") if name not in axes][:2]
    return (
        f"Stack both, nx.{op}(nx.stack([x, y], {format_value(new[0])}), axis={axis},"
        f" variables=({show_names(new)}))."
    )


def _reject_second(op: str, x: ArrayLike, y: object, axis: AxisSpec) -> None:
    if y is not None:
        axes = entries_of(axis)
        raise ArgumentError(f"{op}: y= is only for the form without axis=. {_of_both(op, x, axes)}")


def _reject_one_variable(
    x: ArrayLike, axis: AxisSpec, variables: Sequence[AxisName] | None
) -> None:
    """Raise if each result would be the correlation of a variable with itself, always 1."""
    if variables is not None or not isinstance(x, NamedArray) or x.ndim:
        return
    axes = entries_of(axis)
    left = [name for name in names_of(x.dims) if name not in axes]
    if left and all(name in x.dims for name in axes):
        raise PositionalAxisError(
            f"corrcoef: {type_text(x)} has no positional axis, and without variables= each of its"
            " variables is correlated with itself only, which is always 1. Pass the variables,"
            f" chosen from {show_names(left)}, as in nx.corrcoef(x, axis={format_value(axis)},"
            f" variables=({format_value(left[0])}, 'other'))."
        )


def _pair(
    op: str, x: NamedArray, axes: tuple[AxisName, ...], variables: Sequence[AxisName] | None
) -> tuple[NamedArray, AxisName, AxisName]:
    """Return the array with its variables under a name, that name, and the name of the other side.

    Both names are `None` if there is one variable.
    """
    if variables is not None:
        good = (
            isinstance(variables, (tuple, list))
            and len(variables) == 2
            and all(map(is_name, variables))
        )
        if (
            not good
            or variables[0] == variables[1]
            or variables[1] in x.dims
            or variables[0] in axes
        ):
            raise AxisNameError(
                f"{op}: variables={format_value(variables)} must be the name of the variables of"
                f" {type_text(x)} and a new name for the other side, such as ('k', 'k2')."
            )
        if variables[0] not in x.dims:
            raise_not_found(op, variables[0], type_text(x), names_of(x.dims))
    if x.ndim > (variables is None):
        raise PositionalAxisError(
            f"{op}: {type_text(x)} has {x.ndim} positional"
            f" axes{' in addition to variables' if variables is not None else ''}; the variables"
            " are one axis. Name the others, which are batch axes."
        )
    if variables is not None:
        return x, variables[0], variables[1]
    if x.ndim == 0:
        return x, None, None
    left, right = _Variable(), _Variable()
    return named(x, [left]), left, right


def _covariances(
    op: str,
    m: ArrayLike,
    axis: AxisSpec,
    variables: Sequence[AxisName] | None,
    ddof: int,
    fweights: ArrayLike | None,
    aweights: ArrayLike | None,
    dtype: DType | None,
) -> tuple[AnyArray, tuple[AnyArray, AnyArray], Callable[[AnyArray], AnyArray]]:
    """Return the covariances, the variances of both sides, and a function of a result.

    The function restores the axes.
    """
    block = to_local(m, op, ambient())
    axes = entries_of(axis)
    if not isinstance(block, NamedArray):
        raise_not_found(op, axes[0], type_text(block), ())
    for name in axes:
        if not is_name(name) or name not in block.dims:
            raise_not_found(op, name, type_text(block), names_of(block.dims))
    x = block.astype(inexact_type(block.dtype) if dtype is None else dtype)
    x, left, right = _pair(op, x, axes, variables)
    region = ambient()
    count = math.prod(
        x.named_shape[name]
        if region is None
        else region.global_size(name, x._data.shape[x._dims.index(name)])
        for name in axes
    )
    weights = fweights
    if aweights is not None:
        weights = aweights if weights is None else _ELEMENTWISE["multiply"](weights, aweights)
    if weights is None:
        total: Any = count
        divisor: Any = count - ddof
        mean = REDUCTIONS["mean"](x, axes)
    else:
        total = _sum(weights, axes)
        mean = _sum(_ELEMENTWISE["multiply"](x, weights), axes) / total
        divisor = (
            total - ddof
            if aweights is None
            else total - ddof * _sum(weights * aweights, axes) / total
        )
    centred = _ELEMENTWISE["subtract"](x, mean)
    weighted = centred if weights is None else _ELEMENTWISE["multiply"](centred, weights)
    other = _ELEMENTWISE["conj"](centred)
    variance = _ELEMENTWISE["real"](_sum(_ELEMENTWISE["multiply"](weighted, other), axes)) / divisor
    if left is None:
        return variance, (variance, variance), lambda result: result
    result = dot(weighted, rename(other, {left: right}), axes) / divisor
    sides = (variance, rename(variance, {left: right}))
    return (
        result,
        sides,
        (
            (lambda result: untag(result, [left, right]))
            if variables is None
            else (lambda result: result)
        ),
    )
