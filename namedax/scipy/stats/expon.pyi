# Written by tools/stubs.py (make stubs) with JAX 0.10.2. Do not edit.
"""`jax.scipy.stats.expon` for named arrays."""

from typing import overload

import jax
import jax.typing

from namedax.core.annotations import ArrayLike
from namedax.core.array import NamedArray

@overload
def cdf(x: NamedArray, loc: ArrayLike = 0, scale: ArrayLike = 1) -> NamedArray:
    """Exponential cumulative density function."""
@overload
def cdf(x: jax.typing.ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> jax.Array:
    """Exponential cumulative density function."""
@overload
def logcdf(x: NamedArray, loc: ArrayLike = 0, scale: ArrayLike = 1) -> NamedArray:
    """Exponential log cumulative density function."""
@overload
def logcdf(x: jax.typing.ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> jax.Array:
    """Exponential log cumulative density function."""
@overload
def logpdf(x: NamedArray, loc: ArrayLike = 0, scale: ArrayLike = 1) -> NamedArray:
    """Exponential log probability distribution function."""
@overload
def logpdf(x: jax.typing.ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> jax.Array:
    """Exponential log probability distribution function."""
@overload
def logsf(x: NamedArray, loc: ArrayLike = 0, scale: ArrayLike = 1) -> NamedArray:
    """Exponential log survival function."""
@overload
def logsf(x: jax.typing.ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> jax.Array:
    """Exponential log survival function."""
@overload
def pdf(x: NamedArray, loc: ArrayLike = 0, scale: ArrayLike = 1) -> NamedArray:
    """Exponential probability distribution function."""
@overload
def pdf(x: jax.typing.ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> jax.Array:
    """Exponential probability distribution function."""
@overload
def ppf(q: NamedArray, loc: ArrayLike = 0, scale: ArrayLike = 1) -> NamedArray:
    """Exponential percent point function."""
@overload
def ppf(q: jax.typing.ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> jax.Array:
    """Exponential percent point function."""
@overload
def sf(x: NamedArray, loc: ArrayLike = 0, scale: ArrayLike = 1) -> NamedArray:
    """Exponential survival function."""
@overload
def sf(x: jax.typing.ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> jax.Array:
    """Exponential survival function."""
