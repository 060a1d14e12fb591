"""`diagonal` and `trace` over two axes, positional or named."""

from __future__ import annotations

import operator

import jax.numpy as jnp

from namedax.core.annotations import AnyArray, ArrayLike, AxisSpec
from namedax.core.types import DType
from namedax.operands.along_axes import along_axes, checks_axes, to_front
from namedax.operands.axes import is_axis_name, resolve_axis
from namedax.operands.nmap import nmap
from namedax.ops.elementwise import FUNCTIONS as _ELEMENTWISE
from namedax.ops.indexing.getitem import getitem
from namedax.ops.reduction.reductions import REDUCTIONS
from namedax.ops.shape.creation import arange
from namedax.ops.shape.inspection import size

__all__ = ["diagonal", "trace"]

_positional_diagonal = along_axes(jnp.diagonal, "diagonal", ("axis1", "axis2"))
_positional_trace = along_axes(jnp.trace, "trace", ("axis1", "axis2"))


def _read_diagonal(
    op: str, a: ArrayLike, offset: int, axis1: AxisSpec, axis2: AxisSpec
) -> tuple[AnyArray, int, int]:
    """Return one element per row `axis1`, the first row on the diagonal, and its length."""
    first, second = size(a, axis1), size(a, axis2)
    resolve_axis(op, a, (axis1, axis2))
    k = operator.index(offset)
    start, stop = max(0, -k), min(first, second - k)
    column = _ELEMENTWISE["clip"](arange(first, axis=axis1) + k, 0, second - 1)
    return getitem(a, {axis2: column}), start, max(0, stop - start)


@checks_axes
def diagonal(a: ArrayLike, offset: int = 0, axis1: AxisSpec = 0, axis2: AxisSpec = 1) -> AnyArray:
    """Return the diagonal over two axes, as the last positional axis of the result.

    Args:
      a: an array, named or not.
      offset: the distance to the right of the main diagonal; by default 0.
      axis1: the positional or named axis of rows; by default 0.
      axis2: the axis of columns; by default 1.

    To keep the named axis, write `x["k", nx.arange(axis="q")]`.

    Communication: over sharded axes only the diagonal is sent: one all-reduce of its size if
    `axis2` is sharded, and one all-gather if `axis1` is, because it becomes a positional axis.

    Raises:
      AxisNotFoundError: `a` lacks a name.

    >>> import jax.numpy as jnp, namedax as nx
    >>> nx.numpy.diagonal(nx.named(jnp.arange(4).reshape(2, 2), ["q", "k"]), axis1="q", axis2="k")
    Array([0, 3], dtype=int32)
    """
    if not (is_axis_name(axis1) and is_axis_name(axis2)):
        return _positional_diagonal(a, offset, axis1, axis2)
    entries, start, count = _read_diagonal("diagonal", a, offset, axis1, axis2)
    whole = to_front(entries, [axis1], "diagonal")
    return nmap(lambda data: jnp.moveaxis(data, 0, -1))(whole[start : start + count])


@checks_axes
def trace(
    a: ArrayLike,
    offset: int = 0,
    axis1: AxisSpec = 0,
    axis2: AxisSpec = 1,
    dtype: DType | None = None,
    out: None = None,
) -> AnyArray:
    """Sum the diagonal over two axes, as `jnp.trace`, by name or position.

    Communication: over sharded axes, one all-reduce of the result, and one of the diagonal if
    `axis2` is sharded.

    Raises:
      AxisNotFoundError: `a` lacks a name.

    >>> import jax.numpy as jnp, namedax as nx
    >>> nx.numpy.trace(nx.named(jnp.arange(4).reshape(2, 2), ["q", "k"]), axis1="q", axis2="k")
    Array(3, dtype=int32)
    """
    if not (is_axis_name(axis1) and is_axis_name(axis2)):
        return _positional_trace(a, offset, axis1, axis2, dtype, out)
    entries, start, count = _read_diagonal("trace", a, offset, axis1, axis2)
    row = arange(size(a, axis1), axis=axis1)
    mask = (row >= start) & (row < start + count)
    return REDUCTIONS["sum"](entries, axis1, dtype=dtype, where=mask)
