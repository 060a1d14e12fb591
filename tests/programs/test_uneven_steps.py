"""Law 2 where the steps of a loop in time do not divide a size: the last step is short, and values and gradients are the same.

The oracles are `jnp`'s; the programs are those of the loops whose steps divide.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import namedax as nx
from namedax import SerialLoop
from namedax.hlo import collectives, summary
from tests import make
from tests.harness import Placement, array, check, make_mesh, said, together
from tests.programs.test_serial_loop import PROGRAMS, W, X, by_hand, operands, train_step
from tests.resources.test_uneven import EDGES, EVERY, A

LOOP = SerialLoop
# Of `a`, 8, steps of 3, 3, 2; of 2 four times and one that is empty; on two devices blocks of 6, 2 and steps of 2, the last empty.
SHORT = [
    Placement("short", None, (("a", LOOP(3)),)),
    Placement("devices", (2, 2), (("a", ("x", LOOP(3))), ("b", "y")), "explicit"),
    Placement("empty", None, (("a", LOOP(5)),)),
    Placement("one-each", None, (("a", LOOP(9)),)),
    Placement("two-loops", (4, 2), (("a", ("x", LOOP(3))), ("b", ("y", LOOP(4))))),
    Placement("nested", None, (("a", LOOP(3)), ("b", LOOP(3)))),
    Placement("beside", (3, 2), (("a", LOOP(3)), ("b", "x"))),
    Placement("uneven-devices", (3,), (("a", ("x", LOOP(2))),), "explicit"),
]


@pytest.mark.fast(1)
@pytest.mark.full(1)
@pytest.mark.parametrize(
    "placement", [SHORT[0], *(pytest.param(placement, marks=pytest.mark.fast(0)) for placement in SHORT[1:])], ids=str
)
def test_programs(placement):
    smooth = {name: program for name, program in PROGRAMS.items() if name not in ("argmax", "any")}
    named, oracle, out = together(smooth)
    check(named, oracle, [X, W], (["a", "b", "c"], ["c", "d"]), out, placement, tol=5e-5)


# What moves entries along the axis cannot be done in steps, whether they divide or not.
MOVES = (
    "rope",
    "sort",
    "roll",
    "median",
    "convolve",
    "trapezoid",
    "gradient",
    "rev",
    "fft",
    "ifft",
    "unwrap",
    "flip",
    "split",
    "search",
)


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize("smooth", [True, False])
@pytest.mark.parametrize("placement", [SHORT[0], SHORT[-1]], ids=str)
def test_every_operation(placement, smooth):
    known = {label: p[:3] for label, p in EVERY.items() if p[3] == smooth and not label.startswith(MOVES)}
    named, plain, out_axes = together(known)
    check(named, plain, (A,), (["a", "b", None],), out_axes, placement, grad=smooth, tol=1e-4)


# --- a training step ------------------------------------------------------------------------------------------------


@pytest.mark.fast(1)
@pytest.mark.full(1)
@pytest.mark.parametrize("where", ["outside", pytest.param("inside", marks=pytest.mark.fast(0))])
@pytest.mark.parametrize("base", [(), pytest.param(("x",), marks=pytest.mark.fast(0)), ("x", "y")], ids=str)
@pytest.mark.parametrize("count", [10, pytest.param(509, marks=pytest.mark.fast(0))])
def test_gradient_accumulation(base, where, count):
    mesh = make_mesh((4, 2)) if base else None
    w1, w2, x, y = operands()
    args = w1, w2, x[:count], y[:count]
    want, want_grads = jax.value_and_grad(by_hand, argnums=(0, 1))(*args)
    even = train_step({"batch": (*base, LOOP(4))}, where, mesh).lower(w1, w2, x, y).compile()
    steps = train_step({"batch": (*base, LOOP(4))}, where, mesh).lower(*args).compile()
    loss, grads = steps(*args)
    np.testing.assert_allclose(loss, want, rtol=1e-5)
    for have, grad in zip(grads, want_grads, strict=True):
        np.testing.assert_allclose(have, grad, rtol=1e-4, atol=1e-6)
    assert summary(steps) == summary(even)  # one gradient all-reduce after the loop: examples that arrive whole are cut
    assert not any(found.in_loop for found in collectives(steps))


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize("keep", ["parts", "whole"])
def test_parameters_in_parts(keep):
    def loss(w, x):
        return nx.mean(nx.einsum("{b,k},{k:k_fsdp,m}->{b,m}", nx.tanh(x), w) ** 2, ("b", "m"))

    w, x = array(8, 6), array(14, 8)
    options = {"axis_resources": {"b": ("x", LOOP(4, keep=keep)), "k_fsdp": "x"}, "mesh": make_mesh((4, 2))}
    f = nx.xmap(loss, (["k_fsdp", "m"], ["b", "k"]), [], **options)
    want = jax.grad(lambda w, x: jnp.mean((jnp.tanh(x) @ w) ** 2), (0, 1))(w, x)
    for have, grad in zip(jax.grad(f, (0, 1))(w, x), want, strict=True):
        np.testing.assert_allclose(have, grad, rtol=1e-4, atol=1e-6)


@pytest.mark.fast(0)
def test_second_derivatives_and_examples_that_arrive_in_parts():
    x, w = array(12, 3), array(3, 4, seed=2)
    mesh = make_mesh((4,))
    f = nx.xmap(
        lambda w, x: nx.logsumexp(nx.sum(nx.tanh(nx.dot(x, w, "k")), "m"), "b"),
        (["k", "m"], ["b", "k"]),
        [],
        axis_resources={"b": ("x", LOOP(2))},
        mesh=mesh,
    )

    def plain(w, x):
        return jax.nn.logsumexp(jnp.tanh(x @ w).sum(1))

    def second(f):
        return jax.grad(lambda w, x: (jax.grad(f)(w, x) ** 2).sum(), (0, 1))

    placed = jax.device_put(x, jax.NamedSharding(mesh, jax.P("x")))
    for have, grad in zip(jax.jit(second(f))(w, placed), jax.jit(second(plain))(w, x), strict=True):
        np.testing.assert_allclose(have, grad, rtol=1e-4, atol=1e-6)


def test_memory_is_that_of_a_step():
    def temporaries(resources):
        f = nx.xmap(
            lambda x, w: nx.mean(nx.sum(nx.tanh(nx.dot(nx.tanh(nx.dot(x, w, "k")), w, "m")) ** 2, "k"), "batch"),
            (["batch", "k"], ["k", "m"]),
            [],
            axis_resources=resources,
        )
        shapes = jax.ShapeDtypeStruct((4090, 8), jnp.float32), jax.ShapeDtypeStruct((8, 128), jnp.float32)
        return jax.jit(jax.grad(f, argnums=1)).lower(*shapes).compile().memory_analysis().temp_size_in_bytes

    assert temporaries({"batch": LOOP(16)}) < 1.25 * temporaries({}) / 16 + 4096 * 8 * 4  # and the examples with padding


# --- what padding must not do ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "label", ["log", *(pytest.param(label, marks=pytest.mark.fast(0)) for label in EDGES if label != "log")]
)
def test_slopes_that_are_infinite_at_zero(label):
    function = EDGES[label]
    x, w = make.array(np.arange(2.0, 12.0)), make.array(np.float32(0.75))

    def named(x, w):
        return nx.sum(nx.nmap(function)(x, w), "a") + nx.sum(w / (10 - nx.arange(axis="a")) + 0 * x, "a")

    def plain(x, w):
        return function(x, w).sum() + (w / (10 - jnp.arange(10.0)) + 0 * x).sum()

    check(named, plain, (x, w), (["a"], []), [], Placement("four", None, (("a", LOOP(4)),)))


@pytest.mark.fast(0)
def test_real_entries_that_are_not_finite():
    x = make.array([1.0, np.inf, 3.0, np.nan, 5.0, 6.0, 7.0])
    f = nx.xmap(
        lambda x: (nx.sum(x, "a"), nx.sum(nx.where(x > 2, x, 0.0), "a"), nx.max(x, "a")),
        ["a"],
        [],
        axis_resources={"a": LOOP(3)},
    )

    def finite(x):
        return jnp.sum(jnp.where(x > 2, x, 0.0))

    for have, want in zip(f(x), (jnp.sum(x), finite(x), jnp.max(x)), strict=True):
        np.testing.assert_array_equal(have, want)
    np.testing.assert_array_equal(jax.grad(lambda x: f(x)[1])(x), jax.grad(finite)(x))


def test_operations_without_support_for_padding_raise():
    f = nx.xmap(
        lambda x: nx.split_axis(x, "a", {"p": 5, "q": 2}),
        ["a"],
        ["p", "q"],
        axis_resources={"a": ("x", LOOP(2))},
        mesh=make_mesh((2,)),
    )
    with pytest.raises(nx.errors.UnevenAxisError) as caught:
        f(array(10))
    assert said(caught.value) == (
        "nx.split_axis{a,p,q}: axis 'a' of size 10 does not divide over mesh axes ('x', \"SerialLoop(2) of 'a'\"), 4 blocks in total, so the "
        "last blocks, of size 3, contain padding, and this operation does not support padded axes. Use a size that divides, "
        "such as 8 or 12, or map 'a' to fewer devices or steps in axis_resources."
    )
