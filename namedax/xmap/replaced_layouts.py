"""Layouts that replace those of mapped functions while a surrounding function is traced."""

from __future__ import annotations

import contextlib
import functools
import operator
from collections.abc import Callable, Iterator
from typing import Any

import jax

__all__ = ["replacement", "replacements", "replacing"]

#: Takes a mapped function and its arguments, and returns it with another layout, or `None`.
Replacement = Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]

# Part of JAX's cache keys: a `jit`-ed function that calls mapped functions is traced again.
_context = jax.make_user_context(None)

#: Return the present replacement, or `None`.
replacement: Callable[[], Replacement | None] = functools.partial(
    operator.attrgetter("value"), _context
)


#: It is not empty while a thread replaces layouts, so that other calls can skip the check.
replacements: set[object] = set()


@contextlib.contextmanager
def replacing(replacement: Replacement) -> Iterator[None]:
    """Replace the layouts of mapped functions that are called in this context."""
    token = object()
    replacements.add(token)
    try:
        with _context(replacement):
            yield
    finally:
        replacements.discard(token)
