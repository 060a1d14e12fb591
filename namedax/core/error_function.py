"""Error functions whose derivatives work in mapped functions.

JAX 0.12 computes the derivatives of `erf` and `erfc` with a primitive that rejects the combination
of constants with operands that vary over mesh axes (`Primitive polynomial requires varying manual
axes to match`). So it cannot differentiate them within a `jax.shard_map`, nor the exact GELU. These
functions have the values of JAX's, and derivatives in closed form in every version of JAX.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from namedax.core.element_types import as_inexact

__all__ = ["gelu", "with_derivative"]

Elementwise = Callable[[jax.Array], jax.Array]


def _given(derivative: Elementwise, function: Elementwise) -> Elementwise:
    """Return the function, with this derivative."""
    ruled = jax.custom_jvp(function)

    @ruled.defjvp
    def _jvp(primals: tuple[jax.Array], tangents: tuple[jax.Array]) -> tuple[jax.Array, jax.Array]:
        return ruled(*primals), tangents[0] * derivative(*primals)

    return ruled


def _bell(x: jax.Array) -> jax.Array:
    return jnp.exp(-lax.square(x)) * (2 / math.sqrt(math.pi))


def _density(x: jax.Array) -> jax.Array:
    return jnp.exp(-0.5 * lax.square(x)) * (1 / math.sqrt(2 * math.pi))


_erf = _given(_bell, lax.erf)
_erfc = _given(lambda x: -_bell(x), lax.erfc)
_exact_gelu = _given(
    lambda x: 0.5 * _erfc(-x * math.sqrt(0.5)) + x * _density(x),
    functools.partial(jax.nn.gelu, approximate=False),
)


@functools.cache
def _ruled() -> dict[Callable[..., Any], Elementwise]:
    from jax.scipy import special  # when a function is lifted, since its import takes a while

    ndtr = _given(_density, special.ndtr)
    return {
        lax.erf: _erf,
        lax.erfc: _erfc,
        special.erf: _erf,
        special.erfc: _erfc,
        special.ndtr: ndtr,
    }


def with_derivative(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the version of a function of JAX whose derivative works in mapped functions.

    It is `function` itself unless this is an error function.
    """
    if getattr(function, "__name__", "") not in ("erf", "erfc", "ndtr"):
        return function
    ruled = _ruled().get(function)
    if ruled is None:
        return function

    @functools.wraps(function)
    def call(x: Any) -> Any:
        dtype = getattr(x, "dtype", None)  # numbers of Python have no derivative
        if dtype is None or not jnp.issubdtype(dtype, jnp.number):
            return function(x)
        return ruled(as_inexact(jnp.asarray(x)))

    return call


@functools.wraps(jax.nn.gelu, updated=())
def gelu(x: jax.Array, approximate: bool = True) -> jax.Array:  # noqa: D103  (JAX's docstring)
    if approximate or not jnp.issubdtype(jnp.result_type(x), jnp.floating):
        return jax.nn.gelu(x, approximate)
    return _exact_gelu(jnp.asarray(x))
