# Written by tools/stubs.py (make stubs) with JAX 0.12.0.1. Do not edit.
"""`jax.scipy.stats.binom` for named arrays."""

import jax

from namedax.core.annotations import ArrayLike

def logpmf(k: ArrayLike, n: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> jax.Array:
    """Binomial log probability mass function."""
def pmf(k: ArrayLike, n: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> jax.Array:
    """Binomial probability mass function."""
