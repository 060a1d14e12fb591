"""The leading modes of large matrices by a randomized range finder (Halko, Martinsson and Tropp).

The matrix is multiplied by a few random vectors, and by its adjoint and itself in each power
iteration. These products are sums over sharded axes, so neither side of the matrix is gathered,
even if both are sharded.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp

from namedax.core.annotations import AnyArray, ArrayLike
from namedax.core.array import NamedArray
from namedax.core.names import AxisName
from namedax.core.records import Record
from namedax.errors import ArgumentError, format_value
from namedax.ops.contraction.einsum import dot
from namedax.ops.elementwise import FUNCTIONS
from namedax.ops.linalg.factors import qr_of, svd_of
from namedax.ops.linalg.matrix import matrix_of
from namedax.ops.random.drawing import named_version
from namedax.ops.shape.rename import rename

__all__ = ["randomized_svd"]

_OP = "linalg.svd"
_conj = FUNCTIONS["conj"]
_normal = named_version(jax.random.normal, "normal")


class _Sketch(Record):
    """The name of the axis of the random vectors."""

    number: int = 0

    def __repr__(self) -> str:
        return "'sketch'"


def randomized_svd(
    x: NamedArray,
    names: tuple[tuple[AxisName, ...], tuple[AxisName, ...]],
    mode: AxisName,
    modes: int,
    key: ArrayLike,
    oversampling: int,
    iterations: int,
) -> tuple[AnyArray, AnyArray, AnyArray]:
    """Return the `modes` leading modes of a matrix; the arguments are those of `svd`.

    Raises:
      ArgumentError: `oversampling` or `iterations` is not a count.
    """
    for word, count in (("oversampling", oversampling), ("iterations", iterations)):
        if isinstance(count, bool) or not isinstance(count, int) or count < 0:
            raise ArgumentError(
                f"{_OP}: {word}={format_value(count)} must be an integer that is not negative."
            )
    rows, columns = names
    sizes = {name: x.named_shape[name] for name in (*rows, *columns)}
    rank = min(math.prod(sizes[name] for name in side) for side in names)
    count = min(modes + oversampling, rank)
    sketch, other = _Sketch(0), _Sketch(1)
    dtype = x.dtype if jnp.finfo(x.dtype).bits >= 32 else jnp.float32
    x = x.astype(dtype)
    seeds = {name: sizes[name] for name in columns} | {sketch: count}
    vectors = _normal(key, dtype=dtype, named_shape=seeds)
    basis = _basis(_product(x, vectors, columns), rows, sketch, other)
    for _ in range(iterations):
        vectors = _basis(_product(_conj(x), basis, rows), columns, sketch, other)
        basis = _basis(_product(x, _conj(vectors), columns), rows, sketch, other)
    small = _product(_conj(basis), x, rows)
    matrix = matrix_of(_OP, small, (sketch,), columns)
    u, s, vh = svd_of(matrix, mode, modes)
    return _product(basis, u, (sketch,)), s, vh


def _product(x: AnyArray, y: AnyArray, names: tuple[AxisName, ...]) -> AnyArray:
    return dot(x, y, names, precision="highest")


def _basis(x: AnyArray, names: tuple[AxisName, ...], axis: AxisName, other: AxisName) -> AnyArray:
    """Return an orthonormal basis of the vectors, along the same axis."""
    q, _ = qr_of(matrix_of(_OP, x, names, (axis,)), other)
    return rename(q, {other: axis})
