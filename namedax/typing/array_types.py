"""Dtypes and array types as annotations, written as `f32[3, {"batch"}]`.

An annotation is parsed once, when it is evaluated.
"""

from __future__ import annotations

import dataclasses
import functools
import operator
import typing
from collections.abc import Hashable, Mapping
from types import EllipsisType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from namedax.core.names import DType, is_name
from namedax.errors import ArrayTypeError, AxisNameError

__all__ = ["ELEMENT_TYPES", "ArrayType", "ElementType", "Size", "as_jax_reads", "element_type"]

#: The size of an axis: an integer, a size variable, or any size.
Size = int | str | None


class _Alternative:
    """A type that `|` can combine into a union."""

    __slots__ = ()

    def __or__(self, other: object) -> Any:
        return typing.Union[self, other]  # noqa: UP007

    def __ror__(self, other: object) -> Any:
        return typing.Union[other, self]  # noqa: UP007


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class ElementType(_Alternative):
    """A dtype, or a kind of dtypes, as an annotation.

    Square brackets make the type of an array: `f32[3, {"batch"}]`.

    The module has one object for each common dtype; `element_type` makes the others.

    Attributes:
      name: the name in annotations, such as `"f32"`.
      of: the dtype; for a kind of dtypes, its abstract type, such as `jnp.floating`.

    >>> from namedax.typing import f32, floating
    >>> f32, floating, f32.dtype
    (f32, floating, dtype('float32'))
    """

    name: str
    # A dtype; for a kind, the abstract type, such as jnp.floating.
    of: Any = dataclasses.field(compare=False)

    @property
    def dtype(self) -> np.dtype:
        """The dtype; a kind of dtypes has none."""
        if not isinstance(self.of, np.dtype):
            raise AttributeError(f"{self} is a kind of dtypes and has no dtype of its own.")
        return self.of

    def has(self, dtype: object, *, weak: bool = False) -> bool:
        """Return True if an array of `dtype` has this dtype, or one of this kind.

        Args:
          dtype: the dtype of an array.
          weak: True if the array is weakly typed, like Python numbers, and so adopts the dtype of
            another operand. Default: False.

        >>> import jax.numpy as jnp
        >>> from namedax.typing import bf16, f32, floating
        >>> f32.has(jnp.float32), f32.has(jnp.bfloat16), floating.has(jnp.bfloat16)
        (True, False, True)
        >>> bf16.has(jnp.float32, weak=True)
        True
        """
        return _has(self.of, dtype, weak)

    def __getitem__(self, item: object) -> ArrayType:
        return _parse(self, item)

    def __repr__(self) -> str:
        return self.name


# Promotion of a weakly typed number: an integer may become a float and a float a complex number,
# but not vice versa.
_WEAK = (jnp.integer, jnp.floating, jnp.complexfloating)


@functools.lru_cache(maxsize=1024)
def _has(of: Any, dtype: Any, weak: bool) -> bool:
    if not jnp.issubdtype(dtype, jax.dtypes.extended):
        dtype = np.dtype(dtype)
    if not _is_element(dtype):
        return False
    first = next((i for i, kind in enumerate(_WEAK) if jnp.issubdtype(dtype, kind)), len(_WEAK))
    becomes = _WEAK[first:] if weak else ()
    return bool(jnp.issubdtype(dtype, of)) or any(
        jnp.issubdtype(of, kind) or jnp.issubdtype(kind, of) for kind in becomes
    )


def _is_element(dtype: np.dtype) -> bool:
    """Return True if JAX has arrays of `dtype`, unlike strings, dates and objects of NumPy."""
    return dtype == jax.dtypes.float0 or any(
        jnp.issubdtype(dtype, kind) for kind in (np.number, np.bool_, jax.dtypes.extended)
    )


def as_jax_reads(dtype: np.dtype) -> np.dtype:
    """Return the dtype of the JAX array made from a NumPy array.

    With 64-bit types disabled, it is float32 for float64.
    """
    return jax.dtypes.canonicalize_dtype(dtype) if _is_element(dtype) else dtype


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class ArrayType(_Alternative):
    """The type of an array, as `f32[(5,), {"batch": 20}]` makes it. Immutable and hashable.

    Equivalent array types are equal, in whatever form they were written.

    Attributes:
      element: the dtype, or the kind of dtypes.
      shape: the sizes of the positional axes: integers, variables, or `...`.
      names: the sizes of the named axes, by name.
      open: True if the array may have further named axes.

    >>> from namedax.typing import f32
    >>> f32["n", {"batch": 20, "k": None}]
    f32[('n',), {'batch': 20, 'k': None}]
    >>> f32[(5,), {}] == f32[5], f32[{"batch": None}] == f32[{"batch"}]
    (True, True)
    """

    element: ElementType
    shape: tuple[Size | EllipsisType, ...]
    names: Mapping[Hashable, Size] = dataclasses.field(hash=False)  # `==` ignores the order
    open: bool  # True if there may be further names

    def sizes(self, ndim: int) -> tuple[Size, ...] | None:
        """Return the sizes of `ndim` positional axes, or `None` if the rank does not match.

        `...` stands for any number of axes.

        Args:
          ndim: the number of positional axes.
        """
        sizes: tuple[Any, ...] = self.shape
        if ... in sizes:
            at = sizes.index(...)
            sizes = (*sizes[:at], *(None,) * (ndim - len(sizes) + 1), *sizes[at + 1 :])
        return sizes if len(sizes) == ndim else None

    def __repr__(self) -> str:
        sizes = ["..." if size is ... else repr(size) for size in self.shape]
        if not self.names and not self.open:
            return f"{self.element}[{', '.join(sizes) or '()'}]"
        if any(size is not None for size in self.names.values()):
            entries = [f"{name!r}: {size!r}" for name, size in self.names.items()] + [
                "...: ..."
            ] * self.open
        else:
            entries = [repr(name) for name in self.names] + ["..."] * self.open
        shape = "..." if sizes == ["..."] else f"({', '.join(sizes)}{',' * (len(sizes) == 1)})"
        return f"{self.element}[{f'{shape}, ' if sizes else ''}{{{', '.join(entries)}}}]"


_BRACES = (Mapping, set, frozenset)


def _parse(element: ElementType, item: object) -> ArrayType:
    """Return the array type for `element[item]`."""
    parts: list[Any] = list(item) if isinstance(item, tuple) and type(item) is tuple else [item]
    named: Any = {}
    if parts and isinstance(parts[-1], _BRACES):
        named = parts.pop()
    if len(parts) == 1 and type(parts[0]) is tuple:
        parts = [*parts[0]]
    for size in parts:
        if isinstance(size, _BRACES):
            raise ArrayTypeError(
                f"{element}[...]: the named axes must come last, in one pair of braces; got"
                f" {item!r}. Use {element}[3, {{'batch'}}]."
            )
        if isinstance(size, (tuple, list)):
            raise ArrayTypeError(
                f"{element}[...]: the sizes of the positional axes must be one tuple; got {item!r}."
                f" Use {element}[(3, 4)]."
            )
    shape = tuple(
        size if size is ... else _parse_size(element, size, "a positional axis") for size in parts
    )
    if shape.count(...) > 1:
        raise ArrayTypeError(
            f"{element}[...]: ... stands for any positional axes and may occur once; got {item!r}."
            " Remove one."
        )
    return ArrayType(element, shape, _parse_names(element, named), ... in named)


def _parse_names(element: ElementType, named: Any) -> dict[Hashable, Size]:
    if not isinstance(
        named, Mapping
    ):  # sets are unordered, and the text should be the same in every run
        named = {name: ... if name is ... else None for name in sorted(named, key=repr)}
    if named.get(..., ...) is not ...:
        raise ArrayTypeError(
            f"{element}[...]: ... as a name takes no size; got ...: {named[...]!r}. Use ...: ... to"
            " allow more names."
        )
    sizes: dict[Hashable, Size] = {}
    for name, size in named.items():
        if name is ...:
            continue
        if not is_name(name):
            raise AxisNameError(
                f"{element}[...]: {name!r} is not an axis name; a name is any hashable value except"
                " integers and None. Write positional sizes before the braces."
            )
        sizes[name] = _parse_size(element, size, f"axis {name!r}")
    return sizes


def _parse_size(element: ElementType, size: Any, what: str) -> Size:
    if size is None:
        return None
    if isinstance(size, str):
        if size.isidentifier() and size != "_":
            return str.__str__(size)  # also for a StrEnum
        raise ArrayTypeError(
            f"{element}[...]: {size!r} is not the size of {what}; a size variable is one"
            " identifier, such as 'n'. Write None for any size, and integers without quotes."
        )
    try:
        number = -1 if isinstance(size, bool) else operator.index(size)
    except TypeError:
        number = -1
    if number < 0:
        raise ArrayTypeError(
            f"{element}[...]: {size!r} is not the size of {what}. Use an integer, a size variable"
            " (a string), or None for any size."
        )
    return number


# Typed as `Any` for static checkers: mypy then accepts `f32[3, {"batch": 20}]` as a type.
f16: Any = ElementType("f16", np.dtype("float16"))
bf16: Any = ElementType("bf16", np.dtype(jnp.bfloat16))
f32: Any = ElementType("f32", np.dtype("float32"))
f64: Any = ElementType("f64", np.dtype("float64"))
i8: Any = ElementType("i8", np.dtype("int8"))
i16: Any = ElementType("i16", np.dtype("int16"))
i32: Any = ElementType("i32", np.dtype("int32"))
i64: Any = ElementType("i64", np.dtype("int64"))
u8: Any = ElementType("u8", np.dtype("uint8"))
u16: Any = ElementType("u16", np.dtype("uint16"))
u32: Any = ElementType("u32", np.dtype("uint32"))
u64: Any = ElementType("u64", np.dtype("uint64"))
c64: Any = ElementType("c64", np.dtype("complex64"))
c128: Any = ElementType("c128", np.dtype("complex128"))
bool_: Any = ElementType("bool_", np.dtype("bool"))
key: Any = ElementType("key", jax.dtypes.prng_key)
floating: Any = ElementType("floating", jnp.floating)
complexfloating: Any = ElementType("complexfloating", jnp.complexfloating)
inexact: Any = ElementType("inexact", jnp.inexact)
signedinteger: Any = ElementType("signedinteger", jnp.signedinteger)
unsignedinteger: Any = ElementType("unsignedinteger", jnp.unsignedinteger)
integer: Any = ElementType("integer", jnp.integer)
number: Any = ElementType("number", jnp.number)
any_: Any = ElementType("any_", np.generic)

#: The dtypes with names.
ELEMENT_TYPES: tuple[ElementType, ...] = tuple(
    value for value in vars().values() if isinstance(value, ElementType)
)


@functools.lru_cache(maxsize=256)
def element_type(dtype: DType) -> ElementType:
    """Return the annotation of a dtype, also for dtypes without a name in this module.

    Args:
      dtype: a dtype, or its name.

    Raises:
      ArrayTypeError: JAX has no arrays of that dtype.

    >>> import jax.numpy as jnp
    >>> from namedax.typing import element_type
    >>> element_type(jnp.float32), element_type(jnp.float8_e4m3fn)[3]
    (f32, element_type('float8_e4m3fn')[3])
    """
    try:
        if jnp.issubdtype(dtype, jax.dtypes.prng_key):
            return key
        exact = np.dtype(dtype)
    except TypeError:
        exact = None
    if exact is None or not _is_element(exact):
        raise ArrayTypeError(
            f"element_type: JAX has no arrays of {dtype!r}. Pass a dtype such as jnp.float32 or"
            " 'float32'."
        )
    named = (element for element in ELEMENT_TYPES if element.of == exact)
    return next(named, ElementType(f"element_type({exact.name!r})", exact))
