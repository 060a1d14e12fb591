# Written by tools/stubs.py (make stubs) with JAX 0.10.2. Do not edit.
"""`jax.scipy.stats.vonmises` for named arrays."""

from typing import overload

import jax
import jax.typing

from namedax.core.annotations import ArrayLike
from namedax.core.array import NamedArray
from namedax.core.results import PlainArray

@overload
def logpdf(x: NamedArray, kappa: ArrayLike) -> NamedArray:
    """Von Mises log probability distribution function."""
@overload
def logpdf(x: ArrayLike, kappa: NamedArray) -> NamedArray: ...
@overload
def logpdf(x: PlainArray, kappa: jax.typing.ArrayLike) -> PlainArray: ...
@overload
def logpdf(x: jax.typing.ArrayLike, kappa: jax.typing.ArrayLike) -> jax.Array:
    """Von Mises log probability distribution function."""
@overload
def pdf(x: NamedArray, kappa: ArrayLike) -> NamedArray:
    """Von Mises probability distribution function."""
@overload
def pdf(x: ArrayLike, kappa: NamedArray) -> NamedArray: ...
@overload
def pdf(x: PlainArray, kappa: jax.typing.ArrayLike) -> PlainArray: ...
@overload
def pdf(x: jax.typing.ArrayLike, kappa: jax.typing.ArrayLike) -> jax.Array:
    """Von Mises probability distribution function."""
