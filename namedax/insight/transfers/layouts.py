"""Layouts of a tree: the block of every array on every device, before and after."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import jax
import numpy as np
from jax.sharding import AbstractMesh, NamedSharding

from namedax.core.array import (
    NamedArray,
    dims_of,
    is_named,
    make,
    padding_of,
    positions,
    stored_data,
)
from namedax.core.display import type_text
from namedax.core.names import Dims, Mesh, PyTree
from namedax.core.padded_sharding import StoredPadding
from namedax.core.records import Record
from namedax.errors import (
    ArgumentError,
    ArgumentTypeError,
    AxisNotFoundError,
    MeshError,
    format_value,
    raise_not_found,
    show_names,
)
from namedax.resources.assignment import (
    Assignment,
    check_mesh_axes,
    named_sharding,
    parse_placement,
)
from namedax.resources.communication import is_keys
from namedax.resources.mesh import entry_of
from namedax.resources.stored_padding import mesh_shape, padding_for

__all__ = [
    "Boxes",
    "Devices",
    "Layout",
    "Leaf",
    "Placed",
    "Side",
    "boxes_of",
    "check_names",
    "leaves_of",
    "parse_layout",
    "sharding_of",
]

#: A mesh, and the `axis_resources` on it.
Layout: TypeAlias = tuple[Mesh, Mapping[Hashable, Any]]


class Side(Record):
    """One layout.

    Attributes:
      mesh: the mesh.
      assignment: the mesh axes of each name, without loops.
    """

    mesh: Any
    assignment: Assignment

    @property
    def concrete(self) -> bool:
        """True if the mesh has devices."""
        return not isinstance(self.mesh, AbstractMesh)

    @property
    def size(self) -> int:
        """The number of devices."""
        return math.prod(self.sizes.values())

    @property
    def sizes(self) -> dict[str, int]:
        """The size of each mesh axis."""
        return dict(mesh_shape(self.mesh))


def parse_layout(layout: object, what: str) -> Side:
    """Parse a pair of a mesh and `axis_resources`.

    Raises:
      ArgumentTypeError: it is not such a pair.
      AxisResourceError: `axis_resources` is malformed.
      MeshError: the mesh lacks a mesh axis.
    """
    op = "transfer"
    if not isinstance(layout, Sequence) or isinstance(layout, str) or len(layout) != 2:
        raise ArgumentTypeError(
            f"{op}: {what}={format_value(layout)} is not a layout. Pass a pair (mesh,"
            " axis_resources), such as (jax.make_mesh((8,), ('x',)), {'batch': 'x'})."
        )
    mesh, axis_resources = layout
    if not isinstance(mesh, (jax.sharding.Mesh, AbstractMesh)):
        raise ArgumentTypeError(
            f"{op}: {what} begins with {format_value(mesh)}, which is not a mesh. Pass a pair"
            " (mesh, axis_resources), in this order."
        )
    if isinstance(mesh, jax.sharding.Mesh) and mesh.empty:
        raise MeshError(
            f"{op}: the mesh of {what} has no devices. Pass one from jax.make_mesh(shape, names)."
        )
    assignment = parse_placement(axis_resources, f"{op}, {what}")
    check_mesh_axes(assignment, mesh, f"{op}, {what}")
    return Side(mesh, assignment)


# --- the devices of both layouts ------------------------------------------------------------------


class Devices(NamedTuple):
    """The devices of both layouts, each with a number.

    Attributes:
      labels: the devices themselves, or their numbers if a mesh is abstract.
      source: the numbers of the devices of the source mesh, in row-major order; `None` if the
        arrays have their own shardings.
      target: the numbers of the devices of the target mesh, in row-major order.
    """

    labels: tuple[Any, ...]
    source: np.ndarray | None
    target: np.ndarray

    @property
    def total(self) -> int:
        """The number of devices of both layouts together."""
        return len(self.labels)

    @classmethod
    def of_sides(cls, source: Side, target: Side, disjoint: bool) -> Devices:
        """Assign numbers to the devices of two meshes.

        If a mesh has no devices, they are numbered by their position in it. The numbers of the
        second mesh begin at 0 too, or behind those of the first if the two are disjoint.

        Raises:
          ArgumentError: `disjoint` is given, and the meshes have devices.
        """
        if source.concrete and target.concrete:
            if disjoint:
                raise ArgumentError(
                    "transfer: disjoint=True is for abstract meshes; these meshes have devices,"
                    " which show what they share. Remove disjoint=."
                )
            labels = tuple(dict.fromkeys([*source.mesh.devices.flat, *target.mesh.devices.flat]))
            number = {device: i for i, device in enumerate(labels)}
            first = [number[device] for device in source.mesh.devices.flat]
            second = [number[device] for device in target.mesh.devices.flat]
            return cls(labels, np.array(first), np.array(second))
        start = source.size if disjoint else 0
        count = max(source.size, start + target.size)
        positions = np.arange(target.size) + start
        return cls(tuple(range(count)), np.arange(source.size), positions)

    @classmethod
    def of_shardings(cls, shardings: Sequence[Any], target: Side) -> Devices:
        """Assign numbers to the devices of shardings and of a mesh."""
        found = dict.fromkeys(
            device
            for sharding in dict.fromkeys(shardings)
            for device in sorted(sharding.device_set, key=lambda device: device.id)
        )
        labels = tuple(found | dict.fromkeys(target.mesh.devices.flat))
        number = {device: i for i, device in enumerate(labels)}
        second = [number[device] for device in target.mesh.devices.flat]
        return cls(labels, None, np.array(second))


# --- the leaves of the tree -----------------------------------------------------------------------


class Placed(Record):
    """One array in one layout.

    Attributes:
      shape: the stored shape, with padding.
      spec: the mesh axes of each dimension.
      sizes: the axis names and sizes of the mesh.
      padding: the padding, if the array is stored padded.
      sharding: the sharding, if the arrays have their own; otherwise `None`.
    """

    shape: tuple[int, ...]
    spec: tuple[tuple[str, ...], ...]
    sizes: tuple[tuple[str, int], ...]
    padding: StoredPadding | None = None
    sharding: Any = None


class Leaf(Record):
    """One array of the tree.

    Attributes:
      path: its path in the tree, as text.
      dims: its dims.
      named: True if it is a named array.
      shape: its true shape.
      dtype: its dtype.
      source: its placement in the source layout.
      target: its placement in the target layout.
    """

    path: str
    dims: Dims
    named: bool
    shape: tuple[int, ...]
    dtype: Any
    source: Placed
    target: Placed

    @property
    def itemsize(self) -> int:
        """The bytes of one element."""
        return int(self.dtype.itemsize)

    @property
    def nbytes(self) -> int:
        """The bytes of all elements."""
        return self.itemsize * math.prod(self.shape)

    @property
    def kind(self) -> tuple[Hashable, ...]:
        """A key that is equal for arrays that move in the same way."""
        return self.shape, self.itemsize, self.source, self.target

    @property
    def text(self) -> str:
        """Its type, as text."""
        struct = jax.ShapeDtypeStruct(self.shape, self.dtype)
        return type_text(make(struct, self.dims) if self.named else struct)


def leaves_of(
    types: PyTree, source: Side | None, target: Side, padded: bool
) -> tuple[list[Leaf], Any]:
    """Return the arrays of a tree of arrays or types, and the structure of the tree.

    Args:
      types: the tree.
      source: the source layout; `None` for the shardings of the arrays.
      target: the target layout.
      padded: True if axes that do not divide are stored padded in both layouts.

    Raises:
      ArgumentTypeError: a leaf is not an array or a type, or has no sharding and needs one.
      PlacementConflictError: two names of one array are on one mesh axis.
    """
    found, tree = jax.tree_util.tree_flatten_with_path(types, is_leaf=is_named)
    leaves = []
    for path, value in found:
        where = jax.tree_util.keystr(path) or "the array"
        data, sizes = _data_and_sizes(value, where)
        dims = positions(value, "transfer") if isinstance(value, NamedArray) else dims_of(data)
        shape = tuple(sizes.get(d, n) for d, n in zip(dims, data.shape, strict=True))
        named = isinstance(value, NamedArray)
        if source is None:
            before = _own_placement(value, data, where)
        else:
            is_padded = padded or (named and padding_of(value) is not None)
            before = _placed(dims, shape, source, is_padded, where)
        after = _placed(dims, shape, target, padded, where)
        # NumPy's float64 is float32 in JAX, unless `jax_enable_x64` is set.
        dtype = data.dtype if is_keys(data) else jax.dtypes.canonicalize_dtype(data.dtype)
        leaves.append(Leaf(where, dims, named, shape, dtype, before, after))
    return leaves, tree


def _data_and_sizes(value: object, where: str) -> tuple[Any, Mapping[Hashable, int]]:
    """Return an object with the stored shape and dtype, and the true sizes of named axes."""
    if isinstance(value, NamedArray):
        return stored_data(value), value.named_shape
    if isinstance(value, (jax.Array, jax.ShapeDtypeStruct, np.ndarray)):
        return value, {}
    if isinstance(value, (bool, int, float, complex, np.generic)):
        return jax.eval_shape(lambda: jax.numpy.asarray(value)), {}
    raise ArgumentTypeError(
        f"transfer: {where} is {format_value(value)}, of type {type(value).__name__}, not an array"
        " or the type of one. Pass only arrays, or their types from jax.eval_shape."
    )


def _placed(dims: Dims, shape: tuple[int, ...], side: Side, padded: bool, where: str) -> Placed:
    """Return the placement of an array by a layout, as `nx.shard` places it."""
    sizes = {dim: n for dim, n in zip(dims, shape, strict=True) if dim is not None}
    padding = padding_for(dims, sizes, side.assignment, side.mesh) if padded else None
    stored = padding.padded_sizes if padding is not None else {}
    shape = tuple(stored.get(d, n) for d, n in zip(dims, shape, strict=True))
    spec = named_sharding(dims, shape, side.assignment, side.mesh, f"transfer, {where}").spec
    axes = tuple(tuple(entry_of(spec, i)) for i in range(len(shape)))
    return Placed(shape, axes, mesh_shape(side.mesh), padding)


def _own_placement(value: object, data: Any, where: str) -> Placed:
    sharding = getattr(data, "sharding", None)
    mesh = getattr(sharding, "mesh", None)
    if sharding is None or isinstance(mesh, AbstractMesh):
        raise ArgumentTypeError(
            f"transfer: from_layout=None means the shardings of the arrays themselves, but {where}"
            " has none on devices. Pass placed arrays, or from_layout=(mesh, axis_resources)."
        )
    padding = padding_of(value) if isinstance(value, NamedArray) else None
    axes: tuple[tuple[str, ...], ...] = ()
    sizes: tuple[tuple[str, int], ...] = ()
    if isinstance(sharding, NamedSharding):
        axes = tuple(tuple(entry_of(sharding.spec, i)) for i in range(len(data.shape)))
        sizes = mesh_shape(sharding.mesh)
    return Placed(tuple(data.shape), axes, sizes, padding, sharding)


def check_names(types: PyTree, leaves: Sequence[Leaf], sides: Mapping[str, Side | None]) -> None:
    """Check that each layout applies to the tree, as `nx.shard` does.

    Raises:
      AxisNotFoundError: the tree is one array that lacks a name, or no array has a named axis.
    """
    alone = jax.tree_util.all_leaves([types], is_leaf=is_named)
    for what, side in sides.items():
        names = list(side.assignment) if side is not None else []
        if alone and leaves:
            have = [dim for dim in leaves[0].dims if dim is not None]
            for name in names:
                if name not in have:
                    extra = "Correct the name or remove the entry."
                    raise_not_found(f"transfer, {what}", name, leaves[0].text, have, extra)
        elif names and any(leaf.shape for leaf in leaves) and not any(x.named for x in leaves):
            raise AxisNotFoundError(
                f"transfer: {what} maps {show_names(names)}, but no array of the tree has a named"
                " axis. Name the axes first: nx.named(tree, axes)."
            )


# --- blocks ---------------------------------------------------------------------------------------


class Boxes(NamedTuple):
    """The block of an array on each of several devices, as ranges of indices.

    Attributes:
      devices: the number of each device.
      low: the first index of each block, by device and dimension.
      high: the index behind the last one.
    """

    devices: np.ndarray
    low: np.ndarray
    high: np.ndarray


def boxes_of(placed: Placed, numbers: np.ndarray | None, labels: Sequence[Any]) -> Boxes:
    """Return the blocks of an array.

    Args:
      placed: the placement.
      numbers: the number of each device of the mesh in row-major order, or `None` if the placement
        has its own sharding.
      labels: the device of each number.
    """
    if placed.sharding is not None or numbers is None:
        number = {device: i for i, device in enumerate(labels)}
        where = placed.sharding.devices_indices_map(placed.shape)
        bounds = [
            [s.indices(n)[:2] for s, n in zip(index, placed.shape, strict=True)]
            for index in where.values()
        ]
        each = np.array(bounds, dtype=np.int64).reshape(len(where), len(placed.shape), 2)
        devices = np.array([number[device] for device in where])
        return Boxes(devices, each[..., 0], each[..., 1])
    sizes = dict(placed.sizes)
    grid = tuple(sizes.values())
    coordinates = dict(zip(sizes, np.unravel_index(np.arange(math.prod(grid)), grid), strict=True))
    low = np.zeros((math.prod(grid), len(placed.shape)), np.int64)
    high = np.zeros_like(low)
    for dim, (axes, n) in enumerate(zip(placed.spec, placed.shape, strict=True)):
        index, blocks = np.zeros(len(low), np.int64), 1
        for axis in axes:
            index = index * sizes[axis] + coordinates[axis]
            blocks *= sizes[axis]
        low[:, dim] = index * (n // blocks)
        high[:, dim] = low[:, dim] + n // blocks
    return Boxes(numbers, low, high)


def sharding_of(placed: Placed, mesh: jax.sharding.Mesh) -> NamedSharding:
    """Return the sharding of a placement on a mesh with devices."""
    entries = [None if not axes else axes[0] if len(axes) == 1 else axes for axes in placed.spec]
    return NamedSharding(mesh, jax.sharding.PartitionSpec(*entries))
