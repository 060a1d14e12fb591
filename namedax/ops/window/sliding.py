"""Windows as an axis: `windows`, and `halo`, the windows around each element.

Along a sharded axis a device receives the rows that its windows reach beyond its block, once.
Windows are combined by doubling: those of `2 * n` rows from two of `n` rows. This takes a number of
steps that grows with the logarithm of the size.
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
from namedax.core.names import is_name
from namedax.errors import (
    ArgumentError,
    AxisNameError,
    PositionalAxisError,
    as_integer,
    format_value,
    show_names,
)
from namedax.ops.operands.axes import unwrap_single
from namedax.ops.operands.one_axis import along, finish, run
from namedax.ops.operands.operation import operation
from namedax.ops.shape.conversion import named
from namedax.ops.window.neighbours import check_fill
from namedax.ops.window.windows import (
    Padding,
    padding_of,
    plan_window,
    refilled_windows,
)

__all__ = ["combine_rows", "cut_pieces", "halo", "padded_windows", "windows"]

_MODES = {"zero": "fill", "constant": "fill", "wrap": "wrap", "edge": "edge"}
#: Windows of at most so many rows are combined in one step.
_ONE_STEP = 8


def combine_rows(
    rows: jax.Array, dim: int, size: int, combine: Callable[..., jax.Array]
) -> jax.Array:
    """Combine every `size` adjacent rows along `dim`, in their order.

    `combine` is an associative function of several arrays.
    """
    count = rows.shape[dim] - size + 1

    def part(data: jax.Array, first: int) -> jax.Array:
        return lax.slice_in_dim(data, first, first + count, axis=dim)

    if size <= _ONE_STEP:
        return combine(*[part(rows, j) for j in range(size)])
    half = size // 2
    pairs = combine_rows(rows, dim, half, combine)
    odd = [part(rows, size - 1)] if size % 2 else []
    return combine(part(pairs, 0), part(pairs, half), *odd)


def cut_pieces(rows: jax.Array, dim: int, count: int, stride: int) -> jax.Array:
    """Cut the rows along `dim` into `count` pieces of `stride`, a new last dimension.

    There are repeated rows at the end if there are too few.
    """
    n = rows.shape[dim]
    if stride == 1:
        return jnp.expand_dims(rows, -1)
    if missing := count * stride - n:
        last = lax.slice_in_dim(rows, n - 1, n, axis=dim)
        rows = jnp.concatenate([rows, jnp.repeat(last, missing, dim)], dim)
    pieces = rows.reshape(*rows.shape[:dim], count, stride, *rows.shape[dim + 1 :])
    return jnp.moveaxis(pieces, dim + 1, -1)


def _stacked(rows: jax.Array, dim: int, size: int, stride: int) -> jax.Array:
    """Return the windows along `dim`, with their rows as a new last dimension.

    The rows are first cut into pieces, so that windows begin at pieces.
    """
    count = -(-size // stride)
    pieces = cut_pieces(rows, dim, (rows.shape[dim] - size) // stride + count, stride)
    stacked = combine_rows(pieces, dim, count, lambda *parts: jnp.concatenate(parts, -1))
    return lax.slice_in_dim(stacked, 0, size, axis=-1)


@operation(on_blocks=True)
def windows(
    x: ArrayLike,
    axis: Hashable,
    *,
    size: int,
    stride: int = 1,
    padding: str | tuple[int, int] = "VALID",
    mode: str = "zero",
    fill_value: jax.typing.ArrayLike = 0,
    out_axis: Hashable | None = None,
    rename: Hashable | None = None,
) -> LikeArguments:
    """Return the windows along a named axis, each as elements of a new axis.

    `nx.halo` has one window around each element. This function also has strides, and by default
    only the windows within the axis. `nx.rolling_reduce` reduces each window.

    Args:
      x: a named array.
      axis: the axis of the windows. In the result it has one element for each window.
      size: the number of elements of a window.
      stride: the distance between windows, by default 1.
      padding: `"VALID"` (default; windows within the axis), `"SAME"` (`ceil(size of the axis /
        stride)` windows), or a pair `(before, after)` of numbers of elements.
      mode: the values beyond the ends: `"zero"` (default), `"constant"` (`fill_value`), `"wrap"`
        (periodic), or `"edge"` (the last element repeated).
      fill_value: the value for `mode="constant"`, by default 0.
      out_axis: the name of the new axis, of the elements of a window; by default `None`, the last
        positional axis.
      rename: a new name for `axis`, by default `None`, the same name. Required in a mapped function
        if the number of windows differs from the size of the axis.

    Returns:
      `x` with one more axis of `size` elements. Its element `j` in window `i` is element `i *
      stride + j` of the padded axis. Under `jit` the windows are not materialized if the next
      operation is elementwise or a sum.

    Communication: along a sharded axis each device receives the rows that its windows reach beyond
    its block, `size - 1` of them with stride 1, by one collective-permute. It takes two if windows
    reach to both sides, and more if they are larger than a block. If `rename` is not sharded over
    the same mesh axes, the axis is gathered.

    Raises:
      AxisNotFoundError: `x` lacks the axis.
      AxisSizeError: no window fits, or the number of windows is not the size of its axis name in
        the mapped function.

    >>> import jax.numpy as jnp, namedax as nx
    >>> x = nx.named(jnp.arange(7), ["time"])
    >>> frames = nx.windows(x, "time", size=3, stride=2, out_axis="lag")
    >>> nx.positional(frames, ["time", "lag"])
    Array([[0, 1, 2],
           [2, 3, 4],
           [4, 5, 6]], dtype=int32)
    """
    op = "windows"
    size, stride = as_integer(op, "size", size, 1), as_integer(op, "stride", stride, 1)
    axis = unwrap_single(axis, dims_of(x))
    n = along(op, x, axis, supports_padding=True).size
    given: Padding = padding if isinstance(padding, str) else {axis: padding}
    low, high = padding_of(op, given, (axis,), 0, n, stride, size)
    if min(low, high) < 0:
        raise ArgumentError(f"{op}: the padding {(low, high)} must not be negative.")
    return padded_windows(
        op, x, (axis, out_axis, rename), size, stride, (low, high), mode, fill_value
    )


@operation(on_blocks=True)
def halo(
    x: ArrayLike,
    axis: Hashable,
    before: int = 1,
    after: int = 1,
    *,
    mode: str = "zero",
    fill_value: jax.typing.ArrayLike = 0,
    out_axis: Hashable | None = None,
) -> LikeArguments:
    """Return every element with its neighbors along a named axis, as a window for stencils.

    It is `nx.windows` of `before + 1 + after` elements with the padding `(before, after)`.

    Args:
      x: a named array.
      axis: the axis of the neighbors.
      before: the number of elements in the window before each element, by default 1.
      after: the number of elements after it, by default 1.
      mode: the values beyond the ends: `"zero"` (default), `"constant"` (`fill_value`), `"wrap"`
        (periodic), or `"edge"` (the last element repeated).
      fill_value: the value for `mode="constant"`, by default 0.
      out_axis: the name of the window's axis; by default `None`, the last positional axis.

    Returns:
      `x` with one more axis of size `before + 1 + after`. Its element `j` at `i` is element `i + j
      - before` of `x`. Under `jit` the window is not materialized if the next operation is
      elementwise or a sum.

    Communication: along a sharded axis each device receives the `before` and `after` rows at its
    boundary. This takes two collective-permutes, or more if a halo is larger than a block.

    Raises:
      AxisNotFoundError: `x` lacks the axis.

    >>> import jax.numpy as jnp, namedax as nx
    >>> x = nx.named(jnp.array([1.0, 4.0, 9.0]), ["k"])
    >>> nx.positional(nx.halo(x, "k"), ["k", ...])
    Array([[0., 1., 4.],
           [1., 4., 9.],
           [4., 9., 0.]], dtype=float32)
    """
    op = "halo"
    before, after = as_integer(op, "before", before, 0), as_integer(op, "after", after, 0)
    axis = unwrap_single(axis, dims_of(x))
    names = (axis, out_axis, None)
    return padded_windows(op, x, names, before + 1 + after, 1, (before, after), mode, fill_value)


def padded_windows(
    op: str,
    x: ArrayLike,
    names: tuple[Any, Any, Any],
    size: int,
    stride: int,
    padding: tuple[int, int],
    mode: str,
    fill_value: jax.typing.ArrayLike,
) -> AnyArray:
    """Return the windows of `windows`; `names` are `axis`, `out_axis` and `rename`."""
    if mode not in _MODES:
        raise PositionalAxisError(
            f"{op}: mode must be one of {show_names(_MODES)}, got {format_value(mode)}."
        )
    value = 0 if mode == "zero" else fill_value
    if _MODES[mode] == "fill":
        check_fill(op, "fill_value", value, x)
    if isinstance(value, (int, float, complex, np.generic)):
        return run(op, _windows, names, (size, stride, padding, mode, value), x)
    return _windows(op, names, size, stride, padding, mode, value, x)


def _windows(
    op: str,
    names: tuple[Any, Any, Any],
    size: int,
    stride: int,
    padding: tuple[int, int],
    mode: str,
    value: jax.typing.ArrayLike,
    x: ArrayLike,
) -> AnyArray:
    axis, out_axis, rename = names
    plan = plan_window(op, x, axis, rename, "window", size, stride, padding, "rename")
    line = along(op, x, axis, supports_padding=True)
    dims = tuple(plan.out_axis if dim == axis else dim for dim in line.dims)
    if out_axis is not None and (not is_name(out_axis) or out_axis in (*line.dims, *dims)):
        raise AxisNameError(
            f"{op}: out_axis={format_value(out_axis)} must be an axis name that"
            f" {type_text(x)} lacks."
        )

    def compute(keep: frozenset[str]) -> jax.Array:
        rows = plan.rows(line, keep, mode=_MODES[mode], fill=value)
        return refilled_windows(_stacked(rows, line.dim, size, stride), dims, [plan])

    result = finish(compute, (*dims, None), plan.gathered)
    if out_axis is None:
        return as_array(result, op)
    # The window's axis is first a positional axis, so that it is sliced if its name is sharded.
    return named(result, {line.dims.count(None): out_axis})
