"""Calculus along one axis: trapezoid sums, finite differences, unwrapped phases, trends.

Along a sharded axis none of them gathers the axis: sums are reduced, and a difference sends the row
at the boundary of two blocks. Along positional axes they are JAX's own functions, lifted over
names.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy as jsp
import numpy as np

from namedax.core.annotations import AnyArray, ArrayLike, AxisSpec, LikeArguments
from namedax.core.array import NamedArray, as_array
from namedax.core.display import type_text
from namedax.core.element_types import inexact_type
from namedax.errors import ArgumentError, AxisSizeError, format_value
from namedax.ops.elementwise import apply_elementwise
from namedax.ops.operands.along_axes import along_axes
from namedax.ops.operands.axes import is_axis_name, resolve_axis
from namedax.ops.operands.operation import MOVED, Explicit, operation
from namedax.ops.reduction.cumulative import cumsum
from namedax.ops.reduction.reductions import REDUCTIONS
from namedax.ops.shape.conversion import named
from namedax.ops.shape.creation import arange
from namedax.ops.shape.inspection import size
from namedax.ops.window.neighbours import shift

__all__ = ["CALCULUS", "detrend", "gradient", "trapezoid", "unwrap"]

_sum, _mean = REDUCTIONS["sum"], REDUCTIONS["mean"]
_trapezoid = along_axes(jnp.trapezoid, "trapezoid", ("axis",))
_gradient = along_axes(jnp.gradient, "gradient", ("axis",))
_unwrap = along_axes(jnp.unwrap, "unwrap", ("axis",))


@functools.cache
def _detrend() -> Callable[..., Any]:
    return along_axes(
        jsp.signal.detrend, "detrend", ("axis",)
    )  # JAX loads this module on first use


def _one_name(axis: AxisSpec) -> Hashable:
    """Return the name of an axis argument, or `None` for a positional axis."""
    entry: Any = axis[0] if isinstance(axis, (tuple, list)) and len(axis) == 1 else axis
    return entry if is_axis_name(entry) else None


def _inexact(op: str, x: ArrayLike, axis: Hashable) -> AnyArray:
    """Convert `x`, which must have the axis, to floating-point numbers."""
    resolve_axis(op, x, axis)
    array: AnyArray = as_array(x, op)
    dtype = inexact_type(array.dtype)
    return array if array.dtype == dtype else array.astype(dtype)


def _along(op: str, points: ArrayLike, x: AnyArray, axis: Hashable) -> AnyArray:
    """Return coordinates along `axis` as an array with the axis.

    A plain array must have one element for each element along the axis.
    """
    if isinstance(points, NamedArray):
        return points
    points = jnp.asarray(points)
    n = size(x, axis)
    if points.shape != (n,):
        raise AxisSizeError(
            f"{op}: the coordinates have the shape {points.shape}, but axis {format_value(axis)} of"
            f" {type_text(x)} has size {n}. Pass an array with the axis {format_value(axis)}, or"
            f" one of the shape ({n},)."
        )
    return named(points, [axis])


def _where_at(
    x: AnyArray, axis: Hashable, rows: Sequence[int], then: ArrayLike, otherwise: ArrayLike
) -> AnyArray:
    """Select `then` at these rows of the axis, and `otherwise` elsewhere."""
    index = arange(size(x, axis), axis=axis)

    def choose(i: jax.Array, a: jax.Array, b: jax.Array) -> jax.Array:
        hit = i == rows[0]
        for row in rows[1:]:
            hit = hit | (i == row)
        return jnp.where(hit, a, b)

    return apply_elementwise("where", choose, index, then, otherwise)


@operation(explicit=Explicit.AS_JAX, scope=True)
def trapezoid(
    y: ArrayLike, x: ArrayLike | None = None, dx: ArrayLike = 1.0, axis: AxisSpec = -1
) -> AnyArray:
    """Integrate along one axis by the trapezoid rule.

    Args:
      y: values, named or not.
      x: the coordinates of the values: an array with the axis, or a plain one with one element for
        each of its elements. By default the spacing is `dx`.
      dx: the distance between two values, by default 1.0.
      axis: a positional or named axis, by default -1.

    Communication: over a sharded axis, one all-reduce of the result. With `x`, also the row at the
    boundary of two blocks, for both `x` and `y`.

    Raises:
      AxisNotFoundError: `y` lacks the axis.
      AxisSizeError: `x` has a different size.

    >>> import jax.numpy as jnp, namedax as nx
    >>> nx.numpy.trapezoid(nx.named(jnp.array([1.0, 2.0, 6.0]), ["t"]), axis="t")
    Array(5.5, dtype=float32)
    """
    name = _one_name(axis)
    if name is None:
        return _trapezoid(y, x, dx, axis)
    y = _inexact("trapezoid", y, name)
    n = size(y, name)
    if x is None:
        halved = _where_at(y, name, (0, n - 1), y * 0.5, y) if n > 1 else y * 0
        return _sum(halved, name) * dx
    x = _along("trapezoid", x, y, name)
    areas = (shift(x, -1, name) - x) * (shift(y, -1, name) + y)
    return 0.5 * _sum(_where_at(y, name, (n - 1,), 0.0, areas), name)


@operation(requires_axis=MOVED, scope=True)
def gradient(
    f: ArrayLike, *varargs: ArrayLike, axis: AxisSpec = None, edge_order: int | None = None
) -> AnyArray | list[AnyArray]:
    """Compute central differences along axes, one-sided at both ends: `jnp.gradient`.

    Args:
      f: values, named or not.
      *varargs: the distance between two values, for all axes or for each, by default 1. Or
        coordinates along the axis, an array that has it or a plain one.
      axis: a positional axis, an axis name, or a tuple of both; by default all positional axes.
        Required if every axis is named.
      edge_order: not supported, as in `jnp.gradient`; by default `None`.

    Returns:
      An array like `f`, or a list of them, one for each axis.

    Communication: along a sharded axis, the rows at the boundaries of blocks.

    Raises:
      AxisNotFoundError: `f` lacks a named axis.
      AxisSizeError: an axis has fewer than two elements.

    >>> import jax.numpy as jnp, namedax as nx
    >>> x = nx.named(jnp.array([0.0, 1.0, 4.0, 9.0]), ["t"])
    >>> nx.positional(nx.numpy.gradient(x, axis="t"), ["t"])
    Array([1., 2., 4., 5.], dtype=float32)
    """
    axes = tuple(axis) if isinstance(axis, (tuple, list)) else (axis,)
    if all(_one_name(entry) is None for entry in axes):
        return _gradient(f, *varargs, axis=axis, edge_order=edge_order)
    twice = [entry for i, entry in enumerate(axes) if entry in axes[:i]]
    if twice:
        raise ArgumentError(
            f"gradient: axis={format_value(axis)} contains {format_value(twice[0])} twice. Pass"
            " each axis once."
        )
    if edge_order is not None:
        raise ArgumentError(
            f"gradient: edge_order={format_value(edge_order)} is not supported, as in jnp.gradient;"
            " leave it out."
        )
    if len(varargs) not in (0, 1, len(axes)):
        raise ArgumentError(
            f"gradient: got {len(varargs)} spacings for {len(axes)} axes. Pass one for all, or one"
            " for each."
        )
    spacings = varargs if len(varargs) == len(axes) else (varargs or (1.0,)) * len(axes)
    results = [
        _gradient(f, h, axis=entry) if _one_name(entry) is None else _gradient_along(f, h, entry)
        for entry, h in zip(axes, spacings, strict=True)
    ]
    return results[0] if len(results) == 1 else results


def _gradient_along(f: ArrayLike, h: ArrayLike, axis: Hashable) -> AnyArray:
    f = _inexact("gradient", f, axis)
    n = size(f, axis)
    if n < 2:
        raise AxisSizeError(
            f"gradient: axis {format_value(axis)} of {type_text(f)} has size {n}; a difference"
            " needs at least 2 elements."
        )
    left, right = shift(f, 1, axis), shift(f, -1, axis)
    before, after = f - left, right - f
    if np.ndim(getattr(h, "data", h)) == 0:
        inner = (right - left) * 0.5 / h
        low, high = after / h, before / h
    else:
        points = _along("gradient", h, f, axis)
        # At the ends one of the two is not a distance; the result computed with it is not used.
        back = _where_at(f, axis, (0,), 1.0, points - shift(points, 1, axis))
        ahead = _where_at(f, axis, (n - 1,), 1.0, shift(points, -1, axis) - points)
        both = back + ahead
        inner = (
            -ahead / (back * both) * left
            + (ahead - back) / (back * ahead) * f
            + back / (ahead * both) * right
        )
        low, high = after / ahead, before / back
    return _where_at(f, axis, (0,), low, _where_at(f, axis, (n - 1,), high, inner))


@operation(scope=True)
def unwrap(
    p: ArrayLike,
    discont: jax.typing.ArrayLike | None = None,
    axis: AxisSpec = -1,
    period: jax.typing.ArrayLike = 2 * np.pi,
) -> LikeArguments:
    """Remove jumps by a period from phases: `jnp.unwrap`, by name or position.

    Args:
      p: phases, named or not.
      discont: the largest jump to keep; by default half the period.
      axis: a positional or named axis, by default -1.
      period: the size of the jumps to remove, by default 2 pi.

    Communication: along a sharded axis, the row at the boundary of two blocks, and the totals of
    the blocks.

    Raises:
      AxisNotFoundError: `p` lacks the axis.

    >>> import jax.numpy as jnp, namedax as nx
    >>> x = nx.named(jnp.array([0.0, 3.0, 1.0]), ["t"])
    >>> nx.positional(nx.numpy.unwrap(x, axis="t", period=4.0), ["t"])
    Array([ 0., -1., -3.], dtype=float32)
    """
    name = _one_name(axis)
    if name is None:
        return _unwrap(p, discont, axis, period)
    phases: AnyArray = as_array(p, "unwrap")
    resolve_axis("unwrap", phases, name)
    half: jax.typing.ArrayLike
    if isinstance(period, int) and jnp.issubdtype(phases.dtype, jnp.integer):
        half = period // 2
    else:
        phases, half = _inexact("unwrap", phases, name), period / 2
    limit = half if discont is None else discont
    steps = phases - shift(phases, 1, name)
    steps = _where_at(phases, name, (0,), 0, steps)

    def correction(step: jax.Array) -> jax.Array:
        within = (step + half) % period - half
        within = jnp.where((within == -half) & (step > 0), half, within)
        return jnp.where(jnp.abs(step) < limit, 0, within - step).astype(step.dtype)

    return phases + cumsum(apply_elementwise("unwrap", correction, steps), name)


@operation(name="scipy.signal.detrend", scope=True)
def detrend(
    data: ArrayLike,
    axis: AxisSpec = -1,
    type: str = "linear",
    bp: int | Sequence[int] | jax.typing.ArrayLike = 0,
    overwrite_data: None = None,
) -> LikeArguments:
    """Subtract the mean or a straight line along one axis: `jax.scipy.signal.detrend`.

    Args:
      data: values, named or not.
      axis: a positional or named axis, by default -1.
      type: `"linear"` (default) subtracts the least-squares line, `"constant"` the mean.
      bp: the first elements of further lines, by default 0 for none; with more than one line a
        sharded axis is gathered.
      overwrite_data: as in JAX; by default `None`.

    Communication: over a sharded axis, one all-reduce of the size of the mean, or two for a line.

    Raises:
      AxisNotFoundError: `data` lacks the axis.

    >>> import jax.numpy as jnp, namedax as nx
    >>> x = nx.named(jnp.array([1.0, 3.0, 2.0]), ["t"])
    >>> nx.positional(nx.scipy.signal.detrend(x, "t", "constant"), ["t"])
    Array([-1.,  1.,  0.], dtype=float32)
    """
    name = _one_name(axis)
    if name is None or np.ndim(bp) or bp != 0 or type not in ("linear", "constant"):
        return _detrend()(data, axis, type, bp, overwrite_data)
    data = _inexact("detrend", data, name)
    centred = data - _mean(data, name)
    if type == "constant":
        return centred
    n = size(data, name)
    offset = arange(n, axis=name).astype(data.real.dtype) - (n - 1) / 2
    spread = n * (n * n - 1) / 12
    return centred - offset * (_sum(centred * offset, name) / max(spread, 1))


#: The functions of this module, by their names in `nx.numpy` and `nx.scipy`.
CALCULUS: dict[str, Callable[..., Any]] = {
    "gradient": gradient,
    "trapezoid": trapezoid,
    "unwrap": unwrap,
}
