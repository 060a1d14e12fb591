# Written by tools/stubs.py (make stubs) with JAX 0.10.2. Do not edit.
"""`jax.scipy.stats.truncnorm` for named arrays."""

from namedax.core.names import PyTree

def cdf(x: object, a: object, b: object, loc: object = 0, scale: object = 1) -> PyTree:
    """Truncated normal cumulative distribution function."""
def logcdf(x: object, a: object, b: object, loc: object = 0, scale: object = 1) -> PyTree:
    """Truncated normal log cumulative distribution function."""
def logpdf(x: object, a: object, b: object, loc: object = 0, scale: object = 1) -> PyTree:
    """Truncated normal log probability distribution function."""
def logsf(x: object, a: object, b: object, loc: object = 0, scale: object = 1) -> PyTree:
    """Truncated normal distribution log survival function."""
def pdf(x: object, a: object, b: object, loc: object = 0, scale: object = 1) -> PyTree:
    """Truncated normal probability distribution function."""
def sf(x: object, a: object, b: object, loc: object = 0, scale: object = 1) -> PyTree:
    """Truncated normal distribution survival function."""
