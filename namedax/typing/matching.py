"""The differences between a value and an annotation: an array type, or an annotation that contains array types.

An annotation is read once and becomes a function, `compare(value, sizes, where)`. The function returns the differences or
`None`, and adds new size variables to `sizes`.
"""

from __future__ import annotations

import dataclasses
import functools
import re
import types
import typing
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

from namedax.errors import ArrayTypeError
from namedax.typing.array_types import ELEMENT_TYPES, ArrayType, ElementType, Size
from namedax.typing.problems import Problem, Sizes, array_problem, no_array_problem, see, union_problem, unreadable

__all__ = ["Compare", "read"]

Compare = Callable[[Any, Sizes, str], Problem | None]

_UNIONS = (typing.Union, types.UnionType)
_QUALIFIERS = (typing.Final, typing.ClassVar, typing.Required, typing.NotRequired)
_TYPE_STATEMENT: Any = getattr(typing, "TypeAliasType", ())  # since Python 3.12


def read(annotation: Any) -> Compare | None:
    """Return a function that compares values with an annotation; `None` if it contains no array type."""
    if isinstance(annotation, ElementType):
        annotation = ArrayType(annotation, (...,), {}, True)
    if isinstance(annotation, ArrayType):
        return functools.partial(_array, annotation)
    if isinstance(annotation, (str, typing.ForwardRef)):
        text = annotation if isinstance(annotation, str) else annotation.__forward_arg__
        raise ArrayTypeError(f"check: the annotation {text!r} is a string. Write it without quotes.")
    if isinstance(annotation, _TYPE_STATEMENT):
        return functools.partial(_alias, annotation)
    kind = typing.get_origin(annotation) or annotation
    if _is_record(kind):
        return functools.partial(_record, kind)
    args = _inside(annotation, kind)
    inside = [read(arg) for arg in args]
    if not any(inside):
        return None
    if kind in _UNIONS:
        return _union(args, inside)
    if kind is tuple and ... not in typing.get_args(annotation):
        return functools.partial(_tuple, annotation, inside)
    if _is_container(kind):
        [compare] = filter(None, inside)
        return functools.partial(_each, annotation, kind, compare)
    return functools.partial(_all, inside)


def _is_container(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, (Sequence, Mapping))


def _inside(annotation: Any, kind: Any) -> tuple[Any, ...]:
    """Return the annotations inside another one: of the same value, of alternatives, or of items."""
    args = typing.get_args(annotation)
    if isinstance(annotation, typing.NewType):
        return (annotation.__supertype__,)
    if kind is typing.Annotated:
        return tuple(x for x in annotation.__metadata__ if isinstance(x, (ArrayType, ElementType))) or args[:1]
    if any(kind is one for one in (*_UNIONS, *_QUALIFIERS, tuple)):
        return tuple(arg for arg in args if arg is not ...)
    return args[-1:] if _is_container(kind) else ()


def _text_of(annotation: Any) -> str:
    if annotation is type(None):
        return "None"
    if isinstance(annotation, type) and typing.get_origin(annotation) is None:
        return annotation.__qualname__.rpartition(".")[2]
    return repr(annotation).replace("typing.", "")


# --- comparison functions -------------------------------------------------------------------------------------------


def _array(want: ArrayType, value: Any, sizes: Sizes, where: str) -> Problem | None:
    have = see(value)
    if have is None:
        return no_array_problem(value, want, where)
    positional = want.sizes(len(have.shape))
    axes: list[tuple[Hashable, Size, int]] = [(i, size, have.shape[i]) for i, size in enumerate(positional or ())]
    axes += [(name, size, have.named[name]) for name, size in want.names.items() if name in have.named]
    wrong = []
    for axis, size, n in axes:
        wanted = sizes.setdefault(size, (n, where, axis))[0] if isinstance(size, str) else size
        if wanted is not None and wanted != n:
            wrong.append((axis, size, n))
    names = want.names.keys() <= have.named.keys() if want.open else want.names.keys() == have.named.keys()
    if names and positional is not None and not wrong and want.element.has(have.dtype, weak=have.weak):
        return None
    return array_problem(value, have, want, wrong, sizes, where)


def _all(inside: Sequence[Compare | None], value: Any, sizes: Sizes, where: str) -> Problem | None:
    """Compare one value with several annotations, such as the array types in one `Annotated`."""
    return next(filter(None, (compare(value, sizes, where) for compare in inside if compare)), None)


def _tuple(annotation: Any, inside: Sequence[Compare | None], value: Any, sizes: Sizes, where: str) -> Problem | None:
    if not isinstance(value, tuple) or len(value) != len(inside):
        return Problem(where, _text_of(annotation), value)
    for i, compare in enumerate(inside):
        if compare and (problem := compare(value[i], sizes, f"{where}[{i}]")):
            return problem
    return None


def _each(annotation: Any, kind: type, compare: Compare, value: Any, sizes: Sizes, where: str) -> Problem | None:
    """Compare a sequence, or the values of a mapping, with one annotation for all items."""
    if not isinstance(value, kind):
        return Problem(where, _text_of(annotation), value)
    items: Any = value
    for place, item in items.items() if isinstance(value, Mapping) else enumerate(items):
        if problem := compare(item, sizes, f"{where}[{place!r}]"):
            return problem
    return None


def _is_record(kind: Any) -> bool:
    """Return True for a dataclass, a TypedDict or a NamedTuple."""
    return isinstance(kind, type) and (
        dataclasses.is_dataclass(kind) or typing.is_typeddict(kind) or (issubclass(kind, tuple) and hasattr(kind, "_fields"))
    )


def _record(kind: Any, value: Any, sizes: Sizes, where: str) -> Problem | None:
    fields, is_dict = _fields(kind), typing.is_typeddict(kind)
    if fields and not isinstance(value, dict if is_dict else kind):
        return Problem(where, kind.__qualname__, value)
    for name, compare in fields.items():
        if is_dict and name not in value:
            if name in kind.__required_keys__:
                return Problem(where, kind.__qualname__, value, (f"it lacks the key {name!r}",))
            continue
        item, place = (value[name], f"{where}[{name!r}]") if is_dict else (getattr(value, name), f"{where}.{name}")
        if problem := compare(item, sizes, place):
            return problem
    return None


@functools.lru_cache(maxsize=1024)
def _fields(kind: Any) -> Mapping[str, Compare]:
    """Return the comparisons of the fields with array types; evaluated on first use, because a class may contain itself."""
    try:
        hints = typing.get_type_hints(kind, include_extras=True)
    except Exception as error:
        # An annotation that cannot be evaluated is unknown. That is an error if it seems to be an array type. It is no error in
        # a class of another library, which may import the names for static checkers only.
        texts = [text for base in kind.__mro__ for text in vars(base).get("__annotations__", {}).values()]
        if any(re.search(rf"\b({'|'.join(map(repr, ELEMENT_TYPES))})\s*\[", text) for text in texts if isinstance(text, str)):
            raise unreadable(f"the annotations of class {kind.__qualname__}", error) from error
        return {}
    if dataclasses.is_dataclass(kind):
        hints = {field.name: hints.get(field.name) for field in dataclasses.fields(kind)}
    return {name: compare for name, hint in hints.items() if (compare := read(hint))}


def _alias(alias: Any, value: Any, sizes: Sizes, where: str) -> Problem | None:
    compare = _value_of(alias)
    return compare and compare(value, sizes, where)


@functools.lru_cache(maxsize=1024)
def _value_of(alias: Any) -> Compare | None:
    """Read the value of a `type` statement; evaluated on first use, because it may contain itself."""
    return read(alias.__value__)


def _union(annotations: Sequence[Any], inside: Sequence[Compare | None]) -> Compare:
    """Return a comparison that takes the first matching alternative, which binds size variables."""
    classes = [_class_of(annotation) for annotation in annotations]

    def compare_union(value: Any, sizes: Sizes, where: str) -> Problem | None:
        if value is None and type(None) in annotations:
            return None
        problems = []
        for annotation, kind, compare in zip(annotations, classes, inside, strict=True):
            trial = dict(sizes)
            if not isinstance(value, kind):
                problem: Problem | None = Problem(where, _text_of(annotation), value)
            else:
                problem = compare and compare(value, trial, where)
            if problem is None:
                sizes.update(trial)
                return None
            if compare:
                problems.append(problem)
        return union_problem(value, " | ".join(map(_text_of, annotations)), problems, where)

    return compare_union


def _class_of(annotation: Any) -> Any:
    """Return the class of a value of one alternative of a union; `object` if Python cannot test it (a Literal, a Protocol)."""
    kind = typing.get_origin(annotation) or annotation
    if kind is typing.Annotated:  # an array type does not determine the class: NamedArray and jax.Array both match it
        return object if read(annotation) else _class_of(typing.get_args(annotation)[0])
    # Annotations follow Python's numeric tower: an int is a float.
    kind = {float: (float, int), complex: (complex, float, int)}.get(kind, dict if typing.is_typeddict(kind) else kind)
    try:
        isinstance(None, kind)
    except TypeError:
        return object
    return kind
