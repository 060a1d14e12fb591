"""The computation of an update: a scatter at resolved parts, or a choice at masks.

A scatter runs per instance of the names that the index does not mention. Integers and index arrays
are scattered dimensions. Slices are written as slices, unless they are sharded: then they are
indices of the block of this device. XLA can update single elements in place if no dimension is
transposed, so those replace one slice of the array as it is.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from namedax.core.annotations import AnyArray, ArrayLike
from namedax.core.array import NamedArray, dims_of, make_in_region
from namedax.core.display import type_text
from namedax.core.names import Dims, MeshAxes
from namedax.core.padded_sharding import Uneven
from namedax.core.records import Record
from namedax.core.region import ambient, place_of
from namedax.core.variance import cast, cast_data, varying
from namedax.errors import (
    AxisNotFoundError,
    AxisSizeError,
    PositionalAxisError,
    naming,
    show_names,
)
from namedax.ops.indexing.parts import (
    ARRAY,
    OwnAxis,
    Part,
    check_value_sizes,
    gather_own_axes,
    global_size,
    joint_indices,
    per_instance,
    visible_order,
)
from namedax.ops.operands.broadcasting import align, constrain_sharding, make_result, to_local
from namedax.ops.operands.pytree import data_of
from namedax.resources import communication as comm
from namedax.resources.padding_masks import last_repeated

__all__ = ["Update", "scatter", "write_where"]

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


class Update(Record):
    """The static part of an update at an index by names.

    Attributes:
      parts: the resolved index.
      method: a method of `x.at[...]`.
      mode: the handling of indices out of range.
      hints: the other options of the method.
    """

    parts: tuple[Part, ...]
    method: str
    mode: str | None
    hints: tuple[tuple[str, Any], ...]

    @property
    def has_value(self) -> bool:
        """Return False for `apply`, which has a function."""
        return self.method != "apply"


def scatter(
    op: str, _: object, update: Update, x: AnyArray, value: Any, *arrays: AnyArray
) -> NamedArray:
    """Write `value` at resolved parts; `arrays` are the indices of the parts that are `ARRAY`."""
    where = _targets(update.parts, arrays, x)
    operands = _operands(op, x, value if update.has_value else None, where)
    options: dict[str, Any] = {"mode": update.mode, **dict(update.hints)}
    if where.mesh_axes:
        is_unique = _are_unique(arrays, options)
        operands = operands.replace(indices=operands.in_block(update.mode, is_unique))
        options = {"mode": "drop", "unique_indices": is_unique}
    elif update.has_value and operands.is_at_scalars:
        return _update_at_scalars(update.method, operands, options)
    order = _Order.of(operands)
    function = _local_update(update.method, where, value, options)
    datas = [order.target(operands.data), *map(order.index, operands.indices)]
    held = [order.own, *(order.held_by_index if np.ndim(i) else () for i in operands.indices)]
    if update.has_value:
        datas.append(_arrange_value(op, operands, order, update.parts))
        held.append(order.held_by_value)
    return order.result(per_instance(function, order.names, held)(*datas), where)


def write_where(
    op: str, _: None, method: str, x: AnyArray, value: Any, *masks: AnyArray
) -> NamedArray:
    """Update the elements where all masks are true."""
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


# --- targets of a scatter -------------------------------------------------------------------------


class _Scattered(Record):
    """A dimension of `x` that is indexed element by element.

    Attributes:
      dim: the dimension.
      index: the indices along it.
      place: its mesh axes.
      is_local: True if the indices are those of this block.
    """

    dim: int
    index: Any
    place: MeshAxes
    is_local: bool


class _Targets(Record):
    """The target of an update.

    Attributes:
      scattered: the scattered dimensions: arrays, integers, and slices of sharded axes.
      slices: the range of each sliced dimension.
      own: temporary names for axes that index arrays may also have.
    """

    scattered: tuple[_Scattered, ...]
    slices: Mapping[int, range]
    own: Mapping[Hashable, OwnAxis]

    @property
    def dims(self) -> list[int]:
        """Return the scattered dimensions."""
        return [each.dim for each in self.scattered]

    @property
    def mesh_axes(self) -> MeshAxes:
        """Return the mesh axes of the scattered dimensions."""
        return tuple(axis for each in self.scattered for axis in each.place)


def _targets(parts: Sequence[Part], arrays: Sequence[Any], x: AnyArray) -> _Targets:
    region, dims, supply = ambient(), dims_of(x), iter(arrays)
    in_arrays = {name for array in arrays for name in dims_of(array)} - {None}
    scattered: list[_Scattered] = []
    slices: dict[int, range] = {}
    own: dict[Hashable, OwnAxis] = {}
    for part in parts:
        name = dims[part.dim]
        place = place_of(region, name)
        at = part.at
        # If an index array has the axis of a slice, both are indexed pairwise.
        is_pairwise = name in in_arrays
        if isinstance(at, range) and not is_pairwise and not place:
            slices[part.dim] = at
            continue
        is_local = isinstance(at, range) and not is_pairwise
        if name is not None and not is_local:
            own[name] = OwnAxis(name)
        index: Any = next(supply) if at == ARRAY else at
        if isinstance(at, range) and is_pairwise:
            index = make_in_region(jnp.asarray(np.asarray(at)), (own[name],))
        elif isinstance(at, range):
            index = _block_members(at, data_of(x).shape[part.dim], place, name)
        scattered.append(_Scattered(part.dim, index, place, is_local))
    return _Targets(tuple(scattered), slices, own)


def _block_members(entries: range, block: int, mesh_axes: MeshAxes, name: Hashable) -> NamedArray:
    """Return the indices in this device's block that belong to a range, the others out of range."""
    step, first = abs(entries.step), min(entries) if len(entries) else 0
    position = jnp.arange(block) + comm.block_index(mesh_axes).astype(int) * block
    if isinstance(mesh_axes, Uneven):  # padding repeats the last element
        position = jnp.minimum(position, mesh_axes.size - 1)
    position = position - first
    member = (position >= 0) & (position < len(entries) * step) & (position % step == 0)
    return make_in_region(jnp.where(member, jnp.arange(block), block), (OwnAxis(name),))


def _into_block(
    index: jax.Array, size: int, block: int, mesh_axes: MeshAxes, mode: str | None
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


# --- operands of a scatter ------------------------------------------------------------------------


class _Operands(Record):
    """The operands of a scatter, of one device variance.

    Attributes:
      x: the array.
      data: its data.
      where: the target.
      indices: the indices along each scattered dimension, scalars or with the dims `joint`.
      joint: the dims of the indices.
      value: the values; `None` if there are none.
      value_data: their data.
    """

    x: AnyArray
    data: jax.Array
    where: _Targets
    indices: Sequence[Any]
    joint: Dims
    value: ArrayLike | None
    value_data: Any

    @property
    def value_dims(self) -> Dims:
        """Return the dims of the values; none without values."""
        return () if self.value is None else dims_of(self.value)

    @property
    def is_at_scalars(self) -> bool:
        """Return True if a single element of some dimensions is updated, and `x` has all names."""
        names = {*dims_of(self.x)} - {None}
        return not self.joint and not self.where.slices and names.issuperset(self.value_dims)

    def in_block(self, mode: str | None, is_unique: bool) -> list[Any]:
        """Convert global indices to indices in this block.

        Unique indices outside of the block remain distinct.
        """
        region, dims, local = ambient(), dims_of(self.x), []
        for each, index in zip(self.where.scattered, self.indices, strict=True):
            block = self.data.shape[each.dim]
            if not each.is_local:
                size = global_size(region, dims[each.dim], block)
                index = _into_block(index, size, block, each.place, mode)
            local.append(_apart(index, block) if is_unique and each.place else index)
        return local


def _operands(op: str, x: AnyArray, value: ArrayLike | None, where: _Targets) -> _Operands:
    """Check the operands of a scatter, and cast them to one variance."""
    region, data = ambient(), data_of(x)
    given = [each.index for each in where.scattered]
    indices, joint = joint_indices(op, x, where.own, given) if given else ([], ())
    checked: Any = None if value is None else _check_value(op, x, value, where, joint)
    value_data = data_of(checked)
    if region is not None and region.manual:
        union = frozenset(where.mesh_axes).union(
            *(varying(v) for v in (data, *indices, value_data) if hasattr(v, "dtype"))
        )
        data = cast(x, union)
        indices = [cast_data(jnp.asarray(index), union) for index in indices]
        if hasattr(value_data, "dtype"):
            value_data = cast(checked, union)
    return _Operands(x, data, where, indices, joint, checked, value_data)


def _check_value(op: str, x: AnyArray, value: ArrayLike, where: _Targets, joint: Dims) -> ArrayLike:
    """Check the axes of the values, and give axes that the index has its temporary names."""
    region, dims = ambient(), dims_of(x)
    value = to_local(value, op, region)
    if not isinstance(value, NamedArray):
        return value
    own = {dim.name: dim for dim in joint if isinstance(dim, OwnAxis)}
    _check_value_names(op, x, value, where, own)
    _check_value_slices(op, x, value, where)
    check_value_sizes(op, x, value, [dims[i] for i in (*where.dims, *where.slices)])
    if region is not None and region.resources:
        region.check_placement(
            op,
            dict.fromkeys(
                d for d in (*dims, *value._dims) if d is not None and not isinstance(d, OwnAxis)
            ),
        )
    return gather_own_axes(value, own, region, "varying")


def _check_value_names(
    op: str, x: AnyArray, value: NamedArray, where: _Targets, own: Mapping[Any, OwnAxis]
) -> None:
    """Raise if the values have an axis that the elements to update lack."""
    dims = dims_of(x)
    for each in where.scattered:
        name = dims[each.dim]
        if name is None or name not in value._dims or (name in own and not each.is_local):
            continue
        what = (
            "which is sharded and only partly updated"
            if each.is_local
            else "which the index removes"
        )
        kept = show_names(d for n, d in enumerate(dims) if d is not None and n != each.dim)
        raise AxisNotFoundError(
            f"{op}: the values {type_text(value)} have the axis {name!r}, {what}; the elements"
            f" to update have the axes {kept}. Rename it in the values, or write nx.where(mask,"
            " changed, x)."
        )


def _check_value_slices(op: str, x: AnyArray, value: NamedArray, where: _Targets) -> None:
    """Raise if the values have another size than a slice along its axis."""
    dims = dims_of(x)
    for i, entries in where.slices.items():
        size = len(entries) if dims[i] is None else value._sizes.get(dims[i], len(entries))
        if size != len(entries):
            raise AxisSizeError(
                f"{op}: the values {type_text(value)} have {size} elements along {dims[i]!r}, but"
                f" the slice has {len(entries)}. Take that slice of the values, or write"
                " nx.where(mask, changed, x)."
            )


# --- order of the dimensions ----------------------------------------------------------------------


class _Order(Record):
    """The order of the dimensions in a scatter: the names of the instances first.

    Attributes:
      dims: the dims of `x`.
      names: the names of the instances: those of `x`, then those of the index and of the values.
      joint: the dims of the indices.
      value_dims: the dims of the values.
      scattered: the scattered dimensions of `x`.
      slices: its sliced dimensions.
    """

    dims: Dims
    names: Sequence[Hashable]
    joint: Dims
    value_dims: Dims
    scattered: Sequence[int]
    slices: Sequence[int]

    @classmethod
    def of(cls, operands: _Operands) -> _Order:
        """Return the order of operands."""
        dims, where = dims_of(operands.x), operands.where
        scattered, slices = where.dims, list(where.slices)
        gone = {dims[i] for i in slices}
        own = [d for i, d in enumerate(dims) if i not in scattered and i not in slices]
        names = [
            name
            for name in dict.fromkeys((*own, *operands.joint, *operands.value_dims))
            if name is not None and name not in gone and not isinstance(name, OwnAxis)
        ]
        return cls(dims, names, operands.joint, operands.value_dims, scattered, slices)

    @property
    def own(self) -> list[Hashable]:
        """Return the names of the instances that `x` has."""
        return [name for name in self.names if name in self.dims]

    @property
    def held_by_index(self) -> list[Hashable]:
        """Return the names of the instances that the indices have."""
        return [name for name in self.names if name in self.joint]

    @property
    def held_by_value(self) -> list[Hashable]:
        """Return the names of the instances that the values have."""
        return [name for name in self.names if name in self.value_dims]

    @property
    def rest(self) -> list[int]:
        """Return the positional dimensions of `x` that are not indexed."""
        indexed = {*self.scattered, *self.slices}
        return [i for i, dim in enumerate(self.dims) if dim is None and i not in indexed]

    @property
    def within(self) -> list[int]:
        """Return the dimensions of an instance of `x`."""
        return [*self.scattered, *self.slices, *self.rest]

    def target(self, data: jax.Array) -> jax.Array:
        """Transpose the data of `x`."""
        data = lax.transpose(data, [*map(self.dims.index, self.own), *self.within])
        # XLA's partitioner computes wrong gradients of updates along an axis that it shards.
        return constrain_sharding(data, (*self.own, *(None,) * len(self.within)))

    @property
    def index_order(self) -> list[int]:
        """Return the dimensions of an index, those of the instances first."""
        front = [self.joint.index(name) for name in self.held_by_index]
        return front + [i for i in range(len(self.joint)) if i not in front]

    def index(self, index: Any) -> Any:
        """Transpose an index."""
        return lax.transpose(index, self.index_order) if np.ndim(index) else index

    @property
    def value_labels(self) -> list[Any]:
        """Return the labels of the values of an instance.

        They are names, dimensions of `x`, and `("index", k)` for the positional dimensions of an
        index, as in `visible_order`.
        """
        numbers = itertools.count()
        read = [self.joint[i] for i in self.index_order[len(self.held_by_index) :]]
        return [
            *(("index", next(numbers)) if dim is None else dim for dim in read),
            *(i if self.dims[i] is None else self.dims[i] for i in self.slices),
            *self.rest,
        ]

    def result(self, data: jax.Array, where: _Targets) -> NamedArray:
        """Restore the order of `x`, after the names that it lacks."""
        for n, each in enumerate(where.scattered):
            data = last_repeated(data, len(self.names) + n, each.place)
        data = constrain_sharding(data, (*self.names, *(None,) * len(self.within)))
        new = [name for name in self.names if name not in self.dims]
        now: list[Any] = [name if name in new else self.dims.index(name) for name in self.names]
        now += self.within
        final = [now.index(label) for label in (*new, *range(len(self.dims)))]
        return make_result(lax.transpose(data, final), (*new, *self.dims))


def _arrange_value(op: str, operands: _Operands, order: _Order, parts: Sequence[Part]) -> Any:
    """Transpose the values as the elements to update; missing axes get size 1."""
    if not operands.value_dims:
        return operands.value_data
    visible = visible_order(order.dims, parts, order.joint.count(None))
    data, dims = _without_extra_ones(op, operands, len(visible))
    places = iter(visible[len(visible) - dims.count(None) :])
    labels = [next(places) if dim is None else dim for dim in dims]
    front, wanted = order.held_by_value, order.value_labels
    data = lax.transpose(
        data, [labels.index(label) for label in (*front, *wanted) if label in labels]
    )
    missing = [len(front) + n for n, label in enumerate(wanted) if label not in labels]
    return jnp.expand_dims(data, missing) if missing else data


def _without_extra_ones(op: str, operands: _Operands, rank: int) -> tuple[jax.Array, Dims]:
    """Drop the leading positional axes that values have beyond `rank`; they must have size 1."""
    data, dims = operands.value_data, operands.value_dims
    count = dims.count(None)
    extra = [i for i, dim in enumerate(dims) if dim is None][: max(count - rank, 0)]
    if any(data.shape[i] != 1 for i in extra):
        raise PositionalAxisError(
            f"{op}: the values {type_text(operands.value)} have {count} positional axes, but the"
            f" elements to update, of {type_text(operands.x)}, have {rank}."
            f"{_code_to_name(operands)}"
        )
    if extra:
        data = lax.squeeze(data, extra)
    return data, tuple(dim for i, dim in enumerate(dims) if i not in extra)


def _code_to_name(operands: _Operands) -> str:
    """Return a sentence with code that names unnamed values by the axes that are updated."""
    if isinstance(operands.value, NamedArray):
        return ""
    where = operands.where
    axes = zip(dims_of(operands.x), np.shape(data_of(operands.x)), strict=True)
    left = {
        dim: len(where.slices.get(i, range(n)))
        for i, (dim, n) in enumerate(axes)
        if dim is not None and i not in where.dims
    }
    return naming("values", operands.value_data.shape, left) if left else ""


# --- updates of one instance ----------------------------------------------------------------------


def _update_at_scalars(method: str, operands: _Operands, options: Mapping[str, Any]) -> NamedArray:
    """Update one element of each scattered dimension, with all others in their order."""
    data, dims, value = operands.data, dims_of(operands.x), operands.value_data
    scalars = dict(zip(operands.where.dims, operands.indices, strict=True))
    rest = [name for i, name in enumerate(dims) if i not in scalars]
    if value_dims := operands.value_dims:
        order = sorted(range(len(value_dims)), key=lambda i: rest.index(value_dims[i]))
        missing = [i for i, name in enumerate(rest) if name not in value_dims]
        value = lax.expand_dims(lax.transpose(value, order), missing)
    # XLA's partitioner computes wrong gradients of updates along an axis that it shards.
    names = tuple(None if i in scalars else name for i, name in enumerate(dims))
    data = constrain_sharding(data, names)
    index = tuple(scalars.get(i, slice(None)) for i in range(len(dims)))
    selected = jnp.asarray(data).at[index]
    result = getattr(selected, method)(value, **options)
    return make_result(constrain_sharding(result, names), dims)


def _local_update(
    method: str, where: _Targets, function: Any, options: Mapping[str, Any]
) -> Callable[..., jax.Array]:
    """Build the update of one instance; `function` is used if there are no values."""
    count, is_sharded = len(where.scattered), bool(where.mesh_axes)
    cuts = tuple(_as_slice(at) for at in where.slices.values())

    def update(target: jax.Array, *operands: jax.Array) -> jax.Array:
        found, values = operands[:count], operands[count:] or (function,)
        if is_sharded and all(np.size(index) == 1 for index in found):
            return _update_one(method, target, found, cuts, values[0])
        selected = target.at[(*found, *cuts)] if found or cuts else target.at[...]
        updated: jax.Array = getattr(selected, method)(*values, **options)
        return updated

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
