# Written by tools/stubs.py (make stubs) with JAX 0.10.2. Do not edit.
"""`jax.scipy.stats.wrapcauchy` for named arrays."""

from typing import overload

import jax
import jax.typing

from namedax.core.annotations import ArrayLike
from namedax.core.array import NamedArray
from namedax.core.results import PlainArray

@overload
def logpdf(x: NamedArray, c: ArrayLike) -> NamedArray:
    """Wrapped Cauchy log probability distribution function."""
@overload
def logpdf(x: ArrayLike, c: NamedArray) -> NamedArray: ...
@overload
def logpdf(x: PlainArray, c: jax.typing.ArrayLike) -> PlainArray: ...
@overload
def logpdf(x: jax.typing.ArrayLike, c: jax.typing.ArrayLike) -> jax.Array:
    """Wrapped Cauchy log probability distribution function."""
@overload
def pdf(x: NamedArray, c: ArrayLike) -> NamedArray:
    """Wrapped Cauchy probability distribution function."""
@overload
def pdf(x: ArrayLike, c: NamedArray) -> NamedArray: ...
@overload
def pdf(x: PlainArray, c: jax.typing.ArrayLike) -> PlainArray: ...
@overload
def pdf(x: jax.typing.ArrayLike, c: jax.typing.ArrayLike) -> jax.Array:
    """Wrapped Cauchy probability distribution function."""
