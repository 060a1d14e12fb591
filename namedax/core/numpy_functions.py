"""NumPy's own functions, given a named array: what NumPy asks of an array first, by the protocol `__array_function__`.

They know no names. Without the protocol NumPy turns the array into its own somewhere within, where nobody knows any more which function was
called, and some functions take the error for an answer.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Any

import numpy as np

from namedax.core.display import type_text
from namedax.errors import NamedAxesLeftError, show_names, usage

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

_FLAT = "nx.rearrange(x, pattern), or nx.merge_axes(x, {names}, 'flat') for one axis with a name"
_INSTEAD = {
    **dict.fromkeys(("reshape", "ravel"), _FLAT),
    **dict.fromkeys(
        ("transpose", "permute_dims", "matrix_transpose", "moveaxis", "rollaxis", "swapaxes"),
        "nx.rename(x, {{a: b, b: a}}) to exchange names, which have no order",
    ),
    **dict.fromkeys(
        ("hstack", "vstack", "dstack", "column_stack", "block", "append"),
        "nx.concatenate([x, y], axis) or nx.stack([x, y], axis)",
    ),
    **dict.fromkeys(("inner", "vdot", "matmul", "outer", "tensordot", "vecdot"), "nx.dot(x, y, axis) or nx.einsum"),
    "stack": "nx.stack([x, y], 'new')",
    "where": "nx.where(condition, x, y)",
    **dict.fromkeys(("save", "savez", "savez_compressed"), "nx.checkpoints.save(path, tree)"),
}


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
            remedy = _remedy(function.__name__, space, names)
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


def _remedy(name: str, space: str, names: tuple[Hashable, ...]) -> str:
    """What to write for a function of NumPy, up to the last alternative."""
    if name in _INSTEAD:
        return f"Write {_INSTEAD[name].format(names=repr(names))}, or"
    said = usage(name).strip().removesuffix(".")
    root = sys.modules["namedax"]
    home = getattr(root.numpy, space.rpartition(".")[2], None) if "." in space else root.numpy
    if not said and name in dir(home or root):
        said = f"Write nx.numpy.{space.rpartition('.')[2]}.{name}"
    if not said:
        return "Write"
    where = f" where axis is one of {show_names(names)}," if "axis" in said else ""
    return f"{said},{where} or"
