"""`dot_product_attention(implementation="cudnn")` by name: its errors, and the arrays that the kernel receives.

There is no GPU here. The tests of values give the kernel's arguments to JAX's own `"xla"`, which takes the same ones;
`benchmarks/gpu.py` compares the kernel itself.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import namedax as nx
from tests.harness import array, make_mesh

attention = nx.nn.dot_product_attention
JAX = jax.nn.dot_product_attention
E = nx.errors
NAMES = ["b", "t", "h", "g", "d"]
SHARED = ["b", "t", "h", "d"]


@pytest.fixture
def gpu(monkeypatch):
    """Compute the fused kernel with XLA; the list has the shapes of its queries and keys."""
    shapes = []

    def kernel(query, key, value, *, implementation, **options):
        assert implementation == "cudnn"
        shapes.append((query.shape, key.shape, value.shape))
        return JAX(query, key, value, implementation="xla", **options)

    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    monkeypatch.setattr(jax.nn, "dot_product_attention", kernel)
    return shapes


def operands(seed=0):
    shapes = ((4, 8, 2, 6, 5), (4, 8, 2, 5), (4, 8, 2, 5))
    return tuple(array(*shape, seed=seed + i).astype(jnp.bfloat16) for i, shape in enumerate(shapes))


def loss_of(implementation, **options):
    def loss(q, k, v):
        result = attention(q, k, v, axis="t", features="d", implementation=implementation, **options)
        return nx.sum(nx.sin(3 * result.astype(jnp.float32)), ("b", "t", "h", "g", "d"))

    return loss


# And the shapes that the kernel receives.
LAYOUTS = {
    "batch": ({"b": "x"}, ((2, 8, 12, 5), (2, 8, 2, 5), (2, 8, 2, 5))),
    "heads": ({"b": "x", "h": "y"}, ((2, 8, 6, 5), (2, 8, 1, 5), (2, 8, 1, 5))),
    "heads that share keys": ({"g": "x"}, ((4, 8, 6, 5), (4, 8, 2, 5), (4, 8, 2, 5))),
}
OPTIONS = [{}, {"is_causal": True}, {"is_causal": True, "local_window_size": (2, 1)}, {"scale": 0.7}]


@pytest.mark.full(1)
@pytest.mark.fast(4)
@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("partitioning", ["manual", "global"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_kernel_gives_the_values_and_gradients_of_the_default(layout, partitioning, options, gpu):
    resources, shapes = LAYOUTS[layout]
    mesh = make_mesh((2, 2) if "y" in resources.values() else (2,))
    places = {"axis_resources": resources, "mesh": mesh, "partitioning": partitioning}
    found = []
    for implementation in ("cudnn", None):
        f = jax.value_and_grad(loss_of(implementation, **options), (0, 1, 2))
        names = (NAMES, SHARED, SHARED)
        found.append(nx.xmap(f, names, ([], names), **places)(*operands()))
    assert shapes in gpu
    for have, want in zip(*map(jax.tree.leaves, found), strict=True):
        np.testing.assert_allclose(have.astype(jnp.float32), want.astype(jnp.float32), rtol=0.05, atol=0.05)


@pytest.mark.fast(0)
@pytest.mark.parametrize(
    "dims",
    [
        (["h", "t", "b", "d"], ["t", "h", "d", "b"], ["d", "h", "b", "t"]),
        (["b", "h", "t", "d"], ["d", "t", "b"], ["t", "b", "d"]),
        (["t", "d"], ["b", "t", "d", "h"], ["t", "h", "d"]),
        ([None, "t", "d"], ["b", "t", "d", None], ["t", "d"]),
    ],
    ids=str,
)
def test_any_order_of_axes_and_any_batch_axes(dims, gpu):
    sizes = {"b": 3, "t": 6, "h": 4, "d": 8, None: 2}
    args = [nx.named(array(*(sizes[d] for d in names), seed=i).astype(jnp.bfloat16), names) for i, names in enumerate(dims)]
    have, want = (attention(*args, axis="t", features="d", is_causal=True, implementation=which) for which in ("cudnn", "xla"))
    assert len(gpu) == 1
    assert have.dims == want.dims
    assert have.dtype == jnp.bfloat16
    np.testing.assert_allclose(have.data.astype(jnp.float32), want.data.astype(jnp.float32), rtol=0.02, atol=0.02)


def test_query_heads_and_another_name_of_the_keys(gpu):
    q = nx.named(array(3, 6, 5, 8).astype(jnp.bfloat16), ["b", "heads", "t", "d"])
    k = nx.named(array(3, 2, 7, 8, seed=1).astype(jnp.bfloat16), ["b", "kv", "s", "d"])
    v = nx.named(array(3, 2, 7, 8, seed=2).astype(jnp.bfloat16), ["b", "kv", "s", "e"])
    names = {"axis": "t", "key_axis": "s", "features": "d", "heads": "heads", "key_heads": "kv"}
    have, want = (attention(q, k, v, implementation=which, **names) for which in ("cudnn", None))
    assert have.dims == want.dims == ("b", "heads", "t", "e")
    np.testing.assert_allclose(have.data.astype(jnp.float32), want.data.astype(jnp.float32), rtol=0.02, atol=0.02)


@pytest.mark.fast(0)
@pytest.mark.parametrize("resources", [{}, {"t": "x"}, {"h": "x"}], ids=str)
def test_xla_is_the_default(resources):
    def of(implementation):
        def f(q, k, v):
            return attention(q, k, v, axis="t", features="d", is_causal=True, implementation=implementation)

        return nx.xmap(f, (NAMES, SHARED, SHARED), NAMES, axis_resources=resources, mesh=make_mesh((2,)))(*operands())

    np.testing.assert_array_equal(of("xla"), of(None))


def named_operands(dtype=jnp.bfloat16, **changes):
    q, k, v = (nx.named(x.astype(dtype), names) for x, names in zip(operands(), (NAMES, SHARED, SHARED), strict=True))
    return {"query": q, "key": k, "value": v, "axis": "t", "features": "d", "implementation": "cudnn"} | changes


def few(n, *dims):
    sizes = dict(zip(NAMES, (4, n, 2, 6, 5), strict=True))
    return nx.named(array(*(sizes[d] for d in dims)).astype(jnp.bfloat16), list(dims))


def by_position():
    names = dict.fromkeys(("axis", "features"))
    return names | dict.fromkeys(("query", "key", "value"), array(2, 8, 4, 8).astype(jnp.bfloat16))


def with_fewer_keys():
    k = nx.rename(few(6, "b", "t", "d"), {"t": "s"})
    return {"key": k, "value": k, "key_axis": "s", "is_causal": True}


MISTAKES = {
    "no GPU": (
        lambda: dict.fromkeys(("query", "key", "value"), few(7, "t", "d")),
        E.ArgumentError,
        ["requires a GPU", "'cpu'", "Leave out implementation="],
    ),
    "unknown": (lambda: {"implementation": "flash"}, E.ArgumentError, ["must be 'xla', 'cudnn' or None, got 'flash'"]),
    "a dtype": (lambda: {"dtype": jnp.float32}, E.ArgumentTypeError, ["float16 or bfloat16, got float32", "Cast them"]),
    "sinks": (lambda: {"sinks": 0.5}, E.ArgumentError, ["does not support sinks=."]),
    "a residual": (lambda: {"return_residual": True}, E.ArgumentError, ["does not support return_residual=."]),
    "a soft cap": (lambda: {"soft_cap": 2.0}, E.ArgumentError, ["does not support soft_cap=."]),
    "a window": (lambda: {"local_window_size": 2}, E.ArgumentError, ["local_window_size= without is_causal=True"]),
    "segments": (
        lambda: {"segments": nx.arange(8, axis="t")},
        E.ArgumentError,
        ["does not support segments=, key_segments=."],
    ),
    "lengths": (lambda: {"key_value_seq_lengths": nx.arange(4, axis="b")}, E.ArgumentError, ["key_value_seq_lengths="]),
    "a bias": (lambda: {"bias": nx.arange(8.0, axis="t")}, E.ArgumentError, ["does not support bias=."]),
    "a mask": (lambda: {"mask": nx.arange(8, axis="t") > 3}, E.ArgumentError, ["does not support mask=."]),
    "fewer keys": (
        with_fewer_keys,
        E.AxisSizeError,
        ["as many keys as queries", "'t' has size 8", "'s' has size 6"],
    ),
    "features of the value": (
        lambda: {"value": nx.named(jnp.ones((8, 6), jnp.bfloat16), ["t", "e"])},
        E.AxisSizeError,
        ["value has 6", "'d' has size 5"],
    ),
    "by position": (by_position, E.ArgumentError, ["requires a GPU", "'cpu'"]),
}


@pytest.mark.parametrize("label", MISTAKES)
def test_mistakes(label):
    changes, error, words = MISTAKES[label]
    arguments = named_operands(**changes())
    with pytest.raises(error) as raised:
        attention(**arguments)
    text = str(raised.value)
    assert all(word in text for word in ("dot_product_attention: ", *words)), text


RINGS = {
    "a ring": ({"t": "x"}, {}, ["the key positions 't'", "('x',)"]),
    "keys": ({"s": "x"}, {"key_axis": "s"}, ["the key positions 's'", "('x',)"]),
    "features": ({"d": "x"}, {}, ["the features 'd'"]),
    "features of the value": ({"e": "x"}, {"of_value": "e"}, ["the features of value"]),
    "queries of a causal mask": (
        {"t": "x"},
        {"key_axis": "s", "is_causal": True},
        ["the query positions 't' of a causal mask"],
    ),
}


@pytest.mark.parametrize("label", RINGS)
def test_a_layout_that_shards_the_keys_is_an_error(label):
    resources, given, words = RINGS[label]
    options = {key: value for key, value in given.items() if key != "of_value"}
    own = given.get("key_axis", "t")

    def f(q, k, v):
        return attention(q, k, v, axis="t", features="d", implementation="cudnn", **options)

    x = array(8, 8).astype(jnp.bfloat16)
    out = ["t", given.get("of_value", "d")]
    mapped = nx.xmap(f, (["t", "d"], [own, "d"], [own, out[1]]), out, axis_resources=resources, mesh=make_mesh((2,)))
    with pytest.raises(E.PlacementConflictError) as raised:
        mapped(x, x, x)
    text = str(raised.value)
    assert all(word in text for word in ("requires complete keys", "leave out implementation=", *words)), text


def test_queries_may_be_sharded_without_a_causal_mask(gpu):
    def of(implementation):
        def f(q, k, v):
            return attention(q, k, v, axis="t", key_axis="s", features="d", implementation=implementation)

        x, y = (array(8, 8, seed=seed).astype(jnp.bfloat16) for seed in (0, 1))
        return nx.xmap(f, (["t", "d"], ["s", "d"], ["s", "d"]), ["t", "d"], axis_resources={"t": "x"}, mesh=make_mesh((2,)))(
            x, y, y
        )

    np.testing.assert_allclose(of("cudnn").astype(jnp.float32), of(None).astype(jnp.float32), rtol=0.02, atol=0.02)
    assert gpu == [((1, 4, 1, 8), (1, 8, 1, 8), (1, 8, 1, 8))]
