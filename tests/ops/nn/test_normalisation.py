"""Norms and dropout by name, in every placement."""

from __future__ import annotations

import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import PartitionSpec as P

import namedax as nx
from namedax import hlo
from namedax.nn import Moments
from tests import make
from tests.harness import PARTITIONER, PLACEMENTS, array, check, make_mesh, said, together

E = nx.errors


def normal(x, axes, where=None, eps=1e-5):
    mean = jnp.mean(x, axes, keepdims=True, where=where)
    return (x - mean) / jnp.sqrt(jnp.var(x, axes, keepdims=True, where=where) + eps)


def rms(x, axes, where=None, eps=1e-6):
    return x / jnp.sqrt(jnp.mean(x * x, axes, keepdims=True, where=where) + eps)


# x is {b, a}[3], s and t are {a}, m is a mask {a}; label: (named, positional, out_axes)
WHOLE = ["b", "a", None]
PROGRAM = {
    "layer_norm": (
        lambda x, s, t, m: nx.nn.layer_norm(x, "a", scale=s, bias=t),
        lambda x, s, t, m: normal(x, 1) * s[:, None] + t[:, None],
        WHOLE,
    ),
    "layer_norm of names and a position": (
        lambda x, s, t, m: nx.nn.layer_norm(x, ("a", -1, "b"), epsilon=0.1),
        lambda x, s, t, m: normal(x, (0, 1, 2), eps=0.1),
        WHOLE,
    ),
    "layer_norm where": (
        lambda x, s, t, m: nx.nn.layer_norm(x, ("a",), where=m, bias=t),
        lambda x, s, t, m: normal(x, 1, m[None, :, None]) + t[:, None],
        WHOLE,
    ),
    "layer_norm of a position": (lambda x, s, t, m: nx.nn.layer_norm(x, 0), lambda x, s, t, m: normal(x, 2), WHOLE),
    "rms_norm": (lambda x, s, t, m: nx.nn.rms_norm(x, "a", scale=s), lambda x, s, t, m: rms(x, 1) * s[:, None], WHOLE),
    "rms_norm where": (
        lambda x, s, t, m: nx.nn.rms_norm(x, ["b", "a"], where=m, epsilon=0.1),
        lambda x, s, t, m: rms(x, (0, 1), m[None, :, None], 0.1),
        WHOLE,
    ),
    "standardize": (lambda x, s, t, m: nx.nn.standardize(x, "a"), lambda x, s, t, m: jax.nn.standardize(x, 1), WHOLE),
    "standardize stable": (
        lambda x, s, t, m: nx.nn.standardize(x, ("a", 0), where=m, algorithm="stable"),
        lambda x, s, t, m: jax.nn.standardize(x, (1, 2), where=m[None, :, None], algorithm="stable"),
        WHOLE,
    ),
    "standardize by a mean": (
        lambda x, s, t, m: nx.nn.standardize(x, "b", s, epsilon=0.3),
        lambda x, s, t, m: jax.nn.standardize(x, 0, s[:, None], epsilon=0.3),
        WHOLE,
    ),
    "standardize by a variance": (
        lambda x, s, t, m: nx.nn.standardize(x, "a", variance=t * t, where=m, algorithm="stable"),
        lambda x, s, t, m: jax.nn.standardize(x, 1, variance=(t * t)[:, None], where=m[None, :, None], algorithm="stable"),
        WHOLE,
    ),
    "batch_norm": (
        lambda x, s, t, m: tuple(jax.tree.leaves(nx.nn.batch_norm(x, ("b", 0), scale=s, bias=t), is_leaf=nx_leaf)),
        lambda x, s, t, m: (
            normal(x, (0, 2)) * s[:, None] + t[:, None],
            jnp.mean(x, (0, 2)),
            jnp.var(x, (0, 2)),
        ),
        (WHOLE, ["a"], ["a"]),
    ),
    "batch_norm where": (
        lambda x, s, t, m: tuple(jax.tree.leaves(nx.nn.batch_norm(x, "a", where=m), is_leaf=nx_leaf)),
        lambda x, s, t, m: (
            normal(x, 1, m[None, :, None]),
            jnp.mean(x, 1, where=m[None, :, None]),
            jnp.var(x, 1, where=m[None, :, None]),
        ),
        (WHOLE, ["b", None], ["b", None]),
    ),
    "batch_norm by moments": (
        lambda x, s, t, m: nx.nn.batch_norm(x, "b", mean=s, var=t * t, scale=t)[0],
        lambda x, s, t, m: (x - s[:, None]) / jnp.sqrt((t * t)[:, None] + 1e-5) * t[:, None],
        WHOLE,
    ),
    "moments": (
        lambda x, s, t, m: tuple(nx.nn.moments(x, ("a", 0), where=m)),
        lambda x, s, t, m: (
            jnp.mean(x, (1, 2), where=m[None, :, None]),
            jnp.var(x, (1, 2), where=m[None, :, None]),
        ),
        (["b"], ["b"]),
    ),
}
TOGETHER = together(PROGRAM)


def nx_leaf(x):
    return isinstance(x, nx.NamedArray)


ARGS = (
    make.array(np.asarray(array(4, 8, 3)) + 2),
    array(8, seed=1),
    make.array(1.5 + np.asarray(array(8, seed=2)) ** 2),
    make.array([1, 0, 1, 1, 0, 1, 1, 0], bool),
)


SOME = [p for p in PLACEMENTS if str(p) in ("unmapped-auto", "one-each-auto", "both-explicit", "two-reversed-auto")]


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize("placement", [*SOME, PARTITIONER[3]], ids=str)
def test_placements(placement):
    named, plain, out_axes = TOGETHER
    axes = (["b", "a", None], ["a"], ["a"], ["a"])
    check(named, plain, ARGS, axes, out_axes, placement, grad=placement in SOME[::2] or placement in SOME[-1:], tol=5e-5)


# --- what is sent ---------------------------------------------------------------------------------------------------

MESH = make_mesh((4, 2))
X = make.asarray(np.random.default_rng(0).normal(size=(16, 24)), jnp.float32)


def by_hand(kind):
    """The layer norm over columns that are spread over four devices, with a gradient by hand."""

    @jax.custom_vjp
    def norm(x):
        return forward(x)[0]

    def forward(x):
        mean = lax.psum(jnp.sum(x, 1, keepdims=True), "x") / 24 if kind == "layer" else 0.0
        y = (x - mean) if kind == "layer" else x
        factor = lax.rsqrt(lax.psum(jnp.sum(y * y, 1, keepdims=True), "x") / 24 + 1e-5)
        return y * factor, (y * factor, factor)

    def backward(saved, g):
        y, factor = saved
        sums = [jnp.sum(g * y, 1), *([jnp.sum(g, 1)] if kind == "layer" else [])]
        total = lax.psum(jnp.stack(sums), "x")[..., None] / 24
        return (factor * (g - y * total[0] - (total[1] if kind == "layer" else 0)),)

    norm.defvjp(forward, backward)
    return jax.shard_map(norm, mesh=MESH, in_specs=P(None, "x"), out_specs=P(None, "x"))


FLOATS = 4 * 16
NORMS = {
    "layer": (lambda x: nx.nn.layer_norm(x, "k"), 2),
    "rms": (lambda x: nx.nn.rms_norm(x, "k", epsilon=1e-5), 1),
}


@pytest.mark.parametrize("kind", NORMS)
def test_as_by_hand(kind):
    body, forwards = NORMS[kind]
    f, hand = nx.xmap(body, ["n", "k"], ["n", "k"], axis_resources={"k": "x"}, mesh=MESH), by_hand(kind)
    weights = jnp.cos(make.arange(24.0))

    def sent(f, of_gradient):
        step = jax.grad(lambda x: jnp.sum(jnp.sin(f(x)) * weights)) if of_gradient else f
        place = jax.NamedSharding(MESH, P(None, "x"))
        shape = jax.ShapeDtypeStruct(X.shape, X.dtype, sharding=place)
        return hlo.summary(jax.jit(step, out_shardings=place).lower(shape).compile())

    assert sent(f, False) == sent(hand, False) == {"all-reduce": (forwards, forwards * FLOATS)}
    assert sent(f, True) == sent(hand, True) == {"all-reduce": (forwards + 1, 2 * forwards * FLOATS)}


def elsewhere(x):
    x = nx.nn.rms_norm(nx.nn.layer_norm(x, "n"), "n")
    x = nx.nn.standardize(nx.nn.batch_norm(x, "n", scale=2.0)[0], "n")
    return nx.nn.dropout(x, jax.random.key(0), 0.5)


@pytest.mark.full(3)
@pytest.mark.fast(0)
@pytest.mark.parametrize(
    ("body", "forwards", "whole"),
    [
        (lambda x: nx.nn.standardize(x, "k"), (1, 2), (2, 4)),
        (lambda x: nx.nn.standardize(x, "k", algorithm="stable"), (2, 2), (3, 4)),
        (lambda x: nx.nn.layer_norm(x, "k", where=x > 0), (2, 3), (3, 5)),
        (lambda x: nx.nn.rms_norm(x, "k", where=x > 0), (1, 2), (2, 3)),
        (lambda x: nx.nn.batch_norm(x, "k")[0], (2, 2), (3, 4)),
        (lambda x: x * nx.nn.moments(x, "k").var, (2, 2), (3, 3)),  # the third is the gradient of the product
        (elsewhere, None, None),
    ],
)
def test_all_reduces(body, forwards, whole):
    """Their number, and their size as a multiple of the statistics."""
    f = nx.xmap(body, ["n", "k"], ["n", "k"], axis_resources={"k": "x"}, mesh=MESH)
    unit = FLOATS if forwards else 0

    def sent(f):
        place = jax.NamedSharding(MESH, P(None, "x"))
        shape = jax.ShapeDtypeStruct(X.shape, X.dtype, sharding=place)
        return hlo.summary(jax.jit(f, out_shardings=place).lower(shape).compile())

    def wanted(figures):
        return {} if figures is None else {"all-reduce": (figures[0], figures[1] * unit)}

    assert sent(f) == wanted(forwards)
    assert sent(jax.grad(lambda x: jnp.sum(jnp.sin(f(x))))) == wanted(whole)


def test_the_gradient_of_moments_sends_nothing():
    def body(x):
        return nx.sum(nx.nn.moments(x, "k").var * nx.nn.moments(x, "k").mean, "n")

    f = nx.xmap(jax.grad(body), ["n", "k"], ["n", "k"], axis_resources={"k": "x"}, mesh=MESH)
    count, size = hlo.summary(jax.jit(f).lower(X).compile())["all-reduce"]
    assert count <= 4
    assert size <= 4 * FLOATS  # mean and squares, of two calls
    want = jax.jit(jax.grad(lambda x: jnp.sum(jnp.var(x, 1) * jnp.mean(x, 1))))(X)
    np.testing.assert_allclose(f(X), want, rtol=1e-4, atol=1e-5)


# --- numbers --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("resources", [{}, {"k": "x"}], ids=str)
def test_a_large_mean_leaves_the_variance_what_it_is(resources):
    x = X[:4] + 10_000
    f = nx.xmap(
        lambda x: (nx.nn.layer_norm(x, "k"), nx.nn.batch_norm(x, "k")[0], nx.nn.moments(x, "k").var),
        ["n", "k"],
        (["n", "k"], ["n", "k"], ["n"]),
        axis_resources=resources,
        mesh=MESH if resources else None,
    )
    x64 = np.asarray(x, np.float64)
    want = (x64 - x64.mean(1, keepdims=True)) / np.sqrt(x64.var(1, keepdims=True) + 1e-5)
    layer, batch, var = f(x)
    np.testing.assert_allclose(layer, want, atol=5e-3)
    np.testing.assert_allclose(batch, want, atol=5e-3)
    np.testing.assert_allclose(var, x64.var(1), rtol=5e-3)


@pytest.mark.full(3)
@pytest.mark.fast(0)
@pytest.mark.parametrize(
    ("dtype", "resources"), [(jnp.bfloat16, {"k": "x"}), (jnp.float16, {}), (jnp.float16, {"k": "x"}), (jnp.int32, {})]
)
def test_types(dtype, resources):
    x = (100 * X).astype(dtype)  # whose squares add up to more than float16 has
    scale = jnp.full(24, 1.5, jnp.float32)

    def body(x, s):
        values, found = nx.nn.batch_norm(x, "k", scale=s)
        return nx.nn.layer_norm(x, "k", scale=s), nx.nn.rms_norm(x, "k"), nx.nn.standardize(x, "k"), values, found

    mesh = MESH if resources else None
    out = (*(["n", "k"],) * 4, Moments(["n"], ["n"]))
    *values, found = nx.xmap(body, (["n", "k"], ["k"]), out, axis_resources=resources, mesh=mesh)(x, scale)
    wide = x.astype(jnp.promote_types(jnp.mean(x).dtype, jnp.float32))
    wants = (1.5 * normal(wide, 1), rms(wide, 1), normal(wide, 1), 1.5 * normal(wide, 1))
    for have, want in zip(values, wants, strict=True):
        assert have.dtype == jnp.mean(x).dtype
        np.testing.assert_allclose(have.astype(wide.dtype), want, rtol=0.01, atol=0.01)
    assert found.mean.dtype == found.var.dtype == wide.dtype
    np.testing.assert_allclose(found.var, jnp.var(wide, 1), rtol=1e-4)


def test_arrays_without_names():
    np.testing.assert_allclose(nx.nn.layer_norm(X, -1, scale=jnp.arange(24.0)), normal(X, 1) * jnp.arange(24.0), atol=1e-4)
    np.testing.assert_allclose(nx.nn.standardize(X), jax.nn.standardize(X), atol=1e-5)
    np.testing.assert_allclose(
        nx.nn.standardize(X, None, epsilon=jnp.float32(0.1)), jax.nn.standardize(X, None, epsilon=0.1), atol=1e-5
    )
    values, found = nx.nn.batch_norm(X, 0)
    np.testing.assert_allclose(values, normal(X, 0), atol=1e-5)
    assert found.mean.shape == (24,)


@pytest.mark.fast(0)
def test_what_the_group_norm_of_the_documentation_is():
    grouped = nx.rearrange(nx.named(X, ["n", "k"]), "{n, k=(groups each)} -> {n, groups, each}", groups=4)
    want = normal(X.reshape(16, 4, 6), 2).reshape(16, 24)
    have = nx.rearrange(nx.nn.layer_norm(grouped, "each"), "{n, groups, each} -> {n, k=(groups each)}")
    np.testing.assert_allclose(nx.positional(have, ["n", "k"]), want, rtol=1e-4, atol=1e-5)


@pytest.mark.fast(0)
def test_second_derivatives():
    f = nx.xmap(lambda x: nx.nn.layer_norm(x, "k"), ["n", "k"], ["n", "k"], axis_resources={"k": "x"}, mesh=MESH)
    t = jnp.cos(X)

    def twice(f):
        return jax.jit(lambda x: jax.jvp(jax.grad(lambda x: jnp.sum(f(x) ** 3)), (x,), (t,))[1])(X)

    np.testing.assert_allclose(twice(f), twice(lambda x: normal(x, 1)), rtol=1e-3, atol=1e-4)


def test_moving_averages():
    now = Moments(nx.named(make.array([2.0, 3.0]), ["k"]), nx.named(make.array([4.0, 5.0]), ["k"]))
    average = nx.nn.update_moments(Moments(0.0, 1.0), now, momentum=0.75)
    assert nx.positional(average.mean, ["k"]).tolist() == [0.5, 0.75]
    assert nx.positional(average.var, ["k"]).tolist() == [1.75, 2.0]
    slope = jax.grad(lambda m: nx.nn.update_moments(Moments(0.0, 1.0), Moments(m, m))[0])(3.0)
    assert slope == 0
    assert pickle.loads(pickle.dumps(Moments(1.0, 2.0))) == Moments(1.0, 2.0)


# --- dropout --------------------------------------------------------------------------------------------------------


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize("placement", [SOME[0], SOME[1], SOME[3]], ids=str)
def test_dropout_in_every_placement(placement):
    key = jax.random.key(3)

    def named(x, rate):
        keys = nx.random.split(key, named_shape={"b": 4})
        return (
            nx.nn.dropout(x, key, 0.25),
            nx.nn.dropout(x, key, rate, shared=("b",)),
            nx.nn.dropout(x, key, 0.5, shared=("a", 0)),
            nx.nn.dropout(x, keys, 0.5),
        )

    def oracle(x, rate):  # x is {a, b}[3]; the draw has the names in alphabetical order
        def kept(rate, shape, key=key):
            return jax.random.bernoulli(key, 1 - jnp.float32(rate), shape)

        each = jnp.stack([kept(0.5, (8, 3), k) for k in jax.random.split(key, 4)], 1)
        return (
            jnp.where(kept(0.25, (8, 4, 3)), x / 0.75, 0),
            jnp.where(
                jax.random.uniform(key, (8, 3), jnp.float32) < 1 - rate[:, None], x.transpose(1, 0, 2) / (1 - rate[:, None]), 0
            ),
            jnp.where(kept(0.5, (4, 1)), x / 0.5, 0),
            jnp.where(each, x / 0.5, 0),
        )

    args = array(8, 4, 3), jnp.linspace(0.1, 0.8, 8)
    whole = ["a", "b", None]
    check(
        named,
        jax.jit(oracle),
        args,
        (whole, ["a"]),
        (whole, ["b", "a", None], whole, whole),
        placement,
        grad="one-each" in str(placement),
    )


def test_dropout_keeps_its_part_and_its_type():
    assert nx.nn.dropout(NAMED, KEY, 0) is nx.nn.dropout(NAMED, KEY, 0.7, deterministic=True) is NAMED
    x = nx.named(make.ones((100, 100), jnp.bfloat16).at[0, 0].set(jnp.inf), ["b", "c"])
    y = nx.nn.dropout(x, jax.random.key(1), 0.3)
    assert y.dtype == jnp.bfloat16
    data = np.asarray(y.data.astype(jnp.float32))
    assert not np.any(np.isnan(data))
    assert 0.68 < np.mean(data != 0) < 0.72
    swapped = nx.nn.dropout(nx.named(x.data.T, ["c", "b"]), jax.random.key(1), 0.3)
    np.testing.assert_array_equal(swapped.data.T.astype(jnp.float32), data)


# --- mistakes -------------------------------------------------------------------------------------------------------

NAMED = nx.named(array(4, 8), ["b", "a"])
KEY = make.key(0)


def weights(*names, n=8):
    return nx.named(jnp.ones((3,) * (len(names) - 1) + (n,)), list(names))


MISNAMED = {
    "a scale": (lambda x, w: nx.nn.rms_norm(x, "embed", scale=w), "rms_norm: scale, ", ("embd",)),
    "a bias": (lambda x, w: nx.nn.layer_norm(x, "embed", scale=2.0, bias=w), "layer_norm: bias, ", ("embd",)),
    "one of two axes": (lambda x, w: nx.nn.layer_norm(x, "embed", scale=w), "layer_norm: scale, ", ("member", "embd")),
    "no axis in common": (lambda x, w: nx.nn.rms_norm(x, "embed", scale=w), "rms_norm: scale, ", ("width",)),
    "in training": (lambda x, w: nx.nn.batch_norm(x, "batch", scale=w), "batch_norm: scale, ", ("embd",)),
    "in inference": (lambda x, w: nx.nn.batch_norm(x, "batch", mean=w, var=w), "batch_norm: mean, ", ("embd",)),
    "a given variance": (lambda x, w: nx.nn.standardize(x, "embed", variance=w), "standardize: variance, ", ("embd",)),
}


@pytest.mark.parametrize("case", MISNAMED)
def test_a_parameter_that_looks_misnamed_is_refused(case):
    call, start, names = MISNAMED[case]
    x, w = nx.named(array(4, 8), ["batch", "embed"]), weights(*names)
    mapped = nx.xmap(lambda x: call(x, w), axis_resources={"batch": "x"}, mesh=make_mesh((2,)))
    for run in (lambda x: call(x, w), mapped):
        with pytest.raises(E.AxisNotFoundError) as raised:
            run(x)
        text = said(raised.value)
        assert text.startswith(start), text
        assert f"has the axis {names[0]!r}, which" in text, text
        assert ("Did you mean 'embed'?" in text) == ("embd" in names), text


def test_a_parameter_may_have_an_axis_of_its_own():
    x, w = nx.named(array(4, 8), ["batch", "embed"]), nx.named(array(3, 8, seed=1), ["member", "embed"])
    values = nx.nn.layer_norm(x, "embed", scale=w, bias=w)
    for i in range(3):
        one = nx.nn.layer_norm(x, "embed", scale=w["member", i], bias=w["member", i])
        np.testing.assert_allclose(values["member", i].data, nx.order_like(one, values["member", i]).data, rtol=1e-5)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: nx.nn.layer_norm(NAMED, "k"), E.AxisNotFoundError, ["layer_norm: no axis 'k'", "'b', 'a'"]),
        (lambda: nx.nn.rms_norm(NAMED, 0), E.PositionalAxisError, ["rms_norm: axis=0 is a position"]),
        (lambda: nx.nn.standardize(NAMED), E.PositionalAxisError, ["standardize: axis=-1 is a position"]),
        (lambda: nx.nn.standardize(NAMED, "a", algorithm="slow"), ValueError, ["got 'slow'", "'fast' or 'stable'"]),
        (lambda: nx.nn.batch_norm(NAMED, ("b", "b")), E.PositionalAxisError, ["batch_norm: axis 'b' is given twice"]),
        (lambda: nx.nn.batch_norm(NAMED, "b", mean=0.0), ValueError, ["batch_norm: mean= and var= must be passed together"]),
        (lambda: nx.nn.batch_norm(NAMED, "k", mean=0.0, var=1.0), E.AxisNotFoundError, ["batch_norm: no axis 'k'"]),
        (lambda: nx.nn.moments(NAMED, "k"), E.AxisNotFoundError, ["moments: no axis 'k'"]),
        (lambda: nx.nn.layer_norm(NAMED + 1j, "a"), TypeError, ["layer_norm", "c64", "is complex"]),
        (
            lambda: nx.nn.layer_norm(NAMED, "a", epsilon=jnp.ones(())),
            TypeError,
            ["layer_norm: epsilon", "must be a static number"],
        ),
        (
            lambda: nx.nn.layer_norm(NAMED, "a", scale=nx.named(jnp.ones(7), ["a"])),
            E.AxisSizeError,
            ["layer_norm: axis 'a' has size 8"],
        ),
        (
            lambda: nx.nn.dropout(NAMED, KEY, 1),
            ValueError,
            ["dropout: rate, the probability of a zero, must be at least 0 and less than 1, got 1"],
        ),
        (lambda: nx.nn.dropout(NAMED, KEY, -0.5), ValueError, ["dropout: rate,", "got -0.5"]),
        (
            lambda: nx.nn.dropout(NAMED, KEY, 0.5, shared="k"),
            E.AxisNotFoundError,
            ["dropout: no axis 'k'", "shared= names axes of"],
        ),
        (
            lambda: nx.nn.dropout(NAMED, KEY, 0.5, shared=0),
            E.PositionalAxisError,
            ["dropout: shared has the positional axis 0"],
        ),
        (lambda: nx.nn.dropout(NAMED > 0, KEY, 0.5), TypeError, ["dropout: x must be floating-point, got bool[]{b:4, a:8}"]),
    ],
)
def test_mistakes(call, error, words):
    with pytest.raises(error) as raised:
        call()
    text = str(raised.value).replace("c128", "c64").replace("f64", "f32")
    assert all(word in text for word in words), text
