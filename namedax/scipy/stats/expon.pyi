# Written by tools/stubs.py (make stubs) with JAX 0.12.0.1. Do not edit.
"""`jax.scipy.stats.expon` for named arrays."""

import jax

from namedax.core.annotations import ArrayLike

def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> jax.Array:
    """Exponential cumulative density function."""
def logcdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> jax.Array:
    """Exponential log cumulative density function."""
def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> jax.Array:
    """Exponential log probability distribution function."""
def logsf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> jax.Array:
    """Exponential log survival function."""
def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> jax.Array:
    """Exponential probability distribution function."""
def ppf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> jax.Array:
    """Exponential percent point function."""
def sf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> jax.Array:
    """Exponential survival function."""
