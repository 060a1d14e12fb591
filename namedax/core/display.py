"""Text and rich displays of named arrays: the one-line type, `repr`, IPython and treescope.

Displays never fail and never compute missing values. Under a trace, after donation, and for values
on other processes they show only the type. IPython and treescope are imported only when they
display an array. `NamedArray` derives from `Shown`, so this module does not depend on the array.
"""

from __future__ import annotations

import functools
import html
import math
from collections.abc import Callable, Hashable, Mapping
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding

from namedax.core.names import Dims, escaped
from namedax.core.region import ambient
from namedax.errors import AxisSizeError, NamedAxesLeftError, format_value, shape_of, show_dtype

__all__ = [
    "Shown",
    "positional_type_text",
    "shown_placements",
    "treescope_adapter",
    "type_text",
    "without_padding",
]


class Shown:
    """The base class of `NamedArray` that implements its displays."""

    __slots__ = ()

    # ruff: disable[D102] (the array has their docstrings)
    if TYPE_CHECKING:

        @property
        def data(self) -> jax.Array: ...
        @property
        def dims(self) -> Dims: ...
        @property
        def shape(self) -> tuple[int, ...]: ...
        @property
        def named_shape(self) -> Mapping[Hashable, int]: ...
        @property
        def _sizes(self) -> Mapping[Hashable, int]: ...
        @property
        def dtype(self) -> np.dtype: ...

    # ruff: enable[D102]

    def __repr__(self) -> str:
        data: Any = self.data
        if isinstance(data, jax.core.Tracer) or not isinstance(data, jax.Array):
            return f"NamedArray({type_text(self)})"
        if data.is_deleted():
            return f"NamedArray({type_text(self)}, deleted)"
        if not data.is_fully_addressable:
            return f"NamedArray({type_text(self)}, values on other processes)"
        if unreduced := _unreduced_over(data):
            return f"NamedArray({type_text(self)}, {unreduced})"
        # random keys, which NumPy does not support
        if jnp.issubdtype(data.dtype, jax.dtypes.extended):
            data = jax.random.key_data(data)
        values = np.array2string(
            without_padding(self, np.asarray(data)),
            threshold=24,
            edgeitems=2,
            precision=4,
            separator=", ",
        )
        return f"NamedArray({type_text(self)}, dims=({_dims_text(self.dims)}),\n{values})"

    def _type_text(self) -> str:
        # `errors.format_value` calls this, since it does not import arrays.
        return type_text(self)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """Print the array for IPython: `repr`, with its values indented below the type."""
        head, *lines = repr(self).split("\n")
        with printer.group(2):
            printer.text(head)
            for line in lines:
                printer.break_()
                printer.text(line)

    @property
    def _repr_html_(self) -> Callable[[], str]:
        # A property, because treescope inspects the class and has its own rendering: it would show
        # this one too.
        return lambda: _to_html(self)

    def __treescope_repr__(self, path: str | None, subtree_renderer: object) -> Any:
        return _treescope_rendering(self, path)

    def __treescope_ndarray_adapter__(self) -> Any:
        return treescope_adapter()


def _dims_text(dims: Dims) -> str:
    """Return the dims of an array for its `repr`."""
    return ", ".join("_" if dim is None else escaped(str(dim)) for dim in dims)


def _unreduced_over(data: jax.Array) -> str:
    """Return the mesh axes over which an array is unreduced, as text.

    Its values are partial sums that are not yet reduced over devices.
    """
    axes = sorted(data.sharding.spec.unreduced) if isinstance(data.sharding, NamedSharding) else ()
    return f"unreduced over {', '.join(map(repr, axes))}" if axes else ""


def _mesh_axes_text(axes: tuple[str, ...]) -> str:
    return "" if not axes else "@" + (axes[0] if len(axes) == 1 else "(" + ",".join(axes) + ")")


def shown_placements(value: Shown) -> list[tuple[str, ...]]:
    """Return the mesh axes of every dimension, from the region's layout or the data's sharding."""
    data: Any = value.data
    dims, region = value.dims, ambient()
    if region is not None and region.resources:
        return [() if dim is None else region.resources.get(dim, ()) for dim in dims]
    has_sharding = isinstance(data, (jax.Array, jax.ShapeDtypeStruct)) and not isinstance(
        data, jax.core.Tracer
    )
    sharding = data.sharding if has_sharding else None
    spec = sharding.spec.partitions if isinstance(sharding, NamedSharding) else ()
    padded = spec + (None,) * (len(dims) - len(spec))
    return [
        () if not axes else (axes,) if isinstance(axes, str) else tuple(axes) for axes in padded
    ]


def positional_type_text(value: Shown) -> str:
    """Return the type without named axes: dtype and positional shape.

    A function that is vectorized over all names of the array gets this type.

    >>> import jax.numpy as jnp, namedax as nx
    >>> from namedax.core.display import positional_type_text
    >>> positional_type_text(nx.NamedArray(jnp.zeros((5, 20)), (None, "batch")))
    'f32[5]'
    """
    return f"{show_dtype(value.dtype)}[{','.join(map(str, value.shape))}]"


def type_text(value: object) -> str:
    """Return the type of an array as `repr` shows it.

    The text has the dtype, the positional shape, and the named shape with its sharding.

    >>> import jax.numpy as jnp, namedax as nx
    >>> from namedax.core.display import type_text
    >>> type_text(nx.NamedArray(jnp.zeros((5, 20, 7)), (None, "batch", "k")))
    'f32[5]{batch:20, k:7}'
    """
    if not isinstance(value, Shown):
        # A Python number that went through jax.checkpoint has a dtype and no shape.
        dtype = getattr(value, "dtype", None)
        is_number = isinstance(value, (int, float, complex))
        own = shape_of(value) if not is_number or dtype is None else ()
        return (
            format_value(value)
            if own is None
            else f"{show_dtype(dtype)}[{','.join(map(str, own))}]"
        )
    data: Any = value.data
    dims = value.dims
    # the shape of a named array covers its positional axes only
    of_data = None if isinstance(data, Shown) else shape_of(data)
    if of_data is None:  # `jax.tree.map` puts any object in the place of the data
        return f"{format_value(data)}, dims=({_dims_text(dims)})"
    if len(of_data) != len(dims):
        return f"{format_value(data)} with axes {dims} that do not fit"
    specs = shown_placements(value)
    shape = ",".join(
        str(n) + _mesh_axes_text(s)
        for n, dim, s in zip(of_data, dims, specs, strict=True)
        if dim is None
    )
    sizes = value._sizes
    named = ", ".join(
        f"{escaped(str(dim))}:{sizes[dim]}{_mesh_axes_text(s)}"
        for dim, s in zip(dims, specs, strict=True)
        if dim is not None
    )
    return f"{show_dtype(value.dtype)}{_memory_text(data)}[{shape}]{{{named}}}"


def _memory_text(data: object) -> str:
    """Return `<host>` for an array in the memory of the host, as JAX shows it."""
    is_array = isinstance(data, jax.Array)
    is_on_host = is_array and jax.typeof(data).memory_space is jax.memory.Space.Host
    return "<host>" if is_on_host else ""


# Larger arrays are not copied to the host for display.
_MOST_ELEMENTS = 10_000_000


def index_text(part: object) -> str:
    """Return one part of an index as a user writes it.

    A slice is `2:5`; an array is `mask` or `index`.

    >>> import numpy as np
    >>> from namedax.core.display import index_text
    >>> [index_text(part) for part in ("month", 3, slice(2, 5), slice(None, None, 2), ...)]
    ["'month'", '3', '2:5', '::2', '...']
    >>> index_text(np.arange(3))
    'index'
    """
    if isinstance(part, slice):
        start, stop, step = (
            "" if bound is None else repr(bound) for bound in (part.start, part.stop, part.step)
        )
        return f"{start}:{stop}" if part.step is None else f"{start}:{stop}:{step}"
    if part is ...:
        return "..."
    if hasattr(part, "dtype"):
        return "mask" if part.dtype == np.bool_ else "index"
    return format_value(part)


def _values(array: Shown) -> np.ndarray | None:
    """Return the values on this host, or `None` if there are none, or too many."""
    data: Any = array.data
    if isinstance(data, jax.core.Tracer) or not isinstance(data, jax.Array):
        return None
    if data.is_deleted() or not data.is_fully_addressable or data.size > _MOST_ELEMENTS:
        return None
    if jnp.issubdtype(data.dtype, jax.dtypes.extended) or _unreduced_over(data):
        return None
    return without_padding(array, np.asarray(data))


def without_padding(array: Shown, values: np.ndarray) -> np.ndarray:
    """Remove the padding of an array that is stored padded."""
    if len(array.data.shape) != len(array.dims):
        return values
    sizes = array._sizes
    where = tuple(slice(None) if dim is None else slice(sizes[dim]) for dim in array.dims)
    return values[where]


def _state(array: Shown) -> str:
    """Return the reason why there are no values to show."""
    data: Any = array.data
    if isinstance(data, jax.core.Tracer):
        return "traced"
    if not isinstance(data, jax.Array):
        return "no values"
    if data.is_deleted():
        return "deleted"
    if not data.is_fully_addressable:
        return "values on other processes"
    return _unreduced_over(data) or f"{math.prod(data.shape)} elements"


def _true_shape(array: Shown) -> tuple[int, ...]:
    """Return the size of every dimension, without padding."""
    sizes = array._sizes
    return tuple(
        n if dim is None else sizes[dim]
        for dim, n in zip(array.dims, array.data.shape, strict=True)
    )


def _statistics(values: np.ndarray) -> str:
    """Return the mean, deviation and range of numbers, in one line."""
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
        # Scaled, so that the mean of the largest numbers of a dtype does not overflow.
        scale = float(np.abs(finite).max()) or 1.0
        mean, deviation = (finite / scale).mean() * scale, (finite / scale).std() * scale
        parts.append(
            f"mean {mean:.4g}, std {deviation:.4g}, from {finite.min():.4g} to {finite.max():.4g}"
        )
    parts += [
        f"{int(n)} {what}"
        for n, what in ((np.isnan(wide).sum(), "NaN"), (np.isinf(wide).sum(), "infinite"))
        if n
    ]
    return ", ".join(parts)


def _summary(array: Shown) -> str:
    values = _values(array)
    return _state(array) if values is None else _statistics(values)


def _values_text(array: Shown) -> str:
    values = _values(array)
    return (
        ""
        if values is None
        else np.array2string(values, threshold=24, edgeitems=2, precision=4, separator=", ")
    )


def _to_html(array: Shown) -> str:
    """Return IPython's rich display: type, table of axes with their sharding, and values."""
    kind = html.escape(type_text(array))
    rows = "".join(
        "<tr>"
        + "".join(
            f"<td style='text-align:left'>{html.escape(cell)}</td>"
            for cell in (axis, str(size), placement or "whole")
        )
        + "</tr>"
        for axis, size, placement in _axes(array)
    )
    table = (
        "<table><thead><tr><th>axis</th><th>size</th><th>placement</th></tr></thead>"
        f"<tbody>{rows}</tbody></table>"
    )
    values = _values_text(array)
    body = f"<pre>{html.escape(values)}</pre>" if values else ""
    return (
        f"<div><code>NamedArray {kind}</code>{table if rows else ''}"
        f"<div>{html.escape(_summary(array))}</div>{body}</div>"
    )


def _axes(array: Shown) -> list[tuple[str, int, str]]:
    """Return the name (or position), size and mesh axes of every axis.

    The list is empty if the dims do not fit the data.
    """
    dims = array.dims
    shape = shape_of(array.data) or ()
    if len(shape) != len(dims):
        return []
    sizes = array._sizes
    placements = shown_placements(array)
    positions = iter(range(len(dims)))
    return [
        (
            f"position {next(positions)}" if dim is None else str(dim),
            n if dim is None else sizes[dim],
            ", ".join(placements[i]),
        )
        for i, (dim, n) in enumerate(zip(dims, shape, strict=True))
    ]


# --- treescope ------------------------------------------------------------------------------------


def _treescope_rendering(array: Shown, path: str | None) -> Any:
    """Render the array in a tree: a line with its type and a summary, expandable to values."""
    from treescope import rendering_parts as parts
    from treescope import type_registries

    # Without this, treescope would mark an array that occurs twice as shared, as if it were
    # mutable.
    type_registries.IMMUTABLE_TYPES_REGISTRY.setdefault(type(array), True)
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


def _mask(mask: object, array: Shown) -> np.ndarray:
    """Broadcast a mask to the array: positional axes from the right, named axes by name.

    Raises:
      NamedAxesLeftError: the mask has an axis that the array lacks.
      AxisSizeError: an axis has a different size in the mask.
    """
    values = np.asarray(mask.data if isinstance(mask, Shown) else mask, bool)
    labels = _labels(mask.dims if isinstance(mask, Shown) else (None,) * values.ndim)
    order = _labels(array.dims)
    if not set(labels) <= set(order):
        raise NamedAxesLeftError(
            f"treescope, mask: {type_text(mask)} has axes that the array {type_text(array)} lacks."
            " Reduce or rename them."
        )
    values = values.transpose([labels.index(label) for label in order if label in labels])
    values = np.expand_dims(
        values, tuple(i for i, label in enumerate(order) if label not in labels)
    )
    for label, m, n in zip(order, values.shape, _true_shape(array), strict=True):
        if m != n and (m != 1 or (label in labels and not isinstance(label, int))):
            raise AxisSizeError(
                f"treescope, mask: {type_text(mask)} has size {m} along axis {label!r}, along which"
                f" the array {type_text(array)} has size {n}. Make the mask for this array, or"
                " reduce it along the axis."
            )
    return np.broadcast_to(values, _true_shape(array)).copy()


def _labels(dims: Dims) -> list[Hashable]:
    """Return the dims with positional axes numbered from the right, by negative integers."""
    numbers = iter(range(-dims.count(None), 0))
    return [next(numbers) if dim is None else dim for dim in dims]


@functools.cache
def treescope_adapter() -> Any:
    """Return the adapter with which treescope draws named arrays."""
    from treescope import ndarray_adapters as adapters

    class Adapter(adapters.NDArrayAdapter):  # type: ignore[misc, unused-ignore]
        """An adapter that shows named axes by name and positional axes by position."""

        def get_axis_info_for_array_data(self, array: Shown) -> tuple[Any, ...]:
            positions = iter(range(len(array.dims)))
            return tuple(
                (
                    adapters.PositionalAxisInfo(next(positions), n)
                    if dim is None
                    else adapters.NamedPositionlessAxisInfo(dim, n)
                )
                for dim, n in zip(array.dims, _true_shape(array), strict=True)
            )

        def get_array_data_with_truncation(
            self, array: Shown, mask: object, edge_items_per_axis: tuple[int | None, ...]
        ) -> tuple[np.ndarray, np.ndarray]:
            values = without_padding(array, np.asarray(array.data))
            visible = np.ones(values.shape, bool) if mask is None else _mask(mask, array)
            for axis, edge in enumerate(edge_items_per_axis):
                if edge is not None:
                    n = values.shape[axis]
                    # The element in the middle represents all omitted ones.
                    kept = [*range(edge), edge, *range(n - edge, n)]
                    values, visible = values.take(kept, axis), visible.take(kept, axis)
                    middle = [slice(None)] * visible.ndim
                    middle[axis] = slice(edge, edge + 1)
                    visible[tuple(middle)] = False
            return values, visible

        def get_array_summary(self, array: Shown, fast: bool) -> str:
            return f"NamedArray {type_text(array)}" + ("" if fast else f" {_summary(array)}")

        def get_numpy_dtype(self, array: Shown) -> np.dtype | None:
            return np.dtype(array.dtype) if _values(array) is not None else None

        def get_sharding_info_for_array_data(self, array: Shown) -> Any:
            sharding, shape = array.data.sharding, array.data.shape
            if shape != _true_shape(array):
                return None  # the blocks of an array that is stored padded include padding
            blocks: Mapping[Any, Any] = sharding.devices_indices_map(shape)
            return adapters.ShardingInfo(
                shard_shape=sharding.shard_shape(shape),
                device_index_to_shard_slices={device.id: index for device, index in blocks.items()},
                device_type=next(iter(blocks)).platform.upper(),
                fully_replicated=sharding.is_fully_replicated,
            )

        def should_autovisualize(self, array: Shown) -> bool:
            fits = len(array.dims) == len(getattr(array.data, "shape", ()))
            return fits and 0 not in array.data.shape and _values(array) is not None

    return Adapter()
