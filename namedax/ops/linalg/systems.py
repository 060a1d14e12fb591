"""Linear systems and functions of matrices: `solve`, `lstsq`, `pinv`, `cholesky`, `det`, `norm`."""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import NamedTuple

import jax.numpy as jnp

from namedax.core.annotations import AnyArray, ArrayLike, AxisSpec
from namedax.core.array import NamedArray, as_array
from namedax.core.display import type_text
from namedax.core.element_types import as_inexact
from namedax.core.names import AxisName
from namedax.core.variance import cast_alike
from namedax.errors import (
    ArgumentError,
    AxisNameError,
    PositionalAxisError,
    format_value,
    raise_not_found,
)
from namedax.ops.contraction.einsum import dot
from namedax.ops.elementwise import FUNCTIONS
from namedax.ops.linalg import tall
from namedax.ops.linalg.factors import masked_elements
from namedax.ops.linalg.matrix import (
    Matrix,
    check_mode,
    matrix_names,
    matrix_of,
    names_of_call,
    names_of_dims,
    right_side_of,
    singular_norm,
)
from namedax.ops.operands.along_axes import entries_of
from namedax.ops.operands.operation import operation
from namedax.ops.reduction.extrema import max as largest
from namedax.ops.reduction.extrema import min as smallest
from namedax.ops.reduction.reductions import REDUCTIONS
from namedax.ops.statistics.compositions import vector_norm

__all__ = ["LstsqResult", "cholesky", "det", "lstsq", "norm", "pinv", "solve"]


class LstsqResult(NamedTuple):
    """A least-squares solution.

    Attributes:
      solution: the solution of least norm, with the columns of `a` and the other axes of `b`.
      residuals: the sums of the squared residuals, with the other axes of `b`.
      rank: the rank of `a`.
      singular_values: the singular values of `a` in descending order, with the axis of the modes.
    """

    solution: AnyArray
    residuals: AnyArray
    rank: AnyArray
    singular_values: AnyArray


def _names_of_system(
    a: ArrayLike, b: ArrayLike, rows: AxisSpec, columns: AxisSpec, **_: object
) -> list[Hashable]:
    return [*entries_of(rows), *entries_of(columns)]


def _pseudoinverse(
    matrix: Matrix, rtol: ArrayLike | None, mode: AxisName
) -> tuple[AnyArray, AnyArray, AnyArray]:
    """Return the named pseudoinverse, the singular values, and the rank."""
    matrix = matrix.with_short_side()
    data = matrix.tall()
    sizes = (matrix.rows.size, matrix.columns.size)
    dtype = jnp.finfo(data.dtype).dtype
    ratio = jnp.asarray(10 * max(sizes) * jnp.finfo(dtype).eps if rtol is None else rtol, dtype)
    ratio = jnp.broadcast_to(ratio, data.shape[:-2])
    inverse, s = tall.pinv(matrix.long.axes, matrix.long.is_padded)(data, ratio)
    if matrix.is_wide:
        inverse = tall.adjoint(inverse)
    rank = jnp.sum(s > ratio[..., None] * s[..., :1], -1)
    return (
        matrix.result(inverse, matrix.columns, matrix.rows),
        matrix.result(s, mode, dtype=matrix.real_dtype),
        matrix.result(rank, dtype=rank.dtype),
    )


def _check_ratio(op: str, rtol: ArrayLike | None) -> None:
    if rtol is not None and jnp.ndim(getattr(rtol, "data", rtol)):
        raise ArgumentError(
            f"{op}: rtol must be a number, got {type_text(rtol)}. Call {op} for each value."
        )


@operation(names_of_call, name="linalg.pinv", on_blocks=True, scope=True)
def pinv(
    x: ArrayLike,
    rows: AxisSpec,
    columns: AxisSpec,
    *,
    rtol: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> AnyArray:
    """Compute the pseudoinverse of a matrix.

    Args:
      x: an array with named axes. All axes but the rows and the columns are batch axes.
      rows: the axis name of the rows, or a tuple of names, which count as one axis.
      columns: the axis name of the columns, or a tuple of names.
      rtol: singular values up to `rtol` times the largest one count as 0. By default ten times the
        larger number of rows or columns, times the precision of the dtype.
      where: a mask with axes of `x`. Elements where it is False count as 0; by default all elements
        count as they are.

    Returns:
      An array with the axes of `x`. Gradients are those of `jnp.linalg.pinv`, which assume that the
      rank does not change.

    Communication: if the longer side is sharded, one all-gather of triangular factors with the
    square of the shorter side, one for each device, and two all-reduces of such matrices in the
    gradient. `x` is not gathered. If the shorter side is sharded, it is gathered.

    Raises:
      AxisNameError: `rows` or `columns` is no name, or they are equal.
      AxisNotFoundError: `x` lacks an axis.
      AxisSizeError: an axis has no elements.
      ArgumentError: `rtol` is not a number.

    >>> import jax.numpy as jnp, namedax as nx
    >>> x = nx.named(jnp.array([[2.0, 0.0], [0.0, 4.0], [0.0, 0.0]]), ["time", "k"])
    >>> nx.positional(nx.linalg.pinv(x, "time", "k"), ["k", "time"]).tolist()
    [[0.5, 0.0, 0.0], [0.0, 0.25, 0.0]]
    """
    op = "linalg.pinv"
    matrix_names(op, x, rows, columns)
    _check_ratio(op, rtol)
    matrix = matrix_of(op, masked_elements(op, x, where), rows, columns)
    return _pseudoinverse(matrix, rtol, "mode")[0]


def _check_right_side(
    op: str, a: NamedArray, b: ArrayLike, rows: tuple[AxisName, ...], columns: tuple[AxisName, ...]
) -> NamedArray:
    """Return the right-hand side of a system as an array of floats.

    Raises:
      AxisNotFoundError: it lacks the rows.
      AxisNameError: it has the columns.
      PositionalAxisError: the matrix has positional axes.
    """
    if a.ndim:
        raise PositionalAxisError(
            f"{op}: {type_text(a)} has {a.ndim} positional axes. Batch axes of a matrix need names:"
            " nx.named(a, ['batch', ...])."
        )
    b = as_array(b, op)
    names = names_of_dims(b)
    for name in rows:
        if name not in names:
            raise_not_found(op, name, type_text(b), names)
    if both := [name for name in columns if name in names]:
        raise AxisNameError(
            f"{op}: the right-hand side {type_text(b)} has the axis {both[0]!r}, which is a column"
            " of the matrix and becomes an axis of the solution. Rename it first: nx.rename(b,"
            f" {{{both[0]!r}: 'other'}})."
        )
    assert isinstance(b, NamedArray)
    return as_inexact(b)


@operation(_names_of_system, name="linalg.lstsq", on_blocks=True, scope=True)
def lstsq(
    a: ArrayLike,
    b: ArrayLike,
    rows: AxisSpec,
    columns: AxisSpec,
    *,
    rtol: ArrayLike | None = None,
    mode: AxisName = "mode",
) -> LstsqResult:
    """Solve `a x = b` in the least-squares sense, for `x` of least norm.

    Args:
      a: an array with the rows and the columns. Its other axes are batch axes.
      b: an array with the rows. Its other axes are batch axes if `a` has them, and otherwise axes
        of right-hand sides.
      rows: the axis name of the rows, or a tuple of names, which count as one axis.
      columns: the axis name of the columns, or a tuple of names.
      rtol: singular values up to `rtol` times the largest one count as 0. By default ten times the
        larger number of rows or columns, times the precision of the dtype.
      mode: the name of the axis of the singular values; by default `"mode"`.

    Returns:
      The solution, the sums of squared residuals, the rank and the singular values. Gradients of
      the solution are those of `nx.linalg.pinv`.

    Communication: that of `nx.linalg.pinv` for `a`, and over sharded rows one all-reduce of the
    solution and one of the residuals.

    Raises:
      AxisNameError: a name is no name, is given twice, or `b` has the columns.
      AxisNotFoundError: `a` or `b` lacks an axis.
      AxisSizeError: an axis has no elements.
      PositionalAxisError: `a` has positional axes.
      ArgumentError: `rtol` is not a number.

    >>> import jax.numpy as jnp, namedax as nx
    >>> a = nx.named(jnp.array([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]]), ["time", "k"])
    >>> b = nx.named(jnp.array([1.0, 3.0, 5.0]), ["time"])
    >>> nx.linalg.lstsq(a, b, "time", "k").solution.data.round(4)
    Array([1., 2.], dtype=float32)
    """
    op = "linalg.lstsq"
    names = matrix_names(op, a, rows, columns)
    check_mode(op, mode, [name for name in names_of_dims(a) if name not in sum(names, ())])
    _check_ratio(op, rtol)
    assert isinstance(a, NamedArray)
    b = _check_right_side(op, a, b, *names)
    inverse, s, rank = _pseudoinverse(matrix_of(op, a, rows, columns), rtol, mode)
    solution = dot(inverse, b, names[0], precision="highest")
    rest = b - dot(a, solution, names[1], precision="highest")
    squares = FUNCTIONS["real"](rest * FUNCTIONS["conj"](rest))
    return LstsqResult(solution, REDUCTIONS["sum"](squares, names[0]), rank, s)


@operation(_names_of_system, name="linalg.solve", on_blocks=True, scope=True)
def solve(a: ArrayLike, b: ArrayLike, rows: AxisSpec, columns: AxisSpec) -> AnyArray:
    """Solve the linear system `a x = b` with a square matrix.

    Args:
      a: an array with the rows and the columns. Its other axes are batch axes.
      b: an array with the rows. Its other axes are batch axes if `a` has them, and otherwise axes
        of right-hand sides.
      rows: the axis name of the rows, or a tuple of names, which count as one axis.
      columns: the axis name of the columns, or a tuple of names, of the same size.

    Returns:
      The solution, with the columns in place of the rows of `b`. Gradients are those of
      `jnp.linalg.solve`.

    Communication: a sharded side of `a` and sharded rows of `b` are gathered, one all-gather each,
    and every device factors the matrix. Batch axes and axes of right-hand sides stay sharded. For
    a large matrix that is applied as a function, use `nx.scipy.sparse.linalg.cg`.

    Raises:
      AxisNameError: a name is no name, is given twice, or `b` has the columns.
      AxisNotFoundError: `a` or `b` lacks an axis.
      AxisSizeError: the matrix is not square.
      PositionalAxisError: `a` has positional axes.

    >>> import jax.numpy as jnp, namedax as nx
    >>> a = nx.named(jnp.array([[2.0, 0.0], [1.0, 1.0]]), ["k", "j"])
    >>> b = nx.named(jnp.array([4.0, 5.0]), ["k"])
    >>> x = nx.linalg.solve(a, b, "k", "j")
    >>> x.dims, x.data.tolist()
    (('j',), [2.0, 3.0])
    """
    op = "linalg.solve"
    names = matrix_names(op, a, rows, columns)
    assert isinstance(a, NamedArray)
    b = _check_right_side(op, a, b, *names)
    dtype = jnp.promote_types(as_inexact(a).dtype, b.dtype)
    matrix = matrix_of(op, a.astype(dtype), rows, columns, is_square=True)
    matrix = matrix.complete(rows=True, columns=True)
    right = right_side_of(matrix, b.astype(dtype)).complete(rows=True)
    x = jnp.linalg.solve(*cast_alike([matrix.flat(), right.flat()]))
    return right.result(x, matrix.columns, right.columns)


@operation(names_of_call, name="linalg.cholesky", on_blocks=True, scope=True)
def cholesky(x: ArrayLike, rows: AxisSpec, columns: AxisSpec) -> AnyArray:
    """Compute the lower Cholesky factor of a positive definite matrix.

    Args:
      x: an array with named axes. All axes but the rows and the columns are batch axes. The matrix
        is symmetrized first, as in `jnp.linalg.cholesky`.
      rows: the axis name of the rows, or a tuple of names, which count as one axis.
      columns: the axis name of the columns, or a tuple of names, of the same size.

    Returns:
      A lower triangular array with the axes of `x`; NaN if the matrix is not positive definite.
      Gradients are those of `jnp.linalg.cholesky`.

    Communication: a sharded side is gathered (one all-gather of the matrix).

    Raises:
      AxisNameError: `rows` or `columns` is no name, or they are equal.
      AxisNotFoundError: `x` lacks an axis.
      AxisSizeError: the matrix is not square.

    >>> import jax.numpy as jnp, namedax as nx
    >>> x = nx.named(jnp.array([[4.0, 2.0], [2.0, 5.0]]), ["k", "k2"])
    >>> nx.linalg.cholesky(x, "k", "k2").data.tolist()
    [[2.0, 0.0], [1.0, 2.0]]
    """
    op = "linalg.cholesky"
    matrix = matrix_of(op, x, rows, columns, is_square=True).complete(rows=True, columns=True)
    return matrix.result(jnp.linalg.cholesky(matrix.flat()), matrix.rows, matrix.columns)


@operation(names_of_call, name="linalg.det", on_blocks=True, scope=True)
def det(x: ArrayLike, rows: AxisSpec, columns: AxisSpec) -> AnyArray:
    """Compute the determinant of a square matrix.

    Args:
      x: an array with named axes. All axes but the rows and the columns are batch axes.
      rows: the axis name of the rows, or a tuple of names, which count as one axis.
      columns: the axis name of the columns, or a tuple of names, of the same size.

    Returns:
      An array with the batch axes. Gradients are those of `jnp.linalg.det`.

    Communication: a sharded side is gathered (one all-gather of the matrix).

    Raises:
      AxisNameError: `rows` or `columns` is no name, or they are equal.
      AxisNotFoundError: `x` lacks an axis.
      AxisSizeError: the matrix is not square.

    >>> import jax.numpy as jnp, namedax as nx
    >>> x = nx.named(jnp.array([[2.0, 1.0], [0.0, 3.0]]), ["k", "k2"])
    >>> float(nx.linalg.det(x, "k", "k2"))
    6.0
    """
    op = "linalg.det"
    matrix = matrix_of(op, x, rows, columns, is_square=True).complete(rows=True, columns=True)
    return matrix.result(jnp.linalg.det(matrix.flat()))


@operation(names_of_call, name="linalg.norm", on_blocks=True, scope=True)
def norm(
    x: ArrayLike, rows: AxisSpec, columns: AxisSpec, *, ord: float | str | None = None
) -> AnyArray:
    """Compute the norm of a matrix.

    `nx.norm` computes norms of vectors too.

    Args:
      x: an array with named axes. All axes but the rows and the columns are batch axes.
      rows: the axis name of the rows, or a tuple of names, which count as one axis.
      columns: the axis name of the columns, or a tuple of names.
      ord: `"fro"`, `"nuc"`, 1, -1, 2, -2, inf or -inf, as in `jnp.linalg.norm`. By default the
        Frobenius norm.

    Returns:
      An array with the batch axes.

    Communication: over sharded axes, one all-reduce of a sum, maximum or minimum for each side. The
    orders 2, -2 and `"nuc"` need the singular values: the communication is that of `nx.linalg.svd`.

    Raises:
      AxisNameError: `rows` or `columns` is no name, or they are equal.
      AxisNotFoundError: `x` lacks an axis.
      AxisSizeError: an axis has no elements.
      ArgumentError: `ord` is not an order of a matrix norm.

    >>> import jax.numpy as jnp, namedax as nx
    >>> x = nx.named(jnp.array([[3.0, 0.0], [0.0, 4.0]]), ["time", "k"])
    >>> float(nx.linalg.norm(x, "time", "k")), float(nx.linalg.norm(x, "time", "k", ord=2))
    (5.0, 4.0)
    """
    op = "linalg.norm"
    names = matrix_names(op, x, rows, columns)
    matrix = matrix_of(op, x, rows, columns)
    if ord in (None, "fro", "f"):
        return vector_norm(x, axis=(*names[0], *names[1]))
    if ord in (1, -1, math.inf, -math.inf):
        inner, outer = names if ord in (1, -1) else names[::-1]
        sums = REDUCTIONS["sum"](FUNCTIONS["abs"](as_inexact(as_array(x, op))), inner)
        return (largest if ord > 0 else smallest)(sums, outer)
    if ord not in (2, -2, "nuc"):
        raise ArgumentError(
            f"{op}: ord={format_value(ord)} must be 'fro', 'nuc', 1, -1, 2, -2, inf or -inf."
        )
    return singular_norm(matrix, ord)
