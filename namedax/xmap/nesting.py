"""Checks for a mapped function that is called within another mapped function."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from namedax.core.array import dims_of
from namedax.core.region import Region
from namedax.errors import AxisResourceError, MeshError, SerialLoopError
from namedax.resources.assignment import Assignment, check_mesh_axes
from namedax.resources.serial import loops_of
from namedax.xmap.lowering import Argument

__all__ = ["carried_names", "check_nested"]


def check_nested(function: str, mesh: Any, resources: Assignment, outer: Region) -> frozenset[str]:
    """Check the mesh and `axis_resources` of an inner mapped function, and return the mesh axes that only it uses.

    Args:
      function: the inner function, for messages.
      mesh: the `mesh` argument of the inner function, or `None`.
      resources: the parsed `axis_resources` of the inner function.
      outer: the region of the surrounding mapped function.

    Raises:
      SerialLoopError: the inner function maps an axis to a loop, or to new mesh axes within a loop.
      MeshError: the mesh has other axes than the surrounding mesh, or the surrounding mesh lacks a
        mesh axis.
      AxisResourceError: the surrounding function maps an axis to other mesh axes, or uses some but
        not all mesh axes of an axis.
    """
    if loops_of(resources):
        raise SerialLoopError(
            f"xmap: {function} is called inside another mapped function, and axis_resources maps an"
            " axis to a loop. Put the SerialLoop into the axis_resources of the outermost xmap."
        )
    taken = frozenset(axis for axes in outer.resources.values() for axis in axes)
    new_axes = frozenset(axis for axes in resources.values() for axis in axes) - taken
    if new_axes and loops_of(outer.resources):
        name = next(name for name in resources if not new_axes.isdisjoint(resources[name]))
        raise SerialLoopError(
            f"xmap: {function} is called inside another mapped function, which is executed in steps"
            f" (of a SerialLoop or a pipeline), and maps {name!r} to mesh axes {resources[name]},"
            f" which that function does not use. Put {name!r} into the axis_resources of the"
            " outermost xmap."
        )
    if mesh is not None:
        for axis, size in mesh.shape.items():
            if outer.mesh.shape.get(axis) != size:
                raise MeshError(
                    f"xmap: {function} is called inside another mapped function, and its mesh has"
                    f" the axis {axis!r} of size {size}, which the surrounding mesh"
                    f" {dict(outer.mesh.shape)} does not have. Omit mesh=, or pass the outermost"
                    " xmap a mesh with all axes."
                )
    check_mesh_axes(resources, outer.mesh)
    for name, axes in resources.items():
        if outer.resources.get(name, axes) != axes:
            raise AxisResourceError(
                f"xmap: {function} maps {name!r} to {axes}, but the surrounding mapped function"
                f" maps it to {outer.resources[name]}; an axis name has one sharding. Rename the"
                " axis, or remove it from axis_resources."
            )
    for name, axes in resources.items():
        if not new_axes.isdisjoint(axes) and not taken.isdisjoint(axes):
            raise AxisResourceError(
                f"xmap: {function} maps {name!r} to {axes}, but the surrounding mapped function"
                f" uses only {sorted(taken.intersection(axes))} of them, and not"
                f" {sorted(new_axes.intersection(axes))}. Use mesh axes of one kind, or map the"
                " axis in the outermost xmap."
            )
    return new_axes


def carried_names(outer: Region, arguments: Sequence[Argument]) -> frozenset[Hashable]:
    """Return the axis names of the surrounding function that are batch axes of an inner mapped function.

    These are all of its axis names except the names that the axis mappings of the inner function
    attach.
    """
    given = {
        dim for argument in arguments for dim in argument.dims if dim not in dims_of(argument.leaf)
    }
    return frozenset(outer.seen | outer.sizes.keys()) - given
