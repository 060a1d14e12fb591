"""Explanation of a layout's cost, in one line, and advice on second names for axes, in sentences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from namedax.analysis.records import Collective
from namedax.analysis.report import Report
from namedax.errors import show_names
from namedax.hlo import size_text
from namedax.machines import Machine, Times
from namedax.planning.program import Census, Held
from namedax.resources.assignment import parse_resources

__all__ = ["advice", "reason", "uneven_advice"]

# Smaller arrays are not reported: in bytes, and as a fraction of the peak memory of a device.
_LARGE, _SHARE = 1 << 20, 0.02


def reason(report: Report, machine: Machine, mesh: Mapping[str, int], times: Times) -> str:
    """Describe the main costs of a step of a layout, its largest communication, and the names of that communication."""
    whole = times.compute + times.memory + times.communication
    if not whole:
        return "computes and sends nothing"
    parts = (
        ("computes", times.compute),
        ("moves memory", times.memory),
        ("sends", times.communication),
    )
    shares = ", ".join(
        f"{verb} {part / whole:.0%}" for verb, part in sorted(parts, key=lambda p: -p[1]) if part
    )
    groups: dict[tuple[str, tuple[str, ...], tuple[str, ...]], float] = {}
    sent: Counter[tuple[str, tuple[str, ...], tuple[str, ...]]] = Counter()
    for step in report.collectives:
        key = (step.kind, step.mesh_axes, step.names)
        groups[key] = groups.get(key, 0.0) + machine.time_of(step, mesh)
        sent[key] += step.wire_bytes * step.trips
    if not groups:
        return f"{shares}; sends nothing"
    (kind, axes, names), seconds = max(groups.items(), key=lambda item: item[1])
    words = f" for {', '.join(names)}" if names else ""
    size = size_text(sent[kind, axes, names])
    return f"{shares}; most in {kind}{words} over {'+'.join(axes)} ({size}, {seconds / whole:.0%})"


def advice(
    report: Report, axis_resources: Mapping[Hashable, Any], mesh: Mapping[str, int], census: Census
) -> Iterator[str]:
    """Yield advice on second names for axes, if existing names prevent a better layout.

    `census.apart` has all pairs of names that are known to occur in one value.
    """
    assignment = parse_resources(axis_resources)
    for axis, size in mesh.items():
        lives = [name for name, axes in assignment.items() if axis in axes]
        if size > 1 and lives:
            yield from _stored_whole(axis, size, lives, census, _SHARE * report.memory.peak)
            yield from _left_whole(axis, size, report)


def uneven_advice(left_out: Mapping[Hashable, Sequence[int]], sizes: Mapping[Hashable, int]) -> str:
    """Return a sentence on the names that were not mapped because their sizes do not divide; empty if there are none.

    >>> uneven_advice({"vocab": [4, 8]}, {"vocab": 50258})
    "Not tried because the size does not divide: 'vocab' of size 50258 over 4 or 8 devices. Pass uneven=['vocab'] to try it with
    padding."
    """
    if not left_out:
        return ""
    each = [
        f"{name!r} of size {sizes[name]} over {_numbers(counts)} devices"
        for name, counts in left_out.items()
    ]
    subject = "the size does" if len(each) == 1 else "the sizes do"
    return (
        f"Not tried because {subject} not divide: {', '.join(each)}. Pass uneven={list(left_out)!r}"
        f" to try {'it' if len(each) == 1 else 'them'} with padding."
    )


def _numbers(counts: Sequence[int]) -> str:
    *first, last = map(str, counts)
    return f"{', '.join(first)} or {last}" if first else last


def _stored_whole(
    axis: str, size: int, lives: list[Hashable], census: Census, least: float
) -> Iterator[str]:
    """Yield advice on arguments that every device along a mesh axis stores whole because of conflicting names.

    All names of such an argument occur in one value with a name that is mapped to this mesh axis.
    """
    groups: dict[Hashable, list[Held]] = {}
    for held in census.arguments:
        names = [dim for dim in held.dims if dim is not None]
        if held.bytes < _LARGE or not set(names).isdisjoint(lives):
            continue
        if any(_could_live(name, lives, census) for name in names):
            continue
        for name in names:
            if census.sizes.get(name, 0) % size == 0 and name in census.sizes:
                groups.setdefault(name, []).append(held)
    if not groups:
        return
    name, group = max(groups.items(), key=lambda item: sum(held.bytes for held in item[1]))
    total = sum(held.bytes for held in group)
    if total < least:
        return
    met = [other for other in lives if frozenset((name, other)) in census.apart]
    yield (
        f"{name!r} cannot be mapped to {axis!r} together with {show_names(met or lives)}: each of"
        f" its {size} devices stores all of {_listed(group)}, {size_text(total)}. Under a second"
        f" name for {name!r}, such as '{name}_fsdp', read by {{{name}:{name}_fsdp}} in nx.einsum,"
        f" it could be stored in {size} parts."
    )


def _could_live(name: Hashable, lives: Iterable[Hashable], census: Census) -> bool:
    """Return True if the search was allowed to map a name of an argument to a mesh axis."""
    return name in census.sizes and all(
        frozenset((name, other)) not in census.apart for other in lives
    )


def _listed(group: list[Held]) -> str:
    labels = [held.label for held in sorted(group, key=lambda held: -held.bytes)]
    return labels[0] if len(labels) == 1 else f"{labels[0]} and {len(labels) - 1} more"


def _left_whole(axis: str, size: int, report: Report) -> Iterator[str]:
    """Yield advice on sums in the forward pass that leave a large result replicated over a mesh axis."""
    forward = [
        step for step in report.collectives if step.phase == "forward" and axis in step.mesh_axes
    ]
    sums = [step for step in forward if step.kind == "all-reduce" and step.bytes >= _LARGE]
    if not sums or any(step.kind == "reduce-scatter" for step in forward):
        return
    largest: Collective = max(sums, key=lambda step: step.bytes * step.trips)
    names = f" for {', '.join(largest.names)}" if largest.names else ""
    yield (
        f"The sum{names} at {largest.source or 'an unknown line'} leaves its result"
        f" ({size_text(largest.bytes)}) replicated over the {size} devices of {axis!r}. With a"
        " second name for one of its axes, such as {pos_sp:pos} in nx.einsum, it could be a"
        f" reduce-scatter, and the values up to the next use of that axis could be stored in {size}"
        " parts."
    )
