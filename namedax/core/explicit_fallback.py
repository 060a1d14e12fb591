"""Choose how an operation runs on arrays that are sharded over Explicit mesh axes.

On such a mesh axis the sharding is part of a value's type, and JAX (0.10 to 0.12) lacks a rule for
many operations along a sharded axis. Each operation declares what JAX supports (`Explicit`), and
the types of its operands decide before the call. It runs directly in JAX, or as a mapped function.
`namedax.xmap.explicit_axes` implements the mapping. That module maps functions and is above all
operations, so it is installed here, where operations can reach it.
"""

from __future__ import annotations

import enum
import types
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

import jax
from jax.sharding import AxisType, NamedSharding

from namedax.core.array import NamedArray

__all__ = [
    "VALUE_ERRORS",
    "Explicit",
    "fallbacks",
    "install",
    "may_fall_back",
    "needs_fallback",
    "sharding_by_name",
]

Entries = tuple[tuple[Hashable, tuple[str, ...]], ...]


class Explicit(enum.Enum):
    """Kinds of operations, by JAX's support for axes that are sharded over Explicit mesh axes."""

    #: JAX has a rule for every axis.
    AS_JAX = enum.auto()
    #: JAX has a rule if all operands have the same sharding.
    ALIGNED = enum.auto()
    #: JAX has a rule if every sharded axis is kept: the axes that the operation reduces, reorders
    #: or indexes are not sharded.
    KEPT = enum.auto()
    #: JAX lacks a rule for some kept axes too, so the operation runs as a mapped function.
    MAPPED = enum.auto()


#: Errors of JAX where a traced program would read a value.
VALUE_ERRORS = (
    jax.errors.ConcretizationTypeError,
    jax.errors.NonConcreteBooleanIndexError,
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerIntegerConversionError,
)


#: The functions of `namedax.xmap.explicit_axes`: `run_mapped`, `run_padded` and `run_on_blocks`.
fallbacks: Any = types.SimpleNamespace()


def install(**functions: Callable[..., Any]) -> None:
    """Make these functions the `fallbacks`."""
    vars(fallbacks).update(functions)


def may_fall_back(args: Iterable[Any]) -> bool:
    """Return True if an operand is on a mesh with Explicit axes.

    Lists and tuples of operands are searched too.
    """
    for arg in args:
        kind = type(arg)
        if kind is NamedArray:
            data = arg._data
            sharding = (
                jax.typeof(data).sharding
                if isinstance(data, jax.core.Tracer)
                else getattr(data, "sharding", None)
            )
            if type(sharding) is NamedSharding and AxisType.Explicit in sharding.mesh.axis_types:
                return True
        elif (kind is list or kind is tuple) and may_fall_back(arg):
            return True
    return False


def sharding_by_name(operand: NamedArray) -> Entries:
    """Return the Explicit mesh axes of each sharded axis of an array, by name.

    `None` stands for positional axes.
    """
    sharding: Any = jax.typeof(operand._data).sharding
    if not isinstance(sharding, NamedSharding):
        return ()
    pairs = zip(operand._dims, sharding.spec, strict=False)
    return tuple(
        (dim, entry if isinstance(entry, tuple) else (entry,))
        for dim, entry in pairs
        if entry is not None
    )


def needs_fallback(rule: Explicit, axes: Callable[[], Any], operands: Sequence[Any]) -> bool:
    """Return True if JAX has no rule for these operands.

    Args:
      rule: the declaration of the operation.
      axes: returns the axes that the operation reduces, reorders or indexes.
      operands: the arrays, of which at least one is sharded over an Explicit mesh axis.
    """
    named = [x for x in operands if isinstance(x, NamedArray)]
    meshes = {jax.typeof(x._data).sharding.mesh for x in named}
    if len({mesh for mesh in meshes if not mesh.empty}) > 1:
        return True
    shardings = [entries for x in named if (entries := sharding_by_name(x))]
    if not shardings:
        return False
    if rule is Explicit.MAPPED or _conflict(shardings):
        return True
    if rule is Explicit.AS_JAX:
        return False
    if rule is Explicit.ALIGNED:
        places = dict(entry for entries in shardings for entry in entries)
        return any(
            dict(sharding_by_name(x)) != {dim: places[dim] for dim in x._dims if dim in places}
            for x in named
        )
    sharded = {name for entries in shardings for name, _ in entries}
    touched = axes()
    return None in sharded or touched is None or touched is ... or not sharded.isdisjoint(touched)


def _conflict(shardings: Iterable[Entries]) -> bool:
    """Return True if a name has two shardings, or a mesh axis shards two names."""
    by_name: dict[Hashable, tuple[str, ...]] = {}
    by_mesh_axis: dict[str, Hashable] = {}
    for entries in shardings:
        for name, mesh_axes in entries:
            if name is None:
                continue
            if by_name.setdefault(name, mesh_axes) != mesh_axes:
                return True
            if any(by_mesh_axis.setdefault(axis, name) != name for axis in mesh_axes):
                return True
    return False
