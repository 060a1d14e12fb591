"""Remedies for named arrays in protocols of Python.

Statements and built-in functions of Python may need a boolean, one number, or an order. They
operate on positions or on one value. Each text is the remedy of a message, for an array with these
names.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from namedax.core.display import type_text
from namedax.core.names import PyTree, is_name
from namedax.errors import (
    ArgumentTypeError,
    NamedAxesLeftError,
    PositionalAxisError,
    format_value,
    hints,
    show_names,
)

__all__ = [
    "EmptyShape",
    "call_of_numpy",
    "call_of_ufunc",
    "for_a_format",
    "for_a_list",
    "for_a_number",
    "for_membership",
    "for_positions",
    "for_protocol",
    "for_truth",
    "iteration_hint",
    "raise_unhashable",
]


Names = Sequence[Hashable]


def for_positions(names: Names) -> str:
    """Return the remedy where all elements are needed, as an array without names."""
    return f"Reduce them, or give them positions with nx.positional(x, [{show_names(names)}, ...])."


class EmptyShape(tuple[int, ...]):
    """The shape of an array without positional axes: the empty tuple, with a remedy for an index.

    Attributes:
      names: the names of the array in storage order.
    """

    names: Names

    def __new__(cls, names: Names) -> EmptyShape:
        """Return the empty shape of an array with these names."""
        made = super().__new__(cls)
        made.names = names
        return made

    def __getitem__(self, index: Any) -> Any:
        """Raise, since the shape has no entry; a slice is empty.

        Raises:
          PositionalAxisError: `index` is an integer.
        """
        if isinstance(index, slice) or not hasattr(index, "__index__") or not self.names:
            return super().__getitem__(index)
        i = index.__index__()
        name = self.names[i if -len(self.names) <= i < len(self.names) else 0]
        raise PositionalAxisError(
            f"shape: x.shape[{i}] does not exist, since x has no positional axis; its named axes"
            f" are {show_names(self.names)}. Write x.named_shape[{format_value(name)}]."
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return tuple, ()


def raise_unhashable(array: Any) -> NoReturn:
    """Raise the error for `hash(x)`, which static arguments, dict keys and sets need.

    Raises:
      ArgumentTypeError: always.
    """
    # No sizes: functions try to hash arguments, and the error must be cheap.
    raise ArgumentTypeError(
        f"hash: an array with the axes {show_names(array._names)} is unhashable, so it cannot be a"
        " static argument, a key of a dict or an element of a set. Pass it as an ordinary argument:"
        " remove it from static_argnums or static_argnames."
    )


def for_protocol(name: str, array: Any) -> str:
    """Return the message about a missing attribute of a protocol.

    The array may be incomplete, since protocols of copies are probed early.

    >>> import namedax as nx
    >>> from namedax.core.protocol_hints import for_protocol
    >>> print(for_protocol("__dlpack__", nx.ones(named_shape={"day": 3})))
    __dlpack__: a NamedArray has no such attribute. Write np.from_dlpack(nx.positional(x, ['day'])).
    """
    text = f"{name}: a NamedArray has no such attribute."
    if "dlpack" not in name:
        return text
    return f"{text} Write np.from_dlpack(nx.positional(x, [{show_names(array._names)}]))."


def for_truth(names: Names) -> str:
    """Return the remedy where one boolean is needed.

    Examples are `if`, `and`, `not`, a chain of comparisons, and `min` of two arrays.

    >>> from namedax.core.protocol_hints import for_truth
    >>> print(for_truth(["day"]))
    Write nx.all(c, ...) or nx.any(c, ...) for one boolean, or elementwise (0 < x) & (x < 1), ~c,
    nx.where(c, x, y), nx.minimum(x, y).
    """
    return (
        "Write nx.all(c, ...) or nx.any(c, ...) for one boolean, or elementwise (0 < x) & (x < 1),"
        " ~c, nx.where(c, x, y), nx.minimum(x, y)."
    )


def for_a_number(names: Names) -> str:
    """Return the remedy where one number is needed: `float`, the functions of `math`, `range`.

    >>> from namedax.core.protocol_hints import for_a_number
    >>> print(for_a_number(["station", "day"]))
    Write x['station', 0, 'day', 0] for one element or nx.mean(x, ...) for the mean of all; instead
    of math.sqrt(x) write nx.sqrt(x).
    """
    entry = ", ".join(f"{format_value(name)}, 0" for name in names)
    return (
        f"Write x[{entry}] for one element or nx.mean(x, ...) for the mean of all; instead of"
        " math.sqrt(x) write nx.sqrt(x)."
    )


def for_membership(value: object, names: Names) -> str:
    """Return the remedy for `value in x`."""
    if is_name(value) and value in names:
        return f"Write {format_value(value)} in x.named_shape for the name of an axis."
    return (
        "Write nx.any(x == value, ...) for an element, or name in x.named_shape for the name of an"
        " axis."
    )


def for_a_list(value: object, names: Names) -> str:
    """Return the remedy for a list or a tuple as the other operand of an array.

    >>> from namedax.core.protocol_hints import for_a_list
    >>> for_a_list((1, 2), ["day"])
    "Make an array of it, and name its axes: nx.named(np.array((1, 2)), ['day'])."
    """
    text = format_value(value) if isinstance(value, (list, tuple)) else "..."
    return (
        f"Make an array of it, and name its axes: nx.named(np.array({text}),"
        f" [{show_names(names[-1:])}])."
    )


def for_a_format(form: str, names: Names) -> str:
    """Return the remedy for a format of one number that is applied to an array."""
    digits = str(form).rpartition(".")[2].rstrip("efgEFG%")
    decimals = digits if digits.isdigit() else "2"
    return (
        f"Write x.round({decimals}) to round the array,"
        f" {for_a_number(names)[len('Write ') :].partition(';')[0]}."
    )


def iteration_hint(names: Names) -> str:
    """Return the remedy where an order is needed: a loop, the built-in `sum`, other libraries.

    >>> from namedax.core.protocol_hints import iteration_hint
    >>> iteration_hint(["station", "day"])[1:95]
    "Write for i in range(x.named_shape['station']): x['station', i]; in place of the built-in sum,"
    """
    if not names:
        return ""
    first = format_value(names[0])
    return (
        f" Write for i in range(x.named_shape[{first}]): x[{first}, i]; in place of the built-in"
        f" sum, max, min, any and all nx.sum(x, {first}) and so on; for other libraries,"
        f" matplotlib's functions too, nx.positional(x, [{show_names(names)}])."
    )


# --- NumPy functions called with a named array, by the protocol `__array_function__` -------------
# They do not support names. Without the protocol, NumPy converts the array somewhere inside, where
# the called function is no longer known. Some functions also treat the error as a result.


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
    function: Callable[..., Any],
    args: Sequence[object],
    kwargs: Mapping[str, Any],
    named: type[Any],
) -> object:
    """Return `function(*args, **kwargs)` for arguments with arrays of type `named`.

    Raises:
      NamedAxesLeftError: one has names, and the function needs its elements.
    """
    if function in _INSPECTING:
        return inspect.unwrap(function)(*args, **kwargs)
    space = getattr(function, "__module__", None) or "numpy"
    op = f"np{space.removeprefix('numpy')}.{function.__name__}"
    return _run_unnamed(op, (function.__name__, space), "", function, args, kwargs, named)


# NumPy's operators call these functions. The operand of the left is an array of NumPy, since a
# named array on the left calls its own operator.
_REFLECTED: dict[np.ufunc, str] = {
    np.add: "__radd__",
    np.subtract: "__rsub__",
    np.multiply: "__rmul__",
    np.true_divide: "__rtruediv__",
    np.floor_divide: "__rfloordiv__",
    np.remainder: "__rmod__",
    np.divmod: "__rdivmod__",
    np.power: "__rpow__",
    np.matmul: "__rmatmul__",
    np.bitwise_and: "__rand__",
    np.bitwise_or: "__ror__",
    np.bitwise_xor: "__rxor__",
    np.left_shift: "__rlshift__",
    np.right_shift: "__rrshift__",
    np.less: "__gt__",
    np.less_equal: "__ge__",
    np.greater: "__lt__",
    np.greater_equal: "__le__",
    np.equal: "__eq__",
    np.not_equal: "__ne__",
}


def call_of_ufunc(
    function: np.ufunc,
    method: str,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    named: type[Any],
) -> object:
    """Return the result of a universal function of NumPy, `np.sin(x)` or `array + x`.

    An operator whose left operand is an array of NumPy is that of the named array.

    Raises:
      NamedAxesLeftError: an array of another call has names.
    """
    reflected = _REFLECTED.get(function)
    is_call = method == "__call__" and not kwargs and len(args) == 2
    if reflected is not None and is_call and not isinstance(args[0], named):
        return getattr(args[1], reflected)(args[0])
    name = function.__name__
    is_in_place = reflected is not None and method == "__call__" and "out" in kwargs
    in_place = " The statement a += x becomes a = a + x." if is_in_place else ""
    if method == "__call__":
        return _run_unnamed(f"np.{name}", (name, "numpy"), in_place, function, args, kwargs, named)
    about = (_METHODS.get((name, method), ""), "numpy")
    return _run_unnamed(
        f"np.{name}.{method}", about, "", getattr(function, method), args, kwargs, named
    )


# Methods of universal functions that are functions of namedax.
_METHODS = {
    ("add", "reduce"): "sum",
    ("multiply", "reduce"): "prod",
    ("maximum", "reduce"): "max",
    ("minimum", "reduce"): "min",
    ("logical_and", "reduce"): "all",
    ("logical_or", "reduce"): "any",
    ("add", "accumulate"): "cumsum",
    ("multiply", "accumulate"): "cumprod",
}


def _run_unnamed(
    op: str,
    about: tuple[str, str],
    note: str,
    function: Callable[..., Any],
    args: Sequence[object],
    kwargs: Mapping[str, Any],
    named: type[Any],
) -> object:
    """Return the result of a function of NumPy for arrays without names.

    Args:
      op: the function, for messages.
      about: the name and the module of the function of which a named version is suggested.
      note: the end of the message.
      function: the function.
      args: its positional arguments.
      kwargs: its keyword arguments.
      named: the type of named arrays.

    Raises:
      NamedAxesLeftError: an array has names.
    """
    for x in _arrays_in((*args, *kwargs.values()), named):
        if names := tuple(dim for dim in x._dims if dim is not None):
            remedy = hints().numpy_function(*about, names) or "Write"
            raise NamedAxesLeftError(
                f"{op}: {type_text(x)} still has named axes, and NumPy's functions do not support"
                f" names. {remedy} nx.positional(x, [{show_names(names)}]) for a positional"
                f" array.{note}"
            )
    bare = [_without_wrappers(value, named) for value in (tuple(args), dict(kwargs))]
    return function(*bare[0], **bare[1])


def _arrays_in(value: PyTree, named: type[Any]) -> Iterator[Any]:
    if isinstance(value, named):
        yield value
    elif isinstance(value, (list, tuple, dict)):
        for entry in value.values() if isinstance(value, dict) else value:
            yield from _arrays_in(entry, named)


def _without_wrappers(value: PyTree, named: type[Any]) -> PyTree:
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
