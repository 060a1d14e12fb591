"""Comparison of values with annotations: `check`, `matches` and `checked`.

An annotation that is or contains an array type is read once and becomes a function,
`compare(value, sizes, where)`. The function returns the differences or `None`, and adds new size
variables to `sizes`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import functools
import inspect
import re
import types
import typing
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar, overload

import jax
import jax.numpy as jnp
import numpy as np

from namedax.core.array import NamedArray
from namedax.core.display import type_text
from namedax.core.element_types import NUMPY
from namedax.errors import ArrayTypeError, NamedaxError, show_dtype, show_names
from namedax.messages.call_errors import checks_signature
from namedax.ops.operands.pytree import noting_sizes
from namedax.typing.array_types import (
    ELEMENT_TYPES,
    ArrayType,
    ElementType,
    Size,
    as_jax_reads,
    key,
)

__all__ = ["check", "checked", "matches"]


F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")


@checks_signature
def check(value: T, annotation: object, sizes: dict[str, int] | None = None) -> T:
    """Return `value` if its type matches `annotation`.

    Args:
      value: an array, or any other value that an annotation can describe (a tuple, a dataclass,
        ...).
      annotation: any annotation that a parameter of a `checked` function may have.
      sizes: the known size variables. New ones are added, so that several calls can share them.
        Default: none.

    Raises:
      ArrayTypeError: the value has another type.

    >>> import jax.numpy as jnp, namedax as nx
    >>> from namedax.typing import f32
    >>> x = nx.named(jnp.ones((8, 3)), ["batch", "k"])
    >>> sizes = {}
    >>> nx.typing.check(x, f32[{"batch": "n", "k": None}], sizes).dims, sizes
    (('batch', 'k'), {'n': 8})
    >>> nx.typing.check(x, f32[{"batch"}])
    Traceback (most recent call last):
      ...
    namedax.errors.ArrayTypeError: check: the value should be f32[{'batch'}], but is ...
    """
    problem = _check(value, annotation, sizes)
    if problem is not None:
        raise ArrayTypeError(f"check: {problem.text()}")
    return value


@checks_signature
def matches(value: object, annotation: object, sizes: dict[str, int] | None = None) -> bool:
    """Return True if the type of `value` matches `annotation`.

    Args:
      value: as for `check`.
      annotation: as for `check`.
      sizes: as for `check`; new size variables are added if the value matches. Default: none.

    >>> import jax.numpy as jnp
    >>> from namedax.typing import f32, i32, matches
    >>> matches(jnp.ones(3), f32["n"]), matches(jnp.ones(3), i32["n"]), matches(2.0, f32[()])
    (True, False, True)
    """
    return _check(value, annotation, sizes) is None


def _check(value: object, annotation: object, sizes: dict[str, int] | None) -> _Problem | None:
    known: _Sizes = {variable: (size, "`sizes`", None) for variable, size in (sizes or {}).items()}
    compare = _read(annotation)
    problem = compare and compare(value, known, "the value")
    if problem is None and sizes is not None:
        sizes.update({variable: size for variable, (size, _, _) in known.items()})
    return problem


@overload
def checked(fun: F, *, localns: Mapping[str, object] | None = None) -> F: ...
@overload
def checked(*, localns: Mapping[str, object]) -> Callable[[F], F]: ...
def checked(fun: object = None, *, localns: Mapping[str, object] | None = None) -> Any:
    """Check the arguments and results of a function against its annotations, on every call.

    Under `jax.jit`, `jax.grad`, `jax.vmap` and `nx.xmap` a call happens when the function is
    traced, and the traced program has no additional operation. Within the call, a function of
    leaves (`jax.tree.map`) that gives a named axis another size is an error. Within one call a size
    variable has one size, in arguments and results. Annotations without array types (`int`,
    classes) are not checked. Decorate the function itself, under other decorators:
    `checked(jax.vmap(f))` would compare the annotations of `f` with the arguments of `vmap`.

    Args:
      fun: a function or method with annotations; see this module, and `docs/guides/typing.md`.
        Default: none, to decorate with options, `@checked(localns=locals())`.
      localns: local names that string annotations mention, such as aliases that the enclosing
        function defines. Names of the module and of the class are known. Default: none.

    Returns:
      A function with the same name, signature and docstring. It is `fun` itself if no annotation
      has an array type.

    The error is raised when the result is called.

    Raises:
      ArrayTypeError: an argument or a result has another type, or an annotation cannot be
        evaluated.

    >>> import jax.numpy as jnp, namedax as nx
    >>> from namedax.typing import f32
    >>> @nx.checked
    ... def predict(
    ...     w: f32[{"inputs": "i", "hidden": "h"}], x: f32[{"batch", "inputs"}]
    ... ) -> f32[{"batch", "hidden"}]:
    ...     return nx.dot(x, w, "inputs")
    >>> w = nx.named(jnp.ones((3, 6)), ["inputs", "hidden"])
    >>> x = nx.named(jnp.ones((8, 3)), ["batch", "inputs"])
    >>> predict(w, x).dims
    ('batch', 'hidden')
    >>> predict(w, w)
    Traceback (most recent call last):
      ...
    namedax.errors.ArrayTypeError: predict: argument x should be f32[{'batch', 'inputs'}], but ...
    """
    if fun is None and localns is not None:
        return functools.partial(checked, localns=localns)
    if isinstance(fun, (staticmethod, classmethod)):
        return type(fun)(checked(fun.__func__, localns=localns))
    if isinstance(fun, type) or not callable(fun):
        raise ArrayTypeError(
            f"checked: the argument must be a function; got {fun!r}. For a class, decorate its"
            " methods."
        )
    inner = _annotated(fun)
    op = inner.__qualname__.rpartition("<locals>.")[2].removesuffix(".__call__")
    if inspect.iscoroutinefunction(fun) or inspect.isasyncgenfunction(fun):
        raise ArrayTypeError(
            f"checked: {op} is a coroutine function, which is not supported. Call check(value,"
            " annotation) in it."
        )
    local = _mentioned(inner, localns or {})
    compared: dict[str, _Compare] | None = None
    # A name may be defined later, as the class of a method is: then it exists at the first call.
    with contextlib.suppress(NameError):
        compared = _compared(inner, local, op)
        if not compared:
            return fun
    signature = inspect.signature(fun)

    @functools.wraps(fun)
    def wrapper(*args: object, **kwargs: object) -> object:
        nonlocal compared
        if compared is None:
            try:
                compared = _compared(inner, _names_of_class(inner) | local, op)
            except NameError as error:
                raise _unreadable(f"an annotation of {op}", error) from error
        try:
            bound = signature.bind_partial(*args, **kwargs)
        except TypeError:
            fun(*args, **kwargs)  # Python raises an error with the name of the function
            raise
        sizes: _Sizes = {}
        for value, compare, where in _given(bound, compared):
            if problem := compare(value, sizes, where):
                raise ArrayTypeError(f"{op}: {problem.text()}")
        with noting_sizes():
            result = fun(*args, **kwargs)
        if "return" in compared and (problem := compared["return"](result, sizes, "the result")):
            raise ArrayTypeError(f"{op}: {problem.text()}")
        return result

    return wrapper


def _given(
    bound: inspect.BoundArguments, compared: Mapping[str, _Compare]
) -> Iterator[tuple[Any, _Compare, str]]:
    """Yield the arguments to compare, with their locations, in the order of the signature.

    Defaults are included.
    """
    bound.apply_defaults()
    for name, value in bound.arguments.items():
        if (compare := compared.get(name)) is None:
            continue
        where, kind = f"argument {name}", bound.signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_POSITIONAL:
            yield from ((item, compare, f"{where}[{i}]") for i, item in enumerate(value))
        elif kind is inspect.Parameter.VAR_KEYWORD:
            yield from ((item, compare, f"{where}[{key!r}]") for key, item in value.items())
        else:
            yield value, compare, where


def _annotated(fun: Any) -> Callable[..., Any]:
    """Return the function whose annotations are used."""
    while isinstance(fun, functools.partial):
        fun = fun.func
    fun = inspect.unwrap(fun)
    return fun if hasattr(fun, "__qualname__") else type(fun).__call__


def _names_of_class(inner: Callable[..., Any]) -> dict[str, Any]:
    """Return the names that the class of a method defines; none for other functions."""
    first, *others = inner.__qualname__.split(".")
    owner: Any = getattr(inner, "__globals__", {}).get(first)
    for part in others[:-1]:
        owner = getattr(owner, part, None)
    return dict(vars(owner)) if isinstance(owner, type) else {}


def _mentioned(inner: object, names: Mapping[str, Any]) -> dict[str, Any]:
    """Select the names that the annotations of a function may mention.

    The other values can be garbage-collected.
    """
    try:
        annotations = getattr(inner, "__annotations__", {})
    except NameError:  # since Python 3.14 reading annotations evaluates them
        return {}
    words = set(re.findall(r"\w+", " ".join(map(str, annotations.values()))))
    return {name: names[name] for name in words if name in names}


def _compared(inner: object, local: dict[str, Any], op: str) -> dict[str, _Compare]:
    """Return the comparisons for the array annotations of a function.

    They are keyed by parameter, with `"return"` for the result.
    """
    try:
        hints = typing.get_type_hints(inner, localns=local, include_extras=True)
    except (NameError, NamedaxError):
        raise
    except Exception as error:
        raise _unreadable(f"an annotation of {op}", error) from error
    return {name: compare for name, hint in hints.items() if (compare := _read(hint))}


# The size variables of one call: the size, and its first occurrence as the value (such as "argument
# x[0]") and its axis.
_Sizes = dict[str, tuple[int, str, Hashable]]


# --- values ---------------------------------------------------------------------------------------


class _Seen(NamedTuple):
    """The properties of an array that annotations describe."""

    dtype: Any
    weak: bool
    shape: tuple[int, ...]
    named: Mapping[Hashable, int]


def _see(value: object) -> _Seen | None:
    """Return the properties of an array or a Python number; `None` for other values."""
    if isinstance(value, NamedArray):
        data: Any = value.data
        # A transformation of JAX may have stored another object.
        if not hasattr(data, "dtype") or len(data.shape) != len(value.dims):
            return None
        return _Seen(data.dtype, getattr(data, "weak_type", False), value.shape, value._sizes)
    if isinstance(value, NUMPY):
        return _Seen(as_jax_reads(value.dtype), False, value.shape, {})
    if isinstance(value, (jax.Array, jax.ShapeDtypeStruct)):
        return _Seen(value.dtype, getattr(value, "weak_type", False), value.shape, {})
    number = next((kind for kind in (bool, int, float, complex) if isinstance(value, kind)), None)
    return None if number is None else _Seen(np.dtype(number), number is not bool, (), {})


def describe_value(value: object) -> str:
    """Describe a value, for messages."""
    if value is None:
        return "None"
    if isinstance(value, (bool, int, float, complex, str)) and not isinstance(value, np.generic):
        return f"the Python {type(value).__name__} {value!r:.60}"
    if isinstance(value, NamedArray) or _see(value) is not None:
        return f"{'the NumPy array ' if isinstance(value, NUMPY) else ''}{type_text(value)}"
    length = f" of length {len(value)}" if isinstance(value, (list, tuple, dict)) else ""
    return f"of type {type(value).__qualname__}{length}"


# --- differences ----------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class _Problem:
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


def _no_array_problem(value: object, want: ArrayType, where: str) -> _Problem:
    """Describe a value that is not an array although the annotation requires one."""
    remedies: tuple[str, ...] = ()
    if value is None:
        remedies = (f"If None is allowed here, write {want} | None.",)
    elif isinstance(value, (list, tuple)):
        remedies = ("Make it an array first (jnp.asarray, nx.named).",)
    return _Problem(where, repr(want), value, (), remedies)


def _array_problem(
    value: object,
    have: _Seen,
    want: ArrayType,
    wrong: list[tuple[Hashable, Size, int]],
    sizes: _Sizes,
    where: str,
) -> _Problem:
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
    return _Problem(where, repr(want), value, differences, remedies)


def _union_problem(value: object, text: str, problems: list[_Problem], where: str) -> _Problem:
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
    return _Problem(where, text, value, differences)


def _unreadable(what: str, error: BaseException) -> ArrayTypeError:
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


def _bound(variable: Any, sizes: _Sizes, where: str) -> str:
    size, first, axis = sizes[variable]
    return f"{variable} = {size} from {first if first != where else f'its {_axis(axis)}'}"


def _element_text(value: object, have: _Seen) -> str:
    if not hasattr(value, "dtype"):
        return f"that of a Python {type(value).__name__}"
    as_read = "" if value.dtype == have.dtype else f", which JAX reads as {show_dtype(have.dtype)}"
    return f"{show_dtype(value.dtype)}{as_read}"


def _about_elements(value: object, have: _Seen, want: ArrayType) -> list[str]:
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


_Compare = Callable[[Any, _Sizes, str], _Problem | None]

_UNIONS = (typing.Union, types.UnionType)
_QUALIFIERS = (typing.Final, typing.ClassVar, typing.Required, typing.NotRequired)
_TYPE_STATEMENT: Any = getattr(typing, "TypeAliasType", ())  # since Python 3.12


def _read(annotation: Any) -> _Compare | None:
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
    inside = [_read(arg) for arg in args]
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


def _array(want: ArrayType, value: object, sizes: _Sizes, where: str) -> _Problem | None:
    have = _see(value)
    if have is None:
        return _no_array_problem(value, want, where)
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
    return _array_problem(value, have, want, wrong, sizes, where)


def _all(
    inside: Sequence[_Compare | None], value: object, sizes: _Sizes, where: str
) -> _Problem | None:
    """Compare one value with several annotations, such as the array types in one `Annotated`."""
    return next(filter(None, (compare(value, sizes, where) for compare in inside if compare)), None)


def _tuple(
    annotation: object, inside: Sequence[_Compare | None], value: object, sizes: _Sizes, where: str
) -> _Problem | None:
    if not isinstance(value, tuple) or len(value) != len(inside):
        return _Problem(where, _text_of(annotation), value)
    for i, compare in enumerate(inside):
        if compare and (problem := compare(value[i], sizes, f"{where}[{i}]")):
            return problem
    return None


def _each(
    annotation: object, kind: type, compare: _Compare, value: object, sizes: _Sizes, where: str
) -> _Problem | None:
    """Compare a sequence, or the values of a mapping, with one annotation for all items."""
    if not isinstance(value, kind):
        return _Problem(where, _text_of(annotation), value)
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


def _record(kind: Any, value: Any, sizes: _Sizes, where: str) -> _Problem | None:
    fields, is_dict = _fields(kind), typing.is_typeddict(kind)
    if fields and not isinstance(value, dict if is_dict else kind):
        return _Problem(where, kind.__qualname__, value)
    for name, compare in fields.items():
        if is_dict and name not in value:
            if name in kind.__required_keys__:
                return _Problem(where, kind.__qualname__, value, (f"it lacks the key {name!r}",))
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
def _fields(kind: Any) -> Mapping[str, _Compare]:
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
            raise _unreadable(f"the annotations of class {kind.__qualname__}", error) from error
        return {}
    if dataclasses.is_dataclass(kind):
        hints = {field.name: hints.get(field.name) for field in dataclasses.fields(kind)}
    return {name: compare for name, hint in hints.items() if (compare := _read(hint))}


def _alias(alias: object, value: object, sizes: _Sizes, where: str) -> _Problem | None:
    compare = _value_of(alias)
    return compare and compare(value, sizes, where)


@functools.lru_cache(maxsize=1024)
def _value_of(alias: Any) -> _Compare | None:
    """Read the value of a `type` statement on first use, because it may contain itself."""
    return _read(alias.__value__)


def _union(annotations: Sequence[Any], inside: Sequence[_Compare | None]) -> _Compare:
    """Return a comparison that takes the first matching alternative, which binds size variables."""
    classes = [_class_of(annotation) for annotation in annotations]

    def compare_union(value: object, sizes: _Sizes, where: str) -> _Problem | None:
        if value is None and type(None) in annotations:
            return None
        problems = []
        for annotation, kind, compare in zip(annotations, classes, inside, strict=True):
            trial = dict(sizes)
            if not isinstance(value, kind):
                problem: _Problem | None = _Problem(where, _text_of(annotation), value)
            else:
                problem = compare and compare(value, trial, where)
            if problem is None:
                sizes.update(trial)
                return None
            if compare:
                problems.append(problem)
        return _union_problem(value, " | ".join(map(_text_of, annotations)), problems, where)

    return compare_union


def _class_of(annotation: Any) -> Any:
    """Return the class of the values of one alternative of a union.

    It is `object` if Python cannot test the alternative (a Literal, a Protocol).
    """
    kind = typing.get_origin(annotation) or annotation
    # An array type does not determine the class: NamedArray and jax.Array both match it.
    if kind is typing.Annotated:
        return object if _read(annotation) else _class_of(typing.get_args(annotation)[0])
    # Annotations follow Python's numeric tower: an int is a float.
    kind = {float: (float, int), complex: (complex, float, int)}.get(
        kind, dict if typing.is_typeddict(kind) else kind
    )
    try:
        isinstance(None, kind)
    except TypeError:
        return object
    return kind
