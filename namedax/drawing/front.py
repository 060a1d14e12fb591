"""`draw_front`: layouts by time and memory, with the Pareto front."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from namedax.drawing.canvas import Canvas, height_of, lines_of, new_canvas, plot_axes, style_of
from namedax.drawing.colours import GREY, INK, PALETTE, RULE
from namedax.drawing.lists import Entry, draw_list, draw_marks, list_height
from namedax.drawing.words import count_of, time_text, time_unit
from namedax.errors import ArgumentError
from namedax.hlo import size_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["draw_front"]

_WIDTH, _MARGIN, _LEFT, _PLOT = 9.0, 0.25, 0.75, 3.2  # in inches
_MOST = 10  # the maximum number of numbered points
_DECADES = 20  # the ratio of largest to smallest value from which a scale is logarithmic

Point = tuple[float, float, str, bool]


def draw_front(points: Sequence[Point], memory: float | None = None) -> Figure:
    """Draw candidates by memory and time; those on the front are connected by a line, numbered from the fastest on, and listed.

    Args:
      points: for each candidate: the time in seconds, the memory in bytes, its label, and whether it is on the front.
      memory: the memory limit in bytes, drawn as a line; default: none.

    Returns:
      A figure, like that of `nx.draw`.

    Raises:
      ArgumentError: there is no candidate.
      ImportError: matplotlib is not installed.

    >>> figure = draw_front([(1e-3, 2**30, "{'batch': 'x'}", True), (2e-3, 2**31, "{}", False)])
    """
    if not points:
        raise ArgumentError("draw_front: there is no candidate to draw. Pass at least one point.")
    front = sorted((point for point in points if point[3]), key=lambda point: (point[0], point[1]))
    numbered = [front[round(i * (len(front) - 1) / (_MOST - 1))] for i in range(_MOST)] if len(front) > _MOST else front
    entries = [Entry(label, PALETTE[0], (time_text(time), size_text(round(size)))) for time, size, label, _ in numbered]
    inner = _WIDTH - 2 * _MARGIN
    title = f"{count_of(len(points), 'candidate')}, {len(front)} on the front"
    sentence = "Blue candidates are on the front: no other is both faster and smaller."
    if memory is not None:
        sentence += f" The dashed line is the memory limit, {size_text(round(memory))}."
    if len(numbered) < len(front):
        sentence += f" {len(numbered)} of them are listed."
    head = height_of(12) + len(lines_of(sentence, inner, 8.5)) * height_of(8.5) + 0.2
    canvas = new_canvas(_WIDTH, 2 * _MARGIN + head + 0.4 + _PLOT + 0.6 + list_height(entries, inner), "draw_front")
    canvas.text(_MARGIN, _MARGIN, title, 12, INK, weight="bold")
    canvas.paragraph(_MARGIN, _MARGIN + height_of(12), sentence, inner, 8.5)
    y = _MARGIN + head + 0.4
    axes = plot_axes(canvas, _MARGIN + _LEFT, y, inner - _LEFT - 0.1, _PLOT)
    byte, second = _plot(axes, points, front, memory)
    low, high = _MARGIN + _LEFT, _WIDTH - _MARGIN
    places = [_on_paper(canvas, axes, size / byte, time / second) for time, size, *_ in numbered]
    draw_marks(canvas, places, y - 0.2, low, high)
    draw_list(canvas, _MARGIN, y + _PLOT + 0.6, inner, entries)
    return canvas.figure


def _plot(axes: Any, points: Sequence[Point], front: Sequence[Point], memory: float | None) -> tuple[float, float]:
    """Plot the candidates, memory to the right and time upwards, and return the bytes and the seconds of the units."""
    from matplotlib.ticker import FuncFormatter

    sizes = [size for _, size, *_ in points] + ([] if memory is None else [memory])
    times = [time for time, *_ in points]
    unit, second = time_unit(max(times) / 2)
    prefix, byte = next(
        ((text, 2.0**power) for text, power in (("GiB", 30), ("MiB", 20), ("KiB", 10)) if max(sizes) >= 2**power), ("B", 1.0)
    )
    axes.plot([p[1] / byte for p in front], [p[0] / second for p in front], color=PALETTE[0], linewidth=1.2, zorder=2)
    for of_front, colour, dot in ((False, RULE, 4.0), (True, PALETTE[0], 6.0)):
        these = [p for p in points if p[3] == of_front]
        xs, ys = [p[1] / byte for p in these], [p[0] / second for p in these]
        edge = GREY if not of_front else PALETTE[0]
        axes.plot(xs, ys, "o", color=colour, markeredgecolor=edge, markeredgewidth=0.6, markersize=dot, zorder=3)
    if memory is not None:
        axes.axvline(memory / byte, color=GREY, linewidth=1, linestyle=(0, (4, 3)), zorder=1)
    for axis, values, one, name in ((axes.xaxis, sizes, byte, prefix), (axes.yaxis, times, second, unit)):
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        spaced = min(values) > 0 and max(values) / min(values) >= _DECADES
        scale = axes.set_xscale if axis is axes.xaxis else axes.set_yscale
        if spaced:
            scale("log")
            axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
            axis.set_minor_formatter(FuncFormatter(lambda value, _: ""))
        limits = (min(values) / one / 1.4, max(values) / one * 1.4) if spaced else (0, max(values) / one * 1.08 or 1.0)
        (axes.set_xlim if axis is axes.xaxis else axes.set_ylim)(*limits)
        axis.set_label_text(name, fontproperties=style_of(8.5), color=GREY)
    return byte, second


def _on_paper(canvas: Canvas, axes: Any, x: float, y: float) -> tuple[float, float]:
    """Return the position of a point of a plot, in inches of the canvas."""
    right, up = axes.transData.transform((x, y)) / canvas.figure.dpi
    return right, canvas.height - up
