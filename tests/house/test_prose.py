"""Docstrings, messages and pages use the terms of JAX, in plain American technical English."""

import ast
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parent
while not (ROOT / "pyproject.toml").exists():
    ROOT = ROOT.parent
MODULES = sorted((ROOT / "namedax").rglob("*.py"))
PAGES = sorted(
    [ROOT / "README.md", *(page for page in (ROOT / "docs").rglob("*.md") if page.name not in ("changelog.md", "history.md"))]
)

OPENINGS = re.compile(r"(What|Whether|How|Where|Which|That|Those|Of|Says?|Knows?)\b")
PHRASES = re.compile(
    r"\b(as ever|so many|nobody|everybody|somebody|slip of the pen|is said|are said|those that are meant|is none of|are none of|"
    r"truth values?|is cut over|are cut over|liv(?:es|ing) on|live on|lies on the mesh|lie on the mesh|in words of|in the user's words|"
    r"knows? nothing|is left to say|it must be given|no news)\b",
    re.IGNORECASE,
)

# As PHRASES, for docstrings and messages.
MORE_PHRASES = re.compile(
    r"\b(besides|element types?|the latter|the former|what is (?:sent|kept|held|stored)|tells? (?:how|you|whether|what|which|apart|notebook)|"
    r"real entries|entries along|carried along|feels?|complains?|no news|put together|as it lies|"
    r"\w*(?:colour|behaviour|favour)\w*|neighbours (?:of|on|in|at)|\w+(?:rmalis|ctoris|itialis|ecialis|cognis|rganis|rialis|tilis|nimis|ximis)"
    r"(?:e[sd]?|ing|ation)|centred?|labelled|modelling|cancelled)\b",
    re.IGNORECASE,
)


def texts(module):
    """The strings of a module, each with its line: docstrings, and literals that look like sentences."""
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield node.lineno, node.value


def summaries(module):
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and (doc := ast.get_docstring(node)):
            yield getattr(node, "lineno", 1), doc


def found(pattern, pairs, match):
    return [f"{line}: {text.splitlines()[0]}" for line, text in pairs if getattr(pattern, match)(text)]


@pytest.mark.parametrize("module", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_docstrings_begin_with_a_verb_or_a_noun_phrase(module):
    assert found(OPENINGS, summaries(module), "match") == []


@pytest.mark.parametrize("module", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_docstrings_and_messages_use_standard_terms(module):
    assert found(PHRASES, texts(module), "search") == []
    assert found(MORE_PHRASES, texts(module), "search") == []


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_pages_use_standard_terms(page):
    prose = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    lines = enumerate(prose.splitlines(), 1)
    assert [f"{i}: {line}" for i, line in lines if PHRASES.search(line)] == []


def test_the_patterns_find_the_old_style():
    assert OPENINGS.match("Whether an array is global.")
    assert not OPENINGS.match("Return True if an array is global.")
    assert PHRASES.search("the axis lives on mesh axis 'x'")
    assert not PHRASES.search("the axis is sharded over mesh axis 'x'")
    for old in ("the element type", "Read what is sent", "in the latter case", "vectorised over names", "the centre"):
        assert MORE_PHRASES.search(old)
    for new in ("the dtype", "bytes sent", "vectorized over names", "optimistix", "the notation of neighbors"):
        assert not MORE_PHRASES.search(new)
