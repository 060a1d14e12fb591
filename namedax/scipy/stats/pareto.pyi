# Written by tools/stubs.py (make stubs) with JAX 0.10.2. Do not edit.
"""`jax.scipy.stats.pareto` for named arrays."""

from typing import overload

import jax
import jax.typing

from namedax.core.annotations import ArrayLike
from namedax.core.array import NamedArray

@overload
def cdf(x: NamedArray, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> NamedArray:
    """Pareto cumulative distribution function."""
@overload
def cdf(x: ArrayLike, b: NamedArray, loc: ArrayLike = 0, scale: ArrayLike = 1) -> NamedArray: ...
@overload
def cdf(
    x: jax.typing.ArrayLike, b: jax.typing.ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1,
) -> jax.Array:
    """Pareto cumulative distribution function."""
@overload
def logcdf(x: NamedArray, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> NamedArray:
    """Pareto log cumulative distribution function."""
@overload
def logcdf(x: ArrayLike, b: NamedArray, loc: ArrayLike = 0, scale: ArrayLike = 1) -> NamedArray: ...
@overload
def logcdf(
    x: jax.typing.ArrayLike, b: jax.typing.ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1,
) -> jax.Array:
    """Pareto log cumulative distribution function."""
@overload
def logpdf(x: NamedArray, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> NamedArray:
    """Pareto log probability distribution function."""
@overload
def logpdf(x: ArrayLike, b: NamedArray, loc: ArrayLike = 0, scale: ArrayLike = 1) -> NamedArray: ...
@overload
def logpdf(
    x: jax.typing.ArrayLike, b: jax.typing.ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1,
) -> jax.Array:
    """Pareto log probability distribution function."""
@overload
def logsf(x: NamedArray, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> NamedArray:
    """Pareto log survival function."""
@overload
def logsf(x: ArrayLike, b: NamedArray, loc: ArrayLike = 0, scale: ArrayLike = 1) -> NamedArray: ...
@overload
def logsf(
    x: jax.typing.ArrayLike, b: jax.typing.ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1,
) -> jax.Array:
    """Pareto log survival function."""
@overload
def pdf(x: NamedArray, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> NamedArray:
    """Pareto probability distribution function."""
@overload
def pdf(x: ArrayLike, b: NamedArray, loc: ArrayLike = 0, scale: ArrayLike = 1) -> NamedArray: ...
@overload
def pdf(
    x: jax.typing.ArrayLike, b: jax.typing.ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1,
) -> jax.Array:
    """Pareto probability distribution function."""
@overload
def ppf(q: NamedArray, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> NamedArray:
    """Pareto percent point function (inverse CDF)."""
@overload
def ppf(q: ArrayLike, b: NamedArray, loc: ArrayLike = 0, scale: ArrayLike = 1) -> NamedArray: ...
@overload
def ppf(
    q: jax.typing.ArrayLike, b: jax.typing.ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1,
) -> jax.Array:
    """Pareto percent point function (inverse CDF)."""
@overload
def sf(x: NamedArray, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> NamedArray:
    """Pareto survival function."""
@overload
def sf(x: ArrayLike, b: NamedArray, loc: ArrayLike = 0, scale: ArrayLike = 1) -> NamedArray: ...
@overload
def sf(
    x: jax.typing.ArrayLike, b: jax.typing.ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1,
) -> jax.Array:
    """Pareto survival function."""
