"""One compiled kernel per operation and dims: what makes named operations as cheap as plain ones.

The bookkeeping of names depends on dims only, not on values. So an operation is compiled once for the dims of its operands, and a later
call is a dictionary look-up and one dispatch (`jax.jit` takes care of shapes, element types, configuration and the ambient
region). Under a trace the same kernels are inlined: JAX then has the traced operation, and its linearization, in its
caches, as it has those of `jnp`'s functions.

In a body whose names are sharded only elementwise operations do, on blocks; the others run as they are, because they may
communicate.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from namedax.array import Dims, NamedArray, make
from namedax.environment import Region, ambient, leave_for_kernel
from namedax.ops.align import meet, wrap
from namedax.resources.variance import has_varying_form, keep_varying_form

__all__ = ["run", "run_elementwise"]


class _Kernel:
    """A compiled operation, and the dims of its result (`None`: a plain array)."""

    __slots__ = ("call", "dims")

    call: Callable[..., Any]
    dims: Dims | None


# Keyed by program text, not by values: the operation, its static arguments, and the dims of its operands.
_kernels: dict[Hashable, _Kernel] = {}
_scalars = frozenset({bool, int, float, complex})


def _compile(impl: Callable[..., Any], dims: tuple[Any, ...]) -> _Kernel:
    kernel = _Kernel()

    def call(*datas: Any) -> Any:
        operands = [make(data, d) if type(d) is tuple else data for data, d in zip(datas, dims, strict=True)]
        result = impl(*operands)
        named = isinstance(result, NamedArray)
        kernel.dims = result._dims if named else None
        return result._data if named else result

    kernel.call = jax.jit(call, inline=True)
    return kernel


def run(key: Hashable, impl: Callable[..., Any], *operands: Any) -> Any:
    """`impl(*operands)` through its kernel, unless some name is sharded.

    Args:
      key: identifies `impl` together with its static arguments: the name of the operation, or a tuple that begins with it.
      impl: a function of arrays, named or not, that returns one array. The dims of its result depend on the key and the dims of
        the operands only.
      *operands: arrays and Python scalars.
    """
    region = ambient()
    if region is None:
        return _through_kernel(key, impl, operands)
    if region.resources:
        return impl(*operands)
    return _in_region(region, key, impl, operands)


def run_elementwise(key: Hashable, impl: Callable[..., Any], *operands: Any) -> Any:
    """Like `run`, for an operation that acts on every element by itself: on blocks it is the same operation."""
    region = ambient()
    if region is None:
        return _through_kernel(key, impl, operands)
    if region.mode == "auto":
        return impl(*operands)
    return _in_region(region, key, impl, operands)


def _in_region(region: Region, key: Hashable, impl: Callable[..., Any], operands: tuple[Any, ...]) -> Any:
    op = str(key[0] if isinstance(key, tuple) else key)

    def form(wanted: frozenset[str]) -> Any:
        met = tuple(meet(op, operands, region, wanted))
        # Kernels know nothing of the region, so that all regions share them.
        with leave_for_kernel():
            return _through_kernel(key, impl, met)

    result = form(frozenset())
    if type(result) is not NamedArray:
        return result
    wrapped = wrap(result._data, result._dims)
    if any(map(has_varying_form, operands)) and _passes_casts_on(operands, result._data.size):
        keep_varying_form(wrapped, lambda wanted: form(wanted)._data)
    return wrapped


def _passes_casts_on(operands: tuple[Any, ...], size: int) -> bool:
    """Whether to cast the operands sends less, in the gradient, than to cast the result, which has `size` elements.

    The transpose of a cast is an all-reduce, which sends twice what the reduce-scatter sends that is the transpose of a gather.
    """
    sent = 0
    for operand in operands:
        data = operand._data if type(operand) is NamedArray else operand
        if np.ndim(data) and jnp.issubdtype(data.dtype, jnp.inexact):  # the others have no gradient, or next to none
            sent += math.prod(data.shape) * (1 if has_varying_form(operand) else 2)
    return sent <= 2 * size


def _through_kernel(key: Hashable, impl: Callable[..., Any], operands: tuple[Any, ...]) -> Any:
    if len(operands) == 1 and type(operands[0]) is NamedArray:  # the most common case, without loops
        (operand,) = operands
        lookup: tuple[Any, ...] = (key, operand._dims)
        datas = [operand._data]
    else:
        datas = []
        entries: list[Any] = [key]
        for operand in operands:
            if type(operand) is NamedArray:
                data = operand._data
                entries.append(operand._dims)
            else:
                data = operand
                rank = 0 if type(data) in _scalars else getattr(data, "ndim", None)
                if rank is None:
                    return impl(*operands)  # no array: let the operation say so
                entries.append(rank)
            datas.append(data)
        lookup = tuple(entries)
    kernel = _kernels.get(lookup)
    if kernel is None:
        kernel = _compile(impl, lookup[1:])
        data = kernel.call(*datas)  # raises for operands that do not fit, and is then not remembered
        _kernels[lookup] = kernel
    else:
        data = kernel.call(*datas)
    return data if kernel.dims is None else make(data, kernel.dims)
