# Written by tools/stubs.py (make stubs) with JAX 0.12.0.1. Do not edit.
"""`jax.scipy.stats.geom` for named arrays."""

import jax

from namedax.core.annotations import ArrayLike

def logpmf(k: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> jax.Array:
    """Geometric log probability mass function."""
def pmf(k: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> jax.Array:
    """Geometric probability mass function."""
