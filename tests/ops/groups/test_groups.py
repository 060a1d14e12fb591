"""group_reduce, group_accumulate and group_shift: in every placement against masks in JAX, and with missing values against pandas."""

import contextlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import namedax as nx
from namedax.errors import ArgumentError, ArgumentTypeError, AxisNameError, AxisNotFoundError, AxisSizeError, SerialLoopError
from namedax.hlo import collectives
from tests import make
from tests.harness import FEW, PARTITIONER, array, check, make_mesh
from tests.ops.window.test_neighbours import also

BY = np.array([1, 0, 1, -1, 2, 0, 1, 0])
WORDS = np.array(["south", "north", "south", "", "west", "north", "south", "north"])
KNOWN = ["north", "south", "west"]
AB = ["a", "b", None]
PLACED = [p for p in FEW if p.label in ("both", "two-mesh-axes")]
REDUCTIONS = ("mean", "max", "var")
SCANS = ("sum",)


def reduced(kind, x):
    """Of each group along the first axis."""
    rows = [x[BY == g] for g in range(3)]
    return jnp.stack([getattr(jnp, kind)(row, axis=0) for row in rows])


def accumulated(x):
    same = (BY[:, None] == BY) & (np.arange(8)[:, None] >= np.arange(8)) & (BY >= 0)
    return jnp.einsum("ij,jbc->ibc", jnp.where(same, 1.0, 0.0), x)


def shifted(x, offset):
    import pandas as pd

    rows = pd.Series(np.arange(8.0)).groupby(np.where(BY < 0, np.nan, BY)).shift(offset, fill_value=-1).to_numpy()
    rows = np.where(BY < 0, -1, rows).astype(int)
    return jnp.where((rows >= 0)[:, None, None], x[rows], 7.0)


def programs(x, by):
    names, words = {"out_axis": "g"}, {"out_axis": "G", "groups": KNOWN}
    return {
        **{kind: nx.group_reduce(x, by, "a", kind, groups=3, **names) for kind in REDUCTIONS},
        **{f"{kind} of words": nx.group_reduce(x, WORDS, "a", kind, **words) for kind in ("mean", "max")},
        "quantiles": nx.group_reduce(x, by, "a", "quantile", groups=3, q=(0.25, 0.8), **names),
        "propagate": nx.group_reduce(x, by, "a", "mean", groups=3, nan_policy="propagate", **names),
        **{f"scan {kind}": nx.nan_to_num(nx.group_accumulate(x, by, "a", kind)) for kind in SCANS},
        **{f"scan {kind} of words": nx.nan_to_num(nx.group_accumulate(x, BY, "a", kind)) for kind in SCANS},
        "shift": nx.group_shift(x, 1, by, "a", fill_value=7.0),
        "shift of words": nx.group_shift(x, -2, BY, "a", fill_value=7.0),
    }


def oracle(x, by):
    del by
    return {
        **{kind: reduced(kind, x) for kind in REDUCTIONS},
        **{f"{kind} of words": reduced(kind, x) for kind in ("mean", "max")},
        "quantiles": jnp.stack([jnp.quantile(x[BY == g], jnp.array([0.25, 0.8]), 0) for g in range(3)]),
        "propagate": reduced("mean", x),
        **{f"scan {kind}": accumulated(x) for kind in SCANS},
        **{f"scan {kind} of words": accumulated(x) for kind in SCANS},
        "shift": shifted(x, 1),
        "shift of words": shifted(x, -2),
    }


OUT = {
    **{key: ["g", "b", None] for key in (*REDUCTIONS, "propagate")},
    **{key: ["G", "b", None] for key in [f"{kind} of words" for kind in ("mean", "max")]},
    "quantiles": ["g", None, "b", None],
    **dict.fromkeys([f"scan {kind}{of}" for kind in SCANS for of in ("", " of words")], AB),
    **dict.fromkeys(["shift", "shift of words"], AB),
}


@pytest.mark.full(0)
@pytest.mark.fast(1)
@pytest.mark.parametrize("placement", PLACED, ids=str)
def test_values_and_gradients(placement):
    """The groups are complete on every device, or (G) sharded like the elements, which does not divide."""
    check(programs, oracle, (array(8, 4, 3), make.asarray(BY)), (AB, ["a"]), OUT, also(placement, {"G": "a"}))


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize("placement", [FEW[0], FEW[1], PARTITIONER[3]], ids=str)
def test_other_placements(placement):
    check(programs, oracle, (array(8, 4, 3), make.asarray(BY)), (AB, ["a"]), OUT, also(placement, {"G": "a"}))


def frame(values, by):
    import pandas as pd

    kept = by >= 0
    return pd.DataFrame(values[kept]).groupby(by[kept])


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize("resources", [{}, {"a": "x"}, {"a": "x", "g": "x"}], ids=str)
def test_missing_values(resources):
    """On an axis that does not divide, with labels of both kinds, and a group without elements."""
    import pandas as pd

    rng = np.random.default_rng(3)
    values, by = np.array(array(27, 2)), rng.integers(-1, 5, 27)
    by[by == 3] = 4
    values[rng.random((27, 2)) < 0.3] = np.nan
    values[by == 1, 0] = np.nan
    kinds = ("sum", "mean", "max", "min", "count", "prod", "std", "median", "first", "last")
    scans = ("sum", "max", "prod")

    def body(x, numbers):
        options = {"axis": "a", "out_axis": "g", "groups": 5}
        return [
            (
                [nx.group_reduce(x, labels, reduction=kind, **options) for kind in kinds],
                [nx.group_accumulate(x, labels, "a", kind) for kind in scans],
                nx.group_shift(x, 2, labels, "a", fill_value=np.nan),
            )
            for labels in (numbers, by)
        ]

    mapped = nx.xmap(body, (["a", "k"], ["a"]), None, axis_resources=resources, mesh=make_mesh((4, 2)))
    groups = frame(values, by)
    empty = {"sum": 0, "count": 0, "prod": 1}
    wants = [groups.std(ddof=0) if kind == "std" else getattr(groups, kind)() for kind in kinds]
    wants = [want.reindex(range(5), fill_value=empty.get(kind, np.nan)) for want, kind in zip(wants, kinds, strict=True)]
    every = pd.DataFrame(values).groupby(pd.Series(by).where(by >= 0))
    for reductions, cumulated, lagged in mapped(values, by):
        for kind, have, want in zip(kinds, reductions, wants, strict=True):
            np.testing.assert_allclose(nx.positional(have, ["g", "k"]), want, rtol=1e-5, atol=1e-5, err_msg=kind)
        for kind, have in zip(scans, cumulated, strict=True):
            np.testing.assert_allclose(nx.positional(have, ["a", "k"]), getattr(every, f"cum{kind}")(), rtol=1e-5, atol=1e-5)
        np.testing.assert_array_equal(nx.positional(lagged, ["a", "k"]), every.shift(2).astype("f4"))


def test_propagated_and_infinite_values():
    inf, nan = np.inf, np.nan
    x = nx.named(make.array([1.0, nan, -inf, -inf, nan, 5.0, inf, -inf]), ["a"])
    by = [0, 0, 1, 1, 2, 3, 3, 3]
    options = {"axis": "a", "out_axis": "g"}

    @jax.jit
    def both(x, numbers):
        return [
            {
                f"{kind} {policy}": nx.group_reduce(x, labels, reduction=kind, nan_policy=policy, groups=4, **options).data
                for kind in ("sum", "max", "median", "count")
                for policy in ("omit", "propagate")
            }
            for labels in (by, numbers)
        ]

    for have in both(x, nx.named(make.array(by), ["a"])):
        np.testing.assert_array_equal(have["sum omit"], [1.0, -inf, 0.0, nan])
        np.testing.assert_array_equal(have["max omit"], [1.0, -inf, nan, inf])
        np.testing.assert_array_equal(have["max propagate"], [nan, -inf, nan, inf])
        np.testing.assert_array_equal(have["median omit"], [1.0, -inf, nan, 5.0])
        np.testing.assert_array_equal(have["median propagate"], [nan, -inf, nan, 5.0])
        assert have["count omit"].tolist() == [1, 2, 0, 3]
        assert have["count propagate"].tolist() == [2, 2, 1, 3]
    run = nx.group_accumulate(x, by, "a", nan_policy="propagate").data
    np.testing.assert_array_equal(run, [1.0, nan, -inf, -inf, nan, 5.0, inf, nan])


def test_labels():
    x = nx.named(make.arange(6.0), ["day"])
    month = np.array(["2000-02", "2000-01", "NaT", "2000-02", "2000-01", "2000-04"], "datetime64[M]")
    sums = nx.group_reduce(x, by=month, axis="day", reduction="sum", out_axis="m")
    assert sums.data.tolist() == [5.0, 3.0, 5.0]
    all_of_them = np.arange("2000-01", "2000-05", dtype="datetime64[M]")
    assert nx.group_reduce(x, month, "day", "sum", groups=all_of_them, out_axis="m").data.tolist() == [5.0, 3.0, 0.0, 5.0]
    words = ["b", "a", "b", "c", "a", "b"]
    assert nx.group_reduce(x, words, "day", "sum", groups=["c", "b"], out_axis="g").data.tolist() == [3.0, 7.0]
    assert nx.group_reduce(x, nx.named(np.array([True, False] * 3), ["day"]), "day", "sum", out_axis="g").data.tolist() == [
        9.0,
        6.0,
    ]
    ints = nx.named(make.array([3, 1, 2]).astype(jnp.int8), ["day"])
    means, high = (nx.group_reduce(ints, [0, 1, 1], "day", kind, out_axis="g") for kind in ("mean", "max"))
    assert (means.data.tolist(), high.dtype, high.data.tolist()) == ([3.0, 1.5], jnp.int8, [3, 2])
    per_site = nx.named(make.array([[0, 1, 1], [1, 0, 1]]), ["site", "day"])
    both = nx.group_reduce(ints, per_site, "day", "sum", groups=2, out_axis="g")
    assert nx.positional(both, ["site", "g"]).tolist() == [[3, 3], [1, 5]]


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize("kind", ["auto", "explicit"])
def test_outside_of_bodies(kind):
    mesh = make_mesh((8,), kind)
    x = nx.named(array(8, 4, 3), AB)
    placed = nx.shard(x, {"a": "x"}, mesh=mesh)

    def all_of(x):
        return [
            *(nx.group_reduce(x, BY, "a", how, groups=3, out_axis="g") for how in ("mean", "max", "median")),
            nx.nan_to_num(nx.group_accumulate(x, BY, "a")),
            nx.group_shift(x, 1, BY, "a"),
        ]

    def loss(x):
        return sum(nx.sum(nx.sin(y), ...) for y in all_of(x))

    with jax.set_mesh(mesh) if kind == "explicit" else contextlib.nullcontext():
        have, gradient = all_of(placed), jax.jit(jax.grad(loss))(placed)
    wants = reduced("mean", x.data), reduced("max", x.data), reduced("median", x.data), accumulated(x.data)
    for h, want in zip(have, wants, strict=False):
        np.testing.assert_allclose(np.asarray(h.data), want, atol=1e-5)
    np.testing.assert_allclose(np.asarray(gradient.data), jax.jit(jax.grad(loss))(x).data, atol=1e-5)


STEPS = {"a": ("x", nx.SerialLoop(2))}
MOVES = {
    "windows": lambda x, by: nx.windows(x, "a", size=3, padding=(2, 0)),
    "rolling_reduce": lambda x, by: nx.rolling_reduce(x, "a", size=3, min_count=1),
    "rolling_reduce of windows": lambda x, by: nx.rolling_reduce(x, "a", size=3, reduction="median"),
    "group_reduce": lambda x, by: nx.group_reduce(x, by, "a", "median", groups=3, out_axis="g"),
    "group_accumulate": lambda x, by: nx.group_accumulate(x, by, "a"),
    "group_accumulate of words": lambda x, by: nx.group_accumulate(x, WORDS, "a"),
    "group_shift": lambda x, by: nx.group_shift(x, 1, by, "a"),
}


@pytest.mark.fast(0)
def test_reductions_add_up_over_the_steps_of_a_loop():
    def body(x, by):
        kinds = ("mean", "max", "last")
        have = [nx.group_reduce(x, by, "a", kind, groups=3, out_axis="g") for kind in kinds]
        return [*have, nx.group_reduce(x, WORDS, "a", groups=KNOWN, out_axis="g")]

    def both(layout):
        f = nx.xmap(body, (AB, ["a"]), [["g", "b", None]] * 4, axis_resources=layout, mesh=make_mesh((2,)))

        def loss(x):
            found = f(x, BY)
            return sum(jnp.sum(jnp.sin(y)) for y in found), found

        return jax.jit(jax.grad(loss, has_aux=True))(array(8, 4, 3))

    (gradient, have), (want_gradient, want) = both(STEPS), both({})
    np.testing.assert_allclose(have[0], reduced("mean", array(8, 4, 3)), atol=1e-5)
    np.testing.assert_allclose(jnp.stack(have), jnp.stack(want), atol=1e-5)
    np.testing.assert_allclose(gradient, want_gradient, atol=1e-5)


@pytest.mark.fast(2)
@pytest.mark.parametrize("name", MOVES)
def test_moves_between_the_steps_of_a_loop_are_an_error(name):
    mapped = nx.xmap(MOVES[name], (AB, ["a"]), None, axis_resources=STEPS, mesh=make_mesh((2,)))
    text = f"nx.{name.partition(' ')[0]}: the operation moves elements along the axis 'a' of size 8"
    with pytest.raises(SerialLoopError, match=text):
        mapped.trace(array(8, 4, 3), make.asarray(BY))


@pytest.mark.full(0)
@pytest.mark.fast(0)
def test_other_axes_in_steps():
    resources = {"b": nx.SerialLoop(2), "G": nx.SerialLoop(3)}
    have = nx.xmap(programs, (AB, ["a"]), OUT, axis_resources=resources)(array(8, 4, 3), make.asarray(BY))
    for key, want in oracle(array(8, 4, 3), BY).items():
        np.testing.assert_allclose(have[key], want, atol=1e-5, err_msg=key)


def by_device(how):
    return lambda x, by: nx.group_reduce(x, by, "a", how, groups=8, out_axis="g")


COSTS = [
    ("sum", by_device("sum"), {}, [("all-reduce", 8 * 24)]),
    ("mean", by_device("mean"), {}, [("all-reduce", 2 * 8 * 24)]),
    ("scattered", by_device("mean"), {"g": "x"}, [("reduce-scatter", 2 * 8 * 24)]),
    ("max", by_device("max"), {}, [("all-reduce", 2 * 8 * 24)]),
    ("count", by_device("count"), {}, [("all-reduce", 8 * 24)]),
    (
        "known",
        lambda x, by: nx.group_reduce(x, np.arange(16) // 2, "a", out_axis="g", nan_policy="propagate"),
        {},
        [("all-reduce", 8 * 24)],
    ),
    ("shift", lambda x, by: nx.group_shift(x, 1, np.arange(16) // 8, "a"), {}, [("collective-permute", 24)]),
    ("scan", lambda x, by: nx.group_accumulate(x, np.arange(16) // 8, "a"), {}, [("all-gather", 4), ("all-gather", 4 * 24)]),
]


@pytest.mark.fast(3)
@pytest.mark.parametrize(("label", "body", "more", "want"), COSTS, ids=[case[0] for case in COSTS])
def test_bytes(label, body, more, want):
    """One all-reduce of the groups, with the counts in it; of contiguous groups that are known, one row or the totals of blocks."""
    mapped = nx.xmap(body, (["a", "k"], ["a"]), None, mesh=make_mesh((4,)), axis_resources={"a": "x", **more})
    have = [(c.kind, c.bytes) for c in collectives(mapped.lower(make.zeros((16, 6)), make.zeros(16, int)).compile())]
    assert sorted(have) == sorted(want)


def test_quantiles_gather_nothing():
    mapped = nx.xmap(by_device("median"), (["a"], ["a"]), None, mesh=make_mesh((4,)), axis_resources={"a": "x"})
    kinds = {c.kind for c in collectives(mapped.lower(make.zeros(64), make.zeros(64, int)).compile())}
    assert kinds == {"all-reduce", "collective-permute"}


X = nx.named(make.zeros((6, 2)), ["a", "k"])
IDS = nx.named(make.zeros(6, int), ["a"])
MISTAKES = [
    (lambda: nx.group_reduce(X, IDS, "q", out_axis="g"), AxisNotFoundError, "group_reduce: no axis 'q' in f32[]{a:6, k:2}"),
    (
        lambda: nx.group_reduce(X, IDS, "a", out_axis="g"),
        AxisNotFoundError,
        "the number of groups is not known. Pass groups=12",
    ),
    (
        lambda: nx.group_reduce(X, nx.rename(IDS, {"a": "b"}), "a", out_axis="g"),
        AxisNotFoundError,
        "no axis 'a' in by=i32[]{b:6}",
    ),
    (
        lambda: nx.group_reduce(X.data, IDS, 0, out_axis="g"),
        ArgumentTypeError,
        "axis=0 is a positional axis; groups need a named one",
    ),
    (lambda: nx.group_reduce(X, IDS * 1.0, "a", groups=2, out_axis="g"), ArgumentTypeError, "by=f32[]{a:6} must have integers"),
    (
        lambda: nx.group_reduce(X, IDS.data, "a", groups=2, out_axis="g"),
        ArgumentTypeError,
        "has no axis names. Name its axis: nx.named(by, ['a'])",
    ),
    (
        lambda: nx.group_reduce(X, IDS, "a", groups=["x"], out_axis="g"),
        ArgumentTypeError,
        "groups=['x'] must be the number of groups",
    ),
    (
        lambda: nx.group_reduce(X, [0, 1], "a", out_axis="g"),
        AxisSizeError,
        "by has the shape (2,), but axis 'a' of f32[]{a:6, k:2} has size 6",
    ),
    (
        lambda: nx.group_reduce(X, ["x"] * 6, "a", groups=2, out_axis="g"),
        ArgumentTypeError,
        "groups=2 is a number of groups, but the labels",
    ),
    (
        lambda: nx.group_reduce(X, ["x"] * 6, "a", groups=["x", "x"], out_axis="g"),
        ArgumentError,
        "different labels in their order",
    ),
    (lambda: nx.group_reduce(X, IDS, "a", groups=2, out_axis="k"), AxisNameError, "out_axis='k' must be an axis name that"),
    (lambda: nx.group_reduce(X, IDS, "a", "men", groups=2, out_axis="g"), ArgumentError, "Did you mean 'mean'?"),
    (lambda: nx.group_reduce(X, IDS, "a", "quantile", groups=2, out_axis="g"), ArgumentError, "Pass q, a number from 0 to 1"),
    (lambda: nx.group_reduce(X, IDS, "a", "quantile", groups=2, out_axis="g", q=50), ArgumentError, "q=50 must be from 0 to 1"),
    (
        lambda: nx.group_reduce(X, IDS, "a", groups=2, out_axis="g", nan_policy="skip"),
        ArgumentError,
        "nan_policy must be 'omit' or 'propagate'",
    ),
    (
        lambda: nx.group_reduce(X * 1j, IDS, "a", "max", groups=2, out_axis="g"),
        ArgumentTypeError,
        "complex numbers have no order",
    ),
    (
        lambda: nx.group_reduce(X * 1j, IDS, "a", "median", groups=2, out_axis="g"),
        ArgumentTypeError,
        "complex numbers have no order",
    ),
    (lambda: nx.group_accumulate(X, IDS, "a", "mean"), ArgumentError, "group_accumulate: reduction must be one of"),
    (lambda: nx.group_accumulate(X, IDS, "a", nan_policy="skip"), ArgumentError, "group_accumulate: nan_policy must be"),
    (lambda: nx.group_shift(X, 1.5, IDS, "a"), ArgumentTypeError, "group_shift: offset must be a static integer"),
    (lambda: nx.group_shift(X, 1, IDS, "q"), AxisNotFoundError, "group_shift: no axis 'q'"),
]


@pytest.mark.parametrize(("call", "error", "words"), MISTAKES)
def test_mistakes(call, error, words):
    with pytest.raises(error) as raised:
        call()
    assert words in str(raised.value), raised.value
