"""Lifted functions with loops that begin with a constant, along an axis that is executed in steps.

The oracle is `jax.vmap`. A result whose type does not vary from step to step would be that of the last step.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import namedax as nx
from namedax.errors import SerialLoopError
from tests.harness import make_mesh

X = np.linspace(0.1, 2, 8, dtype=np.float32)
C = np.array([1.0, 2.0, 3.0], np.float32)


def loop(u):
    return lax.scan(lambda c, y: (c * u + y, None), 0.0, jnp.asarray(C))[0]


@jax.custom_vjp
def with_vjp(u):
    return loop(u)


with_vjp.defvjp(lambda u: (loop(u), u), lambda u, g: (g * u,))


@jax.custom_jvp
def with_jvp(u):
    return loop(u)


with_jvp.defjvp(lambda p, t: (loop(p[0]), t[0] * p[0]))

FUNCTIONS = {
    "scan": loop,
    "jit": lambda u: jax.jit(loop)(u),
    "jit with a constant": lambda u: jax.jit(lambda u: jnp.asarray(C) @ jnp.stack([loop(u), u, u * u]))(u),
    "checkpoint": jax.checkpoint(loop),
    "cond": lambda u: lax.cond(u < 0.5, loop, lambda u: u * 7, u),
    "jit of cond": lambda u: jax.jit(lambda u: lax.cond(u < 0.5, loop, lambda u: u * 7, u))(u),
    "switch": lambda u: lax.switch((u > 0.5).astype(int), [loop, lambda u: u * 7], u),
    "piecewise": lambda u: jnp.piecewise(u, [u <= 0.5, u > 0.5], [loop, lambda u: jnp.polyval(jnp.asarray(C), u)]),
    "nested": lambda u: jnp.piecewise(
        u, [u <= 0.5, u > 0.5], [loop, lambda u: jnp.piecewise(u, [u < 1, u >= 1], [loop, jnp.exp])]
    ),
    "fori_loop": lambda u: lax.fori_loop(0, 3, lambda i, c: c * u + i, 1.0),
    "while_loop": lambda u: lax.while_loop(lambda c: c < 2, lambda c: c + u + 0.1, 0.0),
    # JAX types these results as equal everywhere: only the number of iterations depends on the element.
    "a bound": lambda u: lax.while_loop(lambda c: c < u, lambda c: c + 0.3, 0.0),
    "a number of iterations": lambda u: lax.fori_loop(0, (4 * u).astype(int), lambda i, c: c + 2.0, 0.0),
    "a bound in a scan": lambda u: lax.scan(
        lambda c, y: (c + lax.while_loop(lambda k: k[0] < u, lambda k: (k[0] + y, ~k[1]), (0.0, False))[1], None),
        0,
        jnp.asarray(C),
    )[0],
    "a rule without loops": lambda u: jax.nn.relu(u - 0.5) + loop(u),
    "a linear solve": lambda u: loop(u) * lax.custom_linear_solve(lambda v: 2 * v, u, lambda m, b: b / 2, symmetric=True),
    "sort": lambda u: loop(u) + jnp.sort(jnp.stack([u, -u]))[0],
}
REFUSED = {"with a VJP rule": with_vjp, "with a JVP rule": with_jvp, "expi": jax.scipy.special.expi}
LAYOUTS = [{"k": nx.SerialLoop(2)}, {"k": nx.SerialLoop(8)}, {"k": ("x", nx.SerialLoop(2))}]


def mapped(function, layout):
    return nx.xmap(nx.nmap(function), axis_resources=layout, mesh=make_mesh((4,)))


@pytest.mark.full(6)
@pytest.mark.fast(3)
@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_values(name, layout):
    function = FUNCTIONS[name]
    have = mapped(function, layout)(nx.named(jnp.asarray(X), ["k"]))
    np.testing.assert_allclose(have.data, jax.vmap(function)(X), rtol=1e-5)


@pytest.mark.full(3)
@pytest.mark.fast(0)
@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize(
    "name",
    [
        name
        for name in FUNCTIONS
        if name not in ("while_loop", "a linear solve", "a rule without loops") and not name.startswith(("a bound", "a number"))
    ],
)
def test_gradients(name, layout):
    function = FUNCTIONS[name]
    have = mapped(jax.grad(lambda u: function(u) ** 2), layout)(nx.named(jnp.asarray(X), ["k"]))
    want = jax.vmap(jax.grad(lambda u: function(u) ** 2))(X)
    np.testing.assert_allclose(have.data, want, rtol=1e-4, atol=1e-5)


@pytest.mark.fast(1)
@pytest.mark.full(0)
@pytest.mark.parametrize("layout", [LAYOUTS[0], LAYOUTS[2]], ids=str)
@pytest.mark.parametrize("name", REFUSED)
def test_rules_with_loops_are_refused(name, layout):
    with pytest.raises(SerialLoopError, match="cannot be executed in steps in a lifted function"):
        mapped(REFUSED[name], layout)(nx.named(jnp.asarray(X), ["k"]))
    have = mapped(REFUSED[name], {"k": "x"})(nx.named(jnp.asarray(X), ["k"]))
    np.testing.assert_allclose(have.data, jax.vmap(REFUSED[name])(X), rtol=1e-5)
