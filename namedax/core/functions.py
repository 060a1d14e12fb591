"""What is known of a function: its parameters, and what its docstring says first.

Many functions of this package are made from others when it is imported. None is inspected then: that costs more than all the rest, and
most are never called.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

__all__ = ["SignatureOf", "summary_of"]


class SignatureOf:
    """The signature of a function, looked up when this is first called."""

    __slots__ = ("_function", "_known")

    def __init__(self, function: Callable[..., Any]):
        self._function = function
        self._known: inspect.Signature | None = None

    def __call__(self) -> inspect.Signature:
        """The signature."""
        known = self._known
        if known is None:
            known = self._known = inspect.signature(self._function)
        return known


def summary_of(function: Callable[..., Any]) -> str:
    """The first paragraph of a docstring, or nothing."""
    return inspect.cleandoc((function.__doc__ or "").lstrip().split("\n\n", 1)[0])
