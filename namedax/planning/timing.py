"""Measurement of a step on the available devices."""

from __future__ import annotations

import time
from typing import Any

import jax
import jax.numpy as jnp

from namedax.xmap import Xmapped, dynamic_arguments

__all__ = ["measured"]

_RUNS, _ENOUGH = 8, 0.5


def measured(form: Xmapped, args: Any, kwargs: Any, types: tuple[Any, Any] | None = None) -> float:
    """Return the seconds of a compiled step with its arguments already placed: the minimum of several runs.

    The minimum is used because other programs on the machine can only increase the time.

    Args:
      form: the mapped function; its mesh has devices.
      args: arrays or types; types are replaced by arrays of ones.
      kwargs: keyword arguments, with the same rule.
      types: the types of the arguments and keyword arguments, if those of `args` and `kwargs` belong to another mesh. Default:
        `None`.
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
