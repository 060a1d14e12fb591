"""What tokens have to do with their rows: which row a token is of, what is reduced by row, and what a row says to its tokens.

Rows may live on the mesh axis of the tokens, where two names never meet in one array. So whatever tokens have to read of their rows
goes under a name of its own, `every(rows)`, which is never mapped: it is the numbers of all rows, that are few, and not the tokens.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from namedax.core.array import NamedArray
from namedax.core.records import Record
from namedax.core.region import ambient
from namedax.ops.collectives.reducing import global_index
from namedax.ops.elementwise import FUNCTIONS as ELEMENTWISE
from namedax.ops.indexing.take import take
from namedax.ops.reduction.cumulative import FUNCTIONS as CUMULATIVE
from namedax.ops.reduction.segments import FUNCTIONS as SEGMENTS
from namedax.ops.shape.rename import rename
from namedax.ops.sorting.searching import searchsorted

__all__ = ["at_rows", "clash", "ends_of", "every", "known", "reduce_rows", "segments_of", "spoiled", "spread", "whole"]

_where, _minimum = ELEMENTWISE["where"], ELEMENTWISE["minimum"]


class Every(Record):
    """The name under which all entries of an axis are on every device."""

    name: Hashable

    def __repr__(self) -> str:
        return f"every {self.name!r}"


def every(name: Hashable) -> Hashable:
    """The name under which all entries of an axis are on every device."""
    return Every(name)


def whole(x: Any, rows: Hashable) -> Any:
    """`x`, whose rows are on every device then. Over mapped rows one all-gather."""
    return rename(x, {rows: every(rows)})


def known(x: Any) -> np.ndarray | None:
    """The values of an array, where they are known while the program is traced."""
    data = x.data if isinstance(x, NamedArray) else jnp.asarray(x)
    if isinstance(data, jax.core.Tracer) or not data.is_fully_addressable:
        return None
    return np.asarray(data)


def ends_of(lengths: Any, rows: Hashable) -> Any:
    """Where every row ends, for `every(rows)`."""
    return CUMULATIVE["cumsum"](whole(lengths, rows), every(rows))


def segments_of(op: str, lengths: Any, rows: Hashable, tokens: Hashable, size: int) -> Any:
    """The number of the row of every token; `~row` for a token behind all rows, of the row that has the last one of all.

    Row-major: tokens of a row are one after the other, and rows in their order.
    """
    ends = ends_of(lengths, rows)
    total = ends[every(rows), -1]
    index = global_index(op, tokens, size)
    row = searchsorted(ends, _minimum(index, total - 1), "right", axis=every(rows)).astype(jnp.int32)
    return _where(index < total, row, ~row)


def at_rows(segments: Any) -> Any:
    """The row that every token reads: its own; the last token's one for those behind all rows."""
    return _where(segments < 0, ~segments, segments)


def spread(x: Any, segments: Any, rows: Hashable) -> Any:
    """What `x` has for a row, for each of its tokens."""
    return take(whole(x, rows), at_rows(segments), every(rows), mode="clip")


def reduce_rows(kind: str, values: Any, segments: Any, rows: Hashable, tokens: Hashable, count: int) -> Any:
    """A segment reduction to the axis `rows`, or to `every` row. Tokens of no row are left out, and their gradient is zero."""
    numbers = _where(segments < 0, count, segments)  # in order
    return SEGMENTS[f"segment_{kind}"](values, numbers, count, axis=tokens, out_axis=rows, indices_are_sorted=True)


def spoiled(x: Any, is_cut: Any) -> Any:
    """`x`, or NaN if rows were cut, in values and in gradients: what is left of rows is a wrong number. Integers stay as they are."""
    numbers = known(is_cut)
    if not jnp.issubdtype(x.dtype, jnp.inexact) or (numbers is not None and not numbers.any()):
        return x
    return x * _where(is_cut, jnp.asarray(jnp.nan, x.dtype), jnp.ones((), x.dtype))


def clash(first: Hashable, second: Hashable) -> bool:
    """Whether two names are on one mesh axis here."""
    region = ambient()
    return region is not None and bool(set(region.resources.get(first, ())) & set(region.resources.get(second, ())))
