"""Names of operations in programs: `jax.named_scope`s such as `nx.sum{batch}`.

Profiles, compiled programs and reports show them. A scope is `nx.`, the operation as users call it,
and its axis names in braces, separated by commas; a renaming is `new:old`. Within an operation no
other operation opens a scope, unless user code runs there. So the last scope of a name stack is the
operation that an equation belongs to. Kernels are shared by all names and open none.
"""

from __future__ import annotations

import contextvars
import functools
from collections.abc import Callable, Hashable, Iterable, Mapping
from types import TracebackType
from typing import Any, TypeVar, TypeVarTuple, cast

import jax

from namedax.core.array import NamedArray
from namedax.core.names import PyTree, escaped, is_name
from namedax.core.records import Record
from namedax.core.region import active_regions, check_regions_live, escaped_blocks
from namedax.errors import UnevenAxisError

__all__ = [
    "DEBUGGING",
    "OPERATIONS_ON_FUNCTIONS",
    "Renaming",
    "Scope",
    "check_scope_names",
    "in_scope",
    "is_in_program",
    "is_open",
    "names_in",
    "qualified",
    "running_operation",
    "scope_of_lifted",
    "scope_text",
    "silent",
    "theirs",
]

#: The beginning of the scopes of functions that show values of the program.
DEBUGGING = "nx.debug"

R = TypeVar("R")
Ts = TypeVarTuple("Ts")

#: The operations that call user functions on blocks, by the text of their scope.
OPERATIONS_ON_FUNCTIONS: set[str] = {"xmap"}

# The scope of the running operation, which covers everything that it does; empty where user code
# runs.
_open: contextvars.ContextVar[str] = contextvars.ContextVar("scope_open", default="")
#: Return the scope of the running operation. It is empty, and so false, where user code runs.
is_open = _open.get

# The modules whose functions users call in a namespace.
_NAMESPACES = {
    "namedax.ops.namespaces.lifting": "lax.",
    "namedax.ops.collectives.": "lax.",
    "namedax.ops.contraction.pdot": "lax.",
    "namedax.ops.experts.": "nn.",
    "namedax.ops.loops.solvers": "scipy.sparse.linalg.",
    "namedax.ops.nn.": "nn.",
    "namedax.ops.random.": "random.",
    "namedax.ops.window.pooling": "nn.",
    "namedax.ops.window.resizing": "image.",
}
_HIDDEN = ("namedax.core.", "namedax.ops.")
_ESCAPES = str.maketrans(dict.fromkeys('/{},:"\\', "_"))


class Renaming(Record):
    """The renaming of an axis from `old` to `new`."""

    new: Hashable
    old: Hashable


@functools.lru_cache(maxsize=4096)
def scope_text(op: str, names: tuple[Hashable, ...], module: str = "") -> str:
    """Return the text of a scope.

    Args:
      op: the operation, as messages call it.
      names: the axis names of the operation, and renamings.
      module: the module of its function, which determines the namespace.

    >>> from namedax.core.name_scopes import Renaming, scope_text
    >>> scope_text("einsum", ("k", Renaming("embed", "embed_fsdp")))
    'nx.einsum{k,embed:embed_fsdp}'
    >>> scope_text("softmax", ("k",), "namedax.ops.nn.activations")
    'nx.nn.softmax{k}'
    """
    texts = [
        name if type(name) is str and name.isascii() and name.isidentifier() else _name_text(name)
        for name in names
    ]
    return f"nx.{qualified(op, module)}{{{','.join(texts)}}}"


@functools.lru_cache(maxsize=1024)
def qualified(op: str, module: str) -> str:
    """Return an operation with its public namespace."""
    space = next((space for room, space in _NAMESPACES.items() if module.startswith(room)), "")
    return space + op.replace("[...]", "")


def scope_of_lifted(function: Callable[..., object], names: tuple[Hashable, ...]) -> str:
    """Return the scope text of a lifted JAX function.

    A function of a namespace has its name there; any other is `nx.nmap`.
    """
    module = function.__module__ or ""
    is_public = module.startswith("namedax.") and not module.startswith(_HIDDEN)
    return scope_text(
        f"{module.removeprefix('namedax.')}.{function.__name__}" if is_public else "nmap", names
    )


def _name_text(name: Hashable) -> str:
    return (
        f"{_name_text(name.new)}:{_name_text(name.old)}"
        if isinstance(name, Renaming)
        else escaped(str(name)).translate(_ESCAPES)
    )


def names_in(axes: object, operands: Iterable[Any] = ()) -> tuple[Hashable, ...]:
    """Return the axis names of an operation, each once.

    Args:
      axes: a name, a position or `None`; a tuple, list or set of these, or a mapping with such
        keys; `...` for all names of `operands`; or an object with names: its `mentioned`, or the
        names that it passes to the argument of its method `renamed`.
      operands: the arrays.
    """
    if type(axes) is str:
        return (axes,)
    if axes is ...:
        return tuple(
            dict.fromkeys(
                dim
                for x in operands
                if isinstance(x, NamedArray)
                for dim in x._dims
                if dim is not None
            )
        )
    if isinstance(axes, (list, set, frozenset, Mapping)) or type(axes) is tuple:
        # A tuple within a sequence is one name.
        parts = ((axis,) if type(axis) is tuple else names_in(axis, operands) for axis in axes)
        return tuple(dict.fromkeys(name for part in parts for name in part))
    if hasattr(axes, "mentioned"):
        return cast("tuple[Hashable, ...]", axes.mentioned)
    if hasattr(axes, "renamed"):
        found: list[Hashable] = []

        def note(name: Hashable) -> Hashable:
            found.append(name)
            return name

        axes.renamed(note)
        return tuple(dict.fromkeys(found))
    return (axes,) if is_name(axes) else ()


class Scope:
    """A context manager that opens the scope of an operation.

    Args:
      text: the text of the scope.
      holds: True if the operation runs user code, whose operations open their own scopes; default:
        False.
    """

    __slots__ = ("_holds", "_scope", "_text", "_token")

    def __init__(self, text: str, holds: bool = False):
        self._scope, self._holds, self._text = jax.named_scope(text), holds, text

    def __enter__(self) -> None:
        self._token = _open.set("" if self._holds else self._text)
        self._scope.__enter__()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._scope.__exit__(kind, error, traceback)
        _open.reset(self._token)
        if kind is not None and isinstance(error, UnevenAxisError) and not self._holds:
            error.say(self._text)


def in_scope(text: str, function: Callable[..., R], *args: object) -> R:
    """Return `function(*args)`, run in the scope `text` unless it is part of another operation."""
    if _open.get():
        return function(*args)
    if escaped_blocks:
        check_scope_names(text, args)
    with Scope(text):
        return function(*args)


# Operations that act on every element separately along some of their axes, or inspect their
# operands themselves.
_BY_ENTRY = frozenset({"lax.map", "map", "vmap", "einsum", "dot", "lax.pdot", "nmap"})


def check_scope_names(text: str, operands: PyTree) -> None:
    """Raise if the operation with scope `text` uses a name of escaped blocks.

    These are blocks that JAX has rebuilt after their body (`escaped_blocks`).

    Raises:
      AxisResourceError: it does.
    """
    op, _, names = text.removeprefix("nx.").removesuffix("}").partition("{")
    if op not in _BY_ENTRY:
        texts = {name for renaming in names.split(",") for name in renaming.split(":")}
        check_regions_live(op.rpartition(".")[2], lambda name: _name_text(name) in texts, operands)


def running_operation() -> str | None:
    """Return the running operation, as users call it (`nx.roll`, `x[...]`); `None` in user code."""
    op = _open.get().partition("{")[0]
    return {"nx.getitem": "x[...]"}.get(op, op) or None


def silent(function: Callable[[*Ts], R]) -> Callable[[*Ts], R]:
    """Return `function`, wrapped so that its operations open no scopes."""
    return _as_part(function, "an operation")


def theirs(function: Callable[[*Ts], R]) -> Callable[[*Ts], R]:
    """Return `function`, user code, wrapped so that its operations open their own scopes."""
    return _as_part(function, "")


def _as_part(function: Callable[[*Ts], R], scope: str) -> Callable[[*Ts], R]:
    """Return `function`, whose operations count as part of the running one, or of that of `scope`.

    With an empty `scope` they are part of none.
    """

    def run(*args: *Ts) -> R:
        token = _open.set(scope and (_open.get() or scope))
        try:
            return function(*args)
        finally:
            _open.reset(token)

    return run


def is_in_program(operands: Iterable[Any]) -> bool:
    """Return True if an operation becomes part of a program.

    It runs in a mapped body, or one of its operands is traced.
    """
    return bool(active_regions) or any(
        isinstance(x._data if type(x) is NamedArray else x, jax.core.Tracer) for x in operands
    )
