"""Uneven names: the best layout, judged again with names in padded blocks."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from namedax.insight.planning.candidates import Candidate
from namedax.insight.planning.space import Choice, Space

__all__ = ["with_uneven_names"]

# The maximum number of traces.
_TRACES = 6


def with_uneven_names(
    space: Space,
    best: Callable[[], tuple[Choice, Candidate] | None],
    judge: Callable[[Choice], object],
    rank: Callable[[Candidate], Any],
    arguments: Mapping[Any, int],
) -> None:
    """Judge layouts in which a name has padded blocks, because its size does not divide.

    The names are added to the best layout one after the other. A name stays in `space.uneven` if
    the search has tried it.

    Args:
      space: the space of the search.
      best: returns the best choice so far and its candidate, or `None`.
      judge: judges a choice.
      rank: the sort key of candidates.
      arguments: the bytes of the arguments that have each name; the largest name is tried first.
    """
    left = _TRACES
    names = space.not_dividing()
    for name in sorted(names, key=lambda name: (-arguments.get(name, 0), str(name))):
        found = best()
        if left == 0 or found is None:
            return
        choice, before = found
        space.uneven.add(name)
        pool = list(dict.fromkeys(_padded(space, choice, name)))
        if not pool:
            space.uneven.discard(name)  # so that it counts as left out
        for other in pool[: min(left, 2)]:
            left -= 1
            judge(other)
            found = best()
            if found is not None and rank(found[1]) < rank(before):
                break


def _padded(space: Space, choice: Choice, name: Any) -> Iterator[Choice]:
    """Yield choices with a name in padded blocks: many blocks first, little padding first."""
    used = [i for i, n in enumerate(choice.sizes) if n > 1]
    places = [
        place for count in range(1, len(used) + 1) for place in itertools.combinations(used, count)
    ]
    found: dict[Choice, tuple[bool, int, int]] = {}
    for place in places:
        other = space.canonical(space.put(choice, name, place))
        blocks = space.blocks(other, name)
        if other == choice or space.sizes[name] % blocks == 0 or not space.allowed(other):
            continue
        removed = sum(len(role) for role in choice.roles) - sum(len(role) for role in other.roles)
        padding = -space.sizes[name] % blocks
        found[other] = (removed >= 0, padding * 8 > space.sizes[name], -blocks)
    yield from sorted(found, key=lambda other: found[other])
