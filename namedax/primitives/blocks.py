"""The blocks of operands from which an operation computes blocks of its result."""

from __future__ import annotations

from collections.abc import Sequence

import jax
from jax.extend.core import JaxprEqn
from jax.sharding import NamedSharding

from namedax.core.names import MeshAxes
from namedax.core.variance import cast_alike
from namedax.primitives.equations import bind, facts, kind_of
from namedax.primitives.record import Kind, shape_of
from namedax.resources.serial import count_along

__all__ = ["WHOLE", "Block", "Need", "block_of", "parts_of"]


# A dimension, and the mesh axes of its blocks, major first.
Block = tuple[int, MeshAxes]
# The blocks of a value that each device uses, by dimension; without any, it uses the whole value.
Need = tuple[Block, ...]
WHOLE: Need = ()


def parts_of(eqn: JaxprEqn, need: Need) -> list[Need] | None:
    """Return the blocks of operands from which an operation computes blocks of its result.

    The result is `None` if the operation needs whole operands.
    """
    record = facts(eqn)
    if record.in_blocks is None or len(eqn.outvars) != 1 or not _is_unplaced(eqn):
        return None
    shape = shape_of(eqn.outvars[0])
    if any(shape[dim] == 0 for dim, _ in need):
        return None
    if record.aligned is None:
        return [_aligned(shape_of(var), shape, need) for var in eqn.invars]
    parts: list[Need] = []
    for dims in record.aligned(eqn):
        part: list[Block] = []
        for dim, axes in need:
            own = dims[dim]
            if own is ...:
                return None
            if own is not None:
                part.append((own, axes))
        parts.append(tuple(sorted(part)))
    return parts


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


def block_of(eqn: JaxprEqn, values: Sequence[jax.Array], need: Need) -> jax.Array:
    """Return blocks of the result of an operation on blocks of its operands."""
    in_blocks, shape = facts(eqn).in_blocks, list(shape_of(eqn.outvars[0]))
    values = values if kind_of(eqn) is Kind.CAST else cast_alike(values)
    if not callable(in_blocks):
        (result,) = bind(eqn, values)
        return result
    for dim, axes in need:
        shape[dim] //= count_along(axes)
    return in_blocks(eqn, values, shape)
