"""The examples of the gallery, run from the command line with a few steps: each compares at least four assignments, and saves a picture."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness import environment_without_devices

EXAMPLES = Path(__file__).parents[2] / "examples"
# Those that are written with examples/gallery.py.
GALLERY = sorted(path.stem for path in EXAMPLES.glob("*.py") if "from gallery import" in path.read_text())

# What a step sends under some of the assignments: one for each kind of layout that the example is about.
SENDS = {
    "heat_and_shallow_water": {
        "one device": "none",
        "strips of rows": "2 collective-permute (2.0 KiB)",
        "blocks": "45 collective-permute (34.5 KiB)",
        "members": "none",
    },
    "pencil_fft": {
        "one device": "none",
        "slabs": "2 all-to-all (216.0 KiB)",
        "pencils, 2 x 4": "4 all-to-all (432.0 KiB)",
    },
    "gaussian_process": {"one device": "none", "starts": "none", "points": "7 all-reduce (16.6 KiB)"},
    "mcmc": {"one device": "none", "chains": "none", "observations": "11 all-reduce (20.2 KiB)"},
    "graph_network": {
        "one device": "none",
        "edges": "5 all-reduce (81.0 KiB)",
        "edges and nodes": "9 all-reduce (2.6 KiB), 4 all-gather (96.0 KiB), 3 reduce-scatter (80.0 KiB)",
    },
}


@pytest.mark.rest(3)
@pytest.mark.full
@pytest.mark.parametrize("name", GALLERY)
def test_an_example_compares_its_assignments(name, tmp_path):
    picture = tmp_path / "new" / f"{name}.png"
    command = [sys.executable, str(EXAMPLES / f"{name}.py"), "--steps", "6", "--out", str(picture)]
    run = subprocess.run(command, env=environment_without_devices(), capture_output=True, encoding="utf-8", timeout=300)
    assert run.returncode == 0, run.stderr
    counts = re.findall(r"The numbers of (\d+) assignments agree to a relative \d\.\d", run.stdout)
    tables = [table.partition("\n\n")[0].splitlines() for table in run.stdout.split("a step sends\n")[1:]]
    assert [len(rows) for rows in tables] == list(map(int, counts))
    assert min(map(len, tables)) >= 4
    for rows in tables:
        assert rows[0].endswith("none")  # one device
        assert not all(row.endswith("none") for row in rows)
    found = {(row[:22].strip(), row[33:].strip()) for rows in tables for row in rows}
    assert set(SENDS.get(name, {}).items()) <= found, found
    assert picture.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")


def test_there_is_a_gallery():
    assert GALLERY
    said = (EXAMPLES / "README.md").read_text()
    assert not [name for name in GALLERY if f"`{name}.py`" not in said]


def test_the_page_has_every_example_with_its_picture():
    docs = EXAMPLES.parent / "docs"
    text = (docs / "gallery.md").read_text()
    found = re.findall(r"^## `(\w+)\.py`$", text, re.M)
    assert found == ["digits", *GALLERY]
    assert re.findall(r"static/gallery/(\w+)\.webp", text) == found
    assert sorted(path.stem for path in (docs / "static" / "gallery").iterdir()) == sorted(found)
