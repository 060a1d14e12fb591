"""Timelines: of a program by the schedule of a machine, and of a pipeline's loops, stage by stage.

`draw_timeline` has bars for computation and communication. `draw_pipeline` has a row of cells for
each stage.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from namedax.core.records import Record
from namedax.errors import ArgumentError
from namedax.insight.analysis.records import Collective, PipelineRun, Step
from namedax.insight.drawing.canvas import (
    FAINT,
    GRAY,
    INK,
    OTHERS,
    PALETTE,
    PAPER,
    RULE,
    Canvas,
    Color,
    Entry,
    colors_of_kinds,
    count_of,
    draw_legend,
    draw_list,
    draw_marks,
    height_of,
    ink_on,
    legend_height,
    lines_of,
    list_height,
    new_canvas,
    plot_axes,
    step_text,
    style_of,
    text_width,
    time_text,
    time_unit,
    write,
)
from namedax.ops.loops.pipeline_timetable import Schedule

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["draw_pipeline", "draw_timeline"]

_WIDTH, _MARGIN, _LEFT, _RIGHT = 11.0, 0.25, 1.25, 0.3  # in inches
_PLOT = _WIDTH - 2 * _MARGIN - _LEFT - _RIGHT
_FINEST = 0.012  # in inches: shorter steps are merged with their neighbors
_LONGEST = 8

Scheduled = tuple[Step, float, float]


class Bar(Record):
    """A bar of the timeline: a step, or several that are too short (`step` is `None`)."""

    start: float
    end: float
    kind: str
    step: Step | None


def draw_timeline(schedule: Iterable[Scheduled], title: str = "") -> Figure:
    """Draw a timeline of a device's computation and communication.

    The longest steps are numbered and listed. Steps too short to be visible are merged with their
    neighbors, so that thousands of them stay readable.

    Args:
      schedule: (step, start, end) of each step, in seconds: the `schedule` of
        `nx.machines.Machine.time`.
      title: the title; default: the total time.

    Returns:
      A figure, like that of `nx.draw`.

    Raises:
      ArgumentError: a step ends before it starts.
      ImportError: matplotlib is not installed.

    >>> import namedax as nx
    >>> from namedax.insight.drawing.timeline import draw_timeline
    >>> from namedax.insight.analysis.records import Operation
    >>> product = Operation(
    ...     "dot_general", ("k",), 1e9, 1000, 1, "float32", "nx.dot", "model.py:3", "forward"
    ... )
    >>> figure = draw_timeline([(product, 0.0, 2e-3)])
    """
    steps = [(step, float(start), float(end)) for step, start, end in schedule]
    for step, start, end in steps:
        if not start <= end:
            raise ArgumentError(
                f"draw_timeline: {step_text(step)} starts at {start!r} s but ends at {end!r} s."
                " Pass (step, start, end) with start <= end."
            )
    total = max((end for *_, end in steps), default=0.0)
    times = _times_of_kinds(steps)
    colors = colors_of_kinds(times)
    lanes = {
        "computing": [one for one in steps if not isinstance(one[0], Collective)],
        "communicating": [one for one in steps if isinstance(one[0], Collective)],
    }
    bars = {lane: _merged(ones, total * _FINEST / _PLOT) for lane, ones in lanes.items()}
    sentence = _sentence(lanes, bars, total)
    legend = _legend(times, colors)
    longest = sorted((one for one in steps if one[2] > one[1]), key=lambda one: one[1] - one[2])[
        :_LONGEST
    ]
    longest.sort(key=lambda one: one[1])
    entries = [
        Entry(_words(step), colors[step.kind], _figures(end - start, total))
        for step, start, end in longest
    ]
    inner = _WIDTH - 2 * _MARGIN
    head = (
        height_of(12)
        + len(lines_of(sentence, inner, 8.5)) * height_of(8.5)
        + legend_height(legend, inner)
        + 0.25
    )
    plot = 1.75
    below = list_height(entries, inner) + (height_of(9) + 0.1 if entries else 0.0)
    canvas = new_canvas(_WIDTH, 2 * _MARGIN + head + plot + 0.5 + below, "draw_timeline")
    canvas.text(
        _MARGIN, _MARGIN, title or f"{time_text(total)} on one device", 12, INK, weight="bold"
    )
    y = canvas.paragraph(_MARGIN, _MARGIN + height_of(12), sentence, inner, 8.5)
    draw_legend(canvas, _MARGIN, y + 0.1, inner, legend)
    y = _MARGIN + head
    marks = [
        (_MARGIN + _LEFT + _PLOT * (start + end) / 2 / total, isinstance(step, Collective))
        for step, start, end in longest
    ]
    draw_marks(
        canvas,
        [(x, y + 0.358 + 0.725 * sends) for x, sends in marks],
        y + 0.1,
        _MARGIN + _LEFT,
        _WIDTH - _MARGIN - _RIGHT,
    )
    _plot(plot_axes(canvas, _MARGIN + _LEFT, y + 0.3, _PLOT, plot - 0.3), bars, colors, total)
    if entries:
        y += plot + 0.5
        canvas.text(
            _MARGIN,
            y,
            "The longest steps" if len(entries) < len(steps) else "The steps",
            9,
            INK,
            weight="bold",
        )
        draw_list(canvas, _MARGIN, y + height_of(9) + 0.04, inner, entries)
    return canvas.figure


def _times_of_kinds(steps: Sequence[Scheduled]) -> dict[str, float]:
    """Return the time of each kind, the longest first."""
    times: dict[str, float] = {}
    for step, start, end in steps:
        times[step.kind] = times.get(step.kind, 0.0) + end - start
    return dict(sorted(times.items(), key=lambda item: -item[1]))


def _legend(times: dict[str, float], colors: dict[str, Color]) -> list[tuple[str, Color]]:
    entries = [
        (f"{kind} {time_text(time)}", colors[kind])
        for kind, time in times.items()
        if colors[kind] != OTHERS
    ]
    rest = [time for kind, time in times.items() if colors[kind] == OTHERS]
    return entries + (
        [(f"{count_of(len(rest), 'other kind')} {time_text(sum(rest))}", OTHERS)] if rest else []
    )


def _words(step: Step) -> str:
    return step_text(step) + (f", ×{step.trips:,}" if step.trips > 1 else "")


def _figures(seconds: float, total: float) -> tuple[str, str]:
    return time_text(seconds), f"{seconds / total:.1%}"


def _union(spans: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return spans of time without overlaps, in order."""
    found: list[tuple[float, float]] = []
    for start, end in sorted(spans):
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], max(end, found[-1][1])
        else:
            found.append((start, end))
    return found


def _length(spans: Sequence[tuple[float, float]]) -> float:
    return sum(end - start for start, end in spans)


def _sentence(lanes: dict[str, list[Scheduled]], bars: dict[str, list[Bar]], total: float) -> str:
    """Summarize the picture in numbers."""
    if not total:
        return "No step takes any time."
    computing, communicating = (
        _union((start, end) for _, start, end in ones) for ones in lanes.values()
    )
    both = (
        _length(computing) + _length(communicating) - _length(_union([*computing, *communicating]))
    )
    words = f"Computing {time_text(_length(computing))} ({_length(computing) / total:.0%})"
    words += (
        f", communicating {time_text(_length(communicating))}"
        f" ({_length(communicating) / total:.0%})"
    )
    if both > total * 1e-6:
        words += f", {time_text(both)} of them at the same time"
    words += "."
    if any(bar.step is None for ones in bars.values() for bar in ones):
        words += (
            f" Steps shorter than {time_text(total * _FINEST / _PLOT)} are drawn together, in the"
            " color of the kind with most of that time."
        )
    return words


def _merged(steps: Sequence[Scheduled], shortest: float) -> list[Bar]:
    """Return visible bars: shorter steps are merged with their neighbors."""
    bars: list[Bar] = []
    pending: list[Scheduled] = []

    def flush() -> None:
        if len(pending) == 1:
            step, start, end = pending[0]
            bars.append(Bar(start, max(end, start + shortest / 2), step.kind, step))
        elif pending:
            kind = next(iter(_times_of_kinds(pending)))
            bars.append(
                Bar(pending[0][1], max(pending[-1][2], pending[0][1] + shortest / 2), kind, None)
            )
        pending.clear()

    for step, start, end in sorted(steps, key=lambda one: one[1]):
        if end <= start:
            continue
        if pending and (
            start - pending[-1][2] > shortest or pending[-1][2] - pending[0][1] >= shortest
        ):
            flush()
        if end - start >= shortest:
            flush()
            bars.append(Bar(start, end, step.kind, step))
        else:
            pending.append((step, start, end))
    flush()
    return bars


def _plot(axes: Axes, bars: dict[str, list[Bar]], colors: dict[str, Color], total: float) -> None:
    """Plot the two lanes, computing above, with the names of operations where they fit."""
    unit, size = time_unit(total / 2)
    axes.set(xlim=(0, max(total, 1e-12) / size), ylim=(2, 0))
    for lane, ones in enumerate(bars.values()):
        for kind in dict.fromkeys(bar.kind for bar in ones):
            spans = [
                (bar.start / size, (bar.end - bar.start) / size) for bar in ones if bar.kind == kind
            ]
            axes.broken_barh(
                spans, (lane + 0.08, 0.76), facecolor=colors[kind], edgecolor="none", gid=kind
            )
        for bar in ones:
            if bar.step is not None and (
                text := _fitting(bar.step, (bar.end - bar.start) / total * _PLOT)
            ):
                style = {
                    "fontproperties": style_of(7),
                    "color": ink_on(colors[bar.kind]),
                    "ha": "center",
                    "va": "center",
                }
                write(axes, (bar.start + bar.end) / 2 / size, lane + 0.46, text, **style)
        if not ones:
            write(
                axes,
                sum(axes.get_xlim()) / 2,
                lane + 0.46,
                "nothing",
                fontproperties=style_of(8),
                color=GRAY,
                ha="center",
                va="center",
            )
    axes.set_yticks([0.46, 1.46], [*bars], fontproperties=style_of(8.5), color=INK)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.set_xlabel(unit, fontproperties=style_of(8.5), color=GRAY)


def _fitting(step: Step, width: float) -> str:
    """Return the longest text that fits into a bar."""
    texts = [step.operation, step.kind] if step.operation else [step.kind]
    if step.operation and step.names and "{" not in step.operation:
        texts.insert(0, f"{step.operation} {{{', '.join(step.names)}}}")
    return next((text for text in texts if text and text_width(text, 7) + 0.06 <= width), "")


# --- pipelines ------------------------------------------------------------------------------------


Rows: TypeAlias = list[list[tuple[str, str] | None]]
# Columns of one loop: the number of the first one, and the cells of each stage.
Band: TypeAlias = tuple[int, Rows]

_PIPELINE_WIDTH = 11.0  # in inches
_STAGES = 0.85  # in inches: the numbers of stages
_ROW, _LOW_ROW, _MANY = 0.2, 0.11, 16  # the heights of rows, and the stages from which they are low
_WIDEST, _NARROWEST = 0.34, 0.125  # of a column; longer loops continue below
_MOST_ROWS, _MOST_TEXTS = 96, 4000
_GAP = 0.12
_KINDS = {"F": "forward pass", "B": "backward pass", "W": "gradient of the weights"}


def draw_pipeline(run: PipelineRun, title: str = "") -> Figure:
    """Draw the schedule of a pipeline: rows are stages, columns are ticks.

    A cell has its kind, `F`, `B` or `W`, by color, and its number: a microbatch, and, with several
    groups of layers on a stage, the group after a dot. An idle cell is hatched: these cells are the
    bubble. The loop of the forward pass and that of the gradient are drawn below each other. Long
    loops continue in the next line, and very long ones are drawn in part.

    Args:
      run: a pipeline of `report.pipelines`.
      title: the title; default: the schedule, its sizes and its bubble.

    Returns:
      A figure, like that of `nx.draw`.

    Raises:
      ImportError: matplotlib is not installed.
    """
    loops = _loops(run)
    inner = _PIPELINE_WIDTH - 2 * _MARGIN
    longest = max(len(rows[0]) for _, rows in loops)
    text = max((cell[1] for row in loops[0][1] for cell in row if cell), key=len)
    least = max(_NARROWEST, text_width(text, 5.0) + 0.02)
    width = min(max((inner - _STAGES) / longest, least), _WIDEST)
    in_line = max(int((inner - _STAGES) / width + 1e-6), 1)
    most = max(_MOST_ROWS // (run.stages * len(loops)), 2)
    bands = [(words, *_bands(rows, in_line, most)) for words, rows in loops]
    row = _ROW if run.stages <= _MANY else _LOW_ROW
    sentence = _pipeline_sentence(run, any(left for *_, left in bands))
    above = lines_of(sentence, 6.0, 8.5)
    each = row * run.stages + height_of(6.5) + _GAP
    shown = {cell[0] for _, rows in loops for of_stage in rows for cell in of_stage if cell}
    legend = [
        (words, PALETTE[i]) for i, (kind, words) in enumerate(_KINDS.items()) if kind in shown
    ]
    height = 2 * _MARGIN + height_of(12) + len(above) * height_of(8.5) + 0.15
    height += sum(len(each_band) * each + height_of(9) + 0.04 for _, each_band, _ in bands)
    height += height_of(8.5) + 0.1
    title = title or _title(run)
    used = max(_STAGES + width * min(longest, in_line), text_width(title, 12, "bold"), 6.0)
    canvas = new_canvas(min(used + 2 * _MARGIN, _PIPELINE_WIDTH), height, "draw_pipeline")
    canvas.text(_MARGIN, _MARGIN, title, 12, INK, weight="bold")
    y = canvas.paragraph(_MARGIN, _MARGIN + height_of(12), sentence, 6.0, 8.5) + 0.15
    cells = sum(len(rows) * len(rows[0]) for _, rows in loops)
    for words, of_loop, _ in bands:
        canvas.text(_MARGIN, y, words, 9, INK, weight="bold")
        y += height_of(9) + 0.04
        for band in of_loop:
            _draw_band(canvas, y, band, width, row, with_text=cells <= _MOST_TEXTS)
            y += each
    draw_legend(canvas, _MARGIN + _STAGES, y, inner - _STAGES, legend)
    right = _MARGIN + _STAGES + sum(text_width(text, 8) + 0.36 for text, _ in legend)
    _hatched(canvas, right, y + 0.008, 0.22, 0.11)
    canvas.text(right + 0.28, y, "idle (bubble)", 8)
    return canvas.figure


def _loops(run: PipelineRun) -> list[tuple[str, Rows]]:
    """Return the loops of the program with their cells; their columns are those of the report."""
    schedule = Schedule(run.stages, run.rounds, run.microbatches, run.schedule)

    def text(number: int) -> str:
        microbatch, turn = schedule.work(number)
        return f"{microbatch}.{turn}" if run.rounds > 1 else f"{microbatch}"

    ticks, works = range(schedule.ticks), range(schedule.works)
    forward: Rows = [
        [("F", text(tick - stage)) if tick - stage in works else None for tick in ticks]
        for stage in range(run.stages)
    ]
    gradient = run.cells()
    words = "Gradient"
    if run.schedule == "gpipe":  # the transpose of the loop of the forward pass
        gradient = [row[schedule.ticks :] for row in gradient]
    else:
        words = "Gradient, with the forward passes computed again"
    found = {"forward": ("Forward pass", forward), "gradient": (words, gradient)}
    return [found[phase] for phase in run.passes]


def _bands(rows: Rows, in_line: int, most: int) -> tuple[list[Band], bool]:
    """Break a loop into lines: the first ones and the last, and whether some are left out."""
    starts = range(0, len(rows[0]), in_line)
    bands = [(start, [row[start : start + in_line] for row in rows]) for start in starts]
    if len(bands) <= most:
        return bands, False
    return [*bands[: most - 1], bands[-1]], True


def _draw_band(
    canvas: Canvas, y: float, band: Band, width: float, row: float, with_text: bool
) -> None:
    """Draw some columns of all stages, with the numbers of the ticks below."""
    first, rows = band
    left, size = _MARGIN + _STAGES, 6.0 if width >= 0.2 else 5.0
    colors = dict(zip(_KINDS, PALETTE, strict=False))
    for stage, of_stage in enumerate(rows):
        top = y + stage * row
        if row == _ROW or stage % 4 == 0:
            canvas.text(_MARGIN, top + row / 2, f"stage {stage}", 8, INK, va="center")
        column = 0
        for is_idle, group in itertools.groupby(of_stage, key=lambda cell: cell is None):
            ones = list(group)
            if is_idle:
                _hatched(canvas, left + column * width, top, width * len(ones), row - 0.03)
            for i, cell in enumerate(ones):
                if cell is None:
                    continue
                kind, text = cell
                x = left + (column + i) * width
                canvas.rectangle(x, top, width, row - 0.03, colors[kind], edgecolor=PAPER, gid=kind)
                if with_text and row == _ROW and text_width(text, size) <= width:
                    style: dict[str, Any] = {"ha": "center", "va": "center"}
                    middle = (x + width / 2, top + row / 2 - 0.015)
                    canvas.text(*middle, text, size, ink_on(colors[kind]), **style)
            column += len(ones)
    bottom = y + len(rows) * row
    for tick in _ticks(first, len(rows[0]), width):
        x = left + (tick - first + 0.5) * width
        canvas.text(x, bottom, str(tick), 6.5, GRAY, ha="center")


def _hatched(canvas: Canvas, x: float, y: float, width: float, height: float) -> None:
    """Draw an idle cell, or several."""
    style = {"edgecolor": FAINT, "linewidth": 0, "hatch": "//////", "gid": "idle"}
    canvas.rectangle(x, y, width, height, RULE, **style)


def _ticks(first: int, count: int, width: float) -> Sequence[int]:
    """Return the ticks with a number: all, or every fifth or tenth, as there is room."""
    every = 1 if width >= 0.25 else 5 if width >= 0.08 else 20
    return [tick for tick in range(first, first + count) if tick % every == 0]


def _title(run: PipelineRun) -> str:
    groups = f", {run.rounds} groups of layers on each" if run.rounds > 1 else ""
    return (
        f"{run.schedule}: {run.stages} stages{groups}, {run.microbatches} microbatches, bubble"
        f" {100 * run.bubble:.1f} %"
    )


def _pipeline_sentence(run: PipelineRun, is_cut: bool) -> str:
    words = (
        f"Each stage is idle in {run.idle} of {run.columns} ticks. Rows are stages, columns are"
        f" ticks, and numbers are microbatches"
    )
    words += ", with the group of layers after the dot." if run.rounds > 1 else "."
    if is_cut:
        words += " Only the first ticks and the last ones are drawn."
    return words
