"""A machine fitted to measured times.

The predicted time of a step is linear in a few figures: the seconds of one operation of a dtype (or
the seconds to move one byte, whichever takes longer), the seconds to start an operation, and for
each link the seconds of a byte and of a message. So these figures follow from measured times by
least squares with bounds. Which of arithmetic and memory limits an operation depends on the
figures; the fit alternates between the two until nothing changes.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import jax.numpy as jnp
import numpy as np

from namedax.core.records import Record
from namedax.insight.analysis.records import Collective, Operation, Step
from namedax.insight.analysis.report import Report
from namedax.machines.collectives import seconds_of
from namedax.machines.links import Level, Link, levels_of
from namedax.machines.machine import Machine
from namedax.machines.schedule import is_small

__all__ = ["Observation", "fit"]

_MOST = 1e3  # the largest change of a figure
_ROUNDS = 20
_EQUAL = 1e-6  # the part of the total time by which equal predictions may differ
_PRIOR = 1e-4  # the weight of the old figures: it decides those that the times do not determine

_SOURCE = "a fit to measured times, which replaces some of these figures"

# Figures: ("peak", dtype), ("bandwidth",), ("launch",), ("byte", axes), ("message", axes),
# ("start", axes).
_Figure: TypeAlias = tuple[Any, ...]


class Observation(Record):
    """Steps of a report, and the measured seconds of all of them together."""

    steps: tuple[Step, ...]
    seconds: float


def fit(
    machine: Machine, report: Report, observations: Sequence[Observation], total: float
) -> Machine:
    """Return the machine that predicts the observations best.

    Args:
      machine: the machine to begin with.
      report: the report of the program.
      observations: groups of steps, with measured times.
      total: the measured time of all steps of the report together.
    """
    if not observations or not total:
        return machine
    links = _links(machine, report)
    figures = _figures(machine, report.steps, links)
    best, hidden, least = _named(machine), *_error(machine, observations, total, report)
    now = dict(figures)
    # The same figures in the form of the result, in which they are reached.
    same = _machine(machine, figures, links)
    if _error(same, observations, total, report)[1] <= least + (_EQUAL * total) ** 2:
        best = same
    for _ in range(_ROUNDS):
        # The steps together take the total, and what overlaps.
        rows = [*observations, Observation(report.steps, total + hidden)]
        matrix = np.array([_coefficients(one.steps, now, links) for one in rows])
        new = _solved(matrix, np.array([one.seconds for one in rows]), figures)
        after = dict(zip(figures, new, strict=True))
        made = _machine(machine, after, links)
        hidden, error = _error(made, observations, total, report)
        if error < least:
            best, least = made, error
        if np.allclose([*after.values()], [*now.values()], rtol=1e-6, atol=0.0):
            break
        now = after
    return best


def _error(
    machine: Machine, observations: Iterable[Observation], total: float, report: Report
) -> tuple[float, float]:
    """Return the overlapping seconds, and the sum of squared differences from measured times."""
    times = machine.time(report.steps, report.mesh)
    errors = [
        sum(machine.time_of(step, report.mesh) for step in one.steps) - one.seconds
        for one in observations
    ]
    return times.hidden, sum(error**2 for error in (*errors, times.total - total))


class _Known(Record):
    """The collectives over some mesh axes, before the fit.

    Attributes:
      link: one link for them: of the kind of the slowest one there, with its fractions by size.
      byte: the seconds of a byte on it, so that the largest collective takes as long as now.
      message: the seconds of a message, so that an empty one takes as long as now.
      start: the seconds to start one.
    """

    link: Link
    byte: float
    message: float
    start: float


def _links(machine: Machine, report: Report) -> dict[tuple[str, ...], _Known]:
    """Return a link for the mesh axes of each collective."""
    steps: dict[tuple[str, ...], list[Collective]] = defaultdict(list)
    for step in report.collectives:
        if step.mesh_axes and step.group_size > 1:
            steps[step.mesh_axes].append(step)
    found = {}
    for axes, ones in steps.items():
        largest = max(ones, key=lambda step: step.bytes)
        levels = levels_of(machine.links, axes, largest.group_size, report.mesh, machine.name)
        if levels:
            found[axes] = _known(largest, levels)
    return found


def _known(step: Collective, levels: tuple[Level, ...]) -> _Known:
    slowest = min((level.link for level in levels), key=lambda link: link.bandwidth)
    # With several levels, the fractions of one link are not those of the collective.
    table = slowest.by_size if len(levels) == 1 else ()
    most = max((part for _, part in table), default=1.0)
    link = Link(
        slowest.bandwidth,
        slowest.latency,
        slowest.kind,
        closes=slowest.closes,
        reach=slowest.reach if slowest.kind == "direct" else None,
        by_size=tuple((size, part / most) for size, part in table) if len(table) > 1 else (),
    )
    start = max(level.link.start for level in levels)
    empty = seconds_of(step.kind, 0.0, levels)
    whole = seconds_of(step.kind, step.bytes, levels)
    per_byte, per_message = _of_link(step, link)
    return _Known(
        link,
        (whole - empty) / per_byte if per_byte and whole > empty else 1 / slowest.bandwidth,
        (empty - start) / per_message if per_message else slowest.latency,
        start,
    )


def _figures(
    machine: Machine, steps: Iterable[Step], links: Mapping[tuple[str, ...], _Known]
) -> dict[_Figure, float]:
    """Return the figures that occur, each in seconds per unit, from the machine."""
    operations = [step for step in steps if isinstance(step, Operation)]
    types = dict.fromkeys(step.dtype for step in operations if step.flops)
    found: dict[_Figure, float] = {
        ("peak", dtype): 1 / machine.rate(dtype) for dtype in types if _is_dtype(dtype)
    }
    if operations:
        found["bandwidth",] = 1 / (machine.bandwidth * machine.memory_efficiency)
        found["launch",] = machine.launch
    for axes, known in links.items():
        found["byte", axes] = known.byte
        found["message", axes] = known.message
        if known.start:  # most programs cannot tell it from the latency
            found["start", axes] = known.start
    return found


def _is_dtype(name: str) -> bool:
    try:
        return jnp.dtype(name).name == name
    except TypeError:
        return False


def _coefficients(
    steps: Iterable[Step],
    figures: Mapping[_Figure, float],
    links: Mapping[tuple[str, ...], _Known],
) -> list[float]:
    """Return how often steps use each figure, with the present figures deciding on the bound."""
    found = dict.fromkeys(figures, 0.0)
    for step in steps:
        if isinstance(step, Operation):
            arithmetic = step.flops * figures.get(("peak", step.dtype), 0.0)
            if arithmetic > step.bytes * figures["bandwidth",]:
                found["peak", step.dtype] += step.trips * step.flops
            else:
                found["bandwidth",] += step.trips * step.bytes
            found["launch",] += 0 if is_small(step) else step.trips
        elif step.mesh_axes in links and step.group_size > 1:
            per_byte, per_message = _of_link(step, links[step.mesh_axes].link)
            found["byte", step.mesh_axes] += step.trips * per_byte
            found["message", step.mesh_axes] += step.trips * per_message
            if ("start", step.mesh_axes) in found:
                found["start", step.mesh_axes] += step.trips
    return list(found.values())


def _of_link(step: Collective, link: Link) -> tuple[float, float]:
    """Return the seconds of a collective for a second per byte, and for a second per message."""

    def seconds(bandwidth: float, latency: float) -> float:
        one = dataclasses.replace(link, bandwidth=bandwidth, latency=latency)
        return seconds_of(step.kind, step.bytes, (Level((step.group_size,), one),))

    return seconds(1.0, 0.0), seconds(1e30, 1.0)


def _solved(
    matrix: np.ndarray, seconds: np.ndarray, figures: Mapping[_Figure, float]
) -> list[float]:
    """Return the figures within their bounds that are nearest to the times."""
    may_vanish = [name[0] in ("launch", "message", "start") for name in figures]
    start = np.array(
        [
            max(value, 1e-6) if vanishes else value
            for value, vanishes in zip(figures.values(), may_vanish, strict=True)
        ]
    )
    from scipy.optimize import lsq_linear  # here, because the import takes half a second

    # In units of the old figures and of the total time, all numbers are near one.
    scaled = matrix * start / seconds[-1]
    prior = _PRIOR * np.eye(len(start))
    known = _PRIOR * np.array([*figures.values()]) / start
    solution = lsq_linear(
        np.concatenate([scaled, prior]),
        np.concatenate([seconds / seconds[-1], known]),
        bounds=(np.where(may_vanish, 0.0, 1 / _MOST), np.full(len(start), _MOST)),
    )
    return [float(value) for value in solution.x * start]


def _machine(
    machine: Machine,
    figures: Mapping[_Figure, float],
    links: Mapping[tuple[str, ...], _Known],
) -> Machine:
    """Return the machine with these figures, which are reached: they have no efficiency."""
    flops = {name[1]: 1 / value for name, value in figures.items() if name[0] == "peak"}
    known_parts = (
        machine.efficiency
        if isinstance(machine.efficiency, Mapping)
        else dict.fromkeys(machine.flops, machine.efficiency)
    )
    parts = {dtype: part for dtype, part in known_parts.items() if dtype not in flops}
    new_links: dict[Any, Link] = {
        axes if len(axes) > 1 else axes[0]: dataclasses.replace(
            known.link,
            bandwidth=1 / figures["byte", axes],
            latency=figures["message", axes],
            start=figures.get(("start", axes), 0.0),
        )
        for axes, known in links.items()
    }
    has_bandwidth = ("bandwidth",) in figures
    return dataclasses.replace(
        _named(machine),
        flops={**machine.flops, **flops},
        efficiency=parts if any(part != 1 for part in parts.values()) else 1.0,
        bandwidth=1 / figures["bandwidth",] if has_bandwidth else machine.bandwidth,
        memory_efficiency=1.0 if has_bandwidth else machine.memory_efficiency,
        launch=figures.get(("launch",), machine.launch),
        links={**machine.links, **new_links},
    )


def _named(machine: Machine) -> Machine:
    name = machine.name.removesuffix(", fitted")
    sources = tuple(dict.fromkeys((*machine.sources, _SOURCE)))
    return dataclasses.replace(machine, name=f"{name}, fitted", sources=sources)
