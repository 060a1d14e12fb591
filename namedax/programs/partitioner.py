"""The partitioner: a program that was traced on global shapes, evaluated on the blocks of devices.

`partition` evaluates the equations in order. Each value is known with its layout: the mesh axes of
each dimension. `namedax.primitives.partition` evaluates one equation by the record of its
primitive; this module evaluates what runs other jaxprs: calls, loops, branches and functions with
custom derivative rules. Marks (`namedax.core.placement_marks`) reshard a value to the layout of its
names.

The derivative of a partitioned program is that of its operations on blocks, which JAX computes. The
derivative rule of a user is traced on global shapes, too, and partitioned.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend.core import ClosedJaxpr, DropVar, Jaxpr, JaxprEqn, Literal, Var, jaxpr_as_fun
from jax.sharding import PartitionSpec

from namedax.core.cpu_workarounds import on_cpus
from namedax.core.memory_kinds import type_like
from namedax.core.names import MeshAxes
from namedax.core.padded_sharding import Uneven
from namedax.core.variance import cast_data
from namedax.primitives.equations import (
    Scan,
    While,
    barrier,
    bind,
    bodies_of,
    called_in_steps,
    facts,
    has_rule,
    has_side_effects,
    is_call_on_devices,
    is_ordered,
    kind_of,
    mapped_jaxpr,
    open_jaxpr,
    placement_of,
)
from namedax.primitives.partition import (
    Block,
    block_shape,
    gathered,
    in_blocks,
    in_layout,
    placed,
    replicated,
    wanted_layouts,
)
from namedax.primitives.recomputation import remat_again
from namedax.primitives.record import AnyJaxpr, Atom, Kind, aval_of, is_inexact, shape_of
from namedax.programs.evaluator import consts_to_inputs, in_plain_layout, source_of
from namedax.resources import communication as comm
from namedax.resources.layout import Layout
from namedax.resources.mesh import entry_of
from namedax.resources.padding_masks import without_gradient_of_padding

__all__ = ["partition"]

Scope: TypeAlias = AbstractContextManager[object]


def partition(
    closed: ClosedJaxpr,
    operands: Sequence[Block],
    tracing: Callable[[], Scope],
    check: Callable[[ClosedJaxpr], None],
    over: frozenset[str] = frozenset(),
) -> list[Block]:
    """Evaluate a closed jaxpr, which was traced on global shapes, on blocks of its operands.

    It runs within `jax.shard_map`. The constants of the jaxpr are the same on all devices.

    Args:
      closed: the jaxpr.
      operands: the blocks.
      tracing: makes the context in which functions of the user are traced on global shapes: rules
        for derivatives, which JAX calls when it differentiates.
      check: inspects each traced jaxpr, and raises an error if it finds a mistake.
      over: mesh axes over which operands vary without being sharded. All values are cast to vary
        over them, so that the types of branches and of carries agree.
    """
    check(closed)
    return _Partitioner(tracing, check, over).of_jaxpr(closed, operands)


class _Partitioner:
    """The evaluation of one program, with the context for functions of the user."""

    def __init__(
        self,
        tracing: Callable[[], Scope],
        check: Callable[[ClosedJaxpr], None],
        over: frozenset[str],
    ):
        self._tracing, self._check, self._over = tracing, check, over
        self._rules: dict[Kind, Callable[[JaxprEqn, list[Block]], list[Block]]] = {
            Kind.CALL: self._call,
            Kind.REMAT: self._remat,
            Kind.BARRIER: _barrier,
            Kind.MAP: _mapped,
            Kind.SCAN: self._scan,
            Kind.WHILE: self._while,
            Kind.BRANCH: self._branch,
        }

    def _traced(self, function: Callable[..., Any], *types: Any) -> ClosedJaxpr:
        """Trace a function, which runs code of the user, on global shapes."""
        with self._tracing():
            closed: ClosedJaxpr = jax.make_jaxpr(function)(*types)
        self._check(closed)
        return closed

    def _evaluate(self, jaxpr: Jaxpr, operands: Sequence[Block]) -> list[Block]:
        known: dict[Any, Block] = dict(
            zip([*jaxpr.constvars, *jaxpr.invars], map(self._cast, operands), strict=True)
        )

        def read(var: Any) -> Block:
            if not isinstance(var, Literal):
                return known[var]
            return self._cast(replicated(var.val, len(shape_of(var))))

        wanted = wanted_layouts(jaxpr)
        for eqn in jaxpr.eqns:
            with source_of(eqn):
                results = self._run(eqn, [read(var) for var in eqn.invars], jaxpr, wanted)
                known.update(zip(eqn.outvars, map(self._cast, results), strict=True))
        return [read(var) for var in jaxpr.outvars]

    def _cast(self, block: Block) -> Block:
        """Cast a block to vary over the mesh axes over which all values of the program vary."""
        if not self._over:
            return block
        value = jnp.asarray(block.value)
        if jnp.issubdtype(value.dtype, jax.dtypes.extended):
            return Block(comm.over_words(self._cast_data, value), block.layout)
        return Block(self._cast_data(value), block.layout)

    def _cast_data(self, data: jax.Array) -> jax.Array:
        return cast_data(data, self._over)

    def _run(
        self,
        eqn: JaxprEqn,
        operands: list[Block],
        jaxpr: Jaxpr,
        wanted: Mapping[Atom, Layout],
    ) -> list[Block]:
        kind = kind_of(eqn)
        if kind is Kind.RULE:
            return self._with_rule(eqn, operands, jaxpr)
        # `jax.vmap` makes while loops in which each element continues separately.
        if kind is Kind.SOLVE or (kind is Kind.WHILE and While.of(eqn).ndim):
            return _gathered(eqn, operands, jaxpr)
        if not eqn.outvars and has_side_effects(eqn):
            return _once(eqn, operands)
        if (rule := self._rules.get(kind)) is not None:
            return rule(eqn, operands)
        if kind is Kind.PLACEMENT:
            return [_marked(operands[0], placement_of(eqn), shape_of(eqn.invars[0]))]
        following = [wanted.get(var) for var in eqn.outvars]
        if kind is Kind.TRANSFORM and on_cpus():
            plain = [Block(in_plain_layout(b.value), b.layout) for b in operands]
            return [
                Block(in_plain_layout(b.value), b.layout) for b in in_blocks(eqn, plain, following)
            ]
        return in_blocks(eqn, operands, following)

    # --- calls ------------------------------------------------------------------------------------

    def _call(self, eqn: JaxprEqn, operands: list[Block]) -> list[Block]:
        jaxpr = called_in_steps(eqn)
        assert jaxpr is not None
        return self.of_jaxpr(jaxpr, operands)

    def of_jaxpr(self, jaxpr: AnyJaxpr, operands: Sequence[Block]) -> list[Block]:
        consts = [replicated(value) for value in getattr(jaxpr, "consts", ())]
        return self._evaluate(open_jaxpr(jaxpr), [*consts, *operands])

    def _on_values(
        self, jaxpr: AnyJaxpr, layouts: Sequence[Layout], wanted: Sequence[Layout] | None = None
    ) -> tuple[Callable[..., list[Any]], list[Layout]]:
        """Return a function of blocks that evaluates a jaxpr, and a list for computed layouts.

        Args:
          jaxpr: the jaxpr.
          layouts: the layouts of its operands.
          wanted: the layouts of its results. Default: those that it computes.
        """
        found: list[Layout] = []

        def run(*values: Any) -> list[Any]:
            results = self.of_jaxpr(jaxpr, _blocks(values, layouts))
            if wanted is not None:
                return _values_in(results, wanted)
            found[:] = _layouts(results)
            return _values(results)

        return run, found

    def _computed_layouts(self, jaxpr: AnyJaxpr, operands: Sequence[Block]) -> list[Layout]:
        """Return the layouts of the results of a jaxpr, without computing them."""
        run, found = self._on_values(jaxpr, _layouts(operands))
        jax.eval_shape(run, *_values(operands))
        return found

    def _remat(self, eqn: JaxprEqn, operands: list[Block]) -> list[Block]:
        jaxpr = called_in_steps(eqn)
        assert jaxpr is not None
        run, found = self._on_values(jaxpr, _layouts(operands))
        values = _values(operands)
        traced = jax.make_jaxpr(run)(*values)
        again = consts_to_inputs(traced.jaxpr)
        results = remat_again(eqn, again, [*traced.consts, *values])
        return _blocks(results, found)

    # --- custom derivative rules ------------------------------------------------------------------

    def _with_rule(self, eqn: JaxprEqn, operands: list[Block], within: Jaxpr) -> list[Block]:
        jaxpr = called_in_steps(eqn)
        assert jaxpr is not None
        if not has_rule(eqn):
            return self.of_jaxpr(jaxpr, operands)
        layouts = _layouts(operands)
        function, found = self._on_values(jaxpr, layouts)
        with_rule = self._with_vjp if "bwd" in facts(eqn).parameters else self._with_jvp
        mapped = with_rule(eqn, _alone(eqn, within), function, found, layouts)
        return _blocks(mapped(*map(jnp.asarray, _values(operands))), found)

    def _with_jvp(
        self,
        eqn: JaxprEqn,
        alone: Callable[..., list[Any]],
        function: Callable[..., list[Any]],
        found: list[Layout],
        layouts: Sequence[Layout],
    ) -> Callable[..., Any]:
        types, moving, moved = _types(eqn), _inexact(eqn.invars), _inexact(eqn.outvars)
        mapped = jax.custom_jvp(lambda *values: _taken(function(*values), moved))

        @mapped.defjvp
        def rule(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
            def derivative(values: Sequence[Any], directions: Sequence[Any]) -> tuple[Any, Any]:
                full = [np.zeros(kind.shape, jax.dtypes.float0) for kind in types]
                for i, direction in zip(moving, directions, strict=True):
                    full[i] = direction
                out, out_tangents = jax.jvp(lambda *v: tuple(alone(*v)), tuple(values), tuple(full))
                return out, [t for t in out_tangents if t.dtype != jax.dtypes.float0]

            closed = self._traced(derivative, types, [types[i] for i in moving])
            changes = _blocks(_taken(tangents, moving), _taken(layouts, moving))
            results = self.of_jaxpr(closed, [*_blocks(primals, layouts), *changes])
            count = len(eqn.outvars)
            if not found:
                found[:] = _layouts(results[:count])
            # The values are those of the rule, too: JAX may differentiate them.
            parts, wanted = (_taken(results, moved), results[count:]), _taken(found, moved)
            return tuple(_values_in(parts[0], wanted)), tuple(_values_in(parts[1], wanted))

        def run(*values: Any) -> list[Any]:
            # JAX has no tangents of integers that vary over mesh axes: these stay outside.
            still = len(moved) < len(eqn.outvars)
            fixed = function(*map(lax.stop_gradient, values)) if still else []
            results = dict(enumerate(fixed)) | dict(zip(moved, mapped(*values), strict=True))
            return [results[i] for i in range(len(eqn.outvars))]

        return run

    def _with_vjp(
        self,
        eqn: JaxprEqn,
        alone: Callable[..., list[Any]],
        function: Callable[..., list[Any]],
        found: list[Layout],
        layouts: Sequence[Layout],
    ) -> Callable[..., Any]:
        mapped = jax.custom_vjp(lambda *values: tuple(function(*values)))
        types, moving = _types(eqn), _inexact(eqn.invars)
        results_of, moved = [aval_of(var) for var in eqn.outvars], _inexact(eqn.outvars)
        count, state = len(eqn.outvars), dict[str, Any]()

        def forward(*values: Any) -> tuple[Any, Any]:
            def primal_and_pullback(*values: Any) -> Any:
                def of_moving(*some: Any) -> tuple[Any, ...]:
                    full = list(values)
                    for i, value in zip(moving, some, strict=True):
                        full[i] = value
                    return tuple(alone(*full))

                out, pullback = jax.vjp(of_moving, *[values[i] for i in moving])
                leaves, state["tree"] = jax.tree.flatten(pullback)
                return out, leaves

            closed = self._traced(primal_and_pullback, *types)
            results = self.of_jaxpr(closed, _blocks(values, layouts))
            if not found:
                found[:] = _layouts(results[:count])
            state["layouts"], state["types"] = _layouts(results[count:]), closed.out_avals[count:]
            state["of results"] = list(found)
            return tuple(_values_in(results[:count], found)), _values(results[count:])

        def backward(saved: Sequence[Any], cotangents: Sequence[Any]) -> tuple[Any, ...]:
            def pull(leaves: Sequence[Any], given: Sequence[Any]) -> Any:
                full, rest = [], iter(given)
                for i, kind in enumerate(results_of):
                    still = np.zeros(kind.shape, jax.dtypes.float0)
                    full.append(next(rest) if i in moved else still)
                return jax.tree.unflatten(state["tree"], leaves)(tuple(full))

            kinds = [jax.ShapeDtypeStruct(results_of[i].shape, results_of[i].dtype) for i in moved]
            closed = self._traced(pull, state["types"], kinds)
            changes = _blocks(_taken(cotangents, moved), _taken(state["of results"], moved))
            results = self.of_jaxpr(closed, [*_blocks(saved, state["layouts"]), *changes])
            full: list[Any] = [
                np.zeros(block_shape(kind.shape, layout), jax.dtypes.float0)
                for kind, layout in zip(types, layouts, strict=True)
            ]
            for i, result in zip(moving, results, strict=True):
                full[i] = in_layout(result, layouts[i]).value
            return tuple(full)

        mapped.defvjp(forward, backward)

        def run(*values: Any) -> Any:
            # The rule of a user may give padding any cotangent.
            masked = [_without_padding(v, s) for v, s in zip(values, layouts, strict=True)]
            return mapped(*masked)

        return run

    # --- loops and branches -----------------------------------------------------------------------

    def _scan(self, eqn: JaxprEqn, operands: list[Block]) -> list[Block]:
        loop = Scan.of(eqn)
        first, last = loop.consts, loop.consts + loop.carries
        consts, start = operands[:first], operands[first:last]
        rows = [gathered(operand, [0]) for operand in operands[last:]]
        stacked: list[Layout] = []

        def scan(carry: Sequence[Layout], found: list[Layout], begun: list[Any]) -> list[Any]:
            slices = [row.layout[1:] for row in rows]
            run, computed = self._on_values(loop.body, [*_layouts(consts), *carry, *slices])

            def step(state: list[Any], taken: list[Any]) -> tuple[list[Any], list[Any]]:
                results = run(*_values(consts), *state, *taken)
                found[:], stacked[:] = computed[: loop.carries], computed[loop.carries :]
                following = _blocks(results[: loop.carries], found)
                return _values_in(following, carry), results[loop.carries :]

            end, made = lax.scan(step, begun, _values(rows), **loop.options)
            return [*end, *made]

        carry, results = _settled(start, scan)
        return _blocks(results, [*carry, *(((), *layout) for layout in stacked)])

    def _while(self, eqn: JaxprEqn, operands: list[Block]) -> list[Block]:
        loop = While.of(eqn)
        first, second = loop.condition_consts, loop.condition_consts + loop.body_consts
        of_condition, of_body, start = operands[:first], operands[first:second], operands[second:]

        def repeat(carry: Sequence[Layout], found: list[Layout], begun: list[Any]) -> list[Any]:
            run, computed = self._on_values(loop.body, [*_layouts(of_body), *carry])
            test, _ = self._on_values(loop.condition, [*_layouts(of_condition), *carry], [()])

            def step(state: Any) -> Any:
                results = run(*_values(of_body), *state)
                found[:] = computed
                return _values_in(_blocks(results, found), carry)

            def goes_on(state: Any) -> Any:
                return test(*_values(of_condition), *state)[0]

            return list(lax.while_loop(goes_on, step, begun))

        carry, results = _settled(start, repeat)
        return _blocks(results, carry)

    def _branch(self, eqn: JaxprEqn, operands: list[Block]) -> list[Block]:
        index, given = gathered(operands[0]).value, operands[1:]
        branches = bodies_of(eqn)
        wanted = self._computed_layouts(branches[0], given)
        for branch in branches[1:]:
            others = self._computed_layouts(branch, given)
            wanted = [_joined(a, b) for a, b in zip(wanted, others, strict=True)]
        runs = [self._on_values(branch, _layouts(given), wanted)[0] for branch in branches]
        return _blocks(lax.switch(index, runs, *_values(given)), wanted)


def _marked(block: Block, layout: Layout, shape: Sequence[int]) -> Block:
    return in_layout(block, [placed(axes, n) for axes, n in zip(layout, shape, strict=True)])


def _barrier(eqn: JaxprEqn, operands: list[Block]) -> list[Block]:
    return _blocks(barrier(_values(operands)), _layouts(operands))


def _mapped(eqn: JaxprEqn, operands: list[Block]) -> list[Block]:
    """Evaluate a jaxpr that is mapped over the mesh axes of this program, on its blocks."""
    jaxpr, in_specs, out_specs = mapped_jaxpr(eqn)

    def layout(spec: PartitionSpec, var: Atom) -> Layout:
        return tuple(entry_of(spec, dim) for dim in range(len(shape_of(var))))

    given = [
        in_layout(operand, layout(spec, var))
        for operand, spec, var in zip(operands, in_specs, eqn.invars, strict=True)
    ]
    results = jaxpr_as_fun(ClosedJaxpr(jaxpr, ()))(*_values(given))
    return _blocks(
        results, [layout(spec, var) for spec, var in zip(out_specs, eqn.outvars, strict=True)]
    )


def _gathered(eqn: JaxprEqn, operands: list[Block], jaxpr: Jaxpr) -> list[Block]:
    """Evaluate an equation whose jaxprs run on gathered values, such as a linear system."""
    results = _alone(eqn, jaxpr)(*[gathered(operand).value for operand in operands])
    return [
        replicated(value, len(shape_of(var)))
        for value, var in zip(results, eqn.outvars, strict=True)
    ]


def _once(eqn: JaxprEqn, operands: list[Block]) -> list[Block]:
    """Evaluate an equation that only has an effect, such as printing, on one device."""
    values = [gathered(operand).value for operand in operands]
    axes = tuple(jax.sharding.get_abstract_mesh().manual_axes)
    if is_ordered(eqn) or not axes:
        bind(eqn, values)
    elif is_call_on_devices(eqn):
        bind(eqn, [comm.block_index(axes) == 0, *values[1:]])
    else:
        lax.cond(comm.block_index(axes) == 0, lambda: bind(eqn, values), list)
    return []


def _alone(eqn: JaxprEqn, jaxpr: Jaxpr) -> Callable[..., list[Any]]:
    """Return an equation as a function of global values."""
    operands = list(dict.fromkeys(v for v in eqn.invars if not isinstance(v, Literal)))
    results = [Var(var.aval) if isinstance(var, DropVar) else var for var in eqn.outvars]
    alone = jaxpr.replace(
        constvars=[],
        invars=operands,
        outvars=results,
        eqns=[eqn.replace(outvars=results)],
        effects=eqn.effects,
    )
    function = jaxpr_as_fun(ClosedJaxpr(alone, ()))
    positions = [next(i for i, v in enumerate(eqn.invars) if v is operand) for operand in operands]
    return lambda *values: list(function(*[values[i] for i in positions]))


def _blocks(values: Sequence[Any], layouts: Sequence[Layout]) -> list[Block]:
    return [Block(value, layout) for value, layout in zip(values, layouts, strict=True)]


def _layouts(blocks: Sequence[Block]) -> list[Layout]:
    return [block.layout for block in blocks]


def _values(blocks: Sequence[Block]) -> list[Any]:
    return [block.value for block in blocks]


def _values_in(blocks: Sequence[Block], layouts: Sequence[Layout]) -> list[Any]:
    """Return the values of blocks, resharded to other layouts."""
    return [in_layout(b, layout).value for b, layout in zip(blocks, layouts, strict=True)]


def _taken(values: Sequence[Any], positions: Sequence[int]) -> tuple[Any, ...]:
    return tuple(values[i] for i in positions)


def _types(eqn: JaxprEqn) -> list[Any]:
    return [type_like(aval, aval.shape) for aval in map(aval_of, eqn.invars)]


def _inexact(variables: Sequence[Atom]) -> list[int]:
    """Return the positions of the variables that have derivatives."""
    return [i for i, var in enumerate(variables) if is_inexact(aval_of(var))]


def _without_padding(value: Any, layout: Layout) -> Any:
    for dim, axes in enumerate(layout):
        if isinstance(axes, Uneven):
            value = without_gradient_of_padding(value, dim, axes)
    return value


def _joined(first: Layout, second: Layout) -> Layout:
    """Return the layout of a value that may have either: dimensions of `first` decide."""
    used = {axis for axes in first for axis in axes}
    joined: list[MeshAxes] = []
    for a, b in zip(first, second, strict=True):
        new = not a and b and used.isdisjoint(b)
        joined.append(b if new else a)
        used.update(b if new else ())
    return tuple(joined)


def _settled(
    start: Sequence[Block],
    loop: Callable[[Sequence[Layout], list[Layout], list[Any]], list[Any]],
) -> tuple[list[Layout], list[Any]]:
    """Run a loop whose carry keeps its layouts; return these, and the results.

    A step may shard dimensions that its carry does not: then the loop is traced again, with these
    dimensions sharded from the start.

    Args:
      start: the carry.
      loop: runs the loop. It takes the layouts of the carry, a list to which it adds those that a
        step computes, and the carry.
    """
    carry = _layouts(start)
    while True:
        found: list[Layout] = []
        begun = _values_in(start, carry)
        closed = jax.make_jaxpr(functools.partial(loop, carry, found))(begun)
        following = [_joined(a, b) for a, b in zip(carry, found, strict=True)]
        if following == carry:
            return carry, jaxpr_as_fun(closed)(*begun)
        carry = following
