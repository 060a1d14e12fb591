"""What is found of a program: collectives, operations, and the memory of a device. All figures are those of one device."""

from __future__ import annotations

import dataclasses
from typing import Literal

__all__ = ["Collective", "Memory", "Operation", "Phase", "Step", "Totals"]

Phase = Literal["forward", "gradient"]


@dataclasses.dataclass(frozen=True)
class Collective:
    """A collective of a program over names.

    Attributes:
      kind: XLA's word for it, one of `nx.hlo.KINDS`.
      mesh_axes: the mesh axes over which it goes.
      group_size: the number of devices that take part together.
      names: the names that it is for, as text.
      bytes: the payload of one device, each time: the larger side, as in `nx.hlo.Collective`.
      wire_bytes: what one device must send at least on a ring, each time.
      trips: how often the loops around it run it.
      dtype: the element type, by NumPy's name, such as `"float32"`.
      operation: the operation of the model, such as `"nx.mean"`.
      source: the line of the user's file, such as `"model.py:12"`; empty where it is not known.
      phase: `"forward"`, or `"gradient"`.
      arrival: of what is sent because an array comes to a mapped function otherwise than it takes it: which one, such as `"argument 'w'"`
        or, computed before, `"float32[64,32]"`. Empty for what is sent within.
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


@dataclasses.dataclass(frozen=True)
class Operation:
    """What one device computes in one operation of a program.

    Attributes:
      kind: JAX's word for it, such as `"dot_general"`; `"fusion"` for elementwise operations that write one array.
      names: the names that the operation goes over, as text.
      flops: floating-point operations, each time. A multiplication and an addition are two.
      bytes: what is read from memory and written to it, each time.
      trips: how often the loops around it run it.
      dtype: the element type that it computes in, by NumPy's name.
      operation: the operation of the model, such as `"nx.einsum"`.
      source: the line of the user's file, such as `"model.py:12"`; empty where it is not known.
      phase: `"forward"`, or `"gradient"`.
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


#: What happens one after the other.
Step = Collective | Operation


@dataclasses.dataclass(frozen=True)
class Memory:
    """The memory of one device, in bytes.

    Attributes:
      arguments: what the program is given.
      results: what it returns.
      kept: what is kept for the gradient, by the line that made it: `{"model.py:12": bytes}`.
      peak: an estimate of the most that is held at one time, arguments and results included.
    """

    arguments: int
    results: int
    kept: dict[str, int]
    peak: int


@dataclasses.dataclass(frozen=True)
class Totals:
    """What a group of steps costs a device, loops multiplied out.

    Attributes:
      collectives: their number.
      bytes: their payload.
      wire_bytes: what the device must send at least for them.
      flops: the floating-point operations.
      bytes_accessed: what is read from memory and written to it.
    """

    collectives: int = 0
    bytes: int = 0
    wire_bytes: int = 0
    flops: float = 0.0
    bytes_accessed: int = 0

    def with_step(self, step: Step) -> Totals:
        """These and one more step."""
        n = step.trips
        if isinstance(step, Collective):
            return dataclasses.replace(
                self,
                collectives=self.collectives + n,
                bytes=self.bytes + n * step.bytes,
                wire_bytes=self.wire_bytes + n * step.wire_bytes,
            )
        return dataclasses.replace(self, flops=self.flops + n * step.flops, bytes_accessed=self.bytes_accessed + n * step.bytes)
