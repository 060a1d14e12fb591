"""The result of `nx.explain`: a `Report`, which is grouped, compared, rendered and stored."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp

from namedax.core.plain_data import Malformed, from_plain, to_plain
from namedax.errors import ArgumentError
from namedax.hlo import KINDS, size_text
from namedax.insight.analysis.figures import Figures
from namedax.insight.analysis.line_times import LineTimes, line_times
from namedax.insight.analysis.page import (
    details,
    enclosed,
    escaped,
    html_table,
    picture_html,
    report_html,
    write_page,
)
from namedax.insight.analysis.records import (
    HOST_COPIES,
    Collective,
    HostCopy,
    Operation,
    Step,
    Totals,
)
from namedax.insight.analysis.tables import (
    MOST_ROWS,
    flops_text,
    report_text,
    source_line,
    table,
    title,
)
from namedax.insight.drawing.timeline import draw_pipeline, draw_timeline
from namedax.insight.drawing.traffic import draw_collectives
from namedax.machines.machine import Machine
from namedax.ops.loops.pipeline_timetable import SCHEDULES

__all__ = ["Difference", "Report", "check_report"]

# The letters of the kinds of steps in `Report.to_dict`.
_LETTERS: Mapping[type, str] = {Collective: "c", HostCopy: "h", Operation: "o"}

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclasses.dataclass(frozen=True, repr=False)
class Report(Figures):
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
      is_traced: True if `nx.explain` made the report, False if `from_dict` or `nx.Plan.from_json`
        read it. A report that was read shows source lines only of files below the current
        folder.

    >>> import jax.numpy as jnp, namedax as nx
    >>> nx.explain(lambda x: x @ x, jnp.ones((4, 4))).flops
    128.0
    """

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
        """Return the report as dicts, lists, strings and numbers, for `json`.

        `order` has a letter for each step: `c` for a collective, `h` for a copy over the host link,
        and `o` for an operation.
        """
        plain: dict[str, Any] = to_plain(dataclasses.replace(self, steps=()), Report)
        del plain["steps"]
        return plain | {
            "collectives": [to_plain(step, Collective) for step in self.collectives],
            "host_copies": [to_plain(step, HostCopy) for step in self.host_copies],
            "operations": [to_plain(step, Operation) for step in self.operations],
            "order": "".join(_LETTERS[type(step)] for step in self.steps),
            "flops": self.flops,
            "bytes_accessed": self.bytes_accessed,
            "wire_bytes": self.wire_bytes,
            "host_bytes": self.host_bytes,
            "summary": self.summary(),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Report:
        """Return the report of a dict that `to_dict` has made; it may have been stored as JSON.

        Its tables show source lines only of files below the current folder, with links to folders
        resolved.

        Args:
          data: the dict.

        Raises:
          ArgumentError: it is not the dict of a report.

        >>> import json, jax.numpy as jnp, namedax as nx
        >>> report = nx.explain(lambda x: x @ x, jnp.ones((4, 4)))
        >>> nx.Report.from_dict(json.loads(json.dumps(report.to_dict()))) == report
        True
        """
        try:
            return _read_report(data)
        except Malformed as error:
            raise ArgumentError(
                f"Report.from_dict: {error}. Pass a dict that Report.to_dict of this version has"
                " made."
            ) from None

    def save(self, path: str | os.PathLike[str], machine: Machine | None = None) -> None:
        """Write the report as one HTML file, with its pictures and source lines.

        The file needs no other file and no network, and has a light and a dark theme.

        Args:
          path: the path of the file.
          machine: a machine of `nx.machines` for the timeline; default: none, no timeline.

        Raises:
          ImportError: matplotlib is not installed (`pip install 'namedax[draw]'`).
        """
        write_page(path, f"{self.name}: communication and memory", self.sections(machine))

    def sections(self, machine: Machine | None = None) -> list[str]:
        """Return the parts of `save` as HTML.

        Args:
          machine: as for `save`. Default: none.

        Returns:
          The tables, and each picture with its heading.
        """
        pictures = [("Communication", self.draw())]
        if machine is not None:
            pictures.append((f"Timeline on {machine.name}", self.draw(machine)))
        for line in self.pipelines:
            pictures.append((f"Pipeline at {line}", self.draw(pipeline=line)))
        return [report_html(self), *(picture_html(title, figure) for title, figure in pictures)]

    def diff(self, other: Report) -> Difference:
        """Return the changes from this report to another.

        Args:
          other: the other report.
        """
        return Difference(self, other)

    def __str__(self) -> str:
        return report_text(self)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return report_html(self)


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

    @property
    def lines(self) -> dict[str, tuple[Totals, Totals]]:
        """The totals of the source lines that differ, `{line: (before, after)}`.

        The line with the largest difference of bytes sent comes first, then by FLOPs and by bytes
        accessed.
        """
        before, after = self.before.by("line"), self.after.by("line")
        pairs = {
            line: (before.get(line, Totals()), after.get(line, Totals()))
            for line in (*before, *after)
        }
        changed = {line: pair for line, pair in pairs.items() if pair[0] != pair[1]}
        return dict(sorted(changed.items(), key=lambda item: (_changes(*item[1]), item[0])))

    def times(self, machine: Machine) -> dict[str, tuple[LineTimes, LineTimes]]:
        """Return the seconds of each source line on a machine, `{line: (before, after)}`.

        The line with the largest difference comes first.

        Args:
          machine: a machine of `nx.machines`.
        """
        before, after = (line_times(one, machine) for one in (self.before, self.after))
        pairs = {
            line: (before.get(line, LineTimes()), after.get(line, LineTimes()))
            for line in (*before, *after)
        }
        order = sorted(
            pairs.items(), key=lambda item: (-abs(item[1][1].total - item[1][0].total), item[0])
        )
        return dict(order)

    def __str__(self) -> str:
        return _difference_text(self)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        totals, lines = _difference_rows(self)
        parts = [html_table(totals, ())]
        if len(lines) > 1:
            parts.append(
                details(
                    "Lines, largest change first", html_table(lines, range(6, len(lines[0]))), True
                )
            )
        titles = f"<p><b>{escaped(title(self.before))}</b><br><b>{escaped(title(self.after))}</b>"
        return enclosed([titles + "</p>", *parts])


def _changes(before: Totals, after: Totals) -> tuple[float, float, float]:
    """Return a sort key: the largest change first."""
    return (
        -abs(after.wire_bytes - before.wire_bytes),
        -abs(after.flops - before.flops),
        -abs(after.bytes_accessed - before.bytes_accessed),
    )


def _difference_rows(diff: Difference) -> tuple[list[tuple[str, ...]], list[tuple[str, ...]]]:
    """Return the rows of the totals and of the lines that differ, each with a heading."""
    rows: list[tuple[str, ...]] = [("", "before", "after", "ratio")]
    for what, (before, after) in diff.totals.items():
        old, new = (
            flops_text(n) if what == "flops" else size_text(int(n)) for n in (before, after)
        )
        label = f"{what} (on the wire)" if what == "bytes sent" else what
        rows.append((label, old, new, f"{after / before:.2f}" if before else ""))
    for kind, pairs in diff.kinds.items():
        old, new = (f"{count} ({size_text(size)})" for count, size in pairs)
        ratio = f"{pairs[1][1] / pairs[0][1]:.2f}" if pairs[0][1] else ""
        rows.append((f"{kind} (payload)", old, new, ratio))
    lines: list[tuple[str, ...]] = [
        ("wire", "after", "computes", "after", "reads, writes", "after", "line", "")
    ]
    for line, (before_, after_) in diff.lines.items():
        figures = [
            text
            for a, b, show in (
                (before_.wire_bytes, after_.wire_bytes, size_text),
                (before_.flops, after_.flops, flops_text),
                (before_.bytes_accessed, after_.bytes_accessed, size_text),
            )
            for text in ((show(a), show(b)) if a != b else ("", ""))
        ]
        code = source_line(diff.before, line) or source_line(diff.after, line)
        lines.append((*figures, line, code))
    return rows, lines


def _difference_text(diff: Difference) -> str:
    """Render the changes from one report to another."""
    totals, lines = _difference_rows(diff)
    parts = [f"{title(diff.before)}\n{title(diff.after)}\n" + table(totals, len(totals))]
    if len(lines) > 1:
        parts.append("Lines, largest change first\n" + table(lines, MOST_ROWS))
    return "\n\n".join(parts)


def _read_report(data: Mapping[str, Any]) -> Report:
    """Read a report.

    Raises:
      Malformed: the data are not those of a report.
    """
    if not isinstance(data, Mapping):
        raise Malformed(f"the data is of type {type(data).__name__}, not a dict")
    left = dict(data)
    try:
        order = from_plain(left.pop("order"), str)
        supplies: dict[str, Iterator[Step]] = {
            "c": iter(from_plain(left.pop("collectives"), tuple[Collective, ...])),
            "h": iter(from_plain(left.pop("host_copies"), tuple[HostCopy, ...])),
            "o": iter(from_plain(left.pop("operations"), tuple[Operation, ...])),
        }
        for derived in ("flops", "bytes_accessed", "wire_bytes", "host_bytes", "summary"):
            del left[derived]
    except KeyError as error:
        raise Malformed(f"the data lacks the key {error}") from None
    steps = [next(supplies.get(letter, iter(())), None) for letter in order]
    if None in steps or any(next(supply, None) is not None for supply in supplies.values()):
        raise Malformed("the number of collectives, copies and operations differs from 'order'")
    bare: Report = from_plain({**left, "steps": []}, Report)
    report = dataclasses.replace(bare, steps=tuple(step for step in steps if step is not None))
    check_report(report)
    return report


def check_report(report: Report, where: str = "the report") -> None:
    """Check the values of a report that was read: those that its tables and pictures use.

    Raises:
      Malformed: a value is impossible.
    """
    if not all(size >= 1 for size in report.mesh.values()):
        raise Malformed(f"{where} has a mesh axis without devices")
    for step in report.steps:
        if step.trips < 0 or step.bytes < 0:
            raise Malformed(f"{where} has a step with a negative number of bytes or trips")
        try:
            jnp.dtype(step.dtype)
        except TypeError:
            if not step.dtype.startswith("key<"):
                raise Malformed(f"{where} has a step of dtype {step.dtype!r}") from None
        if isinstance(step, Operation):
            continue
        if isinstance(step, HostCopy):
            if step.kind not in HOST_COPIES:
                raise Malformed(f"{where} has a copy of kind {step.kind!r}")
            continue
        if step.kind not in KINDS:
            raise Malformed(f"{where} has a collective of kind {step.kind!r}")
        if not set(step.mesh_axes) <= report.mesh.keys() or step.group_size < 1:
            raise Malformed(f"{where} has a collective over {step.mesh_axes}, not mesh axes")
    for line, run in report.pipelines.items():
        counts = (run.stages, run.rounds, run.microbatches, run.idle + 1, run.stored + 1)
        works = run.rounds * run.microbatches * len(run.passes)
        if (
            min(counts) < 1
            or not run.passes
            or run.schedule not in SCHEDULES
            or run.columns < max(works, run.stages)
        ):
            raise Malformed(f"{where} has an impossible pipeline at {line!r}")
