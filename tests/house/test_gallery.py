"""The examples of the gallery, run from the command line with a few steps: each compares at least four assignments, and saves a picture."""

import importlib
import re
import subprocess
import sys
from pathlib import Path

import jax
import pytest

import namedax as nx
from namedax.models import common, show
from tests.harness import environment_without_devices
from tools import gallery

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


@pytest.mark.full(0)
@pytest.mark.fast(0)
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
    found = re.findall(r"static/gallery/(\w+)\.webp", text)
    assert found == ["digits", *GALLERY]
    assert re.findall(r"^## (.*)$", text, re.M) == [gallery.TITLES[name] for name in found]
    assert re.findall(r"\.\./examples/(\w+)\.py", text) == found
    assert text.startswith(gallery.HEAD)
    for name in found:
        assert gallery.image(name, gallery.described(EXAMPLES / f"{name}.py")[0]) in text
    assert gallery.MAPS < {*found}
    assert not [
        line
        for block in text.split("```text")[1:]
        for line in block.split("```")[0].splitlines()
        if len(line) > gallery.COLUMNS
    ]
    assert sorted(path.stem for path in (docs / "static" / "gallery").iterdir()) == sorted(found)


MODELS = EXAMPLES.parent / "namedax" / "models"
PAGES = EXAMPLES.parent / "docs" / "models"
# The models; the other modules of the package are what they and the commands share.
SHOWN = sorted(path.stem for path in MODELS.glob("*.py") if "\ndef loss(" in path.read_text())


def test_every_model_has_a_page():
    assert len(SHOWN) >= 7
    assert sorted(path.stem for path in PAGES.glob("*.md")) == sorted([*SHOWN, "index"])
    index = (PAGES / "index.md").read_text()
    assert index.startswith(gallery.MODELS_HEAD)
    assert re.findall(r"\((\w+)\.md\)", index) == SHOWN
    assert "(models/index.md)" in (PAGES.parent / "gallery.md").read_text()


@pytest.mark.parametrize("name", SHOWN)
def test_the_page_of_a_model_has_its_reports(name):
    text = (PAGES / f"{name}.md").read_text()
    assert "A step under 'fsdp+tp' on data=4, model=2" in text
    assert re.findall(r"Layouts of step on ([\w=, ]+) of", text) == [
        f"x={x}, y={y}" for x, y in map(show.MESHES.get, show.planned(show.Step(name))[0])
    ]
    assert re.search(r"^\*  +[\d.]+ m?s", text, re.M)
    titles = re.findall(r"^\| ([\w+, ]+) \| \w+=\d", text, re.M)
    experts = "expert" in show.Step(name).config.sizes()
    layouts = common.LAYOUTS
    assert titles == [title for title in layouts if title != "one device" and (experts or not title.startswith("ep"))]
    assert f"(../../namedax/models/{name}.py)" in text
    names = common.axis_names(show.Step(name).config)
    rows = re.findall(r"^\| ([\w+, ]+) \| \w+=\d[^|]*\| `(.*)` \|$", text, re.M)
    assert len(rows) == len(titles)
    for title, shown in rows:
        axes, resources = layouts[title]
        assert str({axis: entry for axis, entry in resources.items() if axis in names}) == shown, title
        assert axes


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize(
    ("name", "case"), [("llama", "qwen3"), ("mixtral", "qwen3_moe"), ("dit", "dit"), ("qwen2_vl", "qwen2_vl")]
)
def test_the_page_of_a_model_loads_a_checkpoint(name, case, tmp_path, monkeypatch):
    from tests.models.test_models import model_of, params_of

    module, config = model_of(case)
    params = params_of(case)
    (tmp_path / "config.json").write_text(str(importlib.import_module("tests.models.loading").golden(case)["config"]))
    nx.interop.save_safetensors(params, module.spec(config), tmp_path / "model.safetensors")
    block = re.search(r"```py\n(.*?)```", (PAGES / f"{name}.md").read_text(), re.S)[1]
    assert max(map(len, block.splitlines())) <= 80
    monkeypatch.chdir(EXAMPLES.parent)
    scope = {}
    exec(re.sub(r'folder = "[^"]*"', f"folder = {str(tmp_path)!r}", block), scope)
    assert scope["layout"]["batch"] == "data"  # the step has a batch, which no parameter has
    loaded = dict(common.places(scope["model"].params))
    for place, array in common.places(params):
        assert bool(nx.all(loaded[place] == array, ...)), place
    assert not jax.tree.leaves(loaded["layers/query"])[0].sharding.is_fully_replicated
