"""The block of this device, of a value that all devices have whole: one primitive, whose transpose is an all-gather.

JAX makes of a local slice, transposed, the slice among zeros, summed over the devices: twice the bytes of an all-gather of the
slices, which is what everybody would write. The passes over a program see only gradients that the body itself takes; a
primitive has its transpose wherever it is differentiated. It is made of what JAX documents for primitives of one's own:
`jax.extend.core.Primitive`, and the rules of `jax.interpreters`.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Sequence
from typing import Any

import jax
from jax import lax
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from namedax.core.variance import cast_data, varying, varying_of
from namedax.resources.microbatches import count_along, index_along

__all__ = ["PRIMITIVE", "emptied", "own_block", "sliced"]

Axes = tuple[str, ...]


def sliced(data: Any, dim: int, axes: Axes) -> Any:
    """This device's block along `dim` of a value that all devices along `axes` have whole, in JAX's own operations."""
    size, index = data.shape[dim] // count_along(axes), index_along(axes)
    return lax.dynamic_slice_in_dim(cast_data(data, varying(index)), index * size, size, dim)


def emptied(data: Any, axes: Collection[str]) -> Any:
    """An array without elements, of the type of `data`, which has none, but that it varies over `axes` only."""
    return cast_data(lax.empty(data.shape, data.dtype), axes)


def own_block(data: Any, dim: int, axes: Axes) -> Any:
    """The same, of a value that does not vary over `axes`, all of which `jax.shard_map` maps; its transpose is one all-gather."""
    return PRIMITIVE.bind(data, dim=dim, axes=axes)


PRIMITIVE = Primitive("device_block")


def _type(aval: Any, *, dim: int, axes: Axes) -> Any:
    return jax.make_jaxpr(functools.partial(sliced, dim=dim, axes=axes))(aval).out_avals[0]


def _transpose(block: Any, operand: Any, *, dim: int, axes: Axes) -> list[Any]:
    if type(block) is ad.Zero:
        return [ad.Zero(operand.aval)]
    if varying_of(operand.aval).isdisjoint(axes):
        if block.shape[dim] == 0:
            return [emptied(block, varying(block).difference(axes))]
        return [lax.all_gather(block, axes, axis=dim, tiled=True, to="invarying")]
    # A transformation has made the operand vary: each device has a gradient of its own.
    (whole,) = jax.linear_transpose(functools.partial(sliced, dim=dim, axes=axes), operand.aval)(block)
    return [whole]


def _batch(operands: Sequence[Any], batched: Sequence[int], *, dim: int, axes: Axes) -> tuple[Any, int]:
    (data,), (at,) = operands, batched
    return own_block(data, dim + (at <= dim), axes), at


PRIMITIVE.def_abstract_eval(_type)
PRIMITIVE.def_impl(sliced)
ad.deflinear2(PRIMITIVE, _transpose)
batching.primitive_batchers[PRIMITIVE] = _batch
mlir.register_lowering(PRIMITIVE, mlir.lower_fun(sliced, multiple_results=False))
