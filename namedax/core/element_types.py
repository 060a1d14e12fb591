"""Element types that this package chooses: whatever `jax_numpy_dtype_promotion` says of those that a user mixes."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

__all__ = ["as_inexact", "common_type", "inexact_type"]


def common_type(*values: Any) -> Any:
    """The element type that JAX's standard promotion gives arrays and types together, under strict promotion too.

    >>> import jax, jax.numpy as jnp
    >>> with jax.numpy_dtype_promotion("strict"):
    ...     common_type(jnp.bfloat16, jnp.float32)
    dtype('float32')
    """
    with jax.numpy_dtype_promotion("standard"):
        return jnp.result_type(*values)


def inexact_type(dtype: Any) -> Any:
    """The floating-point type in which JAX computes a mean of values of type `dtype`."""
    return jax.eval_shape(jnp.mean, jax.ShapeDtypeStruct((1,), dtype)).dtype


def as_inexact(data: Any) -> Any:
    """`data`, or its values as floats if they are integers or truth values."""
    return data.astype(inexact_type(data.dtype))
