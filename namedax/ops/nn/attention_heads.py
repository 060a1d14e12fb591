"""The heads of attention: query heads that share a key head, on the blocks of one device."""

from __future__ import annotations

import math
from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from namedax.core.annotations import AnyArray
from namedax.core.display import type_text
from namedax.core.names import MeshAxes
from namedax.core.padded_sharding import Uneven, plain
from namedax.core.records import Record
from namedax.core.variance import cast_data
from namedax.errors import AxisSizeError, PlacementConflictError
from namedax.ops.nn.attention_blocks import GROUP, KEY_HEADS, Labels
from namedax.ops.nn.attention_names import OPERATION, Names
from namedax.resources import communication as comm
from namedax.resources.row_moves import move_rows
from namedax.resources.serial import LoopAxis

__all__ = ["Operand", "how_to_share", "split_heads"]


class Operand(Record, frozen=False):
    """The block of an array, with a label for every dimension."""

    data: jax.Array
    labels: Labels


def split_heads(
    operands: dict[str, Operand],
    names: Names,
    place: MeshAxes,
    key_place: MeshAxes,
    blocks: Mapping[str, AnyArray],
) -> None:
    """Split the heads of queries and scores into key heads and groups that share one."""
    query, key = operands["query"], operands["key"]
    here = query.data.shape[query.labels.index(names.heads)]
    key_here = key.data.shape[key.labels.index(KEY_HEADS)]
    heads, key_heads = _size_of(here, place), _size_of(key_here, key_place)
    if not key_heads or heads % key_heads:
        raise AxisSizeError(
            f"{OPERATION}: query has {heads} heads {names.heads!r} and key has {key_heads} heads"
            f" {names.key_heads!r}; the heads of query must be a multiple"
            f" of the heads of key ({type_text(blocks['query'])}, {type_text(blocks['key'])})."
        )
    if key_place not in (place, ()):
        raise PlacementConflictError(
            f"{OPERATION}: the heads {names.heads!r} of the query are sharded over"
            f" {f'mesh axes {plain(place)}' if place else 'no mesh axis'}, but the heads"
            f" {names.key_heads!r} of the keys over mesh axes {plain(key_place)}. Map both to the"
            f" same mesh axes, or leave {names.key_heads!r} unmapped in"
            f" axis_resources.{how_to_share(key_place)}"
        )
    group = heads // key_heads
    is_uneven = isinstance(place, Uneven) or isinstance(key_place, Uneven)
    for operand in operands.values():
        if KEY_HEADS not in operand.labels or (place == key_place and here == key_here * group):
            continue
        at = operand.labels.index(KEY_HEADS)
        if is_uneven:
            operand.data = _heads_of_uneven_block(
                operand.data, at, here, group, place, key_place, key_heads
            )
        else:
            operand.data = _heads_of_block(operand.data, at, here, group, place)
    key_here = key.data.shape[key.labels.index(KEY_HEADS)]
    for operand in operands.values():
        if names.heads in operand.labels:
            i = operand.labels.index(names.heads)
            shape = operand.data.shape
            operand.data = operand.data.reshape(
                (*shape[:i], key_here, here // key_here, *shape[i + 1 :])
            )
            operand.labels = (*operand.labels[:i], KEY_HEADS, GROUP, *operand.labels[i + 1 :])


def how_to_share(place: MeshAxes) -> str:
    """Return the remedy for two names that should share a `SerialLoop`, if `place` has one."""
    loops = any(isinstance(axis, LoopAxis) for axis in place)
    return (
        " An nx.SerialLoop belongs to one name; nx.serial_loop lets two names share the steps."
        if loops
        else ""
    )


def _size_of(block: int, place: MeshAxes) -> int:
    return place.size if isinstance(place, Uneven) else block * math.prod(map(lax.axis_size, place))


def _heads_of_block(data: jax.Array, dim: int, here: int, group: int, place: MeshAxes) -> jax.Array:
    """Select the key heads that this device's `here` query heads use."""
    data = cast_data(data, place)
    first = comm.block_index(place) * here
    if (
        here % group and group % here
    ):  # a block begins within a group, and another key head begins within the block
        return jnp.take(
            data,
            (first + jnp.arange(here)) // group,
            axis=dim,
            indices_are_sorted=True,
            mode="clip",
        )
    return lax.dynamic_slice_in_dim(data, first // group, max(here // group, 1), dim)


def _heads_of_uneven_block(
    data: jax.Array,
    dim: int,
    here: int,
    group: int,
    place: MeshAxes,
    key_place: MeshAxes,
    key_heads: int,
) -> jax.Array:
    """Select the key heads if some blocks have padding.

    Padding uses the last real head. Sharded key heads are permuted.
    """
    devices = math.prod(map(lax.axis_size, place))
    # A block that ends within a group has one key head for each of the queries.
    stride = group if here % group == 0 else here if group % here == 0 else 1
    starts = np.arange(devices)[:, None] * here + np.arange(0, here, stride)
    wanted = np.minimum(starts // group, key_heads - 1)
    if key_place and not any(isinstance(axis, LoopAxis) for axis in key_place):
        return move_rows(data, dim, plain(key_place), wanted)
    if key_place:  # a step cannot access the heads of other steps
        data = comm.all_gather(data, dim, key_place, "varying")
    mine = lax.dynamic_index_in_dim(
        jnp.asarray(wanted), comm.block_index(plain(place)), 0, keepdims=False
    )
    return jnp.take(cast_data(data, place), mine, axis=dim, indices_are_sorted=True, mode="clip")
