"""Moving an axis from one placement to another, with the cheapest collective that does it.

The placement of a dimension is the tuple of mesh axes that its blocks are spread over, major first. `relayout` changes
the placements of any number of dimensions at once. A prefix that old and new placement share stays where it is.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

from jax import lax

from namedax.resources import communication as comm

__all__ = ["relayout"]

Axes = tuple[str, ...]


def relayout(data: Any, old: Sequence[Axes], new: Sequence[Axes], keep_varying: frozenset[str] = frozenset()) -> Any:
    """`data` with dimension `i` placed on `new[i]`, where it was on `old[i]`.

    What it costs: a mesh axis that only appears: nothing (a local slice). One that only disappears: one all-gather. The
    same mesh axes moving from one dimension to another: one all-to-all. One dimension moving to other mesh axes: one
    collective-permute of a slice and one all-gather of the result.

    Args:
      data: the local block.
      old: the placement of every dimension.
      new: the placement that every dimension shall have.
      keep_varying: mesh axes over which the result shall be device-varying although it is gathered over them, because it
        meets values that vary there (the transpose is then a reduce-scatter, not an all-reduce and a slice).
    """
    leaving: dict[int, Axes] = {}
    arriving: dict[int, Axes] = {}
    for dim, (a, b) in enumerate(zip(old, new, strict=True)):
        shared = len(list(itertools.takewhile(lambda pair: pair[0] == pair[1], zip(a, b, strict=False))))
        if a[shared:]:
            leaving[dim] = a[shared:]
        if b[shared:]:
            arriving[dim] = b[shared:]

    for source, axes in list(leaving.items()):
        target = next((dim for dim, to in arriving.items() if to == axes and dim not in leaving), None)
        if target is not None and source not in arriving:
            data = comm.all_to_all(data, target, source, axes)
            del leaving[source], arriving[target]

    for dim in list(leaving):
        if dim in arriving and _can_permute(data, dim, leaving[dim], arriving[dim]):
            data = _move(data, dim, leaving.pop(dim), arriving.pop(dim), keep_varying)

    for dim, axes in leaving.items():
        data = _gather(data, dim, axes, keep_varying)
    for dim, axes in arriving.items():
        data = comm.cut(data, dim, axes)
    return data


def _gather(data: Any, dim: int, axes: Axes, keep_varying: frozenset[str]) -> Any:
    # Minor axes first; neighbours of the same kind in one collective.
    for kept, group in itertools.groupby(reversed(axes), key=lambda axis: axis in keep_varying):
        data = comm.all_gather(data, dim, tuple(reversed(list(group))), "varying" if kept else "invarying")
    return data


def _devices(axes: Axes) -> int:
    return math.prod(lax.axis_size(axis) for axis in axes)


def _can_permute(data: Any, dim: int, old: Axes, new: Axes) -> bool:
    return not set(old) & set(new) and data.shape[dim] % _devices(new) == 0


def _move(data: Any, dim: int, old: Axes, new: Axes, keep_varying: frozenset[str]) -> Any:
    # Cut the block along the new axes, which gives the placement old + new (old major). Exchange blocks so that the new
    # axes are the major ones, then gather over the old axes, now the minor ones.
    m, n = _devices(old), _devices(new)
    data = comm.cut(data, dim, new)
    # Device (i, j) holds global block i*n + j and shall hold block j*m + i, which is at the device of that row-major index.
    data = comm.ppermute(data, old + new, [(j * m + i, i * n + j) for i in range(m) for j in range(n)])
    return _gather(data, dim, old, keep_varying)
