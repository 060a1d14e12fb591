"""`Plan`, the result of `nx.plan`, with the best candidate first."""

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
      axis_resources: the layout, for `nx.xmap`.
      mesh: the size of each mesh axis.
      overlap: the value of `overlap`, for `nx.xmap`.
      report: the report of `nx.explain`.
      time: the estimated seconds of a step on the machine.
      peak: the estimated peak memory of a device, in bytes.
      fits: True if the peak is within the memory limit.
      measured: the measured seconds of a step, with `verify=`; otherwise `None`.
      reason: the main costs, in one line.
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
        """Return the candidate for a report and the machine's times for it."""
        peak = report.memory.peak
        why = reason(report, machine, dict(mesh), times)
        return cls(axis_resources, dict(mesh), overlap, report, times.total, peak, peak <= memory, None, why)

    def __repr__(self) -> str:
        return rendering.candidate(self)


@dataclasses.dataclass(frozen=True, repr=False)
class Plan:
    """The layouts that a search has judged; made by `nx.plan`. It prints as a table.

    Attributes:
      name: the name of the function.
      machine: the machine of the plan.
      memory: the memory limit of a device, in bytes.
      candidates: the judged layouts: fitting ones first, then by time; measured ones come before the others.
      refused: layouts that the program does not allow, each with its error message.
      advice: sentences on second names for axes of the model, and on names that were not mapped because their sizes do not
        divide.
      traces: the number of traces of the program.
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
        """The `axis_resources` of the candidate with the shortest time: measured if available, else estimated."""
        return dict(self.candidates[0].axis_resources)

    @property
    def mesh(self) -> dict[str, int]:
        """The sizes of the mesh axes for `best`."""
        return dict(self.candidates[0].mesh)

    @property
    def front(self) -> tuple[Candidate, ...]:
        """The Pareto front: fitting candidates such that no other is both faster and smaller; the fastest first."""
        front: list[Candidate] = []
        for one in sorted((c for c in self.candidates if c.fits), key=lambda c: (c.time, c.peak)):
            if not front or one.peak < front[-1].peak:
                front.append(one)
        return tuple(front)

    def draw(self) -> Figure:
        """Draw the candidates by memory and time, with the front and the memory limit.

        Returns:
          A matplotlib figure, like that of `nx.draw`.

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
