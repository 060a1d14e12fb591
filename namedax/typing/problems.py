"""What differs between a value and an annotation, and how it is said."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Hashable
from typing import Any, Protocol

import jax
import numpy as np

from namedax.core.array import NamedArray
from namedax.core.display import type_text
from namedax.errors import ArrayTypeError

__all__ = ["Checker", "Problem", "Sizes", "Where", "came", "is_array", "text_of_place", "unreadable"]


# Where a value stands: "argument x", or a pair of where its container stands and an accessor, (("argument x", "['w']"), "[0]").
# Text is made of it only when there is something to say.
Where = Any


# The size variables of one call: the size, and where it was seen first: the value, and its axis (an integer or a name).
Sizes = dict[str, tuple[int, Where, Hashable]]


def text_of_place(where: Where) -> str:
    """Where a value stands, as messages say it."""
    return where if isinstance(where, str) else text_of_place(where[0]) + where[1]


@dataclasses.dataclass(frozen=True, slots=True)
class Problem:
    """What differs: what was expected where, what came, the differences, and what to do about them."""

    where: Where
    expected: str
    came: str
    differences: tuple[str, ...]
    remedies: tuple[str, ...] = ()

    def text(self) -> str:
        """The problem as sentences."""
        sentences = [f"{text_of_place(self.where)} should be {self.expected}, but is {self.came}."]
        sentences += [f"{what[0].upper()}{what[1:]}." for what in self.differences]
        return " ".join((*sentences, *dict.fromkeys(self.remedies)))


class Checker(Protocol):
    """Something that values can be compared with."""

    def problem(self, value: Any, sizes: Sizes, where: Where) -> Problem | None:
        """What differs, or `None`; size variables that are new go into `sizes`."""


@functools.cache
def _is_array_type(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, (jax.Array, np.ndarray, np.generic, jax.ShapeDtypeStruct))


def is_array(value: Any) -> bool:
    """Whether a value is an array of JAX or NumPy, or stands for one."""
    # A tracer is a jax.Array by what it stands for, not by its class.
    kind: Any = type(value)
    return _is_array_type(kind) or isinstance(value, jax.Array)


def came(value: Any) -> str:
    """What a value is, as messages say it."""
    if value is None:
        return "None"
    if isinstance(value, (np.ndarray, np.generic)):
        return f"the NumPy array {type_text(value)}"
    if isinstance(value, NamedArray) or is_array(value):
        return type_text(value)
    if isinstance(value, (bool, int, float, complex, str)):
        return f"the Python {type(value).__name__} {value!r:.60}"
    length = f" of length {len(value)}" if isinstance(value, (list, tuple, dict)) else ""
    return f"of type {type(value).__qualname__}{length}"


def unreadable(what: str, error: BaseException) -> ArrayTypeError:
    """The error for an annotation that cannot be evaluated."""
    return ArrayTypeError(
        f"checked: {what} cannot be evaluated: {type(error).__name__}: {error}. Import or define the name where the function "
        "sees it when it runs (not under TYPE_CHECKING), or leave the annotation out."
    )
