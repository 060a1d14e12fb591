"""Device variance: over which mesh axes a value differs from device to device, and the cast to varying.

JAX's checker gives every value in a `jax.shard_map` body a type that says over which mesh axes it varies. namedax keeps that
set within the mesh axes of the value's own names. Where values of different variance meet, the one that varies less is cast
(`jax.lax.pcast`). The cast is free, but its transpose is an all-reduce, so it is made early (before a broadcast makes the value
larger) and once: an array keeps its casts, and a parameter that is used many times has its gradient reduced once.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any

import jax
from jax import lax
from jax.extend.core import get_opaque_trace_state

from namedax.array import Dims, NamedArray, make_in_region

__all__ = ["cast", "cast_data", "remembered", "varying", "with_varying_form"]

_FORM = "varying form"


def varying(data: Any) -> frozenset[str]:
    """The mesh axes over which `data` may differ from device to device."""
    return jax.typeof(data).manual_axis_type.varying


def cast_data(data: Any, axes: Iterable[str]) -> Any:
    """`data` as a value that varies over (at least) `axes`; moves nothing."""
    missing = frozenset(axes) - varying(data)
    return lax.pcast(data, tuple(sorted(missing)), to="varying") if missing else data


def remembered(array: NamedArray, key: Hashable, compute: Callable[[], Any]) -> Any:
    """`compute()`, or what it gave before for this array and `key`, if the array was made in the current trace."""
    memory = array._casts
    if memory is None or memory["trace"] != get_opaque_trace_state():
        return compute()
    if key not in memory:
        memory[key] = compute()
    return memory[key]


def with_varying_form(data: Any, dims: Dims, axes: frozenset[str], form: Callable[[], Any]) -> NamedArray:
    """An array that was gathered over `axes`, with a second form for those who need it device-varying.

    Args:
      data: the gathered value, invarying over `axes` (its transpose is a slice).
      dims: its dims.
      axes: the mesh axes that it was gathered over.
      form: makes the same value varying over `axes` (its transpose is a reduce-scatter). Without this second form a cast of
        `data` would be transposed to an all-reduce and a slice.
    """
    array = make_in_region(data, dims)
    remembered(array, _FORM, lambda: (axes, form))
    return array


def cast(array: Any, axes: frozenset[str]) -> Any:
    """The data of `array` (named or not) as a value that varies over `axes`; a named array is cast once."""
    if type(array) is not NamedArray:
        return cast_data(array, axes)
    missing = axes - varying(array._data)
    if not missing:
        return array._data

    def compute() -> Any:
        gathered, form = remembered(array, _FORM, lambda: (frozenset(), None))
        return cast_data(form(), missing) if gathered and gathered <= missing else cast_data(array._data, missing)

    return remembered(array, missing, compute)
