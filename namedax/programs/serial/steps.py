"""Execution of a body over one mesh axis without devices, in steps along that axis (`stepping`).

The nodes of the body are sorted into passes. Each pass runs the loop once, and accumulates the
operands of collectives.
"""

from __future__ import annotations

import functools
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence, Set
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.core import ShapedArray
from jax.extend.core import ClosedJaxpr, Jaxpr
from jax.sharding import PartitionSpec

from namedax.core.element_types import additive_identity, extreme
from namedax.core.records import Record
from namedax.core.variance import cast_alike, cast_data, varying, varying_of
from namedax.errors import SerialLoopError
from namedax.primitives.equations import (
    Scan,
    While,
    barrier,
    constraint,
    dimension_of,
    facts,
    is_in_groups,
    is_tiled,
)
from namedax.primitives.record import Atom, Kind, aval_of
from namedax.primitives.table import LOCAL_KINDS
from namedax.programs.evaluator import as_one_call, source_of
from namedax.programs.serial import lockstep_control_flow
from namedax.programs.serial.jaxpr_writer import Atoms, Writer, bound, constant_of, on_this_mesh
from namedax.programs.serial.lockstep_control_flow import STACKED
from namedax.programs.serial.nodes import PASSING, SUMS, Added, Body, Flattener, Node, Value
from namedax.resources import communication as comm
from namedax.resources.mesh import entry_of
from namedax.resources.serial import moves_entries

__all__ = ["Stepper"]

# Collectives over a loop's axis that can be computed from the blocks of its steps.
_COLLECTIVES = (*SUMS, Kind.MAXIMUM, Kind.MINIMUM, Kind.GATHER, Kind.SCATTER)
_EXTREMA = (Kind.MAXIMUM, Kind.MINIMUM)
_GIVING_BACK = (*PASSING, Kind.CAST)


class Stepper:
    """A body over one loop's axis, executed in steps."""

    def __init__(
        self,
        body: Body,
        axis: str,
        steps: int,
        in_dims: list[int | None],
        out_dims: list[int | None],
    ):
        self.body, self.axis, self.steps = body, axis, steps
        self.in_dims, self.out_dims = in_dims, out_dims
        # The dimension in which a value has the parts of all steps; a value that is not sliced from
        # an operand is stacked in front.
        self.dims = dict(zip(body.inputs, in_dims, strict=True))
        self.varies = {
            value
            for value, dim in zip(self.body.inputs, self.in_dims, strict=True)
            if dim is not None
        }
        self.level: dict[int, int] = dict.fromkeys(self.body.inputs, 0)
        self.needed = self._needed()
        self.nodes: list[Node] = []
        for node in body.nodes:
            for part in self._split(node):
                self._classify(part)
                self.nodes.append(part)
        self.reads = _reads(self.nodes)
        self.made_by = {v: node for node in self.nodes for v in node.outputs}
        # Values that are read individually: by nodes that all steps execute together, and as
        # results.
        self.read_whole = {v for v in body.outputs if type(v) is int}.union(
            *[[v for v in node.inputs if type(v) is int] for node in self.nodes if node.collective]
        )
        self.cheap = self._cheap()

    @classmethod
    def of(
        cls,
        jaxpr: ClosedJaxpr,
        axis: str,
        steps: int,
        in_specs: Sequence[PartitionSpec],
        out_specs: Sequence[PartitionSpec],
        whole: bool,
    ) -> Stepper:
        """Return the stepper for the body of `jaxpr`; `whole` is that of `Flattener`."""
        in_dims, out_dims = (
            [_dim_of(spec, axis) for spec in specs] for specs in (in_specs, out_specs)
        )
        return cls(Flattener(axis, whole).flatten(jaxpr), axis, steps, in_dims, out_dims)

    def differing(self) -> list[bool]:
        """Return, for each result, whether it differs from step to step."""
        return [isinstance(v, int) and v in self.varies for v in self.body.outputs]

    def _needed(self) -> set[int]:
        """Return the values that the results, or side effects, depend on."""
        needed = {out for out in self.body.outputs if isinstance(out, int)}
        for node in reversed(self.body.nodes):
            if node.eqn.effects or not needed.isdisjoint(node.outputs):
                needed.update(v for v in node.inputs if isinstance(v, int))
        return needed

    def _split(self, node: Node) -> list[Node]:
        """Split a node that returns its operands by whether they differ from step to step."""
        if node.kind not in _GIVING_BACK:
            return [node]
        differ = [isinstance(v, int) and v in self.varies for v in node.inputs]
        if all(differ) or not any(differ):
            return [node]
        places = [[i for i, one in enumerate(differ) if one == wanted] for wanted in (False, True)]
        return [
            Node(
                node.kind, node.eqn, [node.inputs[i] for i in some], [node.outputs[i] for i in some]
            )
            for some in places
        ]

    def _classify(self, node: Node) -> None:
        """Record the results of a node that differ from step to step, and its pass."""
        level, varies = 0, False
        for v in node.inputs:
            if type(v) is int:
                level, varies = max(level, self.level[v]), varies or v in self.varies
        if node.whole:
            self._classify_whole(node, level + varies)
            return
        if node.kind is Kind.CAST or (node.kind in LOCAL_KINDS and not node.once):
            pass
        elif self.axis in node.axes and node.kind != Kind.DEVICE_INDEX:
            node.collective = True
            self._check_collective(node)
            level += varies
            varies = node.kind == Kind.SCATTER
            if varies:
                self.dims[node.outputs[0]] = dimension_of(node.eqn)
        else:
            varies = varies or self._needs_index(node)
        if varies and node.bodies:
            # Some results of control flow are the same in every step.
            constant = [
                i
                for i, var in enumerate(node.eqn.outvars)
                if self.axis not in varying_of(var.aval) and i not in node.waiting
            ]
            node.constant = dict.fromkeys((node.outputs[i] for i in constant), level)
        for output in node.outputs:
            if output in node.constant:
                self.level[output] = level + 1
                continue
            self.level[output] = level
            if varies:
                self.varies.add(output)

    def _classify_whole(self, node: Node, level: int) -> None:
        dims = [
            self.dims.get(v, STACKED) if isinstance(v, int) and v in self.varies else None
            for v in node.inputs
        ]
        make = functools.partial(Stepper, axis=self.axis, steps=self.steps)
        differ = lockstep_control_flow.prepare(
            node, self.axis, dims, lambda body, into, out: make(body, in_dims=into, out_dims=out)
        )
        node.collective = True
        self.level.update(dict.fromkeys(node.outputs, level))
        self.varies.update(v for v, one in zip(node.outputs, differ, strict=True) if one)

    def _needs_index(self, node: Node) -> bool:
        if node.kind == Kind.DEVICE_INDEX and self.axis in node.axes:
            return True
        # An operand that counts once does so in the first step.
        if node.once or (node.kind == Kind.SCAN and node.waiting):
            return True
        return any(self._needs_index(inner) for body in node.bodies for inner in body.nodes)

    def _check_collective(self, node: Node) -> None:
        if node.kind in _COLLECTIVES and not is_in_groups(node.eqn):
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

    # --- one execution ---

    def run(self, *blocks: jax.Array) -> list[jax.Array]:
        """Map blocks of all steps to results of all steps."""
        known: dict[int, jax.Array] = {}
        sliced: dict[int, tuple[jax.Array, int]] = {}
        for value, block, dim in zip(self.body.inputs, blocks, self.in_dims, strict=True):
            if dim is None:
                known[value] = block
            else:
                sliced[value] = (block, dim)
        outputs = [
            (i, v)
            for i, v in enumerate(self.body.outputs)
            if isinstance(v, int) and v in self.varies
        ]
        results: dict[int, jax.Array] = {}
        computed = set[int]()
        for level in range(max(self.level.values(), default=0) + 1):
            self._compute_constants(known, sliced, computed)
            wanted = [(i, v) for i, v in outputs if self.level[v] == level]
            results |= self._pass(level, known, sliced, wanted, computed)
        for i, (output, dim) in enumerate(zip(self.body.outputs, self.out_dims, strict=True)):
            if i in results:
                continue
            whole = jnp.asarray(_read(known, output))
            results[i] = (
                whole
                if dim is None
                else (
                    lockstep_control_flow.stacked(whole, None, self.steps)
                    if dim == STACKED
                    else lax.concatenate([whole] * self.steps, dim)
                )
            )
        return [results[i] for i in range(len(self.out_dims))]

    def _compute_constants(
        self,
        known: dict[int, jax.Array],
        sliced: dict[int, tuple[jax.Array, int]],
        computed: set[int],
    ) -> None:
        """Add to `computed` values that are equal in all steps and need earlier passes only."""
        together: list[Node] = []
        for node in self.nodes:
            is_ready = True
            for v in node.inputs:
                is_ready = is_ready and (
                    type(v) is not int
                    or v in known
                    or v in computed
                    or (node.whole and v in sliced)
                )
            if not is_ready or not self._is_needed(node) or not computed.isdisjoint(node.outputs):
                continue
            if any(output in known or output in sliced for output in node.outputs):
                continue
            if node.whole:
                self._compute(together, known)
                self._run_whole(node, known, sliced)
            elif self._needs_index(node):
                continue
            elif node.collective:
                self._compute(together, known)
                with source_of(node.eqn):
                    self._finish(
                        node,
                        [self._as_if_summed(node, _read(known, v)) for v in node.inputs],
                        known,
                        sliced,
                    )
            else:
                together.append(node)
                computed.update(node.outputs)
        self._compute(together, known)

    def _compute(self, nodes: list[Node], known: dict[int, jax.Array]) -> None:
        """Evaluate and remove nodes; add results to `known`, except cheap ones, left to readers."""
        if not nodes:
            return
        writer = self._writer()

        def given(value: int) -> Atom:
            if value in known:
                return writer.input(known[value])
            writer.write([self.made_by[value]], atoms)
            return atoms[value]

        atoms = Atoms(given)
        writer.write(nodes, atoms)
        # The others are computed again.
        inside = _reads([node for node in nodes if self.cheap.isdisjoint(node.outputs)])
        made = [v for node in nodes for v in node.outputs]
        read = [
            v
            for v in made
            if v in self.read_whole or (self.reads[v] > inside[v] and v not in self.cheap)
        ]
        results = as_one_call(
            writer.jaxpr(writer.outputs(read, atoms), self.body.jaxpr), writer.values
        )
        known.update(zip(read, results, strict=True))
        nodes.clear()

    def _run_whole(
        self, node: Node, known: dict[int, jax.Array], sliced: dict[int, tuple[jax.Array, int]]
    ) -> None:
        operands = [
            sliced[v] if isinstance(v, int) and v in sliced else (_read(known, v), None)
            for v in node.inputs
        ]
        with source_of(node.eqn):
            results = lockstep_control_flow.run(node, self.axis, self.steps, operands)
        for output, value in zip(node.outputs, results, strict=True):
            if output in self.varies:
                sliced[output] = (value, STACKED)
            else:
                known[output] = value

    def _is_needed(self, node: Node) -> bool:
        return bool(node.eqn.effects) or not self.needed.isdisjoint(node.outputs)

    def _pass(
        self,
        level: int,
        known: dict[int, jax.Array],
        sliced: dict[int, tuple[jax.Array, int]],
        wanted: Sequence[tuple[int, int]],
        computed: Set[int],
    ) -> dict[int, jax.Array]:
        """Run the loop once, for the collectives, results and side effects of this level."""
        needed = [node for node in self.nodes if self._is_needed(node)]
        collectives = [
            node
            for node in needed
            if node.collective
            and not any(v in known or v in sliced for v in node.outputs)
            and all(self.level[v] <= level for v in node.inputs if isinstance(v, int))
        ]
        # Values of each step that control flow executed by all steps together needs.
        stacks = list(
            dict.fromkeys(
                v for node in collectives if node.whole for v in node.inputs if isinstance(v, int)
            )
        )
        stacks = [v for v in stacks if v in self.varies and v not in sliced]
        collectives = [node for node in collectives if not node.whole]
        constants = {
            v: node
            for node in needed
            for v, at in node.constant.items()
            if at == level and v in self.needed
        }
        effects = [
            node
            for node in needed
            if node.eqn.effects
            and not node.whole
            and max((self.level[v] for v in node.inputs if isinstance(v, int)), default=0) == level
            and self._varies(node)
        ]
        if not (collectives or stacks or constants or effects or wanted):
            return {}
        targets = {v for node in collectives for v in node.inputs if isinstance(v, int)} | {
            v for _, v in wanted
        }
        plan = self._plan(
            targets | set(constants) | set(stacks), effects, known.keys() | sliced.keys()
        )
        summands = [v for node in collectives for v in node.inputs]
        results = [*summands, *stacks, *constants, *(v for _, v in wanted)]
        jaxpr, values = self._step(plan, results, known, sliced, computed)

        folds = [_Fold.of(node, self.steps) for node in collectives for _ in node.inputs]
        stack = _Fold("join", 0, self.steps, expand=True)
        joins = [
            stack if dim == STACKED else _Fold("join", dim, self.steps)
            for dim in (self.out_dims[i] for i, _ in wanted)
        ]
        folds += [stack] * len(stacks) + [_Fold("last", None, self.steps)] * len(constants) + joins
        supply = iter(self._over_steps(jaxpr, values, folds))
        for node in collectives:
            with source_of(node.eqn):
                self._finish(node, [next(supply) for _ in node.inputs], known, sliced)
        sliced.update((v, (next(supply), STACKED)) for v in stacks)
        known.update((v, next(supply)) for v in constants)
        return {i: next(supply) for i, _ in wanted}

    def _step(
        self,
        plan: Sequence[Node],
        results: Sequence[Value],
        known: Mapping[int, jax.Array],
        sliced: Mapping[int, tuple[jax.Array, int]],
        computed: Set[int],
    ) -> tuple[Jaxpr, list[jax.Array]]:
        """Return the open jaxpr of one step, and its arguments after the step's index."""
        writer = self._writer(jnp.zeros((), jnp.int32))
        index = writer.index
        assert index is not None

        def given(value: int) -> Atom:
            if value in known:
                return writer.input(known[value])
            block, dim = sliced[value]
            return writer.trace(
                lambda index, block: [self._part(index, block, dim)], [index, writer.input(block)]
            )[0]

        atoms = Atoms(given)
        writer.write(plan, atoms, computed)
        return writer.jaxpr(writer.outputs(results, atoms), self.body.jaxpr), writer.values[1:]

    def _part(self, index: jax.Array, block: jax.Array, dim: int) -> jax.Array:
        """Slice the part of one step.

        Indices are not negative, unlike in `lax.dynamic_slice_in_dim`.
        """
        place, sizes = max(dim, 0), list(block.shape)
        chunk = sizes[place] = 1 if dim == STACKED else sizes[place] // self.steps
        starts: list[Any] = [np.zeros((), np.int32)] * block.ndim
        starts[place] = index if chunk == 1 else lax.mul(index, np.asarray(chunk, np.int32))
        part = lax.dynamic_slice(block, starts, sizes, allow_negative_indices=False)
        return lax.squeeze(part, (0,)) if dim == STACKED else part

    def _writer(self, index: jax.Array | None = None) -> Writer:
        return Writer(self.axis, self._evaluate, self._needs_index, index)

    def _over_steps(
        self, jaxpr: Jaxpr, values: Sequence[jax.Array], folds: Sequence[_Fold]
    ) -> list[jax.Array]:
        """Run an open jaxpr of the step's index and of values in all steps; fold its results."""
        shapes = [aval_of(var) for var in jaxpr.outvars]
        numbers: dict[Any, Any] = {}
        totals = [fold.start(shape, numbers) for fold, shape in zip(folds, shapes, strict=True)]

        def iterate(carry: list[jax.Array], index: jax.Array) -> tuple[list[jax.Array], None]:
            results = as_one_call(jaxpr, [index, *values])
            return [
                fold.add(c, v, index) for fold, c, v in zip(folds, carry, results, strict=True)
            ], None

        if self.steps == 1:
            totals, _ = iterate(totals, jnp.zeros((), jnp.int32))
        else:
            totals, _ = lax.scan(iterate, totals, jnp.arange(self.steps, dtype=jnp.int32))
        return [
            fold.end(total, shape) for fold, total, shape in zip(folds, totals, shapes, strict=True)
        ]

    def _varies(self, node: Node) -> bool:
        return self._needs_index(node) or any(
            v in self.varies for v in node.inputs if isinstance(v, int)
        )

    def _plan(self, targets: set[int], effects: Sequence[Node], known: Set[int]) -> list[Node]:
        """Return the nodes of one step that lead to targets which are not stored, in order."""
        kept = known - self.cheap
        wanted = {v for v in targets if v not in kept}
        plan = []
        for node in reversed(self.nodes):
            if node.collective:  # its result is known, or sliced from a known value
                continue
            if node in effects or (
                not wanted.isdisjoint(node.outputs) and not (node.eqn.effects and not node.outputs)
            ):
                plan.append(node)
                wanted |= {v for v in node.inputs if type(v) is int and v not in kept}
        return plan[::-1]

    def _cheap(self) -> set[int]:
        """Return the values that are recomputed in every step.

        Stored outside the loop they would take memory, and time to read.

        Values that are gathered from other devices are included, unless the loop keeps them whole.
        """
        cheap, gathered = set[int](), set[int]()
        again = getattr(self.axis, "keep", "parts") == "parts"
        for node in self.nodes:
            inputs = [v for v in node.inputs if isinstance(v, int)]
            if node.kind == Kind.GATHER and not node.collective:
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

    # --- collectives ---

    def _as_if_summed(self, node: Node, value: jax.Array) -> jax.Array:
        """Return the result of the loop for an operand that is the same in every step."""
        if node.kind in _EXTREMA:
            return value
        if node.kind == Kind.GATHER:
            dim = dimension_of(node.eqn)
            value = value if is_tiled(node.eqn) else jnp.expand_dims(value, dim)
            return lax.concatenate([value] * self.steps, dim)
        return value * jnp.asarray(self.steps, value.dtype)

    def _finish(
        self,
        node: Node,
        totals: Sequence[jax.Array],
        known: dict[int, jax.Array],
        sliced: dict[int, tuple[jax.Array, int]],
    ) -> None:
        """Run the part of a collective over mesh axes of devices, after the loop."""
        others = tuple(axis for axis in node.axes if axis != self.axis)
        for output, total in zip(node.outputs, totals, strict=True):
            if others:
                total = cast_data(total, others)
            if node.kind in SUMS:
                known[output] = comm.psum(total, others) if others else total
            elif node.kind in _EXTREMA:
                reduce: Any = lax.pmax if node.kind == Kind.MAXIMUM else lax.pmin
                known[output] = reduce(total, others) if others else total
            elif node.kind == Kind.GATHER:
                to: Any = "invarying" if facts(node.eqn).is_invariant else "varying"
                dim = dimension_of(node.eqn)
                gathered = comm.all_gather(total, dim, others, to) if others else total
                known[output] = self._swap_minor(gathered, dim, node.axes, to_minor=False)
            else:
                dim = dimension_of(node.eqn)
                total = self._swap_minor(total, dim, node.axes, to_minor=True)
                scattered = comm.psum_scatter(total, dim, others) if others else total
                if not is_tiled(node.eqn):
                    raise SerialLoopError(
                        f"SerialLoop: an untiled psum_scatter over {self.axis} cannot be executed"
                        " in steps. Use tiled=True, or an axis name, as in nx.lax.psum_scatter."
                    )
                sliced[output] = (scattered, dim)

    def _swap_minor(
        self, data: jax.Array, dim: int, axes: Sequence[str], to_minor: bool
    ) -> jax.Array:
        """Reorder blocks along a dimension to steps as the minor axis, or back.

        The blocks are in the order of `axes`, major first.

        Each device joins its steps, and devices are joined after that. A collective over `(loop,
        "x")` is therefore one over `("x", loop)`, of blocks in another order.
        """
        minor = axes[axes.index(self.axis) + 1 :]
        if not minor:
            return data
        counts = (self.steps, math.prod(map(lax.axis_size, minor)))
        major = math.prod(lax.axis_size(axis) for axis in axes[: axes.index(self.axis)])
        counts = counts if to_minor else counts[::-1]
        block = data.shape[dim] // (major * math.prod(counts))
        blocks = data.reshape((*data.shape[:dim], major, *counts, block, *data.shape[dim + 1 :]))
        return jnp.swapaxes(blocks, dim + 1, dim + 2).reshape(data.shape)

    # --- operations ---

    def _evaluate(
        self, node: Node, values: Sequence[jax.Array], index: jax.Array
    ) -> Sequence[jax.Array]:
        """Evaluate one operation, on the real mesh."""
        kind = node.kind
        for i, axes in node.once.items():
            values = [*values[:i], self._on_first(values[i], axes, index), *values[i + 1 :]]
        if kind == Added.IDENTITY:
            return [cast_data(v, [a for a in node.waiting[0] if a != self.axis]) for v in values]
        if kind in PASSING:
            return barrier(values)
        if kind == Added.EACH:
            return [
                comm.psum(
                    lax.map(lambda x: self._call(node.bodies[0], [x], index)[0], values[0]),
                    node.waiting[0],
                )
            ]
        if kind == Kind.CAST:
            others = [axis for axis in node.axes if axis != self.axis]
            return [cast_data(value, others) for value in values]
        if kind == Kind.DEVICE_INDEX and self.axis in node.axes:
            return [index]
        if kind == Kind.SCAN:
            return self._scan(node, values, index)
        if kind == Kind.WHILE:
            return self._while(node, values, index)
        if kind == Kind.BRANCH:
            branches = [
                lambda *operands, body=body: self._call(body, operands, index)
                for body in node.bodies
            ]
            chosen: list[jax.Array] = lax.switch(
                jnp.asarray(values[0], jnp.int32), branches, *values[1:]
            )
            return chosen
        if kind == Kind.CONSTRAINT:
            sharding = on_this_mesh(constraint(node.eqn))
            return [
                values[0] if sharding is None else lax.with_sharding_constraint(values[0], sharding)
            ]
        # The summands of a pending psum vary, but the psum did not.
        return bound(self.axis, node.eqn, values)

    def _call(self, body: Body, inputs: Sequence[jax.Array], index: jax.Array) -> list[jax.Array]:
        return [jnp.asarray(result) for result in self._writer(index).call(body, inputs)]

    def _on_first(self, value: jax.Array, axes: Sequence[str], index: jax.Array) -> jax.Array:
        """Return a summand that counts once: `value` in step 0 on device 0, zero elsewhere."""
        others = tuple(axis for axis in axes if axis != self.axis)
        first = (index == 0) & (comm.block_index(others) == 0) if others else index == 0
        value = jnp.asarray(value)
        return lax.select(
            *cast_alike([jnp.broadcast_to(first, value.shape), value, jnp.zeros_like(value)])
        )

    def _scan(
        self, node: Node, values: Sequence[jax.Array], index: jax.Array
    ) -> Sequence[jax.Array]:
        (body,), scan = node.bodies, Scan.of(node.eqn)
        consts, carries = scan.consts, scan.carries
        start = list(values[consts : consts + carries])
        for i, axes in node.waiting.items():
            if i < carries:
                start[i] = self._on_first(start[i], axes, index)

        def iterate(
            carry: list[jax.Array], xs: Sequence[jax.Array]
        ) -> tuple[list[jax.Array], list[jax.Array]]:
            results = self._call(body, [*values[:consts], *carry, *xs], index)
            return results[:carries], results[carries:]

        last, stacked = lax.scan(iterate, start, list(values[consts + carries :]), **scan.options)
        return [*last, *stacked]

    def _while(
        self, node: Node, values: Sequence[jax.Array], index: jax.Array
    ) -> Sequence[jax.Array]:
        loop, (condition, body) = While.of(node.eqn), node.bodies
        first, start = loop.condition_consts, loop.condition_consts + loop.body_consts
        return lockstep_control_flow.while_loop(
            lambda carry: self._call(condition, [*values[:first], *carry], index)[0],
            lambda carry: self._call(body, [*values[first:start], *carry], index),
            values[start:],
            loop.ndim,
        )


def _reads(nodes: Sequence[Node]) -> defaultdict[int, int]:
    """Count how often nodes read each value."""
    counts = defaultdict[int, int](int)
    for node in nodes:
        for v in node.inputs:
            if type(v) is int:
                counts[v] += 1
    return counts


def _read(values: Mapping[int, jax.Array], value: Value) -> jax.Array:
    return values[value] if isinstance(value, int) else constant_of(value)


class _Fold(Record):
    """The way to fold the values of all steps into one value."""

    kind: str
    dim: int | None
    steps: int
    expand: bool = False

    @classmethod
    def of(cls, node: Node, steps: int) -> _Fold:
        if node.kind in _EXTREMA:
            return cls("maximum" if node.kind == Kind.MAXIMUM else "minimum", None, steps)
        if node.kind == Kind.GATHER:
            return cls("join", dimension_of(node.eqn), steps, not is_tiled(node.eqn))
        return cls("sum", None, steps)

    def start(self, shape: ShapedArray, numbers: dict[Any, Any]) -> jax.Array:
        """Return the value before the first step, a repeated scalar; `numbers` caches it."""
        dims, dtype, axes = list(shape.shape), shape.dtype, varying_of(shape)
        if self.kind == "join":
            assert self.dim is not None
            if self.expand:
                dims.insert(self.dim, 1)
            dims[self.dim] *= self.steps
        elif self.kind == "sum":
            dtype = comm.sum_type(dtype)
        if jnp.issubdtype(dtype, jax.dtypes.extended):
            return cast_data(jnp.zeros(dims, dtype), axes)
        kind = self.kind if self.kind in ("sum", "maximum", "minimum") else "join"
        key = (kind, dtype, axes)
        if key not in numbers:
            number = (
                additive_identity(dtype)
                if kind in ("sum", "join")
                else jnp.asarray(extreme(dtype, self.kind == "maximum"))
            )
            numbers[key] = cast_data(number, axes)
        return lax.broadcast(numbers[key], dims)

    def add(self, total: jax.Array, value: jax.Array, index: jax.Array) -> jax.Array:
        value = cast_data(value, varying(total))
        if self.kind == "sum":
            return lax.add(
                total,
                (
                    value
                    if value.dtype == total.dtype
                    else lax.convert_element_type(value, total.dtype)
                ),
            )
        if self.kind in ("maximum", "minimum"):
            return (
                jnp.maximum(total, value) if self.kind == "maximum" else jnp.minimum(total, value)
            )
        if self.kind == "last":
            return value
        assert self.dim is not None
        if self.expand:
            value = jnp.expand_dims(value, self.dim)
        return lax.dynamic_update_slice_in_dim(
            total, value, index * value.shape[self.dim], self.dim
        )

    def end(self, total: jax.Array, shape: ShapedArray) -> jax.Array:
        return total.astype(shape.dtype) if self.kind == "sum" else total


def _dim_of(spec: PartitionSpec, axis: str) -> int | None:
    """Return the dimension that the loop's axis shards, or `None`."""
    for dim in range(len(spec)):
        entry = entry_of(spec, dim)
        if axis in entry:
            assert entry[-1] == axis  # ensured by the parser: the loop is the minor axis
            return dim
    return None
