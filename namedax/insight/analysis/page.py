"""HTML of reports: tables for notebooks, and a page that is one file."""

from __future__ import annotations

import html
import os
from collections.abc import Container, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from namedax.hlo import size_text
from namedax.insight.analysis.figures import Figures
from namedax.insight.analysis.records import Totals
from namedax.insight.analysis.tables import code_line, flops_text, sent_rows, title, total_rows
from namedax.insight.drawing.canvas import svg

__all__ = [
    "BLUE",
    "RED",
    "bar",
    "details",
    "enclosed",
    "escaped",
    "html_table",
    "picture_html",
    "report_html",
    "scrolled",
    "write_page",
]

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Colors are inherited from the page, or transparent: pages may be light or dark.
_STYLE = """<style>
.nx-report{max-width:100%}
.nx-report .w{overflow-x:auto;margin:.2em 0 1em}
.nx-report table{border-collapse:collapse;font:12px/1.45 ui-monospace,Menlo,Consolas,monospace;
 color:inherit;background:none;margin:0}
.nx-report tr,.nx-report tr:nth-child(even){background:none}
.nx-report td,.nx-report th{padding:1px 9px;text-align:right;white-space:pre;border:0;
 vertical-align:top}
.nx-report th{font-weight:600;border-bottom:1px solid rgba(128,128,128,.5)}
.nx-report td.t,.nx-report th.t{text-align:left}
.nx-report td.n{opacity:.55}
.nx-report td.s{white-space:normal}
.nx-report td.g{opacity:.55;text-align:left}
.nx-report summary{cursor:pointer;font-weight:600;margin:.3em 0}
.nx-report li{max-width:60em;margin:.2em 0}
</style>"""
_AROUND = 2  # source lines shown before and after a line with a cost
BLUE, RED = "70,130,220", "220,90,80"


def report_html(report: Figures) -> str:
    """Render a report for notebooks: totals, collectives, findings, and source lines with costs."""
    totals = "".join(
        f"<tr><td class='t'><b>{escaped(what)}</b></td><td>{escaped(figure)}</td><td class='t"
        f" s'>{escaped(more)}</td></tr>"
        for what, figure, more in total_rows(report)
    )
    parts = [f"<p><b>{escaped(title(report))}</b></p>", scrolled(totals)]
    if report.collectives:
        rows = sent_rows(report)
        parts.append(
            details(
                "Collectives, most bytes first",
                html_table(rows, range(3, len(rows[0]))),
                len(rows) <= 25,
            )
        )
    if report.findings:
        items = "".join(f"<li>{escaped(finding)}</li>" for finding in report.findings)
        parts.append(details("Findings", f"<ul>{items}</ul>", True))
    parts += _html_sources(report)
    return enclosed(parts)


def enclosed(parts: Iterable[str]) -> str:
    """Return parts with their style, in one element."""
    return "".join([_STYLE, "<div class='nx-report'>", *parts, "</div>"])


def escaped(words: str) -> str:
    """Return text for HTML."""
    return html.escape(words)


def scrolled(rows: str) -> str:
    """Wrap a table so that it scrolls separately if the page is narrow."""
    return f"<div class='w'><table>{rows}</table></div>"


def details(summary: str, body: str, is_open: bool) -> str:
    """Return a part that the reader opens and closes."""
    words = f"<summary>{escaped(summary)}</summary>"
    return f"<details{' open' if is_open else ''}>{words}{body}</details>"


def html_table(rows: Sequence[tuple[str, ...]], left: Container[int]) -> str:
    """Return rows as a table, the first one as its heading; `left` has the columns of text."""

    def row(cells: Iterable[str], tag: str) -> str:
        marks = (f"<{tag} class='t'>" if i in left else f"<{tag}>" for i in range(len(rows[0])))
        return (
            "<tr>"
            + "".join(
                f"{mark}{escaped(cell)}</{tag}>" for mark, cell in zip(marks, cells, strict=True)
            )
            + "</tr>"
        )

    return scrolled(row(rows[0], "th") + "".join(row(cells, "td") for cells in rows[1:]))


def _html_sources(report: Figures) -> list[str]:
    """Render the lines of each file that have a cost, with the lines around them."""
    costs: dict[str, dict[int, Totals]] = {}
    for line, total in report.by("line").items():
        file, _, digits = line.rpartition(":")
        if file in report.files and digits.isdigit():
            costs.setdefault(file, {})[int(digits)] = total
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
        # A gap of a single line is filled.
        near |= {n for n in range(min(near), max(near)) if n - 1 in near and n + 1 in near}
        rows = [f"<tr>{head}<th class='t'></th></tr>"]
        for number in sorted(n for n in near if n > 0):
            if len(rows) > 1 and number - 1 not in near:
                rows.append(
                    "<tr><td></td><td></td><td></td><td></td><td class='n'>⋮</td><td></td></tr>"
                )
            rows.append(_source_row(report, name, number, totals.get(number), most))
        parts.append(details(name, scrolled("".join(rows)), not i))
    return parts


def _source_row(
    report: Figures, name: str, number: int, total: Totals | None, most: tuple[float, float]
) -> str:
    code = code_line(report, name, number)
    kept = report.memory.kept.get(f"{name}:{number}", 0)
    cells = [("", ""), ("", ""), ("", "")]
    if total is not None:
        cells = [
            (flops_text(total.flops) if total.flops else "", bar(total.flops, most[0], BLUE)),
            (size_text(total.bytes_accessed) if total.bytes_accessed else "", ""),
            (
                size_text(total.wire_bytes) if total.collectives else "",
                bar(total.wire_bytes, most[1], RED),
            ),
        ]
    figures = "".join(f"<td{behind}>{words}</td>" for words, behind in cells)
    return (
        f"<tr>{figures}<td>{size_text(kept) if kept else ''}</td><td class='n'>{number}</td><td"
        f" class='t'>{escaped(code)}</td></tr>"
    )


def bar(part: float, most: float, color: str) -> str:
    """Return a bar behind a figure; the largest figure fills the cell."""
    if not part:
        return ""
    share = f"{100 * part / most:.0f}%"
    return (
        f" style='background:linear-gradient(to left,rgba({color},.35) {share},transparent"
        f" {share})'"
    )


# --- a page that is one file ----------------------------------------------------------------------

# `color-scheme` makes the browser choose its own colors of the theme; pictures stand on white.
_PAGE_STYLE = """:root{color-scheme:light dark}
body{max-width:76em;margin:2em auto;padding:0 1.2em;font:15px/1.5 system-ui,sans-serif}
h1{font-size:1.4em}h2{font-size:1.1em;margin-top:1.6em}
figure{margin:0;background:#fff;border:1px solid rgba(128,128,128,.4);border-radius:4px;
 overflow-x:auto;width:fit-content;max-width:100%}
pre{overflow-x:auto;font:12px/1.45 ui-monospace,Menlo,Consolas,monospace}"""


def picture_html(words: str, figure: Figure) -> str:
    """Return a picture with a heading."""
    return f"<h2>{escaped(words)}</h2><figure>{svg(figure)}</figure>"


def write_page(path: str | os.PathLike[str], words: str, sections: Iterable[str]) -> None:
    """Write an HTML file of a title and sections, which needs no other file and no network."""
    head = (
        "<!DOCTYPE html><html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width,initial-scale=1'>"
        f"<title>{escaped(words)}</title><style>{_PAGE_STYLE}</style></head>"
    )
    body = "".join([f"<body><h1>{escaped(words)}</h1>", *sections, "</body></html>"])
    Path(path).write_text(head + body + "\n", encoding="utf-8")
