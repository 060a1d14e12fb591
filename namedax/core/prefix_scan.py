"""Prefix scans whose programs keep no arrays of size zero for the gradient.

`lax.associative_scan`, which is also the derivative of `lax.cumprod`, `cummax` and `cummin`,
combines parts without elements. If a `shard_map` keeps one for the gradient, JAX 0.11 ends the
process while it compiles the program.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
from jax import lax

__all__ = ["NEEDS_RULE", "prefix_scan", "with_scan_rule"]

#: True if the cumulative functions of this JAX do not compile with their own derivatives.
NEEDS_RULE = (0, 11) <= jax.__version_info__ < (0, 12)


def prefix_scan(
    combine: Callable[[Any, Any], Any], data: Any, *, axis: int = 0, reverse: bool = False
) -> Any:
    """Apply `lax.associative_scan` without combining parts that have no elements."""

    def combine_some(a: Any, b: Any) -> Any:
        is_empty = any(leaf.shape[axis] == 0 for leaf in jax.tree.leaves(a))
        return b if is_empty else combine(a, b)

    return lax.associative_scan(combine_some, data, axis=axis, reverse=reverse)


def with_scan_rule(
    scan: Callable[..., Any], combine: Callable[[Any, Any], Any]
) -> Callable[..., Any]:
    """Return a cumulative function of JAX with the derivative of a prefix scan by `combine`."""

    def scanned(data: jax.Array, *, axis: int, reverse: bool = False) -> jax.Array:
        composed = functools.partial(prefix_scan, combine, axis=axis, reverse=reverse)

        @jax.custom_jvp
        def run(data: jax.Array) -> Any:
            return scan(data, axis=axis, reverse=reverse)

        @run.defjvp
        def _jvp(primals: tuple[Any], tangents: tuple[Any]) -> tuple[Any, Any]:
            return jax.jvp(composed, primals, tangents)

        return run(data)

    return scanned
