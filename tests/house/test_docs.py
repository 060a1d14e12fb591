"""The Python blocks of README and docs run, those of the notebooks among them, and the values that their comments state are right.

Each page runs from top to bottom in a fresh process, without simulated devices (`page_runner`): what a page needs, its first block sets up.
"""

import ast
import json
import os
import pathlib
import re
import subprocess
import sys

import pytest

from tests.flags import WITHOUT_DEVICES
from tests.house import page_runner

ROOT = pathlib.Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])
WITH_CODE = [page for page in PAGES if page_runner.blocks(page.read_text())]
# `make docs` executes the notebooks, each in a kernel of its own; what these state is compared before a release, and what takes a minute.
_LONG = (
    "2_a_network.md",
    "3_eight_devices.md",
    "4_a_transformer.md",
    "5_science.md",
    "6_your_own_operation.md",
    "7_a_published_model.md",
    "choose_a_layout.md",
)


def run_alone(page):
    """The finished process in which a page ran, with its output."""
    environment = {**os.environ, "XLA_FLAGS": WITHOUT_DEVICES, "PYTHONPATH": str(ROOT), "PYTHONUTF8": "1", "MPLBACKEND": "agg"}
    for name in ("JAX_TRACEBACK_FILTERING", "JAX_NUM_CPU_DEVICES"):
        environment.pop(name, None)
    command = [sys.executable, page_runner.__file__, str(page)]
    return subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, encoding="utf-8", timeout=600)


@pytest.mark.full(14)
@pytest.mark.fast(0)
@pytest.mark.parametrize(
    "page", [pytest.param(p, marks=pytest.mark.full(0) if p.name in _LONG else ()) for p in WITH_CODE], ids=lambda p: p.name
)
def test_page_runs(page):
    run = run_alone(page)
    assert run.returncode == 0, run.stderr
    checked = json.loads(run.stdout.splitlines()[-1])["checked"]
    assert checked or page.name not in ("README.md", "concepts.md", "axis_mappings.md")


# --- the devices of a page ------------------------------------------------------------------------------------------------

SET_UP = 'jax.config.update("jax_num_cpu_devices", 8)'


def needs_devices(tree):
    """Whether code makes a mesh of more than one device, or asks for devices by their number."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in ("make_mesh", "create_device_mesh"):
            sizes = node.args[0] if node.args else None
            if sizes is None or ast.unparse(sizes) not in ("(1,)", "(1, 1)"):
                return True
        if isinstance(node, ast.Subscript) and ast.unparse(node.value) == "jax.devices()" and ast.unparse(node.slice) != "0":
            return True
    return False


def sets_up_devices(block):
    """Whether a block sets up eight devices before it does anything but import and set environment variables."""
    for node in ast.parse(block).body:
        if ast.unparse(node).replace("'", '"') == SET_UP:
            return True
        environment = isinstance(node, (ast.Assign, ast.Expr)) and ast.unparse(node).startswith("os.environ")
        if not isinstance(node, (ast.Import, ast.ImportFrom)) and not environment:
            return False
    return False


@pytest.mark.parametrize("page", WITH_CODE, ids=lambda p: p.name)
def test_first_block_sets_up_the_devices(page):
    """A cheap check for every commit of what `test_page_runs` proves."""
    found = page_runner.blocks(page.read_text())
    assert sets_up_devices(found[0]) or not any(needs_devices(ast.parse(block)) for block in found), (
        f"{page.name} makes a mesh: its first Python block begins with `import jax` and `{SET_UP}`"
    )


@pytest.mark.parametrize(
    ("first", "right"),
    [
        (f"import jax\n\n{SET_UP}\nmesh = jax.make_mesh((8,), 'x')", True),
        (f"import os\nos.environ['A'] = '1'\nimport jax\n{SET_UP}  # simulate", True),
        (f"import jax\nx = jax.numpy.ones(3)\n{SET_UP}", False),
        ("import jax\njax.config.update('jax_num_cpu_devices', 4)", False),
        ("import jax\nmesh = jax.make_mesh((8,), 'x')", False),
    ],
)
def test_the_set_up_is_found(first, right):
    assert sets_up_devices(first) == right


@pytest.mark.parametrize(
    ("code", "needs"),
    [
        ("mesh = jax.make_mesh((4, 2), ('x', 'y'))", True),
        ("jax.set_mesh(jax.make_mesh(sizes, names))", True),
        ("few = jax.devices()[:4]", True),
        ("mesh = jax.make_mesh((1,), ('x',))", False),
        ("mesh = jax.sharding.AbstractMesh((4, 2), ('x', 'y'))", False),
        ("jax.devices()[0].platform", False),
    ],
)
def test_what_needs_devices(code, needs):
    assert needs_devices(ast.parse(code)) == needs


@pytest.mark.full(1)
@pytest.mark.fast(0)
def test_a_page_that_counts_on_devices_fails(tmp_path):
    """The process of a page has one device, and what fails is said with its block."""
    page = tmp_path / "page.md"
    page.write_text("```python\nimport jax\n```\n\n```python\njax.make_mesh((8,), 'x')\n```\n")
    run = run_alone(page)
    assert run.returncode == 1
    assert "block 2: jax.make_mesh((8,), 'x')\nraises ValueError" in run.stderr
    page.write_text(f"```python\nimport jax\n\n{SET_UP}\nlen(jax.devices())  # 8\n```\n")
    run = run_alone(page)
    assert (run.returncode, json.loads(run.stdout)) == (0, {"checked": 1}), run.stderr


@pytest.mark.parametrize(
    ("code", "fault"),
    [
        ("1 + 1  # 3", "block 1: 1 + 1\ngives 2, but its comment states 3"),
        ("int('a')  # KeyError, not this", "raises ValueError, but its comment states KeyError"),
        ("int('1')  # ValueError", "raises nothing, but its comment states ValueError"),
        ("1 / 0", "raises ZeroDivisionError"),
    ],
)
def test_what_a_comment_states_is_compared(code, fault):
    with pytest.raises(page_runner.PageError, match=re.escape(fault)):
        page_runner.run(f"```python\n{code}\n```")
    assert (
        page_runner.run(
            "```python\n1 + 1  # 2, an integer\nint('a')  # ValueError\n```\n```{code-cell}\n:tags: [x]\n2  # 2\n```"
        )
        == 3
    )


NAMED = re.compile(r"`((?:namedax/)?(?:\w+/)*\w+\.py)` `(\w+)`")
PATH = re.compile(r"`((?:namedax|tests|tools|docs|benchmarks)/[\w/.]*)`")


@pytest.mark.parametrize("page", ["ARCHITECTURE.md", "CONTRIBUTING.md", "docs/guides/xmap_in_300_lines.md"])
def test_what_is_said_to_stand_somewhere_stands_there(page):
    text = (ROOT / page).read_text()
    for path in PATH.findall(text):
        assert (ROOT / path).exists(), path
    for path, name in NAMED.findall(text):
        source = next(file for file in (ROOT / path, ROOT / "namedax" / path) if file.exists()).read_text()
        defined = {node.name for node in ast.walk(ast.parse(source)) if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
        assert name in defined, (path, name)


def test_literal_reads_values_and_leaves_prose():
    assert page_runner.literal("(5,), {'batch': 20, 'k': 7}") == (((5,), {"batch": 20, "k": 7}),)
    assert page_runner.literal("(8, 6), on one device") == ((8, 6),)
    assert page_runner.literal("broadcasts by name") is None
