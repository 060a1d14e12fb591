"""What a body closes over of the functions around it, where types mention the mesh there: values on Explicit axes.

Such a value gets a type of the body's own where an operation meets it. JAX can neither bind nor transpose a `jax.checkpoint` that closes over the
type of the other mesh. So values that are met within another trace than the body's are noted, and the body is traced again: they have entered
then before anything else is done, and what closes over them closes over values of the body.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax.extend.core import ClosedJaxpr, get_opaque_trace_state

__all__ = ["ClosureCapture", "Traces", "traced", "type_of_programs"]

# Traces a function of a list of arrays for such a list. Gives its program, and a function that calls it with them, as JAX has traced it.
Traces = Callable[[Callable[[list[Any]], Any], Sequence[Any]], tuple[ClosedJaxpr, Callable[[], Any]]]

_NAME = "part_of_body"


@functools.cache
def type_of_programs() -> type:
    """The type of tracers of a trace that does nothing but write a program."""
    found: list[type] = []
    jax.make_jaxpr(lambda x: found.append(type(x)))(0.0)
    return found[0]


def traced(body: Callable[[list[Any]], Any], datas: Sequence[Any]) -> tuple[ClosedJaxpr, Callable[[], Any]]:
    """The program of `body`, and a function that calls it with `datas`: one equation, for which nothing is bound or traced again."""
    body.__name__ = _NAME  # of the call; messages go by `__wrapped__`
    jitted, given = jax.jit(body), list(datas)
    closed = jitted.trace(given).jaxpr
    if closed.consts or len(closed.in_avals) != len(given):
        closed = jax.make_jaxpr(body)(given)  # JAX says only here which values it closes over
    return closed, functools.partial(jitted, given)


# How many values have entered: JAX remembers what it has traced, functions within the body too, by contexts such as this one.
_entering = jax.make_user_context(0)


class ClosureCapture:
    """Such values of one region."""

    __slots__ = ("_entered", "_noted", "_trace")

    def __init__(self) -> None:
        self._trace: Any = None
        self._noted: list[Any] = []
        self._entered: dict[int, Any] = {}  # by the id of a value in `_noted`

    def begin(self, enter: Callable[[Any], Any]) -> None:
        """Called where the trace of the body begins: what was noted enters."""
        self._trace = get_opaque_trace_state()
        self._entered = {id(value): enter(value) for value in self._noted}

    def lift_closure(self, value: Any, enter: Callable[[Any], Any]) -> Any:
        """`value`, with a type of the body."""
        entered = self._entered.get(id(value))
        if entered is not None:
            return entered
        if self._trace is not None and self._trace != get_opaque_trace_state():
            self._noted.append(value)
        return enter(value)

    def traced(self, body: Callable[[list[Any]], Any], datas: Sequence[Any]) -> tuple[ClosedJaxpr, Callable[[], Any]]:
        """`traced(body, datas)`, where `body` calls `begin`; traced again as long as that finds more values."""
        try:
            while True:
                known = len(self._noted)
                try:
                    with _entering(known):
                        closed, call = traced(_anew(body), datas)
                except NotImplementedError:  # JAX does not bind a checkpoint that closes over one
                    if len(self._noted) == known:
                        raise
                    continue
                if len(self._noted) == known:
                    return closed, functools.partial(_called, known, call)
        finally:
            self._trace, self._noted, self._entered = None, [], {}


def _called(known: int, call: Callable[[], Any]) -> Any:
    with _entering(known):
        return call()


def _anew(body: Callable[..., Any]) -> Callable[..., Any]:
    """Another function that is `body`: JAX does not trace a function again that it has traced."""

    def again(datas: Any) -> Any:
        return body(datas)

    return functools.update_wrapper(again, body)  # for JAX's messages
