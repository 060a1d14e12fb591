"""One dispatch: from a call outside of mapped bodies to a compiled program.

A call of any operation, lifted function or control flow function takes one of two paths.

- **Kernels.** Elementwise operations, and those declared `cached`, use only the dims of their
  arrays before they call one kernel (`kernels`). The first call is recorded. Later calls with the
  same dims and arguments call that kernel: a lookup, and one dispatch of JAX.
- **Programs.** Every other operation runs in a program of `jax.jit` that has the arrays of the call
  as arguments. The other arguments are the key of the program (`call_program`). JAX chooses the
  compiled code by the types and shardings of the arrays. So an operation meets Explicit shardings
  and stored padding while it is traced, as under a user's `jax.jit`, and decides there how it runs.

A call runs directly in a mapped body, with traced arrays, or if it cannot be a program because it
reads values or returns something else than arrays. If a program raises, the call runs directly and
raises the error with names. A loop or a branch on Explicit mesh axes raises the error of its trace.

Functions of the user are part of a key by identity, as in `jax.lax`: a function that reads a
variable keeps the value of the first call, and another closure is another function. Programs hold
them weakly. Arrays that a function closes over are arguments of the program. All tables are
bounded.
"""

# Long: one dispatch, with the description of arguments and the programs that it calls.

from __future__ import annotations

import enum
import functools
import inspect
import threading
import weakref
from collections.abc import (
    Callable,
    Hashable,
    ItemsView,
    KeysView,
    Mapping,
    Sequence,
    ValuesView,
)
from operator import is_
from types import BuiltinFunctionType, EllipsisType, FunctionType, NoneType
from typing import Any, TypeVar, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun
from jax.sharding import NamedSharding

from namedax.core.annotations import AnyArray, ArrayLike
from namedax.core.array import (
    NamedArray,
    get_data,
    is_named,
    make,
    make_padded,
    padding_of,
    stored_data,
)
from namedax.core.display import type_text
from namedax.core.element_types import NUMPY, fits
from namedax.core.explicit_fallback import (
    VALUE_ERRORS,
    Explicit,
    may_fall_back,
    run_stored_padded,
)
from namedax.core.functions import LIBRARIES, packages_of
from namedax.core.name_scopes import Scope, is_open
from namedax.core.names import Dims
from namedax.core.padded_sharding import StoredPadding
from namedax.core.region import active_regions
from namedax.core.strict_broadcasting import is_strict, strict_scopes
from namedax.errors import MeshError, NamedaxError, StoredPaddingError
from namedax.messages.call_errors import call_or_refuse
from namedax.messages.tracebacks import shorten_eager
from namedax.ops.operands.kernels import (
    SCALARS,
    Recent,
    new_table,
    remember,
    type_key,
    varies,
    watched,
    whole_types,
)
from namedax.ops.operands.pytree import stored_leaf, stored_parts
from namedax.resources.mesh import (
    current_mesh,
    in_trace,
    is_eager,
    is_tracked,
    needs_type,
    on_ambient_mesh,
)

__all__ = [
    "cached_by_dims",
    "cached_elementwise",
    "call_program",
    "in_program",
    "numbers_of",
    "on_one_mesh",
]

F = TypeVar("F", bound=Callable[..., Any])


def _learn(
    table: dict[Any, Any],
    key: Hashable,
    datas: Sequence[Any],
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> AnyArray:
    """Return `function(*args, **kwargs)`; cache its kernel if it ran exactly one, on `datas`.

    Otherwise later calls become programs (`call_program`).
    """
    direct = function.direct  # type: ignore[attr-defined]
    result, calls = watched(call_or_refuse, (direct, args, kwargs), {})
    known: Any = _PROGRAM
    if len(calls) == 1:
        call, dims, scope, given, own = calls[0]
        if own is result and len(given) == len(datas) and all(map(is_, given, datas)):
            known = (call, dims, scope)
    remember(table, key, known)
    return result


_PROGRAM: Any = object()


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
            if known is _PROGRAM:
                return function(*operands)
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
            if known is _PROGRAM:
                return function(*args, **kwargs)
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


# --- programs: any operation of any arguments -----------------------------------------------------

#: The programs, by operation and arguments without arrays. Also `_SEEN`: the next such call becomes
#: a program, an integer: so many calls run directly before, and `_DIRECT`: they cannot be programs.
_programs = Recent(1024)
#: The kernels of calls that are one kernel, by the same keys.
_kernel_calls = new_table()
_SEEN: Any = object()
_DIRECT: Any = object()
#: The number of equal calls with a number that run directly.
_DIRECT_CALLS = 8
#: Such calls return their array.
_ITSELF: Any = object()
#: The key of the entry has the types of the arrays too.
_BY_TYPES: Any = object()

_CONSTANTS = frozenset(
    {str, bytes, bool, int, NoneType, EllipsisType, type, range, BuiltinFunctionType}
    | {type(jnp.float32), type(np.float32), type(np.sum)}
)
_VIEWS = (KeysView, ValuesView, ItemsView, set, frozenset)
_JITTED = type(jax.jit(lambda: None))
# Marks in keys, so that two calls with the same parts in another order have different keys.
_ARRAY, _PADDED, _NUMBER, _FUNCTION, _TREE = (object() for _ in range(5))
# The mark of a function that is not cached.
_UNKEPT = object()


class _NotAProgramError(Exception):
    """The call has an argument or a result that a program cannot have."""


class _OtherFormError(Exception):
    """The results of a program have other dims or another tree for arrays of other types."""


# Errors after which a loop on Explicit mesh axes runs directly. After any other one, a direct run
# would hide that error behind one of JAX about devices.
_NO_PROGRAM = (_NotAProgramError, _OtherFormError, StoredPaddingError, *VALUE_ERRORS)


class _CapturedError(Exception):
    """The functions of a program close over arrays that are not among its arguments yet."""

    def __init__(self, arrays: list[Any]):
        self.arrays = arrays


def numbers_of(
    function: Callable[..., Any], arrays: tuple[str, ...]
) -> Callable[[int | str], bool]:
    """Return a predicate of positions and keywords: True for parameters that are pytrees of arrays.

    Args:
      function: the function that has the parameters.
      arrays: their names.
    """
    code = inspect.unwrap(function).__code__
    count = code.co_argcount
    by_place = frozenset(i for i, name in enumerate(code.co_varnames[:count]) if name in arrays)
    star = code.co_varnames[count + code.co_kwonlyargcount] if code.co_flags & 4 else None

    def is_pytree(which: int | str) -> bool:
        if isinstance(which, str):
            return which in arrays
        return which in by_place or (which >= count and star in arrays)

    return is_pytree


def call_program(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    is_pytree: Callable[[int | str], bool] | None = None,
    key: Hashable = None,
    keeps: bool = True,
) -> Any:
    """Return `function(*args, **kwargs)`, from a compiled program if there can be one.

    Args:
      function: an operation with its checks and without this dispatch, or a lifted function.
      args: its positional arguments.
      kwargs: its keyword arguments.
      is_pytree: returns True for a position or keyword whose argument is a pytree of arrays, where
        numbers are operands; the call may have functions of the user, by which the program is
        cached. Default: numbers and functions are constants, and the call runs directly if one of
        the functions is the user's.
      key: identifies the operation; default: `function`.
      keeps: False if the functions of the user are called each time, as those of `jax.vmap`, and
        need a program only on Explicit mesh axes, where it is not kept; default: True.
    """
    if active_regions or getattr(jax.config, "jax_disable_jit", False):
        return function(*args, **kwargs)
    parts: list[Any] = [
        key or function,
        len(args),
        bool(strict_scopes) and is_strict(),
        jax.config.jax_enable_x64,  # type: ignore[attr-defined]
    ]
    arrays: list[Any] = []
    datas: list[Any] = []
    try:
        for i, arg in enumerate(args):
            _describe(arg, parts, arrays, datas, is_pytree, i)
        for name, arg in kwargs.items():
            parts.append(name)
            _describe(arg, parts, arrays, datas, is_pytree, name)
        found = _programs.get(entry := tuple(parts))
        by_types = found is _BY_TYPES
        is_whole = is_pytree is None and whole_types.issuperset(map(type, datas))
        if is_whole and by_types:
            kernel = _kernel_calls.get((entry, tuple(map(_type_of, datas))))
            try:
                if kernel is not None:
                    return _call_kernel(kernel, datas)
            except Exception:  # it is raised again below
                pass
        mesh = current_mesh()
        if mesh is not None and any(needs_type(x, mesh) for x in datas):
            op = getattr(function, "_operation", "the call")
            if (moved := on_one_mesh(op, args, kwargs)) is not None:
                return call_program(function, *moved, is_pytree, key, keeps)
        if is_whole and type(found) is _Program:
            try:
                return found.call(datas)
            except Exception:  # it is raised again below
                pass
        is_mapped, is_traced = _placement(arrays, datas)
    except (_NotAProgramError, TypeError):  # not hashable
        return function(*args, **kwargs)
    if is_pytree is None:
        if is_traced and not is_mapped:
            return function(*args, **kwargs)
    elif in_trace() and not is_eager():
        return function(*args, **kwargs)
    elif not keeps and not is_mapped:
        try:
            return function(*args, **kwargs)
        except NamedaxError:
            raise
        except ValueError:  # a function may close over an array on Explicit mesh axes
            if mesh is not None:
                raise
    if by_types:
        if is_traced:
            return function(*args, **kwargs)
        entry = (entry, tuple(map(_type_of, datas)))
        found = _DIRECT if entry in _kernel_calls else _programs.get(entry)
    if found is _ITSELF:
        return arrays[0]
    if found is _DIRECT:
        return function(*args, **kwargs)
    if found is None and is_pytree is None and not is_mapped:
        return _first_call(entry, by_types, function, args, kwargs, arrays, datas)
    if type(found) is int and not is_mapped:
        _programs.put(entry, found - 1 if found > 1 else _SEEN)
        return function(*args, **kwargs)
    is_new = type(found) is not _Program
    if is_new:
        found = _Program(function, args, kwargs, is_pytree, arrays)
    try:
        result = found.call(datas)
    except Exception as error:
        if is_mapped and is_pytree is not None and not isinstance(error, _NO_PROGRAM):
            raise
        later = _SEEN if isinstance(error, _OtherFormError) else _DIRECT
        found = None
    if found is None:  # the call itself raises the error again, with names
        result = function(*args, **kwargs)
        if is_traced:
            return result
        if not by_types:
            _programs.put(entry, _BY_TYPES)
            entry = (entry, tuple(map(_type_of, datas)))
        _programs.put(entry, later)
    elif is_new and keeps and found.is_closed and not any(x is _UNKEPT for x in parts):
        _programs.put(entry, found)
        for ref in found.functions:  # when one of its functions is freed, so is the program
            found.alive.append(weakref.ref(ref(), functools.partial(_programs.pop, entry)))
    return result


def in_program(function: F) -> F:
    """Return a function that is composed of operations so that an eager call is one program."""

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        try:
            return call_program(function, args, kwargs)
        except StoredPaddingError as error:
            return run_stored_padded(function.__name__, function, args, kwargs, error)

    return cast("F", called)


def _first_call(
    entry: tuple[Any, ...],
    by_types: bool,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    arrays: Sequence[Any],
    datas: Sequence[Any],
) -> Any:
    """Run a call directly, and choose how to run equal calls later.

    If it was one kernel of its arrays and of numbers, or returned the data of its array, that is
    cached by the types of the arrays. Any other call becomes a program the second time, because
    compiling does not pay off for a single call. If several kernels have a number as an operand,
    such as an index, a program would be compiled for each number, so several calls with the same
    number run directly first.

    Args:
      entry: the key of the call.
      by_types: True if the key has the types of the arrays.
      function: the operation.
      args: its positional arguments.
      kwargs: its keyword arguments.
      arrays: the arrays among these.
      datas: their data.
    """
    result, calls = watched(function, args, kwargs)
    known: Any = _SEEN
    if not calls:
        if len(datas) == 1 and result is arrays[0]:
            known = _ITSELF
        elif len(datas) == 1 and stored_leaf(result) is datas[0]:
            known = (_same, result._dims if type(result) is NamedArray else None, None)
    elif len(calls) == 1 and calls[0].result is result:
        picked = _picked(calls[0].datas, datas)
        if picked is not None:
            in_order = picked == [(i, None) for i in range(len(datas))]
            known = (calls[0].call, calls[0].dims, None if in_order else picked)
    parts = entry[0] if by_types else entry
    if (
        known is _SEEN
        and not SCALARS.isdisjoint(filter(_is_type, parts))
        and any(type(x) in SCALARS for kernel in calls for x in kernel.datas)
    ):
        known = _DIRECT_CALLS
    if (known is _ITSELF or type(known) is tuple) and not by_types:
        _programs.put(entry, _BY_TYPES)
        entry = (entry, tuple(map(_type_of, datas)))
    if type(known) is tuple:
        remember(_kernel_calls, entry, known)
    else:
        _programs.put(entry, known)
    return result


def _call_kernel(kernel: tuple[Any, ...], datas: Sequence[Any]) -> AnyArray:
    call, dims, picked = kernel
    if picked is not None:
        datas = [value if i is None else datas[i] for i, value in picked]
    data = call(*datas)
    return data if dims is None else make(data, dims)


def _picked(operands: Sequence[Any], datas: Sequence[Any]) -> list[tuple[int | None, Any]] | None:
    """Return the operands of a kernel as indices of `datas` or as numbers.

    Return `None` if another array is an operand, or if one of `datas` is not. The call may have
    read the values of that one, as of an array of NumPy.
    """
    if any(isinstance(data, NUMPY) for data in datas):
        return None
    picked: list[tuple[int | None, Any]] = []
    for operand in operands:
        found = next((i for i, data in enumerate(datas) if data is operand), None)
        if found is None and type(operand) not in SCALARS:
            return None
        # JAX takes longer for a number than for an array with the weak type of the number, which
        # it compiles a program to create if it has 64 bits.
        number = operand if found is None else None  # the table keeps no array of the call
        if found is None and not jax.config.jax_enable_x64:  # type: ignore[attr-defined]
            number = jnp.asarray(operand)
        picked.append((found, number))
    return picked if {i for i, _ in picked if i is not None} == {*range(len(datas))} else None


def _is_type(part: object) -> bool:
    return type(part) is type


def _same(data: jax.Array) -> jax.Array:
    return data


def _placement(arrays: Sequence[Any], datas: Sequence[Any]) -> tuple[bool, bool]:
    """Return True if an operation may run as a mapped function, and True if an array is traced.

    A mapped function takes long to trace.

    Raises:
      _NotAProgramError: a named array is not on a device.
    """
    is_mapped = is_traced = False
    for array, data in zip(arrays, datas, strict=True):
        is_array = type(array) is NamedArray
        if type(data) not in whole_types:
            varies(data)  # adds its type to `whole_types`
            if isinstance(data, jax.core.Tracer):
                is_traced = True
            elif is_array and not isinstance(data, jax.Array):
                raise _NotAProgramError  # the data is not on a device
        is_mapped = is_mapped or (
            is_array and (padding_of(array) is not None or may_fall_back((array,)))
        )
    return is_mapped, is_traced


# --- one mesh -------------------------------------------------------------------------------------


def on_one_mesh(
    op: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    """Return the arguments of a call with all arrays on one mesh, or `None` if they are already.

    Results of a mapped function of plain arrays are on an Auto copy of its mesh. They get the axis
    types of the ambient mesh, or of the Explicit mesh of another argument. No data moves.

    Raises:
      MeshError: an array is on a mesh with other axes.
    """
    moved = False
    mesh: Any = current_mesh()

    def find(value: Any, which: int | str) -> Any:
        nonlocal mesh
        data = stored_leaf(value)
        if mesh is None and is_tracked(data):
            mesh = jax.typeof(data).sharding.mesh
        return value

    def move(value: Any, which: int | str) -> Any:
        nonlocal moved
        try:
            there = _on_mesh(value, mesh, op)
        except MeshError:
            own = jax.typeof(stored_leaf(value)).sharding.mesh
            raise MeshError(
                f"{op}: {type_text(value)} is on the mesh {dict(own.shape)}, and another operand on"
                f" the mesh {dict(mesh.shape)}; an operation runs on one mesh. Place both on one"
                " mesh: nx.shard(x, axis_resources, mesh)."
            ) from None
        moved = moved or there is not value
        return there

    _rebuilt((args, dict(kwargs)), find, 0)
    if mesh is None:
        return None
    result = _rebuilt((args, dict(kwargs)), move, 0)
    return result if moved else None


def _on_mesh(value: Any, mesh: Any, op: str) -> Any:
    if type(value) is not NamedArray:
        return on_ambient_mesh(value, op, mesh) if isinstance(value, jax.Array) else value
    data = stored_data(value)
    there = on_ambient_mesh(data, op, mesh)
    if there is data:
        return value
    padding = padding_of(value)
    if padding is not None:
        return make_padded(there, value._dims, padding)
    return make(there, value._dims)


def _type_of(data: Any) -> tuple[Any, ...]:
    """Return what decides which kernel runs on a concrete array or number, beside its dims."""
    if type(data) in SCALARS:
        return (type(data),)
    dtype = data.dtype
    # JAX computes the sharding of an array of random keys at each access.
    sharding = getattr(data, "sharding", None) if isinstance(dtype, np.dtype) else None
    return (data.shape, dtype, sharding if type(sharding) is NamedSharding else None)


def _describe(
    value: Any,
    parts: list[Any],
    arrays: list[Any],
    datas: list[Any],
    is_pytree: Callable[[int | str], bool] | None,
    which: int | str,
) -> None:
    """Append the key of an argument to `parts`, its arrays to `arrays`, their data to `datas`.

    Raises:
      _NotAProgramError: an array is traced, or the argument may differ in a later call.
    """
    kind = type(value)
    if kind is NamedArray:
        if value._block is not None:  # of a body that has ended
            raise _NotAProgramError
        try:
            datas.append(get_data(value))
            parts.append(value._dims)
        except AttributeError:
            data, tail = stored_parts(value)
            datas.append(data)
            # Padding with unknown devices is equal to padding with any, and its program to none.
            parts += (_PADDED, value._dims, tail, tail.padding.devices)
        arrays.append(value)
    elif kind in _CONSTANTS:
        if is_pytree is not None and (kind is int or kind is bool) and is_pytree(which):
            parts += (_NUMBER, kind)
            arrays.append(value)
            datas.append(value)
        else:
            parts += (kind, value)
    elif kind is float or kind is complex:
        if is_pytree is not None and is_pytree(which):
            parts += (_NUMBER, kind)
            arrays.append(value)
            datas.append(value)
        else:
            parts += (kind, repr(value))
    elif kind in whole_types or isinstance(value, (jax.Array, np.ndarray, np.generic)):
        if isinstance(value, NUMPY) and (
            value.dtype.kind in "OUS"
            or not value.dtype.isnative
            # wide ones are checked by value, which is an error of the operation
            or (value.dtype.itemsize > 4 and (is_pytree is None or not fits(value)))
        ):
            raise _NotAProgramError
        parts.append(_ARRAY)
        arrays.append(value)
        datas.append(value)
    elif kind is tuple and is_pytree is None and _CONSTANTS.issuperset(map(type, value)):
        parts += (value, *map(type, value))  # such as a shape
    elif kind is tuple or kind is list:
        parts += (kind, len(value))
        for entry in value:
            _describe(entry, parts, arrays, datas, is_pytree, which)
    elif kind is dict:
        parts += (kind, len(value))
        for name, entry in value.items():
            parts += (type(name), name)
            _describe(entry, parts, arrays, datas, is_pytree, which)
    elif kind is slice:
        parts.append(kind)
        for entry in (value.start, value.stop, value.step):
            _describe(entry, parts, arrays, datas, is_pytree, which)
    elif isinstance(value, (np.dtype, enum.Enum, type, jax.lax.RaggedDotDimensionNumbers)):
        parts.append(value)
    elif (
        kind is FunctionType
        or kind is _JITTED
        or (callable(value) and kind.__module__.startswith("namedax."))
    ):
        if is_pytree is None and not _is_of_library(value):
            raise _NotAProgramError
        parts += (_FUNCTION, weakref.ref(value))
    elif isinstance(value, _VIEWS):  # JAX warns of these
        raise _NotAProgramError
    else:
        leaves, tree = jax.tree.flatten(value, is_leaf=is_named)
        if jax.tree_util.treedef_is_leaf(tree):
            if is_pytree is None or not callable(value):
                raise _NotAProgramError
            parts.append(_UNKEPT)
            return
        parts += (_TREE, tree)
        for leaf in leaves:
            _describe(leaf, parts, arrays, datas, is_pytree, which)


def _is_of_library(function: Any) -> bool:
    """Return True if a function is from JAX, NumPy or this package."""
    return "<" not in getattr(function, "__qualname__", "<") and packages_of(function) <= LIBRARIES


class _Hole:
    """The place of an array in the arguments of a program."""


_HOLE = _Hole()


def _rebuilt(value: Any, leaf: Callable[[Any, int | str], Any], which: int | str) -> Any:
    """Return an argument with `leaf(part, which)` for each part that is not a container."""
    kind = type(value)
    if kind is tuple or kind is list:
        return kind([_rebuilt(entry, leaf, which) for entry in value])
    if kind is dict:
        return {key: _rebuilt(entry, leaf, which) for key, entry in value.items()}
    if kind is slice:
        ends = (value.start, value.stop, value.step)
        return slice(*[_rebuilt(entry, leaf, which) for entry in ends])
    if kind in _CONSTANTS or kind is _Hole or isinstance(value, (NamedArray, weakref.ref)):
        return leaf(value, which)
    leaves, tree = jax.tree.flatten(value, is_leaf=is_named)
    if jax.tree_util.treedef_is_leaf(tree):
        return leaf(value, which)
    return jax.tree.unflatten(tree, [_rebuilt(entry, leaf, which) for entry in leaves])


def _names_of(array: Any) -> tuple[Dims, StoredPadding | None] | None:
    """Return what a program has to know of an argument beside its data; `None` for plain arrays."""
    if type(array) is not NamedArray:
        return None
    if padding_of(array) is None:
        return array._dims, None
    return array._dims, stored_parts(array)[1].padding


def _as_given(data: Any, named: tuple[Dims, StoredPadding | None] | None) -> Any:
    """Return an argument of a call from its data and its dims."""
    if named is None:
        return data
    dims, padding = named
    return make(data, dims) if padding is None else make_padded(data, dims, padding)


class _Program:
    """A compiled call: a function of its arrays.

    Attributes:
      functions: weak references to the functions of the user among its arguments.
      alive: weak references that remove the program from the table.
      captured: the arrays that these functions close over.
      call: returns the result for the data of a call.
      is_closed: False if a function closes over values of another trace.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        is_pytree: Callable[[int | str], bool] | None,
        arrays: Sequence[Any],
    ):
        self.functions: list[weakref.ref[Any]] = []
        self.alive: list[weakref.ref[Any]] = []
        self.captured: list[Any] = []
        self.call: Callable[[list[Any]], Any]
        self.is_closed = True
        # `jax.jit` passes data in less time than named arrays (benchmarks/eager.py). The dims of
        # arguments are in the key. Those of results are `_form`, from the first trace: dims of one
        # array, or a tree. Another trace has the same or raises.
        self._named = [_names_of(x) for x in arrays]
        self._form: Any = None

        def template(value: Any, which: int | str) -> Any:
            if isinstance(value, (NamedArray, jax.Array, *NUMPY)) or (
                type(value) in SCALARS and is_pytree is not None and is_pytree(which)
            ):
                return _HOLE
            if is_pytree is not None and type(value) not in _CONSTANTS and callable(value):
                self.functions.append(weakref.ref(value))
                return self.functions[-1]
            return value

        self._function = function
        self._args = [_rebuilt(arg, template, i) for i, arg in enumerate(args)]
        self._kwargs = {name: _rebuilt(arg, template, name) for name, arg in kwargs.items()}
        self._lock, self._state = threading.Lock(), threading.local()
        if is_pytree is None:
            self._compiled = jax.jit(self._run, inline=True)
            self.call = self._call
        else:
            self._compiled = jax.jit(self._run_with_captured, inline=True)
            self.call = self._call_with_captured

    def _call(self, datas: list[Any]) -> Any:
        return self._with_names(self._compiled(datas))

    def _with_names(self, found: Any) -> Any:
        form = self._form
        return make(found, form) if type(form) is tuple else jax.tree.unflatten(form, found)

    def _call_with_captured(self, datas: list[Any]) -> Any:
        while True:
            try:
                return self._with_names(self._compiled([*self.captured], datas))
            except _CapturedError as found:
                with self._lock:
                    known = set(map(id, self.captured))
                    self.captured += [x for x in found.arrays if id(x) not in known]

    def _run(self, datas: list[Any]) -> Any:
        supply = iter(map(_as_given, datas, self._named))

        def leaf(value: Any, which: int | str) -> Any:
            if value is _HOLE:
                return next(supply)
            return value() if type(value) is weakref.ref else value

        args = [_rebuilt(arg, leaf, 0) for arg in self._args]
        kwargs = {name: _rebuilt(arg, leaf, name) for name, arg in self._kwargs.items()}
        result = self._function(*args, **kwargs)
        leaves, tree = jax.tree.flatten(result)
        if not all(isinstance(x, jax.Array) for x in leaves):
            raise _NotAProgramError
        is_one = type(result) is NamedArray and padding_of(result) is None
        form = result._dims if is_one else tree
        if self._form is not None and self._form != form:
            raise _OtherFormError
        self._form = form
        return leaves[0] if is_one else leaves

    def _run_with_captured(self, captured: list[Any], datas: list[Any]) -> Any:
        """Run the call with the arrays that its functions close over as arguments."""
        traced = getattr(self._state, "traced", None)
        if traced is None:
            traced = jax.make_jaxpr(self._run, return_shape=True)(datas)
        self._state.traced = None
        closed, shapes = traced
        # Another thread may append to `self.captured`.
        known = {id(x): value for x, value in zip(self.captured, captured, strict=False)}
        new = [x for x in closed.consts if isinstance(x, jax.Array) and id(x) not in known]
        if any(isinstance(x, jax.core.Tracer) for x in new):
            self.is_closed = False
        if new and len(self.captured) < _MOST_CAPTURED:
            self._state.traced = traced  # for the same call, with these as arguments
            raise _CapturedError(new)
        consts = [known.get(id(x), x) for x in closed.consts]
        results = jaxpr_as_fun(ClosedJaxpr(closed.jaxpr, consts))(*jax.tree.leaves(datas))
        return jax.tree.unflatten(jax.tree.structure(shapes), results)


# Functions that make new constants at each trace would add arrays without end.
_MOST_CAPTURED = 256
