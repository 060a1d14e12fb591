"""Operations that look at neighbours along an axis: roll, shift, halo, pad, diff, convolve and conv.

Along a sharded axis all of them are one question: which rows of the whole axis does each device need? `move_rows` answers
it. It cuts the wanted rows into runs that come from one device each, copies those that are at home, and sends the
others, so many at a time as can travel in one collective-permute. A roll by one sends one row, a convolution its halo, a flip
the blocks; the axis is never gathered.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from namedax.array import Dims, NamedArray, dims_of, is_name, make_in_region, type_text
from namedax.environment import Region, ambient, enter
from namedax.errors import AxisNameError, AxisSizeError, PositionalAxisError, raise_not_found, show_names
from namedax.ops import kernels
from namedax.ops.align import align, local_block, wrap
from namedax.ops.conversion import named
from namedax.ops.lift import nmap
from namedax.ops.reductions import resolve_axis
from namedax.resources import communication as comm
from namedax.resources.layout import relayout
from namedax.resources.variance import cast_data, varying, with_varying_form

__all__ = ["FUNCTIONS", "Along", "along", "conv", "convolve", "diff", "halo", "move_rows", "pad", "roll", "shift"]

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
        piece = jnp.where(_along_dim(jnp.arange(r.length) < count, dim, data.ndim), piece, here)
        result = lax.dynamic_update_slice_in_dim(result, piece, at, dim)
    return lax.slice_in_dim(result, 0, out, axis=dim)


def _append_rows(data: Any, dim: int, count: int) -> Any:
    return lax.pad(data, jnp.zeros((), data.dtype), [(0, count if i == dim else 0, 0) for i in range(data.ndim)])


def _along_dim(values: Any, dim: int, ndim: int) -> Any:
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


# --- an operation along one axis ------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Along:
    """One named axis of an array, and where it is.

    Attributes:
      op: the operation.
      data: the local block.
      dims: its dims.
      dim: the dimension of the axis.
      size: its global size.
      old: the mesh axes of its blocks.
      region: the ambient region.
    """

    op: str
    data: Any
    dims: Dims
    dim: int
    size: int
    old: Axes
    region: Region | None

    @property
    def name(self) -> Hashable:
        """The name of the axis."""
        return self.dims[self.dim]

    def blocks(self, mesh_axes: Axes) -> int:
        """The number of devices along `mesh_axes`."""
        return 1 if not mesh_axes else self.region.mesh_axis_size(mesh_axes)  # type: ignore[union-attr]

    def result(self, out_axis: Hashable | None, size: int) -> tuple[Dims, Axes]:
        """The dims of a result in which the axis has `size` entries, and the mesh axes of its blocks.

        Raises:
          AxisSizeError: in this mapped function the name has another size, or the size does not divide over its mesh axes.
          AxisNameError: the result would have the name twice.
        """
        op, region = self.op, self.region
        new = self.name if out_axis is None else out_axis
        if not is_name(new):
            raise AxisNameError(f"{op}: out_axis={new!r} is no axis name.")
        if new != self.name and new in self.dims:
            raise AxisNameError(f"{op}: the result would have the axis {new!r} twice; choose another out_axis.")
        dims = tuple(new if i == self.dim else dim for i, dim in enumerate(self.dims))
        if region is None:
            return dims, ()
        known = region.sizes.get(new)
        if known is not None and known != size:
            raise AxisSizeError(
                f"{op}: axis {new!r} would have size {size}, but it has size {known} in this mapped function; a name has one "
                "size. Give the "
                f"result {'a name of its own, out_axis=...' if out_axis is None else 'another name'}."
            )
        region.check_placement(op, [dim for dim in dims if dim is not None])
        region.seen.add(new)
        region.block_size(new, size, op)
        return dims, region.placement(new) if region.manual else ()

    def remap(self, out_axis: Hashable | None, rows: np.ndarray, fill: Any, whole: Callable[[Any], Any]) -> Any:
        """The result whose global row `i` is the row `rows[i]` of the axis, or `fill` where that is -1.

        Args:
          out_axis: the name of the axis in the result.
          rows: the map of rows.
          fill: the fill value.
          whole: does the same to data in which the dimension is not blocked.
        """
        dims, new = self.result(out_axis, len(rows))
        old = self.old
        blocked = bool(old and new) and len(rows) % self.blocks(old) == 0
        gathered = frozenset(old) - frozenset(new)

        def compute(keep: frozenset[str]) -> Any:
            keep |= frozenset(new)
            if blocked:
                value = move_rows(self.data, self.dim, old, rows.reshape(self.blocks(old), -1), fill)
                return self.relaid(value, old, new, keep)
            return self.relaid(whole(self.relaid(self.data, old, (), keep)), (), new, keep)

        return finish(compute, dims, gathered)

    def relaid(self, value: Any, old: Axes, new: Axes, keep: frozenset[str]) -> Any:
        """`value` with the dimension on `new` instead of `old`."""
        if old == new:
            return value
        rest: list[Axes] = [()] * (value.ndim - 1)
        return relayout(value, [*rest[: self.dim], old, *rest[self.dim :]], [*rest[: self.dim], new, *rest[self.dim :]], keep)

    def windows(self, new: Axes, first: int, stride: int, length: int, mode: str, fill: Any, keep: frozenset[str]) -> Any:
        """The rows `first + stride * d` to `first + stride * d + length` on device `d` along `new`.

        Rows beyond the ends are `fill` (`mode="fill"`), those of the other end (`"wrap"`), or the last one (`"edge"`). If the
        axis is blocked over the same mesh axes, only rows that a device lacks are sent; if it is blocked over others, it is
        gathered.
        """
        data, dim, size = self.data, self.dim, self.size
        wanted = first + stride * np.arange(self.blocks(new))[:, None] + np.arange(length)
        outside = (wanted < 0) | (wanted >= size)
        if self.old and self.old == new:
            rows = wanted % size if mode == "wrap" else np.where(outside, FILL, wanted)
            value = move_rows(data, dim, new, rows, fill if mode == "fill" else 0)
            return _extend_edges(value, dim, wanted[:, 0], size, new) if mode == "edge" and outside.any() else value
        data = self.relaid(data, self.old, (), keep)
        before, after = max(0, -int(wanted.min(initial=0))), max(0, int(wanted.max(initial=0)) + 1 - size)
        if before or after:
            widths = [(before, after) if i == dim else (0, 0) for i in range(data.ndim)]
            options = {"constant_values": fill} if mode == "fill" else {}
            data = jnp.pad(data, widths, {"fill": "constant"}.get(mode, mode), **options)
        if not new:
            return lax.slice_in_dim(data, first + before, first + before + length, axis=dim)
        return lax.dynamic_slice_in_dim(cast_data(data, new), comm.block_index(new) * stride + (first + before), length, dim)


def _extend_edges(value: Any, dim: int, firsts: np.ndarray, size: int, mesh_axes: Axes) -> Any:
    """Rows beyond the ends of the axis become the row at the end; `firsts[d]` is the global row that device `d` begins with."""
    first = jnp.asarray(firsts, jnp.int32)[comm.block_index(mesh_axes)]
    low = lax.dynamic_slice_in_dim(value, -first, 1, dim)
    high = lax.dynamic_slice_in_dim(value, size - 1 - first, 1, dim)
    row = _along_dim(first + jnp.arange(value.shape[dim]), dim, value.ndim)
    return jnp.where(row < 0, low, jnp.where(row >= size, high, value))


def finish(compute: Callable[[frozenset[str]], Any], dims: Dims, gathered: frozenset[str]) -> Any:
    """Wraps a result that was gathered over some mesh axes; `compute(axes)` makes it varying over `axes`."""
    if not gathered or all(dim is None for dim in dims):
        return wrap(compute(frozenset()), dims)
    return with_varying_form(compute(frozenset()), dims, gathered, lambda: compute(gathered))


def along(op: str, x: Any, axis: Any) -> Along:
    """Finds a named axis and where it is.

    Raises:
      AxisNotFoundError: `x` lacks it.
    """
    region = ambient()
    x = local_block(x, op, region)
    dims = dims_of(x)
    if not is_name(axis):
        raise PositionalAxisError(f"{op}: axis={axis!r} is no axis name.")
    if axis not in dims:
        raise_not_found(op, axis, type_text(x), [dim for dim in dims if dim is not None])
    dim = dims.index(axis)
    n = x._data.shape[dim]
    old = region.placement(axis) if region is not None and region.manual else ()
    return Along(op, x._data, dims, dim, n * (region.blocks(axis) if old else 1), old, region)  # type: ignore[union-attr]


def run(key: Hashable, impl: Callable[..., Any], *operands: Any) -> Any:
    """Through a compiled kernel if no region says what sizes and places names have."""
    return kernels.run(key, impl, *operands) if ambient() is None else impl(*operands)


def position_of(op: str, x: Any, axis: Any) -> int:
    """The physical dimension of one axis, positional or named."""
    (place,) = resolve_axis(op, x, (axis,))
    return place


def data_and_dims(op: str, x: Any) -> tuple[Any, Dims]:
    """The local block of `x`, and its dims."""
    x = local_block(x, op, ambient())
    return (x._data, x._dims) if isinstance(x, NamedArray) else (jnp.asarray(x), dims_of(x))


def _as_int(op: str, what: str, value: Any, least: int | None = None) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or (least is not None and value < least):
        raise PositionalAxisError(
            f"{op}: {what}={value!r} must be an integer{'' if least is None else f' from {least}'}, known when the function "
            "is traced."
        )
    return int(value)


# --- roll and shift -------------------------------------------------------------------------------------------------


def roll(a: Any, shift: Any, axis: Any = None) -> Any:
    """Rolls an array along axes; what leaves at one end comes in at the other.

    Args:
      a: an array, named or not.
      shift: an integer, or a tuple with one for each axis.
      axis: a position, a name, or a tuple of both; `None` rolls the flattened positional axes, as `jnp.roll` does.

    Returns:
      An array of the same axes. Along a sharded name `n` rows in blocks of `b`: a shift by `s` sends whole blocks to the device
      `s // b` further (one collective-permute of `b - s % b` rows, none if `s < b`), and the boundary to the next (one of `s %
      b` rows). A shift that is known only at run time sends a block for every bit of the number of devices, and one more.

    Raises:
      AxisNotFoundError: `a` lacks a name.

    >>> import jax.numpy as jnp, namedax as nx
    >>> nx.positional(roll(nx.named(jnp.arange(5), ["k"]), 2, "k"), ["k"])
    Array([3, 4, 0, 1, 2], dtype=int32)
    """
    if axis is None:
        return nmap(lambda data: jnp.roll(data, shift))(a)
    axes = tuple(axis) if isinstance(axis, (tuple, list)) else (axis,)
    shifts = (
        tuple(shift)
        if isinstance(shift, (tuple, list))
        else tuple(shift.tolist())
        if isinstance(shift, np.ndarray)
        else (shift,)
    )
    if len(shifts) != len(axes):
        if 1 not in (len(shifts), len(axes)):
            raise PositionalAxisError(f"roll: {len(shifts)} shifts for {len(axes)} axes, {axes}; give one shift for each axis.")
        count = max(len(shifts), len(axes))
        shifts, axes = shifts * (count // len(shifts)), axes * (count // len(axes))
    static = all(isinstance(s, (int, np.integer)) for s in shifts)

    def impl(a: Any) -> Any:
        for one, by in zip(axes, shifts, strict=True):
            a = _roll_one(a, by, one)
        return a

    key = ("roll", axes, tuple(map(type, axes)), shifts if static else None)
    return run(key, impl, a) if static else impl(a)


def _roll_one(a: Any, by: Any, axis: Any) -> Any:
    if isinstance(by, NamedArray):
        if is_name(axis):
            raise PositionalAxisError(
                f"roll: the shift {type_text(by)} differs from instance to instance; along the name {axis!r} write nx.take "
                "with a named index."
            )
        return nmap(lambda data, s: jnp.roll(data, s, axis))(a, by)
    if not is_name(axis):
        data, dims = data_and_dims("roll", a)
        return wrap(jnp.roll(data, by, position_of("roll", a, axis)), dims)
    site = along("roll", a, axis)
    if not site.old:
        return wrap(jnp.roll(site.data, by, site.dim), site.dims)
    if isinstance(by, (int, np.integer)):
        rows = np.roll(np.arange(site.size), by).reshape(site.blocks(site.old), -1)
        return wrap(move_rows(site.data, site.dim, site.old, rows), site.dims)
    return wrap(_roll_at_run_time(site, by), site.dims)


def _roll_at_run_time(site: Along, by: Any) -> Any:
    devices, block = site.blocks(site.old), site.data.shape[site.dim]
    by = jnp.mod(by, site.size)
    blocks, rest = by // block, by % block
    data = cast_data(site.data, site.old)
    for bit in range((devices - 1).bit_length()):
        moved = comm.ppermute(data, site.old, [(d, (d + 2**bit) % devices) for d in range(devices)])
        data = jnp.where((blocks >> bit) & 1, moved, data)
    before = comm.ppermute(data, site.old, [(d, (d + 1) % devices) for d in range(devices)])
    return lax.dynamic_slice_in_dim(lax.concatenate([before, data], site.dim), block - rest, block, site.dim)


def shift(x: Any, offset: int, axis: Any, fill_value: Any = 0) -> Any:
    """Shifts an array along one axis; what leaves at one end is lost, and the fill value comes in at the other.

    Args:
      x: an array, named or not.
      offset: an integer; entry `i` of the result is entry `i - offset` of `x`.
      axis: a position or a name.
      fill_value: what comes in.

    Returns:
      An array of the same axes. Along a sharded name it sends what `roll` sends, at most.

    Raises:
      AxisNotFoundError: `x` lacks the name.

    >>> import jax.numpy as jnp, namedax as nx
    >>> nx.positional(shift(nx.named(jnp.arange(5), ["k"]), -2, "k", fill_value=9), ["k"])
    Array([2, 3, 4, 9, 9], dtype=int32)
    """
    by = _as_int("shift", "offset", offset)

    def whole(data: Any, dim: int) -> Any:
        n = data.shape[dim]
        step = max(-n, min(n, by))
        config = [(step, -step, 0) if i == dim else (0, 0, 0) for i in range(data.ndim)]
        return lax.pad(data, jnp.asarray(fill_value, data.dtype), config)

    def impl(x: Any) -> Any:
        if not is_name(axis):
            data, dims = data_and_dims("shift", x)
            return wrap(whole(data, position_of("shift", x, axis)), dims)
        site = along("shift", x, axis)
        if not site.old:
            return wrap(whole(site.data, site.dim), site.dims)
        source = np.arange(site.size) - by
        rows = np.where((source < 0) | (source >= site.size), FILL, source)
        return site.remap(None, rows, fill_value, lambda data: whole(data, site.dim))

    if not isinstance(fill_value, (int, float, complex, np.generic)):
        return impl(x)
    return run(("shift", by, axis, type(axis), fill_value, type(fill_value)), impl, x)


# --- windows --------------------------------------------------------------------------------------------------------

_MODES = {"zero": "fill", "constant": "fill", "wrap": "wrap", "edge": "edge"}


def halo(
    x: Any,
    axis: Hashable,
    before: int = 1,
    after: int = 1,
    *,
    mode: str = "zero",
    fill_value: Any = 0,
    out_axis: Hashable | None = None,
) -> Any:
    """The neighbours of every entry along a named axis, as a window: the building block of stencils.

    Args:
      x: a named array.
      axis: the axis whose neighbours are meant.
      before: how many entries before each one the window holds.
      after: how many after it.
      mode: what stands beyond the ends: `"zero"`, `"constant"` (`fill_value`), `"wrap"` (periodic), or `"edge"` (the last entry
        again).
      fill_value: for `mode="constant"`.
      out_axis: the name of the window's axis; default: it is the last positional axis.

    Returns:
      `x` with one more axis of size `before + 1 + after`; its entry `j` at `i` is entry `i + j - before` of `x`. Along a
      sharded name each device gets the `before` and `after` rows at its boundary: two collective-permutes (more if a halo is
      larger than a block). Under `jit` the window is not stored if what follows is elementwise or a sum.

    Raises:
      AxisNotFoundError: `x` lacks the axis.

    >>> import jax.numpy as jnp, namedax as nx
    >>> x = nx.named(jnp.array([1.0, 4.0, 9.0]), ["k"])
    >>> nx.positional(halo(x, "k"), ["k", ...])
    Array([[0., 1., 4.],
           [1., 4., 9.],
           [4., 9., 0.]], dtype=float32)
    """
    before, after = _as_int("halo", "before", before, 0), _as_int("halo", "after", after, 0)
    if mode not in _MODES:
        raise PositionalAxisError(f"halo: mode={mode!r} is none of {show_names(_MODES)}.")
    value = 0 if mode == "zero" else fill_value

    def impl(x: Any) -> Any:
        site = along("halo", x, axis)
        if out_axis is not None and (not is_name(out_axis) or out_axis in site.dims):
            raise AxisNameError(f"halo: out_axis={out_axis!r} must be an axis name that {type_text(x)} lacks.")
        block = site.data.shape[site.dim]
        data = site.windows(site.old, -before, block, before + block + after, _MODES[mode], value, frozenset())
        width = before + 1 + after
        window = jnp.stack([lax.slice_in_dim(data, j, j + block, axis=site.dim) for j in range(width)], -1)
        if out_axis is None:
            return wrap(window, (*site.dims, None))
        # The window's axis comes in as a positional one, so that it is cut if its name is on a mesh axis.
        return named(wrap(window, (*site.dims, None)), {site.dims.count(None): out_axis})

    if not isinstance(value, (int, float, complex, np.generic)):
        return impl(x)
    return run(("halo", axis, type(axis), before, after, mode, value, type(value), out_axis, type(out_axis)), impl, x)


def pad(
    array: Any,
    pad_width: Any,
    mode: str = "constant",
    *,
    constant_values: Any = 0,
    out_axes: Mapping[Hashable, Hashable] | None = None,
    **options: Any,
) -> Any:
    """Pads an array at the ends of its axes.

    Args:
      array: an array, named or not.
      pad_width: a dict `{"k": (before, after)}` (or `{"k": both}`) for named axes, in which integers are positional axes; or
        what `jnp.pad` takes, for the positional axes.
      mode: as in `jnp.pad`.
      constant_values: for `mode="constant"`: a scalar, or what `jnp.pad` takes if `pad_width` is no dict.
      out_axes: new names for named axes, `{"k": "k_padded"}`. In a mapped function a name that has a size there keeps it, and
        what is larger needs another name.
      **options: as in `jnp.pad`.

    Returns:
      The padded array. Along a sharded name rows move to the neighbours only, as far as blocks shift; never the whole axis,
      unless the new name is not sharded: then it is gathered. The modes `"constant"`, `"edge"`, `"wrap"`, `"reflect"` and
      `"symmetric"` are done so. Others, statistics and ramps, gather the axis.

    Raises:
      AxisNotFoundError: the array lacks a name.
      AxisSizeError: in a mapped function the name has another size than the result, or that does not divide over its mesh axes.

    >>> import jax.numpy as jnp, namedax as nx
    >>> nx.positional(pad(nx.named(jnp.array([5, 6]), ["k"]), {"k": (1, 2)}), ["k"])
    Array([0, 5, 6, 0, 0], dtype=int32)
    """
    if mode == "constant":
        options = {"constant_values": constant_values}
    if not isinstance(pad_width, Mapping):
        return nmap(lambda data: jnp.pad(data, pad_width, mode, **options))(array)
    renamed = dict(out_axes or {})
    for name in renamed:
        if name not in pad_width:
            raise_not_found("pad", name, f"pad_width={pad_width!r}", [key for key in pad_width if is_name(key)])
    for axis, width in pad_width.items():
        pair = (width, width) if isinstance(width, (int, np.integer)) else tuple(width)
        if len(pair) != 2:
            raise PositionalAxisError(
                f"pad: the width {width!r} of axis {axis!r} is neither a number nor a pair (before, after)."
            )
        array = _pad_one(
            array,
            axis,
            _as_int("pad", "before", pair[0], 0),
            _as_int("pad", "after", pair[1], 0),
            mode,
            options,
            renamed.get(axis),
        )
    return array


def _pad_one(
    x: Any, axis: Any, before: int, after: int, mode: str, options: Mapping[str, Any], out_axis: Hashable | None
) -> Any:
    def whole(data: Any, dim: int) -> Any:
        return jnp.pad(data, [(before, after) if i == dim else (0, 0) for i in range(data.ndim)], mode, **options)

    if not is_name(axis):
        data, dims = data_and_dims("pad", x)
        return wrap(whole(data, position_of("pad", x, axis)), dims)
    site = along("pad", x, axis)
    if not site.old or mode not in ("constant", "edge", "wrap", "reflect", "symmetric"):
        return _whole(site, out_axis, site.size + before + after, lambda data: whole(data, site.dim))
    if mode == "constant":
        rows = np.pad(np.arange(site.size), (before, after), constant_values=FILL)
    else:
        rows = np.pad(np.arange(site.size), (before, after), mode, **options)  # type: ignore[call-overload]
    return site.remap(out_axis, rows, options.get("constant_values", 0), lambda data: whole(data, site.dim))


def _whole(site: Along, out_axis: Hashable | None, size: int, whole: Callable[[Any], Any]) -> Any:
    """`whole(data)` where the axis is in one block; gathers it if it is not."""
    dims, new = site.result(out_axis, size)

    def compute(keep: frozenset[str]) -> Any:
        keep |= frozenset(new)
        return site.relaid(whole(site.relaid(site.data, site.old, (), keep)), (), new, keep)

    return finish(compute, dims, frozenset(site.old) - frozenset(new))


def diff(
    a: Any, n: int = 1, axis: Any = -1, prepend: Any = None, append: Any = None, *, out_axis: Hashable | None = None
) -> Any:
    """The `n`-th differences along one axis, which becomes shorter by `n`.

    Args:
      a: an array, named or not.
      n: how often differences are taken.
      axis: a position or a name.
      prepend: values before the first difference: a scalar or, for a positional axis, what `jnp.diff` takes. Along a name: an
        array without that name (one entry; other names broadcast).
      append: the same at the other end.
      out_axis: the name of the shorter axis; needed in a mapped function in which `axis` has another size. With `prepend=` and
        `n=1` the size stays.

    Returns:
      The differences. Along a sharded name each device gets the rows that it lacks of the next block.

    Raises:
      AxisNotFoundError: `a` lacks the name.
      AxisSizeError: in a mapped function the name has another size than the result.

    >>> import jax.numpy as jnp, namedax as nx
    >>> nx.positional(diff(nx.named(jnp.array([1, 4, 9]), ["k"]), axis="k"), ["k"])
    Array([3, 5], dtype=int32)
    """
    n = _as_int("diff", "n", n, 0)
    if not is_name(axis):
        return nmap(lambda data, p, q: jnp.diff(data, n, axis, p, q))(a, prepend, append)
    if n == 0:
        return a
    ends = [end for end in (prepend, append) if end is not None]
    for end in ends:
        if axis in dims_of(end):
            raise AxisSizeError(
                f"diff: {type_text(end)} has the axis {axis!r}; along a name prepend and append are one entry, without that "
                "name."
            )
    if ends:
        a = _broadcast_to_all("diff", a, ends)
    site = along("diff", a, axis)
    lead = prepend is not None
    size = site.size + len(ends) - n
    if size < 0:
        size = 0
    dims, new = site.result(out_axis, size)
    block = size // site.blocks(new)

    def compute(keep: frozenset[str]) -> Any:
        keep |= frozenset(new)
        data = site.windows(new, -int(lead), block, block + n if size else 0, "fill", 0, keep)
        if ends:
            first = (comm.block_index(new) if new else 0) * block - int(lead)
            row = _along_dim(first + jnp.arange(data.shape[site.dim]), site.dim, data.ndim)
            for end, at in ((prepend, -1), (append, site.size)):
                if end is not None:
                    data = jnp.where(row == at, _entry(end, site, data), data)
        return jnp.diff(data, n, site.dim) if size else data

    return finish(compute, dims, frozenset(site.old) - frozenset(new))


def _broadcast_to_all(op: str, a: Any, others: Sequence[Any]) -> Any:
    """`a` with the names, positional axes and element type of the others too."""
    datas, dims = align(op, a, *others)
    shape = jnp.broadcast_shapes(*(np.shape(data) for data in datas))
    return make_in_region(jnp.broadcast_to(datas[0], shape).astype(jnp.result_type(*datas)), dims)


def _entry(end: Any, site: Along, data: Any) -> Any:
    """`end` as one row along the axis of `site`."""
    like = tuple(dim for i, dim in enumerate(site.dims) if i != site.dim)
    (_, value), _ = align(site.op, make_in_region(lax.index_in_dim(data, 0, site.dim, keepdims=False), like), end)
    value = jnp.asarray(value)
    return jnp.expand_dims(value, site.dim) if value.ndim else value


# --- convolution ----------------------------------------------------------------------------------------------------


def convolve(
    a: Any, v: Any, mode: str = "full", *, axis: Hashable | None = None, out_axis: Hashable | None = None, precision: Any = None
) -> Any:
    """Convolution along one axis, as `jnp.convolve` does it.

    Args:
      a: an array, named or not.
      v: the kernel. Along a name: an array with one positional axis, along which it lies; its names are batch axes.
      mode: `"full"`, `"same"` or `"valid"`, as in `jnp.convolve`.
      axis: the axis of `a`; default: its only positional axis.
      out_axis: the name of the axis in the result; needed in a mapped function if its size is another (all modes but `"same"`).
      precision: as in `jnp.convolve`.

    Returns:
      The convolution. Along a sharded name each device gets the rows at its boundary that the kernel reaches; nothing is
      gathered, but where `out_axis` is not on the mesh axes of `axis`.

    Raises:
      AxisNotFoundError: `a` lacks the axis.
      AxisSizeError: in a mapped function the name has another size than the result, or that does not divide over its mesh axes.

    >>> import jax.numpy as jnp, namedax as nx
    >>> x = nx.named(jnp.array([1.0, 2.0, 4.0]), ["k"])
    >>> nx.positional(convolve(x, jnp.array([1.0, -1.0]), axis="k"), ["k"])
    Array([ 1.,  1.,  2., -4.], dtype=float32)
    """
    if mode not in ("full", "same", "valid"):
        raise PositionalAxisError(f"convolve: mode={mode!r} is none of 'full', 'same', 'valid'.")
    if axis is None:
        return nmap(lambda x, k: jnp.convolve(x, k, mode, precision=precision))(a, v)
    if dims_of(v).count(None) != 1:
        raise PositionalAxisError(f"convolve: the kernel {type_text(v)} must have one positional axis, along which it lies.")
    site = along("convolve", a, axis)
    taps = v.shape[0] if isinstance(v, NamedArray) else np.shape(v)[0]
    if not taps or not site.size:
        raise PositionalAxisError(
            f"convolve: the kernel {type_text(v)} and axis {axis!r} of size {site.size} must not be empty."
        )
    # Entry i of the result is entry i + first of the full convolution, which reads the rows from i + first - (taps - 1).
    long, short = max(site.size, taps), min(site.size, taps)
    first = {"full": 0, "same": (short - 1) // 2, "valid": short - 1}[mode]
    size = {"full": site.size + taps - 1, "same": long, "valid": long - short + 1}[mode]
    dims, new = site.result(out_axis, size)
    block = size // site.blocks(new)
    return _convolve(site, v, dims, new, block, block + taps - 1, first - (taps - 1), precision)


def _convolve(site: Along, v: Any, dims: Dims, new: Axes, block: int, length: int, first: int, precision: Any) -> Any:
    """The convolution of windows with the kernel; all axes but that of `site` are batch axes."""
    ranks = sum(dim is None for dim in site.dims)

    def rows(x: Any, k: Any) -> Any:
        flat = x.reshape(-1, x.shape[-1])
        out = jax.vmap(lambda row: jnp.convolve(row, k, "valid", precision=precision))(flat)
        return out.reshape(*x.shape[:-1], out.shape[-1])

    def compute(keep: frozenset[str]) -> Any:
        data = site.windows(new, first, block, length, "fill", 0, keep | frozenset(new))
        batch = [i for i in range(data.ndim) if i != site.dim]
        labelled = [i for i in batch if site.dims[i] is not None]
        order = [*labelled, *(i for i in batch if site.dims[i] is None), site.dim]
        x = lax.transpose(data, order)
        labels = tuple(site.dims[i] for i in labelled) + (None,) * (ranks + 1)
        with _without_constraints(site.region):
            return nmap(rows)(make_in_region(x, labels) if labelled else x, v)

    def named_result(value: Any) -> tuple[Any, Dims]:
        own = dims_of(value)
        return (value._data if isinstance(value, NamedArray) else value), (*own[:-1], dims[site.dim])

    gathered = frozenset(site.old) - frozenset(new)
    data, out = named_result(compute(frozenset()))
    _check_together(site.op, out)
    if not gathered:
        return wrap(data, out)
    return with_varying_form(data, out, gathered, lambda: named_result(compute(gathered))[0])


def _without_constraints(region: Region | None) -> Any:
    """XLA's partitioner shall not take an axis for whole only because it has no name for a moment."""
    return enter(region if region is None or region.mode != "auto" else None)


def _check_together(op: str, dims: Dims) -> None:
    region = ambient()
    if region is not None and region.resources:
        region.check_placement(op, [dim for dim in dims if dim is not None])


def _per_axis(op: str, what: str, value: Any, count: int) -> tuple[Any, ...]:
    if isinstance(value, (int, np.integer)):
        return (int(value),) * count
    values = tuple(value)
    if len(values) != count:
        raise PositionalAxisError(
            f"{op}: {what}={value!r} has {len(values)} entries for {count} axes; give one number, or one for each axis."
        )
    return values


def conv(
    x: Any,
    kernel: Any,
    axes: Sequence[Hashable],
    *,
    kernel_axes: Sequence[Hashable] | None = None,
    features_in: Hashable | None = None,
    features_out: Hashable | None = None,
    strides: int | Sequence[int] = 1,
    padding: str | Sequence[tuple[int, int]] = "SAME",
    kernel_dilation: int | Sequence[int] = 1,
    out_axes: Mapping[Hashable, Hashable] | None = None,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Any:
    """Convolution over named axes, as neural networks mean it (the kernel is not reversed).

    Args:
      x: a named array. Its other axes are batch axes.
      kernel: a named array with the axes `kernel_axes`, `features_in` and `features_out`. Its other names are batch axes,
        shared with `x` where `x` has them: a kernel with the channel's name and no `features_in` is a depthwise convolution.
      axes: the axes of `x` that are convolved over, such as `("h", "w")`.
      kernel_axes: the axes of `kernel` that go with them, such as `("kh", "kw")`; default: its positional axes, in order.
      features_in: the axis of both that is contracted, or `None`.
      features_out: the axis of `kernel` that the result gets, or `None`.
      strides: one for all axes, or one for each.
      padding: `"SAME"` (the result has `ceil(size / stride)` entries), `"VALID"`, or a pair `(before, after)` for each axis.
      kernel_dilation: distance of the kernel's entries, one for all axes, or one for each.
      out_axes: new names for axes, `{"h": "h_out"}`; needed in a mapped function for those whose size changes.
      precision: as in `lax.conv_general_dilated`.
      preferred_element_type: as in `lax.conv_general_dilated`.

    Returns:
      The convolution, with the names of `x` but `features_in`, and `features_out`. Along a sharded axis each device gets the
      rows at its boundary that the kernel reaches, by collective-permutes (a corner takes two); a sharded `features_in` is
      reduced by one all-reduce. Nothing is gathered, but an axis whose `out_axes` name is not on its mesh axes.

    Raises:
      AxisNotFoundError: `x` or `kernel` lacks an axis.
      AxisSizeError: in a mapped function a name has another size than the result, or that does not divide over its mesh axes.

    >>> import jax.numpy as jnp, namedax as nx
    >>> x = nx.named(jnp.ones((8, 6, 6, 3)), ["batch", "h", "w", "c"])
    >>> kernel = nx.named(jnp.ones((3, 3, 3, 5)), ["kh", "kw", "c", "d"])
    >>> y = conv(x, kernel, ("h", "w"), kernel_axes=("kh", "kw"), features_in="c", features_out="d", strides=2)
    >>> dict(y.named_shape)
    {'batch': 8, 'd': 5, 'h': 3, 'w': 3}
    """
    op = "conv"
    if isinstance(axes, str) or not isinstance(axes, Sequence):
        axes = (axes,)
    axes = tuple(axes)
    region = ambient()
    x, kernel = local_block(x, op, region), local_block(kernel, op, region)
    count = len(axes)
    for name in axes:
        along(op, x, name)
    if kernel_axes is None:
        if dims_of(kernel).count(None) != count:
            raise PositionalAxisError(
                f"conv: the kernel {type_text(kernel)} has {dims_of(kernel).count(None)} positional axes for the {count} axes "
                f"{axes}; say kernel_axes=."
            )
    else:
        kernel_axes = (kernel_axes,) if isinstance(kernel_axes, str) else tuple(kernel_axes)
        if len(kernel_axes) != count or dims_of(kernel).count(None):
            raise PositionalAxisError(
                f"conv: kernel_axes={kernel_axes} must be one name for each of {axes}, and the kernel {type_text(kernel)} "
                "have no positional axis beside."
            )
    stride = _per_axis(op, "strides", strides, count)
    dilation = _per_axis(op, "kernel_dilation", kernel_dilation, count)
    renamed = dict(out_axes or {})
    for name in renamed:
        if name not in axes:
            raise_not_found(op, name, f"axes={axes}", axes)

    # The kernel: features_out, features_in, its axes; what is left are batch axes.
    k_dims = dims_of(kernel)
    own = [name for name in (features_out, features_in) if name is not None]
    places = [along(op, kernel, name).dim for name in own]
    if kernel_axes is None:
        places += [i for i, dim in enumerate(k_dims) if dim is None]
    else:
        for name in kernel_axes:
            if along(op, kernel, name).old:
                raise PositionalAxisError(
                    f"conv: the kernel's axis {name!r} is sharded; map it to nothing, every device needs the whole window."
                )
            places.append(k_dims.index(name))
    batch = [i for i in range(len(k_dims)) if i not in places]
    k_data = lax.transpose(kernel._data if isinstance(kernel, NamedArray) else jnp.asarray(kernel), [*batch, *places])
    for i, name in enumerate((features_out, features_in)):
        if name is None:
            k_data = jnp.expand_dims(k_data, len(batch) + i)
    k_labels = tuple(k_dims[i] for i in batch)
    taps = k_data.shape[len(batch) + 2 :]
    kernel = make_in_region(k_data, k_labels + (None,) * (count + 2)) if batch else k_data

    # The array: windows along its axes.
    gathered: frozenset[str] = frozenset()
    mesh_axes: Axes = ()
    if features_in is not None:
        site = along(op, x, features_in)
        mesh_axes = site.old
    out_names = []
    plans = []
    for i, name in enumerate(axes):
        site = along(op, x, name)
        reach = (taps[i] - 1) * dilation[i] + 1
        low, high = _padding(padding, i, count, site.size, stride[i], reach)
        size = max(0, (site.size + low + high - reach) // stride[i] + 1)
        if size == 0:
            raise AxisSizeError(
                f"conv: the kernel reaches over {reach} entries of axis {name!r}, which has {site.size + low + high} with its "
                "padding."
            )
        dims, new = site.result(renamed.get(name), size)
        block = size // site.blocks(new)
        out_names.append(dims[site.dim])
        plans.append((name, new, -low, block * stride[i], (block - 1) * stride[i] + reach))
        gathered |= frozenset(site.old) - frozenset(new)

    def compute(keep: frozenset[str]) -> Any:
        value = x
        for name, new, first, step, length in plans:
            site = along(op, value, name)
            moved = site.windows(new, first, step, length, "fill", 0, keep | frozenset(new))
            value = make_in_region(moved, tuple(_Window(dim) if i == site.dim else dim for i, dim in enumerate(site.dims)))
        dims = value._dims
        own = [*([dims.index(features_in)] if features_in is not None else []), *(dims.index(_Window(name)) for name in axes)]
        labelled = [i for i, dim in enumerate(dims) if dim is not None and i not in own]
        rest = [i for i, dim in enumerate(dims) if dim is None]
        data = lax.transpose(value._data, [*labelled, *rest, *own])
        if features_in is None:
            data = jnp.expand_dims(data, len(labelled) + len(rest))
        labels = tuple(dims[i] for i in labelled) + (None,) * (len(rest) + 1 + count)
        function = functools.partial(_conv, count, stride, dilation, precision, preferred_element_type)
        with _without_constraints(region):
            return nmap(function)(make_in_region(data, labels) if labelled else data, kernel)

    def finished(value: Any) -> tuple[Any, Dims]:
        dims = dims_of(value)
        data = value._data if isinstance(value, NamedArray) else value
        at = len(dims) - count - 1
        if features_out is None:
            data = lax.squeeze(data, (at,))
        return comm.psum(data, mesh_axes), (*dims[:at], *(() if features_out is None else (features_out,)), *out_names)

    data, dims = finished(compute(frozenset()))
    _check_together(op, dims)
    if not gathered:
        return wrap(data, dims)
    return with_varying_form(data, dims, gathered, lambda: finished(compute(gathered))[0])


class _Window:
    """The name of an axis while it holds windows of another."""

    def __init__(self, axis: Hashable):
        self.axis = axis

    def __hash__(self) -> int:
        return hash((_Window, self.axis))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Window) and self.axis == other.axis


def _padding(padding: Any, i: int, count: int, size: int, stride: int, reach: int) -> tuple[int, int]:
    if isinstance(padding, str):
        if padding.upper() == "VALID":
            return 0, 0
        if padding.upper() == "SAME":
            total = max(0, (-(-size // stride) - 1) * stride + reach - size)
            return total // 2, total - total // 2
        raise PositionalAxisError(
            f"conv: padding={padding!r} is neither 'SAME' nor 'VALID' nor a pair (before, after) for each axis."
        )
    pairs = tuple(padding)
    if len(pairs) != count:
        raise PositionalAxisError(
            f"conv: padding={padding!r} has {len(pairs)} entries for {count} axes; give a pair (before, after) for each."
        )
    return tuple(pairs[i])


def _conv(count: int, stride: Any, dilation: Any, precision: Any, element_type: Any, x: Any, kernel: Any) -> Any:
    """`x[..., c, *space]` and `kernel[d, c, *taps]` to `[..., d, *space]`."""
    batch = x.shape[: x.ndim - count - 1]
    flat = x.reshape(math.prod(batch), *x.shape[x.ndim - count - 1 :])
    dtype = jnp.result_type(flat, kernel)
    y = lax.conv_general_dilated(
        flat.astype(dtype),
        kernel.astype(dtype),
        stride,
        [(0, 0)] * count,
        rhs_dilation=dilation,
        precision=precision,
        preferred_element_type=element_type,
    )
    return y.reshape(*batch, *y.shape[1:])


#: The functions of this module, by their names in `nx`.
FUNCTIONS: dict[str, Callable[..., Any]] = {f.__name__: f for f in (roll, shift, halo, pad, diff, convolve, conv)}
