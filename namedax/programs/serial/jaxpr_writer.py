"""The jaxpr of one step, rewritten for the mesh without the loop's axis.

The equations were traced on a mesh with that axis.

The types of variables name the mesh that they were traced on, and the axes over which values vary.
To bind every equation again would give each a type on the other mesh, and would cost as much as a
second trace. But the type of an operation along one axis does not depend on the others. A type
without the loop's axis therefore follows from the type with it, and the same equations connect
variables of other types.

Only operations that do something else in a step than when they were traced are traced again:
barriers, the start of a postponed psum, operations whose parameters contain a mesh. If values vary
over more axes than they did, because of a postponed psum, others are cast.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.core import AbstractValue, ShapedArray
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var, new_jaxpr_eqn
from jax.sharding import NamedSharding, PartitionSpec

from namedax.core.variance import cast_alike, varying_of
from namedax.primitives.equations import (
    Scan,
    bodies_of,
    called_in_steps,
    has_side_effects,
    open_jaxpr,
    operands_of_bodies,
    parameters_with,
    with_bodies,
)
from namedax.primitives.recomputation import with_jaxpr
from namedax.primitives.record import AnyJaxpr, Atom, Kind, aval_of
from namedax.primitives.table import LOCAL_KINDS
from namedax.programs.evaluator import as_one_call, source_of
from namedax.programs.serial.nodes import Added, Body, Node, Value
from namedax.programs.serial.operations import Step, evaluate, needs_index, on_this_mesh
from namedax.resources.mesh import without_mesh

__all__ = ["Atoms", "Writer", "constant_of"]


def constant_of(literal: Literal) -> Any:
    """Return a literal's array; a cached array of JAX stores the mesh that it was traced on."""
    value = literal.val
    return value if isinstance(value, jax.Array) else np.asarray(value, aval_of(literal).dtype)


class _Unwritten(Exception):
    """Internal signal: the body of control flow needs values from outside of it."""


class _Types(dict[Any, Any]):
    """The types of values on the mesh in use, by their types on the mesh with the loop's axis."""

    def __init__(self, axis: str):
        self._axis, self._mesh = axis, jax.sharding.get_abstract_mesh()
        self._shardings: dict[int, NamedSharding] = {}

    def __missing__(self, aval: Any) -> Any:
        found = aval
        if isinstance(aval, ShapedArray):
            ndim, how = len(aval.shape), aval.manual_axis_type
            if ndim not in self._shardings:
                self._shardings[ndim] = NamedSharding(self._mesh, PartitionSpec(*[None] * ndim))
            found = aval.update(
                sharding=self._shardings[ndim],
                manual_axis_type=how.update(varying=how.varying - {self._axis}),
            )
        self[aval] = found
        return found


class _Contexts(dict[Any, Any]):
    """The contexts of equations on the mesh in use, by the contexts in which they were traced."""

    def __init__(self) -> None:
        self._mesh = jax.sharding.get_abstract_mesh()

    def __missing__(self, context: Any) -> Any:
        with context.manager, without_mesh(), jax.sharding.use_abstract_mesh(self._mesh):
            self[context] = found = new_jaxpr_eqn([], [], lax.add_p, {}, frozenset()).ctx
        return found


class _Tables:
    """Tables that are computed once for all jaxprs that are written on one mesh."""

    def __init__(self, axis: str):
        self.axis, self.types, self.contexts = axis, _Types(axis), _Contexts()
        self.casts: dict[frozenset[str], JaxprEqn] = {}
        self.cast_types: dict[tuple[ShapedArray, frozenset[str]], ShapedArray] = {}

    def cast_type(self, aval: ShapedArray, axes: frozenset[str]) -> ShapedArray:
        """Return the type on the mesh in use of values that vary over these axes."""
        if aval.manual_axis_type.varying == axes:
            return aval
        if (aval, axes) not in self.cast_types:
            changed = aval.update(manual_axis_type=aval.manual_axis_type.update(varying=axes))
            self.cast_types[aval, axes] = changed
        return self.cast_types[aval, axes]

    def cast(self, aval: ShapedArray, axes: frozenset[str]) -> JaxprEqn:
        """Return an equation that casts an invariant operand to varying over these axes."""
        if axes not in self.casts:
            traced = jax.make_jaxpr(lambda x: lax.pcast(x, tuple(sorted(axes)), to="varying"))(aval)
            (self.casts[axes],) = traced.jaxpr.eqns
        return self.casts[axes]

    def literal(self, literal: Literal) -> Literal:
        """Return a scalar literal; JAX's own scalars store the mesh that they were made on."""
        aval = aval_of(literal)
        # JAX cannot lower a scalar of an 8-bit float.
        return Literal(np.asarray(literal.val, aval.dtype), self.types[aval])

    def parameters(self, eqn: JaxprEqn) -> dict[str, Any]:
        """Return the parameters of an operation, without the mesh that it was traced on."""
        return parameters_with(eqn, self._changed)

    def _changed(
        self, value: AnyJaxpr | NamedSharding | AbstractValue
    ) -> AnyJaxpr | NamedSharding | AbstractValue | None:
        if isinstance(value, NamedSharding):
            return on_this_mesh(value)
        if isinstance(value, ShapedArray):
            return value if value.sharding.mesh.empty else self.types[value]
        if isinstance(value, AbstractValue):  # a token
            return value
        # The jaxpr by which a scatter or a reduction combines two scalars.
        jaxpr, types = open_jaxpr(value), self.types
        within: dict[Atom, Var] = {}

        def now(variables: Sequence[Atom]) -> list[Any]:
            for var in variables:
                if type(var) is not Literal and var not in within:
                    within[var] = Var(types[var.aval])
            return [self.literal(v) if type(v) is Literal else within[v] for v in variables]

        constvars, invars = now(jaxpr.constvars), now(jaxpr.invars)
        eqns = [
            eqn.replace(
                invars=now(eqn.invars),
                outvars=now(eqn.outvars),
                params=self.parameters(eqn),
                ctx=self.contexts[eqn.ctx],
            )
            for eqn in jaxpr.eqns
        ]
        again = jaxpr.replace(
            constvars=constvars, invars=invars, outvars=now(jaxpr.outvars), eqns=eqns
        )
        return ClosedJaxpr(again, value.consts) if isinstance(value, ClosedJaxpr) else again


class Atoms(dict[int, Atom]):
    """The variables of values by their indices; missing ones are made on access."""

    def __init__(self, make: Callable[[int], Atom]):
        self._make = make

    def __missing__(self, value: int) -> Atom:
        self[value] = atom = self._make(value)
        return atom


class Writer:
    """Writer of the jaxpr of nodes.

    Args:
      axis: the axis of the loop.
      index: the index of the step, if it is known; default: None.
      around: the writer of the surrounding jaxpr, if this is the body of control flow, which has no
        inputs but its own; default: None.
    """

    def __init__(
        self,
        axis: str,
        index: jax.Array | None = None,
        around: Writer | None = None,
    ):
        self._axis, self._is_inner = axis, around is not None
        self._tables: _Tables = _Tables(axis) if around is None else around._tables
        self._eqns: list[JaxprEqn] = []
        self._inputs: list[Var] = []
        self.values: list[jax.Array] = []
        self.index: Atom | None = None if index is None else self.input(index)

    def input(self, value: jax.Array) -> Var:
        """Return a variable for a value from the surrounding code."""
        if self._is_inner:
            raise _Unwritten
        # An array has no mesh, or its own.
        self._inputs.append(var := Var(self._tables.types[jax.typeof(value)]))
        self.values.append(value)
        return var

    def constant(self, literal: Literal) -> Atom:
        """Return the atom for the value of a literal."""
        if aval_of(literal).shape or isinstance(literal.val, jax.Array):
            return self.input(constant_of(literal))
        return self._tables.literal(literal)

    def outputs(self, values: Sequence[Value], atoms: Mapping[int, Atom]) -> list[Atom]:
        """Return the atoms of results."""
        return [
            atoms[v] if isinstance(v, int) else self.input(jnp.asarray(constant_of(v)))
            for v in values
        ]

    def jaxpr(self, outputs: Sequence[Atom], like: Jaxpr) -> Jaxpr:
        """Return the open jaxpr with these results and the inputs `values`, based on `like`."""
        read, eqns = {var for var in outputs if type(var) is Var}, list[JaxprEqn]()
        for eqn in reversed(self._eqns):
            if (eqn.effects and has_side_effects(eqn)) or not read.isdisjoint(eqn.outvars):
                eqns.append(eqn)
                read.update([var for var in eqn.invars if type(var) is Var])
        effects = frozenset[Any]().union(*[eqn.effects for eqn in eqns if eqn.effects])
        return like.replace(
            constvars=[],
            invars=self._inputs,
            outvars=list(outputs),
            eqns=eqns[::-1],
            effects=effects,
        )

    def call(self, body: Body, inputs: Sequence[jax.Array]) -> list[jax.Array]:
        """Evaluate a body for these inputs."""
        atoms: dict[int, Atom] = dict(zip(body.inputs, map(self.input, inputs), strict=True))
        self.write(body.nodes, atoms)
        return as_one_call(self.jaxpr(self.outputs(body.outputs, atoms), body.jaxpr), self.values)

    def trace(self, function: Callable[..., Sequence[Any]], inputs: Sequence[Atom]) -> list[Atom]:
        """Trace a function of atoms, and return the atoms of its results."""
        closed = jax.make_jaxpr(function)(*[atom.aval for atom in inputs])
        stands_for: dict[Atom, Atom] = dict(zip(closed.jaxpr.invars, inputs, strict=True))
        stands_for.update(zip(closed.jaxpr.constvars, map(self.input, closed.consts), strict=True))

        def now(variables: Sequence[Atom]) -> list[Any]:
            return [v if type(v) is Literal else stands_for.get(v, v) for v in variables]

        self._eqns += [eqn.replace(invars=now(eqn.invars)) for eqn in closed.jaxpr.eqns]
        return now(closed.jaxpr.outvars)

    def write(
        self, nodes: Sequence[Node], atoms: dict[int, Atom], constant: Container[int] = ()
    ) -> None:
        """Write nodes, and add the atoms of their results to `atoms`.

        Values in `constant` are the same in every step.
        """
        for node in nodes:
            inputs = [atoms[v] if isinstance(v, int) else self.constant(v) for v in node.inputs]
            if node.kind is Kind.GATHER and node.outputs[0] in constant and self.index is not None:
                inputs = self.trace(_after, [*inputs, self.index])
            outputs = _RULES.get(node.kind, Writer._equation)(self, node, inputs)
            atoms.update(zip(node.outputs, outputs, strict=True))

    def _cast_all(self, node: Node, inputs: list[Atom]) -> Sequence[Atom]:
        axes = frozenset(node.axes if node.kind is Kind.CAST else node.postponed[0]) - {self._axis}
        return [self._cast(atom, axes) for atom in inputs]

    def _device_index(self, node: Node, inputs: list[Atom]) -> Sequence[Atom]:
        if self._axis not in node.axes:
            return self._equation(node, inputs)
        return self._traced(node, inputs) if self.index is None else [self.index]

    def _equation(self, node: Node, inputs: list[Atom]) -> Sequence[Atom]:
        """Copy the equation of a node, with other variables."""
        if node.counted_once:
            return self._traced(node, inputs)
        eqn, tables = node.eqn, self._tables
        types, as_traced = tables.types, True
        for atom, var in zip(inputs, eqn.invars, strict=True):
            aval, known = aval_of(atom), types[var.aval]
            if aval is not known and aval.manual_axis_type is not known.manual_axis_type:
                as_traced = False
        if as_traced:
            outvars = [Var(types[var.aval]) for var in eqn.outvars]
        else:
            wanted = [varying_of(types[var.aval]) for var in eqn.invars]
            varies = [varying_of(atom.aval) for atom in inputs]
            # The summands of a postponed psum vary, but the psum did not.
            if node.kind in LOCAL_KINDS:
                axes = frozenset[str]().union(*varies)
                wanted = [axes] * len(inputs)
                outvars = [Var(tables.cast_type(types[var.aval], axes)) for var in eqn.outvars]
            elif all(some <= axes for some, axes in zip(varies, wanted, strict=True)):
                outvars = [Var(types[var.aval]) for var in eqn.outvars]
            else:
                return self._traced(node, inputs)
            inputs = [self._cast(atom, axes) for atom, axes in zip(inputs, wanted, strict=True)]
        self._eqns.append(
            eqn.replace(
                invars=inputs,
                outvars=outvars,
                params=tables.parameters(eqn),
                ctx=tables.contexts[eqn.ctx],
            )
        )
        return outvars

    def _barrier(self, node: Node, inputs: list[Atom]) -> Sequence[Atom]:
        """Write a `primitives.barrier` by the equation that marks a recomputation."""
        if len({aval_of(atom).manual_axis_type for atom in inputs}) < 2:
            return self._traced(node, inputs)
        eqn = node.eqn
        within, outvars = ([Var(atom.aval) for atom in inputs] for _ in range(2))
        inner = called_in_steps(eqn)
        assert inner is not None
        again = open_jaxpr(inner).replace(
            constvars=[], invars=within, outvars=within, eqns=[], effects=frozenset()
        )
        context = self._tables.contexts[eqn.ctx]
        self._eqns.append(
            with_jaxpr(eqn, again, inputs, outvars).replace(effects=frozenset(), ctx=context)
        )
        return outvars

    def _cast(self, atom: Atom, axes: frozenset[str]) -> Atom:
        """Cast an atom to vary over at least these axes."""
        aval = self._tables.types[atom.aval]  # a scalar that a trace returned has no mesh
        varies = aval.manual_axis_type.varying
        missing = axes - varies
        if not missing:
            return atom
        eqn = self._tables.cast(aval, missing)
        var = Var(self._tables.cast_type(aval, varies | missing))
        self._eqns.append(eqn.replace(invars=[atom], outvars=[var]))
        return var

    def _traced(self, node: Node, inputs: Sequence[Atom]) -> Sequence[Atom]:
        """Evaluate a node under a trace."""
        if self._is_inner and needs_index(node, self._axis):
            raise _Unwritten
        given = [atom for atom in inputs if type(atom) is not Literal]
        has_index = self.index is not None

        def evaluated(*values: jax.Array) -> list[jax.Array]:
            supply = iter(values)
            index = next(supply) if has_index else None
            step = Step(self._axis, index, self._caller(index), self._tables.parameters)
            filled = [
                constant_of(atom) if isinstance(atom, Literal) else next(supply) for atom in inputs
            ]
            with source_of(node.eqn):
                return list(evaluate(node, filled, step))

        return self.trace(evaluated, [self.index, *given] if self.index is not None else given)

    def _caller(self, index: Any) -> Callable[[Body, Sequence[jax.Array]], list[jax.Array]]:
        """Return a function that evaluates a body in the step with this index."""

        def call(body: Body, inputs: Sequence[jax.Array]) -> list[jax.Array]:
            return [jnp.asarray(result) for result in Writer(self._axis, index).call(body, inputs)]

        return call

    # --- control flow ---

    def _control(self, node: Node, inputs: list[Atom]) -> Sequence[Atom]:
        """Write control flow with the jaxprs of its bodies, or trace it."""
        if has_side_effects(node.eqn):
            return self._traced(node, inputs)
        count = len(self._eqns)
        try:
            return self._control_written(node, inputs)
        except _Unwritten:
            del self._eqns[count:]
            return self._traced(node, inputs)

    def _control_written(self, node: Node, inputs: Sequence[Atom]) -> Sequence[Atom]:
        eqn, tables, scan = node.eqn, self._tables, None
        types, operands, jaxprs = tables.types, operands_of_bodies(eqn), bodies_of(eqn)
        varies = [varying_of(types[var.aval]) for var in eqn.invars]
        results = [varying_of(types[var.aval]) for var in eqn.outvars]
        if node.kind is Kind.SCAN:
            # Carries and stacked results may vary over more axes than they did, if a postponed
            # psum is among them.
            scan = Scan.of(eqn)
            # The initial carry counts in the first step only.
            if any(i < scan.carries for i in node.postponed):
                raise _Unwritten
            varies = [
                varying_of(atom.aval) | axes for atom, axes in zip(inputs, varies, strict=True)
            ]
            results[: scan.carries] = varies[scan.consts : scan.consts + scan.carries]
        inputs = [self._cast(atom, axes) for atom, axes in zip(inputs, varies, strict=True)]
        if [varying_of(atom.aval) for atom in inputs] != varies:
            raise _Unwritten
        bodies = []
        for body, jaxpr, positions in zip(node.bodies, jaxprs, operands, strict=True):
            inner = Writer(self._axis, around=self)
            within = [
                Var(tables.cast_type(types[aval], varies[i]))
                for aval, i in zip(jaxpr.in_avals, positions, strict=True)
            ]
            atoms: dict[int, Atom] = dict(zip(body.inputs, within, strict=True))
            inner.write(body.nodes, atoms)
            outputs = [atoms[v] if isinstance(v, int) else inner.constant(v) for v in body.outputs]
            wanted = [varying_of(types[aval]) for aval in jaxpr.out_avals]
            if scan is not None:
                results[scan.carries :] = [
                    varying_of(atom.aval) for atom in outputs[scan.carries :]
                ]
                wanted = results
            outputs = [inner._cast(atom, axes) for atom, axes in zip(outputs, wanted, strict=True)]
            if [varying_of(atom.aval) for atom in outputs] != wanted:
                raise _Unwritten
            inner._inputs = within
            bodies.append(inner.jaxpr(outputs, body.jaxpr))
        avals = [
            tables.cast_type(types[var.aval], axes)
            for var, axes in zip(eqn.outvars, results, strict=True)
        ]
        # A result that is scattered after the scan is stacked without scattering.
        if scan is not None:
            for i in range(scan.carries, len(avals)):
                entry = aval_of(bodies[0].outvars[i]).shape
                if avals[i].shape[1:] != entry:
                    avals[i] = avals[i].update(shape=(avals[i].shape[0], *entry))
        outvars = list(map(Var, avals))
        effects = frozenset[Any]().union(*[body.effects for body in bodies])
        closed = [ClosedJaxpr(body, ()) for body in bodies]
        params, context = with_bodies(eqn, closed), tables.contexts[eqn.ctx]
        self._eqns.append(
            eqn.replace(invars=inputs, outvars=outvars, params=params, effects=effects, ctx=context)
        )
        return outvars


# Kinds whose equation is not copied as it is. Some do something else in a step than when they were
# traced, and are evaluated under a trace.
_RULES: dict[Kind | Added, Callable[[Writer, Node, list[Atom]], Sequence[Atom]]] = {
    **dict.fromkeys((*Added, Kind.BARRIER, Kind.CONSTRAINT, Kind.NAME), Writer._traced),
    **dict.fromkeys((Kind.SCAN, Kind.WHILE, Kind.BRANCH), Writer._control),
    **dict.fromkeys((Kind.CAST, Added.IDENTITY), Writer._cast_all),
    Kind.DEVICE_INDEX: Writer._device_index,
    Added.BARRIER: Writer._barrier,
}


def _after(value: jax.Array, index: jax.Array) -> Sequence[jax.Array]:
    """Return `value`, computed when the index is known: XLA cannot hoist it out of the loop."""
    return lax.optimization_barrier(tuple(cast_alike([value, index])))[:1]
