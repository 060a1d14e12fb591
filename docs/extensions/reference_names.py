"""Every public name of namedax, what stands behind it, and where that is written: read off the live objects, for the reference.

Most of the names are made when they are first touched, so nothing that parses files would see them. An object with several names (`nx.sum` and the
method's function, `nx.max` and `nx.numpy.amax`) is one `Entry`, with one page.
"""

from __future__ import annotations

import ast
import dataclasses
import enum
import functools
import inspect
import pathlib
import re
import types
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

import namedax as nx
from namedax.core.functions import summary_of
from namedax.core.jax_docstrings import documented
from namedax.ops.elementwise import FUNCTIONS as ELEMENTWISE
from namedax.ops.elementwise import elementwise
from namedax.ops.namespaces import lifting
from namedax.ops.operands.along_axes import along_axes
from namedax.ops.operands.nmap import Lifted

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "namedax"


@dataclasses.dataclass(frozen=True)
class Entry:
    """One public object.

    Attributes:
      names: all its public names, `"nx.sum"` first; each but the first is an alias.
      value: the object.
      kind: one of `KINDS`.
      origin: who wrote it: `"own"`, `"lifted"` (a function of JAX's, which takes names here), or `"jax"` (handed through as it is).
    """

    names: tuple[str, ...]
    value: Any
    kind: str
    origin: str

    @property
    def name(self) -> str:
        """The name that the page has."""
        return self.names[0]

    @property
    def space(self) -> str:
        """The namespace of that name."""
        return self.name.rpartition(".")[0]


#: The kinds of entries, with what a page says of one. All but functions and classes are no operations: they have no example and cost nothing.
KINDS = {
    "function": "",
    "class": "",
    "error": "An error.",
    "dtype": "A dtype.",
    "type": "A type for annotations.",
    "primitive": "A primitive of JAX, for interpreters of jaxprs. It is JAX's own object.",
    "constant": "A constant.",
}


def spaces() -> dict[str, types.ModuleType]:
    """The public namespaces by their names, `nx` and all below it."""
    found = {"nx": nx}
    waiting = [("nx", nx)]
    while waiting:
        label, module = waiting.pop(0)
        for name in _exports(module):
            value = getattr(module, name)
            if (
                isinstance(value, types.ModuleType)
                and value.__name__.startswith("namedax.")
                and value not in found.values()
            ):
                found[f"{label}.{name}"] = value
                waiting.append((f"{label}.{name}", value))
    return found


def _exports(module: types.ModuleType) -> list[str]:
    return sorted(module.__all__)


def public_names() -> Iterator[tuple[str, Any]]:
    """Every public name that is not a namespace, with what it stands for."""
    for label, module in spaces().items():
        for name in _exports(module):
            value = getattr(module, name)
            if not isinstance(value, types.ModuleType):
                yield f"{label}.{name}", value


@functools.cache
def entries() -> tuple[Entry, ...]:
    """All entries, by name; those of the outer namespaces come first."""
    groups: dict[Any, list[tuple[str, Any]]] = {}
    for name, value in public_names():
        is_object = callable(value) or isinstance(value, jax.extend.core.Primitive)
        groups.setdefault(id(value) if is_object else name, []).append((name, value))
    made = []
    for group in groups.values():
        value = group[0][1]
        own_name = getattr(value, "__name__", "")
        # Of `nx.numpy.concat` and `nx.concatenate` the one that the function calls itself.
        names = sorted(
            (name for name, _ in group),
            key=lambda name: (name.count("."), name.rpartition(".")[2] != own_name),
        )
        kind = _kind_of(value)
        made.append(Entry(tuple(names), value, kind, _origin_of(value, kind)))
    return tuple(
        sorted(made, key=lambda entry: (entry.space != "nx", entry.name.lower(), entry.name))
    )


@functools.cache
def by_name() -> dict[str, Entry]:
    """The entries by each of their names."""
    return {name: entry for entry in entries() for name in entry.names}


def _kind_of(value: Any) -> str:
    if isinstance(value, jax.extend.core.Primitive):
        return "primitive"
    if isinstance(value, type) and issubclass(value, BaseException):
        return "error"
    is_scalar = isinstance(value, type) and issubclass(value, np.generic)
    if is_scalar or type(value).__name__ in ("_ScalarMeta", "ElementType"):
        return "dtype"
    if (
        isinstance(value, (types.UnionType, types.GenericAlias))
        or type(value).__module__ == "typing"
        or value is Any
    ):
        return "type"
    if isinstance(value, type):
        return "class"
    return "function" if callable(value) else "constant"


def _origin_of(value: Any, kind: str) -> str:
    if kind == "primitive":
        return "jax"
    if kind == "function":
        if _lifts(value) is not None:
            return "lifted"
        is_own = _own_codes(value) or type(value).__module__.startswith("namedax")
        return "own" if is_own else "jax"
    module = getattr(value, "__module__", None) or type(value).__module__
    return "own" if module.startswith("namedax") or kind == "type" else "jax"


def _is_in_package(file: str) -> bool:
    return pathlib.Path(file).is_relative_to(PACKAGE)


def _own_codes(value: Any) -> list[types.CodeType]:
    """The code of a function and of those that it wraps, as far as it is code of this package."""
    codes = (getattr(link, "__code__", None) for link in _chain(value))
    return [code for code in codes if code and _is_in_package(code.co_filename)]


def _lifts(value: Any) -> Any:
    """The function of this package that lifts a function of JAX over names; `None` if `value` is not lifted."""
    if any(value is function for function in ELEMENTWISE.values()):
        return None if _defined(value) else elementwise
    along = along_axes.__qualname__ + ".<locals>"
    if any(isinstance(link, Lifted) for link in _chain(value)) or any(
        code.co_qualname.startswith(along) for code in _own_codes(value)
    ):
        return lifting._lift
    return None


def _defined(value: Any) -> types.CodeType | None:
    """The innermost function in the chain of decorators that a module of this package defines with `def`.

    A function inside of another one, such as the wrapper that a decorator returns, is none.
    """
    at_top = [code for code in _own_codes(value) if "<locals>" not in code.co_qualname]
    return at_top[-1] if at_top else None


def _chain(value: Any) -> Iterator[Any]:
    """A function, the one that it wraps, and so on."""
    seen = set()
    while value is not None and id(value) not in seen:
        seen.add(id(value))
        yield value
        value = getattr(value, "__wrapped__", None)


# --- where it is written ------------------------------------------------------------------------------------------------


def source_of(entry: Entry) -> str:
    """The file and the line of a definition, `"namedax/ops/reduction/reductions.py:178"`; empty for what is JAX's own.

    A class or a function that this package defines leads to its line with `class` or `def`, past all decorators. A function
    that is made from one of JAX's has no such line. It leads to the function that makes it: `_lift`, `elementwise`, or
    that of its subject, such as `_sampler` for random numbers.
    """
    value = entry.value
    if entry.origin == "jax":
        return ""
    if entry.kind in ("class", "error"):
        return _place_of_class(value)
    if maker := _lifts(value):
        return _place(maker.__code__)
    if code := _defined(value):
        return _place(code)
    if codes := _own_codes(value):
        return _place_of_maker(codes[-1])
    return _place_of_assignment(entry) or _place_of_class(type(value))


def _place(code: types.CodeType) -> str:
    path = pathlib.Path(code.co_filename).relative_to(ROOT).as_posix()
    return f"{path}:{_definitions(path)[code.co_qualname]}"


def _place_of_maker(code: types.CodeType) -> str:
    path = pathlib.Path(code.co_filename).relative_to(ROOT).as_posix()
    return f"{path}:{_definitions(path)[code.co_qualname.partition('.<locals>')[0]]}"


def _place_of_class(cls: type) -> str:
    try:
        file = inspect.getsourcefile(cls)
    except TypeError:
        return ""
    if not file or not _is_in_package(file):
        return ""
    path = pathlib.Path(file).relative_to(ROOT).as_posix()
    return f"{path}:{_definitions(path)[cls.__qualname__]}"


@functools.cache
def _definitions(path: str) -> dict[str, int]:
    """The lines with `def` and `class` in a module, by the qualified names of what they define."""
    found: dict[str, int] = {}

    def visit(node: ast.AST, prefix: str) -> None:
        for child in ast.iter_child_nodes(node):
            inner = prefix
            if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                # Of several, as in the branches of an `if`, the first.
                found.setdefault(f"{prefix}{child.name}", child.lineno)
                of = "" if isinstance(child, ast.ClassDef) else ".<locals>"
                inner = f"{prefix}{child.name}{of}."
            visit(child, inner)

    visit(ast.parse((ROOT / path).read_text()), "")
    return found


@functools.cache
def _assignments() -> dict[tuple[str, str], str]:
    """Where the modules of the package assign their constants: by the folder (or module) and the name."""
    found = {}
    for file in sorted(PACKAGE.rglob("*.py")):
        path = file.relative_to(ROOT)
        for node in ast.parse(file.read_text()).body:
            targets = (
                node.targets
                if isinstance(node, ast.Assign)
                else [node.target]
                if isinstance(node, ast.AnnAssign)
                else []
            )
            for name in (
                part.id
                for target in targets
                for part in ast.walk(target)
                if isinstance(part, ast.Name)
            ):
                for home in (path.with_suffix(""), path.parent):
                    found.setdefault((home.as_posix(), name), f"{path.as_posix()}:{node.lineno}")
    return found


def _place_of_assignment(entry: Entry) -> str:
    for name in entry.names:
        space, _, short = name.rpartition(".")
        home = space.replace("nx", "namedax", 1).replace(".", "/")
        for found in ((home, short), ("namedax/core/annotations", short)):
            if found in _assignments():
                return _assignments()[found]
    return ""


# --- what is said of it -------------------------------------------------------------------------------------------------


def jax_name(entry: Entry) -> str:
    """What JAX calls a function that is lifted, or handed through: `"jax.numpy.exp"`; empty for what JAX does not have."""
    for name in reversed(entry.names):
        space, _, short = name.rpartition(".")
        theirs = {"nx": "numpy"}.get(space, space.removeprefix("nx."))
        module: Any = jax
        for part in theirs.split("."):
            module = getattr(module, part, None)
        if hasattr(module, short):
            return f"jax.{theirs}.{short}"
    return ""


def signature_of(value: Any) -> str:
    """The parameters with their defaults, `"(x, axis=None, *, keepdims=False)"`; empty if nothing is known of them."""
    signature = _signature(value)
    if signature is None:
        return ""
    parameters = [
        p.replace(annotation=p.empty, default=_Shown.of(p.default))
        for p in signature.parameters.values()
    ]
    return str(signature.replace(parameters=parameters, return_annotation=signature.empty))


#: Aliases that Python shows as what they stand for.
_SHORT_TYPES = {
    r"Union\[Array, ndarray, bool, number, bool, int, float, complex(, DuckTypedArray)?\]": "ArrayLike",
    r"Union\[str, type\[Any\], dtype, SupportsDType, NoneType\]": "DTypeLike | None",
    r"ForwardRef\('(\w+)'\)": r"\1",
}


def types_of(value: Any) -> dict[str, str]:
    """The types of the parameters as they are annotated, without the modules that they are from."""
    signature = _signature(value)
    found = {}
    for name, parameter in signature.parameters.items() if signature else ():
        said = parameter.annotation
        if said is not parameter.empty:
            text = said if isinstance(said, str) else _type_text(said)
            text = " ".join(re.sub(r"\b(?:[a-z_]\w*\.)+(?=\w)", "", text).split())
            for spelled, short in _SHORT_TYPES.items():
                text = re.sub(spelled, short, text)
            found[name] = "" if text in ("Any", "object", "None") else text
    return found


def returns_nothing(value: Any) -> bool:
    """Whether a function is annotated to return `None`."""
    signature = _signature(value) if inspect.isroutine(value) else None
    return signature is not None and signature.return_annotation in (None, "None")


def _signature(value: Any) -> inspect.Signature | None:
    """A signature; `None` if nothing is known of the parameters."""
    try:
        return inspect.signature(value)
    except (TypeError, ValueError):
        return None


def _type_text(value: Any) -> str:
    if value == jax.typing.ArrayLike:
        return "ArrayLike"
    return value.__name__ if isinstance(value, type) else str(value)


class _Shown:
    """A default as a reader writes it."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text

    @classmethod
    def of(cls, default: Any) -> Any:
        if default is inspect.Parameter.empty or isinstance(
            default, (bool, int, float, str, type(None))
        ):
            return default
        if isinstance(default, enum.Enum):
            return cls(str(default))
        if isinstance(default, tuple):
            return tuple(map(cls.of, default))
        text = getattr(default, "__name__", repr(default))
        return cls("..." if re.search(r"[<>]| at 0x", text) else text)


def doc_of(entry: Entry) -> str:
    """The docstring; of what is JAX's own what it says of parameters and the result."""
    doc = inspect.getdoc(entry.value) or ""
    if entry.kind == "constant" and not _has_own_doc(entry.value):
        return ""
    if entry.origin == "jax" and entry.kind == "function":
        return documented(entry.value, communication="", names="")
    return summary_of(entry.value) if entry.origin == "jax" and entry.kind != "primitive" else doc


def _has_own_doc(value: Any) -> bool:
    return inspect.getdoc(value) != inspect.getdoc(type(value))


def has_example(entry: Entry) -> bool:
    """Whether the docstring has an example that runs."""
    return ">>>" in doc_of(entry)
