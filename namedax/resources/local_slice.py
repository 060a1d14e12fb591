"""A primitive that selects this device's block of a replicated value.

Its transpose is an all-gather.

JAX transposes a local slice to a psum of the zero-padded slice, which takes twice the bytes of an
all-gather of the slices. A pass over the jaxpr can replace only gradients that the body itself
computes. The transpose rule of a primitive also applies to gradients outside the body. The
primitive uses only public JAX: `jax.extend.core.Primitive` and the rules of `jax.interpreters`.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Sequence
from typing import Any

import jax
from jax import lax
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from namedax.core.types import MeshAxes
from namedax.core.variance import cast_data, varying, varying_of
from namedax.resources.microbatches import count_along, index_along

__all__ = ["PRIMITIVE", "emptied", "own_block", "sliced"]


def sliced(data: Any, dim: int, axes: MeshAxes) -> Any:
    """Slice this device's block along `dim` from a value replicated over `axes`, with JAX's own operations."""
    size, index = data.shape[dim] // count_along(axes), index_along(axes)
    return lax.dynamic_slice_in_dim(cast_data(data, varying(index)), index * size, size, dim)


def emptied(data: Any, axes: Collection[str]) -> Any:
    """Return an empty array with the shape and dtype of `data`, which is empty, that varies over `axes` only."""
    return cast_data(lax.empty(data.shape, data.dtype), axes)


def own_block(data: Any, dim: int, axes: MeshAxes) -> Any:
    """Slice this device's block like `sliced`, but with an all-gather as the transpose.

    The value must not vary over `axes`, and `jax.shard_map` must map all of `axes`.
    """
    return PRIMITIVE.bind(data, dim=dim, axes=axes)


PRIMITIVE = Primitive("device_block")


def _type(aval: Any, *, dim: int, axes: MeshAxes) -> Any:
    return jax.make_jaxpr(functools.partial(sliced, dim=dim, axes=axes))(aval).out_avals[0]


def _transpose(block: Any, operand: Any, *, dim: int, axes: MeshAxes) -> list[Any]:
    if type(block) is ad.Zero:
        return [ad.Zero(operand.aval)]
    if varying_of(operand.aval).isdisjoint(axes):
        if block.shape[dim] == 0:
            return [emptied(block, varying(block).difference(axes))]
        return [lax.all_gather(block, axes, axis=dim, tiled=True, to="invarying")]
    # A transformation has made the operand varying: each device has its own gradient.
    (whole,) = jax.linear_transpose(functools.partial(sliced, dim=dim, axes=axes), operand.aval)(
        block
    )
    return [whole]


def _batch(
    operands: Sequence[Any], batched: Sequence[int], *, dim: int, axes: MeshAxes
) -> tuple[Any, int]:
    (data,), (at,) = operands, batched
    return own_block(data, dim + (at <= dim), axes), at


PRIMITIVE.def_abstract_eval(_type)
PRIMITIVE.def_impl(sliced)
ad.deflinear2(PRIMITIVE, _transpose)
batching.primitive_batchers[PRIMITIVE] = _batch
mlir.register_lowering(PRIMITIVE, mlir.lower_fun(sliced, multiple_results=False))
