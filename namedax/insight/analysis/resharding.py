"""The collectives by which XLA's partitioner moves an array from one layout to another.

This happens outside mapped functions.

XLA compares the numbers of blocks along the dimensions. If the new layout only adds mesh axes, XLA
slices blocks without communication. Otherwise it exchanges blocks between two dimensions
(all-to-all) or joins blocks (all-gather). If the order of mesh axes differs, it then sends each
block to the device that needs it (collective-permute). If XLA finds no such sequence, it gathers
everything.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from namedax.insight.analysis.graph import Spec

__all__ = ["Move", "moves"]


class Move(NamedTuple):
    """One collective of a layout change.

    Attributes:
      kind: the name of the collective in XLA.
      mesh_axes: its mesh axes.
      devices: the number of devices that take part together.
      parts: the number of blocks of the global array; the payload is one block.
    """

    kind: str
    mesh_axes: tuple[str, ...]
    devices: int
    parts: int


def moves(before: Spec, after: Spec, sizes: Mapping[str, int], rank: int) -> Iterator[Move]:
    """Return the collectives that move an array of this rank from one layout to another."""
    have, want = (
        [_kept(spec[i], sizes) if i < len(spec) else () for i in range(rank)]
        for spec in (before, after)
    )
    yield from _Layouts(have, want, sizes).moves()


def _kept(axes: tuple[str, ...], sizes: Mapping[str, int]) -> tuple[str, ...]:
    return tuple(axis for axis in axes if sizes.get(axis, 1) > 1)


class _Layouts:
    """The current layout of an array, and the target layout."""

    def __init__(
        self, have: list[tuple[str, ...]], want: list[tuple[str, ...]], sizes: Mapping[str, int]
    ):
        self.have, self.want, self.sizes = have, want, sizes

    def count(self, axes: Iterable[str]) -> int:
        return math.prod(self.sizes[axis] for axis in axes)

    def moves(self) -> Iterator[Move]:
        if self.have == self.want:
            return
        old, new = list(map(self.count, self.have)), list(map(self.count, self.want))
        held, wanted = math.prod(old), math.prod(new)
        if all(n % o == 0 for o, n in zip(old, new, strict=True)):
            if not all(n[: len(o)] == o for o, n in zip(self.have, self.want, strict=True)):
                yield self.permute()
        elif all(o % n == 0 for o, n in zip(old, new, strict=True)):
            yield from self.gathers()
        elif held == wanted:
            yield from self.exchanges()
        elif held < wanted:
            yield from self.cut_and_exchange()
        else:
            yield from self.exchange_and_gather()

    def permute(self) -> Move:
        changed = [
            axis for o, n in zip(self.have, self.want, strict=True) if o != n for axis in (*o, *n)
        ]
        parts = math.prod(map(self.count, self.want))
        return Move(
            "collective-permute",
            tuple(dict.fromkeys(changed)),
            self.count(dict.fromkeys(changed)),
            parts,
        )

    def gathers(self) -> Iterator[Move]:
        """Join blocks, the last dimension first.

        All dimensions have a multiple of the target number of blocks.
        """
        parts = math.prod(map(self.count, self.have))
        if not all(o[: len(n)] == n for o, n in zip(self.have, self.want, strict=True)):
            axes = tuple(dict.fromkeys(axis for o in (*self.have, *self.want) for axis in o))
            yield Move("collective-permute", axes, self.count(axes), parts)
        for o, n in reversed(list(zip(self.have, self.want, strict=True))):
            devices = self.count(o) // self.count(n)
            if devices > 1:
                parts //= devices
                axes = tuple(axis for axis in o if axis not in n) or o
                yield Move("all-gather", axes, devices, parts)

    def exchanges(self) -> list[Move]:
        """Exchange blocks between pairs of dimensions: one loses the factor that another gains."""
        have, parts, found = list(self.have), math.prod(map(self.count, self.have)), list[Move]()
        factors = [self.count(o) / self.count(n) for o, n in zip(self.have, self.want, strict=True)]
        for i, factor in enumerate(factors):
            if factor <= 1:
                continue
            others = [j for j, other in enumerate(factors) if other * factor == 1]
            if not others or factor != int(factor):
                return self.permuted_exchanges()
            j, devices = others[0], int(factor)
            factors[j] = 1
            moved = next(
                (have[i][k:] for k in range(len(have[i])) if self.count(have[i][k:]) == devices),
                None,
            )
            found.append(Move("all-to-all", moved or have[i], devices, parts))
            if moved is None:
                have[i], have[j] = (), ("?",)  # not an order of complete mesh axes
            else:
                have[i], have[j] = have[i][: -len(moved)], (*have[j], *moved)
        return found if have == self.want else [*found, self.permute()]

    def permuted_exchanges(self) -> list[Move]:
        """Exchange mesh axes between several dimensions with permuted numbers of blocks."""
        if sorted(map(self.count, self.have)) != sorted(map(self.count, self.want)):
            return list(self.all_gathered())
        have, parts, found = list(self.have), math.prod(map(self.count, self.have)), list[Move]()
        while have != self.want:
            candidates = (
                (i, j, axes)
                for j, (old, new) in enumerate(zip(have, self.want, strict=True))
                if new[: len(old)] == old
                for k in range(len(new), len(old), -1)
                for axes in [new[len(old) : k]]
                for i, other in enumerate(have)
                if i != j and other[-len(axes) :] == axes
            )
            candidate = next(candidates, None)
            if candidate is None:
                return list(self.all_gathered())
            i, j, axes = candidate
            have[i], have[j] = have[i][: -len(axes)], (*have[j], *axes)
            found.append(Move("all-to-all", axes, self.count(axes), parts))
        return found

    def all_gathered(self) -> Iterator[Move]:
        """Gather everything, and slice it again without communication."""
        whole: list[tuple[str, ...]] = [()] * len(self.have)
        yield from _Layouts(self.have, whole, self.sizes).gathers()

    def cut_and_exchange(self) -> Iterator[Move]:
        """Slice along mesh axes that are added, then exchange."""
        used = {axis for axes in self.have for axis in axes}
        have = list(self.have)
        (moved, *_) = filter(None, self.have)
        cut = [axes if used.issuperset(axes) else () for axes in self.want]
        if have == [(), *self.want[:-1]] and sorted(cut) == sorted(have) and self.is_whole():
            # One dimension to the one before it; the last one is sliced afterwards.
            yield Move("all-to-all", moved, self.count(moved), self.count(moved))
            return
        added = tuple(axis for axes in self.want for axis in axes if axis not in used)
        for i, axes in enumerate(self.want):
            if self.count(axes) % (self.count(have[i]) * self.count(added)) == 0:
                have[i] = (*have[i], *added)
                yield from _Layouts(have, self.want, self.sizes).moves()
                return
        yield from self.all_gathered()

    def is_whole(self) -> bool:
        """Return True if the wanted layout uses all mesh axes."""
        return self.count(axis for axes in self.want for axis in axes) == math.prod(
            self.sizes.values()
        )

    def exchange_and_gather(self) -> Iterator[Move]:
        """Gather dimensions that keep no mesh axis and exchange the others, or vice versa."""
        kept = {axis for axes in self.want for axis in axes}
        gathered = [axes if kept.intersection(axes) else () for axes in self.have]
        if gathered != self.have:
            yield from _Layouts(self.have, gathered, self.sizes).gathers()
            yield from _Layouts(gathered, self.want, self.sizes).moves()
            return
        exchanged = [tuple(axis for axis in axes if axis not in kept) for axes in self.have]
        for i, axes in enumerate(self.want):
            exchanged[i] = (*axes, *exchanged[i]) if exchanged[i] else axes
        try_moves = _Layouts(self.have, exchanged, self.sizes).exchanges()
        if len(try_moves) == 1:
            yield from try_moves
            yield from _Layouts(exchanged, self.want, self.sizes).gathers()
        else:
            yield from self.all_gathered()
