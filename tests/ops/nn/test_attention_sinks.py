"""Attention with sinks, the logarithm of the sum as a second result, and the combination of partial attentions, against the formula."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import namedax as nx
from tests import make
from tests.harness import PARTITIONER, PLACEMENTS, Placement, array, check, make_mesh

attention, combine = nx.nn.dot_product_attention, nx.nn.combine_attention
E = nx.errors
NAMES = {"axis": "a", "features": "d"}
Q, K, V, SINKS = array(8, 4, 5), array(8, 5, seed=1), array(8, 6, seed=2), array(4, seed=3)
AXES = (["a", "b", "d"], ["a", "d"], ["a", "e"], ["b"])
OUT = (["a", "b", "e"], ["a", "b"])
SEGMENTS = np.array([2, 2, 2, -1, -1, 5, 5, 6])
KINDS = {
    "all": {},
    "causal": {"is_causal": True},
    "zigzag": {"is_causal": True, "balance": "zigzag"},
    "window": {"is_causal": True, "local_window_size": (2, 0), "soft_cap": 0.8},
    "segments": {"segments": SEGMENTS},
}


def allowed(is_causal=False, local_window_size=None, segments=None, size=8, **_):
    at = np.arange(size)
    found = (at[None] <= at[:, None]) | (not is_causal)
    if local_window_size is not None:
        found = found & (at[None] >= at[:, None] - local_window_size[0])
    if segments is not None:
        found = found & (segments[:, None] == segments) & (segments >= 0)
    return found


def formula(q, k, v, sinks=None, soft_cap=None, **options):
    """q[t,h,d], k[s,d], v[s,e], sinks[h]: a softmax with one more column, and the logarithm of its sum."""
    scores = jnp.einsum("thd,sd->hts", q, k) * q.shape[-1] ** -0.5
    scores = scores if soft_cap is None else soft_cap * jnp.tanh(scores / soft_cap)
    scores = jnp.where(allowed(**options, size=len(q)), scores, -jnp.inf)
    if sinks is not None:
        column = jnp.broadcast_to(sinks[:, None, None], (*scores.shape[:2], 1))
        scores = jnp.concatenate([scores, column], -1)
    weights = jax.nn.softmax(scores)[..., : len(k)]
    return jnp.einsum("hts,se->the", weights, v), jax.nn.logsumexp(scores, -1).T


def named(kind="all", **more):
    options = dict(KINDS[kind])
    segments = options.pop("segments", None)

    def body(q, k, v, sinks):
        packed = None if segments is None else segments_of(segments)
        return attention(q, k, v, sinks=sinks, segments=packed, return_residual=True, **NAMES, **options, **more)

    return body


def segments_of(segments):
    """The segments of the positions of a body."""
    at, result = nx.arange(8, axis="a"), 0
    for i, number in enumerate(segments.tolist()):
        result = nx.where(at == i, number, result)
    return result


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("placement", [*PLACEMENTS, PARTITIONER[0], PARTITIONER[3]], ids=str)
def test_values_and_gradients(placement, kind):
    def oracle(*args):
        return formula(*args, **KINDS[kind])

    check(named(kind), jax.jit(oracle), (Q, K, V, SINKS), AXES, OUT, placement)


def by_heads(q, k, v, sinks):
    """Ulysses: positions are sharded outside, heads inside."""
    inside = {"a": "all", "b": "heads"}
    q, k, v, sinks = (nx.rename(x, {n: to for n, to in inside.items() if n in x.dims}) for x in (q, k, v, sinks))
    names = {"axis": "all", "features": "d", "is_causal": True}
    pair = attention(q, k, v, sinks=sinks, return_residual=True, **names)
    return tuple(nx.rename(x, {"all": "a", "heads": "b"}) for x in pair)


LAYOUTS = {
    "ulysses": (by_heads, Placement("", (4,), (("a", "x"), ("heads", "x"))), {"is_causal": True}),
    "ring and ulysses": (
        by_heads,
        Placement("", (4, 2), (("a", ("x", "y")), ("all", "x"), ("heads", "y")), "explicit"),
        {"is_causal": True},
    ),
    "features": (named(), Placement("", (4, 2), (("a", "x"), ("e", "y"))), {}),
}


@pytest.mark.fast(1)
@pytest.mark.parametrize("label", LAYOUTS)
def test_layouts(label):
    body, placement, options = LAYOUTS[label]
    check(body, jax.jit(lambda *args: formula(*args, **options)), (Q, K, V, SINKS), AXES, OUT, placement)


# Keys {s} of another sequence.
CROSS = [
    Placement("unmapped", None, ()),
    Placement("keys", (4, 2), (("s", "x"), ("b", "y")), "explicit"),
    Placement("keys-on-more", (4, 2), (("a", "y"), ("s", ("x", "y")))),
]


@pytest.mark.full(3)
@pytest.mark.fast(0)
@pytest.mark.parametrize("placement", CROSS, ids=str)
def test_keys_on_mesh_axes_of_their_own(placement):
    def body(q, k, v, sinks):
        names = {**NAMES, "key_axis": "s"}
        return *attention(q, k, v, sinks=sinks, return_residual=True, **names), attention(q, k, v, sinks=sinks, **names)

    def oracle(*args):
        return *formula(*args), formula(*args)[0]

    axes = (AXES[0], ["s", "d"], ["s", "e"], ["b"])
    check(body, jax.jit(oracle), (Q, K, V, SINKS), axes, (*OUT, OUT[0]), placement)


@pytest.mark.fast(1)
@pytest.mark.parametrize("resources", [{"a": "x"}, {"h": "x"}], ids=str)
def test_shared_key_heads_uneven_sizes_and_sinks_per_batch(resources):
    q, k, sinks = array(2, 7, 6, 4), array(2, 7, 3, 4, seed=1), array(6, 2, seed=2)
    dims = ["n", "a", "h", "d"]

    def body(q, k, sinks):
        more = {"heads": "h", "key_heads": "g", "is_causal": True, "balance": "zigzag"}
        return attention(q, k, k, sinks=sinks, return_residual=True, **NAMES, **more)

    def oracle(q, k, sinks):
        one = jax.vmap(lambda q, k, s: formula(q[:, None], k, k, s[None], is_causal=True), (1, 1, 0), (1, 1))
        result, log = jax.vmap(one, (0, 0, 1))(q, jnp.repeat(k, 2, 2), sinks)
        return result[:, :, :, 0], log[..., 0]

    placement = Placement("", (4,), tuple(resources.items()))
    axes = (dims, ["n", "a", "g", "d"], ["h", "n"])
    check(body, jax.jit(oracle), (q, k, sinks), axes, (dims, dims[:3]), placement)


@pytest.mark.fast(0)
@pytest.mark.parametrize("resources", [{}, {"a": "x"}, {"s": "x"}], ids=str)
def test_rows_without_a_key(resources):
    """A sink of minus infinity is none; without keys the result is 0, and its logarithm minus infinity; gradients are finite."""
    key = "s" if "s" in resources else "a"
    mask = make.ones((8, 8), bool).at[3].set(False)

    def body(q, k, v, sinks, mask):
        more = {"mask": mask, "key_axis": "s", "return_residual": True}
        return tuple(attention(q, k, v, sinks=each, **more, **NAMES) for each in (None, sinks))

    axes = (AXES[0], [key, "d"], [key, "e"], ["b"], ["a", "s"])
    f = nx.xmap(body, axes, (OUT, OUT), axis_resources=resources, mesh=make_mesh((4,)) if resources else None)

    def loss(*args):
        pairs = f(*args, mask)
        finite = [jnp.sum(jnp.sin(y)) + jnp.sum(jnp.where(log > -1e9, log, 0.0)) for y, log in pairs]
        return sum(finite), pairs

    sinks = jnp.full(4, -jnp.inf)
    grads, pairs = jax.jit(jax.grad(loss, (0, 1, 2, 3), has_aux=True))(Q, K, V, sinks)
    result, log = formula(Q, K, V)
    for y, total in pairs:
        np.testing.assert_allclose(y, result.at[3].set(0), rtol=2e-5, atol=2e-6)
        np.testing.assert_allclose(total, log.at[3].set(-jnp.inf), rtol=2e-5, atol=2e-6)
    assert all(np.all(np.isfinite(g)) for g in grads)


@pytest.mark.full(0)
@pytest.mark.fast(0)
def test_second_derivatives_of_the_ring():
    f = nx.xmap(named("causal"), AXES, OUT, axis_resources={"a": "x"}, mesh=make_mesh((4,)))

    def twice(f):
        def inner(q, sinks):
            y, log = f(q, K, V, sinks)
            return jnp.sum(jnp.sin(y)) + jnp.sum(jnp.cos(log))

        return jax.jit(jax.grad(lambda q, sinks: jnp.sum(jax.grad(inner)(q, sinks) * Q), (0, 1)))

    have, want = twice(f)(Q, SINKS), twice(lambda *args: formula(*args, is_causal=True))(Q, SINKS)
    jax.tree.map(lambda h, w: np.testing.assert_allclose(h, w, rtol=1e-3, atol=1e-4), have, want)


@pytest.mark.fast(0)
@pytest.mark.parametrize("balance", [None, "zigzag"])
def test_sinks_send_nothing(balance):
    def sent(sinks):
        def loss(q, k, v):
            y = attention(q, k, v, sinks=sinks, is_causal=True, balance=balance, **NAMES)
            return nx.sum(nx.sin(y), ...)

        f = nx.xmap(loss, AXES[:3], axis_resources={"a": "x"}, mesh=make_mesh((4,)))
        return [(c.kind, c.wire_bytes) for c in nx.explain(jax.grad(f, (0, 1, 2)), Q, K, V).collectives]

    assert sent(nx.named(SINKS, ["b"])) == sent(None)


@pytest.mark.fast(0)
@pytest.mark.parametrize("resources", [{}, {"a": "x"}], ids=str)
def test_bfloat16(resources):
    args = tuple(x.astype(jnp.bfloat16) for x in (Q, K, V, SINKS))
    f = nx.xmap(named(), AXES, OUT, axis_resources=resources, mesh=make_mesh((4,)) if resources else None)
    y, log = f(*args)
    assert (y.dtype, log.dtype) == (jnp.bfloat16, jnp.float32)
    for have, want in zip((y, log), formula(*(x.astype(jnp.float32) for x in args)), strict=True):
        np.testing.assert_allclose(have.astype(jnp.float32), want, rtol=0.03, atol=0.02)
    grads = jax.grad(lambda *args: jnp.sum(f(*args)[1]), (0, 3))(*args)
    assert [g.dtype for g in grads] == [jnp.bfloat16] * 2


def test_positional_axes_that_only_the_values_have():
    q, v = nx.named(array(8, 3, 5), ["a", None, "d"]), nx.named(array(8, 2, 1), ["a", None, None])
    y, log = attention(q, nx.named(K, ["a", "d"]), v, return_residual=True, **NAMES)
    assert (y.dims, y.shape, log.dims, log.shape) == (("a", None, None), (2, 3), ("a", None), (3,))
    z, total = combine([(y, log), (y, log)])
    np.testing.assert_allclose(z.data, y.data, rtol=1e-5)
    np.testing.assert_allclose(total.data, log.data + np.log(2), rtol=1e-5)


def test_a_number_is_one_sink_for_all_rows():
    y = attention(*map(nx.named, (Q, K, V), AXES[:3]), sinks=0.5, **NAMES)
    np.testing.assert_allclose(y.data, formula(Q, K, V, jnp.full(4, 0.5))[0], rtol=2e-5, atol=2e-6)


# --- partial attentions ---------------------------------------------------------------------------------------------


def in_parts(q, k, v, sinks):
    """Keys in three parts, of which the first has the sinks."""
    pairs = []
    for i, (start, stop) in enumerate([(0, 3), (3, 4), (4, 8)]):
        own = f"part {i}"
        part = [nx.slice(x, {"s": slice(start, stop)}, out_axis={"s": own}) for x in (k, v)]
        more = {"key_axis": own, "sinks": None if i else sinks, "return_residual": True}
        pairs.append(attention(q, *part, **NAMES, **more))
    return combine([combine(pairs[:2]), pairs[2]])


@pytest.mark.fast(0)
@pytest.mark.full(2)
@pytest.mark.parametrize(
    "placement", [Placement("unmapped", None, ()), Placement("both", (4, 2), (("a", "x"), ("e", "y")), "explicit")], ids=str
)
def test_parts_combine_to_the_whole(placement):
    axes = (AXES[0], ["s", "d"], ["s", "e"], ["b"])
    check(in_parts, jax.jit(formula), (Q, K, V, SINKS), axes, OUT, placement)


@pytest.mark.fast(0)
def test_parts_without_keys_have_no_weight():
    """Even if the result of such a part is NaN; without any key the combination is 0."""
    y, log = (nx.named(jnp.asarray(x), dims) for x, dims in zip(formula(Q, K, V), OUT, strict=True))
    none = log * 0 - jnp.inf

    def loss(y, other, log, none):
        z, total = combine([(y, log), (other, none)])
        return nx.sum(nx.sin(z), ...) + nx.sum(total, ...)

    z, total = combine([(y * jnp.nan, none), (y, log)])
    np.testing.assert_array_equal(z.data, y.data)
    np.testing.assert_allclose(total.data, log.data, rtol=1e-6)
    grads = jax.grad(loss, (0, 1, 2, 3))(y, y, log, none)
    assert all(np.all(np.isfinite(g.data)) for g in grads)
    assert not np.any(grads[1].data)
    z, total = combine([(y, none), (y, none)])
    assert not np.any(z.data)
    assert np.all(total.data == -jnp.inf)
    empty = jax.grad(lambda y, none: nx.sum(combine([(y, none), (y, none)])[0], ...), (0, 1))(y, none)
    assert not any(np.any(g.data) for g in empty)


def test_dtypes_of_a_combination():
    y, log = nx.named(make.ones((2, 3), jnp.bfloat16), ["a", "e"]), nx.named(make.zeros(2, jnp.float32), ["a"])
    assert [x.dtype for x in combine([(y, log), (y, log)])] == [jnp.bfloat16, jnp.float32]


PAIR = (np.ones((2, 3), np.float32), ["a", "e"]), (np.ones(2, np.float32), ["a"])
PARTS = {
    "none": ([], E.ArgumentError, ["parts must be a list of pairs, got []"]),
    "one pair alone": (lambda y, log: (y, log), E.ArgumentTypeError, ["part 0 must be a pair, got f32[]{a:2, e:3}"]),
    "integers": (lambda y, log: [(y, log.astype(int))], E.ArgumentTypeError, ["part 0 must contain floating-point", "i32"]),
    "reversed": (lambda y, log: [(log, y)], E.AxisNameError, ["the logarithm of part 0, f32[]{a:2, e:3}, has 'e'", "lacks"]),
    "sizes": (lambda y, log: [(y, log), (nx.concatenate([y, y], "a"), log)], E.AxisSizeError, ["combine_attention", "'a'"]),
}


@pytest.mark.parametrize("label", PARTS)
def test_mistakes_in_parts(label):
    parts, error, words = PARTS[label]
    parts = parts(*(nx.named(jnp.asarray(x), dims) for x, dims in PAIR)) if callable(parts) else parts
    with pytest.raises(error) as raised:
        combine(parts)
    text = str(raised.value).replace("f64", "f32").replace("i64", "i32")
    assert all(word in text for word in words), text


# --- the cache ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("resources", [{}, {"cache": "x"}], ids=str)
def test_a_cache_with_sinks(resources):
    def body(q, k, v, sinks):
        cache = nx.nn.KVCache.init({"cache": 8, "d": 5}, value_shape={"cache": 8, "e": 6}, dtype=k.dtype)
        cache = cache.append(k, v, axis="a")
        return cache.attend(q, "a", "d", sinks=sinks)

    f = nx.xmap(body, AXES, OUT[0], axis_resources=resources, mesh=make_mesh((4,)) if resources else None)
    want, _ = formula(Q, K, V, SINKS, is_causal=True)
    np.testing.assert_allclose(jax.jit(f)(Q, K, V, SINKS), want, rtol=2e-5, atol=2e-6)


# --- mistakes -------------------------------------------------------------------------------------------------------

MISTAKES = {
    "integers": (
        np.ones(4, np.int32),
        ["b"],
        E.ArgumentTypeError,
        ["sinks must contain floating-point numbers, got i32[]{b:4}"],
    ),
    "positions": (
        np.ones((4, 8)),
        ["b", "a"],
        E.AxisNameError,
        ["sinks, f32[]{b:4, a:8}, has the axis 'a'", "batch axes of query"],
    ),
    "features": (np.ones(5), ["d"], E.AxisNameError, ["has the axis 'd'", "only: 'b'. Rename it."]),
    "another name": (np.ones(4), ["heads"], E.AxisNameError, ["sinks, f32[]{heads:4}, has the axis 'heads'"]),
    "no names": (np.ones(4), [None], E.AxisNameError, ["sinks, f32[4], has more positional axes than query", "nx.named(sinks"]),
    "sizes": (np.ones(3), ["b"], E.AxisSizeError, ["axis 'b' has size 3 in sinks", "size 4 in query"]),
}


@pytest.mark.parametrize("label", MISTAKES)
def test_mistakes(label):
    data, dims, error, words = MISTAKES[label]
    sinks = jnp.asarray(data if label == "integers" else data.astype(np.float32))
    sinks = sinks if dims == [None] else nx.named(sinks, dims)
    with pytest.raises(error) as raised:
        attention(*map(nx.named, (Q, K, V), AXES[:3]), sinks=sinks, **NAMES)
    text = str(raised.value).replace("f64", "f32")
    assert all(word in text for word in ("dot_product_attention", *words)), text


def test_sinks_need_an_axis():
    q = array(1, 8, 4, 5)
    with pytest.raises(E.AxisNotFoundError, match=r"sinks=f(32|64)\[4\] requires axis="):
        attention(q, q, q, sinks=SINKS)
