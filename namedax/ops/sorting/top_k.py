"""`top_k`: the largest elements along an axis."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import lax

from namedax.core.display import type_text
from namedax.core.names import Dims
from namedax.core.padded_sharding import Uneven
from namedax.core.region import ambient
from namedax.errors import AxisSizeError, as_integer, format_value
from namedax.operands.broadcasting import to_local
from namedax.operands.new_axis import finish_with_new_axis
from namedax.operands.operation import operation
from namedax.ops.reduction.cumulative import site_of_one_axis
from namedax.resources import communication as comm
from namedax.resources.padding_masks import real_blocks, real_entries

__all__ = ["TopK", "top_k"]


class TopK(NamedTuple):
    """The largest values along an axis, and their indices."""

    values: Any
    indices: Any


@operation(scope=True)
def top_k(x: Any, k: int, *, axis: Any = -1, out_axis: Hashable | None = None) -> TopK:
    """Return the `k` largest values along one axis in descending order, with their indices; NaN counts as the largest.

    Args:
      x: an array, named or not.
      k: the number of values, a Python integer.
      axis: a positional or named axis, by default -1.
      out_axis: the name of the result's axis of size `k`, by default `None`. Without it that axis
        is positional: it replaces a positional `axis`, and follows the others if `axis` is a name.

    Returns:
      Values and indices; along a sharded axis, global indices. Among equal values, the smaller
      index comes first.

    Communication: along a sharded axis every device finds its own `k` largest values. These
    candidates are gathered (one all-gather of `k` values per device, one of their indices), never
    the axis. The gradient adds nothing.

    Raises:
      AxisNotFoundError: `x` has no axis of that name.
      AxisSizeError: `k` is larger than the axis, or `out_axis` has a different size in the mapped
        function.

    >>> import jax.numpy as jnp, namedax as nx
    >>> logits = nx.named(jnp.array([[3.0, 1.0, 2.0]]), ["batch", "classes"])
    >>> values, indices = nx.top_k(logits, 2, axis="classes", out_axis="best")
    >>> values.dims, nx.positional(indices, ["batch", "best"])
    (('batch', 'best'), Array([[0, 2]], dtype=int32))
    """
    k = as_integer("top_k", "k", k)
    x = to_local(x, "top_k", ambient())
    site = site_of_one_axis("top_k", x, axis, supports_padding=True)
    (dim,) = site.axes
    if not 0 <= k <= site.count:
        raise AxisSizeError(
            f"top_k: k={k} is not between 0 and {site.count}, the size of axis {format_value(axis)}"
            f" in {type_text(x)}."
        )
    data = jnp.moveaxis(site.data, dim, -1)
    values, index = (
        _real_top_k(data, k, site.uneven[0][1])
        if site.uneven
        else lax.top_k(data, min(k, data.shape[-1]))
    )
    index = lax.convert_element_type(
        index, index.dtype
    )  # JAX's indices are weakly typed if the values are
    if site.mesh_axes:
        index = index + comm.block_index(site.mesh_axes).astype(index.dtype) * site.data.shape[dim]
        values = comm.all_gather(values, values.ndim - 1, site.mesh_axes, "invarying")
        index = comm.all_gather(index, index.ndim - 1, site.mesh_axes, "invarying")
        if site.uneven:
            real = _real_candidates(site.uneven[0][1], k, data.shape[-1])
            values, index = values[..., :real], index[..., :real]
        values, chosen = lax.top_k(values, k)
        index = jnp.take_along_axis(index, chosen, -1)
    dims: Dims = (*(d for i, d in enumerate(site.dims_in) if i != dim), None)
    place = len(dims) - 1
    if not site.named:
        values, index = jnp.moveaxis(values, -1, dim), jnp.moveaxis(index, -1, dim)
        dims, place = site.dims_in, dim
    return TopK(
        *(finish_with_new_axis("top_k", data, dims, place, out_axis) for data in (values, index))
    )


def _real_top_k(data: Any, k: int, place: Uneven) -> tuple[Any, Any]:
    """Return the `k` largest real elements of the block along the last axis, followed by padding if there are fewer.

    If the block is smaller than `k`, the result is the complete block.

    No value reliably precedes or follows all others, so a value cannot mark padding. The search
    therefore includes as many additional candidates as the padding in any block with a real
    element.
    """
    block = data.shape[-1]
    values, index = lax.top_k(data, min(k + _last_padding(place, block), block))
    # Real elements first, in their order.
    order = jnp.argsort(index >= real_entries(place, block), axis=-1, stable=True)[
        ..., : min(k, block)
    ]
    return jnp.take_along_axis(values, order, -1), jnp.take_along_axis(index, order, -1)


def _last_padding(place: Uneven, block: int) -> int:
    """Return the amount of padding in the last block with a real element."""
    return real_blocks(place, block) * block - place.size


def _real_candidates(place: Uneven, k: int, block: int) -> int:
    """Return the number of real candidates of all blocks, with up to `k` in each; they precede the others."""
    return (real_blocks(place, block) - 1) * min(k, block) + min(
        k, block - _last_padding(place, block)
    )
