"""The examples of the xmap tutorial, one test for each, through nothing but the public face.

The programs do what those of the tutorial do, over today's meshes; the oracles are `jnp` and NumPy.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.linalg import expm_frechet

import namedax as nx
from namedax.errors import AxisSizeError, MeshError
from tests import make
from tests.harness import make_mesh

rng = np.random.default_rng(11)


def values(*shape):
    return make.asarray(rng.normal(size=shape).astype(np.float32))


# --- the network: inputs, hidden units, classes and a batch -------------------------------------------------------------

IN_AXES = [["inputs", "hidden", ...], ["hidden", "classes", ...], ["batch", "inputs", ...], ["batch", ...]]
ARGS = values(6, 8), values(8, 3), values(4, 6), make.array([2, 0, 1, 2])


def positional_loss(w1, w2, images, labels):
    logits = jax.nn.relu(images @ w1) @ w2
    return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], 1))


def with_collectives(w1, w2, images, labels):
    hidden = nx.nn.relu(nx.lax.pdot(images, w1, "inputs"))
    logits = nx.lax.pdot(hidden, w2, "hidden")
    predictions = logits - nx.scipy.special.logsumexp(logits, "classes")
    targets = nx.nn.one_hot(labels, nx.lax.psum(1, "classes"), axis="classes")
    return -nx.lax.pmean(nx.lax.psum(targets * predictions, "classes"), "batch")


RESOURCES = [({}, ()), ({"batch": "x"}, (4,)), ({"hidden": "x"}, (8,)), ({"batch": "x", "hidden": "y"}, (4, 2))]


@pytest.mark.full(2)
@pytest.mark.fast(1)
@pytest.mark.parametrize(("resources", "shape"), RESOURCES)
def test_the_network(resources, shape):
    mesh = make_mesh(shape) if shape else None
    loss = nx.xmap(with_collectives, IN_AXES, [...], axis_resources=resources, mesh=mesh)
    want, gradients = jax.value_and_grad(positional_loss, argnums=(0, 1))(*ARGS)
    have, found = jax.value_and_grad(loss, argnums=(0, 1))(*ARGS)
    np.testing.assert_allclose(have, want, rtol=1e-5)
    for h, w in zip(found, gradients, strict=True):
        np.testing.assert_allclose(h, w, rtol=1e-4, atol=1e-6)


# --- names -------------------------------------------------------------------------------------------------------------


def test_the_type_of_an_array_in_the_body():
    seen = []

    def body(x):
        seen.append((x.shape, dict(x.named_shape)))
        return x

    x = values(20, 5)
    y = nx.xmap(body, in_axes={0: "batch"}, out_axes={1: "batch"})(x)
    assert seen[0] == ((5,), {"batch": 20})
    np.testing.assert_array_equal(y, x.T)


def test_a_name_has_one_size():
    with pytest.raises(AxisSizeError, match="'i'"):
        nx.xmap(lambda x, y: x * y, (["i", ...], ["i", ...]), ["i", ...])(make.arange(5), make.arange(7))


def test_functions_that_know_no_names():
    f = functools.partial(expm_frechet, compute_expm=False)
    a, e = values(2, 3, 3), values(4, 3, 3)
    each = nx.xmap(f, (["b", ...], ["b", ...]), ["b", ...])(a, e[:2])
    pairs = nx.xmap(f, (["ba", ...], ["be", ...]), ["ba", "be", ...])(a, e)
    for i in range(2):
        np.testing.assert_allclose(each[i], f(a[i], e[i]), rtol=1e-4, atol=1e-5)
        for j in range(4):
            np.testing.assert_allclose(pairs[i, j], f(a[i], e[j]), rtol=1e-4, atol=1e-5)


def test_broadcasting():
    x, y, z = values(2, 2, 1, 1), values(3, 1, 3, 1), values(5, 1, 1, 5)
    k = nx.xmap(lambda x, y, z: (x + y) + (y + z), (["a", ...], ["b", ...], ["c", ...]), ["a", "b", "c", ...])(x, y, z)
    want = x[:, None, None] + 2 * y[None, :, None] + z[None, None, :]
    assert k.shape == (2, 3, 5, 2, 3, 5)
    np.testing.assert_allclose(k, want, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("steps", [False, True])
def test_reductions(steps):
    def body(x, y):
        z = x + y
        return nx.numpy.sum(nx.numpy.sum(nx.numpy.sum(z, 0), "x"), "y") if steps else nx.numpy.sum(z, axis=(0, "x", "y"))

    x, y = values(2), values(5, 4)
    have = nx.xmap(body, in_axes=({0: "x"}, {1: "y"}), out_axes={})(x, y)
    np.testing.assert_allclose(have, (x[:, None, None] + y).sum(), rtol=1e-5)


def test_einsum():
    x, y = values(2, 5, 7), values(7, 11)
    body = functools.partial(nx.numpy.einsum, "n{b,k},{k,m}->n{b,m}")
    have = nx.xmap(body, in_axes=[{0: "b", 2: "k"}, ["k", "m", ...]], out_axes={0: "b", 2: "m"})(x, y)
    np.testing.assert_allclose(have, jnp.einsum("bnk,km->bnm", x, y), rtol=1e-5, atol=1e-5)


# --- collectives -------------------------------------------------------------------------------------------------------

PLACES = [(), (8,), (2,)]  # not mapped, an entry on each device, four on each


def mapped(body, shape, out_axes=("i", ...)):
    resources = {"i": "x"} if shape else {}
    return nx.xmap(body, ["i", ...], list(out_axes), axis_resources=resources, mesh=make_mesh(shape) if shape else None)


@pytest.mark.parametrize("shape", PLACES)
def test_pshuffle(shape):
    x = make.arange(10, 18)
    have = mapped(lambda x: nx.lax.pshuffle(x, "i", list(reversed(range(8)))), shape)(x)
    np.testing.assert_array_equal(have, x[::-1])


@pytest.mark.parametrize("shape", PLACES)
def test_pgather(shape):
    x, index = values(8, 3), make.array([6, 1, 1])
    have = mapped(lambda x: nx.lax.pgather(x, index, "i"), shape, [...])(x)
    np.testing.assert_array_equal(have, x[index])


# --- matrix products over a mesh ---------------------------------------------------------------------------------------


def test_matmul_of_vdot():
    x, y = values(8, 6), values(6, 4)
    options = {"in_axes": ({0: "left"}, {1: "right"}), "out_axes": ["left", "right", ...]}
    resources = {"left": "x", "right": "y"}
    local, distributed = nx.xmap(jnp.vdot, **options), nx.xmap(jnp.vdot, **options, axis_resources=resources)
    with pytest.raises(MeshError, match="mesh"):
        distributed(x, y)
    with jax.set_mesh(make_mesh((2, 4))):
        have = distributed(x, y)
    np.testing.assert_allclose(have, local(x, y), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(have, x @ y, rtol=1e-5, atol=1e-5)


def test_two_names_on_one_mesh_axis():
    q, u = values(4), values(12)
    body = lambda x, y: nx.numpy.sum(x, axis="a") + nx.numpy.sum(y, axis="b")  # noqa: E731
    f = nx.xmap(body, (["a", ...], ["b", ...]), [...], axis_resources={"a": "x", "b": "x"}, mesh=make_mesh((4,)))
    np.testing.assert_allclose(f(q, u), q.sum() + u.sum(), rtol=1e-5)
