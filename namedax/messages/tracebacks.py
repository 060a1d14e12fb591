"""Tracebacks without the frames of this package.

These frames show how an operation is checked or a body is traced, and rarely help to locate an
error. The frames of user code stay, and the frames of other packages below the last one of them.
For an error of namedax, only the last of these lower frames stays, because the message has the
details.
"""

from __future__ import annotations

import types
from collections.abc import Callable

import jax

from namedax.errors import NamedaxError

__all__ = ["install", "shorten_eager", "shorten_traceback"]

_is_in_body: list[Callable[[], bool]] = []


def install(is_in_body: Callable[[], bool]) -> None:
    """Make `is_in_body` the function that returns True in a mapped body."""
    _is_in_body[:] = [is_in_body]


# JAX removes its own frames, except for those below its last boundary. The other packages occur
# between frames of JAX and namedax.
_MACHINERY = ("namedax", "jax", "jaxlib", "contextlib", "functools")


def shorten_traceback(error: Exception) -> None:
    """Remove the frames of this package from the traceback of an error that is raised again.

    The JAX option `jax_traceback_filtering=off`, or the environment variable
    JAX_TRACEBACK_FILTERING=off, disables this filter, as it disables JAX's own.
    """
    if jax.config.jax_traceback_filtering == "off":  # type: ignore[attr-defined, unused-ignore]
        return
    entries: list[types.TracebackType] = []
    entry = error.__traceback__
    while entry is not None:
        entries.append(entry)
        entry = entry.tb_next
    packages = [entry.tb_frame.f_globals.get("__name__", "").partition(".")[0] for entry in entries]
    below = max((i + 1 for i, home in enumerate(packages) if home not in _MACHINERY), default=0)
    kept = [
        entry
        for entry, home in zip(entries[:below], packages, strict=False)
        if home not in _MACHINERY
    ]
    kept += entries[below:][-1:] if isinstance(error, NamedaxError) else entries[below:]
    traceback = None
    for entry in reversed(kept):
        traceback = types.TracebackType(traceback, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    error.__traceback__ = traceback


def shorten_eager(error: Exception) -> None:
    """Shorten the traceback of an error that an operation raises outside of every mapped body.

    A mapped function shortens the traceback of its body itself, after it has inspected the frames.
    """
    if not _is_in_body[0]():
        shorten_traceback(error)
