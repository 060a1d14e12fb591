"""Axes that are JAX's own: those that a user's `jax.shard_map` or `jax.vmap(axis_name=...)` has bound."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from jax import lax

from namedax.core.call_errors import refuse_miscall
from namedax.core.region import ambient
from namedax.operands.axes import holds_names

__all__ = ["or_of_jax"]


def or_of_jax(theirs: Callable[..., Any], own: Callable[..., Any]) -> Callable[..., Any]:
    """A collective over names that goes to JAX's own where the axes are JAX's: in a user's `jax.shard_map` or `jax.vmap(axis_name=...)`.

    A mesh axis of a mapped function is not an axis of JAX's in this sense, since the values there
    are blocks.
    """

    @functools.wraps(own)
    def collective(*args: Any, **kwargs: Any) -> Any:
        if not holds_names([*args, *kwargs.values()]) and _all_bound(args, kwargs):
            return theirs(*args, **kwargs)
        try:
            return own(*args, **kwargs)
        except Exception as error:
            refuse_miscall(own.__name__, own, args, kwargs, error)
            raise

    place = 0 if theirs in (lax.axis_index, lax.axis_size) else 1

    def _all_bound(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        axis_name = kwargs.get("axis_name", args[place] if len(args) > place else None)
        names = axis_name if isinstance(axis_name, (tuple, list)) else (axis_name,)
        return bool(names) and all(_is_bound(name) for name in names)

    return collective


def _is_bound(name: Any) -> bool:
    region = ambient()
    if region is not None and (
        name in region.sizes or (region.mesh is not None and name in region.mesh.axis_names)
    ):
        return False
    try:
        lax.axis_size(name)
    except (NameError, KeyError, TypeError, ValueError):
        return False
    return True
