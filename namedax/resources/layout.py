"""Resharding of blocks with the cheapest collectives.

The placement of a dimension is the tuple of mesh axes over which it is sharded, major first. The
layout of an array is the tuple of the placements of its dimensions. Four steps change a layout:

    Cut        shards a dimension over one more mesh axis, the minor one      no communication
    Gather     gathers a dimension over its minor mesh axes                   one all-gather
    Exchange   moves minor mesh axes from one dimension to another            one all-to-all
    Permute    swaps mesh axes and keeps the block count of every dimension   one collective-permute

`relayout` finds the sequence of steps that sends the fewest bytes, and the shortest of these. For
example, `(x, y)` to `(x,)` is a gather. `(x,)` to `(y,)` is a cut, a permute and a gather of a
part. If a mesh axis moves from one dimension to another, it is one exchange.

The steps of a loop run sequentially, so its axis allows neither an exchange nor a permute. A gather
removes it from a dimension, and a cut adds it.
"""

from __future__ import annotations

import functools
import heapq
import itertools
import math
import operator
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from namedax.core.names import MeshAxes
from namedax.core.padded_sharding import Uneven, plain
from namedax.core.reshape import as_one
from namedax.resources import communication as comm
from namedax.resources import narrow
from namedax.resources.padding import padded, padded_size, unpadded
from namedax.resources.serial import LoopAxis, MicrobatchAxis, count_along
from namedax.resources.wire import Wire

__all__ = ["Layout", "plan", "relayout", "sum_scatter"]

Layout = tuple[MeshAxes, ...]


class Cut(NamedTuple):
    """A step that shards dimension `dim` over `axes`."""

    dim: int
    axes: MeshAxes


class Gather(NamedTuple):
    """A step that gathers dimension `dim` over `axes`, its minor ones."""

    dim: int
    axes: MeshAxes


class Exchange(NamedTuple):
    """A step that moves `axes`, the minor ones of dimension `source`, to dimension `target`."""

    source: int
    target: int
    axes: MeshAxes


class Permute(NamedTuple):
    """A permutation by `pairs` of devices, row-major over `axes`, which are in mesh order."""

    axes: MeshAxes
    pairs: tuple[tuple[int, int], ...]


Step = Cut | Gather | Exchange | Permute


class _Permutation(NamedTuple):
    """A permutation from the layout `old` to `new`; its pairs are listed if it is used."""

    axes: MeshAxes
    old: Layout
    new: Layout


def relayout(
    data: jax.Array,
    old: Sequence[MeshAxes],
    new: Sequence[MeshAxes],
    keep_varying: frozenset[str] = frozenset(),
    wire: Wire | None = None,
) -> jax.Array:
    """Reshard a block from the layout `old` to the layout `new`.

    The transpose of a gather is a slice without communication, or a reduce-scatter if the result
    varies over the mesh axis. The transpose of an exchange is an exchange, of a permute a permute,
    and of a cut an all-gather.

    Args:
      data: the local block.
      old: the placement of every dimension.
      new: the new placement of every dimension. No mesh axis may occur twice.
      keep_varying: gathered mesh axes over which the result stays varying, to combine it with
        values that vary over them. Default: none.
      wire: the number formats of the collectives. Default: the dtype of the array.
    """
    if any(isinstance(axes, Uneven) for axes in (*old, *new)):
        return _relayout_padded(data, old, new, keep_varying, wire)
    return _relayout(data, old, new, keep_varying, wire, {})


def _relayout(
    data: jax.Array,
    old: Sequence[MeshAxes],
    new: Sequence[MeshAxes],
    keep_varying: frozenset[str],
    wire: Wire | None,
    sizes_without_padding: Mapping[int, int],
) -> jax.Array:
    if tuple(old) == tuple(new):
        return data
    used = {axis for axes in (*old, *new) for axis in axes}
    # Mesh order, in which `jax.lax.ppermute` numbers devices.
    order = jax.sharding.get_abstract_mesh().axis_names
    order += tuple(axis for axis in used if isinstance(axis, MicrobatchAxis))  # at most one
    sizes = tuple((axis, count_along((axis,))) for axis in order if axis in used)
    placed = frozenset(axis for axes in new for axis in axes)
    loops = frozenset(str(axis) for axis in used if isinstance(axis, LoopAxis))
    steps = plan(tuple(data.shape), tuple(old), tuple(new), sizes, loops)
    if wire is not None:
        narrowed = _Narrowed(wire, keep_varying | placed, list(old), dict(sizes_without_padding))
        for step in steps:
            data = narrowed.apply(data, step)
        return data
    for step in steps:
        match step:
            case Cut(dim, axes):
                data = comm.cut(data, dim, axes)
            case Gather(dim, axes):
                data = _gather(data, dim, axes, keep_varying | placed)
            case Exchange(source, target, axes):
                data = comm.all_to_all(data, target, source, axes)
            case Permute(axes, pairs):
                data = comm.ppermute(data, axes, list(pairs))
    return data


class _Narrowed:
    """The steps of a resharding, with collectives that send narrow formats.

    Args:
      wire: the formats.
      keep_varying: as in `relayout`.
      layout: the placement of every dimension before the first step.
      sizes: the sizes of padded dimensions, without their padding.
    """

    def __init__(
        self,
        wire: Wire,
        keep_varying: frozenset[str],
        layout: list[MeshAxes],
        sizes: dict[int, int],
    ):
        self.wire, self.keep_varying, self.layout, self.sizes = wire, keep_varying, layout, sizes

    def apply(self, data: jax.Array, step: Step) -> jax.Array:
        layout = self.layout
        match step:
            case Cut(dim, axes):
                layout[dim] = layout[dim] + axes
                return narrow.cut(data, dim, axes, self.wire)
            case Gather(dim, axes):
                for kept, minor in _groups(axes, self.keep_varying):
                    data = narrow.all_gather(
                        data,
                        dim,
                        minor,
                        "varying" if kept else "invarying",
                        self.wire,
                        self._real(data),
                    )
                    layout[dim] = layout[dim][: len(layout[dim]) - len(minor)]
            case Exchange(source, target, axes):
                real = self._real(data)
                data = narrow.all_to_all(data, target, source, axes, self.wire, real)
                layout[source] = layout[source][: len(layout[source]) - len(axes)]
                layout[target] = layout[target] + axes
            case Permute(axes, pairs):
                data = narrow.ppermute(data, axes, pairs, self.wire, self._real(data))
                # Permuted dimensions have unknown mesh axes from here on.
                for dim in [dim for dim in self.sizes if not set(axes).isdisjoint(layout[dim])]:
                    del self.sizes[dim]
        return data

    def _real(self, data: jax.Array) -> jax.Array | None:
        return real_entries(data.shape, self.layout, self.sizes)


def real_entries(
    shape: tuple[int, ...], layout: Sequence[MeshAxes], sizes: Mapping[int, int]
) -> jax.Array | None:
    """Return a mask of a block, False at padding; `None` if there is none.

    Args:
      shape: the shape of the block.
      layout: the placement of every dimension.
      sizes: the global sizes of padded dimensions, without their padding.
    """
    real = None
    for dim, size in sizes.items():
        at = lax.broadcasted_iota(jnp.int32, shape, dim)
        if layout[dim]:
            at = at + comm.block_index(tuple(layout[dim])) * shape[dim]
        real = at < size if real is None else real & (at < size)
    return real


def _relayout_padded(
    data: jax.Array,
    old: Sequence[MeshAxes],
    new: Sequence[MeshAxes],
    keep_varying: frozenset[str],
    wire: Wire | None = None,
) -> jax.Array:
    """Reshard a block with `Uneven` placements.

    Padding is added before a cut, and removed after a gather.

    A dimension that moves between mesh axes is gathered first, because its block size changes.
    """
    pairs = list(zip(old, new, strict=True))
    ends = [any(isinstance(axes, Uneven) for axes in pair) and pair[0] != pair[1] for pair in pairs]
    between = tuple(
        () if end and before and after else after
        for end, (before, after) in zip(ends, pairs, strict=True)
    )
    if between != tuple(new):
        placed = frozenset(axis for axes in new for axis in axes)
        data = _relayout_padded(data, old, between, keep_varying | placed, wire)
        return _relayout_padded(data, between, new, keep_varying, wire)
    for i, after in enumerate(new):
        if ends[i] and isinstance(after, Uneven):
            data = padded(data, i, padded_size(after))
    sizes = {
        i: axes.size
        for i, pair in enumerate(pairs)
        for axes in reversed(pair)
        if isinstance(axes, Uneven)
    }
    data = _relayout(
        data,
        [plain(axes) for axes in old],
        [plain(axes) for axes in new],
        keep_varying,
        wire,
        sizes,
    )
    for i, before in enumerate(old):
        if ends[i] and isinstance(before, Uneven):
            data = unpadded(data, i, before.size)
    return data


def _gather(data: jax.Array, dim: int, axes: MeshAxes, keep_varying: frozenset[str]) -> jax.Array:
    for kept, minor in _groups(axes, keep_varying):
        data = comm.all_gather(data, dim, minor, "varying" if kept else "invarying")
    return data


def _groups(axes: MeshAxes, keep_varying: frozenset[str]) -> Iterator[tuple[bool, MeshAxes]]:
    # Minor axes first; adjacent axes of the same kind in one collective.
    for kept, group in itertools.groupby(reversed(axes), key=lambda axis: axis in keep_varying):
        yield kept, tuple(reversed(list(group)))


def sum_scatter(
    data: jax.Array,
    dim: int,
    axes: MeshAxes,
    pending: frozenset[str],
    wire: Wire | None = None,
    layout: Sequence[MeshAxes] = (),
) -> jax.Array:
    """Shard dimension `dim` over `axes`, and sum `data` over `pending`, a subset of `axes`.

    The axes become the minor ones of the dimension.

    Communication: one reduce-scatter of the block, after the dimension has been sliced over the
    other axes. With `wire`, one all-to-all instead.

    Args:
      data: the summand of this device.
      dim: the dimension.
      axes: the added mesh axes.
      pending: the mesh axes to sum over.
      wire: the number formats of the collective. Default: the dtype of the array.
      layout: with `wire`, the current placement of every dimension.
    """
    real = None
    if wire is not None:
        sizes = {i: place.size for i, place in enumerate(layout) if isinstance(place, Uneven)}
        if isinstance(axes, Uneven):
            data, sizes[dim] = padded(data, dim, padded_size(axes)), axes.size
        real = real_entries(data.shape, layout, sizes)
    if isinstance(axes, Uneven):
        data, axes = padded(data, dim, padded_size(axes)), plain(axes)
    summed = tuple(axis for axis in axes if axis in pending)
    if summed == axes:
        if wire is not None:
            return narrow.psum_scatter(data, dim, axes, wire, real)
        return comm.psum_scatter(data, dim, axes)
    shape = data.shape
    blocks = [lax.axis_size(axis) for axis in axes]
    split = (*shape[:dim], *blocks, shape[dim] // math.prod(blocks), *shape[dim + 1 :])
    data = data.reshape(split)
    if real is not None:
        real = real.reshape(split)
    for i, axis in enumerate(axes):
        if axis not in pending:
            data = comm.cut(data, dim + i, (axis,))
            real = None if real is None else comm.sliced(real, dim + i, (axis,))
    data = as_one(data, dim, 1 + len(axes))
    if wire is not None:
        real = None if real is None else as_one(real, dim, 1 + len(axes))
        return narrow.psum_scatter(data, dim, summed, wire, real)
    return comm.psum_scatter(data, dim, summed)


# --- the plan -------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=4096)
def plan(
    shape: tuple[int, ...],
    old: Layout,
    new: Layout,
    sizes: tuple[tuple[str, int], ...],
    loops: frozenset[str] = frozenset(),
) -> tuple[Step, ...]:
    """Find the steps from one layout to another that send the fewest bytes.

    It is a shortest-path search.

    Args:
      shape: the shape of the local block.
      old: the current layout.
      new: the new layout.
      sizes: the number of devices along every mesh axis of both layouts, in mesh order.
      loops: the axes that are executed in steps. Default: none.

    >>> from namedax.resources.layout import plan
    >>> plan((4, 6), (("x",), ()), ((), ("x",)), (("x", 2),))
    (Exchange(source=0, target=1, axes=('x',)),)
    >>> plan((4, 6), (("x", "y"), ()), (("x",), ()), (("x", 2), ("y", 2)))
    (Gather(dim=0, axes=('y',)),)
    """
    devices = dict(sizes)
    search = _Search(shape, old, new, devices, loops)
    # The elements that one device sends, the number of steps, and a counter that makes the order
    # total.
    queue: list[tuple[float, int, int, Layout, tuple[Step | _Permutation, ...]]] = [
        (0.0, 0, 0, search.start, ())
    ]
    numbers = itertools.count(1)
    settled: set[Layout] = set()
    while queue:
        sent, length, _, layout, steps = heapq.heappop(queue)
        if layout == search.goal:
            return _joined(tuple(map(search.resolved, steps)))
        if layout in settled:
            continue
        settled.add(layout)
        for step, reached, cost in search.steps(layout):
            if reached not in settled:
                entry = (sent + cost, length + 1, next(numbers), reached, (*steps, step))
                heapq.heappush(queue, entry)
    raise AssertionError(f"no steps from layout {old} to {new} of a block of shape {shape}")


def _joined(steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """Merge consecutive cuts of one dimension, so that the transpose is one collective."""
    joined: list[Step] = []
    for step in steps:
        i = len(joined)
        while isinstance(step, Cut) and i and isinstance(cut := joined[i - 1], Cut):
            i -= 1
            if cut.dim == step.dim:
                joined[i] = Cut(step.dim, cut.axes + step.axes)
                break
        else:
            joined.append(step)
    return tuple(joined)


class _Search:
    """The graph of layouts between two layouts, with the steps as edges.

    The common parts of both layouts stay fixed: dimensions with equal placements, and the major
    mesh axes that a dimension keeps.
    """

    def __init__(
        self,
        shape: tuple[int, ...],
        old: Layout,
        new: Layout,
        devices: Mapping[str, int],
        loops: frozenset[str],
    ):
        self.devices, self.loops = devices, loops
        shared = [_shared_prefix(a, b) for a, b in zip(old, new, strict=True)]
        self.start = tuple(a[n:] for a, n in zip(old, shared, strict=True))
        self.goal = tuple(b[n:] for b, n in zip(new, shared, strict=True))
        self.moving = [i for i, (a, b) in enumerate(zip(old, new, strict=True)) if a != b]
        self.whole = [n * self.blocks(a) for n, a in zip(shape, self.start, strict=True)]

    def blocks(self, axes: MeshAxes) -> int:
        return math.prod(self.devices[axis] for axis in axes)

    def steps(self, layout: Layout) -> Iterator[tuple[Step | _Permutation, Layout, float]]:
        """Yield each step from `layout`, the new layout, and the elements that a device sends."""
        block = [n // self.blocks(axes) for n, axes in zip(self.whole, layout, strict=True)]
        elements = math.prod(block)
        used = {axis for axes in layout for axis in axes}
        wanted = {axis for axes in self.goal for axis in axes} - used
        for dim in self.moving:
            for axis in sorted(wanted):
                if block[dim] % self.devices[axis] == 0:
                    yield Cut(dim, (axis,)), _put(layout, {dim: (*layout[dim], axis)}), 0
            for kept in range(len(layout[dim])):
                major, minor = layout[dim][:kept], layout[dim][kept:]
                n = self.blocks(minor)
                # Gather the axis of a loop separately, or as the minor one.
                if not self.loops.isdisjoint(minor[:-1]):
                    continue
                yield Gather(dim, minor), _put(layout, {dim: major}), elements * (n - 1)
                if not self.loops.isdisjoint(minor):
                    continue
                for target in self.moving:
                    if target != dim and block[target] % n == 0:
                        reached = _put(layout, {dim: major, target: layout[target] + minor})
                        yield Exchange(dim, target, minor), reached, elements * (n - 1) / n
        yield from self._permutations(layout, elements)

    def _permutations(
        self, layout: Layout, elements: int
    ) -> Iterator[tuple[_Permutation, Layout, float]]:
        steps = tuple(
            tuple(axis for axis in placement if axis in self.loops) for placement in layout
        )
        if any(
            placement[len(placement) - len(loops) :] != loops
            for placement, loops in zip(layout, steps, strict=True)
        ):
            return
        layout = tuple(
            placement[: len(placement) - len(loops)]
            for placement, loops in zip(layout, steps, strict=True)
        )
        used = {axis for placement in layout for axis in placement}
        axes = tuple(axis for axis in self.devices if axis in used)
        for order in itertools.permutations(axes):
            for reached in self._deal(order, layout):
                if reached != layout:
                    there = tuple(map(operator.add, reached, steps))  # loops keep their places
                    yield _Permutation(axes, layout, reached), there, elements

    def _deal(self, order: MeshAxes, layout: Layout) -> Iterator[Layout]:
        """Yield all layouts with this order of mesh axes and the block counts of `layout`."""
        if not layout:
            if not order:
                yield ()
            return
        for n in range(len(order) + 1):
            if self.blocks(order[:n]) == self.blocks(layout[0]):
                for rest in self._deal(order[n:], layout[1:]):
                    yield (order[:n], *rest)

    def resolved(self, step: Step | _Permutation) -> Step:
        """Return a step with its pairs of devices."""
        if not isinstance(step, _Permutation):
            return step
        return Permute(step.axes, self._pairs(*step))

    def _pairs(self, axes: MeshAxes, old: Layout, new: Layout) -> tuple[tuple[int, int], ...]:
        """Return pairs of source and target devices, row-major over `axes`."""
        grid = np.indices(tuple(self.devices[axis] for axis in axes))
        at = dict(zip(axes, grid, strict=True))

        def blocks(layout: Layout) -> np.ndarray:
            """Return the number of the block of each device; it is unique for each block."""
            number = np.zeros(grid.shape[1:], int)
            for axis in itertools.chain.from_iterable(layout):
                number = number * self.devices[axis] + at[axis]
            return number.ravel()

        target = np.argsort(blocks(new))[blocks(old)]
        return tuple(enumerate(target.tolist()))


def _shared_prefix(a: MeshAxes, b: MeshAxes) -> int:
    return sum(
        1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(a, b, strict=False))
    )


def _put(layout: Layout, placements: Mapping[int, MeshAxes]) -> Layout:
    return tuple(placements.get(i, axes) for i, axes in enumerate(layout))
