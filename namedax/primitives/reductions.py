"""Records of reductions, cumulative operations, windows and sorting."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend.core import JaxprEqn, Literal

from namedax.core.element_types import additive_identity, extreme
from namedax.core.padded_sharding import Uneven
from namedax.core.variance import cast_data, varying
from namedax.primitives.dimensions import across, listed, without_roles
from namedax.primitives.record import (
    OfBlocks,
    Placements,
    Primitive,
    Roles,
    aval_of,
    records,
    shape_of,
)
from namedax.resources import communication as comm
from namedax.resources.padding_masks import masked, only_real

__all__ = ["RECORDS"]


def _of_top_k(eqn: JaxprEqn) -> Sequence[int]:
    return [eqn.params.get("axis", len(shape_of(eqn.invars[0])) - 1)]


def _of_windows(eqn: JaxprEqn) -> Sequence[int]:
    sizes, given = eqn.params["window_dimensions"], eqn.params
    strides = given.get("window_strides") or [1] * len(sizes)
    padding = given.get("padding") or [(0, 0)] * len(sizes)
    dilation = given.get("base_dilation") or [1] * len(sizes)
    return [
        i
        for i, (n, *others) in enumerate(zip(sizes, strides, padding, dilation, strict=True))
        if n != 1 or [others[0], tuple(others[1]), others[2]] != [1, (0, 0), 1]
    ]


def _size(shapes: Sequence[Sequence[int]]) -> int:
    return sum(map(math.prod, shapes))


def _combinations(eqn: JaxprEqn) -> float:
    taken, given = (_size([shape_of(v) for v in part]) for part in (eqn.invars, eqn.outvars))
    return max(taken - given, 0)


def _comparisons(eqn: JaxprEqn) -> float:
    n = aval_of(eqn.invars[0]).shape[eqn.params["dimension"]]
    return _size([shape_of(v) for v in eqn.invars]) * math.ceil(math.log2(max(n, 2)))


def _of_each_window(eqn: JaxprEqn) -> float:
    return _size([shape_of(v) for v in eqn.outvars]) * math.prod(eqn.params["window_dimensions"])


# --- blocks ---------------------------------------------------------------------------------------


def _axes(eqn: JaxprEqn, layout: Placements) -> tuple[str, ...]:
    """Return the mesh axes of the dimensions that a reduction reduces over."""
    return tuple(axis for dim in listed("axes")(eqn) for axis in layout[dim])


def _reduced(eqn: JaxprEqn, data: jax.Array, dims: Sequence[int]) -> jax.Array:
    return eqn.primitive.bind(data, **{**eqn.params, "axes": tuple(dims)})


def _extremum(largest: bool) -> OfBlocks:
    """Make the rule for a maximum, with the derivative of JAX: equal shares for equal elements."""
    across_devices = comm.pmax if largest else comm.pmin

    def of_blocks(
        eqn: JaxprEqn,
        values: Sequence[jax.Array],
        shape: Sequence[int],
        layouts: Sequence[Placements],
    ) -> jax.Array:
        dims, axes = eqn.params["axes"], _axes(eqn, layouts[0])
        if not axes:
            return _reduced(eqn, values[0], dims)

        @jax.custom_jvp
        def extremum(data: jax.Array) -> jax.Array:
            return across_devices(_reduced(eqn, data, dims), axes)

        @extremum.defjvp
        def derivative(
            primals: tuple[jax.Array], tangents: tuple[jax.Array]
        ) -> tuple[jax.Array, jax.Array]:
            found = extremum(*primals)
            mine = primals[0] == cast_data(lax.expand_dims(found, dims), varying(primals[0]))
            for dim in dims:  # padding has no share, whatever the extremum is
                mine = masked(mine, dim, layouts[0][dim], False)
            share = lax.convert_element_type(mine, found.dtype)
            count = comm.psum(jnp.sum(share, dims), axes)
            return found, comm.psum(jnp.sum(tangents[0] * share, dims), axes) / count

        return extremum(values[0])

    return of_blocks


def _of_partial_results(
    eqn: JaxprEqn,
    values: Sequence[jax.Array],
    shape: Sequence[int],
    layouts: Sequence[Placements],
) -> jax.Array:
    """Reduce blocks, and then their gathered results."""
    data, axes = _reduced(eqn, values[0], eqn.params["axes"]), _axes(eqn, layouts[0])
    if not axes:
        return data
    return _reduced(eqn, comm.all_gather(data[None], 0, axes, "invarying"), (0,))


def _index_of_extremum(
    eqn: JaxprEqn,
    values: Sequence[jax.Array],
    shape: Sequence[int],
    layouts: Sequence[Placements],
) -> jax.Array:
    """Compare the extrema of blocks. Padding comes last: it is never the first of equals."""
    (data,), (dim,), (layout,) = values, eqn.params["axes"], layouts
    index = _reduced(eqn, data, (dim,))
    if not (axes := layout[dim]):
        return index
    best = jnp.take_along_axis(data, lax.expand_dims(index, (dim,)), dim)
    first = comm.block_index(tuple(axes)) * data.shape[dim]
    offers = [
        comm.all_gather(part, dim, tuple(axes), "invarying")
        for part in (best, lax.expand_dims(index + first.astype(index.dtype), (dim,)))
    ]
    winner = _reduced(eqn, offers[0], (dim,))
    found = jnp.take_along_axis(offers[1], lax.expand_dims(winner, (dim,)), dim)
    return lax.squeeze(found, (dim,))


def _running_sum(
    eqn: JaxprEqn,
    values: Sequence[jax.Array],
    shape: Sequence[int],
    layouts: Sequence[Placements],
) -> jax.Array:
    """Add the sums of the blocks before this one."""
    (data,), dim = values, eqn.params["axis"]
    data = masked(data, dim, layouts[0][dim], additive_identity(data.dtype))
    result = eqn.primitive.bind(data, **eqn.params)
    if not (axes := tuple(layouts[0][dim])):
        return result
    at = 0 if eqn.params["reverse"] else data.shape[dim] - 1
    totals = comm.all_gather(lax.slice_in_dim(result, at, at + 1, axis=dim), dim, axes, "varying")
    number = lax.broadcasted_iota(jnp.int32, totals.shape, dim)
    own = comm.block_index(axes)
    earlier = number > own if eqn.params["reverse"] else number < own
    before = jnp.where(earlier, totals, lax.full_like(totals, 0))
    result = result + jnp.sum(before, dim, keepdims=True, dtype=result.dtype)
    if not eqn.params["reverse"] or not isinstance(layouts[0][dim], Uneven):
        return result
    # Padding, which would be zero, gets the value of an element: that of the first one.
    first = jnp.sum(totals, dim, keepdims=True, dtype=result.dtype)
    return only_real(result, first, dim, layouts[0][dim])


def _running(eqn: JaxprEqn, layouts: object) -> Roles:
    dims: list[int | None] = list(range(len(shape_of(eqn.invars[0]))))
    return [dims], [dims]


def _of_reducer(eqn: JaxprEqn, layouts: object) -> Roles | None:
    """Return the roles of a reduction by a function with constants: all dimensions are gathered.

    JAX does not cast the constants when it differentiates the function.
    """
    operands = (var for part in eqn.params["jaxpr"].eqns for var in part.invars)
    has_constants = any(isinstance(var, Literal) for var in operands)
    return without_roles(eqn, layouts) if has_constants else None


def _all_bits(dtype: np.dtype) -> Any:
    return True if dtype == jnp.bool_ else ~np.zeros((), dtype)


_LOWEST = functools.partial(extreme, largest=True)
_HIGHEST = functools.partial(extreme, largest=False)

_REDUCTION = Primitive(
    aligned=across(listed("axes"), keeps=False),
    contracted=lambda eqn: [(dim,) for dim in eqn.params["axes"]],
    of_blocks=_of_partial_results,
    in_blocks=True,
    reduces=listed("axes"),
    flops=_combinations,
)
_CUMULATIVE = Primitive(aligned=across(listed("axis")), in_blocks=True, copies_operand=True)
_WINDOWS = Primitive(aligned=across(_of_windows), flops=_of_each_window)

RECORDS: Mapping[str, Primitive] = {
    "reduce_sum": _REDUCTION.replace(
        linear=((0,),),
        takes="the sum",
        identity=additive_identity,
        combine=comm.psum,
        of_blocks=None,
    ),
    "reduce_prod": _REDUCTION.replace(takes="the product", identity=lambda dtype: 1),
    "reduce_max": _REDUCTION.replace(
        takes="the maximum",
        identity=_LOWEST,
        of_blocks=_extremum(True),
    ),
    "reduce_min": _REDUCTION.replace(
        takes="the minimum",
        identity=_HIGHEST,
        of_blocks=_extremum(False),
    ),
    "reduce_and": _REDUCTION.replace(takes="a boolean", identity=_all_bits),
    **records(
        "reduce_or reduce_xor", _REDUCTION.replace(takes="a boolean", identity=lambda dtype: 0)
    ),
    "argmax": _REDUCTION.replace(
        takes="the index of the maximum",
        identity=_LOWEST,
        of_blocks=_index_of_extremum,
    ),
    "argmin": _REDUCTION.replace(
        takes="the index of the minimum",
        identity=_HIGHEST,
        of_blocks=_index_of_extremum,
    ),
    "reduce": Primitive(
        aligned=across(listed("dimensions"), keeps=False),
        has_jaxpr=True,
        roles=_of_reducer,
        reduces=listed("dimensions"),
        flops=_combinations,
    ),
    "cumsum": _CUMULATIVE.replace(linear=((0,),), roles=_running, of_blocks=_running_sum),
    **records("cumprod cummax cummin cumlogsumexp", _CUMULATIVE),
    **records(
        "reduce_window_sum reduce_window_max reduce_window_min select_and_gather_add", _WINDOWS
    ),
    "reduce_window": _WINDOWS.replace(has_jaxpr=True, roles=without_roles),
    "select_and_scatter_add": Primitive(flops=_of_each_window),
    "sort": Primitive(aligned=across(listed("dimension")), flops=_comparisons),
    "top_k": Primitive(aligned=across(_of_top_k)),
    "approx_top_k": Primitive(aligned=across(listed("reduction_dimension"))),
}
