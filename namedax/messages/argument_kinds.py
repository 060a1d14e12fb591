"""Compare the arguments of a failed call with the kinds of its parameters.

A call that succeeds pays nothing. After a failure, each argument is compared with its parameter, by
annotation and by name. An argument of another kind raises an error that shows it. That error
replaces the error of the operation that happened to receive the argument first.
"""

from __future__ import annotations

import inspect
import operator
import os
import types
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AbstractMesh, Mesh

from namedax.errors import (
    ArgumentTypeError,
    ArrayAttributeError,
    NamedaxError,
    format_value,
    shape_of,
    usage,
)
from namedax.messages.jax_errors import ErrorKind

__all__ = ["check_function", "is_explained", "reject_kinds"]

#: Errors of Python and JAX that an argument of a wrong kind can cause.
_ERRORS = (TypeError, ValueError, LookupError, AttributeError, AssertionError, ArithmeticError)


def is_explained(error: BaseException) -> bool:
    """Return True if an error may be replaced by one that shows the argument of a wrong kind."""
    return isinstance(error, _ERRORS) and not (
        isinstance(error, NamedaxError) and not isinstance(error, ArrayAttributeError)
    )


def check_function(op: str, what: str, value: object) -> None:
    """Raise if an argument that must be a function is not callable.

    Raises:
      ArgumentTypeError: it is not.
    """
    if not callable(value):
        raise ArgumentTypeError(f"{op}: {what}={format_value(value)} is not a function.{usage(op)}")


def reject_kinds(
    op: str, signature: inspect.Signature, given: Mapping[str, Any], error: BaseException
) -> None:
    """Raise if an argument of a call that has failed is not of the kind of its parameter.

    Args:
      op: the operation.
      signature: the parameters.
      given: the arguments by parameter.
      error: the error of the call.

    Raises:
      ArgumentTypeError: an argument is of another kind.
    """
    if not is_explained(error):
        return
    for name, value in given.items():
        parameter = signature.parameters.get(name)
        if parameter is None or parameter.kind is parameter.VAR_KEYWORD or name in ("self", "cls"):
            continue
        kind, fits = _kind_of(parameter)
        if fits is None:
            continue
        several = parameter.kind is parameter.VAR_POSITIONAL
        for one in value if several else [value]:
            if one is parameter.default or _safely(fits, one):
                continue
            what = f"the argument {format_value(one)}" if several else f"{name}={format_value(one)}"
            raise ArgumentTypeError(f"{op}: {what} is not {kind}.{usage(op)}") from error
    if ErrorKind.NOT_HASHABLE.matches(error):
        _reject_unhashable(op, given, error)


def _reject_unhashable(op: str, given: Mapping[str, Any], error: BaseException) -> None:
    for name, value in given.items():
        try:
            hash(value)
        except TypeError:
            if _is_array(value) and name not in _OPTIONS:
                continue
            raise ArgumentTypeError(
                f"{op}: {name}={format_value(value)} is not hashable, and a static argument must"
                " be."
                " Pass a number, a string or a tuple."
            ) from error


def _safely(fits: Callable[[Any], bool], value: object) -> bool:
    """Return `fits(value)`, or False if an object of another library raises during the check."""
    try:
        return fits(value)
    except Exception:
        return False


# --- kinds: a predicate accepts everything that some function with such a parameter may take ---


def _is_array(value: object) -> bool:
    if isinstance(value, (np.ndarray, np.generic)):
        return value.dtype.kind not in "OUSMm"
    if isinstance(value, (bool, int, float, complex)):
        return True
    if isinstance(value, (list, tuple)):
        return all(map(_is_array, value))
    if isinstance(value, type) or callable(value):
        return False
    return (
        shape_of(value) is not None
        or hasattr(type(value), "__array__")
        or hasattr(type(value), "__jax_array__")
    )


def _is_tree(value: object) -> bool:
    leaves = jax.tree.leaves(value, is_leaf=lambda leaf: leaf is None or shape_of(leaf) is not None)
    return value is not None and all(leaf is None or _is_array(leaf) for leaf in leaves)


def _is_integer(value: Any) -> bool:
    return isinstance(value, jax.core.Tracer) or operator.index(value) is not None


def _is_size(value: object) -> bool:
    if isinstance(value, np.ndarray):
        return value.dtype.kind in "iu"
    return all(map(_is_integer, value)) if isinstance(value, (list, tuple)) else _is_integer(value)


def _is_pair(value: Any) -> bool:
    return len(value) == 2 and all(_is_integer(entry) for side in value for entry in side)


def _is_flag(value: Any) -> bool:
    return isinstance(value, (bool, int, np.bool_)) or (value.ndim == 0 and value.dtype == bool)


def _is_number_of_steps(value: Any) -> bool:
    return isinstance(value, bool) or operator.index(value) >= 0


def _is_number(value: object) -> bool:
    return not isinstance(value, (list, tuple)) and _is_array(value)


def _is_axis(value: object) -> bool:
    entries = value if isinstance(value, (list, tuple)) else [value]
    return all(
        entry is None or entry is ... or (_is_hashable(entry) and not _is_unfit_name(entry))
        for entry in entries
    )


def _is_unfit_name(value: object) -> bool:
    return (
        callable(value)
        or isinstance(value, (types.ModuleType, slice, jax.Array, np.ndarray))
        or value is NotImplemented
    )


def _is_hashable(value: object) -> bool:
    return isinstance(hash(value), int)


def _is_dtype(value: Any) -> bool:
    if value is None or jnp.issubdtype(value, jax.dtypes.extended):  # random keys
        return True
    # a class of dtypes, such as jnp.floating
    if isinstance(value, type) and issubclass(value, np.generic):
        return True
    return np.dtype(getattr(value, "dtype", value)) is not None


def _is_iterable(value: Any) -> bool:
    return not isinstance(value, str) and iter(value) is not None


def _is_mesh(value: object) -> bool:
    return isinstance(value, (Mesh, AbstractMesh, int, Mapping, list, tuple)) and not isinstance(
        value, bool
    )


_Kind = tuple[str, Callable[[Any], bool] | None]
_ARRAY: _Kind = ("an array of numbers", _is_array)
_TREE: _Kind = ("an array of numbers, or a tree of arrays", _is_tree)
_AXIS: _Kind = ("an axis: a name, a position, or a list or tuple of these", _is_axis)
_DTYPE: _Kind = ("a dtype", _is_dtype)
_FUNCTION: _Kind = ("a function", callable)
_INTEGER: _Kind = ("an integer", _is_integer)
_INTEGERS: _Kind = (
    "a list or tuple of integers",
    lambda value: not isinstance(value, str) and all(map(_is_integer, value)),
)
_MAPPING: _Kind = ("a dict", lambda value: isinstance(value, Mapping))
_NAME: _Kind = (
    "the name of an axis",
    lambda value: _is_hashable(value) and not _is_unfit_name(value),
)
_NUMBER: _Kind = ("a number", _is_number)
_SIZE: _Kind = ("an integer, or a list or tuple of integers", _is_size)
_TEXT: _Kind = ("a string", lambda value: isinstance(value, str))
_UNKNOWN: _Kind = ("", None)

_BY_NAME: dict[str, _Kind] = {
    **dict.fromkeys(
        ("axis", "axes", "axis1", "axis2", "source", "destination", "dimension", "dimensions"),
        _AXIS,
    ),
    **dict.fromkeys("cond_fun body_fun fun func function fn".split(), _FUNCTION),
    **dict.fromkeys(("dtype", "preferred_element_type", "out_dtype"), _DTYPE),
    **dict.fromkeys(
        ("path", "directory"), ("a path", lambda value: isinstance(os.fspath(value), str))
    ),
    "branches": ("a list or tuple of functions", lambda value: all(map(callable, value))),
    "ax": (
        "an axes object of matplotlib",
        lambda value: value is None or hasattr(value, "get_window_extent"),
    ),
    "epsilon": ("a number", _is_number),
    "mesh": ("a mesh", _is_mesh),
    "shape": _SIZE,
    "unroll": ("True, False or a number of steps", _is_number_of_steps),
}
# Options of JAX's functions, which cannot be arrays.
_OPTIONS = frozenset("axis dtype out_sharding keepdims".split())
# Names of parameters annotated as `Any` that may take a pytree.
_ARRAYS = frozenset(
    "x y a b m v arr data operand logits labels indices weights query value lhs rhs q".split()
)

_BY_ANNOTATION: dict[str, _Kind] = {
    **dict.fromkeys(("int", "DimSize"), _INTEGER),
    **dict.fromkeys(("float", "RealNumeric"), _NUMBER),
    **dict.fromkeys(("Shape", "int | Sequence[int]", "int | tuple[int, ...]"), _SIZE),
    **dict.fromkeys(("Sequence[int]", "tuple[int, ...]"), _INTEGERS),
    **dict.fromkeys(("Array", "jax.Array", "RealArray", "IntegerArray"), _ARRAY),
    **dict.fromkeys(("ArrayLike", "int | ArrayLike", "ArrayLike | int"), _ARRAY),
    **dict.fromkeys(("Key | ArrayLike", "Key | Array", "Array | np.ndarray"), _ARRAY),
    "ArrayLike | SupportsShape": _ARRAY,
    **dict.fromkeys(("AxisName", "Hashable"), _NAME),
    "Moments": (
        "a pair of moments, nx.nn.Moments(mean, var)",
        lambda value: isinstance(value, tuple) and len(value) == 2,
    ),
    "bool": ("True or False", _is_flag),
    "str": _TEXT,
    "tuple[Sequence[int], Sequence[int]]": ("a pair of lists of integers", _is_pair),
}
_BY_BEGINNING: dict[str, _Kind] = {
    "Callable": _FUNCTION,
    "Mapping[": _MAPPING,
    "dict[": _MAPPING,
    "DType": _DTYPE,
    "Sequence[": ("a list or tuple", _is_iterable),
    "Iterable[": ("a list or tuple", _is_iterable),
    "jax.Array | numpy.ndarray | numpy.bool": _ARRAY,  # JAX expands `ArrayLike` to this
}


def _kind_of(parameter: inspect.Parameter) -> _Kind:
    """Return the kind of a parameter; its predicate is `None` if nothing is known."""
    if "| Mapping[" in str(parameter.annotation):
        return _UNKNOWN
    if parameter.name in _BY_NAME:
        return _or_default(parameter, _BY_NAME[parameter.name])
    annotation = parameter.annotation
    text = annotation.__name__ if isinstance(annotation, type) else str(annotation)
    text = text.removesuffix(" | None").replace("collections.abc.", "").replace("typing.", "")
    if text in _BY_ANNOTATION:
        return _or_default(parameter, _BY_ANNOTATION[text])
    for beginning, kind in _BY_BEGINNING.items():
        if text.startswith(beginning):
            # A union of a function or a dict with another type accepts that type too.
            return (
                _UNKNOWN
                if " | " in text.rpartition("]")[2] and kind is not _ARRAY
                else _or_default(parameter, kind)
            )
    if text in ("Any", "PyTree", "_empty", "object") and parameter.name in _ARRAYS:
        return _or_default(parameter, _TREE)
    return _UNKNOWN


def _or_default(parameter: inspect.Parameter, kind: _Kind) -> _Kind:
    """Return a kind that also accepts `None` if the parameter does."""
    what, fits = kind
    if fits is None or not (parameter.default is None or "None" in str(parameter.annotation)):
        return kind
    return what, lambda value: value is None or fits(value)
