"""Cotangents that a body makes itself, for `jax.vjp` and in rules of derivatives: whatever stands in padding, and whatever they were made of.

A gradient that comes back through reductions is zero in padding and differs from device to device as its values do; one that a body makes is
like any other value of the body.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import namedax as nx
from tests.harness import Placement, array, check, together

FEW = [Placement("uneven", (5,), (("a", "x"),)), Placement("even", (4,), (("a", "x"),), "explicit")]
MORE = [
    Placement("unmapped", None, ()),
    Placement("steps", None, (("a", nx.SerialLoop(3)),)),
    Placement("one-each", (8,), (("a", "x"),)),
    Placement("uneven", (3, 2), (("a", "x"), ("b", "y")), "explicit"),
    Placement("two-mesh-axes", (3, 2), (("a", ("x", "y")),)),
    Placement("devices-and-steps", (2,), (("a", ("x", nx.SerialLoop(3))),), "explicit"),
]
placements = pytest.mark.parametrize("placement", [*FEW, *(pytest.param(p, marks=pytest.mark.fast(0)) for p in MORE)], ids=str)

X, W = array(8, 3), array(4, 3, seed=1)
PATTERN = "{a,c},{b,c}->{a,b}"


def all_of(w):  # [b, c] along a
    return jnp.broadcast_to(w, (8, 4, 3))


def row(x):
    return jnp.abs(x[:, 0]).astype(int) % 4


def named_row(x):
    return nx.abs(x["c", 0]).astype(int) % 4


# Functions of x{a,c} and w{b,c}, and the same by position: w is repeated along a, which it lacks, in every way that there is.
FUNCTIONS = {
    "arithmetic": (lambda x, w: nx.exp(x) / (1 + w**2), lambda x, w: jnp.exp(x)[:, None] / (1 + w**2)),
    "where": (lambda x, w: nx.where(x > 0, w, x), lambda x, w: jnp.where(x[:, None] > 0, w, x[:, None])),
    "einsum": (lambda x, w: nx.einsum(PATTERN, x, w), lambda x, w: x @ w.T),
    "stack": (
        lambda x, w: nx.numpy.stack([x, w]),
        lambda x, w: jnp.stack([jnp.broadcast_to(x[:, None], (8, 4, 3)), all_of(w)]),
    ),
    "read": (lambda x, w: w[{"b": named_row(x)}], lambda x, w: w[row(x)]),
    "written": (lambda x, w: w.at[{"b": 1}].add(x), lambda x, w: all_of(w).at[:, 1].add(x)),
    "broadcast": (lambda x, w: nx.broadcast_to(w, named_shape={"a": 8}), lambda x, w: all_of(w)),
    "zeros": (lambda x, w: nx.zeros(named_shape={"a": 8}) + w, lambda x, w: all_of(w)),
    "full": (
        lambda x, w: nx.full((), nx.sum(w, ("b", "c")), named_shape={"a": 8}),
        lambda x, w: jnp.broadcast_to(w.sum(), (8,)),
    ),
    "mask": (lambda x, w: nx.where(nx.ones(named_shape={"a": 8}, dtype=bool), w, 0.0), lambda x, w: all_of(w)),
    "norm": (
        lambda x, w: nx.nn.rms_norm(x, "c", scale=nx.sum(w, "b")),
        lambda x, w: x / jnp.sqrt((x**2).mean(1, keepdims=True) + 1e-6) * w.sum(0),
    ),
    "nmap": (lambda x, w: nx.nmap(lambda u, v: jnp.sin(u) * v)(x, w), lambda x, w: jnp.sin(x)[:, None] * w),
    "vmap": (lambda x, w: nx.vmap(lambda u: w * 2, "a")(x), lambda x, w: all_of(w * 2)),
    "carry": (
        lambda x, w: nx.scan(lambda c, r: (c * r + x, None), w, jnp.arange(1.0, 4.0))[0],
        lambda x, w: lax.scan(lambda c, r: (c * r + x[:, None], None), all_of(w), jnp.arange(1.0, 4.0))[0],
    ),
    "branch": (
        lambda x, w: nx.cond(nx.sum(x, "c") > 0, lambda: w * 2, lambda: nx.sin(w)),
        lambda x, w: jnp.where((x.sum(1) > 0)[:, None, None], w * 2, jnp.sin(w)),
    ),
    "checkpoint": (
        lambda x, w: jax.checkpoint(lambda w: nx.tanh(nx.einsum(PATTERN, x, w)) * nx.sum(w, "c"))(w),
        lambda x, w: jnp.tanh(x @ w.T) * w.sum(1),
    ),
}


def pulled(f, cos):
    """A function that pulls the cosines of the results of `f` back to its second argument."""

    def g(x, w):
        value, pull = jax.vjp(lambda w: f(x, w), w)
        return pull(cos(value) + 1)[0]

    return g


@pytest.mark.fast(1)
@pytest.mark.full(1)
@placements
def test_of_vjp(placement):
    programs = {
        label: (pulled(named, nx.cos), pulled(plain, jnp.cos), ["b", "c"]) for label, (named, plain) in FUNCTIONS.items()
    }
    check(*reorder(together(programs)), placement, tol=1e-4)


def reorder(programs):
    """What `together` gives, as `check` takes it."""
    named, plain, out_axes = programs
    return named, plain, (X, W), (["a", "c"], ["b", "c"]), out_axes


@nx.custom_vjp
def product(v, w):
    return nx.sum(v * w, "a")


def backward(kept, ct):  # neither cotangent goes through the sum
    v, w = kept
    return ct * w, ct * v


product.defvjp(lambda v, w: (product(v, w), (v, w)), backward)


@nx.custom_jvp
def total(v, w):
    return nx.sum(v * w, "a")


total.defjvp(lambda primals, tangents: (total(*primals), nx.sum(primals[0] * tangents[1] + primals[1] * tangents[0], "a")))


@nx.custom_vjp
def steeper(v):
    return nx.sin(v)


steeper.defvjp(lambda v: (steeper(v), v), lambda v, ct: (ct * nx.cos(v) + 1.0,))


def inner(f):
    """Of a loss of x{a,c} and w{b,c}, the gradient in w."""
    return lambda x, w: jax.grad(lambda w: nx.sum(f(x, w), ("b", "c")))(w)


RULES = {
    "custom_vjp": (
        inner(lambda x, w: product(nx.sin(x * w), x * w)),
        jax.grad(lambda x, w: (jnp.sin(x[:, None] * w) * x[:, None] * w).sum(), 1),
        ["b", "c"],
    ),
    "custom_jvp": (
        inner(lambda x, w: total(nx.sin(x * w), x * w)),
        jax.grad(lambda x, w: (jnp.sin(x[:, None] * w) * x[:, None] * w).sum(), 1),
        ["b", "c"],
    ),
    "a rule that adds": (
        inner(lambda x, w: nx.sum(steeper(x * w), "a")),
        lambda x, w: ((jnp.cos(x[:, None] * w) + 1) * x[:, None]).sum(0),
        ["b", "c"],
    ),
    "linear_transpose": (
        lambda x, w: jax.linear_transpose(jax.linearize(lambda w: w * x, w)[1], w)(nx.cos(w * x))[0],
        lambda x, w: (jnp.cos(x[:, None] * w) * x[:, None]).sum(0),
        ["b", "c"],
    ),
}


@pytest.mark.fast(1)
@pytest.mark.full(1)
@placements
def test_of_rules(placement):
    check(*reorder(together(RULES)), placement, tol=1e-4)


@functools.partial(nx.custom_vjp, nondiff_argnums=(0, 1))
def scaled(function, by, v):
    return nx.sum(function(v), "a") * by


scaled.defvjp(lambda function, by, v: (scaled(function, by, v), v), lambda function, by, v, ct: (ct * by * nx.cos(v),))


def test_arguments_that_a_rule_does_not_differentiate_are_what_they_are_after_the_body():
    f = nx.xmap(jax.grad(lambda x: scaled(nx.sin, 2.0, x)), ["a"], ["a"], **FEW[0].options)
    second = jax.jit(jax.grad(lambda x: f(x).sum()))(X[:, 0])
    np.testing.assert_allclose(second, -2 * jnp.sin(X[:, 0]), rtol=1e-5, atol=1e-6)


ON_EXPLICIT = [
    {"c": nx.SerialLoop(3), "b": "y"},
    {"c": ("y", nx.SerialLoop(3))},
    {"c": nx.SerialLoop(3), "b": ("y", nx.SerialLoop(2))},
    {"c": nx.SerialLoop(3)},
    {"b": "y"},
]


@pytest.mark.full(2)
@pytest.mark.fast(0)
@pytest.mark.parametrize("others", ON_EXPLICIT, ids=str)
def test_that_do_not_say_where_they_lie(others):
    """Within `jax.jit`, an array that is known when it is traced has no mesh in its type, and may be a cotangent of a result that is cut."""
    mesh = jax.make_mesh((4, 2), ("x", "y"), axis_types=(jax.sharding.AxisType.Explicit,) * 2)
    weights, axes = array(8, 4, 3, seed=2), ["a", "b", "c"]
    f = nx.xmap(
        lambda x, w: nx.sin(x) * nx.sum(w, "c"), (["a", "c"], ["b", "c"]), axes, axis_resources={"a": "x", **others}, mesh=mesh
    )
    with jax.set_mesh(mesh):
        have = jax.jit(lambda x, w: jax.vjp(f, x, w)[1](jnp.asarray(weights)))(X, W)
    want = jax.vjp(lambda x, w: jnp.sin(x)[:, None] * w.sum(1)[:, None], X, W)[1](jnp.asarray(weights))
    for name, g, wanted in zip("xw", have, want, strict=True):
        np.testing.assert_allclose(g, wanted, rtol=1e-4, atol=1e-5, err_msg=name)
