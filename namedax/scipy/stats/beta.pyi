# Written by tools/stubs.py (make stubs) with JAX 0.10.2. Do not edit.
"""`jax.scipy.stats.beta` for named arrays."""

from typing import overload

import jax
import jax.typing

from namedax.core.annotations import ArrayLike
from namedax.core.array import NamedArray

@overload
def cdf(
    x: NamedArray, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1,
) -> NamedArray:
    """Beta cumulative distribution function."""
@overload
def cdf(
    x: ArrayLike, a: NamedArray, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1,
) -> NamedArray: ...
@overload
def cdf(
    x: ArrayLike, a: ArrayLike, b: NamedArray, loc: ArrayLike = 0, scale: ArrayLike = 1,
) -> NamedArray: ...
@overload
def cdf(
    x: jax.typing.ArrayLike,
    a: jax.typing.ArrayLike,
    b: jax.typing.ArrayLike,
    loc: ArrayLike = 0,
    scale: ArrayLike = 1,
) -> jax.Array:
    """Beta cumulative distribution function."""
@overload
def logcdf(
    x: NamedArray, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1,
) -> NamedArray:
    """Beta log cumulative distribution function."""
@overload
def logcdf(
    x: ArrayLike, a: NamedArray, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1,
) -> NamedArray: ...
@overload
def logcdf(
    x: ArrayLike, a: ArrayLike, b: NamedArray, loc: ArrayLike = 0, scale: ArrayLike = 1,
) -> NamedArray: ...
@overload
def logcdf(
    x: jax.typing.ArrayLike,
    a: jax.typing.ArrayLike,
    b: jax.typing.ArrayLike,
    loc: ArrayLike = 0,
    scale: ArrayLike = 1,
) -> jax.Array:
    """Beta log cumulative distribution function."""
@overload
def logpdf(
    x: NamedArray, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1,
) -> NamedArray:
    """Beta log probability distribution function."""
@overload
def logpdf(
    x: ArrayLike, a: NamedArray, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1,
) -> NamedArray: ...
@overload
def logpdf(
    x: ArrayLike, a: ArrayLike, b: NamedArray, loc: ArrayLike = 0, scale: ArrayLike = 1,
) -> NamedArray: ...
@overload
def logpdf(
    x: jax.typing.ArrayLike,
    a: jax.typing.ArrayLike,
    b: jax.typing.ArrayLike,
    loc: ArrayLike = 0,
    scale: ArrayLike = 1,
) -> jax.Array:
    """Beta log probability distribution function."""
@overload
def logsf(
    x: NamedArray, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1,
) -> NamedArray:
    """Beta distribution log survival function."""
@overload
def logsf(
    x: ArrayLike, a: NamedArray, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1,
) -> NamedArray: ...
@overload
def logsf(
    x: ArrayLike, a: ArrayLike, b: NamedArray, loc: ArrayLike = 0, scale: ArrayLike = 1,
) -> NamedArray: ...
@overload
def logsf(
    x: jax.typing.ArrayLike,
    a: jax.typing.ArrayLike,
    b: jax.typing.ArrayLike,
    loc: ArrayLike = 0,
    scale: ArrayLike = 1,
) -> jax.Array:
    """Beta distribution log survival function."""
@overload
def pdf(
    x: NamedArray, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1,
) -> NamedArray:
    """Beta probability distribution function."""
@overload
def pdf(
    x: ArrayLike, a: NamedArray, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1,
) -> NamedArray: ...
@overload
def pdf(
    x: ArrayLike, a: ArrayLike, b: NamedArray, loc: ArrayLike = 0, scale: ArrayLike = 1,
) -> NamedArray: ...
@overload
def pdf(
    x: jax.typing.ArrayLike,
    a: jax.typing.ArrayLike,
    b: jax.typing.ArrayLike,
    loc: ArrayLike = 0,
    scale: ArrayLike = 1,
) -> jax.Array:
    """Beta probability distribution function."""
@overload
def sf(
    x: NamedArray, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1,
) -> NamedArray:
    """Beta distribution survival function."""
@overload
def sf(
    x: ArrayLike, a: NamedArray, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1,
) -> NamedArray: ...
@overload
def sf(
    x: ArrayLike, a: ArrayLike, b: NamedArray, loc: ArrayLike = 0, scale: ArrayLike = 1,
) -> NamedArray: ...
@overload
def sf(
    x: jax.typing.ArrayLike,
    a: jax.typing.ArrayLike,
    b: jax.typing.ArrayLike,
    loc: ArrayLike = 0,
    scale: ArrayLike = 1,
) -> jax.Array:
    """Beta distribution survival function."""
