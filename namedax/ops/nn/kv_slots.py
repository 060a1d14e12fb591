"""Write new positions into the slots of a `KVCache`.

If all rows are written at the same slots, one slice is replaced. Otherwise it is one scatter into
the block of this device; slots on other devices are out of range, and dropped.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

import jax
import jax.numpy as jnp
from jax import lax

from namedax.core.annotations import AnyArray
from namedax.core.array import NamedArray, dims_of
from namedax.core.names import Dims, MeshAxes
from namedax.core.records import Record
from namedax.core.region import ambient, place_of
from namedax.core.variance import cast, varying
from namedax.ops.operands.broadcasting import as_block, make_result
from namedax.ops.operands.pytree import data_of
from namedax.resources import communication as comm
from namedax.resources.padding_masks import last_repeated

__all__ = ["write_slots"]


class _Labeled(Record):
    """Data with the names of its dimensions."""

    data: jax.Array
    dims: Dims

    def ordered(self, like: Dims) -> jax.Array:
        """Transpose and expand the data to the dims `like`; missing ones have size 1."""
        order = sorted(range(len(self.dims)), key=lambda i: like.index(self.dims[i]))
        data = lax.transpose(self.data, order)
        return lax.expand_dims(data, [i for i, name in enumerate(like) if name not in self.dims])


class _Write(Record):
    """New positions to write into the block of a cache.

    Attributes:
      cache: the block.
      slots: its axis of slots.
      updates: the new positions, with all dims of the block. Along an axis of layers, the size is
        1.
      start: the first slot of each row.
      count: the number of positions of each row; `None` if all are written.
      layer: the number of the layer along its axis; empty without layers.
      places: the mesh axes of the slots and of the layers.
    """

    cache: _Labeled
    slots: Hashable
    updates: jax.Array
    start: _Labeled
    count: _Labeled | None
    layer: Mapping[Hashable, jax.Array]
    places: Mapping[Hashable, MeshAxes]

    @property
    def dim(self) -> int:
        """Return the dimension of the slots."""
        return self.cache.dims.index(self.slots)

    @property
    def row_names(self) -> set[Hashable]:
        """Return the names of the axes along which the written slots differ."""
        return {*self.start.dims, *(() if self.count is None else self.count.dims)}

    @property
    def is_uniform(self) -> bool:
        """Return True if one slice of the block is written, which is the same on all devices."""
        return not self.row_names and self.count is None and not any(self.places.values())


def write_slots(
    op: str,
    axes: tuple[Hashable, ...],
    stored: AnyArray,
    new: AnyArray,
    start: AnyArray,
    *more: AnyArray,
) -> NamedArray:
    """Write `new` into `stored` from the slot `start` of each row on.

    With a third axis name, `more` begins with the layer along it that is written. Then `more` may
    have the number of positions of each row.
    """
    slots, new_axis, *layer_axis = axes
    region = ambient()
    places = {name: place_of(region, name) for name in (slots, *layer_axis)}
    cache, fresh, starts, *others = _cast_alike(op, (stored, new, start, *more), places)
    layer = {name: others.pop(0).data.astype(jnp.int32) for name in layer_axis}
    dims = tuple(slots if name == new_axis else name for name in fresh.dims)
    updates = _Labeled(fresh.data.astype(cache.data.dtype), dims).ordered(cache.dims)
    sizes = dict(zip(cache.dims, cache.data.shape, strict=True)) | dict.fromkeys(layer_axis, 1)
    sizes[slots] = updates.shape[cache.dims.index(slots)]
    updates = jnp.broadcast_to(updates, tuple(sizes.values()))
    count = others[0] if others else None
    write = _Write(cache, slots, updates, starts, count, layer, places)
    return make_result((_write_slice if write.is_uniform else _write_rows)(write), cache.dims)


def _cast_alike(
    op: str, arrays: Sequence[AnyArray], places: Mapping[Hashable, MeshAxes]
) -> list[_Labeled]:
    """Return the blocks of arrays, of one variance."""
    blocks = [as_block(array, op) for array in arrays]
    union = frozenset[str]().union(*(varying(data_of(block)) for block in blocks), *places.values())
    datas = [cast(block, union) if union else jnp.asarray(data_of(block)) for block in blocks]
    return [_Labeled(data, dims_of(block)) for data, block in zip(datas, blocks, strict=True)]


def _write_slice(write: _Write) -> jax.Array:
    """Write the same slots of all rows.

    This clamps a start that is too late; such rows are lost anyway.
    """
    chosen = {write.slots: write.start.data, **write.layer}
    # With 64 bits enabled, a Python integer has another dtype than the start.
    starts = [jnp.asarray(chosen.get(name, 0), jnp.int32) for name in write.cache.dims]
    return lax.dynamic_update_slice(write.cache.data, write.updates, starts)


def _write_rows(write: _Write) -> jax.Array:
    """Write different slots of each row, or slots of a sharded axis."""
    data, dims, dim = write.cache.data, write.cache.dims, write.dim
    # An index for every dimension before the slots: XLA transposes others to the front, and copies.
    batch = [
        i
        for i, name in enumerate(dims)
        if name not in write.layer and (i <= dim or name in write.row_names)
    ]
    slots = _slots_of_rows(write, batch)
    indices = {dim: slots}
    for name, number in write.layer.items():
        where = dims.index(name)
        indices[where] = jnp.broadcast_to(
            _local_layer(number, write.places[name], data.shape[where]), slots.shape
        )
    inserted = tuple(sorted(indices))
    layers = tuple(map(dims.index, write.layer))
    kept = [i for i in range(data.ndim) if i not in layers]
    rows = [i for i in batch if i != dim]
    numbers = lax.ScatterDimensionNumbers(
        update_window_dims=tuple(kept.index(i) for i in kept if i not in batch),
        inserted_window_dims=inserted,
        scatter_dims_to_operand_dims=inserted,
        operand_batching_dims=tuple(rows),
        scatter_indices_batching_dims=tuple(batch.index(i) for i in rows),
    )
    result = lax.scatter(
        data,
        jnp.stack([indices[i] for i in inserted], -1),
        lax.squeeze(write.updates, layers),
        numbers,
        unique_indices=True,
        mode=lax.GatherScatterMode.FILL_OR_DROP,
    )
    for name, place in write.places.items():
        result = last_repeated(result, dims.index(name), place)
    return result


def _slots_of_rows(write: _Write, batch: Sequence[int]) -> jax.Array:
    """Return the slot in this block of each new position, along the dimensions `batch`.

    Positions that are not written have distinct slots out of range.
    """
    place, size = write.places[write.slots], write.cache.data.shape[write.dim]
    labels = tuple(write.cache.dims[i] for i in batch)
    shape = tuple(write.updates.shape[i] for i in batch)
    offset = lax.broadcasted_iota(jnp.int32, shape, labels.index(write.slots))
    index = offset + write.start.ordered(labels)
    if place:
        index = index - comm.block_index(place).astype(jnp.int32) * size
    is_written = (index >= 0) & (index < size)
    if write.count is not None:
        is_written &= offset < write.count.ordered(labels)
    return jnp.where(is_written, index, size + offset)


def _local_layer(number: jax.Array, place: MeshAxes, block: int) -> jax.Array:
    """Return the number of a layer in this block, or a number out of range."""
    if not place:
        return number
    number = number - comm.block_index(place).astype(jnp.int32) * block
    return jnp.where(number < 0, block, number)
