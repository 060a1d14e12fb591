"""A report as text of 100 columns, with colours where the terminal has them, and as HTML beside the lines of the source."""

from __future__ import annotations

import html as escaping
import linecache
import os
import sys
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

from namedax.analysis.records import Totals
from namedax.hlo import size_text

__all__ = ["difference", "flops_text", "html", "text"]

_WIDTH = 100
_LINES = 12  # of a table in the terminal


def flops_text(count: float) -> str:
    """A number of operations, such as `1.5 GFLOP`."""
    units = ("FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP", "EFLOP")
    for unit in units[:-1]:
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == units[0] else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} {units[-1]}"


# --- text -----------------------------------------------------------------------------------------------------------


def _has_colours() -> bool:
    return sys.stdout.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"


def _heading(words: str) -> str:
    return f"\033[1m{words}\033[0m" if _has_colours() else words


def _warning(words: str) -> str:
    return f"\033[33m{words}\033[0m" if _has_colours() else words


def text(report: Any) -> str:
    """A report in at most 100 columns."""
    parts = [_heading(_title(report)), _totals(report)]
    if report.collectives:
        parts.append(_heading("Collectives, those that send most first") + "\n" + _table(_sent_rows(report), _LINES))
    lines = [row for row in _line_rows(report) if row]
    if lines:
        parts.append(_heading("Lines, those that compute most first") + "\n" + _table(lines, _LINES))
    if report.memory.kept:
        rows = [("kept for the gradient", "")] + [(line or "?", size_text(size)) for line, size in report.memory.kept.items()]
        parts.append(_table(rows, _LINES))
    if report.findings:
        parts.append(_heading("Findings") + "\n" + "\n".join(_warning(_wrapped(finding)) for finding in report.findings))
    return "\n\n".join(parts)


def _wrapped(sentence: str) -> str:
    return textwrap.fill(sentence, _WIDTH, initial_indent="- ", subsequent_indent="  ")


def _title(report: Any) -> str:
    mesh = ", ".join(f"{axis}={size}" for axis, size in report.mesh.items()) or "no mesh"
    lives = ", ".join(f"{name}: {'+'.join(axes)}" for name, axes in report.placements.items()) or "nothing mapped"
    return f"{report.name} on {mesh} ({lives}), for one device"


def _totals(report: Any) -> str:
    memory = report.memory
    rows = [
        ("computes", flops_text(report.flops), f"reads and writes {size_text(report.bytes_accessed)}"),
        ("sends", size_text(report.wire_bytes), _kinds(report)),
        (
            "holds",
            size_text(memory.peak),
            f"at its peak (estimate); arguments {size_text(memory.arguments)}, results {size_text(memory.results)}",
        ),
    ]
    if report.compiled is not None:
        temporary = size_text(report.compiled.memory["temporary"])
        rows.append(
            ("compiled", f"{len(report.compiled.collectives)}", f"collectives in the text, {temporary} of temporary memory")
        )
    return _table(rows, len(rows))


def _kinds(report: Any) -> str:
    return ", ".join(f"{count} {kind} ({size_text(size)})" for kind, (count, size) in report.summary().items()) or "nothing"


def _sent_rows(report: Any) -> list[tuple[str, ...]]:
    groups: dict[tuple[str, str, str, str, str, str], tuple[int, int]] = {}
    for step in report.collectives:
        where = f"{step.operation or 'cast'}{{{','.join(step.names)}}}"
        key = (step.kind, "+".join(step.mesh_axes), where, step.source, step.phase, step.dtype)
        count, size = groups.get(key, (0, 0))
        groups[key] = (count + step.trips, size + step.trips * step.wire_bytes)
    rows: list[tuple[str, ...]] = [("sent", "times", "collective", "over", "operation", "line", "")]
    for (kind, axes, where, source, phase, dtype), (count, size) in sorted(groups.items(), key=lambda item: -item[1][1]):
        rows.append((size_text(size), str(count), f"{kind} {dtype}", axes, where, source, phase))
    return rows


def _line_rows(report: Any) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = [("computes", "reads, writes", "sends", "line", "")]
    groups = sorted(report.by("line").items(), key=lambda item: -item[1].flops)
    for line, total in groups:
        sent = size_text(total.wire_bytes) if total.collectives else ""
        rows.append((flops_text(total.flops), size_text(total.bytes_accessed), sent, line, source_line(report, line)))
    return rows if len(rows) > 1 else []


def source_line(report: Any, line: str) -> str:
    """The text of a line of the user's file."""
    name, _, number = line.rpartition(":")
    path = report.files.get(name)
    return linecache.getline(path, int(number)).strip() if path and number.isdigit() else ""


def _table(rows: Sequence[tuple[str, ...]], most: int) -> str:
    """Columns, of which the last is cut where the line is full."""
    shown = [*rows[: most + 1]]
    widths = [max(len(row[i]) for row in shown) for i in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in shown]
    lines = [line if len(line) <= _WIDTH else line[: _WIDTH - 1] + "…" for line in lines]
    if len(rows) > len(shown):
        lines.append(f"… and {len(rows) - len(shown)} more")
    return "\n".join(lines)


def difference(diff: Any) -> str:
    """What changes from one report to another."""
    rows = [("", "before", "after", "ratio")]
    for what, (before, after) in diff.totals.items():
        old, new = (flops_text(n) if what == "flops" else size_text(int(n)) for n in (before, after))
        rows.append((what, old, new, f"{after / before:.2f}" if before else ""))
    for kind, pairs in diff.kinds.items():
        old, new = (f"{count} ({size_text(size)})" for count, size in pairs)
        rows.append((kind, old, new, f"{pairs[1][1] / pairs[0][1]:.2f}" if pairs[0][1] else ""))
    return f"{_title(diff.before)}\n{_title(diff.after)}\n" + _table(rows, len(rows))


# --- HTML -----------------------------------------------------------------------------------------------------------

_STYLE = (
    "<style>.nx-report table{border-collapse:collapse;font:12px/1.4 monospace}.nx-report td,.nx-report th{padding:1px 8px;"
    "text-align:right;white-space:pre}.nx-report td.t,.nx-report th.t{text-align:left}.nx-report tr.c{background:rgba(127,127,255,.12)}"
    "</style>"
)


def html(report: Any) -> str:
    """A report for notebooks: totals, collectives, and the lines of the source with their costs beside them."""
    parts = [_STYLE, '<div class="nx-report">', f"<p><b>{_e(_title(report))}</b></p>", f"<pre>{_e(_totals(report))}</pre>"]
    if report.collectives:
        parts.append(_html_table(_sent_rows(report), 2))
    if report.findings:
        parts.append("<ul>" + "".join(f"<li>{_e(finding)}</li>" for finding in report.findings) + "</ul>")
    parts += _html_sources(report)
    return "".join([*parts, "</div>"])


def _e(words: str) -> str:
    return escaping.escape(words)


def _html_table(rows: Sequence[tuple[str, ...]], first_text: int) -> str:
    def row(cells: Iterable[str], tag: str) -> str:
        marks = (f"<{tag} class='t'>" if i >= first_text else f"<{tag}>" for i in range(len(rows[0])))
        return "<tr>" + "".join(f"{mark}{_e(cell)}</{tag}>" for mark, cell in zip(marks, cells, strict=True)) + "</tr>"

    return "<table>" + row(rows[0], "th") + "".join(row(cells, "td") for cells in rows[1:]) + "</table>"


def _html_sources(report: Any) -> list[str]:
    """The lines of each file, from the first that costs something to the last."""
    costs: dict[str, dict[int, Totals]] = {}
    for line, total in report.by("line").items():
        name, _, number = line.rpartition(":")
        if name in report.files and number.isdigit():
            costs.setdefault(name, {})[int(number)] = total
    parts = []
    for name, totals in costs.items():
        rows: list[str] = []
        for number in range(max(min(totals) - 2, 1), max(totals) + 3):
            total = totals.get(number)
            cells = (
                ("", "", "")
                if total is None
                else (
                    flops_text(total.flops),
                    size_text(total.bytes_accessed),
                    size_text(total.wire_bytes) if total.collectives else "",
                )
            )
            code = linecache.getline(report.files[name], number).rstrip("\n")
            mark = " class='c'" if total is not None and total.collectives else ""
            figures = "".join(f"<td>{cell}</td>" for cell in cells)
            rows.append(f"<tr{mark}>{figures}<td>{number}</td><td class='t'>{_e(code)}</td></tr>")
        head = "<tr><th>computes</th><th>reads, writes</th><th>sends</th><th></th><th class='t'></th></tr>"
        parts.append(f"<details><summary>{_e(name)}</summary><table>{head}{''.join(rows)}</table></details>")
    return parts
