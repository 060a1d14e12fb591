"""How long a step really takes, on devices that are there."""

from __future__ import annotations

import time
from typing import Any

import jax
import jax.numpy as jnp

from namedax.xmap import Xmapped, dynamic_arguments

__all__ = ["measured"]

_RUNS, _ENOUGH = 8, 0.5


def measured(form: Xmapped, args: Any, kwargs: Any, types: tuple[Any, Any] | None = None) -> float:
    """The seconds of a step when it is compiled and its arguments lie where it wants them: the shortest of several.

    Other programs of the machine can only make it longer.

    Args:
      form: the mapped function; its mesh has devices.
      args: arrays or types; instead of types ones are taken.
      kwargs: likewise.
      types: of the arguments and keyword arguments, if theirs are those of another mesh.
    """
    positional, keyword = types or (args, kwargs)
    compiled = form.lower(*positional, **keyword).compile()
    given = jax.tree.map(_array, dynamic_arguments(form, args, kwargs))
    leaves, tree = jax.tree.flatten(given)
    placed = jax.tree.unflatten(tree, jax.device_put(leaves, jax.tree.leaves(compiled.input_shardings)))
    times: list[float] = []
    jax.block_until_ready(compiled(*placed[0], **placed[1]))
    while len(times) < _RUNS or (sum(times) < _ENOUGH and len(times) < 100):
        began = time.perf_counter()
        jax.block_until_ready(compiled(*placed[0], **placed[1]))
        times.append(time.perf_counter() - began)
    return min(times)


def _array(leaf: Any) -> Any:
    return jnp.ones(leaf.shape, leaf.dtype) if isinstance(leaf, jax.ShapeDtypeStruct) else leaf
