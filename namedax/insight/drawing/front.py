"""`draw_front`: layouts by time and memory, with the Pareto front; every point has its number."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from namedax.core.records import Record
from namedax.errors import ArgumentError
from namedax.hlo import size_text
from namedax.insight.drawing.canvas import (
    FAINT,
    GRAY,
    INK,
    PALETTE,
    RULE,
    Canvas,
    Entry,
    count_of,
    draw_list,
    height_of,
    lines_of,
    list_height,
    new_canvas,
    plot_axes,
    shortened,
    style_of,
    text_width,
    time_text,
    time_unit,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Point", "draw_front"]

_WIDTH, _MARGIN, _LEFT, _PLOT = 11.0, 0.25, 0.75, 4.0  # in inches
_NUMBER, _SMALL = 7.0, 7.5  # the sizes of numbers, and of the list of the other candidates
_MOST = 120  # the maximum number of candidates with a number
_COLUMNS = 2  # of the list of the other candidates
_SPREAD = 5  # the ratio of largest to smallest value from which a scale is logarithmic
_FAR = 4  # a limit that many times larger than all values is not drawn
_DOT = 0.045  # the radius of a dot
_RADII = (0.1, 0.13, 0.17, 0.22, 0.28, 0.36, 0.46, 0.6, 0.8, 1.05)
_DIRECTIONS = 16

Point = tuple[float, float, str, bool]


class _Box(Record):
    """A rectangle on paper that is in use, in inches."""

    left: float
    top: float
    right: float
    bottom: float

    def overlaps(self, other: _Box) -> bool:
        """Return True if two rectangles overlap."""
        return (
            self.left < other.right
            and other.left < self.right
            and self.top < other.bottom
            and other.top < self.bottom
        )

    def within(self, other: _Box) -> bool:
        """Return True if this rectangle is inside of the other."""
        return (
            other.left <= self.left
            and self.right <= other.right
            and other.top <= self.top
            and self.bottom <= other.bottom
        )


def draw_front(
    points: Sequence[Point], memory: float | None = None, bound: float | None = None
) -> Figure:
    """Draw candidates by memory and time.

    Every candidate has a number: first those on the front, from the fastest on, then the others by
    time. The lists below the plot have their labels. A line connects the front.

    Args:
      points: for each candidate: the time in seconds, the memory in bytes, its label, and whether
        it is on the front.
      memory: the memory limit in bytes, drawn as a line; default: none.
      bound: a lower bound of the time in seconds, drawn as a line; default: none.

    Returns:
      A figure, like that of `nx.draw`.

    Raises:
      ArgumentError: there is no candidate.
      ImportError: matplotlib is not installed.

    >>> from namedax.insight.drawing.front import draw_front
    >>> figure = draw_front([(1e-3, 2**30, "{'batch': 'x'}", True), (2e-3, 2**31, "{}", False)])
    """
    if not points:
        raise ArgumentError("draw_front: there is no candidate to draw. Pass at least one point.")
    ordered = sorted(points, key=lambda point: (not point[3], point[0], point[1]))
    front = [point for point in ordered if point[3]]
    numbered = ordered[: max(_MOST, len(front))]
    others = numbered[len(front) :]
    is_far = memory is not None and memory > _FAR * max(size for _, size, *_ in points)
    entries = [
        Entry(label, PALETTE[0], (time_text(time), size_text(round(size))))
        for time, size, label, _ in front
    ]
    inner = _WIDTH - 2 * _MARGIN
    title = f"{count_of(len(points), 'candidate')}, {len(front)} on the front"
    sentence = _sentence(memory, is_far, bound, len(points) - len(numbered))
    head = height_of(12) + len(lines_of(sentence, inner, 8.5)) * height_of(8.5) + 0.2
    rows = math.ceil(len(others) / _COLUMNS)
    below = list_height(entries, inner) + height_of(9) + 0.1
    below += rows * height_of(_SMALL) + height_of(9) + 0.15 if others else 0.0
    canvas = new_canvas(_WIDTH, 2 * _MARGIN + head + 0.2 + _PLOT + 0.6 + below, "draw_front")
    canvas.text(_MARGIN, _MARGIN, title, 12, INK, weight="bold")
    canvas.paragraph(_MARGIN, _MARGIN + height_of(12), sentence, inner, 8.5)
    y = _MARGIN + head + 0.2
    axes = plot_axes(canvas, _MARGIN + _LEFT, y, inner - _LEFT - 0.1, _PLOT)
    byte, second = _plot(axes, points, front, None if is_far else memory, bound)
    plot = _Box(_MARGIN + _LEFT + 0.02, y + 0.02, _WIDTH - _MARGIN, y + _PLOT - 0.02)
    used = list(_line_labels(canvas, axes, plot, memory, is_far, bound, byte, second))
    places = [_on_paper(canvas, axes, size / byte, time / second) for time, size, *_ in numbered]
    _draw_numbers(canvas, places, len(front), plot, used)
    y += _PLOT + 0.6
    canvas.text(_MARGIN, y, "On the front, fastest first", 9, INK, weight="bold")
    y = draw_list(canvas, _MARGIN, y + height_of(9) + 0.04, inner, entries)
    if others:
        canvas.text(_MARGIN, y + 0.15, "The others, fastest first", 9, INK, weight="bold")
        _draw_others(canvas, y + 0.15 + height_of(9) + 0.04, others, len(front), rows)
    return canvas.figure


def _sentence(memory: float | None, is_far: bool, bound: float | None, left: int) -> str:
    words = "Blue candidates are on the front: no other is both faster and smaller."
    if memory is not None:
        limit = size_text(round(memory))
        words += (
            f" The memory limit, {limit}, is beyond the right edge."
            if is_far
            else f" The dashed line is the memory limit, {limit}."
        )
    if bound is not None:
        words += f" No layout of the search can be faster than the dotted line, {time_text(bound)}."
    if left:
        words += f" The {count_of(left, 'slowest candidate')} {'has' if left == 1 else 'have'} no"
        words += " number."
    return words


def _plot(
    axes: Axes,
    points: Sequence[Point],
    front: Sequence[Point],
    memory: float | None,
    bound: float | None,
) -> tuple[float, float]:
    """Plot the candidates, memory to the right, time upwards, and return the sizes of the units.

    These are in bytes and in seconds.
    """
    sizes = [size for _, size, *_ in points] + ([] if memory is None else [memory])
    times = [time for time, *_ in points] + ([] if bound is None else [bound])
    unit, second = time_unit(max(times) / 2)
    prefix, byte = next(
        (
            (text, 2.0**power)
            for text, power in (("GiB", 30), ("MiB", 20), ("KiB", 10))
            if max(sizes) >= 2**power
        ),
        ("B", 1.0),
    )
    axes.plot(
        [p[1] / byte for p in front],
        [p[0] / second for p in front],
        color=PALETTE[0],
        linewidth=1.2,
        zorder=2,
    )
    for of_front, color, dot in ((False, RULE, 4.5), (True, PALETTE[0], 6.0)):
        these = [p for p in points if p[3] == of_front]
        xs, ys = [p[1] / byte for p in these], [p[0] / second for p in these]
        edge = GRAY if not of_front else PALETTE[0]
        axes.plot(
            xs,
            ys,
            "o",
            color=color,
            markeredgecolor=edge,
            markeredgewidth=0.6,
            markersize=dot,
            zorder=3,
        )
    if memory is not None:
        axes.axvline(memory / byte, color=GRAY, linewidth=1, linestyle=(0, (4, 3)), zorder=1)
    if bound is not None:
        axes.axhline(bound / second, color=GRAY, linewidth=1, linestyle=(0, (1, 2)), zorder=1)
    _scale(axes, "x", sizes, byte, f"memory per device ({prefix})")
    _scale(axes, "y", times, second, f"time of a step ({unit})")
    return byte, second


def _scale(axes: Axes, which: str, values: Sequence[float], unit: float, title: str) -> None:
    """Set the scale, limits, labels and title of an axis; values far apart are logarithmic."""
    from matplotlib.ticker import FuncFormatter, LogLocator

    axis = axes.xaxis if which == "x" else axes.yaxis
    least, most = min(values), max(values)
    if least > 0 and most / least >= _SPREAD:
        (axes.set_xscale if which == "x" else axes.set_yscale)("log")
        decades = math.log10(most / least)
        axis.set_major_locator(LogLocator(subs=(1, 2, 5) if decades < 3 else (1,), numticks=30))
        axis.set_minor_formatter(FuncFormatter(lambda value, _: ""))
        limits = least / unit / 1.25, most / unit * 1.25
    else:
        room = 0.12 * (most - least) or 0.5 * most or 1.0
        limits = max(0.0, least - room) / unit, (most + room) / unit
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    (axes.set_xlim if which == "x" else axes.set_ylim)(*limits)
    axis.set_label_text(title, fontproperties=style_of(8.5), color=GRAY)


def _on_paper(canvas: Canvas, axes: Axes, x: float, y: float) -> tuple[float, float]:
    """Return the position of a point of a plot, in inches of the canvas."""
    right, up = axes.transData.transform((x, y)) / canvas.figure.dpi
    return float(right), float(canvas.height - up)


def _line_labels(
    canvas: Canvas,
    axes: Axes,
    plot: _Box,
    memory: float | None,
    is_far: bool,
    bound: float | None,
    byte: float,
    second: float,
) -> Iterator[_Box]:
    """Draw the labels of the two lines, and yield the rectangles of labels and lines."""
    low, high = axes.get_ylim()
    if memory is not None and not is_far:
        x, _ = _on_paper(canvas, axes, memory / byte, low)
        words = f"limit {size_text(round(memory))}"
        canvas.text(
            min(x, plot.right - text_width(words, _SMALL) / 2),
            plot.top - 0.06,
            words,
            _SMALL,
            GRAY,
            ha="center",
            va="bottom",
        )
        yield _Box(x - 0.01, plot.top, x + 0.01, plot.bottom)
    if bound is not None and low <= bound / second <= high:
        _, y = _on_paper(canvas, axes, axes.get_xlim()[0], bound / second)
        words = f"lower bound {time_text(bound)}"
        width, height = text_width(words, _SMALL), height_of(_SMALL)
        is_low = y + 0.03 + height > plot.bottom  # no room between the line and the axis
        top = y - 0.03 - height if is_low else y + 0.03
        canvas.text(plot.right - width, top, words, _SMALL, GRAY)
        yield _Box(plot.right - width, min(y, top), plot.right, max(y, top + height))


def _draw_numbers(
    canvas: Canvas,
    places: Sequence[tuple[float, float]],
    on_front: int,
    plot: _Box,
    used: Sequence[_Box],
) -> None:
    """Draw a number beside each point, with a line to it if the number has to be away from it."""
    taken = [_Box(x - _DOT, y - _DOT, x + _DOT, y + _DOT) for x, y in places] + list(used)
    height = 0.72 * height_of(_NUMBER)
    for i, (x, y) in enumerate(places):
        width = text_width(str(i + 1), _NUMBER, "bold")
        free = (
            (left, top, away, box)
            for left, top, away in _around(x, y, width, height)
            for box in [_Box(left - 0.01, top - 0.01, left + width + 0.01, top + height + 0.01)]
            if box.within(plot) and not any(box.overlaps(other) for other in taken)
        )
        found = next(free, None)
        if found is None:
            continue  # no room: the point is within a dense group
        left, top, away, box = found
        taken.append(box)
        middle = left + width / 2, top + height / 2
        if away > _RADII[2]:
            canvas.line([x, middle[0]], [y, middle[1]], FAINT, 0.5)
        ink, weight = (PALETTE[0], "bold") if i < on_front else (GRAY, "normal")
        style: dict[str, Any] = {"ha": "center", "va": "center", "weight": weight}
        canvas.text(*middle, str(i + 1), _NUMBER, ink, **style)


def _around(
    x: float, y: float, width: float, height: float
) -> Iterator[tuple[float, float, float]]:
    """Yield the corners of rectangles around a point, the nearest ones first, and distances."""
    for radius in _RADII:
        for i in range(_DIRECTIONS):
            angle = 2 * math.pi * (i / _DIRECTIONS) - math.pi / 4
            right, down = math.cos(angle), math.sin(angle)
            across = x + right * (radius + width / 2)
            yield across - width / 2, y + down * (radius + height / 4) - height / 2, radius


def _draw_others(canvas: Canvas, y: float, others: Sequence[Point], first: int, rows: int) -> None:
    """Draw the labels of the other candidates in columns, one line for each."""
    wide = (_WIDTH - 2 * _MARGIN - 0.3 * (_COLUMNS - 1)) / _COLUMNS
    for i, (time, size, label, _) in enumerate(others):
        column, row = divmod(i, rows)
        x, top = _MARGIN + column * (wide + 0.3), y + row * height_of(_SMALL)
        canvas.text(x + 0.2, top, str(first + i + 1), _SMALL, GRAY, ha="right")
        figures = f"{time_text(time)}, {size_text(round(size))}"
        canvas.text(x + wide, top, figures, _SMALL, GRAY, ha="right")
        room = 0.95 * (wide - 0.4 - text_width(figures, _SMALL))
        words = shortened(label, room, lambda text: text_width(text, _SMALL))
        canvas.text(x + 0.28, top, words, _SMALL)
