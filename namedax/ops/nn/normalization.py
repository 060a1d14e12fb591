"""Layer, RMS and batch normalization over named axes, their moments, and dropout.

`axis` is a positional axis, an axis name, or a tuple of both, and selects the axes of the
statistics. So the norms differ mainly in these axes: `layer_norm(x, "embed")` and `batch_norm(x,
"batch")`. A group norm is the layer norm of an array with split channels, over `each` and the other
axes of a group: `nx.rearrange(x, "{channels=(groups each)} -> {groups each}")`. `scale` and `bias`
broadcast by name.

Statistics are computed in float32 (or float64) for every dtype of the values. The variance is the
mean of squared deviations, not a difference of large numbers (except in `standardize`, which has
JAX's default).

**Communication** over a sharded axis consists of all-reduces of the size of the statistics.
`rms_norm` and `standardize(algorithm="fast")` need one. `layer_norm`, `batch_norm` and `moments`
need two, since the deviations depend on the mean. The gradient of each norm adds one, which
combines both sums that it needs; the gradient of `moments` adds none. This is less than automatic
differentiation would need. The deviations sum to zero, so the derivative of `y = (x - mean) /
deviation` is `(t - mean(t) - y * mean(t * y)) / deviation`. Sources: Ba et al. 2016, "Layer
Normalization"; Ioffe & Szegedy 2015, "Batch Normalization"; Zhang & Sennrich 2019, "Root Mean
Square Layer Normalization". An axis that is not sharded costs nothing.
"""

from __future__ import annotations

import numbers
from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from namedax.core.annotations import AnyArray, ArrayLike, AxisSpec, LikeArguments
from namedax.core.array import NamedArray, dims_of
from namedax.core.display import type_text
from namedax.core.element_types import as_inexact, common_type, inexact_type
from namedax.core.names import DType, is_name
from namedax.core.region import ambient
from namedax.core.variance import cast_data, varying
from namedax.errors import (
    ArgumentError,
    ArgumentTypeError,
    AxisNotFoundError,
    PositionalAxisError,
    did_you_mean,
    format_value,
    raise_not_found,
)
from namedax.messages.call_errors import checks_signature
from namedax.ops.elementwise import apply_elementwise, at_once
from namedax.ops.operands import kernels
from namedax.ops.operands.axes import axis_key
from namedax.ops.operands.broadcasting import align_ranks, make_result, to_local
from namedax.ops.operands.dispatch import in_program
from namedax.ops.operands.operation import Explicit, operation
from namedax.ops.operands.pytree import names_of
from namedax.ops.random.drawing import draw
from namedax.ops.reduction.plan import ReductionPlan, reduction_plan
from namedax.ops.reduction.reductions import REDUCTIONS
from namedax.resources import communication as comm

__all__ = [
    "FUNCTIONS",
    "Moments",
    "batch_norm",
    "dropout",
    "layer_norm",
    "moments",
    "rms_norm",
    "standardize",
    "update_moments",
]


class Moments(NamedTuple):
    """Mean and variance, as `batch_norm` takes and returns them.

    Attributes:
      mean: the mean, an array or a number.
      var: the variance, an array or a number.
    """

    mean: Any
    var: Any


# --- statistics over the axes of a plan -----------------------------------------------------------


def _plan(
    op: str, x: ArrayLike, axis: AxisSpec, where: ArrayLike | None
) -> tuple[ReductionPlan, DType]:
    """Return the plan for the statistics, with values in a wide dtype, and the result's dtype."""
    plan = reduction_plan(op, x, axis, False, where, supports_padding=True).of_real()
    if jnp.issubdtype(plan.data.dtype, jnp.complexfloating):
        raise ArgumentTypeError(
            f"{op}: {type_text(x)} is complex. Normalize its real and imaginary parts."
        )
    data = as_inexact(plan.data)
    return plan.replace(data=data.astype(common_type(data.dtype, jnp.float32))), data.dtype


def _sums(plan: ReductionPlan, mask: jax.Array | None, *datas: jax.Array) -> list[jax.Array]:
    """Sum over the axes of the plan, keep these axes, and use one all-reduce."""
    local = [_local_sum(plan, mask, data) for data in datas]
    if not plan.mesh_axes or len(local) == 1:
        return [comm.psum(data, plan.mesh_axes) for data in local]
    total = comm.psum(jnp.stack(local), plan.mesh_axes)
    return [total[i] for i in range(len(local))]


def _local_sum(plan: ReductionPlan, mask: jax.Array | None, data: jax.Array) -> jax.Array:
    if mask is not None:
        return jnp.sum(data, plan.axes, keepdims=True, where=mask)
    return lax.expand_dims(lax.reduce_sum(data, plan.axes), plan.axes)


def _sums_and_count(
    plan: ReductionPlan, mask: jax.Array | None, *datas: jax.Array
) -> tuple[list[jax.Array], jax.Array]:
    """Return the sums and the number of summed elements, with one all-reduce for all."""
    if not plan.is_counted:
        return _sums(plan, mask, *datas), datas[0].dtype.type(plan.count)
    *sums, count = _sums(plan, mask, *datas, cast_data(jnp.ones_like(datas[0]), varying(datas[0])))
    return sums, count


Triple = tuple[jax.Array, jax.Array, jax.Array]
#: A function of data and a mask that returns mean, variance and count.
Statistics = Callable[[jax.Array, jax.Array | None], Triple]
#: The arguments of such functions.
Masked = tuple[jax.Array, jax.Array | None]


def _two_passes(plan: ReductionPlan) -> Statistics:
    """Build the computation of mean, variance and count with two all-reduces."""
    plan = plan.bare()

    def statistics(data: jax.Array, mask: jax.Array | None) -> Triple:
        (total,), count = _sums_and_count(plan, mask, data)
        mean = total / count
        (squares,) = _sums(plan, mask, jnp.square(data - mean))
        return mean, squares / count, count

    return statistics


def _one_pass(plan: ReductionPlan) -> Statistics:
    """Build the computation of mean, variance and count with one all-reduce.

    The variance is the difference of two means.
    """
    plan = plan.bare()

    def statistics(data: jax.Array, mask: jax.Array | None) -> Triple:
        (total, squares), count = _sums_and_count(plan, mask, data, jnp.square(data))
        mean = total / count
        return mean, jnp.maximum(squares / count - jnp.square(mean), 0), count

    return statistics


def _normalize(plan: ReductionPlan, statistics: Statistics, epsilon: float) -> Triple:
    """Normalize the data of the plan to mean 0 and variance 1; return its mean and variance too."""
    values, where, plan = plan.data, plan.where, plan.bare()

    def parts(data: jax.Array, mask: jax.Array | None) -> tuple[jax.Array, ...]:
        mean, var, count = statistics(data, mask)
        factor = lax.rsqrt(var + jnp.asarray(epsilon, var.dtype))
        return (data - mean) * factor, mean, var, factor, count

    @jax.custom_jvp
    def normalize(data: jax.Array, mask: jax.Array | None) -> Triple:
        result, mean, var, *_ = parts(data, mask)
        return result, mean, var

    @normalize.defjvp
    def _jvp(primals: Masked, tangents: tuple[jax.Array, ...]) -> tuple[Triple, Triple]:
        result, mean, var, factor, count = parts(*primals)
        tangent, mask = tangents[0], primals[1]
        local = [
            jnp.sum(data, plan.axes, keepdims=True, where=mask) / count
            for data in (tangent, tangent * result)
        ]
        both = comm.psum(jnp.stack(local), plan.mesh_axes)
        # Cast both together, so that both sums of the transpose are one all-reduce.
        of_mean, of_product = cast_data(both, varying(result))
        of_result = factor * (tangent - of_mean - result * of_product)
        return (result, mean, var), (of_result, both[0], 2 * both[1] / factor)

    return normalize(values, where)


def _normalize_square(plan: ReductionPlan, epsilon: float) -> jax.Array:
    """Divide the data of the plan by the root of its mean square."""
    values, where, plan = plan.data, plan.where, plan.bare()

    def parts(data: jax.Array, mask: jax.Array | None) -> tuple[jax.Array, ...]:
        (squares,), count = _sums_and_count(plan, mask, lax.square(data))
        factor = lax.rsqrt(lax.add(lax.div(squares, count), data.dtype.type(epsilon)))
        return lax.mul(data, factor), factor, count

    @jax.custom_jvp
    def normalize(data: jax.Array, mask: jax.Array | None) -> jax.Array:
        return parts(data, mask)[0]

    @normalize.defjvp
    def _jvp(primals: Masked, tangents: tuple[jax.Array, ...]) -> tuple[jax.Array, jax.Array]:
        result, factor, count = parts(*primals)
        (of_product,) = _sums(plan, primals[1], lax.div(lax.mul(tangents[0], result), count))
        return result, lax.mul(factor, lax.sub(tangents[0], lax.mul(result, of_product)))

    return normalize(values, where)


_multiply, _add = at_once(jnp.multiply), at_once(jnp.add)


def _affine(
    op: str, x: AnyArray, scale: ArrayLike | None, bias: ArrayLike | None, dtype: DType
) -> AnyArray:
    """Compute `x * scale + bias` by name, as `dtype`; either may be `None`."""
    given = [array for array in (scale, bias) if array is not None]
    (data, *more), dims, shape = align_ranks(op, x, *given)
    if scale is not None:
        data = _multiply(data, more[0])
    if bias is not None:
        data = _add(data, more[-1])
    return make_result(jnp.broadcast_to(data, shape).astype(dtype), dims)


def _run(
    op: str,
    compute: Callable[..., jax.Array],
    x: ArrayLike,
    axis: AxisSpec,
    scale: ArrayLike | None,
    bias: ArrayLike | None,
    where: ArrayLike | None,
    *static: Hashable,
) -> AnyArray:
    """Run one norm, with `compute(plan, *static)` applied to the plan of the reduction."""
    _check_names(op, x, scale=scale, bias=bias)
    given = tuple(
        name
        for name, value in (("scale", scale), ("bias", bias), ("where", where))
        if value is not None
    )
    operands = (x, *(v for v in (scale, bias, where) if v is not None))
    return kernels.run(
        op,
        _norm,
        axis_key(op, axis),
        (compute, given, static),
        *operands,
        only_axes=True,
        casts=True,
    )


def _norm(
    op: str,
    axis: AxisSpec,
    compute: Callable[..., jax.Array],
    given: tuple[str, ...],
    static: tuple[Hashable, ...],
    x: ArrayLike,
    *more: ArrayLike,
) -> AnyArray:
    known = dict(zip(given, more, strict=True))
    plan, dtype = _plan(op, x, axis, known.get("where"))
    return _affine(
        op, plan.finish_whole(compute(plan, *static)), known.get("scale"), known.get("bias"), dtype
    )


def _check_names(op: str, x: ArrayLike, **arrays: ArrayLike | None) -> None:
    """Raise if a parameter shares no axis with `x`, or has a name close to a missing one.

    Such a name is probably a mistake. Another name alone is valid: parameters may have further
    axes, such as an ensemble axis.
    """
    own = names_of(dims_of(x))
    for what, array in arrays.items():
        if not isinstance(array, NamedArray):
            continue
        foreign = [name for name in names_of(array._dims) if name not in own]
        if not foreign:
            continue
        missing = [name for name in own if name not in array._dims]
        hint = next(filter(None, (did_you_mean(name, missing) for name in foreign)), "")
        if hint or len(foreign) == len(array._dims):
            raise AxisNotFoundError(
                f"{op}: {what}, {type_text(array)}, has the axis {format_value(foreign[0])}, which"
                f" {type_text(x)} lacks.{hint} Rename it, or, for every combination of the two"
                f" axes, apply {what} outside of {op}."
            )


def _epsilon(op: str, epsilon: object) -> float:
    if isinstance(epsilon, numbers.Real):
        return float(epsilon)
    raise ArgumentTypeError(f"{op}: epsilon={format_value(epsilon)} must be a static number.")


# --- the norms ------------------------------------------------------------------------------------


@operation(explicit=Explicit.AS_JAX)
def layer_norm(
    x: ArrayLike,
    axis: AxisSpec,
    *,
    scale: ArrayLike | None = None,
    bias: ArrayLike | None = None,
    epsilon: float = 1e-5,
    where: ArrayLike | None = None,
) -> LikeArguments:
    """Normalize to mean 0 and variance 1 over `axis`, then multiply by `scale` and add `bias`.

    Args:
      x: an array, named or not.
      axis: the axes to normalize over: a positional axis, an axis name, or a tuple of both.
      scale: an array that broadcasts by name, by default `None`; it may have the normalized axes.
      bias: an array that broadcasts by name, by default `None`.
      epsilon: the number added to the variance, by default 1e-5.
      where: a boolean array, named or not, by default `None`; elements where it is false do not
        count in the statistics, but are normalized too.

    Returns:
      An array with the dtype and the axes of `x`, and the additional axes of `scale`, `bias` and
      `where`.

    Communication: over a sharded axis, two all-reduces of the size of the mean; the gradient adds
    one.

    Raises:
      AxisNotFoundError: `x` lacks the axis. Also if `scale` or `bias` is probably misspelled: it
        has no axis of `x`, or a name close to an axis of `x` that it lacks.

    >>> import jax.numpy as jnp, namedax as nx
    >>> x = nx.named(jnp.array([[1.0, 3.0], [10.0, 30.0]]), ["batch", "embed"])
    >>> nx.positional(nx.nn.layer_norm(x, "embed", bias=1.0), ["batch", "embed"]).round(3)
    Array([[0., 2.],
           [0., 2.]], dtype=float32)
    """
    epsilon = _epsilon("layer_norm", epsilon)
    return _run("layer_norm", _normalized, x, axis, scale, bias, where, _two_passes, epsilon)


def _normalized(
    plan: ReductionPlan, passes: Callable[[ReductionPlan], Statistics], epsilon: float
) -> jax.Array:
    return _normalize(plan, passes(plan), epsilon)[0]


@operation(explicit=Explicit.AS_JAX)
def rms_norm(
    x: ArrayLike,
    axis: AxisSpec,
    *,
    scale: ArrayLike | None = None,
    epsilon: float = 1e-6,
    where: ArrayLike | None = None,
) -> LikeArguments:
    """Divide by the root mean square over `axis`, then multiply by `scale`.

    Args:
      x: an array, named or not.
      axis: the axes to normalize over: a positional axis, an axis name, or a tuple of both.
      scale: an array that broadcasts by name, by default `None`; it may have the normalized axes.
      epsilon: the number added to the mean square, by default 1e-6.
      where: a boolean array, named or not, by default `None`; elements where it is false do not
        count in the statistics, but are normalized too.

    Returns:
      An array with the dtype and the axes of `x`, and the additional axes of `scale` and `where`.

    Communication: over a sharded axis, one all-reduce of the size of the mean; the gradient adds
    one.

    Raises:
      AxisNotFoundError: `x` lacks the axis, or `scale` is probably misspelled, as for
        `nx.nn.layer_norm`.

    >>> import jax.numpy as jnp, namedax as nx
    >>> x = nx.named(jnp.array([3.0, -3.0, 3.0]), ["embed"])
    >>> nx.positional(nx.nn.rms_norm(x, "embed", scale=2.0), ["embed"]).round(3)
    Array([ 2., -2.,  2.], dtype=float32)
    """
    epsilon = _epsilon("rms_norm", epsilon)
    return _run("rms_norm", _normalize_square, x, axis, scale, None, where, epsilon)


@checks_signature
@in_program
def standardize(
    x: ArrayLike,
    axis: AxisSpec = -1,
    mean: ArrayLike | None = None,
    variance: ArrayLike | None = None,
    epsilon: ArrayLike = 1e-5,
    where: ArrayLike | None = None,
    *,
    algorithm: str = "fast",
) -> LikeArguments:
    """Normalize to mean 0 and variance 1 over `axis`: `jax.nn.standardize`, by name or position.

    Args:
      x: an array, named or not.
      axis: a positional axis, an axis name, or a tuple of both; by default -1.
      mean: the mean to use instead of the mean of `x`, by default `None`; it broadcasts by name.
      variance: the variance to use instead of the variance of `x`, by default `None`.
      epsilon: the number added to the variance, by default 1e-5.
      where: a boolean array, named or not, by default `None`; elements where it is false do not
        count in the statistics.
      algorithm: `"fast"` (default) computes the variance as the mean square minus the squared mean,
        as in JAX by default. `"stable"` computes it as the mean of squared deviations, as in
        `layer_norm`, and needs one more all-reduce.

    Returns:
      An array with the dtype of `x`. Unlike JAX, it keeps statistics of 16-bit values in float32
      throughout.

    Communication: over a sharded axis, one all-reduce (`"stable"`: two); the gradient adds one.
    None if mean and variance are given.

    >>> import jax.numpy as jnp, namedax as nx
    >>> x = nx.named(jnp.array([1.0, 3.0]), ["embed"])
    >>> nx.positional(nx.nn.standardize(x, "embed"), ["embed"]).round(3)
    Array([-1.,  1.], dtype=float32)
    """
    if algorithm not in ("fast", "stable"):
        raise ArgumentError(
            f"standardize: algorithm must be 'fast' or 'stable', got {format_value(algorithm)}."
        )
    if mean is not None or variance is not None or not isinstance(epsilon, numbers.Real):
        return _standardize_by(x, axis, mean, variance, epsilon, where, algorithm)
    passes = _one_pass if algorithm == "fast" else _two_passes
    return _run("standardize", _normalized, x, axis, None, None, where, passes, float(epsilon))


def _standardize_by(
    x: ArrayLike,
    axis: AxisSpec,
    mean: ArrayLike | None,
    variance: ArrayLike | None,
    epsilon: ArrayLike,
    where: ArrayLike | None,
    algorithm: str,
) -> AnyArray:
    """Standardize with some of the statistics given."""
    _check_names("standardize", x, mean=mean, variance=variance)
    dtype = inexact_type(x.dtype if hasattr(x, "dtype") else jnp.asarray(x).dtype)
    wide = common_type(dtype, jnp.float32)
    x = apply_elementwise("standardize", lambda x: jnp.asarray(x).astype(wide), x)

    def average(x: ArrayLike) -> AnyArray:
        return REDUCTIONS["mean"](x, axis, keepdims=True, where=where)

    if mean is None:
        mean = average(x)
    if variance is None and algorithm == "stable":
        squares = apply_elementwise("standardize", lambda x, m: jnp.square(x - m), x, mean)
        variance = average(squares)
    elif variance is None:
        squares = average(apply_elementwise("standardize", jnp.square, x))
        variance = apply_elementwise(
            "standardize", lambda s, m: jnp.maximum(s - jnp.square(m), 0), squares, mean
        )

    def compute(x: jax.Array, *others: jax.typing.ArrayLike) -> jax.Array:
        mean, variance, epsilon = others
        return ((x - mean) * lax.rsqrt(jnp.asarray(variance + epsilon, wide))).astype(dtype)

    return apply_elementwise("standardize", compute, x, mean, variance, epsilon)


@operation(explicit=Explicit.AS_JAX, scope=True, on_blocks=True)
def batch_norm(
    x: ArrayLike,
    axis: AxisSpec,
    *,
    scale: ArrayLike | None = None,
    bias: ArrayLike | None = None,
    mean: ArrayLike | None = None,
    var: ArrayLike | None = None,
    epsilon: float = 1e-5,
    where: ArrayLike | None = None,
) -> tuple[AnyArray, Moments]:
    """Normalize to mean 0 and variance 1 over `axis`, and return the moments too.

    In training the moments are computed from `x`, over the complete axis even if it is sharded. You
    keep a moving average of them (`update_moments`). In inference you pass that average. The
    function has no state.

    Args:
      x: an array, named or not.
      axis: the axes to normalize over: a positional axis, an axis name, or a tuple of both, such as
        `("batch", "row", "column")`.
      scale: an array that broadcasts by name, applied after the normalization; by default `None`.
      bias: an array that broadcasts by name, by default `None`.
      mean: the mean to use instead of the mean of `x`, with `var`; by default `None`.
      var: the variance to use instead of the variance of `x`, with `mean`; by default `None`.
      epsilon: the number added to the variance, by default 1e-5.
      where: a boolean array, named or not, by default `None`; elements where it is false do not
        count in the moments.

    Returns:
      The normalized values, with the dtype of `x`, and the `Moments` used, without `axis` and in
      float32 (or float64).

    Communication: over a sharded axis, two all-reduces of the size of the mean; the gradient adds
    one. None if the moments are given.

    Raises:
      AxisNotFoundError: `x` lacks the axis; or `scale`, `bias`, `mean` or `var` is probably
        misspelled, as for `layer_norm`.

    >>> import jax.numpy as jnp, namedax as nx
    >>> x = nx.named(jnp.array([[1.0, 10.0], [3.0, 30.0]]), ["batch", "k"])
    >>> y, now = nx.nn.batch_norm(x, "batch")
    >>> nx.positional(now.mean, ["k"])
    Array([ 2., 20.], dtype=float32)
    >>> y, _ = nx.nn.batch_norm(x, "batch", mean=now.mean, var=now.var)  # as in inference
    >>> nx.positional(y, ["batch", "k"]).round(3)
    Array([[-1., -1.],
           [ 1.,  1.]], dtype=float32)
    """
    op, epsilon = "batch_norm", _epsilon("batch_norm", epsilon)
    if (mean is None) != (var is None):
        raise ArgumentError(
            f"{op}: mean= and var= must be passed together. Pass both (inference) or neither"
            " (training)."
        )
    _check_names(op, x, scale=scale, bias=bias, mean=mean, var=var)
    if mean is not None and var is not None:
        reduction_plan(op, x, axis, supports_padding=True)  # raises for a missing axis
        dtype: Any = inexact_type(x.dtype if hasattr(x, "dtype") else jnp.asarray(x).dtype)
        wide = common_type(dtype, jnp.float32)
        x = apply_elementwise(op, lambda x: jnp.asarray(x).astype(wide), x)
        values = _standardize_by(x, axis, mean, var, epsilon, None, "stable")
        return _affine(op, values, scale, bias, dtype), Moments(mean, var)
    plan, dtype = _plan(op, x, axis, where)
    data, *found = _normalize(plan, _two_passes(plan), epsilon)
    values = _affine(op, plan.finish_whole(data), scale, bias, dtype)
    return values, Moments(*(plan.finish(lax.squeeze(moment, plan.axes)) for moment in found))


@operation(explicit=Explicit.AS_JAX, scope=True, on_blocks=True)
def moments(x: ArrayLike, axis: AxisSpec, *, where: ArrayLike | None = None) -> Moments:
    """Compute mean and variance over `axis`, in float32 (or float64).

    Args:
      x: an array, named or not.
      axis: a positional axis, an axis name, or a tuple of both.
      where: a boolean array, named or not, by default `None`; elements where it is false do not
        count.

    Returns:
      The `Moments`, without `axis`.

    Communication: over a sharded axis, two all-reduces of the size of the mean; the gradient adds
    none.

    Raises:
      AxisNotFoundError: `x` lacks the axis.

    >>> import jax.numpy as jnp, namedax as nx
    >>> nx.nn.moments(nx.named(jnp.array([1.0, 3.0]), ["batch"]), "batch")
    Moments(mean=Array(2., dtype=float32), var=Array(1., dtype=float32))
    """
    plan, _ = _plan("moments", x, axis, where)
    values, mask, plan = plan.data, plan.where, plan.bare()
    statistics = _two_passes(plan)

    @jax.custom_jvp
    def both(data: jax.Array, mask: jax.Array | None) -> tuple[jax.Array, jax.Array]:
        return statistics(data, mask)[:2]

    @both.defjvp
    def _jvp(
        primals: Masked, tangents: tuple[jax.Array, ...]
    ) -> tuple[tuple[jax.Array, jax.Array], tuple[jax.Array, jax.Array]]:
        (data, mask), tangent = primals, tangents[0]
        mean, var, count = statistics(data, mask)
        of_mean, of_square = _sums(plan, mask, tangent / count, 2 * tangent * (data - mean) / count)
        return (mean, var), (of_mean, of_square)

    return Moments(*(plan.finish(lax.squeeze(moment, plan.axes)) for moment in both(values, mask)))


@checks_signature
@in_program
def update_moments(average: Moments, new: Moments, momentum: float | jax.Array = 0.9) -> Moments:
    """Update a moving average of moments, without gradients.

    Args:
      average: the average so far.
      new: the moments of this step, as `batch_norm` returns them.
      momentum: the weight of `average`, by default 0.9; `new` has the weight `1 - momentum`.

    Communication: none.

    >>> import namedax as nx
    >>> from namedax.nn import Moments, update_moments
    >>> average = update_moments(Moments(1.0, 2.0), Moments(2.0, 4.0), 0.5)
    >>> float(average.mean), float(average.var)
    (1.5, 3.0)
    """

    def blend(old: jax.Array, new: jax.typing.ArrayLike) -> jax.Array:
        return lax.stop_gradient(momentum * old + (1 - momentum) * jnp.asarray(new))

    pairs = zip(average, new, strict=True)
    return Moments(*(apply_elementwise("update_moments", blend, *pair) for pair in pairs))


# --- dropout --------------------------------------------------------------------------------------


@operation("shared", explicit=Explicit.AS_JAX, scope=True)
def dropout(
    x: ArrayLike,
    key: ArrayLike,
    rate: ArrayLike,
    *,
    shared: AxisSpec = (),
    deterministic: bool = False,
) -> LikeArguments:
    """Set each element to zero with probability `rate`, and divide the others by `1 - rate`.

    Source: Srivastava et al. 2014, "Dropout".

    Args:
      x: an array, named or not.
      key: a random key, or a named array of keys: one for each instance along its names.
      rate: the probability of a zero, at least 0 and less than 1; a number, or an array that
        broadcasts by name.
      shared: an axis name, a positional axis, or a tuple of both, along which elements are kept or
        dropped together; by default none.
      deterministic: if `True`, return `x` unchanged, as in inference; by default `False`.

    Returns:
      An array with the dtype and the axes of `x`. The choice of zeros is the same for every
      `axis_resources` and every physical order of `x`. The kept elements are the true elements of
      `nx.random.bernoulli(key, jnp.float32(1 - rate), x.shape, named_shape=...)`. Its named axes
      are the axes of `x` without the axes of `key` and the shared axes, in alphabetical order.
      Shared positional axes have size 1.

    Communication: none. In a mapped body every device draws for the complete array and keeps its
    block (see `nx.random`). To avoid this cost, pass one key for each instance of a mapped axis,
    `nx.random.split(key, named_shape={"batch": 128})`. Then a device draws for its own instances
    only.

    Raises:
      AxisNotFoundError: `x` lacks an axis of `shared`.

    >>> import jax, jax.numpy as jnp, namedax as nx
    >>> x = nx.named(jnp.ones((4, 1000)), ["batch", "k"])
    >>> y = nx.nn.dropout(x, jax.random.key(0), 0.25, shared="batch")
    >>> float(nx.max(y, ("batch", "k"))), bool(nx.all(y["batch", 0] == y["batch", 3], "k"))
    (1.3333333730697632, True)
    """
    op = "dropout"
    if not isinstance(x, NamedArray):
        x = jnp.asarray(x)
    if not jnp.issubdtype(x.dtype, jnp.inexact):
        raise ArgumentTypeError(
            f"{op}: x must be floating-point, got {type_text(x)}. Convert it first with x.astype."
        )
    if isinstance(rate, numbers.Real) and not 0 <= rate < 1:
        raise ArgumentError(
            f"{op}: rate, the probability of a zero, must be at least 0 and less than 1, got"
            f" {format_value(rate)}."
        )
    if deterministic or (isinstance(rate, numbers.Real) and rate == 0):
        return x
    block: AnyArray = to_local(x, op, ambient())
    drawn, shape = _drawn(op, block, key, shared)
    noise = draw(
        op, lambda key, shape: jax.random.uniform(key, shape, jnp.float32), key, drawn, shape
    )

    def compute(x: jax.Array, noise: jax.Array, rate: jax.typing.ArrayLike) -> jax.Array:
        keep = 1 - jnp.asarray(rate, common_type(x.dtype, jnp.float32))
        return jnp.where(
            noise < keep.astype(jnp.float32), x / keep.astype(x.dtype), jnp.zeros((), x.dtype)
        )

    return apply_elementwise(op, compute, block, noise, rate)


def _drawn(
    op: str, x: AnyArray, key: ArrayLike, shared: AxisSpec
) -> tuple[dict[Hashable, int], Sequence[int]]:
    """Return the named sizes and the positional shape of the random numbers."""
    sizes = dict(x.named_shape) if isinstance(x, NamedArray) else {}
    shape = list(x.shape)
    for entry in shared if isinstance(shared, (tuple, list)) else (shared,):
        if isinstance(entry, (int, np.integer)):
            if not -len(shape) <= entry < len(shape):
                raise PositionalAxisError(
                    f"{op}: shared has the positional axis {entry}, which is out of range for"
                    f" {type_text(x)}. Write the name if it has one."
                )
            shape[entry] = 1
        elif not is_name(entry) or entry not in sizes:
            raise_not_found(op, entry, type_text(x), list(sizes), "shared= names axes of x.")
        else:
            del sizes[entry]
    own = set(dims_of(key)) if isinstance(key, NamedArray) else set()
    names = sorted(
        (name for name in sizes if name not in own), key=lambda name: (str(name), repr(name))
    )
    return {name: sizes[name] for name in names}, shape


FUNCTIONS: dict[str, Callable[..., Any]] = {
    f.__name__: f
    for f in (
        batch_norm,
        dropout,
        layer_norm,
        moments,
        rms_norm,
        standardize,
        update_moments,
        Moments,
    )
}
