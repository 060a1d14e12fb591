"""Each device keeps its block of what all have: the gradient is one all-gather, wherever it is taken."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType

import namedax as nx
from tests.harness import make_mesh

X = np.random.default_rng(4).normal(size=(16, 3)).astype(np.float32)
T = np.random.default_rng(5).normal(size=(16, 3)).astype(np.float32)

# The mesh, its kind of axes, and where the blocks lie.
PLACES = {
    "1-D": ((8,), "auto", "x"),
    "1-D, Explicit": ((8,), "explicit", "x"),
    "one of two axes": ((4, 2), "auto", "y"),
    "one of two axes, Explicit": ((4, 2), "explicit", "x"),
    "two axes": ((4, 2), "auto", ("x", "y")),
    "two axes, the minor one first": ((4, 2), "auto", ("y", "x")),
    "two axes, Explicit": ((4, 2), "explicit", ("x", "y")),
    "unmapped": (None, "auto", None),
}


# What `make test` takes of them.
FEW = ("1-D", "one of two axes, Explicit", "two axes, the minor one first", "unmapped")
WHERE = [place if place in FEW else pytest.param(place, marks=pytest.mark.fast(0)) for place in PLACES]
MAPPED = [place for place in WHERE if place != "unmapped"]


def plain(x, t):
    return jnp.sum(jnp.sin(x) * x * t)


def named(x, t, cut="j"):
    return nx.sum(nx.sin(x) * x * t, (cut, "k"))


def renamed(x, t):
    return named(nx.rename(x, i="j"), t)


def rematerialised(x, t):
    return jax.checkpoint(renamed)(x, t)


def in_a_helper(x, t):
    return jax.jit(renamed)(x, t)


def in_a_scan(x, t):
    """Whose steps keep a block each; their gradients are added up."""

    def step(total, factor):
        return total + renamed(factor * x, t), None

    return (
        jax.lax.scan(step, jnp.zeros(()), jnp.array([0.25, 0.75]))[0]
        - renamed(0.25 * x, t)
        - renamed(0.75 * x, t)
        + renamed(x, t)
    )


def loss(form, place):
    """A function of x, of which each device keeps its block, and of t, which is stored in blocks."""
    shape, kind, axes = PLACES[place]
    options = {} if shape is None else {"axis_resources": {"j": axes}, "mesh": make_mesh(shape, kind)}
    return nx.xmap(form, (["i", "k"], ["j", "k"]), [], **options)


@pytest.mark.full(2)
@pytest.mark.fast(0)
@pytest.mark.parametrize("place", WHERE)
def test_in_a_scan(place):
    gradient = jax.jit(jax.grad(loss(in_a_scan, place)))
    np.testing.assert_allclose(gradient(X, T), jax.grad(plain)(X, T), rtol=1e-5, atol=1e-5)


@pytest.mark.full(13)
@pytest.mark.parametrize("form", [renamed, rematerialised, in_a_helper])
@pytest.mark.parametrize("inside", [True, False], ids=["inside", "outside"])
@pytest.mark.parametrize("place", MAPPED)
def test_one_all_gather(form, inside, place):
    shape, kind, axes = PLACES[place]
    options = {"axis_resources": {"j": axes}, "mesh": make_mesh(shape, kind)}
    names = (["i", "k"], ["j", "k"])
    if inside:
        gradient = jax.jit(nx.xmap(jax.grad(form), names, names[0], **options))
    else:
        gradient = jax.jit(jax.grad(nx.xmap(form, names, [], **options)))
    (sent,) = nx.hlo.summary(gradient.lower(X, T).compile()).items()
    assert sent == ("all-gather", (1, X.nbytes))
    np.testing.assert_allclose(gradient(X, T), jax.grad(plain)(X, T), rtol=1e-5, atol=1e-5)


@pytest.mark.fast(0)
@pytest.mark.parametrize("place", WHERE)
def test_what_a_body_closes_over(place):
    def of(x):
        whole = nx.named(x, ["j", "k"])
        shape, kind, axes = PLACES[place]
        options = {} if shape is None else {"axis_resources": {"j": axes}, "mesh": make_mesh(shape, kind)}
        return nx.xmap(lambda t: named(whole, t), ["j", "k"], [], **options)(T)

    np.testing.assert_allclose(jax.jit(jax.grad(of))(X), jax.grad(plain)(X, T), rtol=1e-5, atol=1e-5)


@pytest.mark.fast(0)
@pytest.mark.full(2)
@pytest.mark.parametrize("place", WHERE)
def test_further_transformations(place):
    f = loss(renamed, place)
    several = np.stack([X, 2 * X])
    of_each = jax.vmap(jax.grad(plain), (0, None))(several, T)
    np.testing.assert_allclose(jax.jit(jax.vmap(jax.grad(f), (0, None)))(several, T), of_each, rtol=1e-5, atol=1e-5)
    last = jax.vmap(jax.grad(f), (2, None), 2)(np.moveaxis(several, 0, 2), T)
    np.testing.assert_allclose(last, np.moveaxis(of_each, 0, 2), rtol=1e-5, atol=1e-5)

    def along(f):
        return jax.jit(lambda x: jax.jvp(jax.grad(lambda x: f(x, T)), (x,), (T,))[1])(X)

    np.testing.assert_allclose(along(f), along(plain), rtol=1e-4, atol=1e-4)
    twice = jax.grad(lambda x, f: jnp.sum(jax.grad(f)(x, T) ** 2))
    np.testing.assert_allclose(jax.jit(functools.partial(twice, f=f))(X), twice(X, plain), rtol=1e-4, atol=1e-4)


@pytest.mark.fast(0)
@pytest.mark.parametrize("place", ["1-D", "two axes", "two axes, Explicit"])
@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "complex64"])
def test_element_types(dtype, place):
    def size(x, t):
        return nx.sum(nx.abs(nx.rename(x, i="j").astype("complex64")) ** 2 * t, ("j", "k"))

    x = jnp.asarray(X, dtype)
    gradient = jax.jit(jax.grad(loss(size, place)))(x, T)
    assert gradient.dtype == x.dtype
    wanted = jax.grad(lambda x: jnp.sum(jnp.abs(x.astype("complex64")) ** 2 * T))(x)
    np.testing.assert_allclose(np.asarray(gradient, "complex64"), np.asarray(wanted, "complex64"), rtol=2e-2)


@pytest.mark.full(4)
@pytest.mark.fast(0)
@pytest.mark.parametrize("place", WHERE)
def test_integers_and_random_keys(place):
    """They are cut as well, and have no gradient."""
    shape, kind, axes = PLACES[place]
    options = {} if shape is None else {"axis_resources": {"j": axes}, "mesh": make_mesh(shape, kind)}
    numbers = np.arange(16)
    cut = nx.xmap(lambda n: nx.rename(n, i="j"), ["i"], ["j"], **options)
    np.testing.assert_array_equal(cut(numbers), numbers)
    keys = jax.random.split(jax.random.key(0), 16)
    np.testing.assert_array_equal(jax.random.key_data(cut(keys)), jax.random.key_data(keys))

    def weighted(x, t, n):
        return renamed(x, t * nx.rename(n, i="j"))

    f = nx.xmap(weighted, (["i", "k"], ["j", "k"], ["i"]), [], **options)
    np.testing.assert_allclose(jax.grad(f)(X, T, numbers), jax.grad(plain)(X, T * numbers[:, None]), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("kind", ["auto", "explicit"])
def test_a_loop_in_time(kind):
    """Blocks in time are taken from the block of the device."""
    mesh = make_mesh((4, 2), kind)
    f = nx.xmap(renamed, (["i", "k"], ["j", "k"]), [], axis_resources={"j": ("x", nx.SerialLoop(2))}, mesh=mesh)
    np.testing.assert_allclose(jax.jit(jax.grad(f))(X, T), jax.grad(plain)(X, T), rtol=1e-5, atol=1e-5)


def test_what_varies_already_is_reduced_once():
    """A value that meets sharded ones has its gradient reduced anyway; the block's gradient goes with it."""

    def both(x, t):
        return nx.sum(x * nx.sum(t, "k"), ("i", "j", "k")) + renamed(x, t)

    f = nx.xmap(both, (["i", "k"], ["j", "k"]), [], axis_resources={"j": "x"}, mesh=make_mesh((8,)))
    gradient = jax.jit(jax.grad(f))
    np.testing.assert_allclose(
        gradient(X, T), jax.grad(lambda x: jnp.sum(x) * jnp.sum(T) + plain(x, T))(X), rtol=1e-4, atol=1e-4
    )
    assert nx.hlo.summary(gradient.lower(X, T).compile()) == {"all-reduce": (1, X.nbytes)}


@pytest.mark.fast(0)
def test_without_jit():
    mesh = jax.make_mesh((8,), ("x",), axis_types=(AxisType.Auto,))
    f = nx.xmap(renamed, (["i", "k"], ["j", "k"]), [], axis_resources={"j": "x"}, mesh=mesh)
    with jax.disable_jit():
        np.testing.assert_allclose(jax.grad(f)(X, T), jax.grad(plain)(X, T), rtol=1e-5, atol=1e-5)
