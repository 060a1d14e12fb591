"""`Report`, the result of `nx.explain`: grouped, compared and printed."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, Literal

from namedax.analysis import rendering
from namedax.analysis.records import Collective, Memory, Operation, Step, Totals
from namedax.drawing.timeline import draw_timeline
from namedax.drawing.traffic import draw_collectives
from namedax.errors import ArgumentError
from namedax.hlo import KINDS
from namedax.hlo import Collective as CompiledCollective

__all__ = ["Compiled", "Difference", "Report"]

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
      bubbles: the fraction of the ticks of each pipeline in which a device is idle, by the line of
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
    bubbles: dict[str, float] = dataclasses.field(default_factory=dict)

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
        """The bytes that one device reads from its memory and writes to it, loops multiplied out."""
        return sum(step.bytes * step.trips for step in self.operations)

    @property
    def wire_bytes(self) -> int:
        """The minimum number of bytes that one device sends, loops multiplied out."""
        return sum(step.wire_bytes * step.trips for step in self.collectives)

    def summary(self) -> dict[str, tuple[int, int]]:
        """Return the number of collectives of each kind for one device, and their payload in bytes, loops multiplied out.

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

    def time(self, machine: Any) -> float:
        """Return the seconds that a step takes by the cost model of a machine; see `nx.machines`."""
        return float(machine.time(self.steps, self.mesh).total)

    def draw(self, machine: Any = None) -> Any:
        """Draw the bytes over each mesh axis, or, with a machine, a timeline of computation and communication.

        Args:
          machine: the machine of `nx.machines` whose cost model gives the timeline; default: none.

        Returns:
          A matplotlib figure, like that of `nx.draw`.
        """
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
        return rendering.text(self)

    def __repr__(self) -> str:
        return rendering.text(self)

    def _repr_html_(self) -> str:
        return rendering.html(self)


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
        """The collectives of each kind that differ in number or bytes, `{kind: ((count, bytes) before, (count, bytes) after)}`."""
        before, after = self.before.summary(), self.after.summary()
        pairs = {kind: (before.get(kind, (0, 0)), after.get(kind, (0, 0))) for kind in KINDS}
        return {kind: pair for kind, pair in pairs.items() if pair[0] != pair[1]}

    def __str__(self) -> str:
        return rendering.difference(self)

    __repr__ = __str__
