"""Arrays that are stored padded, outside of mapped functions.

An axis of `size` elements over `devices` devices has `ceil(size / devices) * devices` elements in
the data, and every device stores one block. The true size is part of the type of the array
(`namedax.core.padded_sharding.StoredPadding`). Padding at rest is zero, so that norms over raw
leaves are those of the true elements. Mapped functions replace it where they begin.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import NamedSharding, PartitionSpec

from namedax.core.array import (
    NamedArray,
    make,
    make_padded,
    padding_of,
    stored_data,
    true_values,
)
from namedax.core.names import Dims, Mesh
from namedax.core.padded_sharding import StoredPadding, block_size
from namedax.errors import format_value
from namedax.resources.assignment import Assignment, named_sharding
from namedax.resources.communication import is_keys
from namedax.resources.mesh import entry_of, has_explicit_axes, is_tracked, put
from namedax.resources.padding import padded, unpadded

__all__ = [
    "UnevenCopy",
    "mesh_shape",
    "on_host",
    "padding_for",
    "padding_on",
    "sliced_to_size",
    "store",
    "uneven_text",
    "with_zero_padding",
    "without_padding",
]


def mesh_shape(mesh: Mesh | None) -> tuple[tuple[str, int], ...]:
    """Return the axis names and sizes of a mesh; empty without a mesh."""
    return () if mesh is None else tuple(dict(mesh.shape).items())


def padding_for(
    dims: Dims, sizes: Mapping[Any, int], assignment: Assignment, mesh: Mesh | None
) -> StoredPadding | None:
    """Return the padding of an array by parsed `axis_resources`; `None` if all sizes divide."""
    counts = dict(mesh_shape(mesh))
    axes = []
    for name in dims:
        place = tuple(assignment.get(name, ())) if name is not None else ()
        blocks = math.prod(counts[axis] for axis in place)
        if sizes.get(name, 0) % blocks:
            axes.append((name, sizes[name], block_size(sizes[name], blocks) * blocks, place))
    return padding_on(mesh, tuple(axes)) if axes else None


def padding_on(
    mesh: Mesh | None, axes: tuple[tuple[Hashable, int, int, tuple[str, ...]], ...]
) -> StoredPadding:
    """Return the padding of an array with these padded axes, as in `StoredPadding`."""
    return StoredPadding(
        axes, mesh_shape(mesh), mesh if isinstance(mesh, jax.sharding.Mesh) else None
    )


def with_zero_padding(data: jax.Array, dim: int, size: int) -> jax.Array:
    """Pad `data` along `dim` to `size` elements by zeros; random keys repeat the last one."""
    if is_keys(data):
        return padded(data, dim, size)
    more = [(0, size - data.shape[dim] if i == dim else 0, 0) for i in range(data.ndim)]
    return lax.pad(data, jnp.zeros((), data.dtype), more)


def store(
    data: jax.Array,
    dims: Dims,
    assignment: Assignment,
    mesh: Mesh,
    op: str,
    memory_kind: str | None = None,
) -> NamedArray:
    """Place data of true sizes on a mesh; axes that do not divide are stored padded.

    Raises:
      PlacementConflictError: two of the axes are sharded over one mesh axis.
    """
    sizes = {dim: n for dim, n in zip(dims, data.shape, strict=True) if dim is not None}
    padding = padding_for(dims, sizes, assignment, mesh)
    if padding is None:
        sharding = named_sharding(dims, data.shape, assignment, mesh, op, memory_kind)
        return make(put(data, sharding), dims)
    padded_sizes = padding.padded_sizes
    if isinstance(data, jax.core.Tracer) and has_explicit_axes(mesh) and not is_tracked(data):
        # Without a sharding, the gradient would be sliced while it is sharded, which JAX rejects.
        data = put(data, NamedSharding(mesh, PartitionSpec()))
    data = _unsharded(data, [i for i, dim in enumerate(dims) if dim in padded_sizes])
    for i, dim in enumerate(dims):
        if dim in padded_sizes:
            data = with_zero_padding(data, i, padded_sizes[dim])
    placed = put(data, named_sharding(dims, data.shape, assignment, mesh, op, memory_kind))
    return make_padded(placed, dims, padding)


class UnevenCopy(NamedTuple):
    """A named array with axes that are replicated, since they do not divide.

    Attributes:
      dims: its dims.
      data: its data, or an object with their shape and dtype.
      sharding: its sharding.
      padding: its padding if it were stored padded.
    """

    dims: Dims
    data: Any
    sharding: NamedSharding
    padding: StoredPadding


def uneven_text(copies: Sequence[UnevenCopy]) -> str:
    """Return the sentence about axes that are replicated, since they do not divide.

    Args:
      copies: all arrays of a call with such axes.

    >>> import jax, jax.numpy as jnp, namedax as nx
    >>> from namedax.resources.stored_padding import UnevenCopy, padding_for, uneven_text
    >>> mesh = jax.make_mesh((4, 2), ("x", "y"))
    >>> x = nx.shard(nx.ones(named_shape={"words": 10}), {"words": "x"}, mesh, padded=False)
    >>> padding = padding_for(x.dims, x.named_shape, {"words": ("x",)}, mesh)
    >>> print(uneven_text([UnevenCopy(x.dims, x.data, x.sharding, padding)]))
    axis 'words' of size 10 does not divide over mesh axes ('x',), 4 devices in total, and is
    replicated: each device stores 40 bytes of 1 array instead of 12.
    """
    axes: dict[tuple[Hashable, int], str] = {}
    have = wanted = 0
    for dims, data, sharding, padding in copies:
        counts, blocks = dict(padding.mesh), {}
        for name, size, padded_size, place in padding.axes:
            devices = math.prod(counts[axis] for axis in place)
            axes[name, size] = f"mesh axes {place}, {devices} devices in total"
            blocks[name] = padded_size // devices
        block = sharding.shard_shape(data.shape)
        stored = [blocks.get(dim, n) for dim, n in zip(dims, block, strict=True)]
        have += math.prod(block) * data.dtype.itemsize
        wanted += math.prod(stored) * data.dtype.itemsize
    shown = [
        f"axis {format_value(name)} of size {size} does not divide over {where}"
        for (name, size), where in axes.items()
    ]
    if len(shown) > _MOST_AXES:
        shown[_MOST_AXES:] = [f"{len(shown) - _MOST_AXES} more axes do not divide"]
    arrays = "1 array" if len(copies) == 1 else f"{len(copies)} arrays"
    return (
        f"{'; '.join(shown)}, and {'is' if len(axes) == 1 else 'are'} replicated: each device"
        f" stores {have:,} bytes of {arrays} instead of {wanted:,}."
    )


_MOST_AXES = 4


def without_padding(array: NamedArray) -> NamedArray:
    """Return an array with its true sizes in the data, unchanged if it is not stored padded.

    Communication: an all-gather along the padded axes.
    """
    padding = padding_of(array)
    if padding is None:
        return array
    sizes = dict(array.named_shape)  # checks the sizes of the data
    names = padding.sizes
    places = [i for i, dim in enumerate(array._dims) if dim in names]
    return make(
        sliced_to_size(stored_data(array), {i: sizes[array._dims[i]] for i in places}), array._dims
    )


def on_host(array: NamedArray) -> NamedArray:
    """Return an array that is stored padded with its true values on this host.

    If other processes have some of the values, or the elements are random keys, the values are
    gathered on the devices instead. Other arrays are unchanged.
    """
    if padding_of(array) is None:
        return array
    data = stored_data(array)
    if not isinstance(data, jax.Array) or isinstance(data, jax.core.Tracer):
        return without_padding(array)
    if not data.is_fully_addressable or is_keys(data):
        return without_padding(array)
    return make(true_values(array), array._dims)


def sliced_to_size(data: Any, sizes: Mapping[int, int]) -> Any:
    """Slice padded data to the true size of each of these dimensions."""
    if isinstance(data, jax.ShapeDtypeStruct):
        shape = tuple(sizes.get(i, n) for i, n in enumerate(data.shape))
        return jax.ShapeDtypeStruct(shape, data.dtype)
    data = _unsharded(data, sizes)
    for dim, size in sizes.items():
        data = unpadded(data, dim, size)
    return data


def _unsharded(data: jax.Array, dims: Iterable[int]) -> jax.Array:
    """Replicate data over the Explicit mesh axes that shard these dimensions."""
    if not is_tracked(data):
        return data
    sharding: Any = (
        jax.typeof(data).sharding if isinstance(data, jax.core.Tracer) else data.sharding
    )
    kept = [
        None if i in set(dims) else (entry_of(sharding.spec, i) or None) for i in range(data.ndim)
    ]
    return jax.reshard(data, NamedSharding(sharding.mesh, PartitionSpec(*kept)))
