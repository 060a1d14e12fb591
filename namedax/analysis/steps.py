"""The steps of a device, in order: collectives and operations with their costs."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from jax.core import ShapedArray

from namedax import hlo
from namedax.analysis.ahead import ahead_of
from namedax.analysis.graph import Body, Node
from namedax.analysis.records import Collective, Operation, Step
from namedax.analysis.resharding import moves
from namedax.analysis.sources import Origin
from namedax.analysis.fusion import is_view
from namedax.analysis.storage import Storage
from namedax.programs import costs
from namedax.programs.primitives import Kind, axes_of, is_whole_exchange, name_of

__all__ = ["steps_of"]

_REDUCING = (Kind.SUM, Kind.MAXIMUM, Kind.MINIMUM)


Label = Callable[[Origin], str]


def steps_of(body: Body, storage: Storage, label: Label) -> Iterator[Step]:
    """Yield the steps of a program in order; for a conditional, those of the most expensive branch.

    `label` returns a line as text.
    """
    return _steps(body, storage, label, 1, _Overlap(0, frozenset(), itertools.count(1)))


class _Overlap(NamedTuple):
    """The number of the loop, its collectives that nothing waits for, and further numbers."""

    loop: int
    ahead: frozenset[int]
    numbers: Iterator[int]


def _steps(
    body: Body, storage: Storage, label: Label, trips: int, overlap: _Overlap
) -> Iterator[Step]:
    for node in body.nodes:
        found: Iterator[Step]
        if node.kind == Kind.BRANCH:
            yield from max(
                (
                    [*_steps(inner, storage.within(inner), label, trips, overlap)]
                    for inner in node.bodies
                ),
                key=_weight,
            )
            continue
        if node.bodies:
            for inner in node.bodies:
                ahead = ahead_of(inner)
                within = overlap
                if ahead:
                    within = _Overlap(next(overlap.numbers), ahead, overlap.numbers)
                yield from _steps(inner, storage.within(inner), label, trips * node.trips, within)
            continue
        if node.moved is not None:
            found = _moved(node, label, trips)
        elif node.kind in (*_REDUCING, Kind.GATHER, Kind.SCATTER, Kind.EXCHANGE):
            found = _collectives(node, label, trips)
        elif node.eqn is not None:
            found = itertools.chain(
                _operation(node, storage, label, trips), _partitioned(node, label, trips)
            )
        else:
            continue
        for step in found:
            if overlap.loop and isinstance(step, Collective):
                is_ahead = id(node) in overlap.ahead
                yield dataclasses.replace(step, loop=overlap.loop, is_ahead=is_ahead)
            else:
                yield dataclasses.replace(step, loop=overlap.loop) if overlap.loop else step


def _weight(steps: list[Step]) -> tuple[float, float]:
    sent = sum(step.wire_bytes * step.trips for step in steps if isinstance(step, Collective))
    return sent, sum(step.flops * step.trips for step in steps if isinstance(step, Operation))


def _collectives(node: Node, label: Label, trips: int) -> Iterator[Collective]:
    axes = tuple(dict.fromkeys(axes_of(node.eqn)))
    for operand, result in zip(node.eqn.invars, node.eqn.outvars, strict=True):
        if node.kind in _REDUCING:
            kind, aval = "all-reduce", operand.aval
        elif node.kind == Kind.GATHER:
            kind, aval = (
                "all-gather",
                getattr(result.aval, "inner_aval", result.aval),
            )  # an asynchronous one returns a future
        elif node.kind == Kind.SCATTER:
            kind, aval = "reduce-scatter", operand.aval
        else:
            kind = "all-to-all" if is_whole_exchange(node.eqn) else "collective-permute"
            aval = operand.aval
        yield from _collective(node, label, kind, axes, aval, trips)


def _collective(
    node: Node,
    label: Label,
    kind: str,
    axes: tuple[str, ...],
    aval: ShapedArray,
    trips: int,
    parts: int = 1,
    devices: int | None = None,
) -> Iterator[Collective]:
    axes = tuple(axis for axis in axes if node.sizes.get(axis, 1) > 1)
    size = costs.size_in_bytes(aval) // parts
    devices = math.prod(node.sizes[axis] for axis in axes) if devices is None else devices
    if devices == 1 or not size:
        return
    origin = node.origin
    wire = hlo.Collective(kind, size, devices).wire_bytes
    dtype = str(aval.dtype)
    names = origin.names_on(axes)
    yield Collective(
        kind,
        axes,
        devices,
        names,
        size,
        wire,
        trips,
        dtype,
        origin.operation,
        label(origin),
        origin.phase,
    )


def _moved(node: Node, label: Label, trips: int) -> Iterator[Collective]:
    """Yield the collectives by which XLA's partitioner reshards an array."""
    assert node.moved is not None
    before, after = node.moved
    aval, sizes, given = node.reads[0].aval, node.sizes, node.reads[0].given
    type_ = f"{aval.dtype}[{','.join(map(str, aval.shape))}]"

    for move in moves(before, after, sizes, len(aval.shape)):
        names = given.names_on(move.mesh_axes) if given is not None else ()
        for step in _collective(
            node, label, move.kind, move.mesh_axes, aval, trips, move.parts, move.devices
        ):
            arrival = given.what if given is not None and given.what else type_
            yield dataclasses.replace(
                step,
                operation=step.operation or "nx.xmap",
                names=names or step.names,
                arrival=arrival,
            )


def _parts(axes: Iterable[str], sizes: Mapping[str, int]) -> int:
    return math.prod(sizes.get(axis, 1) for axis in axes)


def _partitioned(node: Node, label: Label, trips: int) -> Iterator[Collective]:
    """Yield the all-reduces of a reduction over sharded dimensions, outside mapped functions.

    XLA's partitioner sums over the mesh axes of one dimension after another.
    """
    if not costs.sums_up(node.eqn) or not node.reads or node.reads[0].layout is None:
        return
    spec, sizes = node.reads[0].layout.root().spec or (), node.reads[0].sizes
    reduced = costs.reduced_dimensions(node.eqn)
    kept = _parts((axis for i, axes in enumerate(spec) if i not in reduced for axis in axes), sizes)
    whole = Node(node.eqn, node.kind, node.operands, node.results, node.origin, sizes)
    for i in reduced:
        if i < len(spec) and spec[i]:
            for result in node.results:
                yield from _collective(
                    whole, label, "all-reduce", spec[i], result.aval, trips, kept
                )


def _operation(node: Node, storage: Storage, label: Label, trips: int) -> Iterator[Operation]:
    eqn = node.eqn
    parts = max((value.parts for value in (*node.results, *node.reads)), default=1)
    flops = costs.flops_of(eqn) / parts
    moved = _bytes(node, storage)
    if not flops and not moved:
        return
    origin = node.origin
    computed = [var.aval for var in (*eqn.outvars, *eqn.invars) if hasattr(var.aval, "dtype")]
    # A product of bfloat16 that is accumulated in float32 runs at the speed of bfloat16.
    typed = eqn.invars[0].aval if costs.is_contraction(eqn) else computed[0]
    names, text = origin.names, label(origin)
    dtype = str(typed.dtype)
    yield Operation(
        name_of(eqn), names, flops, moved, trips, dtype, origin.operation, text, origin.phase
    )


def _bytes(node: Node, storage: Storage) -> int:
    """Return the bytes that an operation reads and writes.

    A value that is computed where it is used counts there.
    """
    eqn = node.eqn
    if node.kind == Kind.BARRIER or is_view(node):
        return 0
    if costs.is_update(eqn):
        changed = node.operands[1] if node.kind == Kind.UPDATE else node.operands[-1]
        return 2 * (0 if changed is None else changed.bytes)
    return storage.bytes_of(node)
