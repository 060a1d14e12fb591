"""What a user of NumPy writes, and would get a surprising number for without a word: each is an error that says what to write."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import namedax as nx
from namedax.errors import ArgumentError, ArgumentTypeError, AxisNameError, AxisNotFoundError, PositionalAxisError
from tests import make
from tests.harness import FEW, Lazily, array, make_mesh, said

xarray = Lazily("xarray")

DATA = np.random.default_rng(0).normal(size=(3, 4)).astype("float32")
X = nx.named(make.asarray(DATA), ["station", "day"])
TURNED = nx.named(make.asarray(DATA.T), ["day", "station"])
DAY = nx.named(make.arange(4.0), ["day"])


def message(call, kind):
    """The text of the error that a call raises, of this very class."""
    with pytest.raises(kind) as error:
        call()
    assert type(error.value) is kind
    return said(error.value)


# --- an index over axes without an order -------------------------------------------------------------------------------------


@pytest.mark.fast(1)
@pytest.mark.parametrize("name", ["argmax", "argmin", "nanargmax", "nanargmin"])
def test_an_index_over_all_axes_requires_an_order(name):
    for function in (getattr(nx, name), getattr(nx.numpy, name)):
        for x, order, kind in (
            (X, ("station", "day"), "f32[]{station:3, day:4}"),
            (TURNED, ("day", "station"), "f32[]{day:4, station:3}"),
        ):
            assert message(lambda function=function, x=x: function(x, ...), PositionalAxisError) == (
                f"{name}: axis=... gives the index no order, because the names of {kind} have no order. Write the axes in order: "
                f"axis={order}."
            )
            assert int(function(x, ("station", "day"))) == getattr(np, name)(DATA)
        with pytest.raises(PositionalAxisError, match=r"Write the axes in order: axis=\('day', 0\)\."):
            function(nx.untag(X, ["station"]), ...)
        assert int(function(DAY, ...)) == getattr(np, name)(np.arange(4.0))
    assert int(getattr(nx, name)(jnp.asarray(DATA), ...)) == getattr(np, name)(DATA)  # positions have an order


def test_an_extremum_with_its_index_is_along_one_axis():
    for function in (nx.max_with_index, nx.min_with_index):
        with pytest.raises(PositionalAxisError, match=r"with_index: axis=\.\.\. must be one positional or named axis"):
            function(X, ...)
    assert int(nx.max_with_index(DAY, ...).indices) == 3


# --- places that names do not have -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("op", "call", "moved"),
    [
        (
            "moveaxis",
            lambda x: nx.moveaxis(x, "day", 0),
            "axis 'day' of f32[]{station:3, day:4} cannot be moved from 'day' to 0",
        ),
        (
            "rollaxis",
            lambda x: nx.numpy.rollaxis(x, "day"),
            "axis 'day' of f32[]{station:3, day:4} cannot be moved from 'day' to 0",
        ),
        (
            "swapaxes",
            lambda x: nx.numpy.swapaxes(x, "station", "day"),
            "axis 'station' of f32[]{station:3, day:4} cannot be moved from 'station' to 'day'",
        ),
    ],
)
def test_names_are_not_moved(op, call, moved):
    assert message(lambda: call(X), AxisNameError) == (
        f"{op}: names have no order, so {moved}. To give axes positions write nx.positional(x, [...]); to exchange the names of two, "
        "nx.rename(x, {a: b, b: a})."
    )
    with pytest.raises(AxisNotFoundError, match=f"{op}: no axis '(day|station)'"):
        call(nx.rename(X, day="hour", station="place"))


def test_positions_are_moved_as_in_jax():
    x = nx.named(array(2, 3, 4), ["a", ...])
    for call in (lambda x: nx.numpy.swapaxes(x, 0, -1), lambda x: nx.numpy.rollaxis(x, 1), lambda x: nx.moveaxis(x, 1, 0)):
        np.testing.assert_array_equal(call(x).data, x.data.swapaxes(1, 2))
    with pytest.raises(ArgumentTypeError, match=r"swapaxes: as a method .* Call nx\.rename\(x, \{a: b, b: a\}\)"):
        X.swapaxes("day", "station")


# --- a mask selects ----------------------------------------------------------------------------------------------------------

MASK = np.array([True, False, True, True])
MASKED = "sum prod mean var std any all nansum nanprod nanmean nanvar nanstd".split()


@pytest.mark.parametrize("name", [*MASKED, "max", "min", "nanmax", "nanmin", "logsumexp"])
def test_a_mask_adds_no_positions(name):
    function, options = getattr(nx, name), {"initial": 0.0} if name.endswith(("max", "min")) else {}
    op = name if name in ("nanmean", "nanvar") else "nanvar" if name == "nanstd" else name.removeprefix("nan")
    for x, kind in ((DAY, "f32[]{day:4}"), (X, "f32[]{station:3, day:4}")):
        assert message(lambda x=x: function(x, "day", where=MASK, **options), PositionalAxisError) == (
            f"{op}: where= is bool[4], which does not broadcast to the positional axes of "
            f"{kind}. Name the mask: nx.named(mask, ['day'])."
        )
    with pytest.raises(PositionalAxisError, match=r"positional axes of f32\[\]\{station:3, day:4\}\. \[NX005\]$"):
        function(X, "day", where=np.ones(7, bool), **options)  # fits no name
    with pytest.raises(PositionalAxisError, match=r"mask, \['station', 'day'\]"):
        function(X, "day", where=np.ones((3, 4), bool), **options)
    with pytest.raises(PositionalAxisError, match=r"where= is bool\[4,1\]"):
        function(nx.untag(X, ["day"]), 0, where=MASK[:, None], **options)


def test_masks_that_select():
    want = np.mean(DATA, 1, where=MASK)
    named = nx.named(make.asarray(MASK), ["day"])
    np.testing.assert_allclose(nx.mean(X, "day", where=named).data, want, rtol=1e-6)
    by_position = nx.named(make.asarray(DATA), ["station", None])
    for mask in (MASK, named.data, np.ones(1, bool) & MASK, MASK[None][0]):
        np.testing.assert_allclose(nx.mean(by_position, 0, where=mask).data, want, rtol=1e-6)
    assert float(nx.sum(DAY, "day", where=True)) == 6.0
    regions = nx.named(np.array([MASK, ~MASK]), ["region", "day"])  # by name a mask broadcasts, as every operand does
    np.testing.assert_array_equal(nx.sum(DAY, "day", where=regions).data, [5.0, 1.0])


@pytest.mark.parametrize("placement", FEW, ids=str)
def test_so_it_is_in_a_body(placement):
    f = nx.xmap(lambda x: nx.mean(x, "a", where=np.ones(8, bool)), ["a", "b"], ["b"], **placement.options)
    with (
        placement.context(),
        pytest.raises(PositionalAxisError, match=r"mean: where= is .*nx\.named\(mask, \['a'\]\)"),
    ):
        f(array(8, 4))


# --- variables and quantiles -------------------------------------------------------------------------------------------------


def test_a_correlation_needs_two_variables():
    assert message(lambda: nx.corrcoef(X, axis="day"), PositionalAxisError) == (
        "corrcoef: f32[]{station:3, day:4} has no positional axis, and without variables= each of its variables is correlated with itself only, "
        "which is always 1. Pass the variables, chosen from 'station', as in nx.corrcoef(x, axis='day', variables=('station', 'other'))."
    )
    have = nx.corrcoef(X, axis="day", variables=("station", "other"))
    np.testing.assert_allclose(nx.positional(have, ["station", "other"]), np.corrcoef(DATA), rtol=1e-5)
    np.testing.assert_allclose(nx.corrcoef(nx.untag(X, ["station"]), axis="day"), np.corrcoef(DATA), rtol=1e-5)
    np.testing.assert_allclose(nx.cov(X, axis="day").data, np.var(DATA, 1, ddof=1), rtol=1e-5)


@pytest.mark.parametrize("nan", ["", "nan"])
def test_quantiles_out_of_range(nan):
    quantile, percentile = getattr(nx, f"{nan}quantile"), getattr(nx, f"{nan}percentile")
    assert message(lambda: quantile(X, 90, "day"), ArgumentError) == (
        f"{nan}quantile: q=90 must be from 0 to 1. For percent write nx.{nan}percentile."
    )
    for q in (101, -5, np.float32(100.5), [50, -1], np.array([3.0, 120.0])):
        with pytest.raises(ArgumentError, match=rf"^{nan}percentile: q=.* must be from 0 to 100\. \[NX018\]$"):
            percentile(X, q, "day")
    with pytest.raises(ArgumentError, match=f"{nan}quantile: q=.* must be from 0 to 1"):
        quantile(X, (0.5, 1.5), "day", method="inverted_cdf")
    assert jax.jit(lambda q: quantile(X, q, "day"))(2.0).shape == ()  # what is computed is as in JAX


def test_percentiles_of_lists():
    for q in ([10, 50, 90], (10, 50, 90)):
        have = nx.percentile(X, q, "day")
        np.testing.assert_allclose(nx.positional(have, [None, "station"]), np.percentile(DATA, q, axis=1), rtol=1e-5)
        assert nx.nanpercentile(X, q, "day", method="inverted_cdf").shape == (3,)


# --- where nothing would be placed -------------------------------------------------------------------------------------------


def test_shard_places_something():
    mesh, plain = make_mesh((8,)), np.zeros((8, 2), "float32")
    assert message(lambda: nx.shard(plain, {"batch": "x"}, mesh), AxisNotFoundError) == (
        "shard: no axis 'batch' in f32[8,2]; it has no named axis. Name its axes first: nx.named(x, ['batch', None])."
    )
    assert message(lambda: nx.shard({"w": plain, "b": plain}, {"batch": "x"}, mesh), AxisNotFoundError) == (
        "shard: axis_resources maps 'batch', but no array of the tree has a named axis, so nothing would be sharded. Name "
        "the axes first: nx.named(tree, axes)."
    )
    row = nx.named(plain, ["row", None])
    placed = nx.shard([row, plain], {"batch": "x", "row": "x"}, mesh)  # the assignment of a whole program
    assert placed[0].sharding.spec[0] == "x"
    assert placed[1].sharding.is_fully_replicated
    whole = nx.shard({"w": row, "count": np.zeros(())}, {"batch": "x"}, mesh)  # parameters under data parallelism
    assert whole["w"].sharding.is_fully_replicated
    assert nx.shard({"count": np.zeros(())}, {"batch": "x"}, mesh)["count"].sharding.is_fully_replicated
    assert nx.shard(None, {"batch": "x"}, mesh) is None
    assert nx.shard(plain, {}, mesh).sharding.is_fully_replicated


# --- integers that do not fit ------------------------------------------------------------------------------------------------

MILLISECONDS = np.array([1_700_000_000_000, -5])
MADE = {
    "named": lambda data: nx.named(data, ["t"]),
    "array": nx.array,
    "asarray": nx.asarray,
    "NamedArray": lambda data: nx.NamedArray(data, ("t",)),
    "shard": lambda data: nx.shard(data, {}, make_mesh((8,))),
    "from_process_local": lambda data: nx.from_process_local(data, ["t"], {}, make_mesh((8,))),
    "xmap": lambda data: nx.xmap(lambda tree: tree["t"] + 0, ({"t": ["t"]},), ["t"])({"t": data}),
    "xmap ": lambda data: nx.xmap(lambda x: x + 0, ["t"], ["t"], axis_resources={"t": "x"}, mesh=make_mesh((2,)))(data),
    "xmap  ": lambda data: nx.xmap(lambda x: x + 0, ["t"], ["t"], jit=False)(data),
}


@pytest.mark.parametrize("op", MADE)
def test_integers_that_do_not_fit(op):
    for data, low, high, kept in (
        (MILLISECONDS, -5, 1_700_000_000_000, (-(2**31), 2**31 - 1)),
        (np.array([2**32, 7], "uint64"), 7, 2**32, (0, 2**32 - 1)),
    ):
        with jax.enable_x64(False):
            kind = "i64" if low < 0 else "u64"
            assert message(lambda data=data: MADE[op](data), ArgumentError) == (
                f"{op.strip()}: the integers of {kind}[2] are from {low} to {high}; JAX holds integers from {kept[0]} to {kept[1]} while "
                "64-bit types are off. Enable 64-bit types with jax.config.update('jax_enable_x64', True), or change the dtype or the unit, for "
                "example with array.astype('float32')."
            )
        with jax.enable_x64(True):
            made = MADE[op](data)
            np.testing.assert_array_equal(made.data if isinstance(made, nx.NamedArray) else made, data)


class Batch(NamedTuple):
    times: Any


@pytest.mark.parametrize("resources", [{}, {"t": "x"}], ids=str)
def test_integers_in_nodes_of_somebodys_own(resources):
    mapped = nx.xmap(lambda batch: batch.times + 0, (Batch(["t"]),), ["t"], axis_resources=resources, mesh=make_mesh((2,)))
    with jax.enable_x64(False):
        assert message(lambda: mapped(Batch(MILLISECONDS)), ArgumentError).startswith(
            "xmap: the integers of i64[2] are from -5"
        )
        np.testing.assert_array_equal(mapped(Batch(np.array([1, 2]))), [1, 2])


def test_integers_that_fit():
    ends = np.array([2**31 - 1, -(2**31)])
    with jax.enable_x64(False):
        np.testing.assert_array_equal(nx.named(ends, ["t"]).data, ends)
        assert nx.asarray(MILLISECONDS, "float32").dtype == "float32"
        assert nx.named(np.array([], "int64"), ["t"]).named_shape == {"t": 0}
        for call in (lambda: nx.asarray([1, 2**40]), lambda: nx.array(2**40)):
            with pytest.raises(ArgumentError, match=r"array: .*1099511627776.* Enable 64-bit types with jax\.config\.update"):
                call()


def test_integers_of_xarray():
    with jax.enable_x64(False), pytest.raises(ArgumentError, match=r"^from_xarray: the integers of i64\[2\] are from -5 to 17"):
        nx.interop.from_xarray(xarray.DataArray(MILLISECONDS, dims=["t"]))


# --- names in the place of something else ------------------------------------------------------------------------------------

MISPLACED = {
    "zeros": (lambda: nx.zeros((3, 4), ["a", "b"]), "dtype=['a', 'b'] is not a dtype", "named_shape={'a': 3, 'b': 4}."),
    "ones": (lambda: nx.ones(3, "day"), "dtype='day' is not a dtype", "named_shape={'day': 3}."),
    "normal": (
        lambda: nx.random.normal(jax.random.key(0), (3,), ["day"]),
        "dtype=['day'] is not a dtype",
        "named_shape={'day': 3}.",
    ),
    "array": (
        lambda: nx.array(DATA, ["station", "day"]),
        "dtype=['station', 'day'] is not a dtype",
        "nx.named(x, ['station', 'day']).",
    ),
    "mean": (lambda: nx.mean(X, "day", True), "dtype=True is not a dtype", "It also takes the keywords keepdims=, where=."),
    "arange": (lambda: nx.arange(5, "day"), "stop='day' is not a number", "Pass the axis name by keyword, axis='day'."),
    "linspace": (lambda: nx.linspace(0, 1, 5, "day"), "endpoint='day' is neither True nor False", "axis='day'."),
}


@pytest.mark.parametrize("op", MISPLACED)
def test_a_name_as_the_wrong_argument(op):
    call, beginning, end = MISPLACED[op]
    text = message(call, ArgumentTypeError)
    assert text.startswith(f"{op}: {beginning}")
    assert text.endswith(end)
