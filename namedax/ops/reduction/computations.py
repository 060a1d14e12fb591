"""The computation of sums, products, means, variances and their like, of a `ReductionPlan`.

Unsharded axes are reduced by one function of `jnp`. Over sharded axes, the block is reduced, and a
collective combines the results of the devices.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from namedax.core.element_types import (
    as_inexact,
    extreme,
    inexact_type,
)
from namedax.core.names import DType
from namedax.core.variance import cast_data
from namedax.ops.reduction.plan import ReductionPlan
from namedax.resources import communication as comm

__all__ = [
    "local_maximum",
    "reduce_all",
    "reduce_any",
    "reduce_count_nonzero",
    "reduce_logsumexp",
    "reduce_mean",
    "reduce_prod",
    "reduce_std",
    "reduce_sum",
    "reduce_var",
    "sharded_maximum",
]


def reduce_sum(
    plan: ReductionPlan,
    promote_integers: bool = True,
    initial: jax.Array | None = None,
    dtype: DType | None = None,
) -> jax.Array:
    """Sum elements."""
    local = jnp.sum(
        plan.data,
        plan.axes,
        dtype=dtype,
        keepdims=plan.keepdims,
        where=plan.where,
        promote_integers=promote_integers,
        initial=None if plan.mesh_axes else initial,
    )
    if not plan.mesh_axes:
        return local
    total = comm.psum(local, plan.mesh_axes)
    return total if initial is None else total + jnp.asarray(initial, total.dtype)


def reduce_prod(
    plan: ReductionPlan,
    promote_integers: bool = True,
    initial: jax.Array | None = None,
    dtype: DType | None = None,
) -> jax.Array:
    """Multiply elements."""
    options: dict[str, Any] = {"dtype": dtype, "promote_integers": promote_integers}
    data = plan.data
    if data.size == 0:  # its derivative loses the variance of the result (JAX 0.10 to 0.12)
        data = lax.stop_gradient(data)
    local = jnp.prod(
        data,
        plan.axes,
        keepdims=plan.keepdims,
        where=plan.where,
        initial=None if plan.mesh_axes else initial,
        **options,
    )
    if not plan.mesh_axes:
        return local
    total = jnp.prod(comm.all_gather(local[None], 0, plan.mesh_axes, "invarying"), 0, **options)
    return total if initial is None else total * jnp.asarray(initial, total.dtype)


def _mean_dtypes(data: jax.Array, dtype: DType | None) -> tuple[Any, Any]:
    """Return the dtypes in which `jnp.mean` and `jnp.var` compute, and the dtype of the mean."""
    result = inexact_type(data.dtype)
    result = result if dtype is None else jnp.empty(0, dtype).dtype
    return jnp.float32 if result in (jnp.float16, jnp.bfloat16) else result, result


def _as_taken(f: Callable[..., Any], plan: ReductionPlan, dtype: DType | None) -> None:
    """Raise for the dtypes that `jnp` rejects, with its message, for every sharding."""
    if dtype is not None:
        jax.eval_shape(
            functools.partial(f, dtype=dtype), jax.ShapeDtypeStruct((1,), plan.data.dtype)
        )


def _divided(total: jax.Array, count: jax.Array) -> jax.Array:
    """Return the quotient in the dtype of both, as in `jnp`; integers are divided as integers."""
    return lax.div(total, jnp.broadcast_to(count, total.shape))


def _mean_and_count(plan: ReductionPlan, wide: DType, result: DType) -> tuple[Any, Any]:
    """Return the mean, and the number of elements in it, with one all-reduce for both.

    The operand of the sum always has the same form, without the axes, because XLA merges equal
    all-reduces. So the mean and the mean within a variance cost one all-reduce.
    """

    def kept(data: jax.Array) -> jax.Array:
        return jnp.expand_dims(data, plan.axes) if plan.keepdims else data

    local = jnp.sum(plan.data, plan.axes, dtype=wide, where=plan.where)
    if plan.where is None or not plan.is_counted:
        count = jnp.asarray(plan.count, wide)
        if not jnp.issubdtype(wide, jnp.inexact):
            return kept(_divided(comm.psum(local, plan.mesh_axes), count)), count
        # Divided first: the sum of a narrow dtype might overflow, and is sent in that dtype.
        return kept(comm.psum((local / count).astype(result), plan.mesh_axes)), count
    # In the same dtype, so that XLA combines both.
    count = comm.psum(
        cast_data(jnp.sum(plan.where, plan.axes, dtype=wide), plan.mesh_axes), plan.mesh_axes
    )
    return kept(_divided(comm.psum(local, plan.mesh_axes), count).astype(result)), kept(count)


def reduce_mean(plan: ReductionPlan, dtype: DType | None = None) -> jax.Array:
    """Compute the mean."""
    if not plan.mesh_axes:
        return jnp.mean(plan.data, plan.axes, dtype=dtype, keepdims=plan.keepdims, where=plan.where)
    _as_taken(jnp.mean, plan, dtype)
    return _mean_and_count(plan, *_mean_dtypes(plan.data, dtype))[0]


def _included(plan: ReductionPlan) -> jax.Array:
    """Return the data with zeros in place of excluded elements, so that no derivative is NaN."""
    if plan.where is None:
        return plan.data
    return jnp.where(plan.where, plan.data, lax.full_like(plan.data, 0, shape=()))


def _sharded_var(plan: ReductionPlan, dtype: DType | None, ddof: float) -> jax.Array:
    """Compute the variance by one all-reduce for the mean and one for the squares.

    The gradient adds none. The derivative needs no derivative of the mean, since the deviations sum
    to zero. Automatic differentiation would send these zeros.
    """
    wide, result = _mean_dtypes(plan.data, dtype)
    if dtype is None and jnp.issubdtype(result, jnp.complexfloating):
        result = jnp.zeros((), result).real.dtype
    kept = plan.bare().replace(keepdims=True)

    def parts(data: jax.Array, mask: jax.Array | None) -> tuple[Any, Any]:
        mean, count = _mean_and_count(kept.replace(data=data, where=mask), wide, wide)
        centred = _included(kept.replace(data=data - mean, where=mask))
        return centred, count.real - lax.convert_element_type(ddof, count.real.dtype)

    def mean_product(
        a: jax.Array, b: jax.Array, mask: jax.Array | None, divisor: jax.Array
    ) -> jax.Array:
        product = (jnp.conj(a) * b).real if jnp.iscomplexobj(a) else a * b
        return reduce_sum(kept.replace(data=product, where=mask)) / divisor

    def of_some(value: jax.Array, divisor: jax.Array, otherwise: float) -> jax.Array:
        # As in jnp: with too few elements the variance is NaN, a constant.
        return jnp.where(divisor > 0, value, jnp.asarray(otherwise, value.dtype))

    @jax.custom_jvp
    def variance(data: jax.Array, mask: jax.Array | None) -> jax.Array:
        centred, divisor = parts(data, mask)
        return of_some(mean_product(centred, centred, mask, divisor), divisor, jnp.nan)

    @variance.defjvp
    def _jvp(primals: tuple[Any, Any], tangents: tuple[Any, Any]) -> tuple[Any, Any]:
        centred, divisor = parts(*primals)
        mask = primals[1]
        value, slope = (
            mean_product(centred, other, mask, divisor) for other in (centred, tangents[0])
        )
        # As in jnp, where the mean of the deviations, which are not finite, takes part.
        is_nan = jnp.isnan(value) & (divisor > 0)
        slope = jnp.where(is_nan, jnp.asarray(jnp.nan, slope.dtype), 2) * slope
        return of_some(value, divisor, jnp.nan), of_some(slope, divisor, 0.0)

    data = plan.data.astype(wide)
    if jnp.issubdtype(wide, jnp.inexact):
        data = variance(data, plan.where).astype(result)
    else:  # requested integers: `jnp` divides them as integers, and NaN converts them to floats
        centred, divisor = parts(data, plan.where)
        total = reduce_sum(kept.replace(data=centred * centred, where=plan.where), dtype=wide)
        data = jnp.where(divisor > 0, _divided(total, divisor), jnp.nan)
    return data if plan.keepdims else lax.squeeze(data, plan.axes)


def _whole_var(
    function: Callable[..., jax.Array], plan: ReductionPlan, ddof: float, dtype: DType | None
) -> jax.Array:
    """Compute the variance or the standard deviation of unsharded axes, by a function of `jnp`."""
    return function(
        _included(plan),
        plan.axes,
        dtype=dtype,
        ddof=ddof,
        keepdims=plan.keepdims,
        where=plan.where,
    )


def reduce_var(plan: ReductionPlan, ddof: float, dtype: DType | None = None) -> jax.Array:
    """Compute the variance."""
    if not plan.mesh_axes:
        return _whole_var(jnp.var, plan, ddof, dtype)
    _as_taken(jnp.var, plan, dtype)
    return _sharded_var(plan, dtype, ddof)


def reduce_std(plan: ReductionPlan, ddof: float, dtype: DType | None = None) -> jax.Array:
    """Compute the standard deviation."""
    if not plan.mesh_axes:
        return _whole_var(jnp.std, plan, ddof, dtype)
    _as_taken(jnp.std, plan, dtype)
    return jnp.sqrt(_sharded_var(plan, dtype, ddof))


def reduce_any(plan: ReductionPlan) -> jax.Array:
    """Return True if an element is true."""
    return comm.pmax(
        jnp.any(plan.data, plan.axes, keepdims=plan.keepdims, where=plan.where), plan.mesh_axes
    )


def reduce_all(plan: ReductionPlan) -> jax.Array:
    """Return True if all elements are true."""
    return comm.pmin(
        jnp.all(plan.data, plan.axes, keepdims=plan.keepdims, where=plan.where), plan.mesh_axes
    )


def reduce_count_nonzero(plan: ReductionPlan) -> jax.Array:
    """Count the elements that are not zero."""
    data = _included(plan)
    return comm.psum(jnp.count_nonzero(data, plan.axes, keepdims=plan.keepdims), plan.mesh_axes)


def sharded_maximum(plan: ReductionPlan, data: jax.Array) -> jax.Array:
    """Take the maximum of `data` over the axes of the plan (kept), without a gradient."""
    return comm.pmax(local_maximum(lax.stop_gradient(data.real), plan.axes), plan.mesh_axes)


def local_maximum(data: jax.Array, axes: Sequence[int]) -> jax.Array:
    """Take the maximum of floats over `axes` (kept); for no elements it is the least value."""
    return jnp.max(
        data, axes, keepdims=True, initial=None if data.size else extreme(data.dtype, True)
    )


def reduce_logsumexp(plan: ReductionPlan) -> jax.Array:
    """Compute `log(sum(exp(x)))`; if sharded, the largest element is reduced first."""
    if not plan.mesh_axes:
        return jax.nn.logsumexp(plan.data, plan.axes, keepdims=plan.keepdims, where=plan.where)
    data = as_inexact(plan.data)
    if plan.where is not None:
        data = jnp.where(plan.where, data, jnp.asarray(-jnp.inf, data.dtype))
    shift = sharded_maximum(plan, data)
    shift = jnp.where(jnp.isfinite(shift), shift, jnp.zeros((), shift.dtype))
    terms = jnp.exp(data - shift)
    total = comm.psum(jnp.sum(terms, plan.axes, keepdims=True), plan.mesh_axes)
    result = jnp.log(total) + shift
    return result if plan.keepdims else lax.squeeze(result, plan.axes)
