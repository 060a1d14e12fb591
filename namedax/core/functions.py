"""What is known of a function: its parameters, and what its docstring says first.

Many functions of this package are made from others when it is imported. None is inspected then: that costs more than all the rest, and
most are never called.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

__all__ = ["signature_of", "summary_of"]


def signature_of(function: Callable[..., Any]) -> Callable[[], inspect.Signature]:
    """The signature of a function, looked up when this is first called."""
    return functools.cache(functools.partial(inspect.signature, function))


def summary_of(function: Callable[..., Any]) -> str:
    """The first paragraph of a docstring, or nothing."""
    return inspect.cleandoc((function.__doc__ or "").lstrip().split("\n\n", 1)[0])
