"""Records of elementwise primitives."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import jax
import jax.numpy as jnp
from jax import lax
from jax.extend.core import JaxprEqn

from namedax.core.error_function import with_derivative
from namedax.core.placement_marks import PLACED
from namedax.core.user_code import LEAF
from namedax.core.variance import cast_data
from namedax.primitives.record import (
    Algebra,
    Fusion,
    Kind,
    OfBlocks,
    Primitive,
    aval_of,
    axes_in,
    is_inexact,
    records,
)
from namedax.resources.padding import MASK_COTANGENT, ZERO_COTANGENT

__all__ = ["COPY", "RECORDS"]

#: The primitive that copies an array from one memory to another, or between devices.
COPY = "device_put"


def _product(eqn: JaxprEqn, operand: int) -> bool:
    # For floats, `p * s` may be infinite where `(p + q) * s` is finite, NaN (0 * inf) where it is
    # infinite, or finite where `p + q` is not.
    return not is_inexact(eqn.outvars[0].aval)


def _conversion(eqn: JaxprEqn, operand: int) -> bool:
    # Conversion to integers rounds, conversion to booleans compares, integers of a narrow type have
    # wrapped around, and a narrow float overflows.
    before, after = aval_of(eqn.invars[operand]).dtype, aval_of(eqn.outvars[0]).dtype
    if jnp.issubdtype(before, jnp.inexact) or jnp.issubdtype(after, jnp.inexact):
        both = jnp.issubdtype(before, jnp.inexact) and jnp.issubdtype(after, jnp.inexact)
        return bool(both and jnp.finfo(after).max >= jnp.finfo(before).max)
    return bool(
        jnp.issubdtype(before, jnp.integer)
        and jnp.issubdtype(after, jnp.integer)
        and after.itemsize <= before.itemsize
    )


def _cast(eqn: JaxprEqn, values: Sequence[jax.Array], shape: Sequence[int]) -> jax.Array:
    return cast_data(values[0], frozenset(axes_in(eqn.params) or ()))


def _unchanged(
    eqn: JaxprEqn, values: Sequence[jax.Array], shape: Sequence[int], layouts: object
) -> jax.Array:
    return values[0]  # axis names place values, and nothing else


def _with_derivative(function: Callable[..., jax.Array]) -> OfBlocks:
    return lambda eqn, values, shape, layouts: with_derivative(function)(values[0])


_CHEAP = Primitive(is_elementwise=True, in_blocks=True, fusion=Fusion.CHEAP)
_EXPENSIVE = _CHEAP.replace(fusion=Fusion.EXPENSIVE)
_FREE = _CHEAP.replace(flops=0)
_VIEW = _FREE.replace(fusion=Fusion.VIEW)
_ONE, _EITHER, _BOTH = ((0,),), ((0,), (1,)), ((0, 1),)

RECORDS: Mapping[str, Primitive] = {
    **records(
        "abs ceil clamp clz complex conj eq eq_to floor ge gt imag integer_pow is_finite le le_to"
        " lt_to ne nextafter not one_minus_square population_count real reduce_precision round"
        " shift_left shift_right_arithmetic shift_right_logical sign square xor",
        _CHEAP,
    ),
    **records(
        "acos acosh asin asinh atan atan2 atanh cbrt cos cosh digamma erf_inv exp exp2"
        " expm1 lgamma log log1p log2 logistic polynomial pow rem rsqrt sin sinh sqrt tan tanh",
        _EXPENSIVE,
    ),
    # In blocks, with derivatives that work there.
    "erf": _EXPENSIVE.replace(of_blocks=_with_derivative(lax.erf)),
    "erfc": _EXPENSIVE.replace(of_blocks=_with_derivative(lax.erfc)),
    # XLA computes these in loops, or in programs of their own.
    **records(
        "bessel_i0e bessel_i1e igamma igamma_grad_a igammac polygamma regularized_incomplete_beta"
        " zeta",
        _CHEAP.replace(fusion=Fusion.WRITTEN),
    ),
    **records("and max min or", _CHEAP.replace(is_idempotent=True)),
    "neg": _CHEAP.replace(linear=_ONE),
    "add": _CHEAP.replace(linear=_BOTH, algebra=Algebra.SUM),
    "add_any": _CHEAP.replace(linear=_BOTH, algebra=Algebra.SUM),
    "sub": _CHEAP.replace(linear=_BOTH, algebra=Algebra.DIFFERENCE),
    "mul": _CHEAP.replace(linear=_EITHER, when=_product, scales=(0, 1), algebra=Algebra.PRODUCT),
    # Division is not linear: it rounds integers, and floats behave as in products.
    "div": _EXPENSIVE.replace(scales=(0,)),
    "select_n": _CHEAP.replace(linear=((1, ...),), algebra=Algebra.CHOICE),
    "lt": _CHEAP.replace(algebra=Algebra.LESS),
    "convert_element_type": _FREE.replace(
        linear=_ONE, when=_conversion, is_exact=False, algebra=Algebra.SAME, moves=True
    ),
    # Identities.
    "stop_gradient": _FREE,
    "copy": _VIEW.replace(linear=_ONE, moves=True),
    "pvary": _VIEW.replace(
        kind=Kind.CAST, parameters=("axes",), linear=_ONE, algebra=Algebra.SAME, in_blocks=_cast
    ),
    # A value that a user names for jax.checkpoint is stored complete: a saved summand would be
    # summed again in the backward pass.
    "name": _FREE.replace(kind=Kind.NAME, parameters=("name",)),
    LEAF.name: _FREE.replace(linear=_ONE, algebra=Algebra.SAME),
    PLACED.name: _FREE.replace(kind=Kind.PLACEMENT, parameters=("layout",), in_blocks=None),
    # Identities with parameters or operands that depend on the shape or the placement.
    MASK_COTANGENT.name: _FREE.replace(linear=_ONE, algebra=Algebra.SAME, in_blocks=None),
    ZERO_COTANGENT.name: _FREE.replace(linear=_ONE, algebra=Algebra.SAME, in_blocks=None),
    COPY: Primitive(is_elementwise=True),
    "sharding_constraint": _VIEW.replace(
        kind=Kind.CONSTRAINT, parameters=("sharding",), in_blocks=None, of_blocks=_unchanged
    ),
    "reshard": _VIEW.replace(in_blocks=None, of_blocks=_unchanged),
}
