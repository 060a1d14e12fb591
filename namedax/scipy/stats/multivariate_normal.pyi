# Written by tools/stubs.py (make stubs) with JAX 0.12.0.1. Do not edit.
"""`jax.scipy.stats.multivariate_normal` for named arrays."""

import jax

from namedax.core.annotations import ArrayLike

def logpdf(x: ArrayLike, mean: ArrayLike, cov: ArrayLike, allow_singular: None = None) -> ArrayLike:
    """Multivariate normal log probability distribution function."""
def pdf(x: ArrayLike, mean: ArrayLike, cov: ArrayLike) -> jax.Array:
    """Multivariate normal probability distribution function."""
