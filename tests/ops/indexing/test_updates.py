"""Updates by name, in every placement, against `jnp`'s `.at` on positional arrays."""

from operator import attrgetter

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import namedax as nx
from namedax.errors import AxisNotFoundError, AxisSizeError, PlacementConflictError, PositionalAxisError
from namedax.hlo import collectives
from tests import make
from tests.harness import FEW, PLACEMENTS, array, check, make_mesh

at = attrgetter("at")

X = array(8, 4, 3, 5)  # a, b, c, and a positional axis
AXES = ["a", "b", "c", None]
GRAD = ("one-each-auto", "both-explicit", "two-reversed-auto")
V = array(4, 5, seed=3)  # b, and the positional axis
W = array(8, 4, seed=4)  # a, b
IDX = make.array([2, -1, 2, 11, -9])  # along a: twice 2, the last, and two out of range
OWN = make.array([5, 0, 7, 7, 1, 2, 3, 6])  # 7 is there twice
PER_B = make.array([7, 0, 3, 9])
U = array(5, 3, seed=5)  # an axis for IDX, c


def program(x, v, w, u, own, per_b):
    return (
        at(x)["a", 3].set(v),
        at(x)["a", slice(2, 7, 2), "c", 1].add(v),
        at(x)[{"a": IDX}].add(nx.named(u, {1: "c"})[:, None]),
        at(x)[{"a": own}].add(w),
        at(x)[{"a": per_b, "b": slice(None)}].multiply(nx.named(V, ["b", None])),
        at(x)[{"a": per_b, 0: 2}].set(nx.named(jnp.arange(4.0), ["b"])),
        at(x)["a", slice(None, None, -1)].set(w),
        at(x)[1:4].add(w),
        at(x)[nx.named(jnp.array([0, 1, 4]), ["c"])].set(w),
        at(x)["a", nx.named(jnp.array([1, 6]), ["n"])].set(0.5),
        at(x)[{"c": slice(0, 2), 0: slice(None, None, 2)}].subtract(v[::2]),
        at(x)[x > 0.5].set(v),
    )


B, C = make.arange(4), make.arange(3)


@jax.jit
def oracle(x, v, w, u, own, per_b):
    masked = jnp.where(x > 0.5, v[:, None], x)
    both = jnp.stack([x.at[i].set(0.5) for i in (1, 6)])
    return (
        x.at[3].set(v[:, None]),
        x.at[2:7:2, :, 1].add(v),
        x.at[IDX].add(u[:, None, :, None]),
        x.at[own].add(w[:, :, None, None]),
        x.at[per_b, B].multiply(V[:, None]),
        x.at[per_b, B, :, 2].set(jnp.arange(4.0)[:, None]),
        w[::-1][:, :, None, None] + 0 * x,
        x.at[..., 1:4].add(w[:, :, None, None]),
        x.at[:, :, C, jnp.array([0, 1, 4])].set(w[:, :, None]),
        both,
        x.at[:, :, :2, ::2].subtract(v[:, None, ::2]),
        masked,
    )


IN_AXES = (AXES, ["b", None], ["a", "b"], [None, None], ["a"], ["b"])
OUT_AXES = (AXES, AXES, AXES, AXES, AXES, AXES, AXES, AXES, AXES, ["n", *AXES], AXES, AXES)


@pytest.mark.fast(1)
@pytest.mark.full(0)
@pytest.mark.parametrize("placement", PLACEMENTS, ids=str)
def test_updates_as_jnp_does(placement):
    args = (X, V, W, U, OWN, PER_B)
    check(program, oracle, args, IN_AXES, OUT_AXES, placement, grad=str(placement) in GRAD)


@pytest.mark.full(0)
@pytest.mark.fast(1)
@pytest.mark.parametrize("placement", FEW, ids=str)
def test_all_methods(placement):
    x, y = jnp.abs(X) + 0.5, jnp.abs(V) + 0.5

    def fun(x, v):
        there = at(x)[{"a": nx.named(jnp.array([2, 5]), ["n"]), "c": 2}]
        twice = at(x)["a", jnp.array([[4, 1], [4, 0]])]
        return (
            there.divide(nx.named(y, ["b", None])),  # JAX has no gradient for the divisor, the factor and the exponent
            there.power(nx.named(y, ["b", None])),
            there.min(v),
            there.max(v),
            twice.min(0.8),
            at(x)["a", nx.named(np.arange(8) % 3 == 0, ["a"])].power(y[0, 0]),
            at(x)["a", np.arange(8) % 3 == 0].divide(y[1, 1]),
        )

    @jax.jit
    def want(x, v):
        def each(method, v):
            return jnp.stack([getattr(x.at[i, :, 2], method)(v) for i in (2, 5)])

        at_mask = x.at[jnp.array([0, 3, 6])]
        return (
            each("divide", y),
            each("power", y),
            each("min", v),
            each("max", v),
            x.at[jnp.array([4, 1, 0])].min(0.8),
            at_mask.power(y[0, 0]),
            at_mask.divide(y[1, 1]),
        )

    out = (["n", *AXES],) * 4 + (AXES,) * 3
    check(fun, want, (x, y), (AXES, ["b", None]), out, placement, grad=str(placement) in GRAD)

    def modes(x, v):
        return (
            at(x)["a", IDX].set(7.0, mode="clip"),
            at(x)["a", IDX].mul(2.0, mode="drop"),
            at(x)["a", jnp.array([2, 4])].apply(jnp.exp),
            at(x)[x < 1].apply(jnp.exp),
            at(x)[0, ...].apply(jnp.exp),
        )

    def want_modes(x, v):
        return (
            x.at[IDX].set(7.0, mode="clip"),
            x.at[IDX].mul(2.0, mode="drop"),
            x.at[jnp.array([2, 4])].apply(jnp.exp),
            jnp.where(x < 1, jnp.exp(x), x),
            x.at[..., 0].apply(jnp.exp),
        )

    check(modes, jax.jit(want_modes), (x, y), (AXES, ["b", None]), (AXES,) * 5, placement, grad=False)


@pytest.mark.fast(0)
@pytest.mark.parametrize("placement", FEW, ids=str)
def test_integers_and_truth_values(placement):
    x = array(8, 4, kind="int")

    def fun(x):
        return at(x)["a", IDX].add(3), at(x > 0)["a", 2].set(True), at(x)["a", 1].set(nx.lax.axis_index("b"))

    def want(x):
        return x.at[IDX].add(3), (x > 0).at[2].set(True), x.at[1].set(jnp.arange(4))

    check(fun, jax.jit(want), (x,), (["a", "b"],), (["a", "b"],) * 3, placement, grad=False)


@pytest.mark.fast(0)
@pytest.mark.parametrize("placement", FEW, ids=str)
def test_named_values_have_positional_axes_at_an_index_of_a_positional_axis(placement):
    rows, numbers = make.array([3, 0]), array(8, 2, seed=8)

    def fun(x, v, w):
        return at(x)[{0: rows}].set(v), at(x)[{0: rows, "b": 1}].add(v), at(x)[{0: 2}].multiply(w)

    def want(x, v, w):
        return (
            x.at[..., rows].set(v[:, None, None]),
            x.at[:, 1, :, rows].add(v.T[..., None]),
            x.at[..., 2].multiply(w[..., None]),
        )

    in_axes = (AXES, ["a", None], ["a", "b"])
    check(fun, jax.jit(want), (X, numbers, W), in_axes, (AXES,) * 3, placement, grad=False)


@pytest.mark.fast(0)
def test_nothing_is_sent():
    def fun(x, v):
        return (
            at(x)["a", 3].set(v),
            at(x)["a", slice(2, 7)].add(v),
            at(x)["a", IDX].add(1.0),
            at(x)[x > 0].multiply(v),
            at(x)["k", 1].set(0.0),
        )

    options = {"mesh": make_mesh((4, 2)), "axis_resources": {"a": "x"}}
    mapped = nx.xmap(fun, (["a", "k"], ["k"]), ["a", "k"], **options)
    x, v = make.ones((8, 6)), make.ones(6)
    assert collectives(mapped.lower(x, v).compile()) == ()
    backward = jax.jit(jax.grad(lambda x: sum(jnp.sum(leaf**2) for leaf in mapped(x, v))))
    assert collectives(backward.lower(x).compile()) == ()


@pytest.mark.fast(0)
def test_an_index_that_another_device_has_leaves_the_gradient_alone():
    # XLA of jaxlib 0.10.2 gets this wrong for a scatter at one index out of range.
    options = {"mesh": make_mesh((4, 2)), "axis_resources": {"a": "x", "b": "y"}}
    x, weights = array(8, 4), array(8, 4, seed=1)
    updates = [
        lambda x: at(x)["a", 3].set(0.5),
        lambda x: at(x)["a", jnp.array([3])].set(0.5),
        lambda x: at(x)["a", 3].power(2.0),
        lambda x: at(x)["a", 3, "b", 1].set(0.5),
    ]
    for update in updates:
        mapped = nx.xmap(update, (["a", "b"],), ["a", "b"], **options)
        alone = nx.xmap(update, (["a", "b"],), ["a", "b"])
        have = jax.jit(jax.grad(lambda x, f=mapped: jnp.sum(f(x) * weights)))(x)
        want = jax.jit(jax.grad(lambda x, f=alone: jnp.sum(f(x) * weights)))(x)
        np.testing.assert_allclose(have, want, rtol=1e-5)


def test_an_index_with_the_sharded_axis_gathers_itself_and_the_values():
    options = {"mesh": make_mesh((4, 2)), "axis_resources": {"a": "x"}}
    fun = nx.xmap(lambda x, i, v: at(x)[{"a": i}].add(v), (["a", "k"], ["a"], ["a", "k"]), ["a", "k"], **options)
    args = make.zeros((8, 6)), OWN, array(8, 6)
    np.testing.assert_allclose(fun(*args), args[0].at[OWN].add(args[2]))
    assert sorted((c.kind, c.bytes) for c in collectives(fun.lower(*args).compile())) == [
        ("all-gather", 32),
        ("all-gather", 192),
    ]


def test_outside_of_mapped_functions():
    x = nx.named(X, AXES)
    v = nx.named(array(3, 3, seed=7), ["a", "c"])
    have = nx.positional(at(x)["a", 2:5].set(v), AXES)
    np.testing.assert_array_equal(have, X.at[2:5].set(v.data[:, None, :, None]))
    row = nx.named(make.array([3, 0, 1]), ["a"])
    have = nx.positional(at(x)[{"a": slice(2, 5), "b": row}].set(v), AXES)
    np.testing.assert_array_equal(have, X.at[jnp.array([2, 3, 4]), row.data].set(v.data[..., None]))
    unchanged = nx.positional(at(x)[{}].add(0.0), AXES)
    np.testing.assert_array_equal(unchanged, X)
    assert at(x)["a", 2].set(1.0).dims == x.dims
    assert repr(at(x)["a", 2]).endswith("at ('a', 2)>")


ONCE = make.array([6, 1, -8, 9])  # different ones, the last out of range


@pytest.mark.full(2)
@pytest.mark.fast(0)
@pytest.mark.parametrize("devices", [4, 3])
@pytest.mark.parametrize("method", ["multiply", "divide"])
def test_products_at_several_entries_of_a_sharded_axis_have_gradients(method, devices):
    mesh = jax.make_mesh((devices,), ("x",), (jax.sharding.AxisType.Auto,), devices=jax.devices()[:devices])

    def named_total(x, scale, factors):
        x = getattr(at(x)["a", 6:1:-2], method)(scale)
        return nx.sum(getattr(at(x)[{"a": ONCE}], method)(factors, unique_indices=True) ** 3, "a")

    def total(x, scale, factors):
        x = getattr(at(x)[6:1:-2], method)(scale)
        return jnp.sum(getattr(at(x)[ONCE], method)(factors, unique_indices=True) ** 3)

    mapped = nx.xmap(named_total, (["a"], [], [None]), [], mesh=mesh, axis_resources={"a": "x"})
    args = X[:, 0, 0, 0], jnp.float32(1.5), jnp.array([2.0, 0.5, 3.0, 7.0])
    have, want = (jax.jit(jax.value_and_grad(f, (0, 1, 2)))(*args) for f in (mapped, total))
    jax.tree.map(lambda h, w: np.testing.assert_allclose(h, w, rtol=1e-5), have, want)


@pytest.mark.parametrize(
    ("update", "kind", "message"),
    [
        (lambda x: at(x)["d", 3].set(0.0), AxisNotFoundError, "at[...].set: no axis 'd' in"),
        (lambda x: at(x)["a", 9].add(0.0), AxisSizeError, "at[...].add: index 9 is out of range for axis 'a' of size 8"),
        (lambda x: at(x)["a", 3].set(x), AxisNotFoundError, "have the axis 'a', which the index removes"),
        (lambda x: at(x)["a", 0:3].set(x), AxisSizeError, "have 8 elements along 'a', but the slice has 3"),
        (lambda x: at(x)["a", 3].set(jnp.zeros((2, 5))), PositionalAxisError, "have 2 positional axes"),
        (lambda x: at(x)["a", 3].set(0.0, mode="wrap"), PositionalAxisError, "got 'wrap'"),
        (
            lambda x: at(x)[{"a": np.zeros(8, bool), "b": 2}].set(0.0),
            PositionalAxisError,
            "cannot be combined with a boolean mask",
        ),
    ],
)
def test_mistakes(update, kind, message):
    with pytest.raises(kind) as error:
        update(nx.named(X, AXES))
    assert message in str(error.value)


def test_mistakes_in_mapped_functions():
    options = {"mesh": make_mesh((4, 2)), "axis_resources": {"a": "x", "t": "x"}}
    with pytest.raises(PlacementConflictError, match="'a' and 't' meet in one value"):
        nx.xmap(lambda x, v: at(x)["a", 3].set(v), (["a"], ["t"]), None, **options)(make.zeros(8), make.zeros(4))
    with pytest.raises(AxisNotFoundError, match=r"which is sharded and only partly updated.*nx.where"):
        nx.xmap(lambda x: at(x)["a", 0:3].set(x), (["a"],), None, mesh=make_mesh((4, 2)), axis_resources={"a": "x"})(
            make.zeros(8)
        )


@pytest.mark.parametrize("mapped", [False, True])
@pytest.mark.parametrize("method", ["add", "multiply", "divide", "power", "subtract"])
def test_booleans_have_no_arithmetic_in_any_layout(method, mapped):
    def update(x):
        return getattr(x.at["n", 1], method)(True)

    f = nx.xmap(update, axis_resources={"n": "x"}, mesh=make_mesh((4,))) if mapped else update
    with pytest.raises(nx.errors.ArgumentTypeError, match=rf"at\[...\].{method}: bool\[\]\{{n:8.*\}} is boolean.*\.max \(or\)"):
        f(nx.named(jnp.arange(8) > 3, ["n"]))
