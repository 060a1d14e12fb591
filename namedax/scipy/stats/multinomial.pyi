# Written by tools/stubs.py (make stubs) with JAX 0.12.0.1. Do not edit.
"""`jax.scipy.stats.multinomial` for named arrays."""

import jax

from namedax.core.annotations import ArrayLike

def logpmf(x: ArrayLike, n: ArrayLike, p: ArrayLike) -> jax.Array:
    """Multinomial log probability mass function."""
def pmf(x: ArrayLike, n: ArrayLike, p: ArrayLike) -> jax.Array:
    """Multinomial probability mass function."""
