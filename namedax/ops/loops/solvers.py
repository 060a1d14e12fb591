"""Iterative solvers over pytrees: `cg`, `bicgstab`, `gmres` of `nx.scipy.sparse.linalg`.

The methods are in `namedax.ops.loops.krylov`.

Derivatives are implicit: the derivative of a solution is the solution of another system with the
same map. On global arrays `lax.custom_linear_solve` implements this. It requires all of its
operands to vary over the same mesh axes, but blocks and replicated weights do not. So on blocks
there is a rule for the reverse mode, and no forward mode.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TypeAlias, TypeVar

import jax
import jax.numpy as jnp
import jax.scipy as jsp
import numpy as np
from jax import lax
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun

from namedax.core.array import is_named
from namedax.core.element_types import weak_as
from namedax.core.functions import joined
from namedax.core.names import PyTree
from namedax.core.records import Record
from namedax.core.region import ambient
from namedax.errors import (
    ArgumentError,
    format_value,
)
from namedax.ops.loops import krylov
from namedax.ops.loops.krylov import Blocks, LinearMap, Space, Stop
from namedax.ops.operands.operation import operation
from namedax.ops.operands.pytree import data_of
from namedax.resources.padding_masks import refilled

__all__ = ["FUNCTIONS", "bicgstab", "cg", "gmres"]

_Value = TypeVar("_Value")
#: A linear map: a function, or a square matrix.
Operator: TypeAlias = Callable[..., PyTree] | jax.typing.ArrayLike


# The fields of a `Stop`.
_Limits: TypeAlias = tuple[jax.typing.ArrayLike, jax.typing.ArrayLike, jax.typing.ArrayLike]
_Residuals: TypeAlias = tuple[Blocks, Blocks, Blocks, _Limits]
_Method: TypeAlias = Callable[[Space, LinearMap, Blocks, Blocks, LinearMap, Stop], Blocks]


class _System(Record):
    """A linear system over blocks.

    Attributes:
      space: the space of the vectors.
      apply: the map.
      b: the right-hand side.
      x: the initial solution.
      m: the preconditioner.
      stop: the stopping criterion.
    """

    space: Space
    apply: LinearMap
    b: Blocks
    x: Blocks
    m: LinearMap
    stop: Stop

    @classmethod
    def of(
        cls,
        op: str,
        A: object,
        b: PyTree,
        x0: PyTree,
        M: object,
        limits: tuple[jax.typing.ArrayLike, jax.typing.ArrayLike, int | None],
    ) -> _System:
        """Return the system of the arguments of a solver; `limits` are `tol`, `atol`, `maxiter`."""
        space = Space.of(op, b)
        datas = space.without_padding([data_of(leaf) for leaf in space.like])
        if x0 is None:
            x = [jnp.zeros_like(data) for data in datas]
        else:
            x = space.without_padding(space.data(x0, "x0"))
        apply, m = space.operator(A, "A"), space.operator(M, "M")
        tol, atol, maxiter = limits
        stop = Stop(tol, atol, 10 * space.size if maxiter is None else maxiter)
        return cls(space, apply, datas, x, m, stop)

    def refilled(self, solution: Blocks) -> Blocks:
        """Refill the padding of a solution, and restore weak types."""
        result = []
        for n, data in enumerate(solution):
            for dim, place in enumerate(self.space.places[n]):
                data = refilled(data, dim, place)
            is_weak = getattr(self.x[n], "weak_type", False)
            result.append(weak_as(data, self.b[n] if is_weak else self.x[n]))
        return result


def _solve(system: _System, method: _Method, hermitian: bool = False) -> Blocks:
    """Return the blocks of the solution, with its derivative."""
    space, region = system.space, ambient()
    symmetric = hermitian and not jnp.issubdtype(space.dtype, jnp.complexfloating)
    if region is not None and region.manual:
        return system.refilled(_solve_on_blocks(system, method, symmetric))

    def solve(apply: LinearMap, b: Blocks) -> Blocks:
        return method(space, apply, b, system.x, system.m, system.stop)

    return lax.custom_linear_solve(system.apply, system.b, solve, solve, symmetric)


# --- the derivative on blocks ---------------------------------------------------------------------


class _Traced(Record):
    """A system whose maps are traced, with the arrays that they close over as arguments."""

    space: Space
    method: _Method
    apply: ClosedJaxpr
    m: ClosedJaxpr

    def map_of(self, consts: Sequence[jax.Array]) -> LinearMap:
        """Return the map that closes over `consts`."""
        return functools.partial(_run, self.apply, consts)

    def solve(
        self, apply: LinearMap, b: Blocks, x: Blocks, m_consts: Sequence[jax.Array], stop: _Limits
    ) -> Blocks:
        """Return the solution for a map."""
        m = functools.partial(_run, self.m, m_consts)
        return self.method(self.space, apply, b, x, m, Stop(*stop))

    def cotangents(
        self, consts: Sequence[jax.Array], solution: Blocks, adjoint: Blocks
    ) -> list[jax.Array | np.ndarray]:
        """Return the cotangents of the arrays that the map closes over."""
        floats = [
            i
            for i, const in enumerate(consts)
            if jnp.issubdtype(jnp.result_type(const), jnp.inexact)
        ]

        def applied(*values: jax.Array) -> Blocks:
            return self.map_of(_with_values(consts, floats, values))(solution)

        found = jax.vjp(applied, *(consts[i] for i in floats))[1](adjoint)
        zeros = [np.zeros(np.shape(const), jax.dtypes.float0) for const in consts]
        return _with_values(zeros, floats, [-ct for ct in found])


def _run(closed: ClosedJaxpr, consts: Sequence[jax.Array], datas: Blocks) -> Blocks:
    return list(jaxpr_as_fun(ClosedJaxpr(closed.jaxpr, list(consts)))(*datas))


def _with_values(
    values: Sequence[_Value], places: Sequence[int], changed: Sequence[_Value]
) -> list[_Value]:
    """Return `values` with `changed` in some places."""
    filled = list(values)
    for i, value in zip(places, changed, strict=True):
        filled[i] = value
    return filled


def _solve_on_blocks(system: _System, method: _Method, symmetric: bool) -> Blocks:
    """Compute the solution, with a rule for the reverse mode.

    JAX traces the rule after the body has ended. So both maps are traced here, while the names are
    defined, and all closed-over values become arguments.
    """
    apply, m = (jax.make_jaxpr(each)(system.b) for each in (system.apply, system.m))
    traced = _Traced(system.space.replace(like=()), method, apply, m)

    @jax.custom_vjp
    def solution(
        consts: list[jax.Array], b: Blocks, x: Blocks, m_consts: list[jax.Array], stop: _Limits
    ) -> Blocks:
        return traced.solve(traced.map_of(consts), b, x, m_consts, stop)

    def forward(
        consts: list[jax.Array], b: Blocks, x: Blocks, m_consts: list[jax.Array], stop: _Limits
    ) -> tuple[Blocks, _Residuals]:
        result = solution(consts, b, x, m_consts, stop)
        return result, (consts, result, m_consts, stop)

    def backward(
        saved: _Residuals, cotangent: Blocks
    ) -> tuple[list[jax.Array | np.ndarray], Blocks, None, None, None]:
        consts, result, m_consts, stop = saved
        start = [jnp.zeros_like(ct) for ct in cotangent]
        if symmetric:
            adjoint = solution(consts, cotangent, start, m_consts, stop)
        else:
            pull = jax.vjp(traced.map_of(consts), result)[1]
            transposed = functools.partial(_first, pull)
            adjoint = traced.solve(transposed, cotangent, start, m_consts, stop)
        return traced.cotangents(consts, result, adjoint), adjoint, None, None, None

    solution.defvjp(forward, backward)
    limits = (system.stop.tol, system.stop.atol, system.stop.maxiter)
    return solution(list(apply.consts), system.b, system.x, list(m.consts), limits)


def _first(pull: Callable[[Blocks], tuple[Blocks]], datas: Blocks) -> Blocks:
    (result,) = pull(datas)
    return list(result)


def _has_names(*trees: PyTree) -> bool:
    return any(map(is_named, jax.tree.leaves(trees, is_leaf=is_named)))


_TEXT = """

    The named version of `jax.scipy.sparse.linalg.{name}`, with its arguments and results. All
    elements over all axes, named and positional, form one vector: named axes are not batch axes
    here (for one system per element, use `nx.vmap` over the axis).

    Args:
      A: a linear map: a function of pytrees like `b`{kind}. For arrays without named axes, a square
        matrix is also valid.
      b: the right-hand side: an array or a pytree of arrays.
      x0: the initial solution; by default zero.
      tol: the relative tolerance for the norm of the residual relative to the norm of `b`; by
        default 1e-5.
      atol: the absolute tolerance for the norm of the residual; by default 0.
      {more}maxiter: the maximum number of {steps}; by default ten times the number of unknowns.
      M: a preconditioner: a function like `A` that approximates its inverse; by default
        none.{method}

    Returns:
      The solution, a pytree like `b`, and {info}. Its derivative is the derivative of the exact
      solution, by another solve.

    Communication: over sharded axes {cost}, in addition to the communication of `A`. Every device
    runs the same number of steps.

    Raises:
      AxisNameError: `A` is an array with named axes.
      NamedAxesLeftError: `A` returns an axis that `b` lacks.
      ArgumentTypeError: `A` returns a different structure or dtype, or `b` is not floating-point.

"""


@operation(calls_functions=True)
def cg(
    A: Operator,
    b: PyTree,
    x0: PyTree = None,
    *,
    tol: jax.typing.ArrayLike = 1e-5,
    atol: jax.typing.ArrayLike = 0.0,
    maxiter: int | None = None,
    M: Operator | None = None,
) -> tuple[PyTree, None]:
    """Solve `A(x) = b` by conjugate gradients.

    >>> import jax.numpy as jnp, namedax as nx
    >>> b = nx.named(jnp.array([1.0, 2.0, 3.0]), ["k"])
    >>> x, _ = nx.scipy.sparse.linalg.cg(lambda x: 2.0 * x + nx.sum(x, "k"), b)
    >>> nx.positional(x, ["k"]).round(3).tolist()
    [-0.1..., 0.4..., 0.9...]
    """
    if not _has_names(b, x0):
        return jsp.sparse.linalg.cg(A, b, x0, tol=tol, atol=atol, maxiter=maxiter, M=M)
    system = _System.of("cg", A, b, x0, M, (tol, atol, maxiter))
    x = _solve(system, krylov.conjugate_gradients, hermitian=True)
    return system.space.value(x), None


@operation(calls_functions=True)
def bicgstab(
    A: Operator,
    b: PyTree,
    x0: PyTree = None,
    *,
    tol: jax.typing.ArrayLike = 1e-5,
    atol: jax.typing.ArrayLike = 0.0,
    maxiter: int | None = None,
    M: Operator | None = None,
) -> tuple[PyTree, None]:
    """Solve `A(x) = b` by the stabilized biconjugate gradient method.

    >>> import jax.numpy as jnp, namedax as nx
    >>> b = nx.named(jnp.array([1.0, 2.0, 3.0]), ["k"])
    >>> x, _ = nx.scipy.sparse.linalg.bicgstab(lambda x: 2.0 * x + nx.shift(x, 1, "k"), b)
    >>> nx.positional(x, ["k"]).round(2).tolist()
    [0.5, 0.75, 1.12...]
    """
    if not _has_names(b, x0):
        return jsp.sparse.linalg.bicgstab(A, b, x0, tol=tol, atol=atol, maxiter=maxiter, M=M)
    system = _System.of("bicgstab", A, b, x0, M, (tol, atol, maxiter))
    return system.space.value(_solve(system, krylov.bicgstab)), None


@operation(calls_functions=True)
def gmres(
    A: Operator,
    b: PyTree,
    x0: PyTree = None,
    *,
    tol: jax.typing.ArrayLike = 1e-5,
    atol: jax.typing.ArrayLike = 0.0,
    restart: int = 20,
    maxiter: int | None = None,
    M: Operator | None = None,
    solve_method: str = "batched",
) -> tuple[PyTree, jax.Array]:
    """Solve `A(x) = b` by the generalized minimal residual method with restarts.

    >>> import jax.numpy as jnp, namedax as nx
    >>> b = nx.named(jnp.array([1.0, 2.0, 3.0]), ["k"])
    >>> x, _ = nx.scipy.sparse.linalg.gmres(lambda x: 2.0 * x + nx.shift(x, 1, "k"), b)
    >>> nx.positional(x, ["k"]).round(2).tolist()
    [0.5, 0.75, 1.12...]
    """
    if not _has_names(b, x0):
        return jsp.sparse.linalg.gmres(
            A,
            b,
            x0,
            tol=tol,
            atol=atol,
            restart=restart,
            maxiter=maxiter,
            M=M,
            solve_method=solve_method,
        )
    if solve_method not in ("batched", "incremental"):
        raise ArgumentError(
            "gmres: solve_method must be 'batched' or 'incremental', got"
            f" {format_value(solve_method)}."
        )
    method = functools.partial(krylov.gmres, restart, solve_method == "incremental")
    system = _System.of("gmres", A, b, x0, M, (tol, atol, maxiter))
    x = _solve(system, method)
    return system.space.value(x), jnp.where(jnp.isnan(system.space.square(x)), -1, 0)


def _describe(function: Callable[..., PyTree], **texts: str) -> None:
    summary, examples = (function.__doc__ or "").split("\n\n", 1)
    function.__doc__ = joined(
        summary,
        _TEXT.format(name=function.__name__, **{"more": "", "method": "", **texts}),
        examples,
    )


_describe(
    cg,
    kind=", Hermitian and positive definite",
    steps="steps",
    info="`None`",
    cost="each step needs two or three all-reduces of a number",
)
_describe(
    bicgstab,
    kind="",
    steps="steps",
    info="`None`",
    cost="each step needs six all-reduces of a number",
)
_describe(
    gmres,
    kind="",
    more=(
        "restart: the dimension of the Krylov space, with all of its vectors kept; by default 20.\n"
        "      "
    ),
    steps="restarts",
    method=(
        '\n      solve_method: `"incremental"` ends a cycle when the residual is small; `"batched"`'
        " (default) does not check."
    ),
    info="0, or -1 if it is NaN",
    cost="each step sends one number for every vector of the basis, twice, and two norms",
)

FUNCTIONS: dict[str, Callable[..., PyTree]] = {f.__name__: f for f in (bicgstab, cg, gmres)}
