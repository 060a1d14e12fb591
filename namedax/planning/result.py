"""`Plan`: what `nx.plan` has found, best first."""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING, Any

from namedax.analysis.report import Report
from namedax.drawing.front import draw_front
from namedax.machines import Machine, Times
from namedax.planning import rendering
from namedax.planning.reasons import reason

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Candidate", "Plan"]


@dataclasses.dataclass(frozen=True, repr=False)
class Candidate:
    """One layout that was judged.

    Attributes:
      axis_resources: the assignment, for `nx.xmap`.
      mesh: the size of each mesh axis.
      overlap: what it takes as `overlap`, for `nx.xmap`.
      report: what it sends, computes and holds, by `nx.explain`.
      time: the seconds of a step that the machine is expected to take.
      peak: the bytes that a device is expected to hold at most.
      fits: whether that is within the memory.
      measured: the seconds that a step has taken, with `verify=`; otherwise `None`.
      reason: what it computes and sends most, in a line.
    """

    axis_resources: dict[Hashable, Any]
    mesh: dict[str, int]
    overlap: Any
    report: Report
    time: float
    peak: int
    fits: bool
    measured: float | None
    reason: str

    @classmethod
    def of(
        cls,
        axis_resources: dict[Hashable, Any],
        mesh: Mapping[str, int],
        overlap: Any,
        report: Report,
        machine: Machine,
        times: Times,
        memory: float,
    ) -> Candidate:
        """The candidate that a report tells of, and the machine's times for it."""
        peak = report.memory.peak
        why = reason(report, machine, dict(mesh), times)
        return cls(axis_resources, dict(mesh), overlap, report, times.total, peak, peak <= memory, None, why)

    def __repr__(self) -> str:
        return rendering.candidate(self)


@dataclasses.dataclass(frozen=True, repr=False)
class Plan:
    """The layouts that a search has judged; made by `nx.plan`. It prints as a table.

    Attributes:
      name: of the function.
      machine: for which it was planned.
      memory: the bytes that a device may hold.
      candidates: what was judged: what fits before what does not, and the shorter time first; what was measured before what was not.
      refused: assignments that the program does not allow, with what it says.
      advice: sentences on what a second name for an axis of the model would allow, and on names that were not mapped because their sizes
        do not divide.
      traces: how often the program was traced.
    """

    name: str
    machine: Machine
    memory: float
    candidates: tuple[Candidate, ...]
    refused: tuple[tuple[dict[Hashable, Any], str], ...] = ()
    advice: tuple[str, ...] = ()
    traces: int = 0

    @property
    def best(self) -> dict[Hashable, Any]:
        """The `axis_resources` of the candidate with the shortest time: measured, where some are, or else expected."""
        return dict(self.candidates[0].axis_resources)

    @property
    def mesh(self) -> dict[str, int]:
        """The sizes of the mesh axes that `best` is for."""
        return dict(self.candidates[0].mesh)

    @property
    def front(self) -> tuple[Candidate, ...]:
        """The candidates that fit, and of which none is both faster and smaller; the fastest first."""
        front: list[Candidate] = []
        for one in sorted((c for c in self.candidates if c.fits), key=lambda c: (c.time, c.peak)):
            if not front or one.peak < front[-1].peak:
                front.append(one)
        return tuple(front)

    def draw(self) -> Figure:
        """A picture of the candidates by memory and time, with the front and the bound.

        Returns:
          A figure of matplotlib, as of `nx.draw`.

        Raises:
          ImportError: matplotlib is not installed.
        """
        front = {id(one) for one in self.front}
        several = rendering.several_meshes(self)
        points = [(c.time, float(c.peak), rendering.layout(c, several), id(c) in front) for c in self.candidates]
        return draw_front(points, self.memory)

    def __str__(self) -> str:
        return rendering.text(self)

    def __repr__(self) -> str:
        return rendering.text(self)
