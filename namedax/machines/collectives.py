"""Times of collectives: formulas for rings, lines and switches, and for combinations of them.

With `n` devices, `B` bytes of payload, a bandwidth of `W` bytes per second in both directions
together and a latency of `L` seconds:

    kind                            on a ring                             through a switch
    all-gather, reduce-scatter      (n - 1) / n * B / W + n // 2 * L      (n - 1) / n * B / W +
    ceil(log2 n) * L all-reduce                      twice that                            twice
    that all-to-all                      n // 2 * ((n + 1) // 2) / n * B / W   (n - 1) / n * B / W +
    L
                                    + n // 2 * L
    collective-permute              B / (W / 2) + L                       B / W + L
    collective-broadcast            B / W + n // 2 * L                    B / W + ceil(log2 n) * L

On a ring a collective sends half of its bytes in each direction; a permutation to the next device
sends all of them in one. In an all-to-all each device's blocks for the others travel `n / 4` hops
on average. On a line, `W / 2` replaces `W`, and `n - 1` hops replace `n // 2`: data from one end
for the other end passes through every link, in one direction. Collectives through a switch are
assumed to use recursive doubling, which sends as many bytes as a ring in fewer rounds.

Several mesh axes of one torus are used at once. An all-gather has the sum of their bandwidths and
of their hops. In an all-to-all each axis carries its own part, and the longest axis takes the
longest time. Several mesh axes through one switch are one group of devices.

If the links differ (chips within pods, GPUs within nodes), the collective runs level by level. An
all-gather runs over the slow network first, while blocks are small, then over the fast one. A
reduce-scatter runs the other way round, and an all-reduce down and up. The fastest order is used.
"""

from __future__ import annotations

import itertools
import math

from namedax.errors import ArgumentError, did_you_mean
from namedax.hlo import KINDS
from namedax.machines.links import Level

__all__ = ["seconds_of"]


def seconds_of(kind: str, payload: float, levels: tuple[Level, ...]) -> float:
    """Return the seconds of one run of a collective.

    Args:
      kind: one of `nx.hlo.KINDS`.
      payload: the bytes of one device: the larger side, as in `nx.hlo.Collective`.
      levels: the levels of links that it uses.

    Returns:
      Seconds.

    >>> from namedax.machines.links import Link
    >>> seconds_of("all-gather", 4e6, (Level((4,), Link(3e9, 0.0)),))
    0.001
    """
    levels = tuple(level for level in levels if level.count > 1)
    if not levels:
        return 0.0
    if kind in ("all-gather", "reduce-scatter"):
        return _gather(payload, levels)
    if kind == "all-reduce":
        return 2 * _gather(payload, levels)
    if kind in ("all-to-all", "ragged-all-to-all"):
        return sum(_exchange(payload, level) for level in levels)
    if kind == "collective-permute":
        return max(_shift(payload, level) for level in levels)
    if kind == "collective-broadcast":
        return sum(
            payload / _bandwidth(level) + _hops(level) * level.link.latency for level in levels
        )
    raise ArgumentError(
        f"Machine.time: {kind!r} is not a kind of collective. Choose from"
        f" nx.hlo.KINDS.{did_you_mean(kind, KINDS)}"
    )


def _gather(payload: float, levels: tuple[Level, ...]) -> float:
    """Return the seconds of an all-gather, whose result is the payload; a reduce-scatter is the same in reverse."""

    def seconds(order: tuple[Level, ...]) -> float:
        total, held = 0.0, payload / math.prod(level.count for level in order)
        for level in order:
            total += (level.count - 1) * held / _bandwidth(level) + _hops(
                level
            ) * level.link.latency
            held *= level.count
        return total

    return min(map(seconds, itertools.permutations(levels)))


def _exchange(payload: float, level: Level) -> float:
    link = level.link
    if link.kind == "switch":
        return (level.count - 1) / level.count * payload / _bandwidth(level) + link.latency
    along = ((n // 2) * ((n + 1) // 2) / n * payload / _along(level, n) for n in level.sizes)
    return max(along) + _hops(level) * link.latency


def _shift(payload: float, level: Level) -> float:
    link = level.link
    if link.kind == "switch":
        return payload / _bandwidth(level) + link.latency
    hops = sum(1 if link.closed(n) else n - 1 for n in level.sizes)
    return payload / (link.bandwidth * level.share / 2) + hops * link.latency


def _along(level: Level, size: int) -> float:
    """Return the bandwidth along one axis of a ring or a line."""
    whole = level.link.bandwidth * level.share
    return whole if level.link.closed(size) else whole / 2


def _bandwidth(level: Level) -> float:
    """Return the bandwidth of a device for data that goes to all other devices."""
    if level.link.kind == "switch":
        return level.link.bandwidth * level.share
    return sum(_along(level, n) for n in level.sizes)


def _hops(level: Level) -> int:
    """Return the number of messages that depend on each other."""
    if level.link.kind == "switch":
        return math.ceil(math.log2(level.count))
    return sum(n // 2 if level.link.closed(n) else n - 1 for n in level.sizes)
