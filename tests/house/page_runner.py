"""Runs the Python blocks of one page in this process, as a reader would who pastes them one after the other.

`python tests/house/page_runner.py PAGE` executes the blocks of a page, those of notebooks among them, and compares what their comments state.
The process knows nothing that the page does not say: no simulated devices, no imports. The first block is the first that runs, so it runs alone.
A comment that is a Python literal (`x.shape  # (5,)`, with more text after a comma or a colon) is compared with the value of the expression,
one that begins with the name of an error says what the statement raises, and other comments are prose.
"""

import ast
import builtins
import json
import pathlib
import re
import sys
import traceback
import warnings

# A block of a page, or a cell of a notebook, whose first lines may be options (`:tags: [hide-input]`).
_BLOCK = re.compile(r"```(?:python|\{code-cell\}[^\n]*)\n(?::[^\n]*\n)*(.*?)```", re.S)


class PageError(Exception):
    """A block of a page that fails, or that states another value than it has."""


def blocks(text):
    """The Python blocks of a page, in their order."""
    return _BLOCK.findall(text)


def statements(block):
    """The statements of a block, each with the comment at its end (or an empty one)."""
    lines = block.splitlines()
    for node in ast.parse(block).body:
        rest = lines[node.end_lineno - 1].encode()[node.end_col_offset :].decode().strip()
        yield node, rest[2:] if rest.startswith("# ") else ""


def literal(comment):
    """The Python literal that a comment begins with, or `None` if it is prose."""
    for end in (len(comment), *(m.start() for m in re.finditer(r"[,:;] ", comment))):
        try:
            return (ast.literal_eval(comment[:end]),)
        except (SyntaxError, ValueError):
            continue
    return None


def run(text):
    """Run the blocks of a page in one scope, and return how many of their comments were compared."""
    scope = {"__name__": "page"}
    return sum(
        _step(node, comment, scope, f"block {number}")
        for number, block in enumerate(blocks(text), 1)
        for node, comment in statements(block)
    )


def _step(node, comment, scope, place):
    """Run one statement, and return whether its comment was compared."""
    source = ast.unparse(node)
    if error := re.match(r"(\w+Error)\b", comment):
        _raises(source, error[1], scope, place)
        return True
    value = literal(comment) if isinstance(node, ast.Expr) else None
    try:
        have = (eval if value else exec)(source, scope)
    except BaseException as error:
        raise PageError(f"{place}: {source}\nraises {type(error).__name__}: {error}") from error
    if value and not (have == value[0] or str(have) == comment):
        raise PageError(f"{place}: {source}\ngives {have!r}, but its comment states {comment}")
    return value is not None


def _raises(source, name, scope, place):
    """Run a statement that raises an error of this name: one of `namedax.errors`, or of Python's."""
    try:
        exec(source, scope)
    except Exception as error:
        own = getattr(sys.modules.get("namedax"), "errors", None)
        if not isinstance(error, getattr(own, name, None) or getattr(builtins, name)):
            raise PageError(f"{place}: {source}\nraises {type(error).__name__}, but its comment states {name}") from error
        return
    raise PageError(f"{place}: {source}\nraises nothing, but its comment states {name}")


def main():
    """Print how many comments were compared, as JSON; the exit status is 1 if a block fails."""
    warnings.simplefilter("error")
    warnings.filterwarnings("ignore", "The chararray class is deprecated", DeprecationWarning)  # as in pyproject.toml
    try:
        checked = run(pathlib.Path(sys.argv[1]).read_text(encoding="utf-8"))
    except PageError as error:
        traceback.print_exception(error.__cause__)
        print(f"\n{error}", file=sys.stderr)
        return 1
    print(json.dumps({"checked": checked}))
    return 0


if __name__ == "__main__":
    sys.path.pop(0)  # this folder: a reader has none of its modules
    sys.exit(main())
