"""Dead code: operations that XLA removes because their results are unused."""

from __future__ import annotations

from collections.abc import Set

from namedax.analysis.graph import Body, Node
from namedax.programs.primitives import Kind, Scan

__all__ = ["prune"]


def prune(body: Body, wanted: Set[int] | None = None) -> set[int]:
    """Remove operations that do not contribute to the outputs, or to the outputs at the positions in `wanted`.

    Args:
      body: the program; it is changed in place.
      wanted: the positions of the needed outputs; default: all.

    Returns:
      The ids of the needed inputs and of the needed values from the surrounding program.
    """
    live, kept = _live(body, wanted)
    body.nodes = kept
    for node in kept:
        for inner, outputs in _inner(node, live):
            prune(inner, outputs)
    return live


def _live(body: Body, wanted: Set[int] | None) -> tuple[set[int], list[Node]]:
    """Return the ids of the needed values of a program, and the needed operations."""
    live = {id(value) for i, value in enumerate(body.outputs) if value is not None and (wanted is None or i in wanted)}
    kept = []
    for node in reversed(body.nodes):
        if node.has_effects or any(id(result) in live for result in node.results):
            kept.append(node)
            live |= _needed(node, live)
    return live, kept[::-1]


def _needed(node: Node, live: Set[int]) -> set[int]:
    """Return the ids of the values from the surrounding program that an operation needs."""
    if node.eqn is None:  # each result is one operand
        return {id(operand) for operand, result in zip(node.reads, node.results, strict=True) if id(result) in live}
    if node.kind != Kind.SCAN:
        inner = set[int]().union(*(_live(body, outputs)[0] for body, outputs in _inner(node, live)))
        return inner | set(map(id, node.reads))
    ((body, outputs),), scan = _inner(node, live), Scan.of(node.eqn)
    inside = _live(body, outputs)[0]
    # XLA keeps the initial value of a carry, even if the first step replaces it.
    carried = {scan.consts + i for i in outputs or () if i < scan.carries}
    pairs = enumerate(zip(node.operands, body.inputs, strict=True))
    used = ((operand, i in carried or id(value) in inside) for i, (operand, value) in pairs)
    return {id(operand) for operand, is_used in used if operand is not None and is_used} | inside


def _inner(node: Node, live: Set[int]) -> list[tuple[Body, Set[int] | None]]:
    """Return the programs that an operation runs, each with the positions of its needed outputs."""
    results = {i for i, result in enumerate(node.results) if id(result) in live}
    if node.kind == Kind.BRANCH:
        return [(body, results) for body in node.bodies]
    if node.kind != Kind.SCAN:
        return [(body, None) for body in node.bodies]
    (body,), scan = node.bodies, Scan.of(node.eqn)
    carried = body.inputs[scan.consts : scan.consts + scan.carries]
    while True:  # a carry is needed if a later step needs it
        inside = _live(body, results)[0]
        more = {k for k, value in enumerate(carried) if id(value) in inside} - results
        if not more:
            return [(body, results)]
        results |= more
