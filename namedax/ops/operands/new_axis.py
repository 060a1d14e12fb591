"""Results with an axis that their operands lack: its placement and its name."""

from __future__ import annotations

import operator
import sys
from collections.abc import Hashable, Mapping
from typing import Any

import jax
import numpy as np

from namedax.core.annotations import AnyArray
from namedax.core.names import Dims, check_dims, check_name, is_name
from namedax.core.region import ambient
from namedax.errors import (
    ArgumentTypeError,
    AxisNotFoundError,
    AxisSizeError,
    PositionalAxisError,
    did_you_mean,
    format_value,
)
from namedax.ops.operands.broadcasting import make_result
from namedax.resources.layout import relayout

__all__ = [
    "check_shape",
    "finish_with_new_axis",
    "named_sizes",
    "new_axis_placement",
    "positional_shape",
    "size_of",
]


def new_axis_placement(
    op: str, out_axis: Hashable | None, size: int, dims: Dims
) -> tuple[str, ...]:
    """Return the mesh axes of a new axis of that name and size next to `dims`, after checks.

    Its last blocks may be padded.

    Raises:
      UnevenAxisError: it does not divide over its mesh axes, and its size was unknown when the body
        began.
      AxisSizeError: the name has a different size in the mapped function, or is already an axis of
        the result.
      PlacementConflictError: its mesh axis is that of another name of the result.
    """
    if out_axis is None:
        return ()
    if not is_name(out_axis):
        raise PositionalAxisError(
            f"{op}: out_axis={format_value(out_axis)} is not a name. Leave it out for a positional"
            " axis."
        )
    check_name(out_axis, op)
    if out_axis in dims:
        raise AxisSizeError(
            f"{op}: the result already has an axis {format_value(out_axis)}. Choose another"
            " out_axis."
        )
    region = ambient()
    if region is None:
        return ()
    known = region.sizes.get(out_axis, size)
    if known != size:
        raise AxisSizeError(
            f"{op}: axis {format_value(out_axis)} would have size {size}, but it has size {known}"
            " in this mapped function; a name has one size. Choose another out_axis."
        )
    region.check_placement(op, [*(dim for dim in dims if dim is not None), out_axis])
    region.block_size(out_axis, size, op, supports_padding=True)
    return region.place(out_axis)


def finish_with_new_axis(
    op: str, data: jax.Array, dims: Dims, place: int, out_axis: Hashable | None
) -> AnyArray:
    """Wrap a result whose dimension `place` is new and replicated.

    A sharded name keeps its block of it.
    """
    others = (*dims[:place], *dims[place + 1 :])
    placement = new_axis_placement(op, out_axis, data.shape[place], others)
    if placement:
        none: list[tuple[str, ...]] = [()] * data.ndim
        data = relayout(data, none, [*none[:place], placement, *none[place + 1 :]])
    return make_result(data, (*dims[:place], out_axis, *dims[place + 1 :]))


# --- sizes of new axes ----------------------------------------------------------------------------


def size_of(op: str, name: Hashable, given: int | None, argument: str) -> int:
    """Return the size of a new axis.

    It is the given one, which must agree with the mapped function's, or the mapped function's.

    If the body has created the axis, the call begins again with its size. Otherwise a `jit`-ed
    helper, which JAX caches by the region, could use the size of another call.
    """
    region = ambient()
    known = None if region is None else region.size_of(name)
    if given is None and (region is None or name not in region.sizes):
        known_names = () if region is None else (*region.sizes, *region.seen)
        raise AxisNotFoundError(
            f"{op}: axis {name!r} has no size here.{did_you_mean(name, known_names)} Give"
            f" {argument}, or the size in axis_sizes of xmap."
        ).about(axis=name, found_size=None if region is None else region.found_size(name))
    if given is not None and known is not None and given != known:
        raise AxisSizeError(
            f"{op}: {argument} is {given}, but axis {name!r} has size {known} in this mapped"
            " function; a name has one size."
        )
    return known if given is None else given  # type: ignore[return-value]


def _check_named_shape(op: str, named_shape: object) -> None:
    """Raise if `named_shape` is not a mapping from names to sizes, or to `None`."""
    if not isinstance(named_shape, Mapping):
        raise ArgumentTypeError(
            f"{op}: named_shape={format_value(named_shape)} is not a mapping from names to sizes."
            " Write named_shape={'batch': 128}."
        )
    for name, size in named_shape.items():
        check_dims((name,), op)
        if size is not None and (
            isinstance(size, bool) or not isinstance(size, (int, np.integer)) or size < 0
        ):
            raise AxisSizeError(
                f"{op}: named_shape gives axis {name!r} the size {format_value(size)}; a size must"
                " be a nonnegative integer, or None for the size in the mapped function."
            )


def check_shape(op: str, shape: object, call: str = "") -> None:
    """Raise if a shape, which has the sizes of the positional axes, contains names.

    Args:
      op: the operation.
      shape: the given shape.
      call: the text before the remedy, such as the function and a parenthesis; default: none.

    Raises:
      ArgumentTypeError: it is a mapping, a name or a sequence with a name.
    """
    code = f"nx.{call}named_shape={{0}})" if call else "named_shape={0}"
    given = f"{code}. The shape is for positional axes."
    if isinstance(shape, Mapping):
        raise ArgumentTypeError(
            f"{op}: the shape is {format_value(shape)}, a mapping. Give sizes by name as"
            f" {given.format(format_value(shape))}"
        )
    names = (
        [shape]
        if isinstance(shape, str)
        else [n for n in shape if isinstance(n, str)]
        if isinstance(shape, (list, tuple))
        else ()
    )
    if names:
        sizes = f"{{{names[0]!r}: 8}}"
        raise ArgumentTypeError(
            f"{op}: the shape {format_value(shape)} has names without sizes. Give sizes by name, as"
            f" in {given.format(sizes)}"
        )


def positional_shape(op: str, shape: Any) -> tuple[int, ...]:
    """Return a positional shape as a tuple.

    Raises:
      ArgumentTypeError: it is neither an integer nor a sequence of integers.
      AxisSizeError: a size is negative, or too large for an index.
    """
    check_shape(op, shape)
    try:
        sizes = tuple(operator.index(size) for size in ((shape,) if np.ndim(shape) == 0 else shape))
    except (TypeError, ValueError):
        raise ArgumentTypeError(
            f"{op}: shape={format_value(shape)} is not an integer, or a list or tuple of integers."
            " Write shape=(2, 3)."
        ) from None
    if any(not 0 <= size <= sys.maxsize for size in sizes):
        raise AxisSizeError(
            f"{op}: shape={format_value(shape)} has a size below 0 or above {sys.maxsize}. Give"
            " sizes from 0."
        )
    return sizes


def named_sizes(op: str, named_shape: Mapping[Hashable, int | None]) -> dict[Hashable, int]:
    """Return the sizes of new axes, which must agree with the mapped function's.

    Where `named_shape` has `None`, the mapped function's size is used.
    """
    _check_named_shape(op, named_shape)
    return {
        axis: int(size_of(op, axis, size, f"named_shape[{axis!r}]"))
        for axis, size in named_shape.items()
    }
