# Written by tools/stubs.py (make stubs) with JAX 0.12.0.1. Do not edit.
"""`jax.scipy.stats.poisson` for named arrays."""

import jax

from namedax.core.annotations import ArrayLike

def cdf(k: ArrayLike, mu: ArrayLike, loc: ArrayLike = 0) -> jax.Array:
    """Poisson cumulative distribution function."""
def entropy(mu: ArrayLike, loc: ArrayLike = 0) -> jax.Array:
    """Shannon entropy of the Poisson distribution."""
def logpmf(k: ArrayLike, mu: ArrayLike, loc: ArrayLike = 0) -> jax.Array:
    """Poisson log probability mass function."""
def pmf(k: ArrayLike, mu: ArrayLike, loc: ArrayLike = 0) -> jax.Array:
    """Poisson probability mass function."""
