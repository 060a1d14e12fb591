"""Arguments and results of mapped functions that are stored padded.

An argument enters without communication along an axis that the mapped function pads to the same
size. Along other axes it is sliced to its true size first. Results are stored padded along the axes
along which an argument enters so.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import NamedSharding, PartitionSpec

from namedax.core.array import NamedArray, make_padded, padding_of
from namedax.core.names import Dims, Mesh
from namedax.core.padded_sharding import StoredName, StoredPadding, block_size
from namedax.core.region import Region
from namedax.resources import communication as comm
from namedax.resources.communication import is_keys
from namedax.resources.mesh import has_explicit_axes
from namedax.resources.padding_masks import masked, refilled
from namedax.resources.serial import loops_of
from namedax.resources.stored_padding import padding_on, sliced_to_size

__all__ = ["enter_stored", "own_block", "padded_result", "stored_dims", "with_data", "zero_at_rest"]


def enter_stored(
    data: Any, dims: Dims, padding: StoredPadding, region: Region | None, mesh: Mesh | None
) -> Any:
    """Return the data of an argument, and the names along which it enters as stored blocks.

    Along the other names it is gathered on `mesh` and sliced to its true size. `region` is `None`
    if no axis is padded.
    """
    stored = frozenset(
        name
        for name, size, padded, _ in padding.axes
        if region is not None
        and name in region.uneven
        and region.sizes[name] == size
        and not loops_of({name: region.resources[name]})
        and padded == _padded_size(region, name)
    )
    true = padding.sizes
    sizes = {i: true[d] for i, d in enumerate(dims) if d in true and d not in stored}
    if sizes and mesh is not None and not has_explicit_axes(mesh):
        # XLA's partitioner would make uneven blocks of the slice, and abort over some uses.
        free = PartitionSpec.UNCONSTRAINED
        spec = PartitionSpec(*(None if i in sizes else free for i in range(len(dims))))
        data = lax.with_sharding_constraint(data, NamedSharding(mesh, spec))
    return sliced_to_size(data, sizes), stored


def _padded_size(region: Region, name: Hashable) -> int:
    blocks = region.mesh_axis_size(region.resources[name])
    return block_size(region.sizes[name], blocks) * blocks


def stored_dims(dims: Dims, stored: frozenset[Hashable]) -> Dims:
    """Return dims in which `StoredName` marks the axes that are stored padded."""
    if not stored:
        return dims
    return tuple(StoredName(dim) if dim in stored else dim for dim in dims)


def zero_at_rest(data: jax.Array, dim: int, name: Hashable, region: Region) -> jax.Array:
    """Zero the padding of a block that leaves stored padded; random keys have no zero."""
    if is_keys(data):
        return data
    return masked(data, dim, region.place(name), jnp.zeros((), data.dtype))


def own_block(
    data: jax.Array,
    dims: Dims,
    stored: frozenset[Hashable],
    whole: frozenset[Hashable],
    region: Region,
) -> jax.Array:
    """Slice this device's block of an argument along the axes that entered unsharded, `whole`.

    Along axes that are `stored` padded, the argument is the block already. Its padding, which may
    have any values, becomes the last element of the axis.
    """
    for i, dim in enumerate(dims):
        if dim in stored:
            data = refilled(data, i, region.place(dim))
        elif dim in whole:
            data = comm.cut(data, i, region.place(dim))
    return data


def padded_result(
    data: Any,
    dims: Dims,
    stored: Iterable[Hashable],
    region: Region,
    mesh: Mesh | None,
) -> NamedArray:
    """Return a result that is stored padded along some names."""
    axes = tuple(
        (name, region.sizes[name], _padded_size(region, name), tuple(region.resources[name]))
        for name in dims
        if name in stored
    )
    return make_padded(data, dims, padding_on(mesh, axes))


def with_data(leaf: NamedArray, data: Any) -> NamedArray | None:
    """Return a leaf that is stored padded with other data; `None` for another leaf."""
    padding = padding_of(leaf)
    return None if padding is None else make_padded(data, leaf._dims, padding)
