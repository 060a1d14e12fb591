"""`broadcast_to`: broadcasting of an array to axes that it lacks, named or positional."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import jax.numpy as jnp
from jax import lax

from namedax.core.annotations import LikeArguments
from namedax.core.array import NamedArray, dims_of
from namedax.core.display import type_text
from namedax.core.region import ambient
from namedax.core.variance import cast_data
from namedax.errors import (
    ArgumentTypeError,
    AxisSizeError,
    PositionalAxisError,
    format_value,
    refuse_names,
)
from namedax.operands.broadcasting import make_result, to_local
from namedax.operands.nmap import Lifted
from namedax.operands.operation import operation
from namedax.operands.sizes import named_sizes

__all__ = ["broadcast_to"]


@operation()
def broadcast_to(
    array: Any,
    shape: Any = None,
    *,
    out_sharding: Any = None,
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
    refuse_names(op, array)
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
        return array
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
        region.check_placement(op, [dim for dim in result if dim is not None])
    data = lax.broadcast_in_dim(data, (*blocks, *data.shape), tuple(range(len(new), len(result))))
    if region is not None and region.manual:
        data = cast_data(data, [axis for name in new for axis in region.place(name)])
    return make_result(data, result)


def _named_blocks(array: Any) -> dict[Hashable, int]:
    if not isinstance(array, NamedArray):
        return {}
    return {
        dim: n for dim, n in zip(array._dims, array._data.shape, strict=True) if dim is not None
    }
