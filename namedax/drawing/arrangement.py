"""The dimensions of an array along the rows and columns of its picture, and the blocks that are left out.

Two dimensions make a sheet. Other sharded dimensions, and dimensions with very many parts, make several sheets. If there are
too many blocks to distinguish, only the first ones and the last are drawn.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

from namedax.core.records import Record
from namedax.drawing.blocks import Dimension

__all__ = ["MOST_BLOCKS", "Arrangement", "Sheet", "arrange"]

MOST_BLOCKS = 64  # the maximum number of blocks that are drawn individually
_MOST_OF_MANY = 16  # the maximum if there are more devices than that
_LONGEST = 16  # the maximum number of rows, and of columns, of a sheet
_FIRST = 3  # parts drawn at the start of a dimension that is not drawn completely


class Sheet(Record):
    """A part of an array that is drawn as one grid: the parts along rows and columns (`None` for omitted ones), and its label."""

    rows: tuple[int | None, ...]
    columns: tuple[int | None, ...]
    fixed: tuple[tuple[int, int], ...]  # a part of each other sharded dimension
    label: str


class Arrangement(Record):
    """The drawing plan of an array: its row and column dimensions, if any, and its sheets."""

    row: int | None
    column: int | None
    across: tuple[int, ...]  # the dimensions that differ between sheets
    sheets: tuple[Sheet, ...]
    left_out: bool

    def block(self, sheet: Sheet, row: int, column: int, ndim: int) -> tuple[int, ...]:
        """Return the index of the block at a row and column of a sheet."""
        index = dict(sheet.fixed)
        if self.row is not None:
            index[self.row] = row
        if self.column is not None:
            index[self.column] = column
        return tuple(index.get(i, 0) for i in range(ndim))


def arrange(dims: tuple[Dimension, ...], copies: int = 1) -> Arrangement:
    """Arrange an array: the two dimensions with the most parts, or else the largest, make the rows and columns.

    Each block is on `copies` devices.
    """
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
    """Split the parts of a dimension into pieces of about equal length that each fit a sheet."""
    if dim is None:
        return [(0,)]
    shown = _shown(dims[dim].parts, some)
    count = -(-len(shown) // _LONGEST)
    length = -(-len(shown) // count)
    return [shown[i : i + length] for i in range(0, len(shown), length)]


def _range_text(dim: Dimension, first: int, last: int) -> str:
    """Return the range of a dimension that a sheet covers, as text."""
    start, end = dim.entries(first)[0], dim.entries(last)[1]
    return f"{dim.label} {start:,}–{end:,}" if end > start else f"{dim.label} {start:,}"


def cells(sheet: Sheet) -> Iterator[tuple[int, int, int | None, int | None]]:
    """Yield the cells of a sheet: row, column, and the parts there (`None` in a row or column for omitted parts)."""
    for (i, row), (j, column) in itertools.product(enumerate(sheet.rows), enumerate(sheet.columns)):
        yield i, j, row, column
