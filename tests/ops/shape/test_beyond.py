"""What stands beside JAX's functions: triangles and masks by name, broadcasting to names, parts under new names, one answer over names.

Oracles are NumPy and `jnp` on positional arrays.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import namedax as nx
from namedax import hlo
from namedax.errors import (
    ArgumentError,
    ArgumentTypeError,
    AxisMappingError,
    AxisNameError,
    AxisNotFoundError,
    AxisSizeError,
    PositionalAxisError,
)
from tests.harness import FEW, PARTITIONER, array, check, make_mesh, together

PLACES = [FEW[0], FEW[2], FEW[3], PARTITIONER[3]]


def prefix(q, k, n, offset=0):
    at = np.arange(q)[:, None] + offset
    return (np.arange(k) <= at) | (np.arange(k) < np.asarray(n)[..., None, None])


def alibi(slopes, q, k):
    return -np.asarray(slopes)[:, None, None] * abs(np.arange(q)[:, None] - np.arange(k))


# x is {a: 8, b: 4}[3]
PROGRAMS = {
    "tril": (
        lambda x: nx.tril(x, axis=("a", "b")),
        lambda x: jnp.tril(x.transpose(2, 0, 1)).transpose(1, 2, 0),
        ["a", "b", None],
    ),
    "triu": (
        lambda x: nx.triu(x, -2, axis=("b", "a")),
        lambda x: jnp.triu(x.transpose(2, 1, 0), -2).transpose(2, 1, 0),
        ["a", "b", None],
    ),
    "of a position": (
        lambda x: nx.tril(x, 1, axis=(0, "a")),
        lambda x: jnp.tril(x.transpose(1, 2, 0), 1).transpose(2, 0, 1),
        ["a", "b", None],
    ),
    "another diagonal for each": (
        lambda x: nx.tril(x, nx.arange(4, axis="b"), axis=("a", 0)),
        lambda x: jnp.stack([jnp.tril(x[:, i], i) for i in range(4)], 1),
        ["a", "b", None],
    ),
    "broadcast": (
        lambda x: nx.broadcast_to(x["b", 1], named_shape={"b": 4, "a": None}) * x,
        lambda x: x[:, 1:2] * x,
        ["a", "b", None],
    ),
    "broadcast both": (
        lambda x: nx.broadcast_to(nx.sum(x, "a"), (2, 3), named_shape={"a": 8}) ** 2,
        lambda x: jnp.broadcast_to(x.sum(0)[None, :, None], (8, 4, 2, 3)) ** 2,
        ["a", "b", None, None],
    ),
    "untag": (
        lambda x: nx.nmap(jnp.cumsum)(nx.untag(x, [None, "b"])) * nx.sum(x, "b", keepdims=False)[..., :1],
        lambda x: jax.vmap(jnp.cumsum)(x.transpose(0, 2, 1)) * x.sum(1)[:, :1],
        ["a", None],
    ),
    "linspace": (
        lambda x: nx.linspace(x, nx.max(x, "a"), 8, axis="q", endpoint=False) * nx.linspace(0.0, 1.0, 8, axis="q"),
        lambda x: (
            jnp.linspace(x, jnp.broadcast_to(x.max(0), x.shape), 8, endpoint=False) * jnp.linspace(0, 1, 8)[:, None, None, None]
        ),
        ["q", "a", "b", None],
    ),
    "binary cross-entropy": (
        lambda x: nx.nn.binary_cross_entropy(x * 9, nx.mean(nx.nn.sigmoid(x), "a"), pos_weight=2.0, where=x > -1),
        lambda x: jnp.where(
            x > -1,
            -2 * jax.nn.sigmoid(x).mean(0) * jnp.log(jax.nn.sigmoid(x * 9))
            - (1 - jax.nn.sigmoid(x).mean(0)) * jnp.log(jax.nn.sigmoid(-x * 9)),
            0,
        ),
        ["a", "b", None],
    ),
    "same size": (
        lambda x: nx.slice(x, {"a": slice(None, None, -1)}, out_axis={"a": "a"}),
        lambda x: x[::-1],
        ["a", "b", None],
    ),
}


@pytest.mark.full(0)
@pytest.mark.fast(1)
@pytest.mark.parametrize("placement", PLACES, ids=str)
def test_values_and_gradients(placement):
    check(*together(PROGRAMS)[:2], (array(8, 4, 3),), (["a", "b", None],), together(PROGRAMS)[2], placement, tol=1e-4)


MASKS = {
    "causal": (lambda: nx.nn.causal_mask({"b": 4, "a": None}, axis=("a", "b")), lambda: np.tril(np.ones((8, 4), bool))),
    "window": (
        lambda: nx.nn.causal_mask({"b": 4, "a": None}, axis=("b", "a"), offset=2, window=3).astype(int),
        lambda: np.tril(np.ones((4, 8), int), 2) - np.tril(np.ones((4, 8), int), -1),
    ),
    "prefix": (lambda: nx.nn.prefix_mask({"a": 8, "b": 4}, 3, axis=["a", "b"]), lambda: prefix(8, 4, 3)),
    "prefixes": (
        lambda: nx.nn.prefix_mask({"b": 4, "a": 8}, nx.arange(3, axis="c"), axis=("a", "b"), offset=-1),
        lambda: prefix(8, 4, np.arange(3), -1),
    ),
    "alibi": (
        lambda: nx.nn.alibi_bias({"c": 3, "a": 8, "b": None}, axis=("b", "a", "c")),
        lambda: alibi([1 / 4, 1 / 16, 1 / 64, 1 / 256], 8, 3),
    ),
    "six heads": (
        lambda: nx.nn.alibi_bias({"h": 6, "a": 8, "b": 4}, axis=("h", "a", "b")),
        lambda: alibi([2**-2, 2**-4, 2**-6, 2**-8, 2**-1, 2**-3], 8, 4),
    ),
    "frequencies": (lambda: nx.numpy.fft.fftfreq(8, 0.5, axis="a"), lambda: np.fft.fftfreq(8, 0.5)),
}
_ORDER = {
    "window": ["b", "a"],
    "prefixes": ["c", "a", "b"],
    "alibi": ["b", "a", "c"],
    "six heads": ["h", "a", "b"],
    "frequencies": ["a"],
}


@pytest.mark.parametrize("placement", PLACES, ids=str)
def test_masks(placement):
    out_axes = {key: _ORDER.get(key, ["a", "b"]) for key in MASKS}
    f = nx.xmap(
        lambda: {key: named() for key, (named, _) in MASKS.items()},
        (),
        out_axes,
        axis_sizes={"a": 8, "b": 4, "c": 3},
        **placement.options,
    )
    with placement.context():
        have = f()
    for key, (_, want) in MASKS.items():
        np.testing.assert_allclose(np.asarray(have[key], float), np.asarray(want(), float), rtol=1e-6, err_msg=key)
    if placement.shape and placement.partitioning == "manual":
        with placement.context():
            assert not hlo.collectives(f.lower().compile())


@pytest.mark.fast(0)
def test_a_mask_in_attention():
    q, kv = array(8, 2, 4), array(8, 2, 4, seed=1)

    def f(q, k):
        mask = nx.nn.prefix_mask({"pos": None, "key_pos": 8}, 3, axis=("pos", "key_pos"))
        bias = nx.nn.alibi_bias({"head": 2, "pos": 8, "key_pos": 8}, axis=("head", "pos", "key_pos"))
        return nx.nn.dot_product_attention(q, k, k, bias, mask, axis="pos", features="d")

    axes = ["pos", "head", "d"]
    have = nx.xmap(f, (axes, axes), axes, axis_resources={"pos": "x"}, mesh=make_mesh((4, 2)))(q, kv)
    scores = np.einsum("qhd,khd->hqk", q, kv) / 2 + alibi([1 / 16, 1 / 256], 8, 8)
    weights = jax.nn.softmax(jnp.where(prefix(8, 8, 3), scores, -jnp.inf), -1)
    np.testing.assert_allclose(have, np.einsum("hqk,khd->qhd", weights, kv), rtol=1e-4, atol=1e-5)


# --- parts ------------------------------------------------------------------------------------------------------------------


def parts(resources, size, entry, new="p"):
    """The function that takes a part of {w: 16, c: 3}, and what it sends, by kind and bytes."""

    def f(x):
        return nx.slice(x, {"w": entry}, out_axis={"w": new})

    mapped = nx.xmap(f, ["w", "c"], [new, "c"], axis_resources=resources, mesh=make_mesh((4, 2)))
    sent = hlo.collectives(mapped.lower(array(size, 3)).compile())
    return mapped, [(one.kind, one.bytes) for one in sent]


@pytest.mark.full(5)
@pytest.mark.fast(1)
@pytest.mark.parametrize(
    ("resources", "entry", "sends"),
    [
        ({"w": "x"}, slice(3, 7), [("all-reduce", 48)]),
        ({"w": "x"}, slice(12, 1, -3), [("all-reduce", 48)]),
        ({"w": "x"}, slice(1, 15), [("all-gather", 192)]),
        ({"w": "x", "p": "x"}, slice(0, 16, 4), []),
        ({"w": "x", "p": "x"}, slice(2, 14, 3), None),
        ({"w": "x", "p": "y"}, slice(3, 9), [("all-reduce", 36)]),
        ({"w": ("x", "y"), "p": "x"}, slice(8, 16), None),
        ({"p": "x"}, slice(3, 7), []),
        ({}, slice(-5, None, 2), []),
    ],
    ids=str,
)
def test_a_part_under_a_new_name(resources, entry, sends):
    mapped, sent = parts(resources, 16, entry)
    x, weights = array(16, 3), array(*array(16, 3)[entry].shape, seed=2)
    np.testing.assert_array_equal(mapped(x), x[entry])
    slope = jax.jit(jax.grad(lambda x: jnp.sum(mapped(x) * weights)))(x)
    np.testing.assert_allclose(slope, jnp.zeros((16, 3)).at[entry].set(weights), rtol=1e-6)
    if sends is not None:
        assert sent == sends, sent
    moved = sum(n for _, n in sent)
    assert moved <= 16 * 3 * 4, sent


def test_parts_outside_of_bodies():
    x = nx.named(array(6, 5), ["a", "b"])
    have = nx.slice(x, {"a": slice(1, 4), "b": slice(None, None, 2)}, out_axis={"b": "half"})
    assert have.dims == ("a", "half")
    np.testing.assert_array_equal(have.data, x.data[1:4, ::2])


# --- equality ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("resources", [{}, {"a": "x"}, {"a": "x", "b": "y"}], ids=str)
def test_one_answer(resources):
    x, y = array(8, 4), array(8, 4).at[5, 2].add(1e-3)

    def f(x, y):
        assert nx.array_equal(x, nx.sum(x, "a")).shape == ()
        return {
            "same": nx.array_equal(x, x + 0),
            "other": nx.array_equal(x, y),
            "close": nx.allclose(x, y, atol=1e-2),
            "not close": nx.allclose(x, y),
            "nan": nx.array_equal(x / 0 * 0, x / 0 * 0, equal_nan=True),
            "names": nx.array_equal(x, nx.sum(x, "a")),
            "equivalent": nx.array_equiv(nx.zeros(named_shape={"a": 8}), x * 0),
            "sizes": nx.array_equiv(nx.zeros(2), nx.zeros(3)),
        }

    have = nx.xmap(f, (["a", "b"],) * 2, [], axis_resources=resources, mesh=make_mesh((4, 2)))(x, y)
    want = {"same", "close", "nan", "equivalent"}
    assert {key for key, value in have.items() if value} == want
    named = nx.named(x, ["a", "b"])
    assert nx.array_equal(named, nx.named(x.T, ["b", "a"]))
    with pytest.raises(nx.errors.PositionalAxisError, match=r"Write nx\.allclose"):
        nx.numpy.allclose(named, named)
    positional = nx.named(x, ["a", None])
    assert nx.numpy.allclose(positional, positional).dims == ("a",)  # one answer over the positional axes, as in JAX


# --- small forms -------------------------------------------------------------------------------------------------------------


@pytest.mark.fast(0)
def test_plain_arrays_are_left_to_jax():
    x = array(3, 5)
    np.testing.assert_array_equal(nx.tril(x, 1), jnp.tril(x, 1))
    np.testing.assert_array_equal(nx.numpy.triu(nx.named(x[None], ["n", ...]), -1).data[0], jnp.triu(x, -1))
    np.testing.assert_array_equal(nx.broadcast_to(x, (2, 3, 5)), jnp.broadcast_to(x, (2, 3, 5)))
    np.testing.assert_array_equal(nx.linspace(0, 1, 7), jnp.linspace(0, 1, 7))
    for options in ({}, {"dtype": int}, {"endpoint": False}, {"num": 1}, {"num": 0}, {"dtype": jnp.bfloat16}):
        options = {"num": 7, **options}
        have, step = nx.linspace(-3, 11, retstep=True, axis="k", **options)
        want, distance = jnp.linspace(-3, 11, retstep=True, **options)
        assert have.dtype == want.dtype
        close = 1e-2 if have.dtype == jnp.bfloat16 else 1e-6  # JAX 0.12 computes these in 32 bits
        np.testing.assert_allclose(have.data.astype(float), want.astype(float), rtol=close)
        np.testing.assert_allclose(step, distance, rtol=1e-6)
    np.testing.assert_array_equal(nx.numpy.fft.rfftfreq(9, 0.1), jnp.fft.rfftfreq(9, 0.1))
    assert float(nx.nn.binary_cross_entropy(jnp.asarray(1e4), 0)) == 1e4
    assert nx.nn.binary_cross_entropy(jnp.ones(2, jnp.bfloat16), 1).dtype == jnp.float32


def test_rename_by_keyword():
    x = nx.named(array(2, 3), ["a", "b"])
    assert nx.rename(x, a="z").dims == ("z", "b")
    assert nx.rename(x, {"a": "b"}, b="a").dims == ("b", "a")
    assert nx.rename(nx.named(array(2), ["x"]), x="names").dims == ("names",)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda x: nx.tril(x, ("a", "b")), ArgumentTypeError, "as in nx.tril(x, axis=('query', 'key'))"),
        (lambda x: nx.tril(x, 1.5, axis=("a", "b")), ArgumentTypeError, "tril: k=1.5 must be an integer"),
        (lambda x: nx.triu(x, axis="a"), PositionalAxisError, "triu: axis='a' must be a pair"),
        (lambda x: nx.triu(x, axis=("a", "c")), AxisNotFoundError, "triu: no axis 'c' in f32[]{a:8, b:4}"),
        (
            lambda x: nx.nn.causal_mask({"q": 3}),
            ArgumentError,
            "must have the same 2 names. The order of axis= defines their roles: queries, keys",
        ),
        (
            lambda x: nx.nn.causal_mask({"pos": 6, "past": 6}),
            ArgumentError,
            "causal_mask: named_shape={'pos': 6, 'past': 6} and axis=('query', 'key') must have the same 2 names. The order of axis= defines "
            "their roles: queries, keys; a dict has no order. Write axis=('pos', 'past'), or another order. Other axes are added by broadcasting.",
        ),
        (lambda x: nx.nn.prefix_mask({"q": 3, "k": 3}, 1, axis=("q", "q")), ArgumentError, "must have the same 2 names"),
        (lambda x: nx.nn.alibi_bias({"head": 3, "q": 3}), ArgumentError, "defines their roles: heads, queries, keys"),
        (
            lambda x: nx.nn.prefix_mask({"q": 3, "k": None}, 1, axis=("q", "k")),
            AxisNotFoundError,
            "prefix_mask: axis 'k' has no size here",
        ),
        (
            lambda x: nx.broadcast_to(x, named_shape={"a": 3}),
            AxisSizeError,
            "axis 'a' of f32[]{a:8, b:4} has size 8, but named_shape has 3",
        ),
        (lambda x: nx.broadcast_to(x), PositionalAxisError, "broadcast_to: neither shape nor named_shape is given"),
        (lambda x: nx.broadcast_to(x, named_shape={"q": None}), AxisNotFoundError, "broadcast_to: axis 'q' has no size here"),
        (lambda x: nx.untag(x, ["c"]), AxisNotFoundError, "untag: no axis 'c' in f32[]{a:8, b:4}"),
        (lambda x: nx.untag(x, None), AxisMappingError, "untag: None is not an axis mapping here"),
        (
            lambda x: nx.linspace(0, 1, 2.5, axis="k"),
            ArgumentTypeError,
            "linspace: num, the number of values along 'k', must be a nonnegative integer, got 2.5",
        ),
        (lambda x: nx.slice(x, {"c": slice(3)}), AxisNotFoundError, "slice: no axis 'c' in f32[]{a:8, b:4}"),
        (lambda x: nx.slice(x, {"a": 3}), ArgumentTypeError, "the index 3 of axis 'a' is not a slice"),
        (lambda x: nx.slice(x, slice(3)), ArgumentTypeError, "is not a mapping. Write nx.slice(x, {'w': slice(3, 7)})"),
        (lambda x: nx.slice(x, {"a": slice(3)}, out_axis={"b": "c"}), AxisNotFoundError, "slice: no axis 'b' in the index"),
        (lambda x: nx.rename(x, "a"), ArgumentTypeError, "rename: names='a' is not a mapping. Write nx.rename"),
        (lambda x: nx.rename(x, {"a": "c"}, a="d"), AxisNameError, "rename: axis 'a' is given twice"),
        (lambda x: nx.nn.binary_cross_entropy(x * 1j, 0), ArgumentTypeError, "are complex. Write logits.real"),
        (lambda x: nx.nn.binary_cross_entropy(x, 0, where=x), ArgumentTypeError, "but it must be boolean"),
    ],
)
def test_mistakes(call, error, words):
    with pytest.raises(error) as raised:
        call(nx.named(array(8, 4).astype(jnp.float32), ["a", "b"]))
    assert words in str(raised.value), raised.value


def test_a_slice_in_a_body_offers_the_function():
    with pytest.raises(AxisSizeError, match=r"nx\.slice\(x, \{'a': slice\(\.\.\.\)\}, out_axis=\{'a': 'part'\}\)"):
        nx.xmap(lambda x: x["a", 3:7], ["a"], ["a"])(array(8))
