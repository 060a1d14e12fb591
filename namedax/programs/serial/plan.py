"""The plan of a body in steps: the passes over the loop, and the pass that computes each value.

A value has a level: the number of passes that must end before it can be computed. Nodes whose
operands are the same in every step run once, outside of the passes. A collective over the loop's
axis ends a pass, because its result needs the operands of all steps.

A scan that needs a reduction over the loop's axis in every iteration cannot run within the loop:
each iteration would have to wait for all steps. All steps execute such a scan in lockstep: it runs
around the loop, and in each iteration, the loop runs as often as the iteration needs. A branch and
a while loop work in the same way, as long as all steps take the same path. Values that differ from
step to step, and are carried from iteration to iteration, are stored for all steps at once, stacked
along a leading axis.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence, Set

from jax.extend.core import ClosedJaxpr
from jax.sharding import PartitionSpec

from namedax.core.records import Record
from namedax.core.variance import varying_of
from namedax.errors import SerialLoopError
from namedax.primitives.equations import Scan, While, dimension_of, facts, is_in_groups
from namedax.primitives.record import Kind, aval_of
from namedax.primitives.table import LOCAL_KINDS
from namedax.programs.serial.collectives import RULES
from namedax.programs.serial.nodes import PASSING, Added, Body, Flattener, Node, Value
from namedax.programs.serial.operations import needs_index
from namedax.resources.mesh import entry_of
from namedax.resources.serial import moves_entries

__all__ = ["STACKED", "Dim", "Plan", "plan_steps"]

#: In place of the dimension that the loop's axis shards: a leading axis, with one element for every
#: step.
STACKED = -1
#: The dimension in which a value has the parts of all steps; `None` for a value that is the same in
#: every step.
Dim = int | None

_SPLIT = (*PASSING, Kind.CAST)


class Plan(Record):
    """A body over one loop's axis, with the pass of each value.

    Attributes:
      axis: the axis of the loop.
      steps: the number of steps.
      body: the nodes, in order.
      in_dims: the dims of the arguments.
      out_dims: the dims of the results.
      varies: the values that differ from step to step.
      levels: the number of passes that must end before each value can be computed.
      collectives: the nodes that need the operands of all steps.
      constants: results of control flow that are the same in every step, although other results of
        it differ; and the level of the pass that computes them.
      lockstep: the plans of the bodies of control flow that all steps execute in lockstep.
      needed: the values that the results, or side effects, depend on.
    """

    axis: str
    steps: int
    body: Body
    in_dims: Sequence[Dim]
    out_dims: Sequence[Dim]
    varies: Set[int]
    levels: Mapping[int, int]
    collectives: Set[Node]
    constants: Mapping[int, int]
    lockstep: Mapping[Node, Sequence[Plan]]
    needed: Set[int]

    def differing(self) -> list[bool]:
        """Return, for each result, whether it differs from step to step."""
        return [isinstance(v, int) and v in self.varies for v in self.body.outputs]

    def needs(self, node: Node) -> bool:
        """Return True if a result or a side effect depends on a node."""
        return bool(node.eqn.effects) or not self.needed.isdisjoint(node.outputs)

    def runs_in_steps(self, node: Node) -> bool:
        """Return True if a node computes something else in every step."""
        return needs_index(node, self.axis) or any(
            v in self.varies for v in node.inputs if isinstance(v, int)
        )

    def nodes_for(self, targets: Set[int], effects: Sequence[Node], known: Set[int]) -> list[Node]:
        """Return the nodes of one step that lead to targets which are not stored, in order."""
        stored = known - self.cheap
        wanted = {v for v in targets if v not in stored}
        nodes = []
        for node in reversed(self.body.nodes):
            if node in self.collectives:  # its result is known, or sliced from a known value
                continue
            if node in effects or (
                not wanted.isdisjoint(node.outputs) and not (node.eqn.effects and not node.outputs)
            ):
                nodes.append(node)
                wanted |= {v for v in node.inputs if type(v) is int and v not in stored}
        return nodes[::-1]

    @functools.cached_property
    def cheap(self) -> Set[int]:
        """The values that are recomputed in every step.

        Stored outside the loop they would take memory, and time to read.

        Values that are gathered from other devices are included, unless the loop stores them.
        """
        cheap, gathered = set[int](), set[int]()
        again = getattr(self.axis, "keep", "parts") == "parts"
        for node in self.body.nodes:
            inputs = [v for v in node.inputs if isinstance(v, int)]
            if node.kind == Kind.GATHER and node not in self.collectives:
                gathered.update(node.outputs if again else ())
            elif (
                len(inputs) == 1
                and inputs[0] in gathered
                and (node.kind == Kind.CAST or facts(node.eqn).moves)
            ):
                gathered.update(node.outputs)
            if facts(node.eqn).is_cheap or (
                node.kind == Kind.CAST and any(v in cheap for v in inputs)
            ):
                cheap.update(node.outputs)
        return cheap | gathered

    @functools.cached_property
    def sources(self) -> Mapping[int, Node]:
        """The node that computes each value."""
        return {v: node for node in self.body.nodes for v in node.outputs}

    @functools.cached_property
    def reads(self) -> Mapping[int, int]:
        """The number of times that nodes read each value."""
        return count_reads(self.body.nodes)

    @functools.cached_property
    def read_alone(self) -> Set[int]:
        """The values that are read outside of steps: by collectives, and as results."""
        read = {v for v in self.body.outputs if type(v) is int}
        return read.union(*[_numbers(node.inputs) for node in self.collectives])


def count_reads(nodes: Iterable[Node]) -> Mapping[int, int]:
    """Count how often nodes read each value."""
    counts = defaultdict[int, int](int)
    for node in nodes:
        for v in node.inputs:
            if type(v) is int:
                counts[v] += 1
    return counts


def _numbers(values: Sequence[Value]) -> list[int]:
    return [v for v in values if type(v) is int]


def plan_steps(
    jaxpr: ClosedJaxpr,
    axis: str,
    steps: int,
    in_specs: Sequence[PartitionSpec],
    out_specs: Sequence[PartitionSpec],
    lockstep: bool,
) -> Plan:
    """Plan the body of `jaxpr` in steps.

    Args:
      jaxpr: the jaxpr of blocks.
      axis: the axis of the loop.
      steps: the number of steps.
      in_specs: the specs of the arguments.
      out_specs: the specs of the results.
      lockstep: whether all steps may execute control flow in lockstep.

    Raises:
      SerialLoopError: the body cannot be executed in steps.
    """
    body = Flattener(axis, lockstep).flatten(jaxpr)
    in_dims, out_dims = ([_dim_of(spec, axis) for spec in specs] for specs in (in_specs, out_specs))
    return _plan_body(axis, steps, body, in_dims, out_dims)


def _plan_body(
    axis: str, steps: int, body: Body, in_dims: Sequence[Dim], out_dims: Sequence[Dim]
) -> Plan:
    found = _Planner(axis, steps, body, in_dims)
    nodes = []
    for node in body.nodes:
        for part in found.split(node):
            found.classify(part)
            nodes.append(part)
    return Plan(
        axis,
        steps,
        body.replace(nodes=nodes),
        in_dims,
        out_dims,
        found.varies,
        found.levels,
        found.collectives,
        found.constants,
        found.lockstep,
        _needed(body),
    )


def _needed(body: Body) -> set[int]:
    """Return the values that the results, or side effects, depend on."""
    needed = {out for out in body.outputs if isinstance(out, int)}
    for node in reversed(body.nodes):
        if node.eqn.effects or not needed.isdisjoint(node.outputs):
            needed.update(v for v in node.inputs if isinstance(v, int))
    return needed


class _Planner:
    """The facts about the values and nodes of a body, which grow from node to node (see `Plan`)."""

    def __init__(self, axis: str, steps: int, body: Body, in_dims: Sequence[Dim]):
        self.axis, self.steps = axis, steps
        # The dimension of a value; one that is not sliced from an operand is stacked in front.
        self.dims = dict(zip(body.inputs, in_dims, strict=True))
        self.varies = {v for v, dim in self.dims.items() if dim is not None}
        self.levels: dict[int, int] = dict.fromkeys(body.inputs, 0)
        self.collectives = set[Node]()
        self.constants: dict[int, int] = {}
        self.lockstep: dict[Node, list[Plan]] = {}

    def split(self, node: Node) -> list[Node]:
        """Split a node that returns its operands by whether they differ from step to step."""
        if node.kind not in _SPLIT:
            return [node]
        differ = [isinstance(v, int) and v in self.varies for v in node.inputs]
        if all(differ) or not any(differ):
            return [node]
        groups = [[i for i, one in enumerate(differ) if one == wanted] for wanted in (False, True)]
        return [
            Node(
                node.kind, node.eqn, [node.inputs[i] for i in some], [node.outputs[i] for i in some]
            )
            for some in groups
        ]

    def classify(self, node: Node) -> None:
        """Record the results of a node that differ from step to step, and their level."""
        level, varies = 0, False
        for v in node.inputs:
            if type(v) is int:
                level, varies = max(level, self.levels[v]), varies or v in self.varies
        if node.lockstep:
            self._classify_lockstep(node, level + varies)
            return
        if node.kind is Kind.CAST or (node.kind in LOCAL_KINDS and not node.counted_once):
            pass
        elif self.axis in node.axes and node.kind != Kind.DEVICE_INDEX:
            self._check_collective(node)
            self.collectives.add(node)
            level += varies
            varies = RULES[node.kind].scatters
            if varies:
                self.dims.update(dict.fromkeys(node.outputs, dimension_of(node.eqn)))
        else:
            varies = varies or needs_index(node, self.axis)
        constant = set[int]()
        if varies and node.bodies:
            differ = [type(v) is int and v in self.varies for v in node.inputs]
            constant = {
                output
                for i, output in enumerate(node.outputs)
                if self.axis not in varying_of(node.eqn.outvars[i].aval)
                and i not in node.postponed
                and not _differing_results(node, differ, self.axis)[i]
            }
        for output in node.outputs:
            if output in constant:
                self.constants[output], self.levels[output] = level, level + 1
                continue
            self.levels[output] = level
            if varies:
                self.varies.add(output)

    def _check_collective(self, node: Node) -> None:
        if node.kind in RULES and not is_in_groups(node.eqn):
            return
        # Collectives of namedax are rejected when the body calls them (`communication`).
        raise SerialLoopError(
            moves_entries(
                f"jax.lax.{node.name}",
                f"the axis of {self.axis}",
                f"is executed in {self.steps} steps",
                aval_of(node.eqn.invars[0]),
            )
        )

    # --- control flow in lockstep ---

    def _classify_lockstep(self, node: Node, level: int) -> None:
        dims = [
            self.dims.get(v, STACKED) if isinstance(v, int) and v in self.varies else None
            for v in node.inputs
        ]
        plan = _LOCKSTEP[node.kind]
        differ, self.lockstep[node] = plan(self, node, dims)
        self.collectives.add(node)
        self.levels.update(dict.fromkeys(node.outputs, level))
        self.varies.update(v for v, one in zip(node.outputs, differ, strict=True) if one)

    def _plan(self, body: Body, in_dims: Sequence[Dim], out_dims: Sequence[Dim]) -> Plan:
        return _plan_body(self.axis, self.steps, body, in_dims, out_dims)

    def plan_branch(self, node: Node, dims: Sequence[Dim]) -> tuple[list[bool], list[Plan]]:
        """Plan the bodies of a branch; return which results differ from step to step, and plans."""
        if dims[0] is not None:
            raise self._disagreement("the predicate of a branch differs")
        plans = [self._plan(body, dims[1:], [None] * len(node.outputs)) for body in node.bodies]
        differ = [any(some) for some in zip(*(plan.differing() for plan in plans), strict=True)]
        out_dims = _stacked_if(differ)
        return differ, [plan.replace(out_dims=out_dims) for plan in plans]

    def plan_scan(self, node: Node, dims: Sequence[Dim]) -> tuple[list[bool], list[Plan]]:
        """Plan the body of a scan, as `plan_branch` does."""
        scan = Scan.of(node.eqn)
        consts, carries = scan.consts, scan.carries
        # The scanned operands lack their first dimension in the body.
        xs = [
            STACKED if dim == 0 else dim - 1 if dim is not None and dim > 0 else dim
            for dim in dims[consts + carries :]
        ]
        differ, plan = self._plan_carried(
            node.bodies[0], dims[:consts], dims[consts : consts + carries], xs
        )
        return differ, [plan]

    def plan_while(self, node: Node, dims: Sequence[Dim]) -> tuple[list[bool], list[Plan]]:
        """Plan the condition and the body of a while loop, as `plan_branch` does."""
        loop, (condition, body) = While.of(node.eqn), node.bodies
        first, start = loop.condition_consts, loop.condition_consts + loop.body_consts
        if loop.ndim:
            raise self._disagreement(
                "the condition of a while loop is batched by jax.vmap, and differs"
            )
        differ, plan = self._plan_carried(body, dims[first:start], dims[start:], [])
        test = self._plan(condition, [*dims[:first], *_stacked_if(differ)], [None])
        if any(test.differing()):
            raise self._disagreement("the condition of a while loop differs")
        return differ, [test, plan]

    def _plan_carried(
        self, body: Body, consts: Sequence[Dim], start: Sequence[Dim], xs: Sequence[Dim]
    ) -> tuple[list[bool], Plan]:
        """Plan a loop's body; a carry differs from step to step if it starts or is returned so."""
        carried = [dim is not None for dim in start]
        while True:
            in_dims = [*consts, *_stacked_if(carried), *xs]
            plan = self._plan(body, in_dims, [None] * len(body.outputs))
            differ = plan.differing()
            grown = [a or b for a, b in zip(carried, differ, strict=False)]
            if grown == carried:
                break
            carried = grown
        differ = [*carried, *differ[len(carried) :]]
        return differ, plan.replace(out_dims=_stacked_if(differ))

    def _disagreement(self, what: str) -> SerialLoopError:
        return SerialLoopError(
            f"SerialLoop: {what} from step to step of {self.axis}, but a reduction or collective"
            " over that axis is inside, which all steps must execute together. Move the reduction"
            " outside, reduce the condition over the axis first (nx.any), or remove the SerialLoop"
            " from axis_resources."
        )


_LOCKSTEP: dict[
    Kind | Added,
    Callable[[_Planner, Node, Sequence[Dim]], tuple[list[bool], list[Plan]]],
] = {
    Kind.BRANCH: _Planner.plan_branch,
    Kind.SCAN: _Planner.plan_scan,
    Kind.WHILE: _Planner.plan_while,
}


# JAX types the results of a loop or a branch by their operands alone, although they also differ if
# the condition does. So the data flow determines what differs.


def _differing_results(node: Node, differ: Sequence[bool], axis: str) -> list[bool]:
    """Return, for each result of a node, whether it differs from step to step if `differ` do."""
    match node.kind:
        case Kind.BRANCH if not differ[0]:
            branches = [_differing(body, differ[1:], axis) for body in node.bodies]
            return [any(some) for some in zip(*branches, strict=True)]
        case Kind.SCAN:
            scan = Scan.of(node.eqn)
            first, start = scan.consts, scan.consts + scan.carries
            return _carried(
                node.bodies[0], differ[:first], differ[first:start], differ[start:], axis
            )
        case Kind.WHILE:
            loop, (condition, body) = While.of(node.eqn), node.bodies
            first, start = loop.condition_consts, loop.condition_consts + loop.body_consts
            carried = _carried(body, differ[first:start], differ[start:], [], axis)
            is_common = not any(_differing(condition, [*differ[:first], *carried], axis))
            return carried if is_common else [True] * len(carried)
        case kind if kind in _SPLIT:
            return list(differ)
    return [any(differ) or needs_index(node, axis)] * len(node.outputs)


def _carried(
    body: Body, consts: Sequence[bool], carried: Sequence[bool], xs: Sequence[bool], axis: str
) -> list[bool]:
    """Return, for each result of a loop's body, whether it differs after some iterations."""
    while True:
        results = _differing(body, [*consts, *carried, *xs], axis)
        grown = [a or b for a, b in zip(carried, results, strict=False)]
        if grown == list(carried):
            return [*grown, *results[len(grown) :]]
        carried = grown


def _differing(body: Body, given: Sequence[bool], axis: str) -> list[bool]:
    """Return, for each result of a body, whether it differs from step to step."""
    found = {v for v, differs in zip(body.inputs, given, strict=True) if differs}
    for node in body.nodes:
        differ = [type(v) is int and v in found for v in node.inputs]
        results = zip(node.outputs, _differing_results(node, differ, axis), strict=True)
        found.update(output for output, differs in results if differs)
    return [type(v) is int and v in found for v in body.outputs]


def _stacked_if(differ: Sequence[bool]) -> list[Dim]:
    return [STACKED if one else None for one in differ]


def _dim_of(spec: PartitionSpec, axis: str) -> int | None:
    """Return the dimension that the loop's axis shards, or `None`."""
    for dim in range(len(spec)):
        entry = entry_of(spec, dim)
        if axis in entry:
            assert entry[-1] == axis  # ensured by the parser: the loop is the minor axis
            return dim
    return None
