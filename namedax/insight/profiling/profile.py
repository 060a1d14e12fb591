"""`Profile`: predicted and measured times of a step, side by side."""

from __future__ import annotations

import dataclasses
import functools
import math
import os
import statistics
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from namedax.core.records import Record
from namedax.core.text_tables import aligned, columns, shortened
from namedax.errors import ArgumentError
from namedax.hlo import KINDS
from namedax.insight.analysis.page import enclosed, escaped, html_table
from namedax.insight.analysis.report import Report
from namedax.insight.analysis.tables import source_line
from namedax.insight.drawing.canvas import time_text
from namedax.insight.profiling.fitting import Observation, fit
from namedax.insight.profiling.joining import Part, part_of_step
from namedax.machines.machine import Machine
from namedax.machines.schedule import Times
from namedax.machines.trace_events import Track, predicted_tracks, write

__all__ = ["Measured", "Profile", "Row"]

Key = Literal["line", "name", "operation", "kind", "phase"]

_KEYS: Mapping[str, Callable[[Part], tuple[str, ...]]] = {
    "line": lambda part: (part.source or "?",),
    "name": lambda part: part.names or ("(none)",),
    "operation": lambda part: (
        part.operation or ("(cast)" if part.kind in KINDS else "(elementwise)"),
    ),
    "kind": lambda part: (part.kind,),
    "phase": lambda part: (part.phase,),
}
_ROWS = 12


@dataclasses.dataclass(frozen=True)
class Row:
    """Predicted and measured time of a group of instructions, for one device and one step.

    Attributes:
      predicted: the predicted seconds; 0 if the report has no such step.
      measured: the measured seconds; 0 if no event belongs to the group.
      trips: how often the compiled program runs an instruction of the group.
    """

    predicted: float = 0.0
    measured: float = 0.0
    trips: float = 0.0

    @property
    def ratio(self) -> float | None:
        """The predicted time divided by the measured; `None` without a measured time."""
        return self.predicted / self.measured if self.measured else None


class Measured(Record):
    """The measured time of one instruction of the compiled program, or of a fraction of it.

    Attributes:
      instruction: its name.
      part: the line, operation, names, phase and kind; `None` if they are unknown.
      seconds: the seconds of one device in one step.
      trips: how often a device runs it in one step.
      is_inferred: True if XLA made the instruction, and the part is that of the instruction that
        reads its result, or made its operand, or of the loop around it. Default: False.
    """

    instruction: str
    part: Part | None
    seconds: float
    trips: float
    is_inferred: bool = False


@dataclasses.dataclass(frozen=True, repr=False)
class Profile:
    """Predicted and measured times of a step, made by `nx.profile`. It prints as tables.

    All times are seconds of one device and one step.

    Attributes:
      report: the report of `nx.explain`.
      machine: the machine of the prediction.
      predicted: its times for the report.
      walls: the time of each traced step: from the first instruction on any device to the last.
      untraced: the time of each step without a trace, by the clock of the host; a trace adds time.
      instructions: the measured time of each instruction of the compiled program. `waiting` and
        `idle` have the rest of `measured`.
      waiting: the time in which a device only waits in a collective for others to start it.
      idle: the time in which it runs nothing.
      devices: the number of devices with events.
      is_shared: True if simulated devices share the cores of a processor. Then a device has its
        part of the machine's time, as in `nx.machines.measure`, and `waiting` is small.
      tracks: the events of the step whose time is nearest to the median, by device.
    """

    report: Report
    machine: Machine
    predicted: Times
    walls: tuple[float, ...]
    untraced: tuple[float, ...]
    instructions: tuple[Measured, ...]
    waiting: float
    idle: float
    devices: int
    is_shared: bool
    tracks: tuple[Track, ...] = ()

    @property
    def measured(self) -> float:
        """The measured seconds of a step: the median of `untraced`, or of `walls` if that is less.

        The trace divides this time among instructions.
        """
        return min(statistics.median(times) for times in (self.walls, self.untraced) if times)

    @property
    def busy(self) -> float:
        """The seconds in which instructions run, waiting excluded."""
        return sum(one.seconds for one in self.instructions)

    @property
    def unattributed(self) -> float:
        """The busy seconds of instructions whose line and operation are unknown."""
        return sum(one.seconds for one in self.instructions if one.part is None)

    @property
    def coverage(self) -> float:
        """The fraction of the busy time that belongs to a known line or operation."""
        return 1 - self.unattributed / self.busy if self.busy else 0.0

    @property
    def inferred(self) -> float:
        """The attributed seconds of instructions that XLA made, such as copies of a loop's carry.

        They count for the instruction that reads their result, or made their operand.
        """
        return sum(one.seconds for one in self.instructions if one.part and one.is_inferred)

    @property
    def ratio(self) -> float:
        """The predicted time of a step divided by the measured."""
        return self.predicted.total / self.measured

    def by(self, key: Key) -> dict[str, Row]:
        """Return predicted and measured times of groups, the longest measured first.

        Args:
          key: `"line"`, `"name"`, `"operation"`, `"kind"` or `"phase"`. An operation with several
            names counts for each of them. The kinds are those of `nx.explain`: primitives of JAX,
            and collectives of XLA.

        Raises:
          ArgumentError: the key is not one of these.
        """
        if key not in _KEYS:
            raise ArgumentError(
                f"Profile.by: {key!r} is not a key. Choose from {', '.join(map(repr, _KEYS))}."
            )
        groups: dict[str, Row] = defaultdict(Row)
        for part, seconds in self._predicted.items():
            for group in _KEYS[key](part):
                row = groups[group]
                groups[group] = dataclasses.replace(row, predicted=row.predicted + seconds)
        counted: set[tuple[str, str]] = set()  # a fusion may have several parts in a group
        for one in self.instructions:
            for group in _KEYS[key](one.part) if one.part is not None else ():
                row, is_new = groups[group], (group, one.instruction) not in counted
                counted.add((group, one.instruction))
                groups[group] = dataclasses.replace(
                    row,
                    measured=row.measured + one.seconds,
                    trips=row.trips + (one.trips if is_new else 0),
                )
        order = sorted(groups.items(), key=lambda pair: (-pair[1].measured, -pair[1].predicted))
        return dict(order)

    @functools.cached_property
    def _predicted(self) -> dict[Part, float]:
        return predicted_seconds(self.predicted)

    def fit(self) -> Machine:
        """Return the machine whose prediction is nearest to the measured times.

        The rate of each dtype that occurs, the memory bandwidth, the time to start an operation,
        and the bandwidth and latency of each link that occurs are fitted by least squares, within a
        factor of 1000 of those of `machine`; latencies and `launch` may be zero. The start of
        collectives is fitted if `machine` has one. Fitted peaks and bandwidths are those that the
        program reached, so their efficiency is 1. Other figures stay as they are. Use the result
        for programs like this one: a figure that no step depends on cannot be measured.

        Returns:
          The machine; its name ends in `", fitted"`.
        """
        return fit(self.machine, self.report, self._observations(), self.measured - self.waiting)

    def _observations(self) -> list[Observation]:
        """Return groups of the report's steps, each with its measured time."""
        measured: dict[tuple[str, ...], float] = defaultdict(float)
        for one in self.instructions:
            if one.part is not None:
                measured[_group(one.part)] += one.seconds
        steps = defaultdict(list)
        for step in self.report.steps:
            steps[_group(part_of_step(step))].append(step)
        return [Observation(tuple(group), measured[key]) for key, group in steps.items()]

    def with_machine(self, machine: Machine) -> Profile:
        """Return the profile with the prediction of another machine; nothing runs.

        Args:
          machine: the machine, such as the result of `fit`.

        Raises:
          MeshError: the machine has no link for a mesh axis.
        """
        times = machine.time(self.report.steps, self.report.mesh)
        return dataclasses.replace(self, machine=machine, predicted=times)

    def to_perfetto(self, path: str | os.PathLike[str]) -> None:
        """Write predicted and measured schedules as a trace that ui.perfetto.dev opens.

        The predicted step has a track for computation and one for communication. Each device has a
        track for each. Arrows lead from a predicted step to its first measured instruction.

        Args:
          path: the file to write, such as `"step.json"`.
        """
        write(path, [*predicted_tracks(self.predicted.schedule, 1, "predicted"), *self.tracks])

    def to_dict(self) -> dict[str, Any]:
        """Return all figures as a dict of plain values, for JSON."""
        return {
            "name": self.report.name,
            "machine": self.machine.name,
            "predicted": self.predicted.total,
            "measured": self.measured,
            "ratio": self.ratio,
            "walls": list(self.walls),
            "untraced": list(self.untraced),
            "busy": self.busy,
            "waiting": self.waiting,
            "idle": self.idle,
            "unattributed": self.unattributed,
            "inferred": self.inferred,
            "coverage": self.coverage,
            "devices": self.devices,
            **{
                key: {
                    group: {**dataclasses.asdict(row), "ratio": row.ratio}
                    for group, row in self.by(key).items()
                }
                for key in ("line", "name", "operation", "kind", "phase")
            },
            "instructions": [
                {
                    "instruction": one.instruction,
                    "kind": one.part.kind if one.part else "",
                    "operation": one.part.operation if one.part else "",
                    "names": list(one.part.names) if one.part else [],
                    "line": one.part.source if one.part else "",
                    "phase": one.part.phase if one.part else "",
                    "seconds": one.seconds,
                    "trips": one.trips,
                    "is_inferred": one.is_inferred,
                }
                for one in self.instructions
            ],
        }

    def __str__(self) -> str:
        parts = [_heading(self)]
        for title, key in _TABLES.items():
            rows = _rows(self, key)
            if len(rows) > 1:
                parts.append(f"{title}\n{_table(rows)}")
        return "\n\n".join(parts)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        parts = [f"<pre>{escaped(_heading(self))}</pre>"]
        parts += (
            f"<p><b>{escaped(title)}</b></p>{html_table(_rows(self, key), {4, 5})}"
            for title, key in _TABLES.items()
        )
        return enclosed(parts)


def predicted_seconds(times: Times) -> dict[Part, float]:
    """Return the predicted seconds of each part."""
    found: dict[Part, float] = defaultdict(float)
    for timed in times.schedule:
        found[part_of_step(timed.step)] += timed.end - timed.start
    return dict(found)


def _group(part: Part) -> tuple[str, ...]:
    """Return the group of a part in a fit: XLA may move time between the kinds of an operation."""
    kind = part.kind if part.kind in KINDS else ""
    return part.source, part.operation, part.phase, kind


# --- rendering ------------------------------------------------------------------------------------


_TABLES: dict[str, Key] = {
    "Lines, longest first": "line",
    "Operations": "operation",
    "Axis names": "name",
    "Kinds": "kind",
}


def _heading(profile: Profile) -> str:
    steps, devices = len(profile.walls), profile.devices
    mesh = ", ".join(f"{axis}={size}" for axis, size in profile.report.mesh.items()) or "no mesh"
    shared = ", which share the cores of a processor" if profile.is_shared and devices > 1 else ""
    hidden = profile.predicted.hidden
    rows = [
        (
            "measured",
            time_text(profile.measured),
            f"a step, the median of {steps}; {time_text(statistics.median(profile.walls))} with the"
            " trace",
        ),
        (
            "predicted",
            time_text(profile.predicted.total),
            f"on {profile.machine.name}: {profile.ratio:.2f} of the measured time",
        ),
        *([("", "", f"{time_text(hidden)} overlap, and count twice below")] if hidden else []),
        (
            "busy",
            time_text(profile.busy),
            f"{profile.coverage:.1%} of it attributed; {time_text(profile.inferred)} are copies and"
            " the like by XLA",
        ),
        (
            "waiting",
            time_text(profile.waiting),
            f"for other devices in collectives; idle {time_text(profile.idle)}",
        ),
        (
            "unknown",
            time_text(profile.unattributed),
            "in instructions without a line and an operation",
        ),
    ]
    lines = [f"{what:<9}  {figure:>8}  {more}" for what, figure, more in rows]
    count = f"{devices} device{'s' if devices != 1 else ''}"
    title = f"{profile.report.name} on {mesh}, {count}{shared}"
    return "\n".join(shortened(line, columns()) for line in (title, *lines))


def _rows(profile: Profile, key: Key) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = [("measured", "predicted", "ratio", "times", key, "")]
    for group, row in profile.by(key).items():
        ratio = "" if row.ratio is None or not row.predicted else _ratio_text(row.ratio)
        rows.append(
            (
                time_text(row.measured) if row.measured else "",
                time_text(row.predicted) if row.predicted else "",
                ratio,
                f"{row.trips:.3g}" if row.trips else "",
                group,
                source_line(profile.report, group) if key == "line" else "",
            )
        )
    return rows


def _ratio_text(ratio: float) -> str:
    """Return a ratio with two digits.

    >>> from namedax.insight.profiling.profile import _ratio_text
    >>> _ratio_text(0.0123), _ratio_text(1.234), _ratio_text(104.2)
    ('0.012', '1.2', '104')
    """
    digits = max(0, 1 - math.floor(math.log10(ratio))) if ratio else 1
    return f"{ratio:.{digits}f}"


def _table(rows: Sequence[tuple[str, ...]]) -> str:
    lines = aligned(rows[: _ROWS + 1], left={4, 5})
    if len(rows) > len(lines):
        lines.append(f"… and {len(rows) - len(lines)} more")
    return "\n".join(shortened(line, columns()) for line in lines)
