"""Axes of size 1: `expand_dims` and `squeeze`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from namedax.core.annotations import AnyArray, LikeArguments
from namedax.core.display import type_text
from namedax.core.names import is_name
from namedax.errors import AxisNameError, AxisSizeError, PositionalAxisError, format_value
from namedax.operands.axes import resolve_axis
from namedax.operands.broadcasting import make_result
from namedax.operands.one_axis import along, data_and_dims
from namedax.operands.operation import MOVED, Explicit, operation
from namedax.ops.shape.joining import named_from_front, new_place

__all__ = ["expand_dims", "squeeze"]


@operation(explicit=Explicit.KEPT)
def expand_dims(a: Any, axis: Any) -> LikeArguments:
    """Insert axes of size 1.

    Args:
      a: an array, named or not.
      axis: an axis name, the index of a positional axis of the result, or a tuple of both.

    Returns:
      The array with the new axes.

    Communication: none.

    Raises:
      AxisNameError: the array already has the axis.

    >>> import jax.numpy as jnp, namedax as nx
    >>> expand_dims(nx.named(jnp.ones((2, 3)), ["k", None]), (0, "batch")).dims
    ('batch', 'k', None, None)
    """
    entries = tuple(axis) if isinstance(axis, (tuple, list)) else (axis,)
    names = [entry for entry in entries if is_name(entry)]
    data, dims = data_and_dims("expand_dims", a)
    rank = dims.count(None) + len(entries) - len(names)
    places = []
    for entry in entries:
        if is_name(entry):
            continue
        if (
            isinstance(entry, bool)
            or not isinstance(entry, (int, np.integer))
            or not -rank <= entry < rank
        ):
            raise PositionalAxisError(
                f"expand_dims: {format_value(entry)} is neither an axis name nor a positional axis"
                f" of a result with {rank} positional axes."
            )
        places.append(int(entry) % rank)
    if len(set(places)) != len(places):
        raise PositionalAxisError(
            f"expand_dims: a positional axis appears twice in axis={format_value(axis)}."
        )
    for place in sorted(places):
        at = new_place("expand_dims", place, dims)
        data, dims = jnp.expand_dims(data, at), (*dims[:at], None, *dims[at:])
    result = make_result(data, dims)
    for name in reversed(names):
        data, dims = data_and_dims("expand_dims", result)
        if name in dims:
            raise AxisNameError(
                f"expand_dims: {type_text(result)} already has the axis {name!r}. Choose another"
                " name."
            )
        result = named_from_front("expand_dims", data[None], name, dims)
    return result


@operation(requires_axis=MOVED, explicit=Explicit.KEPT)
def squeeze(a: Any, axis: Any = None) -> AnyArray:
    """Remove axes of size 1.

    Args:
      a: an array, named or not.
      axis: an axis name, a positional axis, or a tuple of both; `None` (default) selects all
        positional axes of size 1. Required if every axis is named.

    Returns:
      The array without these axes.

    Communication: none.

    Raises:
      AxisNotFoundError: the array lacks a named axis.
      AxisSizeError: an axis has a different size.

    >>> import jax.numpy as jnp, namedax as nx
    >>> squeeze(nx.named(jnp.ones((1, 2)), ["batch", "k"]), "batch").dims
    ('k',)
    """
    data, dims = data_and_dims("squeeze", a)
    if axis is None:
        places = tuple(i for i, dim in enumerate(dims) if dim is None and data.shape[i] == 1)
    else:
        places = resolve_axis("squeeze", a, axis)
    for place in places:
        name = dims[place]
        size = data.shape[place] if name is None else along("squeeze", a, name).size
        if size != 1:
            what = (
                f"positional axis {dims[:place].count(None)}" if name is None else f"axis {name!r}"
            )
            raise AxisSizeError(
                f"squeeze: {what} of {type_text(a)} has size {size}; only axes of size 1 can be"
                " removed. Reduce it, or index it."
            )
    return make_result(
        lax.squeeze(data, places), tuple(dim for i, dim in enumerate(dims) if i not in places)
    )


def _lax_expand_dims(array: Any, dimensions: Any) -> AnyArray:
    """Insert axes of size 1, as `nx.numpy.expand_dims`: a positional axis, a name that the array lacks, or a tuple of both."""
    return expand_dims(array, dimensions)


_lax_expand_dims.__name__ = _lax_expand_dims.__qualname__ = "expand_dims"


_lax_expand_dims.__module__ = "namedax.lax"  # where pickle finds it by its name


#: The functions with other parameters in `jax.lax`.
LAX_FUNCTIONS: dict[str, Callable[..., Any]] = {"expand_dims": _lax_expand_dims}
