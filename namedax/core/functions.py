"""What is known of a function: its parameters, and what its docstring says first.

Many functions of this package are made from others when it is imported. None is inspected then: that costs more than all the rest, and
most are never called.
"""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable
from typing import Any

__all__ = ["Source", "set_display_source", "signature_of", "source_of", "summary_of"]


def signature_of(function: Callable[..., Any]) -> Callable[[], inspect.Signature]:
    """The signature of a function, looked up when this is first called."""
    return functools.cache(functools.partial(inspect.signature, function))


class Source:
    """Where a function is written: its code and its name, but not what it closes over, which may be collected."""

    __slots__ = ("__code__", "__name__")

    def __init__(self, code: types.CodeType, name: str):
        self.__code__, self.__name__ = code, name


def source_of(function: Any) -> Source | None:
    """Where a function is written, behind what wraps it; `None` for what is not written in Python."""
    while isinstance(function, functools.partial):
        function = function.func
    function = inspect.unwrap(function)
    code = getattr(function, "__code__", None)
    return None if code is None else Source(code, getattr(function, "__name__", "function"))


def set_display_source(function: Callable[..., Any], source: Source | None, signature: inspect.Signature) -> None:
    """Makes JAX's messages call `function`, which runs one of the user's, as that is called, with the user's line.

    JAX looks for `__wrapped__`, and for the names of arguments at the signature.
    """
    vars(function)["__signature__"] = signature
    if source is not None:
        vars(function)["__wrapped__"] = source


def summary_of(function: Callable[..., Any]) -> str:
    """The first paragraph of a docstring, or nothing."""
    return inspect.cleandoc((function.__doc__ or "").lstrip().split("\n\n", 1)[0])
