"""Dimensions of an array along the rows and columns of its picture, and omitted blocks.

Two dimensions make a sheet. Other sharded dimensions, and dimensions with very many parts, make
several sheets. If there are too many blocks to distinguish, only the first ones and the last are
drawn.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import AbstractMesh, Mesh, NamedSharding

from namedax.core.array import NamedArray, padding_of
from namedax.core.display import type_text
from namedax.core.names import Dims
from namedax.core.padded_sharding import block_size
from namedax.core.records import Record
from namedax.core.region import ambient
from namedax.errors import ArgumentError, ArgumentTypeError, AxisResourceError, show_names
from namedax.resources.assignment import (
    Assignment,
    check_mesh_axes,
    named_sharding,
    parse_placement,
)
from namedax.resources.mesh import any_mesh, entry_of

__all__ = [
    "MOST_BLOCKS",
    "Arrangement",
    "Dimension",
    "Holding",
    "Layout",
    "Sheet",
    "arrange",
    "given_layout",
    "holding_of",
    "layout_of",
    "uneven_axes",
    "unused_names",
]


class Layout(Record, frozen=False):
    """A mesh: its axes with their sizes, and the array of its device numbers.

    Equal meshes share one layout.
    """

    axes: tuple[tuple[str, int], ...]
    grid: np.ndarray
    platform: str

    @property
    def sizes(self) -> dict[str, int]:
        """The size of each mesh axis."""
        return dict(self.axes)


class Dimension(Record):
    """A dimension of an array: its label, size, mesh axes, and number of parts.

    `undivided` has the mesh axes of a layout that do not shard it, because its size does not divide
    over them. `padding` is the number of elements at the end of `size` that are padding.
    """

    label: str
    size: int
    mesh_axes: tuple[tuple[str, int], ...]
    parts: int
    undivided: tuple[tuple[str, int], ...] = ()
    padding: int = 0

    def real(self, part: int) -> float:
        """Return the fraction of a part that is not padding."""
        block = self.size // self.parts
        if not self.padding:
            return 1.0
        return min(max(self.size - self.padding - part * block, 0), block) / block

    def entries(self, part: int) -> tuple[int, int]:
        """Return the first and the last index of a part."""
        block = self.size // self.parts
        return part * block, (part + 1) * block - 1


class Holding(Record):
    """An array in its blocks.

    `holders` has the dimensions of the grid of blocks, and a last one for the devices that store
    the same block. `layout` is the mesh, if the array has one. `copies` are mesh axes over which it
    is replicated; `sums` are those over which it is unreduced.
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
def layout_of(mesh: Mesh | AbstractMesh) -> Layout:
    """Return the layout of a mesh; the devices of an abstract one are numbered in order."""
    axes = tuple((axis, int(size)) for axis, size in mesh.shape.items())
    if isinstance(mesh, Mesh):
        return _layout(
            axes, tuple(device.id for device in mesh.devices.flat), mesh.devices.flat[0].platform
        )
    return _layout(axes, tuple(range(math.prod(size for _, size in axes))), "")


@functools.lru_cache(64)
def _layout(axes: tuple[tuple[str, int], ...], ids: tuple[int, ...], platform: str) -> Layout:
    return Layout(axes, np.array(ids, int).reshape([size for _, size in axes]), platform)


def given_layout(
    op: str, axis_resources: Mapping[Hashable, Any] | None, mesh: Mesh | AbstractMesh | None
) -> tuple[Assignment, Mesh | AbstractMesh] | None:
    """Return the layout and mesh that place arrays; `None` to read their current sharding.

    Raises:
      AxisResourceError: the layout is malformed, `mesh` is given without it, or the call is inside
        a mapped function.
      MeshError: there is no mesh, or it lacks a mesh axis.
    """
    if axis_resources is None:
        if mesh is not None:
            raise AxisResourceError(
                f"{op}: mesh= is given without axis_resources, but arrays are shown with their"
                " current sharding. Pass both to show another layout; axis_resources={} replicates"
                " the arrays."
            )
        return None
    surrounding = ambient()
    if surrounding is not None and surrounding.resources:
        raise AxisResourceError(
            f"{op}: it shows global arrays and cannot run in a mapped function. Call it before the"
            " mapped function."
        )
    assignment = parse_placement(axis_resources, op)
    mesh = any_mesh(mesh, op)
    check_mesh_axes(assignment, mesh, op)
    return assignment, mesh


def unused_names(axis_resources: Mapping[Hashable, Any] | None, leaves: Sequence[object]) -> str:
    """Return a sentence about names that no array has, which may be misspelled."""
    names = {dim for leaf in leaves if isinstance(leaf, NamedArray) for dim in leaf.dims}
    unused = [name for name in axis_resources or () if name not in names]
    return f"No array here has the axis {show_names(unused)}." if unused else ""


def holding_of(
    leaf: object,
    path: str,
    place: tuple[Assignment, Mesh | AbstractMesh] | None,
    is_padded: bool = False,
    op: str = "draw",
) -> Holding:
    """Return the placement of an array on devices.

    Args:
      leaf: an array, named or not, or its type.
      path: its path in the tree.
      place: a layout and a mesh, possibly an abstract one, or `None` to read the array's own
        sharding.
      is_padded: whether a layout pads sizes that do not divide. Default: False, it replicates them.
      op: the operation, for messages. Default: "draw".

    Raises:
      ArgumentTypeError: it is not an array.
      ArgumentError: its devices are unknown, and no layout is given.
      PlacementConflictError: the array cannot be placed with this layout.
    """
    what = f"{op}: the array {path}" if path else f"{op}: the array"
    data: Any = leaf.data if isinstance(leaf, NamedArray) else leaf  # with padding
    if not hasattr(data, "dtype") or not hasattr(data, "shape"):
        if place is None or not isinstance(data, (bool, int, float, complex)):
            raise ArgumentTypeError(
                f"{op}: {path or 'the argument'} is a {type(data).__name__}, not an array. Pass"
                " arrays, their types, or trees of them."
            )
        data = np.asarray(data)
    dims = leaf.dims if isinstance(leaf, NamedArray) else (None,) * len(data.shape)
    stored = padding_of(leaf) if isinstance(leaf, NamedArray) else None
    true = tuple(
        n if stored is None else stored.sizes.get(dim, n)
        for dim, n in zip(dims, data.shape, strict=True)
    )
    shape = tuple(data.shape)
    if place is not None:
        shape = _padded(dims, true, *place) if is_padded else true
        sharding: Any = named_sharding(dims, shape, *place, op)
    else:
        sharding = None if isinstance(data, jax.core.Tracer) else getattr(data, "sharding", None)
        if sharding is None:
            why = "is being traced" if isinstance(data, jax.core.Tracer) else "is on no device"
            raise ArgumentError(
                f"{what}, {_type_of(leaf)}, {why}, so the devices of its blocks are unknown. Pass a"
                f" layout: nx.{op}(x, axis_resources, mesh)."
            )
    size = math.prod(shape) * int(data.dtype.itemsize)
    known = {"path": path, "type": _type_of(leaf), "bytes": size}
    if isinstance(sharding, NamedSharding):
        wanted = [() if place is None else place[0].get(dim, ()) for dim in dims]
        return _by_names(sharding, dims, shape, true, known, what, wanted, op)
    return _by_indices(sharding, dims, shape, known)


def _padded(
    dims: Dims, shape: tuple[int, ...], assignment: Assignment, mesh: Mesh | AbstractMesh
) -> tuple[int, ...]:
    """Return the sizes of an array that is stored padded."""
    counts = [
        math.prod(mesh.shape[axis] for axis in assignment.get(dim, ())) if dim is not None else 1
        for dim in dims
    ]
    return tuple(block_size(n, count) * count for n, count in zip(shape, counts, strict=True))


def _type_of(leaf: object) -> str:
    return type_text(
        leaf if isinstance(leaf, NamedArray) or hasattr(leaf, "dtype") else np.asarray(leaf)
    )


def _labels(dims: Dims) -> list[str]:
    positions = iter(range(len(dims)))
    return [f"position {next(positions)}" if dim is None else str(dim) for dim in dims]


def _by_names(
    sharding: NamedSharding,
    dims: Dims,
    shape: tuple[int, ...],
    true: tuple[int, ...],
    known: Mapping[str, Any],
    what: str,
    wanted: Sequence[tuple[str, ...]],
    op: str,
) -> Holding:
    """Return the placement by the mesh axes of each dimension, which an abstract mesh has too.

    `true` has the sizes without padding, and `wanted` the mesh axes that a layout gives each
    dimension.
    """
    layout = layout_of(sharding.mesh)
    sizes = layout.sizes
    found: list[Dimension] = []
    used: list[str] = []
    for i, label in enumerate(_labels(dims)):
        axes = entry_of(sharding.spec.partitions, i)
        for axis in axes:
            if axis not in sizes:
                raise ArgumentError(
                    f"{what} has {label!r} sharded as {axis!r}, so the devices of its blocks are"
                    f" unknown. Pass a layout: nx.{op}(x, axis_resources, mesh)."
                )
        used += axes
        parts = math.prod(sizes[axis] for axis in axes)
        undivided = () if axes else tuple((axis, sizes[axis]) for axis in wanted[i])
        if shape[i] % math.prod(n for _, n in undivided) == 0:
            undivided = ()
        found.append(
            Dimension(
                label,
                shape[i],
                tuple((axis, sizes[axis]) for axis in axes),
                parts,
                undivided,
                shape[i] - true[i],
            )
        )
    rest = [axis for axis in sizes if axis not in used]
    order = [list(sizes).index(axis) for axis in (*used, *rest)]
    holders = layout.grid.transpose(order).reshape([*(dim.parts for dim in found), -1])
    unreduced: frozenset[Hashable] = frozenset(sharding.spec.unreduced)
    many = [(axis, sizes[axis]) for axis in rest if sizes[axis] > 1]
    copies = tuple(one for one in many if one[0] not in unreduced)
    sums = tuple(one for one in many if one[0] in unreduced)
    return Holding(
        **known, dims=tuple(found), holders=holders, layout=layout, copies=copies, sums=sums
    )


def _by_indices(
    sharding: Any, dims: Dims, shape: tuple[int, ...], known: Mapping[str, Any]
) -> Holding:
    """Return the placement by the slice of each device, as reported by JAX."""
    of_device = {
        device.id: tuple(part.indices(n)[0] for part, n in zip(index, shape, strict=True))
        for device, index in sharding.devices_indices_map(shape).items()
    }
    starts = [sorted({start[i] for start in of_device.values()}) for i in range(len(shape))]
    held: dict[tuple[int, ...], list[int]] = {}
    for device, start in of_device.items():
        held.setdefault(tuple(starts[i].index(first) for i, first in enumerate(start)), []).append(
            device
        )
    parts = [len(each) for each in starts]
    holders = np.array([held[block] for block in np.ndindex(*parts)], int).reshape([*parts, -1])
    found = tuple(
        Dimension(label, n, (), count)
        for label, n, count in zip(_labels(dims), shape, parts, strict=True)
    )
    return Holding(**known, dims=found, holders=holders, layout=None)


def uneven_axes(held: Sequence[Holding]) -> list[str]:
    """Return sentences about axes that do not divide: their blocks, and padding."""
    found = {}
    for dim in (dim for each in held for dim in each.dims):
        if dim.padding:
            block, true = dim.size // dim.parts, dim.size - dim.padding
            full, rest = divmod(true, block)
            sizes = [str(block)] * full + ([str(rest)] if rest else [])
            sizes += ["0"] * (dim.parts - len(sizes))
            if len(sizes) > _MOST_SIZES:
                sizes = [*sizes[:3], "…", *sizes[-2:]]
            blocks = ", ".join(sizes)
            found[dim.label] = (
                f"The {true:,} elements of {dim.label} do not divide over {dim.parts} devices: the"
                f" blocks of {block} have {blocks} elements, and padding."
            )
        elif dim.undivided:
            count = math.prod(n for _, n in dim.undivided)
            found[dim.label] = (
                f"The {dim.size:,} elements of {dim.label} do not divide over {count} devices, so"
                " all devices have all of them; nx.shard(..., padded=True) stores padded blocks."
            )
    hatched = any(dim.padding for each in held for dim in each.dims)
    return [*found.values(), *(["Hatched parts are padding."] if hatched else [])]


MOST_BLOCKS = 64  # the maximum number of blocks that are drawn individually
_MOST_OF_MANY = 16  # the maximum if there are more devices than that
_LONGEST = 16  # the maximum number of rows, and of columns, of a sheet
_MOST_SIZES = 8  # the maximum number of block sizes in a sentence
_FIRST = 3  # parts drawn at the start of a dimension that is not drawn completely


class Sheet(Record):
    """A part of an array that is drawn as one grid.

    It has the parts along rows and columns (`None` for omitted ones), and a label.
    """

    rows: tuple[int | None, ...]
    columns: tuple[int | None, ...]
    fixed: tuple[tuple[int, int], ...]  # a part of each other sharded dimension
    label: str


class Arrangement(Record):
    """The drawing plan of an array: its row and column dimensions, if any, and its sheets."""

    row: int | None
    column: int | None
    across: tuple[int, ...]  # the dimensions that differ between sheets
    sheets: tuple[Sheet, ...]
    left_out: bool

    def block(self, sheet: Sheet, row: int, column: int, ndim: int) -> tuple[int, ...]:
        """Return the index of the block at a row and column of a sheet."""
        index = dict(sheet.fixed)
        if self.row is not None:
            index[self.row] = row
        if self.column is not None:
            index[self.column] = column
        return tuple(index.get(i, 0) for i in range(ndim))


def arrange(dims: tuple[Dimension, ...], copies: int = 1) -> Arrangement:
    """Arrange an array by its two dimensions with the most parts, or else the largest.

    These make the rows and columns.

    Each block is on `copies` devices.
    """
    order = sorted(range(len(dims)), key=lambda i: (-dims[i].parts, -dims[i].size, i))
    row, column, *_ = *sorted(order[:2]), None, None
    across = tuple(sorted(i for i in order[2:] if dims[i].parts > 1))
    blocks = math.prod(dim.parts for dim in dims)
    left_out = blocks > (MOST_BLOCKS if blocks * copies <= MOST_BLOCKS else _MOST_OF_MANY)
    rows = _pieces(dims, row, left_out)
    columns = _pieces(dims, column, left_out)
    others = [
        [part for part in _shown(dims[i].parts, left_out) if part is not None] for i in across
    ]
    sheets = []
    for parts in itertools.product(*others):
        fixed = tuple(zip(across, parts, strict=True))
        for down, right in itertools.product(rows, columns):
            ranges = [(i, part, part) for i, part in fixed]
            for i, pieces, piece in ((row, rows, down), (column, columns, right)):
                if i is not None and len(pieces) > 1:
                    ranges.append((i, piece[0] or 0, piece[-1] or 0))
            label = ", ".join(_range_text(dims[i], first, last) for i, first, last in ranges)
            sheets.append(Sheet(down, right, fixed, label))
    return Arrangement(row, column, across, tuple(sheets), left_out)


def _shown(parts: int, some: bool) -> tuple[int | None, ...]:
    if not some or parts <= _FIRST + 1:
        return tuple(range(parts))
    return (*range(_FIRST), None, parts - 1)


def _pieces(
    dims: tuple[Dimension, ...], dim: int | None, some: bool
) -> list[tuple[int | None, ...]]:
    """Split the parts of a dimension into pieces of about equal length that each fit a sheet."""
    if dim is None:
        return [(0,)]
    shown = _shown(dims[dim].parts, some)
    count = -(-len(shown) // _LONGEST)
    length = -(-len(shown) // count)
    return [shown[i : i + length] for i in range(0, len(shown), length)]


def _range_text(dim: Dimension, first: int, last: int) -> str:
    """Return the range of a dimension that a sheet covers, as text."""
    start, end = dim.entries(first)[0], dim.entries(last)[1]
    return f"{dim.label} {start:,}–{end:,}" if end > start else f"{dim.label} {start:,}"


def cells(sheet: Sheet) -> Iterator[tuple[int, int, int | None, int | None]]:
    """Yield the cells of a sheet: row, column, and the parts there.

    The parts are `None` in a row or column for omitted parts.
    """
    for (i, row), (j, column) in itertools.product(enumerate(sheet.rows), enumerate(sheet.columns)):
        yield i, j, row, column
