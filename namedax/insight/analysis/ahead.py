"""Collectives of a loop that run at the same time as the computation of its body.

Such a collective depends on slices and on the carry alone, and no computation of its step depends
on it: a gather of the next step, or the reduction of a gradient of the step before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from namedax.insight.analysis.graph import Body, Node, Value
from namedax.primitives import costs
from namedax.primitives.equations import is_whole_exchange
from namedax.primitives.record import Kind

__all__ = ["ahead_of"]

_KINDS = (Kind.SUM, Kind.MAXIMUM, Kind.MINIMUM, Kind.GATHER, Kind.SCATTER)
_MOVING = (Kind.CAST, Kind.SLICE, Kind.UPDATE, Kind.BARRIER, Kind.DEVICE_INDEX, Kind.OWN_BLOCK)


def ahead_of(body: Body) -> frozenset[int]:
    """Return the ids of the collectives in a loop's body that no computation waits for."""
    makers = {id(value): node for node in body.nodes for value in node.results}
    users: dict[int, list[Node]] = {}
    for node in body.nodes:
        for value in node.reads:
            users.setdefault(id(value), []).append(node)
    results = {id(value) for value in body.outputs if value is not None}

    def before(node: Node) -> Iterable[Node]:
        return [makers[id(value)] for value in node.reads if id(value) in makers]

    def after(node: Node) -> Iterable[Node]:
        return [user for value in node.results for user in users.get(id(value), ())]

    def is_free(node: Node, beyond: Callable[[Node], Iterable[Node]]) -> bool:
        seen: set[int] = set()
        waiting = list(beyond(node))
        while waiting:
            here = waiting.pop()
            if id(here) in seen:
                continue
            seen.add(id(here))
            if not (_is_sent(here) or _moves(here)):
                return False
            waiting += beyond(here)
        return True

    def leaves(node: Node) -> bool:
        """Return True if a result of a collective reaches the next step or the results."""
        return any(id(value) in results for value in node.results) or any(
            leaves(user) for user in after(node)
        )

    return frozenset(
        id(node)
        for node in body.nodes
        if _is_sent(node) and is_free(node, before) and is_free(node, after) and leaves(node)
    )


def _is_sent(node: Node) -> bool:
    """Return True for a collective other than a permutation, which belongs to a ring."""
    return node.kind in _KINDS or (node.kind == Kind.EXCHANGE and is_whole_exchange(node.eqn))


def _moves(node: Node) -> bool:
    """Return True if an operation moves elements, or computes an index."""
    if node.eqn is None or node.bodies:
        return node.eqn is None
    if node.kind in _MOVING or costs.moves_elements(node.eqn):
        return True
    return all(_is_number(value) for value in (*node.reads, *node.results))


def _is_number(value: Value) -> bool:
    return getattr(value.aval, "shape", None) == ()
