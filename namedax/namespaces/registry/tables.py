"""Parts of tables of functions, by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["Functions", "only", "without"]

Functions = dict[str, Callable[..., Any]]


def only(functions: Functions, *names: str) -> Functions:
    """The functions with these names."""
    return {name: functions[name] for name in names}


def without(functions: Functions, *names: str) -> Functions:
    """The functions with other names."""
    return {name: function for name, function in functions.items() if name not in names}
