# Written by tools/stubs.py (make stubs) with JAX 0.12.0.1. Do not edit.
"""`jax.scipy.stats.gennorm` for named arrays."""

import jax

from namedax.core.annotations import ArrayLike

def cdf(x: ArrayLike, beta: ArrayLike) -> jax.Array:
    """Generalized normal cumulative distribution function."""
def logpdf(x: ArrayLike, beta: ArrayLike) -> jax.Array:
    """Generalized normal log probability distribution function."""
def pdf(x: ArrayLike, beta: ArrayLike) -> jax.Array:
    """Generalized normal probability distribution function."""
