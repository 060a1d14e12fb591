"""Steps one after the other, or side by side where one runs on the network while the other computes.

A device computes one operation after the other, and a collective has to end before what comes after it, unless it is known to run beside
operations:

- **A ring** (collective matmul, `overlap=True` in `nx.einsum` and `nx.dot`; attention along a sharded axis): consecutive steps of one
  operation of the model, from one line, with more products than permutations. Each product uses the block that is there while the next one is
  sent, so `K` permutations that take `p` and `R` rounds of computation that take `c`, on average, take `(R - K) * c + K * max(c, p)`. What
  is sent after the last product has nothing to run beside.
- **A machine with `overlap=True`**: all collectives between consecutive operations that run equally often are taken to be hidden behind
  them, as far as there is enough to compute. Records do not say what waits for what, so this is the least that a step can take. Nothing
  runs beside what runs more or less often: a sum after a loop waits for the loop.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from namedax.analysis.records import Collective, Operation, Step

__all__ = ["Cost", "Timed", "Times", "is_small", "schedule"]

# Bytes, and operations. What computes so little is part of something else, which XLA makes of both.
_FEW = 64


def is_small(step: Step) -> bool:
    """Whether a step is an operation on a few numbers, such as an index."""
    return isinstance(step, Operation) and step.bytes <= _FEW and step.flops <= _FEW


class Cost(NamedTuple):
    """What one step takes, over all runs of the loops around it.

    Attributes:
      seconds: how long.
      bound: `"compute"`, `"memory"` or `"communication"`: what it waits for.
      assumption: what had to be assumed, in words, or nothing.
    """

    seconds: float
    bound: str
    assumption: str = ""


class Timed(NamedTuple):
    """A step in time: a bar of a timeline. Times are in seconds from the beginning.

    Attributes:
      step: the collective or operation.
      start: when it begins.
      end: when all of its runs have ended.
    """

    step: Step
    start: float
    end: float


@dataclasses.dataclass(frozen=True)
class Times:
    """How long a step of a program takes on one device, in seconds.

    Attributes:
      total: from beginning to end: `compute + memory + communication - hidden`.
      compute: in operations that wait for arithmetic.
      memory: in operations that wait for memory.
      communication: in collectives, hidden or not.
      hidden: of what runs at the same time, that which the total does not show.
      schedule: every step with its start and end, in the order of the program.
      assumptions: what the machine does not say and had to be assumed, in words, where it made more than a thousandth of the total.

    >>> print(Times(0.5, compute=0.25, memory=0.125, communication=0.25, hidden=0.125))
    500 ms: 250 ms computing, 125 ms moving memory, 250 ms communicating, 125 ms of them at the same time
    """

    total: float
    compute: float
    memory: float
    communication: float
    hidden: float
    schedule: tuple[Timed, ...] = dataclasses.field(default=(), repr=False)
    assumptions: tuple[str, ...] = ()

    def __str__(self) -> str:
        parts = (
            f"{_text(self.compute)} computing, {_text(self.memory)} moving memory, {_text(self.communication)} communicating"
        )
        at_once = f", {_text(self.hidden)} of them at the same time" if self.hidden else ""
        return "\n".join([f"{_text(self.total)}: {parts}{at_once}", *(f"assumed: {text}" for text in self.assumptions)])


def _text(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns" if seconds else "0 s"


def schedule(steps: Sequence[Step], cost: Callable[[Step], Cost], overlap: bool) -> Times:
    """Puts steps into time.

    Args:
      steps: in the order of the program.
      cost: what each takes.
      overlap: whether collectives are hidden behind operations as far as possible.
    """
    costs = [(step, cost(step)) for step in steps]
    now, timed = 0.0, list[Timed]()
    for group, length in _groups(costs, overlap):
        computed = sum(c.seconds for step, c in group if isinstance(step, Operation))
        sent = sum(c.seconds for step, c in group if isinstance(step, Collective))
        side_by_side = length < computed + sent
        computing, sending = (now + length - computed, now) if side_by_side else (now, now)
        for step, c in group:
            start = sending if side_by_side and isinstance(step, Collective) else computing
            timed.append(Timed(step, start, start + c.seconds))
            if side_by_side and isinstance(step, Collective):
                sending += c.seconds
            else:
                computing += c.seconds
        now += length
    by = {bound: sum(c.seconds for _, c in costs if c.bound == bound) for bound in ("compute", "memory", "communication")}
    hidden = sum(by.values()) - now
    hidden = 0.0 if hidden < 1e-9 * now else hidden  # what is only rounding
    return Times(now, **by, hidden=hidden, schedule=tuple(timed), assumptions=_that_matter(costs, now))


Costs = list[tuple[Step, Cost]]


def _that_matter(costs: Costs, total: float) -> tuple[str, ...]:
    by: dict[str, float] = {}
    for _, c in costs:
        by[c.assumption] = by.get(c.assumption, 0.0) + c.seconds
    return tuple(text for text, seconds in by.items() if text and seconds > total / 1000)


def _groups(costs: Costs, overlap: bool) -> Iterator[tuple[Costs, float]]:
    """Consecutive steps that belong together, with how long they take together."""
    if overlap:
        for _, same in itertools.groupby(costs, lambda pair: pair[0].trips):
            group = list(same)
            yield group, max(sum(c.seconds for step, c in group if isinstance(step, kind)) for kind in (Operation, Collective))
        return
    for group in _lines(costs):
        last = max((i for i, (step, _) in enumerate(group) if _is_product(step)), default=-1) + 1
        length = _ring_length(group[:last])
        if length is None:
            last = 0
        else:
            yield group[:last], length
        if group[last:]:
            yield group[last:], sum(c.seconds for _, c in group[last:])


def _lines(costs: Costs) -> Iterator[Costs]:
    """Consecutive steps of one line, in parts without a collective that all devices wait for, or one such collective."""
    keys: list[tuple[object, ...]] = []
    for step, _ in costs:
        blocks = isinstance(step, Collective) and step.kind != "collective-permute"
        key = (step.source, step.operation, step.phase, len(keys) if blocks else -1)
        keys.append(keys[-1] if keys and is_small(step) else key)  # an index may have been computed anywhere
    for _, same in itertools.groupby(zip(keys, costs, strict=True), lambda pair: pair[0]):
        yield [cost for _, cost in same]


def _is_product(step: Step) -> bool:
    return isinstance(step, Operation) and step.kind == "dot_general"


def _ring_length(group: Costs) -> float | None:
    """How long a ring takes, or `None` if the steps are not one."""
    runs = [key for key, _ in itertools.groupby((type(step), step.trips) for step, _ in group)]
    slots = sum(trips for kind, trips in runs if kind is Collective)  # what is sent together is sent in the same round
    products = sum(step.trips for step, _ in group if _is_product(step))
    if not slots or products <= slots:
        return None
    once = min(step.trips for step, _ in group if step.trips)  # how often the whole ring runs
    rounds = slots + once
    computed = sum(c.seconds for step, c in group if isinstance(step, Operation)) / rounds
    sent = sum(c.seconds for step, c in group if isinstance(step, Collective)) / slots
    return once * computed + slots * max(computed, sent)
