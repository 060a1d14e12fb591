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

    Args:
      value: the value, a scalar or an array.
      dtype: the dtype; by default the default float.

    Returns:
      An initializer, `init(key, shape, dtype, named_shape={"inputs": 784})`.

    Communication: none.
    """
def delta_orthogonal(
    scale: ArrayLike = 1.0, column_axis: int = -1, dtype: DType | None = None,
) -> NamedInitializer:
    """Build `jax.nn.initializers.delta_orthogonal` for parameters with named axes.

    Args:
      scale: the variance of the values times the fan that `mode` selects; by default 1.0.
      column_axis: the axis of the columns, a name or a positional axis; by default -1.
      dtype: the dtype; by default the default float.

    Returns:
      An initializer, `init(key, shape, dtype, named_shape={"inputs": 784})`.

    Communication: none.
    """
def glorot_normal(
    in_axis: int | Sequence[int] = -2,
    out_axis: int | Sequence[int] = -1,
    batch_axis: int | Sequence[int] = (),
    dtype: DType | None = None,
) -> NamedInitializer:
    """Build `jax.nn.initializers.glorot_normal` for parameters with named axes.

    Args:
      in_axis: the input axes: a name, a positional axis, or a tuple of both; by default -2.
      out_axis: the output axes, in the same form; by default -1.
      batch_axis: the axes that count for neither fan, in the same form; by default ().
      dtype: the dtype; by default the default float.

    Returns:
      An initializer, `init(key, shape, dtype, named_shape={"inputs": 784})`.

    Communication: none.
    """
def glorot_uniform(
    in_axis: int | Sequence[int] = -2,
    out_axis: int | Sequence[int] = -1,
    batch_axis: int | Sequence[int] = (),
    dtype: DType | None = None,
) -> NamedInitializer:
    """Build `jax.nn.initializers.glorot_uniform` for parameters with named axes.

    Args:
      in_axis: the input axes: a name, a positional axis, or a tuple of both; by default -2.
      out_axis: the output axes, in the same form; by default -1.
      batch_axis: the axes that count for neither fan, in the same form; by default ().
      dtype: the dtype; by default the default float.

    Returns:
      An initializer, `init(key, shape, dtype, named_shape={"inputs": 784})`.

    Communication: none.
    """
def he_normal(
    in_axis: int | Sequence[int] = -2,
    out_axis: int | Sequence[int] = -1,
    batch_axis: int | Sequence[int] = (),
    dtype: DType | None = None,
) -> NamedInitializer:
    """Build `jax.nn.initializers.he_normal` for parameters with named axes.

    Args:
      in_axis: the input axes: a name, a positional axis, or a tuple of both; by default -2.
      out_axis: the output axes, in the same form; by default -1.
      batch_axis: the axes that count for neither fan, in the same form; by default ().
      dtype: the dtype; by default the default float.

    Returns:
      An initializer, `init(key, shape, dtype, named_shape={"inputs": 784})`.

    Communication: none.
    """
def he_uniform(
    in_axis: int | Sequence[int] = -2,
    out_axis: int | Sequence[int] = -1,
    batch_axis: int | Sequence[int] = (),
    dtype: DType | None = None,
) -> NamedInitializer:
    """Build `jax.nn.initializers.he_uniform` for parameters with named axes.

    Args:
      in_axis: the input axes: a name, a positional axis, or a tuple of both; by default -2.
      out_axis: the output axes, in the same form; by default -1.
      batch_axis: the axes that count for neither fan, in the same form; by default ().
      dtype: the dtype; by default the default float.

    Returns:
      An initializer, `init(key, shape, dtype, named_shape={"inputs": 784})`.

    Communication: none.
    """
def kaiming_normal(
    in_axis: int | Sequence[int] = -2,
    out_axis: int | Sequence[int] = -1,
    batch_axis: int | Sequence[int] = (),
    dtype: DType | None = None,
) -> NamedInitializer:
    """Build `jax.nn.initializers.kaiming_normal` for parameters with named axes.

    Args:
      in_axis: the input axes: a name, a positional axis, or a tuple of both; by default -2.
      out_axis: the output axes, in the same form; by default -1.
      batch_axis: the axes that count for neither fan, in the same form; by default ().
      dtype: the dtype; by default the default float.

    Returns:
      An initializer, `init(key, shape, dtype, named_shape={"inputs": 784})`.

    Communication: none.
    """
def kaiming_uniform(
    in_axis: int | Sequence[int] = -2,
    out_axis: int | Sequence[int] = -1,
    batch_axis: int | Sequence[int] = (),
    dtype: DType | None = None,
) -> NamedInitializer:
    """Build `jax.nn.initializers.kaiming_uniform` for parameters with named axes.

    Args:
      in_axis: the input axes: a name, a positional axis, or a tuple of both; by default -2.
      out_axis: the output axes, in the same form; by default -1.
      batch_axis: the axes that count for neither fan, in the same form; by default ().
      dtype: the dtype; by default the default float.

    Returns:
      An initializer, `init(key, shape, dtype, named_shape={"inputs": 784})`.

    Communication: none.
    """
def lecun_normal(
    in_axis: int | Sequence[int] = -2,
    out_axis: int | Sequence[int] = -1,
    batch_axis: int | Sequence[int] = (),
    dtype: DType | None = None,
) -> NamedInitializer:
    """Build `jax.nn.initializers.lecun_normal` for parameters with named axes.

    Args:
      in_axis: the input axes: a name, a positional axis, or a tuple of both; by default -2.
      out_axis: the output axes, in the same form; by default -1.
      batch_axis: the axes that count for neither fan, in the same form; by default ().
      dtype: the dtype; by default the default float.

    Returns:
      An initializer, `init(key, shape, dtype, named_shape={"inputs": 784})`.

    Communication: none.
    """
def lecun_uniform(
    in_axis: int | Sequence[int] = -2,
    out_axis: int | Sequence[int] = -1,
    batch_axis: int | Sequence[int] = (),
    dtype: DType | None = None,
) -> NamedInitializer:
    """Build `jax.nn.initializers.lecun_uniform` for parameters with named axes.

    Args:
      in_axis: the input axes: a name, a positional axis, or a tuple of both; by default -2.
      out_axis: the output axes, in the same form; by default -1.
      batch_axis: the axes that count for neither fan, in the same form; by default ().
      dtype: the dtype; by default the default float.

    Returns:
      An initializer, `init(key, shape, dtype, named_shape={"inputs": 784})`.

    Communication: none.
    """
def normal(stddev: ArrayLike = 0.01, dtype: DType | None = None) -> NamedInitializer:
    """Build `jax.nn.initializers.normal` for parameters with named axes.

    Args:
      stddev: the standard deviation; by default 0.01.
      dtype: the dtype; by default the default float.

    Returns:
      An initializer, `init(key, shape, dtype, named_shape={"inputs": 784})`.

    Communication: none.
    """
ones: NamedInitializer
def orthogonal(
    scale: ArrayLike = 1.0, column_axis: int = -1, dtype: DType | None = None,
) -> NamedInitializer:
    """Build `jax.nn.initializers.orthogonal` for parameters with named axes.

    Args:
      scale: the variance of the values times the fan that `mode` selects; by default 1.0.
      column_axis: the axis of the columns, a name or a positional axis; by default -1.
      dtype: the dtype; by default the default float.

    Returns:
      An initializer, `init(key, shape, dtype, named_shape={"inputs": 784})`.

    Communication: none.
    """
def truncated_normal(
    stddev: ArrayLike = 0.01,
    dtype: DType | None = None,
    lower: ArrayLike = -2.0,
    upper: ArrayLike = 2.0,
) -> NamedInitializer:
    """Build `jax.nn.initializers.truncated_normal` for parameters with named axes.

    Args:
      stddev: the standard deviation; by default 0.01.
      dtype: the dtype; by default the default float.
      lower: the lower bound, in standard deviations; by default -2.0.
      upper: the upper bound, in standard deviations; by default 2.0.

    Returns:
      An initializer, `init(key, shape, dtype, named_shape={"inputs": 784})`.

    Communication: none.
    """
def uniform(scale: ArrayLike = 0.01, dtype: DType | None = None) -> NamedInitializer:
    """Build `jax.nn.initializers.uniform` for parameters with named axes.

    Args:
      scale: the variance of the values times the fan that `mode` selects; by default 0.01.
      dtype: the dtype; by default the default float.

    Returns:
      An initializer, `init(key, shape, dtype, named_shape={"inputs": 784})`.

    Communication: none.
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
    """Build `jax.nn.initializers.variance_scaling` for parameters with named axes.

    Args:
      scale: the variance of the values times the fan that `mode` selects
      mode: the fan: `"fan_in"` (number of inputs), `"fan_out"` (outputs), `"fan_avg"` or `"fan_geo_avg"` (means of both), or a number
      distribution: `"normal"`, `"truncated_normal"` or `"uniform"`.
      in_axis: the input axes: a name, a positional axis, or a tuple of both; by default -2.
      out_axis: the output axes, in the same form; by default -1.
      batch_axis: the axes that count for neither fan, in the same form; by default ().
      dtype: the dtype; by default the default float.

    Returns:
      An initializer, `init(key, shape, dtype, named_shape={"inputs": 784})`.

    Communication: none.
    """
def xavier_normal(
    in_axis: int | Sequence[int] = -2,
    out_axis: int | Sequence[int] = -1,
    batch_axis: int | Sequence[int] = (),
    dtype: DType | None = None,
) -> NamedInitializer:
    """Build `jax.nn.initializers.xavier_normal` for parameters with named axes.

    Args:
      in_axis: the input axes: a name, a positional axis, or a tuple of both; by default -2.
      out_axis: the output axes, in the same form; by default -1.
      batch_axis: the axes that count for neither fan, in the same form; by default ().
      dtype: the dtype; by default the default float.

    Returns:
      An initializer, `init(key, shape, dtype, named_shape={"inputs": 784})`.

    Communication: none.
    """
def xavier_uniform(
    in_axis: int | Sequence[int] = -2,
    out_axis: int | Sequence[int] = -1,
    batch_axis: int | Sequence[int] = (),
    dtype: DType | None = None,
) -> NamedInitializer:
    """Build `jax.nn.initializers.xavier_uniform` for parameters with named axes.

    Args:
      in_axis: the input axes: a name, a positional axis, or a tuple of both; by default -2.
      out_axis: the output axes, in the same form; by default -1.
      batch_axis: the axes that count for neither fan, in the same form; by default ().
      dtype: the dtype; by default the default float.

    Returns:
      An initializer, `init(key, shape, dtype, named_shape={"inputs": 784})`.

    Communication: none.
    """
zeros: NamedInitializer
