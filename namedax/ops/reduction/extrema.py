"""Extrema and their indices: `max`, `argmax`, both at once (`max_with_index`), and minima."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from namedax.core import cpu_workarounds
from namedax.core.annotations import AnyArray, ArrayLike, AxisSpec
from namedax.core.array import NamedArray, dims_of
from namedax.core.element_types import accumulate, extreme, weak_as
from namedax.core.names import DType
from namedax.core.region import ambient
from namedax.core.reshape import as_one
from namedax.core.variance import cast_data, varying
from namedax.errors import ArgumentError, PositionalAxisError, format_value
from namedax.ops.operands.axes import reject_order_of_storage
from namedax.ops.operands.broadcasting import make_result
from namedax.ops.operands.operation import REDUCED, SEARCHED, Explicit, operation
from namedax.ops.reduction.cumulative import flatten_positional
from namedax.ops.reduction.plan import ReductionPlan, reduction_plan, run_reduction
from namedax.resources import communication as comm

__all__ = ["argmax", "argmin", "max", "max_with_index", "min", "min_with_index", "minmax"]


@functools.lru_cache(maxsize=1024)
def sharded_extremum(
    largest: bool, axes: tuple[int, ...], mesh_axes: tuple[str, ...]
) -> Callable[..., Any]:
    """Build the maximum or minimum over `axes` (kept, with size 1) and `mesh_axes`.

    Ties share the gradient, as in `jnp`. Its arguments are the data, with the least (or greatest)
    value in padding, and a mask of real elements or `None`. The mask excludes padding from the
    ties. The forward pass is one all-reduce. The tangent adds two: for the number of ties, and for
    the sum of the tangents.
    """
    combine = comm.pmax if largest else comm.pmin
    reduce = functools.partial(cpu_workarounds.extremum, axes=axes, largest=largest)
    devices, loops = comm.loops_among(mesh_axes)

    @jax.custom_jvp
    def extremum(data: jax.Array, real: jax.Array | None) -> jax.Array:
        if mesh_axes:
            return combine(reduce(data), mesh_axes)
        # Without mesh axes, XLA's partitioner may reduce between devices.
        return comm.in_order(data, largest, reduce) if comm.is_partitioned() else reduce(data)

    @extremum.defjvp
    def _jvp(primals: tuple[Any, Any], tangents: tuple[Any, Any]) -> tuple[Any, Any]:
        (data, real), tangent = primals, tangents[0]
        result = extremum(data, real)
        best = lax.stop_gradient(reduce(data)) if loops else result
        hits = data == best
        hits = hits if real is None else hits & real
        count = jnp.sum(hits, axes, dtype=tangent.dtype, keepdims=True)
        if loops:
            count, wins = among_steps(
                best, count, loops, lambda best: combine(best, devices), largest
            )
            hits = hits & (wins > 0)
        count = comm.psum(count, devices)
        # If the extremum is NaN, no element equals it and each share is NaN: 0 / 0, as in `jnp`,
        # which XLA may turn into 0.
        others = jnp.where(count > 0, jnp.zeros((), count.dtype), jnp.asarray(jnp.nan, count.dtype))
        shares = jnp.where(hits, 1 / count, others)
        return result, comm.psum(jnp.sum(shares * tangent, axes, keepdims=True), mesh_axes)

    return extremum


def among_steps(
    best: jax.Array,
    count: jax.Array,
    loops: tuple[str, ...],
    combine: Callable[[Any], Any],
    largest: bool,
) -> tuple[Any, Any]:
    """Return the number of ties in the steps that have the extremum, and 1 if this step has it.

    The second result is 0 for the other steps.

    Args:
      best: the extremum of this step.
      count: the number of elements of this step that equal it.
      loops: the axes of the loops.
      combine: combines the extremum of all steps, with a leading axis, over all devices.
      largest: `True` for a maximum.
    """
    offers = comm.of_all_steps(best, loops)
    wins = (offers == combine((jnp.max if largest else jnp.min)(offers, 0, keepdims=True))).astype(
        count.dtype
    )
    return jnp.sum(wins * comm.of_all_steps(count, loops), 0), comm.of_this_step(wins, loops)


def _extremum(plan: ReductionPlan, largest: bool, initial: jax.Array | None = None) -> jax.Array:
    # An empty array has no NaN to lose.
    may_lose = plan.data.size > 0 and (
        jnp.iscomplexobj(plan.data)
        or (
            jnp.issubdtype(plan.data.dtype, jnp.floating)
            and (comm.is_partitioned() or cpu_workarounds.on_cpus())
        )
    )
    if not plan.mesh_axes and not may_lose:
        return (jnp.max if largest else jnp.min)(
            plan.data, plan.axes, keepdims=plan.keepdims, initial=initial, where=plan.where
        )
    data = plan.data
    if initial is not None:
        initial = jnp.asarray(initial, data.dtype)
    if plan.where is not None:
        # Not `initial`, which may equal an element: masked elements would then share that element's
        # gradient.
        data = jnp.where(plan.where, data, extreme(data.dtype, largest))
    if initial is not None and data.size == 0:  # an empty array has no extremum, and no gradient
        shape = [1 if i in plan.axes else n for i, n in enumerate(data.shape)]
        result = cast_data(
            jnp.broadcast_to(initial, shape), varying(data).difference(plan.mesh_axes)
        )
        return result if plan.keepdims else lax.squeeze(result, plan.axes)
    result = sharded_extremum(largest, plan.axes, plan.mesh_axes)(data, plan.real())
    if initial is not None and jnp.iscomplexobj(data):
        both = jnp.stack(jnp.broadcast_arrays(result, initial))
        result = lax.squeeze(cpu_workarounds.extremum(both, (0,), largest), (0,))
    elif initial is not None:
        result = (jnp.maximum if largest else jnp.minimum)(result, initial)
    return result if plan.keepdims else lax.squeeze(result, plan.axes)


def _run_extremum(
    op: str,
    largest: bool,
    x: ArrayLike,
    axis: AxisSpec,
    keepdims: bool,
    initial: ArrayLike | None,
    where: ArrayLike | None,
) -> AnyArray:
    if where is not None and initial is None:
        raise ArgumentError(
            f"{op}: where= may exclude all elements, and the {op} of no elements is undefined. Pass"
            f" initial=, which takes part in the {op}."
        )
    return run_reduction(op, _extremum, x, axis, keepdims, where, largest, initial=initial)


def _arg_extremum(plan: ReductionPlan, largest: bool) -> jax.Array:
    # NaN precedes all values, and the first of equal elements wins. Each device offers its winner
    # and its index in the complete axis. One all-reduce finds the best value, one the least index
    # of it. A NaN offers an index below zero.
    if not plan.mesh_axes and len(plan.axes) == 1:
        return _find(plan.data, plan.axes[0], largest, plan.keepdims)
    value, winner = _local_winner(_without_padding(plan, largest), largest)
    if plan.mesh_axes:
        _, winner = _winner(value, winner, plan, largest)
    return winner if plan.keepdims else lax.squeeze(winner, plan.axes)


def _find(data: jax.Array, axis: int, largest: bool, keepdims: bool = True) -> jax.Array:
    """Return the index of the first extremum along an axis, or of the first NaN.

    `jnp.argmax` does not support complex numbers.
    """
    if jnp.iscomplexobj(data):
        best = cpu_workarounds.extremum(data, (axis % data.ndim,), largest)
        return jnp.argmax((data == best) | jnp.isnan(data), axis, keepdims=keepdims)
    return (jnp.argmax if largest else jnp.argmin)(data, axis, keepdims=keepdims)


def _without_padding(plan: ReductionPlan, largest: bool) -> ReductionPlan:
    """Replace padding in the plan by the least (or greatest) value.

    Padding follows all elements, so an equal real element wins.
    """
    real = plan.real()
    return (
        plan
        if real is None
        else plan.replace(data=jnp.where(real, plan.data, extreme(plan.data.dtype, largest)))
    )


def _local_winner(plan: ReductionPlan, largest: bool) -> tuple[Any, Any]:
    """Return the extremum of the block over the axes (kept, with size 1), and its global index.

    The index is row-major over the axes.
    """
    if len(plan.axes) == 1:
        (axis,) = plan.axes
        index = _find(plan.data, axis, largest)
        value = jnp.take_along_axis(plan.data, index, axis)
        if plan.mesh_axes:
            index = (
                index + comm.block_index(plan.mesh_axes).astype(index.dtype) * plan.data.shape[axis]
            )
        return value, index
    rest = [i for i in range(plan.data.ndim) if i not in plan.axes]
    flat = lax.transpose(plan.data, (*rest, *plan.axes))
    flat = as_one(flat, len(rest), len(plan.axes))
    found = _find(flat, -1, largest)
    value, place = jnp.take_along_axis(flat, found, -1)[..., 0], found[..., 0]
    index = jnp.zeros((), place.dtype)
    region = ambient()
    blocks = [plan.data.shape[axis] for axis in plan.axes]
    for i, (axis, n) in enumerate(zip(plan.axes, blocks, strict=True)):
        along = place // math.prod(blocks[i + 1 :]) % n
        if region is not None and plan.mesh_axes and axis in plan.named:
            placement = region.place(plan.dims_in[axis])
            if placement:
                along = along + comm.block_index(placement).astype(along.dtype) * n
            n = region.global_size(plan.dims_in[axis], n)
        index = index * n + along
    kept = tuple(sorted(plan.axes))
    return jnp.expand_dims(value, kept), jnp.expand_dims(index, kept)


def _winner(
    value: jax.Array, index: jax.Array, plan: ReductionPlan, largest: bool
) -> tuple[Any, Any]:
    """Return the extremum of the offers of all devices, and its index."""
    devices, loops = comm.loops_among(plan.mesh_axes)
    values, indices = (
        comm.of_all_steps(part, loops) if loops else part[None] for part in (value, index)
    )
    best = (comm.pmax if largest else comm.pmin)(
        cpu_workarounds.extremum(values, (0,), largest)
        if jnp.iscomplexobj(values)
        else (jnp.max if largest else jnp.min)(values, 0, keepdims=True),
        devices,
    )
    # The first NaN has the most negative offer; if there is one, no value equals `best`.
    offers = jnp.where(
        jnp.isnan(values), indices - plan.count, jnp.where(values == best, indices, plan.count)
    )
    winner = comm.pmin(cast_data(jnp.min(offers, 0), devices), devices)
    return lax.squeeze(best, (0,)), jnp.where(winner < 0, winner + plan.count, winner)


def _extremum_with_index(plan: ReductionPlan, largest: bool) -> tuple[Any, Any]:
    value, index = _local_winner(_without_padding(plan, largest), largest)
    if plan.mesh_axes:
        mesh_axes = plan.mesh_axes  # the rule must not hold the plan, which has arrays

        @jax.custom_jvp
        def attach(
            best: jax.Array, winner: jax.Array, value: jax.Array, index: jax.Array
        ) -> jax.Array:
            return best

        @attach.defjvp
        def _jvp(primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[Any, Any]:
            best, winner, _, index = primals
            return best, comm.psum(jnp.where(index == winner, tangents[2], 0), mesh_axes)

        # For JAX the extremum is a function of the offered values, without the collectives that
        # found it.
        best, winner = _winner(lax.stop_gradient(value), index, plan, largest)
        value, index = attach(lax.stop_gradient(best), winner, value, index), winner
    return lax.squeeze(weak_as(value, plan.data), plan.axes), lax.squeeze(index, plan.axes)


@operation(requires_axis=REDUCED, explicit=Explicit.AS_JAX, cached=True, on_blocks=True)
def max(
    x: ArrayLike,
    axis: AxisSpec = None,
    *,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> AnyArray:
    """Take the maximum over positional and named axes.

    A NaN is the maximum. Ties share the gradient equally, as in `jnp`, sharded or not.

    Args:
      x: an array, named or not.
      axis: a positional axis, an axis name, or a tuple of both, as for `sum`; by default `None`,
        all positional axes.
      keepdims: if `True`, reduced positional axes remain with size 1; by default `False`. Reduced
        named axes are removed.
      initial: a scalar that takes part in the maximum, by default `None`; required with `where`.
      where: a boolean array, named or not, by default `None`; elements where it is false are
        excluded.

    Returns:
      An array with the remaining axes; a plain `jax.Array` if no named axis remains.

    Communication: over a sharded axis, one all-reduce of the result. The gradient adds one, which
    counts the ties.

    Raises:
      AxisNotFoundError: `x` has no axis of that name.

    >>> import jax.numpy as jnp, namedax as nx
    >>> float(nx.max(nx.named(jnp.array([2.0, 5.0, 4.0]), ["k"]), "k"))
    5.0
    """
    return _run_extremum("max", True, x, axis, keepdims, initial, where)


@operation(requires_axis=REDUCED, explicit=Explicit.AS_JAX, cached=True, on_blocks=True)
def min(
    x: ArrayLike,
    axis: AxisSpec = None,
    *,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> AnyArray:
    """Take the minimum over positional and named axes.

    A NaN is the minimum. Ties share the gradient equally, as in `jnp`, sharded or not.

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

    Communication: as for `nx.max`.

    Raises:
      AxisNotFoundError: `x` has no axis of that name.

    >>> import jax.numpy as jnp, namedax as nx
    >>> float(nx.min(nx.named(jnp.array([2.0, 5.0, 4.0]), ["k"]), "k"))
    2.0
    """
    return _run_extremum("min", False, x, axis, keepdims, initial, where)


@operation(requires_axis=REDUCED, on_blocks=True)
def minmax(
    a: ArrayLike,
    axis: AxisSpec = None,
    *,
    keepdims: bool = False,
    initial: ArrayLike | tuple[ArrayLike, ArrayLike] | None = None,
    where: ArrayLike | None = None,
) -> tuple[AnyArray, AnyArray]:
    """Return the minimum and the maximum over positional and named axes; `jnp.minmax` of JAX 0.12.

    Args:
      a: an array, named or not.
      axis: the axes, as for `max`; by default `None`, all positional axes.
      keepdims: as for `max`; by default `False`.
      initial: one scalar for both, or a pair, by default `None`; required with `where`.
      where: as for `max`; by default `None`.

    Communication: over sharded axes, that of `min` and of `max`.

    Raises:
      AxisNotFoundError: `a` lacks a name.

    >>> import jax.numpy as jnp, namedax as nx
    >>> x = nx.named(jnp.array([3.0, 1.0, 2.0]), ["k"])
    >>> (nx.min(x, "k"), nx.max(x, "k"))
    (Array(1., dtype=float32), Array(3., dtype=float32))
    """
    low, high = initial if isinstance(initial, tuple) else (initial, initial)
    return (
        _run_extremum("min", False, a, axis, keepdims, low, where),
        _run_extremum("max", True, a, axis, keepdims, high, where),
    )


def _run_arg(op: str, largest: bool, x: ArrayLike, axis: AxisSpec, keepdims: bool) -> AnyArray:
    reject_order_of_storage(op, x, axis)
    if isinstance(axis, set) and len(axis) > 1:
        raise PositionalAxisError(
            f"{op}: axis={format_value(axis)} has no order for the index. Write a tuple."
        )
    if isinstance(axis, (tuple, list)) and not axis:
        raise PositionalAxisError(
            f"{op}: axis={format_value(axis)} must contain at least one positional or named axis."
        )
    if axis is not None:
        return run_reduction(op, _arg_extremum, x, axis, keepdims, None, largest)
    rank = dims_of(x).count(None)
    if rank != 1:
        x = flatten_positional(op, x)
    result = run_reduction(op, _arg_extremum, x, 0, False, None, largest)
    return _append_positional(result, rank) if keepdims else result


def _append_positional(x: AnyArray, count: int) -> AnyArray:
    """Append `count` positional axes of size 1 to `x`."""
    data = x._data if isinstance(x, NamedArray) else x
    return make_result(data.reshape(data.shape + (1,) * count), dims_of(x) + (None,) * count)


@operation(requires_axis=SEARCHED, explicit=Explicit.KEPT, cached=True, on_blocks=True)
def argmax(x: ArrayLike, axis: AxisSpec = None, *, keepdims: bool = False) -> AnyArray:
    """Return the index of the first maximum along a positional or named axis.

    Along a sharded axis the index refers to the complete axis, not to the block.

    Args:
      x: an array, named or not.
      axis: a positional or named axis; `None` (default) flattens the positional axes. Along several
        axes, a tuple, the index is row-major in the given order. `...` must stand for a single
        axis, since named axes have no order. Required if every axis is named.
      keepdims: if `True`, reduced positional axes remain with size 1; by default `False`. Reduced
        named axes are removed.

    Returns:
      Integers with the remaining axes.

    Communication: over a sharded axis, two all-reduces of the size of the result.

    Raises:
      AxisNotFoundError: `x` has no axis of that name.

    >>> import jax.numpy as jnp, namedax as nx
    >>> int(nx.argmax(nx.named(jnp.array([2.0, 5.0, 4.0]), ["k"]), "k"))
    1
    """
    return _run_arg("argmax", True, x, axis, keepdims)


@operation(requires_axis=SEARCHED, explicit=Explicit.KEPT, cached=True, on_blocks=True)
def argmin(x: ArrayLike, axis: AxisSpec = None, *, keepdims: bool = False) -> AnyArray:
    """Return the index of the first minimum along a positional or named axis.

    Along a sharded axis the index refers to the complete axis, not to the block.

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
    >>> int(nx.argmin(nx.named(jnp.array([2.0, 5.0, 4.0]), ["k"]), "k"))
    0
    """
    return _run_arg("argmin", False, x, axis, keepdims)


class WithIndex(NamedTuple):
    """An extremum and its index."""

    values: Any
    indices: Any


def _run_with_index(op: str, largest: bool, x: ArrayLike, axis: AxisSpec) -> WithIndex:
    several = axis is ... and isinstance(x, NamedArray) and len(x._dims) > 1
    if (
        axis is None
        or several
        or isinstance(axis, list)
        or (isinstance(axis, tuple) and len(axis) != 1)
    ):
        raise PositionalAxisError(
            f"{op}: axis={format_value(axis)} must be one positional or named axis."
        )
    plan = reduction_plan(op, x, axis, supports_padding=True)

    def of(data: jax.Array, dtype: DType | None) -> tuple[Any, Any]:
        return _extremum_with_index(plan.replace(data=data), largest)

    values, indices = accumulate(op, of, plan.data)
    return WithIndex(plan.finish(values), plan.finish(indices))


@operation(explicit=Explicit.KEPT)
def max_with_index(x: ArrayLike, axis: AxisSpec) -> WithIndex:
    """Return the maximum along one positional or named axis, and its first index.

    Args:
      x: an array, named or not.
      axis: a positional or named axis.

    Returns:
      `values` and `indices`, both without the axis. The gradient of a value goes to the element at
      the index; `nx.max` divides it among equal elements.

    Communication: over a sharded axis, two all-reduces of the result's size, as for `argmax` alone;
    the gradient adds none.

    Raises:
      PositionalAxisError: `axis` is not a single axis.
      AxisNotFoundError: `x` lacks the axis.

    >>> import jax.numpy as jnp, namedax as nx
    >>> value, index = nx.max_with_index(nx.named(jnp.array([2.0, 5.0, 4.0]), ["k"]), "k")
    >>> float(value), int(index)
    (5.0, 1)
    """
    return _run_with_index("max_with_index", True, x, axis)


@operation(explicit=Explicit.KEPT)
def min_with_index(x: ArrayLike, axis: AxisSpec) -> WithIndex:
    """Return the minimum along one positional or named axis, and its first index.

    Args:
      x: an array, named or not.
      axis: a positional or named axis.

    Returns:
      `values` and `indices`, both without the axis; gradients as for `nx.max_with_index`.

    Communication: as for `nx.max_with_index`.

    Raises:
      PositionalAxisError: `axis` is not a single axis.
      AxisNotFoundError: `x` lacks the axis.

    >>> import jax.numpy as jnp, namedax as nx
    >>> value, index = nx.min_with_index(nx.named(jnp.array([2.0, 5.0, 4.0]), ["k"]), "k")
    >>> float(value), int(index)
    (2.0, 0)
    """
    return _run_with_index("min_with_index", False, x, axis)
