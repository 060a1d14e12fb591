"""Explanations of errors in mapped functions, and checks of nesting."""

from __future__ import annotations

import sys
from collections.abc import Hashable, Sequence

import jax
from jax.sharding import AbstractMesh

from namedax.core.array import dims_of
from namedax.core.names import Mesh
from namedax.core.region import Region, ambient
from namedax.errors import (
    ArgumentError,
    AxisResourceError,
    MeshError,
    SerialLoopError,
)
from namedax.messages.jax_errors import ErrorKind
from namedax.resources.assignment import Assignment, check_mesh_axes
from namedax.resources.mesh import is_tracked_on
from namedax.resources.serial import loops_of, with_loops
from namedax.xmap.lowering import Argument

__all__ = ["carried_names", "check_nested", "explain_jax_error", "no_devices"]


def explain_jax_error(
    error: Exception, function: str, mesh: Mesh | None, resources: Assignment, arguments: object
) -> None:
    """Add a note to an error from the call of a mapped function, or raise a more specific error.

    Args:
      error: the error.
      function: the mapped function, for messages.
      mesh: the `mesh` argument of the mapped function.
      resources: the parsed `axis_resources` of the mapped function.
      arguments: the arguments of the call.

    Raises:
      SerialLoopError: the function has a loop and is differentiated in forward mode.
      ArgumentError: mapped functions are nested more deeply than Python's recursion limit allows.
      MeshError: an argument under a JAX transformation has a sharding that JAX cannot express on
        the function's mesh.
    """
    if isinstance(error, RecursionError):
        _explain_nesting(error, function)
    if not isinstance(error, (KeyError, TypeError, ValueError, jax.errors.JaxRuntimeError)):
        return  # an error of the user's code
    if isinstance(error, TypeError):
        _explain_forward_mode(error, function, resources)
    elif isinstance(mesh, AbstractMesh) and (
        isinstance(error, jax.errors.JaxRuntimeError) or ErrorKind.ABSTRACT_MESH.matches(error)
    ):
        error.add_note(f"namedax: {no_devices(function, mesh)}")
    elif ErrorKind.INCOMPATIBLE_DEVICES.matches(error):
        error.add_note(f"namedax: {_cannot_reshard(function)}")
    elif ErrorKind.INDIVISIBLE.matches(error) or _is_of_another_mesh(error, arguments):
        raise MeshError(f"xmap: {_cannot_reshard(function)}") from error


# At smaller depths most of the stack belongs to the bodies, so one of them recurses infinitely.
_DEEP_NESTING = 12


def _explain_nesting(error: RecursionError, function: str) -> None:
    outer = ambient()
    depth = 1 if outer is None else outer.depth + 1
    if depth >= _DEEP_NESTING:
        raise ArgumentError(
            f"xmap: {function} is called at depth {depth} of nested mapped functions, which exceeds"
            f" Python's recursion limit of {sys.getrecursionlimit()}. Map the outermost function"
            " only, repeat equal layers with nx.fold or nx.scan, or raise the limit:"
            f" sys.setrecursionlimit({3 * sys.getrecursionlimit()})."
        ) from error


def _is_of_another_mesh(error: Exception, arguments: object) -> bool:
    """Return True if the function's mesh lacks a mesh axis of an argument's type."""
    return isinstance(error, KeyError) and any(
        is_tracked_on(leaf, error.args[0]) for leaf in jax.tree.leaves(arguments)
    )


def _cannot_reshard(function: str) -> str:
    return (
        f"under a JAX transformation, xmap cannot reshard an argument of {function} that is"
        " committed to other devices or to another mesh. Reshard it onto the mesh first, with"
        " jax.device_put or nx.shard."
    )


def _explain_forward_mode(error: TypeError, function: str, resources: Assignment) -> None:
    looped = sorted(
        repr(name) for name, axes in with_loops(resources).items() if loops_of({name: axes})
    )
    if looped and ErrorKind.FORWARD_MODE.matches(error):
        raise SerialLoopError(
            f"xmap: {function} maps {', '.join(looped)} to a SerialLoop, which supports"
            " reverse-mode differentiation only, any number of times: jax.grad, jax.vjp,"
            " jax.jacrev. For jax.jvp, jax.jacfwd, jax.linearize and jax.hessian remove the"
            " SerialLoop from axis_resources; jax.jacrev(jax.jacrev(f)) also computes a Hessian."
        ) from error


def no_devices(function: str, mesh: Mesh) -> str:
    """Return the message for the call of a function on a mesh without devices."""
    return (
        f"the mesh of {function} is an AbstractMesh {dict(mesh.shape)}, which has no devices to"
        f" compute on. Inspect its program with {function}.lower(...), .trace(...) or"
        " .eval_shape(...), or call it with mesh=jax.make_mesh(...) or with arrays on a mesh that"
        " has devices."
    )


# --- nested mapped functions ----------------------------------------------------------------------


def check_nested(
    function: str, mesh: Mesh | None, resources: Assignment, outer: Region
) -> frozenset[str]:
    """Check the options of an inner mapped function, and return the mesh axes that only it uses.

    Args:
      function: the inner function, for messages.
      mesh: the `mesh` argument of the inner function, or `None`.
      resources: the parsed `axis_resources` of the inner function.
      outer: the region of the surrounding mapped function.

    Raises:
      SerialLoopError: the inner function maps an axis to a loop, or to new mesh axes within a loop.
      MeshError: the mesh has other axes than the surrounding mesh, or the surrounding mesh lacks a
        mesh axis.
      AxisResourceError: the surrounding function maps an axis to other mesh axes, or uses some but
        not all mesh axes of an axis.
    """
    if loops_of(resources):
        raise SerialLoopError(
            f"xmap: {function} is called inside another mapped function, and axis_resources maps an"
            " axis to a loop. Put the SerialLoop into the axis_resources of the outermost xmap."
        )
    taken = frozenset(axis for axes in outer.resources.values() for axis in axes)
    new_axes = frozenset(axis for axes in resources.values() for axis in axes) - taken
    if new_axes and loops_of(outer.resources):
        name = next(name for name in resources if not new_axes.isdisjoint(resources[name]))
        raise SerialLoopError(
            f"xmap: {function} is called inside another mapped function, which is executed in steps"
            f" (of a SerialLoop or a pipeline), and maps {name!r} to mesh axes {resources[name]},"
            f" which that function does not use. Put {name!r} into the axis_resources of the"
            " outermost xmap."
        )
    if mesh is not None:
        for axis, size in mesh.shape.items():
            if outer.mesh.shape.get(axis) != size:
                raise MeshError(
                    f"xmap: {function} is called inside another mapped function, and its mesh has"
                    f" the axis {axis!r} of size {size}, which the surrounding mesh"
                    f" {dict(outer.mesh.shape)} does not have. Omit mesh=, or pass the outermost"
                    " xmap a mesh with all axes."
                )
    check_mesh_axes(resources, outer.mesh)
    for name, axes in resources.items():
        if outer.resources.get(name, axes) != axes:
            raise AxisResourceError(
                f"xmap: {function} maps {name!r} to {axes}, but the surrounding mapped function"
                f" maps it to {outer.resources[name]}; an axis name has one sharding. Rename the"
                " axis, or remove it from axis_resources."
            )
    for name, axes in resources.items():
        if not new_axes.isdisjoint(axes) and not taken.isdisjoint(axes):
            raise AxisResourceError(
                f"xmap: {function} maps {name!r} to {axes}, but the surrounding mapped function"
                f" uses only {sorted(taken.intersection(axes))} of them, and not"
                f" {sorted(new_axes.intersection(axes))}. Use mesh axes of one kind, or map the"
                " axis in the outermost xmap."
            )
    return new_axes


def carried_names(outer: Region, arguments: Sequence[Argument]) -> frozenset[Hashable]:
    """Return the outer axis names that are batch axes of an inner mapped function.

    These are all of its axis names except the names that the axis mappings of the inner function
    attach.
    """
    given = {
        dim for argument in arguments for dim in argument.dims if dim not in dims_of(argument.leaf)
    }
    return frozenset(outer.seen | outer.sizes.keys()) - given
