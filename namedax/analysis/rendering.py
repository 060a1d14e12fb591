"""Rendering of a report: as text of 100 columns, with colors if the terminal supports them, and as HTML with source lines."""

from __future__ import annotations

import html as escaping
import linecache
import os
import sys
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from namedax.analysis.records import Totals
from namedax.errors import show_dtype
from namedax.hlo import size_text

__all__ = ["difference", "flops_text", "html", "text"]

_WIDTH = 100
_LINES = 12  # the maximum number of rows of a table in the terminal


def flops_text(count: float) -> str:
    """Return a number of operations as text, such as `1.5 GFLOP`."""
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
    """Render a report in at most 100 columns."""
    parts = [_heading(_title(report)), _totals(report)]
    if report.collectives:
        parts.append(
            _heading("Collectives, most bytes first") + "\n" + _table(_sent_rows(report), _LINES, 5)
        )
    lines = [row for row in _line_rows(report) if row]
    if lines:
        parts.append(_heading("Lines, most FLOPs first") + "\n" + _table(lines, _LINES))
    if report.memory.kept:
        rows = [("saved for the gradient", "")] + [
            (line or "?", size_text(size)) for line, size in report.memory.kept.items()
        ]
        parts.append(_table(rows, _LINES))
    if report.findings:
        parts.append(
            _heading("Findings")
            + "\n"
            + "\n".join(_warning(_wrapped(finding)) for finding in report.findings)
        )
    return "\n\n".join(parts)


def _wrapped(sentence: str) -> str:
    return textwrap.fill(sentence, _WIDTH, initial_indent="- ", subsequent_indent="  ")


def _title(report: Any) -> str:
    mesh = ", ".join(f"{axis}={size}" for axis, size in report.mesh.items()) or "no mesh"
    lives = (
        ", ".join(f"{name}: {'+'.join(axes)}" for name, axes in report.placements.items())
        or "nothing mapped"
    )
    return f"{report.name} on {mesh} ({lives}), for one device"


def _total_rows(report: Any) -> list[tuple[str, str, str]]:
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
    for line, part in report.bubbles.items():
        rows.append(
            (
                "idles",
                f"{100 * part:.1f} %",
                f"of the ticks of the pipeline at {line or 'an unknown line'}",
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


def _totals(report: Any) -> str:
    rows = _total_rows(report)
    widths = [max(len(row[i]) for row in rows) for i in (0, 1)]
    before = [f"{what.ljust(widths[0])}  {figure.ljust(widths[1])}  " for what, figure, _ in rows]
    return "\n".join(
        textwrap.fill(more, _WIDTH, initial_indent=start, subsequent_indent=" " * len(start))
        for start, (_, _, more) in zip(before, rows, strict=True)
    )


def _kinds(report: Any) -> str:
    kinds = ", ".join(
        f"{count} {kind} ({size_text(size)})" for kind, (count, size) in report.summary().items()
    )
    return f"on the wire (at least, on a ring); payload: {kinds}" if kinds else "nothing"


def _sent_rows(report: Any) -> list[tuple[str, ...]]:
    groups: dict[tuple[str, str, str, str, str, str], tuple[int, int, int]] = {}
    for step in report.collectives:
        where = f"{step.operation or 'cast'}{{{','.join(step.names)}}}"
        if step.arrival:
            where = f"arrival of {step.arrival.removeprefix('argument ')}{{{','.join(step.names)}}}"
        key = (step.kind, "+".join(step.mesh_axes), where, step.source, step.phase, step.dtype)
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
        kind, axes, where, source, phase, dtype = key
        what = f"{kind} {show_dtype(np.dtype(dtype))}"
        rows.append(
            (size_text(wire), size_text(payload), str(count), what, axes, where, source, phase)
        )
    return rows


def _line_rows(report: Any) -> list[tuple[str, ...]]:
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


def source_line(report: Any, line: str) -> str:
    """Return the text of a line of the user's file."""
    name, _, number = line.rpartition(":")
    path = report.files.get(name)
    return linecache.getline(path, int(number)).strip() if path and number.isdigit() else ""


def _table(rows: Sequence[tuple[str, ...]], most: int, longest: int = -1) -> str:
    """Format columns; one column may be shortened, and full lines are truncated."""
    shown = [*rows[: most + 1]]
    widths = [max(len(row[i]) for row in shown) for i in range(len(rows[0]))]
    over = sum(widths) + 2 * (len(widths) - 1) - _WIDTH
    if 0 < over < widths[longest] - 8:
        widths[longest] -= over
        shown = [
            tuple(_shortened(cell, width) for cell, width in zip(row, widths, strict=True))
            for row in shown
        ]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in shown
    ]
    lines = [_shortened(line, _WIDTH) for line in lines]
    if len(rows) > len(shown):
        lines.append(f"… and {len(rows) - len(shown)} more")
    return "\n".join(lines)


def _shortened(words: str, width: int) -> str:
    return words if len(words) <= width else words[: width - 1] + "…"


def difference(diff: Any) -> str:
    """Render the changes from one report to another."""
    rows = [("", "before", "after", "ratio")]
    for what, (before, after) in diff.totals.items():
        old, new = (
            flops_text(n) if what == "flops" else size_text(int(n)) for n in (before, after)
        )
        said = f"{what} (on the wire)" if what == "bytes sent" else what
        rows.append((said, old, new, f"{after / before:.2f}" if before else ""))
    for kind, pairs in diff.kinds.items():
        old, new = (f"{count} ({size_text(size)})" for count, size in pairs)
        rows.append(
            (
                f"{kind} (payload)",
                old,
                new,
                f"{pairs[1][1] / pairs[0][1]:.2f}" if pairs[0][1] else "",
            )
        )
    return f"{_title(diff.before)}\n{_title(diff.after)}\n" + _table(rows, len(rows))


# --- HTML -----------------------------------------------------------------------------------------------------------

# Colors are inherited from the page, or transparent: pages may be light or dark.
_STYLE = """<style>
.nx-report{max-width:100%}
.nx-report .w{overflow-x:auto;margin:.2em 0 1em}
.nx-report table{border-collapse:collapse;font:12px/1.45 ui-monospace,Menlo,Consolas,monospace;color:inherit;background:none;margin:0}
.nx-report tr,.nx-report tr:nth-child(even){background:none}
.nx-report td,.nx-report th{padding:1px 9px;text-align:right;white-space:pre;border:0;vertical-align:top}
.nx-report th{font-weight:600;border-bottom:1px solid rgba(128,128,128,.5)}
.nx-report td.t,.nx-report th.t{text-align:left}
.nx-report td.n{opacity:.55}
.nx-report td.s{white-space:normal}
.nx-report td.g{opacity:.55;text-align:left}
.nx-report summary{cursor:pointer;font-weight:600;margin:.3em 0}
.nx-report li{max-width:60em;margin:.2em 0}
</style>"""
_AROUND = 2  # source lines shown before and after a line with a cost
_BLUE, _RED = "70,130,220", "220,90,80"


def html(report: Any) -> str:
    """Render a report for notebooks: totals, collectives, findings, and the source lines with their costs."""
    totals = "".join(
        f"<tr><td class='t'><b>{_e(what)}</b></td><td>{_e(figure)}</td><td class='t"
        f" s'>{_e(more)}</td></tr>"
        for what, figure, more in _total_rows(report)
    )
    parts = [
        _STYLE,
        f'<div class="nx-report"><p><b>{_e(_title(report))}</b></p>',
        _scrolled(totals),
    ]
    if report.collectives:
        rows = _sent_rows(report)
        parts.append(
            _details("Collectives, most bytes first", _html_table(rows, 3), len(rows) <= 25)
        )
    if report.findings:
        items = "".join(f"<li>{_e(finding)}</li>" for finding in report.findings)
        parts.append(_details("Findings", f"<ul>{items}</ul>", True))
    parts += _html_sources(report)
    return "".join([*parts, "</div>"])


def _e(words: str) -> str:
    return escaping.escape(words)


def _scrolled(rows: str) -> str:
    """Wrap a table so that it scrolls separately if the page is narrow."""
    return f"<div class='w'><table>{rows}</table></div>"


def _details(summary: str, body: str, is_open: bool) -> str:
    return f"<details{' open' if is_open else ''}><summary>{_e(summary)}</summary>{body}</details>"


def _html_table(rows: Sequence[tuple[str, ...]], first_text: int) -> str:
    def row(cells: Iterable[str], tag: str) -> str:
        marks = (
            f"<{tag} class='t'>" if i >= first_text else f"<{tag}>" for i in range(len(rows[0]))
        )
        return (
            "<tr>"
            + "".join(f"{mark}{_e(cell)}</{tag}>" for mark, cell in zip(marks, cells, strict=True))
            + "</tr>"
        )

    return _scrolled(row(rows[0], "th") + "".join(row(cells, "td") for cells in rows[1:]))


def _html_sources(report: Any) -> list[str]:
    """Render the lines of each file that have a cost, with the lines around them."""
    costs: dict[str, dict[int, Totals]] = {}
    for line, total in report.by("line").items():
        name, _, number = line.rpartition(":")
        if name in report.files and number.isdigit():
            costs.setdefault(name, {})[int(number)] = total
    head = "".join(
        f"<th>{words}</th>" for words in ("computes", "reads, writes", "wire", "keeps", "")
    )
    parts = []
    every = [total for totals in costs.values() for total in totals.values()]
    most = (
        max((total.flops for total in every), default=0),
        max((total.wire_bytes for total in every), default=0),
    )
    for i, (name, totals) in enumerate(costs.items()):
        near = {n + d for n in totals for d in range(-_AROUND, _AROUND + 1)}
        near |= {
            n for n in range(min(near), max(near)) if n - 1 in near and n + 1 in near
        }  # a gap of a single line is filled
        rows = [f"<tr>{head}<th class='t'></th></tr>"]
        for number in sorted(n for n in near if n > 0):
            if len(rows) > 1 and number - 1 not in near:
                rows.append(
                    "<tr><td></td><td></td><td></td><td></td><td class='n'>⋮</td><td></td></tr>"
                )
            rows.append(_source_row(report, name, number, totals.get(number), most))
        parts.append(_details(name, _scrolled("".join(rows)), not i))
    return parts


def _source_row(
    report: Any, name: str, number: int, total: Totals | None, most: tuple[float, float]
) -> str:
    code = linecache.getline(report.files[name], number).rstrip("\n")
    kept = report.memory.kept.get(f"{name}:{number}", 0)
    cells = [("", ""), ("", ""), ("", "")]
    if total is not None:
        cells = [
            (flops_text(total.flops) if total.flops else "", _bar(total.flops, most[0], _BLUE)),
            (size_text(total.bytes_accessed) if total.bytes_accessed else "", ""),
            (
                size_text(total.wire_bytes) if total.collectives else "",
                _bar(total.wire_bytes, most[1], _RED),
            ),
        ]
    figures = "".join(f"<td{bar}>{words}</td>" for words, bar in cells)
    return (
        f"<tr>{figures}<td>{size_text(kept) if kept else ''}</td><td class='n'>{number}</td><td"
        f" class='t'>{_e(code)}</td></tr>"
    )


def _bar(part: float, most: float, colour: str) -> str:
    """Return a bar behind a figure; the largest figure fills the cell."""
    if not part:
        return ""
    share = f"{100 * part / most:.0f}%"
    return (
        f" style='background:linear-gradient(to left,rgba({colour},.35) {share},transparent"
        f" {share})'"
    )
