"""Explain errors of calls: wrong arguments, and named arrays in positional functions."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax

from namedax.core.array import NamedArray
from namedax.core.display import positional_type_text, type_text
from namedax.core.element_types import reject_foreign_among, reject_overflow
from namedax.errors import (
    ArgumentTypeError,
    NamedaxError,
    PositionalAxisError,
    reject_names,
    show_names,
    usage,
)
from namedax.messages.call_errors import reject_miscall
from namedax.messages.jax_errors import ErrorKind
from namedax.ops.operands.one_mesh import reject_other_devices
from namedax.programs.raw_collective_check import names_text

__all__ = ["contraction_of", "explain_call", "explain_positional"]


def explain_call(
    op: str,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    error: Exception,
) -> None:
    """Raise an error that shows the wrong argument of a call, if one of the arguments is wrong.

    An operation may be part of another one, whose arguments the user wrote. Then the outer one
    explains the error again, from the original error.

    Args:
      op: the operation.
      function: the function, with its signature.
      args: its positional arguments.
      kwargs: its keyword arguments.
      error: the error that the call raised.

    Raises:
      ArgumentError: an integer does not fit into its dtype.
      ArgumentTypeError: the function has no such arguments, one is not of the kind of its
        parameter, or one is an array with dims of another library.
      MeshError: the arrays are on different devices.
    """
    first = (
        error.explains if isinstance(error, NamedaxError) and error.explains is not None else error
    )
    try:
        reject_foreign_among(op, (args, kwargs))
        reject_other_devices(op, args, kwargs, first)
        if isinstance(first, OverflowError):
            reject_overflow(op, (args, kwargs))
        reject_miscall(op, function, args, kwargs, first)
    except NamedaxError as explained:
        explained.explains = first
        raise


# --- named arrays in positional functions ---------------------------------------------------------


def explain_positional(
    name: str,
    function: Callable[..., object],
    is_of_library: bool,
    arrays: Sequence[Any],
    others: Sequence[Any],
    error: Exception,
) -> None:
    """Explain an error in a positional function by its arrays and their names.

    For a function of a library, or a method of arrays, it raises an error of namedax. The error of
    a user's own function gets a note.

    Args:
      name: the name of the function, for messages.
      function: the function.
      is_of_library: True for a function of JAX or of namedax.
      arrays: the arrays that it was called with.
      others: its other arguments.
      error: the error that it raised.

    Raises:
      ArgumentTypeError: a function of a library got wrong arguments.
      PositionalAxisError: it got positional axes that it does not support.
    """
    if isinstance(error, NameError) and is_of_library:
        if (text := names_text(error, name)) is not None:
            raise ArgumentTypeError(text) from error
        return
    if not isinstance(error, (TypeError, ValueError, IndexError)) or isinstance(
        error, NamedaxError
    ):
        return
    if is_of_library:
        if ErrorKind.STRING_OPERAND.matches(error):
            for value in others:
                reject_names(name, value)
        if isinstance(error, jax.errors.ConcretizationTypeError):
            _reject_unknown_shape(name, function, arrays, error)
    named = [
        x for x in arrays if isinstance(x, NamedArray) and any(dim is not None for dim in x.dims)
    ]
    if not named or ErrorKind.NAMED_ARRAY.matches(error) or ErrorKind.NAMED_INDEX.matches(error):
        return  # an error about a named array has its own explanation
    why = _axes_text(name, is_of_library, named)
    if not is_of_library:
        error.add_note(f"namedax: {why}")
        return
    text = str(error).split("\n", 1)[0].rstrip(".")
    own = ArgumentTypeError if isinstance(error, TypeError) else PositionalAxisError
    raise own(f"{name}: {text}. Here {why}") from error


def _axes_text(name: str, is_of_library: bool, named: Sequence[NamedArray]) -> str:
    """Return the axes on which a function acted, and a remedy."""
    seen = " and ".join(f"{positional_type_text(x)} of {type_text(x)}" for x in named)
    names = ", ".join(repr(dim) for dim in named[0].dims if dim is not None)
    remedy = (
        f"Convert the axes that it acts on to positions first with nx.positional(x, [{names}]), and"
        " name them again afterwards with nx.named."
    )
    if name == "matmul" and len(named) == 2:
        remedy = contraction_of(named) or remedy
    elif is_of_library:
        remedy += _with_names(name)
    return f"{name} acts on positional axes, and names are batch axes: it got {seen}. {remedy}"


def _reject_unknown_shape(
    name: str, function: Callable[..., object], arrays: Sequence[Any], error: Exception
) -> None:
    """Raise if a result's shape depends on unknown values and an argument can give it."""
    try:
        has = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return
    size = next((p for p in ("size", "length", "total_repeat_length") if p in has), None)
    if size is None:
        return
    types = [type_text(x) for x in arrays if isinstance(x, (NamedArray, jax.Array))]
    named = any(isinstance(x, NamedArray) for x in arrays)
    batch = "; names are batch axes, and all their elements share one shape" if named else ""
    raise ArgumentTypeError(
        f"{name}: the shape of the result would depend on the values of"
        f" {' and '.join(types) or 'its arguments'}, which are not known while tracing{batch}. Pass"
        f" {size}=, the size of the result, as a number."
    ) from error


# Replacements that take names, for functions whose namesake does not.
_OF_NAMES = {
    **dict.fromkeys(
        "reshape ravel flatten".split(), "nx.split_axis, nx.merge_axes or nx.rearrange"
    ),
    "broadcast_to": "nx.broadcast_to(x, named_shape={'new': 8})",
}


def _with_names(function: str) -> str:
    """Return a remedy with a call that takes names; empty if there is none."""
    if function in _OF_NAMES:
        return f" For axes with names write {_OF_NAMES[function]}."
    call = usage(function)
    return f" For axes with names write{call.removeprefix(' Write')}" if "axis" in call else ""


def contraction_of(operands: Sequence[NamedArray]) -> str:
    """Return a remedy that contracts an axis of all operands; empty if they share none."""
    shared = [
        dim
        for dim in operands[0].dims
        if dim is not None and all(dim in x.dims for x in operands[1:])
    ]
    if not shared:
        return ""
    if len(shared) == 1:
        return f"To contract their common axis write nx.dot(x, y, {shared[0]!r})."
    return f"To contract a common axis write nx.dot(x, y, axis), with one of {show_names(shared)}."
