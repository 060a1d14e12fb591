"""Check `benchmarks/gpu.py` where there is no GPU: what it prints and writes, what it skips, and its exit status."""

import json
import os
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import gpu
import numpy as np

PROGRAM = Path(gpu.__file__)


def ran(*command):
    environment = {**os.environ, "JAX_PLATFORMS": "cpu"}
    return subprocess.run([sys.executable, *command], capture_output=True, text=True, env=environment, timeout=120)


def test_without_a_gpu_it_says_so_and_succeeds(tmp_path):
    path = tmp_path / "found.json"
    done = ran(str(PROGRAM), "--parts", "attention", "--json", str(path))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "There is no GPU: small sizes run on 'cpu'" in done.stdout
    found = json.loads(path.read_text())
    assert found["platform"] == "cpu"
    assert list(found["ratios"]) == list(found["checks"]) == ["attention, 64 positions"]
    assert found["ratios"]["attention, 64 positions"] > 0
    assert found["failures"] == found["skipped"] == []


def test_whatever_does_not_fit_is_printed(capsys):
    assert gpu.main(["--minutes", "0"]) == 0
    lines = capsys.readouterr().out.splitlines()
    skipped = {line.removeprefix("skipped: ") for line in lines if line.startswith("skipped: ")}
    assert {"einsum, Auto", "step of a transformer", "attention, 64 positions", "`exp(x)`", "profile"} <= skipped
    assert "0 checks of values, 0 failures." in lines


def test_a_part_that_runs_for_too_long_is_given_up():
    code = f"""
import sys, time
sys.path.insert(0, {str(PROGRAM.parent)!r})
import gpu
gpu.GRACE = 1
gpu.PARTS["eager"] = lambda run: time.sleep(100)
gpu.main(["--minutes", "0", "--parts", "eager", "profile"])
"""
    done = ran("-c", code)
    assert done.returncode == 0, done.stderr
    assert "skipped: eager (" in done.stdout
    assert "skipped: profile (" in done.stdout


def test_a_wrong_value_or_an_error_is_a_failure(capsys):
    run = gpu.Run(1.0, on_gpu=False)
    gpu.check_value(run, "right", gpu.largest_difference(np.ones(3), np.ones(3)), 1e-4)
    assert run.finish(None) == 0
    for wrong in (np.ones(3) * [1, 1, 1.1], np.ones(4), np.ones(3) * np.nan):
        run = gpu.Run(1.0, on_gpu=False)
        gpu.check_value(run, "wrong", gpu.largest_difference(wrong, np.ones(3)), 1e-4)
        assert run.finish(None) == 1
        assert "failed: wrong: differs by" in capsys.readouterr().out
    run = gpu.Run(1.0, on_gpu=False)
    run.run("eager", lambda run: [].pop())
    assert run.finish(None) == 1
    assert "failed: eager: IndexError" in capsys.readouterr().out


def test_a_check_compares_values_and_gradients_in_every_placement():
    one = gpu.checks()["einsum"]
    for options in gpu.placements(one[3]).values():
        assert gpu.difference_of(one, options) < 1e-4
        assert gpu.difference_of((one[0], lambda x, y: 1.01 * (x @ y), *one[2:]), options) > 1e-3
