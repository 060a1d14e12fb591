"""Error messages for calls that do not match a signature.

Python's own messages count positions. A call that fails is compared with the signature; a call that
succeeds pays nothing.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np

from namedax.errors import ArgumentTypeError, closest, format_value, usage
from namedax.messages.argument_kinds import is_explained, reject_kinds
from namedax.messages.tracebacks import shorten_eager

__all__ = [
    "Flags",
    "bound",
    "call_or_reject",
    "check_flags",
    "checks_signature",
    "explain_user_call",
    "flags_of",
    "reject_miscall",
    "reject_no_element_type",
]


F = TypeVar("F", bound=Callable[..., Any])
R = TypeVar("R")


def reject_miscall(
    op: str,
    called: Callable[..., Any] | inspect.Signature,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    error: Exception,
) -> None:
    """Raise if a call failed because its arguments do not match the function.

    The function may lack a parameter, require more arguments, or take arguments of other kinds.

    Args:
      op: the operation.
      called: the function, or its signature.
      args: the positional arguments of the call.
      kwargs: the keyword arguments of the call.
      error: the error of the call.

    Raises:
      ArgumentTypeError: the arguments do not match the signature, or one is not of the kind of its
        parameter.
    """
    if not is_explained(error):
        return
    try:
        signature = called if isinstance(called, inspect.Signature) else inspect.signature(called)
    except (TypeError, ValueError):
        return
    try:
        given = signature.bind(*args, **kwargs).arguments
    except TypeError as reason:
        raise ArgumentTypeError(
            f"{op}: {_mismatch(error, reason)}.{usage(op)}{_by_name(signature, kwargs)}"
            f"{_of_names(op, signature, args, kwargs)}"
        ) from None
    reject_no_element_type(op, signature, given, "named_shape" in signature.parameters)
    reject_kinds(op, signature, given, error)


def _mismatch(error: Exception, reason: TypeError) -> str:
    """Return how a call differs from the signature, without the name of the function.

    Args:
      error: the error of the call, whose message is Python's own if the call itself failed.
      reason: the error of `inspect.Signature.bind`.
    """
    text = str(error).partition("() ")[2] or str(reason)
    return text.partition(". Did you mean")[0]  # Python 3.13 adds suggestions


def explain_user_call(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], error: TypeError
) -> None:
    """Raise if a function of the user does not accept the arguments that it was called with.

    An error that the function itself raises is not explained.

    Args:
      function: the function of the user.
      args: the positional arguments of the call.
      kwargs: the keyword arguments of the call.
      error: the error of the call, caught in the frame that made it.

    Raises:
      ArgumentTypeError: the arguments do not match the signature.
    """
    if error.__traceback__ is None or error.__traceback__.tb_next is not None:
        return  # a frame of the function: its body was reached
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(*args, **kwargs)
    except TypeError as reason:
        name = getattr(function, "__name__", type(function).__name__)
        given = [*map(format_value, args), *(f"{k}={format_value(v)}" for k, v in kwargs.items())]
        plain = signature.replace(
            parameters=[
                p.replace(annotation=inspect.Parameter.empty) for p in signature.parameters.values()
            ],
            return_annotation=inspect.Signature.empty,
        )
        raise ArgumentTypeError(
            f"{name}: {_mismatch(error, reason)}. The call {name}({', '.join(given)}) must match"
            f" the signature {name}{plain}."
        ).about(explains=error) from None


def reject_no_element_type(
    op: str, signature: inspect.Signature, given: Mapping[str, Any], sizes_by_name: bool
) -> None:
    """Raise if the `dtype` argument is not a dtype.

    It may be axis names, or a boolean that belongs to another parameter.
    """
    dtype: Any = given.get("dtype")
    if not isinstance(dtype, (str, bool, int, list, tuple)) or (
        isinstance(dtype, str) and not sizes_by_name
    ):
        return  # NumPy reports a misspelled string
    try:
        np.dtype(dtype)  # type: ignore[arg-type]
        return
    except (TypeError, ValueError):  # text that is not valid Unicode
        pass
    entries = dtype if isinstance(dtype, (list, tuple)) else (dtype,)
    names = list(entries) if all(isinstance(name, str) for name in entries) else []
    if not names:
        remedy = _by_name(signature, {})
    elif sizes_by_name:
        shape = given.get("shape", ())
        sizes = list(shape) if isinstance(shape, (list, tuple)) else [shape]
        sizes = sizes if len(sizes) == len(names) else [8] * len(names)
        remedy = (
            f" Give names with their sizes: named_shape={dict(zip(names, sizes, strict=True))!r}."
        )
    else:
        remedy = f" To name the axes of an array write nx.named(x, {format_value(names)})."
    raise ArgumentTypeError(
        f"{op}: dtype={format_value(dtype)} is not a dtype.{usage(op)}{remedy}"
    ) from None


def bound(
    op: str, signature: inspect.Signature, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> inspect.BoundArguments:
    """Return the arguments of a call by parameter.

    Raises:
      ArgumentTypeError: they do not match the signature.
    """
    try:
        return signature.bind(*args, **kwargs)
    except TypeError as error:
        reject_miscall(op, signature, args, kwargs, error)
        raise


def call_or_reject(function: Callable[..., R], args: Sequence[Any], kwargs: Mapping[str, Any]) -> R:
    """Return `function(*args, **kwargs)`; explain an error from wrong arguments."""
    try:
        return function(*args, **kwargs)
    except Exception as error:
        home = function.__module__.split(".")[1:2]
        # other functions of namedax have the same names
        space = f"{home[0]}." if home in (["checkpoints"], ["hlo"]) else ""
        reject_miscall(f"{space}{function.__name__}", function, args, kwargs, error)
        raise


def checks_signature(function: F) -> F:
    """Wrap a function that is not an operation so that it explains wrong arguments."""
    # Editors follow `F`, and not a `ParamSpec`, to the definition of the function.
    flags = flags_of(function)

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        try:
            if (kwargs and not flags.names.isdisjoint(kwargs)) or len(args) > flags.first:
                check_flags(function.__name__, flags, args, kwargs)
            return call_or_reject(function, args, kwargs)
        except Exception as error:
            shorten_eager(error)
            raise

    return cast("F", called)


def _of_names(
    op: str, signature: inspect.Signature, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> str:
    """Return a remedy for names given as separate arguments: the list or dict to write."""
    unknown = {
        key: value
        for key, value in kwargs.items()
        if key not in signature.parameters and type(value) is int
    }
    if "named_shape" in signature.parameters and unknown:
        return f" Give sizes by name as one dict: named_shape={unknown!r}."
    if op != "named":
        return ""
    names = [arg for arg in args[1:] if isinstance(arg, str)] or [*unknown] or ["batch", "k"]
    return f" Give the names as one list with an entry per axis: nx.named(array, {names!r})."


# Names of arguments in other libraries.
_CALLED = {
    **dict.fromkeys(("dim", "dims", "axes", "axis_name", "normalized_shape"), "axis"),
    **dict.fromkeys(("gamma", "weight", "gain"), "scale"),
    **dict.fromkeys(("beta", "offset", "shift"), "bias"),
    **dict.fromkeys(("eps", "variance_epsilon"), "epsilon"),
    **dict.fromkeys(("keepdim", "keep_dims"), "keepdims"),
    **dict.fromkeys(("p", "dropout_rate"), "rate"),
    **dict.fromkeys(("rng", "seed", "generator"), "key"),
    **dict.fromkeys(("targets", "target"), "labels"),
}


def _by_name(signature: inspect.Signature, kwargs: Mapping[str, Any]) -> str:
    """Return the other keyword parameters of the function, and suggestions for unknown ones."""
    has = signature.parameters
    if {"in_axes", "axis_resources"} <= has.keys() and (remedies := _of_xmap(has, kwargs)):
        return remedies
    more = [
        f"{p.name}="
        for p in has.values()
        if p.kind is inspect.Parameter.KEYWORD_ONLY and p.name != "axis"
    ]
    called = [
        _CALLED[word] if _CALLED.get(word) in has else closest(word, has)
        for word in kwargs
        if word not in has
    ]
    hints = "".join(f" Did you mean {word}=?" for word in called if word is not None)
    keywords = "keyword" if len(more) == 1 else "keywords"
    by_name = f" It also takes the {keywords} {', '.join(more)}." if more else ""
    return by_name + hints


_SPECS = (
    "A PartitionSpec has mesh axes: write axis names in {}_axes=, and their mesh axes in"
    " axis_resources={{'name': 'x'}}."
)
_STATIC = "Give the positions, {}_argnums=."
# Options of `jax.shard_map`, `jax.jit`, `jax.vmap`, the old xmap and Haliax that xmap does not
# have.
_NOT_OF_XMAP = {
    **dict.fromkeys(("in_specs", "in_shardings"), _SPECS.format("in")),
    **dict.fromkeys(("out_specs", "out_shardings"), _SPECS.format("out")),
    **dict.fromkeys(
        ("check_vma", "check_rep"), "Replication is always checked; remove this option."
    ),
    **dict.fromkeys(
        ("backend", "devices", "device"), "The mesh determines the devices: pass mesh=."
    ),
    "axis_name": "Write axis names in in_axes=, as in in_axes=['batch'].",
    "axis_names": "The mesh axes in use are those in axis_resources={'name': 'x'}.",
    **dict.fromkeys(("axis_mapping", "axis_mappings", "mapping"), "Did you mean axis_resources=?"),
    **{f"{word}_argnames": _STATIC.format(word) for word in ("donate", "static")},
}


def _of_xmap(has: Mapping[str, inspect.Parameter], kwargs: Mapping[str, Any]) -> str:
    """Return remedies for options that `xmap` lacks, or for a decorator with arguments."""
    remedies = dict.fromkeys(
        _NOT_OF_XMAP[word] for word in kwargs if word not in has and word in _NOT_OF_XMAP
    )
    if (
        kwargs
        and "fun" in has
        and "fun" not in kwargs
        and not remedies
        and kwargs.keys() <= has.keys()
    ):
        return " As a decorator with options: @functools.partial(nx.xmap, in_axes=...)."
    return "".join(f" {sentence}" for sentence in remedies)


# --- boolean arguments ----------------------------------------------------------------------------
# Python treats every string and list as true, so a value that is not a boolean is rejected first.
# The annotation `bool` marks these parameters of a function. A call without any of them pays
# nothing.


class Flags(NamedTuple):
    """The boolean parameters of a function.

    Attributes:
      defaults: their defaults, by name.
      places: the positions of those that may be given by position.
      names: the names of all of them.
      first: the number of leading positional arguments that are not boolean.
      axis: the number of positional arguments before `axis`; 0 if the function has no keyword
        `axis`.
    """

    defaults: Mapping[str, Any]
    places: Mapping[int, str]
    names: frozenset[str]
    first: int
    axis: int


_OR_NONE = ("bool | None", bool | None)  # the default is None
_NONE = Flags({}, {}, frozenset(), sys.maxsize, 0)


def flags_of(function: Callable[..., Any]) -> Flags:
    """Return the boolean parameters of a function, without its decorators."""
    inner = inspect.unwrap(function)
    while isinstance(inner, functools.partial):
        inner = inspect.unwrap(inner.func)
    code = getattr(inner, "__code__", None)
    annotations = getattr(inner, "__annotations__", None) or {}
    found = [name for name, kind in annotations.items() if kind in ("bool", bool, *_OR_NONE)]
    if code is None or not found:
        return _NONE
    by_place, count = code.co_varnames, code.co_argcount
    defaults = dict(zip(by_place[:count][::-1], (inner.__defaults__ or ())[::-1], strict=False)) | (
        inner.__kwdefaults__ or {}
    )
    flags = {
        name: default
        for name in found
        if isinstance(default := defaults.get(name, ...), bool)
        or (default is None and annotations[name] in _OR_NONE)
    }
    if not flags:
        return _NONE
    places = {place: name for place, name in enumerate(by_place[:count]) if name in flags}
    known = by_place[: count + code.co_kwonlyargcount]
    axis = min(known.index("axis"), count) if "axis" in known else 0
    return Flags(flags, places, frozenset(flags), min(places, default=sys.maxsize), axis)


def check_flags(op: str, flags: Flags, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    """Raise if a boolean parameter is given a value that is not boolean.

    Raises:
      ArgumentTypeError: the value is a string, a list, an array with axes, or another object.
    """
    given = {name: args[place] for place, name in flags.places.items() if place < len(args)}
    for name, value in (
        given | {name: kwargs[name] for name in flags.names if name in kwargs}
    ).items():
        if isinstance(value, (bool, np.bool_)) or (type(value) is int and value in (0, 1)):
            continue
        if (value is None and not flags.defaults[name]) or (
            getattr(value, "ndim", None) == 0 and not hasattr(value, "dims")
        ):
            continue
        may_be_axis = type(value) is str and "axis" not in kwargs and len(args) <= flags.axis
        remedy = (
            f" Pass the axis name by keyword: axis={format_value(value)}." if may_be_axis else ""
        )
        if name == "approximate" and type(value) is str and value in ("none", "tanh"):
            remedy = f" For PyTorch's {value!r}, write approximate={value == 'tanh'}."
        raise ArgumentTypeError(
            f"{op}: {name}={format_value(value)} is neither True nor False.{remedy}"
        )
