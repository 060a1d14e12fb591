"""Recognize errors of JAX by their messages, and add notes about named arrays to them.

JAX has no classes for most of its errors. The table is used only to explain an error: to add a
note, or to raise an error with a remedy in its place. It never decides what is computed. If a
release of JAX changes a message, the explanation is missing, and
`tests/messages/test_jax_errors.py` fails.
"""

from __future__ import annotations

import enum
from types import TracebackType

from jax.errors import JaxRuntimeError

from namedax.errors import NamedaxError

__all__ = [
    "ErrorKind",
    "add_note",
    "explain_type_errors",
    "named_result",
    "recognize",
    "rejected_operation",
    "unbound_axis",
]


@enum.unique
class ErrorKind(enum.Enum):
    """A kind of error of JAX, or of orbax: the classes, and the messages.

    A message is a tuple of fragments that it contains. The order is the one in which `recognize`
    tries the kinds, special ones first.
    """

    GRADIENT_OF_NAMES = (TypeError,), (("Gradient only defined", "NamedArray("),)
    NAMED_ARRAY = (TypeError,), (("NamedArray",),)
    EINSUM = (
        (ValueError,),
        (("einsum",), ("Einstein sum",), ("Output character '{'",), ("Output character '}'",)),
    )
    SHARD_MAP_MESH = (
        (ValueError,),
        (("context mesh ", " should match the mesh passed to shard_map"),),
    )
    VARIANCE = (TypeError, ValueError), (("pcast",), ("manual axis",), ("manual axes",))
    CONTEXT_MESH = (
        (ValueError,),
        (
            ("context mesh ", " should match the aval mesh"),
            ("Context mesh ", " should match the mesh"),
        ),
    )
    UNBOUND_AXIS = (NameError,), (("unbound axis name: ",),)
    STRING_OPERAND = (TypeError,), (("<class 'str'>",),)
    FORWARD_MODE = (TypeError,), (("forward-mode",),)
    NOT_HASHABLE = (ValueError,), (("Non-hashable static arguments",),)
    BLOCK_TYPE = (AssertionError,), (("ManualAxisType(",),)
    INCOMPATIBLE_DEVICES = (
        (KeyError, ValueError, JaxRuntimeError),
        (("incompatible devices",),),
    )
    INDIVISIBLE = (
        (KeyError, ValueError, JaxRuntimeError),
        (("is incompatible with mesh_shape",),),
    )
    ABSTRACT_MESH = (KeyError, ValueError), (("AbstractMesh",),)
    NAMED_INDEX = (IndexError, ValueError), (("NamedArray",),)
    FOLDER_EXISTS = (ValueError,), (("already exists",),)

    def matches(self, error: BaseException) -> bool:
        """Return True if an error is of this kind."""
        classes, messages = self.value
        if not isinstance(error, classes):
            return False
        text = str(error)
        return any(all(fragment in text for fragment in message) for message in messages)


def recognize(error: BaseException) -> ErrorKind | None:
    """Return the kind of an error of JAX, or `None`.

    Use it only to add an explanation to the error, never to decide what is computed. The first kind
    of the table wins; `ErrorKind.matches` tests for one kind.
    """
    return next((kind for kind in ErrorKind if kind.matches(error)), None)


# --- values in messages ---------------------------------------------------------------------------


def named_result(error: BaseException) -> str:
    """Return the type of the result in a `GRADIENT_OF_NAMES` error, such as `f32[]{k:4}`."""
    beginning, brace, _ = str(error).partition("NamedArray(")[2].partition("}")
    return beginning + brace


def unbound_axis(error: BaseException) -> str:
    """Return the axis name in an `UNBOUND_AXIS` error."""
    return str(error).partition("unbound axis name: ")[2].partition(". To fix this")[0]


def rejected_operation(error: BaseException) -> str | None:
    """Return the operation in a `CONTEXT_MESH` error, or `None` if the message has none."""
    for before in ("primitive ", "passed to "):
        words = str(error).partition(before)[2].replace(",", " ").replace(".", " ").split()
        if words:
            return words[0]
    return None


# --- notes on errors of JAX in code with named arrays ---------------------------------------------

_NOTES = {
    ErrorKind.NAMED_ARRAY: (
        "namedax: a function that takes positional arrays got a named array. Lift the function over"
        " the names with nx.nmap(function), or call its namesake in namedax (nx.numpy, nx.lax,"
        " nx.nn)."
    ),
    ErrorKind.EINSUM: (
        "namedax: JAX's einsum takes letters only. nx.einsum takes names too, in braces, one pair"
        " of braces for each operand: '{batch, k}, {k, out} -> {batch, out}'."
    ),
    ErrorKind.SHARD_MAP_MESH: (
        "namedax: a jax.shard_map in a mapped function already has its mesh. Leave mesh= out, and"
        " list the mesh axes without names that it maps: jax.shard_map(f, axis_names={'y'},"
        " in_specs=..., out_specs=...)."
    ),
    ErrorKind.VARIANCE: (
        "namedax: a loop or a branch of JAX combines a value that is the same on every device, such"
        " as a constant in a carry, with blocks of named arrays, which vary over mesh axes. Solvers"
        " of other libraries (diffrax, optimistix, lineax, blackjax) do that. Map the function that"
        " the solver calls (the vector field, the loss), f = nx.xmap(field, ...,"
        " axis_resources=...), and call the solver outside of the mapped function. A loop of your"
        " own casts its carry if it is nx.scan, nx.fori_loop, nx.while_loop or nx.cond."
    ),
}
_XEINSUM = "namedax: JAX removed xeinsum together with xmap. Use nx.einsum, with names in braces."


def _note_on(error: BaseException) -> str | None:
    """Return the note for an error of JAX in code with named arrays."""
    if isinstance(error, AttributeError) and error.name == "xeinsum":
        return _XEINSUM
    kind = recognize(error)
    if kind is ErrorKind.GRADIENT_OF_NAMES:
        return (
            f"namedax: the differentiated function returns {named_result(error)}, but a gradient"
            " needs a scalar. Reduce the remaining names in the function: nx.mean(loss, axis=...)"
            " reduces all of them."
        )
    return None if kind is None else _NOTES.get(kind)


def add_note(error: BaseException) -> None:
    """Add a note to an error of JAX that rejects named arrays."""
    note = None if isinstance(error, NamedaxError) else _note_on(error)
    if note is not None and note not in getattr(error, "__notes__", ()):
        error.add_note(note)


class _ExplainTypeErrors:
    """Adds the note to an error, as a context manager without state."""

    def __enter__(self) -> None:
        return None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is not None:
            add_note(error)


explain_type_errors = _ExplainTypeErrors()
