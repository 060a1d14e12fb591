"""Arrays with the values that jnp's functions of the same names give, made by NumPy.

Outside of a traced program each of jnp's compiles a program of its own for each shape, which takes longer than what most tests do with it.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np


def put(values: Any, dtype: Any = None) -> jax.Array:
    """NumPy's array, or a list, as one of JAX's: in the type that it has there, unless another is wanted."""
    values = np.asarray(values)
    return jax.device_put(values.astype(jax.dtypes.canonicalize_dtype(values.dtype if dtype is None else dtype)))


array = asarray = put


def ones(shape: Any, dtype: Any = float) -> jax.Array:
    """`jnp.ones`."""
    return put(np.ones(shape), dtype)


def zeros(shape: Any, dtype: Any = float) -> jax.Array:
    """`jnp.zeros`."""
    return put(np.zeros(shape), dtype)


def arange(*limits: Any, dtype: Any = None) -> jax.Array:
    """`jnp.arange`."""
    return put(np.arange(*limits), dtype)


def key(seed: int) -> jax.Array:
    """`jax.random.key`, for a seed below 2**32."""
    return jax.random.wrap_key_data(put([0, seed], "uint32"))


def keys(*shape: int, seed: int = 0) -> jax.Array:
    """Keys that differ, and are none that `jax.random.split` gives."""
    return jax.random.wrap_key_data(put(np.random.default_rng(seed).integers(0, 2**32, (*shape, 2), np.uint32)))


def eye(*shape: Any, dtype: Any = float) -> jax.Array:
    """`jnp.eye`."""
    return put(np.eye(*shape), dtype)
