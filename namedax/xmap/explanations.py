"""Explanations of errors in calls of mapped functions."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import jax
from jax.sharding import AbstractMesh

from namedax.core.names import Mesh
from namedax.core.region import ambient
from namedax.errors import (
    ArgumentError,
    MeshError,
    SerialLoopError,
)
from namedax.messages.jax_errors import ErrorKind
from namedax.messages.tracebacks import shorten_traceback
from namedax.resources.assignment import Assignment
from namedax.resources.mesh import check_device_order, is_tracked_on
from namedax.resources.serial import loops_of, with_loops

__all__ = ["explain_jax_error", "find_invalid_value", "is_invalid_value", "no_devices"]


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
      MeshError: an argument under a JAX transformation is on other devices, or has a sharding that
        JAX cannot express on the function's mesh, or two arguments of a function without a mesh are
        on different devices.
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
        _explain_devices(error, function, mesh, jax.tree.leaves(arguments))
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


def _explain_devices(error: Exception, function: str, mesh: Mesh | None, leaves: list[Any]) -> None:
    """Raise if the devices of arguments differ; else the error may be one of the body."""
    if mesh is None:
        check_device_order(leaves)
    if any(isinstance(leaf, jax.core.Tracer) for leaf in leaves):
        raise MeshError(f"xmap: {_cannot_reshard(function)}") from error
    error.add_note(f"namedax: {_cannot_reshard(function)}")


def _cannot_reshard(function: str) -> str:
    return (
        f"under a JAX transformation, xmap cannot reshard an argument of {function} that is"
        " committed to other devices or to another mesh, such as the same devices in another"
        " order. Reshard it onto the mesh first, with"
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


# --- NaNs and infinities --------------------------------------------------------------------------

# With `jax_debug_nans`, JAX calls a function again without `jax.jit`. A mapped function remains one
# program there, so JAX reports none of its lines. Results do not depend on the layout, so the
# function without one has the same NaN, and runs line by line.


def is_invalid_value(error: Exception) -> bool:
    """Return True if `error` is JAX's error for a NaN or an infinity.

    The error for a compiled program has a class of its own, which JAX does not export.
    """
    checks = jax.config.jax_debug_nans or jax.config.jax_debug_infs  # type: ignore[attr-defined, unused-ignore]
    return bool(checks) and type(error).__name__.endswith("FloatingPointError")


def find_invalid_value(
    function: Callable[..., Any], name: str, error: Exception, args: Any, kwargs: Any
) -> None:
    """Call a mapped function without a layout, to find the line of an invalid value.

    If there is none, add a note to `error`.

    Args:
      function: the mapped function without `axis_resources`.
      name: its name, for the note.
      error: JAX's error for the compiled program.
      args: the arguments of the call.
      kwargs: the keyword arguments of the call.

    Raises:
      FloatingPointError: an operation has an invalid result. The traceback contains its line.
    """
    try:
        function(*args, **kwargs)
    except FloatingPointError as found:
        shorten_traceback(found)
        raise found from None
    except Exception:
        pass  # it needs the mesh, or the arrays of other processes
    error.add_note(
        f"namedax: {name} has a NaN or an infinity, and the line is unknown, because calling it"
        " without axis_resources did not find it. Print values in the function:"
        ' nx.debug.print("{x}", x=x).'
    )
