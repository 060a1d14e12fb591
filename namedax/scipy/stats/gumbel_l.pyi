# Written by tools/stubs.py (make stubs) with JAX 0.10.2. Do not edit.
"""`jax.scipy.stats.gumbel_l` for named arrays."""

from typing import overload

import jax
import jax.typing

from namedax.core.annotations import ArrayLike
from namedax.core.array import NamedArray

@overload
def cdf(x: NamedArray, loc: ArrayLike = 0, scale: ArrayLike = 1) -> NamedArray:
    """Gumbel Distribution (Left Skewed) cumulative density function."""
@overload
def cdf(x: jax.typing.ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> jax.Array:
    """Gumbel Distribution (Left Skewed) cumulative density function."""
@overload
def logcdf(x: NamedArray, loc: ArrayLike = 0, scale: ArrayLike = 1) -> NamedArray:
    """Gumbel Distribution (Left Skewed) log cumulative density function."""
@overload
def logcdf(x: jax.typing.ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> jax.Array:
    """Gumbel Distribution (Left Skewed) log cumulative density function."""
@overload
def logpdf(x: NamedArray, loc: ArrayLike = 0, scale: ArrayLike = 1) -> NamedArray:
    """Gumbel Distribution (Left Skewed) log probability distribution function."""
@overload
def logpdf(x: jax.typing.ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> jax.Array:
    """Gumbel Distribution (Left Skewed) log probability distribution function."""
@overload
def logsf(x: NamedArray, loc: ArrayLike = 0, scale: ArrayLike = 1) -> NamedArray:
    """Gumbel Distribution (Left Skewed) log survival function."""
@overload
def logsf(x: jax.typing.ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> jax.Array:
    """Gumbel Distribution (Left Skewed) log survival function."""
@overload
def pdf(x: NamedArray, loc: ArrayLike = 0, scale: ArrayLike = 1) -> NamedArray:
    """Gumbel Distribution (Left Skewed) probability distribution function."""
@overload
def pdf(x: jax.typing.ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> jax.Array:
    """Gumbel Distribution (Left Skewed) probability distribution function."""
@overload
def ppf(p: NamedArray, loc: ArrayLike = 0, scale: ArrayLike = 1) -> NamedArray:
    """Gumbel Distribution (Left Skewed) percent point function (inverse of CDF)."""
@overload
def ppf(p: jax.typing.ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> jax.Array:
    """Gumbel Distribution (Left Skewed) percent point function (inverse of CDF)."""
@overload
def sf(x: NamedArray, loc: ArrayLike = 0, scale: ArrayLike = 1) -> NamedArray:
    """Gumbel Distribution (Left Skewed) survival function."""
@overload
def sf(x: jax.typing.ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> jax.Array:
    """Gumbel Distribution (Left Skewed) survival function."""
