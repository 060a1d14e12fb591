"""Reading along an axis: `take`, and positional indexing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from namedax.array import NamedArray, dims_of, is_name, make_in_region, type_text
from namedax.environment import ambient
from namedax.errors import AxisSizeError, PositionalAxisError, raise_not_found
from namedax.ops.align import local_block, wrap
from namedax.ops.lift import nmap
from namedax.ops.reductions import resolve_axis
from namedax.resources import communication as comm
from namedax.resources.variance import cast, cast_data, varying

__all__ = ["index_positional", "take"]

_MODES = ("fill", "clip", "wrap")


def take(x: Any, indices: Any, axis: Any, *, mode: str = "fill", fill_value: Any = None) -> Any:
    """Entries of `x` along one axis.

    Args:
      x: an array, named or not.
      indices: integers, named or not; axes that `x` has too are batch axes. It may have the axis that is read, and then the
        result has it with the size that it has in `indices`.
      axis: a name, or a position among the positional axes of `x`.
      mode: what an index out of range gives: `"fill"` (NaN, or the least integer, or `fill_value`), `"clip"` or `"wrap"`. Negative
        indices count from the end, but not with `"clip"`.
      fill_value: what to fill with.

    Returns:
      The axes of `x` without `axis`, and those of `indices`. Positional axes of `indices` stand where a positional `axis` stood, and
      in front of the others if `axis` is a name.

    Along a sharded name every device reads what it has, and one all-reduce of the result puts that together: the table is
    never gathered.

    Raises:
      AxisNotFoundError: `x` lacks the name.
      PlacementConflictError: `indices` has an axis on the mesh axis that `axis` is on.

    >>> import jax.numpy as jnp, namedax as nx
    >>> table = nx.named(jnp.arange(6.0).reshape(3, 2), ["vocab", "embed"])
    >>> nx.take(table, nx.named(jnp.array([2, 0]), ["token"]), "vocab").dims
    ('token', 'embed')
    """
    if mode not in _MODES:
        raise PositionalAxisError(f"take: mode={mode!r} is none of {_MODES}.")
    region = ambient()
    x = local_block(x, "take", region)
    indices = local_block(indices, "take", region)
    if not is_name(axis):
        (place,) = resolve_axis("take", x, axis)
        position = dims_of(x)[:place].count(None)
        return nmap(lambda x, i: jnp.take(x, i, axis=position, mode=mode, fill_value=fill_value))(x, indices)
    dims = dims_of(x)
    if axis not in dims:
        raise_not_found("take", axis, type_text(x), [d for d in dims if d is not None])
    names = [dim for dim in (*dims, *dims_of(indices)) if dim is not None]
    if region is not None and region.resources:
        region.check_placement("take", dict.fromkeys(names))
        region.seen.update(names)
    mesh_axes = region.placement(axis) if region is not None and region.manual else ()
    own = dims_of(indices)
    renamed = None
    if axis in own:
        if mesh_axes:
            raise PositionalAxisError(
                f"take: the indices {type_text(indices)} have the axis {axis!r} that is read, which is sharded over {mesh_axes}. Rename it in "
                "the indices, and rename the result."
            )
        renamed = _Read(axis)
        indices = make_in_region(indices._data, tuple(renamed if dim == axis else dim for dim in own))
    if not mesh_axes:
        result = _take_rows(lambda t, i: jnp.take(t, i, axis=0, mode=mode, fill_value=fill_value), x, indices, axis)
    else:
        size = region.global_size(axis, x._data.shape[dims.index(axis)])  # type: ignore[union-attr]
        result = _take_sharded(x, indices, axis, size, mesh_axes, mode, fill_value)
    if renamed is not None:
        result = wrap(result._data, tuple(axis if dim is renamed else dim for dim in result._dims))
    return result


class _Read:
    """Stands for the axis that is read, where the indices have it too."""

    def __init__(self, axis: Any):
        self.axis = axis


def _take_rows(read: Callable[[Any, Any], Any], x: NamedArray, indices: Any, axis: Any) -> Any:
    """`read(rows, positions)` with the axis of `x` in front, vectorised over the names that both have."""
    dims, own = x._dims, dims_of(indices)
    shared = [dim for dim in own if dim is not None and dim in dims]
    x_order = [dims.index(dim) for dim in (*shared, axis)]
    x_order += [i for i in range(len(dims)) if i not in x_order]
    i_order = [own.index(dim) for dim in shared]
    i_order += [i for i in range(len(own)) if i not in i_order]
    data, index = x._data, indices._data if isinstance(indices, NamedArray) else jnp.asarray(indices)
    region = ambient()
    if region is not None and region.manual:
        union = varying(data) | varying(index)
        data, index = cast(x, union), cast_data(index, union)
    for name in shared:
        if data.shape[dims.index(name)] != index.shape[own.index(name)]:
            raise AxisSizeError(f"take: axis {name!r} has two sizes, in {type_text(x)} and in {type_text(indices)}; a name has one size.")
    for _ in shared:
        read = jax.vmap(read)
    result = read(lax.transpose(data, x_order), lax.transpose(index, i_order))
    out = [own[i] for i in i_order] + [dims[i] for i in x_order[len(shared) + 1 :]]
    return wrap(result, tuple(out))


def _take_sharded(
    x: NamedArray, indices: Any, axis: Any, size: int, mesh_axes: tuple[str, ...], mode: str, fill_value: Any
) -> Any:
    """Every device reads the rows that it has; the others count as zero, and one all-reduce adds them up."""

    def wanted(i: Any) -> Any:
        if mode == "clip":
            return jnp.clip(i, 0, size - 1)
        return jnp.mod(i, size) if mode == "wrap" else jnp.where(i < 0, i + size, i)

    fill = jnp.asarray(_default_fill(x.dtype) if fill_value is None else fill_value, x.dtype)

    def local(rows: Any, i: Any) -> Any:
        block = rows.shape[0]
        i = wanted(i)
        mine = i - comm.block_index(mesh_axes).astype(i.dtype) * block
        here = (mine >= 0) & (mine < block)
        values = jnp.take(rows, jnp.where(here, mine, 0), axis=0, mode="clip")
        here = here.reshape(here.shape + (1,) * (values.ndim - here.ndim))
        values = jnp.where(here, values, jnp.zeros((), values.dtype))
        if mode != "fill":
            return values
        # An index out of range is nobody's; the first device answers for it.
        nobody = ((i < 0) | (i >= size)) & (comm.block_index(mesh_axes) == 0)
        return jnp.where(nobody.reshape(here.shape), fill, values)

    partial = _take_rows(local, x, indices, axis)
    return wrap(comm.psum(partial._data if isinstance(partial, NamedArray) else partial, mesh_axes), dims_of(partial))


def _default_fill(dtype: Any) -> Any:
    if jnp.issubdtype(dtype, jnp.inexact):
        return jnp.nan
    if dtype == jnp.bool_:
        return True
    info = jnp.iinfo(dtype)
    return info.min if jnp.issubdtype(dtype, jnp.signedinteger) else info.max


def index_positional(x: NamedArray, index: Any) -> Any:
    """`x[index]` over the positional axes of `x`; an index array with names is used per instance."""
    parts = index if isinstance(index, tuple) else (index,)
    arrays = [part for part in parts if hasattr(part, "dtype")]
    if not arrays:
        return nmap(lambda data: data[index])(x)

    def read(data: Any, *values: Any) -> Any:
        supply = iter(values)
        filled = tuple(next(supply) if hasattr(part, "dtype") else part for part in parts)
        return data[filled]

    return nmap(read)(x, *arrays)


