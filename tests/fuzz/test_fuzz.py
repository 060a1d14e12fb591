"""A fixed part of what `make fuzz` does, and the programs that once failed."""

from __future__ import annotations

import pytest

from tests.fuzz.runner import attempt, reference
from tests.fuzz.specimens import SPECIMENS
from tests.fuzz.worker import report, trial

PROGRAMS, LAYOUTS = 16, 3
# What their mending waits for.
WAITING = {
    "NaN under the partitioner",
    "a kernel on mesh axes of its own",
    "the gradient of a sort over devices beside a loop",
    "the gradient of quantiles over devices beside a loop",
    "keys along a sharded name",
}


@pytest.mark.parametrize("name", [name for name in SPECIMENS if name not in WAITING])
def test_specimens(name):
    specimen = SPECIMENS[name]
    ref = reference(specimen.program)
    compared = 0
    for layout in specimen.layouts:
        outcome = attempt(ref, layout)
        assert outcome.kind in ("equal", "refused" if specimen.may_refuse else "equal"), report(ref.program, layout, outcome)
        compared += outcome.kind == "equal"
    assert compared


@pytest.mark.parametrize("number", range(PROGRAMS))
def test_random_programs(number):
    ref, layouts = trial(number, LAYOUTS)
    for layout in layouts:
        outcome = attempt(ref, layout)
        assert not outcome.failed, report(ref.program, layout, outcome)
