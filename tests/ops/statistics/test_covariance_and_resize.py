"""Covariances by name, and resizing along names. The oracles are `np.cov`, `np.corrcoef` and `jax.image.resize`."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import namedax as nx
from namedax import hlo
from namedax.errors import (
    ArgumentError,
    ArgumentTypeError,
    AxisNameError,
    AxisNotFoundError,
    AxisSizeError,
    PositionalAxisError,
)
from tests.harness import FEW, PARTITIONER, array, check, make_mesh, together

PLACES = [FEW[0], FEW[2], FEW[3], PARTITIONER[3]]
F, A = np.array([1, 2, 1, 3, 1, 1, 2, 1]), np.linspace(0.5, 2.0, 8).astype(np.float32)


def over(function, x):
    """Of every entry of the last axis of x[8, 4, 3]: observations a, variables b."""
    return jnp.stack([function(x[..., i].T) for i in range(x.shape[-1])])


# x is {a: 8, b: 4, c: 3}
PROGRAMS = {
    "cov": (lambda x: nx.cov(x, axis="a", variables=("b", "b2")), lambda x: over(jnp.cov, x), ["c", "b", "b2"]),
    "weights": (
        lambda x: nx.cov(x, axis="a", variables=("b", "b2"), fweights=nx.named(F, ["a"]), aweights=nx.named(A, ["a"])),
        lambda x: over(lambda v: jnp.cov(v, fweights=F, aweights=A), x),
        ["c", "b", "b2"],
    ),
    "biased": (
        lambda x: nx.cov(x, axis="a", variables=("c", "c2"), bias=True, aweights=nx.named(A, ["a"])),
        lambda x: over(lambda v: jnp.cov(v, bias=True, aweights=A), x.transpose(0, 2, 1)),
        ["b", "c", "c2"],
    ),
    "several": (
        lambda x: nx.cov(x, axis=("a", "b"), variables=("c", "c2"), ddof=3),
        lambda x: jnp.cov(x.reshape(32, 3).T, ddof=3),
        ["c", "c2"],
    ),
    "one variable": (lambda x: nx.cov(x, axis="b"), lambda x: jnp.var(x, 1, ddof=1), ["a", "c"]),
    "position": (
        lambda x: nx.cov(nx.untag(x, ["c"]), axis="a"),
        lambda x: over(jnp.cov, x.transpose(0, 2, 1)),
        ["b", None, None],
    ),
    "correlation": (
        lambda x: nx.corrcoef(x, axis="a", variables=("b", "b2")),
        lambda x: over(jnp.corrcoef, x),
        ["c", "b", "b2"],
    ),
}
RESIZED = {
    "up": (
        lambda x: nx.image.resize(x, {"b": 8, "c": 5}, "linear", out_axis={"b": "B", "c": "C"}),
        (8, 8, 5),
        "linear",
        ["a", "B", "C"],
    ),
    "down": (lambda x: nx.image.resize(x, {"a": 4}, "cubic", out_axis={"a": "A"}), (4, 4, 3), "cubic", ["A", "b", "c"]),
    "rough": (
        lambda x: nx.image.resize(x, {"a": 4}, "lanczos3", antialias=False, out_axis={"a": "A"}),
        (4, 4, 3),
        "lanczos3",
        ["A", "b", "c"],
    ),
    "nearest": (lambda x: nx.image.resize(x, {"b": 8}, "nearest", out_axis={"b": "B"}), (8, 8, 3), "nearest", ["a", "B", "c"]),
}
PROGRAMS |= {
    key: (f, lambda x, s=shape, m=method, k=key: jax.image.resize(x, s, m, antialias=k != "rough"), out)
    for key, (f, shape, method, out) in RESIZED.items()
}


@pytest.mark.fast(0)
@pytest.mark.full(0)
@pytest.mark.parametrize("placement", PLACES, ids=str)
def test_values_and_gradients(placement):
    named, plain, out_axes = together(PROGRAMS)
    check(named, plain, (array(8, 4, 3),), (["a", "b", "c"],), out_axes, placement, tol=1e-4)


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize(
    ("size", "method"), [(128, "linear"), (32, "cubic"), (64, "nearest"), (128, "nearest"), (96, "linear")]
)
def test_resizing_sends_rows_at_the_boundary(size, method):
    def f(x):
        return nx.image.resize(x, {"w": size}, method, out_axis={"w": "v"})

    x = array(64, 3)
    mapped = nx.xmap(f, ["w", "c"], ["v", "c"], axis_resources={"w": "x", "v": "x"}, mesh=make_mesh((4, 2)))
    want = jax.image.resize(x, (size, 3), method)
    np.testing.assert_allclose(mapped(x), want, rtol=1e-4, atol=1e-5)
    weights = array(*want.shape, seed=3)
    have, wanted = (
        jax.jit(jax.grad(lambda x, g=g: jnp.sum(g(x) * weights)))(x)
        for g in (mapped, lambda x: jax.image.resize(x, (size, 3), method))
    )
    np.testing.assert_allclose(have, wanted, rtol=1e-4, atol=1e-5)
    sent = hlo.collectives(mapped.lower(x).compile())
    assert {one.kind for one in sent} <= {"collective-permute"}, sent
    assert all(one.bytes <= 4 * 3 * 8 for one in sent), sent


def test_a_new_name_elsewhere_is_gathered():
    mapped = nx.xmap(
        lambda x: nx.image.resize(x, {"w": 12}, "linear", out_axis={"w": "v"}),
        ["w"],
        ["v"],
        axis_resources={"w": "x", "v": "y"},
        mesh=make_mesh((4, 2)),
    )
    np.testing.assert_allclose(mapped(array(8)), jax.image.resize(array(8), (12,), "linear"), rtol=1e-5)
    assert [one.kind for one in hlo.collectives(mapped.lower(array(8)).compile())] == ["all-gather"]


def test_positions_are_left_to_jax():
    x = array(3, 5)
    np.testing.assert_allclose(nx.cov(x), jnp.cov(x))
    np.testing.assert_allclose(nx.numpy.corrcoef(nx.named(x[None], ["n", ...])).data[0], jnp.corrcoef(x), rtol=1e-6)
    np.testing.assert_array_equal(
        nx.image.resize(nx.named(x, ["n", None]), (7,), "linear").data, jax.image.resize(x, (3, 7), "linear")
    )
    z = array(6, 2) + 1j * array(6, 2, seed=1)
    have = nx.positional(nx.cov(nx.named(z, ["n", "k"]), axis="n", variables=("k", "l")), ["k", "l"])
    np.testing.assert_allclose(have, np.cov(np.asarray(z).T), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda x: nx.cov(x, variables=("b", "c")), ArgumentError, "variables=('b', 'c') requires axis="),
        (lambda x: nx.cov(x, x, axis="a"), ArgumentError, "cov: y= is only for the form without axis="),
        (
            nx.cov,
            PositionalAxisError,
            "cov: f32[]{a:8, b:4} has no positional axis, but without axis= the variables and observations are positional axes. Choose from "
            "'a', 'b': pass the observations as axis= and the variables as variables=, as in nx.cov(x, axis='b', variables=('a', "
            "'other')).",
        ),
        (nx.numpy.corrcoef, PositionalAxisError, "as in nx.corrcoef(x, axis='b', variables=('a', 'other'))."),
        (lambda x: nx.corrcoef(x["b", 0], axis=None), PositionalAxisError, "as in nx.corrcoef(x, axis='a')."),
        (
            lambda x: nx.corrcoef(x, "a"),
            ArgumentTypeError,
            "corrcoef: y='a' is not an array; the second argument is an array of more variables. Pass the name of the observations by keyword: "
            "nx.corrcoef(x, axis='a', variables=('b', 'other')).",
        ),
        (lambda x: nx.numpy.cov(x, ("a", "b")), ArgumentTypeError, "cov: y=('a', 'b') is not an array"),
        (lambda x: nx.cov(nx.untag(x, ["a"]), "b"), ArgumentTypeError, "nx.cov(x, axis='b')."),
        (lambda x: nx.cov(x, axis="q"), AxisNotFoundError, "cov: no axis 'q' in f32[]{a:8, b:4}"),
        (
            lambda x: nx.corrcoef(x, axis="a", variables="b"),
            AxisNameError,
            "corrcoef: variables='b' must be the name of the variables",
        ),
        (lambda x: nx.cov(x, axis="a", variables=("c", "d")), AxisNotFoundError, "cov: no axis 'c' in f32[]{a:8, b:4}"),
        (
            lambda x: nx.cov(nx.untag(x, ["b"])[:, None], axis="a"),
            PositionalAxisError,
            "has 2 positional axes; the variables are one axis",
        ),
        (lambda x: nx.image.resize(x, {"q": 3}, "linear"), AxisNotFoundError, "resize: no axis 'q' in f32[]{a:8, b:4}"),
        (
            lambda x: nx.image.resize(x, {"a": 3.5}, "linear"),
            ArgumentTypeError,
            "the size of 'a' must be a static integer of at least 0, got 3.5",
        ),
        (lambda x: nx.image.resize(x, (), "linear", out_axis={"a": "b"}), ArgumentTypeError, "requires sizes by name"),
        (
            lambda x: nx.image.resize(x, {"a": 3}, "linear", out_axis={"b": "c"}),
            AxisNotFoundError,
            "no axis 'b' in shape={'a': 3}",
        ),
    ],
)
def test_mistakes(call, error, words):
    with pytest.raises(error) as raised:
        call(nx.named(array(8, 4).astype(jnp.float32), ["a", "b"]))
    assert words in str(raised.value), raised.value


@pytest.mark.fast(0)
def test_a_size_that_changes_needs_a_name():
    with pytest.raises(AxisSizeError, match=r"resize: axis 'a' would have size 4, but it has size 8 in this mapped function"):
        nx.xmap(lambda x: nx.image.resize(x, {"a": 4}, "linear"), ["a"], ["a"])(array(8))
