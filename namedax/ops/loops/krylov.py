"""Iterative methods for linear systems over blocks: conjugate gradients, BiCGSTAB and GMRES.

A method needs three operations on vectors: sums, the linear map, and inner products. Sums are
elementwise, and the user defines the map, so both are correct over names. An inner product includes
all elements of all arrays, over all named axes. Each device computes it for its blocks, and one
all-reduce sums the results. It is therefore the same number on every device, and so is every
decision to stop.

Sources: Hestenes & Stiefel, "Methods of Conjugate Gradients for Solving Linear Systems", 1952; van
der Vorst, "Bi-CGSTAB", 1992; Saad, "Iterative Methods for Sparse Linear Systems", 2nd edition,
2003, algorithms 6.9 (GMRES), 6.18 and 9.1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from namedax.core.annotations import AnyArray
from namedax.core.array import NamedArray, dims_of, is_named
from namedax.core.display import type_text
from namedax.core.names import MeshAxes, PyTree
from namedax.core.records import Record
from namedax.core.region import ambient
from namedax.core.user_code import call_user_code
from namedax.core.variance import cast_data
from namedax.errors import (
    ArgumentTypeError,
    AxisNameError,
    PositionalAxisError,
    format_value,
)
from namedax.messages.jax_errors import explain_type_errors
from namedax.ops.loops.custom_rules import values_like
from namedax.ops.operands.broadcasting import as_block
from namedax.ops.operands.nmap import nmap
from namedax.ops.operands.pytree import array_of, data_of, flatten, names_of
from namedax.resources import communication as comm
from namedax.resources.padding_masks import masked

__all__ = [
    "Blocks",
    "LinearMap",
    "Space",
    "Stop",
    "bicgstab",
    "conjugate_gradients",
    "gmres",
]

Blocks: TypeAlias = list[jax.Array]  # the blocks of all arrays of a vector
LinearMap: TypeAlias = Callable[[Blocks], Blocks]


class Space(Record):
    """Vectors: pytrees of arrays with the types of `like`, as lists of blocks.

    Attributes:
      op: the solver.
      tree: the structure.
      like: the arrays of the right-hand side, as seen in the body of the region.
      mesh_axes: for each of them, the mesh axes of its named axes.
      places: for each of them, the sharding of every dimension.
      size: the number of unknowns on all devices.
      dtype: the common dtype.
    """

    op: str
    tree: jax.tree_util.PyTreeDef
    like: tuple[AnyArray, ...]
    mesh_axes: tuple[tuple[str, ...], ...]
    places: tuple[tuple[tuple[str, ...], ...], ...]
    size: int
    dtype: np.dtype

    @classmethod
    def of(cls, op: str, b: PyTree) -> Space:
        """Return the vector space of `b`."""
        leaves, tree = flatten(b)
        blocks = [as_block(leaf, op) for leaf in leaves]
        for block in blocks:
            if not jnp.issubdtype(block.dtype, jnp.inexact):
                raise ArgumentTypeError(
                    f"{op}: the right-hand side {type_text(block)} is not floating-point. Write"
                    " b.astype(float)."
                )
        region = ambient()
        places: list[tuple[tuple[str, ...], ...]] = [
            ((),) * len(dims_of(block)) for block in blocks
        ]
        if region is not None and region.manual:
            places = [region.layout(dims_of(block)) for block in blocks]
        mesh_axes = [tuple(axis for place in of_one for axis in place) for of_one in places]
        like = [
            array_of(cast_data(data_of(block), axes), dims_of(block))
            for block, axes in zip(blocks, mesh_axes, strict=True)
        ]
        size = sum(
            math.prod(
                n if dim is None or region is None else region.global_size(dim, n)
                for dim, n in zip(dims_of(leaf), np.shape(data_of(leaf)), strict=True)
            )
            for leaf in like
        )
        return cls(
            op,
            tree,
            tuple(like),
            tuple(mesh_axes),
            tuple(places),
            size,
            jnp.result_type(*map(data_of, like)),
        )

    def data(self, value: PyTree, what: str) -> Blocks:
        """Return the blocks of a vector, in the axes and types of the right-hand side.

        Raises:
          ArgumentTypeError: it has a different structure, or other dtypes.
          NamedAxesLeftError: it has an axis that the right-hand side lacks.
          PositionalAxisError: its positional axes differ.
        """
        fitted = values_like(
            self.op,
            value,
            self.tree.unflatten(self.like),
            what,
            "b",
            "Reduce it, or give `b` that axis.",
        )
        leaves, _ = flatten(fitted)
        for leaf, like in zip(leaves, self.like, strict=True):
            if jnp.result_type(data_of(leaf)) != jnp.result_type(data_of(like)):
                raise ArgumentTypeError(
                    f"{self.op}: {what} is {type_text(leaf)}, but the right-hand side is"
                    f" {type_text(like)}; a linear map preserves the dtype. Cast one of the two."
                )
        return [data_of(leaf) for leaf in leaves]

    def value(self, datas: Sequence[jax.Array]) -> PyTree:
        """Build the vector of these blocks, as an argument for the user's functions."""
        return self.tree.unflatten(
            array_of(data, dims_of(like)) for data, like in zip(datas, self.like, strict=True)
        )

    def without_padding(self, datas: Blocks) -> Blocks:
        """Set the padding to zero, so that it does not contribute to inner products."""
        cleaned = []
        for data, places in zip(datas, self.places, strict=True):
            for dim, place in enumerate(places):
                data = masked(data, dim, place, 0)
            cleaned.append(data)
        return cleaned

    def operator(self, function: object, what: str) -> LinearMap:
        """Build a linear map on blocks.

        Raises:
          AxisNameError: it is an array with named axes.
          ArgumentTypeError: it is neither a function nor a matrix.
        """
        if function is None:
            return lambda datas: datas
        call = _as_function(self.op, function, what)

        def apply(datas: Blocks) -> Blocks:
            with explain_type_errors:
                # Masked on both sides, so that the transposed map has zero for padding too.
                result = self.data(
                    call_user_code(call, self.value(self.without_padding(datas))),
                    f"the result of {what}",
                )
                return self.without_padding(result)

        return apply

    def total(self, parts: Sequence[jax.Array]) -> jax.Array:
        """Sum numbers, one per array, over all devices.

        One all-reduce sums all arrays with the same mesh axes.
        """
        sums: dict[MeshAxes, jax.Array] = {}
        for part, axes in zip(parts, self.mesh_axes, strict=True):
            key = tuple(sorted(axes))
            sums[key] = sums[key] + part if key in sums else part
        whole = [comm.psum(part, axes) if axes else part for axes, part in sums.items()]
        return sum(whole[1:], whole[0])

    def inner(self, x: Blocks, y: Blocks) -> jax.Array:
        """Compute the inner product, which is linear in `y`."""
        return self.total(
            [jnp.vdot(a, b, precision=lax.Precision.HIGHEST) for a, b in zip(x, y, strict=True)]
        )

    def square(self, x: Blocks) -> jax.Array:
        """Compute the squared norm, a real number."""
        return self.inner(x, x).real


def _as_function(op: str, function: object, what: str) -> Callable[..., PyTree]:
    if callable(function):
        return function
    if isinstance(function, NamedArray) and names_of(function.dims):
        raise AxisNameError(
            f"{op}: {what} is the array {type_text(function)}, which does not define the axis to"
            " contract with the vector. Write a function, such as lambda x:"
            f" nx.rename(nx.dot({what}, x, 'column'), {{'row': 'column'}})."
        )
    shape = getattr(function, "shape", None)
    if not hasattr(function, "__matmul__") or shape is None:
        raise ArgumentTypeError(
            f"{op}: {what} must be a function or a square matrix, got {format_value(function)}."
        )
    if len(shape) != 2 or shape[0] != shape[1]:
        raise PositionalAxisError(
            f"{op}: {what} must be a square matrix or a function, got the shape {tuple(shape)}."
        )
    matrix = jnp.asarray(function)
    return lambda x: jax.tree.map(
        nmap(lambda leaf: jnp.dot(matrix, leaf, precision=lax.Precision.HIGHEST)),
        x,
        is_leaf=is_named,
    )


def _plus(x: Blocks, factor: jax.Array | int, y: Blocks) -> Blocks:
    """Compute `x + factor * y`, in the dtypes of `x`."""
    return [(a + factor * b).astype(a.dtype) for a, b in zip(x, y, strict=True)]


def _minus(x: Blocks, y: Blocks) -> Blocks:
    return [a - b for a, b in zip(x, y, strict=True)]


class Stop(Record):
    """The stopping criterion: tolerances and the maximum number of steps."""

    tol: jax.typing.ArrayLike
    atol: jax.typing.ArrayLike
    maxiter: jax.typing.ArrayLike

    def bound(self, space: Space, b: Blocks) -> jax.Array:
        """Return the largest squared norm of a residual that ends the iteration."""
        return jnp.maximum(jnp.square(self.tol) * space.square(b), jnp.square(self.atol))


# The state of a loop: the solution, the residual, the squared norm, the direction, the step.
_CGState: TypeAlias = tuple[Blocks, Blocks, jax.Array, Blocks, jax.Array]


def conjugate_gradients(
    space: Space, a: LinearMap, b: Blocks, x: Blocks, m: LinearMap, stop: Stop
) -> Blocks:
    """Solve `a(x) = b` for a Hermitian, positive definite map, with the preconditioner `m`."""
    bound, dtype = stop.bound(space, b), space.dtype
    r = _minus(b, a(x))
    p = m(r)
    gamma = space.inner(r, p).real.astype(dtype)

    def goes_on(state: _CGState) -> jax.Array:
        _, r, _, _, k = state
        return (space.square(r) > bound) & (k < stop.maxiter)

    def step(state: _CGState) -> _CGState:
        x, r, gamma, p, k = state
        ap = a(p)
        alpha = gamma / space.inner(p, ap).real.astype(dtype)
        x, r = _plus(x, alpha, p), _plus(r, -alpha, ap)
        z = m(r)
        new = space.inner(r, z).real.astype(dtype)
        return x, r, new, _plus(z, new / gamma, p), k + 1

    solution: Blocks = lax.while_loop(goes_on, step, (x, r, gamma, p, jnp.zeros((), int)))[0]
    return solution


# The solution, the residual, alpha, omega, rho, two directions, a breakdown, the step.
_BiCGState: TypeAlias = tuple[
    Blocks, Blocks, jax.Array, jax.Array, jax.Array, Blocks, Blocks, jax.Array, jax.Array
]


def bicgstab(space: Space, a: LinearMap, b: Blocks, x: Blocks, m: LinearMap, stop: Stop) -> Blocks:
    """Solve `a(x) = b` by BiCGSTAB, with the preconditioner `m`."""
    bound, dtype = stop.bound(space, b), space.dtype
    shadow = r = _minus(b, a(x))
    one = jnp.ones((), dtype)

    def goes_on(state: _BiCGState) -> jax.Array:
        _, r, *_, broken, k = state
        return (space.square(r) > bound) & (k < stop.maxiter) & ~broken

    def step(state: _BiCGState) -> _BiCGState:
        x, r, alpha, omega, rho, p, q, _, k = state
        new = space.inner(shadow, r).astype(dtype)
        p = _plus(r, new / rho * alpha / omega, _plus(p, -omega, q))
        direction = m(p)
        q = a(direction)
        alpha = new / space.inner(shadow, q).astype(dtype)
        s = _plus(r, -alpha, q)
        half = _plus(x, alpha, direction)
        second = m(s)
        t = a(second)
        omega = (space.inner(t, s) / space.inner(t, t)).astype(dtype)
        done = space.square(s) < bound  # after half a step

        def choose(one: Blocks, other: Blocks) -> Blocks:
            return [jnp.where(done, u, v) for u, v in zip(one, other, strict=True)]

        x, r = choose(half, _plus(half, omega, second)), choose(s, _plus(s, -omega, t))
        return x, r, alpha, omega, new, p, q, (omega == 0) | (alpha == 0) | (new == 0), k + 1

    state = (x, r, one, one, one, r, r, jnp.zeros((), bool), jnp.zeros((), int))
    # Initially p = q = r, so that the first direction is r + beta * (r - r).
    solution: Blocks = lax.while_loop(goes_on, step, state)[0]
    return solution


# The basis, the triangular factor, the rotations, the right-hand side, a breakdown, the step.
_CycleState: TypeAlias = tuple[Blocks, jax.Array, jax.Array, jax.Array, jax.Array, jax.Array]
# The solution, its residual, the norm of the residual, the number of restarts.
_RestartState: TypeAlias = tuple[Blocks, Blocks, jax.Array, jax.Array]


class _Krylov(Record):
    """One cycle of GMRES: an orthonormal basis of a Krylov space, and the best solution in it.

    Attributes:
      space: the space of the vectors.
      apply: the preconditioned map.
      count: the dimension of the Krylov space.
      early: the norm of the residual that ends the cycle, or `None`.
    """

    space: Space
    apply: LinearMap
    count: int
    early: jax.Array | None

    def correction(self, r: Blocks, norm: jax.Array) -> Blocks:
        """Compute the correction of a solution with the residual `r`, whose norm is `norm`."""
        n, dtype = self.count, self.space.dtype
        start = [data / jnp.where(norm > 0, norm, 1).astype(data.dtype) for data in r]
        basis = [jnp.zeros((n + 1, *data.shape), data.dtype).at[0].set(data) for data in start]
        upper = jnp.eye(n, n + 1, dtype=dtype)  # one column of the triangular factor per row
        rotations = jnp.concatenate(
            [jnp.ones((n, 1), dtype), jnp.zeros((n, 1), dtype)], 1
        )  # Givens rotations, initially the identity
        right = jnp.zeros(n + 1, dtype).at[0].set(norm.astype(dtype))

        def goes_on(state: _CycleState) -> jax.Array:
            _, _, _, right, broken, k = state
            more = (k < n) & ~broken
            return more if self.early is None else more & (jnp.abs(right[k]) > self.early)

        def step(state: _CycleState) -> _CycleState:
            basis, upper, rotations, right, _, k = state
            basis, column, broken = self._extend(basis, k)
            column = lax.fori_loop(0, n, lambda i, c: _rotate(c, i, rotations[i]), column)
            rotation = _givens(column[k], column[k + 1])
            rotations = rotations.at[k].set(rotation)
            upper = upper.at[k].set(_rotate(column, k, rotation))
            return basis, upper, rotations, _rotate(right, k, rotation), broken, k + 1

        start_state = (basis, upper, rotations, right, norm <= 0, jnp.zeros((), int))
        basis, upper, _, right, _, k = lax.while_loop(goes_on, step, start_state)
        weights = _substitute(upper[:, :n].T, jnp.where(jnp.arange(n) < k, right[:n], 0))
        return [
            jnp.tensordot(weights.astype(v.dtype), v[:n], 1, precision=lax.Precision.HIGHEST)
            for v in basis
        ]

    def _extend(self, basis: Blocks, k: jax.Array) -> tuple[Blocks, jax.Array, jax.Array]:
        """Extend the basis by one vector.

        Returns:   The basis, the inner products with the earlier vectors, and `True` at a
        breakdown.
        """
        space = self.space
        v = self.apply([part[k] for part in basis])
        norm = jnp.sqrt(space.square(v))
        passes: list[jax.Array] = []
        for _ in range(2):  # the second pass restores precision lost by rounding
            products = self._project(basis, v)
            passes.append(products)
            v = [
                part
                - jnp.tensordot(products.astype(part.dtype), vs, 1, precision=lax.Precision.HIGHEST)
                for part, vs in zip(v, basis, strict=True)
            ]
        rest = jnp.sqrt(space.square(v))
        broken = rest <= jnp.finfo(space.dtype).eps * norm
        rest = jnp.where(broken, 0, rest)
        scale = jnp.where(broken, 0, 1 / jnp.where(broken, 1, rest))
        basis = [
            vs.at[k + 1].set(scale.astype(vs.dtype) * part)
            for vs, part in zip(basis, v, strict=True)
        ]
        column = passes[0] + passes[1]
        return basis, column.at[k + 1].set(rest.astype(column.dtype)), broken

    def _project(self, basis: Blocks, v: Blocks) -> jax.Array:
        """Compute the inner products with all vectors of the basis, by one all-reduce."""
        parts = [
            jnp.tensordot(
                jnp.conj(vs),
                part,
                (tuple(range(1, vs.ndim)), tuple(range(part.ndim))),
                precision=lax.Precision.HIGHEST,
            )
            for vs, part in zip(basis, v, strict=True)
        ]
        return self.space.total(parts).astype(self.space.dtype)


def gmres(
    restart: int,
    early: bool,
    space: Space,
    a: LinearMap,
    b: Blocks,
    x: Blocks,
    m: LinearMap,
    stop: Stop,
) -> Blocks:
    """Solve `a(x) = b` by GMRES, with the preconditioner `m`.

    It restarts after `restart` steps, or `early` if the residual is small.
    """
    norm = jnp.sqrt(space.square(b))
    small = jnp.maximum(stop.tol * norm, stop.atol)
    end = (
        jnp.sqrt(space.square(m(b))) * jnp.minimum(1.0, small / jnp.where(norm > 0, norm, 1))
        if early
        else None
    )
    krylov = _Krylov(space, lambda x: m(a(x)), min(restart, space.size), end)

    def residual(x: Blocks) -> tuple[Blocks, jax.Array]:
        r = m(_minus(b, a(x)))
        return r, jnp.sqrt(space.square(r))

    def step(state: _RestartState) -> _RestartState:
        x, r, norm, k = state
        x = _plus(x, 1, krylov.correction(r, norm))
        return x, *residual(x), k + 1

    start = (x, *residual(x), jnp.zeros((), int))
    solution: Blocks = lax.while_loop(
        lambda state: (state[3] < stop.maxiter) & (state[2] > small), step, start
    )[0]
    return solution


def _givens(a: jax.Array, b: jax.Array) -> jax.Array:
    """Return the rotation that maps `(a, b)`, with `b` real, to `(length, 0)`."""
    length = jnp.sqrt(jnp.square(jnp.abs(a)) + jnp.square(jnp.abs(b)))
    safe = jnp.where(length > 0, length, 1).astype(a.dtype)
    return jnp.where(
        length > 0, jnp.stack([jnp.conj(a) / safe, b / safe]), jnp.array([1, 0], a.dtype)
    )


def _rotate(vector: jax.Array, i: jax.Array, rotation: jax.Array) -> jax.Array:
    c, s = rotation
    first, second = vector[i], vector[i + 1]
    return vector.at[i].set(c * first + s * second).at[i + 1].set(-s * first + jnp.conj(c) * second)


def _substitute(upper: jax.Array, right: jax.Array) -> jax.Array:
    """Solve a small triangular system, with 0 for unknowns with a zero pivot."""
    n = upper.shape[0]

    def row(j: jax.Array, x: jax.Array) -> jax.Array:
        i = n - 1 - j
        pivot = upper[i, i]
        value = (right[i] - jnp.dot(upper[i], x, precision=lax.Precision.HIGHEST)) / jnp.where(
            pivot == 0, 1, pivot
        )
        return x.at[i].set(jnp.where(pivot == 0, 0, value))

    return lax.fori_loop(0, n, row, jnp.zeros_like(right))
