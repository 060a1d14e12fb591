"""What cannot be done in steps, refused in the user's words: the operation that the body calls, the axis, and the remedy."""

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
    """Refuses to send blocks along `axes` if one of them is a loop's.

    Raises:
      SerialLoopError: one is; of the operation that the body calls, at the line that calls it.
    """
    refuse_microbatches(axes)
    loop = next((axis for axis in axes if isinstance(axis, LoopAxis)), None)
    if loop is None:
        return
    region = ambient()
    names = [name for name, held in (region.resources if region is not None else {}).items() if loop in held]
    sizes = [region.sizes[name] for name in names if region is not None and name in region.sizes]
    held = f"{show_names(names)}{f' of size {sizes[0]}' if len(sizes) == 1 == len(names) else ''}" if names else "of a loop"
    what = running_operation() or "an operation in the body"
    raise SerialLoopError(moves_entries(what, f"the axis {held}", f"{loop} executes in {loop.steps} steps", data))


def moves_entries(what: str, axis: str, how: str, data: Any) -> str:
    """The message: `what` moves entries along `axis`, which `how`."""
    return (
        f"{what} moves entries along {axis}, which {how}, one after the other; so no step has entries of the others "
        f"(here, blocks of {data.dtype}{list(data.shape)}). Rename the axis to a name without a loop first, which gathers it, and rename the "
        "result back; or remove the SerialLoop from axis_resources, or execute another axis in steps."
    )
