"""Axis names, and keys of dicts, as JSON and back.

What Python holds equal is written alike: a `StrEnum`'s member as its string, a named tuple as a tuple. Nothing that is read makes Python
import or call anything: a member of an enumeration is looked up in modules that the program has imported, and only its class name and its
own name count when names are compared.
"""

from __future__ import annotations

import enum
import json
import numbers
import sys
from collections.abc import Hashable
from typing import Any

from namedax.errors import CheckpointError, format_value

__all__ = ["identity", "read_name", "written_name"]

STORABLE = "strings, numbers, bytes, members of enumerations, and tuples and frozensets of these"


def written_name(name: Hashable, op: str, what: str) -> Any:
    """A name as JSON.

    Args:
      name: the name of an axis, a part of one, or a key of a dict.
      op: the operation, as the user calls it.
      what: what it names, for the message.

    Raises:
      CheckpointError: it cannot be written such that the same name is read.

    >>> written_name(("layer", 0), "save", "an axis")
    {'tuple': ['layer', 0]}
    """
    data = _written(name)
    if data is _UNKNOWN:
        raise CheckpointError(
            f"{op}: {what} is {name!r}, of type {type(name).__name__}, which cannot be stored; a checkpoint holds {STORABLE}. Rename it "
            "to one of these (nx.rename for an axis)."
        )
    return data


_UNKNOWN = object()


def _written(name: Any) -> Any:
    if name is None:
        return None
    if isinstance(name, str):
        plain = "".join([str.__str__(name)])
        return plain if plain == name and hash(plain) == hash(name) else _written_member(name)
    if isinstance(name, enum.Enum):
        return _written_member(name)
    if isinstance(name, numbers.Number):
        return _written_number(name)
    if isinstance(name, bytes) and type(name).__eq__ is bytes.__eq__:
        return {"bytes": bytes(name).hex()}
    if isinstance(name, tuple) and type(name).__eq__ is tuple.__eq__:
        parts = [_written(part) for part in name]
        return _UNKNOWN if _UNKNOWN in parts else {"tuple": parts}
    if isinstance(name, frozenset) and type(name).__eq__ is frozenset.__eq__:
        parts = [_written(part) for part in name]
        return _UNKNOWN if _UNKNOWN in parts else {"frozenset": sorted(parts, key=json.dumps)}
    return _UNKNOWN


def _written_number(number: Any) -> Any:
    if number != number:  # it is not equal to itself, so no name that is read would be
        return _UNKNOWN
    value = complex(number)
    if isinstance(number, numbers.Integral) or (value.imag == 0 and value.real.is_integer()):
        return int(number if isinstance(number, numbers.Integral) else value.real)
    if number != value or hash(number) != hash(value):  # a fraction that no float is
        return _UNKNOWN
    return {"float": value.real.hex()} if value.imag == 0 else {"complex": [value.real.hex(), value.imag.hex()]}


def _written_member(member: Any) -> Any:
    kind = type(member)
    if not isinstance(member, enum.Enum) or kind.__members__.get(member.name) is not member:
        return _UNKNOWN  # of a string that is not equal to its text, or a union of flags
    return {"enum": f"{kind.__qualname__}.{member.name}", "module": kind.__module__}


def identity(data: Any) -> str:
    """What is the same for two written names if and only if they are the same name. The module of an enumeration does not count."""
    return json.dumps(_without_modules(data), sort_keys=True)


def _without_modules(data: Any) -> Any:
    if isinstance(data, list):
        return [_without_modules(part) for part in data]
    if isinstance(data, dict):
        return {key: _without_modules(value) for key, value in data.items() if key != "module"}
    return data


def read_name(data: Any, op: str) -> Any:
    """The name that was written as `data`.

    Raises:
      CheckpointError: it is a member of an enumeration that this program has not imported, or is not a name.

    >>> read_name({"tuple": ["layer", 0]}, "restore")
    ('layer', 0)
    """
    match data:
        case None | str() | int():
            return data
        case {"tuple": list(parts)}:
            return tuple(read_name(part, op) for part in parts)
        case {"frozenset": list(parts)}:
            return frozenset(read_name(part, op) for part in parts)
        case {"float": str(text)}:
            return float.fromhex(text)
        case {"complex": [str(real), str(imaginary)]}:
            return complex(float.fromhex(real), float.fromhex(imaginary))
        case {"bytes": str(text)}:
            return bytes.fromhex(text)
        case {"enum": str(member), "module": str(module)}:
            return _member(member, module, op)
    raise CheckpointError(
        f"{op}: the checkpoint has {format_value(data)} where a name was expected; it is damaged, or of a newer namedax."
    )


def _member(text: str, module: str, op: str) -> enum.Enum:
    # Through the dictionaries of modules and classes: an attribute could run code, or import something.
    *path, member = text.split(".")
    found: Any = sys.modules.get(module)
    for part in path:
        found = getattr(found, "__dict__", {}).get(part)
    if isinstance(found, enum.EnumMeta) and member in found.__members__:
        named: enum.Enum = found.__members__[member]
        return named
    raise CheckpointError(
        f"{op}: the checkpoint has the name {text} of an enumeration in module {module!r}, which this program has not imported, or which "
        "lacks it. Import the module first, or say what is stored with like=, whose names are used then."
    )
