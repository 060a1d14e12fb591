"""The boundary between namedax and the functions that users pass to it.

Every call of such a function goes through one of the functions below. The traceback that JAX keeps
for each equation contains the frame of that call. So a traced program shows which equations come
from user code: those whose innermost namedax frame is a boundary. Nothing else decides it.
"""

from __future__ import annotations

import functools
import os
import sysconfig
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, ParamSpec, TypeVar, TypeVarTuple

import jax
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from namedax.core.strict_broadcasting import resumed, strict_scopes
from namedax.messages.call_errors import explain_user_call

__all__ = [
    "LEAF",
    "Boundary",
    "Mark",
    "boundary_of",
    "call_backward_rule",
    "call_checked_code",
    "call_user_code",
    "first_user_line",
    "is_transparent",
    "is_user_file",
    "make_transparent",
    "mark_for",
]


P = ParamSpec("P")
R = TypeVar("R")
Ts = TypeVarTuple("Ts")


def call_user_code(function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
    """Call a function of the user.

    Raises:
      ArgumentTypeError: the function does not accept these arguments.
    """
    try:
        if strict_scopes:
            with resumed():
                return function(*args, **kwargs)
        return function(*args, **kwargs)
    except TypeError as error:
        explain_user_call(function, args, kwargs, error)
        raise


def call_backward_rule(function: Callable[[*Ts], R], /, *args: *Ts) -> R:
    """Call a rule of the user that computes cotangents.

    JAX runs it while it transposes a program.

    Raises:
      ArgumentTypeError: the rule does not accept these arguments.
    """
    try:
        if strict_scopes:
            with resumed():
                return function(*args)
        return function(*args)
    except TypeError as error:
        explain_user_call(function, args, {}, error)
        raise


def call_checked_code(function: Callable[[*Ts], R], /, *args: *Ts) -> R:
    """Call a function whose traced program is checked on its own.

    The surrounding check skips it.
    """
    return function(*args)


Boundary = Callable[..., Any]

_BOUNDARIES: dict[tuple[str, str], Boundary] = {
    (function.__code__.co_filename, function.__qualname__): function
    for function in (call_user_code, call_backward_rule, call_checked_code)
}


def boundary_of(file: str, function: str) -> Boundary | None:
    """Return the boundary that a frame of a traceback belongs to, if it belongs to one.

    Args:
      file: the file of the frame's code.
      function: the qualified name of the frame's code.
    """
    return _BOUNDARIES.get((file, function))


_TRANSPARENT: set[str] = set()


def make_transparent(file: str) -> None:
    """Mark the frames of a file as transparent, so that the search for a boundary skips them.

    JAX calls the functions of such a module, from user code too, to flatten and unflatten named
    arrays.
    """
    _TRANSPARENT.add(file)


def is_transparent(file: str) -> bool:
    """Return True if the frames of a file are transparent."""
    return file in _TRANSPARENT


# --- files of users -------------------------------------------------------------------------------


# Packages that are never user code; an installed package with a model may be.
_LIBRARIES = ("einops", "jaxlib", "numpy", "opt_einsum", "optax")


@functools.cache
def _foreign() -> tuple[str, ...]:
    """Return the folders of files that are not user code."""
    here, jaxs = os.path.dirname(os.path.dirname(__file__)), os.path.dirname(jax.__file__)
    folders = [os.path.dirname(jaxs), sysconfig.get_paths()["purelib"]]
    libraries = [os.path.join(folder, name) for folder in folders for name in _LIBRARIES]
    return tuple(path + os.sep for path in (here, jaxs, *libraries))


@functools.cache
def _standard() -> tuple[str, str]:
    paths = sysconfig.get_paths()
    return paths["stdlib"] + os.sep, paths["purelib"] + os.sep


@functools.lru_cache(maxsize=65536)
def is_user_file(path: str) -> bool:
    """Return True if the code of a file is user code, by its path."""
    standard, installed = _standard()
    is_standard = path.startswith(standard) and not path.startswith(installed)
    return not (path.startswith(_foreign()) or is_standard or path.startswith("<frozen"))


def first_user_line(frames: Iterable[tuple[str, int]]) -> tuple[str, int] | None:
    """Return the first frame that is user code, as file and line; `None` if there is none.

    Args:
      frames: frames as file and line, the innermost first.

    >>> import jax
    >>> from namedax.core.user_code import first_user_line
    >>> first_user_line([(jax.__file__, 7), ("/me/model.py", 12), ("/me/run.py", 3)])
    ('/me/model.py', 12)
    """
    return next(((file, line) for file, line in frames if is_user_file(file)), None)


# --- marks on leaves of pytrees ------------------------------------------------------------------
# Equal block sizes hide a transposition from the comparison of sizes. The mark is an equation in
# the traced body. It returns its operand and records the mesh axes of each dimension. The
# inspection of the body compares it with the sharding of the leaf.


Mark = tuple[tuple[str, ...], ...]


def mark_for(
    dims: Sequence[Hashable | None],
    sizes: Sequence[int],
    resources: Mapping[Hashable, Sequence[str]],
) -> Mark | None:
    """Return the mark for a leaf with these dims, or `None` if it needs none.

    It needs none if a different size would reveal every move of a sharded dimension.

    >>> from namedax.core.user_code import mark_for
    >>> mark_for(("a", "b"), (2, 2), {"a": ("x",)})
    (('x',), ())
    >>> mark_for(("a", "b"), (2, 3), {"a": ("x",)}) is None
    True
    """
    axes = tuple(tuple(sorted(resources.get(dim, ()))) for dim in dims)
    return (
        axes
        if any(own and sizes.count(size) > 1 for own, size in zip(axes, sizes, strict=True))
        else None
    )


def _batch(operands: Sequence[Any], batched: Sequence[int], mark: Mark) -> tuple[Any, int]:
    (data,), (at,) = operands, batched
    return LEAF.bind(data, mark=(*mark[:at], (), *mark[at:])), at


# An identity that is bound where the leaf becomes a named array. JAX's own `checkpoint_name` cannot
# be transposed, as the tangents of a rule must be.
LEAF = Primitive("named_leaf")
LEAF.def_abstract_eval(lambda data, mark: data)
LEAF.def_impl(lambda data, mark: data)
ad.deflinear2(LEAF, lambda cotangent, data, mark: [cotangent])
batching.primitive_batchers[LEAF] = _batch
mlir.register_lowering(LEAF, lambda _, data, mark: [data])
