# Written by tools/stubs.py (make stubs) with JAX 0.10.2. Do not edit.
"""`jax.scipy.stats.nbinom` for named arrays."""

from typing import overload

import jax
import jax.typing

from namedax.core.annotations import ArrayLike
from namedax.core.array import NamedArray

@overload
def logpmf(k: NamedArray, n: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> NamedArray:
    """Negative-binomial log probability mass function."""
@overload
def logpmf(k: ArrayLike, n: NamedArray, p: ArrayLike, loc: ArrayLike = 0) -> NamedArray: ...
@overload
def logpmf(k: ArrayLike, n: ArrayLike, p: NamedArray, loc: ArrayLike = 0) -> NamedArray: ...
@overload
def logpmf(
    k: jax.typing.ArrayLike,
    n: jax.typing.ArrayLike,
    p: jax.typing.ArrayLike,
    loc: ArrayLike = 0,
) -> jax.Array:
    """Negative-binomial log probability mass function."""
@overload
def pmf(k: NamedArray, n: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> NamedArray:
    """Negative-binomial probability mass function."""
@overload
def pmf(k: ArrayLike, n: NamedArray, p: ArrayLike, loc: ArrayLike = 0) -> NamedArray: ...
@overload
def pmf(k: ArrayLike, n: ArrayLike, p: NamedArray, loc: ArrayLike = 0) -> NamedArray: ...
@overload
def pmf(
    k: jax.typing.ArrayLike,
    n: jax.typing.ArrayLike,
    p: jax.typing.ArrayLike,
    loc: ArrayLike = 0,
) -> jax.Array:
    """Negative-binomial probability mass function."""
