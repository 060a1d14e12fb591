"""Diagonals and triangles over two axes: `diagonal`, `trace`, `tril` and `triu`."""

from __future__ import annotations

import operator
from collections.abc import Hashable, Sequence

import jax.numpy as jnp
from jax import lax

from namedax.core.annotations import AnyArray, ArrayLike, AxisSpec, LikeArguments
from namedax.core.array import as_array, dims_of
from namedax.core.display import type_text
from namedax.core.names import DType, is_name
from namedax.core.region import ambient
from namedax.errors import ArgumentTypeError, PositionalAxisError, format_value
from namedax.ops.collectives.reducing import global_index
from namedax.ops.elementwise import FUNCTIONS as _ELEMENTWISE
from namedax.ops.indexing.getitem import getitem
from namedax.ops.operands.along_axes import along_axes, checks_axes, to_front
from namedax.ops.operands.axes import is_axis_name, resolve_axis
from namedax.ops.operands.broadcasting import to_local
from namedax.ops.operands.nmap import Lifted, nmap
from namedax.ops.operands.operation import operation
from namedax.ops.operands.pytree import data_of
from namedax.ops.reduction.reductions import REDUCTIONS
from namedax.ops.shape.creation import arange
from namedax.ops.shape.inspection import size

__all__ = ["diagonal", "index_along", "trace", "tril", "triu"]


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

    Args:
      a: an array, named or not.
      offset: the distance to the right of the main diagonal; by default 0.
      axis1: the positional or named axis of rows; by default 0.
      axis2: the axis of columns; by default 1.
      dtype: the dtype of the result, as in `jnp.trace`; by default `None`.
      out: not supported, as in `jnp.trace`; by default `None`.

    Returns:
      An array without the two axes.

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


def index_along(op: str, x: AnyArray, axis: Hashable) -> AnyArray:
    """Return the global indices of `x` along one axis, as an array that broadcasts with `x`."""
    region = ambient()
    (dim,) = resolve_axis(op, x, (axis,))
    dims, block = dims_of(x), data_of(x).shape[dim]
    if is_name(axis):
        return global_index(op, axis, block if region is None else region.global_size(axis, block))
    behind = dims[dim + 1 :].count(None)
    return lax.broadcasted_iota(jnp.int32, (block, *(1,) * behind), 0)


@operation()
def tril(
    m: ArrayLike, k: ArrayLike = 0, *, axis: Sequence[Hashable] | None = None
) -> LikeArguments:
    """Return the lower triangle over two axes: elements above the `k`-th diagonal become zero.

    Args:
      m: an array, named or not.
      k: the diagonal, by default 0; above the main diagonal for positive numbers. With `axis`, also
        an integer array that broadcasts by name, for a different diagonal in every instance.
      axis: a pair of axes, the rows and the columns, such as `("query", "key")`, named or
        positional; by default the last two positional axes.

    Returns:
      An array of the same axes.

    Communication: none, for every sharding.

    Raises:
      AxisNotFoundError: `m` lacks a named axis.
      PositionalAxisError: `axis` is not a pair of two axes.
      ArgumentTypeError: `k` is not an integer.

    >>> import jax.numpy as jnp, namedax as nx
    >>> scores = nx.named(jnp.arange(1, 7).reshape(2, 3), ["query", "key"])
    >>> nx.positional(nx.tril(scores, 1, axis=("query", "key")), ["query", "key"])
    Array([[1, 2, 0],
           [4, 5, 6]], dtype=int32)
    """
    return _triangle("tril", m, k, axis)


@operation()
def triu(
    m: ArrayLike, k: ArrayLike = 0, *, axis: Sequence[Hashable] | None = None
) -> LikeArguments:
    """Return the upper triangle over two axes: elements below the `k`-th diagonal become zero.

    Args:
      m: an array, named or not.
      k: the diagonal, as for `nx.tril`; by default 0.
      axis: a pair of axes, the rows and the columns, named or positional; by default `None`, the
        last two positional axes.

    Returns:
      An array of the same axes.

    Communication: none, for every sharding.

    Raises:
      AxisNotFoundError: `m` lacks a named axis.
      PositionalAxisError: `axis` is not a pair of two axes.
      ArgumentTypeError: `k` is not an integer.

    >>> import jax.numpy as jnp, namedax as nx
    >>> scores = nx.named(jnp.arange(1, 7).reshape(2, 3), ["query", "key"])
    >>> nx.positional(nx.triu(scores, axis=("query", "key")), ["query", "key"])
    Array([[1, 2, 3],
           [0, 5, 6]], dtype=int32)
    """
    return _triangle("triu", m, k, axis)


def _triangle(op: str, m: ArrayLike, k: ArrayLike, axis: Sequence[Hashable] | None) -> AnyArray:
    kind = getattr(k, "dtype", None)
    if not (isinstance(k, int) if kind is None else jnp.issubdtype(kind, jnp.integer)):
        raise ArgumentTypeError(
            f"{op}: k={format_value(k)} must be an integer, the number of a diagonal. Pass the"
            f" names of the two axes as axis=, as in nx.{op}(x, axis=('query', 'key'))."
        )
    if axis is None:
        return Lifted(lambda data: getattr(jnp, op)(data, k), op)(m)
    if not isinstance(axis, (tuple, list)) or len(axis) != 2:
        raise PositionalAxisError(
            f"{op}: axis={format_value(axis)} must be a pair of the row axis and the column axis."
        )
    array: AnyArray = as_array(to_local(m, op, ambient()), op)
    if len(resolve_axis(op, array, tuple(axis))) != 2:
        raise PositionalAxisError(
            f"{op}: axis={format_value(axis)} must be two axes of {type_text(array)}."
        )
    # Every device has the indices of its own block, so there is no communication.
    row, column = (index_along(op, array, one) for one in axis)
    keep = column <= row + k if op == "tril" else column >= row + k
    return _ELEMENTWISE["where"](keep, array, jnp.zeros((), array.dtype))
