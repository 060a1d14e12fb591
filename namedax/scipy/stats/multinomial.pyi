# Written by tools/stubs.py (make stubs) with JAX 0.10.2. Do not edit.
"""`jax.scipy.stats.multinomial` for named arrays."""

from typing import overload

import jax
import jax.typing

from namedax.core.annotations import ArrayLike
from namedax.core.array import NamedArray
from namedax.core.results import PlainArray

@overload
def logpmf(x: NamedArray, n: ArrayLike, p: ArrayLike) -> NamedArray:
    """Multinomial log probability mass function."""
@overload
def logpmf(x: ArrayLike, n: NamedArray, p: ArrayLike) -> NamedArray: ...
@overload
def logpmf(x: ArrayLike, n: ArrayLike, p: NamedArray) -> NamedArray: ...
@overload
def logpmf(x: PlainArray, n: jax.typing.ArrayLike, p: jax.typing.ArrayLike) -> PlainArray: ...
@overload
def logpmf(
    x: jax.typing.ArrayLike, n: jax.typing.ArrayLike, p: jax.typing.ArrayLike,
) -> jax.Array:
    """Multinomial log probability mass function."""
@overload
def pmf(x: NamedArray, n: ArrayLike, p: ArrayLike) -> NamedArray:
    """Multinomial probability mass function."""
@overload
def pmf(x: ArrayLike, n: NamedArray, p: ArrayLike) -> NamedArray: ...
@overload
def pmf(x: ArrayLike, n: ArrayLike, p: NamedArray) -> NamedArray: ...
@overload
def pmf(x: PlainArray, n: jax.typing.ArrayLike, p: jax.typing.ArrayLike) -> PlainArray: ...
@overload
def pmf(x: jax.typing.ArrayLike, n: jax.typing.ArrayLike, p: jax.typing.ArrayLike) -> jax.Array:
    """Multinomial probability mass function."""
