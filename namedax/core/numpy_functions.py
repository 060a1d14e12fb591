"""NumPy's own functions, given a named array: what NumPy asks of an array first, by the protocol `__array_function__`.

They know no names. Without the protocol NumPy turns the array into its own somewhere within, where nobody knows any more which function was
called, and some functions take the error for an answer.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from namedax.core.display import type_text
from namedax.errors import NamedAxesLeftError, hints, show_names

__all__ = ["call_of_numpy"]

# These ask for a shape, an element type or a part of each entry, which an array with names has.
_INSPECTING = frozenset(
    [
        *(np.shape, np.ndim, np.size, np.result_type, np.can_cast, np.common_type, np.iscomplexobj, np.isrealobj),
        np.real,
        np.imag,
        np.isreal,
    ]
)


def call_of_numpy(function: Callable[..., Any], args: Any, kwargs: Mapping[str, Any], named: type[Any]) -> Any:
    """`function(*args, **kwargs)`, of which an argument is a named array, of type `named`, or holds one.

    Raises:
      NamedAxesLeftError: one has names, and the function needs its entries.
    """
    if function in _INSPECTING:
        return inspect.unwrap(function)(*args, **kwargs)
    for x in _arrays_in((*args, *kwargs.values()), named):
        if names := tuple(dim for dim in x._dims if dim is not None):
            space = getattr(function, "__module__", None) or "numpy"
            op = f"np{space.removeprefix('numpy')}.{function.__name__}"
            remedy = hints().numpy_function(function.__name__, space, names) or "Write"
            raise NamedAxesLeftError(
                f"{op}: {type_text(x)} still has named axes, and NumPy's functions know no names. {remedy} nx.positional(x, "
                f"[{show_names(names)}]) for an array of positions."
            )
    bare = [_without_wrappers(value, named) for value in (tuple(args), dict(kwargs))]
    return function(*bare[0], **bare[1])


def _arrays_in(value: Any, named: type[Any]) -> Iterator[Any]:
    if isinstance(value, named):
        yield value
    elif isinstance(value, (list, tuple, dict)):
        for entry in value.values() if isinstance(value, dict) else value:
            yield from _arrays_in(entry, named)


def _without_wrappers(value: Any, named: type[Any]) -> Any:
    """`value` with the data of the named arrays in it, none of which has a name."""
    if isinstance(value, named):
        return value._data
    if type(value) in (list, tuple):
        return type(value)(_without_wrappers(entry, named) for entry in value)
    return {key: _without_wrappers(entry, named) for key, entry in value.items()} if type(value) is dict else value
