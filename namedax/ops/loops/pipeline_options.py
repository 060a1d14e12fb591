"""The options of pipelines that a program leaves open, chosen for one trace by `nx.plan`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from typing import Any

__all__ = ["Chosen", "choosing", "chosen"]


class Chosen:
    """Options for the pipelines of a trace.

    Args:
      options: `microbatches`, `schedule` and `interleave`, or some of them.
    """

    def __init__(self, options: Mapping[str, Any]):
        self.options = dict(options)
        #: The options that a pipeline over devices left open.
        self.open: set[str] = set()


_CHOSEN: ContextVar[Chosen | None] = ContextVar("chosen", default=None)


def chosen() -> Chosen:
    """Return the options of the current trace; by default there are none."""
    return _CHOSEN.get() or Chosen({})


@contextlib.contextmanager
def choosing(options: Mapping[str, Any]) -> Iterator[Chosen]:
    """Use options for the pipelines that are traced in this context."""
    choice = Chosen(options)
    token = _CHOSEN.set(choice)
    try:
        yield choice
    finally:
        _CHOSEN.reset(token)
