"""Opt-in check that elementwise results have the names of one of their operands.

The setting is a user context of JAX, as the region is, so it is part of JAX's cache keys: a
`jit`-ed helper that is called with and without the check is traced once for each. The check is for
operations that the user writes. Operations that are compositions suspend it while they run, and
functions of users that these call resume it.
"""

from __future__ import annotations

import contextlib
import difflib
import functools
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any, TypeVar, TypeVarTuple, cast

import jax

from namedax.core.array import NamedArray
from namedax.core.display import type_text
from namedax.core.region import active_regions
from namedax.errors import OuterProductError, show_names
from namedax.messages.call_errors import checks_signature

__all__ = [
    "check_names",
    "forms_outer_products",
    "is_strict",
    "resumed",
    "strict_broadcasting",
    "strict_scopes",
    "suspended",
    "without",
]

F = TypeVar("F", bound=Callable[..., Any])
R = TypeVar("R")
Ts = TypeVarTuple("Ts")

# `None`: off. Suspended operations are not off, since a function of the user may be called in one.
_ON, _SUSPENDED = "on", "suspended"
_context = jax.make_user_context(None)

#: Empty if no thread is in the context. Then nothing else has to be looked up.
strict_scopes: set[int] = set()


@checks_signature
def strict_broadcasting(enabled: bool = True) -> contextlib.AbstractContextManager[None]:
    """Reject elementwise results that have more names than each of their operands.

    Names that only one operand has are broadcast. So `x + bias` is an outer sum if the bias is
    stored under a second name of the same axis, such as `embed_fsdp` for `embed`. In this context
    such an operation raises. It applies to operators, methods and elementwise functions (`nx.add`,
    `nx.where`, `nx.clip`, `nx.scipy.special`, ...), at the top level and in mapped functions, while
    they run or are traced. `{batch, pos} + {batch}` has the names of an operand and is accepted.

    An intended outer product is written as one: `nx.einsum("{pos}, {key} -> {pos, key}", x, y)`, or
    `nx.broadcast_to(x, named_shape={"key": 8}) >= y`. The operations of namedax that form one
    themselves (`nx.dot`, `nx.nn.one_hot`, attention) are not affected, and neither are functions
    that `nx.nmap` lifts.

    Args:
      enabled: False to accept these results again in a part of the context; default: True.

    Returns:
      A context manager, which is also a decorator: `@nx.strict_broadcasting()`. It does not change
        results. A function that is compiled by `jax.jit` is traced again in the context.

    Raises:
      OuterProductError: in the context, a result has more names than each of the operands.

    >>> import namedax as nx
    >>> x = nx.ones(named_shape={"batch": 2, "embed": 4})
    >>> bias = nx.ones(named_shape={"embed_fsdp": 4})
    >>> with nx.strict_broadcasting():
    ...     y = x + nx.rename(bias, {"embed_fsdp": "embed"})  # x + bias raises
    >>> y.named_shape
    mappingproxy({'batch': 2, 'embed': 4})
    """
    return _strict(enabled)


@contextlib.contextmanager
def _strict(enabled: bool) -> Iterator[None]:
    value = _ON if enabled else None
    token = object()
    # dispatch caches skip operations, and are not used while a region is active
    active_regions.add(id(token))
    strict_scopes.add(id(token))
    try:
        with _context(value):
            yield
    finally:
        strict_scopes.discard(id(token))
        active_regions.discard(id(token))


def is_strict() -> bool:
    """Return True if elementwise operations are checked here."""
    return bool(strict_scopes) and _context.value == _ON


def suspended(function: Callable[..., R], *args: Any, **kwargs: Any) -> R:
    """Return `function(*args, **kwargs)`, run without the check, except functions of users."""
    with _context(_SUSPENDED):
        return function(*args, **kwargs)


def forms_outer_products(function: F) -> F:
    """Decorate a function of namedax, not an operation, that combines arrays of different names."""

    @functools.wraps(function)
    def unchecked(*args: Any, **kwargs: Any) -> Any:
        if strict_scopes and is_strict():
            return suspended(function, *args, **kwargs)
        return function(*args, **kwargs)

    return cast("F", unchecked)


def without(function: Callable[[*Ts], R], *args: *Ts) -> R:
    """Return `function(*args)`, run without the check: a kernel, which all settings share."""
    with _context(None):
        return function(*args)


def resumed() -> contextlib.AbstractContextManager[Any]:
    """Return a context for a function of the user, with the check if it was suspended."""
    return _context(_ON) if _context.value == _SUSPENDED else contextlib.nullcontext()


def check_names(op: str, operands: Sequence[Any]) -> None:
    """Raise if an elementwise result has more names than each of its operands.

    Args:
      op: the operation.
      operands: arrays, named or not, and numbers.

    Raises:
      OuterProductError: no operand has all names of the result.
    """
    named = [x for x in operands if isinstance(x, NamedArray)]
    result = dict.fromkeys(dim for x in named for dim in x.dims if dim is not None)
    if not named or any(set(result).issubset(x.dims) for x in named):
        return
    types = [type_text(x) for x in named]
    names = list(result)
    raise OuterProductError(
        f"{op}: the operands {', '.join(types[:-1])} and {types[-1]} give a result with the axes"
        f" {show_names(result)}, more than each operand has, and nx.strict_broadcasting() rejects"
        f" outer products. {_remedy(op, named, names)}"
    )


def _remedy(op: str, named: Sequence[NamedArray], names: list[Hashable]) -> str:
    """Return the ways to write it: one name less, or the outer product itself."""
    x, y = _apart(named)
    array = "x" if x is named[0] else "y"
    parts = []
    if (pair := _alike(x, y)) is not None:
        old, new = pair
        parts.append(
            f"If {old!r} and {new!r} are one axis, rename it:"
            f" nx.rename({array}, {{{old!r}: {new!r}}})."
        )
    else:
        parts.append("If two names are one axis, rename one of them with nx.rename.")
    if op == "multiply" and len(named) == 2 and not x.shape and not y.shape:
        parts.append('For an intended outer product write nx.einsum("{}, {} -> {}", x, y).')
    else:
        sizes = ", ".join(
            f"{name!r}: {y.named_shape[name]}" for name in y.named_shape if name not in x.dims
        )
        parts.append(
            "For an intended outer product repeat an operand first:"
            f" nx.broadcast_to({array}, named_shape={{{sizes}}})."
        )
    return " ".join(parts)


def _apart(named: Sequence[NamedArray]) -> tuple[NamedArray, NamedArray]:
    """Return two operands of which each has a name that the other lacks.

    The first one has fewer names.
    """
    pairs = (
        (x, y)
        for x in named
        for y in named
        if len(x.named_shape) <= len(y.named_shape) and not set(x.named_shape) <= set(y.named_shape)
    )
    return next(pairs)


def _alike(x: NamedArray, y: NamedArray) -> tuple[Hashable, Hashable] | None:
    """Return names of `x` and of `y`, of one size, that may be one axis; `None` without any."""
    found = [
        (a, b)
        for a, n in x.named_shape.items()
        for b, m in y.named_shape.items()
        if n == m and a not in y.named_shape and b not in x.named_shape
    ]
    return max(found, key=_similarity, default=None)


def _similarity(pair: tuple[Hashable, Hashable]) -> float:
    a, b = map(str, pair)
    return difflib.SequenceMatcher(None, a, b).ratio()
