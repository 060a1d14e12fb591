"""`nx.trace_names`: the types of the values that each source line of a function makes.

Nothing runs: JAX traces the function, and Python's own trace hook (`sys.settrace`) reports each
line that it executes. The values of a line are those of the variables that it has changed. Without
a call of `trace_names` no hook is set, so nothing is slower.
"""

from __future__ import annotations

import ast
import functools
import linecache
import os
import sys
import sysconfig
import traceback
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from types import CodeType, FrameType
from typing import Any

import jax

from namedax.core.array import is_named
from namedax.core.display import type_text
from namedax.core.names import PyTree
from namedax.core.records import Record
from namedax.debug.trace_text import NameTrace, TracedLine
from namedax.errors import ArgumentTypeError, NamedaxError, format_value
from namedax.hlo import size_text
from namedax.insight.analysis.explain import explain
from namedax.messages.call_errors import checks_signature

__all__ = ["trace_names"]


@checks_signature
def trace_names(f: Callable[..., Any], /, *args: PyTree, **kwargs: PyTree) -> NameTrace:
    """Trace a function, and show the types of the values that each of its lines makes.

    Nothing runs. A line that communicates is marked with its collectives. Lines of called functions
    are indented below the line that calls them. A line that a Python loop repeats is shown once for
    each different result.

    Args:
      f: a function over named arrays, or a function that calls mapped ones.
      *args: its arguments: arrays, named arrays, or `jax.ShapeDtypeStruct`s.
      **kwargs: its keyword arguments.

    Returns:
      A `NameTrace`. It prints as lines of 100 columns, with the source on the left and the types on
      the right; a notebook shows a table. `lines` has the records, and `to_dict()` the same as
      plain data. If `f` raises an exception, the trace ends with the line that raised it, and
      `error` is the exception.

    Raises:
      ArgumentTypeError: `f` is not a function, or the arguments do not fit its signature.

    >>> import jax, jax.numpy as jnp, namedax as nx
    >>> mesh = jax.make_mesh((2,), ("x",))
    >>> def loss(w, images):
    ...     hidden = nx.dot(images, w, "k")
    ...     return nx.mean(hidden, ...)
    >>> f = nx.xmap(loss, axis_resources={"batch": "x"}, mesh=mesh)
    >>> w = nx.named(jnp.ones((3, 4)), ["k", "hidden"])
    >>> images = nx.named(jnp.ones((8, 3)), ["batch", "k"])
    >>> trace = nx.trace_names(f, w, images)
    >>> [line.values for line in trace.lines][1:]
    [(('hidden', 'f32[]{batch:8@x, hidden:4}'),), (('return', 'f32[]'),)]
    >>> trace.lines[2].communication
    ('all-reduce over x (batch), 4 B',)
    """
    if not callable(f):
        raise ArgumentTypeError(
            f"nx.trace_names: the first argument must be a function, got {format_value(f)}. Write"
            " nx.trace_names(f, *args), not nx.trace_names(f(*args))."
        )
    recorder = _Recorder()
    error: Exception | None = None
    # A new value in this context makes JAX trace again what it has traced before.
    with _anew(object()):
        try:
            recorder.run(lambda: jax.eval_shape(f, *args, **kwargs))
        except Exception as raised:
            if not _was_called(recorder.roots, raised):  # the call itself failed
                raise
            error = raised
    sent: Mapping[tuple[str, int], list[str]] = {}
    if error is None:
        sent = _communication(f, args, kwargs)
    # Python may run other code at any time, such as finalizers and listeners of JAX's events.
    roots = list(filter(_has_arrays, recorder.roots)) or recorder.roots
    return NameTrace(tuple(_lines(roots, 0, sent)), error)


_anew = jax.make_user_context(None)


def _communication(
    f: Callable[..., Any], args: tuple[PyTree, ...], kwargs: dict[str, PyTree]
) -> Mapping[tuple[str, int], list[str]]:
    """Return the collectives of each line, as text, by file and number."""
    try:
        report = explain(f, *args, **kwargs)
    except NamedaxError:  # a function that cannot be explained still has types
        return {}
    found: dict[tuple[str, int], dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for collective in report.collectives:
        label, _, number = collective.source.rpartition(":")
        if not number.isdigit():
            continue
        names = f" ({', '.join(collective.names)})" if collective.names else ""
        text = f"{collective.kind} over {', '.join(collective.mesh_axes)}{names}"
        if collective.phase == "gradient":
            text += " in the gradient"
        line = found[report.files.get(label, label), int(number)]
        line[text] += collective.bytes * collective.trips
    return {
        at: [f"{text}, {size_text(count)}" for text, count in texts.items()]
        for at, texts in found.items()
    }


class _Line(Record, frozen=False):
    """One statement of a call: its values, and the calls that it makes."""

    statement: _Statement
    values: tuple[tuple[str, str], ...]
    calls: list[Any]
    count: int = 1


class _Call:
    """One call of a function of the user.

    Args:
      code: its code.
      frame: its frame.
      via: the frame of the library that the calling line called, which called the function; `None`
        if the line called it itself.
    """

    def __init__(self, code: CodeType, frame: FrameType, via: FrameType | None):
        self.code, self.via = code, via
        self.lines: list[_Line] = []
        self.open: _Line | None = None
        self.before: dict[str, Any] = {}
        self.texts: dict[Hashable, Any] = {}
        self.header = _statement_at(code.co_filename, code.co_firstlineno, frame)
        self.arguments = _texts(
            (name, frame.f_locals[name])
            for name in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
            if name in frame.f_locals
        )

    def close(self, frame: FrameType, returned: tuple[Any] | None = None) -> None:
        """Record the values of the open line, which has ended."""
        line, self.open = self.open, None
        if line is None:
            return
        values = [
            (name, value)
            for name, value in frame.f_locals.items()
            if name not in self.before or self.before[name] is not value
        ]
        values += line.statement.targets(frame)
        if returned is not None and line.statement.returns:
            values.append(("return", returned[0]))
        line.values = _texts(values)
        for other in self.lines:
            if other is not line and other.statement == line.statement:
                if other.values == line.values and _same(other.calls, line.calls):
                    other.count += 1
                    self.lines.remove(line)
                    break


def _has_arrays(call: _Call) -> bool:
    return bool(call.arguments) or any(
        line.values or any(map(_has_arrays, line.calls)) for line in call.lines
    )


def _was_called(roots: list[_Call], raised: Exception) -> bool:
    """Return True if the user's function ran: a finalizer is recorded too, but raises nothing."""
    codes = {call.code for call in roots}
    frames = (frame for frame, _ in traceback.walk_tb(raised.__traceback__))
    return any(map(_has_arrays, roots)) or any(frame.f_code in codes for frame in frames)


def _same(calls: list[_Call], others: list[_Call]) -> bool:
    return [_shown(call) for call in calls] == [_shown(call) for call in others]


def _shown(call: _Call) -> Hashable:
    return (
        call.code,
        call.arguments,
        tuple((line.statement, line.values, *map(_shown, line.calls)) for line in call.lines),
    )


class _Recorder:
    """Records the lines of user code that run under Python's trace hook."""

    def __init__(self) -> None:
        self.roots: list[_Call] = []
        self._calls: dict[FrameType, _Call] = {}

    def run(self, function: Callable[[], object]) -> None:
        """Call `function` under the hook."""
        before = sys.gettrace()
        sys.settrace(self._on_call)
        try:
            function()
        finally:
            sys.settrace(before)

    def _on_call(self, frame: FrameType, event: str, arg: Any) -> Any:
        code = frame.f_code
        if code.co_name in _INLINE or not _is_of_user(frame):
            return None
        parent, via = self._parent(frame)
        call = _Call(code, frame, via)
        siblings = self.roots if parent is None else parent
        # A library traces a loop or a body again until the types fit; the last trace counts.
        if via is not None and not _is_of_trees(via):
            siblings[:] = [
                other for other in siblings if other.code is not code or other.via is not via
            ]
        siblings.append(call)
        self._calls[frame] = call
        return functools.partial(self._on_line, call)

    def _parent(self, frame: FrameType) -> tuple[list[_Call] | None, FrameType | None]:
        """Return the calls of the line that called a frame, and the library's frame between."""
        via: FrameType | None = None
        around = frame.f_back
        while around is not None:
            call = self._calls.get(around)
            if call is not None:
                return (None if call.open is None else call.open.calls), via
            if around.f_code.co_name not in _INLINE:
                via = around
            around = around.f_back
        return None, via

    def _on_line(self, call: _Call, frame: FrameType, event: str, arg: Any) -> Any:
        if event == "line":
            statement = _statement_at(frame.f_code.co_filename, frame.f_lineno, frame)
            if call.open is not None and call.open.statement == statement:
                return functools.partial(self._on_line, call)  # the next line of one statement
            call.close(frame)
            call.before = dict(frame.f_locals)
            call.open = _Line(statement, (), [])
            call.lines.append(call.open)
        elif event == "return":
            call.close(frame, (arg,))
            call.before = {}  # a tracer in it would count as leaked
            self._calls.pop(frame, None)
        return functools.partial(self._on_line, call)


_INLINE = frozenset({"<listcomp>", "<dictcomp>", "<setcomp>", "<genexpr>"})


def _is_of_trees(frame: FrameType) -> bool:
    """Return True if a function of pytrees calls its function for one leaf after another."""
    return "tree" in _file_name(frame.f_code.co_filename)


# A variable with more arrays, such as all parameters, is shown by their number.
_MOST_ARRAYS = 6


def _texts(values: Iterable[tuple[str, Any]]) -> tuple[tuple[str, str], ...]:
    """Return names and types of the arrays among values, those in pytrees with their path."""
    found: dict[str, str] = {}
    for name, value in values:
        try:
            leaves, _ = jax.tree_util.tree_flatten_with_path(value, is_leaf=is_named)
        except Exception:  # an object that is not complete yet
            continue
        arrays = [(path, leaf) for path, leaf in leaves if is_named(leaf) or hasattr(leaf, "aval")]
        if len(arrays) > _MOST_ARRAYS:
            found[name] = f"{len(arrays)} arrays"
            continue
        for path, leaf in arrays:
            found[f"{name}{jax.tree_util.keystr(path)}"] = type_text(leaf)
    return tuple(found.items())


def _lines(
    calls: Iterable[_Call], depth: int, sent: Mapping[tuple[str, int], list[str]]
) -> Iterable[TracedLine]:
    """Return the lines of calls, each with those of the calls that it makes."""
    for call in calls:
        is_function = not call.code.co_name.startswith("<")
        inner = depth + 1 if is_function else depth
        if is_function:
            yield _record(call.header, depth, call.arguments, (), 1, call.code.co_name)
        indent = min((line.statement.indent for line in call.lines), default=0)
        for line in call.lines:
            at = line.statement
            if at == call.header and not (line.values or line.calls):
                continue  # the body of a class begins with its header
            marks = [
                text
                for number in range(at.line, at.last_line + 1)
                for text in sent.get((at.path, number), ())
            ]
            levels = inner + (at.indent - indent) // 4 if is_function else inner
            yield _record(at, levels, line.values, tuple(marks), line.count, call.code.co_name)
            yield from _lines(filter(_has_arrays, line.calls), levels + 1, sent)


def _record(
    statement: _Statement,
    depth: int,
    values: tuple[tuple[str, str], ...],
    communication: tuple[str, ...],
    count: int,
    function: str,
) -> TracedLine:
    return TracedLine(
        path=statement.path,
        line=statement.line,
        text=statement.text,
        depth=depth,
        function=function,
        values=values,
        communication=communication,
        count=count,
    )


class _Statement(Record):
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


def _statement_at(path: str, line: int, frame: FrameType) -> _Statement:
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
                return _Statement(path, first, last, text)
    return _statements(path, source).get(line) or _Statement(path, line, line, f"line {line}")


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
def _statements(path: str, source: str) -> dict[int, _Statement]:
    """Return the innermost statement of each line."""
    try:
        tree = ast.parse(source)
    except SyntaxError:  # a cell with commands of IPython
        lines = source.splitlines()
        return {
            i: _Statement(path, i, i, text.strip(), len(text) - len(text.lstrip()))
            for i, text in enumerate(lines, 1)
        }
    lines, found = source.splitlines(), dict[int, _Statement]()
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
) -> _Statement:
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
    return _Statement(
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


def _is_of_user(frame: FrameType) -> bool:
    """Return True if a frame runs user code: not an installed package, nor generated methods."""
    path, within = frame.f_code.co_filename, frame.f_globals
    if not _is_path_of_user(path):
        return False
    if path != "<string>":
        return True
    # Classes of fields have methods from text, in the namespace of their module. The text of
    # `python -c` has the same path.
    return not (
        frame.f_code.co_name.startswith("__")
        or str(within.get("__name__", "")).startswith("namedtuple_")
        or not _is_path_of_user(str(within.get("__file__", "")))
    )


@functools.lru_cache(maxsize=65536)
def _is_path_of_user(path: str) -> bool:
    return not path.startswith((*_libraries(), "<frozen"))


def _file_name(path: str) -> str:
    """Return the name of a file without its folder."""
    return os.path.basename(path)
