"""Sizes of axes that only the body has: an operation that creates the axis gives its size, and `axis_sizes` is not needed.

Oracles are NumPy and `jnp`. Six elements over four devices leave padding, as do six over two mesh axes or in four steps.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import namedax as nx
from namedax.errors import AxisMappingError, AxisNotFoundError, AxisSizeError, UnevenAxisError
from tests import make
from tests.harness import array, make_mesh

V = make.array(np.abs(array(6)) + 0.5)
INDEX = make.arange(6.0)

# Each body takes {a} and returns {new}.
BODIES = {
    "arange": (lambda v: nx.arange(6, axis="new") * nx.sum(v, "a"), lambda v: INDEX * v.sum()),
    "linspace": (lambda v: nx.linspace(0, 5, 6, axis="new") * nx.sum(v, "a"), lambda v: INDEX * v.sum()),
    "zeros": (lambda v: nx.zeros(named_shape={"new": 6}) + nx.sum(v, "a"), lambda v: jnp.zeros(6) + v.sum()),
    "ones": (lambda v: nx.ones(named_shape={"new": 6}) * nx.sum(v, "a"), lambda v: jnp.ones(6) * v.sum()),
    "full": (lambda v: nx.full((), 2.0, named_shape={"new": 6}) * nx.sum(v, "a"), lambda v: 2 * jnp.ones(6) * v.sum()),
    "named": (lambda v: nx.named(INDEX, ["new"]) * nx.sum(v, "a"), lambda v: INDEX * v.sum()),
    "random": (
        lambda v: nx.random.normal(jax.random.key(0), named_shape={"new": 6}) * nx.sum(v, "a"),
        lambda v: nx.positional(nx.random.normal(jax.random.key(0), named_shape={"new": 6}), ["new"]) * v.sum(),
    ),
    "one_hot": (lambda v: nx.nn.one_hot(3, 6, axis="new") * nx.sum(v, "a"), lambda v: jax.nn.one_hot(3, 6) * v.sum()),
    "broadcast_to": (lambda v: nx.broadcast_to(nx.sum(v, "a"), named_shape={"new": 6}), lambda v: jnp.ones(6) * v.sum()),
    "rename": (lambda v: nx.rename(v, {"a": "new"}), lambda v: v),
    "einsum reads": (lambda v: nx.einsum("{new:a} -> {new}", v), lambda v: v),
    "einsum writes": (lambda v: nx.einsum("{a} -> {new:a}", v), lambda v: v),
    "slice": (
        lambda v: nx.slice(nx.concatenate([v, v], "a", out_axis="b"), {"b": slice(2, 8)}, out_axis="new"),
        lambda v: jnp.concatenate([v, v])[2:8],
    ),
    "index": (lambda v: v["a", nx.arange(6, axis="new")], lambda v: v),
    "take": (lambda v: nx.take(v, nx.named(jnp.arange(6) % 3, ["new"]), "a"), lambda v: v[jnp.arange(6) % 3]),
    "stack": (lambda v: nx.stack([nx.sum(v, "a")] * 6, axis="new"), lambda v: jnp.ones(6) * v.sum()),
    "concatenate": (
        lambda v: nx.concatenate([nx.slice(v, {"a": slice(3)}, out_axis="b")] * 2, "b", out_axis="new"),
        lambda v: jnp.concatenate([v[:3], v[:3]]),
    ),
    "repeat": (
        lambda v: nx.repeat(nx.slice(v, {"a": slice(3)}, out_axis="b"), 2, "b", out_axis="new"),
        lambda v: jnp.repeat(v[:3], 2),
    ),
    "segment_sum": (lambda v: nx.segment_sum(v, nx.arange(6, axis="a"), 6, axis="a", out_axis="new"), lambda v: v),
    "top_k": (lambda v: nx.top_k(v, 6, axis="a", out_axis="new")[0], lambda v: -jnp.sort(-v)),
    "scan": (
        lambda v: nx.scan(lambda c, x: (c + x * nx.ones(named_shape={"new": 6}), None), 0.0, v, axis="a")[0],
        lambda v: jnp.ones(6) * v.sum(),
    ),
    "cond": (
        lambda v: nx.cond(True, lambda v: nx.rename(v, {"a": "new"}), lambda v: nx.zeros(named_shape={"new": 6}), v),
        lambda v: v,
    ),
    "jit": (lambda v: jax.jit(lambda v: nx.rename(v, {"a": "new"}))(v), lambda v: v),
    "checkpoint": (lambda v: jax.checkpoint(lambda v: nx.rename(v, {"a": "new"}))(v), lambda v: v),
}
LAYOUTS = {
    "padding": ((4,), {"new": "x"}),
    "two mesh axes": ((2, 2), {"new": ("x", "y")}),
    "steps": ((2,), {"new": nx.SerialLoop(4)}),
    "devices and steps": ((2,), {"new": ("x", nx.SerialLoop(2))}),
    "both": ((4, 2), {"new": "x", "a": "y"}),
}
CASES = [(layout, kind) for layout in LAYOUTS for kind in ("auto", "explicit")] + [
    ("padding", "partitioner"),
    ("steps", "partitioner"),
]


@pytest.mark.fast(0)
@pytest.mark.full(4)
@pytest.mark.parametrize(("layout", "kind"), CASES, ids=str)
@pytest.mark.parametrize("body", BODIES)
def test_an_operation_gives_the_size(body, layout, kind):
    named, plain = BODIES[body]
    shape, resources = LAYOUTS[layout]
    mesh = make_mesh(shape, "explicit" if kind == "explicit" else "auto")
    partitioning = "auto" if kind == "partitioner" else "manual"
    f = nx.xmap(named, ["a"], ["new"], axis_resources=resources, mesh=mesh, partitioning=partitioning)
    weights = INDEX + 1
    (_, out), gradient = jax.value_and_grad(lambda v: (lambda r: ((r * weights).sum(), r))(f(v)), has_aux=True)(V)
    want, vjp = jax.vjp(plain, V)
    np.testing.assert_allclose(out, want, rtol=1e-5)
    np.testing.assert_allclose(gradient, vjp(weights)[0], rtol=1e-5)


def mapped(body, in_axes=("a",), out_axes=(), **options):
    return nx.xmap(body, list(in_axes), list(out_axes), axis_resources={"new": "x"}, mesh=make_mesh((4,)), **options)


@pytest.mark.fast(0)
def test_several_axes_and_calls_of_other_sizes():
    def body(v):
        past = nx.zeros(named_shape={"new": v.shape[0]}) + 1
        more = nx.rename(nx.rename(past, {"new": "b"}), {"b": "other"})
        return nx.sum(past, "new") * 100 + nx.sum(more, "other")

    f = nx.xmap(body, [None], [], axis_resources={"new": "x", "other": "y"}, mesh=make_mesh((2, 2)))
    assert [float(f(jnp.ones(n))) for n in (3, 5, 4, 3)] == [303.0, 505.0, 404.0, 303.0]


@pytest.mark.parametrize("size", [8, 6])
def test_a_size_is_read_after_the_axis_is_created(size):
    def body(v):
        past = nx.zeros(named_shape={"new": size})
        more = [nx.arange(axis="new"), nx.lax.axis_index("new"), nx.ones(named_shape={"new": None})]
        return past + sum(more) + nx.lax.axis_size("new") + nx.lax.psum(nx.sum(v, "a"), "new")

    want = 2 * np.arange(size) + 1 + size + size * np.asarray(V).sum()
    np.testing.assert_allclose(mapped(body, out_axes=["new"])(V), want, rtol=1e-5)
    np.testing.assert_allclose(nx.xmap(body, ["a"], ["new"])(V), want, rtol=1e-5)


@pytest.mark.fast(0)
def test_a_compiled_helper_uses_the_size_of_its_call():
    @jax.jit
    def helper(v):
        return v + nx.sum(nx.arange(axis="new"), "new") + nx.lax.axis_size("new")

    def body(v):
        return helper(nx.sum(nx.zeros(named_shape={"new": v.shape[0]}), "new"))

    for f in (nx.xmap(body, [None], []), mapped(body, [None])):
        assert [float(f(jnp.ones(n))) for n in (3, 5, 8)] == [6.0, 15.0, 36.0]


def test_a_result_is_broadcast_along_an_axis_of_the_body():
    def body(v):
        return nx.sum(v, "a"), nx.arange(6, axis="new")

    f = nx.xmap(body, ["a"], (["new"], ["new"]), axis_resources={"new": "x"}, mesh=make_mesh((4,)))
    np.testing.assert_allclose(f(V)[0], np.full(6, V.sum()), rtol=1e-6)
    np.testing.assert_allclose(nx.xmap(body, ["a"], (["new"], ["new"]))(V)[0], np.full(6, V.sum()), rtol=1e-6)


def test_segments_without_their_number():
    def body(v):
        new = nx.zeros(named_shape={"new": 6})
        return new + nx.segment_sum(v, nx.arange(6, axis="a"), axis="a", out_axis="new")

    np.testing.assert_allclose(mapped(body, out_axes=["new"])(V), V)


def test_in_a_nested_mapped_function():
    def inner(v):
        return nx.sum(nx.arange(6, axis="new") * v, "new")

    outer = mapped(lambda v: nx.xmap(inner)(nx.sum(v, "a")))
    np.testing.assert_allclose(outer(V), 15 * V.sum(), rtol=1e-6)
    own = nx.xmap(
        lambda v: nx.xmap(inner, axis_resources={"new": "y"})(nx.sum(v, "a")),
        ["a"],
        [],
        axis_resources={"a": "x"},
        mesh=make_mesh((2, 4)),
    )
    np.testing.assert_allclose(own(V), 15 * V.sum(), rtol=1e-6)


def test_two_sizes_are_an_error_with_both():
    def body(v):
        return nx.sum(nx.arange(6, axis="new"), "new") + nx.sum(nx.zeros(named_shape={"new": 10}), "new")

    with pytest.raises(
        AxisSizeError, match=r"zeros: named_shape\['new'\] is 10, but axis 'new' has size 6 in this mapped function"
    ):
        mapped(body)(V)

    def renames(v):
        return nx.sum(nx.rename(v, {"a": "new"}), "new") + nx.sum(
            nx.rename(nx.ones(named_shape={"b": 10}), {"b": "new"}), "new"
        )

    with pytest.raises(
        AxisSizeError, match="rename: axis 'b' of size 10 cannot become 'new', which has size 6 in this mapped function"
    ):
        mapped(renames)(V)


def test_a_size_that_nothing_gives_is_asked_for():
    with pytest.raises(
        AxisNotFoundError, match=r"arange: axis 'new' has no size here.* Give a stop, or the size in axis_sizes of xmap"
    ):
        mapped(lambda v: nx.sum(nx.arange(axis="new"), "new"))(V)
    with pytest.raises(AxisMappingError, match="no size to broadcast to"):
        nx.xmap(lambda v: v, ["a"], ["a", "new"])(V)
    with pytest.raises(UnevenAxisError, match="split_axis: axis 'new' of size 6 does not divide"):
        mapped(lambda v: nx.split_axis(v, "a", {"new": 6, "one": 1}), out_axes=["new", "one"])(V)


def test_the_body_is_traced_once_for_sizes_that_divide():
    traces = []

    def body(v):
        traces.append(1)
        return nx.sum(nx.arange(8, axis="new"), "new")

    assert float(mapped(body)(V)) == 28
    assert len(traces) == 1
