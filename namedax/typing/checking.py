"""Comparing values with annotations: `check`, `matches`, and `checked`, which does so on every call of a function."""

from __future__ import annotations

import functools
import inspect
import re
import typing
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from namedax.errors import ArrayTypeError, NamedaxError
from namedax.typing.annotations import checker_of
from namedax.typing.problems import Checker, Problem, Sizes, Where, unreadable

__all__ = ["check", "checked", "matches"]


F = TypeVar("F", bound=Callable[..., Any])


def check(value: Any, annotation: Any, sizes: dict[str, int] | None = None) -> Any:
    """Returns `value`, if it is of the type that `annotation` states.

    Args:
      value: an array, or anything else that an annotation can describe (a tuple, a dataclass, ...).
      annotation: whatever may annotate a parameter of a `checked` function.
      sizes: the size variables that are known. New ones are added, so that several calls can share them.

    Raises:
      ArrayTypeError: the value is of another type.

    >>> import jax.numpy as jnp, namedax as nx
    >>> from namedax.typing import f32
    >>> x = nx.named(jnp.ones((8, 3)), ["batch", "k"])
    >>> sizes = {}
    >>> check(x, f32[{"batch": "n", "k": None}], sizes).dims, sizes
    (('batch', 'k'), {'n': 8})
    >>> check(x, f32[{"batch"}])
    Traceback (most recent call last):
      ...
    namedax.errors.ArrayTypeError: check: the value should be f32[{'batch'}], but is f32[]{batch:8, k:3}. It has the axis 'k', ...
    """
    problem = _check(value, annotation, sizes)
    if problem is not None:
        raise ArrayTypeError(f"check: {problem.text()}")
    return value


def matches(value: Any, annotation: Any, sizes: dict[str, int] | None = None) -> bool:
    """Whether `value` is of the type that `annotation` states. Takes what `check` takes; `sizes` grows if it is.

    >>> import jax.numpy as jnp
    >>> from namedax.typing import f32, i32
    >>> matches(jnp.ones(3), f32["n"]), matches(jnp.ones(3), i32["n"]), matches(2.0, f32[()])
    (True, False, True)
    """
    return _check(value, annotation, sizes) is None


def _check(value: Any, annotation: Any, sizes: dict[str, int] | None) -> Problem | None:
    checker = checker_of(annotation)
    if checker is None:
        return None
    known: Sizes = {variable: (size, "`sizes`", None) for variable, size in (sizes or {}).items()}
    problem = checker.problem(value, known, "the value")
    if problem is None and sizes is not None:
        sizes.update({variable: size for variable, (size, _, _) in known.items()})
    return problem


def checked(fun: F) -> F:
    """Compares the arguments and results of a function with its annotations, on every call.

    Under `jax.jit`, `jax.grad`, `jax.vmap` and `nx.xmap` a call happens when the function is traced, and the traced program has
    no additional operation. Within one call a size variable has one size, in arguments and results. Annotations that have
    nothing to do with arrays (`int`, classes) are not checked. Decorate the function itself, under other decorators:
    `checked(jax.vmap(f))` would compare the annotations of `f` with the arguments of `vmap`.

    Args:
      fun: a function or method with annotations; see this module, and `docs/typing.md`.

    Returns:
      A function with the same name, signature and docstring. It is `fun` itself if no annotation is about arrays.

    Raises, when called:
      ArrayTypeError: an argument or a result has another type, or an annotation cannot be evaluated.

    >>> import jax.numpy as jnp, namedax as nx
    >>> from namedax.typing import f32
    >>> @checked
    ... def predict(w: f32[{"inputs": "i", "hidden": "h"}], x: f32[{"batch", "inputs"}]) -> f32[{"batch", "hidden"}]:
    ...     return nx.dot(x, w, "inputs")
    >>> w, x = nx.named(jnp.ones((3, 6)), ["inputs", "hidden"]), nx.named(jnp.ones((8, 3)), ["batch", "inputs"])
    >>> predict(w, x).dims
    ('batch', 'hidden')
    >>> predict(w, w)
    Traceback (most recent call last):
      ...
    namedax.errors.ArrayTypeError: predict: argument x should be f32[{'batch', 'inputs'}], but is f32[]{inputs:3, hidden:6}. ...
    """
    frame = inspect.currentframe()
    try:
        caller = frame.f_back if frame is not None else None
        # Where annotations are strings, they may mention names that are local to the decorating code.
        local = dict(caller.f_locals) if caller is not None and caller.f_globals is _globals_of(fun) else {}
    finally:
        del frame, caller
    wrapped: F = _checked(fun, local)
    return wrapped


def _checked(fun: Any, namespace: dict[str, Any]) -> Any:
    if isinstance(fun, (staticmethod, classmethod)):
        return type(fun)(_checked(fun.__func__, namespace))
    if isinstance(fun, type) or not callable(fun):
        raise ArrayTypeError(f"checked: it takes a function, not {fun!r}. For a class, decorate its methods.")
    if inspect.iscoroutinefunction(fun) or inspect.isasyncgenfunction(fun):
        raise ArrayTypeError(f"checked: {_name_of(fun)} is a coroutine function, which checked does not take.")
    plan: _Plan | None = None
    try:
        plan = _Plan(fun, namespace)
        if not plan.parameters and plan.result is None:
            return fun
        namespace = {}
    except NameError:
        # Perhaps a class that is defined further down. What of the caller's names it may need is kept for the first call.
        words = set(re.findall(r"\w+", " ".join(map(str, _annotations(fun).values()))))
        namespace = {name: value for name, value in namespace.items() if name in words}
    op = _name_of(fun)

    @functools.wraps(fun)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        nonlocal plan
        if plan is None:
            try:
                plan = _Plan(fun, namespace)
            except NameError as error:
                raise unreadable(f"an annotation of {op}", error) from error
        sizes: Sizes = {}
        for value, checker, where in plan.arguments(args, kwargs):
            problem = checker.problem(value, sizes, where)
            if problem is not None:
                raise ArrayTypeError(f"{op}: {problem.text()}")
        result = fun(*args, **kwargs)
        if plan.result is not None:
            problem = plan.result.problem(result, sizes, "the result")
            if problem is not None:
                raise ArrayTypeError(f"{op}: {problem.text()}")
        return result

    return wrapper


def _name_of(fun: Any) -> str:
    while isinstance(fun, functools.partial):
        fun = fun.func
    name = getattr(fun, "__qualname__", None) or type(fun).__qualname__
    return name.rpartition("<locals>.")[2]


def _annotated(fun: Any) -> Any:
    """The function whose annotations count."""
    while isinstance(fun, functools.partial):
        fun = fun.func
    fun = inspect.unwrap(fun)
    return fun if hasattr(fun, "__annotations__") else type(fun).__call__ if callable(fun) else None


def _globals_of(fun: Any) -> Any:
    return getattr(_annotated(fun.__func__ if isinstance(fun, (staticmethod, classmethod)) else fun), "__globals__", None)


def _annotations(fun: Any) -> Mapping[str, Any]:
    try:
        return getattr(_annotated(fun), "__annotations__", {})
    except NameError:  # since Python 3.14 reading is evaluating
        return {}


class _Plan:
    """Which arguments of a function are checked, how each is found in a call, and the check of the result."""

    def __init__(self, fun: Any, namespace: Mapping[str, Any]):
        inner = _annotated(fun)
        closure = getattr(inner, "__closure__", None) or ()
        free = getattr(getattr(inner, "__code__", None), "co_freevars", ())
        cells = {}
        for name, cell in zip(free, closure, strict=True):
            try:
                cells[name] = cell.cell_contents
            except ValueError:  # not assigned yet
                continue
        module = _globals_of(fun) or {}
        try:
            hints = typing.get_type_hints(inner, {**module, **namespace, **cells}, include_extras=True)
        except (NameError, NamedaxError):
            raise
        except Exception as error:
            raise unreadable(f"an annotation of {_name_of(fun)}", error) from error
        checkers = {name: checker for name, hint in hints.items() if (checker := checker_of(hint)) is not None}
        self.result = checkers.pop("return", None)
        parameters = inspect.signature(fun).parameters
        # One entry for each parameter that is checked: its place and its name, where it may have them.
        self.parameters = []
        for i, parameter in enumerate(parameters.values()):
            if (checker := checkers.get(parameter.name)) is not None:
                self.parameters.append(
                    (i, parameter.name, parameter.kind, parameter.default, checker, f"argument {parameter.name}")
                )
        self._by_name = {p.name for p in parameters.values() if p.kind in (_EITHER, inspect.Parameter.KEYWORD_ONLY)}

    def arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[tuple[Any, Checker, Where]]:
        """The values to check, in the order of the signature. What does not fit the signature is left to Python."""
        found: list[tuple[Any, Checker, Where]] = []
        given = len(args)
        for place, name, kind, default, checker, where in self.parameters:
            if kind is _VARIADIC:
                found += [(args[i], checker, (where, f"[{i - place}]")) for i in range(place, given)]
            elif kind is _KEYWORDS:
                more = [key for key in kwargs if key not in self._by_name]
                found += [(kwargs[key], checker, (where, f"[{key!r}]")) for key in more]
            elif place < given and kind is not _KEYWORD_ONLY:
                found.append((args[place], checker, where))
            elif name in kwargs and kind is not _POSITIONAL_ONLY:
                found.append((kwargs[name], checker, where))
            elif default is not inspect.Parameter.empty:
                found.append((default, checker, where))
        return found


_POSITIONAL_ONLY, _EITHER, _VARIADIC, _KEYWORD_ONLY, _KEYWORDS = (
    inspect.Parameter.POSITIONAL_ONLY,
    inspect.Parameter.POSITIONAL_OR_KEYWORD,
    inspect.Parameter.VAR_POSITIONAL,
    inspect.Parameter.KEYWORD_ONLY,
    inspect.Parameter.VAR_KEYWORD,
)
