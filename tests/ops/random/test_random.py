"""`nx.random` draws what `jax.random` draws, under every assignment."""

import inspect
import pickle
import typing

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import namedax as nx
from namedax import hlo, random
from namedax.errors import ArgumentTypeError, AxisNotFoundError, AxisSizeError, NamedAxesLeftError, PositionalAxisError
from tests import make
from tests.harness import FEW, Placement, array, check

KEY = make.key(7)
OLD_KEY = make.array([0, 3], "uint32")
AB = {"a": 8, "b": 4}
BLOCKS = Placement("blocks", (4,), (("a", "x"),))

# The arguments that a sampler needs beside the key and the shape.
PARAMETERS = {
    "ball": {"d": 2},
    "beta": {"a": 1.5, "b": 2.0},
    "binomial": {"n": 9.0, "p": 0.3},
    "chisquare": {"df": 3.0},
    "dirichlet": {"alpha": make.array([1.0, 2.0, 3.0])},
    "double_sided_maxwell": {"loc": 1.0, "scale": 2.0},
    "f": {"dfnum": 3.0, "dfden": 5.0},
    "gamma": {"a": 2.5},
    "generalized_normal": {"p": 3.0},
    "geometric": {"p": 0.4},
    "loggamma": {"a": 2.5},
    "multinomial": {"n": 5.0, "p": make.array([0.2, 0.3, 0.5])},
    "multivariate_normal": {"mean": make.array([1.0, 2.0]), "cov": make.array([[2.0, 0.5], [0.5, 1.0]])},
    "orthogonal": {"n": 3},
    "pareto": {"b": 2.0},
    "poisson": {"lam": 3.0},
    "randint": {"minval": 0, "maxval": 99},
    "rayleigh": {"scale": 2.0},
    "t": {"df": 4.0},
    "triangular": {"left": 0.0, "mode": 1.0, "right": 3.0},
    "truncated_normal": {"lower": -1.0, "upper": 2.0},
    "wald": {"mean": 1.5},
    "weibull_min": {"scale": 1.0, "concentration": 2.0},
}
ALONG_AN_AXIS = {"categorical", "choice", "permutation"}
SAMPLERS = [
    name
    for name in random.__all__
    if inspect.isfunction(getattr(random, name))
    and "named_shape" in inspect.signature(getattr(random, name)).parameters
    and name not in ALONG_AN_AXIS | {"split"}
]


def test_every_public_name_of_jax_random():
    for name in dir(jax.random):
        if name.startswith("_") or inspect.ismodule(getattr(jax.random, name)):
            continue
        ours, theirs = getattr(random, name), getattr(jax.random, name)
        if ours is theirs:  # such as `Key`, a type of JAX 0.12 that Python 3.12 has no signature of
            assert not inspect.isfunction(theirs) or name == "key_dtype"
            continue
        assert not isinstance(theirs, typing.NewType)
        assert ours.__name__ == name
        assert ours.__doc__
        assert list(inspect.signature(theirs).parameters)[:2] == list(inspect.signature(ours).parameters)[:2]
        assert pickle.loads(pickle.dumps(ours)) is ours
    assert len(SAMPLERS) >= 30


@pytest.mark.full(6)
@pytest.mark.fast(5)
@pytest.mark.parametrize("name", SAMPLERS)
def test_every_sampler_draws_names_in_front(name):
    parameters = PARAMETERS.get(name, {})
    shape = (2, 3) if name == "multinomial" else (2,)
    have = getattr(random, name)(KEY, shape=shape, named_shape={"b": 4, "a": 3}, **parameters)
    want = getattr(jax.random, name)(KEY, shape=(4, 3, *shape), **parameters)
    assert have.dtype == want.dtype
    np.testing.assert_array_equal(nx.positional(have, ["b", "a", ...]), want)


def test_without_names_it_is_jax():
    np.testing.assert_array_equal(random.uniform(KEY, (3,), minval=2), jax.random.uniform(KEY, (3,), minval=2))
    assert random.split(KEY).shape == (2,)
    np.testing.assert_array_equal(random.choice(KEY, 9, (4,)), jax.random.choice(KEY, 9, (4,)))


@pytest.mark.parametrize("placement", [FEW[0], *FEW[-2:]], ids=str)
def test_the_numbers_do_not_depend_on_the_assignment(placement):
    def ours(key, low, shift, concentration):
        return (
            random.normal(key, (2,), named_shape={"b": 4, "a": 8}),
            random.uniform(key, (3,), named_shape={"b": 4}, minval=low),  # a name of a parameter follows
            random.gamma(key, concentration),
            random.bernoulli(key, low * 0 + 0.4).astype(float),
            random.normal(random.split(key, named_shape={"a": 8}), (2,), named_shape={"b": 4}) * shift,
            random.normal(random.fold_in(key, nx.lax.axis_index("a")), (2,)),
        )

    def oracle(key, low, shift, concentration):
        whole = jax.random.normal(key, (4, 8, 2)).swapaxes(0, 1)
        each = jax.vmap(lambda k: jax.random.normal(k, (4, 2)))(jax.random.split(key, 8))
        return (
            whole,
            jax.random.uniform(key, (4, 8, 3), minval=low[:, None]).swapaxes(0, 1),
            jax.random.gamma(key, concentration),
            jax.random.bernoulli(key, 0.4, (8,)).astype(float),
            each * shift,
            jax.vmap(lambda i: jax.random.normal(jax.random.fold_in(key, i), (2,)))(jnp.arange(8)),
        )

    args = (KEY, -jnp.exp(array(8, seed=1)), array(4, 2, seed=2), 1 + jnp.exp(array(8, 4, seed=3)))
    in_axes = ([], ["a"], ["b", None], ["a", "b"])
    out_axes = (["a", "b", ...], ["a", "b", ...], ["a", "b"], ["a"], ["a", "b", ...], ["a", ...])

    check(ours, oracle, args, in_axes, out_axes, placement)


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize("placement", [FEW[0], *FEW[-2:]], ids=str)
def test_along_an_axis(placement):
    def ours(key, logits, x, p):
        return (
            random.categorical(key, logits, "a", named_shape={"s": 3}),
            random.categorical(key, logits, 0, shape=(5,)),
            random.categorical(key, logits, "b", replace=False, shape=(2, 2)),
            random.permutation(key, x, "a"),
            random.permutation(key, x, 0),
            random.permutation(key, x, "b", independent=True),
            random.choice(key, x, (2,), axis="a", named_shape={"b": 4}),
            random.choice(key, x, (), p=p, axis="a", named_shape={"a": 8}),
            random.choice(key, 5, (2,), named_shape={"a": 8}, replace=True),
            random.permutation(key, 8, "a"),
        )

    logits, x = array(8, 4, 2, seed=4), array(8, 4, 3, seed=5)
    p = jax.nn.softmax(array(8, seed=6))

    def theirs(key, logits, x, p):
        last, by_b = jnp.moveaxis(logits, 0, -1), jnp.moveaxis(logits, 1, -1)
        index = jax.random.choice(key, 8, (4, 2))
        return (
            jax.random.categorical(key, last, -1, shape=(3, 4, 2)),
            jax.random.categorical(key, jnp.broadcast_to(logits[:, :, None], (8, 4, 5, 2)), -1),
            jax.random.categorical(key, by_b, -1, shape=(2, 8, 2), replace=False).swapaxes(0, 1),
            jax.random.permutation(key, x, 0),
            jax.random.permutation(key, x, 2),
            jax.random.permutation(key, x, 1, independent=True),
            x[index, jnp.arange(4)[:, None]],
            jax.random.choice(key, x, (8,), p=p, axis=0),
            jax.random.choice(key, 5, (8, 2)),
            jax.random.permutation(key, 8),
        )

    in_axes = ([], ["a", "b", ...], ["a", "b", ...], ["a"])
    ab = ["a", "b", ...]
    out_axes = (["s", "b", ...], ab, ["a", ...], ab, ab, ab, ["b", ...], ab, ["a", ...], ["a"])
    check(ours, theirs, (KEY, logits, x, p), in_axes, out_axes, placement, grad=False)


@pytest.mark.fast(0)
def test_gradient_of_a_permutation_along_a_sharded_name():
    x, w = array(8, 3), array(8, 3, seed=9)
    f = nx.xmap(lambda x: random.permutation(KEY, x, "a"), ["a", None], ["a", None], **BLOCKS.options)
    have = jax.grad(lambda x: jnp.sum(f(x) * w))(x)
    np.testing.assert_allclose(have, jax.jit(jax.grad(lambda x: jnp.sum(jax.random.permutation(KEY, x) * w)))(x))


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize("key", [KEY, OLD_KEY], ids=["new", "old"])
def test_named_keys(key):
    keys = random.split(key, named_shape={"layer": 3})
    assert dict(keys.named_shape) == {"layer": 3}
    raw = jax.random.split(key, 3)
    mean = array(3, seed=1)
    have = random.multivariate_normal(
        keys, nx.named(mean, ["layer"])[..., None] * make.ones(2), make.eye(2), named_shape={"k": 2}
    )
    want = jax.vmap(lambda k, m: jax.random.multivariate_normal(k, m * jnp.ones(2), jnp.eye(2), (2,)))(raw, mean)
    np.testing.assert_allclose(nx.positional(have, ["layer", "k", None]), want, rtol=1e-6)
    order = random.permutation(keys, nx.named(make.arange(5), ["k"]), "k")
    np.testing.assert_array_equal(nx.positional(order, ["layer", "k"]), jax.vmap(lambda k: jax.random.permutation(k, 5))(raw))
    data = random.key_data(keys)
    assert data.shape == jax.random.key_data(key).shape
    assert random.key_impl(keys) == jax.random.key_impl(key)
    more = random.split(keys, 4)
    assert dict(more.named_shape) == {"layer": 3}
    np.testing.assert_array_equal(
        nx.positional(random.key_data(more), ["layer", ...]),
        jax.random.key_data(jax.vmap(lambda k: jax.random.split(k, 4))(raw)),
    )
    seeds = nx.named(make.arange(3), ["layer"])
    assert random.normal(random.key(seeds)).named_shape["layer"] == 3


@pytest.mark.fast(1)
@pytest.mark.full(1)
@pytest.mark.parametrize("layout", [{"b": nx.SerialLoop(4)}, {"b": nx.SerialLoop(3)}, {"b": ("x", nx.SerialLoop(2))}], ids=str)
@pytest.mark.parametrize("of_key", [False, True], ids=["one-key", "keys"])
@pytest.mark.parametrize("name", ["binomial", "poisson", "gamma"])  # binomial's loop begins with a constant
def test_samplers_whose_elements_stop_at_their_own_times_in_steps(name, of_key, layout):
    parameters = {
        "binomial": (23.0, make.arange(8) / 9 + 0.05),
        "poisson": (4 * make.arange(8),),
        "gamma": (make.arange(8) + 0.3,),
    }[name]
    *numbers, last = parameters
    last = nx.named(last, ["b"])
    key = random.split(KEY, named_shape={"b": 8}) if of_key else KEY
    more = {} if of_key else {"named_shape": {"a": 5}}

    def body(key, last):
        return getattr(random, name)(key, *numbers, last, **more)

    have = nx.xmap(body, axis_resources=layout, mesh=jax.make_mesh((2,), ("x",)))(key, last)
    if of_key:
        keys = jax.random.split(KEY, 8)
        want = jnp.stack([getattr(jax.random, name)(keys[i], *numbers, last.data[i]) for i in range(8)])
        np.testing.assert_array_equal(nx.positional(have, ["b"]), want)
    else:
        want = getattr(jax.random, name)(KEY, *numbers, last.data, shape=(5, 8))
        np.testing.assert_array_equal(nx.positional(have, ["a", "b"]), want)


def test_the_physical_order_does_not_matter():
    p = jax.nn.sigmoid(array(3, 4))
    one = random.bernoulli(KEY, nx.named(p, ["k", "a"]))
    other = random.bernoulli(KEY, nx.named(p.T, ["a", "k"]))
    np.testing.assert_array_equal(nx.positional(one, ["a", "k"]), nx.positional(other, ["a", "k"]))
    np.testing.assert_array_equal(nx.positional(one, ["a", "k"]), jax.random.bernoulli(KEY, p.T))
    x = random.geometric(KEY, nx.named(p, ["k", "a"]), named_shape={"k": 3})
    np.testing.assert_array_equal(nx.positional(x, ["k", "a"]), jax.random.geometric(KEY, p))


@pytest.mark.full(1)
@pytest.mark.fast(0)
def test_what_is_sent():
    def sent(f, in_axes, out_axes, *args):
        return hlo.summary(jax.jit(nx.xmap(f, in_axes, out_axes, **BLOCKS.options)).lower(*args).compile())

    p, logits = jnp.full((16,), 0.5), array(16, 6)
    assert sent(lambda k, p: random.normal(k, (3,), named_shape={"a": 16}) * p, ([], ["a"]), ["a", ...], KEY, p) == {}
    assert sent(random.bernoulli, ([], ["a"]), ["a"], KEY, p) == {}
    assert sent(lambda k, p: random.poisson(k, p), ([], ["a"]), ["a"], KEY, p) == {"all-gather": (1, 16 * 4)}
    assert sent(lambda k, x: random.categorical(k, x, "c"), ([], ["a", "c"]), ["a"], KEY, logits) == {}
    # the best value and the least index among those who have it
    assert sent(lambda k, x: random.categorical(k, x, "a"), ([], ["a", "c"]), ["c"], KEY, logits) == {
        "all-reduce": (2, 2 * 6 * 4)
    }
    assert sent(lambda k, x: random.permutation(k, x, "a"), ([], ["a", "c"]), ["a", "c"], KEY, logits) == {
        "reduce-scatter": (1, 16 * 6 * 4)
    }
    keys = lambda k: random.normal(random.split(k, named_shape={"a": 16}), (100,))  # noqa: E731
    assert sent(keys, [], ["a", None], KEY) == {}


def test_a_size_of_the_mapped_function():
    """`None` in named_shape, as nx.zeros takes it."""
    drawn = nx.xmap(lambda k, x: random.normal(k, (2,), named_shape={"a": None}) * x, ([], ["a"]), ["a", ...], **BLOCKS.options)
    np.testing.assert_allclose(drawn(KEY, jnp.ones(16)), jax.random.normal(KEY, (16, 2)), rtol=1e-6)
    with pytest.raises(AxisNotFoundError, match="normal: axis 'a' has no size here"):
        random.normal(KEY, named_shape={"a": None})


def test_mistakes():
    x = nx.named(array(4, 3), ["a", "c"])
    with pytest.raises(ArgumentTypeError, match=r"normal: named_shape=\['a'\] is not a mapping from names to sizes"):
        random.normal(KEY, named_shape=["a"])
    with pytest.raises(AxisSizeError, match="gives axis 'a' the size -1"):
        random.normal(KEY, named_shape={"a": -1})
    with pytest.raises(AxisSizeError, match=r"named_shape\['a'\] is 5, but axis 'a' has size 4 in this mapped function"):
        nx.xmap(lambda x: x + random.normal(KEY, named_shape={"a": 5}), ["a"], ["a"])(array(4))
    with pytest.raises(AxisSizeError, match="axis 'a' has size 4 in one argument and size 5 in another"):
        random.gamma(KEY, x, named_shape={"a": 5})
    with pytest.raises(AxisNotFoundError, match="categorical: no axis 'd'"):
        random.categorical(KEY, x, "d")
    with pytest.raises(AxisNotFoundError, match="permutation: no axis 'd'"):
        random.permutation(KEY, x, "d")
    with pytest.raises(AxisNotFoundError, match="choice: no axis 'd'"):
        random.choice(KEY, x, axis="d")
    with pytest.raises(PositionalAxisError, match="categorical: axis -1 is out of range"):
        random.categorical(KEY, x)
    with pytest.raises(NamedAxesLeftError, match="the probabilities have the axes 'c', which the key lacks"):
        random.choice(KEY, 4, p=nx.named(jnp.full((3, 4), 0.25), ["c", None]))
