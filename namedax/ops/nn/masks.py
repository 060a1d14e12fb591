"""Masks and biases of attention over named axes: the keys that each query may attend to.

All are computed from the indices along two axes, which every device has for its own block. So there
is no communication, and a mask with sharded axes is never complete on one device.
`dot_product_attention(is_causal=True)` needs none of them.

Sources: Raffel et al., "Exploring the Limits of Transfer Learning", 2020, section 3.2.1 (the
prefix); Press, Smith & Lewis, "Train Short, Test Long: Attention with Linear Biases", 2022 (ALiBi).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence

import jax.numpy as jnp
import numpy as np

from namedax.core.annotations import AnyArray, ArrayLike
from namedax.core.array import NamedArray
from namedax.core.names import DType
from namedax.core.strict_broadcasting import forms_outer_products
from namedax.errors import ArgumentError, format_value
from namedax.messages.call_errors import checks_signature
from namedax.ops.collectives.reducing import global_index
from namedax.ops.elementwise import FUNCTIONS as _ELEMENTWISE
from namedax.ops.operands.dispatch import in_program
from namedax.ops.operands.new_axis import named_sizes
from namedax.ops.shape.conversion import named

__all__ = ["FUNCTIONS", "alibi_bias", "causal_mask", "prefix_mask"]

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


FUNCTIONS: dict[str, Callable[..., AnyArray]] = {
    f.__name__: f for f in (alibi_bias, causal_mask, prefix_mask)
}
