"""Check what `make bench-counts` and `bench-check` report: counts that have grown, and ratios of times beyond their tolerance."""

import json
import sys
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))
import check
import timing
import tracing

SAME = {**check.VERSIONS, "counts": {"a call": {"functions": [8, 1], "compiled": [0, None]}}}
OTHER = {**SAME, "jax": "0.0.1"}


def found(record, functions, compiled):
    return list(check.more_than_recorded("a call", {"functions": functions, "compiled": compiled}, record))


def test_on_the_versions_of_the_record_no_count_may_grow():
    assert found(SAME, (8, 1), (0, None)) == found(SAME, (7, 3), (0, None)) == []
    assert found(SAME, (9, 1), (1, None)) == [
        "a call: functions is 9, with 8 recorded (the rival: 1, recorded 1).",
        "a call: compiled is 1, with 0 recorded (the rival: None, recorded None).",
    ]


def test_on_other_versions_the_ratio_to_the_rival_may_not_grow():
    assert found(OTHER, (17, 2), (1, None)) == []
    (line,) = found(OTHER, (19, 2), (1, None))
    assert line.startswith("a call: functions is 19")
    (line,) = found(OTHER, (8, 1), (2, None))
    assert line.startswith("a call: compiled is 2")


def test_a_ratio_of_times_may_grow_within_its_tolerance():
    record = {**OTHER, "counts": {"a call": {check.CALLING: [2.0, None]}}}
    assert list(check.more_than_recorded("a call", {check.CALLING: (2.7, None)}, record)) == []
    (line,) = check.more_than_recorded("a call", {check.CALLING: (2.9, None)}, record)
    assert line.startswith(f"a call: {check.CALLING} is 2.9, with 2 recorded")


def test_calls_are_timed_in_turn():
    order = []
    ratio = check.ratio_of_times(lambda: order.append("own"), lambda: order.append("rival"), rounds=3)
    assert order == ["own", "rival"] * 3
    assert ratio > 0


def test_functions_that_a_call_enters_are_counted_without_times():
    def inner():
        return sorted([2, 1])

    def outer():
        return [inner(), inner()]

    assert check.repeatedly(outer, inner, rounds=1, number=1, timed=False) == {check.ENTERED: (3, 1)}
    assert set(check.repeatedly(outer, inner, rounds=1, number=1, timed=True)) == {check.ENTERED, check.CALLING}


def test_benchmarks_read_the_clock_that_they_are_given():
    now = [0.0]

    def taking(*seconds):
        supply = iter(seconds)
        return lambda: now.__setitem__(0, now[0] + next(supply))

    rivals = {"fast": taking(9, 1, 2, 6), "slow": taking(9, 5, 7, 4)}  # the first call is not timed
    assert timing.interleaved(rivals, rounds=3, clock=lambda: now[0]) == {"fast": 2, "slow": 5}


def test_tracing_is_measured_in_processor_time(monkeypatch, capsys):
    clocks = []

    def interleaved(rivals, *, rounds, clock):
        clocks.append(clock)
        return dict.fromkeys(rivals, 0.004)

    monkeypatch.setattr(tracing, "interleaved", interleaved)
    tracing.main()
    assert clocks == [time.process_time]
    assert "xmap, batch sharded         4.00   ratio to jnp in jit of shard_map: 1.00" in capsys.readouterr().out


def test_what_is_not_recorded_is_said():
    (line,) = check.more_than_recorded("another", {"functions": (1, 1)}, SAME)
    assert line == "another: not recorded; run `python benchmarks/check.py --record`."


@pytest.mark.parametrize("part", ["a call with 200 arrays", "eager sum", "transformer, tp"])
def test_the_record_has_namedax_beside_its_rival(part):
    counts = json.loads(check.RECORD.read_text())["counts"][part]
    assert all(own >= 0 and (rival is None or rival >= 0) for own, rival in counts.values())
    # A ratio of times is one to the rival.
    assert any(rival is not None or metric in check.TOLERANCE for metric, (_, rival) in counts.items())
