"""Differences between a value and an annotation that is or contains an array type.

An annotation is read once and becomes a function, `compare(value, sizes, where)`. The function
returns the differences or `None`, and adds new size variables to `sizes`.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import re
import types
import typing
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from namedax.core.array import NamedArray
from namedax.core.display import type_text
from namedax.core.element_types import NUMPY
from namedax.errors import ArrayTypeError, show_dtype, show_names
from namedax.typing.array_types import (
    ELEMENT_TYPES,
    ArrayType,
    ElementType,
    Size,
    as_jax_reads,
    key,
)

__all__ = [
    "Compare",
    "Problem",
    "Seen",
    "Sizes",
    "array_problem",
    "no_array_problem",
    "read",
    "see",
    "union_problem",
    "unreadable",
]


# The size variables of one call: the size, and its first occurrence as the value (such as "argument
# x[0]") and its axis.
Sizes = dict[str, tuple[int, str, Hashable]]


# --- values ---------------------------------------------------------------------------------------


class Seen(NamedTuple):
    """The properties of an array that annotations describe."""

    dtype: Any
    weak: bool
    shape: tuple[int, ...]
    named: Mapping[Hashable, int]


def see(value: object) -> Seen | None:
    """Return the properties of an array or a Python number; `None` for other values."""
    if isinstance(value, NamedArray):
        data: Any = value.data
        # A transformation of JAX may have stored another object.
        if not hasattr(data, "dtype") or len(data.shape) != len(value.dims):
            return None
        return Seen(data.dtype, getattr(data, "weak_type", False), value.shape, value._sizes)
    if isinstance(value, NUMPY):
        return Seen(as_jax_reads(value.dtype), False, value.shape, {})
    if isinstance(value, (jax.Array, jax.ShapeDtypeStruct)):
        return Seen(value.dtype, getattr(value, "weak_type", False), value.shape, {})
    number = next((kind for kind in (bool, int, float, complex) if isinstance(value, kind)), None)
    return None if number is None else Seen(np.dtype(number), number is not bool, (), {})


def describe_value(value: object) -> str:
    """Describe a value, for messages."""
    if value is None:
        return "None"
    if isinstance(value, (bool, int, float, complex, str)) and not isinstance(value, np.generic):
        return f"the Python {type(value).__name__} {value!r:.60}"
    if isinstance(value, NamedArray) or see(value) is not None:
        return f"{'the NumPy array ' if isinstance(value, NUMPY) else ''}{type_text(value)}"
    length = f" of length {len(value)}" if isinstance(value, (list, tuple, dict)) else ""
    return f"of type {type(value).__qualname__}{length}"


# --- differences ----------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class Problem:
    """A mismatch: its location, the expected type, the value, the differences, and the remedies."""

    where: str
    expected: str
    value: Any
    differences: Sequence[str] = ()
    remedies: Sequence[str] = ()

    def text(self) -> str:
        """Return the problem as sentences."""
        sentences = [
            f"{self.where} should be {self.expected}, but is {describe_value(self.value)}."
        ]
        sentences += [f"{what[0].upper()}{what[1:]}." for what in self.differences]
        return " ".join((*sentences, *self.remedies))


def no_array_problem(value: object, want: ArrayType, where: str) -> Problem:
    """Describe a value that is not an array although the annotation requires one."""
    remedies: tuple[str, ...] = ()
    if value is None:
        remedies = (f"If None is allowed here, write {want} | None.",)
    elif isinstance(value, (list, tuple)):
        remedies = ("Make it an array first (jnp.asarray, nx.named).",)
    return Problem(where, repr(want), value, (), remedies)


def array_problem(
    value: object,
    have: Seen,
    want: ArrayType,
    wrong: list[tuple[Hashable, Size, int]],
    sizes: Sizes,
    where: str,
) -> Problem:
    """Describe an array of another type.

    `wrong` has the axes of another size, each with the expected and the actual size.
    """
    differences, remedies = [], []
    if not want.element.has(have.dtype, weak=have.weak):
        differences.append(f"the dtype is {_element_text(value, have)}, not {want.element}")
        remedies += _about_elements(value, have, want)
    ndim, rank = len(have.shape), want.sizes(len(have.shape)) is not None
    if not rank:
        least = "at least " if ... in want.shape else ""
        axes = f"{ndim or 'no'} positional {'axis' if ndim == 1 else 'axes'}"
        differences.append(f"it has {axes}, not {least}{len(want.shape) - want.shape.count(...)}")
    for axis, size, n in wrong:
        differences.append(
            f"{_axis(axis)} has size {n},"
            f" {f'not {size}' if isinstance(size, int) else f'but {_bound(size, sizes, where)}'}"
        )
    missing = [name for name in want.names if name not in have.named]
    extra = [] if want.open else [name for name in have.named if name not in want.names]
    if missing:
        differences.append(f"it lacks {_axes(missing)}")
    if extra:
        differences.append(f"it has {_axes(extra)}, which the type lacks")
    if missing or extra:
        remedies += _about_names(want, missing, extra, None if rank else ndim)
    elif not rank:
        remedies.append("Reshape it, or write ... in the type for any number of positional axes.")
    elif len(differences) == len(wrong):
        remedies.append(
            "Pass another array, or write a size variable or None where the size may differ."
        )
    return Problem(where, repr(want), value, differences, remedies)


def union_problem(value: object, text: str, problems: list[Problem], where: str) -> Problem:
    """Describe a value that matches none of the alternatives in `text`.

    `problems` are the problems of the array alternatives.
    """
    if len(problems) == 1:
        return (
            problems[0]
            if problems[0].where != where
            else dataclasses.replace(problems[0], expected=text)
        )
    differences = [
        f"for {p.expected}: {'; '.join(p.differences) or 'it is ' + describe_value(value)}"
        for p in problems
    ]
    return Problem(where, text, value, differences)


def unreadable(what: str, error: BaseException) -> ArrayTypeError:
    """Return the error for an annotation that cannot be evaluated."""
    return ArrayTypeError(
        f"checked: {what} cannot be evaluated: {type(error).__name__}: {error}. Import or define"
        " the name so that it exists at run time (not under TYPE_CHECKING), pass names of an"
        " enclosing function, as in @checked(localns=locals()), or remove the annotation."
    )


# --- phrases --------------------------------------------------------------------------------------


def _axis(axis: Hashable) -> str:
    return f"positional axis {axis}" if isinstance(axis, int) else f"axis {axis!r}"


def _axes(names: list[Hashable]) -> str:
    return f"the {'axis' if len(names) == 1 else 'axes'} {show_names(names)}"


def _bound(variable: Any, sizes: Sizes, where: str) -> str:
    size, first, axis = sizes[variable]
    return f"{variable} = {size} from {first if first != where else f'its {_axis(axis)}'}"


def _element_text(value: object, have: Seen) -> str:
    if not hasattr(value, "dtype"):
        return f"that of a Python {type(value).__name__}"
    read = "" if value.dtype == have.dtype else f", which JAX reads as {show_dtype(have.dtype)}"
    return f"{show_dtype(value.dtype)}{read}"


def _about_elements(value: object, have: Seen, want: ArrayType) -> list[str]:
    if want.element == key:
        return ["Make random keys with jax.random.key."]
    if not (jnp.issubdtype(have.dtype, np.number) or jnp.issubdtype(have.dtype, np.bool_)):
        return []
    wanted = getattr(want.element, "dtype", None)
    if wanted is None:
        return ["Cast it with astype, or write another dtype in the type."]
    if as_jax_reads(wanted) != wanted:
        return [
            f"64-bit types are disabled, so JAX has no {want.element}. Set jax_enable_x64, or write"
            " a kind such as floating."
        ]
    cast = (
        f"astype({wanted.name!r})"
        if hasattr(value, "dtype")
        else f"jnp.asarray(value, {wanted.name!r})"
    )
    return [f"Cast it with {cast}, or write another dtype in the type."]


def _about_names(
    want: ArrayType, missing: list[Hashable], extra: list[Hashable], ndim: int | None
) -> list[str]:
    """Return the remedies for names; `ndim` is given if the rank is wrong as well."""
    if missing and extra:
        close = {
            name: difflib.get_close_matches(str(name), map(str, extra), n=1, cutoff=0.6)
            for name in missing
        }
        pairs = {old: new for new in missing for old in extra if str(old) in close[new]}
        if not pairs and len(missing) == len(extra) == 1:
            pairs = {extra[0]: missing[0]}
        return [f"Rename it with nx.rename(x, {pairs or '{old: new}'}), or correct the type."]
    if missing and ndim == len(want.shape) + len(missing):
        return [f"Name positional axes with nx.named: which of them is {show_names(missing)}?"]
    if missing:
        it = "it" if len(missing) == 1 else "them"
        return [f"Give it {_axes(missing)} (nx.named, nx.rename), or remove {it} from the type."]
    if ndim is not None and ndim + len(extra) == len(want.shape):
        return [f"Give names positions with nx.positional(x, [{show_names(extra)}, ...])."]
    form = "{'name', ...}" if set(want.names.values()) <= {None} else "{'name': 3, ...: ...}"
    return [f"Reduce the extra axes, or allow more names in the type with ... (as in {form})."]


Compare = Callable[[Any, Sizes, str], Problem | None]

_UNIONS = (typing.Union, types.UnionType)
_QUALIFIERS = (typing.Final, typing.ClassVar, typing.Required, typing.NotRequired)
_TYPE_STATEMENT: Any = getattr(typing, "TypeAliasType", ())  # since Python 3.12


def read(annotation: Any) -> Compare | None:
    """Return a function that compares values with an annotation; `None` without array types."""
    if isinstance(annotation, ElementType):
        annotation = ArrayType(annotation, (...,), {}, True)
    if isinstance(annotation, ArrayType):
        return functools.partial(_array, annotation)
    if isinstance(annotation, (str, typing.ForwardRef)):
        text = annotation if isinstance(annotation, str) else annotation.__forward_arg__
        raise ArrayTypeError(
            f"check: the annotation {text!r} is a string. Write it without quotes."
        )
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


def _is_container(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, (Sequence, Mapping))


def _inside(annotation: Any, kind: object) -> tuple[Any, ...]:
    """Return the annotations inside another one, for the same value, alternatives or items."""
    args = typing.get_args(annotation)
    if isinstance(annotation, typing.NewType):
        return (annotation.__supertype__,)
    if kind is typing.Annotated:
        return (
            tuple(x for x in annotation.__metadata__ if isinstance(x, (ArrayType, ElementType)))
            or args[:1]
        )
    if any(kind is one for one in (*_UNIONS, *_QUALIFIERS, tuple)):
        return tuple(arg for arg in args if arg is not ...)
    return args[-1:] if _is_container(kind) else ()


def _text_of(annotation: object) -> str:
    if annotation is type(None):
        return "None"
    if isinstance(annotation, type) and typing.get_origin(annotation) is None:
        return annotation.__qualname__.rpartition(".")[2]
    return repr(annotation).replace("typing.", "")


# --- comparison functions -------------------------------------------------------------------------


def _array(want: ArrayType, value: object, sizes: Sizes, where: str) -> Problem | None:
    have = see(value)
    if have is None:
        return no_array_problem(value, want, where)
    positional = want.sizes(len(have.shape))
    axes: list[tuple[Hashable, Size, int]] = [
        (i, size, have.shape[i]) for i, size in enumerate(positional or ())
    ]
    axes += [
        (name, size, have.named[name]) for name, size in want.names.items() if name in have.named
    ]
    wrong = []
    for axis, size, n in axes:
        wanted = sizes.setdefault(size, (n, where, axis))[0] if isinstance(size, str) else size
        if wanted is not None and wanted != n:
            wrong.append((axis, size, n))
    names = (
        want.names.keys() <= have.named.keys()
        if want.open
        else want.names.keys() == have.named.keys()
    )
    if (
        names
        and positional is not None
        and not wrong
        and want.element.has(have.dtype, weak=have.weak)
    ):
        return None
    return array_problem(value, have, want, wrong, sizes, where)


def _all(
    inside: Sequence[Compare | None], value: object, sizes: Sizes, where: str
) -> Problem | None:
    """Compare one value with several annotations, such as the array types in one `Annotated`."""
    return next(filter(None, (compare(value, sizes, where) for compare in inside if compare)), None)


def _tuple(
    annotation: object, inside: Sequence[Compare | None], value: object, sizes: Sizes, where: str
) -> Problem | None:
    if not isinstance(value, tuple) or len(value) != len(inside):
        return Problem(where, _text_of(annotation), value)
    for i, compare in enumerate(inside):
        if compare and (problem := compare(value[i], sizes, f"{where}[{i}]")):
            return problem
    return None


def _each(
    annotation: object, kind: type, compare: Compare, value: object, sizes: Sizes, where: str
) -> Problem | None:
    """Compare a sequence, or the values of a mapping, with one annotation for all items."""
    if not isinstance(value, kind):
        return Problem(where, _text_of(annotation), value)
    items: Any = value
    for place, item in items.items() if isinstance(value, Mapping) else enumerate(items):
        if problem := compare(item, sizes, f"{where}[{place!r}]"):
            return problem
    return None


def _is_record(kind: object) -> bool:
    """Return True for a dataclass, a TypedDict or a NamedTuple."""
    return isinstance(kind, type) and (
        dataclasses.is_dataclass(kind)
        or typing.is_typeddict(kind)
        or (issubclass(kind, tuple) and hasattr(kind, "_fields"))
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
        item, place = (
            (value[name], f"{where}[{name!r}]")
            if is_dict
            else (getattr(value, name), f"{where}.{name}")
        )
        if problem := compare(item, sizes, place):
            return problem
    return None


@functools.lru_cache(maxsize=1024)
def _fields(kind: Any) -> Mapping[str, Compare]:
    """Return the comparisons of the fields with array types.

    They are evaluated on first use, because a class may contain itself.
    """
    try:
        hints = typing.get_type_hints(kind, include_extras=True)
    except Exception as error:
        # An annotation that cannot be evaluated is unknown. That is an error if it seems to be an
        # array type. It is no error in a class of another library, which may import the names for
        # static checkers only.
        texts = [
            text for base in kind.__mro__ for text in vars(base).get("__annotations__", {}).values()
        ]
        if any(
            re.search(rf"\b({'|'.join(map(repr, ELEMENT_TYPES))})\s*\[", text)
            for text in texts
            if isinstance(text, str)
        ):
            raise unreadable(f"the annotations of class {kind.__qualname__}", error) from error
        return {}
    if dataclasses.is_dataclass(kind):
        hints = {field.name: hints.get(field.name) for field in dataclasses.fields(kind)}
    return {name: compare for name, hint in hints.items() if (compare := read(hint))}


def _alias(alias: object, value: object, sizes: Sizes, where: str) -> Problem | None:
    compare = _value_of(alias)
    return compare and compare(value, sizes, where)


@functools.lru_cache(maxsize=1024)
def _value_of(alias: Any) -> Compare | None:
    """Read the value of a `type` statement on first use, because it may contain itself."""
    return read(alias.__value__)


def _union(annotations: Sequence[Any], inside: Sequence[Compare | None]) -> Compare:
    """Return a comparison that takes the first matching alternative, which binds size variables."""
    classes = [_class_of(annotation) for annotation in annotations]

    def compare_union(value: object, sizes: Sizes, where: str) -> Problem | None:
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
    """Return the class of the values of one alternative of a union.

    It is `object` if Python cannot test the alternative (a Literal, a Protocol).
    """
    kind = typing.get_origin(annotation) or annotation
    # An array type does not determine the class: NamedArray and jax.Array both match it.
    if kind is typing.Annotated:
        return object if read(annotation) else _class_of(typing.get_args(annotation)[0])
    # Annotations follow Python's numeric tower: an int is a float.
    kind = {float: (float, int), complex: (complex, float, int)}.get(
        kind, dict if typing.is_typeddict(kind) else kind
    )
    try:
        isinstance(None, kind)
    except TypeError:
        return object
    return kind
