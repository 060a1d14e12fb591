"""Attention whose scores are limited by `soft_cap`, in every form, against the formula."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import namedax as nx
from namedax.errors import ArgumentError
from tests import make
from tests.harness import PARTITIONER, PLACEMENTS, Placement, array, check, make_mesh, said

attention = nx.nn.dot_product_attention
CAP = 1.5


def capped(q, k, v, bias, allowed, cap=CAP, scale=1.1):
    """q[b,t,h,d], k[b,s,h,d], v[b,s,h,e]; bias and allowed broadcast to [b,h,t,s]. Zero where nothing is allowed."""
    scores = jnp.einsum("bthd,bshd->bhts", q, k) * scale
    scores = jnp.tanh(scores / cap) * cap + bias
    weights = jnp.where(allowed, jax.nn.softmax(jnp.where(allowed, scores, -1e30)), 0)
    return jnp.einsum("bhts,bshe->bthe", weights, v)


RING = [p for p in PLACEMENTS if str(p) in ("unmapped-auto", "one-each-auto", "both-explicit", "two-mesh-axes-auto")]
RING += [
    PARTITIONER[3],
    Placement("uneven", (3, 2), (("a", "x"), ("h", "y"))),
    Placement("features", (4, 2), (("a", "x"), ("d", "y"), ("e", "y")), "explicit"),
    Placement("steps", (4,), (("a", "x"), ("b", nx.SerialLoop(2)))),
]


@pytest.mark.full(1)
@pytest.mark.fast(1)
@pytest.mark.parametrize("placement", RING, ids=str)
def test_unmapped_and_around_the_ring(placement):
    """The cap comes before the bias and the masks; the gradients of all operands are those of the formula."""

    def named(q, k, v, bias):
        options = {"axis": "a", "features": "d", "soft_cap": CAP, "scale": 1.1}
        return attention(q, k, v, bias, **options, is_causal=True), attention(q, k, v, **options, local_window_size=(2, 1))

    def oracle(q, k, v, bias):
        i, j = jnp.arange(8)[:, None], jnp.arange(8)
        window = (i - j <= 2) & (j - i <= 1)
        return capped(q, k, v, bias, j <= i), capped(q, k, v, 0.0, window)

    args = (2 * array(4, 8, 2, 5), array(4, 8, 2, 5, seed=1), array(4, 8, 2, 6, seed=2), array(8, 8))
    axes, out = ["b", "a", "h", "d"], ["b", "a", "h", "e"]
    check(named, jax.jit(oracle), args, (axes, axes, out, ["a", "key_a"]), (out, out), placement)


KEYS = [
    Placement("keys", (4, 2), (("s", ("y", "x")),), "explicit"),
    Placement("apart", (4, 2), (("t", "x"), ("s", "y"))),
    Placement("keys-on-more", (4, 2), (("t", "y"), ("s", ("x", "y")))),
    Placement("uneven-keys", (3,), (("s", "x"),)),
]


@pytest.mark.fast(1)
@pytest.mark.parametrize("placement", KEYS, ids=str)
def test_sharded_keys(placement):
    def named(q, k, v, lengths):
        names = {"axis": "t", "key_axis": "s", "features": "d"}
        return attention(q, k, v, **names, key_value_seq_lengths=lengths, soft_cap=CAP, scale=1.1)

    def oracle(q, k, v, lengths):
        allowed = jnp.arange(16) < lengths[:, None, None, None]
        return capped(q[:, :, None], k[:, :, None], v[:, :, None], 0.0, allowed)[:, :, 0]

    args = (2 * array(2, 8, 5), array(2, 16, 5), array(2, 16, 3), jnp.array([5, 16]))
    axes = (["b", "t", "d"], ["b", "s", "d"], ["b", "s", "e"], ["b"])
    check(named, jax.jit(oracle), args, axes, ["b", "t", "e"], placement)


@pytest.mark.full(0)
@pytest.mark.fast(0)
def test_positional_axes():
    """With a cap so large that it changes nothing, every argument does what it does in JAX's function."""
    q, k, v = array(3, 8, 4, 5), array(3, 6, 2, 5, seed=1), array(3, 6, 2, 5, seed=2)
    options = {
        "bias": array(3, 1, 8, 6),
        "mask": array(1, 4, 8, 6, kind="bool").at[..., 0].set(True),
        "scale": 0.7,
        "is_causal": True,
        "local_window_size": (4, 0),
        "query_seq_lengths": jnp.array([8, 3, 1], jnp.int32),
        "key_value_seq_lengths": jnp.array([6, 2, 4], jnp.int32),
        "return_residual": True,
    }
    for given in (options, {}, {"bias": options["bias"]}, {"return_residual": True, "is_causal": True}):
        have, want = attention(q, k, v, soft_cap=1e4, **given), jax.nn.dot_product_attention(q, k, v, **given)
        jax.tree.map(lambda h, w: np.testing.assert_allclose(h, w, rtol=1e-4, atol=1e-5), have, want)
    one = attention(q[0], k[0], v[0], soft_cap=1e4)
    np.testing.assert_allclose(one, jax.nn.dot_product_attention(q[0], k[0], v[0]), rtol=1e-4, atol=1e-5)


@pytest.mark.full(0)
@pytest.mark.fast(1)
@pytest.mark.parametrize("batched", [False, True])
def test_positional_axes_are_capped_as_named_ones_are(batched):
    q, k, v = 2 * array(3, 8, 2, 5), array(3, 8, 2, 5, seed=1), array(3, 8, 2, 5, seed=2)
    want = capped(q, k, v, 0.0, jnp.tri(8, dtype=bool), scale=5**-0.5)
    if batched:
        q, k, v = (nx.named(x, ["b", ...]) for x in (q, k, v))
    have = attention(q, k, v, is_causal=True, soft_cap=CAP)
    np.testing.assert_allclose(nx.positional(have, ["b", ...]) if batched else have, want, rtol=1e-4, atol=1e-5)


@pytest.mark.full(0)
@pytest.mark.fast(0)
def test_second_derivatives_of_the_ring():
    def second(resources):
        f = nx.xmap(
            lambda q: attention(q, q, q, axis="a", features="d", soft_cap=CAP),
            ["a", "d"],
            ["a", "d"],
            axis_resources=resources,
            mesh=make_mesh((4, 2)),
        )
        first = jax.grad(lambda q: jnp.sum(jnp.sin(f(q))))
        return jax.jit(jax.grad(lambda q: jnp.sum(first(q) ** 2)))(array(8, 3))

    np.testing.assert_allclose(second({"a": "x"}), second({}), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("soft_cap", [0, -1.0, True, "50", float("inf"), make.ones(())])
def test_the_cap_is_a_positive_number(soft_cap):
    x = nx.named(array(8, 3), ["a", "d"])
    for call in (
        lambda: attention(x, x, x, axis="a", features="d", soft_cap=soft_cap),
        lambda: attention(*[array(8, 2, 3)] * 3, soft_cap=soft_cap),
    ):
        with pytest.raises(ArgumentError) as info:
            call()
        assert "soft_cap must be a positive number, got" in said(info.value)


def test_cudnn_has_no_cap():
    with pytest.raises(ArgumentError) as info:
        attention(*[array(8, 2, 3)] * 3, soft_cap=2.0, implementation="cudnn")
    assert "implementation='cudnn' has no soft_cap" in said(info.value)
