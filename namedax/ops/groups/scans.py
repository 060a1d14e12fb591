"""Cumulative and lagged operations within groups: `group_accumulate` and `group_shift`.

The elements of a group become neighbors, an operation along the axis follows, and the results move
back. The order is static for labels from NumPy, so that only rows move that have to. Labels that
are known at run time only are sorted.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from namedax.core.annotations import AnyArray, ArrayLike, LikeArguments
from namedax.core.array import as_array, dims_of
from namedax.core.element_types import check_fits, extreme, sum_result_type
from namedax.errors import (
    ArgumentError,
    as_integer,
    did_you_mean,
    format_value,
    show_names,
)
from namedax.messages.call_errors import checks_signature
from namedax.ops.elementwise import apply_elementwise
from namedax.ops.groups.reductions import (
    check_policy,
    host_numbers,
    labels_of,
    one_each,
    present_in,
)
from namedax.ops.loops.associative_scan import associative_scan
from namedax.ops.operands.axes import unwrap_single
from namedax.ops.operands.one_axis import along
from namedax.ops.operands.operation import operation
from namedax.ops.shape.conversion import named
from namedax.ops.shape.creation import arange
from namedax.ops.shape.inspection import size
from namedax.ops.sorting.selection import where
from namedax.ops.sorting.together import sort_by
from namedax.ops.window.neighbours import shift
from namedax.resources import communication as comm
from namedax.resources.row_moves import FILL

__all__ = ["group_accumulate", "group_shift"]

_COMBINE: dict[str, Callable[[Any, Any], Any]] = {
    "sum": jnp.add,
    "prod": jnp.multiply,
    "max": jnp.maximum,
    "min": jnp.minimum,
    "count": jnp.add,
}


@checks_signature
def group_accumulate(
    x: ArrayLike,
    by: Any,
    axis: Hashable,
    reduction: str = "sum",
    *,
    nan_policy: str = "omit",
) -> LikeArguments:
    """Reduce the elements of each group up to each element, as `groupby(...).cumsum` of pandas.

    Args:
      x: a named array.
      by: the group of each element, as for `nx.group_reduce`.
      axis: the axis of the elements.
      reduction: `"sum"` (default), `"prod"`, `"max"`, `"min"` or `"count"`.
      nan_policy: `"omit"` (default) leaves NaN out, and the result is NaN at these elements only;
        `"propagate"` makes the results from a NaN on NaN, up to the end of its group.

    Returns:
      An array with the axes of `x` and `by`. Elements without a group have NaN, or 0 for integers.

    Communication: along a sharded axis, one all-gather of the total of each block. Labels from
    NumPy whose groups are not contiguous move the rows that are on another device, there and back.
    Labels that are known at run time only are sorted, as by `nx.sort_by`, there and back.

    Raises:
      AxisNotFoundError: `x` or `by` lacks the axis.
      AxisSizeError: `by` does not have one label for each element.
      ArgumentError: the reduction is unknown.

    >>> import numpy as np, namedax as nx
    >>> x = nx.named(np.array([1.0, 2.0, 3.0, 4.0], "f4"), ["day"])
    >>> nx.group_accumulate(x, by=["a", "b", "a", "b"], axis="day").data
    Array([1., 2., 4., 6.], dtype=float32)
    """
    op = "group_accumulate"
    x, axis = as_array(x, op), unwrap_single(axis, dims_of(x))
    labels = labels_of(op, x, by, axis)
    check_policy(op, nan_policy)
    if reduction not in _COMBINE:
        raise ArgumentError(
            f"{op}: reduction must be one of {show_names(_COMBINE)}, got"
            f" {format_value(reduction)}.{did_you_mean(reduction, _COMBINE)}"
        )
    return _accumulate(x, labels.array, axis, reduction, labels.host, nan_policy)


@checks_signature
def group_shift(
    x: ArrayLike,
    offset: int,
    by: Any,
    axis: Hashable,
    *,
    fill_value: jax.typing.ArrayLike = 0,
) -> LikeArguments:
    """Shift the elements of each group along a named axis, as `groupby(...).shift` of pandas.

    Args:
      x: a named array.
      offset: an integer; each element becomes the element `offset` places before it in its group.
      by: the group of each element, as for `nx.group_reduce`.
      axis: the axis of the elements.
      fill_value: the value where the group has no such element, and for elements without a group;
        by default 0.

    Returns:
      An array with the axes of `x` and `by`.

    Communication: along a sharded axis, the rows that are on another device, once, for labels from
    NumPy. Labels that are known at run time only are sorted, as by `nx.sort_by`, there and back,
    and the row at the boundary of two blocks is shifted.

    Raises:
      AxisNotFoundError: `x` or `by` lacks the axis.
      AxisSizeError: `by` does not have one label for each element.

    >>> import numpy as np, namedax as nx
    >>> x = nx.named(np.array([1, 2, 3, 4]), ["day"])
    >>> nx.group_shift(x, 1, by=["a", "b", "a", "b"], axis="day", fill_value=-1).data
    Array([-1, -1,  1,  2], dtype=int32)
    """
    op = "group_shift"
    x, axis = as_array(x, op), unwrap_single(axis, dims_of(x))
    labels = labels_of(op, x, by, axis)
    offset = as_integer(op, "offset", offset)
    check_fits(op, "fill_value", fill_value, x.dtype)
    return _shift(x, labels.array, axis, offset, fill_value, labels.host)


@operation(name="group_accumulate", scope=True, on_blocks=True)
def _accumulate(
    x: AnyArray,
    by: Any,
    axis: Hashable,
    kind: str,
    host: bytes | None,
    nan_policy: str,
) -> AnyArray:
    along("group_accumulate", x, axis, supports_padding=True)  # raises for stored padding
    index, back = arange(size(x, axis), axis=axis), None
    if host is None:
        x, index, numbers = sort_by((x, index, by), by, axis)
        before = shift(numbers, 1, axis)
        starts = (numbers != before) | (arange(size(x, axis), axis=axis) == 0)
    else:
        table = host_numbers(host)
        _, first = np.unique(table, return_inverse=True)
        # Groups in the order of their first elements: contiguous ones do not move.
        rank = np.full(first.max(initial=-1) + 1, len(table))
        np.minimum.at(rank, first, np.arange(len(table)))
        order = np.argsort(rank[first], kind="stable")
        back = np.argsort(order)
        x, table = _moved(x, order, axis), table[order]
        numbers = named(jnp.asarray(table), [axis])
        starts = named(jnp.asarray(np.diff(table, prepend=-2) != 0), [axis])
    result = _scanned(x, starts, axis, kind, nan_policy)
    nothing = np.nan if jnp.issubdtype(result.dtype, jnp.inexact) else 0
    result = where(numbers >= 0, result, np.asarray(nothing, result.dtype))
    if back is not None:
        return _moved(result, back, axis)
    restored: AnyArray = sort_by(result, index, axis)
    return restored


def _scanned(x: Any, starts: Any, axis: Hashable, kind: str, nan_policy: str) -> Any:
    """Accumulate along the axis, anew from each element where `starts` is True."""
    present, dtype = present_in(x, nan_policy), x.dtype
    if kind == "count":
        x = one_each(x, np.int32) if present is None else present.astype(np.int32)
        dtype, present = x.dtype, None
    elif kind in ("sum", "prod") and not jnp.issubdtype(dtype, jnp.inexact):
        dtype = sum_result_type(dtype)
    x = x.astype(comm.sum_type(dtype))
    if kind in ("max", "min"):
        identity = extreme(x.dtype, kind == "max")
    else:
        identity = np.asarray(kind == "prod", x.dtype)
    values = x if present is None else where(present, x, identity)
    combine = _COMBINE[kind]

    def step(a: tuple[Any, Any], b: tuple[Any, Any]) -> tuple[Any, Any]:
        earlier = where(b[0], identity, a[1])
        return a[0] | b[0], apply_elementwise(kind, combine, earlier, b[1])

    _, result = associative_scan(step, (starts, values), axis=axis)
    if present is not None:
        result = where(present, result, np.asarray(np.nan, result.dtype))
    return result.astype(dtype)


@operation(name="group_shift", scope=True, on_blocks=True)
def _shift(
    x: AnyArray,
    by: Any,
    axis: Hashable,
    offset: int,
    fill_value: jax.typing.ArrayLike,
    host: bytes | None,
) -> AnyArray:
    along("group_shift", x, axis, supports_padding=True)  # raises for stored padding
    if host is not None:
        return _moved(x, _rows_before(host_numbers(host), offset), axis, fill_value)
    index = arange(size(x, axis), axis=axis)
    x, index, numbers = sort_by((x, index, by), by, axis)
    before = shift(numbers, offset, axis, fill_value=-1)
    exists = (before == numbers) & (numbers >= 0)
    result = where(exists, shift(x, offset, axis), jnp.asarray(fill_value, x.dtype))
    restored: AnyArray = sort_by(result, index, axis)
    return restored


def _rows_before(numbers: np.ndarray, offset: int) -> np.ndarray:
    """Return the row `offset` places before each row in its group, or `FILL`."""
    order = np.argsort(numbers, kind="stable")
    in_order = numbers[order]
    places = np.arange(len(order)) - offset
    exists = (places >= 0) & (places < len(order)) & (in_order >= 0)
    places = np.where(exists, places, 0)
    exists &= in_order[places] == in_order
    rows = np.empty(len(order), np.int64)
    rows[order] = np.where(exists, order[places], FILL)
    return rows


def _moved(x: Any, rows: np.ndarray, axis: Hashable, fill: jax.typing.ArrayLike = 0) -> Any:
    """Return the array whose row `i` along the axis is the row `rows[i]`, or `fill`."""
    if np.array_equal(rows, np.arange(len(rows))):
        return x
    plan = along("group_shift", x, axis, supports_padding=True)

    def whole(data: jax.Array) -> jax.Array:
        missing = np.expand_dims(rows == FILL, [i for i in range(data.ndim) if i != plan.dim])
        taken = jnp.take(data, np.where(rows == FILL, 0, rows), axis=plan.dim)
        return jnp.where(missing, jnp.asarray(fill, data.dtype), taken)

    return plan.remap(None, rows, fill, whole)
