"""Attention whose values are a part of the key, as in multi-head latent attention: the ring moves only the key."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import namedax as nx
from namedax.hlo import collectives
from tests.harness import FEW, array, check, make_mesh

NAMES = {"axis": "a", "features": "d"}
Q, K = array(8, 4, 6), array(8, 6, seed=1)
KINDS = {
    "all": {},
    "causal": {"is_causal": True},
    "zigzag": {"is_causal": True, "balance": "zigzag"},
    "window": {"is_causal": True, "local_window_size": (3, 0)},
}


def attend(value, **options):
    return lambda q, k: nx.nn.dot_product_attention(q, k, k if value is None else value, **NAMES, **options)


def by_hand(start, stop, is_causal=False, local_window_size=None, balance=None):
    def f(q, k):
        scores = jnp.einsum("qhd,kd->hqk", q, k) / np.sqrt(6)
        apart = jnp.arange(8)[:, None] - jnp.arange(8)
        if is_causal:
            scores = jnp.where(apart >= 0, scores, -jnp.inf)
        if local_window_size is not None:
            scores = jnp.where(apart <= local_window_size[0], scores, -jnp.inf)
        return jnp.einsum("hqk,kv->qhv", jax.nn.softmax(scores, -1), k[:, start:stop])

    return f


@pytest.mark.full(5)
@pytest.mark.fast(5)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("part", [slice(0, 4), slice(2, None), None], ids=str)
@pytest.mark.parametrize("placement", FEW, ids=str)
def test_values_and_gradients(placement, part, kind):
    named = attend(None if part is None else {"v": part}, **KINDS[kind])
    start, stop, _ = (part or slice(None)).indices(6)
    out = ["a", "b", "d" if part is None else "v"]
    check(named, by_hand(start, stop, **KINDS[kind]), (Q, K), (["a", "b", "d"], ["a", "d"]), out, placement, tol=1e-4)


@pytest.mark.parametrize("part", [{"v": slice(0, 4)}, None], ids=str)
@pytest.mark.parametrize("resources", [{"d": "y"}, {"a": "x", "d": "y"}, {"a": "x", "v": "y"}], ids=str)
def test_sharded_features(resources, part):
    if part is None and "v" in resources:
        resources = {"a": "x", "b": "y"}
    loss = lambda q, k: nx.sum(nx.sin(attend(part)(q, k)), ...)  # noqa: E731
    mapped = nx.xmap(loss, (["a", "b", "d"], ["a", "d"]), axis_resources=resources, mesh=make_mesh((4, 2)))
    stop = 6 if part is None else 4
    want = jax.value_and_grad(lambda q, k: jnp.sum(jnp.sin(by_hand(0, stop)(q, k))), (0, 1))(Q, K)
    got = jax.value_and_grad(mapped, (0, 1))(Q, K)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5), got, want)


@pytest.mark.parametrize("kind", ["all", "causal", "zigzag"])
def test_the_ring_moves_only_the_key(kind):
    q, k = nx.named(Q, ["a", "b", "d"]), nx.named(K, ["a", "d"])

    def sent(value, function=lambda f: f):
        loss = lambda q, k: nx.sum(nx.nn.dot_product_attention(q, k, value(k), **NAMES, **KINDS[kind]), ...)  # noqa: E731
        mapped = nx.xmap(loss, axis_resources={"a": "x"}, mesh=make_mesh((4, 2)))
        mapped = jax.grad(mapped, (0, 1)) if function is jax.grad else mapped
        return [one for one in nx.explain(mapped, q, k).collectives if one.kind == "collective-permute"]

    sliced = lambda k: nx.slice(k, {"d": slice(0, 4)}, out_axis={"d": "v"})  # noqa: E731
    for function in (lambda f: f, jax.grad):
        apart, together = (
            sum(one.wire_bytes for one in sent(value, function)) for value in (sliced, lambda k: {"v": slice(0, 4)})
        )
        shared = sum(one.wire_bytes for one in sent(lambda k: k, function))
        assert together < apart
        assert shared <= together * 1.2
    if kind != "zigzag":  # the block of the key in each step
        assert sum(one.wire_bytes for one in sent(lambda k: {"v": slice(0, 4)})) == K.nbytes // 4


def test_a_part_of_shared_heads_and_uneven_sizes():
    q, k = nx.named(array(10, 4, 6), ["a", "h", "d"]), nx.named(array(10, 2, 6, seed=1), ["a", "g", "d"])
    names = {**NAMES, "heads": "h", "key_heads": "g", "is_causal": True}
    part = nx.named(k.data[..., :4], ["a", "g", "v"])
    want = nx.nn.dot_product_attention(q, k, part, **names)
    mapped = nx.xmap(
        lambda q, k: nx.nn.dot_product_attention(q, k, {"v": slice(0, 4)}, **names),
        axis_resources={"a": "x"},
        mesh=make_mesh((4, 2)),
    )
    np.testing.assert_allclose(
        nx.positional(mapped(q, k), ["a", "h", "v"]), nx.positional(want, ["a", "h", "v"]), rtol=1e-5, atol=1e-6
    )


def test_the_compiled_program_agrees():
    q, k = nx.named(Q, ["a", "b", "d"]), nx.named(K, ["a", "d"])
    mapped = nx.xmap(attend({"v": slice(0, 4)}), axis_resources={"a": "x"}, mesh=make_mesh((4, 2)))
    sent = collectives(jax.jit(mapped).lower(q, k).compile())
    assert [(one.kind, one.bytes) for one in sent] == [("collective-permute", K.nbytes // 4)]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (
            {"v": slice(-2, None)},
            r"value=\{'v': slice\(-2, None, None\)\} has a negative index. Count the elements of 'd' from its start.",
        ),
        ({"v": slice(0, 4, 2)}, "must be an array, or one new axis name with a range of 'd', such as"),
        ({"v": slice(0, 2), "w": slice(2, 4)}, "must be an array, or one new axis name with a range of 'd', such as"),
        ({}, "must be an array, or one new axis name"),
    ],
)
def test_errors(value, message):
    q, k = nx.named(Q, ["a", "b", "d"]), nx.named(K, ["a", "d"])
    with pytest.raises(nx.errors.ArgumentError, match=f"dot_product_attention: value=.*{message}|{message}"):
        nx.nn.dot_product_attention(q, k, value, **NAMES)
    with pytest.raises(nx.errors.ArgumentTypeError, match=r"dot_product_attention: value=.* is not an array of numbers"):
        nx.nn.dot_product_attention(Q[None], Q[None], {"v": slice(0, 2)})
