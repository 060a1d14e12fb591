"""How notebooks show a named array: IPython's displays, and treescope's.

Nothing here fails or computes for want of values: under a trace, after donation and for values on other processes the type is
shown alone. Neither library is imported before it asks.
"""

from __future__ import annotations

import html
import math
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from namedax.core.array import NamedArray, shown_placements, type_text
from namedax.errors import NamedAxesLeftError
from namedax.operands.broadcasting import align

__all__ = ["pretty", "to_html", "treescope_adapter", "treescope_rendering"]

# Larger arrays are not copied to the host only to be shown.
_MOST_ELEMENTS = 10_000_000


def _values(array: NamedArray) -> np.ndarray | None:
    """The values on this host, or `None` if there are none, or too many."""
    data: Any = array.data
    if isinstance(data, jax.core.Tracer) or not isinstance(data, jax.Array):
        return None
    if data.is_deleted() or not data.is_fully_addressable or data.size > _MOST_ELEMENTS:
        return None
    if jnp.issubdtype(data.dtype, jax.dtypes.extended):
        return None
    return np.asarray(data)


def _state(array: NamedArray) -> str:
    """Why there are no values to show."""
    data: Any = array.data
    if isinstance(data, jax.core.Tracer):
        return "traced"
    if not isinstance(data, jax.Array):
        return "no values"
    if data.is_deleted():
        return "deleted"
    if not data.is_fully_addressable:
        return "values on other processes"
    return f"{math.prod(data.shape)} elements"


def _statistics(values: np.ndarray) -> str:
    """Mean, deviation and range of numbers, for a line."""
    if values.size == 0:
        return "empty"
    if values.dtype == np.bool_:
        return f"{int(values.sum())} of {values.size} true"
    if jnp.issubdtype(values.dtype, jnp.complexfloating):
        return f"mean {values.mean():.4g}"
    if not jnp.issubdtype(values.dtype, jnp.floating):
        return f"from {values.min()} to {values.max()}"
    wide = values.astype(np.float64)
    finite = wide[np.isfinite(wide)]
    parts = []
    if finite.size:
        # Scaled, so that the largest numbers of a type have a mean.
        scale = float(np.abs(finite).max()) or 1.0
        mean, deviation = (finite / scale).mean() * scale, (finite / scale).std() * scale
        parts.append(f"mean {mean:.4g}, std {deviation:.4g}, from {finite.min():.4g} to {finite.max():.4g}")
    parts += [f"{int(n)} {what}" for n, what in ((np.isnan(wide).sum(), "NaN"), (np.isinf(wide).sum(), "infinite")) if n]
    return ", ".join(parts)


def _summary(array: NamedArray) -> str:
    values = _values(array)
    return _state(array) if values is None else _statistics(values)


def _values_text(array: NamedArray) -> str:
    values = _values(array)
    return "" if values is None else np.array2string(values, threshold=24, edgeitems=2, precision=4, separator=", ")


def pretty(array: NamedArray, printer: Any, cycle: bool) -> None:
    """IPython's plain display: `repr`, its values indented below the type, wherever the array stands."""
    head, *lines = repr(array).split("\n")
    with printer.group(2):
        printer.text(head)
        for line in lines:
            printer.break_()
            printer.text(line)


def to_html(array: NamedArray) -> str:
    """IPython's rich display: the type, a table of the axes with their placement, and the values."""
    kind = html.escape(type_text(array))
    rows = "".join(
        "<tr>"
        + "".join(f"<td style='text-align:left'>{html.escape(cell)}</td>" for cell in (axis, str(size), placement or "whole"))
        + "</tr>"
        for axis, size, placement in _axes(array)
    )
    table = f"<table><thead><tr><th>axis</th><th>size</th><th>placement</th></tr></thead><tbody>{rows}</tbody></table>"
    values = _values_text(array)
    body = f"<pre>{html.escape(values)}</pre>" if values else ""
    return f"<div><code>NamedArray {kind}</code>{table if rows else ''}<div>{html.escape(_summary(array))}</div>{body}</div>"


def _axes(array: NamedArray) -> list[tuple[str, int, str]]:
    """Name (or position), size and mesh axes of every axis; nothing if the dims do not fit the data."""
    dims = array.dims
    data: Any = array.data
    if len(getattr(data, "shape", ())) != len(dims):
        return []
    sizes = array.named_shape
    placements = shown_placements(array)
    positions = iter(range(len(dims)))
    return [
        (
            f"position {next(positions)}" if dim is None else str(dim),
            n if dim is None else sizes[dim],
            ", ".join(placements[i]),
        )
        for i, (dim, n) in enumerate(zip(dims, data.shape, strict=True))
    ]


# --- treescope ------------------------------------------------------------------------------------------------------


def treescope_rendering(array: NamedArray, path: str | None, subtree_renderer: Any) -> Any:
    """The array in a tree: one line with its type and a summary; with the values as well where it stands alone."""
    from treescope import rendering_parts as parts
    from treescope import type_registries

    # Without this, an array that occurs twice would be marked as shared, as if changing it were possible.
    type_registries.IMMUTABLE_TYPES_REGISTRY.setdefault(NamedArray, True)
    text = parts.text(f"NamedArray {type_text(array)}, {_summary(array)}")
    lines = _values_text(array)
    if not lines:
        line = parts.siblings(parts.text("<"), text, parts.text(">"))
        return parts.build_one_line_tree_node(line=parts.abbreviation_color(line), path=path)
    label = parts.siblings(
        parts.fold_condition(expanded=parts.text("# "), collapsed=parts.text("<")),
        text,
        parts.fold_condition(collapsed=parts.text(">")),
    )
    return parts.build_custom_foldable_tree_node(
        label=parts.abbreviation_color(parts.comment_color_when_expanded(label)),
        contents=parts.fold_condition(expanded=parts.indented_children([parts.text(lines)])),
        path=path,
    )


def _mask(mask: Any, array: NamedArray) -> np.ndarray:
    (_, aligned), dims = align("treescope, mask", array, mask)
    if dims != array.dims:
        raise NamedAxesLeftError(
            f"treescope, mask: {type_text(mask)} has axes that the array {type_text(array)} lacks. Reduce or rename them."
        )
    return np.broadcast_to(np.asarray(aligned, bool), array.data.shape).copy()


_adapters: list[Any] = []


def treescope_adapter() -> Any:
    """What treescope draws named arrays with."""
    if not _adapters:
        _adapters.append(_make_adapter())
    return _adapters[0]


def _make_adapter() -> Any:
    from treescope import ndarray_adapters as adapters

    class Adapter(adapters.NDArrayAdapter):  # type: ignore[misc, unused-ignore]
        """Shows named axes by their names, and positional ones by their positions."""

        def get_axis_info_for_array_data(self, array: NamedArray) -> tuple[Any, ...]:
            positions = iter(range(len(array.dims)))
            return tuple(
                adapters.PositionalAxisInfo(next(positions), n) if dim is None else adapters.NamedPositionlessAxisInfo(dim, n)
                for dim, n in zip(array.dims, array.data.shape, strict=True)
            )

        def get_array_data_with_truncation(
            self, array: NamedArray, mask: Any, edge_items_per_axis: tuple[int | None, ...]
        ) -> tuple[np.ndarray, np.ndarray]:
            values = np.asarray(array.data)
            shown = np.ones(values.shape, bool) if mask is None else _mask(mask, array)
            for axis, edge in enumerate(edge_items_per_axis):
                if edge is not None:
                    n = values.shape[axis]
                    # The element in the middle stands for all that are left out.
                    kept = [*range(edge), edge, *range(n - edge, n)]
                    values, shown = values.take(kept, axis), shown.take(kept, axis)
                    middle = [slice(None)] * shown.ndim
                    middle[axis] = slice(edge, edge + 1)
                    shown[tuple(middle)] = False
            return values, shown

        def get_array_summary(self, array: NamedArray, fast: bool) -> str:
            return f"NamedArray {type_text(array)}" + ("" if fast else f" {_summary(array)}")

        def get_numpy_dtype(self, array: NamedArray) -> Any:
            return np.dtype(array.dtype) if _values(array) is not None else None

        def get_sharding_info_for_array_data(self, array: NamedArray) -> Any:
            sharding, shape = array.data.sharding, array.data.shape
            blocks: Mapping[Any, Any] = sharding.devices_indices_map(shape)
            return adapters.ShardingInfo(
                shard_shape=sharding.shard_shape(shape),
                device_index_to_shard_slices={device.id: index for device, index in blocks.items()},
                device_type=next(iter(blocks)).platform.upper(),
                fully_replicated=sharding.is_fully_replicated,
            )

        def should_autovisualize(self, array: NamedArray) -> bool:
            fits = len(array.dims) == len(getattr(array.data, "shape", ()))
            return fits and 0 not in array.data.shape and _values(array) is not None

    return Adapter()
