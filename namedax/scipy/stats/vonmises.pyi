# Written by tools/stubs.py (make stubs) with JAX 0.12.0.1. Do not edit.
"""`jax.scipy.stats.vonmises` for named arrays."""

import jax

from namedax.core.annotations import ArrayLike

def logpdf(x: ArrayLike, kappa: ArrayLike) -> jax.Array:
    """von Mises log probability distribution function."""
def pdf(x: ArrayLike, kappa: ArrayLike) -> jax.Array:
    """von Mises probability distribution function."""
