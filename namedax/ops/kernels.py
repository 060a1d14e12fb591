"""One compiled kernel per operation and dims: what makes named operations as cheap as plain ones.

The bookkeeping of names depends on dims only, not on values. So an operation is compiled once for the dims of its operands, and a later
call is a dictionary look-up and one dispatch (`jax.jit` takes care of shapes, element types, configuration and the ambient
region). Under a trace the same kernels are inlined: JAX then has the traced operation, and its linearization, in its
caches, as it has those of `jnp`'s functions.

In a body whose names are sharded only elementwise operations do, on blocks; the others run as they are, because they may
communicate.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import jax

from namedax.array import Dims, NamedArray, make
from namedax.environment import Region, ambient, enter
from namedax.ops.align import meet, wrap

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
    operands = tuple(meet(str(key[0] if isinstance(key, tuple) else key), operands, region))
    # Kernels know nothing of the region, so that all regions share them.
    with enter(None):
        result = _through_kernel(key, impl, operands)
    return wrap(result._data, result._dims) if type(result) is NamedArray else result


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
