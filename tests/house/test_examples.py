"""The examples run as a stranger runs them: in a process of their own, from the command line."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness import environment_without_devices

ROOT = Path(__file__).parents[2]
STEPS = 12

# In every assignment, how the layouts mark the names that are placed.
PLACED = {
    "none": {},
    "batch": {"batch": "@x"},
    "hidden": {"hidden": "@x"},
    "batch + hidden": {"batch": "@x", "hidden": "@y"},
    "inputs + hidden": {"inputs": "@x", "hidden": "@y"},
    "batch on two": {"batch": "@(x,y)"},
    "all three": {"batch": "@x", "inputs": "@y", "hidden": "@z"},
}


def run_digits(*arguments):
    """Runs `examples/digits.py`; its environment has no trace of this process's devices."""
    command = [sys.executable, str(ROOT / "examples" / "digits.py"), *map(str, arguments)]
    options = {"capture_output": True, "encoding": "utf-8", "timeout": 300}
    return subprocess.run(command, env=environment_without_devices(), **options)


# One run of the demonstration for all of them, in a process of its own.
pytestmark = pytest.mark.fast(0)


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    """A short run of the digits example, and the picture that it saved."""
    picture = tmp_path_factory.mktemp("digits") / "in a new folder" / "digits.png"
    run = run_digits("--steps", STEPS, "--skip-accuracy", "--out", picture)
    assert run.returncode == 0, run.stderr
    return run, picture


@pytest.fixture(scope="module")
def rows(digits):
    """The rows of the closing table: `{assignment: the other columns}`."""
    lines = digits[0].stdout.splitlines()
    (start,) = [i for i, line in enumerate(lines) if line.startswith("assignment ")]
    columns = [re.split(r"\s{2,}", line) for line in lines[start + 2 : lines.index("", start)]]
    return {title: rest for title, *rest in columns}


@pytest.mark.full(0)
def test_the_table_has_every_assignment(rows):
    assert list(rows) == list(PLACED)


def test_the_loss_curves_agree(digits, rows):
    x64 = os.environ.get("JAX_ENABLE_X64", "0").lower() in ("1", "true")
    rounding = 2.3e-16 if x64 else 1.2e-7
    found = {title: float(columns[-1]) for title, columns in rows.items()}
    assert found.pop("none") == 0
    assert max(found.values()) < 50 * rounding, found
    assert "The loss curves agree to a relative" in digits[0].stdout


def test_the_loss_falls(rows):
    assert all(0 < float(columns[-2]) < 0.5 for columns in rows.values()), rows


@pytest.mark.full(0)
def test_a_step_communicates_no_more_than_it_must(rows):
    assert {title: columns[0].partition(" (")[0] for title, columns in rows.items()} == {
        "none": "none",
        "batch": "1 all-reduce",
        "hidden": "1 all-reduce",
        "batch + hidden": "2 all-reduce",
        "inputs + hidden": "2 all-reduce",
        "batch on two": "1 all-reduce",
        "all three": "3 all-reduce",
    }


@pytest.mark.full(1)
@pytest.mark.parametrize("title", PLACED)
def test_every_array_is_placed_as_the_assignment_says(digits, title):
    paragraphs = digits[0].stdout.split("\n\n")
    (paragraph,) = [p for p in paragraphs if p.startswith(f"{title}: axis_resources=")]
    found = dict(re.findall(r"^    (\w+) +[fi]\d\d\[\]\{(.*)\}$", paragraph, re.MULTILINE))
    marks = {"batch": "", "inputs": "", "hidden": "", **PLACED[title]}
    assert found == {
        "w1": "inputs:64{inputs}, hidden:128{hidden}".format(**marks),
        "w2": "hidden:128{hidden}, classes:10".format(**marks),
        "images": "batch:1408{batch}, inputs:64{inputs}".format(**marks),
        "labels": "batch:1408{batch}".format(**marks),
    }


def test_the_picture_is_a_png(digits):
    from matplotlib import image

    run, picture = digits
    assert picture.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    pixels = image.imread(picture)
    assert min(pixels.shape[:2]) > 1000
    assert pixels[..., :3].std() > 0.05  # not an empty sheet
    assert run.stdout.rstrip().endswith("digits.png.")


@pytest.mark.full(0)
def test_no_progress_bar_where_there_is_no_terminal(digits):
    run, _ = digits
    assert "█" not in run.stdout + run.stderr


@pytest.mark.full(0)
def test_a_network_that_learned_too_little_is_an_error(tmp_path):
    run = run_digits("--steps", 1, "--out", tmp_path / "digits.png")
    assert run.returncode != 0
    assert re.search(r"AssertionError: none: only \d\d\.\d%", run.stderr), run.stderr


@pytest.mark.full(0)
def test_a_layout_is_planned_from_the_command_line(tmp_path):
    command = [
        sys.executable,
        str(ROOT / "examples" / "plan.py"),
        f"{ROOT / 'examples' / 'transformer_model.py'}:loss",
        "--mesh",
        "x=4",
    ]
    options = ["--set", "layers=2,pos=32", "--names", "batch,hidden,embed_fsdp", "--tries", "6", "--out", str(tmp_path / "new")]
    run = subprocess.run(
        [*command, *options], env=environment_without_devices(), capture_output=True, encoding="utf-8", timeout=300
    )
    assert run.returncode == 0, run.stderr
    table = (tmp_path / "new" / "plan.txt").read_text()
    assert table.startswith("Layouts of loss on x=4 of v5p: ")
    assert table in run.stdout
    assert run.stderr == ""
    assert (tmp_path / "new" / "plan.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")


@pytest.mark.full(0)
def test_a_training_goes_on_under_every_layout():
    command = [sys.executable, str(ROOT / "examples" / "checkpoints.py"), "--steps", "6", "--layout", "both over all"]
    run = subprocess.run(command, env=environment_without_devices(), capture_output=True, encoding="utf-8", timeout=300)
    assert run.returncode == 0, run.stderr
    curves = [line.split()[2:] for line in run.stdout.splitlines() if line.startswith("    goes on")]
    assert len(curves) == 5
    assert all(len(curve) == 6 and float(curve[-1]) < float(curve[0]) for curve in curves)
    assert "params/w1 {'inputs': 12, 'hidden': 16}" in run.stdout
    assert "requested as f32[]{inputs:12, hiden:16}: no axis 'hiden' is stored there. Did you mean 'hidden'?" in run.stdout


@pytest.mark.full(0)
def test_a_training_goes_on_with_half_of_the_devices():
    """Transferred, restored after a failure, and from the copy of the other half: the script compares the losses."""
    command = [sys.executable, str(ROOT / "examples" / "elastic.py"), "--steps", "6", "--memory", "1024"]
    run = subprocess.run(command, env=environment_without_devices(), capture_output=True, encoding="utf-8", timeout=300)
    assert run.returncode == 0, run.stderr
    names = ("transferred", "restored", "from the other copy")
    curves = [line.split()[-6:] for line in run.stdout.splitlines() if line.strip().startswith(names)]
    assert len(curves) == 3
    assert all(float(curve[-1]) < float(curve[0]) for curve in curves)
    assert "The plan for the four that remain: {'batch': 'data', 'hidden': 'model'}" in run.stdout
    assert "After a failure, 3 of 8 arrays are incomplete." in run.stdout
    assert run.stdout.rstrip().endswith("The losses agree.")


@pytest.mark.full(0)
def test_packing_trains_as_padding_does():
    """Padded documents, and packed ones whose tokens are on eight devices: the script compares their losses, which fall."""
    command = [sys.executable, str(ROOT / "examples" / "packing.py"), "--steps", "12", "--ways", "0", "4"]
    run = subprocess.run(command, env=environment_without_devices(), capture_output=True, encoding="utf-8", timeout=300)
    assert run.returncode == 0, run.stderr
    rows = {line[:24].strip(): line[24:].split() for line in run.stdout.splitlines() if line.startswith("pa")}
    assert list(rows) == ["padded", "packed, tokens on 8"]
    assert float(rows["padded"][-1]) < 0.9 * float(rows["padded"][-2])
    assert "the losses per token agree" in run.stdout


@pytest.mark.full(0)
def test_the_transformer_takes_the_layout_that_is_planned(tmp_path):
    command = [
        sys.executable,
        str(ROOT / "examples" / "transformer.py"),
        "--plan",
        "v5e",
        "--steps",
        "2",
        "--layers",
        "1",
        "--pos",
        "16",
    ]
    command += ["--no-save", "--prompt", "", "--out", str(tmp_path)]
    run = subprocess.run(command, env=environment_without_devices(), capture_output=True, encoding="utf-8", timeout=300)
    assert run.returncode == 0, run.stderr
    assert re.search(r"^the plan for 8 v5e: \{.*\} on \{.*\}$", run.stdout, re.M)
    assert "planned" in run.stdout
    assert "a step sends" in run.stdout


@pytest.mark.full(0)
@pytest.mark.fast(0)
def test_diloco_sends_a_part_of_the_bytes_over_the_slow_axis(tmp_path):
    picture = tmp_path / "diloco.png"
    command = [sys.executable, str(ROOT / "examples" / "diloco.py"), "--steps", "24", "--every", "8", "--out", str(picture)]
    run = subprocess.run(command, env=environment_without_devices(), capture_output=True, encoding="utf-8", timeout=300)
    assert run.returncode == 0, run.stderr
    rows = {row[:26].strip(): row[26:].replace(",", "").split() for row in run.stdout.splitlines()[1:4]}
    size = 4 * (32 * 256 + 256 + 256 * 16)
    sent = {label: float(row[0]) for label, row in rows.items()}
    assert sent == {
        "synchronous, one level": size,
        "synchronous, two levels": size // 4,
        "DiLoCo, every 8 steps": size // 4 // 8,
    }
    assert all(float(row[2]) < 0.8 * float(row[1]) for row in rows.values())
    assert picture.read_bytes().startswith(b"\x89PNG")
