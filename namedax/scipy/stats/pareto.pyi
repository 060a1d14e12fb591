# Written by tools/stubs.py (make stubs) with JAX 0.12.0.1. Do not edit.
"""`jax.scipy.stats.pareto` for named arrays."""

import jax

from namedax.core.annotations import ArrayLike

def cdf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> jax.Array:
    """Pareto cumulative distribution function."""
def logcdf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> jax.Array:
    """Pareto log cumulative distribution function."""
def logpdf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> jax.Array:
    """Pareto log probability distribution function."""
def logsf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> jax.Array:
    """Pareto log survival function."""
def pdf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> jax.Array:
    """Pareto probability distribution function."""
def ppf(q: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> jax.Array:
    """Pareto percent point function (inverse CDF)."""
def sf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> jax.Array:
    """Pareto survival function."""
