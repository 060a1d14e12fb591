"""Mapped functions within mapped functions: what an inner one may map, and where."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from namedax.core.array import dims_of
from namedax.core.region import Region
from namedax.errors import AxisResourceError, MeshError, SerialLoopError
from namedax.lowering import Argument
from namedax.resources.assignment import Assignment, check_mesh_axes
from namedax.resources.serial import loops_of

__all__ = ["carried_names", "check_nested"]


def check_nested(function: str, mesh: Any, resources: Assignment, outer: Region) -> frozenset[str]:
    """The mesh axes that a mapped function maps names to, and the one around it does not.

    Args:
      function: the inner function, for messages.
      mesh: its own mesh, if it was given one.
      resources: its assignment.
      outer: the region of the function around it.

    Raises:
      SerialLoopError: it maps a name to a loop, or new mesh axes within a loop.
      MeshError: its mesh is not that of the function around it, or lacks a mesh axis.
      AxisResourceError: a name is mapped to other mesh axes there, or to some that are taken and some that are not.
    """
    if loops_of(resources):
        raise SerialLoopError(
            f"xmap: {function} is called inside of another mapped function, and axis_resources maps a name to a loop. Put "
            "the SerialLoop into the axis_resources of the outermost xmap."
        )
    taken = frozenset(axis for axes in outer.resources.values() for axis in axes)
    new_axes = frozenset(axis for axes in resources.values() for axis in axes) - taken
    if new_axes and loops_of(outer.resources):
        name = next(name for name in resources if not new_axes.isdisjoint(resources[name]))
        raise SerialLoopError(
            f"xmap: {function} is called inside of another mapped function, which is executed in steps (of a SerialLoop, or of a pipeline), and maps "
            f"{name!r} to mesh axes {resources[name]}, which that function does not use. Put {name!r} into the axis_resources of the "
            "outermost xmap."
        )
    if mesh is not None:
        for axis, size in mesh.shape.items():
            if outer.mesh.shape.get(axis) != size:
                raise MeshError(
                    f"xmap: {function} is called inside of another mapped function, and its mesh has the axis {axis!r} of size "
                    f"{size}, which the mesh outside, {dict(outer.mesh.shape)}, does not have. Leave out mesh=, or give the "
                    "outermost xmap a mesh with all axes."
                )
    check_mesh_axes(resources, outer.mesh)
    for name, axes in resources.items():
        if outer.resources.get(name, axes) != axes:
            raise AxisResourceError(
                f"xmap: {function} maps {name!r} to {axes}, but the surrounding mapped function maps it to "
                f"{outer.resources[name]}; a name lives in one place. Rename the axis, or remove the entry."
            )
    for name, axes in resources.items():
        if not new_axes.isdisjoint(axes) and not taken.isdisjoint(axes):
            raise AxisResourceError(
                f"xmap: {function} maps {name!r} to {axes}, of which the surrounding mapped function has taken "
                f"{sorted(taken.intersection(axes))} and not {sorted(new_axes.intersection(axes))}. Use axes of one kind, or map "
                "the name in the outermost xmap."
            )
    return new_axes


def carried_names(outer: Region, arguments: Sequence[Argument]) -> frozenset[Hashable]:
    """Names of the surrounding function, which are batch axes here: all of its names but those that the mappings give."""
    given = {dim for argument in arguments for dim in argument.dims if dim not in dims_of(argument.leaf)}
    return frozenset(outer.seen | outer.sizes.keys()) - given
