"""Reductions of moving windows: `rolling_reduce`.

Sums and extrema combine the rows of all windows at once, without a copy of a row for each of its
windows. Other reductions are functions of the windows of `nx.windows`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from namedax.core.annotations import AnyArray, ArrayLike, LikeArguments
from namedax.core.array import as_array, dims_of
from namedax.core.display import type_text
from namedax.core.element_types import as_inexact, extreme, sum_result_type, widened_type
from namedax.core.records import Record
from namedax.core.user_code import call_user_code
from namedax.errors import (
    ArgumentError,
    ArgumentTypeError,
    as_integer,
    did_you_mean,
    format_value,
    show_names,
)
from namedax.ops.elementwise import FUNCTIONS as _ELEMENTWISE
from namedax.ops.groups.reductions import check_ordered
from namedax.ops.operands.axes import unwrap_single
from namedax.ops.operands.one_axis import along, finish
from namedax.ops.operands.operation import Explicit, operation
from namedax.ops.reduction import extrema, reductions
from namedax.ops.sorting.selection import where
from namedax.ops.statistics import without_nans
from namedax.ops.statistics.quantiles import median, nanmedian
from namedax.ops.window.sliding import combine_rows, cut_pieces, padded_windows
from namedax.ops.window.windows import (
    Window,
    check_together,
    plan_window,
    refilled_windows,
    whole_for_partitioner,
)
from namedax.resources import communication as comm

__all__ = ["rolling_reduce"]


def _pairwise(function: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """Return a function that combines several arrays in the order of a tree."""

    def combine(*parts: Any) -> Any:
        while len(parts) > 1:
            pairs = [function(*parts[i : i + 2]) for i in range(0, len(parts) - 1, 2)]
            parts = (*pairs, *parts[len(pairs) * 2 :])
        return parts[0]

    return combine


# --- reductions -----------------------------------------------------------------------------------

#: Reductions that combine rows, and functions of windows that skip NaN.
_BY_ROWS = ("sum", "mean", "max", "min", "count")
_OF_WINDOWS: dict[str, Callable[..., Any]] = {
    "median": nanmedian,
    "std": without_nans.nanstd,
    "var": without_nans.nanvar,
    "prod": without_nans.nanprod,
}
_FUNCTIONS: dict[Callable[..., Any], str] = {
    reductions.sum: "sum",
    reductions.mean: "mean",
    extrema.max: "max",
    extrema.min: "min",
    without_nans.nansum: "sum",
    without_nans.nanmean: "mean",
    without_nans.nanmax: "max",
    without_nans.nanmin: "min",
    median: "median",
    reductions.std: "std",
    reductions.var: "var",
    reductions.prod: "prod",
}


@operation(explicit=Explicit.AS_JAX, calls_functions=True, arrays=("x",))
def rolling_reduce(
    x: ArrayLike,
    axis: Hashable,
    *,
    size: int,
    reduction: str | Callable[..., Any] = "mean",
    center: bool = False,
    min_count: int | None = None,
    stride: int = 1,
    out_axis: Hashable | None = None,
) -> LikeArguments:
    """Reduce a moving window along a named axis, as `rolling` of pandas and xarray.

    NaN counts as missing: a window is reduced over its other elements, and the result is NaN if it
    has fewer than `min_count` of them. Elements beyond the ends of the axis are missing too.

    Args:
      x: a named array.
      axis: the axis of the windows.
      size: the number of elements of a window.
      reduction: `"mean"` (default), `"sum"`, `"max"`, `"min"`, `"count"` (of elements that are not
        missing), `"median"`, `"std"`, `"var"`, `"prod"`, or the function of that name, such as
        `nx.max`. Or any other function of a window and the name of its axis, with NaN for missing
        elements: `lambda w, axis: nx.nanquantile(w, 0.9, axis)`.
      center: if `False` (default), a window ends at its element. If `True`, it has `size // 2`
        elements before it and `(size - 1) // 2` after it.
      min_count: the least number of elements that are not missing, by default `None`, `size`.
      stride: the distance between windows, the first one at the first element; by default 1.
      out_axis: the name of the axis in the result, by default `None`, the same name. Required in a
        mapped function if `stride` is not 1.

    Returns:
      An array with an element for each window. `"count"` returns integers, without regard to
      `min_count`. The sum, maximum and minimum of integers are integers, for which every window
      must have `min_count` elements. Other reductions return floats.

    Communication: along a sharded axis each device receives the rows that its windows reach beyond
    its block, once: `size - 1` rows with stride 1, by one collective-permute, or two if `center`.
    It takes more if they are larger than a block.

    Raises:
      AxisNotFoundError: `x` lacks the axis.
      ArgumentError: `min_count` is larger than `size`, or windows of integers are incomplete.
      ArgumentTypeError: the function returns an array that lacks `axis`, or has the window's axis.

    >>> import jax.numpy as jnp, namedax as nx
    >>> x = nx.named(jnp.array([1.0, 5.0, jnp.nan, 3.0]), ["time"])
    >>> nx.rolling_reduce(x, "time", size=2, reduction="sum").data
    Array([nan,  6., nan, nan], dtype=float32)
    >>> nx.rolling_reduce(x, "time", size=2, reduction="sum", min_count=1).data
    Array([1., 6., 5., 3.], dtype=float32)
    """
    op = "rolling_reduce"
    size, stride = as_integer(op, "size", size, 1), as_integer(op, "stride", stride, 1)
    least = size if min_count is None else as_integer(op, "min_count", min_count, 0)
    if least > size:
        raise ArgumentError(
            f"{op}: min_count={least} is larger than a window, size={size}, so every result would"
            f" be NaN. Pass min_count={size} or less."
        )
    if not callable(reduction) and not isinstance(reduction, str):
        raise ArgumentTypeError(
            f"{op}: reduction must be a string or a function of a window and the name of its axis,"
            f" got {format_value(reduction)}. Write reduction='mean', or reduction=lambda w, axis:"
            " nx.nanquantile(w, 0.9, axis)."
        )
    kind = reduction if isinstance(reduction, str) else _FUNCTIONS.get(reduction)
    if kind in _BY_ROWS:
        return _reduce_rows(x, axis, kind, size, stride, center, least, out_axis)
    known = (*_BY_ROWS, *_OF_WINDOWS)
    if kind is not None and kind not in known:
        raise ArgumentError(
            f"{op}: reduction must be a function or one of {show_names(known)}, got"
            f" {format_value(reduction)}.{did_you_mean(kind, known)}"
        )
    function: Any = reduction if kind is None else _OF_WINDOWS[kind]
    return _reduce_windows(x, axis, function, size, stride, center, least, out_axis)


def _padding(size: int, center: bool) -> tuple[int, int]:
    return (size // 2, (size - 1) // 2) if center else (size - 1, 0)


def _reduce_windows(
    x: ArrayLike,
    axis: Hashable,
    function: Callable[..., Any],
    size: int,
    stride: int,
    center: bool,
    least: int,
    out_axis: Hashable | None,
) -> AnyArray:
    """Call a function of all windows, in which missing elements are NaN."""
    op = "rolling_reduce"
    axis = unwrap_single(axis, dims_of(x))
    line = along(op, x, axis, supports_padding=True)
    line.result(out_axis, -(-line.size // stride))  # raises for this function
    window, out = Window(axis), axis if out_axis is None else out_axis
    names = axis, window, out_axis
    values = _windows(as_inexact(as_array(x, op)), names, size, stride, _padding(size, center))
    result = call_user_code(function, values, window)
    dims = dims_of(result)
    if out not in dims or window in dims:
        wrong = f"lacks the axis {out!r}" if out not in dims else "still has the window's axis"
        raise ArgumentTypeError(
            f"{op}: the function returned {type_text(result)}, which {wrong}. It must reduce the"
            " window over its axis, the second argument: lambda w, axis: nx.nanmax(w, axis)."
        )
    result = as_inexact(as_array(result, op))
    present = _ELEMENTWISE["logical_not"](_ELEMENTWISE["isnan"](values))
    count = reductions.REDUCTIONS["sum"](present, window, dtype=np.int32)
    return where(count >= least, result, np.asarray(np.nan, result.dtype))


@operation(name="rolling_reduce", scope=True, on_blocks=True)
def _windows(
    x: ArrayLike, names: tuple[Any, Any, Any], size: int, stride: int, padding: tuple[int, int]
) -> AnyArray:
    """Return all windows, with NaN beyond the ends of the axis."""
    return padded_windows("rolling_reduce", x, names, size, stride, padding, "constant", np.nan)


@operation(name="rolling_reduce", scope=True, on_blocks=True)
def _reduce_rows(
    x: ArrayLike,
    axis: Hashable,
    kind: str,
    size: int,
    stride: int,
    center: bool,
    least: int,
    out_axis: Hashable | None,
) -> AnyArray:
    """Combine the rows of each window, without a copy of a row for each of its windows."""
    op, axis = "rolling_reduce", unwrap_single(axis, dims_of(x))
    plan = plan_window(op, x, axis, out_axis, "window", size, stride, _padding(size, center))
    line = along(op, x, axis, supports_padding=True)
    dims = tuple(plan.out_axis if dim == axis else dim for dim in line.dims)
    check_together(op, dims)
    reducer = _RowReduction(op, kind, size, max(least, kind in ("max", "min", "mean")))
    data = reducer.prepared(line.data)
    is_float = jnp.issubdtype(data.dtype, jnp.inexact)
    if not is_float:
        first = plan.first + stride * np.arange(plan.size)
        counts = np.minimum(first + size, line.size) - np.maximum(first, 0)
        reducer.check_complete(counts, type_text(x))

    def compute(keep: frozenset[str]) -> jax.Array:
        fill = np.nan if is_float else reducer.identity(data.dtype)
        rows = plan.rows(line.replace(data=data), keep, fill=fill)
        whole = whole_for_partitioner(rows, line.dims, {axis})
        result = reducer(whole, line.dim, is_float)
        # Not a slice with a stride, whose gradient XLA's partitioner cannot compute.
        count = (result.shape[line.dim] - 1) // stride + 1
        result = cut_pieces(result, line.dim, count, stride)[..., 0]
        return refilled_windows(whole_for_partitioner(result, line.dims, {axis}), dims, [plan])

    return finish(compute, dims, plan.gathered)


class _RowReduction(Record):
    """A reduction of windows that combines rows.

    Attributes:
      op: the operation.
      kind: sum, mean, max, min or count.
      size: the size of a window.
      least: the least number of elements that are not missing.
    """

    op: str
    kind: str
    size: int
    least: int

    def prepared(self, data: jax.Array) -> jax.Array:
        """Return the data in the dtype in which rows are sent."""
        if self.kind in ("max", "min"):
            check_ordered(self.op, self.kind, data.dtype, data.dtype)
        if self.kind == "mean":
            return as_inexact(data)
        if self.kind == "count" and not jnp.issubdtype(data.dtype, jnp.inexact):
            return jnp.zeros_like(data, jnp.float32)  # no element is missing
        return data

    def identity(self, dtype: np.dtype) -> np.ndarray:
        """Return the value that changes no result."""
        if self.kind in ("max", "min"):
            return extreme(dtype, self.kind == "max")
        return np.zeros((), dtype)

    def check_complete(self, counts: np.ndarray, text: str) -> None:
        """Raise if a window of integers has too few elements, because they have no NaN."""
        lacking = int(np.sum(counts < self.least))
        if lacking:
            raise ArgumentError(
                f"{self.op}: {lacking} windows at the ends have fewer than min_count={self.least}"
                f" elements, and {text} has no NaN for them. Pass min_count={int(counts.min())}, or"
                " convert the array, x.astype('float32')."
            )

    def __call__(self, rows: jax.Array, dim: int, is_float: bool) -> jax.Array:
        """Reduce the windows along one dimension; NaN is missing if `is_float`."""
        if not is_float:
            return self._combine(rows.astype(self._result_type(rows.dtype)), dim)
        present = ~jnp.isnan(rows)
        count = combine_rows(present.astype(jnp.int32), dim, self.size, _pairwise(lax.add))
        if self.kind == "count":
            return count
        wide = comm.sum_type(widened_type(self.op, rows.dtype))
        values = jnp.where(present, rows.astype(wide), self.identity(wide))
        result = self._combine(values, dim)
        if self.kind == "mean":
            result = result / jnp.maximum(count, 1).astype(wide)
        return jnp.where(count >= self.least, result, jnp.nan).astype(rows.dtype)

    def _combine(self, rows: jax.Array, dim: int) -> jax.Array:
        combine = {"max": jnp.maximum, "min": jnp.minimum}.get(self.kind, jnp.add)
        return combine_rows(rows, dim, self.size, _pairwise(combine))

    def _result_type(self, dtype: np.dtype) -> np.dtype:
        """Return the dtype of a reduction of integers, as in `jnp`."""
        return sum_result_type(dtype) if self.kind == "sum" else dtype
