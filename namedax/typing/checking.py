"""Comparison of values with annotations: `check`, `matches` and `checked`."""

from __future__ import annotations

import contextlib
import functools
import inspect
import re
import typing
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar, overload

from namedax.errors import ArrayTypeError, NamedaxError
from namedax.messages.call_errors import checks_signature
from namedax.ops.operands.pytree import noting_sizes
from namedax.typing.matching import Compare, Problem, Sizes, read, unreadable

__all__ = ["check", "checked", "matches"]


F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")


@checks_signature
def check(value: T, annotation: object, sizes: dict[str, int] | None = None) -> T:
    """Return `value` if its type matches `annotation`.

    Args:
      value: an array, or any other value that an annotation can describe (a tuple, a dataclass,
        ...).
      annotation: any annotation that a parameter of a `checked` function may have.
      sizes: the known size variables. New ones are added, so that several calls can share them.
        Default: none.

    Raises:
      ArrayTypeError: the value has another type.

    >>> import jax.numpy as jnp, namedax as nx
    >>> from namedax.typing import f32
    >>> x = nx.named(jnp.ones((8, 3)), ["batch", "k"])
    >>> sizes = {}
    >>> nx.typing.check(x, f32[{"batch": "n", "k": None}], sizes).dims, sizes
    (('batch', 'k'), {'n': 8})
    >>> nx.typing.check(x, f32[{"batch"}])
    Traceback (most recent call last):
      ...
    namedax.errors.ArrayTypeError: check: the value should be f32[{'batch'}], but is ...
    """
    problem = _check(value, annotation, sizes)
    if problem is not None:
        raise ArrayTypeError(f"check: {problem.text()}")
    return value


@checks_signature
def matches(value: object, annotation: object, sizes: dict[str, int] | None = None) -> bool:
    """Return True if the type of `value` matches `annotation`.

    Args:
      value: as for `check`.
      annotation: as for `check`.
      sizes: as for `check`; new size variables are added if the value matches. Default: none.

    >>> import jax.numpy as jnp
    >>> from namedax.typing import f32, i32, matches
    >>> matches(jnp.ones(3), f32["n"]), matches(jnp.ones(3), i32["n"]), matches(2.0, f32[()])
    (True, False, True)
    """
    return _check(value, annotation, sizes) is None


def _check(value: object, annotation: object, sizes: dict[str, int] | None) -> Problem | None:
    known: Sizes = {variable: (size, "`sizes`", None) for variable, size in (sizes or {}).items()}
    compare = read(annotation)
    problem = compare and compare(value, known, "the value")
    if problem is None and sizes is not None:
        sizes.update({variable: size for variable, (size, _, _) in known.items()})
    return problem


@overload
def checked(fun: F, *, localns: Mapping[str, object] | None = None) -> F: ...
@overload
def checked(*, localns: Mapping[str, object]) -> Callable[[F], F]: ...
def checked(fun: object = None, *, localns: Mapping[str, object] | None = None) -> Any:
    """Check the arguments and results of a function against its annotations, on every call.

    Under `jax.jit`, `jax.grad`, `jax.vmap` and `nx.xmap` a call happens when the function is
    traced, and the traced program has no additional operation. Within the call, a function of
    leaves (`jax.tree.map`) that gives a named axis another size is an error. Within one call a size
    variable has one size, in arguments and results. Annotations without array types (`int`,
    classes) are not checked. Decorate the function itself, under other decorators:
    `checked(jax.vmap(f))` would compare the annotations of `f` with the arguments of `vmap`.

    Args:
      fun: a function or method with annotations; see this module, and `docs/guides/typing.md`.
        Default: none, to decorate with options, `@checked(localns=locals())`.
      localns: local names that string annotations mention, such as aliases that the enclosing
        function defines. Names of the module and of the class are known. Default: none.

    Returns:
      A function with the same name, signature and docstring. It is `fun` itself if no annotation
      has an array type.

    The error is raised when the result is called.

    Raises:
      ArrayTypeError: an argument or a result has another type, or an annotation cannot be
        evaluated.

    >>> import jax.numpy as jnp, namedax as nx
    >>> from namedax.typing import f32
    >>> @nx.checked
    ... def predict(
    ...     w: f32[{"inputs": "i", "hidden": "h"}], x: f32[{"batch", "inputs"}]
    ... ) -> f32[{"batch", "hidden"}]:
    ...     return nx.dot(x, w, "inputs")
    >>> w = nx.named(jnp.ones((3, 6)), ["inputs", "hidden"])
    >>> x = nx.named(jnp.ones((8, 3)), ["batch", "inputs"])
    >>> predict(w, x).dims
    ('batch', 'hidden')
    >>> predict(w, w)
    Traceback (most recent call last):
      ...
    namedax.errors.ArrayTypeError: predict: argument x should be f32[{'batch', 'inputs'}], but ...
    """
    if fun is None and localns is not None:
        return functools.partial(checked, localns=localns)
    if isinstance(fun, (staticmethod, classmethod)):
        return type(fun)(checked(fun.__func__, localns=localns))
    if isinstance(fun, type) or not callable(fun):
        raise ArrayTypeError(
            f"checked: the argument must be a function; got {fun!r}. For a class, decorate its"
            " methods."
        )
    inner = _annotated(fun)
    op = inner.__qualname__.rpartition("<locals>.")[2].removesuffix(".__call__")
    if inspect.iscoroutinefunction(fun) or inspect.isasyncgenfunction(fun):
        raise ArrayTypeError(
            f"checked: {op} is a coroutine function, which is not supported. Call check(value,"
            " annotation) in it."
        )
    local = _mentioned(inner, localns or {})
    compared: dict[str, Compare] | None = None
    # A name may be defined later, as the class of a method is: then it exists at the first call.
    with contextlib.suppress(NameError):
        compared = _compared(inner, local, op)
        if not compared:
            return fun
    signature = inspect.signature(fun)

    @functools.wraps(fun)
    def wrapper(*args: object, **kwargs: object) -> object:
        nonlocal compared
        if compared is None:
            try:
                compared = _compared(inner, _names_of_class(inner) | local, op)
            except NameError as error:
                raise unreadable(f"an annotation of {op}", error) from error
        try:
            bound = signature.bind_partial(*args, **kwargs)
        except TypeError:
            fun(*args, **kwargs)  # Python raises an error with the name of the function
            raise
        sizes: Sizes = {}
        for value, compare, where in _given(bound, compared):
            if problem := compare(value, sizes, where):
                raise ArrayTypeError(f"{op}: {problem.text()}")
        with noting_sizes():
            result = fun(*args, **kwargs)
        if "return" in compared and (problem := compared["return"](result, sizes, "the result")):
            raise ArrayTypeError(f"{op}: {problem.text()}")
        return result

    return wrapper


def _given(
    bound: inspect.BoundArguments, compared: Mapping[str, Compare]
) -> Iterator[tuple[Any, Compare, str]]:
    """Yield the arguments to compare, with their locations, in the order of the signature.

    Defaults are included.
    """
    bound.apply_defaults()
    for name, value in bound.arguments.items():
        if (compare := compared.get(name)) is None:
            continue
        where, kind = f"argument {name}", bound.signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_POSITIONAL:
            yield from ((item, compare, f"{where}[{i}]") for i, item in enumerate(value))
        elif kind is inspect.Parameter.VAR_KEYWORD:
            yield from ((item, compare, f"{where}[{key!r}]") for key, item in value.items())
        else:
            yield value, compare, where


def _annotated(fun: Any) -> Callable[..., Any]:
    """Return the function whose annotations are used."""
    while isinstance(fun, functools.partial):
        fun = fun.func
    fun = inspect.unwrap(fun)
    return fun if hasattr(fun, "__qualname__") else type(fun).__call__


def _names_of_class(inner: Callable[..., Any]) -> dict[str, Any]:
    """Return the names that the class of a method defines; none for other functions."""
    first, *others = inner.__qualname__.split(".")
    owner: Any = getattr(inner, "__globals__", {}).get(first)
    for part in others[:-1]:
        owner = getattr(owner, part, None)
    return dict(vars(owner)) if isinstance(owner, type) else {}


def _mentioned(inner: object, names: Mapping[str, Any]) -> dict[str, Any]:
    """Select the names that the annotations of a function may mention.

    The other values can be garbage-collected.
    """
    try:
        annotations = getattr(inner, "__annotations__", {})
    except NameError:  # since Python 3.14 reading annotations evaluates them
        return {}
    words = set(re.findall(r"\w+", " ".join(map(str, annotations.values()))))
    return {name: names[name] for name in words if name in names}


def _compared(inner: object, local: dict[str, Any], op: str) -> dict[str, Compare]:
    """Return the comparisons for the array annotations of a function.

    They are keyed by parameter, with `"return"` for the result.
    """
    try:
        hints = typing.get_type_hints(inner, localns=local, include_extras=True)
    except (NameError, NamedaxError):
        raise
    except Exception as error:
        raise unreadable(f"an annotation of {op}", error) from error
    return {name: compare for name, hint in hints.items() if (compare := read(hint))}
