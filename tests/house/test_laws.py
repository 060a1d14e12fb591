"""The index of tests/laws.py is that of the laws, and of tests that exist and that `make test` runs."""

import ast
import re
from pathlib import Path

import pytest

from tests.laws import LAWS

TESTS = Path(__file__).parents[1]
MODULES = {path.stem.removeprefix("test_"): path for path in sorted(TESTS.rglob("test_*.py"))}


def functions_of(module):
    """The test functions of a module, each with what is written above it."""
    tree = ast.parse(MODULES[module].read_text())
    return {
        node.name.removeprefix("test_"): [ast.unparse(decorator) for decorator in node.decorator_list]
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    }


def test_the_laws_are_those_of_the_documentation():
    text = (TESTS.parent / "docs" / "guides" / "concepts.md").read_text()
    assert [(int(number), title) for number, title in re.findall(r"^\*\*(\d)\. (.*?)\.\*\*", text, re.MULTILINE)] == list(LAWS)


@pytest.mark.parametrize("law", LAWS, ids=lambda law: f"{law[0]}. {law[1]}")
def test_every_law_has_tests_in_make_test(law):
    listed = [(module, name) for module, names in LAWS[law].items() for name in names.split()]
    assert len(listed) >= 3
    for module, name in listed:
        functions = functions_of(module)
        assert name in functions, f"{MODULES[module]} has no test_{name}"
        assert "pytest.mark.fast(0)" not in functions[name], f"make test leaves out test_{name} of {MODULES[module]}"


def test_modules_that_name_a_law_are_listed():
    """A module that begins with "Law 1", or "Laws 1 and 6", is one of those that the index has for them."""
    for path in MODULES.values():
        first = (ast.get_docstring(ast.parse(path.read_text())) or "").partition(":")[0].partition(",")[0]
        if re.match(r"Laws? \d", first):
            for number in map(int, re.findall(r"\d", first)):
                (tests,) = (tests for (n, _), tests in LAWS.items() if n == number)
                assert path.stem.removeprefix("test_") in tests, f"{path.name} says that it holds law {number}"
