"""Schedules of steps: one after the other, or with communication during computation.

A device executes one operation after the other. A collective has to end before the next operation,
unless it is known to overlap with operations:

- **A ring** (collective matmul, `overlap=True` in `nx.einsum` and `nx.dot`; attention along a
  sharded axis): consecutive steps of one operation of the model, from one line, with more products
  than permutations. Each product uses the current block while the next one is sent. With `K`
  permutations of `p` seconds and `R` rounds of `c` seconds of computation, on average, the ring
  takes `(R - K) * c + K * max(c, p)`. Communication after the last product does not overlap.
- **A loop with collectives that none of its computation waits for**, such as gathers of the next
  step (`prefetch=1` in `nx.fold` and `nx.scan`) and reductions of the gradient of the step before.
  They overlap with the computation of the loop's body. The other collectives of the loop do not.
- **A machine with `overlap=True`**: two streams, see below. If the steps take less time by the
  rules above, these count: the blocks of a ring may overlap better than in program order.

**Two streams.** A device computes in program order on one stream, and communicates in program order
on the other. A step starts when its stream is idle and the steps that it needs have ended. So a
collective is hidden by computation that does not need its result, and only by that.

**Loops.** The steps of one iteration are scheduled in the same way. A collective is free if its
operands do not depend on the carry, such as a gather of weights, or if its iteration does not need
its result, such as a reduction of their gradient. Free collectives run during another iteration:
they are prefetched, or they end later. With `F` seconds of free collectives, `R` seconds of the
other collectives, `C` seconds of computation and `M` seconds for an iteration without the free
collectives, `n` iterations take `F + (n - 1) max(M, F + R, C) + M`: the first gathers, or the last
reductions, are not hidden. Collectives that the program itself prefetches (`prefetch=1`) are hidden
in every iteration: with `A` seconds of them, `n` iterations take `(F - A) + (n - 1) max(M, F + R,
C) + max(M, A + R, C)`. A loop with collectives occupies both streams until it ends, one without
collectives only that of computation.

**Bounds.** The total is at least the time of each stream, and at most the sum of both. It ignores
that prefetched arrays need memory, and that a collective slows computation down which uses the same
memory or cores.
"""

from __future__ import annotations

import dataclasses
import html
import itertools
import os
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from namedax.core.text_tables import seconds_text
from namedax.errors import ArgumentError
from namedax.insight.analysis.records import Collective, Operation, Step
from namedax.machines.trace_events import predicted_tracks, write

__all__ = ["Cost", "Timed", "Times", "is_small", "schedule"]

# Bytes, and operations. A smaller operation is assumed to be fused with another one by XLA.
_FEW = 64


class Cost(NamedTuple):
    """The cost of one step, over all runs in its surrounding loops.

    Attributes:
      seconds: the time.
      bound: the bottleneck: `"compute"`, `"memory"` or `"communication"`.
      assumption: the assumption behind the time, as text; empty if there is none.
    """

    seconds: float
    bound: str
    assumption: str = ""


class Timed(NamedTuple):
    """A step in a schedule, drawn as a bar of a timeline. Times are in seconds from the beginning.

    Attributes:
      step: the collective or operation.
      start: the start of the first run.
      end: the end of the last run.
    """

    step: Step
    start: float
    end: float


Costs = list[tuple[Step, Cost]]


def is_small(step: Step) -> bool:
    """Return True if a step is an operation on a few numbers, such as an index."""
    return isinstance(step, Operation) and step.bytes <= _FEW and step.flops <= _FEW


@dataclasses.dataclass(frozen=True)
class Times:
    """The estimated times of a step of a program on one device, in seconds.

    Attributes:
      total: the total time: `compute + memory + communication - hidden`.
      compute: the time of operations limited by arithmetic.
      memory: the time of operations limited by memory bandwidth.
      communication: the time of collectives, hidden or not.
      hidden: the overlapping time, which is not in the total.
      schedule: every step with its start and end, in program order.
      assumptions: assumptions about figures that the machine lacks, as text, if they contribute
        more than a thousandth of the total.

    >>> import namedax as nx
    >>> print(nx.machines.Times(0.5, compute=0.25, memory=0.125, communication=0.25, hidden=0.125))
    500 ms: 250 ms computing, 125 ms moving memory, 250 ms communicating, 125 ms of them at ...
    """

    total: float
    compute: float
    memory: float
    communication: float
    hidden: float
    schedule: tuple[Timed, ...] = dataclasses.field(default=(), repr=False)
    assumptions: tuple[str, ...] = ()

    def to_perfetto(self, path: str | os.PathLike[str], devices: int = 1) -> None:
        """Write the schedule as a trace that ui.perfetto.dev and `chrome://tracing` open.

        Each device has a track for computation and one for communication, with a slice for each
        step. A slice has the name of the operation; its details are the line, the phase, and the
        bytes and operations of one run. A step in a loop is one slice over all its runs.

        Args:
          path: the file to write, such as `"step.json"`.
          devices: the number of devices to show, all with the same tracks. Default: 1.

        Raises:
          ArgumentError: `devices` is not a positive integer.

        >>> import json, pathlib, tempfile, namedax as nx
        >>> from namedax.machines.schedule import Timed
        >>> from namedax.insight.analysis.records import Operation
        >>> product = Operation(
        ...     "dot_general", ("k",), 1e9, 1000, 1, "float32", "nx.dot", "model.py:3", "forward"
        ... )
        >>> times = nx.machines.Times(2e-3, 2e-3, 0.0, 0.0, 0.0, (Timed(product, 0.0, 2e-3),))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder, "step.json")
        ...     times.to_perfetto(path)
        ...     events = json.loads(path.read_text())["traceEvents"]
        >>> [(event["name"], event["dur"]) for event in events if event["ph"] == "X"]
        [('nx.dot{k}', 2000.0)]
        """
        if not isinstance(devices, int) or isinstance(devices, bool) or devices < 1:
            raise ArgumentError(
                f"Times.to_perfetto: devices={devices!r} must be a positive integer, such as 1."
            )
        write(path, predicted_tracks(self.schedule, devices))

    def __str__(self) -> str:
        parts = (
            f"{seconds_text(self.compute)} computing, {seconds_text(self.memory)} moving memory,"
            f" {seconds_text(self.communication)} communicating"
        )
        at_once = f", {seconds_text(self.hidden)} of them at the same time" if self.hidden else ""
        return "\n".join(
            [
                f"{seconds_text(self.total)}: {parts}{at_once}",
                *(f"assumed: {text}" for text in self.assumptions),
            ]
        )

    def _repr_html_(self) -> str:
        rows = {
            "computing": self.compute,
            "moving memory": self.memory,
            "communicating": self.communication,
            "at the same time": -self.hidden,
            "total": self.total,
        }
        cells = "".join(
            f'<tr><td style="text-align: left">{name}</td><td>{seconds_text(seconds)}</td>'
            f"<td>{100 * seconds / self.total if self.total else 0:.0f} %</td></tr>"
            for name, seconds in rows.items()
            if seconds or name == "total"
        )
        assumed = "".join(f"<li>assumed: {html.escape(text)}</li>" for text in self.assumptions)
        return f"<table>{cells}</table>" + (f"<ul>{assumed}</ul>" if assumed else "")


def schedule(steps: Sequence[Step], cost: Callable[[Step], Cost], overlap: bool) -> Times:
    """Schedule steps in time.

    Args:
      steps: the steps in program order.
      cost: returns the cost of a step.
      overlap: whether collectives overlap with the operations that do not need their results.
    """
    costs = [(step, cost(step)) for step in steps]
    now, timed = _one_stream(costs)
    if overlap and (both := _two_streams(costs))[0] < now:
        now, timed = both
    by = {
        bound: sum(c.seconds for _, c in costs if c.bound == bound)
        for bound in ("compute", "memory", "communication")
    }
    hidden = sum(by.values()) - now
    if hidden < 1e-9 * now:  # rounding only
        now, hidden = sum(by.values()), 0.0
    return Times(
        now, **by, hidden=hidden, schedule=tuple(timed), assumptions=_that_matter(costs, now)
    )


def _one_stream(costs: Costs) -> tuple[float, list[Timed]]:
    """Return the total time and the schedule if only rings and prefetched collectives overlap."""
    now, timed = 0.0, list[Timed]()
    for group, length in _groups(costs):
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
    return now, timed


def _that_matter(costs: Costs, total: float) -> tuple[str, ...]:
    by: dict[str, float] = {}
    for _, c in costs:
        by[c.assumption] = by.get(c.assumption, 0.0) + c.seconds
    return tuple(text for text, seconds in by.items() if text and seconds > total / 1000)


def _groups(costs: Costs) -> Iterator[tuple[Costs, float]]:
    """Yield groups of consecutive steps, with the time of each group."""
    for loop, same in itertools.groupby(costs, lambda pair: pair[0].loop):
        if loop:
            group = list(same)
            yield group, _loop_length(group)
        else:
            yield from _rings(list(same))


def _loop_length(group: Costs) -> float:
    """Return the time of a loop some of whose collectives overlap with its computation."""
    ahead = sum(c.seconds for step, c in group if isinstance(step, Collective) and step.is_ahead)
    others = [
        (step, c) for step, c in group if not (isinstance(step, Collective) and step.is_ahead)
    ]
    computed = sum(c.seconds for step, c in others if isinstance(step, Operation))
    return sum(length for _, length in _rings(others)) + max(0.0, ahead - computed)


def _rings(costs: Costs) -> Iterator[tuple[Costs, float]]:
    """Yield groups of consecutive steps, with the time of each group; rings overlap."""
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
    """Yield consecutive steps of one line, split at collectives that all devices wait for."""
    keys: list[tuple[object, ...]] = []
    for step, _ in costs:
        blocks = isinstance(step, Collective) and step.kind != "collective-permute"
        key = (step.source, step.operation, step.phase, len(keys) if blocks else -1)
        keys.append(
            keys[-1] if keys and is_small(step) else key
        )  # an index may have been computed anywhere
    for _, same in itertools.groupby(zip(keys, costs, strict=True), lambda pair: pair[0]):
        yield [cost for _, cost in same]


def _is_product(step: Step) -> bool:
    return isinstance(step, Operation) and step.kind == "dot_general"


def _ring_length(group: Costs) -> float | None:
    """Return the time of a ring, or `None` if the steps are not a ring."""
    runs = [key for key, _ in itertools.groupby((type(step), step.trips) for step, _ in group)]
    slots = sum(
        trips for kind, trips in runs if kind is Collective
    )  # consecutive collectives share a round
    products = sum(step.trips for step, _ in group if _is_product(step))
    if not slots or products <= slots:
        return None
    once = min(
        step.trips for step, _ in group if step.trips
    )  # the number of runs of the whole ring
    rounds = slots + once
    computed = sum(c.seconds for step, c in group if isinstance(step, Operation)) / rounds
    sent = sum(c.seconds for step, c in group if isinstance(step, Collective)) / slots
    return once * computed + slots * max(computed, sent)


# --- two streams ----------------------------------------------------------------------------------


def _two_streams(costs: Sequence[tuple[Step, Cost]]) -> tuple[float, list[Timed]]:
    """Return the total time, and the steps with their starts and ends, in program order."""
    timed: list[Timed] = []
    total = _schedule(costs, 0, 1, 0.0, timed, {})
    return total, timed


def _schedule(
    costs: Sequence[tuple[Step, Cost]],
    depth: int,
    runs: int,
    begin: float,
    timed: list[Timed],
    ends: dict[int, float],
) -> float:
    """Schedule steps, and return when they end.

    Args:
      costs: the steps, with the costs of all their runs.
      depth: the number of the loops around all of them.
      runs: the number of runs, in which the times are divided.
      begin: when they start.
      timed: collects the steps with their times.
      ends: collects the end of each step, by its number.
    """
    computing = sending = begin
    for block in _blocks(costs, depth):
        step, cost = block[0]
        if _loop_of(step, depth) is None:
            is_sent = isinstance(step, Collective)
            needed = max((ends.get(number, begin) for number in step.needs), default=begin)
            start = max(sending if is_sent else computing, needed)
            end = start + cost.seconds / runs
            ends[step.number] = end
            timed.append(Timed(step, start, end))
            if is_sent:
                sending = end
            else:
                computing = end
            continue
        inside = {step.number for step, _ in block}
        outside = {number for step, _ in block for number in step.needs} - inside
        start = max(computing, max((ends.get(number, begin) for number in outside), default=begin))
        has_collectives = any(isinstance(step, Collective) for step, _ in block)
        # A loop that is not part of a program may need any step before it.
        if has_collectives or not step.number:
            start = max(start, sending)
        end = start + _seconds_of_loop(block, depth, runs)
        timed += _bars(block, start, runs)
        for number in inside:
            ends[number] = end
        computing = end
        if has_collectives or not step.number:
            sending = end
    return max(computing, sending)


def _loop_of(step: Step, depth: int) -> tuple[int, int] | None:
    """Return the loop around a step at a depth: its number and its iterations.

    A step that is not part of a program is in a loop if it runs several times.
    """
    if depth < len(step.loops):
        return step.loops[depth]
    return (0, step.trips) if not step.loops and depth == 0 and step.trips > 1 else None


def _blocks(costs: Sequence[tuple[Step, Cost]], depth: int) -> list[Costs]:
    """Split steps into single ones, and the consecutive steps of each loop."""
    blocks: list[Costs] = []
    last: tuple[int, int] | None = None
    for step, cost in costs:
        loop = _loop_of(step, depth)
        if loop is None or loop != last:
            blocks.append([])
        blocks[-1].append((step, cost))
        last = loop
    return blocks


def _seconds_of_loop(block: Costs, depth: int, runs: int) -> float:
    """Return the time of all iterations of a loop, in one of `runs` runs of the loop."""
    loop = _loop_of(block[0][0], depth)
    assert loop is not None
    iterations = max(1, loop[1])
    within = runs * iterations
    free = [_is_free(step, depth) for step, _ in block]
    others = [pair for pair, is_free in zip(block, free, strict=True) if not is_free]
    # A step outside of a program has no loops of its own, so it is one step of the iteration.
    alone = _schedule(others, depth + 1, within, 0.0, [], {})
    sent = sum(c.seconds for step, c in block if isinstance(step, Collective)) / within
    computed = sum(c.seconds for step, c in block if not isinstance(step, Collective)) / within
    # Those that the program itself prefetches start before the loop.
    first = sum(
        c.seconds
        for (step, c), is_free in zip(block, free, strict=True)
        if is_free and not (isinstance(step, Collective) and step.is_ahead)
    )
    first /= within
    return (
        first + (iterations - 1) * max(alone, sent, computed) + max(alone, sent - first, computed)
    )


def _is_free(step: Step, depth: int) -> bool:
    return isinstance(step, Collective) and step.is_free and len(step.loops) == depth + 1


def _bars(block: Costs, start: float, runs: int) -> list[Timed]:
    """Return the steps of a loop, drawn one after the other on each stream."""
    timed: list[Timed] = []
    computing = sending = start
    for step, cost in block:
        if isinstance(step, Collective):
            timed.append(Timed(step, sending, sending + cost.seconds / runs))
            sending = timed[-1].end
        else:
            timed.append(Timed(step, computing, computing + cost.seconds / runs))
            computing = timed[-1].end
    return timed
