"""Control flow over names against `jax.lax` over positions: loops whose carry gains names, branches by name, hidden axes."""

import functools
import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import namedax as nx
from tests import make
from tests.harness import FEW, PARTITIONER, PLACEMENTS, array, check, make_mesh

# --- programs in every placement -----------------------------------------------------------------------------------------
# x is {b, a, c}, w is {c, d}, v is {b, c}; a and b may be sharded. label: (named, positional, out_axes)


def layer(h, w):
    return nx.rename(nx.tanh(nx.dot(h, w, "c")), {"d": "c"})


def scan_over_name(x, w, v):
    def step(carry, x):
        h = layer(carry + x, w)
        return h, nx.sum(h, "c")

    return nx.scan(step, 0.0, x, axis="a")


def plain_layer(h, w):
    return jnp.tanh(h @ w)


def plain_scan_over_name(x, w, v):
    def step(carry, x):
        h = plain_layer(carry + x, w)
        return h, jnp.sum(h, -1)

    return lax.scan(step, jnp.zeros((4, 3)), x.swapaxes(0, 1))


def reverse_scan(x, w, v):
    """Several carries; one gains two names at once, one loses a name, one is an integer."""

    def step(carry, xs):
        total, lost, count = carry
        x, v = xs["x"], xs["v"]
        return (total + x * v, nx.sum(lost, "c") * 0.5, count + 1), (total, lost * count)

    start = (0.0, nx.sum(v, "b"), 0)
    return nx.lax.scan(step, start, {"x": x, "v": v}, axis="b", reverse=True)


def plain_reverse_scan(x, w, v):
    def step(carry, xs):
        total, lost, count = carry
        x, v = xs
        lost_next = jnp.broadcast_to(jnp.sum(lost, -1, keepdims=True) * 0.5, lost.shape)
        return (total + x * v, lost_next, count + 1), (total, lost * count)

    return lax.scan(step, (jnp.zeros((8, 3)), jnp.sum(v, 0), 0), (x, v), reverse=True)


def fold_layers(x, w, v):
    """Layers are stacked in a positional axis."""
    stacked = nx.numpy.stack([w, 0.5 * w, w * w], 0)
    return nx.fold(layer, x + v, stacked)


def plain_fold_layers(x, w, v):
    return functools.reduce(plain_layer, [w, 0.5 * w, w * w], x + v[:, None])


def loop(x, w, v):
    return nx.fori_loop(0, 3, lambda i, h: layer(h + i, w) + x, v)


def plain_loop(x, w, v):
    h = jnp.broadcast_to(v[:, None], x.shape)
    return lax.fori_loop(0, 3, lambda i, h: plain_layer(h + i, w) + x, h)


def branches(x, w, v):
    negative = nx.sum(x, ("a", "b", "c")) < 0
    one = nx.cond(negative, lambda x: x * v, lambda x: nx.sum(x, "a"), x)
    other = nx.cond(nx.logical_not(negative), lambda x: x * v, lambda x: nx.sum(x, "a"), x)
    by_name = nx.cond(nx.sum(x, "c") > 0, lambda v: nx.sum(v, "c"), lambda v: 2.0, v)
    index = nx.round(x * 2).astype("int32")
    chosen = nx.switch(index, [lambda: x, lambda: v * v, lambda: nx.sum(w, ("c", "d"))])
    return one, other, by_name, chosen


def plain_branches(x, w, v):
    negative = jnp.sum(x) < 0
    vs = jnp.broadcast_to(v[:, None], x.shape)
    sums = jnp.broadcast_to(jnp.sum(x, 1, keepdims=True), x.shape)
    index = jnp.clip(jnp.round(x * 2).astype("int32"), 0, 2)
    return (
        jnp.where(negative, x * vs, sums),
        jnp.where(negative, sums, x * vs),
        jnp.where(jnp.sum(x, 2) > 0, jnp.sum(v, 1)[:, None], 2.0),
        jnp.where(index == 0, x, jnp.where(index == 1, vs * vs, jnp.sum(w))),
    )


def associative(x, w, v):
    def combine(p, q):
        return p[0] * q[0], p[1] * q[0] + q[1]

    decay, h = nx.associative_scan(combine, (nx.nn.sigmoid(x), x * v), axis="a")
    back = nx.associative_scan(lambda p, q: p * q * nx.nn.sigmoid(w * 0), nx.sum(x, ("a", "c")), reverse=True, axis="b")
    return decay, h, back


def plain_associative(x, w, v):
    def step(carry, entry):
        after = carry[0] * entry[0], carry[1] * entry[0] + entry[1]
        return after, after

    entries = jax.nn.sigmoid(x).swapaxes(0, 1), (x * v[:, None]).swapaxes(0, 1)
    decay, h = (out.swapaxes(0, 1) for out in lax.scan(step, (jnp.ones((4, 3)), jnp.zeros((4, 3))), entries)[1])
    back = jnp.cumprod(jnp.sum(x, (1, 2))[::-1])[::-1] * 0.5 ** jnp.arange(3, -1, -1)
    return decay, h, jnp.broadcast_to(back[:, None, None], (4, 3, 3))


def mapped(x, w, v):
    def one(x):
        return nx.sum(layer(x, w), "c"), nx.nn.softmax(x, "c")

    return nx.map(one, x, axis="a"), nx.map(one, x, axis="b", batch_size=3)


def plain_mapped(x, w, v):
    of_b = jnp.sum(plain_layer(x, w), -1), jax.nn.softmax(x, -1)
    return tuple(part.swapaxes(0, 1) for part in of_b), of_b


def per_example(x, w, v):
    def loss(w, x, v):
        return nx.sum(layer(x + v, w) ** 2, ("b", "c"))

    def other(w, x):
        return nx.sum(nx.dot(x, w, "c") ** 3, ("a", "d"))

    return nx.vmap(jax.grad(loss), "a")(w, x, v), nx.vmap(jax.grad(other), [None, "b"])(w, x)


def plain_per_example(x, w, v):
    def loss(w, x):
        return jnp.sum(plain_layer(x + v, w) ** 2)

    def other(w, x):
        return jnp.sum((x @ w) ** 3)

    return jax.vmap(jax.grad(loss), (None, 1))(w, x), jax.vmap(jax.grad(other), (None, 0))(w, x)


PROGRAMS = {
    "scan over a name": (scan_over_name, plain_scan_over_name, (["b", "c"], ["a", "b"])),
    "reverse": (reverse_scan, plain_reverse_scan, ((["a", "c"], ["c"], []), (["b", "a", "c"], ["b", "c"]))),
    "fold": (fold_layers, plain_fold_layers, ["b", "a", "c"]),
    "fori_loop": (loop, plain_loop, ["b", "a", "c"]),
    "branches": (branches, plain_branches, (["b", "a", "c"], ["b", "a", "c"], ["b", "a"], ["b", "a", "c"])),
    "associative_scan": (
        associative,
        plain_associative,
        (["b", "a", "c"], ["b", "a", "c"], ["b", "c", "d"]),
    ),
    "map": (mapped, plain_mapped, ((["a", "b"], ["a", "b", "c"]), (["b", "a"], ["b", "a", "c"]))),
    "vmap": (per_example, plain_per_example, (["a", "c", "d"], ["b", "c", "d"])),
}
IN_AXES = (["b", "a", "c"], ["c", "d"], ["b", "c"])


@functools.cache
def inputs():
    return array(4, 8, 3), array(3, 3, seed=1), array(4, 3, seed=2)


# A fold is a scan; what is left out of the others has no code of its own, or is in the tests below.
LABELS = {
    "scan over a name": [p.label for p in FEW],
    "reverse": ["both"],
    "fold": ["both"],
    "fori_loop": ["both"],
    "associative_scan": ["both", "two-mesh-axes"],
    "map": ["both", "two-mesh-axes"],
}


def cases():
    """The scan in few placements, the others in fewer."""
    for label in PROGRAMS:
        for placement in [*FEW, PARTITIONER[3]]:
            if placement.label in LABELS.get(label, ["unmapped", "both"]):
                yield pytest.param(label, placement, id=f"{label}-{placement}")


@pytest.mark.full(0)
@pytest.mark.fast(1)
@pytest.mark.parametrize(("label", "placement"), list(cases()))
def test_programs(label, placement):
    named, plain, out_axes = PROGRAMS[label]
    check(named, jax.jit(plain), inputs(), IN_AXES, out_axes, placement)


@pytest.mark.fast(0)
def test_gradient_in_the_body():
    """The gradient of a scan, taken inside of the mapped function, and its derivative."""

    def loss(w, x, v):
        h, sums = nx.scan(lambda h, x: (layer(h + x, w), nx.sum(h, "c")), v, x, axis="a")
        return nx.sum(h**2, ("b", "c")) + nx.sum(nx.sin(sums), ("a", "b"))

    def plain(w, x, v):
        h, sums = lax.scan(lambda h, x: (plain_layer(h + x, w), jnp.sum(h, -1)), v, x.swapaxes(0, 1))
        return jnp.sum(h**2) + jnp.sum(jnp.sin(sums))

    x, w, v = inputs()
    axes = (["c", "d"], ["b", "a", "c"], ["b", "c"])
    gradient = nx.xmap(jax.grad(loss, (0, 1, 2)), axes, axes, mesh=make_mesh((4, 2)), axis_resources={"a": ("x", "y")})

    def derivative(f):
        return jax.jit(lambda *args: jax.jvp(f, args, args))(w, x, v)

    have, want = derivative(gradient), derivative(jax.grad(plain, (0, 1, 2)))
    jax.tree.map(lambda h, p: np.testing.assert_allclose(h, p, rtol=1e-3, atol=1e-3), have, want)


@pytest.mark.fast(1)
@pytest.mark.parametrize(
    "placement", [p for p in PLACEMENTS if str(p) in ("unmapped-auto", "both-explicit", "crossed-auto")], ids=str
)
def test_while_loop(placement):
    """Every entry goes on for as long as its own condition is true; the body may communicate or not."""

    def local(x, v):
        return nx.while_loop(lambda s: nx.sum(nx.abs(s[0]), "c") < 20, lambda s: (s[0] * 1.5 + v, s[1] + 1), (x, 0))

    def together(x, v):  # the condition has `b` only, and the body communicates over `a`
        return nx.while_loop(lambda x: nx.max(nx.abs(x), ("a", "c")) < 20, lambda x: x + nx.sum(nx.abs(x), "a"), x)

    def one(x, v):
        return nx.while_loop(lambda x: nx.max(x, ("a", "b", "c")) < 20, lambda x: x * 2 + v, nx.abs(x))

    x, _, v = inputs()

    def plain_local(x, v):
        x, v = np.asarray(x), np.broadcast_to(np.asarray(v)[:, None], x.shape)
        count = np.zeros(x.shape[:2], np.int32)
        while (active := np.abs(x).sum(-1) < 20).any():
            x = np.where(active[..., None], x * np.float32(1.5) + v, x)
            count += active
        return x, count

    def plain_together(x):
        x = np.asarray(x)
        while (active := np.abs(x).max((1, 2)) < 20).any():
            x = np.where(active[:, None, None], x + np.abs(x).sum(1, keepdims=True), x)
        return x

    def plain_one(x, v):
        x = np.abs(np.asarray(x))
        while x.max() < 20:
            x = x * 2 + np.asarray(v)[:, None]
        return x

    whole = ["b", "a", "c"]
    mapped = nx.xmap(
        lambda x, v: (local(x, v), together(x, v), one(x, v)),
        (whole, ["b", "c"]),
        ((whole, ["b", "a"]), whole, whole),
        **placement.options,
    )
    with placement.context():
        (have, count), second, third = mapped(x, v)
    want, want_count = plain_local(x, v)
    assert want_count.min() < want_count.max()
    np.testing.assert_array_equal(count, want_count)
    np.testing.assert_allclose(have, want, rtol=1e-5)
    np.testing.assert_allclose(second, plain_together(x), rtol=1e-5)
    np.testing.assert_allclose(third, plain_one(x, v), rtol=1e-5)


# --- what is sent --------------------------------------------------------------------------------------------------------


def compiled(f, in_axes, out_axes, args, resources, grad=()):
    mapped = nx.xmap(f, in_axes, out_axes, mesh=make_mesh((8,)), axis_resources=resources)
    return jax.jit(jax.grad(mapped, grad) if grad else mapped).lower(*args).compile()


def sent(*args, **kwargs):
    return nx.hlo.summary(compiled(*args, **kwargs))


def plain_layers(weights, x):
    return functools.reduce(plain_layer, weights, x)


def stacked(step):
    return lambda w, x: nx.fold(step, x, w, axis="l")


SOFTPLUS = np.log1p(np.exp(1.0)).astype("float32")
# label: (named, positional)
REDUCED_ONCE = {
    "stacked weights": (stacked(layer), plain_layers),
    "checkpoint": (
        stacked(lambda h, w: jax.checkpoint(lambda s, h, w: layer(h, s * w))(nx.nn.softplus(1.0), h, w)),
        lambda w, x: plain_layers(SOFTPLUS * w, x),
    ),
    "jit": (stacked(jax.jit(layer)), plain_layers),
    "half precision": (
        stacked(lambda h, w: layer(h, w.astype("bfloat16"))),
        lambda w, x: plain_layers(w.astype("bfloat16").astype("float32"), x),
    ),
    "closed over": (
        lambda w, x: nx.scan(lambda h, _: (layer(h, nx.sum(w, "l")), None), x, length=5)[0],
        lambda w, x: plain_layers([jnp.sum(w, 0)] * 5, x),
    ),
    "closed over, fori_loop": (
        lambda w, x: nx.fori_loop(0, 5, lambda i, h: layer(h, w["l", 2]), x),
        lambda w, x: plain_layers([w[2]] * 5, x),
    ),
    "loop in a loop": (
        stacked(lambda h, w: nx.fori_loop(0, 2, lambda i, h: layer(h, w), h)),
        lambda w, x: plain_layers(jnp.repeat(w, 2, 0), x),
    ),
    "computed from weights in every step": (
        stacked(lambda h, w: layer(h, jax.jit(lambda s, w: s * w)(nx.nn.softplus(1.0), w) / (1 + nx.sum(w * w, "c")))),
        lambda w, x: plain_layers(SOFTPLUS * w / (1 + jnp.sum(w * w, 1, keepdims=True)), x),
    ),
    "a carry that begins with a Python number": (
        lambda w, x: nx.scan(lambda c, w: (0.5 * c + layer(x, w), None), 0.0, w, axis="l")[0],
        lambda w, x: sum(0.5 ** (len(w) - 1 - i) * jnp.tanh(x @ w[i]) for i in range(len(w))),
    ),
    "map": (
        lambda w, x: nx.sum(nx.map(lambda w: layer(x, w), w, axis="l"), "l"),
        lambda w, x: jnp.sum(jnp.tanh(x @ w), 0),
    ),
}


@pytest.mark.full(2)
@pytest.mark.fast(1)
@pytest.mark.parametrize("label", REDUCED_ONCE)
def test_a_gradient_is_reduced_once_after_the_loop(label):
    named, plain = REDUCED_ONCE[label]
    w, x = array(5, 3, 3), array(8, 3)
    program = compiled(
        lambda w, x: nx.sum(named(w, x) ** 2, ("a", "c")), (["l", "c", "d"], ["a", "c"]), [], (w, x), {"a": "x"}, grad=(0,)
    )
    have = nx.hlo.summary(program)
    assert set(have) == {"all-reduce"}, have
    assert have["all-reduce"] == (1, have["all-reduce"][1])
    assert have["all-reduce"][1] <= 4 * 5 * 9
    want = jax.jit(jax.grad(lambda w, x: jnp.sum(plain(w, x) ** 2)))(w, x)
    tol = 0.1 if label == "half precision" else 1e-4
    np.testing.assert_allclose(program(w, x)[0], want, rtol=tol, atol=tol)


def test_a_cast_stays_in_the_loop_where_that_sends_less():
    """Rows of a large table that a few steps look up: the table's gradient would be larger than those of the rows."""

    def loss(w, x):
        return nx.sum(nx.fori_loop(0, 2, lambda i, h: nx.tanh(h * w["l", i * i]), x) ** 2, ("a", "c"))

    w, x = array(50, 3), array(8, 3)
    assert sent(loss, (["l", "c"], ["a", "c"]), [], (w, x), {"a": "x"}, grad=(0,)) == {"all-reduce in a loop": (1, 12)}


def test_what_depends_on_weights_alone_stays_replicated():
    """The cast is taken out of the loop beside the weights, not instead of them."""

    def loss(w, x):
        def step(h, w):
            return layer(h, w), nx.sum(w**2, ("c", "d"))

        h, squares = nx.scan(step, x, w, axis="l")
        return nx.sum(h**2, ("a", "c")), squares

    w, x = array(5, 3, 3), array(8, 3)
    f = nx.xmap(loss, (["l", "c", "d"], ["a", "c"]), ([], ["l"]), mesh=make_mesh((8,)), axis_resources={"a": "x"})
    program = jax.jit(f).lower(w, x).compile()
    assert nx.hlo.summary(program) == {"all-reduce": (1, 4)}
    np.testing.assert_allclose(program(w, x)[1], np.sum(np.square(w), (1, 2)), rtol=1e-5)
    np.testing.assert_allclose(jax.jit(jax.grad(lambda w: f(w, x)[1].sum()))(w), 2 * w, rtol=1e-5)


@pytest.mark.fast(0)
def test_scans_send_little():
    x = array(8, 3)

    def combine(p, q):
        return p[0] * q[0], p[1] * q[0] + q[1]

    def recurrence(a, x):
        return nx.associative_scan(combine, (a, x), axis="a")[1]

    axes = (["a"], ["a", "c"])
    # One entry per device: of `a` 8 numbers, of `x` 8 x 3.
    assert sent(recurrence, axes, ["a", "c"], (x[:, 0], x), {"a": "x"}) == {"all-gather": (2, 4 * (8 + 24))}
    whole = sent(lambda a, x: nx.sum(recurrence(a, x) ** 2, ("a", "c")), axes, [], (x[:, 0], x), {"a": "x"}, grad=(0, 1))
    assert whole == {"all-gather": (2, 4 * 32), "reduce-scatter": (2, 4 * 32)}, whole
    # Another name is nobody's business.
    assert sent(recurrence, (["a"], ["a", "c"]), ["a", "c"], (x[:, 0], array(8, 8)), {"c": "x"}) == {}
    assert sent(lambda x: nx.map(lambda x: nx.sum(x, "c"), x, axis="a"), (["a", "c"],), ["a"], (x,), {"a": "x"}) == {}
    assert sent(lambda x: nx.vmap(lambda x: nx.sum(x, "c"), "a")(x), (["a", "c"],), ["a"], (x,), {"a": "x"}) == {}
    # A scan over a sharded name sends each block once, of which all devices have one, in the first round and in the loop.
    have = sent(
        lambda x: nx.scan(lambda s, x: (s + x, s), 0.0, x, axis="a"), (["a", "c"],), (["c"], ["a", "c"]), (x,), {"a": "x"}
    )
    assert have == {"all-reduce": (1, 12), "all-reduce in a loop": (1, 12)}


def test_a_while_loop_asks_the_others_only_if_its_body_communicates():
    x = array(8, 3)

    def local(x):
        return nx.while_loop(lambda x: nx.sum(x, "c") < 9, lambda x: x + 1, x)

    assert sent(local, (["a", "c"],), ["a", "c"], (x,), {"a": "x"}) == {}

    def together(x):
        return nx.while_loop(lambda x: nx.sum(x, "c") < 9, lambda x: x + nx.sum(x * x, "a"), x)

    have = sent(together, (["a", "c"],), ["a", "c"], (x,), {"a": "x"})
    assert have["all-reduce in a loop"] == (2, 4 * 3 + 4), have


# --- forms, options, other transformations -------------------------------------------------------------------------------


@pytest.mark.fast(0)
def test_scan_like_lax():
    x = array(5, 3)
    for axis, value in (
        (0, x),
        (0, nx.named(x, [None, "k"])),
        ("t", nx.named(x, ["t", None])),
        ("t", nx.named(x.T, ["k", "t"])),
    ):
        start = 0.0 if "k" in getattr(value, "dims", ()) else make.zeros(3)
        last, sums = nx.scan(lambda c, x: (c + x, 2 * c), start, value, axis=axis, unroll=5)
        want_last, want = lax.scan(lambda c, x: (c + x, 2 * c), make.zeros(3), x)
        np.testing.assert_allclose(
            nx.positional(last, ["k"]) if "k" in getattr(last, "dims", ()) else last, want_last, rtol=1e-6
        )
        have = nx.positional(sums, [d for d in sums.dims if d]) if hasattr(sums, "dims") and None not in sums.dims else sums
        have = have.data if hasattr(have, "dims") else have
        np.testing.assert_allclose(have, want, rtol=1e-6)
    assert (sums.dims, last.dims) == (("t", "k"), ("k",))
    assert nx.scan(lambda c, _: (c + 1, None), 0, length=4) == (4, None)
    assert list(inspect.signature(nx.lax.scan).parameters)[:6] == ["f", "init", "xs", "length", "reverse", "unroll"]
    empty = nx.scan(lambda c, x: (c + x, c), 0.0, nx.named(make.zeros((0, 2)), ["t", "k"]), axis="t")
    assert dict(empty[1].named_shape) == {"t": 0, "k": 2}
    assert not empty[0].data.any()


def test_element_types_follow_lax():
    x = nx.named(make.ones(4, "bfloat16"), ["t"])
    assert nx.fold(lambda c, x: c + x, 0, x, axis="t").dtype == jnp.bfloat16
    assert nx.fori_loop(0, 3, lambda i, c: c + 1.5, 0).dtype == jnp.float32
    halved = nx.while_loop(lambda c: c[0] > 1, lambda c: (c[0] / 2, c[1] + 0.5), (nx.named(make.array([8.0, 2.0]), ["k"]), 0))
    assert [leaf.data.tolist() for leaf in halved] == [[1, 1], [1.5, 0.5]]
    with pytest.raises(TypeError, match="goes into the body as int32 and comes out as float32"):
        nx.scan(lambda c, x: (c + x.astype("float32"), None), make.zeros((), "int32"), x, axis="t")


def test_carries_in_another_order_and_arrays_that_lack_the_axis():
    x = nx.named(array(5, 3, 2), ["t", "k", "j"])
    start = nx.named(make.zeros((2, 3)), ["j", "k"])
    shared = nx.named(make.arange(3.0), ["k"])

    def step(c, xs):
        return nx.order_like(c, xs[0]) + xs[0] * xs[1], None

    last, _ = nx.scan(step, start, (x, shared), axis="t")
    assert last.dims == ("j", "k")
    np.testing.assert_allclose(last.data, jnp.sum(x.data * jnp.arange(3.0)[:, None], 0).T, rtol=1e-5)


def test_keys_are_carried_and_scanned():
    keys, start = jax.random.split(jax.random.key(0), 8), jax.random.key(1)

    def f(keys, start):
        last, before = nx.scan(lambda key, new: (new, nx.random.bits(key)), start, keys, axis="a")
        return nx.random.bits(last), before, nx.map(nx.random.bits, keys, axis="a")

    last, before, each = nx.xmap(f, (["a"], []), ([], ["a"], ["a"]), mesh=make_mesh((4, 2)), axis_resources={"a": "x"})(
        keys, start
    )
    bits = [int(jax.random.bits(key)) for key in [start, *keys]]
    assert (int(last), before.tolist(), each.tolist()) == (bits[-1], bits[:-1], bits[1:])


def test_truth_values_are_scanned_over_a_sharded_name():
    x = array(8, kind="bool")
    f = nx.xmap(
        lambda x: nx.scan(lambda c, x: (c ^ x, c), False, x, axis="a", reverse=True),
        (["a"],),
        ([], ["a"]),
        mesh=make_mesh((4, 2)),
        axis_resources={"a": "x"},
    )
    last, before = f(x)
    want = lax.scan(lambda c, x: (c ^ x, c), False, x, reverse=True)
    assert bool(last) == bool(want[0])
    np.testing.assert_array_equal(before, want[1])


def test_a_scan_without_xs_over_a_sharded_name():
    def f(x):
        return nx.scan(lambda c, _: (c + 1, c), nx.sum(x, "a") * 0, axis="a")

    last, each = nx.xmap(f, (["a"],), ([], ["a"]), mesh=make_mesh((4, 2)), axis_resources={"a": "x"})(make.zeros(8))
    assert (last, each.tolist()) == (8, list(range(8)))


@pytest.mark.fast(1)
@pytest.mark.parametrize("loop", [nx.SerialLoop(4), ("x", nx.SerialLoop(2))], ids=str)
def test_serial_loops(loop):
    """Time as a resource: entries are computed in steps."""

    def f(x):
        grown = nx.while_loop(lambda x: nx.sum(nx.abs(x), "c") < 9, lambda x: x * 1.5, x)
        slopes = nx.vmap(jax.grad(lambda x: nx.sum(x**3, "c")), "a")(x)
        products = nx.associative_scan(lambda p, q: p * q, x, axis="a")
        return grown, slopes, products, nx.map(lambda x: x * nx.sum(x, "c"), x, axis="a", batch_size=2)

    x = array(8, 3)
    have = nx.xmap(f, ["a", "c"], ["a", "c"], mesh=make_mesh((2,)), axis_resources={"a": loop})(x)
    want = nx.xmap(f, ["a", "c"], ["a", "c"])(x)
    np.testing.assert_allclose(want[1], 3 * x**2, rtol=1e-5)
    np.testing.assert_allclose(want[2], np.cumprod(x, 0), rtol=1e-5)
    np.testing.assert_allclose(want[3], x * np.sum(x, 1, keepdims=True), rtol=1e-5)
    for h, w in zip(have, want, strict=True):
        np.testing.assert_allclose(h, w, rtol=1e-5, atol=1e-6)


@pytest.mark.fast(0)
def test_scan_over_a_serial_loops_name_and_beside_it():
    f = nx.xmap(
        lambda x: nx.scan(lambda c, x: (c * 0.5 + x, None), 0.0, x, axis="a")[0],
        ["a"],
        [],
        axis_resources={"a": nx.SerialLoop(4)},
    )
    weights = 0.5 ** np.arange(8.0)[::-1]
    np.testing.assert_allclose(f(jnp.arange(8.0)), weights @ np.arange(8.0), rtol=1e-6)
    np.testing.assert_allclose(jax.grad(f)(jnp.arange(8.0)), weights, rtol=1e-6)
    g = nx.xmap(
        lambda w, x: nx.sum(nx.fold(layer, x, w, axis="l"), ("a", "c")),
        (["l", "c", "d"], ["a", "c"]),
        [],
        axis_resources={"a": nx.SerialLoop(4)},
    )
    w, x = array(5, 3, 3), array(8, 3)
    have, want = (jax.jit(jax.value_and_grad(f))(w, x) for f in (g, lambda w, x: jnp.sum(plain_layers(w, x))))
    np.testing.assert_allclose(have[0], want[0], rtol=1e-5)
    np.testing.assert_allclose(have[1], want[1], rtol=1e-4, atol=1e-5)


@pytest.mark.fast(0)
def test_arrays_on_an_explicit_mesh_outside_of_a_mapped_function():
    """JAX tracks shardings in types there: the carry begins with the one that it gets."""
    mesh = make_mesh((4, 2), "explicit")
    x, _, v = inputs()
    with jax.set_mesh(mesh):
        xs = nx.shard(nx.named(x, ["b", "a", "c"]), {"a": "x"}, mesh)
        vs = nx.named(v, ["b", "c"])
        total, means = nx.scan(lambda c, xv: (c + xv[0] * xv[1], nx.mean(xv[0], "c")), 0.0, (xs, vs), axis="b")
        assert total.dims[0] == "a"
        assert total.sharding.spec[0] == "x"
        np.testing.assert_allclose(nx.positional(total, ["a", "c"]), jnp.sum(x * v[:, None], 0), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(nx.positional(means, ["b", "a"]), jnp.mean(x, 2), rtol=1e-5, atol=1e-6)
        chosen = nx.cond(nx.sum(xs, ("a", "b", "c")) > 1e9, lambda x: x, lambda x: 0.0, xs)
        assert not np.asarray(chosen.data).any()
        halved = nx.while_loop(lambda x: nx.max(nx.abs(x), ("b", "c")) > 1, lambda x: x / 2, xs)
        assert np.abs(np.asarray(halved.data)).max() <= 1


@pytest.mark.fast(0)
@pytest.mark.parametrize("kind", ["auto", "explicit"])
def test_under_jit_and_jax_vmap(kind):
    mesh = make_mesh((4, 2), kind)
    x, w, v = inputs()

    def run(x, w, v):
        h, _ = nx.scan(lambda h, x: (layer(h + x, w), None), 0.0, x, axis="a")
        return nx.cond(nx.sum(h, ("b", "c")) > 0, lambda: h * v, lambda: nx.sum(v, "c"))

    f = nx.xmap(run, IN_AXES, ["b", "c"], mesh=mesh, axis_resources={"b": "y"})
    xs = jnp.stack([x, -x])
    with jax.set_mesh(mesh) if kind == "explicit" else jax.disable_jit(False):
        have = jax.jit(jax.vmap(f, (0, None, None)))(xs, w, v)

    def plain(x):
        h = lax.scan(lambda h, x: (plain_layer(h + x, w), None), jnp.zeros((4, 3)), x.swapaxes(0, 1))[0]
        return jnp.where(jnp.sum(h) > 0, h * v, jnp.sum(v, 1)[:, None])

    np.testing.assert_allclose(have, jax.vmap(plain)(xs), rtol=1e-5, atol=1e-5)


@pytest.mark.fast(0)
def test_eager_without_jit():
    x, w, v = inputs()
    f = nx.xmap(fold_layers, IN_AXES, ["b", "a", "c"], jit=False)
    np.testing.assert_allclose(f(x, w, v), plain_fold_layers(x, w, v), rtol=1e-5, atol=1e-5)
    with jax.disable_jit():
        np.testing.assert_allclose(
            nx.scan(lambda c, x: (c + x, None), 0.0, nx.named(v, ["b", "c"]), axis="b")[0].data, v.sum(0), rtol=1e-5
        )


def test_partitioner():
    x, w, v = inputs()
    f = nx.xmap(
        lambda *args: (scan_over_name(*args), per_example(*args)[0]),
        IN_AXES,
        ((["b", "c"], ["a", "b"]), ["a", "c", "d"]),
        mesh=make_mesh((4, 2)),
        axis_resources={"a": "x", "b": "y"},
        partitioning="auto",
    )
    have = f(x, w, v)
    want = plain_scan_over_name(x, w, v), plain_per_example(x, w, v)[0]
    jax.tree.map(lambda h, p: np.testing.assert_allclose(h, p, rtol=1e-4, atol=1e-4), have, want)


def test_positions():
    x = array(4, 3)
    named = nx.named(array(4, 3, 2), [None, "k", None])
    np.testing.assert_allclose(nx.map(jnp.sin, x), jnp.sin(x), rtol=1e-6)
    assert nx.map(lambda x: x * 2, named).dims == (None, "k", None)
    assert nx.vmap(lambda x: nx.sum(x, 0))(named).dims == (None, "k")
    assert nx.vmap(lambda x: nx.sum(x, 0), 0, "rows")(named).dims == ("rows", "k")
    assert nx.vmap(lambda x, *, y: x + y, "k")(named, y=named).dims == ("k", None, None)
    scale = nx.named(make.ones(3), ["k"])

    @jax.jit
    def sums(x, named):
        return (
            nx.associative_scan(nx.add, named, axis=1),
            nx.associative_scan(jnp.add, x, axis=-1, reverse=True),
            nx.associative_scan(lambda p, q: p + q * scale, x, axis=0),
        )

    forward, back, grown = sums(x, named)
    assert forward.dims == named.dims
    np.testing.assert_allclose(forward.data, np.cumsum(named.data, 2), rtol=1e-6)
    np.testing.assert_allclose(back, np.cumsum(x[:, ::-1], 1)[:, ::-1], rtol=1e-5)
    np.testing.assert_allclose(nx.positional(grown, ["k", ...])[1], np.cumsum(x, 0), rtol=1e-5)


def test_branches_promote_and_broadcast():
    x = nx.named(make.arange(3.0), ["k"])
    have = nx.switch(1, [lambda: 0, lambda: 1, lambda: 2])
    assert (have, have.dtype) == (1, jnp.int32)
    assert nx.switch(7, [lambda: x, lambda: 1.0]).data.tolist() == [1, 1, 1]
    assert nx.cond(True, lambda x: {"y": x}, lambda x: {"y": 0.0}, x)["y"].data.tolist() == [0, 1, 2]
    assert nx.cond(x, lambda: 1.0, lambda: 2.0).data.tolist() == [2, 1, 1]  # a number is true where it is not zero
    # A branch that is not taken may have no finite derivative.
    slope = jax.grad(lambda s: nx.cond(s > 0, lambda s: nx.log(s), lambda s: s, s))(-1.0)
    assert slope == 1


# Branches meet in any order: each entry is (named branches, positional branches of the axes b, a, c, or those that they have).
MEETING = {
    "number first": ([lambda x, w, v: 0.0, lambda x, w, v: x], [lambda x, w, v: 0.0 * x, lambda x, w, v: x], "bac"),
    "integer last": ([lambda x, w, v: v * v, lambda x, w, v: 2], [lambda x, w, v: v * v, lambda x, w, v: 0 * v + 2], "bc"),
    "gains names": (
        [lambda x, w, v: v, lambda x, w, v: x * v, lambda x, w, v: nx.sum(x, ("a", "c"))],
        [
            lambda x, w, v: jnp.broadcast_to(v[:, None], x.shape),
            lambda x, w, v: x * v[:, None],
            lambda x, w, v: jnp.broadcast_to(jnp.sum(x, (1, 2), keepdims=True), x.shape),
        ],
        "bac",
    ),
    "another order": (
        [lambda x, w, v: nx.sum(x, "c") * nx.sum(v, "c"), lambda x, w, v: nx.sum(v, "c") * nx.sum(x, "c")],
        [lambda x, w, v: jnp.sum(x, 2) * jnp.sum(v, 1)[:, None]] * 2,
        "ba",
    ),
    "reduced, and not": (
        [lambda x, w, v: nx.max(x, ("a", "b")), lambda x, w, v: nx.mean(x, "a") * v, lambda x, w, v: 1.5],
        [
            lambda x, w, v: jnp.broadcast_to(jnp.max(x, (0, 1)), v.shape),
            lambda x, w, v: jnp.mean(x, 1) * v,
            lambda x, w, v: 0 * v + 1.5,
        ],
        "bc",
    ),
}


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize(
    "placement", [p for p in FEW if str(p) in ("unmapped-auto", "both-explicit", "two-mesh-axes-auto")], ids=str
)
def test_branches_meet_in_any_order(placement):
    def named(x, w, v):
        out = {}
        for label, (branches, _, _) in MEETING.items():
            turned = branches[::-1]
            out[label] = [nx.switch(nx.argmax(w, "d")["c", 0], branches, x, w, v)]
            out[label] += [nx.cond(nx.sum(v, ("b", "c")) > 0, turned[0], turned[1], x, w, v)]
            out[label] += [nx.cond(nx.sum(v, "c") > 0, turned[0], turned[1], x, w, v)]  # by the entry
        return {
            **out,
            "tree": nx.cond(
                w["c", 0, "d", 0] > 0, lambda x, v: {"p": 0, "q": (v, x)}, lambda x, v: {"p": v, "q": (x, 1)}, x, v
            ),
        }

    def plain(x, w, v):
        out = {}
        for label, (_, branches, axes) in MEETING.items():
            every = [jnp.stack([branch(x, w, v) for branch in order]) for order in (branches, branches[::-1])]
            which = jnp.clip(jnp.argmax(w, 1), 0, len(branches) - 1)
            by_entry = (jnp.sum(v, 1) > 0).reshape(-1, *(1,) * (len(axes) - 1))
            out[label] = [every[0][which[0]], every[1][jnp.where(jnp.sum(v) > 0, 0, 1)]]
            out[label] += [jnp.where(by_entry, every[1][0], every[1][1])]
        tall = jnp.broadcast_to(v[:, None], x.shape)
        first = w[0, 0] > 0
        return {**out, "tree": {"p": jnp.where(first, 0 * v, v), "q": (jnp.where(first, tall, x), jnp.where(first, x, 1.0))}}

    out_axes = {label: [list(axes)] * 3 for label, (_, _, axes) in MEETING.items()}
    out_axes["tree"] = {"p": ["b", "c"], "q": (["b", "a", "c"], ["b", "a", "c"])}
    check(named, plain, inputs(), IN_AXES, out_axes, placement)


@pytest.mark.full(1)
@pytest.mark.fast(0)
def test_branches_meet_eagerly_and_without_compilation():
    x, y = nx.named(array(4, 3), ["k", "j"]), nx.named(array(3), ["j"])
    for first in (True, False):
        with jax.disable_jit(not first):
            have = nx.cond(True, lambda x, y: y, lambda x, y: x, x, y)
            assert set(have.named_shape.items()) == {("k", 4), ("j", 3)}
            np.testing.assert_array_equal(nx.positional(have, ["k", "j"])[2], y.data)
    grad = jax.grad(lambda x, p: nx.sum(nx.cond(p, lambda x: 0.0, lambda x: x * x, x), ("k", "j")))
    np.testing.assert_allclose(nx.positional(grad(x, False), ["k", "j"]), 2 * x.data, rtol=1e-6)
    assert not nx.positional(jax.jit(grad)(x, True), ["k", "j"]).any()
    # Numbers give way to the other branch, whichever it is, and whether or not the predicate has names.
    for pred in (jnp.array(False), nx.named(make.array([True, False, True]), ["j"])):
        for dtype in ("bfloat16", "int32", "float32", "complex64"):
            z = y.astype(dtype)
            for branches in ((lambda z: 1, lambda z: z), (lambda z: z, lambda z: 0)):
                assert nx.cond(pred, *branches, z).dtype == dtype
        assert nx.cond(pred, lambda z: 0.0, lambda z: z, y.astype("int32")).dtype == jnp.float32
        both = nx.cond(pred, lambda: 0, lambda: 0.5)
        assert (both.dtype, both.weak_type) == (jnp.float32, True)
    keys = nx.named(jax.random.split(jax.random.key(0), 3), ["j"])
    assert nx.cond(True, lambda: jax.random.key(1), lambda: keys).dims == ("j",)
    assert nx.cond(True, lambda x: x, lambda x: -x, operand=y).data.tolist() == y.data.tolist()
    assert nx.lax.switch(1, [lambda x: x, lambda x: -x], operand=y).data.tolist() == (-y.data).tolist()


def test_carries_take_the_numbers_that_come_back():
    x = nx.named(array(4, 3), ["t", "k"])
    reset = nx.scan(lambda c, x: (0, c + x), nx.named(make.ones(3), ["k"]), x, axis="t")
    assert (reset[0].data.tolist(), reset[1].dims) == ([0, 0, 0], ("t", "k"))
    assert nx.fori_loop(0, 2, lambda i, c: 1, jnp.bfloat16(3)).dtype == jnp.bfloat16


# --- hidden axes ---------------------------------------------------------------------------------------------------------


def test_a_function_of_entries_must_not_communicate_along_their_mesh_axis():
    x, u = array(8, 3), array(8, seed=3)
    where = {"mesh": make_mesh((8,)), "axis_resources": {"a": "x", "e": "x"}}
    for op in (lambda f, x: nx.vmap(f, "a")(x), lambda f, x: nx.map(f, x, axis="a")):
        f = nx.xmap(lambda x, u, op=op: op(lambda x: x * nx.sum(u, "e"), x), (["a", "c"], ["e"]), ["a", "c"], **where)
        with pytest.raises(
            nx.errors.PlacementConflictError, match=r"'a' is mapped to mesh axis 'x', but the function communicates"
        ):
            f(x, u)
        f = nx.xmap(lambda x, u, op=op: op(lambda x: x * u, x), (["a", "c"], ["e"]), ["a", "e", "c"], **where)
        with pytest.raises(nx.errors.PlacementConflictError, match=r"axes 'a' and 'e' meet|'e' and 'a' meet"):
            f(x, u)


def test_a_gradient_with_respect_to_an_array_that_the_function_closes_over():
    x, w = array(8, 3), array(3, seed=2)
    where = {"in_axes": (["a", "c"], ["c"]), "out_axes": ["a", "c"], "mesh": make_mesh((8,)), "axis_resources": {"a": "x"}}

    def loss(w, x):
        return nx.sum(nx.sin(w * x), "c")

    closes_over = nx.xmap(lambda x, w: nx.vmap(lambda x: jax.grad(loss)(w, x), "a")(x), **where)
    with pytest.raises(nx.errors.PlacementConflictError) as error:
        closes_over(x, w)
    assert str(error.value).endswith(
        "or it differentiates with respect to an array that it created or closes over, such as a parameter. Rename that axis to a name with "
        "another sharding, or pass that array as an argument: nx.vmap(f, 'a')(x, w). [NX012]"
    )
    as_it_says = nx.xmap(lambda x, w: nx.vmap(lambda x, w: jax.grad(loss)(w, x), "a")(x, w), **where)
    np.testing.assert_allclose(as_it_says(x, w), np.cos(w * x) * x, rtol=1e-5)


def test_names_that_a_function_adds_must_not_meet():
    where = {"mesh": make_mesh((8,)), "axis_resources": {"a": "x", "e": "x"}}
    f = nx.xmap(
        lambda x, u: nx.associative_scan(lambda p, q: nx.sum(p * q, "a") * u, x, axis=0),
        (["a", None], ["e"]),
        ["a", None],
        **where,
    )
    with pytest.raises(nx.errors.PlacementConflictError, match=r"associative_scan: .*axes '[ae]' and '[ae]' meet"):
        f(array(8, 3), array(8))


def test_a_gradient_of_a_single_entry_is_not_summed_over_devices():
    x = array(8)

    def made_inside(x):
        return jax.grad(lambda w: w * x)(1.0)

    where = {"mesh": make_mesh((8,)), "axis_resources": {"a": "x"}}
    with pytest.raises(nx.errors.PlacementConflictError, match=r"pass that array as an argument"):
        nx.xmap(nx.vmap(made_inside, "a"), (["a"],), ["a"], **where)(x)
    given = nx.vmap(lambda w, x: jax.grad(lambda w: w * x)(w), [None, "a"])
    np.testing.assert_allclose(nx.xmap(lambda x: given(1.0, x), (["a"],), ["a"], **where)(x), x, rtol=1e-6)


# --- errors --------------------------------------------------------------------------------------------------------------


E = nx.errors
X = nx.named(make.ones((2, 3)), ["t", "k"])
P_ = make.ones((2, 3))
MISTAKES = {
    "no axis": (lambda: nx.scan(lambda c, x: (c, x), 0, X, axis="time"), E.AxisNotFoundError, r"scan: no axis 'time' in f32\[\]\{t:2, k:3\}"),
    "no size": (lambda: nx.scan(lambda c, x: (c, x), 0, axis="t"), E.AxisNotFoundError, r"scan: there are no xs, and axis 't' has no size"),
    "length": (lambda: nx.scan(lambda c, x: (c, x), 0, X, 5, axis="t"), E.AxisSizeError, r"length=5, but axis 't' has size 2"),
    "axis": (
        lambda: nx.scan(lambda c, x: (c, x), 0, P_, axis=1),
        E.PositionalAxisError,
        r"scan: axis must be 0 \(the first positional axis\) or a name, got 1\. Use nx\.numpy\.moveaxis\(x, 1, 0\) first",
    ),
    "no axis name": (lambda: nx.scan(lambda c, x: (c, x), 0, P_, axis=None), E.AxisNameError, r"axis=None is neither 0 nor"),
    "no position": (lambda: nx.map(lambda x: x, X), E.PositionalAxisError, r"map: f32\[\]\{t:2, k:3\} has no positional axis"),
    "no pair": (lambda: nx.scan(lambda c, x: c, 0.0, X, axis="t"), E.ArgumentTypeError, r"must return a pair \(carry, result\), got \w+"),
    "structure": (
        lambda: nx.scan(lambda c, x: ((c, c), None), 0.0, X, axis="t"),
        E.ArgumentTypeError,
        r"scan: the returned carry is a tuple of length 2, but the carry is a single value\.",
    ),
    "positions of the carry": (
        lambda: nx.scan(lambda c, x: ({"h": c["h"] + jnp.ones(2)}, None), {"h": 0.0}, X, axis="t"),
        E.PositionalAxisError,
        r"the carry\['h'\] goes into the body as \[\]\{\} and comes out as \[2\]\{\}: the positional axes",
    ),
    "sizes of the carry": (
        lambda: nx.fori_loop(0, 2, lambda i, c: nx.named(jnp.ones(2), ["k"]), nx.named(jnp.ones(3), ["k"])),
        E.AxisSizeError,
        r"fori_loop: the carry goes into the body as \[\]\{k:3\} and comes out as \[\]\{k:2\}: axis 'k' has two sizes",
    ),
    "the axis comes back": (
        lambda: nx.scan(lambda c, x: (c, X), 0, X, axis="t"),
        E.AxisNameError,
        r"already has an axis 't', from a value that it carries or closes over",
    ),
    "bound": (lambda: nx.fori_loop(0, X, lambda i, c: c, 0), E.NamedAxesLeftError, r"upper must not have named axes, got f32\[\]\{t:2, k:3\}"),
    "condition": (lambda: nx.while_loop(lambda c: P_ > 0, lambda c: c, 0), E.PositionalAxisError, r"the condition is \S*\[2,3\]"),
    "truth": (lambda: nx.while_loop(lambda c: X, lambda c: c, X), E.ArgumentTypeError, r"the condition must be a boolean"),
    "predicate": (lambda: nx.cond(P_ > 0, lambda: 1, lambda: 2), E.PositionalAxisError, r"the predicate is \S*\[2,3\]"),
    "index": (lambda: nx.switch(1.5, [lambda: 1, lambda: 2]), E.ArgumentTypeError, r"it must be an integer"),
    "no branches": (lambda: nx.switch(0, []), E.ArgumentError, r"switch: there are no branches"),
    "branches": (
        lambda: nx.cond(X > 0, lambda: 1, lambda: (1, 2)),
        E.ArgumentTypeError,
        r"cond: the result of true_fun is a single value, but the result of false_fun is a tuple of length 2\.",
    ),
    "branch types": (
        lambda: nx.cond(X > 0, lambda: jnp.int32(1), lambda: jnp.float32(1)),
        E.ArgumentTypeError,
        r"result 0, \[\]\{\}, has the dtypes float32, int32",
    ),
    "branch positions": (
        lambda: nx.cond(True, lambda: jnp.ones(3), lambda: X),
        E.PositionalAxisError,
        r"cond: result 0 is in one branch \[\]\{t:2, k:3\} and in the other \[3\]\{\}",
    ),
    "branch structures": (
        lambda: nx.switch(0, [lambda: {"a": 1}, lambda: {"a": 1}, lambda: {"b": 1}]),
        E.ArgumentTypeError,
        r"switch: the result\['a'\] of branch 0 is missing from the result of branch 2; the result\['b'\] of branch 2 is not in",
    ),
    "branch elements": (
        lambda: nx.switch(0, [lambda: jnp.int32(1), lambda: 2, lambda: X]),
        E.ArgumentTypeError,
        r"switch: result 0, \[\]\{t:2, k:3\}, has the dtypes float32, int32 in different branches",
    ),
    "branch functions": (lambda: nx.cond(True, X, lambda x: x), E.ArgumentTypeError, r"a branch is NamedArray, which is not a function"),
    "operand": (lambda: nx.cond(True, lambda x: x, lambda x: x, X, operand=X), E.ArgumentError, r"operand= is given along with 1"),
    "elements of the carry": (
        lambda: nx.fori_loop(0, 3, lambda i, c: {"n": c["n"] + X}, {"n": jnp.int32(0)}),
        E.ArgumentTypeError,
        r"fori_loop: the carry\['n'\], \[\]\{t:2, k:3\}, goes into the body as int32 and comes out as float32",
    ),
    "the carry lacks an axis": (
        lambda: nx.fold(lambda c, x: nx.dot(c, x, "k"), 0.0, X, axis="t"),
        E.AxisNotFoundError,
        r"no axis 'k' in f32\[\].* fold started with the carry as \[\]\{\}. .* nx.zeros\(named_shape=\{'k': size\}\)",
    ),
    "the value lacks an axis": (
        lambda: nx.while_loop(lambda c: nx.sum(c, "k") < 3, lambda c: c + X, 0.0),
        E.AxisNotFoundError,
        r"sum: no axis 'k' in f32\[\].* while_loop started with the carry as \[\]\{\}",
    ),
    "batch_size": (lambda: nx.map(lambda x: x, X, axis="t", batch_size=0), E.ArgumentError, r"batch_size must be a positive integer, got 0"),
    "nothing to map": (lambda: nx.map(lambda x: x, (), axis="t"), E.ArgumentError, r"map: there are no arrays"),
    "nothing to scan": (lambda: nx.associative_scan(nx.add, (), axis="t"), E.ArgumentError, r"no arrays in elems"),
    "lacks the axis": (
        lambda: nx.associative_scan(lambda a, b: a, (X, nx.sum(X, "t")), axis="t"),
        E.AxisNotFoundError,
        r"associative_scan: no axis 't' in f32\[\]\{k:3\}",
    ),
    "position": (lambda: nx.associative_scan(jnp.add, P_, axis=2), E.PositionalAxisError, r"positional axis 2 is out of range"),
    "scan structure": (
        lambda: nx.associative_scan(lambda a, b: (a, b), X, axis="t"),
        E.ArgumentTypeError,
        r"the result of the function is a tuple of length 2, but its argument is a single value\.",
    ),
    "in_axes": (lambda: nx.vmap(lambda x: x, ["t", "t"])(X), E.ArgumentError, r"has 2 entries for 1 positional arguments"),
    "two names": (lambda: nx.vmap(lambda x, y: x, ["t", "k"])(X, X), E.ArgumentError, r"has several names, 't', 'k'\. Pass the name of the axis"),
    "mapped sizes": (lambda: nx.vmap(lambda x, y: x, ["t", "k"], "t")(X, X), E.AxisSizeError, r"have the sizes 2, 3"),
    "maps nothing": (lambda: nx.vmap(lambda x: x, [None])(X), E.ArgumentError, r"maps no argument"),
    "no such name": (lambda: nx.vmap(lambda x: x, "tt")(X), E.AxisNotFoundError, r"vmap: no axis 'tt'"),
}  # fmt: skip


@pytest.mark.parametrize("label", MISTAKES)
def test_mistakes(label):
    call, error, message = MISTAKES[label]
    with pytest.raises(error, match=message):
        call()


def test_a_function_of_jax_in_a_body_is_explained():
    with pytest.raises(TypeError) as raised:
        nx.scan(lambda c, x: (c, jnp.sin(x)), 0, X, axis="t")
    assert "nx.nmap" in "".join(raised.value.__notes__)
