"""The loops of the schedules in which forward and backward passes of microbatches alternate.

`Loop` is a function of data with its own derivative (`jax.custom_vjp`). The forward pass stores
nothing but its operands. The backward pass is one loop over the ticks of a timetable: it computes
the forward pass of a microbatch again, stores the input of each stage until its backward pass, and
sends activations forward and cotangents backward in every tick.

A stage computes within `lax.cond`, so that an idle stage takes no time. This works for
communication in groups of devices, which have the same stage. A permutation concerns all devices:
a stage with one always computes, and its result is discarded.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.core import ShapedArray

from namedax.core.variance import cast_data, varying
from namedax.ops.loops.pipeline_timetable import IDLE, Schedule
from namedax.primitives.record import is_inexact
from namedax.resources import communication as comm

__all__ = ["Loop"]

Datas: TypeAlias = list[jax.Array]
#: The received carry and cotangents, the slots of inputs and of cotangents, and the gradients.
_State: TypeAlias = tuple[Datas, Datas, Datas, Datas, Datas, Datas]
#: The microbatch and the round of a work, its input, and the cotangents of its results.
_Given: TypeAlias = tuple[jax.Array, jax.Array | int, Datas, list[Any]]


class Loop:
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
        run: Callable[..., Datas],
        carried: int,
        always: bool,
        sums: bool,
        within: Callable[[jax.Array], contextlib.AbstractContextManager[None]],
    ):
        self.schedule, self.axes, self.run = schedule, axes, run
        self.carried, self.always, self.sums, self.within = carried, always or sums, sums, within

    def __call__(
        self, operands: Sequence[jax.Array], begun: Sequence[jax.Array]
    ) -> tuple[Datas, Datas]:
        """Return the last carries of all microbatches, and the results of all ticks.

        Args:
          operands: the operands of `run`. One that does not vary over the mesh axes of the stages
            has no gradient, except with `sums`.
          begun: the initial carries, `[microbatches, ...]`.
        """
        call = jax.custom_vjp(self._forward)
        call.defvjp(self._save, self._backward)
        return call(list(operands), list(begun))

    def _save(self, operands: Datas, begun: Datas) -> tuple[tuple[Datas, Datas], tuple[Any, Any]]:
        return self._forward(operands, begun), (operands, begun)

    # --- the forward pass -------------------------------------------------------------------------

    def _forward(self, operands: Datas, begun: Datas) -> tuple[Datas, Datas]:
        stage = comm.block_index(self.axes)
        works, count = self.schedule.works, self.carried
        types = self._types(operands, begun)

        def tick(state: tuple[Datas, Datas], t: jax.Array) -> tuple[tuple[Datas, Datas], Datas]:
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
        self, saved: tuple[Datas, Datas], cotangents: tuple[Datas, Datas]
    ) -> tuple[list[Any], list[Any]]:
        with jax.named_scope(self.schedule.scope_name):
            return _Backward(self, *saved, *cotangents).gradients()

    # --- shared by both ---------------------------------------------------------------------------

    def _types(self, operands: Datas, begun: Datas) -> list[ShapedArray]:
        index = comm.block_index(self.axes)
        microbatch, turn = self.schedule.work(index)

        def run(operands: Datas, datas: Datas) -> Datas:
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

    def _send(self, datas: Sequence[jax.Array], back: bool = False) -> Datas:
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
        self, loop: Loop, operands: Datas, begun: Datas, of_done: Datas, of_results: Datas
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

    def _tick(self, state: _State, row: Datas) -> tuple[_State, None]:
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

            def both() -> tuple[Datas, Datas]:
                of_carry, more = self._pull(given, None)
                return of_carry, _sum(of_operands, more)

            of_carry, of_operands = lax.cond(active, both, lambda: (idle, of_operands))
        slot = jnp.where(active & begins, microbatch, schedule.microbatches)
        of_begun = [_put(room, data, slot) for room, data in zip(of_begun, of_carry, strict=True)]
        sent, back = loop._send(after), loop._send(of_carry, back=True)
        return (sent, back, inputs, waiting, of_operands, of_begun), None

    def _add(self, active: jax.Array, given: _Given, totals: Datas) -> Datas:
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

    def _given(self, inputs: Datas, cotangents: Datas, number: jax.Array) -> _Given:
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

    def _pull(self, given: _Given, weights: bool | None) -> tuple[Datas, Datas]:
        """Return the cotangents of the carry and of the operands.

        Args:
          given: the microbatch, the round, the carry, and the cotangents of the results.
          weights: which of the two; `None`: both.
        """
        microbatch, turn, carry, cotangents = given
        wanted = [i for i, cotangent in enumerate(cotangents) if cotangent is not None]

        def run(some: Datas, moving: Datas) -> Datas:
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
        of_operands: Datas = []
        of_carry: Datas = []
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


def _sum(totals: Datas, more: Datas) -> Datas:
    return [total + each for total, each in zip(totals, more, strict=True)]
