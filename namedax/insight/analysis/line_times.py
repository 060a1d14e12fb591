"""The seconds of each source line of a report on a machine, by their causes."""

from __future__ import annotations

import dataclasses

from namedax.insight.analysis.figures import Figures
from namedax.insight.analysis.records import Collective, Step
from namedax.machines import Machine

__all__ = ["Cause", "LineTimes", "line_times"]


@dataclasses.dataclass(frozen=True)
class Cause:
    """The collectives of one kind, for the same names over the same mesh axes.

    Attributes:
      kind: the kind of the collectives.
      names: the axis names that they are for.
      mesh_axes: their mesh axes.
    """

    kind: str
    names: tuple[str, ...]
    mesh_axes: tuple[str, ...]

    def __str__(self) -> str:
        words = f" for {', '.join(self.names)}" if self.names else ""
        return f"{self.kind}{words} over {'+'.join(self.mesh_axes)}"


@dataclasses.dataclass(frozen=True)
class LineTimes:
    """The seconds of the steps of one line, each by itself.

    Attributes:
      compute: the seconds of operations that are limited by arithmetic.
      memory: the seconds of operations that are limited by memory bandwidth.
      communication: the seconds of collectives.
      causes: the seconds, and the bytes that a device sends, of each cause of communication.
    """

    compute: float = 0.0
    memory: float = 0.0
    communication: float = 0.0
    causes: dict[Cause, tuple[float, int]] = dataclasses.field(default_factory=dict)

    @property
    def total(self) -> float:
        """The sum of the three, without overlap."""
        return self.compute + self.memory + self.communication


def line_times(report: Figures, machine: Machine) -> dict[str, LineTimes]:
    """Return the seconds of each line; `?` stands for an unknown line.

    Args:
      report: a report.
      machine: a machine of `nx.machines`.
    """
    known: dict[Step, tuple[float, float, float]] = {}
    found: dict[str, LineTimes] = {}
    for step in report.steps:
        if step not in known:
            # The machine decides what limits a step, so each one is timed alone.
            times = machine.time([step], report.mesh)
            known[step] = times.compute, times.memory, times.communication
        compute, memory, communication = known[step]
        line = step.source or "?"
        sum_ = found.get(line, LineTimes())
        causes = sum_.causes
        if isinstance(step, Collective):
            cause = Cause(step.kind, step.names, step.mesh_axes)
            seconds, sent = causes.get(cause, (0.0, 0))
            causes = causes | {
                cause: (seconds + communication, sent + step.wire_bytes * step.trips)
            }
        found[line] = LineTimes(
            sum_.compute + compute,
            sum_.memory + memory,
            sum_.communication + communication,
            causes,
        )
    return found
