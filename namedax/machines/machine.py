"""Machines: the figures of one device, and estimates of step times on it."""

from __future__ import annotations

import dataclasses
import functools
import html
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeAlias

import jax.numpy as jnp
import numpy as np

from namedax.core.names import DType, Mesh
from namedax.core.records import Record
from namedax.core.text_tables import aligned, seconds_text
from namedax.errors import ArgumentError, ArgumentTypeError, show_names
from namedax.insight.analysis.records import Collective, HostCopy, Operation, Step
from namedax.machines.collectives import seconds_of, smallest_in_two_levels
from namedax.machines.links import Level, Link, Links, levels_of, placed, positive, sizes_of
from namedax.machines.saving import arguments_of, links_as_list, links_from_list
from namedax.machines.schedule import Cost, Times, is_small, schedule

__all__ = ["Machine"]

_RateOf: TypeAlias = Callable[[str], tuple[float, str]]
_LevelsOver: TypeAlias = Callable[[tuple[str, ...], int], tuple[Level, ...]]


@dataclasses.dataclass(frozen=True)
class Machine:
    """One device of a machine, and its links to the others.

    Attributes:
      flops: peak operations per second by dtype, `{"bfloat16": 197e12}`. A multiply-add counts as
        two. See `peak` for dtypes that are not listed.
      memory: the memory in bytes.
      bandwidth: the bytes per second between memory and arithmetic.
      links: the link of each mesh axis, `{"data": Link(...)}`. The key `...` stands for all axes
        that are not listed. A tuple of mesh axes is a measured link for collectives over exactly
        these axes; without it, the time follows from the links of the axes.
      overlap: whether collectives overlap with all computation that does not need their results.
        Otherwise only those of rings and of `prefetch=1` do. Default: False.
      name: the name in messages; default: `"this machine"`.
      launch: the seconds to start an operation. An operation on a few numbers (64 bytes) is assumed
        to be fused with another. Default: 0.
      efficiency: the fraction of the peaks in `flops` that large products reach: a number for all
        dtypes, or a dict by dtype, `{"bfloat16": 0.8}`, in which a dtype that is not listed has 1.
        Default: 1.
      host_bandwidth: the bytes per second between the memory of the host and a device, in each
        direction. Copies overlap as collectives do. Default: None, unknown; then a program with
        such copies is an error.
      memory_efficiency: the fraction of `bandwidth` that large operations reach. Default: 1.
      sources: the sources of the figures, as text. Default: `()`.

    Raises:
      ArgumentError: a figure is not positive, a fraction is greater than 1, or a dtype or a link is
        invalid.

    >>> import namedax as nx
    >>> machine = nx.machines.Machine(
    ...     flops={"float32": 1e12}, memory=16e9, bandwidth=1e11, name="mine",
    ...     links={...: nx.machines.Link(1e9, 1e-6, "switch")},
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
    efficiency: float | Mapping[str, float] = dataclasses.field(default=1.0, kw_only=True)
    memory_efficiency: float = dataclasses.field(default=1.0, kw_only=True)
    host_bandwidth: float | None = dataclasses.field(default=None, kw_only=True)
    sources: tuple[str, ...] = dataclasses.field(default=(), kw_only=True, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.flops, Mapping) or not self.flops:
            raise ArgumentError(
                f"Machine: flops={self.flops!r} must map dtypes to peak operations per second, such"
                " as {'bfloat16': 197e12}."
            )
        for name, value in self.flops.items():
            _check_dtype("flops", name)
            positive("Machine", f"flops[{name!r}]", value, "operations per second")
        positive("Machine", "memory", self.memory, "bytes")
        positive("Machine", "bandwidth", self.bandwidth, "bytes per second")
        if self.host_bandwidth is not None:
            positive("Machine", "host_bandwidth", self.host_bandwidth, "bytes per second")
        if self.launch != 0:
            positive("Machine", "launch", self.launch, "seconds")
        if not isinstance(self.overlap, bool):
            raise ArgumentError(f"Machine: overlap={self.overlap!r} must be True or False.")
        if not isinstance(self.links, Mapping) or not all(
            isinstance(link, Link) for link in self.links.values()
        ):
            raise ArgumentError(
                f"Machine: links={self.links!r} must map mesh axes to links, such as {{'data':"
                " nx.machines.Link(...)}. The key ... stands for all other axes."
            )
        # Private copies, so that later changes by the caller have no effect.
        object.__setattr__(self, "flops", _by_name(self.flops))
        object.__setattr__(self, "links", dict(self.links))
        self._check_efficiencies()
        if not isinstance(self.name, str):
            raise ArgumentError(f"Machine: name={self.name!r} must be a string, such as 'v5e'.")
        if not isinstance(self.sources, (tuple, list)) or not all(
            isinstance(text, str) for text in self.sources
        ):
            raise ArgumentError(
                f"Machine: sources={self.sources!r} must be a tuple of strings, such as"
                " ('a data sheet',)."
            )
        object.__setattr__(self, "sources", tuple(self.sources))

    def _check_efficiencies(self) -> None:
        """Check the fractions of the peaks and of the bandwidth; `flops` has been checked."""
        _fraction("memory_efficiency", self.memory_efficiency)
        if not isinstance(self.efficiency, Mapping):
            _fraction("efficiency", self.efficiency)
            return
        for name, value in self.efficiency.items():
            _check_dtype("efficiency", name)
            _fraction(f"efficiency[{name!r}]", value)
        by_name = _by_name(self.efficiency)
        if unknown := [name for name in by_name if name not in self.flops]:
            raise ArgumentError(
                f"Machine: efficiency has the dtypes {show_names(unknown)}, which flops lacks."
                f" Choose from {show_names(self.flops)}."
            )
        object.__setattr__(self, "efficiency", by_name)

    def __str__(self) -> str:
        return _as_text(self)

    def _repr_html_(self) -> str:
        return _as_html(self)

    def to_dict(self) -> dict[str, object]:
        """Return the figures as a dict that JSON can store; `from_dict` reads it.

        Raises:
          ArgumentError: a mesh axis of `links` is not a string.

        >>> import json, namedax as nx
        >>> text = json.dumps(nx.machines.h100.to_dict())
        >>> nx.machines.Machine.from_dict(json.loads(text)) == nx.machines.h100
        True
        """
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return {
            **fields,
            "flops": dict(self.flops),
            "links": links_as_list(self.links, Link.to_dict),
            "efficiency": (
                dict(self.efficiency) if isinstance(self.efficiency, Mapping) else self.efficiency
            ),
            "sources": list(self.sources),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, object]) -> Machine:
        """Return the machine of a dict that `to_dict` made.

        Args:
          data: the dict. Fields with a default may be missing.

        Raises:
          ArgumentError: a key is missing or unknown, or a figure is invalid.

        >>> import namedax as nx
        >>> small = {"flops": {"float32": 1e12}, "memory": 16e9, "bandwidth": 1e11, "links": []}
        >>> nx.machines.Machine.from_dict(small).peak("float32")
        1000000000000.0
        """
        fields = [field.name for field in dataclasses.fields(cls)]
        arguments = arguments_of("Machine.from_dict", data, fields, fields[:4])
        arguments["links"] = links_from_list(arguments["links"], Link.from_dict)
        return cls(**arguments)

    def with_links(self, links: Links) -> Machine:
        """Return the machine with other links for these mesh axes.

        Args:
          links: the links by mesh axis; `...` stands for all that are not listed.

        >>> import namedax as nx
        >>> pods = nx.machines.v5p.with_links({"pod": nx.machines.DCN_V5P})
        >>> pods.links["pod"].kind
        'switch'
        """
        return dataclasses.replace(self, links={**self.links, **links})

    def layout(self, mesh: Mesh | Mapping[str, int]) -> dict[str, tuple[tuple[int, Link], ...]]:
        """Return the links of the mesh axes.

        The last axes fill the links that connect few devices, the others use the links beyond.

        Args:
          mesh: a mesh, or a dict of the sizes of its axes.

        Returns:
          For each mesh axis, the number of devices along it for each link, from the slowest link to
          the fastest; empty for an axis of one device. Mesh axes of one size with equal layouts are
          interchangeable.

        Raises:
          MeshError: the machine has no link for a mesh axis, or the mesh does not fit on it.

        >>> import namedax as nx
        >>> layout = nx.machines.h100.layout({"data": 16, "model": 4})
        >>> # eight nodes, and two such groups of four in a node
        >>> [(size, link.reach) for size, link in layout["data"]]
        [(8, None), (2, 8)]
        """
        sizes = sizes_of(mesh) or {}
        return placed(self.links, sizes, sizes, self.name)

    def peak(self, dtype: DType) -> float:
        """Return the operations per second of a dtype.

        A dtype that is not listed counts as the narrowest listed dtype of its kind (floating-point
        or integer) that is at least as wide; among several, the slowest. If it is wider than all, a
        product of numbers `k` times as wide counts as `k * k` products of the widest. Complex
        numbers have a quarter of the rate of their parts. If no dtype of its kind is listed, all
        listed dtypes are considered. `Times.assumptions` lists the cases that mattered.

        Args:
          dtype: a dtype or its name.

        >>> import namedax as nx
        >>> nx.machines.v5e.peak("float16") == nx.machines.v5e.peak("bfloat16")
        True
        >>> nx.machines.v5e.peak("float64") == nx.machines.v5e.peak("float32") / 4
        True
        """
        listed, divisor, _ = self._counted_as(_name_of(dtype))
        return self.flops[listed] / divisor

    def rate(self, dtype: DType) -> float:
        """Return the operations per second that large products of a dtype reach.

        It is `peak` times `efficiency`. A dtype that is not listed in `flops` has the efficiency of
        the dtype that `peak` takes for it.

        Args:
          dtype: a dtype or its name.

        >>> import dataclasses, namedax as nx
        >>> real = dataclasses.replace(nx.machines.v5e, efficiency={"bfloat16": 0.5})
        >>> real.peak("bfloat16"), real.rate("bfloat16"), real.rate("float16")
        (197000000000000.0, 98500000000000.0, 98500000000000.0)
        """
        return self._rate(_name_of(dtype))[0]

    def _efficiency_of(self, listed: str) -> float:
        if isinstance(self.efficiency, Mapping):
            return self.efficiency.get(listed, 1.0)
        return self.efficiency

    def two_level_from(
        self,
        slow: str,
        fast: str | tuple[str, ...],
        mesh: Mesh | Mapping[str, int],
    ) -> int:
        """Return the payload from which on an all-reduce is faster in two levels.

        The three collectives of two levels are compared with one all-reduce over all devices at the
        speed and the latency of the slow link. A runtime may split its all-reduce itself; then two
        levels send as many bytes. Pass the result to `nx.xmap`, as in `slow_axes={"dcn": ...}`.

        Args:
          slow: the mesh axis of the slow link.
          fast: the mesh axis or axes of the fast link.
          mesh: a mesh, or a dict of the sizes of its axes.

        Returns:
          The number of bytes; `sys.maxsize` if two levels are never faster.

        Raises:
          MeshError: the mesh lacks an axis, or the machine has no link for it.

        >>> import dataclasses, namedax as nx
        >>> nodes = {"node": 4, "gpu": 8}
        >>> nx.machines.h100.two_level_from("node", "gpu", nodes)
        1388088
        >>> slow_start = dataclasses.replace(nx.machines.h100, launch=2e-5)
        >>> slow_start.two_level_from("node", "gpu", nodes)
        2710077
        """
        sizes = sizes_of(mesh) or {}
        inner = (fast,) if isinstance(fast, str) else tuple(fast)

        def levels(axes: tuple[str, ...]) -> tuple[Level, ...]:
            count = math.prod(sizes.get(axis, 1) for axis in axes)
            return levels_of(self.links, axes, count, sizes, self.name)

        return smallest_in_two_levels(levels((slow,)), levels(inner), 2 * self.launch)

    def time_of(self, step: Step, mesh: Mesh | Mapping[str, int] | None = None) -> float:
        """Return the time of one step, in seconds, over all runs in its surrounding loops.

        Args:
          step: a collective or an operation, from a report's `steps`.
          mesh: the mesh of the program, or a dict of the sizes of its axes. Collectives need it if
            they use several mesh axes, or if a link connects a limited number of devices. Default:
            None.

        Raises:
          ArgumentTypeError: it is neither.
          MeshError: the machine has no link for a mesh axis, or the mesh does not fit on it.
        """
        return self._costs(mesh)(step).seconds

    def time(self, steps: Iterable[Step], mesh: Mesh | Mapping[str, int] | None = None) -> Times:
        """Return the times of steps, one after the other or overlapping.

        Args:
          steps: the collectives and operations of a report, in program order.
          mesh: as in `time_of`.

        Returns:
          The times, with a schedule.

        Raises:
          ArgumentTypeError: a step is neither a collective nor an operation.
          MeshError: the machine has no link for a mesh axis, or the mesh does not fit on it.
        """
        return schedule(list(steps), self._costs(mesh), self.overlap)

    def _costs(self, mesh: Mesh | Mapping[str, int] | None) -> Callable[[Step], Cost]:
        """Return a function from a step to its cost on this mesh."""
        sizes = sizes_of(mesh)
        # Cached, because a program has thousands of steps of few kinds.
        rate = functools.cache(self._rate)
        levels = functools.cache(
            lambda axes, size: levels_of(self.links, axes, size, sizes, self.name)
        )
        return lambda step: self._cost(step, rate, levels)

    def _cost(self, step: Step, rate_of: _RateOf, levels_over: _LevelsOver) -> Cost:
        if isinstance(step, Operation):
            rate, assumption = rate_of(step.dtype)
            computing = step.flops / rate
            moving = step.bytes / (self.bandwidth * self.memory_efficiency)
            bound, text = ("compute", assumption) if computing > moving else ("memory", "")
            starting = 0.0 if is_small(step) else self.launch
            return Cost(step.trips * (max(computing, moving) + starting), bound, text)
        if isinstance(step, HostCopy):
            if self.host_bandwidth is None:
                raise ArgumentError(
                    f"Machine.time: the program copies arrays from the {step.kind} at"
                    f" {step.source or 'an unknown line'}, and {self.name} has no host_bandwidth."
                    " Pass dataclasses.replace(machine, host_bandwidth=64e9)."
                )
            return Cost(step.trips * step.bytes / self.host_bandwidth, "communication")
        if isinstance(step, Collective):
            if step.group_size == 1 or not step.mesh_axes:
                return Cost(0.0, "communication")
            levels = levels_over(step.mesh_axes, step.group_size)
            return Cost(step.trips * seconds_of(step.kind, step.bytes, levels), "communication")
        raise ArgumentTypeError(
            "Machine.time: a step must be a collective or an operation of a report; got"
            f" {type(step).__name__}. Use machine.time(report.steps, report.mesh)."
        )

    def _rate(self, dtype: str) -> tuple[float, str]:
        """Return the operations per second that products reach, and the assumption behind them."""
        listed, divisor, text = self._counted_as(dtype)
        return self.flops[listed] * self._efficiency_of(listed) / divisor, text

    def _counted_as(self, dtype: str) -> tuple[str, float, str]:
        """Return the listed dtype that stands for a dtype, a divisor of its rate, and the reason.

        The reason is text, empty for listed dtypes.
        """
        if dtype in self.flops:
            return dtype, 1.0, ""
        mine = _dtype_of(dtype)
        if mine is None:
            return (
                min(self.flops, key=self.flops.__getitem__),
                1.0,
                f"{dtype} at the rate of the slowest type of {self.name}",
            )
        if jnp.issubdtype(mine, jnp.complexfloating):
            part = "float32" if mine.itemsize == 8 else "float64"
            listed, divisor, _ = self._counted_as(part)
            return (
                listed,
                4 * divisor,
                f"{dtype} at a quarter of the rate of {part} on {self.name}",
            )
        floating = jnp.issubdtype(mine, jnp.floating)
        every = [jnp.dtype(name) for name in self.flops]
        # A fitted machine may list complex numbers, which stand for no other dtype.
        listed_types = [
            other for other in every if not jnp.issubdtype(other, jnp.complexfloating)
        ] or every
        same = [
            other for other in listed_types if jnp.issubdtype(other, jnp.floating) == floating
        ] or listed_types
        wide = [other for other in same if other.itemsize >= mine.itemsize]
        size = (
            min(other.itemsize for other in wide) if wide else max(other.itemsize for other in same)
        )
        chosen = min(
            (other for other in same if other.itemsize == size),
            key=lambda other: self.flops[other.name],
        )
        products = 1 if wide else (mine.itemsize / size) ** 2
        text = f"{dtype} at the rate of {chosen.name} on {self.name}" + (
            f", divided by {products:g}" if products > 1 else ""
        )
        return chosen.name, products, text


def _by_name(figures: Mapping[str, float]) -> dict[str, float]:
    return {jnp.dtype(name).name: float(value) for name, value in figures.items()}


def _name_of(dtype: DType) -> str:
    return str(dtype) if isinstance(dtype, str) else jnp.dtype(dtype).name


def _check_dtype(field: str, name: str) -> None:
    if _dtype_of(name) is None:
        raise ArgumentError(
            f"Machine: {field} has the key {name!r}, which is not a dtype. Use a name such as"
            " 'bfloat16'."
        )


def _fraction(name: str, value: object) -> None:
    if (
        not isinstance(value, (int, float, np.floating))
        or isinstance(value, bool)
        or not 0 < value <= 1
    ):
        raise ArgumentError(
            f"Machine: {name}={value!r} must be a fraction greater than 0 and at most 1, such as"
            " 0.8."
        )


def _dtype_of(name: DType) -> np.dtype | None:
    try:
        return jnp.dtype(name)
    except TypeError:
        return None


# --- tables ---------------------------------------------------------------------------------------


class _Section(Record):
    """A part of the table: its title, and rows of cells."""

    title: str
    rows: list[tuple[str, ...]]


def _as_text(machine: Machine) -> str:
    """Return a table of the figures, one section after the other."""
    lines = [_title(machine)]
    for section in _sections(machine):
        lines.append(f"{section.title}:")
        lines += aligned(section.rows, indent="  ")
    return "\n".join(lines)


def _as_html(machine: Machine) -> str:
    """Return the same table in HTML, without colors, so that it is legible in every theme."""
    parts = [f"<table><caption>{html.escape(_title(machine))}</caption>"]
    for section in _sections(machine):
        count = max(map(len, section.rows))
        parts.append(
            f'<tbody><tr><th colspan="{count}" scope="rowgroup" style="text-align:left">'
            f"{html.escape(section.title)}</th></tr>"
        )
        for row in section.rows:
            cells = "".join(f'<td style="text-align:left">{html.escape(cell)}</td>' for cell in row)
            parts.append(f"<tr>{cells}</tr>")
        parts.append("</tbody>")
    return "".join([*parts, "</table>"])


def _title(machine: Machine) -> str:
    text = f"{machine.name}: {_memory(machine.memory)} at {_quantity(machine.bandwidth, 'B/s')}"
    if machine.memory_efficiency != 1:
        text += f" ({_percent(machine.memory_efficiency)} of it in estimates)"
    if machine.launch:
        text += f"; an operation starts in {seconds_text(machine.launch)}"
    if machine.host_bandwidth is not None:
        text += f"; {_quantity(machine.host_bandwidth, 'B/s')} from and to the host"
    return text + ("; communication overlaps with computation" if machine.overlap else "")


def _sections(machine: Machine) -> Iterator[_Section]:
    peaks: list[tuple[str, ...]] = [
        (dtype, _quantity(peak, "FLOP/s"), _percent(machine.rate(dtype) / peak))
        for dtype, peak in machine.flops.items()
    ]
    yield _Section("peak operations per second, and the part that estimates use", peaks)
    links = [
        row
        for key, link in machine.links.items()
        for row in _link_rows("all axes" if key is ... else _axes(key), link)
    ]
    if links:
        yield _Section("links of mesh axes for each device, and the part that estimates use", links)
    if machine.sources:
        yield _Section("sources", [(text,) for text in machine.sources])


def _axes(key: object) -> str:
    return ", ".join(map(str, key)) if isinstance(key, tuple) else str(key)


def _link_rows(name: str, link: Link) -> Iterator[tuple[str, ...]]:
    for depth, one in enumerate(_outwards(link)):
        parts = sorted({part for _, part in one.by_size} or {1.0})
        reached = " to ".join(map(_percent, parts[:: max(1, len(parts) - 1)]))
        waits = f"{seconds_text(one.latency)} latency"
        if one.start:
            waits += f", {seconds_text(one.start)} to start"
        yield (
            "  " * depth + (name if not depth else "beyond"),
            one.kind,
            _quantity(one.bandwidth, "B/s"),
            reached,
            waits,
            f"{one.reach or 'any number of'} {'groups' if depth else 'devices'}",
        )


def _outwards(link: Link) -> Iterator[Link]:
    now: Link | None = link
    while now is not None:
        yield now
        now = now.beyond


def _percent(fraction: float) -> str:
    return f"{100 * fraction:.3g} %"


def _memory(value: float) -> str:
    if value % 2**30 == 0 and value % 10**9:
        return f"{value / 2**30:g} GiB"
    return _quantity(value, "B")


def _quantity(value: float, unit: str) -> str:
    power = min(5, max(0, math.floor(math.log10(value) / 3 + 1e-12)))
    return f"{value / 1000**power:.4g} {('', 'k', 'M', 'G', 'T', 'P')[power]}{unit}"
