"""Times of collectives over the levels of links that they use.

One level
---------

With `n` devices, `B` bytes of payload, a bandwidth of `W` bytes per second and a latency of `L`
seconds:

.. code-block:: text

    kind                   on a ring                            through a switch
    all-gather             (n - 1) / n * B / W + n // 2 * L     (n - 1) / n * B / W
                                                                + ceil(log2 n) * L
    reduce-scatter         the same                             the same
    all-reduce             twice that                           twice that
    all-to-all             n // 2 * ((n + 1) // 2) / n * B / W  (n - 1) / n * B / W + L
                           + n // 2 * L
    collective-permute     B / (W / 2) + L                      B / W + L
    collective-broadcast   B / W + n // 2 * L                   B / W + ceil(log2 n) * L

On a ring a collective sends half of its bytes in each direction; a permutation to the next device
sends all of them in one. In an all-to-all each device's blocks for the others travel `n / 4` hops
on average. On a line, `W / 2` replaces `W`, and `n - 1` hops replace `n // 2`: data from one end
for the other end passes through every link, in one direction. Collectives through a switch are
assumed to use recursive doubling, which sends as many bytes as a ring in fewer rounds.

With direct links among `r` devices, each of them has a link of `w = W / (r - 1)` to each other. An
all-gather sends a block of `B / n` over each of `n - 1` links at once: `B / n / w + L`, which is
that of a switch with the bandwidth `(n - 1) * w`. An all-to-all is the same. A permutation uses one
link: `B / w + L`. In a broadcast, each device receives another part of the data, and passes it on
to the others: `B / (n - 1) / w + 2 * L`.

Message sizes
-------------

A link may reach less than its bandwidth with small messages (`Link.by_size`). The message of an
all-gather, a reduce-scatter, an all-reduce and an all-to-all is one block, the `n`-th part of the
data of its level. The message of a permutation and of a broadcast is all of it.

Several axes of a torus
-----------------------

They are used at once. An all-gather over an `X x Y` torus sends one part of the data along x and
then along y, and the other part along y and then along x. A device that gathers the share `a` of
`B` bytes along x first, and the rest along y first, receives over the links of x and of y

.. code-block:: text

    x: (X - 1) / (X * Y) * (a + (1 - a) * Y) * B        y: (Y - 1) / (X * Y) * (a * X + 1 - a) * B

together always `(X * Y - 1) / (X * Y) * B`, which no algorithm can avoid. For all `X` and `Y` from
2 on, some `a` gives both axes the same number of bytes. So the time is that of one level with the
sum of the bandwidths. In an all-to-all each axis carries its own part, and the longest axis takes
the longest time. Several mesh axes through one switch are one group of devices.

Several levels
--------------

If the links differ (chips within pods, GPUs within nodes), each level carries what it must, and the
levels work at the same time: the data goes through in chunks, and while one chunk is sent within
nodes, the next one is sent between nodes. The time is that of the slowest level, and the latencies
of all levels, because the first chunk waits for each of them. Let `n_1 ... n_k` be the numbers of
devices, from the outermost level to the innermost, and `N` their product. One device sends

.. code-block:: text

    kind                   over the link of level i
    all-gather             (n_i - 1) * B / (n_i * n_(i+1) * ... * n_k)
    reduce-scatter         the same, in the opposite order
    all-reduce             twice that
    all-to-all             (n_i - 1) / n_i * B through a switch: the part for other coordinates i
    collective-permute     B
    collective-broadcast   B / (n_(i+1) * ... * n_k)

Before level `i` of an all-gather, a device has the blocks of the `n_1 * ... * n_(i-1)` devices of
the levels before, `B / (n_i * ... * n_k)` bytes, and receives as many from each of `n_i - 1`
devices. So the devices of a node share the bytes from the other nodes, and each of them fetches an
equal part. The outermost link has the smallest part; the order with the least time is used, and it
puts the slowest link there. In a broadcast, the devices of a group fetch equal parts of the data
and gather them. An all-to-all sends each block along one level after the other.

A gigabyte (2**30 bytes) gathered over 64 nodes of eight H100, with 50 GB/s between nodes and 450
GB/s within: 63 / 512 of it between, 2.64 ms, while 7 / 8 of it is sent within, 2.09 ms. The result
is 2.64 ms and the latencies. One level after the other would be 4.73 ms.
"""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Callable

from namedax.errors import ArgumentError, did_you_mean
from namedax.hlo import KINDS
from namedax.machines.links import Level

__all__ = ["seconds_of", "smallest_in_two_levels"]


def seconds_of(kind: str, payload: float, levels: tuple[Level, ...]) -> float:
    """Return the seconds of one run of a collective.

    Args:
      kind: one of `nx.hlo.KINDS`.
      payload: the bytes of one device: the larger side, as in `nx.hlo.Collective`.
      levels: the levels of links that it uses.

    Returns:
      Seconds.

    >>> from namedax.machines.collectives import Level, seconds_of
    >>> from namedax.machines.links import Link
    >>> seconds_of("all-gather", 4e6, (Level((4,), Link(3e9, 0.0)),))
    0.001
    """
    levels = tuple(level for level in levels if level.count > 1)
    if not levels:
        return 0.0
    return _running(kind, payload, levels) + max(level.link.start for level in levels)


def _running(kind: str, payload: float, levels: tuple[Level, ...]) -> float:
    if kind in ("all-gather", "reduce-scatter"):
        return _nested(payload, levels, _gather) + _latencies(levels)
    if kind == "all-reduce":
        return 2 * (_nested(payload, levels, _gather) + _latencies(levels))
    if kind == "collective-broadcast":
        return _nested(payload, levels, _broadcast) + _latencies(levels, "collective-broadcast")
    if kind in ("all-to-all", "ragged-all-to-all"):
        slowest = max(_exchange(payload, level) for level in levels)
        return slowest + _latencies(levels, "all-to-all")
    if kind == "collective-permute":
        return max(_shift(payload, level) for level in levels)
    raise ArgumentError(
        f"Machine.time: {kind!r} is not a kind of collective. Choose from"
        f" nx.hlo.KINDS.{did_you_mean(kind, KINDS)}"
    )


_Sending = Callable[[float, Level], float]


def _nested(payload: float, levels: tuple[Level, ...], seconds: _Sending) -> float:
    """Return the time of the slowest level, in the best order of the levels.

    Args:
      payload: the bytes that a device has at the end.
      levels: the levels.
      seconds: the seconds of one level, from the bytes that a device has after it.
    """

    def slowest(order: tuple[Level, ...]) -> float:
        after, longest = payload, 0.0
        for level in reversed(order):
            longest = max(longest, seconds(after, level))
            after /= level.count
        return longest

    return min(map(slowest, itertools.permutations(levels)))


def _gather(after: float, level: Level) -> float:
    block = after / level.count
    return (level.count - 1) * block / _bandwidth(level, block)


def _broadcast(after: float, level: Level) -> float:
    return after / _bandwidth(level, after)


def _exchange(payload: float, level: Level) -> float:
    block = payload / level.count
    if level.link.kind in ("switch", "direct"):
        return (level.count - 1) * block / _bandwidth(level, block)
    return max(
        (n // 2) * ((n + 1) // 2) / n * payload / _axis_bandwidth(level, n, block)
        for n in level.sizes
    )


def _shift(payload: float, level: Level) -> float:
    link, whole = level.link, level.link.bandwidth_at(payload) * level.share
    if link.kind == "switch":
        return payload / whole + link.latency
    if link.kind == "direct":
        return payload / (whole * _used_links(level, 1)) + link.latency
    hops = sum(1 if link.closed(n) else n - 1 for n in level.sizes)
    return payload / (whole / 2) + hops * link.latency


def _axis_bandwidth(level: Level, size: int, message: float) -> float:
    """Return the bandwidth along one axis of a ring or a line."""
    whole = level.link.bandwidth_at(message) * level.share
    return whole if level.link.closed(size) else whole / 2


def _bandwidth(level: Level, message: float) -> float:
    """Return the bandwidth of a device for data that goes to all other devices."""
    link = level.link
    if link.kind == "switch":
        return link.bandwidth_at(message) * level.share
    if link.kind == "direct":
        return link.bandwidth_at(message) * level.share * _used_links(level, level.count - 1)
    return sum(_axis_bandwidth(level, n, message) for n in level.sizes)


def _used_links(level: Level, count: int) -> float:
    """Return the fraction of a device's direct links that go to `count` others."""
    return min(1.0, count / ((level.link.reach or level.count) - 1))


def _latencies(levels: tuple[Level, ...], kind: str = "all-gather") -> float:
    return sum(_rounds(level, kind) * level.link.latency for level in levels)


def _rounds(level: Level, kind: str) -> int:
    """Return the number of messages that depend on each other."""
    if level.link.kind == "direct":
        return min(2, level.count - 1) if kind == "collective-broadcast" else 1
    if level.link.kind == "switch":
        return 1 if kind == "all-to-all" else math.ceil(math.log2(level.count))
    return sum(n // 2 if level.link.closed(n) else n - 1 for n in level.sizes)


def smallest_in_two_levels(
    slow: tuple[Level, ...], fast: tuple[Level, ...], starting: float = 0.0
) -> int:
    """Return the payload in bytes from which on an all-reduce is faster in two levels.

    Two levels are three collectives, each of which waits for the one before. One level has all
    devices on the slowest link.

    Args:
      slow: the levels of the slow axes.
      fast: the levels of the fast axes.
      starting: the seconds to start two more collectives. Default: 0.

    Returns:
      The number of bytes; `sys.maxsize` if two levels are never faster.
    """
    inner = math.prod(level.count for level in fast)
    outer = math.prod(level.count for level in slow)
    if inner == 1 or outer == 1:
        return sys.maxsize
    slowest = min(slow, key=lambda level: _bandwidth(level, math.inf))
    flat = (Level((inner * outer,), slowest.link, slowest.share),)

    def gained(payload: float) -> float:
        parts = 2 * seconds_of("all-gather", payload, fast)
        parts += seconds_of("all-reduce", payload / inner, slow)
        return seconds_of("all-reduce", payload, flat) - parts - starting

    # Without tables of message sizes, seconds are affine in the payload.
    if any(level.link.by_size for level in (*slow, *fast)):
        return _last_crossing(gained)
    at_zero = gained(0.0)
    each = (gained(1e9) - at_zero) / 1e9
    if each <= 0:
        return sys.maxsize
    return min(sys.maxsize, max(0, math.ceil(-at_zero / each)))


_LARGEST = 2**50  # bytes, more than a device has


def _last_crossing(gained: Callable[[float], float]) -> int:
    """Return the smallest number from which on a function is not negative."""
    if gained(_LARGEST) <= 0:
        return sys.maxsize
    grid = [round(2 ** (step / 4)) for step in range(4 * 50, -1, -1)]
    low = next((size for size in grid if gained(size) < 0), None)
    if low is None:
        return 0
    high = max(low + 1, min(size for size in grid if size > low))
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if gained(middle) < 0 else (low, middle)
    return high
