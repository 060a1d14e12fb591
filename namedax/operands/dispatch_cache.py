"""From the call of a public function straight to its kernel: what an eager operation costs besides JAX's own dispatch.

Between a public function and its kernel (`compiled_ops`) arguments are checked, and axes resolved. For the functions that are decorated
here that work depends on the dims of the arrays and on the other arguments alone, not on shapes, element types or values. So it is
done once: the first call is watched, and if it came down to one kernel, which was given the arrays of the call and whose result
was the function's, later calls with the same dims and arguments call that kernel. They are told apart as kernels are.

Nothing is remembered of a call in a mapped body, nor used there: a body learns which names occur in it. What a kernel raises is
raised once more by the function itself, which knows the names.

Between two calls of XLA nothing of this is in a processor's caches, and each function that is called costs several times what it does in
a loop of its own. So the code of a shortcut stands in one function; where there is a choice, `make` is written out.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, TypeVar, cast

import jax

from namedax.core.array import NamedArray, Parts, make
from namedax.core.call_errors import call_or_refuse
from namedax.core.explicit_fallback import guarded
from namedax.core.name_scopes import Scope, is_open
from namedax.core.region import active_regions
from namedax.operands.kernels import SCALARS, new_table, remember, type_key, varies, watched, whole_types

__all__ = ["of_arguments", "of_one", "of_operands", "of_two", "reflected"]

F = TypeVar("F", bound=Callable[..., Any])


def _learn(
    table: dict[Any, Any],
    key: Hashable,
    datas: Sequence[Any],
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> Any:
    """`function(*args, **kwargs)`; if it came down to one kernel of `datas`, that and the dims of its result are remembered."""
    result, calls = watched(call_or_refuse, (function, args, kwargs), {})
    if len(calls) == 1:
        call, dims, scope, given, own = calls[0]
        if own is result and len(given) == len(datas) and all(a is b for a, b in zip(given, datas, strict=True)):
            remember(table, key, (call, dims, scope))
    return result


# --- functions whose arguments are all operands, and which act on every element by itself ------------------------------------


def of_one(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """An elementwise function of one array, and of nothing else."""
    function = guarded(function.__name__)(function)
    table = new_table()

    def shortcut(x: Any, /) -> Any:
        if type(x) is not NamedArray or active_regions:
            return function(x)
        known = table.get(x._dims)
        if known is None:
            return _learn(table, x._dims, (x._data,), function, (x,), {})
        call, dims, _ = known
        try:
            data = call(x._data)
        except Exception:  # which the function itself says with names
            table.pop(x._dims, None)  # before it is tried again the function asks for another way (`core.refused`)
            known = None
        if known is None:
            return function(x)
        if dims is None:
            return data
        parts: Any = Parts()
        parts._data = data
        parts._dims = dims
        parts._casts = None
        parts.__class__ = NamedArray
        return parts

    return functools.update_wrapper(shortcut, function)


def of_two(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """An elementwise function of a named array and something else, and of nothing more."""
    function = guarded(function.__name__)(function)
    table, of_numbers = new_table(), new_table()

    def shortcut(x: Any, y: Any, /) -> Any:
        if type(x) is not NamedArray or active_regions:
            return function(x, y)
        if type(y) is NamedArray:
            key: Any = (x._dims, y._dims)
            b, keys = y._data, table
        elif type(y) in SCALARS:
            b, keys, key = y, of_numbers, x._dims
        else:
            return function(x, y)
        known = keys.get(key)
        if known is None:
            return _learn(keys, key, (x._data, b), function, (x, y), {})
        call, dims, _ = known
        try:
            data = call(x._data, b)
        except Exception:  # which the function itself says with names
            keys.pop(key, None)  # before it is tried again the function asks for another way (`core.refused`)
            known = None
        if known is None:
            return function(x, y)
        if dims is None:
            return data
        parts: Any = Parts()
        parts._data = data
        parts._dims = dims
        parts._casts = None
        parts.__class__ = NamedArray
        return parts

    return functools.update_wrapper(shortcut, function)


def reflected(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """An elementwise function of a named array and something else, whose kernel takes the latter first."""
    function = guarded(function.__name__)(function)
    table = new_table()

    def shortcut(x: Any, y: Any, /) -> Any:
        if type(y) not in SCALARS or active_regions:
            return function(x, y)
        known = table.get(x._dims)
        if known is None:
            return _learn(table, x._dims, (y, x._data), function, (x, y), {})
        call, dims, _ = known
        try:
            data = call(y, x._data)
        except Exception:  # which the function itself says with names
            table.pop(x._dims, None)  # before it is tried again the function asks for another way (`core.refused`)
            known = None
        if known is None:
            return function(x, y)
        if dims is None:
            return data
        parts: Any = Parts()
        parts._data = data
        parts._dims = dims
        parts._casts = None
        parts.__class__ = NamedArray
        return parts

    return functools.update_wrapper(shortcut, function)


def of_operands(function: Callable[..., Any]) -> Callable[..., Any]:
    """An elementwise function of any number of operands, and of nothing else."""
    function = guarded(function.__name__)(function)
    table = new_table()

    def shortcut(*operands: Any) -> Any:
        if active_regions:
            return function(*operands)
        key: list[Any] = []
        datas: list[Any] = []
        for operand in operands:
            if type(operand) is NamedArray:
                key.append(operand._dims)
                datas.append(operand._data)
            elif type(operand) in SCALARS:
                key.append(None)
                datas.append(operand)
            else:
                return function(*operands)
        where = tuple(key)
        known = table.get(where)
        if known is None:
            return _learn(table, where, datas, function, operands, {})
        call, dims, _ = known
        try:
            data = call(*datas)
        except Exception:  # which the function itself says with names
            table.pop(where, None)  # before it is tried again the function asks for another way (`core.refused`)
            known = None
        if known is None:
            return function(*operands)
        return data if dims is None else make(data, dims)

    return functools.update_wrapper(shortcut, function)


# --- functions of arrays and of axes and options -------------------------------------------------------------------------------

_KEYWORD, _VALUE = object(), object()
_FIXED = frozenset({bool, int, float, complex, tuple, type, type(...)})


def of_arguments(function: F) -> F:
    """A function of named arrays, axes and options. Before it calls its kernel it must look at nothing of the arrays but their dims."""
    function = guarded(function.__name__)(function)
    table = new_table()

    @functools.wraps(function)
    def shortcut(*args: Any, **kwargs: Any) -> Any:
        if active_regions:
            return call_or_refuse(function, args, kwargs)
        if len(args) == 2 and not kwargs and type(args[0]) is NamedArray and type(args[1]) is str:  # the most common case
            key: Any = (args[0]._dims, args[1])
            datas: Any = (args[0]._data,)
        elif len(args) == 3 and not kwargs and type(args[0]) is type(args[1]) is NamedArray and type(args[2]) is str:
            key = (args[0]._dims, args[1]._dims, args[2])
            datas = (args[0]._data, args[1]._data)
        else:
            described = _described(args, kwargs)
            if described is None:
                return call_or_refuse(function, args, kwargs)
            key, datas = described
        is_traced = False
        for data in datas:
            if type(data) not in whole_types:
                if varies(data):
                    return function(*args, **kwargs)
                is_traced = is_traced or isinstance(data, jax.core.Tracer)
        try:
            known = table.get(key)
        except TypeError:  # an entry of a tuple is not hashable
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
        except Exception:  # which the function itself says with names
            table.pop(key, None)  # before it is tried again the function asks for another way (`core.refused`)
            known = None
        if known is None:
            return function(*args, **kwargs)
        if dims is None:
            return data
        parts: Any = Parts()
        parts._data = data
        parts._dims = dims
        parts._casts = None
        parts.__class__ = NamedArray
        return parts

    return cast(F, shortcut)


def _described(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[tuple[Any, ...], list[Any]] | None:
    """What tells calls apart, and the data of the arrays; `None` if there is another argument that may be an array."""
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
