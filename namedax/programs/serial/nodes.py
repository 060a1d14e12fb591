"""A traced jaxpr as a list of nodes, for a loop over one of its mesh axes (`stepping`).

Calls are inlined, and control flow keeps its bodies, whose nodes are of the same kind. A sum over
the loop's axis cannot be taken within the loop. Such sums within a `lax.scan` that only collects
them are moved after it.
"""

from __future__ import annotations

import enum
import itertools
from collections import Counter
from collections.abc import Mapping, Sequence

from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal

from namedax.core.names import MeshAxes
from namedax.core.records import Record
from namedax.errors import SerialLoopError
from namedax.primitives.equations import (
    Scan,
    axes_of,
    bodies_of,
    called_in_steps,
    facts_of,
    jaxprs_of,
    name_of,
    open_jaxpr,
    solve,
)
from namedax.primitives.recomputation import is_remat_of_gradient
from namedax.primitives.record import AnyJaxpr, Atom, Kind, Primitive
from namedax.primitives.table import LOCAL_KINDS
from namedax.programs.evaluator import inlined_source, is_pinned, number_of
from namedax.programs.psum_plan import Commuted, commute

__all__ = ["PASSING", "Added", "Body", "Flattener", "Node", "Value"]


# An input or output of a node: an index of a value, or a literal.
Value = int | Literal


class Added(enum.Enum):
    """Nodes without an equation of their own; each stores the equation that it was made for."""

    BARRIER = "start of a recomputation for the gradient"
    IDENTITY = "the summand of a postponed psum"
    POSTPONED_SUM = "the psum of summands"
    EACH = "a jaxpr for each element of a leading axis"


# Nodes that return each operand, and nodes that sum over their axes.
PASSING = (Added.BARRIER, Kind.BARRIER)
_SUMS = (Kind.SUM, Added.POSTPONED_SUM)
# Nodes that name the axis of a loop, and do not need all its steps.
_SILENT = (Kind.CAST, Kind.DEVICE_INDEX, Kind.OWN_BLOCK)


class Node:
    """One operation: an equation, control flow with its bodies, or an added node.

    The `Flattener` changes nodes while it postpones psums. A node does not change after that.
    """

    __slots__ = (
        "bodies",
        "counted_once",
        "eqn",
        "inputs",
        "kind",
        "lockstep",
        "outputs",
        "postponed",
    )

    def __init__(
        self,
        kind: Kind | Added,
        eqn: JaxprEqn,
        inputs: list[Value],
        outputs: list[int],
        bodies: Sequence[Body] = (),
        postponed: Mapping[int, MeshAxes] | None = None,
    ):
        self.kind, self.eqn, self.bodies = kind, eqn, list(bodies)
        self.inputs, self.outputs = inputs, outputs
        self.lockstep = False  # True for control flow that all steps execute in lockstep (`plan`)
        # Results whose psum over these axes is postponed: of a scan, and of the psums in its body.
        self.postponed: dict[int, MeshAxes] = {} if postponed is None else dict(postponed)
        # Operands that are added to a postponed psum, once: in the first step, on the first device
        # along these axes.
        self.counted_once: dict[int, MeshAxes] = {}

    @property
    def axes(self) -> MeshAxes:
        """The mesh axes that a collective names."""
        if self.kind is Added.POSTPONED_SUM:
            return self.postponed[0]
        return () if self.kind in LOCAL_KINDS or isinstance(self.kind, Added) else axes_of(self.eqn)

    @property
    def name(self) -> str:
        """The name in messages."""
        return name_of(self.eqn)


class Body(Record, frozen=False):
    """Nodes and the open jaxpr that they come from; values are numbered in the outermost jaxpr."""

    inputs: list[int]
    outputs: list[Value]
    nodes: list[Node]
    jaxpr: Jaxpr


def _is_on_scalars(jaxpr: AnyJaxpr) -> bool:
    """Return True if a jaxpr combines two scalars, as in a scatter or a reduction."""
    return all(getattr(var.aval, "shape", None) == () for var in open_jaxpr(jaxpr).invars)


class Flattener:
    """Converter of a jaxpr to nodes: calls are inlined, control flow keeps its bodies.

    Args:
      axis: the axis of the loop.
      lockstep: whether all steps may execute control flow in lockstep, if it has reductions over
        the axis that cannot be postponed.
    """

    def __init__(self, axis: str, lockstep: bool):
        self.axis, self.lockstep = axis, lockstep
        # True if gradients of values that are stored in parts are scattered once, after they have
        # been summed (`SerialLoop`).
        self.scatters_once = getattr(axis, "keep", "parts") == "whole"
        self.fresh = itertools.count()
        self.depth = 0  # of nested bodies
        self.zeros: set[int] = set()  # values that are known to be zero

    def flatten(self, jaxpr: AnyJaxpr) -> Body:
        """Return the nodes of a complete jaxpr."""
        body = self.body(jaxpr)
        if not self.scatters_once:
            self._scatter_early(body)
        return body

    def _scatter_early(self, body: Body) -> None:
        """Postpone sums over the loop past a reduce-scatter, so that the loop sums parts.

        The reduce-scatter is over mesh axes of devices.
        """
        users: dict[int, list[Node]] = {}
        for node in body.nodes:
            for value in dict.fromkeys(v for v in node.inputs if isinstance(v, int)):
                users.setdefault(value, []).append(node)
        for out in body.outputs:
            if isinstance(out, int):
                users[out] = []  # it is a result of the jaxpr
        sums = [node for node in body.nodes if node.kind in _SUMS and self.axis in node.axes]
        for node in sums:
            last, axes = node, node.axes
            while len(last.outputs) == 1 and len(users.get(last.outputs[0], ())) == 1:
                (value,), (last,) = last.outputs, users[last.outputs[0]]
                found = self._commute(last, [axes if v == value else None for v in last.inputs])
                if found is None or found.counted_once or last.kind in _SUMS:
                    break
                if last.kind == Kind.SCATTER:
                    part = next(self.fresh)
                    total = Node(Added.POSTPONED_SUM, last.eqn, [part], last.outputs, (), {0: axes})
                    node.kind, node.postponed, last.outputs = Added.IDENTITY, {0: axes}, [part]
                    body.nodes.insert(
                        1 + next(i for i, other in enumerate(body.nodes) if other is last), total
                    )
                    break

    def body(self, jaxpr: AnyJaxpr) -> Body:
        """Return the nodes of `jaxpr`, closed or open, with new inputs."""
        inputs = [next(self.fresh) for _ in open_jaxpr(jaxpr).invars]
        nodes: list[Node] = []
        self.depth += 1
        outputs = self._inline(jaxpr, inputs, nodes)
        self.depth -= 1
        return Body(inputs, outputs, nodes, open_jaxpr(jaxpr))

    def _inline(
        self,
        jaxpr: AnyJaxpr,
        inputs: Sequence[Value],
        nodes: list[Node],
        call: JaxprEqn | None = None,
    ) -> list[Value]:
        """Append the equations of `jaxpr`, which `call` calls, to `nodes`; return its results."""
        consts = jaxpr.consts if isinstance(jaxpr, ClosedJaxpr) else ()
        jaxpr = open_jaxpr(jaxpr)
        values: dict[Atom, Value] = dict(zip(jaxpr.invars, inputs, strict=True))
        for var, const in zip(jaxpr.constvars, consts, strict=True):
            values[var] = Literal(const, var.aval)

        eqns = jaxpr.eqns
        if call is not None and ((pinned := is_pinned(call)) or call.source_info.name_stack.stack):
            eqns = [
                eqn.replace(source_info=inlined_source(call.source_info, pinned, eqn))
                for eqn in eqns
            ]
        for eqn, known in zip(eqns, facts_of(eqns), strict=True):
            operands: list[Value] = [
                var if type(var) is Literal else values[var] for var in eqn.invars
            ]
            inner = None if known.kind in LOCAL_KINDS else called_in_steps(eqn)
            results: list[Value]
            if known.kind is Kind.SOLVE:
                inner, taken = solve(eqn, operands)
                results = self._inline(inner, taken, nodes, eqn)
            elif inner is not None:
                if known.kind is Kind.REMAT and is_remat_of_gradient(eqn):
                    fresh = [next(self.fresh) for _ in operands]
                    nodes.append(Node(Added.BARRIER, eqn, operands, fresh))
                    operands = list(fresh)
                results = self._inline(inner, operands, nodes, eqn)
            else:
                results = self._operation(eqn, known, operands, nodes)
            values.update(zip(eqn.outvars, results, strict=True))
        return [var if type(var) is Literal else values[var] for var in jaxpr.outvars]

    def _operation(
        self, eqn: JaxprEqn, known: Primitive, operands: list[Value], nodes: list[Node]
    ) -> list[Value]:
        node = Node(known.kind, eqn, operands, list(itertools.islice(self.fresh, len(eqn.outvars))))
        nodes.append(node)
        if (known.repeats or known.kind is Kind.CAST) and self._is_zero(operands[0]):
            self.zeros.update(node.outputs)
        if known.kind in LOCAL_KINDS:
            return list(node.outputs)
        node.bodies = self._bodies(eqn)
        if not node.bodies and not all(_is_on_scalars(inner) for inner in jaxprs_of(eqn)):
            raise SerialLoopError(
                f"SerialLoop: {node.name} contains its own program, which cannot be executed in"
                f" steps of {self.axis}. Call it outside the mapped function, or remove the"
                " SerialLoop from axis_resources."
            )
        if not any(self._names_loop(body) for body in node.bodies):
            return list(node.outputs)
        try:
            return self._sum_after_scan(node, nodes)
        except SerialLoopError:
            if not self.lockstep:
                raise
        node.lockstep, node.bodies = True, self._bodies(eqn)  # as they were before the attempt
        return list(node.outputs)

    def _bodies(self, eqn: JaxprEqn) -> list[Body]:
        return [self.body(jaxpr) for jaxpr in bodies_of(eqn)]

    def _is_zero(self, value: Value) -> bool:
        return value in self.zeros if isinstance(value, int) else number_of(value) == 0

    def _names_loop(self, body: Body) -> bool:
        return any(
            (self.axis in node.axes and node.kind not in _SILENT)
            or any(map(self._names_loop, node.bodies))
            for node in body.nodes
        )

    def _sum_after_scan(self, node: Node, nodes: list[Node]) -> list[Value]:
        """Move sums over the loop out of a scan that only collects them.

        The gradient of a scan collects the gradients of its weights in this way.

        Within the scan, a postponed psum is this step's summand. It may be added to other postponed
        psums, scaled and reshaped. The psum itself is taken of the scan's result. The initial value
        of a carry that collects is one of the summands: that of the first step, on the first
        device.
        """
        if node.kind != Kind.SCAN:
            raise self._too_early("a later operation")
        (body,), scan = node.bodies, Scan.of(node.eqn)
        carries = scan.carries
        carried = body.inputs[scan.consts : scan.consts + carries]
        postponed: dict[int, MeshAxes] = {}
        while True:
            found = self._postpone(body, postponed)
            outputs = {
                i: found[out]
                for i, out in enumerate(body.outputs)
                if isinstance(out, int) and out in found
            }
            grown = postponed | {carried[i]: axes for i, axes in outputs.items() if i < carries}
            if grown == postponed:
                break
            postponed = grown
        node.postponed = outputs
        results: list[Value] = list(node.outputs)
        for i, axes in outputs.items():
            tail = (
                self._take_scatter(body, i)
                if self.scatters_once and self.depth == 1 and i >= carries
                else None
            )
            # If a scatter follows, only the loop is summed over before it.
            total, first = next(self.fresh), axes if tail is None else (self.axis,)
            nodes.append(
                Node(Added.POSTPONED_SUM, node.eqn, [node.outputs[i]], [total], (), {0: first})
            )
            results[i] = total
            if tail is not None:
                results[i] = scattered = next(self.fresh)
                rest = tuple(axis for axis in axes if axis != self.axis)
                nodes.append(Node(Added.EACH, node.eqn, [total], [scattered], [tail], {0: rest}))
        return results

    def _take_scatter(self, body: Body, number: int) -> Body | None:
        """Remove a reduce-scatter and later operations from the body of a scan that collects it.

        Return these operations as a body; `None` if there is no such reduce-scatter.
        """
        made_by = {v: node for node in body.nodes for v in node.outputs}
        used = Counter(v for node in body.nodes for v in node.inputs if isinstance(v, int))
        used.update(v for v in body.outputs if isinstance(v, int))
        value: Value = body.outputs[number]
        tail: list[Node] = []
        while isinstance(value, int) and used[value] == 1 and value in made_by:
            node = made_by[value]
            if (
                len(node.inputs) != 1
                or len(node.outputs) != 1
                or node.bodies
                or (node.eqn.effects and not axes_of(node.eqn))
            ):
                return None
            tail.insert(0, node)
            (before,) = node.inputs
            if node.kind == Kind.SCATTER and isinstance(before, int):
                taken = set(map(id, tail))
                body.nodes[:] = [other for other in body.nodes if id(other) not in taken]
                body.outputs[number] = before
                return Body([before], [tail[-1].outputs[0]], tail, body.jaxpr)
            value = before
        return None

    def _postpone(self, body: Body, carries: Mapping[int, MeshAxes]) -> dict[int, MeshAxes]:
        """Remove the psums from a scan's body; return their operands and what follows, with axes.

        `carries` has the axes of the carries whose psum is postponed.
        """
        found = dict(carries)
        for node in body.nodes:
            axes = [found.get(v) if isinstance(v, int) else None for v in node.inputs]
            if node.lockstep or node.kind == Added.EACH:
                raise self._too_early("an inner iteration")
            if node.kind in (*_SUMS, Added.IDENTITY):
                found.update(self._postpone_sum(node, axes))
            elif self.axis in node.axes and node.kind not in _SILENT:
                raise self._too_early(f"the operation {node.name}")
            elif node.kind in PASSING:
                found.update(
                    (out, a) for out, a in zip(node.outputs, axes, strict=True) if a is not None
                )
            elif any(axes):
                commuted = self._commute(node, axes)
                if commuted is None:
                    raise self._too_early(f"the operation {node.name}")
                node.counted_once = dict.fromkeys(commuted.counted_once, commuted.axes)
                found.update(dict.fromkeys(node.outputs, commuted.axes))
        return found

    def _postpone_sum(self, node: Node, axes: Sequence[MeshAxes | None]) -> dict[int, MeshAxes]:
        """Postpone a psum, and return its results and axes.

        It sums over the loop, or over devices if the psums of all its operands are postponed.
        """
        if node.kind != Added.IDENTITY:
            if self.axis not in node.axes and None in axes:
                return {out: a for out, a in zip(node.outputs, axes, strict=True) if a is not None}
            node.postponed = (
                {0: node.axes}
                if node.kind == Added.POSTPONED_SUM
                else dict.fromkeys(range(len(node.outputs)), node.axes)
            )
            node.kind = Added.IDENTITY
        own = node.postponed[0]
        if not all(a is None or set(own).isdisjoint(a) for a in axes):
            raise self._too_early("a sum")
        return {out: (*(a or ()), *own) for out, a in zip(node.outputs, axes, strict=True)}

    def _commute(self, node: Node, axes: Sequence[MeshAxes | None]) -> Commuted | None:
        """Return a `Commuted` if a node may run before the psums of operands with `axes`."""
        if not isinstance(node.kind, Kind):
            return None
        summed = {i: a for i, a in enumerate(axes) if a is not None}
        return commute(node.eqn, summed, lambda i: self._is_zero(node.inputs[i]))

    def _too_early(self, what: str) -> SerialLoopError:
        return SerialLoopError(
            f"SerialLoop: a reduction or collective over {self.axis} is inside a scan, a loop or a"
            f" branch, where {what} needs its result. Move the reduction outside, or remove the"
            " SerialLoop from axis_resources."
        )
