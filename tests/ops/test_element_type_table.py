"""Every operation that compares, adds or multiplies, for every element type that JAX has, against `jnp` on the whole array."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import namedax as nx

_NAMES = (
    *("bool", "int8", "int16", "int32", "uint8", "uint16", "uint32"),
    *("float4_e2m1fn", "float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz"),
    *("float8_e5m2", "float8_e5m2fnuz", "bfloat16", "float16", "float32", "complex64"),
)
_TYPES = tuple(name for name in _NAMES if hasattr(jnp, name) or name == "bool")
_FAST = ("float8_e4m3fn", "float8_e4m3b11fnuz", "float4_e2m1fn")
_LAYOUTS = {"even": ({"a": "x"}, 5), "uneven": ({"a": "x"}, 7), "steps": ({"a": nx.SerialLoop(3)}, 0), "unmapped": ({}, 0)}

_SEGMENTS = np.arange(10) % 2


def _largest_of_two(x):
    return nx.segment_max(x, nx.arange(10, axis="a") % 2, 2, axis="a", out_axis="s")


# Each with the same operation of JAX, which reduces or runs along the first axis.
_OPERATIONS = {
    "max": (lambda x: nx.max(x, "a"), lambda x: jnp.max(x, 0)),
    "min": (lambda x: nx.min(x, "a"), lambda x: jnp.min(x, 0)),
    "argmax": (lambda x: nx.argmax(x, "a"), lambda x: jnp.argmax(x, 0)),
    "argmin": (lambda x: nx.argmin(x, "a"), lambda x: jnp.argmin(x, 0)),
    "ptp": (lambda x: nx.ptp(x, "a"), lambda x: jnp.ptp(x, 0)),
    "sum": (lambda x: nx.sum(x, "a"), lambda x: jnp.sum(x, 0)),
    "prod": (lambda x: nx.prod(x, "a"), lambda x: jnp.prod(x, 0)),
    "mean": (lambda x: nx.mean(x, "a"), lambda x: jnp.mean(x, 0)),
    "any": (lambda x: nx.any(x, "a"), lambda x: jnp.any(x, 0)),
    "all": (lambda x: nx.all(x, "a"), lambda x: jnp.all(x, 0)),
    "count_nonzero": (lambda x: nx.count_nonzero(x, "a"), lambda x: jnp.count_nonzero(x, 0)),
    "logsumexp": (lambda x: nx.logsumexp(x, "a"), lambda x: jax.nn.logsumexp(x, 0)),
    "softmax": (lambda x: nx.nn.softmax(x, "a"), lambda x: jax.nn.softmax(x, 0)),
    "cumsum": (lambda x: nx.cumsum(x, "a"), lambda x: jnp.cumsum(x, 0)),
    "cumprod": (lambda x: nx.cumprod(x, "a"), lambda x: jnp.cumprod(x, 0)),
    "cummax": (lambda x: nx.lax.cummax(x, "a"), lambda x: lax.cummax(x, 0)),
    "cummin": (lambda x: nx.lax.cummin(x, "a"), lambda x: lax.cummin(x, 0)),
    "cumlogsumexp": (lambda x: nx.cumlogsumexp(x, "a"), lambda x: lax.cumlogsumexp(x, 0)),
    "nanmax": (lambda x: nx.numpy.nanmax(x, "a"), lambda x: jnp.nanmax(x, 0)),
    "nanmin": (lambda x: nx.numpy.nanmin(x, "a"), lambda x: jnp.nanmin(x, 0)),
    "nanargmin": (lambda x: nx.numpy.nanargmin(x, "a"), lambda x: jnp.nanargmin(x, 0)),
    "segment_max": (_largest_of_two, lambda x: jax.ops.segment_max(x, _SEGMENTS, 2)),
    "one entry": (lambda x: nx.take(x, 7, "a"), lambda x: x[7]),
    "sort": (lambda x: nx.sort(x, "a"), lambda x: jnp.sort(x, 0)),
}
_ROUNDED = {"mean", "logsumexp", "softmax", "cumlogsumexp"}
_EXPONENTIALS = {"logsumexp", "softmax", "cumlogsumexp"}
_SUMS = {"sum", "mean", "cumsum"}


def _values(name: str) -> np.ndarray:
    # Products and sums of these are exact in eight bits. One column has only negative numbers, another only positive ones.
    x = np.random.default_rng(0).choice([-1.0, 1.0, 1.0, 0.0], (10, 5))
    x[:, 0], x[:, 1], x[3:5, 2] = -1, 1, [-2, 2]
    if name == "bool":
        return x > 0
    if name.startswith("uint"):
        return np.abs(x)
    return np.clip(x, -2, 1) if name == "int2" else x


def _tried(op, x):
    f = _OPERATIONS[op][1]
    try:
        is_short, is_unsigned = x.dtype.name.startswith(("float8", "float4")), x.dtype.name.startswith("uint")
        if op == "segment_max" and is_short:  # JAX begins at -inf, which is NaN where a type has no infinity
            return f(x.astype(jnp.float32)).astype(x.dtype)
        if op in _EXPONENTIALS and (is_short or (is_unsigned and op != "cumlogsumexp")):
            # jax.nn gives NaN for finite numbers here: it begins at -inf, which several types do not have, or wraps around.
            result = f(x.astype(jnp.float32))
            return result if is_unsigned else result.astype(x.dtype)
        return jax.block_until_ready(f(x))
    except Exception as error:
        return error


def _check(name: str, layout: str) -> None:
    resources, devices = _LAYOUTS[layout]
    mesh = jax.make_mesh((devices,), ("x",), devices=jax.devices()[:devices]) if devices else None
    x = jnp.asarray(_values(name)).astype(name)
    # A sort needs all entries at once, and sums of ten numbers are not exact with so few bits.
    is_short = name.startswith(("float4", "float8_e5m2"))
    left_out = ({"sort"} if layout == "steps" else set()) | (_SUMS if is_short else set())
    wanted = {op: _tried(op, x) for op in _OPERATIONS if op not in left_out}
    accepted = {op: _OPERATIONS[op][0] for op, want in wanted.items() if not isinstance(want, Exception)}

    def run(operations):
        def body(x):
            return {op: f(x) for op, f in operations.items()}

        return nx.xmap(body, axis_resources=resources, mesh=mesh)(nx.named(x, ["a", "b"]))

    for op, got in run(accepted).items():
        want = wanted[op]
        got = nx.positional(got, [dim for dim in ("s", "a", "b") if dim in got.named_shape])
        assert got.dtype == want.dtype, op
        got, want = (np.asarray(v if jnp.iscomplexobj(v) else v.astype(jnp.float32)) for v in (got, want))
        rounding = float(jnp.finfo(wanted[op].dtype).eps) if op in _ROUNDED else 0.0
        np.testing.assert_allclose(got, want, rtol=2 * rounding, atol=rounding, err_msg=f"{op} of {name}, {layout}")
    for op, want in wanted.items():
        # The types of JAX's own rejections differ. A softmax of truth values is one of JAX's default floats.
        if isinstance(want, Exception) and (op, name) != ("softmax", "bool"):
            with pytest.raises(Exception):  # noqa: B017, PT011
                run({op: _OPERATIONS[op][0]})


@pytest.mark.fast(0)
@pytest.mark.full(0)
@pytest.mark.parametrize("layout", ["uneven", "steps"])
@pytest.mark.parametrize("name", [name for name in _FAST if name in _TYPES])
def test_types_without_infinity(name, layout):
    _check(name, layout)


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize("layout", _LAYOUTS)
@pytest.mark.parametrize("name", _TYPES)
def test_every_operation_for_every_type(name, layout):
    _check(name, layout)


@pytest.mark.parametrize("call", [nx.cumlogsumexp, nx.lax.cumlogsumexp])
def test_a_cumulative_logarithm_of_integers_is_rejected(call):
    with pytest.raises(nx.errors.ArgumentTypeError, match="cumlogsumexp: the elements are int8, not floats"):
        call(nx.named(jnp.zeros(3, "int8"), ["a"]), "a")
