"""Records of elementwise primitives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import JaxprEqn

from namedax.core.user_code import LEAF
from namedax.core.variance import cast_data
from namedax.primitives.record import (
    Algebra,
    Fusion,
    Kind,
    Primitive,
    aval_of,
    axes_in,
    is_inexact,
    records,
)
from namedax.resources.padding import MASK_COTANGENT, ZERO_COTANGENT

__all__ = ["RECORDS"]


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


_CHEAP: dict[str, Any] = {"is_elementwise": True, "in_blocks": True, "fusion": Fusion.CHEAP}
_EXPENSIVE = {**_CHEAP, "fusion": Fusion.EXPENSIVE}
_FREE = {**_CHEAP, "flops": 0}
_VIEW = {**_FREE, "fusion": Fusion.VIEW}
_ONE, _EITHER, _BOTH = ((0,),), ((0,), (1,)), ((0, 1),)

RECORDS: Mapping[str, Primitive] = {
    **records(
        "abs ceil clamp clz complex conj eq eq_to floor ge gt imag integer_pow is_finite le le_to"
        " lt_to ne nextafter not one_minus_square population_count real reduce_precision round"
        " shift_left shift_right_arithmetic shift_right_logical sign square xor",
        **_CHEAP,
    ),
    **records(
        "acos acosh asin asinh atan atan2 atanh cbrt cos cosh digamma erf erf_inv erfc exp exp2"
        " expm1 lgamma log log1p log2 logistic pow rem rsqrt sin sinh sqrt tan tanh",
        **_EXPENSIVE,
    ),
    # XLA computes these in loops, or in programs of their own.
    **records(
        "bessel_i0e bessel_i1e igamma igamma_grad_a igammac polygamma regularized_incomplete_beta"
        " zeta",
        is_elementwise=True,
        in_blocks=True,
    ),
    **records("and max min or", **_CHEAP, is_idempotent=True),
    "neg": Primitive(linear=_ONE, **_CHEAP),
    "add": Primitive(linear=_BOTH, algebra=Algebra.SUM, **_CHEAP),
    "add_any": Primitive(linear=_BOTH, algebra=Algebra.SUM, **_CHEAP),
    "sub": Primitive(linear=_BOTH, algebra=Algebra.DIFFERENCE, **_CHEAP),
    "mul": Primitive(
        linear=_EITHER, when=_product, scales=(0, 1), algebra=Algebra.PRODUCT, **_CHEAP
    ),
    # Division is not linear: it rounds integers, and floats behave as in products.
    "div": Primitive(scales=(0,), **_EXPENSIVE),
    "select_n": Primitive(linear=((1, ...),), algebra=Algebra.CHOICE, **_CHEAP),
    "lt": Primitive(algebra=Algebra.LESS, **_CHEAP),
    "convert_element_type": Primitive(
        linear=_ONE, when=_conversion, is_exact=False, algebra=Algebra.SAME, moves=True, **_FREE
    ),
    # Identities.
    "stop_gradient": Primitive(**_FREE),
    "copy": Primitive(linear=_ONE, moves=True, **_VIEW),
    "pvary": Primitive(
        Kind.CAST, ("axes",), _ONE, algebra=Algebra.SAME, **{**_VIEW, "in_blocks": _cast}
    ),
    # A value that a user names for jax.checkpoint is stored complete: a saved summand would be
    # summed again in the backward pass.
    "name": Primitive(Kind.NAME, ("name",), **_FREE),
    LEAF.name: Primitive(linear=_ONE, **_FREE),
    # Identities with parameters or operands that depend on the shape or the placement.
    **records(
        f"{MASK_COTANGENT.name} {ZERO_COTANGENT.name}", linear=_ONE, **{**_FREE, "in_blocks": None}
    ),
    "device_put": Primitive(is_elementwise=True),
    "sharding_constraint": Primitive(
        Kind.CONSTRAINT, ("sharding",), **{**_VIEW, "in_blocks": None}
    ),
    "reshard": Primitive(**{**_VIEW, "in_blocks": None}),
}
