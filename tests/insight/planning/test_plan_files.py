"""Plans in files: everything that prints and draws comes back equal, and damaged files are rejected with a remedy."""

import copy
import enum
import html.parser
import json
import math
import pickle
import random

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import namedax as nx
from namedax import machines
from namedax.errors import ArgumentError, ArgumentTypeError, NamedaxError
from tests.harness import said
from tests.insight.planning.test_plan import SLOW, abstract, mapped, shapes

ARGS = shapes(4096, 64, 96, 16)


@pytest.fixture(scope="module")
def plan():
    return nx.plan(
        mapped(), *ARGS, mesh=8, machine=machines.v5p, loops={"batch": [4]}, overlap=[False, True], uneven=["hidden"], tries=24
    )


def check_equal(one, other):
    assert one == other
    assert str(one) == str(other)
    assert one._repr_html_() == other._repr_html_()
    for name in (
        "best",
        "mesh",
        "pipeline",
        "front",
        "candidates",
        "advice",
        "refused",
        "machine",
        "memory",
        "sizes",
        "traces",
    ):
        assert getattr(one, name) == getattr(other, name), name
    for a, b in zip(one.candidates, other.candidates, strict=True):
        assert repr(a) == repr(b)
        assert str(a.report) == str(b.report)
        assert a.report.time(one.machine) == b.report.time(other.machine) == a.time


def test_a_plan_comes_back_from_its_text_and_its_file(plan, tmp_path):
    assert any("SerialLoop(4)" in repr(c.axis_resources) for c in plan.candidates)
    assert any(c.overlap for c in plan.candidates)
    text = plan.to_json(tmp_path / "plan.json")
    assert (tmp_path / "plan.json").read_text() == text + "\n"
    for again in (
        nx.Plan.from_json(text),
        nx.Plan.from_json(tmp_path / "plan.json"),
        nx.Plan.from_json(str(tmp_path / "plan.json")),
    ):
        check_equal(plan, again)
    assert again.to_json() == text
    assert json.loads(text)["version"] == 1
    check_equal(plan, pickle.loads(pickle.dumps(plan)))


def test_a_plan_has_the_dict_of_its_machine():
    """A machine has one form in JSON."""
    near = machines.Link(2e11, 1e-6, "switch", reach=4, beyond=machines.Link(1e10, 3e-6, by_size=((1e3, 0.25), (1e6, 1.0))))
    machine = machines.Machine(
        {"bfloat16": 2e14, "float32": 1e14},
        memory=16_000_000_000,
        bandwidth=1e12,
        links={...: near, ("x", "y"): machines.Link(5e10, 0, "line")},
        overlap=True,
        name="two links",
        efficiency={"bfloat16": 0.5},
        sources=("a data sheet",),
    )
    plan = nx.plan(mapped(), *ARGS, mesh=abstract(x=8), machine=machine, tries=2)
    data = json.loads(plan.to_json())
    written = data["plan"]["machine"]
    assert written == json.loads(json.dumps(machine.to_dict()))
    assert machines.Machine.from_dict(written) == machine
    again = nx.Plan.from_json(plan.to_json()).machine
    assert again == machine
    assert again.sources == machine.sources
    assert type(again.memory) is int
    del written["memory"]
    with pytest.raises(ArgumentError) as error:
        nx.Plan.from_json(json.dumps(data))
    assert said(error.value) == (
        "Plan.from_json: the text is not a complete plan: machine: Machine.from_dict: the dict lacks 'memory'. Pass the complete dict of "
        "Machine.to_dict(). Write it again with plan.to_json(path)."
    )


def test_a_plan_from_a_file_explains_its_candidates_only(plan):
    again = nx.Plan.from_json(plan.to_json())
    other = plan.candidates[-1]
    asked = other.axis_resources, other.overlap, other.mesh
    assert str(again.why(*asked)) == str(plan.why(*asked))
    with pytest.raises(ArgumentError) as error:
        again.why({"outputs": "x", "inputs": nx.SerialLoop(2)})
    assert said(error.value) == (
        "Plan.why: {'outputs': 'x', 'inputs': SerialLoop(2)} is not among the candidates, and a plan that was read from a file cannot trace"
        f" the program. Call nx.plan again, or choose from the {len(plan.candidates)} layouts of plan.candidates."
    )
    refused = nx.plan(mapped(), *ARGS, mesh=abstract(x=8), machine=SLOW)
    again = nx.Plan.from_json(refused.to_json())
    for layout, message in refused.refused:
        assert again.why(layout).error == message


class Color(enum.Enum):
    RED = 1


@pytest.mark.parametrize("name", [("batch", 0), ("a", ("b", 1.5)), 'quo"te\n', "größe"], ids=repr)
def test_names_that_are_no_plain_words(name):
    f = nx.xmap(lambda x: nx.sum(x * x, axis=(name,)), [name, ...], [...])
    plan = nx.plan(f, jax.ShapeDtypeStruct((64, 8), "float32"), mesh=abstract(x=8), machine=SLOW)
    assert name in plan.best or plan.best == {}
    again = nx.Plan.from_json(plan.to_json())
    check_equal(plan, again)
    assert [type(key) for key in again.sizes] == [type(name)]


def test_a_name_that_has_no_form_in_json():
    f = nx.xmap(lambda x: nx.sum(x * x, axis=(Color.RED,)), [Color.RED, ...], [...])
    plan = nx.plan(f, jax.ShapeDtypeStruct((64, 8), "float32"), mesh=abstract(x=8), machine=SLOW)
    with pytest.raises(ArgumentTypeError) as error:
        plan.to_json()
    assert said(error.value).endswith(
        "is <Color.RED: 1>, of type Color, which cannot be written. Use strings, numbers, or tuples of these as axis names."
    )


def test_a_plan_that_was_read_opens_files_below_the_folder_only(plan, tmp_path, monkeypatch):
    here, there = tmp_path / "here", tmp_path / "there"
    for folder in (here, there):
        folder.mkdir()
        (folder / "a.py").write_text(f"the line in {folder.name}\n" * 1000)
    (here / "linked").symlink_to(there)
    monkeypatch.chdir(here)
    report = plan.candidates[0].report
    (name,) = report.files
    again = nx.Report.from_dict(report.to_dict())
    for path, is_read in {
        here / "a.py": True,
        "a.py": True,
        there / "a.py": False,
        "../there/a.py": False,
        here / "linked" / "a.py": False,
        here / ".." / "there" / "a.py": False,
        __file__: False,
    }.items():
        data = json.loads(plan.to_json())
        for one in data["plan"]["candidates"]:
            one["report"]["files"] = {name: str(path)}
        read = nx.Plan.from_json(json.dumps(data)).candidates[0].report
        texts = str(read) + read._repr_html_()
        assert ("the line in here" in texts) == is_read, path
        assert "the line in there" not in texts
    assert not again.is_traced
    assert report.is_traced
    assert "def " not in again._repr_html_()  # the tests are not below the folder


# --- files that are no plans ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("{", "Plan.from_json: the text is not a complete plan: it is not JSON"),
        ("", "Plan.from_json: the text is not a complete plan: it is not JSON"),
        ("[]", "Plan.from_json: the text is not a complete plan: the key 'format' is not 'namedax.plan'. Write it again with"),
        (
            '{"format": "namedax.plan", "version": 2}',
            "Plan.from_json: the text has version 2, but this namedax reads version 1. Write",
        ),
        (
            '{"format": "namedax.plan", "version": 1}',
            "Plan.from_json: the text is not a complete plan: the keys are ['format', 'version']",
        ),
        ("no/such/file.json", "Plan.from_json: the file 'no/such/file.json' cannot be read ("),
        ("[" * 100_000, "Plan.from_json: the text is not a complete plan: it is not JSON"),
    ],
    ids=range(7),
)
def test_foreign_texts(source, message):
    with pytest.raises(ArgumentError) as error:
        nx.Plan.from_json(source)
    assert said(error.value).startswith(message)


def test_what_is_no_text():
    with pytest.raises(ArgumentTypeError) as error:
        nx.Plan.from_json(3)
    assert said(error.value) == "Plan.from_json: the argument is of type int. Pass the JSON as a string, or the path of a file."


def test_files_that_are_no_text(tmp_path):
    (tmp_path / "binary").write_bytes(b"\x80\xff" * 100)
    for path in (tmp_path / "binary", tmp_path, "nul\0character"):
        with pytest.raises(ArgumentError, match="cannot be read"):
            nx.Plan.from_json(path)


def nodes(data, path=()):
    """Every place in a tree of JSON."""
    yield path
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in items:
        yield from nodes(value, (*path, key))


def parent_of(data, path):
    for key in path[:-1]:
        data = data[key]
    return data


VALUES = [None, True, -1, 0, 10**400, 1e999, math.nan, -1.5, "", "x", [], {}, [[]], {"class": "SerialLoop"}, {"tuple": 3}]


def damage(whole, rng):
    """Change one place: another value, a missing key, an unknown key, or a cut list."""
    data = copy.deepcopy(whole)
    path = rng.choice([path for path in nodes(data) if path])
    at, key = parent_of(data, path), path[-1]
    kind = rng.randrange(4)
    if kind == 0:
        at[key] = rng.choice(VALUES)
    elif kind == 1:
        del at[key]
    elif kind == 2 and isinstance(at, dict):
        at["more"] = 1
    elif isinstance(at, list):
        at.append(rng.choice(VALUES))
    return data


def damaged_plans(seed, count):
    plan = nx.plan(mapped(), *ARGS, mesh=abstract(x=8), machine=machines.h100, loops={"batch": [4]}, tries=3)
    whole = json.loads(plan.to_json())
    # The reports have hundreds of alike steps: a few of each are enough.
    for one in whole["plan"]["candidates"]:
        one["report"]["steps"] = one["report"]["steps"][:3]
    rng = random.Random(seed)
    for _ in range(count):
        yield json.dumps(damage(whole, rng))
    text = json.dumps(whole)
    for _ in range(count // 4):
        yield text[: rng.randrange(len(text))]


def check_damaged(text):
    """It is rejected, or what was read prints and draws."""
    try:
        plan = nx.Plan.from_json(text)
    except NamedaxError as error:
        assert "Plan.from_json: " in str(error)  # noqa: PT017
        return False
    str(plan), plan._repr_html_()
    for one in plan.candidates:
        str(one.report), one.report._repr_html_(), one.report.summary()
    return True


def test_damaged_files_are_rejected():
    accepted = [check_damaged(text) for text in damaged_plans(0, 120)]
    assert sum(accepted) < len(accepted) / 3  # another number, or another word in a sentence, is a plan too


@pytest.mark.full(0)
@pytest.mark.fast(0)
@pytest.mark.parametrize("seed", range(1, 3))
def test_many_damaged_files_are_rejected(seed):
    for text in damaged_plans(seed, 600):
        if check_damaged(text):
            nx.Plan.from_json(text).draw()


# --- reports -------------------------------------------------------------------------------------------------------------


def layers(w, x):
    return nx.mean(nx.square(nx.dot(x, w, "k")), ["batch", "out"])


def explained(layout, **options):
    mesh = jax.make_mesh((4, 2), ("x", "y"), (jax.sharding.AxisType.Auto,) * 2)
    w, x = nx.named(jnp.ones((8, 4)), ["k", "out"]), nx.named(jnp.ones((16, 8)), ["batch", "k"])
    return nx.explain(nx.xmap(jax.value_and_grad(layers), axis_resources=layout, mesh=mesh), w, x, **options)


@pytest.mark.parametrize("compile", [False, True])
def test_a_report_comes_back(compile):
    report = explained({"batch": "x", "k": "y"}, compile=compile)
    again = nx.Report.from_dict(json.loads(json.dumps(report.to_dict())))
    assert again == report
    assert str(again) == str(report)
    assert again.steps == report.steps  # in the same order
    assert nx.Report.from_dict(report.to_dict()) == report


def test_a_dict_that_is_no_report():
    plain = explained({"batch": "x"}).to_dict()
    for damaged, fact in (
        ({}, "the data lacks the key 'order'"),
        (plain | {"order": "c"}, "the number of collectives, copies and operations differs from 'order'"),
        (plain | {"memory": {}}, "memory lacks the key 'arguments'"),
        (plain | {"more": 1}, "the data has the unknown key 'more', of type str"),
        (plain | {"mesh": {"x": 2.5}}, "mesh['x'] is 2.5, of type float, not an integer of 64 bits"),
        ([], "the data is of type list, not a dict"),
    ):
        with pytest.raises(ArgumentError) as error:
            nx.Report.from_dict(damaged)
        assert said(error.value) == (f"Report.from_dict: {fact}. Pass a dict that Report.to_dict of this version has made.")


def test_a_difference_has_the_lines_that_differ():
    before, after = explained({"batch": "x"}), explained({"batch": ("x", "y")})
    diff = before.diff(after)
    lines = diff.lines
    for line, (old, new) in lines.items():
        assert old == before.by("line")[line]
        assert new == after.by("line")[line]
        assert old != new
    assert before.diff(before).lines == {}
    assert "Lines, largest change first" in str(diff)
    (line,) = (line for line in lines if "test_plan_files.py" in line)
    assert line in str(diff)
    assert "return nx.mean(nx.square(nx.dot" in diff._repr_html_()
    times = diff.times(machines.v5e)
    for old, new in times.values():
        assert old.total >= 0
        assert new.total >= 0
    assert sum(old.total for old, _ in times.values()) == pytest.approx(before.time(machines.v5e))
    assert sum(new.total for _, new in times.values()) == pytest.approx(after.time(machines.v5e))
    assert max(map(len, str(diff).splitlines())) <= 100


# --- one HTML file -------------------------------------------------------------------------------------------------------


class Links(html.parser.HTMLParser):
    """Collects what a browser would request, and the text."""

    def __init__(self):
        super().__init__()
        self.requests, self.text, self.tags = [], [], []

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        for name, value in attributes:
            if name in ("src", "href", "xlink:href", "data", "srcset", "poster") and not (value or "").startswith(
                ("#", "data:")
            ):
                self.requests.append((tag, name, value))
            if name == "style" and "url(" in (value or "") and "url(#" not in value:
                self.requests.append((tag, name, value))

    def handle_data(self, data):
        self.text.append(data)


def read_page(path):
    text = path.read_text()
    page = Links()
    page.feed(text)
    assert page.requests == []
    assert "@import" not in text
    assert "script" not in page.tags
    assert "color-scheme:light dark" in text
    assert path.stat().st_size < 2_000_000
    return page, " ".join("".join(page.text).split())


def test_a_report_is_one_page(tmp_path):
    report = explained({"batch": "x", "k": "y"})
    report.save(tmp_path / "report.html", machines.v5p)
    page, text = read_page(tmp_path / "report.html")
    assert page.tags.count("svg") == 2
    assert "Timeline on v5p" in text
    assert "return nx.mean(nx.square(nx.dot(x, w" in text  # the source line
    report.save(str(tmp_path / "short.html"))
    assert read_page(tmp_path / "short.html")[0].tags.count("svg") == 1


def test_a_plan_is_one_page(plan, tmp_path):
    plan.save(tmp_path / "plan.html")
    page, text = read_page(tmp_path / "plan.html")
    assert page.tags.count("svg") == 3
    assert " ".join(str(plan).split("\n\n")[0].split()) in text
    for one in plan.front:
        assert one.reason in text
    assert "The best layout" in text


def test_notebooks_show_plans_and_candidates(plan):
    text = plan._repr_html_()
    assert "<b>" in text
    assert "linear-gradient" in text
    assert "color:#" not in text  # the colors of the page, in both themes
    best = plan.candidates[0]
    assert best.reason in best._repr_html_()
    assert "computes" in best._repr_html_()
    assert np.all([nx.hlo.size_text(one.peak) in text for one in plan.front])
