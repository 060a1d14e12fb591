"""A training step of the models sends as many bytes as one by hand: the formulas of `benchmarks/model_bytes.py`."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import model_bytes as benchmark


# The others are in the table of docs/performance.md.
@pytest.mark.fast(0)
@pytest.mark.full(3)
@pytest.mark.parametrize(("model", "layout"), [("llama", "tp"), ("vit", "ring"), ("mamba", "ring"), ("dit", "ring")])
def test_a_step_sends_the_bytes_of_a_formula(model, layout):
    case = benchmark.Case(model, layout)
    sent, payload = benchmark.measured(case), benchmark.by_hand(case)
    assert sent.payload == payload
    assert sent.wire == pytest.approx(benchmark.wire_bytes(payload, case.devices), rel=1e-4)


@pytest.mark.fast(0)
@pytest.mark.full(1)
@pytest.mark.parametrize("layout", ["tp", "fsdp", "ring"])
def test_the_formula_is_that_of_a_program(layout):
    case = benchmark.Case("llama", layout)
    program = benchmark.Sent.of(benchmark.compiled_by_hand(case))
    assert program.payload == benchmark.by_hand(case)
