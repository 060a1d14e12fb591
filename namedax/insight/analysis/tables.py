"""Text of reports: tables, titles and rows, for the terminal and for HTML."""

from __future__ import annotations

import linecache
import os
import sys
import textwrap
from collections.abc import Sequence

import numpy as np

from namedax.core.file_names import path_below
from namedax.core.text_tables import aligned, columns, shortened
from namedax.errors import show_dtype
from namedax.hlo import size_text
from namedax.insight.analysis.figures import Figures

__all__ = [
    "MOST_ROWS",
    "code_line",
    "flops_text",
    "line_rows",
    "report_text",
    "sent_rows",
    "source_line",
    "table",
    "title",
    "total_rows",
]

MOST_ROWS = 12  # the maximum number of rows of a table in the terminal


def flops_text(count: float) -> str:
    """Return a number of operations as text, such as `1.5 GFLOP`."""
    units = ("FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP", "EFLOP")
    for unit in units[:-1]:
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == units[0] else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} {units[-1]}"


# --- rendering as text ----------------------------------------------------------------------------


def _has_colors() -> bool:
    return sys.stdout.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"


def _heading(words: str) -> str:
    return f"\033[1m{words}\033[0m" if _has_colors() else words


def _warning(sentence: str) -> str:
    text = textwrap.fill(sentence, columns(), initial_indent="- ", subsequent_indent="  ")
    return f"\033[33m{text}\033[0m" if _has_colors() else text


def report_text(report: Figures) -> str:
    """Render a report in the width of the terminal, at most 100 columns."""
    parts = [_heading(title(report)), _totals(report)]
    if report.collectives:
        parts.append(
            _heading("Collectives, most bytes first")
            + "\n"
            + table(sent_rows(report), MOST_ROWS, 5)
        )
    lines = [row for row in line_rows(report) if row]
    if lines:
        parts.append(_heading("Lines, most FLOPs first") + "\n" + table(lines, MOST_ROWS))
    if report.memory.kept:
        rows = [("saved for the gradient", "")] + [
            (line or "?", size_text(size)) for line, size in report.memory.kept.items()
        ]
        parts.append(table(rows, MOST_ROWS))
    if report.findings:
        parts.append(_heading("Findings") + "\n" + "\n".join(map(_warning, report.findings)))
    return "\n\n".join(parts)


def title(report: Figures) -> str:
    """Return a report's function, mesh and layout."""
    if not report.mesh:
        return f"{report.name} on no mesh, for one device"
    mesh = ", ".join(f"{axis}={size}" for axis, size in report.mesh.items())
    mapped = (
        ", ".join(f"{name}: {'+'.join(axes)}" for name, axes in report.placements.items())
        or "nothing mapped"
    )
    return f"{report.name} on {mesh} ({mapped}), for one device"


def total_rows(report: Figures) -> list[tuple[str, str, str]]:
    """Return the rows of the totals: what, a figure, and more figures."""
    memory = report.memory
    rows = [
        (
            "computes",
            flops_text(report.flops),
            f"reads and writes {size_text(report.bytes_accessed)}",
        ),
        ("sends", size_text(report.wire_bytes), _kinds(report)),
        (
            "holds",
            size_text(memory.peak),
            (
                f"at its peak (estimate); arguments {size_text(memory.arguments)}, results"
                f" {size_text(memory.results)}"
            ),
        ),
    ]
    if report.memory.host or report.host_copies:
        to_device, to_host = map(size_text, report.host_bytes.values())
        rows.append(
            (
                "copies",
                to_device,
                f"from the host to the device, and {to_host} back; the host stores"
                f" {size_text(report.memory.host)} of arguments and results",
            )
        )
    for line, run in report.pipelines.items():
        stored = f", {run.stored} microbatches stored" if run.stored else ""
        rows.append(
            (
                "idles",
                f"{100 * run.bubble:.1f} %",
                f"of the ticks of the {run.schedule} pipeline at"
                f" {line or 'an unknown line'}{stored}",
            )
        )
    if report.compiled is not None:
        temporary = size_text(report.compiled.memory["temporary"])
        rows.append(
            (
                "compiled",
                f"{len(report.compiled.collectives)}",
                f"collectives in the text, {temporary} of temporary memory",
            )
        )
    return rows


def _totals(report: Figures) -> str:
    rows = total_rows(report)
    widths = [max(len(row[i]) for row in rows) for i in (0, 1)]
    before = [f"{what.ljust(widths[0])}  {figure.ljust(widths[1])}  " for what, figure, _ in rows]
    return "\n".join(
        textwrap.fill(more, columns(), initial_indent=start, subsequent_indent=" " * len(start))
        for start, (_, _, more) in zip(before, rows, strict=True)
    )


def _kinds(report: Figures) -> str:
    kinds = ", ".join(
        f"{count} {kind} ({size_text(size)})" for kind, (count, size) in report.summary().items()
    )
    return f"on the wire (at least, on a ring); payload: {kinds}" if kinds else "nothing"


def sent_rows(report: Figures) -> list[tuple[str, ...]]:
    """Return the rows of the collectives, most bytes first, with a heading."""
    groups: dict[tuple[str, ...], tuple[int, int, int]] = {}
    key: tuple[str, ...]
    for step in report.collectives:
        # Results with an axis that does not divide are gathered under no operation.
        other = "result" if step.kind == "all-gather" else "cast"
        where = f"{step.operation or other}{{{','.join(step.names)}}}"
        if step.arrival:
            where = f"arrival of {step.arrival.removeprefix('argument ')}{{{','.join(step.names)}}}"
        when = f"{step.phase}, ahead" if step.is_ahead else step.phase
        key = (step.kind, "+".join(step.mesh_axes), where, step.source, when, step.dtype)
        count, wire, payload = groups.get(key, (0, 0, 0))
        groups[key] = (
            count + step.trips,
            wire + step.trips * step.wire_bytes,
            payload + step.trips * step.bytes,
        )
    rows: list[tuple[str, ...]] = [
        ("wire", "payload", "times", "collective", "over", "operation", "line", "")
    ]
    for key, (count, wire, payload) in sorted(groups.items(), key=lambda item: -item[1][1]):
        kind, *middle, dtype = key
        what = f"{kind} {show_dtype(np.dtype(dtype))}"
        rows.append((size_text(wire), size_text(payload), str(count), what, *middle))
    return rows


def line_rows(report: Figures) -> list[tuple[str, ...]]:
    """Return the rows of the lines, most FLOPs first, with a heading; empty without lines."""
    rows: list[tuple[str, ...]] = [("computes", "reads, writes", "wire", "line", "")]
    groups = sorted(report.by("line").items(), key=lambda item: -item[1].flops)
    for line, total in groups:
        sent = size_text(total.wire_bytes) if total.collectives else ""
        rows.append(
            (
                flops_text(total.flops),
                size_text(total.bytes_accessed),
                sent,
                line,
                source_line(report, line),
            )
        )
    return rows if len(rows) > 1 else []


def source_line(report: Figures, line: str) -> str:
    """Return the text of a line of the user's file."""
    name, _, number = line.rpartition(":")
    return code_line(report, name, int(number)).strip() if number.isdigit() else ""


def code_line(report: Figures, file: str, number: int) -> str:
    """Return a line of a file of the program; empty if there is none.

    A report that was read, not traced, can contain any path. For it, only files below the current
    folder are opened.
    """
    path = report.files.get(file)
    if path is not None and not report.is_traced:
        here = os.getcwd()
        path = path_below(here, path.removeprefix(os.path.join(here, "")))
    return linecache.getline(path, number).rstrip("\n") if path else ""


def table(rows: Sequence[tuple[str, ...]], most: int, longest: int = -1) -> str:
    """Format columns; one column may be shortened, and full lines are truncated."""
    shown = [*rows[: most + 1]]
    widths = [max(len(row[i]) for row in shown) for i in range(len(rows[0]))]
    over = sum(widths) + 2 * (len(widths) - 1) - columns()
    if 0 < over < widths[longest] - 8:
        widths[longest] -= over
        shown = [
            tuple(shortened(cell, width) for cell, width in zip(row, widths, strict=True))
            for row in shown
        ]
    lines = [shortened(line, columns()) for line in aligned(shown)]
    if len(rows) > len(shown):
        lines.append(f"… and {len(rows) - len(shown)} more")
    return "\n".join(lines)
