"""Decompositions over axes in steps, padded, stored padded, and of placed arrays; their bytes; and the few modes of a large matrix."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import namedax as nx
from tests.harness import make_mesh
from tests.make import put

la = nx.linalg


def data(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def field(rows, columns, seed=0):
    """A matrix whose singular values fall by half each."""
    n = min(rows, columns, 6)
    u, v = np.linalg.qr(data(rows, n, seed=seed))[0], np.linalg.qr(data(columns, n, seed=seed + 1))[0]
    return ((u * 8 * 0.5 ** np.arange(n)) @ v.T).astype(np.float32)


def products(x):
    """What does not depend on signs, of both factorizations."""
    u, s, vh = la.svd(x, ("t", "t2"), "k")
    q, r = la.qr(x, ("t", "t2"), "k")
    return (
        s,
        nx.dot(u * s, vh, "mode"),
        nx.dot(q, r, "mode"),
        nx.dot(u, nx.rename(u, mode="m2"), ("t", "t2")),
        la.pinv(x, ("t", "t2"), "k"),
    )


def expected(x):
    flat = x.reshape(-1, x.shape[-1])
    inverse = np.linalg.pinv(flat)
    return np.linalg.svd(flat)[1], x, x, np.eye(x.shape[-1]), inverse.T.reshape(x.shape)


def agree(have, x):
    orders = ["mode"], ["t", "t2", "k"], ["t", "t2", "k"], ["mode", "m2"], ["t", "t2", "k"]
    for one, order, want in zip(have, orders, expected(x), strict=True):
        np.testing.assert_allclose(nx.positional(one, order), want, atol=3e-5)


LAYOUTS = {
    "padded": {"t": "x", "k": "y"},
    "both padded": {"t": "x", "t2": "y"},
    "two mesh axes": {"t": ("y", "x")},
    "steps": {"t2": nx.SerialLoop(3)},
    "steps on devices": {"t": ("x", nx.SerialLoop(2)), "k": "y"},
}


@pytest.mark.fast(0)
@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_two_axes_as_rows_padded_and_in_steps(layout):
    x = data(8 if "SerialLoop" in str(layout) else 7, 3, 4)
    mapped = nx.xmap(products, axis_resources=layout, mesh=make_mesh((4, 2)))
    agree(mapped(nx.named(put(x), ["t", "t2", "k"])), x)


@pytest.mark.fast(0)
@pytest.mark.parametrize(("rows", "layout"), [(11, {"t": "x"}), (12, {"t": nx.SerialLoop(4)})], ids=["padded", "steps"])
def test_gradients_of_padded_rows_and_of_rows_in_steps(rows, layout):
    def loss(x):
        u, s, _ = la.svd(x, "t", "k")
        return nx.sum(s**3, "mode") + nx.sum(u**4, ("t", "mode")) + nx.sum(la.qr(x, "t", "k").R ** 3, ("mode", "k"))

    def plain(x):
        u, s, _ = jnp.linalg.svd(x, full_matrices=False)
        r = jnp.linalg.qr(x)[1]
        r = r * jax.lax.stop_gradient(jnp.sign(jnp.diagonal(r)))[:, None]
        return jnp.sum(s**3) + jnp.sum(u**4) + jnp.sum(r**3)

    x = put(field(rows, 3) + 0.1 * data(rows, 3))
    mapped = nx.xmap(loss, axis_resources=layout, mesh=make_mesh((4, 2)))
    have = jax.jit(jax.grad(mapped))(nx.named(x, ["t", "k"]))
    np.testing.assert_allclose(nx.positional(have, ["t", "k"]), jax.grad(plain)(x), rtol=1e-3, atol=1e-3)


def test_padding_takes_no_part_in_matrices_without_full_rank():
    """A pivot in a padded row would take an orthonormal vector away from the real rows."""
    x = np.zeros((5, 3, 4), np.float32)
    x[..., 0] = data(5, 3)
    mapped = nx.xmap(products, axis_resources={"t": "x", "t2": "y"}, mesh=make_mesh((4, 2)))
    agree(mapped(nx.named(put(x), ["t", "t2", "k"])), x)


@pytest.mark.fast(0)
@pytest.mark.full(1)
@pytest.mark.parametrize("kind", ["explicit", "auto"])
@pytest.mark.parametrize("rows", [8, 7])
def test_placed_arrays_outside_of_bodies(kind, rows):
    x = data(rows, 3, 4)
    placed = nx.shard(nx.named(put(x), ["t", "t2", "k"]), {"t": "x"}, make_mesh((4, 2), kind), padded=rows % 4 != 0)
    agree(products(placed), x)
    np.testing.assert_allclose(nx.norm(placed["t2", 0], "nuc", ("t", "k")), np.linalg.norm(x[:, 0], "nuc"), rtol=1e-5)
    agree(jax.jit(products)(placed), x)


def test_bytes():
    """The triangular factors of eight devices; the rule of the derivative adds one small all-reduce. Nothing of the size of the matrix."""
    mesh, n = make_mesh((8,)), 5
    x = nx.named(put(data(96, n)), ["t", "k"])
    factors = {"all-gather": (1, 8 * n * n * 4)}

    def sent(f):
        return nx.explain(nx.xmap(f, axis_resources={"t": "x"}, mesh=mesh), x).summary()

    for f in (la.svd, la.qr, la.pinv):
        assert sent(lambda x, f=f: f(x, "t", "k")) == factors
    assert sent(lambda x: la.svd(x, "k", "t")) == factors
    assert sent(lambda x: nx.norm(x, 2, ("t", "k"))) == factors
    assert sent(lambda x: la.qr(x, "k", "t")) == {"all-reduce": (1, n * n * 4)}
    assert sent(jax.grad(lambda x: nx.sum(la.svd(x, "t", "k").S ** 3, "mode"))) == factors
    assert sent(jax.grad(lambda x: nx.sum(la.qr(x, "t", "k").R ** 3, ("mode", "k")))) == factors
    both = sent(jax.grad(lambda x: nx.sum(la.svd(x, "t", "k").U ** 3, ("mode", "t"))))
    assert both["all-gather"] == factors["all-gather"]
    assert both["all-reduce"][1] <= 2 * n * n * 4
    placed = nx.shard(x, {"t": "x"}, make_mesh((8,), "explicit"))
    compiled = jax.jit(lambda x: la.svd(x, "t", "k")).lower(placed).compile()
    assert [(c.kind, c.bytes) for c in nx.hlo.collectives(compiled)] == [("all-gather", 8 * n * n * 4)]


@pytest.mark.fast(1)
@pytest.mark.parametrize("layout", [{"t": "x", "k": "y"}, {}], ids=str)
def test_few_modes_of_a_large_matrix_at_random(layout):
    x = field(48, 24)
    key = jax.random.key(0)

    def few(x):
        u, s, vh = la.svd(x, "t", "k", modes=3, key=key, oversampling=2)
        return s, nx.dot(u * s, vh, "mode")

    mapped = nx.xmap(few, axis_resources=layout, mesh=make_mesh((4, 2)))
    named = nx.named(put(x), ["t", "k"])
    s, product = mapped(named)
    u, want, vh = np.linalg.svd(x, full_matrices=False)
    np.testing.assert_allclose(s.data, want[:3], rtol=1e-5)
    np.testing.assert_allclose(nx.positional(product, ["t", "k"]), (u[:, :3] * want[:3]) @ vh[:3], atol=1e-4)
    if layout.get("k"):
        gathered = [c.bytes for c in nx.explain(mapped, named).collectives if c.kind == "all-gather"]
        assert max(gathered) < x.nbytes / 4


def _eof(x, weights, known):
    """The program of NumPy."""
    with np.errstate(all="ignore"):
        mean = np.where(known, x, 0).sum(0) / known.sum(0)
    centered = np.where(known, x - mean, 0) * np.sqrt(weights)
    u, s, vh = np.linalg.svd(centered, full_matrices=False)
    return mean, s, s**2 / (len(x) - 1), s**2 / np.sum(s**2), u * s @ vh


@pytest.mark.fast(1)
@pytest.mark.parametrize("layout", [{"lat": "x"}, {"time": "x", "lat": "y"}], ids=str)
def test_pca_is_the_svd_of_weighted_deviations(layout):
    x = data(8, 4, 3) + 3
    land = np.zeros((4, 3), bool)
    land[1, 2] = land[3, 0] = True
    x[:, land] = np.nan
    x[2, 0, 0] = np.nan
    known, weights = ~np.isnan(x), np.cos(np.linspace(-1, 1, 4))

    def eof(x, w):
        found = la.pca(x, "time", ("lat", "lon"), weights=w, where=~nx.isnan(x))
        return found, nx.dot(found.scores, found.components, "mode")

    mapped = nx.xmap(eof, axis_resources=layout, mesh=make_mesh((4, 2)))
    found, product = mapped(nx.named(put(x), ["time", "lat", "lon"]), nx.named(put(weights), ["lat"]))
    wanted = _eof(x.reshape(8, -1), np.repeat(weights, 3), known.reshape(8, -1))
    have = (
        nx.positional(found.mean, ["lat", "lon"]).reshape(-1),
        *(
            nx.positional(one, ["mode"])
            for one in (found.singular_values, found.explained_variance, found.explained_variance_ratio)
        ),
        nx.positional(product, ["time", "lat", "lon"]).reshape(8, -1),
    )
    for one, want in zip(have, wanted, strict=True):
        np.testing.assert_allclose(one, want, atol=3e-5)
    components = nx.positional(found.components, ["mode", "lat", "lon"])
    np.testing.assert_allclose(components[:7, land], 0, atol=1e-6)  # the last mode has no variance


def test_nan_is_in_the_results_and_a_mask_takes_it_out():
    x = field(8, 4)
    holes = x.copy()
    holes[2, 1] = np.nan
    named = nx.named(put(holes), ["t", "k"])
    for layout in ({}, {"t": "x"}):
        mapped = nx.xmap(
            lambda x: (la.svd(x, "t", "k").S, la.svd(x, "t", "k", where=~nx.isnan(x)).S),
            axis_resources=layout,
            mesh=make_mesh((4, 2)),
        )
        all_nan, masked = mapped(named)
        assert np.all(np.isnan(all_nan.data))
        np.testing.assert_allclose(masked.data, np.linalg.svd(np.nan_to_num(holes))[1], atol=1e-5)


def test_other_element_types():
    x = data(12, 3) + 1j * data(12, 3, seed=1)
    mesh = make_mesh((4, 2))

    def rebuilt(x):
        u, s, vh = la.svd(x, "t", "k")
        q, r = la.qr(x, "t", "k")
        return s, nx.dot(u * s, vh, "mode"), nx.dot(q, r, "mode"), la.pinv(x, "t", "k"), r

    mapped = nx.xmap(rebuilt, axis_resources={"t": "x"}, mesh=mesh)
    s, *both, inverse, r = mapped(nx.named(jnp.asarray(x), ["t", "k"]))
    np.testing.assert_allclose(s.data, np.linalg.svd(x)[1], rtol=1e-5)
    for one in both:
        np.testing.assert_allclose(nx.positional(one, ["t", "k"]), x, atol=1e-5)
    np.testing.assert_allclose(nx.positional(inverse, ["k", "t"]), np.linalg.pinv(x), atol=1e-5)
    diagonal = np.diagonal(nx.positional(r, ["mode", "k"]))
    np.testing.assert_allclose(diagonal.imag, 0, atol=1e-6)
    assert np.all(diagonal.real > 0)

    def real(x):
        q = la.qr(x, "t", "k").Q
        return nx.sum((q * q).real ** 2, ("t", "mode"))

    def plain(x):
        q, r = jnp.linalg.qr(x)
        q = q * jax.lax.stop_gradient(jnp.sign(jnp.diagonal(r)))
        return jnp.sum((q * q).real ** 2)

    have = jax.grad(nx.xmap(real, axis_resources={"t": "x"}, mesh=mesh))(nx.named(jnp.asarray(x), ["t", "k"]))
    np.testing.assert_allclose(have.data, jax.grad(plain)(jnp.asarray(x)), atol=1e-4)
    narrow = la.svd(nx.named(put(x.real), ["t", "k"]).astype(jnp.bfloat16), "t", "k")
    assert {one.dtype for one in narrow} == {jnp.dtype(jnp.bfloat16)}
    integers = la.svd(nx.named(jnp.arange(12).reshape(4, 3), ["t", "k"]), "t", "k")
    assert integers.S.dtype == jnp.mean(jnp.arange(3)).dtype


@pytest.mark.fast(0)
def test_second_derivatives():
    x = put(field(8, 3) + 0.1 * data(8, 3))

    def loss(x):
        return nx.sum(la.svd(x, "t", "k").S ** 3, "mode") + nx.sum(la.pinv(x, "t", "k") ** 2, ("t", "k"))

    def plain(x):
        return jnp.sum(jnp.linalg.svd(x, full_matrices=False, compute_uv=False) ** 3) + jnp.sum(jnp.linalg.pinv(x) ** 2)

    def slope(f, x, v):
        return jax.jvp(jax.grad(f), (x,), (v,))[1]

    mapped = nx.xmap(loss, axis_resources={"t": "x"}, mesh=make_mesh((4, 2)))
    v = put(data(8, 3, seed=5))
    have = jax.jit(lambda x, v: slope(mapped, x, v))(nx.named(x, ["t", "k"]), nx.named(v, ["t", "k"]))
    want = slope(plain, x, v)
    np.testing.assert_allclose(have.data, want, rtol=2e-3, atol=2e-3 * float(jnp.abs(want).max()))
