"""Renaming axes, which is how data moves: a name with another placement is another layout."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

from jax import lax

from namedax.array import NamedArray, check_dims, dims_of, is_name, type_text
from namedax.environment import ambient
from namedax.errors import AxisNameError, AxisSizeError, raise_not_found
from namedax.ops.align import local_block, wrap
from namedax.resources.layout import relayout
from namedax.resources.variance import with_varying_form

__all__ = ["rename", "transpose_to"]


def rename(x: Any, names: Mapping[Hashable, Hashable]) -> Any:
    """Gives axes other names, all at once; where the placements differ, this is resharding.

    Args:
      x: a named array.
      names: new names by old ones.

    Returns:
      The same values under the new names. What moves, per axis: between equal placements nothing; from unmapped to mapped
      nothing (every device keeps its block); from mapped to unmapped one all-gather; one axis from mapped to unmapped and
      another from unmapped to mapped on the same mesh axes one all-to-all for both; from one mesh axis to another one
      collective-permute of a slice and one all-gather.

    Raises:
      AxisNotFoundError: `x` lacks an old name.
      AxisNameError: a new name is none, or two axes would have one name.
      AxisSizeError: a new name has another size in the mapped function, or does not divide over its mesh axes.
      PlacementConflictError: two of the resulting names are on one mesh axis.

    >>> import jax.numpy as jnp, namedax as nx
    >>> nx.rename(nx.named(jnp.ones((2, 3)), ["a", "b"]), {"a": "b", "b": "a"}).dims
    ('b', 'a')
    """
    region = ambient()
    dims = dims_of(x)
    for old, new in names.items():
        if old not in dims or old is None:
            raise_not_found("rename", old, type_text(x), [d for d in dims if d is not None])
        if not is_name(new):
            raise AxisNameError(f"rename: {new!r} is no axis name. To make {old!r} positional, use nx.positional.")
    renamed = check_dims(tuple(names.get(dim, dim) if dim is not None else None for dim in dims), "rename")
    if renamed == dims:
        return x
    x = local_block(x, "rename", region)
    data = x._data
    if region is None or not region.resources:
        return wrap(data, renamed)
    region.check_placement("rename", (dim for dim in renamed if dim is not None))
    for dim, new_dim, n in zip(dims, renamed, data.shape, strict=True):
        if dim is None or dim == new_dim:
            continue
        size = region.global_size(dim, n)
        known = region.sizes.get(new_dim)
        if known is not None and known != size:
            raise AxisSizeError(
                f"rename: axis {dim!r} of size {size} can not become {new_dim!r}, which has size {known} in this mapped function; a name "
                "has one size. Choose another name."
            )
        region.block_size(new_dim, size, "rename")
    if not region.manual:
        return wrap(data, renamed)
    old_places = [() if dim is None else region.placement(dim) for dim in dims]
    new_places = [() if dim is None else region.placement(dim) for dim in renamed]
    if old_places == new_places:
        return wrap(data, renamed)
    region.seen.update(dim for dim in renamed if dim is not None)
    held = frozenset(axis for axes in new_places for axis in axes)
    gathered = frozenset(axis for axes in old_places for axis in axes) - held
    moved = relayout(data, old_places, new_places)
    if not gathered:
        return wrap(moved, renamed)
    return with_varying_form(moved, renamed, gathered, lambda: relayout(data, old_places, new_places, gathered))


def transpose_to(x: NamedArray, dims: tuple[Hashable | None, ...]) -> NamedArray:
    """`x` with its named axes in the physical order of `dims`; positional axes keep theirs. Moves nothing between devices."""
    places = iter([i for i, dim in enumerate(x._dims) if dim is None])
    order = [next(places) if dim is None else x._dims.index(dim) for dim in dims]
    return x if order == list(range(len(order))) else wrap(lax.transpose(x._data, order), dims)
