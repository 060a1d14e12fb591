"""Sorting arrays together by keys, and the two ways of sorting over devices: columns and pairs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import namedax as nx
from namedax.hlo import collectives
from tests import make
from tests.harness import FEW, array, check, make_mesh

IN = ["a", None, "b"]


def _columns(*shape, devices):
    """A mesh over the first devices."""
    return jax.make_mesh((devices,), ("x",), devices=jax.devices()[:devices], axis_types=(jax.sharding.AxisType.Auto,))


def _kinds(function, *args):
    return {one.kind for one in collectives(jax.jit(function).lower(*args).compile())}


# The smallest columns for which columnsort is correct, and the next longer ones.
@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize("values", [2, 5, 10_000])
@pytest.mark.parametrize(("devices", "block"), [(3, 12), (4, 24), (5, 40), (7, 84), (8, 112)])
def test_columns_are_sorted(devices, block, values):
    rows = devices * 3 + 1  # no free axis
    x = make.asarray(np.random.default_rng(values).integers(0, values, (rows, devices * block)), jnp.int32)
    by_name = nx.xmap(
        lambda v: (
            nx.sort(v, "k"),
            nx.sort(v, "k", descending=True),
            nx.argsort(v, "k"),
            nx.argsort(v, "k", descending=True),
            nx.sort(v.astype("float32"), "k"),
        ),
        {1: "k"},
        {1: "k"},
        axis_resources={"k": "x"},
        mesh=_columns(devices=devices),
    )
    want = (
        jnp.sort(x, 1),
        jnp.sort(x, 1, descending=True),
        jnp.argsort(x, 1),
        jnp.argsort(x, 1, descending=True),
        jnp.sort(x.astype("float32"), 1),
    )
    jax.tree.map(np.testing.assert_array_equal, by_name(x), want)
    assert _kinds(by_name, x) == {"all-to-all", "collective-permute"}


def test_all_zeros_and_ones_in_columns():
    """By the zero-one principle, and as the first step sorts the columns, their counts of zeros are all cases."""
    devices, block = 3, 8
    counts = np.stack(np.meshgrid(*[np.arange(block + 1)] * devices), -1).reshape(-1, devices)
    x = (np.arange(block) >= counts[..., None]).reshape(len(counts), -1)  # 729 rows
    x = np.concatenate([x, x[:1]]).astype(np.int32)  # no multiple of the devices, so not a free axis
    mapped = nx.xmap(lambda v: nx.sort(v, "k"), {1: "k"}, {1: "k"}, axis_resources={"k": "x"}, mesh=_columns(devices=devices))
    np.testing.assert_array_equal(mapped(make.asarray(x)), np.sort(x, 1))


@pytest.mark.fast(0)
@pytest.mark.parametrize(
    ("n", "axes", "kinds"), [(96, "x", "columns"), (92, "x", "pairs"), (896, ("x", "y"), "columns"), (30, "x", "pairs")]
)
def test_a_block_that_is_too_short_or_does_not_divide_uses_pairs(n, axes, kinds):
    x = array(n)
    mapped = nx.xmap(lambda v: nx.sort(v, "k"), ["k"], ["k"], axis_resources={"k": axes}, mesh=make_mesh((4, 2)))
    np.testing.assert_array_equal(mapped(x), jnp.sort(x))
    assert ("all-to-all" in _kinds(mapped, x)) == (kinds == "columns")


@pytest.mark.fast(0)
@pytest.mark.parametrize("order", [("x", "y"), ("y", "x")], ids=str)
def test_bytes_and_gradients_of_columns(order):
    n = 8 * 112
    x, weights = array(n), array(n, seed=1)
    mapped = nx.xmap(lambda v: nx.sort(v, "k"), ["k"], ["k"], axis_resources={"k": order}, mesh=make_mesh((4, 2)))
    sent = collectives(jax.jit(mapped).lower(x).compile())
    assert sum(one.wire_bytes for one in sent) <= 2.76 * 4 * n / 8
    gradient = jax.jit(jax.grad(lambda v: jnp.sum(weights * mapped(v) ** 2)))
    want = jax.grad(lambda v: jnp.sum(weights * jnp.sort(v) ** 2))(x)
    np.testing.assert_allclose(gradient(x), want, rtol=1e-6)
    # values and indices there, cotangents back
    sent = collectives(gradient.lower(x).compile())
    assert sum(one.wire_bytes for one in sent) <= 3.1 * 2.76 * 4 * n / 8


def _by_key(sort_by):
    """Sort rows of several shapes; `sort_by(rows, keys, descending)` is along the axis `a`."""

    def f(x, more, ties, whole):
        return sort_by({"x": x, "more": more}, ties, False), sort_by((x, ties), (ties, whole), True), sort_by(whole, x, True)

    return f


_named = _by_key(lambda rows, keys, descending: nx.sort_by(rows, keys, "a", descending=descending))


def _plain(rows, keys, descending):
    keys = keys if isinstance(keys, tuple) else (keys,)
    if descending:  # ties stay in order
        order = jnp.argsort(keys[-1], 0, descending=True)
        for key in keys[-2::-1]:
            order = jnp.take_along_axis(order, jnp.argsort(jnp.take_along_axis(key, order, 0), 0, descending=True), 0)
    else:
        order = jnp.lexsort(keys[::-1], 0)
    return jax.tree.map(
        lambda row: jnp.take_along_axis(row, order.reshape((*order.shape, *(1,) * (row.ndim - order.ndim))), 0), rows
    )


@pytest.mark.full(2)
@pytest.mark.fast(2)
@pytest.mark.parametrize("b", [4, 3])  # with a free axis, and without one
@pytest.mark.parametrize("placement", FEW, ids=str)
def test_rows_by_keys(placement, b):
    if b == 3 and "b" in dict(placement.resources):
        b = 5 if placement.shape[1] != 2 else 6
    x, more = array(8, 3, b), array(8, 3, b, 2, seed=1)
    ties, whole = array(8, 3, b, kind="ties"), array(8, 3, b, kind="int")
    args = (x, more, ties, whole)
    in_axes = (IN, ["a", None, "b", "c"], IN, IN)
    out = ({"x": IN, "more": ["a", None, "b", "c"]}, (IN, IN), IN)
    check(_named, _by_key(_plain), args, in_axes, out, placement, grad=False)
    only = lambda f: lambda x, more: f(x, more, ties, whole)[0]  # noqa: E731
    closed = lambda x, more: nx.sort_by({"x": x, "more": more}, nx.named(ties, IN), "a")  # noqa: E731
    check(closed, only(_by_key(_plain)), args[:2], in_axes[:2], out[0], placement)


@pytest.mark.full(1)
@pytest.mark.fast(1)
@pytest.mark.parametrize("n", [10, 16, 896])
@pytest.mark.parametrize("axes", ["x", ("x", "y")], ids=str)
def test_other_axes_of_rows_and_keys(n, axes):
    """Keys without an axis of the rows, rows without an axis of the keys; sizes that do not divide."""
    key, rows, columns = array(n, kind="ties"), array(n, 3), array(3, n, kind="ties")
    names = {"key": ["k"], "rows": ["k", "d"], "columns": ["d", "k"]}

    def by_name(key, rows, columns):
        return (
            nx.sort_by(rows, key, "k"),
            nx.sort_by(key, columns, "k"),
            nx.sort_by(columns, [key, columns], "k", descending=True),
        )

    mapped = nx.xmap(
        by_name, tuple(names.values()), (["k", "d"], ["d", "k"], ["d", "k"]), axis_resources={"k": axes}, mesh=make_mesh((4, 2))
    )
    got = mapped(key, rows, columns)
    order = np.argsort(key, kind="stable")
    np.testing.assert_array_equal(got[0], np.asarray(rows)[order])
    for d in range(3):
        np.testing.assert_array_equal(got[1][d], np.asarray(key)[np.argsort(columns[d], kind="stable")])
        both = sorted(range(n), key=lambda i, d=d: (-float(key[i]), -float(columns[d][i])))
        np.testing.assert_array_equal(got[2][d], np.asarray(columns[d])[both])
    assert "all-gather" not in _kinds(
        nx.xmap(
            lambda k, r: nx.sum(nx.sort_by(r, k, "k") ** 2, "k"), ["k"], axis_resources={"k": axes}, mesh=make_mesh((4, 2))
        ),
        key,
        key,
    )


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize("stable", [True, False])
@pytest.mark.parametrize("n", [24, 896])
def test_lax_sort_of_several_arrays(n, stable):
    keys = make.asarray(np.random.default_rng(0).permutation(n) // (2 if stable else 1), jnp.int32)
    floats, others = array(n), array(n, seed=1)

    def f(lax, axis):
        return lambda k, v, w: (
            lax.sort((k, v, w), dimension=axis, num_keys=1, is_stable=stable),
            lax.sort((k // 3, v, w), dimension=axis, num_keys=2, is_stable=stable),
            lax.sort_key_val(k, w, axis, is_stable=stable),
        )

    mapped = nx.xmap(f(nx.lax, "k"), ["k"], ["k"], axis_resources={"k": "x"}, mesh=make_mesh((8,)))
    jax.tree.map(np.testing.assert_array_equal, mapped(keys, floats, others), f(lax, 0)(keys, floats, others))
    assert "all-gather" not in _kinds(mapped, keys, floats, others)


def test_a_pair_sends_one_argsort_and_the_values():
    n = 8 * 112
    keys, values = make.asarray(np.random.default_rng(0).integers(0, 9, n), jnp.int32), array(n)

    def sent(f, *args):
        mapped = nx.xmap(f, ["k"], axis_resources={"k": "x"}, mesh=make_mesh((8,)))
        compiled = jax.jit(mapped).lower(*args).compile()
        return sum(one.wire_bytes for one in collectives(compiled)), compiled.memory_analysis().temp_size_in_bytes

    one, both = sent(lambda k: nx.argsort(k, "k"), keys), sent(lambda k, v: nx.lax.sort_key_val(k, v, "k"), keys, values)
    assert both[0] <= one[0] + 2.76 * 4 * n / 8 + 4 * n / 8
    assert both[1] <= 1.6 * one[1]


@pytest.mark.fast(0)
def test_eager_arrays():
    x, key = nx.named(array(8, 3), ["k", "d"]), nx.named(array(8, kind="ties"), ["k"])
    order = np.argsort(key.data, kind="stable")
    np.testing.assert_array_equal(nx.sort_by(x, key, "k").data, np.asarray(x.data)[order])
    np.testing.assert_array_equal(nx.sort_by(x.data, x.data), np.sort(x.data, -1))
    for kind in ("auto", "explicit"):
        placed = nx.shard((x, key), {"k": "x"}, make_mesh((8,), kind))
        np.testing.assert_array_equal(nx.sort_by(*placed, "k").data, np.asarray(x.data)[order])


def test_errors():
    x, key = nx.named(array(8), ["k"]), nx.named(array(3), ["d"])
    with pytest.raises(nx.errors.AxisNotFoundError, match="sort_by: no axis 'k' in"):
        nx.sort_by(x, key, "k")
    with pytest.raises(
        nx.errors.AxisNotFoundError, match=r"sort_by: f32\[\]\{d:3\} lacks the sorted axis 'k'. Only arrays with the axis"
    ):
        nx.sort_by({"x": x, "d": key.astype("float32")}, x, "k")
    with pytest.raises(nx.errors.ArgumentError, match="sort_by: needs at least one key; got none"):
        nx.sort_by(x, [], "k")
