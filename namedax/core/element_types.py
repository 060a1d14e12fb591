"""Element types that this package chooses, whatever `jax_numpy_dtype_promotion` says of those that a user mixes; and their values."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

__all__ = ["as_inexact", "beyond", "common_type", "extreme", "inexact_type", "to_type"]


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
