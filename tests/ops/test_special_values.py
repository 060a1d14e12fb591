"""NaN, infinities, signed zeros and numbers at the ends of a type, in every layout, against `jnp` on the whole array."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import namedax as nx
from tests.harness import make_mesh

NAN, INF, BIG = np.nan, np.inf, np.finfo(np.float32).max
# Eight columns of eight elements: zeros of both signs, NaN first, last and in the middle, infinities, and numbers near the largest.
X = np.array(
    [
        [-0.0, 0.0, -0.0, 0.0, 0.0, -0.0, 0.0, -0.0],
        [NAN, 1, 2, 3, 1, 2, 3, 4],
        [1, 2, -INF, 3, INF, 4, -INF, 5],
        [1, -0.0, 2, -0.0, 1, 1, -1, 1],
        [3, 1, NAN, 3, 0, 0, 2, 1],
        [0, -0.0, 0, -0.0, 2, 1, 2, 3],
        [BIG / 16, BIG / 16, 1, 0.5, BIG / 32, -1, 3, 0],
        [5, 4, 3, 2, 1, 0, INF, NAN],
    ],
    np.float32,
).T
PICK = np.array([1, 3, 0, 6, 1])
POINTS = np.array([0, 1, 2.5, 3, 5, 5.5, 7, 8], np.float32)

# Operations that move, choose or compare: the same bits. By name: over the axis `a` of `{a, b}`, in jnp over the first one.
SAME_BITS = {
    "sort": (lambda x: nx.sort(x, "a"), lambda x: jnp.sort(x, 0)),
    "sort descending": (lambda x: nx.sort(x, "a", descending=True), lambda x: jnp.sort(x, 0, descending=True)),
    "argsort": (lambda x: nx.argsort(x, "a"), lambda x: jnp.argsort(x, 0)),
    "cumprod": (lambda x: nx.cumprod(x, "a"), lambda x: jnp.cumprod(x, 0)),
    "cummax": (lambda x: nx.lax.cummax(x, "a"), lambda x: jax.lax.cummax(x, 0)),
    "roll": (lambda x: nx.roll(x, 3, "a"), lambda x: jnp.roll(x, 3, 0)),
    "flip": (lambda x: nx.flip(x, "a"), lambda x: x[::-1]),
    "argmax": (lambda x: nx.argmax(x, "a"), lambda x: jnp.argmax(x, 0)),
    "argmin": (lambda x: nx.argmin(x, "a"), lambda x: jnp.argmin(x, 0)),
    "where": (lambda x: nx.where(x > 1, x, -x), lambda x: jnp.where(x > 1, x, -x)),
}
# Reads along the axis: the same bits but for the sign of zeros on CPU devices, where XLA's all-reduce begins with 0.0.
READS = {
    "one element": (lambda x: x["a", 1], lambda x: x[1]),
    "elements": (lambda x: x["a", nx.named(jnp.asarray(PICK), ["u"])], lambda x: x[PICK]),
    "take": (lambda x: nx.take(x, nx.named(jnp.asarray(PICK), ["u"]), "a"), lambda x: x[PICK]),
    "gather": (lambda x: nx.lax.pgather(x, nx.named(jnp.asarray(PICK), ["u"]), "a"), lambda x: x[PICK]),
    "max": (lambda x: nx.max(x, "a"), lambda x: jnp.max(x, 0)),
    "min": (lambda x: nx.min(x, "a"), lambda x: jnp.min(x, 0)),
    "median": (lambda x: nx.median(x, "a"), lambda x: jnp.median(x, 0)),
}


def shares(x, extremum):
    """The gradient of an extremum over the first axis, times 2: ties share it equally, and with NaN it is 0 / 0.

    As `jax.grad(jnp.max)` computes it; compiled, XLA may make 0 of NaN there.
    """
    hits = x == extremum(np.asarray(x), 0)
    with np.errstate(invalid="ignore"):
        return 2 * np.asarray(hits, np.float32) / hits.sum(0)


# Operations that compute: the same infinities and NaN, and numbers that are close.
CLOSE = {
    "sum": (lambda x: nx.sum(x, "a"), lambda x: jnp.sum(x, 0)),
    "mean": (lambda x: nx.mean(x / 8, "a"), lambda x: jnp.mean(x / 8, 0)),
    "gradient": (lambda x: nx.numpy.gradient(x, axis="a"), lambda x: jnp.gradient(x, axis=0)),
    "gradient at points": (
        lambda x: nx.numpy.gradient(x, jnp.asarray(POINTS), axis="a"),
        lambda x: jnp.gradient(x, jnp.asarray(POINTS), axis=0),
    ),
    "trapezoid": (lambda x: nx.trapezoid(x / 8, axis="a"), lambda x: jnp.trapezoid(x / 8, axis=0)),
    "trapezoid at its own values": (lambda x: nx.trapezoid(x / 8, x, axis="a"), lambda x: jnp.trapezoid(x / 8, x, axis=0)),
    "unwrap": (lambda x: nx.numpy.unwrap(x, axis="a"), lambda x: jnp.unwrap(x, axis=0)),
    "gradient of max": (jax.grad(lambda x: nx.sum(nx.max(x, "a") * 2, "b")), lambda x: shares(x, np.max)),
    "gradient of min": (jax.grad(lambda x: nx.sum(nx.min(x, "a") * 2, "b")), lambda x: shares(x, np.min)),
}
LAYOUTS = {
    "unmapped": ({}, None),
    "one element a device": ({"a": "x"}, (8,)),
    "blocks": ({"a": "x"}, (4,)),
    "two mesh axes": ({"a": ("y", "x")}, (2, 2)),
    "steps": ({"a": nx.SerialLoop(4)}, None),
    "steps of devices": ({"a": ("x", nx.SerialLoop(2))}, (2,)),
    "the other axis": ({"b": "x"}, (4,)),
}
MOVING = (
    "sort",
    "roll",
    "argsort",
    "sort descending",
    "flip",
    "gradient",
    "gradient at points",
    "trapezoid at its own values",
    "unwrap",
)


def run(table, layout, kind):
    """All functions of a table in one mapped function."""
    resources, shape = LAYOUTS[layout]
    names = [name for name in table if "steps" not in layout or name not in (*MOVING, "median")]
    options = {"axis_resources": resources, "mesh": None if shape is None else make_mesh(shape, kind)}
    results = nx.xmap(lambda x: [table[name][0](x) for name in names], **options)(nx.named(jnp.asarray(X), ["a", "b"]))
    rest = {"a": 0, "u": 0, "b": 1}
    for name, result in zip(names, results, strict=True):
        axes = sorted(result.dims, key=rest.__getitem__)
        yield name, np.asarray(nx.positional(result, axes)), np.asarray(table[name][1](jnp.asarray(X)))


CASES = [(layout, kind) for layout in LAYOUTS for kind in ("auto", "explicit") if kind == "auto" or LAYOUTS[layout][1]]


@pytest.mark.full(2)
@pytest.mark.fast(1)
@pytest.mark.parametrize(("layout", "kind"), CASES)
def test_what_moves_has_the_same_bits(layout, kind):
    for name, have, want in run(SAME_BITS, layout, kind):
        np.testing.assert_array_equal(have, want, err_msg=name)
        if have.dtype.kind == "f":
            np.testing.assert_array_equal(np.signbit(have)[~np.isnan(have)], np.signbit(want)[~np.isnan(want)], err_msg=name)


@pytest.mark.full(2)
@pytest.mark.fast(0)
@pytest.mark.parametrize(("layout", "kind"), CASES)
def test_what_is_read(layout, kind):
    for name, have, want in run(READS, layout, kind):
        np.testing.assert_array_equal(have, want, err_msg=name)
        if name not in ("max", "min", "median") and layout in ("unmapped", "steps", "the other axis"):
            np.testing.assert_array_equal(np.signbit(have)[~np.isnan(have)], np.signbit(want)[~np.isnan(want)], err_msg=name)


@pytest.mark.full(2)
@pytest.mark.fast(2)
@pytest.mark.parametrize(("layout", "kind"), CASES)
def test_what_computes_has_the_same_infinities(layout, kind):
    for name, have, want in run(CLOSE, layout, kind):
        np.testing.assert_allclose(have, want, rtol=1e-5, atol=1e-38, err_msg=name)


@pytest.mark.full(0)
@pytest.mark.fast(0)
def test_values_that_occur_once():
    for column in X.T:
        for size in (4, 8):
            want = jnp.unique(jnp.asarray(column), size=size)
            for resources, shape in ({}, None), ({"a": "x"}, (4,)):
                f = nx.xmap(
                    lambda x, size=size: nx.unique(x, axis="a", size=size, out_axis="u"),
                    (["a"],),
                    ["u"],
                    axis_resources=resources,
                    mesh=None if shape is None else make_mesh(shape),
                )
                np.testing.assert_array_equal(f(jnp.asarray(column)), want)


@pytest.mark.fast(0)
@pytest.mark.full(2)
@pytest.mark.parametrize("n", [16, 2048])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float8_e5m2"])
def test_zeros_of_every_type_stay_in_their_order(dtype, n):
    numbers = np.random.default_rng(n).choice([0.0, -0.0, 1, -1, INF, -INF, NAN, 0.5, -2], n)
    x = jnp.asarray(numbers, dtype)
    for descending in (False, True):
        want = np.asarray(jnp.sort(x, descending=descending), np.float32)
        f = nx.xmap(
            lambda x, d=descending: nx.sort(x, "a", descending=d), ["a"], ["a"], axis_resources={"a": "x"}, mesh=make_mesh((4,))
        )
        have = np.asarray(f(x), np.float32)
        np.testing.assert_array_equal(have, want)
        np.testing.assert_array_equal(np.signbit(have)[~np.isnan(have)], np.signbit(want)[~np.isnan(want)])
