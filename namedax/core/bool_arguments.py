"""Validate boolean arguments.

Python treats every string and list as true, so a value that is not a boolean is rejected first. The
annotation `bool` marks these parameters of a function. A call without any of them pays nothing.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from namedax.core.records import Record
from namedax.errors import ArgumentTypeError, format_value

__all__ = ["Flags", "check_flags", "flags_of"]


class Flags(Record):
    """The boolean parameters of a function.

    Attributes:
      defaults: their defaults, by name.
      places: the positions of those that may be given by position.
      names: the names of all of them.
      first: the number of leading positional arguments that are not boolean.
      axis: the number of positional arguments before `axis`; 0 if the function has no keyword
        `axis`.
    """

    defaults: Mapping[str, Any]
    places: Mapping[int, str]
    names: frozenset[str]
    first: int
    axis: int


_NONE = Flags({}, {}, frozenset(), sys.maxsize, 0)


def flags_of(function: Callable[..., Any]) -> Flags:
    """Return the boolean parameters of a function, without its decorators."""
    inner = inspect.unwrap(function)
    while isinstance(inner, functools.partial):
        inner = inspect.unwrap(inner.func)
    code, annotations = (
        getattr(inner, "__code__", None),
        getattr(inner, "__annotations__", None) or {},
    )
    found = [name for name, kind in annotations.items() if kind == "bool" or kind is bool]
    if code is None or not found:
        return _NONE
    by_place, count = code.co_varnames, code.co_argcount
    defaults = dict(zip(by_place[:count][::-1], (inner.__defaults__ or ())[::-1], strict=False)) | (
        inner.__kwdefaults__ or {}
    )
    flags = {name: defaults[name] for name in found if isinstance(defaults.get(name), bool)}
    if not flags:
        return _NONE
    places = {place: name for place, name in enumerate(by_place[:count]) if name in flags}
    known = by_place[: count + code.co_kwonlyargcount]
    axis = min(known.index("axis"), count) if "axis" in known else 0
    return Flags(flags, places, frozenset(flags), min(places, default=sys.maxsize), axis)


def check_flags(op: str, flags: Flags, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    """Raise if a boolean parameter is given a value that is not boolean.

    Raises:
      ArgumentTypeError: the value is a string, a list, an array with axes, or another object.
    """
    given = {name: args[place] for place, name in flags.places.items() if place < len(args)}
    for name, value in (
        given | {name: kwargs[name] for name in flags.names if name in kwargs}
    ).items():
        if isinstance(value, (bool, np.bool_)) or (type(value) is int and value in (0, 1)):
            continue
        if (value is None and not flags.defaults[name]) or (
            getattr(value, "ndim", None) == 0 and not hasattr(value, "dims")
        ):
            continue
        may_be_axis = type(value) is str and "axis" not in kwargs and len(args) <= flags.axis
        remedy = (
            f" Pass the axis name by keyword: axis={format_value(value)}." if may_be_axis else ""
        )
        raise ArgumentTypeError(
            f"{op}: {name}={format_value(value)} is neither True nor False.{remedy}"
        )
