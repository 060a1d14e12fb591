"""Conversions of rows of different lengths: from and to lists, padded arrays and tokens.

Each conversion is one read along one axis: of tokens (by the first token of a row, and a position),
or of a padded array. If rows and tokens are sharded over one mesh axis, all devices request the
elements under an unmapped name, and the result is then sliced. The sum of the partial reads and the
slice become one reduce-scatter.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from namedax.core.annotations import AnyArray, ArrayLike
from namedax.core.array import NamedArray, as_array, dims_of
from namedax.core.display import type_text
from namedax.core.names import is_name
from namedax.core.strict_broadcasting import forms_outer_products
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
from namedax.ops.operands.pytree import names_of
from namedax.ops.ragged.rows import (
    concrete_value,
    ends_of,
    every,
    nan_if_cut,
    replicate_rows,
    row_to_read,
    segments_of,
    share_mesh_axis,
)
from namedax.ops.reduction.reductions import REDUCTIONS
from namedax.ops.shape.conversion import named
from namedax.ops.shape.rearrange import merge_axes
from namedax.ops.shape.rename import rename
from namedax.ops.sorting.sorting import argsort

__all__ = ["from_padded", "from_rows", "index_of_tokens", "padded", "pick", "take_rows", "to_rows"]

_where, _minimum, _maximum = (ELEMENTWISE[f] for f in ("where", "minimum", "maximum"))


class Rows(Protocol):
    """A `Ragged`."""

    values: NamedArray
    lengths: NamedArray
    segments: NamedArray
    is_cut: AnyArray
    tokens: Hashable
    rows: Hashable

    @property
    def count(self) -> int:
        """Return the number of rows."""


# --- lists ----------------------------------------------------------------------------------------


def from_rows(
    op: str,
    arrays: Sequence[Any],
    rows: Hashable,
    tokens: Hashable,
    axes: Sequence[Any],
    size: int | None,
) -> tuple[NamedArray, NamedArray]:
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


def to_rows(op: str, r: Rows) -> list[np.ndarray]:
    """Return the rows as NumPy arrays."""
    values, segments = concrete_value(r.values), concrete_value(r.segments)
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


# --- padded arrays --------------------------------------------------------------------------------


def _require(op: str, array: ArrayLike, names: Sequence[Hashable], what: str) -> NamedArray:
    """Return an array; raise if it lacks one of the axes `names`."""
    dims = dims_of(array)
    missing = [name for name in names if name not in dims]
    if missing or not isinstance(array, NamedArray):
        candidates = names_of(dims)
        raise_not_found(op, missing[0], f"{what} {type_text(array)}", candidates)
    return array


@forms_outer_products
def from_padded(
    op: str,
    x: ArrayLike,
    rows: Hashable,
    column: Hashable,
    tokens: Hashable,
    lengths: ArrayLike | None,
    mask: ArrayLike | None,
    size: int | None,
) -> tuple[AnyArray, NamedArray]:
    """Return the tokens of padded rows, and the lengths."""
    array = _require(op, x, (rows, column), "the array")
    if (lengths is None) == (mask is None):
        raise ArgumentError(f"{op}: pass either lengths= or mask=.")
    if tokens in dims_of(x) or not is_name(tokens):
        raise AxisNameError(
            f"{op}: tokens={format_value(tokens)} must be the name of a new axis of {type_text(x)}."
        )
    columns = array.named_shape[column]
    order: Any = None
    if mask is not None:
        is_token = _require(op, as_array(mask), (rows, column), "the mask")
        if is_token.dtype != jnp.bool_:
            raise ArgumentTypeError(f"{op}: the mask must be boolean, got {type_text(is_token)}.")
        lengths = REDUCTIONS["sum"](is_token, (column,))
        # tokens first, in their order
        order = argsort(~is_token, (column,), stable=True)
    counts = _require(op, as_array(lengths), (rows,), "the lengths")
    numbers = concrete_value(counts)
    if numbers is not None and (numbers > columns).any():
        raise AxisSizeError(
            f"{op}: a row {format_value(rows)} has length {numbers.max()}, but axis {column!r} has"
            f" size {columns} in {type_text(x)}."
        )
    counts = _minimum(counts.astype(jnp.int32), columns)
    if numbers is None:
        counts = _maximum(counts, 0)
    if size is None:
        size = (
            array.named_shape[rows] * columns
            if numbers is None
            else max(int(numbers.sum(counts.dims.index(rows)).max()), 1)
        )
    size = as_integer(op, "size", size, 1)
    reader = every(tokens) if share_mesh_axis(rows, tokens) else tokens
    segments = row_to_read(segments_of(op, counts, rows, reader, size))
    starts = ends_of(counts, rows) - replicate_rows(counts, rows)
    place: Any = global_index(op, reader, size) - take(starts, segments, every(rows), mode="clip")
    place = _minimum(_maximum(place, 0), columns - 1)
    if order is not None:
        flat = every((rows, column))
        order = merge_axes(replicate_rows(order, rows), [every(rows), column], flat)
        place = take(order, segments * columns + place, flat, mode="clip")
    values = array[{rows: segments, column: place}]
    return rename(values, {reader: tokens}) if reader != tokens else values, counts


@forms_outer_products
def padded(
    op: str, r: Rows, column: Hashable, size: int | None, fill: ArrayLike | None
) -> AnyArray:
    """Build an array with an axis of rows and an axis of positions."""
    if not is_name(column) or column in (*dims_of(r.values), r.rows):
        raise AxisNameError(
            f"{op}: column={column!r} must be the name of a new axis of {format_value(r)}."
        )
    if size is None:
        numbers = concrete_value(r.lengths)
        if numbers is None:
            raise ArgumentError(
                f"{op}: the length of the longest row is not known during tracing. Pass size=."
            )
        size = max(int(numbers.max()), 1)
    position = global_index(op, column, as_integer(op, "size", size, 1))
    return _read(op, r, lambda lengths: (position, position < lengths), "clip", None, fill)


@forms_outer_products
def pick(op: str, r: Rows, position: ArrayLike, fill_value: ArrayLike | None) -> AnyArray:
    """Read one token of each row."""
    place: AnyArray = as_array(position)
    if not jnp.issubdtype(place.dtype, jnp.integer):
        raise ArgumentTypeError(
            f"{op}: the position must contain integers, got {type_text(place)}."
        )
    if dims_of(place).count(None):
        raise PositionalAxisError(
            f"{op}: the position, {type_text(place)}, must be a scalar, or have named axes only,"
            f" such as {r.rows!r}."
        )

    def at(lengths: NamedArray) -> tuple[AnyArray, AnyArray]:
        here = place
        if r.rows in dims_of(place) and r.rows not in dims_of(lengths):
            here = replicate_rows(place, r.rows)
        here = _where(here < 0, lengths + here, here)
        return here, (here >= 0) & (here < lengths)

    return _read(op, r, at, "fill", fill_value, None)


def _read(
    op: str,
    r: Rows,
    at: Callable[[NamedArray], tuple[AnyArray, AnyArray]],
    mode: str,
    fill_value: ArrayLike | None,
    fill: ArrayLike | None,
) -> AnyArray:
    """Read tokens by their position in a row.

    `at(lengths)` returns the position, and a mask of existing tokens.
    """
    apart = share_mesh_axis(r.rows, r.tokens)
    ends, lengths = ends_of(r.lengths, r.rows), replicate_rows(r.lengths, r.rows)
    starts = ends - lengths
    if not apart:
        starts, lengths = (rename(x, {every(r.rows): r.rows}) for x in (starts, lengths))
    position, is_there = at(lengths)
    size = r.segments.named_shape[r.tokens]
    number = _where(is_there, starts + position, size if mode == "fill" else 0)
    read = take(r.values, number, (r.tokens,), mode=mode, fill_value=fill_value)
    if fill is not None:
        read = _where(is_there, read, jnp.asarray(fill, r.values.dtype))
    read = nan_if_cut(read, r.is_cut)
    return rename(read, {every(r.rows): r.rows}) if apart else read


@forms_outer_products
def take_rows(
    op: str, r: Rows, index: ArrayLike, size: int | None
) -> tuple[AnyArray, AnyArray, Hashable]:
    """Return the tokens of some rows, their lengths, and the axis name of these rows."""
    numbers: AnyArray = as_array(index)
    if not jnp.issubdtype(numbers.dtype, jnp.integer):
        raise ArgumentTypeError(f"{op}: the index must contain integers, got {type_text(numbers)}.")
    if len(dims_of(numbers)) != 1:
        raise PositionalAxisError(
            f"{op}: the index, {type_text(numbers)}, must have exactly one axis, positional or"
            " named."
        )
    (rows,) = dims_of(numbers)
    rows = r.rows if rows is None else rows
    if not isinstance(numbers, NamedArray):
        numbers = named(numbers, [rows])
    wanted = replicate_rows(numbers.astype(jnp.int32), rows)
    count = r.count
    wanted = _where(wanted < 0, wanted + count, wanted)
    is_row = (wanted >= 0) & (wanted < count)
    row = rename(_where(is_row, wanted, 0), {every(rows): every("taken")})
    ends, old = ends_of(r.lengths, r.rows), replicate_rows(r.lengths, r.rows)
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


@forms_outer_products
def _tokens_of(
    op: str, r: Rows, starts: AnyArray, lengths: AnyArray, rows: Hashable, size: int
) -> AnyArray:
    """Return tokens for a buffer of `size`, from rows that begin at `starts`."""
    numbers = concrete_value(lengths)
    if (
        numbers is not None
        and numbers.astype(np.int64).sum(dims_of(lengths).index(rows)).max() > size
    ):
        total = numbers.sum(dims_of(lengths).index(rows)).max()
        raise AxisSizeError(
            f"{op}: the rows have {total} tokens in total, but size={size}. Give a longer buffer"
            " (size=), or fewer rows."
        )
    segments = row_to_read(segments_of(op, lengths, rows, r.tokens, size))
    ends = ends_of(lengths, rows)
    shift = starts - (rename(ends, {every(rows): rows}) - lengths)
    number = global_index(op, r.tokens, size) + take(shift, segments, rows, mode="clip")
    return take(r.values, number, (r.tokens,), mode="clip")


@forms_outer_products
def index_of_tokens(r: Rows) -> NamedArray:
    """Return the number of every token; unused ones have the number of the last real token."""
    size = r.segments.named_shape[r.tokens]
    last = ends_of(r.lengths, r.rows)[every(r.rows), -1] - 1
    return _minimum(global_index("Ragged", r.tokens, size), _maximum(last, 0))
