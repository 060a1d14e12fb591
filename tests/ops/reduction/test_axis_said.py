"""Axes of reductions: left out, `...`, `None`, sets and views, and the index over several."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import namedax as nx
from namedax.errors import PositionalAxisError
from tests import make
from tests.harness import make_mesh, said

X = np.random.default_rng(8).permutation(8 * 4 * 6).reshape(8, 4, 6).astype("float32")
X[5, 2, 3] = np.nan
ALL = nx.named(make.asarray(X), ["a", "b", "c"])
SOME = nx.named(make.asarray(X), ["a", None, "c"])
REDUCTIONS = (
    "sum prod mean var std max min any all argmax argmin count_nonzero logsumexp median nansum nanprod nanmean nanvar nanstd nanmax nanmin "
    "nanargmax nanargmin nanmedian ptp average norm"
).split()
RESOURCES = [{}, {"a": "x"}, {"a": "x", "c": "y"}, {"b": "x", "a": "y"}]


REQUIRED = "f32[]{a:8, b:4, c:6} has no positional axis, and without an axis only those are reduced. "
REQUIRED += "Pass axis=... for all of its axes, or choose from 'a', 'b', 'c'."
SEARCHED = "f32[]{a:8, b:4, c:6} has no positional axis, and without an axis only those are searched. "
SEARCHED += "Pass axis=('a', 'b', 'c') for an index over all of its axes in this order, or choose from 'a', 'b', 'c'."
MIRRORED = {  # by JAX's place
    **{f"numpy.{name}": name for name in REDUCTIONS if name not in ("logsumexp", "norm")},
    **{"numpy.linalg.norm": "norm", "numpy.linalg.vector_norm": "vector_norm", "nn.logsumexp": "logsumexp"},
    **{"numpy.amax": "max", "numpy.amin": "min", "nn.logmeanexp": "logmeanexp", "scipy.special.logsumexp": "logsumexp"},
    **{"scipy.special.softmax": "softmax", "scipy.special.log_softmax": "log_softmax"},
}


@pytest.mark.fast(12)
@pytest.mark.parametrize("place", MIRRORED)
def test_without_an_axis_in_the_namespaces_of_jax(place):
    ours, theirs = nx, jax
    for part in place.split("."):
        ours, theirs = getattr(ours, part), getattr(theirs, part)
    for call in (ours, lambda x: ours(x, axis=None), nx.xmap(ours)):
        with pytest.raises(PositionalAxisError) as error:
            call(ALL)
        assert said(error.value) == f"{MIRRORED[place]}: {SEARCHED if 'arg' in place else REQUIRED}"
    inside = nx.nmap(lambda x: ours(x))(nx.untag(ALL, ["b", "c"]))  # sees plain arrays
    np.testing.assert_allclose(inside.data if inside.shape else nx.positional(inside, ["a"]), jax.vmap(theirs)(X), rtol=1e-5)


@pytest.mark.parametrize("name", ["quantile", "percentile", "nanquantile", "nanpercentile"])
def test_quantiles_without_an_axis_in_the_namespaces_of_jax(name):
    for call in (lambda f: f(ALL, 0.5), lambda f: f(a=ALL, q=0.5), lambda f: f(ALL, 0.5, None)):
        with pytest.raises(PositionalAxisError) as error:
            call(getattr(nx.numpy, name))
        assert said(error.value) == f"{name}: {REQUIRED}"


def test_ported_code_does_not_return_its_argument():
    from namedax import numpy as xnp

    x = nx.nan_to_num(ALL)
    for call in (
        lambda: (x - xnp.mean(x)) / (xnp.std(x) + 1e-6),
        lambda: x * xnp.minimum(1.0, 1.0 / xnp.linalg.norm(x)),
        lambda: xnp.sum(a=x),
        lambda: nx.sum(x=x),
        lambda: xnp.size(x),
        lambda: nx.nn.softmax(x),
        lambda: nx.nn.standardize(x),
    ):
        with pytest.raises(PositionalAxisError):
            call()
    assert float(xnp.mean(x, axis=...)) == pytest.approx(np.nan_to_num(X).mean())
    with pytest.raises(PositionalAxisError) as error:
        nx.nn.softmax(x)
    assert said(error.value) == (
        "softmax: axis=-1 is a position, but f32[]{a:8, b:4, c:6} has only named axes. Pass axis='a' or axis='b' or axis='c'."
    )


@pytest.mark.full(7)
@pytest.mark.fast(0)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_without_an_axis(name):
    function = getattr(nx, name)
    for call in (function, lambda x: function(x, axis=None), lambda x: function(x=x)):
        with pytest.raises(PositionalAxisError) as error:
            call(ALL)
        assert said(error.value) == f"{name}: {SEARCHED if 'arg' in name else REQUIRED}"
    over_positions = function(SOME)  # where there are positions it means these, as in JAX
    assert set(over_positions.dims) == {"a", "c"}
    np.testing.assert_array_equal(
        function(jnp.asarray(X[:2])),
        getattr(jnp.linalg if name == "norm" else jax.nn if name == "logsumexp" else jnp, name)(X[:2]),
    )


def test_methods_without_an_axis():
    for name in "sum mean var std prod max min any all argmax argmin ptp".split():
        advice = r"\('a', 'b', 'c'\) for an index over all" if "arg" in name else r"\.\.\. for all"
        with pytest.raises(PositionalAxisError, match=rf"^{name}: .* Pass axis={advice} of its axes"):
            getattr(ALL, name)()
    assert float(nx.nan_to_num(ALL).sum(...)) == np.nansum(X)


@pytest.mark.parametrize("q", [lambda f: f(ALL, 0.3), lambda f: f(ALL, jnp.array([0.3, 0.7]))])
def test_quantiles_without_an_axis(q):
    for name in ("quantile", "percentile", "nanquantile", "nanpercentile"):
        with pytest.raises(PositionalAxisError, match=rf"^{name}: .* Pass axis=\.\.\. for all of its axes"):
            q(getattr(nx, name))


@pytest.mark.full(0)
@pytest.mark.fast(1)
@pytest.mark.parametrize("resources", RESOURCES)
def test_all_axes(resources):
    clean = np.nan_to_num(X)
    wants = {
        "sum": clean.sum(), "mean": clean.mean(), "max": clean.max(), "std": clean.std(), "median": np.median(clean),
        "count_nonzero": np.count_nonzero(clean), "any": True, "ptp": np.ptp(clean),
        "nanmax": clean.max(), "average": clean.mean(),
    }  # fmt: skip
    for array in (nx.named(jnp.asarray(clean), ["a", "b", "c"]), nx.named(jnp.asarray(clean), ["a", None, "c"])):
        used = {name: axis for name, axis in resources.items() if name in array.dims}
        f = nx.xmap(
            lambda x: {name: getattr(nx, name)(x, axis=...) for name in wants}, axis_resources=used, mesh=make_mesh((4, 2))
        )
        for name, have in f(array).items():
            np.testing.assert_allclose(have, wants[name], rtol=1e-5, err_msg=name)


@pytest.mark.full(2)
@pytest.mark.fast(2)
@pytest.mark.parametrize("kind", ["auto", "explicit"])
@pytest.mark.parametrize("resources", RESOURCES)
def test_the_index_over_several_axes(resources, kind):
    order = np.transpose(X, (0, 2, 1))  # c, a of [a, c, b] below

    def body(x):
        return (
            nx.argmax(x, ("c", "a")), nx.argmin(nx.nan_to_num(x, nan=50.5), ("a", "c")), nx.argmax(nx.nan_to_num(x, nan=0.0), ["b", "a", "c"]),
            nx.argmax(nx.round(x / 40), ("a", "b")),
        )  # fmt: skip

    filled = np.nan_to_num(X, nan=50.5)
    wants = (
        np.argmax(order.transpose(1, 0, 2).reshape(48, 4), 0),
        np.argmin(filled.transpose(0, 2, 1).reshape(48, 4), 0),
        np.argmax(np.nan_to_num(X, nan=0.0).transpose(1, 0, 2).ravel()),
        np.argmax(np.round(X / 40).reshape(32, 6), 0),  # with ties, and a NaN
    )
    have = nx.xmap(body, axis_resources=resources, mesh=make_mesh((4, 2), kind))(ALL)
    for result, want in zip(have, wants, strict=True):
        np.testing.assert_array_equal(result.data if isinstance(result, nx.NamedArray) else result, want)


@pytest.mark.fast(0)
def test_sets_and_views():
    clean = nx.nan_to_num(SOME)
    want = np.nan_to_num(X).sum((0, 2))
    for axis in ({"a", "c"}, {"a": 1, "c": 2}.keys(), {1: "c", 2: "a"}.values(), ["a", "c"], clean.named_shape.keys()):
        np.testing.assert_allclose(nx.sum(clean, axis), want, rtol=1e-6)
        np.testing.assert_allclose(nx.mean(clean, axis), want / 48, rtol=1e-6)
        np.testing.assert_array_equal(nx.median(clean, axis), np.median(np.nan_to_num(X), (0, 2)))
        assert nx.nn.softmax(clean, axis).dims == clean.dims
    np.testing.assert_allclose(nx.sum(clean, {"a", 0, "c"}), want.sum(), rtol=1e-6)
    np.testing.assert_array_equal(
        nx.positional(nx.flip(clean, {"a": 0, "c": 0}.keys()), ["a", None, "c"]), np.nan_to_num(X)[::-1, :, ::-1]
    )
    for zero in (np.array(0), jnp.array(0), np.int8(0)):
        np.testing.assert_allclose(nx.sum(clean, zero).data, np.nan_to_num(X).sum(1), rtol=1e-6)
    with pytest.raises(PositionalAxisError, match=r"has no order for the index\. Write a tuple"):
        nx.argmax(clean, {"a", "c"})
    with pytest.raises(PositionalAxisError, match=r"argmax: axis=.* must contain at least one positional or named axis"):
        nx.argmax(clean, ())


ODD = nx.named(make.array(np.arange(24.0).reshape(2, 3, 4)), ["k", "q", None])


@pytest.mark.parametrize("axis", [True, False, 1.0, np.float32(0)])
@pytest.mark.parametrize("name", ["unwrap", "trapezoid", "fft.fft", "rollaxis"])
def test_lifted_functions_take_no_flags_and_fractions_for_axes(name, axis):
    function = nx.numpy
    for part in name.split("."):
        function = getattr(function, part)
    for _ in range(2):
        with pytest.raises(nx.errors.PositionalAxisError, match=r"axis=.* is neither a position nor a name"):
            function(ODD, axis=axis)


@pytest.mark.parametrize("axis", [False, 0.0])
@pytest.mark.parametrize(
    "call",
    [
        lambda axis: nx.numpy.transpose(ODD, (axis,)),
        lambda axis: nx.numpy.moveaxis(ODD, axis, 0),
        lambda axis: nx.numpy.gradient(ODD, axis=axis),
        lambda axis: nx.numpy.fft.fftshift(ODD, axis),
        lambda axis: nx.numpy.fft.fftn(ODD, axes=(axis,)),
        lambda axis: nx.scipy.fft.dct(ODD, axis=axis),
        lambda axis: nx.lax.reduce_sum(ODD, (axis,)),
        lambda axis: nx.lax.argmax(ODD, axis, jnp.int32),
        lambda axis: nx.lax.sort(ODD, axis),
        lambda axis: nx.lax.index_in_dim(ODD, 1, axis),
    ],
)
def test_other_spellings_take_none_either(call, axis):
    with pytest.raises(nx.errors.PositionalAxisError, match=r"=.* is neither a position nor a name"):
        call(axis)


def test_methods_of_positional_axes_reject_names_in_words():
    for call in (
        lambda: ODD.transpose("k", "q"),
        lambda: ODD.transpose(("k", "q")),
        lambda: ODD.swapaxes("k", "q"),
        lambda: ODD.trace(axis1="k", axis2="q"),
    ):
        with pytest.raises(nx.errors.ArgumentTypeError, match=r"acts on positional axes, and .k. is a name\. Call nx"):
            call()


def test_names_cannot_be_reversed():
    table = nx.named(make.arange(12.0).reshape(4, 3), ["station", "year"])
    calls = {
        "T": lambda x: x.T,
        "transpose": lambda x: x.transpose(),
        "transpose ": lambda x: x.transpose(None),
        "transpose  ": nx.transpose,
        "transpose   ": lambda x: nx.numpy.transpose(x, axes=None),
        "permute_dims": nx.numpy.permute_dims,
    }
    for op, call in calls.items():
        with pytest.raises(PositionalAxisError) as error:
            call(table)
        assert said(error.value) == (
            f"{op.strip()}: f32[]{{station:4, year:3}} has no positional axis, and names have no order, so there is nothing to reverse. Write "
            "nx.rename for the other side of a product, as in nx.dot(x, nx.rename(x, {'station': 'other'}), 'year')."
        )
        if op == "permute_dims":  # which needs its axes in JAX
            continue
        assert call(ODD).dims == ODD.dims  # where there are positions, these are reversed
        np.testing.assert_array_equal(nx.nmap(call)(table).data, table.data)  # inside there are no names
    with pytest.raises(PositionalAxisError, match=r"as in nx\.rename\(x, \{'other': 'another'\}\)\."):
        nx.transpose(table["station", 0].rename(year="other"))
    np.testing.assert_array_equal(
        nx.transpose(table, ("year", "station")).data, table.data
    )  # axes are given: nothing happens to names
    other = nx.dot(table, nx.rename(table, {"station": "other"}), "year")
    want = np.arange(12.0).reshape(4, 3)
    np.testing.assert_array_equal(nx.positional(other, ["station", "other"]), want @ want.T)


def test_var_and_std_as_methods_take_a_correction():
    want = np.arange(24.0).reshape(2, 3, 4)
    np.testing.assert_allclose(nx.positional(ODD.var("q", correction=1), ["k", None]), want.var(1, ddof=1), rtol=1e-6)
    np.testing.assert_allclose(nx.positional(ODD.std("q", correction=1), ["k", None]), want.std(1, ddof=1), rtol=1e-6)
    with pytest.raises(
        nx.errors.ArgumentError, match=r"^var: ddof=1 and correction=1 mean the same\. Pass one of them\. \[NX018\]$"
    ):
        ODD.var("q", ddof=1, correction=1)
