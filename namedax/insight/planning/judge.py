"""The judge of layouts: it traces the program under each of them, and records the results."""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Container, Hashable, Mapping, Sequence
from typing import Any

from namedax.core.text_tables import seconds_text
from namedax.errors import NamedaxError, PlacementConflictError
from namedax.insight.analysis.records import Collective, Operation
from namedax.insight.planning.again import Again
from namedax.insight.planning.bound import Bound
from namedax.insight.planning.called_functions import Layouts
from namedax.insight.planning.candidates import Candidate
from namedax.insight.planning.fixed_names import conflict
from namedax.insight.planning.meshes import Meshes
from namedax.insight.planning.options import recomputing
from namedax.insight.planning.program import Program
from namedax.insight.planning.search import Found, Outcome
from namedax.insight.planning.space import Choice, Space
from namedax.insight.planning.whole import Whole
from namedax.machines import Times
from namedax.ops.operands.open_options import Offers, Options, Place, labels

__all__ = ["Judge", "Progress", "rank"]


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
        self.traces = self.searched = 0
        self.has_steps = False  # names were executed in steps after the search

    def __call__(self, choice: Choice) -> Outcome | None:
        """Judge a choice; return `None` if the program does not allow it."""
        resources = self._space.resources(choice)
        try:
            candidate, times = self._judged(choice, {})
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

    def _judged(
        self,
        choice: Choice,
        options: Options,
        layouts: Layouts | None = None,
        files: Mapping[str, str] | None = None,
    ) -> tuple[Candidate, Times]:
        """Judge a choice, or several layouts on its mesh, with options by lines of these files."""
        resources = self._space.resources(choice) if layouts is None else {}
        abstract = self._meshes.abstract(choice.sizes)
        self.traces += 1
        candidate, times, offers = self._again.judged_on(
            resources, abstract, choice.overlap, options, files, layouts
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
            again, other = self._judged(choice, options, files=one.report.files)
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
        layouts = one.layouts if one.is_split else None
        found = self._judged(self._choices[id(one)], options, layouts, one.report.files)[0]
        self._offers[id(found)] = self._offers[id(one)]
        return found

    def split(self, choice: Choice, layouts: Layouts) -> Candidate | None:
        """Judge several layouts on the mesh of a choice; `None` if they cannot be traced."""
        try:
            return self._judged(choice, {}, layouts)[0]
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
            abstract = self._meshes.abstract(choice.sizes)
            self.traces += 1
            try:
                report = self._program.explained(
                    self._space.resources(choice), abstract, choice.overlap
                )
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
