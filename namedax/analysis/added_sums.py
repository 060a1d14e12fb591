"""Pairs of psums whose total alone is used: one collective would be enough.

The rule is about real numbers: `nx.sum(h, "a") / t + nx.sum(m, "a") / t` equals `nx.sum(h + m, "a") / t` there. In IEEE
arithmetic the two may differ, so the program keeps both psums, and only the user can decide to add first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from namedax.analysis.graph import Body, Node
from namedax.core.variance import varying_of
from namedax.programs import costs
from namedax.programs.evaluator import is_inexact
from namedax.programs.primitives import LOCAL_KINDS, Algebra, Kind, axes_of, facts, is_whole_sum

__all__ = ["added_sums"]

# All-reduces that reach a value through operations that are linear in each of them.
_Sums = tuple[Node, ...]


def added_sums(body: Body, smallest: int) -> Iterator[tuple[Node, Node]]:
    """Find pairs of all-reduces over the same mesh axes whose results are used only in one sum or difference.

    Args:
      body: the program.
      smallest: the size in bytes up to which a payload is ignored.
    """
    uses = Counter(id(value) for node in body.nodes for value in node.reads)
    uses.update(id(value) for value in body.outputs if value is not None)
    found: dict[int, _Sums] = {}  # by the `id` of a value
    for node in body.nodes:
        for inner in node.bodies:
            yield from added_sums(inner, smallest)
        if node.eqn is None or node.bodies or len(node.results) != 1:
            continue
        sums = [() if value is None or uses[id(value)] > 1 else found.get(id(value), ()) for value in node.operands]
        if any(sums):
            pair, passed = _passed(node, sums)
            if pair is not None:
                yield pair
        else:
            passed = (node,) if is_whole_sum(node.eqn) and costs.size_in_bytes(node.eqn.invars[0].aval) > smallest else ()
        if passed:
            found[id(node.results[0])] = passed


def _passed(node: Node, sums: list[_Sums]) -> tuple[tuple[Node, Node] | None, _Sums]:
    """Return two psums that an operation adds, if any, and the psums in which its result is linear."""
    known, given = facts(node.eqn), [i for i, some in enumerate(sums) if some]
    if known.algebra in (Algebra.SUM, Algebra.DIFFERENCE):
        first, second = sums
        pairs = ((one, other) for one in first for other in second if _are_alike(one, other))
        return next(pairs, None), first + second
    if len(given) > 1:
        return None, ()
    (i,) = given
    axes = frozenset(axis for sum_ in sums[i] for axis in axes_of(sum_.eqn))
    is_linear = i in known.scales or (i == 0 and known.linear == ((0,),) and known.kind in (*LOCAL_KINDS, Kind.CAST))
    others = (var for k, var in enumerate(node.eqn.invars) if k != i)
    if not is_linear or not is_inexact(node.eqn.outvars[0].aval) or any(varying_of(var.aval) & axes for var in others):
        return None, ()
    return None, sums[i]


def _are_alike(one: Node, other: Node) -> bool:
    ours, theirs = one.eqn.invars[0].aval, other.eqn.invars[0].aval
    same_axes = set(axes_of(one.eqn)) == set(axes_of(other.eqn))
    return same_axes and ours.dtype == theirs.dtype and one.origin.phase == other.origin.phase
