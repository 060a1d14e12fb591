"""A dispatch cache from the call of a public function straight to its kernel.

It removes most of the cost of an eager operation beyond JAX's own dispatch. Between a public
function and its kernel (`kernels`), arguments are checked and axes resolved. For functions
decorated here, that work depends only on the dims of the arrays and on the other arguments, not on
shapes, dtypes or values. So it runs once. The first call is recorded. If it ran exactly one kernel
on the arrays of the call, and returned the kernel's result, later calls with the same dims and
arguments call that kernel. The keys are compared as those of kernels are.

Calls in a mapped body neither fill nor use the cache, since a body records which names occur in it.
If a kernel raises, the function itself runs again and raises the error with names.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import jax

from namedax.core.annotations import AnyArray, ArrayLike
from namedax.core.array import NamedArray, make
from namedax.core.call_errors import call_or_refuse
from namedax.core.explicit_fallback import Explicit, may_fall_back
from namedax.core.name_scopes import Scope, is_open
from namedax.core.region import active_regions
from namedax.core.tracebacks import shorten_eager
from namedax.errors import StoredPaddingError
from namedax.operands.kernels import (
    SCALARS,
    new_table,
    remember,
    type_key,
    varies,
    watched,
    whole_types,
)

__all__ = ["cached_by_dims", "cached_elementwise"]


def _learn(
    table: dict[Any, Any],
    key: Hashable,
    datas: Sequence[Any],
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> AnyArray:
    """Return `function(*args, **kwargs)`; cache its kernel if it ran exactly one, on `datas`."""
    result, calls = watched(call_or_refuse, (function, args, kwargs), {})
    if len(calls) == 1:
        call, dims, scope, given, own = calls[0]
        if (
            own is result
            and len(given) == len(datas)
            and all(a is b for a, b in zip(given, datas, strict=True))
        ):
            remember(table, key, (call, dims, scope))
    return result


def cached_elementwise(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return an elementwise function of operands with a cache by their dims."""
    table = new_table()

    @functools.wraps(function)
    def shortcut(*operands: ArrayLike) -> AnyArray:
        try:
            if active_regions:
                return function(*operands)
            dims_of_all: list[Any] = []
            datas: list[Any] = []
            try:
                for operand in operands:
                    if type(operand) is NamedArray:
                        dims_of_all.append(operand._dims)
                        datas.append(operand._data)
                    elif type(operand) in SCALARS:
                        dims_of_all.append(None)
                        datas.append(operand)
                    else:
                        return function(*operands)
            except StoredPaddingError:
                return function(*operands)
            key = tuple(dims_of_all)
            known = table.get(key)
            if known is None:
                return _learn(table, key, datas, function, operands, {})
            call, dims, _ = known
            try:
                data = call(*datas)
            except Exception:  # the function itself raises it again, with names
                table.pop(key, None)
                known = None
            if known is None:
                return function(*operands)
            return data if dims is None else make(data, dims)
        except Exception as error:
            shorten_eager(error)
            raise

    return shortcut


# --- functions of arrays, axes and options --------------------------------------------------------

_KEYWORD, _VALUE = object(), object()
_FIXED = frozenset({bool, int, float, complex, tuple, type, type(...)})


def cached_by_dims(function: Callable[..., Any], explicit: Explicit) -> Callable[..., Any]:
    """Return a function of arrays, axes and options with a cache by dims and other arguments.

    Args:
      function: a function that uses only the dims of the arrays before it calls its kernel.
      explicit: how it runs on arrays that are sharded over Explicit mesh axes.
    """
    as_jax = explicit is Explicit.AS_JAX
    table = new_table()

    @functools.wraps(function)
    def shortcut(*args: object, **kwargs: object) -> AnyArray:
        try:
            if active_regions:
                return call_or_refuse(function, args, kwargs)
            try:
                if (
                    len(args) == 2
                    and not kwargs
                    and type(args[0]) is NamedArray
                    and type(args[1]) is str
                ):  # the most common case
                    key: Any = (args[0]._dims, args[1])
                    datas: Any = (args[0]._data,)
                elif (
                    len(args) == 3
                    and not kwargs
                    and type(args[0]) is type(args[1]) is NamedArray
                    and type(args[2]) is str
                ):
                    key = (args[0]._dims, args[1]._dims, args[2])
                    datas = (args[0]._data, args[1]._data)
                else:
                    described = _described(args, kwargs)
                    if described is None:
                        return call_or_refuse(function, args, kwargs)
                    key, datas = described
            except StoredPaddingError:
                return call_or_refuse(function, args, kwargs)
            if not as_jax and may_fall_back(args):
                return function(*args, **kwargs)
            is_traced = False
            for data in datas:
                if type(data) not in whole_types:
                    if varies(data):
                        return function(*args, **kwargs)
                    is_traced = is_traced or isinstance(data, jax.core.Tracer)
            try:
                known = table.get(key)
            except TypeError:  # an element of a tuple is not hashable
                return function(*args, **kwargs)
            if known is None:
                return _learn(table, key, datas, function, args, kwargs)
            call, dims, scope = known
            try:
                if is_traced and scope and not is_open():
                    with Scope(scope):
                        data = call(*datas)
                else:
                    data = call(*datas)
            except Exception:  # the function itself raises it again, with names
                table.pop(key, None)
                known = None
            if known is None:
                return function(*args, **kwargs)
            return data if dims is None else make(data, dims)
        except Exception as error:
            shorten_eager(error)
            raise

    return shortcut


def _described(
    args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[tuple[Any, ...], list[Any]] | None:
    """Return a key of the call, and the data; `None` if another argument may be an array."""
    key: list[Any] = []
    datas: list[Any] = []
    for arg in args:
        kind = type(arg)
        if kind is NamedArray:
            datas.append(arg._data)
            key.append(arg._dims)
        elif kind is str or arg is None:
            key.append(arg)
        elif kind in _FIXED:
            key += (_VALUE, type_key(arg), arg)
        else:
            return None
    for name, arg in kwargs.items():
        kind = type(arg)
        if kind is str or arg is None:
            key += (_KEYWORD, name, arg)
        elif kind in _FIXED:
            key += (_KEYWORD, name, _VALUE, type_key(arg), arg)
        else:
            return None
    return tuple(key), datas
