"""Which links the mesh axes of a collective go over: the mesh laid out on the machine."""

from __future__ import annotations

import collections
import math
from collections.abc import Collection, Mapping
from typing import Any

from namedax.core.records import Record
from namedax.errors import ArgumentError, MeshError, show_names
from namedax.machines.links import Link

__all__ = ["Level", "Links", "levels_of", "placed", "sizes_of"]

#: By mesh axis; by several mesh axes together; `...` is all others.
Links = Mapping[Any, Link]


class Level(Record):
    """Devices that one link joins.

    Attributes:
      sizes: how many along each of its axes: one for a ring or a line, two for a torus of two axes.
      link: what joins them.
      share: the part of the bandwidth that each axis has, where more mesh axes than the torus has dimensions share it.
    """

    sizes: tuple[int, ...]
    link: Link
    share: float = 1.0

    @property
    def count(self) -> int:
        """How many devices."""
        return math.prod(self.sizes)


def sizes_of(mesh: Any) -> dict[str, int] | None:
    """The sizes of a mesh, which may be one, an abstract one, or a dict of sizes."""
    if mesh is None:
        return None
    sizes = dict(getattr(mesh, "shape", mesh))
    for axis, size in sizes.items():
        if not isinstance(size, int) or size < 1:
            raise MeshError(f"Machine.time: the mesh axis {axis!r} has the size {size!r}; it must be a positive integer.")
    return sizes


def levels_of(
    links: Links, axes: tuple[str, ...], group_size: int, mesh: Mapping[str, int] | None, machine: str
) -> tuple[Level, ...]:
    """The levels that a collective over `axes` goes through.

    Args:
      links: of the machine.
      axes: the mesh axes of the collective.
      group_size: the number of devices that take part together.
      mesh: the sizes of all mesh axes, from the slowest to the fastest, or `None` where they are not known.
      machine: its name, for messages.

    Raises:
      MeshError: the machine has no link for an axis, the mesh lacks it, or its devices cannot be laid out.
      ArgumentError: the mesh is not known, and has to be.
    """
    for key, link in links.items():
        if isinstance(key, tuple) and len(key) > 1 and set(key) == set(axes):
            return (Level((group_size,), link),)
    if mesh is None:
        if len(axes) > 1 or _link_of(links, axes[0], machine).reach is not None:
            raise ArgumentError(
                f"Machine.time: {machine} has to know the whole mesh to say which links a collective over {show_names(axes)} goes "
                "over; give mesh=, a mesh or a dict of sizes such as {'data': 16, 'model': 16}."
            )
        mesh = {axes[0]: group_size}
    if missing := [axis for axis in axes if axis not in mesh]:
        raise MeshError(f"Machine.time: a collective goes over {show_names(missing)}, and the mesh has {show_names(mesh)}.")
    over = placed(links, mesh, axes, machine)
    parts = [part for axis in axes for part in over[axis]]
    whole = math.prod(mesh[axis] for axis in axes)
    if (
        group_size != whole
    ):  # groups within an axis: of what joins them, all that is known is that it is no faster than the slowest
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
            f"Machine.time: {machine} has no link for the mesh axis {axis!r}; it has links for {show_names(links)}. Say which network "
            f"it goes over: machine.with_links({{{axis!r}: nx.machines.Link(...)}})."
        )
    return link


def placed(
    links: Links, mesh: Mapping[str, int], used: Collection[str], machine: str
) -> dict[str, tuple[tuple[int, Link], ...]]:
    """By mesh axis: how many devices along it which link joins. The last axes fill the fastest links, as meshes are made.

    Args:
      links: of the machine.
      mesh: the sizes of all mesh axes.
      used: those that need a link.
      machine: its name, for messages.
    """
    left: dict[Link, int] = {}
    found: dict[str, tuple[tuple[int, Link], ...]] = {}
    for axis, size in reversed(list(mesh.items())):
        linked = size > 1 and (axis in used or axis in links or ... in links)
        found[axis] = _along(axis, size, _link_of(links, axis, machine), left, machine) if linked else ()
    return {axis: found[axis] for axis in mesh}


def _along(axis: str, size: int, link: Link, left: dict[Link, int], machine: str) -> tuple[tuple[int, Link], ...]:
    if link.reach is None:
        return ((size, link),)
    room = left.get(link, link.reach)
    inner = min(size, room)
    if size % inner:
        raise MeshError(
            f"Machine.time: {size} devices along the mesh axis {axis!r} do not fall into groups of {room}, which is what {machine} has "
            f"left of the {link.reach} devices that one {link.kind} joins. Choose a size that {room} divides, or say which network the "
            f"axis goes over: machine.with_links({{{axis!r}: nx.machines.Link(...)}})."
        )
    left[link] = room // inner
    within = ((inner, link),) if inner > 1 else ()
    if size == inner:
        return within
    if link.beyond is None:
        raise MeshError(
            f"Machine.time: {machine} joins {link.reach} devices by one {link.kind}, and the mesh has more along {axis!r} and the axes "
            f"after it. Say which network is between: machine.with_links({{{axis!r}: nx.machines.Link(...)}}), or beyond= of the link."
        )
    return _along(axis, size // inner, link.beyond, left, machine) + within


def _share(over: Mapping[str, tuple[tuple[int, Link], ...]], link: Link) -> float:
    if link.dimensions is None:
        return 1.0
    axes = sum(part[1] == link for parts in over.values() for part in parts)
    return min(1.0, link.dimensions / axes)
