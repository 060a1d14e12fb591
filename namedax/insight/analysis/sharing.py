"""Work that XLA does not repeat.

XLA merges equal operations, and runs a gather that is the same in every step of a loop once. It
does not gather a number that all devices have. Other invariant operations of a loop stay in it
here, because their place does not affect communication.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator

import numpy as np
from jax.extend.core import Literal

from namedax.insight.analysis.graph import Body, Node, Value
from namedax.primitives import costs
from namedax.primitives.equations import Scan, While, facts
from namedax.primitives.record import Algebra, Kind

__all__ = ["mark_uniform", "share"]

# XLA does not move reductions.
_SENDS = (Kind.GATHER,)


def share(body: Body) -> None:
    """Merge equal operations of a program, and hoist loop-invariant gathers out of its loops."""
    _merge(body, {})
    if _hoist(body):
        _merge(body, {})  # a hoisted value may already exist there


def mark_uniform(body: Body, known: set[int] | None = None) -> None:
    """Remove gathers of uniform arrays, such as the gradient of a sum.

    `known` has the ids of uniform values.
    """
    known = set() if known is None else known
    for node in body.nodes:
        if _is_nothing(node):
            node.operands = [None, None]
        if node.eqn is not None and all(id(value) in known for value in node.reads):
            if node.kind == Kind.GATHER and node.reads:
                node.eqn, node.kind = None, Kind.BARRIER
            if node.eqn is None or node.kind == Kind.CAST or costs.keeps_uniform(node.eqn):
                known.update(map(id, node.results))
        elif (
            node.eqn is None
            and node.moved is None
            and not node.is_apart
            and all(id(value) in known for value in node.reads)
        ):
            known.update(map(id, node.results))
        for inner in node.bodies:
            mark_uniform(inner, known)


def _is_nothing(node: Node) -> bool:
    """Return True if an integer is subtracted from itself."""
    return (
        node.eqn is not None
        and facts(node.eqn).algebra is Algebra.DIFFERENCE
        and _is_of_itself(node)
        and node.results[0].aval.dtype.kind in "iu"
    )


def _is_its_operand(node: Node) -> bool:
    """Return True if an operation returns its first operand, which others then read instead."""
    if node.eqn is None or not node.reads:
        return False
    known = facts(node.eqn)
    is_same = (
        known.algebra is Algebra.SAME and node.results[0].aval.dtype == node.reads[0].aval.dtype
    )
    return is_same or (known.is_idempotent and _is_of_itself(node))


def _is_of_itself(node: Node) -> bool:
    return len(node.reads) == 2 and node.reads[0] is node.reads[1]


def _merge(body: Body, same: dict[int, Value], cast: dict[int, int] | None = None) -> None:
    """Keep the first of equal operations.

    `same` maps the id of a removed value to its replacement, `cast` to its operand.
    """
    first: dict[Hashable, Node] = {}
    cast = {} if cast is None else cast
    kept = []
    body.inputs = _replaced(body.inputs, same)
    for node in body.nodes:
        node.operands = _replaced(node.operands, same)
        key = _key(node, cast)
        try:
            known = node if key is None else first.setdefault(key, node)
        except TypeError:  # a parameter has no hash
            known = node
        if known is not node:
            same.update(zip(map(id, node.results), known.results, strict=True))
            continue
        kept.append(node)
        if _is_its_operand(node):
            cast[id(node.results[0])] = cast.get(id(node.reads[0]), id(node.reads[0]))
        for inner in node.bodies:
            _merge(inner, same, cast)
    body.nodes = kept
    body.outputs = _replaced(body.outputs, same)


def _replaced(values: list[Value | None], same: dict[int, Value]) -> list[Value | None]:
    return [None if value is None else same.get(id(value), value) for value in values]


def _key(node: Node, cast: dict[int, int]) -> Hashable:
    """Return a key that is equal for equal operations, and `None` if they must not be merged.

    It may have no hash.
    """
    if node.bodies or node.is_apart or node.has_effects:
        return None
    operands = tuple(cast.get(id(value), id(value)) for value in node.operands)
    if node.eqn is None:
        (result,) = node.results
        spec = None if node.entry is None else node.entry[0]
        return operands, node.moved, spec, result.aval.shape, result.layout is None
    literals = tuple(
        (str(var.aval), np.asarray(var.val).tobytes())
        for var in node.eqn.invars
        if isinstance(var, Literal)
    )
    shapes = tuple(result.aval.shape for result in node.results)
    return costs.what_it_does(node.eqn), operands, literals, shapes, node.moved


def _hoist(body: Body) -> bool:
    """Move loop-invariant gathers before the loop, with the operations that they need.

    Return True if there are any.
    """
    nodes: list[Node] = []
    found = False
    for node in body.nodes:
        for inner in node.bodies:
            found = _hoist(inner) or found
        if node.kind in (Kind.SCAN, Kind.WHILE):
            moved = list(_loop_invariant(node))
            found = found or bool(moved)
            nodes += moved
        nodes.append(node)
    body.nodes = nodes
    return found


def _sends(node: Node) -> bool:
    return node.kind in _SENDS or any(_sends(part) for body in node.bodies for part in body.nodes)


def _loop_invariant(loop: Node) -> Iterator[Node]:
    body = loop.bodies[0]
    changing, outside = _carried(loop)
    still: dict[int, Node] = {}
    for node in body.nodes:
        if not node.has_effects and not any(id(value) in changing for value in node.reads):
            still[id(node)] = node
        else:
            changing.update(map(id, node.results))
    wanted: set[int] = set()
    for node in reversed(still.values()):
        if _sends(node) or not wanted.isdisjoint(map(id, node.results)):
            wanted.update(map(id, (*node.results, *node.reads)))
    taken = [node for node in still.values() if not wanted.isdisjoint(map(id, node.results))]
    for node in taken:
        node.operands = _replaced(node.operands, outside)
        loop.operands += node.results
    gone = set(map(id, taken))
    body.nodes = [node for node in body.nodes if id(node) not in gone]
    yield from taken


def _carried(loop: Node) -> tuple[set[int], dict[int, Value]]:
    """Return the ids of the changing inputs of a loop's body, and the unchanged carries.

    The unchanged carries are values before the loop, by the `id` of the input.
    """
    body = loop.bodies[0]
    if loop.kind == Kind.SCAN:
        scan = Scan.of(loop.eqn)
        first, count, operands = scan.consts, scan.carries, loop.operands
    else:
        options = While.of(loop.eqn)
        first, operands = options.body_consts, loop.operands[options.condition_consts :]
        count = len(body.inputs) - first
    changing = {id(value) for value in body.inputs[first:] if value is not None}
    outside: dict[int, Value] = {}
    for value, output, before in zip(
        body.inputs[first : first + count], body.outputs, operands[first:], strict=False
    ):
        if value is not None and value is output and before is not None:
            changing.discard(id(value))
            outside[id(value)] = before
    return changing, outside
