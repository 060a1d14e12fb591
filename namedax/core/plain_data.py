"""Dataclasses as dicts, lists, strings and numbers for JSON, and back.

The annotations of the fields determine the form, and reading checks each of them. Fields of type
`Any` or `Hashable` may have values of several classes: these are written with their class. A field
with the metadata `{"plain": False}` is left out. A field with the metadata `{"plain": "dict"}` has
the form of its class: the methods `to_dict` and `from_dict` convert it. Reading never imports
anything, and calls only the classes of the annotations.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import math
import types
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

from namedax.core.records import Record

__all__ = ["Malformed", "from_plain", "to_plain"]


class Malformed(ValueError):
    """Data that cannot be written, or read: the place, and the fact about it."""


def to_plain(value: object, annotation: Any, classes: Collection[type] = ()) -> Any:
    """Convert a value to dicts, lists, strings and numbers.

    Args:
      value: the value, of this type.
      annotation: the type: a dataclass or a `Record`, or one of their fields' types.
      classes: dataclasses that values of type `Any` may have. Default: none.

    Raises:
      Malformed: a value has no such form.

    >>> from typing import Any
    >>> from namedax.core.plain_data import to_plain
    >>> to_plain({"a": ("x", 2)}, dict[str, Any])
    {'a': {'tuple': ['x', 2]}}
    """
    return _Writer(tuple(classes)).written(value, annotation, "")


def from_plain(data: object, annotation: Any, classes: Collection[type] = ()) -> Any:
    """Convert the result of `to_plain` back; the inverse of `to_plain`.

    Args:
      data: dicts, lists, strings and numbers.
      annotation: the type, as for `to_plain`.
      classes: as for `to_plain`. Default: none.

    Raises:
      Malformed: the data have another form.

    >>> from typing import Any
    >>> from namedax.core.plain_data import from_plain
    >>> from_plain({"a": {"tuple": ["x", 2]}}, dict[str, Any])
    {'a': ('x', 2)}
    """
    return _Reader(tuple(classes)).read(data, annotation, "")


class _OwnForm(NamedTuple):
    """The type of a field whose class has the methods `to_dict` and `from_dict`."""

    cls: Any


@functools.lru_cache(maxsize=256)
def _fields(cls: type) -> dict[str, Any] | None:
    """Return the fields of a dataclass or a record with their types; `None` for other classes."""
    if dataclasses.is_dataclass(cls):
        hints = get_type_hints(cls)
        forms = {field.name: field.metadata.get("plain", True) for field in dataclasses.fields(cls)}
        return {
            name: _OwnForm(hints[name]) if form == "dict" else hints[name]
            for name, form in forms.items()
            if form
        }
    if isinstance(cls, type) and issubclass(cls, Record):
        return dict(inspect.get_annotations(cls, eval_str=True))
    return None


def _is_any(annotation: Any) -> bool:
    return annotation in (Any, object, Hashable)


def _parts(annotation: Any) -> tuple[Any, tuple[Any, ...]]:
    """Return the kind of a type and its arguments; a union has the kind `Union`."""
    origin = get_origin(annotation)
    if origin in (Union, types.UnionType):
        return Union, get_args(annotation)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return dict, get_args(annotation)
    if origin in (tuple, Literal):
        return origin, get_args(annotation)
    if isinstance(origin, type) and issubclass(origin, Sequence):
        return list, get_args(annotation)
    return (origin or annotation), ()


_ELLIPSIS = {"ellipsis": True}


class _Writer:
    def __init__(self, classes: tuple[type, ...]):
        self._classes = classes

    def written(self, value: Any, annotation: Any, where: str) -> Any:
        if isinstance(annotation, _OwnForm):
            return value.to_dict()
        if _is_any(annotation):
            return self._tagged(value, where)
        kind, args = _parts(annotation)
        if kind is Union:
            several = sum(_fields(arm) is not None for arm in args) > 1
            for arm in args:
                if _matches(value, arm):
                    data = self.written(value, arm, where)
                    return {"class": arm.__name__, **data} if several and _fields(arm) else data
            raise Malformed(f"{where} is {_shown(value)}")
        if kind is Literal:
            return value
        if kind is dict:
            if args[0] is str:
                return {
                    self.written(key, str, where): self.written(v, args[1], f"{where}[{key!r}]")
                    for key, v in value.items()
                }
            return [
                [self.written(k, args[0], where), self.written(v, args[1], f"{where}[{k!r}]")]
                for k, v in value.items()
            ]
        if kind in (tuple, list):
            return [
                self.written(part, part_type, f"{where}[{i}]")
                for i, (part, part_type) in enumerate(
                    zip(value, _part_types(kind, args, len(value)), strict=True)
                )
            ]
        if (fields := _fields(kind)) is not None:
            return {
                name: self.written(getattr(value, name), hint, f"{where}.{name}".lstrip("."))
                for name, hint in fields.items()
            }
        return self._number(value, kind, where)

    def _number(self, value: Any, kind: type, where: str) -> Any:
        """Write a number, a string or `None`; NumPy's numbers are written as Python's."""
        if value is None and kind is type(None):
            return None
        if value is ... and kind is types.EllipsisType:
            return _ELLIPSIS
        if kind in (int, float) and hasattr(value, "__float__") and not isinstance(value, bool):
            number = int(value) if kind is int or isinstance(value, int) else float(value)
            if math.isfinite(number):
                return number
        elif kind is str and isinstance(value, str):
            return "".join([value])
        elif kind is bool and isinstance(value, bool):
            return value
        raise Malformed(f"{where} is {_shown(value)}")

    def _tagged(self, value: Any, where: str) -> Any:
        if value is None or type(value) in (bool, int):
            return value
        if isinstance(value, str) and (text := "".join([value])) == value:
            return text  # a subclass with its own equality is not the same name
        if type(value) is float and math.isfinite(value):
            return value
        if value is ...:
            return _ELLIPSIS
        if type(value) in (tuple, list):
            parts = [self._tagged(part, f"{where}[{i}]") for i, part in enumerate(value)]
            return {"tuple": parts} if type(value) is tuple else parts
        if type(value) is dict:
            return {
                "dict": [
                    [self._tagged(k, where), self._tagged(v, f"{where}[{k!r}]")]
                    for k, v in value.items()
                ]
            }
        if type(value) in self._classes:
            return {"class": type(value).__name__, **self.written(value, type(value), where)}
        raise Malformed(f"{where or 'the value'} is {_shown(value)}")


def _part_types(kind: Any, args: tuple[Any, ...], count: int) -> list[Any]:
    if kind is tuple and (len(args) != 2 or args[1] is not ...):
        return list(args)
    return [args[0]] * count


def _matches(value: object, annotation: Any) -> bool:
    """Return True if a value has a type of a union."""
    if _is_any(annotation):
        return True
    kind, args = _parts(annotation)
    if kind is Literal:
        return any(value is arg or (value == arg and type(value) is type(arg)) for arg in args)
    if kind is dict:
        return isinstance(value, Mapping)
    if kind is list:
        return isinstance(value, list)
    if kind is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, kind)


def _shown(value: object) -> str:
    text = repr(value)
    shown = text if len(text) <= 60 else text[:57] + "..."
    return f"{shown}, of type {type(value).__name__}"


class _Reader:
    def __init__(self, classes: tuple[type, ...]):
        self._classes = {cls.__name__: cls for cls in classes}

    def read(self, data: Any, annotation: Any, where: str) -> Any:
        if isinstance(annotation, _OwnForm):
            return _made(annotation.cls.from_dict, where, data)
        if _is_any(annotation):
            return self._tagged(data, where)
        kind, args = _parts(annotation)
        if kind is Union:
            return self._one_of(data, args, where)
        if kind is Literal:
            if not _matches(data, annotation):
                raise Malformed(f"{where} is {_shown(data)}, not one of {args}")
            return data
        if kind is dict:
            return self._mapping(data, args, where)
        if kind in (tuple, list):
            parts = self._list(data, where)
            kinds = _part_types(kind, args, len(parts))
            if len(kinds) != len(parts):
                raise Malformed(f"{where} has {len(parts)} elements, not {len(kinds)}")
            read = (
                self.read(part, part_type, f"{where}[{i}]")
                for i, (part, part_type) in enumerate(zip(parts, kinds, strict=True))
            )
            return tuple(read) if kind is tuple else list(read)
        if _fields(kind) is not None:
            return self._instance(data, kind, where)
        if kind is types.EllipsisType and data == _ELLIPSIS:
            return ...
        if kind is type(None):
            if data is not None:
                raise Malformed(f"{where} is {_shown(data)}, not null")
            return None
        return _number(data, kind, where)

    def _one_of(self, data: Any, arms: tuple[Any, ...], where: str) -> Any:
        made = {arm.__name__: arm for arm in arms if _fields(arm) is not None}
        if len(made) > 1:
            rest = dict(self._dict(data, where))
            name = rest.pop("class", None)
            if not isinstance(name, str) or name not in made:
                raise Malformed(f"{where}.class is {_shown(name)}, not one of {list(made)}")
            return self.read(rest, made[name], where)
        reasons = []
        for arm in arms:
            try:
                return self.read(data, arm, where)
            except Malformed as error:
                reasons.append(error)
        if data is not None and type(None) in arms and len(arms) == 2:
            raise reasons[1 - arms.index(type(None))]
        raise reasons[0]

    def _instance(self, data: Any, cls: Any, where: str) -> Any:
        fields = _fields(cls) or {}
        given = self._dict(data, where)
        for name in fields:
            if name not in given:
                raise Malformed(f"{where or 'the data'} lacks the key {name!r}")
        for name in given:
            if name not in fields:
                raise Malformed(f"{where or 'the data'} has the unknown key {_shown(name)}")
        values = {
            name: self.read(given[name], hint, f"{where}.{name}".lstrip("."))
            for name, hint in fields.items()
        }
        return _made(functools.partial(cls, **values), where)

    def _mapping(self, data: Any, args: tuple[Any, ...], where: str) -> dict[Any, Any]:
        if args[0] is str:
            return {
                key: self.read(value, args[1], f"{where}[{key!r}]")
                for key, value in self._dict(data, where).items()
            }
        found: dict[Any, Any] = {}
        for i, pair in enumerate(self._list(data, where)):
            key, value = self._pair(pair, f"{where}[{i}]")
            key = self._key(self.read(key, args[0], f"{where}[{i}]"), f"{where}[{i}]")
            found[key] = self.read(value, args[1], f"{where}[{key!r}]")
        return found

    def _tagged(self, data: Any, where: str) -> Any:
        if data is None or isinstance(data, (bool, int, str)):
            return data
        if isinstance(data, float):
            return _number(data, float, where)
        if isinstance(data, list):
            return [self._tagged(part, f"{where}[{i}]") for i, part in enumerate(data)]
        given = self._dict(data, where)
        if given == _ELLIPSIS:
            return ...
        if given.keys() == {"tuple"}:
            parts = self._list(given["tuple"], where)
            return tuple(self._tagged(part, f"{where}[{i}]") for i, part in enumerate(parts))
        if given.keys() == {"dict"}:
            pairs = [self._pair(pair, where) for pair in self._list(given["dict"], where)]
            return {
                self._key(self._tagged(k, where), where): self._tagged(v, where) for k, v in pairs
            }
        name = given.get("class")
        if isinstance(name, str) and name in self._classes:
            rest = {key: value for key, value in given.items() if key != "class"}
            return self.read(rest, self._classes[name], where)
        raise Malformed(f"{where or 'the value'} is {_shown(data)}")

    def _key(self, key: Any, where: str) -> Any:
        try:
            hash(key)
        except TypeError:
            raise Malformed(f"{where} is {_shown(key)}, not a name") from None
        return key

    def _pair(self, data: Any, where: str) -> tuple[Any, Any]:
        if not isinstance(data, (list, tuple)) or len(data) != 2:
            raise Malformed(f"{where} is {_shown(data)}, not a pair")
        return data[0], data[1]

    def _dict(self, data: Any, where: str) -> Mapping[str, Any]:
        if not isinstance(data, Mapping) or not all(isinstance(key, str) for key in data):
            raise Malformed(f"{where or 'the data'} is {_shown(data)}, not an object")
        return data

    def _list(self, data: Any, where: str) -> Sequence[Any]:
        if not isinstance(data, (list, tuple)):
            raise Malformed(f"{where or 'the data'} is {_shown(data)}, not a list")
        return data


def _made(make: Callable[..., Any], where: str, *args: Any) -> Any:
    """Call a function of the class of a value, which may reject the data."""
    try:
        return make(*args)
    except (ValueError, TypeError) as error:
        # Without the code of the class, and without the period.
        reason = str(error.args[0] if error.args else error).rstrip(".")
        raise Malformed(f"{where or 'the data'}: {reason}") from error


_WORDS = {
    int: "an integer of 64 bits",
    float: "a finite number",
    bool: "a boolean",
    str: "a string",
}


def _number(data: Any, kind: Any, where: str) -> Any:
    """Read a number or a string of this type."""
    if kind is float and isinstance(data, (int, float)) and not isinstance(data, bool):
        try:
            if math.isfinite(data):
                return data
        except OverflowError:  # an integer beyond the range of floating-point numbers
            pass
    elif kind in _WORDS and type(data) is kind and (kind is not int or abs(data) < 1 << 63):
        return data
    raise Malformed(f"{where} is {_shown(data)}, not {_WORDS.get(kind, kind)}")
