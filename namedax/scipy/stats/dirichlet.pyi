# Written by tools/stubs.py (make stubs) with JAX 0.12.0.1. Do not edit.
"""`jax.scipy.stats.dirichlet` for named arrays."""

import jax

from namedax.core.annotations import ArrayLike

def logpdf(x: ArrayLike, alpha: ArrayLike) -> jax.Array:
    """Dirichlet log probability distribution function."""
def pdf(x: ArrayLike, alpha: ArrayLike) -> jax.Array:
    """Dirichlet probability distribution function."""
