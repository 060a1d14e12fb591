"""Statistics, in every placement."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import namedax as nx
from namedax.hlo import summary
from tests import make
from tests.harness import PARTITIONER, PLACEMENTS, array, check, make_mesh

IN = ["a", None, "b"]
SOME = [p for p in PLACEMENTS if str(p) in ("unmapped-auto", "one-each-auto", "both-explicit", "two-reversed-auto")]
OTHERS = [p for p in PLACEMENTS if p not in SOME][::2]
NAN = [f"nan{name}" for name in ("sum", "prod", "mean", "var", "std", "max", "min")]


def _reductions(functions, norm, vector_norm, a, both, p):
    """The same calls for names (`a`, position 0) and for positions."""

    def f(x, nans, weights, whole):
        return (
            *(functions[name](nans, a) for name in NAN),
            functions["nanvar"](nans, both, ddof=1),
            functions["nanmax"](nans, both, where=x > 0, initial=-9.0),
            functions["nanmean"](whole, a),
            functions["nanargmax"](nans, a),
            functions["nanargmin"](nans, a),
            functions["ptp"](x, both),
            functions["average"](x, a),
            functions["average"](x, a, weights, returned=True),
            functions["average"](whole, both, weights),
            norm(x, None, a),
            norm(x, 1, a),
            norm(x, np.inf, a),
            norm(x, -np.inf, p),
            norm(whole, 0, a),
            norm(x, 3, a),
            norm(x, "fro", both),
            norm(x, -1, both),
            norm(x, np.inf, both),
            norm(x, 2, both),
            vector_norm(x, ord=1.5, axis=both),
        )

    return f


_named = _reductions({name: getattr(nx, name) for name in nx.__all__}, nx.norm, nx.numpy.linalg.vector_norm, "a", ("a", 0), 0)
_plain = _reductions(vars(jnp), jnp.linalg.norm, jnp.linalg.vector_norm, 0, (0, 1), 1)


# With 7 for the NaN of an empty row, so that the projection of the gradient test is a number.
def _named_finite(*args):
    def one(r):
        return nx.where(nx.isnan(r), 7, r) if jnp.issubdtype(r.dtype, jnp.floating) else r

    return jax.tree.map(one, _named(*args), is_leaf=lambda r: isinstance(r, nx.NamedArray))


@jax.jit
def _plain_finite(*args):
    return jax.tree.map(lambda r: jnp.where(jnp.isnan(r), 7, r) if jnp.issubdtype(r.dtype, jnp.floating) else r, _plain(*args))


@pytest.mark.fast(1)
@pytest.mark.full(0)
@pytest.mark.parametrize("placement", SOME, ids=str)
def test_reductions_in_every_placement(placement):
    x = array(8, 3, 4)
    # One row has no number at all, one only one.
    nans = jnp.where(x > 0.8, jnp.nan, x).at[:, 1, 2].set(jnp.nan).at[:, 0, 1].set(jnp.nan).at[5, 0, 1].set(0.7)
    weights = 0.1 + jnp.abs(array(8, 3, 4, seed=1))
    args = x, nans, weights, array(8, 3, 4, kind="int")
    rank = jax.tree.map(lambda r: r.ndim, jax.eval_shape(_plain, *args))
    out = jax.tree.map(lambda n: [None] * (n - 1) + ["b"], rank)
    out = tuple([*o[:-1], "b"] if isinstance(o, list) else o for o in out)
    # `-inf` over position 0 leaves a and b.
    at = [i for i, r in enumerate(jax.eval_shape(_plain, *args)) if not isinstance(r, tuple) and r.shape == (8, 4)]
    out = tuple(["a", "b"] if i in at else o for i, o in enumerate(out))
    check(_named_finite, _plain_finite, args, (IN,) * 4, out, placement, tol=1e-4)


@pytest.mark.parametrize("placement", [*OTHERS, SOME[0], PARTITIONER[3]], ids=str)
def test_counts_in_every_placement(placement):
    def named(x, i, w):
        return (
            *nx.histogram(x, 4, (-1, 2), axis=("a", 0)),
            *nx.histogram(x, jnp.array([-1.0, 0.0, 0.5, 2.0]), weights=w, axis="a", density=True),
            *nx.histogram(x, 3, axis=("a", 0)),
            nx.bincount(i, length=5, axis=("a", 0)),
            nx.bincount(i, w, length=5, axis="a"),
            nx.bincount(i, length=8),
        )

    @jax.jit
    def oracle(x, i, w):
        def columns(f, *args):
            return jax.tree.map(lambda *r: jnp.stack(r), *(f(*(arg[:, :, b] for arg in args)) for b in range(4)))

        def rows(f, *args):
            one = [[f(*(arg[:, p, b] for arg in args)) for b in range(4)] for p in range(3)]
            return jax.tree.map(lambda *r: jnp.stack(r).reshape(3, 4, *r[0].shape), *(r for line in one for r in line))

        edges = jnp.array([-1.0, 0.0, 0.5, 2.0])
        return (
            columns(lambda x: jnp.histogram(x, 4, (-1, 2))[0], x),
            jnp.linspace(-1.0, 2.0, 5),
            rows(lambda x, w: jnp.histogram(x, edges, weights=w, density=True)[0], x, w),
            edges,
            *columns(lambda x: jnp.histogram(x, 3), x),
            columns(lambda i: jnp.bincount(i.ravel(), length=5), i),
            rows(lambda i, w: jnp.bincount(i, w, length=5), i, w),
            jnp.stack([jnp.stack([jnp.bincount(i[a, :, b], length=8) for b in range(4)]) for a in range(8)]),
        )

    args = array(8, 3, 4), array(8, 3, 4, kind="int"), 0.1 + jnp.abs(array(8, 3, 4, seed=1))
    out = (
        ["b", None],
        [None],
        [None, "b", None],
        [None],
        ["b", None],
        ["b", None],
        ["b", None],
        [None, "b", None],
        ["a", "b", None],
    )
    check(named, oracle, args, (IN,) * 3, out, placement, grad=False)


@pytest.mark.full(1)
@pytest.mark.fast(0)
def test_the_weights_of_a_histogram_have_a_gradient():
    x, w = array(8, 3), array(8, 3, seed=1)
    for mesh in (None, make_mesh((4, 2))):
        f = nx.xmap(
            lambda x, w: (
                nx.histogram(x, 4, (-1, 2), w, axis="a")[0],
                nx.bincount(nx.floor(x).astype(int), w, length=3, axis="a"),
            ),
            (["a", "c"],) * 2,
            ["c", None],
            mesh=mesh,
            axis_resources={"a": "x"} if mesh else {},
        )
        grad = jax.grad(lambda w, f=f: sum(jnp.sum(r**2) for r in f(x, w)))(w)

        def plain(w):
            rows = [
                jnp.sum(jnp.histogram(x[:, c], 4, (-1, 2), w[:, c])[0] ** 2)
                + jnp.sum(jnp.bincount(jnp.floor(x[:, c]).astype(int), w[:, c], length=3) ** 2)
                for c in range(3)
            ]
            return sum(rows)

        np.testing.assert_allclose(grad, jax.jit(jax.grad(plain))(w), rtol=1e-5)


def test_weights_of_an_average_by_name_and_by_position():
    x = array(8, 3, 4)
    named = nx.named(x, IN)
    by_name, of_positions = make.arange(1.0, 9.0), make.array([3.0, 1.0, 2.0])
    for mesh in (None, make_mesh((4, 2))):
        f = nx.xmap(
            lambda x, w: nx.average(x, ("a", 0), w, returned=True),
            (IN, ["a"]),
            ["b"],
            mesh=mesh,
            axis_resources={"a": "x"} if mesh else {},
        )
        have, total = f(x, by_name)
        want, want_total = jnp.average(x, (0, 1), jnp.broadcast_to(by_name[:, None, None], x.shape), returned=True)
        np.testing.assert_allclose(have, want, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(total, want_total)
    found = nx.average(named, ("a", 0), of_positions)
    np.testing.assert_allclose(
        nx.positional(found, ["b"]),
        jnp.average(x, (0, 1), jnp.broadcast_to(of_positions[:, None], x.shape)),
        rtol=1e-5,
        atol=1e-6,
    )
    kept, total = nx.average(named, 0, of_positions, returned=True, keepdims=True)
    assert kept.shape == total.shape == (1,)
    np.testing.assert_allclose(nx.positional(kept, IN), jnp.average(x, 1, of_positions, keepdims=True), rtol=1e-5, atol=1e-6)
    plain = jnp.average(x, (2, 0), jnp.arange(1.0, 33.0).reshape(4, 8), returned=True)
    for have, want in zip(nx.average(x, (2, 0), make.arange(1.0, 33.0).reshape(4, 8), returned=True), plain, strict=True):
        np.testing.assert_allclose(have, want, rtol=1e-5, atol=1e-6)


@pytest.mark.full(1)
@pytest.mark.fast(0)
def test_plain_arrays_are_those_of_jnp():
    x = array(3, 4)
    np.testing.assert_allclose(nx.norm(x), jnp.linalg.norm(x), rtol=1e-6)
    for order in (1, -1, np.inf, -np.inf, 2, "nuc", "fro"):
        for axis in ((0, 1), (1, 0), (-1, 0)):
            np.testing.assert_allclose(
                nx.norm(x, order, axis, keepdims=True), jnp.linalg.norm(x, order, axis, keepdims=True), rtol=1e-5
            )
            np.testing.assert_allclose(nx.norm(x, order, axis), jnp.linalg.norm(x, order, axis), rtol=1e-5)
    for have, want in zip(nx.histogram(x, 5), jnp.histogram(x, 5), strict=True):
        np.testing.assert_allclose(have, want)
    np.testing.assert_array_equal(
        nx.bincount(jnp.array([3, 1, 3]), minlength=6), jnp.bincount(jnp.array([3, 1, 3]), minlength=6)
    )
    np.testing.assert_array_equal(nx.bincount(jnp.array([True, False, True])), jnp.bincount(jnp.array([True, False, True])))
    assert int(nx.nanargmax(jnp.full(3, jnp.nan))) == -1
    assert bool(jnp.isnan(nx.nanmax(jnp.full(3, jnp.nan))))


def test_norm_over_all_axes():
    values = np.arange(1.0, 61.0, dtype=np.float32).reshape(3, 4, 5)
    x = nx.named(values, ["a", None, "c"])
    np.testing.assert_allclose(nx.norm(x, axis=...), np.sqrt((values**2).sum()), rtol=1e-6)
    matrix = nx.named(values[0], ["a", "c"])
    np.testing.assert_allclose(nx.norm(matrix, axis=...), np.linalg.norm(values[0]), rtol=1e-6)
    np.testing.assert_allclose(nx.norm(matrix, 1, axis=...), np.linalg.norm(values[0], 1), rtol=1e-6)
    np.testing.assert_allclose(nx.norm(matrix["a", 1], 3, axis=...), np.linalg.norm(values[0][1], 3), rtol=1e-6)
    with pytest.raises(
        nx.errors.PositionalAxisError, match=r"must be one axis .* nx\.numpy\.linalg\.vector_norm takes any number"
    ):
        nx.norm(x, 1, axis=...)
    mesh = jax.make_mesh((2, 2), ("p", "q"))
    f = nx.xmap(lambda y: nx.norm(y, axis=...), axis_resources={"a": "p", "c": "q"}, mesh=mesh)
    g = nx.named(values, ["a", "b", "c"])
    np.testing.assert_allclose(f(g), np.sqrt((values**2).sum()), rtol=1e-6)


@pytest.mark.fast(0)
def test_communication():
    x, ids = array(64, 5), make.arange(64 * 5).reshape(64, 5) % 7
    mesh = make_mesh((4, 2))

    def cost(f, out=("c", None), *args):
        program = nx.xmap(
            f, ["a", "c"], {i: name for i, name in enumerate(out) if name}, mesh=mesh, axis_resources={"a": "x", "bin": "x"}
        )
        return summary(jax.jit(program).lower(*args).compile())

    def with_bins(f):
        return lambda x: (f(x), nx.arange(8, axis="bin"))[0]

    for f, floats in ((nx.nansum, 1), (nx.nanmean, 2), (nx.norm, 1)):
        assert cost(with_bins(lambda x, f=f: f(x, axis="a")), ("c",), x) == {"all-reduce": (1, floats * 5 * 4)}
    assert cost(with_bins(lambda x: nx.average(x, "a", weights=x * x)), ("c",), x) == {"all-reduce": (1, 2 * 5 * 4)}
    assert cost(with_bins(lambda i: nx.bincount(i, length=8, axis="a")), ("c", None), ids) == {"all-reduce": (1, 8 * 5 * 4)}
    assert cost(lambda i: nx.bincount(i, length=8, axis="a", out_axis="bin"), ("c", "bin"), ids) == {
        "reduce-scatter": (1, 8 * 5 * 4)
    }
    assert cost(with_bins(lambda x: nx.histogram(x, 8, (0, 1), axis="a")[0]), ("c", None), x) == {"all-reduce": (1, 8 * 5 * 4)}
    got = nx.xmap(
        lambda i: nx.bincount(i, length=8, axis="a", out_axis="bin"),
        ["a", "c"],
        ["c", "bin"],
        mesh=mesh,
        axis_resources={"a": "x", "bin": "x"},
    )(ids)
    np.testing.assert_array_equal(got, jnp.stack([jnp.bincount(ids[:, c], length=8) for c in range(5)]))


def test_mistakes():
    x = nx.named(array(8, 3), ["pos", None])
    calls = [getattr(nx, name) for name in (*NAN, "nanargmax", "ptp", "average", "norm", "histogram")] + [
        nx.numpy.linalg.vector_norm
    ]
    for f in calls:
        with pytest.raises(nx.errors.AxisNotFoundError, match=r"no axis 'poss' in .* Did you mean 'pos'\?"):
            f(x, axis="poss")
    with pytest.raises(nx.errors.AxisSizeError, match="bincount: length= is required during tracing"):
        jax.jit(lambda i: nx.bincount(i))(make.arange(3))
    with pytest.raises(
        nx.errors.ArgumentTypeError, match=r"bincount: the argument must contain integers, got f\d\d\[3\]\{pos:8\}"
    ):
        nx.bincount(x, length=3)
    with pytest.raises(nx.errors.PositionalAxisError, match=r"average: the weights, .* do not fit"):
        nx.average(x, 0, make.ones(5))
    with pytest.raises(
        nx.errors.ArgumentError, match="the order of a vector norm must be a number, inf or -inf, got ord='fro'"
    ):
        nx.norm(x, "fro", "pos")
    with pytest.raises(nx.errors.ArgumentError, match=r"the order of a matrix norm must be .* got ord=3"):
        nx.norm(x, 3, ("pos", 0))
    with pytest.raises(nx.errors.AxisSizeError, match="bincount: the result already has an axis 'k'"):
        nx.bincount(nx.named(make.ones((2, 3), int), ["pos", "k"]), length=3, axis="pos", out_axis="k")


@pytest.mark.fast(0)
@pytest.mark.parametrize("weighted", [["a"], ["a", "b"], ["b"], []], ids=str)
def test_average_over_uneven_axes(weighted):
    x = np.asarray(array(10, 3, seed=3))
    sizes = {"a": 10, "b": 3}
    weights = np.abs(np.asarray(array(*(sizes[name] for name in weighted), seed=4))) + 0.5
    whole = np.broadcast_to(weights.reshape([sizes[n] if n in weighted else 1 for n in "ab"]), x.shape)
    for axis, numbers, out in (("a", 0, ["b"]), (("a", "b"), (0, 1), [])):
        mapped = nx.xmap(
            lambda x, w, axis=axis: nx.average(x, axis, weights=w, returned=True),
            (["a", "b"], weighted),
            (out, out),
            axis_resources={"a": "x"},
            mesh=make_mesh((4,)),
        )
        have, total = mapped(x, weights)
        np.testing.assert_allclose(have, np.sum(x * whole, numbers) / np.sum(whole, numbers), rtol=1e-5)
        np.testing.assert_allclose(total, np.sum(whole, numbers), rtol=1e-5)
