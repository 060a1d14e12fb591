"""`take`, which reads along one axis, and positional indexing.

Along a sharded axis the table is not moved. Every device reads its own elements, the others count
as zero, and one sum over the devices combines the results.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from namedax.core.annotations import AnyArray, ArrayLike, AxisSpec
from namedax.core.array import NamedArray, as_array, dims_of, make_in_region
from namedax.core.display import type_text
from namedax.core.element_types import additive_identity, check_fits, weak_as
from namedax.core.name_scopes import in_scope, names_in, scope_text
from namedax.core.names import MeshAxes, is_name
from namedax.core.padded_sharding import Uneven
from namedax.core.region import ambient
from namedax.core.variance import cast, cast_data, varying
from namedax.errors import AxisSizeError, PositionalAxisError, format_value, raise_not_found
from namedax.ops.operands import kernels
from namedax.ops.operands.axes import axis_key, resolve_axis
from namedax.ops.operands.broadcasting import make_result, to_local
from namedax.ops.operands.nmap import Lifted
from namedax.ops.operands.operation import MOVED, operation
from namedax.ops.operands.pytree import data_of, names_of, wide_index
from namedax.resources import communication as comm

__all__ = ["index_positional", "take"]

_MODES = ("fill", "clip", "wrap")


@operation(requires_axis=MOVED, cached=True)
def take(
    x: ArrayLike,
    indices: ArrayLike,
    axis: AxisSpec = None,
    *,
    mode: str | None = None,
    fill_value: ArrayLike | None = None,
) -> AnyArray:
    """Take elements of `x` along one axis.

    Args:
      x: an array, named or not.
      indices: integers, named or not; axes that `x` has too are batch axes. They may have the
        indexed axis; the result then has it with their size.
      axis: an axis name, or a positional axis of `x`; `None` (default) flattens all positional
        axes. Required if every axis is named.
      mode: the result for an index out of range: `"fill"` or `None`, the default (NaN, or the least
        integer, or `fill_value`), `"clip"` or `"wrap"`. Negative indices count from the end, except
        with `"clip"`.
      fill_value: the fill value, by default `None`.

    Returns:
      The axes of `x` without `axis`, and the axes of `indices`. Positional axes of `indices`
      replace a positional `axis`, and come first if `axis` is a name.

    Communication: over a sharded axis, one all-reduce of the result; neither the table nor its
    gradient is moved. If `indices` has that axis, one all-gather of the indices and one
    reduce-scatter of the elements that all of them request.

    Raises:
      AxisNotFoundError: `x` lacks the axis.
      AxisSizeError: an axis has two sizes.
      PlacementConflictError: `indices` has another axis that is sharded over the mesh axis of
        `axis`.

    >>> import jax.numpy as jnp, namedax as nx
    >>> table = nx.named(jnp.arange(6.0).reshape(3, 2), ["vocab", "embed"])
    >>> nx.take(table, nx.named(jnp.array([2, 0]), ["token"]), "vocab").dims
    ('token', 'embed')
    """
    mode = "fill" if mode is None else mode
    if mode not in _MODES:
        raise PositionalAxisError(f"take: mode must be one of {_MODES}, got {format_value(mode)}.")
    if isinstance(axis, (tuple, list)):
        if len(axis) != 1:
            raise PositionalAxisError(
                f"take: axis={format_value(axis)} must be one positional or named axis. If the"
                f" tuple is the name, write axis=({format_value(axis)},)."
            )
        (axis,) = axis
    array: AnyArray = as_array(x, "take")
    index = as_array(indices, "take")
    check_fits("take", "fill_value", fill_value, array.dtype)
    if ambient() is None and isinstance(fill_value, (int, float, complex, type(None))):
        return kernels.run(
            "take", _take, axis_key("take", (axis,)), (mode, fill_value), array, index
        )
    return in_scope(
        scope_text("take", names_in(axis)), _take, "take", (axis,), mode, fill_value, array, index
    )


def _take(
    op: str, axes: tuple[Any], mode: str, fill_value: Any, x: AnyArray, indices: AnyArray
) -> AnyArray:
    (axis,) = axes
    region = ambient()
    x = as_array(to_local(x, op, region))
    indices = as_array(to_local(indices, op, region))
    if not jnp.issubdtype(indices.dtype, jnp.integer):
        raise PositionalAxisError(
            f"take: the indices are {type_text(indices)}, but indices must be integers."
        )
    indices = wide_index(indices)

    def read(rows: jax.Array, index: jax.Array, dim: int | None) -> jax.Array:
        return jnp.take(rows, index, axis=dim, mode=mode, fill_value=fill_value)

    if not is_name(axis):
        position = None
        if axis is not None:
            (place,) = resolve_axis(op, x, axis)
            position = dims_of(x)[:place].count(None)
        return Lifted(lambda rows, index: read(rows, index, position), op)(x, indices)
    dims, own = dims_of(x), dims_of(indices)
    if not isinstance(x, NamedArray) or axis not in dims:
        raise_not_found(op, axis, type_text(x), names_of(dims))
    if region is not None:
        names = dict.fromkeys(dim for dim in (*dims, *own) if dim is not None)
        region.check_placement(op, names)
        region.seen.update(names)
    # The axis of the indices differs from the indexed axis, which is removed; it is renamed back at
    # the end.
    indexed = _IndexedAxis(axis)
    if axis in own:
        indices = make_in_region(
            data_of(indices), tuple(indexed if dim == axis else dim for dim in own)
        )
    mesh_axes: MeshAxes = ()
    if region is not None and region.manual:
        mesh_axes = region.place(axis)
    if mesh_axes:
        size = region.global_size(axis, x._data.shape[dims.index(axis)])  # type: ignore[union-attr]
        data, dims = _take_sharded(x, indices, axis, indexed, size, mesh_axes, mode, fill_value)
    else:
        data, dims = _take_rows(lambda rows, index: read(rows, index, 0), x, indices, axis)
    return make_result(data, tuple(axis if dim is indexed else dim for dim in dims))


class _IndexedAxis:
    """A temporary name for the indexed axis, in indices that have it too."""

    def __init__(self, axis: Hashable):
        self.axis = axis

    def __repr__(self) -> str:
        return repr(self.axis)


def _take_rows(
    read: Callable[[Any, Any], Any], x: NamedArray, indices: AnyArray, axis: Hashable
) -> tuple[Any, tuple[Any, ...]]:
    """Apply `read(rows, positions)` with the axis of `x` in front, and return data and dims.

    It is vectorized over the names that `x` and the indices share.
    """
    dims, own = x._dims, dims_of(indices)
    shared = [dim for dim in own if dim is not None and dim in dims]
    x_order = [dims.index(dim) for dim in (*shared, axis)]
    x_order += [i for i in range(len(dims)) if i not in x_order]
    i_order = [own.index(dim) for dim in shared]
    i_order += [i for i in range(len(own)) if i not in i_order]
    data, index = x._data, data_of(indices)
    region = ambient()
    if region is not None and region.manual:
        union = varying(data) | varying(index)
        data, index = cast(x, union), cast_data(index, union)
    for name in shared:
        if data.shape[dims.index(name)] != index.shape[own.index(name)]:
            raise AxisSizeError(
                f"take: axis {name!r} has two sizes, in {type_text(x)} and in the indices"
                f" {type_text(indices)}; a name has one size. Rename one of the two axes."
            )
    for _ in shared:
        read = jax.vmap(read)
    result = read(lax.transpose(data, x_order), lax.transpose(index, i_order))
    return result, tuple([own[i] for i in i_order] + [dims[i] for i in x_order[len(shared) + 1 :]])


def _take_sharded(
    x: NamedArray,
    indices: AnyArray,
    axis: Hashable,
    indexed: _IndexedAxis,
    size: int,
    mesh_axes: MeshAxes,
    mode: str,
    fill_value: ArrayLike | None,
) -> tuple[Any, tuple[Any, ...]]:
    """Read the rows of each device for the indices of all devices, and return data and dims."""
    if comm.is_keys(x._data):
        words = make_in_region(jax.random.key_data(x._data), (*x._dims, None))
        data, dims = _take_sharded(words, indices, axis, indexed, size, mesh_axes, mode, fill_value)
        return jax.random.wrap_key_data(data, impl=jax.random.key_impl(x._data)), dims[:-1]
    stored = x.dtype
    if (x := comm.summable(x)).dtype != stored:
        data, dims = _take_sharded(x, indices, axis, indexed, size, mesh_axes, mode, fill_value)
        return data.astype(stored), dims
    index = data_of(indices)
    own = dims_of(indices)
    if indexed in own:
        index = comm.all_gather(index, own.index(indexed), mesh_axes, "varying")
    indices = make_in_region(index, own) if any(dim is not None for dim in own) else index
    fill = jnp.asarray(_default_fill(x.dtype) if fill_value is None else fill_value, x.dtype)
    nothing = additive_identity(x.dtype)
    is_padded = mode == "fill" and isinstance(
        mesh_axes, Uneven
    )  # otherwise no index refers to padding

    def wanted(i: jax.Array) -> jax.Array:
        if mode == "clip":
            return jnp.clip(i, 0, size - 1)
        if mode == "wrap":
            return jnp.mod(i, size)
        number = i.dtype.type
        return lax.select(lax.lt(i, number(0)), lax.add(i, number(size)), i)

    def local(
        rows: jax.Array, i: jax.Array
    ) -> jax.Array:  # `jnp` would take several times as long to trace
        block, number = rows.shape[0], i.dtype.type
        i, device = wanted(i), comm.block_index(mesh_axes)
        mine = lax.sub(i, lax.mul(device.astype(i.dtype), number(block)))
        here = lax.bitwise_and(lax.ge(mine, number(0)), lax.lt(mine, number(block)))
        if is_padded:
            here = lax.bitwise_and(here, lax.lt(i, number(size)))
        values = jnp.take(rows, lax.select(here, mine, lax.full_like(mine, 0)), axis=0, mode="clip")

        def along_rows(one: jax.Array) -> jax.Array:
            return lax.broadcast_in_dim(one, values.shape, range(one.ndim))

        values = lax.select(along_rows(here), values, lax.broadcast(nothing, values.shape))
        if mode != "fill":
            return values
        # An index out of range belongs to no device; the first device fills it.
        outside = lax.bitwise_or(lax.lt(i, number(0)), lax.ge(i, number(size)))
        nobody = lax.bitwise_and(outside, lax.eq(device, device.dtype.type(0)))
        return lax.select(along_rows(nobody), lax.broadcast(fill, values.shape), values)

    data, dims = _take_rows(local, x, indices, axis)
    data = weak_as(data, x._data)
    truth = data.dtype == jnp.bool_  # booleans have no sum
    if truth:
        data = data.astype(jnp.int32)
    data = (
        comm.psum_scatter(data, dims.index(indexed), mesh_axes)
        if indexed in dims
        else comm.psum(data, mesh_axes)
    )
    return data.astype(bool) if truth else data, dims


def _default_fill(dtype: np.dtype) -> float | int | bool:
    if jnp.issubdtype(dtype, jnp.inexact):
        return jnp.nan
    if dtype == jnp.bool_:
        return True
    info = jnp.iinfo(dtype)
    return info.min if jnp.issubdtype(dtype, jnp.signedinteger) else info.max


def index_positional(x: ArrayLike, index: object) -> AnyArray:
    """Read `x[index]` over the positional axes of `x`; a named index array is used per instance."""
    parts = index if isinstance(index, tuple) else (index,)
    arrays = [wide_index(part) for part in parts if hasattr(part, "dtype")]
    if not arrays:
        return Lifted(lambda data: data[index], "getitem")(x)

    def read(data: jax.Array, *values: jax.Array) -> jax.Array:
        supply = iter(values)
        filled = tuple(next(supply) if hasattr(part, "dtype") else part for part in parts)
        return data[filled]

    return Lifted(read, "getitem")(x, *arrays)
