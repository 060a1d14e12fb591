"""`arange` and `one_hot` along a name: every device makes its own block, and nothing is sent."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType

import namedax as nx
from tests.harness import PLACEMENTS, array, check, together

# label: (named, positional, out_axes); x is {a}, labels are {b} with some out of range, l2 is {b}[2]
PROGRAM = {
    "arange": (lambda x, l, m: nx.arange("a"), lambda x, l, m: jnp.arange(8), ["a"]),
    "arange with an axis": (
        lambda x, l, m: nx.arange(axis="b", dtype="float32"),
        lambda x, l, m: jnp.arange(4.0, dtype="float32"),
        ["b"],
    ),
    "arange with a stop": (lambda x, l, m: x * nx.arange(8, axis="a"), lambda x, l, m: x * jnp.arange(8), ["a"]),
    "arange with a step": (lambda x, l, m: nx.arange(20, 4, -2, axis="a"), lambda x, l, m: jnp.arange(20, 4, -2), ["a"]),
    "arange of floats": (lambda x, l, m: nx.arange(0.5, 2.5, 0.5, axis="b"), lambda x, l, m: jnp.arange(0.5, 2.5, 0.5), ["b"]),
    "arange of another name": (lambda x, l, m: nx.arange(5, axis="k"), lambda x, l, m: jnp.arange(5), ["k"]),
    "arange of no name": (lambda x, l, m: nx.arange(2, 5), lambda x, l, m: jnp.arange(2, 5), [None]),
    "one_hot": (lambda x, l, m: nx.nn.one_hot(l, axis="a"), lambda x, l, m: jax.nn.one_hot(l, 8), ["b", "a"]),
    "one_hot times a value": (
        lambda x, l, m: nx.sum(nx.nn.one_hot(l, 8, axis="a") * x, "a"),
        lambda x, l, m: jax.nn.one_hot(l, 8) @ x,
        ["b"],
    ),
    "one_hot of positions": (
        lambda x, l, m: nx.nn.one_hot(m, axis="a", dtype="int32"),
        lambda x, l, m: jax.nn.one_hot(m, 8, dtype="int32"),
        ["b", None, "a"],
    ),
    "one_hot at a position": (
        lambda x, l, m: nx.nn.one_hot(m, 6, axis=0),
        lambda x, l, m: jax.nn.one_hot(m, 6, axis=1),
        ["b", None, None],
    ),
}
TOGETHER = together(PROGRAM)


@pytest.mark.fast(3)
@pytest.mark.parametrize("placement", PLACEMENTS, ids=str)
def test_placements(placement):
    named, plain, out_axes = TOGETHER
    args = (array(8), jnp.array([2, -1, 7, 8]), jnp.arange(8).reshape(4, 2))
    grad = placement.kind == "auto" and placement.label in ("unmapped", "blocks", "two-mesh-axes")
    check(named, plain, args, (["a"], ["b"], ["b", None]), out_axes, placement, grad=grad)


def test_an_index_out_of_range_gives_zeros():
    hot = nx.nn.one_hot(nx.named(jnp.array([-1, 3, 1]), ["batch"]), 3, axis="classes")
    assert nx.positional(hot, ["batch", "classes"]).tolist() == [[0, 0, 0], [0, 0, 0], [0, 1, 0]]


def test_nothing_is_sent():
    mesh = jax.make_mesh((8,), ("x",), axis_types=(AxisType.Auto,))
    f = nx.xmap(
        lambda labels: (nx.nn.one_hot(labels, axis="classes"), nx.arange("classes")),
        (["batch"],),
        (["batch", "classes"], ["classes"]),
        axis_sizes={"classes": 16},
        axis_resources={"classes": "x"},
        mesh=mesh,
    )
    program = f.lower(jnp.arange(5)).compile()
    assert nx.hlo.summary(program) == {}
    assert "f32[5,16]" not in program.as_text()  # the new axis is whole on no device
    np.testing.assert_array_equal(f(jnp.arange(5))[0], jnp.eye(16)[:5])


def test_element_types_are_those_of_jax():
    for dtype in (None, "int8", "float16", jnp.bfloat16, np.dtype("float32")):
        assert nx.arange(4, axis="k", dtype=dtype).dtype == jnp.arange(4, dtype=dtype).dtype
    assert nx.arange(0, 2.5, axis="k").dtype == jnp.arange(0, 2.5).dtype
    labels = nx.named(jnp.arange(3), ["b"])
    assert nx.nn.one_hot(labels, 3, axis="k").dtype == jax.nn.one_hot(jnp.arange(3), 3).dtype
    assert nx.nn.one_hot(labels, 3, axis="k", dtype=bool).dtype == jnp.bool_


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (
            lambda x: nx.arange("k"),
            nx.errors.AxisNotFoundError,
            ["arange: axis 'k' has no size here", "Give a stop", "axis_sizes"],
        ),
        (lambda x: nx.arange(7, axis="a"), nx.errors.AxisSizeError, ["arange", "is 7", "'a' has size 8"]),
        (lambda x: nx.nn.one_hot(x, axis="k"), nx.errors.AxisNotFoundError, ["one_hot", "'k'", "num_classes"]),
        (lambda x: nx.nn.one_hot(x, 5, axis="b"), nx.errors.AxisSizeError, ["one_hot: num_classes is 5", "'b' has size 4"]),
        (lambda x: nx.nn.one_hot(x, 8, axis="a"), nx.errors.AxisSizeError, ["one_hot", "already has the new axis 'a'"]),
        (lambda x: nx.nn.one_hot(x), nx.errors.AxisNotFoundError, ["a positional axis requires num_classes"]),
    ],
)
def test_mistakes(call, error, words):
    with pytest.raises(error) as raised:
        nx.xmap(call, (["a"],), axis_sizes={"b": 4})(jnp.arange(8))
    assert all(word in str(raised.value) for word in words), raised.value


@pytest.mark.parametrize("name", ["zeros", "ones", "empty", "full"])
def test_arrays_without_names_can_be_put_on_a_device(name):
    device, value = jax.devices()[1], ({"fill_value": 2.0} if name == "full" else {})
    assert getattr(nx, name)((2, 3), **value, device=device).devices() == {device}
    with pytest.raises(nx.errors.UnsupportedArgumentError, match=rf"{name}: device=.*nx\.shard"):
        getattr(nx, name)(3, **value, device=device, named_shape={"a": 2})
