"""Parsed `axis_resources`: mesh axes by axis name."""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from typing import Any

from jax.sharding import NamedSharding, PartitionSpec

from namedax.core.names import Dims, Mesh, is_name
from namedax.core.region import Region
from namedax.errors import AxisResourceError, MeshError, did_you_mean, format_value, show_names
from namedax.resources.mesh import HOW_TO_GIVE_A_MESH
from namedax.resources.serial import SerialLoop, loop_axis, on_devices, with_loops

__all__ = [
    "Assignment",
    "check_mesh_axes",
    "dividing",
    "named_sharding",
    "parse_placement",
    "parse_resources",
    "partition_spec",
]

Assignment = dict[Hashable, tuple[str, ...]]


def parse_resources(axis_resources: Mapping[Hashable, Any] | None, op: str = "xmap") -> Assignment:
    """Parse `axis_resources` into tuples of mesh axes, major first.

    A name mapped to `()` or `None` is vectorized.

    Args:
      axis_resources: a mapping from axis names to mesh axes, `SerialLoop`s or tuples of them.
        `None` means an empty mapping.
      op: the operation, for messages. Default: `"xmap"`.

    Raises:
      AxisResourceError: `axis_resources` is not a mapping from axis names to mesh axes, or one
        tuple contains a mesh axis twice.

    >>> from namedax.resources.assignment import parse_resources
    >>> parse_resources({"batch": "x", "hidden": ("y", "z")})
    {'batch': ('x',), 'hidden': ('y', 'z')}
    """
    if axis_resources is None:
        return {}
    if not isinstance(axis_resources, Mapping):
        raise AxisResourceError(
            f"{op}: axis_resources is {format_value(axis_resources)}, not a dict. Write a dict from"
            " axis names to mesh axes, such as {'batch': 'x'} or {'batch': ('x', 'y')}."
        )
    assignment: Assignment = {}
    for name, resources in axis_resources.items():
        if not is_name(name):
            raise AxisResourceError(
                f"{op}: axis_resources has the key {name!r}, which is not an axis name. Write axis"
                " names as keys, such as {'batch': 'x'}."
            )
        entries = (
            () if resources is None else resources if isinstance(resources, tuple) else (resources,)
        )
        entries = tuple(
            loop_axis(name, entry) if isinstance(entry, SerialLoop) else entry for entry in entries
        )
        for i, entry in enumerate(entries):
            if not isinstance(entry, str):
                raise AxisResourceError(
                    f"{op}: axis_resources maps {name!r} to {format_value(entry)}, which is not a"
                    " mesh axis. Write a mesh axis name, a SerialLoop, or a tuple of them, major"
                    " first."
                )
            if entry in entries[:i]:
                raise AxisResourceError(
                    f"{op}: axis_resources maps {name!r} to mesh axis {format_value(entry)} twice"
                    f" ({entries}). Remove one of the two."
                )
        if entries:
            assignment[name] = tuple(entries)
    return assignment


def parse_placement(axis_resources: Mapping[Hashable, Any] | None, op: str) -> Assignment:
    """Parse the `axis_resources` of arrays outside of mapped functions, where loops have no effect.

    Raises:
      AxisResourceError: as `parse_resources`.
    """
    return on_devices(with_loops(parse_resources(axis_resources, op)))


def check_mesh_axes(
    assignment: Assignment, mesh: Mesh | None, op: str = "xmap", names: Collection[Hashable] = ()
) -> None:
    """Check that a mesh has all mesh axes of parsed `axis_resources`.

    Args:
      assignment: the parsed `axis_resources`.
      mesh: the mesh, or `None`.
      op: the operation, for messages. Default: `"xmap"`.
      names: the axis names of the body, for messages. Default: none.

    Raises:
      MeshError: there is no mesh, or it lacks a mesh axis.
    """
    for name, axes in assignment.items():
        if mesh is None or not mesh.axis_names:
            raise MeshError(
                f"{op}: axis_resources maps {name!r} to mesh axes {axes}, but there is no mesh."
                f" {HOW_TO_GIVE_A_MESH}{_or_a_loop(op, axes)}"
            )
        for axis in axes:
            if axis not in mesh.axis_names:
                if name in mesh.axis_names and axis in names:
                    remedy = (
                        " The keys are axis names and the values are mesh axes. Did you mean"
                        f" {{{axis!r}: {name!r}}}?"
                    )
                else:
                    remedy = (
                        did_you_mean(axis, mesh.axis_names)
                        or _or_a_loop(op, [axis])
                        or f" Write {{{format_value(name)}: {mesh.axis_names[0]!r}}}."
                    )
                raise MeshError(
                    f"{op}: axis_resources maps {name!r} to mesh axis {format_value(axis)}, which"
                    " the mesh does not have; its axes are "
                    f"{show_names(mesh.axis_names)} with sizes "
                    f"{tuple(mesh.shape.values())}.{remedy}"
                )


def _or_a_loop(op: str, axes: Sequence[str]) -> str:
    return (
        f" To execute {axes[-1]!r} as a loop, call within nx.serial_loop({axes[-1]!r}, steps)."
        if op == "xmap"
        else ""
    )


def partition_spec(
    dims: Dims | Iterable[Hashable | None], assignment: Mapping[Hashable, tuple[str, ...]]
) -> PartitionSpec:
    """Return the `PartitionSpec` of an array with the given dims.

    >>> from namedax.resources.assignment import partition_spec
    >>> partition_spec(("batch", None, "hidden"), {"batch": ("x",), "hidden": ("y", "z")})
    P('x', None, ('y', 'z'))
    """
    entries = []
    for dim in dims:
        axes = assignment.get(dim, ()) if dim is not None else ()
        entries.append(None if not axes else axes[0] if len(axes) == 1 else axes)
    return PartitionSpec(*entries)


def named_sharding(
    dims: Dims,
    shape: Sequence[int],
    assignment: Assignment,
    mesh: Mesh,
    op: str,
    memory_kind: str | None = None,
) -> NamedSharding:
    """Return the sharding of an array outside of mapped functions.

    It follows from parsed `axis_resources` without loops.

    An axis whose size its mesh axes do not divide is replicated, as in the arguments and results of
    mapped functions. The mesh may be abstract.

    Raises:
      PlacementConflictError: two of the axes are sharded over one mesh axis.
    """
    region = Region({}, assignment, mesh, "manual", None)
    region.check_placement(op, (dim for dim in dims if dim is not None))
    sizes = {dim: n for dim, n in zip(dims, shape, strict=True) if dim is not None}
    spec = partition_spec(dims, dividing(assignment, sizes, mesh))
    return NamedSharding(mesh, spec, memory_kind=memory_kind)


def dividing(
    assignment: Assignment, sizes: Mapping[Hashable, int], mesh: Mesh | None
) -> Assignment:
    """Remove the axis names whose given size the number of their blocks does not divide."""
    counts = {} if mesh is None else dict(mesh.shape)
    return {
        name: axes
        for name, axes in assignment.items()
        if sizes.get(name, 0) % math.prod(counts[a] for a in axes) == 0
    }
