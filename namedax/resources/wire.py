"""`Wire`: the number formats in which collectives send blocks, and their encoding.

A format never adds. A reduce-scatter exchanges encoded blocks, and each device decodes and sums
them in float32. `namedax.resources.narrow` has the collectives.
"""

from __future__ import annotations

import dataclasses
from typing import Literal, get_args

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from namedax.core.display import type_text
from namedax.errors import ArgumentError, ArgumentTypeError, format_value

__all__ = [
    "BLOCK",
    "Encoded",
    "Wire",
    "WireFormat",
    "check_narrow",
    "decode",
    "encode",
    "is_narrower",
    "parse_wire",
]

WireFormat = Literal["bf16", "float8_e4m3", "int8"]
#: The encoded rows of an array: the payload, and the scales if the format has them.
Encoded = tuple[jax.Array, ...]

#: The largest number of consecutive elements that share one scale.
BLOCK = 128

_FORMATS: tuple[str, ...] = get_args(WireFormat)
# The largest magnitude of a payload.
_LIMITS = {"float8_e4m3": 448.0, "int8": 127.0}


@dataclasses.dataclass(frozen=True)
class Wire:
    """The number formats of the collectives of one operation, forward and backward.

    A string as `wire=` is the format of the forward pass only: `"int8"` is `nx.Wire("int8")`. The
    gradients then travel in their own dtype.

    - `"bf16"` rounds to bfloat16. The relative error of a normal number is at most `2 ** -8`.
    - `"float8_e4m3"` divides blocks of at most 128 consecutive elements by a scale,
      `max(abs(x)) / 448` of the block. The relative error is at most `2 ** -4`, and the absolute
      error `2 ** -10` of the scale for elements below `2 ** -6` of the scale.
    - `"int8"` does the same with the scale `max(abs(x)) / 127`. The error is at most half of the
      scale.

    The blocks are consecutive elements of a device's block in row-major order. A scale has 32 bits
    (64 for float64), is at least the smallest normal number, and counts as bytes sent. A block with
    an infinity or NaN becomes NaN in the two formats with scales. int8 does not keep the sign of
    zero. No value is added in a narrow format: a reduce-scatter is an all-to-all of encoded blocks,
    and a sum in float32. Every collective rounds each element once. An array whose dtype is not
    wider than the format is sent as it is.

    Args:
      forward: the format of the collectives in the forward pass; default: the dtype of the array.
      backward: the format of their transposes in the gradient; default: the dtype of the cotangent.

    Raises:
      ArgumentError: a format is neither `None` nor one of the three.

    >>> import namedax as nx
    >>> nx.Wire(forward="int8", backward="bf16")
    Wire(forward='int8', backward='bf16')
    """

    forward: WireFormat | None = None
    backward: WireFormat | None = None

    def __post_init__(self) -> None:
        for direction in ("forward", "backward"):
            given = getattr(self, direction)
            if given is not None and given not in _FORMATS:
                raise ArgumentError(
                    f"Wire: {direction} must be {_choices()} or None, got {format_value(given)}."
                )

    @property
    def reversed(self) -> Wire:
        """The formats of the transposed collective."""
        return Wire(self.backward, self.forward)


def _choices() -> str:
    return ", ".join(map(repr, _FORMATS))


def parse_wire(op: str, wire: object, hint: str = "") -> Wire | None:
    """Return the formats that `wire=` of an operation selects; `None` if it selects none.

    Args:
      op: the operation, for messages.
      wire: the argument.
      hint: a sentence at the end of the message; default: none.

    Raises:
      ArgumentError: it is neither a format nor a `Wire`.
    """
    if isinstance(wire, Wire):
        return wire if wire != Wire() else None
    if wire is None:
        return None
    if not isinstance(wire, str) or wire not in _FORMATS:
        raise ArgumentError(
            f"{op}: wire must be {_choices()} or nx.Wire(forward=..., backward=...), got"
            f" {format_value(wire)}.{hint}"
        )
    return Wire(forward=wire)  # type: ignore[arg-type]


def check_narrow(op: str, array: object, wire: Wire | None) -> None:
    """Raise if elements of an array cannot be rounded to a narrow format.

    Raises:
      ArgumentTypeError: the array is not real floating-point.
    """
    if wire is None:
        return
    dtype = jnp.result_type(array)
    if not jnp.issubdtype(dtype, jnp.floating):
        remedy = (
            "Send its real and imaginary parts separately"
            if jnp.issubdtype(dtype, jnp.complexfloating)
            else "Convert it with x.astype(jnp.float32)"
        )
        raise ArgumentTypeError(
            f"{op}: wire rounds floating-point numbers, but {type_text(array)} has dtype {dtype}."
            f" {remedy}, or omit wire."
        )


def is_narrower(wire_format: WireFormat | None, dtype: np.dtype) -> bool:
    """Return True if a format has fewer bytes than a dtype, so that it is encoded."""
    return wire_format is not None and dtype.itemsize > (2 if wire_format == "bf16" else 1)


def _wide(dtype: np.dtype) -> np.dtype:
    """Return the dtype of scales and sums."""
    return jnp.dtype(jnp.float64 if dtype == jnp.float64 else jnp.float32)


def encode(rows: jax.Array, wire_format: WireFormat, real: jax.Array | None = None) -> Encoded:
    """Encode the rows of a matrix, one for each destination.

    The payload has the integers of the format's width. A backend may widen narrow floats in
    collectives (CPUs do), but never integers.

    Args:
      rows: the elements.
      wire_format: the format.
      real: a mask of the same shape, False at padding, which does not affect the scales; default:
        there is no padding.

    Returns:
      The payload, and for formats with scales the scales.
    """
    if wire_format == "bf16":
        return (lax.bitcast_convert_type(rows.astype(jnp.bfloat16), jnp.uint16),)
    wide = _wide(rows.dtype)
    values, limit = _in_blocks(rows.astype(wide)), _LIMITS[wire_format]
    counted = values
    if real is not None:  # a block of padding only has its own scale
        is_real = _in_blocks(real)
        is_real = is_real | ~jnp.any(is_real, -1, keepdims=True)
        counted = jnp.where(is_real, values, 0)
    greatest = jnp.max(jnp.abs(counted), -1, keepdims=True)
    info = jnp.finfo(wide)
    # The greatest scale whose product with the limit is finite.
    most = np.nextafter(wide.type(info.max) / wide.type(limit), wide.type(0))
    scale = jnp.clip(greatest / limit, wide.type(info.tiny), most)
    scale = jnp.where(jnp.all(jnp.isfinite(counted), -1, keepdims=True), scale, jnp.nan)
    quotient = jnp.clip(values / scale, -limit, limit)
    if wire_format == "int8":
        # Without the selection, the integer of NaN would depend on the backend.
        quotient = jnp.where(jnp.isnan(quotient), 0, jnp.round(quotient))
        return quotient.astype(jnp.int8), scale[..., 0]
    return lax.bitcast_convert_type(quotient.astype(jnp.float8_e4m3fn), jnp.uint8), scale[..., 0]


def decode(
    encoded: Encoded, wire_format: WireFormat, length: int, dtype: np.dtype, wide: bool = False
) -> jax.Array:
    """Decode rows.

    Args:
      encoded: the result of `encode`.
      wire_format: its format.
      length: the number of elements of a row.
      dtype: the dtype of the array before it was encoded.
      wide: True to return the dtype of sums; default: return `dtype`.
    """
    payload, *scales = encoded
    accumulate = _wide(dtype)
    if wire_format == "bf16":
        values = lax.bitcast_convert_type(payload, jnp.bfloat16).astype(accumulate)
    else:
        if wire_format == "float8_e4m3":
            payload = lax.bitcast_convert_type(payload, jnp.float8_e4m3fn)
        values = payload.astype(accumulate) * scales[0][..., None]
        values = values.reshape(values.shape[0], -1)[:, :length]
    return values if wide else values.astype(dtype)


def _in_blocks(rows: jax.Array) -> jax.Array:
    """Split rows into blocks of equal length, with zeros at the end of each row.

    There are as few blocks as possible, and fewer zeros than blocks.
    """
    count, length = rows.shape
    blocks = -(-length // BLOCK)
    each = -(-length // blocks)
    if blocks * each > length:
        rows = jnp.pad(rows, ((0, 0), (0, blocks * each - length)))
    return rows.reshape(count, blocks, each)
