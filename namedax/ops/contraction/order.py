"""The order in which a contraction of several operands contracts them in pairs."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator, Sequence

import opt_einsum

from namedax.core.names import Label, Labels

__all__ = ["ORDERED", "Path", "best_order"]

Path = tuple[tuple[int, int], ...]

#: The scope of contractions of more than two operands, whose order depends on their sizes.
ORDERED = "ordered_by_size"
# For more operands than this, the search does not try every order to avoid conflicts between names
# of one mesh axis.
_MANY = 6


@functools.lru_cache(maxsize=1024)
def best_order(
    labels: tuple[Labels, ...],
    shapes: tuple[tuple[int, ...], ...],
    kept: frozenset[Label],
    rivals: tuple[frozenset[Label], ...],
) -> Path:
    """Return the pairs of operands in the order of contraction.

    The order is the cheapest one of `opt_einsum` unless a pair has rivals. Each result is appended
    to the list of operands.

    Args:
      labels: the labels of every operand.
      shapes: the shape of every operand.
      kept: the labels of the result.
      rivals: sets of labels that are sharded over one mesh axis, so that no pair may contain two of
        them.
    """
    sizes = dict(
        zip(
            itertools.chain.from_iterable(labels),
            itertools.chain.from_iterable(shapes),
            strict=True,
        )
    )
    symbols = {label: opt_einsum.get_symbol(i) for i, label in enumerate(sizes)}
    text = ",".join("".join(symbols[label] for label in ls) for ls in labels)
    out = "".join(symbol for label, symbol in symbols.items() if label in kept)
    found, _ = opt_einsum.contract_path(f"{text}->{out}", *shapes, shapes=True, optimize="auto")
    best = tuple((min(step), max(step)) for step in found)

    def has_conflict(path: Path) -> bool:
        pairs = _pairs(path, labels, kept)
        return any(len(pair & names) > 1 for pair in pairs for names in rivals)

    def cost(path: Path) -> int:
        pairs = _pairs(path, labels, kept)
        return sum(math.prod(sizes[label] for label in pair) for pair in pairs)

    if not has_conflict(best) or len(labels) > _MANY:
        return best
    paths = (path for path in _all_paths(len(labels)) if not has_conflict(path))
    # If every order has a conflict, the contraction itself reports it.
    return min(paths, key=cost, default=best)


def _pairs(
    path: Path, labels: Sequence[Labels], kept: frozenset[Label]
) -> Iterator[frozenset[Label]]:
    """Yield the labels of each contracted pair."""
    current = [frozenset(ls) for ls in labels]
    for i, j in path:
        pair = current[i] | current[j]
        yield pair
        current = [ls for k, ls in enumerate(current) if k not in (i, j)]
        current.append(pair & kept.union(*current))


def _all_paths(n: int) -> Iterator[Path]:
    """Yield all orders in which `n` operands can contract in pairs."""
    if n < 2:
        yield ()
        return
    for pair in itertools.combinations(range(n), 2):
        for rest in _all_paths(n - 1):
            yield (pair, *rest)
