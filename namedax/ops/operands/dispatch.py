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

from __future__ import annotations

import functools
import weakref
from collections.abc import (
    Callable,
    Hashable,
    Mapping,
    Sequence,
)
from operator import is_
from typing import Any, TypeVar, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AbstractMesh, NamedSharding

from namedax.core.annotations import AnyArray, ArrayLike
from namedax.core.array import (
    NamedArray,
    make,
    padding_of,
)
from namedax.core.element_types import NUMPY, SCALARS
from namedax.core.explicit_fallback import (
    VALUE_ERRORS,
    Explicit,
    fallbacks,
    may_fall_back,
)
from namedax.core.memory_kinds import host_seen, is_on_host
from namedax.core.name_scopes import Scope, is_open
from namedax.core.recent import Recent
from namedax.core.region import active_regions
from namedax.core.strict_broadcasting import is_strict, strict_scopes
from namedax.errors import NamedaxError, StoredPaddingError
from namedax.messages.tracebacks import shorten_eager
from namedax.ops.operands.call_arguments import (
    UNKEPT,
    ArrayParameters,
    NotAProgramError,
    describe,
)
from namedax.ops.operands.kernels import (
    new_table,
    remember,
    type_key,
    varies,
    watched,
    whole_types,
)
from namedax.ops.operands.one_mesh import on_one_mesh
from namedax.ops.operands.program import OtherFormError, Program
from namedax.ops.operands.pytree import stored_leaf
from namedax.resources.mesh import (
    current_mesh,
    in_trace,
    is_eager,
    needs_type,
)

__all__ = [
    "cached_by_dims",
    "cached_elementwise",
    "call_program",
    "in_program",
]

F = TypeVar("F", bound=Callable[..., Any])


def _learn(
    table: dict[Any, Any],
    key: Hashable,
    datas: Sequence[Any],
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
) -> AnyArray:
    """Return `function(*args, **kwargs)`; cache its kernel if it ran exactly one, on `datas`.

    Otherwise later calls become programs (`call_program`).
    """
    direct = function.direct  # type: ignore[attr-defined]
    result, calls = watched(direct, args, kwargs)
    known: Any = _PROGRAM
    if len(calls) == 1:
        call, dims, scope, given, own = calls[0]
        if own is result and len(given) == len(datas) and all(map(is_, given, datas)):
            known = (call, dims, scope)
    remember(table, key, known)
    return result


_PROGRAM: Any = object()


def _is_traced_on_host(data: object) -> bool:
    """Return True for traced data in the memory of the host.

    They are copied to the device before the kernel, where loops see the copy.
    """
    return type(data) not in whole_types and is_on_host(data)


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
            if known is _PROGRAM or (host_seen and any(map(_is_traced_on_host, datas))):
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
                return function(*args, **kwargs)
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
                        return function(*args, **kwargs)
                    key, datas = described
            except StoredPaddingError:
                return function(*args, **kwargs)
            if not as_jax and may_fall_back(args):
                return function(*args, **kwargs)
            is_traced = False
            for data in datas:
                if type(data) not in whole_types:
                    if varies(data) or (host_seen and _is_traced_on_host(data)):
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


# Errors after which a loop on Explicit mesh axes runs directly. After any other one, a direct run
# would hide that error behind one of JAX about devices.
_NO_PROGRAM = (NotAProgramError, OtherFormError, StoredPaddingError, *VALUE_ERRORS)


def call_program(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    parameters: ArrayParameters | None = None,
    key: Hashable = None,
    keeps: bool = True,
) -> Any:
    """Return `function(*args, **kwargs)`, from a compiled program if there can be one.

    Args:
      function: an operation with its checks and without this dispatch, or a lifted function.
      args: its positional arguments.
      kwargs: its keyword arguments.
      parameters: the parameters that are pytrees of arrays, where numbers are operands; the call
        may have functions of the user, by which the program is cached. Default: numbers and
        functions are constants, and the call runs directly if one of the functions is the user's.
      key: identifies the operation; default: `function`.
      keeps: False if the functions of the user are called each time, as those of `jax.vmap`, and
        need a program only on Explicit mesh axes, where it is not kept; default: True.
    """
    if active_regions or getattr(jax.config, "jax_disable_jit", False):
        return function(*args, **kwargs)
    strict = bool(strict_scopes) and is_strict()
    wide = jax.config.jax_enable_x64  # type: ignore[attr-defined]
    parts: list[Any] = [key or function, len(args), strict, wide]
    arrays: list[Any] = []
    datas: list[Any] = []
    try:
        if parameters is None:
            for arg in args:
                describe(arg, parts, arrays, datas)
            for name, arg in kwargs.items():
                parts.append(name)
                describe(arg, parts, arrays, datas)
        else:
            _describe_all(args, kwargs, parameters, parts, arrays, datas)
        found = _programs.get(entry := tuple(parts))
    except (NotAProgramError, TypeError):  # not hashable
        return function(*args, **kwargs)
    is_whole = whole_types.issuperset(map(type, datas))
    if found is _BY_TYPES and is_whole:
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
            return call_program(function, *moved, parameters, key, keeps)
    later: Any = None
    if is_whole and type(found) is Program and (parameters is None or not in_trace()):
        try:
            return found.call(datas)
        except Exception as error:
            later = _after(error, parameters, arrays, datas)
    call = _Call(function, args, kwargs, parameters, arrays, datas, entry)
    return call.begin(found, keeps, mesh) if later is None else call.again(later)


def _describe_all(
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    parameters: ArrayParameters,
    parts: list[Any],
    arrays: list[Any],
    datas: list[Any],
) -> None:
    """Describe the arguments of a call that may have functions of the user."""
    places, names, star = parameters
    for i, arg in enumerate(args):
        describe(arg, parts, arrays, datas, i in places or i >= star, True)
    for name, arg in kwargs.items():
        parts.append(name)
        describe(arg, parts, arrays, datas, name in names, True)


def _after(
    error: Exception,
    parameters: ArrayParameters | None,
    arrays: Sequence[Any],
    datas: Sequence[Any],
) -> Any:
    """Return how calls run after their program raised `error`; raise it if the call cannot run."""
    if parameters is not None and not isinstance(error, _NO_PROGRAM):
        if _placement(arrays, datas)[0]:
            raise error
    return _SEEN if isinstance(error, OtherFormError) else _DIRECT


def in_program(function: F) -> F:
    """Return a function that is composed of operations so that an eager call is one program."""

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        try:
            return call_program(function, args, kwargs)
        except StoredPaddingError as error:
            return fallbacks.run_padded(function.__name__, function, args, kwargs, error)

    return cast("F", called)


class _Call:
    """A call outside of bodies, with the entry of its key in `_programs`.

    Attributes:
      function: the operation.
      args: its positional arguments.
      kwargs: its keyword arguments.
      parameters: its parameters that are pytrees of arrays, if it may have functions of the user.
      arrays: the arrays among the arguments.
      datas: their data.
      entry: the key of the call; with the types of the arrays after `by_types`.
      by_types: True if the key has the types of the arrays.
    """

    __slots__ = ("args", "arrays", "by_types", "datas", "entry", "function", "kwargs", "parameters")

    def __init__(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        parameters: ArrayParameters | None,
        arrays: list[Any],
        datas: list[Any],
        entry: tuple[Any, ...],
    ):
        self.function, self.args, self.kwargs, self.parameters = function, args, kwargs, parameters
        self.arrays, self.datas, self.entry, self.by_types = arrays, datas, entry, False

    @property
    def parts(self) -> tuple[Any, ...]:
        """The key without the types of the arrays."""
        return self.entry[0] if self.by_types else self.entry

    def directly(self) -> Any:
        """Run the call without a program."""
        return self.function(*self.args, **self.kwargs)

    def begin(self, found: Any, keeps: bool, mesh: AbstractMesh | None) -> Any:
        """Run a call that is not yet repeated, or with arrays that are traced or on no device."""
        try:
            is_mapped, is_traced = _placement(self.arrays, self.datas)
        except NotAProgramError:
            return self.directly()
        if self.parameters is None:
            if is_traced and not is_mapped:
                return self.directly()
        elif in_trace() and not is_eager():
            return self.directly()
        elif not keeps and not is_mapped:
            try:
                return self.directly()
            except NamedaxError:
                raise
            except ValueError:  # a function may close over an array on Explicit mesh axes
                if mesh is not None:
                    raise
        if found is _BY_TYPES:
            if is_traced:
                return self.directly()
            self.add_types()
            found = _DIRECT if self.entry in _kernel_calls else _programs.get(self.entry)
        if found is _ITSELF:
            return self.arrays[0]
        if found is _DIRECT:
            return self.directly()
        if found is None and self.parameters is None and not is_mapped:
            return self.first()
        if type(found) is int and not is_mapped:
            _programs.put(self.entry, found - 1 if found > 1 else _SEEN)
            return self.directly()
        return self.run(found, keeps)

    def add_types(self) -> None:
        """Add the types of the arrays to the key."""
        self.entry, self.by_types = (self.entry, tuple(map(_type_of, self.datas))), True

    def put(self, value: Any) -> None:
        """Keep how calls with these arguments and types of arrays run."""
        if not self.by_types:
            _programs.put(self.entry, _BY_TYPES)
            self.add_types()
        if type(value) is tuple:
            remember(_kernel_calls, self.entry, value)
        else:
            _programs.put(self.entry, value)

    def first(self) -> Any:
        """Run directly, and choose how to run equal calls later.

        If the call was one kernel of its arrays and of numbers, or returned the data of its array,
        that is cached by the types of the arrays. Any other call becomes a program the second time,
        because compiling does not pay off for a single call. If several kernels have a number as an
        operand, such as an index, a program would be compiled for each number, so several calls
        with the same number run directly first.
        """
        result, calls = watched(self.function, self.args, self.kwargs)
        datas = self.datas
        if not calls and len(datas) == 1 and result is self.arrays[0]:
            self.put(_ITSELF)
        elif not calls and len(datas) == 1 and stored_leaf(result) is datas[0]:
            self.put((_same, result._dims if type(result) is NamedArray else None, None))
        elif (
            len(calls) == 1
            and calls[0].result is result
            and (picked := _picked(calls[0].datas, datas)) is not None
        ):
            in_order = picked == [(i, None) for i in range(len(datas))]
            self.put((calls[0].call, calls[0].dims, None if in_order else picked))
        else:
            has_number = not SCALARS.isdisjoint(filter(_is_type, self.parts)) and any(
                type(x) in SCALARS for kernel in calls for x in kernel.datas
            )
            _programs.put(self.entry, _DIRECT_CALLS if has_number else _SEEN)
        return result

    def run(self, found: Any, keeps: bool) -> Any:
        """Run the program of the call, which is new if `found` is none."""
        is_new, later = type(found) is not Program, None
        given = self.function, self.args, self.kwargs, self.parameters, self.arrays
        program = Program(*given) if is_new else found
        try:
            result = program.call(self.datas)
        except Exception as error:
            later = _after(error, self.parameters, self.arrays, self.datas)
        if later is not None:
            return self.again(later)
        if is_new and keeps and program.is_closed and not any(x is UNKEPT for x in self.parts):
            _programs.put(self.entry, program)
            for ref in program.functions:  # when one of its functions is freed, so is the program
                forget = functools.partial(_programs.pop, self.entry)
                program.alive.append(weakref.ref(ref(), forget))
        return result

    def again(self, later: Any) -> Any:
        """Run directly after the program has failed, which raises the error with names."""
        result = self.directly()
        if not any(isinstance(data, jax.core.Tracer) for data in self.datas):
            self.put(later)
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
      NotAProgramError: a named array is not on a device.
    """
    is_mapped = is_traced = False
    for array, data in zip(arrays, datas, strict=True):
        is_array = type(array) is NamedArray
        if type(data) not in whole_types:
            varies(data)  # adds its type to `whole_types`
            if isinstance(data, jax.core.Tracer):
                is_traced = True
            elif is_array and not isinstance(data, jax.Array):
                raise NotAProgramError  # the data is not on a device
        is_mapped = is_mapped or (
            is_array and (padding_of(array) is not None or may_fall_back((array,)))
        )
    return is_mapped, is_traced


def _type_of(data: Any) -> tuple[Any, ...]:
    """Return what decides which kernel runs on a concrete array or number, beside its dims."""
    if type(data) in SCALARS:
        return (type(data),)
    dtype = data.dtype
    # JAX computes the sharding of an array of random keys at each access.
    sharding = getattr(data, "sharding", None) if isinstance(dtype, np.dtype) else None
    return (data.shape, dtype, sharding if type(sharding) is NamedSharding else None)
