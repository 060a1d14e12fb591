"""`draw_pipeline`: the cells of a pipeline's schedule, one row for each stage."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from namedax.insight.analysis.records import PipelineRun
from namedax.insight.drawing.canvas import (
    FAINT,
    GRAY,
    INK,
    PALETTE,
    PAPER,
    RULE,
    Canvas,
    draw_legend,
    height_of,
    ink_on,
    lines_of,
    new_canvas,
    text_width,
)
from namedax.ops.loops.pipeline_timetable import Schedule

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["draw_pipeline"]

Rows: TypeAlias = list[list[tuple[str, str] | None]]
# Columns of one loop: the number of the first one, and the cells of each stage.
Band: TypeAlias = tuple[int, Rows]

_WIDTH, _MARGIN, _LEFT = 11.0, 0.25, 0.85  # in inches
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
    inner = _WIDTH - 2 * _MARGIN
    longest = max(len(rows[0]) for _, rows in loops)
    text = max((cell[1] for row in loops[0][1] for cell in row if cell), key=len)
    least = max(_NARROWEST, text_width(text, 5.0) + 0.02)
    width = min(max((inner - _LEFT) / longest, least), _WIDEST)
    in_line = max(int((inner - _LEFT) / width + 1e-6), 1)
    most = max(_MOST_ROWS // (run.stages * len(loops)), 2)
    bands = [(words, *_bands(rows, in_line, most)) for words, rows in loops]
    row = _ROW if run.stages <= _MANY else _LOW_ROW
    sentence = _sentence(run, any(left for *_, left in bands))
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
    used = max(_LEFT + width * min(longest, in_line), text_width(title, 12, "bold"), 6.0)
    canvas = new_canvas(min(used + 2 * _MARGIN, _WIDTH), height, "draw_pipeline")
    canvas.text(_MARGIN, _MARGIN, title, 12, INK, weight="bold")
    y = canvas.paragraph(_MARGIN, _MARGIN + height_of(12), sentence, 6.0, 8.5) + 0.15
    cells = sum(len(rows) * len(rows[0]) for _, rows in loops)
    for words, of_loop, _ in bands:
        canvas.text(_MARGIN, y, words, 9, INK, weight="bold")
        y += height_of(9) + 0.04
        for band in of_loop:
            _draw_band(canvas, y, band, width, row, with_text=cells <= _MOST_TEXTS)
            y += each
    draw_legend(canvas, _MARGIN + _LEFT, y, inner - _LEFT, legend)
    right = _MARGIN + _LEFT + sum(text_width(text, 8) + 0.36 for text, _ in legend)
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
    left, size = _MARGIN + _LEFT, 6.0 if width >= 0.2 else 5.0
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


def _sentence(run: PipelineRun, is_cut: bool) -> str:
    words = (
        f"Each stage is idle in {run.idle} of {run.columns} ticks. Rows are stages, columns are"
        f" ticks, and numbers are microbatches"
    )
    words += ", with the group of layers after the dot." if run.rounds > 1 else "."
    if is_cut:
        words += " Only the first ticks and the last ones are drawn."
    return words
