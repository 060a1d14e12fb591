"""The timetable of a pipeline: the work of each stage in each tick, as static arrays.

In a tick a stage computes at most one forward pass, one backward pass and one weight gradient, in
this order. All stages then send: activations to the next stage, cotangents to the previous one. So
a tick takes as long as its busiest stage, and `Timetable.cells` counts this in columns.

Work `n` is one group of layers for one microbatch (`Work`). Stage `s` computes the forward pass of
work `n` in tick `n + s`, one tick after the previous stage, or after the last stage for the next
round. The backward pass of a microbatch begins in the tick in which its forward pass ends. This
bounds the number of works between the two passes, by about two rounds of the stages.
"""

from __future__ import annotations

import functools
import heapq
from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from namedax.core.records import Record

__all__ = ["IDLE", "SCHEDULES", "Schedule", "Timetable", "timetable"]


Number = TypeVar("Number", jax.Array, int)

SCHEDULES = ("gpipe", "1f1b", "interleaved", "zero_bubble")
#: The kinds of work in a cell: forward pass, backward pass, gradient of the weights.
KINDS = ("F", "B", "W")
IDLE = -1


class Timetable(Record):
    """The works of the stages, `[ticks, stages]`; -1 where a stage is idle.

    Attributes:
      forward: the works of the forward pass.
      backward: the works of the backward pass.
      weights: the works whose weight gradient is computed apart, in `zero_bubble`.
      inputs: the slot in which a stage stores its input of a work, `[works, stages]`.
      cotangents: the slot for the cotangent of a work until its weight gradient.
    """

    forward: np.ndarray
    backward: np.ndarray
    weights: np.ndarray
    inputs: np.ndarray
    cotangents: np.ndarray

    @property
    def ticks(self) -> int:
        """Return the number of ticks."""
        return len(self.forward)

    @property
    def input_slots(self) -> int:
        """Return the number of inputs that a stage stores at a time."""
        return int(self.inputs.max()) + 1

    @property
    def cotangent_slots(self) -> int:
        """Return the number of cotangents that a stage stores at a time."""
        return int(self.cotangents.max()) + 1

    @functools.cached_property
    def cells(self) -> list[list[tuple[str, int] | None]]:
        """Return one row for each stage: pairs of a kind and a work, and `None` if it is idle."""
        rows: list[list[tuple[str, int] | None]] = [[] for _ in range(self.forward.shape[1])]
        for numbers in zip(self.forward, self.backward, self.weights, strict=True):
            of_stages = [
                [(kind, int(n)) for kind, n in zip(KINDS, of_stage, strict=True) if n != IDLE]
                for of_stage in zip(*numbers, strict=True)
            ]
            width = max(map(len, of_stages))
            for row, works in zip(rows, of_stages, strict=True):
                row.extend([*works, *[None] * (width - len(works))])
        return rows

    @property
    def columns(self) -> int:
        """Return the number of columns of `cells`."""
        return len(self.cells[0])

    @property
    def idle(self) -> int:
        """Return the number of columns in which a stage is idle; it is the same for all stages."""
        return self.cells[0].count(None)

    @property
    def bubble(self) -> float:
        """Return the fraction of columns in which a stage is idle."""
        return self.idle / self.columns


class Schedule(Record):
    """The schedule of `stages` devices, `rounds` groups of layers on each, and `microbatches`.

    Attributes:
      stages: the number of devices.
      rounds: the number of groups of layers on each.
      microbatches: the number of microbatches.
      name: one of `SCHEDULES`; default: `"gpipe"`.
    """

    stages: int
    rounds: int
    microbatches: int
    name: str = "gpipe"

    @property
    def works(self) -> int:
        """Return the number of ticks in which a stage works."""
        return self.microbatches * self.rounds

    @property
    def ticks(self) -> int:
        """Return the number of ticks; in `stages - 1` of them a stage is idle."""
        return self.works + self.stages - 1

    @property
    def table(self) -> Timetable:
        """Return the timetable of forward and backward passes."""
        return timetable(self.name, self.stages, self.rounds, self.microbatches)

    @property
    def scope_name(self) -> str:
        """Return the scope name of the ticks, for profiles and for `nx.explain`."""
        return (
            f"pipeline_{self.name}_of_{self.stages}_stages_{self.rounds}_rounds"
            f"_{self.microbatches}_microbatches"
        )

    def work(self, number: Number) -> tuple[Number, Number | int]:
        """Return the microbatch and the round of a stage's work `number`.

        With several rounds, `stages` microbatches pass through all rounds before the next ones
        begin. The first stage immediately continues with the output of the last one, so that no
        stage must store anything.
        """
        if self.rounds == 1:
            return number, 0
        begun, rest = number // (self.stages * self.rounds), number % (self.stages * self.rounds)
        return begun * self.stages + rest % self.stages, rest // self.stages

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """Return the pairs (sender, receiver) of stages."""
        count = self.stages if self.rounds > 1 else self.stages - 1
        return [(stage, (stage + 1) % self.stages) for stage in range(count)]

    def in_order(self, data: jax.Array) -> jax.Array:
        """Reshape the results of a stage's works to `[rounds, microbatches, ...]`."""
        if self.rounds == 1:
            return data[None]
        data = data.reshape((-1, self.rounds, self.stages, *data.shape[1:]))
        return jnp.moveaxis(data, 1, 0).reshape((self.rounds, self.microbatches, *data.shape[3:]))


@functools.lru_cache(maxsize=256)
def timetable(schedule: str, stages: int, rounds: int, microbatches: int) -> Timetable:
    """Return the timetable of a schedule."""
    works = rounds * microbatches
    numbers, stage = np.arange(works)[:, None], np.arange(stages)[None]
    forward = numbers + stage
    if schedule == "gpipe":
        backward = 2 * (works + stages - 1) - 1 - forward
    else:
        begun, rest = divmod(numbers, stages * rounds)
        # The rounds are reversed: the last one is the first of the backward pass.
        turn, within = divmod(rest, stages)
        turned = begun * stages * rounds + (rounds - 1 - turn) * stages + within
        order = turned if rounds > 1 else numbers
        backward = stages * rounds - 1 + order + stages - 1 - stage
    apart = _weights(forward, backward) if schedule == "zero_bubble" else None
    ends = backward if apart is None else apart
    ticks = int(max(forward.max(), ends.max())) + 1
    none = np.full((ticks, stages), IDLE)
    return Timetable(
        _table(forward, ticks),
        _table(backward, ticks),
        none if apart is None else _table(apart, ticks),
        _slots(forward, ends),
        np.full_like(forward, IDLE) if apart is None else _slots(backward, apart),
    )


def _table(when: np.ndarray, ticks: int) -> np.ndarray:
    """Convert the tick of each work and stage to the work of each tick and stage."""
    table = np.full((ticks, when.shape[1]), IDLE)
    for stage in range(when.shape[1]):
        table[when[:, stage], stage] = np.arange(len(when))
    return table


def _weights(forward: np.ndarray, backward: np.ndarray) -> np.ndarray:
    """Return the tick of each weight gradient: where the stage is idle otherwise, or all work."""
    when, stages = np.full_like(forward, IDLE), forward.shape[1]
    order = [list(np.argsort(backward[:, stage], kind="stable")) for stage in range(stages)]
    tick = 0
    while any(order):
        busy = (forward == tick).sum(0) + (backward == tick).sum(0)
        ready = [
            bool(order[stage]) and backward[order[stage][0], stage] <= tick
            for stage in range(stages)
        ]
        # If all stages are fully busy, one more column costs nothing, and bounds the memory.
        is_column = busy.min() == busy.max() != 1
        for stage in range(stages):
            if ready[stage] and (is_column or busy[stage] < busy.max()):
                when[order[stage].pop(0), stage] = tick
        tick += 1
    return when


def _slots(begins: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Return a slot for each work and stage, so that works with one slot do not overlap."""
    slots = np.zeros_like(begins)
    for stage in range(begins.shape[1]):
        free: list[int] = []
        held: list[tuple[int, int]] = []
        count = 0
        for work in np.argsort(begins[:, stage], kind="stable"):
            while held and held[0][0] < begins[work, stage]:
                heapq.heappush(free, heapq.heappop(held)[1])
            if not free:
                heapq.heappush(free, count)
                count += 1
            slots[work, stage] = heapq.heappop(free)
            heapq.heappush(held, (int(ends[work, stage]), int(slots[work, stage])))
    return slots
