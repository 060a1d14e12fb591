"""Updates by name: `x.at["batch", 3].set(v)` and `x.at[{"vocab": idx}].add(v)`.

Updates use the same parts as `namedax.ops.indexing.getitem`. `namedax.ops.indexing.scatter` writes
the values. Over a sharded axis, every device writes the indices in its block and drops the others,
as `jnp` drops indices out of range. So there is no communication, and the gradients are the same as
in `jnp`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from namedax.core.annotations import AnyArray, ArrayLike
from namedax.core.array import NamedArray, dims_of, reject_assignment
from namedax.core.display import type_text
from namedax.core.element_types import check_fits
from namedax.core.name_scopes import in_scope, names_in, scope_text
from namedax.core.region import ambient
from namedax.errors import (
    ArgumentTypeError,
    PositionalAxisError,
    format_value,
)
from namedax.ops.indexing.getitem import getitem, read
from namedax.ops.indexing.parts import (
    READ_MODES,
    Part,
    by_name,
    global_size,
    is_mask,
    reject_positions,
    resolve,
)
from namedax.ops.indexing.scatter import Update, scatter, write_where
from namedax.ops.operands import kernels
from namedax.ops.operands.axes import resolve_axis
from namedax.ops.operands.broadcasting import to_local
from namedax.ops.operands.nmap import Lifted
from namedax.ops.operands.operation import operation
from namedax.ops.operands.pytree import data_of, wide_index
from namedax.ops.shape.conversion import named

__all__ = ["at"]


class At:
    """The indexable object that `x.at` returns."""

    __slots__ = ("_array",)

    def __init__(self, array: NamedArray):
        self._array = array

    def __getitem__(self, index: object) -> Selected:
        return Selected(self._array, index)

    if not TYPE_CHECKING:

        def __setitem__(self, index: object, value: object) -> None:
            reject_assignment(self._array, index, value)

    def __repr__(self) -> str:
        return f"<at of {type_text(self._array)}>"


class Selected:
    """The result of `x.at[index]`; its methods return a copy of `x` with these elements changed."""

    __slots__ = ("_array", "_index")

    def __init__(self, array: NamedArray, index: object):
        self._array, self._index = array, index

    def __repr__(self) -> str:
        return f"<at of {type_text(self._array)}, at {self._index!r}>"

    def get(
        self, *, mode: str | None = None, fill_value: ArrayLike | None = None, **hints: object
    ) -> AnyArray:
        """Read `x[index]`.

        Args:
          mode: the result for indices out of range: `"fill"` (NaN, or `fill_value`) or `"clip"`; by
            default `None`, as `x[index]`.
          fill_value: the value for `mode="fill"`, by default `None`.
          **hints: the other arguments of `jax.Array.at[...].get`.
        """
        return _get(self._array, self._index, mode, fill_value, hints)

    def set(self, values: ArrayLike, *, mode: str | None = None, **hints: object) -> NamedArray:
        """Return `x` with `values` at these elements."""
        return _update(self._array, self._index, "set", values, mode, hints)

    def add(self, values: ArrayLike, *, mode: str | None = None, **hints: object) -> NamedArray:
        """Return `x` with `values` added to these elements; duplicate indices accumulate."""
        return _update(self._array, self._index, "add", values, mode, hints)

    def subtract(
        self, values: ArrayLike, *, mode: str | None = None, **hints: object
    ) -> NamedArray:
        """Return `x` with `values` subtracted from these elements."""
        return _update(self._array, self._index, "subtract", values, mode, hints)

    def multiply(
        self, values: ArrayLike, *, mode: str | None = None, **hints: object
    ) -> NamedArray:
        """Return `x` with these elements multiplied by `values`."""
        return _update(self._array, self._index, "multiply", values, mode, hints)

    mul = multiply

    def divide(self, values: ArrayLike, *, mode: str | None = None, **hints: object) -> NamedArray:
        """Return `x` with these elements divided by `values`."""
        return _update(self._array, self._index, "divide", values, mode, hints)

    def power(self, values: ArrayLike, *, mode: str | None = None, **hints: object) -> NamedArray:
        """Return `x` with these elements raised to the power of `values`."""
        return _update(self._array, self._index, "power", values, mode, hints)

    def min(self, values: ArrayLike, *, mode: str | None = None, **hints: object) -> NamedArray:
        """Return `x` with the minimum of these elements and `values`."""
        return _update(self._array, self._index, "min", values, mode, hints)

    def max(self, values: ArrayLike, *, mode: str | None = None, **hints: object) -> NamedArray:
        """Return `x` with the maximum of these elements and `values`."""
        return _update(self._array, self._index, "max", values, mode, hints)

    def apply(
        self, func: Callable[[Any], Any], *, mode: str | None = None, **hints: object
    ) -> NamedArray:
        """Return `x` with the elementwise `func` applied to these elements, per duplicate index."""
        return _update(self._array, self._index, "apply", func, mode, hints)


def at(x: NamedArray) -> At:
    """Select elements of `x` for a read with a mode or for an update, as `jax.Array.at`, by name.

    The index follows `getitem`: `x.at["batch", 3].set(v)`, `x.at[{"vocab": idx}].add(v)`, `x.at[0,
    1:].multiply(v)`. A boolean array may be the complete index or the index of one axis. The
    methods are `set`, `add`, `subtract`, `multiply`, `divide`, `power`, `min`, `max`, `apply` and
    `get`, with JAX's arguments (`mode`: `"drop"`, the default, or `"clip"`).

    `values` broadcasts with `x[index]`: positional axes by position, named axes by name. The result
    has the axes of `x`, of the index and of the values, because an update applies per instance. So
    an index array with the axis `token`, which `x` lacks, gives a result with `token`. Duplicate
    indices can occur along positional axes of an index, or in an index that itself has the updated
    axis. To sum values along another named axis, see `nx.segment_sum`.

    Communication: none, also over a sharded axis, because every device writes into its own block.
    Only an index that itself has the sharded axis is gathered, with its values.

    Raises:
      AxisNotFoundError: `x` lacks an axis, or the values have an axis that the index removes.
      AxisSizeError: an integer is out of range, or an axis has two sizes.
      PlacementConflictError: the index or the values have an axis that is sharded over the mesh
        axis of another axis of `x`.
      PositionalAxisError: the index is malformed, or the positional axes of the values do not
        broadcast.

    >>> import jax.numpy as jnp, namedax as nx
    >>> x = nx.named(jnp.zeros((2, 3)), ["batch", "k"])
    >>> nx.positional(x.at["k", 1].add(nx.named(jnp.array([1.0, 2.0]), ["batch"])), ["batch", "k"])
    Array([[0., 1., 0.],
           [0., 2., 0.]], dtype=float32)
    """
    return At(x)


def _by_position(
    x: NamedArray, index: object, method: str, value: Any, options: Mapping[str, Any]
) -> Any:
    reject_positions(f"at[...].{method}", "x.at", x, index)
    parts = index if isinstance(index, tuple) else (index,)
    arrays = [wide_index(part) for part in parts if hasattr(part, "dtype")]

    def update(data: jax.Array, *operands: jax.Array) -> jax.Array:
        supply = iter(operands)
        filled = tuple(next(supply) if hasattr(part, "dtype") else part for part in parts)
        selected = jnp.asarray(data).at[filled]
        given = () if method == "get" else (value if method == "apply" else next(supply),)
        return getattr(selected, method)(*given, **options)

    values = () if method in ("get", "apply") else (value,)
    return Lifted(update, f"at[...].{method}")(x, *arrays, *values)


@operation(lambda x, index, *_: by_name("at", index, x), name="at[...].get", on_blocks=True)
def _get(
    x: NamedArray,
    index: object,
    mode: str | None,
    fill_value: ArrayLike | None,
    hints: Mapping[str, Any],
) -> AnyArray:
    check_fits("at[...].get", "fill_value", fill_value, x.dtype)
    if by_name("at", index, x) is not None:
        return read("at[...].get", x, index, mode, fill_value, hints)
    if mode is None and fill_value is None and not hints:
        return getitem(x, index)
    return _by_position(x, index, "get", None, {"mode": mode, "fill_value": fill_value, **hints})


_ARITHMETIC = frozenset({"add", "subtract", "mul", "multiply", "divide", "power"})


@operation(lambda x, index, *_: by_name("at", index, x), name="at[...]", on_blocks=True)
def _update(
    x: NamedArray,
    index: object,
    method: str,
    value: Any,
    mode: str | None,
    hints: Mapping[str, Any],
) -> NamedArray:
    op = f"at[...].{method}"
    if mode not in READ_MODES:
        raise PositionalAxisError(
            f"{op}: mode must be one of {READ_MODES}, got {format_value(mode)}."
        )
    if x.dtype == jnp.bool_ and method in _ARITHMETIC:
        raise ArgumentTypeError(
            f"{op}: {type_text(x)} is boolean, and JAX has no arithmetic of booleans. Use .max (or)"
            " and .min (and), or convert the array first: x.astype(int)."
        )
    if method != "apply" and not isinstance(
        value, (NamedArray, jax.Array, np.ndarray, np.generic, int, float, complex)
    ):
        value = jnp.asarray(value)
    if is_mask(index) and isinstance(index, NamedArray):
        return _update_where(op, x, [index], method, value)
    entries = by_name(op, index, x)
    if entries is None:
        return _by_position(x, index, method, value, {"mode": mode, **hints})
    region = ambient()
    x = to_local(x, op, region)
    if any(map(is_mask, entries.values())):
        return _update_where(op, x, _masks(op, x, entries), method, value)
    parts, arrays = resolve(op, x, entries, resize=False)
    parts, value = _unflip(op, x, parts, value)
    update = Update(parts, method, mode, tuple(hints.items()))
    if method == "apply":
        return in_scope(
            scope_text(op, names_in(entries)), scatter, op, (), update, x, value, *arrays
        )
    # `x` has names, so the result does.
    updated: Any = kernels.run(op, scatter, tuple(entries), (update,), x, value, *arrays)
    return updated


def _masks(op: str, x: AnyArray, entries: Mapping[Any, Any]) -> list[Any]:
    """Return the masks of an index by names, each with the name of its axis."""
    masks = []
    for axis, mask in entries.items():
        (dim,) = resolve_axis(op, x, (axis,))
        name = dims_of(x)[dim]
        if (
            not is_mask(mask)
            or name is None
            or (dims_of(mask) != (None,) and name not in dims_of(mask))
        ):
            raise PositionalAxisError(
                f"{op}: the index of axis {format_value(axis)},"
                f" {type_text(mask) if hasattr(mask, 'dtype') else repr(mask)}, cannot be combined"
                " with a boolean mask, or is a mask without that axis. Use masks for all indexed"
                " axes, by name, or write nx.where(mask, changed, x)."
            )
        masks.append(mask if isinstance(mask, NamedArray) else named(mask, [name]))
    return masks


def _update_where(
    op: str, x: AnyArray, masks: Sequence[Any], method: str, value: Any
) -> NamedArray:
    """Update all elements where the masks are true, elementwise, so also block by block."""
    for mask in masks:
        if mask.ndim and mask.ndim != dims_of(x).count(None):
            raise PositionalAxisError(
                f"{op}: the mask {type_text(mask)} has {mask.ndim} positional axes, but"
                f" {type_text(x)} has {dims_of(x).count(None)}; the mask must have as many, or"
                " none."
            )
    if method == "apply":
        return write_where(op, None, method, x, value, *masks)
    updated: Any = kernels.run(op, write_where, None, (method,), x, value, *masks)
    return updated


def _unflip(
    op: str, x: AnyArray, parts: tuple[Part, ...], value: Any
) -> tuple[tuple[Part, ...], Any]:
    """Remove slices of complete named axes, and flip the values for a slice in reverse order."""
    dims, kept = dims_of(x), []
    region = ambient()
    for part in parts:
        name = dims[part.dim]
        size = global_size(region, name, np.shape(data_of(x))[part.dim])
        if name is None or not isinstance(part.at, range) or len(part.at) != size:
            kept.append(part)
        elif size and part.at.step < 0 and isinstance(value, NamedArray) and name in value._dims:
            value = read(op, value, {name: slice(None, None, -1)})
    return tuple(kept), value
