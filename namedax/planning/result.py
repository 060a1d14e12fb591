"""`Plan`, the result of `nx.plan`, with the best candidate first."""

from __future__ import annotations

import dataclasses
import math
import textwrap
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from namedax.analysis.records import Collective
from namedax.analysis.report import Report
from namedax.drawing.panels import draw_front
from namedax.errors import show_names
from namedax.hlo import size_text
from namedax.machines import Machine, Times
from namedax.ops.contraction.rings import Overlap
from namedax.planning.program import Census, Held
from namedax.resources.assignment import parse_resources

__all__ = [
    "Candidate",
    "Plan",
    "advice",
    "candidate",
    "layout",
    "reason",
    "resources_text",
    "seconds_text",
    "several_meshes",
    "text",
    "uneven_advice",
]


_WIDTH = 100
_ROWS = 12  # the maximum number of rows of the front


def seconds_text(seconds: float) -> str:
    """Return a time as text, such as `1.23 ms`."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}" if seconds < 1000 * size else f"{seconds:.0f} s"
    return f"{seconds / 1e-9:.3g} ns"


def resources_text(axis_resources: Mapping[Hashable, Any]) -> str:
    """Return `axis_resources` as code."""
    return repr(dict(axis_resources))


def candidate(one: Candidate) -> str:
    """Render a candidate in one line."""
    measured = f", measured {seconds_text(one.measured)}" if one.measured is not None else ""
    beyond = "" if one.fits else ", over the memory limit"
    overlap = f", overlap={one.overlap!r}" if one.overlap else ""
    return (
        f"Candidate({resources_text(one.axis_resources)}{overlap}:"
        f" {seconds_text(one.time)}{measured}, {size_text(one.peak)}{beyond})"
    )


def text(plan: Plan) -> str:
    """Render a plan: the best candidate, the front with a reason for each, and advice."""
    front = plan.front
    shown = list(front[:_ROWS])
    if plan.candidates[0] not in shown:  # measured as the best, though another was expected to be
        shown.insert(0, plan.candidates[0])
    lines = [*_title(plan, len(front)), ""]
    verified = any(one.measured is not None for one in plan.candidates)
    head = (
        f"  {'time':>8}  {'measured':>8}  {'holds':>9}  "
        if verified
        else f"  {'time':>8}  {'holds':>9}  "
    )
    lines.append(f"{head}axis_resources")
    for one in shown:
        lines += _row(one, one is plan.candidates[0], verified, several_meshes(plan))
    if len(front) > len(shown):
        lines.append(f"… and {len(front) - len(shown)} more that use less memory and take longer")
    for sentence in plan.advice:
        lines += ["", textwrap.fill(sentence, _WIDTH, initial_indent="- ", subsequent_indent="  ")]
    return "\n".join(lines)


def several_meshes(plan: Plan) -> bool:
    """Return True if the shape of the mesh was chosen too."""
    return len({tuple(one.mesh.items()) for one in plan.candidates}) > 1


def layout(one: Candidate, with_mesh: bool) -> str:
    """Return the chosen layout as text, with the mesh if that is chosen too."""
    words = resources_text(one.axis_resources)
    if one.overlap:
        words += f" with overlap={one.overlap!r}"
    if one.pipeline:
        chosen = ", ".join(f"{name}={value!r}" for name, value in one.pipeline.items())
        words += f" with nx.pipeline(..., {chosen})"
    return f"{_mesh(one)}: {words}" if with_mesh else words


def _mesh(one: Candidate) -> str:
    return ", ".join(f"{axis}={size}" for axis, size in one.mesh.items()) or "1 device"


def _title(plan: Plan, on_front: int) -> list[str]:
    meshes = dict.fromkeys(map(_mesh, plan.candidates))
    count = math.prod(plan.mesh.values())
    mesh = next(iter(meshes)) if len(meshes) == 1 else f"{count} devices in {len(meshes)} meshes"
    fitting = sum(one.fits for one in plan.candidates)
    words = (
        f"Layouts of {plan.name} on {mesh} of {plan.machine.name}: {len(plan.candidates)} judged,"
        f" of which {fitting} fit into {size_text(int(plan.memory))} per device, and {on_front} are"
        " on the Pareto front of time and memory"
    )
    return [*textwrap.wrap(words, _WIDTH), *textwrap.wrap(_certificate(plan), _WIDTH)]


def _certificate(plan: Plan) -> str:
    """Compare the best layout with the bound, in one sentence."""
    tries = " The search ended at the maximum number of layouts (tries=)."
    more = tries if plan.ended == "tries" and not plan.exhausted else ""
    if plan.exhausted:
        return (
            "The best layout is exact: no layout of this space that fits is estimated to be faster."
        )
    if not plan.bound:
        return more.strip()
    return (
        f"The best layout is at most {plan.gap:.0%} slower than the best possible layout of this"
        f" space, which takes {seconds_text(plan.bound)} or more.{more}"
    )


def _row(one: Candidate, is_best: bool, verified: bool, with_mesh: bool) -> list[str]:
    times = f"{seconds_text(one.time):>8}  "
    if verified:
        times += f"{'' if one.measured is None else seconds_text(one.measured):>8}  "
    start = f"{'*' if is_best else ' '} {times}{size_text(one.peak):>9}  "
    words = layout(one, with_mesh)
    indent = " " * len(start)
    first = textwrap.wrap(words, _WIDTH, initial_indent=start, subsequent_indent=indent)
    return [
        *first,
        *textwrap.wrap(one.reason, _WIDTH, initial_indent=indent, subsequent_indent=indent),
    ]


if TYPE_CHECKING:
    from matplotlib.figure import Figure


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
      pipeline: the arguments of `nx.pipeline` that the program leaves open, as chosen for this
        candidate; empty for their defaults.
    """

    axis_resources: dict[Hashable, Any]
    mesh: dict[str, int]
    overlap: Overlap
    report: Report
    time: float
    peak: int
    fits: bool
    measured: float | None
    reason: str
    pipeline: dict[str, Any] = dataclasses.field(default_factory=dict)

    @classmethod
    def of(
        cls,
        axis_resources: dict[Hashable, Any],
        mesh: Mapping[str, int],
        overlap: Overlap,
        report: Report,
        machine: Machine,
        times: Times,
        memory: float,
    ) -> Candidate:
        """Return the candidate for a report and the machine's times for it."""
        peak = report.memory.peak
        why = reason(report, machine, dict(mesh), times)
        return cls(
            axis_resources,
            dict(mesh),
            overlap,
            report,
            times.total,
            peak,
            peak <= memory,
            None,
            why,
        )

    def __repr__(self) -> str:
        return candidate(self)


@dataclasses.dataclass(frozen=True, repr=False)
class Plan:
    """The layouts that a search has judged; made by `nx.plan`. It prints as a table.

    Attributes:
      name: the name of the function.
      machine: the machine of the plan.
      memory: the memory limit of a device, in bytes.
      candidates: the judged layouts: fitting ones first, then by time; measured ones come before
        the others.
      refused: layouts that the program does not allow, each with its error message.
      advice: sentences on second names for axes of the model, and on names that were not mapped
        because their sizes do not divide.
      traces: the number of traces of the program.
      bound: a lower bound of the time of all layouts of the searched space that fit, in seconds;
        0 if there is none, because the search was too short.
      ended: the reason for which the search ended: `"tries"` if it had judged the maximum number of
        layouts, and otherwise `"converged"`.
    """

    name: str
    machine: Machine
    memory: float
    candidates: tuple[Candidate, ...]
    refused: tuple[tuple[dict[Hashable, Any], str], ...] = ()
    advice: tuple[str, ...] = ()
    traces: int = 0
    bound: float = 0.0
    ended: str = "converged"

    @property
    def gap(self) -> float:
        """The fraction by which the best layout may be slower than the best possible one.

        It is the time of the best candidate divided by `bound`, minus 1, and infinite without a
        bound.
        """
        return self.candidates[0].time / self.bound - 1 if self.bound else math.inf

    @property
    def exhausted(self) -> bool:
        """True if every layout was judged or excluded by its bound: no estimate is lower."""
        times = [one.time for one in self.candidates if one.fits]
        return self.bound >= min(times, default=math.inf)

    @property
    def best(self) -> dict[Hashable, Any]:
        """The `axis_resources` of the fastest candidate, measured if available, else estimated."""
        return dict(self.candidates[0].axis_resources)

    @property
    def mesh(self) -> dict[str, int]:
        """The sizes of the mesh axes for `best`."""
        return dict(self.candidates[0].mesh)

    @property
    def pipeline(self) -> dict[str, Any]:
        """The arguments for `nx.pipeline` in the fastest candidate, where the program has none."""
        return dict(self.candidates[0].pipeline)

    @property
    def front(self) -> tuple[Candidate, ...]:
        """The Pareto front, fastest first: no other candidate is both faster and smaller."""
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
        several = several_meshes(self)
        points = [
            (c.time, float(c.peak), layout(c, several), id(c) in front) for c in self.candidates
        ]
        return draw_front(points, self.memory)

    def __str__(self) -> str:
        return text(self)

    def __repr__(self) -> str:
        return text(self)


# --- explanation of a layout's cost, in one line, and advice on second name -----------------------


# Smaller arrays are not reported: in bytes, and as a fraction of the peak memory of a device.
_LARGE, _SHARE = 1 << 20, 0.02


def reason(report: Report, machine: Machine, mesh: Mapping[str, int], times: Times) -> str:
    """Describe the main costs of a layout's step: its largest communication, with the names."""
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
        mapped = [name for name, axes in assignment.items() if axis in axes]
        if size > 1 and mapped:
            yield from _stored_whole(axis, size, mapped, census, _SHARE * report.memory.peak)
            yield from _left_whole(axis, size, report)


def uneven_advice(left_out: Mapping[Hashable, Sequence[int]], sizes: Mapping[Hashable, int]) -> str:
    """Return a sentence on names whose sizes do not divide; empty if there are none.

    The planner does not map these names.

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
