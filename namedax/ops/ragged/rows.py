"""The relation of tokens and rows: validate rows, find the row of each token, reduce by row.

Rows may be sharded over the mesh axis of the tokens, and two names of one mesh axis cannot be in
one array. So all data that tokens read from their rows uses the separate name `every(rows)`, which
is never mapped. It holds the numbers of all rows, which are few, and never the tokens.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from namedax.core.annotations import AnyArray, ArrayLike
from namedax.core.array import NamedArray, dims_of
from namedax.core.display import type_text
from namedax.core.names import is_name
from namedax.core.records import Record
from namedax.core.region import ambient
from namedax.core.strict_broadcasting import forms_outer_products
from namedax.errors import (
    ArgumentError,
    ArgumentTypeError,
    AxisNameError,
    AxisSizeError,
    PositionalAxisError,
    format_value,
    raise_not_found,
)
from namedax.ops.collectives.reducing import global_index
from namedax.ops.elementwise import FUNCTIONS as ELEMENTWISE
from namedax.ops.indexing.take import take
from namedax.ops.operands.pytree import names_of
from namedax.ops.reduction.cumulative import cumsum
from namedax.ops.reduction.segments import FUNCTIONS as SEGMENTS
from namedax.ops.shape.creation import zeros
from namedax.ops.shape.rename import rename
from namedax.ops.sorting.sorting import searchsorted

__all__ = [
    "checked_lengths",
    "checked_rows",
    "concrete_value",
    "ends_of",
    "every",
    "fill_end",
    "nan_if_cut",
    "no_overflow",
    "reduce_rows",
    "replicate_rows",
    "row_to_read",
    "segments_of",
    "share_mesh_axis",
    "spread",
]


_where, _maximum, _minimum = (ELEMENTWISE[f] for f in ("where", "maximum", "minimum"))


Array = TypeVar("Array", NamedArray, AnyArray)


class Every(Record):
    """The name of an axis with all of its elements on every device."""

    name: Hashable

    def __repr__(self) -> str:
        return f"every {self.name!r}"


def every(name: Hashable) -> Hashable:
    """Return the name of an axis with all of its elements on every device."""
    return Every(name)


def replicate_rows(x: Array, rows: Hashable) -> Array:
    """Replicate the rows of `x` on every device; for mapped rows, by one all-gather."""
    return rename(x, {rows: every(rows)})


def concrete_value(x: ArrayLike) -> np.ndarray | None:
    """Return the values of an array, if they are known during tracing."""
    data = x.data if isinstance(x, NamedArray) else jnp.asarray(x)
    if isinstance(data, jax.core.Tracer) or not data.is_fully_addressable:
        return None
    return np.asarray(data)


def ends_of(lengths: AnyArray, rows: Hashable) -> AnyArray:
    """Return the end of every row, for `every(rows)`."""
    return cumsum(replicate_rows(lengths, rows), every(rows))


@forms_outer_products
def segments_of(
    op: str, lengths: AnyArray, rows: Hashable, tokens: Hashable, size: int
) -> NamedArray:
    """Return the row number of every token.

    A token after all rows has `~row` for the row of the last token. Row-major: tokens of a row are
    contiguous, and rows are in order.
    """
    ends = ends_of(lengths, rows)
    total = ends[every(rows), -1]
    index = global_index(op, tokens, size)
    row = searchsorted(ends, _minimum(index, total - 1), "right", axis=every(rows)).astype(
        jnp.int32
    )
    return _where(index < total, row, ~row)


def row_to_read(segments: NamedArray) -> NamedArray:
    """Return the row that every token reads: its own, or the last one after all rows."""
    return _where(segments < 0, ~segments, segments)


def spread(x: NamedArray, segments: NamedArray, rows: Hashable) -> AnyArray:
    """Repeat the element of `x` for a row for each of its tokens."""
    return take(replicate_rows(x, rows), row_to_read(segments), every(rows), mode="clip")


def reduce_rows(
    kind: str,
    values: NamedArray,
    segments: NamedArray,
    rows: Hashable,
    tokens: Hashable,
    count: int,
) -> NamedArray:
    """Reduce segments to the axis `rows`, or to `every` row.

    Tokens without a row are excluded and have zero gradients.
    """
    numbers = _where(segments < 0, count, segments)  # in order
    return SEGMENTS[f"segment_{kind}"](
        values, numbers, count, axis=tokens, out_axis=rows, indices_are_sorted=True
    )


@forms_outer_products
def nan_if_cut(x: Array, is_cut: AnyArray) -> Array:
    """Replace `x` by NaN if rows were truncated; keep integers.

    The results are wrong then, and their gradients are NaN too.
    """
    numbers = concrete_value(is_cut)
    if not jnp.issubdtype(x.dtype, jnp.inexact) or (numbers is not None and not numbers.any()):
        return x
    return x * _where(is_cut, jnp.asarray(jnp.nan, x.dtype), jnp.ones((), x.dtype))


def share_mesh_axis(first: Hashable, second: Hashable) -> bool:
    """Return True if two names are sharded over one mesh axis here."""
    region = ambient()
    return region is not None and bool(
        set(region.resources.get(first, ())) & set(region.resources.get(second, ()))
    )


# --- validation -----------------------------------------------------------------------------------


def checked_rows(
    op: str, values: AnyArray, lengths: AnyArray, tokens: Hashable, rows: Hashable
) -> tuple[NamedArray, NamedArray]:
    """Return values and lengths; raise if they do not form rows."""
    for what, name in (("tokens", tokens), ("rows", rows)):
        if not is_name(name):
            raise AxisNameError(f"{op}: {what}={format_value(name)} is not an axis name.")
    if tokens == rows:
        raise AxisNameError(
            f"{op}: tokens and rows are both {format_value(tokens)}. Use two different names."
        )
    dims, own = dims_of(values), dims_of(lengths)
    if not isinstance(values, NamedArray) or tokens not in dims:
        raise_not_found(op, tokens, f"the values {type_text(values)}", names_of(dims))
    if not isinstance(lengths, NamedArray) or rows not in own:
        raise_not_found(op, rows, f"the lengths {type_text(lengths)}", names_of(own))
    if rows in dims or tokens in own:
        array, name = (values, rows) if rows in dims else (lengths, tokens)
        raise AxisNameError(
            f"{op}: {type_text(array)} has the axis {name!r}. Only values have"
            f" {format_value(tokens)} and only lengths have {format_value(rows)}. Rename it."
        )
    if None in own:
        raise PositionalAxisError(
            f"{op}: the lengths, {type_text(lengths)}, must have named axes only. Name the others."
        )
    for name in own:
        if name != rows and name not in dims:
            raise_not_found(op, name, f"the values {type_text(values)}", names_of(dims))
    if not jnp.issubdtype(lengths.dtype, jnp.integer):
        raise ArgumentTypeError(f"{op}: the lengths must be integers, got {type_text(lengths)}.")
    if not lengths.named_shape[rows]:
        raise AxisSizeError(
            f"{op}: there is no row: axis {format_value(rows)} has size 0 in {type_text(lengths)}."
            " Give at least one row, which may be empty."
        )
    if not values.named_shape[tokens]:
        raise AxisSizeError(
            f"{op}: there is no token: axis {tokens!r} has size 0 in {type_text(values)}. Give a"
            " buffer of at least one token, which may be unused."
        )
    return values, lengths


@forms_outer_products
def checked_lengths(
    op: str, lengths: NamedArray, tokens: Hashable, rows: Hashable, size: int
) -> tuple[NamedArray, bool]:
    """Return the lengths as 32-bit integers, and `True` if they are known to fill the buffer."""
    numbers, lengths = concrete_value(lengths), lengths.astype(jnp.int32)
    if numbers is None:
        return _maximum(lengths, 0), False
    if (numbers < 0).any():
        raise ArgumentError(
            f"{op}: the length {numbers.min()} of a row {format_value(rows)} is negative."
        )
    totals = numbers.astype(np.int64).sum(dims_of(lengths).index(rows))
    if (totals > size).any():
        raise AxisSizeError(
            f"{op}: the rows {format_value(rows)} have {totals.max()} tokens in total, but axis"
            f" {format_value(tokens)} has size {size}. Give a longer buffer (size=), or fewer rows."
        )
    return lengths, bool((totals == size).all())


@forms_outer_products
def fill_end(
    values: NamedArray,
    lengths: NamedArray,
    segments: NamedArray,
    tokens: Hashable,
    rows: Hashable,
    size: int,
) -> tuple[NamedArray, NamedArray, AnyArray]:
    """Copy the last real token to the end of the buffer.

    Return the values, lengths limited to the buffer, and an overflow flag.
    """
    ends = ends_of(lengths, rows)
    total = ends[every(rows), -1]
    last = jax.lax.stop_gradient(take(values, _maximum(_minimum(total, size) - 1, 0), (tokens,)))
    one = jnp.ones((), values.dtype)
    values = _where(segments < 0, _where(total > 0, last, one), values)
    if concrete_value(lengths) is None:
        starts = rename(ends - replicate_rows(lengths, rows), {every(rows): rows})
        lengths = _minimum(lengths, _maximum(size - starts, 0))
        values = nan_if_cut(values, total > size)
    return values, lengths, total > size


def no_overflow(lengths: NamedArray, rows: Hashable) -> AnyArray:
    """Return `False` for every batch: no rows are truncated."""
    return zeros(
        (), bool, named_shape={name: n for name, n in lengths.named_shape.items() if name != rows}
    )
