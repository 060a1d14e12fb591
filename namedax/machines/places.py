"""The placement of a mesh on a machine: the links that the mesh axes of a collective use."""

from __future__ import annotations

import collections
import math
from collections.abc import Collection, Mapping
from typing import Any

from namedax.core.records import Record
from namedax.errors import ArgumentError, MeshError, show_names
from namedax.machines.links import Link

__all__ = ["Level", "Links", "levels_of", "placed", "sizes_of"]

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


def sizes_of(mesh: Any) -> dict[str, int] | None:
    """Return the sizes of a mesh, which may be concrete, abstract, or a dict of sizes."""
    if mesh is None:
        return None
    sizes = dict(getattr(mesh, "shape", mesh))
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
    """Return, by mesh axis, the number of devices for each link; the last axes fill the fastest links, as in `jax.make_mesh`.

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
