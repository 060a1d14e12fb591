"""Signatures, source locations and summaries of functions.

Many functions of this package are built from others at import time. None is inspected then: that
would cost more than the rest of the import, and most are never called.
"""

from __future__ import annotations

import functools
import inspect
import re
import types
from collections.abc import Callable, Iterable
from string import ascii_uppercase
from typing import Any

__all__ = [
    "LIBRARIES",
    "Source",
    "cell_names",
    "joined",
    "packages_of",
    "set_display_source",
    "signature_of",
    "source_of",
    "summary_of",
]


#: The packages whose functions are not the user's.
LIBRARIES = frozenset({"jax", "jaxlib", "numpy", "namedax"})


def packages_of(function: object) -> set[str]:
    """Return the packages of a function; empty text for an unknown one.

    `functools.wraps` copies the module of the wrapped function, so its globals count too.
    """
    modules = {getattr(function, "__module__", None) or ""}
    if (home := getattr(function, "__globals__", {}).get("__name__")) is not None:
        modules.add(home)
    return {module.partition(".")[0] for module in modules}


def signature_of(function: Callable[..., Any]) -> Callable[[], inspect.Signature]:
    """Return a function that looks up the signature of `function` on its first call."""
    return functools.cache(functools.partial(inspect.signature, function))


class Source:
    """The source of a function: its code and its name, without the values that it closes over.

    Those values can still be garbage-collected.
    """

    __slots__ = ("__code__", "__name__")

    def __init__(self, code: types.CodeType, name: str):
        self.__code__, self.__name__ = code, name


def source_of(function: Callable[..., object]) -> Source | None:
    """Return the source of an unwrapped function; `None` if it is not written in Python."""
    while isinstance(function, functools.partial):
        function = function.func
    function = inspect.unwrap(function)
    code = getattr(function, "__code__", None)
    return None if code is None else Source(code, getattr(function, "__name__", "function"))


def set_display_source(
    function: Callable[..., Any], source: Source | None, signature: inspect.Signature
) -> None:
    """Make JAX's messages show the user's function and line in place of `function`, its caller.

    JAX reads `__wrapped__`, and the argument names from the signature.
    """
    vars(function)["__signature__"] = signature
    if source is not None:
        vars(function)["__wrapped__"] = source


def summary_of(function: Callable[..., Any]) -> str:
    """Return the first paragraph of a docstring, or the empty string."""
    return inspect.cleandoc((function.__doc__ or "").lstrip().split("\n\n", 1)[0])


def joined(*parts: str | None) -> str:
    r"""Return one docstring of parts, each indented or not.

    Python 3.13 has unindented the parts that were written as docstrings.

    >>> from namedax.core.functions import joined
    >>> joined("The sum.\n\n    Of all.", "\n    Args:\n      x: an array.\n    ")
    'The sum.\n\nOf all.\n\nArgs:\n  x: an array.'
    """
    return "\n\n".join(inspect.cleandoc(part) for part in parts if part)


# IPython's kernel names each cell by a hash, which means nothing to a reader.
_CELL = re.compile(r"[/\\]ipykernel_\d+[/\\]\d+\.py$")


def cell_names(paths: Iterable[str]) -> dict[str, str]:
    """Return names for the files that are notebook cells, in order of first occurrence.

    >>> from namedax.core.functions import cell_names
    >>> cell_names(["/tmp/ipykernel_41/97.py", "model.py"])
    {'/tmp/ipykernel_41/97.py': 'cell'}
    >>> cell_names(["/tmp/ipykernel_41/97.py", "/tmp/ipykernel_41/12.py"])
    {'/tmp/ipykernel_41/97.py': 'cell A', '/tmp/ipykernel_41/12.py': 'cell B'}
    """
    found = [path for path in dict.fromkeys(paths) if _CELL.search(path)]
    if len(found) == 1:
        return {found[0]: "cell"}
    return {path: f"cell {_letters(number)}" for number, path in enumerate(found)}


def _letters(number: int) -> str:
    """Return the letters of a number: A, B, ..., Z, AA, AB, ..."""
    before, last = divmod(number, len(ascii_uppercase))
    return (_letters(before - 1) if before else "") + ascii_uppercase[last]
