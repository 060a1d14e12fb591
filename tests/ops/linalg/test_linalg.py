"""Decompositions by axis names, in every placement; the oracles are `jnp.linalg` and NumPy."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import namedax as nx
from tests.harness import PLACEMENTS, array, check

la = nx.linalg
IN = ["a", "b", "c"]
CHOSEN = [
    p for p in PLACEMENTS if str(p) in ("unmapped-auto", "one-each-auto", "both-explicit", "two-reversed-auto", "b-blocks-auto")
]


def separated(batch=3, m=8, n=4):
    """Matrices with singular values that differ, so that gradients of vectors are well defined."""
    rng = np.random.default_rng(3)
    u = np.stack([np.linalg.qr(rng.normal(size=(m, n)))[0] for _ in range(batch)])
    v = np.stack([np.linalg.qr(rng.normal(size=(n, n)))[0] for _ in range(batch)])
    s = np.array([4.0, 2.5, 1.5, 0.8])[:n] * (1 + 0.1 * np.arange(batch)[:, None])
    return jnp.asarray(np.moveaxis((u * s[:, None]) @ v.swapaxes(1, 2), 0, 2), jnp.float32)


def positive(q, r):
    sign = jax.lax.stop_gradient(jnp.sign(jnp.diagonal(r, axis1=-2, axis2=-1)))
    return q * sign[..., None, :], r * sign[..., None]


def named_tall(x, y):
    u, s, vh = la.svd(x, "a", "b")
    leading = la.svd(x, "a", "b", modes=2, mode="k")
    q, r = la.qr(x, "a", "b")
    fit = la.lstsq(x, y, "a", "b")
    return {
        "s": s,
        "u": u * u,
        "vh": vh * vh,
        "leading": nx.dot(leading.U * leading.S, leading.Vh, "k"),
        "q": q,
        "r": r,
        "pinv": la.pinv(x, "a", "b"),
        "lstsq": fit.solution,
        "residuals": fit.residuals,
        "norms": nx.stack([la.norm(x, "a", "b", ord=o) for o in (None, 1, -np.inf, 2, -2, "nuc")], axis="q"),
    }


def plain_tall(x, y):
    x, y = jnp.moveaxis(x, 2, 0), y.T
    u, s, vh = jnp.linalg.svd(x, full_matrices=False)
    q, r = positive(*jnp.linalg.qr(x))
    pinv = jnp.linalg.pinv(x)
    fit = (pinv @ y[..., None])[..., 0]
    return {
        "s": s,
        "u": u * u,
        "vh": vh * vh,
        "leading": (u[..., :2] * s[..., None, :2]) @ vh[..., :2, :],
        "q": q,
        "r": r,
        "pinv": pinv,
        "lstsq": fit,
        "residuals": jnp.sum((y - (x @ fit[..., None])[..., 0]) ** 2, -1),
        "norms": jnp.stack([jnp.linalg.norm(x, o, (1, 2)) for o in (None, 1, -np.inf, 2, -2, "nuc")], 1),
    }


OUT_TALL = {
    "s": ["c", "mode"],
    "u": ["c", "a", "mode"],
    "vh": ["c", "mode", "b"],
    "leading": ["c", "a", "b"],
    "q": ["c", "a", "mode"],
    "r": ["c", "mode", "b"],
    "pinv": ["c", "b", "a"],
    "lstsq": ["c", "b"],
    "residuals": ["c"],
    "norms": ["c", "q"],
}


@pytest.mark.fast(1)
@pytest.mark.full(1)
@pytest.mark.parametrize("placement", CHOSEN, ids=str)
def test_tall_matrices_in_every_placement(placement):
    check(named_tall, plain_tall, (separated(), array(8, 3, seed=1)), (IN, ["a", "c"]), OUT_TALL, placement, tol=1e-4)


def named_wide(x):
    y = nx.rename(x, {"b": "rows"})
    u, s, vh = la.svd(y, "rows", "a")
    return {
        "s": s,
        "u": u * u,
        "vh": vh * vh,
        "pinv": la.pinv(y, "rows", "a"),
        "nuc": nx.norm(y, "nuc", ("rows", "a")),
        "q": la.qr(y, "rows", "a").Q,
        "r": la.qr(y, "rows", "a").R,
    }


def plain_wide(x):
    y = jnp.moveaxis(x, 2, 0).swapaxes(1, 2)
    u, s, vh = jnp.linalg.svd(y, full_matrices=False)
    q, _ = positive(*jnp.linalg.qr(y[..., :4]))
    return {
        "s": s,
        "u": u * u,
        "vh": vh * vh,
        "pinv": jnp.linalg.pinv(y),
        "nuc": jnp.linalg.norm(y, "nuc", (1, 2)),
        "q": q,
        "r": jnp.triu(q.swapaxes(1, 2) @ y),
    }


OUT_WIDE = {
    "s": ["c", "mode"],
    "u": ["c", "rows", "mode"],
    "vh": ["c", "mode", "a"],
    "pinv": ["c", "a", "rows"],
    "nuc": ["c"],
    "q": ["c", "rows", "mode"],
    "r": ["c", "mode", "a"],
}


def named_square(x, y):
    """`x'x` is symmetric and positive definite."""
    square = nx.einsum("{a,b,c},{a,other:b,c}->{b,other,c}", x, x)
    values, vectors = la.eigh(square, "b", "other")
    return {
        "values": values,
        "vectors": vectors * vectors,
        "cholesky": la.cholesky(square, "b", "other"),
        "det": la.det(square, "b", "other"),
        "solve": la.solve(square, y, "b", "other"),
    }


def plain_square(x, y):
    x = jnp.moveaxis(x, 2, 0)
    square = x.swapaxes(1, 2) @ x
    values, vectors = jnp.linalg.eigh(square)
    return {
        "values": values,
        "vectors": vectors * vectors,
        "cholesky": jnp.linalg.cholesky(square),
        "det": jnp.linalg.det(square),
        "solve": jnp.linalg.solve(square, y),
    }


OUT_SQUARE = {
    "values": ["c", "mode"],
    "vectors": ["c", "b", "mode"],
    "cholesky": ["c", "b", "other"],
    "det": ["c"],
    "solve": ["c", "other", "a"],
}


@pytest.mark.fast(1)
@pytest.mark.full(1)
@pytest.mark.parametrize(
    "placement", [p for p in PLACEMENTS if str(p) in ("unmapped-auto", "two-mesh-axes-explicit", "b-blocks-auto")], ids=str
)
def test_wide_matrices_in_every_placement(placement):
    check(named_wide, plain_wide, (separated(),), (IN,), OUT_WIDE, placement, tol=1e-4)


@pytest.mark.fast(1)
@pytest.mark.full(1)
@pytest.mark.parametrize("placement", [p for p in CHOSEN if "one" not in str(p)], ids=str)
def test_square_matrices_in_every_placement(placement):
    args = separated(), array(4, 8, seed=2)
    check(named_square, plain_square, args, (IN, ["b", "a"]), OUT_SQUARE, placement, tol=1e-4)
