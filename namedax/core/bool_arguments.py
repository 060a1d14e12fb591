"""Arguments that are a yes or a no: what is neither is refused before Python takes it for a yes, as it does of every word and list.

Which parameters these are the function itself says, by the annotation `bool`. A call without any of them pays nothing.
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
    """The parameters of a function that are a yes or a no.

    Attributes:
      defaults: what each is if it is left out, by name.
      places: where those stand that may be given by position.
      names: all of them.
      first: how many arguments by position have none of them.
      axis: how many arguments by position do not say the axis; 0 where the function takes none by keyword.
    """

    defaults: Mapping[str, Any]
    places: Mapping[int, str]
    names: frozenset[str]
    first: int
    axis: int


_NONE = Flags({}, {}, frozenset(), sys.maxsize, 0)


def flags_of(function: Callable[..., Any]) -> Flags:
    """Those of a function, without its decorators."""
    inner = inspect.unwrap(function)
    while isinstance(inner, functools.partial):
        inner = inspect.unwrap(inner.func)
    code, annotations = getattr(inner, "__code__", None), getattr(inner, "__annotations__", None) or {}
    found = [name for name, kind in annotations.items() if kind == "bool" or kind is bool]
    if code is None or not found:
        return _NONE
    by_place, count = code.co_varnames, code.co_argcount
    defaults = dict(zip(by_place[:count][::-1], (inner.__defaults__ or ())[::-1], strict=False)) | (inner.__kwdefaults__ or {})
    flags = {name: defaults[name] for name in found if isinstance(defaults.get(name), bool)}
    if not flags:
        return _NONE
    places = {place: name for place, name in enumerate(by_place[:count]) if name in flags}
    known = by_place[: count + code.co_kwonlyargcount]
    axis = min(known.index("axis"), count) if "axis" in known else 0
    return Flags(flags, places, frozenset(flags), min(places, default=sys.maxsize), axis)


def check_flags(op: str, flags: Flags, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    """Raises where one of them is given and is neither a yes nor a no.

    Raises:
      ArgumentTypeError: it is a word, a list, an array with axes, or another object.
    """
    given = {name: args[place] for place, name in flags.places.items() if place < len(args)}
    for name, value in (given | {name: kwargs[name] for name in flags.names if name in kwargs}).items():
        if isinstance(value, (bool, np.bool_)) or (type(value) is int and value in (0, 1)):
            continue
        if (value is None and not flags.defaults[name]) or (getattr(value, "ndim", None) == 0 and not hasattr(value, "dims")):
            continue
        may_be_axis = type(value) is str and "axis" not in kwargs and len(args) <= flags.axis
        remedy = f" The name of the axis goes by keyword, axis={format_value(value)}." if may_be_axis else ""
        raise ArgumentTypeError(f"{op}: {name}={format_value(value)} is neither True nor False.{remedy}")
