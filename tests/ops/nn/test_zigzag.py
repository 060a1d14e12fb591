"""The balanced ring of causal attention: values and gradients by the formula, the same work on every device, and what it sends."""

from __future__ import annotations

import functools
import math
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import namedax as nx
from namedax import hlo
from tests import make
from tests.harness import array, make_mesh

attention = functools.partial(nx.nn.dot_product_attention, axis="a", features="d", balance="zigzag")
E = nx.errors
NAMES = ["b", "a", "h", "d"]


def formula(q, k, v, bias=None, segments=None, reach=None, cap=None):
    """q[b,t,h,d], k and v[b,s,g,d]; bias broadcasts to [b,h,t,s]; segments[b,t]."""
    k, v = (jnp.repeat(x, q.shape[2] // x.shape[2], 2) for x in (k, v))
    scores = jnp.einsum("bthd,bshd->bhts", q, k) / math.sqrt(q.shape[-1])
    scores = scores if cap is None else cap * jnp.tanh(scores / cap)
    scores = scores if bias is None else scores + bias
    at = np.arange(q.shape[1])
    allowed = jnp.asarray(at[None] <= at[:, None])[None, None]
    if reach is not None:
        allowed = allowed & (at[None] >= at[:, None] - reach)
    if segments is not None:
        allowed = allowed & ((segments[:, :, None] == segments[:, None]) & (segments >= 0)[:, None])[:, None]
    weights = jnp.where(allowed, jax.nn.softmax(jnp.where(allowed, scores, -1e30)), 0)
    return jnp.einsum("bhts,bshe->bthe", weights, v)


SEGMENTS = np.array([[0] * 5 + [1] * 8 + [2] * 3, [4] * 9 + [-1] * 3 + [7] * 4], np.int32)
ONE, TWO = {"a": "x"}, {"a": ("y", "x")}
# The size of the sequence, mesh, kind of mesh axes, layout, and options.
CASES = {
    "blocks of two": (16, (8,), "auto", ONE, {}),
    "blocks of four, two mesh axes, heads": (16, (4, 2), "explicit", ONE | {"h": "y"}, {"key_heads": 4}),
    "blocks of three": (24, (8,), "auto", ONE, {"cap": 0.7}),
    "uneven": (21, (8,), "explicit", ONE, {"key_heads": 2, "bias": True}),
    "one entry": (8, (8,), "auto", ONE, {}),
    "fewer than devices": (5, (8,), "auto", ONE, {}),
    "one device of two": (3, (2,), "auto", ONE, {}),
    "reversed mesh axes": (16, (4, 2), "auto", TWO, {"bias": True}),
    "packed": (16, (8,), "auto", ONE, {"segments": True}),
    "packed, a window, odd": (15, (4,), "auto", ONE, {"segments": True, "reach": 4}),
    "a window": (32, (4, 2), "explicit", ONE, {"reach": 3}),
    "sharded features": (16, (4, 2), "auto", ONE | {"d": "y"}, {"bias": True}),
    "unmapped": (16, None, "auto", {}, {}),
}
PLAIN = ("uneven", "packed, a window, odd")


def compare(size, shape, kind, resources, options, wrap=lambda f: f, whole=False):
    """Compare values and gradients with the formula."""
    options = dict(options)
    kv = options.pop("key_heads", 4)
    q, k, v = array(2, size, 4, 4), array(2, size, kv, 4, seed=1), array(2, size, kv, 6 - 2 * (kv == 4), seed=2)
    bias = array(size, 4, size, seed=3) if options.pop("bias", False) else None
    segments = SEGMENTS[:, :size] if options.pop("segments", False) else None
    reach, cap = options.get("reach"), options.get("cap")
    heads = {} if kv == 4 else {"heads": "h", "key_heads": "g"}
    floats = {"q": q, "k": k, "v": v} | ({} if bias is None else {"bias": bias})
    g = "g" if heads else "h"
    axes = {"q": NAMES, "k": ["b", "a", g, "d"], "v": ["b", "a", g, "e"], "bias": ["a", "h", "key_a"]}

    def body(arrays, segments):
        window = None if reach is None else (reach, 0)
        extra = {"bias": arrays.get("bias"), "segments": segments, "soft_cap": cap, "local_window_size": window}
        return attention(arrays["q"], arrays["k"], arrays["v"], is_causal=True, **extra, **heads)

    mesh = None if shape is None else make_mesh(shape, kind)
    f = nx.xmap(wrap(body), axis_resources=resources, mesh=mesh)
    weights = array(2, size, 4, v.shape[-1], seed=5)
    packed = None if segments is None else nx.named(make.asarray(segments), ["b", "a"])

    def loss(floats):
        y = nx.positional(f({n: nx.named(x, axes[n]) for n, x in floats.items()}, packed), ["b", "a", "h", "e"])
        return jnp.sum(y * weights), y

    def oracle(floats):
        b = None if bias is None else floats["bias"].transpose(1, 0, 2)
        y = formula(floats["q"], floats["k"], floats["v"], b, segments, reach, cap)
        return jnp.sum(y * weights), y

    (_, have), slopes = jax.jit(jax.value_and_grad(loss, has_aux=True))(floats)
    (_, want), expected = jax.jit(jax.value_and_grad(oracle, has_aux=True))(floats)
    np.testing.assert_allclose(have, want, rtol=2e-5, atol=2e-6)
    for name in floats:
        np.testing.assert_allclose(slopes[name], expected[name], rtol=1e-4, atol=1e-5)


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize("label", PLAIN)
def test_values_and_gradients(label):
    compare(*CASES[label])


@pytest.mark.fast(0)
@pytest.mark.full(1)
@pytest.mark.parametrize("label", [label for label in CASES if label not in PLAIN])
def test_values_and_gradients_in_other_layouts(label):
    compare(*CASES[label])


@pytest.mark.full(0)
@pytest.mark.fast(0)
def test_rematerialized():
    compare(*CASES["blocks of three"], wrap=jax.checkpoint)


@pytest.mark.full(1)
@pytest.mark.fast(0)
def test_accumulated_over_steps():
    size, shape, kind, resources, options = CASES["blocks of two"]
    compare(size, shape, kind, resources | {"b": nx.SerialLoop(2)}, options)


@pytest.mark.full(0)
@pytest.mark.fast(0)
def test_second_derivatives():
    mesh, (q, k, v) = make_mesh((4,)), (array(1, 8, 2, 3, seed=i) for i in range(3))

    def body(q, k, v):
        return attention(q, k, v, is_causal=True)

    f = nx.xmap(body, NAMES, NAMES, axis_resources=ONE, mesh=mesh)

    def twice(f):
        inner = jax.grad(lambda q: jnp.sum(jnp.sin(f(q, k, v))))
        return jax.grad(lambda q: jnp.sum(inner(q) * array(1, 8, 2, 3, seed=9)))

    np.testing.assert_allclose(jax.jit(twice(f))(q), jax.jit(twice(formula))(q), rtol=1e-3, atol=1e-4)


# --- balance --------------------------------------------------------------------------------------------------------


def mapped(balance, gradient=False, **options):
    """Causal attention of one head over eight devices, or the gradient of its sum with weights by the values."""

    def body(q, v, weights, segments):
        def loss(v):
            arrays = {"segments": segments, "balance": balance, "is_causal": True} | options
            y = nx.nn.dot_product_attention(q, q, v, axis="a", features="d", **arrays)
            return nx.sum(y * weights, ...) if gradient else y

        return jax.grad(loss)(v) if gradient else loss(v)

    axes = (["a", "d"], ["a", "d"], ["a", "d"], ["a"])
    return jax.jit(nx.xmap(body, axes, ["a", "d"], axis_resources=ONE, mesh=make_mesh((8,))))


def computed(balance, segments=None, gradient=False, **options):
    """The pairs of chunks of queries and keys that the devices compute, by running the program.

    The values of one chunk are NaN. A device that computes with them, although they are masked, has a result of NaN for its queries, because 0 * NaN
    is NaN. For the backward pass, the cotangents of one chunk of queries are NaN.
    """
    f = mapped(balance, gradient, **options)
    segments = np.zeros(64, np.int32) if segments is None else segments
    found = np.zeros((16, 16), bool)
    for chunk in range(16):
        data = np.array(array(64, 3, seed=1))
        data[4 * chunk : 4 * chunk + 4] = np.nan
        other = array(64, 3, seed=2)
        result = f(array(64, 3), *((other, data) if gradient else (data, other)), segments)
        found[:, chunk] = np.isnan(np.asarray(result)).reshape(16, -1).any(1)
    return found.T if gradient else found


def needed(segments=None, reach=64):
    """The pairs of chunks with an element that is not masked."""
    at = np.arange(64)
    allowed = (at[None] <= at[:, None]) & (at[None] >= at[:, None] - reach)
    if segments is not None:
        allowed &= (segments[:, None] == segments) & (segments >= 0)
    return allowed.reshape(16, 4, 16, 4).any((1, 3))


def most_by_mean(pairs, devices):
    """The most pairs of a device, divided by the mean of the devices."""
    work = np.bincount(devices, pairs.sum(1), minlength=8)
    return work.max() / work.mean()


CHUNKS = np.arange(16)
ZIGZAG, CONTIGUOUS = np.minimum(CHUNKS, 15 - CHUNKS), CHUNKS // 2


@pytest.mark.fast(0)
@pytest.mark.full(1)
@pytest.mark.parametrize("gradient", [False, pytest.param(True, marks=pytest.mark.fast(0))], ids=["forward", "gradient"])
def test_every_device_computes_the_same_number_of_pairs(gradient):
    pairs = computed("zigzag", gradient=gradient)
    np.testing.assert_array_equal(pairs, needed())
    assert most_by_mean(pairs, ZIGZAG) == 1.0
    np.testing.assert_array_equal(np.bincount(ZIGZAG, pairs.sum(1)), np.full(8, 17))


@pytest.mark.fast(0)
def test_blocks_in_order_are_not_balanced():
    assert most_by_mean(computed(None), CONTIGUOUS) == pytest.approx(32 / 18)


PACKED = np.repeat(np.arange(5, dtype=np.int32), [20, 3, 25, 9, 7])


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize("gradient", [False, True], ids=["forward", "gradient"])
@pytest.mark.parametrize(("segments", "reach"), [(None, 9), (PACKED, 64), (PACKED, 9)], ids=["window", "packed", "both"])
def test_pairs_that_are_masked_completely_are_not_computed(segments, reach, gradient):
    pairs = computed("zigzag", segments, gradient, local_window_size=(reach, 0))
    np.testing.assert_array_equal(pairs, needed(segments, reach))


def count(jaxpr, trips=1):
    """The multiplications of the contractions of a program of one device, and its conditionals."""
    total, conditionals = 0, 0
    for equation in jaxpr.eqns:
        here = trips * equation.params.get("length", 1) if equation.primitive.name == "scan" else trips
        conditionals += equation.primitive.name == "cond"
        if equation.primitive.name == "dot_general":
            (contracted, _), _ = equation.params["dimension_numbers"]
            shape = equation.invars[0].aval.shape
            total += trips * math.prod(equation.outvars[0].aval.shape) * math.prod(shape[i] for i in contracted)
        for sub in jax.tree.leaves(list(equation.params.values()), is_leaf=lambda x: hasattr(x, "eqns") or hasattr(x, "jaxpr")):
            if hasattr(sub, "eqns") or hasattr(sub, "jaxpr"):
                more = count(getattr(sub, "jaxpr", sub), here)
                total, conditionals = total + more[0], conditionals + more[1]
    return total, conditionals


def test_the_program_of_a_causal_mask_has_no_conditional():
    """So every device runs the same contractions: two of 4 by 4 by 3 for each of 17 pairs."""
    one = jax.ShapeDtypeStruct((64, 3), np.float32)

    def body(q):
        return attention(q, q, q, is_causal=True)

    f = nx.xmap(body, ["a", "d"], ["a", "d"], axis_resources=ONE, mesh=make_mesh((8,)))
    assert count(jax.make_jaxpr(f)(one).jaxpr) == (17 * 2 * 4 * 4 * 3, 0)


# --- communication --------------------------------------------------------------------------------------------------


@pytest.mark.full(0)
@pytest.mark.parametrize("gradient", [False, pytest.param(True, marks=pytest.mark.fast(0))], ids=["forward", "gradient"])
def test_the_exchange_sends_one_block_of_each_array(gradient):
    block = 2 * 2 * 2 * 4 * 4  # bytes: two positions of each of two sequences, two heads, four features
    x = nx.named(array(2, 16, 2, 4), NAMES).astype(jnp.float32)

    def body(q, k, v):
        return attention(q, k, v, is_causal=True)

    def slopes(q, k, v):
        return jax.grad(lambda *args: nx.sum(nx.sin(body(*args)), ...), (0, 1, 2))(q, k, v)

    f = nx.xmap(slopes if gradient else body, axis_resources=ONE, mesh=make_mesh((8,)))
    ring, exchange, pieces = (42, 8, 42 + 2 * 9) if gradient else (14, 4, 14 + 2 * 4)
    # Backwards, a number of each row is exchanged too: the mean of the cotangents of its weights.
    want = (ring + exchange) * block + gradient * block // 4
    assert nx.explain(f, x, x, x).summary() == {"collective-permute": (pieces, want)}
    sent = hlo.collectives(jax.jit(f).lower(x, x, x).compile())
    assert {c.kind for c in sent} == {"collective-permute"}
    looped, once = (sum(c.bytes for c in sent if c.in_loop is inside) for inside in (True, False))
    # The loops: seven steps of keys and values, and backwards six steps that also send their gradients.
    assert (looped, once) == ((6 * block, want - (14 + 24) * block) if gradient else (2 * block, want - 14 * block))


# --- errors ---------------------------------------------------------------------------------------------------------


def named(*sizes, names=("a", "d")):
    return nx.named(array(*sizes), list(names))


MISTAKES = {
    "value": ({"balance": "striped"}, E.ArgumentError, "balance must be 'zigzag' or None, got 'striped'"),
    "not causal": ({"is_causal": False}, E.ArgumentError, "is_causal is False. Pass is_causal=True, or leave out balance="),
    "a window to both sides": (
        {"is_causal": False, "local_window_size": 3},
        E.ArgumentError,
        "balance='zigzag' divides the work of a causal mask",
    ),
    "sizes": (
        {"key": named(6, 3, names=("s", "d")), "value": named(6, 3, names=("s", "d")), "key_axis": "s"},
        E.AxisSizeError,
        "as many keys as queries, but axis 'a' has size 8 and axis 's' has size 6. Leave out balance=",
    ),
    "positions": ({"axis": None, "features": None}, E.AxisNotFoundError, "balance='zigzag' requires axis="),
}


@pytest.mark.parametrize("label", MISTAKES)
def test_mistakes(label):
    changes, error, words = MISTAKES[label]
    x = named(8, 3)
    with pytest.raises(error, match=re.escape(words)):
        attention(**({"query": x, "key": x, "value": x, "is_causal": True} | changes))


def test_keys_on_some_of_the_mesh_axes_of_queries():
    def body(q, k):
        return attention(q, k, k, key_axis="s", is_causal=True)

    resources = {"a": ("x", "y"), "s": "x"}
    f = nx.xmap(body, (["a", "d"], ["s", "d"]), ["a", "d"], axis_resources=resources, mesh=make_mesh((2, 2)))
    words = "'a' is sharded over mesh axes ('x', 'y') and 's' over ('x',). Map both to the same mesh axes"
    with pytest.raises(E.PlacementConflictError, match=re.escape(words)):
        f(array(8, 3), array(8, 3))
