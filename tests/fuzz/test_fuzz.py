"""A fixed part of what `make fuzz` does, and the programs that once failed."""

from __future__ import annotations

import pytest

from tests.fuzz.runner import attempt, reference
from tests.fuzz.specimens import SPECIMENS
from tests.fuzz.worker import report, trial

PROGRAMS, LAYOUTS = 10, 2


@pytest.mark.part(2)
@pytest.mark.parametrize("name", SPECIMENS)
def test_specimens(name):
    specimen = SPECIMENS[name]
    ref = reference(specimen.program)
    compared = 0
    for layout in specimen.layouts:
        outcome = attempt(ref, layout)
        assert outcome.kind in ("equal", "refused" if specimen.may_refuse else "equal"), report(ref.program, layout, outcome)
        compared += outcome.kind == "equal"
    assert compared


@pytest.mark.part(1)
@pytest.mark.parametrize("number", range(PROGRAMS))
def test_random_programs(number):
    ref, layouts = trial(number, LAYOUTS)
    for layout in layouts:
        outcome = attempt(ref, layout)
        assert not outcome.failed, report(ref.program, layout, outcome)
