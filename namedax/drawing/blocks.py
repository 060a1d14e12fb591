"""Which devices hold which block of an array: read off its sharding, or off the place that an assignment gives it."""

from __future__ import annotations

import functools
import math
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding

from namedax.core.array import NamedArray
from namedax.core.display import type_text
from namedax.core.names import Dims
from namedax.core.records import Record
from namedax.errors import ArgumentError, ArgumentTypeError
from namedax.resources.assignment import Assignment, named_sharding
from namedax.resources.mesh import entry_of

__all__ = ["Dimension", "Holding", "Layout", "holding_of", "layout_of"]


class Layout(Record, frozen=False):
    """A mesh: its axes with their sizes, and the numbers of its devices, in a dimension for each axis. Equal meshes have one layout."""

    axes: tuple[tuple[str, int], ...]
    grid: np.ndarray
    platform: str

    @property
    def sizes(self) -> dict[str, int]:
        """The size of each mesh axis."""
        return dict(self.axes)


class Dimension(Record):
    """A dimension of an array: what it is called, its size, the mesh axes that cut it, and into how many parts.

    `undivided` has the mesh axes that an assignment gives it and that do not cut it, because its size does not divide over them.
    """

    label: str
    size: int
    mesh_axes: tuple[tuple[str, int], ...]
    parts: int
    undivided: tuple[tuple[str, int], ...] = ()

    def entries(self, part: int) -> tuple[int, int]:
        """The first entry of a part, and the last one."""
        block = self.size // self.parts
        return part * block, (part + 1) * block - 1


class Holding(Record):
    """An array in its blocks.

    `holders` has a dimension for each of the array, as many entries along it as it has parts, and a last one for the devices that hold
    the same block. `layout` is the mesh, where the array has one; `copies` are mesh axes over which it is the same, `sums` those over
    which its values are yet to be added up.
    """

    path: str
    type: str
    bytes: int
    dims: tuple[Dimension, ...]
    holders: np.ndarray
    layout: Layout | None
    copies: tuple[tuple[str, int], ...] = ()
    sums: tuple[tuple[str, int], ...] = ()

    @property
    def blocks(self) -> int:
        """The number of different blocks."""
        return math.prod(dim.parts for dim in self.dims)


@functools.lru_cache(64)
def layout_of(mesh: Any) -> Layout:
    """What is drawn of a mesh, possibly an abstract one, whose devices are numbered in order."""
    axes = tuple((axis, int(size)) for axis, size in mesh.shape.items())
    if isinstance(mesh, Mesh):
        return _layout(axes, tuple(device.id for device in mesh.devices.flat), mesh.devices.flat[0].platform)
    return _layout(axes, tuple(range(math.prod(size for _, size in axes))), "")


@functools.lru_cache(64)
def _layout(axes: tuple[tuple[str, int], ...], ids: tuple[int, ...], platform: str) -> Layout:
    return Layout(axes, np.array(ids, int).reshape([size for _, size in axes]), platform)


def holding_of(leaf: Any, path: str, place: tuple[Assignment, Any] | None) -> Holding:
    """How an array lies on devices.

    Args:
      leaf: an array, named or not, or its type.
      path: what it is called.
      place: an assignment and a mesh, possibly an abstract one, or `None` to read the array's own sharding.

    Raises:
      ArgumentTypeError: it is no array.
      ArgumentError: it is on no devices that are known, and no place is given.
      PlacementConflictError: the array cannot be placed so.
    """
    what = f"draw: the array {path}" if path else "draw: the array"
    data: Any = leaf.data if isinstance(leaf, NamedArray) else leaf
    if not hasattr(data, "dtype") or not hasattr(data, "shape"):
        if place is None or not isinstance(data, (bool, int, float, complex)):
            raise ArgumentTypeError(
                f"draw: {path or 'the argument'} is a {type(data).__name__}, which is not an array; draw arrays, their types, or trees of them."
            )
        data = np.asarray(data)
    dims = leaf.dims if isinstance(leaf, NamedArray) else (None,) * len(data.shape)
    if place is not None:
        sharding: Any = named_sharding(dims, data.shape, *place, "draw")
    else:
        sharding = None if isinstance(data, jax.core.Tracer) else getattr(data, "sharding", None)
        if sharding is None:
            why = "is being traced" if isinstance(data, jax.core.Tracer) else "is on no device"
            raise ArgumentError(
                f"{what}, {_type_of(leaf)}, {why}, so that nobody knows who holds its blocks. Say where it would live: "
                "nx.draw(x, axis_resources, mesh)."
            )
    size = math.prod(data.shape) * int(data.dtype.itemsize)
    known = {"path": path, "type": _type_of(leaf), "bytes": size}
    if isinstance(sharding, NamedSharding):
        wanted = [() if place is None else place[0].get(dim, ()) for dim in dims]
        return _by_names(sharding, dims, data.shape, known, what, wanted)
    return _by_indices(sharding, dims, data.shape, known)


def _type_of(leaf: Any) -> str:
    return type_text(leaf if isinstance(leaf, NamedArray) or hasattr(leaf, "dtype") else np.asarray(leaf))


def _labels(dims: Dims) -> list[str]:
    positions = iter(range(len(dims)))
    return [f"position {next(positions)}" if dim is None else str(dim) for dim in dims]


def _by_names(
    sharding: NamedSharding,
    dims: Dims,
    shape: tuple[int, ...],
    known: Mapping[str, Any],
    what: str,
    wanted: Sequence[tuple[str, ...]],
) -> Holding:
    """By the mesh axes of each dimension, which also an abstract mesh has; `wanted` are those that an assignment gives it."""
    layout = layout_of(sharding.mesh)
    sizes = layout.sizes
    found: list[Dimension] = []
    used: list[str] = []
    for i, label in enumerate(_labels(dims)):
        axes = entry_of(sharding.spec.partitions, i)
        for axis in axes:
            if axis not in sizes:
                raise ArgumentError(f"{what} has {label!r} sharded as {axis!r}, which leaves it open which devices hold what.")
        used += axes
        parts = math.prod(sizes[axis] for axis in axes)
        undivided = () if axes else tuple((axis, sizes[axis]) for axis in wanted[i])
        if shape[i] % math.prod(n for _, n in undivided) == 0:
            undivided = ()
        found.append(Dimension(label, shape[i], tuple((axis, sizes[axis]) for axis in axes), parts, undivided))
    rest = [axis for axis in sizes if axis not in used]
    order = [list(sizes).index(axis) for axis in (*used, *rest)]
    holders = layout.grid.transpose(order).reshape([*(dim.parts for dim in found), -1])
    unreduced: frozenset[Hashable] = frozenset(sharding.spec.unreduced)
    many = [(axis, sizes[axis]) for axis in rest if sizes[axis] > 1]
    copies = tuple(one for one in many if one[0] not in unreduced)
    sums = tuple(one for one in many if one[0] in unreduced)
    return Holding(**known, dims=tuple(found), holders=holders, layout=layout, copies=copies, sums=sums)


def _by_indices(sharding: Any, dims: Dims, shape: tuple[int, ...], known: Mapping[str, Any]) -> Holding:
    """By the slice that JAX says each device has."""
    of_device = {
        device.id: tuple(part.indices(n)[0] for part, n in zip(index, shape, strict=True))
        for device, index in sharding.devices_indices_map(shape).items()
    }
    starts = [sorted({start[i] for start in of_device.values()}) for i in range(len(shape))]
    held: dict[tuple[int, ...], list[int]] = {}
    for device, start in of_device.items():
        held.setdefault(tuple(starts[i].index(first) for i, first in enumerate(start)), []).append(device)
    parts = [len(each) for each in starts]
    holders = np.array([held[block] for block in np.ndindex(*parts)], int).reshape([*parts, -1])
    found = tuple(Dimension(label, n, (), count) for label, n, count in zip(_labels(dims), shape, parts, strict=True))
    return Holding(**known, dims=found, holders=holders, layout=None)
