"""Writes the stubs (`.pyi`), by which editors and type checkers know what namedax makes while it runs.

`make stubs` writes them all; `python tools/stubs.py --check` names those that are stale, and fails
if there are any.

- `namedax/__init__.pyi`: the public names, from the table `namedax.public_names`. A function gets a
  definition of its own where its types are more precise than in its source. Editors find
  documentation and definition in the source.
- `namedax/definitions.py`: an import of each public name from its module, which leads an editor
  from the stub to the source.
- A stub beside each module that shows a namespace of JAX (`namedax.namespaces.lifting.Namespace`).
- `namedax/core/methods.pyi`: the operators and methods of `NamedArray`, which are hung on it when
  namedax is imported.

Where types come from. The annotation of a function of this package, where it has one that says
something; its parameters that are `Any` there get a type by their name (`_BY_NAME`). A function
that is lifted has JAX's own annotations, with arrays that may have names. An axis is an `Axis`.
`LikeArguments` and functions that only batch over names become overloads: a named array in gives a
named array.
"""

import argparse
import ast
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
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jax

import namedax as nx
from namedax import public_names
from namedax.core import annotations
from namedax.namespaces import lifting, operators
from namedax.operands.axes import AXIS_PARAMETERS
from namedax.operands.nmap import Lifted
from namedax.ops.elementwise import FUNCTIONS as ELEMENTWISE
from namedax.ops.nn.activations import ACTIVATIONS
from namedax.ops.nn.initializers import NamedInitializer

ROOT = pathlib.Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "namedax"
HEADER = "# Written by tools/stubs.py (make stubs) with JAX {version}. Do not edit."

_EMPTY = inspect.Parameter.empty
_KINDS = inspect.Parameter

# The types of parameters that have none in the source, by their names.
_BY_NAME = {
    **dict.fromkeys(
        "x y a b m arr ary ar array condition operand data indices kernel logits labels values"
        " query key_value value object fill_value v p scale bias mask segment_ids weights targets"
        " activations gates prepend append x1 x2 idx gamma beta scores q k start stop step".split(),
        "ArrayLike",
    ),
    "where": "ArrayLike | None",
    "initial": "ArrayLike | None",
    **dict.fromkeys(AXIS_PARAMETERS, "AxisSpec"),
}
# Parameters that bear such a name and are something else, by function.
_NOT_BY_NAME = {
    ("array", "object"), ("asarray", "a"), ("nonzero", "fill_value"), ("unique", "fill_value"), ("dot_product_attention", "mask"),
    ("arange", "start"), ("arange", "stop"), ("split_axis", "axis"), ("named", "array"),
}  # fmt: skip
_TYPING = {"Any", "Literal", "NamedTuple"}
_ABC = {"Callable", "Sequence", "Mapping", "Iterable", "Iterator", "Hashable"}
_OURS = {"AnyArray", "ArrayLike", "AxisSpec", "NamedArray"}
_BUILTIN = {
    "int",
    "float",
    "bool",
    "str",
    "complex",
    "bytes",
    "object",
    "tuple",
    "list",
    "dict",
    "set",
    "type",
    "slice",
    "None",
}


# --- types ----------------------------------------------------------------------------------------------------------


class _Types(ast.NodeTransformer):
    """An annotation in the words of a stub: what it does not know becomes `Any`."""

    def __init__(self, known: dict[str, str]) -> None:
        self.known = known
        self.used: set[str] = set()

    def visit_Name(self, node: ast.Name) -> ast.expr:
        name = {"Shape": "_Shape", "LikeArguments": "AnyArray", "Array": "AnyArray"}.get(
            node.id, node.id
        )
        if name == "_Shape":
            self.used |= {"Sequence"}
            return ast.parse("int | Sequence[int]", mode="eval").body
        if name not in _BUILTIN | _TYPING | _ABC | _OURS | set(self.known):
            name = "Any"
        self.used.add(name)
        if name in ("Callable", "tuple", "Mapping"):
            return ast.parse(
                {"Callable": "Callable[..., Any]", "tuple": "tuple[Any, ...]"}.get(
                    name, "Mapping[Any, Any]"
                ),
                mode="eval",
            ).body
        return ast.Name(name)

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        text = ast.unparse(node)
        if text in ("jax.Array", "jax.Device", "jax.sharding.Mesh", "jax.stages.Lowered"):
            self.used.add("jax")
            return node
        return self.visit_Name(
            ast.Name(
                node.attr
                if node.attr in ("Array", "AnyArray", "ArrayLike", "Any", *_ABC, *self.known)
                else "?"
            )
        )

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        if isinstance(node.value, ast.Name) and node.value.id == "Literal":
            self.used.add("Literal")
            return node
        value: ast.AST = (
            node.value
            if isinstance(node.value, ast.Name) and node.value.id in _BUILTIN | _ABC
            else ast.Name("Any")
        )
        if isinstance(value, ast.Name) and value.id in _BUILTIN | _ABC:
            self.used.add(value.id)
            return ast.Subscript(value, self.visit(node.slice))
        self.used.add("Any")
        return ast.Name("Any")

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        return node if node.value in (None, ...) else ast.Name("Any")


def _text_of(annotation: Any) -> str:
    if annotation is _EMPTY:
        return "Any"
    if isinstance(annotation, str):
        return annotation
    if annotation == jax.typing.ArrayLike or annotation == annotations.ArrayLike:
        return "ArrayLike"
    if (
        isinstance(annotation, type)
        and annotation.__module__ == "builtins"
        and not isinstance(annotation, types.GenericAlias)
    ):
        return annotation.__name__
    text = inspect.formatannotation(annotation)
    return (
        re.sub(r"(jax\.)?jaxlib\._jax\.Array", "Array", text)
        .replace("collections.abc.", "")
        .replace("typing.", "")
    )


class _Stub:
    """One stub while it is written.

    Attributes:
      lines: what was written.
      words: the names of the annotations' types that it imports.
    """

    def __init__(self, names: Iterable[str], known: dict[str, str] | None = None) -> None:
        self.names = frozenset(names)
        self.known = known or {}  # class to module
        self.imports: list[str] = []
        self.body: list[str] = []
        self.words: set[str] = set()

    def type_text(self, annotation: Any) -> str:
        """An annotation as this stub can write it."""
        try:
            tree = ast.parse(_text_of(annotation), mode="eval").body
        except SyntaxError:
            self.words.add("Any")
            return "Any"
        types_ = _Types(self.known)
        new = types_.visit(tree)
        self.words |= types_.used
        # A namespace that has `bool` or `slice` itself means that by the word.
        text = ast.unparse(ast.fix_missing_locations(new))
        for word in _BUILTIN & self.names:
            text = re.sub(rf"(?<![\w.]){word}(?!\w)", f"builtins.{word}", text)
            self.words.add("builtins")
        parts = [part.strip() for part in text.split(" | ")] if "[" not in text else [text]
        return "Any" if "Any" in parts else " | ".join(dict.fromkeys(parts))

    def parameter(
        self, function: str, p: inspect.Parameter, *, tree: bool = False
    ) -> inspect.Parameter:
        """A parameter with its type; a `tree` may be anything, which only its axes are not."""
        text = self.type_text(p.annotation)
        if (
            p.name in _BY_NAME
            and (function, p.name) not in _NOT_BY_NAME
            and (p.name in AXIS_PARAMETERS or not tree)
        ):
            if text == "Any" or (p.name in AXIS_PARAMETERS and "Hashable" not in text):
                text = self.type_text(_BY_NAME[p.name])
        if (
            p.default is None
            and text != "Any"
            and "None" not in text
            and text not in ("AxisSpec", "Hashable", "object")
        ):
            text += " | None"
        return p.replace(annotation=text, default=p.default)

    def define(
        self,
        name: str,
        parameters: list[inspect.Parameter],
        result: str,
        doc: str = "",
        decorate: str = "",
    ) -> None:
        """Writes a definition."""
        one = f"def {name}({_parameters_text(parameters)}) -> {result}:"
        lines = [decorate] if decorate else []
        if len(one) > 116:
            one = f"def {name}(\n    {_parameters_text(parameters)},\n) -> {result}:".replace(
                "*,\n)", "*\n)"
            )
            if len(_parameters_text(parameters)) > 110:
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
        *,
        doc: str = "",
        like: bool = False,
        plain: str = "AnyArray",
    ) -> None:
        """Writes a function; as overloads where it is `like` its arguments, of which it says that `plain` ones give this."""
        result = self.type_text(signature.return_annotation)
        parameters = [
            self.parameter(name, p, tree=re.search(r"\bAny\b", result) is not None)
            for p in signature.parameters.values()
        ]
        named = _with_named_shape(parameters)
        if named is not None:
            self.words |= {"overload", "NamedArray", "Mapping", "Hashable", "jax"}
            without = [p for p in parameters if p.name != "named_shape"]
            takes_keys = any(p.name in ("key", "array", "a", "x") for p in parameters)
            self.define(name, named, "NamedArray", _first_paragraph(doc), "@overload")
            self.define(name, without, "AnyArray" if takes_keys else "jax.Array", doc, "@overload")
            self.words |= {"AnyArray"} if takes_keys else set()
            return
        arrays = [
            i
            for i, p in enumerate(parameters)
            if p.annotation == "ArrayLike"
            and p.kind in (_KINDS.POSITIONAL_ONLY, _KINDS.POSITIONAL_OR_KEYWORD)
            and p.default is _EMPTY
        ][:3]
        if not like or not arrays:
            self.define(name, parameters, result, doc)
            return
        self.words |= {"overload", "NamedArray"}
        for i in arrays:
            these = [
                p.replace(annotation="NamedArray") if j == i else p
                for j, p in enumerate(parameters)
            ]
            self.define(
                name,
                these,
                "NamedArray",
                _first_paragraph(doc) if i == arrays[0] else "",
                "@overload",
            )
        if plain == "jax.Array":
            self.words |= {"jax", "jax.typing"}
            parameters = [
                (
                    p.replace(annotation=p.annotation.replace("ArrayLike", "jax.typing.ArrayLike"))
                    if j in arrays
                    else p
                )
                for j, p in enumerate(parameters)
            ]
        else:
            self.words.add("AnyArray")
        self.define(name, parameters, plain, doc, "@overload")

    def text(self, doc: str) -> str:
        """The whole stub."""
        lines = [
            HEADER.format(version=jax.__version__),
            '"""' + doc.strip() + '\n"""' if "\n" in doc.strip() else f'"""{doc.strip()}"""',
            "",
        ]
        used = set(re.findall(r"[A-Za-z_.]+", "\n".join(self.body)))
        standard = ["import builtins"] if "builtins" in self.words else []
        abc = sorted(_ABC & self.words)
        standard += [f"from collections.abc import {', '.join(abc)}"] if abc else []
        typing_ = sorted((_TYPING | {"overload"}) & self.words)
        standard += [f"from typing import {', '.join(typing_)}"] if typing_ else []
        third = [f"import {word}" for word in ("jax", "jax.typing") if word in self.words]
        ours = sorted(_OURS & self.words - {"NamedArray"})
        own = [f"from namedax.core.annotations import {', '.join(ours)}"] if ours else []
        plain = [line for line in self.imports if line.startswith("from jax")]
        own += (
            ["from namedax.core.array import NamedArray"]
            if "NamedArray" in self.words
            and not any(line.endswith(" import NamedArray as NamedArray") for line in self.imports)
            else []
        )
        own += [
            f"from {module} import {name}"
            for name, module in sorted(self.known.items())
            if name in self.words
        ]
        own += [line for line in self.imports if not line.startswith("from jax")]
        for block in (standard, [*third, *plain], own):
            if block:
                lines += [*block, ""]
        del used
        return "\n".join([*lines, "\n".join(self.body), ""])


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
    """The parameters of the form that makes names, if there is one."""
    if not any(p.name == "named_shape" for p in parameters):
        return None
    return [
        (
            p.replace(
                annotation=(
                    "Mapping[Hashable, int | None]"
                    if "None]" in p.annotation
                    else "Mapping[Hashable, int]"
                ),
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


# --- what the source says ---------------------------------------------------------------------------------------------


def _defined(module: str) -> dict[str, ast.AST]:
    """The functions that a module's source defines at its top, by name."""
    source = inspect.getsource(importlib.import_module(module))
    return {node.name: node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)}


def _result_text(function: Any) -> str:
    return _text_of(inspect.signature(function).return_annotation)


_ELEMENTWISE = tuple({**ELEMENTWISE, **ACTIVATIONS}.values())


def _only_batches(value: Any) -> bool:
    """Whether a function only batches over names, so that names of its arguments are names of its result."""
    lifted = isinstance(value, Lifted) or isinstance(getattr(value, "__wrapped__", None), Lifted)
    return lifted or any(value is function for function in _ELEMENTWISE)


# --- the face ---------------------------------------------------------------------------------------------------------


def _public() -> list[tuple[str, str]]:
    """The public names with their modules, in the order of the modules."""
    return sorted(public_names.homes().items(), key=lambda home: home[1])


def _import_of(name: str, module: str) -> str:
    return f"from {module} import {public_names.ALIASES.get(name, name)} as {name}"


def definitions() -> str:
    """`namedax/definitions.py`: the imports of all public names, from which an editor goes to a definition."""
    lines = [
        HEADER.format(version=jax.__version__),
        "# ruff: noqa",
        (
            '"""Imports of the public names, for editors and type checkers only: they lead from the'
            ' stub of the package to each definition."""'
        ),
        "",
        "from typing import TYPE_CHECKING",
        "",
        "if TYPE_CHECKING:",
        *(f"    {_import_of(name, module)}" for name, module in _public()),
    ]
    return "\n".join(lines) + "\n"


def face() -> str:
    """`namedax/__init__.pyi`."""
    stub = _Stub(nx.__all__)
    for shown, module in _public():
        value = getattr(nx, shown)
        line = _import_of(shown, module)
        if not isinstance(value, types.FunctionType) or module == "namedax.numpy":
            stub.imports.append(line)
            continue
        signature = inspect.signature(value)
        like = _result_text(value) == "LikeArguments"
        is_static = public_names.ALIASES.get(shown, shown) in _defined(module)
        if is_static and shown in _AS_WRITTEN:
            stub.imports.append(line)
            continue
        if overloads := typing.get_overloads(value):
            _source_overloads(
                stub, shown, overloads, _without_examples(inspect.getdoc(value) or "")
            )
            continue
        stub.function(
            shown,
            signature,
            doc="" if is_static else _without_examples(inspect.getdoc(value) or ""),
            like=like,
        )
    stub.body.insert(0, "__version__: str\n__all__: list[str]")
    return stub.text(inspect.getdoc(nx) or "")


def _source_overloads(
    stub: _Stub, name: str, overloads: Sequence[Callable[..., Any]], doc: str
) -> None:
    """Writes the overloads that the source has."""
    for overload in overloads:
        signature = inspect.signature(overload)
        parameters = [
            p.replace(annotation=stub.type_text(p.annotation))
            for p in signature.parameters.values()
        ]
        short = (
            doc
            if overload is overloads[-1]
            else _first_paragraph(doc)
            if overload is overloads[0]
            else ""
        )
        stub.define(
            name, parameters, stub.type_text(signature.return_annotation), short, "@overload"
        )
        stub.words.add("overload")


# Functions of the face whose source says all there is to say.
_AS_WRITTEN = {
    "axis_size", "checked", "cond", "fold", "fori_loop", "from_process_local", "from_xarray", "map", "nmap", "order_like", "process_entries",
    "rename", "scan", "serial_loop", "shard", "switch", "to_xarray", "vmap", "while_loop", "xmap",
}  # fmt: skip


# --- namespaces of JAX ------------------------------------------------------------------------------------------------


def namespace(space: lifting.Namespace) -> str:
    """The stub of a module that shows a namespace of JAX."""
    module = sys.modules[space.name]
    stub = _Stub(space.names(), {"NamedInitializer": "namedax.ops.nn.initializers"})
    for name in space.names():
        value, theirs = getattr(module, name), vars(space.module).get(name)
        if name in space.submodules:
            stub.imports.append(f"from {space.name} import {name} as {name}")
        elif isinstance(value, NamedInitializer):
            stub.body.append(f"{name}: NamedInitializer")
            stub.words.add("NamedInitializer")
        elif value is theirs and name not in _known_to_checkers(space.module):
            stub.body.append(f"{name}: Any")
            stub.words.add("Any")
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
    """The public names of a module of JAX that a checker knows: those of its stub, if it has one."""
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
    signature = inspect.signature(value)
    doc = _without_examples(inspect.getdoc(value) or "")
    if name in space.own and getattr(nx, name, value) is not value:
        doc = f"{_first_paragraph(doc)}\n\nSee `nx.{name}`."
    elif not getattr(inspect.unwrap(value), "__module__", "").startswith("namedax."):
        doc = _first_paragraph(doc)
    if space.name == "namedax.nn.initializers":
        signature = signature.replace(return_annotation="NamedInitializer")
    if getattr(theirs, "nin", 0) == 2:  # a ufunc, whose signature is `*args`
        both = [
            inspect.Parameter(word, _KINDS.POSITIONAL_ONLY, annotation="ArrayLike")
            for word in ("x1", "x2")
        ]
        rest = [
            p.replace(kind=_KINDS.KEYWORD_ONLY)
            for p in signature.parameters.values()
            if p.kind is not _KINDS.VAR_POSITIONAL
        ]
        signature = signature.replace(parameters=[*both, *rest], return_annotation="Array")
    batches = _only_batches(value)
    if batches and signature.return_annotation in (_EMPTY, "Any", Any):
        signature = signature.replace(return_annotation="Array") if name in space.own else signature
    result = _text_of(signature.return_annotation)
    like = result == "LikeArguments" or (batches and result in ("Array", "AnyArray"))
    stub.function(name, signature, doc=doc, like=like, plain="jax.Array" if batches else "AnyArray")


# --- methods ----------------------------------------------------------------------------------------------------------


def methods() -> str:
    """`namedax/core/methods.pyi`: a class that `NamedArray` has as its base for a type checker, and only for it."""
    stub = _Stub(())
    for name, method in operators.methods().items():
        if isinstance(method, property):
            assert method.fget is not None
            result = _result_text(method.fget)
            result = "At" if name == "at" else "NamedArray"
            stub.body.append(
                f"@property\ndef {name}(self) -> {result}:\n"
                + textwrap.indent(
                    _docstring(_first_paragraph(inspect.getdoc(method) or "")), "    "
                )
            )
            continue
        signature = inspect.signature(method)
        rest = [stub.parameter(name, p) for p in list(signature.parameters.values())[1:]]
        rest = [
            (
                p.replace(
                    annotation="object" if name in ("__eq__", "__ne__") else "ArrayLike",
                    kind=_KINDS.POSITIONAL_ONLY,
                )
                if name.startswith("__") and p.name in ("other", "exponent")
                else p
            )
            for p in rest
        ]
        result = _text_of(signature.return_annotation)
        keeps = (
            name in operators.POSITIONAL
            or "LikeArguments" in result
            or (result in ("Array", "AnyArray") and _only_batches_method(name))
        )
        result = (
            result.replace("LikeArguments", "NamedArray")
            if "LikeArguments" in result
            else "NamedArray"
            if keeps
            else stub.type_text(result)
        )
        self_ = inspect.Parameter("self", _KINDS.POSITIONAL_OR_KEYWORD)
        if any(p.kind is _KINDS.POSITIONAL_ONLY for p in rest):
            self_ = self_.replace(kind=_KINDS.POSITIONAL_ONLY)
        doc = "" if name.startswith("__") else _without_examples(inspect.getdoc(method) or "")
        stub.define(name, [self_, *rest], result, doc)
        if name in ("__eq__", "__ne__"):
            stub.body[-1] += "  # type: ignore[override]"
    stub.words |= {"ArrayLike", "NamedArray", "Iterator"}
    stub.imports.append("from namedax.ops.indexing.updates import At")
    stub.body = ["class Methods:\n" + textwrap.indent("\n".join(stub.body), "    ")]
    return stub.text(
        "The operators and methods of `NamedArray`, as a type checker sees them. There is no such"
        " module when a program runs."
    )


def _only_batches_method(name: str) -> bool:
    return name in ("clip", "conj", "conjugate")


# --- all --------------------------------------------------------------------------------------------------------------


def stubs() -> dict[pathlib.Path, str]:
    """Every stub, by its path."""
    for root in (nx.numpy, nx.lax, nx.nn, nx.scipy):
        for info in pkgutil.walk_packages(root.__path__, f"{root.__name__}."):
            importlib.import_module(info.name)
    found = {
        PACKAGE / "__init__.pyi": face(),
        PACKAGE / "definitions.py": definitions(),
        PACKAGE / "core" / "methods.pyi": methods(),
    }
    for name, space in lifting.NAMESPACES.items():
        path = PACKAGE.joinpath(*name.split(".")[1:])
        found[path / "__init__.pyi" if path.is_dir() else path.with_suffix(".pyi")] = namespace(
            space
        )
    return found


def main() -> int:
    """Writes what is stale, or only names it."""
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
