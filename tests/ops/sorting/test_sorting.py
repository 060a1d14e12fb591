"""Order along an axis, in every placement."""

from __future__ import annotations

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import namedax as nx
from namedax.hlo import collectives, summary
from namedax.ops.sorting.network import merge_exchange
from tests import make
from tests.harness import PARTITIONER, PLACEMENTS, array, check, make_mesh

IN = ["a", None, "b"]
SOME = [p for p in PLACEMENTS if str(p) in ("unmapped-auto", "one-each-auto", "both-explicit", "two-reversed-auto")]


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 6, 7, 8])
def test_the_network_sorts(n):
    # By the zero-one principle it is enough to sort all sequences of zeros and ones.
    for bits in itertools.product((0, 1), repeat=n):
        values = list(bits)
        for pairs in merge_exchange(n):
            assert len({i for pair in pairs for i in pair}) == 2 * len(pairs)
            for i, j in pairs:
                assert i < j
                values[i], values[j] = min(values[i], values[j]), max(values[i], values[j])
        assert values == sorted(bits)


def _orders(sort, argsort, lexsort, partition, a):
    def f(x, ties, whole):
        return (
            sort(x, a),
            sort(ties, a, descending=True),
            sort(whole, a, descending=True),
            argsort(ties, a),
            argsort(ties, a, descending=True),
            lexsort((x, ties), a),
            partition(x, 2, a),
        )

    return f


_named_orders = _orders(nx.sort, nx.argsort, nx.lexsort, nx.partition, "a")
_plain_orders = jax.jit(_orders(jnp.sort, jnp.argsort, jnp.lexsort, jnp.partition, 0))


def _order_arguments():
    x = array(8, 3, 4)
    ties = array(8, 3, 4, kind="ties").at[5, 0, 1].set(jnp.nan).at[2, 0, 1].set(jnp.nan).at[1, 1, 1].set(-jnp.inf)
    return x, ties, array(8, 3, 4, kind="int")


@pytest.mark.fast(2)
@pytest.mark.parametrize("placement", SOME, ids=str)
def test_orders_in_every_placement(placement):
    # Ties: the gradient shows that each value comes from where it comes from in jnp.
    check(_named_orders, _plain_orders, _order_arguments(), (IN,) * 3, [*IN[:1], None, "b"], placement)


@pytest.mark.fast(1)
@pytest.mark.parametrize("placement", [*[p for p in PLACEMENTS if p not in SOME], PARTITIONER[3]], ids=str)
def test_sort_in_every_placement(placement):
    args = _order_arguments()[:2]
    check(
        lambda x, t: (nx.sort(x, "a"), nx.argsort(t, "a")),
        lambda x, t: (jnp.sort(x, 0), jnp.argsort(t, 0)),
        args,
        (IN,) * 2,
        IN,
        placement,
    )


@pytest.mark.fast(1)
@pytest.mark.parametrize("shape", [(3,), (5,), (6,), (7,)])
def test_a_number_of_devices_that_is_no_power_of_two(shape):
    mesh = jax.make_mesh(shape, ("x",), devices=jax.devices()[: shape[0]], axis_types=(jax.sharding.AxisType.Auto,))
    x = array(3 * shape[0], kind="int")
    f = nx.xmap(
        lambda x: (nx.sort(x, "a"), nx.argsort(x, "a", descending=True)), ["a"], ["a"], mesh=mesh, axis_resources={"a": "x"}
    )
    have, index = f(x)
    np.testing.assert_array_equal(have, jnp.sort(x))
    np.testing.assert_array_equal(index, jnp.argsort(x, descending=True))


def _picks(a, top_k, quantile, nanquantile, median, percentile, both):
    def f(x, nans, whole):
        values, index = top_k(x, 3, axis=a)
        return (
            values,
            index,
            top_k(whole, 8, axis=a)[1],
            quantile(x, jnp.array([0.1, 0.5, 1.0]), a),
            quantile(x, 0.3, both, method="nearest"),
            nanquantile(nans, 0.3, a),
            quantile(nans, 0.3, a, method="higher"),
            median(whole, a),
            percentile(x, 40, both, method="lower"),
        )

    return f


def _plain_top_k(x, k, *, axis):
    values, index = (jnp.moveaxis(r, -1, 1) for r in lax.top_k(jnp.moveaxis(x, axis, -1), k))
    return values, index


_named_picks = _picks("a", nx.top_k, nx.quantile, nx.nanquantile, nx.median, nx.percentile, ("a", 0))
_plain_picks = jax.jit(_picks(0, _plain_top_k, jnp.quantile, jnp.nanquantile, jnp.median, jnp.percentile, (0, 1)))


def _pick_arguments():
    x = array(8, 3, 4)
    nans = jnp.where(x > 0.9, jnp.nan, x).at[:, 1, 2].set(jnp.nan)
    return x, nans, array(8, 3, 4, kind="ties").astype(int)


@pytest.mark.full(0)
@pytest.mark.fast(1)
@pytest.mark.parametrize("placement", SOME, ids=str)
def test_picks_in_every_placement(placement):
    # A name's k largest stand behind the positional axes.
    out = ([None, None, "b"],) * 3 + ([None, None, "b"], ["b"]) + ([None, "b"],) * 3 + (["b"],)
    check(_named_picks, _plain_picks, _pick_arguments(), (IN,) * 3, out, placement)


@pytest.mark.parametrize("resources", [{"a": "x"}, {"a": ("x", "y")}, {"a": "x", "best": "y"}])
def test_top_k_with_a_named_result(resources):
    logits = array(8, 3, kind="ties").at[4, 1].set(jnp.nan)
    f = nx.xmap(
        lambda z: nx.top_k(z, 4, axis="a", out_axis="best"),
        ["a", "c"],
        ["c", "best"],
        mesh=make_mesh((4, 2)),
        axis_resources=resources,
    )
    values, index = f(logits)
    want = lax.top_k(logits.T, 4)
    np.testing.assert_array_equal(values, want[0])
    np.testing.assert_array_equal(index, want[1])


@pytest.mark.parametrize(
    ("k", "sent"),
    [(3, 4 * 3), pytest.param(5, 4 * 5, marks=pytest.mark.fast(0)), pytest.param(20, 4 * 8, marks=pytest.mark.fast(0))],
)
def test_top_k_in_steps_sends_the_candidates_of_a_device_once(k, sent):
    logits = array(32, 3, kind="ties").at[7, 1].set(jnp.nan)
    resources = {"a": ("x", nx.SerialLoop(4))}
    axes = {"in_axes": ["a", "c"], "out_axes": ["c", "best"]}
    f = nx.xmap(lambda z: nx.top_k(z, k, axis="a", out_axis="best"), **axes, mesh=make_mesh((4,)), axis_resources=resources)
    values, index = f(logits)
    want = lax.top_k(logits.T, k)
    np.testing.assert_array_equal(values, want[0])
    np.testing.assert_array_equal(index, want[1])
    found = collectives(f.lower(logits).compile())
    assert [(c.kind, c.bytes) for c in found] == [("all-gather", 3 * sent * itemsize) for itemsize in (logits.itemsize, 4)]


@pytest.mark.fast(0)
@pytest.mark.parametrize("side", ["left", "right"])
def test_searchsorted(side):
    edges, values = jnp.sort(array(8, 3, kind="ties"), 0), make.array([-2.0, -1.0, 0.0, 0.5, 1.0, jnp.nan])
    want = jnp.stack([jnp.searchsorted(edges[:, i], values, side) for i in range(3)])
    for mesh in (None, make_mesh((8,)), make_mesh((4, 2))):
        f = nx.xmap(
            lambda e, v: nx.searchsorted(e, v, side, axis="a"),
            (["a", "c"], ["v"]),
            ["c", "v"],
            mesh=mesh,
            axis_resources={"a": "x"} if mesh else {},
        )
        np.testing.assert_array_equal(f(edges, values), want)
    assert summary(jax.jit(f).lower(edges, values).compile()) == {"all-reduce": (1, 3 * 6 * 4)}
    order = make.array([2, 0, 1])
    have = nx.searchsorted(
        nx.named(make.array([2.0, 3.0, 1.0]), ["k"]), 2.5, sorter=nx.named(jnp.argsort(order), ["k"]), axis="k"
    )
    assert int(have) == int(jnp.searchsorted(jnp.array([2.0, 3.0, 1.0]), 2.5, sorter=jnp.argsort(order)))


@pytest.mark.fast(0)
def test_plain_arrays_and_flattened_positional_axes():
    x = array(3, 4)
    named = nx.named(array(3, 4, 5), [None, "k", None])
    np.testing.assert_array_equal(nx.sort(x), jnp.sort(x))
    np.testing.assert_array_equal(nx.argsort(x, None), jnp.argsort(x, None))
    np.testing.assert_array_equal(
        nx.positional(nx.sort(named, None), ["k", None]), jnp.sort(array(3, 4, 5).swapaxes(0, 1).reshape(4, 15))
    )
    np.testing.assert_array_equal(nx.lexsort(jnp.stack([x, x.round()])), jnp.lexsort(jnp.stack([x, x.round()])))
    values, index = nx.top_k(named, 2, axis=0)
    assert values.dims == index.dims == (None, "k", None)
    np.testing.assert_array_equal(nx.positional(values, [None, "k", None]), jnp.sort(array(3, 4, 5), 0)[:0:-1])
    assert nx.quantile(named, 0.5, (0, 1), keepdims=True).shape == (1, 1)
    tenths = make.array([10, 90])
    want = jnp.nanpercentile(x, tenths, 0, keepdims=True)
    np.testing.assert_allclose(nx.nanpercentile(x, tenths, 0, keepdims=True), want, rtol=1e-5)
    np.testing.assert_array_equal(
        nx.positional(nx.argpartition(named, 1, "k"), [None, "k", None]), jnp.argpartition(array(3, 4, 5), 1, 1)
    )
    assert nx.argsort(x, dtype=jnp.int16).dtype == jnp.int16


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize(("devices", "rounds"), [(2, 1), (4, 3), (8, 6)])
def test_communication_of_sort(devices, rounds):
    mesh = jax.make_mesh((devices,), ("x",), devices=jax.devices()[:devices], axis_types=(jax.sharding.AxisType.Auto,))
    x = array(16, 3)
    block = 16 // devices * 3 * 4

    def program(f):
        return jax.jit(nx.xmap(f, ["a", "c"], ["a", "c"], mesh=mesh, axis_resources={"a": "x"}))

    sort = program(lambda x: nx.sort(x, "a"))
    assert summary(sort.lower(x).compile()) == {"collective-permute": (rounds, rounds * block)}
    both = collectives(jax.jit(jax.grad(lambda x: jnp.sum(sort(x) ** 2))).lower(x).compile())
    assert {c.kind for c in both} == {"collective-permute"}
    assert sum(c.bytes for c in both) == 3 * rounds * block  # values and indices, and the way back
    index = program(lambda x: nx.argsort(x, "a"))
    assert summary(index.lower(x).compile()) == {"collective-permute": (2 * rounds, 2 * rounds * block)}


@pytest.mark.fast(0)
def test_communication_of_picks():
    x = array(64, 5)

    def program(f):
        return jax.jit(nx.xmap(f, ["a", "c"], {0: "c"}, mesh=make_mesh((4, 2)), axis_resources={"a": "x"}))

    top = program(functools.partial(nx.top_k, k=3, axis="a"))
    candidates = 4 * 3 * 5 * 4
    assert summary(top.lower(x).compile()) == {"all-gather": (2, 2 * candidates)}
    assert summary(jax.jit(jax.grad(lambda x: jnp.sum(top(x).values ** 2))).lower(x).compile()) == {
        "all-gather": (1, candidates)
    }
    found = summary(program(lambda x: nx.median(x, "a")).lower(x).compile())
    assert set(found) == {"collective-permute", "all-reduce"}
    assert found["collective-permute"] == (3, 3 * 16 * 5 * 4)
    assert found["all-reduce"][1] == (5 + 2 * 5) * 4


def test_mistakes():
    x = nx.named(array(8, 3), ["pos", None])
    for f in (nx.sort, nx.argsort, functools.partial(nx.top_k, k=2), functools.partial(nx.quantile, q=0.5)):
        with pytest.raises(nx.errors.AxisNotFoundError, match=r"no axis 'poss' in .* Did you mean 'pos'\?"):
            f(x, axis="poss")
    with pytest.raises(nx.errors.PositionalAxisError, match=r"sort: axis=\('pos', 0\) must be one positional or named axis"):
        nx.sort(x, ("pos", 0))
    with pytest.raises(nx.errors.AxisSizeError, match="top_k: k=9 is not between 0 and 8, the size of axis 'pos'"):
        nx.top_k(x, 9, axis="pos")
    with pytest.raises(nx.errors.AxisSizeError, match="axis 'pos' would have size 2, but it has size 8"):
        nx.xmap(lambda x: nx.top_k(x, 2, axis="pos", out_axis="pos").values, ["pos"], ["pos"])(array(8))
    with pytest.raises(nx.errors.AxisSizeError, match=r"the values .* have the searched axis 'pos'"):
        nx.searchsorted(nx.sum(x, 0), nx.sum(x, 0), axis="pos")
    with pytest.raises(nx.errors.NamedAxesLeftError, match=r"quantile: q, .*, has named axes"):
        nx.quantile(x, nx.sum(x, 0), "pos")
    with pytest.raises(nx.errors.ArgumentError, match=r"method must be one of .*, got 'middle'"):
        nx.quantile(x, 0.5, "pos", method="middle")
    with pytest.raises(nx.errors.ArgumentError, match="sort: kind= and order= are not supported"):
        nx.sort(x, "pos", kind="stable")
    with pytest.raises(nx.errors.ArgumentError, match="lexsort: needs at least one key"):
        nx.lexsort(())
    with pytest.raises(nx.errors.ArgumentTypeError, match="quantile: complex numbers have no order"):
        nx.quantile(x * 1j, 0.5, "pos")
    with pytest.raises(nx.errors.ArgumentError, match="searchsorted: side must be 'left' or 'right', got 'middle'"):
        nx.searchsorted(x["pos", 0], 1.0, side="middle")
