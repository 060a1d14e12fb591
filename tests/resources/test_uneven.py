"""Laws 2 and 7 where a size does not divide over its mesh axes: the same values and gradients, or an error that names the axis."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import namedax as nx
from tests import make
from tests.harness import Placement, array, check, together
from tests.operations import OPERATIONS
from tests.ops.namespaces.test_gathers import PROGRAMS, A

# Blocks of 3, 3, 2; of 2, 2, 2, 2 and nothing; of 2 four times and twice nothing.
UNEVEN = [
    Placement("three", (3,), (("a", "x"),)),
    Placement("five", (5,), (("a", "x"),), "explicit"),
    Placement("six", (3, 2), (("a", ("x", "y")),)),
    Placement("both", (3, 2), (("a", "x"), ("b", "y")), "explicit"),
]
# These know no padding: `a` of size 8 is refused over three devices.
REFUSED = {
    "split_axis": "split_axis",
}


def of_columns(named):
    return lambda v: named(v[..., 0])


EVERY = {
    label: (of_columns(named), lambda a, f=plain: f(a[..., 0]), axes, True)
    for label, (named, plain, axes) in OPERATIONS.items()
}
EVERY |= {label if label not in EVERY else f"{label}-of-lax": program[:4] for label, program in PROGRAMS.items()}


@pytest.mark.full(1)
@pytest.mark.fast(1)
@pytest.mark.parametrize("smooth", [True, False])
@pytest.mark.parametrize("placement", [UNEVEN[0], *(pytest.param(p, marks=pytest.mark.fast(0)) for p in UNEVEN[1:])], ids=str)
def test_every_operation_is_right_or_says_so(placement, smooth):
    known = {label: program[:3] for label, program in EVERY.items() if program[3] == smooth and label not in REFUSED}
    named, plain, out_axes = together(known)
    check(named, plain, (A,), (["a", "b", None],), out_axes, placement, grad=smooth)


@pytest.mark.parametrize("label", REFUSED)
def test_operations_without_support_for_padding_raise(label):
    named, _, out_axes, _ = EVERY[label]
    f = nx.xmap(named, (["a", "b", None],), out_axes, **UNEVEN[0].options)
    with pytest.raises(nx.errors.UnevenAxisError) as caught:
        jax.eval_shape(f, A)
    message = str(caught.value)
    assert message.removeprefix("nx.").startswith((f"{REFUSED[label]}{{", f"{REFUSED[label]}: "))
    assert (
        "axis 'a' of size 8 does not divide over mesh axes ('x',), 3 devices in total, so the last blocks, of size 3, contain padding, and this "
        "operation does not support padded axes. Use a size that divides, such as 6 or 9, or map 'a' to fewer devices in axis_resources."
    ) in message
    assert caught.value.axis == "a"


# --- sizes ----------------------------------------------------------------------------------------------------------


def network(w, x, y):
    """Contractions, norms, softmax and reductions over every name."""
    h = nx.nn.layer_norm(nx.dot(x, w, "k"), "m", scale=nx.arange(axis="m") + 1.0)
    p = nx.nn.softmax(h, "m") * nx.nn.log_softmax(h, "batch")
    parts = [nx.sum(p * y, ("batch", "m")), nx.max(h, ("batch", "m")), nx.mean(nx.logsumexp(h, "batch"), "m")]
    parts += [nx.sum(nx.std(h, "batch") * nx.var(w, "k"), "m"), nx.mean(nx.nn.rms_norm(x, "batch") ** 3, ("batch", "k"))]
    return sum(parts, nx.einsum("{batch,m},{batch,m},{k,m}->", p, h, w))


def plain_network(w, x, y):
    def standard(h, axis, scale, epsilon):
        return (h - h.mean(axis, keepdims=True)) / jnp.sqrt(h.var(axis, keepdims=True) + epsilon) * scale

    h = standard(x @ w, 1, jnp.arange(w.shape[1]) + 1.0, 1e-5)
    p = jax.nn.softmax(h, 1) * jax.nn.log_softmax(h, 0)
    parts = [(p * y).sum(), h.max(), jax.nn.logsumexp(h, 0).mean(), (h.std(0) * w.var(0)).sum()]
    parts += [((x / jnp.sqrt((x**2).mean(0) + 1e-6)) ** 3).mean()]
    return sum(parts, jnp.einsum("bm,bm,km->", p, h, w))


@pytest.mark.full(0)
@pytest.mark.parametrize("kind", ["auto", pytest.param("explicit", marks=pytest.mark.fast(0))])
@pytest.mark.parametrize("size", [*(pytest.param(n, marks=pytest.mark.fast(0)) for n in (1, 7, 9)), 10])
def test_sizes(size, kind):
    w, x, y = array(5, 6), array(size, 5, seed=6), array(size, 6, seed=7)
    one = Placement("one", (8,), (("batch", "x"),), kind)
    check(network, plain_network, (w, x, y), (["k", "m"], ["batch", "k"], ["batch", "m"]), [], one, tol=1e-4)


@pytest.mark.fast(0)
@pytest.mark.full(1)
@pytest.mark.parametrize("name", [*(pytest.param(n, marks=pytest.mark.fast(0)) for n in ("k", "m")), "all"])
def test_contracted_and_kept(name):
    resources = (("k", "x"), ("m", "y")) if name == "all" else ((name, ("x", "y")),)
    args = array(5, 6), array(4, 5, seed=1), array(4, 6, seed=2)
    placement = Placement("wide", (2, 4), resources)
    check(network, plain_network, args, (["k", "m"], ["batch", "k"], ["batch", "m"]), [], placement, tol=1e-4)


@pytest.mark.fast(0)
def test_a_vocabulary_of_50257_words():
    logits, labels = array(3, 50257), jnp.array([0, 50256, 31000])

    def plain(logits):
        return -jnp.take_along_axis(jax.nn.log_softmax(logits, 1), labels[:, None], 1).mean()

    def loss(logits):
        return nx.mean(nx.nn.softmax_cross_entropy(logits, nx.named(labels, ["token"]), "vocab"), "token")

    placement = Placement("words", (8,), (("vocab", "x"),))
    check(loss, plain, (logits,), (["token", "vocab"],), [], placement)
    f = jax.jit(nx.xmap(loss, (["token", "vocab"],), [], **placement.options))
    assert all(c.bytes <= 4 * 4 for c in nx.hlo.collectives(f.lower(logits).compile()))  # one number a token


# --- what padding must not do ---------------------------------------------------------------------------------------

EDGES = {
    "log": lambda x, w: jnp.log(x * w),
    "sqrt": lambda x, w: jnp.sqrt(x - 1.0 + w),
    "reciprocal": lambda x, w: w / x,
    "power": lambda x, w: (x - 1.0) ** w,
}


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize("label", EDGES)
def test_slopes_that_are_infinite_at_zero(label):
    # Zeros for padding would be infinite, or make the gradient of what all entries share NaN.
    function = EDGES[label]
    x, w = make.array(np.arange(2.0, 12.0)), make.array(np.float32(0.75))

    def named(x, w):
        return nx.sum(nx.nmap(function)(x, w), "a")

    def counted(x, w):  # counts down to 1, which would be 0 beyond the end
        return nx.sum(w / (10 - nx.arange(axis="a")) + 0 * x, "a")

    placement = Placement("eight", (8,), (("a", "x"),))
    check(named, lambda x, w: function(x, w).sum(), (x, w), (["a"], []), [], placement)
    check(counted, lambda x, w: (w / (10 - jnp.arange(10.0)) + 0 * x).sum(), (x, w), (["a"], []), [], placement)


@pytest.mark.fast(0)
def test_real_entries_that_are_not_finite():
    x = make.array([1.0, np.inf, 3.0, np.nan, 5.0, 6.0, 7.0])
    y = make.array([1.0, np.inf, 3.0, -np.inf, 5.0, 6.0, np.inf])

    def parts(x, y, total, most, least, finite):
        return total(x), most(y), least(y), total(finite(x)), total(y)

    args = lambda v: nx.sum(v, "a"), lambda v: nx.max(v, "a"), lambda v: nx.min(v, "a"), lambda v: nx.where(v > 2, v, 0.0)
    mapped = nx.xmap(lambda x, y: parts(x, y, *args), (["a"], ["a"]), [], **UNEVEN[0].options)
    want = parts(x, y, jnp.sum, jnp.max, jnp.min, lambda v: jnp.where(v > 2, v, 0.0))
    for have, value in zip(mapped(x, y), want, strict=True):
        np.testing.assert_array_equal(have, value)
    gradient = jax.grad(lambda x: mapped(x, y)[3])(x)
    np.testing.assert_array_equal(gradient, jax.grad(lambda x: jnp.sum(jnp.where(x > 2, x, 0.0)))(x))


@pytest.mark.fast(0)
def test_ties_are_counted_without_padding():
    x = make.array([3.0, 1.0, 3.0, 2.0, 2.0, 0.0, 3.0])
    f = nx.xmap(lambda x: nx.max(x, "a"), ["a"], [], **UNEVEN[0].options)
    np.testing.assert_allclose(jax.grad(f)(x), jax.grad(jnp.max)(x))
    where = nx.xmap(lambda x: nx.argmax(-x, "a"), ["a"], [], **UNEVEN[0].options)
    assert [int(where(v)) for v in (make.array([np.inf] * 7), -x, x)] == [0, 0, 5]


# --- where it meets the rest ----------------------------------------------------------------------------------------


@pytest.mark.full(1)
@pytest.mark.fast(0)
def test_arrays_that_the_body_closes_over_and_nested_functions():
    x, mesh = array(7, 4), UNEVEN[0].options["mesh"]
    other = nx.named(array(7, seed=4), ["a"])
    inner = nx.xmap(
        lambda v: v * nx.sum(v, "b") + nx.sum(v, "a"),
        axis_resources={"b": "y"},
        mesh=(grid := jax.make_mesh((3, 2), ("x", "y"))),
    )

    def body(v):
        return nx.sum(v * other, "a")

    def outer(v):
        return inner(v) * other

    check(body, lambda x: (x * other.data[:, None]).sum(0), (x,), (["a", "b"],), ["b"], UNEVEN[0])
    f = nx.xmap(outer, (["a", "b"],), ["a", "b"], axis_resources={"a": "x"}, mesh=grid)
    want = (x * x.sum(1, keepdims=True) + x.sum(0)) * other.data[:, None]
    np.testing.assert_allclose(f(x), want, rtol=1e-5, atol=1e-5)
    plain = nx.xmap(outer, (["a", "b"],), ["a", "b"], mesh=mesh)
    np.testing.assert_allclose(jax.grad(lambda x: f(x).sum())(x), jax.grad(lambda x: plain(x).sum())(x), rtol=1e-4, atol=1e-4)


@pytest.mark.fast(0)
@pytest.mark.parametrize(
    "options", [{"jit": False}, {"partitioning": "auto"}, {"axis_resources": {"a": "x", "b": nx.SerialLoop(2)}}]
)
def test_other_ways_to_run(options):
    x = array(7, 4)
    f = nx.xmap(lambda v: nx.nn.softmax(v, "a") * nx.sum(v, "b"), (["a", "b"],), ["b", "a"], **{**UNEVEN[0].options, **options})
    np.testing.assert_allclose(f(x), (jax.nn.softmax(x, 0) * x.sum(1, keepdims=True)).T, rtol=1e-5, atol=1e-6)


def recurrence(p, q):
    return p[0] * q[0], p[1] * q[0] + q[1]


LAYERS = {
    "associative": (
        lambda x: nx.associative_scan(recurrence, (nx.sin(x), x), axis="a")[1],
        lambda x: jax.lax.associative_scan(recurrence, (jnp.sin(x), x))[1],
        ["a", "b"],
    ),
    "associative-reverse": (
        lambda x: nx.associative_scan(recurrence, (x, nx.sin(x)), reverse=True, axis="a")[1],
        lambda x: jax.lax.associative_scan(recurrence, (x, jnp.sin(x)), reverse=True)[1],
        ["a", "b"],
    ),
    "scan": (
        lambda x: nx.scan(lambda c, e: (c * e + 1, c), nx.zeros(()), x, axis="a", reverse=True)[1],
        lambda x: jax.lax.scan(lambda c, e: (c * e + 1, c), jnp.zeros(3), x, reverse=True)[1],
        ["a", "b"],
    ),
    "fold": (lambda x: nx.fold(lambda c, e: jnp.cos(1.0) * c + e, 0.0, x, axis="a"), None, ["b"]),
    "no arrays": (
        lambda x: x * nx.fold(lambda c, _: 2.0 * c, 1.0, None, axis="a"),
        lambda x: x * 2.0 ** x.shape[0],
        ["a", "b"],
    ),
    "map": (lambda x: nx.lax.map(lambda e: e * nx.sum(e, "b"), x, axis="a"), lambda x: x * x.sum(1, keepdims=True), ["a", "b"]),
    "vmap": (lambda x: nx.vmap(jax.grad(lambda e: nx.sum(e**3, "b")), "a")(x), lambda x: 3 * x**2, ["a", "b"]),
}
LAYERS["fold"] = (LAYERS["fold"][0], lambda x: jnp.cos(1.0) ** jnp.arange(len(x) - 1, -1, -1) @ x, ["b"])


@pytest.mark.fast(0)
@pytest.mark.full(1)
@pytest.mark.parametrize("size", [7, pytest.param(1, marks=pytest.mark.fast(0)), pytest.param(10, marks=pytest.mark.fast(0))])
def test_one_entry_after_the_other(size):
    named, plain, out_axes = together(LAYERS)
    check(named, plain, (array(size, 3),), (["a", "b"],), out_axes, Placement("layers", (4,), (("a", "x"),)), tol=1e-4)


@pytest.mark.parametrize("reverse", [False, pytest.param(True, marks=pytest.mark.fast(0))])
def test_no_step_of_a_scan_is_taken_over_padding(reverse):
    """A step more than there are entries would take the root of less than zero, whose slope is not a number."""
    x, w = np.array([0.1, 0.2, 0.3, 0.2, 0.1, 0.3, 3.0]), make.array(np.float32(2.0))
    args = make.array(x[::-1] if reverse else x), w

    def named(x, w):
        return nx.scan(lambda c, v: (nx.sqrt(c * w - v), c), 30 * w, x, reverse=reverse, axis="a")

    def plain(x, w):
        return jax.lax.scan(lambda c, v: (jnp.sqrt(c * w - v), c), 30 * w, x, reverse=reverse)

    if not reverse:
        assert np.isnan(plain(jnp.concatenate([args[0], args[0][-1:]]), w)[0])
    check(named, plain, args, (["a"], []), ([], ["a"]), Placement("four", (4,), (("a", "x"),)), tol=1e-4)


@pytest.mark.fast(0)
@pytest.mark.full(1)
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(
    "placement", [Placement("four", (4,), (("a", "x"),)), Placement("steps", (2,), (("a", ("x", nx.SerialLoop(2))),))], ids=str
)
@pytest.mark.parametrize("size", [13, *(pytest.param(n, marks=pytest.mark.fast(0)) for n in (2, 5, 7, 9, 10))])
def test_associative_scans_do_not_combine_padding(size, placement, reverse):
    # The product of two of the last entry is infinite, and there the gradient with respect to each is not a number.
    x = np.linspace(0.5, 1.5, size)
    x[-2:] = 1e-30, 1e30

    def product(p, q):
        return nx.sqrt(p * q) * nx.sqrt(p * q)

    def named(x):
        return nx.associative_scan(product, x, reverse=reverse, axis="a")

    def plain(x):
        return jax.lax.associative_scan(lambda p, q: jnp.sqrt(p * q) ** 2, x, reverse=reverse)

    f = nx.xmap(named, ["a"], ["a"], **placement.options)
    np.testing.assert_allclose(f(make.array(x)), plain(make.array(x)), rtol=1e-5)
    have, want = (jax.grad(lambda x, g=g: jnp.sum(jnp.log(g(x))))(make.array(x)) for g in (f, plain))
    np.testing.assert_allclose(have, want, rtol=1e-4)


def test_outside_of_mapped_functions_the_axis_is_whole(tmp_path):
    mesh = jax.make_mesh((4, 2), ("x", "y"))
    x = nx.named(array(6, 4), ["a", "b"])
    placed = nx.shard(x, {"a": "x", "b": "y"}, mesh, padded=False)
    assert placed.sharding.spec == jax.P(None, "y")
    np.testing.assert_array_equal(placed.data, x.data)
    nx.checkpoints.save(tmp_path / "c", {"w": nx.shard(x, {"a": "y"}, mesh, padded=False)})
    restored = nx.checkpoints.restore(tmp_path / "c", axis_resources={"a": "x", "b": "y"}, mesh=mesh)["w"]
    assert restored.sharding.spec == jax.P(None, "y")
    np.testing.assert_array_equal(restored.data, x.data)


def test_under_vmap():
    x = array(2, 7, 4)
    f = nx.xmap(lambda v: nx.nn.softmax(v, "a") * nx.sum(v, "b"), (["a", "b"],), ["a", "b"], **UNEVEN[0].options)
    np.testing.assert_allclose(jax.vmap(f)(x), jax.nn.softmax(x, 1) * x.sum(2, keepdims=True), rtol=1e-5, atol=1e-6)


def test_axes_are_split_and_merged_beside_an_uneven_one():
    x = array(7, 6, 2)

    def parts(x):
        heads = nx.rearrange(x, "{b=(h k)} d -> {h, k} d", h=2)
        whole = nx.rearrange(x, "{a, b} d -> {a, b} d 1")[..., 0]
        return heads, nx.merge_axes(nx.split_axis(x, "b", {"p": 3, "q": 2}), ("q", "p"), "r"), whole * 2

    def plain(x):
        split = x.reshape(7, 3, 2, 2)
        return x.reshape(7, 2, 3, 2), split.transpose(0, 2, 1, 3).reshape(7, 6, 2), x * 2

    placement = Placement("beside", (3, 2), (("a", "x"), ("h", "y")), "explicit")
    check(parts, plain, (x,), (["a", "b", None],), (["a", "h", "k", None], ["a", "r", None], ["a", "b", None]), placement)


@pytest.mark.fast(0)
def test_renaming_between_placements():
    x = array(7, 10)
    options = {"mesh": jax.make_mesh((3, 2), ("x", "y")), "axis_sizes": {"p": 7, "q": 10}}
    for before, after in [
        ({"a": "x"}, {"q": "x"}),
        ({"a": "x"}, {"p": "y"}),
        ({"a": ("x", "y")}, {"p": "x"}),
        ({"b": "x"}, {"p": "x"}),
    ]:
        f = nx.xmap(
            lambda v: nx.rename(v, {"a": "p", "b": "q"}), (["a", "b"],), ["p", "q"], axis_resources=before | after, **options
        )
        np.testing.assert_array_equal(f(x), x)
        np.testing.assert_array_equal(jax.grad(lambda x, f=f: (f(x) * x).sum())(x), 2 * x)


def test_random_numbers_are_the_same():
    def draw(key):
        return nx.random.normal(key, named_shape={"a": 7}), nx.random.bernoulli(key, 0.5, named_shape={"a": 7})

    f, g = (nx.xmap(draw, ([],), ["a"], axis_sizes={"a": 7}, **options) for options in ({}, UNEVEN[0].options))
    for have, want in zip(g(jax.random.key(3)), f(jax.random.key(3)), strict=True):
        np.testing.assert_array_equal(have, want)


def test_an_uneven_name_created_in_the_body():
    f = nx.xmap(
        lambda v: nx.rename(v, {"b": "q"}), (["a", "b"],), ["a", "q"], axis_resources={"q": "x"}, mesh=UNEVEN[0].options["mesh"]
    )
    np.testing.assert_array_equal(f(array(3, 4)), array(3, 4))


@pytest.mark.fast(0)
def test_sent_is_at_most_what_padded_sizes_send():
    def sent(size):
        f = nx.xmap(
            network,
            (["k", "m"], ["batch", "k"], ["batch", "m"]),
            [],
            axis_resources={"batch": "x"},
            mesh=jax.make_mesh((8,), ("x",)),
        )
        compiled = jax.jit(jax.grad(f)).lower(array(5, 6), array(size, 5), array(size, 6)).compile()
        return sum(c.bytes for c in nx.hlo.collectives(compiled))

    assert sent(10) <= sent(16)


# --- attention ------------------------------------------------------------------------------------------------------


def plain_attention(q, k, v, bias, is_causal):
    """Of arrays [batch, position, head, feature], the bias [position, position]."""
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(q.shape[-1]) + bias
    if is_causal:
        scores = jnp.where(jnp.tril(jnp.ones(bias.shape, bool)), scores, -jnp.inf)
    return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores, -1), v)


ATTENTION = [
    Placement("ring", (8,), (("pos", "x"),)),
    Placement("ring-and-batch", (3, 2), (("pos", "x"), ("batch", "y")), "explicit"),
    Placement("batch-and-heads", (2, 4), (("batch", "x"), ("h", "y"))),
    Placement("features", (3,), (("d", "x"),)),
]


@pytest.mark.full(1)
@pytest.mark.parametrize("is_causal", [True, pytest.param(False, marks=pytest.mark.fast(0))])
@pytest.mark.parametrize(
    "placement", [ATTENTION[0], *(pytest.param(p, marks=pytest.mark.fast(0)) for p in ATTENTION[1:])], ids=str
)
def test_attention(placement, is_causal):
    args = [array(3, 10, 3, 4, seed=i) for i in range(3)] + [array(10, 10)]

    def attend(q, k, v, bias):
        return nx.nn.dot_product_attention(q, k, v, bias, axis="pos", features="d", is_causal=is_causal)

    axes = ["batch", "pos", "h", "d"]
    check(
        attend,
        lambda *args: plain_attention(*args, is_causal),
        args,
        (axes, axes, axes, ["pos", "key_pos"]),
        axes,
        placement,
        tol=1e-4,
    )


@pytest.mark.fast(0)
@pytest.mark.full(1)
@pytest.mark.parametrize("size", [pytest.param(1, marks=pytest.mark.fast(0)), 7, pytest.param(9, marks=pytest.mark.fast(0))])
def test_attention_to_keys_that_are_sharded(size):
    q, k, v, bias = array(2, 5, 1, 4), array(2, size, 1, 4, seed=1), array(2, size, 1, 4, seed=2), array(5, size)

    def attend(q, k, v, bias):
        return nx.nn.dot_product_attention(q, k, v, bias, axis="pos", key_axis="source", features="d")

    def plain(*args):
        return plain_attention(*args, False)

    own, source = ["batch", "pos", "h", "d"], ["batch", "source", "h", "d"]
    placement = Placement("keys", (8,), (("source", "x"),))
    check(attend, plain, (q, k, v, bias), (own, source, source, ["pos", "source"]), own, placement, tol=1e-4)


# Heads of queries, of keys, devices: blocks that end within a group, hold some groups, hold part of one, and keys that fit though they are padded.
GROUPS = [(12, 4, 8), (15, 5, 2), (21, 7, 4), (8, 4, 8), (6, 2, 4), (3, 1, 2), (10, 10, 4)]


@pytest.mark.full(0)
@pytest.mark.parametrize(
    ("heads", "key_heads", "devices"), [GROUPS[0], *(pytest.param(*g, marks=pytest.mark.fast(0)) for g in GROUPS[1:])]
)
@pytest.mark.parametrize("kind", ["auto", pytest.param("explicit", marks=pytest.mark.fast(0))])
@pytest.mark.parametrize("keys", ["spread", pytest.param("whole", marks=pytest.mark.fast(0))])
def test_groups_of_heads(heads, key_heads, devices, kind, keys):
    args = array(2, 5, heads, 4), array(2, 5, key_heads, 4, seed=1), array(2, 5, key_heads, 4, seed=2), array(heads, 5, 5)

    def attend(q, k, v, bias):
        names = {"heads": "h", "key_heads": "g"}
        return nx.nn.dot_product_attention(q, k, v, bias, axis="pos", features="d", is_causal=True, **names)

    def plain(q, k, v, bias):
        k, v = (jnp.repeat(a, heads // key_heads, 2) for a in (k, v))
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(q.shape[-1]) + bias
        scores = jnp.where(jnp.tril(jnp.ones((5, 5), bool)), scores, -jnp.inf)
        return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores, -1), v)

    own, key = ["batch", "pos", "h", "d"], ["batch", "pos", "g", "d"]
    places = (("h", "x"), ("g", "x")) if keys == "spread" else (("h", "x"),)
    placement = Placement("heads", (devices,), places, kind)
    check(attend, plain, args, (own, key, key, ["h", "pos", "key_pos"]), own, placement, tol=1e-4)


@pytest.mark.full(1)
@pytest.mark.fast(0)
def test_groups_of_heads_in_steps_and_beside_other_axes():
    args = array(2, 6, 6, 4), array(2, 6, 2, 4, seed=1), array(2, 6, 2, 4, seed=2)

    def attend(q, k, v):
        return nx.nn.dot_product_attention(q, k, v, axis="pos", features="d", heads="h", key_heads="g")

    def plain(q, k, v):
        k, v = (jnp.repeat(a, 3, 2) for a in (k, v))
        return plain_attention(q, k, v, jnp.zeros((6, 6)), False)

    axes = (["batch", "pos", "h", "d"], ["batch", "pos", "g", "d"], ["batch", "pos", "g", "d"])
    for shape, places in [
        (None, (("h", nx.SerialLoop(4)),)),
        (None, (("h", "l"), ("g", "l"))),
        ((4, 2), (("h", "x"), ("g", "x"), ("pos", "y"))),
        ((4, 2), (("h", ("y", "x")), ("g", ("y", "x")))),
    ]:
        with nx.serial_loop("l", 4):
            check(attend, plain, args, axes, axes[0], Placement("h", shape, places), tol=1e-4)


@pytest.mark.fast(0)
def test_what_groups_of_heads_send():
    q, k = array(5, 12, 4), array(5, 4, 4)

    def attend(q, k):
        return nx.nn.dot_product_attention(q, k, k, axis="pos", features="d", heads="h", key_heads="g")

    options = {"axis_resources": {"h": "x", "g": "x"}, "mesh": jax.make_mesh((8,), ("x",))}
    f = jax.jit(nx.xmap(lambda q, k: nx.sum(attend(q, k), ...), (["pos", "h", "d"], ["pos", "g", "d"]), [], **options))
    sent = [c for c in nx.hlo.collectives(f.lower(q, k).compile()) if c.kind != "all-reduce"]
    assert sum(c.bytes for c in sent) <= 2 * k.nbytes  # each of the four heads of keys and values goes over at most once


# --- rows that move -------------------------------------------------------------------------------------------------

KERNEL = make.array([1.0, 2.0, -1.0])


def split(x):
    return nx.array_split(x, [4], "a", out_axis=["four", "rest"])[0]


def convolve(x):
    return nx.convolve(x, KERNEL, "valid", axis="a", out_axis="p")


def plain_convolve(x):
    return jax.vmap(lambda column: jnp.convolve(column, KERNEL, "valid"), 1, 1)(x)


def plain_pool(x):
    return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (3, 1), (1, 1), "SAME")


def plain_conv(x):
    return jax.lax.conv_general_dilated(x[None, None], KERNEL[None, None, :, None], (1, 1), [(2, 0), (0, 0)])[0, 0]


MOVES = {
    "roll": (lambda x: nx.roll(x, (3, -1), ("a", "b")), lambda x: jnp.roll(x, (3, -1), (0, 1)), ["a", "b"]),
    "shift": (
        lambda x: nx.shift(x, -2, "a", fill_value=3.0),
        lambda x: jnp.pad(x[2:], ((0, 2), (0, 0)), constant_values=3.0),
        ["a", "b"],
    ),
    "flip": (lambda x: nx.flip(x, ("a", "b")), lambda x: x[::-1, ::-1], ["a", "b"]),
    "halo": (lambda x: nx.halo(x, "a", 2, 1, mode="wrap")[..., 0], lambda x: jnp.roll(x, 2, 0), ["a", "b"]),
    "halo-edge": (
        lambda x: nx.halo(x, "a", 0, 2, mode="edge")[..., 2],
        lambda x: jnp.concatenate([x[2:], x[-1:], x[-1:]]),
        ["a", "b"],
    ),
    "diff": (
        lambda x: nx.diff(x, axis="a", prepend=1.0),
        lambda x: jnp.diff(x, axis=0, prepend=jnp.ones_like(x[:1])),
        ["a", "b"],
    ),
    "diff-out": (lambda x: nx.diff(x, 2, axis="a", out_axis="p"), lambda x: jnp.diff(x, 2, axis=0), ["p", "b"]),
    "pad": (
        lambda x: nx.pad(x, {"a": (1, 2)}, mode="reflect", out_axis={"a": "q"}),
        lambda x: jnp.pad(x, ((1, 2), (0, 0)), "reflect"),
        ["q", "b"],
    ),
    "tile": (lambda x: nx.tile(x, {"a": 2}, out_axis="twice"), lambda x: jnp.tile(x, (2, 1)), ["twice", "b"]),
    "repeat": (lambda x: nx.repeat(x, 2, "a", out_axis="twice"), lambda x: jnp.repeat(x, 2, 0), ["twice", "b"]),
    "split": (split, lambda x: x[:4], ["four", "b"]),
    "stack": (lambda x: nx.stack([x, 2 * x], axis="two"), lambda x: jnp.stack([x, 2 * x]), ["two", "a", "b"]),
    "max_pool": (lambda x: nx.nn.max_pool(x, {"a": 3}, strides=1, padding="SAME"), plain_pool, ["a", "b"]),
    "avg_pool": (
        lambda x: nx.nn.avg_pool(x, {"a": 3}, strides=1, out_axis={"a": "p"}),
        lambda x: (x[:-2] + x[1:-1] + x[2:]) / 3,
        ["p", "b"],
    ),
    "conv": (lambda x: nx.conv(x, KERNEL, ("a",), padding=[(2, 0)]), plain_conv, ["a", "b"]),
    "convolve": (convolve, plain_convolve, ["p", "b"]),
}


@pytest.mark.fast(1)
@pytest.mark.full(1)
@pytest.mark.parametrize("size", [7, pytest.param(9, marks=pytest.mark.fast(0)), pytest.param(10, marks=pytest.mark.fast(0))])
@pytest.mark.parametrize("kind", ["auto", pytest.param("explicit", marks=pytest.mark.fast(0))])
def test_rows_that_move(size, kind):
    named, plain, out_axes = together(MOVES)
    names = {"a": size, "q": size + 3, "twice": 2 * size, "four": 4, "rest": size - 4, "two": 2, "p": size - 2}
    resources = (("a", "x"), ("b", "y"), ("q", "x"), ("twice", "x"), ("four", "x"), ("rest", "x"), ("p", "x"))
    placement = Placement("rows", (4, 2), resources, kind)
    check(named, plain, (array(size, 3),), (["a", "b"],), out_axes, placement, tol=1e-4, axis_sizes=names)
