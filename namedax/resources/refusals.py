"""Errors for operations that steps do not support, with the operation that the body calls, the axis and the remedy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from namedax.core.name_scopes import running_operation
from namedax.core.region import ambient
from namedax.errors import SerialLoopError, show_names
from namedax.resources.microbatches import refuse_microbatches
from namedax.resources.serial import LoopAxis

__all__ = ["moves_entries", "refuse_loops"]


def refuse_loops(axes: Sequence[str], data: Any) -> None:
    """Raise an error if one of `axes` is the axis of a loop, for collectives that move blocks along `axes`.

    Raises:
      PipelineError: one of `axes` is a microbatch axis.
      SerialLoopError: one of `axes` is the axis of a loop. The message names the operation that the
        body calls.
    """
    refuse_microbatches(axes)
    loop = next((axis for axis in axes if isinstance(axis, LoopAxis)), None)
    if loop is None:
        return
    region = ambient()
    names = [
        name
        for name, held in (region.resources if region is not None else {}).items()
        if loop in held
    ]
    sizes = [region.sizes[name] for name in names if region is not None and name in region.sizes]
    held = (
        f"{show_names(names)}{f' of size {sizes[0]}' if len(sizes) == 1 == len(names) else ''}"
        if names
        else "of a loop"
    )
    what = running_operation() or "an operation in the body"
    raise SerialLoopError(
        moves_entries(what, f"the axis {held}", f"{loop} executes in {loop.steps} steps", data)
    )


def moves_entries(what: str, axis: str, how: str, data: Any) -> str:
    """Return the error message for an operation that moves elements along an axis that is executed in steps.

    Args:
      what: the operation.
      axis: the axis, as the object of "along".
      how: the verb phrase for its execution, such as "l executes in 4 steps".
      data: the block, for its shape and dtype.
    """
    return (
        f"{what}: the operation moves elements along {axis}, which {how}; a step cannot access the"
        f" data of other steps (here, blocks of {data.dtype}{list(data.shape)}). Rename the axis to"
        " a name without a loop first, which gathers it, and rename the result back; or remove the"
        " SerialLoop from axis_resources, or execute another axis in steps."
    )
