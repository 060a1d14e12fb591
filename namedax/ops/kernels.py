"""Eager speed: concrete operands run through one compiled kernel per operation and dims.

An eager call of a named operation would pay for the bookkeeping of names and for several dispatches. Instead the operation is
compiled once for the dims of its operands (`jax.jit` takes care of shapes, element types and configuration), and a later
call is a dictionary look-up and one dispatch. Inside of a trace or a mapped body nothing is concrete, and the operation
runs as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import jax
import numpy as np

from namedax.array import Dims, NamedArray, make
from namedax.environment import ambient

__all__ = ["run"]


class _Kernel:
    """A compiled operation, and the dims of its result (`None`: a plain array)."""

    __slots__ = ("call", "dims")

    call: Callable[..., Any]
    dims: Dims | None


# Keyed by program text, not by values: the operation, its static arguments, and the dims of its operands.
_kernels: dict[Hashable, _Kernel] = {}
_scalars = frozenset({bool, int, float, complex})
_concrete_types: set[type] = set()


def _is_concrete(data: Any) -> bool:
    if isinstance(data, (np.ndarray, np.generic)) or (isinstance(data, jax.Array) and not isinstance(data, jax.core.Tracer)):
        _concrete_types.add(type(data))
        return True
    return False


def _compile(impl: Callable[..., Any], dims: tuple[Any, ...]) -> _Kernel:
    kernel = _Kernel()

    def call(*datas: Any) -> Any:
        operands = [make(data, d) if type(d) is tuple else data for data, d in zip(datas, dims, strict=True)]
        result = impl(*operands)
        named = isinstance(result, NamedArray)
        kernel.dims = result._dims if named else None
        return result._data if named else result

    kernel.call = jax.jit(call)
    return kernel


def run(key: Hashable, impl: Callable[..., Any], *operands: Any) -> Any:
    """`impl(*operands)`, compiled if the operands are concrete and no region is ambient.

    Args:
      key: identifies `impl` together with its static arguments.
      impl: a function of arrays, named or not, that returns one array.
      *operands: arrays and Python scalars.
    """
    if ambient() is not None:
        return impl(*operands)
    datas = []
    dims: list[Any] = [key]
    for operand in operands:
        if type(operand) is NamedArray:
            data = operand._data
            dims.append(operand._dims)
        else:
            data = operand
            dims.append(0 if type(data) in _scalars else getattr(data, "ndim", None))
        kind = type(data)
        if kind not in _concrete_types and kind not in _scalars and not _is_concrete(data):
            return impl(*operands)
        datas.append(data)
    lookup = tuple(dims)
    kernel = _kernels.get(lookup)
    if kernel is None:
        kernel = _compile(impl, lookup[1:])
        data = kernel.call(*datas)  # raises for operands that do not fit, and is then not remembered
        _kernels[lookup] = kernel
    else:
        data = kernel.call(*datas)
    return data if kernel.dims is None else make(data, kernel.dims)
