"""Hints in messages: replacements for words of other libraries, and typical calls.

`migration_hints` has the tables of the words. They are read if an array, a namespace or the package
does not have an attribute.

Modules that raise errors cannot import the public functions, which are above them. They get the
hints by `errors.hints`. The package installs them by `errors.install_hints`, and imports this
module for the first message that contains a hint.
"""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Hashable, Sequence
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from namedax.errors import Hints, show_names
from namedax.messages.migration_hints import ATTRIBUTES, FUNCTIONS

__all__ = ["at_face", "elsewhere", "hints_of", "namesake", "replacement", "usage", "what_to_write"]


def what_to_write(package: ModuleType, word: str, names: Sequence[Hashable]) -> str | None:
    """Return code that replaces an attribute or a method of other libraries' arrays.

    The result is `None` if no library has the attribute.

    Args:
      package: the package, `namedax`.
      word: the attribute.
      names: the axis names of the array, for the examples.

    >>> import namedax as nx
    >>> from namedax.messages.hints import what_to_write
    >>> what_to_write(nx, "isel", ("batch", "k"))
    "x['k', 3], or x[{'k': idx}] with an array of indices"
    >>> what_to_write(nx, "exp", ("k",))
    'nx.exp(x)'
    """
    if word in ATTRIBUTES:
        return _replacement(word, names)
    axis = _quoted(names)[-1]
    if (ours := namesake(package, word)) is not None:
        if ours.startswith("nx.numpy.linalg."):
            return _call(package, ours, axis).replace("(x", f"({_matrix(names)}", 1)
        return _call(package, ours, axis)
    if word in package.__all__ and _takes_array(getattr(package, word)):
        return _call(package, f"nx.{word}", axis)
    if word.endswith("_") and not word.startswith("_"):
        return _in_place(package, word.rstrip("_"), names)
    return None


def _in_place(package: ModuleType, word: str, names: Sequence[Hashable]) -> str | None:
    """Return an assignment that replaces a method of PyTorch that changes an array in place."""
    code = what_to_write(package, word, names)
    return None if code is None else f"x = {code}"


def _takes_array(function: object) -> bool:
    """Return True for a function whose first parameter is an array."""
    if isinstance(function, (type, ModuleType)) or not callable(function):
        return False
    first = next(iter(inspect.signature(function).parameters), "")
    return first in ("x", "a", "array", "data", "operand")


def _quoted(names: Sequence[Hashable]) -> list[str]:
    return [repr(name) for name in names] or ["'k'"]


def _last_two(names: Sequence[Hashable]) -> tuple[str, str]:
    """Return the last two names of an array, quoted, as the rows and columns of matrices."""
    rows, columns = names[-2:] if len(names) > 1 else ("rows", "columns")
    return repr(rows), repr(columns)


def _matrix(names: Sequence[Hashable]) -> str:
    """Return code for an array of matrices, which have positional axes."""
    return f"nx.untag(x, [{', '.join(_last_two(names))}])"


def _replacement(word: str, names: Sequence[Hashable]) -> str:
    """Return the text of an attribute in the table, with the axis names of an array."""
    shown = _quoted(names)
    rows, columns = _last_two(names)
    return ATTRIBUTES[word].format(
        axis=shown[-1],
        names=", ".join(shown),
        rows=rows,
        columns=columns,
        matrix=_matrix(names),
        pattern=_reversing_pattern(names),
        word=word,
    )


def _call(package: ModuleType, path: str, axis: str) -> str:
    """Return a call of a function of this package.

    It has the array as its first argument, the other required arguments, and an axis.
    """
    function: Any = package
    for part in path.split(".")[1:]:
        function = getattr(function, part)
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return f"{path}(x)"
    if parameters and parameters[0].kind is inspect.Parameter.VAR_POSITIONAL:
        return f"{path}(x)" if path == "nx.negative" else f"{path}(x, y)"
    needed = [
        p.name
        for p in parameters[1:]
        if p.default is p.empty and p.kind in _BY_PLACE and p.name != "axis"
    ]
    by_axis = [f"axis={axis}"] if any(p.name == "axis" for p in parameters) else []
    return f"{path}({', '.join(['x', *needed, *by_axis])})"


_BY_PLACE = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def at_face(word: str) -> str:
    """Return code that replaces a function of other libraries that is not at the top level.

    The result is empty if no library has the function.

    >>> from namedax.messages.hints import at_face
    >>> at_face("segment_mean")
    "nx.group_reduce(x, ids, 'k', 'mean', groups=12, out_axis='group')"
    """
    if word.startswith("_"):
        return ""
    if word in FUNCTIONS:
        return FUNCTIONS[word]
    return _replacement(word, ("b", "k")) if word in ATTRIBUTES else ""


# Modules with functions, in the order of the search. The first group with the name counts.
_SPACES = (
    ("numpy", "linalg", "lax", "nn", "random", "interop", "image"),
    ("numpy.linalg", "numpy.fft"),
    ("scipy.special", "scipy.linalg"),
    ("errors", "testing", "checkpoints", "distributed", "debug", "hlo", "machines", "typing"),
)
_LEAST_SIMILARITY = 0.8


def elsewhere(package: ModuleType, word: str, home: str) -> str:
    """Return sentences about a name that a module lacks: where it is, and what replaces it.

    For a misspelled name, they suggest the closest public name. They begin with a period, and are
    empty for an unknown name.

    Args:
      package: the package, `namedax`.
      word: the name.
      home: the module, such as `namedax.nn`.

    >>> import namedax as nx
    >>> from namedax.messages.hints import elsewhere
    >>> elsewhere(nx, "conv", "namedax.nn"), elsewhere(nx, "Linear", "namedax.nn")
    ('. There is namedax.conv', ". Write nx.dot(x, weight, 'inputs') + bias")
    >>> elsewhere(nx, "sofmax", "namedax")
    '. Did you mean namedax.nn.softmax?'
    """
    if word.startswith("_"):
        return ""
    if word in package.__all__:
        return f". There is {package.__name__}.{word}"
    found: list[str] = []
    for group in _SPACES:
        found = [
            f"{path}.{word}"
            for path in (f"{package.__name__}.{space}" for space in group)
            if path != home and word in _names_of(package, path)
        ]
        if found:
            break
    there = f". There is {' and '.join(found)}" if found else ""
    if instead := at_face(word):
        return f"{there}. Write {instead}"
    return there or _misspelled(package, word, home)


def _names_of(package: ModuleType, path: str) -> list[str]:
    """Return the public names of a module of the package."""
    module = functools.reduce(getattr, path.split(".")[1:], package)
    return package.__all__ if module is package else dir(module)


def _misspelled(package: ModuleType, word: str, home: str) -> str:
    """Return a sentence with the closest public name; empty if no name is close.

    Equally close names of the module itself, and then of the package, take precedence.
    """
    name = package.__name__
    paths = [home, name, *(f"{name}.{space}" for group in _SPACES for space in group)]
    found: dict[str, str] = {}
    for path in paths:
        for public in _names_of(package, path):
            found.setdefault(public, path)
    close = difflib.get_close_matches(word, found, n=1, cutoff=_LEAST_SIMILARITY)
    return f". Did you mean {found[close[0]]}.{close[0]}?" if close else ""


def namesake(package: ModuleType, word: str) -> str | None:
    """Return the function of this package with the same name as one of JAX or NumPy.

    The result is its shortest path; `None` if there is none.

    >>> import namedax as nx
    >>> from namedax.messages.hints import namesake
    >>> namesake(nx, "sum"), namesake(nx, "softmax")
    ('nx.sum', 'nx.nn.softmax')
    """
    for module, ours in _NAMESPACES:
        function = vars(module).get(
            word
        )  # does not find deprecated functions of JAX, which would warn
        if callable(function) and not isinstance(function, type) and not word.startswith("_"):
            return (
                f"nx.{word}"
                if word in package.__all__ and module in (jnp, jnp.linalg)
                else f"{ours}.{word}"
            )
    return None


_NAMESPACES = (
    (jnp, "nx.numpy"),
    (jax.nn, "nx.nn"),
    (jax.lax, "nx.lax"),
    (jnp.linalg, "nx.numpy.linalg"),
    (jnp.fft, "nx.numpy.fft"),
    (jax.scipy.special, "nx.scipy.special"),
)


def _reversing_pattern(names: Sequence[Hashable]) -> str:
    """Return a pattern that reverses the order of the names."""
    words = [name for name in names if isinstance(name, str) and name.isidentifier()]
    return (
        f"{{{', '.join(words)}}} -> {{{', '.join(words[::-1])}}}"
        if len(words) > 1
        else "{b, k} -> {k, b}"
    )


# --- functions of NumPy called with a named array -------------------------------------------------


_FLAT = "nx.rearrange(x, pattern), or nx.merge_axes(x, {names}, 'flat') for one named axis"
_INSTEAD = {
    **dict.fromkeys(("reshape", "ravel"), _FLAT),
    **dict.fromkeys(
        ("transpose", "permute_dims", "matrix_transpose", "moveaxis", "rollaxis", "swapaxes"),
        "nx.rename(x, {{a: b, b: a}}) to exchange names, which have no order",
    ),
    **dict.fromkeys(
        ("hstack", "vstack", "dstack", "column_stack", "block", "append"),
        "nx.concatenate([x, y], axis) or nx.stack([x, y], axis)",
    ),
    **dict.fromkeys(
        ("inner", "vdot", "matmul", "outer", "tensordot", "vecdot"),
        "nx.dot(x, y, axis) or nx.einsum",
    ),
    "stack": "nx.stack([x, y], 'new')",
    "where": "nx.where(condition, x, y)",
    **dict.fromkeys(("save", "savez", "savez_compressed"), "nx.checkpoints.save(path, tree)"),
}


def replacement(package: ModuleType, name: str, space: str, names: Sequence[Hashable]) -> str:
    """Return the beginning of a sentence with code that replaces a function of NumPy.

    The result is empty if there is no replacement.

    Args:
      package: the package, `namedax`.
      name: the function.
      space: its module, such as `numpy.linalg`.
      names: the axis names of the array.

    >>> import namedax as nx
    >>> from namedax.messages.hints import replacement
    >>> replacement(nx, "mean", "numpy", ("k",))
    "Write nx.mean(x, axis), where axis is one of 'k', or"
    """
    if name in _INSTEAD:
        return f"Write {_INSTEAD[name].format(names=repr(tuple(names)))}, or"
    call = usage(package, name).strip().removesuffix(".")
    own: Any = package.numpy
    home = getattr(own, space.rpartition(".")[2], None) if "." in space else own
    if not call and name in dir(home or package):
        call = f"Write nx.numpy.{space.rpartition('.')[2]}.{name}"
    if not call:
        return ""
    where = f" where axis is one of {show_names(names)}," if "axis" in call else ""
    return f"{call},{where} or"


def hints_of(package: ModuleType) -> Hints:
    """Return the hints about the public functions of `package`, which is `namedax`."""
    return Hints(
        usage=functools.partial(usage, package),
        attribute=functools.partial(what_to_write, package),
        namesake=functools.partial(namesake, package),
        numpy_function=functools.partial(replacement, package),
        function=functools.partial(elsewhere, package),
    )


# --- typical calls of the public functions, from their signatures ---------------------------------


def usage(package: ModuleType, op: str) -> str:
    """Return a sentence with a typical call of a public function.

    It is empty if `op` is not a public function.

    >>> import namedax as nx
    >>> from namedax.messages.hints import usage
    >>> usage(nx, "take"), usage(nx, "softmax")
    (' Write nx.take(x, indices, axis).', ' Write nx.nn.softmax(x, axis).')
    >>> usage(nx, "top_k")
    ' Write nx.top_k(x, k, axis=...).'
    """
    spaces = ("", "nn.", "numpy.", "lax.", "random.") if op.isidentifier() else ()
    for space in spaces:
        home = getattr(package, space[:-1]) if space else package
        if op not in dir(home):
            continue
        try:
            parameters = list(inspect.signature(getattr(home, op)).parameters.values())
        except (TypeError, ValueError):
            return ""
        arguments = _arguments(parameters)
        if arguments == ["*args"] and isinstance(function := getattr(np, op, None), np.ufunc):
            arguments = ["x", "y"][: function.nin]
        return f" Write nx.{space}{op}({', '.join(arguments)})."
    return ""


# Parameters with an axis and an amount in one value.
_AMOUNTS = {"pad_width": "{name: (before, after)}", "reps": "{name: times}"}


def _arguments(parameters: list[inspect.Parameter]) -> list[str]:
    """Return the arguments of a typical call: the required ones, and the axis."""
    keyword = inspect.Parameter.KEYWORD_ONLY
    axis = next(
        (
            p
            for p in parameters
            if p.name.startswith(("axis", "axes", "dimension")) and p.name != "axis_sizes"
        ),
        None,
    )
    by_place = [p for p in parameters if p.kind not in (keyword, inspect.Parameter.VAR_KEYWORD)]
    if axis is not None and axis.kind is not keyword:
        at = by_place.index(axis)
        return [
            _AMOUNTS.get(p.name, p.name)
            for i, p in enumerate(by_place)
            if i <= at or p.default is p.empty
        ]
    many = inspect.Parameter.VAR_POSITIONAL
    needed = [
        f"*{p.name}" if p.kind is many else _AMOUNTS.get(p.name, p.name)
        for p in by_place
        if p.default is p.empty or p.name == "xs" or len(by_place) <= 3
    ]
    return needed if axis is None else [*needed, f"{axis.name}=..."]
