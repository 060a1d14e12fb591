"""Reductions over axes, named or positional: the local reduction, then one collective for the names that are sharded.

`axis` takes an integer (a positional axis), a name, or a tuple of both (or a list, a set, a view of a dict); `None` means all positional
axes, as in JAX, where names are batch axes, and `...` all axes, named and positional. At the top level (`nx.sum`, not `nx.numpy.sum`) the
axis of an array without positional axes can not be left out (`axis_said`). The result has the remaining axes. What stays on one device is
`jnp`'s own function.

Costs over a name on mesh axes: one all-reduce of the result's size for sum, mean, max, min, any, all; two for argmax, argmin,
var, std and logsumexp; prod, for which XLA offers no all-reduce, gathers one partial product per device. The gradients add none,
but for max and min: they count their ties, one all-reduce more.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from namedax.core.annotations import Array, Axis
from namedax.core.array import NamedArray, dims_of, make_in_region
from namedax.core.element_types import as_inexact, inexact_type
from namedax.core.region import ambient
from namedax.core.variance import cast_data
from namedax.errors import ArgumentError, PositionalAxisError, check_options
from namedax.operands import compiled_ops
from namedax.operands.axes import as_in_jax, axis_key, axis_said
from namedax.operands.broadcasting import local_block, settled, wrap
from namedax.operands.nmap import explain_type_errors
from namedax.ops.reduction.site import Site, reduction_site
from namedax.resources import communication as comm

__all__ = ["REDUCTIONS", "WITH_INDEX", "sharded_maximum"]


def _run(
    op: str,
    reduce: Callable[..., Any],
    x: Any,
    axis: Axis,
    keepdims: bool,
    where: Any,
    *static: Hashable,
    initial: Any = None,
) -> Any:
    """Runs one reduction.

    `reduce(site, *static, initial)` returns the reduced data, with `keepdims` as in the site; `initial` is handed on only if the
    caller gave one.
    """
    try:
        hash((keepdims, static))
    except TypeError:
        check_options(op, keepdims=keepdims, **dict(zip(("dtype", "ddof"), static, strict=False)))
    operands = [x]
    if where is not None:
        operands.append(where)
    if initial is not None:
        operands.append(initial)
    with explain_type_errors:
        given = (reduce, keepdims, where is not None, initial is not None, *static)
        return compiled_ops.run(op, _reduce, axis_key(op, axis), given, *operands)


def _reduce(
    op: str, axis: Axis, reduce: Callable[..., Any], keepdims: bool, has_mask: bool, has_initial: bool, *more: Any
) -> Any:
    """`more`: what `reduce` is given beside the site, then the operands."""
    count = len(more) - 1 - has_mask - has_initial
    static, x, others = more[:count], more[count], more[count + 1 :]
    site = reduction_site(op, x, axis, keepdims, others[0] if has_mask else None)
    return site.finish(reduce(site, *static, *others[has_mask:]))


# --- sums -----------------------------------------------------------------------------------------------------------


def _sum(site: Site, dtype: Any = None, promote_integers: bool = True, initial: Any = None) -> Any:
    if not site.mesh_axes:
        return jnp.sum(
            site.data,
            site.axes,
            dtype=dtype,
            keepdims=site.keepdims,
            where=site.where,
            promote_integers=promote_integers,
            initial=initial,
        )
    local = jnp.sum(
        site.data, site.axes, dtype=dtype, keepdims=site.keepdims, where=site.where, promote_integers=promote_integers
    )
    total = comm.psum(local, site.mesh_axes)
    return total if initial is None else total + jnp.asarray(initial, total.dtype)


def _prod(site: Site, dtype: Any = None, promote_integers: bool = True, initial: Any = None) -> Any:
    options = {"dtype": dtype, "promote_integers": promote_integers}
    if not site.mesh_axes:
        return jnp.prod(site.data, site.axes, keepdims=site.keepdims, where=site.where, initial=initial, **options)
    local = jnp.prod(site.data, site.axes, keepdims=site.keepdims, where=site.where, **options)
    total = jnp.prod(comm.all_gather(local[None], 0, site.mesh_axes, "invarying"), 0, **options)
    return total if initial is None else total * jnp.asarray(initial, total.dtype)


def _mean_dtypes(data: Any, dtype: Any) -> tuple[Any, Any]:
    """The element types that `jnp.mean` and `jnp.var` compute in, and that of the mean."""
    result = inexact_type(data.dtype)
    result = result if dtype is None else jnp.empty(0, dtype).dtype
    return jnp.float32 if result in (jnp.float16, jnp.bfloat16) else result, result


def _sum_and_count(site: Site, dtype: Any) -> tuple[Any, Any]:
    """The sum, and the number of elements that it takes in: one all-reduce for both."""
    total = comm.psum(jnp.sum(site.data, site.axes, dtype=dtype, keepdims=site.keepdims, where=site.where), site.mesh_axes)
    if site.where is None:
        return total, jnp.asarray(site.count, dtype)
    # Of the same element type, so that XLA puts them into one.
    count = jnp.sum(site.where, site.axes, dtype=dtype, keepdims=site.keepdims)
    return total, comm.psum(cast_data(count, site.mesh_axes), site.mesh_axes)


def _mean(site: Site, dtype: Any = None) -> Any:
    if not site.mesh_axes:
        return jnp.mean(site.data, site.axes, dtype=dtype, keepdims=site.keepdims, where=site.where)
    wide, result = _mean_dtypes(site.data, dtype)
    if site.where is None:
        # Divided first: the sum of a narrow type might overflow, and travels as what it is.
        local = jnp.sum(site.data, site.axes, dtype=wide, keepdims=site.keepdims) / jnp.asarray(site.count, wide)
        return comm.psum(local.astype(result), site.mesh_axes)
    total, count = _sum_and_count(site, wide)
    return (total / count).astype(result)


def _sharded_var(site: Site, dtype: Any, ddof: Any) -> Any:
    """Variance, by one all-reduce for the mean and one for the squares. The gradient adds none.

    The derivative needs no derivative of the mean, since the deviations from it add up to zero. Automatic differentiation would
    not see that, and send the zeros.
    """
    wide, result = _mean_dtypes(site.data, dtype)
    if dtype is None and jnp.issubdtype(result, jnp.complexfloating):
        result = jnp.zeros((), result).real.dtype
    kept = dataclasses.replace(site.bare(), keepdims=True)

    def parts(data: Any, mask: Any) -> tuple[Any, Any]:
        total, count = _sum_and_count(dataclasses.replace(kept, data=data, where=mask), wide)
        divisor = count.real - ddof
        return data - total / count, jnp.where(divisor > 0, divisor, jnp.nan)

    def mean_product(a: Any, b: Any, mask: Any, divisor: Any) -> Any:
        product = (jnp.conj(a) * b).real if jnp.iscomplexobj(a) else a * b
        return _sum(dataclasses.replace(kept, data=product, where=mask)) / divisor

    @jax.custom_jvp
    def variance(data: Any, mask: Any) -> Any:
        centred, divisor = parts(data, mask)
        return mean_product(centred, centred, mask, divisor)

    @variance.defjvp
    def _jvp(primals: tuple[Any, Any], tangents: tuple[Any, Any]) -> tuple[Any, Any]:
        centred, divisor = parts(*primals)
        mask = primals[1]
        return mean_product(centred, centred, mask, divisor), 2 * mean_product(centred, tangents[0], mask, divisor)

    data = variance(site.data.astype(wide), site.where).astype(result)
    return data if site.keepdims else lax.squeeze(data, site.axes)


def _var(site: Site, dtype: Any, ddof: Any) -> Any:
    if not site.mesh_axes:
        return jnp.var(site.data, site.axes, dtype=dtype, ddof=ddof, keepdims=site.keepdims, where=site.where)
    return _sharded_var(site, dtype, ddof)


def _std(site: Site, dtype: Any, ddof: Any) -> Any:
    if not site.mesh_axes:
        return jnp.std(site.data, site.axes, dtype=dtype, ddof=ddof, keepdims=site.keepdims, where=site.where)
    return jnp.sqrt(_sharded_var(site, dtype, ddof))


# --- truth ----------------------------------------------------------------------------------------------------------


def _any(site: Site) -> Any:
    return comm.pmax(jnp.any(site.data, site.axes, keepdims=site.keepdims, where=site.where), site.mesh_axes)


def _all(site: Site) -> Any:
    return comm.pmin(jnp.all(site.data, site.axes, keepdims=site.keepdims, where=site.where), site.mesh_axes)


def _count_nonzero(site: Site) -> Any:
    return comm.psum(jnp.count_nonzero(site.data, site.axes, keepdims=site.keepdims), site.mesh_axes)


# --- extrema --------------------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=1024)
def sharded_extremum(largest: bool, axes: tuple[int, ...], mesh_axes: tuple[str, ...]) -> Callable[[Any], Any]:
    """Maximum or minimum over `axes` (kept, with size 1) and `mesh_axes`, with `jnp`'s gradient: ties share it equally.

    The forward pass is one all-reduce. The tangent adds two: the number of ties, and the sum of the tangents.
    """
    local, combine = (jnp.max, comm.pmax) if largest else (jnp.min, comm.pmin)
    reduce = functools.partial(local, axis=axes, keepdims=True)

    @jax.custom_jvp
    def extremum(data: Any) -> Any:
        # Without mesh axes it is XLA's partitioner that may reduce between devices.
        return combine(reduce(data), mesh_axes) if mesh_axes else comm.in_order(data, largest, reduce)

    @extremum.defjvp
    def _jvp(primals: tuple[Any], tangents: tuple[Any]) -> tuple[Any, Any]:
        (data,), (tangent,) = primals, tangents
        result = extremum(data)
        hits = (data == result).astype(tangent.dtype)
        ties = comm.psum(jnp.sum(hits, axes, keepdims=True), mesh_axes)
        return result, comm.psum(jnp.sum(hits * tangent, axes, keepdims=True), mesh_axes) / ties

    return extremum


def _extremum(site: Site, largest: bool, initial: Any = None) -> Any:
    if jnp.iscomplexobj(site.data) and not site.mesh_axes:
        whole = tuple(None if i in site.axes else dim for i, dim in enumerate(site.dims_in))
        mask = None if site.where is None else settled(site.where, whole)
        site = dataclasses.replace(site, data=settled(site.data, whole), where=mask)
    # Of no elements there is nothing to lose.
    partitioned = site.data.size > 0 and jnp.issubdtype(site.data.dtype, jnp.floating) and comm.is_partitioned()
    if not site.mesh_axes and not partitioned:
        return (jnp.max if largest else jnp.min)(
            site.data, site.axes, keepdims=site.keepdims, initial=initial, where=site.where
        )
    data = site.data
    if initial is not None:
        initial = jnp.asarray(initial, data.dtype)
    if site.where is not None:
        data = jnp.where(site.where, data, initial)
    result = sharded_extremum(largest, site.axes, site.mesh_axes)(data)
    if initial is not None:
        result = (jnp.maximum if largest else jnp.minimum)(result, initial)
    return result if site.keepdims else lax.squeeze(result, site.axes)


def _run_extremum(op: str, largest: bool, x: Any, axis: Axis, keepdims: bool, initial: Any, where: Any) -> Any:
    if where is not None and initial is None:
        raise ArgumentError(
            f"{op}: where= may leave out all elements, and {op} of none has no value. Give one, initial=; it takes part in the {op}."
        )
    return _run(op, _extremum, x, axis, keepdims, where, largest, initial=initial)


def _arg_extremum(site: Site, largest: bool) -> Any:
    # A NaN wins, and the first of equals. Each device offers its winner and where it stands in the whole axis: the best value
    # by one all-reduce, then the least index among those who have it. A NaN offers an index below zero.
    if not site.mesh_axes and len(site.axes) == 1:
        return (jnp.argmax if largest else jnp.argmin)(site.data, site.axes[0], keepdims=site.keepdims)
    value, winner = _local_winner(site, largest)
    if site.mesh_axes:
        _, winner = _winner(value, winner, site, largest)
    return winner if site.keepdims else lax.squeeze(winner, site.axes)


def _local_winner(site: Site, largest: bool) -> tuple[Any, Any]:
    """The extremum of the block over the axes of the site (kept, with size 1), and where it stands in the whole of them, row-major."""
    find = jnp.argmax if largest else jnp.argmin
    if len(site.axes) == 1:
        (axis,) = site.axes
        index = find(site.data, axis, keepdims=True)
        value = jnp.take_along_axis(site.data, index, axis)
        if site.mesh_axes:
            index = index + comm.block_index(site.mesh_axes).astype(index.dtype) * site.data.shape[axis]
        return value, index
    rest = [i for i in range(site.data.ndim) if i not in site.axes]
    flat = lax.transpose(site.data, (*rest, *site.axes))
    flat = flat.reshape((*flat.shape[: len(rest)], -1))
    found = find(flat, -1, keepdims=True)
    value, place = jnp.take_along_axis(flat, found, -1)[..., 0], found[..., 0]
    index = jnp.zeros((), place.dtype)
    region = ambient()
    blocks = [site.data.shape[axis] for axis in site.axes]
    for i, (axis, n) in enumerate(zip(site.axes, blocks, strict=True)):
        along = place // math.prod(blocks[i + 1 :]) % n
        placement = region.placement(site.dims_in[axis]) if region is not None and site.mesh_axes and axis in site.named else ()
        if placement and region is not None:
            along = along + comm.block_index(placement).astype(along.dtype) * n
            n *= region.mesh_axis_size(placement)
        index = index * n + along
    kept = tuple(sorted(site.axes))
    return jnp.expand_dims(value, kept), jnp.expand_dims(index, kept)


def _winner(value: Any, index: Any, site: Site, largest: bool) -> tuple[Any, Any]:
    """The extremum of what all devices offer, and its index."""
    best = (comm.pmax if largest else comm.pmin)(value, site.mesh_axes)
    # The first NaN has the most negative offer; where there is one, no value equals `best`.
    offer = jnp.where(jnp.isnan(value), index - site.count, jnp.where(value == best, index, site.count))
    winner = comm.pmin(cast_data(offer, site.mesh_axes), site.mesh_axes)
    return best, jnp.where(winner < 0, winner + site.count, winner)


def _extremum_with_index(site: Site, largest: bool) -> tuple[Any, Any]:
    value, index = _local_winner(site, largest)
    if site.mesh_axes:
        mesh_axes = site.mesh_axes  # the rule must not hold the site, which has arrays

        @jax.custom_jvp
        def attach(best: Any, winner: Any, value: Any, index: Any) -> Any:
            return best

        @attach.defjvp
        def _jvp(primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[Any, Any]:
            best, winner, _, index = primals
            return best, comm.psum(jnp.where(index == winner, tangents[2], 0), mesh_axes)

        # To JAX the extremum is a function of the values that were offered, without the collectives that found it.
        best, winner = _winner(lax.stop_gradient(value), index, site, largest)
        value, index = attach(lax.stop_gradient(best), winner, value, index), winner
    return lax.squeeze(value, site.axes), lax.squeeze(index, site.axes)


# --- log-sum-exp ----------------------------------------------------------------------------------------------------


def sharded_maximum(site: Site, data: Any) -> Any:
    """The maximum of `data` over the axes of the site, which are kept, without a gradient; `data` stands for that of the site."""
    return comm.pmax(jnp.max(lax.stop_gradient(data.real), site.axes, keepdims=True), site.mesh_axes)


def _logsumexp(site: Site) -> Any:
    if not site.mesh_axes:
        return jax.nn.logsumexp(site.data, site.axes, keepdims=site.keepdims, where=site.where)
    data = as_inexact(site.data)
    if site.where is not None:
        data = jnp.where(site.where, data, -jnp.inf)
    shift = sharded_maximum(site, data)
    shift = jnp.where(jnp.isfinite(shift), shift, jnp.zeros((), shift.dtype))
    total = comm.psum(jnp.sum(jnp.exp(data - shift), site.axes, keepdims=True), site.mesh_axes)
    result = jnp.log(total) + shift
    return result if site.keepdims else lax.squeeze(result, site.axes)


# --- the face -------------------------------------------------------------------------------------------------------


@axis_said
def sum(
    x: Any,
    axis: Axis = None,
    dtype: Any = None,
    *,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
    promote_integers: bool = True,
) -> Array:
    """Sum over positional and named axes.

    Args:
      x: an array, named or not.
      axis: a position, a name, or a tuple of both; `...` means all axes, `None` all positional ones. Of an array that has names and no
        positional axis it must be given.
      dtype: element type of the result, as in `jnp.sum`.
      keepdims: whether reduced positional axes stay, with size 1. Reduced names always go.
      initial: a number to begin with.
      where: a boolean array, named or not; elements where it is false are left out.
      promote_integers: whether narrow integers are added up as `int`, as in `jnp.sum`.

    Returns:
      An array with the remaining axes; a plain `jax.Array` if no name remains.

    Raises:
      AxisNotFoundError: `x` has no axis of that name.

    >>> import jax.numpy as jnp, namedax as nx
    >>> z = nx.named(jnp.ones((5, 2, 4)), [None, "x", "y"])
    >>> nx.sum(z, axis=(0, "x", "y"))
    Array(40., dtype=float32)
    """
    return _run("sum", _sum, x, axis, keepdims, where, dtype, promote_integers, initial=initial)


@axis_said
def mean(x: Any, axis: Axis = None, dtype: Any = None, *, keepdims: bool = False, where: Any = None) -> Array:
    """Mean over positional and named axes. Arguments as for `sum`.

    >>> import jax.numpy as jnp, namedax as nx
    >>> float(nx.mean(nx.named(jnp.arange(4.0), ["batch"]), "batch"))
    1.5
    """
    return _run("mean", _mean, x, axis, keepdims, where, dtype)


def var(x: Any, axis: Axis = None, dtype: Any = None, *, ddof: float = 0, keepdims: bool = False, where: Any = None) -> Any:
    """Variance over positional and named axes, with `ddof` taken off the count. Other arguments as for `sum`.

    >>> import jax.numpy as jnp, namedax as nx
    >>> float(nx.var(nx.named(jnp.arange(4.0), ["batch"]), "batch"))
    1.25
    """
    return _run("var", _var, x, axis, keepdims, where, dtype, ddof)


def std(x: Any, axis: Axis = None, dtype: Any = None, *, ddof: float = 0, keepdims: bool = False, where: Any = None) -> Any:
    """Standard deviation over positional and named axes; see `var`.

    >>> import jax.numpy as jnp, namedax as nx
    >>> float(nx.std(nx.named(jnp.array([1.0, 3.0]), ["batch"]), "batch"))
    1.0
    """
    return _run("std", _std, x, axis, keepdims, where, dtype, ddof)


@axis_said
def prod(
    x: Any,
    axis: Axis = None,
    dtype: Any = None,
    *,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
    promote_integers: bool = True,
) -> Array:
    """Product over positional and named axes. Arguments as for `sum`.

    Over a sharded name the partial products, one per device, are gathered: XLA has no all-reduce for products.

    >>> import jax.numpy as jnp, namedax as nx
    >>> float(nx.prod(nx.named(jnp.array([2.0, 3.0, 4.0]), ["k"]), "k"))
    24.0
    """
    return _run("prod", _prod, x, axis, keepdims, where, dtype, promote_integers, initial=initial)


@axis_said
def max(x: Any, axis: Axis = None, *, keepdims: bool = False, initial: Any = None, where: Any = None) -> Array:
    """Maximum over positional and named axes. NaN wins; ties share the gradient equally, as in `jnp`, sharded or not.

    Args beyond those of `sum`:
      initial: a scalar that takes part in the maximum; needed with `where`.

    >>> import jax.numpy as jnp, namedax as nx
    >>> float(nx.max(nx.named(jnp.array([2.0, 5.0, 4.0]), ["k"]), "k"))
    5.0
    """
    return _run_extremum("max", True, x, axis, keepdims, initial, where)


@axis_said
def min(x: Any, axis: Axis = None, *, keepdims: bool = False, initial: Any = None, where: Any = None) -> Array:
    """Minimum over positional and named axes; see `max`.

    >>> import jax.numpy as jnp, namedax as nx
    >>> float(nx.min(nx.named(jnp.array([2.0, 5.0, 4.0]), ["k"]), "k"))
    2.0
    """
    return _run_extremum("min", False, x, axis, keepdims, initial, where)


@axis_said
def any(x: Any, axis: Axis = None, *, keepdims: bool = False, where: Any = None) -> Array:
    """Whether some element is true, over positional and named axes. Arguments as for `sum`.

    >>> import jax.numpy as jnp, namedax as nx
    >>> nx.any(nx.named(jnp.array([False, True]), ["k"]), "k")
    Array(True, dtype=bool)
    """
    return _run("any", _any, x, axis, keepdims, where)


@axis_said
def all(x: Any, axis: Axis = None, *, keepdims: bool = False, where: Any = None) -> Array:
    """Whether all elements are true, over positional and named axes. Arguments as for `sum`.

    >>> import jax.numpy as jnp, namedax as nx
    >>> nx.all(nx.named(jnp.array([False, True]), ["k"]), "k")
    Array(False, dtype=bool)
    """
    return _run("all", _all, x, axis, keepdims, where)


@axis_said
def count_nonzero(x: Any, axis: Axis = None, *, keepdims: bool = False) -> Array:
    """The number of elements that are not zero, over positional and named axes.

    >>> import jax.numpy as jnp, namedax as nx
    >>> int(nx.count_nonzero(nx.named(jnp.array([0, 3, 4]), ["k"]), "k"))
    2
    """
    return _run("count_nonzero", _count_nonzero, x, axis, keepdims, None)


def logsumexp(x: Any, axis: Axis = None, *, keepdims: bool = False, where: Any = None) -> Any:
    """`log(sum(exp(x)))` over positional and named axes, without overflow. Arguments as for `sum`.

    >>> import jax.numpy as jnp, namedax as nx
    >>> round(float(nx.logsumexp(nx.named(jnp.array([1000.0, 1000.0]), ["k"]), "k")), 3)
    1000.693
    """
    return _run("logsumexp", _logsumexp, x, axis, keepdims, where)


def _run_arg(op: str, largest: bool, x: Any, axis: Axis, keepdims: bool) -> Any:
    if isinstance(axis, set) and len(axis) > 1:
        raise PositionalAxisError(f"{op}: axis={axis!r} has no order, by which the index would count; write a tuple.")
    if isinstance(axis, (tuple, list)) and not axis:
        raise PositionalAxisError(
            f"{op}: axis={axis!r} must be at least one axis, a position or a name; the index is along it."
        )
    if axis is not None:
        return _run(op, _arg_extremum, x, axis, keepdims, None, largest)
    rank = dims_of(x).count(None)
    if rank != 1:
        x = _flatten_positional(local_block(x, op, ambient())) if isinstance(x, NamedArray) else jnp.ravel(x)
    result = _run(op, _arg_extremum, x, 0, False, None, largest)
    return _append_positional(result, rank) if keepdims else result


def _flatten_positional(x: NamedArray) -> NamedArray:
    names = [i for i, dim in enumerate(x._dims) if dim is not None]
    places = [i for i, dim in enumerate(x._dims) if dim is None]
    data = lax.transpose(x._data, names + places)
    dims = tuple(x._dims[i] for i in names)
    return make_in_region(data.reshape((*data.shape[: len(names)], -1)), (*dims, None))


def _append_positional(x: Any, count: int) -> Any:
    """`x` with `count` positional axes of size 1 behind the others."""
    data = x._data if isinstance(x, NamedArray) else x
    return wrap(data.reshape(data.shape + (1,) * count), dims_of(x) + (None,) * count)


@axis_said
def argmax(x: Any, axis: Axis = None, *, keepdims: bool = False) -> Array:
    """Index of the first maximum along an axis, a position or a name (`None`: in the flattened positional axes).

    Along several axes, a tuple, the index counts row-major in the order given (`...`: in that of `x.dims`). Along a sharded name the index
    counts in the whole axis, not in the block.

    >>> import jax.numpy as jnp, namedax as nx
    >>> int(nx.argmax(nx.named(jnp.array([2.0, 5.0, 4.0]), ["k"]), "k"))
    1
    """
    return _run_arg("argmax", True, x, axis, keepdims)


@axis_said
def argmin(x: Any, axis: Axis = None, *, keepdims: bool = False) -> Array:
    """Index of the first minimum along one axis; see `argmax`.

    >>> import jax.numpy as jnp, namedax as nx
    >>> int(nx.argmin(nx.named(jnp.array([2.0, 5.0, 4.0]), ["k"]), "k"))
    0
    """
    return _run_arg("argmin", False, x, axis, keepdims)


class WithIndex(NamedTuple):
    """An extremum and where it stands."""

    values: Any
    indices: Any


def _run_with_index(op: str, largest: bool, x: Any, axis: Axis) -> WithIndex:
    if axis is None or isinstance(axis, list) or (isinstance(axis, tuple) and len(axis) != 1):
        raise PositionalAxisError(f"{op}: axis={axis!r} must be one axis, a position or a name; the index is along that axis.")
    with explain_type_errors:
        site = reduction_site(op, x, axis)
        values, indices = _extremum_with_index(site, largest)
        return WithIndex(site.finish(values), site.finish(indices))


def max_with_index(x: Any, axis: Axis) -> WithIndex:
    """Maximum along one axis, a position or a name, and the index of the first entry that has it.

    Args:
      x: an array, named or not.
      axis: a position or a name.

    Returns:
      `values` and `indices`, both without the axis. The gradient of a value goes to the entry at the index; `nx.max` divides it
      among equals.

    Costs over a sharded name: two all-reduces of the result's size, as `argmax` alone does; the gradient adds none.

    Raises:
      PositionalAxisError: `axis` is not one axis.
      AxisNotFoundError: `x` lacks the name.

    >>> import jax.numpy as jnp, namedax as nx
    >>> value, index = nx.max_with_index(nx.named(jnp.array([2.0, 5.0, 4.0]), ["k"]), "k")
    >>> float(value), int(index)
    (5.0, 1)
    """
    return _run_with_index("max_with_index", True, x, axis)


def min_with_index(x: Any, axis: Axis) -> WithIndex:
    """Minimum along one axis and the index of the first entry that has it; see `max_with_index`.

    >>> import jax.numpy as jnp, namedax as nx
    >>> value, index = nx.min_with_index(nx.named(jnp.array([2.0, 5.0, 4.0]), ["k"]), "k")
    >>> float(value), int(index)
    (2.0, 0)
    """
    return _run_with_index("min_with_index", False, x, axis)


WITH_INDEX: dict[str, Callable[..., Any]] = {f.__name__: f for f in (max_with_index, min_with_index)}


REDUCTIONS: dict[str, Callable[..., Any]] = {
    f.__name__: as_in_jax(f) for f in (sum, mean, var, std, prod, max, min, any, all, count_nonzero, logsumexp, argmax, argmin)
}
REDUCTIONS["amax"], REDUCTIONS["amin"] = REDUCTIONS["max"], REDUCTIONS["min"]
