"""`python -m namedax.plan`: it plans as `nx.plan` does, and its errors and exit codes are clear."""

import subprocess
import sys
from pathlib import Path

import pytest

import namedax as nx
from namedax.insight.planning.command import main

PROGRAM = """
import jax
import namedax as nx


def loss(w, images):
    return nx.mean(nx.square(nx.dot(images, w, "inputs")), ["batch", "hidden"])


step = nx.xmap(jax.value_and_grad(loss), in_axes=(["inputs", "hidden"], ["batch", "inputs"]), out_axes=({}, ["inputs", "hidden"]))


def types():
    return jax.ShapeDtypeStruct((512, 1024), "float32"), jax.ShapeDtypeStruct((1 << 20, 512), "float32")


def program():
    return step, types()


def with_keywords():
    w, images = types()
    return step, (w,), {"images": images}


def three():
    return 3


def needs(x):
    return step, types()
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a program, in which the command runs."""
    (tmp_path / "planned_program.py").write_text(PROGRAM)
    (tmp_path / "planned_broken.py").write_text("import no_such_module_of_mine\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield tmp_path
    for name in ("planned_program", "planned_broken"):
        sys.modules.pop(name, None)


def test_it_plans_as_the_function_does(folder, capsys):
    arguments = [
        "planned_program:program",
        "--machine",
        "v5p",
        "--mesh",
        "x=4,y=2",
        "--memory",
        "10GB",
        "--names",
        "batch,hidden",
    ]
    assert main([*arguments, "--json", "plan.json", "--html", "plan.html", "--why", "{'hidden': 'x'}"]) == 0
    out = capsys.readouterr().out
    plan = nx.Plan.from_json("plan.json")
    assert out.startswith(str(plan))
    assert "Why not {'hidden': 'x'}?" in out
    assert plan.best == {"batch": ("x", "y")}
    assert plan.memory == 10e9
    assert {name for c in plan.candidates for name in c.axis_resources} == {"batch", "hidden"}
    assert (folder / "plan.html").read_text().startswith("<!DOCTYPE html>")


@pytest.mark.parametrize(
    "program",
    [
        ["planned_program.py:program"],
        ["planned_program:step", "--args", "planned_program:types"],
        ["planned_program.py:with_keywords"],
    ],
    ids=" ".join,
)
def test_the_ways_to_name_a_program(folder, capsys, program):
    arguments = ["--machine", "h100", "--devices", "4", "--names", "batch", "--tries", "2"]
    assert main([*program, *arguments]) == 0
    assert "{'batch': 'x'}" in capsys.readouterr().out


def test_a_name_may_be_pinned(folder, capsys):
    arguments = ["planned_program:program", "--machine", "v5p", "--mesh", "x=4,y=2", "--json", "plan.json", "--tries", "6"]
    assert main([*arguments, "--fixed", "hidden=x", "--fixed", "batch="]) == 0
    plan = nx.Plan.from_json("plan.json")
    assert all(c.axis_resources.get("hidden") == "x" and "batch" not in c.axis_resources for c in plan.candidates)


MACHINE = ["--machine", "v5p", "--devices", "8"]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ([], 2, "plan: there is no program. Pass MODULE:NAME; see --help."),
        (
            ["planned_program", *MACHINE],
            2,
            "plan: 'planned_program' does not name an object. Write MODULE:NAME or FILE.py:NAME.",
        ),
        (["planned:program", *MACHINE], 2, "plan: there is no module 'planned' in "),
        (["planned_broken:program", *MACHINE], 2, "No module named 'no_such_module_of_mine'"),
        (["other.py:program", *MACHINE], 2, "plan: there is no file 'other.py' in "),
        (
            ["planned_program:progam", *MACHINE],
            2,
            "plan: planned_program has no 'progam'. Choose the name of a function that is there.",
        ),
        (
            ["planned_program:step", *MACHINE],
            2,
            "plan: planned_program:step is a mapped function, which needs arguments. Pass --args",
        ),
        (
            ["planned_program:step", "--args", "planned_program:three", *MACHINE],
            2,
            "plan: planned_program:three returns a int. Return",
        ),
        (
            ["planned_program:program", "--args", "planned_program:types", *MACHINE],
            2,
            "plan: --args is given, but planned_program:program",
        ),
        (
            ["planned_program:three", *MACHINE],
            2,
            "plan: planned_program:three does not return a program. Return (f, args) or (f, args,",
        ),
        (
            ["planned_program:needs", *MACHINE],
            2,
            "plan: planned_program:needs is not a function that can be called without arguments",
        ),
        (
            ["planned_program:program", "--machine", "v5q", "--devices", "8"],
            2,
            "plan: --machine=v5q is not a machine. Choose from ",
        ),
        (
            ["planned_program:program", "--machine", "v5p"],
            2,
            "plan: the program has no mesh. Pass --mesh, such as --mesh data=4,model=2",
        ),
        (
            ["planned_program:program", "--mesh", "x=4096"],
            2,
            "plan: --mesh has 4096 devices, but there are 8 to measure. Pass --machine",
        ),
        (["planned_program:program", "--memory", "1MB", "--tries", "4", *MACHINE], 1, "plan: none of "),
        (["planned_program:program", "--names", "bach", *MACHINE], 2, "plan: the program has no axis 'bach' to map."),
        (
            ["planned_program:program", "--why", "x", "--tries", "2", *MACHINE],
            2,
            "plan: --why='x' is not a layout. Write a dict, such as",
        ),
    ],
    ids=range(17),
)
def test_errors_have_a_remedy_and_a_code(folder, capsys, arguments, code, message):
    assert main(arguments) == code
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (["--devices", "0"], "argument --devices: '0' is not a positive integer"),
        (["--mesh", "x=4,x=2"], "argument --mesh: 'x=4,x=2' is not a mesh, such as data=32,model=8"),
        (["--memory", "many"], "argument --memory: 'many' is not a size, such as 32e9, 60GB or 30GiB"),
        (["--names", "a,,b"], "argument --names: 'a,,b' is not a list of names, such as batch,hidden"),
        (["--fixed", "batch"], "argument --fixed: 'batch' is not a pin, such as batch=data"),
        (["--devices", "8", "--mesh", "x=8"], "argument --mesh: not allowed with argument --devices"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_options_that_are_wrong(capsys, option, message):
    with pytest.raises(SystemExit) as stopped:
        main(["planned_program:program", *option])
    assert stopped.value.code == 2
    assert message in capsys.readouterr().err


def test_machines_are_listed(capsys):
    assert main(["--machines"]) == 0
    rows = capsys.readouterr().out.splitlines()
    assert [row.split()[0] for row in rows[1:]] == sorted(
        name for name in nx.machines.__all__ if isinstance(getattr(nx.machines, name), nx.machines.Machine)
    )
    assert "v5p      459 TFLOP/s" in " ".join(rows) or "459 TFLOP/s" in " ".join(rows)


SHADOW = """
import namedax.plan
import namedax as nx
import namedax.plan as imported
from namedax import plan
assert nx.plan is imported is plan is namedax.plan
assert plan.__module__ == "namedax.insight.planning.planner"
assert "plan" in dir(nx)
"""


@pytest.mark.full(0)
@pytest.mark.fast(0)
def test_the_module_does_not_hide_the_function(tmp_path):
    (tmp_path / "planned_program.py").write_text(PROGRAM)
    environment = {"PYTHONPATH": str(Path(nx.__file__).parents[1]), "JAX_PLATFORMS": "cpu", "PATH": ""}
    subprocess.run([sys.executable, "-c", SHADOW], check=True, env=environment, cwd=tmp_path)
    command = [sys.executable, "-m", "namedax.plan", "planned_program.py:program", *MACHINE, "--names", "batch"]
    done = subprocess.run(command, check=False, env=environment, cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert "{'batch': ('x', 'y')}" in done.stdout
    help_text = subprocess.run([*command[:3], "--help"], check=True, env=environment, capture_output=True, text=True).stdout
    assert "exit codes: 0 a plan was found, 1 no layout fits into the memory, 2 an argument is invalid" in help_text
