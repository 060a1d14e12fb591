"""Calls of functions with a declared cost, which a report finds by their scopes.

The equations of a call are in a scope such as `kernel_cost{7}`, with the number of the call. So the
traced program has no other equations than without the declaration, and derivatives save the same
arrays. The transposed equations are in the scope too, within `transpose(...)`.

A function under `jax.vmap` sees the type of one instance. The equations in a program have the
shapes of all instances. `KernelCall.largest` is the number of elements of the largest array of one
instance, so the quotient is the number of instances.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
from typing import Literal

__all__ = ["KernelCall", "Place", "call_of", "new_call", "place_in"]

_SCOPE = re.compile(r"kernel_cost\{(\d+)\}")


@dataclasses.dataclass(frozen=True)
class KernelCall:
    """A traced call of a function with a declared cost.

    Attributes:
      name: the name of the function.
      flops: the floating-point operations of the call.
      bytes: the bytes that it reads and writes.
      gradient_flops: the floating-point operations of its backward pass.
      gradient_bytes: the bytes that the backward pass reads and writes.
      largest: the number of elements of the largest array that it computes, in one iteration of a
        loop.
    """

    name: str
    flops: float
    bytes: float
    gradient_flops: float
    gradient_bytes: float
    largest: int


@dataclasses.dataclass(frozen=True)
class Place:
    """The place of an equation in a call.

    Attributes:
      number: the number of the outermost call that it is part of.
      stage: `"call"`, `"again"` for a recomputation, or `"transposed"`, for an equation of the
        backward pass.
      run: a number that differs between the runs of one traced call.
    """

    number: int
    stage: Literal["call", "again", "transposed"]
    run: int


# A few numbers for each trace of a call, because a scope is only a text.
_calls: dict[int, KernelCall] = {}
_numbers = itertools.count(1)


def new_call(call: KernelCall) -> str:
    """Register a call, and return its scope."""
    number = next(_numbers)
    _calls[number] = call
    return f"kernel_cost{{{number}}}"


def call_of(number: int) -> KernelCall:
    """Return the call with a number."""
    return _calls[number]


def place_in(scopes: str, run: int) -> Place | None:
    """Return the place of an equation with these scopes; `None` outside of calls.

    >>> from namedax.core.kernel_scopes import place_in
    >>> place_in("/transpose(jvp())/mul", 1) is None
    True
    """
    found = _SCOPE.search(scopes) if "kernel_cost{" in scopes else None
    if found is None or int(found[1]) not in _calls:
        return None
    _, transpose, after = scopes[: found.start()].rpartition("transpose(")
    is_again = "rematted_computation" in after
    return Place(int(found[1]), "again" if is_again else "transposed" if transpose else "call", run)
