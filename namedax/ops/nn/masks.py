"""Masks and biases of attention, made by name: which query sees which key. In `nx.nn`.

All are made from the indices along two names, which every device knows for its own entries: nothing is sent, and a mask with
sharded axes is never whole on one device. `dot_product_attention(is_causal=True)` needs none of them.

Sources: Raffel et al., "Exploring the Limits of Transfer Learning", 2020, section 3.2.1 (the prefix); Press, Smith & Lewis, "Train Short,
Test Long: Attention with Linear Biases", 2022 (ALiBi).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from namedax.core.annotations import Array
from namedax.core.call_errors import checks_signature
from namedax.errors import ArgumentError, format_value
from namedax.operands.sizes import named_sizes
from namedax.ops.collectives.reducing import global_index
from namedax.ops.elementwise import FUNCTIONS as _ELEMENTWISE
from namedax.ops.shape.conversion import named

__all__ = ["FUNCTIONS", "alibi_bias", "causal_mask", "prefix_mask"]

_Shape = Mapping[Hashable, int | None]


def _indices(op: str, named_shape: _Shape, axis: Sequence[Hashable], what: tuple[str, ...]) -> list[Any]:
    """The indices along the names, in the order of `axis`: what a name means does not follow from the order of a dict.

    Raises:
      ArgumentError: `axis` does not have the names of `named_shape`, each once, or not as many as `what` says.
    """
    sizes = named_sizes(op, named_shape)
    names = tuple(axis) if isinstance(axis, (tuple, list)) else (axis,)
    if set(names) != set(sizes) or len({*names}) != len(what) or len(names) != len(what):
        some = tuple(sizes) if len(sizes) == len(what) else tuple(f"the name of the {role}" for role in what)
        raise ArgumentError(
            f"{op}: named_shape={format_value(dict(named_shape))} and axis={format_value(names)} must have the same "
            f"{len(what)} names. The order of axis= says "
            f"what they are: {', '.join(what)}; a dict has none. Write axis={format_value(some)}, or another order. Other "
            "axes come in by broadcasting."
        )
    return [global_index(op, name, sizes[name]) for name in names]


@checks_signature
def causal_mask(
    named_shape: _Shape, *, axis: Sequence[Hashable] = ("query", "key"), offset: Any = 0, window: int | None = None
) -> Array:
    """Which keys a query sees if it only looks back: true where `key <= query + offset`.

    Args:
      named_shape: the sizes of the queries and of the keys by name; `None` for that of the mapped function.
      axis: which of the names are the queries, and which the keys, as in `nx.tril`. To be given where they are not called so.
      offset: how many keys come before the first query, as in decoding with a cache. An integer, or a named array of them.
      window: how far a query looks back: the number of keys that it sees at most, its own included; default: all.

    Returns:
      A boolean array with the two names, and those of `offset`. Sends nothing.

    Raises:
      AxisNotFoundError: a name has no size.
      ArgumentError: `axis` does not say of both names what they are.

    >>> import namedax as nx
    >>> nx.positional(nx.nn.causal_mask({"query": 2, "key": 3}, offset=1), ["query", "key"]).tolist()
    [[True, True, False], [True, True, True]]
    """
    query, key = _indices("causal_mask", named_shape, axis, ("queries", "keys"))
    place = query + offset
    mask = key <= place
    return mask if window is None else mask & (key > place - window)


@checks_signature
def prefix_mask(named_shape: _Shape, prefix: Any, *, axis: Sequence[Hashable] = ("query", "key"), offset: Any = 0) -> Array:
    """Which keys a query sees of a sequence whose beginning is known: the keys of the prefix, and those that are not after it.

    Args:
      named_shape: as in `causal_mask`.
      axis: as in `causal_mask`.
      prefix: the length of the prefix. An integer, or a named array of them, one for every entry of a batch.
      offset: as in `causal_mask`.

    Returns:
      A boolean array with the two names, and those of `prefix` and `offset`. Sends nothing.

    Raises:
      AxisNotFoundError: a name has no size.
      ArgumentError: `axis` does not say of both names what they are.

    >>> import namedax as nx
    >>> nx.positional(nx.nn.prefix_mask({"query": 3, "key": 3}, 2), ["query", "key"]).tolist()
    [[True, True, False], [True, True, False], [True, True, True]]
    """
    query, key = _indices("prefix_mask", named_shape, axis, ("queries", "keys"))
    return (key <= query + offset) | (key < prefix)


@checks_signature
def alibi_bias(
    named_shape: _Shape, *, axis: Sequence[Hashable] = ("head", "query", "key"), offset: Any = 0, dtype: Any = None
) -> Array:
    """The bias of attention with linear biases (ALiBi): the further a key is from its query, the smaller the score.

    Args:
      named_shape: the sizes of the heads, of the queries and of the keys by name; `None` for that of the mapped function.
      axis: the names of the heads, of the queries and of the keys, in this order. To be given where they are not called so.
      offset: as in `causal_mask`.
      dtype: element type; default: the default float.

    Returns:
      An array with the three names, `-slope[head] * |query + offset - key|`. The slopes are powers of two for a number of heads that
      is a power of two, `2**(-8 / heads)` to `2**-8`; for other numbers those of the next smaller one, and every second of the next larger
      one. Sends nothing.

    Raises:
      AxisNotFoundError: a name has no size.
      ArgumentError: `axis` does not say of the three names what they are.

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


FUNCTIONS: dict[str, Callable[..., Any]] = {f.__name__: f for f in (alibi_bias, causal_mask, prefix_mask)}
