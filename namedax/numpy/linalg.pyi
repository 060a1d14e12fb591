# Written by tools/stubs.py (make stubs) with JAX 0.10.2. Do not edit.
"""The namespace `nx.numpy.linalg`: `jax.numpy.linalg` for named arrays."""

from collections.abc import Sequence
from typing import NamedTuple, overload

import jax
import jax.typing

from namedax.core.annotations import AnyArray, ArrayLike, AxisSpec
from namedax.core.array import NamedArray
from namedax.core.names import DType, PyTree
from namedax.core.results import PlainArray

class _EigResult(NamedTuple):
    eigenvalues: AnyArray
    eigenvectors: AnyArray
class _EighResult(NamedTuple):
    eigenvalues: AnyArray
    eigenvectors: AnyArray
class _QRResult(NamedTuple):
    Q: AnyArray
    R: AnyArray
class _SlogdetResult(NamedTuple):
    sign: AnyArray
    logabsdet: AnyArray
class _SVDResult(NamedTuple):
    U: AnyArray
    S: AnyArray
    Vh: AnyArray
@overload
def cholesky(
    a: NamedArray, *, upper: bool = False, symmetrize_input: bool = True,
) -> NamedArray:
    """Compute the Cholesky decomposition of a matrix."""
@overload
def cholesky(
    a: PlainArray, *, upper: bool = False, symmetrize_input: bool = True,
) -> PlainArray: ...
@overload
def cholesky(
    a: jax.typing.ArrayLike, *, upper: bool = False, symmetrize_input: bool = True,
) -> jax.Array:
    """Compute the Cholesky decomposition of a matrix."""
def cond(x: ArrayLike, p: object = None) -> PyTree:
    """Compute the condition number of a matrix."""
def cross(x1: ArrayLike, x2: ArrayLike, /, *, axis: AxisSpec = -1) -> PyTree:
    """Compute the cross-product of two 3D vectors."""
@overload
def det(a: NamedArray) -> NamedArray:
    """Compute the determinant of an array."""
@overload
def det(a: PlainArray) -> PlainArray: ...
@overload
def det(a: jax.typing.ArrayLike) -> jax.Array:
    """Compute the determinant of an array."""
@overload
def diagonal(x: NamedArray, /, *, offset: int = 0) -> NamedArray:
    """Extract the diagonal of an matrix or stack of matrices."""
@overload
def diagonal(x: PlainArray, /, *, offset: int = 0) -> PlainArray: ...
@overload
def diagonal(x: jax.typing.ArrayLike, /, *, offset: int = 0) -> jax.Array:
    """Extract the diagonal of an matrix or stack of matrices."""
def eig(a: ArrayLike) -> _EigResult:
    """Compute the eigenvalues and eigenvectors of a square array."""
def eigh(a: ArrayLike, UPLO: str | None = None, symmetrize_input: bool = True) -> _EighResult:
    """Compute the eigenvalues and eigenvectors of a Hermitian matrix."""
@overload
def eigvals(a: NamedArray) -> NamedArray:
    """Compute the eigenvalues of a general matrix."""
@overload
def eigvals(a: PlainArray) -> PlainArray: ...
@overload
def eigvals(a: jax.typing.ArrayLike) -> jax.Array:
    """Compute the eigenvalues of a general matrix."""
@overload
def eigvalsh(
    a: NamedArray, UPLO: str | None = 'L', *, symmetrize_input: bool = True,
) -> NamedArray:
    """Compute the eigenvalues of a Hermitian matrix."""
@overload
def eigvalsh(
    a: PlainArray, UPLO: str | None = 'L', *, symmetrize_input: bool = True,
) -> PlainArray: ...
@overload
def eigvalsh(
    a: jax.typing.ArrayLike, UPLO: str | None = 'L', *, symmetrize_input: bool = True,
) -> jax.Array:
    """Compute the eigenvalues of a Hermitian matrix."""
@overload
def inv(a: NamedArray) -> NamedArray:
    """Return the inverse of a square matrix."""
@overload
def inv(a: PlainArray) -> PlainArray: ...
@overload
def inv(a: jax.typing.ArrayLike) -> jax.Array:
    """Return the inverse of a square matrix."""
def lstsq(
    a: ArrayLike, b: ArrayLike, rcond: float | None = None, *, numpy_resid: bool = False,
) -> tuple[AnyArray, AnyArray, AnyArray, AnyArray]:
    """Return the least-squares solution to a linear equation."""
@overload
def matmul(
    x1: NamedArray,
    x2: ArrayLike,
    /,
    *,
    precision: jax.lax.PrecisionLike = None,
    preferred_element_type: DType | None = None,
) -> NamedArray:
    """Perform a matrix multiplication."""
@overload
def matmul(
    x1: ArrayLike,
    x2: NamedArray,
    /,
    *,
    precision: jax.lax.PrecisionLike = None,
    preferred_element_type: DType | None = None,
) -> NamedArray: ...
@overload
def matmul(
    x1: PlainArray,
    x2: jax.typing.ArrayLike,
    /,
    *,
    precision: jax.lax.PrecisionLike = None,
    preferred_element_type: DType | None = None,
) -> PlainArray: ...
@overload
def matmul(
    x1: jax.typing.ArrayLike,
    x2: jax.typing.ArrayLike,
    /,
    *,
    precision: jax.lax.PrecisionLike = None,
    preferred_element_type: DType | None = None,
) -> jax.Array:
    """Perform a matrix multiplication."""
@overload
def matrix_norm(
    x: NamedArray, /, *, keepdims: bool = False, ord: str | int = 'fro',
) -> NamedArray:
    """Compute the norm of a matrix or stack of matrices."""
@overload
def matrix_norm(
    x: PlainArray, /, *, keepdims: bool = False, ord: str | int = 'fro',
) -> PlainArray: ...
@overload
def matrix_norm(
    x: jax.typing.ArrayLike, /, *, keepdims: bool = False, ord: str | int = 'fro',
) -> jax.Array:
    """Compute the norm of a matrix or stack of matrices."""
@overload
def matrix_power(a: NamedArray, n: int) -> NamedArray:
    """Raise a square matrix to an integer power."""
@overload
def matrix_power(a: PlainArray, n: int) -> PlainArray: ...
@overload
def matrix_power(a: jax.typing.ArrayLike, n: int) -> jax.Array:
    """Raise a square matrix to an integer power."""
@overload
def matrix_rank(
    M: NamedArray,
    rtol: ArrayLike | None = None,
    *,
    hermitian: bool = False,
    tol: ArrayLike | None = None,
) -> NamedArray:
    """Compute the rank of a matrix."""
@overload
def matrix_rank(
    M: jax.typing.ArrayLike,
    rtol: ArrayLike | None = None,
    *,
    hermitian: bool = False,
    tol: ArrayLike | None = None,
) -> jax.Array:
    """Compute the rank of a matrix."""
@overload
def matrix_transpose(x: NamedArray, /) -> NamedArray:
    """Transpose a matrix or stack of matrices."""
@overload
def matrix_transpose(x: PlainArray, /) -> PlainArray: ...
@overload
def matrix_transpose(x: jax.typing.ArrayLike, /) -> jax.Array:
    """Transpose a matrix or stack of matrices."""
def multi_dot(
    arrays: Sequence[ArrayLike], *, precision: jax.lax.PrecisionLike = None,
) -> AnyArray:
    """Efficiently compute matrix products between a sequence of arrays."""
def norm(
    x: ArrayLike, ord: float | str | None = None, axis: AxisSpec = None, keepdims: bool = False,
) -> AnyArray:
    """Compute the norm over one axis (of vectors) or two (of matrices), as `jnp.linalg.norm`.

    Args:
      x: an array, named or not.
      ord: the order. For vectors a number, inf, -inf or 0; for matrices `"fro"`, 1, -1, inf, -inf,
        2, -2 or `"nuc"`. By default `None`, the root of the sum of the squares.
      axis: a positional axis, an axis name, or a tuple of one or two of them (rows, then columns);
        `None` (default) selects all positional axes, and `...` all axes. Without `ord`, they are
        any number of axes.
      keepdims: if `True`, reduced positional axes remain with size 1; by default `False`.

    Returns:
      An array with the remaining axes.

    Communication: over a sharded axis, one all-reduce of a sum, maximum or minimum; for matrices
    one for each axis. The orders 2, -2 and `"nuc"` of a matrix need its singular values, and
    communicate as `nx.linalg.svd`. With positional rows or columns the other axis is gathered.

    Raises:
      AxisNotFoundError: `x` has no axis of that name.
    """
@overload
def outer(x1: NamedArray, x2: ArrayLike, /) -> NamedArray:
    """Compute the outer product of two 1-dimensional arrays."""
@overload
def outer(x1: ArrayLike, x2: NamedArray, /) -> NamedArray: ...
@overload
def outer(x1: PlainArray, x2: jax.typing.ArrayLike, /) -> PlainArray: ...
@overload
def outer(x1: jax.typing.ArrayLike, x2: jax.typing.ArrayLike, /) -> jax.Array:
    """Compute the outer product of two 1-dimensional arrays."""
@overload
def pinv(
    a: NamedArray,
    rtol: ArrayLike | None = None,
    hermitian: bool = False,
    *,
    rcond: ArrayLike | None = None,
) -> NamedArray:
    """Compute the (Moore-Penrose) pseudo-inverse of a matrix."""
@overload
def pinv(
    a: jax.typing.ArrayLike,
    rtol: ArrayLike | None = None,
    hermitian: bool = False,
    *,
    rcond: ArrayLike | None = None,
) -> jax.Array:
    """Compute the (Moore-Penrose) pseudo-inverse of a matrix."""
def qr(a: ArrayLike, mode: str = 'reduced') -> AnyArray | _QRResult:
    """Compute the QR decomposition of an array."""
def slogdet(a: ArrayLike, *, method: str | None = None) -> _SlogdetResult:
    """Compute the sign and (natural) logarithm of the determinant of an array."""
@overload
def solve(a: NamedArray, b: ArrayLike) -> NamedArray:
    """Solve a linear system of equations."""
@overload
def solve(a: ArrayLike, b: NamedArray) -> NamedArray: ...
@overload
def solve(a: PlainArray, b: jax.typing.ArrayLike) -> PlainArray: ...
@overload
def solve(a: jax.typing.ArrayLike, b: jax.typing.ArrayLike) -> jax.Array:
    """Solve a linear system of equations."""
def svd(
    a: ArrayLike,
    full_matrices: bool = True,
    compute_uv: bool = True,
    hermitian: bool = False,
    subset_by_index: tuple[int, int] | None = None,
) -> AnyArray | _SVDResult:
    """Compute the singular value decomposition."""
@overload
def svdvals(x: NamedArray, /) -> NamedArray:
    """Compute the singular values of a matrix."""
@overload
def svdvals(x: PlainArray, /) -> PlainArray: ...
@overload
def svdvals(x: jax.typing.ArrayLike, /) -> jax.Array:
    """Compute the singular values of a matrix."""
def tensordot(
    x1: ArrayLike,
    x2: ArrayLike,
    /,
    *,
    axes: AxisSpec = 2,
    precision: jax.lax.PrecisionLike = None,
    preferred_element_type: DType | None = None,
    out_sharding: jax.sharding.NamedSharding | jax.sharding.PartitionSpec | None = None,
) -> AnyArray:
    """Multiply two arrays and sum over axes, as `jnp.tensordot`.

    See `nx.tensordot`.
    """
@overload
def tensorinv(a: NamedArray, ind: int = 2) -> NamedArray:
    """Compute the tensor inverse of an array."""
@overload
def tensorinv(a: PlainArray, ind: int = 2) -> PlainArray: ...
@overload
def tensorinv(a: jax.typing.ArrayLike, ind: int = 2) -> jax.Array:
    """Compute the tensor inverse of an array."""
def tensorsolve(a: ArrayLike, b: ArrayLike, axes: AxisSpec = None) -> AnyArray:
    """Solve the tensor equation a x = b for x."""
@overload
def trace(x: NamedArray, /, *, offset: int = 0, dtype: DType | None = None) -> NamedArray:
    """Compute the trace of a matrix."""
@overload
def trace(x: PlainArray, /, *, offset: int = 0, dtype: DType | None = None) -> PlainArray: ...
@overload
def trace(
    x: jax.typing.ArrayLike, /, *, offset: int = 0, dtype: DType | None = None,
) -> jax.Array:
    """Compute the trace of a matrix."""
def vecdot(
    x1: ArrayLike,
    x2: ArrayLike,
    /,
    *,
    axis: AxisSpec = -1,
    precision: jax.lax.PrecisionLike = None,
    preferred_element_type: DType | None = None,
) -> AnyArray:
    """Multiply vectors along one axis, the first one conjugated, as `jnp.vecdot`.

    Along a named axis it is `nx.dot`.

    Args:
      x1: an array, named or not.
      x2: an array, named or not.
      axis: a positional or named axis; by default -1.
      precision: as in `jax.lax.dot_general`; by default `None`.
      preferred_element_type: the dtype to accumulate in and to return; by default the dtype of the
        operands.

    Returns:
      An array with the other axes, which broadcast.

    Communication: over a sharded axis, as for `nx.dot`.

    Raises:
      AxisNotFoundError: an array lacks the name.
    """
def vector_norm(
    x: ArrayLike,
    /,
    *,
    axis: AxisSpec = None,
    keepdims: bool = False,
    ord: float | str | None = 2,
) -> AnyArray:
    """Compute the vector norm over any number of axes at once, named or positional.

    Args:
      x: an array, named or not.
      axis: a positional axis, an axis name, or a tuple of both; `...` selects all axes, `None`
        (default) all positional ones. Required if every axis is named.
      keepdims: if `True`, reduced positional axes remain with size 1; by default `False`. Reduced
        named axes are removed.
      ord: the order, as for `nx.norm`; by default 2.

    Returns:
      An array with the remaining axes; a plain `jax.Array` if no named axis remains.

    Communication: over a sharded axis, one all-reduce of a sum, maximum or minimum.

    Raises:
      AxisNotFoundError: `x` has no axis of that name.
    """
