"""What is whole for all steps of a loop (summed, indexed, gathered) and gets the loop's name, or meets it, and its gradients.

A step has its block of such a value, and adds nothing up; the gradient of what was gathered from the steps adds up once. Oracles
are `jnp`.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import namedax as nx
from tests.harness import Placement, array, check, together

LOOP = nx.SerialLoop
PLACEMENTS = [
    Placement("steps", None, (("b", LOOP(2)),)),
    Placement("devices-and-four-steps", (2, 2), (("b", ("x", LOOP(4))),)),
    Placement("two-mesh-axes-and-steps", (2, 2), (("b", ("y", "x", LOOP(2))),), "explicit"),
    Placement("another-name-on-the-mesh", (4, 2), (("b", LOOP(2)), ("q", "x"), ("d", "y"))),
    Placement("another-on-the-same-mesh-axis", (2, 2), (("b", ("x", LOOP(2))), ("q", "x"))),
    Placement("two-loops", (2, 2), (("b", ("x", LOOP(2))), ("q", LOOP(4)))),
    Placement("one-loop", None, (("b", "steps"), ("q", "steps"))),
    Placement("one-loop-and-devices", (2, 2), (("b", ("x", "steps")), ("q", ("y", "steps")))),
]
INSIDE = [
    p for p in PLACEMENTS if p.label in ("steps", "devices-and-four-steps", "another-name-on-the-mesh", "one-loop-and-devices")
]

ARGS = array(8, 4), array(8, seed=1), array(4, 8, seed=2)
AXES = ["b", "d"], ["b"], ["d", "q"]


def onto(v):
    return nx.rename(v, {"q": "b"})


def gathered(x):
    return nx.rename(x, {"b": "c"})


def power_step(a, u, v):
    v = onto(nx.dot(nx.dot(a, v, "b"), u, "d"))
    return v / nx.sqrt(nx.sum(v**2, "b"))


def plain_power_step(a, u, v):
    v = (v @ a) @ u
    return v / jnp.sqrt((v**2).sum())


# Named program and positional oracle of a: [b, d], x: [b] and u: [d, q], with the axes of the result. The loop's name is b; b and q
# never meet.
PROGRAMS = {
    # Whole, and renamed onto the loop's name.
    "summed": (lambda a, x, u: onto(nx.dot(nx.sum(a, "b"), u, "d")), lambda a, x, u: a.sum(0) @ u, ["b"]),
    "summed, and used twice": (
        lambda a, x, u: (lambda s: nx.sin(onto(s)) * x * nx.mean(s, "q") + s["q", 2])(nx.dot(nx.sum(a, "b"), u, "d")),
        lambda a, x, u: (lambda s: jnp.sin(s) * x * s.mean() + s[2])(a.sum(0) @ u),
        ["b"],
    ),
    "maximum": (lambda a, x, u: onto(nx.dot(nx.max(a, "b"), u, "d")) - x, lambda a, x, u: a.max(0) @ u - x, ["b"]),
    "indexed": (lambda a, x, u: onto(nx.dot(a["b", 5], u, "d")) * x, lambda a, x, u: (a[5] @ u) * x, ["b"]),
    "taken": (
        lambda a, x, u: onto(nx.dot(nx.sum(nx.take(a, jnp.array([1, 6, 1]), "b"), 0), u, "d")),
        lambda a, x, u: a[jnp.array([1, 6, 1])].sum(0) @ u,
        ["b"],
    ),
    "parameter": (lambda a, x, u: nx.sin(x * onto(nx.sum(u, "d"))), lambda a, x, u: jnp.sin(x * u.sum(0)), ["b"]),
    "names that change places": (
        lambda a, x, u: nx.dot(gathered(a), onto(u), "d"),
        lambda a, x, u: a @ u,
        ["c", "b"],
    ),
    # Gathered from the steps.
    "under another name": (lambda a, x, u: nx.sin(gathered(x)), lambda a, x, u: jnp.sin(x), ["c"]),
    "maximum of what is gathered": (lambda a, x, u: x * nx.max(gathered(x), "c"), lambda a, x, u: x * x.max(), ["b"]),
    "read in a contraction": (
        lambda a, x, u: nx.einsum("{b,d},{d,c:q},{c:b}->{b}", a, nx.tanh(u), x),
        lambda a, x, u: a @ (jnp.tanh(u) @ x),
        ["b"],
    ),
    "positional": (lambda a, x, u: x * jnp.max(nx.positional(x, ["b"])), lambda a, x, u: x * x.max(), ["b"]),
    "positional, and named again": (
        lambda a, x, u: x * nx.named(jnp.sort(nx.positional(x, ["b"])), ["b"]),
        lambda a, x, u: x * jnp.sort(x),
        ["b"],
    ),
    "all_gather": (
        lambda a, x, u: a * nx.logsumexp(nx.lax.all_gather(x, "b"), 0),
        lambda a, x, u: a * jax.nn.logsumexp(x),
        ["b", "d"],
    ),
    "psum_scatter": (
        lambda a, x, u: nx.lax.psum_scatter(nx.lax.all_gather(nx.sin(x), "b") * x, "b"),
        lambda a, x, u: jnp.sin(x) * x.sum(),
        ["b"],
    ),
    "top_k": (
        lambda a, x, u: a * nx.sum(nx.top_k(a, 3, axis="b", out_axis="k").values ** 2, "k"),
        lambda a, x, u: a * (jax.lax.top_k(a.T, 3)[0] ** 2).sum(1),
        ["b", "d"],
    ),
    "updated with a sum": (
        lambda a, x, u: nx.tanh(x.at["b", 3].add(nx.sum(x, "b"))),
        lambda a, x, u: jnp.tanh(x.at[3].add(x.sum())),
        ["b"],
    ),
    # Both ways, again and again.
    "gathered and back": (
        lambda a, x, u: x * nx.rename(nx.cumsum(gathered(x), "c"), {"c": "b"}),
        lambda a, x, u: x * jnp.cumsum(x),
        ["b"],
    ),
    "power iteration": (
        lambda a, x, u: functools.reduce(lambda v, _: power_step(a, u, v), range(2), x),
        lambda a, x, u: functools.reduce(lambda v, _: plain_power_step(a, u, v), range(2), x),
        ["b"],
    ),
    "in a scan": (
        lambda a, x, u: nx.fold(
            lambda v, row: nx.sin(v) * x + nx.rename(row, {"c": "b"}), nx.sum(x, "b"), nx.rename(u, {"q": "c"}), axis="d"
        ),
        lambda a, x, u: functools.reduce(lambda v, row: jnp.sin(v) * x + row, u, x.sum()),
        ["b"],
    ),
}


@pytest.fixture(autouse=True)
def _loop():
    with nx.serial_loop("steps", 2):
        yield


def _total(out):
    named = isinstance(out, nx.NamedArray)
    return nx.sum(nx.sin(out) * out + out, tuple(out.named_shape)) if named else jnp.sum(jnp.sin(out) * out + out)


def gradient(program):
    """The program that takes the gradient of a loss that differs from entry to entry."""
    return jax.grad(lambda a, x, u: _total(program(a, x, u)), argnums=(0, 1, 2))


def gradients(named, plain, out):
    return lambda a, x, u: gradient(named)(a, x, u), gradient(plain), AXES


def _some(placement, parts):
    """Half of the programs, the other half in the next placement, in several parts."""
    half = sorted(PROGRAMS)[PLACEMENTS.index(placement) % 2 :: 2]
    return [half[start::parts] for start in range(parts)]


@pytest.mark.full(0)
@pytest.mark.fast(1)
@pytest.mark.parametrize("placement", PLACEMENTS, ids=str)
@pytest.mark.parametrize("part", range(2))
def test_values_and_gradients_outside(part, placement):
    named, plain, out = together({name: PROGRAMS[name] for name in _some(placement, 2)[part]})
    check(named, plain, ARGS, AXES, out, placement)


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize("placement", INSIDE, ids=str)
def test_gradients_inside(placement):
    named, plain, out = together({name: gradients(*PROGRAMS[name]) for name in _some(placement, 1)[0]})
    check(named, plain, ARGS, AXES, out, placement, grad=False, tol=1e-4)


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize("name", ["summed", "maximum of what is gathered", "power iteration"])
def test_second_derivatives(name):
    placement = next(p for p in PLACEMENTS if p.label == "devices-and-four-steps")
    named, plain, out = gradients(*PROGRAMS[name])
    check(named, plain, ARGS, AXES, out, placement, tol=1e-4)


# --- programs whose derivatives have arrays of their own, as the networks that sort blocks do ---------------------------------------

SIZED = array(8, 4, seed=3)


def _quantile_of(x):
    ordered = jnp.sort(x, 0)  # of eight entries
    return 0.9 * ordered[2] + 0.1 * ordered[3]


WITH_CONSTANTS = {
    "sort": (lambda x: nx.sort(x, "k") ** 2, lambda x: jnp.sort(x, 0) ** 2, ["k", "d"]),
    "median": (lambda x: nx.median(x, "k") ** 2, lambda x: jnp.median(x, 0) ** 2, ["d"]),
    "quantile": (lambda x: nx.quantile(x, 0.3, "k") ** 2, lambda x: _quantile_of(x) ** 2, ["d"]),
    "top_k": (
        lambda x: nx.top_k(x, 3, axis="k", out_axis="i").values ** 2,
        lambda x: jax.lax.top_k(x.T, 3)[0].T ** 2,
        ["i", "d"],
    ),
    "cummax": (lambda x: nx.cummax(x, "k") ** 2, lambda x: jax.lax.cummax(x) ** 2, ["k", "d"]),
}


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize("shape", [(4,), (2, 2)], ids=str)
def test_gradients_outside_of_what_has_arrays_of_its_own(shape):
    resources = (("k", "x"), ("d", LOOP(2) if len(shape) == 1 else ("y", LOOP(2))))
    named, plain, out = together(WITH_CONSTANTS)
    check(named, plain, [SIZED], (["k", "d"],), out, Placement("beside", shape, resources))


@pytest.mark.fast(0)
@pytest.mark.parametrize("placement", PLACEMENTS[:3], ids=str)
def test_what_a_scan_begins_with_counts_once_where_all_else_is_whole(placement):
    def after(w, total):
        for factor in (1.0, 2.0, 3.0):
            w = 0.5 * w + total(w, factor)
        return w

    def body(x, w):
        def f(v):
            return nx.fold(lambda c, s: 0.5 * c + nx.sum(v * s + x, "b"), v, jnp.arange(1.0, 4.0))

        return jax.linearize(f, w)[1](jnp.float32(2.0))  # the tangents of a scan, of which none differs from step to step

    mapped = nx.xmap(body, (["b"], []), [], **placement.options)
    assert float(mapped(ARGS[1], jnp.float32(3.0))) == pytest.approx(after(2.0, lambda w, factor: 8 * 2.0 * factor))


@pytest.mark.full(1)
@pytest.mark.fast(0)
def test_loops_that_become_others_find_their_order_at_once():
    # Six loops, of which some are only possible within others: of all 720 orders it may not try one after the other.
    x, y = array(4, 2), array(8, 2, seed=1)
    steps = {"a": 4, "c": 4, "b": 2, "d": 2, "k": 2, "l": 2}

    def body(x, y):
        return nx.rename(x, {"k": "l", "b": "d"}), nx.lax.psum_scatter(nx.rename(y, {"k": "l", "a": "c"}), "l", tiled=True)

    resources = {name: nx.SerialLoop(count) for name, count in steps.items()}
    f = nx.xmap(body, (["b", "k"], ["a", "k", None]), (["d", "l"], ["c", "l", None]), axis_resources=resources)
    y = jnp.stack([y, 2 * y, 3 * y, 4 * y], 2)

    def oracle(x, y):
        return x, y.sum(1).reshape(8, 2, 2)

    for have, want in zip(f(x, y), oracle(x, y), strict=True):
        np.testing.assert_allclose(have, want, rtol=1e-5)

    def loss(f):
        return lambda x, y: sum(jnp.sum(jnp.sin(part)) for part in f(x, y))

    for have, want in zip(jax.grad(loss(f), (0, 1))(x, y), jax.jit(jax.grad(loss(oracle), (0, 1)))(x, y), strict=True):
        np.testing.assert_allclose(have, want, rtol=1e-4, atol=1e-5)
