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
import numpy as np
from jax import lax

from namedax.core.annotations import AnyArray, ArrayLike, AxisSpec
from namedax.core.array import NamedArray, dims_of
from namedax.core.cpu_workarounds import extremum
from namedax.core.display import type_text
from namedax.core.element_types import accumulate, extreme
from namedax.core.names import DType, is_name
from namedax.core.padded_sharding import Uneven, block_size, plain
from namedax.core.region import ambient
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


@operation()
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
    return _segment(
        "sum", data, segment_ids, num_segments, axis, out_axis, indices_are_sorted, mode
    )


@operation()
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
    return _segment(
        "prod", data, segment_ids, num_segments, axis, out_axis, indices_are_sorted, mode
    )


@operation()
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
    return _segment(
        "max", data, segment_ids, num_segments, axis, out_axis, indices_are_sorted, mode
    )


@operation()
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
    return _segment(
        "min", data, segment_ids, num_segments, axis, out_axis, indices_are_sorted, mode
    )


def _segment(
    kind: str,
    data: ArrayLike,
    ids: ArrayLike,
    num_segments: int | None,
    axis: AxisSpec,
    out_axis: Hashable | None,
    is_sorted: bool,
    mode: str | None,
) -> AnyArray:
    op = f"segment_{kind}"
    if mode not in (None, "drop", "fill", "clip"):
        raise PositionalAxisError(f"{op}: mode must be 'drop' or 'clip', got {format_value(mode)}.")
    region = ambient()
    data, ids = to_local(data, op, region), to_local(ids, op, region)
    data, ids = (v if isinstance(v, NamedArray) else jnp.asarray(v) for v in (data, ids))
    if not jnp.issubdtype(ids.dtype, jnp.integer):
        raise PositionalAxisError(f"{op}: the segment_ids {type_text(ids)} are not integers.")
    axis = unwrap_single(axis, dims_of(data))
    (dim,) = resolve_axis(op, data, (axis,))
    name = dims_of(data)[dim]
    id_axes = [d for d in dims_of(ids) if d is None or d == name]
    if name is not None and name not in dims_of(ids):
        raise_not_found(
            op,
            name,
            f"the segment_ids {type_text(ids)}",
            [d for d in dims_of(ids) if d is not None],
        )
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
    if out_axis is not None and not is_name(out_axis):
        raise PositionalAxisError(
            f"{op}: out_axis={format_value(out_axis)} is not an axis name. Use None for a"
            " positional axis."
        )
    if out_axis is not None and out_axis != name and out_axis in (*dims_of(data), *dims_of(ids)):
        raise AxisSizeError(
            f"{op}: the arguments already have the new axis {format_value(out_axis)}. Choose"
            " another name."
        )
    known = None if region is None or out_axis is None else region.sizes.get(out_axis)
    if num_segments is None:
        num_segments = known
    if num_segments is None:
        raise AxisNotFoundError(
            f"{op}: the number of segments is not known. Pass num_segments, or the size of out_axis"
            " in axis_sizes of xmap."
        ).about(
            axis=out_axis,
            found_size=None if region is None or out_axis is None else region.found_size(out_axis),
        )
    if known is not None and known != num_segments:
        raise AxisSizeError(
            f"{op}: num_segments is {num_segments}, but axis {format_value(out_axis)} has size"
            f" {known} in this mapped function; a name has one size. Choose another name for"
            " out_axis."
        )
    count = as_integer(op, "num_segments", num_segments, 0)
    if region is not None and out_axis is not None:
        region.block_size(out_axis, count, op, supports_padding=True)
    position = dims_of(data)[:dim].count(None) if name is None else 0
    return kernels.run(
        op,
        _accumulate,
        (name, out_axis),
        (kind, count, position, is_sorted, mode == "clip"),
        data,
        ids,
    )


def _accumulate(
    op: str,
    axes: tuple[Any, Any],
    kind: str,
    count: int,
    position: int,
    is_sorted: bool,
    clip: bool,
    x: AnyArray,
    ids: jax.Array,
) -> AnyArray:
    """Run `_reduce` in the accumulation type of the elements."""

    def of(data: AnyArray, dtype: DType | None) -> AnyArray:
        return _reduce(op, axes, kind, count, position, is_sorted, clip, data, ids, x.dtype)

    return accumulate(op, of, x)


def _reduce(
    op: str,
    axes: tuple[Any, Any],
    kind: str,
    count: int,
    position: int,
    is_sorted: bool,
    clip: bool,
    x: AnyArray,
    ids: jax.Array,
    dtype: DType,
) -> AnyArray:
    region = ambient()
    name, out_axis = axes
    dims, id_dims = dims_of(x), dims_of(ids)
    dim = (
        dims.index(name)
        if name is not None
        else [i for i, d in enumerate(dims) if d is None][position]
    )
    sizes: dict[Hashable, int] = {}
    for value in (x, ids):
        for d, n in zip(
            dims_of(value),
            np.shape(value._data if isinstance(value, NamedArray) else value),
            strict=True,
        ):
            if d is not None and sizes.setdefault(d, n) != n:
                raise AxisSizeError(
                    f"{op}: axis {d!r} has two sizes, in {type_text(x)} and in the segment_ids"
                    f" {type_text(ids)}; a name has one size."
                )
    batch = [d for d in id_dims if d is not None and d != name]
    shared = [d for d in batch if d in dims]
    rest = [i for i, d in enumerate(dims) if i != dim and d not in shared]
    reduced: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    if region is not None and region.resources:
        out = [d for d in (*dims, *id_dims) if d is not None and d != name]
        region.check_placement(op, dict.fromkeys([*out, *([] if out_axis is None else [out_axis])]))
        region.check_placement(op, dict.fromkeys(d for d in (*dims, *id_dims) if d is not None))
    if region is not None and region.manual:
        reduced = region.place(name) if name is not None else ()
        kept = region.place(out_axis) if out_axis is not None else ()
    data = x._data if isinstance(x, NamedArray) else x
    numbers = ids._data if isinstance(ids, NamedArray) else ids
    if data.shape[dim] != numbers.shape[id_dims.index(name)]:
        raise AxisSizeError(
            f"{op}: the reduced axis has size {data.shape[dim]} in {type_text(x)}, but "
            f"{numbers.shape[id_dims.index(name)]} in the segment_ids {type_text(ids)}."
        )
    if region is not None and region.manual:
        union = varying(data) | varying(numbers) | frozenset(reduced) | frozenset(kept)
        data, numbers = cast(x, union), cast_data(numbers, union)
    if (
        kind != "sum"
    ):  # XLA's partitioner would combine partial results with an operation that drops NaN
        data = constrain_sharding(data, tuple(None if i == dim else d for i, d in enumerate(dims)))
        numbers = constrain_sharding(
            numbers, tuple(None if d == name or d is None else d for d in id_dims)
        )
    order = [dims.index(d) for d in shared] + [dim] + rest
    id_order = [id_dims.index(d) for d in batch] + [id_dims.index(name)]
    data, numbers = lax.transpose(data, order), lax.transpose(numbers, id_order)
    numbers = jnp.clip(numbers, 0, count - 1) if clip else numbers
    if isinstance(reduced, Uneven) or isinstance(kept, Uneven):
        numbers = _of_real(numbers, count, reduced)
    run = _Placed(
        kind, count, len(batch), tuple(d in shared for d in batch), plain(reduced), kept, is_sorted
    )
    # By the same rule everywhere: JAX's counts its initial infinity as a tie of an equal extremum.
    result = (run.differentiable if kind in ("max", "min") else run)(data, numbers)
    if kind in ("max", "min") and result.dtype != dtype:  # an empty segment has the limit of dtype
        limits = (extreme(dtype, largest).astype(result.dtype) for largest in (True, False))
        result = jnp.clip(result, *limits)
    # If both axes share mesh axes, the copies of the last segment are made before the sum.
    result = (constant_padding if run.common else refilled)(result, len(batch), kept)

    # The result: batch axes, the segments, the rest.
    out_dims = [*batch, out_axis, *(dims[i] for i in rest)]
    if kind != "sum":
        result = constrain_sharding(result, (*batch, None, *(dims[i] for i in rest)))
    if out_axis is None and name is None and position:
        places = [n for n, d in enumerate(out_dims) if d is None]
        result = jnp.moveaxis(result, places[0], places[position])
        out_dims.insert(places[position], out_dims.pop(places[0]))
    return make_result(result, tuple(out_dims))


def _of_real(numbers: jax.Array, count: int, place: tuple[str, ...]) -> jax.Array:
    """Replace the segment numbers of padding by a number that is no segment.

    This is padding of the elements, on the last axis, and of the segments.

    That number exceeds all others, so that sorted numbers remain sorted.
    """
    if numbers.dtype.itemsize < 4:
        numbers = numbers.astype(jnp.int32)
    none = jnp.iinfo(numbers.dtype).max
    return masked(jnp.where(numbers < count, numbers, none), numbers.ndim - 1, place, none)


class _Placed:
    """One reduction on blocks.

    The dimensions of `data` are its batch axes, the reduced axis, and the rest; `ids` has all batch
    axes, and the reduced axis.

    Args:
      kind: sum, prod, max or min.
      count: the global number of segments.
      batch: the number of batch axes.
      in_data: for each batch axis, `True` if `data` has it.
      reduced: the mesh axes of the reduced axis.
      kept: the mesh axes of the segments.
      is_sorted: `True` if the ids are sorted.
    """

    def __init__(
        self,
        kind: str,
        count: int,
        batch: int,
        in_data: tuple[bool, ...],
        reduced: tuple[str, ...],
        kept: tuple[str, ...],
        is_sorted: bool,
    ):
        self.kind, self.count, self.batch, self.in_data = kind, count, batch, in_data
        self.reduced, self.kept, self.is_sorted = reduced, kept, is_sorted
        self.common = tuple(axis for axis in kept if axis in reduced)

    def __call__(self, data: jax.Array, ids: jax.Array) -> jax.Array:
        return self._reduce(self.kind, data, ids, self.in_data)

    def _reduce(
        self, kind: str, data: jax.Array, ids: jax.Array, in_data: tuple[bool, ...]
    ) -> jax.Array:
        ids, size = self._own(ids)

        def local(data: jax.Array, ids: jax.Array) -> jax.Array:
            return _LOCAL[kind](data, ids, num_segments=size, indices_are_sorted=self.is_sorted)

        for present in reversed(in_data):
            local = jax.vmap(local, in_axes=(0 if present else None, 0))
        return self._combine(kind, local(data, ids))

    def _own(self, ids: jax.Array) -> tuple[Any, int]:
        """Return the local segment numbers, and the number of segments before communication."""
        if not self.kept or self.common:
            return ids, self.count
        size = block_size(self.count, math.prod(lax.axis_size(axis) for axis in self.kept))
        return ids - comm.block_index(plain(self.kept)).astype(ids.dtype) * size, size

    def _combine(self, kind: str, partial: jax.Array) -> jax.Array:
        dim = self.batch
        if self.common:
            partial = self._scatter(kind, self._cut(self._padded(partial, dim), dim), dim)
        rest = tuple(axis for axis in self.reduced if axis not in self.common)
        if not rest:
            return partial
        if kind == "sum":
            return comm.psum(partial, rest)
        if kind == "prod":
            partials = comm.all_gather(partial[None], 0, rest, "invarying")
            return jnp.prod(partials, 0, promote_integers=False)
        return (comm.pmax if kind == "max" else comm.pmin)(partial, rest)

    def _padded(self, partial: jax.Array, dim: int) -> jax.Array:
        """Append copies of the last segment up to a size that divides.

        Tangents get them too, so that they transpose with it.
        """
        if not isinstance(self.kept, Uneven):
            return partial
        last = lax.slice_in_dim(partial, self.count - 1, self.count, axis=dim)
        return lax.concatenate([partial, *[last] * (padded_size(self.kept) - self.count)], dim)

    def _cut(self, partial: jax.Array, dim: int) -> jax.Array:
        """Slice this device's segments along the mesh axes that shard only the segments."""
        if self.common == self.kept:
            return partial
        before, after = partial.shape[:dim], partial.shape[dim + 1 :]
        sizes = [lax.axis_size(axis) for axis in self.kept]
        partial = partial.reshape(*before, *sizes, partial.shape[dim] // math.prod(sizes), *after)
        for n in reversed(range(len(self.kept))):
            if self.kept[n] not in self.common:
                partial = lax.dynamic_index_in_dim(
                    partial, comm.block_index((self.kept[n],)), dim + n, keepdims=False
                )
        return as_one(partial, dim, partial.ndim - dim - len(after))

    def _scatter(self, kind: str, partial: jax.Array, dim: int) -> jax.Array:
        if kind == "sum":
            return comm.psum_scatter(partial, dim, self.common)
        devices = math.prod(lax.axis_size(axis) for axis in self.common)
        shape = partial.shape
        blocks = partial.reshape(*shape[:dim], devices, shape[dim] // devices, *shape[dim + 1 :])
        blocks = comm.all_to_all(blocks, dim, dim, self.common)
        return (
            jnp.prod(blocks, dim, promote_integers=False)
            if kind == "prod"
            else lax.squeeze(extremum(blocks, (dim,), kind == "max"), (dim,))
        )

    def differentiable(self, data: jax.Array, ids: jax.Array) -> jax.Array:
        """Compute a maximum or minimum with the gradient of `jnp`, which ties share."""
        extremum = jax.custom_jvp(self)
        devices, loops = comm.loops_among(self.reduced)
        kept = (
            () if self.common else self.kept
        )  # all segments in each step, and their block at the end
        in_step = _Placed(
            self.kind, self.count, self.batch, self.in_data, devices, kept, self.is_sorted
        )

        @extremum.defjvp
        def _jvp(primals: tuple[Any, Any], tangents: tuple[Any, Any]) -> tuple[Any, Any]:
            data, ids = primals
            result = extremum(data, ids)
            whole, at = result, self._own(ids)[0]
            if loops:
                whole, at = lax.stop_gradient(in_step(data, ids)), in_step._own(ids)[0]
            elif self.common:
                whole = comm.all_gather(result, self.batch, self.kept, "varying")
            best, whole = whole, cast_data(whole, varying(data))

            def hit(
                data: jax.Array, tangent: jax.Array, whole: jax.Array, at: jax.Array
            ) -> tuple[Any, Any]:
                hits = data == whole.at[at].get(mode="fill", fill_value=jnp.nan)
                return jnp.where(hits, tangent, 0), hits.astype(tangent.dtype)

            compare: Any = hit
            for present in reversed(self.in_data):
                compare = jax.vmap(
                    compare, in_axes=(0 if present else None, 0 if present else None, 0, 0)
                )
            shares, hits = compare(data, tangents[0], whole, at)
            every = (True,) * self.batch
            if not loops:
                ties = self._reduce("sum", hits, ids, every)
                return result, self._reduce("sum", shares, ids, every) / jnp.maximum(ties, 1)
            count, share = (in_step._reduce("sum", part, ids, every) for part in (hits, shares))
            # `best` already includes the results of all devices.
            ties, wins = among_steps(best, count, loops, lambda best: best, self.kind == "max")
            shared = comm.psum(share * wins, loops) / jnp.maximum(ties, 1)
            return result, (
                comm.cut(self._padded(shared, self.batch), self.batch, plain(self.kept))
                if self.common
                else shared
            )

        return extremum(data, ids)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    f.__name__: f for f in (segment_sum, segment_prod, segment_max, segment_min)
}
