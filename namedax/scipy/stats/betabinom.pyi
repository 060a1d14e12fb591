# Written by tools/stubs.py (make stubs) with JAX 0.10.2. Do not edit.
"""`jax.scipy.stats.betabinom` for named arrays."""

from typing import overload

import jax
import jax.typing

from namedax.core.annotations import ArrayLike
from namedax.core.array import NamedArray

@overload
def logpmf(
    k: NamedArray, n: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0,
) -> NamedArray:
    """Beta-binomial log probability mass function."""
@overload
def logpmf(
    k: ArrayLike, n: NamedArray, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0,
) -> NamedArray: ...
@overload
def logpmf(
    k: ArrayLike, n: ArrayLike, a: NamedArray, b: ArrayLike, loc: ArrayLike = 0,
) -> NamedArray: ...
@overload
def logpmf(
    k: jax.typing.ArrayLike,
    n: jax.typing.ArrayLike,
    a: jax.typing.ArrayLike,
    b: ArrayLike,
    loc: ArrayLike = 0,
) -> jax.Array:
    """Beta-binomial log probability mass function."""
@overload
def pmf(
    k: NamedArray, n: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0,
) -> NamedArray:
    """Beta-binomial probability mass function."""
@overload
def pmf(
    k: ArrayLike, n: NamedArray, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0,
) -> NamedArray: ...
@overload
def pmf(
    k: ArrayLike, n: ArrayLike, a: NamedArray, b: ArrayLike, loc: ArrayLike = 0,
) -> NamedArray: ...
@overload
def pmf(
    k: jax.typing.ArrayLike,
    n: jax.typing.ArrayLike,
    a: jax.typing.ArrayLike,
    b: ArrayLike,
    loc: ArrayLike = 0,
) -> jax.Array:
    """Beta-binomial probability mass function."""
