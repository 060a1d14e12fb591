"""Integers of a traced jaxpr that are computed from device indices: the start of a device's block.

Passes use them to decide whether each device slices its own block of a value, or writes it into
zeros.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax.numpy as jnp
from jax import lax
from jax.extend.core import Literal

from namedax.core.types import MeshAxes
from namedax.programs.evaluator import number_of
from namedax.programs.primitives import Algebra, Kind, Known, axes_of, facts

__all__ = ["Index", "Indices"]

# A sum of multiples of device indices along mesh axes, with the constant under `None`.
Index = dict[str | None, int]


class Indices:
    """Integers of a jaxpr that are sums of multiples of device indices, and arrays of zeros, which count as the integer 0.

    Args:
      known: returns the indices of the inputs.
      jaxpr: the jaxpr, which is inspected when the first index is looked up.
      facts: the facts about its equations.
    """

    def __init__(
        self, known: Callable[[], Mapping[Any, Index]], jaxpr: Any, facts: Sequence[Known]
    ):
        self._given, self._pairs = known, zip(jaxpr.eqns, facts, strict=True)
        self._known: dict[Any, Index] | None = None

    def of(self, var: Any) -> Index | None:
        """Return a sum `{axis: factor}`, with the constant under `None`; or `None` if it is not known."""
        if not isinstance(var, Literal):
            if self._known is None:
                self._known = dict(self._given())
                for eqn, known in self._pairs:
                    if known.algebra is not None or known.repeats or known.kind is Kind.PLACE:
                        self._visit(eqn, known, self._known)
            return self._known.get(var)
        value = number_of(var)
        if value is not None and _is_index(var.aval):
            return {None: int(value)}
        return {None: 0} if value is not None and value == 0 else None

    def is_zero(self, var: Any) -> bool:
        """Return True if a value is zero everywhere."""
        return self.of(var) == {None: 0}

    def _visit(self, eqn: Any, known: Known, indices: dict[Any, Index]) -> None:
        """Record the index that an equation computes."""
        found = None
        if known.kind is Kind.PLACE:
            axes = axes_of(eqn)
            found = {axes[0]: 1, None: 0} if len(axes) == 1 else None
        elif known.repeats or known.kind is Kind.CAST:
            found = self.of(eqn.invars[0])
        elif (
            len(eqn.outvars) == 1
            and eqn.invars
            and all(_is_index(v.aval) for v in (*eqn.outvars, *eqn.invars))
        ):
            terms = [self.of(var) for var in eqn.invars]
            if all(term is not None for term in terms):
                found = self._combine(eqn, [term for term in terms if term is not None])
        if found is not None:
            indices[eqn.outvars[0]] = found

    @staticmethod
    def _combine(eqn: Any, terms: list[Index]) -> Index | None:
        algebra, (first, *rest) = facts(eqn).algebra, terms
        if algebra == Algebra.SAME:
            return first
        if algebra == Algebra.SUM:
            return {axis: first.get(axis, 0) + rest[0].get(axis, 0) for axis in {*first, *rest[0]}}
        if algebra == Algebra.PRODUCT:
            scalar, other = (first, rest[0]) if set(first) == {None} else (rest[0], first)
            return (
                {axis: n * scalar[None] for axis, n in other.items()}
                if set(scalar) == {None}
                else None
            )
        # Wrap-around of a negative index, which a device index never is.
        if algebra == Algebra.LESS and rest[0] == {None: 0} and all(n >= 0 for n in first.values()):
            return {None: 0}
        if algebra == Algebra.CHOICE and first == {None: 0}:
            return rest[0]
        return None

    def block(
        self, shape: Sequence[int], part: Sequence[int], starts: Sequence[Any]
    ) -> tuple[int, MeshAxes] | None:
        """Return the dimension and the mesh axes, major first, along which each device has the block of this size at these starts."""
        cut = [dim for dim, (n, size) in enumerate(zip(shape, part, strict=True)) if n != size]
        if len(cut) != 1 or any(
            not self.is_zero(start) for dim, start in enumerate(starts) if dim not in cut
        ):
            return None
        (dim,) = cut
        found = self.of(starts[dim])
        if found is None or found.get(None, 0) != 0:
            return None
        axes = sorted(
            (axis for axis, n in found.items() if axis is not None and n),
            key=lambda axis: -found[axis],
        )
        stride = part[dim]
        for axis in reversed(axes):
            if found[axis] != stride:
                return None
            stride *= lax.axis_size(axis)
        return (dim, tuple(axes)) if stride == shape[dim] else None


def _is_index(aval: Any) -> bool:
    return getattr(aval, "shape", None) == () and (
        aval.dtype == jnp.bool_ or jnp.issubdtype(aval.dtype, jnp.integer)
    )
