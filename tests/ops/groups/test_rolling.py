"""windows and rolling_reduce: in every placement against slices in JAX, with missing values against pandas, and what they send."""

import contextlib
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import namedax as nx
from namedax.errors import (
    ArgumentError,
    ArgumentTypeError,
    AxisNameError,
    AxisNotFoundError,
    AxisSizeError,
    PositionalAxisError,
)
from namedax.hlo import collectives
from tests import make
from tests.harness import FEW, PARTITIONER, array, check, make_mesh
from tests.ops.window.test_neighbours import also

AB = ["a", "b", None]
PLACED = [p for p in FEW if p.label in ("both", "two-mesh-axes")]


def slices(x, size, before, after, value, stride=1):
    """The windows along the first axis of x[8, 4, 3], as the last axis."""
    wide = jnp.concatenate([jnp.full((before, 4, 3), value), x, jnp.full((after, 4, 3), value)])
    count = (8 + before + after - size) // stride + 1
    return jnp.stack([wide[i * stride : i * stride + size] for i in range(count)]).transpose(0, 2, 3, 1)


def programs(x):
    rolling = functools.partial(nx.rolling_reduce, x, "a")
    return {
        "strides": nx.windows(x, "a", size=3, stride=2, rename="p"),
        "uneven": nx.windows(x, "a", size=3, out_axis="w", rename="A"),
        "long": nx.windows(x, "b", size=11, padding=(9, 1), mode="constant", fill_value=2.0)[..., 7],
        "sum": rolling(size=3, reduction="sum", min_count=0),
        "mean": rolling(size=5, reduction=nx.mean, center=True, min_count=2),
        "max": rolling(size=12, reduction="max", min_count=1),
        "min": rolling(size=2, reduction="min", center=True, min_count=1),
        "median": rolling(size=3, reduction=nx.median, center=True, min_count=1),
        "stride": rolling(size=4, reduction="mean", min_count=1, stride=3, out_axis="p"),
    }


def oracle(x):
    nan = jnp.nan
    return {
        "strides": slices(x, 3, 0, 0, 0.0, 2),
        "uneven": slices(x, 3, 0, 0, 0.0),
        "long": jnp.concatenate([jnp.full((8, 4, 3), 2.0), x], 1)[:, 2:6],
        "sum": slices(x, 3, 2, 0, 0.0).sum(-1),
        "mean": slices(x, 5, 2, 2, 0.0).sum(-1) / jnp.array([3, 4, 5, 5, 5, 5, 4, 3.0])[:, None, None],
        "max": slices(x, 12, 11, 0, -jnp.inf).max(-1),
        "min": slices(x, 2, 1, 0, jnp.inf).min(-1),
        "median": jnp.nanmedian(slices(x, 3, 1, 1, nan), -1),
        "stride": jnp.nanmean(slices(x, 4, 3, 0, nan, 3), -1),
    }


OUT = {
    **dict.fromkeys(("sum", "mean", "max", "min", "median", "long"), AB),
    "strides": ["p", "b", None, None],
    "uneven": ["A", "b", None, "w"],
    "stride": ["p", "b", None],
}


@pytest.mark.full(0)
@pytest.mark.fast(2)
@pytest.mark.parametrize("placement", PLACED, ids=str)
def test_values_and_gradients(placement):
    check(programs, oracle, (array(8, 4, 3),), (AB,), OUT, also(placement, {"A": "a"}))


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize("placement", [FEW[0], FEW[1], PARTITIONER[3]], ids=str)
def test_other_placements(placement):
    check(programs, oracle, (array(8, 4, 3),), (AB,), OUT, also(placement, {"A": "a"}))


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize("kind", ["auto", "explicit"])
def test_outside_of_bodies_and_uneven(kind):
    mesh, x = make_mesh((8,), kind), array(11, 3)
    placed = nx.shard(nx.named(x[:8], ["a", "b"]), {"a": "x"}, mesh=mesh)

    def one(x):
        return nx.rolling_reduce(x, "a", size=4, reduction="max", min_count=1), nx.windows(
            x, "a", size=3, stride=2, rename="p", out_axis="w"
        )

    def loss(x):
        return sum(nx.sum(nx.sin(y), ...) for y in one(x))

    def by_slices(x):
        n = x.shape[0]
        first = [x[max(0, i - 3) : i + 1].max(0) for i in range(n)]
        second = [x[i : i + 3] for i in range(0, n - 2, 2)]
        return jnp.stack(first), jnp.stack(second).transpose(0, 2, 1)

    def check_all(have, x):
        for h, w in zip(have[0], by_slices(x), strict=True):
            np.testing.assert_allclose(nx.positional(h, [*h.dims]) if isinstance(h, nx.NamedArray) else h, w, atol=1e-6)
        want = jax.jit(jax.grad(lambda x: sum(jnp.sum(jnp.sin(y)) for y in by_slices(x))))(x)
        np.testing.assert_allclose(have[1].data, want, atol=1e-5)

    with jax.set_mesh(mesh) if kind == "explicit" else contextlib.nullcontext():
        check_all((one(placed), jax.jit(jax.grad(loss))(placed)), x[:8])
    names = {"axis_resources": {"a": "x"}, "mesh": mesh}
    named = nx.named(x, ["a", "b"])
    mapped = nx.xmap(one, **names)
    check_all((mapped(named), jax.jit(jax.grad(lambda x: sum(nx.sum(nx.sin(y), ...) for y in mapped(x))))(named)), x)


def frames(values, size, center, least):
    import pandas as pd

    return pd.DataFrame(values).rolling(size, center=center, min_periods=least)


@pytest.mark.fast(0)
@pytest.mark.parametrize("resources", [{}, {"a": "x"}], ids=str)
def test_missing_values(resources):
    """A window is reduced over the elements that are not NaN, and NaN if it has too few of them."""
    values = np.array(array(24, 3))
    values[[2, 3, 4, 5, 11, 20], [0, 0, 0, 0, 1, 2]] = np.nan
    values[14, 1] = np.inf
    cases = [(4, False, None), (4, True, 1), (13, False, 5)]

    def named(x):
        return [
            [
                nx.rolling_reduce(x, "a", size=n, reduction=kind, center=c, min_count=m)
                for kind in ("sum", "mean", "max", "min", "count")
            ]
            for n, c, m in cases
        ]

    def function(x):
        return nx.rolling_reduce(x, "a", size=5, reduction=lambda w, axis: nx.nanquantile(w, 0.25, axis), min_count=3)

    options = {"axis_resources": resources, "mesh": make_mesh((4, 2))}
    have = nx.xmap(lambda x: (named(x), function(x)), (["a", "k"],), None, **options)(values)
    for (n, c, m), results in zip(cases, have[0], strict=True):
        finite = frames(np.where(np.isinf(values), 1e30, values).astype(np.float64), n, c, n if m is None else m)
        wants = [finite.sum(), finite.mean(), finite.max(), finite.min(), frames(values, n, c, 0).count()]
        for result, want in zip(results, wants, strict=True):
            want = np.where(want > 1e20, np.inf, want)
            np.testing.assert_allclose(nx.positional(result, ["a", "k"]), want, rtol=1e-5, atol=1e-5)
        assert results[-1].dtype == jnp.int32
    np.testing.assert_allclose(
        nx.positional(have[1], ["a", "k"])[:10], frames(values, 5, False, 3).quantile(0.25)[:10], rtol=1e-5, atol=1e-5
    )


@pytest.mark.fast(0)
def test_the_gradient_of_missing_values_is_zero():
    x = nx.named(make.array([1.0, np.nan, 3.0, 4.0]), ["a"])
    for kind in ("sum", "mean", "max", "median"):
        gradient = jax.grad(lambda x, kind=kind: nx.sum(nx.rolling_reduce(x, "a", size=2, reduction=kind, min_count=1), "a"))(x)
        assert np.isfinite(gradient.data).all(), kind
        assert gradient.data[1] == 0


@pytest.mark.parametrize("resources", [{}, {"a": "x"}], ids=str)
def test_types(resources):
    x = (array(8, 3) * 40).astype(jnp.int8)

    def body(x):
        sums = nx.rolling_reduce(x, "a", size=3, reduction="sum", min_count=1)
        high = nx.rolling_reduce(x, "a", size=3, reduction="max", min_count=1)
        return (
            sums,
            high,
            nx.rolling_reduce(x, "a", size=3, min_count=1),
            nx.rolling_reduce(x > 0, "a", size=3, reduction="count"),
        )

    out = nx.xmap(body, (["a", "k"],), None, axis_resources=resources, mesh=make_mesh((4, 2)))(x)
    rows = [np.asarray(x, np.int32)[max(0, i - 2) : i + 1] for i in range(8)]
    assert [y.dtype for y in out] == [jnp.int32, jnp.int8, jnp.float32, jnp.int32]
    wants = [np.stack([f(row) for row in rows]) for f in (lambda r: r.sum(0), lambda r: r.max(0), lambda r: r.mean(0))]
    for have, want in zip(out, wants, strict=False):
        np.testing.assert_allclose(have.data, want, rtol=1e-6)
    assert out[3].data[:, 0].tolist() == [1, 2, 3, 3, 3, 3, 3, 3]
    half = nx.rolling_reduce(nx.named(jnp.full(300, 1.0, jnp.bfloat16), ["a"]), "a", size=300, reduction="sum", min_count=1)
    assert (half.dtype, float(half["a", 298])) == (jnp.bfloat16, 300.0)


COSTS = [
    ("windows", lambda x: nx.sum(nx.windows(x, "a", size=5, padding=(4, 0), out_axis="w"), "w"), [4 * 3 * 4]),
    ("mean", lambda x: nx.rolling_reduce(x, "a", size=5), [4 * 3 * 4]),
    ("median", lambda x: nx.rolling_reduce(x, "a", size=5, reduction="median"), [4 * 3 * 4]),
    ("center", lambda x: nx.rolling_reduce(x, "a", size=5, reduction="max", center=True), [2 * 3 * 4] * 2),
    ("strides", lambda x: nx.windows(x, "a", size=6, stride=4, padding=(2, 0), out_axis="w", rename="p"), [2 * 3 * 4]),
    ("two blocks", lambda x: nx.rolling_reduce(x, "a", size=25, reduction="sum"), [16 * 3 * 4, 8 * 3 * 4]),
]


@pytest.mark.fast(2)
@pytest.mark.parametrize(("label", "body", "want"), COSTS, ids=[case[0] for case in COSTS])
def test_bytes(label, body, want):
    """The rows beyond a block that its windows reach, once."""
    fun = nx.xmap(
        body,
        (["a", "k"],),
        None,
        mesh=make_mesh((4,)),
        axis_resources={"a": "x", "p": "x"} if label == "strides" else {"a": "x"},
    )
    have = [(c.kind, c.bytes) for c in collectives(fun.lower(make.zeros((64, 3))).compile())]
    assert have == [("collective-permute", n) for n in want]


def test_windows_are_not_copied():
    """A sum over windows needs no array of all windows."""
    x = nx.named(make.zeros((4096, 3)), ["a", "k"])
    fun = jax.jit(lambda x: nx.rolling_reduce(x, "a", size=365, reduction="sum", min_count=1))
    assert fun.lower(x).compile().memory_analysis().temp_size_in_bytes < 8 * x.nbytes


X = nx.named(make.zeros((8, 3)), ["a", "k"])
MISTAKES = [
    (lambda: nx.windows(X, "q", size=2), AxisNotFoundError, "windows: no axis 'q' in f32[]{a:8, k:3}"),
    (lambda: nx.windows(X, 0, size=2), PositionalAxisError, "windows: axis=0 is not an axis name"),
    (lambda: nx.windows(X, "a", size=9), AxisSizeError, "windows: the window covers 9 elements, but axis 'a' has 8"),
    (lambda: nx.windows(X, "a", size=0), ArgumentError, "windows: size must be a static integer of at least 1, got 0"),
    (lambda: nx.windows(X, "a", size=2, padding=(-1, 0)), ArgumentError, "windows: the padding (-1, 0) must not be negative"),
    (
        lambda: nx.windows(X, "a", size=2, padding=1),
        PositionalAxisError,
        "windows: the padding 1 of axis 'a' is not a pair (before, after)",
    ),
    (lambda: nx.windows(X, "a", size=2, out_axis="k"), AxisNameError, "windows: out_axis='k' must be an axis name that"),
    (lambda: nx.windows(X, "a", size=2, rename="k"), AxisNameError, "the axis 'k' twice. Choose another rename"),
    (lambda: nx.windows(X, "a", size=2, mode="reflect"), PositionalAxisError, "windows: mode must be one of"),
    (lambda: nx.rolling_reduce(X, "q", size=2), AxisNotFoundError, "rolling_reduce: no axis 'q'"),
    (lambda: nx.rolling_reduce(X, "a", size=2, min_count=3), ArgumentError, "min_count=3 is larger than a window, size=2"),
    (lambda: nx.rolling_reduce(X, "a", size=2, reduction="medain"), ArgumentError, "Did you mean 'median'?"),
    (lambda: nx.rolling_reduce(X, "a", size=2, reduction=3), ArgumentTypeError, "must be a string or a function of a window"),
    (lambda: nx.rolling_reduce(X, "a", size=2, reduction=lambda w, axis: w), ArgumentTypeError, "still has the window's axis"),
    (
        lambda: nx.rolling_reduce(X, "a", size=2, reduction=lambda w, axis: nx.max(w, (axis, "a"))),
        ArgumentTypeError,
        "lacks the axis 'a'",
    ),
    (
        lambda: nx.rolling_reduce(X.astype(int), "a", size=3, reduction="sum"),
        ArgumentError,
        "2 windows at the ends have fewer than min_count=3 elements, and i32[]{a:8, k:3} has no NaN for them. Pass min_count=1",
    ),
    (lambda: nx.rolling_reduce(X * 1j, "a", size=3, reduction="max"), ArgumentTypeError, "complex numbers have no order"),
]


@pytest.mark.parametrize(("call", "error", "words"), MISTAKES)
def test_mistakes(call, error, words):
    with pytest.raises(error) as raised:
        call()
    assert words in str(raised.value), raised.value


def test_a_size_that_changes_needs_a_name():
    def run(body):
        return nx.xmap(body, (["a", "k"],), None, axis_resources={"a": "x"}, mesh=make_mesh((4,)))(make.zeros((8, 3)))

    with pytest.raises(
        AxisSizeError, match=r"axis 'a' would have size 7, but it has size 8 .* a name of its own, rename=\.\.\."
    ):
        run(lambda x: nx.windows(x, "a", size=2))
    for kind in ("mean", "median"):
        with pytest.raises(
            AxisSizeError, match=r"axis 'a' would have size 4, but it has size 8 .* a name of its own, out_axis=\.\.\."
        ):
            run(lambda x, kind=kind: nx.rolling_reduce(x, "a", size=2, stride=2, reduction=kind))
