"""Lift closed-over values into the body if their types mention the mesh: values on Explicit axes.

An operation in the body gives such a value a type of the body. JAX can neither bind nor transpose a
`jax.checkpoint` that closes over a type of the outer mesh. So values that are used in another trace
than the body's are recorded, and the body is traced again. The second trace lifts them first, and
inner functions then close over values of the body.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import jax
from jax.extend.core import ClosedJaxpr, get_opaque_trace_state

__all__ = ["ClosureCapture", "Traces", "traced", "type_of_programs"]

# Trace a function of a list of arrays. Return its jaxpr, and a function that calls the traced
# function with the arrays.
Traces = Callable[
    [Callable[[list[jax.Array]], Any], Sequence[jax.Array]], tuple[ClosedJaxpr, Callable[[], Any]]
]

R = TypeVar("R")

_NAME = "part_of_body"


@functools.cache
def type_of_programs() -> type:
    """Return the type of tracers of a trace that only builds a jaxpr."""
    found: list[type] = []
    jax.make_jaxpr(lambda x: found.append(type(x)))(0.0)
    return found[0]


def traced(
    body: Callable[[list[jax.Array]], Any], datas: Sequence[jax.Array]
) -> tuple[ClosedJaxpr, Callable[[], Any]]:
    """Return the jaxpr of `body`, and a function that calls it with `datas`.

    The call is one equation and binds or traces nothing again.
    """
    body.__name__ = _NAME  # the name of the call; messages use `__wrapped__`
    jitted, given = jax.jit(body), list(datas)
    closed = jitted.trace(given).jaxpr
    if closed.consts or len(closed.in_avals) != len(given):
        # only this call reports the values that it closes over
        closed = jax.make_jaxpr(body)(given)
    return closed, functools.partial(jitted, given)


# The number of lifted values. JAX keys its trace caches, also for functions within the body, by
# contexts such as this one.
_entering = jax.make_user_context(0)


class ClosureCapture:
    """The closed-over values of one region that have types of the outer mesh."""

    __slots__ = ("_entered", "_noted", "_trace")

    def __init__(self) -> None:
        self._trace: object = None
        self._noted: list[jax.Array] = []
        self._entered: dict[int, jax.Array] = {}  # by the id of a value in `_noted`

    def begin(self, enter: Callable[[jax.Array], jax.Array]) -> None:
        """Lift the recorded values at the beginning of the trace of the body."""
        self._trace = get_opaque_trace_state()
        self._entered = {id(value): enter(value) for value in self._noted}

    def lift_closure(self, value: jax.Array, enter: Callable[[jax.Array], jax.Array]) -> jax.Array:
        """Return `value` with a type of the body."""
        entered = self._entered.get(id(value))
        if entered is not None:
            return entered
        if self._trace is not None and self._trace != get_opaque_trace_state():
            self._noted.append(value)
        return enter(value)

    def traced(
        self, body: Callable[[list[jax.Array]], Any], datas: Sequence[jax.Array]
    ) -> tuple[ClosedJaxpr, Callable[[], Any]]:
        """Return `traced(body, datas)`, where `body` calls `begin`.

        The body is traced again as long as a trace finds more values.
        """
        try:
            while True:
                known = len(self._noted)
                try:
                    with _entering(known):
                        closed, call = traced(_anew(body), datas)
                # JAX does not bind a checkpoint that closes over such a value
                except NotImplementedError:
                    if len(self._noted) == known:
                        raise
                    continue
                if len(self._noted) == known:
                    return closed, functools.partial(_called, known, call)
        finally:
            self._trace, self._noted, self._entered = None, [], {}


def _called(known: int, call: Callable[[], R]) -> R:
    with _entering(known):
        return call()


def _anew(body: Callable[[list[jax.Array]], R]) -> Callable[[list[jax.Array]], R]:
    """Return a new function that calls `body`: JAX does not trace the same function again."""

    def again(datas: list[jax.Array]) -> R:
        return body(datas)

    return functools.update_wrapper(again, body)  # for JAX's messages
