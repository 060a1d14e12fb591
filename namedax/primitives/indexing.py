"""Records of gathers, scatters, and slices and updates at dynamic indices."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.extend.core import JaxprEqn

from namedax.core.element_types import additive_identity, beyond
from namedax.core.variance import cast_alike
from namedax.primitives.dimensions import (
    NONE,
    roles_by_marks,
    same_sizes,
    trimmed,
    twice,
)
from namedax.primitives.record import (
    Fusion,
    Kind,
    Mixed,
    Placements,
    Primitive,
    Roles,
    Shardings,
    aval_of,
    is_inexact,
    records,
    shape_of,
)
from namedax.resources import communication as comm

__all__ = ["RECORDS"]


def _taking(eqn: JaxprEqn, operand: int) -> bool:
    # Out of bounds a gather returns zeros, which sum to zero, or NaNs, which sum to NaN.
    filled = eqn.params["mode"] == lax.GatherScatterMode.FILL_OR_DROP
    fill = eqn.params["fill_value"]
    is_nan = fill is None or fill != fill
    return not filled or fill == 0 or (is_nan and is_inexact(eqn.outvars[0].aval))


def _of_gather(eqn: JaxprEqn, known: Shardings) -> tuple[Shardings, Mixed]:
    numbers, ndim = eqn.params["dimension_numbers"], len(shape_of(eqn.outvars[0]))
    found, mixed = [NONE] * ndim, NONE
    batch = [i for i in range(ndim) if i not in numbers.offset_dims]
    batching = tuple(numbers.operand_batching_dims)
    of_indices = tuple(numbers.start_indices_batching_dims)
    if known[0] is not None:
        dropped = {*numbers.collapsed_slice_dims, *batching}
        windows = dict(
            zip(
                (i for i in range(len(known[0])) if i not in dropped),
                sorted(numbers.offset_dims),
                strict=True,
            )
        )
        for i, axes in enumerate(known[0]):
            if i in batching:
                found[batch[of_indices[batching.index(i)]]] |= axes
            elif i in windows and eqn.params["slice_sizes"][i] == shape_of(eqn.invars[0])[i]:
                found[windows[i]] |= axes
            else:
                mixed |= axes
    if known[1] is not None:
        for i, axes in zip(batch, known[1][:-1], strict=True):
            found[i] |= axes
        mixed |= known[1][-1]
    return [trimmed(found)], mixed | twice(found)


def _of_scatter(eqn: JaxprEqn, known: Shardings) -> tuple[Shardings, Mixed]:
    numbers, (operand, _, updates) = eqn.params["dimension_numbers"], eqn.invars[:3]
    found, mixed = [NONE] * len(shape_of(operand)), NONE
    batching = tuple(numbers.operand_batching_dims)
    of_indices = tuple(numbers.scatter_indices_batching_dims)
    kept = [
        i for i in range(len(found)) if i not in numbers.inserted_window_dims and i not in batching
    ]
    windows = dict(zip(sorted(numbers.update_window_dims), kept, strict=True))
    shapes = shape_of(operand), shape_of(updates)
    full = {i for j, i in windows.items() if shapes[1][j] == shapes[0][i]}
    for i, axes in enumerate(known[0] or ()):
        found[i] |= axes
        if i not in full and i not in batching:
            mixed |= axes
    scattered = [i for i in range(len(shapes[1])) if i not in numbers.update_window_dims]
    for i, axes in enumerate(known[2] or ()):
        if i in windows and windows[i] in full:
            found[windows[i]] |= axes
        elif i in scattered and scattered.index(i) in of_indices:
            found[batching[of_indices.index(scattered.index(i))]] |= axes
        else:
            mixed |= axes
    for i, axes in enumerate(known[1] or ()):
        if i in of_indices:
            found[batching[of_indices.index(i)]] |= axes
        else:
            mixed |= axes
    return [trimmed(found)], mixed | twice(found)


# --- blocks ---------------------------------------------------------------------------------------


def _roles_of_gather(eqn: JaxprEqn, layouts: Sequence[Placements]) -> Roles:
    """Return the roles of a gather; rows that are looked up in a sharded table are summed.

    The sum sends twice the rows, forward only. To gather the table sends it, and the gradient sums
    all of it. If the rows are larger than two tables, the table is gathered.
    """
    own, results = roles_by_marks(_of_gather, eqn)
    numbers, dtype = eqn.params["dimension_numbers"], aval_of(eqn.invars[0]).dtype
    columns = numbers.start_index_map
    if (
        len(columns) == 1
        and columns == numbers.collapsed_slice_dims
        and jnp.issubdtype(dtype, jnp.number)
        and _rows(eqn, layouts) <= 2 * math.prod(shape_of(eqn.invars[0]))
    ):
        own[0][columns[0]] = _LOOKED_UP
    return own, results


def _rows(eqn: JaxprEqn, layouts: Sequence[Placements]) -> float:
    """Return the elements of all rows that a device takes from a table."""
    axes = [axis for axes in layouts[1] for axis in axes]
    return math.prod(shape_of(eqn.outvars[0])) / math.prod(map(lax.axis_size, axes))


_LOOKED_UP = -1  # the role of the dimension of a table along which rows are looked up


def _gathered_block(
    eqn: JaxprEqn,
    values: Sequence[jax.Array],
    shape: Sequence[int],
    layouts: Sequence[Placements],
) -> jax.Array:
    """Gather from blocks of the operand along dimensions of which whole slices are taken.

    Along the dimension of a table, each device contributes its rows, and zeros for the others.
    """
    before, numbers = shape_of(eqn.invars[0]), eqn.params["dimension_numbers"]
    table = numbers.start_index_map[0] if len(numbers.start_index_map) == 1 else None
    if table is not None and (axes := tuple(layouts[0][table])):
        mode, size, block = eqn.params["mode"], before[table], values[0].shape[table]
        index = values[1]
        if index.dtype.itemsize < 4:
            index = index.astype(jnp.int32)
        is_valid = (index >= 0) & (index < size)
        if mode != lax.GatherScatterMode.FILL_OR_DROP:
            is_valid = jnp.ones_like(is_valid)
        index = jnp.clip(index, 0, size - 1).astype(jnp.int32)  # a large one would wrap around
        local = index - comm.block_index(axes) * block
        is_here = (local >= 0) & (local < block) & is_valid
        params = {**eqn.params, "mode": lax.GatherScatterMode.CLIP, "fill_value": None}
        found = _bound(eqn, [values[0], jnp.clip(local, 0, block - 1)], params)
        batch = [i for i in range(found.ndim) if i not in numbers.offset_dims]
        rows = [n if i in batch else 1 for i, n in enumerate(found.shape)]
        mine = jnp.where(is_here.reshape(rows), found, lax.full_like(found, 0))
        total = comm.psum(mine, axes)
        if mode != lax.GatherScatterMode.FILL_OR_DROP:
            return total
        fill = eqn.params["fill_value"]
        fill = beyond(total.dtype) if fill is None else fill
        return jnp.where(is_valid.reshape(rows), total, jnp.asarray(fill, total.dtype))
    return _bound(eqn, values, eqn.params)


def _bound(eqn: JaxprEqn, values: Sequence[jax.Array], params: Mapping[str, Any]) -> jax.Array:
    before = shape_of(eqn.invars[0])
    sizes = [
        m if n == whole else n
        for n, whole, m in zip(eqn.params["slice_sizes"], before, values[0].shape, strict=True)
    ]
    return eqn.primitive.bind(*cast_alike(values), **{**params, "slice_sizes": tuple(sizes)})


def _sliced_block(
    eqn: JaxprEqn, values: Sequence[jax.Array], shape: Sequence[int], layouts: object
) -> jax.Array:
    """Slice a block along dimensions that are not sharded."""
    return _bound(eqn, values, eqn.params)


def _roles_of_addition(eqn: JaxprEqn, layouts: object) -> Roles:
    """Return the roles of a scatter-add, which sums over all rows of updates."""
    own, results = roles_by_marks(_of_scatter, eqn)
    numbers = eqn.params["dimension_numbers"]
    rows = [i for i in range(len(own[2])) if i not in numbers.update_window_dims]
    count = 1 + max((role for role in results[0] if role is not None), default=-1)
    for i, row in enumerate(rows):
        if own[2][row] is None and own[1][i] is None:
            own[1][i] = own[2][row] = count
            count += 1
    return own, results


def _added_block(
    eqn: JaxprEqn,
    values: Sequence[jax.Array],
    shape: Sequence[int],
    layouts: Sequence[Placements],
) -> jax.Array:
    """Add the updates of all devices; each device scatters its own rows among zeros."""
    operand = values[0]
    axes = [axis for axes in layouts[0] for axis in axes]
    rows = tuple(axis for place in layouts[1][:-1] for axis in place if axis not in axes)
    if not rows:
        return eqn.primitive.bind(*cast_alike(values), **eqn.params)
    start = cast_alike([lax.full_like(operand, 0), *values[1:]])
    added = comm.psum(eqn.primitive.bind(*start, **eqn.params), rows)
    return lax.add(*cast_alike([operand, added]))


def _of_updates(eqn: JaxprEqn) -> float:
    return math.prod(shape_of(eqn.invars[-1]))


_ONE, _BOTH = ((0,),), ((0, 1),)


_SCATTER = Primitive(forward=_of_scatter, has_jaxpr=True, is_update=True, flops=_of_updates)

RECORDS: Mapping[str, Primitive] = {
    "gather": Primitive(
        linear=_ONE,
        when=_taking,
        parameters=("mode", "fill_value"),
        forward=_of_gather,
        roles=_roles_of_gather,
        of_blocks=_gathered_block,
        fusion=Fusion.CHEAP,
        flops=0,
        joins=True,
    ),
    "scatter": _SCATTER.replace(flops=0),
    "scatter-add": _SCATTER.replace(
        linear=((0, 2),),
        roles=_roles_of_addition,
        identity=additive_identity,
        of_blocks=_added_block,
    ),
    **records("scatter-sub scatter-mul scatter-min scatter-max", _SCATTER),
    "dynamic_slice": Primitive(
        Kind.SLICE,
        ("slice_sizes",),
        _ONE,
        selects=True,
        aligned=same_sizes(1),
        of_blocks=_sliced_block,
        fusion=Fusion.CHEAP,
        flops=0,
    ),
    "dynamic_update_slice": Primitive(
        Kind.UPDATE, linear=_BOTH, aligned=same_sizes(2), is_update=True
    ),
}
