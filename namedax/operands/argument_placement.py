"""Whether the arguments of a call are where its program runs, at the price of a look at each array's sharding.

A sharding that has come once is known: arrays of a training loop come with the same few objects in every step. Only what is not
known is compared, and what may have to be moved is left to `xmap`.
"""

from __future__ import annotations

from typing import Any

import jax
from jax.sharding import Mesh, NamedSharding, SingleDeviceSharding, get_abstract_mesh

from namedax.core.array import NamedArray
from namedax.core.element_types import NUMPY, check_numbers
from namedax.core.foreign_arrays import refuse_foreign
from namedax.operands.kernels import whole_types
from namedax.resources.mesh import auto_mesh, concrete_mesh, has_explicit_axes

__all__ = ["Arrivals", "check_values"]

_MAX_KNOWN = 8192


def check_values(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Raises where an argument holds numbers of NumPy's that would be others in the program, which gets arrays of JAX's types.

    `Arrivals.are_in_place` does so too, in the look that it takes anyway.
    """
    waiting: list[Any] = [*args, *kwargs.values()]
    for value in waiting:  # to which what containers hold is added as they come
        kind = type(value)
        if kind is NamedArray or kind in whole_types:
            continue
        if kind is list or kind is tuple:
            waiting += value
        elif kind is dict:
            waiting += value.values()
        elif isinstance(value, NUMPY):
            check_numbers("xmap", value)
        elif not isinstance(value, (jax.Array, int, float, complex)):
            waiting += _inside(value)


def _inside(value: Any) -> list[Any]:
    """The leaves of a node of somebody's own; none of a number or a static argument."""
    refuse_foreign("xmap", value)  # not a static argument: it cannot be hashed
    leaves = jax.tree.leaves(value)
    return [] if len(leaves) == 1 and leaves[0] is value else leaves


class _Known:
    """The shardings of one mesh that have come, by id; they are kept, so that no other object gets the id."""

    __slots__ = ("mesh", "shardings")

    def __init__(self, mesh: Mesh) -> None:
        self.mesh = mesh
        self.shardings: dict[int, Any] = {}

    def learns(self, array: Any) -> bool:
        """Whether the array is there; remembers its sharding if all arrays are that have it."""
        sharding = array.sharding
        if isinstance(sharding, SingleDeviceSharding):  # that of arrays on no device in particular, too
            return not array.committed
        if not isinstance(sharding, NamedSharding) or sharding.mesh != self.mesh:
            return False
        if len(self.shardings) >= _MAX_KNOWN:
            self.shardings.clear()
        self.shardings[id(sharding)] = sharding
        return True


class Arrivals:
    """What a mapped function knows of the shardings that its arguments came with.

    Args:
      mesh: the mesh that it was given, or `None`.
    """

    __slots__ = ("_given", "_now")

    def __init__(self, mesh: Any) -> None:
        self._given = mesh
        # The context, the mesh of the context if there is one, and what is known of where the program runs: one entry, replaced as a
        # whole, since other threads read it.
        self._now: tuple[Any, Any, tuple[_Known, ...]] = (None, None, ())

    def are_in_place(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Whether no argument has to be moved, and their values have been checked (`check_values`).

        `False` means that this is not known: under a trace, for one.
        """
        context = get_abstract_mesh()
        known_context, mesh, kinds = self._now
        if context is not known_context or (mesh is not None and concrete_mesh(self._given) is not mesh):
            kinds = self._begin(context)
        for known in kinds:
            shardings = known.shardings
            waiting: list[Any] = [*args, *kwargs.values()]
            for value in waiting:  # to which what containers hold is added as they come
                kind = type(value)
                if kind is NamedArray:
                    value = value._data
                    kind = type(value)
                if kind in whole_types:
                    if id(value.sharding) not in shardings and not known.learns(value):
                        break
                elif kind is list or kind is tuple:
                    waiting += value
                elif kind is dict:
                    waiting += value.values()
                elif isinstance(value, jax.Array):
                    if isinstance(value, jax.core.Tracer) or not known.learns(value):
                        break
                    whole_types.add(kind)
                elif isinstance(value, NUMPY):
                    check_numbers("xmap", value)
                else:
                    waiting += _inside(value)
            else:
                return True
        return False

    def _begin(self, context: Any) -> tuple[_Known, ...]:
        mesh = self._given if context.empty else concrete_mesh(self._given)
        kinds: tuple[_Known, ...] = ()
        if mesh is None and not context.empty:
            return kinds  # under a trace, where JAX does not tell
        if isinstance(mesh, Mesh):
            kinds = (_Known(mesh),)
            if context.empty and has_explicit_axes(mesh):
                # JAX tracks how such axes shard all of the arguments, or it does that of none.
                kinds = (*kinds, _Known(auto_mesh(mesh)))
        self._now = (context, None if context.empty else mesh, kinds)
        return kinds
