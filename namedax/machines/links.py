"""Links of mesh axes (rings, lines, switches and direct links), and their placement on a mesh."""

from __future__ import annotations

import bisect
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
from namedax.machines.saving import arguments_of

__all__ = [
    "Kind",
    "Level",
    "Link",
    "Links",
    "levels_of",
    "placed",
    "positive",
    "sizes_of",
]


_LARGEST = sys.float_info.max  # an integer may be larger

Kind = Literal["ring", "line", "switch", "direct"]


@dataclasses.dataclass(frozen=True)
class Link:
    """The connection between the devices along a mesh axis.

    On a ring each device has a neighbor on both sides, and collectives send in both directions at
    once. A line is a ring that does not close: data for the other end goes in one direction, with
    half of the bandwidth. On a switch every device reaches every other with its full bandwidth.
    With direct links, each pair of devices has a link of its own: `n` devices out of `reach` use
    `n - 1` of the `reach - 1` links of each device, and only that part of the bandwidth.

    Attributes:
      bandwidth: bytes per second that one device can send along this mesh axis; on a ring or a
        line, in both directions together; over direct links, over all of them together.
      latency: the minimum seconds of a message: for each hop on a ring or a line, for each round
        through a switch or over direct links.
      kind: `"ring"`, `"line"`, `"switch"` or `"direct"`; default: `"ring"`.
      closes: a ring closes only along axes whose size is a multiple of this; others are lines. A
        v5e slice closes at 16 chips, a v5p slice at multiples of 4. Default: 1.
      dimensions: for a torus, the number of axes with separate links. More mesh axes than that
        share them evenly. Default: `None`, one for each mesh axis.
      reach: the number of devices that it connects, over all mesh axes together: 8 GPUs in a node,
        256 chips in a pod. Default: `None`, any number.
      beyond: the link between such groups of devices, such as the network between nodes. Default:
        `None`.
      by_size: the fractions of the bandwidth that messages of some sizes reach, `((bytes,
        fraction), ...)` in the order of their sizes. Between two sizes the fraction follows a power
        of the size; beyond the first and the last it is constant. Default: `()`, the whole
        bandwidth at every size.
      start: the seconds to start a collective, once for each. Default: 0.

    Raises:
      ArgumentError: a bandwidth that is not positive, a negative latency, an unknown kind, or
        counts that are not positive integers, a table that is not in order, or direct links
        without `reach`.

    >>> import namedax as nx
    >>> nx.machines.Link(bandwidth=9e10, latency=1e-6)
    Link(bandwidth=90000000000.0, latency=1e-06, kind='ring', closes=1, dimensions=None, ...)
    """

    bandwidth: float
    latency: float
    kind: Kind = "ring"
    closes: int = dataclasses.field(default=1, kw_only=True)
    dimensions: int | None = dataclasses.field(default=None, kw_only=True)
    reach: int | None = dataclasses.field(default=None, kw_only=True)
    beyond: Link | None = dataclasses.field(default=None, kw_only=True)
    by_size: tuple[tuple[float, float], ...] = dataclasses.field(default=(), kw_only=True)
    start: float = dataclasses.field(default=0.0, kw_only=True)

    def __post_init__(self) -> None:
        positive("Link", "bandwidth", self.bandwidth, "bytes per second")
        for name in ("latency", "start"):
            value = getattr(self, name)
            if not _is_number(value) or not 0 <= value <= _LARGEST:
                raise ArgumentError(
                    f"Link: {name}={value!r} must be zero or a positive number of seconds, such as"
                    " 1e-6."
                )
        if self.kind not in get_args(Kind):
            raise ArgumentError(
                f"Link: kind={self.kind!r} is not a kind of link. Choose from 'ring', 'line',"
                f" 'switch', 'direct'.{did_you_mean(self.kind, get_args(Kind))}"
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
        if self.kind == "direct" and self.reach is None:
            raise ArgumentError(
                "Link: kind='direct' divides the bandwidth among the links to the other devices."
                " Pass the number of devices that are connected as reach=."
            )
        self._check_sizes()

    def _check_sizes(self) -> None:
        try:
            table = tuple((size, part) for size, part in self.by_size)
        except (TypeError, ValueError):
            table = ((math.nan, math.nan),)
        fits = all(
            _is_number(size) and 0 < size <= _LARGEST and _is_number(part) and 0 < part <= 1
            for size, part in table
        )
        if not fits or any(one[0] >= other[0] for one, other in itertools.pairwise(table)):
            raise ArgumentError(
                f"Link: by_size={self.by_size!r} must be pairs of bytes and fractions of at most 1,"
                " in the order of their bytes, such as ((65536, 0.25), (1048576, 0.5))."
            )
        for one, other in itertools.pairwise(table):
            if other[1] / one[1] > other[0] / one[0] * (1 + 1e-9):
                raise ArgumentError(
                    f"Link: by_size has the fractions {one[1]} at {one[0]} bytes and {other[1]} at"
                    f" {other[0]} bytes, so a larger message is faster than a smaller one. Move"
                    " constant times into latency= and start=."
                )
        # A tuple, so that links can be keys.
        object.__setattr__(self, "by_size", table)

    def bandwidth_at(self, size: float) -> float:
        """Return the bytes per second that messages of a size reach.

        Args:
          size: the bytes of a message.

        >>> import namedax as nx
        >>> link = nx.machines.Link(1e9, 0.0, "switch", by_size=((1000, 0.25), (16000, 1.0)))
        >>> [round(link.bandwidth_at(size) / 1e9, 3) for size in (10, 1000, 4000, 10**6)]
        [0.25, 0.25, 0.5, 1.0]
        """
        if not self.by_size:
            return self.bandwidth
        (first, low), (last, high) = self.by_size[0], self.by_size[-1]
        if size <= first:
            return self.bandwidth * low
        if size >= last:
            return self.bandwidth * high
        index = bisect.bisect_right(self.by_size, size, key=lambda pair: pair[0])
        (left, less), (right, more) = self.by_size[index - 1], self.by_size[index]
        position = math.log(size / left) / math.log(right / left)
        return self.bandwidth * less * (more / less) ** position

    def to_dict(self) -> dict[str, object]:
        """Return the fields as a dict that JSON can store; `from_dict` reads it.

        >>> import namedax as nx
        >>> nx.machines.Link(1e9, 1e-6).to_dict()["kind"]
        'ring'
        """
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return {
            **fields,
            "beyond": None if self.beyond is None else self.beyond.to_dict(),
            "by_size": [list(pair) for pair in self.by_size],
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, object]) -> Link:
        """Return the link of a dict that `to_dict` made.

        Args:
          data: the dict. Fields with a default may be missing.

        Raises:
          ArgumentError: a key is missing or unknown, or a figure is invalid.

        >>> import namedax as nx
        >>> link = nx.machines.Link.from_dict({"bandwidth": 1e9, "latency": 0.0})
        >>> link == nx.machines.Link(1e9, 0.0)
        True
        """
        fields = [field.name for field in dataclasses.fields(cls)]
        arguments = arguments_of("Link.from_dict", data, fields, fields[:2])
        if arguments.get("beyond") is not None:
            arguments["beyond"] = cls.from_dict(arguments["beyond"])
        return cls(**arguments)

    def closed(self, size: int) -> bool:
        """Return True if an axis of `size` devices is a closed ring.

        Args:
          size: the number of devices along the axis.
        """
        return self.kind == "ring" and size % self.closes == 0


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def positive(of: str, name: str, value: object, unit: str) -> None:
    """Raise an error that names the argument, unless `value` is a positive and finite number.

    >>> from namedax.machines.links import positive
    >>> positive("Machine", "memory", -1, "bytes")
    Traceback (most recent call last):
      ...
    namedax.errors.ArgumentError: Machine: memory=-1 must be a positive number of bytes, ...
    """
    if not _is_number(value) or not 0 < value <= _LARGEST:
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
