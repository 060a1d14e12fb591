"""What a value is to the interpreter: a NumPy (or jnp) array whose named axes come first, sorted, and its element type.

Numbers are computed in 64 bits, whatever the element type says: the interpreter is the exact answer. `xp` is `numpy` or `jax.numpy`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

# One name has one size. Names of one size can be renamed to each other; `n` is never on a mesh. `o` has one entry, and `e` none.
SIZES = {
    **{"a": 8, "a2": 8, "a3": 8, "b": 4, "b2": 4, "c": 6, "c2": 6, "d": 3, "k": 2, "k2": 2, "n": 160, "i": 4, "j": 8},
    **{"o": 1, "o2": 1, "e": 0, "e2": 0},
}
INNER = ("i", "j")  # names of inner mapped functions only
WIDE = {"bool": 0, "i8": 1, "i32": 2, "weak": 3, "bf16": 4, "f32": 5}
DTYPES = {"bool": "bool", "i8": "int8", "i32": "int32", "weak": "float32", "bf16": "bfloat16", "f32": "float32"}
FLOATS = ("weak", "bf16", "f32")
NUMBERS = ("f32", "bf16", "i32")


class V(NamedTuple):
    """A value: its array (named axes first, in the order of `names`), its names, sorted, and its element type."""

    data: Any
    names: tuple[str, ...] = ()
    dtype: str = "f32"

    @property
    def shape(self) -> tuple[int, ...]:
        """The positional shape."""
        return tuple(self.data.shape[len(self.names) :])

    @property
    def ndim(self) -> int:
        """The number of positional axes."""
        return self.data.ndim - len(self.names)


def promote(*dtypes: str) -> str:
    """The element type of a sum of values of these types, a Python number (`weak`) among them."""
    widest = max(dtypes, key=WIDE.__getitem__)
    if widest == "weak" and any(dtype != "weak" for dtype in dtypes):
        return "f32"
    return widest


def inexact(dtype: str) -> str:
    """What a function with fractional results returns."""
    return dtype if dtype in FLOATS else "f32"


def make(xp: Any, data: Any, order: Sequence[str], dtype: str) -> V:
    """A value whose array begins with the named axes of `order`."""
    names = tuple(sorted(order))
    rest = range(len(order), data.ndim)
    return V(xp.transpose(xp.asarray(data), [*(order.index(name) for name in names), *rest]), names, dtype)


def spread(xp: Any, v: V, names: Iterable[str], ndim: int | None = None) -> Any:
    """The array with an axis for every one of `names` (sorted) and `ndim` positional ones; those that it lacks have size one."""
    ndim = v.ndim if ndim is None else ndim
    sizes = dict(zip(v.names, v.data.shape, strict=False))
    shape = [sizes.get(name, 1) for name in sorted(names)]
    return xp.reshape(v.data, (*shape, *[1] * (ndim - v.ndim), *v.shape))


def union(*values: V) -> tuple[str, ...]:
    """All names of the values, sorted."""
    return tuple(sorted({name for v in values for name in v.names}))


def elementwise(xp: Any, f: Callable[..., Any], dtype: str, *values: V) -> V:
    """`f` of the values, broadcast by name and by position."""
    names, ndim = union(*values), max(v.ndim for v in values)
    return V(xp.asarray(f(*(spread(xp, v, names, ndim) for v in values))), names, dtype)


def broadcast(xp: Any, v: V, names: Iterable[str]) -> V:
    """The value with all of `names`, of full size."""
    names = tuple(sorted({*names, *v.names}))
    shape = [SIZES[name] for name in names]
    return V(xp.broadcast_to(spread(xp, v, names), (*shape, *v.shape)), names, v.dtype)


def place(v: V, axis: Any) -> int:
    """The dimension of a named or positional axis."""
    return v.names.index(axis) if isinstance(axis, str) else len(v.names) + axis % v.ndim


def places(v: V, axes: Sequence[Any]) -> tuple[int, ...]:
    """The dimensions of several axes."""
    return tuple(place(v, axis) for axis in axes)


def without(v: V, axes: Iterable[Any]) -> tuple[str, ...]:
    """The names of the value but those of `axes`."""
    return tuple(name for name in v.names if name not in set(axes))


def front(xp: Any, v: V, axis: Any) -> tuple[Any, tuple[str, ...]]:
    """The array with one axis in front, and the names of the next dimensions."""
    return xp.moveaxis(v.data, place(v, axis), 0), without(v, (axis,))


def along(xp: Any, v: V, axis: Any, f: Callable[[Any], Any], name: Any = "same", dtype: str | None = None) -> V:
    """`f`, which works along the leading dimension, along one axis, which then has the name `name`, or `None`: it is positional, the last."""
    data, rest = front(xp, v, axis)
    data = f(data)
    if not isinstance(axis, str):
        return V(xp.moveaxis(data, 0, place(v, axis)), v.names, dtype or v.dtype)
    if name is None:
        return V(xp.moveaxis(data, 0, -1), rest, dtype or v.dtype)
    return make(xp, data, [axis if name == "same" else name, *rest], dtype or v.dtype)


def weights(number: int, shape: Sequence[int]) -> np.ndarray:
    """What a result is multiplied by in the loss: different everywhere."""
    return np.cos(0.3 + number + 0.7 * np.arange(math.prod(shape)).reshape(shape)).astype(np.float32)


_KEYS: dict[tuple[int, ...], np.ndarray] = {}


def uniform_table(shape: tuple[int, ...]) -> np.ndarray:
    """What `jax.random.uniform` draws for each of the first 16 keys."""
    if shape not in _KEYS:
        keys = jax.random.split(jax.random.key(7), 16)
        with jax.enable_x64(False):
            _KEYS[shape] = np.asarray(jax.vmap(lambda key: jax.random.uniform(key, shape, "float32"))(keys), np.float64)
    return _KEYS[shape]


def logsumexp(xp: Any, data: Any, axes: tuple[int, ...], keepdims: bool = False) -> Any:
    """Written out, so that it is the same for both modules."""
    top = xp.max(data, axis=axes, keepdims=True)
    top = top if xp is np else jax.lax.stop_gradient(top)
    total = xp.log(xp.sum(xp.exp(data - top), axis=axes, keepdims=True)) + top
    return total if keepdims else xp.squeeze(total, axes)
