"""Attention by name, in every placement of the sequence, against the formula."""

from __future__ import annotations

import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P

import namedax as nx
from namedax import hlo
from tests import make
from tests.harness import PARTITIONER, PLACEMENTS, Placement, array, check, make_mesh

attention = nx.nn.dot_product_attention
BY_NAME = {str(p): p for p in PLACEMENTS}


def places(*labels):
    return [BY_NAME[label] for label in labels]


@jax.jit
def plain(q, k, v, bias=None, allowed=None, scale=None):
    """The formula: q[b,t,h,d], k[b,s,h,d], v[b,s,h,e]; bias and allowed broadcast to [b,h,t,s]. Zero where nothing is allowed."""
    scores = jnp.einsum("bthd,bshd->bhts", q, k) * (q.shape[-1] ** -0.5 if scale is None else scale)
    if bias is not None:
        scores = scores + bias
    if allowed is None:
        return jnp.einsum("bhts,bshe->bthe", jax.nn.softmax(scores), v)
    weights = jnp.where(allowed, jax.nn.softmax(jnp.where(allowed, scores, -1e30)), 0)
    return jnp.einsum("bhts,bshe->bthe", weights, v)


def causal(t, s):
    return jnp.arange(s)[None] <= jnp.arange(t)[:, None]


Q, K, V = array(4, 8, 2, 5), array(4, 8, 2, 5, seed=1), array(4, 8, 2, 6, seed=2)
NAMES = ["b", "a", "h", "d"]


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize("placement", [*places("unmapped-auto", "both-explicit", "two-reversed-auto"), PARTITIONER[3]], ids=str)
def test_causal(placement):
    def named(q, k, v):
        return attention(q, k, v, axis="a", features="d", is_causal=True)

    def oracle(q, k, v):
        return plain(q, k, v, allowed=causal(8, 8))

    check(named, jax.jit(oracle), (Q, K, V), (NAMES, NAMES, ["b", "a", "h", "e"]), ["b", "a", "h", "e"], placement)


@pytest.mark.full(2)
@pytest.mark.fast(1)
@pytest.mark.parametrize("reach", [2**31 - 1, 2**40])
@pytest.mark.parametrize("resources", [{}, {"a": "x"}], ids=["whole", "ring"])
def test_a_window_that_reaches_further_than_numbers_of_32_bits_hides_nothing(resources, reach):
    def local(q, k, v):
        return attention(q, k, v, axis="a", features="d", local_window_size=(reach, 0))

    f = nx.xmap(
        local, (NAMES, NAMES, ["b", "a", "h", "e"]), ["b", "a", "h", "e"], axis_resources=resources, mesh=make_mesh((8,))
    )
    np.testing.assert_allclose(f(Q, K, V), plain(Q, K, V, allowed=causal(8, 8)), rtol=2e-5, atol=2e-6)


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize("placement", places("unmapped-auto", "crossed-auto", "two-mesh-axes-explicit"), ids=str)
def test_bias_mask_window_and_lengths(placement):
    """Heads that share keys by a name of their own; a bias of a part of the axes; physical orders that differ; one row is empty."""

    def named(q, k, v, bias, mask, lengths, sizes):
        return attention(
            *(q, k, v, bias, mask),
            axis="a",
            features="d",
            local_window_size=(3, 2),
            key_value_seq_lengths=lengths,
            query_seq_lengths=sizes,
            scale=0.7,
        )

    def oracle(q, k, v, bias, mask, lengths, sizes):
        at = jnp.arange(8)
        allowed = (at[:, None] <= at + 3) & (at[:, None] >= at - 2) & mask.T
        allowed = allowed & (at < lengths[:, None, None, None]) & (at[:, None] < sizes[:, None, None, None])
        k, v = jnp.repeat(k, 3, 2), jnp.repeat(v, 3, 2)
        bias = jnp.tile(bias.transpose(1, 0, 2), (2, 1, 1))
        out = plain(q.reshape(4, 8, 6, 5), k, v, bias, allowed, 0.7)
        return out.reshape(4, 8, 2, 3, 5).transpose(0, 2, 1, 4, 3)

    q, k = array(4, 8, 2, 3, 5), array(4, 8, 2, 5)
    mask = array(8, 8, kind="bool").at[:, 3].set(False)  # query 3 may see no key
    args = (q, k, k + 1, array(8, 3, 8), mask, make.array([8, 1, 5, 7]), make.array([8, 8, 3, 6]))
    axes = (
        ["b", "a", "h", "g", "d"],
        ["b", "a", "h", "d"],
        ["b", "a", "h", "d"],
        ["a", "g", "key_a"],
        ["key_a", "a"],
        ["b"],
        ["b"],
    )
    check(named, jax.jit(oracle), args, axes, ["b", "h", "a", "d", "g"], placement)


HEADS = [
    BY_NAME["unmapped-auto"],
    Placement("heads", (2, 4), (("b", "y"), ("a", "x"))),
    Placement("heads-of-keys", (2, 3), (("b", "y"), ("g", "y"))),
]


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize(("placement", "count"), [(HEADS[0], 6), *((HEADS[1], n) for n in (1, 3, 8)), (HEADS[2], 6)], ids=str)
def test_heads_that_are_a_multiple(placement, count):
    """Heads of queries on four devices share those of the keys, so that blocks and groups meet every way; biases of either."""

    def named(q, k, v, bias, more):
        names = {"axis": "a", "features": "d", "heads": "b", "key_heads": "g", "is_causal": True}
        return attention(q, k, v, bias, **names), attention(q, k, v, more, **names)

    def oracle(q, k, v, bias, more):
        k, v, more = (jnp.repeat(x, 24 // count, i) for x, i in ((k, 2), (v, 2), (more, 0)))
        return plain(q, k, v, bias[:, None], causal(8, 8)), plain(q, k, v, more[:, None], causal(8, 8))

    args = (array(2, 8, 24, 5), array(2, 8, count, 5), array(2, 8, count, 5, seed=3), array(24, 8), array(count, 8))
    kv = ["n", "a", "g", "d"]
    axes = (["n", "a", "b", "d"], kv, kv, ["b", "key_a"], ["g", "key_a"])
    check(named, jax.jit(oracle), args, axes, ["n", "a", "b", "d"], placement)


# Queries {t} and keys {s}, of different sizes, and a bias and a mask of the keys; each on its own mesh axes.
CROSS = [
    Placement("queries", (4, 2), (("t", "x"),)),
    Placement("keys", (4, 2), (("s", ("y", "x")),), "explicit"),
    Placement("apart", (4, 2), (("t", "x"), ("s", "y"))),
    Placement("together", (4, 2), (("t", "x"), ("s", "x"), ("b", "y")), "explicit"),
    Placement("queries-on-more", (2, 4), (("t", ("y", "x")), ("s", "y"))),
    Placement("keys-on-more", (4, 2), (("t", "y"), ("s", ("x", "y")))),
]


@pytest.mark.fast(1)
@pytest.mark.parametrize("placement", CROSS, ids=str)
def test_queries_and_keys_of_different_sequences(placement):
    def named(q, k, v, bias, mask):
        return attention(q, k, v, bias, mask, axis="t", key_axis="s", features="d", is_causal=True)

    def oracle(q, k, v, bias, mask):
        return plain(q[..., None, :], k[..., None, :], v[..., None, :], bias, mask[:, None, None] & causal(8, 16))[:, :, 0]

    args = (array(2, 8, 5), array(2, 16, 5), array(2, 16, 3), array(16), array(2, 16, kind="bool").at[0].set(False))
    axes = (["b", "t", "d"], ["b", "s", "d"], ["b", "s", "e"], ["s"], ["b", "s"])
    check(named, jax.jit(oracle), args, axes, ["b", "t", "e"], placement)


AROUND = Placement("self-and-bias", (4, 2), (("s", "x"), ("key", "x")))
APART = Placement("apart", (4, 2), (("t", "x"), ("s", "y")))


@pytest.mark.fast(0)
def test_bias_of_the_keys_that_is_mapped_goes_round_with_them():
    def named(q, bias):
        return attention(q, q, q, bias, bias > 0, axis="s", key_axis="key", features="d")

    def oracle(q, bias):
        q = q[..., None, :]
        return plain(q, q, q, bias, bias > 0)[:, :, 0]

    check(named, jax.jit(oracle), (array(2, 8, 5), array(8)), (["b", "s", "d"], ["key"]), ["b", "s", "d"], AROUND)


@pytest.mark.fast(0)
def test_bias_of_both_positions_on_mesh_axes_of_their_own():
    def named(q, k, bias):
        return attention(q, k, k, bias, axis="t", key_axis="s", features="d")

    def oracle(q, k, bias):
        k = k[:, :, None]
        return plain(q[:, :, None], k, k, bias)[:, :, 0]

    args, axes = (array(2, 8, 5), array(2, 16, 5), array(8, 16)), (["b", "t", "d"], ["b", "s", "d"], ["t", "s"])
    check(named, jax.jit(oracle), args, axes, ["b", "t", "d"], APART)


FEATURES = [
    Placement("features", (4, 2), (("d", "y"),)),
    Placement("all", (4, 2), (("a", "x"), ("d", "y"), ("e", "y")), "explicit"),
]


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize("placement", FEATURES, ids=str)
def test_features_that_are_mapped(placement):
    def named(q, k, v):
        return attention(q, k, v, axis="a", features="d", is_causal=True)

    def oracle(q, k, v):
        return plain(q, k, v, allowed=causal(8, 8))

    args = array(2, 8, 2, 4), array(2, 8, 2, 4, seed=1), array(2, 8, 2, 6)
    check(named, jax.jit(oracle), args, (NAMES, NAMES, ["b", "a", "h", "e"]), ["b", "a", "h", "e"], placement)


@pytest.mark.fast(0)
@pytest.mark.parametrize("placement", places("one-each-auto"), ids=str)
def test_positional_axes_are_batch_axes_too(placement):
    def named(q, k, v):
        return attention(q, k, v, axis="a", features="d")

    def oracle(q, k, v):  # q {a,d}[3,2], k {a,d}[1,2], v {a}[2]
        v = jnp.broadcast_to(v[None, :, None, :, None], (1, 8, 3, 2, 1)).reshape(1, 8, 6, 1)
        q, k = (jnp.broadcast_to(x, (5, 8, 3, 2)).transpose(1, 2, 3, 0).reshape(1, 8, 6, 5) for x in (q, k))
        return plain(q, k, v).reshape(8, 3, 2)

    args = array(5, 8, 3, 2), array(5, 8, 1, 2), array(8, 2)
    check(
        named,
        jax.jit(oracle),
        args,
        (["d", "a", None, None], ["d", "a", None, None], ["a", None]),
        ["a", None, None],
        placement,
    )


# --- as JAX's own ---------------------------------------------------------------------------------------------------


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
def test_as_in_jax(dtype):
    q, k = array(2, 8, 6, 4).astype(dtype), array(2, 8, 3, 4).astype(dtype)
    bias, mask = array(1, 6, 8, 8), array(2, 1, 1, 8, kind="bool").at[..., 0].set(True)
    options = {"is_causal": True, "local_window_size": 9}
    lengths = make.array([8, 5], jnp.int32)
    plain = functools.partial(jax.nn.dot_product_attention, **options)
    want = jax.jit(plain)(q, k, k, bias, mask, key_value_seq_lengths=lengths)

    def named(q, k, bias, mask, lengths):
        names = {"axis": "t", "features": "d", "heads": "n", "key_heads": "g"}
        return attention(q, k, k, bias, mask, key_value_seq_lengths=lengths, **names, **options)

    axes = (["b", "t", "n", "d"], ["b", "t", "g", "d"], ["n", "t", "key_t"], ["b", "key_t"], ["b"])
    args = (q, k, bias[0], mask[:, 0, 0], lengths)
    for resources in ({}, {"t": "x"}):
        mesh = make_mesh((8,)) if resources else None
        have = nx.xmap(named, axes, ["b", "t", "n", "d"], axis_resources=resources, mesh=mesh)(*args)
        assert have.dtype == dtype
        tol = 2e-5 if dtype == jnp.float32 else 3e-2
        np.testing.assert_allclose(have.astype(float), want.astype(float), rtol=tol, atol=tol)


@pytest.mark.full(1)
@pytest.mark.fast(0)
def test_without_axis_it_is_jax_own():
    q, k = array(2, 4, 6, 4), array(2, 8, 3, 4)
    np.testing.assert_allclose(attention(q, k, k), jax.nn.dot_product_attention(q, k, k), rtol=1e-6)
    named = attention(nx.named(q, ["b", ...]), nx.named(k, ["b", ...]), nx.named(k, ["b", ...]), implementation="xla")
    assert named.dims == ("b", None, None, None)
    np.testing.assert_allclose(named.data, jax.nn.dot_product_attention(q, k, k), rtol=1e-5, atol=1e-6)
    out, residual = attention(q, k, k, return_residual=True)
    assert out.shape == (2, 4, 6, 4)
    assert residual.shape == (2, 4, 6)


@pytest.mark.full(0)
@pytest.mark.fast(1)
@pytest.mark.parametrize("resources", [{}, {"a": "x"}], ids=str)
def test_bfloat16(resources):
    """The result and the gradients are as good as the type of the values lets them be: sums are made in float32."""
    args = tuple(x.astype(jnp.bfloat16) for x in (Q, K, V))
    mesh = make_mesh((8,)) if resources else None

    def loss(f):
        return lambda *args: jnp.sum(f(*args).astype(jnp.float32) * array(4, 8, 2, 6, seed=5))

    def body(q, k, v):
        return attention(q, k, v, axis="a", features="d")

    out = ["b", "a", "h", "e"]
    f = nx.xmap(body, (NAMES, NAMES, out), out, axis_resources=resources, mesh=mesh)
    assert f(*args).dtype == jnp.bfloat16
    have = jax.jit(jax.grad(loss(f), (0, 1, 2)))(*args)
    want = jax.jit(jax.grad(loss(plain), (0, 1, 2)))(*(x.astype(jnp.float32) for x in args))
    for h, w in zip(have, want, strict=True):
        assert h.dtype == jnp.bfloat16
        np.testing.assert_allclose(h.astype(jnp.float32), w, rtol=0.05, atol=0.03)


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize("resources", [{}, {"a": "x"}, {"key": "x"}], ids=str)
def test_large_scores_and_rows_without_a_key(resources):
    """Scores of a thousand do not overflow, and a row whose keys are all masked, or have a bias of minus infinity, is zero."""
    mesh = make_mesh((8,)) if resources else None
    cross = "key" in resources
    q, k, v = 40 * Q, 40 * K, V
    bias = make.zeros((8, 8)).at[2].set(-jnp.inf).at[5, 1].set(-jnp.inf)
    mask = make.ones((8, 8), bool).at[3].set(False).at[4, :4].set(False)
    key = "key" if cross else "a"

    def body(q, k, v, bias, mask):
        return attention(q, k, v, bias, mask, axis="a", key_axis="key", features="d")

    out = ["b", "a", "h", "e"]
    axes = (NAMES, ["b", key, "h", "d"], ["b", key, "h", "e"], ["a", "key"], ["a", "key"])
    f = nx.xmap(body, axes, out, axis_resources=resources, mesh=mesh)
    allowed = mask & jnp.isfinite(bias)
    have = f(q, k, v, bias, mask)
    assert not np.any(np.asarray(have)[:, 2:4])
    np.testing.assert_allclose(have, plain(q, k, v, allowed=allowed), rtol=1e-4, atol=1e-4)
    grads = jax.jit(jax.grad(lambda *args: jnp.sum(jnp.sin(f(*args, bias, mask))), (0, 1, 2)))(q, k, v)
    wants = jax.jit(jax.grad(lambda *args: jnp.sum(jnp.sin(plain(*args, allowed=allowed))), (0, 1, 2)))(q, k, v)
    for h, w in zip(grads, wants, strict=True):
        np.testing.assert_allclose(h, w, rtol=1e-3, atol=1e-3)


# --- derivatives ----------------------------------------------------------------------------------------------------


def mapped(resources, mesh, **options):
    def body(q, k, v):
        return attention(q, k, v, axis="a", features="d", **options)

    out = ["b", "a", "h", "e"]
    return nx.xmap(body, (NAMES, NAMES, out), out, axis_resources=resources, mesh=mesh)


@pytest.mark.full(1)
@pytest.mark.fast(0)
def test_second_derivatives_of_the_ring():
    f = mapped({"a": "x"}, make_mesh((4, 2)), is_causal=True)
    oracle = functools.partial(plain, allowed=causal(8, 8))

    def twice(f):
        def inner(q):
            return jnp.sum(jnp.sin(f(q, K, V)))

        return jax.grad(lambda q: jnp.sum(jax.grad(inner)(q) * array(4, 8, 2, 5, seed=9)))

    np.testing.assert_allclose(jax.jit(twice(f))(Q), jax.jit(twice(oracle))(Q), rtol=1e-3, atol=1e-4)


@pytest.mark.fast(0)
def test_forward_mode():
    tangents = tuple(array(*x.shape, seed=7) for x in (Q, K, V))
    _, want = jax.jvp(plain, (Q, K, V), tangents)
    _, have = jax.jvp(mapped({}, None), (Q, K, V), tangents)
    np.testing.assert_allclose(have, want, rtol=1e-4, atol=1e-5)

    def body(q, k, v):
        return attention(q, k, v, axis="a", key_axis="s", features="d")

    out = ["b", "a", "h", "e"]
    axes = (NAMES, ["b", "s", "h", "d"], ["b", "s", "h", "e"])
    apart = nx.xmap(body, axes, out, axis_resources={"s": "x"}, mesh=make_mesh((8,)))
    _, have = jax.jvp(apart, (Q, K, V), tangents)
    np.testing.assert_allclose(have, want, rtol=1e-4, atol=1e-5)
    with pytest.raises(TypeError, match="custom_vjp"):
        jax.jvp(mapped({"a": "x"}, make_mesh((8,))), (Q, K, V), tangents)


@pytest.mark.fast(1)
@pytest.mark.parametrize("resources", [{}, {"a": "x"}], ids=str)
def test_a_scale_that_is_an_array_has_a_gradient(resources):
    def body(q, k, v, scale):
        return attention(q, k, v, axis="a", features="d", scale=scale)

    out = ["b", "a", "h", "e"]
    mesh = make_mesh((8,)) if resources else None
    f = nx.xmap(body, (NAMES, NAMES, out, ["h"]), out, axis_resources=resources, mesh=mesh)
    scale, weights = make.array([0.3, 0.8]), array(*V.shape, seed=4)

    def oracle(q, k, v, scale):
        return plain(q * scale[:, None], k, v, scale=1.0)

    have, want = (jax.grad(lambda s: jnp.sum(weights * f(Q, K, V, s)))(scale) for f in (f, oracle))  # noqa: B023
    np.testing.assert_allclose(have, want, rtol=1e-4, atol=1e-5)


@pytest.mark.fast(0)
def test_the_gradient_inside_of_the_body():
    def body(q, k, v):
        return jax.grad(lambda k: nx.sum(nx.sin(attention(q, k, v, axis="a", features="d")), ("b", "a", "h", "e")))(k)

    f = nx.xmap(body, (NAMES, NAMES, ["b", "a", "h", "e"]), NAMES, axis_resources={"a": "x", "b": "y"}, mesh=make_mesh((4, 2)))
    want = jax.jit(jax.grad(lambda k: jnp.sum(jnp.sin(plain(Q, k, V)))))(K)
    np.testing.assert_allclose(f(Q, K, V), want, rtol=1e-4, atol=1e-5)


# --- what it costs --------------------------------------------------------------------------------------------------

BLOCK = Q.nbytes // 4  # the bytes of a block of Q or K on four devices
VALUES = V.nbytes // 4


def test_the_ring_sends_blocks_to_the_neighbour_and_nothing_else():
    f = jax.jit(mapped({"a": "x"}, make_mesh((4, 2)), is_causal=True))
    compiled = f.lower(Q, K, V).compile()
    found = hlo.collectives(compiled)
    assert {c.kind for c in found} == {"collective-permute"}
    # All in the loop, which has three steps for four devices.
    assert all(c.in_loop for c in found)
    assert sum(c.bytes for c in found) == BLOCK + VALUES
    assert trip_counts(f) == [3]


def trip_counts(f):
    """The lengths of the loops of a program."""
    return sorted(map(int, re.findall(r"\blength=(\d+)", str(jax.make_jaxpr(f)(Q, K, V)))))


@pytest.mark.fast(0)
def test_the_gradient_of_the_ring():
    """Backwards keys and values go round again (three times), and their gradients behind them (three times)."""
    f = mapped({"a": "x"}, make_mesh((4, 2)))
    step = jax.jit(jax.grad(lambda *args: jnp.sum(f(*args)), (0, 1, 2)))
    compiled = step.lower(Q, K, V).compile()
    found = hlo.collectives(compiled)
    assert {c.kind for c in found} == {"collective-permute"}
    looped = sum(c.bytes for c in found if c.in_loop)
    once = sum(c.bytes for c in found if not c.in_loop)
    # Forwards a loop of three steps; backwards one of two, which sends both, and once more of each outside of it.
    assert looped == 3 * (BLOCK + VALUES)
    assert once == 2 * (BLOCK + VALUES)
    assert trip_counts(step) == [2, 3]


def test_heads_that_share_keys_send_them_once():
    q, k = array(2, 8, 6, 5), array(2, 8, 5)

    def body(q, k):
        return attention(q, k, k, axis="a", features="d")

    f = nx.xmap(body, (NAMES, ["b", "a", "d"]), NAMES, axis_resources={"a": "x"}, mesh=make_mesh((8,)))
    found = hlo.collectives(jax.jit(f).lower(q, k).compile())
    assert sum(c.bytes for c in found) in (k.nbytes // 8, 2 * k.nbytes // 8)  # key and value are one array here


def test_keys_on_other_devices_than_queries():
    """Decoding: the largest scores, then sums and values in one all-reduce; the gradient of keys and values sends nothing."""
    q, k = array(2, 3, 5), array(2, 64, 5)

    def body(q, k, v):
        return attention(q, k, v, axis="t", key_axis="s", features="d")

    axes = (["b", "t", "d"], ["b", "s", "d"], ["b", "s", "d"])
    f = nx.xmap(body, axes, ["b", "t", "d"], axis_resources={"s": "x"}, mesh=make_mesh((8,)))
    forwards = hlo.summary(jax.jit(f).lower(q, k, k).compile())
    assert forwards == {"all-reduce": (2, q.itemsize * (2 * 3 + 2 * 3 + 2 * 3 * 5))}
    step = jax.jit(jax.grad(lambda q, k, v: jnp.sum(jnp.sin(f(q, k, v))), (1, 2)))
    assert hlo.summary(step.lower(q, k, k).compile()) == forwards
    whole = jax.jit(jax.grad(lambda q, k, v: jnp.sum(jnp.sin(f(q, k, v))), (0, 1, 2)))
    assert hlo.summary(whole.lower(q, k, k).compile())["all-reduce"] == (3, forwards["all-reduce"][1] + q.nbytes)


@pytest.mark.fast(0)
@pytest.mark.parametrize("resources", [{"b": "x"}, {"h": "y"}, {"b": "x", "h": "y"}], ids=str)
def test_batch_and_heads_send_nothing(resources):
    f = mapped(resources, make_mesh((4, 2)), is_causal=True)
    step = jax.jit(jax.value_and_grad(lambda *args: jnp.sum(f(*args)), (0, 1, 2)))
    permitted = {c.bytes for c in hlo.collectives(step.lower(Q, K, V).compile())}
    assert permitted <= {Q.itemsize}  # the sum over all, which is the caller's


@pytest.mark.fast(0)
def test_memory():
    """A sequence of 8192 on eight devices: all scores of a device would be 32 MiB, one block of them is 4 MiB."""
    x = jax.ShapeDtypeStruct((8192, 16), jnp.float32)

    def body(q, k, v):
        return attention(q, k, v, axis="a", features="d", is_causal=True)

    mesh = make_mesh((8,))
    f = nx.xmap(body, ["a", "d"], ["a", "d"], axis_resources={"a": "x"}, mesh=mesh)
    scores = 4 * 1024 * 8192
    forwards = jax.jit(f).lower(x, x, x).compile()
    assert forwards.memory_analysis().temp_size_in_bytes < scores / 2
    step = jax.jit(jax.grad(lambda *args: jnp.sum(f(*args)), (0, 1, 2))).lower(x, x, x).compile()
    assert step.memory_analysis().temp_size_in_bytes < scores

    def by_hand(q, k, v):
        k, v = (jax.lax.all_gather(x, "x", tiled=True) for x in (k, v))
        return jax.nn.softmax(q @ k.T) @ v

    gathered = jax.jit(jax.shard_map(by_hand, mesh=mesh, in_specs=P("x"), out_specs=P("x"))).lower(x, x, x).compile()
    assert gathered.memory_analysis().temp_size_in_bytes > scores


# --- mistakes -------------------------------------------------------------------------------------------------------


def named_arrays(**extra):
    q = nx.named(array(2, 8, 4, 5), ["b", "pos", "heads", "d"])
    k = nx.named(array(2, 8, 4, 5), ["b", "pos", "heads", "d"])
    return {"query": q, "key": k, "value": k, "axis": "pos", "features": "d"} | extra


F = jnp.float32
E = nx.errors
MISTAKES = {
    "no such positions": ({"axis": "position"}, E.AxisNotFoundError, ["no axis 'position' in key", "key_axis="]),
    "no features": ({"features": None}, E.AxisNotFoundError, ["axis='pos' requires features="]),
    "no such features": (
        {"features": "dd"},
        E.AxisNotFoundError,
        ["no axis 'dd' in query", "'heads', 'd'", "Did you mean 'd'?"],
    ),
    "a position": ({"features": -1}, E.AxisNameError, ["features=-1 is not an axis name", "nx.named"]),
    "only features": ({"axis": None}, E.AxisNotFoundError, ["features='d' requires axis="]),
    "nothing": (
        {"axis": None, "features": None},
        E.PositionalAxisError,
        ["without axis=", "query is f32[]{b:2, pos:8", "axis="],
    ),
    "one of the heads": ({"heads": "heads"}, E.AxisNameError, ["heads='heads' and key_heads=None must be passed together"]),
    "heads of nobody": ({"heads": "heads", "key_heads": "kv"}, E.AxisNotFoundError, ["no axis 'kv' in key"]),
    "heads twice": (
        {
            "heads": "heads",
            "key_heads": "kv",
            "key": (k := nx.named(make.asarray(np.ones((8, 2, 4, 5))), ["pos", "kv", "heads", "d"])),
            "value": k,
        },
        E.AxisNameError,
        ["key, f32", "also has the axis 'heads'", "key_heads='kv'"],
    ),
    "heads that do not divide": (
        {
            "heads": "heads",
            "key_heads": "kv",
            "key": nx.named(make.asarray(np.ones((8, 3, 5))), ["pos", "kv", "d"]),
            "value": nx.named(make.asarray(np.ones((8, 3, 5))), ["pos", "kv", "d"]),
        },
        E.AxisSizeError,
        ["4 heads 'heads'", "3 heads 'kv'", "multiple"],
    ),
    "two positions": (
        {"key_axis": "src", "key": nx.named(make.asarray(np.ones((8, 8, 5))), ["pos", "src", "d"])},
        E.AxisNameError,
        ["has both axis='pos' and key_axis='src'"],
    ),
    "the name of the keys": ({"key_axis": "b"}, E.AxisNameError, ["has both axis='pos' and key_axis='b'"]),
    "a mask that says the keys by another name": (
        {"mask": nx.named(make.asarray(np.ones((8, 8), bool)), ["pos", "key"])},
        E.AxisNameError,
        [
            "mask, bool[]{pos:8, key:8}, has the axis 'key', which query, key and value lack",
            "but not 'key_pos'",
            "write key_axis='key'",
        ],
    ),
    "a bias that does": (
        {"bias": nx.named(make.asarray(np.ones((8, 8))), ["pos", "key"])},
        E.AxisNameError,
        ["bias, f32", "has the axis 'key', which query, key and value lack", "write key_axis='key'"],
    ),
    "the name of the keys in the query": (
        {"key_axis": "heads", "key": nx.named(make.asarray(np.ones((8, 5))), ["pos", "d"])},
        E.AxisNameError,
        [
            "query, f32",
            "has the axis 'heads', which is the name of the key positions",
        ],
    ),
    "one name for two": ({"key_axis": "d"}, E.AxisNameError, ["has both"]),
    "one name for two heads": (
        {"heads": "pos", "key_heads": "kv"},
        E.AxisNameError,
        ["'pos' names two of axis, key_axis"],
    ),
    "value without positions": (
        {"value": nx.named(make.asarray(np.ones((2, 5))), ["b", "d"])},
        E.AxisNotFoundError,
        ["no axis 'pos' in value"],
    ),
    "value with the queries": (
        {
            "key_axis": "s",
            "key": nx.named(make.asarray(np.ones((3, 5))), ["s", "d"]),
            "value": nx.named(make.asarray(np.ones((3, 8, 5))), ["s", "pos", "d"]),
        },
        E.AxisNameError,
        ["value, f32", "'pos' of the query positions, as well as 's'"],
    ),
    "sizes": (
        {"value": nx.named(make.asarray(np.ones((2, 7, 5))), ["b", "pos", "d"])},
        E.AxisSizeError,
        ["axis 'pos' has size 7 in value", "size 8 in key"],
    ),
    "sizes of the mask": (
        {"mask": nx.named(make.asarray(np.ones((8, 7), bool)), ["pos", "key_pos"])},
        E.AxisSizeError,
        ["axis 'key_pos' has size 7 in mask", "size 8 in key"],
    ),
    "a mask of numbers": (
        {"mask": nx.named(make.asarray(np.ones((8, 8))), ["pos", "key_pos"])},
        TypeError,
        ["mask must contain booleans", "bias=", "got f32"],
    ),
    "a bias of truth": (
        {"bias": nx.named(make.asarray(np.ones((8, 8), bool)), ["pos", "key_pos"])},
        TypeError,
        ["bias must contain floating-point numbers, got bool"],
    ),
    "a bias of features": (
        {"bias": nx.named(make.asarray(np.ones(5)), ["d"])},
        E.AxisNameError,
        ["bias, f32[]{d:5}", "scores have no features"],
    ),
    "lengths of positions": (
        {"key_value_seq_lengths": nx.named(make.asarray(np.ones(8, int)), ["pos"])},
        E.AxisNameError,
        ["key_value_seq_lengths", "'pos'", "batch axes only"],
    ),
    "lengths that are not integers": (
        {"query_seq_lengths": nx.named(make.asarray(np.ones(2)), ["b"])},
        TypeError,
        ["must contain integers, got f32"],
    ),
    "a window": (
        {"local_window_size": (-1, 2)},
        ValueError,
        ["local_window_size must be at least 0 on both sides, got (-1, 2)"],
    ),
}


@pytest.mark.parametrize("label", MISTAKES)
def test_mistakes(label):
    changes, error, words = MISTAKES[label]
    arguments = named_arrays(**changes)
    with pytest.raises(error) as raised:
        attention(**arguments)
    text = str(raised.value).replace("f64", "f32")
    assert all(word in text for word in ("dot_product_attention", *words)), text


PLACES = {
    "batch and positions": ({"b": "x", "s": "x"}, ["'b' and 's' meet", "mesh axis 'x'"]),
    "bias and keys": (
        {"s": "x", "key": "y"},
        ["bias, f32", "'key' sharded over mesh axes ('y',)", "sharded over mesh axes ('x',)"],
    ),
    "bias only": ({"key": "y"}, ["'key' sharded over mesh axes ('y',)", "sharded over no mesh axis"]),
    "heads": (
        {"g": "x"},
        ["the heads 'h' of the query are sharded over no mesh axis", "'g' of the keys over mesh axes ('x',)"],
    ),
    "other heads": ({"h": "x", "g": "y"}, ["'h' of the query are sharded over mesh axes ('x',)", "over mesh axes ('y',)"]),
    "heads in steps": (
        {"h": nx.SerialLoop(2), "g": nx.SerialLoop(2)},
        ["leave 'g' unmapped", "nx.serial_loop lets two names share"],
    ),
}


@pytest.mark.parametrize("label", PLACES)
def test_placements_that_do_not_fit(label):
    resources, words = PLACES[label]

    def body(q, k, bias):
        return attention(q, k, k, bias, axis="t", key_axis="key", features="d", heads="h", key_heads="g")

    def cross(q, k):
        return attention(q, k, k, axis="t", key_axis="s", features="d")

    mesh = make_mesh((2, 2))
    if "b" in resources:
        f = nx.xmap(cross, (["b", "t", "d"], ["s", "d"]), ["b", "t", "d"], axis_resources=resources, mesh=mesh)
        args = array(2, 8, 5), array(6, 5)
    else:
        resources = {{"s": "t"}.get(name, name): place for name, place in resources.items()}
        axes = (["t", "h", "d"], ["t", "g", "d"], ["key"])
        f = nx.xmap(body, axes, ["t", "h", "d"], axis_resources=resources, mesh=mesh)
        args = array(8, 4, 5), array(8, 2, 5), array(8)
    with pytest.raises(E.PlacementConflictError) as raised:
        f(*args)
    text = str(raised.value).replace("f64", "f32")
    assert all(word in text for word in words), text


MASKS = {
    "lengths": {"key_value_seq_lengths": np.full(4, 100)},
    "query lengths": {"query_seq_lengths": np.full(4, 100)},
    "window": {"local_window_size": (8, 8)},
}


@pytest.mark.fast(0)
@pytest.mark.parametrize("which", MASKS)
def test_scores_are_read_as_often_where_rows_may_be_empty(which):
    """Under causality every query sees a key. What may mask all keys of one costs no pass over the scores more."""
    query = np.zeros((4, 128, 2, 4), np.float32)
    names = ["batch", "position", "head", "feature"]

    def accessed(**options):
        arrays = {
            key: nx.named(jnp.asarray(value), ["batch"]) for key, value in options.items() if isinstance(value, np.ndarray)
        }

        def loss(query):
            result = nx.nn.dot_product_attention(
                query, query, query, axis="position", features="feature", **{**options, **arrays}
            )
            return nx.sum(result**2, names)

        compiled = jax.jit(jax.grad(nx.xmap(loss, names, []))).lower(query).compile()
        return compiled.cost_analysis()["bytes accessed"]

    assert accessed(**MASKS[which]) <= 1.01 * accessed(is_causal=True)


@pytest.mark.fast(0)
@pytest.mark.parametrize("axis_resources", [{}, {"t": "x"}, {"k": "x"}], ids=str)
def test_without_features(axis_resources):
    """Scores are 0 then, with the default scale too, which was a division by zero."""
    x = jnp.zeros((4, 8, 2, 0))

    def named(q):
        return nx.nn.dot_product_attention(q, q, q, axis="t", features="k")

    axes = ["b", "t", "h", "k"]
    f = nx.xmap(named, (axes,), axes, axis_resources=axis_resources, mesh=make_mesh((4, 2)))
    assert f(x).shape == x.shape
    assert jax.grad(lambda x: jnp.sum(f(x)))(x).shape == x.shape
