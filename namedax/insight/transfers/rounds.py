"""Rounds: pieces are cut and grouped so that the data in flight on a device stay within a limit.

The arrays move one after the other. In each round a device holds, in addition to blocks of the two
layouts, the slices that it sends and the pieces that it receives. If all pieces of one array are
too much for one round, they are first distributed over several rounds. In each of these, a device
sends to few devices and receives from few, and all devices take part. If that is not enough,
each piece is also cut into slices along its longest axis.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from namedax.core.records import Record
from namedax.errors import ArgumentError
from namedax.insight.transfers.layouts import Boxes, Leaf
from namedax.insight.transfers.pieces import Pieces

# The maximum number of rounds of one array.
_MOST_PARTS = 1 << 14

__all__ = ["Kind", "Part", "Round", "Slices", "kind_of", "rounds_of"]


class Slices(NamedTuple):
    """The slices of pieces that move in one round.

    Attributes:
      pieces: the number of each piece.
      low: the first index of each slice, by dimension.
      high: the index behind the last one.
      cut: True if a slice is only a part of its piece.
    """

    pieces: np.ndarray
    low: np.ndarray
    high: np.ndarray
    cut: np.ndarray


class Kind(NamedTuple):
    """Arrays of one shape, dtype size and pair of placements.

    Attributes:
      pieces: their pieces.
      itemsize: the bytes of an element.
      held: by device, the bytes of the source block.
      needed: by device, the bytes of the target block.
      devices: the number of devices of both layouts.
    """

    pieces: Pieces
    itemsize: int
    held: np.ndarray
    needed: np.ndarray
    devices: int

    @property
    def bytes(self) -> np.ndarray:
        """The bytes of each piece."""
        return self.pieces.sizes[self.pieces.parts] * self.itemsize

    def in_flight(self, slices: Slices) -> np.ndarray:
        """Return by device the bytes of slices that are sent, and of pieces that are received.

        A complete block needs no slice, and a piece that is a complete block is received in its
        final place.
        """
        at = slices.pieces
        size = np.prod(slices.high - slices.low, axis=1, dtype=np.int64) * self.itemsize
        whole = self.pieces.whole[at] & ~slices.cut
        direct = self.pieces.direct[at] & ~slices.cut
        sent, received = (
            np.bincount(devices[at], np.where(free, 0, size), minlength=self.devices)
            for devices, free in ((self.pieces.senders, whole), (self.pieces.receivers, direct))
        )
        total: np.ndarray = (sent + received).astype(np.int64)
        return total

    def part(self, part: Part) -> Slices:
        """Return the slices of one part."""
        pieces = self.pieces
        wave = (pieces.receivers - pieces.senders) % self.devices
        (at,) = np.nonzero(wave % part.groups == part.group)
        low, high = pieces.low[pieces.parts[at]], pieces.high[pieces.parts[at]]
        cut = np.zeros(len(at), bool)
        if part.slices == 1 or not len(at) or not low.shape[1]:
            some = slice(None if part.turn == 0 else 0)
            return Slices(at[some], low[some], high[some], cut[some])
        longest = np.argmax(high - low, axis=1)
        rows = np.arange(len(at))
        length = (high - low)[rows, longest]
        # A complete block that stays complete is never in memory twice.
        cut = (length > 1) & ~(pieces.whole[at] & pieces.direct[at])
        begin = np.where(cut, length * part.turn // part.slices, 0)
        end = np.where(cut, length * (part.turn + 1) // part.slices, length)
        end = np.where(cut | (part.turn == 0), end, 0)
        low, high = low.copy(), high.copy()
        start = low[rows, longest]
        low[rows, longest], high[rows, longest] = start + begin, start + end
        kept = end > begin
        return Slices(at[kept], low[kept], high[kept], (cut & (end - begin < length))[kept])

    def most_in_flight(self, groups: int, slices: int) -> int:
        """Return the most bytes in flight on a device, if the pieces move in these parts."""
        pieces = self.pieces
        shape = pieces.high[pieces.parts] - pieces.low[pieces.parts]
        length = shape.max(axis=1, initial=1)
        cut = (slices > 1) & (length > 1) & ~(pieces.whole & pieces.direct)
        size = np.where(cut, self.bytes // length * -(-length // slices), self.bytes)
        group = (pieces.receivers - pieces.senders) % self.devices % groups * self.devices
        total = np.zeros(groups * self.devices)
        for devices, free in ((pieces.senders, pieces.whole), (pieces.receivers, pieces.direct)):
            total += np.bincount(
                group + devices, np.where(free & ~cut, 0, size), minlength=len(total)
            )
        return int(total.max(initial=0))

    def parts(self, limit: float) -> list[tuple[Part, np.ndarray]]:
        """Return the parts in which the arrays move, each with its bytes in flight by device.

        Raises:
          ArgumentError: the limit is smaller than one row of a piece, or requires too many rounds.
        """
        groups, slices = 1, 1
        while self.most_in_flight(groups, 1) > limit and groups < self.devices:
            groups = min(2 * groups, self.devices)
        if self.most_in_flight(groups, 1) > limit:
            shapes = self.pieces.high - self.pieces.low
            low, slices = 1, int(shapes.max(initial=1))
            most = self.most_in_flight(groups, slices)
            if most > limit:
                raise ArgumentError(
                    f"transfer: memory={limit:g} is less than one row of a piece of an array: with"
                    f" it, a device has {most} bytes in flight. Pass memory={most} or more."
                )
            while low + 1 < slices:
                middle = (low + slices) // 2
                fits = self.most_in_flight(groups, middle) <= limit
                low, slices = (low, middle) if fits else (middle, slices)
        if groups * slices > _MOST_PARTS:
            enough = self.most_in_flight(groups, max(1, _MOST_PARTS // groups))
            raise ArgumentError(
                f"transfer: with memory={limit:g} an array needs {groups * slices} rounds. Pass"
                f" memory={enough} or more."
            )
        return [
            (part := Part(group, groups, turn, slices), self.in_flight(self.part(part)))
            for group in range(groups)
            if groups == 1 or self.has(group, groups)
            for turn in range(slices)
        ]

    def has(self, group: int, groups: int) -> bool:
        """Return True if a group of pieces is not empty."""
        wave = (self.pieces.receivers - self.pieces.senders) % self.devices
        return bool((wave % groups == group).any())


class Part(NamedTuple):
    """A part of the pieces of an array.

    Attributes:
      group: the number of the group of pieces.
      groups: the number of groups.
      turn: the number of the slice of each piece.
      slices: the number of slices.
    """

    group: int = 0
    groups: int = 1
    turn: int = 0
    slices: int = 1


class Round(Record):
    """One round.

    Attributes:
      parts: the number of each leaf, with the part of it that moves.
      opened: the leaves that begin in this round.
      closed: the leaves that end in it.
      in_flight: by device, the bytes of slices and received pieces.
      peak: by device, the bytes of all blocks and of the data in flight.
    """

    parts: tuple[tuple[int, Part], ...]
    opened: tuple[int, ...]
    closed: tuple[int, ...]
    in_flight: np.ndarray
    peak: np.ndarray


def kind_of(leaf: Leaf, pieces: Pieces, source: Boxes, target: Boxes, count: int) -> Kind:
    """Return the figures of an array and of all that move in the same way."""
    held, needed = np.zeros(count, np.int64), np.zeros(count, np.int64)
    for into, boxes in ((held, source), (needed, target)):
        sizes = np.prod(boxes.high - boxes.low, axis=1, dtype=np.int64)
        np.add.at(into, boxes.devices, sizes * leaf.itemsize)
    return Kind(pieces, leaf.itemsize, held, needed, count)


def rounds_of(kinds: Sequence[Kind], limit: float | None, donate: bool) -> list[Round]:
    """Distribute the arrays over rounds.

    Args:
      kinds: the kind of each array, in the order in which they move.
      limit: the most bytes in flight on a device. `None` for those of the largest array.
      donate: True if the source of an array is freed when the array has moved.

    Raises:
      ArgumentError: the limit is too small.
    """
    known = {id(kind): kind for kind in kinds}
    if limit is None:
        whole = Part()
        limit = max(
            (float(kind.in_flight(kind.part(whole)).max(initial=0)) for kind in known.values()),
            default=0.0,
        )
    split = {key: kind.parts(limit) for key, kind in known.items()}
    plan: list[list[tuple[int, Part, bool, bool]]] = []
    flights: list[np.ndarray] = []
    for i, kind in enumerate(kinds):
        parts = split[id(kind)]
        for j, (part, flight) in enumerate(parts):
            if not plan or (flights[-1] + flight).max(initial=0) > limit:
                plan.append([])
                flights.append(np.zeros_like(flight))
            plan[-1].append((i, part, j == 0, j == len(parts) - 1))
            flights[-1] = flights[-1] + flight
    return _with_peaks(kinds, plan, flights, donate)


def _with_peaks(
    kinds: Sequence[Kind],
    plan: Sequence[Sequence[tuple[int, Part, bool, bool]]],
    flights: Sequence[np.ndarray],
    donate: bool,
) -> list[Round]:
    held = np.sum([kind.held for kind in kinds], axis=0) if kinds else np.zeros(0, np.int64)
    rounds = []
    for parts, flight in zip(plan, flights, strict=True):
        opened = tuple(i for i, _, first, _ in parts if first)
        closed = tuple(i for i, _, _, last in parts if last)
        for i in opened:
            held = held + _allocated(kinds[i], donate)
        rounds.append(
            Round(tuple((i, p) for i, p, _, _ in parts), opened, closed, flight, held + flight)
        )
        if donate:
            for i in closed:
                held = held - _freed(kinds[i])
    return rounds


def _allocated(kind: Kind, donate: bool) -> np.ndarray:
    """Return by device the bytes of new memory for an array."""
    new = kind.needed.copy()
    if donate:
        new[kind.pieces.in_place] = 0
    return new


def _freed(kind: Kind) -> np.ndarray:
    """Return by device the bytes of the source that are freed."""
    old = kind.held.copy()
    old[kind.pieces.in_place] = 0
    return old
