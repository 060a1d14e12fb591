"""Weighted means and ranges over axes, named or positional: `average` and `ptp`.

They are compositions of reductions, with the same communication.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping

import jax.numpy as jnp
import numpy as np
from jax import lax

from namedax.core.annotations import AnyArray, ArrayLike, AxisSpec
from namedax.core.array import NamedArray, as_array, dims_of
from namedax.core.display import type_text
from namedax.core.element_types import as_inexact, to_type
from namedax.errors import PositionalAxisError, naming
from namedax.operands.axes import resolve_axis
from namedax.operands.broadcasting import make_result
from namedax.operands.operation import REDUCED, Explicit, operation
from namedax.ops.elementwise import apply_elementwise
from namedax.ops.reduction.reductions import REDUCTIONS
from namedax.ops.reduction.site import reduction_site

__all__ = ["average", "ptp"]

_sum, _mean, _max, _min = (REDUCTIONS[name] for name in ("sum", "mean", "max", "min"))


@operation(requires_axis=REDUCED, explicit=Explicit.AS_JAX, scope=True)
def ptp(x: ArrayLike, axis: AxisSpec = None, *, keepdims: bool = False) -> AnyArray:
    """Compute the maximum minus the minimum; arguments as for `nx.max`, communication as for both.

    >>> import jax.numpy as jnp, namedax as nx
    >>> float(nx.ptp(nx.named(jnp.array([1.0, -2.0, 3.0]), ["k"]), "k"))
    5.0
    """
    return _max(x, axis, keepdims=keepdims) - _min(x, axis, keepdims=keepdims)


@operation(requires_axis=REDUCED, explicit=Explicit.AS_JAX, scope=True)
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
        count = reduction_site("average", x, axis, supports_padding=True).count
        return result, apply_elementwise(
            "average", lambda r: jnp.full(r.shape, count, r.dtype), result
        )
    weights = as_inexact(as_array(weights))
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
        reduction_site(
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
