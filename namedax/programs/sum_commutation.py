"""The rule for postponing psums: may an operation be applied to the summands, with the psum taken after it?

Both `postpone_psum` and the steps of a serial loop use pending psums. An operation that is linear in a pending operand may run
first, if its other operands do not vary along the axes of the psum. A value that it adds to the psum (a residual, the padding)
counts once, and not once for each summand; the caller handles that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import EllipsisType
from typing import Any

from namedax.core.records import Record
from namedax.core.variance import varying_of
from namedax.programs.primitives import axes_of, facts, has_side_effects

__all__ = ["Wait", "linear_groups", "may_wait", "selects"]

Axes = tuple[str, ...]


def linear_groups(eqn: Any) -> Iterator[frozenset[int]]:
    """Yield sets of operands: the equation is linear in the operands of one set together, for any values of the others."""
    entry, count = facts(eqn), len(eqn.invars)
    for group in entry.linear:
        operands = set[int]()
        for position in group:
            operands.update(range(max(operands), count) if isinstance(position, EllipsisType) else (position,))
        if all(entry.when(eqn, i) for i in operands):
            yield frozenset(operands)


def selects(eqn: Any) -> bool:
    """Return True if each element of the result is an element of the first operand, at an index that does not depend on values."""
    known = facts(eqn)
    return known.selects or known.repeats or (known.moves and eqn.invars[0].aval.dtype == eqn.outvars[0].aval.dtype)


class Wait(Record):
    """The application of an operation before a psum over `axes`.

    Attributes:
      axes: the mesh axes of the psum.
      once: operands that are added to the psum and are not pending.
    """

    axes: Axes
    once: tuple[int, ...]


def may_wait(
    eqn: Any, waiting: Mapping[int, Axes], is_zero: Callable[[int], bool] = lambda i: False, exactly: bool = False
) -> Wait | None:
    """Return a `Wait` if the result of an equation with these pending operands is a pending psum; else `None`.

    With `None`, the psums must be taken before the equation.

    Args:
      eqn: the equation, with one result.
      waiting: the axes of each operand that is a pending psum.
      is_zero: returns True if an operand is zero everywhere, so that it may count any number of times. Default: always False.
      exactly: whether to require that summands are rounded in the same way as the psum; default: False.
    """
    (axes, *others) = waiting.values()
    if any(set(other) != set(axes) for other in others) or not set(axes_of(eqn)).isdisjoint(axes):
        return None
    if len(eqn.outvars) != 1 or has_side_effects(eqn) or (exactly and not facts(eqn).is_exact):
        return None
    for group in linear_groups(eqn):
        differing = (i for i, var in enumerate(eqn.invars) if i not in group and not varying_of(var.aval).isdisjoint(axes))
        if group.issuperset(waiting) and not any(True for _ in differing):
            return Wait(axes, tuple(i for i in sorted(group) if i not in waiting and not is_zero(i)))
    return None
