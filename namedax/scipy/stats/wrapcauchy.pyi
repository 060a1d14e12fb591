# Written by tools/stubs.py (make stubs) with JAX 0.12.0.1. Do not edit.
"""`jax.scipy.stats.wrapcauchy` for named arrays."""

import jax

from namedax.core.annotations import ArrayLike

def logpdf(x: ArrayLike, c: ArrayLike) -> jax.Array:
    """Wrapped Cauchy log probability distribution function."""
def pdf(x: ArrayLike, c: ArrayLike) -> jax.Array:
    """Wrapped Cauchy probability distribution function."""
