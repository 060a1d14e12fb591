"""Pooling over named axes: `max_pool`, `min_pool` and `avg_pool`, in `nx.nn`.

Over a sharded axis a device receives the rows that its windows need beyond its block, and computes
its own block.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from namedax.core.annotations import AnyArray, ArrayLike, LikeArguments
from namedax.core.array import NamedArray
from namedax.core.cpu_workarounds import on_cpus
from namedax.core.display import type_text
from namedax.core.element_types import extreme, inexact_type
from namedax.core.functions import joined
from namedax.core.region import ambient
from namedax.errors import ArgumentError, ArgumentTypeError, as_integer, format_value
from namedax.ops.elementwise import FUNCTIONS as _ELEMENTWISE
from namedax.ops.operands.axes import new_names
from namedax.ops.operands.broadcasting import make_result, to_local
from namedax.ops.operands.one_axis import along, finish
from namedax.ops.operands.operation import operation
from namedax.ops.shape.conversion import named
from namedax.ops.window.windows import (
    Padding,
    Plan,
    Strides,
    Window,
    check_together,
    padding_of,
    per_axis,
    plan_window,
    refilled_windows,
    spread,
    whole_for_partitioner,
)

__all__ = ["FUNCTIONS", "avg_pool", "max_pool", "min_pool"]


def _plans(
    op: str,
    x: ArrayLike,
    window: Mapping[Hashable, int],
    strides: Strides | None,
    padding: Padding,
    out_axis: Hashable | Mapping[Hashable, Hashable] | None,
) -> tuple[list[Plan], tuple[int, ...], tuple[int, ...]]:
    if not isinstance(window, Mapping) or not window:
        raise ArgumentTypeError(
            f"{op}: the window must be a dict from names to sizes, such as {{'h': 2, 'w': 2}}, got"
            f" {format_value(window)}."
        )
    axes = tuple(window)
    sizes = tuple(as_integer(op, f"window[{name!r}]", window[name], 1) for name in axes)
    steps = sizes if strides is None else per_axis(op, "strides", strides, axes)
    steps = tuple(
        as_integer(op, f"the stride of {name!r}", step, 1)
        for name, step in zip(axes, steps, strict=True)
    )
    renamed = new_names(op, out_axis, axes, f"window={dict(window)!r}")
    plans = []
    for i, name in enumerate(axes):
        pair = padding_of(
            op, padding, axes, i, along(op, x, name, supports_padding=True).size, steps[i], sizes[i]
        )
        if min(pair) < 0 or max(pair) >= sizes[i]:  # otherwise a window may contain padding only
            raise ArgumentError(
                f"{op}: the padding {pair} of axis {name!r} must be at least 0 and less than the"
                f" window, {sizes[i]}."
            )
        plans.append(
            plan_window(op, x, name, renamed.get(name), "window", sizes[i], steps[i], pair)
        )
    return plans, sizes, steps


def _pool(
    op: str,
    x: NamedArray,
    plans: list[Plan],
    sizes: tuple[int, ...],
    strides: tuple[int, ...],
    fill: jax.typing.ArrayLike,
    combine: Callable[..., jax.Array],
) -> AnyArray:
    """Apply `combine` to every window; `fill` is its neutral element."""
    dims = tuple(
        next((plan.out_axis for plan in plans if plan.axis == dim), dim) for dim in x._dims
    )
    gathered = frozenset[str]().union(*(plan.gathered for plan in plans))

    def compute(keep: frozenset[str]) -> jax.Array:
        value = spread(op, x, plans, keep, fill)
        lengths, steps = [1] * len(dims), [1] * len(dims)
        for plan, size, stride in zip(plans, sizes, strides, strict=True):
            at = value._dims.index(Window(plan.axis))
            lengths[at], steps[at] = size, stride
        axes = {plan.axis for plan in plans}
        data = whole_for_partitioner(value._data, x._dims, axes)
        pooled = lax.reduce_window(data, fill, combine, lengths, steps, "VALID")
        if (
            combine is not lax.add and jnp.issubdtype(data.dtype, jnp.floating) and on_cpus()
        ):  # XLA drops NaN on CPU
            is_nan = lax.ne(data, data).astype(jnp.int32)
            has_nan = lax.reduce_window(is_nan, np.int32(0), lax.max, lengths, steps, "VALID")
            pooled = jnp.where(has_nan > 0, jnp.asarray(jnp.nan, data.dtype), pooled)
        return refilled_windows(whole_for_partitioner(pooled, x._dims, axes), dims, plans)

    check_together(op, dims)
    return finish(compute, dims, gathered)


def _extreme(
    op: str,
    x: ArrayLike,
    window: Mapping[Hashable, int],
    strides: Strides | None,
    padding: Padding,
    out_axis: Hashable | Mapping[Hashable, Hashable] | None,
) -> AnyArray:
    block: NamedArray = to_local(x, op, ambient())
    plans, sizes, steps = _plans(op, block, window, strides, padding, out_axis)
    largest = op == "max_pool"
    dtype = block.dtype
    if jnp.issubdtype(dtype, jnp.complexfloating):
        raise ArgumentTypeError(
            f"{op}: {type_text(block)} is complex, and complex numbers have no order."
        )
    return _pool(
        op, block, plans, sizes, steps, extreme(dtype, largest), lax.max if largest else lax.min
    )


_WINDOWS = """

    Args:
      x: a named array. Axes without a window are batch axes.
      window: the size of the window for every pooled axis, `{{"h": 2, "w": 2}}`.
      strides: the distance between windows: one number for all axes, a sequence, or a dict; by
        default the size of the window, so that windows tile the axis.
      padding: `"VALID"` (default; windows within the axis), `"SAME"` (the result has `ceil(size /
        stride)` elements), or a pair `(before, after)` for each axis, also in a dict.
        {padded}{more}
      out_axis: new names for axes, `{{"h": "h_out"}}`, or `"h_out"` for one axis; by default
        `None`. Required in a mapped function for axes that change their size.

    Returns:
      {returns} The gradient is the same as for `jax.lax.reduce_window`{gradient}

    Communication: along a sharded axis each device receives the boundary rows that its windows
    reach, by collective-permutes. If windows tile the blocks, there is none. Nothing is gathered,
    except an axis with an `out_axis` name that is not sharded over its mesh axes.

    Raises:
      AxisNotFoundError: `x` lacks an axis.
      AxisSizeError: no window fits, or an axis of the result has a different size in the mapped
        function or does not divide over its mesh axes.
      ArgumentTypeError: the window is not a mapping.

"""


@operation("window", scope=True, on_blocks=True)
def max_pool(
    x: ArrayLike,
    window: Mapping[Hashable, int],
    *,
    strides: Strides | None = None,
    padding: Padding = "VALID",
    out_axis: Hashable | Mapping[Hashable, Hashable] | None = None,
) -> LikeArguments:
    """Take the maximum over windows of named axes.

    >>> import jax.numpy as jnp, namedax as nx
    >>> x = nx.named(jnp.array([1.0, 5.0, 2.0, 3.0]), ["w"])
    >>> nx.positional(nx.nn.max_pool(x, {"w": 2}), ["w"])
    Array([5., 3.], dtype=float32)
    """
    return _extreme("max_pool", x, window, strides, padding, out_axis)


@operation("window", scope=True, on_blocks=True)
def min_pool(
    x: ArrayLike,
    window: Mapping[Hashable, int],
    *,
    strides: Strides | None = None,
    padding: Padding = "VALID",
    out_axis: Hashable | Mapping[Hashable, Hashable] | None = None,
) -> LikeArguments:
    """Take the minimum over windows of named axes.

    >>> import jax.numpy as jnp, namedax as nx
    >>> x = nx.named(jnp.array([1.0, 5.0, 2.0, 3.0]), ["w"])
    >>> nx.positional(nx.nn.min_pool(x, {"w": 2}, strides=1, padding="SAME"), ["w"])
    Array([1., 2., 2., 3.], dtype=float32)
    """
    return _extreme("min_pool", x, window, strides, padding, out_axis)


@operation("window", scope=True, on_blocks=True)
def avg_pool(
    x: ArrayLike,
    window: Mapping[Hashable, int],
    *,
    strides: Strides | None = None,
    padding: Padding = "VALID",
    out_axis: Hashable | Mapping[Hashable, Hashable] | None = None,
    count_include_pad: bool = True,
) -> LikeArguments:
    """Average over windows of named axes.

    >>> import jax.numpy as jnp, namedax as nx
    >>> x = nx.named(jnp.array([1.0, 5.0, 2.0, 3.0]), ["w"])
    >>> nx.positional(nx.nn.avg_pool(x, {"w": 2}), ["w"])
    Array([3. , 2.5], dtype=float32)
    """
    op = "avg_pool"
    block: NamedArray = to_local(x, op, ambient())
    plans, sizes, steps = _plans(op, block, window, strides, padding, out_axis)
    block = make_result(block._data.astype(inexact_type(block.dtype)), block._dims)
    total = _pool(op, block, plans, sizes, steps, np.zeros((), block.dtype), lax.add)
    for plan, size, step in zip(plans, sizes, steps, strict=True):
        if count_include_pad:
            total = _ELEMENTWISE["divide"](total, np.asarray(size, block.dtype))
            continue
        # The number of elements of each window within the axis.
        begin = plan.first + step * np.arange(plan.size)
        count = np.minimum(begin + size, block.named_shape[plan.axis]) - np.maximum(begin, 0)
        total = _ELEMENTWISE["divide"](
            total, named(jnp.asarray(count, block.dtype), [plan.out_axis])
        )
    return total


def _describe(function: Callable[..., Any], **texts: str) -> None:
    summary, examples = (function.__doc__ or "").split("\n\n", 1)
    function.__doc__ = joined(
        summary, _WINDOWS.format(**{"more": "", "gradient": ".", **texts}), examples
    )


_ties = ": among equal extrema the first one receives it."
_describe(
    max_pool,
    padded="Padding is never selected.",
    returns="An array of the same type.",
    gradient=_ties,
)
_describe(
    min_pool,
    padded="Padding is never selected.",
    returns="An array of the same type.",
    gradient=_ties,
)
_describe(
    avg_pool,
    padded="Padding is zero.",
    more=(
        "\n      count_include_pad: if `True` (default), windows that include padding are divided"
        " by their size. If `False`, they are\n        divided by the number of their elements"
        " within the axis."
    ),
    returns="An array of floats.",
)

FUNCTIONS: dict[str, Callable[..., Any]] = {f.__name__: f for f in (avg_pool, max_pool, min_pool)}
