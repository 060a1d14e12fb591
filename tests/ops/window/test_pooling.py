"""Pooling by name, on whole and on sharded axes. The oracle is `jax.lax.reduce_window`."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import namedax as nx
from namedax import hlo
from namedax.errors import ArgumentError, ArgumentTypeError, AxisNotFoundError, AxisSizeError, PositionalAxisError
from tests import make
from tests.harness import FEW, PARTITIONER, array, check, make_mesh, together

nn = nx.nn
NEUTRAL = {"max": (-jnp.inf, lax.max), "min": (jnp.inf, lax.min), "avg": (0.0, lax.add)}


def window(kind, x, sizes, strides, padding):
    """Over the first two axes of x[8, 4, 3]."""
    fill, combine = NEUTRAL[kind]
    args = ((*sizes, 1), (*strides, 1), padding if isinstance(padding, str) else (*padding, (0, 0)))
    y = lax.reduce_window(x, fill, combine, *args)
    return y / np.prod(sizes) if kind == "avg" else y


def within(x, sizes, strides, padding):
    args = ((*sizes, 1), (*strides, 1), padding)
    return lax.reduce_window(x, 0.0, lax.add, *args) / lax.reduce_window(jnp.ones_like(x), 0.0, lax.add, *args)


OUT = ["a", "b", None]
# x is {a: 8, b: 4}[3]; the sizes of a and b stay
PROGRAMS = {
    "max": (
        lambda x: nn.max_pool(x, {"a": 3, "b": 2}, strides=1, padding="SAME"),
        lambda x: window("max", x, (3, 2), (1, 1), "SAME"),
        OUT,
    ),
    "min": (
        lambda x: nn.min_pool(x, {"b": 3, "a": 5}, strides=1, padding={"a": (4, 0), "b": (0, 2)}),
        lambda x: window("min", x, (5, 3), (1, 1), ((4, 0), (0, 2))),
        OUT,
    ),
    "avg": (
        lambda x: nn.avg_pool(x, {"a": 4}, strides=1, padding="SAME"),
        lambda x: window("avg", x, (4, 1), (1, 1), "SAME"),
        OUT,
    ),
    "avg within": (
        lambda x: nn.avg_pool(x, {"a": 3, "b": 3}, strides=(1, 1), padding="SAME", count_include_pad=False),
        lambda x: within(x, (3, 3), (1, 1), "SAME"),
        OUT,
    ),
    "tiles": (
        lambda x: nn.max_pool(x, {"b": 2}, out_axis={"b": "half"}),
        lambda x: window("max", x, (1, 2), (1, 2), "VALID"),
        ["a", "half", None],
    ),
    "strides": (
        lambda x: nn.avg_pool(x, {"b": 3}, strides={"b": 2}, padding=[(1, 0)], out_axis={"b": "half"}),
        lambda x: window("avg", x, (1, 3), (1, 2), ((0, 0), (1, 0))),
        ["a", "half", None],
    ),
}


@pytest.mark.full(0)
@pytest.mark.fast(1)
@pytest.mark.parametrize("placement", [FEW[0], FEW[1], FEW[2], FEW[3], PARTITIONER[3]], ids=str)
def test_values_and_gradients(placement):
    named, plain, out_axes = together(PROGRAMS)
    check(named, plain, (array(8, 4, 3),), (["a", "b", None],), out_axes, placement)


def mapped(f, out, resources, mesh=(4, 2)):
    return nx.xmap(f, ["w", "c"], [out, "c"], axis_resources=resources, mesh=make_mesh(mesh))


@pytest.mark.fast(0)
def test_what_pooling_sends():
    """Nothing where windows tile the blocks; otherwise the rows at the boundary, never a block."""
    x = array(64, 3)
    tiles = mapped(lambda x: nn.max_pool(x, {"w": 2}, out_axis={"w": "half"}), "half", {"w": "x", "half": "x"})
    np.testing.assert_array_equal(tiles(x), x.reshape(32, 2, 3).max(1))
    assert not hlo.collectives(tiles.lower(x).compile())
    halo = mapped(lambda x: nn.max_pool(x, {"w": 5}, strides=1, padding="SAME"), "w", {"w": "x"})
    sent = [(one.kind, one.bytes) for one in hlo.collectives(halo.lower(x).compile())]
    assert sent == [("collective-permute", 2 * 3 * 4)] * 2, sent
    gathered = mapped(lambda x: nn.max_pool(x, {"w": 2}, out_axis={"w": "half"}), "half", {"w": "x"})
    assert [one.kind for one in hlo.collectives(gathered.lower(x).compile())] == ["all-gather"]
    np.testing.assert_array_equal(gathered(x), x.reshape(32, 2, 3).max(1))


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize("resources", [{}, {"w": "x"}], ids=str)
def test_types(resources):
    for dtype in (jnp.int8, jnp.uint16, jnp.bfloat16, jnp.bool_):
        x = (array(8, 3) * 3).astype(dtype)
        high = mapped(lambda x: nn.max_pool(x, {"w": 3}, strides=1, padding="SAME"), "w", resources)(x)
        low = mapped(lambda x: nn.min_pool(x, {"w": 3}, strides=1, padding="SAME"), "w", resources)(x)
        rows = [x[max(0, i - 1) : i + 2] for i in range(8)]
        assert high.dtype == low.dtype == dtype
        np.testing.assert_array_equal(high, jnp.stack([row.max(0) for row in rows]))
        np.testing.assert_array_equal(low, jnp.stack([row.min(0) for row in rows]))
    mean = mapped(lambda x: nn.avg_pool(x, {"w": 3}, strides=1, padding="SAME", count_include_pad=False), "w", resources)
    x = make.arange(24).reshape(8, 3)
    np.testing.assert_allclose(mean(x), jnp.stack([x[max(0, i - 1) : i + 2].mean(0) for i in range(8)]), rtol=1e-6)
    nan = array(8, 3).at[3, 1].set(jnp.nan)
    have = mapped(lambda x: nn.max_pool(x, {"w": 3}, strides=1, padding="SAME"), "w", resources)(nan)
    assert np.isnan(have).sum() == 3


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda x: nn.max_pool(x, 2), ArgumentTypeError, "max_pool: the window must be a dict"),
        (lambda x: nn.max_pool(x, {"h": 2}), AxisNotFoundError, "max_pool: no axis 'h' in f32[]{w:8, c:3}"),
        (
            lambda x: nn.avg_pool(x, {"w": 9}),
            AxisSizeError,
            "avg_pool: the window covers 9 elements, but axis 'w' has 8",
        ),
        (lambda x: nn.max_pool(x, {"w": 0}), ArgumentError, "window['w'] must be a static integer of at least 1, got 0"),
        (
            lambda x: nn.min_pool(x, {"w": 2}, strides=0),
            ArgumentError,
            "the stride of 'w' must be a static integer of at least 1, got 0",
        ),
        (
            lambda x: nn.min_pool(x, {"w": 2}, strides={"c": 1}),
            PositionalAxisError,
            "must have one entry for each of ('w',); see 'c'",
        ),
        (
            lambda x: nn.max_pool(x, {"w": 2}, padding=[(2, 0)]),
            ArgumentError,
            "the padding (2, 0) of axis 'w' must be at least 0 and less",
        ),
        (
            lambda x: nn.max_pool(x, {"w": 2}, padding="FULL"),
            PositionalAxisError,
            "padding must be 'SAME', 'VALID' or a pair",
        ),
        (lambda x: nn.max_pool(x, {"w": 2}, padding=1), PositionalAxisError, "padding=1 has 0 pairs for 1 axes"),
        (lambda x: nn.max_pool(x, {"w": 2}, out_axis={"c": "d"}), AxisNotFoundError, "no axis 'c' in window={'w': 2}"),
        (lambda x: nn.max_pool(x * 1j, {"w": 2}), ArgumentTypeError, "is complex, and complex numbers have no order"),
    ],
)
def test_mistakes(call, error, words):
    with pytest.raises(error) as raised:
        call(nx.named(array(8, 3).astype(jnp.float32), ["w", "c"]))
    assert words in str(raised.value), raised.value


def test_a_size_that_changes_needs_a_name():
    with pytest.raises(AxisSizeError, match=r"max_pool: axis 'w' would have size 4, but it has size 8 in this mapped function"):
        mapped(lambda x: nn.max_pool(x, {"w": 2}), "w", {})(array(8, 3))
    jax.jit(lambda x: nn.max_pool(x, {"w": 2}))(nx.named(array(8, 3), ["w", "c"]))
