# Written by tools/stubs.py (make stubs) with JAX 0.10.2. Do not edit.
"""`jax.scipy.stats.chi2` for named arrays."""

from typing import overload

import jax
import jax.typing

from namedax.core.annotations import ArrayLike
from namedax.core.array import NamedArray

@overload
def cdf(x: NamedArray, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> NamedArray:
    """Chi-square cumulative distribution function."""
@overload
def cdf(x: ArrayLike, df: NamedArray, loc: ArrayLike = 0, scale: ArrayLike = 1) -> NamedArray: ...
@overload
def cdf(
    x: jax.typing.ArrayLike, df: jax.typing.ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1,
) -> jax.Array:
    """Chi-square cumulative distribution function."""
@overload
def logcdf(
    x: NamedArray, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1,
) -> NamedArray:
    """Chi-square log cumulative distribution function."""
@overload
def logcdf(
    x: ArrayLike, df: NamedArray, loc: ArrayLike = 0, scale: ArrayLike = 1,
) -> NamedArray: ...
@overload
def logcdf(
    x: jax.typing.ArrayLike, df: jax.typing.ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1,
) -> jax.Array:
    """Chi-square log cumulative distribution function."""
@overload
def logpdf(
    x: NamedArray, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1,
) -> NamedArray:
    """Chi-square log probability distribution function."""
@overload
def logpdf(
    x: ArrayLike, df: NamedArray, loc: ArrayLike = 0, scale: ArrayLike = 1,
) -> NamedArray: ...
@overload
def logpdf(
    x: jax.typing.ArrayLike, df: jax.typing.ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1,
) -> jax.Array:
    """Chi-square log probability distribution function."""
@overload
def logsf(x: NamedArray, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> NamedArray:
    """Chi-square log survival function."""
@overload
def logsf(x: ArrayLike, df: NamedArray, loc: ArrayLike = 0, scale: ArrayLike = 1) -> NamedArray: ...
@overload
def logsf(
    x: jax.typing.ArrayLike, df: jax.typing.ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1,
) -> jax.Array:
    """Chi-square log survival function."""
@overload
def pdf(x: NamedArray, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> NamedArray:
    """Chi-square probability distribution function."""
@overload
def pdf(x: ArrayLike, df: NamedArray, loc: ArrayLike = 0, scale: ArrayLike = 1) -> NamedArray: ...
@overload
def pdf(
    x: jax.typing.ArrayLike, df: jax.typing.ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1,
) -> jax.Array:
    """Chi-square probability distribution function."""
@overload
def sf(x: NamedArray, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> NamedArray:
    """Chi-square survival function."""
@overload
def sf(x: ArrayLike, df: NamedArray, loc: ArrayLike = 0, scale: ArrayLike = 1) -> NamedArray: ...
@overload
def sf(
    x: jax.typing.ArrayLike, df: jax.typing.ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1,
) -> jax.Array:
    """Chi-square survival function."""
