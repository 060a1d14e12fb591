"""`searchsorted`: insertion indices in a sorted array."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import jax.numpy as jnp

from namedax.core.annotations import AnyArray
from namedax.core.array import NamedArray, dims_of, make_in_region
from namedax.core.display import type_text
from namedax.core.padded_sharding import Uneven
from namedax.core.region import ambient
from namedax.errors import ArgumentError, AxisSizeError, PositionalAxisError, format_value
from namedax.operands.broadcasting import make_result, to_local
from namedax.operands.nmap import Lifted
from namedax.operands.operation import operation
from namedax.ops.indexing.slicing import take_along_axis
from namedax.ops.reduction.cumulative import site_of_one_axis
from namedax.resources import communication as comm
from namedax.resources.padding_masks import real_entries

__all__ = ["search", "searchsorted"]


def search(a: Any, v: Any, side: str, method: str = "scan", real: Any = None) -> Any:
    """Apply `jnp.searchsorted` to positional arrays, also to blocks, among the first `real` elements of `a` (default all).

    JAX 0.10.2 rejects its own version in a `jax.shard_map` body, because its declared type does not
    vary over the mesh.
    """
    region = ambient()
    if region is None or not region.manual:
        return jnp.searchsorted(a, v, side=side, method=method)
    a, v = jnp.asarray(a), jnp.asarray(v)
    dtype = jnp.promote_types(a.dtype, v.dtype)
    a, v = a.astype(dtype), v.astype(dtype)
    missing = jnp.issubdtype(dtype, jnp.inexact)

    def less(p: Any, q: Any) -> Any:
        return (p < q) | (jnp.isnan(q) & ~jnp.isnan(p)) if missing else p < q

    n = a.shape[0]
    low, high = (
        jnp.zeros(v.shape, jnp.int32),
        jnp.full(v.shape, n if real is None else real, jnp.int32),
    )
    for _ in range(n.bit_length()):
        middle = (low + high) // 2
        entry = a[jnp.minimum(middle, n - 1)]
        behind = (low < high) & (less(entry, v) if side == "left" else ~less(v, entry))
        low, high = jnp.where(behind, middle + 1, low), jnp.where(behind, high, middle)
    return low


@operation(scope=True)
def searchsorted(
    a: Any,
    v: Any,
    side: str = "left",
    sorter: Any = None,
    *,
    method: str = "scan",
    axis: Hashable | None = None,
) -> AnyArray:
    """Find the indices at which values would keep a sorted array sorted.

    Args:
      a: the sorted array: with one positional axis, or with the named axis `axis`. Its other named
        axes are batch axes.
      v: the values, named or not.
      side: the side of equal elements, `"left"` (default) or `"right"`.
      sorter: indices that sort `a`, with its axes, by default `None`.
      method: as in `jnp.searchsorted`; by default `"scan"`.
      axis: the name of the sorted axis, by default `None`, for the positional axis.

    Returns:
      Integers with the axes of `v` and the other named axes of `a`.

    Communication: along a sharded axis every device counts in its block, and one all-reduce of the
    result sums the counts. A `sorter` is applied before, as by `take_along_axis`.

    Raises:
      AxisNotFoundError: `a` has no axis of that name.
      PlacementConflictError: `v` has an axis that is sharded over the mesh axis of `axis`.

    >>> import jax.numpy as jnp, namedax as nx
    >>> edges = nx.named(jnp.array([1.0, 2.0, 3.0]), ["edge"])
    >>> nx.searchsorted(edges, jnp.array([0.5, 2.0, 9.0]), axis="edge")
    Array([0, 1, 3], dtype=int32)
    """
    if side not in ("left", "right"):
        raise ArgumentError(
            f"searchsorted: side must be 'left' or 'right', got {format_value(side)}."
        )

    def lifted(a: Any, v: Any, *sorter: Any, real: Any = None) -> Any:
        return Lifted(
            lambda a, v, *s: search(a[s[0]] if s else a, v, side, method, real), "searchsorted"
        )(a, v, *sorter)

    more = () if sorter is None else (sorter,)
    if axis is None:
        return lifted(a, v, *more)
    region = ambient()
    a, v = to_local(a, "searchsorted", region), to_local(v, "searchsorted", region)
    site = site_of_one_axis("searchsorted", a, axis, supports_padding=True)
    if dims_of(a).count(None) > (0 if site.named else 1):
        raise PositionalAxisError(
            f"searchsorted: {type_text(a)} has positional axes in addition to axis"
            f" {format_value(axis)}. Name them."
        )
    if not site.named:
        return lifted(a, v, *more)
    if axis in dims_of(v):
        raise AxisSizeError(
            f"searchsorted: the values {type_text(v)} have the searched axis {format_value(axis)}."
            " Rename it in the values."
        )
    if region is not None and region.resources:
        names = dict.fromkeys(dim for dim in (*dims_of(a), *dims_of(v)) if dim is not None)
        region.check_placement("searchsorted", names)
        region.seen.update(names)
    if site.mesh_axes and more:
        a, more = take_along_axis(a, sorter, axis), ()

    def as_position(x: Any) -> Any:
        x = to_local(x, "searchsorted", region)
        if axis not in dims_of(x):
            return x
        return make_in_region(x.data, tuple(None if dim == axis else dim for dim in x.dims))

    real = (
        real_entries(site.place, site.data.shape[site.axes[0]])
        if isinstance(site.place, Uneven)
        else None
    )
    result = lifted(as_position(a), v, *map(as_position, more), real=real)
    if not site.mesh_axes:
        return result
    data = result.data if isinstance(result, NamedArray) else result
    return make_result(comm.psum(data, site.mesh_axes), dims_of(result))
