"""Factorizations of tall matrices whose rows are sharded: QR, singular values, pseudoinverse.

The functions act on blocks `(..., rows of this device, columns)` and take the mesh axes of the
rows. They need no more rows than columns on a device, and never gather the rows (TSQR): every
device factors its block, all devices gather the triangular factors, and factor them in turn. These
are Householder factorizations, so small singular values are as accurate as without sharding; a Gram
matrix would square their relative error.

Signs are fixed, since results must not depend on the sharding. The diagonal of a triangular factor
is not negative. For each singular vector of the columns, the first element of largest magnitude is
positive.

Every function has its own derivative rule. The rule needs one all-reduce of small matrices, and is
defined where a block alone has no full rank. It is differentiable again.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from namedax.core.names import MeshAxes
from namedax.core.variance import cast_data, varying
from namedax.resources import communication as comm

__all__ = ["adjoint", "matmul", "pinv", "positive_first", "qr", "singular_values", "svd"]

#: Elements within this factor of the largest one count as largest, so that rounding decides less.
_NEARLY_LARGEST = 0.99


def adjoint(x: jax.Array) -> jax.Array:
    """Return the conjugate transposes of matrices."""
    return jnp.conj(x.swapaxes(-1, -2))


def matmul(x: jax.Array, y: jax.Array) -> jax.Array:
    """Multiply matrices in full precision, with a common device variance."""
    everywhere = varying(x) | varying(y)
    return jnp.matmul(cast_data(x, everywhere), cast_data(y, everywhere), precision="highest")


def _psum(x: jax.Array, axes: MeshAxes) -> jax.Array:
    return comm.psum(x, axes) if axes else x


# --- QR -------------------------------------------------------------------------------------------


def _phases(x: jax.Array) -> jax.Array:
    """Return `x / |x|`, and 1 for 0, as constants."""
    x = lax.stop_gradient(x)
    return jnp.where(x == 0, jnp.ones_like(x), x / jnp.where(x == 0, 1, jnp.abs(x)))


def _factored(x: jax.Array, has_zeros: bool) -> tuple[jax.Array, jax.Array]:
    """Return the QR factors of complete matrices, with a diagonal of `r` that is not negative.

    With `has_zeros`, rows of zeros come last, because a pivot in padding would be lost.
    """
    if has_zeros:
        order = jnp.argsort(jnp.all(x == 0, -1), axis=-1, stable=True)
        x = jnp.take_along_axis(x, order[..., None], -2)
    q, r = jnp.linalg.qr(x)
    phases = _phases(jnp.diagonal(r, axis1=-2, axis2=-1))
    q, r = q * phases[..., None, :], r * jnp.conj(phases)[..., None]
    if has_zeros:
        q = jnp.take_along_axis(q, jnp.argsort(order, axis=-1)[..., None], -2)
    return q, r


def _of_blocks(
    x: jax.Array, axes: MeshAxes, is_padded: bool
) -> tuple[Callable[[], jax.Array], jax.Array]:
    """Return a function that computes this device's block of `q`, and `r`."""
    if not axes:
        q, r = _factored(x, has_zeros=False)
        return lambda: q, r
    dim = x.ndim - 2
    is_tall = x.shape[-2] > x.shape[-1]
    own, part = _factored(x, is_padded) if is_tall else (None, x)
    all_q, r = _factored(comm.all_gather(part, dim, axes, "invarying"), is_padded)

    def block() -> jax.Array:
        cut = comm.cut(all_q, dim, axes)
        return cut if own is None else matmul(own, cut)

    return block, r


@functools.lru_cache(maxsize=256)
def qr(axes: MeshAxes = (), is_padded: bool = False) -> Callable[..., Any]:
    """Build the QR factorization of matrices with at least as many rows as columns.

    Args:
      axes: the mesh axes of the rows; default: none.
      is_padded: True if rows of zeros at the end of blocks are padding; default: False.
    """

    @jax.custom_jvp
    def factors(x: jax.Array) -> tuple[jax.Array, jax.Array]:
        block, r = _of_blocks(x, axes, is_padded)
        return block(), r

    @factors.defjvp
    def _jvp(primals: tuple[Any], tangents: tuple[Any]) -> tuple[Any, Any]:
        q, r = factors(*primals)
        (dx,) = tangents
        everywhere = varying(dx) | varying(q)
        slope = lax.linalg.triangular_solve(cast_data(r, everywhere), cast_data(dx, everywhere))
        inner = _psum(matmul(adjoint(q), slope), axes)
        lower = jnp.tril(inner, -1)
        turn = lower - adjoint(lower)
        if jnp.iscomplexobj(inner):
            turn = turn + jnp.eye(inner.shape[-1], dtype=inner.dtype) * (1j * inner.imag)
        return (q, r), (matmul(q, turn - inner) + slope, matmul(inner - turn, r))

    return factors


# --- singular values ------------------------------------------------------------------------------


def positive_first(rows: jax.Array) -> jax.Array:
    """Return factors of modulus 1 for vectors along the last axis.

    The product with its factor makes the first element of largest magnitude of a vector positive.
    """
    size = jnp.abs(lax.stop_gradient(rows))
    first = jnp.argmax(size >= _NEARLY_LARGEST * size.max(-1, keepdims=True), -1)
    return jnp.conj(_phases(jnp.take_along_axis(rows, first[..., None], -1)[..., 0]))


def _reciprocal(x: jax.Array) -> jax.Array:
    """Return `1 / x`, and 0 for 0."""
    is_zero = x == 0
    return jnp.where(is_zero, 0, 1 / jnp.where(is_zero, 1, x)).astype(x.dtype)


@functools.lru_cache(maxsize=256)
def svd(axes: MeshAxes = (), is_padded: bool = False) -> Callable[..., Any]:
    """Build the reduced singular value decomposition `u, s, vh` of tall matrices; see `qr`."""

    @jax.custom_jvp
    def factors(x: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        if axes:
            block, r = _of_blocks(x, axes, is_padded)
            u, s, vh = jnp.linalg.svd(r, full_matrices=False)
        else:
            u, s, vh = jnp.linalg.svd(x, full_matrices=False)
        phases = positive_first(vh)
        u, vh = u * jnp.conj(phases)[..., None, :], vh * phases[..., None]
        return (matmul(block(), u) if axes else u), s, vh

    @factors.defjvp
    def _jvp(primals: tuple[Any], tangents: tuple[Any]) -> tuple[Any, Any]:
        u, s, vh = factors(*primals)
        product = matmul(tangents[0], adjoint(vh))
        inner = _psum(matmul(adjoint(u), product), axes)
        row = s[..., None, :]
        column = row.swapaxes(-1, -2)
        gaps = _reciprocal((row + column) * (row - column))
        of_u, of_v = row * inner, column * inner
        half = 0.5 * (inner - adjoint(inner)) * jnp.eye(s.shape[-1]) * _reciprocal(row)
        turn_u = gaps * (of_u + adjoint(of_u)) + half.astype(inner.dtype)
        turn_v = gaps * (of_v + adjoint(of_v))
        outside = (product - matmul(u, inner)) * cast_data(_reciprocal(row), varying(u))
        ds = jnp.real(jnp.diagonal(inner, axis1=-2, axis2=-1))
        du = matmul(u, turn_u) + outside
        return (u, s, vh), (du, ds, adjoint(matmul(adjoint(vh), turn_v)))

    return factors


@functools.lru_cache(maxsize=256)
def singular_values(axes: MeshAxes = (), is_padded: bool = False) -> Callable[..., jax.Array]:
    """Build the singular values of tall matrices, in descending order; see `qr`."""

    @jax.custom_jvp
    def values(x: jax.Array) -> jax.Array:
        if axes:
            x = _of_blocks(x, axes, is_padded)[1]
        return jnp.linalg.svd(x, compute_uv=False)

    @values.defjvp
    def _jvp(primals: tuple[Any], tangents: tuple[Any]) -> tuple[Any, Any]:
        u, s, vh = svd(axes, is_padded)(*primals)
        slope = matmul(tangents[0], adjoint(vh))
        return s, _psum(jnp.real(jnp.sum(jnp.conj(u) * slope, -2)), axes)

    return values


# --- the pseudoinverse ----------------------------------------------------------------------------


@functools.lru_cache(maxsize=256)
def pinv(axes: MeshAxes = (), is_padded: bool = False) -> Callable[..., Any]:
    """Build the pseudoinverses, and the singular values, of tall matrices; see `qr`.

    The second argument of the function is the largest ratio of a singular value to the greatest one
    that counts as zero. The columns of the result are sharded as the rows of the argument. The
    derivative is that of matrices of constant rank.
    """

    @jax.custom_jvp
    def inverses(x: jax.Array, ratio: jax.Array) -> tuple[jax.Array, jax.Array]:
        u, s, vh = svd(axes, is_padded)(x)
        known = s > ratio[..., None] * s[..., :1]
        inverted = jnp.where(known, _reciprocal(s), 0)
        inverted = jnp.where(jnp.isnan(s), jnp.nan, inverted)
        return matmul(adjoint(vh) * inverted[..., None, :].astype(vh.dtype), adjoint(u)), s

    @inverses.defjvp
    def _jvp(primals: tuple[Any, Any], tangents: tuple[Any, Any]) -> tuple[Any, Any]:
        x, ratio = primals
        dx = tangents[0]
        p, s = inverses(x, ratio)
        ds = jax.jvp(singular_values(axes, is_padded), (x,), (dx,))[1]
        square, projection = _psum(jnp.stack([matmul(p, adjoint(p)), matmul(p, x)]), axes)
        moved, gram = _psum(jnp.stack([matmul(p, dx), matmul(adjoint(dx), x)]), axes)
        left = adjoint(moved) - matmul(projection, adjoint(moved)) - moved - matmul(square, gram)
        return (p, s), (matmul(square, adjoint(dx)) + matmul(left, p), ds)

    return inverses
