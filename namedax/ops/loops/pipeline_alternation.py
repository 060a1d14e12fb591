"""Pipelines whose forward and backward passes alternate: 1F1B, interleaved and zero-bubble.

The layers of a stage become a function of data, of which `pipeline_loop` makes a loop with its own
derivative. Two traces precede it: the first finds the names and types of the carry and makes the
checks of every pipeline, the second is the stage itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import Jaxpr

from namedax.core.array import dims_of
from namedax.core.names import Dims, PyTree
from namedax.core.records import Record
from namedax.core.variance import cast_data, varying
from namedax.errors import PipelineError
from namedax.operands.pytree import array_of, data_of, flatten
from namedax.ops.loops.carries import ValueType
from namedax.ops.loops.control_flow import scan_entries
from namedax.ops.loops.pipeline_loop import Loop
from namedax.ops.loops.pipeline_schedule import OP, Pipeline
from namedax.programs.evaluator import LATE_SUMS, collective_axes, jaxprs_within, summed_axes
from namedax.programs.loop_casts import apart_from_constants
from namedax.programs.postpone_psum import postponing
from namedax.programs.primitives import Kind, is_inexact, kind_of
from namedax.resources import communication as comm

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
        loop = Loop(schedule, self.axes, run, len(found.kinds), always)
        begun = [
            self._begun(leaf, kind, dtype)
            for leaf, kind, dtype in zip(self.x, found.kinds, found.dtypes, strict=True)
        ]
        self._check_operands(run, operands, begun, stage)
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
                carry = [
                    array_of(data, kind.dims)
                    for data, kind in zip(datas, found.kinds, strict=True)
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
            return function(operands, microbatch, turn, *datas)

        return with_numbers, operands, _permutes(closed.jaxpr)

    def _begun(self, leaf: Any, kind: ValueType, dtype: Any) -> jax.Array:
        """Return the initial carries of all microbatches, the first dimension."""
        count, dims = self.schedule.microbatches, dims_of(leaf)
        data = data_of(leaf)
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

    def _check_operands(
        self,
        run: Callable[..., list[jax.Array]],
        operands: Sequence[jax.Array],
        begun: Sequence[jax.Array],
        stage: jax.Array,
    ) -> None:
        """Raise if a value of all stages has a gradient that needs a sum in every tick."""
        axes = frozenset(self.axes)
        shared = [
            i for i, data in enumerate(operands) if is_inexact(data) and not axes <= varying(data)
        ]
        if not shared:
            return

        def of_shared(*some: jax.Array) -> list[jax.Array]:
            every = list(operands)
            for i, data in zip(shared, some, strict=True):
                every[i] = data
            results = run(every, stage * 0, stage * 0, *(data[0] for data in begun))
            return [data for data in results if is_inexact(data)]

        def gradient(*some: jax.Array) -> Any:
            results, pull = jax.vjp(of_shared, *some)
            return pull(results)

        if summed_axes(jax.make_jaxpr(gradient)(*(operands[i] for i in shared)).jaxpr) & axes:
            raise PipelineError(
                f"{OP}: the function closes over a value whose gradient would be summed over the"
                f" stages of {self.entries.axis!r} in every tick, which"
                f" schedule={self.schedule.name!r} does not support. Pass that value in params, or"
                " use schedule='gpipe'."
            )


def _permutes(jaxpr: Jaxpr) -> bool:
    """Return True if a jaxpr has communication in which all devices must take part."""
    return any(eqn.primitive.name == "ppermute" for eqn in jaxpr.eqns) or any(
        map(_permutes, jaxprs_within(jaxpr))
    )
