"""A cache of keys and values: a prompt and single steps equal causal attention to all tokens of each row, wherever the cache is."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P

import namedax as nx
from namedax import hlo
from namedax.errors import (
    ArgumentError,
    ArgumentTypeError,
    AxisNameError,
    AxisNotFoundError,
    AxisSizeError,
    PlacementConflictError,
    PositionalAxisError,
)
from tests.harness import Placement, array, check, make_mesh, said

KVCache = nx.nn.KVCache
PROMPT, STEPS, SLOTS = 5, 3, 8
LENGTHS = np.array([5, 1, 3, 2])


def full(q, k, v, cap=None, window=None):
    """Causal attention of one row: q[t,h,g,d], k[s,h,d], v[s,h,e]."""
    scores = jnp.einsum("thgd,shd->hgts", q, k) * q.shape[-1] ** -0.5
    if cap is not None:
        scores = cap * jnp.tanh(scores / cap)
    i, j = jnp.arange(len(q))[:, None], jnp.arange(len(k))
    allowed = (j <= i) & (i - j <= (len(q) if window is None else window))
    return jnp.einsum("hgts,she->thge", jax.nn.softmax(jnp.where(allowed, scores, -1e30)), v)


def oracle_of(**options):
    """Of right-padded prompts and steps: the results of the prompt (0 in padding), and of each step."""

    def oracle(q, k, v, q_new, k_new, v_new):
        prompts, steps = [], []
        for row, n in enumerate(LENGTHS):
            tokens = [jnp.concatenate([x[row, :n], new[row]]) for x, new in ((q, q_new), (k, k_new), (v, v_new))]
            result = full(*tokens, **options)
            prompts.append(jnp.pad(result[:n], [(0, PROMPT - n)] + [(0, 0)] * 3))
            steps.append(result[n:])
        return jnp.stack(prompts), jnp.stack(steps)

    return jax.jit(oracle)


def generate(q, k, v, q_new, k_new, v_new, *, shape, dtype=jnp.float32, **options):
    """The same with a cache, whose axes are stored in the order of `shape`."""
    values = {("value" if name == "key" else name): {"key": 6}.get(name, n) for name, n in shape.items()}
    cache = KVCache.init(shape, rows=["batch"], dtype=dtype, value_shape=values)
    cache = cache.append(k, v, lengths=nx.named(jnp.asarray(LENGTHS), ["batch"]))
    results = [cache.attend(q, **options)]
    steps = []
    for i in range(STEPS):
        one = [nx.stack([x["step", i]], axis="one") for x in (q_new, k_new, v_new)]
        cache = cache.append(one[1], one[2], axis="one")
        steps.append(cache.attend(one[0], axis="one", **options)["one", 0])
    return results[0], nx.stack(steps, axis="step")


SHAPE = {"batch": 4, "cache": SLOTS, "heads": 2, "key": 4}
ARGS = [array(4, PROMPT, 2, 3, 4), array(4, PROMPT, 2, 4, seed=1), array(4, PROMPT, 2, 6, seed=2)]
ARGS += [array(4, STEPS, 2, 3, 4, seed=3), array(4, STEPS, 2, 4, seed=4), array(4, STEPS, 2, 6, seed=5)]
IN_AXES = [["batch", axis, "heads", *more] for axis in ("pos", "step") for more in (("group", "key"), ("key",), ("value",))]
OUT_AXES = tuple(["batch", axis, "heads", "group", "value"] for axis in ("pos", "step"))

PLACES = [
    Placement("unmapped", None, ()),
    Placement("batch", (4, 2), (("batch", "x"),)),
    Placement("heads", (4, 2), (("heads", "y"),), "explicit"),
    Placement("batch-and-heads", (4, 2), (("batch", "x"), ("heads", "y")), "explicit"),
    Placement("slots", (8,), (("cache", "x"),)),
    Placement("slots-and-heads", (4, 2), (("cache", "x"), ("heads", "y")), "explicit"),
    Placement("slots-on-two", (4, 2), (("cache", ("y", "x")),)),
    Placement("uneven-heads", (4, 2), (("heads", "x"), ("group", "y"))),
    Placement("uneven-slots", (3, 2), (("cache", "x"), ("batch", "y"))),
    Placement("features", (4, 2), (("key", "y"), ("value", "x"))),
    Placement("positions", (4, 2), (("pos", "x"), ("batch", "y"))),
    Placement("steps-of-the-batch", (4, 2), (("batch", nx.SerialLoop(2)), ("cache", "x"))),
    Placement("slots-and-batch", (4, 2), (("cache", "x"), ("batch", "y")), "auto", "auto"),
]


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize("placement", PLACES, ids=str)
def test_prompts_and_steps_equal_full_attention(placement):
    def named(*args):
        return generate(*args, shape=SHAPE)

    check(named, oracle_of(), ARGS, tuple(IN_AXES), OUT_AXES, placement, tol=5e-5, axis_sizes={"cache": SLOTS})


@pytest.mark.full(1)
@pytest.mark.fast(1)
@pytest.mark.parametrize("placement", [PLACES[0], PLACES[3], PLACES[5], PLACES[8]], ids=str)
@pytest.mark.parametrize("order", [("cache", "heads", "key", "batch"), ("heads", "batch", "key", "cache")], ids="-".join)
def test_other_orders_of_storage_with_a_window_and_a_cap(placement, order):
    def named(*args):
        shape = {name: SHAPE[name] for name in order}
        return generate(*args, shape=shape, local_window_size=(2, 0), soft_cap=1.5)

    oracle = oracle_of(cap=1.5, window=2)
    check(named, oracle, ARGS, tuple(IN_AXES), OUT_AXES, placement, tol=5e-5, grad=False, axis_sizes={"cache": SLOTS})


@pytest.mark.fast(0)
def test_narrow_dtypes():
    args = [nx.named(x, axes) for x, axes in zip(ARGS, IN_AXES, strict=True)]
    have = generate(*args, shape=SHAPE, dtype=jnp.bfloat16)
    for h, w, axes in zip(have, oracle_of()(*ARGS), OUT_AXES, strict=True):
        assert h.dtype == jnp.float32  # of the queries
        np.testing.assert_allclose(nx.positional(h, axes), w, rtol=0.05, atol=0.05)


def step(cache, key, value, query):
    cache = cache.append(key, value)
    return cache, cache.attend(query)


def new_of(cache, count=1, seed=0):
    """Keys, values and queries of one position."""
    shape = {name: n for name, n in cache.keys.named_shape.items() if name != cache.axis} | {"pos": count}
    make = lambda seed: nx.named(array(*shape.values(), seed=seed), [*shape]).astype(cache.keys.dtype)  # noqa: E731
    return make(seed), make(seed + 1), make(seed + 2)


SENT = [
    ({}, {}),
    ({"batch": "x"}, {}),
    ({"heads": "y"}, {}),
    ({"batch": "x", "heads": "y"}, {}),
    ({"cache": "x"}, {"all-reduce"}),
    ({"cache": "x", "heads": "y"}, {"all-reduce"}),
]


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize("kind", ["auto", "explicit"])
@pytest.mark.parametrize(("resources", "kinds"), SENT)
def test_a_donated_cache_is_updated_in_place_and_little_is_sent(resources, kinds, kind):
    """Each device adds its block only; sharded slots take the all-reduces of attention, of one token."""
    mesh, devices = make_mesh((4, 2), kind), {"x": 4, "y": 2}
    for dtype in (jnp.float32, jnp.bfloat16):
        cache = KVCache.init({"batch": 4, "heads": 2, "cache": 4096, "key": 8}, rows=["batch"], dtype=dtype)
        mapped = nx.xmap(step, axis_resources=resources, mesh=mesh)
        args = nx.shard(cache, resources, mesh), *new_of(cache)
        compiled = jax.jit(mapped, donate_argnums=0).lower(*args).compile()
        found = hlo.collectives(compiled.as_text())
        assert {c.kind for c in found} == set(kinds)
        rows = 4 * 2 // (2 if "heads" in resources else 1)
        assert sum(c.bytes for c in found) <= (4 * rows * (8 + 2) if kinds else 0)  # sums and values of one token
        memory = compiled.memory_analysis()
        block = cache.keys.nbytes // int(np.prod([devices[axis] for axis in resources.values()]))
        assert memory.alias_size_in_bytes >= 2 * block
        if dtype == jnp.bfloat16:  # XLA on CPUs contracts in float32
            append = nx.xmap(lambda cache, key, value: cache.append(key, value), axis_resources=resources, mesh=mesh)
            memory = jax.jit(append, donate_argnums=0).lower(*args[:3]).compile().memory_analysis()
            if jax.__version_info__ < (0, 12):  # and writes in float32
                continue
        if "batch" in resources and "heads" in resources:
            continue  # XLA on CPUs copies an array to update one row of it, in programs by hand too
        assert memory.temp_size_in_bytes < block / 2


LAYERS = [
    ("by_name", {}),
    ("by_name", {"cache": "x", "heads": "y"}),
    ("by_name", {"batch": "x"}),
    ("by_position", {}),
    ("by_position", {"cache": "x", "heads": "y"}),
    ("by_position", {"batch": "x"}),
    ("selected", {}),
    ("selected", {"cache": "x", "heads": "y"}),
    ("selected", {"batch": "x"}),
    ("selected", {"layers": "y"}),
    ("selected", {"layers": "y", "cache": "x"}),
    ("selected", {"layers": "x"}),  # uneven: two layers over four devices
]


@pytest.mark.fast(1)
@pytest.mark.full(0)
@pytest.mark.parametrize("kind", ["auto", pytest.param("explicit", marks=pytest.mark.fast(0))])
@pytest.mark.parametrize(("how", "resources"), LAYERS)
def test_layers_of_a_scan(how, resources, kind):
    """A decoder of two layers: each uses a part of one cache, along a named or a positional axis."""
    layers, tokens = 2, 4
    weights, x = array(layers, 2, 4), array(4, tokens, 2, 4)

    def layer(x, w, cache):
        key = x * w
        cache = cache.append(key, x)
        return x + cache.attend(x), cache

    def by_name(weights, x, cache):
        return nx.scan(lambda x, each: layer(x, *each), x, (weights, cache), axis="layers")

    def by_position(weights, x, cache):
        return jax.lax.scan(lambda x, each: layer(x, *each), x, (weights, cache))

    def selected(weights, x, cache):
        def one(carry, each):
            x, cache = carry
            x, part = layer(x, each[1], cache.select("layers", each[0]))
            return (x, part.whole()), None

        return nx.scan(one, (x, cache), (nx.arange(layers, axis="layers"), weights), axis="layers")[0]

    shape = {"batch": 4, "cache": SLOTS, "heads": 2, "key": 4}
    if how != "by_position":
        cache = KVCache.init({"layers": layers, **shape}, rows=["layers", "batch"])
        named = nx.named(weights, ["layers", "heads", "key"])
    else:
        cache = jax.vmap(lambda _: KVCache.init(shape, rows=["batch"]))(jnp.arange(layers))
        named = nx.named(weights, [None, "heads", "key"])
    f = {"by_name": by_name, "by_position": by_position, "selected": selected}[how]
    f = jax.jit(nx.xmap(f, axis_resources=resources, mesh=make_mesh((4, 2), kind)))
    have = []
    for i in (0, 2, 3):  # two tokens, then one at a time
        result, cache = f(named, nx.named(x[:, i : i + (1 if i else 2)], ["batch", "pos", "heads", "key"]), cache)
        have.append(nx.positional(result, ["batch", "pos", "heads", "key"]))

    want = x
    for w in weights:
        want = want + jax.vmap(lambda x, w=w: full(x[:, :, None], x * w, x)[:, :, 0])(want)
    np.testing.assert_allclose(jnp.concatenate(have, 1), want, rtol=1e-4, atol=1e-5)


@pytest.mark.fast(0)
@pytest.mark.full(2)
@pytest.mark.parametrize("rows", [["layers", "batch"], ["layers"]], ids=["rows differ", "rows are alike"])
@pytest.mark.parametrize("resources", [{}, {"batch": "x"}, {"heads": "y"}, {"cache": "x"}, {"batch": "x", "heads": "y"}])
def test_a_selected_layer_is_written_in_place(resources, rows):
    """A loop over layers needs the keys and values of one layer beside a donated cache, which it does not copy."""
    layers = 4
    shape = {"layers": layers, "batch": 8, "heads": 4, "cache": 512, "key": 8}

    def loop(cache, x):
        def one(i, carry):
            x, cache = carry
            part = cache.select("layers", i)
            part = part.append(x, x)
            return x + part.attend(x), part.whole()

        return nx.fori_loop(0, layers, one, (x, cache))

    mesh = make_mesh((4, 2))
    mapped = nx.xmap(loop, axis_resources=resources, mesh=mesh)
    cache = nx.shard(KVCache.init(shape, rows=rows), resources, mesh)
    x = nx.named(array(8, 4, 1, 8), ["batch", "heads", "pos", "key"])
    memory = jax.jit(mapped, donate_argnums=0).lower(cache, x).compile().memory_analysis()
    block = 2 * cache.keys.nbytes // int(np.prod([{"x": 4, "y": 2}[axis] for axis in resources.values()]))
    assert memory.alias_size_in_bytes >= block
    assert memory.temp_size_in_bytes < 1.3 * block / layers


@pytest.mark.full(1)
@pytest.mark.fast(0)
def test_a_selected_layer_is_the_only_one_that_changes():
    """Also outside a loop, in other storage orders, with padded prompts, and if rows are full."""
    lengths = nx.named(jnp.array([3, 1]), ["batch"])
    for order in (
        ["layers", "batch", "cache", "key"],
        ["batch", "cache", "layers", "key"],
        ["key", "cache", "layers", "batch"],
    ):
        sizes = {"layers": 3, "batch": 2, "cache": 4, "key": 4}
        cache = KVCache.init({name: sizes[name] for name in order}, rows=["layers", "batch"])
        alone = KVCache.init({name: sizes[name] for name in order if name != "layers"}, rows=["batch"])
        part = cache.select("layers", 1).append(X, 2 * X, lengths=lengths)
        alone = alone.append(X, 2 * X, lengths=lengths)
        for count in (1, 3):  # the second one exceeds the slots of the first row
            step = lambda cache, x: jax.jit(lambda cache: cache.append(x, x))(cache)  # noqa: E731
            part, alone = (step(one, X["pos", :count]) for one in (part, alone))
            np.testing.assert_array_equal(
                nx.positional(part.attend(X), ["batch", "pos", "key"]), nx.positional(alone.attend(X), ["batch", "pos", "key"])
            )
        assert repr(part).endswith(", lengths i32[]{batch:2}, one of 'layers')")
        got = part.whole()
        assert nx.positional(got.lengths, ["layers", "batch"]).tolist() == [[0, 0], [7, 5], [0, 0]]
        assert nx.positional(got.starts, ["layers", "batch"]).tolist() == [[0, 0], [4, 2], [0, 0]]
        for name in ("keys", "values"):
            whole, one = getattr(got, name), getattr(alone, name)
            np.testing.assert_array_equal(
                nx.positional(whole["layers", 1], ["batch", "cache", "key"]), nx.positional(one, ["batch", "cache", "key"])
            )
            assert not any(np.any(whole["layers", i].data) for i in (0, 2))


@pytest.mark.fast(0)
def test_generation_in_one_compiled_loop():
    """The cache as the carry of a loop; `positions` are those of rotary embeddings."""
    x = array(2, 6, 4)

    def loop(x):
        cache = KVCache.init({"batch": 2, "cache": 6, "key": 4})

        def one(i, carry):
            cache, out = carry
            token = nx.stack([x["time", i]], axis="pos")
            at = cache.positions()
            cache = cache.append(nx.nn.rope(token, at, "key"), token)
            result = cache.attend(nx.nn.rope(token, at, "key"))
            return cache, out.at["time", i].set(result["pos", 0])

        return nx.fori_loop(0, 6, one, (cache, nx.zeros_like(x)))[1]

    f = nx.xmap(loop, ["batch", "time", "key"], ["batch", "time", "key"], axis_resources={"cache": "x"}, mesh=make_mesh((2,)))
    angle = jnp.arange(6)[:, None] * jnp.array([1.0, 0.01])
    a, b = x[..., :2], x[..., 2:]
    turned = jnp.concatenate([a * jnp.cos(angle) - b * jnp.sin(angle), b * jnp.cos(angle) + a * jnp.sin(angle)], -1)
    want = jax.vmap(lambda q, v: full(q[:, None, None], q[:, None], v[:, None])[:, 0, 0])(turned, x)
    np.testing.assert_allclose(f(x), want, rtol=1e-4, atol=1e-5)


@pytest.mark.fast(0)
def test_queries_that_see_all_slots_of_an_encoder():
    memory, q = array(2, 5, 4), array(2, 3, 4, seed=1)
    cache = KVCache.init({"batch": 2, "cache": 7, "key": 4}).append(
        *[nx.named(memory, ["batch", "source", "key"])] * 2, axis="source", lengths=nx.named(jnp.array([5, 2]), ["batch"])
    )
    have = cache.attend(nx.named(q, ["batch", "pos", "key"]), is_causal=False)
    for row, n in enumerate((5, 2)):
        weights = jax.nn.softmax(q[row] @ memory[row, :n].T / 2)
        np.testing.assert_allclose(have["batch", row].data, weights @ memory[row, :n], rtol=1e-5, atol=1e-5)


@pytest.mark.full(1)
@pytest.mark.fast(0)
def test_heads_mask_and_bias_are_those_of_attention():
    k, q = array(5, 2, 4), array(5, 6, 4, seed=1)
    bias, mask = array(6, 8), array(8, kind="bool").at[0].set(True)
    cache = KVCache.init({"cache": 8, "kv": 2, "key": 4}).append(*[nx.named(k, ["pos", "kv", "key"])] * 2)
    have = cache.attend(
        nx.named(q, ["pos", "heads", "key"]),
        heads="heads",
        key_heads="kv",
        scale=0.7,
        bias=nx.named(bias, ["heads", "cache"]),
        mask=nx.named(mask, ["cache"]),
    )
    want = jax.nn.dot_product_attention(q, k, k, bias[:, None, :5], mask[None, None, :5], scale=0.7, is_causal=True)
    np.testing.assert_allclose(nx.positional(have, ["pos", "heads", "key"]), want, rtol=1e-5, atol=1e-5)


def test_rows_that_exceed_the_slots_are_nan():
    cache = KVCache.init({"batch": 2, "cache": 4, "key": 4}, rows=["batch"])
    key, value, query = new_of(cache, 3)
    lengths = nx.named(jnp.array([3, 1]), ["batch"])

    @jax.jit
    def twice(cache):
        cache = cache.append(key, value, lengths=lengths).append(key, value)
        return cache, cache.attend(query)

    late, result = twice(cache)
    assert late.lengths.data.tolist() == [6, 4]
    assert late.capacity == 4
    lost = np.isnan(nx.positional(result, ["batch", "pos", "key"])).all((1, 2))
    assert lost.tolist() == [True, False]
    first, new = (nx.positional(x["batch", 0], [axis, "key"]) for x, axis in ((late.keys, "cache"), (key, "pos")))
    np.testing.assert_array_equal(first, np.concatenate([new, new[:1]]))
    with pytest.raises(ArgumentError) as info:
        cache.append(key, value, lengths=lengths).append(key, value)
    assert "a row would have 6 positions, but the cache has 4 slots 'cache'" in said(info.value)


def test_an_empty_cache_can_be_donated():
    cache = jax.jit(step, donate_argnums=0)(KVCache.init({"cache": 4, "key": 2}), *[nx.named(array(1, 2), ["pos", "key"])] * 3)
    assert int(cache[0].lengths) == 1


def test_it_is_a_pytree_with_the_names_of_its_axes():
    cache = KVCache.init({"batch": 2, "slot": 4, "key": 3}, axis="slot", rows="batch")
    assert [leaf.shape for leaf in jax.tree.leaves(cache)] == [(2, 4, 3), (2, 4, 3), (2,), (2,)]
    assert repr(cache) == "KVCache(f32[]{batch:2, slot:4, key:3}, f32[]{batch:2, slot:4, key:3}, lengths i32[]{batch:2})"
    with pytest.raises(AxisNameError):
        nx.rename(cache, slot="place")
    with pytest.raises(dataclasses.FrozenInstanceError):
        cache.axis = "place"
    placed = nx.shard(cache, {"batch": "x"}, make_mesh((2,)))
    assert placed.keys.sharding.spec == P("x", None, None)
    assert placed.lengths.sharding.spec == P("x")


X = nx.named(array(2, 3, 4), ["batch", "pos", "key"])


def empty():
    return KVCache.init({"batch": 2, "cache": 4, "key": 4})


def stack():
    return KVCache.init({"layers": 3, "batch": 2, "cache": 4, "key": 4}, rows=["layers"])


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: KVCache.init({"batch": 2, "key": 4}), AxisNotFoundError, ["KVCache.init: no axis 'cache'", "the slots"]),
        (lambda: KVCache.init({"cache": 2}, rows=["batch"]), AxisNotFoundError, ["no axis 'batch'", "lengths differ"]),
        (lambda: KVCache.init({"cache": 2}, rows=["cache"]), AxisNotFoundError, ["no axis 'cache'", "lengths differ"]),
        (lambda: KVCache.init({"cache": 2}, value_shape={"cache": 3}), AxisSizeError, ["has size 2 in named_shape, but 3"]),
        (
            lambda: KVCache.init({"cache": 2}, dtype=jnp.int8),
            ArgumentTypeError,
            ["dtype must be a floating-point dtype", "int8"],
        ),
        (lambda: KVCache.init({"cache": None}), AxisNotFoundError, ["axis 'cache' has no size"]),
        (lambda: empty().positions(), AxisNotFoundError, ["KVCache.positions: axis 'pos' has no size", "size="]),
        (lambda: empty().positions("cache", 2), AxisNameError, ["axis='cache' is an axis of the cache"]),
        (lambda: empty().append(X, X, axis=1), PositionalAxisError, ["axis=1 is not an axis name"]),
        (lambda: empty().append(X, X, "new"), AxisNotFoundError, ["KVCache.append: no axis 'new'", "key"]),
        (lambda: empty().append(X, X["pos", 0]), AxisNotFoundError, ["no axis 'pos'", "value"]),
        (
            lambda: empty().append(nx.rename(X, {"pos": "cache"}), X, "cache"),
            AxisNameError,
            ["axis='cache' is an axis of the cache", "another name"],
        ),
        (
            lambda: empty().append(nx.rename(X, {"batch": "row"}), X),
            AxisNameError,
            ["key", "has the axis 'row', which the cache"],
        ),
        (lambda: empty().append(X["key", :3], X), AxisSizeError, ["axis 'key' has size 3 in key", "but 4 in the cache"]),
        (lambda: empty().append(X.astype(int), X), ArgumentTypeError, ["key must contain floating-point numbers"]),
        (
            lambda: empty().append(nx.concatenate([X, X], "pos"), X),
            AxisSizeError,
            ["6 positions 'pos' do not fit into the 4 slots 'cache'"],
        ),
        (lambda: empty().append(X, X, lengths=1.0), ArgumentTypeError, ["lengths must contain integers"]),
        (lambda: empty().append(X, X, lengths=X["key", 0].astype(int)), AxisNameError, ["lengths", "has the axes 'pos'"]),
        (lambda: empty().append(X, X, lengths=4), ArgumentError, ["lengths must be from 0 to 3", "got 4 to 4"]),
        (lambda: empty().append(nx.untag(X, ["batch"]), X), PositionalAxisError, ["key", "has positional axes"]),
        (lambda: empty().attend(X, "new"), AxisNotFoundError, ["KVCache.attend: no axis 'new'", "query"]),
        (lambda: empty().attend(X, features="d"), AxisNotFoundError, ["no axis 'd'"]),
        (lambda: empty().attend(X, local_window_size=(-1, 0)), ArgumentError, ["local_window_size must be at least 0"]),
        (lambda: empty().select("layers", 0), AxisNotFoundError, ["KVCache.select: no axis 'layers'", "rows= of KVCache.init"]),
        (lambda: stack().select("batch", 0), AxisNotFoundError, ["KVCache.select: no axis 'batch'", "rows="]),
        (
            lambda: stack().select("layers", 1.0),
            ArgumentTypeError,
            ["index must be an integer, got f32[]", "number of a layer"],
        ),
        (lambda: stack().select("layers", jnp.arange(2)), ArgumentError, ["index must be one integer, got i32[2]"]),
        (lambda: stack().select("layers", 3), ArgumentError, ["index must be from 0 to 2", "got 3"]),
        (lambda: stack().select("layers", -1), ArgumentError, ["index must be from 0 to 2", "got -1"]),
        (
            lambda: stack().select("layers", 1).select("layers", 1),
            ArgumentError,
            ["an index along 'layers' is selected already", "cache.whole()"],
        ),
        (lambda: stack().whole(), ArgumentError, ["KVCache.whole: no layer is selected"]),
        (
            lambda: stack().select("layers", 1).append(X, X, lengths=nx.named(jnp.array([3, 1]), ["batch"])).whole(),
            AxisNameError,
            ["lengths of the layer", "have the axes 'batch'", "rows= of KVCache.init"],
        ),
        (
            lambda: stack().select("layers", 1).append(X + nx.zeros(named_shape={"layers": 3}), X),
            AxisNameError,
            ["has the axis 'layers', which"],
        ),
    ],
)
def test_mistakes(call, error, words):
    with pytest.raises(error) as info:
        call()
    for word in words:
        assert word in said(info.value)


def test_queries_on_the_mesh_axis_of_the_slots():
    def body(q):
        cache = KVCache.init({"cache": 4, "key": 4}).append(q, q)
        return cache.attend(q)

    with pytest.raises(PlacementConflictError) as info:
        nx.xmap(body, ["pos", "key"], ["pos", "key"], axis_resources={"pos": "x", "cache": "x"}, mesh=make_mesh((2,)))(
            array(4, 4)
        )
    assert "'pos'" in said(info.value)
    assert "'cache'" in said(info.value)


@pytest.mark.fast(0)
def test_64_bits():
    with jax.enable_x64(True):
        new = nx.named(jnp.arange(2.0).reshape(2, 1), ["pos", "key"])
        cache = KVCache.init({"cache": 4, "key": 1}, dtype=jnp.float64).append(new, new).append(new, new)
        assert cache.keys.data.ravel().tolist() == [0.0, 1.0, 0.0, 1.0]
