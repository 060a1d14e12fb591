"""The arguments of a call: the key of its program, and the call with other arrays."""

from __future__ import annotations

import enum
import inspect
import sys
import weakref
from collections.abc import Callable, ItemsView, KeysView, ValuesView
from types import FunctionType
from typing import Any, NamedTuple

import jax
import numpy as np

from namedax.core.array import NamedArray, get_data, is_named
from namedax.core.element_types import NUMPY, SCALARS, fits
from namedax.core.functions import LIBRARIES, packages_of
from namedax.ops.operands.kernels import CONSTANTS, whole_types
from namedax.ops.operands.pytree import stored_parts

__all__ = [
    "HOLE",
    "NO_ARRAYS",
    "UNKEPT",
    "ArrayParameters",
    "NotAProgramError",
    "array_parameters",
    "describe",
    "rebuilt",
]

_ARRAYS = (jax.Array, *NUMPY)
_VIEWS = (KeysView, ValuesView, ItemsView, set, frozenset)
_JITTED = type(jax.jit(lambda: None))
# Marks in keys, so that two calls with the same parts in another order have different keys.
_ARRAY, _PADDED, _NUMBER, _FUNCTION, _TREE = (object() for _ in range(5))
#: The mark of a function that is not cached.
UNKEPT = object()


class NotAProgramError(Exception):
    """The call has an argument or a result that a program cannot have."""


class ArrayParameters(NamedTuple):
    """The parameters of a function that are pytrees of arrays, in which numbers are operands.

    Attributes:
      places: their positions.
      names: their names.
      star: the position from which on arguments are such pytrees, if `*args` is one.
    """

    places: frozenset[int]
    names: frozenset[str]
    star: int


#: The parameters of a function without such pytrees.
NO_ARRAYS = ArrayParameters(frozenset(), frozenset(), sys.maxsize)


def array_parameters(function: Callable[..., Any], names: tuple[str, ...]) -> ArrayParameters:
    """Return the parameters of a function that have these names."""
    code = inspect.unwrap(function).__code__
    count = code.co_argcount
    places = frozenset(i for i, name in enumerate(code.co_varnames[:count]) if name in names)
    star = code.co_varnames[count + code.co_kwonlyargcount] if code.co_flags & 4 else None
    return ArrayParameters(places, frozenset(names), count if star in names else sys.maxsize)


# --- keys -----------------------------------------------------------------------------------------


def describe(
    value: Any,
    parts: list[Any],
    arrays: list[Any],
    datas: list[Any],
    is_array: bool = False,
    has_functions: bool = False,
) -> None:
    """Append the key of an argument to `parts`, its arrays to `arrays`, their data to `datas`.

    Args:
      value: the argument.
      parts: the parts of the key.
      arrays: the arrays of the call.
      datas: their data.
      is_array: True if numbers are operands; default: False.
      has_functions: True if the call may have functions of the user; default: False.

    Raises:
      NotAProgramError: an array is traced, or the argument may differ in a later call.
    """
    kind = type(value)
    if kind is NamedArray:
        if value._block is not None:  # of a body that has ended
            raise NotAProgramError
        try:
            datas.append(get_data(value))
            parts.append(value._dims)
        except AttributeError:
            data, tail = stored_parts(value)
            datas.append(data)
            # Padding with unknown devices is equal to padding with any, and its program to none.
            parts += (_PADDED, value._dims, tail, tail.padding.devices)
        arrays.append(value)
    elif is_array and kind in SCALARS:
        parts += (_NUMBER, kind)
        arrays.append(value)
        datas.append(value)
    elif kind in CONSTANTS:
        parts += (kind, value)
    elif kind is float or kind is complex:
        parts += (kind, repr(value))
    elif kind in whole_types or isinstance(value, _ARRAYS):
        if isinstance(value, NUMPY) and _may_change(value, has_functions):
            raise NotAProgramError
        parts.append(_ARRAY)
        arrays.append(value)
        datas.append(value)
    elif has_functions and kind is FunctionType:
        parts += (_FUNCTION, weakref.ref(value))
    elif (
        (kind is tuple or kind is list)
        and not has_functions
        and CONSTANTS.issuperset(map(type, value))
    ):  # such as a shape, or an axis mapping
        parts += (kind, tuple(value), *map(type, value))
    else:
        for part in _parts_of(value, parts, has_functions):
            describe(part, parts, arrays, datas, is_array, has_functions)


def _may_change(value: np.ndarray | np.generic, has_functions: bool) -> bool:
    """Return True if a value of NumPy may be another one in a program.

    Wide ones of an operation are checked by value, which is an error of the operation.
    """
    dtype = value.dtype
    return (
        dtype.kind in "OUS"
        or not dtype.isnative
        or (dtype.itemsize > 4 and (not has_functions or not fits(value)))
    )


def _parts_of(value: Any, parts: list[Any], has_functions: bool) -> Any:
    """Append the key of a container, a function or an option; return the parts of a container."""
    kind = type(value)
    if kind is tuple or kind is list:
        parts += (kind, len(value))
        return value
    if kind is dict:
        parts += (kind, len(value), *value, *map(type, value))
        return value.values()
    if kind is slice:
        parts.append(kind)
        return value.start, value.stop, value.step
    if isinstance(value, (np.dtype, enum.Enum, type, jax.lax.RaggedDotDimensionNumbers)):
        parts.append(value)
        return ()
    if _is_function(value):
        if not has_functions and not _is_of_library(value):
            raise NotAProgramError
        parts += (_FUNCTION, weakref.ref(value))
        return ()
    if isinstance(value, _VIEWS):  # JAX warns of these
        raise NotAProgramError
    leaves, tree = jax.tree.flatten(value, is_leaf=is_named)
    if not jax.tree_util.treedef_is_leaf(tree):
        parts += (_TREE, tree)
        return leaves
    if not has_functions or not callable(value):
        raise NotAProgramError
    parts.append(UNKEPT)
    return ()


def _is_function(value: Any) -> bool:
    kind = type(value)
    return (
        kind is FunctionType
        or kind is _JITTED
        or (callable(value) and kind.__module__.startswith("namedax."))
    )


def _is_of_library(function: Any) -> bool:
    """Return True if a function is from JAX, NumPy or this package."""
    return "<" not in getattr(function, "__qualname__", "<") and packages_of(function) <= LIBRARIES


# --- the same arguments with other arrays ---------------------------------------------------------


class _Hole:
    """The place of an array in the arguments of a program."""


HOLE = _Hole()


def rebuilt(value: Any, leaf: Callable[[Any], Any]) -> Any:
    """Return an argument with `leaf(part)` for each part that is not a container."""
    kind = type(value)
    if kind is tuple or kind is list:
        return kind([rebuilt(entry, leaf) for entry in value])
    if kind is dict:
        return {key: rebuilt(entry, leaf) for key, entry in value.items()}
    if kind is slice:
        ends = (value.start, value.stop, value.step)
        return slice(*[rebuilt(entry, leaf) for entry in ends])
    if kind in CONSTANTS or kind is _Hole or isinstance(value, (NamedArray, weakref.ref)):
        return leaf(value)
    leaves, tree = jax.tree.flatten(value, is_leaf=is_named)
    if jax.tree_util.treedef_is_leaf(tree):
        return leaf(value)
    return jax.tree.unflatten(tree, [rebuilt(entry, leaf) for entry in leaves])
