"""Updates by name: `x.at["batch", 3].set(v)` and `x.at[{"vocab": idx}].add(v)`.

Updates use the same parts as `namedax.ops.indexing.getitem`. Over a sharded axis, every device
writes the indices in its block and drops the others, as `jnp` drops indices out of range. So there
is no communication, and the gradients are the same as in `jnp`.
"""

# Long: the methods of `x.at[...]`, each with its public docstring, and the one update behind them.

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from namedax.core.annotations import AnyArray, ArrayLike
from namedax.core.array import NamedArray, dims_of, make_in_region, refuse_assignment
from namedax.core.display import type_text
from namedax.core.element_types import check_fits
from namedax.core.name_scopes import in_scope, names_in, scope_text
from namedax.core.names import Dims
from namedax.core.padded_sharding import Uneven
from namedax.core.records import Record
from namedax.core.region import Region, ambient
from namedax.core.variance import cast, cast_data, varying
from namedax.errors import (
    ArgumentTypeError,
    AxisNotFoundError,
    AxisSizeError,
    PositionalAxisError,
    format_value,
    naming,
    show_names,
)
from namedax.ops.indexing.getitem import getitem, read
from namedax.ops.indexing.in_place import update_at_scalars
from namedax.ops.indexing.parts import (
    ARRAY,
    READ_MODES,
    OwnAxis,
    Part,
    by_name,
    check_value_sizes,
    gather_own_axes,
    is_mask,
    joint_indices,
    reject_positions,
    resolve,
    visible_order,
)
from namedax.ops.operands import kernels
from namedax.ops.operands.axes import resolve_axis
from namedax.ops.operands.broadcasting import align, constrain_sharding, make_result, to_local
from namedax.ops.operands.nmap import Lifted
from namedax.ops.operands.operation import operation
from namedax.ops.operands.pytree import data_of, wide_index
from namedax.ops.shape.conversion import named
from namedax.resources import communication as comm
from namedax.resources.padding_masks import last_repeated

__all__ = ["at"]

_ELEMENTWISE: dict[str, Callable[[Any, Any], Any]] = {
    "set": lambda old, value: value,
    "add": jnp.add,
    "subtract": jnp.subtract,
    "multiply": jnp.multiply,
    "divide": jnp.divide,
    "power": jnp.power,
    "min": jnp.minimum,
    "max": jnp.maximum,
    "apply": lambda old, function: function(old),
}


class At:
    """The indexable object that `x.at` returns."""

    __slots__ = ("_array",)

    def __init__(self, array: NamedArray):
        self._array = array

    def __getitem__(self, index: object) -> Selected:
        return Selected(self._array, index)

    if not TYPE_CHECKING:

        def __setitem__(self, index: object, value: object) -> None:
            refuse_assignment(self._array, index, value)

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


@operation(name="at[...].get")
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


@operation(name="at[...]")
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
    static = (parts, method, mode, tuple(hints.items()))
    if method == "apply":
        return in_scope(
            scope_text(op, names_in(entries)), _scatter, op, (), *static, x, value, *arrays
        )
    # `x` has names, so the result does.
    updated: Any = kernels.run(op, _scatter, tuple(entries), static, x, value, *arrays)
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
        return _write_where(op, None, method, x, value, *masks)
    updated: Any = kernels.run(op, _write_where, None, (method,), x, value, *masks)
    return updated


def _write_where(
    op: str, _: None, method: str, x: AnyArray, value: Any, *masks: AnyArray
) -> NamedArray:
    operands = [x, *masks] if method == "apply" else [x, *masks, value]
    datas, dims = align(op, *operands)
    old, *flags = datas[: 1 + len(masks)]
    holds = flags[0]
    for flag in flags[1:]:
        holds = holds & flag
    if method in ("divide", "power"):  # unselected elements must not affect the gradient
        datas[-1] = jnp.where(holds, datas[-1], 1)
    new = _ELEMENTWISE[method](
        jnp.where(holds, old, 1) if method == "power" else old,
        value if method == "apply" else datas[-1],
    )
    return make_result(jnp.where(holds, jnp.asarray(new).astype(old.dtype), old), dims)


def _unflip(
    op: str, x: AnyArray, parts: tuple[Part, ...], value: Any
) -> tuple[tuple[Part, ...], Any]:
    """Remove slices of complete named axes, and flip the values for a slice in reverse order."""
    dims, kept = dims_of(x), []
    region = ambient()
    for part in parts:
        name = dims[part.dim]
        size = np.shape(data_of(x))[part.dim]
        if region is not None and region.manual and name is not None:
            size = region.global_size(name, size)
        if name is None or not isinstance(part.at, range) or len(part.at) != size:
            kept.append(part)
        elif size and part.at.step < 0 and isinstance(value, NamedArray) and name in value._dims:
            value = read(op, value, {name: slice(None, None, -1)})
    return tuple(kept), value


def _scatter(
    op: str,
    _: object,
    parts: Sequence[Part],
    method: str,
    mode: str | None,
    hints: tuple[tuple[str, Any], ...],
    x: AnyArray,
    value: Any,
    *arrays: AnyArray,
) -> NamedArray:
    """Write `value` at resolved parts."""
    region = ambient()
    data, dims = (x._data, x._dims) if isinstance(x, NamedArray) else (jnp.asarray(x), dims_of(x))
    where = _targets(parts, arrays, dims, data.shape, region)
    found, joint = joint_indices(op, x, where.own, where.indices) if where.dims else ([], ())
    has_value = method != "apply"
    if has_value:
        value = _check_value(op, x, value, where, joint, region)
    names = _batch_names(dims, where, (joint, dims_of(value) if has_value else ()))
    value_data = data_of(value)
    mesh_axes = tuple(axis for placement in where.placements for axis in placement)
    if region is not None and region.manual:
        data, found, value_data = _varying_alike(x, data, found, value, mesh_axes, has_value)
    options: dict[str, Any] = {"mode": mode, **dict(hints)}
    if region is not None and mesh_axes:
        options = {"mode": "drop", "unique_indices": _are_unique(arrays, dict(hints))}
        found = where.in_block(found, data.shape, region, mode, options["unique_indices"])
    elif has_value and not joint and not where.slices and {*dims_of(value)} <= {*dims} - {None}:
        scalars = dict(zip(where.dims, found, strict=True))
        return update_at_scalars(method, data, dims, scalars, value_data, dims_of(value), options)

    # x: remaining names in front, then the scattered dimensions, then the slices, then the other
    # positional axes.
    own_names = [name for name in names if name in dims]
    rest = [
        i
        for i in range(len(dims))
        if dims[i] is None and i not in where.dims and i not in where.slices
    ]
    order = [dims.index(name) for name in own_names] + where.dims + list(where.slices) + rest
    # XLA's partitioner computes wrong gradients of updates along an axis that it shards.
    data = constrain_sharding(
        lax.transpose(data, order), (*own_names, *(None,) * (len(order) - len(own_names)))
    )
    index_names = [name for name in names if name in joint]
    index_order = [joint.index(name) for name in index_names] + [
        i for i, dim in enumerate(joint) if dim not in index_names
    ]
    found = [lax.transpose(index, index_order) if np.ndim(index) else index for index in found]
    value_names = [name for name in names if has_value and name in dims_of(value)]
    if has_value and dims_of(value):
        read_by = [joint[i] for i in index_order[len(index_names) :]]
        wanted = [
            *_numbered(read_by),
            *(i if dims[i] is None else dims[i] for i in where.slices),
            *rest,
        ]
        visible = visible_order(dims, parts, joint.count(None))
        value_data = _arrange(op, x, value, value_data, value_names, wanted, visible, where)

    cuts = tuple(_as_slice(at) for at in where.slices.values())
    function = _local_update(
        method, len(found), cuts, () if has_value else (value,), bool(mesh_axes), options
    )
    operands = [*found, value_data] if has_value else found
    for name in reversed(names):
        at_index = [0 if name in index_names and np.ndim(index) else None for index in found]
        at_value = [0 if name in value_names else None] if has_value else []
        function = jax.vmap(
            function, in_axes=(0 if name in own_names else None, *at_index, *at_value)
        )
    result = function(data, *operands)
    for i, axes in zip(where.dims, where.placements, strict=True):
        result = last_repeated(result, len(names) + where.dims.index(i), axes)
    result = constrain_sharding(result, (*names, *(None,) * (result.ndim - len(names))))

    # Back to the order of x, new names in front.
    new = [name for name in names if name not in own_names]
    now: list[Any] = [name if name in new else dims.index(name) for name in names] + order[
        len(own_names) :
    ]
    final = [now.index(name) for name in new] + [now.index(i) for i in range(len(dims))]
    return make_result(lax.transpose(result, final), (*new, *dims))


class _Targets(Record):
    """The target of an update: scattered dimensions and sliced dimensions.

    Attributes:
      dims: the scattered dimensions: arrays, integers, and slices of sharded axes.
      indices: the indices along each of them.
      placements: the mesh axes of each of them.
      members: the scattered dimensions with indices that are already local to the block.
      slices: the range of each sliced dimension.
      own: temporary names for axes that index arrays may also have.
    """

    dims: list[int] = dataclasses.field(default_factory=list)
    indices: list[Any] = dataclasses.field(default_factory=list)
    placements: list[tuple[str, ...]] = dataclasses.field(default_factory=list)
    members: list[int] = dataclasses.field(default_factory=list)
    slices: dict[int, range] = dataclasses.field(default_factory=dict)
    own: dict[Any, OwnAxis] = dataclasses.field(default_factory=dict)

    def in_block(
        self,
        found: Sequence[Any],
        shape: tuple[int, ...],
        region: Region,
        mode: str | None,
        is_unique: bool,
    ) -> list[Any]:
        """Convert global indices to indices in this block, which has the given shape.

        Unique indices outside of the block remain distinct.
        """
        sizes = [
            (
                axes.size
                if isinstance(axes, Uneven)
                else shape[i] * (region.mesh_axis_size(axes) if axes else 1)
            )
            for i, axes in zip(self.dims, self.placements, strict=True)
        ]
        local = [
            index if i in self.members else _into_block(index, size, shape[i], axes, mode)
            for i, index, size, axes in zip(self.dims, found, sizes, self.placements, strict=True)
        ]
        if not is_unique:
            return local
        return [
            _apart(index, shape[i]) if axes else index
            for i, index, axes in zip(self.dims, local, self.placements, strict=True)
        ]


def _targets(
    parts: Sequence[Part],
    arrays: Sequence[Any],
    dims: Dims,
    shape: tuple[int, ...],
    region: Region | None,
) -> _Targets:
    where, supply = _Targets(), iter(arrays)
    for part in parts:
        name = dims[part.dim]
        placed = region.place(name) if region is not None and name is not None else ()
        # If an index array has the axis of a slice, both are indexed pairwise.
        pairwise = (
            name is not None
            and isinstance(part.at, range)
            and any(name in dims_of(array) for array in arrays)
        )
        if isinstance(part.at, range) and not placed and not pairwise:
            where.slices[part.dim] = part.at
            continue
        where.dims.append(part.dim)
        where.placements.append(placed)
        if pairwise or (name is not None and not isinstance(part.at, range)):
            where.own[name] = OwnAxis(name)
        if pairwise:
            where.indices.append(
                make_in_region(jnp.asarray(np.asarray(part.at)), (where.own[name],))
            )
        elif isinstance(part.at, range):
            where.members.append(part.dim)
            where.indices.append(_block_members(part.at, shape[part.dim], placed, name))
        else:
            where.indices.append(next(supply) if part.at == ARRAY else part.at)
    return where


def _batch_names(dims: Dims, where: _Targets, others: Sequence[Dims]) -> list[Hashable]:
    """Return the names over which updates are independent: of `x`, then of index and values."""
    names = [
        dim
        for i, dim in enumerate(dims)
        if dim is not None and i not in where.dims and i not in where.slices
    ]
    sliced = {dims[i] for i in where.slices} - {None}
    for group in others:
        names += [
            d
            for d in group
            if d is not None and d not in names and d not in sliced and not isinstance(d, OwnAxis)
        ]
    return names


def _varying_alike(
    x: AnyArray,
    data: jax.Array,
    found: Sequence[Any],
    value: Any,
    mesh_axes: tuple[str, ...],
    has_value: bool,
) -> tuple[Any, list[Any], Any]:
    """Cast the data of `x`, the indices and the data of the values to one variance."""
    value_data = data_of(value)
    union = frozenset(mesh_axes).union(
        *(varying(v) for v in (data, *found, value_data) if hasattr(v, "dtype"))
    )
    data = cast(x, union) if isinstance(x, NamedArray) else cast_data(data, union)
    found = [cast_data(jnp.asarray(index), union) for index in found]
    return (
        data,
        found,
        cast(value, union) if has_value and hasattr(value_data, "dtype") else value_data,
    )


def _numbered(dims: Sequence[Any]) -> list[Any]:
    """Replace each positional dim of an index by `("index", k)`, as in `visible_order`."""
    numbers = itertools.count()
    return [("index", next(numbers)) if dim is None else dim for dim in dims]


def _local_update(
    method: str,
    count: int,
    cuts: tuple[slice, ...],
    function: tuple[Any, ...],
    sharded: bool,
    options: Mapping[str, Any],
) -> Callable[..., Any]:
    """Build the update of one instance at `count` indices; `function` replaces the values."""

    def update(target: jax.Array, *operands: jax.Array) -> jax.Array:
        found, values = operands[:count], operands[count:] or function
        if sharded and all(np.size(index) == 1 for index in found):
            return _update_one(method, target, found, cuts, values[0])
        selected = target.at[(*found, *cuts)] if found or cuts else target.at[...]
        return getattr(selected, method)(*values, **options)

    return update


def _update_one(
    method: str, target: jax.Array, found: Sequence[Any], cuts: tuple[slice, ...], value: Any
) -> jax.Array:
    """Update at one index; devices for which it is out of range rewrite their old value.

    The result equals dropping the index. But XLA (as of jaxlib 0.10.2) turns a scatter at one index
    into a dynamic-update-slice. If the target is itself a slice, that reads a wrong element for an
    index out of range.
    """
    here: Any = True
    safe = []
    for index, block in zip(found, target.shape, strict=False):
        here = here & (index < block)
        safe.append(jnp.minimum(index, block - 1))
    place = target.at[(*safe, *cuts)]
    old = place.get(mode="promise_in_bounds")
    # `here` has the axes of the index, all of size 1.
    here = jnp.reshape(here, (1,) * old.ndim) if old.ndim else jnp.reshape(here, ())
    new = _ELEMENTWISE[method](jnp.where(here, old, 1) if method == "power" else old, value)
    return place.set(
        jnp.where(here, jnp.asarray(new).astype(old.dtype), old), mode="promise_in_bounds"
    )


def _as_slice(entries: range) -> slice:
    if not len(entries):
        return slice(0, 0)
    stop = entries[-1] + (1 if entries.step > 0 else -1)
    return slice(entries[0], None if stop < 0 else stop, entries.step)


def _block_members(
    entries: range, block: int, mesh_axes: tuple[str, ...], name: Hashable
) -> NamedArray:
    """Return the indices in this device's block that belong to a range, the others out of range."""
    step, first = abs(entries.step), min(entries) if len(entries) else 0
    position = jnp.arange(block) + comm.block_index(mesh_axes).astype(int) * block
    if isinstance(mesh_axes, Uneven):  # padding repeats the last element
        position = jnp.minimum(position, mesh_axes.size - 1)
    position = position - first
    member = (position >= 0) & (position < len(entries) * step) & (position % step == 0)
    return make_in_region(jnp.where(member, jnp.arange(block), block), (OwnAxis(name),))


def _into_block(
    index: jax.Array, size: int, block: int, mesh_axes: tuple[str, ...], mode: str | None
) -> jax.Array:
    """Convert global indices to indices in this device's block, out of range if outside of it."""
    index = jnp.where(index < 0, index + size, index)
    if mode == "clip":
        index = jnp.clip(index, 0, size - 1)
    if mesh_axes:
        first = comm.block_index(mesh_axes).astype(index.dtype) * block
        if isinstance(mesh_axes, Uneven):
            # A device with padding only keeps the last element there, as its first.
            first = jnp.minimum(first, size - 1)
            index = jnp.where(index < size, index, first + block)
        index = index - first
    return jnp.where((index >= 0) & (index < block), index, block)


def _are_unique(arrays: Sequence[Any], hints: Mapping[str, Any]) -> bool:
    """Return True if no index is duplicated, as JAX requires to differentiate products.

    This holds without index arrays, and by the promise `unique_indices=True`.
    """
    return bool(hints.get("unique_indices")) or not any(np.ndim(array) for array in arrays)


def _apart(index: jax.Array, block: int) -> jax.Array:
    """Make the indices outside of the block distinct."""
    index = index.astype(jnp.promote_types(index.dtype, jnp.int32))
    number = jnp.arange(np.size(index), dtype=index.dtype).reshape(np.shape(index))
    return jnp.where(index < block, index, block + number)


def _check_value(
    op: str,
    x: AnyArray,
    value: ArrayLike,
    where: _Targets,
    joint: Dims,
    region: Region | None,
) -> ArrayLike:
    """Check the axes of the values, and give axes that the index has its temporary names."""
    value = to_local(value, op, region)
    if not isinstance(value, NamedArray):
        return value
    dims = dims_of(x)
    own = {dim.name: dim for dim in joint if isinstance(dim, OwnAxis)}
    for i in where.dims:
        name = dims[i]
        if name in value._dims and (i in where.members or name not in own):
            what = (
                "which is sharded and only partly updated"
                if i in where.members
                else "which the index removes"
            )
            raise AxisNotFoundError(
                f"{op}: the values {type_text(value)} have the axis {name!r}, {what}; the elements"
                " to update have the axes"
                f" {show_names(d for n, d in enumerate(dims) if d is not None and n != i)}. Rename"
                " it in the values, or write nx.where(mask, changed, x)."
            )
    for i, entries in where.slices.items():
        name = dims[i]
        has = name is not None and name in value._dims
        size = value._data.shape[value._dims.index(name)] if has else len(entries)
        if size != len(entries):
            raise AxisSizeError(
                f"{op}: the values {type_text(value)} have {size} elements along {name!r}, but the"
                f" slice has {len(entries)}. Take that slice of the values, or write nx.where(mask,"
                " changed, x)."
            )
    check_value_sizes(op, x, value, [dims[i] for i in (*where.dims, *where.slices)])
    if region is not None and region.resources:
        region.check_placement(
            op,
            dict.fromkeys(
                d for d in (*dims, *value._dims) if d is not None and not isinstance(d, OwnAxis)
            ),
        )
    return gather_own_axes(value, own, region, "varying")


def _arrange(
    op: str,
    x: AnyArray,
    value: AnyArray,
    data: jax.Array,
    front: Sequence[Any],
    wanted: Sequence[Any],
    visible: Sequence[Any],
    where: _Targets,
) -> jax.Array:
    """Transpose the values to the axes `front` and `wanted`, which get size 1 if missing."""
    dims = dims_of(value)
    count = dims.count(None)
    if count > len(visible):
        extra = [i for i, dim in enumerate(dims) if dim is None][: count - len(visible)]
        if any(data.shape[i] != 1 for i in extra):
            axes = zip(dims_of(x), np.shape(data_of(x)), strict=True)
            left = {
                dim: len(where.slices.get(i, range(n)))
                for i, (dim, n) in enumerate(axes)
                if dim is not None and i not in where.dims
            }
            to_name = naming("values", data.shape, left) if left else ""
            raise PositionalAxisError(
                f"{op}: the values {type_text(value)} have {count} positional axes, but the"
                f" elements to update, of {type_text(x)}, have"
                f" {len(visible)}.{'' if isinstance(value, NamedArray) else to_name}"
            )
        data = lax.squeeze(data, extra)
        dims = tuple(dim for i, dim in enumerate(dims) if i not in extra)
        count = len(visible)
    places = iter(visible[len(visible) - count :])
    labels = [next(places) if dim is None else dim for dim in dims]
    order = [labels.index(label) for label in (*front, *wanted) if label in labels]
    data = lax.transpose(data, order)
    missing = [len(front) + n for n, label in enumerate(wanted) if label not in labels]
    return jnp.expand_dims(data, missing) if missing else data
