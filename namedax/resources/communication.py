"""The collectives on blocks: one function each, the only place where namedax communicates.

All take raw data inside of a `jax.shard_map` body and a tuple of mesh axes, major first; those that cut, put together or scatter a
dimension take an `Uneven` as well, and put padding on or take it off. Over a mesh axis on which the value
does not vary nothing is sent: every device knows the result already.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import AxisType

from namedax.core.cpu_workarounds import widened
from namedax.core.element_types import additive_identity, to_type, weak_as
from namedax.core.padded_sharding import Uneven, plain
from namedax.core.reshape import as_one
from namedax.core.variance import cast_data, varying
from namedax.resources.local_slice import emptied, own_block, sliced
from namedax.resources.microbatches import index_along, refuse_microbatches
from namedax.resources.padding import padded, padded_size, unpadded
from namedax.resources.refusals import refuse_loops
from namedax.resources.serial import LoopAxis

__all__ = [
    "OwnAxis",
    "all_gather",
    "all_to_all",
    "block_index",
    "cut",
    "from_ordered_bits",
    "in_order",
    "is_keys",
    "only_where",
    "over_words",
    "own",
    "pmax",
    "pmin",
    "ppermute",
    "psum",
    "psum_scatter",
    "sum_type",
    "to_ordered_bits",
]

Axes = tuple[str, ...]


def _split(data: Any, axes: Axes) -> tuple[Axes, int]:
    """The axes over which `data` varies, and the number of devices along the others."""
    refuse_microbatches(axes)
    variance = varying(data)
    moving = own(tuple(axis for axis in axes if axis in variance))
    return moving, math.prod(lax.axis_size(axis) for axis in axes if axis not in variance)


def is_keys(data: Any) -> bool:
    """Whether the elements are random keys, which cannot be added up."""
    return bool(jnp.issubdtype(data.dtype, jax.dtypes.prng_key))


def over_words(function: Callable[[Any], Any], keys: Any) -> Any:
    """`function` of the words of random keys, which stand along one more dimension, the last; as keys again."""
    return jax.random.wrap_key_data(function(jax.random.key_data(keys)), impl=jax.random.key_impl(keys))


def sum_type(dtype: Any) -> Any:
    """The element type in which parts of a sum are added up one after the other: of floats that are narrower, float32."""
    narrow = jnp.issubdtype(dtype, jnp.floating) and jnp.finfo(dtype).bits < 32
    return jnp.dtype(jnp.float32) if narrow else dtype


def psum(data: Any, axes: Axes) -> Any:
    """Sum over `axes`: one all-reduce; the result is the same on all their devices."""
    moving, copies = _split(data, axes)
    if moving:
        data = to_type(lax.psum(widened(data), moving), data.dtype)
    return data if copies == 1 else lax.mul(data, lax.full_like(data, copies))


def only_where(mask: Any, data: Any) -> Any:
    """`data` where `mask` is true, and elsewhere what changes no sum: the sum over devices, of which one has `data`, is `data`.

    To the last bit, -0.0 too.
    """
    return jnp.where(mask, data, weak_as(additive_identity(data.dtype), data))


def _sum_parts(parts: Any, dim: int) -> Any:
    """The sum along one dimension, pairwise and without a number to begin with, so that a sum of -0.0 stays -0.0."""
    while (n := parts.shape[dim]) > 1:
        low, high, rest = (
            lax.slice_in_dim(parts, start, stop, axis=dim)
            for start, stop in ((0, n // 2), (n // 2, n // 2 * 2), (n // 2 * 2, n))
        )
        parts = lax.add(low, high) if n % 2 == 0 else lax.concatenate([lax.add(low, high), rest], dim)
    return lax.squeeze(parts, (dim,))


def _explicit_axes_left() -> bool:
    """Whether the body is mapped over a part of an Explicit mesh only.

    There JAX 0.12 cannot reduce-scatter, nor transpose a varying all-gather; an all-to-all sends the same bytes.
    """
    return AxisType.Explicit in jax.sharding.get_abstract_mesh().axis_types


def psum_scatter(data: Any, dim: int, axes: Axes) -> Any:
    """Sum over `axes`, of which each device keeps its block along `dim`: one reduce-scatter."""
    if isinstance(axes, Uneven):
        data, axes = padded(data, dim, padded_size(axes)), plain(axes)
    moving, _ = _split(data, axes)
    if not moving:
        return cut(psum(data, axes), dim, axes)
    data = cast_data(data, axes)
    if _explicit_axes_left():
        count = math.prod(map(lax.axis_size, axes))
        parts = data.reshape((*data.shape[:dim], count, data.shape[dim] // count, *data.shape[dim + 1 :]))
        return _sum_parts(lax.all_to_all(parts, own(axes), dim, dim), dim)
    return to_type(lax.psum_scatter(widened(data), own(axes), scatter_dimension=dim, tiled=True), data.dtype)


def all_gather(data: Any, dim: int, axes: Axes, to: Literal["varying", "invarying"]) -> Any:
    """The blocks along `dim` of all devices along `axes`: one all-gather.

    With `to="varying"` its transpose is a reduce-scatter, for a value that meets others that vary over `axes`. With
    `to="invarying"` the result counts as replicated, and the transpose is a slice. Equal blocks are repeated, not sent.
    """
    if isinstance(axes, Uneven):
        return unpadded(all_gather(data, dim, plain(axes), to), dim, axes.size)
    refuse_microbatches(axes)
    variance = varying(data)
    if data.shape[dim] == 0:  # XLA has no all-gather of nothing
        return emptied(data, variance.union(axes) if to == "varying" else variance.difference(axes))
    if variance.issuperset(axes):
        if to == "varying" and _explicit_axes_left():
            parts = lax.all_to_all(jnp.stack([data] * math.prod(map(lax.axis_size, axes))), own(axes), 0, 0)
            return as_one(jnp.moveaxis(parts, 0, dim), dim)
        if to == "invarying":
            return lax.all_gather(data, own(axes), axis=dim, tiled=True, to=to)
        return to_type(lax.all_gather(widened(data), own(axes), axis=dim, tiled=True, to=to), data.dtype)
    # Minor axes first; neighbours of the same kind together.
    for moving, group in itertools.groupby(reversed(axes), key=lambda axis: axis in variance):
        part = tuple(reversed(list(group)))
        if moving:
            data = all_gather(data, dim, part, to)
        else:
            data = lax.concatenate([data] * math.prod(lax.axis_size(axis) for axis in part), dim)
    return cast_data(data, axes) if to == "varying" else data


def all_to_all(data: Any, split_dim: int, concat_dim: int, axes: Axes) -> Any:
    """Cuts `split_dim` into a block per device along `axes` and puts the blocks of `concat_dim` together: one all-to-all.

    Raises:
      SerialLoopError: one of the axes is a loop's.
    """
    refuse_loops(axes, data)
    return lax.all_to_all(cast_data(data, axes), own(axes), split_dim, concat_dim, tiled=True)


def ppermute(data: Any, axes: Axes, perm: list[tuple[int, int]]) -> Any:
    """Sends the block of device `source` to device `target`, for all pairs of `perm` (row-major indices over `axes`).

    Raises:
      SerialLoopError: one of the axes is a loop's.
    """
    refuse_loops(axes, data)
    # JAX counts devices in the order of the mesh, whatever the order of the tuple (0.10), or refuses another order (0.12).
    ordered = tuple(axis for axis in jax.sharding.get_abstract_mesh().axis_names if axis in axes)
    if ordered != axes:
        number = np.arange(math.prod(map(lax.axis_size, ordered))).reshape([lax.axis_size(axis) for axis in ordered])
        number = number.transpose([ordered.index(axis) for axis in axes]).ravel()
        perm = [(int(number[source]), int(number[target])) for source, target in perm]
    return lax.ppermute(cast_data(data, axes), own(ordered), perm)


def block_index(axes: Axes) -> Any:
    """The index of this device's block among all along `axes`, row-major."""
    return index_along(own(axes))


def cut(data: Any, dim: int, axes: Axes) -> Any:
    """This device's block along `dim` of a value that all devices along `axes` have whole; sends nothing.

    Its transpose is one all-gather; where the value counts as varying, or an axis is a loop's, the slice among zeros.
    """
    if isinstance(axes, Uneven):
        data, axes = padded(data, dim, padded_size(axes)), plain(axes)
    is_plain = any(isinstance(axis, LoopAxis) for axis in axes) or not varying(data).isdisjoint(axes)
    return (sliced if is_plain else own_block)(data, dim, own(axes))


def loops_among(axes: Axes) -> tuple[Axes, Axes]:
    """The axes that are of devices, and those that are loops in time.

    A loop's steps are passed through several times where a value needs what all of them have found. Each pass computes values anew, and not to
    the last bit: what one pass has computed must not be compared with what another has found. See `of_all_steps`.
    """
    return tuple(axis for axis in axes if not isinstance(axis, LoopAxis)), tuple(
        axis for axis in axes if isinstance(axis, LoopAxis)
    )


def of_all_steps(data: Any, loops: Axes) -> Any:
    """What the steps of loops have computed in one pass, stacked in front: these can be compared with each other."""
    return all_gather(lax.stop_gradient(data)[None], 0, loops, "invarying")


def of_this_step(data: Any, loops: Axes) -> Any:
    """This step's entry of what was stacked by `of_all_steps`."""
    return lax.dynamic_index_in_dim(cast_data(data, loops), block_index(loops), 0, keepdims=False)


def pmax(data: Any, axes: Axes) -> Any:
    """Maximum over `axes`, NaN where one is NaN: one all-reduce. Not differentiable; see `namedax.ops.reduction.reductions`.

    XLA's all-reduce may drop NaNs (it does on CPUs), so floating-point values travel as integers of the same order. Sixteen-bit
    types travel as 32 bits, because not every backend reduces 16-bit integers.
    """
    return _extremum(data, axes, lax.pmax)


def pmin(data: Any, axes: Axes) -> Any:
    """Minimum over `axes`, NaN where one is NaN: one all-reduce. See `pmax`."""
    return _extremum(data, axes, lax.pmin)


def _extremum(data: Any, axes: Axes, reduce: Any) -> Any:
    moving, _ = _split(data, axes)
    if not moving:
        return data
    dtype, largest = data.dtype, reduce is lax.pmax
    if dtype == jnp.bool_:
        return reduce(data.astype(jnp.int32), moving).astype(dtype)
    if jnp.issubdtype(dtype, jnp.complexfloating):  # ordered by jnp, not by XLA's all-reduce
        local = jnp.max if largest else jnp.min
        return local(all_gather(data[None], 0, moving, "invarying"), 0)
    return in_order(data, largest, lambda ordered: reduce(ordered, moving))


def is_partitioned() -> bool:
    """Whether XLA's partitioner may cut what is computed here: of several devices, some are not in the hands of `jax.shard_map`."""
    kinds = jax.sharding.get_abstract_mesh().axis_types
    return jax.device_count() > 1 and (not kinds or any(kind != AxisType.Manual for kind in kinds))


def in_order(data: Any, largest: bool, reduce: Callable[[Any], Any]) -> Any:
    """What `reduce`, a maximum (if `largest`) or a minimum, gives for `data`, where XLA's may drop NaNs.

    Floating-point values become integers of the same order, among which a NaN wins.
    """
    dtype = data.dtype
    if not jnp.issubdtype(dtype, jnp.floating):
        return reduce(data)
    wide = dtype if dtype.itemsize >= 4 else jnp.dtype(jnp.float32)
    bits = jnp.dtype(f"int{8 * wide.itemsize}")
    ordered = to_ordered_bits(data.astype(wide), bits, nan_is_last=largest)
    return from_ordered_bits(reduce(ordered), wide).astype(dtype)


def to_ordered_bits(data: Any, bits: Any, nan_is_last: bool) -> Any:
    """Integers of the type `bits`, as wide as the floats, in their order: -0.0 is -1, 0.0 is 0, and NaN is beyond infinity."""
    # Positive floats are ordered as their bits are; for negative ones the order of the other bits is reversed. NaN becomes
    # the pattern that stands beyond all infinities, on the side that wins.
    ordered = _reversed_below_zero(lax.bitcast_convert_type(data, bits))
    beyond = jnp.iinfo(bits).max if nan_is_last else jnp.iinfo(bits).min
    return lax.select(lax.ne(data, data), lax.full_like(ordered, beyond), ordered)


def from_ordered_bits(ordered: Any, dtype: Any) -> Any:
    """The floats of which `to_ordered_bits` made these integers."""
    # The transformation is its own inverse; both extreme patterns are NaNs, as they were.
    return lax.bitcast_convert_type(_reversed_below_zero(ordered), dtype)


def _reversed_below_zero(pattern: Any) -> Any:
    # In `lax`: the same in `jnp` takes ten times as long to trace.
    number = pattern.dtype.type
    return lax.select(lax.lt(pattern, number(0)), lax.bitwise_xor(pattern, number(jnp.iinfo(pattern.dtype).max)), pattern)


class OwnAxis(str):
    """A mesh axis, as the collectives of namedax name it. To JAX it is the same string."""

    __slots__ = ()


def own(axes: tuple[str, ...]) -> tuple[str, ...]:
    """Mesh axes for a collective that namedax makes."""
    return tuple(_own_axis(axis) if type(axis) is str else axis for axis in axes)


@functools.lru_cache(maxsize=256)
def _own_axis(axis: str) -> OwnAxis:
    # One object for each mesh axis: caches that keep a collective's parameters keep no copies of its axes.
    return OwnAxis(axis)
