# Written by tools/stubs.py (make stubs) with JAX 0.10.2. Do not edit.
"""`jax.scipy.stats.logistic` for named arrays."""

from typing import overload

import jax
import jax.typing

from namedax.core.annotations import ArrayLike
from namedax.core.array import NamedArray

@overload
def cdf(x: NamedArray, loc: ArrayLike = 0, scale: ArrayLike = 1) -> NamedArray:
    """Logistic cumulative distribution function."""
@overload
def cdf(x: jax.typing.ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> jax.Array:
    """Logistic cumulative distribution function."""
@overload
def isf(x: NamedArray, loc: ArrayLike = 0, scale: ArrayLike = 1) -> NamedArray:
    """Logistic distribution inverse survival function."""
@overload
def isf(x: jax.typing.ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> jax.Array:
    """Logistic distribution inverse survival function."""
@overload
def logpdf(x: NamedArray, loc: ArrayLike = 0, scale: ArrayLike = 1) -> NamedArray:
    """Logistic log probability distribution function."""
@overload
def logpdf(x: jax.typing.ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> jax.Array:
    """Logistic log probability distribution function."""
@overload
def pdf(x: NamedArray, loc: ArrayLike = 0, scale: ArrayLike = 1) -> NamedArray:
    """Logistic probability distribution function."""
@overload
def pdf(x: jax.typing.ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> jax.Array:
    """Logistic probability distribution function."""
@overload
def ppf(x: NamedArray, loc: ArrayLike = 0, scale: ArrayLike = 1) -> NamedArray:
    """Logistic distribution percent point function."""
@overload
def ppf(x: jax.typing.ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> jax.Array:
    """Logistic distribution percent point function."""
@overload
def sf(x: NamedArray, loc: ArrayLike = 0, scale: ArrayLike = 1) -> NamedArray:
    """Logistic distribution survival function."""
@overload
def sf(x: jax.typing.ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> jax.Array:
    """Logistic distribution survival function."""
