"""Element types that this package chooses, whatever `jax_numpy_dtype_promotion` says of those that a user mixes; and their values."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from namedax.errors import ArgumentError, ArgumentTypeError, shown

__all__ = ["as_inexact", "as_jax", "beyond", "check_integers", "common_type", "extreme", "inexact_type", "to_type"]


def check_integers(op: str, value: Any) -> None:
    """Raises where NumPy's 64-bit integers do not fit into JAX's type for them, which then are others: without 64-bit types it has 32 bits.

    Raises:
      ArgumentError: `value` is an array or number of NumPy that has such integers.
    """
    if not isinstance(value, (np.ndarray, np.generic)) or value.dtype.kind not in "iu" or value.dtype.itemsize < 8:
        return
    if not value.size or jax.dtypes.canonicalize_dtype(value.dtype).itemsize == 8:
        return
    kept = np.iinfo(np.int32 if value.dtype.kind == "i" else np.uint32)
    low, high = int(value.min()), int(value.max())
    if low < kept.min or high > kept.max:
        raise ArgumentError(
            f"{op}: the integers of {shown(np.asarray(value))} are from {low} to {high}, and JAX holds those from {kept.min} to {kept.max} while "
            f"64-bit types are off. {_WIDER}"
        )


_WIDER = "Switch them on, jax.config.update('jax_enable_x64', True), or give the array another type or unit, as by array.astype('float32')."


_NUMBERS = {
    **dict.fromkeys("Mm", "Dates are numbers counted from one of them, as by (x - x[0]).astype(int)."),
    **dict.fromkeys("SU", "Words are numbers of a list of them, words, x = np.unique(x, return_inverse=True)."),
}


def as_jax(op: str, value: Any, dtype: Any = None, **options: Any) -> Any:
    """`jnp.asarray(value, dtype)`, or `jnp.array` with its options, for integers that JAX's types hold.

    Raises:
      ArgumentError: they do not (`check_integers`), in a list too.
      ArgumentTypeError: dates, text, objects and records of NumPy, which JAX does not have.
    """
    if isinstance(value, (np.ndarray, np.generic)) and (value.dtype.kind in "MmOSU" or value.dtype.names is not None):
        remedy = _NUMBERS.get(value.dtype.kind, "Make an array of numbers of it first, as by x.astype(float).")
        raise ArgumentTypeError(
            f"{op}: the element type {value.dtype} of {shown(np.asarray(value))} is none of JAX's. {remedy}"
        )
    if dtype is None:
        check_integers(op, value)
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
    if jnp.issubdtype(dtype, jnp.inexact):
        return np.asarray(sign * np.inf, dtype)
    if dtype == jnp.bool_:
        return np.asarray(not largest)
    info = jnp.iinfo(dtype)
    return np.asarray(info.min if largest else info.max, dtype)


def to_type(x: Any, dtype: Any) -> Any:
    """`x`, an array, named or not, with elements of type `dtype`."""
    return x if x.dtype == dtype else x.astype(dtype)
