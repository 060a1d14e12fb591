"""Law 5, and its limit: parameters that are gathered in every step of a loop, as in a program by hand that gathers in the loop.

A program by hand that gathers them before the loop sends less. The programs by hand are `jax.shard_map` with a `lax.scan`.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import namedax as nx
from namedax import hlo
from tests.harness import make_mesh

P = jax.sharding.PartitionSpec
STEPS, DEVICES, B, K, D, LAYERS = 4, 4, 32, 128, 64, 3
AXES = (["layer", "k_fsdp", "d"], ["b", "k"])


def loss(ws, x):
    for i in range(LAYERS):
        w = nx.rename(ws["layer", i], {"k_fsdp": "k"})
        x = x + nx.einsum("{b,d}, {k,d} -> {b,k}", nx.tanh(nx.dot(x, w, "k")), w)
    return nx.sum(x * x, x.dims)


def by_hand(early):
    """A step gathers a matrix when it uses it; with `early`, all are gathered before the steps."""

    def whole(w):
        return jax.lax.all_gather(w, "x", axis=0, tiled=True)

    def of_step(ws, x):
        for w in ws:
            w = w if early else whole(w)
            x = x + jnp.tanh(x @ w) @ w.T
        return jnp.sum(x * x)

    def body(ws, x):
        microbatches = x.reshape(STEPS, -1, K)
        ws = tuple(ws)
        used = tuple(map(whole, ws)) if early else ws

        def step(carry, x):
            total, sums, blocks = carry
            # Without the barrier, XLA would take the gathers out of the loop.
            here, x = (used, x) if early else jax.lax.optimization_barrier((blocks, x))
            value, gradients = jax.value_and_grad(of_step)(here, x)
            if early:
                gradients = [jax.lax.psum_scatter(g, "x", scatter_dimension=0, tiled=True) for g in gradients]
            return (total + value, tuple(s + g for s, g in zip(sums, gradients, strict=True)), blocks), None

        start = jax.lax.pcast(0.0, "x", to="varying"), tuple(jnp.zeros_like(w) for w in ws), ws
        (total, sums, _), _ = jax.lax.scan(step, start, microbatches)
        return jax.lax.psum(total, "x"), jnp.stack(sums)

    return body


def measured(function, *args):
    compiled = jax.jit(function).lower(*args).compile()
    sent = sum(c.wire_bytes * c.trips for c in hlo.collectives(compiled))
    return compiled(*args), sent, compiled.memory_analysis().temp_size_in_bytes


@pytest.mark.parametrize("kind", ["auto", pytest.param("explicit", marks=pytest.mark.fast(0))])
def test_a_step_gathers_what_a_step_by_hand_gathers(kind):
    mesh = make_mesh((DEVICES,), kind)
    rng = np.random.default_rng(0)
    values = rng.normal(size=(LAYERS, K, D)) / 30, rng.normal(size=(B, K))
    specs = P(None, "x"), P("x")
    args = [jax.device_put(v.astype("float32"), jax.NamedSharding(mesh, s)) for v, s in zip(values, specs, strict=True)]
    own = nx.xmap(
        jax.value_and_grad(loss),
        AXES,
        ([], AXES[0]),
        axis_resources={"b": ("x", nx.SerialLoop(STEPS)), "k_fsdp": "x"},
        mesh=mesh,
    )
    hand = [jax.shard_map(by_hand(early), mesh=mesh, in_specs=specs, out_specs=(P(), P(None, "x"))) for early in (False, True)]
    (have, sent, memory), (late, late_sent, late_memory), (early, early_sent, _) = (measured(f, *args) for f in (own, *hand))
    for other in (late, early):
        for x, y in zip(have, other, strict=True):
            np.testing.assert_allclose(x, y, rtol=2e-3, atol=2e-4)
    assert sent == late_sent
    assert memory <= 1.2 * late_memory
    # Each matrix once instead of in every step. The gradients are scattered in every step, as before.
    whole = LAYERS * K * D * 4 * (DEVICES - 1) // DEVICES
    assert sent - early_sent == (STEPS - 1) * whole
