# Written by tools/stubs.py (make stubs) with JAX 0.10.2. Do not edit.
"""The namespace `nx.nn.initializers`: `jax.nn.initializers` with named axes."""

from collections.abc import Sequence
from typing import Literal

import jax
from jax.nn.initializers import Initializer as Initializer  # type: ignore[attr-defined, unused-ignore]

from namedax.core.annotations import ArrayLike
from namedax.core.names import DType
from namedax.ops.nn.initializers import NamedInitializer

def constant(value: ArrayLike, dtype: DType | None = None) -> NamedInitializer:
    """Build `jax.nn.initializers.constant` for parameters with named axes.

    Returns:
      An initializer, `init(key, shape, dtype, named_shape={"inputs": 784})`.
    """
def delta_orthogonal(
    scale: ArrayLike = 1.0, column_axis: int = -1, dtype: DType | None = None,
) -> NamedInitializer:
    """Build `jax.nn.initializers.delta_orthogonal` for parameters with named axes. `column_axis`: names, positional axes, or tuples of both.

    Returns:
      An initializer, `init(key, shape, dtype, named_shape={"inputs": 784})`.
    """
def glorot_normal(
    in_axis: int | Sequence[int] = -2,
    out_axis: int | Sequence[int] = -1,
    batch_axis: int | Sequence[int] = (),
    dtype: DType | None = None,
) -> NamedInitializer:
    """Build `jax.nn.initializers.glorot_normal` for parameters with named axes. `in_axis`, `out_axis`, `batch_axis`: names, positional axes, or tuples of both.

    Returns:
      An initializer, `init(key, shape, dtype, named_shape={"inputs": 784})`.
    """
def glorot_uniform(
    in_axis: int | Sequence[int] = -2,
    out_axis: int | Sequence[int] = -1,
    batch_axis: int | Sequence[int] = (),
    dtype: DType | None = None,
) -> NamedInitializer:
    """Build `jax.nn.initializers.glorot_uniform` for parameters with named axes. `in_axis`, `out_axis`, `batch_axis`: names, positional axes, or tuples of both.

    Returns:
      An initializer, `init(key, shape, dtype, named_shape={"inputs": 784})`.
    """
def he_normal(
    in_axis: int | Sequence[int] = -2,
    out_axis: int | Sequence[int] = -1,
    batch_axis: int | Sequence[int] = (),
    dtype: DType | None = None,
) -> NamedInitializer:
    """Build `jax.nn.initializers.he_normal` for parameters with named axes. `in_axis`, `out_axis`, `batch_axis`: names, positional axes, or tuples of both.

    Returns:
      An initializer, `init(key, shape, dtype, named_shape={"inputs": 784})`.
    """
def he_uniform(
    in_axis: int | Sequence[int] = -2,
    out_axis: int | Sequence[int] = -1,
    batch_axis: int | Sequence[int] = (),
    dtype: DType | None = None,
) -> NamedInitializer:
    """Build `jax.nn.initializers.he_uniform` for parameters with named axes. `in_axis`, `out_axis`, `batch_axis`: names, positional axes, or tuples of both.

    Returns:
      An initializer, `init(key, shape, dtype, named_shape={"inputs": 784})`.
    """
def kaiming_normal(
    in_axis: int | Sequence[int] = -2,
    out_axis: int | Sequence[int] = -1,
    batch_axis: int | Sequence[int] = (),
    dtype: DType | None = None,
) -> NamedInitializer:
    """Build `jax.nn.initializers.kaiming_normal` for parameters with named axes. `in_axis`, `out_axis`, `batch_axis`: names, positional axes, or tuples of both.

    Returns:
      An initializer, `init(key, shape, dtype, named_shape={"inputs": 784})`.
    """
def kaiming_uniform(
    in_axis: int | Sequence[int] = -2,
    out_axis: int | Sequence[int] = -1,
    batch_axis: int | Sequence[int] = (),
    dtype: DType | None = None,
) -> NamedInitializer:
    """Build `jax.nn.initializers.kaiming_uniform` for parameters with named axes. `in_axis`, `out_axis`, `batch_axis`: names, positional axes, or tuples of both.

    Returns:
      An initializer, `init(key, shape, dtype, named_shape={"inputs": 784})`.
    """
def lecun_normal(
    in_axis: int | Sequence[int] = -2,
    out_axis: int | Sequence[int] = -1,
    batch_axis: int | Sequence[int] = (),
    dtype: DType | None = None,
) -> NamedInitializer:
    """Build `jax.nn.initializers.lecun_normal` for parameters with named axes. `in_axis`, `out_axis`, `batch_axis`: names, positional axes, or tuples of both.

    Returns:
      An initializer, `init(key, shape, dtype, named_shape={"inputs": 784})`.
    """
def lecun_uniform(
    in_axis: int | Sequence[int] = -2,
    out_axis: int | Sequence[int] = -1,
    batch_axis: int | Sequence[int] = (),
    dtype: DType | None = None,
) -> NamedInitializer:
    """Build `jax.nn.initializers.lecun_uniform` for parameters with named axes. `in_axis`, `out_axis`, `batch_axis`: names, positional axes, or tuples of both.

    Returns:
      An initializer, `init(key, shape, dtype, named_shape={"inputs": 784})`.
    """
def normal(stddev: ArrayLike = 0.01, dtype: DType | None = None) -> NamedInitializer:
    """Build `jax.nn.initializers.normal` for parameters with named axes.

    Returns:
      An initializer, `init(key, shape, dtype, named_shape={"inputs": 784})`.
    """
ones: NamedInitializer
def orthogonal(
    scale: ArrayLike = 1.0, column_axis: int = -1, dtype: DType | None = None,
) -> NamedInitializer:
    """Build `jax.nn.initializers.orthogonal` for parameters with named axes. `column_axis`: names, positional axes, or tuples of both.

    Returns:
      An initializer, `init(key, shape, dtype, named_shape={"inputs": 784})`.
    """
def truncated_normal(
    stddev: ArrayLike = 0.01,
    dtype: DType | None = None,
    lower: ArrayLike = -2.0,
    upper: ArrayLike = 2.0,
) -> NamedInitializer:
    """Build `jax.nn.initializers.truncated_normal` for parameters with named axes.

    Returns:
      An initializer, `init(key, shape, dtype, named_shape={"inputs": 784})`.
    """
def uniform(scale: ArrayLike = 0.01, dtype: DType | None = None) -> NamedInitializer:
    """Build `jax.nn.initializers.uniform` for parameters with named axes.

    Returns:
      An initializer, `init(key, shape, dtype, named_shape={"inputs": 784})`.
    """
def variance_scaling(
    scale: ArrayLike,
    mode: Literal['fan_in'] | Literal['fan_out'] | Literal['fan_avg'] | Literal['fan_geo_avg'],
    distribution: Literal['truncated_normal'] | Literal['normal'] | Literal['uniform'],
    in_axis: int | Sequence[int] = -2,
    out_axis: int | Sequence[int] = -1,
    batch_axis: int | Sequence[int] = (),
    dtype: DType | None = None,
) -> NamedInitializer:
    """Build `jax.nn.initializers.variance_scaling` for parameters with named axes. `in_axis`, `out_axis`, `batch_axis`: names, positional axes, or tuples of both.

    Returns:
      An initializer, `init(key, shape, dtype, named_shape={"inputs": 784})`.
    """
def xavier_normal(
    in_axis: int | Sequence[int] = -2,
    out_axis: int | Sequence[int] = -1,
    batch_axis: int | Sequence[int] = (),
    dtype: DType | None = None,
) -> NamedInitializer:
    """Build `jax.nn.initializers.xavier_normal` for parameters with named axes. `in_axis`, `out_axis`, `batch_axis`: names, positional axes, or tuples of both.

    Returns:
      An initializer, `init(key, shape, dtype, named_shape={"inputs": 784})`.
    """
def xavier_uniform(
    in_axis: int | Sequence[int] = -2,
    out_axis: int | Sequence[int] = -1,
    batch_axis: int | Sequence[int] = (),
    dtype: DType | None = None,
) -> NamedInitializer:
    """Build `jax.nn.initializers.xavier_uniform` for parameters with named axes. `in_axis`, `out_axis`, `batch_axis`: names, positional axes, or tuples of both.

    Returns:
      An initializer, `init(key, shape, dtype, named_shape={"inputs": 784})`.
    """
zeros: NamedInitializer
