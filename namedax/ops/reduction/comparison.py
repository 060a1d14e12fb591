"""Equality of two arrays over all axes: `allclose`, `array_equal`, `array_equiv` at top level.

The functions of `nx.numpy` compare over the positional axes and give one answer for each element of
the named axes. They reject arrays without positional axes.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from namedax.core.annotations import AnyArray, ArrayLike
from namedax.core.array import NamedArray, dims_of
from namedax.errors import NamedaxError
from namedax.ops.elementwise import FUNCTIONS as _ELEMENTWISE
from namedax.ops.operands.operation import operation
from namedax.ops.operands.pytree import names_of
from namedax.ops.reduction.reductions import REDUCTIONS

__all__ = ["allclose", "array_equal", "array_equiv"]


def _everywhere(truth: AnyArray) -> AnyArray:
    """Return True if all elements are true, by one all-reduce."""
    rank = truth.ndim
    return REDUCTIONS["all"](truth, (*names_of(dims_of(truth)), *range(rank)))


def _array(x: ArrayLike) -> AnyArray:
    return x if isinstance(x, NamedArray) else jnp.asarray(x)


@operation()
def allclose(
    a: ArrayLike,
    b: ArrayLike,
    rtol: ArrayLike = 1e-5,
    atol: ArrayLike = 1e-8,
    equal_nan: bool = False,
) -> AnyArray:
    """Return True if all elements are close, over all named and positional axes.

    Elements are close if `|a - b| <= atol + rtol * |b|`.

    Args:
      a: an array, named or not.
      b: an array that broadcasts with it, by name and by position.
      rtol: the relative tolerance, by default 1e-5.
      atol: the absolute tolerance, by default 1e-8.
      equal_nan: if `True`, NaNs are close to each other; by default `False`.

    Returns:
      A boolean scalar.

    Communication: over sharded axes, one all-reduce of that scalar.

    Raises:
      AxisSizeError: an axis has two sizes.

    >>> import jax.numpy as jnp, namedax as nx
    >>> x = nx.named(jnp.array([1.0, 2.0]), ["k"])
    >>> bool(nx.allclose(x, x * (1 + 1e-6))), bool(nx.allclose(x, 2.0))
    (True, False)
    """
    return _everywhere(_array(_ELEMENTWISE["isclose"](a, b, rtol, atol, equal_nan)))


@operation()
def array_equal(a1: ArrayLike, a2: ArrayLike, equal_nan: bool = False) -> AnyArray:
    """Return True if two arrays have the same named and positional axes, and the same elements.

    The physical order of named axes does not matter.

    Args:
      a1: an array, named or not.
      a2: the other array.
      equal_nan: if `True`, NaNs are equal to each other; by default `False`.

    Returns:
      A boolean scalar.

    Communication: over sharded axes, one all-reduce of that scalar.

    >>> import jax.numpy as jnp, namedax as nx
    >>> x = nx.named(jnp.ones((2, 3)), ["a", "b"])
    >>> y = nx.named(jnp.ones((3, 2)), ["b", "a"])
    >>> bool(nx.array_equal(x, y)), bool(nx.array_equal(x, 1.0))
    (True, False)
    """
    a1, a2 = _array(a1), _array(a2)
    if a1.shape != a2.shape or _sizes(a1) != _sizes(a2):
        return jnp.asarray(False)
    return _equal(a1, a2, equal_nan)


@operation()
def array_equiv(a1: ArrayLike, a2: ArrayLike) -> AnyArray:
    """Return True if two arrays are equal after broadcasting, by name and by position.

    Args:
      a1: an array, named or not.
      a2: the other array.

    Returns:
      A boolean scalar; false if they do not broadcast.

    Communication: over sharded axes, one all-reduce of that scalar.

    >>> import jax.numpy as jnp, namedax as nx
    >>> bool(nx.array_equiv(nx.named(jnp.ones((2, 3)), ["a", "b"]), 1.0))
    True
    """
    try:
        return _equal(_array(a1), _array(a2), equal_nan=False)
    except NamedaxError:
        return jnp.asarray(False)


def _sizes(x: ArrayLike) -> dict[Any, int]:
    return dict(x.named_shape) if isinstance(x, NamedArray) else {}


def _equal(a: ArrayLike, b: ArrayLike, equal_nan: bool) -> AnyArray:
    same = _array(_ELEMENTWISE["equal"](a, b))
    if equal_nan:
        same = same | (_ELEMENTWISE["isnan"](a) & _ELEMENTWISE["isnan"](b))
    return _everywhere(same)
