"""Segment reductions in every placement of the axis and of the segments, against `jax.ops`."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import namedax as nx
from namedax.errors import AxisNotFoundError, AxisSizeError, PlacementConflictError, PositionalAxisError
from namedax.hlo import collectives
from tests import make
from tests.harness import array, make_mesh

COUNT = 8
DATA = array(16, 3, 2, 5, seed=1)  # the axis, b, c, and a positional axis
TIES = array(16, 3, 2, 5, seed=2, kind="ties")
IDS = np.random.default_rng(0).integers(-1, 7, 16)
IDS[3] = 12
IDS = make.asarray(IDS)  # some out of range; segment 7 is empty
PER_B = make.asarray(np.random.default_rng(1).integers(0, 8, (3, 16)))

PLACED = [
    ("unmapped", None, {}),
    ("axis", (4, 2), {"a": "x"}),
    ("one-each", (8,), {"a": "x"}),
    ("segments", (4, 2), {"s": "x"}),
    ("same", (4, 2), {"a": "x", "s": "x"}),
    ("crossed", (4, 2), {"a": "x", "s": "y"}),
    ("axis-on-two", (4, 2), {"a": ("x", "y"), "s": "y"}),
    ("segments-on-two", (4, 2), {"a": "y", "s": ("x", "y")}),
    ("both-reversed", (2, 4), {"a": ("x", "y"), "s": ("y", "x")}),
    ("segments-major", (4, 2), {"a": "x", "s": ("x", "y")}),
]


def reduce(kind, data, ids):
    return getattr(jax.ops, f"segment_{kind}")(data, ids, COUNT)


@jax.jit
def oracle(data, ties, ids, per_b):
    results = []
    for kind, value in (("sum", data), ("max", ties), ("min", data)):
        results += [reduce(kind, value, ids), jnp.stack([reduce(kind, value[:, i], per_b[i]) for i in range(3)], 1)]
    return tuple(results)


def project(f):
    def scalar(data, ties):
        results = f(data, ties, IDS, PER_B)
        weights = [array(*leaf.shape, seed=9 + i) for i, leaf in enumerate(results)]
        return sum(jnp.sum(jnp.where(jnp.isfinite(leaf), leaf, 0) * w) for leaf, w in zip(results, weights, strict=True))

    return scalar


@functools.cache
def wanted():
    """Six reductions, products, and the gradients of a projection of the six."""
    gradients = jax.jit(jax.grad(project(oracle), (0, 1)))(DATA, TIES)
    return oracle(DATA, TIES, IDS, PER_B), reduce("prod", DATA, IDS), gradients


CASES = [("auto", *p) for p in PLACED] + [("explicit", *p) for p in PLACED if p[0] in ("axis", "same", "crossed")]


@pytest.mark.full(0)
@pytest.mark.fast(1)
@pytest.mark.parametrize(("mesh_kind", "label", "shape", "resources"), CASES, ids=[f"{c[1]}-{c[0]}" for c in CASES])
def test_segments(mesh_kind, label, shape, resources):
    mesh = None if shape is None else make_mesh(shape, mesh_kind)

    def fun(data, ties, ids, per_b):
        return tuple(
            getattr(nx, f"segment_{kind}")(value, numbers, axis="a", out_axis="s")
            for kind, value in (("sum", data), ("max", ties), ("min", data))
            for numbers in (ids, per_b)
        )

    def products(data, ids):
        return nx.segment_prod(data, ids, axis="a", out_axis="s")

    options = {"mesh": mesh, "axis_resources": resources, "axis_sizes": {"s": COUNT}}
    axes = ["a", "b", "c", None]
    mapped = nx.xmap(fun, (axes, axes, ["a"], ["b", "a"]), ["s", *axes[1:]], **options)

    def same(have, want):
        jax.tree.map(lambda h, w: np.testing.assert_allclose(np.asarray(h), w, rtol=1e-5, atol=1e-5), have, want)

    want, want_products, want_gradients = wanted()
    same(mapped(DATA, TIES, IDS, PER_B), want)
    same(nx.xmap(products, (axes, ["a"]), ["s", *axes[1:]], **options)(DATA, IDS), want_products)

    same(jax.jit(jax.grad(project(mapped), (0, 1)))(DATA, TIES), want_gradients)


COSTS = [
    ("sum", {"a": "x"}, [("all-reduce", 8 * 24)]),
    ("sum", {"a": "x", "s": "x"}, [("reduce-scatter", 8 * 24)]),
    ("sum", {"a": "x", "s": "y"}, [("all-reduce", 4 * 24)]),
    ("sum", {"s": "x"}, []),
    ("max", {"a": "x"}, [("all-reduce", 8 * 24)]),
    ("max", {"a": "x", "s": "x"}, [("all-to-all", 8 * 24)]),
    ("prod", {"a": "x", "s": "x"}, [("all-to-all", 8 * 24)]),
]


@pytest.mark.fast(3)
@pytest.mark.parametrize(("kind", "resources", "want"), COSTS)
def test_costs(kind, resources, want):
    fun = nx.xmap(
        lambda x, ids: getattr(nx, f"segment_{kind}")(x, ids, COUNT, axis="a", out_axis="s"),
        (["a", "k"], ["a"]),
        ["s", "k"],
        mesh=make_mesh((4, 2)),
        axis_resources=resources,
    )
    have = collectives(fun.lower(make.zeros((16, 6)), make.zeros(16, int)).compile())
    assert [(c.kind, c.bytes) for c in have] == want


def test_the_gradient_of_a_sum_sends_nothing_more():
    fun = nx.xmap(
        lambda x, ids: nx.segment_sum(x, ids, COUNT, axis="a"),
        (["a", "k"], ["a"]),
        [None, "k"],
        mesh=make_mesh((4, 2)),
        axis_resources={"a": "x"},
    )
    backward = jax.jit(jax.grad(lambda x, ids: jnp.sum(fun(x, ids) ** 2)))
    assert [c.kind for c in collectives(backward.lower(jnp.zeros((16, 6)), IDS).compile())] == ["all-reduce"]


@pytest.mark.fast(0)
def test_positional_axes():
    x = nx.named(array(2, 6, 3, 5), ["b", None, None, "k"])
    ids = make.array([2, 0, 1, 1, 9, 0])
    want = jax.vmap(lambda d: jax.ops.segment_sum(d, ids, 3))(x.data)
    have = nx.positional(nx.segment_sum(x, ids, 3), {0: "b", 3: "k"})
    np.testing.assert_allclose(have, want, rtol=1e-6)
    by_k = nx.segment_max(x, nx.named(make.array([1, 0, 1]), [None]), 2, axis=1, out_axis="s")
    want = jnp.stack([x.data[:, :, 1], jnp.maximum(x.data[:, :, 0], x.data[:, :, 2])])
    np.testing.assert_array_equal(nx.positional(by_k, ["s", "b", None, "k"]), want)
    behind = nx.segment_sum(x, make.array([1, 0, 1]), 2, axis=-1)
    want = jnp.stack([x.data[:, :, 1], x.data[:, :, 0] + x.data[:, :, 2]], 2)
    np.testing.assert_allclose(nx.positional(behind, {0: "b", 3: "k"}), want, rtol=1e-6)
    front = nx.segment_sum(x, nx.named(make.arange(5) // 2, ["k"]), 3, axis="k")
    assert (front.shape, front.named_shape) == ((3, 6, 3), {"b": 2})
    plain = nx.segment_sum(jnp.arange(6.0), ids, 3, mode="clip")
    np.testing.assert_array_equal(plain, [6.0, 5.0, 4.0])


def test_the_axis_keeps_its_name():
    x = nx.named(make.arange(1.0, 7.0), ["a"])
    have = nx.segment_sum(x, nx.named(make.array([1, 1, 0, 1, 0, 3]), ["a"]), 4, axis="a", out_axis="a")
    np.testing.assert_array_equal(nx.positional(have, ["a"]), [8.0, 7.0, 0.0, 6.0])


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda x, i: nx.segment_sum(x, i, 3, axis="q"), AxisNotFoundError, "segment_sum: no axis 'q' in"),
        (lambda x, i: nx.segment_sum(x, i, axis="a"), AxisNotFoundError, "the number of segments is not known"),
        (
            lambda x, i: nx.segment_max(x, jnp.zeros(6, int), 3, axis="a"),
            AxisNotFoundError,
            "no axis 'a' in the segment_ids",
        ),
        (lambda x, i: nx.segment_sum(x, i * 1.0, 3, axis="a"), PositionalAxisError, "are not integers"),
        (lambda x, i: nx.segment_sum(x, i, 3, axis="a", out_axis="k"), AxisSizeError, "already have the new axis 'k'"),
        (lambda x, i: nx.segment_sum(x, i, 3, axis="a", out_axis=1), PositionalAxisError, "out_axis=1 is not an axis name"),
        (lambda x, i: nx.segment_sum(x, i[None], 3, axis="a"), PositionalAxisError, "none, only the named axis 'a'"),
        (
            lambda x, i: nx.segment_sum(x, nx.named(jnp.zeros(4, int), ["a"]), 3, axis="a"),
            AxisSizeError,
            "axis 'a' has two sizes",
        ),
    ],
)
def test_mistakes(call, kind, message):
    with pytest.raises(kind) as error:
        call(nx.named(make.ones((6, 2)), ["a", "k"]), nx.named(make.zeros(6, int), ["a"]))
    assert message in str(error.value)


def test_mistakes_in_mapped_functions():
    options = {"mesh": make_mesh((4, 2)), "axis_resources": {"s": "x", "k": "x"}}

    def run(count):
        fun = nx.xmap(lambda x, i: nx.segment_sum(x, i, count, axis="a", out_axis="s"), (["a", "k"], ["a"]), None, **options)
        return fun(jnp.ones((6, 4)), jnp.zeros(6, int))

    for count in (8, 6):
        with pytest.raises(PlacementConflictError, match="'k' and 's' meet in one value"):
            run(count)
