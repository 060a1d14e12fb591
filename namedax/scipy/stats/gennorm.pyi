# Written by tools/stubs.py (make stubs) with JAX 0.10.2. Do not edit.
"""`jax.scipy.stats.gennorm` for named arrays."""

from typing import overload

import jax
import jax.typing

from namedax.core.annotations import ArrayLike
from namedax.core.array import NamedArray
from namedax.core.results import PlainArray

@overload
def cdf(x: NamedArray, beta: ArrayLike) -> NamedArray:
    """Generalized normal cumulative distribution function."""
@overload
def cdf(x: ArrayLike, beta: NamedArray) -> NamedArray: ...
@overload
def cdf(x: PlainArray, beta: jax.typing.ArrayLike) -> PlainArray: ...
@overload
def cdf(x: jax.typing.ArrayLike, beta: jax.typing.ArrayLike) -> jax.Array:
    """Generalized normal cumulative distribution function."""
@overload
def logpdf(x: NamedArray, beta: ArrayLike) -> NamedArray:
    """Generalized normal log probability distribution function."""
@overload
def logpdf(x: ArrayLike, beta: NamedArray) -> NamedArray: ...
@overload
def logpdf(x: PlainArray, beta: jax.typing.ArrayLike) -> PlainArray: ...
@overload
def logpdf(x: jax.typing.ArrayLike, beta: jax.typing.ArrayLike) -> jax.Array:
    """Generalized normal log probability distribution function."""
@overload
def pdf(x: NamedArray, beta: ArrayLike) -> NamedArray:
    """Generalized normal probability distribution function."""
@overload
def pdf(x: ArrayLike, beta: NamedArray) -> NamedArray: ...
@overload
def pdf(x: PlainArray, beta: jax.typing.ArrayLike) -> PlainArray: ...
@overload
def pdf(x: jax.typing.ArrayLike, beta: jax.typing.ArrayLike) -> jax.Array:
    """Generalized normal probability distribution function."""
