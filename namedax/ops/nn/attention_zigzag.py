"""The balanced ring of causal attention: every device computes equal shares of the mask.

In a contiguous layout over n devices, the last device attends to n blocks of keys and the first one
to one block. Here every block is split into halves, so that there are 2n chunks, and inside of the
ring device i has the chunks i and 2n - 1 - i of queries, keys and values (zigzag). For n = 4::

    chunk     0  1  2  3  4  5  6  7
    outside   0  0  1  1  2  2  3  3   (device)
    inside    0  1  2  3  3  2  1  0   (device)

A device that has the keys of another one computes two pairs of chunks. Its higher queries attend to
the lower keys. In addition, its lower queries attend to the lower keys if these come from a smaller
device, and its higher queries attend to the higher keys otherwise. With its own keys it computes
three pairs. So every device computes two pairs in each step, and 2n + 1 in all. No other pair has
an unmasked element, so a causal mask needs no conditional. A window or segments skip pairs that
they mask completely.

Positions outside of the ring stay contiguous. Every operand is exchanged in two permutes of half a
block, and the result is exchanged back. Blocks of an odd size get one element of padding.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from namedax.core.names import MeshAxes
from namedax.core.padded_sharding import plain
from namedax.core.region import Region
from namedax.errors import AxisSizeError, PlacementConflictError
from namedax.ops.nn.attention_blocks import (
    Arrays,
    BlockAttention,
    Number,
    Origin,
    Results,
    Saved,
    State,
    finite_rows,
)
from namedax.ops.nn.attention_labels import KEY, QUERY, Label, Role
from namedax.ops.nn.attention_operands import OPERATION, Names
from namedax.resources import communication as comm

__all__ = ["ZigzagAttention", "can_balance"]

#: The halves of a block of queries and of a block of keys: 0 is the lower one.
Pair = tuple[Number, Number]
T = TypeVar("T", bound=Any)
_LOW, _HIGH = np.int32(0), np.int32(1)


def can_balance(
    names: Names,
    blocks: tuple[int, int],
    region: Region | None,
    query_place: MeshAxes,
    key_place: MeshAxes,
) -> bool:
    """Return True if there is a ring whose blocks have halves.

    Args:
      names: the axis names.
      blocks: the numbers of queries and of keys on one device.
      region: the ambient region.
      query_place: the mesh axes of the query positions.
      key_place: the mesh axes of the key positions.

    Raises:
      AxisSizeError: the numbers of queries and keys differ.
      PlacementConflictError: the mesh axes of queries and keys are neither equal nor disjoint.
    """
    queries, keys = blocks
    if region is not None:
        queries = region.global_size(names.query, queries)
        keys = region.global_size(names.own_key, keys)
    if queries != keys:
        raise AxisSizeError(
            f"{OPERATION}: balance='zigzag' requires as many keys as queries, but axis"
            f" {names.query!r} has size {queries} and axis {names.own_key!r} has size {keys}. Leave"
            " out balance=."
        )
    if set(query_place).isdisjoint(key_place):
        return False
    if plain(query_place) != plain(key_place):
        raise PlacementConflictError(
            f"{OPERATION}: balance='zigzag' requires queries and keys on the same mesh axes, but"
            f" {names.query!r} is sharded over mesh axes {plain(query_place)} and"
            f" {names.own_key!r} over {plain(key_place)}. Map both to the same mesh axes in"
            " axis_resources, or leave out balance=."
        )
    return blocks[0] > 1


# --- the exchange ---------------------------------------------------------------------------------


def _index(axes: MeshAxes) -> Number:
    return lax.convert_element_type(comm.block_index(axes), np.int32)


def _owner(chunk: int, devices: int) -> int:
    return min(chunk, 2 * devices - 1 - chunk)


def _pairs(parity: int, devices: int) -> list[tuple[int, int]]:
    """Return the device of each even (or odd) chunk outside of the ring, and inside."""
    return [(i, _owner(2 * i + parity, devices)) for i in range(devices)]


def _in_order(a: jax.Array, b: jax.Array, axes: MeshAxes, dim: int) -> jax.Array:
    """Concatenate two halves, in reverse on devices with an odd number.

    Device i has the chunk i, which is the lower one, and the chunk 2n - 1 - i. The even one of them
    is the lower one if i is even.
    """
    is_even = lax.eq(lax.rem(_index(axes), np.int32(2)), np.int32(0))
    a, b = jnp.where(is_even, a, b), jnp.where(is_even, b, a)
    return lax.concatenate([a, b], dim)


def _to_zigzag(data: jax.Array, dim: int, axes: MeshAxes, devices: int) -> jax.Array:
    """Exchange contiguous chunks for the chunks of this device in the ring."""
    even, odd = (
        comm.ppermute(half, axes, _pairs(parity, devices))
        for parity, half in enumerate(_halves(data, dim))
    )
    return _in_order(even, odd, axes, dim)


def _from_zigzag(data: jax.Array, dim: int, axes: MeshAxes, devices: int) -> jax.Array:
    """Undo `_to_zigzag`."""
    halves = _halves(_in_order(*_halves(data, dim), axes, dim), dim)
    return lax.concatenate(
        [
            comm.ppermute(half, axes, [(j, i) for i, j in _pairs(parity, devices)])
            for parity, half in enumerate(halves)
        ],
        dim,
    )


def _halves(data: jax.Array, dim: int) -> tuple[jax.Array, jax.Array]:
    size = data.shape[dim] // 2
    low, high = (lax.slice_in_dim(data, i * size, (i + 1) * size, axis=dim) for i in range(2))
    return low, high


def _half(data: jax.Array, dim: int, which: Number) -> jax.Array:
    size = data.shape[dim] // 2
    if isinstance(which, np.int32):
        return _halves(data, dim)[int(which)]
    return lax.dynamic_slice_in_dim(data, lax.mul(which, np.int32(size)), size, dim)


def _put_half(data: jax.Array, half: jax.Array, dim: int, which: Number) -> jax.Array:
    size = np.int32(half.shape[dim])
    first = which * size if isinstance(which, np.int32) else lax.mul(which, size)
    return lax.dynamic_update_slice_in_dim(data, half, first, dim)


# --- the ring -------------------------------------------------------------------------------------


class ZigzagAttention(BlockAttention):
    """A plan for causal attention around a ring, with equal shares for all devices.

    The mesh axes of queries and keys are equal, and so are their numbers. `sizes` has the sizes of
    chunks.

    Attributes:
      block: the size of a block outside of the ring.
    """

    block: int

    def __post_init__(self) -> None:
        super().__post_init__()
        self.block = self.sizes[QUERY]
        self.sizes[QUERY] = self.sizes[KEY] = -(-self.block // 2)

    @property
    def _has_padding(self) -> bool:
        """Return True if the second chunk of a block has one element of padding."""
        return self.block % 2 == 1

    def _dims(self, which: str) -> dict[Label, int]:
        """Return the dimension of queries, and of keys that are sharded like them."""
        if which in ("mean", "normalizer", "cotangent", "result"):
            return {QUERY: len(self.batch)}
        found: dict[Label, int] = {}
        for label in (QUERY, KEY):
            if label in self.labels[which] and not (label is KEY and which in self.whole):
                found[label] = self.labels[which].index(label)
        return found

    # --- exchanges --------------------------------------------------------------------------------

    def _enter(self, which: str, data: jax.Array) -> jax.Array:
        for dim in self._dims(which).values():
            if self._has_padding:
                data = _padded(data, dim)
            data = _to_zigzag(data, dim, self.ring, self.steps)
        if which in self.whole and self._has_padding:  # a chunk may end after the last key
            data = _padded(data, self.labels[which].index(KEY))
        return data

    def _leave(self, which: str, data: jax.Array) -> jax.Array:
        dims = list(self._dims(which).values())
        for dim in dims:
            data = _from_zigzag(data, dim, self.ring, self.steps)
        if which in self.whole:
            dims.append(self.labels[which].index(KEY))
        if self._has_padding:
            for dim in dims:
                data = lax.slice_in_dim(data, 0, data.shape[dim] - 1, axis=dim)
        return data

    def _around(self, floats: Arrays, others: Arrays) -> tuple[Results, Saved]:
        floats, others = (
            {which: self._enter(which, data) for which, data in arrays.items()}
            for arrays in (floats, others)
        )
        result, normalizer = self._ring(floats | others)
        result = self._leave("result", result)
        results = (result, self._leave("normalizer", normalizer)) if self.residual else (result,)
        return results, (floats, others, result, finite_rows(normalizer))

    def _around_backwards(self, saved: Saved, cotangents: Results) -> Arrays:
        floats, others, result, normalizer = saved
        mean, cotangent = self._mean(result, cotangents)
        mean, cotangent = self._enter("mean", mean), self._enter("cotangent", cotangent)
        gradients = self._ring_backwards(
            floats | others, tuple(floats), mean, normalizer, cotangent
        )
        return {which: self._leave(which, data) for which, data in gradients.items()}

    # --- pairs of chunks --------------------------------------------------------------------------

    def _pairs_of(self, step: int | jax.Array) -> tuple[Number, list[Pair]]:
        """Return the device that the keys come from, and the pairs of chunks to compute."""
        here = _index(self.ring)
        if isinstance(step, int) and step == 0:
            return here, [(_HIGH, _LOW), (_LOW, _LOW), (_HIGH, _HIGH)]
        number = np.int32(step) if isinstance(step, int) else step
        source = lax.rem(lax.add(lax.sub(here, number), np.int32(self.steps)), np.int32(self.steps))
        same = lax.convert_element_type(lax.gt(source, here), np.int32)
        return source, [(_HIGH, _LOW), (same, same)]

    def _origin_of(self, source: Number, pair: Pair) -> Origin:
        """Return the first positions of a pair of chunks, with keys of the device `source`."""
        here = _index(self.ring)
        return self._first(here, pair[0]), self._first(source, pair[1])

    def _first(self, device: Number, half: Number) -> Number:
        """Return the first position of a chunk."""
        mirrored = lax.sub(np.int32(2 * self.steps - 1), device)
        if isinstance(half, np.int32):
            chunk = mirrored if half else device
        else:
            chunk = lax.select(lax.gt(half, np.int32(0)), mirrored, device)
        size = np.int32(self.sizes[QUERY])
        if not self._has_padding:
            return lax.mul(chunk, size)
        two = np.int32(2)
        return lax.add(
            lax.mul(lax.div(chunk, two), np.int32(self.block)), lax.mul(lax.rem(chunk, two), size)
        )

    def _allowed(self, arrays: Arrays, origin: Origin) -> jax.Array | None:
        allowed = super()._allowed(arrays, origin)
        if self._has_padding:  # the last key of a second chunk
            size = self.sizes[KEY]
            is_second = lax.gt(lax.rem(origin[1], np.int32(self.block)), np.int32(0))
            number = lax.iota(np.int32, size)
            real = lax.lt(number, np.int32(size) - lax.convert_element_type(is_second, np.int32))
            allowed = real if allowed is None else jnp.logical_and(allowed, real)
        return allowed

    def _may_attend(self, arrays: Arrays, origin: Origin) -> list[jax.Array]:
        return self._are_near(arrays, origin)  # every pair of `_pairs_of` has unmasked elements

    def _cut(self, arrays: Arrays, pair: Pair, labels: Iterable[Role] = (QUERY, KEY)) -> Arrays:
        """Return the halves of arrays that belong to a pair of chunks."""
        halves = dict(zip((QUERY, KEY), pair, strict=True))
        return {
            which: functools.reduce(
                lambda data, label: _half(data, self._dims(which)[label], halves[label]),
                (label for label in labels if label in self._dims(which)),
                data,
            )
            for which, data in arrays.items()
        }

    def _put(self, arrays: Arrays, halves: Arrays, label: Role, which_half: Number) -> Arrays:
        return {
            which: _put_half(arrays[which], half, self._dims(which)[label], which_half)
            if label in self._dims(which)
            else half
            for which, half in halves.items()
        }

    # --- the forward pass -------------------------------------------------------------------------

    def _full(self, labels: Iterable[Label], more: MeshAxes = (), fill: float = 0.0) -> jax.Array:
        half = super()._full(labels := tuple(labels), more, fill)
        return lax.concatenate([half, half], labels.index(QUERY))

    def _start(self, arrays: Arrays) -> State:
        state = super()._start(arrays)
        source, pairs = self._pairs_of(0)
        return self._visit_pair(state, arrays, source, pairs[-1])

    def _visit(self, state: State, arrays: Arrays, step: int | jax.Array) -> State:
        source, pairs = self._pairs_of(step)
        for pair in pairs:
            state = self._visit_pair(state, arrays, source, pair)
        return state

    def _visit_pair(self, state: State, arrays: Arrays, source: Number, pair: Pair) -> State:
        origin, cut, dim = self._origin_of(source, pair), self._cut(arrays, pair), len(self.batch)
        compute = functools.partial(self._attend_to_block, cut, origin)
        half = jax.tree.map(lambda data: _half(data, dim, pair[0]), state)
        half = self._unless_masked(cut, origin, compute, half)
        return jax.tree.map(lambda data, new: _put_half(data, new, dim, pair[0]), state, half)

    # --- the backward pass ------------------------------------------------------------------------

    def _visit_backwards(
        self, of_staying: Arrays, arrays: Arrays, wanted: tuple[str, ...], step: int | jax.Array
    ) -> tuple[Arrays, Arrays]:
        added = self._zeros_like(self._split(arrays)[0], wanted)
        source, pairs = self._pairs_of(step)
        for pair in pairs:
            origin, cut = self._origin_of(source, pair), self._cut(arrays, pair)
            compute = functools.partial(self._add_gradients, cut, origin)
            before = self._cut(of_staying, pair), self._cut(added, pair)
            after = self._unless_masked(cut, origin, compute, before)
            of_staying = self._put(of_staying, after[0], QUERY, pair[0])
            added = self._put(added, after[1], KEY, pair[1])
        return of_staying, added

    def _add_gradients(
        self, arrays: Arrays, origin: Origin, state: tuple[Arrays, Arrays]
    ) -> tuple[Arrays, Arrays]:
        of_staying, added = self._gradients_of_block(arrays, origin, state)
        return of_staying, jax.tree.map(lax.add, state[1], added)

    def _put_bias(self, before: jax.Array, of_bias: jax.Array, first_key: Number) -> jax.Array:
        """Add the gradient of a chunk, which two chunks of queries may use."""
        dim = self.labels["bias"].index(KEY)
        here = lax.dynamic_slice_in_dim(before, first_key, of_bias.shape[dim], dim)
        return lax.dynamic_update_slice_in_dim(before, lax.add(here, of_bias), first_key, dim)


def _padded(data: jax.Array, dim: int) -> jax.Array:
    """Append one element: zero, or the last segment, which adds no sequence to its chunk."""
    if jnp.issubdtype(data.dtype, jnp.integer):
        last = lax.slice_in_dim(data, data.shape[dim] - 1, data.shape[dim], axis=dim)
        return lax.concatenate([data, last], dim)
    zero = np.zeros((), data.dtype)
    return lax.pad(data, zero, [(0, int(i == dim), 0) for i in range(data.ndim)])
