"""Updates that XLA can do in place.

A transposed array is copied. An update at single elements of some dimensions needs no transpose:
it replaces one slice, with all other dimensions in their order.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from namedax.core.array import NamedArray
from namedax.core.names import Dims
from namedax.ops.operands.broadcasting import constrain_sharding, make_result

__all__ = ["update_at_scalars"]


def update_at_scalars(
    method: str,
    data: jax.Array,
    dims: Dims,
    scalars: Mapping[int, Any],
    value: Any,
    value_dims: Dims,
    options: Mapping[str, Any],
) -> NamedArray:
    """Update `data` at one index of each dimension in `scalars`.

    Args:
      method: a method of `data.at[...]` that has values.
      data: the array.
      dims: its axes.
      scalars: the index of each indexed dimension, which is not sharded.
      value: the values.
      value_dims: their axes, which are names of other dimensions.
      options: further arguments of the method.
    """
    rest = [name for i, name in enumerate(dims) if i not in scalars]
    if value_dims:
        order = sorted(range(len(value_dims)), key=lambda i: rest.index(value_dims[i]))
        missing = [i for i, name in enumerate(rest) if name not in value_dims]
        value = lax.expand_dims(lax.transpose(value, order), missing)
    # XLA's partitioner computes wrong gradients of updates along an axis that it shards.
    names = tuple(None if i in scalars else name for i, name in enumerate(dims))
    data = constrain_sharding(data, names)
    index = tuple(scalars.get(i, slice(None)) for i in range(len(dims)))
    selected = jnp.asarray(data).at[index]
    result = getattr(selected, method)(value, **options)
    return make_result(constrain_sharding(result, names), dims)
