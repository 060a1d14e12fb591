# Written by tools/stubs.py (make stubs) with JAX 0.10.2. Do not edit.
"""The namespace `nx.lax.linalg`: `jax.lax.linalg` for named arrays."""

from collections.abc import Callable
from typing import Any, overload

import jax
import jax.typing
from jax.lax.linalg import EigImplementation as EigImplementation  # type: ignore[attr-defined, unused-ignore]
from jax.lax.linalg import EighImplementation as EighImplementation  # type: ignore[attr-defined, unused-ignore]
from jax.lax.linalg import SvdAlgorithm as SvdAlgorithm  # type: ignore[attr-defined, unused-ignore]
from jax.lax.linalg import cholesky_p as cholesky_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax.linalg import cholesky_update_p as cholesky_update_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax.linalg import eig_p as eig_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax.linalg import eigh_p as eigh_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax.linalg import hessenberg_p as hessenberg_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax.linalg import householder_product_p as householder_product_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax.linalg import lu_p as lu_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax.linalg import lu_pivots_to_permutation_p as lu_pivots_to_permutation_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax.linalg import ormqr_p as ormqr_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax.linalg import qr_p as qr_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax.linalg import schur_p as schur_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax.linalg import svd_p as svd_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax.linalg import symmetric_product_p as symmetric_product_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax.linalg import triangular_solve_p as triangular_solve_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax.linalg import tridiagonal_p as tridiagonal_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax.linalg import tridiagonal_solve_p as tridiagonal_solve_p  # type: ignore[attr-defined, unused-ignore]

from namedax.core.annotations import AnyArray, ArrayLike, EitherArray
from namedax.core.array import NamedArray
from namedax.core.names import PyTree
from namedax.core.results import PlainArray

@overload
def cholesky(x: NamedArray, *, symmetrize_input: bool = True) -> NamedArray:
    """Cholesky decomposition."""
@overload
def cholesky(x: PlainArray, *, symmetrize_input: bool = True) -> PlainArray: ...
@overload
def cholesky(x: jax.Array, *, symmetrize_input: bool = True) -> jax.Array:
    """Cholesky decomposition."""
@overload
def cholesky_update(r_matrix: NamedArray, w_vector: ArrayLike) -> NamedArray:
    """Cholesky rank-1 update."""
@overload
def cholesky_update(r_matrix: ArrayLike, w_vector: NamedArray) -> NamedArray: ...
@overload
def cholesky_update(r_matrix: PlainArray, w_vector: jax.typing.ArrayLike) -> PlainArray: ...
@overload
def cholesky_update(
    r_matrix: jax.typing.ArrayLike, w_vector: jax.typing.ArrayLike,
) -> jax.Array:
    """Cholesky rank-1 update."""
def eig(
    x: ArrayLike,
    *,
    compute_left_eigenvectors: bool = True,
    compute_right_eigenvectors: bool = True,
    enable_eigvec_derivs: bool = False,
    implementation: jax.lax.linalg.EigImplementation | None = None,
    use_magma: bool | None = None,
) -> list[AnyArray]:
    """Eigendecomposition of a general matrix."""
def eigh(
    x: EitherArray,
    *,
    lower: bool = True,
    symmetrize_input: bool = True,
    sort_eigenvalues: bool = True,
    subset_by_index: tuple[int, int] | None = None,
    implementation: jax.lax.linalg.EighImplementation | None = None,
) -> tuple[AnyArray, AnyArray]:
    """Eigendecomposition of a Hermitian matrix."""
def hessenberg(a: ArrayLike) -> tuple[AnyArray, AnyArray]:
    """Reduces a square matrix to upper Hessenberg form."""
@overload
def householder_product(a: NamedArray, taus: ArrayLike) -> NamedArray:
    """Product of elementary Householder reflectors."""
@overload
def householder_product(a: ArrayLike, taus: NamedArray) -> NamedArray: ...
@overload
def householder_product(a: PlainArray, taus: jax.typing.ArrayLike) -> PlainArray: ...
@overload
def householder_product(a: jax.typing.ArrayLike, taus: jax.typing.ArrayLike) -> jax.Array:
    """Product of elementary Householder reflectors."""
def lu(x: ArrayLike) -> tuple[AnyArray, AnyArray, AnyArray]:
    """LU decomposition with partial pivoting."""
@overload
def lu_pivots_to_permutation(pivots: NamedArray, permutation_size: int) -> NamedArray:
    """Converts the pivots (row swaps) returned by LU to a permutation."""
@overload
def lu_pivots_to_permutation(pivots: PlainArray, permutation_size: int) -> PlainArray: ...
@overload
def lu_pivots_to_permutation(pivots: jax.typing.ArrayLike, permutation_size: int) -> jax.Array:
    """Converts the pivots (row swaps) returned by LU to a permutation."""
@overload
def ormqr(
    a: NamedArray, taus: ArrayLike, c: ArrayLike, *, left: bool = True, transpose: bool = False,
) -> NamedArray:
    """Multiplies a matrix by Q from a QR factorization without materializing Q."""
@overload
def ormqr(
    a: ArrayLike, taus: NamedArray, c: ArrayLike, *, left: bool = True, transpose: bool = False,
) -> NamedArray: ...
@overload
def ormqr(
    a: ArrayLike, taus: ArrayLike, c: NamedArray, *, left: bool = True, transpose: bool = False,
) -> NamedArray: ...
@overload
def ormqr(
    a: PlainArray,
    taus: jax.typing.ArrayLike,
    c: jax.typing.ArrayLike,
    *,
    left: bool = True,
    transpose: bool = False,
) -> PlainArray: ...
@overload
def ormqr(
    a: jax.typing.ArrayLike,
    taus: jax.typing.ArrayLike,
    c: jax.typing.ArrayLike,
    *,
    left: bool = True,
    transpose: bool = False,
) -> jax.Array:
    """Multiplies a matrix by Q from a QR factorization without materializing Q."""
def qdwh(
    x: object,
    *,
    is_hermitian: bool = False,
    max_iterations: int | None = None,
    eps: float | None = None,
    dynamic_shape: tuple[int, int] | None = None,
) -> PyTree:
    """QR-based dynamically weighted Halley iteration for polar decomposition."""
def qr(
    x: ArrayLike,
    *,
    pivoting: bool = False,
    full_matrices: bool = True,
    use_magma: bool | None = None,
) -> tuple[AnyArray, AnyArray] | tuple[AnyArray, AnyArray, AnyArray]:
    """QR decomposition."""
def schur(
    x: ArrayLike,
    *,
    compute_schur_vectors: bool = True,
    sort_eig_vals: bool = False,
    select_callable: Callable[..., Any] | None = None,
) -> tuple[AnyArray, AnyArray]:
    """Schur decomposition."""
def svd(
    x: ArrayLike,
    *,
    full_matrices: bool = True,
    compute_uv: bool = True,
    subset_by_index: tuple[int, int] | None = None,
    algorithm: jax.lax.linalg.SvdAlgorithm | None = None,
) -> AnyArray | tuple[AnyArray, AnyArray, AnyArray]:
    """Singular value decomposition."""
def symmetric_product(
    a_matrix: ArrayLike,
    c_matrix: ArrayLike,
    *,
    alpha: float = 1.0,
    beta: float = 0.0,
    symmetrize_output: bool = False,
) -> PyTree:
    """Symmetric product."""
@overload
def triangular_solve(
    a: NamedArray,
    b: ArrayLike,
    *,
    left_side: bool = False,
    lower: bool = False,
    transpose_a: bool = False,
    conjugate_a: bool = False,
    unit_diagonal: bool = False,
) -> NamedArray:
    """Triangular solve."""
@overload
def triangular_solve(
    a: ArrayLike,
    b: NamedArray,
    *,
    left_side: bool = False,
    lower: bool = False,
    transpose_a: bool = False,
    conjugate_a: bool = False,
    unit_diagonal: bool = False,
) -> NamedArray: ...
@overload
def triangular_solve(
    a: PlainArray,
    b: jax.typing.ArrayLike,
    *,
    left_side: bool = False,
    lower: bool = False,
    transpose_a: bool = False,
    conjugate_a: bool = False,
    unit_diagonal: bool = False,
) -> PlainArray: ...
@overload
def triangular_solve(
    a: jax.typing.ArrayLike,
    b: jax.typing.ArrayLike,
    *,
    left_side: bool = False,
    lower: bool = False,
    transpose_a: bool = False,
    conjugate_a: bool = False,
    unit_diagonal: bool = False,
) -> jax.Array:
    """Triangular solve."""
def tridiagonal(
    a: ArrayLike, *, lower: bool = True,
) -> tuple[AnyArray, AnyArray, AnyArray, AnyArray]:
    """Reduces a symmetric/Hermitian matrix to tridiagonal form."""
@overload
def tridiagonal_solve(
    dl: NamedArray,
    d: EitherArray,
    du: EitherArray,
    b: EitherArray,
    *,
    perturb_singular: bool = False,
) -> NamedArray:
    """Computes the solution of a tridiagonal linear system."""
@overload
def tridiagonal_solve(
    dl: EitherArray,
    d: NamedArray,
    du: EitherArray,
    b: EitherArray,
    *,
    perturb_singular: bool = False,
) -> NamedArray: ...
@overload
def tridiagonal_solve(
    dl: EitherArray,
    d: EitherArray,
    du: NamedArray,
    b: EitherArray,
    *,
    perturb_singular: bool = False,
) -> NamedArray: ...
@overload
def tridiagonal_solve(
    dl: jax.Array,
    d: jax.Array,
    du: jax.Array,
    b: EitherArray,
    *,
    perturb_singular: bool = False,
) -> jax.Array:
    """Computes the solution of a tridiagonal linear system."""
