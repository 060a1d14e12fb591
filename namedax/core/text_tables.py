"""Tables and times as text: aligned columns, shortened lines, widths, and units of seconds."""

from __future__ import annotations

import shutil
from collections.abc import Container, Sequence

__all__ = ["aligned", "columns", "seconds_text", "shortened"]

_NARROWEST, _WIDEST = 60, 100


def columns() -> int:
    """Return the width of a printed table: that of the terminal, from 60 to 100 columns.

    It is 100 without a terminal. The environment variable `COLUMNS` has precedence.
    """
    terminal = shutil.get_terminal_size((_WIDEST, 24)).columns
    return min(max(terminal, _NARROWEST), _WIDEST)


def aligned(
    rows: Sequence[tuple[str, ...]], left: Container[int] | None = None, indent: str = ""
) -> list[str]:
    """Return rows as lines with aligned columns.

    Args:
      rows: the rows, all with the same number of cells.
      left: the columns that are aligned on the left; the others are on the right. Default: all.
      indent: the beginning of each line. Default: empty.

    >>> from namedax.core.text_tables import aligned
    >>> aligned([("time", "line"), ("1.5 s", "model.py:3")], left={1})
    [' time  line', '1.5 s  model.py:3']
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = (
            cell.ljust(width) if left is None or i in left else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        lines.append((indent + "  ".join(cells)).rstrip())
    return lines


def shortened(words: str, width: int) -> str:
    """Return a text with at most `width` characters; an ellipsis stands for its end."""
    return words if len(words) <= width else words[: width - 1] + "…"


def seconds_text(seconds: float) -> str:
    """Return a time with three digits.

    >>> from namedax.core.text_tables import seconds_text
    >>> seconds_text(1.234e-3), seconds_text(0.99996), seconds_text(2345.6), seconds_text(0.0)
    ('1.23 ms', '1 s', '2346 s', '0 s')
    """
    if seconds < 0:
        return f"-{seconds_text(-seconds)}"
    if seconds < 1e-12:
        return f"{seconds:.3g} s"
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size * 0.9995:  # a larger time than that is rounded to one unit
            value = seconds / size
            return f"{value:.3g} {unit}" if value < 999.5 else f"{value:.0f} {unit}"
    return f"{seconds / 1e-9:.3g} ns"
