"""Sorting along a sharded axis: columnsort, or a network of pairs of devices.

Columnsort (Leighton, 1985) treats the blocks as columns of a matrix, sorts each, transposes the
matrix by an all-to-all, sorts, transposes back, sorts, and sorts once more across the borders of
neighbors. A device sends less than three blocks for any number of devices. It is correct if a block
has at least `2 * (devices - 1) ** 2` elements.

For shorter blocks and for two devices, every device sorts its block. Then pairs of devices exchange
their blocks, and one keeps the lower half of the two, the other the upper half. This repeats in the
rounds of a sorting network over the devices. Batcher's merge exchange has 1 round for 2 devices, 3
for 4, 6 for 8; about half of the square of the logarithm. A round is one collective-permute of the
block.

A device stores two blocks at a time, never the axis. If ties matter, the global index accompanies
the values and decides, so that the result equals the stable one of `jnp` for every sharding.

An exchange with a free dimension sends fewer bytes (`cheaper_exchange`). Sorting over devices is
for arrays without one.

Padding follows all elements, including NaN, so it remains on the last devices, and each device can
compute the padding of the others. It is the first sort key of the network, which is not sent.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from namedax.core.element_types import weak_as
from namedax.core.names import DType
from namedax.core.padded_sharding import Uneven
from namedax.core.records import Record
from namedax.core.region import ambient
from namedax.core.variance import cast_data, varying
from namedax.ops.reduction.plan import ReductionPlan
from namedax.resources import communication as comm
from namedax.resources.exchange import Exchange
from namedax.resources.mesh import replicated
from namedax.resources.padding_masks import is_real, real_blocks, refilled
from namedax.resources.serial import count_along, reject_loops

__all__ = [
    "cheaper_exchange",
    "global_positions",
    "merge_exchange",
    "run_complete",
    "sort_blocks",
    "sort_local",
    "sort_values",
]

T = TypeVar("T")


@functools.lru_cache(maxsize=64)
def merge_exchange(n: int) -> tuple[tuple[tuple[int, int], ...], ...]:
    """Return the rounds of Batcher's merge exchange network for `n` inputs.

    In a round no input is in two pairs.

    >>> from namedax.ops.sorting.network import merge_exchange
    >>> merge_exchange(2), [len(merge_exchange(n)) for n in (1, 3, 4, 8, 16)]
    ((((0, 1),),), [0, 3, 3, 6, 10])
    """
    rounds = []
    top = 1 << max((n - 1).bit_length() - 1, 0)
    p = top
    while n > 1 and p > 0:
        q, rest, distance = top, 0, p
        while True:
            rounds.append(tuple((i, i + distance) for i in range(n - distance) if i & p == rest))
            if q == p:
                break
            distance, q, rest = q - p, q // 2, p
        p //= 2
    return tuple(rounds)


def cheaper_exchange(
    plan: ReductionPlan, sorted_bytes: int, there: int, back: int = 0
) -> Exchange | None:
    """Return an exchange with a free dimension, if it sends no more than `sort_blocks`.

    Args:
      plan: the plan of the axes to sort.
      sorted_bytes: the bytes of one element of all operands of `sort_blocks`.
      there: the bytes of one element that an exchange sends on the way there.
      back: those on the way back; by default 0.
    """
    if (exchange := plan.exchange()) is None:
        return None
    sent = _sent_blocks(plan.place, plan.data.shape[plan.axes[0]])
    return exchange if exchange.blocks(there, back) <= sent * sorted_bytes else None


def _sorting_devices(axes: tuple[str, ...], block: int) -> int:
    """Return the number of devices with elements."""
    if isinstance(axes, Uneven):
        return real_blocks(axes, block)
    return count_along(axes)


def sort_blocks(
    operands: Sequence[jax.Array],
    dim: int,
    axes: tuple[str, ...],
    num_keys: int,
    last_first: bool = False,
) -> list[jax.Array]:
    """Sort along `dim` over all blocks, ascending.

    With `last_first` the first device gets the largest elements.

    If `axes` has padding in the last blocks, it follows all elements; with `last_first` it precedes
    them.

    Operands that are not keys may have more dimensions than the keys, behind these.
    """
    operands = [cast_data(operand, axes) for operand in operands]
    sort = _by_columns if _has_long_columns(axes, operands[0].shape[dim]) else _by_network
    return sort(operands, dim, axes, num_keys, last_first)


def _has_long_columns(axes: tuple[str, ...], block: int) -> bool:
    """Return True if columnsort is correct for these blocks, and sends less than the network."""
    devices = count_along(axes)
    return (
        devices > 2
        and not isinstance(axes, Uneven)
        and block % devices == 0
        and block % 2 == 0
        and block >= 2 * (devices - 1) ** 2
    )


def _sent_blocks(axes: tuple[str, ...], block: int) -> float:
    """Return the number of blocks that `sort_blocks` sends of each operand."""
    devices = count_along(axes)
    if _has_long_columns(axes, block):
        return 2 * (devices - 1) / devices + 1
    return len(merge_exchange(_sorting_devices(axes, block)))


def _by_columns(
    operands: list[jax.Array],
    dim: int,
    axes: tuple[str, ...],
    num_keys: int,
    last_first: bool,
) -> list[jax.Array]:
    """Sort by columnsort: the blocks of the devices are the columns of a matrix."""
    devices, block = count_along(axes), operands[0].shape[dim]
    place = comm.block_index(tuple(axes))
    column = devices - 1 - place if last_first else place

    def in_order(parts: jax.Array, at: int) -> jax.Array:
        return lax.rev(parts, [at]) if last_first else parts

    def split(data: jax.Array, *sizes: int) -> jax.Array:
        return data.reshape((*data.shape[:dim], *sizes, *data.shape[dim + 1 :]))

    def dealt(data: jax.Array) -> jax.Array:
        """Write the matrix row by row, which was read column by column."""
        parts = in_order(split(data, 1, block // devices, devices), dim + 2)
        parts = comm.all_to_all(parts, dim + 2, dim, axes)
        return in_order(parts, dim).reshape(data.shape)

    def collected(data: jax.Array) -> jax.Array:
        """Write the matrix column by column, which was read row by row."""
        parts = in_order(split(data, devices, block // devices, 1), dim)
        parts = comm.all_to_all(parts, dim, dim + 2, axes)
        return in_order(parts, dim + 2).reshape(data.shape)

    def to_neighbor(data: jax.Array, by: int) -> jax.Array:
        pairs = [(i, i + by) for i in range(devices) if 0 <= i + by < devices]
        return comm.ppermute(data, tuple(axes), pairs)

    def halves(data: jax.Array) -> tuple[jax.Array, jax.Array]:
        first, second = jnp.split(data, 2, dim)
        return first, second

    def sorted_columns(operands: Sequence[jax.Array]) -> list[jax.Array]:
        return _sorted(operands, dim, num_keys, [])

    operands = sorted_columns(operands)
    operands = sorted_columns([dealt(data) for data in operands])
    operands = sorted_columns([collected(data) for data in operands])
    # Elements are at most half a column away from their places: sort across the borders.
    by = -1 if last_first else 1
    own = [halves(data) for data in operands]
    across = sorted_columns(
        [lax.concatenate([to_neighbor(low, by), high], dim) for high, low in own]
    )
    moved = [halves(data) for data in across]
    return [
        lax.concatenate(
            [
                jnp.where(column == 0, high, after),
                jnp.where(column == devices - 1, low, to_neighbor(before, -by)),
            ],
            dim,
        )
        for (high, low), (before, after) in zip(own, moved, strict=True)
    ]


def _by_network(
    operands: list[jax.Array],
    dim: int,
    axes: tuple[str, ...],
    num_keys: int,
    last_first: bool,
) -> list[jax.Array]:
    block = operands[0].shape[dim]
    operands = _sorted(
        operands, dim, num_keys, _padding_first(operands[0], dim, axes, None, last_first)
    )
    devices = count_along(axes)
    sorting = _sorting_devices(axes, block)
    place = comm.block_index(tuple(axes))
    for pairs in merge_exchange(sorting) if block else ():
        if last_first:
            pairs = tuple((sorting - 1 - i, sorting - 1 - j) for i, j in pairs)
        takes_low = np.zeros(devices, bool)
        takes_part = np.zeros(devices, bool)
        for low, high in pairs:
            takes_low[low] = takes_part[low] = takes_part[high] = True
        exchange = [*pairs, *((j, i) for i, j in pairs)]
        both = [
            lax.concatenate([mine, comm.ppermute(mine, tuple(axes), exchange)], dim)
            for mine in operands
        ]
        merged = _sorted(
            both, dim, num_keys, _padding_first(operands[0], dim, axes, exchange, last_first)
        )
        part = jnp.asarray(takes_part)[place]
        start = jnp.where(jnp.asarray(takes_low)[place], 0, block)
        operands = [
            jnp.where(part, lax.dynamic_slice_in_dim(new, start, block, dim), mine)
            for new, mine in zip(merged, operands, strict=True)
        ]
    return operands


def sort_together(
    keys: Sequence[jax.Array],
    rows: Sequence[jax.Array],
    dim: int,
    descending: bool,
    axes: tuple[str, ...] = (),
    index: jax.Array | None = None,
) -> list[jax.Array]:
    """Sort keys and rows along `dim` by the keys, over all blocks; return them in this order.

    Args:
      keys: arrays of one shape; the first one decides first.
      rows: arrays with the dimensions of the keys, and maybe more behind these.
      dim: the dimension.
      descending: if `True`, sort from the largest key.
      axes: the mesh axes of the dimension; by default none.
      index: the global positions, by which equal keys keep their order over devices. By default
        none: they keep it without `axes` only.
    """

    def turned(datas: Sequence[jax.Array]) -> list[jax.Array]:
        return [lax.rev(data, [dim]) for data in datas] if descending else list(datas)

    if not axes:
        return turned(_sorted(turned([*keys, *rows]), dim, len(keys), []))
    ties = [] if index is None else [-index if descending else index]
    count = len(keys) + len(ties)
    operands = sort_blocks([*keys, *ties, *rows], dim, axes, count, descending)
    return turned([*operands[: len(keys)], *operands[count:]])


def run_complete(
    plan: ReductionPlan,
    exchange: Exchange | None,
    of_complete: Callable[..., T],
    of_blocks: Callable[..., T],
    *datas: jax.Array,
) -> T:
    """Run a function along the axis of a plan: complete, after an exchange, or over devices.

    Args:
      plan: the plan of one axis.
      exchange: the exchange with a free dimension; `None` for none.
      of_complete: the function of arrays with the complete axis.
      of_blocks: the function of their blocks, if the axis is sharded and there is no exchange.
      datas: the blocks.
    """
    if exchange is not None:
        return exchange.run(of_complete, *datas)
    if not plan.mesh_axes:
        return of_complete(*datas)
    (dim,) = plan.axes
    return jax.tree.map(lambda data: refilled(data, dim, plan.place), of_blocks(*datas))


def _padding_first(
    data: jax.Array,
    dim: int,
    axes: tuple[str, ...],
    exchange: Sequence[tuple[int, int]] | None,
    last_first: bool,
) -> list[jax.Array]:
    """Return a key that sorts padding last, or first with `last_first`; none without padding.

    It is for one block, or with `exchange` for a pair.
    """
    if not isinstance(axes, Uneven):
        return []
    keys = [is_real(data.shape, dim, axes)]
    if exchange is not None:
        partner = np.arange(count_along(axes))
        for source, target in exchange:
            partner[target] = source
        at = jnp.asarray(partner)[comm.block_index(tuple(axes))]
        keys.append(is_real(data.shape, dim, axes, at))
        if last_first:  # in sorted blocks padding comes first
            keys = [lax.rev(key, [dim]) for key in keys]
    key = jnp.concatenate([jnp.broadcast_to(key, data.shape) for key in keys], dim)
    return [cast_data(key if last_first else ~key, varying(data))]


def _sorted(
    operands: Sequence[jax.Array], dim: int, num_keys: int, first: list[jax.Array]
) -> list[jax.Array]:
    """Sort operands by their keys, preceded by others; drop these."""
    ndim, count = operands[0].ndim, len(first) + num_keys
    narrow = [operand for operand in operands if operand.ndim == ndim]
    if len(narrow) == len(operands):
        return list(lax.sort([*first, *operands], dimension=dim, num_keys=count))[len(first) :]
    index = lax.broadcasted_iota(jnp.int32, narrow[0].shape, dim)
    index = cast_data(index, varying(narrow[0]))
    *results, order = lax.sort([*first, *narrow, index], dimension=dim, num_keys=count)
    ordered = iter(results[len(first) :])

    def rows(data: jax.Array) -> jax.Array:
        return jnp.take_along_axis(data, lax.expand_dims(order, range(ndim, data.ndim)), dim)

    return [next(ordered) if operand.ndim == ndim else rows(operand) for operand in operands]


def global_positions(plan: ReductionPlan, dtype: DType) -> jax.Array:
    """Return the row-major index along the axes of the plan, in the shape of `plan.data`."""
    region = ambient()
    index: Any = jnp.zeros((), dtype)
    for axis in sorted(plan.axes):
        n: Any = plan.data.shape[axis]
        mine: Any = lax.broadcasted_iota(dtype, plan.data.shape, axis)
        dim = plan.dims_in[axis]
        placement = (
            region.place(dim) if region is not None and dim is not None and plan.mesh_axes else ()
        )
        if placement:
            mine = mine + comm.block_index(tuple(placement)).astype(dtype) * n
            n *= region.mesh_axis_size(placement)  # type: ignore[union-attr]
        index = index * n + mine
    return jnp.broadcast_to(index, plan.data.shape)


def sort_local(
    data: jax.Array, dim: int, stable: bool = True, descending: bool = False
) -> jax.Array:
    """Sort the values along a dimension of the block.

    In a body, results of inner mapped functions are sharded over Explicit axes that the body does
    not map, also along other dimensions. The derivative of a sort of them fails in JAX before 0.12,
    so they are gathered there.
    """
    if jax.__version_info__ < (0, 12) and ambient() is not None:
        data = replicated(data)
    return jnp.sort(data, dim, stable=stable, descending=descending)


def sort_values(
    data: jax.Array, index: jax.Array, dim: int, axes: tuple[str, ...], last_first: bool
) -> jax.Array:
    """Sort the values over all blocks, with -0.0 and 0.0 as equal in their order.

    Only a derivative sends the index.
    """
    if not jnp.issubdtype(data.dtype, jnp.inexact):
        return sort_blocks((data,), dim, axes, 1, last_first)[0]
    reject_loops(tuple(axes), data)  # the error names the type of the data, not of the keys

    @jax.custom_jvp
    def values(data: jax.Array, index: jax.Array) -> jax.Array:
        keys = _Keys.of(data, dim, axes)
        if keys is None:
            return sort_blocks((data, index), dim, axes, 2, last_first)[0]
        return keys.decode(sort_blocks((keys.encode(data, index),), dim, axes, 1, last_first)[0])

    @values.defjvp
    def _jvp(
        primals: tuple[jax.Array, jax.Array], tangents: tuple[jax.Array, jax.Array]
    ) -> tuple[jax.Array, jax.Array]:
        data, index = primals
        return jax.jvp(
            lambda data: sort_blocks((data, index), dim, axes, 2, last_first)[0],
            (data,),
            tangents[:1],
        )

    return weak_as(values(data, index), data)


class _Keys(Record):
    """Integers in the order of floats, with a separate value for each zero among `n` elements.

    The zeros follow in their order. Floats are ordered like their bits (see
    `communication.in_order`). All NaN become one, and `2 * n` of the freed integers represent
    zeros. The zero of element `i` becomes `2 * i - n` if it is negative, and the next integer if it
    is not.
    """

    dtype: np.dtype
    wide: np.dtype
    n: int

    @classmethod
    def of(cls, data: jax.Array, dim: int, axes: tuple[str, ...]) -> _Keys | None:
        """Return the keys of the narrowest dtype with enough integers; `None` if there is none."""
        if not jnp.issubdtype(data.dtype, jnp.floating):
            return None
        n = data.shape[dim] * count_along(axes)
        for wide in (data.dtype, jnp.dtype(jnp.float32)):
            # The NaN of one sign except one; 8-bit floats have none.
            spare = 2 ** int(jnp.finfo(wide).nmant) - 2 if jnp.finfo(wide).bits >= 16 else 0
            if n <= spare:
                return cls(data.dtype, wide, n)
        return None

    def encode(self, data: jax.Array, index: jax.Array) -> jax.Array:
        """Convert floats with these positions to keys."""
        bits = jnp.dtype(f"int{jnp.finfo(self.wide).bits}")
        ordered = comm.to_ordered_bits(data.astype(self.wide), bits, nan_is_last=True)
        n, last = bits.type(self.n), jnp.iinfo(bits).max
        zero = 2 * index.astype(bits) - n + (ordered == 0).astype(bits)
        moved = jnp.where(
            ordered == last, ordered, jnp.where(ordered > 0, ordered + n, ordered - n)
        )
        return jnp.where((ordered == 0) | (ordered == -1), zero, moved)

    def decode(self, keys: jax.Array) -> jax.Array:
        """Convert keys to floats."""
        n, last = keys.dtype.type(self.n), jnp.iinfo(keys.dtype).max
        zero = (keys + n) % 2 - 1  # -1 are the ordered bits of -0.0
        moved = jnp.where(keys == last, keys, jnp.where(keys > 0, keys - n, keys + n))
        ordered = jnp.where((keys >= -n) & (keys < n), zero, moved)
        return comm.from_ordered_bits(ordered, self.wide).astype(self.dtype)
