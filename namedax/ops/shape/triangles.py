"""Triangles over two axes, named or positional: `tril` and `triu`, and the index along an axis that they use.

The mask depends on the indices along two axes, which every device has for its own block. There is
no communication.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import jax.numpy as jnp
from jax import lax

from namedax.core.annotations import AnyArray, ArrayLike, LikeArguments
from namedax.core.array import NamedArray, as_array, dims_of
from namedax.core.display import type_text
from namedax.core.names import is_name
from namedax.core.region import ambient
from namedax.errors import ArgumentTypeError, PositionalAxisError, format_value
from namedax.operands.axes import resolve_axis
from namedax.operands.broadcasting import to_local
from namedax.operands.nmap import Lifted
from namedax.operands.operation import operation
from namedax.ops.collectives.reducing import global_index
from namedax.ops.elementwise import FUNCTIONS as _ELEMENTWISE

__all__ = ["index_along", "tril", "triu"]


def index_along(op: str, x: AnyArray, axis: Hashable) -> AnyArray:
    """Return the global index of every element of `x` along one axis, as an array that broadcasts with `x`."""
    region = ambient()
    (dim,) = resolve_axis(op, x, (axis,))
    dims, block = dims_of(x), (x._data if isinstance(x, NamedArray) else x).shape[dim]
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

    See `nx.tril`.

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
    row, column = (index_along(op, array, one) for one in axis)
    keep = column <= row + k if op == "tril" else column >= row + k
    return _ELEMENTWISE["where"](keep, array, jnp.zeros((), array.dtype))
