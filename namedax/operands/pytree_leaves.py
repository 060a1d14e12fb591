"""Leaves of pytrees in functions over names: named arrays, plain arrays, Python numbers.

Loops, branches and functions of one slice work on the data of such leaves, with their dims
alongside. This module flattens and rebuilds the leaves.
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
    """Return the leaves of a pytree, named arrays among them, and its structure."""
    return jax.tree.flatten(tree, is_leaf=is_named)


def data_of(value: Any) -> Any:
    """Return the data of a named array; anything else unchanged."""
    return value._data if isinstance(value, NamedArray) else value


def array_of(data: Any, dims: Dims) -> Any:
    """Return `data` with these dims: a named array, if they have a name."""
    return make_in_region(data, dims) if any(dim is not None for dim in dims) else data


def block_of(leaf: Any, op: str) -> Any:
    """Return a leaf as a local array of the body of the ambient region."""
    leaf = to_local(leaf, op, ambient())
    return leaf if isinstance(leaf, (NamedArray, jax.Array)) else as_jax(op, leaf)


def names_of(dims: Dims) -> tuple[Hashable, ...]:
    """Return the names in `dims`."""
    return tuple(dim for dim in dims if dim is not None)


def scalar_of(op: str, what: str, value: Any) -> Any:
    """Return a predicate or an index, which may have only named axes."""
    value = block_of(value, op)
    if dims_of(value).count(None):
        raise PositionalAxisError(
            f"{op}: the {what} is {type_text(value)}; it may have names, but no positional axes."
            " Name these, or reduce them."
        )
    return value


def wide_index(index: Any) -> Any:
    """Return an integer array, named or not, of a dtype that can hold every position of an axis.

    JAX adds the size of the axis to a negative index in the dtype of the index, and overflows if
    that is too narrow.
    """
    if not jnp.issubdtype(index.dtype, jnp.integer) or jnp.iinfo(index.dtype).bits >= 32:
        return index
    if isinstance(index, NamedArray):
        return make_in_region(index._data.astype(jnp.int32), index._dims)
    return jnp.asarray(index, jnp.int32)
