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
from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Mapping, Set

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
    run = _Search(space, judge, memory, tries)
    run.begin(first)
    if not run.found:
        return run.result()
    run.combine()
    run.improve()
    found = run.result()
    if left_open is not None:
        run.exhaust(left_open, max(_OPEN, tries // 4) if most_open is None else most_open)
    if space.has_shapes:
        run.simplify()
    return found


class _Search:
    """A search, with the choices that were tried.

    Args:
      space: the choices.
      judge: returns the outcome of a choice, or `None` if it is impossible.
      memory: the memory of a device, in bytes.
      tries: the maximum number of judged choices.

    Attributes:
      found: the outcomes of the choices that the judge did not reject.
    """

    def __init__(
        self,
        space: Space,
        judge: Callable[[Choice], Outcome | None],
        memory: float,
        tries: int,
    ):
        self._space, self._judge, self._memory, self._tries = space, judge, memory, tries
        self.found: dict[Choice, Outcome] = {}
        self._rejected: set[Choice] = set()
        # By name and mesh axis, the choice of `_anew` that was tried.
        self._around: dict[tuple[Hashable, int], Choice] = {}

    @property
    def _is_over(self) -> bool:
        return len(self.found) + len(self._rejected) / 4 >= self._tries

    @property
    def _known(self) -> Set[Choice]:
        return self.found.keys() | self._rejected

    def result(self) -> Found:
        """Return the outcomes, which further tries may extend."""
        return Found(self.found, self._rejected, self._is_over)

    def _attempt(self, choice: Choice) -> bool:
        """Judge a choice, and return True, unless it is known, ruled out, or one too many."""
        choice = self._space.canonical(choice)
        is_known = choice in self.found or choice in self._rejected
        if is_known or not self._space.allowed(choice) or self._is_over:
            return False
        outcome = self._judge(choice)
        if outcome is None:
            self._rejected.add(choice)
        else:
            self.found[choice] = outcome
        return True

    def begin(self, first: Iterable[Choice]) -> None:
        """Try initial choices, nothing mapped, and each name alone."""
        for choice in itertools.chain(first, [self._space.empty], self._space.single_names()):
            self._attempt(choice)

    def combine(self) -> None:
        """Try every other name combined with the most useful single name."""
        for choice in list(self._space.beside(self._data_parallel())):
            self._attempt(choice)

    def _data_parallel(self) -> Choice:
        """Return the choice with the most useful single name, on as many mesh axes as help."""
        found = self.found
        single = [one for one in found if sum(map(len, one.roles)) == 1 and not one.loops]
        if not single:
            return self._space.empty
        base = min(single, key=lambda choice: found[choice].time)
        (name,) = frozenset[Hashable]().union(*base.roles)
        for i in sorted(range(len(base.sizes)), key=lambda i: -base.sizes[i]):
            roles = tuple(r | {name} if j == i else r for j, r in enumerate(base.roles))
            more = self._space.canonical(base.replace(roles=roles))
            self._attempt(more)
            if more in found and found[more].time < found[base].time:
                base = more
        return base

    def improve(self) -> None:
        """Try the proposals of the model, until none is expected to be better."""
        best, idle = math.inf, 0
        rows: dict[Choice, np.ndarray] = {}
        while not self._is_over:
            guess = _Guess(self._space, self.found, self._memory, rows)
            ranked = sorted(self.found, key=lambda choice: guess.of_outcome(self.found[choice]))
            best, idle = (guess.best, 0) if guess.best < best else (best, idle)
            before = len(self.found)
            is_tired = idle >= max(8, _PATIENCE * self._tries) and self._fits(ranked[0])
            has_tried = not is_tired and self._propose(guess, ranked)
            if not has_tried and not self._compare(guess, ranked):
                return
            idle += len(self.found) - before

    def _fits(self, choice: Choice) -> bool:
        return self.found[choice].peak <= self._memory

    def _propose(self, guess: _Guess, ranked: list[Choice]) -> bool:
        """Try the proposals of a round; return False if there are none."""
        known = self._known
        proposals = (
            _far(self._space, guess, ranked, known),
            self._anew(guess, ranked[0], known),
            _unlike(self._space, guess, ranked, known),
        )
        several = [choice for choice in proposals if choice]
        for choice in several:
            self._attempt(choice)
        return bool(several)

    def _compare(self, guess: _Guess, ranked: list[Choice]) -> bool:
        """Compare the best choice with a choice of another family, or next to it.

        Before the search ends, the best choice is compared with all choices that differ from it in
        one place, for any expected cost. If the memory rules out faster ones, the best few choices
        are compared in this way. The result is False if there are no others.
        """
        known, fastest = self._known, self.found[ranked[0]].time
        is_short = any(self.found[other].time < fastest for other in ranked)
        best = ranked[: 3 if is_short else 1]
        choice = self._anew(guess, ranked[0], known) or _next_to(self._space, guess, best, known)
        if choice is not None:
            self._attempt(choice)
        return choice is not None

    def _anew(self, guess: _Guess, best: Choice, known: Container[Choice]) -> Choice | None:
        """Return the best choice of another family: a mesh axis filled around an unused name.

        If it is rejected, it is proposed again, because the learned constraints may change it.
        """
        around = self._around = {key: one for key, one in self._around.items() if one in self.found}
        pool: dict[Choice, list[tuple[Hashable, int]]] = {}
        for start, i, name in self._space.rebuilt(best):
            if (name, i) not in around:
                filled = _filled(self._space, guess, (start, i), math.inf)
                pool.setdefault(filled, []).append((name, i))
        found = [choice for choice in pool if choice not in known]
        if not found:
            return None
        chosen = found[int(np.argmin(guess(found)))]
        around.update(dict.fromkeys(pool[chosen], chosen))
        return chosen

    def exhaust(
        self, left_open: Callable[[Container[Choice], float, int], list[Choice]], most: int
    ) -> None:
        """Try all choices that may take less time, while they are at most this number."""
        while not self._is_over:
            fitting = (one.time for one in self.found.values() if one.peak <= self._memory)
            best = min(fitting, default=math.inf)
            several = left_open(self._known, best, min(most, self._tries - len(self.found)))
            tried = [self._attempt(choice) for choice in several]
            if not any(tried):
                return

    def simplify(self) -> None:
        """Merge mesh axes of the best choice with the same names while the cost does not grow."""
        best = min(self.found, key=self._worth)
        for _ in best.sizes:
            merged = filter(self._is_judged, self._space.joining(best))
            worth = self._worth(best)
            better = next((other for other in merged if self._worth(other) <= worth), None)
            if better is None:
                return
            best = better

    def _is_judged(self, choice: Choice) -> bool:
        """Judge a choice unless it is known; return True unless it is rejected."""
        if choice not in self.found and (outcome := self._judge(choice)) is not None:
            self.found[choice] = outcome
        return choice in self.found

    def _worth(self, choice: Choice) -> tuple[bool, float]:
        return not self._fits(choice), self.found[choice].time


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
        settings = [float(choice.settings == other) for other in space.settings[1:]]
        # Many small mesh axes have more links.
        shape = [math.log2(n) for n in sorted(choice.sizes)] if space.has_shapes else []
        return np.concatenate(
            [
                [1.0],
                bits.sum(0),
                0.1 * bits.ravel(),
                0.1 * pairs,
                loops,
                settings,
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
