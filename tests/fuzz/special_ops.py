"""Operations for special values: the text of each for namedax, and what it computes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.fuzz.special import Arithmetic, V

LARGE = {"float32": 1e30, "float16": 2048.0, "bfloat16": 1e30}


@dataclasses.dataclass(frozen=True)
class Op:
    """An operation of `count` values, and of an axis of the first one if `axis`."""

    text: str  # {0}, {1}, ... are the values, {axis} the name
    plain: Callable[..., V]  # of the arithmetic, the values, and options
    count: int = 1
    axis: bool = False
    moves: bool = False  # not possible along the axis of a SerialLoop
    fresh: bool = False  # makes an axis `u`
    linear: bool = False  # a sum may have been postponed past it


def unary(text: str, f: Callable[..., Any], basic: bool = False, linear: bool = False, product: bool = False) -> Op:
    """An elementwise function."""
    return Op(text, lambda m, x: m.elementwise(f, x, basic=basic, product=product), linear=linear)


def choice(text: str, f: Callable[..., Any], count: int = 1, linear: bool = False) -> Op:
    """An elementwise function without rounding."""
    return Op(text, lambda m, *values: m.exactly(f, *values), count, linear=linear)


def binary(text: str, f: Callable[..., Any], product: bool = False, linear: bool = True) -> Op:
    """An operation of two values that IEEE defines."""
    return Op(text, lambda m, x, y: m.elementwise(f, x, y, basic=True, product=product), 2, linear=linear)


def reduction(text: str, f: Callable[[Arithmetic, Any, str], Any]) -> Op:
    """A reduction over one name."""
    return Op(text, lambda m, x, axis: m.reduce(lambda data: f(m, data, x.dtype), x, axis), axis=True)


def scan(text: str, f: Callable[[Arithmetic, Any, str], Any], moves: bool = False) -> Op:
    """A function that keeps a name."""
    return Op(text, lambda m, x, axis: m.along(lambda data: f(m, data, x.dtype), x, axis), axis=True, moves=moves)


def extremum_of(x: Any, y: Any, f: Any, m: Arithmetic) -> Any:
    """A maximum or minimum of two values."""
    return m.read(f(x, y))


def rates(m: Arithmetic, x: V, y: V, z: V, axis: str) -> V:
    """Two quotients by the same value: two sums that might become one."""
    sums = [m.reduce(lambda data, v=v: m.total(data, v.dtype), v, axis) for v in (x, y)]
    return m.elementwise(np.add, *(m.elementwise(np.divide, s, z, basic=True) for s in sums), basic=True)


def sigmoid(x: Any) -> Any:
    """The logistic function."""
    return 1 / (1 + np.exp(-x))


def logaddexp(m: Arithmetic, x: V, y: V) -> V:
    """`jnp.logaddexp`."""
    return m.elementwise(np.logaddexp, x, y)


OPS = {
    "negative": choice("-{0}", lambda x: -x, linear=True),
    "absolute": choice("nx.abs({0})", np.abs),
    "exp": unary("nx.exp({0})", np.exp),
    "expm1": unary("nx.expm1({0})", np.expm1),
    "log": unary("nx.log({0})", np.log),
    "log1p": unary("nx.log1p({0})", np.log1p),
    "sqrt": unary("nx.sqrt({0})", np.sqrt, basic=True),
    "inverse": unary("1 / {0}", lambda x: 1 / x, basic=True),
    "square": unary("{0} * {0}", lambda x: x * x, basic=True, product=True),
    "tanh": unary("nx.tanh({0})", np.tanh),
    "sigmoid": unary("nx.nn.sigmoid({0})", sigmoid),
    "sign": choice("nx.sign({0})", lambda x: np.where(x == 0, x, np.sign(x))),  # the sign of -0.0 is -0.0, as in jnp
    "relu": choice("nx.nn.relu({0})", lambda x: np.maximum(x, 0)),
    "floor": choice("nx.floor({0})", np.floor),
    "isnan": choice("nx.isnan({0}).astype({0}.dtype)", np.isnan),
    "isfinite": choice("nx.isfinite({0}).astype({0}.dtype)", np.isfinite),
    "without_nan": choice("nx.where(nx.isnan({0}), 1, {0})", lambda x: np.where(np.isnan(x), 1, x)),
    "nan_to_num": choice("nx.numpy.nan_to_num({0}, posinf=3, neginf=-3)", lambda x: np.nan_to_num(x, posinf=3, neginf=-3)),
    "plus_one": unary("{0} + 1", lambda x: x + 1, basic=True, linear=True),
    "half": unary("{0} / 2", lambda x: x / 2, basic=True, linear=True, product=True),
    "third": unary("{0} / 3", lambda x: x / 3, basic=True, linear=True, product=True),
    "no_times": unary("{0} * 0", lambda x: x * 0, basic=True, linear=True),
    "over_zero": unary("{0} / 0", lambda x: x / 0.0, basic=True, linear=True),
    "wide": Op("{0}.astype('float32')", lambda m, x: m.exactly(lambda x: x, x, dtype="float32"), linear=True),
    "add": binary("{0} + {1}", np.add),
    "subtract": binary("{0} - {1}", np.subtract),
    "multiply": binary("{0} * {1}", np.multiply, product=True),
    "divide": binary("{0} / {1}", np.divide),
    "maximum": Op("nx.maximum({0}, {1})", lambda m, x, y: m.exactly(lambda x, y: extremum_of(x, y, np.maximum, m), x, y), 2),
    "minimum": Op("nx.minimum({0}, {1})", lambda m, x, y: m.exactly(lambda x, y: extremum_of(x, y, np.minimum, m), x, y), 2),
    "copysign": choice("nx.copysign({0}, {1})", np.copysign, 2),
    "where": choice("nx.where({0} > {1}, {0}, {1})", lambda x, y: np.where(x > y, x, y), 2),
    "logaddexp": Op("nx.logaddexp({0}, {1})", logaddexp, 2),
    "sum": reduction("nx.sum({0}, {axis})", lambda m, data, dtype: m.total(data, dtype)),
    "sum_where": reduction(
        "nx.sum({0}, {axis}, where={0} > 0)", lambda m, data, dtype: m.total(np.where(data > 0, data, 0), dtype)
    ),
    "mean": reduction("nx.mean({0}, {axis})", lambda m, data, dtype: m.mean(data, dtype)),
    "var": reduction("nx.var({0}, {axis})", lambda m, data, dtype: m.var(data, dtype)),
    "max": reduction("nx.max({0}, {axis})", lambda m, data, dtype: m.extremum(np.maximum, data)),
    "min": reduction("nx.min({0}, {axis})", lambda m, data, dtype: m.extremum(np.minimum, data)),
    "max_where": reduction(
        "nx.max({0}, {axis}, where={0} < 1, initial=-2)",
        lambda m, data, dtype: m.extremum(np.maximum, np.where(data < 1, np.maximum(data, -2), -2)),
    ),
    "prod": reduction("nx.prod({0}, {axis})", lambda m, data, dtype: m.product(data, dtype)),
    "logsumexp": reduction("nx.logsumexp({0}, {axis})", lambda m, data, dtype: m.logsumexp(data, dtype)),
    "any_nan": reduction("nx.any(nx.isnan({0}), {axis}).astype({0}.dtype)", lambda m, data, dtype: np.any(np.isnan(data), -1)),
    "argmax": reduction("nx.argmax({0}, {axis}).astype({0}.dtype)", lambda m, data, dtype: np.argmax(data, -1)),
    "argmin": reduction("nx.argmin({0}, {axis}).astype({0}.dtype)", lambda m, data, dtype: np.argmin(data, -1)),
    "count": reduction("nx.count_nonzero({0}, {axis}).astype({0}.dtype)", lambda m, data, dtype: np.count_nonzero(data, -1)),
    "first": reduction("{0}[{axis}, 0]", lambda m, data, dtype: m.read(data[..., 0])),
    "second": reduction("{0}[{axis}, 1]", lambda m, data, dtype: m.read(data[..., 1])),
    "last": reduction("{0}[{axis}, -1]", lambda m, data, dtype: m.read(data[..., -1])),
    "nansum": reduction(
        "nx.numpy.nansum({0}, {axis})", lambda m, data, dtype: m.total(np.where(np.isnan(data), 0, data), dtype)
    ),
    "dot": Op("nx.dot({0}, {1}, {axis})", lambda m, x, y, axis: m.dot(x, y, axis), 2, axis=True),
    "rates": Op("nx.sum({0}, {axis}) / {2} + nx.sum({1}, {axis}) / {2}", rates, 3, axis=True),
    "take": Op(
        "nx.take({0}, nx.named(np.array([1, 3, 0]), ['u']), {axis})", lambda m, x, axis: m.take(x, axis), axis=True, fresh=True
    ),
    "flip": scan("nx.flip({0}, {axis})", lambda m, data, dtype: data[..., ::-1], True),
    "roll": scan("nx.roll({0}, 1, {axis})", lambda m, data, dtype: np.roll(data, 1, -1), True),
    "sort": scan("nx.sort({0}, {axis})", lambda m, data, dtype: np.sort(data, -1, kind="stable"), True),
    "cumsum": scan("nx.cumsum({0}, {axis})", lambda m, data, dtype: m.prefixes(lambda part: m.total(part, dtype), data)),
    "cumprod": scan("nx.cumprod({0}, {axis})", lambda m, data, dtype: m.prefixes(lambda part: m.product(part, dtype), data)),
    "cummax": scan(
        "nx.lax.cummax({0}, {axis})",
        lambda m, data, dtype: m.prefixes(lambda part: m.extremum(np.maximum, part), data),
    ),
    "cummin": scan(
        "nx.lax.cummin({0}, {axis})",
        lambda m, data, dtype: m.prefixes(lambda part: m.extremum(np.minimum, part), data),
    ),
    "softmax": scan("nx.nn.softmax({0}, {axis})", lambda m, data, dtype: m.softmax(data, dtype)),
}
# Constants that a dtype holds, though products by them overflow.
for name, factor in LARGE.items():
    OPS[f"large_{name}"] = unary("{0} * " + repr(factor), lambda x, c=factor: x * c, basic=True, linear=True, product=True)
    OPS[f"over_large_{name}"] = unary("{0} / " + repr(factor), lambda x, c=factor: x / c, basic=True, linear=True, product=True)
