"""`nx.plan` for training steps: a sharded optimizer (ZeRO-1), sharded parameters, and a sharded sequence."""

from collections import Counter

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import namedax as nx
from namedax import machines

NAMES = ["batch", "embed_fsdp", "embed_opt", "hidden"]
UP, DOWN = ["layers", "embed_fsdp", "hidden"], ["layers", "hidden", "embed_fsdp"]
STATE = {"embed_fsdp": "embed_opt"}


def abstract(**sizes):
    return jax.sharding.AbstractMesh(tuple(sizes.values()), tuple(sizes))


def layer(x, w):
    h = nx.nn.relu(nx.einsum("{embed}, {embed:embed_fsdp} -> {}", x, w["up"]))
    return x + nx.einsum("{hidden}, {hidden, embed:embed_fsdp} -> {embed}", h, w["down"])


def loss(w, x):
    return nx.mean(nx.square(nx.fold(layer, x, w, axis="layers")), ...)


def step(w, m, v, x):
    """One step of Adam, whose state and update have the axis `embed_opt`."""
    value, g = jax.value_and_grad(loss)(w, x)
    w, g = ({k: nx.rename(a, STATE) for k, a in tree.items()} for tree in (w, g))
    m = {k: 0.9 * m[k] + 0.1 * g[k] for k in w}
    v = {k: 0.99 * v[k] + 0.01 * nx.square(g[k]) for k in w}
    w = {k: w[k] - 1e-3 * m[k] / (nx.sqrt(v[k]) + 1e-8) for k in w}
    return value, {k: nx.rename(a, {"embed_opt": "embed_fsdp"}) for k, a in w.items()}, m, v


def arguments(make, batch=65536, embed=1024, hidden=4096, layers=8):
    sizes = {"batch": batch, "embed": embed, "hidden": hidden, "layers": layers, "embed_fsdp": embed, "embed_opt": embed}

    def array(dims):
        return nx.named(make([sizes[n] for n in dims]), dims)

    def state(of):
        return {k: array([of.get(n, n) for n in dims]) for k, dims in (("up", UP), ("down", DOWN))}

    return state({}), state(STATE), state(STATE), array(["batch", "embed"])


TYPES = jax.eval_shape(lambda: arguments(jnp.zeros))
PARAMETERS = 2 * 8 * 1024 * 4096 * 4  # bytes


def planned(**options):
    options = {"mesh": abstract(x=8), "machine": machines.v5p, "names": NAMES, "progress": False, **options}
    return nx.plan(nx.xmap(step), *TYPES, **options)


@pytest.mark.fast(0)
def test_zero_1_sends_what_an_all_reduce_does_and_stores_a_share_of_the_state():
    mesh = jax.make_mesh((8,), ("x",))
    small = jax.eval_shape(lambda: arguments(jnp.zeros, 16, 16, 32, 2))
    size = 2 * 2 * 16 * 32 * 4
    sent, held = {}, {}
    for kind, resources in (("plain", {"batch": "x"}), ("zero", {"batch": "x", "embed_opt": "x"})):
        compiled = nx.xmap(step, axis_resources=resources, mesh=mesh).lower(*small).compile()
        sent[kind] = Counter()
        for one in nx.hlo.collectives(compiled):
            sent[kind][one.kind] += one.bytes
        held[kind] = compiled.memory_analysis().argument_size_in_bytes
    assert sent["plain"] == {"all-reduce": size + 4}  # and the loss
    # On a ring an all-reduce is a reduce-scatter and an all-gather of the same payload.
    assert sent["zero"] == {"reduce-scatter": size, "all-gather": size, "all-reduce": 4}
    assert held["plain"] - held["zero"] == 2 * size * 7 // 8


@pytest.mark.full(1)
@pytest.mark.fast(0)
def test_zero_1_is_exact():
    values = np.random.default_rng(0)
    args = arguments(lambda shape: jnp.asarray(values.uniform(0.1, 1.0, size=shape), "float32"), 16, 16, 32, 2)
    want = step(*args)
    mesh = jax.make_mesh((8,), ("x",))
    for resources in ({"batch": "x", "embed_opt": "x"}, {"batch": "x", "embed_opt": "x", "embed_fsdp": "x"}):
        got = nx.xmap(step, axis_resources=resources, mesh=mesh)(*args)
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6), got, want)


@pytest.mark.full(1)
@pytest.mark.fast(0)
def test_zero_1_is_chosen_and_sharded_parameters_if_it_does_not_fit():
    names = ["batch", "embed_opt", "hidden"]
    plan = planned(names=names)
    assert plan.best == {"batch": "x", "embed_opt": "x"}
    best = plan.candidates[0]
    payload = {kind: size for kind, (_, size) in best.report.summary().items()}
    assert payload["reduce-scatter"] == payload["all-gather"] == PARAMETERS
    plain = next(one for one in plan.candidates if one.axis_resources == {"batch": "x"})
    assert plain.report.memory.arguments - best.report.memory.arguments == 2 * PARAMETERS * 7 // 8
    # Without the second name nothing fits into a memory in which this fits.
    limit = (best.peak + plain.peak) // 2
    assert planned(names=names, memory=limit).best == plan.best
    tight = 1000 << 20
    with pytest.raises(nx.errors.PlanError, match="none of"):
        planned(names=["batch"], memory=tight, loops={})
    # The replicated parameters and their gradients do not fit: they are stored in parts too, and gathered ahead.
    sharded = planned(memory=tight)
    assert sharded.best == {"batch": "x", "embed_opt": "x", "embed_fsdp": "x"}
    assert [call["prefetch"] for call in sharded.options.values()] == [1]


def attention_step(w, x):
    def loss(w, x):
        q, k, v = (nx.dot(x, w[n], "embed") for n in ("q", "k", "v"))
        y = nx.nn.dot_product_attention(q, k, v, axis="pos", features="key", is_causal=True)
        return nx.mean(nx.square(x + nx.dot(y, w["o"], ("heads", "key"))), ...)

    return jax.value_and_grad(loss)(w, x)


@pytest.mark.fast(0)
def test_a_long_sequence_is_a_balanced_ring():
    """One sequence: the batch has nothing to shard, and four heads do not divide over eight devices."""
    sizes = {"embed": 512, "heads": 4, "key": 128, "pos": 32768, "batch": 1}

    def make(*dims):
        return nx.named(jnp.zeros([sizes[n] for n in dims], "bfloat16"), list(dims))

    w, x = jax.eval_shape(
        lambda: (
            {"o": make("heads", "key", "embed")} | {n: make("embed", "heads", "key") for n in "qkv"},
            make("batch", "pos", "embed"),
        )
    )
    f = nx.xmap(attention_step)
    plan = nx.plan(f, w, x, mesh=abstract(x=8), machine=machines.v5p, progress=False)
    assert plan.best == {"pos": "x"}
    (call,) = plan.options.values()
    assert call == {"operation": "nx.nn.dot_product_attention", "balance": "zigzag"}
    plain = min(one.time for one in plan.candidates if one.axis_resources == plan.best and not one.options)
    assert plan.candidates[0].time < 0.7 * plain
    kinds = {one.kind for one in plan.candidates[0].report.collectives if one.bytes > 1 << 22}
    assert kinds == {"collective-permute"}
