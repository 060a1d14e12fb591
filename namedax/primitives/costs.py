"""The cost of one equation on a device: floating-point operations, and memory traffic.

An equation whose primitive has no record counts as one operation for each element of its results,
and writes all of them. A cost that is unknown is therefore never omitted.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Hashable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import ShapedArray
from jax.extend.core import Jaxpr, JaxprEqn

from namedax.primitives.equations import (
    bodies_of,
    called_in_steps,
    dimension_of,
    facts,
    kind_of,
    open_jaxpr,
)
from namedax.primitives.record import Fusion, Kind, aval_of
from namedax.resources.padding import ZERO_COTANGENT

__all__ = [
    "factorizes_one",
    "flops_of",
    "is_along_rows",
    "is_elementwise",
    "is_fused",
    "is_in_order",
    "is_zero_cotangent",
    "joins_rows",
    "keeps_uniform",
    "largest_result",
    "moved_dimensions",
    "moves_elements",
    "reduced_dimensions",
    "size_in_bytes",
    "what_it_does",
]


def size_in_bytes(aval: ShapedArray) -> int:
    """Return the size in bytes of an array of this type."""
    dtype = getattr(aval, "dtype", None)
    return 0 if dtype is None else math.prod(getattr(aval, "shape", ())) * _element_size(dtype)


@functools.lru_cache(maxsize=256)
def _element_size(dtype: Any) -> int:
    """Return the size in bytes of an element of this dtype, which may be that of random keys."""
    if jnp.issubdtype(dtype, jax.dtypes.prng_key):
        words = jax.eval_shape(
            lambda key: jax.random.key_data(key), jax.ShapeDtypeStruct((), dtype)
        )
        return math.prod(words.shape) * 4
    return 0 if dtype == jax.dtypes.float0 else max(1, np.dtype(dtype).itemsize)


def is_elementwise(eqn: JaxprEqn) -> bool:
    """Return True if each element of a result depends only on the operands at its index."""
    record = facts(eqn)
    return record.is_elementwise and not record.draws


def is_fused(eqn: JaxprEqn) -> bool:
    """Return True if XLA computes the result where it is used, without writing it to memory."""
    return facts(eqn).fusion in (Fusion.CHEAP, Fusion.EXPENSIVE)


def is_in_order(eqn: JaxprEqn) -> tuple[bool, ...]:
    """Return True for each operand of a matrix product with its dimensions in the needed order.

    XLA multiplies by the transpose of a matrix in place, but copies an array of more dimensions.
    """
    in_order = facts(eqn).in_order
    return () if in_order is None else tuple(in_order(eqn))


def reduced_dimensions(eqn: JaxprEqn) -> tuple[int, ...]:
    """Return the dimensions that a reduction reduces over."""
    reduces = facts(eqn).reduces
    return () if reduces is None else tuple(reduces(eqn))


def moved_dimensions(eqn: JaxprEqn) -> tuple[int | None, ...] | None:
    """Return, for each dimension of the result, the operand's dimension that it comes from.

    This applies to operations that only move, add or remove dimensions, or sum over some. For other
    operations the result is `None`.
    """
    if not eqn.outvars:  # an effect, such as a callback
        return None
    record = facts(eqn)
    # A primitive with a rule of its own may merge or split dimensions.
    if record.aligned is None or record.forward is not None:
        return None
    if record.reduces is None and not record.keeps_elements:
        return None
    return tuple(dim if type(dim) is int else None for dim in record.aligned(eqn)[0])


def keeps_uniform(eqn: JaxprEqn) -> bool:
    """Return True if uniform operands (one repeated value) give a uniform result."""
    record = facts(eqn)
    return (
        is_elementwise(eqn) or record.keeps_elements or record.reduces is not None or record.selects
    )


def moves_elements(eqn: JaxprEqn) -> bool:
    """Return True if the result has elements of the operands, without arithmetic."""
    record = facts(eqn)
    return record.fusion is Fusion.VIEW or (is_fused(eqn) and record.flops == 0)


def is_zero_cotangent(eqn: JaxprEqn) -> bool:
    """Return True if the cotangent of the result is zero, as for padding."""
    return eqn.primitive is ZERO_COTANGENT


def joins_rows(eqn: JaxprEqn) -> bool:
    """Return True if the equation concatenates its operands along the last dimension.

    XLA then writes the operands and the result: a loop over elements would branch for each of them.
    """
    return (
        facts(eqn).is_concatenation and eqn.params["dimension"] == aval_of(eqn.outvars[0]).ndim - 1
    )


def is_along_rows(eqn: JaxprEqn) -> bool:
    """Return True if a gather or a scatter over devices is not along the first dimension.

    Dimensions of size 1 do not count. The blocks of devices have to be contiguous, so XLA copies
    the result of such a gather, and the operand of such a scatter, into another order.
    """
    kind = kind_of(eqn)
    if kind not in (Kind.GATHER, Kind.SCATTER):
        return False
    whole = (eqn.outvars if kind is Kind.GATHER else eqn.invars)[0]
    return any(size > 1 for size in aval_of(whole).shape[: dimension_of(eqn)])


def what_it_does(eqn: JaxprEqn) -> tuple[Hashable, ...]:
    """Return a key that is equal for equations that do the same thing, apart from their operands.

    The variance of values is ignored, because XLA has no such notion.
    """
    params = tuple(
        (name, eqn.params[name]) for name in sorted(eqn.params) if eqn.params[name] is not None
    )
    return eqn.primitive.name.removesuffix("_invariant"), params


def largest_result(jaxpr: Jaxpr) -> int:
    """Return the number of elements of the largest array that a jaxpr computes.

    The results of a loop may be stacked, so only those of an iteration count.
    """
    largest = 0
    for eqn in jaxpr.eqns:
        inner = called_in_steps(eqn)
        bodies = [*bodies_of(eqn)] if inner is None else [inner]
        for body in bodies:
            largest = max(largest, largest_result(open_jaxpr(body)))
        if not bodies:
            shapes = (getattr(var.aval, "shape", ()) for var in eqn.outvars)
            largest = max(largest, *map(math.prod, shapes), 0)
    return largest


def flops_of(eqn: JaxprEqn) -> float:
    """Return the floating-point operations of an equation; a multiply-add counts as two."""
    flops = facts(eqn).flops
    if callable(flops):
        return flops(eqn)
    return flops * sum(math.prod(getattr(var.aval, "shape", ())) for var in eqn.outvars)


def factorizes_one(eqn: JaxprEqn) -> bool:
    """Return True if an equation factorizes a single matrix: no axis is left to divide it by."""
    return facts(eqn).is_factorization and aval_of(eqn.invars[0]).ndim == 2
