"""The rule "may this sum wait": whether an operation may be applied to the summands of a sum over mesh axes, and the sum taken after it.

Sums that wait are what `late_sums` and the steps of a serial loop have in common. An operation that is linear in an operand
which waits may go first, where its other operands do not differ along the axes of the sum. What it adds to the sum (a residual,
the padding) counts once, and not once for each summand; the caller takes care of that.
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
    """Sets of operands: the equation is linear in those of one set together, whatever the others are."""
    entry, count = facts(eqn), len(eqn.invars)
    for group in entry.linear:
        operands = set[int]()
        for position in group:
            operands.update(range(max(operands), count) if isinstance(position, EllipsisType) else (position,))
        if all(entry.when(eqn, i) for i in operands):
            yield frozenset(operands)


def selects(eqn: Any) -> bool:
    """Return True if each element of the result is one of the first operand's, at a place that does not depend on values."""
    known = facts(eqn)
    return known.selects or known.repeats or (known.moves and eqn.invars[0].aval.dtype == eqn.outvars[0].aval.dtype)


class Wait(Record):
    """How an operation is applied before a sum over `axes`.

    Attributes:
      axes: the mesh axes of the sum.
      once: operands that are added to the sum, and do not wait.
    """

    axes: Axes
    once: tuple[int, ...]


def may_wait(
    eqn: Any, waiting: Mapping[int, Axes], is_zero: Callable[[int], bool] = lambda i: False, exactly: bool = False
) -> Wait | None:
    """Whether the result of an equation is a sum that waits if these of its operands are; `None` if the sums must be taken before.

    Args:
      eqn: the equation, with one result.
      waiting: the axes of each operand that is a sum still to be taken.
      is_zero: whether an operand is zero everywhere, so that it may count any number of times.
      exactly: whether the summands must not be rounded otherwise than the sum is.
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
