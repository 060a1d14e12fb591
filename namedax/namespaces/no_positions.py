"""Functions of `jax.numpy` that put entries along a new positional axis, refused where their arrays have names and no positional axis.

Names are batch axes, so that each entry by itself would be put along that axis: as many results of one entry as there are entries.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from namedax.core.array import NamedArray
from namedax.core.display import type_text
from namedax.errors import PositionalAxisError, show_names
from namedax.operands.axes import is_flat, names_alone, refuse_order

__all__ = ["refusing"]

_JOINED = "nx.concatenate([x, y], axis) along a name that they have, or nx.stack([x, y], 'new') along a new one"
_ALONG = "nx.{op} along that axis as a position, nx.untag(x, [{last!r}])"
_PRODUCT = "x * nx.rename(y, {{{last!r}: 'other'}}) for all products of two arrays"
# What to write for names; `None`: the array in an order of its axes.
_INSTEAD: dict[str, str | None] = {
    **dict.fromkeys(("ravel", "reshape", "resize", "diagflat", "packbits")),
    **dict.fromkeys(("outer", "kron"), _PRODUCT),
    **dict.fromkeys(("hstack", "vstack", "dstack", "column_stack", "block"), _JOINED),
    **dict.fromkeys(("poly", "roots", "histogram_bin_edges"), _ALONG.replace("nx.{op}", "nx.numpy.{op}")),
    "insert": "nx.numpy.insert(arr, obj, values, axis={last!r})",
    "delete": "nx.numpy.delete(arr, obj, axis={last!r})",
    "ediff1d": "nx.diff(x, axis={last!r})",
}
# Where those that can go along an axis take it.
_AXIS_AT = {"insert": 3, "delete": 2, "packbits": 1}
# These act on all their arrays, or on a sequence of them; the others on the first argument.
_OF_SEVERAL = frozenset("outer kron hstack vstack dstack column_stack block".split())


def refusing(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """`function`, a lifted one of `jax.numpy`, which refuses arrays that have names alone if it is one of those that make positions."""
    if name not in _INSTEAD:
        return function
    instead = _INSTEAD[name]

    @functools.wraps(function)
    def checked(*args: Any, **kwargs: Any) -> Any:
        given = (*args, *kwargs.values()) if name in _OF_SEVERAL else args[:1]
        arrays = [x for x in jax.tree.leaves(given, is_leaf=_is_array) if _is_array(x)]
        if arrays and all(map(names_alone, arrays)) and not _says_its_axes(name, args, kwargs):
            if instead is None:
                return refuse_order(name, arrays[0])
            names = names_alone(arrays[0])
            raise PositionalAxisError(
                f"{name}: {name} acts on positional axes, and {type_text(arrays[0])} has names only, {show_names(names)}. Write "
                f"{instead.format(op=name, last=names[-1])}."
            )
        return function(*args, **kwargs)

    return checked


def _is_array(x: Any) -> bool:
    return isinstance(x, (NamedArray, jax.Array, np.ndarray))


def _says_its_axes(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether the call says along which axes: a name, or a shape without one that is left open."""
    if name == "reshape":
        return not is_flat((*args[1:2], kwargs.get("shape", ())))
    place = _AXIS_AT.get(name)
    return place is not None and (len(args) > place or "axis" in kwargs)
