"""Marks on leaves that a pytree operation of JAX turned into a named array inside a mapped body.

Equal block sizes hide a transposition from the comparison of sizes. The mark records the mesh axes of each dimension in the traced body, as
the name of a `checkpoint_name` equation. The inspection of the body compares the mark with the sharding of the leaf.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Hashable, Mapping, Sequence

__all__ = ["mark_for", "marked_axes"]

_PREFIX = "namedax leaf "


def mark_for(dims: Sequence[Hashable | None], sizes: Sequence[int], resources: Mapping[Hashable, Sequence[str]]) -> str | None:
    """Return the mark for a leaf with these dims, or `None` where a different size would reveal every move of a sharded dimension.

    >>> mark_for(("a", "b"), (2, 2), {"a": ("x",)})
    'namedax leaf [["x"], []]'
    >>> mark_for(("a", "b"), (2, 3), {"a": ("x",)}) is None
    True
    """
    axes = [sorted(resources.get(dim, ())) for dim in dims]
    if any(own and sizes.count(size) > 1 for own, size in zip(axes, sizes, strict=True)):
        return _PREFIX + json.dumps(axes)
    return None


@functools.lru_cache(maxsize=1024)
def marked_axes(mark: str) -> tuple[frozenset[str], ...] | None:
    """Return the mesh axes of each named dimension from a mark, or `None` for a name that a user chose.

    >>> marked_axes('namedax leaf [["x"], []]') == (frozenset({"x"}), frozenset())
    True
    """
    return tuple(map(frozenset, json.loads(mark.removeprefix(_PREFIX)))) if mark.startswith(_PREFIX) else None
