"""The search: which assignment is tried next, until none is expected to be better.

Every assignment that was judged teaches what a name on a mesh axis does to the time and to the peak of the memory: a linear model of
their logarithms, in how often names are cut, where, and beside which others. It only orders what is tried next; what counts is what the
judge says of each. Next is what the model expects to be the best among all that can be reached from the best ones known in a few
exchanges, in turn with the best-looking neighbour of the best one; so the end is an assignment of which no neighbour that looks
promising is better.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any

import numpy as np

from namedax.core.records import Record
from namedax.planning.space import Choice, Space

__all__ = ["Outcome", "search"]

# How much worse a choice counts for each factor by which it needs more memory than there is.
_OVER = 3.0
_WIDTH, _DEPTH = 6, 4
# It ends when so many in a row were no better, as a part of all.
_PATIENCE = 1 / 4


class Outcome(Record):
    """What the judge says of a choice: the seconds of a step, and the bytes that a device holds at its peak."""

    time: float
    peak: int


def search(
    space: Space, judge: Callable[[Choice], Outcome | None], memory: float, tries: int, first: Iterable[Choice] = ()
) -> dict[Choice, Outcome]:
    """Tries at most so many choices, and returns what was said of those that the judge did not refuse.

    Args:
      space: the choices.
      judge: what a choice costs; `None` where it cannot be. It lets the space learn why.
      memory: of a device, in bytes.
      tries: how many choices are judged at most; those that are refused count a quarter.
      first: choices to begin with.
    """
    found: dict[Choice, Outcome] = {}
    refused: set[Choice] = set()

    def left() -> bool:
        return len(found) + len(refused) / 4 < tries

    def attempt(choice: Choice) -> bool:
        choice = space.canonical(choice)
        if choice in found or choice in refused or not space.allowed(choice) or not left():
            return False
        outcome = judge(choice)
        if outcome is None:
            refused.add(choice)
        else:
            found[choice] = outcome
        return True

    for choice in itertools.chain(first, [space.empty], _openings(space)):
        attempt(choice)
    if not found:
        return found
    best, idle = math.inf, 0
    while left() and idle < max(8, _PATIENCE * tries):
        guess = _Guess(space, found, memory)
        ranked = sorted(found, key=lambda choice: guess.of_outcome(found[choice]))
        best, idle = (guess.best, 0) if guess.best < best else (best, idle)
        known = found.keys() | refused
        before = len(found)
        tried = [
            attempt(choice) for choice in (_far(space, guess, ranked, known), _near(space, guess, ranked, known)) if choice
        ]
        if not tried:
            break
        idle += len(found) - before
    return found


def _openings(space: Space) -> Iterator[Choice]:
    """Every name by itself, on the largest mesh axis."""
    largest = max(space.mesh.values(), default=1)
    for choice in space.alone():
        if any(role and n == largest for role, n in zip(choice.roles, space.mesh.values(), strict=True)):
            yield choice


def _near(space: Space, guess: _Guess, ranked: list[Choice], known: Any) -> Choice | None:
    """The neighbour of the best choice that is expected to be the best; of the next one where all are known."""
    for choice in ranked[:_WIDTH]:
        pool = [other for other in space.neighbours(choice) if other not in known]
        if pool:
            return pool[int(np.argmin(guess(pool)))]
    return None


def _far(space: Space, guess: _Guess, ranked: list[Choice], known: Any) -> Choice | None:
    """What is expected to be the best within a few exchanges of the best choices."""
    beam, seen = ranked[:_WIDTH], set(ranked[:_WIDTH])
    best: tuple[float, Choice | None] = (guess.best - 1e-3, None)
    for _ in range(_DEPTH):
        pool = list(dict.fromkeys(c for choice in beam for c in space.neighbours(choice) if c not in seen))
        if not pool:
            break
        seen.update(pool)
        scores = guess(pool)
        order = np.argsort(scores, kind="stable")
        for i in order:
            if pool[i] not in known:
                if scores[i] < best[0]:
                    best = (float(scores[i]), pool[i])
                break
        beam = [pool[i] for i in order[:_WIDTH]]
    return best[1]


class _Guess:
    """What a choice is expected to cost, from those that were judged: the logarithm of the time, more where memory is short.

    Ridge regression of the differences to the mean, in the features of `_features`.
    """

    def __init__(self, space: Space, found: dict[Choice, Outcome], memory: float):
        self._space, self._memory = space, memory
        self.best = min(map(self.of_outcome, found.values()))
        rows = np.stack([self._features(choice) for choice in found])
        targets = np.array([[math.log(max(o.time, 1e-12)), math.log(max(o.peak, 1))] for o in found.values()])
        # What was found to be good counts more: there the model must be right.
        score = np.array([self.of_outcome(o) for o in found.values()])
        weight = np.exp(-np.minimum(score - score.min(), 4.0) / 2)[:, None]
        self._mean = (weight * targets).sum(0) / weight.sum()
        gram = rows.T @ (weight * rows) + 0.02 * np.eye(rows.shape[1])
        self._slopes = np.linalg.solve(gram, rows.T @ (weight * (targets - self._mean)))

    def of_outcome(self, outcome: Outcome) -> float:
        """What counts: the smaller the better."""
        over = math.log(max(outcome.peak, 1) / self._memory)
        return math.log(max(outcome.time, 1e-12)) + _OVER * max(0.0, over)

    def __call__(self, choices: list[Choice]) -> np.ndarray:
        rows = np.stack([self._features(choice) for choice in choices])
        expected = rows @ self._slopes + self._mean
        return np.asarray(expected[:, 0] + _OVER * np.maximum(0.0, expected[:, 1] - math.log(self._memory)))

    def _features(self, choice: Choice) -> np.ndarray:
        space = self._space
        count = len(space.names)
        bits = np.array([[math.log2(n) * (name in role) for name in space.names] for role, n in _axes(space, choice)])
        bits = bits.reshape(-1, count)
        pairs = np.einsum("ai,aj->ij", bits, np.sign(bits))[np.triu_indices(count, 1)]
        steps = {name: loop.steps for name, loop in choice.loops}
        loops = [math.log2(steps.get(name, 1)) for name in space.names]
        overlap = [float(choice.overlap == other) for other in space.overlaps[1:]]
        return np.concatenate([[1.0], bits.sum(0), 0.5 * bits.ravel(), 0.5 * pairs, loops, overlap])


def _axes(space: Space, choice: Choice) -> Iterator[tuple[frozenset[Hashable], int]]:
    return zip(choice.roles, space.mesh.values(), strict=True)
