"""Pipelines whose forward and backward passes alternate: 1F1B, interleaved and zero-bubble.

The layers of a stage become a function of data, of which `pipeline_loop` makes a loop with its own
derivative. Two traces precede it: the first finds the names and types of the carry and makes the
checks of every pipeline, the second is the stage itself.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import Jaxpr

from namedax.core.array import dims_of
from namedax.core.names import Dims, PyTree
from namedax.core.records import Record
from namedax.core.region import Region, ambient, enter
from namedax.core.variance import cast_data, varying
from namedax.ops.loops.carries import ValueType
from namedax.ops.loops.control_flow import scan_entries
from namedax.ops.loops.pipeline_loop import Loop
from namedax.ops.loops.pipeline_schedule import Fitted, Pipeline
from namedax.ops.operands.pytree import array_of, data_of, flatten
from namedax.primitives.equations import is_whole_exchange, jaxprs_within, kind_of
from namedax.primitives.record import Kind, is_inexact
from namedax.programs.evaluator import LATE_SUMS, has_reverse_rules, summed_axes
from namedax.programs.loop_casts import apart_from_constants
from namedax.programs.postpone_psum import postponing
from namedax.resources import communication as comm
from namedax.resources.serial import MicrobatchAxis

__all__ = ["AlternatingPipeline"]


class _Found(Record):
    """The carry of a stage, and the results of its layers, as a trace has found them."""

    kinds: list[ValueType]
    dtypes: list[Any]
    results: list[Dims]
    tree: Any


class AlternatingPipeline(Pipeline):
    """A pipeline in which a backward pass begins as soon as its forward pass has ended."""

    def run(self) -> tuple[PyTree, PyTree]:
        """Return the last carry, and the results of this device's layers, along the first axis."""
        stage, schedule = comm.block_index(self.axes), self.schedule
        found = self._traced(stage)
        run, operands, always = self._as_function(stage, found)
        begun = [
            self._begun(leaf, kind, dtype)
            for leaf, kind, dtype in zip(self.x, found.kinds, found.dtypes, strict=True)
        ]
        sums = self._sums_gradients(run, operands, begun, stage)
        loop = Loop(schedule, self.axes, run, len(found.kinds), always, sums, self._same_region)
        done, results = loop(operands, begun)
        is_last = stage == schedule.stages - 1
        last = [
            self._collected(data, (None, *kind.dims), is_last)
            for data, kind in zip(done, found.kinds, strict=True)
        ]
        return self.tree.unflatten(last), found.tree.unflatten(
            [
                self._of_layers(data, (None, *dims), stage)
                for data, dims in zip(results, found.results, strict=True)
            ]
        )

    def _traced(self, stage: jax.Array) -> _Found:
        """Find the type of the carry, and check the layers."""
        noted: list[_Found] = []

        def trace() -> list[jax.Array]:
            with self.microbatch(jnp.zeros((), jnp.int32)):
                (state, done), results = self._ticks(stage)
                leaves, tree = flatten(results)
                self._check_names([dims_of(leaf) for leaf in (*leaves, *done)])
                self._check(state)
                noted[:] = [
                    _Found(
                        [ValueType.of(leaf) for leaf in state],
                        [data_of(leaf).dtype for leaf in state],
                        [dims_of(leaf)[1:] for leaf in leaves],
                        tree,
                    )
                ]
            return [data_of(leaf) for leaf in state]

        jax.make_jaxpr(trace)()
        return noted[0]

    def _as_function(
        self, stage: jax.Array, found: _Found
    ) -> tuple[Callable[..., list[jax.Array]], list[jax.Array], bool]:
        """Return a group of layers as a function of data, its operands, and if all must run it."""

        def run(microbatch: jax.Array, turn: jax.Array, *datas: jax.Array) -> list[jax.Array]:
            with self.microbatch(microbatch):
                self._note_region()
                carry = [
                    array_of(data, kind.dims) for data, kind in zip(datas, found.kinds, strict=True)
                ]
                entries, of_group = self._group(turn)
                last, results = scan_entries(
                    entries, self.layer, self.tree.unflatten(carry), of_group, self.layers, False, 1
                )
                after = [
                    kind.fit(leaf).astype(dtype) if is_inexact(data_of(leaf)) else kind.fit(leaf)
                    for leaf, kind, dtype in zip(
                        flatten(last)[0], found.kinds, found.dtypes, strict=True
                    )
                ]
                axes = frozenset(self.axes)
                results = [cast_data(data_of(leaf), axes) for leaf in flatten(results)[0]]
                return [*after, *results]

        number = stage * 0
        begun = [
            self._begun(leaf, kind, dtype)[0]
            for leaf, kind, dtype in zip(self.x, found.kinds, found.dtypes, strict=True)
        ]
        late = LATE_SUMS not in self.region.left_out
        closed = jax.make_jaxpr(postponing(run, late=late))(number, number, *begun)
        axes = frozenset(self.axes)
        function, operands = apart_from_constants(closed, lambda value: value, axes)

        def with_numbers(
            operands: Sequence[jax.Array], microbatch: jax.Array, turn: Any, *datas: jax.Array
        ) -> list[jax.Array]:
            turn = jnp.full_like(microbatch, turn) if isinstance(turn, int) else turn
            with self._same_region(microbatch):
                return function(operands, microbatch, turn, *datas)

        def gradient(operands: list[jax.Array], datas: list[jax.Array]) -> Any:
            floats = [i for i, data in enumerate(operands) if is_inexact(data)]
            moving = [i for i, data in enumerate(datas) if is_inexact(data)]

            def of_floats(some: list[jax.Array], more: list[jax.Array]) -> list[jax.Array]:
                every, carry = list(operands), list(datas)
                for i, data in zip(floats, some, strict=True):
                    every[i] = data
                for i, data in zip(moving, more, strict=True):
                    carry[i] = data
                return [x for x in with_numbers(every, number, number, *carry) if is_inexact(x)]

            given = [operands[i] for i in floats], [datas[i] for i in moving]
            results, pull = jax.vjp(of_floats, *given)
            with self._same_region(number):
                return pull(results)

        always = _permutes(closed.jaxpr)
        if not always and has_reverse_rules(closed.jaxpr):
            # The rules may permute where the function does not.
            always = _permutes(jax.make_jaxpr(gradient)(operands, begun).jaxpr)
        return with_numbers, operands, always

    def _note_region(self) -> None:
        region = ambient()
        assert region is not None
        self._stage_region: Region = region

    @contextlib.contextmanager
    def _same_region(self, number: jax.Array) -> Iterator[None]:
        """Enter the region in which the stage was traced, for the rules of its derivatives."""
        axis = self._stage_region.resources[self.over][-1]
        assert isinstance(axis, MicrobatchAxis)
        before, axis.number = axis.number, number
        try:
            with enter(self._stage_region):
                yield
        finally:
            axis.number = before

    def _begun(self, leaf: Any, kind: ValueType, dtype: Any) -> jax.Array:
        """Return the initial carries of all microbatches, the first dimension."""
        count = self.schedule.microbatches
        data, dims = (
            (leaf.data, leaf.dims) if isinstance(leaf, Fitted) else (data_of(leaf), dims_of(leaf))
        )
        own = kind.bare() if self.over not in dims else kind

        def one(data: jax.Array) -> jax.Array:
            with self.microbatch(cast_data(jnp.zeros((), jnp.int32), frozenset(self.axes))):
                fitted = own.fit(array_of(data, dims))
            return fitted.astype(dtype) if is_inexact(fitted) else fitted

        if self.over not in dims:
            return jnp.broadcast_to(one(data)[None], (count, *kind.shape))
        at = dims.index(self.over)
        size = data.shape[at] // count
        parts = data.reshape((*data.shape[:at], count, size, *data.shape[at + 1 :]))
        return jax.vmap(one)(jnp.moveaxis(parts, at, 0))

    def _sums_gradients(
        self,
        run: Callable[..., list[jax.Array]],
        operands: Sequence[jax.Array],
        begun: Sequence[jax.Array],
        stage: jax.Array,
    ) -> bool:
        """Return True if a value that all stages share has a gradient, which sums over them.

        Most such values are cast to varying before the loop, and have another gradient.
        """
        axes = frozenset(self.axes)
        shared = [
            i for i, data in enumerate(operands) if is_inexact(data) and not axes <= varying(data)
        ]
        if not shared:
            return False

        def of_shared(*some: jax.Array) -> list[jax.Array]:
            every = list(operands)
            for i, data in zip(shared, some, strict=True):
                every[i] = data
            results = run(every, stage * 0, stage * 0, *(data[0] for data in begun))
            return [data for data in results if is_inexact(data)]

        def gradient(*some: jax.Array) -> Any:
            results, pull = jax.vjp(of_shared, *some)
            with self._same_region(stage * 0):
                return pull(results)

        traced = jax.make_jaxpr(gradient)(*(operands[i] for i in shared))
        return not summed_axes(traced.jaxpr).isdisjoint(axes)


def _permutes(jaxpr: Jaxpr) -> bool:
    """Return True if a jaxpr has communication in which all devices must take part."""
    return any(
        kind_of(eqn) is Kind.EXCHANGE and not is_whole_exchange(eqn) for eqn in jaxpr.eqns
    ) or any(map(_permutes, jaxprs_within(jaxpr)))
