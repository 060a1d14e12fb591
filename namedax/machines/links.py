"""Links of mesh axes (rings, lines and switches), and the times of collectives over them."""

from __future__ import annotations

import collections
import dataclasses
import itertools
import math
import sys
from collections.abc import Collection, Mapping
from typing import Any, Literal, TypeGuard, get_args

from namedax.core.names import Mesh
from namedax.core.records import Record
from namedax.errors import ArgumentError, MeshError, did_you_mean, show_names
from namedax.hlo import KINDS

__all__ = [
    "Kind",
    "Level",
    "Link",
    "Links",
    "levels_of",
    "placed",
    "positive",
    "seconds_of",
    "sizes_of",
    "smallest_in_two_levels",
]


Kind = Literal["ring", "line", "switch"]


@dataclasses.dataclass(frozen=True)
class Link:
    """The connection between the devices along a mesh axis.

    On a ring each device has a neighbor on both sides, and collectives send in both directions at
    once. A line is a ring that does not close: data for the other end goes in one direction, with
    half of the bandwidth. On a switch every device reaches every other with its full bandwidth.

    Attributes:
      bandwidth: bytes per second that one device can send along this mesh axis; on a ring or a
        line, in both directions together.
      latency: the minimum seconds of a message: for each hop on a ring or a line, for each round
        through a switch.
      kind: `"ring"`, `"line"` or `"switch"`; default: `"ring"`.
      closes: a ring closes only along axes whose size is a multiple of this; others are lines. A
        v5e slice closes at 16 chips, a v5p slice at multiples of 4. Default: 1.
      dimensions: for a torus, the number of axes with separate links. More mesh axes than that
        share them evenly. Default: `None`, one for each mesh axis.
      reach: the number of devices that it connects, over all mesh axes together: 8 GPUs in a node,
        256 chips in a pod. Default: `None`, any number.
      beyond: the link between such groups of devices, such as the network between nodes. Default:
        `None`.

    Raises:
      ArgumentError: a bandwidth that is not positive, a negative latency, an unknown kind, or
        counts that are not positive integers.

    >>> Link(bandwidth=9e10, latency=1e-6)
    Link(bandwidth=90000000000.0, latency=1e-06, kind='ring', closes=1, dimensions=None, ...)
    """

    bandwidth: float
    latency: float
    kind: Kind = "ring"
    closes: int = dataclasses.field(default=1, kw_only=True)
    dimensions: int | None = dataclasses.field(default=None, kw_only=True)
    reach: int | None = dataclasses.field(default=None, kw_only=True)
    beyond: Link | None = dataclasses.field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        positive("Link", "bandwidth", self.bandwidth, "bytes per second")
        if not _is_number(self.latency) or not 0 <= self.latency < math.inf:
            raise ArgumentError(
                f"Link: latency={self.latency!r} must be zero or a positive number of seconds, such"
                " as 1e-6."
            )
        if self.kind not in get_args(Kind):
            raise ArgumentError(
                f"Link: kind={self.kind!r} is not a kind of link. Choose from 'ring', 'line',"
                f" 'switch'.{did_you_mean(self.kind, get_args(Kind))}"
            )
        for name in ("closes", "dimensions", "reach"):
            value = getattr(self, name)
            if not (isinstance(value, int) and value >= 1) and not (
                value is None and name != "closes"
            ):
                raise ArgumentError(f"Link: {name}={value!r} must be a positive integer.")
        if self.beyond is not None and not isinstance(self.beyond, Link):
            raise ArgumentError(
                f"Link: beyond={self.beyond!r} is not a Link. Pass the Link between groups of"
                " `reach` devices."
            )
        if self.beyond is not None and self.reach is None:
            raise ArgumentError(
                "Link: beyond= is the link between groups of devices. Pass the size of a group as"
                " reach=."
            )

    def closed(self, size: int) -> bool:
        """Return True if an axis of `size` devices is a closed ring."""
        return self.kind == "ring" and size % self.closes == 0


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def positive(of: str, name: str, value: object, unit: str) -> None:
    """Raise an error that names the argument, unless `value` is a positive and finite number.

    >>> positive("Machine", "memory", -1, "bytes")
    Traceback (most recent call last):
      ...
    namedax.errors.ArgumentError: Machine: memory=-1 must be a positive number of bytes, ...
    """
    if not _is_number(value) or not 0 < value < math.inf:
        raise ArgumentError(
            f"{of}: {name}={value!r} must be a positive number of {unit}, such as 1e9."
        )


# --- the placement of a mesh on a machine ---------------------------------------------------------


#: Links by mesh axis, or by several mesh axes together; `...` stands for all others.
Links = Mapping[Any, Link]


class Level(Record):
    """Devices that one link connects.

    Attributes:
      sizes: the number of devices along each of its axes: one number for a ring or a line, two for
        a torus of two axes.
      link: the link between them.
      share: the fraction of the bandwidth of each axis, if more mesh axes than the torus has
        dimensions share it; default: 1.
    """

    sizes: tuple[int, ...]
    link: Link
    share: float = 1.0

    @property
    def count(self) -> int:
        """The number of devices."""
        return math.prod(self.sizes)


def sizes_of(mesh: Mesh | Mapping[str, int] | None) -> dict[str, int] | None:
    """Return the sizes of a mesh, which may be concrete, abstract, or a dict of sizes."""
    if mesh is None:
        return None
    shape: Any = getattr(mesh, "shape", mesh)
    sizes = dict(shape)
    for axis, size in sizes.items():
        if not isinstance(size, int) or size < 1:
            raise MeshError(
                f"Machine.time: the size of the mesh axis {axis!r} must be a positive integer, got"
                f" {size!r}."
            )
    return sizes


def levels_of(
    links: Links,
    axes: tuple[str, ...],
    group_size: int,
    mesh: Mapping[str, int] | None,
    machine: str,
) -> tuple[Level, ...]:
    """Return the levels of links that a collective over `axes` uses.

    Args:
      links: the links of the machine.
      axes: the mesh axes of the collective.
      group_size: the number of devices that take part together.
      mesh: the sizes of all mesh axes, from the slowest to the fastest, or `None` if they are
        unknown.
      machine: its name, for messages.

    Raises:
      MeshError: the machine has no link for an axis, the mesh lacks it, or the mesh does not fit on
        the machine.
      ArgumentError: the mesh is required but unknown.
    """
    for key, link in links.items():
        if isinstance(key, tuple) and len(key) > 1 and set(key) == set(axes):
            return (Level((group_size,), link),)
    if mesh is None:
        if len(axes) > 1 or _link_of(links, axes[0], machine).reach is not None:
            raise ArgumentError(
                f"Machine.time: the links of {machine} for a collective over {show_names(axes)}"
                " depend on the whole mesh. Pass mesh=, a mesh or a dict of sizes such as"
                " {'data': 16, 'model': 16}."
            )
        mesh = {axes[0]: group_size}
    if missing := [axis for axis in axes if axis not in mesh]:
        raise MeshError(
            f"Machine.time: a collective runs over {show_names(missing)}, but the mesh has"
            f" {show_names(mesh)}."
        )
    over = placed(links, mesh, axes, machine)
    parts = [part for axis in axes for part in over[axis]]
    whole = math.prod(mesh[axis] for axis in axes)
    if (
        group_size != whole
    ):  # groups within an axis: their link is unknown, so the slowest is assumed
        slowest = min((link for _, link in parts), key=lambda link: link.bandwidth, default=None)
        return () if slowest is None else (Level((group_size,), slowest, _share(over, slowest)),)
    together: dict[Link, list[int]] = collections.defaultdict(list)
    for size, link in parts:
        together[link].append(size)
    return tuple(Level(tuple(sizes), link, _share(over, link)) for link, sizes in together.items())


def _link_of(links: Links, axis: str, machine: str) -> Link:
    link = links.get(axis, links.get(...))
    if link is None:
        raise MeshError(
            f"Machine.time: {machine} has no link for the mesh axis {axis!r}; it has links for"
            f" {show_names(links)}. Specify the link with machine.with_links({{{axis!r}:"
            " nx.machines.Link(...)})."
        )
    return link


def placed(
    links: Links, mesh: Mapping[str, int], used: Collection[str], machine: str
) -> dict[str, tuple[tuple[int, Link], ...]]:
    """Return by mesh axis the number of devices for each link.

    The last axes fill the fastest links, as in `jax.make_mesh`.

    Args:
      links: the links of the machine.
      mesh: the sizes of all mesh axes.
      used: the mesh axes that need a link.
      machine: its name, for messages.
    """
    left: dict[Link, int] = {}
    found: dict[str, tuple[tuple[int, Link], ...]] = {}
    for axis, size in reversed(list(mesh.items())):
        linked = size > 1 and (axis in used or axis in links or ... in links)
        found[axis] = (
            _along(axis, size, _link_of(links, axis, machine), left, machine) if linked else ()
        )
    return {axis: found[axis] for axis in mesh}


def _along(
    axis: str, size: int, link: Link, left: dict[Link, int], machine: str
) -> tuple[tuple[int, Link], ...]:
    if link.reach is None:
        return ((size, link),)
    room = left.get(link, link.reach)
    inner = min(size, room)
    if size % inner:
        raise MeshError(
            f"Machine.time: {size} devices along the mesh axis {axis!r} do not split into groups of"
            f" {room}, the number that {machine} has left of the {link.reach} devices on one"
            f" {link.kind}. Choose a multiple of {room}, or specify the link of the axis with"
            f" machine.with_links({{{axis!r}: nx.machines.Link(...)}})."
        )
    left[link] = room // inner
    within = ((inner, link),) if inner > 1 else ()
    if size == inner:
        return within
    if link.beyond is None:
        raise MeshError(
            f"Machine.time: {machine} connects {link.reach} devices by one {link.kind}, but the"
            f" mesh has more along {axis!r} and the axes after it. Specify the link between groups:"
            f" machine.with_links({{{axis!r}: nx.machines.Link(...)}}), or beyond= of the link."
        )
    return _along(axis, size // inner, link.beyond, left, machine) + within


def _share(over: Mapping[str, tuple[tuple[int, Link], ...]], link: Link) -> float:
    if link.dimensions is None:
        return 1.0
    axes = sum(part[1] == link for parts in over.values() for part in parts)
    return min(1.0, link.dimensions / axes)


# --- times of collectives -------------------------------------------------------------------------
# With `n` devices, `B` bytes of payload, a bandwidth of `W` bytes per second in both directions
# together and a latency of `L` seconds:
#
#     kind                   on a ring                            through a switch
#     all-gather             (n - 1) / n * B / W + n // 2 * L     (n - 1) / n * B / W
#                                                                 + ceil(log2 n) * L
#     reduce-scatter         the same                             the same
#     all-reduce             twice that                           twice that
#     all-to-all             n // 2 * ((n + 1) // 2) / n * B / W  (n - 1) / n * B / W + L
#                            + n // 2 * L
#     collective-permute     B / (W / 2) + L                      B / W + L
#     collective-broadcast   B / W + n // 2 * L                   B / W + ceil(log2 n) * L
#
# On a ring a collective sends half of its bytes in each direction; a permutation to the next device
# sends all of them in one. In an all-to-all each device's blocks for the others travel `n / 4` hops
# on average. On a line, `W / 2` replaces `W`, and `n - 1` hops replace `n // 2`: data from one end
# for the other end passes through every link, in one direction. Collectives through a switch are
# assumed to use recursive doubling, which sends as many bytes as a ring in fewer rounds.
#
# Several mesh axes of one torus are used at once. An all-gather has the sum of their bandwidths and
# of their hops. In an all-to-all each axis carries its own part, and the longest axis takes the
# longest time. Several mesh axes through one switch are one group of devices.
#
# If the links differ (chips within pods, GPUs within nodes), the collective runs level by level. An
# all-gather runs over the slow network first, while blocks are small, then over the fast one. A
# reduce-scatter runs the other way round, and an all-reduce down and up. The fastest order is used.


def seconds_of(kind: str, payload: float, levels: tuple[Level, ...]) -> float:
    """Return the seconds of one run of a collective.

    Args:
      kind: one of `nx.hlo.KINDS`.
      payload: the bytes of one device: the larger side, as in `nx.hlo.Collective`.
      levels: the levels of links that it uses.

    Returns:
      Seconds.

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
    """Return the seconds of an all-gather whose result is the payload, or of a reduce-scatter."""

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
    along = (
        (n // 2) * ((n + 1) // 2) / n * payload / _axis_bandwidth(level, n) for n in level.sizes
    )
    return max(along) + _hops(level) * link.latency


def _shift(payload: float, level: Level) -> float:
    link = level.link
    if link.kind == "switch":
        return payload / _bandwidth(level) + link.latency
    hops = sum(1 if link.closed(n) else n - 1 for n in level.sizes)
    return payload / (link.bandwidth * level.share / 2) + hops * link.latency


def _axis_bandwidth(level: Level, size: int) -> float:
    """Return the bandwidth along one axis of a ring or a line."""
    whole = level.link.bandwidth * level.share
    return whole if level.link.closed(size) else whole / 2


def _bandwidth(level: Level) -> float:
    """Return the bandwidth of a device for data that goes to all other devices."""
    if level.link.kind == "switch":
        return level.link.bandwidth * level.share
    return sum(_axis_bandwidth(level, n) for n in level.sizes)


def _hops(level: Level) -> int:
    """Return the number of messages that depend on each other."""
    if level.link.kind == "switch":
        return math.ceil(math.log2(level.count))
    return sum(n // 2 if level.link.closed(n) else n - 1 for n in level.sizes)


def smallest_in_two_levels(
    slow: tuple[Level, ...], fast: tuple[Level, ...], starting: float = 0.0
) -> int:
    """Return the payload in bytes from which on an all-reduce is faster in two levels.

    One level has all devices on the slowest link.

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
    slowest = min(slow, key=_bandwidth)
    flat = (Level((inner * outer,), slowest.link, slowest.share),)

    def gained(payload: float) -> float:
        parts = 2 * seconds_of("all-gather", payload, fast)
        parts += seconds_of("all-reduce", payload / inner, slow)
        return seconds_of("all-reduce", payload, flat) - parts - starting

    at_zero = gained(0.0)  # seconds are affine in the payload
    each = (gained(1e9) - at_zero) / 1e9
    if each <= 0:
        return sys.maxsize
    return min(sys.maxsize, max(0, math.ceil(-at_zero / each)))
