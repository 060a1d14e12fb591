"""NumPy functions called with a named array, by the protocol `__array_function__`.

They do not support names. Without the protocol, NumPy converts the array somewhere inside, where
the called function is no longer known. Some functions also treat the error as a result.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from namedax.core.display import type_text
from namedax.errors import NamedAxesLeftError, hints, show_names

__all__ = ["call_of_numpy"]

# These need a shape, a dtype or a part of each element, which a named array has.
_INSPECTING = frozenset(
    [
        *(
            np.shape,
            np.ndim,
            np.size,
            np.result_type,
            np.can_cast,
            np.common_type,
            np.iscomplexobj,
            np.isrealobj,
        ),
        np.real,
        np.imag,
        np.isreal,
    ]
)


def call_of_numpy(
    function: Callable[..., Any], args: Any, kwargs: Mapping[str, Any], named: type[Any]
) -> Any:
    """Return `function(*args, **kwargs)` for arguments with arrays of type `named`.

    Raises:
      NamedAxesLeftError: one has names, and the function needs its elements.
    """
    if function in _INSPECTING:
        return inspect.unwrap(function)(*args, **kwargs)
    for x in _arrays_in((*args, *kwargs.values()), named):
        if names := tuple(dim for dim in x._dims if dim is not None):
            space = getattr(function, "__module__", None) or "numpy"
            op = f"np{space.removeprefix('numpy')}.{function.__name__}"
            remedy = hints().numpy_function(function.__name__, space, names) or "Write"
            raise NamedAxesLeftError(
                f"{op}: {type_text(x)} still has named axes, and NumPy's functions do not support"
                f" names. {remedy} nx.positional(x, [{show_names(names)}]) for a positional array."
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
    """Return `value` with the data of the named arrays in it, none of which has a name."""
    if isinstance(value, named):
        return value._data
    if type(value) in (list, tuple):
        return type(value)(_without_wrappers(entry, named) for entry in value)
    return (
        {key: _without_wrappers(entry, named) for key, entry in value.items()}
        if type(value) is dict
        else value
    )
