# Written by tools/stubs.py (make stubs) with JAX 0.10.2. Do not edit.
"""`jax.scipy.stats.multivariate_normal` for named arrays."""

from typing import overload

import jax
import jax.typing

from namedax.core.annotations import ArrayLike
from namedax.core.array import NamedArray
from namedax.core.results import PlainArray

def logpdf(
    x: ArrayLike, mean: ArrayLike, cov: ArrayLike, allow_singular: None = None,
) -> ArrayLike:
    """Multivariate normal log probability distribution function."""
@overload
def pdf(x: NamedArray, mean: ArrayLike, cov: ArrayLike) -> NamedArray:
    """Multivariate normal probability distribution function."""
@overload
def pdf(x: ArrayLike, mean: NamedArray, cov: ArrayLike) -> NamedArray: ...
@overload
def pdf(x: ArrayLike, mean: ArrayLike, cov: NamedArray) -> NamedArray: ...
@overload
def pdf(x: PlainArray, mean: jax.typing.ArrayLike, cov: jax.typing.ArrayLike) -> PlainArray: ...
@overload
def pdf(
    x: jax.typing.ArrayLike, mean: jax.typing.ArrayLike, cov: jax.typing.ArrayLike,
) -> jax.Array:
    """Multivariate normal probability distribution function."""
