"""Which rows of a sharded axis each device needs: `move_rows` gives every device the rows that it asks for.

It cuts the wanted rows into runs that come from one device each, copies those that are at home, and sends the others, so many at a time
as can travel in one collective-permute. A roll by one sends one row, a convolution its halo, a flip the blocks; the axis is never gathered.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from namedax.core.variance import cast_data, varying
from namedax.resources import communication as comm

__all__ = ["FILL", "along_dim", "move_rows"]

Axes = tuple[str, ...]
FILL = -1  # in a map of rows: no row, but the fill value


# --- moving rows between blocks -------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class _Run:
    """Rows that one device sends to another: `length` rows from `start` in steps of `step` (1, 0 or -1) to `at`."""

    source: int
    start: int
    step: int
    target: int
    at: int
    length: int

    @property
    def sent(self) -> int:
        """How many rows travel: of a repeated row only one does."""
        return 1 if self.step == 0 else self.length

    @property
    def lowest(self) -> int:
        """The first of these rows in the block."""
        return self.start - (self.length - 1 if self.step < 0 else 0)


def _runs(rows: np.ndarray, block: int) -> list[_Run]:
    """Cuts a map `rows[device, i]` of global rows into runs."""
    runs = []
    for target, wanted in enumerate(rows):
        n = len(wanted)
        if not n:
            continue
        step = np.diff(wanted)
        hard = np.ones(n, bool)  # a new run begins here in any case
        same_source = wanted[1:] // block == wanted[:-1] // block
        hard[1:] = ~same_source | (np.abs(step) > 1) | (wanted[1:] < 0) | (wanted[:-1] < 0)
        begins = hard.copy()
        # Another step begins a run, unless the run has begun just before, and has no step yet.
        for i in np.flatnonzero(~hard[2:] & (step[1:] != step[:-1])) + 2:
            begins[i] = not begins[i - 1]
        starts = np.flatnonzero(begins)
        for start, end in zip(starts, [*starts[1:], n], strict=True):
            first = int(wanted[start])
            if first >= 0:
                direction = int(wanted[start + 1]) - first if end - start > 1 else 1
                runs.append(_Run(first // block, first % block, direction, target, int(start), int(end - start)))
    return runs


@dataclasses.dataclass(frozen=True)
class _Round:
    """Runs of one step with different sources and different targets: one collective-permute, or copies at home."""

    runs: tuple[_Run, ...]
    at_home: bool

    @property
    def step(self) -> int:
        return self.runs[0].step

    @property
    def length(self) -> int:
        return max(run.length for run in self.runs)

    @property
    def sent(self) -> int:
        """Rows that a device sends."""
        return 0 if self.at_home else max(run.sent for run in self.runs)


def _rounds(runs: Sequence[_Run], key: Callable[[_Run], Any]) -> list[_Round]:
    """Puts runs with equal keys together, as many as there are different sources and targets."""
    groups: dict[Any, list[list[_Run]]] = {}
    for run in sorted(runs, key=lambda run: (-run.length, run.target, run.at)):
        bins = groups.setdefault(key(run), [])
        for members in bins:
            if all(run.source != other.source and run.target != other.target for other in members):
                members.append(run)
                break
        else:
            bins.append([run])
    return [_Round(tuple(members), all(r.source == r.target for r in members)) for bins in groups.values() for members in bins]


def _schedule(rows: np.ndarray, block: int) -> tuple[list[_Round], bool]:
    """The rounds of a map, and whether their pieces are at the same places on all devices (static slices suffice)."""
    runs = _runs(rows, block)
    regular = _rounds(runs, lambda run: (run.start, run.step, run.at, run.length))
    intervals = sorted({(run.at, run.at + run.length) for run in runs})
    disjoint = all(end <= begin for (_, end), (begin, _) in itertools.pairwise(intervals))
    if disjoint and len(regular) <= 2:
        return regular, True
    general = _rounds(runs, lambda run: (run.step, run.source == run.target))
    if disjoint and sum(r.sent for r in regular) <= sum(r.sent for r in general):
        return regular, True
    return general, False


def move_rows(data: Any, dim: int, mesh_axes: Axes, rows: np.ndarray, fill: Any = 0) -> Any:
    """The rows of a blocked dimension that this device asks for.

    Args:
      data: the block of this device; dimension `dim` is blocked evenly over `mesh_axes`.
      dim: the blocked dimension.
      mesh_axes: the mesh axes of its blocks, major first.
      rows: integers of shape (devices, rows per device): the global rows that device `d` gets, in order; `-1` for none. All
        devices get equally many. Rows may be wanted more than once.
      fill: the value of a row that is none.

    Costs: a row travels once to each device that wants it and lacks it. What travels at the same time is one
      collective-permute; rows
    that are consecutive in the axis and in the result travel together.
    """
    if comm.is_keys(data):
        return comm.over_words(lambda words: move_rows(words, dim, mesh_axes, rows), data)
    block = data.shape[dim]
    rounds, regular = _schedule(rows, block)
    data = cast_data(data, mesh_axes)
    out = rows.shape[1]
    shape = (*data.shape[:dim], out, *data.shape[dim + 1 :])
    if regular:
        return _move_regular(data, dim, mesh_axes, rounds, out, shape, len(rows), fill)

    me = comm.block_index(mesh_axes)
    longest = max((r.length for r in rounds), default=0)
    result = cast_data(jnp.full((*shape[:dim], out + longest, *shape[dim + 1 :]), fill, data.dtype), varying(data))

    def table(values: Mapping[int, int]) -> Any:
        return jnp.asarray([values.get(device, 0) for device in range(len(rows))], jnp.int32)[me]

    for r in rounds:
        travels = 1 if r.step == 0 else r.length
        padded = _append_rows(data, dim, travels)
        first = table({run.source: run.lowest for run in r.runs})
        if r.step < 0:  # so that the wanted rows stand at the beginning of what is sent
            padded = _append_rows(lax.rev(data, (dim,)), dim, travels)
            first = table({run.source: block - 1 - run.start for run in r.runs})
        piece = lax.dynamic_slice_in_dim(padded, first, travels, dim)
        if not r.at_home:
            piece = comm.ppermute(piece, mesh_axes, [(run.source, run.target) for run in r.runs])
        piece = jnp.broadcast_to(piece, (*shape[:dim], r.length, *shape[dim + 1 :]))
        at = table({run.target: run.at for run in r.runs})
        count = table({run.target: run.length for run in r.runs})
        here = lax.dynamic_slice_in_dim(result, at, r.length, dim)
        piece = jnp.where(along_dim(jnp.arange(r.length) < count, dim, data.ndim), piece, here)
        result = lax.dynamic_update_slice_in_dim(result, piece, at, dim)
    return lax.slice_in_dim(result, 0, out, axis=dim)


def _append_rows(data: Any, dim: int, count: int) -> Any:
    return lax.pad(data, jnp.zeros((), data.dtype), [(0, count if i == dim else 0, 0) for i in range(data.ndim)])


def along_dim(values: Any, dim: int, ndim: int) -> Any:
    """A vector as an array of `ndim` dimensions that extends along `dim`."""
    return values.reshape((1,) * dim + (-1,) + (1,) * (ndim - dim - 1))


def _move_regular(
    data: Any, dim: int, mesh_axes: Axes, rounds: Sequence[_Round], out: int, shape: tuple[int, ...], devices: int, fill: Any
) -> Any:
    """`move_rows` by static slices: every piece has the same place on every device that has it."""
    pieces: dict[tuple[int, int], list[tuple[Any, list[int], bool]]] = {}
    for r in rounds:
        run = r.runs[0]
        piece = lax.slice_in_dim(data, run.lowest, run.lowest + run.sent, axis=dim)
        if r.step < 0:
            piece = lax.rev(piece, (dim,))
        if not r.at_home:
            piece = comm.ppermute(piece, mesh_axes, [(run.source, run.target) for run in r.runs])
        piece = jnp.broadcast_to(piece, (*shape[:dim], run.length, *shape[dim + 1 :]))
        pieces.setdefault((run.at, run.at + run.length), []).append((piece, [run.target for run in r.runs], not r.at_home))

    def filled(length: int) -> Any:
        return cast_data(jnp.full((*shape[:dim], length, *shape[dim + 1 :]), fill, data.dtype), varying(data))

    parts = []
    at = 0
    for (begin, end), candidates in sorted(pieces.items(), key=lambda item: item[0]):
        if begin > at:
            parts.append(filled(begin - at))
        value = None
        for piece, targets, sent in candidates:
            if value is None and (len(targets) == devices or (sent and isinstance(fill, int) and fill == 0)):
                value = piece  # where a permute delivers nothing, there are zeros
                continue
            mine = jnp.asarray(np.isin(np.arange(devices), targets))[comm.block_index(mesh_axes)]
            value = jnp.where(mine, piece, filled(end - begin) if value is None else value)
        parts.append(value)
        at = end
    if at < out or not parts:
        parts.append(filled(out - at))
    return parts[0] if len(parts) == 1 else lax.concatenate(parts, dim)
