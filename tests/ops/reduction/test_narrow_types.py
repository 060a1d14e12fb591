"""Reductions of floats of at most 8 bits, of integers below 8 bits, and extrema of complex numbers, in every placement."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType

import namedax as nx

_FLOATS = [name for name in dir(jnp) if name.startswith(("float8_", "float4_"))]
_INTEGERS = [name for name in ("int4", "uint4", "int2", "uint2") if hasattr(jnp, name)]
_SEGMENTS = np.arange(10) % 3


def _segments(values, reduce):
    ids = _SEGMENTS[: len(values)]
    return np.stack([reduce(values[ids == k], axis=0) for k in range(3)])


def _ids(x):
    return nx.arange(x.named_shape["a"], axis="a") % 3


# Each with NumPy's operation on float64 or int64, and the dtype of the result of integers: their own, JAX's integer or float32.
_OPERATIONS = {
    "sum": (lambda x: nx.sum(x, "a"), lambda v: v.sum(0), "integer"),
    "prod": (lambda x: nx.prod(x, "a"), lambda v: v.prod(0), "integer"),
    "sum of the dtype": (lambda x: nx.sum(x, "a", dtype=x.dtype), lambda v: v.sum(0), "own"),
    "mean": (lambda x: nx.mean(x, "a"), lambda v: v.mean(0), "float"),
    "var": (lambda x: nx.var(x, "a"), lambda v: v.var(0), "float"),
    "max": (lambda x: nx.max(x, "a"), lambda v: v.max(0), "own"),
    "min": (lambda x: nx.min(x, "a"), lambda v: v.min(0), "own"),
    "argmax": (lambda x: nx.argmax(x, "a"), lambda v: v.argmax(0), "index"),
    "argmin": (lambda x: nx.argmin(x, "a"), lambda v: v.argmin(0), "index"),
    "logsumexp": (lambda x: nx.logsumexp(x, "a"), lambda v: np.log(np.exp(v).sum(0)), "float"),
    "norm": (lambda x: nx.norm(x, axis="a"), lambda v: np.sqrt((v * v).sum(0)), "float"),
    "median": (lambda x: nx.median(x, "a"), lambda v: np.median(v, 0), "float"),
    "cumsum": (lambda x: nx.cumsum(x, "a"), lambda v: v.cumsum(0), "own"),
    "cummax": (lambda x: nx.lax.cummax(x, "a"), lambda v: np.maximum.accumulate(v, 0), "own"),
    "sort": (lambda x: nx.sort(x, "a"), lambda v: np.sort(v, 0), "own"),
    "nansum": (lambda x: nx.numpy.nansum(x, "a"), lambda v: v.sum(0), "integer"),
    "psum": (lambda x: nx.lax.psum(x, "a"), lambda v: v.sum(0), "own"),
    "pmax": (lambda x: nx.lax.pmax(x, "a"), lambda v: v.max(0), "own"),
    "dot": (lambda x: nx.dot(x, x, "a"), lambda v: (v * v).sum(0), "own"),
    "take": (lambda x: nx.take(x, 3, "a"), lambda v: v[3], "own"),
    "all_gather": (lambda x: nx.lax.all_gather(x, "a"), lambda v: v, "own"),
    **{
        f"segment_{kind}": (
            lambda x, kind=kind: getattr(nx, f"segment_{kind}")(x, _ids(x), 3, axis="a", out_axis="s"),
            lambda v, reduce=reduce: _segments(v, reduce),
            "own",
        )
        for kind, reduce in (("sum", np.sum), ("prod", np.prod), ("max", np.max))
    },
}
_LAYOUTS = {"unmapped": (0, 10), "entries": (4, 4), "blocks": (4, 8), "uneven": (8, 10), "one": (1, 10)}


def _values(name):
    if "e8m0" in name:
        column = np.array([1, 2, 4, 8, 1, 2, 4, 8, 0.5, 2])
    elif "float" in name:
        column = np.array([1, 2, 4, 6, 1, 2, 3, 0.5, 1.5, 2])
    else:
        column = {
            "int4": np.array([1, 2, 4, 6, -1, 2, 3, 0, 7, -8]),
            "uint4": np.array([1, 2, 4, 6, 1, 2, 3, 0, 15, 7]),
            "int2": np.array([1, 0, -1, -2, 1, 1, 0, -2, 1, 0]),
            "uint2": np.array([1, 0, 3, 2, 1, 1, 0, 2, 3, 0]),
        }[name]
    return np.stack([column, column[::-1], np.roll(column, 3)], 1)


def _wanted(oracle, values, name, kind):
    """Return NumPy's result, rounded once; integers wrap around."""
    result = np.asarray(oracle(values))
    if kind == "index":
        return result, None
    if "float" in name:
        return result.astype(np.float32).astype(jnp.dtype(name)).astype(np.float32), name
    if kind == "float":
        return result.astype(np.float32), "float32"
    signed = not name.startswith("u")
    dtype = name if kind == "own" else ("int32" if signed else "uint32")
    return result.astype(np.int64).astype(np.int32).astype(jnp.dtype(dtype)).astype(np.int64), dtype


def _check(name, layout, operations):
    devices, size = _LAYOUTS[layout]
    values = _values(name)[:size]
    x = nx.named(jnp.asarray(values.astype(np.float32)).astype(name), ["a", "b"])

    def body(x):
        return {op: _OPERATIONS[op][0](x) for op in operations}

    if devices:
        mesh = jax.make_mesh((devices,), ("x",), devices=jax.devices()[:devices])
        results = nx.xmap(body, axis_resources={"a": "x"}, mesh=mesh)(x)
    else:
        results = jax.jit(body)(x)
    for op, got in results.items():
        want, dtype = _wanted(_OPERATIONS[op][1], values, name, _OPERATIONS[op][2])
        dims = [dim for dim in ("s", "a", "b") if dim in got.named_shape]
        got = nx.positional(got, [None] * got.ndim + dims)
        assert dtype is None or got.dtype.name == dtype, op
        rounding = 1e-5 if got.dtype == jnp.float32 else 0
        got = np.asarray(got.astype(jnp.float32))
        np.testing.assert_allclose(got, want, rtol=rounding, atol=rounding, err_msg=f"{op} of {name}, {layout}")


@pytest.mark.full(0)
@pytest.mark.fast(1)
@pytest.mark.parametrize("layout", ["unmapped", "uneven"])
def test_a_type_without_zero_sign_and_infinity(layout):
    _check("float8_e8m0fnu", layout, _OPERATIONS)


@pytest.mark.fast(1)
@pytest.mark.parametrize("name", ["float8_e5m2", "int4", "int2"])
def test_reductions_round_once(name):
    _check(name, "uneven", ["sum", "prod", "mean", "max", "argmax", "all_gather"])


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize("layout", _LAYOUTS)
@pytest.mark.parametrize("name", _FLOATS + _INTEGERS)
def test_every_reduction_of_every_narrow_type(name, layout):
    _check(name, layout, _OPERATIONS)


def test_sums_and_products_of_integers_below_8_bits_outside():
    x = nx.named(jnp.asarray([7, 6, 5], "int4"), ["k"])
    results = nx.sum(x, "k"), nx.prod(x, "k"), x.sum("k"), nx.numpy.sum(x, "k"), nx.sum(x.data, 0)
    assert [(int(r), r.dtype) for r in results] == [(n, jnp.int32) for n in (18, 210, 18, 18, 18)]
    assert float(nx.mean(x, "k")) == 6.0


@pytest.mark.parametrize("dtype", [None, "float32", "float8_e4m3fn"])
def test_the_dtype_of_a_result_is_respected(dtype):
    x = nx.named(jnp.asarray([1, 2, 4, 6, 1, 2, 3, 0.5], "float8_e4m3fn"), ["k"])
    total = nx.sum(x, "k", dtype=dtype)
    assert (float(total), total.dtype) == ((19.5, jnp.float32) if dtype == "float32" else (20.0, jnp.float8_e4m3fn))


def test_gradients_of_narrow_floats():
    x = jnp.asarray([1, 2, 4, 6, 1, 2, 3, 0.5], "float8_e4m3fn")
    mesh = jax.make_mesh((4,), ("x",), devices=jax.devices()[:4])

    def loss(x):
        f = nx.xmap(lambda x: nx.sum(x * x, "k"), in_axes=["k"], out_axes=[], axis_resources={"k": "x"}, mesh=mesh)
        return f(x).astype(jnp.float32)

    np.testing.assert_array_equal(jax.grad(loss)(x).astype(jnp.float32), 2 * x.astype(jnp.float32))


def test_types_with_which_xla_does_not_compute_are_rejected():
    if not hasattr(jnp, "float6_e2m3fn"):
        pytest.skip("this JAX has no floats of 6 bits")
    x = jax.ShapeDtypeStruct((3,), jnp.float6_e2m3fn)
    with pytest.raises(nx.errors.ArgumentTypeError, match=r"sum: XLA does not compute with the dtype float6_e2m3fn.*astype"):
        jax.eval_shape(lambda x: nx.sum(nx.named(x, ["k"]), "k"), x)


def test_random_keys_have_no_wider_type():
    keys = nx.named(jax.random.split(jax.random.key(0), 4), ["k"])
    mesh = jax.make_mesh((4,), ("x",), devices=jax.devices()[:4])
    f = nx.xmap(lambda k, x: nx.take(k, 1, "k"), axis_resources={"k": "x"}, mesh=mesh)
    got = f(keys, nx.named(jnp.arange(4.0), ["k"]))
    np.testing.assert_array_equal(jax.random.key_data(got), jax.random.key_data(keys.data[1]))
    with pytest.raises(nx.errors.ArgumentTypeError, match="random keys, which have no order and no sum"):
        nx.cumsum(keys, "k")


_COMPLEX = {
    "max": (lambda x: nx.max(x, "k"), np.max),
    "min": (lambda x: nx.numpy.min(x, "k"), np.min),
    "method": (lambda x: x.max("k"), np.max),
    "argmax": (lambda x: nx.argmax(x, "k"), np.argmax),
    "argmin": (lambda x: nx.argmin(x, "k"), np.argmin),
    "cummax": (lambda x: nx.lax.cummax(x, "k"), np.maximum.accumulate),
    "sort": (lambda x: nx.sort(x, "k"), np.sort),
    "initial": (lambda x: nx.max(x, "k", initial=1.5 + 9j), lambda v: np.max(v, initial=1.5 + 9j)),
}


@pytest.mark.fast(1)
@pytest.mark.full(1)
@pytest.mark.parametrize("missing", [{}, {5: complex(3, np.nan)}], ids=["numbers", "NaN"])
@pytest.mark.parametrize("placement", ["unmapped", "Auto", "Explicit", "body"])
def test_extrema_of_complex_numbers(placement, missing):
    values = np.array([1 + 2j, 1 - 3j, 2 + 1j, 2 + 4j, 0, 2 + 4j, -1, 2 - 1j], np.complex64)
    for index, value in missing.items():
        values[index] = value
    x = nx.named(jnp.asarray(values), ["k"])

    def body(x):
        return {op: f(x) for op, (f, _) in _COMPLEX.items()}

    kind = AxisType.Explicit if placement == "Explicit" else AxisType.Auto
    mesh = jax.make_mesh((4,), ("x",), axis_types=(kind,), devices=jax.devices()[:4])
    if placement == "body":
        results = [nx.xmap(body, axis_resources={"k": "x"}, mesh=mesh)(x)]
    else:
        x = x if placement == "unmapped" else nx.shard(x, {"k": "x"}, mesh)
        results = [body(x), jax.jit(body)(x)]
    for result in results:
        for op, got in result.items():
            got = np.asarray(got.data if isinstance(got, nx.NamedArray) else got)
            np.testing.assert_array_equal(got, _COMPLEX[op][1](values), err_msg=op)
