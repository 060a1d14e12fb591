"""Leaves of the pytrees that functions over names take and return: arrays, named or not, and Python numbers.

Loops, branches and functions of one entry work on the data of such leaves, with their dims alongside. Here is how a leaf is
taken apart and put together again.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import jax
import jax.numpy as jnp

from namedax.core.array import NamedArray, dims_of, is_named, make_in_region
from namedax.core.display import type_text
from namedax.core.element_types import as_jax
from namedax.core.names import Dims
from namedax.core.region import ambient
from namedax.errors import PositionalAxisError
from namedax.operands.broadcasting import to_local

__all__ = [
    "array_of",
    "block_of",
    "data_of",
    "flatten",
    "names_of",
    "scalar_of",
    "wide_index",
]


def flatten(tree: Any) -> tuple[list[Any], Any]:
    """The leaves of a pytree, named arrays among them, and its structure."""
    return jax.tree.flatten(tree, is_leaf=is_named)


def data_of(value: Any) -> Any:
    """The data of a named array; anything else as it is."""
    return value._data if isinstance(value, NamedArray) else value


def array_of(data: Any, dims: Dims) -> Any:
    """`data` with these dims: a named array, if they have a name."""
    return make_in_region(data, dims) if any(dim is not None for dim in dims) else data


def block_of(leaf: Any, op: str) -> Any:
    """A leaf as the body of the ambient region sees it: an array."""
    leaf = to_local(leaf, op, ambient())
    return leaf if isinstance(leaf, (NamedArray, jax.Array)) else as_jax(op, leaf)


def names_of(dims: Dims) -> tuple[Hashable, ...]:
    """The names in `dims`."""
    return tuple(dim for dim in dims if dim is not None)


def scalar_of(op: str, what: str, value: Any) -> Any:
    """A predicate or an index, which may have names only."""
    value = block_of(value, op)
    if dims_of(value).count(None):
        raise PositionalAxisError(
            f"{op}: the {what} is {type_text(value)}; it may have names, but no positional axes. Name these, or reduce them."
        )
    return value


def wide_index(index: Any) -> Any:
    """An integer array, named or not, of a type that holds every position of an axis.

    JAX adds the size of the axis to a negative index in the type of the index, and overflows if that is too narrow.
    """
    if not jnp.issubdtype(index.dtype, jnp.integer) or jnp.iinfo(index.dtype).bits >= 32:
        return index
    if isinstance(index, NamedArray):
        return make_in_region(index._data.astype(jnp.int32), index._dims)
    return jnp.asarray(index, jnp.int32)
