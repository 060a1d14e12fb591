# Written by tools/stubs.py (make stubs) with JAX 0.10.2. Do not edit.
"""The namespace `nx.scipy.sparse.linalg`: `jax.scipy.sparse.linalg` for pytrees of named arrays."""

from typing import Any

def bicgstab(
    A: Any, b: Any, x0: Any = None, *, tol: Any = 1e-05, atol: Any = 0.0, maxiter: Any = None, M: Any = None,
) -> Any:
    """Solves `A(x) = b` by the stabilised biconjugate gradient method.

    The named version of `jax.scipy.sparse.linalg.bicgstab`, with its arguments and results. All axes of all arrays together,
    named and positional, are the one vector: names are not batch axes here (for one system per entry, use `nx.vmap` over the
    name).

    Args:
      A: a linear map: a function of trees like `b`. For arrays without names a square matrix will do.
      b: the right-hand side: an array or a pytree of arrays.
      x0: where to begin; default: zero.
      tol: the residual's norm, relative to that of `b`, that is small enough.
      atol: the same, absolute.
      maxiter: the largest number of steps; default: ten times the number of unknowns.
      M: a preconditioner: a function like `A` that is close to its inverse.

    Returns:
      The solution, a tree like `b`, and `None`. The derivative is that of the exact solution, by another solve.

    Over sharded names a step sends six numbers, in as many all-reduces, in addition to what `A` sends. Every device takes the same number of steps.

    Raises:
      AxisNameError: `A` is an array with names.
      NamedAxesLeftError: `A` gives a name that `b` lacks.
      ArgumentTypeError: `A` gives a different structure or element type, or `b` is not of floats.
    """
def cg(
    A: Any, b: Any, x0: Any = None, *, tol: Any = 1e-05, atol: Any = 0.0, maxiter: Any = None, M: Any = None,
) -> Any:
    """Solves `A(x) = b` by conjugate gradients.

    The named version of `jax.scipy.sparse.linalg.cg`, with its arguments and results. All axes of all arrays together,
    named and positional, are the one vector: names are not batch axes here (for one system per entry, use `nx.vmap` over the
    name).

    Args:
      A: a linear map: a function of trees like `b`, Hermitian and positive definite. For arrays without names a square matrix will do.
      b: the right-hand side: an array or a pytree of arrays.
      x0: where to begin; default: zero.
      tol: the residual's norm, relative to that of `b`, that is small enough.
      atol: the same, absolute.
      maxiter: the largest number of steps; default: ten times the number of unknowns.
      M: a preconditioner: a function like `A` that is close to its inverse.

    Returns:
      The solution, a tree like `b`, and `None`. The derivative is that of the exact solution, by another solve.

    Over sharded names a step sends two or three numbers, in as many all-reduces, in addition to what `A` sends. Every device takes the same number of steps.

    Raises:
      AxisNameError: `A` is an array with names.
      NamedAxesLeftError: `A` gives a name that `b` lacks.
      ArgumentTypeError: `A` gives a different structure or element type, or `b` is not of floats.
    """
def gmres(
    A: Any,
    b: Any,
    x0: Any = None,
    *,
    tol: Any = 1e-05,
    atol: Any = 0.0,
    restart: int = 20,
    maxiter: Any = None,
    M: Any = None,
    solve_method: str = 'batched',
) -> Any:
    """Solves `A(x) = b` by the generalised minimal residual method with restarts.

    The named version of `jax.scipy.sparse.linalg.gmres`, with its arguments and results. All axes of all arrays together,
    named and positional, are the one vector: names are not batch axes here (for one system per entry, use `nx.vmap` over the
    name).

    Args:
      A: a linear map: a function of trees like `b`. For arrays without names a square matrix will do.
      b: the right-hand side: an array or a pytree of arrays.
      x0: where to begin; default: zero.
      tol: the residual's norm, relative to that of `b`, that is small enough.
      atol: the same, absolute.
      restart: the dimension of the Krylov space, all of whose vectors are kept.
      maxiter: the largest number of restarts; default: ten times the number of unknowns.
      M: a preconditioner: a function like `A` that is close to its inverse.
      solve_method: `"incremental"` ends a cycle when the residual is small; `"batched"` does not check.

    Returns:
      The solution, a tree like `b`, and 0, or -1 if it is NaN. The derivative is that of the exact solution, by another solve.

    Over sharded names a step sends one number for every vector of the basis, twice, and two norms, in addition to what `A` sends. Every device takes the same number of steps.

    Raises:
      AxisNameError: `A` is an array with names.
      NamedAxesLeftError: `A` gives a name that `b` lacks.
      ArgumentTypeError: `A` gives a different structure or element type, or `b` is not of floats.
    """
