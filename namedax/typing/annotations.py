"""Annotations that contain array types: tuples, containers, records, unions and aliases."""

from __future__ import annotations

import collections.abc
import dataclasses
import functools
import re
import types
import typing
from typing import Any

from namedax.errors import ArrayTypeError
from namedax.typing.array_types import _ELEMENTS, ArrayType, ElementType
from namedax.typing.problems import Checker, Problem, Sizes, Where, came, unreadable

__all__ = ["checker_of"]


@dataclasses.dataclass(frozen=True, slots=True)
class _Items:
    """A tuple with one annotation per item."""

    items: tuple[Checker | None, ...]
    text: str

    def problem(self, value: Any, sizes: Sizes, where: Where) -> Problem | None:
        if not isinstance(value, tuple) or len(value) != len(self.items):
            return Problem(where, self.text, came(value), ())
        for i, item in enumerate(self.items):
            if item is not None and (problem := item.problem(value[i], sizes, (where, f"[{i}]"))):
                return problem
        return None


@dataclasses.dataclass(frozen=True, slots=True)
class _Each:
    """A sequence, or the values of a mapping, with one annotation for all items."""

    kind: type
    item: Checker
    text: str

    def problem(self, value: Any, sizes: Sizes, where: Where) -> Problem | None:
        if not isinstance(value, self.kind):
            return Problem(where, self.text, came(value), ())
        contents: Any = value
        items = contents.items() if isinstance(value, collections.abc.Mapping) else enumerate(contents)
        for place, item in items:
            if problem := self.item.problem(item, sizes, (where, f"[{place!r}]")):
                return problem
        return None


class _Record:
    """A dataclass, a NamedTuple or a TypedDict with annotated fields. The fields are read at first use: a class may hold itself."""

    def __init__(self, kind: Any):
        self._kind = kind

    @functools.cached_property
    def _fields(self) -> dict[str, Checker]:
        kind = self._kind
        try:
            hints = typing.get_type_hints(kind, include_extras=True)
        except Exception as error:
            # What an annotation says that cannot be read is unknown. That is an error where it seems to be an array type, and
            # none in a class of someone else, which may import the names for static checkers only.
            texts = [text for base in kind.__mro__ for text in vars(base).get("__annotations__", {}).values()]
            if any(re.search(rf"\b({'|'.join(_ELEMENTS)})\s*\[", text) for text in texts if isinstance(text, str)):
                raise unreadable(f"the annotations of class {kind.__qualname__}", error) from error
            return {}
        if dataclasses.is_dataclass(kind):
            hints = {field.name: hints.get(field.name) for field in dataclasses.fields(kind)}
        return {name: checker for name, hint in hints.items() if (checker := checker_of(hint)) is not None}

    def problem(self, value: Any, sizes: Sizes, where: Where) -> Problem | None:
        fields = self._fields
        if not fields:
            return None
        mapping = typing.is_typeddict(self._kind)
        if not isinstance(value, dict if mapping else self._kind):
            return Problem(where, self._kind.__qualname__, came(value), ())
        for name, checker in fields.items():
            if mapping and name not in value:
                if name in self._kind.__required_keys__:
                    return Problem(where, self._kind.__qualname__, came(value), (f"it lacks the key {name!r}",))
                continue
            item = value[name] if mapping else getattr(value, name)
            if problem := checker.problem(item, sizes, (where, f"[{name!r}]" if mapping else f".{name}")):
                return problem
        return None


@dataclasses.dataclass(frozen=True, slots=True)
class _All:
    """Everything that one value must fit, as the array types in one `Annotated`."""

    checkers: tuple[Checker, ...]

    def problem(self, value: Any, sizes: Sizes, where: Where) -> Problem | None:
        for checker in self.checkers:
            if problem := checker.problem(value, sizes, where):
                return problem
        return None


@dataclasses.dataclass(frozen=True, slots=True)
class _Instance:
    """A class among the alternatives of a union. Elsewhere a class is not checked."""

    kinds: tuple[type, ...]
    text: str

    def problem(self, value: Any, sizes: Sizes, where: Where) -> Problem | None:
        return None if isinstance(value, self.kinds) else Problem(where, self.text, came(value), ())


@dataclasses.dataclass(frozen=True, slots=True)
class _Union:
    """Alternatives. The first that fits is taken, and binds size variables."""

    alternatives: tuple[Checker, ...]
    text: str

    def problem(self, value: Any, sizes: Sizes, where: Where) -> Problem | None:
        problems = []
        for alternative in self.alternatives:
            trial = dict(sizes)
            problem = alternative.problem(value, trial, where)
            if problem is None:
                sizes.update(trial)
                return None
            problems.append((alternative, problem))
        # Of interest is what differs from the alternatives that are about arrays.
        about = [problem for alternative, problem in problems if not isinstance(alternative, _Instance)]
        if len(about) == 1 and about[0].where != where:
            return about[0]
        if len(about) == 1:
            return dataclasses.replace(about[0], expected=self.text)
        differences = [f"for {p.expected}: {'; '.join(p.differences) or 'it is ' + p.came}" for p in about]
        return Problem(where, self.text, came(value), tuple(differences))


@dataclasses.dataclass(frozen=True, slots=True)
class _Alias:
    """A `type` statement, whose value is read at first use: it may contain itself."""

    alias: Any

    def problem(self, value: Any, sizes: Sizes, where: Where) -> Problem | None:
        checker = checker_of(self.alias.__value__)
        return None if checker is None else checker.problem(value, sizes, where)


def _text_of(annotation: Any) -> str:
    if annotation is None or annotation is type(None):
        return "None"
    if isinstance(annotation, type) and typing.get_origin(annotation) is None:
        return annotation.__qualname__.rpartition(".")[2]
    return repr(annotation).replace("typing.", "")


def checker_of(annotation: Any) -> Checker | None:
    """The checker that compares values with an annotation; `None` where nothing in it is an array type."""
    if isinstance(annotation, ArrayType):
        return annotation
    try:
        hash(annotation)
    except TypeError:  # an Annotated whose metadata is a list
        return _new_checker(annotation)
    return _remembered_checker(annotation, repr(annotation))  # to Python, A | B equals B | A


@functools.lru_cache(maxsize=1024)
def _remembered_checker(annotation: Any, text: str) -> Checker | None:
    return _new_checker(annotation)


def _new_checker(annotation: Any) -> Checker | None:
    if isinstance(annotation, ElementType):
        return annotation.any_shape
    if isinstance(annotation, (str, typing.ForwardRef)):
        text = annotation if isinstance(annotation, str) else annotation.__forward_arg__
        raise ArrayTypeError(f"check: the annotation {text!r} is a string here; write it without quotes.")
    if isinstance(annotation, typing.NewType):
        return checker_of(annotation.__supertype__)
    if isinstance(annotation, getattr(typing, "TypeAliasType", ())):
        return _Alias(annotation)
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        own = [x for x in annotation.__metadata__ if isinstance(x, (ArrayType, ElementType))]
        found = [checker for x in own if (checker := checker_of(x)) is not None]
        return checker_of(args[0]) if not found else found[0] if len(found) == 1 else _All(tuple(found))
    if origin is typing.Union or origin is types.UnionType:
        return _new_union(annotation, args)
    if origin in (typing.Final, typing.ClassVar, typing.Required, typing.NotRequired):
        return checker_of(args[0])
    if origin is tuple and not (len(args) == 2 and args[1] is ...):
        items = tuple(checker_of(arg) for arg in args)
        return _Items(items, _text_of(annotation)) if any(item is not None for item in items) else None
    kind = annotation if origin is None else origin
    if not isinstance(kind, type):
        return None
    if args and issubclass(kind, (collections.abc.Sequence, collections.abc.Mapping)):
        item = checker_of(args[1] if issubclass(kind, collections.abc.Mapping) and len(args) == 2 else args[0])
        return _Each(kind, item, _text_of(annotation)) if item is not None else None
    if dataclasses.is_dataclass(kind) or typing.is_typeddict(kind) or (issubclass(kind, tuple) and hasattr(kind, "_fields")):
        return _Record(kind)
    return None


def _new_union(annotation: Any, args: tuple[Any, ...]) -> Checker | None:
    checkers = [checker_of(arg) for arg in args]
    if all(checker is None for checker in checkers):
        return None
    alternatives: list[Checker] = []
    for arg, checker in zip(args, checkers, strict=True):
        kind = typing.get_origin(arg) or arg
        if checker is not None and not isinstance(checker, _Record):
            alternatives.append(checker)
            continue
        # Python's numbers are a tower for annotations: an int is a float.
        kinds = {float: (float, int), complex: (complex, float, int)}.get(kind, (kind,))
        instance = _Instance((dict,) if typing.is_typeddict(kind) else kinds, _text_of(arg))
        try:
            instance.problem(None, {}, "")
        except TypeError:
            return None  # Any, a TypeVar, a Literal, a Protocol: it could be anything
        alternatives.append(instance if checker is None else _All((instance, checker)))
    return _Union(tuple(alternatives), " | ".join(map(_text_of, args)))
