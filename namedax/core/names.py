"""Axis names, and type aliases of names, shapes and placements."""

from __future__ import annotations

import numbers
from collections.abc import Hashable, Sequence
from types import EllipsisType
from typing import Any, TypeAlias

import jax
import jax.typing
import numpy as np

from namedax.errors import AxisNameError, format_value

__all__ = [
    "AxisName",
    "DType",
    "Dims",
    "Label",
    "Labels",
    "Mesh",
    "MeshAxes",
    "PyTree",
    "Shape",
    "check_dims",
    "check_name",
    "escaped",
    "is_name",
]

#: An axis name: any hashable value except integers, `None` and `...`.
AxisName: TypeAlias = Hashable
#: The axis of each dimension of an array: a name, or `None` for a positional axis.
Dims: TypeAlias = tuple[Hashable | None, ...]
#: A dtype, or anything that JAX accepts as one.
DType: TypeAlias = jax.typing.DTypeLike
#: The label of a dimension in a contraction: an axis name, or an integer for a positional axis.
Label: TypeAlias = Hashable
#: The label of each dimension of an array.
Labels: TypeAlias = tuple[Label, ...]
#: A mesh, with or without devices.
Mesh: TypeAlias = jax.sharding.Mesh | jax.sharding.AbstractMesh
#: Names of mesh axes, the major one first.
MeshAxes: TypeAlias = tuple[str, ...]
#: A tree of containers that JAX knows, whose leaves are arrays or other values.
PyTree: TypeAlias = Any
#: The sizes of positional axes; an integer stands for one axis.
Shape: TypeAlias = int | Sequence[int]


def is_name(value: object) -> bool:
    """Return True if `value` can be an axis name.

    A name is any hashable value except integers, `None` and `...`.

    >>> from namedax.core.names import is_name
    >>> is_name("batch"), is_name(("layer", 0)), is_name(0), is_name(None)
    (True, True, False, False)
    """
    if isinstance(value, str):
        return True
    if value is None or isinstance(value, (int, np.integer, EllipsisType, slice)):
        return False
    if isinstance(value, (numbers.Number, np.bool_)):
        number = complex(value)  # type: ignore[arg-type]
        # a dict treats 2.0 and 2 as one key
        return number.imag != 0 or not number.real.is_integer()
    try:
        hash(value)
    except TypeError:
        return False
    return True


def check_name(name: Hashable, op: str) -> None:
    """Raise if a name cannot be a key of a dictionary, or cannot be written into a program or file.

    Raises:
      AxisNameError: its hash changes, or it is not valid Unicode.
    """
    if isinstance(name, str):
        try:
            name.encode()
        except UnicodeEncodeError:
            raise AxisNameError(
                f"{op}: the axis name {name!a} is not valid Unicode, so no program or file can"
                " contain it. Use another name."
            ) from None
    elif hash(name) != hash(name):
        raise AxisNameError(
            f"{op}: the hash of the axis name {format_value(name)} changes from call to call, so"
            f" lookups fail. Give {type(name).__name__} a __hash__ that depends on constants only,"
            " or use a string."
        )


def escaped(text: str) -> str:
    """Return a text that can be printed and written into a program; invalid Unicode is escaped."""
    return text if text.isascii() else text.encode(errors="backslashreplace").decode()


def check_dims(dims: Dims, op: str) -> Dims:
    """Return `dims` as a tuple.

    Raises:
      AxisNameError: `dims` is not a sequence, an entry is not a name, or a name appears twice.
    """
    try:
        dims = tuple(dims)
    except TypeError:
        raise AxisNameError(
            f"{op}: dims={format_value(dims)} is not a tuple of axis names. Write one entry per"
            " axis: dims=('batch', None)."
        ) from None
    seen = set()
    for dim in dims:
        if dim is None:
            continue
        if not is_name(dim):
            raise AxisNameError(
                f"{op}: {format_value(dim)} is not an axis name; a name is any hashable value"
                " except integers, None and '...'. Write None for a positional axis."
            )
        if type(dim) is not str or not dim.isascii():
            check_name(dim, op)
        if dim in seen:
            raise AxisNameError(
                f"{op}: axis {dim!r} appears twice in {dims}; one array has an axis at most once."
                " Rename one of them."
            )
        seen.add(dim)
    return dims
