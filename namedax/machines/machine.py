"""A machine: what one device computes, holds and sends in a second, and what steps of a program take on it."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import jax.numpy as jnp

from namedax.analysis.records import Collective, Operation, Step
from namedax.errors import ArgumentError, ArgumentTypeError
from namedax.machines.collectives import seconds_of
from namedax.machines.links import Link, positive
from namedax.machines.places import Links, levels_of, placed, sizes_of
from namedax.machines.schedule import Cost, Times, is_small, schedule

__all__ = ["Machine"]


@dataclasses.dataclass(frozen=True)
class Machine:
    """One device of a machine, and what connects it to the others.

    Attributes:
      flops: peak operations per second by element type, `{"bfloat16": 197e12}`. A multiplication and an addition are two. See `peak` for
        types that are not listed.
      memory: bytes.
      bandwidth: bytes per second between memory and arithmetic.
      links: what each mesh axis goes over, `{"data": Link(...)}`. The key `...` is all axes that are not listed. A tuple of mesh axes is a
        collective over exactly these, where it is measured; otherwise it follows from those of its axes.
      overlap: whether collectives are hidden behind computation as far as there is any. Without it only those of a ring are (the
        documentation of `namedax.machines.schedule` says when).
      name: for messages.
      launch: seconds that it takes to start an operation. One on a few numbers (64 bytes) is taken to be part of another.

    Raises:
      ArgumentError: a figure that is not positive, an element type or a link that is none.

    >>> import namedax as nx
    >>> machine = nx.machines.Machine(
    ...     flops={"float32": 1e12}, memory=16e9, bandwidth=1e11, links={...: nx.machines.Link(1e9, 1e-6, "switch")}, name="mine"
    ... )
    >>> machine.peak("float32")
    1000000000000.0
    """

    flops: Mapping[str, float]
    memory: float
    bandwidth: float
    links: Links
    overlap: bool = False
    name: str = dataclasses.field(default="this machine", kw_only=True)
    launch: float = dataclasses.field(default=0.0, kw_only=True)

    def __post_init__(self) -> None:
        if not isinstance(self.flops, Mapping) or not self.flops:
            raise ArgumentError(
                f"Machine: flops={self.flops!r} must say the peak operations per second by element type, such as {{'bfloat16': 197e12}}."
            )
        for name, value in self.flops.items():
            if _element_type(name) is None:
                raise ArgumentError(
                    f"Machine: flops has the key {name!r}, which is not an element type; write its name, 'bfloat16'."
                )
            positive("Machine", f"flops[{name!r}]", value, "operations per second")
        positive("Machine", "memory", self.memory, "bytes")
        positive("Machine", "bandwidth", self.bandwidth, "bytes per second")
        if self.launch != 0:
            positive("Machine", "launch", self.launch, "seconds")
        if not isinstance(self.overlap, bool):
            raise ArgumentError(f"Machine: overlap={self.overlap!r} must be True or False.")
        if not isinstance(self.links, Mapping) or not all(isinstance(link, Link) for link in self.links.values()):
            raise ArgumentError(
                f"Machine: links={self.links!r} must say what each mesh axis goes over, {{'data': nx.machines.Link(...)}}; the key ... "
                "stands for all others."
            )
        # Copies, which no one else changes.
        object.__setattr__(self, "flops", {_element_type(name).name: float(value) for name, value in self.flops.items()})
        object.__setattr__(self, "links", dict(self.links))

    def with_links(self, links: Links) -> Machine:
        """The machine with other links for these mesh axes.

        Args:
          links: by mesh axis; `...` stands for all that are not listed.

        >>> import namedax as nx
        >>> pods = nx.machines.v5p.with_links({"pod": nx.machines.DCN_V5P})
        >>> pods.links["pod"].kind
        'switch'
        """
        return dataclasses.replace(self, links={**self.links, **links})

    def layout(self, mesh: Any) -> dict[str, tuple[tuple[int, Link], ...]]:
        """What the mesh axes go over: the last ones fill the links that join few devices, the others go beyond.

        Args:
          mesh: a mesh, or a dict of the sizes of its axes.

        Returns:
          For each mesh axis how many devices along it which link joins, from the slowest link to the fastest; nothing for an axis of one
          device. Mesh axes of one size with equal layouts are interchangeable.

        Raises:
          MeshError: the machine does not know what a mesh axis goes over, or has no room for the mesh.

        >>> import namedax as nx
        >>> layout = nx.machines.h100.layout({"data": 16, "model": 4})
        >>> [(size, link.reach) for size, link in layout["data"]]  # eight nodes, and two such groups of four in a node
        [(8, None), (2, 8)]
        """
        sizes = sizes_of(mesh) or {}
        return placed(self.links, sizes, sizes, self.name)

    def peak(self, dtype: Any) -> float:
        """The operations per second of an element type.

        One that is not listed counts as the narrowest listed type of its kind (floating-point numbers or integers) that is at least as wide; of
        several the slowest. If it is wider than all, a product of numbers `k` times as wide is `k * k` products of the widest.
        Complex numbers have a quarter of the rate of their parts. A type of which no kind is listed is taken among all that are. `Times`
        says in its `assumptions` where this mattered.

        Args:
          dtype: an element type or its name.

        >>> import namedax as nx
        >>> nx.machines.v5e.peak("float16") == nx.machines.v5e.peak("bfloat16")
        True
        >>> nx.machines.v5e.peak("float64") == nx.machines.v5e.peak("float32") / 4
        True
        """
        return self._rate(str(dtype) if isinstance(dtype, str) else jnp.dtype(dtype).name)[0]

    def time_of(self, step: Step, mesh: Any = None) -> float:
        """How long one step takes, in seconds, over all runs of the loops around it.

        Args:
          step: a collective or an operation, of a report's `steps`.
          mesh: the mesh of the program, or a dict of the sizes of its axes. Needed by collectives if several mesh axes are meant, or a link
            joins a certain number of devices only.

        Raises:
          ArgumentTypeError: it is neither.
          MeshError: the machine does not know what a mesh axis goes over, or has no room for the mesh.
        """
        return self._costs(mesh)(step).seconds

    def time(self, steps: Iterable[Step], mesh: Any = None) -> Times:
        """How long steps take, one after the other or side by side.

        Args:
          steps: of a report: collectives and operations in the order of the program.
          mesh: as in `time_of`.

        Returns:
          The times, with a schedule.

        Raises:
          ArgumentTypeError: a step is neither a collective nor an operation.
          MeshError: the machine does not know what a mesh axis goes over, or has no room for the mesh.
        """
        return schedule(list(steps), self._costs(mesh), self.overlap)

    def _costs(self, mesh: Any) -> Callable[[Step], Cost]:
        """What a step costs on this mesh."""
        sizes = sizes_of(mesh)
        # A program has thousands of steps, of few kinds.
        rate = functools.cache(self._rate)
        levels = functools.cache(lambda axes, size: levels_of(self.links, axes, size, sizes, self.name))
        return lambda step: self._cost(step, rate, levels)

    def _cost(self, step: Step, rate_of: Any, levels_over: Any) -> Cost:
        if isinstance(step, Operation):
            rate, assumption = rate_of(step.dtype)
            computing, moving = step.flops / rate, step.bytes / self.bandwidth
            bound, text = ("compute", assumption) if computing > moving else ("memory", "")
            starting = 0.0 if is_small(step) else self.launch
            return Cost(step.trips * (max(computing, moving) + starting), bound, text)
        if isinstance(step, Collective):
            if step.group_size == 1 or not step.mesh_axes:
                return Cost(0.0, "communication")
            levels = levels_over(step.mesh_axes, step.group_size)
            return Cost(step.trips * seconds_of(step.kind, step.bytes, levels), "communication")
        raise ArgumentTypeError(
            f"Machine.time: takes the steps of a report, collectives and operations; got {type(step).__name__}. "
            "Write machine.time(report.steps, report.mesh)."
        )

    def _rate(self, dtype: str) -> tuple[float, str]:
        """Operations per second, and what was assumed."""
        if dtype in self.flops:
            return self.flops[dtype], ""
        mine = _element_type(dtype)
        if mine is None:
            return min(self.flops.values()), f"{dtype} at the rate of the slowest type of {self.name}"
        if jnp.issubdtype(mine, jnp.complexfloating):
            part = "float32" if mine.itemsize == 8 else "float64"
            return self._rate(part)[0] / 4, f"{dtype} at a quarter of the rate of {part} on {self.name}"
        floating = jnp.issubdtype(mine, jnp.floating)
        listed = [_element_type(name) for name in self.flops]
        same = [other for other in listed if jnp.issubdtype(other, jnp.floating) == floating] or listed
        wide = [other for other in same if other.itemsize >= mine.itemsize]
        size = min(other.itemsize for other in wide) if wide else max(other.itemsize for other in same)
        chosen = min((other for other in same if other.itemsize == size), key=lambda other: self.flops[other.name])
        products = 1 if wide else (mine.itemsize / size) ** 2
        text = f"{dtype} at the rate of {chosen.name} on {self.name}" + (f", divided by {products:g}" if products > 1 else "")
        return self.flops[chosen.name] / products, text


def _element_type(name: Any) -> Any:
    try:
        return jnp.dtype(name)
    except TypeError:
        return None
