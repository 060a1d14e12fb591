"""Slots of experts: assign tokens to slots, fill and read the slots, and send them.

Everything uses indices: tokens are sorted by the number of their expert, without a mask of tokens
by experts. `Exchange` sends slots between the devices that have the tokens and the devices that
have the experts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from namedax.core.names import MeshAxes
from namedax.core.padded_sharding import plain
from namedax.core.records import Record
from namedax.core.variance import cast_data, varying
from namedax.resources import communication as comm

__all__ = ["Exchange", "Slots", "divided", "rank_among_equals", "rank_in_groups"]


class Slots(Record):
    """The assignment of the choices of tokens to slots.

    Attributes:
      slot: the slot of every choice of every token, `[choices, tokens]`; the number of all slots
        marks a choice without a slot.
      choice: the choice in each slot, counted over `[choices, tokens]`; the number of all choices
        marks an empty slot.
      shape: the number of experts, and the number of slots of each.
    """

    slot: jax.Array
    choice: jax.Array
    shape: tuple[int, int]

    @classmethod
    def of(cls, place: jax.Array, experts: int, size: int) -> Slots:
        """Build the assignment from the slot of every choice."""
        choices = place.size
        holds = cast_data(jnp.full(experts * size, choices, place.dtype), varying(place))
        numbers = cast_data(jnp.arange(choices, dtype=place.dtype), varying(place))
        holds = holds.at[place.reshape(-1)].set(numbers, mode="drop", wrap_negative_indices=False)
        return cls(place, holds, (experts, size))

    def fill(self, rows: jax.Array) -> jax.Array:
        """Return the rows of the tokens in their slots, `[experts, slots, features]`.

        Empty slots are zeros.
        """
        tokens = rows.shape[0]
        token, _ = divided(self.choice, max(tokens, 1))
        token = jnp.where(self.choice < self.slot.size, token, tokens)
        return _read(rows, token).reshape(*self.shape, rows.shape[1])

    def fill_choices(self, values: jax.Array) -> jax.Array:
        """Return numbers of the choices, `[choices, tokens]`, in their slots."""
        return _read(values.reshape(-1, 1), self.choice).reshape(*self.shape, 1)

    def read(self, results: jax.Array) -> jax.Array:
        """Read the slots of every choice, `[choices, tokens, features]`.

        Choices without a slot are zeros.
        """
        return _read(results.reshape(math.prod(self.shape), results.shape[2]), self.slot)

    def add_up(self, results: jax.Array, weight: jax.Array) -> jax.Array:
        """Return the weighted sum over the choices, `[tokens, features]`.

        It has the common dtype of both arrays.
        """
        return jnp.einsum(
            "ktf,kt->tf",
            self.read(results),
            weight,
            preferred_element_type=jnp.result_type(results, weight),
        )


def divided(index: jax.Array, n: int) -> tuple[jax.Array, jax.Array]:
    """Return the remainder and quotient of nonnegative numbers.

    It avoids the extra cost of `%` and `//` for negative ones.
    """
    if n & (n - 1) == 0:  # XLA's own rewrite also handles negative numbers
        return index & (n - 1), index >> (n.bit_length() - 1)
    divisor = jnp.full_like(index, n)
    return lax.rem(index, divisor), lax.div(index, divisor)


def _read(rows: jax.Array, index: jax.Array) -> jax.Array:
    return rows.at[index].get(mode="fill", fill_value=0, wrap_negative_indices=False)


def rank_among_equals(index: jax.Array, experts: int) -> tuple[jax.Array, jax.Array]:
    """Count the equal elements before each element along the last axis.

    Return these counts, and the number of elements of each value below `experts`.

    Args:
      index: `[rows, entries]`, numbers from 0 to `experts`.
      experts: the number of values to count.
    """
    row, position = (
        cast_data(lax.broadcasted_iota(index.dtype, index.shape, dim), varying(index))
        for dim in (0, 1)
    )
    entries = index.shape[1]
    if (experts + 1) * entries <= jnp.iinfo(index.dtype).max:
        # One number for both: several times as fast as sorting two arrays.
        both = lax.sort(index * entries + position, dimension=1)
        order, ordered = divided(both, max(entries, 1))
    else:
        ordered, order = lax.sort((index, position), dimension=1, num_keys=1)
    is_first = jnp.concatenate(
        [jnp.ones_like(ordered[:, :1], bool), ordered[:, 1:] != ordered[:, :-1]], 1
    )
    begin = lax.cummax(jnp.where(is_first, position, 0), axis=1)
    inside: Any = {"mode": "promise_in_bounds", "wrap_negative_indices": False}
    rank = jnp.zeros_like(index).at[row, order].set(position - begin, unique_indices=True, **inside)
    counts = cast_data(jnp.zeros((len(index), experts + 1), index.dtype), varying(index))
    return rank, counts.at[row, index].add(1, **inside)[:, :experts]


def rank_in_groups(index: jax.Array, experts: int, placement: Sequence[MeshAxes]) -> jax.Array:
    """Count the earlier choices of the same expert in the same group.

    They are ordered by choice and then by token.

    Args:
      index: `[choices, groups, *tokens]`, blocks of the numbers of experts; numbers out of range
        choose no expert.
      experts: the number of experts.
      placement: the mesh axes of every axis of tokens.
    """
    index = jnp.where((index >= 0) & (index < experts), index, experts)
    choices, groups, *sizes = index.shape
    placement = [plain(axes) for axes in placement]  # padding chooses no expert
    sharded = [i for i, axes in enumerate(placement) if axes]
    by_group = jnp.moveaxis(index, 1, 0)
    if not sharded:
        rank, _ = rank_among_equals(by_group.reshape(groups, -1), experts)
        return jnp.moveaxis(rank.reshape(by_group.shape), 0, 1)
    # From the last sharded axis on, the tokens of one device are contiguous. For each such stretch,
    # count the choices of every expert; gather these counts, and sum the counts of the preceding
    # stretches.
    last = sharded[-1]
    rank, counts = rank_among_equals(
        by_group.reshape(groups * choices * math.prod(sizes[:last]), -1), experts
    )
    stretches = (groups, choices, *sizes[:last], 1)
    counts = whole = counts.reshape(*stretches, experts)
    for i in sharded:
        whole = comm.all_gather(whole, 2 + i, placement[i], "varying")
    flat = whole.reshape(groups, -1, experts)
    before = (jnp.cumsum(flat, 1, dtype=flat.dtype) - flat).reshape(whole.shape)
    for i in sharded:
        before = comm.cut(before, 2 + i, placement[i])
    before = before.reshape(-1, experts)
    rank = rank.reshape(len(before), -1)
    # A choice of no expert reads an irrelevant number.
    rank = rank + jnp.take_along_axis(before, by_group.reshape(rank.shape), 1, mode="clip")
    return jnp.moveaxis(rank.reshape(by_group.shape), 0, 1)


# --- transfers between devices --------------------------------------------------------------------


class Exchange(Record):
    """A plan to send slots from the devices of the tokens to the devices of the experts, and back.

    Attributes:
      experts: the number of experts, including padding.
      sizes: the number of devices along each mesh axis of the experts, major first.
      own: the mesh axes along which the tokens are replicated; each device takes the slots of its
        own experts.
      exchanged: the mesh axes that shard the groups of tokens; they need an all-to-all.
      summed: the mesh axes that shard the tokens of one group; devices fill different slots, which
        are summed.
      cut: the mesh axes that shard the tokens of one group, but not the experts; the sum of the
        slots is scattered over them.
      cut_size: the number of devices along the mesh axes `cut`.
    """

    experts: int
    sizes: tuple[tuple[str, int], ...] = ()
    own: MeshAxes = ()
    exchanged: MeshAxes = ()
    summed: MeshAxes = ()
    cut: MeshAxes = ()
    cut_size: int = 1

    def blocks(self, axes: MeshAxes) -> int:
        """Return the number of devices along some of the mesh axes of the experts."""
        return math.prod(n for axis, n in self.sizes if axis in axes)

    @property
    def inner(self) -> int:
        """Return the number of experts of one device."""
        return self.experts // math.prod(n for _, n in self.sizes)

    @property
    def count(self) -> int:
        """Return the number of experts for which one device has slots before the exchange."""
        return self.experts // self.blocks(self.own)

    def number(self, index: jax.Array) -> jax.Array:
        """Return the index of experts among the experts with slots on this device.

        It is `count` for the other experts.
        """
        # The values for numbers out of range are irrelevant: they are not `here`.
        within, rest = divided(index, self.inner)
        digits = {}
        for i, (axis, n) in reversed(list(enumerate(self.sizes))):
            digits[axis], rest = divided(rest, n) if i else (rest, rest)
        at = jnp.zeros_like(index)
        for axis, n in self.sizes:
            if axis in self.exchanged:
                at = at * n + digits[axis]
        for axis, n in self.sizes:
            if axis in self.summed:
                at = at * n + digits[axis]
        here = (index >= 0) & (index < self.experts)
        for axis in self.own:
            here &= digits[axis] == comm.block_index((axis,)).astype(index.dtype)
        return jnp.where(here, at * self.inner + within, self.count)

    def send(self, data: jax.Array) -> jax.Array:
        """Send slots `[count, slots, features]` to the devices of the experts.

        There they are `[inner, more slots, features]`.
        """
        n, m = self.blocks(self.exchanged), self.blocks(self.summed)
        data = data.reshape(n, m, self.inner, *data.shape[1:])
        if self.summed:
            data = comm.psum_scatter(data, 1, self.summed)
        if self.cut:
            data = comm.psum_scatter(data, 3, self.cut)
        if self.exchanged:
            data = comm.all_to_all(data, 0, 3, self.exchanged)
        return data.reshape(data.shape[2:])

    def back(self, data: jax.Array) -> jax.Array:
        """Reverse `send`."""
        data = data[None, None]
        if self.exchanged:
            data = comm.all_to_all(data, 3, 0, self.exchanged)
        if self.cut:
            data = comm.all_gather(data, 3, self.cut, "varying")
        if self.summed:
            data = comm.all_gather(data, 1, self.summed, "varying")
        return data.reshape(self.count, *data.shape[3:])
