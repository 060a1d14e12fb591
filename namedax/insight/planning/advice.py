"""Advice about a plan: second names for axes, and names that were not mapped."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from namedax.errors import show_names
from namedax.hlo import size_text
from namedax.insight.analysis.records import Collective
from namedax.insight.analysis.report import Report
from namedax.insight.planning.program import Census, Held
from namedax.resources.assignment import parse_resources

__all__ = ["advice", "uneven_advice"]

# Smaller arrays are not reported: in bytes, and as a fraction of the peak memory of a device.
_LARGE, _SHARE = 1 << 20, 0.02


def advice(
    report: Report, axis_resources: Mapping[Hashable, Any], mesh: Mapping[str, int], census: Census
) -> Iterator[str]:
    """Yield advice on second names for axes, if existing names prevent a better layout.

    `census.apart` has all pairs of names that are known to occur in one value.
    """
    assignment = parse_resources(axis_resources)
    for axis, size in mesh.items():
        mapped = [name for name, axes in assignment.items() if axis in axes]
        if size > 1 and mapped:
            yield from _stored_whole(axis, size, mapped, census, _SHARE * report.memory.peak)
            yield from _left_whole(axis, size, report)


def uneven_advice(left_out: Mapping[Hashable, Sequence[int]], sizes: Mapping[Hashable, int]) -> str:
    """Return a sentence on names whose sizes do not divide; empty if there are none.

    The planner does not map these names.

    >>> from namedax.insight.planning.advice import uneven_advice
    >>> uneven_advice({"vocab": [4, 8]}, {"vocab": 50258})
    "Not tried because the size does not divide: 'vocab' of size 50258 over 4 or 8 devices. ..."
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
    axis: str, size: int, mapped: list[Hashable], census: Census, least: float
) -> Iterator[str]:
    """Yield advice on arguments that are replicated because of conflicting names.

    Every device along a mesh axis stores them whole.

    All names of such an argument occur in one value with a name that is mapped to this mesh axis.
    """
    groups: dict[Hashable, list[Held]] = {}
    for held in census.arguments:
        names = [dim for dim in held.dims if dim is not None]
        if held.bytes < _LARGE or not set(names).isdisjoint(mapped):
            continue
        if any(_could_be_mapped(name, mapped, census) for name in names):
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
    conflicting = [other for other in mapped if frozenset((name, other)) in census.apart]
    others = show_names(conflicting or mapped)
    yield (
        f"{name!r} cannot be mapped to {axis!r} together with {others}: each of its {size} devices"
        f" stores all of {_listed(group)}, {size_text(total)}. Under a second"
        f" name for {name!r}, such as '{name}_fsdp', read by {{{name}:{name}_fsdp}} in nx.einsum,"
        f" it could be stored in {size} parts."
    )


def _could_be_mapped(name: Hashable, mapped: Iterable[Hashable], census: Census) -> bool:
    """Return True if the search was allowed to map a name of an argument to a mesh axis."""
    return name in census.sizes and all(
        frozenset((name, other)) not in census.apart for other in mapped
    )


def _listed(group: list[Held]) -> str:
    labels = [held.label for held in sorted(group, key=lambda held: -held.bytes)]
    return labels[0] if len(labels) == 1 else f"{labels[0]} and {len(labels) - 1} more"


def _left_whole(axis: str, size: int, report: Report) -> Iterator[str]:
    """Yield advice on sums of the forward pass that replicate a large result over a mesh axis."""
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
