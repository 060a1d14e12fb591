"""`draw_pipeline`: the cells of a pipeline's schedule, one row for each stage."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from namedax.analysis.records import PipelineRun
from namedax.drawing.canvas import (
    INK,
    PALETTE,
    PAPER,
    RULE,
    draw_legend,
    height_of,
    ink_on,
    new_canvas,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["draw_pipeline"]

Rows: TypeAlias = list[list[tuple[str, str] | None]]

_WIDTH, _MARGIN, _LEFT, _ROW = 11.0, 0.25, 0.85, 0.26  # in inches
_WIDEST, _READABLE = 0.34, 0.16
_KINDS = {"F": "forward pass", "B": "backward pass", "W": "gradient of the weights"}


def draw_pipeline(run: PipelineRun, title: str = "") -> Figure:
    """Draw the schedule of a pipeline: rows are stages, columns are ticks.

    A cell has its kind, `F`, `B` or `W`, by color, and its number: a microbatch, and, with several
    groups of layers on a stage, the group after a dot. An empty cell is idle.

    Args:
      run: a pipeline of `report.pipelines`.
      title: the title; default: the schedule, its sizes and its bubble.

    Returns:
      A figure, like that of `nx.draw`.

    Raises:
      ImportError: matplotlib is not installed.
    """
    rows = run.cells()
    columns = max(len(rows[0]), 1)
    width = min((_WIDTH - 2 * _MARGIN - _LEFT) / columns, _WIDEST)
    colors = dict(zip(_KINDS, PALETTE, strict=False))
    height = 2 * _MARGIN + height_of(12) + 0.1 + _ROW * len(rows) + 0.15 + height_of(8.5)
    canvas = new_canvas(_WIDTH, height, "draw_pipeline")
    canvas.text(_MARGIN, _MARGIN, title or _title(run, rows), 12, INK, weight="bold")
    top = _MARGIN + height_of(12) + 0.1
    for stage, row in enumerate(rows):
        y = top + stage * _ROW
        canvas.text(_MARGIN, y + _ROW / 2, f"stage {stage}", 8.5, INK, va="center")
        for column, cell in enumerate(row):
            x = _MARGIN + _LEFT + column * width
            color = colors[cell[0]] if cell else RULE
            canvas.rectangle(x, y, width, _ROW - 0.04, color, edgecolor=PAPER)
            if cell and width >= _READABLE:
                canvas.text(
                    x + width / 2,
                    y + _ROW / 2 - 0.02,
                    cell[1],
                    6,
                    ink_on(color),
                    ha="center",
                    va="center",
                )
    shown = {cell[0] for row in rows for cell in row if cell}
    legend = [(words, colors[kind]) for kind, words in _KINDS.items() if kind in shown]
    legend.append(("idle", RULE))
    y = top + len(rows) * _ROW + 0.1
    draw_legend(canvas, _MARGIN + _LEFT, y, _WIDTH - 2 * _MARGIN - _LEFT, legend)
    return canvas.figure


def _title(run: PipelineRun, rows: Rows) -> str:
    idle = rows[0].count(None) / len(rows[0])  # of the cells that are drawn
    groups = f", {run.rounds} groups of layers on each" if run.rounds > 1 else ""
    return (
        f"{run.schedule}: {run.stages} stages{groups}, {run.microbatches} microbatches, idle"
        f" {100 * idle:.1f} %"
    )
