"""Execution of a plan on the mesh: passes over the loop, and the values between them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend.core import Jaxpr

from namedax.core.memory_kinds import is_host_type, to_device, to_host
from namedax.core.records import Record
from namedax.core.variance import cast_data, varying_of
from namedax.primitives.equations import Scan, While, dimension_of
from namedax.primitives.record import Atom, Kind, aval_of
from namedax.programs.evaluator import as_one_call, source_of
from namedax.programs.serial.collectives import RULES, Fold, Join, Last
from namedax.programs.serial.jaxpr_writer import Atoms, Writer, constant_of
from namedax.programs.serial.nodes import Added, Node, Value
from namedax.programs.serial.operations import needs_index
from namedax.programs.serial.plan import STACKED, Dim, Plan, count_reads

__all__ = ["run"]


class _Values:
    """The values of a body that are computed already, which grow from pass to pass.

    Attributes:
      known: values that are the same in every step.
      parts: values that differ from step to step; each has the parts of all steps in a dimension.
      constant: values that are the same in every step and can be computed; cheap ones are computed
        again by the nodes that read them.
    """

    def __init__(self, plan: Plan, blocks: Sequence[jax.Array]):
        self.known: dict[int, jax.Array] = {}
        self.parts: dict[int, tuple[jax.Array, int]] = {}
        self.constant = set[int]()
        for value, block, dim in zip(plan.body.inputs, blocks, plan.in_dims, strict=True):
            self.store(value, block, dim)

    def __contains__(self, value: int) -> bool:
        return value in self.known or value in self.parts

    def store(self, value: int, data: jax.Array, dim: Dim) -> None:
        if dim is None:
            self.known[value] = data
        else:
            self.parts[value] = (data, dim)

    def read(self, value: Value) -> jax.Array:
        """Return a value that is the same in every step."""
        return self.known[value] if isinstance(value, int) else constant_of(value)


def run(plan: Plan, *blocks: jax.Array) -> list[jax.Array]:
    """Map blocks of all steps to results of all steps."""
    values, results = _Values(plan, blocks), dict[int, jax.Array]()
    outputs = [
        (i, v)
        for i, (v, differs) in enumerate(zip(plan.body.outputs, plan.differing(), strict=True))
        if isinstance(v, int) and differs
    ]
    for level in range(max(plan.levels.values(), default=0) + 1):
        _compute_constants(plan, values)
        wanted = {i: v for i, v in outputs if plan.levels[v] == level}
        if (found := _pass_at(plan, level, wanted, values)) is not None:
            results |= _run_pass(plan, found, values)
    for i, (output, dim) in enumerate(zip(plan.body.outputs, plan.out_dims, strict=True)):
        if i not in results:
            results[i] = _repeated(jnp.asarray(values.read(output)), dim, plan.steps)
    return [results[i] for i in range(len(plan.out_dims))]


def _repeated(value: jax.Array, dim: Dim, steps: int) -> jax.Array:
    """Return the result of all steps that have the same value."""
    if dim is None:
        return value
    return _stacked(value, None, steps) if dim == STACKED else lax.concatenate([value] * steps, dim)


def _stacked(block: jax.Array, dim: Dim, steps: int) -> jax.Array:
    """Return a value of all steps with one leading element for each step."""
    if dim == STACKED:
        return block
    if dim is None:
        return jnp.broadcast_to(block, (steps, *jnp.shape(block)))
    shape = block.shape
    return jnp.moveaxis(
        block.reshape(*shape[:dim], steps, shape[dim] // steps, *shape[dim + 1 :]), dim, 0
    )


# --- between passes -------------------------------------------------------------------------------


def _compute_constants(plan: Plan, values: _Values) -> None:
    """Compute values that are the same in every step, and need earlier passes only."""
    constant, together = values.constant, list[Node]()
    for node in plan.body.nodes:
        is_ready = True
        for v in node.inputs:
            is_ready = is_ready and (
                type(v) is not int
                or v in values.known
                or v in constant
                or (node.lockstep and v in values.parts)
            )
        if not is_ready or not plan.needs(node) or not constant.isdisjoint(node.outputs):
            continue
        if any(output in values for output in node.outputs):
            continue
        if node.lockstep:
            _compute_once(plan, together, values)
            _run_lockstep(plan, node, values)
        elif needs_index(node, plan.axis):
            continue
        elif node in plan.collectives:
            _compute_once(plan, together, values)
            repeated = RULES[node.kind].repeated
            with source_of(node.eqn):
                operands = [repeated(node, values.read(v), plan.steps) for v in node.inputs]
                _finish(plan, node, operands, values)
        else:
            together.append(node)
            constant.update(node.outputs)
    _compute_once(plan, together, values)


def _compute_once(plan: Plan, nodes: list[Node], values: _Values) -> None:
    """Evaluate and remove nodes; store results, except cheap ones, left to readers."""
    if not nodes:
        return
    writer = Writer(plan.axis)

    def given(value: int) -> Atom:
        if value in values.known:
            return writer.input(values.known[value])
        writer.write([plan.sources[value]], atoms)
        return atoms[value]

    atoms = Atoms(given)
    writer.write(nodes, atoms)
    # The others are computed again.
    inside = count_reads([node for node in nodes if plan.cheap.isdisjoint(node.outputs)])
    made = [v for node in nodes for v in node.outputs]
    read = [
        v
        for v in made
        if v in plan.read_alone or (v not in plan.cheap and plan.reads.get(v, 0) > inside.get(v, 0))
    ]
    results = as_one_call(writer.jaxpr(writer.outputs(read, atoms), plan.body.jaxpr), writer.values)
    values.known.update(zip(read, results, strict=True))
    nodes.clear()


def _finish(plan: Plan, node: Node, totals: Sequence[jax.Array], values: _Values) -> None:
    """Run the part of a collective over mesh axes of devices, after the loop."""
    others, rule = tuple(axis for axis in node.axes if axis != plan.axis), RULES[node.kind]
    dim = dimension_of(node.eqn) if rule.scatters else None
    for output, total in zip(node.outputs, totals, strict=True):
        if others:
            total = cast_data(total, others)
        result = rule.finish(node, total, others, plan.axis, plan.steps)
        values.store(output, result, dim)


# --- passes ---------------------------------------------------------------------------------------


class _Pass(Record):
    """The results of one run of the loop.

    Attributes:
      collectives: collectives, whose operands are folded.
      stacks: values that differ from step to step, for control flow in lockstep.
      constants: results of control flow that are the same in every step.
      outputs: results of the body, by their positions.
      effects: nodes with side effects.
    """

    collectives: list[Node]
    stacks: list[int]
    constants: list[int]
    outputs: dict[int, int]
    effects: list[Node]


def _pass_at(plan: Plan, level: int, outputs: dict[int, int], values: _Values) -> _Pass | None:
    """Return the pass of this level, if there is one."""
    needed = [node for node in plan.body.nodes if plan.needs(node)]
    ready = [
        node
        for node in needed
        if node in plan.collectives
        and not any(v in values for v in node.outputs)
        and all(plan.levels[v] <= level for v in node.inputs if isinstance(v, int))
    ]
    stacks = dict.fromkeys(
        v
        for node in ready
        if node.lockstep
        for v in node.inputs
        if isinstance(v, int) and v in plan.varies and v not in values.parts
    )
    constants = [
        v
        for node in needed
        for v in node.outputs
        if plan.constants.get(v) == level and v in plan.needed
    ]
    effects = [
        node
        for node in needed
        if node.eqn.effects
        and not node.lockstep
        and max((plan.levels[v] for v in node.inputs if isinstance(v, int)), default=0) == level
        and plan.runs_in_steps(node)
    ]
    collectives = [node for node in ready if not node.lockstep]
    if not (collectives or stacks or constants or effects or outputs):
        return None
    return _Pass(collectives, list(stacks), constants, outputs, effects)


def _run_pass(plan: Plan, found: _Pass, values: _Values) -> dict[int, jax.Array]:
    """Run the loop once; store values, and return results of the body by their positions."""
    summands = [v for node in found.collectives for v in node.inputs]
    others = [*found.stacks, *found.constants, *found.outputs.values()]
    targets = {*others, *(v for v in summands if isinstance(v, int))}
    nodes = plan.nodes_for(targets, found.effects, values.known.keys() | values.parts.keys())
    jaxpr, operands = _step(plan, nodes, [*summands, *others], values)

    steps = plan.steps
    folds = [RULES[node.kind].fold(node, steps) for node in found.collectives for _ in node.inputs]
    folds += [_join(STACKED, steps) for _ in found.stacks]
    folds += [Last() for _ in found.constants]
    folds += [_join(plan.out_dims[i], steps) for i in found.outputs]
    supply = iter(_over_steps(steps, jaxpr, operands, folds))
    for node in found.collectives:
        with source_of(node.eqn):
            _finish(plan, node, [next(supply) for _ in node.inputs], values)
    values.parts.update((v, (next(supply), STACKED)) for v in found.stacks)
    values.known.update((v, next(supply)) for v in found.constants)
    return {i: next(supply) for i in found.outputs}


def _join(dim: Dim, steps: int) -> Join:
    assert dim is not None
    return Join(0, steps, expand=True) if dim == STACKED else Join(dim, steps)


def _step(
    plan: Plan, nodes: Sequence[Node], results: Sequence[Value], values: _Values
) -> tuple[Jaxpr, list[jax.Array]]:
    """Return the open jaxpr of one step, and its arguments after the step's index."""
    writer = Writer(plan.axis, jnp.zeros((), jnp.int32))
    index = writer.index
    assert index is not None

    def given(value: int) -> Atom:
        if value in values.known:
            return writer.input(values.known[value])
        block, dim = values.parts[value]
        return writer.trace(
            lambda index, block: [_part(index, block, dim, plan.steps)],
            [index, writer.input(block)],
        )[0]

    atoms = Atoms(given)
    writer.write(nodes, atoms, values.constant)
    return writer.jaxpr(writer.outputs(results, atoms), plan.body.jaxpr), writer.values[1:]


def _part(index: jax.Array, block: jax.Array, dim: int, steps: int) -> jax.Array:
    """Slice the part of one step.

    Indices are not negative, unlike in `lax.dynamic_slice_in_dim`.
    """
    sliced, sizes = max(dim, 0), list(block.shape)
    chunk = sizes[sliced] = 1 if dim == STACKED else sizes[sliced] // steps
    starts: list[Any] = [np.zeros((), np.int32)] * block.ndim
    starts[sliced] = index if chunk == 1 else lax.mul(index, np.asarray(chunk, np.int32))
    part = lax.dynamic_slice(block, starts, sizes, allow_negative_indices=False)
    return lax.squeeze(part, (0,)) if dim == STACKED else part


def _over_steps(
    steps: int, jaxpr: Jaxpr, values: Sequence[jax.Array], folds: Sequence[Fold]
) -> list[jax.Array]:
    """Run an open jaxpr of the step's index and of values in all steps; fold its results."""
    shapes = [aval_of(var) for var in jaxpr.outvars]
    numbers: dict[Any, Any] = {}
    totals = [fold.start(shape, numbers) for fold, shape in zip(folds, shapes, strict=True)]

    def iterate(carry: list[jax.Array], index: jax.Array) -> tuple[list[jax.Array], None]:
        results = map(to_device, as_one_call(jaxpr, [index, *values]))
        return [
            fold.add(c, v, index) for fold, c, v in zip(folds, carry, results, strict=True)
        ], None

    if steps == 1:
        totals, _ = iterate(totals, jnp.zeros((), jnp.int32))
    else:
        totals, _ = lax.scan(iterate, totals, jnp.arange(steps, dtype=jnp.int32))
    ends = [
        fold.end(total, shape) for fold, total, shape in zip(folds, totals, shapes, strict=True)
    ]
    # Such as the gradient of an argument in the memory of the host.
    return [
        to_host(end) if is_host_type(shape) else end
        for end, shape in zip(ends, shapes, strict=True)
    ]


# --- control flow in lockstep ---------------------------------------------------------------------

# A value, and its dim.
_Operand = tuple[jax.Array, Dim]
# Casts values to the types of the node's results.
_Cast = Callable[[Sequence[jax.Array]], list[jax.Array]]


def _run_lockstep(plan: Plan, node: Node, values: _Values) -> None:
    """Execute control flow in lockstep; results that differ from step to step are stacked."""
    operands: list[_Operand] = [
        values.parts[v] if isinstance(v, int) and v in values.parts else (values.read(v), None)
        for v in node.inputs
    ]
    variances = [varying_of(var.aval) - {plan.axis} for var in node.eqn.outvars]

    def cast(results: Sequence[jax.Array]) -> list[jax.Array]:
        return [
            cast_data(jnp.asarray(value), axes)
            for value, axes in zip(results, variances, strict=False)
        ]

    with source_of(node.eqn):
        results = _LOCKSTEP[node.kind](node, plan.lockstep[node], operands, cast)
    for output, value in zip(node.outputs, results, strict=True):
        values.store(output, value, STACKED if output in plan.varies else None)


def _inputs(plan: Plan, operands: Sequence[_Operand], first: int) -> list[jax.Array]:
    """Return operands as inputs of a body, from the input with index `first` on."""
    return [
        value if plan.in_dims[i] != STACKED else _stacked(value, dim, plan.steps)
        for i, (value, dim) in enumerate(operands, first)
    ]


def _branch(
    node: Node, plans: Sequence[Plan], operands: Sequence[_Operand], cast: _Cast
) -> list[jax.Array]:
    (index, _), *others = operands
    branches = [lambda *values, plan=plan: cast(run(plan, *values)) for plan in plans]
    chosen: list[jax.Array] = lax.switch(
        jnp.asarray(index, jnp.int32), branches, *_inputs(plans[0], others, 0)
    )
    return chosen


def _while(
    node: Node, plans: Sequence[Plan], operands: Sequence[_Operand], cast: _Cast
) -> list[jax.Array]:
    loop, (test, body) = While.of(node.eqn), plans
    first, second = loop.condition_consts, loop.body_consts
    for_test = _inputs(test, operands[:first], 0)
    for_body = _inputs(body, operands[first : first + second], 0)
    last: list[jax.Array] = lax.while_loop(
        lambda carry: run(test, *for_test, *carry)[0],
        lambda carry: cast(run(body, *for_body, *carry)),
        cast(_inputs(body, operands[first + second :], second)),
    )
    return last


def _scan(
    node: Node, plans: Sequence[Plan], operands: Sequence[_Operand], cast: _Cast
) -> list[jax.Array]:
    scan, (body,) = Scan.of(node.eqn), plans
    consts, carries = scan.consts, scan.carries
    for_all = _inputs(body, operands[:consts], 0)
    start = cast(_inputs(body, operands[consts : consts + carries], consts))
    xs = _inputs(body, operands[consts + carries :], consts + carries)
    # In a stacked operand or result, the scanned dimension is next to the dimension of the steps.
    xs = [
        jnp.moveaxis(x, 0, 1) if dim == STACKED else x
        for x, dim in zip(xs, body.in_dims[consts + carries :], strict=True)
    ]

    def iterate(
        carry: list[jax.Array], elements: Sequence[jax.Array]
    ) -> tuple[list[jax.Array], list[jax.Array]]:
        results = run(body, *for_all, *carry, *elements)
        return cast(results[:carries]), results[carries:]

    last, results = lax.scan(iterate, start, xs, **scan.options)
    return [
        *last,
        *(
            jnp.moveaxis(y, 1, 0) if dim == STACKED else y
            for y, dim in zip(results, body.out_dims[carries:], strict=True)
        ),
    ]


_LOCKSTEP: dict[
    Kind | Added, Callable[[Node, Sequence[Plan], Sequence[_Operand], _Cast], list[jax.Array]]
] = {Kind.BRANCH: _branch, Kind.WHILE: _while, Kind.SCAN: _scan}
