# Written by tools/stubs.py (make stubs) with JAX 0.10.2. Do not edit.
"""The namespace `nx.scipy.linalg`: `jax.scipy.linalg` for named arrays."""

from collections.abc import Callable
from typing import Any, overload

import jax
import jax.typing

from namedax.core.annotations import AnyArray, ArrayLike, EitherArray
from namedax.core.array import NamedArray
from namedax.core.names import DType
from namedax.core.results import PlainArray

def block_diag(*arrs: ArrayLike) -> AnyArray:
    """Create a block diagonal matrix from input arrays."""
def cho_factor(
    a: ArrayLike, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True,
) -> tuple[AnyArray, bool]:
    """Factorization for Cholesky-based linear solves."""
@overload
def cho_solve(
    c_and_lower: tuple[ArrayLike, bool],
    b: NamedArray,
    overwrite_b: bool = False,
    check_finite: bool = True,
) -> NamedArray:
    """Solve a linear system using a Cholesky factorization."""
@overload
def cho_solve(
    c_and_lower: tuple[ArrayLike, bool],
    b: jax.typing.ArrayLike,
    overwrite_b: bool = False,
    check_finite: bool = True,
) -> jax.Array:
    """Solve a linear system using a Cholesky factorization."""
@overload
def cholesky(
    a: NamedArray, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True,
) -> NamedArray:
    """Compute the Cholesky decomposition of a matrix."""
@overload
def cholesky(
    a: PlainArray, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True,
) -> PlainArray: ...
@overload
def cholesky(
    a: jax.typing.ArrayLike,
    lower: bool = False,
    overwrite_a: bool = False,
    check_finite: bool = True,
) -> jax.Array:
    """Compute the Cholesky decomposition of a matrix."""
@overload
def circulant(c: NamedArray) -> NamedArray:
    """Construct a circulant matrix."""
@overload
def circulant(c: PlainArray) -> PlainArray: ...
@overload
def circulant(c: jax.typing.ArrayLike) -> jax.Array:
    """Construct a circulant matrix."""
@overload
def companion(a: NamedArray) -> NamedArray:
    """Construct a companion matrix."""
@overload
def companion(a: PlainArray) -> PlainArray: ...
@overload
def companion(a: jax.typing.ArrayLike) -> jax.Array:
    """Construct a companion matrix."""
@overload
def convolution_matrix(a: NamedArray, n: int, mode: str = 'full') -> NamedArray:
    """Construct a convolution matrix."""
@overload
def convolution_matrix(a: PlainArray, n: int, mode: str = 'full') -> PlainArray: ...
@overload
def convolution_matrix(a: jax.typing.ArrayLike, n: int, mode: str = 'full') -> jax.Array:
    """Construct a convolution matrix."""
@overload
def det(a: NamedArray, overwrite_a: bool = False, check_finite: bool = True) -> NamedArray:
    """Compute the determinant of a matrix."""
@overload
def det(a: PlainArray, overwrite_a: bool = False, check_finite: bool = True) -> PlainArray: ...
@overload
def det(
    a: jax.typing.ArrayLike, overwrite_a: bool = False, check_finite: bool = True,
) -> jax.Array:
    """Compute the determinant of a matrix."""
def dft(n: int, scale: str | None = None, *, dtype: DType | None = None) -> AnyArray:
    """Construct an n-by-n discrete Fourier transform matrix."""
def eigh(
    a: ArrayLike,
    b: ArrayLike | None = None,
    lower: bool = True,
    eigvals_only: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    turbo: bool = True,
    eigvals: None = None,
    type: int = 1,
    check_finite: bool = True,
) -> AnyArray | tuple[AnyArray, AnyArray]:
    """Compute eigenvalues and eigenvectors for a Hermitian matrix."""
def eigh_tridiagonal(
    d: ArrayLike,
    e: ArrayLike,
    *,
    eigvals_only: bool = False,
    select: str = 'a',
    select_range: tuple[float, float] | None = None,
    tol: float | None = None,
    key: EitherArray | None = None,
) -> AnyArray | tuple[AnyArray, AnyArray]:
    """Solve the eigenvalue problem for a symmetric real tridiagonal matrix."""
@overload
def expm(
    A: NamedArray, *, upper_triangular: bool = False, max_squarings: int = 16,
) -> NamedArray:
    """Compute the matrix exponential."""
@overload
def expm(
    A: PlainArray, *, upper_triangular: bool = False, max_squarings: int = 16,
) -> PlainArray: ...
@overload
def expm(
    A: jax.typing.ArrayLike, *, upper_triangular: bool = False, max_squarings: int = 16,
) -> jax.Array:
    """Compute the matrix exponential."""
def expm_frechet(
    A: ArrayLike, E: ArrayLike, *, method: str | None = None, compute_expm: bool = True,
) -> AnyArray | tuple[AnyArray, AnyArray]:
    """Compute the Frechet derivative of the matrix exponential."""
@overload
def fiedler(a: NamedArray) -> NamedArray:
    """Construct a symmetric Fiedler matrix."""
@overload
def fiedler(a: PlainArray) -> PlainArray: ...
@overload
def fiedler(a: jax.typing.ArrayLike) -> jax.Array:
    """Construct a symmetric Fiedler matrix."""
@overload
def fiedler_companion(a: NamedArray) -> NamedArray:
    """Construct a Fiedler companion matrix."""
@overload
def fiedler_companion(a: PlainArray) -> PlainArray: ...
@overload
def fiedler_companion(a: jax.typing.ArrayLike) -> jax.Array:
    """Construct a Fiedler companion matrix."""
def funm(
    A: ArrayLike, func: Callable[[EitherArray], EitherArray], disp: bool = True,
) -> AnyArray | tuple[AnyArray, AnyArray]:
    """Evaluate a matrix-valued function."""
def hadamard(n: int, dtype: DType = ...) -> AnyArray:
    """Construct an n-by-n Hadamard matrix."""
@overload
def hankel(c: NamedArray, r: ArrayLike | None = None) -> NamedArray:
    """Construct a Hankel matrix."""
@overload
def hankel(c: jax.typing.ArrayLike, r: ArrayLike | None = None) -> jax.Array:
    """Construct a Hankel matrix."""
def helmert(n: int, full: bool = False) -> AnyArray:
    """Construct a Helmert matrix."""
def hessenberg(
    a: ArrayLike, *, calc_q: bool = False, overwrite_a: bool = False, check_finite: bool = True,
) -> AnyArray | tuple[AnyArray, AnyArray]:
    """Compute the Hessenberg form of the matrix."""
def hilbert(n: int) -> AnyArray:
    """Create a Hilbert matrix of order n."""
@overload
def inv(a: NamedArray, overwrite_a: bool = False, check_finite: bool = True) -> NamedArray:
    """Return the inverse of a square matrix."""
@overload
def inv(a: PlainArray, overwrite_a: bool = False, check_finite: bool = True) -> PlainArray: ...
@overload
def inv(
    a: jax.typing.ArrayLike, overwrite_a: bool = False, check_finite: bool = True,
) -> jax.Array:
    """Return the inverse of a square matrix."""
def invhilbert(n: int) -> AnyArray:
    """Compute the inverse of the Hilbert matrix of order n."""
def invpascal(n: int, kind: str | None = None) -> AnyArray:
    """Compute the inverse of the Pascal matrix of order n."""
@overload
def leslie(f: NamedArray, s: ArrayLike) -> NamedArray:
    """Construct a Leslie matrix."""
@overload
def leslie(f: ArrayLike, s: NamedArray) -> NamedArray: ...
@overload
def leslie(f: PlainArray, s: jax.typing.ArrayLike) -> PlainArray: ...
@overload
def leslie(f: jax.typing.ArrayLike, s: jax.typing.ArrayLike) -> jax.Array:
    """Construct a Leslie matrix."""
def lu(
    a: ArrayLike, permute_l: bool = False, overwrite_a: bool = False, check_finite: bool = True,
) -> tuple[AnyArray, AnyArray] | tuple[AnyArray, AnyArray, AnyArray]:
    """Compute the LU decomposition."""
def lu_factor(
    a: ArrayLike, overwrite_a: bool = False, check_finite: bool = True,
) -> tuple[AnyArray, AnyArray]:
    """Factorization for LU-based linear solves."""
@overload
def lu_solve(
    lu_and_piv: tuple[EitherArray, ArrayLike],
    b: NamedArray,
    trans: int = 0,
    overwrite_b: bool = False,
    check_finite: bool = True,
) -> NamedArray:
    """Solve a linear system using an LU factorization."""
@overload
def lu_solve(
    lu_and_piv: tuple[EitherArray, ArrayLike],
    b: jax.typing.ArrayLike,
    trans: int = 0,
    overwrite_b: bool = False,
    check_finite: bool = True,
) -> jax.Array:
    """Solve a linear system using an LU factorization."""
def pascal(n: int, kind: str | None = None) -> AnyArray:
    """Create a Pascal matrix approximation of order n."""
def polar(
    a: ArrayLike,
    side: str = 'right',
    *,
    method: str = 'qdwh',
    eps: float | None = None,
    max_iterations: int | None = None,
) -> tuple[AnyArray, AnyArray]:
    """Computes the polar decomposition."""
def qr(
    a: ArrayLike,
    overwrite_a: bool = False,
    lwork: Any = None,
    mode: str = 'full',
    pivoting: bool = False,
    check_finite: bool = True,
) -> tuple[AnyArray] | tuple[AnyArray, AnyArray] | tuple[AnyArray, AnyArray, AnyArray]:
    """Compute the QR decomposition of an array."""
def qr_multiply(
    a: ArrayLike,
    c: ArrayLike,
    mode: str = 'right',
    pivoting: bool = False,
    conjugate: bool = False,
    overwrite_a: bool = False,
    overwrite_c: bool = False,
) -> tuple[AnyArray, AnyArray] | tuple[AnyArray, AnyArray, AnyArray]:
    """Calculate the QR decomposition and multiply Q with a matrix."""
def rsf2csf(T: ArrayLike, Z: ArrayLike, check_finite: bool = True) -> tuple[AnyArray, AnyArray]:
    """Convert real Schur form to complex Schur form."""
def schur(a: ArrayLike, output: str = 'real') -> tuple[AnyArray, AnyArray]:
    """Compute the Schur decomposition."""
@overload
def solve(
    a: NamedArray,
    b: ArrayLike,
    lower: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    debug: bool = False,
    check_finite: bool = True,
    assume_a: str = 'gen',
) -> NamedArray:
    """Solve a linear system of equations."""
@overload
def solve(
    a: ArrayLike,
    b: NamedArray,
    lower: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    debug: bool = False,
    check_finite: bool = True,
    assume_a: str = 'gen',
) -> NamedArray: ...
@overload
def solve(
    a: PlainArray,
    b: jax.typing.ArrayLike,
    lower: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    debug: bool = False,
    check_finite: bool = True,
    assume_a: str = 'gen',
) -> PlainArray: ...
@overload
def solve(
    a: jax.typing.ArrayLike,
    b: jax.typing.ArrayLike,
    lower: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    debug: bool = False,
    check_finite: bool = True,
    assume_a: str = 'gen',
) -> jax.Array:
    """Solve a linear system of equations."""
@overload
def solve_sylvester(
    A: NamedArray, B: ArrayLike, C: ArrayLike, *, method: str = 'schur', tol: float = 1e-08,
) -> NamedArray:
    """Solve the Sylvester equation `A X + X B = C`."""
@overload
def solve_sylvester(
    A: ArrayLike, B: NamedArray, C: ArrayLike, *, method: str = 'schur', tol: float = 1e-08,
) -> NamedArray: ...
@overload
def solve_sylvester(
    A: ArrayLike, B: ArrayLike, C: NamedArray, *, method: str = 'schur', tol: float = 1e-08,
) -> NamedArray: ...
@overload
def solve_sylvester(
    A: PlainArray,
    B: jax.typing.ArrayLike,
    C: jax.typing.ArrayLike,
    *,
    method: str = 'schur',
    tol: float = 1e-08,
) -> PlainArray: ...
@overload
def solve_sylvester(
    A: jax.typing.ArrayLike,
    B: jax.typing.ArrayLike,
    C: jax.typing.ArrayLike,
    *,
    method: str = 'schur',
    tol: float = 1e-08,
) -> jax.Array:
    """Solve the Sylvester equation `A X + X B = C`."""
@overload
def solve_triangular(
    a: NamedArray,
    b: ArrayLike,
    trans: int | str = 0,
    lower: bool = False,
    unit_diagonal: bool = False,
    overwrite_b: bool = False,
    debug: Any = None,
    check_finite: bool = True,
) -> NamedArray:
    """Solve a triangular linear system of equations."""
@overload
def solve_triangular(
    a: ArrayLike,
    b: NamedArray,
    trans: int | str = 0,
    lower: bool = False,
    unit_diagonal: bool = False,
    overwrite_b: bool = False,
    debug: Any = None,
    check_finite: bool = True,
) -> NamedArray: ...
@overload
def solve_triangular(
    a: PlainArray,
    b: jax.typing.ArrayLike,
    trans: int | str = 0,
    lower: bool = False,
    unit_diagonal: bool = False,
    overwrite_b: bool = False,
    debug: Any = None,
    check_finite: bool = True,
) -> PlainArray: ...
@overload
def solve_triangular(
    a: jax.typing.ArrayLike,
    b: jax.typing.ArrayLike,
    trans: int | str = 0,
    lower: bool = False,
    unit_diagonal: bool = False,
    overwrite_b: bool = False,
    debug: Any = None,
    check_finite: bool = True,
) -> jax.Array:
    """Solve a triangular linear system of equations."""
@overload
def sqrtm(A: NamedArray, blocksize: int = 1) -> NamedArray:
    """Compute the matrix square root."""
@overload
def sqrtm(A: PlainArray, blocksize: int = 1) -> PlainArray: ...
@overload
def sqrtm(A: jax.typing.ArrayLike, blocksize: int = 1) -> jax.Array:
    """Compute the matrix square root."""
def svd(
    a: ArrayLike,
    full_matrices: bool = True,
    compute_uv: bool = True,
    overwrite_a: bool = False,
    check_finite: bool = True,
    lapack_driver: str = 'gesdd',
) -> AnyArray | tuple[AnyArray, AnyArray, AnyArray]:
    """Compute the singular value decomposition."""
@overload
def toeplitz(c: NamedArray, r: ArrayLike | None = None) -> NamedArray:
    """Construct a Toeplitz matrix."""
@overload
def toeplitz(c: jax.typing.ArrayLike, r: ArrayLike | None = None) -> jax.Array:
    """Construct a Toeplitz matrix."""
