"""`nx.testing`: the check that finds what namedax cannot see. It passes right programs, and says of wrong ones what is wrong."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import namedax as nx
from namedax.errors import ArgumentError
from tests import make
from tests.harness import array, make_mesh

check = nx.testing.assert_resources_do_not_matter


def message(*args, **options):
    with pytest.raises(AssertionError) as raised:
        check(*args, **options)
    return str(raised.value)


def model(params, x, *, scale=1.0):
    h = nx.tanh(nx.dot(x, params["w"], "k")) * scale
    return {"loss": nx.mean(nx.square(nx.max(h, "h")), "b"), "h": h, "best": nx.argmax(h, "h")}


PARAMS = {"w": array(3, 4)}
IN = ({"w": ["k", "h"]}, ["b", "k"])
OUT = {"loss": [], "h": ["h", "b"], "best": ["b"]}


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize(
    "resources", [{"b": "x"}, {"b": "x", "h": "y"}, {"b": ("x", nx.SerialLoop(2)), "h": "y"}, {"b": nx.SerialLoop(2)}], ids=str
)
def test_right_programs_pass(resources):
    options = {"axis_resources": resources, "mesh": make_mesh((4, 2))}
    check(lambda p, x: model(p, x), PARAMS, array(8, 3), in_axes=IN, out_axes=OUT, **options)
    mapped = nx.xmap(lambda p, x: model(p, x), IN, OUT, **options)
    check(mapped, PARAMS, array(8, 3))
    named = {"w": nx.named(array(3, 4), ["k", "h"])}, nx.named(array(8, 3), ["b", "k"])
    check(model, *named, **options)


@pytest.mark.fast(0)
def test_mapped_functions_keep_their_options_and_static_arguments():
    f = nx.xmap(
        lambda n, x: nx.lax.psum(1, "b") * x**n,
        (["b"],),
        ["b"],
        axis_resources={"b": "x"},
        mesh=make_mesh((4, 2)),
        static_argnums=0,
    )
    check(f, 2, array(8))
    check(f, 2, array(8), axis_resources={"b": ("y", "x")})
    key = jax.random.key(0)
    check(lambda k: nx.random.split(k, named_shape={"b": 8}), key, axis_resources={"b": "x"}, mesh=make_mesh((8,)))
    check(lambda x: {"n": nx.sum(x, "b")}, nx.named(make.arange(8), ["b"]), axis_resources={"b": "x"}, mesh=make_mesh((8,)))
    with pytest.raises(ArgumentError, match="axis_resources are missing"):
        check(lambda x: x, array(8))


def test_a_result_of_blocks_is_found_and_described():
    x = make.arange(8.0) + 1
    words = message(
        lambda x: {"y": jax.tree.map(lambda a: a + 8 // a.size, x), "z": x},
        x,
        in_axes=["b"],
        axis_resources={"b": "x"},
        mesh=make_mesh((4, 2)),
        grad=False,
    )
    assert "of <lambda> depend on axis_resources={'b': 'x'}." in words
    assert "the result['y'], f32[]{b:8}" in words
    assert "nothing mapped and mapped: 8 of 8 elements differ, by 3, 1.5 relative at most" in words
    assert "at {'b': 0} they are 2 and 5" in words
    assert 'nothing mapped and partitioning="auto": agree' in words
    assert "computes with raw leaves" in words
    assert "the result['z']" not in words


@pytest.mark.fast(0)
def test_a_gradient_alone_is_found():
    @jax.custom_vjp
    def halved(x):
        return x

    # A rule that takes the size of the block for that of the axis.
    halved.defvjp(lambda x: (x, None), lambda _, ct: (jax.tree.map(lambda c: 4 * c / c.size, ct),))
    options = {"axis_resources": {"b": "x"}, "mesh": make_mesh((4, 2))}

    def f(params, x):
        return nx.sum(halved(x) * params["w"], "b")

    args = {"w": jnp.asarray(2.0)}, nx.named(make.ones(8), ["b"])
    words = message(f, *args, **options)
    assert "the gradient of argument 'x', f32[]{b:8}" in words
    assert "the result" not in words.split("Likely")[0]
    assert "All elements of an array are wrong by a factor of 4 (the mesh is {'x': 4, 'y': 2})" in words
    check(f, *args, grad=False, **options)


def test_types_and_errors_of_one_form():
    options = {"axis_resources": {"b": "x"}, "mesh": make_mesh((4, 2))}

    def f(x):
        if nx.named(jnp.zeros(8), ["b"]).data.shape != (8,):
            raise RuntimeError("blocks")
        return x

    with pytest.raises(RuntimeError, match="blocks") as raised:
        check(f, nx.named(make.ones(8), ["b"]), **options)
    assert any("ran the function with mapped" in note for note in raised.value.__notes__)

    def g(x):
        wide = nx.named(jnp.zeros(8), ["b"]).data.shape == (8,)
        return x if wide else x.astype(jnp.bfloat16)

    words = message(g, nx.named(make.arange(8.0), ["b"]), grad=False, **options)
    assert "of the types f32[]{b:8} and bf16[]{b:8}" in words


@pytest.mark.fast(0)
def test_tolerances():
    options = {"axis_resources": {"b": "x"}, "mesh": make_mesh((4, 2))}
    x = nx.named(make.asarray(np.random.default_rng(0).normal(size=8), jnp.float32), ["b"])

    def f(x):
        return x * (1 + 1e-2 * (nx.named(jnp.zeros(8), ["b"]).data.shape != (8,)))

    assert "8 of 8 elements differ" in message(f, x, **options)
    check(f, x, rtol=2e-2, **options)
    nan = nx.where(x > 0, jnp.nan, x)
    check(lambda x: x, nan, **options)


NOTHING_BUT_ROUNDING = {
    "all tie for the maximum": (lambda x: nx.max(x, "b") - nx.mean(x, "b"), np.full(24, 0.1)),
    "all are the mean": (lambda x: nx.var(x, "b"), np.full(24, 0.1)),
    "deviations": (lambda x: nx.sum(x - nx.mean(x, "b"), "b"), np.random.default_rng(1).normal(size=24)),
    "probabilities": (lambda x: nx.sum(nx.nn.softmax(x, "b"), "b"), np.random.default_rng(2).normal(size=24)),
    "beside large ones": (
        lambda x: {"sum": nx.sum(x - nx.mean(x, "b"), "b"), "large": 1e6 * x},
        np.random.default_rng(3).normal(size=24),
    ),
}


@pytest.mark.fast(0)
@pytest.mark.full(1)
@pytest.mark.parametrize("case", NOTHING_BUT_ROUNDING)
def test_what_only_rounding_is_left_of_is_no_alarm(case):
    fun, x = NOTHING_BUT_ROUNDING[case]
    check(fun, nx.named(make.asarray(x, jnp.float32), ["b"]), axis_resources={"b": "x"}, mesh=make_mesh((8,)))


def is_mapped():
    """1 in a block, 0 where an array is whole."""
    return float(nx.named(jnp.zeros(24), ["b"]).data.shape != (24,))


@nx.custom_vjp
def block_maximum(x):
    return nx.max(x, "b")


def _shared_in_the_block(x, ct):  # as if each device shared among its own ties
    ties = x == nx.max(x, "b")
    return (nx.where(ties, ct / nx.sum(ties, "b") * (8 if is_mapped() else 1), 0.0),)


block_maximum.defvjp(lambda x: (nx.max(x, "b"), x), _shared_in_the_block)

FAULTS = {
    "a small one where all else cancels": (
        lambda x: nx.sum(x - nx.mean(x, "b"), "b") + 1e-4 * is_mapped(),
        np.random.default_rng(1).normal(size=24),
        "the result",
    ),
    "ties of the block": (lambda x: block_maximum(x) - nx.mean(x, "b"), np.full(24, 0.1), "the gradient of argument 'x'"),
    "at a bound": (
        lambda x: nx.where(x >= 1.0, x * (1 + 0.5 * is_mapped()), 0.0),
        np.ones(24),
        "the result",
    ),
    "beside large ones": (
        lambda x: {"large": 1e6 * x, "small": 1e-3 * x * (1 + 1e-2 * is_mapped())},
        np.random.default_rng(3).normal(size=24),
        "the result['small']",
    ),
    "in a gradient that is otherwise zero": (
        lambda x: nx.sum(nx.nn.softmax(x, "b"), "b") + 1e-4 * is_mapped() * nx.sum(x, "b"),
        np.random.default_rng(2).normal(size=24),
        "the gradient of argument 'x'",
    ),
}


@pytest.mark.full(0)
@pytest.mark.fast(1)
@pytest.mark.parametrize("case", FAULTS)
def test_a_fault_is_no_rounding(case):
    fun, x, where = FAULTS[case]
    words = message(fun, nx.named(make.asarray(x, jnp.float32), ["b"]), axis_resources={"b": "x"}, mesh=make_mesh((8,)))
    assert f"{where}, f32[]" in words
    assert "nothing mapped and mapped: " in words
