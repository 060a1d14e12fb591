# Written by tools/stubs.py (make stubs) with JAX 0.10.2. Do not edit.
"""`jax.scipy.stats.uniform` for named arrays."""

from typing import overload

import jax
import jax.typing

from namedax.core.annotations import ArrayLike
from namedax.core.array import NamedArray

@overload
def cdf(x: NamedArray, loc: ArrayLike = 0, scale: ArrayLike = 1) -> NamedArray:
    """Uniform cumulative distribution function."""
@overload
def cdf(x: jax.typing.ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> jax.Array:
    """Uniform cumulative distribution function."""
@overload
def logpdf(x: NamedArray, loc: ArrayLike = 0, scale: ArrayLike = 1) -> NamedArray:
    """Uniform log probability distribution function."""
@overload
def logpdf(x: jax.typing.ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> jax.Array:
    """Uniform log probability distribution function."""
@overload
def pdf(x: NamedArray, loc: ArrayLike = 0, scale: ArrayLike = 1) -> NamedArray:
    """Uniform probability distribution function."""
@overload
def pdf(x: jax.typing.ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> jax.Array:
    """Uniform probability distribution function."""
@overload
def ppf(q: NamedArray, loc: ArrayLike = 0, scale: ArrayLike = 1) -> NamedArray:
    """Uniform distribution percent point function."""
@overload
def ppf(q: jax.typing.ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> jax.Array:
    """Uniform distribution percent point function."""
