"""Choose how an operation runs on arrays that are sharded over Explicit mesh axes.

On such a mesh axis the sharding is part of a value's type, and JAX (0.10 to 0.12) lacks a rule for
many operations along a sharded axis. Each operation declares what JAX supports (`Explicit`), and
the types of its operands decide before the call. It runs directly in JAX, or as a mapped function.
`namedax.xmap.explicit_axes` implements the mapping. That module maps functions and is above all
operations, so it is installed here, where operations can reach it.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any

import jax
from jax.sharding import AxisType, NamedSharding

from namedax.core.array import NamedArray
from namedax.core.region import ambient
from namedax.errors import StoredPaddingError

__all__ = [
    "VALUE_ERRORS",
    "Explicit",
    "install",
    "may_fall_back",
    "needs_fallback",
    "run_fallback",
    "run_on_blocks",
    "run_stored_padded",
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


_runs: list[Callable[..., Any]] = []


def install(
    run: Callable[..., Any], run_padded: Callable[..., Any], on_blocks: Callable[..., Any]
) -> None:
    """Make these the functions that the functions below call.

    These are `run_fallback`, `run_stored_padded` and `run_on_blocks`.
    """
    _runs[:] = [run, run_padded, on_blocks]


def run_stored_padded(
    op: str,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    error: StoredPaddingError,
) -> Any:
    """Return the result of an operation on arrays that are stored padded.

    Args:
      op: the operation, for messages.
      function: the operation without its checks. It has no side effects, so it can be called again.
      args: its positional arguments.
      kwargs: its keyword arguments.
      error: the error that it raised where it would have read the padding.

    Raises:
      StoredPaddingError: the operation cannot run as a mapped function.
    """
    return _runs[1](op, function, args, kwargs, error)


def run_on_blocks(
    op: str,
    axes: Callable[[], Any],
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
) -> tuple[Any] | None:
    """Return the result of an operation on blocks, in a body that is traced on global shapes.

    Return `None` in other bodies, and if none of its axes is sharded.

    Args:
      op: the operation, for messages.
      axes: returns the axes along which it exchanges elements.
      function: the operation without this check. It has no side effects, so it can be called again.
      args: its positional arguments.
      kwargs: its keyword arguments.
    """
    region = ambient()
    if region is None or region.mode != "global":
        return None
    touched = axes()
    if touched is None or region.resources.keys().isdisjoint(touched):
        return None
    result: tuple[Any] | None = _runs[2](region, op, touched, function, args, kwargs)
    return result


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


def run_fallback(
    rule: Explicit,
    op: str,
    axes: Callable[[], Any],
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
) -> tuple[Any] | None:
    """Return the result of `function(*args, **kwargs)`, mapped; `None` if JAX can run it.

    Eager operations that may create constants run in the context of the mesh, which JAX requires.

    Args:
      rule: the declaration of the operation.
      op: the operation, for messages.
      axes: returns the axes that the operation reduces, reorders or indexes.
      function: the operation without this check. It has no side effects, so it can be called again.
      args: its positional arguments.
      kwargs: its keyword arguments.

    Raises:
      PlacementConflictError: the shardings of the operands contradict one another.
      MeshError: the operands are on two meshes.
    """
    result: tuple[Any] | None = _runs[0](rule, op, axes, function, args, kwargs)
    return result
