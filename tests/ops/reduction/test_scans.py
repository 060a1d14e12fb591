"""Cumulative operations, in every placement."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import namedax as nx
from namedax.hlo import collectives
from tests.harness import PLACEMENTS, array, check, make_mesh

IN, OUT = ["a", None, "b"], {0: "a", 2: "b"}


def _args():
    x = array(8, 3, 4)
    # The steps differ by device, so that a missing or a doubled prefix shows; a zero, so that no product's gradient divides.
    return x, x.at[2, 1].set(jnp.nan), (1 + 0.3 * x).at[3, 0].set(0.0), array(8, 3, 4, kind="int").astype(jnp.int8)


def _functions(np_, lx, a, p):
    """The same calls for names (`a`, position 0) and for positions."""

    def f(x, with_nan, factors, whole):
        return (
            np_.cumsum(x, a),
            lx.cumsum(x, a, True),
            np_.cumprod(factors, a),
            lx.cumprod(factors, a, True),
            lx.cummax(x, a),
            lx.cummin(x, a, True),
            lx.cumlogsumexp(3 * x, a),
            np_.nancumsum(with_nan, a),
            np_.nancumprod(with_nan, axis=a),
            np_.cumsum(whole, a),
            np_.cumulative_sum(whole, axis=a),
            np_.cumsum(whole, a, jnp.float32),
            lx.cummax(whole, a, True),
            np_.cumsum(x, p),
        )

    return f


_named = _functions(nx.numpy, nx.lax, "a", 0)
_plain = jax.jit(_functions(jnp, lax, 0, 1))


@pytest.mark.full(1)
@pytest.mark.fast(1)
@pytest.mark.parametrize(
    "placement", [p for p in PLACEMENTS if p.kind == "auto" or p.label in ("both", "two-reversed")], ids=str
)
def test_every_scan_in_every_placement(placement):
    check(_named, _plain, _args(), (IN,) * 4, [*IN[:1], None, "b"], placement, tol=5e-5)


@pytest.mark.fast(0)
def test_a_plain_array_and_flattened_positional_axes():
    x = array(3, 4)
    named = nx.named(array(3, 4, 5), [None, "k", None])
    np.testing.assert_array_equal(nx.cumsum(x), jnp.cumsum(x))
    np.testing.assert_array_equal(nx.cummax(x, 1), lax.cummax(x, 1))
    want = jnp.stack([jnp.cumprod(array(3, 4, 5)[:, i]) for i in range(4)])
    np.testing.assert_allclose(nx.positional(nx.cumprod(named), ["k", None]), want, rtol=1e-6)
    np.testing.assert_allclose(nx.cumsum(x, 0, reverse=True), jnp.cumsum(x[::-1], 0)[::-1])
    np.testing.assert_allclose(
        nx.positional(nx.numpy.cumulative_sum(named, axis=1, include_initial=True), [None, "k", None]),
        jnp.cumulative_sum(array(3, 4, 5), axis=2, include_initial=True),
    )


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize("axis", [("x", "y"), ("y", "x"), "x"])
def test_nans_and_infinities_stay_where_jnp_has_them(axis):
    x = array(8, 3).at[5, 0].set(jnp.nan).at[6, 1].set(jnp.inf).at[0, 2].set(-jnp.inf).at[1, 2].set(-jnp.inf)

    def functions(a):
        return lambda x: (lax_of(a)(x, "cumsum"), lax_of(a)(x, "cummax"), lax_of(a)(x, "cumlogsumexp"))

    def lax_of(a):
        return lambda x, name: getattr(nx.lax, name)(x, a)

    f = nx.xmap(functions("a"), ["a", None], ["a", None], mesh=make_mesh((2, 4)), axis_resources={"a": axis})
    for have, name in zip(f(x), ("cumsum", "cummax", "cumlogsumexp"), strict=True):
        np.testing.assert_allclose(have, getattr(lax, name)(x, 0), rtol=1e-5)
    # No derivative of an unused branch leaks, and two elements of minus infinity side by side have the derivative zero (NaN in JAX).
    y = x.at[5, 0].set(0.0).at[6, 1].set(1.0)
    grads = jax.grad(lambda y: jnp.sum(f(y)[2][2:]))(y)
    np.testing.assert_allclose(grads, jax.jit(jax.grad(lambda y: jnp.sum(by_definition(y)[2:])))(y), rtol=1e-5)


def by_definition(x):
    """The cumulative logarithm of the sum of exponentials along the first dimension, whose first two elements may be minus infinity."""
    return jnp.stack([x[0], x[1], *[jax.nn.logsumexp(x[: i + 1], 0) for i in range(2, x.shape[0])]])


@pytest.mark.full(2)
@pytest.mark.fast(0)
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("layout", ["unmapped", "entries", "chunks", "uneven", "steps", "explicit"])
def test_the_gradient_of_masked_elements_is_zero(layout, reverse):
    mask = jnp.array([[1, 1, 0, 0, 1, 1, 1, 0], [0, 1, 1, 1, 1, 1, 1, 1], [0, 0, 0, 1, 1, 0, 1, 1]], bool)
    x = jnp.where(mask[:, ::-1] if reverse else mask, -jnp.inf, array(3, 8))
    weights = array(8, seed=1)

    def loss(x):
        y = nx.cumlogsumexp(x, "a", reverse)
        return nx.sum(nx.where(nx.isfinite(y), y, 0.0) * nx.named(weights, ["a"]), ["b", "a"])

    def want(x):
        ordered, factors = (x[:, ::-1], weights[::-1]) if reverse else (x, weights)
        sums = [jnp.sum(jnp.exp(ordered[:, : i + 1]), 1) for i in range(8)]  # of numbers that are small enough
        return sum(
            jnp.sum(jnp.where(s > 0, jnp.log(jnp.where(s > 0, s, 1)), 0) * w) for s, w in zip(sums, factors, strict=True)
        )

    f = loss
    if layout not in ("unmapped", "explicit"):
        mesh = {"entries": make_mesh((8,)), "chunks": make_mesh((4,)), "uneven": make_mesh((3,)), "steps": None}[layout]
        f = nx.xmap(loss, ["b", "a"], [], mesh=mesh, axis_resources={"a": nx.SerialLoop(4) if mesh is None else "x"})
        given = x
    else:
        given = nx.named(x, ["b", "a"])
    if layout == "explicit":
        mesh = jax.make_mesh((4,), ("x",))
        with jax.set_mesh(mesh):  # the first cotangent of JAX has no devices otherwise
            have = jax.grad(f)(nx.shard(given, {"a": "x"}, mesh))
    else:
        have = jax.grad(f)(given)
    np.testing.assert_allclose(getattr(have, "data", have), jax.grad(want)(x), rtol=2e-5, atol=1e-6)


@pytest.mark.full(1)
@pytest.mark.fast(0)
def test_communication_is_one_gather_of_the_totals_and_its_transpose():
    mesh = make_mesh((8,))
    x = array(64, 5)
    for name in ("cumsum", "cummax", "cumlogsumexp"):
        f = nx.xmap(
            lambda x, name=name: getattr(nx.lax, name)(x, "a"), ["a", None], ["a", None], mesh=mesh, axis_resources={"a": "x"}
        )
        (gather,) = collectives(jax.jit(f).lower(x).compile())
        assert (gather.kind, gather.bytes) == ("all-gather", 8 * 5 * 4)
        both = collectives(jax.jit(jax.grad(lambda x, f=f: jnp.sum(f(x) ** 2))).lower(x).compile())
        assert sorted(c.kind for c in both) == ["all-gather", "reduce-scatter"]
        assert {c.bytes for c in both} == {8 * 5 * 4}
    along_whole = nx.xmap(lambda x: nx.cumsum(x, "c"), ["a", "c"], ["a", "c"], mesh=mesh, axis_resources={"a": "x"})
    assert collectives(jax.jit(along_whole).lower(x).compile()) == ()


def test_mistakes():
    x = nx.named(array(8, 3), ["pos", None])
    with pytest.raises(
        nx.errors.AxisNotFoundError, match=r"cumsum: no axis 'poss' in f\d\d\[3\]\{pos:8\}.*Did you mean 'pos'\?"
    ):
        nx.cumsum(x, "poss")
    with pytest.raises(
        nx.errors.PositionalAxisError, match=r"lax.cummax: axis=\('pos', 0\) must be one positional or named axis"
    ):
        nx.cummax(x, ("pos", 0))
    with pytest.raises(nx.errors.PositionalAxisError, match="axis= is required unless there is exactly one positional axis"):
        nx.numpy.cumulative_sum(nx.sum(x, 0))
    with pytest.raises(nx.errors.PositionalAxisError, match="positional axis 1 is out of range"):
        nx.cumsum(x, 1)
