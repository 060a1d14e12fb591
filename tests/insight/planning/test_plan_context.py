"""`nx.plan` for attention over a sharded sequence: the ring, Ulysses and both are among its candidates, with the bytes that each sends."""

import jax
import jax.numpy as jnp
import pytest

import namedax as nx
from namedax import machines

POS, HEADS, KEY = 64, 8, 16
BLOCK = 4 * POS * HEADS * KEY // 8  # the bytes of one array on one of eight devices
SLOW = machines.Machine(
    flops={"float32": 1e12}, memory=1e12, bandwidth=1e12, links={...: machines.Link(1e9, 1e-6, "switch")}, name="slow"
)


def attention(q, k, v):
    inside = {"pos": "inner_pos", "heads": "inner_heads"}
    q, k, v = (nx.rename(x, inside) for x in (q, k, v))
    y = nx.nn.dot_product_attention(q, k, v, axis="inner_pos", features="key", is_causal=True, balance="zigzag")
    return nx.rename(y, {"inner_pos": "pos", "inner_heads": "heads"})


def candidates(**sizes):
    x = jax.eval_shape(lambda: nx.named(jnp.zeros((POS, HEADS, KEY)), ["pos", "heads", "key"]))
    mesh = jax.sharding.AbstractMesh(tuple(sizes.values()), tuple(sizes))
    names = ["pos", "inner_pos", "inner_heads"]  # with so many tries the search ends when it has judged all layouts
    plan = nx.plan(nx.xmap(attention), x, x, x, mesh=mesh, machine=SLOW, names=names, tries=200)
    return plan, {
        tuple(sorted((n, axes if isinstance(axes, tuple) else (axes,)) for n, axes in c.axis_resources.items())): c
        for c in plan.candidates
    }


def summary(found, **layout):
    return found[tuple(sorted((n, tuple(axes)) for n, axes in layout.items()))].report.summary()


def test_ring_and_ulysses_on_one_mesh_axis():
    plan, found = candidates(x=8)
    # Seven steps of keys and values, and the exchange of four arrays.
    assert summary(found, pos="x", inner_pos="x") == {"collective-permute": (14 + 8, (14 + 4) * BLOCK)}
    assert summary(found, pos="x", inner_heads="x") == {"all-to-all": (4, 4 * BLOCK)}
    assert plan.best == {}  # nothing is sent; a model has weights and a loss, for which positions are sharded


@pytest.mark.full(0)
@pytest.mark.fast(0)
def test_ring_ulysses_and_both_on_two_mesh_axes():
    _, found = candidates(x=4, y=2)
    assert summary(found, pos="xy", inner_pos="xy") == {"collective-permute": (14 + 8, (14 + 4) * BLOCK)}
    assert summary(found, pos="xy", inner_heads="xy") == {"all-to-all": (4, 4 * BLOCK)}
    both = {"all-to-all": (4, 4 * BLOCK), "collective-permute": (6 + 8, (6 + 4) * BLOCK)}
    assert summary(found, pos="xy", inner_pos="x", inner_heads="y") == both
