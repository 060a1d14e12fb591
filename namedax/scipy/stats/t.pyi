# Written by tools/stubs.py (make stubs) with JAX 0.10.2. Do not edit.
"""`jax.scipy.stats.t` for named arrays."""

from typing import overload

import jax
import jax.typing

from namedax.core.annotations import ArrayLike
from namedax.core.array import NamedArray

@overload
def logpdf(
    x: NamedArray, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1,
) -> NamedArray:
    """Student's T log probability distribution function."""
@overload
def logpdf(
    x: ArrayLike, df: NamedArray, loc: ArrayLike = 0, scale: ArrayLike = 1,
) -> NamedArray: ...
@overload
def logpdf(
    x: jax.typing.ArrayLike, df: jax.typing.ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1,
) -> jax.Array:
    """Student's T log probability distribution function."""
@overload
def pdf(x: NamedArray, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> NamedArray:
    """Student's T probability distribution function."""
@overload
def pdf(x: ArrayLike, df: NamedArray, loc: ArrayLike = 0, scale: ArrayLike = 1) -> NamedArray: ...
@overload
def pdf(
    x: jax.typing.ArrayLike, df: jax.typing.ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1,
) -> jax.Array:
    """Student's T probability distribution function."""
