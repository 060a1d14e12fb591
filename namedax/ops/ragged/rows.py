"""The relation of tokens and rows: the row of each token, reductions by row, and values of rows repeated for tokens.

Rows may be sharded over the mesh axis of the tokens, and two names of one mesh axis cannot be in
one array. So all data that tokens read from their rows uses the separate name `every(rows)`, which
is never mapped. It holds the numbers of all rows, which are few, and never the tokens.
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
from namedax.ops.reduction.cumulative import cumsum
from namedax.ops.reduction.segments import FUNCTIONS as SEGMENTS
from namedax.ops.shape.rename import rename
from namedax.ops.sorting.sorting import searchsorted

__all__ = [
    "at_rows",
    "clash",
    "ends_of",
    "every",
    "known",
    "reduce_rows",
    "segments_of",
    "spoiled",
    "spread",
    "whole",
]

_where, _minimum = ELEMENTWISE["where"], ELEMENTWISE["minimum"]


class Every(Record):
    """The name of an axis with all of its elements on every device."""

    name: Hashable

    def __repr__(self) -> str:
        return f"every {self.name!r}"


def every(name: Hashable) -> Hashable:
    """Return the name of an axis with all of its elements on every device."""
    return Every(name)


def whole(x: Any, rows: Hashable) -> Any:
    """Replicate the rows of `x` on every device; for mapped rows, by one all-gather."""
    return rename(x, {rows: every(rows)})


def known(x: Any) -> np.ndarray | None:
    """Return the values of an array, if they are known during tracing."""
    data = x.data if isinstance(x, NamedArray) else jnp.asarray(x)
    if isinstance(data, jax.core.Tracer) or not data.is_fully_addressable:
        return None
    return np.asarray(data)


def ends_of(lengths: Any, rows: Hashable) -> Any:
    """Return the end of every row, for `every(rows)`."""
    return cumsum(whole(lengths, rows), every(rows))


def segments_of(op: str, lengths: Any, rows: Hashable, tokens: Hashable, size: int) -> Any:
    """Return the row number of every token; a token after all rows has `~row` for the row of the last token.

    Row-major: tokens of a row are contiguous, and rows are in order.
    """
    ends = ends_of(lengths, rows)
    total = ends[every(rows), -1]
    index = global_index(op, tokens, size)
    row = searchsorted(ends, _minimum(index, total - 1), "right", axis=every(rows)).astype(
        jnp.int32
    )
    return _where(index < total, row, ~row)


def at_rows(segments: Any) -> Any:
    """Return the row that every token reads: its own, or the last token's row for tokens after all rows."""
    return _where(segments < 0, ~segments, segments)


def spread(x: Any, segments: Any, rows: Hashable) -> Any:
    """Repeat the element of `x` for a row for each of its tokens."""
    return take(whole(x, rows), at_rows(segments), every(rows), mode="clip")


def reduce_rows(
    kind: str, values: Any, segments: Any, rows: Hashable, tokens: Hashable, count: int
) -> Any:
    """Reduce segments to the axis `rows`, or to `every` row; tokens without a row are excluded and have zero gradients."""
    numbers = _where(segments < 0, count, segments)  # in order
    return SEGMENTS[f"segment_{kind}"](
        values, numbers, count, axis=tokens, out_axis=rows, indices_are_sorted=True
    )


def spoiled(x: Any, is_cut: Any) -> Any:
    """Replace `x` by NaN if rows were truncated, in values and gradients, because results are then wrong; keep integers."""
    numbers = known(is_cut)
    if not jnp.issubdtype(x.dtype, jnp.inexact) or (numbers is not None and not numbers.any()):
        return x
    return x * _where(is_cut, jnp.asarray(jnp.nan, x.dtype), jnp.ones((), x.dtype))


def clash(first: Hashable, second: Hashable) -> bool:
    """Return True if two names are sharded over one mesh axis here."""
    region = ambient()
    return region is not None and bool(
        set(region.resources.get(first, ())) & set(region.resources.get(second, ()))
    )
