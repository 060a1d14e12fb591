"""The named factors of matrices, for all decompositions."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from namedax.core.annotations import AnyArray, ArrayLike
from namedax.core.array import dims_of
from namedax.core.display import type_text
from namedax.core.names import AxisName
from namedax.errors import ArgumentError, AxisNotFoundError, format_value, show_names
from namedax.ops.linalg import tall
from namedax.ops.linalg.matrix import Matrix, local_columns
from namedax.ops.sorting.selection import where as select

__all__ = ["check_modes", "masked_elements", "qr_of", "svd_of"]


def masked_elements(op: str, x: ArrayLike, where: ArrayLike | None) -> ArrayLike:
    """Return an array with zeros where the mask is False.

    Raises:
      AxisNotFoundError: the mask has an axis that the array lacks.
    """
    if where is None:
        return x
    more = [dim for dim in dims_of(where) if dim is not None and dim not in dims_of(x)]
    if more:
        raise AxisNotFoundError(
            f"{op}: where= is {type_text(where)}, and {type_text(x)} lacks its axes"
            f" {show_names(more)}. A mask has axes of the array only."
        )
    return select(where, x, 0)


def check_modes(op: str, modes: int | None, rank: int) -> int:
    """Return the number of modes, which is the rank by default.

    Raises:
      ArgumentError: it is not an integer from 1 to the rank.
    """
    if modes is None:
        return rank
    if isinstance(modes, bool) or not isinstance(modes, int) or not 1 <= modes <= rank:
        raise ArgumentError(
            f"{op}: modes={format_value(modes)} must be an integer from 1 to {rank}, the smaller"
            " one of the numbers of rows and columns."
        )
    return modes


def svd_of(matrix: Matrix, mode: AxisName, count: int) -> tuple[AnyArray, AnyArray, AnyArray]:
    """Return the `count` leading named singular vectors and values of matrices."""
    matrix = matrix.with_short_side()
    u, s, vh = tall.svd(matrix.long.axes, matrix.long.is_padded)(matrix.tall())
    u, s, vh = u[..., :count], s[..., :count], vh[..., :count, :]
    if matrix.is_wide:
        u, vh = tall.adjoint(vh), tall.adjoint(u)
    return (
        matrix.result(u, matrix.rows, mode),
        matrix.result(s, mode, dtype=matrix.real_dtype),
        matrix.result(vh, mode, matrix.columns),
    )


def qr_of(matrix: Matrix, mode: AxisName) -> tuple[AnyArray, AnyArray]:
    """Return the named QR factors of matrices.

    If there are more columns than rows, the first columns, as many as there are rows, determine
    `q`.
    """
    matrix = matrix.with_short_side()
    if matrix.is_wide:
        q, _ = tall.qr()(local_columns(matrix, matrix.rows.size))
        r = tall.matmul(tall.adjoint(q), matrix.flat())
        r = _upper(r, matrix)
    else:
        q, r = tall.qr(matrix.rows.axes, matrix.rows.is_padded)(matrix.flat())
    return matrix.result(q, matrix.rows, mode), matrix.result(r, mode, matrix.columns)


def _upper(r: jax.Array, matrix: Matrix) -> jax.Array:
    """Return the upper triangle of the blocks of a wide matrix."""
    columns, rows = matrix.columns.index(), jnp.arange(matrix.rows.size)[:, None]
    return jnp.where((columns < rows) & (columns >= 0), 0, r)
