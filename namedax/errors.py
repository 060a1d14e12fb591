"""What can go wrong, as exception classes that name the axes.

Every error of namedax derives from `NamedaxError` and from `ValueError`, `TypeError` or `AttributeError`, so code that
catches the built-in classes keeps working. A message says four things, in this order: the operation, the axes with their
sizes, the rule that was broken, and what to write instead. It ends with the code of its class, which never changes its meaning.
"""

from __future__ import annotations

import difflib
import functools
import operator
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, NoReturn, Self

import numpy as np

__all__ = [
    "ArgumentError",
    "ArgumentTypeError",
    "ArrayAttributeError",
    "ArrayTypeError",
    "AxisMappingError",
    "AxisNameError",
    "AxisNotFoundError",
    "AxisResourceError",
    "AxisSizeError",
    "CheckpointError",
    "EinsumError",
    "MeshError",
    "NamedAxesLeftError",
    "NamedaxError",
    "PipelineError",
    "PlacementConflictError",
    "PlanError",
    "PositionalAxisError",
    "RawBlockError",
    "RearrangeError",
    "SerialLoopError",
    "UnevenAxisError",
    "UnsupportedArgumentError",
]


class NamedaxError(Exception):
    """The base of all errors of namedax.

    Attributes:
      code: what the page of the errors, docs/errors.md, lists this class under. Every message ends with it.
      explains: the error of Python or JAX that this one explains, if a wrong argument has caused it.

    >>> import namedax as nx
    >>> nx.sum(nx.ones(named_shape={"batch": 8}), "bacth")
    Traceback (most recent call last):
    namedax.errors.AxisNotFoundError: sum: no axis 'bacth' in f32[]{batch:8}; its named axes are 'batch'. Did you mean 'batch'? Reduce
    over an axis that it has. [NX002]
    """

    code: ClassVar[str] = ""

    explains: Exception | None = None

    def __str__(self) -> str:
        """The message, and behind it the code: on a line of its own where the message has several, so that no caret moves."""
        message = super().__str__()
        if not (message and self.code):
            return message
        return "\n".join([message, f"[{self.code}]"]) if "\n" in message else f"{message} [{self.code}]"

    def about(self, **attributes: Any) -> Self:
        """The error with these attributes, to be raised at once: a variable of its frame would keep it, and the frame, until garbage is collected."""
        vars(self).update(attributes)
        return self


class AxisNameError(NamedaxError, ValueError):
    """Something is not a valid axis name, or a name appears twice in one array."""

    code = "NX001"


class AxisNotFoundError(NamedaxError, ValueError):
    """An operation mentions a named axis that the array does not have.

    Attributes:
      axis: the name, where it is known.
    """

    code = "NX002"

    axis: Hashable = None


class AxisSizeError(NamedaxError, ValueError):
    """One name has two sizes, or a size does not divide over the mesh axes that it is mapped to."""

    code = "NX003"


class UnevenAxisError(AxisSizeError):
    """A size does not divide over its mesh axes, and what is done there knows no padding.

    Attributes:
      axis: the name.
      operation: what is done there, where it is known.
    """

    code = "NX004"

    axis: Hashable = None
    operation: str | None = None

    def say(self, operation: str) -> None:
        """Puts the operation in front of the message, unless there is one."""
        if self.operation is None and self.args:
            self.operation = operation
            self.args = (f"{operation}: {self.args[0]}", *self.args[1:])


class PositionalAxisError(NamedaxError, ValueError):
    """Positional axes do not fit: out of range, wrong rank, or shapes that do not broadcast.

    Attributes:
      depends_on_data: True if the shape of the result would depend on values.
    """

    code = "NX005"

    depends_on_data: bool = False


class AxisMappingError(NamedaxError, ValueError):
    """An axis mapping (`in_axes`, `out_axes`, `nx.named`, `nx.positional`) is malformed or does not fit."""

    code = "NX006"


class NamedAxesLeftError(NamedaxError, TypeError):
    """A value that still has named axes stands where an array without names is needed."""

    code = "NX007"


class AxisResourceError(NamedaxError, ValueError):
    """`axis_resources` is malformed, or mentions a name that never occurs in the program."""

    code = "NX008"


class SerialLoopError(NamedaxError, ValueError):
    """A `SerialLoop` is malformed, or the program does over its axis what cannot be done in steps."""

    code = "NX009"


class PipelineError(NamedaxError, ValueError):
    """What a pipeline cannot do: its sizes do not divide, or its function mixes microbatches or stages."""

    code = "NX010"


class MeshError(NamedaxError, ValueError):
    """There is no mesh, or it lacks a mesh axis that `axis_resources` mentions."""

    code = "NX011"


class PlacementConflictError(NamedaxError, ValueError):
    """Two names on one mesh axis meet in one value.

    Attributes:
      axes: the two names, where they are known.
      mesh_axis: the mesh axis, where it is known.
      operation: the operation, where it is known.
    """

    code = "NX012"

    axes: tuple[Hashable, ...] = ()
    mesh_axis: str | None = None
    operation: str | None = None


class PlanError(NamedaxError, ValueError):
    """`nx.plan` has found no assignment under which the program can run: in the memory that there is, or at all."""

    code = "NX013"


class CheckpointError(NamedaxError, ValueError):
    """A checkpoint cannot hold what is to be saved, or does not hold what is asked for; see `nx.checkpoints`."""

    code = "NX014"


class RawBlockError(NamedaxError, ValueError):
    """In a body, a function of JAX works on the block of one device: a raw collective, or a function that combines entries of raw leaves."""

    code = "NX015"


class EinsumError(NamedaxError, ValueError):
    """An einsum specification is malformed, or does not fit its operands."""

    code = "NX016"


class RearrangeError(NamedaxError, ValueError):
    """A pattern of `rearrange`, `reduce` or `repeat` is malformed, or does not fit the array."""

    code = "NX017"


class ArgumentError(NamedaxError, ValueError):
    """An argument that is not an axis (an order, a method, a mode) has a value that the operation does not take."""

    code = "NX018"


class ArgumentTypeError(NamedaxError, TypeError):
    """An argument, or the elements of an array, have a type that the operation does not take."""

    code = "NX019"


class UnsupportedArgumentError(ArgumentError, NotImplementedError):
    """An argument that JAX's function has is given, and it has no meaning for named arrays. A `NotImplementedError` too, as JAX's is."""

    code = "NX020"


class ArrayTypeError(NamedaxError, TypeError):
    """A value is not of the array type that an annotation states, or an array type is malformed."""

    code = "NX021"


class ArrayAttributeError(NamedaxError, AttributeError):
    """A named array has no attribute of that name, or it cannot be set. An `AttributeError`, so that `hasattr` is false."""

    code = "NX022"


def show_name(name: Hashable) -> str:
    """A name as messages show it: quoted if it is a string."""
    return format_value(name)


def show_names(names: Iterable[Hashable]) -> str:
    """Names as messages show them, in the order given."""
    return ", ".join(map(format_value, names)) or "none"


def format_value(value: Any) -> str:
    """A value that a user gave as messages show it: an array by its type and never by its values, and a list, tuple or dict by its entries.

    >>> format_value("k"), format_value([np.ones((2, 3), np.float32), None])
    ("'k'", '[f32[2,3], None]')
    >>> format_value({"w": np.arange(3, dtype=np.int32)})
    "{'w': i32[3]}"
    """
    if hasattr(type(value), "_type_text"):  # a named array
        return str(value._type_text())
    if not isinstance(value, np.generic) and (shape := shape_of(value)) is not None:
        return f"{show_dtype(value.dtype)}[{','.join(map(str, shape))}]"
    kind = type(value)
    if kind in (list, tuple, set, dict):
        parts = (
            [f"{format_value(key)}: {format_value(entry)}" for key, entry in value.items()]
            if kind is dict
            else [*map(format_value, value)]
        )
        if len(parts) > _MOST_ENTRIES:
            parts[_MOST_ENTRIES - 1 :] = [f"... ({len(parts)} entries)"]
        if kind is set and not parts:
            return "set()"
        opening, closing = "[]" if kind is list else "()" if kind is tuple else "{}"
        return f"{opening}{', '.join(parts)}{',' if kind is tuple and len(parts) == 1 else ''}{closing}"
    if callable(value) and hasattr(value, "__qualname__"):
        return f"the {'class' if isinstance(value, type) else 'function'} {value.__qualname__}"
    if kind is slice:
        return f"slice({', '.join(map(format_value, (value.start, value.stop, value.step)))})"
    try:
        text = "..." if value is ... else repr(value)
    except Exception:  # an object of others, whose own words fail: a message about it does not
        return f"a value of type {kind.__name__}"
    return text if len(text) <= _MOST_TEXT and "\n" not in text else f"a value of type {kind.__name__}"


def shape_of(value: Any) -> tuple[Any, ...] | None:
    """The shape of what is described as an array is: arrays, tracers, `jax.ShapeDtypeStruct`s, JAX's arguments of programs. Of all else `None`.

    >>> shape_of(np.ones((2, 3))), shape_of(None), shape_of(np.float32)
    ((2, 3), None, None)
    """
    if isinstance(value, type):
        return None
    try:
        shape, _ = value.shape, value.dtype
    except Exception:  # of objects of others an attribute may be anything
        return None
    return shape if isinstance(shape, tuple) else None


_MOST_ENTRIES, _MOST_TEXT = 20, 400
_SHORT_KINDS = {"float": "f", "int": "i", "uint": "u", "complex": "c", "bfloat": "bf"}


def show_dtype(dtype: Any) -> str:
    """An element type as messages show it, such as `f32`."""
    name = str(dtype)
    stem = name.rstrip("0123456789")
    return _SHORT_KINDS[stem] + name[len(stem) :] if stem in _SHORT_KINDS and stem != name else name


def _no_hint(*about: Any) -> str:
    return ""


class Hints(NamedTuple):
    """Functions that write hints, which messages of this package contain, about the public functions of the package.

    The room `hints` has them. It stands above the modules that raise errors, so the package installs them here when it is imported. A function
    returns an empty string or `None` if it has no hint. Until the hints are installed, none of them has one.

    Attributes:
      usage: a sentence with a typical call of the public function `op`.
      attribute: code that replaces an attribute `word` of other libraries' arrays, for an array with these axis names.
      namesake: the public function that has the same name as a function of JAX or NumPy.
      numpy_function: the beginning of a sentence with a replacement for a function of NumPy, given by its name, its module and the axis names.
    """

    usage: Callable[[str], str] = _no_hint
    attribute: Callable[[str, Sequence[Hashable]], str | None] = _no_hint
    namesake: Callable[[str], str | None] = _no_hint
    numpy_function: Callable[[str, str, Sequence[Hashable]], str] = _no_hint


_load_hints: list[Callable[[], Hints]] = [Hints]


def install_hints(load: Callable[[], Hints]) -> None:
    """Make `load` the function that returns the hints. The first message that contains a hint calls it, so an import of the package does not."""
    _load_hints[:] = [functools.cache(load)]


def hints() -> Hints:
    """The installed hints."""
    return _load_hints[0]()


def usage(op: str) -> str:
    """A sentence with a typical call of a public function; empty if `op` is not a public function.

    >>> usage("take"), usage("no_function")
    (' Write nx.take(x, indices, axis).', '')
    """
    return hints().usage(op)


def refuse_names(op: str, value: Any, wanted: str = "an array") -> None:
    """Raises where the name of an axis, or several, stand for an array: libraries differ in which of them comes first.

    Raises:
      ArgumentTypeError: `value` is a string, or a list or tuple of strings.
    """
    if isinstance(value, str) or (
        isinstance(value, (list, tuple)) and value and all(isinstance(entry, str) for entry in value)
    ):
        raise ArgumentTypeError(f"{op}: {format_value(value)} stands where {wanted} is expected.{usage(op)}")


def as_integer(op: str, what: str, value: Any, least: int | None = None) -> int:
    """An argument that must be an integer, known when the program is compiled.

    Args:
      op: the operation, as the user calls it.
      what: the argument, as the user writes it.
      value: an integer of Python or NumPy, or an integer array without axes. Truth values and floats are not accepted.
      least: the least value that is allowed.

    Raises:
      ArgumentTypeError: it is not an integer, or known at run time only.
      ArgumentError: it is less than `least`.

    >>> as_integer("roll", "shift", 2.0)
    Traceback (most recent call last):
    namedax.errors.ArgumentTypeError: roll: shift=2.0 must be an integer, known when the function is traced. [NX019]
    """
    wanted = f"must be an integer{'' if least is None else f' from {least}'}, known when the function is traced."
    try:
        if isinstance(value, (bool, np.bool_)):
            raise TypeError
        number = operator.index(value)
    except TypeError:
        raise ArgumentTypeError(
            f"{op}: {what}={format_value(value)} {wanted}{usage(op) if isinstance(value, str) else ''}"
        ) from None
    if least is not None and number < least:
        raise ArgumentError(f"{op}: {what}={format_value(value)} {wanted}")
    return number


def check_options(op: str, **options: Any) -> None:
    """Raises where an option of the program, which must be known when it is traced, is an array, a list or the like.

    >>> check_options("sum", keepdims=[True])
    Traceback (most recent call last):
    namedax.errors.ArgumentTypeError: sum: keepdims=[True] is an option of the program; give one value that is known when the
    function is traced, not an array or a list. [NX019]
    """
    for what, value in options.items():
        try:
            hash(value)
        except TypeError:
            raise ArgumentTypeError(
                f"{op}: {what}={format_value(value)} is an option of the program; give one value that is known when the function is traced, not an "
                "array or a list."
            ) from None


def closest(name: Hashable, candidates: Iterable[Hashable]) -> Hashable:
    """The candidate, another than `name`, whose text is closest to that of `name`, or else one with its stem; `None` where none is close."""
    by_text = {_text(candidate): candidate for candidate in candidates if candidate != name}
    close = difflib.get_close_matches(_text(name), by_text, n=1, cutoff=0.6) or [
        text for text in by_text if _have_one_stem(name, text)
    ]
    return by_text[close[0]] if close else None


def _text(name: Hashable) -> str:
    """A name as text; that of an axis object of another library (`Axis("embed", 8)`) is what it calls itself."""
    own = getattr(name, "name", None)
    return own if isinstance(own, str) else str(name)


def did_you_mean(name: Hashable, candidates: Iterable[Hashable], read_as: str = "") -> str:
    """A sentence that suggests the closest candidate, or the empty string.

    Args:
      name: what was written.
      candidates: what there is.
      read_as: how the axis `{1}` is read as `{0}`, for operations on arrays: one axis has two names where it is stored in another place than it
        is used, such as `embed_fsdp` and `embed`, and then the other name may not be what was meant.

    >>> did_you_mean("bacth", ["batch", "hidden"]), did_you_mean("pos", ["pos_sp"], "{{{0}:{1}}}")
    (" Did you mean 'batch'?", " Did you mean 'pos_sp', or that axis read as 'pos', {pos:pos_sp}?")
    """
    close = closest(name, candidates)
    if close is None:
        return ""
    or_read = (
        f", or that axis read as {name!r}, {read_as.format(name, close)}" if read_as and _have_one_stem(name, close) else ""
    )
    return f" Did you mean {close!r}{or_read}?"


# Operations that read no axis.
_NOT_READING = ("rename", "shard")


def _have_one_stem(name: Hashable, other: Hashable) -> bool:
    """Whether one of two names is the other with something behind it, as in `embed` and `embed_fsdp`."""
    if not (isinstance(name, str) and isinstance(other, str)):
        return False
    stem, longer = sorted((name, other), key=len)
    return longer.startswith(stem) and not longer[len(stem) : len(stem) + 1].isalnum()


def naming(argument: str, shape: Sequence[int], sizes: Mapping[Any, int | None]) -> str:
    """A sentence on how an argument without names gets them: each at the axis of its size, where there is only one.

    >>> naming("w", (4, 3), {"station": 3, "day": 4}), naming("w", (3, 3), {"day": 3})
    (" Name the axes of w first, as by nx.named(w, ['day', 'station']).", " Name the axes of w first, as by nx.named(w, ['day', ...]).")
    """
    places = {name: [i for i, n in enumerate(shape) if n == size] for name, size in sizes.items()}
    found = {fits[0]: name for name, fits in places.items() if len(fits) == 1}
    axes: list[Any] = [found.get(i) for i in range(len(shape))]
    if not found or len(found) < min(len(shape), len(sizes)):
        names = list(sizes)
        axes = names if len(names) == len(shape) else [names[0], ...]
    return f" Name the axes of {argument} first, as by nx.named({argument}, {format_value(axes)})."


def _to_name(name: Hashable, type_text: str, candidates: Sequence[Hashable]) -> str:
    """A sentence on how an array gets a name that it lacks, where one of its positional axes may be meant."""
    what, _, shape = type_text.partition("{")[0].partition("[")
    rank = len(shape.partition("]")[0].split(",")) if shape[:1].isdigit() else 0
    if not rank:
        return ""
    argument = what.split()[1] if what.startswith("the ") else "x"
    if not candidates:
        return naming(argument, (0,) * rank, {name: None})
    axes = format_value([name, *[None] * (rank - 1)])
    return f" Positional axes get names by nx.named({argument}, {axes}); an index array, nx.named(ids, {format_value([name])}), keeps its own."


def raise_not_found(
    op: str, name: Hashable, type_text: str, candidates: Iterable[Hashable], extra: str = "", *, read_as: str | None = None
) -> NoReturn:
    """Raises the error for a name that an array lacks.

    Args:
      op: the operation, as the user calls it (`"sum"`).
      name: the name that was not found.
      type_text: the array's type, as `repr` shows it.
      candidates: the names that the array has.
      extra: one more sentence, about what to do instead.
      read_as: as in `did_you_mean`; default: by `nx.rename`.
    """
    candidates = list(candidates)
    if read_as is None:
        read_as = "" if op.split(",")[0] in _NOT_READING else "nx.rename(x, {{{1!r}: {0!r}}})"
    has = f"its named axes are {show_names(candidates)}" if candidates else "it has no named axis"
    meant = did_you_mean(name, candidates, read_as) or ("" if "nx.named(" in extra else _to_name(name, type_text, candidates))
    raise AxisNotFoundError(
        f"{op}: no axis {format_value(name)} in {type_text}; {has}.{meant}{' ' + extra if extra else ''}"
    ).about(axis=name)
