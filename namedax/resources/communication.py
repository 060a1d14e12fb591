"""The collectives on blocks, one function each. All communication of namedax is in this module.

Every function takes raw data inside a `jax.shard_map` body and a tuple of mesh axes, major first.
Functions that slice, gather or scatter a dimension also take an `Uneven`, and add or remove the
padding. There is no communication over a mesh axis over which the value is invariant.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, Concatenate, Literal, ParamSpec, TypeVar, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir
from jax.sharding import AxisType

from namedax.core.array import NamedArray
from namedax.core.cpu_workarounds import extremum, widened
from namedax.core.element_types import accumulation_type, additive_identity, to_type, weak_as
from namedax.core.names import MeshAxes
from namedax.core.padded_sharding import Uneven, plain
from namedax.core.region import ambient
from namedax.core.reshape import as_one
from namedax.core.variance import cast_data, varying, varying_of
from namedax.resources.padding import padded, padded_size, unpadded
from namedax.resources.serial import (
    LoopAxis,
    count_along,
    index_along,
    reject_loops,
    reject_microbatches,
)

P = ParamSpec("P")
T = TypeVar("T", NamedArray, jax.Array)

__all__ = [
    "PRIMITIVE",
    "OwnAxis",
    "all_gather",
    "all_to_all",
    "block_index",
    "cut",
    "emptied",
    "from_ordered_bits",
    "in_order",
    "is_keys",
    "only_where",
    "over_words",
    "own",
    "own_block",
    "pmax",
    "pmin",
    "ppermute",
    "psum",
    "psum_scatter",
    "sliced",
    "sum_type",
    "summable",
    "to_ordered_bits",
]


def _split(data: jax.Array, axes: MeshAxes) -> tuple[MeshAxes, int]:
    """Return the axes over which `data` varies, and the number of devices along the others."""
    variance = varying(data)
    others = [axis for axis in axes if axis not in variance]
    if others:  # variance has no microbatch axes
        reject_microbatches(others)
    moving = own([axis for axis in axes if axis in variance])
    return moving, math.prod([lax.axis_size(axis) for axis in others])


def is_keys(data: NamedArray | jax.Array) -> bool:
    """Return True if the elements are random keys, which cannot be summed."""
    return bool(jnp.issubdtype(data.dtype, jax.dtypes.prng_key))


def over_words(function: Callable[[jax.Array], jax.Array], keys: jax.Array) -> jax.Array:
    """Apply `function` to the words of random keys, in an added last dimension; return keys."""
    return jax.random.wrap_key_data(
        function(jax.random.key_data(keys)), impl=jax.random.key_impl(keys)
    )


def sum_type(dtype: Any) -> np.dtype:
    """Return the dtype in which to accumulate a sum: float32 for narrower floats, else `dtype`."""
    narrow = jnp.issubdtype(dtype, jnp.floating) and jnp.finfo(dtype).bits < 32
    return jnp.dtype(jnp.float32) if narrow else dtype


Collective = Callable[Concatenate[jax.Array, P], jax.Array]


def _in_bytes(collective: Collective[P]) -> Collective[P]:
    """Make a collective send integers below 8 bits as integers of 8 bits.

    Collectives of 2-bit integers corrupt memory in XLA's CPU backend (JAX 0.10 to 0.12).
    """

    @functools.wraps(collective)
    def sent(data: jax.Array, /, *args: P.args, **kwargs: P.kwargs) -> jax.Array:
        dtype = data.dtype
        if not jnp.issubdtype(dtype, jnp.integer) or jnp.iinfo(dtype).bits >= 8:
            return collective(data, *args, **kwargs)
        return collective(data.astype(accumulation_type(dtype)), *args, **kwargs).astype(dtype)

    return cast("Collective[P]", sent)


@_in_bytes
def psum(data: jax.Array, axes: MeshAxes) -> jax.Array:
    """Sum over `axes`. The result is invariant over them.

    Communication: one all-reduce.
    """
    moving, copies = _split(data, axes)
    if moving:
        wide = widened(data)
        total = lax.psum(wide, moving)
        data = total if wide is data else total.astype(data.dtype)
    return data if copies == 1 else lax.mul(data, lax.full_like(data, copies))


def summable(data: T) -> T:
    """Cast an array, named or not, to a dtype that has a zero; `float8_e8m0fnu` has none."""
    return data.astype(jnp.float32) if data.dtype == jnp.float8_e8m0fnu else data


def only_where(mask: jax.Array, data: jax.Array) -> jax.Array:
    """Replace `data`, which is `summable`, by the additive identity where `mask` is False.

    If the mask is True on one device only, the psum over the devices is `data` of that device bit
    for bit, including -0.0.
    """
    data = summable(data)
    return jnp.where(mask, data, weak_as(additive_identity(data.dtype), data))


def _sum_parts(parts: jax.Array, dim: int) -> jax.Array:
    """Sum along one dimension pairwise.

    There is no initial value, so that a sum of -0.0 is -0.0.
    """
    while (n := parts.shape[dim]) > 1:
        low, high, rest = (
            lax.slice_in_dim(parts, start, stop, axis=dim)
            for start, stop in ((0, n // 2), (n // 2, n // 2 * 2), (n // 2 * 2, n))
        )
        parts = (
            lax.add(low, high) if n % 2 == 0 else lax.concatenate([lax.add(low, high), rest], dim)
        )
    return lax.squeeze(parts, (dim,))


def _explicit_axes_left() -> bool:
    """Return True if the body is mapped over some axes of an Explicit mesh only.

    There JAX 0.12 supports neither a reduce-scatter nor the transpose of a varying all-gather. An
    all-to-all sends the same bytes.
    """
    return AxisType.Explicit in jax.sharding.get_abstract_mesh().axis_types


@_in_bytes
def psum_scatter(data: jax.Array, dim: int, axes: MeshAxes) -> jax.Array:
    """Sum over `axes` and keep this device's block along `dim`.

    Communication: one reduce-scatter.
    """
    if isinstance(axes, Uneven):
        data, axes = padded(data, dim, padded_size(axes)), plain(axes)
    moving, _ = _split(data, axes)
    if not moving:
        return cut(psum(data, axes), dim, axes)
    data = cast_data(data, axes)
    if _explicit_axes_left():
        count = math.prod(map(lax.axis_size, axes))
        parts = data.reshape(
            (*data.shape[:dim], count, data.shape[dim] // count, *data.shape[dim + 1 :])
        )
        return _sum_parts(lax.all_to_all(parts, own(axes), dim, dim), dim)
    return to_type(
        lax.psum_scatter(widened(data), own(axes), scatter_dimension=dim, tiled=True), data.dtype
    )


@_in_bytes
def all_gather(
    data: jax.Array, dim: int, axes: MeshAxes, to: Literal["varying", "invarying"]
) -> jax.Array:
    """Gather the blocks along `dim` of all devices along `axes`.

    With `to="varying"` the transpose is a reduce-scatter; use it if the result is combined with
    values that vary over `axes`. With `to="invarying"` the result is invariant, and the transpose
    is a slice. Invariant blocks are repeated without communication.

    Communication: one all-gather.
    """
    if isinstance(axes, Uneven):
        return unpadded(all_gather(data, dim, plain(axes), to), dim, axes.size)
    reject_microbatches(axes)
    variance = varying(data)
    if data.shape[dim] == 0:  # XLA has no all-gather of nothing
        return emptied(data, variance.union(axes) if to == "varying" else variance.difference(axes))
    if variance.issuperset(axes):
        if to == "varying" and _explicit_axes_left():
            parts = lax.all_to_all(
                jnp.stack([data] * math.prod(map(lax.axis_size, axes))), own(axes), 0, 0
            )
            return as_one(jnp.moveaxis(parts, 0, dim), dim)
        if to == "invarying":
            return lax.all_gather(data, own(axes), axis=dim, tiled=True, to=to)
        return to_type(
            lax.all_gather(widened(data), own(axes), axis=dim, tiled=True, to=to), data.dtype
        )
    # Minor axes first; adjacent axes of the same kind in one collective.
    for moving, group in itertools.groupby(reversed(axes), key=lambda axis: axis in variance):
        part = tuple(reversed(list(group)))
        if moving:
            data = all_gather(data, dim, part, to)
        else:
            data = lax.concatenate([data] * math.prod(lax.axis_size(axis) for axis in part), dim)
    return cast_data(data, axes) if to == "varying" else data


@_in_bytes
def all_to_all(data: jax.Array, split_dim: int, concat_dim: int, axes: MeshAxes) -> jax.Array:
    """Split `split_dim` into a block per device, and gather the blocks of `concat_dim`.

    The devices are those along `axes`.

    Communication: one all-to-all.

    Raises:
      SerialLoopError: one of the axes is the axis of a loop.
    """
    reject_loops(axes, data)
    return lax.all_to_all(cast_data(data, axes), own(axes), split_dim, concat_dim, tiled=True)


@_in_bytes
def ppermute(data: jax.Array, axes: MeshAxes, perm: list[tuple[int, int]]) -> jax.Array:
    """Permute the blocks of devices by the pairs `(source, target)` of `perm`.

    The pairs are row-major indices over `axes`.

    Communication: one collective-permute.

    Raises:
      SerialLoopError: one of the axes is the axis of a loop.
    """
    reject_loops(axes, data)
    # JAX 0.10 numbers devices in mesh order for any order of the tuple; JAX 0.12 rejects any other
    # order.
    ordered = tuple(axis for axis in jax.sharding.get_abstract_mesh().axis_names if axis in axes)
    if ordered != axes:
        number = np.arange(math.prod(map(lax.axis_size, ordered))).reshape(
            [lax.axis_size(axis) for axis in ordered]
        )
        number = number.transpose([ordered.index(axis) for axis in axes]).ravel()
        perm = [(int(number[source]), int(number[target])) for source, target in perm]
    return lax.ppermute(cast_data(data, axes), own(ordered), perm)


def block_index(axes: MeshAxes) -> jax.Array:
    """Return the row-major index of this device's block along `axes`."""
    return index_along(own(axes))


def cut(data: jax.Array, dim: int, axes: MeshAxes) -> jax.Array:
    """Slice this device's block along `dim` from a value replicated over `axes`.

    There is no communication.

    The transpose is one all-gather. If the value is varying or one of the axes is the axis of a
    loop, it is the zero-padded slice.
    """
    if isinstance(axes, Uneven):
        data, axes = padded(data, dim, padded_size(axes)), plain(axes)
    is_plain = any(isinstance(axis, LoopAxis) for axis in axes) or not varying(data).isdisjoint(
        axes
    )
    return (sliced if is_plain else own_block)(data, dim, own(axes))


def loops_among(axes: MeshAxes) -> tuple[MeshAxes, MeshAxes]:
    """Split axes into mesh axes and loop axes.

    A loop runs several passes over its steps if a value needs the results of all steps. Each pass
    recomputes values, and the results are not bit-identical. So compare values of one pass only;
    see `of_all_steps`.
    """
    return tuple(axis for axis in axes if not isinstance(axis, LoopAxis)), tuple(
        axis for axis in axes if isinstance(axis, LoopAxis)
    )


def of_all_steps(data: jax.Array, loops: MeshAxes) -> jax.Array:
    """Stack the values that all steps of loops compute in one pass, along a new leading dimension.

    These values can be compared with each other.
    """
    return all_gather(lax.stop_gradient(data)[None], 0, loops, "invarying")


def of_this_step(data: jax.Array, loops: MeshAxes) -> jax.Array:
    """Return this step's row of a result of `of_all_steps`."""
    return lax.dynamic_index_in_dim(cast_data(data, loops), block_index(loops), 0, keepdims=False)


def pmax(data: jax.Array, axes: MeshAxes) -> jax.Array:
    """Compute the maximum over `axes` and propagate NaNs.

    Not differentiable; see `namedax.ops.reduction.reductions`.

    XLA's all-reduce may drop NaNs (it does on CPUs), so floating-point values are reduced as
    integers of the same order. Types of 16 bits are widened to 32, because not every backend
    reduces 16-bit integers.

    Communication: one all-reduce.
    """
    return _extremum(data, axes, lax.pmax)


def pmin(data: jax.Array, axes: MeshAxes) -> jax.Array:
    """Compute the minimum over `axes` and propagate NaNs. See `pmax`.

    Communication: one all-reduce.
    """
    return _extremum(data, axes, lax.pmin)


def _extremum(
    data: jax.Array, axes: MeshAxes, reduce: Callable[[jax.Array, MeshAxes], jax.Array]
) -> jax.Array:
    moving, _ = _split(data, axes)
    if not moving:
        return data
    dtype, largest = data.dtype, reduce is lax.pmax
    if dtype == jnp.bool_:
        return reduce(data.astype(jnp.int32), moving).astype(dtype)
    if jnp.issubdtype(dtype, jnp.complexfloating):  # XLA's all-reduce has no order of them
        offers = all_gather(data[None], 0, moving, "invarying")
        return lax.squeeze(extremum(offers, (0,), largest), (0,))
    return in_order(data, largest, lambda ordered: reduce(ordered, moving))


def is_partitioned() -> bool:
    """Return True if XLA's partitioner may shard the current computation.

    There are several devices then, and `jax.shard_map` does not map all mesh axes.
    """
    region = ambient()
    if region is not None and region.mode == "global":
        return False  # the partitioner of namedax
    kinds = jax.sharding.get_abstract_mesh().axis_types
    return jax.device_count() > 1 and (not kinds or any(kind != AxisType.Manual for kind in kinds))


def in_order(data: jax.Array, largest: bool, reduce: Callable[[jax.Array], jax.Array]) -> jax.Array:
    """Apply `reduce`, a maximum (if `largest`) or a minimum, and propagate NaNs.

    XLA may drop them.

    Floating-point values are converted to integers of the same order. NaN becomes the largest
    integer for a maximum, else the smallest.
    """
    dtype = data.dtype
    if not jnp.issubdtype(dtype, jnp.floating):
        return reduce(data)
    wide = dtype if dtype.itemsize >= 4 else jnp.dtype(jnp.float32)
    bits = jnp.dtype(f"int{8 * wide.itemsize}")
    ordered = to_ordered_bits(data.astype(wide), bits, nan_is_last=largest)
    return from_ordered_bits(reduce(ordered), wide).astype(dtype)


def to_ordered_bits(data: jax.Array, bits: np.dtype, nan_is_last: bool) -> jax.Array:
    """Convert floats to integers of the dtype `bits`, of equal width, in the same order.

    -0.0 becomes -1 and 0.0 becomes 0. NaN comes after infinity (if `nan_is_last`) or before minus
    infinity.
    """
    # The order of positive floats is the order of their bits; for negative floats the order of the
    # bits after the sign is reversed.
    ordered = _reversed_below_zero(lax.bitcast_convert_type(data, bits))
    beyond = jnp.iinfo(bits).max if nan_is_last else jnp.iinfo(bits).min
    return lax.select(lax.ne(data, data), lax.full_like(ordered, beyond), ordered)


def from_ordered_bits(ordered: jax.Array, dtype: np.dtype) -> jax.Array:
    """Convert integers from `to_ordered_bits` back to floats."""
    # The transformation is its own inverse; both extreme integers become NaNs again.
    return lax.bitcast_convert_type(_reversed_below_zero(ordered), dtype)


def _reversed_below_zero(pattern: jax.Array) -> jax.Array:
    # `lax` functions, because the same code in `jnp` takes ten times as long to trace.
    number = pattern.dtype.type
    return lax.select(
        lax.lt(pattern, number(0)),
        lax.bitwise_xor(pattern, number(jnp.iinfo(pattern.dtype).max)),
        pattern,
    )


class OwnAxis(str):
    """A mesh axis in a collective of namedax. For JAX it is the same string."""

    __slots__ = ()


def own(axes: Iterable[str]) -> MeshAxes:
    """Mark mesh axes as the axes of a collective of namedax."""
    return tuple([_own_axis(axis) if type(axis) is str else axis for axis in axes])


@functools.lru_cache(maxsize=256)
def _own_axis(axis: str) -> OwnAxis:
    # One object per mesh axis, so that caches of the parameters of collectives share it.
    return OwnAxis(axis)


# --- a primitive that selects this device's block of a replicated value ---------------------------
# Its transpose is an all-gather.
#
# JAX transposes a local slice to a psum of the zero-padded slice, which takes twice the bytes of an
# all-gather of the slices. A pass over the jaxpr can replace only gradients that the body itself
# computes. The transpose rule of a primitive also applies to gradients outside the body. The
# primitive uses only public JAX: `jax.extend.core.Primitive` and the rules of `jax.interpreters`.


def sliced(data: jax.Array, dim: int, axes: MeshAxes) -> jax.Array:
    """Slice this device's block along `dim` like `cut`, with JAX's own operations.

    The value is replicated over `axes`.
    """
    size, index = data.shape[dim] // count_along(axes), index_along(axes)
    return lax.dynamic_slice_in_dim(cast_data(data, varying(index)), index * size, size, dim)


def emptied(data: jax.Array, axes: Collection[str]) -> jax.Array:
    """Return an empty array like `data`, which is empty, that varies over `axes` only."""
    return cast_data(lax.empty(data.shape, data.dtype), axes)


def own_block(data: jax.Array, dim: int, axes: MeshAxes) -> jax.Array:
    """Slice this device's block like `sliced`, but with an all-gather as the transpose.

    The value must not vary over `axes`, and `jax.shard_map` must map all of `axes`.
    """
    return PRIMITIVE.bind(data, dim=dim, axes=axes)


PRIMITIVE = Primitive("device_block")


def _type(aval: ShapedArray, *, dim: int, axes: MeshAxes) -> ShapedArray:
    return jax.make_jaxpr(functools.partial(sliced, dim=dim, axes=axes))(aval).out_avals[0]


def _transpose(
    block: jax.Array | ad.Zero, operand: ad.UndefinedPrimal, *, dim: int, axes: MeshAxes
) -> list[jax.Array | ad.Zero]:
    if isinstance(block, ad.Zero):
        return [ad.Zero(operand.aval)]
    if varying_of(operand.aval).isdisjoint(axes):
        if block.shape[dim] == 0:
            return [emptied(block, varying(block).difference(axes))]
        return [lax.all_gather(block, axes, axis=dim, tiled=True, to="invarying")]
    # A transformation has made the operand varying: each device has its own gradient.
    (whole,) = jax.linear_transpose(functools.partial(sliced, dim=dim, axes=axes), operand.aval)(
        block
    )
    return [whole]


def _batch(
    operands: Sequence[Any], batched: Sequence[int], *, dim: int, axes: MeshAxes
) -> tuple[Any, int]:
    (data,), (at,) = operands, batched
    return own_block(data, dim + (at <= dim), axes), at


PRIMITIVE.def_abstract_eval(_type)
PRIMITIVE.def_impl(sliced)
ad.deflinear2(PRIMITIVE, _transpose)
batching.primitive_batchers[PRIMITIVE] = _batch
mlir.register_lowering(PRIMITIVE, mlir.lower_fun(sliced, multiple_results=False))
