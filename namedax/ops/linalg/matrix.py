"""Rows and columns of a named array, as matrices on blocks, and named results of these."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence

import jax
import jax.numpy as jnp
from jax import lax

from namedax.core.annotations import AnyArray, ArrayLike, AxisSpec
from namedax.core.array import NamedArray, as_array, dims_of
from namedax.core.display import type_text
from namedax.core.element_types import as_inexact
from namedax.core.names import AxisName, Dims, DType, MeshAxes, check_name, is_name
from namedax.core.padded_sharding import Uneven, plain
from namedax.core.records import Record
from namedax.core.region import ambient, check_region_lives
from namedax.core.variance import varying
from namedax.errors import (
    ArgumentTypeError,
    AxisNameError,
    AxisSizeError,
    format_value,
    raise_not_found,
    show_names,
)
from namedax.ops.linalg import tall
from namedax.ops.operands.along_axes import entries_of
from namedax.ops.operands.broadcasting import make_result, to_local
from namedax.ops.shape.rename import rename
from namedax.resources import communication as comm
from namedax.resources.padding_masks import is_real, masked, refilled

__all__ = [
    "Matrix",
    "Side",
    "check_mode",
    "local_columns",
    "matrix_names",
    "matrix_of",
    "names_of_call",
    "names_of_dims",
    "right_side_of",
    "singular_norm",
]


class Side(Record):
    """The rows or the columns of a matrix.

    Attributes:
      names: the axis names.
      places: the sharding of each name.
      shape: the size of each name in `data`.
      size: the number of rows or columns of the global matrix.
      is_gathered: True if the side is complete in `data`, whatever its sharding.
    """

    names: tuple[AxisName, ...]
    places: tuple[MeshAxes, ...]
    shape: tuple[int, ...]
    size: int
    is_gathered: bool = False

    @property
    def axes(self) -> MeshAxes:
        """The mesh axes over which the side is sharded in `data`, major first."""
        if self.is_gathered:
            return ()
        return tuple(axis for place in self.places for axis in plain(place))

    @property
    def is_padded(self) -> bool:
        """True if blocks have padding."""
        return not self.is_gathered and any(isinstance(place, Uneven) for place in self.places)

    def index(self) -> jax.Array:
        """Return the global index of each element of this block, row-major, and -1 for padding."""
        index: jax.Array = jnp.zeros((), jnp.int32)
        for n, place in zip(self.shape, () if self.is_gathered else self.places, strict=False):
            here = jnp.arange(n)
            size, is_element = n, jnp.ones(n, bool)
            if place:
                here = here + comm.block_index(plain(place)) * n
                size = math.prod(map(lax.axis_size, place)) * n
                if isinstance(place, Uneven):
                    size, is_element = place.size, is_real((n,), 0, place)
            index = index[..., None]
            index = jnp.where((index >= 0) & is_element, index * size + here, -1)
        return index.reshape(-1)


class Matrix(Record):
    """Matrices on one device.

    Attributes:
      op: the operation, for messages.
      data: the data, with the dims of the batch, of the rows and of the columns in this order.
        Padding of rows and columns is 0.
      batch: the dims of the batch.
      rows: the rows.
      columns: the columns.
      dtype: the dtype of the results.
    """

    op: str
    data: jax.Array
    batch: Dims
    rows: Side
    columns: Side
    dtype: DType

    @property
    def is_wide(self) -> bool:
        """True if the matrix has more columns than rows."""
        return self.rows.size < self.columns.size

    def complete(self, rows: bool = False, columns: bool = False) -> Matrix:
        """Gather the rows, the columns or both, over the mesh axes that shard them."""
        data, dim = self.data, len(self.batch)
        sides = {"rows": self.rows, "columns": self.columns}
        for (key, side), wanted in zip(sides.items(), (rows, columns), strict=True):
            for place in side.places:
                if wanted and place and not side.is_gathered:
                    data = comm.all_gather(data, dim, place, "invarying")
                dim += 1
            if wanted:
                shape = data.shape[dim - len(side.names) : dim]
                sides[key] = side.replace(shape=shape, is_gathered=True)
        return self.replace(data=data, **sides)

    def flat(self) -> jax.Array:
        """Return the data as `(..., rows, columns)`."""
        batch = self.data.shape[: len(self.batch)]
        rows, columns = (math.prod(side.shape) for side in (self.rows, self.columns))
        return self.data.reshape(*batch, rows, columns)

    @property
    def long(self) -> Side:
        """The longer side, the rows of a square matrix."""
        return self.columns if self.is_wide else self.rows

    def with_short_side(self) -> Matrix:
        """Gather the shorter side, so that every device has complete short vectors."""
        return self.complete(rows=self.is_wide, columns=not self.is_wide)

    def tall(self) -> jax.Array:
        """Return the data as `(..., long, short)`; wide matrices are transposed."""
        data = self.flat()
        return tall.adjoint(data) if self.is_wide else data

    @property
    def real_dtype(self) -> DType:
        """The dtype of singular values and eigenvalues."""
        return jnp.finfo(self.dtype).dtype

    def result(
        self, data: jax.Array, *sides: Side | AxisName, dtype: DType | None = None
    ) -> AnyArray:
        """Return `data`, with the batch and then a dimension for each side, by name.

        A side is the rows, the columns, or the name of a new axis. If data has all of a sharded
        axis, it is sliced.
        """
        batch = data.shape[: len(self.batch)]
        region, dims, shape = ambient(), list(self.batch), list(batch)
        cuts: list[tuple[int, MeshAxes]] = []
        fills: list[tuple[int, MeshAxes]] = []
        renamed: dict[Hashable, Hashable] = {}
        for side, n in zip(sides, data.shape[len(batch) :], strict=True):
            if not isinstance(side, Side):
                if region is not None and region.resources.get(side):
                    renamed[own := _Own(side)] = side
                    side = own
                dims.append(side)
                shape.append(n)
                continue
            for name, place, block in zip(side.names, side.places, side.shape, strict=True):
                if place and side.is_gathered:
                    cuts.append((len(dims), place))
                elif isinstance(place, Uneven):
                    fills.append((len(dims), place))
                dims.append(name)
                shape.append(block)
        data = data.reshape(shape).astype(self.dtype if dtype is None else dtype)
        for dim, place in cuts:
            data = comm.cut(data, dim, place)
        for dim, place in fills:
            data = refilled(data, dim, place)
        done = make_result(data, tuple(dims))
        return rename(done, renamed) if renamed else done


class _Own(Record):
    """The name of a new axis before it is sharded."""

    name: AxisName

    def __repr__(self) -> str:
        return repr(self.name)


def names_of_call(
    x: ArrayLike, rows: AxisSpec, columns: AxisSpec, *_: object, **__: object
) -> list[Hashable]:
    """Return the axis names of a call with a matrix, its rows and its columns."""
    return [*entries_of(rows), *entries_of(columns)]


def matrix_names(
    op: str, x: ArrayLike, rows: AxisSpec, columns: AxisSpec
) -> tuple[tuple[AxisName, ...], tuple[AxisName, ...]]:
    """Return the names of the rows and of the columns of an array.

    Raises:
      AxisNameError: one of them is no name, or a name occurs twice.
      AxisNotFoundError: the array lacks a name.
    """
    names = names_of_dims(x)
    sides = entries_of(rows), entries_of(columns)
    for word, given, side in zip(("rows", "columns"), (rows, columns), sides, strict=True):
        if not side or not all(map(is_name, side)):
            options = f", chosen from {show_names(names)}" if names else ""
            raise AxisNameError(
                f"{op}: {word}={format_value(given)} must be an axis name of {type_text(x)} or a"
                f" tuple of axis names{options}. Positional axes get names by nx.named(x, [...])."
            )
    both = [*sides[0], *sides[1]]
    for name in both:
        if name not in names:
            raise_not_found(op, name, type_text(x), names)
    if twice := [name for name in both if both.count(name) > 1]:
        raise AxisNameError(
            f"{op}: axis {twice[0]!r} of {type_text(x)} is given twice, in"
            f" rows={format_value(rows)} and columns={format_value(columns)}. Rows and columns are"
            " different axes; rename one side of a symmetric array: nx.rename(x, {old: new})."
        )
    return sides


def names_of_dims(x: ArrayLike) -> list[AxisName]:
    """Return the axis names of an array."""
    return [dim for dim in dims_of(x) if dim is not None]


def check_mode(op: str, mode: AxisName, taken: Sequence[AxisName], parameter: str = "mode") -> None:
    """Raise if the name of a new axis is no name, or is the name of another axis of the result.

    Raises:
      AxisNameError: it is.
    """
    if not is_name(mode):
        raise AxisNameError(
            f"{op}: {parameter}={format_value(mode)} must be the name of a new axis, such as"
            f" {parameter}='mode'."
        )
    check_name(mode, op)
    if mode in taken:
        raise AxisNameError(
            f"{op}: {parameter}={format_value(mode)} names the new axis, and the result has another"
            f" axis of this name; the axes are {show_names(taken)}. Pass another name:"
            f" {parameter}='mode2'."
        )


def matrix_of(
    op: str, x: ArrayLike, rows: AxisSpec, columns: AxisSpec, is_square: bool = False
) -> Matrix:
    """Return the matrices of an array in the ambient region.

    Raises:
      AxisNameError: rows or columns are no names, or a name occurs twice.
      AxisNotFoundError: the array lacks a name.
      AxisSizeError: a side has no elements, or with `is_square` the sides differ.
      ArgumentTypeError: the elements are no numbers.
    """
    x = as_array(x, op)
    sides = matrix_names(op, x, rows, columns)
    assert isinstance(x, NamedArray)
    if jnp.issubdtype(x.dtype, jax.dtypes.extended):
        raise ArgumentTypeError(f"{op}: {type_text(x)} has random keys, not numbers.")
    region = ambient()
    block = to_local(as_inexact(x), op, region)
    data, dims = block._data, block._dims
    if region is None and isinstance(data, jax.core.Tracer) and (variance := varying(data)):
        for name in (*sides[0], *sides[1]):
            check_region_lives(op, name, variance)
    batch = [i for i, dim in enumerate(dims) if dim is None or dim not in (*sides[0], *sides[1])]
    groups = [[dims.index(name) for name in side] for side in sides]
    matrix = _arranged(op, data, dims, batch, groups)
    _check_sizes(matrix, x, is_square)
    return matrix


def right_side_of(matrix: Matrix, b: NamedArray) -> Matrix:
    """Return a right-hand side of linear systems as matrices, with its other axes as columns.

    The batch is that of the matrix, with size 1 where `b` lacks a name.
    """
    block = to_local(b, matrix.op, ambient())
    data, dims = block._data, block._dims
    missing = tuple(dim for dim in matrix.batch if dim not in dims)
    data, dims = lax.expand_dims(data, range(len(missing))), (*missing, *dims)
    groups = matrix.batch, matrix.rows.names
    batch, rows = ([dims.index(name) for name in group] for group in groups)
    rest = [i for i in range(len(dims)) if i not in (*batch, *rows)]
    return _arranged(matrix.op, data, dims, batch, [rows, rest])


def _arranged(
    op: str, data: jax.Array, dims: Dims, batch: Sequence[int], groups: Sequence[Sequence[int]]
) -> Matrix:
    """Return matrices with these dimensions as batch, rows and columns."""
    region, dtype = ambient(), data.dtype
    if jnp.finfo(dtype).bits < 32:  # LAPACK has no narrower types
        data = data.astype(jnp.float32)
    data = lax.transpose(data, [*batch, *groups[0], *groups[1]])
    found, dim = [], len(batch)
    for group in groups:
        names = tuple(dims[i] for i in group)
        places: list[MeshAxes] = []
        size = 1
        for name in names:
            place = region.place(name) if region is not None and region.manual else ()
            n = data.shape[dim]
            size *= n if region is None or name is None else region.global_size(name, n)
            data = masked(data, dim, place, 0)
            places.append(place)
            dim += 1
        shape = data.shape[dim - len(group) : dim]
        found.append(Side(names, tuple(places), shape, size))
    rows, columns = found
    return Matrix(op, data, tuple(dims[i] for i in batch), rows, columns, dtype)


def _check_sizes(matrix: Matrix, x: AnyArray, is_square: bool) -> None:
    rows, columns = matrix.rows, matrix.columns
    if not (rows.size and columns.size):
        raise AxisSizeError(
            f"{matrix.op}: {type_text(x)} has {rows.size} rows ({show_names(rows.names)}) and"
            f" {columns.size} columns ({show_names(columns.names)}); a matrix needs at least one"
            " row and one column. Select elements along another axis, or skip empty arrays."
        )
    if is_square and rows.size != columns.size:
        remedy = " nx.linalg.lstsq solves others." if matrix.op == "linalg.solve" else ""
        remedy = remedy or " nx.linalg.svd and nx.linalg.qr factor others."
        raise AxisSizeError(
            f"{matrix.op}: {type_text(x)} has {rows.size} rows ({show_names(rows.names)}) and"
            f" {columns.size} columns ({show_names(columns.names)}); the matrix must be"
            f" square.{remedy}"
        )


def local_columns(matrix: Matrix, count: int) -> jax.Array:
    """Return the first `count` columns of matrices with complete rows, on all devices.

    Communication: if the columns are sharded, one all-reduce of these columns.
    """
    data, side = matrix.flat(), matrix.columns
    if not side.axes:
        return data[..., :count]
    wanted = side.index() == jnp.arange(count)[:, None]
    has = jnp.any(wanted, -1)
    own = jnp.take(data, jnp.argmax(wanted, -1), axis=-1)
    return comm.psum(comm.only_where(jnp.broadcast_to(has, own.shape), own), side.axes)


def singular_norm(matrix: Matrix, ord: float | str | None) -> AnyArray:
    """Return the largest (2), the smallest (-2), or the sum of the singular values (`"nuc"`)."""
    matrix = matrix.with_short_side()
    s = tall.singular_values(matrix.long.axes, matrix.long.is_padded)(matrix.tall())
    data = s[..., 0] if ord == 2 else s[..., -1] if ord == -2 else jnp.sum(s, -1)
    return matrix.result(data, dtype=matrix.real_dtype)
