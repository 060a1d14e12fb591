"""Whole rounds by one program of XLA, if both layouts have the same devices in the same order.

XLA chooses the collectives: an all-to-all or a permutation where each device needs a part of the
blocks of others. The compiled program is compared with the plan. A program that sends more, or
needs more memory than the limit, is not used if the arrays can move piece by piece.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax
from jax.sharding import NamedSharding

from namedax.core.records import Record
from namedax.hlo import collectives
from namedax.resources.mesh import auto_mesh

__all__ = ["Program", "compile_round", "on_auto_axes", "reshard"]


class Program(Record):
    """A compiled program that moves some arrays.

    Attributes:
      compiled: the compiled program.
      wire_bytes: the bytes that one device sends, by the collectives of the program.
      temporary: the bytes of temporary memory on a device.
    """

    compiled: jax.stages.Compiled
    wire_bytes: int
    temporary: int


def on_auto_axes(sharding: NamedSharding) -> NamedSharding:
    """Return the sharding with Auto mesh axes.

    A program can mix those of several meshes.
    """
    return NamedSharding(auto_mesh(sharding.mesh), sharding.spec)


def compile_round(
    types: Sequence[jax.ShapeDtypeStruct],
    sources: Sequence[NamedSharding],
    targets: Sequence[NamedSharding],
) -> Program:
    """Compile the program that reshards some arrays.

    Args:
      types: their stored shapes and dtypes.
      sources: their shardings before.
      targets: their shardings after.
    """
    given = [
        jax.ShapeDtypeStruct(t.shape, t.dtype, sharding=on_auto_axes(s))
        for t, s in zip(types, sources, strict=True)
    ]
    out = [on_auto_axes(sharding) for sharding in targets]
    compiled = jax.jit(_same, out_shardings=out).lower(given).compile()
    memory = compiled.memory_analysis()
    temporary = int(memory.temp_size_in_bytes) if memory is not None else 0
    return Program(compiled, sum(c.wire_bytes for c in collectives(compiled)), temporary)


def _same(arrays: list[jax.Array]) -> list[jax.Array]:
    return arrays


def reshard(
    program: Program,
    arrays: Sequence[jax.Array],
    sources: Sequence[NamedSharding],
    targets: Sequence[NamedSharding],
) -> list[jax.Array]:
    """Run a program of `compile_round` on arrays with these shardings."""
    given = [_with(a, on_auto_axes(s)) for a, s in zip(arrays, sources, strict=True)]
    results = program.compiled(given)
    return [_with(new, to) for new, to in zip(results, targets, strict=True)]


def _with(array: jax.Array, sharding: NamedSharding) -> jax.Array:
    """Return an array with an equivalent sharding, in the same memory."""
    if array.sharding == sharding:
        return array
    blocks = [shard.data for shard in array.addressable_shards]
    return jax.make_array_from_single_device_arrays(array.shape, sharding, blocks)
