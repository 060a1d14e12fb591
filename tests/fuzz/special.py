"""Reference arithmetic for special values: infinities, NaN, subnormals, signed zeros, values near the ends of a dtype.

An operation is computed with NumPy on whole arrays, in 64 bits, and rounded to its dtype afterwards. Rounding, the order of additions and what XLA
may do to a program (FMA, excess precision, flushed subnormals) are legitimate differences. So each program is evaluated in several ways, one for each
of them. An element whose class (NaN, an infinity, finite) is the same in every way must have that class in every layout.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np

NUMPY = {"float32": np.float32, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16}
SIZES = {"a": 8, "b": 4, "u": 3}  # `u` is never mapped
TAKEN = (1, 3, 0)  # the indices that make an axis `u`


@dataclasses.dataclass(frozen=True)
class Way:
    """One admissible evaluation of a program."""

    noise: float = 0  # in ulps, with alternating signs
    flush: bool = False  # subnormals become zeros
    wide: bool = False  # 16-bit values keep 32 bits between operations, products of 32 bits are not rounded before an addition
    order: int = 0  # sums and products take the smallest elements first (1), or the largest (-1)
    signless: bool = False  # reads and extrema may change the sign of a zero


WAYS = (
    *(Way(), Way(4), Way(-4), Way(flush=True), Way(wide=True), Way(order=1), Way(order=-1), Way(signless=True)),
    *(Way(flush=True, signless=True), Way(flush=True, wide=True)),
)


@dataclasses.dataclass
class V:
    """A value: 64-bit numbers that its dtype has (unless the way is wide), and its axis names, sorted."""

    data: np.ndarray
    dims: tuple[str, ...]
    dtype: str


def finfo(dtype: str) -> Any:
    """The limits of a dtype."""
    return ml_dtypes.finfo(NUMPY[dtype])


def rounded(data: Any, dtype: str) -> np.ndarray:
    """The nearest values of a dtype, in 64 bits."""
    return np.asarray(data).astype(NUMPY[dtype]).astype(np.float64)


class Arithmetic:
    """The operations in one way."""

    def __init__(self, way: Way):
        self.way, self._count = way, 0

    def argument(self, data: np.ndarray, dims: tuple[str, ...], dtype: str) -> V:
        """An argument."""
        return V(self._flushed(data, dtype), dims, dtype)

    def result(self, v: V) -> np.ndarray:
        """The values that a program returns."""
        return self._flushed(rounded(v.data, v.dtype), v.dtype)

    def _flushed(self, data: np.ndarray, dtype: str) -> np.ndarray:
        small = np.abs(data) < float(finfo(dtype).tiny)
        return np.where(small, np.copysign(0.0, data), data) if self.way.flush else data

    def rounded(self, data: Any, dtype: str, product: bool = False) -> np.ndarray:
        """The data as the program has them between two operations."""
        if self.way.wide and (product or dtype != "float32"):
            data = np.asarray(data, np.float64) if dtype == "float32" else rounded(data, "float32")
        else:
            data = rounded(data, dtype)
        return self._flushed(data, dtype)

    def noisy(self, data: Any, dtype: str, scale: Any = None, basic: bool = False, product: bool = False) -> np.ndarray:
        """Rounded data, with noise proportional to `scale`; none where a basic operation is exact."""
        data = np.asarray(data, np.float64)
        self._count += 1
        if self.way.noise:
            signs = np.random.default_rng(self._count).choice([-1.0, 1.0], data.shape)
            size = np.abs(data) if scale is None else np.where(np.isfinite(scale), scale, 0)
            wrong = self.way.noise * float(finfo(dtype).eps) * signs * size
            where = np.isfinite(data) & ~(basic & (rounded(data, dtype) == data))
            data = np.where(where, data + np.where(where, wrong, 0), data)
        return self.rounded(data, dtype, product)

    def elementwise(self, f: Callable[..., Any], *values: V, dtype: str = "", basic: bool = False, product: bool = False) -> V:
        """`f` of values that are aligned by name."""
        dims, arrays = aligned(values)
        dtype = dtype or promoted(values)
        return V(self.noisy(f(*arrays), dtype, basic=basic, product=product), dims, dtype)

    def exactly(self, f: Callable[..., Any], *values: V, dtype: str = "") -> V:
        """`f`, which only chooses among values or changes signs."""
        dims, arrays = aligned(values)
        dtype = dtype or promoted(values)
        return V(self.rounded(f(*arrays), dtype), dims, dtype)

    def fold(
        self, f: Callable[[Any, Any], Any], data: np.ndarray, dtype: str, by: Callable[[Any], Any], start: float
    ) -> np.ndarray:
        """The sum or product over the last axis, in the order of the way."""
        if not self.way.order:
            return np.asarray((np.sum if start == 0 else np.prod)(data, -1)) + 0.0
        data = np.take_along_axis(data, np.argsort(self.way.order * by(data), -1, kind="stable"), -1)
        total = np.full(data.shape[:-1], start)
        for i in range(data.shape[-1]):
            total = self.rounded(f(total, data[..., i]), dtype)
        return total

    def total(self, data: np.ndarray, dtype: str) -> np.ndarray:
        """The sum over the last axis."""
        scale = np.sum(np.abs(data), -1)
        digits = int(finfo(dtype).nmant) + 1
        exact = np.all(data == np.round(data), -1) & (scale < 2.0**digits)  # sums of small integers have no rounding error
        return self.noisy(self.fold(np.add, data, dtype, lambda x: x, 0.0), dtype, np.where(exact, 0, scale))

    def product(self, data: np.ndarray, dtype: str) -> np.ndarray:
        """The product over the last axis."""
        return self.noisy(self.fold(np.multiply, data, dtype, np.abs, 1.0), dtype, basic=True)

    def extremum(self, f: Any, data: np.ndarray, axis: int = -1) -> np.ndarray:
        """A maximum or minimum: NaN wins, and zeros are equal."""
        return self.read(f.reduce(data, axis))

    def read(self, data: np.ndarray) -> np.ndarray:
        """Elements that are read."""
        return np.where(data == 0, 0.0, data) if self.way.signless else data

    def reduce(self, f: Callable[[np.ndarray], Any], v: V, axis: str, dtype: str = "") -> V:
        """`f`, which reduces the last axis, over a name."""
        data = np.moveaxis(v.data, v.dims.index(axis), -1)
        return V(np.asarray(f(data), np.float64), tuple(name for name in v.dims if name != axis), dtype or v.dtype)

    def along(self, f: Callable[[np.ndarray], Any], v: V, axis: str) -> V:
        """`f`, which keeps the last axis, along a name."""
        place = v.dims.index(axis)
        return V(np.moveaxis(np.asarray(f(np.moveaxis(v.data, place, -1))), -1, place), v.dims, v.dtype)

    def prefixes(self, f: Callable[[np.ndarray], np.ndarray], data: np.ndarray) -> np.ndarray:
        """`f` of the first element, the first two, and so on."""
        return np.stack([f(data[..., : n + 1]) for n in range(data.shape[-1])], -1)

    def logsumexp(self, data: np.ndarray, dtype: str) -> np.ndarray:
        """As `jax.nn.logsumexp`: a maximum that is not finite is not subtracted."""
        top = np.maximum.reduce(data, -1)
        top = np.where(np.isfinite(top), top, 0)
        terms = self.noisy(np.exp(self.noisy(data - top[..., None], dtype, basic=True)), dtype)
        return self.noisy(self.noisy(np.log(self.total(terms, dtype)), dtype) + top, dtype)

    def softmax(self, data: np.ndarray, dtype: str) -> np.ndarray:
        """As `jax.nn.softmax`."""
        top = np.maximum.reduce(data, -1)[..., None]
        terms = self.noisy(np.exp(self.noisy(data - top, dtype, basic=True)), dtype)
        return self.noisy(terms / self.total(terms, dtype)[..., None], dtype)

    def mean(self, data: np.ndarray, dtype: str) -> np.ndarray:
        """The mean over the last axis. That of a sharded one is divided before the all-reduce: it may underflow, and not overflow."""
        scale = np.mean(np.abs(data), -1)
        total = np.sum(data, -1) if self.way.wide else self.total(data, dtype)
        mean = self.noisy(total / data.shape[-1], dtype, scale, basic=True)
        lost = data.shape[-1] * float(finfo(dtype).tiny)  # at most, if every quotient is flushed
        return np.where(np.abs(mean) < lost, np.copysign(0.0, mean), mean) if self.way.flush else mean

    def var(self, data: np.ndarray, dtype: str) -> np.ndarray:
        """The variance over the last axis."""
        apart = self.noisy(data - self.mean(data, dtype)[..., None], dtype, basic=True)
        return self.mean(self.noisy(apart * apart, dtype, basic=True, product=True), dtype)

    def dot(self, x: V, y: V, axis: str) -> V:
        """The contraction of one name."""
        product = self.elementwise(np.multiply, x, y, basic=True, product=True)
        return self.reduce(lambda data: self.total(data, product.dtype), product, axis)

    def take(self, x: V, axis: str) -> V:
        """The elements at `TAKEN`, on an axis `u`."""
        place = x.dims.index(axis)
        data = np.moveaxis(np.take(self.read(x.data), TAKEN, place), place, -1)
        return V(data, (*(name for name in x.dims if name != axis), "u"), x.dtype)


def aligned(values: Sequence[V]) -> tuple[tuple[str, ...], list[np.ndarray]]:
    """All names, sorted, and the arrays with an axis for each of them."""
    dims = tuple(sorted({name for v in values for name in v.dims}))
    shapes = [[SIZES[name] if name in v.dims else 1 for name in dims] for v in values]
    return dims, [np.reshape(v.data, shape) for v, shape in zip(values, shapes, strict=True)]


def promoted(values: Sequence[V]) -> str:
    """The dtype of a sum."""
    dtypes = {v.dtype for v in values}
    return dtypes.pop() if len(dtypes) == 1 else "float32"
