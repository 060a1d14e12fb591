"""Elementwise functions: JAX's own, over operands that are aligned by name.

Every function of `FUNCTIONS` is `jnp`'s (or `jax.nn`'s) with the same arguments; array arguments may be named.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp

from namedax.array import NamedArray
from namedax.errors import NamedAxesLeftError
from namedax.ops import kernels
from namedax.ops.align import align, wrap
from namedax.ops.lift import explain_type_errors

__all__ = ["FUNCTIONS", "apply_elementwise", "elementwise"]

UNARY = (
    "abs absolute acos acosh angle arccos arccosh arcsin arcsinh arctan arctanh asin asinh atan atanh bitwise_count "
    "bitwise_invert bitwise_not cbrt ceil conj conjugate cos cosh deg2rad degrees exp exp2 expm1 fabs floor imag invert "
    "isfinite isinf isnan isneginf isposinf log log10 log1p log2 logical_not nan_to_num negative positive rad2deg radians "
    "real reciprocal rint round sign signbit sin sinc sinh spacing sqrt square tan tanh trunc i0"
).split()
BINARY = (
    "add arctan2 atan2 bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor copysign divide equal "
    "float_power floor_divide fmax fmin fmod gcd greater greater_equal heaviside hypot isclose lcm ldexp left_shift less "
    "less_equal logaddexp logaddexp2 logical_and logical_or logical_xor maximum minimum mod multiply nextafter not_equal pow "
    "power remainder right_shift subtract true_divide"
).split()
OTHERS = "clip where".split()


def apply_elementwise(op: str, function: Callable[..., Any], *operands: Any) -> Any:
    """`function` of the operands, aligned by name. `function` is elementwise over arrays of one shape."""
    datas, dims = align(op, *operands)
    with explain_type_errors:
        return wrap(function(*datas), dims)


def elementwise(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """The named version of an elementwise function of JAX. Arguments beside arrays and numbers stay what they are."""

    @functools.wraps(function)
    def lifted(*args: Any, **kwargs: Any) -> Any:
        if not kwargs:
            if name in ("pow", "power") and len(args) == 2 and type(args[1]) is int and isinstance(args[0], NamedArray):
                return args[0] ** args[1]  # a Python integer is static, as in jnp
            return kernels.run_elementwise(name, lambda *xs: apply_elementwise(name, function, *xs), *args)
        arrays = {key: value for key, value in kwargs.items() if hasattr(value, "dtype")}
        static = {key: value for key, value in kwargs.items() if key not in arrays}

        def call(*xs: Any) -> Any:
            return function(*xs[: len(args)], **dict(zip(arrays, xs[len(args) :], strict=True)), **static)

        return apply_elementwise(name, call, *args, *arrays.values())

    lifted.__module__ = __name__
    lifted.__doc__ = _doc(function, name)
    return lifted


def _doc(function: Callable[..., Any], name: str) -> str:
    summary = (inspect.getdoc(function) or "").split("\n\n")[0].strip()
    return (
        f"{summary}\n\nThe named version of `jnp.{name}`, with the same arguments. Arrays may have named axes: positional axes "
        "broadcast by position, named\naxes by name, and the result has the names of all of them. Moves no data between devices."
    )


def where(condition: Any, x: Any = None, y: Any = None) -> Any:
    """Elements of `x` where `condition` holds, else of `y`, broadcast by name.

    The form with one argument is refused: its result's shape depends on the data.

    >>> import jax.numpy as jnp, namedax as nx
    >>> x = nx.named(jnp.array([1.0, -2.0, 3.0]), ["k"])
    >>> nx.positional(nx.where(x > 0, x, 0.0), ["k"])
    Array([1., 0., 3.], dtype=float32)
    """
    if x is None or y is None:
        if isinstance(condition, NamedArray):
            raise NamedAxesLeftError("where: a named condition needs both x and y; the shape of the form with one argument depends on data.")
        return jnp.where(condition, x, y)
    return kernels.run_elementwise("where", lambda *xs: apply_elementwise("where", jnp.where, *xs), condition, x, y)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    name: elementwise(getattr(jnp, name), name) for name in UNARY + BINARY + ["clip"] if hasattr(jnp, name)
}
FUNCTIONS["where"] = where
