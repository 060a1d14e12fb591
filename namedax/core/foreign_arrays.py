"""Reject arrays of other libraries whose axes have names, such as `xarray.DataArray`.

NumPy and JAX convert such an array by position and drop its dims. Operands of namedax align by
name. A conversion without names could give other numbers, or an outer product.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from namedax.core.display import Shown
from namedax.core.types import PyTree
from namedax.errors import ArgumentTypeError, show_names

__all__ = ["foreign_dims", "is_foreign_type", "refuse_foreign", "refuse_foreign_among"]


_known: dict[type, bool] = {}
_MOST = 1024


def is_foreign_type(kind: type) -> bool:
    """Return True if `kind` is a type of arrays with dims of another library.

    >>> import numpy as np, xarray
    >>> is_foreign_type(xarray.DataArray), is_foreign_type(np.ndarray)
    (True, False)
    """
    known = _known.get(kind)
    if known is not None:
        return known
    if len(_known) >= _MOST:
        _known.clear()
    found = _known[kind] = (
        hasattr(kind, "dims") and hasattr(kind, "__array__") and not issubclass(kind, Shown)
    )
    return found


def foreign_dims(value: Any) -> tuple[Hashable, ...]:
    """Return the dims of an array of another library."""
    return tuple(value.dims)


def refuse_foreign(op: str, value: object) -> None:
    """Raise if `value` is an array with dims of another library.

    Raises:
      ArgumentTypeError: it is one.
    """
    if is_foreign_type(type(value)):
        raise ArgumentTypeError(_text(op, value))


def refuse_foreign_among(op: str, arguments: PyTree) -> None:
    """Raise if an argument, or an element of a container, is an array with dims of another library.

    Raises:
      ArgumentTypeError: one is.
    """
    # JAX's tree functions sort the keys of dicts, and keys of several types have no order.
    waiting = [arguments]
    while waiting:
        here = waiting.pop()
        if type(here) in (tuple, list):
            waiting += here
        elif type(here) is dict:
            waiting += here.values()
        elif is_foreign_type(type(here)):
            raise ArgumentTypeError(_text(op, here)) from None


def _text(op: str, value: object) -> str:
    kind, dims = type(value), foreign_dims(value)
    named = f"the dims {show_names(dims)}" if dims else "no dims"
    if kind.__module__.partition(".")[0] == "xarray" and hasattr(kind, "coords"):
        remedy = "Convert it first: nx.from_xarray(x)."
    elif kind.__module__.partition(".")[0] == "xarray":
        remedy = "Convert it first: nx.from_xarray(xarray.DataArray(x))."
    else:
        remedy = f"Convert it first: nx.named(np.asarray(x), {list(dims)!r})."
    return (
        f"{op}: a {kind.__name__} with {named} is not converted implicitly, because its dims would"
        f" be dropped. {remedy}"
    )
