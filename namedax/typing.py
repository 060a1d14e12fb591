"""Array types as annotations, and `checked`, which compares them with what a function gets and returns.

An annotation says element type, positional shape and named shape, and is written as arrays print their type:

    f32[(5,), {"batch": 20}]      positional shape (5,), named shape {batch: 20}
    f32["n", {"batch", "k"}]      one positional axis, whose size is called n; the axes batch and k, of any size
    f32[{"batch": "b", "k": 7}]   no positional axis; the size of batch is called b
    f32[3, "n"], f32[()]          no names
    f32[..., {"batch"}]           any positional axes
    f32[3, {"batch", ...}]        at least the axis batch; with sizes: {"batch": 20, ...: ...}
    f32                           any shape

A size is an integer, a size variable (a string; one variable has one size within one call), or open (`None`). Everything is
compared while Python runs, from types alone: `checked` adds no operation to a traced program.

An annotation is parsed once, where it is written. Everything that can be checked is an object with one method `problem`,
which returns `None` or says what differs.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import difflib
import functools
import inspect
import operator
import re
import types
import typing
from collections.abc import Callable, Hashable, Mapping
from types import EllipsisType
from typing import Any, Protocol, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from namedax.core.annotations import Array, ArrayLike, Axis
from namedax.core.array import NamedArray
from namedax.core.display import _dtype_text, type_text
from namedax.core.names import is_name
from namedax.errors import ArrayTypeError, AxisNameError, NamedaxError, show_names

__all__ = [
    "Array",
    "ArrayLike",
    "ArrayType",
    "Axis",
    "ElementType",
    "any_",
    "bf16",
    "bool_",
    "c64",
    "c128",
    "check",
    "checked",
    "complexfloating",
    "element_type",
    "f16",
    "f32",
    "f64",
    "floating",
    "i8",
    "i16",
    "i32",
    "i64",
    "inexact",
    "integer",
    "key",
    "matches",
    "number",
    "signedinteger",
    "u8",
    "u16",
    "u32",
    "u64",
    "unsignedinteger",
]

Size = int | str | None
F = TypeVar("F", bound=Callable[..., Any])

# Where a value stands: "argument x", or a pair of where its container stands and an accessor, (("argument x", "['w']"), "[0]").
# Text is made of it only when there is something to say.
_Where = Any
# The size variables of one call: the size, and where it was seen first: the value, and its axis (an integer or a name).
_Sizes = dict[str, tuple[int, _Where, Hashable]]


def _place(where: _Where) -> str:
    return where if isinstance(where, str) else _place(where[0]) + where[1]


@dataclasses.dataclass(frozen=True, slots=True)
class _Problem:
    where: _Where
    expected: str
    came: str
    differences: tuple[str, ...]
    remedies: tuple[str, ...] = ()

    def text(self) -> str:
        sentences = [f"{_place(self.where)} should be {self.expected}, and is {self.came}."]
        sentences += [f"{what[0].upper()}{what[1:]}." for what in self.differences]
        return " ".join((*sentences, *dict.fromkeys(self.remedies)))


class _Checker(Protocol):
    def problem(self, value: Any, sizes: _Sizes, where: _Where) -> _Problem | None: ...


# --- element types --------------------------------------------------------------------------------------------------


class ElementType:
    """An element type, or a kind of them. Square brackets make the type of an array: `f32[3, {"batch"}]`.

    The module has one object for each type; `element_type` makes those for which it has no name.

    >>> f32, floating, f32.dtype
    (f32, floating, dtype('float32'))
    """

    __slots__ = ("_abstract", "_dtype", "_known", "_name", "_weak", "any_shape")

    def __init__(self, name: str, abstract: Any, dtype: Any = None):
        self._name, self._abstract, self._dtype = name, abstract, dtype
        self._known: dict[Any, bool] = {}
        # An integer that is weakly typed becomes a float where it meets one, a float becomes a complex number, not vice versa.
        takes = ((jnp.integer, "i"), (jnp.floating, "if"), (jnp.complexfloating, "ifc"))
        self._weak = {letter for kind, letters in takes if self._meets(kind) for letter in letters}
        self.any_shape = ArrayType(self, (...,), (), True)

    def _meets(self, kind: Any) -> bool:
        """Whether some dtype of this element type is of `kind`."""
        mine = self._abstract if self._dtype is None else self._dtype
        return bool(jnp.issubdtype(mine, kind) or (self._dtype is None and jnp.issubdtype(kind, mine)))

    @property
    def dtype(self) -> Any:
        """The dtype; a kind of element types has none."""
        if self._dtype is None:
            raise AttributeError(f"{self} is a kind of element types and has no dtype of its own.")
        return self._dtype

    def has(self, dtype: Any) -> bool:
        """Whether an array of `dtype` has this element type, or one of this kind.

        >>> f32.has(jnp.float32), f32.has(jnp.bfloat16), floating.has(jnp.bfloat16)
        (True, False, True)
        """
        known = self._known.get(dtype)
        if known is None:
            exact = dtype if jnp.issubdtype(dtype, jax.dtypes.extended) else np.dtype(dtype)
            if self._dtype is not None:
                known = bool(exact == self._dtype)
            else:
                known = _is_element(exact) and bool(jnp.issubdtype(exact, self._abstract))
            self._known[dtype] = known
        return known

    def takes_weak(self, letter: str) -> bool:
        """Whether a weakly typed integer, float or complex number (`"i"`, `"f"`, `"c"`) takes this type where it meets it."""
        return letter in self._weak

    def __getitem__(self, item: Any) -> ArrayType:
        return _parse(self, item)

    def __or__(self, other: Any) -> Any:
        return typing.Union[self, other]  # noqa: UP007

    def __ror__(self, other: Any) -> Any:
        return typing.Union[other, self]  # noqa: UP007

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ElementType) and self._name == other._name

    def __hash__(self) -> int:
        return hash(self._name)

    def __reduce__(self) -> Any:
        return (_by_name, (self._name,)) if self._name in _ELEMENTS else (element_type, (self._dtype,))

    def __repr__(self) -> str:
        return self._name


def _is_element(dtype: Any) -> bool:
    """Whether JAX has arrays of `dtype`; NumPy has more (strings, dates, objects)."""
    return dtype == jax.dtypes.float0 or any(jnp.issubdtype(dtype, kind) for kind in (np.number, np.bool_, jax.dtypes.extended))


# --- array types ----------------------------------------------------------------------------------------------------


class ArrayType:
    """The type of an array, as `f32[(5,), {"batch": 20}]` makes it. Immutable and hashable.

    Two that say the same are equal, however they were written.

    >>> f32["n", {"batch": 20, "k": None}]
    f32[('n',), {'batch': 20, 'k': None}]
    >>> f32[(5,), {}] == f32[5], f32[{"batch": None}] == f32[{"batch"}]
    (True, True)
    """

    __slots__ = ("_fixed", "_gap", "_hash", "element", "names", "open", "shape")

    element: ElementType
    shape: tuple[int | str | EllipsisType | None, ...]
    names: tuple[tuple[Hashable, Size], ...]
    open: bool
    _hash: int
    _fixed: tuple[Size, ...]  # the shape without ...
    _gap: int | None  # where ... is

    def __init__(
        self,
        element: ElementType,
        shape: tuple[int | str | EllipsisType | None, ...],
        names: tuple[tuple[Hashable, Size], ...],
        open: bool,
    ):
        object.__setattr__(self, "element", element)
        object.__setattr__(self, "shape", shape)
        object.__setattr__(self, "names", names)
        object.__setattr__(self, "open", open)
        object.__setattr__(self, "_hash", hash((element, shape, frozenset(names), open)))
        object.__setattr__(self, "_fixed", tuple(size for size in shape if not isinstance(size, EllipsisType)))
        object.__setattr__(self, "_gap", shape.index(...) if ... in shape else None)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"ArrayType is immutable: {name!r} can not be set.")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"ArrayType is immutable: {name!r} can not be deleted.")

    def __or__(self, other: Any) -> Any:
        return typing.Union[self, other]  # noqa: UP007

    def __ror__(self, other: Any) -> Any:
        return typing.Union[other, self]  # noqa: UP007

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, ArrayType)
            and self._hash == other._hash
            and (self.element, self.shape, self.open) == (other.element, other.shape, other.open)
            and frozenset(self.names) == frozenset(other.names)
        )

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> Any:
        return (ArrayType, (self.element, self.shape, self.names, self.open))

    def __repr__(self) -> str:
        sizes = ["..." if size is ... else repr(size) for size in self.shape]
        if self.names or self.open:
            if any(size is not None for _, size in self.names):
                entries = [f"{name!r}: {size!r}" for name, size in self.names] + ["...: ..."] * self.open
            else:
                entries = [repr(name) for name, _ in self.names] + ["..."] * self.open
            shape = "..." if sizes == ["..."] else f"({', '.join(sizes)}{',' * (len(sizes) == 1)})"
            inside = (f"{shape}, " if sizes else "") + "{" + ", ".join(entries) + "}"
        else:
            inside = ", ".join(sizes) or "()"
        return f"{self.element}[{inside}]"

    def problem(self, value: Any, sizes: _Sizes, where: _Where) -> _Problem | None:
        """What differs between `value` and this type, or `None`; size variables that are new go into `sizes`."""
        # This runs on every eager call of a checked function, hence the plain loops.
        dtype: Any
        weak = value
        shape: tuple[int, ...]
        named = _NO_NAMES
        if type(value) is NamedArray:
            weak, dims = value.data, value.dims
            dtype, shape = getattr(weak, "dtype", None), getattr(weak, "shape", ())
            if dtype is None or len(shape) != len(dims):
                return self._no_array(value, where)
            shape = tuple([n for n, dim in zip(shape, dims, strict=True) if dim is None])
            named = value.named_shape if len(shape) != len(dims) else _NO_NAMES
        elif _is_array(value):
            dtype, shape = value.dtype, value.shape
            if isinstance(value, (np.ndarray, np.generic)):
                dtype = _as_jax_reads(dtype)
        elif isinstance(value, (int, float, complex)):
            dtype, shape = np.dtype(bool) if isinstance(value, bool) else None, ()
        else:
            return self._no_array(value, where)

        element = self.element
        fits = (dtype is not None and element.has(dtype)) or element.takes_weak(_weak_letter(weak))
        fixed, gap = self._fixed, self._gap
        skip = len(shape) - len(fixed)
        rank = skip == 0 or (gap is not None and skip > 0)
        wrong: list[tuple[Hashable, Any, int]] = []
        if rank:
            for axis, size in enumerate(fixed):
                place = axis if gap is None or axis < gap else axis + skip
                if size is not None and size != (n := shape[place]):
                    if type(size) is not str or sizes.setdefault(size, (n, where, place))[0] != n:
                        wrong.append((place, size, n))
        matched = 0
        for name, size in self.names:
            if (m := named.get(name)) is not None:
                matched += 1
                if size is not None and size != m:
                    if type(size) is not str or sizes.setdefault(size, (m, where, name))[0] != m:
                        wrong.append((name, size, m))
        if fits and rank and not wrong and matched == len(self.names) and (self.open or matched == len(named)):
            return None
        return self._differences(value, dtype, shape, named, sizes, where, fits, rank, wrong)

    def _no_array(self, value: Any, where: _Where) -> _Problem:
        if value is None:
            remedy = f"If None is allowed here, write {self} | None."
        elif isinstance(value, (list, tuple)):
            remedy = "Make it an array first (jnp.asarray, nx.named)."
        else:
            remedy = ""
        return _Problem(where, repr(self), _came(value), (), (remedy,) if remedy else ())

    def _differences(
        self,
        value: Any,
        dtype: Any,
        shape: tuple[int, ...],
        named: Mapping[Hashable, int],
        sizes: _Sizes,
        where: _Where,
        fits: bool,
        rank: bool,
        wrong: list[tuple[Hashable, Any, int]],
    ) -> _Problem:
        said, remedies = [], []
        if not fits:
            if dtype is None:
                have = f"that of a Python {type(value).__name__}"
            elif isinstance(value, (np.ndarray, np.generic)) and value.dtype != dtype:
                have = f"{_dtype_text(value.dtype)}, which JAX reads as {_dtype_text(dtype)}"
            else:
                have = _dtype_text(dtype)
            said.append(f"the element type is {have}, not {self.element}")
            remedies += self._cast(dtype, value)
        if not rank:
            exact = "" if self._gap is None else "at least "
            said.append(f"it has {_axes(len(shape))}, not {exact}{len(self._fixed)}")
        for axis, size, n in wrong:
            label = f"positional axis {axis}" if isinstance(axis, int) else f"axis {axis!r}"
            want = f"not {size}" if isinstance(size, int) else f"but {_bound(size, sizes, where)}"
            said.append(f"{label} has size {n}, {want}")
        missing = [name for name, _ in self.names if name not in named]
        extra = [] if self.open else [name for name in named if name not in dict(self.names)]
        if missing:
            said.append(f"it lacks {_named_axes(missing)}")
        if extra:
            said.append(f"it has {_named_axes(extra)}, which the type does not mention")
        remedies += self._about_names(missing, extra, len(shape), rank)
        if not rank and not missing and not extra:
            remedies.append("Reshape it, or write ... in the type for any number of positional axes.")
        if wrong and len(said) == len(wrong):
            remedies.append("Pass another array, or write a size variable or None where the size may differ.")
        return _Problem(where, repr(self), _came(value), tuple(said), tuple(remedies))

    def _cast(self, dtype: Any, value: Any) -> list[str]:
        if self.element == key:
            return ["Make random keys with jax.random.key."]
        if dtype is not None and not (jnp.issubdtype(dtype, np.number) or jnp.issubdtype(dtype, np.bool_)):
            return []
        try:
            wanted = self.element.dtype
        except AttributeError:
            return ["Cast it with astype, or write another element type."]
        if _as_jax_reads(wanted) != wanted:
            return [f"64-bit types are off, and JAX makes no {self.element}: set jax_enable_x64, or write a kind as floating."]
        cast = f"astype({wanted.name!r})" if hasattr(value, "dtype") else f"jnp.asarray(value, {wanted.name!r})"
        return [f"Cast it with {cast}, or write another element type."]

    def _about_names(self, missing: list[Hashable], extra: list[Hashable], ndim: int, rank: bool) -> list[str]:
        if missing and extra:
            close = {name: difflib.get_close_matches(str(name), map(str, extra), n=1, cutoff=0.6) for name in missing}
            pairs = {old: new for new in missing for old in extra if str(old) in close[new]}
            if not pairs and len(missing) == len(extra) == 1:
                pairs = {extra[0]: missing[0]}
            return [f"Rename it with nx.rename(x, {pairs or '{old: new}'}), or correct the type."]
        if missing and not rank and ndim == len(self.shape) + len(missing):
            return [f"Name positional axes with nx.named: which of them is {show_names(missing)}?"]
        if missing:
            return [
                f"Give it {_named_axes(missing)} (nx.named, nx.rename), or leave {'it' if len(missing) == 1 else 'them'} out of the type."
            ]
        if extra and not rank and ndim + len(extra) == len(self.shape):
            return [f"Give names positions with nx.positional(x, [{show_names(extra)}, ...])."]
        if extra:
            form = "{'name': 3, ...: ...}" if any(size is not None for _, size in self.names) else "{'name', ...}"
            return [f"Reduce what should not be there, or allow more names in the type with ... (as in {form})."]
        return []


_NO_NAMES: Mapping[Hashable, int] = types.MappingProxyType({})


def _axes(n: int) -> str:
    return f"{n or 'no'} positional {'axis' if n == 1 else 'axes'}"


def _named_axes(names: list[Hashable]) -> str:
    return f"the {'axis' if len(names) == 1 else 'axes'} {show_names(names)}"


def _bound(variable: str, sizes: _Sizes, where: _Where) -> str:
    size, first, axis = sizes[variable]
    if first != where:
        return f"{variable} = {size} from {_place(first)}"
    return f"{variable} = {size} from its " + (f"positional axis {axis}" if isinstance(axis, int) else f"axis {axis!r}")


@functools.cache
def _is_array_type(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, (jax.Array, np.ndarray, np.generic, jax.ShapeDtypeStruct))


def _is_array(value: Any) -> bool:
    # A tracer is a jax.Array by what it stands for, not by its class.
    kind: Any = type(value)
    return _is_array_type(kind) or isinstance(value, jax.Array)


def _as_jax_reads(dtype: np.dtype) -> Any:
    return jax.dtypes.canonicalize_dtype(dtype) if _is_element(dtype) else dtype


def _weak_letter(value: Any) -> str:
    """`"i"`, `"f"` or `"c"` for a Python number or an array of weak type; otherwise nothing."""
    if isinstance(value, (int, float, complex)) and not isinstance(value, np.generic):
        return "" if isinstance(value, bool) else "i" if isinstance(value, int) else "f" if isinstance(value, float) else "c"
    if not getattr(value, "weak_type", False):
        return ""
    kinds = ((jnp.integer, "i"), (jnp.floating, "f"), (jnp.complexfloating, "c"))
    return next((letter for kind, letter in kinds if jnp.issubdtype(value.dtype, kind)), "")


def _came(value: Any) -> str:
    if value is None:
        return "None"
    if isinstance(value, (np.ndarray, np.generic)):
        return f"the NumPy array {type_text(value)}"
    if isinstance(value, NamedArray) or _is_array(value):
        return type_text(value)
    if isinstance(value, (bool, int, float, complex, str)):
        return f"the Python {type(value).__name__} {value!r:.60}"
    length = f" of length {len(value)}" if isinstance(value, (list, tuple, dict)) else ""
    return f"of type {type(value).__qualname__}{length}"


def _parse(element: ElementType, item: Any) -> ArrayType:
    """The array type that `element[item]` writes."""
    parts = item if type(item) is tuple else (item,)
    names: tuple[tuple[Hashable, Size], ...] = ()
    more = False
    if parts and isinstance(parts[-1], (Mapping, set, frozenset)):
        parts, (names, more) = parts[:-1], _parse_names(element, parts[-1])
    if len(parts) == 1 and type(parts[0]) is tuple:
        parts = parts[0]
    for size in parts:
        if isinstance(size, (Mapping, set, frozenset)):
            raise ArrayTypeError(f"{element}[...]: the named axes come once, at the end; got {item!r}.")
        if isinstance(size, (tuple, list)):
            raise ArrayTypeError(f"{element}[...]: the sizes of the positional axes are one tuple; got {item!r}.")
    shape = tuple(size if size is ... else _parse_size(element, size, "a positional axis") for size in parts)
    if shape.count(...) > 1:
        raise ArrayTypeError(f"{element}[...]: ... stands for any positional axes, and can be there once; got {item!r}.")
    return ArrayType(element, shape, names, more)


def _parse_names(element: ElementType, item: Any) -> tuple[tuple[tuple[Hashable, Size], ...], bool]:
    if isinstance(item, Mapping):
        if ... in item and item[...] is not ...:
            raise ArrayTypeError(f"{element}[...]: further names are allowed with ...: ...; got ...: {item[...]!r}.")
        entries = [(name, size) for name, size in item.items() if name is not ...]
    else:  # a set has no order of its own, and its text should be the same in every run
        entries = [(name, None) for name in sorted((name for name in item if name is not ...), key=repr)]
    for name, _ in entries:
        if not is_name(name):
            raise AxisNameError(
                f"{element}[...]: {name!r} is no axis name; names are any hashable values but integers and None. Positional "
                "sizes stand in front of the braces."
            )
    return tuple((name, _parse_size(element, size, f"axis {name!r}")) for name, size in entries), ... in item


def _parse_size(element: ElementType, size: Any, what: str) -> Size:
    if size is None:
        return None
    if isinstance(size, str):
        if size.isidentifier() and size != "_":
            return str.__str__(size)  # of a StrEnum too
        raise ArrayTypeError(
            f"{element}[...]: {size!r} as the size of {what}; a size variable is one identifier for one axis, as 'n'. Write None "
            "for any size, and integers without quotes."
        )
    try:
        number = None if isinstance(size, bool) else operator.index(size)
    except TypeError:
        number = None
    if number is None or number < 0:
        raise ArrayTypeError(
            f"{element}[...]: {size!r} as the size of {what}; a size is an integer, a size variable (a string), or None for any."
        )
    return number


# --- the element types that have names ------------------------------------------------------------------------------


def _element(name: str, what: Any, *, kind: bool = False) -> Any:
    element = ElementType(name, what) if kind else ElementType(name, None, np.dtype(what))
    _ELEMENTS[name] = element
    return element


def _by_name(name: str) -> ElementType:
    return _ELEMENTS[name]


_ELEMENTS: dict[str, ElementType] = {}

# `Any`, for the sake of static checkers: mypy then lets `f32[3, {"batch": 20}]` stand where a type stands.
f16: Any = _element("f16", np.float16)
bf16: Any = _element("bf16", jnp.bfloat16)
f32: Any = _element("f32", np.float32)
f64: Any = _element("f64", np.float64)
i8: Any = _element("i8", np.int8)
i16: Any = _element("i16", np.int16)
i32: Any = _element("i32", np.int32)
i64: Any = _element("i64", np.int64)
u8: Any = _element("u8", np.uint8)
u16: Any = _element("u16", np.uint16)
u32: Any = _element("u32", np.uint32)
u64: Any = _element("u64", np.uint64)
c64: Any = _element("c64", np.complex64)
c128: Any = _element("c128", np.complex128)
bool_: Any = _element("bool_", np.bool_)
key: Any = _element("key", jax.dtypes.prng_key, kind=True)
floating: Any = _element("floating", jnp.floating, kind=True)
complexfloating: Any = _element("complexfloating", jnp.complexfloating, kind=True)
inexact: Any = _element("inexact", jnp.inexact, kind=True)
signedinteger: Any = _element("signedinteger", jnp.signedinteger, kind=True)
unsignedinteger: Any = _element("unsignedinteger", jnp.unsignedinteger, kind=True)
integer: Any = _element("integer", jnp.integer, kind=True)
number: Any = _element("number", jnp.number, kind=True)
any_: Any = _element("any_", np.generic, kind=True)


@functools.lru_cache(maxsize=256)
def element_type(dtype: Any) -> ElementType:
    """The element type of a dtype, for those that have no name in this module.

    Raises:
      ArrayTypeError: JAX has no arrays of that dtype.

    >>> element_type(jnp.float32), element_type(jnp.float8_e4m3fn)[3]
    (f32, element_type('float8_e4m3fn')[3])
    """
    if isinstance(dtype, ElementType):
        return dtype
    try:
        if jnp.issubdtype(dtype, jax.dtypes.prng_key):
            return _ELEMENTS["key"]
        exact = np.dtype(dtype)
    except TypeError:
        exact = None
    if exact is None or not _is_element(exact):
        raise ArrayTypeError(f"element_type: JAX has no arrays of {dtype!r}; give a dtype as jnp.float32 or 'float32'.")
    for element in _ELEMENTS.values():
        if element._dtype == exact:
            return element
    return ElementType(f"element_type({exact.name!r})", None, exact)


# --- other annotations ----------------------------------------------------------------------------------------------
#
# `_checker` turns an annotation into an object with a method `problem`, or into None where nothing in it is an array type.


@dataclasses.dataclass(frozen=True, slots=True)
class _Items:
    """A tuple with one annotation per item."""

    items: tuple[_Checker | None, ...]
    text: str

    def problem(self, value: Any, sizes: _Sizes, where: _Where) -> _Problem | None:
        if not isinstance(value, tuple) or len(value) != len(self.items):
            return _Problem(where, self.text, _came(value), ())
        for i, item in enumerate(self.items):
            if item is not None and (problem := item.problem(value[i], sizes, (where, f"[{i}]"))):
                return problem
        return None


@dataclasses.dataclass(frozen=True, slots=True)
class _Each:
    """A sequence, or the values of a mapping, with one annotation for all items."""

    kind: type
    item: _Checker
    text: str

    def problem(self, value: Any, sizes: _Sizes, where: _Where) -> _Problem | None:
        if not isinstance(value, self.kind):
            return _Problem(where, self.text, _came(value), ())
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
    def _fields(self) -> dict[str, _Checker]:
        kind = self._kind
        try:
            hints = typing.get_type_hints(kind, include_extras=True)
        except Exception as error:
            # What an annotation says that can not be read is unknown. That is an error where it seems to be an array type, and
            # none in a class of someone else, which may import the names for static checkers only.
            texts = [text for base in kind.__mro__ for text in vars(base).get("__annotations__", {}).values()]
            if any(re.search(rf"\b({'|'.join(_ELEMENTS)})\s*\[", text) for text in texts if isinstance(text, str)):
                raise _unreadable(f"the annotations of class {kind.__qualname__}", error) from error
            return {}
        if dataclasses.is_dataclass(kind):
            hints = {field.name: hints.get(field.name) for field in dataclasses.fields(kind)}
        return {name: checker for name, hint in hints.items() if (checker := _checker(hint)) is not None}

    def problem(self, value: Any, sizes: _Sizes, where: _Where) -> _Problem | None:
        fields = self._fields
        if not fields:
            return None
        mapping = typing.is_typeddict(self._kind)
        if not isinstance(value, dict if mapping else self._kind):
            return _Problem(where, self._kind.__qualname__, _came(value), ())
        for name, checker in fields.items():
            if mapping and name not in value:
                if name in self._kind.__required_keys__:
                    return _Problem(where, self._kind.__qualname__, _came(value), (f"it lacks the key {name!r}",))
                continue
            item = value[name] if mapping else getattr(value, name)
            if problem := checker.problem(item, sizes, (where, f"[{name!r}]" if mapping else f".{name}")):
                return problem
        return None


@dataclasses.dataclass(frozen=True, slots=True)
class _All:
    """Everything that one value has to fit, as the array types in one `Annotated`."""

    checkers: tuple[_Checker, ...]

    def problem(self, value: Any, sizes: _Sizes, where: _Where) -> _Problem | None:
        for checker in self.checkers:
            if problem := checker.problem(value, sizes, where):
                return problem
        return None


@dataclasses.dataclass(frozen=True, slots=True)
class _Instance:
    """A class among the alternatives of a union. Elsewhere a class is not checked."""

    kinds: tuple[type, ...]
    text: str

    def problem(self, value: Any, sizes: _Sizes, where: _Where) -> _Problem | None:
        return None if isinstance(value, self.kinds) else _Problem(where, self.text, _came(value), ())


@dataclasses.dataclass(frozen=True, slots=True)
class _Union:
    """Alternatives. The first that fits is taken, and binds size variables."""

    alternatives: tuple[_Checker, ...]
    text: str

    def problem(self, value: Any, sizes: _Sizes, where: _Where) -> _Problem | None:
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
        return _Problem(where, self.text, _came(value), tuple(differences))


@dataclasses.dataclass(frozen=True, slots=True)
class _Alias:
    """A `type` statement, whose value is read at first use: it may contain itself."""

    alias: Any

    def problem(self, value: Any, sizes: _Sizes, where: _Where) -> _Problem | None:
        checker = _checker(self.alias.__value__)
        return None if checker is None else checker.problem(value, sizes, where)


def _text_of(annotation: Any) -> str:
    if annotation is None or annotation is type(None):
        return "None"
    if isinstance(annotation, type) and typing.get_origin(annotation) is None:
        return annotation.__qualname__.rpartition(".")[2]
    return repr(annotation).replace("typing.", "")


def _checker(annotation: Any) -> _Checker | None:
    if isinstance(annotation, ArrayType):
        return annotation
    try:
        hash(annotation)
    except TypeError:  # an Annotated whose metadata is a list
        return _new_checker(annotation)
    return _remembered_checker(annotation, repr(annotation))  # to Python, A | B equals B | A


@functools.lru_cache(maxsize=1024)
def _remembered_checker(annotation: Any, text: str) -> _Checker | None:
    return _new_checker(annotation)


def _new_checker(annotation: Any) -> _Checker | None:
    if isinstance(annotation, ElementType):
        return annotation.any_shape
    if isinstance(annotation, (str, typing.ForwardRef)):
        text = annotation if isinstance(annotation, str) else annotation.__forward_arg__
        raise ArrayTypeError(f"check: the annotation {text!r} is a string here; write it without quotes.")
    if isinstance(annotation, typing.NewType):
        return _checker(annotation.__supertype__)
    if isinstance(annotation, getattr(typing, "TypeAliasType", ())):
        return _Alias(annotation)
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        own = [x for x in annotation.__metadata__ if isinstance(x, (ArrayType, ElementType))]
        found = [checker for x in own if (checker := _checker(x)) is not None]
        return _checker(args[0]) if not found else found[0] if len(found) == 1 else _All(tuple(found))
    if origin is typing.Union or origin is types.UnionType:
        return _new_union(annotation, args)
    if origin in (typing.Final, typing.ClassVar, typing.Required, typing.NotRequired):
        return _checker(args[0])
    if origin is tuple and not (len(args) == 2 and args[1] is ...):
        items = tuple(_checker(arg) for arg in args)
        return _Items(items, _text_of(annotation)) if any(item is not None for item in items) else None
    kind = annotation if origin is None else origin
    if not isinstance(kind, type):
        return None
    if args and issubclass(kind, (collections.abc.Sequence, collections.abc.Mapping)):
        item = _checker(args[1] if issubclass(kind, collections.abc.Mapping) and len(args) == 2 else args[0])
        return _Each(kind, item, _text_of(annotation)) if item is not None else None
    if dataclasses.is_dataclass(kind) or typing.is_typeddict(kind) or (issubclass(kind, tuple) and hasattr(kind, "_fields")):
        return _Record(kind)
    return None


def _new_union(annotation: Any, args: tuple[Any, ...]) -> _Checker | None:
    checkers = [_checker(arg) for arg in args]
    if all(checker is None for checker in checkers):
        return None
    alternatives: list[_Checker] = []
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


def _unreadable(what: str, error: BaseException) -> ArrayTypeError:
    return ArrayTypeError(
        f"checked: {what} can not be evaluated: {type(error).__name__}: {error}. Import or define the name where the function "
        "sees it when it runs (not under TYPE_CHECKING), or leave the annotation out."
    )


# --- what users call ------------------------------------------------------------------------------------------------


def check(value: Any, annotation: Any, sizes: dict[str, int] | None = None) -> Any:
    """Returns `value`, if it is of the type that `annotation` states.

    Args:
      value: an array, or what else an annotation speaks of (a tuple, a dataclass, ...).
      annotation: whatever may annotate a parameter of a `checked` function.
      sizes: the size variables that are known. New ones are added, so that several calls can share them.

    Raises:
      ArrayTypeError: the value is of another type.

    >>> import namedax as nx
    >>> x = nx.named(jnp.ones((8, 3)), ["batch", "k"])
    >>> sizes = {}
    >>> check(x, f32[{"batch": "n", "k": None}], sizes).dims, sizes
    (('batch', 'k'), {'n': 8})
    >>> check(x, f32[{"batch"}])
    Traceback (most recent call last):
      ...
    namedax.errors.ArrayTypeError: check: the value should be f32[{'batch'}], and is f32[]{batch:8, k:3}. It has the axis 'k', ...
    """
    problem = _check(value, annotation, sizes)
    if problem is not None:
        raise ArrayTypeError(f"check: {problem.text()}")
    return value


def matches(value: Any, annotation: Any, sizes: dict[str, int] | None = None) -> bool:
    """Whether `value` is of the type that `annotation` states. Takes what `check` takes; `sizes` grows if it is.

    >>> matches(jnp.ones(3), f32["n"]), matches(jnp.ones(3), i32["n"]), matches(2.0, f32[()])
    (True, False, True)
    """
    return _check(value, annotation, sizes) is None


def _check(value: Any, annotation: Any, sizes: dict[str, int] | None) -> _Problem | None:
    checker = _checker(annotation)
    if checker is None:
        return None
    known: _Sizes = {variable: (size, "`sizes`", None) for variable, size in (sizes or {}).items()}
    problem = checker.problem(value, known, "the value")
    if problem is None and sizes is not None:
        sizes.update({variable: size for variable, (size, _, _) in known.items()})
    return problem


def checked(fun: F) -> F:
    """Compares the arguments and results of a function with its annotations, on every call.

    Under `jax.jit`, `jax.grad`, `jax.vmap` and `nx.xmap` a call happens when the function is traced, and the traced program has
    no operation more. Within one call a size variable has one size, in arguments and results. Annotations that have nothing to
    do with arrays (`int`, classes) are not checked. Decorate the function itself, under other decorators: `checked(jax.vmap(f))`
    would compare the annotations of `f` with the arguments of `vmap`.

    Args:
      fun: a function or method with annotations; see this module, and `docs/typing.md`.

    Returns:
      A function with the same name, signature and docstring. It is `fun` itself if no annotation speaks of arrays.

    Raises, when called:
      ArrayTypeError: an argument or a result has another type, or an annotation can not be evaluated.

    >>> import namedax as nx
    >>> @checked
    ... def predict(w: f32[{"inputs": "i", "hidden": "h"}], x: f32[{"batch", "inputs"}]) -> f32[{"batch", "hidden"}]:
    ...     return nx.dot(x, w, "inputs")
    >>> w, x = nx.named(jnp.ones((3, 6)), ["inputs", "hidden"]), nx.named(jnp.ones((8, 3)), ["batch", "inputs"])
    >>> predict(w, x).dims
    ('batch', 'hidden')
    >>> predict(w, w)
    Traceback (most recent call last):
      ...
    namedax.errors.ArrayTypeError: predict: argument x should be f32[{'batch', 'inputs'}], and is f32[]{inputs:3, hidden:6}. ...
    """
    frame = inspect.currentframe()
    try:
        caller = frame.f_back if frame is not None else None
        # Where annotations are strings they may speak of names that are local to whoever decorates.
        local = dict(caller.f_locals) if caller is not None and caller.f_globals is _globals_of(fun) else {}
    finally:
        del frame, caller
    wrapped: F = _checked(fun, local)
    return wrapped


def _checked(fun: Any, namespace: dict[str, Any]) -> Any:
    if isinstance(fun, (staticmethod, classmethod)):
        return type(fun)(_checked(fun.__func__, namespace))
    if isinstance(fun, type) or not callable(fun):
        raise ArrayTypeError(f"checked: it takes a function, not {fun!r}. For a class, decorate its methods.")
    if inspect.iscoroutinefunction(fun) or inspect.isasyncgenfunction(fun):
        raise ArrayTypeError(f"checked: {_name_of(fun)} is a coroutine function, which checked does not take.")
    plan: _Plan | None = None
    try:
        plan = _Plan(fun, namespace)
        if not plan.parameters and plan.result is None:
            return fun
        namespace = {}
    except NameError:
        # Perhaps a class that is defined further down. What of the caller's names it may need is kept for the first call.
        words = set(re.findall(r"\w+", " ".join(map(str, _annotations(fun).values()))))
        namespace = {name: value for name, value in namespace.items() if name in words}
    op = _name_of(fun)

    @functools.wraps(fun)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        nonlocal plan
        if plan is None:
            try:
                plan = _Plan(fun, namespace)
            except NameError as error:
                raise _unreadable(f"an annotation of {op}", error) from error
        sizes: _Sizes = {}
        for value, checker, where in plan.arguments(args, kwargs):
            problem = checker.problem(value, sizes, where)
            if problem is not None:
                raise ArrayTypeError(f"{op}: {problem.text()}")
        result = fun(*args, **kwargs)
        if plan.result is not None:
            problem = plan.result.problem(result, sizes, "the result")
            if problem is not None:
                raise ArrayTypeError(f"{op}: {problem.text()}")
        return result

    return wrapper


def _name_of(fun: Any) -> str:
    while isinstance(fun, functools.partial):
        fun = fun.func
    name = getattr(fun, "__qualname__", None) or type(fun).__qualname__
    return name.rpartition("<locals>.")[2]


def _annotated(fun: Any) -> Any:
    """The function whose annotations count."""
    while isinstance(fun, functools.partial):
        fun = fun.func
    fun = inspect.unwrap(fun)
    return fun if hasattr(fun, "__annotations__") else type(fun).__call__ if callable(fun) else None


def _globals_of(fun: Any) -> Any:
    return getattr(_annotated(fun.__func__ if isinstance(fun, (staticmethod, classmethod)) else fun), "__globals__", None)


def _annotations(fun: Any) -> Mapping[str, Any]:
    try:
        return getattr(_annotated(fun), "__annotations__", {})
    except NameError:  # since Python 3.14 reading is evaluating
        return {}


class _Plan:
    """Which arguments of a function are checked, how each is found in a call, and the check of the result."""

    def __init__(self, fun: Any, namespace: Mapping[str, Any]):
        inner = _annotated(fun)
        closure = getattr(inner, "__closure__", None) or ()
        free = getattr(getattr(inner, "__code__", None), "co_freevars", ())
        cells = {}
        for name, cell in zip(free, closure, strict=True):
            try:
                cells[name] = cell.cell_contents
            except ValueError:  # not assigned yet
                continue
        module = _globals_of(fun) or {}
        try:
            hints = typing.get_type_hints(inner, {**module, **namespace, **cells}, include_extras=True)
        except (NameError, NamedaxError):
            raise
        except Exception as error:
            raise _unreadable(f"an annotation of {_name_of(fun)}", error) from error
        checkers = {name: checker for name, hint in hints.items() if (checker := _checker(hint)) is not None}
        self.result = checkers.pop("return", None)
        parameters = inspect.signature(fun).parameters
        # One entry for each parameter that is checked: its place and its name, where it may have them.
        self.parameters = []
        for i, parameter in enumerate(parameters.values()):
            if (checker := checkers.get(parameter.name)) is not None:
                self.parameters.append(
                    (i, parameter.name, parameter.kind, parameter.default, checker, f"argument {parameter.name}")
                )
        self._by_name = {p.name for p in parameters.values() if p.kind in (_EITHER, inspect.Parameter.KEYWORD_ONLY)}

    def arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[tuple[Any, _Checker, _Where]]:
        """The values to check, in the order of the signature. What does not fit the signature is left to Python."""
        found: list[tuple[Any, _Checker, _Where]] = []
        given = len(args)
        for place, name, kind, default, checker, where in self.parameters:
            if kind is _VARIADIC:
                found += [(args[i], checker, (where, f"[{i - place}]")) for i in range(place, given)]
            elif kind is _KEYWORDS:
                more = [key for key in kwargs if key not in self._by_name]
                found += [(kwargs[key], checker, (where, f"[{key!r}]")) for key in more]
            elif place < given and kind is not _KEYWORD_ONLY:
                found.append((args[place], checker, where))
            elif name in kwargs and kind is not _POSITIONAL_ONLY:
                found.append((kwargs[name], checker, where))
            elif default is not inspect.Parameter.empty:
                found.append((default, checker, where))
        return found


_POSITIONAL_ONLY, _EITHER, _VARIADIC, _KEYWORD_ONLY, _KEYWORDS = (
    inspect.Parameter.POSITIONAL_ONLY,
    inspect.Parameter.POSITIONAL_OR_KEYWORD,
    inspect.Parameter.VAR_POSITIONAL,
    inspect.Parameter.KEYWORD_ONLY,
    inspect.Parameter.VAR_KEYWORD,
)
