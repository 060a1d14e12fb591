"""What is found along names, in a fixed number of places. The oracles are NumPy's `nonzero` and `unique`."""

import jax.numpy as jnp
import numpy as np
import pytest

import namedax as nx
from namedax import hlo
from namedax.errors import ArgumentError, ArgumentTypeError, AxisNameError, AxisNotFoundError, NamedaxError, NamedAxesLeftError
from tests import make
from tests.harness import FEW, PARTITIONER, array, make_mesh, said

PLACES = [FEW[0], FEW[2], FEW[3], PARTITIONER[3]]
# {a: 8, b: 4, c: 3}
X = np.asarray(array(8, 4, 3, kind="int")) // 3


def padded(found, size, fill):
    return np.concatenate([found, np.full(max(0, size - len(found)), fill)])[:size]


PROGRAMS = {
    "along": (lambda x: nx.nonzero(x, axis="a", size=5, out_axis="p1", fill_value=-1)[0], ["b", "c", "p1"]),
    "cut": (lambda x: nx.nonzero(x > 0, axis="b", size=2, out_axis="p3")[0], ["a", "c", "p3"]),
    "both": (lambda x: nx.nonzero(x, axis=("a", "b"), size=40, out_axis="p5", fill_value=(7, 3)), ["c", "p5"]),
    "other order": (lambda x: nx.nonzero(x, axis=("c", "b", "a"), size=9, out_axis="p7"), ["p7"]),
    "position": (lambda x: nx.nonzero(x, axis="a", size=6)[0], ["b", "c", None]),
    "where": (lambda x: nx.where(x, size=4, axis="a", out_axis="p11")[0], ["b", "c", "p11"]),
    "unique": (lambda x: nx.unique(x, axis="a", size=4, out_axis="p13"), ["b", "c", "p13"]),
    "unique of all": (
        lambda x: nx.unique(x, axis=("a", "b", "c"), size=9, out_axis="p15", fill_value=99, return_counts=True),
        ["p15"],
    ),
    "with all": (
        lambda x: nx.unique(x, True, True, True, "a", size=7, out_axis="p17"),
        (["b", "c", "p17"], ["b", "c", "p17"], ["b", "c", "a"], ["b", "c", "p17"]),
    ),
}


def oracle():
    cols = X.transpose(1, 2, 0).reshape(12, 8)
    flat = X.transpose(2, 0, 1)

    def shaped(rows, *shape):
        return np.stack(rows).reshape(*shape, -1)

    both = [np.nonzero(part) for part in flat]
    values, counts = np.unique(X, return_counts=True)
    full = [np.unique(col, True, True, True) for col in cols]
    return {
        "along": shaped([padded(np.nonzero(col)[0], 5, -1) for col in cols], 4, 3),
        "cut": shaped([padded(np.nonzero(row > 0)[0], 2, 0) for row in X.transpose(0, 2, 1).reshape(24, 4)], 8, 3),
        "both": tuple(shaped([padded(found[i], 40, fill) for found in both], 3) for i, fill in enumerate((7, 3))),
        "other order": tuple(padded(found, 9, 0) for found in np.nonzero(X.transpose(2, 1, 0))),
        "position": shaped([padded(np.nonzero(col)[0], 6, 0) for col in cols], 4, 3),
        "where": shaped([padded(np.nonzero(col)[0], 4, 0) for col in cols], 4, 3),
        "unique": shaped([padded(np.unique(col), 4, col.min()) for col in cols], 4, 3),
        "unique of all": (padded(values, 9, 99), padded(counts, 9, 0)),
        "with all": (
            shaped([padded(u[0], 7, u[0][0]) for u in full], 4, 3),
            shaped([padded(u[1], 7, u[1][0]) for u in full], 4, 3),
            shaped([u[2] for u in full], 4, 3),
            shaped([padded(u[3], 7, 0) for u in full], 4, 3),
        ),
    }


@pytest.mark.full(0)
@pytest.mark.fast(1)
@pytest.mark.parametrize("placement", PLACES, ids=str)
def test_values(placement):
    f = nx.xmap(
        lambda x: {key: named(x) for key, (named, _) in PROGRAMS.items()},
        ["a", "b", "c"],
        {key: out for key, (_, out) in PROGRAMS.items()},
        **placement.options,
    )
    with placement.context():
        have = f(X)
    for key, want in oracle().items():
        for h, w in zip(*(v if isinstance(v, tuple) else (v,) for v in (have[key], want)), strict=True):
            np.testing.assert_array_equal(h, w, err_msg=key)


@pytest.mark.fast(0)
def test_floats_and_nans():
    x = np.array([2.0, np.nan, -0.5, 2.0, np.inf, np.nan, -0.5, 7.0], np.float32)
    for resources in ({}, {"a": "x"}):
        for equal in (True, False):
            f = nx.xmap(
                lambda x, equal=equal: nx.unique(x, axis="a", size=8, out_axis="p", fill_value=0.0, equal_nan=equal),
                ["a"],
                ["p"],
                axis_resources=resources,
                mesh=make_mesh((4, 2)),
            )
            np.testing.assert_array_equal(f(x), padded(np.unique(x, equal_nan=equal), 8, 0))
    truth = nx.named(make.array([True, True]), ["a"])
    assert nx.positional(nx.unique(truth, axis="a", size=2, out_axis="p"), ["p"]).tolist() == [True, True]


def test_what_nonzero_sends():
    """A number per device, and the result; never the axis. The result may be sharded itself."""

    def f(x):
        return nx.nonzero(x, axis="a", size=8, out_axis="p")[0]

    x = (np.arange(512) % 100 == 7).astype(np.int32)
    for out in ({}, {"p": "x"}):
        mapped = nx.xmap(f, ["a"], ["p"], axis_resources={"a": "x", **out}, mesh=make_mesh((4, 2)))
        np.testing.assert_array_equal(mapped(x), padded(np.nonzero(x)[0], 8, 0))
        sent = hlo.collectives(mapped.lower(x).compile())
        assert sent
        assert all(one.bytes <= 4 * 9 for one in sent), sent


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda x: nx.nonzero(x), NamedAxesLeftError, "nonzero: the number of indices of f32[]{a:8, b:4} depends on data"),
        (lambda x: nx.nonzero(x, axis="a"), ArgumentError, "nonzero: size= is required"),
        (
            lambda x: nx.unique(x, axis="a"),
            ArgumentTypeError,
            "; names are batch axes, and all their elements share one shape. Pass size=",
        ),
        (lambda x: nx.nonzero(x, axis="a", out_axis="p"), AxisNotFoundError, "nonzero: axis 'p' has no size here"),
        (lambda x: nx.nonzero(x, axis="c", size=2), AxisNotFoundError, "nonzero: no axis 'c' in f32[]{a:8, b:4}"),
        (lambda x: nx.nonzero(x, axis="a", size=2, out_axis="b"), AxisNameError, "out_axis='b' must be an axis name that"),
        (lambda x: nx.nonzero(x, axis=0, size=2), AxisNameError, "axis=0 must be an axis name or a tuple of names"),
        (lambda x: nx.nonzero(x, axis="a", size=-1), ArgumentError, "must be a nonnegative integer, got -1"),
        (lambda x: nx.nonzero(x, axis="a", size=1, fill_value=(1, 2)), ArgumentError, "has 2 values for 1 axes"),
        (
            lambda x: nx.unique(x, return_inverse=True, axis=("a", "b"), size=2, out_axis="p"),
            ArgumentError,
            "unique: an index over several axes, ('a', 'b'), is not one number",
        ),
    ],
)
def test_mistakes(call, error, words):
    with pytest.raises(error) as raised:
        call(nx.named(array(8, 4).astype(jnp.float32), ["a", "b"]))
    assert words in str(raised.value), raised.value


UNSIZED = {
    "unique": (lambda x: nx.unique(x, axis="a"), "size"),
    "nonzero": (lambda x: nx.nonzero(x.data), "size"),
    "argwhere": (lambda x: nx.numpy.argwhere(x), "size"),
    "flatnonzero": (lambda x: nx.numpy.flatnonzero(x), "size"),
    "unique_counts": (lambda x: nx.numpy.unique_counts(x), "size"),
    "union1d": (lambda x: nx.numpy.union1d(x, x), "size"),
    "repeat": (lambda x: nx.repeat(x.data, x.data, 0), "total_repeat_length"),
}


@pytest.mark.parametrize("op", UNSIZED)
@pytest.mark.parametrize("resources", [{}, {"a": "x"}], ids=["unmapped", "mapped"])
def test_without_a_size_in_a_mapped_function(op, resources):
    call, says = UNSIZED[op]
    f = nx.xmap(call, axis_resources=resources, mesh=make_mesh((2,)))
    with pytest.raises(NamedaxError) as raised:
        f(nx.named(jnp.arange(4) % 3, ["a"]))
    text = said(raised.value)
    assert text.startswith(f"{op}: the ")
    assert f"Give {says}" in text or f"Pass {says}" in text
    assert "racer" not in text


@pytest.mark.full(1)
@pytest.mark.fast(0)
def test_positions_are_left_to_jax():
    x = array(3, 5, kind="ties")
    for have, want in zip(nx.nonzero(x), jnp.nonzero(x), strict=True):
        np.testing.assert_array_equal(have, want)
    np.testing.assert_array_equal(nx.unique(x), jnp.unique(x))
    named = nx.named(x, ["n", None])
    assert nx.nonzero(named, size=2)[0].dims == ("n", None)
    assert nx.numpy.unique(named, axis="n", size=2).named_shape["n"] == 2
