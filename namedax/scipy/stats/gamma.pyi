# Written by tools/stubs.py (make stubs) with JAX 0.10.2. Do not edit.
"""`jax.scipy.stats.gamma` for named arrays."""

from typing import overload

import jax
import jax.typing

from namedax.core.annotations import ArrayLike
from namedax.core.array import NamedArray

@overload
def cdf(x: NamedArray, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> NamedArray:
    """Gamma cumulative distribution function."""
@overload
def cdf(x: ArrayLike, a: NamedArray, loc: ArrayLike = 0, scale: ArrayLike = 1) -> NamedArray: ...
@overload
def cdf(
    x: jax.typing.ArrayLike, a: jax.typing.ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1,
) -> jax.Array:
    """Gamma cumulative distribution function."""
@overload
def logcdf(x: NamedArray, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> NamedArray:
    """Gamma log cumulative distribution function."""
@overload
def logcdf(x: ArrayLike, a: NamedArray, loc: ArrayLike = 0, scale: ArrayLike = 1) -> NamedArray: ...
@overload
def logcdf(
    x: jax.typing.ArrayLike, a: jax.typing.ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1,
) -> jax.Array:
    """Gamma log cumulative distribution function."""
@overload
def logpdf(x: NamedArray, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> NamedArray:
    """Gamma log probability distribution function."""
@overload
def logpdf(x: ArrayLike, a: NamedArray, loc: ArrayLike = 0, scale: ArrayLike = 1) -> NamedArray: ...
@overload
def logpdf(
    x: jax.typing.ArrayLike, a: jax.typing.ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1,
) -> jax.Array:
    """Gamma log probability distribution function."""
@overload
def logsf(x: NamedArray, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> NamedArray:
    """Gamma log survival function."""
@overload
def logsf(x: ArrayLike, a: NamedArray, loc: ArrayLike = 0, scale: ArrayLike = 1) -> NamedArray: ...
@overload
def logsf(
    x: jax.typing.ArrayLike, a: jax.typing.ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1,
) -> jax.Array:
    """Gamma log survival function."""
@overload
def pdf(x: NamedArray, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> NamedArray:
    """Gamma probability distribution function."""
@overload
def pdf(x: ArrayLike, a: NamedArray, loc: ArrayLike = 0, scale: ArrayLike = 1) -> NamedArray: ...
@overload
def pdf(
    x: jax.typing.ArrayLike, a: jax.typing.ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1,
) -> jax.Array:
    """Gamma probability distribution function."""
@overload
def sf(x: NamedArray, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> NamedArray:
    """Gamma survival function."""
@overload
def sf(x: ArrayLike, a: NamedArray, loc: ArrayLike = 0, scale: ArrayLike = 1) -> NamedArray: ...
@overload
def sf(
    x: jax.typing.ArrayLike, a: jax.typing.ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1,
) -> jax.Array:
    """Gamma survival function."""
