"""Descriptions of a mismatch between a value and an annotation. All sentences about such a value are written here."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from namedax.core.array import NamedArray
from namedax.core.display import type_text
from namedax.core.element_types import NUMPY
from namedax.errors import ArrayTypeError, show_dtype, show_names
from namedax.typing.array_types import ArrayType, Size, as_jax_reads, key

__all__ = ["Problem", "Seen", "Sizes", "array_problem", "no_array_problem", "see", "union_problem", "unreadable"]


# The size variables of one call: the size, and its first occurrence: the value, such as "argument x[0]", and its axis.
Sizes = dict[str, tuple[int, str, Hashable]]


# --- values ---------------------------------------------------------------------------------------------------------


class Seen(NamedTuple):
    """The properties of an array that annotations describe."""

    dtype: Any
    weak: bool
    shape: tuple[int, ...]
    named: Mapping[Hashable, int]


def see(value: Any) -> Seen | None:
    """Return the properties of an array of namedax, JAX or NumPy, or a Python number; `None` for other values."""
    if isinstance(value, NamedArray):
        data: Any = value.data
        if not hasattr(data, "dtype") or len(data.shape) != len(value.dims):  # a transformation of JAX stored another object
            return None
        return Seen(data.dtype, getattr(data, "weak_type", False), value.shape, value._sizes)
    if isinstance(value, NUMPY):
        return Seen(as_jax_reads(value.dtype), False, value.shape, {})
    if isinstance(value, (jax.Array, jax.ShapeDtypeStruct)):
        return Seen(value.dtype, getattr(value, "weak_type", False), value.shape, {})
    number = next((kind for kind in (bool, int, float, complex) if isinstance(value, kind)), None)
    return None if number is None else Seen(np.dtype(number), number is not bool, (), {})


def came(value: Any) -> str:
    """Describe a value, for messages."""
    if value is None:
        return "None"
    if isinstance(value, (bool, int, float, complex, str)) and not isinstance(value, np.generic):
        return f"the Python {type(value).__name__} {value!r:.60}"
    if isinstance(value, NamedArray) or see(value) is not None:
        return f"{'the NumPy array ' if isinstance(value, NUMPY) else ''}{type_text(value)}"
    length = f" of length {len(value)}" if isinstance(value, (list, tuple, dict)) else ""
    return f"of type {type(value).__qualname__}{length}"


# --- differences ----------------------------------------------------------------------------------------------------


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
        sentences = [f"{self.where} should be {self.expected}, but is {came(self.value)}."]
        sentences += [f"{what[0].upper()}{what[1:]}." for what in self.differences]
        return " ".join((*sentences, *self.remedies))


def no_array_problem(value: Any, want: ArrayType, where: str) -> Problem:
    """Describe a value that is not an array although the annotation requires one."""
    remedy = {type(None): f"If None is allowed here, write {want} | None."}.get(type(value))
    if isinstance(value, (list, tuple)):
        remedy = "Make it an array first (jnp.asarray, nx.named)."
    return Problem(where, repr(want), value, (), (remedy,) if remedy else ())


def array_problem(
    value: Any, have: Seen, want: ArrayType, wrong: list[tuple[Hashable, Size, int]], sizes: Sizes, where: str
) -> Problem:
    """Describe an array of another type; `wrong` has the axes of another size, each with the expected and the actual size."""
    said, remedies = [], []
    if not want.element.has(have.dtype, weak=have.weak):
        said.append(f"the dtype is {_element_text(value, have)}, not {want.element}")
        remedies += _about_elements(value, have, want)
    ndim, rank = len(have.shape), want.sizes(len(have.shape)) is not None
    if not rank:
        least = "at least " if ... in want.shape else ""
        axes = f"{ndim or 'no'} positional {'axis' if ndim == 1 else 'axes'}"
        said.append(f"it has {axes}, not {least}{len(want.shape) - want.shape.count(...)}")
    for axis, size, n in wrong:
        said.append(
            f"{_axis(axis)} has size {n}, {f'not {size}' if isinstance(size, int) else f'but {_bound(size, sizes, where)}'}"
        )
    missing = [name for name in want.names if name not in have.named]
    extra = [] if want.open else [name for name in have.named if name not in want.names]
    if missing:
        said.append(f"it lacks {_axes(missing)}")
    if extra:
        said.append(f"it has {_axes(extra)}, which the type lacks")
    if missing or extra:
        remedies += _about_names(want, missing, extra, None if rank else ndim)
    elif not rank:
        remedies.append("Reshape it, or write ... in the type for any number of positional axes.")
    elif len(said) == len(wrong):
        remedies.append("Pass another array, or write a size variable or None where the size may differ.")
    return Problem(where, repr(want), value, said, remedies)


def union_problem(value: Any, text: str, problems: list[Problem], where: str) -> Problem:
    """Describe a value that matches none of the alternatives in `text`; `problems` are those of array alternatives."""
    if len(problems) == 1:
        return problems[0] if problems[0].where != where else dataclasses.replace(problems[0], expected=text)
    differences = [f"for {p.expected}: {'; '.join(p.differences) or 'it is ' + came(value)}" for p in problems]
    return Problem(where, text, value, differences)


def unreadable(what: str, error: BaseException) -> ArrayTypeError:
    """Return the error for an annotation that cannot be evaluated."""
    return ArrayTypeError(
        f"checked: {what} cannot be evaluated: {type(error).__name__}: {error}. Import or define the name so that it "
        "exists at run time (not under TYPE_CHECKING), or remove the annotation."
    )


# --- phrases --------------------------------------------------------------------------------------------------------


def _axis(axis: Hashable) -> str:
    return f"positional axis {axis}" if isinstance(axis, int) else f"axis {axis!r}"


def _axes(names: list[Hashable]) -> str:
    return f"the {'axis' if len(names) == 1 else 'axes'} {show_names(names)}"


def _bound(variable: Any, sizes: Sizes, where: str) -> str:
    size, first, axis = sizes[variable]
    return f"{variable} = {size} from {first if first != where else f'its {_axis(axis)}'}"


def _element_text(value: Any, have: Seen) -> str:
    if not hasattr(value, "dtype"):
        return f"that of a Python {type(value).__name__}"
    read = "" if value.dtype == have.dtype else f", which JAX reads as {show_dtype(have.dtype)}"
    return f"{show_dtype(value.dtype)}{read}"


def _about_elements(value: Any, have: Seen, want: ArrayType) -> list[str]:
    if want.element == key:
        return ["Make random keys with jax.random.key."]
    if not (jnp.issubdtype(have.dtype, np.number) or jnp.issubdtype(have.dtype, np.bool_)):
        return []
    wanted = getattr(want.element, "dtype", None)
    if wanted is None:
        return ["Cast it with astype, or write another dtype in the type."]
    if as_jax_reads(wanted) != wanted:
        return [
            f"64-bit types are disabled, so JAX has no {want.element}. Set jax_enable_x64, or write a kind such as floating."
        ]
    cast = f"astype({wanted.name!r})" if hasattr(value, "dtype") else f"jnp.asarray(value, {wanted.name!r})"
    return [f"Cast it with {cast}, or write another dtype in the type."]


def _about_names(want: ArrayType, missing: list[Hashable], extra: list[Hashable], ndim: int | None) -> list[str]:
    """Return the remedies for names; `ndim` is given if the number of positional axes is wrong as well."""
    if missing and extra:
        close = {name: difflib.get_close_matches(str(name), map(str, extra), n=1, cutoff=0.6) for name in missing}
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
