"""The microbatch axis of a pipeline, which a device processes one microbatch at a time.

Like the axis of a `SerialLoop` it divides the block of one device, so it comes last in a placement.
It is not a mesh axis, and JAX's types do not track it. The index of the current microbatch is a
value in the traced program, and the offset of a block along the axis follows from it. Positions and
random numbers are therefore the same as for the full axis. An operation that needs other
microbatches raises an error.
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
    """The microbatches of an axis, with the index of the current one.

    Each instance has a unique name, so that cached programs are not shared between pipelines.
    """

    __slots__ = ("name", "number", "stages")
    name: Hashable
    number: Any
    stages: frozenset[str]

    def __new__(
        cls, name: Hashable, count: int, number: Any = None, stages: frozenset[str] = frozenset()
    ) -> MicrobatchAxis:
        """Create the microbatch axis of the axis `name`.

        Args:
          name: the name of the axis.
          count: the number of microbatches.
          number: the index of the current microbatch; `None` after the pipeline has been traced.
            Default: `None`.
          stages: the mesh axes of the pipeline's stages. Each stage processes a different
            microbatch. Default: none.
        """
        axis: Any = super().__new__(cls, f"microbatches of {name!r} ({next(_fresh)})", count)
        axis.name, axis.number, axis.stages = name, number, stages
        found: MicrobatchAxis = axis
        return found

    def __reduce__(self) -> Any:
        return (MicrobatchAxis, (self.name, self.steps, None, self.stages))


def refuse_microbatches(axes: Sequence[str]) -> None:
    """Raise an error if one of `axes` is a microbatch axis, for operations that need all elements along `axes`.

    Raises:
      PipelineError: one of `axes` is a microbatch axis.
    """
    for axis in axes:
        if isinstance(axis, MicrobatchAxis):
            raise PipelineError(
                f"pipeline: the function reduces or communicates over {axis.name!r}, but each call"
                f" gets one of {axis.steps} microbatches of that axis. Return a value per element"
                f" with outputs=True and reduce {axis.name!r} after the pipeline; or compute the"
                " value before the pipeline and pass it as an input."
            )


def stages_among(placements: Iterable[Sequence[str]]) -> frozenset[str]:
    """Return the stage mesh axes of all microbatch axes in the placements.

    Every value in a layer of these pipelines may vary over them.
    """
    found = (
        axis.stages for axes in placements for axis in axes if isinstance(axis, MicrobatchAxis)
    )
    return frozenset[str]().union(*found)


def count_along(axes: Sequence[str]) -> int:
    """Return the number of blocks along `axes`."""
    count = 1
    for axis in axes:
        count *= axis.steps if isinstance(axis, MicrobatchAxis) else lax.axis_size(axis)
    return count


def index_along(axes: Sequence[str]) -> Any:
    """Return the row-major index of the current block along `axes`."""
    devices = tuple(axis for axis in axes if not isinstance(axis, MicrobatchAxis))
    if len(devices) == len(axes):
        return lax.axis_index(devices)
    (axis,) = (axis for axis in axes if isinstance(axis, MicrobatchAxis))
    if axis.number is None:
        raise PipelineError(
            f"pipeline: a differentiation rule needs the offset of a microbatch of {axis.name!r}"
            " after the pipeline has been traced. Compute values that depend on positions in the"
            " function itself, or pass them as inputs."
        )
    return lax.axis_index(devices) * axis.steps + axis.number if devices else axis.number
