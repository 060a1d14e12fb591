"""Weighted means, ranges and norms over axes: `average`, `ptp`, `norm`, `vector_norm`.

They are compositions of reductions, with the same communication. Norms from singular values
communicate as `nx.linalg.svd`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Hashable, Mapping

import jax.numpy as jnp
import numpy as np
from jax import lax

from namedax.core.annotations import AnyArray, ArrayLike, AxisSpec
from namedax.core.array import NamedArray, as_array, dims_of
from namedax.core.display import type_text
from namedax.core.element_types import accumulates, as_inexact, to_type, widened_type
from namedax.core.region import ambient
from namedax.errors import ArgumentError, PositionalAxisError, format_value, naming
from namedax.ops.elementwise import FUNCTIONS as _ELEMENTWISE
from namedax.ops.elementwise import apply_elementwise
from namedax.ops.linalg.matrix import matrix_of, singular_norm
from namedax.ops.operands import kernels
from namedax.ops.operands.axes import axis_key, is_axis_name, resolve_axis
from namedax.ops.operands.broadcasting import make_result
from namedax.ops.operands.operation import REDUCED, Explicit, operation
from namedax.ops.reduction.plan import reduction_plan
from namedax.ops.reduction.reductions import REDUCTIONS
from namedax.resources import communication as comm

__all__ = ["average", "norm", "ptp", "vector_norm"]


_sum, _mean, _max, _min = (REDUCTIONS[name] for name in ("sum", "mean", "max", "min"))


@operation(requires_axis=REDUCED, explicit=Explicit.AS_JAX, scope=True)
@accumulates("x")
def ptp(x: ArrayLike, axis: AxisSpec = None, *, keepdims: bool = False) -> AnyArray:
    """Compute the maximum minus the minimum over positional and named axes.

    Args:
      x: an array, named or not.
      axis: a positional axis, an axis name, or a tuple of both; `...` selects all axes, `None`
        (default) all positional ones. Required if every axis is named.
      keepdims: if `True`, reduced positional axes remain with size 1; by default `False`. Reduced
        named axes are removed.

    Returns:
      An array with the remaining axes; a plain `jax.Array` if no named axis remains.

    Communication: over a sharded axis, one all-reduce for the maximum and one for the minimum; the
    gradient adds one for each.

    Raises:
      AxisNotFoundError: `x` has no axis of that name.

    >>> import jax.numpy as jnp, namedax as nx
    >>> float(nx.ptp(nx.named(jnp.array([1.0, -2.0, 3.0]), ["k"]), "k"))
    5.0
    """
    return _max(x, axis, keepdims=keepdims) - _min(x, axis, keepdims=keepdims)


@operation(requires_axis=REDUCED, explicit=Explicit.AS_JAX, scope=True)
@accumulates("x")
def average(
    x: ArrayLike,
    axis: AxisSpec = None,
    weights: ArrayLike | None = None,
    returned: bool = False,
    keepdims: bool = False,
) -> AnyArray | tuple[AnyArray, AnyArray]:
    """Compute the weighted mean over positional and named axes.

    Args:
      x: an array, named or not.
      axis: a positional axis, an axis name, or a tuple of both; `None` (default) selects all
        positional axes.
      weights: an array, named or not, by default `None`. Its named axes align with the axes of `x`
        by name, and may be fewer. Its positional axes are all positional axes of `x`, or the
        positional axes in `axis`, in their order.
      returned: if `True`, also return the sum of the weights; by default `False`.
      keepdims: if `True`, reduced positional axes remain with size 1; by default `False`.

    Returns:
      The average, or a tuple of it and the sum of the weights, both with the remaining axes.

    Communication: over a sharded axis, one all-reduce, which includes the sum of the weights if
    they have that axis.

    Raises:
      AxisNotFoundError: `x` has no axis of that name.
      PositionalAxisError: the positional axes of `weights` do not fit.

    >>> import jax.numpy as jnp, namedax as nx
    >>> x, w = nx.named(jnp.array([1.0, 2.0]), ["k"]), nx.named(jnp.array([3.0, 1.0]), ["k"])
    >>> float(nx.average(x, "k", weights=w))
    1.25
    """
    x = as_inexact(as_array(x, "average"))
    if weights is None:
        result = _mean(x, axis, keepdims=keepdims)
        if not returned:
            return result
        count = reduction_plan("average", x, axis, supports_padding=True).count
        return result, apply_elementwise(
            "average", lambda r: jnp.full(r.shape, count, r.dtype), result
        )
    weights = as_array(weights)
    weights = as_inexact(to_type(weights, widened_type("average", weights.dtype)))
    dtype = jnp.promote_types(x.dtype, weights.dtype)
    x, weights = to_type(x, dtype), to_type(weights, dtype)
    dims = dims_of(x)
    reduced = resolve_axis("average", x, axis)
    shape = x.shape
    if weights.ndim:
        sizes = x.named_shape if isinstance(x, NamedArray) else {}
        named = {dims[i]: sizes[dims[i]] for i in reduced if dims[i] is not None}
        weights = _fit_positions(
            x, weights, [dims[:i].count(None) for i in reduced if dims[i] is None], shape, named
        )
    own = dims_of(weights)
    entries = [dims[:i].count(None) if dims[i] is None else dims[i] for i in reduced]
    counted = tuple(e for e in entries if (weights.ndim > 0 if isinstance(e, int) else e in own))
    repeats = (
        reduction_plan(
            "average", x, tuple(e for e in entries if e not in counted), supports_padding=True
        ).count
        if len(counted) < len(entries)
        else 1
    )
    total = _sum(weights, counted, keepdims=keepdims) if counted else weights
    if repeats != 1:
        total = total * jnp.asarray(repeats, dtype)
    if keepdims and not weights.ndim and dims.count(None):
        total = total + jnp.zeros((1,) * dims.count(None), dtype)
    result = _sum(x * weights, axis, keepdims=keepdims) / total
    if not returned:
        return result
    return result, apply_elementwise(
        "average", lambda r, t: jnp.broadcast_to(t, r.shape), result, total
    )


def _fit_positions(
    x: AnyArray,
    weights: AnyArray,
    positions: list[int],
    shape: tuple[int, ...],
    named: Mapping[Hashable, int],
) -> AnyArray:
    """Expand `weights` to the positional axes of `x`.

    The reduction is over the axes `positions` and those in `named`.
    """
    if weights.shape == shape:
        return weights
    if weights.shape != tuple(shape[i] for i in positions):
        raise PositionalAxisError(
            f"average: the weights, {type_text(weights)}, do not fit {type_text(x)}. Their"
            " positional axes must be all positional axes of the array, or the ones in axis, in"
            " that order. Name the other axes."
            + (
                naming("weights", weights.shape, named)
                if named and not isinstance(weights, NamedArray)
                else ""
            )
        )
    data, own = (
        (weights.data, weights.dims)
        if isinstance(weights, NamedArray)
        else (weights, dims_of(weights))
    )
    names = [i for i, dim in enumerate(own) if dim is not None]
    places = [i for i, dim in enumerate(own) if dim is None]
    data = lax.transpose(data, names + [places[i] for i in np.argsort(positions)])
    kept = data.shape[: len(names)]
    data = data.reshape(kept + tuple(n if i in positions else 1 for i, n in enumerate(shape)))
    data = jnp.broadcast_to(data, kept + shape)
    return make_result(data, tuple(own[i] for i in names) + (None,) * len(shape))


_sqrt, _abs = (_ELEMENTWISE[name] for name in ("sqrt", "abs"))


def _vector_norm(x: AnyArray, ord: float | str | None, axis: AxisSpec, keepdims: bool) -> AnyArray:
    real = x.real.dtype
    if ord is None or ord == 2:
        return _sqrt(
            _sum(_ELEMENTWISE["real"](x * _ELEMENTWISE["conj"](x)), axis, keepdims=keepdims)
        )
    if isinstance(ord, str):
        raise ArgumentError(
            "norm: the order of a vector norm must be a number, inf or -inf, got"
            f" ord={format_value(ord)}."
        )
    if ord == math.inf:
        return _max(_abs(x), axis, keepdims=keepdims)
    if ord == -math.inf:
        return _min(_abs(x), axis, keepdims=keepdims)
    if ord == 0:
        return _sum(x != 0, axis, dtype=real, keepdims=keepdims)
    if ord == 1:
        return _sum(_abs(x), axis, keepdims=keepdims)
    power = jnp.asarray(ord, real)
    return _ELEMENTWISE["power"](
        _sum(_ELEMENTWISE["power"](_abs(x), power), axis, keepdims=keepdims), 1 / power
    )


@operation(requires_axis=REDUCED, explicit=Explicit.AS_JAX)
@accumulates("x")
def norm(
    x: ArrayLike, ord: float | str | None = None, axis: AxisSpec = None, keepdims: bool = False
) -> AnyArray:
    """Compute the norm over one axis (of vectors) or two (of matrices), as `jnp.linalg.norm`.

    Args:
      x: an array, named or not.
      ord: the order. For vectors a number, inf, -inf or 0; for matrices `"fro"`, 1, -1, inf, -inf,
        2, -2 or `"nuc"`. By default `None`, the root of the sum of the squares.
      axis: a positional axis, an axis name, or a tuple of one or two of them (rows, then columns);
        `None` (default) selects all positional axes, and `...` all axes. Without `ord`, they are
        any number of axes.
      keepdims: if `True`, reduced positional axes remain with size 1; by default `False`.

    Returns:
      An array with the remaining axes.

    Communication: over a sharded axis, one all-reduce of a sum, maximum or minimum; for matrices
    one for each axis. The orders 2, -2 and `"nuc"` of a matrix need its singular values, and
    communicate as `nx.linalg.svd`. With positional rows or columns the other axis is gathered.

    Raises:
      AxisNotFoundError: `x` has no axis of that name.

    >>> import jax.numpy as jnp, namedax as nx
    >>> float(nx.norm(nx.named(jnp.array([3.0, 4.0]), ["k"]), axis="k"))
    5.0
    """
    x = as_inexact(as_array(x, "norm"))
    axis = tuple(axis) if isinstance(axis, list) else axis
    if ord is None and (axis is None or axis is ...):
        return _vector_norm(x, None, axis, keepdims)
    if axis is None:
        axis = tuple(range(x.ndim))
    if axis is ...:
        axis = (*range(x.ndim), *(dim for dim in dims_of(x) if dim is not None))
    axes = axis if isinstance(axis, tuple) else (axis,)
    if len(axes) == 1:
        return _vector_norm(x, ord, axes, keepdims)
    if len(axes) != 2:
        raise PositionalAxisError(
            f"norm: axis={format_value(axis)} must be one axis (vectors) or two (matrices);"
            " nx.numpy.linalg.vector_norm takes any number."
        )
    if ord is None or ord in ("f", "fro"):
        return _vector_norm(x, None, axes, keepdims)
    if ord in (1, -1, math.inf, -math.inf):
        inner, outer = axes if ord in (1, -1) else axes[::-1]
        resolve_axis("norm", x, axes)  # check both, before one is removed
        if isinstance(outer, (int, np.integer)):
            outer = operator.index(outer) % x.ndim
            if isinstance(inner, (int, np.integer)) and not keepdims and inner % x.ndim < outer:
                outer -= 1
        sums = _sum(_abs(x), inner, keepdims=keepdims)
        return (
            _max(sums, outer, keepdims=keepdims, initial=0)
            if ord > 0
            else _min(sums, outer, keepdims=keepdims)
        )
    if ord not in (2, -2, "nuc"):
        raise ArgumentError(
            "norm: the order of a matrix norm must be 'fro', 'nuc', 1, -1, 2, -2, inf or -inf, got"
            f" ord={format_value(ord)}."
        )
    if all(map(is_axis_name, axes)):
        resolve_axis("norm", x, axes)
        return _norm_of_names(x, axes, ord)
    return kernels.run("norm", _singular_norm, axis_key("norm", axes), (ord, keepdims), x)


@operation("axes", name="norm", on_blocks=True, scope=True)
def _norm_of_names(
    x: ArrayLike, axes: tuple[Hashable, Hashable], ord: float | str | None
) -> AnyArray:
    return singular_norm(matrix_of("norm", x, axes[:1], axes[1:]), ord)


def _singular_norm(
    op: str, axes: AxisSpec, ord: float | str | None, keepdims: bool, x: AnyArray
) -> AnyArray:
    plan = reduction_plan(op, x, axes, keepdims)
    data = plan.data
    region = ambient()
    for i in plan.named:
        placement = (
            region.placement(plan.dims_in[i]) if region is not None and plan.mesh_axes else ()
        )
        if placement:
            data = comm.all_gather(data, i, placement, "invarying")
    if data.dtype in (jnp.bfloat16, jnp.float16):  # JAX 0.12 has no svd for these dtypes
        return plan.finish(
            jnp.linalg.norm(data.astype(jnp.float32), ord, plan.axes, keepdims).astype(data.dtype)
        )
    return plan.finish(jnp.linalg.norm(data, ord, plan.axes, keepdims))


@operation(
    name="numpy.linalg.vector_norm", requires_axis=REDUCED, explicit=Explicit.KEPT, scope=True
)
@accumulates("x")
def vector_norm(
    x: ArrayLike, /, *, axis: AxisSpec = None, keepdims: bool = False, ord: float | str | None = 2
) -> AnyArray:
    """Compute the vector norm over any number of axes at once, named or positional.

    Args:
      x: an array, named or not.
      axis: a positional axis, an axis name, or a tuple of both; `...` selects all axes, `None`
        (default) all positional ones. Required if every axis is named.
      keepdims: if `True`, reduced positional axes remain with size 1; by default `False`. Reduced
        named axes are removed.
      ord: the order, as for `nx.norm`; by default 2.

    Returns:
      An array with the remaining axes; a plain `jax.Array` if no named axis remains.

    Communication: over a sharded axis, one all-reduce of a sum, maximum or minimum.

    Raises:
      AxisNotFoundError: `x` has no axis of that name.

    >>> import jax.numpy as jnp, namedax as nx
    >>> float(nx.numpy.linalg.vector_norm(nx.named(jnp.array([3.0, -4.0]), ["k"]), axis="k", ord=1))
    7.0
    """
    return _vector_norm(as_inexact(as_array(x, "vector_norm")), ord, axis, keepdims)
