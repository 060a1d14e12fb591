"""Initializers with named axes make what JAX's make for the array with the names in front."""

import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import namedax as nx
from namedax import hlo
from namedax.errors import AxisNotFoundError, PositionalAxisError
from namedax.random import split
from tests import make
from tests.harness import FEW, Placement, check

KEY = make.key(11)
INITIALIZERS = {name: getattr(nx.nn.initializers, name) for name in nx.nn.initializers.__all__ if name != "Initializer"}
WITH_FANS = [name for name in INITIALIZERS if name.split("_")[0] in ("he", "kaiming", "glorot", "xavier", "lecun")]


def positional(name, *args, **kwargs):
    return getattr(jax.nn.initializers, name)(*args, **kwargs)


def test_every_public_name():
    theirs = {n for n in dir(jax.nn.initializers) if not n.startswith("_") and n != "Initializer"}
    assert set(INITIALIZERS) == theirs
    assert len(WITH_FANS) == 10
    init = INITIALIZERS["he_normal"](in_axis="a", out_axis="b")
    assert repr(init) == "he_normal(in_axis='a', out_axis='b', batch_axis=(), dtype=None)"
    copy = pickle.loads(pickle.dumps(init))
    np.testing.assert_array_equal(copy(KEY, named_shape={"a": 2, "b": 3}).data, init(KEY, named_shape={"a": 2, "b": 3}).data)


INITIALIZERS = {name: getattr(nx.nn.initializers, name) for name in nx.nn.initializers.__all__ if name != "Initializer"}


@pytest.mark.parametrize("name", WITH_FANS)
def test_fans(name):
    sizes = {"taps": 3, "inputs": 5, "heads": 2, "key": 4, "layers": 7}
    init = INITIALIZERS[name](in_axis="inputs", out_axis=("heads", "key"), batch_axis=("layers",))
    have = init(KEY, (), named_shape=sizes)
    want = positional(name, in_axis=1, out_axis=(2, 3), batch_axis=(4,))(KEY, (3, 5, 2, 4, 7))
    np.testing.assert_allclose(nx.positional(have, list(sizes)), want, rtol=1e-6)
    # names and positions together
    have = INITIALIZERS[name](in_axis=("inputs", -1), out_axis=0)(KEY, (6, 2), named_shape={"inputs": 5})
    want = positional(name, in_axis=(0, -1), out_axis=1)(KEY, (5, 6, 2))
    np.testing.assert_allclose(nx.positional(have, ["inputs", ...]), want, rtol=1e-6)


@pytest.mark.parametrize("mode", ["fan_in", "fan_out", "fan_avg", "fan_geo_avg"])
def test_variance_scaling(mode):
    have = INITIALIZERS["variance_scaling"](2.0, mode, "normal", "i", "o", dtype=jnp.float16)(KEY, named_shape={"o": 3, "i": 8})
    want = positional("variance_scaling", 2.0, mode, "normal", 1, 0, dtype=jnp.float16)(KEY, (3, 8))
    assert have.dtype == jnp.float16
    np.testing.assert_array_equal(nx.positional(have, ["o", "i"]), want)


@pytest.mark.full(0)
@pytest.mark.fast(1)
@pytest.mark.parametrize("placement", FEW, ids=str)
def test_under_every_assignment(placement):
    a_b, b_a = {"a": 8, "b": 4}, {"b": 4, "a": 8}

    def ours(key):
        i = INITIALIZERS
        return (
            i["zeros"](key, (2,), named_shape=a_b),
            i["ones"](key, named_shape=a_b, dtype=jnp.bfloat16).astype(jnp.float32),
            i["constant"](3.5)(key, (2,), named_shape=a_b),
            i["constant"](np.arange(2.0))(key, (2,), named_shape=a_b),
            i["uniform"](0.5)(key, (), jnp.float32, named_shape=b_a),
            i["normal"](2.0)(key, (2,), named_shape=b_a),
            i["truncated_normal"](1.0, lower=-1.0)(key, named_shape=a_b),
            i["lecun_normal"]("a", "b")(key, named_shape=b_a),
            i["orthogonal"](2.0, column_axis="a")(key, (2,), named_shape=a_b),
            i["delta_orthogonal"](1.5, -1)(key, (2, 3), named_shape=a_b),
            i["normal"]()(split(key, named_shape={"a": 8}), (2,), named_shape={"b": 4}),
        )

    def oracle(key):
        def turned(x):
            return x.swapaxes(0, 1)

        return (
            jnp.zeros((8, 4, 2)),
            jnp.ones((8, 4)),
            jnp.full((8, 4, 2), 3.5),
            jnp.broadcast_to(jnp.arange(2.0), (8, 4, 2)),
            turned(positional("uniform", 0.5)(key, (4, 8))),
            turned(positional("normal", 2.0)(key, (4, 8, 2))),
            positional("truncated_normal", 1.0, lower=-1.0)(key, (8, 4)),
            turned(positional("lecun_normal", 1, 0)(key, (4, 8))),
            positional("orthogonal", 2.0, 0)(key, (8, 4, 2)),
            positional("delta_orthogonal", 1.5)(key, (8, 4, 2, 3)),
            jax.vmap(lambda k: positional("normal")(k, (4, 2)))(jax.random.split(key, 8)),
        )

    check(ours, oracle, (KEY,), [], ["a", "b", ...], placement, grad=False)


def test_nothing_is_sent():
    init = INITIALIZERS["he_normal"]("a", "c")
    placement = Placement("blocks", (4,), (("a", "x"),))
    make = nx.xmap(lambda key: init(key, named_shape={"a": 8, "c": 3}), [], ["a", "c"], **placement.options)
    compiled = jax.jit(make).lower(KEY).compile()
    assert hlo.summary(compiled) == {}


def test_without_names_it_is_jax():
    np.testing.assert_array_equal(INITIALIZERS["he_normal"]()(KEY, (3, 4)), positional("he_normal")(KEY, (3, 4)))
    np.testing.assert_array_equal(INITIALIZERS["zeros"](KEY, (2,), jnp.int32), jnp.zeros(2, jnp.int32))


def test_mistakes():
    with pytest.raises(
        AxisNotFoundError, match=r"he_normal: in_axis is 'input', which is not an axis .* Did you mean 'inputs'\?"
    ):
        INITIALIZERS["he_normal"]("input", "hidden")(KEY, named_shape={"inputs": 3, "hidden": 2})
    with pytest.raises(
        PositionalAxisError,
        match="he_normal: in_axis is -2, but the parameter has 0 positional axes, which count without the named axes",
    ):
        INITIALIZERS["he_normal"]()(KEY, named_shape={"inputs": 3, "hidden": 2})
