"""What an axis name is, and the dims of an array: a name or None for each of its dimensions."""

from __future__ import annotations

import numbers
from collections.abc import Hashable
from types import EllipsisType
from typing import Any

import numpy as np

from namedax.errors import AxisNameError, shown

__all__ = ["Dims", "check_dims", "is_name"]


Dims = tuple[Hashable | None, ...]


def is_name(value: Any) -> bool:
    """Whether `value` can be an axis name: any hashable but integers, `None` and `...`.

    >>> is_name("batch"), is_name(("layer", 0)), is_name(0), is_name(None)
    (True, True, False, False)
    """
    if isinstance(value, str):
        return True
    if value is None or isinstance(value, (int, np.integer, EllipsisType, slice)):
        return False
    if isinstance(value, (numbers.Number, np.bool_)):
        number = complex(value)  # type: ignore[arg-type]
        return number.imag != 0 or not number.real.is_integer()  # to a dict, 2.0 is 2
    try:
        hash(value)
    except TypeError:
        return False
    return True


def check_dims(dims: Dims, op: str) -> Dims:
    """Returns `dims` as a tuple; raises if an entry is not a name, or if a name appears twice."""
    dims = tuple(dims)
    seen = set()
    for dim in dims:
        if dim is None:
            continue
        if not is_name(dim):
            raise AxisNameError(
                f"{op}: {shown(dim)} is not an axis name; names are any hashable values but integers, None and '...'. Write None "
                "for a positional axis."
            )
        if dim in seen:
            raise AxisNameError(
                f"{op}: axis {dim!r} appears twice in {dims}; one array has an axis at most once. Rename one of them."
            )
        seen.add(dim)
    return dims
