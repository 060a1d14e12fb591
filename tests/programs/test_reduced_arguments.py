"""Arguments that are reduced or unreduced over Explicit mesh axes (`jax.P(reduced=..., unreduced=...)`), against `jnp`."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import namedax as nx
from tests.harness import array

W, X = np.asarray(array(4, 6)), np.asarray(array(16, 4, seed=1))
AXES = (["k", "o"], ["b", "k"])


def close(have, want):
    np.testing.assert_allclose(have, want, rtol=1e-3, atol=1e-4)


def total(x):
    return nx.sum(x, ["b", "o"])


def layers(w, x):
    return nx.scan(lambda c, _: (nx.sin(c + nx.dot(x, w, "k")), None), nx.dot(x, w, "k"), None, length=3)[0]


def gradient_inside(w, x):
    """The gradient is used in the body, where it must be that of all devices."""
    return total(nx.dot(x, jax.grad(lambda u: total(nx.dot(x, u, "k") ** 2))(w) * w, "k"))


# What a body does with its weights, the same in `jnp`, and whether the gradient of the weights needs no communication.
BODIES = {
    "product": (lambda w, x: total(nx.dot(x, w, "k") ** 2), lambda w, x: jnp.sum((x @ w) ** 2), True),
    "before": (
        lambda w, x: total(nx.sin(nx.dot(x, nx.tanh(w * 2), "k"))),
        lambda w, x: jnp.sum(jnp.sin(x @ jnp.tanh(w * 2))),
        True,
    ),
    "also replicated": (
        lambda w, x: total(nx.dot(x, w, "k") ** 2) + nx.sum(w**2, ["k", "o"]),
        lambda w, x: jnp.sum((x @ w) ** 2) + jnp.sum(w**2),
        True,
    ),
    "checkpoint": (
        lambda w, x: total(jax.checkpoint(lambda w, x: nx.sin(nx.dot(x, w, "k")))(w, x)),
        lambda w, x: jnp.sum(jnp.sin(x @ w)),
        True,
    ),
    "loop": (
        lambda w, x: total(layers(w, x)),
        lambda w, x: jnp.sum(lax.scan(lambda c, _: (jnp.sin(c + x @ w), None), x @ w, None, length=3)[0]),
        True,
    ),
    "gradient inside": (
        gradient_inside,
        lambda w, x: jnp.sum(x @ (jax.grad(lambda u: jnp.sum((x @ u) ** 2))(w) * w)),
        False,
    ),
}
LAYOUTS = {
    "data": ((8,), {"b": "x"}, {"x"}, True),
    "data and model": ((4, 2), {"b": "x", "o": "y"}, {"x"}, True),
    "two axes": ((4, 2), {"b": ("x", "y")}, {"x", "y"}, True),
    "one of two axes": ((4, 2), {"b": ("x", "y")}, {"x"}, False),
    "another axis": ((4, 2), {"b": "y"}, {"x"}, False),
}


def explicit(shape):
    return jax.make_mesh(shape, ("x", "y")[: len(shape)], axis_types=(AxisType.Explicit,) * len(shape))


def reduced(mesh, axes, *entries):
    return jax.reshard(
        jax.device_put(W, NamedSharding(mesh, P())), NamedSharding(mesh, P(*(entries or (None, None)), reduced=axes))
    )


def sent(f, *args):
    return {kind: count for kind, (count, _) in nx.hlo.summary(f.lower(*args).compile()).items()}


@pytest.mark.fast(0)
@pytest.mark.full(3)
@pytest.mark.parametrize(
    ("layout", "body"),
    [
        *(("data", body) for body in ("product", "also replicated", "loop", "gradient inside")),
        ("data and model", "before"),
        ("two axes", "checkpoint"),
        ("one of two axes", "product"),
        ("another axis", "product"),
        *(pytest.param(layout, body, marks=pytest.mark.fast(0)) for layout in LAYOUTS for body in BODIES),
    ],
)
def test_gradients_of_reduced_weights(layout, body):
    """They are unreduced, equal to those of `jnp` when they are added up, and cost no all-reduce where the body allows it."""
    (shape, resources, axes, honored), (ours, theirs, costs_nothing) = LAYOUTS[layout], BODIES[body]
    mesh = explicit(shape)
    with jax.set_mesh(mesh):
        w = reduced(mesh, axes, None, resources.get("o"))
        x = jax.device_put(X, P(resources["b"]))
        f = nx.xmap(ours, AXES, [], axis_resources=resources, mesh=mesh)
        close(f(w, x), theirs(W, X))
        step = jax.jit(jax.grad(f))
        gradient = step(w, x)
        assert jax.typeof(gradient).sharding.spec.unreduced == axes
        close(jax.reshard(gradient, P(None, None)), jax.grad(theirs)(W, X))
        if honored and costs_nothing:
            assert sent(step, w, x) == {}
        if honored and body == "product":
            assert sent(step, w, x) == sent(jax.jit(jax.grad(theirs)), w, x) == {}
            assert nx.explain(step, w, x).summary() == {}


@pytest.mark.fast(0)
@pytest.mark.parametrize(
    "options", [{"axis_resources": {"b": ("x", nx.SerialLoop(2))}}, {"partitioning": "auto"}, {"axis_resources": {}}], ids=str
)
def test_reduced_weights_in_other_layouts(options):
    """Where they are taken as replicated, values and gradients stay right."""
    mesh, (ours, theirs, _) = explicit((8,)), BODIES["product"]
    with jax.set_mesh(mesh):
        w, x = reduced(mesh, {"x"}), jax.device_put(X, P("x"))
        f = nx.xmap(ours, AXES, [], mesh=mesh, **{"axis_resources": {"b": "x"}, **options})
        gradient = jax.jit(jax.grad(f))(w, x)
        close(f(w, x), theirs(W, X))
        close(jax.reshard(gradient, P(None, None)), jax.grad(theirs)(W, X))


def test_unreduced_gradients_of_named_arrays():
    """They print, are placed by `nx.shard`, and are added up on arrival in another mapped function."""
    mesh, want = explicit((4, 2)), jax.grad(lambda w: jnp.sum((X @ w) ** 2))(W)
    with jax.set_mesh(mesh):
        w, x = nx.named(reduced(mesh, {"x"}), AXES[0]), nx.named(jax.device_put(X, P("x")), AXES[1])
        f = nx.xmap(BODIES["product"][0], axis_resources={"b": "x"}, mesh=mesh)
        gradient = jax.jit(jax.grad(f))(w, x)
        assert repr(gradient) == "NamedArray(f32[]{k:4, o:6}, unreduced over 'x')"
        assert "unreduced over" in gradient._repr_html_()
        assert repr(w).startswith("NamedArray(f32[]{k:4, o:6}, dims=(k, o),\n[[")
        placed = nx.shard(gradient, {"k": "x"}, mesh)
        assert placed.sharding.spec == P("x", None)
        close(placed.data, want)
        g = nx.xmap(lambda g: 2 * g, axis_resources={"k": "x", "o": "y"}, mesh=mesh)
        close(g(gradient).data, 2 * want)
        close(nx.xmap(lambda g: nx.sum(g, "k") * 1, axis_resources={}, mesh=mesh)(gradient).data, want.sum(0))
