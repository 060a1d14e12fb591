"""Records of the analysis of a program: collectives, copies, operations, and memory.

All figures are per device.
"""

from __future__ import annotations

import dataclasses
from typing import Literal

from namedax.ops.loops.pipeline_timetable import Schedule

__all__ = [
    "HOST_COPIES",
    "Collective",
    "HostCopy",
    "Memory",
    "Operation",
    "Phase",
    "PipelineRun",
    "Step",
    "Totals",
]

Phase = Literal["forward", "gradient"]
#: The kinds of `HostCopy`.
HOST_COPIES = ("host to device", "device to host")


@dataclasses.dataclass(frozen=True)
class Collective:
    """A collective of a program with named axes.

    Attributes:
      kind: the name of the collective in XLA, one of `nx.hlo.KINDS`.
      mesh_axes: its mesh axes.
      group_size: the number of devices that take part together.
      names: the axis names that it is for, as text.
      bytes: the payload of one device, per run: the larger side, as in `nx.hlo.Collective`.
      wire_bytes: the minimum number of bytes that one device sends on a ring, per run.
      trips: the number of runs in the surrounding loops.
      dtype: the dtype, by NumPy's name, such as `"float32"`.
      operation: the operation of the model, such as `"nx.mean"`.
      source: the line of the user's file, such as `"model.py:12"`; empty if it is unknown.
      phase: `"forward"`, or `"gradient"`.
      arrival: the array that is resharded on entry to a mapped function, such as `"argument 'w'"`
        or, for a computed array, `"float32[64,32]"`. Empty for collectives within a mapped
        function.
      loop: the number of the surrounding loop if collectives of that loop overlap with its
        computation, such as gathers that are prefetched; 0 (default) for other loops.
      is_ahead: True if no computation of its step of that loop waits for it. Default: False.
      is_free: True if it may run during another iteration of the innermost loop: its operands do
        not depend on the carry, or nothing in its iteration needs its result. Default: False.
      number: the number of the step in its program, from 1; 0 (default) if it is unknown.
      needs: the numbers of the steps whose results it needs. Default: none.
      loops: the surrounding loops from the outermost to the innermost, each as a pair of its number
        and its iterations. Default: none.
    """

    kind: str
    mesh_axes: tuple[str, ...]
    group_size: int
    names: tuple[str, ...]
    bytes: int
    wire_bytes: int
    trips: int
    dtype: str
    operation: str
    source: str
    phase: Phase
    arrival: str = ""
    loop: int = 0
    is_ahead: bool = False
    is_free: bool = dataclasses.field(default=False, compare=False)
    number: int = dataclasses.field(default=0, compare=False, repr=False)
    needs: tuple[int, ...] = dataclasses.field(default=(), compare=False, repr=False)
    loops: tuple[tuple[int, int], ...] = dataclasses.field(default=(), compare=False, repr=False)


@dataclasses.dataclass(frozen=True)
class HostCopy(Collective):
    """A copy between the memory of the host and that of a device, over the host link.

    Like a collective, it can overlap with computation. It has no mesh axes and no names,
    `group_size` and `wire_bytes` are 1 and 0, and `kind` is `"host to device"` or `"device to
    host"`.
    """


@dataclasses.dataclass(frozen=True)
class Operation:
    """The computation of one device in one operation of a program.

    Attributes:
      kind: the name of the operation in JAX, such as `"dot_general"`; `"fusion"` for elementwise
        operations that write one array.
      names: the axis names of the operation, as text.
      flops: floating-point operations, per run. A multiply-add counts as two.
      bytes: the bytes that are read from memory and written to it, per run.
      trips: the number of runs in the surrounding loops.
      dtype: the dtype of the computation, by NumPy's name.
      operation: the operation of the model, such as `"nx.einsum"`.
      source: the line of the user's file, such as `"model.py:12"`; empty if it is unknown.
      phase: `"forward"`, or `"gradient"`.
      loop: as in `Collective`, like `number`, `needs` and `loops`.
    """

    kind: str
    names: tuple[str, ...]
    flops: float
    bytes: int
    trips: int
    dtype: str
    operation: str
    source: str
    phase: Phase
    loop: int = 0
    number: int = dataclasses.field(default=0, compare=False, repr=False)
    needs: tuple[int, ...] = dataclasses.field(default=(), compare=False, repr=False)
    loops: tuple[tuple[int, int], ...] = dataclasses.field(default=(), compare=False, repr=False)


#: An element of the sequence that a device executes.
Step = Collective | Operation


@dataclasses.dataclass(frozen=True)
class Memory:
    """The memory of one device, in bytes.

    Attributes:
      arguments: the arguments of the program in the memory of the device.
      results: its results there.
      kept: the residuals for the gradient, by the line that made them: `{"model.py:12": bytes}`.
      peak: an estimate of the peak, arguments and results included.
      host: the arguments and results in the memory of the host, not included above. Default: 0.
    """

    arguments: int
    results: int
    kept: dict[str, int]
    peak: int
    host: int = 0


@dataclasses.dataclass(frozen=True)
class PipelineRun:
    """One pipeline of a program.

    Attributes:
      schedule: the schedule, such as `"1f1b"`.
      stages: the number of stages.
      rounds: the number of groups of layers on each stage.
      microbatches: the number of microbatches.
      passes: the loops of the program: `"forward"`, `"gradient"` or both.
      columns: the number of columns of these loops, each as long as one cell.
      idle: the number of columns in which a stage is idle.
      stored: the number of microbatches of which a stage stores its input for the gradient at a
        time, per group of layers; 0 without a gradient.
    """

    schedule: str
    stages: int
    rounds: int
    microbatches: int
    passes: tuple[Phase, ...]
    columns: int
    idle: int
    stored: int

    @classmethod
    def of(cls, schedule: Schedule, passes: tuple[Phase, ...]) -> PipelineRun:
        """Return the figures of a schedule with these loops."""
        table, forward = schedule.table, (schedule.ticks, schedule.stages - 1)
        backward = forward if schedule.name == "gpipe" else (table.columns, table.idle)
        loops = [forward if phase == "forward" else backward for phase in passes]
        return cls(
            schedule.name,
            schedule.stages,
            schedule.rounds,
            schedule.microbatches,
            passes,
            sum(columns for columns, _ in loops),
            sum(idle for _, idle in loops),
            table.input_slots if "gradient" in passes else 0,
        )

    @property
    def bubble(self) -> float:
        """The fraction of the columns in which a stage is idle."""
        return self.idle / self.columns

    def cells(self) -> list[list[tuple[str, str] | None]]:
        """Return rows of stages: the kind of each cell and its microbatch, `None` where idle.

        With several groups of layers on a stage, the group follows after a dot.
        """
        schedule = Schedule(self.stages, self.rounds, self.microbatches, self.schedule)

        def cell(kind: str, number: int) -> tuple[str, str]:
            microbatch, turn = schedule.work(number)
            return kind, f"{microbatch}.{turn}" if self.rounds > 1 else f"{microbatch}"

        return [[cell(*each) if each else None for each in row] for row in schedule.table.cells]


@dataclasses.dataclass(frozen=True)
class Totals:
    """The total cost of a group of steps for one device, with loops multiplied out.

    Attributes:
      collectives: the number of collectives.
      bytes: their payload.
      wire_bytes: the minimum number of bytes that the device sends for them.
      flops: the floating-point operations.
      bytes_accessed: the bytes that are read from memory and written to it.
      host_bytes: the bytes that are copied over the host link.
    """

    collectives: int = 0
    bytes: int = 0
    wire_bytes: int = 0
    flops: float = 0.0
    bytes_accessed: int = 0
    host_bytes: int = 0

    def with_step(self, step: Step) -> Totals:
        """Return these totals plus one more step."""
        n = step.trips
        if isinstance(step, HostCopy):
            return dataclasses.replace(self, host_bytes=self.host_bytes + n * step.bytes)
        if isinstance(step, Collective):
            return dataclasses.replace(
                self,
                collectives=self.collectives + n,
                bytes=self.bytes + n * step.bytes,
                wire_bytes=self.wire_bytes + n * step.wire_bytes,
            )
        return dataclasses.replace(
            self,
            flops=self.flops + n * step.flops,
            bytes_accessed=self.bytes_accessed + n * step.bytes,
        )
