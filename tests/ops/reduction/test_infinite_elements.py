"""Derivatives of reductions of infinite and excluded elements: the same in every layout, and by definition where they are finite."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import namedax as nx
from tests import make
from tests.harness import make_mesh

INF, NAN = jnp.inf, jnp.nan
LAYOUTS = {
    "unmapped": (None, {}),
    "entries": ((8,), {"n": "x"}),
    "chunks": ((4,), {"n": "x"}),
    "uneven": ((3,), {"n": "x"}),
    "two mesh axes": ((4, 2), {"n": ("y", "x")}),
    "steps": (None, {"n": nx.SerialLoop(4)}),
    "steps on each device": ((2,), {"n": ("x", nx.SerialLoop(2))}),
}
NUMBERS = make.array([0, 1, 1, 2, 3, 3, 4, 4])
MASKED = np.array([1.0, -INF, 2.0, -INF, 3.0, 3.0, -INF, -INF])
MIXED = np.array([1.0, INF, 2.0, 4.0, NAN, 3.0, 0.5, -1.0])


def of_segments(kind):
    def total(x):
        found = getattr(nx, f"segment_{kind}")(x, nx.named(NUMBERS, ["n"]), 5, axis="n", out_axis="s")
        return nx.sum(found * nx.named(jnp.arange(1.0, 6.0), ["s"]), "s")

    return total


def centered():
    """The derivative of the variance of the finite elements of MIXED."""
    finite = np.isfinite(MIXED)
    return np.where(finite, 2 * (np.where(finite, MIXED, 0) - MIXED[finite].mean()) / finite.sum(), 0)


# The function, its argument, and its gradient: of equal extrema each has its share, whether they are infinite or not.
GRADIENTS = {
    "segment_max": (of_segments("max"), MASKED, [1, 0, 2, 3, 2, 2, 2.5, 2.5]),
    "segment_min": (of_segments("min"), -MASKED, [1, 0, 2, 3, 2, 2, 2.5, 2.5]),
    "var": (lambda x: nx.var(x, "n"), np.where(np.isnan(MIXED), 1.0, MIXED), [NAN] * 8),
    "var, without the others": (lambda x: nx.var(x, "n", where=nx.isfinite(x)), MIXED, centered()),
    "var of no element": (lambda x: nx.var(x, "n", where=x > 9), np.arange(8.0), [0] * 8),
    "nanvar": (lambda x: nx.nanvar(x, "n"), MIXED, [NAN] * 4 + [0] + [NAN] * 3),
    "std, without the others": (
        lambda x: nx.std(x, "n", where=nx.isfinite(x)) ** 2,
        MIXED,
        centered(),
    ),
}


@pytest.mark.full(8)
@pytest.mark.fast(3)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients(name, layout):
    function, x, want = GRADIENTS[name]
    x = make.array(x)
    shape, resources = LAYOUTS[layout]
    mesh = None if shape is None else make_mesh(shape)
    f = nx.xmap(function, ["n"], [], mesh=mesh, axis_resources=resources) if resources else function
    given = x if resources else nx.named(x, ["n"])
    have = jax.grad(f)(given)
    np.testing.assert_allclose(getattr(have, "data", have), np.asarray(want, "float32"), rtol=1e-5, atol=1e-6)


@pytest.mark.fast(0)
@pytest.mark.parametrize("partitioning", ["manual", "global"])
@pytest.mark.parametrize("resources", [{}, {"a": "x"}, {"b": "x"}], ids=str)
def test_the_gradient_of_a_maximum_of_nan_shows_it(resources, partitioning):
    """Under `jax.jit` too, where that of `jnp.max` is zero in JAX 0.12."""
    x = nx.named(jnp.array([[1.0, np.nan], [3.0, 2.0]]), ["a", "b"])
    options = {"axis_resources": resources, "mesh": make_mesh((2,)), "partitioning": partitioning}
    gradient = jax.grad(nx.xmap(lambda x: nx.sum(nx.max(x, "a"), "b"), **options))
    for f in (gradient, jax.jit(gradient)):
        np.testing.assert_array_equal(f(x).data, [[0.0, np.nan], [1.0, np.nan]])
