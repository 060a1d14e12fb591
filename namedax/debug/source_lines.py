"""Statements of user code: the text of a line, the targets that it assigns, and its file."""

from __future__ import annotations

import ast
import functools
import linecache
import os
import sysconfig
from collections.abc import Iterator
from types import FrameType
from typing import Any

import jax

from namedax.core.records import Record

__all__ = ["Statement", "file_name", "is_of_user", "statement_at"]


class Statement(Record):
    """A statement of a file, or a line of it that has no readable source.

    Attributes:
      path: the file.
      line: its first line.
      last_line: the last line of it, or of its header if it holds other statements.
      text: its text in one line, without its indentation.
      indent: the columns of its indentation.
      returns: True if its value is the result of the function.
      assigned: the texts of targets such as `self.h` and `state["h"]`, which are no variables.
    """

    path: str
    line: int
    last_line: int
    text: str
    indent: int = 0
    returns: bool = True
    assigned: tuple[str, ...] = ()

    def targets(self, frame: FrameType) -> Iterator[tuple[str, Any]]:
        """Return the values of the targets that are no variables, after the statement has run."""
        for text in self.assigned:
            found, value = _value_of(ast.parse(text, mode="eval").body, frame)
            if found:
                yield text, value


def _value_of(node: ast.expr, frame: FrameType) -> tuple[bool, Any]:
    """Return True and the value of `a.b["c"]`, without calls of user code; False if there is none.

    Only attributes in the dictionary of an object and items of dictionaries and lists are read.
    """
    if isinstance(node, ast.Name):
        return node.id in frame.f_locals, frame.f_locals.get(node.id)
    if isinstance(node, ast.Attribute):
        found, value = _value_of(node.value, frame)
        own = getattr(value, "__dict__", {}) if found else {}
        return node.attr in own, own.get(node.attr)
    if isinstance(node, ast.Subscript):
        found, value = _value_of(node.value, frame)
        key = node.slice.value if isinstance(node.slice, ast.Constant) else None
        if isinstance(node.slice, ast.Name):
            key = frame.f_locals.get(node.slice.id)
        if found and type(value) is dict and isinstance(key, (str, int)):
            return key in value, value.get(key)
        if found and type(value) is list and isinstance(key, int) and -len(value) <= key:
            return key < len(value), value[key] if key < len(value) else None
    return False, None


def statement_at(path: str, line: int, frame: FrameType) -> Statement:
    """Return the statement that a line belongs to; in a lambda, the lambda.

    Args:
      path: the file of the code.
      line: the line.
      frame: a frame of the code, for a file that exists only in memory, such as a notebook's cell.
    """
    source = _source(path, frame)
    code = frame.f_code
    if code.co_name == "<lambda>":
        columns = [at[2] for at in code.co_positions() if at[0] == line and at[2] and at[3]]
        for first, last, at, end, text in _lambdas(source):
            if first <= line <= last and columns and at <= min(columns) and max(columns) <= end:
                return Statement(path, first, last, text)
    return _statements(path, source).get(line) or Statement(path, line, line, f"line {line}")


def _source(path: str, frame: FrameType) -> str:
    return "".join(linecache.getlines(path, frame.f_globals))


@functools.lru_cache(maxsize=256)
def _lambdas(source: str) -> list[tuple[int, int, int, int, str]]:
    """Return first and last line, columns and text of each lambda, inner ones first."""
    try:
        nodes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Lambda)]
    except SyntaxError:
        return []
    found = []
    for node in nodes:
        last, end = node.end_lineno or node.lineno, node.end_col_offset or 0
        text = " ".join((ast.get_source_segment(source, node) or "lambda").split())
        is_one_line = last == node.lineno
        columns = (node.col_offset, end) if is_one_line else (0, len(source))
        found.append((node.lineno, last, *columns, text))
    return sorted(found, key=lambda one: (one[1] - one[0], one[3] - one[2]))


@functools.lru_cache(maxsize=256)
def _statements(path: str, source: str) -> dict[int, Statement]:
    """Return the innermost statement of each line."""
    try:
        tree = ast.parse(source)
    except SyntaxError:  # a cell with commands of IPython
        lines = source.splitlines()
        return {
            i: Statement(path, i, i, text.strip(), len(text) - len(text.lstrip()))
            for i, text in enumerate(lines, 1)
        }
    lines, found = source.splitlines(), dict[int, Statement]()
    # breadth first, so that inner statements replace outer ones
    for node in ast.walk(tree):
        if isinstance(node, (ast.stmt, ast.ExceptHandler, ast.match_case)):
            statement = _statement(path, lines, node)
            for line in range(statement.line, statement.last_line + 1):
                found[line] = statement
            for decorator in getattr(node, "decorator_list", ()):
                found[decorator.lineno] = statement
    return found


def _statement(
    path: str, lines: list[str], node: ast.stmt | ast.ExceptHandler | ast.match_case
) -> Statement:
    place = node.pattern if isinstance(node, ast.match_case) else node
    first, last = place.lineno, place.end_lineno or place.lineno
    inner = getattr(node, "body", None)
    if isinstance(node, ast.Match):
        inner = [case.pattern for case in node.cases]
    if inner:  # a compound statement: its header
        begin = inner[0].lineno
        last = max(first, begin - 1 if begin > first else first)
    targets = (
        node.targets
        if isinstance(node, ast.Assign)
        else [node.target]
        if isinstance(node, (ast.AugAssign, ast.AnnAssign))
        else []
    )
    assigned = tuple(
        ast.unparse(target)
        for target in targets
        if isinstance(target, (ast.Attribute, ast.Subscript))
    )
    text = " ".join(line.strip() for line in lines[first - 1 : last])
    return Statement(
        path,
        first,
        last,
        text.split(" #", 1)[0] if "'" not in text and '"' not in text else text,
        len(lines[first - 1]) - len(lines[first - 1].lstrip()),
        isinstance(node, ast.Return),
        assigned,
    )


@functools.cache
def _libraries() -> tuple[str, ...]:
    """Return the folders of namedax, of JAX, of Python, and of installed packages."""
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    paths = sysconfig.get_paths()
    folders = (here, os.path.dirname(jax.__file__), *map(paths.get, _FOLDERS))
    return tuple(path + os.sep for path in folders if path)


_FOLDERS = ("stdlib", "platstdlib", "purelib", "platlib")


def is_of_user(frame: FrameType) -> bool:
    """Return True if a frame runs user code: not an installed package, nor generated methods."""
    path, within = frame.f_code.co_filename, frame.f_globals
    if not _is_of_user(path):
        return False
    if path != "<string>":
        return True
    # Classes of fields have methods from text, in the namespace of their module. The text of
    # `python -c` has the same path.
    return not (
        frame.f_code.co_name.startswith("__")
        or str(within.get("__name__", "")).startswith("namedtuple_")
        or not _is_of_user(str(within.get("__file__", "")))
    )


@functools.lru_cache(maxsize=65536)
def _is_of_user(path: str) -> bool:
    return not path.startswith((*_libraries(), "<frozen"))


def file_name(path: str) -> str:
    """Return the name of a file without its folder."""
    return os.path.basename(path)
