"""The collective `pdot`: a contraction over positional and named axes."""

from __future__ import annotations

import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp

from namedax.core.annotations import AnyArray, ArrayLike
from namedax.core.array import NamedArray, dims_of
from namedax.core.display import type_text
from namedax.core.names import AxisName
from namedax.errors import PositionalAxisError
from namedax.ops.collectives.reducing import check_names, size_of_absent
from namedax.ops.contraction.engine import contract
from namedax.ops.contraction.terms import Contraction
from namedax.ops.operands import kernels
from namedax.ops.operands.broadcasting import as_block
from namedax.ops.operands.operation import operation

__all__ = ["pdot"]

# Positional axes of `x` and of `y`.
_Pairs = tuple[Sequence[int], Sequence[int]]


@operation(name="pdot")
def pdot(
    x: ArrayLike,
    y: ArrayLike,
    axis_name: AxisName | tuple[AxisName, ...],
    pos_contract: tuple[Sequence[int], Sequence[int]] = ((), ()),
    pos_batch: tuple[Sequence[int], Sequence[int]] = ((), ()),
    precision: jax.lax.PrecisionLike = None,
) -> AnyArray:
    """Contract over named and positional axes at once.

    Args:
      x: an array, named or not.
      y: an array, named or not.
      axis_name: the axis name, or a tuple of names, to sum over. A value without the axis is the
        same in every instance.
      pos_contract: the positional axes to sum over, of `x` and of `y`; by default none.
      pos_batch: the positional batch axes, of `x` and of `y`, in pairs; by default none.
      precision: as in `jax.lax.dot_general`; by default `None`.

    Returns:
      The other named axes of both, and positional axes in the order of `dot_general`: the axes of
      `pos_batch`, then the others of `x` and `y`.

    Communication: one all-reduce after the local contraction. See also `nx.einsum`.

    Raises:
      AxisNotFoundError: neither the values nor the mapped function have an axis.
      PositionalAxisError: an axis is out of range or given twice, or sizes disagree.

    >>> import jax.numpy as jnp, namedax as nx
    >>> x = nx.named(jnp.ones((2, 5, 3)), ["b", None, "k"])
    >>> y = nx.named(jnp.ones((3, 7)), ["k", None])
    >>> z = nx.lax.pdot(x, y, "k")
    >>> z.dims, z.shape
    (('b', None, None), (5, 7))
    """
    names = check_names("pdot", axis_name)
    contract, batch = (
        tuple(tuple(int(i) for i in side) for side in pair) for pair in (pos_contract, pos_batch)
    )
    x, y = (v if isinstance(v, NamedArray) else jnp.asarray(v) for v in (x, y))
    dtype = jnp.result_type(x.dtype, y.dtype)
    absent = [name for name in names if name not in dims_of(x) and name not in dims_of(y)]
    copies = math.prod(size_of_absent("pdot", name) for name in absent)
    result = kernels.run("pdot", _contract, names, (contract, batch, precision), x, y)
    return result if not absent else result * jnp.asarray(copies, dtype)


def _contract(
    op: str,
    names: tuple[AxisName, ...],
    pos_contract: _Pairs,
    pos_batch: _Pairs,
    precision: jax.lax.PrecisionLike,
    x: AnyArray,
    y: AnyArray,
) -> AnyArray:
    blocks = [as_block(operand, op) for operand in (x, y)]
    positional, letters = _letters(blocks, pos_contract, pos_batch)
    all_dims = tuple(map(dims_of, blocks))
    labels = []
    for dims, own in zip(all_dims, positional, strict=True):
        numbers = iter(own)
        labels.append(tuple([next(numbers) if dim is None else dim for dim in dims]))
    kept = frozenset([dim for dims in all_dims for dim in dims if dim is not None])
    kept = kept.difference(names).union(letters)
    given = Contraction(op, all_dims, tuple(labels), kept, letters, {}, precision, None)
    return contract(given, blocks)


def _letters(
    blocks: Sequence[AnyArray], pos_contract: _Pairs, pos_batch: _Pairs
) -> tuple[list[list[int]], tuple[int, ...]]:
    """Return labels of all positional axes, and those of the result in order.

    Labels are integers above 96, which messages show as letters.
    """
    ranks = [dims_of(block).count(None) for block in blocks]
    for what, (of_x, of_y) in (("pos_contract", pos_contract), ("pos_batch", pos_batch)):
        if len(of_x) != len(of_y):
            raise PositionalAxisError(
                f"pdot: {what} has {len(of_x)} axes of the first array and {len(of_y)} of the"
                " second. Pass the same number of each."
            )
    labels: list[list[int]] = []
    used = []
    for side, (block, rank) in enumerate(zip(blocks, ranks, strict=True)):
        chosen = [*pos_batch[side], *pos_contract[side]]
        for axis in chosen:
            if not -rank <= axis < rank:
                raise PositionalAxisError(
                    f"pdot: positional axis {axis} is out of range for operand {side},"
                    f" {type_text(block)}, which has {rank} positional axes."
                )
        chosen = [axis % rank for axis in chosen]
        if len(set(chosen)) != len(chosen):
            raise PositionalAxisError(
                f"pdot: pos_batch and pos_contract give an axis of operand {side},"
                f" {type_text(block)}, twice."
            )
        used.append(chosen)
        labels.append([ord("a") + len(chosen) + i + (ranks[0] if side else 0) for i in range(rank)])
        for i, axis in enumerate(chosen):
            labels[side][axis] = ord("a") + i
    batch = tuple(ord("a") + i for i in range(len(pos_batch[0])))
    free = [
        label
        for side, ls in enumerate(labels)
        for axis, label in enumerate(ls)
        if axis not in used[side]
    ]
    return labels, (*batch, *free)
