# Written by tools/stubs.py (make stubs) with JAX 0.10.2. Do not edit.
"""The namespace `nx.scipy.sparse.linalg`: `jax.scipy.sparse.linalg` for pytrees of named arrays."""

from collections.abc import Callable

import jax
import jax.typing

from namedax.core.names import PyTree

def bicgstab(
    A: Callable[..., PyTree] | jax.typing.ArrayLike,
    b: PyTree,
    x0: PyTree = None,
    *,
    tol: jax.typing.ArrayLike = 1e-05,
    atol: jax.typing.ArrayLike = 0.0,
    maxiter: int | None = None,
    M: Callable[..., PyTree] | jax.typing.ArrayLike | None = None,
) -> tuple[PyTree, None]:
    """Solve `A(x) = b` by the stabilized biconjugate gradient method.

    The named version of `jax.scipy.sparse.linalg.bicgstab`, with its arguments and results. All
    elements over all axes, named and positional, form one vector: named axes are not batch axes
    here (for one system per element, use `nx.vmap` over the axis).

    Args:
      A: a linear map: a function of pytrees like `b`. For arrays without named axes, a square
        matrix is also valid.
      b: the right-hand side: an array or a pytree of arrays.
      x0: the initial solution; by default zero.
      tol: the relative tolerance for the norm of the residual relative to the norm of `b`; by
        default 1e-5.
      atol: the absolute tolerance for the norm of the residual; by default 0.
      maxiter: the maximum number of steps; by default ten times the number of unknowns.
      M: a preconditioner: a function like `A` that approximates its inverse; by default
        none.

    Returns:
      The solution, a pytree like `b`, and `None`. Its derivative is the derivative of the exact
      solution, by another solve.

    Communication: over sharded axes each step needs six all-reduces of a number, in addition to the communication of `A`. Every device
    runs the same number of steps.

    Raises:
      AxisNameError: `A` is an array with named axes.
      NamedAxesLeftError: `A` returns an axis that `b` lacks.
      ArgumentTypeError: `A` returns a different structure or dtype, or `b` is not floating-point.
    """
def cg(
    A: Callable[..., PyTree] | jax.typing.ArrayLike,
    b: PyTree,
    x0: PyTree = None,
    *,
    tol: jax.typing.ArrayLike = 1e-05,
    atol: jax.typing.ArrayLike = 0.0,
    maxiter: int | None = None,
    M: Callable[..., PyTree] | jax.typing.ArrayLike | None = None,
) -> tuple[PyTree, None]:
    """Solve `A(x) = b` by conjugate gradients.

    The named version of `jax.scipy.sparse.linalg.cg`, with its arguments and results. All
    elements over all axes, named and positional, form one vector: named axes are not batch axes
    here (for one system per element, use `nx.vmap` over the axis).

    Args:
      A: a linear map: a function of pytrees like `b`, Hermitian and positive definite. For arrays without named axes, a square
        matrix is also valid.
      b: the right-hand side: an array or a pytree of arrays.
      x0: the initial solution; by default zero.
      tol: the relative tolerance for the norm of the residual relative to the norm of `b`; by
        default 1e-5.
      atol: the absolute tolerance for the norm of the residual; by default 0.
      maxiter: the maximum number of steps; by default ten times the number of unknowns.
      M: a preconditioner: a function like `A` that approximates its inverse; by default
        none.

    Returns:
      The solution, a pytree like `b`, and `None`. Its derivative is the derivative of the exact
      solution, by another solve.

    Communication: over sharded axes each step needs two or three all-reduces of a number, in addition to the communication of `A`. Every device
    runs the same number of steps.

    Raises:
      AxisNameError: `A` is an array with named axes.
      NamedAxesLeftError: `A` returns an axis that `b` lacks.
      ArgumentTypeError: `A` returns a different structure or dtype, or `b` is not floating-point.
    """
def gmres(
    A: Callable[..., PyTree] | jax.typing.ArrayLike,
    b: PyTree,
    x0: PyTree = None,
    *,
    tol: jax.typing.ArrayLike = 1e-05,
    atol: jax.typing.ArrayLike = 0.0,
    restart: int = 20,
    maxiter: int | None = None,
    M: Callable[..., PyTree] | jax.typing.ArrayLike | None = None,
    solve_method: str = 'batched',
) -> tuple[PyTree, jax.Array]:
    """Solve `A(x) = b` by the generalized minimal residual method with restarts.

    The named version of `jax.scipy.sparse.linalg.gmres`, with its arguments and results. All
    elements over all axes, named and positional, form one vector: named axes are not batch axes
    here (for one system per element, use `nx.vmap` over the axis).

    Args:
      A: a linear map: a function of pytrees like `b`. For arrays without named axes, a square
        matrix is also valid.
      b: the right-hand side: an array or a pytree of arrays.
      x0: the initial solution; by default zero.
      tol: the relative tolerance for the norm of the residual relative to the norm of `b`; by
        default 1e-5.
      atol: the absolute tolerance for the norm of the residual; by default 0.
      restart: the dimension of the Krylov space, with all of its vectors kept; by default 20.
      maxiter: the maximum number of restarts; by default ten times the number of unknowns.
      M: a preconditioner: a function like `A` that approximates its inverse; by default
        none.
      solve_method: `"incremental"` ends a cycle when the residual is small; `"batched"` (default) does not check.

    Returns:
      The solution, a pytree like `b`, and 0, or -1 if it is NaN. Its derivative is the derivative of the exact
      solution, by another solve.

    Communication: over sharded axes each step sends one number for every vector of the basis, twice, and two norms, in addition to the communication of `A`. Every device
    runs the same number of steps.

    Raises:
      AxisNameError: `A` is an array with named axes.
      NamedAxesLeftError: `A` returns an axis that `b` lacks.
      ArgumentTypeError: `A` returns a different structure or dtype, or `b` is not floating-point.
    """
