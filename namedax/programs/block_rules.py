"""Rules for the blocks of operands from which an operation computes blocks of its result.

They are the reverse of the rules in `namedax.programs.dimension_rules`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import jax
from jax import lax
from jax.extend.core import JaxprEqn
from jax.sharding import NamedSharding

from namedax.core.names import MeshAxes
from namedax.core.variance import cast_alike, cast_data
from namedax.programs.dimension_rules import ELEMENTWISE, reshaped
from namedax.programs.primitives import Kind, aval_of, bind, cast_axes, kind_of, primitive_name
from namedax.resources.serial import count_along

__all__ = ["WHOLE", "Block", "Need", "block_of", "parts_of"]


# A dimension, and the mesh axes of its blocks, major first.
Block = tuple[int, MeshAxes]
# The blocks of a value that each device uses, by dimension; without any, it uses the whole value.
Need = tuple[Block, ...]
WHOLE: Need = ()

# Elementwise, but with parameters that depend on the shape or the placement.
_PLACED = frozenset("device_put sharding_constraint mask_cotangent zero_cotangent".split())


def parts_of(eqn: JaxprEqn, need: Need) -> list[Need] | None:
    """Return the blocks of operands from which an operation computes blocks of its result.

    The result is `None` if the operation needs whole operands.
    """
    name, (out,) = primitive_name(eqn), eqn.outvars
    if not _is_unplaced(eqn) or any(aval_of(out).shape[dim] == 0 for dim, _ in need):
        return None
    if kind_of(eqn) is Kind.CAST or (name in ELEMENTWISE and name not in _PLACED):
        return [_aligned(aval_of(var).shape, aval_of(out).shape, need) for var in eqn.invars]
    if name not in _RULES:
        return None
    parts: list[dict[int, MeshAxes]] = [{} for _ in eqn.invars]
    for dim, axes in need:
        found = _RULES[name](eqn, dim)
        if found is None:
            return None
        for part, of in zip(parts, found, strict=True):
            if of is not None:
                part[of] = axes
    return [tuple(sorted(part.items())) for part in parts]


def _aligned(shape: Sequence[int], result: Sequence[int], need: Need) -> Need:
    """Return the blocks of an operand that is broadcast along dimensions of size 1."""
    if len(shape) != len(result):
        return WHOLE  # a scalar
    return tuple((dim, axes) for dim, axes in need if shape[dim] == result[dim])


def _is_unplaced(eqn: JaxprEqn) -> bool:
    """Return True if no parameter shards a dimension over an axis left to the compiler."""
    return not any(
        any(part is not None for part in value.spec)
        for value in eqn.params.values()
        if isinstance(value, NamedSharding)
    )


# A rule takes an equation and a dimension of its result. It returns the dimension of each operand
# that has the same blocks, or `None` for an operand that is needed whole; or `None` if the
# operation combines the elements of different blocks.
Dimensions = Sequence[int | None]
Rule = Callable[[JaxprEqn, int], Dimensions | None]


def _broadcast(eqn: JaxprEqn, dim: int) -> Dimensions | None:
    places = [int(place) for place in eqn.params["broadcast_dimensions"]]
    others = [None] * (len(eqn.invars) - 1)
    if dim not in places:
        return [None, *others]
    i = places.index(dim)
    same = aval_of(eqn.invars[0]).shape[i] == aval_of(eqn.outvars[0]).shape[dim]
    return [i if same else None, *others]


def _reshape(eqn: JaxprEqn, dim: int) -> Dimensions | None:
    before, after = aval_of(eqn.invars[0]).shape, aval_of(eqn.outvars[0]).shape
    mark = frozenset({""})
    sharding = tuple(mark if i == dim else frozenset[str]() for i in range(len(after)))
    found, mixed = reshaped(sharding, after, before)
    if mixed or found is None or len(eqn.invars) != 1 or eqn.params.get("dimensions") is not None:
        return None
    return [found.index(mark)]


def _transpose(eqn: JaxprEqn, dim: int) -> Dimensions:
    return [int(eqn.params["permutation"][dim])]


def _without(name: str) -> Rule:
    """Make a rule for an operation whose result lacks the dimensions in this parameter."""

    def rule(eqn: JaxprEqn, dim: int) -> Dimensions:
        dropped = {int(i) for i in eqn.params[name]}
        kept = [i for i in range(aval_of(eqn.invars[0]).ndim) if i not in dropped]
        return [kept[dim]]

    return rule


def _pad(eqn: JaxprEqn, dim: int) -> Dimensions | None:
    return [dim, None] if not any(eqn.params["padding_config"][dim]) else None


def _slice(eqn: JaxprEqn, dim: int) -> Dimensions | None:
    same = aval_of(eqn.invars[0]).shape[dim] == aval_of(eqn.outvars[0]).shape[dim]
    return [dim] if same else None


def _concatenate(eqn: JaxprEqn, dim: int) -> Dimensions | None:
    return None if dim == eqn.params["dimension"] else [dim] * len(eqn.invars)


def _along(eqn: JaxprEqn, dim: int) -> Dimensions | None:
    return None if dim == eqn.params["axis"] else [dim]


def _reversed(eqn: JaxprEqn, dim: int) -> Dimensions | None:
    return None if dim in eqn.params["dimensions"] else [dim]


def _dot_general(eqn: JaxprEqn, dim: int) -> Dimensions | None:
    contracted, batches = eqn.params["dimension_numbers"]
    if dim < len(batches[0]):
        return [int(batches[0][dim]), int(batches[1][dim])]
    free = [
        (operand, i)
        for operand, var in enumerate(eqn.invars)
        for i in range(aval_of(var).ndim)
        if i not in contracted[operand] and i not in batches[operand]
    ]
    operand, i = free[dim - len(batches[0])]
    return [i, None] if operand == 0 else [None, i]


_RULES: Mapping[str, Rule] = {
    "broadcast_in_dim": _broadcast,
    "reshape": _reshape,
    "transpose": _transpose,
    "squeeze": _without("dimensions"),
    "pad": _pad,
    "slice": _slice,
    "concatenate": _concatenate,
    "rev": _reversed,
    "dot_general": _dot_general,
    **dict.fromkeys(
        "reduce_sum reduce_max reduce_min reduce_prod reduce_and reduce_or argmax argmin".split(),
        _without("axes"),
    ),
    **dict.fromkeys("cumsum cumprod cummax cummin cumlogsumexp".split(), _along),
}


def block_of(eqn: JaxprEqn, values: Sequence[jax.Array], need: Need) -> jax.Array:
    """Return blocks of the result of an operation on blocks of its operands."""
    name, out = primitive_name(eqn), aval_of(eqn.outvars[0])
    if kind_of(eqn) is Kind.CAST:
        return cast_data(values[0], cast_axes(eqn))
    shape = list(out.shape)
    for dim, axes in need:
        shape[dim] //= count_along(axes)
    values = cast_alike(values)
    if name == "broadcast_in_dim":
        return lax.broadcast_in_dim(values[0], shape, eqn.params["broadcast_dimensions"])
    if name == "reshape":
        return lax.reshape(values[0], shape)
    if name == "slice":
        starts, strides = eqn.params["start_indices"], eqn.params["strides"]
        limits = list(eqn.params["limit_indices"])
        for dim, _ in need:
            limits[dim] = shape[dim]
        return lax.slice(values[0], starts, limits, strides)
    (result,) = bind(eqn, values)
    return result
