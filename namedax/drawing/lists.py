"""Numbers in a picture, and the list that explains them, for text that is too long for its place.

The module also has the text for a step of a program.
"""

from __future__ import annotations

from collections.abc import Sequence

from namedax.analysis.records import Collective, Step
from namedax.core.records import Record
from namedax.drawing.canvas import (
    FAINT,
    GREY,
    INK,
    PAPER,
    Canvas,
    Colour,
    height_of,
    lines_of,
    shortened,
    text_width,
)

__all__ = [
    "Entry",
    "draw_legend",
    "draw_list",
    "draw_marks",
    "legend_height",
    "list_height",
    "step_text",
]

TEXT = 8.0
_FIGURE, _SQUARE = 0.95, 0.11  # the width of a column of figures, and of a colored square
_MARK = 0.2  # the minimum distance between numbers


class Entry(Record):
    """A line of a list: its text, its color, and figures in columns."""

    text: str
    colour: Colour
    figures: tuple[str, ...]


def step_text(step: Step) -> str:
    """Return the text of a step: its kind, its names, and its origin."""
    words = [step.kind]
    names = ", ".join(step.names)
    if step.operation:
        words.append(
            step.operation + (f" {{{names}}}" if names and "{" not in step.operation else "")
        )
    elif names:
        words.append(f"{{{names}}}")
    words += [f"arrival of {step.arrival}"] if isinstance(step, Collective) and step.arrival else []
    words += [step.source] if step.source else []
    words += ["gradient"] if step.phase == "gradient" else []
    return ", ".join(words)


# --- a list -------------------------------------------------------------------------------------------------------------


def _lines(entry: Entry, width: float) -> list[str]:
    room = width - 0.5 - _FIGURE * len(entry.figures)
    lines = lines_of(entry.text, room, TEXT)
    return [shortened(line, room, lambda text: text_width(text, TEXT)) for line in lines]


def list_height(entries: Sequence[Entry], width: float) -> float:
    """Return the height of a list."""
    return sum(max(len(_lines(entry, width)), 1) for entry in entries) * height_of(TEXT)


def draw_list(
    canvas: Canvas,
    x: float,
    y: float,
    width: float,
    entries: Sequence[Entry],
    numbered: bool = True,
) -> float:
    """Draw a list, numbered from 1, and return its lower end."""
    for i, entry in enumerate(entries):
        if numbered:
            canvas.text(x + 0.16, y, str(i + 1), TEXT, INK, ha="right", weight="bold")
        canvas.rectangle(x + 0.24, y + 0.008, _SQUARE, _SQUARE, entry.colour)
        for j, figure in enumerate(reversed(entry.figures)):
            canvas.text(x + width - _FIGURE * j, y, figure, TEXT, GREY, ha="right")
        for line in _lines(entry, width):
            canvas.text(x + 0.42, y, line, TEXT)
            y += height_of(TEXT)
    return y


# --- a legend -----------------------------------------------------------------------------------------------------------


def _legend_places(
    entries: Sequence[tuple[str, Colour]], width: float
) -> list[tuple[float, float]]:
    places, x, y = [], 0.0, 0.0
    for text, _ in entries:
        wide = text_width(text, TEXT) + 0.36
        if x and x + wide > width:
            x, y = 0.0, y + height_of(TEXT) + 0.02
        places.append((x, y))
        x += wide
    return places


def legend_height(entries: Sequence[tuple[str, Colour]], width: float) -> float:
    """Return the height of a legend."""
    return _legend_places(entries, width)[-1][1] + height_of(TEXT) if entries else 0.0


def draw_legend(
    canvas: Canvas, x: float, y: float, width: float, entries: Sequence[tuple[str, Colour]]
) -> None:
    """Draw texts with their colors, side by side."""
    for (text, colour), (right, down) in zip(entries, _legend_places(entries, width), strict=True):
        canvas.rectangle(x + right, y + down + 0.008, _SQUARE, _SQUARE, colour)
        canvas.text(x + right + 0.17, y + down, text, TEXT)


# --- numbers --------------------------------------------------------------------------------------------------------------


def _spread(wanted: Sequence[float], low: float, high: float) -> list[float]:
    """Return positions in order, near the wanted ones and at least `_MARK` apart."""
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    places = [0.0] * len(wanted)
    least = low
    for rank, i in enumerate(order):
        latest = high - _MARK * (len(order) - 1 - rank)
        places[i] = max(min(wanted[i], latest), least)
        least = places[i] + _MARK
    return places


def draw_marks(
    canvas: Canvas, points: Sequence[tuple[float, float]], y: float, low: float, high: float
) -> None:
    """Draw numbers from 1 in a line at height `y` between `low` and `high`, each with a line to its point."""
    for i, (place, (x, end)) in enumerate(
        zip(_spread([x for x, _ in points], low, high), points, strict=True)
    ):
        canvas.line([place, x, x], [y, y + 0.4 * (end - y), end], FAINT, 0.7)
        canvas.ellipse(place - 0.085, y - 0.085, 0.17, 0.17, INK)
        canvas.text(
            place, y, str(i + 1), 7, PAPER, ha="center", va="center_baseline", weight="bold"
        )
