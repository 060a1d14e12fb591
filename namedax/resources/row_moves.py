"""Communication of single rows of a sharded axis: `move_rows` and its planner.

The rows that each device needs are static while the body is traced. Rows that stay on their
device cost nothing. Other rows are sent in as few collective-permutes as the traffic allows, or in
one all-to-all. A roll by one sends one row, a convolution sends its halo, and a flip sends the
blocks. A permutation sends the rows that change devices. The axis is never gathered.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from namedax.core.element_types import weak_as
from namedax.core.names import MeshAxes
from namedax.core.records import Record
from namedax.core.variance import cast_data, varying
from namedax.resources import communication as comm

__all__ = ["FILL", "Message", "Plan", "along_dim", "move_rows", "plan_rows", "rows_of_blocks"]

Pair = tuple[int, int]
FILL = -1  # in a table of rows: the fill value instead of a row
_SLICES = (
    8  # the maximum number of runs of rows that are sliced; otherwise rows are taken one by one
)


def rows_of_blocks(
    sources: Sequence[int],
    sizes: tuple[int, ...],
    blocks: tuple[int, ...],
    devices: tuple[int, ...],
) -> np.ndarray:
    """Return the rows that each device needs for `result[i] = x[sources[i]]`.

    The devices are row-major over sharded axes.

    Rows are numbered block by block and device by device, as in `move_rows` for flattened blocks.
    Padding needs no rows.

    Args:
      sources: the index in the operand for every index of the result, or -1 for no row.
      sizes: the global sizes of the axes.
      blocks: the block sizes of the axes.
      devices: the number of blocks of each axis.
    """
    source = np.asarray(sources, int)  # an empty sequence would become floats
    row = np.zeros(len(source), int)
    count = math.prod(devices)
    device = offset = np.zeros(len(source), int)
    for g, many, block in zip(
        np.unravel_index(np.arange(len(source)), sizes), devices, blocks, strict=True
    ):
        device, offset = device * many + g // block, offset * block + g % block
    row = device * math.prod(blocks) + offset
    wanted = np.full(count * math.prod(blocks), FILL)
    wanted[row] = np.where(source < 0, FILL, row[source])
    return wanted.reshape(count, -1)


def move_rows(
    data: jax.Array, dim: int, mesh_axes: MeshAxes, rows: np.ndarray, fill: jax.typing.ArrayLike = 0
) -> jax.Array:
    """Gather the rows of a sharded dimension that this device needs.

    Args:
      data: the block of this device. Dimension `dim` is sharded evenly over `mesh_axes`.
      dim: the sharded dimension.
      mesh_axes: the mesh axes of the dimension, major first.
      rows: integers of shape (devices, rows per device): the global rows of each result, in order,
        or `FILL`. Rows may occur more than once.
      fill: the fill value. Default: 0.

    Communication: each row is sent once to each device that needs it and does not have it. Shorter
    messages in a collective are padded.
    """
    if comm.is_keys(data):
        return comm.over_words(lambda words: move_rows(words, dim, mesh_axes, rows), data)
    data = cast_data(data, mesh_axes)
    plan = plan_rows(rows, data.shape[dim], isinstance(fill, int) and fill == 0)
    pieces = []
    for message in plan.messages:
        sent = _read([data], dim, message.rows, mesh_axes)
        if message.pairs is None:
            pieces.append(comm.all_to_all(sent, dim, dim, mesh_axes))
        else:
            pieces.append(comm.ppermute(sent, mesh_axes, list(message.pairs)))
    pieces.insert(plan.before, data)
    return weak_as(_read(pieces, dim, plan.read, mesh_axes, fill), data)


def along_dim(values: jax.Array, dim: int, ndim: int) -> jax.Array:
    """Reshape a vector to `ndim` dimensions, along dimension `dim`."""
    return values.reshape((1,) * dim + (-1,) + (1,) * (ndim - dim - 1))


# --- the plan -------------------------------------------------------------------------------------


class Message(Record):
    """One collective: the rows that each device sends, and the pairs (`None`: an all-to-all)."""

    rows: np.ndarray
    pairs: tuple[Pair, ...] | None


class Plan(Record):
    """A plan to move rows: the messages, and the positions at which each device reads its rows.

    `read[device, i]` is a position in the concatenation of all received pieces, with the device's
    own block after the first `before` pieces. `FILL` is the fill value.
    """

    messages: tuple[Message, ...]
    read: np.ndarray
    before: int = 0


def plan_rows(rows: np.ndarray, block: int, fills_zero: bool) -> Plan:
    """Plan the communication of `move_rows`.

    Args:
      rows: as for `move_rows`.
      block: the number of rows in a block.
      fills_zero: if True, the fill value is zero. A device without a sender in a permute receives
        zeros.
    """
    table = np.ascontiguousarray(rows, np.int64)
    return _plan(table.tobytes(), table.shape, block, fills_zero)


@functools.lru_cache(maxsize=512)
def _plan(table: bytes, shape: tuple[int, int], block: int, fills_zero: bool) -> Plan:
    """Plan the communication for a table of rows of the given shape.

    All rows between two devices are in one message. A group of pairs in which each device sends
    once and receives once is one permute. If there are more than two groups, and an all-to-all does
    not send more than twice the bytes, the plan is one all-to-all.
    """
    rows = np.frombuffer(table, np.int64).reshape(shape)
    count = len(rows)
    owner = np.where(rows < 0, -1, rows // max(block, 1))
    read = np.where(owner == np.arange(count)[:, None], rows - owner * block, FILL)
    edges: dict[Pair, np.ndarray] = {}
    where: dict[Pair, tuple[np.ndarray, np.ndarray]] = {}
    for target in range(count):
        for source in np.unique(owner[target]):
            if source not in (-1, target):
                places = np.flatnonzero(owner[target] == source)
                pair = (int(source), target)
                edges[pair], slots = np.unique(
                    rows[target, places] - source * block, return_inverse=True
                )
                where[pair] = places, slots
    groups = _groups(list(edges), count)
    widths = [max(len(edges[pair]) for pair in group) for group in groups]
    most = max(map(len, edges.values()), default=0)
    if len(groups) > 2 and count * most <= 2 * sum(widths):
        sent = np.full((count, count * most), FILL)
        for (source, target), (places, slots) in where.items():
            sent[source, target * most : target * most + len(edges[source, target])] = edges[
                source, target
            ]
            read[target, places] = block + source * most + slots
        return Plan((Message(_complete(sent), None),), read)
    # Pieces in the order of the axis, as far as possible, so that adjacent rows stay adjacent.
    order = sorted(
        zip(groups, widths, strict=True),
        key=lambda each: float(np.median([s - t for s, t in each[0]])),
    )
    before = sum(width for group, width in order if np.median([s - t for s, t in group]) < 0)
    read, own, start = np.where(read < 0, FILL, read + before), before, 0
    messages, heard = [], list[tuple[range, set[int]]]()
    for group, width in order:
        start += block if start == own else 0
        sent = np.full((count, width), FILL)
        for source, target in group:
            places, slots = where[source, target]
            first = width - len(edges[source, target]) if source < target else 0
            sent[source, first : first + len(edges[source, target])] = edges[source, target]
            read[target, places] = start + first + slots
        messages.append(Message(_complete(sent), tuple(sorted(group))))
        heard.append((range(start, start + width), {target for _, target in group}))
        start += width
    before_own = sum(1 for places, _ in heard if places.start < own)
    return Plan(
        tuple(messages), _zeros_as_others_read(read, heard) if fills_zero else read, before_own
    )


def _groups(pairs: list[Pair], count: int) -> list[list[Pair]]:
    """Group the pairs so that each device sends at most once and receives at most once per group.

    The groups are cyclic shifts, or the colors of an edge coloring, which needs no more groups than
    one device has partners.
    """
    shifts: dict[int, list[Pair]] = {}
    for s, t in pairs:
        shifts.setdefault((t - s) % count, []).append((s, t))
    partners = (
        max((int(np.bincount([pair[side] for pair in pairs]).max()) for side in (0, 1)), default=0)
        if pairs
        else 0
    )
    return list(shifts.values()) if len(shifts) <= partners else _coloured(pairs, partners)


def _coloured(pairs: list[Pair], colours: int) -> list[list[Pair]]:
    # Edge coloring of a bipartite graph: sender and receiver each have a free color. If these
    # differ, swap the two colors along the path that starts at the receiver. The path never reaches
    # the sender, which has no edge of the first color.
    tables: tuple[dict[int, dict[int, int]], dict[int, dict[int, int]]] = ({}, {})
    for s, t in pairs:
        mine, its = tables[0].setdefault(s, {}), tables[1].setdefault(t, {})
        a = next(c for c in range(colours) if c not in mine)
        if a in its:
            b = next(c for c in range(colours) if c not in its)
            path = []
            node, side, colour = t, 1, a
            while colour in tables[side][node]:
                other = tables[side][node][colour]
                path.append((node, other, side, colour))
                node, side, colour = other, 1 - side, b if colour == a else a
            for node, other, side, colour in path:
                del tables[side][node][colour], tables[1 - side][other][colour]
            for node, other, side, colour in path:
                swapped = b if colour == a else a
                tables[side][node][swapped] = other
                tables[1 - side][other][swapped] = node
        mine[a], its[a] = t, s
    groups: dict[int, list[Pair]] = {}
    for s, row in tables[0].items():
        for colour, t in row.items():
            groups.setdefault(colour, []).append((s, t))
    return [groups[colour] for colour in sorted(groups)]


def _complete(table: np.ndarray) -> np.ndarray:
    """Replace `FILL`, where any row will do, by the row of the first device that sends one.

    Devices then slice the same rows where possible.
    """
    first = np.argmax(table >= 0, 0)
    known = table[first, np.arange(table.shape[1])]
    return np.where(table < 0, np.maximum(known, 0), table)


def _zeros_as_others_read(read: np.ndarray, heard: list[tuple[range, set[int]]]) -> np.ndarray:
    """Replace `FILL` by positions that hold zeros, since a permute sends zeros to others."""
    read = read.copy()
    for j in np.flatnonzero((read < 0).any(0)):
        known = [int(value) for value in np.unique(read[:, j]) if value >= 0]
        for device in np.flatnonzero(read[:, j] < 0):
            silent = (
                v for v in known for where, targets in heard if v in where and device not in targets
            )
            read[device, j] = next(silent, FILL)
    return read


# --- its execution --------------------------------------------------------------------------------


def _read(
    pieces: Sequence[jax.Array],
    dim: int,
    table: np.ndarray,
    axes: MeshAxes,
    fill: jax.typing.ArrayLike = 0,
) -> jax.Array:
    """Read the rows `table[this device]` of the concatenated pieces."""
    starts = np.cumsum([0] + [piece.shape[dim] for piece in pieces])
    variance = frozenset[str]().union(*map(varying, pieces))
    shape, dtype = pieces[0].shape, pieces[0].dtype

    def filled(length: int) -> jax.Array:
        return cast_data(jnp.full((*shape[:dim], length, *shape[dim + 1 :]), fill, dtype), variance)

    def mine(values: np.ndarray) -> jax.Array | np.ndarray:
        return (
            values[0]
            if (values == values[0]).all()
            else jnp.asarray(values)[comm.block_index(axes)]
        )

    def one_by_one(columns: np.ndarray) -> jax.Array:
        every = [*pieces, *([filled(1)] if (columns < 0).any() else [])]
        whole = (
            every[0]
            if len(every) == 1
            else lax.concatenate([cast_data(piece, variance) for piece in every], dim)
        )
        index = mine(np.where(columns < 0, starts[-1], columns))
        whole = whole if isinstance(index, np.ndarray) else cast_data(whole, varying(index))
        return jnp.take(whole, index, axis=dim, mode="clip")

    def run(begin: int, end: int) -> jax.Array:
        columns = table[:, begin:end]
        known = columns.max(0)
        if known[0] < 0:
            return filled(end - begin)
        if ((columns != known) & (columns >= 0)).any():
            if (columns < 0).any() or (np.diff(columns) != 1).any():
                return one_by_one(columns)
            whole = lax.concatenate([cast_data(piece, variance) for piece in pieces], dim)
            return lax.dynamic_slice_in_dim(whole, mine(columns[:, 0]), end - begin, dim)
        low = int(known.min())
        high = int(known.max())
        piece = int(np.searchsorted(starts, known[0], side="right")) - 1
        part = lax.slice_in_dim(
            pieces[piece], low - int(starts[piece]), high + 1 - int(starts[piece]), axis=dim
        )
        if len(known) > 1 and known[0] > known[1]:
            part = lax.rev(part, (dim,))
        part = jnp.broadcast_to(part, (*shape[:dim], end - begin, *shape[dim + 1 :]))
        return (
            part
            if (columns[:, 0] >= 0).all()
            else jnp.where(mine(columns[:, 0] >= 0), part, filled(end - begin))
        )

    runs = _runs(table, starts)
    parts = (
        [filled(0)]
        if not table.shape[1]
        else [one_by_one(table)]
        if runs is None
        else [run(*each) for each in runs]
    )
    return (
        parts[0]
        if len(parts) == 1
        else lax.concatenate([cast_data(part, variance) for part in parts], dim)
    )


def _runs(table: np.ndarray, starts: np.ndarray) -> list[Pair] | None:
    """Return ranges of columns that each device can read as one slice or as fill values.

    The result is `None` if there are too many.

    A slice can run forward, run backward or repeat one row. Adjacent columns in which devices read
    different rows form one range.
    """
    known, missing = table.max(0), table < 0
    differ = ((table != known) & ~missing).any(0)
    piece = np.searchsorted(starts, known, side="right")
    step = np.diff(known)
    alike = (
        (differ[1:] == differ[:-1])
        & (piece[1:] == piece[:-1])
        & (missing[:, 1:] == missing[:, :-1]).all(0)
    )
    begins = np.ones(table.shape[1], bool)
    begins[1:] = ~np.where(
        differ[1:] & differ[:-1], True, alike & ((np.abs(step) <= 1) | (known[1:] < 0))
    )
    hard = begins.copy()
    turns = np.flatnonzero(~hard[2:] & (step[1:] != step[:-1]) & ~differ[2:]) + 2
    if begins.sum() + len(turns) > 4 * _SLICES:
        return None
    # A new step starts a run, unless the run started at the previous column and has no step yet.
    for i in turns:
        begins[i] = not begins[i - 1]
    edges = [*np.flatnonzero(begins).tolist(), table.shape[1]]
    return list(itertools.pairwise(edges)) if len(edges) <= _SLICES + 1 else None
