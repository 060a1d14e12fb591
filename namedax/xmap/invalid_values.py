"""The line of a NaN that JAX finds in the compiled program of a mapped function.

With `jax_debug_nans`, JAX calls a function again without `jax.jit`. A mapped function remains one
program there, so JAX reports none of its lines. Results do not depend on the layout, so the
function without one has the same NaN, and runs line by line.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax

from namedax.messages.tracebacks import shorten_traceback

__all__ = ["find_invalid_value", "is_invalid_value"]


def is_invalid_value(error: Exception) -> bool:
    """Report whether `error` is JAX's error for a NaN or an infinity.

    The error for a compiled program has a class of its own, which JAX does not export.
    """
    checks = jax.config.jax_debug_nans or jax.config.jax_debug_infs  # type: ignore[attr-defined, unused-ignore]
    return bool(checks) and type(error).__name__.endswith("FloatingPointError")


def find_invalid_value(
    function: Callable[..., Any], name: str, error: Exception, args: Any, kwargs: Any
) -> None:
    """Call a mapped function without a layout, to find the line of an invalid value.

    If there is none, add a note to `error`.

    Args:
      function: the mapped function without `axis_resources`.
      name: its name, for the note.
      error: JAX's error for the compiled program.
      args: the arguments of the call.
      kwargs: the keyword arguments of the call.

    Raises:
      FloatingPointError: an operation has an invalid result. The traceback contains its line.
    """
    try:
        function(*args, **kwargs)
    except FloatingPointError as found:
        shorten_traceback(found)
        raise found from None
    except Exception:
        pass  # it needs the mesh, or the arrays of other processes
    error.add_note(
        f"namedax: {name} has a NaN or an infinity, and the line is unknown, because calling it"
        " without axis_resources did not find it. Print values in the function:"
        ' nx.debug.print("{x}", x=x).'
    )
