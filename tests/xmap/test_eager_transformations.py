"""Eager transformations of a mapped function, without `jax.set_mesh`, whose arguments lie on a mesh: their own, or another one."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import namedax as nx
from tests.harness import array, make_mesh, said

X, Y = array(8, 3, seed=1), array(4, 3, seed=2)
RESOURCES = {"a": "x", "b": "y"}


def _loss(x, y):
    return nx.sum(nx.sin(nx.dot(x, y, "k")), ("a", "b"))


EAGER = {
    "grad": lambda f, x, y: jax.grad(f)(x, y),
    "grad of both": lambda f, x, y: jax.grad(f, (0, 1))(x, y),
    "value": lambda f, x, y: jax.value_and_grad(f)(x, y),
    "vjp": lambda f, x, y: jax.vjp(f, x, y)[1](jnp.ones((), x.dtype)),
    "jvp": lambda f, x, y: jax.jvp(lambda x: f(x, y), (x,), (x,)),
    "vmap": lambda f, x, y: jax.vmap(f, (0, None))(jnp.stack([x, x]), y),
    "grad of vmap": lambda f, x, y: jax.grad(lambda x: jnp.sum(jax.vmap(f, (0, None))(x, y)))(jnp.stack([x, 2 * x])),
    "vmap of grad": lambda f, x, y: jax.vmap(jax.grad(f), (0, None))(jnp.stack([x, 2 * x]), y),
    "hessian": lambda f, x, y: jax.hessian(lambda s: f(s * x, y))(jnp.ones((), x.dtype)),
    "jit": lambda f, x, y: jax.jit(jax.grad(f))(x, y),
}


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize("transform", EAGER)
def test_eager_transformations_of_arguments_on_explicit_axes(transform):
    """Without `jax.set_mesh`, where JAX itself has no devices on which to begin a gradient."""
    mesh = make_mesh((2, 2), "explicit")
    f = nx.xmap(_loss, (["a", "k"], ["b", "k"]), [], axis_resources=RESOURCES, mesh=mesh)
    run = EAGER[transform]
    want = run(lambda x, y: jnp.sum(jnp.sin(x @ y.T)), X, Y)
    placed = [jax.device_put(value, NamedSharding(mesh, P(axis))) for value, axis in ((X, "x"), (Y, "y"))]
    for x, y in (placed, (placed[0], Y), (X, placed[1])):
        have = run(f, x, y)
        jax.tree.map(functools.partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-5), have, want)


def test_an_eager_gradient_lies_where_its_explicit_argument_does():
    mesh = make_mesh((2, 2), "explicit")
    f = nx.xmap(_loss, axis_resources=RESOURCES, mesh=mesh)
    x, y = nx.shard((nx.named(X, ["a", "k"]), nx.named(Y, ["b", "k"])), RESOURCES, mesh)
    value, gradient = jax.value_and_grad(f)(x, y)
    assert value.shape == ()
    assert gradient.data.sharding == x.data.sharding


MUST_BE_BROUGHT = (
    "xmap: under a JAX transformation, xmap cannot reshard an argument of _loss that is committed to other devices or to "
    "another mesh, such as the same devices in another order. Reshard it onto the mesh first, with jax.device_put or nx.shard."
)


@pytest.mark.full(2)
@pytest.mark.fast(0)
@pytest.mark.parametrize("kind", ["auto", "explicit"])
@pytest.mark.parametrize("spec", [P("z"), P()], ids=str)
def test_an_argument_of_a_transformation_on_another_mesh_is_used_or_refused(kind, spec):
    mesh = make_mesh((2, 2), kind)
    other = Mesh(mesh.devices.reshape(4), ("z",), axis_types=mesh.axis_types[:1])
    x, y = array(16, 4, seed=1), array(4, 8, seed=2)
    f = nx.xmap(_loss, (["a", "k"], ["k", "b"]), [], axis_resources=RESOURCES, mesh=mesh)
    cut = jax.device_put(y, NamedSharding(other, spec))
    np.testing.assert_allclose(f(x, cut), jnp.sum(jnp.sin(x @ y)), rtol=1e-5)  # what is not transformed is moved
    want = jax.grad(lambda x, y: jnp.sum(jnp.sin(x @ y)), 1)(x, y)
    try:  # as far as this release of JAX can describe blocks of one mesh on another
        have, said_ = jax.grad(f, 1)(x, cut), MUST_BE_BROUGHT
    except nx.errors.MeshError as error:
        have, said_ = want, said(error)
    np.testing.assert_allclose(have, want, rtol=1e-5, atol=1e-5)
    assert said_ == MUST_BE_BROUGHT
    brought = jax.device_put(cut, NamedSharding(mesh, P(None, "y")))
    np.testing.assert_allclose(jax.grad(f, 1)(x, brought), want, rtol=1e-5, atol=1e-5)
