"""Tracebacks without the frames of this package that stand between a user's call and the user's function.

They say how a body is traced, which is no news to who reads that it has a mistake. What a user wrote stays, and so does all that is below the
last frame of the user's, unless it leads to an error of namedax, whose message says more: of these frames the last one stays.
"""

from __future__ import annotations

import types

import jax

from namedax.errors import NamedaxError

__all__ = ["shorten_traceback"]

# JAX removes its own frames, but for those below its last boundary. The others stand between the frames of both.
_MACHINERY = ("namedax", "jax", "jaxlib", "contextlib", "functools")


def shorten_traceback(error: Exception) -> None:
    """Removes these frames from the traceback of an error that is being handled, and raised again after that.

    JAX's option `jax_traceback_filtering`, or the environment variable JAX_TRACEBACK_FILTERING, switches it off, as it does JAX's own.
    """
    if jax.config.jax_traceback_filtering == "off":  # type: ignore[attr-defined, unused-ignore]
        return
    entries: list[types.TracebackType] = []
    entry = error.__traceback__
    while entry is not None:
        entries.append(entry)
        entry = entry.tb_next
    written = [entry.tb_frame.f_globals.get("__name__", "").partition(".")[0] not in _MACHINERY for entry in entries]
    below = max((i + 1 for i, by_user in enumerate(written) if by_user), default=0)
    kept = [entry for entry, by_user in zip(entries, written, strict=True) if by_user]
    kept += entries[below:][-1:] if isinstance(error, NamedaxError) else entries[below:]
    traceback = None
    for entry in reversed(kept):
        traceback = types.TracebackType(traceback, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    error.__traceback__ = traceback
