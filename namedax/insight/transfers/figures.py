"""The figures of a plan: bytes, rounds, links and findings."""

from __future__ import annotations

import functools
import math
from collections.abc import Hashable, Iterator, Sequence
from typing import Any

import numpy as np

from namedax.errors import did_you_mean, show_names
from namedax.hlo import size_text
from namedax.insight.transfers.plans import Plan
from namedax.insight.transfers.result import LinkTraffic, Step, Transfer
from namedax.insight.transfers.rounds import Kind, Part
from namedax.insight.transfers.running import programs, run
from namedax.insight.transfers.traffic import Load, axes_of
from namedax.machines import Machine

__all__ = ["result_of"]

_LARGE = 1 << 20  # smaller arrays have no findings


def result_of(plan: Plan, machine: Machine | None, padded: bool) -> Transfer:
    """Return the result for a plan."""
    labels = plan.devices.labels
    pairs = _pairs(plan)
    senders, receivers, sizes = pairs
    axes: dict[tuple[str, ...], int] = {}
    if plan.source is not None and plan.devices.source is not None:
        axes = axes_of(plan.source.sizes, plan.devices.source, len(labels), pairs)
    steps, links = _steps(plan)
    moved = [int(kind.bytes.sum()) for kind in plan.kinds]
    kept = sum(
        int(kind.pieces.sizes[kind.pieces.kept].sum()) * kind.itemsize for kind in plan.kinds
    )
    pieces = zip(plan.leaves, plan.kinds, strict=True)
    missing = tuple(leaf.path for leaf, kind in pieces if kind.pieces.lost)
    seconds = None if machine is None else sum(step.seconds or 0.0 for step in steps)
    peak = max((step.peak for step in steps), default=0)
    return Transfer(
        source=None if plan.source is None else plan.source.sizes,
        target=plan.target.sizes,
        arrays=len(plan.leaves),
        size=sum(leaf.nbytes for leaf in plan.leaves),
        moved=sum(moved),
        kept=kept,
        steps=steps,
        links=links,
        mesh_axes=axes,
        peak=peak,
        memory=plan.memory,
        seconds=seconds,
        missing=missing,
        findings=tuple(_findings(plan, machine, padded, peak, missing)),
        _pairs={
            (labels[s], labels[r]): n
            for s, r, n in zip(senders.tolist(), receivers.tolist(), sizes.tolist(), strict=True)
        },
        _leaves={leaf.path: n for leaf, n in zip(plan.leaves, moved, strict=True)},
        _run=functools.partial(run, plan),
        _programs=functools.partial(programs, plan),
    )


def _by_kind(plan: Plan) -> list[tuple[Kind, int]]:
    """Return the kinds, each with the number of its arrays."""
    counts: dict[int, int] = {}
    for kind in plan.kinds:
        counts[id(kind)] = counts.get(id(kind), 0) + 1
    first = {id(kind): kind for kind in plan.kinds}
    return [(kind, counts[key]) for key, kind in first.items()]


def _pairs(plan: Plan) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the senders, the receivers and the bytes of all pairs that communicate."""
    count = plan.devices.total
    keys, sizes = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for kind, arrays in _by_kind(plan):
        keys.append(kind.pieces.senders * count + kind.pieces.receivers)
        sizes.append(kind.bytes * arrays)
    found, at = np.unique(np.concatenate(keys), return_inverse=True)
    total = np.zeros(len(found), np.int64)
    np.add.at(total, at.reshape(-1), np.concatenate(sizes))
    return found // max(count, 1), found % max(count, 1), total


def _steps(plan: Plan) -> tuple[tuple[Step, ...], tuple[LinkTraffic, ...]]:
    """Return the rounds and the links, with their bytes and times."""
    count, wires = plan.devices.total, plan.wires
    known: dict[Hashable, list[Load]] = {}

    def loads(i: int, part: Part) -> list[Load]:
        kind = plan.kinds[i]
        key = (id(kind), part)
        if key not in known:
            chosen = kind.part(part)
            size = np.prod(chosen.high - chosen.low, axis=1, dtype=np.int64) * kind.itemsize
            senders, receivers, parts = (
                x[chosen.pieces]
                for x in (kind.pieces.senders, kind.pieces.receivers, kind.pieces.parts)
            )
            known[key] = wires.loads(senders, receivers, parts, size, count)
        return known[key]

    steps, totals, times = [], [], [0.0] * len(wires.all)
    for one in plan.rounds:
        each = [Load.sum(of) for of in zip(*(loads(i, p) for i, p in one.parts), strict=True)]
        seconds = [
            load.seconds(wire, wires.devices) for load, wire in zip(each, wires.all, strict=True)
        ]
        times = [total + (s or 0.0) for total, s in zip(times, seconds, strict=True)]
        totals.append(each)
        sent, received = sum(load.sent for load in each), sum(load.received for load in each)
        steps.append(
            Step(
                leaves=tuple(dict.fromkeys(plan.leaves[i].path for i, _ in one.parts)),
                bytes=int(np.sum(received)),
                most=int(max(np.max(sent, initial=0), np.max(received, initial=0))),
                in_flight=int(one.in_flight.max(initial=0)),
                peak=int(one.peak.max(initial=0)),
                seconds=None if None in seconds else max((s or 0.0 for s in seconds), default=0.0),
            )
        )
    links = []
    for number, wire in enumerate(wires.all):
        if not totals:
            break
        load = Load.sum([each[number] for each in totals])
        links.append(
            LinkTraffic(
                wire.name,
                int(load.sent.sum()),
                int(load.sent.max(initial=0)),
                int(load.received.max(initial=0)),
                None if wire.link is None else times[number],
            )
        )
    return tuple(steps), tuple(links)


# --- findings -------------------------------------------------------------------------------------


def _findings(
    plan: Plan, machine: Machine | None, padded: bool, peak: int, missing: Sequence[str]
) -> Iterator[str]:
    if missing:
        yield (
            f"{_some(missing)}: no remaining device has all of it. Restore what is lost with"
            " nx.checkpoints.restore, on the mesh of to_layout."
        )
    if machine is not None and peak > machine.memory:
        yield (
            f"The peak of {size_text(peak)} is more than the {size_text(machine.memory)} of"
            f" {machine.name}. Pass a smaller memory=, or donate=True."
        )
    if not any(len(kind.pieces.parts) for kind in plan.kinds):
        yield "Every device has what it needs, so nothing moves."
    yield from _repeated(plan)
    yield from _unused(plan)
    yield from _replicated(plan, padded)


def _repeated(plan: Plan) -> Iterator[str]:
    """Yield a sentence if most bytes are the same data for several devices of another mesh."""
    if plan.devices.source is None or not set(plan.devices.target).isdisjoint(plan.devices.source):
        return
    moved = once = 0
    for kind, arrays in _by_kind(plan):
        moved += int(kind.bytes.sum()) * arrays
        sent = np.unique(kind.pieces.parts)
        once += int(kind.pieces.sizes[sent].sum()) * kind.itemsize * arrays
    used = {axis for leaf in plan.leaves for axes in leaf.target.spec for axis in axes}
    free = [axis for axis, n in plan.target.sizes.items() if n > 1 and axis not in used]
    if free and 2 * moved >= 3 * once and moved - once >= _LARGE:
        yield (
            f"{size_text(once)} move to several devices each, {size_text(moved)} together. If the"
            " link between the meshes is slow, first move to a layout that also shards over"
            f" {show_names(free)}, and then to this one on the target mesh."
        )


def _unused(plan: Plan) -> Iterator[str]:
    have = {dim for leaf in plan.leaves for dim in leaf.dims}
    sides = {"from_layout": plan.source, "to_layout": plan.target}
    for what, side in sides.items():
        for name in side.assignment if side else {}:
            # An axis of activations is in no array. A name that is similar to another is a typo.
            meant = "" if name in have else did_you_mean(name, have - {None})
            if meant:
                yield f"No array has the axis {name!r} of {what}.{meant}"


def _replicated(plan: Plan, padded: bool) -> Iterator[str]:
    """Yield a sentence on arrays that are replicated on all devices of the target mesh."""
    blocks = math.prod(plan.target.sizes.values())
    if blocks == 1:
        return
    whole = [leaf for leaf in plan.leaves if not any(leaf.target.spec) and leaf.nbytes >= _LARGE]
    if whole:
        size = sum(leaf.nbytes for leaf in whole)
        yield (
            f"{_some([leaf.path for leaf in whole])}, {size_text(size)}, is replicated on all"
            f" {blocks} devices of the target mesh."
        )
    uneven: dict[Any, int] = {}
    for leaf in plan.leaves:
        for dim, n, axes in zip(leaf.dims, leaf.shape, leaf.target.spec, strict=True):
            if dim in plan.target.assignment and not axes and n:
                uneven[dim] = n
    if uneven and not padded:
        names = ", ".join(f"{name!r} of size {n}" for name, n in uneven.items())
        yield (
            f"Replicated because the size does not divide over the mesh axes: {names}. Pass"
            " padded=True to store them padded."
        )


def _some(paths: Sequence[str]) -> str:
    return paths[0] if len(paths) == 1 else f"{paths[0]} and {len(paths) - 1} more"
