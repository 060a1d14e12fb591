"""The steps of a device, in order: collectives and operations with their costs.

Some collectives of a loop run at the same time as the computation of its body. They depend on
slices and on the carry alone, and no computation of their step depends on them: a gather of the
next step, or the reduction of a gradient of the step before.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax.core import ShapedArray

from namedax import hlo
from namedax.core.kernel_scopes import Place, call_of
from namedax.insight.analysis.graph import Body, Node, Value
from namedax.insight.analysis.records import HOST_COPIES, Collective, HostCopy, Operation, Step
from namedax.insight.analysis.resharding import moves
from namedax.insight.analysis.sources import Origin
from namedax.insight.analysis.storage import Storage
from namedax.insight.analysis.uses import traits_of
from namedax.primitives import costs
from namedax.primitives.equations import (
    Scan,
    While,
    axes_of,
    facts,
    is_copy_to_host,
    is_whole_exchange,
    name_of,
)
from namedax.primitives.record import Kind

__all__ = ["steps_of"]

_REDUCING = (Kind.SUM, Kind.MAXIMUM, Kind.MINIMUM)

_text = functools.lru_cache(maxsize=256)(str)  # of a dtype: NumPy takes a microsecond


Label = Callable[[Origin], str]


def steps_of(
    body: Body, storage: Storage, label: Label
) -> tuple[list[Step], Mapping[int, Sequence[Node]]]:
    """Return the steps of a program in order.

    A conditional has the steps of its most expensive branch.

    Args:
      body: the program.
      storage: its storage.
      label: returns a line as text.

    Returns:
      The steps, and the operations of the graph that each is for, by the number of the step.
    """
    steps = _Steps(label, _instances(body))
    return steps.of_body(body, storage, _Loops((), 1, 0, frozenset())), steps.nodes


class _Loops(NamedTuple):
    """The surroundings of an operation.

    They are the loops, their iterations multiplied, the loop with collectives ahead, and the call
    with a declared cost.
    """

    path: tuple[tuple[int, int], ...]
    trips: int
    loop: int
    ahead: frozenset[int]
    kernel: int = 0

    def within(self, place: Place) -> _Loops:
        """Return the surroundings within a call with a declared cost."""
        return _Loops(self.path, self.trips, self.loop, self.ahead, place.number)


class _Steps:
    """The steps of a program, with the steps that each needs.

    Args:
      label: returns a line as text.
      called: the instances of the calls with a declared cost that run in the forward direction, by
        the numbers of the calls.

    Attributes:
      nodes: the operations of the graph that each step is for, by the number of the step.
    """

    def __init__(self, label: Label, called: Mapping[int, float]):
        self._label, self._called = label, called
        self.nodes: dict[int, Sequence[Node]] = {}
        self._numbers = itertools.count(1)
        self._loop_numbers = itertools.count(1)
        self._ahead_numbers = itertools.count(1)
        self._makers: dict[int, tuple[int, ...]] = {}  # of a value, the steps that it needs
        self._run_of: dict[int, int] = {}  # of an operation, the step with its declared cost
        self._carried: set[int] = set()  # the values that depend on the carry of their loop

    def of_body(self, body: Body, storage: Storage, loops: _Loops) -> list[Step]:
        """Return the steps of a program in order."""
        found: list[Step] = []
        runs = _runs(body, loops.kernel)
        for node in body.nodes:
            if id(node) in runs:
                found += self._of_run(runs[id(node)], loops)
            if node.kind == Kind.BRANCH:
                found += self._of_branches(node, storage, loops)
            elif node.bodies:
                found += self._of_loop(node, storage, loops)
            else:
                found += self._of_node(node, storage, loops)
        return found

    def _needs(self, values: Iterable[Value | None]) -> tuple[int, ...]:
        found: dict[int, None] = {}
        for value in values:
            if value is not None:
                found.update(dict.fromkeys(self._makers.get(id(value), ())))
        return tuple(found)

    def _is_carried(self, values: Iterable[Value | None]) -> bool:
        carried = self._carried
        return bool(carried) and any(value is not None and id(value) in carried for value in values)

    def _of_node(self, node: Node, storage: Storage, loops: _Loops) -> list[Step]:
        steps: list[Step] = []
        if node.eqn is None or node.kind == Kind.BARRIER:
            pairs = [([a], [b]) for a, b in zip(node.operands, node.results, strict=False)]
        else:
            pairs = [(node.operands, node.results)]
        run = self._declared_step(node)
        needs = tuple(dict.fromkeys((*self._needs(node.operands), *run)))
        is_carried = self._is_carried(node.operands)
        for step in self._found(node, storage, loops.trips):
            number = next(self._numbers)
            self.nodes[number] = (node,)
            place: dict[str, Any] = {"number": number, "needs": needs}
            place |= {"loops": loops.path, "loop": loops.loop}
            if isinstance(step, Collective):
                place["is_ahead"] = bool(loops.loop) and id(node) in loops.ahead
                place["is_free"] = bool(loops.path) and not is_carried
            vars(step).update(
                place
            )  # in place, because it is new: a copy takes as long as the rest
            steps.append(step)
            needs = (number,)
        for operands, results in pairs:
            made = needs if steps or run else self._needs(operands)
            depends = self._is_carried(operands)
            for value in results:
                self._makers[id(value)] = made
                if depends:
                    self._carried.add(id(value))
        return steps

    def _declared_step(self, node: Node) -> tuple[int, ...]:
        """Return the step with the declared cost that an operation is part of, if there is one."""
        return (self._run_of[id(node)],) if id(node) in self._run_of else ()

    def _of_run(self, run: Sequence[Node], loops: _Loops) -> list[Step]:
        """Return the step of a function with a declared cost."""
        number = next(self._numbers)
        self.nodes[number] = run
        inside = {id(value) for node in run for value in node.results}
        operands = [v for node in run for v in node.reads if id(v) not in inside]
        for node in run:
            self._run_of[id(node)] = number
        step = dataclasses.replace(
            _declared(run, self._called, self._label, loops.trips),
            number=number,
            needs=self._needs(operands),
            loops=loops.path,
            loop=loops.loop,
        )
        return [step]

    def _found(self, node: Node, storage: Storage, trips: int) -> Iterator[Step]:
        """Yield the steps of an operation without programs."""
        if node.moved is not None:
            yield from _moved(node, self._label, trips)
        elif node.kind in (*_REDUCING, Kind.GATHER, Kind.SCATTER, Kind.EXCHANGE):
            yield from _collectives(node, self._label, trips)
        elif node.is_host_copy:
            yield _host_copy(node, self._label, trips)
        elif node.kernel is not None:
            return  # it is part of the declared cost
        elif node.eqn is not None:
            yield from _operation(node, storage, self._label, trips)
            yield from _partitioned(node, self._label, trips)

    def _of_branches(self, node: Node, storage: Storage, loops: _Loops) -> list[Step]:
        """Return the steps of the most expensive branch of a conditional."""
        if node.kernel is not None:
            loops = loops.within(node.kernel)
        branches = [(self.of_body(body, storage.within(body), loops), body) for body in node.bodies]
        steps, body = max(branches, key=lambda branch: _weight(branch[0]))
        chosen = (*self._needs(node.operands[:1]), *self._declared_step(node))
        for value, output in zip(node.results, body.outputs, strict=True):
            self._makers[id(value)] = tuple(dict.fromkeys((*chosen, *self._needs([output]))))
            if self._is_carried([output, *node.operands[:1]]):
                self._carried.add(id(value))
        return steps

    def _of_loop(self, node: Node, storage: Storage, loops: _Loops) -> list[Step]:
        carry, before = _carry(node)
        outside = self._carried
        self._carried = {
            id(value)
            for value, output in zip(carry, node.bodies[0].outputs, strict=False)
            if value is not None and value is not output
        }
        for value, operand in before:
            self._makers[id(value)] = self._needs([operand])
        steps: list[Step] = []
        for body in node.bodies:
            ahead = _ahead_of(body)
            loop = next(self._ahead_numbers) if ahead else loops.loop
            path = (*loops.path, (next(self._loop_numbers), node.trips))
            within = _Loops(path, loops.trips * node.trips, loop, ahead or loops.ahead)
            if node.kernel is not None:
                within = within.within(node.kernel)
            found = self.of_body(body, storage.within(body), within)
            steps += _marked(found, self._needs(body.outputs[: len(carry)]), len(path))
        self._carried = outside
        outputs = node.bodies[0].outputs
        depends = self._is_carried(node.operands)
        last = tuple(step.number for step in steps[-1:])  # a loop ends as a whole
        for value, output in zip(node.results, outputs, strict=True):
            made = self._needs([output]) or last
            self._makers[id(value)] = tuple(dict.fromkeys((*made, *self._declared_step(node))))
            if depends:
                self._carried.add(id(value))
        return steps


def _carry(node: Node) -> tuple[list[Value | None], list[tuple[Value, Value | None]]]:
    """Return the carry of a loop's body, and its inputs with the values before the loop."""
    body = node.bodies[0]
    if node.kind == Kind.SCAN:
        scan = Scan.of(node.eqn)
        first, operands = scan.consts, node.operands
        carry = body.inputs[first : first + scan.carries]
    else:
        loop = While.of(node.eqn)
        first, operands = loop.body_consts, node.operands[loop.condition_consts :]
        carry = body.inputs[first:]
    pairs = zip(body.inputs[first:], operands[first:], strict=False)
    return carry, [(value, operand) for value, operand in pairs if value is not None]


def _marked(steps: list[Step], carried: Iterable[int], depth: int) -> list[Step]:
    """Mark the collectives of a loop's body that nothing in their iteration needs as free."""
    needed = set(carried).union(*(step.needs for step in steps))
    return [
        dataclasses.replace(step, is_free=True)
        if isinstance(step, Collective)
        and not step.is_free
        and len(step.loops) == depth
        and (step.is_ahead or step.number not in needed)
        else step
        for step in steps
    ]


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
    dtype = _text(aval.dtype)
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


def _host_copy(node: Node, label: Label, trips: int) -> HostCopy:
    """Return the copy of an array between the memory of the host and that of the device."""
    value, origin = node.results[0], node.origin
    kind = HOST_COPIES[is_copy_to_host(node.eqn)]
    dtype, text = str(value.aval.dtype), label(origin)
    return HostCopy(
        kind, (), 1, (), value.size, 0, trips, dtype, origin.operation, text, origin.phase
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
    if facts(node.eqn).reduces is None or not node.reads or node.reads[0].layout is None:
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
    known = [value for value in (*node.results, *node.reads) if value.layout is not None]
    parts = max((value.parts for value in known), default=1)
    flops = costs.flops_of(eqn) / parts
    moved = _bytes(node, storage)
    if not flops and not moved:
        return
    origin = node.origin
    computed = [var.aval for var in (*eqn.outvars, *eqn.invars) if hasattr(var.aval, "dtype")]
    # A product of bfloat16 that is accumulated in float32 runs at the speed of bfloat16.
    typed = eqn.invars[0].aval if facts(eqn).is_contraction else computed[0]
    names, text = origin.names, label(origin)
    dtype = _text(typed.dtype)
    yield Operation(
        name_of(eqn), names, flops, moved, trips, dtype, origin.operation, text, origin.phase
    )


def _runs(body: Body, around: int) -> dict[int, list[Node]]:
    """Return the runs of functions with a declared cost, by the `id` of their first operation.

    JAX moves operations that are the same in every iteration out of a loop. They are no run of
    their own: the loop has most of the operations of the run.

    Args:
      body: the program.
      around: the number of the call that the program is part of, or 0.
    """
    found: dict[Place, list[Node]] = {}
    for node in body.nodes:
        if node.kernel is not None and node.eqn is not None and node.kernel.number != around:
            found.setdefault(node.kernel, []).append(node)
    within = [_counts(inner) for node in body.nodes if not node.kernel for inner in node.bodies]
    return {
        id(nodes[0]): nodes
        for place, nodes in found.items()
        if all(len(nodes) >= counts[place.number, place.stage] for counts in within)
    }


def _counts(body: Body) -> Counter[tuple[int, str]]:
    """Return the number of operations of each call, by its number and stage."""
    found: Counter[tuple[int, str]] = Counter()
    for node in body.nodes:
        if node.kernel is not None:
            found[node.kernel.number, node.kernel.stage] += 1
        else:
            for inner in node.bodies:
                found.update(_counts(inner))
    return found


def _instances(body: Body) -> dict[int, float]:
    """Return the number of instances under `jax.vmap` of each call, by its number.

    They follow from its forward direction. A call that is only in the backward pass is missing.
    """
    found: dict[int, float] = {}
    for node in body.nodes:
        if node.kernel is not None and node.kernel.stage != "transposed":
            number = node.kernel.number
            found[number] = max(found.get(number, 1.0), _largest([node]) / _size_of(number))
        elif node.kernel is None:
            for inner in node.bodies:
                for number, count in _instances(inner).items():
                    found[number] = max(found.get(number, 1.0), count)
    return found


def _size_of(number: int) -> int:
    return max(1, call_of(number).largest)


def _largest(nodes: Iterable[Node]) -> int:
    """Return the number of elements of the largest array that operations compute.

    The results of a loop may be stacked, so only those of an iteration count.
    """
    largest = 0
    for node in nodes:
        if node.bodies:
            largest = max(largest, *(_largest(inner.nodes) for inner in node.bodies))
            continue
        for value in node.results:
            largest = max(largest, math.prod(getattr(value.aval, "shape", ())) // value.parts)
    return largest


def _declared(
    nodes: Sequence[Node], called: Mapping[int, float], label: Label, trips: int
) -> Operation:
    """Return the declared cost of one run of a function."""
    place, origin = nodes[0].kernel, nodes[0].origin
    assert place is not None
    call = call_of(place.number)
    flops, size = call.flops, call.bytes
    if place.stage == "transposed" and place.number in called:  # not a call of the backward pass
        flops, size = call.gradient_flops, call.gradient_bytes
    instances = called.get(place.number) or max(1.0, _largest(nodes) / _size_of(place.number))
    dtypes = [str(v.aval.dtype) for node in nodes for v in node.reads if _is_inexact(v)]
    return Operation(
        call.name,
        origin.names,
        flops * instances,
        round(size * instances),
        trips,
        dtypes[0] if dtypes else "float32",
        origin.operation,
        label(origin),
        origin.phase,
    )


def _is_inexact(value: Value) -> bool:
    return jnp.issubdtype(getattr(value.aval, "dtype", None) or bool, jnp.inexact)


def _bytes(node: Node, storage: Storage) -> int:
    """Return the bytes that an operation reads and writes.

    A value that is computed where it is used counts there.
    """
    eqn = node.eqn
    if node.kind == Kind.BARRIER or traits_of(node).is_view:
        return 0
    if facts(eqn).is_update:
        changed = node.operands[1] if node.kind == Kind.UPDATE else node.operands[-1]
        return 2 * (0 if changed is None else changed.bytes)
    return storage.bytes_of(node)


# --- collectives that run ahead in a loop --------------------------------------------------------


_KINDS = (Kind.SUM, Kind.MAXIMUM, Kind.MINIMUM, Kind.GATHER, Kind.SCATTER)
_MOVING = (Kind.CAST, Kind.SLICE, Kind.UPDATE, Kind.BARRIER, Kind.DEVICE_INDEX, Kind.OWN_BLOCK)


def _ahead_of(body: Body) -> frozenset[int]:
    """Return the ids of the collectives in a loop's body that no computation waits for."""
    makers = {id(value): node for node in body.nodes for value in node.results}
    users: dict[int, list[Node]] = {}
    for node in body.nodes:
        for value in node.reads:
            users.setdefault(id(value), []).append(node)
    results = {id(value) for value in body.outputs if value is not None}

    def before(node: Node) -> Iterable[Node]:
        return [makers[id(value)] for value in node.reads if id(value) in makers]

    def after(node: Node) -> Iterable[Node]:
        return [user for value in node.results for user in users.get(id(value), ())]

    def is_free(node: Node, beyond: Callable[[Node], Iterable[Node]]) -> bool:
        seen: set[int] = set()
        waiting = list(beyond(node))
        while waiting:
            here = waiting.pop()
            if id(here) in seen:
                continue
            seen.add(id(here))
            if not (_is_sent(here) or _moves(here)):
                return False
            waiting += beyond(here)
        return True

    def leaves(node: Node) -> bool:
        """Return True if a result of a collective reaches the next step or the results."""
        return any(id(value) in results for value in node.results) or any(
            leaves(user) for user in after(node)
        )

    return frozenset(
        id(node)
        for node in body.nodes
        if _is_sent(node) and is_free(node, before) and is_free(node, after) and leaves(node)
    )


def _is_sent(node: Node) -> bool:
    """Return True for a copy over the host link or a collective.

    A permutation belongs to a ring.
    """
    return (
        node.kind in _KINDS
        or node.is_host_copy
        or (node.kind == Kind.EXCHANGE and is_whole_exchange(node.eqn))
    )


def _moves(node: Node) -> bool:
    """Return True if an operation moves elements, or computes an index."""
    if node.eqn is None or node.bodies:
        return node.eqn is None
    if node.kind in _MOVING or costs.moves_elements(node.eqn):
        return True
    return all(_is_number(value) for value in (*node.reads, *node.results))


def _is_number(value: Value) -> bool:
    return getattr(value.aval, "shape", None) == ()
