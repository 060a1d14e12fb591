"""Segment reductions: `segment_sum` and so on combine elements of an axis by segment number.

Along a sharded axis every device reduces its own elements, and one collective combines the results.
It is an all-reduce, or a reduce-scatter if the axis of the segments is sharded over the same mesh
axis. If only the axis of the segments is sharded, there is no communication: each device takes the
elements of its own segments. Padding of an axis is in no segment.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from namedax.core.annotations import AnyArray, ArrayLike, AxisSpec
from namedax.core.array import NamedArray, dims_of
from namedax.core.cpu_workarounds import extremum
from namedax.core.display import type_text
from namedax.core.element_types import accumulate, extreme
from namedax.core.names import Dims, DType, MeshAxes, is_name
from namedax.core.padded_sharding import Uneven, block_size, plain
from namedax.core.records import Record
from namedax.core.region import Region, ambient, place_of
from namedax.core.reshape import as_one
from namedax.core.variance import cast, cast_data, varying
from namedax.errors import (
    AxisNotFoundError,
    AxisSizeError,
    PositionalAxisError,
    as_integer,
    format_value,
    raise_not_found,
)
from namedax.ops.operands import kernels
from namedax.ops.operands.axes import resolve_axis, unwrap_single
from namedax.ops.operands.broadcasting import constrain_sharding, make_result, to_local
from namedax.ops.operands.operation import operation
from namedax.ops.operands.pytree import data_of, names_of
from namedax.ops.reduction.extrema import among_steps
from namedax.resources import communication as comm
from namedax.resources.padding import padded_size
from namedax.resources.padding_masks import constant_padding, masked, refilled

__all__ = ["FUNCTIONS", "segment_max", "segment_min", "segment_prod", "segment_sum"]


def _with_nan(reduce: Callable[..., Any]) -> Callable[..., Any]:
    """Return `segment_max` or `segment_min`; XLA drops the NaN of complex numbers."""

    def local(data: jax.Array, ids: jax.Array, **options: Any) -> jax.Array:
        result = reduce(data, ids, **options)
        if not jnp.iscomplexobj(data):
            return result
        missing = jax.ops.segment_max(jnp.isnan(data).astype(jnp.int8), ids, **options) > 0
        return jnp.where(missing, jnp.asarray(jnp.nan, data.dtype), result)

    return local


_LOCAL: dict[str, Callable[..., Any]] = {
    "sum": jax.ops.segment_sum,
    "prod": jax.ops.segment_prod,
    "max": _with_nan(jax.ops.segment_max),
    "min": _with_nan(jax.ops.segment_min),
}

_ALL_REDUCE: dict[str, Callable[..., jax.Array]] = {
    "sum": comm.psum,
    "max": comm.pmax,
    "min": comm.pmin,
}


@operation(on_blocks=True)
def segment_sum(
    data: ArrayLike,
    segment_ids: ArrayLike,
    num_segments: int | None = None,
    *,
    axis: AxisSpec = 0,
    out_axis: Hashable | None = None,
    indices_are_sorted: bool = False,
    mode: str | None = None,
) -> AnyArray:
    """Sum the elements along an axis that belong to the same segment.

    Args:
      data: an array, named or not.
      segment_ids: integers along `axis`; their other axes are batch axes, which the result has too.
        Numbers out of range, including negative ones, are dropped.
      num_segments: the size of the new axis. Optional for a named axis, which takes its size in the
        mapped function. By default `None`.
      axis: the axis to sum over, a name or a positional axis; by default 0.
      out_axis: the axis name of the segments. `None` (default) gives a positional axis, which
        replaces a positional `axis`, and precedes the others if `axis` is a name.
      indices_are_sorted: `True` if `segment_ids` is known to be sorted; by default `False`.
      mode: `"drop"` (default), or `"clip"`, which assigns numbers out of range to the first or the
        last segment.

    Returns:
      The axes of `data` and `segment_ids` without `axis`, and the axis of the segments.

    Communication: along a sharded `axis`, one all-reduce of the result, or one reduce-scatter if
    `out_axis` is sharded over the same mesh axis. A sharded `out_axis` alone costs nothing. The
    gradients are the same as in `jnp`.

    Raises:
      AxisNotFoundError: `data` or `segment_ids` lack the axis, or the number of segments is not
        known.
      AxisSizeError: an axis has two sizes, or does not divide over its mesh axes.
      PlacementConflictError: `out_axis` and another axis of the result are sharded over one mesh
        axis.

    >>> import jax.numpy as jnp, namedax as nx
    >>> x = nx.named(jnp.array([1.0, 2.0, 3.0]), ["token"])
    >>> ids = nx.named(jnp.array([1, 0, 1]), ["token"])
    >>> nx.positional(nx.segment_sum(x, ids, 2, axis="token", out_axis="segment"), ["segment"])
    Array([2., 4.], dtype=float32)
    """
    given = _Arguments(num_segments, axis, out_axis, indices_are_sorted, mode)
    return _segment("sum", data, segment_ids, given)


@operation(on_blocks=True)
def segment_prod(
    data: ArrayLike,
    segment_ids: ArrayLike,
    num_segments: int | None = None,
    *,
    axis: AxisSpec = 0,
    out_axis: Hashable | None = None,
    indices_are_sorted: bool = False,
    mode: str | None = None,
) -> AnyArray:
    """Multiply the elements along an axis that belong to the same segment; 1 for an empty one.

    As in JAX, there is no gradient.

    Args:
      data: an array, named or not.
      segment_ids: integers along `axis`; their other axes are batch axes, which the result has too.
        Numbers out of range, including negative ones, are dropped.
      num_segments: the size of the new axis, by default `None`. Optional for a named axis, which
        takes its size in the mapped function.
      axis: the axis to reduce, a name or a positional axis; by default 0.
      out_axis: the axis name of the segments. `None` (default) gives a positional axis, as in
        `nx.segment_sum`.
      indices_are_sorted: `True` if `segment_ids` is known to be sorted; by default `False`.
      mode: `"drop"` (default), or `"clip"`, which assigns numbers out of range to the first or the
        last segment.

    Returns:
      The axes of `data` and `segment_ids` without `axis`, and the axis of the segments.

    Communication: along a sharded axis, an all-gather of the partial products, one per device,
    since XLA has no all-reduce for products. If `out_axis` is sharded over the same mesh axis, one
    all-to-all. As in JAX, there is no gradient.
    """
    given = _Arguments(num_segments, axis, out_axis, indices_are_sorted, mode)
    return _segment("prod", data, segment_ids, given)


@operation(on_blocks=True)
def segment_max(
    data: ArrayLike,
    segment_ids: ArrayLike,
    num_segments: int | None = None,
    *,
    axis: AxisSpec = 0,
    out_axis: Hashable | None = None,
    indices_are_sorted: bool = False,
    mode: str | None = None,
) -> AnyArray:
    """Take the maximum of the elements along an axis in each segment.

    An empty segment has the least value of the dtype. Ties share the gradient equally, as in `jnp`.

    Args:
      data: an array, named or not.
      segment_ids: integers along `axis`; their other axes are batch axes, which the result has too.
        Numbers out of range, including negative ones, are dropped.
      num_segments: the size of the new axis, by default `None`. Optional for a named axis, which
        takes its size in the mapped function.
      axis: the axis to reduce, a name or a positional axis; by default 0.
      out_axis: the axis name of the segments. `None` (default) gives a positional axis, as in
        `nx.segment_sum`.
      indices_are_sorted: `True` if `segment_ids` is known to be sorted; by default `False`.
      mode: `"drop"` (default), or `"clip"`, which assigns numbers out of range to the first or the
        last segment.

    Returns:
      The axes of `data` and `segment_ids` without `axis`, and the axis of the segments.

    Communication: as for `segment_sum`, but if `out_axis` is sharded over the mesh axes of `axis`,
    one all-to-all replaces the reduce-scatter. The gradient costs one more reduction, to count the
    ties.
    """
    given = _Arguments(num_segments, axis, out_axis, indices_are_sorted, mode)
    return _segment("max", data, segment_ids, given)


@operation(on_blocks=True)
def segment_min(
    data: ArrayLike,
    segment_ids: ArrayLike,
    num_segments: int | None = None,
    *,
    axis: AxisSpec = 0,
    out_axis: Hashable | None = None,
    indices_are_sorted: bool = False,
    mode: str | None = None,
) -> AnyArray:
    """Take the minimum of the elements along an axis in each segment.

    An empty segment has the greatest value of the dtype. Ties share the gradient equally, as in
    `jnp`.

    Args:
      data: an array, named or not.
      segment_ids: integers along `axis`; their other axes are batch axes, which the result has too.
        Numbers out of range, including negative ones, are dropped.
      num_segments: the size of the new axis, by default `None`. Optional for a named axis, which
        takes its size in the mapped function.
      axis: the axis to reduce, a name or a positional axis; by default 0.
      out_axis: the axis name of the segments. `None` (default) gives a positional axis, as in
        `nx.segment_sum`.
      indices_are_sorted: `True` if `segment_ids` is known to be sorted; by default `False`.
      mode: `"drop"` (default), or `"clip"`, which assigns numbers out of range to the first or the
        last segment.

    Returns:
      The axes of `data` and `segment_ids` without `axis`, and the axis of the segments.

    Communication: as for `nx.segment_max`.
    """
    given = _Arguments(num_segments, axis, out_axis, indices_are_sorted, mode)
    return _segment("min", data, segment_ids, given)


class _Arguments(Record):
    """The arguments of a segment reduction after its arrays; see `segment_sum`."""

    num_segments: int | None
    axis: AxisSpec
    out_axis: Hashable | None
    indices_are_sorted: bool
    mode: str | None


class _Request(Record):
    """The static part of a segment reduction, except for names.

    Attributes:
      kind: `"sum"`, `"prod"`, `"max"` or `"min"`.
      count: the global number of segments.
      position: the number of positional axes before a positional reduced axis; 0 for a named one.
      is_sorted: True if the segment numbers are sorted.
      clip: True if numbers out of range belong to the first or the last segment.
    """

    kind: str
    count: int
    position: int
    is_sorted: bool
    clip: bool


def _segment(kind: str, data: ArrayLike, ids: ArrayLike, given: _Arguments) -> AnyArray:
    """Check the arguments of a segment reduction, and run it."""
    op, region = f"segment_{kind}", ambient()
    if given.mode not in (None, "drop", "fill", "clip"):
        raise PositionalAxisError(
            f"{op}: mode must be 'drop' or 'clip', got {format_value(given.mode)}."
        )
    data, ids = to_local(data, op, region), to_local(ids, op, region)
    data, ids = (v if isinstance(v, NamedArray) else jnp.asarray(v) for v in (data, ids))
    dim = _reduced_dim(op, data, ids, given.axis)
    name = dims_of(data)[dim]
    _check_out_axis(op, given.out_axis, {*dims_of(data), *dims_of(ids)} - {name})
    count = _segment_count(op, given, region)
    request = _Request(
        kind,
        count,
        dims_of(data)[:dim].count(None) if name is None else 0,
        given.indices_are_sorted,
        given.mode == "clip",
    )
    return kernels.run(op, _accumulate, (name, given.out_axis), (request,), data, ids)


def _reduced_dim(op: str, data: AnyArray, ids: AnyArray, axis: AxisSpec) -> int:
    """Return the reduced dimension of `data`; raise if the segment numbers do not fit to it."""
    if not jnp.issubdtype(ids.dtype, jnp.integer):
        raise PositionalAxisError(f"{op}: the segment_ids {type_text(ids)} are not integers.")
    axis = unwrap_single(axis, dims_of(data))
    (dim,) = resolve_axis(op, data, (axis,))
    name = dims_of(data)[dim]
    if name is not None and name not in dims_of(ids):
        raise_not_found(op, name, f"the segment_ids {type_text(ids)}", names_of(dims_of(ids)))
    id_axes = [d for d in dims_of(ids) if d is None or d == name]
    if id_axes != [name]:
        wanted = (
            "exactly one, along the positional axis"
            if name is None
            else "none, only the named axis"
        )
        raise PositionalAxisError(
            f"{op}: the segment_ids {type_text(ids)} have {id_axes.count(None)} positional axes;"
            f" they need {wanted} {format_value(axis)}."
        )
    return dim


def _check_out_axis(op: str, out_axis: Hashable | None, others: set[Hashable]) -> None:
    """Raise if `out_axis` is no axis name, or is one of the other axes of the arguments."""
    if out_axis is None:
        return
    if not is_name(out_axis):
        raise PositionalAxisError(
            f"{op}: out_axis={format_value(out_axis)} is not an axis name. Use None for a"
            " positional axis."
        )
    if out_axis in others:
        raise AxisSizeError(
            f"{op}: the arguments already have the new axis {format_value(out_axis)}. Choose"
            " another name."
        )


def _segment_count(op: str, given: _Arguments, region: Region | None) -> int:
    """Return the global number of segments, from the argument or the size of `out_axis`."""
    count, out_axis = given.num_segments, given.out_axis
    if region is None or out_axis is None:
        known = found = None
    else:
        known, found = region.sizes.get(out_axis), region.found_size(out_axis)
    count = known if count is None else count
    if count is None:
        raise AxisNotFoundError(
            f"{op}: the number of segments is not known. Pass num_segments, or the size of out_axis"
            " in axis_sizes of xmap."
        ).about(axis=out_axis, found_size=found)
    if known is not None and known != count:
        raise AxisSizeError(
            f"{op}: num_segments is {count}, but axis {format_value(out_axis)} has size"
            f" {known} in this mapped function; a name has one size. Choose another name for"
            " out_axis."
        )
    count = as_integer(op, "num_segments", count, 0)
    if region is not None and out_axis is not None:
        region.block_size(out_axis, count, op, supports_padding=True)
    return count


# --- the reduction of one call --------------------------------------------------------------------


def _accumulate(
    op: str, axes: tuple[Any, Any], request: _Request, x: AnyArray, ids: AnyArray
) -> AnyArray:
    """Run `_reduce` in the accumulation type of the elements."""

    def of(data: AnyArray, dtype: DType | None) -> AnyArray:
        return _reduce(op, axes, request, data, ids, x.dtype)

    return accumulate(op, of, x)


class _Order(Record):
    """The dimensions of an array and of its segment numbers, in the order of the reduction.

    Attributes:
      dims: the dims of the array.
      id_dims: the dims of the numbers.
      dim: the reduced dimension of the array.
      id_dim: the reduced dimension of the numbers.
    """

    dims: Dims
    id_dims: Dims
    dim: int
    id_dim: int

    @classmethod
    def of(cls, dims: Dims, id_dims: Dims, name: Hashable | None, position: int) -> _Order:
        """Return the order for the reduced axis `name`, or for a positional one by its position."""
        places = [i for i, d in enumerate(dims) if d == name]
        return cls(dims, id_dims, places[position], id_dims.index(name))

    @property
    def batch(self) -> Dims:
        """Return the batch axes: all axes of the numbers but the reduced one."""
        return tuple(d for d in self.id_dims if d is not None and d != self.dims[self.dim])

    @property
    def rest(self) -> list[int]:
        """Return the dimensions of the array that are neither batch axes nor reduced."""
        return [i for i, d in enumerate(self.dims) if i != self.dim and d not in self.batch]

    def arrange(self, data: jax.Array) -> jax.Array:
        """Transpose the data of the array to the batch axes, the reduced axis and the rest."""
        shared = [self.dims.index(name) for name in self.batch if name in self.dims]
        return lax.transpose(data, [*shared, self.dim, *self.rest])

    def arrange_ids(self, numbers: jax.Array) -> jax.Array:
        """Transpose the numbers to the batch axes and the reduced axis."""
        batch = [i for i in range(len(self.id_dims)) if i != self.id_dim]
        return lax.transpose(numbers, [*batch, self.id_dim])


def _reduce(
    op: str,
    axes: tuple[Any, Any],
    request: _Request,
    x: AnyArray,
    ids: AnyArray,
    dtype: DType,
) -> AnyArray:
    """Reduce `x` over `axes[0]` to the segments `axes[1]`; empty ones have a value of `dtype`."""
    region, (name, out_axis) = ambient(), axes
    order = _Order.of(dims_of(x), dims_of(ids), name, request.position)
    _check_sizes(op, x, ids, order)
    _check_placement(op, x, ids, axes)
    reduced, kept = place_of(region, name), place_of(region, out_axis)
    data, numbers = _operands(x, ids, order, request.kind, {*reduced, *kept})
    if request.clip:
        numbers = jnp.clip(numbers, 0, request.count - 1)
    if isinstance(reduced, Uneven) or isinstance(kept, Uneven):
        numbers = _of_real(numbers, request.count, reduced)
    run = _BlockReduction(
        request.kind,
        request.count,
        tuple(name in order.dims for name in order.batch),
        plain(reduced),
        kept,
        request.is_sorted,
    )
    result = run(data, numbers) if run.is_linear else run.extremum(data, numbers, dtype)
    # If both axes share mesh axes, the copies of the last segment are made before the sum.
    result = (constant_padding if run.common else refilled)(result, run.batch, kept)
    return _named_result(result, order, out_axis, request)


def _check_sizes(op: str, x: AnyArray, ids: AnyArray, order: _Order) -> None:
    """Raise if an axis has one size in the array and another in the segment numbers."""
    data, numbers = data_of(x), data_of(ids)
    sizes = dict(zip(order.dims, data.shape, strict=True))
    for d, n in zip(order.id_dims, numbers.shape, strict=True):
        if d is not None and sizes.get(d, n) != n:
            raise AxisSizeError(
                f"{op}: axis {d!r} has two sizes, in {type_text(x)} and in the segment_ids"
                f" {type_text(ids)}; a name has one size."
            )
    size, id_size = data.shape[order.dim], numbers.shape[order.id_dim]
    if size != id_size:
        raise AxisSizeError(
            f"{op}: the reduced axis has size {size} in {type_text(x)}, but {id_size} in the"
            f" segment_ids {type_text(ids)}."
        )


def _check_placement(op: str, x: AnyArray, ids: AnyArray, axes: tuple[Any, Any]) -> None:
    """Raise if two axes of the result, or of the operands, are sharded over one mesh axis."""
    region, (name, out_axis) = ambient(), axes
    if region is not None and region.resources:
        names = dict.fromkeys(d for d in (*dims_of(x), *dims_of(ids)) if d is not None)
        kept = [d for d in names if d != name]
        region.check_placement(op, kept if out_axis is None else [*kept, out_axis])
        region.check_placement(op, names)


def _operands(
    x: AnyArray, ids: AnyArray, order: _Order, kind: str, mesh_axes: set[str]
) -> tuple[jax.Array, jax.Array]:
    """Return the elements and their segment numbers, of one variance, in the order of `order`."""
    region, data, numbers = ambient(), data_of(x), data_of(ids)
    if region is not None and region.manual:
        union = varying(data) | varying(numbers) | mesh_axes
        data, numbers = cast(x, union), cast_data(numbers, union)
    if kind != "sum":
        # XLA's partitioner would combine partial results with an operation that drops NaN.
        data = constrain_sharding(data, _without(order.dims, order.dim))
        numbers = constrain_sharding(numbers, _without(order.id_dims, order.id_dim))
    return order.arrange(data), order.arrange_ids(numbers)


def _without(dims: Dims, dim: int) -> Dims:
    return (*dims[:dim], None, *dims[dim + 1 :])


def _named_result(
    result: jax.Array, order: _Order, out_axis: Hashable | None, request: _Request
) -> AnyArray:
    """Name a result that has the batch axes, the segments and the rest.

    Positional segments take the place of a positional reduced axis.
    """
    rest = [order.dims[i] for i in order.rest]
    if request.kind != "sum":
        result = constrain_sharding(result, (*order.batch, None, *rest))
    dims = [*order.batch, out_axis, *rest]
    if out_axis is None and request.position:
        places = [n for n, d in enumerate(dims) if d is None]
        result = jnp.moveaxis(result, places[0], places[request.position])
        dims.insert(places[request.position], dims.pop(places[0]))
    return make_result(result, tuple(dims))


def _of_real(numbers: jax.Array, count: int, place: MeshAxes) -> jax.Array:
    """Replace the segment numbers of padding by a number that is no segment.

    This is padding of the elements, on the last axis, and of the segments.

    That number exceeds all others, so that sorted numbers remain sorted.
    """
    if numbers.dtype.itemsize < 4:
        numbers = numbers.astype(jnp.int32)
    none = jnp.iinfo(numbers.dtype).max
    return masked(jnp.where(numbers < count, numbers, none), numbers.ndim - 1, place, none)


# --- the reduction of blocks ----------------------------------------------------------------------


class _BlockReduction(Record):
    """One reduction on blocks.

    The dimensions of the elements are their batch axes, the reduced axis, and the rest. The numbers
    have all batch axes, and the reduced axis.

    Attributes:
      kind: sum, prod, max or min.
      count: the global number of segments.
      in_data: for each batch axis, `True` if the elements have it.
      reduced: the mesh axes of the reduced axis.
      kept: the mesh axes of the segments.
      is_sorted: `True` if the numbers are sorted.
    """

    kind: str
    count: int
    in_data: tuple[bool, ...]
    reduced: MeshAxes
    kept: MeshAxes
    is_sorted: bool

    @property
    def batch(self) -> int:
        """Return the number of batch axes, which is the dimension of the segments."""
        return len(self.in_data)

    @property
    def is_linear(self) -> bool:
        """Return False for an extremum."""
        return self.kind in ("sum", "prod")

    @property
    def common(self) -> MeshAxes:
        """Return the mesh axes that shard both the reduced axis and the segments."""
        return tuple(axis for axis in self.kept if axis in self.reduced)

    def __call__(self, data: jax.Array, ids: jax.Array) -> jax.Array:
        """Reduce the block of this device, and combine the results of the devices."""
        ids, size = self._local_ids(ids)

        def local(data: jax.Array, ids: jax.Array) -> jax.Array:
            return _LOCAL[self.kind](
                data, ids, num_segments=size, indices_are_sorted=self.is_sorted
            )

        for present in reversed(self.in_data):
            local = jax.vmap(local, in_axes=(0 if present else None, 0))
        return self._combine(local(data, ids))

    def _local_ids(self, ids: jax.Array) -> tuple[jax.Array, int]:
        """Return the local segment numbers, and the number of segments before communication."""
        if not self.kept or self.common:
            return ids, self.count
        size = block_size(self.count, math.prod(lax.axis_size(axis) for axis in self.kept))
        return ids - comm.block_index(plain(self.kept)).astype(ids.dtype) * size, size

    def _combine(self, partial: jax.Array) -> jax.Array:
        """Combine the partial results of all devices, and keep this device's segments."""
        if self.common:
            partial = self._scatter(self._slice_kept(self._padded(partial)))
        rest = tuple(axis for axis in self.reduced if axis not in self.common)
        if not rest:
            return partial
        if self.kind == "prod":
            partials = comm.all_gather(partial[None], 0, rest, "invarying")
            return jnp.prod(partials, 0, promote_integers=False)
        return _ALL_REDUCE[self.kind](partial, rest)

    def _padded(self, partial: jax.Array) -> jax.Array:
        """Append copies of the last segment up to a size that divides.

        Tangents get them too, so that they transpose with it.
        """
        if not isinstance(self.kept, Uneven):
            return partial
        dim, missing = self.batch, padded_size(self.kept) - self.count
        last = lax.slice_in_dim(partial, self.count - 1, self.count, axis=dim)
        return lax.concatenate([partial, *[last] * missing], dim)

    def _slice_kept(self, partial: jax.Array) -> jax.Array:
        """Slice this device's segments along the mesh axes that shard only the segments."""
        if self.common == self.kept:
            return partial
        dim, shape = self.batch, partial.shape
        sizes = [lax.axis_size(axis) for axis in self.kept]
        blocks = (*sizes, shape[dim] // math.prod(sizes))
        partial = partial.reshape(*shape[:dim], *blocks, *shape[dim + 1 :])
        for n in reversed(range(len(self.kept))):
            if self.kept[n] not in self.common:
                partial = lax.dynamic_index_in_dim(
                    partial, comm.block_index((self.kept[n],)), dim + n, keepdims=False
                )
        return as_one(partial, dim, partial.ndim - len(shape) + 1)

    def _scatter(self, partial: jax.Array) -> jax.Array:
        """Combine partial results over the common mesh axes; each device gets its segments."""
        dim, shape = self.batch, partial.shape
        if self.kind == "sum":
            return comm.psum_scatter(partial, dim, self.common)
        devices = math.prod(lax.axis_size(axis) for axis in self.common)
        blocks = partial.reshape(*shape[:dim], devices, shape[dim] // devices, *shape[dim + 1 :])
        blocks = comm.all_to_all(blocks, dim, dim, self.common)
        if self.kind == "prod":
            return jnp.prod(blocks, dim, promote_integers=False)
        return lax.squeeze(extremum(blocks, (dim,), self.kind == "max"), (dim,))

    # --- extrema: their values of empty segments, and their gradients ---

    def extremum(self, data: jax.Array, ids: jax.Array, dtype: DType) -> jax.Array:
        """Compute a maximum or minimum with the gradient of `jnp`, which ties share.

        It has one rule everywhere: JAX's counts its initial infinity as a tie of an equal extremum.
        An empty segment has the limit of `dtype`.
        """

        @jax.custom_jvp
        def differentiable(data: jax.Array, ids: jax.Array) -> jax.Array:
            return self(data, ids)

        @differentiable.defjvp
        def _jvp(primals: tuple[Any, Any], tangents: tuple[Any, Any]) -> tuple[Any, Any]:
            result = differentiable(*primals)
            return result, self._tangent(result, *primals, tangents[0])

        result = differentiable(data, ids)
        if result.dtype == dtype:
            return result
        limits = (extreme(dtype, largest).astype(result.dtype) for largest in (True, False))
        return jnp.clip(result, *limits)

    def _tangent(
        self, result: jax.Array, data: jax.Array, ids: jax.Array, tangent: jax.Array
    ) -> jax.Array:
        """Return the mean tangent of the elements that equal the extremum `result`."""
        if comm.loops_among(self.reduced)[1]:
            return self._tangent_of_steps(data, ids, tangent)
        if self.common:
            result = comm.all_gather(result, self.batch, self.kept, "varying")
        shares, hits = self._ties(result, data, ids, tangent)
        total = self._sum_of_ties()
        ties = total(hits, ids)
        return total(shares, ids) / jnp.maximum(ties, 1)

    def _tangent_of_steps(self, data: jax.Array, ids: jax.Array, tangent: jax.Array) -> jax.Array:
        """Return `_tangent` if the reduced axis is also sharded over loop steps.

        Each step has all segments; they are sliced at the end.
        """
        devices, loops = comm.loops_among(self.reduced)
        step = self.replace(reduced=devices, kept=() if self.common else self.kept)
        best = lax.stop_gradient(step(data, ids))  # already includes the results of all devices
        shares, hits = step._ties(best, data, ids, tangent)
        total = step._sum_of_ties()
        count, share = total(hits, ids), total(shares, ids)
        ties, wins = among_steps(best, count, loops, lambda best: best, self.kind == "max")
        shared = comm.psum(share * wins, loops) / jnp.maximum(ties, 1)
        if not self.common:
            return shared
        return comm.cut(self._padded(shared), self.batch, plain(self.kept))

    def _sum_of_ties(self) -> _BlockReduction:
        """Return the sum, over the same axes, of values that have all batch axes."""
        return self.replace(kind="sum", in_data=(True,) * self.batch)

    def _ties(
        self, best: jax.Array, data: jax.Array, ids: jax.Array, tangent: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """Return the tangents of the elements that equal the extremum, and 1 for each of them."""

        def hit(
            data: jax.Array, tangent: jax.Array, best: jax.Array, at: jax.Array
        ) -> tuple[jax.Array, jax.Array]:
            hits = data == best.at[at].get(mode="fill", fill_value=jnp.nan)
            return jnp.where(hits, tangent, 0), hits.astype(tangent.dtype)

        at = self._local_ids(ids)[0]
        compare: Any = hit
        for present in reversed(self.in_data):
            axis = 0 if present else None
            compare = jax.vmap(compare, in_axes=(axis, axis, 0, 0))
        shares, hits = compare(data, tangent, cast_data(best, varying(data)), at)
        return shares, hits


FUNCTIONS: dict[str, Callable[..., Any]] = {
    f.__name__: f for f in (segment_sum, segment_prod, segment_max, segment_min)
}
