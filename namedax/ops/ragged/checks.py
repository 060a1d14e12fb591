"""Validation of tokens and lengths as rows, and the filling of the buffer after the last row."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from namedax.core.array import dims_of
from namedax.core.display import type_text
from namedax.core.names import is_name
from namedax.errors import (
    ArgumentError,
    ArgumentTypeError,
    AxisNameError,
    AxisSizeError,
    PositionalAxisError,
    format_value,
    raise_not_found,
)
from namedax.ops.elementwise import FUNCTIONS as ELEMENTWISE
from namedax.ops.indexing.take import take
from namedax.ops.ragged.rows import ends_of, every, known, spoiled, whole
from namedax.ops.shape.creation import zeros
from namedax.ops.shape.rename import rename

__all__ = ["check", "checked_lengths", "filled", "uncut"]

_where, _maximum, _minimum = (ELEMENTWISE[f] for f in ("where", "maximum", "minimum"))


def check(op: str, values: Any, lengths: Any, tokens: Hashable, rows: Hashable) -> None:
    """Raise if values and lengths do not form rows."""
    for what, name in (("tokens", tokens), ("rows", rows)):
        if not is_name(name):
            raise AxisNameError(f"{op}: {what}={format_value(name)} is not an axis name.")
    if tokens == rows:
        raise AxisNameError(
            f"{op}: tokens and rows are both {format_value(tokens)}. Use two different names."
        )
    dims, own = dims_of(values), dims_of(lengths)
    if tokens not in dims:
        raise_not_found(
            op, tokens, f"the values {type_text(values)}", [d for d in dims if d is not None]
        )
    if rows not in own:
        raise_not_found(
            op, rows, f"the lengths {type_text(lengths)}", [d for d in own if d is not None]
        )
    if rows in dims or tokens in own:
        array, name = (values, rows) if rows in dims else (lengths, tokens)
        raise AxisNameError(
            f"{op}: {type_text(array)} has the axis {name!r}. Only values have"
            f" {format_value(tokens)} and only lengths have {format_value(rows)}; rename it."
        )
    if None in own:
        raise PositionalAxisError(
            f"{op}: the lengths, {type_text(lengths)}, must have named axes only. Name the others."
        )
    for name in own:
        if name != rows and name not in dims:
            raise_not_found(
                op, name, f"the values {type_text(values)}", [d for d in dims if d is not None]
            )
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


def checked_lengths(
    op: str, lengths: Any, tokens: Hashable, rows: Hashable, size: int
) -> tuple[Any, bool]:
    """Return the lengths as 32-bit integers, and `True` if they are known to fill the buffer."""
    numbers, lengths = known(lengths), lengths.astype(jnp.int32)
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


def filled(
    values: Any, lengths: Any, segments: Any, tokens: Hashable, rows: Hashable, size: int
) -> tuple[Any, Any, Any]:
    """Copy the last real token to the end of the buffer; return values, lengths limited to the buffer, and an overflow flag."""
    ends = ends_of(lengths, rows)
    total = ends[every(rows), -1]
    last = jax.lax.stop_gradient(take(values, _maximum(_minimum(total, size) - 1, 0), (tokens,)))
    one = jnp.ones((), values.dtype)
    values = _where(segments < 0, _where(total > 0, last, one), values)
    if known(lengths) is None:
        starts = rename(ends - whole(lengths, rows), {every(rows): rows})
        lengths = _minimum(lengths, _maximum(size - starts, 0))
        values = spoiled(values, total > size)
    return values, lengths, total > size


def uncut(lengths: Any, rows: Hashable) -> Any:
    """Return `False` for every batch: no rows are truncated."""
    return zeros(
        (), bool, named_shape={name: n for name, n in lengths.named_shape.items() if name != rows}
    )
