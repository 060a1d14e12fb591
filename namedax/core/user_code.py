"""The boundary between namedax and the functions that users pass to it.

Every call of such a function goes through one of the functions below. The traceback that JAX keeps
for each equation contains the frame of that call. So a traced program shows which equations come
from user code: those whose innermost namedax frame is a boundary. Nothing else decides it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, TypeVarTuple

__all__ = [
    "Boundary",
    "boundary_of",
    "call_backward_rule",
    "call_checked_code",
    "call_user_code",
    "is_transparent",
    "make_transparent",
]

P = ParamSpec("P")
R = TypeVar("R")
Ts = TypeVarTuple("Ts")


def call_user_code(function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
    """Call a function of the user."""
    return function(*args, **kwargs)


def call_backward_rule(function: Callable[[*Ts], R], /, *args: *Ts) -> R:
    """Call a rule of the user that computes cotangents; JAX runs it while it transposes a program."""
    return function(*args)


def call_checked_code(function: Callable[[*Ts], R], /, *args: *Ts) -> R:
    """Call a function whose traced program is checked on its own, so the surrounding check skips it."""
    return function(*args)


Boundary = Callable[..., Any]

_BOUNDARIES: dict[tuple[str, str], Boundary] = {
    (function.__code__.co_filename, function.__qualname__): function
    for function in (call_user_code, call_backward_rule, call_checked_code)
}


def boundary_of(file: str, function: str) -> Boundary | None:
    """Return the boundary that a frame of a traceback belongs to, if it belongs to one.

    Args:
      file: the file of the frame's code.
      function: the qualified name of the frame's code.
    """
    return _BOUNDARIES.get((file, function))


_TRANSPARENT: set[str] = set()


def make_transparent(file: str) -> None:
    """Mark the frames of a file as transparent, so that the search for a boundary skips them.

    JAX calls the functions of such a module, from user code too, to flatten and unflatten named
    arrays.
    """
    _TRANSPARENT.add(file)


def is_transparent(file: str) -> bool:
    """Return True if the frames of a file are transparent."""
    return file in _TRANSPARENT
