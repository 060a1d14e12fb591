"""Element types that this package chooses, whatever `jax_numpy_dtype_promotion` says of those that a user mixes; and their values."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend.core.primitives import convert_element_type_p

from namedax.core.foreign_arrays import refuse_foreign
from namedax.errors import ArgumentError, ArgumentTypeError, format_value

__all__ = [
    *("NUMPY", "additive_identity", "as_inexact", "as_jax", "beyond", "check_fits", "check_numbers", "common_type", "extreme"),
    *("has_infinity", "inexact_type", "refuse_overflow", "to_type", "weak_as"),
]


# NumPy's scalars and arrays: of what is neither, types and values are JAX's.
NUMPY = (np.ndarray, np.generic)


def check_numbers(op: str, value: Any) -> None:
    """Raises where NumPy's 64-bit numbers do not fit into JAX's types for them, and would be others: without 64-bit types these have 32 bits.

    Raises:
      ArgumentError: `value` is an array or number of NumPy that has such integers, or finite numbers that would be infinite.
    """
    if not isinstance(value, NUMPY) or value.dtype.itemsize < 8 or value.dtype.kind not in "iufc" or not value.size:
        return
    kind, bits = value.dtype.kind, value.dtype.itemsize
    if (bits > 8 and kind != "c") or jax.dtypes.canonicalize_dtype(value.dtype).itemsize == bits:
        return
    if kind not in "iu":
        _check_finite(op, value)
        return
    kept = np.iinfo(np.int32 if kind == "i" else np.uint32)
    low, high = int(value.min()), int(value.max())
    if low < kept.min or high > kept.max:
        they = (
            f"{low} is an integer"
            if value.ndim == 0
            else f"the integers of {format_value(np.asarray(value))} are from {low} to {high}"
        )
        raise ArgumentError(
            f"{op}: {they}, and JAX holds those from {kept.min} to {kept.max} while 64-bit types are off. {_WIDER}"
        )


def _check_finite(op: str, value: Any) -> None:
    parts = (value.real, value.imag) if value.dtype.kind == "c" else (value,)
    limit = float(np.finfo(np.float32).max)
    for part in parts:
        # NaN is left out; the entries are looked at one by one only where there is a large one, which may be infinite.
        if np.fmax.reduce(part, axis=None) <= limit and np.fmin.reduce(part, axis=None) >= -limit:
            continue
        with np.errstate(over="ignore"):
            lost = np.isfinite(part) & np.isinf(part.astype(np.float32))
        if lost.any():
            they = (
                f"{value.item()!r} is a number"
                if value.ndim == 0
                else f"there are numbers in {format_value(np.asarray(value))} that are"
            )
            raise ArgumentError(
                f"{op}: {they} beyond {limit:.3g}, the largest that JAX holds while 64-bit types are off; it would be infinite. {_WIDER}"
            )


def refuse_overflow(op: str, arguments: Any) -> None:
    """Raises where JAX has refused one of Python's integers among the arguments, a tree, that does not fit into its type.

    Raises:
      ArgumentError: there is one.
    """
    info = jnp.iinfo(jax.dtypes.canonicalize_dtype(np.int64))
    for value in jax.tree.leaves(arguments):
        if type(value) is int and not info.min <= value <= info.max:
            raise ArgumentError(f"{op}: {_beyond(value, info)}")


def check_fits(op: str, what: str, value: Any, dtype: Any = None) -> None:
    """Raises where an integer that is cast to the type of an array, with which it is filled, would be another one there.

    Args:
      op: the operation.
      what: the argument.
      value: all but an integer, of Python or of NumPy, is let through.
      dtype: the type; default: that which JAX gives the number.

    Raises:
      ArgumentError: it would.
    """
    check_numbers(op, value)
    if not isinstance(value, (int, np.integer)) or isinstance(value, bool):
        return
    dtype = np.int64 if dtype is None else dtype
    if not jnp.issubdtype(dtype, jnp.integer):
        return
    info = jnp.iinfo(jax.dtypes.canonicalize_dtype(dtype))
    if not info.min <= int(value) <= info.max:
        raise ArgumentError(f"{op}: {what}: {_beyond(int(value), info)}")


def _beyond(value: int, info: Any) -> str:
    is_default = info.dtype == jnp.int32 and jax.dtypes.canonicalize_dtype(np.int64) == jnp.int32
    wider = f" while 64-bit types are off. {_WIDER}" if is_default else ". Give the array a type that holds it."
    return f"{value} is beyond the integers of {info.dtype}, those from {info.min} to {info.max}{wider}"


_WIDER = "Switch them on, jax.config.update('jax_enable_x64', True), or give the array another type or unit, as by array.astype('float32')."


_NUMBERS = {
    **dict.fromkeys("Mm", "Dates are numbers counted from one of them, as by (x - x[0]).astype(int)."),
    **dict.fromkeys("SU", "Words are numbers of a list of them, words, x = np.unique(x, return_inverse=True)."),
}


def as_jax(op: str, value: Any, dtype: Any = None, **options: Any) -> Any:
    """`jnp.asarray(value, dtype)`, or `jnp.array` with its options, for numbers that JAX's types hold.

    Raises:
      ArgumentError: they do not (`check_numbers`), in a list too.
      ArgumentTypeError: dates, text, objects and records of NumPy, which JAX does not have; an array with dims of another library.
    """
    if isinstance(value, NUMPY) and (value.dtype.kind in "MmOSU" or value.dtype.names is not None):
        remedy = _NUMBERS.get(value.dtype.kind, "Make an array of numbers of it first, as by x.astype(float).")
        raise ArgumentTypeError(
            f"{op}: the element type {value.dtype} of {format_value(np.asarray(value))} is none of JAX's. {remedy}"
        )
    refuse_foreign(op, value)
    if dtype is None:
        check_numbers(op, value)
    try:
        return jnp.array(value, dtype, **options) if options else jnp.asarray(value, dtype)
    except OverflowError as error:
        raise ArgumentError(f"{op}: {error}. {_WIDER}") from None


def common_type(*values: Any) -> Any:
    """The element type that JAX's standard promotion gives arrays and types together, under strict promotion too.

    >>> import jax, jax.numpy as jnp
    >>> with jax.numpy_dtype_promotion("strict"):
    ...     common_type(jnp.bfloat16, jnp.float32)
    dtype('float32')
    """
    with jax.numpy_dtype_promotion("standard"):
        return jnp.result_type(*values)


# Of these a mean has the same type. Of others it depends on JAX's configuration.
_OWN = frozenset(map(jnp.dtype, ("bfloat16", "float16", "float32", "complex64")))


def inexact_type(dtype: Any) -> Any:
    """The floating-point type in which JAX computes a mean of values of type `dtype`."""
    if dtype in _OWN:
        return dtype
    return jax.eval_shape(jnp.mean, jax.ShapeDtypeStruct((1,), dtype)).dtype


def as_inexact(data: Any) -> Any:
    """`data`, an array, named or not; its values as floats if they are integers or truth values."""
    return data.astype(inexact_type(data.dtype))


def beyond(dtype: Any) -> Any:
    """What `jnp` gives for an index out of range, in an array of type `dtype`."""
    if jnp.issubdtype(dtype, jnp.inexact):
        return jnp.asarray(jnp.nan, dtype)
    if dtype == jnp.bool_:
        return jnp.asarray(True)
    info = jnp.iinfo(dtype)
    return jnp.asarray(info.min if jnp.issubdtype(dtype, jnp.signedinteger) else info.max, dtype)


def extreme(dtype: Any, largest: bool) -> Any:
    """The value that no other exceeds in a maximum (if `largest`), or falls below in a minimum: what such a reduction of nothing begins with."""
    sign = -1 if largest else 1
    if jnp.issubdtype(dtype, jnp.complexfloating):
        return np.asarray(complex(sign * np.inf, sign * np.inf), dtype)
    if dtype == jnp.bool_:
        return np.asarray(not largest)
    if jnp.issubdtype(dtype, jnp.inexact):
        if has_infinity(dtype):
            return np.asarray(sign * np.inf, dtype)
        limits: Any = jnp.finfo(dtype)
    else:
        limits = jnp.iinfo(dtype)
    return np.asarray(limits.min if largest else limits.max, dtype)


def has_infinity(dtype: Any) -> bool:
    """Return True if the floating-point type `dtype` represents infinity; several of 8 bits and fewer do not.

    >>> import jax.numpy as jnp
    >>> has_infinity(jnp.float8_e5m2), has_infinity(jnp.float8_e4m3fn)
    (True, False)
    """
    return dtype in _OWN or bool(np.isinf(np.asarray(np.inf, dtype)))


def additive_identity(dtype: Any) -> Any:
    """The scalar that changes no number to which it is added: of floats it is -0.0, since -0.0 + 0.0 is 0.0.

    >>> import jax.numpy as jnp
    >>> float(additive_identity(jnp.float32)), int(additive_identity(jnp.int32))
    (-0.0, 0)
    """
    zero: Any = 0
    if jnp.issubdtype(dtype, jnp.inexact):
        zero = complex(-0.0, -0.0) if jnp.issubdtype(dtype, jnp.complexfloating) else -0.0
    return lax.full((), zero, dtype)


def weak_as(data: Any, like: Any) -> Any:
    """`data`, weakly typed where `like`, an array or the type of one, is.

    A weak type gives way to what it meets, so that what becomes of `data` has another element type without it: whether an array of
    Python's numbers keeps it must not depend on how an operation is done where a name is sharded.
    """
    if not getattr(like, "weak_type", False) or data.weak_type or data.dtype != like.dtype:
        return data
    # JAX's own functions make weak types of Python's numbers only.
    return convert_element_type_p.bind(data, new_dtype=data.dtype, weak_type=True, sharding=None)


def to_type(x: Any, dtype: Any) -> Any:
    """`x`, an array, named or not, with elements of type `dtype`. One that has it stays weakly typed if it is, which `astype` undoes."""
    return x if x.dtype == dtype else x.astype(dtype)
