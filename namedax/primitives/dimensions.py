"""Rules for the dimensions of results, by those of operands, which several records share."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from jax.extend.core import JaxprEqn

from namedax.primitives.record import Aligned, Forward, Mixed, Roles, Sharding, Shardings, shape_of

__all__ = [
    "NONE",
    "across",
    "axes_of_dimensions",
    "by_alignment",
    "independent",
    "last",
    "listed",
    "reshaped",
    "roles_by_marks",
    "same_sizes",
    "trimmed",
    "twice",
    "united",
    "without_roles",
]

NONE: Mixed = frozenset()


def trimmed(sharding: Sequence[frozenset[str]]) -> Sharding | None:
    """Return a sharding, or `None` if no dimension is sharded."""
    return tuple(sharding) if any(sharding) else None


def twice(sharding: Sequence[frozenset[str]]) -> Mixed:
    """Return the mesh axes that shard two dimensions."""
    seen, again = NONE, NONE
    for axes in sharding:
        again |= seen & axes
        seen |= axes
    return again


def axes_of_dimensions(sharding: Sharding, dimensions: Sequence[int]) -> Mixed:
    """Return the mesh axes that shard these dimensions."""
    return NONE.union(*(sharding[i] for i in dimensions))


def united(known: Shardings, ndim: int) -> tuple[Sharding | None, Mixed]:
    """Unify the shardings of the operands of an elementwise operation.

    Return the sharding, and the mesh axes that would shard two dimensions.
    """
    found: Sharding | None = None
    for sharding in known:
        if sharding is None or len(sharding) != ndim or sharding == found:
            continue
        found = (
            sharding
            if found is None
            else tuple(a | b for a, b in zip(found, sharding, strict=True))
        )
    return found, NONE if found is None else twice(found)


def by_alignment(
    aligned: Sequence[Aligned], eqn: JaxprEqn, known: Shardings
) -> tuple[Shardings, Mixed]:
    """Return the shardings of results whose dimensions are aligned with those of the operands.

    Args:
      aligned: for each operand, its dimensions by those of the result.
      eqn: the equation.
      known: the shardings of its operands.
    """
    found = [NONE] * len(aligned[0])
    mixed = NONE
    for sharding, dims in zip(known, aligned, strict=False):
        if sharding is None:
            continue
        for place, dim in enumerate(dims):
            if type(dim) is int:
                found[place] |= sharding[dim]
        mixed |= axes_of_dimensions(sharding, [i for i in range(len(sharding)) if i not in dims])
    return [trimmed(found)] * len(eqn.outvars), mixed | twice(found)


# --- alignments -----------------------------------------------------------------------------------


def independent(eqn: JaxprEqn) -> list[Aligned]:
    """Return the alignment of results that depend on no element of an operand."""
    return [(None,) * len(shape_of(eqn.outvars[0]))] * len(eqn.invars)


def listed(parameter: str) -> Callable[[JaxprEqn], Sequence[int]]:
    """Make a function that returns the dimensions in a parameter: one, or several."""

    def dimensions(eqn: JaxprEqn) -> Sequence[int]:
        value = eqn.params[parameter]
        return value if isinstance(value, (tuple, list)) else (value,)

    return dimensions


def across(
    dimensions: Callable[[JaxprEqn], Sequence[int]], keeps: bool = True
) -> Callable[[JaxprEqn], list[Aligned]]:
    """Make the alignment of an equation that mixes along some dimensions.

    Args:
      dimensions: returns these dimensions.
      keeps: False if the result lacks them; default: True.
    """

    def aligned(eqn: JaxprEqn) -> list[Aligned]:
        ndim = len(shape_of(eqn.invars[0]))
        mixed = {int(i) for i in dimensions(eqn)}
        if keeps:
            dims: Aligned = [... if i in mixed else i for i in range(ndim)]
        else:
            dims = [i for i in range(ndim) if i not in mixed]
        none = (None,) * len(dims)
        return [dims if len(shape_of(var)) == ndim else none for var in eqn.invars]

    return aligned


def same_sizes(count: int) -> Callable[[JaxprEqn], list[Aligned]]:
    """Make the alignment of an equation that mixes along dimensions in which sizes differ.

    The first `count` operands and the result have the same number of dimensions; further operands
    are scalars.
    """

    def aligned(eqn: JaxprEqn) -> list[Aligned]:
        shapes = [shape_of(var) for var in (*eqn.invars[:count], eqn.outvars[0])]
        dims = [i if len(set(n)) == 1 else ... for i, n in enumerate(zip(*shapes, strict=True))]
        return [dims] * count + [(None,) * len(dims)] * (len(eqn.invars) - count)

    return aligned


def last(count: Callable[[JaxprEqn], int]) -> Forward:
    """Make the rule of an equation that mixes elements along the last dimensions only."""

    def rule(eqn: JaxprEqn, known: Shardings) -> tuple[Shardings, Mixed]:
        front: list[frozenset[str]] = []
        mixed, number = NONE, count(eqn)
        for var, sharding in zip(eqn.invars, known, strict=True):
            if sharding is not None:
                before = len(shape_of(var)) - number
                mixed |= axes_of_dimensions(sharding, range(max(before, 0), len(sharding)))
                front += [NONE] * (before - len(front))
                front[:before] = [a | b for a, b in zip(front, sharding[:before], strict=False)]
        outs = [
            [*front[: len(shape_of(out))], *[NONE] * (len(shape_of(out)) - len(front))]
            for out in eqn.outvars
        ]
        return [trimmed(out) for out in outs], mixed

    return rule


def reshaped(
    sharding: Sharding, before: Sequence[int], after: Sequence[int]
) -> tuple[Sharding | None, Mixed]:
    """Return the sharding after a reshape, and the mesh axes of merged or split dimensions.

    A sharded dimension must stay intact: merging or splitting it would mix the elements of one
    block.

    >>> from namedax.primitives.dimensions import NONE, reshaped
    >>> x = frozenset({"x"})
    >>> reshaped((x, NONE), (2, 6), (2, 3, 2))[0] == (x, NONE, NONE)
    True
    >>> reshaped((x, NONE), (2, 6), (12,)) == (None, x)
    True
    """
    found, mixed = [NONE] * len(after), NONE
    if 0 in before:
        return None, NONE
    old = [i for i, n in enumerate(before) if n != 1]
    new = [i for i, n in enumerate(after) if n != 1]
    i = j = 0
    while i < len(old) and j < len(new):
        first, second = i + 1, j + 1
        m, n = before[old[i]], after[new[j]]
        while m != n:
            if m < n:
                m, first = m * before[old[first]], first + 1
            else:
                n, second = n * after[new[second]], second + 1
        if first == i + 1 and second == j + 1:
            found[new[j]] = sharding[old[i]]
        else:
            mixed |= axes_of_dimensions(sharding, old[i:first])
        i, j = first, second
    for place in {math.prod(before[:i]) for i, n in enumerate(before) if n == 1 and sharding[i]}:
        ones = [i for i, n in enumerate(before) if n == 1 and math.prod(before[:i]) == place]
        others = [i for i, n in enumerate(after) if n == 1 and math.prod(after[:i]) == place]
        if not others:
            mixed |= axes_of_dimensions(sharding, ones)
        elif len(ones) == len(others):
            for one, other in zip(ones, others, strict=True):
                found[other] = sharding[one]
    return trimmed(found), mixed


# --- roles ----------------------------------------------------------------------------------------

_MARK = frozenset({""})


def without_roles(eqn: JaxprEqn, layouts: object) -> Roles:
    """Return the roles of an equation that takes whole operands."""
    own: list[list[int | None]] = [[None] * len(shape_of(var)) for var in eqn.invars]
    results: list[list[int | None]] = [[None] * len(shape_of(var)) for var in eqn.outvars]
    return own, results


def roles_by_marks(forward: Forward, eqn: JaxprEqn) -> Roles:
    """Return the roles that the rule for shardings implies, by marking one dimension at a time."""
    shapes = [shape_of(var) for var in eqn.invars]
    own: list[list[int | None]] = [[None] * len(shape) for shape in shapes]
    found: list[list[int | None]] = [[None] * len(shape_of(var)) for var in eqn.outvars]
    count = 0
    for operand, shape in enumerate(shapes):
        for dim in range(len(shape)):
            known: list[Sharding | None] = [None] * len(shapes)
            known[operand] = tuple(_MARK if i == dim else NONE for i in range(len(shape)))
            results, mixed = forward(eqn, known)
            places = [
                None if result is None else [i for i, axes in enumerate(result) if axes]
                for result in results
            ]
            if mixed or any(place is None or len(place) != 1 for place in places):
                continue
            at = [place[0] for place in places if place is not None]
            roles = {row[i] for row, i in zip(found, at, strict=True)}
            if len(roles) != 1:
                continue
            (role,) = roles
            if role is None:
                role, count = count, count + 1
            for row, i in zip(found, at, strict=True):
                row[i] = role
            own[operand][dim] = role
    return own, found
