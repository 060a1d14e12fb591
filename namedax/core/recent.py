"""A table of recently used entries, for caches."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

__all__ = ["Recent"]


class Recent:
    """A table of recently used entries, at most `2 * size`.

    It has two generations, and the older one is dropped when the younger one is full. An entry of
    the younger one costs one lookup, without the bookkeeping of a strict order of use.
    """

    def __init__(self, size: int):
        self.size = size
        self.young: dict[Hashable, Any] = {}
        self.old: dict[Hashable, Any] = {}

    def get(self, key: Hashable) -> Any:
        """Return an entry, or `None`."""
        found = self.young.get(key)
        if found is None:
            found = self.old.get(key)
            if found is not None:
                self.put(key, found)
        return found

    def put(self, key: Hashable, value: Any) -> bool:
        """Add an entry; return True if old entries were dropped."""
        full = len(self.young) >= self.size
        if full:
            self.old, self.young = self.young, {}
        self.young[key] = value
        return full

    def pop(self, key: Hashable, freed: object = None) -> None:
        """Remove an entry, if it is there; `freed` is ignored, as a callback of weak references."""
        self.young.pop(key, None)
        self.old.pop(key, None)

    def clear(self) -> None:
        """Remove all entries."""
        self.young, self.old = {}, {}
