"""Arrays move between devices piece by piece.

A sender slices its block, the slice is copied to the receiver, and written into the new block in
place. Only pieces that a device needs and does not have are copied. All devices must belong to this
process.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding, SingleDeviceSharding

from namedax.insight.transfers.layouts import Boxes
from namedax.insight.transfers.rounds import Kind, Part, Slices
from namedax.resources.communication import is_keys

__all__ = ["Move", "run_round", "without_context"]


def without_context() -> Any:
    """Return a context without a mesh: operations on one device fail in that of another mesh."""
    return jax.set_mesh(Mesh(np.empty((), dtype=object), ()))


@functools.partial(jax.jit, static_argnums=2)
def _cut(block: jax.Array, start: jax.Array, sizes: tuple[int, ...]) -> jax.Array:
    return lax.dynamic_slice(block, tuple(start), sizes)


@functools.partial(jax.jit, donate_argnums=0)
def _paste(block: jax.Array, piece: jax.Array, start: jax.Array) -> jax.Array:
    return lax.dynamic_update_slice(block, piece, tuple(start))


@functools.partial(jax.jit, static_argnums=4, donate_argnums=0)
def _carry(
    block: jax.Array, old: jax.Array, start: jax.Array, to: jax.Array, sizes: tuple[int, ...]
) -> jax.Array:
    """Write a part of an old block into a new one on the same device."""
    piece = lax.dynamic_slice(old, tuple(start), sizes)
    return lax.dynamic_update_slice(block, piece, tuple(to))


@functools.partial(jax.jit, donate_argnums=0)
def _take(block: jax.Array) -> jax.Array:
    """Return an array in the same memory, which outlives the old one."""
    return block


def _alone(block: jax.Array, device: Any) -> jax.Array:
    """Return a block without a mesh; that of a mesh of one Explicit axis has it in its type."""
    sharding = SingleDeviceSharding(device)
    return jax.make_array_from_single_device_arrays(block.shape, sharding, [block])


class Move:
    """The move of one array.

    Args:
      kind: its pieces.
      data: the array.
      shape: the stored shape of the result.
      sharding: the sharding of the result.
      boxes: its blocks before and after.
      labels: the device of each number.
      donate: True if the array may be freed.
    """

    def __init__(
        self,
        kind: Kind,
        data: jax.Array,
        shape: tuple[int, ...],
        sharding: NamedSharding,
        boxes: tuple[Boxes, Boxes],
        labels: Sequence[Any],
        donate: bool,
    ):
        number = {device: i for i, device in enumerate(labels)}
        self.kind, self.labels, self.donate = kind, labels, donate
        self.shape, self.sharding, self.dtype = shape, sharding, data.dtype
        self.source, self.target = boxes
        self._row = [{d: i for i, d in enumerate(box.devices.tolist())} for box in boxes]
        self._old = {number[s.device]: _alone(s.data, s.device) for s in data.addressable_shards}
        self._new: dict[int, jax.Array] = {}
        self._impl = str(jax.random.key_impl(data)) if is_keys(data) else None
        self.data: jax.Array | None = data

    def open(self) -> list[jax.Array]:
        """Write what devices keep into their new blocks."""
        pieces = self.kind.pieces
        in_place = set(pieces.in_place.tolist())
        for device, part in zip(pieces.kept_by.tolist(), pieces.kept.tolist(), strict=True):
            low, high = pieces.low[part], pieces.high[part]
            at = self._row[1][device]
            if device in in_place:
                if not self.donate:
                    self._new[device] = jnp.copy(self._old[device])
                continue
            start = (low - self.source.low[self._row[0][device]]).astype(np.int32)
            sizes = tuple((high - low).tolist())
            if (low == self.target.low[at]).all() and (high == self.target.high[at]).all():
                self._new[device] = _cut(self._old[device], start, sizes)
                continue
            to = (low - self.target.low[at]).astype(np.int32)
            self._new[device] = _carry(self._block(device), self._old[device], start, to, sizes)
        return list(self._new.values())

    def _block(self, device: int) -> jax.Array:
        """Return the new block of a device; it begins with zeros, which are also its padding."""
        if device not in self._new:
            at = self._row[1][device]
            shape = tuple((self.target.high[at] - self.target.low[at]).tolist())
            self._new[device] = self._zeros(shape, self.labels[device])
        return self._new[device]

    def _zeros(self, shape: tuple[int, ...], device: Any) -> jax.Array:
        if self._impl is None:
            return jnp.zeros(shape, self.dtype, device=device)
        words = jax.eval_shape(jax.random.key_data, jax.ShapeDtypeStruct(shape, self.dtype))
        zeros = jnp.zeros(words.shape, words.dtype, device=device)
        return jax.device_put(jax.random.wrap_key_data(zeros, impl=self._impl), device)

    def slices(self, part: Part) -> tuple[Slices, list[jax.Array], list[Any]]:
        """Cut the slices of one part; return them with the devices that receive them."""
        pieces, chosen = self.kind.pieces, self.kind.part(part)
        cuts, devices = [], []
        for i, low, high, cut in zip(*chosen, strict=True):
            sender, receiver = int(pieces.senders[i]), int(pieces.receivers[i])
            block = self._old[sender]
            if cut or not pieces.whole[i]:
                start = (low - self.source.low[self._row[0][sender]]).astype(np.int32)
                block = _cut(block, start, tuple((high - low).tolist()))
            cuts.append(block)
            devices.append(self.labels[receiver])
        return chosen, cuts, devices

    def receive(self, chosen: Slices, arrived: Iterable[jax.Array]) -> None:
        """Write the slices that have arrived into the new blocks."""
        pieces = self.kind.pieces
        for i, low, cut, piece in zip(chosen.pieces, chosen.low, chosen.cut, arrived, strict=True):
            receiver = int(pieces.receivers[i])
            if pieces.direct[i] and not cut:
                self._new[receiver] = piece
                continue
            start = (low - self.target.low[self._row[1][receiver]]).astype(np.int32)
            self._new[receiver] = _paste(self._block(receiver), piece, start)

    def close(self) -> jax.Array:
        """Return the array in the new layout."""
        if self.donate:
            for device in self.kind.pieces.in_place.tolist():
                self._new[device] = _take(self._old[device])
        blocks = [self._block(device) for device in self.target.devices.tolist()]
        result = jax.make_array_from_single_device_arrays(self.shape, self.sharding, blocks)
        self._old, self._new = {}, {}
        return result


def run_round(
    parts: Iterable[tuple[Move, Part]], opened: Iterable[Move], closed: Iterable[Move]
) -> list[jax.Array]:
    """Run one round, and return the arrays of `closed`.

    It returns when all data have arrived, so that the slices are freed before the next round.
    """
    for move in opened:
        move.open()
    chosen = [(move, *move.slices(part)) for move, part in parts]
    cuts = [cut for _, _, some, _ in chosen for cut in some]
    devices = [device for *_, some in chosen for device in some]
    arrived = jax.device_put(cuts, devices) if cuts else []
    begin = 0
    for move, slices, some, _ in chosen:
        move.receive(slices, arrived[begin : begin + len(some)])
        begin += len(some)
    del cuts, chosen
    jax.block_until_ready(arrived)
    results = [move.close() for move in closed]
    jax.block_until_ready(results)
    return results
