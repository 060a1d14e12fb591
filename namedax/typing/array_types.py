"""Types of elements and of arrays, as `f32[3, {"batch"}]` writes them.

An annotation is parsed once, where it is written. Everything that can be checked is an object with one method `problem`,
which returns `None` or says what differs.
"""

from __future__ import annotations

import difflib
import functools
import operator
import types
import typing
from collections.abc import Hashable, Mapping
from types import EllipsisType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from namedax.core.array import NamedArray
from namedax.core.display import dtype_text
from namedax.core.names import is_name
from namedax.errors import ArrayTypeError, AxisNameError, show_names
from namedax.typing.problems import Problem, Sizes, Where, came, is_array, text_of_place

__all__ = [
    "ArrayType",
    "ElementType",
    "any_",
    "bf16",
    "bool_",
    "c64",
    "c128",
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
    "number",
    "signedinteger",
    "u8",
    "u16",
    "u32",
    "u64",
    "unsignedinteger",
]

Size = int | str | None


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
        raise AttributeError(f"ArrayType is immutable: {name!r} cannot be set.")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"ArrayType is immutable: {name!r} cannot be deleted.")

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

    def problem(self, value: Any, sizes: Sizes, where: Where) -> Problem | None:
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
        elif is_array(value):
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

    def _no_array(self, value: Any, where: Where) -> Problem:
        if value is None:
            remedy = f"If None is allowed here, write {self} | None."
        elif isinstance(value, (list, tuple)):
            remedy = "Make it an array first (jnp.asarray, nx.named)."
        else:
            remedy = ""
        return Problem(where, repr(self), came(value), (), (remedy,) if remedy else ())

    def _differences(
        self,
        value: Any,
        dtype: Any,
        shape: tuple[int, ...],
        named: Mapping[Hashable, int],
        sizes: Sizes,
        where: Where,
        fits: bool,
        rank: bool,
        wrong: list[tuple[Hashable, Any, int]],
    ) -> Problem:
        said, remedies = [], []
        if not fits:
            if dtype is None:
                have = f"that of a Python {type(value).__name__}"
            elif isinstance(value, (np.ndarray, np.generic)) and value.dtype != dtype:
                have = f"{dtype_text(value.dtype)}, which JAX reads as {dtype_text(dtype)}"
            else:
                have = dtype_text(dtype)
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
        return Problem(where, repr(self), came(value), tuple(said), tuple(remedies))

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


def _bound(variable: str, sizes: Sizes, where: Where) -> str:
    size, first, axis = sizes[variable]
    if first != where:
        return f"{variable} = {size} from {text_of_place(first)}"
    return f"{variable} = {size} from its " + (f"positional axis {axis}" if isinstance(axis, int) else f"axis {axis!r}")


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
            raise ArrayTypeError(f"{element}[...]: the named axes come last, and once; got {item!r}.")
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
                f"{element}[...]: {name!r} is not an axis name; names are any hashable values but integers and None. "
                "Positional sizes stand in front of the braces."
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
