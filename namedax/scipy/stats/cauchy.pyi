# Written by tools/stubs.py (make stubs) with JAX 0.10.2. Do not edit.
"""`jax.scipy.stats.cauchy` for named arrays."""

from typing import overload

import jax
import jax.typing

from namedax.core.annotations import ArrayLike
from namedax.core.array import NamedArray

@overload
def cdf(x: NamedArray, loc: ArrayLike = 0, scale: ArrayLike = 1) -> NamedArray:
    """Cauchy cumulative distribution function."""
@overload
def cdf(x: jax.typing.ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> jax.Array:
    """Cauchy cumulative distribution function."""
@overload
def isf(q: NamedArray, loc: ArrayLike = 0, scale: ArrayLike = 1) -> NamedArray:
    """Cauchy distribution inverse survival function."""
@overload
def isf(q: jax.typing.ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> jax.Array:
    """Cauchy distribution inverse survival function."""
@overload
def logcdf(x: NamedArray, loc: ArrayLike = 0, scale: ArrayLike = 1) -> NamedArray:
    """Cauchy log cumulative distribution function."""
@overload
def logcdf(x: jax.typing.ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> jax.Array:
    """Cauchy log cumulative distribution function."""
@overload
def logpdf(x: NamedArray, loc: ArrayLike = 0, scale: ArrayLike = 1) -> NamedArray:
    """Cauchy log probability distribution function."""
@overload
def logpdf(x: jax.typing.ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> jax.Array:
    """Cauchy log probability distribution function."""
@overload
def logsf(x: NamedArray, loc: ArrayLike = 0, scale: ArrayLike = 1) -> NamedArray:
    """Cauchy distribution log survival function."""
@overload
def logsf(x: jax.typing.ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> jax.Array:
    """Cauchy distribution log survival function."""
@overload
def pdf(x: NamedArray, loc: ArrayLike = 0, scale: ArrayLike = 1) -> NamedArray:
    """Cauchy probability distribution function."""
@overload
def pdf(x: jax.typing.ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> jax.Array:
    """Cauchy probability distribution function."""
@overload
def ppf(q: NamedArray, loc: ArrayLike = 0, scale: ArrayLike = 1) -> NamedArray:
    """Cauchy distribution percent point function."""
@overload
def ppf(q: jax.typing.ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> jax.Array:
    """Cauchy distribution percent point function."""
@overload
def sf(x: NamedArray, loc: ArrayLike = 0, scale: ArrayLike = 1) -> NamedArray:
    """Cauchy distribution log survival function."""
@overload
def sf(x: jax.typing.ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> jax.Array:
    """Cauchy distribution log survival function."""
