"""A machine fitted to measured times.

The predicted time of a step is linear in a few figures: the seconds of one operation of a dtype (or
the seconds to move one byte, whichever takes longer), the seconds to start an operation, and for
each link the seconds of a byte and of a message. So these figures follow from measured times by
least squares with bounds. Which of arithmetic and memory limits an operation depends on the
figures; the fit alternates between the two until nothing changes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import jax.numpy as jnp
import numpy as np
from scipy.optimize import lsq_linear

from namedax.analysis.records import Collective, Operation, Step
from namedax.analysis.report import Report
from namedax.core.records import Record
from namedax.machines.collectives import seconds_of
from namedax.machines.links import Level, Link, levels_of
from namedax.machines.machine import Machine
from namedax.machines.schedule import is_small

__all__ = ["Observation", "fit"]

_MOST = 1e3  # the largest change of a figure
_ROUNDS = 20
_PRIOR = 1e-4  # the weight of the old figures: it decides those that the times do not determine

# Figures: ("peak", dtype), ("bandwidth",), ("launch",), ("byte", axes), ("message", axes).
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
    best, hidden, least = machine, *_error(machine, observations, total, report)
    now = dict(figures)
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


def _links(machine: Machine, report: Report) -> dict[tuple[str, ...], Link]:
    """Return a link for the mesh axes of each collective, of the kind of the slowest one there."""
    found: dict[tuple[str, ...], Link] = {}
    for step in report.collectives:
        levels = levels_of(
            machine.links, step.mesh_axes, step.group_size, report.mesh, machine.name
        )
        for level in levels:
            known = found.get(step.mesh_axes)
            if known is None or level.link.bandwidth < known.bandwidth:
                found[step.mesh_axes] = level.link
    return {
        axes: Link(link.bandwidth, link.latency, link.kind, closes=link.closes)
        for axes, link in found.items()
    }


def _figures(
    machine: Machine, steps: Iterable[Step], links: Mapping[tuple[str, ...], Link]
) -> dict[_Figure, float]:
    """Return the figures that occur, each in seconds per unit, from the machine."""
    operations = [step for step in steps if isinstance(step, Operation)]
    types = dict.fromkeys(step.dtype for step in operations if step.flops)
    found: dict[_Figure, float] = {
        ("peak", dtype): 1 / machine.peak(dtype) for dtype in types if _is_dtype(dtype)
    }
    if operations:
        found["bandwidth",] = 1 / machine.bandwidth
        found["launch",] = machine.launch
    for axes, link in links.items():
        found["byte", axes] = 1 / link.bandwidth
        found["message", axes] = link.latency
    return found


def _is_dtype(name: str) -> bool:
    try:
        return jnp.dtype(name).name == name
    except TypeError:
        return False


def _coefficients(
    steps: Iterable[Step],
    figures: Mapping[_Figure, float],
    links: Mapping[tuple[str, ...], Link],
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
        elif step.mesh_axes in links:
            per_byte, per_message = _of_link(step, links[step.mesh_axes])
            found["byte", step.mesh_axes] += step.trips * per_byte
            found["message", step.mesh_axes] += step.trips * per_message
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
    may_vanish = [name[0] in ("launch", "message") for name in figures]
    start = np.array(
        [
            max(value, 1e-6) if vanishes else value
            for value, vanishes in zip(figures.values(), may_vanish, strict=True)
        ]
    )
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
    links: Mapping[tuple[str, ...], Link],
) -> Machine:
    """Return the machine with these figures."""
    flops = {name[1]: 1 / value for name, value in figures.items() if name[0] == "peak"}
    new_links: dict[Any, Link] = {
        axes if len(axes) > 1 else axes[0]: dataclasses.replace(
            link, bandwidth=1 / figures["byte", axes], latency=figures["message", axes]
        )
        for axes, link in links.items()
    }
    name = machine.name.removesuffix(", fitted") + ", fitted"
    return dataclasses.replace(
        machine,
        flops={**machine.flops, **flops},
        bandwidth=1 / figures["bandwidth",] if ("bandwidth",) in figures else machine.bandwidth,
        launch=figures.get(("launch",), machine.launch),
        links={**machine.links, **new_links},
        name=name,
    )
