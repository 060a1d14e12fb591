"""Exception classes, and helpers for their messages.

Every error of namedax derives from `NamedaxError` and from `ValueError`, `TypeError` or
`AttributeError`, so code that catches the built-in classes keeps working. A message contains, in
this order, the operation, the axes with their sizes, the violated rule, and the remedy. It ends
with the code of its class. The meaning of a code never changes.
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
    "CheckFailedError",
    "CheckpointError",
    "EinsumError",
    "MeshError",
    "NamedAxesLeftError",
    "NamedaxError",
    "OuterProductError",
    "PipelineError",
    "PlacementConflictError",
    "PlanError",
    "PositionalAxisError",
    "RawBlockError",
    "RearrangeError",
    "SerialLoopError",
    "StoredPaddingError",
    "UnevenAxisError",
    "UnevenAxisWarning",
    "UnsupportedArgumentError",
]


class NamedaxError(Exception):
    """The base class of all errors of namedax.

    Attributes:
      code: the code of the class on the page docs/errors.md. Every message ends with it.
      explains: the error of Python or JAX that this error explains, if a wrong argument has caused
        it.
      found_size: a name and its global size, if a mapped function that begins with that size does
        not raise the error. The call begins again with it.

    >>> import namedax as nx
    >>> nx.sum(nx.ones(named_shape={"batch": 8}), "bacth")
    Traceback (most recent call last):
    namedax.errors.AxisNotFoundError: sum: no axis 'bacth' in f32[]{batch:8}; its
    named axes are 'batch'. Did you mean 'batch'? Reduce over an axis that it has. [NX002]
    """

    code: ClassVar[str] = ""

    explains: Exception | None = None

    found_size: tuple[Hashable, int] | None = None

    def __str__(self) -> str:
        """Return the message with the code.

        After a message of several lines the code is on its own line, so that carets stay aligned.
        """
        message = super().__str__()
        if not (message and self.code):
            return message
        return (
            "\n".join([message, f"[{self.code}]"])
            if "\n" in message
            else f"{message} [{self.code}]"
        )

    def about(self, **attributes: object) -> Self:
        """Set attributes and return the error, for use in a `raise` statement.

        A local variable for the error would create a reference cycle with its frame, which only
        garbage collection removes.
        """
        vars(self).update(attributes)
        return self


class AxisNameError(NamedaxError, ValueError):
    """An invalid axis name, or an axis name that occurs twice in one array."""

    code = "NX001"


class AxisNotFoundError(NamedaxError, ValueError):
    """A named axis that the array of an operation does not have.

    Attributes:
      axis: the axis name, or `None`.
      is_explained: True if a loop has added that its initial carry lacks the axis.
    """

    code = "NX002"

    axis: Hashable = None
    is_explained: bool = False


class AxisSizeError(NamedaxError, ValueError):
    """Two sizes of one axis name, or a size that does not divide over its mesh axes."""

    code = "NX003"


class UnevenAxisError(AxisSizeError):
    """A size that does not divide over its mesh axes, in an operation without padded axes.

    The size is not divisible by the number of blocks over the mesh axes, and the operation does
    not support padded axes.

    Attributes:
      axis: the axis name.
      operation: the operation, or `None`.
    """

    code = "NX004"

    axis: Hashable = None
    operation: str | None = None

    def say(self, operation: str) -> None:
        """Prepend the operation to the message, unless the error has one."""
        if self.operation is None and self.args:
            self.operation = operation
            self.args = (f"{operation}: {self.args[0]}", *self.args[1:])


class UnevenAxisWarning(UserWarning):
    """An axis that `nx.shard` replicates, since its size does not divide over its mesh axes.

    Pass `padded=True` to store the axis padded and sharded, or `padded=False` to accept that each
    device stores all of it. Python shows the warning once for each line of code and sizes.
    """


class StoredPaddingError(NamedaxError, ValueError):
    """An array that is stored padded, in a function that does not support it.

    `nx.shard(x, axis_resources, mesh, padded=True)` stores axes that do not divide padded. Mapped
    functions and operations support such arrays; a function that would read the padding raises.
    """

    code = "NX024"


class PositionalAxisError(NamedaxError, ValueError, IndexError):
    """An invalid positional axis: out of range, wrong rank, or shapes that do not broadcast.

    Also an `IndexError`, as `numpy.exceptions.AxisError` is.

    Attributes:
      depends_on_data: True if the shape of the result would depend on values.
    """

    code = "NX005"

    depends_on_data: bool = False


class AxisMappingError(NamedaxError, ValueError):
    """An axis mapping that is malformed or does not match its array.

    Axis mappings are arguments of `nx.named`, `nx.positional`, and `in_axes` and `out_axes` of
    `nx.xmap`.
    """

    code = "NX006"


class NamedAxesLeftError(NamedaxError, TypeError):
    """A value with named axes where an array without named axes is required."""

    code = "NX007"


class AxisResourceError(NamedaxError, ValueError):
    """Malformed `axis_resources`, or an axis name in it that does not occur in the program."""

    code = "NX008"


class SerialLoopError(NamedaxError, ValueError):
    """A malformed `SerialLoop`, or an operation over its axis that steps do not support."""

    code = "NX009"


class PipelineError(NamedaxError, ValueError):
    """An error in a pipeline.

    Sizes do not divide, or a function combines microbatches or stages.
    """

    code = "NX010"


class MeshError(NamedaxError, ValueError):
    """A missing mesh, a mesh without a mesh axis of `axis_resources`, or an axis to map."""

    code = "NX011"


class PlacementConflictError(NamedaxError, ValueError):
    """Two axes of one value that are sharded over the same mesh axis.

    Attributes:
      axes: the two axis names, or `()`.
      mesh_axis: the mesh axis, or `None`.
      operation: the operation, or `None`.
    """

    code = "NX012"

    axes: tuple[Hashable, ...] = ()
    mesh_axis: str | None = None
    operation: str | None = None


class PlanError(NamedaxError, ValueError):
    """A call of `nx.plan` without a valid layout.

    No layout fits into the memory, or the program runs under none.
    """

    code = "NX013"


class CheckpointError(NamedaxError, ValueError):
    """A value that a checkpoint cannot store, or a requested value that it does not contain.

    See `nx.checkpoints`, and `nx.interop.load_safetensors` for published checkpoints.
    """

    code = "NX014"


class RawBlockError(NamedaxError, ValueError):
    """A function of JAX on the block of one device in a body.

    It is a raw collective, or a function that combines elements of raw leaves.
    """

    code = "NX015"


class EinsumError(NamedaxError, ValueError):
    """An einsum specification that is malformed or does not match its operands."""

    code = "NX016"


class RearrangeError(NamedaxError, ValueError):
    """A pattern of `rearrange`, `reduce` or `repeat` that is malformed or does not match.

    Also a malformed pattern of a `spec`, see `nx.interop.from_state_dict`.
    """

    code = "NX017"


class ArgumentError(NamedaxError, ValueError):
    """An invalid value of an argument that is not an axis, such as an order, a method or a mode."""

    code = "NX018"


class ArgumentTypeError(NamedaxError, TypeError):
    """An argument of an invalid type, or an array of an invalid dtype."""

    code = "NX019"


class UnsupportedArgumentError(ArgumentError, NotImplementedError):
    """An argument of JAX's function that named arrays do not support.

    Also a `NotImplementedError`, as in JAX.
    """

    code = "NX020"


class ArrayTypeError(NamedaxError, TypeError):
    """A value that does not match the array type of an annotation, or a malformed array type."""

    code = "NX021"


class ArrayAttributeError(NamedaxError, AttributeError):
    """A missing or read-only attribute of a named array.

    Also an `AttributeError`, so that `hasattr` returns False.
    """

    code = "NX022"


class OuterProductError(NamedaxError, ValueError):
    """An elementwise result with more names than each operand, under `nx.strict_broadcasting`."""

    code = "NX023"


class CheckFailedError(NamedaxError, AssertionError):
    """An element of the predicate of `nx.debug.check` that is False.

    Attributes:
      index: the index of the first such element: axis names, or numbers of positional axes, to
        positions.
    """

    code = "NX025"

    index: Mapping[Hashable, int] = {}


def show_name(name: Hashable) -> str:
    """Format an axis name for messages: quoted if it is a string."""
    return format_value(name)


def show_names(names: Iterable[Hashable]) -> str:
    """Format axis names for messages, in the given order."""
    return ", ".join(map(format_value, names)) or "none"


def format_value(value: Any) -> str:
    """Format a user's value for messages.

    An array is shown by its type, never by its values; a list, tuple or dict by its elements.

    >>> import numpy as np
    >>> from namedax.errors import format_value
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
        comma = "," if kind is tuple and len(parts) == 1 else ""
        return f"{opening}{', '.join(parts)}{comma}{closing}"
    if callable(value) and hasattr(value, "__qualname__"):
        return f"the {'class' if isinstance(value, type) else 'function'} {value.__qualname__}"
    if kind is slice:
        return f"slice({', '.join(map(format_value, (value.start, value.stop, value.step)))})"
    try:
        text = "..." if value is ... else repr(value)
    except Exception:  # the `repr` of a user's object may fail; the message about it must not
        return f"a value of type {kind.__name__}"
    return (
        text if len(text) <= _MOST_TEXT and "\n" not in text else f"a value of type {kind.__name__}"
    )


def shape_of(value: Any) -> tuple[Any, ...] | None:
    """Return the shape of an object with a shape and a dtype; `None` for other objects.

    Such objects are arrays, tracers and `jax.ShapeDtypeStruct`s.

    >>> import numpy as np
    >>> from namedax.errors import shape_of
    >>> shape_of(np.ones((2, 3))), shape_of(None), shape_of(np.float32)
    ((2, 3), None, None)
    """
    if isinstance(value, type):
        return None
    try:
        shape, _ = value.shape, value.dtype
    except Exception:  # an attribute of a user's object may raise anything
        return None
    return shape if isinstance(shape, tuple) else None


_MOST_ENTRIES, _MOST_TEXT = 20, 400
_SHORT_KINDS = {"float": "f", "int": "i", "uint": "u", "complex": "c", "bfloat": "bf"}


def show_dtype(dtype: object) -> str:
    """Format a dtype for messages, such as `f32`."""
    name = str(dtype)
    stem = name.rstrip("0123456789")
    return _SHORT_KINDS[stem] + name[len(stem) :] if stem in _SHORT_KINDS and stem != name else name


def _no_hint(*about: object) -> str:
    return ""


class Hints(NamedTuple):
    """Functions that return hints about public functions, for messages.

    The module `namedax.messages.hints` defines them. Modules that raise errors cannot import it, so
    namedax installs its functions here on import. A function without a hint returns an empty string
    or `None`. Without installed hints, there is no hint.

    Attributes:
      usage: a sentence with a typical call of the public function `op`.
      attribute: code that replaces an attribute `word` of other libraries' arrays, for an array
        with the given axis names.
      namesake: the public function with the same name as a function of JAX or NumPy.
      numpy_function: the start of a sentence with a replacement for a NumPy function, given its
        name, its module and the axis names.
      function: sentences about a name that a module lacks: where it is, and code that replaces a
        function of other libraries.
    """

    usage: Callable[[str], str] = _no_hint
    attribute: Callable[[str, Sequence[Hashable]], str | None] = _no_hint
    namesake: Callable[[str], str | None] = _no_hint
    numpy_function: Callable[[str, str, Sequence[Hashable]], str] = _no_hint
    function: Callable[[str, str], str] = _no_hint


_load_hints: list[Callable[[], Hints]] = [Hints]


def install_hints(load: Callable[[], Hints]) -> None:
    """Install `load`, a function that returns the hints.

    The first message with a hint calls it, and not the import of the package.
    """
    _load_hints[:] = [functools.cache(load)]


def hints() -> Hints:
    """Return the installed hints."""
    return _load_hints[0]()


def usage(op: str) -> str:
    """Return a sentence with a typical call of a public function.

    It is empty if `op` is not a public function.

    >>> from namedax.errors import usage
    >>> usage("take"), usage("no_function")
    (' Write nx.take(x, indices, axis).', '')
    """
    return hints().usage(op)


def reject_names(op: str, value: object, wanted: str = "an array") -> None:
    """Reject axis names in place of an array. Libraries differ in the order of these two arguments.

    Args:
      op: the operation, for messages.
      value: the argument.
      wanted: the expected kind of argument, for messages. Default: `"an array"`.

    Raises:
      ArgumentTypeError: `value` is a string, or a list or tuple of strings.
    """
    if isinstance(value, str) or (
        isinstance(value, (list, tuple))
        and value
        and all(isinstance(entry, str) for entry in value)
    ):
        raise ArgumentTypeError(f"{op}: expected {wanted}, got {format_value(value)}.{usage(op)}")


def as_integer(op: str, what: str, value: Any, least: int | None = None) -> int:
    """Convert an argument to a Python integer.

    It must be static, which means known when the function is traced.

    Args:
      op: the operation, as the user calls it.
      what: the argument, as the user writes it.
      value: an integer of Python or NumPy, or an integer array without axes. Booleans and floats
        are rejected.
      least: the minimum value. Default: none.

    Raises:
      ArgumentTypeError: the argument is not an integer, or it is traced.
      ArgumentError: it is less than `least`.

    >>> from namedax.errors import as_integer
    >>> as_integer("roll", "shift", 2.0)
    Traceback (most recent call last):
    namedax.errors.ArgumentTypeError: roll: shift must be a static integer, got 2.0. Pass shift=2.
    [NX019]
    """
    wanted = f"must be a static integer{'' if least is None else f' of at least {least}'}, got"
    try:
        if isinstance(value, (bool, np.bool_)):
            raise TypeError
        number = operator.index(value)
    except TypeError:
        raise ArgumentTypeError(
            f"{op}: {what} {wanted}"
            f" {format_value(value)}.{usage(op) if isinstance(value, str) else ''}"
            f"{_nearest_integer(what, value)}"
        ) from None
    if least is not None and number < least:
        raise ArgumentError(f"{op}: {what} {wanted} {format_value(value)}.")
    return number


def _nearest_integer(what: str, value: object) -> str:
    """Return a sentence with the integer next to a float; empty for other values."""
    if isinstance(value, (float, np.floating)) and np.isfinite(value) and what.isidentifier():
        return f" Pass {what}={round(float(value))}."
    return ""


def check_options(op: str, **options: object) -> None:
    """Check that options are hashable, and so static under tracing, and not an array or a list.

    >>> from namedax.errors import check_options
    >>> check_options("sum", keepdims=[True])
    Traceback (most recent call last):
    namedax.errors.ArgumentTypeError: sum: the option keepdims must be static, got
    [True]. Pass a Python value instead of an array or a list. [NX019]
    """
    for what, value in options.items():
        try:
            hash(value)
        except TypeError:
            raise ArgumentTypeError(
                f"{op}: the option {what} must be static, got {format_value(value)}. Pass a Python"
                " value instead of an array or a list."
            ) from None


def closest(name: Hashable, candidates: Iterable[Hashable]) -> Hashable:
    """Return the candidate, other than `name`, with the most similar text.

    If no text is similar, return one with the same stem, or `None`.
    """
    by_text = {_text(candidate): candidate for candidate in candidates if candidate != name}
    close = difflib.get_close_matches(_text(name), by_text, n=1, cutoff=0.6) or [
        text for text in by_text if _have_one_stem(name, text)
    ]
    return by_text[close[0]] if close else None


def _text(name: Hashable) -> str:
    """Return an axis name as text.

    An axis object of another library, such as `Axis("embed", 8)`, has it as its `name`.
    """
    own = getattr(name, "name", None)
    return own if isinstance(own, str) else str(name)


def did_you_mean(name: Hashable, candidates: Iterable[Hashable], read_as: str = "") -> str:
    """Return a sentence that suggests the closest candidate, or the empty string.

    Args:
      name: the name that the user wrote.
      candidates: the valid names.
      read_as: a template for code that renames the axis `{1}` to `{0}`. Default: none. An axis that
        is stored with one sharding and used with another has two names, such as `embed_fsdp` and
        `embed`. The user may then mean the renamed axis.

    >>> from namedax.errors import did_you_mean
    >>> did_you_mean("bacth", ["batch", "hidden"]), did_you_mean("pos", ["pos_sp"], "{{{0}:{1}}}")
    (" Did you mean 'batch'?", " Did you mean 'pos_sp', or that axis read as 'pos', {pos:pos_sp}?")
    """
    close = closest(name, candidates)
    if close is None:
        return ""
    or_read = (
        f", or that axis read as {name!r}, {read_as.format(name, close)}"
        if read_as and _have_one_stem(name, close)
        else ""
    )
    return f" Did you mean {close!r}{or_read}?"


def rename_code(array: str, name: Hashable) -> str:
    """Return code that renames an axis of an array.

    >>> from namedax.errors import rename_code
    >>> rename_code("y", "k")
    "nx.rename(y, {'k': 'k2'})"
    """
    other = f"{name}2" if isinstance(name, str) else "other"
    return f"nx.rename({array}, {{{format_value(name)}: {other!r}}})"


def split_names(text: object, known: Iterable[Hashable] | None = None) -> list[str]:
    """Return the names in a string such as `"batch, k"`; none if it is not several names.

    Args:
      text: the string.
      known: the names that it may consist of; default: any.

    >>> from namedax.errors import split_names
    >>> split_names("batch k"), split_names("batch,k", ["batch"]), split_names("batch")
    (['batch', 'k'], [], [])
    """
    names = text.replace(",", " ").split() if isinstance(text, str) else []
    is_known = known is None or set(names) <= set(known)
    return names if len(names) > 1 and len({*names}) == len(names) and is_known else []


# Operations that do not read an axis.
_NOT_READING = ("rename", "shard")


def _have_one_stem(name: Hashable, other: Hashable) -> bool:
    """Return True if one name is the other with a suffix, as in `embed` and `embed_fsdp`."""
    if not (isinstance(name, str) and isinstance(other, str)):
        return False
    stem, longer = sorted((name, other), key=len)
    return longer.startswith(stem) and not longer[len(stem) : len(stem) + 1].isalnum()


def naming(argument: str, shape: Sequence[int], sizes: Mapping[Any, int | None]) -> str:
    """Return a sentence with code that names the axes of an argument.

    Names are matched by size where sizes are unique.

    >>> from namedax.errors import naming
    >>> naming("w", (4, 3), {"station": 3, "day": 4})
    " Name the axes of w first: nx.named(w, ['day', 'station'])."
    >>> naming("w", (3, 3), {"day": 3})
    " Name the axes of w first: nx.named(w, ['day', ...])."
    """
    places = {name: [i for i, n in enumerate(shape) if n == size] for name, size in sizes.items()}
    found = {fits[0]: name for name, fits in places.items() if len(fits) == 1}
    axes: list[Any] = [found.get(i) for i in range(len(shape))]
    if not found or len(found) < min(len(shape), len(sizes)):
        names = list(sizes)
        axes = names if len(names) == len(shape) else [names[0], ...]
    return f" Name the axes of {argument} first: nx.named({argument}, {format_value(axes)})."


def _to_name(name: Hashable, type_text: str, candidates: Sequence[Hashable]) -> str:
    """Return a sentence with code that gives a positional axis of an array the missing name.

    It is empty if the array has no positional axis.
    """
    what, _, shape = type_text.partition("{")[0].partition("[")
    rank = len(shape.partition("]")[0].split(",")) if shape[:1].isdigit() else 0
    if not rank:
        return ""
    argument = what.split()[1] if what.startswith("the ") else "x"
    if not candidates:
        return naming(argument, (0,) * rank, {name: None})
    axes = format_value([name, *[None] * (rank - 1)])
    return (
        f" Name its positional axes first, nx.named({argument}, {axes}), or those of an index"
        f" array, nx.named(ids, {format_value([name])})."
    )


def raise_not_found(
    op: str,
    name: Hashable,
    type_text: str,
    candidates: Iterable[Hashable],
    extra: str = "",
    *,
    read_as: str | None = None,
) -> NoReturn:
    """Raise the error for an axis name that an array does not have.

    Args:
      op: the operation, as the user calls it (`"sum"`).
      name: the axis name that was not found.
      type_text: the array's type, as in its `repr`.
      candidates: the axis names of the array.
      extra: an additional sentence with a remedy. Default: none.
      read_as: as in `did_you_mean`. Default: `nx.rename`.

    Raises:
      AxisNotFoundError: always.
    """
    candidates = list(candidates)
    if read_as is None:
        read_as = "" if op.split(",")[0] in _NOT_READING else "nx.rename(x, {{{1!r}: {0!r}}})"
    has = f"its named axes are {show_names(candidates)}" if candidates else "it has no named axis"
    several = split_names(name, candidates)
    if several:
        meant, extra = f" Did you mean the axes {tuple(several)!r}?", ""
    else:
        meant = did_you_mean(name, candidates, read_as) or (
            "" if "nx.named(" in extra else _to_name(name, type_text, candidates)
        )
    raise AxisNotFoundError(
        f"{op}: no axis {format_value(name)} in {type_text};"
        f" {has}.{meant}{' ' + extra if extra else ''}"
    ).about(axis=name)
