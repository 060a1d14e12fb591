"""The search: choose the next layout to try, until none is expected to be better.

The search begins on one shape of the mesh, with each name alone. It then finds the data parallelism
(the most useful name, on as many mesh axes as help), and tries every other name combined with it.
Every judged layout updates a model of the effect of a name on a mesh axis. The model covers the
time of each part of the program (the computation and communication of one line) and the memory. It
is linear in the logarithms, with features for how far names are partitioned, on which mesh axes,
and together with which other names. Good layouts have more weight than bad ones. The model only
orders the candidates; the judge decides.

The next candidates are, in rotation:

- the layout that the model expects to be the best among those reachable from the best known ones:
  by a few exchanges, by refilling a mesh axis, or with the names that another layout has there;
- a mesh axis with as many compatible names as possible around one name, once for each name;
- a layout that may be the best although the model is uncertain about it.

If these have not helped for a while, all layouts that differ from the best in one place are tried,
for any expected cost. At last, if only a few layouts of the space have a lower bound below the best
time (see `bound`), they are tried too.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Mapping

import numpy as np

from namedax.core.records import Record
from namedax.insight.planning.space import Choice, Space

__all__ = ["Found", "Outcome", "search"]

# The penalty of a choice for each factor by which it exceeds the memory.
_OVER = 3.0
# The same penalty if the excess is only expected.
_EXPECTED_OVER = 1.0
_WIDTH, _DEPTH = 6, 3
# The maximum factor by which a part may be expected to exceed all observed values, as a logarithm.
_BEYOND = math.log(4.0)
# A choice that is worse than the best by this, as a logarithm, has half the weight in the model.
_NEAR = 0.2
# The bonus of an uncertain choice over its expected cost, as a logarithm.
_CURIOUS = 0.3
# The ridge parameter of the regression.
_RIDGE = 0.02
# Negligible values: as a fraction of all computation, and in seconds.
_LEAST, _TINY = 1e-4, 1e-12
# The search ends after this fraction of all tries without an improvement.
_PATIENCE = 1 / 4
# At the end, at least this many choices that may be better are tried, if there are no others.
_OPEN = 8


class Outcome(Record):
    """The judge's result for a choice.

    Attributes:
      time: the seconds of a step.
      peak: the peak memory of a device, in bytes.
      arguments: the bytes of the arguments in it.
      computed: the seconds of computation of each part of the program.
      sent: the seconds of communication of each part of the program.
    """

    time: float
    peak: int
    arguments: int
    computed: Mapping[Hashable, float]
    sent: Mapping[Hashable, float]


class Found(Record):
    """The result of a search.

    Attributes:
      outcomes: the outcomes of the choices that the judge did not reject.
      rejected: the choices that it rejected.
      reached: True if the search ended because it had tried the maximum number of choices.
    """

    outcomes: dict[Choice, Outcome]
    rejected: set[Choice]
    reached: bool


def search(
    space: Space,
    judge: Callable[[Choice], Outcome | None],
    memory: float,
    tries: int,
    first: Iterable[Choice] = (),
    left_open: Callable[[Container[Choice], float, int], list[Choice]] | None = None,
    most_open: int | None = None,
) -> Found:
    """Try at most `tries` choices.

    Args:
      space: the choices.
      judge: returns the outcome of a choice, or `None` if it is impossible. It also updates the
        space with the reason.
      memory: the memory of a device, in bytes.
      tries: the maximum number of judged choices; a rejected one counts a quarter.
      first: initial choices; default: none.
      left_open: takes the known choices, a time and a number. It returns all other choices that may
        take less time, or none if there are more than this number. If the search ends early, they
        are tried too, so that its result is exact. Default: none.
      most_open: this number; default: a quarter of `tries`, and at least 8.

    Returns:
      The outcomes of the choices that the judge did not reject, and whether the limit was reached.
    """
    found: dict[Choice, Outcome] = {}
    rejected: set[Choice] = set()

    def left() -> bool:
        return len(found) + len(rejected) / 4 < tries

    def attempt(choice: Choice) -> bool:
        choice = space.canonical(choice)
        if choice in found or choice in rejected or not space.allowed(choice) or not left():
            return False
        outcome = judge(choice)
        if outcome is None:
            rejected.add(choice)
        else:
            found[choice] = outcome
        return True

    for choice in itertools.chain(first, [space.empty], space.single_names()):
        attempt(choice)
    if not found:
        return Found(found, rejected, not left())
    base = _data_parallel(space, attempt, found)
    for choice in list(space.beside(base)):
        attempt(choice)
    best, idle = math.inf, 0
    around: dict[tuple[Hashable, int], Choice] = {}
    rows: dict[Choice, np.ndarray] = {}
    while left():
        guess = _Guess(space, found, memory, rows)
        ranked = sorted(found, key=lambda choice: guess.of_outcome(found[choice]))
        best, idle = (guess.best, 0) if guess.best < best else (best, idle)
        known = found.keys() | rejected
        around = {key: choice for key, choice in around.items() if choice in found}
        before = len(found)
        tired = idle >= max(8, _PATIENCE * tries) and found[ranked[0]].peak <= memory
        proposals = (
            _far(space, guess, ranked, known) if not tired else None,
            _anew(space, guess, ranked[0], known, around) if not tired else None,
            _unlike(space, guess, ranked, known) if not tired else None,
        )
        tried = [attempt(choice) for choice in proposals if choice]
        if not tried:
            # Before the search ends, the best choice is compared with all choices that differ from
            # it in one place, for any expected cost. If the memory rules out faster ones, the best
            # few choices are compared in this way.
            short = any(found[other].time < found[ranked[0]].time for other in ranked)
            last = _anew(space, guess, ranked[0], known, around) or _next_to(
                space, guess, ranked[: 3 if short else 1], known
            )
            if last is None:
                break
            attempt(last)
        idle += len(found) - before
    reached = not left()
    while left_open is not None and left():
        best = min((one.time for one in found.values() if one.peak <= memory), default=math.inf)
        most = min(max(_OPEN, tries // 4) if most_open is None else most_open, tries - len(found))
        tried = [attempt(choice) for choice in left_open(found.keys() | rejected, best, most)]
        if not any(tried):
            break
    if space.has_shapes:
        _simplify(space, judge, found, memory)
    return Found(found, rejected, reached)


def _simplify(
    space: Space,
    judge: Callable[[Choice], Outcome | None],
    found: dict[Choice, Outcome],
    memory: float,
) -> None:
    """Merge mesh axes of the best choice with the same names while the cost does not increase."""

    def worth(choice: Choice) -> tuple[bool, float]:
        outcome = found[choice]
        return outcome.peak > memory, outcome.time

    best = min(found, key=worth)
    for _ in best.sizes:
        for other in space.joining(best):
            outcome = found.get(other) or judge(other)
            if outcome is not None:
                found[other] = outcome
                if worth(other) <= worth(best):
                    best = other
                    break
        else:
            return


def _data_parallel(
    space: Space, attempt: Callable[[Choice], bool], found: Mapping[Choice, Outcome]
) -> Choice:
    """Return the choice with the most useful single name, on as many mesh axes as help."""
    single = [choice for choice in found if sum(map(len, choice.roles)) == 1 and not choice.loops]
    if not single:
        return space.empty
    base = min(single, key=lambda choice: found[choice].time)
    (name,) = frozenset[Hashable]().union(*base.roles)
    for i in sorted(range(len(base.sizes)), key=lambda i: -base.sizes[i]):
        more = space.canonical(
            base.replace(roles=tuple(r | {name} if j == i else r for j, r in enumerate(base.roles)))
        )
        attempt(more)
        if more in found and found[more].time < found[base].time:
            base = more
    return base


def _unlike(
    space: Space, guess: _Guess, ranked: list[Choice], known: Container[Choice]
) -> Choice | None:
    """Return the choice near the best with the lowest optimistic cost: uncertainty lowers it."""
    pool = [
        other
        for choice in ranked[:_WIDTH]
        for other in _around(space, choice, ranked)
        if other not in known
    ]
    if not pool:
        return None
    pool = list(dict.fromkeys(pool))
    return pool[int(np.argmin(guess(pool) - _CURIOUS * guess.doubt(pool)))]


def _around(space: Space, choice: Choice, ranked: list[Choice]) -> Iterator[Choice]:
    """Yield neighbors, and choices with the names of another choice on one mesh axis."""
    yield from space.neighbours(choice)
    yield from space.crossed(
        choice, dict.fromkeys(role for other in ranked for role in other.roles)
    )


def _next_to(
    space: Space, guess: _Guess, best: list[Choice], known: Container[Choice]
) -> Choice | None:
    """Return the choice with the lowest expected cost among neighbors of these.

    A neighbor differs in one name on one mesh axis.
    """
    pool = [other for choice in best for other in space.edited(choice) if other not in known]
    return pool[int(np.argmin(guess(pool)))] if pool else None


def _far(
    space: Space, guess: _Guess, ranked: list[Choice], known: Container[Choice]
) -> Choice | None:
    """Return the best expected choice within a few exchanges of the best choices.

    It may also have one mesh axis filled again from empty.
    """
    beam, seen = ranked[:_WIDTH], set(ranked[:_WIDTH])
    best: tuple[float, Choice | None] = (guess.best - 1e-3, None)

    def offer(pool: list[Choice], scores: np.ndarray) -> None:
        nonlocal best
        for i in np.argsort(scores, kind="stable"):
            if pool[i] not in known:
                if scores[i] < best[0]:
                    best = (float(scores[i]), pool[i])
                return

    for depth in range(_DEPTH):
        pool = list(
            dict.fromkeys(c for choice in beam for c in space.neighbours(choice) if c not in seen)
        )
        if depth == 0:
            others = dict.fromkeys(
                _filled(space, guess, (start, i)) for start, i, _ in space.rebuilt(ranked[0])
            )
            others.update(
                dict.fromkeys(c for choice in beam for c in _around(space, choice, ranked))
            )
            pool = list(dict.fromkeys([*pool, *(c for c in others if c not in seen)]))
        if not pool:
            break
        seen.update(pool)
        scores = guess(pool)
        offer(pool, scores)
        beam = [pool[i] for i in np.argsort(scores, kind="stable")[:_WIDTH]]
    return best[1]


def _anew(
    space: Space,
    guess: _Guess,
    best: Choice,
    known: Container[Choice],
    around: dict[tuple[Hashable, int], Choice],
) -> Choice | None:
    """Return the best choice of another family: a mesh axis filled around an unused name.

    The proposal is added to `around`. If it is rejected, it is removed again, because the learned
    constraints may change it.
    """
    pool: dict[Choice, list[tuple[Hashable, int]]] = {}
    for start, i, name in space.rebuilt(best):
        if (name, i) not in around:
            pool.setdefault(_filled(space, guess, (start, i), math.inf), []).append((name, i))
    found = [choice for choice in pool if choice not in known]
    if not found:
        return None
    chosen = found[int(np.argmin(guess(found)))]
    around.update(dict.fromkeys(pool[chosen], chosen))
    return chosen


def _filled(space: Space, guess: _Guess, start: tuple[Choice, int], worse: float = 0.0) -> Choice:
    """Add names to one mesh axis while that is expected to cost less, or at most `worse` more."""
    choice, axis = start
    score = float(guess([choice])[0])
    while pool := list(space.joined(choice, axis)):
        scores = guess(pool)
        i = int(np.argmin(scores))
        if scores[i] >= score + worse:
            break
        choice, score = pool[i], float(scores[i])
    return space.canonical(choice)


class _Guess:
    """The expected cost of a choice, fitted to judged choices.

    It is the logarithm of the time, plus a penalty for excess memory.

    The model is a ridge regression in the features of `_features`. Its targets are logarithms: of
    the computation of each part, of the communication of each part relative to all computation, and
    of the memory of the arguments and of the rest. A name that divides the work of some lines does
    not affect the others. The communication for a name is expected to decrease when other names
    divide the work, until observations contradict this.
    """

    def __init__(
        self,
        space: Space,
        found: dict[Choice, Outcome],
        memory: float,
        known: dict[Choice, np.ndarray],
    ):
        self._space, self._memory = space, memory
        self._known = known  # the features of choices, shared by all models of a search
        outcomes = list(found.values())
        self.best = min(map(self.of_outcome, outcomes))
        rows = self._rows(list(found))
        computing, sending = _table(outcomes, "computed"), _table(outcomes, "sent")
        # Overlapping steps take less than the sum of their times.
        whole = np.array([max(outcome.time, _TINY) for outcome in outcomes])
        scale = (whole / np.maximum(computing.sum(1) + sending.sum(1), _TINY))[:, None]
        all_computed = np.maximum(computing.sum(1, keepdims=True), _TINY)
        held = np.array([[max(o.arguments, 1), max(o.peak - o.arguments, 1)] for o in outcomes])
        logs = (
            np.log(scale * (computing + _LEAST * all_computed)),
            np.log(sending / all_computed + _LEAST),
            np.log(held),
        )
        self._ends = np.cumsum([part.shape[1] for part in logs])
        targets = np.concatenate(logs, axis=1)
        self._most = targets.max(0) + _BEYOND
        # Outcomes far from the best carry little information about good ones.
        scores = np.array(list(map(self.of_outcome, outcomes)))
        weights = 1 / (1 + (scores - self.best) / _NEAR)
        self._mean = weights @ targets / weights.sum()
        gram = (rows.T * weights) @ rows + _RIDGE * np.eye(rows.shape[1])
        inverse = _inverse(gram)
        self._spread = inverse * _RIDGE
        self._slopes = inverse @ ((rows.T * weights) @ (targets - self._mean))

    def of_outcome(self, outcome: Outcome) -> float:
        """Return the score of an outcome; smaller is better."""
        over = math.log(max(outcome.peak, 1) / self._memory)
        return math.log(max(outcome.time, 1e-12)) + _OVER * max(0.0, over)

    def __call__(self, choices: list[Choice]) -> np.ndarray:
        expected = np.exp(np.minimum(self._rows(choices) @ self._slopes + self._mean, self._most))
        computed, sent, held = (part.sum(1) for part in np.split(expected, self._ends[:-1], axis=1))
        over = np.log(np.maximum(held, 1.0) / self._memory)
        return np.asarray(np.log(computed * (1 + sent)) + _EXPECTED_OVER * np.maximum(0.0, over))

    def doubt(self, choices: list[Choice]) -> np.ndarray:
        """Return the uncertainty for these choices: near 1 for a choice unlike all judged ones."""
        rows = self._rows(choices)
        return np.sqrt(np.einsum("ij,jk,ik->i", rows, self._spread, rows))

    def _rows(self, choices: list[Choice]) -> np.ndarray:
        for choice in choices:
            if choice not in self._known:
                self._known[choice] = self._features(choice)
        return np.stack([self._known[choice] for choice in choices])

    def _features(self, choice: Choice) -> np.ndarray:
        space = self._space
        count = len(space.names)
        axes = zip(choice.roles, choice.sizes, strict=True)
        bits = np.array(
            [[math.log2(n) * (name in role) for name in space.names] for role, n in axes]
        ).reshape(len(choice.sizes), count)
        pairs = (bits.T @ np.sign(bits))[np.triu_indices(count, 1)]
        steps = {name: loop.steps for name, loop in choice.loops}
        loops = [math.log2(steps.get(name, 1)) for name in space.names]
        overlap = [float(choice.overlap == other) for other in space.overlaps[1:]]
        # Many small mesh axes have more links.
        shape = [math.log2(n) for n in sorted(choice.sizes)] if space.has_shapes else []
        return np.concatenate(
            [
                [1.0],
                bits.sum(0),
                0.1 * bits.ravel(),
                0.1 * pairs,
                loops,
                overlap,
                0.1 * np.array(shape),
            ]
        )


def _inverse(matrix: np.ndarray) -> np.ndarray:
    """Return the inverse of a positive definite matrix by elimination.

    LAPACK starts threads for a matrix of a hundred rows, which takes a hundred times longer if the
    cores are busy.
    """
    n = len(matrix)
    both = np.concatenate([matrix, np.eye(n)], axis=1)
    for i in range(n):
        both[i] /= both[i, i]
        factors = both[:, i].copy()
        factors[i] = 0.0
        both -= factors[:, None] * both[i]
    return both[:, n:]


def _table(outcomes: list[Outcome], what: str) -> np.ndarray:
    """Return the seconds of each part, with a row for each outcome."""
    rows: list[Mapping[Hashable, float]] = [getattr(outcome, what) for outcome in outcomes]
    parts = list(dict.fromkeys(part for row in rows for part in row))
    return np.array([[row.get(part, 0.0) for part in parts] for row in rows]).reshape(
        len(rows), len(parts)
    )
