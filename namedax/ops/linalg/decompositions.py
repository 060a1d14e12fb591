"""Decompositions of matrices with named rows and columns: `svd`, `qr`, `eigh`."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp

from namedax.core.annotations import AnyArray, ArrayLike, AxisSpec
from namedax.core.array import NamedArray, as_array
from namedax.core.element_types import as_inexact
from namedax.core.names import AxisName
from namedax.errors import ArgumentError
from namedax.ops.linalg import tall
from namedax.ops.linalg.factors import check_modes, masked_elements, qr_of, svd_of
from namedax.ops.linalg.matrix import (
    check_mode,
    matrix_names,
    matrix_of,
    names_of_call,
    names_of_dims,
)
from namedax.ops.linalg.randomized import randomized_svd
from namedax.ops.operands.operation import operation

__all__ = ["EighResult", "QRResult", "SVDResult", "eigh", "qr", "svd"]


class SVDResult(NamedTuple):
    """A singular value decomposition, `x = U S Vh`.

    Attributes:
      U: the left singular vectors, with the rows of `x` and the axis of the modes.
      S: the singular values in descending order, with the axis of the modes.
      Vh: the conjugates of the right singular vectors, with the axis of the modes and the columns
        of `x`.
    """

    U: AnyArray
    S: AnyArray
    Vh: AnyArray


class QRResult(NamedTuple):
    """A QR factorization, `x = Q R`.

    Attributes:
      Q: orthonormal vectors, with the rows of `x` and the axis of the modes.
      R: the coefficients, with the axis of the modes and the columns of `x`. It is upper
        triangular, and its diagonal is not negative.
    """

    Q: AnyArray
    R: AnyArray


class EighResult(NamedTuple):
    """Eigenvalues and eigenvectors of a Hermitian matrix.

    Attributes:
      eigenvalues: the eigenvalues in ascending order, with the axis of the modes.
      eigenvectors: the eigenvectors, with the rows of the matrix and the axis of the modes.
    """

    eigenvalues: AnyArray
    eigenvectors: AnyArray


@operation(names_of_call, name="linalg.svd", on_blocks=True, scope=True)
def svd(
    x: ArrayLike,
    rows: AxisSpec,
    columns: AxisSpec,
    *,
    mode: AxisName = "mode",
    modes: int | None = None,
    where: ArrayLike | None = None,
    key: ArrayLike | None = None,
    oversampling: int = 10,
    iterations: int = 4,
) -> SVDResult:
    """Decompose a matrix into singular values and singular vectors.

    Args:
      x: an array with named axes. All axes but the rows and the columns are batch axes.
      rows: the axis name of the rows, or a tuple of names, which count as one axis.
      columns: the axis name of the columns, or a tuple of names.
      mode: the name of the new axis; by default `"mode"`.
      modes: the number of leading modes to return; by default all, the smaller one of the numbers
        of rows and columns.
      where: a mask with axes of `x`. Elements where it is False count as 0. Vectors of modes with a
        nonzero singular value are 0 (up to rounding) at masked rows and columns. By default all
        elements. NaN in an element that is not masked makes all results NaN.
      key: a random key. With it the `modes` leading modes are found by a randomized algorithm,
        which reads `x` a few times and is the fastest one for few modes of a large matrix. By
        default the modes are exact.
      oversampling: with `key`, the number of modes that are computed in addition; by default 10.
      iterations: with `key`, the number of power iterations; by default 4. More iterations separate
        close singular values better.

    Returns:
      `U`, `S` and `Vh`. The sign of each mode is fixed: along the shorter side, the first element
      of largest magnitude is positive. Modes of equal singular values are not unique. Gradients are
      those of `jnp.linalg.svd`. With `key` they are those of the algorithm, which needs more
      nonzero singular values than `modes + oversampling`.

    Communication: if the longer side is sharded, one all-gather of triangular factors with the
    square of the shorter side, one for each device, and one all-reduce of such a matrix in the
    gradient. `x` is not gathered. If the shorter side is sharded, it is gathered: one all-gather of
    the block of the longer side. With `key`, products with `modes + oversampling` vectors are
    summed over the sharded axes, twice in each iteration, and their triangular factors are
    gathered. If `mode` is sharded, the vectors are sliced. Outside of mapped functions, XLA's
    partitioner gathers a matrix on Auto mesh axes; on Explicit axes the communication is the same.

    Raises:
      AxisNameError: `rows`, `columns` or `mode` is no name, or two of them are equal.
      AxisNotFoundError: `x` lacks an axis.
      AxisSizeError: an axis has no elements.
      ArgumentError: `modes` is not an integer in range, or `key` is given without `modes`.

    >>> import jax.numpy as jnp, namedax as nx
    >>> x = nx.named(jnp.array([[3.0, 0.0], [0.0, 2.0], [0.0, 0.0]]), ["time", "space"])
    >>> u, s, vh = nx.linalg.svd(x, "time", "space")
    >>> u.dims, s.data.tolist(), vh.dims
    (('time', 'mode'), [3.0, 2.0], ('mode', 'space'))
    """
    op = "linalg.svd"
    names = matrix_names(op, x, rows, columns)
    check_mode(op, mode, names_of_dims(x))
    if key is not None:
        if modes is None:
            raise ArgumentError(
                f"{op}: key= selects the randomized algorithm, which needs the number of modes."
                " Pass modes=10, or leave out key= for all modes."
            )
        matrix = matrix_of(op, x, rows, columns)
        check_modes(op, modes, min(matrix.rows.size, matrix.columns.size))
        kept = masked_elements(op, as_inexact(as_array(x, op)), where)
        assert isinstance(kept, NamedArray)
        return SVDResult(*randomized_svd(kept, names, mode, modes, key, oversampling, iterations))
    matrix = matrix_of(op, masked_elements(op, x, where), rows, columns)
    count = check_modes(op, modes, min(matrix.rows.size, matrix.columns.size))
    return SVDResult(*svd_of(matrix, mode, count))


@operation(names_of_call, name="linalg.qr", on_blocks=True, scope=True)
def qr(
    x: ArrayLike,
    rows: AxisSpec,
    columns: AxisSpec,
    *,
    mode: AxisName = "mode",
    where: ArrayLike | None = None,
) -> QRResult:
    """Factor a matrix into orthonormal vectors and a triangular matrix.

    Args:
      x: an array with named axes. All axes but the rows and the columns are batch axes.
      rows: the axis name of the rows, or a tuple of names, which count as one axis.
      columns: the axis name of the columns, or a tuple of names. Their order is that of the
        triangle.
      mode: the name of the new axis; by default `"mode"`. Its size is the smaller one of the
        numbers of rows and columns.
      where: a mask with axes of `x`. Elements where it is False count as 0; by default all elements
        count as they are.

    Returns:
      `Q` and `R`. The diagonal of `R` is not negative, which makes the factors of a matrix of full
      rank unique. Gradients are those of `jnp.linalg.qr`; they need full rank, and exist for more
      columns than rows, too.

    Communication: if the rows are sharded and not fewer than the columns, one all-gather of the
    triangular factors of all devices (TSQR), and one all-reduce of a triangular factor in the
    gradient. `x` is not gathered. If there are more columns, and these are sharded, one all-reduce
    of as many columns as there are rows. If the shorter side is sharded, it is gathered.

    Raises:
      AxisNameError: `rows`, `columns` or `mode` is no name, or two of them are equal.
      AxisNotFoundError: `x` lacks an axis.
      AxisSizeError: an axis has no elements.

    >>> import jax.numpy as jnp, namedax as nx
    >>> x = nx.named(jnp.array([[3.0, 1.0], [4.0, 2.0], [0.0, 5.0]]), ["time", "space"])
    >>> q, r = nx.linalg.qr(x, "time", "space")
    >>> q.dims, r.dims, r["mode", 0].data.round(2).tolist()
    (('time', 'mode'), ('mode', 'space'), [5.0, 2.2...])
    """
    op = "linalg.qr"
    matrix_names(op, x, rows, columns)
    check_mode(op, mode, names_of_dims(x))
    return QRResult(*qr_of(matrix_of(op, masked_elements(op, x, where), rows, columns), mode))


@operation(names_of_call, name="linalg.eigh", on_blocks=True, scope=True)
def eigh(x: ArrayLike, rows: AxisSpec, columns: AxisSpec, *, mode: AxisName = "mode") -> EighResult:
    """Compute the eigenvalues and eigenvectors of a Hermitian matrix.

    Args:
      x: an array with named axes. All axes but the rows and the columns are batch axes. The matrix
        is symmetrized first, as in `jnp.linalg.eigh`.
      rows: the axis name of the rows, or a tuple of names, which count as one axis.
      columns: the axis name of the columns, or a tuple of names, of the same size.
      mode: the name of the new axis; by default `"mode"`.

    Returns:
      The eigenvalues in ascending order, and the eigenvectors with the names of the rows. The first
      element of largest magnitude of each eigenvector is positive. Gradients are those of
      `jnp.linalg.eigh`.

    Communication: a sharded side is gathered (one all-gather of the matrix), and every device
    computes all eigenvectors. For a covariance matrix, `nx.linalg.svd` or `nx.linalg.pca` of the
    data sends less and is more accurate.

    Raises:
      AxisNameError: `rows`, `columns` or `mode` is no name, or two of them are equal.
      AxisNotFoundError: `x` lacks an axis.
      AxisSizeError: the matrix is not square.

    >>> import jax.numpy as jnp, namedax as nx
    >>> x = nx.named(jnp.array([[2.0, 1.0], [1.0, 2.0]]), ["k", "k2"])
    >>> values, vectors = nx.linalg.eigh(x, "k", "k2")
    >>> values.data.round(4).tolist(), vectors.dims
    ([1.0, 3.0], ('k', 'mode'))
    """
    op = "linalg.eigh"
    names = matrix_names(op, x, rows, columns)
    check_mode(op, mode, [name for name in names_of_dims(x) if name not in names[1]])
    matrix = matrix_of(op, x, rows, columns, is_square=True).complete(rows=True, columns=True)
    values, vectors = jnp.linalg.eigh(matrix.flat())
    vectors = vectors * tall.positive_first(vectors.swapaxes(-1, -2))[..., None, :]
    return EighResult(
        matrix.result(values, mode, dtype=matrix.real_dtype),
        matrix.result(vectors, matrix.rows, mode),
    )
