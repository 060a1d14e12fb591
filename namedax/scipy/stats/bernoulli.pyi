# Written by tools/stubs.py (make stubs) with JAX 0.10.2. Do not edit.
"""`jax.scipy.stats.bernoulli` for named arrays."""

from typing import overload

import jax
import jax.typing

from namedax.core.annotations import ArrayLike
from namedax.core.array import NamedArray
from namedax.core.results import PlainArray

@overload
def cdf(k: NamedArray, p: ArrayLike) -> NamedArray:
    """Bernoulli cumulative distribution function."""
@overload
def cdf(k: ArrayLike, p: NamedArray) -> NamedArray: ...
@overload
def cdf(k: PlainArray, p: jax.typing.ArrayLike) -> PlainArray: ...
@overload
def cdf(k: jax.typing.ArrayLike, p: jax.typing.ArrayLike) -> jax.Array:
    """Bernoulli cumulative distribution function."""
@overload
def logpmf(k: NamedArray, p: ArrayLike, loc: ArrayLike = 0) -> NamedArray:
    """Bernoulli log probability mass function."""
@overload
def logpmf(k: ArrayLike, p: NamedArray, loc: ArrayLike = 0) -> NamedArray: ...
@overload
def logpmf(k: jax.typing.ArrayLike, p: jax.typing.ArrayLike, loc: ArrayLike = 0) -> jax.Array:
    """Bernoulli log probability mass function."""
@overload
def pmf(k: NamedArray, p: ArrayLike, loc: ArrayLike = 0) -> NamedArray:
    """Bernoulli probability mass function."""
@overload
def pmf(k: ArrayLike, p: NamedArray, loc: ArrayLike = 0) -> NamedArray: ...
@overload
def pmf(k: jax.typing.ArrayLike, p: jax.typing.ArrayLike, loc: ArrayLike = 0) -> jax.Array:
    """Bernoulli probability mass function."""
@overload
def ppf(q: NamedArray, p: ArrayLike) -> NamedArray:
    """Bernoulli percent point function."""
@overload
def ppf(q: ArrayLike, p: NamedArray) -> NamedArray: ...
@overload
def ppf(q: PlainArray, p: jax.typing.ArrayLike) -> PlainArray: ...
@overload
def ppf(q: jax.typing.ArrayLike, p: jax.typing.ArrayLike) -> jax.Array:
    """Bernoulli percent point function."""
