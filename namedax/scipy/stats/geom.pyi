# Written by tools/stubs.py (make stubs) with JAX 0.10.2. Do not edit.
"""`jax.scipy.stats.geom` for named arrays."""

from typing import overload

import jax
import jax.typing

from namedax.core.annotations import ArrayLike
from namedax.core.array import NamedArray

@overload
def logpmf(k: NamedArray, p: ArrayLike, loc: ArrayLike = 0) -> NamedArray:
    """Geometric log probability mass function."""
@overload
def logpmf(k: ArrayLike, p: NamedArray, loc: ArrayLike = 0) -> NamedArray: ...
@overload
def logpmf(k: jax.typing.ArrayLike, p: jax.typing.ArrayLike, loc: ArrayLike = 0) -> jax.Array:
    """Geometric log probability mass function."""
@overload
def pmf(k: NamedArray, p: ArrayLike, loc: ArrayLike = 0) -> NamedArray:
    """Geometric probability mass function."""
@overload
def pmf(k: ArrayLike, p: NamedArray, loc: ArrayLike = 0) -> NamedArray: ...
@overload
def pmf(k: jax.typing.ArrayLike, p: jax.typing.ArrayLike, loc: ArrayLike = 0) -> jax.Array:
    """Geometric probability mass function."""
