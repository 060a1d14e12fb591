"""Automatic numbers of steps: layouts that do not fit, judged again with a `SerialLoop`."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping

from namedax.insight.planning.candidates import Candidate
from namedax.insight.planning.space import Choice, Space
from namedax.resources.serial import SerialLoop

__all__ = ["with_loop_steps"]

# The number of names that are tried, the steps of the first try, and the number of further tries.
_NAMES, _STEPS, _TRIES = 4, 4, 3


def with_loop_steps(
    space: Space,
    choice: Choice,
    before: Candidate,
    judge: Callable[[Choice], Candidate | None],
    memory: float,
    arguments: Mapping[Hashable, int],
) -> Candidate:
    """Execute a name of a layout in steps, with as few steps as fit into the memory.

    The name is the one that saves most memory with a few steps. The number of steps follows from
    two measured peaks: one part of the memory is constant, and the other is inversely proportional.

    Args:
      space: the space of the search.
      choice: the layout.
      before: its candidate.
      judge: judges a choice; `None` if the program does not allow it.
      memory: the memory limit.
      arguments: the bytes of the arguments that have each name; the smallest are tried first,
        because parameters are stored in any case.

    Returns:
      The best candidate: the fastest one that fits, or else the smallest one.
    """
    candidates = [before]
    best: tuple[Hashable, Candidate] | None = None
    names = sorted(space.names, key=lambda name: (arguments.get(name, 0), str(name)))
    tried = 0
    for name in names:
        if tried == _NAMES:
            break
        other = _with_steps(space, choice, name, _STEPS)
        if other is None:
            continue
        tried += 1
        one = judge(other)
        if one is not None and one.peak < min(before.peak, best[1].peak if best else math.inf):
            best = name, one
    if best is None:
        return before
    name, one = best
    candidates.append(one)
    known, steps = {1: before.peak, _STEPS: one.peak}, _STEPS
    for _ in range(_TRIES):
        steps = _next_steps(known, steps, memory)
        other = _with_steps(space, choice, name, steps)
        if steps in known or other is None:
            break
        found = judge(other)
        if found is None:
            break
        known[steps] = found.peak
        candidates.append(found)
    return min(candidates, key=lambda one: (not one.fits, one.time if one.fits else one.peak))


def _with_steps(space: Space, choice: Choice, name: Hashable, steps: int) -> Choice | None:
    """Return the layout with a name in steps, if that is possible."""
    if name in dict(choice.loops):
        return None
    loops = sorted([*choice.loops, (name, SerialLoop(steps))], key=lambda item: str(item[0]))
    other = space.canonical(choice.replace(loops=tuple(loops)))
    return other if space.allowed(other) else None


def _next_steps(known: Mapping[int, int], steps: int, memory: float) -> int:
    """Return the next number of steps to try, a power of two.

    It is the smallest one that is expected to fit, by a fit to two peaks. At most it is four times
    a number of steps that was tried.
    """
    few, many = (1, steps) if steps > 1 else (steps, 4)
    share = (known[few] - known[many]) / (1 / few - 1 / many)
    constant = known[few] - share / few
    if share <= 0 or constant >= memory:
        return steps * 4
    wanted = 2 ** math.ceil(math.log2(max(share / (memory - constant), 2)))
    if known[steps] > memory:
        wanted = max(wanted, steps * 2)
    return min(wanted, 4 * max(known))
