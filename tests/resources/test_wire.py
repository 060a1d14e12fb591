"""Collectives in narrow formats (`wire=`). The oracles are unmapped `jnp` programs, with bounds of the rounding computed by NumPy, and a
NumPy version of the encoding.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import namedax as nx
from namedax import hlo
from tests.harness import array, make_mesh

FORMATS = ["bf16", "float8_e4m3", "int8"]
RELATIVE = {"bf16": 2**-8, "float8_e4m3": 2**-4, "int8": 0.0}
LIMIT = {"float8_e4m3": 448, "int8": 127}
TINY = float(np.finfo(np.float32).tiny)
READ = "{batch,embed},{embed:embed_fsdp,hidden}->{batch,hidden}"


def in_blocks(values, block=128):
    """The values of one device as rows of blocks, the last ones zeros."""
    flat = np.asarray(values, np.float64).ravel()
    count = -(-flat.size // block)
    each = -(-flat.size // count)
    return np.pad(flat, (0, count * each - flat.size)).reshape(count, each)


def bound(values, wire):
    """The largest error of every element of one device's block."""
    values = np.asarray(values, np.float64)
    if wire == "bf16":
        return np.abs(values) * 2**-8 + TINY
    rows = in_blocks(values)
    step = np.maximum(np.abs(rows).max(-1, keepdims=True) / LIMIT[wire], TINY) * (1 + 1e-5)
    each = step / 2 if wire == "int8" else np.maximum(np.abs(rows) * 2**-4, step * 2**-10)
    return np.broadcast_to(each, rows.shape).ravel()[: values.size].reshape(values.shape) * (1 + 1e-5) + np.abs(values) * 1e-6


def bounds(values, wire, blocks):
    """`bound` of each of the blocks of the first dimension."""
    return np.concatenate([bound(block, wire) for block in np.split(np.asarray(values), blocks)])


def whole(w, wire, resources=None, shape=(8,), kind="auto", names=("a", "b"), new="c"):
    mesh = make_mesh(shape, kind)
    f = nx.xmap(
        lambda w: nx.rename(w, {names[0]: new}, wire=wire),
        in_axes=list(names),
        out_axes=[new, *names[1:]],
        axis_resources=resources or {"a": "x"},
        mesh=mesh,
    )
    return np.asarray(f(w))


# --- rounding -------------------------------------------------------------------------------------

_gathers = {}


def gather_once(wire):
    if wire not in _gathers:
        mesh = jax.make_mesh((4,), ("x",), devices=jax.devices()[:4])
        _gathers[wire] = nx.xmap(
            lambda w: nx.rename(w, a="c", wire=wire), in_axes=["a", "b"], out_axes=["c", "b"], axis_resources={"a": "x"}, mesh=mesh
        )
    return _gathers[wire]


@pytest.mark.parametrize("wire", FORMATS)
@settings(max_examples=25, deadline=None)
@given(
    elements=st.lists(st.floats(-1e4, 1e4, width=32), min_size=1, max_size=40),
    exponents=st.lists(st.integers(-44, 33), min_size=4, max_size=4),
)
def test_errors_are_within_the_bound(wire, elements, exponents):
    w = np.resize(np.asarray(elements, np.float32), (4, 200))  # 200 elements: two blocks of 100
    w = w * np.float32(10.0) ** np.asarray(exponents, np.float32)[:, None]
    w = np.where(np.abs(w) < TINY, 0, w).astype(np.float32)
    got = np.asarray(gather_once(wire)(jnp.asarray(w)), np.float64)
    assert np.all(np.abs(got - w) <= bounds(w, wire, 4))
    np.testing.assert_array_equal(got[w == 0], 0)


@pytest.mark.parametrize("wire", FORMATS)
def test_the_largest_and_smallest_numbers_stay_finite(wire):
    info = np.finfo(np.float32)
    largest = info.max if wire != "bf16" else 3.3e38  # beyond bfloat16's largest number, a cast gives infinity
    w = np.array([[largest, -largest], [info.tiny, 0.0], [-0.0, 0.0], [3 * info.tiny, -info.tiny]], np.float32)
    got = np.asarray(gather_once(wire)(jnp.asarray(np.tile(w, (1, 3)))))
    assert np.all(np.isfinite(got))
    assert np.all(np.abs(got[0] - np.tile(w[0], 3)) <= largest * 2**-7)
    assert np.all(np.abs(got[1:]) <= 4 * info.tiny)


@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("wire", FORMATS)
def test_infinities_and_nan_stay_visible(wire, bad):
    w = np.array(array(4, 200))
    w[1, 130], w[3, 0] = bad, bad
    got = np.asarray(gather_once(wire)(jnp.asarray(w)))
    if wire == "bf16":
        np.testing.assert_array_equal(got[~np.isfinite(w)], w[~np.isfinite(w)])
        assert np.all(np.isfinite(got[np.isfinite(w)]))
    else:  # the block of 100 elements is NaN, and no other
        expected = np.zeros((4, 200), bool)
        expected[1, 100:] = expected[3, :100] = True
        np.testing.assert_array_equal(np.isnan(got), expected)


def test_payload_is_what_numpy_computes():
    w = np.array(array(4, 200))
    rows = np.stack([in_blocks(row) for row in w]).astype(np.float32)
    scale = np.abs(rows).max(-1, keepdims=True) / np.float32(127)
    expected = (np.round(rows / scale) * scale).reshape(4, 200)
    np.testing.assert_allclose(np.asarray(gather_once("int8")(jnp.asarray(w))), expected, rtol=1e-6)


def test_float64_and_narrow_dtypes():
    small = array(4, 200).astype(jnp.bfloat16)
    np.testing.assert_array_equal(np.asarray(gather_once("bf16")(small)), np.asarray(small))  # sent as it is
    for wire in ("int8", "float8_e4m3"):
        got = gather_once(wire)(small)
        assert got.dtype == jnp.bfloat16
        w = np.asarray(small, np.float32)
        assert np.all(np.abs(np.asarray(got, np.float32) - w) <= bounds(w, wire, 4) + np.abs(w) * 2**-8)


# --- layouts, values and gradients ----------------------------------------------------------------

LAYOUTS = {
    "one-each": ((8,), "auto", 8, {"a": "x"}),
    "chunks": ((8,), "auto", 48, {"a": "x"}),
    "two-axes": ((4, 2), "auto", 16, {"a": ("x", "y")}),
    "of-two": ((4, 2), "auto", 16, {"a": "x", "b": "y"}),
    "explicit": ((8,), "explicit", 16, {"a": "x"}),
    "explicit-2d": ((4, 2), "explicit", 16, {"a": "x", "b": "y"}),
    "partly": ((4, 2), "auto", 8, {"a": "x"}),
    "partly-explicit": ((4, 2), "explicit", 8, {"a": "x"}),
    "uneven": ((8,), "auto", 19, {"a": "x"}),
    "uneven-other": ((4, 2), "auto", 16, {"a": "x", "b": "y"}),
    "exchange": ((4,), "auto", 16, {"a": "x", "d": "x"}),
    "permute": ((2, 2), "auto", 16, {"a": ("x", "y"), "c": ("y", "x")}),
}


@pytest.mark.parametrize("wire", [*FORMATS, nx.Wire("int8", "bf16")])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_rename_in_every_layout(layout, wire):
    shape, kind, size, resources = LAYOUTS[layout]
    forward = wire.forward if isinstance(wire, nx.Wire) else wire
    columns = 19 if layout == "uneven-other" else 16
    w, c = array(size, columns, seed=3), array(size, columns, seed=4)
    new = {"a": "c", "b": "d"} if layout == "exchange" else {"a": "c"}
    out = [new["a"], new.get("b", "b")]

    def f(w, c):
        return nx.rename(w, new, wire=wire) * c

    mesh = jax.make_mesh(shape, ("x", "y")[: len(shape)], devices=jax.devices()[: int(np.prod(shape))])
    if kind == "explicit":
        mesh = make_mesh(shape, kind)
    g = nx.xmap(f, in_axes=(["a", "b"], out), out_axes=out, axis_resources=resources, mesh=mesh)
    got, pull = jax.vjp(g, w, c)
    worst = np.abs(np.asarray(w)).max() * {"bf16": 2**-8, "float8_e4m3": 2**-4, "int8": 1.001 / 254}[forward]
    assert np.all(np.abs(np.asarray(got - w * c)) <= np.abs(np.asarray(c)) * worst)
    if forward == "int8":
        assert np.any(np.asarray(got) != np.asarray(w * c))
    ct = array(size, columns, seed=5)
    dw, dc = pull(ct)
    backward = np.abs(np.asarray(ct * c)).max() * 2**-8 if isinstance(wire, nx.Wire) else 1e-5
    assert np.all(np.abs(np.asarray(dw - ct * c)) <= backward)
    assert np.all(np.abs(np.asarray(dc - ct * w)) <= np.abs(np.asarray(ct)) * worst)
