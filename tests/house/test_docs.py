"""The Python blocks of README and docs run, those of the notebooks among them, and the values that their comments state are right.

A comment that is a Python literal (`x.shape  # (5,)`, with more text after a comma or a colon) is compared with what the expression gives,
one that begins with the name of an error says what the statement raises, and other comments are prose.
"""

import ast
import builtins
import pathlib
import re

import pytest

import namedax as nx

ROOT = pathlib.Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])
# A block of a page, or a cell of a notebook, whose first lines may be options (`:tags: [hide-input]`).
_BLOCK = re.compile(r"```(?:python|\{code-cell\}[^\n]*)\n(?::[^\n]*\n)*(.*?)```", re.S)


def statements(block):
    """The statements of a block, each with the comment at its end (or an empty one)."""
    lines = block.splitlines()
    for node in ast.parse(block).body:
        rest = lines[node.end_lineno - 1][node.end_col_offset :].strip()
        yield node, rest[2:] if rest.startswith("# ") else ""


def literal(comment):
    """The Python literal that a comment begins with, or `None` if it is prose."""
    for end in (len(comment), *(m.start() for m in re.finditer(r"[,:;] ", comment))):
        try:
            return (ast.literal_eval(comment[:end]),)
        except (SyntaxError, ValueError):
            continue
    return None


# `make docs` executes the notebooks, too; what these state is compared before a release.
_LONG = ("2_a_network.md", "4_a_transformer.md", "5_science.md", "6_your_own_operation.md")


@pytest.mark.full
@pytest.mark.parametrize(
    "page", [pytest.param(p, marks=pytest.mark.product if p.name in _LONG else ()) for p in PAGES], ids=lambda p: p.name
)
def test_page_runs(page):
    scope = {}
    checked = 0
    for block in _BLOCK.findall(page.read_text()):
        for node, comment in statements(block):
            error = re.match(r"(\w+Error)\b", comment)
            if error:
                with pytest.raises(getattr(nx.errors, error[1], None) or getattr(builtins, error[1])):
                    exec(ast.unparse(node), scope)
                checked += 1
                continue
            value = literal(comment) if isinstance(node, ast.Expr) else None
            if value is None:
                exec(ast.unparse(node), scope)
                continue
            have = eval(ast.unparse(node), scope)
            assert have == value[0] or str(have) == comment, (ast.unparse(node), comment)
            checked += 1
    assert checked or page.name not in ("README.md", "concepts.md", "axis_mappings.md")


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
    assert literal("(5,), {'batch': 20, 'k': 7}") == (((5,), {"batch": 20, "k": 7}),)
    assert literal("(8, 6), on one device") == ((8, 6),)
    assert literal("broadcasts by name") is None
