"""`Record`: data classes without generated code at import time.

A data class takes a millisecond to create, and this package has dozens of internal ones. Public
ones are data classes.
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable
from typing import Any, ClassVar, Self, dataclass_transform

__all__ = ["Record"]


@dataclass_transform(frozen_default=True, field_specifiers=(dataclasses.field,))
class Record:
    """A class whose annotations are its fields.

    Records with equal fields are equal. With `frozen=False` fields may change, and records compare
    by identity.

    >>> from namedax.core.records import Record
    >>> class Point(Record):
    ...     x: int
    ...     y: int = 0
    >>> Point(1), Point(1) == Point(x=1, y=0), Point(1).replace(y=2)
    (Point(x=1, y=0), True, Point(x=1, y=2))
    """

    _fields: ClassVar[tuple[str, ...]]
    _names: ClassVar[frozenset[str]]
    _defaults: ClassVar[dict[str, Any]]
    _factories: ClassVar[dict[str, Callable[[], Any]]]
    _values: ClassVar[operator.attrgetter[Any]]

    def __init_subclass__(cls, *, frozen: bool = True) -> None:
        fields = cls._fields = tuple(cls.__annotations__)
        cls._names = frozenset(fields)
        given = {name: value for name, value in vars(cls).items() if name in cls._names}
        cls._factories = {
            name: value.default_factory
            for name, value in given.items()
            if isinstance(value, dataclasses.Field) and callable(value.default_factory)
        }
        cls._defaults = {name: value for name, value in given.items() if name not in cls._factories}
        for name in cls._factories:
            delattr(cls, name)
        cls._values = operator.attrgetter(*fields)
        if not frozen:
            for name in ("__eq__", "__hash__", "__setattr__", "__delattr__"):
                setattr(cls, name, getattr(object, name))

    def __init__(self, *args: object, **kwargs: object) -> None:
        fields, values = self._fields, self.__dict__
        if kwargs or len(args) != len(fields):
            values.update(self._defaults)
            values.update(kwargs)
            for name, make in self._factories.items():
                if name not in values:
                    values[name] = make()
            values.update(zip(fields, args, strict=False))
            if (
                len(args) > len(fields)
                or values.keys() != self._names
                or not kwargs.keys().isdisjoint(fields[: len(args)])
            ):
                raise TypeError(
                    f"{type(self).__qualname__} has the fields {fields}; got {len(args)} positional"
                    f" and {tuple(kwargs)}"
                )
        else:
            values.update(zip(fields, args, strict=True))

    def replace(self, **changes: object) -> Self:
        """Return a copy with other values in some fields."""
        return type(self)(**{name: getattr(self, name) for name in self._fields} | changes)

    def __eq__(self, other: object) -> bool:
        return (
            self._values(self) == other._values(other)
            if type(other) is type(self)
            else NotImplemented
        )

    def __hash__(self) -> int:
        return hash(self._values(self))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"cannot assign to field {name!r}")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"cannot delete field {name!r}")

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in self._fields)
        return f"{type(self).__qualname__}({fields})"
