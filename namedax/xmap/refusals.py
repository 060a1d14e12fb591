"""Explanations and remedies for errors that JAX raises around the call of a mapped function."""

from __future__ import annotations

import sys
from typing import Any

import jax
from jax.sharding import AbstractMesh

from namedax.core.region import ambient
from namedax.errors import ArgumentError, MeshError, SerialLoopError
from namedax.resources.assignment import Assignment
from namedax.resources.mesh import is_tracked_on
from namedax.resources.serial import loops_of, with_loops

__all__ = ["explain_refusal", "no_devices"]


def explain_refusal(
    error: Exception, function: str, mesh: Any, resources: Assignment, arguments: Any
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
        isinstance(error, jax.errors.JaxRuntimeError) or "AbstractMesh" in str(error)
    ):
        error.add_note(f"namedax: {no_devices(function, mesh)}")
    elif "incompatible devices" in str(error):
        error.add_note(f"namedax: {_must_be_brought(function)}")
    elif "is incompatible with mesh_shape" in str(error) or _is_of_another_mesh(error, arguments):
        raise MeshError(f"xmap: {_must_be_brought(function)}") from error


# With fewer nested functions the bodies have most of the stack, so an infinite recursion comes from
# a body.
_DEEP = 12


def _explain_nesting(error: RecursionError, function: str) -> None:
    outer = ambient()
    depth = 1 if outer is None else outer.depth + 1
    if depth >= _DEEP:
        raise ArgumentError(
            f"xmap: {function} is called at depth {depth} of nested mapped functions, which exceeds"
            f" Python's recursion limit of {sys.getrecursionlimit()}. Map the outermost function"
            " only, repeat equal layers with nx.fold or nx.scan, or raise the limit:"
            f" sys.setrecursionlimit({3 * sys.getrecursionlimit()})."
        ) from error


def _is_of_another_mesh(error: Exception, arguments: Any) -> bool:
    """Return True if JAX failed to find a mesh axis of an argument's type on the function's mesh."""
    return isinstance(error, KeyError) and any(
        is_tracked_on(leaf, error.args[0]) for leaf in jax.tree.leaves(arguments)
    )


def _must_be_brought(function: str) -> str:
    return (
        f"under a JAX transformation, xmap cannot reshard an argument of {function} that is"
        " committed to other devices or to another mesh. Reshard it onto the mesh first, with"
        " jax.device_put or nx.shard."
    )


def _explain_forward_mode(error: TypeError, function: str, resources: Assignment) -> None:
    looped = sorted(
        repr(name) for name, axes in with_loops(resources).items() if loops_of({name: axes})
    )
    if looped and "forward-mode" in str(error):
        raise SerialLoopError(
            f"xmap: {function} maps {', '.join(looped)} to a SerialLoop, which supports"
            " reverse-mode differentiation only, any number of times: jax.grad, jax.vjp,"
            " jax.jacrev. For jax.jvp, jax.jacfwd, jax.linearize and jax.hessian remove the"
            " SerialLoop from axis_resources; jax.jacrev(jax.jacrev(f)) also computes a Hessian."
        ) from error


def no_devices(function: str, mesh: Any) -> str:
    """Return the message for the call of a function on a mesh without devices."""
    return (
        f"the mesh of {function} is an AbstractMesh {dict(mesh.shape)}, which has no devices to"
        f" compute on. Inspect its program with {function}.lower(...), .trace(...) or"
        " .eval_shape(...), or call it with mesh=jax.make_mesh(...) or with arrays on a mesh that"
        " has devices."
    )
