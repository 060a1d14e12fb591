"""The arguments of a compiled program, on its devices, for several calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from namedax.core.names import PyTree
from namedax.core.records import Record

__all__ = ["PlacedArguments", "place"]


class PlacedArguments(Record):
    """The leaves of placed arguments, and which of them a call consumes."""

    leaves: list[PyTree]
    donated: list[bool]
    tree: Any

    def for_call(self) -> tuple[Sequence[PyTree], Mapping[str, PyTree]]:
        """Return positional and keyword arguments, with copies of those that a call consumes."""
        given = [
            jnp.copy(leaf) if is_donated else leaf
            for leaf, is_donated in zip(self.leaves, self.donated, strict=True)
        ]
        args, kwargs = jax.tree.unflatten(self.tree, jax.block_until_ready(given))
        return args, kwargs


def place(
    compiled: jax.stages.Compiled,
    args: Sequence[PyTree],
    kwargs: Mapping[str, PyTree],
    element: int,
) -> PlacedArguments:
    """Place the arguments of a compiled program.

    Args:
      compiled: the program.
      args: its arguments without the static ones: arrays or types.
      kwargs: its keyword arguments, with the same rule.
      element: the number in the arrays that replace types. PRNG keys are those of 0.
    """
    leaves, tree = jax.tree.flatten((tuple(args), dict(kwargs)))
    # An argument that the program does not use has no sharding.
    shardings = jax.tree.leaves(compiled.input_shardings, is_leaf=lambda one: one is None)
    arrays = [_array(leaf, element) for leaf in leaves]
    placed = [
        leaf if sharding is None else jax.device_put(leaf, sharding)
        for leaf, sharding in zip(arrays, shardings, strict=True)
    ]
    donated = [info.donated for info in jax.tree.leaves(compiled.args_info)]
    return PlacedArguments(placed, donated, tree)


def _array(leaf: PyTree, element: int) -> PyTree:
    """Return an array for a type, and other leaves as they are."""
    if not isinstance(leaf, jax.ShapeDtypeStruct):
        return leaf
    if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return jnp.broadcast_to(jax.random.key(0), leaf.shape)
    return jnp.full(leaf.shape, element, leaf.dtype)
