"""Marks in a program around the calls of a function with a declared cost.

A mark is an equation that returns its operand, and compiles to nothing. The arguments and the
results of each call are marked, so a report can charge the call once, for each time that it runs.
The equations of the call are in a scope such as `kernel_cost{7}`, with the number of the call. The
transpose of the mark of a result is a mark in the backward pass.

A function under `jax.vmap` sees the type of one instance. The mark sees all of them: the quotient
of their sizes is the number of instances.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import re
from collections.abc import Sequence
from typing import Any, Literal

import jax
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

__all__ = ["KERNEL_MARK", "KernelCall", "call_in", "mark_values", "new_call", "scope_of"]

Stage = Literal["call", "result", "tangent", "gradient"]
_SCOPE = re.compile(r"kernel_cost\{(\d+)\}")
_numbers = itertools.count(1)


@dataclasses.dataclass(frozen=True)
class KernelCall:
    """A traced call of a function with a declared cost.

    Attributes:
      number: the number of the call.
      name: the name of the function.
      flops: the floating-point operations of the call.
      bytes: the bytes that it reads and writes.
      gradient_flops: the floating-point operations of its backward pass.
      gradient_bytes: the bytes that the backward pass reads and writes.
    """

    number: int
    name: str
    flops: float
    bytes: float
    gradient_flops: float
    gradient_bytes: float


def new_call(
    name: str, flops: float, bytes: float, gradient_flops: float, gradient_bytes: float
) -> KernelCall:
    """Return a call with a new number."""
    return KernelCall(next(_numbers), name, flops, bytes, gradient_flops, gradient_bytes)


def scope_of(call: KernelCall) -> str:
    """Return the scope of a call."""
    return f"kernel_cost{{{call.number}}}"


def call_in(scopes: str) -> int:
    """Return the number of the outermost call in a stack of scopes; 0 if there is none."""
    found = _SCOPE.search(scopes) if "kernel_cost{" in scopes else None
    return int(found[1]) if found else 0


def mark_values(call: KernelCall, stage: Stage, values: Sequence[Any]) -> list[Any]:
    """Return values with a mark on each array."""
    return [
        KERNEL_MARK.bind(
            value, call=call, stage=stage, index=index, elements=math.prod(value.shape)
        )
        if isinstance(value, jax.Array)
        else value
        for index, value in enumerate(values)
    ]


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], *, stage: Stage, **params: Any) -> Any:
    (primal,), (tangent,) = primals, tangents
    result = KERNEL_MARK.bind(primal, stage=stage, **params)
    if stage == "result" and not isinstance(tangent, ad.Zero):
        tangent = KERNEL_MARK.bind(tangent, stage="tangent", **params)
    return result, tangent


def _transpose(cotangent: Any, operand: Any, *, stage: Stage, **params: Any) -> list[Any]:
    if isinstance(cotangent, ad.Zero):
        return [cotangent]
    return [KERNEL_MARK.bind(cotangent, stage="gradient", **params)]


def _batch(operands: Sequence[Any], batched: Sequence[int], **params: Any) -> tuple[Any, int]:
    (data,), (at,) = operands, batched
    return KERNEL_MARK.bind(data, **params), at


#: Return the operand, which belongs to a call of a function with a declared cost.
KERNEL_MARK = Primitive("kernel_mark")
KERNEL_MARK.def_abstract_eval(lambda data, **_: data)
KERNEL_MARK.def_impl(lambda data, **_: data)
ad.primitive_jvps[KERNEL_MARK] = _jvp
ad.primitive_transposes[KERNEL_MARK] = _transpose
batching.primitive_batchers[KERNEL_MARK] = _batch
mlir.register_lowering(KERNEL_MARK, lambda _, data, **__: [data])
