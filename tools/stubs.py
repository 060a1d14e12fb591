"""Write the stubs (`.pyi`) that describe the functions of namedax to editors and type checkers.

`make stubs` writes them all; `python tools/stubs.py --check` lists the stale ones and fails if
there are any.

- `namedax/__init__.pyi`: the public names, from the table `namedax.ops.namespaces.public_names`. A name is
  imported from its source, unless the function has overloads or is created at run time.
- `namedax/ops/namespaces/definitions.py`: an import of each public name from its module, which leads an editor
  from the stub to the source.
- A stub beside each module that shows a namespace of JAX (`namedax.ops.namespaces.lifting.Namespace`).
- `namedax/core/annotations.pyi` and `results.pyi`: the types of results for other code;
- `namedax/core/methods.pyi`: the operators and methods of `NamedArray`, which `import namedax` adds
  to the class.

The stubs copy annotations and never guess. An annotation of this package is copied as it is, and
the stub imports its names from the modules that define them. A lifted function has JAX's
annotations, in JAX's public names, with arrays that may have named axes; its axis parameters are an
`AxisSpec`. `_Stub.undeclared` types the parameters for which JAX declares nothing. A function that
returns `LikeArguments`, or only batches over names, becomes overloads: a named array gives a named
array. A function with `named_shape` becomes two: with it the result is a named array.
"""

import argparse
import ast
import builtins
import collections.abc
import functools
import importlib
import inspect
import pathlib
import pkgutil
import re
import sys
import textwrap
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import jax

import namedax as nx
from namedax.core import annotations
from namedax.ops.elementwise import FUNCTIONS as ELEMENTWISE
from namedax.ops.namespaces import lifting, operators, public_names
from namedax.ops.nn.activations import ACTIVATIONS
from namedax.ops.nn.initializers import NamedInitializer
from namedax.ops.operands.axes import AXIS_PARAMETERS
from namedax.ops.operands.nmap import Lifted

ROOT = pathlib.Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "namedax"
HEADER = "# Written by tools/stubs.py (make stubs) with JAX {version}. Do not edit."
WIDTH = 100

_EMPTY = inspect.Parameter.empty
_KINDS = inspect.Parameter

_ANNOTATIONS = "namedax.core.annotations"
_ALIASES = "namedax.core.names"
_STANDARD = {"collections.abc", "typing"}
# Aliases of JAX that are `Any` at run time, and what their names stand for.
_ANY_IN_JAX: dict[str, Any] = {
    **dict.fromkeys(
        ("DTypeLikeComplex", "DTypeLikeFloat", "DTypeLikeInexact", "DTypeLikeInt", "DTypeLikeUInt"),
        jax.typing.DTypeLike,
    ),
    "RealNumeric": jax.typing.ArrayLike,
}
# Protocols of shape and dtype, which are private in JAX, and a public class that has these.
_PROTOCOLS = dict.fromkeys(("DuckTypedArray", "SupportsShape"), jax.ShapeDtypeStruct)
# Classes of JAX's compiled module, which has no stubs. Pyright in strict mode reports each function
# with such a type, so they are `Any` here.
_UNREADABLE = {"jax.Device"}
# The size of an axis in JAX; a symbolic one has no public type.
_DIMENSION = int | Any
# Public modules of JAX, in the order in which they are searched for the public name of a class.
_PUBLIC = (
    "jax.sharding jax jax.typing jax.lax jax.lax.linalg jax.numpy jax.numpy.linalg jax.nn"
    " jax.random jax.scipy.optimize jax.stages jax.tree_util"
).split()


# --- annotations ---------------------------------------------------------------------------------


@functools.cache
def _imports(module: str) -> dict[str, tuple[str, str]]:
    """The imported names of a module's source, each with its module and its name there.

    The name is "" for a module.
    """
    found: dict[str, tuple[str, str]] = {}
    top = ast.parse(inspect.getsource(importlib.import_module(module))).body
    conditional = [node for block in top if isinstance(block, ast.If) for node in block.body]
    for node in [*top, *conditional]:
        if isinstance(node, ast.Import):
            for alias in node.names:
                name = alias.name if alias.asname else alias.name.partition(".")[0]
                found[alias.asname or name] = (name, "")
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                found[alias.asname or alias.name] = (node.module, alias.name)
    return found


@functools.cache
def _assigned(module: str) -> dict[str, ast.expr]:
    """The values that a module's source assigns to names at its top level."""
    found: dict[str, ast.expr] = {}
    for node in ast.parse(inspect.getsource(importlib.import_module(module))).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            found[node.targets[0].id] = node.value
        elif isinstance(node, ast.AnnAssign) and node.value and isinstance(node.target, ast.Name):
            found[node.target.id] = node.value
    return found


def _home(module: str, name: str) -> tuple[str, str]:
    """The module that defines what `name` is in `module`, and its name there."""
    while module.startswith("namedax.") and name in _imports(module):
        module, name = _imports(module)[name]
    return module, name


@functools.cache
def _public_names() -> dict[int, str]:
    """The public names of JAX's classes, by the ids of the classes."""
    found: dict[int, str] = {}
    for module in _PUBLIC:
        for name, value in vars(importlib.import_module(module)).items():
            if isinstance(value, type) and not name.startswith("_"):
                found.setdefault(id(value), f"{module}.{name}")
    return found


class _Scope(typing.NamedTuple):
    """The modules in which the names of a function's annotations are looked up.

    Attributes:
      own: modules of this package.
      jax: the global names of JAX's function; empty for a function without one.
      is_lifted: True if the function is JAX's, lifted.
    """

    own: tuple[str, ...] = ()
    jax: Mapping[str, Any] = types.MappingProxyType({})
    is_lifted: bool = False

    @classmethod
    def of(cls, function: Any, theirs: Any = None) -> "_Scope":
        """The scope of a function, whose counterpart in JAX is `theirs`."""
        chain = [function]
        while hasattr(chain[-1], "__wrapped__"):
            chain.append(chain[-1].__wrapped__)
        modules: list[str] = [
            getattr(link, "__globals__", {}).get("__name__")
            or getattr(link, "__module__", "")
            or ""
            for link in chain
        ]
        own = tuple(module for module in reversed(modules) if module.startswith("namedax."))
        innermost = inspect.unwrap(theirs) if theirs is not None else chain[-1]
        names = getattr(innermost, "__globals__", None)
        if names is None:  # a jitted function or a ufunc
            names = vars(sys.modules.get(getattr(innermost, "__module__", ""), types))
        is_lifted = not modules[-1].startswith("namedax.")
        return cls(own, names if theirs is not None or is_lifted else {}, is_lifted)


class _Copy(ast.NodeTransformer):
    """Copies an annotation of this package, and lets the stub import its names."""

    def __init__(self, stub: "_Stub", module: str) -> None:
        self.stub, self.module = stub, module

    def visit_Name(self, node: ast.Name) -> ast.expr:
        module, name = _home(self.module, node.id)
        if name == "":
            return self._dotted(module)
        if module in _STANDARD:
            return ast.Name(self.stub.use(module, name))
        if not module.startswith("namedax."):
            return self._dotted(f"{module}.{name}")
        if (module, name) == (_ANNOTATIONS, "LikeArguments"):
            if self.stub.like == "NamedArray":
                module = "namedax.core.array"
            name = self.stub.like
        if name not in vars(importlib.import_module(module)):
            return ast.Name(self.stub.builtin(name))
        alias = _assigned(module).get(name)
        is_local = module not in (_ALIASES, _ANNOTATIONS)
        if is_local and alias is not None and not isinstance(alias, ast.Call):  # no type variable
            return _Copy(self.stub, module).copied(ast.unparse(alias))
        return ast.Name(self.stub.use(module, name))

    def copied(self, text: str) -> ast.expr:
        """The copy of an annotation."""
        copy: ast.expr = self.visit(ast.parse(text, mode="eval").body)
        return copy

    def _dotted(self, text: str) -> ast.expr:
        return ast.parse(self.stub.dotted(text), mode="eval").body

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        head, _, rest = ast.unparse(node).partition(".")
        module, name = _home(self.module, head)
        return self._dotted(".".join(part for part in (module, name, rest) if part))

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        value = self.visit(node.value)
        is_literal = isinstance(value, ast.Name) and value.id == "Literal"
        return ast.Subscript(value, node.slice if is_literal else self.visit(node.slice))

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        return self.copied(node.value) if isinstance(node.value, str) else node


def _is_union(value: Any) -> bool:
    return typing.get_origin(value) in (typing.Union, types.UnionType)


def _forward(annotation: Any) -> Any:
    return getattr(annotation, "__forward_arg__", annotation)


def _accepts_none(text: str) -> bool:
    return re.search(r"\bNone\b", text.rpartition("]")[2]) is not None or text in (
        "Any", "AxisSpec", "Hashable", "None", "PyTree", "builtins.object", "object",
        "jax.lax.PrecisionLike",
    )  # fmt: skip


class _Stub:
    """One stub, while it is written.

    Args:
      names: the public names of its module.
      like: the type that stands for `LikeArguments`; default: `AnyArray`.

    Attributes:
      imports: import lines that export a name.
      body: definitions.
      used: the names that the definitions need, by their modules; "" for a module itself.
      classes: named tuples of JAX that have no public name, by their names in the stub.
      has_unreadable: True if an annotation has a type that type checkers cannot read.
    """

    def __init__(self, names: Iterable[str], like: str = "AnyArray") -> None:
        self.names, self.like = frozenset(names), like
        self.imports: list[str] = []
        self.body: list[str] = []
        self.used: dict[str, set[str]] = {}
        self.classes: dict[str, str] = {}
        self.has_unreadable = False

    def use(self, module: str, name: str) -> str:
        """Import a name from its module, and return it."""
        self.used.setdefault(module, set()).add(name)
        return name

    def dotted(self, text: str) -> str:
        """Import the package of a dotted name, and return the name as the stub spells it."""
        if text in _UNREADABLE:
            self.has_unreadable = True
            return self.use("typing", "Any")
        package = "jax.typing" if text.startswith("jax.typing.") else text.partition(".")[0]
        self.used.setdefault(package, set()).add("")
        return re.sub(r"^numpy\b", "np", text)

    def builtin(self, name: str) -> str:
        """A builtin type; a namespace may have a function with its name."""
        if name not in vars(builtins):
            raise LookupError(f"{name} is no builtin type")
        if name in self.names:
            self.used.setdefault("builtins", set()).add("")
            return f"builtins.{name}"
        return name

    def annotation(self, annotation: Any, scope: _Scope) -> str:
        """An annotation as this stub spells it."""
        if not isinstance(annotation, str):
            return self.of_jax(annotation)
        if scope.jax and (scope.is_lifted or not scope.own):
            try:
                return self.of_jax(eval(annotation, {**scope.jax, **_ANY_IN_JAX}))
            except (NameError, AttributeError, TypeError):
                pass  # of this package, or imported for type checkers only
        for module in (*scope.own, _ALIASES, _ANNOTATIONS):
            try:
                return ast.unparse(_Copy(self, module).copied(annotation))
            except LookupError:
                continue
        try:
            return self.of_jax(eval(annotation, {**scope.jax, **_ANY_IN_JAX}))
        except (NameError, AttributeError, TypeError):
            return self.use("typing", "Any")

    def of_jax(self, value: Any) -> str:
        """A type of JAX, whose arrays may have named axes here, in public names."""
        if value is None or value is type(None):
            return "None"
        if value is ...:
            return "..."
        for known, name in self._aliases():
            if value == known:
                return name
        if _is_union(value):
            members = typing.get_args(value)
            folded = [
                (known, name)
                for known, name in self._aliases()
                if _is_union(known) and set(typing.get_args(known)) < set(members)
            ]
            covered = {member for known, _ in folded for member in typing.get_args(known)}
            names = [name for _, name in folded]
            names += [self.of_jax(member) for member in members if member not in covered]
            return " | ".join(dict.fromkeys(names))
        origin, arguments = typing.get_origin(value), typing.get_args(value)
        if origin is typing.Literal:
            self.use("typing", "Literal")
            return f"Literal[{', '.join(map(repr, arguments))}]"
        if origin is collections.abc.Callable:
            first, result = arguments
            inputs = "..." if first is ... else f"[{', '.join(map(self.of_jax, first))}]"
            self.use("collections.abc", "Callable")
            return f"Callable[{inputs}, {self.of_jax(result)}]"
        if origin is not None:
            return f"{self._class_of_jax(origin)}[{', '.join(map(self.of_jax, arguments))}]"
        if value is tuple:
            return f"{self.builtin('tuple')}[{self.use('typing', 'Any')}, ...]"
        if value is collections.abc.Callable:
            self.use("collections.abc", "Callable")
            return f"Callable[..., {self.use('typing', 'Any')}]"
        if getattr(value, "_is_protocol", False):
            public = _PROTOCOLS.get(value.__name__)
            return self.builtin("object") if public is None else self.of_jax(public)
        if not isinstance(value, type):  # such as a type variable
            return self.use("typing", "Any")
        return self._class_of_jax(value)

    def _aliases(self) -> list[tuple[Any, str]]:
        """Types of JAX that have another name here, or one name for a union."""
        array_like = self.use(_ANNOTATIONS, "ArrayLike")
        return [
            (annotations.ArrayLike, array_like),
            (jax.typing.ArrayLike, array_like),
            (jax.Array, self.use(_ANNOTATIONS, "AnyArray")),
            (jax.typing.DTypeLike, self.use(_ALIASES, "DType")),
            (jax.lax.PrecisionLike, self.dotted("jax.lax.PrecisionLike")),
            (_DIMENSION, self.builtin("int")),
        ]

    def _class_of_jax(self, cls: type[Any]) -> str:
        if cls.__module__ == "builtins":
            return self.builtin(cls.__name__)
        if cls.__module__ == "collections.abc":
            return self.use("collections.abc", cls.__name__)
        if cls.__module__ == "numpy":
            return self.dotted(f"numpy.{cls.__name__}")
        if id(cls) in _public_names():
            return self.dotted(_public_names()[id(cls)])
        if cls.__module__.startswith("namedax."):
            return self.use(cls.__module__, cls.__name__)
        if issubclass(cls, tuple) and hasattr(cls, "_fields"):
            return self._named_tuple(cls)
        return self.use("typing", "Any")

    def _named_tuple(self, cls: Any) -> str:
        """A named tuple of arrays, such as a result, whose class is private in JAX."""
        name = "_" + cls.__name__.lstrip("_")
        scope = _Scope(jax=vars(sys.modules[cls.__module__]))
        if any(_forward(cls.__annotations__[field]) != "Array" for field in cls._fields):
            return self.use("typing", "Any")
        if name not in self.classes:
            self.use("typing", "NamedTuple")
            fields = [
                f"    {field}: {self.annotation(_forward(cls.__annotations__[field]), scope)}"
                + ("  # type: ignore[assignment]" if hasattr(tuple, field) else "")
                for field in cls._fields
            ]
            self.classes[name] = "\n".join([f"class {name}(NamedTuple):", *fields])
        return name

    def undeclared(self, p: inspect.Parameter, *, is_elementwise: bool) -> str:
        """The type of a parameter of JAX without an annotation.

        The required parameters of elementwise functions are their operands. Others accept any
        object, since JAX declares nothing.
        """
        if is_elementwise and p.default is _EMPTY:
            return self.use(_ANNOTATIONS, "ArrayLike")
        return self.builtin("object")

    def parameter(
        self,
        p: inspect.Parameter,
        scope: _Scope,
        *,
        axis_parameters: Sequence[str] = (),
        is_elementwise: bool = False,
    ) -> inspect.Parameter:
        """A parameter with its type; those of `axis_parameters` accept axis names."""
        if p.name in axis_parameters:
            return p.replace(annotation=self.use(_ANNOTATIONS, "AxisSpec"))
        if p.annotation is _EMPTY:
            return p.replace(annotation=self.undeclared(p, is_elementwise=is_elementwise))
        text = self.annotation(p.annotation, scope)
        if re.search(r"\bAnyArray\b", text):  # the type of results
            text = re.sub(r"\bAnyArray\b", self.use(_ANNOTATIONS, "EitherArray"), text)
        if scope.jax and p.default is None and not _accepts_none(text):  # implicit in JAX
            text += " | None"
        return p.replace(annotation=text)

    def define(
        self,
        name: str,
        parameters: list[inspect.Parameter],
        result: str,
        doc: str = "",
        decorate: str = "",
    ) -> None:
        """Write a definition."""
        one = f"def {name}({_parameters_text(parameters)}) -> {result}:"
        lines = [decorate] if decorate else []
        if len(one) > WIDTH - 4:
            one = f"def {name}(\n    {_parameters_text(parameters)},\n) -> {result}:".replace(
                "*,\n)", "*\n)"
            )
            if len(_parameters_text(parameters)) > WIDTH - 9:
                one = (
                    f"def {name}(\n"
                    + "".join(f"    {part},\n" for part in _parts(parameters))
                    + f") -> {result}:"
                )
        lines.append(one + ("" if doc else " ..."))
        if doc:
            lines.append(textwrap.indent(_docstring(doc), "    "))
        self.body.append("\n".join(lines))

    def function(
        self,
        name: str,
        signature: inspect.Signature,
        scope: _Scope,
        *,
        doc: str = "",
        like: bool = False,
        plain: str = "AnyArray",
        result: str | None = None,
        axis_parameters: Sequence[str] = (),
        is_elementwise: bool = False,
    ) -> None:
        """Write a function, as overloads if its results have names or not depending on the call.

        Args:
          name: its name.
          signature: its signature.
          scope: the scope of its annotations.
          doc: its docstring; default: none.
          like: True if a named operand gives a named result; default: False.
          plain: the result of other operands then; default: `AnyArray`.
          result: the type of the result; default: the one of the signature.
          axis_parameters: the parameters that lifting makes axes; default: none.
          is_elementwise: True if its required parameters are operands; default: False.
        """
        parameters = [
            self.parameter(p, scope, axis_parameters=axis_parameters, is_elementwise=is_elementwise)
            for p in signature.parameters.values()
        ]
        if result is None:
            result = self.annotation(signature.return_annotation, scope)
        operands = [
            i
            for i, p in enumerate(parameters)
            if _is_operand(p.annotation)
            and p.kind in (_KINDS.POSITIONAL_ONLY, _KINDS.POSITIONAL_OR_KEYWORD)
            and p.default is _EMPTY
        ][:3]
        if with_names := _with_named_shape(parameters):
            self.use("typing", "overload")
            named = self.use("namedax.core.array", "NamedArray")
            self.define(name, with_names, named, _first_paragraph(doc), "@overload")
            without = [p for p in parameters if p.name != "named_shape"]
            first = parameters[0].annotation
            if not _is_operand(first):  # a shape, so nothing has names
                result = self.dotted("jax.Array")
            else:
                result = self.use(_ANNOTATIONS, "AnyArray")
            self.define(name, without, result, doc, "@overload")
            return
        if not like or not operands:
            self.define(name, parameters, result, doc)
            return
        self.use("typing", "overload")
        named = self.use("namedax.core.array", "NamedArray")
        for i in operands:
            these = [p.replace(annotation=named) if j == i else p for j, p in enumerate(parameters)]
            first = _first_paragraph(doc) if i == operands[0] else ""
            self.define(name, these, named, first, "@overload")
        if plain == "jax.Array":
            self.dotted("jax.Array")
            self.dotted("jax.typing.ArrayLike")
            for j in operands:
                unnamed = re.sub(r"\bArrayLike\b", "jax.typing.ArrayLike", parameters[j].annotation)
                unnamed = re.sub(r"\bEitherArray\b", "jax.Array", unnamed)
                parameters[j] = parameters[j].replace(annotation=unnamed)
            others = [p.annotation for i, p in enumerate(parameters) if i not in operands]
        if plain == "jax.Array" and not any(re.search(r"(?<!typing\.)Array", a) for a in others):
            # a result without names stays one
            bare = self.use("namedax.core.results", "PlainArray")
            these = [
                p.replace(annotation=bare) if j == operands[0] else p
                for j, p in enumerate(parameters)
            ]
            self.define(name, these, bare, "", "@overload")
        if plain != "jax.Array":
            self.use(_ANNOTATIONS, "AnyArray")
        self.define(name, parameters, plain, doc, "@overload")

    def text(self, doc: str) -> str:
        """Return the whole stub."""
        doc = doc.strip()
        lines = [
            HEADER.format(version=jax.__version__),
            f'"""{doc}\n"""' if "\n" in doc else f'"""{doc}"""',
            "",
        ]
        body = "\n".join([*self.classes.values(), *self.body])
        words = set(re.findall(r"\w+", body))
        exported = {line.removesuffix(f" as {line.split()[-1]}") for line in self.imports}
        standard: list[str] = []
        third: list[str] = []
        own: list[str] = []
        for module, names in sorted(self.used.items()):
            found = sorted(name for name in names & words)
            line = f"from {module} import {', '.join(found)}"
            if "" in names and module.rpartition(".")[2].replace("numpy", "np") in words:
                aliased = "import numpy as np" if module == "numpy" else f"import {module}"
                (standard if module == "builtins" else third).append(aliased)
            elif found and module in _STANDARD:
                standard.append(line)
            elif found and line not in exported:
                own.append(line)
        third += [line for line in self.imports if line.startswith("from jax")]
        own += [line for line in self.imports if not line.startswith("from jax")]
        for block in (standard, third, own):
            if block:
                lines += [*block, ""]
        return "\n".join([*lines, body, ""])


def _is_operand(annotation: str) -> bool:
    return not {"AnyArray", "ArrayLike", "EitherArray"}.isdisjoint(annotation.split(" | "))


def _parts(parameters: list[inspect.Parameter]) -> list[str]:
    parts: list[str] = []
    starred = False
    for i, p in enumerate(parameters):
        if p.kind is _KINDS.KEYWORD_ONLY and not starred:
            parts.append("*")
            starred = True
        starred = starred or p.kind is _KINDS.VAR_POSITIONAL
        star = (
            "*" if p.kind is _KINDS.VAR_POSITIONAL else "**" if p.kind is _KINDS.VAR_KEYWORD else ""
        )
        typed = f"{star}{p.name}: {p.annotation}" if p.annotation is not _EMPTY else star + p.name
        equals = " = " if p.annotation is not _EMPTY else "="
        parts.append(typed + ("" if p.default is _EMPTY else equals + _default_text(p.default)))
        if p.kind is _KINDS.POSITIONAL_ONLY and (
            i + 1 == len(parameters) or parameters[i + 1].kind is not _KINDS.POSITIONAL_ONLY
        ):
            parts.append("/")
    return parts


def _parameters_text(parameters: list[inspect.Parameter]) -> str:
    return ", ".join(_parts(parameters))


def _default_text(value: Any) -> str:
    plain = (bool, int, float, str)
    if value is None or value is ...:
        return repr(value)
    if type(value) in plain or (
        type(value) in (tuple, list) and all(type(entry) in plain for entry in value)
    ):
        return "..." if "nan" in repr(value) or "inf" in repr(value) else repr(value)
    return "..."


def _with_named_shape(parameters: list[inspect.Parameter]) -> list[inspect.Parameter] | None:
    """The parameters with a required `named_shape`, if a function has an optional one."""
    if not any(p.name == "named_shape" and p.default is not _EMPTY for p in parameters):
        return None
    return [
        (
            p.replace(
                annotation=p.annotation.removesuffix(" | None"),
                default=_EMPTY,
            )
            if p.name == "named_shape"
            else p
        )
        for p in parameters
    ]


def _docstring(doc: str) -> str:
    doc = doc.replace("\\", "\\\\").replace('"""', "'''")
    doc = doc + " " if doc.endswith('"') else doc
    return f'"""{doc}\n"""' if "\n" in doc else f'"""{doc}"""'


def _without_examples(doc: str) -> str:
    """A docstring up to its examples."""
    return re.split(r"\n\s*(?:>>> |Examples?:?\n)", doc)[0].strip()


def _first_paragraph(doc: str) -> str:
    return doc.split("\n\n")[0].strip()


# --- the package ---------------------------------------------------------------------------------


def _defined(module: str) -> frozenset[str]:
    """The functions that a module's source defines at its top level."""
    source = inspect.getsource(importlib.import_module(module))
    return frozenset(
        node.name for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)
    )


_ELEMENTWISE = tuple({**ELEMENTWISE, **ACTIVATIONS}.values())


def _is_lifted(value: Any) -> bool:
    return isinstance(value, Lifted) or isinstance(getattr(value, "__wrapped__", None), Lifted)


def _is_elementwise(value: Any) -> bool:
    return any(value is function for function in _ELEMENTWISE)


def _public() -> list[tuple[str, str]]:
    """The public names with their modules, in the order of the modules."""
    return sorted(public_names.homes().items(), key=lambda home: home[1])


def _import_of(name: str, module: str) -> str:
    return f"from {module} import {name} as {name}"


def definitions() -> str:
    """Return `namedax/ops/namespaces/definitions.py`: imports of all public names, for "go to definition"."""
    lines = [
        HEADER.format(version=jax.__version__),
        "# ruff: noqa",
        '"""Imports of the public names, which lead an editor from the stub to each definition."""',
        "",
        "from typing import TYPE_CHECKING",
        "",
        "if TYPE_CHECKING:",
        *(
            f"    {_import_of(name, module)}"
            for name, module in _public()
            if name not in public_names.ABOVE  # they import the names
        ),
    ]
    return "\n".join(lines) + "\n"


def face() -> str:
    """Return `namedax/__init__.pyi`."""
    stub = _Stub(nx.__all__)
    for shown, module in _public():
        value = getattr(nx, shown)
        if not isinstance(value, types.FunctionType) or module == "namedax.numpy":
            stub.imports.append(_import_of(shown, module))
            continue
        signature = inspect.signature(value)
        like = signature.return_annotation == "LikeArguments"
        is_static = shown in _defined(module)
        overloads = typing.get_overloads(value)
        is_overloaded = like or overloads or "named_shape" in signature.parameters
        if is_static and not (is_overloaded or _is_unreadable(signature, value)):
            stub.imports.append(_import_of(shown, module))
            continue
        doc = "" if is_static else _without_examples(inspect.getdoc(value) or "")
        if overloads:
            _source_overloads(stub, shown, value, overloads)
            continue
        stub.function(shown, signature, _Scope.of(value), doc=doc, like=like)
    stub.body.insert(0, "__version__: str\n__all__: list[str]")
    return stub.text(inspect.getdoc(nx) or "")


def _is_unreadable(signature: inspect.Signature, function: Any) -> bool:
    stub, scope = _Stub(()), _Scope.of(function)
    for p in signature.parameters.values():
        stub.parameter(p, scope)
    return stub.has_unreadable


def _source_overloads(
    stub: _Stub, name: str, value: Any, overloads: Sequence[Callable[..., Any]]
) -> None:
    """Write the overloads of the source, with the documentation of the function."""
    doc, scope = _without_examples(inspect.getdoc(value) or ""), _Scope.of(value)
    for overload in overloads:
        signature = inspect.signature(overload)
        parameters = [stub.parameter(p, scope) for p in signature.parameters.values()]
        result = stub.annotation(signature.return_annotation, scope)
        short = _first_paragraph(doc) if overload is overloads[0] else ""
        stub.use("typing", "overload")
        stub.define(
            name, parameters, result, doc if overload is overloads[-1] else short, "@overload"
        )


# --- namespaces of JAX ---------------------------------------------------------------------------


def namespace(space: lifting.Namespace) -> str:
    """Return the stub of a module that shows a namespace of JAX."""
    module = sys.modules[space.name]
    stub = _Stub(space.names())
    for name in space.names():
        value, theirs = getattr(module, name), vars(space.module).get(name)
        if name in space.submodules:
            stub.imports.append(f"from {space.name} import {name} as {name}")
        elif isinstance(value, NamedInitializer):
            stub.body.append(f"{name}: {stub.use(NamedInitializer.__module__, 'NamedInitializer')}")
        elif value is theirs and name not in _known_to_checkers(space.module):
            stub.body.append(f"{name}: {stub.use('typing', 'Any')}")
        elif value is theirs:
            # Another version of JAX may not have it.
            ignored = "  # type: ignore[attr-defined, unused-ignore]"
            stub.imports.append(f"from {space.module.__name__} import {name} as {name}{ignored}")
        elif isinstance(value, type):
            stub.imports.append(f"from {value.__module__} import {value.__name__} as {name}")
        else:
            _namespace_function(stub, space, name, value, theirs)
    return stub.text(inspect.getdoc(module) or "")


@functools.cache
def _known_to_checkers(module: types.ModuleType) -> frozenset[str]:
    """The public names of a module of JAX that a type checker knows: those of its stub, if any."""
    stub = pathlib.Path(inspect.getfile(module)).with_suffix(".pyi")
    if not stub.exists():
        return frozenset(dir(module))
    words = re.findall(
        r"^(?:def|class) (\w+)|^(\w+) *[:=]|\bas (\w+)", stub.read_text(), re.MULTILINE
    )
    return frozenset(word for found in words for word in found)


def _namespace_function(
    stub: _Stub, space: lifting.Namespace, name: str, value: Any, theirs: Any
) -> None:
    """Write a function of a namespace, whose counterpart in JAX is `theirs`."""
    signature = inspect.signature(value)
    scope = _Scope.of(value, theirs)
    doc = _without_examples(inspect.getdoc(value) or "")
    if name in space.own and name in nx.__all__ and getattr(nx, name) is not value:
        doc = f"{_first_paragraph(doc)}\n\nSee `nx.{name}`."
    elif scope.is_lifted:
        doc = _first_paragraph(doc)
    is_elementwise = _is_elementwise(value)
    if getattr(theirs, "nin", 0) == 2:  # a ufunc, whose signature is `*args`
        operands = [inspect.Parameter(word, _KINDS.POSITIONAL_ONLY) for word in ("x1", "x2")]
        rest = [
            p.replace(kind=_KINDS.KEYWORD_ONLY)
            for p in signature.parameters.values()
            if p.kind is not _KINDS.VAR_POSITIONAL
        ]
        signature = signature.replace(parameters=[*operands, *rest], return_annotation=jax.Array)
    axis_parameters: Sequence[str] = ()
    if scope.is_lifted and space.lift is None:
        axis_parameters = space.by_axis.get(name) or AXIS_PARAMETERS
    result = None
    if space.name == "namedax.nn.initializers":
        result = stub.use(NamedInitializer.__module__, "NamedInitializer")
    elif signature.return_annotation in (_EMPTY, Any, "Any"):
        if is_elementwise:
            result = stub.use(_ANNOTATIONS, "AnyArray")
        elif scope.is_lifted:  # JAX declares no result, and lifting names the arrays in a pytree
            result = stub.use(_ALIASES, "PyTree")
    if result is None:
        result = stub.annotation(signature.return_annotation, scope)
    batches = is_elementwise or _is_lifted(value)
    like = signature.return_annotation == "LikeArguments" or (batches and result == "AnyArray")
    stub.function(
        name,
        signature,
        scope,
        doc=doc,
        like=like,
        plain="jax.Array" if batches else "AnyArray",
        result=result,
        axis_parameters=axis_parameters,
        is_elementwise=is_elementwise,
    )


# --- methods -------------------------------------------------------------------------------------

# Methods that are lifted, so that names of the array are names of the result.
_ONLY_BATCH = frozenset({"clip", "conj", "conjugate"})


def methods() -> str:
    """Return `namedax/core/methods.pyi`: a base class of `NamedArray` for type checkers only."""
    stub = _Stub((), like="NamedArray")
    named = stub.use("namedax.core.array", "NamedArray")
    for name, method in operators.methods().items():
        doc = inspect.getdoc(method) or ""
        if isinstance(method, property):
            result = stub.use("namedax.ops.indexing.updates", "At") if name == "at" else named
            short = textwrap.indent(_docstring(_first_paragraph(doc)), "    ")
            stub.body.append(f"@property\ndef {name}(self) -> {result}:\n{short}")
            continue
        signature, scope = inspect.signature(method), _Scope.of(method)
        rest = [stub.parameter(p, scope) for p in list(signature.parameters.values())[1:]]
        if name.startswith("__"):
            rest = [p.replace(kind=_KINDS.POSITIONAL_ONLY) for p in rest]
        if name in ("__eq__", "__ne__"):
            rest = [p.replace(annotation="object") for p in rest]
        keeps_names = name in operators.POSITIONAL or name in _ONLY_BATCH
        result = named if keeps_names else stub.annotation(signature.return_annotation, scope)
        by_position = any(p.kind is _KINDS.POSITIONAL_ONLY for p in rest)
        self_ = inspect.Parameter(
            "self", _KINDS.POSITIONAL_ONLY if by_position else _KINDS.POSITIONAL_OR_KEYWORD
        )
        stub.define(
            name, [self_, *rest], result, "" if name.startswith("__") else _without_examples(doc)
        )
        if name in ("__eq__", "__ne__"):
            stub.body[-1] += "  # type: ignore[override]"
    stub.body = ["class Methods:\n" + textwrap.indent("\n".join(stub.body), "    ")]
    return stub.text(
        "The operators and methods of `NamedArray`, for type checkers. The module does not exist"
        " at run time."
    )


# --- results without names --------------------------------------------------------------------


_RESULTS = '''\
"""The type of results without named axes, for type checkers.

The module does not exist at run time.
"""

from collections.abc import Hashable, Mapping
from typing import Any

import jax

from namedax.core.methods import Methods
from namedax.core.names import Dims

# A result is a `NamedArray`, or a `jax.Array` if no named axis is left. Which one depends on axis
# names, which types do not have. With these attributes a checker accepts `nx.dot(x, y, "k").dims`.
class PlainArray(Methods, jax.Array):  # type: ignore[misc]
    """A `jax.Array` in place of a `NamedArray` without names, with the attributes of both."""

    @property
    def data(self) -> jax.Array: ...
    @property
    def dims(self) -> Dims: ...
    @property
    def named_shape(self) -> Mapping[Hashable, int]: ...
    def item(self, *args: int) -> Any: ...
    def tolist(self) -> Any: ...
'''


def for_users() -> dict[pathlib.Path, str]:
    """Return the aliases as type checkers of other code read them, and the type of plain results.

    Within the package mypy reads `annotations.py`: its functions return arrays of JAX.
    """
    source = (PACKAGE / "core" / "annotations.py").read_text()
    _, _, rest = source.partition('"""')[2].partition('"""')
    rest = re.sub(r"\n__all__ = .*\n", "", rest.partition("annotations\n")[2].lstrip("\n"))
    rest = rest.replace(
        "from namedax.core.array import NamedArray\n",
        "from namedax.core.array import NamedArray\nfrom namedax.core.results import PlainArray\n",
    ).replace(
        "AnyArray: TypeAlias = NamedArray | jax.Array\n",
        "AnyArray: TypeAlias = NamedArray | PlainArray\n",
        1,
    )
    head = HEADER.format(version=jax.__version__)
    doc = '"""The aliases of `annotations.py`, with results as type checkers of other code see them."""'
    return {
        PACKAGE / "core" / "annotations.pyi": f"{head}\n{doc}\n\n{rest}",
        PACKAGE / "core" / "results.pyi": f"{head}\n{_RESULTS}",
    }


# --- all stubs -----------------------------------------------------------------------------------


def stubs() -> dict[pathlib.Path, str]:
    """Return every stub, by its path."""
    for root in (nx.numpy, nx.lax, nx.nn, nx.scipy):
        for info in pkgutil.walk_packages(root.__path__, f"{root.__name__}."):
            importlib.import_module(info.name)
    found = {
        PACKAGE / "__init__.pyi": face(),
        PACKAGE / "ops/namespaces/definitions.py": definitions(),
        PACKAGE / "core" / "methods.pyi": methods(),
        **for_users(),
    }
    for name, space in lifting.NAMESPACES.items():
        path = PACKAGE.joinpath(*name.split(".")[1:])
        found[path / "__init__.pyi" if path.is_dir() else path.with_suffix(".pyi")] = namespace(
            space
        )
    return found


def main() -> int:
    """Write the stale stubs, or list them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument(
        "--check", action="store_true", help="write nothing; fail if a stub is stale"
    )
    arguments = parser.parse_args()
    wanted = stubs()
    stale = [path for path, text in wanted.items() if not path.exists() or path.read_text() != text]
    for path in stale:
        print(("stale: " if arguments.check else "written: ") + str(path.relative_to(ROOT)))
        if not arguments.check:
            path.write_text(wanted[path])
    return int(arguments.check and bool(stale))


if __name__ == "__main__":
    sys.exit(main())
