"""Collectives over fast and slow mesh axes, one step for each kind of axis.

A collective over `("dcn", "ici")` sends every block over the slow axis, if it runs as one step. In
two steps each device sends only its part there:

- a sum is a reduce-scatter over the fast axes, an all-reduce of the part over the slow axes, and an
  all-gather over the fast axes;
- a reduce-scatter runs over the fast axes first, an all-gather over the slow axes first, while its
  blocks are small. The order of the blocks does not change.

The transpose of a sum is a cast, and that of a cast is a sum. JAX's own transpose of the three
steps of a sum would have another all-gather. So sums and casts in steps are a primitive. It has the
jaxpr of its steps, as a call has, and uses only public JAX.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.core import ShapedArray
from jax.extend.core import ClosedJaxpr, Primitive, jaxpr_as_fun
from jax.interpreters import ad, batching, mlir

from namedax.core.names import Mesh, MeshAxes
from namedax.core.variance import cast_data
from namedax.errors import ArgumentError, MeshError, did_you_mean, format_value, show_names
from namedax.resources import communication as comm

__all__ = [
    "PRIMITIVE",
    "SMALLEST",
    "SlowAxes",
    "inferred",
    "parse_slow_axes",
    "slow_axes_on",
    "split",
    "steps",
]

#: The payload in bytes from which on a collective runs in two steps, if the user gives no other.
#: Below it, the latency of three collectives costs more than the bytes over a slow axis. It holds
#: for a network of about 6 GB/s for each device and a microsecond for each step on the fast axis.
SMALLEST = 32 * 1024

#: Slow mesh axes, each with the smallest payload in bytes for two steps.
SlowAxes = tuple[tuple[str, int], ...]

Step = Literal["sum", "cast", "gathered", "gathered_invariant", "scattered", "block"]


# --- slow axes ------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=256)
def inferred(mesh: Mesh) -> SlowAxes:
    """Return the mesh axes that cross groups of devices, each with `SMALLEST`.

    The groups are those of `device.slice_index`: the slices of TPUs, and the hosts of other devices
    in several processes. Devices without it are in the group of their process. If every axis
    crosses groups, or none does, the result is empty.
    """
    group_of = np.vectorize(
        lambda device: getattr(device, "slice_index", device.process_index), otypes=[int]
    )
    groups = group_of(mesh.devices)
    crossing = tuple(
        (axis, SMALLEST)
        for dim, axis in enumerate(mesh.axis_names)
        if (groups != groups.take([0], dim)).any()
    )
    sizes = dict(mesh.shape)
    large = [axis for axis in mesh.axis_names if sizes[axis] > 1]
    return crossing if len(crossing) < len(large) else ()


def parse_slow_axes(given: object) -> SlowAxes | None:
    """Return the argument `slow_axes` of `xmap` in its final form.

    Raises:
      ArgumentError: it is neither a sequence of mesh axes nor a mapping to numbers of bytes.
    """
    if given is None:
        return None
    found: object = given
    if isinstance(given, Sequence) and not isinstance(given, str):
        found = dict.fromkeys(given, SMALLEST)
    if not isinstance(found, Mapping) or not all(isinstance(axis, str) for axis in found):
        example = repr((given,)) if isinstance(given, str) else "('dcn',)"
        raise ArgumentError(
            f"xmap: slow_axes={format_value(given)} must be a tuple of mesh axes, or a dict from"
            f" mesh axes to bytes. Write slow_axes={example}."
        )
    for axis, size in found.items():
        if isinstance(size, bool) or not isinstance(size, (int, np.integer)) or size < 0:
            raise ArgumentError(
                f"xmap: slow_axes gives {axis!r} the size {format_value(size)}; the smallest"
                " payload in bytes must be a nonnegative integer. Write"
                f" slow_axes={{{axis!r}: {SMALLEST}}}."
            )
    return tuple((axis, int(size)) for axis, size in found.items())


def slow_axes_on(
    given: SlowAxes | None, mesh: Mesh | None, own_mesh: Mesh | None
) -> dict[str, int]:
    """Return the slow axes of a mesh: those given, or those that the devices show.

    Args:
      given: the slow axes that the user gives, or `None`.
      mesh: the mesh of the program.
      own_mesh: the mesh in the options of `xmap`; without it, the devices are unknown.

    Raises:
      MeshError: the mesh lacks an axis.
    """
    if given is None:
        return dict(inferred(own_mesh)) if isinstance(own_mesh, jax.sharding.Mesh) else {}
    axes = () if mesh is None else mesh.axis_names
    for axis, _ in given:
        if axis not in axes:
            raise MeshError(
                f"xmap: slow_axes has the mesh axis {axis!r}, but the mesh has"
                f" {show_names(axes)}.{did_you_mean(axis, axes)} Choose from its axes."
            )
    return dict(given)


def split(axes: MeshAxes, slow: Collection[str]) -> tuple[MeshAxes, MeshAxes] | None:
    """Split mesh axes into fast and slow ones, each in the given order.

    Return `None` unless there are several devices along both.
    """
    parts = (
        tuple(axis for axis in axes if axis not in slow),
        tuple(axis for axis in axes if axis in slow),
    )
    return None if any(math.prod(map(lax.axis_size, part)) == 1 for part in parts) else parts


# --- the steps ------------------------------------------------------------------------------------


def _sum(data: jax.Array, fast: MeshAxes, slow: MeshAxes) -> jax.Array:
    """Sum over all axes; each device sends one part of the data over the slow ones.

    If no dimension divides by the number of devices along the fast axes, the flattened data is
    padded: by less than one element for each of these devices.
    """
    count = math.prod(map(lax.axis_size, fast))
    data = cast_data(data, (*fast, *slow))
    dim = next((i for i, size in enumerate(data.shape) if size % count == 0), None)
    flat = data if dim is not None else _padded(data.reshape(-1), count)
    part = comm.psum_scatter(flat, dim or 0, fast)
    whole = comm.all_gather(lax.psum(part, comm.own(slow)), dim or 0, fast, "invarying")
    return whole if dim is not None else whole[: data.size].reshape(data.shape)


def _padded(flat: jax.Array, count: int) -> jax.Array:
    return jnp.pad(flat, (0, -flat.size % count))


def _in_groups(
    data: jax.Array, dim: int, axes: MeshAxes, slow: MeshAxes
) -> tuple[jax.Array, int, int]:
    """Split the blocks of `dim` into two dimensions, for the slow and for the fast axes.

    Return the result, and the two dimensions. The third one has the elements of a block.
    """
    sizes = [lax.axis_size(axis) for axis in axes]
    before, after = data.shape[:dim], data.shape[dim + 1 :]
    data = data.reshape(*before, *sizes, data.shape[dim] // math.prod(sizes), *after)
    order, is_fast_first = _order(axes, slow)
    places = [*range(dim), *(dim + i for i in order), *range(dim + len(axes), data.ndim)]
    if places != list(range(data.ndim)):
        data = data.transpose(places)
    counts = [
        math.prod(lax.axis_size(axis) for axis in axes if (axis in slow) == of)
        for of in ((False, True) if is_fast_first else (True, False))
    ]
    data = data.reshape(*before, *counts, *data.shape[dim + len(axes) :])
    return data, *((dim + 1, dim) if is_fast_first else (dim, dim + 1))


def _order(axes: MeshAxes, slow: MeshAxes) -> tuple[list[int], bool]:
    """Return the axes in two groups, and True if the fast ones are first.

    The first axis is in the first group, so the order is unchanged if there are only two groups.
    """
    is_fast_first = axes[0] not in slow
    order = sorted(range(len(axes)), key=lambda i: (axes[i] in slow) == is_fast_first)
    return order, is_fast_first


def _scatter(
    data: jax.Array, fast: MeshAxes, slow: MeshAxes, dim: int, axes: MeshAxes
) -> jax.Array:
    shape = list(data.shape)
    data, of_slow, of_fast = _in_groups(data, dim, axes, slow)
    data = comm.psum_scatter(comm.psum_scatter(data, of_fast, fast), of_slow, slow)
    shape[dim] = data.shape[dim + 2]
    return data.reshape(shape)


def _block(data: jax.Array, fast: MeshAxes, slow: MeshAxes, dim: int, axes: MeshAxes) -> jax.Array:
    shape = list(data.shape)
    data, of_slow, of_fast = _in_groups(data, dim, axes, slow)
    # The transpose gathers in the reverse order: over the slow axes first.
    data = comm.own_block(comm.own_block(data, of_fast, comm.own(fast)), of_slow, comm.own(slow))
    shape[dim] = data.shape[dim + 2]
    return data.reshape(shape)


def _gather(
    data: jax.Array,
    fast: MeshAxes,
    slow: MeshAxes,
    dim: int,
    axes: MeshAxes,
    to: Literal["varying", "invarying"],
) -> jax.Array:
    order, is_fast_first = _order(axes, slow)
    shape = list(data.shape)
    data = lax.expand_dims(data, (dim, dim + 1))
    of_slow, of_fast = (dim + 1, dim) if is_fast_first else (dim, dim + 1)
    data = comm.all_gather(comm.all_gather(data, of_slow, slow, to), of_fast, fast, to)
    sizes = [lax.axis_size(axes[i]) for i in order]
    data = data.reshape(*shape[:dim], *sizes, *shape[dim:])
    if order != sorted(order):
        back = [order.index(i) for i in range(len(order))]
        places = [*range(dim), *(dim + i for i in back), *range(dim + len(axes), data.ndim)]
        data = data.transpose(places)
    shape[dim] *= math.prod(sizes)
    return data.reshape(shape)


def _composition(step: Step, fast: MeshAxes, slow: MeshAxes, **where: Any) -> Callable[..., Any]:
    if step == "cast":
        return functools.partial(cast_data, axes=(*fast, *slow))
    if step in ("gathered", "gathered_invariant"):
        where["to"] = "invarying" if step == "gathered_invariant" else "varying"
    functions: dict[str, Callable[..., Any]] = {
        "sum": _sum,
        "scattered": _scatter,
        "block": _block,
        "gathered": _gather,
        "gathered_invariant": _gather,
    }
    return functools.partial(functions[step], fast=fast, slow=slow, **where)


def steps(
    aval: ShapedArray, step: Step, fast: MeshAxes, slow: MeshAxes, **where: Any
) -> dict[str, Hashable]:
    """Return the parameters of `PRIMITIVE` for a value of this type.

    Args:
      aval: the type.
      step: the collective, or the cast or the slice whose transpose is one.
      fast: its fast axes.
      slow: its slow axes.
      **where: for a gather, a scatter or a slice: its dimension `dim`, and all of its `axes`, major
        first.
    """
    jaxpr = jax.make_jaxpr(_composition(step, fast, slow, **where))(aval)
    return {"jaxpr": jaxpr, "step": step, "fast": fast, "slow": slow}


# --- the primitive --------------------------------------------------------------------------------

PRIMITIVE = Primitive("two_level")


def _run(data: jax.Array, *, jaxpr: ClosedJaxpr, **_: Any) -> jax.Array:
    (result,) = jaxpr_as_fun(jaxpr)(data)
    return result


def _type(aval: ShapedArray, *, jaxpr: ClosedJaxpr, **_: Any) -> ShapedArray:
    return jaxpr.out_avals[0]


def _again(data: jax.Array, step: Step, fast: MeshAxes, slow: MeshAxes) -> jax.Array:
    return PRIMITIVE.bind(data, **steps(jax.typeof(data), step, fast, slow))


def _transpose(
    cotangent: jax.Array | ad.Zero, operand: ad.UndefinedPrimal, **params: Any
) -> list[jax.Array | ad.Zero]:
    if isinstance(cotangent, ad.Zero):
        return [ad.Zero(operand.aval)]
    if params["step"] in ("sum", "cast"):
        other: Step = "cast" if params["step"] == "sum" else "sum"
        return [_again(cotangent, other, params["fast"], params["slow"])]
    function: Callable[..., Any] = functools.partial(_run, **params)
    return list(jax.linear_transpose(function, operand.aval)(cotangent))


def _batch(operands: Sequence[Any], batched: Sequence[int], **params: Any) -> tuple[Any, int]:
    (data,), (at,) = operands, batched
    if params["step"] in ("sum", "cast"):
        return _again(data, params["step"], params["fast"], params["slow"]), at
    function: Callable[..., Any] = functools.partial(_run, **params)
    return jax.vmap(function, in_axes=at)(data), 0


PRIMITIVE.def_abstract_eval(_type)
PRIMITIVE.def_impl(_run)
ad.deflinear2(PRIMITIVE, _transpose)
batching.primitive_batchers[PRIMITIVE] = _batch
mlir.register_lowering(PRIMITIVE, mlir.lower_fun(_run, multiple_results=False))
