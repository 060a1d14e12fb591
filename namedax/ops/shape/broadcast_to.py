"""Broadcasting an array to axes that it lacks: `broadcast_to`, over names and positions."""

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
from namedax.errors import ArgumentTypeError, AxisSizeError, PositionalAxisError, format_value, refuse_names
from namedax.operands.broadcasting import make_result, to_local
from namedax.operands.nmap import Lifted
from namedax.operands.operation import operation
from namedax.operands.sizes import named_sizes

__all__ = ["broadcast_to"]


@operation()
def broadcast_to(
    array: Any, shape: Any = None, *, out_sharding: Any = None, named_shape: Mapping[Hashable, int | None] | None = None
) -> LikeArguments:
    """Repeats an array along axes that it lacks.

    Args:
      array: an array, named or not.
      shape: the positional shape of the result, as in `jnp.broadcast_to`; default, with `named_shape`: that of the array.
      out_sharding: as in `jnp.broadcast_to`.
      named_shape: names and sizes of the result; `None` for the size of the mapped function. Names of the array that are
        not mentioned stay.

    Returns:
      The array with the axes that it lacked in front. Sends nothing: of a sharded name every device makes its block. The gradient is
      the sum over the new axes, one all-reduce for those that are sharded.

    Raises:
      AxisSizeError: the array has one of the names with a different size, or the mapped function does.
      AxisNotFoundError: a new name has no size.
      PositionalAxisError: there is neither a shape nor a named shape.
      PlacementConflictError: two names of the result are on one mesh axis.

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
            f"{op}: shape={format_value(shape)} is a name; write its size with it, nx.broadcast_to(x, named_shape={{{format_value(shape)}: size}})."
        )
    if isinstance(shape, Mapping):
        raise ArgumentTypeError(
            f"{op}: shape={format_value(shape)} has names, and shape is that of the positional axes; write nx.broadcast_to(x, "
            f"named_shape={format_value(dict(shape))})."
        )
    if shape is not None:
        options = {} if out_sharding is None else {"out_sharding": out_sharding}
        array = Lifted(lambda data: jnp.broadcast_to(data, shape, **options), op)(array)
    elif named_shape is None:
        raise PositionalAxisError("broadcast_to: give a shape for positional axes, or named_shape={'name': size}.")
    if not named_shape:
        return array
    region = ambient()
    array = to_local(array, op, region)
    data, dims = (array._data, array._dims) if isinstance(array, NamedArray) else (jnp.asarray(array), dims_of(array))
    known = {name: n if region is None else region.global_size(name, n) for name, n in _named_blocks(array).items()}
    sizes = named_sizes(op, {name: known.get(name) if size is None else size for name, size in named_shape.items()})
    for name, size in sizes.items():
        if known.get(name, size) != size:
            raise AxisSizeError(
                f"{op}: axis {name!r} of {type_text(array)} has size {known[name]}, and named_shape says {size}; an axis is repeated only "
                "where the array lacks it."
            )
    new = [name for name in sizes if name not in known]
    result = (*new, *dims)
    blocks = [
        sizes[name] if region is None else region.block_size(name, sizes[name], op, supports_padding=True) for name in new
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
    return {dim: n for dim, n in zip(array._dims, array._data.shape, strict=True) if dim is not None}
