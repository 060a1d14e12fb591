"""Activations, and softmax over named axes, in the namespace `nx.nn`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable

import jax
import jax.numpy as jnp

from namedax.core.annotations import AnyArray, ArrayLike, AxisSpec, LikeArguments
from namedax.core.element_types import accumulate, as_inexact, extreme
from namedax.core.error_function import gelu
from namedax.core.functions import signature_of
from namedax.core.jax_docstrings import documented
from namedax.core.names import DType
from namedax.core.variance import cast_data
from namedax.messages.call_errors import bound as bound_arguments
from namedax.messages.call_errors import check_flags, flags_of, reject_miscall
from namedax.messages.tracebacks import shorten_eager
from namedax.ops.elementwise import apply_elementwise, elementwise_call
from namedax.ops.operands import kernels
from namedax.ops.operands.axes import axis_key
from namedax.ops.operands.operation import Explicit, elementwise_operation, operation
from namedax.ops.reduction.computations import sharded_maximum
from namedax.ops.reduction.plan import ReductionPlan, reduction_plan
from namedax.resources import communication as comm

__all__ = ["ACTIVATIONS", "log_softmax", "softmax"]


def _activation(name: str) -> Callable[..., AnyArray]:
    function = gelu if name == "gelu" else getattr(jax.nn, name)
    signature = signature_of(function)

    of_one = elementwise_call(function, __name__)

    def operate(x: ArrayLike) -> AnyArray:
        return kernels.run_elementwise(name, of_one, (), x)

    operate.__name__ = name
    shortcut = elementwise_operation(operate)

    def of_bound(
        op: str, arrays: tuple[str, ...], static: tuple[tuple[str, bool], ...], *operands: ArrayLike
    ) -> AnyArray:
        def call(*datas: jax.Array) -> jax.Array:
            filled = inspect.BoundArguments(
                signature(), dict(zip(arrays, datas, strict=True)) | dict(static)
            )
            return function(*filled.args, **filled.kwargs)

        return apply_elementwise(op, call, *operands)

    @functools.wraps(function, updated=())
    def lifted(*args: ArrayLike, **kwargs: ArrayLike) -> AnyArray:
        try:
            if len(args) == 1 and not kwargs:
                return shortcut(args[0])
            check_flags(name, flags_of(function), args, kwargs)
            # Arguments that are numbers or arrays may be named; boolean options (`approximate`) are
            # static.
            bound = bound_arguments(name, signature(), args, kwargs).arguments
            static = tuple((k, v) for k, v in bound.items() if isinstance(v, bool))
            arrays = tuple(k for k, v in bound.items() if not isinstance(v, bool))
            try:
                return kernels.run_elementwise(
                    name, of_bound, (arrays, static), *(bound[k] for k in arrays)
                )
            except Exception as error:
                reject_miscall(name, function, args, kwargs, error)
                raise
        except Exception as error:
            shorten_eager(error)
            raise

    lifted.__name__ = lifted.__qualname__ = name
    lifted.__module__ = "namedax.nn"  # where pickle finds it by its name
    lifted.__doc__ = documented(
        function,
        f"The named version of `jax.nn.{name}`, with the same arguments. Array arguments may have\n"
        "named axes and broadcast by name.",
        names="It has the names of all array arguments.",
    )
    return lifted


ACTIVATIONS: dict[str, Callable[..., AnyArray]] = {
    name: _activation(name)
    for name in (
        "relu relu6 sigmoid softplus sparse_plus sparse_sigmoid soft_sign silu swish log_sigmoid"
        " leaky_relu hard_sigmoid hard_silu hard_swish hard_tanh elu celu selu gelu squareplus mish"
        " tanh"
    ).split()
    if hasattr(jax.nn, name)
}


def _normalized(
    op: str,
    x: ArrayLike,
    axis: AxisSpec,
    where: ArrayLike | None,
    local: Callable[..., jax.Array],
    sharded: Callable[[ReductionPlan], jax.Array],
) -> AnyArray:
    operands = (x,) if where is None else (x, where)
    return kernels.run(
        op, _normalize, axis_key(op, axis), (local, sharded), *operands, only_axes=True
    )


def _normalize(
    op: str,
    axis: AxisSpec,
    local: Callable[..., jax.Array],
    sharded: Callable[[ReductionPlan], jax.Array],
    x: ArrayLike,
    *mask: ArrayLike,
) -> AnyArray:
    # Planned as a reduction over `axis`, but the result keeps all axes of the argument.
    plan = reduction_plan(op, x, axis, where=mask[0] if mask else None, supports_padding=True)

    def normalize(data: jax.Array, dtype: DType | None) -> jax.Array:
        data = as_inexact(data)
        if plan.mesh_axes:
            return sharded(plan.replace(data=data))
        return local(data, axis=plan.axes, where=plan.where)

    return plan.finish_whole(accumulate(op, normalize, plan.data))


def _sum_over(plan: ReductionPlan, data: jax.Array, mask: jax.Array | None) -> jax.Array:
    total = comm.psum(jnp.sum(data, plan.axes, keepdims=True, where=mask), plan.mesh_axes)
    return cast_data(total, plan.mesh_axes)  # it combines with values that vary there


def _masked(data: jax.Array, mask: jax.Array | None, value: jax.typing.ArrayLike) -> jax.Array:
    return data if mask is None else jnp.where(mask, data, value)


@operation(explicit=Explicit.AS_JAX, cached=True)
def softmax(x: ArrayLike, axis: AxisSpec = -1, where: ArrayLike | None = None) -> LikeArguments:
    """Compute the softmax over an axis or a tuple of axes: the elements are positive and sum to 1.

    Args:
      x: an array, named or not.
      axis: the axis or axes to normalize over, positional or named; by default -1.
      where: a boolean array, named or not, by default `None`; elements where it is false are 0 and
        do not count.

    Communication: over a sharded axis, two all-reduces of the reduced size, for the maximum and for
    the sum; the gradient adds one.

    Raises:
      AxisNotFoundError: `x` lacks the axis.

    >>> import jax.numpy as jnp, namedax as nx
    >>> nx.positional(nx.nn.softmax(nx.named(jnp.zeros(4), ["k"]), "k"), ["k"])
    Array([0.25, 0.25, 0.25, 0.25], dtype=float32)
    """
    return _normalized("softmax", x, axis, where, jax.nn.softmax, _sharded_softmax)


def _sharded_softmax(plan: ReductionPlan) -> jax.Array:
    # The result in padding is a copy of the last real element under the original mask; the mask
    # without padding is for the sums.
    values, where, counted, plan = plan.data, plan.where, plan.of_real().where, plan.bare()

    @jax.custom_jvp
    def softmax(data: jax.Array, mask: jax.Array | None, counted: jax.Array | None) -> jax.Array:
        terms = jnp.exp(
            data - sharded_maximum(plan, _masked(data, counted, extreme(data.dtype, True)))
        )
        return _masked(terms / _sum_over(plan, terms, counted), mask, 0)

    @softmax.defjvp
    def _jvp(
        primals: tuple[jax.Array, jax.Array | None, jax.Array | None],
        tangents: tuple[jax.Array, ...],
    ) -> tuple[jax.Array, jax.Array]:
        result, tangent = softmax(*primals), tangents[0]
        return result, result * (tangent - _sum_over(plan, result * tangent, primals[2]))

    return softmax(values, where, counted)


@operation(explicit=Explicit.AS_JAX, cached=True)
def log_softmax(x: ArrayLike, axis: AxisSpec = -1, where: ArrayLike | None = None) -> LikeArguments:
    """Compute the logarithm of `softmax` without overflow.

    Args:
      x: an array, named or not.
      axis: the axis or axes to normalize over, positional or named; by default -1.
      where: a boolean array, named or not, by default `None`; elements where it is false are `-inf`
        and do not count.

    Returns:
      An array with the axes of `x`.

    Communication: as for `nx.nn.softmax`.

    Raises:
      AxisNotFoundError: `x` lacks the axis.

    >>> import jax.numpy as jnp, namedax as nx
    >>> round(float(nx.nn.log_softmax(nx.named(jnp.zeros(4), ["k"]), "k").data[0]), 4)
    -1.3863
    """
    return _normalized("log_softmax", x, axis, where, jax.nn.log_softmax, _sharded_log_softmax)


def _sharded_log_softmax(plan: ReductionPlan) -> jax.Array:
    values, where, counted, plan = plan.data, plan.where, plan.of_real().where, plan.bare()

    @jax.custom_jvp
    def log_softmax(
        data: jax.Array, mask: jax.Array | None, counted: jax.Array | None
    ) -> jax.Array:
        data = _masked(data, mask, -jnp.inf)
        shifted = data - sharded_maximum(plan, _masked(data, counted, extreme(data.dtype, True)))
        return _masked(
            shifted - jnp.log(_sum_over(plan, jnp.exp(shifted), counted)), mask, -jnp.inf
        )

    @log_softmax.defjvp
    def _jvp(
        primals: tuple[jax.Array, jax.Array | None, jax.Array | None],
        tangents: tuple[jax.Array, ...],
    ) -> tuple[jax.Array, jax.Array]:
        result, tangent, (_, mask, counted) = log_softmax(*primals), tangents[0], primals
        return result, _masked(
            tangent - _sum_over(plan, jnp.exp(result) * tangent, counted), mask, 0
        )

    return log_softmax(values, where, counted)
