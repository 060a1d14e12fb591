"""Which dimensions of an array run along the rows and columns of its picture, and which blocks are left out.

Two dimensions make a sheet. Others that are cut, and cuts into very many parts, make several sheets. Of more blocks than can be told apart the
first ones and the last are drawn.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

from namedax.core.records import Record
from namedax.drawing.blocks import Dimension

__all__ = ["MOST_BLOCKS", "Arrangement", "Sheet", "arrange"]

MOST_BLOCKS = 64  # more are not drawn one by one,
_MOST_OF_MANY = 16  # nor more than these, where there are more devices than that
_LONGEST = 16  # the most rows, and the most columns, of a sheet
_FIRST = 3  # of a dimension that is not drawn whole


class Sheet(Record):
    """A part of an array that is drawn as one grid: the parts along rows and columns (`None` for those left out), and what it is of."""

    rows: tuple[int | None, ...]
    columns: tuple[int | None, ...]
    fixed: tuple[tuple[int, int], ...]  # a part of each other dimension that is cut
    label: str


class Arrangement(Record):
    """How an array is drawn: the dimension along the rows and that along the columns, if there are, and its sheets."""

    row: int | None
    column: int | None
    across: tuple[int, ...]  # those that tell sheets apart
    sheets: tuple[Sheet, ...]
    left_out: bool

    def block(self, sheet: Sheet, row: int, column: int, ndim: int) -> tuple[int, ...]:
        """The index of the block at a place of a sheet."""
        index = dict(sheet.fixed)
        if self.row is not None:
            index[self.row] = row
        if self.column is not None:
            index[self.column] = column
        return tuple(index.get(i, 0) for i in range(ndim))


def arrange(dims: tuple[Dimension, ...], copies: int = 1) -> Arrangement:
    """The two dimensions that are cut into most parts, or else the largest, make the rows and columns. A block is held by `copies` devices."""
    order = sorted(range(len(dims)), key=lambda i: (-dims[i].parts, -dims[i].size, i))
    row, column, *_ = *sorted(order[:2]), None, None
    across = tuple(sorted(i for i in order[2:] if dims[i].parts > 1))
    blocks = math.prod(dim.parts for dim in dims)
    left_out = blocks > (MOST_BLOCKS if blocks * copies <= MOST_BLOCKS else _MOST_OF_MANY)
    rows = _pieces(dims, row, left_out)
    columns = _pieces(dims, column, left_out)
    others = [[part for part in _shown(dims[i].parts, left_out) if part is not None] for i in across]
    sheets = []
    for parts in itertools.product(*others):
        fixed = tuple(zip(across, parts, strict=True))
        for down, right in itertools.product(rows, columns):
            said = [(i, part, part) for i, part in fixed]
            for i, pieces, piece in ((row, rows, down), (column, columns, right)):
                if i is not None and len(pieces) > 1:
                    said.append((i, piece[0] or 0, piece[-1] or 0))
            label = ", ".join(_range_text(dims[i], first, last) for i, first, last in said)
            sheets.append(Sheet(down, right, fixed, label))
    return Arrangement(row, column, across, tuple(sheets), left_out)


def _shown(parts: int, some: bool) -> tuple[int | None, ...]:
    if not some or parts <= _FIRST + 1:
        return tuple(range(parts))
    return (*range(_FIRST), None, parts - 1)


def _pieces(dims: tuple[Dimension, ...], dim: int | None, some: bool) -> list[tuple[int | None, ...]]:
    """The parts of a dimension, in pieces of about equal length that each fit a sheet."""
    if dim is None:
        return [(0,)]
    shown = _shown(dims[dim].parts, some)
    count = -(-len(shown) // _LONGEST)
    length = -(-len(shown) // count)
    return [shown[i : i + length] for i in range(0, len(shown), length)]


def _range_text(dim: Dimension, first: int, last: int) -> str:
    """The entries of a dimension that a sheet has."""
    start, end = dim.entries(first)[0], dim.entries(last)[1]
    return f"{dim.label} {start:,}–{end:,}" if end > start else f"{dim.label} {start:,}"


def cells(sheet: Sheet) -> Iterator[tuple[int, int, int | None, int | None]]:
    """The places of a sheet: row, column, and the parts there (`None` in a row or column that stands for those left out)."""
    for (i, row), (j, column) in itertools.product(enumerate(sheet.rows), enumerate(sheet.columns)):
        yield i, j, row, column
