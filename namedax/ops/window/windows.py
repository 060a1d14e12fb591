"""Windows along several named axes, for convolutions and pooling.

An output element reads a window of an axis. A plan contains the rows that the windows of a device
reach, and the sharding of the output. `spread` gives every device these rows, by
collective-permutes of the rows that it lacks.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import jax
import numpy as np

from namedax.core.annotations import ArrayLike
from namedax.core.array import NamedArray, make_in_region
from namedax.core.names import Dims, MeshAxes
from namedax.core.records import Record
from namedax.core.region import ambient
from namedax.errors import AxisSizeError, PositionalAxisError, format_value
from namedax.ops.operands.broadcasting import constrain_sharding
from namedax.ops.operands.one_axis import Along, along
from namedax.ops.operands.pytree import names_of
from namedax.resources.padding_masks import refilled

__all__ = [
    "Padding",
    "Plan",
    "Strides",
    "Window",
    "check_together",
    "padding_of",
    "per_axis",
    "plan_transposed",
    "plan_window",
    "refilled_windows",
    "spread",
    "transposed_padding",
    "whole_for_partitioner",
]


#: One number for all axes, or one for each, in their order or by name.
Strides: TypeAlias = int | Sequence[int] | Mapping[Hashable, int]
#: `"SAME"`, `"VALID"`, or a pair `(before, after)` for each axis, in their order or by name.
Padding: TypeAlias = str | Sequence[Sequence[int]] | Mapping[Hashable, Sequence[int]]


class Window:
    """The name of an axis that holds windows of another axis."""

    def __init__(self, axis: Hashable):
        self.axis = axis

    def __hash__(self) -> int:
        return hash((Window, self.axis))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Window) and self.axis == other.axis

    def __repr__(self) -> str:
        return f"windows of {self.axis!r}"


def whole_for_partitioner(data: jax.Array, dims: Dims, axes: Iterable[Hashable]) -> jax.Array:
    """Prevent XLA's partitioner from sharding the dimensions of `data` with the names `axes`.

    The partitioner computes wrong gradients of windows that overlap, have strides, or are dilated.
    """
    return constrain_sharding(data, tuple(None if dim in axes else dim for dim in dims))


class Plan(Record):
    """The rows of one axis that the windows of each device reach.

    Attributes:
      axis: the axis.
      out_axis: the name of the axis in the result.
      size: the size of the result.
      old: the mesh axes of the axis.
      new: the mesh axes of the result.
      first: the first row that device 0 reads, negative for padding.
      step: the distance of the first rows of adjacent devices.
      length: the number of rows that a device reads.
    """

    axis: Hashable
    out_axis: Hashable
    size: int
    old: MeshAxes
    new: MeshAxes
    first: int
    step: int
    length: int

    @property
    def gathered(self) -> frozenset[str]:
        """Return the mesh axes of the axis that do not shard the result."""
        return frozenset(self.old) - frozenset(self.new)

    def rows(
        self,
        line: Along,
        keep: frozenset[str],
        *,
        mode: str = "fill",
        fill: jax.typing.ArrayLike = 0,
    ) -> jax.Array:
        """Return the rows of `line` that the windows of this device reach, as `Along.windows`."""
        everywhere = keep | frozenset(self.new)
        return line.windows(self.new, self.first, self.step, self.length, mode, fill, everywhere)


def per_axis(
    op: str,
    what: str,
    value: int | Sequence[Any] | Mapping[Hashable, Any],
    axes: Sequence[Hashable],
) -> tuple[Any, ...]:
    """Return one value for every axis, from one number for all, a sequence, or a dict by name.

    Raises:
      PositionalAxisError: there are too few or too many values.
    """
    if isinstance(value, (int, np.integer)):
        return (int(value),) * len(axes)
    if isinstance(value, Mapping):
        wrong = [name for name in (*value, *axes) if name not in axes or name not in value]
        if wrong:
            raise PositionalAxisError(
                f"{op}: {what}={format_value(value)} must have one entry for each of {tuple(axes)};"
                f" see {wrong[0]!r}."
            )
        return tuple(value[name] for name in axes)
    values = tuple(value)
    if len(values) != len(axes):
        raise PositionalAxisError(
            f"{op}: {what}={format_value(value)} has {len(values)} values for {len(axes)} axes."
            " Pass one number, or one for each axis."
        )
    return values


def padding_of(
    op: str,
    padding: Padding,
    axes: Sequence[Hashable],
    i: int,
    size: int,
    stride: int,
    reach: int,
) -> tuple[int, int]:
    """Return the rows to add before and after `axes[i]`, for windows of `reach` rows.

    Raises:
      PositionalAxisError: `padding` is neither a known string nor a pair for every axis.
    """
    if isinstance(padding, str):
        if padding.upper() == "VALID":
            return 0, 0
        if padding.upper() == "SAME":
            total = max(0, (-(-size // stride) - 1) * stride + reach - size)
            return total // 2, total - total // 2
        raise PositionalAxisError(
            f"{op}: padding must be 'SAME', 'VALID' or a pair (before, after) for each axis, got"
            f" {format_value(padding)}."
        )
    if isinstance(padding, Mapping):
        padding = per_axis(op, "padding", padding, axes)
    pairs = tuple(padding) if isinstance(padding, Iterable) else ()
    if len(pairs) != len(axes):
        raise PositionalAxisError(
            f"{op}: padding={format_value(padding)} has {len(pairs)} pairs for {len(axes)} axes."
            " Pass a pair (before, after) for each."
        )
    try:
        low, high = (int(n) for n in pairs[i])
    except (TypeError, ValueError):
        raise PositionalAxisError(
            f"{op}: the padding {format_value(pairs[i])} of axis {format_value(axes[i])} is not a"
            " pair (before, after)."
        ) from None
    return low, high


def plan_window(
    op: str,
    x: ArrayLike,
    axis: Hashable,
    out_axis: Hashable | None,
    what: str,
    reach: int,
    stride: int,
    padding: tuple[int, int],
    new_name: str = "out_axis",
) -> Plan:
    """Plan windows of `reach` rows, in steps of `stride`, along one axis.

    `new_name` is the parameter with the name of the axis in the result.

    Raises:
      AxisSizeError: no window fits, or the size of the result differs from its name's size in the
        mapped function or does not divide.
    """
    line = along(op, x, axis, supports_padding=True, new_name=new_name)
    low, high = padding
    size = max(0, (line.size + low + high - reach) // stride + 1)
    if size == 0:
        raise AxisSizeError(
            f"{op}: the {what} covers {reach} elements, but axis {format_value(axis)} has"
            f" {line.size + low + high} including its padding."
        )
    dims, new = line.result(out_axis, size)
    block = line.block(new, size)
    return Plan(
        axis,
        dims[line.dim],
        size,
        line.old,
        new,
        -low,
        block * stride,
        (block - 1) * stride + reach,
    )


def transposed_padding(
    op: str,
    padding: Padding,
    axes: Sequence[Hashable],
    i: int,
    stride: int,
    reach: int,
) -> tuple[int, int]:
    """Return the padding as `padding_of`, for a transposed convolution.

    It has `stride - 1` zeros between the elements of an axis.
    """
    if (
        isinstance(padding, str) and padding.upper() == "SAME"
    ):  # the result has size * stride elements
        total = reach + stride - 2
        before = reach - 1 if stride > reach - 1 else -(-total // 2)
        return before, total - before
    if (
        isinstance(padding, str) and padding.upper() == "VALID"
    ):  # the result includes every product of an element and the kernel
        return reach - 1, reach - 1 + max(stride - reach, 0)
    return padding_of(op, padding, axes, i, 0, stride, reach)


def plan_transposed(
    op: str,
    x: ArrayLike,
    axis: Hashable,
    out_axis: Hashable | None,
    reach: int,
    stride: int,
    padding: tuple[int, int],
) -> tuple[Plan, tuple[int, int]]:
    """Plan a transposed convolution along one axis.

    Also return the padding of a device's rows, which have zeros between them.

    Raises:
      AxisSizeError: the result is empty, or its size differs from its name's size in the mapped
        function or does not divide. Also if its blocks begin between two elements of the axis.
    """
    line = along(op, x, axis)
    low, high = padding
    size = max(0, (line.size - 1) * stride + 1 + low + high - reach + 1)
    if size == 0:
        raise AxisSizeError(
            f"{op}: the padding {padding} leaves no element of axis {format_value(axis)}, which has"
            f" {line.size} elements."
        )
    dims, new = line.result(out_axis, size)
    devices = line.blocks(new)
    block = size // devices
    if devices > 1 and block % stride:
        raise AxisSizeError(
            f"{op}: axis {dims[line.dim]!r} of size {size} has blocks of {block} elements over mesh"
            f" axes {new}, which is not a multiple of the stride {stride}. Choose a padding that"
            f" makes it one (padding='SAME' does if axis {format_value(axis)} divides), or another"
            " out_axis."
        )
    first = -(low // stride)
    length = max(1, (block + reach - 2 - low) // stride - first + 1)
    before = stride * first + low
    after = block + reach - 1 - before - ((length - 1) * stride + 1)
    return Plan(axis, dims[line.dim], size, line.old, new, first, block // stride, length), (
        before,
        after,
    )


def spread(
    op: str,
    x: NamedArray,
    plans: Iterable[Plan],
    keep: frozenset[str],
    fill: jax.typing.ArrayLike = 0,
) -> NamedArray:
    """Give this device the rows that its windows reach, along axes named `Window(axis)`.

    Args:
      op: the operation.
      x: the local block.
      plans: the plans, one for each axis.
      keep: the mesh axes over which the result must vary if axes are gathered.
      fill: the value of the padding, by default 0.
    """
    value = x
    for plan in plans:
        line = along(op, value, plan.axis, supports_padding=True)
        is_whole = not (plan.old or plan.new) and (plan.first, plan.length) == (0, line.size)
        moved = line.data if is_whole else plan.rows(line, keep, fill=fill)
        value = make_in_region(
            moved,
            tuple(Window(dim) if i == line.dim else dim for i, dim in enumerate(line.dims)),
        )
    return value


def refilled_windows(data: jax.Array, dims: Dims, plans: Iterable[Plan]) -> jax.Array:
    """Replace padding in the result of windows by copies of its last real element."""
    for plan in plans:
        data = refilled(data, dims.index(plan.out_axis), plan.new)
    return data


def check_together(op: str, dims: Dims) -> None:
    """Raise if two axes of a result are sharded over one mesh axis."""
    region = ambient()
    if region is not None and region.resources:
        region.check_placement(op, names_of(dims))
