"""Bodies of mapped functions that are traced on global shapes, and then partitioned."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr

from namedax.core.array import NamedArray, dims_of, is_named
from namedax.core.memory_kinds import type_like
from namedax.core.names import Dims, PyTree
from namedax.core.region import Region, ambient, enter
from namedax.core.variance import varying
from namedax.ops.operands.broadcasting import make_result, to_local
from namedax.primitives.partition import Block, in_layout
from namedax.programs.partitioner import partition
from namedax.programs.raw_collective_check import reject_raw

__all__ = ["on_global_shapes", "run_partitioned"]


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
        with enter(on_global_shapes):
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
        reject_raw(closed, region.resources, name, reductions=False, is_global=True)

    operands = [
        Block(block, region.layout(dims)) for block, dims in zip(blocks, all_dims, strict=True)
    ]
    results = partition(closed, operands, tracing, check, _varying_besides(operands))
    leaves = [
        make_result(in_layout(result, region.layout(dims)).value, dims)
        for result, dims in zip(results, result_dims, strict=True)
    ]
    return jax.tree.unflatten(tree, leaves)


def _varying_besides(blocks: Sequence[Block]) -> frozenset[str]:
    """Return the mesh axes over which blocks vary, although their layouts do not have them.

    An operation may have cast them, so that their gradients are summed once.
    """
    return frozenset(
        axis for block in blocks for axis in varying(block.value).difference(*block.layout)
    )


def on_global_shapes(function: Callable[..., PyTree]) -> Callable[..., PyTree]:
    """Wrap a function of the user that an operation calls on blocks: it gets global arrays."""

    @functools.wraps(function, updated=())
    def called(*args: PyTree, **kwargs: PyTree) -> PyTree:
        region = ambient()
        if region is None or not region.manual:
            return function(*args, **kwargs)
        leaves, tree = jax.tree.flatten((args, kwargs), is_leaf=is_named)
        if not any(map(is_named, leaves)):  # such as single elements: nothing is sharded
            return function(*args, **kwargs)
        positions = [
            i for i, leaf in enumerate(leaves) if isinstance(leaf, (NamedArray, jax.Array))
        ]
        arrays = [to_local(leaves[i], "xmap", region) for i in positions]
        all_dims = [dims_of(array) for array in arrays]

        def body(_: Region, datas: Sequence[jax.Array]) -> PyTree:
            given = list(leaves)
            for i, data, dims in zip(positions, datas, all_dims, strict=True):
                given[i] = make_result(data, dims) if is_named(leaves[i]) else data
            global_args, global_kwargs = jax.tree.unflatten(tree, given)
            return function(*global_args, **global_kwargs)

        datas: list[Any] = [array._data if is_named(array) else array for array in arrays]
        return run_partitioned(body, datas, all_dims, region, getattr(function, "__name__", "f"))

    return called


def _global_type(block: jax.Array, dims: Dims, region: Region) -> Any:
    shape = tuple(
        n if dim is None else region.global_size(dim, n)
        for n, dim in zip(block.shape, dims, strict=True)
    )
    return type_like(block, shape)
