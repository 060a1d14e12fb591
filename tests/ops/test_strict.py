"""Strict promotion of types and ranks, integers of NumPy as axes, and the rarer arguments of common functions, against `jnp`.

Under `jax_numpy_dtype_promotion="strict"` and `jax_numpy_rank_promotion="raise"` a function may not mix types or ranks that its user did not
mix. Complaints come while tracing, so that most programs here are traced only.
"""

import contextlib
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType

import namedax as nx
from namedax.errors import AxisSizeError, EinsumError, PositionalAxisError
from tests.harness import FEW, array, check, make_mesh

X = nx.named(array(8, 4, 3), ["a", "b", None])


def ids():
    return nx.named(jnp.arange(8) % 3, ["a"])


def loss(x):
    return nx.nn.softmax_cross_entropy(x[0], nx.argmax(x[1], "a"), "a", z_loss=0.1, label_smoothing=0.1)


def attention(x):
    return nx.nn.dot_product_attention(x[0], x[1], x[2], axis="a", features="b", is_causal=True)


OVER_ONE = (
    "sum mean var std prod max min logsumexp median nanmedian nansum nanmean nanvar nanstd nanmax nanmin nanprod ptp average "
    "cumsum cumprod cummax cumlogsumexp nancumsum sort argsort argmax nanargmin flip max_with_index"
).split()
MASKED = "sum mean var std logsumexp nansum nanmean nanvar nanstd".split()
CALLS = {
    **{name: lambda x, name=name: getattr(nx, name)(x, "a") for name in OVER_ONE},
    **{f"{name} where": lambda x, name=name: getattr(nx, name)(x, ("a", 0), where=x > 0) for name in MASKED},
    **{
        f"{name} of integers": lambda x, name=name: getattr(nx, name)((100 * x).astype(jnp.int16), "a")
        for name in OVER_ONE[:12]
    },
    "quantiles": lambda x: nx.quantile(x, jnp.array([0.2, 0.7]), ("a", 0)),
    "nan-quantile": lambda x: nx.nanquantile(x, 0.3, "a", method="nearest"),
    "percentiles": lambda x: nx.percentile(x, np.array([30.0, 50.0]), "a", method="midpoint"),
    "norms": lambda x: [nx.norm(x, ord, "a") for ord in (None, 1, 3, np.inf)],
    "matrix norms": lambda x: [nx.norm(x, ord, ("a", "b")) for ord in ("fro", "nuc")],
    "histogram": lambda x: nx.histogram(x, 5, (-1, 1), axis="a")[0],
    "histogram for each": lambda x: nx.histogram(x, 5, axis="a")[0],
    "searchsorted": lambda x: nx.searchsorted(nx.sort(x[0], "a"), x[1].rename({"a": "q"}), axis="a"),
    "take": lambda x: nx.take(x, jnp.array([0, 3]), "a"),
    "indices": lambda x: x[{"a": jnp.array([1, 2], jnp.int16)}],
    "updates": lambda x: x.at[{"a": jnp.array([1, 2])}].add(2),
    "segments": lambda x: [
        nx.segment_max(x, ids(), 4, axis="a", out_axis="s"),
        nx.segment_sum(x, ids(), 4, axis="a", out_axis="s"),
    ],
    "softmax": lambda x: [nx.nn.softmax(x, ("a", 0), x > 0), nx.nn.log_softmax(x, "a")],
    "normalisation": lambda x: [nx.nn.layer_norm(x, "a"), nx.nn.rms_norm(x, "a"), nx.nn.moments(x, "a")],
    "loss": loss,
    "attention": attention,
    "einsum": lambda x: nx.einsum("n{a},m{a,b},m{b}->n{b}", x["b", 0], x, x["a", 0]),
    "einsum in float32": lambda x: nx.einsum(
        "n{a},m{a,b},m{b}->n{b}", x["b", 0], x, x["a", 0], preferred_element_type=jnp.float32
    ),
    "neighbours": lambda x: [
        nx.diff(x, axis="a", out_axis="q"),
        nx.roll(x, 2, "a"),
        nx.pad(x, {"a": (1, 2)}, out_axis={"a": "q"}),
    ],
    "scan": lambda x: nx.scan(lambda c, v: (c + v, c * v), x["b", 0] * 0, x, axis="b"),
    "collectives": lambda x: [nx.lax.psum(x, "a"), nx.lax.pmean(x, "a"), nx.lax.psum_scatter(nx.lax.all_gather(x, "a"), "a")],
    "spread": lambda x: [nx.var(x, "a", mean=nx.mean(x, "a")), nx.nanstd(x, "a", correction=1)],
    "factors": lambda x: nx.nn.logsumexp(x, "a", b=x, return_sign=True),
    "arithmetic": lambda x: nx.where(x > 0, x * 2 + 1.0, 0.0) ** 2,
}


@contextlib.contextmanager
def strict():
    with jax.numpy_dtype_promotion("strict"), jax.numpy_rank_promotion("raise"):
        yield


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("resources", [{}, {"a": "x"}], ids=["here", "sharded"])
def test_nothing_is_mixed(dtype, resources):
    x, mesh, wrong = X.astype(dtype), make_mesh((4,)), {}
    for label, call in CALLS.items():
        f = nx.xmap(call, axis_resources=resources, mesh=mesh)
        with strict():
            try:
                jax.eval_shape(f, x)
            except Exception as error:
                wrong[label] = f"{type(error).__name__}: {error}"
    assert wrong == {}


@pytest.mark.full(1)
@pytest.mark.fast(0)
def test_the_numbers_are_the_same():
    x = X.astype(jnp.bfloat16)
    for label in ("median", "quantiles", "histogram", "normalisation", "loss", "attention", "einsum in float32"):
        want = jax.tree.leaves(CALLS[label](x))
        with strict():
            have = jax.tree.leaves(CALLS[label](x))
        for h, w in zip(have, want, strict=True):
            assert h.dtype == w.dtype
            np.testing.assert_array_equal(h, w)


def test_median_of_narrow_floats():
    data = array(8, 5)
    for dtype in (jnp.float16, jnp.bfloat16):
        x = data.astype(dtype)
        with strict():
            have = nx.median(nx.named(x, ["a", "b"]), "a")
        np.testing.assert_array_equal(nx.positional(have, ["b"]), jnp.median(x, 0))


def test_a_mask_of_integers():
    x = array(8, 3).at[2, 1].set(jnp.nan)
    mask = (array(8, 3, seed=1) > 0).astype(int)
    for name in ("nanvar", "nanstd", "nanmean"):
        have = getattr(nx, name)(nx.named(x, ["a", None]), "a", where=nx.named(mask, ["a", None]))
        np.testing.assert_allclose(have, getattr(jnp, name)(x, 0, where=mask > 0), rtol=1e-5)


@pytest.mark.full(1)
@pytest.mark.fast(0)
def test_debug_nans():
    """No function makes a NaN on the way to numbers without one."""
    with jax.debug_nans(True):
        for name in ("var", "nanvar", "median", "nanmax", "logsumexp", "cumlogsumexp", "average"):
            getattr(nx, name)(X, "a")
            nx.xmap(lambda x, name=name: getattr(nx, name)(x, "a"), axis_resources={"a": "x"}, mesh=make_mesh((4,)))(X)
        jax.grad(lambda x: nx.sum(nx.std(x, "a"), ("b", 0)))(X)
        nx.var(X, "a", mean=0.5, correction=1)
        nx.nn.logsumexp(X, "a", b=2.0)


INTEGERS = [np.array(1), np.int64(1), np.array(-1, np.int8), [np.array(1)], (np.int32(0), np.array(1))]


@pytest.mark.full(3)
@pytest.mark.fast(0)
@pytest.mark.parametrize("axis", INTEGERS, ids=repr)
def test_integers_of_numpy_are_positions(axis):
    x, data = nx.named(array(4, 3, 5), ["a", None, None]), array(4, 3, 5)
    place = tuple(int(i) + (i >= 0) for i in (axis if isinstance(axis, (list, tuple)) else [axis]))
    for name in ("sum", "max", "var", "median", "logsumexp"):
        theirs = getattr(jnp, name, None) or jax.nn.logsumexp
        np.testing.assert_allclose(
            nx.positional(getattr(nx, name)(x, axis), ["a", ...]), theirs(data, place), rtol=1e-5, atol=1e-6
        )
    if len(place) > 1:
        return
    if isinstance(axis, list):
        return
    for name in ("cumsum", "sort", "argmax"):
        np.testing.assert_allclose(
            nx.positional(getattr(nx, name)(x, axis), ["a", ...]), getattr(jnp, name)(data, place[0]), rtol=1e-5
        )
    np.testing.assert_array_equal(
        nx.positional(nx.take(x, jnp.array([1, 0]), axis), ["a", ...]), data.take(jnp.array([1, 0]), place[0])
    )


def test_what_is_no_position():
    for axis in (np.array(0.0), np.array([0]), 1.0, True, np.array(7)):
        with pytest.raises(PositionalAxisError, match="sum: "):
            nx.sum(X, axis)


# --- rarer arguments --------------------------------------------------------------------------------------------------------


@pytest.mark.full(2)
@pytest.mark.fast(1)
@pytest.mark.parametrize("placement", FEW, ids=str)
def test_a_sorter(placement):
    values, wanted = array(8, 4, seed=2), array(4, 5, seed=3)

    def by_name(values, wanted):
        return nx.searchsorted(values, wanted, "right", sorter=nx.argsort(values, "a"), axis="a").astype(jnp.float32)

    plain = jax.vmap(lambda values, wanted: jnp.searchsorted(jnp.sort(values), wanted, "right").astype(jnp.float32), (1, 0))
    check(by_name, plain, (values, wanted), (["a", "b"], ["b", "q"]), ["b", "q"], placement, grad=False)


@pytest.mark.fast(2)
@pytest.mark.parametrize(("shape", "resources"), [((), {}), ((4,), {"a": "x"}), ((2, 3), {"a": "x", "q": "y"})])
def test_an_initial_entry(shape, resources):
    x = array(8, 3)
    mesh = jax.make_mesh(
        shape, ("x", "y")[: len(shape)], (AxisType.Auto,) * len(shape), devices=jax.devices()[: math.prod(shape)]
    )

    def body(x):
        return (
            nx.numpy.cumulative_sum(x, axis="a", include_initial=True, out_axis="q"),
            nx.numpy.cumulative_prod(x, axis="a", include_initial=True, out_axis="q"),
            nx.numpy.cumulative_sum(x, axis=0, include_initial=True),
        )

    f = nx.xmap(
        body, ["a", None], (["q", None], ["q", None], ["a", None]), axis_resources=resources, mesh=mesh if shape else None
    )
    sums, products, along = f(x)
    np.testing.assert_allclose(sums, jnp.cumulative_sum(x, axis=0, include_initial=True), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(products, jnp.cumulative_prod(x, axis=0, include_initial=True), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(along, jnp.cumulative_sum(x, axis=1, include_initial=True), rtol=1e-5, atol=1e-6)
    with pytest.raises(AxisSizeError, match="'a'"):
        nx.xmap(lambda x: nx.numpy.cumulative_sum(x, axis="a", include_initial=True), ["a", None], None)(x)


def test_several_entries_before_and_behind():
    x, before, behind = array(4, 6), array(4, 2, seed=1), array(3, seed=2)
    have = nx.diff(
        nx.named(x, ["b", "k"]), 2, "k", prepend=nx.named(before, ["b", "k"]), append=nx.named(behind, ["k"]), out_axis="d"
    )
    want = np.diff(x, 2, 1, prepend=before, append=np.broadcast_to(behind, (4, 3)))
    np.testing.assert_allclose(nx.positional(have, ["b", "d"]), want, rtol=1e-5, atol=1e-6)
    have = nx.diff(nx.named(x, ["b", "k"]), axis="k", prepend=1.0, append=nx.named(before, ["b", "k"]))
    np.testing.assert_allclose(nx.positional(have, ["b", "k"]), np.diff(x, prepend=1.0, append=before), rtol=1e-5, atol=1e-6)
    have = nx.diff(nx.named(x, ["b", None]), axis=0, prepend=nx.named(before, ["b", None]))
    np.testing.assert_allclose(nx.positional(have, ["b", None]), np.diff(x, prepend=before), rtol=1e-5, atol=1e-6)


DIAGONALS = {
    "{i,i:j}c->{i}c": (["i", None], "iic->ic"),
    "{i,i:j}c->c": ([None], "iic->c"),
    "{i,i:j}c": ([None], "iic->c"),
    "{j,j:i}c->{i:j}c": (["i", None], "iic->ic"),
    "{k:i,k:j}c->{k}c": (["k", None], "iic->ic"),
    "{i,i:j}c,{i}->c": ([None], "iic,i->c"),
}
LAYOUTS = [{}, {"i": "x"}, {"j": "x"}, {"i": "x", "j": "y"}, {"i": ("y", "x")}]


@pytest.mark.full(0)
@pytest.mark.fast(1)
@pytest.mark.parametrize("spec", DIAGONALS)
def test_repeated_names(spec):
    out, plain = DIAGONALS[spec]
    args = (array(8, 8, 3), array(8, seed=1))[: 1 + ("," in plain)]
    for resources in LAYOUTS if spec in list(DIAGONALS)[:4] else LAYOUTS[3:]:
        more = {"k": "x"} if "k" in spec and resources.get("i") != "x" and resources.get("j") != "x" else {}
        f = nx.xmap(
            lambda *args: nx.einsum(spec, *args), (["i", "j", None], ["i"])[: len(args)], out, axis_resources=resources | more,
            mesh=make_mesh((4, 2)),
        )  # fmt: skip
        want, back = jax.vjp(lambda *args: jnp.einsum(plain, *args), *args)
        have, forth = jax.vjp(f, *args)
        np.testing.assert_allclose(have, want, rtol=1e-5, atol=1e-6)
        weights = array(*want.shape, seed=5)
        for h, w in zip(forth(weights), back(weights), strict=True):
            np.testing.assert_allclose(h, w, rtol=1e-5, atol=1e-6)


def test_one_axis_is_read_once():
    with pytest.raises(EinsumError, match=r"name 'i' appears twice in one operand\. For the diagonal over two axes"):
        nx.einsum("{i,i}->{i}", nx.named(array(3), ["i"]))
    with pytest.raises(AxisSizeError, match="'i' has size 3 in operand 0"):
        nx.einsum("{i,i:j}->{i}", nx.named(array(3, 4), ["i", "j"]))
