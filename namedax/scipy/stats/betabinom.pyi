# Written by tools/stubs.py (make stubs) with JAX 0.12.0.1. Do not edit.
"""`jax.scipy.stats.betabinom` for named arrays."""

import jax

from namedax.core.annotations import ArrayLike

def logpmf(k: ArrayLike, n: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0) -> jax.Array:
    """Beta-binomial log probability mass function."""
def pmf(k: ArrayLike, n: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0) -> jax.Array:
    """Beta-binomial probability mass function."""
