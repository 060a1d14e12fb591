# Written by tools/stubs.py (make stubs) with JAX 0.12.0.1. Do not edit.
"""`jax.scipy.stats.bernoulli` for named arrays."""

import jax

from namedax.core.annotations import ArrayLike

def cdf(k: ArrayLike, p: ArrayLike) -> jax.Array:
    """Bernoulli cumulative distribution function."""
def logpmf(k: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> jax.Array:
    """Bernoulli log probability mass function."""
def pmf(k: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> jax.Array:
    """Bernoulli probability mass function."""
def ppf(q: ArrayLike, p: ArrayLike) -> jax.Array:
    """Bernoulli percent point function."""
