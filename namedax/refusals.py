"""What JAX refuses around the call of a mapped function: its errors get words that say what to write."""

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


def explain_refusal(error: Exception, function: str, mesh: Any, resources: Assignment, arguments: Any) -> None:
    """Adds a note to an error that the call of a mapped function raised, or raises another one for it.

    Raises:
      SerialLoopError: the function is differentiated forwards, and has a loop.
      ArgumentError: more mapped functions are nested than Python's recursion limit allows.
      MeshError: an argument under a JAX transformation lies in blocks that JAX cannot describe on the function's mesh.
    """
    if isinstance(error, RecursionError):
        _explain_nesting(error, function)
    if not isinstance(error, (KeyError, TypeError, ValueError, jax.errors.JaxRuntimeError)):
        return  # of the user's code
    if isinstance(error, TypeError):
        _explain_forward_mode(error, function, resources)
    elif isinstance(mesh, AbstractMesh) and (isinstance(error, jax.errors.JaxRuntimeError) or "AbstractMesh" in str(error)):
        error.add_note(f"namedax: {no_devices(function, mesh)}")
    elif "incompatible devices" in str(error):
        error.add_note(f"namedax: {_must_be_brought(function)}")
    elif "is incompatible with mesh_shape" in str(error) or _is_of_another_mesh(error, arguments):
        raise MeshError(f"xmap: {_must_be_brought(function)}") from error


# Fewer nested functions leave most of the stack to the bodies, so that a recursion without end is one of a body.
_DEEP = 12


def _explain_nesting(error: RecursionError, function: str) -> None:
    outer = ambient()
    depth = 1 if outer is None else outer.depth + 1
    if depth >= _DEEP:
        raise ArgumentError(
            f"xmap: {function} is called at depth {depth} of nested mapped functions, which exceeds Python's recursion limit of "
            f"{sys.getrecursionlimit()}. Map the outermost function only, repeat equal layers with nx.fold or nx.scan, or raise the limit: "
            f"sys.setrecursionlimit({3 * sys.getrecursionlimit()})."
        ) from error


def _is_of_another_mesh(error: Exception, arguments: Any) -> bool:
    """Whether JAX has looked for a mesh axis of an argument's type, which the function's mesh lacks."""
    return isinstance(error, KeyError) and any(is_tracked_on(leaf, error.args[0]) for leaf in jax.tree.leaves(arguments))


def _must_be_brought(function: str) -> str:
    return (
        f"within a JAX transformation xmap cannot move an argument of {function} that is committed to other devices, or lies on another mesh. "
        "Bring it onto the mesh first, with jax.device_put or nx.shard."
    )


def _explain_forward_mode(error: TypeError, function: str, resources: Assignment) -> None:
    looped = sorted(repr(name) for name, axes in with_loops(resources).items() if loops_of({name: axes}))
    if looped and "forward-mode" in str(error):
        raise SerialLoopError(
            f"xmap: {function} has {', '.join(looped)} on a SerialLoop, whose steps can be differentiated in reverse "
            "mode only, any number of times: jax.grad, jax.vjp, jax.jacrev. For jax.jvp, jax.jacfwd, jax.linearize and "
            "jax.hessian remove the SerialLoop from axis_resources; jax.jacrev(jax.jacrev(f)) is a Hessian, too."
        ) from error


def no_devices(function: str, mesh: Any) -> str:
    """What there is to say of a mesh without devices that a function is called on."""
    return (
        f"the mesh of {function} is an AbstractMesh {dict(mesh.shape)}, which has no devices to compute on. Inspect its program with "
        f"{function}.lower(...), .trace(...) or .eval_shape(...), or call it with mesh=jax.make_mesh(...) or with arrays that are "
        "placed on such a mesh."
    )
