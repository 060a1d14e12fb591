"""Run an eager loop or branch on Explicit mesh axes as one program, whose operands have devices.

JAX cannot reshard an array that is on no mesh to the mesh in the type of another value, because an
abstract mesh has no devices. In one program it takes the devices from the operands. Closed-over
arrays are operands too.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

import jax
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun

from namedax.core.names import PyTree
from namedax.core.region import ambient
from namedax.operands.pytree import data_of, flatten
from namedax.programs.evaluator import consts_to_inputs
from namedax.resources.mesh import current_mesh, is_eager, is_tracked

__all__ = ["NeedsProgramError", "in_program", "needs_program"]

F = TypeVar("F", bound=Callable[..., Any])


class NeedsProgramError(Exception):
    """Raised in an eager call that would reshard an array without devices."""


def needs_program() -> bool:
    """Return True if JAX cannot reshard a concrete array to the mesh in the type of a value."""
    return current_mesh() is None and ambient() is None and is_eager()


def in_program(function: F) -> F:
    """Let `function` run as one program, if it is called eagerly on Explicit mesh axes."""

    @functools.wraps(function)
    def run(*args: PyTree, **kwargs: PyTree) -> PyTree:
        call = functools.partial(function, *args, **kwargs)
        if not needs_program():
            return call()
        if not any(is_tracked(data_of(leaf)) for leaf in flatten((args, kwargs))[0]):
            try:
                return call()
            except NeedsProgramError:  # a closed-over array is on Explicit mesh axes
                pass
        return _compiled(call)

    return cast(F, run)


def _compiled(call: Callable[[], PyTree]) -> PyTree:
    """Compile a call, with all arrays that it uses as operands, and run it."""
    tree: Any = None

    def flat() -> list[jax.Array]:
        nonlocal tree
        leaves, tree = jax.tree.flatten(call())
        return leaves

    closed = jax.make_jaxpr(flat)()
    program = jax.jit(jaxpr_as_fun(ClosedJaxpr(consts_to_inputs(closed.jaxpr), ())))
    return jax.tree.unflatten(tree, program(*closed.consts))
