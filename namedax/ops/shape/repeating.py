"""Flipping, tiling and repeating along axes: `flip`, `tile` and `repeat`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from namedax.core.annotations import AnyArray, ArrayLike, AxisSpec, LikeArguments
from namedax.core.array import NamedArray, as_array, dims_of, make_in_region
from namedax.core.display import type_text
from namedax.core.names import is_name
from namedax.core.padded_sharding import Uneven
from namedax.core.region import ambient
from namedax.errors import (
    ArgumentTypeError,
    AxisSizeError,
    PositionalAxisError,
    as_integer,
    format_value,
    reject_names,
)
from namedax.ops.operands.along_axes import checks_axes, entries_of
from namedax.ops.operands.axes import axis_key, new_names, resolve_axis, unwrap_single
from namedax.ops.operands.broadcasting import make_result
from namedax.ops.operands.nmap import Lifted
from namedax.ops.operands.one_axis import Along, along, data_and_dims, finish, position_of, run
from namedax.ops.operands.operation import MOVED, Explicit, operation
from namedax.resources import communication as comm

__all__ = ["apply_to_complete_axis", "flip", "repeat", "rev", "tile"]


@operation(requires_axis=MOVED, explicit=Explicit.AS_JAX, on_blocks=True)
def flip(m: ArrayLike, axis: AxisSpec = None) -> LikeArguments:
    """Reverse axes.

    Args:
      m: an array, named or not.
      axis: a positional axis, an axis name, or a tuple of both; `None` (default) selects all
        positional axes, `...` all axes. Required if every axis is named.

    Returns:
      An array of the same axes.

    Communication: along a sharded axis, one collective-permute that sends each block to its mirror
    image.

    Raises:
      AxisNotFoundError: the array lacks a named axis.

    >>> import jax.numpy as jnp, namedax as nx
    >>> nx.positional(nx.flip(nx.named(jnp.arange(3), ["k"]), "k"), ["k"])
    Array([2, 1, 0], dtype=int32)
    """
    return run("flip", _flip, axis_key("flip", axis), (), m)


def _flip(op: str, axis: AxisSpec, m: ArrayLike) -> AnyArray:
    data, dims = data_and_dims(op, m)
    places = resolve_axis(op, m, axis)
    region = ambient()
    uneven = (
        [] if region is None else [dims[place] for place in places if dims[place] in region.uneven]
    )
    for name in uneven:  # their rows do not move as complete blocks
        plan = along("flip", make_in_region(data, dims), name, supports_padding=True)
        data = plan.remap(None, np.arange(plan.size)[::-1], 0, lambda data: data)._data
    places = tuple(place for place in places if dims[place] not in uneven)
    data = lax.rev(data, places)
    for place in places:
        mesh_axes = (
            region.placement(dims[place])
            if region is not None and region.manual and dims[place] is not None
            else ()
        )
        if mesh_axes:
            last = region.mesh_axis_size(mesh_axes) - 1  # type: ignore[union-attr]
            data = comm.ppermute(data, mesh_axes, [(d, last - d) for d in range(last + 1)])
    return make_result(data, dims)


@operation("reps", explicit=Explicit.KEPT, scope=True)
def tile(
    A: ArrayLike,
    reps: int | Sequence[int] | Mapping[Hashable, int],
    *,
    out_axis: Hashable | Mapping[Hashable, Hashable] | None = None,
) -> LikeArguments:
    """Repeat a complete array.

    Args:
      A: an array, named or not.
      reps: for the positional axes a number or a tuple, as in `jnp.tile`; for named axes a dict
        `{"k": 2}`.
      out_axis: new names for named axes, `{"k": "k_tiled"}`, or `"k_tiled"` for one axis; by
        default `None`. Required in a mapped function in which the name has a fixed size.

    Returns:
      The repeated array.

    Communication: along a sharded axis, rows move to their blocks by collective-permutes. If the
    new name is not sharded, the axis is gathered.

    Raises:
      AxisNotFoundError: the array lacks a named axis.
      AxisSizeError: the axis of the result has a different size in the mapped function, or does not
        divide over its mesh axes.

    >>> import jax.numpy as jnp, namedax as nx
    >>> nx.positional(nx.tile(nx.named(jnp.arange(2), ["k"]), {"k": 2}), ["k"])
    Array([0, 1, 0, 1], dtype=int32)
    """
    reject_names("tile", A)
    reject_names("tile", reps, "a number or a dict of numbers")
    if not isinstance(reps, Mapping):
        return Lifted(lambda data: jnp.tile(data, reps), "tile")(A)
    renamed = new_names("tile", out_axis, reps, f"reps={reps!r}")
    for name, times in reps.items():
        times = as_integer("tile", f"reps[{name!r}]", times, 0)
        plan = along("tile", A, name, supports_padding=True)

        def whole(data: jax.Array, times: int = times, dim: int = plan.dim) -> jax.Array:
            return jnp.tile(data, [times if i == dim else 1 for i in range(data.ndim)])

        A = plan.remap(renamed.get(name), np.tile(np.arange(plan.size), times), 0, whole)
    return as_array(A, "tile")


@operation(requires_axis=MOVED, explicit=Explicit.KEPT, scope=True)
def repeat(
    a: ArrayLike,
    repeats: Any,
    axis: AxisSpec = None,
    *,
    total_repeat_length: int | None = None,
    out_axis: Hashable | None = None,
) -> AnyArray:
    """Repeat single elements along an axis, as in `jnp.repeat`.

    `nx.repeat` does this too, and also accepts a pattern instead of a number.

    Args:
      a: an array, named or not.
      repeats: a number, or an integer array with one for each element.
      axis: a positional or named axis; `None` (default) flattens the positional axes.
      total_repeat_length: as in `jnp.repeat`; by default `None`.
      out_axis: the name of the axis in the result; by default `axis`. Required in a mapped function
        in which `axis` has a fixed size.

    Returns:
      The repeated array.

    Communication: none for a number of repetitions along a sharded axis, if the new name has the
    same mesh axes. An array of repetitions gathers the axis, and so does a new name with other mesh
    axes.

    Raises:
      AxisNotFoundError: the array lacks the axis.
      AxisSizeError: the axis of the result has a different size in the mapped function, or does not
        divide over its mesh axes.

    >>> import jax.numpy as jnp, namedax as nx
    >>> nx.positional(nx.numpy.repeat(nx.named(jnp.arange(2), ["k"]), 2, "k"), ["k"])
    Array([0, 0, 1, 1], dtype=int32)
    """
    axis = unwrap_single(axis, dims_of(a))
    if total_repeat_length is not None:
        total_repeat_length = as_integer("repeat", "total_repeat_length", total_repeat_length, 0)
    known = not isinstance(repeats, (jax.core.Tracer, NamedArray))
    if known:
        repeats = (
            np.asarray(repeats) if np.ndim(repeats) else as_integer("repeat", "repeats", repeats, 0)
        )
    if not known or np.ndim(repeats):
        if not jnp.issubdtype(repeats.dtype, jnp.integer):
            raise ArgumentTypeError(f"repeat: repeats must be integers, got {type_text(repeats)}.")
    if isinstance(repeats, NamedArray) and is_name(axis):
        raise PositionalAxisError(
            f"repeat: along the named axis {format_value(axis)}, repeats must be a number or an"
            f" array without named axes, got {type_text(repeats)}."
        )
    if not known and total_repeat_length is None:
        along_ = "" if axis is None else f" along axis {format_value(axis)}"
        raise AxisSizeError(
            f"repeat: the repeats{along_} are only known at run time. Pass total_repeat_length, the"
            " size of the result."
        )
    if not is_name(axis):
        if axis is not None:
            position_of("repeat", a, axis)
        along_position: Callable[..., jax.Array] = functools.partial(
            jnp.repeat, total_repeat_length=total_repeat_length
        )
        if not isinstance(repeats, NamedArray):
            return Lifted(lambda data: along_position(data, repeats, axis), "repeat")(a)
        return Lifted(lambda data, n: along_position(data, n, axis), "repeat")(a, repeats)
    plan = along("repeat", a, axis, supports_padding=True)
    even = known and np.ndim(repeats) == 0 and total_repeat_length is None
    if even:
        size = plan.size * int(repeats)
    elif total_repeat_length is not None:
        size = total_repeat_length
    else:
        size = int(np.broadcast_to(np.asarray(repeats), (plan.size,)).sum())
    dims, new = plan.result(out_axis, size)
    is_uneven = isinstance(plan.old, Uneven) or isinstance(new, Uneven)
    if even and plan.old == new and not is_uneven:
        return make_result(jnp.repeat(plan.data, int(repeats), plan.dim), dims)
    if not known or total_repeat_length is not None:
        return apply_to_complete_axis(
            plan,
            out_axis,
            size,
            lambda data: jnp.repeat(data, repeats, plan.dim, total_repeat_length=size),
        )
    rows = np.repeat(np.arange(plan.size), np.asarray(repeats))
    if is_uneven:
        return plan.remap(out_axis, rows, 0, lambda data: jnp.take(data, rows, plan.dim))
    return apply_to_complete_axis(plan, out_axis, size, lambda data: jnp.take(data, rows, plan.dim))


def apply_to_complete_axis(
    plan: Along,
    out_axis: Hashable | None,
    size: int,
    function: Callable[[jax.Array], jax.Array],
) -> AnyArray:
    """Apply a function to blocks with the complete axis, which is gathered if it is sharded."""
    dims, new = plan.result(out_axis, size)

    def compute(keep: frozenset[str]) -> jax.Array:
        keep |= frozenset(new)
        data = function(plan.relaid(plan.data, plan.old, (), keep))
        return plan.relaid(data, (), new, keep)

    return finish(compute, dims, frozenset(plan.old) - frozenset(new))


@checks_axes
def rev(operand: ArrayLike, dimensions: AxisSpec) -> LikeArguments:
    """Reverse positional or named axes, as `jax.lax.rev`.

    Args:
      operand: an array, named or not.
      dimensions: a positional axis, an axis name, or a sequence of both.

    Communication: along a sharded axis the devices exchange their blocks.

    Raises:
      AxisNotFoundError: `operand` lacks a name.
    """
    return flip(operand, entries_of(dimensions))
