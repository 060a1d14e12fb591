# Written by tools/stubs.py (make stubs) with JAX 0.10.2. Do not edit.
"""`jax.scipy.stats.dirichlet` for named arrays."""

from typing import overload

import jax
import jax.typing

from namedax.core.annotations import ArrayLike
from namedax.core.array import NamedArray
from namedax.core.results import PlainArray

@overload
def logpdf(x: NamedArray, alpha: ArrayLike) -> NamedArray:
    """Dirichlet log probability distribution function."""
@overload
def logpdf(x: ArrayLike, alpha: NamedArray) -> NamedArray: ...
@overload
def logpdf(x: PlainArray, alpha: jax.typing.ArrayLike) -> PlainArray: ...
@overload
def logpdf(x: jax.typing.ArrayLike, alpha: jax.typing.ArrayLike) -> jax.Array:
    """Dirichlet log probability distribution function."""
@overload
def pdf(x: NamedArray, alpha: ArrayLike) -> NamedArray:
    """Dirichlet probability distribution function."""
@overload
def pdf(x: ArrayLike, alpha: NamedArray) -> NamedArray: ...
@overload
def pdf(x: PlainArray, alpha: jax.typing.ArrayLike) -> PlainArray: ...
@overload
def pdf(x: jax.typing.ArrayLike, alpha: jax.typing.ArrayLike) -> jax.Array:
    """Dirichlet probability distribution function."""
