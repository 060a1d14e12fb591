"""Compiled calls: programs of `jax.jit` whose arguments are the arrays of a call."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun

from namedax.core.array import NamedArray, make, make_padded, padding_of
from namedax.core.element_types import NUMPY, SCALARS
from namedax.core.names import Dims
from namedax.core.padded_sharding import StoredPadding
from namedax.ops.operands.call_arguments import (
    HOLE,
    NO_ARRAYS,
    ArrayParameters,
    NotAProgramError,
    rebuilt,
)
from namedax.ops.operands.kernels import CONSTANTS
from namedax.ops.operands.pytree import stored_parts

__all__ = ["OtherFormError", "Program"]


class OtherFormError(Exception):
    """The results of a program have other dims or another tree for arrays of other types."""


class _CapturedError(Exception):
    """The functions of a program close over arrays that are not among its arguments yet."""

    def __init__(self, arrays: list[Any]):
        self.arrays = arrays


def _names_of(array: Any) -> tuple[Dims, StoredPadding | None] | None:
    """Return what a program has to know of an argument beside its data; `None` for plain arrays."""
    if type(array) is not NamedArray:
        return None
    if padding_of(array) is None:
        return array._dims, None
    return array._dims, stored_parts(array)[1].padding


def _as_given(data: Any, named: tuple[Dims, StoredPadding | None] | None) -> Any:
    """Return an argument of a call from its data and its dims."""
    if named is None:
        return data
    dims, padding = named
    return make(data, dims) if padding is None else make_padded(data, dims, padding)


_ARRAYS = (NamedArray, jax.Array, *NUMPY)


class Program:
    """A compiled call: a function of its arrays.

    Attributes:
      functions: weak references to the functions of the user among its arguments.
      alive: weak references that remove the program from the table.
      captured: the arrays that these functions close over.
      call: returns the result for the data of a call.
      is_closed: False if a function closes over values of another trace.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        parameters: ArrayParameters | None,
        arrays: Sequence[Any],
    ):
        self.functions: list[weakref.ref[Any]] = []
        self.alive: list[weakref.ref[Any]] = []
        self.captured: list[Any] = []
        self.call: Callable[[list[Any]], Any]
        self.is_closed = True
        # `jax.jit` passes data in less time than named arrays (benchmarks/eager.py). The dims of
        # arguments are in the key. Those of results are `_form`, from the first trace: dims of one
        # array, or a tree. Another trace has the same or raises.
        self._named = [_names_of(x) for x in arrays]
        self._form: Any = None

        self._function = function
        places, names, star = parameters or NO_ARRAYS
        other = self._constant if parameters is None else self._shared
        self._args = tuple(
            rebuilt(arg, self._operand if i in places or i >= star else other)
            for i, arg in enumerate(args)
        )
        self._kwargs = {
            name: rebuilt(arg, self._operand if name in names else other)
            for name, arg in kwargs.items()
        }
        self._lock, self._state = threading.Lock(), threading.local()
        if parameters is None:
            self._compiled = jax.jit(self._run, inline=True)
            self.call = self._call
        else:
            self._compiled = jax.jit(self._run_with_captured, inline=True)
            self.call = self._call_with_captured

    def _constant(self, value: Any) -> Any:
        """Return a part of the arguments as it is in the program: without an array."""
        return HOLE if isinstance(value, _ARRAYS) else value

    def _shared(self, value: Any) -> Any:
        """Return such a part, where the program holds functions weakly."""
        if isinstance(value, _ARRAYS):
            return HOLE
        if type(value) not in CONSTANTS and callable(value):
            self.functions.append(weakref.ref(value))
            return self.functions[-1]
        return value

    def _operand(self, value: Any) -> Any:
        """Return such a part of a parameter in which numbers are operands."""
        return HOLE if type(value) in SCALARS else self._shared(value)

    def _call(self, datas: list[Any]) -> Any:
        return self._with_names(self._compiled(datas))

    def _with_names(self, found: Any) -> Any:
        form = self._form
        return make(found, form) if type(form) is tuple else jax.tree.unflatten(form, found)

    def _call_with_captured(self, datas: list[Any]) -> Any:
        while True:
            try:
                return self._with_names(self._compiled([*self.captured], datas))
            except _CapturedError as found:
                with self._lock:
                    known = set(map(id, self.captured))
                    self.captured += [x for x in found.arrays if id(x) not in known]

    def _run(self, datas: list[Any]) -> Any:
        supply = iter(map(_as_given, datas, self._named))

        def leaf(value: Any) -> Any:
            if value is HOLE:
                return next(supply)
            return value() if type(value) is weakref.ref else value

        args, kwargs = rebuilt(self._args, leaf), rebuilt(self._kwargs, leaf)
        result = self._function(*args, **kwargs)
        leaves, tree = jax.tree.flatten(result)
        if not all(isinstance(x, jax.Array) for x in leaves):
            raise NotAProgramError
        is_one = type(result) is NamedArray and padding_of(result) is None
        form = result._dims if is_one else tree
        if self._form is not None and self._form != form:
            raise OtherFormError
        self._form = form
        return leaves[0] if is_one else leaves

    def _run_with_captured(self, captured: list[Any], datas: list[Any]) -> Any:
        """Run the call with the arrays that its functions close over as arguments."""
        traced = getattr(self._state, "traced", None)
        if traced is None:
            traced = jax.make_jaxpr(self._run, return_shape=True)(datas)
        self._state.traced = None
        closed, shapes = traced
        # Another thread may append to `self.captured`.
        known = {id(x): value for x, value in zip(self.captured, captured, strict=False)}
        new = [x for x in closed.consts if isinstance(x, jax.Array) and id(x) not in known]
        if any(isinstance(x, jax.core.Tracer) for x in new):
            self.is_closed = False
        if new and len(self.captured) < _MOST_CAPTURED:
            self._state.traced = traced  # for the same call, with these as arguments
            raise _CapturedError(new)
        consts = [known.get(id(x), x) for x in closed.consts]
        results = jaxpr_as_fun(ClosedJaxpr(closed.jaxpr, consts))(*jax.tree.leaves(datas))
        return jax.tree.unflatten(jax.tree.structure(shapes), results)


# Functions that make new constants at each trace would add arrays without end.
_MOST_CAPTURED = 256
