"""What JAX refuses of whole arrays because an axis of theirs is cut over an Explicit mesh axis, and how it is done all the same.

On such a mesh axis the sharding is part of a value's type, and JAX (0.10 to 0.12) has no rule for many operations along an axis that is
cut. The other way stands in `namedax.explicit_axes`. It maps functions, so it is above all operations; it is installed here, where
operations can ask for it.

Nothing is looked at before JAX has refused something. A function that it has refused is noted, and asks first from then on.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Mapping
from types import CodeType
from typing import Any, TypeVar, cast

from namedax.core.bool_arguments import check_flags, flags_of
from namedax.core.call_errors import refuse_miscall
from namedax.core.element_types import refuse_overflow
from namedax.core.foreign_arrays import refuse_foreign_among
from namedax.errors import NamedaxError

__all__ = [
    "checked_operation",
    "fallback",
    "guarded",
    "install",
    "is_of_sharding",
    "mark_operation",
    "note",
    "refused",
    "within_decorators",
]

F = TypeVar("F", bound=Callable[..., Any])

#: The functions that JAX has refused once, in this process, of some arrays.
refused: set[Any] = set()

_ways: list[Callable[..., Any]] = []


_MOST = 1024


def note(function: Callable[..., Any]) -> None:
    """Notes that JAX has refused this function of some arrays."""
    if len(refused) >= _MOST:
        refused.clear()
    refused.add(function)


def install(way: Callable[..., Any]) -> None:
    """Makes `way` the other way. It is called as `fallback` is, with whether there was an error in the place of the error."""
    _ways[:] = [way]


def fallback(
    error: Exception | None, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[Any] | None:
    """The result of `function(*args, **kwargs)` on the other way; `None` if there is none, or no need of it.

    Args:
      error: what the function has raised; `None` before it is called, where only ways that are known are taken.
      function: a whole operation, with all of its checks. It changes nothing, so that it can be called again.
      args: of the function.
      kwargs: likewise.

    Raises:
      PlacementConflictError: the places of the operands do not go together.
      ArgumentError: JAX has refused an integer that does not fit into its type.
      ArgumentTypeError: the function has no such arguments, one is not of the kind of its parameter, or one is an array with dims of
        another library.
    """
    op = str(getattr(function, "_shown", None) or getattr(function, "_guarded", "an operation"))
    if error is not None:
        refuse_foreign_among(op, (args, kwargs))
    if isinstance(error, OverflowError):
        refuse_overflow(op, (args, kwargs))
    if error is None:
        return cast("tuple[Any] | None", _ways[0](False, function, args, kwargs))
    if _is_part_of_another():
        return None
    done = cast("tuple[Any] | None", _ways[0](True, function, args, kwargs)) if is_of_sharding(error) else None
    if done is None and getattr(function, "_is_of_user", None) is not True:
        refuse_miscall(op, function, args, kwargs, error)
    return done


def is_of_sharding(error: BaseException) -> bool:
    """Whether JAX has raised an error because of how something is sharded, or one of namedax follows from that."""
    cause: BaseException | None = error
    while isinstance(cause, NamedaxError):
        cause = cause.__cause__
    return cause is not None and bool(_OF_SHARDING.search(f"{type(cause).__name__}: {cause}"))


# JAX exports no class for these errors, and some are of Python's.
_OF_SHARDING = re.compile(r"shard|PartitionSpec|Resource axis|replicated|mesh|\[[^\]]*@", re.IGNORECASE)


def _is_part_of_another() -> bool:
    """Whether the operation that asks is called by another one, which will do all of it the other way.

    Functions of the user may stand between the two, as in a loop; then it is not.
    """
    frame = inspect.currentframe()
    for _ in range(3):  # this function, the one that asks, and the operation
        frame = frame.f_back if frame is not None else None
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in _BETWEEN:
        if frame.f_code in _operations:
            return True
        frame = frame.f_back
    return False


_BETWEEN = frozenset({"namedax", "jax", "functools", "contextlib"})
_operations: set[CodeType] = set()


def mark_operation(function: F, op: str) -> F:
    """Notes that a function is an operation that asks for the other way; `op` is what messages call it."""
    _operations.add(function.__code__)
    function._guarded = op  # type: ignore[attr-defined]
    return function


def guarded(op: str, say: Callable[..., None] | None = None) -> Callable[[F], F]:
    """A decorator for an operation as users call it, `op`: where JAX refuses it, it goes the other way.

    Args:
      op: what messages call it.
      say: is given an error, and the arguments, before another way is looked for; it may raise one in words.
    """

    def decorate(function: F) -> F:
        flags = flags_of(function)

        @functools.wraps(function)
        def guard(*args: Any, **kwargs: Any) -> Any:
            if (kwargs and not flags.names.isdisjoint(kwargs)) or len(args) > flags.first:
                check_flags(op, flags, args, kwargs)
            if refused and guard in refused and (done := fallback(None, guard, args, kwargs)) is not None:
                return done[0]
            try:
                return function(*args, **kwargs)
            except Exception as error:
                if say is not None:
                    say(error, args, kwargs)
                if (done := fallback(error, guard, args, kwargs)) is None:
                    raise
            return done[0]

        return cast("F", mark_operation(guard, op))

    return decorate


def checked_operation(function: F) -> F:
    """An operation on arrays that has no decorator that guards it."""
    return guarded(function.__name__)(function)


def within_decorators(function: Callable[..., Any]) -> Callable[..., Any]:
    """An operation without its decorators, but for that it is `guarded`."""
    inner = inspect.unwrap(function)  # a guard may stand around another decorator, which asks for an axis
    guard = inspect.unwrap(function, stop=_is_guard)
    return guard if vars(guard).get("__wrapped__") is inner else guarded(inner.__name__)(inner)


def _is_guard(function: Any) -> bool:
    return getattr(function, "__code__", None) is _guard_code


_guard_code = guarded("")(is_of_sharding).__code__
