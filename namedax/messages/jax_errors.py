"""Recognize errors of JAX by their messages.

JAX has no classes for most of its errors. The table is used only to explain an error: to add a
note, or to raise an error with a remedy in its place. It never decides what is computed. If a
release of JAX changes a message, the explanation is missing, and
`tests/messages/test_jax_errors.py` fails.
"""

from __future__ import annotations

import enum

from jax.errors import JaxRuntimeError

__all__ = ["ErrorKind", "named_result", "recognize", "rejected_operation", "unbound_axis"]


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
