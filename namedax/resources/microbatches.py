"""Microbatches as a resource: the axis that a pipeline cuts into parts, one of which a device works on at a time.

Like the axis of a `SerialLoop` it divides what one device has, so it comes last in a placement. No device stands behind it, and JAX's types
do not know it. Which part is at hand is a number of the program, and where a block begins along the axis follows from it: positions and random
numbers are those of the whole axis. What needs other parts is refused.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterable, Sequence
from typing import Any

from jax import lax

from namedax.core.variance import UntrackedAxis
from namedax.errors import PipelineError
from namedax.resources.serial import LoopAxis

__all__ = ["MicrobatchAxis", "count_along", "index_along", "refuse_microbatches", "stages_among"]

_fresh = itertools.count()


class MicrobatchAxis(LoopAxis, UntrackedAxis):
    """The microbatches of an axis, and the number of the one at hand. Each is another axis, so that no program of one is taken for another."""

    __slots__ = ("name", "number", "stages")
    name: Hashable
    number: Any
    stages: frozenset[str]

    def __new__(cls, name: Hashable, count: int, number: Any = None, stages: frozenset[str] = frozenset()) -> MicrobatchAxis:
        """The `count` microbatches of the axis `name`, of which `number` is at hand; each stage, along the mesh axes `stages`, has another."""
        axis: Any = super().__new__(cls, f"microbatches of {name!r} ({next(_fresh)})", count)
        axis.name, axis.number, axis.stages = name, number, stages
        found: MicrobatchAxis = axis
        return found

    def __reduce__(self) -> Any:
        return (MicrobatchAxis, (self.name, self.steps, None, self.stages))


def refuse_microbatches(axes: Sequence[str]) -> None:
    """Refuses what needs all entries along `axes` if one of them is that of microbatches.

    Raises:
      PipelineError: one is.
    """
    for axis in axes:
        if isinstance(axis, MicrobatchAxis):
            raise PipelineError(
                f"pipeline: the function needs all entries of {axis.name!r} at once (it sums over them, say, or sends them elsewhere), and it sees "
                f"one of {axis.steps} microbatches. Return what belongs to an entry, with outputs=True, and reduce {axis.name!r} after the "
                "pipeline; or give what is needed of the whole axis as an input."
            )


def stages_among(placements: Iterable[Sequence[str]]) -> frozenset[str]:
    """The mesh axes of the stages of the pipelines whose microbatches are among some placements: all values in their layers may vary there."""
    found = (axis.stages for axes in placements for axis in axes if isinstance(axis, MicrobatchAxis))
    return frozenset[str]().union(*found)


def count_along(axes: Sequence[str]) -> int:
    """The number of blocks along `axes`."""
    count = 1
    for axis in axes:
        count *= axis.steps if isinstance(axis, MicrobatchAxis) else lax.axis_size(axis)
    return count


def index_along(axes: Sequence[str]) -> Any:
    """The number of the block at hand along `axes`, row-major."""
    devices = tuple(axis for axis in axes if not isinstance(axis, MicrobatchAxis))
    if len(devices) == len(axes):
        return lax.axis_index(devices)
    (axis,) = (axis for axis in axes if isinstance(axis, MicrobatchAxis))
    if axis.number is None:
        raise PipelineError(
            f"pipeline: a rule for a derivative asks where a microbatch of {axis.name!r} begins, when the pipeline has been traced. Compute what "
            "depends on positions in the function itself, or give it as an input."
        )
    return lax.axis_index(devices) * axis.steps + axis.number if devices else axis.number
