"""Resolved indices by name: parts, one per axis, and index arrays.

`getitem` reads with them, `updates` writes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from namedax.core.annotations import AnyArray, ArrayLike
from namedax.core.array import NamedArray, dims_of, make_in_region
from namedax.core.display import type_text
from namedax.core.names import Dims, is_name
from namedax.core.records import Record
from namedax.core.region import Region, ambient
from namedax.errors import AxisSizeError, PositionalAxisError, closest, did_you_mean, format_value
from namedax.ops.operands.axes import names_alone, resolve_axis
from namedax.ops.operands.broadcasting import align, to_local
from namedax.ops.operands.pytree import data_of, wide_index
from namedax.resources import communication as comm

__all__ = [
    "ARRAY",
    "READ_MODES",
    "OwnAxis",
    "Part",
    "StandIn",
    "by_name",
    "check_value_sizes",
    "gather_own_axes",
    "global_size",
    "is_mask",
    "joint_indices",
    "per_instance",
    "range_of",
    "resolve",
    "visible_order",
]


#: A part that reads at an array; the arrays are in a separate list.
ARRAY = "array"


READ_MODES = (None, "fill", "drop", "clip", "promise_in_bounds")


class Part(Record):
    """One element of an index: a dimension of the array, and the indices to read along it.

    Attributes:
      dim: the dimension of the data.
      at: an integer (nonnegative), a `range` of them, or `ARRAY`.
    """

    dim: int
    at: int | range | str


class StandIn:
    """A temporary name for another axis while an operation runs."""

    def __init__(self, name: Hashable):
        self.name = name

    def __repr__(self) -> str:
        return repr(self.name)


class OwnAxis(StandIn):
    """A temporary name, in an index array, for an axis with the same name as the indexed axis."""


def reject_positions(op: str, read: str, x: ArrayLike, index: object) -> None:
    """Raise if an index has no axis name although `x` has named axes only.

    Args:
      op: the operation, for messages.
      read: the source text before the index.
      x: an array, named or not.
      index: the index.

    Raises:
      PositionalAxisError: the index contains an integer, a slice, or an unnamed array.
    """
    if not isinstance(x, NamedArray) or not (names := names_alone(x)):
        return
    for part in index if isinstance(index, tuple) else (index,):
        if isinstance(part, (int, np.integer, slice)) and not isinstance(part, bool):
            remedy = (
                f"the axis before its index, as in {read}[{names[0]!r},"
                f" {'2:5' if isinstance(part, slice) else part}]"
            )
        elif isinstance(part, (np.ndarray, jax.Array)) and part.ndim:
            remedy = _at_an_axis(read, x, names, part)
        else:
            continue
        raise PositionalAxisError(
            f"{op}: {type_text(x)} has no positional axis for the index {format_value(part)}. Write"
            f" {remedy}."
        )


def _at_an_axis(read: str, x: NamedArray, names: Dims, array: np.ndarray | jax.Array) -> str:
    """Return code for an unnamed index array of an array with named axes only."""
    if not is_mask(array):
        return f"the axis before its index, as in {read}[{names[0]!r}, ids]"
    if array.ndim > 1:
        axes = list(names) if array.ndim == len(names) else [names[0], ...]
        mask = f"nx.named(mask, {axes})".replace("Ellipsis", "...")
        return (
            f"{read}[{mask}]"
            if read.endswith("at")
            else f"nx.where({mask}, x, 0), which keeps the shape"
        )
    fits = [name for name in names if x.named_shape[name] == array.shape[0]] or names
    return f"the axis before the mask, as in {read}[{fits[0]!r}, mask]"


def by_name(op: str, index: Any, x: ArrayLike) -> Mapping[Any, Any] | None:
    """Return the entries of an index of `x` by names, or `None` if it is positional.

    Raises:
      PositionalAxisError: names and indices do not come in pairs.
    """
    if isinstance(index, Mapping):
        return index
    listed = isinstance(index, list) and all(
        isinstance(part, str) for part in index
    )  # as in pandas
    parts = index if isinstance(index, tuple) or listed else (index,)
    if not any(is_name(part) for part in parts):
        return None
    entries: dict[Any, Any] = {}
    if listed or len(parts) % 2 or not all(is_name(name) for name in parts[::2]):
        name = next(part for part in parts if is_name(part))
        read = "x.at" if op.startswith("at") else "x"
        names = [dim for dim in dims_of(x) if dim is not None]
        guess = "" if name in names else did_you_mean(name, names)
        name = name if name in names or not names else closest(name, names) or names[0]
        more = "".join(
            [f"{read}[{name!r}, 3, {other!r}, 0:2], " for other in names if other != name][:1]
        )
        raise PositionalAxisError(
            f"{op}: the index {format_value(index)} names an axis, but does not consist of pairs of"
            f" a name and an index.{guess} Write {read}[{name!r}, 3], {more}or a dict,"
            f" {read}[{{{name!r}: 3, 0: idx}}], which also accepts positional axes."
        )
    for name, entry in zip(parts[::2], parts[1::2], strict=True):
        if name in entries:
            raise PositionalAxisError(
                f"{op}: axis {name!r} is given twice in the index {format_value(index)}."
            )
        entries[name] = entry
    return entries


def is_mask(entry: object) -> bool:
    """Return True if an entry of an index is a boolean array."""
    return hasattr(entry, "dtype") and entry.dtype == jnp.bool_


def resolve(
    op: str, x: ArrayLike, entries: Mapping[Any, Any], resize: bool = True
) -> tuple[tuple[Part, ...], list[Any]]:
    """Resolve an index by names into its parts and its arrays.

    Args:
      op: the operation.
      x: the array, as seen in the body of the region.
      entries: indices by axis (a name or a positional axis).
      resize: if `True` (default), slices become axes of the result, so their sizes must fit the
        region.

    Raises:
      AxisNotFoundError: `x` lacks an axis.
      AxisSizeError: an integer is out of range, or a slice changes a size that the mapped function
        fixes.
      PositionalAxisError: an entry is not an index, or an axis is given twice.
    """
    region = ambient()
    dims, shape = dims_of(x), np.shape(data_of(x))
    parts: list[Part] = []
    arrays: list[Any] = []
    for axis, entry in entries.items():
        (dim,) = resolve_axis(op, x, (axis,))
        if any(part.dim == dim for part in parts):
            raise PositionalAxisError(
                f"{op}: axis {format_value(axis)} of {type_text(x)} is given twice in the index."
            )
        size = global_size(region, dims[dim], shape[dim])
        if isinstance(entry, (int, np.integer)) and not isinstance(entry, bool):
            if not -size <= entry < size:
                raise AxisSizeError(
                    f"{op}: index {entry} is out of range for axis {format_value(axis)} of size"
                    f" {size} in {type_text(x)}."
                )
            parts.append(Part(dim, int(entry) % size))
        elif isinstance(entry, slice):
            at = range_of(op, entry, axis, size)
            parts.append(Part(dim, at))
            if resize and (name := dims[dim]) is not None:
                _check_slice(op, x, name, size, len(at), region)
        elif hasattr(entry, "dtype") and jnp.issubdtype(entry.dtype, jnp.integer):
            parts.append(Part(dim, ARRAY))
            arrays.append(wide_index(entry))
        elif is_mask(entry):
            parts.append(Part(dim, ARRAY))
            arrays.append(_indices_of_mask(op, entry, axis, size, region))
        else:
            raise PositionalAxisError(
                f"{op}: {format_value(entry)} is not an index for axis {format_value(axis)} of"
                f" {type_text(x)}. Write an integer, a slice, or an integer array, named or not (a"
                " list as jnp.array([...]))."
            )
    return tuple(parts), arrays


def global_size(region: Region | None, dim: Hashable | None, block: int) -> int:
    """Return the global size of a dimension that has `block` elements here."""
    return (
        block
        if region is None or not region.manual or dim is None
        else region.global_size(dim, block)
    )


def range_of(op: str, entry: slice, axis: Hashable, size: int) -> range:
    """Convert a slice to a range for an axis of this size."""
    bounds = (entry.start, entry.stop, entry.step)
    if not all(bound is None or isinstance(bound, (int, np.integer)) for bound in bounds):
        raise PositionalAxisError(
            f"{op}: the slice {format_value(entry)} of axis {format_value(axis)} requires static"
            " integers. For dynamic bounds, read at an array such as start + nx.arange(length,"
            " axis=...)."
        )
    return range(*entry.indices(size))


def _check_slice(
    op: str, x: ArrayLike, name: Hashable, size: int, length: int, region: Region | None
) -> None:
    if region is None or length == size:
        return
    if name in region.sizes:
        raise AxisSizeError(
            f"{op}: a slice of axis {name!r} of {type_text(x)} would keep {length} of {size}"
            f" elements, but {name!r} has size {size} in this mapped function; a name has one size."
            f" Give the slice another name: nx.slice(x, {{{name!r}: slice(...)}},"
            f" out_axis={{{name!r}: 'part'}}). To keep the name, slice x before the call of the"
            " mapped function."
        )
    region.block_size(name, length, op)


def _indices_of_mask(
    op: str, mask: AnyArray, axis: Hashable, size: int, region: Region | None
) -> AnyArray:
    """Convert a mask with static values to the indices of its true elements."""
    data = data_of(mask)
    fits = dims_of(mask) in ((None,), (axis,)) and data.shape == (size,)
    if (
        not fits
        or isinstance(data, jax.core.Tracer)
        or (region is not None and axis in region.sizes)
    ):
        raise PositionalAxisError(
            f"{op}: the shape of a read at the boolean mask {type_text(mask)} along axis"
            f" {format_value(axis)} of size {size} would depend on data. Keep the shape with"
            " nx.where(mask, x, fill), or read at a fixed number of indices."
        ).about(depends_on_data=True)
    found = np.nonzero(np.asarray(data))[0]
    return make_in_region(jnp.asarray(found), (axis,)) if is_name(axis) else jnp.asarray(found)


def joint_indices(
    op: str, x: ArrayLike, own: Mapping[Any, OwnAxis], indices: Sequence[Any]
) -> tuple[list[Any], Dims]:
    """Broadcast the index arrays by name.

    Their axes in `own` get temporary names, and are gathered on every device. Scalar indices stay
    scalars.

    Raises:
      PlacementConflictError: an index has an axis that is sharded over a mesh axis of an axis of
        `x`.
    """
    region = ambient()
    blocks = [to_local(index, op, region) for index in indices]
    if region is not None and region.resources:
        names = [
            dim
            for group in (dims_of(x), *map(dims_of, blocks))
            for dim in group
            if dim is not None and not isinstance(dim, StandIn)
        ]
        region.check_placement(op, dict.fromkeys(names))
        region.seen.update(names)
    return align(op, *(gather_own_axes(block, own, region) for block in blocks))


def gather_own_axes(
    block: AnyArray, own: Mapping[Any, OwnAxis], region: Region | None, to: str = "invarying"
) -> AnyArray:
    """Replace the axes of `own` in `block` by temporary names, and gather sharded ones."""
    if not isinstance(block, NamedArray) or not any(dim in own for dim in block._dims):
        return block
    data = block._data
    for i, dim in enumerate(block._dims):
        if dim in own and region is not None and region.place(dim):
            data = comm.all_gather(data, i, region.place(dim), to)  # type: ignore[arg-type]
    return make_in_region(data, tuple(own.get(dim, dim) for dim in block._dims))


def per_instance(
    function: Callable[..., jax.Array],
    names: Sequence[Hashable],
    held: Sequence[Collection[Hashable]],
) -> Callable[..., jax.Array]:
    """Map a function over `names`, the leading axes of its operands.

    Args:
      function: a function of the operands of one instance.
      names: the names of the instances.
      held: the names that each operand has, in the order of `names`.
    """
    for name in reversed(names):
        function = jax.vmap(function, in_axes=tuple(0 if name in own else None for own in held))
    return function


def visible_order(dims: Dims, parts: Sequence[Part], rank: int) -> list[Any]:
    """Return the positional axes of `x[index]`, in order.

    They are dimensions of `x`, and `("index", k)` for the `rank` axes of index arrays.

    As in NumPy, the axes of the arrays replace the axes that they index if these are adjacent.
    Otherwise they come first, also if only named axes are indexed. (Integers have been removed
    before.)
    """
    joint = [("index", k) for k in range(rank)]
    gone = [part.dim for part in parts if isinstance(part.at, int)]
    kept = [i for i, dim in enumerate(dims) if dim is None and i not in gone]
    arrays = [part.dim for part in parts if part.at == ARRAY]
    places = [n for n, i in enumerate(kept) if i in arrays]
    rest: list[Any] = [i for i in kept if i not in arrays]
    at = places[0] if places and places[-1] - places[0] + 1 == len(places) else 0
    return [*rest[:at], *joint, *rest[at:]]


def check_value_sizes(
    op: str, x: AnyArray, value: NamedArray, indexed: Sequence[Hashable | None]
) -> None:
    """Raise if an axis of the values of an update has another size in the array.

    Args:
      op: the operation, for messages.
      x: the array to update.
      value: the values.
      indexed: the axes of the array in the index; their sizes are those of the index.

    Raises:
      AxisSizeError: a name has two sizes.
    """
    sizes = x._sizes if isinstance(x, NamedArray) else {}
    for name, n in value._sizes.items():
        if name in indexed or sizes.get(name, n) == n:
            continue
        take = f"Take a part of the values, value[{format_value(name)}, :{sizes[name]}]."
        change = f"Update a part of the axis: x.at[{format_value(name)}, :{n}]."
        raise AxisSizeError(
            f"{op}: the values {type_text(value)} have the size {n} along {name!r}, and"
            f" {type_text(x)} has {sizes[name]}; a name has one size."
            f" {take if n > sizes[name] else change}"
        )
