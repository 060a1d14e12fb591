"""Conversion of axis names and dict keys to JSON and back.

Values that are equal in Python are written alike: a member of a `StrEnum` as its string, a named
tuple as a tuple. Reading never imports or calls anything. A member of an enumeration is looked up
in modules that the program has imported. Only its class name and its own name count when names are
compared.
"""

from __future__ import annotations

import enum
import json
import numbers
import sys
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, TypeAlias

from namedax.errors import CheckpointError, format_value

__all__ = ["Json", "identity", "read_name", "written_name"]

#: A value that JSON can represent.
Json: TypeAlias = str | int | float | Sequence["Json"] | Mapping[str, "Json"] | None

STORABLE = "strings, numbers, bytes, members of enumerations, and tuples and frozensets of these"


def written_name(name: Hashable, op: str, what: str) -> Json:
    """Convert a name to JSON.

    Args:
      name: the name of an axis, a part of one, or a key of a dict.
      op: the public name of the operation.
      what: a description of the named object, for the message.

    Raises:
      CheckpointError: the name cannot be written such that an equal name is read.

    >>> from namedax.checkpoints.written_names import written_name
    >>> written_name(("layer", 0), "save", "an axis")
    {'tuple': ['layer', 0]}
    """
    data = _written(name)
    if data is _UNKNOWN:
        raise CheckpointError(
            f"{op}: {what} is {name!r}, of type {type(name).__name__}, which cannot be stored. A"
            f" checkpoint can store {STORABLE}. Rename it to one of these (nx.rename for an axis)."
        )
    return data


_UNKNOWN = object()


def _written(name: object) -> Any:
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
    if number != number:  # NaN is not equal to itself, so no restored name would be
        return _UNKNOWN
    value = complex(number)
    if isinstance(number, numbers.Integral) or (value.imag == 0 and value.real.is_integer()):
        return int(number if isinstance(number, numbers.Integral) else value.real)
    if number != value or hash(number) != hash(value):  # a fraction that is not a float
        return _UNKNOWN
    return (
        {"float": value.real.hex()}
        if value.imag == 0
        else {"complex": [value.real.hex(), value.imag.hex()]}
    )


def _written_member(member: object) -> Any:
    kind: Any = type(member)
    if not isinstance(member, enum.Enum) or kind.__members__.get(member.name) is not member:
        return _UNKNOWN  # a string subclass that is not equal to its text, or a union of flags
    return {"enum": f"{kind.__qualname__}.{member.name}", "module": kind.__module__}


def identity(data: Json) -> str:
    """Return a text that identifies a written name, without modules of enumerations."""
    return json.dumps(_without_modules(data), sort_keys=True)


def _without_modules(data: Json) -> Json:
    if isinstance(data, list):
        return [_without_modules(part) for part in data]
    if isinstance(data, dict):
        return {key: _without_modules(value) for key, value in data.items() if key != "module"}
    return data


def read_name(data: object, op: str) -> Hashable:
    """Return the name that was written as `data`.

    Raises:
      CheckpointError: it is a member of an enumeration that this program has not imported, or it is
        not a name.

    >>> from namedax.checkpoints.written_names import read_name
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
        f"{op}: the checkpoint has {format_value(data)} in place of a name: it is damaged, or from"
        " a newer namedax. Restore another checkpoint."
    )


def _member(text: str, module: str, op: str) -> enum.Enum:
    # Looked up in the dictionaries of modules and classes, because attribute access could run code,
    # or import something.
    *path, member = text.split(".")
    found: Any = sys.modules.get(module)
    for part in path:
        found = getattr(found, "__dict__", {}).get(part)
    if isinstance(found, enum.EnumMeta) and member in found.__members__:
        named: enum.Enum = found.__members__[member]
        return named
    raise CheckpointError(
        f"{op}: the checkpoint has the name {text} of an enumeration in module {module!r}, which"
        " this program has not imported, or which lacks it. Import the module first, or pass like="
        " with the names to use."
    )
