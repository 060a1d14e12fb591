"""HTML of plans and candidates: tables for notebooks, and a page that is one file."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from namedax.core.text_tables import seconds_text
from namedax.hlo import size_text
from namedax.insight.analysis.page import (
    BLUE,
    RED,
    bar,
    details,
    enclosed,
    escaped,
    picture_html,
    scrolled,
    write_page,
)
from namedax.insight.analysis.report import Report
from namedax.insight.planning.candidates import Candidate, layout
from namedax.machines import Machine

__all__ = ["front_rows", "plan_html", "save_plan"]

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def front_rows(shown: Sequence[Candidate], best: Candidate, with_mesh: bool) -> str:
    """Return candidates as rows of a table, with a bar behind each figure; the best is bold."""
    verified = any(one.measured is not None for one in shown)
    longest = max(one.time for one in shown)
    largest = float(max(one.peak for one in shown))
    heads = ["time", *(["measured"] if verified else []), "holds"]
    rows = ["".join(f"<th>{head}</th>" for head in heads) + "<th class='t'>axis_resources</th>"]
    for one in shown:
        cells = [f"<td{bar(one.time, longest, BLUE)}>{seconds_text(one.time)}</td>"]
        if verified:
            seconds = "" if one.measured is None else seconds_text(one.measured)
            cells.append(f"<td>{seconds}</td>")
        cells.append(f"<td{bar(float(one.peak), largest, RED)}>{size_text(one.peak)}</td>")
        words = escaped(layout(one, with_mesh))
        words = f"<b>{words}</b>" if one is best else words
        why = f"<br><span style='opacity:.7'>{escaped(one.reason)}</span>"
        rows.append("".join([*cells, f"<td class='t s'>{words}{why}</td>"]))
    return "".join(f"<tr>{row}</tr>" for row in rows)


def plan_html(words: str, rows: str, left: int, advice: Sequence[str]) -> str:
    """Render a plan for notebooks: its title, the front, and advice."""
    parts = [f"<p><b>{escaped(words)}</b></p>", scrolled(rows)]
    if left > 0:
        parts.append(f"<p>… and {left} more that use less memory and take longer</p>")
    if advice:
        items = "".join(f"<li>{escaped(sentence)}</li>" for sentence in advice)
        parts.append(details("Advice", f"<ul>{items}</ul>", True))
    return enclosed(parts)


def save_plan(
    path: str | os.PathLike[str],
    name: str,
    table: str,
    front: Figure,
    best: Report,
    machine: Machine,
) -> None:
    """Write a plan as one HTML file, with the report of the best layout."""
    sections = [
        table,
        picture_html("All candidates", front),
        "<h2>The best layout</h2>",
        *best.sections(machine),
    ]
    write_page(path, f"{name}: layouts on {machine.name}", sections)
