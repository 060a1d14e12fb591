"""Conversions between rows of different lengths and other forms: lists, padded arrays, and single tokens of rows.

Each conversion is one read along one axis: of tokens (by the first token of a row, and a position),
or of a padded array. If rows and tokens are sharded over one mesh axis, all devices request the
elements under an unmapped name, and the result is then sliced. The sum of the partial reads and the
slice become one reduce-scatter.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from namedax.core.array import NamedArray, as_array, dims_of
from namedax.core.display import type_text
from namedax.core.names import is_name
from namedax.errors import (
    ArgumentError,
    ArgumentTypeError,
    AxisNameError,
    AxisSizeError,
    NamedAxesLeftError,
    PositionalAxisError,
    as_integer,
    format_value,
    raise_not_found,
)
from namedax.ops.collectives.reducing import global_index
from namedax.ops.elementwise import FUNCTIONS as ELEMENTWISE
from namedax.ops.indexing.take import take
from namedax.ops.ragged.rows import (
    at_rows,
    clash,
    ends_of,
    every,
    known,
    segments_of,
    spoiled,
    whole,
)
from namedax.ops.reduction.reductions import REDUCTIONS
from namedax.ops.shape.conversion import named
from namedax.ops.shape.rearrange import merge_axes
from namedax.ops.shape.rename import rename
from namedax.ops.sorting.sorting import argsort

__all__ = ["from_padded", "from_rows", "index_of_tokens", "padded", "pick", "take_rows", "to_rows"]

_where, _minimum, _maximum = (ELEMENTWISE[f] for f in ("where", "minimum", "maximum"))


# --- lists ---------------------------------------------------------------------------------------------------------------------


def from_rows(
    op: str,
    arrays: Sequence[Any],
    rows: Hashable,
    tokens: Hashable,
    axes: Sequence[Any],
    size: int | None,
) -> tuple[Any, Any]:
    """Concatenate all tokens in a buffer of `size`, and return it with the lengths."""
    if isinstance(arrays, NamedArray) or not isinstance(arrays, (list, tuple)):
        raise ArgumentTypeError(
            f"{op}: the rows must be a list of arrays, one for each row, got {type_text(arrays)}."
        )
    if not arrays:
        raise AxisSizeError(f"{op}: there is no row. Give at least one, which may be empty.")
    entries = []
    for i, row in enumerate(arrays):
        if isinstance(row, NamedArray):
            raise NamedAxesLeftError(
                f"{op}: row {i} is {type_text(row)}, but rows have positional axes only. Pass the"
                " names of these as axes=."
            )
        row = row if isinstance(row, jax.Array) else np.asarray(row)
        if not row.ndim:
            raise PositionalAxisError(
                f"{op}: row {i} is a number, but a row needs an axis of tokens."
            )
        entries.append(row)
    shaped = [row for row in entries if row.size or row.ndim > 1] or entries[:1]
    rest = shaped[0].shape[1:]
    for i, row in enumerate(entries):
        if row.shape[1:] != rest and not (
            row.ndim == 1 and not row.size
        ):  # `[]` is an empty row of any shape
            raise PositionalAxisError(
                f"{op}: row {i} has shape {row.shape}, but after the first axis rows have the shape"
                f" {rest}."
            )
    dtype = jnp.result_type(*shaped)
    lengths = [len(row) for row in entries]
    total = sum(lengths)
    size = max(total, 1) if size is None else as_integer(op, "size", size, 1)
    if total > size:
        raise AxisSizeError(
            f"{op}: the rows have {total} tokens in total, but size={size}. Give a longer buffer,"
            " or fewer rows."
        )
    xp: Any = jnp if any(isinstance(row, jax.Array) for row in entries) else np
    tail = xp.zeros((size - total, *rest), dtype)
    data = xp.concatenate([*(row.reshape(len(row), *rest).astype(dtype) for row in entries), tail])
    return named(jnp.asarray(data), [tokens, *(axes or [None] * len(rest))]), named(
        jnp.asarray(lengths, jnp.int32), [rows]
    )


def to_rows(op: str, r: Any) -> list[np.ndarray]:
    """Return the rows as NumPy arrays."""
    values, segments = known(r.values), known(r.segments)
    if values is None or segments is None:
        raise ArgumentError(
            f"{op}: the values of {format_value(r)} are not known during tracing. Call it outside"
            " of the traced function, or use r.padded()."
        )
    if len(r.segments.dims) > 1:
        raise ArgumentError(
            f"{op}: {format_value(r)} has batches with separate rows. Select one batch first."
        )
    values = np.moveaxis(values, r.values.dims.index(r.tokens), 0)
    return [values[segments == row] for row in range(r.count)]


# --- padded arrays -------------------------------------------------------------------------------------------------------------


def _require(op: str, array: Any, names: Sequence[Hashable], what: str) -> None:
    for name in names:
        if name not in dims_of(array):
            raise_not_found(
                op, name, f"{what} {type_text(array)}", [d for d in dims_of(array) if d is not None]
            )


def from_padded(
    op: str,
    x: Any,
    rows: Hashable,
    column: Hashable,
    tokens: Hashable,
    lengths: Any,
    mask: Any,
    size: int | None,
) -> tuple[Any, Any]:
    """Return the tokens of padded rows, and the lengths."""
    _require(op, x, (rows, column), "the array")
    if (lengths is None) == (mask is None):
        raise ArgumentError(f"{op}: pass either lengths= or mask=.")
    if tokens in dims_of(x) or not is_name(tokens):
        raise AxisNameError(
            f"{op}: tokens={format_value(tokens)} must be the name of a new axis of {type_text(x)}."
        )
    columns = x.named_shape[column]
    order: Any = None
    if mask is not None:
        mask = as_array(mask)
        _require(op, mask, (rows, column), "the mask")
        if mask.dtype != jnp.bool_:
            raise ArgumentTypeError(f"{op}: the mask must be boolean, got {type_text(mask)}.")
        lengths = REDUCTIONS["sum"](mask, (column,))
        order = argsort(~mask, (column,), stable=True)  # tokens first, in their order
    lengths = as_array(lengths)
    _require(op, lengths, (rows,), "the lengths")
    numbers = known(lengths)
    if numbers is not None and (numbers > columns).any():
        raise AxisSizeError(
            f"{op}: a row {format_value(rows)} has length {numbers.max()}, but axis {column!r} has"
            f" size {columns} in {type_text(x)}."
        )
    lengths = _minimum(lengths.astype(jnp.int32), columns)
    if numbers is None:
        lengths = _maximum(lengths, 0)
    if size is None:
        size = (
            x.named_shape[rows] * columns
            if numbers is None
            else max(int(numbers.sum(lengths.dims.index(rows)).max()), 1)
        )
    size = as_integer(op, "size", size, 1)
    asked = every(tokens) if clash(rows, tokens) else tokens
    segments = at_rows(segments_of(op, lengths, rows, asked, size))
    starts = ends_of(lengths, rows) - whole(lengths, rows)
    place: Any = global_index(op, asked, size) - take(starts, segments, every(rows), mode="clip")
    place = _minimum(_maximum(place, 0), columns - 1)
    if order is not None:
        flat = every((rows, column))
        order = merge_axes(whole(order, rows), [every(rows), column], flat)
        place = take(order, segments * columns + place, flat, mode="clip")
    values = x[{rows: segments, column: place}]
    return rename(values, {asked: tokens}) if asked != tokens else values, lengths


def padded(op: str, r: Any, column: Hashable, size: int | None, fill: Any) -> Any:
    """Build an array with an axis of rows and an axis of positions."""
    if not is_name(column) or column in (*dims_of(r.values), r.rows):
        raise AxisNameError(
            f"{op}: column={column!r} must be the name of a new axis of {format_value(r)}."
        )
    if size is None:
        numbers = known(r.lengths)
        if numbers is None:
            raise ArgumentError(
                f"{op}: the length of the longest row is not known during tracing. Pass size=."
            )
        size = max(int(numbers.max()), 1)
    position = global_index(op, column, as_integer(op, "size", size, 1))
    return _read(op, r, lambda lengths: (position, position < lengths), "clip", None, fill)


def pick(op: str, r: Any, position: Any, fill_value: Any) -> Any:
    """Read one token of each row."""
    position = as_array(position)
    if not jnp.issubdtype(position.dtype, jnp.integer):
        raise ArgumentTypeError(
            f"{op}: the position must contain integers, got {type_text(position)}."
        )
    if dims_of(position).count(None):
        raise PositionalAxisError(
            f"{op}: the position, {type_text(position)}, must be a scalar, or have named axes only,"
            f" such as {r.rows!r}."
        )

    def at(lengths: Any) -> tuple[Any, Any]:
        here = position
        if r.rows in dims_of(position) and r.rows not in dims_of(lengths):
            here = whole(position, r.rows)
        here = _where(here < 0, lengths + here, here)
        return here, (here >= 0) & (here < lengths)

    return _read(op, r, at, "fill", fill_value, None)


def _read(op: str, r: Any, at: Any, mode: str, fill_value: Any, fill: Any) -> Any:
    """Read tokens by their position in a row: `at(lengths)` returns the position, and a mask of existing tokens."""
    apart = clash(r.rows, r.tokens)
    ends, lengths = ends_of(r.lengths, r.rows), whole(r.lengths, r.rows)
    starts = ends - lengths
    if not apart:
        starts, lengths = (rename(x, {every(r.rows): r.rows}) for x in (starts, lengths))
    position, is_there = at(lengths)
    size = r.segments.named_shape[r.tokens]
    number = _where(is_there, starts + position, size if mode == "fill" else 0)
    read = take(r.values, number, (r.tokens,), mode=mode, fill_value=fill_value)
    if fill is not None:
        read = _where(is_there, read, jnp.asarray(fill, r.values.dtype))
    read = spoiled(read, r.is_cut)
    return rename(read, {every(r.rows): r.rows}) if apart else read


def take_rows(op: str, r: Any, index: Any, size: int | None) -> tuple[Any, Any, Hashable]:
    """Return the tokens of some rows, their lengths, and the axis name of these rows."""
    index = as_array(index)
    if not jnp.issubdtype(index.dtype, jnp.integer):
        raise ArgumentTypeError(f"{op}: the index must contain integers, got {type_text(index)}.")
    if len(dims_of(index)) != 1:
        raise PositionalAxisError(
            f"{op}: the index, {type_text(index)}, must have exactly one axis, positional or named."
        )
    (rows,) = dims_of(index)
    rows = r.rows if rows is None else rows
    index = index if isinstance(index, NamedArray) else named(index, [rows])
    asked = whole(index.astype(jnp.int32), rows)
    count = r.count
    asked = _where(asked < 0, asked + count, asked)
    is_row = (asked >= 0) & (asked < count)
    row = rename(_where(is_row, asked, 0), {every(rows): every("taken")})
    ends, old = ends_of(r.lengths, r.rows), whole(r.lengths, r.rows)
    starts = take(ends - old, row, every(r.rows), mode="clip")
    lengths = _where(
        rename(is_row, {every(rows): every("taken")}), take(old, row, every(r.rows), mode="clip"), 0
    )
    lengths = rename(lengths, {every("taken"): every(rows)})
    starts = rename(starts, {every("taken"): every(rows)})
    size = r.segments.named_shape[r.tokens] if size is None else as_integer(op, "size", size, 1)
    return (
        _tokens_of(op, r, starts, lengths, every(rows), size),
        rename(lengths, {every(rows): rows}),
        rows,
    )


def _tokens_of(op: str, r: Any, starts: Any, lengths: Any, rows: Hashable, size: int) -> Any:
    """Return tokens for a buffer of `size`, from rows that begin at `starts`."""
    numbers = known(lengths)
    if (
        numbers is not None
        and numbers.astype(np.int64).sum(dims_of(lengths).index(rows)).max() > size
    ):
        total = numbers.sum(dims_of(lengths).index(rows)).max()
        raise AxisSizeError(
            f"{op}: the rows have {total} tokens in total, but size={size}. Give a longer buffer"
            " (size=), or fewer rows."
        )
    segments = at_rows(segments_of(op, lengths, rows, r.tokens, size))
    ends = ends_of(lengths, rows)
    shift = starts - (rename(ends, {every(rows): rows}) - lengths)
    number = global_index(op, r.tokens, size) + take(shift, segments, rows, mode="clip")
    return take(r.values, number, (r.tokens,), mode="clip")


def index_of_tokens(r: Any) -> Any:
    """Return the number of every token, and the number of the last real token for all unused ones."""
    size = r.segments.named_shape[r.tokens]
    last = ends_of(r.lengths, r.rows)[every(r.rows), -1] - 1
    return _minimum(global_index("Ragged", r.tokens, size), _maximum(last, 0))
