"""Attention whose values are a part of the key, as in multi-head latent attention.

A ring moves only the key, and a cache stores only the keys.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import namedax as nx
from namedax.hlo import collectives
from tests.harness import FEW, Placement, array, check, make_mesh, said

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


@pytest.mark.full(2)
@pytest.mark.fast(0)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("part", [slice(0, 4), slice(2, None), None], ids=str)
@pytest.mark.parametrize("placement", FEW, ids=str)
def test_values_and_gradients(placement, part, kind):
    named = attend(None if part is None else {"v": part}, **KINDS[kind])
    start, stop, _ = (part or slice(None)).indices(6)
    out = ["a", "b", "d" if part is None else "v"]
    check(named, by_hand(start, stop, **KINDS[kind]), (Q, K), (["a", "b", "d"], ["a", "d"]), out, placement, tol=1e-4)


@pytest.mark.full(2)
@pytest.mark.fast(0)
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


@pytest.mark.fast(1)
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
        ({"v": slice(0.0, 4.0)}, "must be an array, or one new axis name"),
    ],
)
def test_errors(value, message):
    q, k = nx.named(Q, ["a", "b", "d"]), nx.named(K, ["a", "d"])
    with pytest.raises(nx.errors.ArgumentError, match=f"dot_product_attention: value=.*{message}|{message}"):
        nx.nn.dot_product_attention(q, k, value, **NAMES)
    with pytest.raises(nx.errors.ArgumentTypeError, match=r"dot_product_attention: value=.* is not an array of numbers"):
        nx.nn.dot_product_attention(Q[None], Q[None], {"v": slice(0, 2)})


def test_the_name_of_the_values_is_new():
    q, k = nx.named(Q, ["a", "b", "d"]), nx.named(K, ["a", "d"])
    with pytest.raises(nx.errors.AxisNameError) as info:
        nx.nn.dot_product_attention(q, k, {"b": slice(0, 4)}, **NAMES)
    assert "names the values like an axis of f32[]{a:8, b:4, d:6}. Choose a new name." in said(info.value)


# --- the cache ------------------------------------------------------------------------------------

KVCache = nx.nn.KVCache
PROMPT, STEPS, SLOTS, WIDTH, HEADS = 5, 2, 8, 6, 3
LENGTHS = np.array([5, 1, 3, 2])
PARTS = {"part": slice(0, 4), "rest": slice(1, None), "all": slice(None)}


def rows_by_hand(part, window=SLOTS):
    """Of right-padded prompts and steps: the results of the prompt (0 in padding), and of each step."""

    def oracle(q, k, q_new, k_new):
        prompts, steps = [], []
        for row, n in enumerate(LENGTHS):
            queries, keys = (jnp.concatenate([x[row, :n], new[row]]) for x, new in ((q, q_new), (k, k_new)))
            apart = jnp.arange(len(keys))[:, None] - jnp.arange(len(keys))
            scores = jnp.einsum("qhd,kd->hqk", queries, keys) / np.sqrt(WIDTH)
            weights = jax.nn.softmax(jnp.where((apart >= 0) & (apart <= window), scores, -1e30))
            result = jnp.einsum("hqk,kv->qhv", weights, keys[:, part])
            prompts.append(jnp.pad(result[:n], [(0, PROMPT - n), (0, 0), (0, 0)]))
            steps.append(result[n:])
        return jnp.stack(prompts), jnp.stack(steps)

    return jax.jit(oracle)


def generate(part, shape, **options):
    def run(q, k, q_new, k_new):
        cache = KVCache.init(shape, rows=["batch"], value={"v": part})
        cache = cache.append(k, lengths=nx.named(jnp.asarray(LENGTHS), ["batch"]))
        result, steps = cache.attend(q, **options), []
        for i in range(STEPS):
            query, key = (nx.stack([x["step", i]], axis="one") for x in (q_new, k_new))
            cache = cache.append(key, axis="one")
            steps.append(cache.attend(query, axis="one", **options)["one", 0])
        return result, nx.stack(steps, axis="step")

    return run


SHAPE = {"batch": 4, "cache": SLOTS, "key": WIDTH}
NEW = [array(4, PROMPT, HEADS, WIDTH), array(4, PROMPT, WIDTH, seed=1)]
NEW += [array(4, STEPS, HEADS, WIDTH, seed=2), array(4, STEPS, WIDTH, seed=3)]
IN_AXES = [["batch", axis, *more] for axis in ("pos", "step") for more in (("heads", "key"), ("key",))]
OUT_AXES = tuple(["batch", axis, "heads", "v"] for axis in ("pos", "step"))
CACHES = [
    Placement("unmapped", None, ()),
    Placement("batch-and-heads", (4, 2), (("batch", "x"), ("heads", "y")), "explicit"),
    Placement("slots-and-heads", (4, 2), (("cache", "x"), ("heads", "y"))),
    Placement("uneven-slots", (3, 2), (("cache", "x"), ("batch", "y")), "explicit"),
    Placement("features", (2, 2), (("key", "x"), ("batch", "y"))),
    Placement("features-and-values", (4, 2), (("key", "y"), ("v", "y"), ("cache", "x")), "explicit"),
    Placement("positions", (4, 2), (("pos", "x"), ("v", "y"))),
    Placement("steps-of-the-batch", (4, 2), (("batch", nx.SerialLoop(2)), ("cache", "x"))),
    Placement("slots-by-the-partitioner", (4, 2), (("cache", "x"), ("batch", "y")), "auto", "auto"),
]


@pytest.mark.full(1)
@pytest.mark.fast(1)
@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("placement", CACHES, ids=str)
def test_prompts_and_steps_of_a_cache_of_keys(placement, part):
    check(
        generate(PARTS[part], SHAPE),
        rows_by_hand(PARTS[part]),
        NEW,
        tuple(IN_AXES),
        OUT_AXES,
        placement,
        tol=5e-5,
        axis_sizes={"cache": SLOTS},
    )


@pytest.mark.fast(0)
@pytest.mark.parametrize("is_traced", [False, True], ids=["eager", "jit"])
def test_a_cache_of_keys_outside_of_bodies_with_a_window(is_traced):
    mesh = make_mesh((4, 2), "explicit")
    args = [nx.named(x, axes) for x, axes in zip(NEW, IN_AXES, strict=True)]
    placed = [nx.shard(x, {"batch": "x"}, mesh) for x in args]
    shape = {name: SHAPE[name] for name in ("cache", "key", "batch")}
    run = generate(slice(0, 4), shape, local_window_size=(2, 0))
    with jax.set_mesh(mesh):
        have = (jax.jit(run) if is_traced else run)(*placed)
    for h, w, axes in zip(have, rows_by_hand(slice(0, 4), window=2)(*NEW), OUT_AXES, strict=True):
        np.testing.assert_allclose(nx.positional(h, axes), w, rtol=5e-5, atol=5e-5)


def latent_step(cache, key, query):
    cache = cache.append(key)
    return cache, cache.attend(query)


def step_by_hand(keys, length, key, query):
    """One row of lengths for all; the sums of all features are sliced, so that the keys are not copied."""
    keys = jax.lax.dynamic_update_slice(keys, key, (0, length, 0))
    scores = jnp.einsum("bthf,bsf->bhts", query, keys) / np.sqrt(key.shape[-1])
    weights = jax.nn.softmax(jnp.where(jnp.arange(keys.shape[1]) <= length, scores, -jnp.inf))
    return keys, jnp.einsum("bhts,bsf->bthf", weights, keys)[..., :64]


@pytest.mark.full(2)
@pytest.mark.fast(2)
@pytest.mark.parametrize(
    ("resources", "kinds"),
    [({}, set()), ({"batch": "x"}, set()), ({"cache": "x"}, {"all-reduce"}), ({"heads": "y"}, set())],
)
def test_bytes_of_a_cache_of_keys(resources, kinds):
    """DeepSeek's shares of features: as many bytes as by hand, where keys and values need almost twice of them."""
    slots, width = 512, 72
    cache = KVCache.init({"batch": 4, "cache": slots, "key": width}, value={"latent": slice(0, 64)})
    key, query = nx.named(array(4, 1, width), ["batch", "pos", "key"]), array(4, 1, 2, width)
    mesh = make_mesh((4, 2))
    mapped = nx.xmap(latent_step, axis_resources=resources, mesh=mesh)
    args = nx.shard(cache, resources, mesh), key, nx.named(query, ["batch", "pos", "heads", "key"])
    compiled = jax.jit(mapped, donate_argnums=0).lower(*args).compile()
    assert sum(leaf.nbytes for leaf in jax.tree.leaves(cache)) == 4 * slots * width * 4 + 8  # and lengths and starts
    assert {c.kind for c in collectives(compiled)} == kinds
    sent = 4 * 2 * (64 + 2) * 4 if kinds else 0  # sums, weights and the largest scores of one token
    assert sum(c.bytes for c in collectives(compiled)) <= sent
    memory = compiled.memory_analysis()
    devices = 4 if {"batch", "cache"} & set(resources) else 1
    assert memory.alias_size_in_bytes >= cache.keys.nbytes // devices
    by_hand = jax.jit(step_by_hand, donate_argnums=0).lower(cache.keys.data, jnp.int32(0), key.data, query).compile()
    by_hand = by_hand.memory_analysis().temp_size_in_bytes
    assert by_hand < cache.keys.nbytes / 8
    if resources != {"batch": "x"}:  # XLA on CPUs copies an array to update its only row, by hand too
        assert memory.temp_size_in_bytes <= by_hand


@pytest.mark.fast(0)
def test_sharded_features_send_the_result_of_a_step():
    mesh = make_mesh((4, 2))
    cache = KVCache.init({"batch": 4, "cache": 512, "key": 8}, value={"latent": slice(0, 6)})
    key, query = (
        nx.named(array(4, 1, *n), ["batch", "pos", *more]) for n, more in (((8,), ["key"]), ((2, 8), ["heads", "key"]))
    )
    for resources in ({"key": "y"}, {"key": "y", "latent": "y"}):
        mapped = nx.xmap(latent_step, axis_resources=resources, mesh=mesh)
        sent = collectives(jax.jit(mapped).lower(nx.shard(cache, resources, mesh), key, query).compile())
        scores = 4 * 2 * 512 * 4
        assert sum(c.bytes for c in sent) <= scores + 4 * 2 * 8 * 4


def test_a_selected_layer_of_a_cache_of_keys_is_written_in_place():
    cache = KVCache.init({"layers": 8, "batch": 2, "cache": 64, "key": 8}, rows=["layers"], value={"v": slice(0, 8)})
    x = nx.named(array(2, 1, 8), ["batch", "pos", "key"])

    def loop(cache, x):
        def one(i, carry):
            x, cache = carry
            part = cache.select("layers", i).append(x)
            return x + nx.rename(part.attend(x), {"v": "key"}), part.whole()

        return nx.fori_loop(0, 8, one, (x, cache))

    compiled = jax.jit(loop, donate_argnums=0).lower(cache, x).compile()
    assert compiled.memory_analysis().alias_size_in_bytes >= cache.keys.nbytes
    assert compiled.memory_analysis().temp_size_in_bytes < 1.5 * cache.keys.nbytes / 8  # keys and values: 2.2
    have, filled = compiled(cache, x)
    np.testing.assert_allclose(have.data, x.data * 2**8, rtol=1e-5)  # of one position
    assert filled.lengths.data.tolist() == [1] * 8
    assert repr(filled.select("layers", 1)).endswith("{'v': slice(0, 8)} of the keys, lengths i32[], one of 'layers')")


def test_a_cache_of_keys_is_a_pytree():
    cache = KVCache.init({"batch": 2, "cache": 4, "key": 6}, value={"v": slice(0, 4)}, dtype=jnp.bfloat16)
    assert cache.values is None
    assert [leaf.shape for leaf in jax.tree.leaves(cache)] == [(2, 4, 6), (), ()]
    assert repr(cache) == "KVCache(bf16[]{batch:2, cache:4, key:6}, {'v': slice(0, 4)} of the keys, lengths i32[])"
    doubled = jax.tree.map(lambda leaf: 2 * leaf, cache)
    assert doubled.part == ("v", 0, 4)
    assert jax.tree.structure(cache) != jax.tree.structure(KVCache.init({"batch": 2, "cache": 4, "key": 6}))


ONE = nx.named(array(2, 3, 6), ["batch", "pos", "key"])


def keys_only(value={"v": slice(0, 4)}, **options):  # noqa: B006
    return KVCache.init({"batch": 2, "cache": 4, "key": 6}, value=value, **options)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (
            lambda: keys_only().append(ONE, ONE),
            nx.errors.ArgumentError,
            ["KVCache.append: value= is passed", "its values are {'v': slice(0, 4)} of these", "Leave out value="],
        ),
        (
            lambda: keys_only(None).append(ONE),
            nx.errors.ArgumentError,
            ["KVCache.append: value is missing, but the cache stores values", "KVCache.init, such as value={'latent'"],
        ),
        (
            lambda: keys_only(None).append(ONE, {"v": slice(0, 4)}),
            nx.errors.ArgumentError,
            ["value is {'v': slice(0, 4, None)}, but the cache stores values"],
        ),
        (
            lambda: keys_only(value_shape={"batch": 2, "cache": 4, "v": 4}),
            nx.errors.ArgumentError,
            ["value= and value_shape= are passed", "Leave out one"],
        ),
        (lambda: keys_only(slice(0, 4)), nx.errors.ArgumentError, ["must be one new axis name with a range of the features"]),
        (lambda: keys_only({"v": slice(-2, None)}), nx.errors.ArgumentError, ["has a negative index"]),
        (lambda: keys_only({"key": slice(0, 4)}), nx.errors.AxisNameError, ["needs a new axis name", "'key': 6"]),
        (lambda: keys_only({0: slice(0, 4)}), nx.errors.AxisNameError, ["needs a new axis name"]),
        (
            lambda: keys_only().append(ONE).attend(nx.expand_dims(ONE, "v")),
            nx.errors.AxisNameError,
            ["names the values like an axis of", "Choose a new name"],
        ),
    ],
)
def test_mistakes_with_a_cache_of_keys(call, error, words):
    with pytest.raises(error) as info:
        call()
    for word in words:
        assert word in said(info.value)
