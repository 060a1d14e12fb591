"""Two streams: a schedule of computation and communication that respects data dependencies.

A device computes in program order on one stream, and communicates in program order on the other.
A step starts when its stream is idle and the steps that it needs have ended. So a collective is
hidden by computation that does not need its result, and only by that.

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

from collections.abc import Sequence
from typing import NamedTuple

from namedax.insight.analysis.records import Collective, Step

__all__ = ["Cost", "Costs", "Timed", "two_streams"]


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


def two_streams(costs: Sequence[tuple[Step, Cost]]) -> tuple[float, list[Timed]]:
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
