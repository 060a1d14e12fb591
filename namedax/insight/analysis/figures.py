"""The figures of a report: its data, their totals and groups, and their times on a machine."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping
from typing import Literal

from namedax.errors import ArgumentError
from namedax.hlo import KINDS
from namedax.hlo import Collective as CompiledCollective
from namedax.insight.analysis.records import (
    HOST_COPIES,
    Collective,
    HostCopy,
    Memory,
    Operation,
    PipelineRun,
    Step,
    Totals,
)
from namedax.machines.machine import Machine

__all__ = ["Compiled", "Figures", "Key"]

Key = Literal["line", "name", "mesh_axis", "kind", "operation", "phase"]

_KEYS: Mapping[str, Callable[[Step], tuple[str, ...]]] = {
    "line": lambda step: (step.source or "?",),
    "name": lambda step: step.names or ("(none)",),
    "mesh_axis": lambda step: getattr(step, "mesh_axes", ()) or ("(none)",),
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
class Figures:
    """The data of a `Report`.

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
      is_traced: True if `nx.explain` made it, False if it was read.
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
    is_traced: bool = dataclasses.field(
        default=False, compare=False, metadata={"plain": False}, kw_only=True
    )

    @property
    def bubbles(self) -> dict[str, float]:
        """The fraction of the ticks of each pipeline in which a device is idle, by its line."""
        return {line: run.bubble for line, run in self.pipelines.items()}

    @property
    def collectives(self) -> tuple[Collective, ...]:
        """The collectives in program order."""
        sent = (step for step in self.steps if isinstance(step, Collective))
        return tuple(step for step in sent if not isinstance(step, HostCopy))

    @property
    def host_copies(self) -> tuple[HostCopy, ...]:
        """The copies between the memory of the host and that of the device, in program order."""
        return tuple(step for step in self.steps if isinstance(step, HostCopy))

    @property
    def host_bytes(self) -> dict[str, int]:
        """The bytes of one device over the host link, by direction, loops multiplied out."""
        found = dict.fromkeys(HOST_COPIES, 0)
        for step in self.host_copies:
            found[step.kind] += step.bytes * step.trips
        return found

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
        """Return the seconds of a step by the cost model of a machine.

        Args:
          machine: a machine of `nx.machines`.
        """
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
