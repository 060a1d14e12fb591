"""A traced program as one graph of a device's operations, with calls expanded in place.

Mapped functions are expanded in place, too.

Within a mapped function arrays are blocks of a device. Outside of it they are global, and XLA's
partitioner shards them. An array that enters or leaves a mapped function has the sharding of that
function. The operand and the result of an elementwise operation have the same sharding. An array
with an unknown sharding counts as replicated.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Hashable, Mapping, Sequence, Set
from typing import Any

import jax
import numpy as np
from jax.core import AbstractValue
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var
from jax.sharding import AxisType, PartitionSpec

from namedax.core.kernel_scopes import Place, place_in
from namedax.core.memory_kinds import is_host_type
from namedax.core.records import Record
from namedax.insight.analysis.sources import NOWHERE, Origin, Source
from namedax.primitives import costs
from namedax.primitives.equations import (
    Scan,
    While,
    bodies_of,
    called_in_steps,
    collective_kind,
    constraint,
    has_side_effects,
    is_copy_from_host,
    is_copy_to_host,
    mapped_axes,
    mapped_jaxpr,
    mesh_sizes,
    solve,
)
from namedax.primitives.recomputation import is_remat_of_gradient
from namedax.primitives.record import Kind

__all__ = ["Body", "Given", "Graph", "Node", "Value", "build", "prune"]


# The mesh axes along each dimension, without the empty ones at the end.
Spec = tuple[tuple[str, ...], ...]
# The maximum number of elements of constants that are compared by value.
_SMALL = 1024


class Given(Record):
    """Facts about an argument of the program.

    Attributes:
      what: its text in messages; empty if it is unknown.
      dims: the name of each dimension, or `None` for a positional dimension.
      spec: its sharding on the mesh; `None` if it is unknown.
    """

    what: str = ""
    dims: tuple[Hashable | None, ...] = ()
    spec: Spec | None = None

    def names_on(self, mesh_axes: Collection[str]) -> tuple[str, ...]:
        """Return the names of the dimensions that are sharded over one of these mesh axes."""
        pairs = zip(self.dims, self.spec or (), strict=False)
        return tuple(
            str(dim)
            for dim, axes in pairs
            if dim is not None and not set(axes).isdisjoint(mesh_axes)
        )


class Layout:
    """The sharding of an array on the mesh, possibly still unknown.

    Arrays with the same sharding share one layout.
    """

    __slots__ = ("_same", "spec")

    def __init__(self, spec: Spec | None = None):
        self.spec = spec
        self._same: Layout | None = None

    def root(self) -> Layout:
        """Return the representative of all layouts that are the same."""
        here: Layout = self
        while here._same is not None:
            here = here._same
        return here

    def join(self, other: Layout) -> bool:
        """Unify two layouts, unless both are known and differ."""
        one, two = self.root(), other.root()
        if one is two:
            return True
        if one.spec is None:
            one._same = two
        elif two.spec is None or two.spec == one.spec:
            two._same = one
        else:
            return False
        return True


class Value:
    """An array of the program.

    Attributes:
      aval: its type; outside mapped functions, the type of the global array.
      layout: the sharding of the global array; `None` within mapped functions, where `aval` is the
        type of a block.
      sizes: the sizes of the mesh axes.
      given: the facts about an argument of the program; `None` for other arrays.
      root: the array of which it is a view (`uses.root_of`); `None` until that is known.
    """

    __slots__ = ("_size", "aval", "given", "layout", "maker", "root", "sizes")

    def __init__(self, aval: AbstractValue, layout: Layout | None, sizes: Mapping[str, int]):
        self.aval: Any = aval  # usually a `ShapedArray`
        self.layout, self.sizes = layout, sizes
        self.maker: Node | None = None
        self.given: Given | None = None
        self.root: Value | None = None
        self._size: int | None = None

    @property
    def parts(self) -> int:
        """The number of blocks into which the type is partitioned."""
        if self.layout is None:
            return 1
        spec = self.layout.root().spec
        return math.prod(self.sizes.get(axis, 1) for axes in spec or () for axis in axes)

    @property
    def size(self) -> int:
        """The size of the block of one device in bytes, in any memory."""
        if self._size is None:
            self._size = costs.size_in_bytes(self.aval)
        return self._size if self.layout is None else self._size // self.parts

    @property
    def elements(self) -> int:
        """The number of elements of the block of one device."""
        count = math.prod(self.aval.shape)
        return count if self.layout is None else count // self.parts

    @property
    def bytes(self) -> int:
        """The size of the block of one device in its own memory; 0 in the memory of the host."""
        return 0 if is_host_type(self.aval) else self.size


class Node:
    """One operation of a device.

    Attributes:
      eqn: its equation.
      kind: the kind of its primitive.
      operands: one for each operand of the equation; `None` for a literal.
      results: one for each variable of the equation.
      bodies: for control flow, the programs that it runs.
      trips: the number of times that these run.
      origin: the origin of the equation.
      sizes: the sizes of the mesh axes that are mapped here.
      moved: for an array whose sharding outside a mapped function differs from the one inside: the
        sharding before and after.
      is_apart: True if it separates a recomputation from the first computation.
      kernel: its place in the call of a function with a declared cost, or `None`.
      entry: for the entry of an array into a mapped function, its sharding there, and the mesh axes
        over which the function is mapped; otherwise `None`.
      traits: its traits (`uses.traits_of`); `None` until the graph does not change any more.
    """

    __slots__ = (
        "bodies",
        "entry",
        "eqn",
        "is_apart",
        "kernel",
        "kind",
        "moved",
        "operands",
        "origin",
        "results",
        "sizes",
        "traits",
        "trips",
    )

    def __init__(
        self,
        eqn: JaxprEqn | None,
        kind: Kind,
        operands: Sequence[Value | None],
        results: list[Value],
        origin: Origin,
        sizes: Mapping[str, int],
    ):
        self.eqn: Any = eqn  # `None` for a barrier
        self.kind, self.results, self.origin, self.sizes = kind, results, origin, sizes
        self.operands = list(operands)
        self.bodies: list[Body] = []
        self.trips = 1
        self.moved: tuple[Spec, Spec] | None = None
        self.is_apart = False
        self.kernel: Place | None = None
        self.entry: tuple[Spec, frozenset[str]] | None = None
        self.traits: Any = None

    @property
    def reads(self) -> list[Value]:
        """The operands that are not literals."""
        return [value for value in self.operands if value is not None]

    @property
    def is_host_copy(self) -> bool:
        """True if it copies an array between the memory of the host and that of the device."""
        return self.eqn is not None and (is_copy_from_host(self.eqn) or is_copy_to_host(self.eqn))

    @property
    def has_effects(self) -> bool:
        """True if it does more than compute its results."""
        return self.eqn is not None and bool(self.eqn.effects) and has_side_effects(self.eqn)


class Body:
    """A program.

    It has inputs (`None` for a literal), outputs, operations in order, and the inputs that a step
    slices from an array.
    """

    __slots__ = ("inputs", "nodes", "outputs", "slices")

    def __init__(self, inputs: list[Value | None], outputs: list[Value | None], nodes: list[Node]):
        self.inputs, self.outputs, self.nodes = inputs, outputs, nodes
        self.slices: list[Value] = []


class Graph(Record):
    """A program, and facts recorded while it was built.

    Attributes:
      body: the program.
      mesh: the sizes of all mesh axes of the meshes in it.
      unknown_loops: the origins of loops with an unknown number of steps; each counts as one step.
      automatic: the origins of sharding constraints, which leave the communication to the
        partitioner.
    """

    body: Body
    mesh: dict[str, int]
    unknown_loops: list[Origin]
    automatic: list[Origin]


def spec_of(partition_spec: PartitionSpec | Sequence[str | tuple[str, ...] | None]) -> Spec:
    """Return the mesh axes along each dimension, from a `PartitionSpec`.

    A dimension that is left to the partitioner counts as replicated.
    """
    # JAX does not allow iteration over a spec that is reduced or unreduced.
    parts = getattr(partition_spec, "partitions", partition_spec)
    unknown = (None, PartitionSpec.UNCONSTRAINED)
    entries = [() if e in unknown else (e,) if isinstance(e, str) else tuple(e) for e in parts]
    while entries and not entries[-1]:
        entries.pop()
    return tuple(entries)


def _with_others(spec: Spec, before: Spec, mapped: frozenset[str]) -> Spec:
    """Return a layout that keeps dimensions sharded over unmapped mesh axes, if blocks allow it."""

    def together(old: tuple[str, ...], new: tuple[str, ...]) -> tuple[str, ...]:
        if old[: len(new)] == new and mapped.isdisjoint(old[len(new) :]):
            return old
        return new or tuple(itertools.takewhile(lambda axis: axis not in mapped, old))

    return spec_of(
        [together(old, new) for old, new in itertools.zip_longest(before, spec, fillvalue=())]
    )


def build(closed: ClosedJaxpr, arguments: Sequence[Given], source: Source = NOWHERE) -> Graph:
    """Build the graph of a closed jaxpr that takes these arguments.

    Args:
      closed: the jaxpr.
      arguments: its arguments.
      source: the line of equations that no line of user code has made, such as the gather of a
        result along an axis that does not divide. Default: none.
    """
    builder = _Builder()
    jaxpr = closed.jaxpr
    inputs = []
    for var, given in zip(jaxpr.invars, arguments, strict=True):
        layout = builder.layout_of(var.aval) if given.spec is None else Layout(given.spec)
        inputs.append(Value(var.aval, layout, builder.mesh))
        inputs[-1].given = given
    consts = builder.constants(closed, False)
    outputs, nodes = builder.inside(
        jaxpr, [*consts, *inputs], _Context(Origin("", source), {}, manual=False)
    )
    return Graph(
        Body([*consts, *inputs], outputs, nodes),
        builder.mesh,
        builder.unknown_loops,
        builder.automatic,
    )


def _content(array: jax.Array | np.ndarray) -> Hashable:
    """Return a key that is equal for equal arrays, if they are small and readable.

    Otherwise the key is the `id` of the array.
    """
    is_jaxs = (
        isinstance(array, jax.Array)
        and not isinstance(array, jax.core.Tracer)
        and array.is_fully_addressable
    )
    if (
        (is_jaxs or isinstance(array, np.ndarray))
        and array.size <= _SMALL
        and isinstance(array.dtype, np.dtype)  # random keys have a dtype of JAX's own
        and array.dtype.kind in "biufc"
    ):
        return str(array.dtype), array.shape, np.asarray(array).tobytes()
    return id(array)


class _Context(Record):
    """The surroundings of an equation.

    Attributes:
      origin: the origin of the equation.
      sizes: the sizes of the mesh axes that are mapped here.
      manual: True within a mapped function.
      kernel: its place in the call of a function with a declared cost.
    """

    origin: Origin
    sizes: Mapping[str, int]
    manual: bool
    kernel: Place | None = None


def _opened(closed: ClosedJaxpr | Jaxpr) -> Jaxpr:
    return closed.jaxpr if isinstance(closed, ClosedJaxpr) else closed


class _Builder:
    def __init__(self) -> None:
        self.mesh: dict[str, int] = {}
        self.unknown_loops: list[Origin] = []
        self.automatic: list[Origin] = []
        self._nodes: list[Node] = []
        self._runs = itertools.count(1)
        self._constants: dict[Any, tuple[Any, Value]] = {}

    def inside(
        self, jaxpr: Jaxpr, values: Sequence[Value | None], context: _Context
    ) -> tuple[list[Value | None], list[Node]]:
        """Return the results of a program, and its operations apart from the surrounding ones."""
        around, self._nodes = self._nodes, []
        outputs = self._run(jaxpr, values, context)
        nodes, self._nodes = self._nodes, around
        return outputs, nodes

    def _run(
        self, jaxpr: Jaxpr, values: Sequence[Value | None], context: _Context
    ) -> list[Value | None]:
        known: dict[Any, Value | None] = dict(
            zip([*jaxpr.constvars, *jaxpr.invars], values, strict=True)
        )

        def read(var: Var | Literal) -> Value | None:
            return None if isinstance(var, Literal) else known[var]

        run = next(self._runs)
        for eqn in jaxpr.eqns:
            operands = [read(var) for var in eqn.invars]
            origin = context.origin.within(eqn)
            kernel = context.kernel or place_in(origin.scopes, run)
            here = _Context(origin, context.sizes, context.manual, kernel)
            results = self._equation(eqn, operands, here)
            known.update(zip(eqn.outvars, results, strict=True))
        return [read(var) for var in jaxpr.outvars]

    def _new(self, aval: AbstractValue, manual: bool) -> Value:
        return Value(aval, None if manual else self.layout_of(aval), self.mesh)

    def layout_of(self, aval: AbstractValue) -> Layout:
        """Return the layout of a global array from its type, whose sharding is on Explicit axes."""
        sharding: Any = getattr(aval, "sharding", None)
        spec = spec_of(sharding.spec) if hasattr(sharding, "spec") else ()
        if not any(spec) and not (
            hasattr(sharding, "spec") and AxisType.Explicit in (sharding.mesh.axis_types or ())
        ):
            return Layout()
        self.mesh.update(dict(sharding.mesh.shape))
        return Layout(spec)

    def _equation(
        self, eqn: JaxprEqn, operands: list[Value | None], context: _Context
    ) -> Sequence[Value | None]:
        kind = collective_kind(eqn)
        if kind == Kind.MAP:
            return self._mapped(eqn, operands, context)
        if kind in (Kind.CALL, Kind.RULE, Kind.REMAT):
            inner = called_in_steps(eqn)
            if inner is not None:
                if kind == Kind.REMAT and is_remat_of_gradient(eqn):
                    operands = self._apart(operands, context)
                return self._call(inner, operands, context)
        if kind == Kind.SOLVE:
            inner, taken = solve(eqn, operands)
            return self._call(inner, taken, context)
        manual = context.manual
        results = [self._new(var.aval, manual) for var in eqn.outvars]
        node = self._add(eqn, kind, operands, results, context)
        if kind == Kind.SCAN:
            self._scan(node, eqn, operands, results, manual)
        elif kind == Kind.WHILE:
            self._while(node, eqn, operands, results, manual)
        elif kind == Kind.BRANCH:
            for body in bodies_of(eqn):
                self._body(node, body, operands[1:], manual)
                self._join_layouts(results, node.bodies[-1].outputs)
        elif kind == Kind.CONSTRAINT and not manual:
            self._constrain(eqn, node)
        elif not manual:
            self._propagate(eqn, node)
        return results

    def _add(
        self,
        eqn: JaxprEqn | None,
        kind: Kind,
        operands: Sequence[Value | None],
        results: list[Value],
        context: _Context,
    ) -> Node:
        node = Node(eqn, kind, operands, results, context.origin, context.sizes)
        node.kernel = context.kernel
        for value in results:
            value.maker = node
        self._nodes.append(node)
        return node

    def _call(
        self, inner: ClosedJaxpr | Jaxpr, operands: Sequence[Value | None], context: _Context
    ) -> list[Value | None]:
        values = [*self.constants(inner, context.manual), *operands]
        return self._run(_opened(inner), values, context)

    def constants(self, closed: ClosedJaxpr | Jaxpr, manual: bool) -> list[Value]:
        """Return the constants of a program; equal small arrays are merged."""
        variables = _opened(closed).constvars
        found = []
        for var, const in zip(variables, getattr(closed, "consts", variables), strict=True):
            key = _content(const), manual
            if key not in self._constants:
                self._constants[key] = const, self._new(var.aval, manual)
            found.append(self._constants[key][1])
        return found

    def _apart(self, operands: list[Value | None], context: _Context) -> list[Value | None]:
        """Replace the operands of a recomputation, so that it is not merged with the first one."""
        present = [value for value in operands if value is not None]
        again = [Value(value.aval, value.layout, self.mesh) for value in present]
        self._add(None, Kind.BARRIER, present, again, context).is_apart = True
        supply = iter(again)
        return [None if value is None else next(supply) for value in operands]

    def _body(
        self, node: Node, closed: ClosedJaxpr | Jaxpr, values: Sequence[Value | None], manual: bool
    ) -> None:
        outputs, nodes = self.inside(
            _opened(closed),
            [*self.constants(closed, manual), *values],
            _Context(node.origin, node.sizes, manual, node.kernel),
        )
        node.bodies.append(Body(list(values), outputs, nodes))

    def _scan(
        self,
        node: Node,
        eqn: JaxprEqn,
        operands: list[Value | None],
        results: list[Value],
        manual: bool,
    ) -> None:
        scan = Scan.of(eqn)
        node.trips = int(scan.options["length"])
        inner = [self._new(aval, manual) for aval in scan.body.in_avals]
        first_slice = scan.consts + scan.carries
        for i, (value, operand) in enumerate(zip(inner, operands, strict=True)):
            if operand is not None and operand.layout is not None and value.layout is not None:
                if i < first_slice:
                    value.layout.join(operand.layout)
                elif (spec := operand.layout.root().spec) is not None:
                    value.layout.join(Layout(spec[1:]))
        values: list[Value | None] = [
            operands[i] if i < scan.consts else value for i, value in enumerate(inner)
        ]
        self._body(node, scan.body, values, manual)
        node.bodies[0].slices = inner[first_slice:]
        outputs = node.bodies[0].outputs
        self._join_layouts(results[: scan.carries], outputs[: scan.carries])
        for result, output in zip(results[scan.carries :], outputs[scan.carries :], strict=True):
            if output is not None and output.layout is not None and result.layout is not None:
                spec = output.layout.root().spec
                result.layout.join(Layout(None if spec is None else ((), *spec)))

    def _while(
        self,
        node: Node,
        eqn: JaxprEqn,
        operands: list[Value | None],
        results: list[Value],
        manual: bool,
    ) -> None:
        loop = While.of(eqn)
        self.unknown_loops.append(node.origin)
        first = loop.condition_consts + loop.body_consts
        carry = [self._new(aval, manual) for aval in loop.body.in_avals[loop.body_consts :]]
        self._join_layouts(carry, operands[first:])
        self._body(node, loop.body, [*operands[loop.condition_consts : first], *carry], manual)
        self._body(node, loop.condition, [*operands[: loop.condition_consts], *carry], manual)
        if (
            loop.ndim
        ):  # under vmap, a step evaluates the condition once more, to mask finished loops
            self._body(node, loop.condition, [*operands[: loop.condition_consts], *carry], manual)
        self._join_layouts(results, node.bodies[0].outputs)

    @staticmethod
    def _join_layouts(values: Sequence[Value], others: Sequence[Value | None]) -> None:
        for value, other in zip(values, others, strict=True):
            if other is not None and value.layout is not None and other.layout is not None:
                value.layout.join(other.layout)

    def _mapped(
        self, eqn: JaxprEqn, operands: list[Value | None], context: _Context
    ) -> list[Value | None]:
        jaxpr, in_specs, out_specs = mapped_jaxpr(eqn)
        mesh = mesh_sizes(eqn)
        self.mesh.update(mesh)
        blocks: list[Value | None] = []
        for value, var, spec in zip(operands, jaxpr.invars, in_specs, strict=True):
            blocks.append(
                None
                if value is None
                else self._enter(value, var.aval, spec_of(spec), mapped_axes(eqn), context)
            )
        sizes = {**context.sizes, **mesh}
        within = _Context(context.origin, sizes, manual=True, kernel=context.kernel)
        inner = self._run(jaxpr, blocks, within)
        results: list[Value | None] = []
        for block, var, spec in zip(inner, eqn.outvars, out_specs, strict=True):
            layout = None if context.manual else Layout(spec_of(spec))
            whole = Value(var.aval, layout, self.mesh)
            if block is not None:
                self._add(None, Kind.BARRIER, [block], [whole], context)
            results.append(whole)
        return results

    def _enter(
        self,
        value: Value,
        aval: AbstractValue,
        spec: Spec,
        mapped: frozenset[str],
        context: _Context,
    ) -> Value:
        """Convert a global array to the block that a mapped function takes.

        Sharding over unmapped mesh axes may be kept.
        """
        block = Value(aval, None, self.mesh)
        node = self._add(None, Kind.BARRIER, [value], [block], context.replace(sizes=self.mesh))
        node.entry = spec, mapped
        if not context.manual and value.layout is not None:
            before = value.layout.root()
            if before.spec is None:
                before.spec = spec
            elif (after := _with_others(spec, before.spec, mapped)) != before.spec:
                node.moved = before.spec, after
        return block

    def _constrain(self, eqn: JaxprEqn, node: Node) -> None:
        """Apply a sharding constraint outside mapped functions, or with `partitioning="auto"`."""
        sharding = constraint(eqn)
        (result,) = node.results
        if not hasattr(sharding, "spec") or result.layout is None:
            return
        spec = spec_of(sharding.spec)
        self.mesh.update(dict(sharding.mesh.shape))
        self.automatic.append(node.origin)
        result.layout.join(Layout(spec))
        for operand in node.reads:
            if operand.layout is not None:
                operand.layout.join(result.layout)

    def _propagate(self, eqn: JaxprEqn, node: Node) -> None:
        """Propagate shardings outside mapped functions.

        They pass through elementwise operations and moved dimensions.
        """
        first = node.operands[0] if node.operands else None
        if first is not None and (places := costs.moved_dimensions(eqn)) is not None:
            whole, moved = first.layout, node.results[0].layout
            if whole is not None and moved is not None and (spec := whole.root().spec) is not None:
                moved.join(
                    Layout(
                        spec_of([() if i is None or i >= len(spec) else spec[i] for i in places])
                    )
                )
            return
        if not costs.is_elementwise(eqn):
            return
        for result in node.results:
            for operand in node.reads:
                if (
                    operand.aval.shape != result.aval.shape
                    or operand.layout is None
                    or result.layout is None
                ):
                    continue
                if (
                    not result.layout.join(operand.layout) and len(node.operands) == 1
                ):  # the type of the result has another sharding
                    before, after = operand.layout.root().spec, result.layout.root().spec
                    assert before is not None
                    assert after is not None
                    node.moved, node.sizes = (before, after), self.mesh


# --- dead code: operations that XLA removes because their results are unused ----------------------


def prune(body: Body, wanted: Set[int] | None = None) -> set[int]:
    """Remove operations that do not contribute to the outputs, or to the `wanted` ones.

    Args:
      body: the program; it is changed in place.
      wanted: the positions of the needed outputs; default: all.

    Returns:
      The ids of the needed inputs and of the needed values from the surrounding program.
    """
    live, kept = _live(body, wanted)
    body.nodes = kept
    for node in kept:
        for inner, outputs in _inner(node, live):
            prune(inner, outputs)
    return live


def _live(body: Body, wanted: Set[int] | None) -> tuple[set[int], list[Node]]:
    """Return the ids of the needed values of a program, and the needed operations."""
    live = {
        id(value)
        for i, value in enumerate(body.outputs)
        if value is not None and (wanted is None or i in wanted)
    }
    kept = []
    for node in reversed(body.nodes):
        if node.has_effects or any(id(result) in live for result in node.results):
            kept.append(node)
            if node.bodies or node.eqn is None:
                live |= _needed(node, live)
            else:
                live.update(map(id, node.reads))
    return live, kept[::-1]


def _needed(node: Node, live: Set[int]) -> set[int]:
    """Return the ids of the values from the surrounding program that an operation needs."""
    if node.eqn is None:  # each result is one operand
        return {
            id(operand)
            for operand, result in zip(node.reads, node.results, strict=True)
            if id(result) in live
        }
    if node.kind != Kind.SCAN:
        inner = set[int]().union(*(_live(body, outputs)[0] for body, outputs in _inner(node, live)))
        return inner | set(map(id, node.reads))
    ((body, outputs),), scan = _inner(node, live), Scan.of(node.eqn)
    inside = _live(body, outputs)[0]
    # XLA keeps the initial value of a carry, even if the first step replaces it.
    carried = {scan.consts + i for i in outputs or () if i < scan.carries}
    pairs = enumerate(zip(node.operands, body.inputs, strict=True))
    used = ((operand, i in carried or id(value) in inside) for i, (operand, value) in pairs)
    return {id(operand) for operand, is_used in used if operand is not None and is_used} | inside


def _inner(node: Node, live: Set[int]) -> list[tuple[Body, Set[int] | None]]:
    """Return the programs that an operation runs, each with the positions of its needed outputs."""
    results = {i for i, result in enumerate(node.results) if id(result) in live}
    if node.kind == Kind.BRANCH:
        return [(body, results) for body in node.bodies]
    if node.kind != Kind.SCAN:
        return [(body, None) for body in node.bodies]
    (body,), scan = node.bodies, Scan.of(node.eqn)
    carried = body.inputs[scan.consts : scan.consts + scan.carries]
    while True:  # a carry is needed if a later step needs it
        inside = _live(body, results)[0]
        more = {k for k, value in enumerate(carried) if id(value) in inside} - results
        if not more:
            return [(body, results)]
        results |= more
