"""What is found of a program: collectives, operations, and the memory of a device. All figures are those of one device."""

from __future__ import annotations

import dataclasses
from typing import Literal

__all__ = ["Collective", "Memory", "Operation", "Phase", "Step"]

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
