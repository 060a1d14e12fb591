"""A fixed part of what `make fuzz` does, and the programs that once failed."""

from __future__ import annotations

import argparse
import sys

import pytest

import tests.fuzz.__main__ as fuzz
from tests.fuzz.program import statements_of
from tests.fuzz.runner import attempt, reference
from tests.fuzz.specimens import SPECIMENS
from tests.fuzz.worker import CONTROL, outside_trial, report, trial

PROGRAMS, LAYOUTS = 10, 2


@pytest.mark.full(2)
@pytest.mark.fast(1)
@pytest.mark.parametrize("name", SPECIMENS)
def test_specimens(name):
    specimen = SPECIMENS[name]
    ref = reference(specimen.program)
    compared = 0
    for layout in specimen.layouts:
        outcome = attempt(ref, layout, specimen.explained)
        assert outcome.kind in ("equal", "refused" if specimen.may_reject else "equal"), report(ref.program, layout, outcome)
        compared += outcome.kind == "equal"
    assert compared


@pytest.mark.full(1)
@pytest.mark.fast(1)
@pytest.mark.parametrize("number", range(PROGRAMS))
def test_random_programs(number):
    ref, layouts = trial(number, LAYOUTS)
    for layout in layouts:
        outcome = attempt(ref, layout)
        assert not outcome.failed, report(ref.program, layout, outcome)


@pytest.mark.full(1)
@pytest.mark.fast(2)
@pytest.mark.parametrize("number", range(PROGRAMS))
def test_random_programs_outside_of_mapped_functions(number):
    ref, layouts = outside_trial(number, LAYOUTS)
    for layout in layouts:
        outcome = attempt(ref, layout)
        assert not outcome.failed, report(ref.program, layout, outcome)


@pytest.mark.full(1)
@pytest.mark.fast(0)
def test_programs_outside_of_mapped_functions_have_every_loop_branch_and_layout():
    trials = [outside_trial(number, LAYOUTS) for number in range(40)]
    assert {s.op for ref, _ in trials for s in statements_of(ref.program.main)} >= {*CONTROL}
    layouts = [layout for _, some in trials for layout in some]
    assert {layout.outside for layout in layouts} == {
        how + under for how in ("eager", "jit") for under in ("", " under set_mesh")
    }
    assert {layout.explicit for layout in layouts} == {True, False}
    assert any(layout.uneven for layout in layouts)


@pytest.mark.full(0)
@pytest.mark.fast(0)
def test_all_numbers_stand_for_programs():
    for number in range(2000, 2200):
        assert trial(number, LAYOUTS)[0].results


# A process that runs nothing, and dies of the programs 3 and 24; and one that dies at once.
DIES_OF_TWO = """
import json, sys
folder, seed, programs = (sys.argv[sys.argv.index(option) + 1] for option in ("--worker", "--seed", "--programs"))
for number in range(int(seed), int(seed) + int(programs)):
    if number in (3, 24):
        sys.exit(f"died of {number}")
    with open(f"{folder}/log.jsonl", "a") as log:
        log.write(json.dumps({"counts": {"programs": 1}, "operations": [f"program {number}"]}) + "\\n")
"""


def session(monkeypatch, code):
    monkeypatch.setattr(fuzz, "COMMAND", [sys.executable, "-c", code])
    return fuzz.Session(argparse.Namespace(minutes=None, programs=30, layouts=1, processes=2, seed=0, keep=None, special=False))


def test_programs_that_end_a_process_are_failures_and_all_others_run_once(monkeypatch, capsys):
    run = session(monkeypatch, DIES_OF_TWO)
    assert run.run() == 1
    assert run.failures == {"abort: died of 3": 1, "abort: died of 24": 1}
    assert run.operations == {f"program {number}": 1 for number in range(30) if number not in (3, 24)}
    assert "the process ended with 1" in capsys.readouterr().out


def test_processes_that_run_nothing_are_given_up(monkeypatch):
    assert session(monkeypatch, "import sys; sys.exit('no')").run() == 2


# A process whose program 3 never ends.
HANGS_IN_ONE = DIES_OF_TWO.replace("if number in (3, 24):", "if number == 3:").replace(
    "sys.exit(", "import time; time.sleep(600); ("
)


@pytest.mark.fast(0)
def test_a_program_that_hangs_is_a_failure(monkeypatch):
    run = session(monkeypatch, HANGS_IN_ONE)
    monkeypatch.setattr(fuzz, "SILENCE", 1.0)
    assert run.run() == 1
    assert run.failures == {"hang 3": 1}
    assert run.operations == {f"program {number}": 1 for number in range(30) if number != 3}
