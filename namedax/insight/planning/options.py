"""Options that a program leaves open: layouts that were judged, judged again with other values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from namedax.errors import NamedaxError
from namedax.insight.analysis.report import Report
from namedax.insight.planning.candidates import Candidate
from namedax.ops.operands.open_options import Offers, Options, Place, labels

__all__ = ["OptionJudge", "recomputing", "with_options"]

# Layouts whose options are searched, the number of traces for all of them, and the factor by which
# a layout with default options may be slower than the best so far.
_LAYOUTS, _TRACES, _SLOWER = 2, 40, 1.25
_SWEEPS = 2

#: A group of options of one call, and its values; a group with default values is left out.
_Key = tuple[Place, str]
_State = Mapping[_Key, Mapping[str, Any]]


class OptionJudge(Protocol):
    """A judge of layouts with options."""

    def again(self, one: Candidate, options: Options) -> Candidate:
        """Judge the layout of a candidate with these options."""
        ...

    def offers(self, one: Candidate) -> Offers:
        """Return the offers of the calls in the layout's trace with default options."""
        ...


def recomputing(offers: Offers, report: Report, useless: frozenset[Place]) -> dict[Place, Any]:
    """Return the calls that could recompute their steps for the gradient.

    Args:
      offers: the offers of a trace.
      report: its report; without a gradient the result is empty.
      useless: calls in which this is known to save nothing.
    """
    if not _has_gradient(report):
        return {}
    return {
        place: {"remat": "full"}
        for place, groups in offers.groups.items()
        if "remat" in groups and place not in useless
    }


def _has_gradient(report: Report) -> bool:
    return any(step.phase == "gradient" for step in report.steps)


def with_options(
    candidates: Sequence[Candidate], judge: OptionJudge, rank: Callable[[Candidate], Any]
) -> list[Candidate]:
    """Return candidates for the open options of the best layouts.

    The options of a layout are chosen one group after the other, each by exact judgment with the
    present values of the others.

    Args:
      candidates: the layouts that were judged.
      judge: judges a layout again.
      rank: the sort key of candidates, the best one first.
    """
    found: list[Candidate] = []
    left = _TRACES
    for one in _bases(candidates, judge, rank):
        best = min((*candidates, *found), key=rank)
        if best.fits and not (one.time <= _SLOWER * best.time):
            continue
        same = [other for other in (*candidates, *found) if _layout(other) == _layout(one)]
        search = _OptionSearch(one, same, judge, rank, left)
        search.run()
        left -= search.traces
        found += search.found
    return found


def _bases(
    candidates: Sequence[Candidate], judge: OptionJudge, rank: Callable[[Candidate], Any]
) -> list[Candidate]:
    """Return the best layouts with open options, and the smallest one if none fits."""
    best_first = [one for one in sorted(candidates, key=rank) if judge.offers(one).groups]
    layouts: dict[str, Candidate] = {}
    for one in best_first:
        layouts.setdefault(_layout(one), one)
    return list(layouts.values())[:_LAYOUTS]


def _layout(one: Candidate) -> str:
    return repr((one.axis_resources, one.layouts, one.mesh, one.settings))


def _text(options: Options) -> str:
    """Return a key for options, whose order does not matter."""
    calls = sorted((label, sorted(each.items(), key=str)) for label, each in options.items())
    return repr(calls)


class _OptionSearch:
    """A search for the options of one layout.

    Args:
      one: the candidate to begin with.
      known: the judged candidates of its layout.
      judge: judges a layout again.
      rank: the sort key of candidates.
      most: the maximum number of traces.

    Attributes:
      found: the candidates that were judged.
      traces: the number of traces.
    """

    def __init__(
        self,
        one: Candidate,
        known: Sequence[Candidate],
        judge: OptionJudge,
        rank: Callable[[Candidate], Any],
        most: int,
    ):
        self._one, self._judge, self._rank, self._most = one, judge, rank, most
        self._offers = judge.offers(one)
        self._labels = labels(list(self._offers.groups), one.report.files)
        self._known: dict[str, Candidate | None] = {_text(each.options): each for each in known}
        # Values without an effect on time and memory.
        self._idle: set[str] = set()
        self.found: list[Candidate] = []
        self.traces = 0

    def run(self) -> None:
        """Choose values for each group of options in turn, until nothing improves."""
        state, best = self._begin(), self._one
        for _ in range(_SWEEPS):
            before = best
            for place, groups in self._offers.groups.items():
                for group, values in groups.items():
                    state, best = self._improved(state, best, (place, group), values)
            if best is before:
                return

    def _begin(self) -> dict[_Key, Mapping[str, Any]]:
        """Return the options of the first candidate, which may recompute to fit."""
        places = {label: place for place, label in self._labels.items()}
        return {
            (places[label], "remat"): {"remat": each["remat"]}
            for label, each in self._one.options.items()
            if label in places and "remat" in each
        }

    def _improved(
        self,
        state: dict[_Key, Mapping[str, Any]],
        best: Candidate,
        key: _Key,
        values: Sequence[Mapping[str, Any]],
    ) -> tuple[dict[_Key, Mapping[str, Any]], Candidate]:
        """Return the best state that differs in one group, and its candidate."""
        if key[1] == "remat" and not _has_gradient(self._one.report):
            return state, best
        others = {other: value for other, value in state.items() if other != key}
        plain = self._judged(others)
        found = [(others, plain)]
        for value in values:
            if repr((key, value)) in self._idle:
                continue
            other = {**others, key: value}
            one = self._judged(other)
            if one and plain and (one.time, one.peak) == (plain.time, plain.peak):
                self._idle.add(repr((key, value)))
                self.found = [each for each in self.found if each is not one]
                continue
            found.append((other, one))
            # If to recompute everything saves nothing, so does to recompute a part.
            if key[1] == "remat" and one and plain and one.peak >= plain.peak:
                break
        for other, one in found:
            if one is not None and self._rank(one) < self._rank(best):
                state, best = dict(other), one
        return state, best

    def _judged(self, state: _State) -> Candidate | None:
        """Return the candidate for these options; `None` if the program does not allow them."""
        options = self._options(state)
        text = _text(options)
        if text not in self._known:
            if self.traces >= self._most:
                return None
            self.traces += 1
            self._known[text] = None
            try:
                one = self._judge.again(self._one, options)
            except (NamedaxError, NotImplementedError, TypeError, ValueError):
                return None
            self._known[text] = one
            self.found.append(one)
        return self._known[text]

    def _options(self, state: _State) -> dict[str, dict[str, Any]]:
        found: dict[str, dict[str, Any]] = {}
        for (place, _), values in state.items():
            call = found.setdefault(self._labels[place], {"operation": place.operation})
            call.update(values)
        return found
