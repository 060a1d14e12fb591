"""Collecting tests is cheap: modules compile no program when they are imported, and `-k` makes only the cases that it may select."""

import re
import subprocess
import sys

import pytest

from tests import selection
from tests.harness import environment_without_devices

# What few tests need (tests.harness.Lazily). `examples/transformer.py` needs optax, and its layouts are parameters of tests.
OPTIONAL = {
    "IPython",
    "equinox",
    "flax",
    "jedi",
    "matplotlib",
    "orbax",
    "pandas",
    "scipy.optimize",
    "sklearn",
    "torch",
    "xarray",
}


def test_no_module_of_tests_compiles_a_program_when_it_is_imported(imports):
    """Use `tests.make` for arrays, and functions with `functools.cache` for what takes more."""
    compiled, _ = imports
    assert compiled == []


def test_no_module_of_tests_imports_an_optional_library(imports):
    _, modules = imports
    assert OPTIONAL & modules == set()


def words_of(item):
    """The longest words of an item's parameters that `-k WORD` takes as they are."""
    return re.findall("_*[a-z][a-z_]*", item.name.partition("[")[2].lower())


def test_every_word_of_a_name_follows_from_the_parameters(collected):
    """So no case is left out that `-k` selects."""
    functions = {}
    for item in collected:
        if hasattr(item, "callspec"):
            functions.setdefault(item.nodeid.partition("[")[0], []).append(item)
    missed = {}
    for function, items in functions.items():
        marks = [*items[0].iter_markers("parametrize")]
        arguments = [mark.args[0] if isinstance(mark.args[0], str) else ",".join(mark.args[0]) for mark in marks]
        fixtures = {*items[0].callspec.params} - {name.strip() for name in ",".join(arguments).split(",")}
        written = [selection.names(*mark.args, **mark.kwargs) for mark in marks]
        written += [selection.names(name, [item.callspec.params[name] for item in items]) for name in fixtures]
        if None not in written:
            missed |= {word: function for item in items for word in words_of(item) if not any(word in text for text in written)}
    assert missed == {}


MODULE = """
import enum
import re

import pytest


class Color(enum.Enum):
    SCARLET = 1


def crimson(): ...


class Odd:
    def __repr__(self):
        return "ruby"


@pytest.mark.parametrize(
    "shade", ["maroon", "\\nrust", "\\u00e9cru", b"brick\\n", 1.5, True, None, Color.SCARLET, re.compile("wine.red"), crimson, Odd, Odd()]
)
def test_values(shade): ...


@pytest.mark.parametrize(("left", "right"), [pytest.param(1, 2, id="lilac"), pytest.param(1, 2, marks=pytest.mark.mauve), (1, "plum"), [3, 4]])
def test_several(left, right): ...


@pytest.mark.parametrize("a", [1, 1, "x1", "x1"], ids=lambda value: f"teal{value}" if value == 1 else None)
@pytest.mark.parametrize(["b"], [("navy",), ("azure",)])
def test_two(a, b): ...


@pytest.mark.parametrize("a", (name for name in ("olive", "khaki")))
@pytest.mark.parametrize("b", [1, 2], ids=["lime", None])
def test_read_once(a, b): ...


@pytest.mark.parametrize("a", [1, 2], ids=iter(["jade", "moss"]))
def test_names_read_once(a): ...


@pytest.fixture(params=["amber", "ocher"])
def stone(request): ...


def test_fixture(stone): ...


@pytest.mark.parametrize("stone", ["topaz"], indirect=True)
@pytest.mark.usefixtures("stone")
class TestGrouped:
    def test_method(self): ...

    @pytest.mark.sepia
    def test_alone(self): ...


def test_plain(): ...


test_plain.extra = True
"""
RUN = """
import sys
import pytest

class Names:
    def pytest_collection_finish(self, session):
        print(repr((word, [item.nodeid for item in session.items])))

module, *words = sys.argv[1:]
for word in words:
    for plugin in ([], ["-p", "tests.selection"]):
        sys.modules.pop("test_shades", None)  # an iterator in it is read once
        pytest.main([module, "-k", word, "--collect-only", "-qqq", "-p", "no:cacheprovider", "-W", "ignore", *plugin], [Names()])
"""
WORDS = [
    *"nrust xe brick true wine.red crimson ruby lilac mauve teal khaki moss ocher topaz sepia extra method x _".split(),
    *("maroon or lilac", "not values"),
]


@pytest.mark.fast(0)
def test_the_same_tests_are_selected_with_and_without_all_cases(tmp_path):
    module = tmp_path / "test_shades.py"
    module.write_text(MODULE)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    command = [sys.executable, "-c", RUN, str(module), *WORDS]
    run = subprocess.run(command, cwd=tmp_path, env=environment_without_devices(), capture_output=True, text=True, check=True)
    lines = [line for line in run.stdout.splitlines() if line.startswith("(")]
    assert lines[::2] == lines[1::2]
    assert [line[2:].partition("'")[0] for line in lines[::2]] == WORDS
    assert sum("::" in line for line in lines) == 2 * (len(WORDS) - 1)  # not `ruby`
