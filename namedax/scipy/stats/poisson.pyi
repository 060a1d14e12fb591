# Written by tools/stubs.py (make stubs) with JAX 0.10.2. Do not edit.
"""`jax.scipy.stats.poisson` for named arrays."""

from typing import overload

import jax
import jax.typing

from namedax.core.annotations import ArrayLike
from namedax.core.array import NamedArray

@overload
def cdf(k: NamedArray, mu: ArrayLike, loc: ArrayLike = 0) -> NamedArray:
    """Poisson cumulative distribution function."""
@overload
def cdf(k: ArrayLike, mu: NamedArray, loc: ArrayLike = 0) -> NamedArray: ...
@overload
def cdf(k: jax.typing.ArrayLike, mu: jax.typing.ArrayLike, loc: ArrayLike = 0) -> jax.Array:
    """Poisson cumulative distribution function."""
@overload
def entropy(mu: NamedArray, loc: ArrayLike = 0) -> NamedArray:
    """Shannon entropy of the Poisson distribution."""
@overload
def entropy(mu: jax.typing.ArrayLike, loc: ArrayLike = 0) -> jax.Array:
    """Shannon entropy of the Poisson distribution."""
@overload
def logpmf(k: NamedArray, mu: ArrayLike, loc: ArrayLike = 0) -> NamedArray:
    """Poisson log probability mass function."""
@overload
def logpmf(k: ArrayLike, mu: NamedArray, loc: ArrayLike = 0) -> NamedArray: ...
@overload
def logpmf(k: jax.typing.ArrayLike, mu: jax.typing.ArrayLike, loc: ArrayLike = 0) -> jax.Array:
    """Poisson log probability mass function."""
@overload
def pmf(k: NamedArray, mu: ArrayLike, loc: ArrayLike = 0) -> NamedArray:
    """Poisson probability mass function."""
@overload
def pmf(k: ArrayLike, mu: NamedArray, loc: ArrayLike = 0) -> NamedArray: ...
@overload
def pmf(k: jax.typing.ArrayLike, mu: jax.typing.ArrayLike, loc: ArrayLike = 0) -> jax.Array:
    """Poisson probability mass function."""
