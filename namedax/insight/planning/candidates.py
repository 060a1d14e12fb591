"""`Candidate`: one layout that was judged, and its main costs in one line."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Hashable, Mapping
from typing import Any

from namedax.core.text_tables import seconds_text
from namedax.errors import show_names
from namedax.hlo import size_text
from namedax.insight.analysis.page import enclosed, escaped
from namedax.insight.analysis.report import Report
from namedax.machines import Machine, Times
from namedax.ops.contraction.rings import Overlap

__all__ = [
    "Candidate",
    "candidate",
    "layout",
    "mesh_text",
    "reason",
    "resources_text",
]


def resources_text(axis_resources: Mapping[Hashable, Any]) -> str:
    """Return `axis_resources` as code."""
    return repr(dict(axis_resources))


def candidate(one: Candidate) -> str:
    """Render a candidate in one line."""
    measured = f", measured {seconds_text(one.measured)}" if one.measured is not None else ""
    beyond = "" if one.fits else ", over the memory limit"
    overlap = f", overlap={one.overlap!r}" if one.overlap else ""
    resources = repr(one.layouts) if one.is_split else resources_text(one.axis_resources)
    return (
        f"Candidate({resources}{overlap}:"
        f" {seconds_text(one.time)}{measured}, {size_text(one.peak)}{beyond})"
    )


def layout(one: Candidate, with_mesh: bool) -> str:
    """Return the chosen layout as text, with the mesh if that is chosen too."""
    words = resources_text(one.axis_resources)
    if one.is_split:
        words = ", ".join(f"{name}: {resources_text(each)}" for name, each in one.layouts.items())
    if one.overlap:
        words += f" with overlap={one.overlap!r}"
    if one.padded:
        words += f" with {show_names(one.padded)} stored padded"
    for line, each in one.options.items():
        chosen = ", ".join(f"{k}={v!r}" for k, v in each.items() if k != "operation")
        words += f" with {each['operation']}(..., {chosen}) at {line.partition(' (')[0]}"
    return f"{mesh_text(one)}: {words}" if with_mesh else words


def mesh_text(one: Candidate) -> str:
    """Return the sizes of the mesh axes."""
    return ", ".join(f"{axis}={size}" for axis, size in one.mesh.items()) or "1 device"


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
      options: the arguments that the program leaves open, as chosen for this candidate, by line:
        `{"model.py:12": {"operation": "nx.fold", "prefetch": 1}}`. Calls with default values are
        left out.
      padded: names that do not divide, and whose named arrays among the arguments are stored padded
        (`nx.shard(..., padded=True)`).
      layouts: for a program that calls mapped functions, the layout of each by its name. If they
        are not those of one layout, `axis_resources` is empty.
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
    options: dict[str, dict[str, Any]] = dataclasses.field(default_factory=dict)
    padded: tuple[Hashable, ...] = ()
    layouts: dict[str, dict[Hashable, Any]] = dataclasses.field(default_factory=dict)

    @property
    def is_split(self) -> bool:
        """True if the mapped functions of the program have different layouts."""
        return not self.axis_resources and any(self.layouts.values())

    @property
    def pipeline(self) -> dict[str, Any]:
        """The arguments of `nx.pipeline` among `options`, of its first call."""
        found = (each for each in self.options.values() if each["operation"] == "nx.pipeline")
        first = next(found, {})
        return {name: value for name, value in first.items() if name != "operation"}

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

    def _repr_html_(self) -> str:
        words = f"<p><b>{escaped(candidate(self))}</b><br>{escaped(self.reason)}</p>"
        return enclosed([words, self.report._repr_html_()])


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
