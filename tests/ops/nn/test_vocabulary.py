"""A vocabulary on several devices: embedding and cross-entropy, without the table or the logits ever being gathered.

Oracles are `jnp`, optax, and for what is sent `jax.shard_map` programs written by hand.
"""

import functools
from collections import Counter

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import PartitionSpec as P

import namedax as nx
from namedax import SerialLoop, hlo
from namedax.errors import (
    ArgumentError,
    ArgumentTypeError,
    AxisNameError,
    AxisNotFoundError,
    AxisSizeError,
    PlacementConflictError,
    PositionalAxisError,
)
from tests import make
from tests.harness import FEW, PARTITIONER, PLACEMENTS, Lazily, array, check, make_mesh

optax = Lazily("optax")

loss = nx.nn.softmax_cross_entropy


def plain(logits, labels, z=0.0, smoothing=0.0):
    """Over the last axis."""
    target = optax.smooth_labels(jax.nn.one_hot(labels, logits.shape[-1]), smoothing)
    return optax.softmax_cross_entropy(logits, target) + z * jax.nn.logsumexp(logits, -1) ** 2


# --- the loss: x is {b, a}[3], the classes are a; labels are {b}[3] -----------------------------------------------------

PROGRAM = {
    "plain": (lambda x, y, m, k: loss(x, y, "a"), lambda x, y, m, k: plain(x, y)),
    "z and smoothing": (
        lambda x, y, m, k: loss(x, y, "a", z_loss=0.1, label_smoothing=0.2),
        lambda x, y, m, k: plain(x, y, 0.1, 0.2),
    ),
    "tokens": (
        lambda x, y, m, k: loss(nx.where(m, x, jnp.nan), nx.where(m, y, -1), "a", where=m, z_loss=0.1, label_smoothing=0.2),
        lambda x, y, m, k: jnp.where(m[:, None], plain(x, y, 0.1, 0.2), 0.0),
    ),
    "classes": (
        lambda x, y, m, k: loss(x, y % 5, "a", where=k, label_smoothing=0.2),
        lambda x, y, m, k: plain(x[..., :5], y % 5, 0.0, 0.2),
    ),
    "tokens and classes": (
        lambda x, y, m, k: loss(nx.where(m, x, jnp.nan), y % 5, "a", where=k & m, z_loss=0.1),
        lambda x, y, m, k: jnp.where(m[:, None], plain(x[..., :5], y % 5, 0.1), 0.0),
    ),
    "of 16 bits": (
        lambda x, y, m, k: loss(x.astype(jnp.bfloat16), y, "a"),
        lambda x, y, m, k: plain(x.astype(jnp.bfloat16).astype(jnp.float32), y),
    ),
}


@functools.cache
def programs():
    return (
        lambda *args: {label: named(*args) for label, (named, _) in PROGRAM.items()},
        jax.jit(lambda x, *more: {label: oracle(x.swapaxes(1, 2), *more) for label, (_, oracle) in PROGRAM.items()}),
        {key: ["b", None] for key in PROGRAM},
    )


@pytest.mark.full(0)
@pytest.mark.fast(1)
@pytest.mark.parametrize("placement", [*FEW, *PLACEMENTS[-5:-4], PARTITIONER[3]], ids=str)
def test_values_and_gradients(placement):
    named, oracle, out_axes = programs()
    labels = make.asarray(np.random.default_rng(3).integers(0, 8, (4, 3)), jnp.uint8)
    args = (array(4, 8, 3), labels, make.array([True, False, True, True]), make.arange(8) < 5)
    grad = placement in FEW or placement.partitioning == "auto"
    check(named, oracle, args, (["b", "a", None], ["b", None], ["b"], ["a"]), out_axes, placement, grad=grad)


@pytest.mark.full(1)
@pytest.mark.fast(0)
def test_positions():
    x, y = array(3, 5, 4), make.array([[1, 0, 4, 2], [3, 3, 0, 1], [2, 4, 1, 0]])
    want = plain(x.swapaxes(1, 2), y)
    for have in (
        loss(x, y, 1),
        loss(x, y, axis=-2),
        loss(nx.named(x, ["b", None, None]), nx.named(y, ["b", None]), 0),
        loss(nx.named(x, [None, "k", "b"]), nx.named(y, [None, "b"]), "k"),
        jax.vmap(lambda x, y: loss(nx.named(x, ["k", None]), y, "k"))(x, y),
    ):
        np.testing.assert_allclose(have if isinstance(have, jax.Array) else have.data, want, rtol=1e-5)
    np.testing.assert_allclose(loss(x[0].T, y[0]), want[0], rtol=1e-5)
    np.testing.assert_allclose(loss(x[0], 2, 0), plain(x[0].T, jnp.full(4, 2)), rtol=1e-5)
    several = loss(nx.named(x[0], ["k", "b"]), nx.named(y, ["choice", "b"]), "k")
    assert set(several.dims) == {"choice", "b"}
    np.testing.assert_allclose(nx.positional(several, ["choice", "b"]), plain(jnp.stack([x[0].T] * 3), y), rtol=1e-5)


def mapped(f, in_axes, out_axes, resources, shape=(4, 2), kind="auto"):
    return nx.xmap(f, in_axes, out_axes, axis_resources=resources, mesh=make_mesh(shape, kind))


@pytest.mark.fast(0)
def test_extreme_logits():
    rows = {
        "large": [3e4, 3e4 - 1, -3e4, 0, 1, 2, 3, 3e4],
        "minus infinity": [-jnp.inf, 1, 2, -jnp.inf, -jnp.inf, -jnp.inf, -jnp.inf, 3],
        "the label has none": [1, 2, 3, 4, 5, 6, 7, -jnp.inf],
        "only the label has one": [-jnp.inf] * 7 + [-5],
        "infinity": [jnp.inf, *range(7)],
    }
    x, y = jnp.array(list(rows.values()), jnp.float32), jnp.full(5, 7)
    f = mapped(lambda x, y: loss(x, y, "v"), (["t", "v"], ["t"]), ["t"], {"v": "x"})
    # By the largest logit first: in float32, to take one large number off another leaves three digits.
    shifted = np.asarray(x) - np.where(np.isposinf(x.max(1)), 0, x.max(1))[:, None]
    want = np.log(np.exp(shifted).sum(1)) - shifted[:, 7]
    np.testing.assert_allclose(f(x, y), want, rtol=1e-6)
    assert np.isposinf(want[[2, 4]]).all()
    assert want[3] == 0
    have = jax.grad(lambda x: jnp.sum(f(x, y)[:4]))(x)[:4]
    np.testing.assert_allclose(have, jax.nn.softmax(x[:4]) - jax.nn.one_hot(y[:4], 8), rtol=1e-5, atol=1e-6)


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize("resources", [{}, {"v": "x"}, {"v": ("y", "x"), "t": ()}], ids=str)
def test_a_label_that_is_no_class(resources):
    x, y = array(4, 8), make.array([-1, 3, 8, 7])
    resources = {name: axes for name, axes in resources.items() if axes}
    f = mapped(lambda x, y: loss(x, y, "v"), (["t", "v"], ["t"]), ["t"], resources)
    assert np.isnan(f(x, y)).tolist() == [True, False, True, False]
    slope = jax.grad(lambda x: jnp.sum(f(x, y)))(x)
    assert np.isnan(slope).all(1).tolist() == [True, False, True, False]
    assert np.isfinite(slope[1::2]).all()


@pytest.mark.full(1)
@pytest.mark.fast(0)
def test_element_types():
    x, y = array(4, 8), make.arange(4)
    for dtype, result in (
        (jnp.bfloat16, jnp.float32),
        (jnp.float16, jnp.float32),
        (jnp.float32, jnp.float32),
        (int, jnp.float32),
    ):
        f = mapped(lambda x, y: loss(x, y, "v"), (["t", "v"], ["t"]), ["t"], {"v": "x"})
        have = f(x.astype(dtype), y.astype(jnp.int8))
        assert have.dtype == result
        np.testing.assert_allclose(have, plain(x.astype(dtype).astype(float), y), rtol=1e-5)
    narrow = x.astype(jnp.bfloat16)
    slope = jax.grad(lambda x: jnp.sum(f(x, y)))(narrow)
    assert slope.dtype == jnp.bfloat16
    want = jax.nn.softmax(narrow.astype(jnp.float32)) - jax.nn.one_hot(y, 8)
    np.testing.assert_allclose(slope.astype(jnp.float32), want, rtol=2**-8)


@pytest.mark.full(0)
@pytest.mark.fast(0)
def test_derivatives_of_other_kinds():
    """Forward mode, and the second derivative."""
    x, y, t = array(4, 8), make.arange(4), array(4, 8, seed=1)

    def scalar(f):
        return lambda x: jnp.sum(jnp.sin(f(x, y)))

    f = mapped(lambda x, y: loss(x, y, "v", z_loss=0.1), (["t", "v"], ["t"]), ["t"], {"v": "x", "t": "y"})
    for derivative in (
        lambda f: jax.jvp(scalar(f), (x,), (t,))[1],
        lambda f: jax.jvp(jax.grad(scalar(f)), (x,), (t,))[1],
        lambda f: jax.grad(lambda x: jnp.sum(jax.grad(scalar(f))(x) * t))(x),
    ):
        want = derivative(lambda x, y: plain(x, y, 0.1))
        np.testing.assert_allclose(jax.jit(lambda derivative=derivative: derivative(f))(), want, rtol=1e-4, atol=1e-4)


@pytest.mark.full(1)
@pytest.mark.fast(0)
def test_in_a_scan_with_remat_and_without_jit():
    x, y = array(6, 4, 8), make.asarray(np.random.default_rng(0).integers(0, 8, (6, 4)))

    def body(x, y):
        step = jax.checkpoint(lambda total, part: (total + nx.sum(loss(*part, "v"), "t"), None))
        return nx.scan(step, 0.0, (x, y))[0]

    in_axes = ([None, "t", "v"], [None, "t"])
    want = jax.jit(jax.grad(lambda x: jnp.sum(plain(x, y))))(x)
    f = mapped(body, in_axes, [], {"v": "x", "t": "y"})
    np.testing.assert_allclose(jax.grad(f)(x, y), want, rtol=1e-4, atol=1e-5)
    eager = nx.xmap(body, in_axes, [], axis_resources={"v": "x"}, mesh=make_mesh((4, 2)), jit=False)
    np.testing.assert_allclose(eager(x, y), jnp.sum(plain(x, y)), rtol=1e-5)


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize(
    "resources", [{"v": SerialLoop(4)}, {"v": ("x", SerialLoop(2))}, {"t": SerialLoop(4), "v": "x"}], ids=str
)
def test_classes_in_time(resources):
    """In steps, the logits of all classes are never there at once; a projection that is made in the body, neither."""
    h, table, y = array(16, 6), array(64, 6, seed=1), make.arange(16) * 3

    def body(h, table, y):
        return nx.mean(loss(nx.dot(h, table, "d"), y, "v", z_loss=0.1, label_smoothing=0.1), "t")

    f = mapped(body, (["t", "d"], ["v", "d"], ["t"]), [], resources)
    want = jax.jit(jax.value_and_grad(lambda h, table: jnp.mean(plain(h @ table.T, y, 0.1, 0.1)), (0, 1)))(h, table)
    have = jax.jit(jax.value_and_grad(f, (0, 1)))(h, table, y)
    for a, b in zip(jax.tree.leaves(have), jax.tree.leaves(want), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)
    large = [jax.ShapeDtypeStruct(s, d) for s, d in (((512, 8), jnp.float32), ((4096, 8), jnp.float32), ((512,), jnp.int32))]
    compiled = jax.jit(jax.grad(f, (0, 1))).lower(*large).compile()
    assert compiled.memory_analysis().temp_size_in_bytes < 4 * 512 * 4096 / 2


# --- what is sent ---------------------------------------------------------------------------------------------------------


def traffic(f, *args):
    return Counter((c.kind, c.bytes, c.group_size) for c in hlo.collectives(jax.jit(f).lower(*args).compile()))


def by_hand(body, in_specs, out_specs):
    return jax.shard_map(body, mesh=make_mesh((4, 2)), in_specs=in_specs, out_specs=out_specs)


def parts_by_hand(x, y):
    """Of the classes of a device: the sum of the exponentials, and the logit of the label."""
    shift = lax.stop_gradient(lax.pmax(lax.stop_gradient(x).max(-1), "x"))
    shifted = x - shift[:, None]
    index = lax.axis_index("x") * x.shape[1] + jnp.arange(x.shape[1])
    return jnp.exp(shifted).sum(-1), jnp.sum(jnp.where(index == y[:, None], shifted, 0), -1)


def loss_by_hand(x, y):
    total, picked = lax.psum(jnp.stack(parts_by_hand(x, y)), "x")
    return jnp.log(total) - picked


@pytest.mark.full(1)
@pytest.mark.fast(0)
def test_the_loss_sends_what_one_would_send_by_hand():
    x, y = array(16, 64), make.asarray(np.random.default_rng(0).integers(0, 64, 16))
    named = mapped(lambda x, y: loss(x, y, "v"), (["t", "v"], ["t"]), ["t"], {"v": "x", "t": "y"})
    hand = by_hand(loss_by_hand, (P("y", "x"), P("y")), P("y"))
    np.testing.assert_allclose(named(x, y), hand(x, y), rtol=1e-5)
    # One number of the 8 tokens of a device for the maximum, two for the sums; the gradient adds nothing.
    want = {("all-reduce", 4 * 8, 4): 1, ("all-reduce", 4 * 2 * 8, 4): 1}
    for f in (named, hand):
        assert traffic(f, x, y) == want
        assert traffic(jax.grad(lambda x, y, f=f: jnp.sum(f(x, y) ** 2)), x, y) == want
    smooth = mapped(
        lambda x, y: loss(x, y, "v", z_loss=1e-4, label_smoothing=0.1), (["t", "v"], ["t"]), ["t"], {"v": "x", "t": "y"}
    )
    assert traffic(smooth, x, y) == want  # the sum of all logits is added to that of the label before it is sent


# --- the embedding ----------------------------------------------------------------------------------------------------------


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize("placement", [FEW[1], FEW[2], FEW[4], PARTITIONER[3]], ids=str)
def test_embedding(placement):
    """The table is {a, c}, the tokens are {b}[5]; the loss of the looked-up rows against the same table (tied weights)."""
    ids = make.asarray(np.random.default_rng(1).integers(0, 8, (4, 5)))

    def named(table, ids):
        x = nx.take(table, ids, "a")
        return x, loss(nx.dot(nx.tanh(x), table, "c"), ids[::-1], "a")

    def oracle(table, ids):
        x = table[ids]
        return x, optax.softmax_cross_entropy_with_integer_labels(jnp.tanh(x) @ table.T, ids[:, ::-1])

    check(named, oracle, (array(8, 3), ids), (["a", "c"], ["b", None]), (["b", None, "c"], ["b", None]), placement)


def take_by_hand(table, ids):
    mine = ids - lax.axis_index("x") * table.shape[0]
    here = (mine >= 0) & (mine < table.shape[0])
    return jnp.where(here[:, None], table[jnp.where(here, mine, 0)], 0)


@pytest.mark.fast(0)
def test_the_embedding_sends_what_one_would_send_by_hand():
    table, ids = array(64, 6), make.asarray(np.random.default_rng(0).integers(0, 64, 16))
    named = mapped(lambda table, ids: nx.take(table, ids, "v"), (["v", "e"], ["t"]), ["t", "e"], {"v": "x", "t": "y"})
    hand = by_hand(lambda table, ids: lax.psum(take_by_hand(table, ids), "x"), (P("x"), P("y")), P("y"))
    np.testing.assert_allclose(named(table, ids), table[ids])
    # The 8 rows of a device; backwards its part of the table's gradient, summed over the tokens of others, and over no class.
    rows, part = 4 * 8 * 6, 4 * 16 * 6
    for f in (named, hand):
        assert traffic(f, table, ids) == {("all-reduce", rows, 4): 1}
        gradient = jax.grad(lambda table, ids, f=f: jnp.sum(jnp.sin(f(table, ids))))
        assert traffic(gradient, table, ids) == {("all-reduce", rows, 4): 1, ("all-reduce", part, 2): 1}
    placed = jax.device_put(table, jax.NamedSharding(make_mesh((4, 2)), P("x")))
    assert jax.jit(gradient)(placed, ids).sharding.is_equivalent_to(placed.sharding, 2)


@pytest.mark.fast(0)
def test_the_embedding_written_onto_the_mesh_axis_of_the_vocabulary():
    """Sequence parallel: a sum of which every device keeps its positions is one reduce-scatter."""
    table, ids = array(64, 6), make.asarray(np.random.default_rng(0).integers(0, 64, (2, 16)))

    def body(table, ids):
        return nx.rename(nx.take(table, ids, "v"), {"pos": "pos_sp"})

    named = mapped(body, (["v", "e"], ["b", "pos"]), ["b", "pos_sp", "e"], {"v": "x", "pos_sp": "x", "b": "y"})

    def by_position(table, ids):
        rows = take_by_hand(table, ids.ravel()).reshape(*ids.shape, -1)
        return lax.psum_scatter(rows, "x", scatter_dimension=1, tiled=True)

    hand = by_hand(by_position, (P("x"), P("y")), P("y", "x"))
    np.testing.assert_allclose(named(table, ids), table[ids])
    rows, part = 4 * 16 * 6, 4 * 16 * 6
    for f in (named, hand):
        assert traffic(f, table, ids) == {("reduce-scatter", rows, 4): 1}
        gradient = jax.grad(lambda table, ids, f=f: jnp.sum(jnp.sin(f(table, ids))))
        assert traffic(gradient, table, ids) == {
            ("reduce-scatter", rows, 4): 1,
            ("all-gather", rows, 4): 1,
            ("all-reduce", part, 2): 1,
        }
        want = jax.jit(jax.grad(lambda table: jnp.sum(jnp.sin(table[ids]))))(table)
        np.testing.assert_allclose(jax.jit(gradient)(table, ids), want, rtol=1e-4, atol=1e-5)


@pytest.mark.full(1)
@pytest.mark.fast(0)
def test_a_language_model_never_gathers_its_vocabulary():
    """Embedding, tied output weights and loss in one; the vocabulary is by far the largest axis."""
    table, ids = array(512, 6), make.asarray(np.random.default_rng(0).integers(0, 512, 16))

    def named(table, ids):
        logits = nx.dot(nx.tanh(nx.take(table, ids, "v")), table, "e")
        return nx.mean(loss(logits, (ids * 5) % 512, "v"), "t")

    def hand(table, ids):
        table = lax.pcast(table, "y", to="varying")  # once, so that the gradients of both uses are reduced together
        logits = jnp.tanh(lax.psum(take_by_hand(table, ids), "x")) @ table.T
        total, picked = parts_by_hand(logits, (ids * 5) % 512)
        # The picked logits are only added up, so their sum over tokens is sent.
        return lax.pmean(jnp.mean(jnp.log(lax.psum(total, "x"))) - lax.psum(jnp.mean(picked), "x"), "y")

    f = mapped(named, (["v", "e"], ["t"]), [], {"v": "x", "t": "y"})
    g = by_hand(hand, (P("x"), P("y")), P())
    want = jax.jit(jax.grad(lambda table: jnp.mean(plain(jnp.tanh(table[ids]) @ table.T, (ids * 5) % 512))))(table)
    np.testing.assert_allclose(jax.grad(f)(table, ids), want, rtol=1e-4, atol=1e-6)
    have = traffic(jax.value_and_grad(f), table, ids)
    assert have == traffic(jax.value_and_grad(g), table, ids)
    assert {kind for kind, _, _ in have} == {"all-reduce"}
    assert max(size for _, size, group in have if group == 4) == 4 * 8 * 6  # rows of this device's tokens, never logits


# --- mistakes ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda x, y: loss(x, y, "vocab"), AxisNotFoundError, "softmax_cross_entropy: no axis 'vocab' in f32[]{t:4, v:8}"),
        (lambda x, y: loss(x, y, ("t", "v")), PositionalAxisError, "axis=('t', 'v') must be one positional or named axis"),
        (lambda x, y: loss(nx.zeros(named_shape={"k": 0}), y, "k"), AxisSizeError, "'k' of f32[]{k:0} has size 0"),
        (lambda x, y: loss(x, y["t", :3], "v"), AxisSizeError, "axis 't' has size 4 in operand 0"),
        (lambda x, y: loss(x, y), PositionalAxisError, "axis=-1 is a position, but f32[]{t:4, v:8} has only named axes"),
        (lambda x, y: loss(x, nx.nn.one_hot(y, 8, axis="v").astype(int), "v"), AxisNameError, "write nx.argmax(labels, 'v')"),
        (
            lambda x, y: loss(x, x, "v"),
            ArgumentTypeError,
            "the labels must be integers (indices of classes), got f32[]{t:4, v:8}",
        ),
        (lambda x, y: loss(x, y, "v", where=y), ArgumentTypeError, "where is i32[]{t:4}, but it must be boolean"),
        (lambda x, y: loss(x * 1j, y, "v"), ArgumentTypeError, "the logits c64[]{t:4, v:8} are complex"),
        (lambda x, y: loss(x, y, "v", z_loss=-1), ArgumentError, "z_loss must be at least 0, got -1."),
        (
            lambda x, y: loss(x, y, "v", label_smoothing=1),
            ArgumentError,
            "label_smoothing must be at least 0 and",
        ),
        (lambda x, y: loss(x, y, "v", z_loss=jnp.ones(())), ArgumentTypeError, "must be a static number"),
    ],
)
def test_mistakes(call, error, words):
    with pytest.raises(error) as raised:
        call(nx.named(array(4, 8).astype(jnp.float32), ["t", "v"]), nx.named(make.arange(4, dtype=jnp.int32), ["t"]))
    assert words in str(raised.value), raised.value


def test_tokens_on_the_mesh_axis_of_the_classes():
    f = mapped(lambda x, y: loss(x, y, "v"), (["v"], ["t"]), ["t"], {"v": "x", "t": "x"})
    with pytest.raises(PlacementConflictError, match=r"axes 'v' and 't' meet in one value.*mapped to mesh axis 'x'"):
        f(array(8), make.arange(4))
