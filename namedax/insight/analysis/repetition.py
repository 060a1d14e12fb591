"""Work that devices repeat: operations whose operands are equal along a mesh axis.

A mesh axis that shards only parameters repeats work: each device gathers them, and computes with
the same data as the others. JAX's types do not show this, because a gathered value may count as
varying. So the mesh axes along which values differ are found again, from the blocks that enter
mapped functions. A whole reduction or gather makes equal values along its mesh axes. A scatter, an
exchange and a device index make values that differ. The result of any other operation differs where
an operand does. Where nothing is certain, values count as different.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence

from jax.sharding import PartitionSpec

from namedax.core.records import Record
from namedax.insight.analysis.graph import Body, Graph, Node, Spec, Value, spec_of
from namedax.insight.analysis.records import Operation, Step
from namedax.primitives import costs
from namedax.primitives.equations import (
    Scan,
    While,
    axes_of,
    constraint,
    is_in_groups,
    jaxprs_of,
    open_jaxpr,
    strings_of,
)
from namedax.primitives.record import Kind
from namedax.programs.evaluator import collective_axes

__all__ = ["Repetition", "repetitions"]

# Above this share of the FLOPs, the n devices along an axis do less different work together than
# (n + 1) / 2 devices that repeat nothing.
_LARGE_SHARE = 0.5
# Accelerators compute fewer FLOPs in microseconds, about the latency of one collective.
_LARGE_FLOPS = 1e9
_MOST_LINES = _MOST_NAMES = 3
# Lines with a smaller share of the repeated FLOPs are not listed.
_SMALL_SHARE = 0.05

_EQUALIZING = (Kind.SUM, Kind.MAXIMUM, Kind.MINIMUM, Kind.GATHER)
_DISTINGUISHING = (Kind.SCATTER, Kind.EXCHANGE, Kind.DEVICE_INDEX, Kind.OWN_BLOCK)


class Repetition(Record):
    """The work that all devices along a mesh axis repeat.

    Attributes:
      mesh_axis: the mesh axis.
      devices: its size.
      share: the share of the FLOPs of mapped functions.
      lines: the source lines with most of the repeated FLOPs, at most three.
      names: names of arguments that may be mapped to the mesh axis, at most three.
      is_random: True if most of the repeated FLOPs are those of `nx.random`.
    """

    mesh_axis: str
    devices: int
    share: float
    lines: tuple[str, ...]
    names: tuple[str, ...]
    is_random: bool


def repetitions(
    graph: Graph,
    placements: Mapping[str, tuple[str, ...]],
    steps: Sequence[Step],
    nodes_of: Mapping[int, Sequence[Node]],
) -> Iterator[Repetition]:
    """Find the mesh axes along which devices repeat more than half of their work.

    A mesh axis to which no name is mapped is left out.

    Args:
      graph: the program.
      placements: the mesh axes to which names are mapped.
      steps: the collectives and operations of the program.
      nodes_of: the operations of the graph that each step is for, by the number of the step.
    """
    used = {axis for axes in placements.values() for axis in axes}
    axes = [axis for axis, size in graph.mesh.items() if size > 1 and axis in used]
    operations = [
        step
        for step in steps
        if isinstance(step, Operation) and step.flops and _is_mapped(nodes_of[step.number])
    ]
    total = _flops(operations)
    if total < _LARGE_FLOPS or not axes:
        return
    differences = _Differences(graph.mesh)
    differences.visit(graph.body)
    for axis in axes:
        repeated = [
            step
            for step in operations
            if all(differences.is_repeated(node, axis) for node in nodes_of[step.number])
        ]
        count = _flops(repeated)
        if count >= _LARGE_FLOPS and count > _LARGE_SHARE * total:
            random = _flops(step for step in repeated if step.operation.startswith("nx.random."))
            yield Repetition(
                axis,
                graph.mesh[axis],
                count / total,
                tuple(_lines(repeated, _SMALL_SHARE * count))[:_MOST_LINES],
                tuple(_names_for(graph.body, axis))[:_MOST_NAMES],
                random > count / 2,
            )


def _flops(operations: Iterable[Operation]) -> float:
    return sum(step.flops * step.trips for step in operations)


def _lines(operations: Iterable[Operation], least: float) -> Iterator[str]:
    """Yield the lines with at least `least` FLOPs, the line with most of them first."""
    found: dict[str, float] = defaultdict(float)
    for step in operations:
        found[step.source] += step.flops * step.trips
    for line, count in sorted(found.items(), key=lambda item: -item[1]):
        if line and count >= least:
            yield line


def _is_mapped(nodes: Iterable[Node]) -> bool:
    """Return True for operations within a mapped function."""
    return all(value.layout is None for node in nodes for value in (*node.reads, *node.results))


def _names_for(body: Body, axis: str) -> Iterator[str]:
    """Yield names of arguments that may be mapped to a mesh axis, the best ones first.

    These are the names of the most bytes. Names of data come first: an argument with the type of a
    result may be a parameter. A name of an array that is sharded over the mesh axis, or is gathered
    from it, would conflict.
    """
    types = {_type(value) for value in body.outputs if value is not None}
    taken, data, others = set(_gathered(body, axis)), Counter[str](), Counter[str]()
    for value in body.inputs:
        if value is None or value.given is None:
            continue
        spec = (value.layout.root().spec if value.layout is not None else None) or ()
        names = [str(dim) for dim in value.given.dims if dim is not None]
        if any(axis in axes for axes in spec):
            taken.update(names)
        else:
            sizes = others if _type(value) in types else data
            sizes.update(dict.fromkeys(names, value.bytes))
    ordered = [name for sizes in (data, others) for name, _ in sizes.most_common()]
    yield from (name for name in dict.fromkeys(ordered) if name not in taken)


def _type(value: Value) -> tuple[Hashable, ...]:
    return tuple(value.aval.shape), str(value.aval.dtype)


def _gathered(body: Body, axis: str) -> Iterator[str]:
    """Yield the names of operations that gather over a mesh axis."""
    for node in body.nodes:
        if node.kind is Kind.GATHER and node.eqn is not None and axis in axes_of(node.eqn):
            yield from node.origin.names
        for inner in node.bodies:
            yield from _gathered(inner, axis)


class _Differences:
    """The mesh axes along which the values of a program differ, as bits.

    If the bit of a mesh axis is not set, all devices along it have the same value. A global array
    counts with the blocks of its sharding.

    Args:
      mesh: the mesh axes.
    """

    def __init__(self, mesh: Iterable[str]):
        self._bits = {axis: 1 << i for i, axis in enumerate(mesh)}
        self._all = (1 << len(self._bits)) - 1
        self._values: dict[int, int] = {}  # by the `id` of the value
        self._operands: dict[int, int] = {}  # of all operands, by the `id` of the operation

    def is_repeated(self, node: Node, axis: str) -> bool:
        """Return True if all devices along a mesh axis run an operation on equal operands.

        The factorization of one matrix does not count, because no layout divides it.
        """
        if node.eqn is not None and costs.factorizes_one(node.eqn):
            return False
        return node.sizes.get(axis, 1) > 1 and not self._operands[id(node)] & self._bits[axis]

    def visit(self, body: Body, around: int = 0) -> None:
        """Find the differences of the values of a program.

        `around` has the mesh axes along which devices run it a different number of times.
        """
        for node in body.nodes:
            found = self._operands[id(node)] = around | self._union(node.reads)
            if node.kind is Kind.SCAN:
                self._scan(node, around)
            elif node.kind is Kind.WHILE:
                self._while(node, around)
            elif node.kind is Kind.BRANCH:
                self._branch(node, around)
            elif node.entry is not None:
                self._set(node.results[0], around | self._of_block(node.reads[0], *node.entry))
            elif node.kind is Kind.BARRIER or node.kind in _EQUALIZING:
                for value, result in zip(node.operands, node.results, strict=True):
                    self._set(result, around | self._of_result(node, self._of(value)))
            else:
                found = self._of_result(node, found)
                for result in node.results:
                    self._set(result, found)

    def _of(self, value: Value | None) -> int:
        if value is None:  # a literal
            return 0
        known = self._values.get(id(value))
        return self._of_layout(value) if known is None else known

    def _union(self, values: Iterable[Value | None]) -> int:
        found = 0
        for value in values:
            found |= self._of(value)
        return found

    def _set(self, value: Value, found: int) -> None:
        self._values[id(value)] = found | self._of_layout(value)

    def _of_axes(self, axes: Iterable[str]) -> int:
        found = 0
        for axis in axes:
            found |= self._bits.get(axis, 0)
        return found

    def _of_spec(self, spec: Spec) -> int:
        return self._of_axes(axis for axes in spec for axis in axes)

    def _of_sharding(self, sharding: object) -> int:
        spec: PartitionSpec | None = getattr(sharding, "spec", None)
        return 0 if spec is None else self._of_spec(spec_of(spec))

    def _of_layout(self, value: Value) -> int:
        """Return the mesh axes over which the type of a value is sharded.

        In a mapped function, these are Explicit mesh axes over which the function is not mapped.
        """
        if value.layout is not None:
            return self._of_spec(value.layout.root().spec or ())
        return self._of_sharding(getattr(value.aval, "sharding", None))

    def _of_block(self, value: Value, spec: Spec, mapped: frozenset[str]) -> int:
        """Return the mesh axes along which the blocks of an array differ in a mapped function.

        Over mesh axes that are mapped there, that is its sharding. The other axes may be those of
        the partitioner, or of a mapped function around it.
        """
        outside = self._of(value)
        if value.layout is not None:
            outside &= ~self._of_axes(mapped)
        return outside | self._of_spec(spec)

    def _of_result(self, node: Node, found: int) -> int:
        """Return the differences of the results of an operation from those of its operands."""
        eqn, kind = node.eqn, node.kind
        if kind in _EQUALIZING:
            axes = self._of_axes(axes_of(eqn))
            return found | axes if is_in_groups(eqn) else found & ~axes
        if kind in _DISTINGUISHING:
            return found | self._of_axes(axes_of(eqn))
        if eqn is None:  # it leaves a mapped function, or changes no elements
            return found
        if kind is Kind.CONSTRAINT:
            return found | self._of_sharding(constraint(eqn))
        if node.has_effects:
            return self._all
        if kind is Kind.UNKNOWN and not costs.keeps_uniform(eqn):
            inner = (collective_axes(open_jaxpr(jaxpr), True) for jaxpr in jaxprs_of(eqn))
            return found | self._of_axes({*strings_of(eqn)}.union(*inner))
        return found

    # --- control flow -----------------------------------------------------------------------------

    def _scan(self, node: Node, around: int) -> None:
        scan, (body,) = Scan.of(node.eqn), node.bodies
        for value, operand in zip(body.inputs, node.operands, strict=False):
            if value is not None and value is not operand:  # not a constant
                self._set(value, around | self._of(operand))
        carry = body.inputs[scan.consts : scan.consts + scan.carries]
        while True:
            self.visit(body, around)
            if not self._grow(carry, body.outputs, around):
                break
        last = [*carry, *body.outputs[scan.carries :]]
        for result, value in zip(node.results, last, strict=True):
            self._set(result, around | self._of(value))

    def _while(self, node: Node, around: int) -> None:
        loop, (body, condition) = While.of(node.eqn), node.bodies[:2]
        carry = body.inputs[loop.body_consts :]
        first = node.operands[loop.condition_consts + loop.body_consts :]
        for value, operand in zip(carry, first, strict=False):
            if value is not None:
                self._set(value, around | self._of(operand))
        differ = around
        while True:
            for other in node.bodies[1:]:
                self.visit(other, differ)
            differ |= self._of(condition.outputs[0])
            self.visit(body, differ)
            if not self._grow(carry, body.outputs, differ):
                break
        for result, value in zip(node.results, carry, strict=True):
            self._set(result, differ | self._of(value))

    def _branch(self, node: Node, around: int) -> None:
        differ = around | self._of(node.operands[0])
        for body in node.bodies:
            self.visit(body, differ)
        for i, result in enumerate(node.results):
            self._set(result, differ | self._union(body.outputs[i] for body in node.bodies))

    def _grow(
        self, values: Sequence[Value | None], sources: Sequence[Value | None], also: int
    ) -> bool:
        """Add the differences of sources to those of values; return True if any are new."""
        is_new = False
        for value, source in zip(values, sources, strict=False):
            if value is not None:
                before = self._of(value)
                after = before | also | self._of(source)
                self._values[id(value)] = after
                is_new |= after != before
        return is_new
