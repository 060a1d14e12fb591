"""The judge of layouts: it traces the program under each of them, and records the results.

After a search it also judges variants of the best layouts: names in padded blocks, whose sizes do
not divide, and names that are executed in steps, which saves memory.
"""

from __future__ import annotations

import itertools
import math
import sys
import time
from collections.abc import Container, Hashable, Iterator, Mapping, Sequence
from typing import Any

from namedax.core.text_tables import seconds_text
from namedax.errors import NamedaxError, PlacementConflictError
from namedax.insight.analysis.records import Collective, Operation
from namedax.insight.planning.again import Again
from namedax.insight.planning.arguments import conflict
from namedax.insight.planning.bound import Bound
from namedax.insight.planning.candidates import Candidate, Layouts, Variant
from namedax.insight.planning.meshes import Meshes
from namedax.insight.planning.options import recomputing
from namedax.insight.planning.program import Program
from namedax.insight.planning.search import Found, Outcome
from namedax.insight.planning.space import Choice, Space
from namedax.insight.planning.whole import Whole
from namedax.machines import Times
from namedax.ops.operands.open_options import Offers, Options, Place, labels
from namedax.resources.serial import SerialLoop

__all__ = ["Judge", "Progress", "judge_padded", "judge_steps", "rank"]

# The maximum number of traces with padded blocks.
_PADDED = 6
# The number of names to execute in steps, the steps of the first try, and further tries.
_NAMES, _STEPS, _TRIES = 4, 4, 3


class Judge:
    """Judge of choices: it traces the program under each of them, and records the results."""

    def __init__(
        self,
        program: Program | Whole,
        space: Space,
        meshes: Meshes,
        memory: float,
        bound: Bound,
        progress: Progress | None,
    ):
        self._bound = bound
        self._program = program
        self._again = Again(program, meshes, memory)
        self._space = space
        self._meshes = meshes
        self._memory = memory
        self._progress = progress
        self.candidates: list[Candidate] = []
        self._choices: dict[int, Choice] = {}
        self._offers: dict[int, Offers] = {}
        self._stored_anyway: set[Place] = set()
        self.rejected: list[tuple[dict[Hashable, Any], str]] = []
        self.traces = 0
        self.has_steps = False  # names were executed in steps after the search

    def __call__(self, choice: Choice) -> Outcome | None:
        """Judge a choice; return `None` if the program does not allow it."""
        variant = self._variant(choice)
        resources = dict(variant.axis_resources)
        try:
            candidate, times = self._judged(choice, variant)
        except (NamedaxError, NotImplementedError, TypeError, ValueError) as error:
            names = error.axes if isinstance(error, PlacementConflictError) else ()
            pinned = [self._space.pinned_on(i) for i in range(len(choice.roles))]
            for axis, on in zip(self._space.axes, pinned, strict=True):
                if len(set(names)) == 2 and on.issuperset(names):
                    raise conflict(names, axis) from None
            if not resources or choice == self._space.empty:
                raise  # an error of the program itself, or of the fixed names
            self._space.learn(choice, names)
            self.rejected.append((resources, str(error)))
            return None
        self.candidates.append(candidate)
        self._bound.learn(choice, candidate.report.steps, times)
        if not candidate.fits:
            candidate, times = self._recomputed(choice, candidate, times)
        if self._progress is not None:
            self._progress.show(self.candidates)
        return Outcome(
            candidate.time,
            candidate.peak,
            candidate.report.memory.arguments,
            _parts(times, Operation),
            _parts(times, Collective),
        )

    def _variant(self, choice: Choice) -> Variant:
        return self._program.variant(self._space.resources(choice), choice.settings)

    def _judged(self, choice: Choice, variant: Variant) -> tuple[Candidate, Times]:
        """Judge a variant of the program on the mesh of a choice."""
        self.traces += 1
        candidate, times, offers = self._again.judged_on(
            variant, self._meshes.abstract(choice.sizes)
        )
        self._choices[id(candidate)] = choice
        self._offers[id(candidate)] = offers
        return candidate, times

    def _recomputed(self, choice: Choice, one: Candidate, times: Times) -> tuple[Candidate, Times]:
        """Judge a layout that does not fit again, with all loops that are open to it recomputed.

        Return the result if that fits, because the layout must not be rejected then.
        """
        offers = self._offers[id(one)]
        calls = recomputing(offers, one.report, frozenset(self._stored_anyway))
        memory = one.report.memory
        if not calls or max(memory.arguments, memory.results) > self._memory:
            return one, times
        texts = labels(list(offers.groups), one.report.files)
        options = {
            texts[place]: {"operation": place.operation, **values}
            for place, values in calls.items()
        }
        try:
            again, other = self._judged(choice, one.variant.replace(options=options))
        except (NamedaxError, NotImplementedError, TypeError, ValueError):
            return one, times
        if again.peak >= one.peak:
            self._stored_anyway |= calls.keys()
            return one, times
        self._offers[id(again)] = offers
        self.candidates.append(again)
        return again, other

    def again(self, one: Candidate, options: Options) -> Candidate:
        """Judge the layout of a candidate with other options."""
        found = self._judged(self._choices[id(one)], one.variant.replace(options=options))[0]
        self._offers[id(found)] = self._offers[id(one)]
        return found

    def split(self, choice: Choice, layouts: Layouts) -> Candidate | None:
        """Judge several layouts on the mesh of a choice; `None` if they cannot be traced."""
        try:
            return self._judged(choice, Variant({}, choice.settings, layouts))[0]
        except (NamedaxError, NotImplementedError, TypeError, ValueError):
            return None

    def offers(self, one: Candidate) -> Offers:
        """Return the offers of the calls in the trace of a layout with default options."""
        return self._offers[id(one)]

    @property
    def fits(self) -> bool:
        """True if a candidate fits into the memory."""
        return any(one.fits for one in self.candidates)

    def layouts(self) -> list[tuple[Choice, Candidate]]:
        """Return the judged choices, each with its best candidate."""
        found: dict[Choice, Candidate] = {}
        for one in self.candidates:
            choice = self._choices[id(one)]
            known = found.get(choice)
            if known is None or rank(one) < rank(known):
                found[choice] = one
        return list(found.items())

    def best(self) -> tuple[Choice, Candidate] | None:
        """Return the best choice and its candidate; `None` if none could be traced."""
        return min(self.layouts(), key=lambda one: rank(one[1]), default=None)

    def candidate(self, choice: Choice) -> Candidate | None:
        """Judge a choice, and return its best candidate; `None` if it cannot be traced."""
        known = dict(self.layouts())
        if choice not in known and self(choice) is not None:
            known = dict(self.layouts())
        return known.get(choice)

    def probe(self) -> None:
        """Trace the layouts that the bound needs and that the search has not traced."""
        for choice in list(self._bound.missing()):
            mesh = self._meshes.abstract(choice.sizes)
            self.traces += 1
            try:
                report = self._program.explained(self._variant(choice), mesh)
            except (NamedaxError, NotImplementedError, TypeError, ValueError):
                continue  # nothing is assumed about layouts with this name
            self._bound.learn(choice, report.steps)

    def left_open(self, known: Container[Choice], below: float, most: int) -> list[Choice]:
        """Return the layouts that may take less time than `below`, or none if they are many."""
        if self._can_change:
            return []
        found = list(itertools.islice(self._bound.unjudged(known, below), most + 1))
        choices = [one.choice for one in found if one.choice is not None]
        return choices if len(choices) == len(found) <= most else []

    def bound(self, found: Found) -> float:
        """Return a lower bound of the time of all layouts that fit, in seconds."""
        best = min(one.time for one in self.candidates if one.fits)
        known = found.outcomes.keys() | found.rejected
        opened = next(self._bound.unjudged(known, best), None)
        changing = found.outcomes.keys() if self._can_change else set[Choice]()
        if any(one.report.pipelines for one in self.candidates):
            changing = changing | found.rejected  # other microbatches may divide
        bounds = [self._bound.of(choice) for choice in changing]
        return min([best, *([] if opened is None else [opened.seconds]), *bounds])

    @property
    def _can_change(self) -> bool:
        """True if judged layouts may take less time, or fit, with options or steps not tried."""
        return self.has_steps or any(offers.groups for offers in self._offers.values())

    def end(self) -> None:
        """End the progress line."""
        if self._progress is not None:
            self._progress.end()


def _parts(times: Times, kind: type) -> dict[Hashable, float]:
    """Return the seconds of computation, or of communication, for each line of the program."""
    found: dict[Hashable, float] = {}
    for step, start, end in times.schedule:
        if isinstance(step, kind):
            part = (step.source, step.phase)
            found[part] = found.get(part, 0.0) + end - start
    return found


class Progress:
    """A progress line on standard error."""

    def __init__(self, most: int):
        self._most, self._began = most, time.perf_counter()

    def show(self, candidates: Sequence[Candidate]) -> None:
        """Show the progress, and the best result so far."""
        fitting = [one.time for one in candidates if one.fits]
        best = f"best {seconds_text(min(fitting))}" if fitting else "none fits yet"
        bar = "#" * (20 * len(candidates) // self._most)
        spent = time.perf_counter() - self._began
        line = (
            f"\rplan [{bar:20s}] {len(candidates)} of at most {self._most} layouts, {best},"
            f" {spent:.0f} s "
        )
        print(line, end="", file=sys.stderr, flush=True)

    def end(self) -> None:
        """End the line."""
        print(file=sys.stderr)


def rank(one: Candidate) -> tuple[bool, float, int]:
    """Return a sort key: fitting layouts first, then by time, or by memory if they do not fit.

    The number of mesh axes decides ties.
    """
    return not one.fits, one.time if one.fits else one.peak, len(one.mesh)


# --- variants of the best layouts -----------------------------------------------------------------


def judge_padded(judge: Judge, space: Space, arguments: Mapping[Hashable, int]) -> None:
    """Judge layouts in which a name has padded blocks, because its size does not divide.

    The names are added to the best layout one after the other. A name stays in `space.uneven` if
    the search has tried it.

    Args:
      judge: the judge.
      space: the space of the search.
      arguments: the bytes of the arguments that have each name; the largest name is tried first.
    """
    left = _PADDED
    names = space.not_dividing()
    for name in sorted(names, key=lambda name: (-arguments.get(name, 0), str(name))):
        found = judge.best()
        if left == 0 or found is None:
            return
        choice, before = found
        space.uneven.add(name)
        pool = list(dict.fromkeys(_padded(space, choice, name)))
        if not pool:
            space.uneven.discard(name)  # so that it counts as left out
        for other in pool[: min(left, 2)]:
            left -= 1
            judge(other)
            found = judge.best()
            if found is not None and rank(found[1]) < rank(before):
                break


def _padded(space: Space, choice: Choice, name: Any) -> Iterator[Choice]:
    """Yield choices with a name in padded blocks: many blocks first, little padding first."""
    used = [i for i, n in enumerate(choice.sizes) if n > 1]
    places = [
        place for count in range(1, len(used) + 1) for place in itertools.combinations(used, count)
    ]
    found: dict[Choice, tuple[bool, int, int]] = {}
    for place in places:
        other = space.canonical(space.put(choice, name, place))
        blocks = space.blocks(other, name)
        if other == choice or space.sizes[name] % blocks == 0 or not space.allowed(other):
            continue
        removed = sum(len(role) for role in choice.roles) - sum(len(role) for role in other.roles)
        padding = -space.sizes[name] % blocks
        found[other] = (removed >= 0, padding * 8 > space.sizes[name], -blocks)
    yield from sorted(found, key=lambda other: found[other])


def judge_steps(
    judge: Judge, space: Space, memory: float, arguments: Mapping[Hashable, int]
) -> None:
    """Judge layouts with a name in steps: the best one, and two that do not fit.

    If none fits, these are the smallest ones, and otherwise the fastest ones.

    Args:
      judge: the judge.
      space: the space of the search.
      memory: the memory limit.
      arguments: the bytes of the arguments that have each name; the smallest are tried first,
        because parameters are stored in any case.
    """
    judge.has_steps = True
    names = sorted(space.names, key=lambda name: (arguments.get(name, 0), str(name)))
    layouts = sorted(judge.layouts(), key=lambda one: rank(one[1]))
    others = [one for one in layouts if not one[1].fits and one[1].time < layouts[0][1].time]
    others.sort(key=lambda one: one[1].time)
    for choice, one in [layouts[0], *others[:2]] if layouts[0][1].fits else layouts[:2]:
        best = _best_in_steps(judge, space, choice, one, names)
        if best is not None:
            name, peak = best
            _judge_steps_of(judge, space, choice, name, {1: one.peak, _STEPS: peak}, memory)


def _best_in_steps(
    judge: Judge, space: Space, choice: Choice, before: Candidate, names: Sequence[Hashable]
) -> tuple[Hashable, int] | None:
    """Return the name that saves most memory with a few steps, and the peak with it."""
    best: tuple[Hashable, int] | None = None
    others = ((name, _with_steps(space, choice, name, _STEPS)) for name in names)
    possible = ((name, other) for name, other in others if other is not None)
    for name, other in itertools.islice(possible, _NAMES):
        one = judge.candidate(other)
        if one is not None and one.peak < (before.peak if best is None else best[1]):
            best = name, one.peak
    return best


def _judge_steps_of(
    judge: Judge,
    space: Space,
    choice: Choice,
    name: Hashable,
    known: dict[int, int],
    memory: float,
) -> None:
    """Judge a layout with a name in steps, with as few steps as fit into the memory.

    The number of steps follows from two known peaks: one part of the memory is constant, and the
    other is inversely proportional.

    Args:
      judge: the judge.
      space: the space of the search.
      choice: the layout.
      name: the name.
      known: the peaks by number of steps.
      memory: the memory limit.
    """
    steps = max(known)
    for _ in range(_TRIES):
        steps = _next_steps(known, steps, memory)
        other = _with_steps(space, choice, name, steps)
        if steps in known or other is None:
            return
        found = judge.candidate(other)
        if found is None:
            return
        known[steps] = found.peak


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
