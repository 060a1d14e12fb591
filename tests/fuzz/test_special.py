"""A fixed part of what `python -m tests.fuzz --special` does, and faults that are planted for it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

import namedax as nx
from tests.fuzz.special_programs import Layout, attempt, reduced, report, trial
from tests.fuzz.test_planted import sums_past_scalings

PROGRAMS, FULL = range(4), range(4, 60)


def run(numbers: Iterable[int], layouts: slice = slice(None)) -> list[str]:
    """The differences in some programs."""
    found: list[str] = []
    for number in numbers:
        expected, where = trial(number)
        for layout in where[layouts]:
            kind, detail = attempt(expected, layout)
            if kind not in ("equal", "refused"):
                found.append(f"special {number}\n{report(expected.program, layout, kind, detail)}")
    return found


def test_most_elements_are_compared():
    sure = [trial(number)[0].sure(0) for number in range(40)]
    assert np.mean([mask.mean() for mask in sure]) > 0.9


@pytest.mark.full(0)
@pytest.mark.fast(0)
def test_special_values_in_random_programs():
    assert not run(PROGRAMS)


@pytest.mark.fast(0)
@pytest.mark.full(0)
def test_special_values_in_more_random_programs():
    assert not run(FULL)


def later_elements_times_zero(patch: pytest.MonkeyPatch) -> None:
    """A cumulative sum takes the elements that follow too, times zero: an infinity among them becomes NaN."""
    right = nx.cumsum

    def wrong(x: Any, axis: Any) -> Any:
        return right(x, axis) + 0 * nx.sum(x, axis)

    patch.setattr(nx, "cumsum", wrong)


# The numbers of programs and the layouts among which random generation has to find the fault.
PLANTED = {
    "sums past scalings": (sums_past_scalings, [*range(14, 19)], slice(3, 5)),
    "later elements times zero": (
        later_elements_times_zero,
        [n for n in range(120, 140) if "cumsum" in (s.op for s in trial(n)[0].program.statements)],
        slice(1),
    ),
}


@pytest.mark.fast(1)
@pytest.mark.parametrize("name", PLANTED)
def test_planted(name, monkeypatch):
    plant, numbers, layouts = PLANTED[name]
    assert not run(numbers, layouts)
    plant(monkeypatch)
    assert run(numbers, layouts)


def test_a_failure_is_made_small(monkeypatch):
    right = nx.sum
    monkeypatch.setattr(nx, "sum", lambda x, axis: right(x, axis) + 1)
    number = next(n for n in range(100) if trial(n)[0].program.statements[0].op == "sum")
    program, layout = trial(number)[0].program, Layout("eager")
    small, detail = reduced(program, layout, "value")
    assert [s.op for s in small.statements] == ["sum"]
    assert "= nx.sum(v0, " in report(small, layout, "value", detail)
