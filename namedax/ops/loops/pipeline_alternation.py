"""Pipelines whose forward and backward passes alternate: 1F1B, interleaved and zero-bubble.

The layers of a stage become a function of data. Two traces precede it: the first finds the names
and types of the carry and makes the checks of every pipeline, the second is the stage itself.

Of that function `_Loop` makes a function with its own derivative (`jax.custom_vjp`). The forward
pass stores nothing but its operands. The backward pass is one loop over the ticks of a timetable:
it computes the forward pass of a microbatch again, stores the input of each stage until its
backward pass, and sends activations forward and cotangents backward in every tick.

A stage computes within `lax.cond`, so that an idle stage takes no time. This works for
communication in groups of devices, which have the same stage. A permutation concerns all devices:
a stage with one always computes, and its result is discarded.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.core import ShapedArray
from jax.extend.core import Jaxpr

from namedax.core.array import dims_of
from namedax.core.names import Dims, PyTree
from namedax.core.records import Record
from namedax.core.region import Region, ambient, enter
from namedax.core.variance import cast_data, varying
from namedax.ops.loops.carries import ValueType
from namedax.ops.loops.control_flow import scan_entries
from namedax.ops.loops.pipeline_schedule import Fitted, Pipeline
from namedax.ops.loops.pipeline_timetable import IDLE, Schedule
from namedax.ops.operands.pytree import array_of, data_of, flatten
from namedax.primitives.equations import is_whole_exchange, jaxprs_within, kind_of
from namedax.primitives.record import Kind, is_inexact
from namedax.programs.evaluator import LATE_SUMS, has_reverse_rules, summed_axes
from namedax.programs.loop_casts import apart_from_constants
from namedax.programs.postpone_psum import postponing
from namedax.resources import communication as comm
from namedax.resources.serial import MicrobatchAxis

__all__ = ["AlternatingPipeline"]

_Datas: TypeAlias = list[jax.Array]
# The received carry and cotangents, the slots of inputs and of cotangents, and the gradients.
_State: TypeAlias = tuple[_Datas, _Datas, _Datas, _Datas, _Datas, _Datas]
# The microbatch and the round of a work, its input, and the cotangents of its results.
_Given: TypeAlias = tuple[jax.Array, jax.Array | int, _Datas, list[Any]]


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
        loop = _Loop(schedule, self.axes, run, len(found.kinds), always, sums, self._same_region)
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
        closed = jax.make_jaxpr(postponing(run, postpones=late))(number, number, *begun)
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


class _Loop:
    """A pipeline on data.

    Args:
      schedule: the schedule.
      axes: the mesh axes of the stages.
      run: one group of layers: takes the operands, the microbatch, the round and the carry; returns
        the carry and the results.
      carried: the number of leaves of the carry.
      always: if `True`, idle stages compute too.
      sums: if `True`, gradients of operands that do not vary over these mesh axes are summed over
        the stages in every tick; idle stages compute too.
      within: enters the region of a microbatch, in which rules of derivatives run.
    """

    def __init__(
        self,
        schedule: Schedule,
        axes: tuple[str, ...],
        run: Callable[..., _Datas],
        carried: int,
        always: bool,
        sums: bool,
        within: Callable[[jax.Array], contextlib.AbstractContextManager[None]],
    ):
        self.schedule, self.axes, self.run = schedule, axes, run
        self.carried, self.always, self.sums, self.within = carried, always or sums, sums, within

    def __call__(
        self, operands: Sequence[jax.Array], begun: Sequence[jax.Array]
    ) -> tuple[_Datas, _Datas]:
        """Return the last carries of all microbatches, and the results of all ticks.

        Args:
          operands: the operands of `run`. One that does not vary over the mesh axes of the stages
            has no gradient, except with `sums`.
          begun: the initial carries, `[microbatches, ...]`.
        """
        call = jax.custom_vjp(self._forward)
        call.defvjp(self._save, self._backward)
        return call(list(operands), list(begun))

    def _save(
        self, operands: _Datas, begun: _Datas
    ) -> tuple[tuple[_Datas, _Datas], tuple[Any, Any]]:
        return self._forward(operands, begun), (operands, begun)

    # --- the forward pass -------------------------------------------------------------------------

    def _forward(self, operands: _Datas, begun: _Datas) -> tuple[_Datas, _Datas]:
        stage = comm.block_index(self.axes)
        works, count = self.schedule.works, self.carried
        types = self._types(operands, begun)

        def tick(
            state: tuple[_Datas, _Datas], t: jax.Array
        ) -> tuple[tuple[_Datas, _Datas], _Datas]:
            received, done = state
            number = t - stage
            active = (number >= 0) & (number < works)
            microbatch, turn, begins, ends = self._place(jnp.clip(number, 0, works - 1), stage)
            taken = [
                jnp.where(begins, _entry(all_, microbatch), data)
                for all_, data in zip(begun, received, strict=True)
            ]
            after = self._if(
                active,
                lambda: self.run(operands, microbatch, turn, *taken),
                [_zeros(kind) for kind in types],
            )
            kept = jnp.where(active & ends, microbatch, self.schedule.microbatches)
            done = [_put(room, data, kept) for room, data in zip(done, after, strict=False)]
            return (self._send(after[:count]), done), after[count:]

        start = [_zeros(kind) for kind in types[:count]]
        rooms = [_room(data, self.schedule.microbatches) for data in start]
        ticks = jnp.arange(works + self.schedule.stages - 1)
        with jax.named_scope(self.schedule.scope_name):
            (_, done), results = lax.scan(tick, (start, rooms), ticks)
        return [data[:-1] for data in done], results

    # --- the backward pass ------------------------------------------------------------------------

    def _backward(
        self, saved: tuple[_Datas, _Datas], cotangents: tuple[_Datas, _Datas]
    ) -> tuple[list[Any], list[Any]]:
        with jax.named_scope(self.schedule.scope_name):
            return _Backward(self, *saved, *cotangents).gradients()

    # --- shared by both ---------------------------------------------------------------------------

    def _types(self, operands: _Datas, begun: _Datas) -> list[ShapedArray]:
        index = comm.block_index(self.axes)
        microbatch, turn = self.schedule.work(index)

        def run(operands: _Datas, datas: _Datas) -> _Datas:
            return self.run(operands, microbatch, turn, *datas)

        closed = jax.make_jaxpr(run)(operands, [_entry(data, 0) for data in begun])
        return list(closed.out_avals)

    def _place(
        self, number: jax.Array, stage: jax.Array
    ) -> tuple[jax.Array, jax.Array | int, jax.Array, jax.Array]:
        """Return the microbatch and the round of a work, and if it is the first or the last."""
        microbatch, turn = self.schedule.work(number)
        begins = (stage == 0) & (turn == 0)
        ends = (stage == self.schedule.stages - 1) & (turn == self.schedule.rounds - 1)
        return microbatch, turn, begins, ends

    def _if(self, active: jax.Array, do: Callable[[], Any], otherwise: Any) -> Any:
        """Return `do()` if the stage is active, else `otherwise`."""
        if not self.always:
            return lax.cond(active, do, lambda: otherwise)
        return jax.tree.map(lambda new, old: jnp.where(active, new, old), do(), otherwise)

    def _send(self, datas: Sequence[jax.Array], back: bool = False) -> _Datas:
        stages = self.schedule.stages
        count = stages if self.schedule.rounds > 1 else stages - 1
        pairs = [(stage, (stage + 1) % stages) for stage in range(count)]
        pairs = [(after, before) for before, after in pairs] if back else pairs

        def one(data: jax.Array) -> jax.Array:
            if comm.is_keys(data):
                return comm.over_words(one, data)
            return comm.ppermute(data, self.axes, pairs)

        return [one(data) for data in datas]


class _Backward:
    """One backward pass.

    Args:
      loop: the loop.
      operands: the operands of `Loop.run`.
      begun: the initial carries.
      of_done: the cotangents of the last carries.
      of_results: the cotangents of the results.
    """

    def __init__(
        self, loop: _Loop, operands: _Datas, begun: _Datas, of_done: _Datas, of_results: _Datas
    ):
        self.loop, self.operands, self.begun = loop, operands, begun
        self.of_done, self.of_results = of_done, of_results
        self.schedule, self.table = loop.schedule, loop.schedule.table
        self.stage = comm.block_index(loop.axes)
        self.types = loop._types(operands, begun)
        axes = set(loop.axes)
        self.floats = [
            i
            for i, data in enumerate(operands)
            if is_inexact(data) and (loop.sums or axes <= varying(data))
        ]
        count = loop.carried
        self.moving = [i for i, kind in enumerate(self.types[:count]) if is_inexact(kind)]

    def gradients(self) -> tuple[list[Any], list[Any]]:
        """Return the gradients of the operands and of the initial carries."""
        schedule, table, carried = self.schedule, self.table, self.types[: self.loop.carried]
        moving = [carried[i] for i in self.moving]
        state = (
            [_zeros(kind) for kind in carried],
            [_zeros(kind) for kind in moving],
            [_room(_zeros(kind), table.input_slots) for kind in carried],
            [
                _room(_zeros(kind), table.cotangent_slots)
                for kind in moving
                if schedule.name == "zero_bubble"
            ],
            [
                cast_data(jnp.zeros_like(self.operands[i]), varying(self.operands[i]))
                for i in self.floats
            ],
            [_room(_zeros(kind), schedule.microbatches) for kind in moving],
        )
        rows = [self._column(each) for each in (table.forward, table.backward, table.weights)]
        self.inputs = self._column(table.inputs)
        self.cotangents = self._column(table.cotangents)
        *_, of_operands, of_begun = lax.scan(self._tick, state, rows)[0]
        found: list[Any] = [None] * len(self.operands)
        for i, data in zip(self.floats, of_operands, strict=True):
            found[i] = data
        firsts: list[Any] = [None] * len(self.begun)
        for i, data in zip(self.moving, of_begun, strict=True):
            firsts[i] = data[:-1]
        return found, firsts

    def _column(self, table: np.ndarray) -> jax.Array:
        return _entry(jnp.asarray(table.T.astype(np.int32)), self.stage)

    def _tick(self, state: _State, row: _Datas) -> tuple[_State, None]:
        received, cotangents, inputs, waiting, of_operands, of_begun = state
        loop, schedule = self.loop, self.schedule
        forward, backward, apart = row
        # The forward pass: the last group of layers is computed in its backward pass only.
        active, number = forward != IDLE, jnp.maximum(forward, 0)
        microbatch, turn, begins, ends = loop._place(number, self.stage)
        taken = [
            jnp.where(begins, _entry(all_, microbatch), data)
            for all_, data in zip(self.begun, received, strict=True)
        ]
        count = loop.carried
        after = loop._if(
            active & ~ends,
            lambda: loop.run(self.operands, microbatch, turn, *taken)[:count],
            [_zeros(kind) for kind in self.types[:count]],
        )
        slot = jnp.where(active, _entry(self.inputs, number), self.table.input_slots)
        inputs = [_put(room, data, slot) for room, data in zip(inputs, taken, strict=True)]
        # The backward pass.
        active, number = backward != IDLE, jnp.maximum(backward, 0)
        microbatch, turn, begins, ends = loop._place(number, self.stage)
        cotangents = [
            jnp.where(ends, _entry(self.of_done[i], microbatch), data)
            for i, data in zip(self.moving, cotangents, strict=True)
        ]
        given = self._given(inputs, cotangents, number)
        idle = [_zeros(self.types[i]) for i in self.moving]
        if schedule.name == "zero_bubble":
            of_carry = loop._if(active, lambda: self._pull(given, False)[0], idle)
            slot = jnp.where(active, _entry(self.cotangents, number), self.table.cotangent_slots)
            waiting = [_put(room, ct, slot) for room, ct in zip(waiting, cotangents, strict=True)]
            later, last = apart != IDLE, jnp.maximum(apart, 0)
            stored = [_entry(room, _entry(self.cotangents, last)) for room in waiting]
            pending = self._given(inputs, stored, last)
            of_operands = self._add(later, pending, of_operands)
        elif loop.always:
            of_carry = loop._if(active, lambda: self._pull(given, False)[0], idle)
            of_operands = self._add(active, given, of_operands)
        else:

            def both() -> tuple[_Datas, _Datas]:
                of_carry, more = self._pull(given, None)
                return of_carry, _sum(of_operands, more)

            of_carry, of_operands = lax.cond(active, both, lambda: (idle, of_operands))
        slot = jnp.where(active & begins, microbatch, schedule.microbatches)
        of_begun = [_put(room, data, slot) for room, data in zip(of_begun, of_carry, strict=True)]
        sent, back = loop._send(after), loop._send(of_carry, back=True)
        return (sent, back, inputs, waiting, of_operands, of_begun), None

    def _add(self, active: jax.Array, given: _Given, totals: _Datas) -> _Datas:
        """Add the gradients of the operands for a work, if the stage has one."""
        if not self.loop.always:
            return lax.cond(
                active, lambda: _sum(totals, self._pull(given, True)[1]), lambda: totals
            )
        microbatch, turn, carry, cotangents = given
        # A gradient that is summed over the stages has no contribution of idle ones.
        cotangents = [
            None if each is None else jnp.where(active, each, jnp.zeros_like(each))
            for each in cotangents
        ]
        more = self._pull((microbatch, turn, carry, cotangents), True)[1]
        axes = set(self.loop.axes)
        return [
            total
            + (jnp.where(active, each, jnp.zeros_like(each)) if axes <= varying(each) else each)
            for total, each in zip(totals, more, strict=True)
        ]

    def _given(self, inputs: _Datas, cotangents: _Datas, number: jax.Array) -> _Given:
        """Return the microbatch and the round of a work, its input, and its cotangents."""
        microbatch, turn = self.schedule.work(number)
        slot = _entry(self.inputs, number)
        of_all: list[Any] = [None] * self.loop.carried
        for i, data in zip(self.moving, cotangents, strict=True):
            of_all[i] = data
        of_all += [
            _entry(data, number + self.stage) if is_inexact(kind) else None
            for data, kind in zip(self.of_results, self.types[self.loop.carried :], strict=True)
        ]
        return microbatch, turn, [_entry(room, slot) for room in inputs], of_all

    def _pull(self, given: _Given, weights: bool | None) -> tuple[_Datas, _Datas]:
        """Return the cotangents of the carry and of the operands.

        Args:
          given: the microbatch, the round, the carry, and the cotangents of the results.
          weights: which of the two; `None`: both.
        """
        microbatch, turn, carry, cotangents = given
        wanted = [i for i, cotangent in enumerate(cotangents) if cotangent is not None]

        def run(some: _Datas, moving: _Datas) -> _Datas:
            operands, datas = list(self.operands), list(carry)
            for i, data in zip(self.floats, some, strict=True):
                operands[i] = data
            for i, data in zip(self.moving, moving, strict=True):
                datas[i] = data
            results = self.loop.run(operands, microbatch, turn, *datas)
            return [results[i] for i in wanted]

        some = [self.operands[i] for i in self.floats]
        moving = [carry[i] for i in self.moving]
        of_results = [cotangents[i] for i in wanted]
        of_operands: _Datas = []
        of_carry: _Datas = []
        if weights is None:
            pull = jax.vjp(run, some, moving)[1]
        elif weights:
            pull = jax.vjp(lambda some: run(some, moving), some)[1]
        else:
            pull = jax.vjp(lambda moving: run(some, moving), moving)[1]
        with self.loop.within(microbatch):
            pulled = pull(of_results)
        if weights is None:
            of_operands, of_carry = pulled
        elif weights:
            (of_operands,) = pulled
        else:
            (of_carry,) = pulled
        return of_carry, of_operands


def _entry(data: jax.Array, index: jax.Array | int) -> jax.Array:
    return lax.dynamic_index_in_dim(data, index, 0, keepdims=False)


def _put(room: jax.Array, data: jax.Array, index: jax.Array) -> jax.Array:
    return lax.dynamic_update_index_in_dim(room, data.astype(room.dtype), index, 0)


def _room(like: jax.Array, count: int) -> jax.Array:
    """Return `count` slots, and one more for what is not used."""
    return lax.broadcast(like, (count + 1,))


def _zeros(kind: Any) -> jax.Array:
    axes = kind.manual_axis_type.varying
    if jnp.issubdtype(kind.dtype, jax.dtypes.extended):
        impl = jax.random.key_impl(kind)
        words = jax.eval_shape(lambda: jax.random.key_data(jax.random.key(0, impl=impl)))
        zeros = jnp.zeros((*kind.shape, *words.shape), words.dtype)
        return jax.random.wrap_key_data(cast_data(zeros, axes), impl=impl)
    return cast_data(jnp.zeros(kind.shape, kind.dtype), axes)


def _sum(totals: _Datas, more: _Datas) -> _Datas:
    return [total + each for total, each in zip(totals, more, strict=True)]
