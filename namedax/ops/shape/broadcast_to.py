"""Broadcast an array to axes that it lacks, and insert or remove axes of size 1."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from namedax.core.annotations import AnyArray, ArrayLike, AxisSpec, LikeArguments
from namedax.core.array import NamedArray, as_array, dims_of
from namedax.core.display import type_text
from namedax.core.names import Shape, is_name
from namedax.core.region import ambient
from namedax.core.variance import cast_data
from namedax.errors import (
    ArgumentTypeError,
    AxisNameError,
    AxisSizeError,
    PositionalAxisError,
    format_value,
    reject_names,
)
from namedax.ops.operands.axes import resolve_axis
from namedax.ops.operands.broadcasting import make_result, to_local
from namedax.ops.operands.new_axis import named_sizes
from namedax.ops.operands.nmap import Lifted
from namedax.ops.operands.one_axis import along, data_and_dims
from namedax.ops.operands.operation import MOVED, Explicit, operation
from namedax.ops.operands.pytree import names_of
from namedax.ops.shape.joining import named_from_front, new_place

__all__ = ["broadcast_to", "expand_dims", "squeeze"]


@operation()
def broadcast_to(
    array: ArrayLike,
    shape: Shape | None = None,
    *,
    out_sharding: jax.sharding.NamedSharding | jax.sharding.PartitionSpec | None = None,
    named_shape: Mapping[Hashable, int | None] | None = None,
) -> LikeArguments:
    """Repeat an array along axes that it lacks.

    Args:
      array: an array, named or not.
      shape: the positional shape of the result, as in `jnp.broadcast_to`; by default, with
        `named_shape`, the shape of the array.
      out_sharding: as in `jnp.broadcast_to`; by default `None`.
      named_shape: names and sizes of the result, by default none; `None` as a size takes the size
        in the mapped function. Axes of the array that it does not mention are kept.

    Returns:
      The array with the new axes in front.

    Communication: none, because every device makes its own block of a sharded axis. The gradient is
    the sum over the new axes, with one all-reduce for sharded ones.

    Raises:
      AxisSizeError: the array or the mapped function has one of the axes with a different size.
      AxisNotFoundError: a new axis has no size.
      PositionalAxisError: there is neither a shape nor a named shape.
      PlacementConflictError: two axes of the result are sharded over one mesh axis.

    >>> import jax.numpy as jnp, namedax as nx
    >>> x = nx.named(jnp.arange(3), ["k"])
    >>> nx.broadcast_to(x, named_shape={"batch": 2}).dims
    ('batch', 'k')
    >>> nx.broadcast_to(x, (2,), named_shape={"k": 3}).shape
    (2,)
    """
    op = "broadcast_to"
    reject_names(op, array)
    if isinstance(shape, str):
        raise ArgumentTypeError(
            f"{op}: shape={format_value(shape)} is an axis name. Write it with its size,"
            f" nx.broadcast_to(x, named_shape={{{format_value(shape)}: size}})."
        )
    if isinstance(shape, Mapping):
        raise ArgumentTypeError(
            f"{op}: shape={format_value(shape)} has axis names, but shape is for positional axes."
            f" Write nx.broadcast_to(x, named_shape={format_value(dict(shape))})."
        )
    if shape is not None:
        options = {} if out_sharding is None else {"out_sharding": out_sharding}
        array = Lifted(lambda data: jnp.broadcast_to(data, shape, **options), op)(array)
    elif named_shape is None:
        raise PositionalAxisError(
            "broadcast_to: neither shape nor named_shape is given. Pass shape for positional axes,"
            " or named_shape={'name': size}."
        )
    if not named_shape:
        return as_array(array, op)
    region = ambient()
    array = to_local(array, op, region)
    data, dims = (
        (array._data, array._dims)
        if isinstance(array, NamedArray)
        else (jnp.asarray(array), dims_of(array))
    )
    known = {
        name: n if region is None else region.global_size(name, n)
        for name, n in _named_blocks(array).items()
    }
    sizes = named_sizes(
        op, {name: known.get(name) if size is None else size for name, size in named_shape.items()}
    )
    for name, size in sizes.items():
        if known.get(name, size) != size:
            raise AxisSizeError(
                f"{op}: axis {name!r} of {type_text(array)} has size {known[name]}, but named_shape"
                f" has {size}; only axes that the array lacks are repeated."
            )
    new = [name for name in sizes if name not in known]
    result = (*new, *dims)
    blocks = [
        (
            sizes[name]
            if region is None
            else region.block_size(name, sizes[name], op, supports_padding=True)
        )
        for name in new
    ]
    if region is not None:
        region.check_placement(op, names_of(result))
    data = lax.broadcast_in_dim(data, (*blocks, *data.shape), tuple(range(len(new), len(result))))
    if region is not None and region.manual:
        data = cast_data(data, [axis for name in new for axis in region.place(name)])
    return make_result(data, result)


def _named_blocks(array: ArrayLike) -> dict[Hashable, int]:
    if not isinstance(array, NamedArray):
        return {}
    return {
        dim: n for dim, n in zip(array._dims, array._data.shape, strict=True) if dim is not None
    }


@operation(explicit=Explicit.KEPT)
def expand_dims(a: ArrayLike, axis: AxisSpec) -> LikeArguments:
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
    >>> nx.expand_dims(nx.named(jnp.ones((2, 3)), ["k", None]), (0, "batch")).dims
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
def squeeze(a: ArrayLike, axis: AxisSpec = None) -> AnyArray:
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
    >>> nx.squeeze(nx.named(jnp.ones((1, 2)), ["batch", "k"]), "batch").dims
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


def _lax_expand_dims(array: ArrayLike, dimensions: AxisSpec) -> AnyArray:
    """Insert axes of size 1, as `nx.numpy.expand_dims`.

    Args:
      array: an array, named or not.
      dimensions: a positional axis, a name that the array lacks, or a tuple of both.

    Communication: none.
    """
    return expand_dims(array, dimensions)


_lax_expand_dims.__name__ = _lax_expand_dims.__qualname__ = "expand_dims"


_lax_expand_dims.__module__ = "namedax.lax"  # where pickle finds it by its name


#: The functions with other parameters in `jax.lax`.
LAX_FUNCTIONS: dict[str, Callable[..., Any]] = {"expand_dims": _lax_expand_dims}
