"""Masks and biases of attention over named axes: the keys that each query may attend to.

All are computed from the indices along two axes, which every device has for its own block. So there
is no communication, and a mask with sharded axes is never complete on one device.
`dot_product_attention(is_causal=True)` needs none of them. The relative position biases of T5 are
read from a table, which has one learned number per head and bucket of distances.

Sources: Raffel et al., "Exploring the Limits of Transfer Learning", 2020, section 2.1 (buckets) and
section 3.2.1 (the prefix); Press, Smith & Lewis, "Train Short, Test Long: Attention with Linear
Biases", 2022 (ALiBi).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from namedax.core.annotations import AnyArray, ArrayLike
from namedax.core.array import NamedArray, dims_of
from namedax.core.display import type_text
from namedax.core.names import DType
from namedax.core.strict_broadcasting import forms_outer_products
from namedax.errors import (
    ArgumentError,
    ArgumentTypeError,
    AxisNameError,
    format_value,
    raise_not_found,
    show_names,
)
from namedax.messages.call_errors import checks_signature
from namedax.ops.collectives.reducing import global_index
from namedax.ops.elementwise import FUNCTIONS as _ELEMENTWISE
from namedax.ops.elementwise import apply_elementwise
from namedax.ops.indexing.take import take
from namedax.ops.operands import kernels
from namedax.ops.operands.dispatch import in_program
from namedax.ops.operands.new_axis import named_sizes
from namedax.ops.operands.operation import operation
from namedax.ops.operands.pytree import names_of
from namedax.ops.shape.conversion import named

__all__ = [
    "FUNCTIONS",
    "alibi_bias",
    "causal_mask",
    "prefix_mask",
    "relative_position_bias",
    "relative_position_buckets",
]

_Shape = Mapping[Hashable, int | None]


def _indices(
    op: str, named_shape: _Shape, axis: Sequence[Hashable], what: tuple[str, ...]
) -> list[NamedArray]:
    """Return the indices along the axes, in the order of `axis`.

    Raises:
      ArgumentError: `axis` does not have each name of `named_shape` exactly once, or not as many as
        `what`.
    """
    sizes = named_sizes(op, named_shape)
    names = tuple(axis) if isinstance(axis, (tuple, list)) else (axis,)
    if set(names) != set(sizes) or len({*names}) != len(what) or len(names) != len(what):
        some = (
            tuple(sizes)
            if len(sizes) == len(what)
            else tuple(f"the name of the {role}" for role in what)
        )
        raise ArgumentError(
            f"{op}: named_shape={format_value(dict(named_shape))} and axis={format_value(names)}"
            f" must have the same {len(what)} names. The order of axis= defines their roles:"
            f" {', '.join(what)}; a dict has no order. Write axis={format_value(some)}, or another"
            " order. Other axes are added by broadcasting."
        )
    return [global_index(op, name, sizes[name]) for name in names]


@checks_signature
@in_program
@forms_outer_products
def causal_mask(
    named_shape: _Shape,
    *,
    axis: Sequence[Hashable] = ("query", "key"),
    offset: ArrayLike = 0,
    window: int | None = None,
) -> AnyArray:
    """Build the mask for queries that only look back: true if `key <= query + offset`.

    Args:
      named_shape: the sizes of the query and key axes by name; `None` takes the size in the mapped
        function.
      axis: the names of the query axis and of the key axis, as in `nx.tril`; by default `("query",
        "key")`. Required for other names.
      offset: the number of keys before the first query, as in decoding with a cache. An integer, or
        a named array of them; by default 0.
      window: the number of keys that a query sees at most, including its own; by default all.

    Returns:
      A boolean array with the two axes, and the axes of `offset`.

    Communication: none.

    Raises:
      AxisNotFoundError: an axis has no size.
      ArgumentError: `axis` does not name both axes.

    >>> import namedax as nx
    >>> mask = nx.nn.causal_mask({"query": 2, "key": 3}, offset=1)
    >>> nx.positional(mask, ["query", "key"]).tolist()
    [[True, True, False], [True, True, True]]
    """
    query, key = _indices("causal_mask", named_shape, axis, ("queries", "keys"))
    place = query + offset
    mask = key <= place
    return mask if window is None else mask & (key > place - window)


@checks_signature
@in_program
@forms_outer_products
def prefix_mask(
    named_shape: _Shape,
    prefix: ArrayLike,
    *,
    axis: Sequence[Hashable] = ("query", "key"),
    offset: ArrayLike = 0,
) -> AnyArray:
    """Build the mask for sequences with a given prefix.

    A query sees the prefix and all keys up to its own position.

    Args:
      named_shape: as in `causal_mask`.
      axis: as in `causal_mask`; by default `("query", "key")`.
      prefix: the length of the prefix. An integer, or a named array of them, one for every element
        of a batch.
      offset: as in `causal_mask`; by default 0.

    Returns:
      A boolean array with the two axes, and the axes of `prefix` and `offset`.

    Communication: none.

    Raises:
      AxisNotFoundError: an axis has no size.
      ArgumentError: `axis` does not name both axes.

    >>> import namedax as nx
    >>> nx.positional(nx.nn.prefix_mask({"query": 3, "key": 3}, 2), ["query", "key"]).tolist()
    [[True, True, False], [True, True, False], [True, True, True]]
    """
    query, key = _indices("prefix_mask", named_shape, axis, ("queries", "keys"))
    return (key <= query + offset) | (key < prefix)


@checks_signature
@in_program
@forms_outer_products
def alibi_bias(
    named_shape: _Shape,
    *,
    axis: Sequence[Hashable] = ("head", "query", "key"),
    offset: ArrayLike = 0,
    dtype: DType | None = None,
) -> AnyArray:
    """Build the bias of attention with linear biases (ALiBi).

    The scores decrease with the distance of key and query.

    Args:
      named_shape: the sizes of the head, query and key axes by name; `None` takes the size in the
        mapped function.
      axis: the names of the head, query and key axes, in this order; by default `("head", "query",
        "key")`. Required for other names.
      offset: as in `causal_mask`; by default 0.
      dtype: the dtype; by default the default float.

    Returns:
      An array with the three axes, `-slope[head] * |query + offset - key|`. For a power of two as
      the number of heads, the slopes are the powers of two from `2**(-8 / heads)` to `2**-8`. For
      other numbers, they are the slopes of the next smaller power, followed by every second slope
      of the next larger one.

    Communication: none.

    Raises:
      AxisNotFoundError: an axis has no size.
      ArgumentError: `axis` does not name the three axes.

    >>> import namedax as nx
    >>> bias = nx.nn.alibi_bias({"head": 2, "query": 2, "key": 3})
    >>> nx.positional(bias["head", 0], ["query", "key"]).tolist()
    [[0.0, -0.0625, -0.125], [-0.0625, 0.0, -0.0625]]
    """
    op = "alibi_bias"
    _, query, key = _indices(op, named_shape, axis, ("heads", "queries", "keys"))
    name = axis[0]
    count = named_sizes(op, {name: named_shape[name]})[name]
    dtype = jnp.zeros((), float if dtype is None else dtype).dtype
    slopes = named(jnp.asarray(_slopes(count), dtype), [name])
    distance = _ELEMENTWISE["abs"](query + offset - key)
    return slopes * (-distance).astype(dtype)


def _slopes(heads: int) -> np.ndarray:
    smaller = 2 ** math.floor(math.log2(heads)) if heads else 1
    slopes = 2.0 ** (-8 / smaller * np.arange(1, smaller + 1))
    if smaller == heads:
        return slopes
    between = 2.0 ** (-4 / smaller * np.arange(1, 2 * smaller + 1, 2))
    return np.concatenate([slopes, between])[:heads]


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
    distance = _ELEMENTWISE["subtract"](key_positions, query_positions)
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
    f.__name__: f
    for f in (
        alibi_bias,
        causal_mask,
        prefix_mask,
        relative_position_bias,
        relative_position_buckets,
    )
}
