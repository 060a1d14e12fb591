"""Relative position biases of T5: one learned number per head and bucket of distances."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable

import jax
import jax.numpy as jnp
import numpy as np

from namedax.core.annotations import AnyArray, ArrayLike
from namedax.core.array import NamedArray, dims_of
from namedax.core.display import type_text
from namedax.errors import (
    ArgumentError,
    ArgumentTypeError,
    AxisNameError,
    format_value,
    raise_not_found,
    show_names,
)
from namedax.ops.elementwise import FUNCTIONS as ELEMENTWISE
from namedax.ops.elementwise import apply_elementwise
from namedax.ops.indexing.take import take
from namedax.ops.operands import kernels
from namedax.ops.operands.operation import operation
from namedax.ops.operands.pytree import names_of

__all__ = ["FUNCTIONS", "relative_position_bias", "relative_position_buckets"]

_subtract = ELEMENTWISE["subtract"]


def _buckets(
    op: str, buckets: int, bidirectional: bool, max_distance: int, distance: ArrayLike
) -> AnyArray:
    def call(data: jax.Array) -> jax.Array:
        data = data.astype(jnp.int32)
        side, first = buckets, jnp.zeros_like(data)
        if bidirectional:
            side //= 2
            first = jnp.where(data > 0, side, 0)
            data = jnp.abs(data)
        else:
            data = -jnp.minimum(data, 0)
        exact = side // 2
        # In float32 and in the order of operations of the published models.
        logarithm = jnp.log(jnp.maximum(data, 1).astype(jnp.float32) / exact)
        steps = logarithm / np.float32(math.log(max_distance / exact)) * (side - exact)
        far = jnp.minimum(exact + steps.astype(jnp.int32), side - 1)
        return first + jnp.where(data < exact, data, far)

    return apply_elementwise(op, call, distance)


@operation()
def relative_position_buckets(
    distance: ArrayLike,
    buckets: int,
    *,
    bidirectional: bool = True,
    max_distance: int = 128,
) -> AnyArray:
    """Assign distances of positions to buckets, as T5 does.

    Small distances have a bucket each. Buckets of larger distances grow logarithmically up to
    `max_distance`; the last bucket has all distances from there on.

    Args:
      distance: integers, the position of the key minus the position of the query.
      buckets: the number of buckets.
      bidirectional: if `True` (default), half of the buckets are for keys after the query, as in
        encoders. If `False`, as in decoders, these have bucket 0.
      max_distance: the distance from which on there is one bucket, by default 128.

    Returns:
      An int32 array with the axes of `distance`.

    Communication: none.

    Source: Raffel et al., "Exploring the limits of transfer learning", 2019, section 2.1, and its
    published code.

    Raises:
      ArgumentTypeError: `distance` does not contain integers.
      ArgumentError: `buckets` or `max_distance` is too small.

    >>> import jax.numpy as jnp, namedax as nx
    >>> distance = nx.named(jnp.array([-200, -9, -1, 0, 1, 9, 200]), ["key"])
    >>> nx.nn.relative_position_buckets(distance, 32).data.tolist()
    [15, 8, 1, 0, 17, 24, 31]
    """
    op = "relative_position_buckets"
    _check_buckets(op, buckets, bidirectional, max_distance)
    if not jnp.issubdtype(jnp.result_type(distance), jnp.integer):
        raise ArgumentTypeError(
            f"{op}: distance must contain integers, got {type_text(distance)}. Pass the positions"
            " of the keys minus the positions of the queries."
        )
    static = (int(buckets), bidirectional, int(max_distance))
    return kernels.run_elementwise(op, _buckets, static, distance)


@operation(scope=True)
def relative_position_bias(
    table: ArrayLike,
    query_positions: ArrayLike,
    key_positions: ArrayLike,
    *,
    axis: Hashable,
    bidirectional: bool = True,
    max_distance: int = 128,
) -> AnyArray:
    """Read T5's relative position bias of every query and key from a table.

    Pass the result to `nx.nn.dot_product_attention` as `bias=`, with the key positions named as
    its `key_axis`.

    Args:
      table: the learned numbers, a named array with `axis` and others, such as the heads.
      query_positions: integers, with the axis of the query positions (and batch axes), such as
        `nx.arange(axis="pos")`.
      key_positions: integers, with the axis of the key positions (and batch axes), such as
        `nx.arange(64, axis="key_pos")`.
      axis: the axis name of the buckets in `table`; its size is their number.
      bidirectional: as in `nx.nn.relative_position_buckets`, by default `True`.
      max_distance: as in `nx.nn.relative_position_buckets`, by default 128.

    Returns:
      An array with the axes of `table` except `axis`, and those of both positions.

    Communication: none, unless `axis` is sharded; then as for `nx.take`. If positions are sharded,
    the gradient of `table` takes one all-reduce.

    Raises:
      AxisNotFoundError: `table` lacks the axis.
      AxisNameError: both positions have the same axes, so that keys and queries would be pairs.
      ArgumentTypeError: positions are not integers.
      ArgumentError: the table has too few buckets, or `max_distance` is too small.

    >>> import jax.numpy as jnp, namedax as nx
    >>> table = nx.named(jnp.ones((32, 4)), ["bucket", "heads"])
    >>> queries, keys = nx.arange(3, axis="pos"), nx.arange(5, axis="key_pos")
    >>> bias = nx.nn.relative_position_bias(table, queries, keys, axis="bucket")
    >>> dict(sorted(bias.named_shape.items()))
    {'heads': 4, 'key_pos': 5, 'pos': 3}
    """
    op = "relative_position_bias"
    if not isinstance(table, NamedArray) or axis is None or axis not in dims_of(table):
        raise_not_found(op, axis, f"table, {type_text(table)}", names_of(dims_of(table)))
    for which, positions in (("query", query_positions), ("key", key_positions)):
        if not jnp.issubdtype(jnp.result_type(positions), jnp.integer):
            raise ArgumentTypeError(
                f"{op}: {which}_positions must contain integers, got {type_text(positions)}. Pass"
                " an array such as nx.arange(axis='pos')."
            )
    names = set(names_of(dims_of(query_positions)))
    if names and names == set(names_of(dims_of(key_positions))):
        raise AxisNameError(
            f"{op}: query_positions and key_positions both have the axes"
            f" {show_names(sorted(names, key=str))}, so each query would have one key. Give the key"
            " positions another name, as in nx.rename(positions, {'pos': 'key_pos'})."
        )
    buckets = table.named_shape[axis]
    _check_buckets(op, buckets, bidirectional, max_distance)
    distance = _subtract(key_positions, query_positions)
    index = relative_position_buckets(
        distance, buckets, bidirectional=bidirectional, max_distance=max_distance
    )
    return take(table, index, axis)


def _check_buckets(op: str, buckets: int, bidirectional: bool, max_distance: int) -> None:
    least = 4 if bidirectional else 2
    for what, value, from_ in (("buckets", buckets, least), ("max_distance", max_distance, 1)):
        is_integer = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
        if not is_integer or value < from_:
            raise ArgumentError(
                f"{op}: {what} must be an integer from {from_}, got {format_value(value)}. T5 has"
                " 32 buckets and a max_distance of 128."
            )
    exact = buckets // (4 if bidirectional else 2)
    if max_distance <= exact:
        raise ArgumentError(
            f"{op}: max_distance must be greater than {exact}, the distances that have one of the"
            f" {buckets} buckets each, got {format_value(max_distance)}."
        )


FUNCTIONS: dict[str, Callable[..., AnyArray]] = {
    f.__name__: f for f in (relative_position_bias, relative_position_buckets)
}
