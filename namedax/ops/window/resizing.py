"""`resize`, in `nx.image`: resizing along named axes.

An element of the result is a weighted sum of a few rows of the axis, with static weights from JAX.
Over a sharded axis a device receives the rows that its elements need.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from namedax.core.annotations import AnyArray, ArrayLike
from namedax.core.array import as_array
from namedax.core.element_types import inexact_type
from namedax.core.names import Shape
from namedax.core.variance import cast_data
from namedax.errors import ArgumentTypeError, as_integer, format_value
from namedax.ops.operands.axes import new_names
from namedax.ops.operands.broadcasting import make_result
from namedax.ops.operands.nmap import Lifted
from namedax.ops.operands.one_axis import Along, along
from namedax.ops.operands.operation import operation
from namedax.ops.shape.repeating import apply_to_complete_axis
from namedax.resources import communication as comm
from namedax.resources.mesh import without_mesh
from namedax.resources.row_moves import FILL, move_rows

__all__ = ["FUNCTIONS", "resize"]


@operation("shape", scope=True)
def resize(
    image: ArrayLike,
    shape: Shape | Mapping[Hashable, int],
    method: str | jax.image.ResizeMethod,
    antialias: bool = True,
    precision: lax.PrecisionLike = lax.Precision.HIGHEST,
    *,
    out_axis: Hashable | Mapping[Hashable, Hashable] | None = None,
) -> AnyArray:
    """Resize an array along named axes by interpolation, as `jax.image.resize`.

    Args:
      image: an array, named or not.
      shape: new sizes by name, `{"h": 64, "w": 64}`, with all other axes as batch axes. Or the
        positional shape, as in `jax.image.resize`, with named axes as batch axes.
      method: `"nearest"`, `"linear"`, `"cubic"`, `"lanczos3"` or `"lanczos5"`, as in
        `jax.image.resize`.
      antialias: if `True` (default), smooth if an axis shrinks.
      precision: the precision of the weighted sums, by default `lax.Precision.HIGHEST`.
      out_axis: with sizes by name, new names, `{"h": "h_out"}`, or `"h_out"` for one axis; by
        default `None`. Required in a mapped function for axes that change their size.

    Returns:
      The resized array, of floats (of the same dtype for `"nearest"`).

    Communication: along a sharded axis each device receives the rows next to its block that its
    elements need, by collective-permutes. An axis is gathered if its new name is not sharded over
    the same mesh axes.

    Raises:
      AxisNotFoundError: `image` lacks a named axis.
      AxisSizeError: an axis of the result has a different size in the mapped function, or does not
        divide over its mesh axes.
      ArgumentTypeError: `out_axis` is given with a positional shape.

    >>> import jax.numpy as jnp, namedax as nx
    >>> x = nx.named(jnp.array([0.0, 4.0]), ["w"])
    >>> nx.positional(nx.image.resize(x, {"w": 4}, "linear"), ["w"])
    Array([0., 1., 3., 4.], dtype=float32)
    """
    if not isinstance(shape, Mapping):
        if out_axis is not None:
            raise ArgumentTypeError(
                f"resize: out_axis={format_value(out_axis)} requires sizes by name, shape={{'h':"
                f" 64}}, got shape={format_value(shape)}."
            )
        return Lifted(
            lambda data: jax.image.resize(data, shape, method, antialias, precision), "resize"
        )(image)
    renamed = new_names("resize", out_axis, shape, f"shape={dict(shape)!r}")
    kind = jax.image.ResizeMethod.from_string(method) if isinstance(method, str) else method
    for name, size in shape.items():
        size = as_integer("resize", f"the size of {name!r}", size, 0)
        image = _resize_one(image, name, size, renamed.get(name), kind, antialias, precision)
    return as_array(image, "resize")


def _resize_one(
    x: ArrayLike,
    name: Hashable,
    size: int,
    new_name: Hashable | None,
    method: jax.image.ResizeMethod,
    antialias: bool,
    precision: lax.PrecisionLike,
) -> ArrayLike:
    plan = along("resize", x, name)
    if size == plan.size and new_name in (None, name):
        return x
    weights = _weights(plan.size, size, method, antialias)
    if method == jax.image.ResizeMethod.NEAREST:
        rows = weights.argmax(1)
        return plan.remap(new_name, rows, 0, lambda data: jnp.take(data, rows, axis=plan.dim))
    dims, new = plan.result(new_name, size)
    dtype = inexact_type(plan.data.dtype)

    def weighted(matrix: jax.typing.ArrayLike, data: jax.Array) -> jax.Array:
        summed = jnp.tensordot(
            jnp.asarray(matrix, dtype), data.astype(dtype), ((1,), (plan.dim,)), precision=precision
        )
        return jnp.moveaxis(summed, 0, plan.dim)

    if plan.old and plan.old == new:
        return make_result(_on_blocks(plan, weights, weighted), dims)

    return apply_to_complete_axis(plan, new_name, size, lambda data: weighted(weights, data))


@functools.lru_cache(maxsize=256)
def _weights(
    before: int, after: int, method: jax.image.ResizeMethod, antialias: bool
) -> np.ndarray:
    """Return the matrix with which JAX resizes a vector, from resized unit vectors."""
    with without_mesh(), jax.ensure_compile_time_eval():
        return np.asarray(jax.image.resize(jnp.eye(before), (after, before), method, antialias))


def _on_blocks(plan: Along, weights: np.ndarray, weighted: Callable[[Any, Any], Any]) -> jax.Array:
    """Compute each device's block from its nonzero weights and the rows that they apply to."""
    devices = plan.blocks(plan.old)
    parts = weights.reshape(devices, -1, plan.size)
    used = [np.flatnonzero(part.any(0)) for part in parts]
    first = np.array([rows[0] if rows.size else 0 for rows in used])
    length = max(
        1,
        *(
            int(rows[-1]) + 1 - int(begin)
            for rows, begin in zip(used, first, strict=True)
            if rows.size
        ),
        1,
    )
    wanted = first[:, None] + np.arange(length)
    here = wanted < plan.size
    table = np.where(
        here[:, None], np.take_along_axis(parts, np.minimum(wanted, plan.size - 1)[:, None], 2), 0
    )
    value = move_rows(plan.data, plan.dim, plan.old, np.where(here, wanted, FILL))
    mine = cast_data(jnp.asarray(table), plan.old)[comm.block_index(plan.old)]
    return weighted(mine, value)


FUNCTIONS: dict[str, Callable[..., Any]] = {"resize": resize}
