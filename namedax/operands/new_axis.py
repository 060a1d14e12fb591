"""Results with an axis that their operands lack: its placement and its name."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from namedax.core.names import Dims, check_name, is_name
from namedax.core.region import ambient
from namedax.errors import AxisSizeError, PositionalAxisError, format_value
from namedax.operands.broadcasting import make_result
from namedax.resources.layout import relayout

__all__ = ["finish_with_new_axis", "new_axis_placement"]


def new_axis_placement(
    op: str, out_axis: Hashable | None, size: int, dims: Dims
) -> tuple[str, ...]:
    """Return the mesh axes of a new axis of that name and size next to `dims`, after checks.

    Its last blocks may be padded.

    Raises:
      UnevenAxisError: it does not divide over its mesh axes, and its size was unknown when the body
        began.
      AxisSizeError: the name has a different size in the mapped function, or is already an axis of
        the result.
      PlacementConflictError: its mesh axis is that of another name of the result.
    """
    if out_axis is None:
        return ()
    if not is_name(out_axis):
        raise PositionalAxisError(
            f"{op}: out_axis={format_value(out_axis)} is not a name. Leave it out for a positional"
            " axis."
        )
    check_name(out_axis, op)
    if out_axis in dims:
        raise AxisSizeError(
            f"{op}: the result already has an axis {format_value(out_axis)}. Choose another"
            " out_axis."
        )
    region = ambient()
    if region is None:
        return ()
    known = region.sizes.get(out_axis, size)
    if known != size:
        raise AxisSizeError(
            f"{op}: axis {format_value(out_axis)} would have size {size}, but it has size {known}"
            " in this mapped function; a name has one size. Choose another out_axis."
        )
    region.check_placement(op, [*(dim for dim in dims if dim is not None), out_axis])
    region.block_size(out_axis, size, op, supports_padding=True)
    return region.place(out_axis)


def finish_with_new_axis(
    op: str, data: Any, dims: Dims, place: int, out_axis: Hashable | None
) -> Any:
    """Wrap a result whose dimension `place` is new and replicated.

    A sharded name keeps its block of it.
    """
    others = (*dims[:place], *dims[place + 1 :])
    placement = new_axis_placement(op, out_axis, data.shape[place], others)
    if placement:
        none: list[tuple[str, ...]] = [()] * data.ndim
        data = relayout(data, none, [*none[:place], placement, *none[place + 1 :]])
    return make_result(data, (*dims[:place], out_axis, *dims[place + 1 :]))
