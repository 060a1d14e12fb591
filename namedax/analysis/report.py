"""The result of `nx.explain`: a `Report`, which is grouped, compared, and rendered.

It is rendered as text of 100 columns, with colors if the terminal supports them, and as HTML with
source lines.
"""

from __future__ import annotations

import dataclasses
import html
import linecache
import os
import sys
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from namedax.analysis.records import Collective, Memory, Operation, PipelineRun, Step, Totals
from namedax.drawing.pipelines import draw_pipeline
from namedax.drawing.timeline import draw_timeline
from namedax.drawing.traffic import draw_collectives
from namedax.errors import ArgumentError, show_dtype
from namedax.hlo import KINDS, size_text
from namedax.hlo import Collective as CompiledCollective
from namedax.machines.machine import Machine

__all__ = ["Compiled", "Difference", "Report", "source_line"]

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Key = Literal["line", "name", "mesh_axis", "kind", "operation", "phase"]

_KEYS: Mapping[str, Callable[[Step], tuple[str, ...]]] = {
    "line": lambda step: (step.source or "?",),
    "name": lambda step: step.names or ("(none)",),
    "mesh_axis": lambda step: step.mesh_axes if isinstance(step, Collective) else ("(none)",),
    "kind": lambda step: (step.kind,),
    "operation": lambda step: (
        (
            step.operation or "(elementwise)"
            if isinstance(step, Operation)
            else step.operation or "(cast)"
        ),
    ),
    "phase": lambda step: (step.phase,),
}


@dataclasses.dataclass(frozen=True)
class Compiled:
    """The result of compiling a program with XLA.

    Attributes:
      collectives: the collectives of the compiled program, by `nx.hlo.collectives`.
      flops: floating-point operations as XLA counts them, with the body of a loop once; 0 if the
        backend does not report them.
      memory: the memory of a device in bytes: `"arguments"`, `"results"`, `"temporary"`.
    """

    collectives: tuple[CompiledCollective, ...]
    flops: float
    memory: dict[str, int]


@dataclasses.dataclass(frozen=True, repr=False)
class Report:
    """Communication, computation and memory of a program for one device, made by `nx.explain`.

    It prints as tables.

    Attributes:
      name: the name of the function.
      mesh: the size of each mesh axis.
      placements: the mesh axes to which each name is mapped.
      steps: the collectives and operations in program order; those in a loop are listed once, with
        their `trips`.
      memory: arguments, results, residuals for the gradient, and an estimate of the peak.
      findings: possible improvements, as sentences.
      compiled: the result of XLA, with `compile=True`.
      files: the path of each file that source lines refer to.
      pipelines: the schedule, bubble and stored microbatches of each pipeline, by the line of
        `nx.pipeline`.
    """

    name: str
    mesh: dict[str, int]
    placements: dict[str, tuple[str, ...]]
    steps: tuple[Step, ...]
    memory: Memory
    findings: tuple[str, ...] = ()
    compiled: Compiled | None = None
    files: dict[str, str] = dataclasses.field(default_factory=dict)
    pipelines: dict[str, PipelineRun] = dataclasses.field(default_factory=dict)

    @property
    def bubbles(self) -> dict[str, float]:
        """The fraction of the ticks of each pipeline in which a device is idle, by its line."""
        return {line: run.bubble for line, run in self.pipelines.items()}

    @property
    def collectives(self) -> tuple[Collective, ...]:
        """The collectives in program order."""
        return tuple(step for step in self.steps if isinstance(step, Collective))

    @property
    def operations(self) -> tuple[Operation, ...]:
        """The operations in program order."""
        return tuple(step for step in self.steps if isinstance(step, Operation))

    @property
    def flops(self) -> float:
        """The floating-point operations of one device, loops multiplied out."""
        return sum(step.flops * step.trips for step in self.operations)

    @property
    def bytes_accessed(self) -> int:
        """The bytes that one device reads from and writes to its memory, loops multiplied out."""
        return sum(step.bytes * step.trips for step in self.operations)

    @property
    def wire_bytes(self) -> int:
        """The minimum number of bytes that one device sends, loops multiplied out."""
        return sum(step.wire_bytes * step.trips for step in self.collectives)

    def summary(self) -> dict[str, tuple[int, int]]:
        """Return by kind the number of collectives of one device, and their payload in bytes.

        Loops are multiplied out.

        XLA may combine several collectives into one, so a compiled program may have fewer; the
        bytes are the same.
        """
        found: dict[str, tuple[int, int]] = {}
        for step in sorted(self.collectives, key=lambda step: KINDS.index(step.kind)):
            count, size = found.get(step.kind, (0, 0))
            found[step.kind] = (count + step.trips, size + step.trips * step.bytes)
        return found

    def by(self, key: Key) -> dict[str, Totals]:
        """Return the totals of groups of steps, the group with the most bytes sent first.

        Args:
          key: `"line"`, `"name"`, `"mesh_axis"`, `"kind"`, `"operation"` or `"phase"`. A step with
            several names or mesh axes counts for each of them.

        Raises:
          ArgumentError: the key is not one of these.
        """
        if key not in _KEYS:
            raise ArgumentError(
                f"Report.by: {key!r} is not a key. Choose from {', '.join(map(repr, _KEYS))}."
            )
        groups: dict[str, Totals] = {}
        for step in self.steps:
            for group in _KEYS[key](step):
                groups[group] = groups.get(group, Totals()).with_step(step)
        order = sorted(
            groups.items(), key=lambda item: (-item[1].wire_bytes, -item[1].flops, item[0])
        )
        return dict(order)

    def time(self, machine: Machine) -> float:
        """Return the seconds of a step by the cost model of a machine; see `nx.machines`."""
        return float(machine.time(self.steps, self.mesh).total)

    def to_perfetto(self, machine: Machine, path: str | os.PathLike[str], devices: int = 1) -> None:
        """Write the predicted schedule on a machine as a trace that ui.perfetto.dev opens.

        Args:
          machine: the machine of `nx.machines`.
          path: the file to write, such as `"step.json"`.
          devices: as in `nx.machines.Times.to_perfetto`. Default: 1.

        Raises:
          ArgumentError: `devices` is not a positive integer.
          MeshError: the machine has no link for a mesh axis.
        """
        machine.time(self.steps, self.mesh).to_perfetto(path, devices)

    def draw(self, machine: Machine | None = None, *, pipeline: bool | str = False) -> Figure:
        """Draw the bytes over each mesh axis, a timeline, or a pipeline.

        Args:
          machine: the machine of `nx.machines` whose cost model gives the timeline; default: none.
          pipeline: if `True`, draw the schedule of the first pipeline, with stages as rows and
            ticks as columns; or the line of a pipeline, as in `report.pipelines`. Default: `False`.

        Returns:
          A matplotlib figure, like that of `nx.draw`.

        Raises:
          ArgumentError: the program has no such pipeline.
        """
        if pipeline is not False:
            line = next(iter(self.pipelines), None) if pipeline is True else pipeline
            if line not in self.pipelines:
                raise ArgumentError(
                    "Report.draw: the program has no pipeline over devices"
                    f"{'' if pipeline is True else f' at {pipeline!r}'}. Map the layers of an"
                    " nx.pipeline in axis_resources, or choose a line of report.pipelines."
                )
            return draw_pipeline(self.pipelines[line])
        if machine is None:
            return draw_collectives(self.collectives, self.mesh)
        return draw_timeline(machine.time(self.steps, self.mesh).schedule)

    def to_dict(self) -> dict[str, Any]:
        """Return the report as dicts, lists, strings and numbers, for `json`."""
        plain = dataclasses.asdict(dataclasses.replace(self, steps=()))
        del plain["steps"]
        return plain | {
            "collectives": [dataclasses.asdict(step) for step in self.collectives],
            "operations": [dataclasses.asdict(step) for step in self.operations],
            "flops": self.flops,
            "bytes_accessed": self.bytes_accessed,
            "wire_bytes": self.wire_bytes,
            "summary": self.summary(),
        }

    def diff(self, other: Report) -> Difference:
        """Return the changes from this report to another."""
        return Difference(self, other)

    def __str__(self) -> str:
        return _report_text(self)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return _report_html(self)


@dataclasses.dataclass(frozen=True, repr=False)
class Difference:
    """The difference of two reports, made by `Report.diff`. It prints as a table.

    Attributes:
      before: the first report.
      after: the second report.
    """

    before: Report
    after: Report

    @property
    def totals(self) -> dict[str, tuple[float, float]]:
        """The totals, `{what: (before, after)}`."""
        pairs = (self.before, self.after)
        return {
            "flops": (pairs[0].flops, pairs[1].flops),
            "bytes accessed": (pairs[0].bytes_accessed, pairs[1].bytes_accessed),
            "bytes sent": (pairs[0].wire_bytes, pairs[1].wire_bytes),
            "arguments": (pairs[0].memory.arguments, pairs[1].memory.arguments),
            "results": (pairs[0].memory.results, pairs[1].memory.results),
            "peak memory": (pairs[0].memory.peak, pairs[1].memory.peak),
        }

    @property
    def kinds(self) -> dict[str, tuple[tuple[int, int], tuple[int, int]]]:
        """The collectives of each kind that differ in number or bytes.

        They are `{kind: ((count, bytes) before, (count, bytes) after)}`.
        """
        before, after = self.before.summary(), self.after.summary()
        pairs = {kind: (before.get(kind, (0, 0)), after.get(kind, (0, 0))) for kind in KINDS}
        return {kind: pair for kind, pair in pairs.items() if pair[0] != pair[1]}

    def __str__(self) -> str:
        return _difference_text(self)

    __repr__ = __str__


_WIDTH = 100
_LINES = 12  # the maximum number of rows of a table in the terminal


def _flops_text(count: float) -> str:
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
    text = textwrap.fill(sentence, _WIDTH, initial_indent="- ", subsequent_indent="  ")
    return f"\033[33m{text}\033[0m" if _has_colors() else text


def _report_text(report: Report) -> str:
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
        parts.append(_heading("Findings") + "\n" + "\n".join(map(_warning, report.findings)))
    return "\n\n".join(parts)


def _title(report: Report) -> str:
    mesh = ", ".join(f"{axis}={size}" for axis, size in report.mesh.items()) or "no mesh"
    mapped = (
        ", ".join(f"{name}: {'+'.join(axes)}" for name, axes in report.placements.items())
        or "nothing mapped"
    )
    return f"{report.name} on {mesh} ({mapped}), for one device"


def _total_rows(report: Report) -> list[tuple[str, str, str]]:
    memory = report.memory
    rows = [
        (
            "computes",
            _flops_text(report.flops),
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


def _totals(report: Report) -> str:
    rows = _total_rows(report)
    widths = [max(len(row[i]) for row in rows) for i in (0, 1)]
    before = [f"{what.ljust(widths[0])}  {figure.ljust(widths[1])}  " for what, figure, _ in rows]
    return "\n".join(
        textwrap.fill(more, _WIDTH, initial_indent=start, subsequent_indent=" " * len(start))
        for start, (_, _, more) in zip(before, rows, strict=True)
    )


def _kinds(report: Report) -> str:
    kinds = ", ".join(
        f"{count} {kind} ({size_text(size)})" for kind, (count, size) in report.summary().items()
    )
    return f"on the wire (at least, on a ring); payload: {kinds}" if kinds else "nothing"


def _sent_rows(report: Report) -> list[tuple[str, ...]]:
    groups: dict[tuple[str, ...], tuple[int, int, int]] = {}
    key: tuple[str, ...]
    for step in report.collectives:
        where = f"{step.operation or 'cast'}{{{','.join(step.names)}}}"
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


def _line_rows(report: Report) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = [("computes", "reads, writes", "wire", "line", "")]
    groups = sorted(report.by("line").items(), key=lambda item: -item[1].flops)
    for line, total in groups:
        sent = size_text(total.wire_bytes) if total.collectives else ""
        rows.append(
            (
                _flops_text(total.flops),
                size_text(total.bytes_accessed),
                sent,
                line,
                source_line(report, line),
            )
        )
    return rows if len(rows) > 1 else []


def source_line(report: Report, line: str) -> str:
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


def _difference_text(diff: Difference) -> str:
    """Render the changes from one report to another."""
    rows = [("", "before", "after", "ratio")]
    for what, (before, after) in diff.totals.items():
        old, new = (
            _flops_text(n) if what == "flops" else size_text(int(n)) for n in (before, after)
        )
        label = f"{what} (on the wire)" if what == "bytes sent" else what
        rows.append((label, old, new, f"{after / before:.2f}" if before else ""))
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


# --- rendering as HTML ----------------------------------------------------------------------------

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
_BLUE, _RED = "70,130,220", "220,90,80"


def _report_html(report: Report) -> str:
    """Render a report for notebooks: totals, collectives, findings, and source lines with costs."""
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
    return html.escape(words)


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


def _html_sources(report: Report) -> list[str]:
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
        parts.append(_details(name, _scrolled("".join(rows)), not i))
    return parts


def _source_row(
    report: Report, name: str, number: int, total: Totals | None, most: tuple[float, float]
) -> str:
    code = linecache.getline(report.files[name], number).rstrip("\n")
    kept = report.memory.kept.get(f"{name}:{number}", 0)
    cells = [("", ""), ("", ""), ("", "")]
    if total is not None:
        cells = [
            (_flops_text(total.flops) if total.flops else "", _bar(total.flops, most[0], _BLUE)),
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


def _bar(part: float, most: float, color: str) -> str:
    """Return a bar behind a figure; the largest figure fills the cell."""
    if not part:
        return ""
    share = f"{100 * part / most:.0f}%"
    return (
        f" style='background:linear-gradient(to left,rgba({color},.35) {share},transparent"
        f" {share})'"
    )
