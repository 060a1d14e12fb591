"""Merge adjacent dimensions, also of arrays without elements."""

from __future__ import annotations

import math

import jax

__all__ = ["as_one"]


def as_one(data: jax.Array, at: int, count: int = 2) -> jax.Array:
    """Merge `count` dimensions of `data` into one, from dimension `at` on.

    The size is explicit: to infer it (`reshape(..., -1)`), JAX divides by the other sizes, one of
    which may be 0.
    """
    shape = data.shape
    return data.reshape((*shape[:at], math.prod(shape[at : at + count]), *shape[at + count :]))
