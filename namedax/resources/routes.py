"""How entries of an axis that is cut into blocks are permuted: planned while the program is traced.

Which device needs which entries of which other one is known then. Entries that stay cost nothing, and the others travel in as few
collective-permutes as the traffic allows, or in one all-to-all.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from namedax.core.variance import cast_data, varying
from namedax.resources import communication as comm

__all__ = ["Route", "execute_route", "plan_route"]

Axes = tuple[str, ...]

# --- permutations ---------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class _Round:
    """One collective-permute: `send[d]` are the entries that device `d` puts in, `pairs` who sends to whom."""

    send: np.ndarray
    pairs: tuple[tuple[int, int], ...]


@dataclasses.dataclass(frozen=True)
class Route:
    """How a permutation of entries in blocks is executed.

    Attributes:
      rounds: the collective-permutes.
      exchange: instead of them, for one all-to-all: the entries that each device sends to each other,
        `[devices, devices * slots]`.
      read: for every device, where its new entries are: in its own block, then in what the rounds brought, one after the
        other; the number after the last of these means zero.
      zero: that number.
    """

    rounds: tuple[_Round, ...]
    exchange: np.ndarray | None
    read: np.ndarray
    zero: int


def _locate(index: np.ndarray, sizes: tuple[int, ...], blocks: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Device and place in its block of row-major indices over axes that are all cut into blocks."""
    device = np.zeros_like(index)
    offset = np.zeros_like(index)
    for g, size, block in zip(np.unravel_index(index, sizes), sizes, blocks, strict=True):
        device = device * (size // block) + g // block
        offset = offset * block + g % block
    return device, offset


@functools.lru_cache(maxsize=256)
def plan_route(sources: tuple[int, ...], sizes: tuple[int, ...], blocks: tuple[int, ...]) -> Route:
    """Plans `result[i] = x[sources[i]]`, where -1 stands for zero.

    Every entry that changes its device is an edge from the one to the other. All edges between two devices travel together, and
    pairs of devices in which each one sends once and receives once form a round. Cyclic shifts of the devices are rounds; if
    there are more of these than one device has partners, rounds come from an edge colouring, which needs no more than that.
    """
    source = np.asarray(sources)
    count = math.prod(n // b for n, b in zip(sizes, blocks, strict=True))
    block = math.prod(blocks)
    device, offset = _locate(np.arange(len(source)), sizes, blocks)
    want_device, want_offset = np.full((count, block), -1), np.zeros((count, block), int)
    there = source >= 0
    d, o = _locate(source[there], sizes, blocks)
    want_device[device[there], offset[there]] = d
    want_offset[device[there], offset[there]] = o

    read = np.full((count, block), -1)
    stays = want_device == np.arange(count)[:, None]
    read[stays] = want_offset[stays]
    travels = (want_device >= 0) & ~stays
    edges: dict[tuple[int, int], list[int]] = {}
    for target, place in zip(*np.nonzero(travels), strict=True):
        edges.setdefault((int(want_device[target, place]), int(target)), []).append(int(place))

    groups = _rounds(list(edges), count)
    widths = [max(len(edges[pair]) for pair in group) for group in groups]
    slots = max(map(len, edges.values()), default=0)
    exchange = None
    rounds = []
    receivers: list[tuple[range, frozenset[int]]] = []
    start = block
    if len(groups) > 2 and count * slots <= 2 * sum(widths):
        exchange = np.full((count, count * slots), -1)
        for (s, t), places in edges.items():
            exchange[s, t * slots : t * slots + len(places)] = want_offset[t, places]
            read[t, places] = start + s * slots + np.arange(len(places))
        exchange = _complete(exchange)
        start += count * slots
    else:
        for group, width in zip(groups, widths, strict=True):
            send = np.full((count, width), -1)
            for s, t in group:
                places = edges[s, t]
                send[s, : len(places)] = want_offset[t, places]
                read[t, places] = start + np.arange(len(places))
            rounds.append(_Round(_complete(send), tuple(sorted(group))))
            receivers.append((range(start, start + width), frozenset(t for _, t in group)))
            start += width
    return Route(tuple(rounds), exchange, _zeros_as_others_read(read, receivers, start), start)


def _rounds(pairs: list[tuple[int, int]], count: int) -> list[list[tuple[int, int]]]:
    shifts: dict[int, list[tuple[int, int]]] = {}
    for s, t in pairs:
        shifts.setdefault((t - s) % count, []).append((s, t))
    partners = max((np.bincount([pair[side] for pair in pairs]).max() for side in (0, 1)), default=0) if pairs else 0
    if len(shifts) <= partners:
        return list(shifts.values())
    # Edge colouring of a bipartite graph: sender and receiver each have a free colour; where these differ, the two colours
    # are swapped along the path that leads away from the receiver. It never comes back to the sender, who lacks the first.
    tables: tuple[dict[int, dict[int, int]], dict[int, dict[int, int]]] = ({}, {})
    for s, t in pairs:
        mine, its = tables[0].setdefault(s, {}), tables[1].setdefault(t, {})
        a = next(c for c in range(partners) if c not in mine)
        if a in its:
            b = next(c for c in range(partners) if c not in its)
            path = []
            node, side, colour = t, 1, a
            while colour in tables[side][node]:
                other = tables[side][node][colour]
                path.append((node, other, side, colour))
                node, side, colour = other, 1 - side, b if colour == a else a
            for node, other, side, colour in path:
                del tables[side][node][colour], tables[1 - side][other][colour]
            for node, other, side, colour in path:
                swapped = b if colour == a else a
                tables[side][node][swapped] = other
                tables[1 - side][other][swapped] = node
        mine[a], its[a] = t, s
    groups: dict[int, list[tuple[int, int]]] = {}
    for s, row in tables[0].items():
        for colour, t in row.items():
            groups.setdefault(colour, []).append((s, t))
    return [groups[colour] for colour in sorted(groups)]


def _complete(table: np.ndarray) -> np.ndarray:
    """`table` with what does not matter (-1) as another device has it, so that all do the same if they can."""
    table = table.copy()
    for j in range(table.shape[1]):
        known = table[:, j][table[:, j] >= 0]
        table[table[:, j] < 0, j] = known[0] if len(known) else 0
    return table


def _zeros_as_others_read(read: np.ndarray, receivers: list[tuple[range, frozenset[int]]], zero: int) -> np.ndarray:
    """Places without a source (-1) filled in: a device that receives nothing in a round gets zeros there."""
    read = read.copy()
    for j in np.nonzero((read < 0).any(0))[0]:
        known = [int(value) for value in np.unique(read[:, j]) if value >= 0]
        for device in np.nonzero(read[:, j] < 0)[0]:
            silent = (v for v in known for where, targets in receivers if v in where and device not in targets)
            read[device, j] = next(silent, zero)
    return read


def execute_route(data: Any, plan: Route, axes: Axes) -> Any:
    """Dimension 0 of `data`, the block of this device, permuted by the plan."""
    pieces = [data]
    if plan.exchange is not None:
        pieces.append(comm.all_to_all(_pick([data], plan.exchange, axes), 0, 0, axes))
    for step in plan.rounds:
        pieces.append(comm.ppermute(_pick([data], step.send, axes), axes, list(step.pairs)))
    return _pick(pieces, plan.read, axes, plan.zero)


def _pick(pieces: list[Any], table: np.ndarray, axes: Axes, zero: int = -1) -> Any:
    """The rows `table[this device]` of all pieces together; `zero` stands for a row of zeros."""
    variance = frozenset[str]().union(*(varying(piece) for piece in pieces))

    def zeros(n: int) -> Any:
        return cast_data(jnp.zeros((n, *pieces[0].shape[1:]), pieces[0].dtype), variance)

    if (table == table[0]).all():
        starts = np.cumsum([0] + [piece.shape[0] for piece in pieces])
        runs = _runs(table[0], starts, zero)
        if len(runs) <= 8:
            parts = []
            for first, last, step in runs:
                if first == zero:
                    parts.append(zeros(last))
                    continue
                i = int(np.searchsorted(starts, first, side="right")) - 1
                low, high = min(first, last) - starts[i], max(first, last) - starts[i] + 1
                part = lax.slice_in_dim(pieces[i], int(low), int(high), axis=0)
                parts.append(lax.rev(part, (0,)) if step < 0 else part)
            return parts[0] if len(parts) == 1 else lax.concatenate(parts, 0)
        rows: Any = table[0]
    else:
        rows = jnp.asarray(table)[comm.block_index(axes)]
    if (table == zero).any():
        pieces = [*pieces, zeros(1)]
    whole = pieces[0] if len(pieces) == 1 else lax.concatenate([cast_data(piece, variance) for piece in pieces], 0)
    return jnp.take(cast_data(whole, varying(rows)) if isinstance(rows, jax.Array) else whole, rows, axis=0, mode="clip")


def _runs(rows: np.ndarray, starts: np.ndarray, zero: int) -> list[tuple[int, int, int]]:
    """Slices that make up `rows`: first row, last row (or how many zeros), and 1 or -1 for the direction."""
    piece = np.searchsorted(starts, rows, side="right")
    runs: list[tuple[int, int, int]] = []
    i = 0
    while i < len(rows):
        j, step = i + 1, 0
        if rows[i] == zero:
            while j < len(rows) and rows[j] == zero:
                j += 1
            runs.append((zero, j - i, 0))
        else:
            while j < len(rows) and piece[j] == piece[i] and rows[j] != zero:
                stride = int(rows[j] - rows[j - 1])
                if stride not in (1, -1) or (step and stride != step):
                    break
                step = stride
                j += 1
            runs.append((int(rows[i]), int(rows[j - 1]), step or 1))
        i = j
    return runs
