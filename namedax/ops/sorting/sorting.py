"""Order along an axis, named or positional: sort, argsort, lexsort, top_k, quantiles, searchsorted.

**Sharded sorting.** Every device sorts its block. Then pairs of devices exchange their blocks, and the one keeps the lower half
of the two, the other the upper half, in the rounds of a sorting network over the devices (Batcher's merge exchange: 1 round for
2 devices, 3 for 4, 6 for 8; about half of the square of the logarithm). A round is one
collective-permute of the block; a device holds two blocks at a time, never the axis. Where ties matter the global index travels
with the values and decides, so that the result is the stable one of `jnp`, whatever the placement.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from namedax.core.annotations import Array, LikeArguments
from namedax.core.array import NamedArray, dims_of, make_in_region
from namedax.core.display import type_text
from namedax.core.element_types import common_type, inexact_type
from namedax.core.names import Dims, is_name
from namedax.core.region import ambient
from namedax.core.variance import cast_data
from namedax.errors import ArgumentError, ArgumentTypeError, AxisSizeError, NamedAxesLeftError, PositionalAxisError, as_integer
from namedax.operands import compiled_ops
from namedax.operands.axes import as_in_jax, axis_key, axis_said
from namedax.operands.broadcasting import align, local_block, wrap
from namedax.operands.nmap import explain_type_errors, nmap
from namedax.ops.indexing.getitem import take_along_axis
from namedax.ops.reduction.cumulative import flatten_positional, site_of_one_axis
from namedax.ops.reduction.site import Site, reduction_site
from namedax.resources import communication as comm
from namedax.resources.layout import relayout

__all__ = ["FUNCTIONS", "TopK", "finish_with_new_axis", "new_axis_placement", "search"]


# --- sorting networks -----------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=64)
def merge_exchange(n: int) -> tuple[tuple[tuple[int, int], ...], ...]:
    """The rounds of Batcher's merge exchange network for `n` inputs; in a round no input is in two pairs.

    >>> merge_exchange(2), [len(merge_exchange(n)) for n in (1, 3, 4, 8, 16)]
    ((((0, 1),),), [0, 3, 3, 6, 10])
    """
    rounds = []
    top = 1 << max((n - 1).bit_length() - 1, 0)
    p = top
    while n > 1 and p > 0:
        q, rest, distance = top, 0, p
        while True:
            rounds.append(tuple((i, i + distance) for i in range(n - distance) if i & p == rest))
            if q == p:
                break
            distance, q, rest = q - p, q // 2, p
        p //= 2
    return tuple(rounds)


def _sort_blocks(
    operands: Sequence[Any],
    dim: int,
    axes: tuple[str, ...],
    num_keys: int,
    last_first: bool = False,
) -> list[Any]:
    """Sorts along `dim` over all blocks, ascending; with `last_first` the first device gets the largest."""
    operands = [cast_data(operand, axes) for operand in operands]
    block = operands[0].shape[dim]
    operands = list(lax.sort(operands, dimension=dim, num_keys=num_keys))
    devices = math.prod(lax.axis_size(axis) for axis in axes)
    place = comm.block_index(axes)
    for pairs in merge_exchange(devices) if block else ():
        if last_first:
            pairs = tuple((devices - 1 - i, devices - 1 - j) for i, j in pairs)
        takes_low = np.zeros(devices, bool)
        takes_part = np.zeros(devices, bool)
        for low, high in pairs:
            takes_low[low] = takes_part[low] = takes_part[high] = True
        exchange = [*pairs, *((j, i) for i, j in pairs)]
        both = [lax.concatenate([mine, comm.ppermute(mine, axes, exchange)], dim) for mine in operands]
        merged = lax.sort(both, dimension=dim, num_keys=num_keys)
        part = jnp.asarray(takes_part)[place]
        start = jnp.where(jnp.asarray(takes_low)[place], 0, block)
        operands = [
            jnp.where(part, lax.dynamic_slice_in_dim(new, start, block, dim), mine)
            for new, mine in zip(merged, operands, strict=True)
        ]
    return operands


def _global_positions(site: Site, dtype: Any) -> Any:
    """The index along the axes of the site together (row-major, as `site.data` has them), as an array of its shape."""
    region = ambient()
    index: Any = jnp.zeros((), dtype)
    for axis in sorted(site.axes):
        n: Any = site.data.shape[axis]
        mine: Any = lax.broadcasted_iota(dtype, site.data.shape, axis)
        dim = site.dims_in[axis]
        placement = region.placement(dim) if region is not None and dim is not None and site.mesh_axes else ()
        if placement:
            mine = mine + comm.block_index(placement).astype(dtype) * n
            n *= region.mesh_axis_size(placement)  # type: ignore[union-attr]
        index = index * n + mine
    return jnp.broadcast_to(index, site.data.shape)


def _sort_values(data: Any, index: Any, dim: int, axes: tuple[str, ...], last_first: bool) -> Any:
    """The values sorted over all blocks. The index, which decides ties, travels only with a derivative."""
    if not jnp.issubdtype(data.dtype, jnp.inexact):
        return _sort_blocks((data,), dim, axes, 1, last_first)[0]

    @jax.custom_jvp
    def values(data: Any, index: Any) -> Any:
        return _sort_blocks((data,), dim, axes, 1, last_first)[0]

    @values.defjvp
    def _jvp(primals: tuple[Any, Any], tangents: tuple[Any, Any]) -> tuple[Any, Any]:
        data, index = primals
        return jax.jvp(lambda data: _sort_blocks((data, index), dim, axes, 2, last_first)[0], (data,), tangents[:1])

    return values(data, index)


# --- sort -----------------------------------------------------------------------------------------------------------


def _check_kind(op: str, kind: None, order: None) -> None:
    if kind is not None or order is not None:
        raise ArgumentError(f"{op}: kind= and order= are not supported, as in jnp.{op}; use stable=.")


def sort(
    x: Any, axis: Any = -1, *, kind: None = None, order: None = None, stable: bool = True, descending: bool = False
) -> LikeArguments:
    """The values in ascending order along one axis, NaN last.

    Args:
      x: an array, named or not.
      axis: a position or a name; `None` means the flattened positional axes, as in `jnp.sort`.
      kind: not supported, as in `jnp.sort`.
      order: not supported, as in `jnp.sort`.
      stable: as in `jnp.sort`: whether ties keep their order, which shows in the gradient only.
      descending: whether to begin with the largest (and with NaN).

    Returns:
      An array with the axes of `x`.

    Along a sharded name: a sorting network over the devices, which is never gathered; 1, 3, 6 collective-permutes of the block
    over 2, 4, 8 devices. With a gradient the indices travel too, and the gradient sends the blocks back in as many.

    Raises:
      AxisNotFoundError: `x` has no axis of that name.
      PositionalAxisError: `axis` is not one axis, or out of range.

    >>> import jax.numpy as jnp, namedax as nx
    >>> from namedax.ops.sorting.sorting import sort
    >>> nx.positional(sort(nx.named(jnp.array([3.0, 1.0, 2.0]), ["k"]), "k"), ["k"])
    Array([1., 2., 3.], dtype=float32)
    """
    _check_kind("sort", kind, order)
    with explain_type_errors:
        return compiled_ops.run("sort", _sort, axis_key("sort", axis), (stable, descending), x)


def _sort(op: str, axis: Any, stable: bool, descending: bool, x: Any) -> Any:
    if axis is None:
        x = flatten_positional(op, x)
    site = site_of_one_axis(op, x, -1 if axis is None else axis)
    (dim,) = site.axes
    if not site.mesh_axes:
        return site.finish_whole(jnp.sort(site.data, dim, stable=stable, descending=descending))
    index = _global_positions(site, jnp.int32)
    data = _sort_values(site.data, index, dim, site.mesh_axes, descending)
    return site.finish_whole(lax.rev(data, [dim]) if descending else data)


def argsort(
    x: Any,
    axis: Any = -1,
    *,
    kind: None = None,
    order: None = None,
    stable: bool = True,
    descending: bool = False,
    dtype: Any = None,
) -> LikeArguments:
    """The indices that sort along one axis; ties in their order, NaN last.

    Args:
      x: an array, named or not.
      axis: a position or a name; `None` means the flattened positional axes, as in `jnp.argsort`.
      kind: not supported, as in `jnp.argsort`.
      order: not supported, as in `jnp.argsort`.
      stable: as in `jnp.argsort`; along a sharded name the order is stable anyway.
      descending: whether to begin with the largest (and with NaN); ties are in their order then too.
      dtype: element type of the indices.

    Returns:
      Integers with the axes of `x`. Along a sharded name they count in the whole axis.

    Sharded: as for `sort`, of the values and as many indices.

    >>> import jax.numpy as jnp, namedax as nx
    >>> from namedax.ops.sorting.sorting import argsort
    >>> nx.positional(argsort(nx.named(jnp.array([3.0, 1.0, 2.0]), ["k"]), "k"), ["k"])
    Array([1, 2, 0], dtype=int32)
    """
    _check_kind("argsort", kind, order)
    with explain_type_errors:
        return compiled_ops.run("argsort", _argsort, axis_key("argsort", axis), (stable, descending, dtype), x)


def _argsort(op: str, axis: Any, stable: bool, descending: bool, dtype: Any, x: Any) -> Any:
    if axis is None:
        x = flatten_positional(op, x)
    site = site_of_one_axis(op, x, -1 if axis is None else axis)
    (dim,) = site.axes
    if not site.mesh_axes:
        return site.finish_whole(jnp.argsort(site.data, dim, stable=stable, descending=descending, dtype=dtype))
    index = _global_positions(site, jnp.int32)
    key = -index if descending else index  # reversed in the end, and ties with it
    _, key = _sort_blocks((lax.stop_gradient(site.data), key), dim, site.mesh_axes, 2, descending)
    index = lax.rev(-key, [dim]) if descending else key
    return site.finish_whole(index.astype(jnp.arange(0).dtype if dtype is None else dtype))


def lexsort(keys: Any, axis: Any = -1) -> Array:
    """The indices that sort along one axis by several keys, the last of which counts most; ties in their order.

    Args:
      keys: a sequence of arrays, named or not, which broadcast by name; or one array whose first positional axis counts
        the keys.
      axis: a position or a name.

    Returns:
      Integers with the axes of the keys together.

    Along a sharded name: as for `sort`, of all keys and the indices.

    >>> import jax.numpy as jnp, namedax as nx
    >>> from namedax.ops.sorting.sorting import lexsort
    >>> minor, major = (nx.named(jnp.array(key), ["k"]) for key in ([3, 1, 2], [1, 1, 0]))
    >>> nx.positional(lexsort((minor, major), "k"), ["k"])
    Array([2, 1, 0], dtype=int32)
    """
    keys = tuple(keys)
    if not keys:
        raise ArgumentError("lexsort: needs at least one key; got none.")
    with explain_type_errors:
        return compiled_ops.run("lexsort", _lexsort, axis_key("lexsort", axis), (), *keys)


def _lexsort(op: str, axis: Any, *keys: Any) -> Any:
    datas, dims = align(op, *keys)
    datas = list(jnp.broadcast_arrays(*datas))
    site = site_of_one_axis(op, make_in_region(datas[0], dims) if set(dims) != {None} else datas[0], axis)
    (dim,) = site.axes
    index = _global_positions(site, jnp.arange(0).dtype)
    operands = [*map(lax.stop_gradient, reversed(datas)), index]
    if site.mesh_axes:
        return site.finish_whole(_sort_blocks(operands, dim, site.mesh_axes, len(operands))[-1])
    return site.finish_whole(lax.sort(operands, dimension=dim, num_keys=len(operands) - 1)[-1])


# --- results with a new axis ----------------------------------------------------------------------------------------


def new_axis_placement(op: str, out_axis: Hashable | None, size: int, dims: Dims) -> tuple[str, ...]:
    """The mesh axes of a new axis of that name and size beside `dims`; checks that it fits there.

    Raises:
      AxisSizeError: the name has another size in the mapped function, or is an axis of the result already.
      PlacementConflictError: its mesh axis is that of another name of the result.
    """
    if out_axis is None:
        return ()
    if not is_name(out_axis):
        raise PositionalAxisError(f"{op}: out_axis={out_axis!r} is no name; leave it out for a positional axis.")
    if out_axis in dims:
        raise AxisSizeError(f"{op}: the result has an axis {out_axis!r} already. Choose another out_axis.")
    region = ambient()
    if region is None:
        return ()
    known = region.sizes.get(out_axis, size)
    if known != size:
        raise AxisSizeError(
            f"{op}: axis {out_axis!r} would have size {size}, but it has size {known} in this mapped function; a name "
            "has one size. Choose another out_axis."
        )
    region.check_placement(op, [*(dim for dim in dims if dim is not None), out_axis])
    region.block_size(out_axis, size, op)
    return region.placement(out_axis)


def finish_with_new_axis(op: str, data: Any, dims: Dims, place: int, out_axis: Hashable | None) -> Any:
    """Wraps a result whose dimension `place` is new, and whole on every device; a sharded name keeps its block of it."""
    others = (*dims[:place], *dims[place + 1 :])
    placement = new_axis_placement(op, out_axis, data.shape[place], others)
    if placement:
        none: list[tuple[str, ...]] = [()] * data.ndim
        data = relayout(data, none, [*none[:place], placement, *none[place + 1 :]])
    return wrap(data, (*dims[:place], out_axis, *dims[place + 1 :]))


# --- top_k ----------------------------------------------------------------------------------------------------------


class TopK(NamedTuple):
    """The largest values along an axis, and where they stand."""

    values: Any
    indices: Any


def top_k(x: Any, k: int, *, axis: Any = -1, out_axis: Hashable | None = None) -> TopK:
    """The `k` largest values along one axis in descending order, with their indices; NaN counts as the largest.

    Args:
      x: an array, named or not.
      k: how many; a Python integer.
      axis: a position or a name.
      out_axis: the name of the result's axis of size `k`. Without it that axis is positional: it stands where a positional
        `axis` stood, and behind the others if `axis` is a name.

    Returns:
      Values and indices. Along a sharded name the indices count in the whole axis.

    Of equal values that with the smaller index comes first. Along a sharded name every device finds its own `k` largest; these
    candidates are gathered (one all-gather of `k` values per device, one of their indices), never the axis. The
    gradient adds nothing.

    Raises:
      AxisNotFoundError: `x` has no axis of that name.
      AxisSizeError: `k` is larger than the axis, or `out_axis` has another size in the mapped function.

    >>> import jax.numpy as jnp, namedax as nx
    >>> from namedax.ops.sorting.sorting import top_k
    >>> logits = nx.named(jnp.array([[3.0, 1.0, 2.0]]), ["batch", "classes"])
    >>> values, indices = top_k(logits, 2, axis="classes", out_axis="best")
    >>> values.dims, nx.positional(indices, ["batch", "best"])
    (('batch', 'best'), Array([[0, 2]], dtype=int32))
    """
    k = as_integer("top_k", "k", k)
    x = local_block(x, "top_k", ambient())
    site = site_of_one_axis("top_k", x, axis)
    (dim,) = site.axes
    if not 0 <= k <= site.count:
        raise AxisSizeError(f"top_k: k={k} is not within 0 and {site.count}, the size of axis {axis!r} in {type_text(x)}.")
    values, index = lax.top_k(jnp.moveaxis(site.data, dim, -1), min(k, site.data.shape[dim]))
    if site.mesh_axes:
        index = index + comm.block_index(site.mesh_axes).astype(index.dtype) * site.data.shape[dim]
        values = comm.all_gather(values, values.ndim - 1, site.mesh_axes, "invarying")
        index = comm.all_gather(index, index.ndim - 1, site.mesh_axes, "invarying")
        values, chosen = lax.top_k(values, k)
        index = jnp.take_along_axis(index, chosen, -1)
    dims: Dims = (*(d for i, d in enumerate(site.dims_in) if i != dim), None)
    place = len(dims) - 1
    if not site.named:
        values, index = jnp.moveaxis(values, -1, dim), jnp.moveaxis(index, -1, dim)
        dims, place = site.dims_in, dim
    return TopK(*(finish_with_new_axis("top_k", data, dims, place, out_axis) for data in (values, index)))


# --- quantiles ------------------------------------------------------------------------------------------------------

_METHODS = ("linear", "lower", "higher", "midpoint", "nearest")


def _at_rank(ordered: Any, rank: Any, mesh_axes: tuple[str, ...]) -> Any:
    """Entries of `ordered` along its last axis, at ranks `[..., q]`; one all-reduce of the result if sharded."""
    if not mesh_axes:
        return jnp.take_along_axis(ordered, rank, -1)
    block = ordered.shape[-1]
    mine = cast_data(rank, mesh_axes) - comm.block_index(mesh_axes).astype(rank.dtype) * block
    here = (mine >= 0) & (mine < block)
    values = jnp.take_along_axis(ordered, jnp.where(here, mine, 0), -1)
    return comm.psum(jnp.where(here, values, jnp.zeros((), values.dtype)), mesh_axes)


def _quantile(site: Site, q: Any, method: str, skip_nans: bool) -> Any:
    """Quantiles of shape `[*q.shape, *rest]`."""
    dtype = inexact_type(site.data.dtype)
    if jnp.issubdtype(dtype, jnp.complexfloating):
        raise ArgumentTypeError("quantile: complex numbers have no order. Take their nx.abs, nx.real or nx.imag first.")
    data = site.data.astype(dtype)
    q = jnp.asarray(q)
    q = q.astype(common_type(dtype, q.dtype if jnp.issubdtype(q.dtype, jnp.floating) else dtype))
    rest = [i for i in range(data.ndim) if i not in site.axes]
    order = [*rest, *sorted(site.axes)]

    def flat(array: Any) -> Any:
        array = lax.transpose(array, order)
        return array.reshape((*array.shape[: len(rest)], -1))

    missing = jnp.isnan(data)
    invalid = jnp.sum(missing, site.axes, dtype=jnp.int32)
    if site.mesh_axes:
        invalid = comm.psum(invalid, site.mesh_axes)
    data, index = flat(data), flat(_global_positions(site, jnp.int32))
    last = data.ndim - 1
    if site.mesh_axes:
        ordered = _sort_values(data, index, last, site.mesh_axes, False)
    else:
        ordered = jnp.sort(data, last)
    count = site.count - invalid if skip_nans else jnp.full(invalid.shape, site.count, jnp.int32)
    top = jnp.maximum(count - 1, 0)[..., None]
    position = jnp.broadcast_to(jnp.ravel(q), (*count.shape, q.size)) * (count[..., None] - 1).astype(q.dtype)
    low, high = jnp.floor(position), jnp.ceil(position)
    above = position - low
    ranks = [jnp.clip(rank.astype(jnp.int32), 0, top) for rank in (low, high)]
    picked = _at_rank(ordered, jnp.concatenate(ranks, -1), site.mesh_axes)
    low_value, high_value = jnp.split(picked, 2, -1)
    if method == "linear":
        result = low_value.astype(q.dtype) * (1 - above) + high_value.astype(q.dtype) * above
    elif method == "midpoint":
        result = (low_value + high_value) * jnp.asarray(0.5, dtype)
    elif method == "nearest":
        result = jnp.where(above <= 0.5, low_value, high_value)
    else:
        result = low_value if method == "lower" else high_value
    empty = count == 0 if skip_nans else invalid > 0
    result = jnp.where(empty[..., None], jnp.nan, result).astype(dtype)
    return jnp.moveaxis(result, -1, 0).reshape((*q.shape, *result.shape[:-1]))


def _run_quantile(op: str, x: Any, q: Any, axis: Any, method: str, keepdims: bool, skip_nans: bool) -> Any:
    if isinstance(q, NamedArray):
        raise NamedAxesLeftError(f"{op}: q, {type_text(q)}, has named axes; give it as a number or a positional array.")
    if np.ndim(q) > 1:
        raise PositionalAxisError(f"{op}: q must be a number or have one axis, got shape {np.shape(q)}.")
    if method not in _METHODS:
        raise ArgumentError(f"{op}: method={method!r} is none of {_METHODS}.")
    with explain_type_errors:
        return compiled_ops.run(op, _quantiles, axis_key(op, axis), (method, keepdims, skip_nans), x, jnp.asarray(q))


def _quantiles(op: str, axis: Any, method: str, keepdims: bool, skip_nans: bool, x: Any, q: Any) -> Any:
    site = reduction_site(op, x, axis, keepdims)
    data = _quantile(site, q, method, skip_nans)
    leading = np.ndim(q)
    if keepdims:
        data = jnp.expand_dims(data, [leading + i for i in sorted(site.axes)])
        data = lax.squeeze(data, [leading + i for i in site.named])
    return wrap(data, (None,) * leading + site.dims)


def quantile(x: Any, q: Any, axis: Any = None, *, method: str = "linear", keepdims: bool = False) -> Any:
    """Quantiles over positional and named axes together; NaN where one element is NaN.

    Args:
      x: an array, named or not.
      q: a number within 0 and 1, or an array of them with one positional axis.
      axis: a position, a name, or a tuple of both; `None` means all positional axes.
      method: between two elements: `"linear"`, `"lower"`, `"higher"`, `"midpoint"` or `"nearest"`.
      keepdims: whether reduced positional axes stay, with size 1.

    Returns:
      An array with the remaining axes, in front of which an axis of `q` stands.

    Over a sharded name the blocks are sorted as by `sort`, and two all-reduces of the result's size pick the elements (and
    count the NaNs); the axis is never gathered.

    Raises:
      AxisNotFoundError: `x` has no axis of that name.

    >>> import jax.numpy as jnp, namedax as nx
    >>> from namedax.ops.sorting.sorting import quantile
    >>> float(quantile(nx.named(jnp.array([3.0, 1.0, 2.0]), ["k"]), 0.25, "k"))
    1.5
    """
    return _run_quantile("quantile", x, q, axis, method, keepdims, False)


def nanquantile(x: Any, q: Any, axis: Any = None, *, method: str = "linear", keepdims: bool = False) -> Any:
    """Quantiles of the elements that are not NaN; see `quantile`.

    >>> import jax.numpy as jnp, namedax as nx
    >>> from namedax.ops.sorting.sorting import nanquantile
    >>> float(nanquantile(nx.named(jnp.array([3.0, jnp.nan, 2.0]), ["k"]), 0.5, "k"))
    2.5
    """
    return _run_quantile("nanquantile", x, q, axis, method, keepdims, True)


def _percent(q: Any) -> Any:
    return q if isinstance(q, NamedArray) else jnp.true_divide(q, 100)  # a named one is refused later


def percentile(x: Any, q: Any, axis: Any = None, *, method: str = "linear", keepdims: bool = False) -> Any:
    """Percentiles, `q` within 0 and 100; see `quantile`.

    >>> import jax.numpy as jnp, namedax as nx
    >>> from namedax.ops.sorting.sorting import percentile
    >>> float(percentile(nx.named(jnp.array([3.0, 1.0, 2.0]), ["k"]), 25, "k"))
    1.5
    """
    return _run_quantile("percentile", x, _percent(q), axis, method, keepdims, False)


def nanpercentile(x: Any, q: Any, axis: Any = None, *, method: str = "linear", keepdims: bool = False) -> Any:
    """Percentiles of the elements that are not NaN, `q` within 0 and 100; see `quantile`.

    >>> import jax.numpy as jnp, namedax as nx
    >>> from namedax.ops.sorting.sorting import nanpercentile
    >>> float(nanpercentile(nx.named(jnp.array([3.0, jnp.nan, 2.0]), ["k"]), 50, "k"))
    2.5
    """
    return _run_quantile("nanpercentile", x, _percent(q), axis, method, keepdims, True)


@axis_said
def median(x: Any, axis: Any = None, *, keepdims: bool = False) -> Array:
    """Median over positional and named axes together; NaN where one element is NaN. Costs as for `quantile`.

    >>> import jax.numpy as jnp, namedax as nx
    >>> from namedax.ops.sorting.sorting import median
    >>> float(median(nx.named(jnp.array([3.0, 1.0, 2.0, 5.0]), ["k"]), "k"))
    2.5
    """
    return _run_quantile("median", x, 0.5, axis, "midpoint", keepdims, False)


@axis_said
def nanmedian(x: Any, axis: Any = None, *, keepdims: bool = False) -> Array:
    """Median of the elements that are not NaN; see `median`.

    >>> import jax.numpy as jnp, namedax as nx
    >>> from namedax.ops.sorting.sorting import nanmedian
    >>> float(nanmedian(nx.named(jnp.array([3.0, jnp.nan, 2.0]), ["k"]), "k"))
    2.5
    """
    return _run_quantile("nanmedian", x, 0.5, axis, "midpoint", keepdims, True)


# --- searching ------------------------------------------------------------------------------------------------------


def search(a: Any, v: Any, side: str, method: str = "scan") -> Any:
    """`jnp.searchsorted` of positional arrays, on blocks too.

    JAX 0.10.2 refuses its own one in a `jax.shard_map` body (the type that it declares says that nothing varies over the mesh).
    """
    region = ambient()
    if region is None or not region.manual:
        return jnp.searchsorted(a, v, side=side, method=method)
    a, v = jnp.asarray(a), jnp.asarray(v)
    dtype = jnp.promote_types(a.dtype, v.dtype)
    a, v = a.astype(dtype), v.astype(dtype)
    missing = jnp.issubdtype(dtype, jnp.inexact)

    def less(p: Any, q: Any) -> Any:
        return (p < q) | (jnp.isnan(q) & ~jnp.isnan(p)) if missing else p < q

    n = a.shape[0]
    low, high = jnp.zeros(v.shape, jnp.int32), jnp.full(v.shape, n, jnp.int32)
    for _ in range(n.bit_length()):
        middle = (low + high) // 2
        entry = a[jnp.minimum(middle, n - 1)]
        behind = (low < high) & (less(entry, v) if side == "left" else ~less(v, entry))
        low, high = jnp.where(behind, middle + 1, low), jnp.where(behind, high, middle)
    return low


def searchsorted(
    a: Any, v: Any, side: str = "left", sorter: Any = None, *, method: str = "scan", axis: Hashable | None = None
) -> Array:
    """Where values would have to be inserted into a sorted array, so that it stays sorted.

    Args:
      a: the sorted array: with one positional axis, or with the name `axis`. Its other names are batch axes.
      v: the values, named or not.
      side: `"left"` or `"right"` of equal elements.
      sorter: indices that sort `a`, with its axes.
      method: as in `jnp.searchsorted`.
      axis: the name of the sorted axis.

    Returns:
      Integers with the axes of `v` and the other names of `a`. Along a sharded name every device counts in its block, and one
      all-reduce of the result adds that up; a `sorter` is applied before that, as by `take_along_axis`.

    Raises:
      AxisNotFoundError: `a` has no axis of that name.
      PlacementConflictError: `v` has an axis on the mesh axis that `axis` is on.

    >>> import jax.numpy as jnp, namedax as nx
    >>> from namedax.ops.sorting.sorting import searchsorted
    >>> edges = nx.named(jnp.array([1.0, 2.0, 3.0]), ["edge"])
    >>> searchsorted(edges, jnp.array([0.5, 2.0, 9.0]), axis="edge")
    Array([0, 1, 3], dtype=int32)
    """
    if side not in ("left", "right"):
        raise ArgumentError(f"searchsorted: side={side!r} is neither 'left' nor 'right'.")

    def lifted(a: Any, v: Any, *sorter: Any) -> Any:
        return nmap(lambda a, v, *s: search(a[s[0]] if s else a, v, side, method))(a, v, *sorter)

    more = () if sorter is None else (sorter,)
    if axis is None:
        return lifted(a, v, *more)
    region = ambient()
    a, v = local_block(a, "searchsorted", region), local_block(v, "searchsorted", region)
    site = site_of_one_axis("searchsorted", a, axis)
    if dims_of(a).count(None) > (0 if site.named else 1):
        raise PositionalAxisError(f"searchsorted: {type_text(a)} has positional axes beside axis {axis!r}. Give them names.")
    if not site.named:
        return lifted(a, v, *more)
    if axis in dims_of(v):
        raise AxisSizeError(
            f"searchsorted: the values {type_text(v)} have the axis {axis!r} that is searched. Rename it there."
        )
    if region is not None and region.resources:
        names = dict.fromkeys(dim for dim in (*dims_of(a), *dims_of(v)) if dim is not None)
        region.check_placement("searchsorted", names)
        region.seen.update(names)
    if site.mesh_axes and more:
        a, more = take_along_axis(a, sorter, axis), ()

    def as_position(x: Any) -> Any:
        x = local_block(x, "searchsorted", region)
        if axis not in dims_of(x):
            return x
        return make_in_region(x.data, tuple(None if dim == axis else dim for dim in x.dims))

    result = lifted(as_position(a), v, *map(as_position, more))
    if not site.mesh_axes:
        return result
    data = result.data if isinstance(result, NamedArray) else result
    return wrap(comm.psum(data, site.mesh_axes), dims_of(result))


# --- partitions -----------------------------------------------------------------------------------------------------


def _run_partition(op: str, function: Callable[..., Any], x: Any, kth: int, axis: Any) -> Any:
    kth = as_integer(op, "kth", kth)
    with explain_type_errors:
        return compiled_ops.run(op, _partition, axis_key(op, axis), (function, kth), x)


def _partition(op: str, axis: Any, function: Callable[..., Any], kth: int, x: Any) -> Any:
    site = site_of_one_axis(op, x, axis)
    (dim,) = site.axes
    data = site.data
    if site.mesh_axes:
        data = comm.all_gather(data, dim, site.mesh_axes, "varying")
    data = function(data, kth, dim)
    return site.finish_whole(comm.cut(data, dim, site.mesh_axes) if site.mesh_axes else data)


def partition(x: Any, kth: int, axis: Any = -1) -> LikeArguments:
    """The values along one axis with that of rank `kth` in its place: smaller ones before it, larger ones behind.

    As `jnp.partition`. Along a sharded name this gathers the axis (one all-gather), since `jnp`'s order within the two parts is
    no ascending one; `nx.sort` does not gather, and its result is a partition too.

    >>> import jax.numpy as jnp, namedax as nx
    >>> from namedax.ops.sorting.sorting import partition
    >>> nx.positional(partition(nx.named(jnp.array([3.0, 1.0, 2.0]), ["k"]), 0, "k"), ["k"])[0]
    Array(1., dtype=float32)
    """
    return _run_partition("partition", jnp.partition, x, kth, axis)


def argpartition(x: Any, kth: int, axis: Any = -1) -> LikeArguments:
    """The indices of `partition`, as `jnp.argpartition`. Along a sharded name this gathers the axis; see `partition`.

    >>> import jax.numpy as jnp, namedax as nx
    >>> from namedax.ops.sorting.sorting import argpartition
    >>> nx.positional(argpartition(nx.named(jnp.array([3.0, 1.0, 2.0]), ["k"]), 0, "k"), ["k"])[0]
    Array(1, dtype=int32)
    """
    return _run_partition("argpartition", jnp.argpartition, x, kth, axis)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    f.__name__: as_in_jax(f)
    for f in (
        sort, argsort, lexsort, top_k, median, quantile, percentile, nanmedian, nanquantile, nanpercentile, searchsorted,
        partition, argpartition,
    )
}  # fmt: skip
