"""Bodies of mapped functions that are traced on global shapes, and then partitioned."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr

from namedax.core.array import NamedArray, dims_of, is_named
from namedax.core.names import Dims, PyTree
from namedax.core.region import Region, enter
from namedax.ops.operands.broadcasting import make_result
from namedax.primitives.partition import Block, in_layout
from namedax.programs.partitioner import partition
from namedax.programs.raw_collective_check import refuse_raw
from namedax.resources.layout import Layout
from namedax.resources.mesh import without_explicit_axes

__all__ = ["run_partitioned"]


def run_partitioned(
    function: Callable[[Region, Sequence[jax.Array]], PyTree],
    blocks: Sequence[jax.Array],
    all_dims: Sequence[Dims],
    region: Region,
    name: str,
) -> PyTree:
    """Trace a body on global shapes, evaluate it on blocks, and return its results in blocks.

    Args:
      function: the body, as a function of a region for a trace on global shapes, and of the global
        data of its arguments.
      blocks: the blocks of the arguments.
      all_dims: their dims.
      region: the region of the blocks.
      name: the name of the user's function, for messages.
    """
    on_global_shapes = region.on_global_shapes()
    made: list[Any] = []

    @contextlib.contextmanager
    def tracing() -> Iterator[None]:
        with enter(on_global_shapes), without_explicit_axes():
            yield

    def traced(*values: jax.Array) -> list[jax.Array]:
        leaves, tree = jax.tree.flatten(function(on_global_shapes, values), is_leaf=is_named)
        made[:] = [tree, [dims_of(leaf) for leaf in leaves]]
        return [leaf._data if type(leaf) is NamedArray else jnp.asarray(leaf) for leaf in leaves]

    types = [
        _global_type(block, dims, region) for block, dims in zip(blocks, all_dims, strict=True)
    ]
    with tracing():
        closed = jax.make_jaxpr(traced)(*types)
    tree, result_dims = made
    for dims, kind in zip(result_dims, closed.out_avals, strict=True):
        for dim, n in zip(dims, kind.shape, strict=True):
            if dim in region.resources:  # raises if the call has to begin again with this size
                region.block_size(dim, n, "xmap", supports_padding=True)

    def check(closed: ClosedJaxpr) -> None:
        refuse_raw(closed, region.resources, name, reductions=False, is_global=True)

    operands = [
        Block(block, _layout(dims, region)) for block, dims in zip(blocks, all_dims, strict=True)
    ]
    results = partition(closed, operands, tracing, check)
    leaves = [
        make_result(in_layout(result, _layout(dims, region)).value, dims)
        for result, dims in zip(results, result_dims, strict=True)
    ]
    return jax.tree.unflatten(tree, leaves)


def _global_type(block: jax.Array, dims: Dims, region: Region) -> jax.ShapeDtypeStruct:
    shape = tuple(
        n if dim is None else region.sizes[dim] for n, dim in zip(block.shape, dims, strict=True)
    )
    return jax.ShapeDtypeStruct(shape, block.dtype, weak_type=jax.typeof(block).weak_type)


def _layout(dims: Dims, region: Region) -> Layout:
    return tuple(() if dim is None else region.place(dim) for dim in dims)
