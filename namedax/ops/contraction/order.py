"""The order in which three or more operands contract in pairs.

The order is the cheapest one in which no two names of one mesh axis occur in the same pair.
`opt_einsum` finds the cheapest order of all.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence

import opt_einsum

__all__ = ["best_order"]

Label = Hashable
Labels = tuple[Label, ...]

# For more operands than this, the search does not try every order to avoid conflicts between names
# of one mesh axis.
_MANY = 6


@functools.lru_cache(maxsize=1024)
def best_order(
    labels: tuple[Labels, ...],
    shapes: tuple[tuple[int, ...], ...],
    kept: frozenset[Label],
    rivals: tuple[frozenset[Label], ...],
) -> tuple[tuple[int, int], ...]:
    """Return the pairs of operands in the order of contraction.

    Each result is appended to the list of operands.

    Args:
      labels: the labels of every operand.
      shapes: the shape of every operand.
      kept: the labels of the result.
      rivals: sets of labels that are sharded over one mesh axis, so that no pair may contain two of
        them.
    """
    symbols = {
        label: opt_einsum.get_symbol(i)
        for i, label in enumerate(dict.fromkeys(itertools.chain.from_iterable(labels)))
    }
    text = ",".join("".join(symbols[label] for label in ls) for ls in labels)
    out = "".join(symbol for label, symbol in symbols.items() if label in kept)
    found, _ = opt_einsum.contract_path(f"{text}->{out}", *shapes, shapes=True, optimize="auto")
    best = tuple((min(step), max(step)) for step in found)
    if not rivals or _is_peaceful(best, labels, kept, rivals):
        return best
    sizes = dict(
        zip(
            itertools.chain.from_iterable(labels),
            itertools.chain.from_iterable(shapes),
            strict=True,
        )
    )
    costs = {
        path: _cost(path, labels, kept, sizes)
        for path in (_all_paths(len(labels)) if len(labels) <= _MANY else ())
        if _is_peaceful(path, labels, kept, rivals)
    }
    # If every order has a conflict, the contraction itself reports it.
    return min(costs, key=costs.__getitem__, default=best)


def _merges(
    path: Iterable[tuple[int, int]], labels: Sequence[Labels], kept: frozenset[Label]
) -> Iterator[frozenset[Label]]:
    """Yield the labels of each contracted pair."""
    current = [frozenset(ls) for ls in labels]
    for i, j in path:
        meeting = current[i] | current[j]
        yield meeting
        current = [ls for k, ls in enumerate(current) if k not in (i, j)]
        current.append(meeting & kept.union(*current))


def _is_peaceful(
    path: Iterable[tuple[int, int]],
    labels: Sequence[Labels],
    kept: frozenset[Label],
    rivals: Sequence[frozenset[Label]],
) -> bool:
    meetings = _merges(path, labels, kept)
    return all(len(meeting & names) < 2 for meeting in meetings for names in rivals)


def _cost(
    path: Iterable[tuple[int, int]],
    labels: Sequence[Labels],
    kept: frozenset[Label],
    sizes: Mapping[Label, int],
) -> int:
    return sum(math.prod(sizes[label] for label in ls) for ls in _merges(path, labels, kept))


def _all_paths(n: int) -> Iterator[tuple[tuple[int, int], ...]]:
    """Yield all orders in which `n` operands can contract in pairs."""
    if n < 2:
        yield ()
        return
    for pair in itertools.combinations(range(n), 2):
        for rest in _all_paths(n - 1):
            yield (pair, *rest)
