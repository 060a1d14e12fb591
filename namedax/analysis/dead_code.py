"""What XLA leaves out of a program: operations whose results nobody needs."""

from __future__ import annotations

from collections.abc import Set

from namedax.analysis.graph import Body, Node
from namedax.programs.primitives import Kind, Scan

__all__ = ["prune"]


def prune(body: Body, wanted: Set[int] | None = None) -> set[int]:
    """Leaves out of a program what does not contribute to its outputs, or to those at the positions that are wanted.

    Returns:
      What is needed of the inputs, and of values from around the program, by `id`.
    """
    live, kept = _live(body, wanted)
    body.nodes = kept
    for node in kept:
        for inner, outputs in _inner(node, live):
            prune(inner, outputs)
    return live


def _live(body: Body, wanted: Set[int] | None) -> tuple[set[int], list[Node]]:
    """The values of a program that are needed, by `id`, and the operations."""
    live = {id(value) for i, value in enumerate(body.outputs) if value is not None and (wanted is None or i in wanted)}
    kept = []
    for node in reversed(body.nodes):
        if node.has_effects or any(id(result) in live for result in node.results):
            kept.append(node)
            live |= _needed(node, live)
    return live, kept[::-1]


def _needed(node: Node, live: Set[int]) -> set[int]:
    """What an operation needs of what is around it."""
    if node.eqn is None:  # each result is one operand
        return {id(operand) for operand, result in zip(node.reads, node.results, strict=True) if id(result) in live}
    if node.kind != Kind.SCAN:
        inner = set[int]().union(*(_live(body, outputs)[0] for body, outputs in _inner(node, live)))
        return inner | set(map(id, node.reads))
    ((body, outputs),), scan = _inner(node, live), Scan.of(node.eqn)
    inside = _live(body, outputs)[0]
    # XLA keeps what a carry begins with, though the first step may put something else in its place.
    carried = {scan.consts + i for i in outputs or () if i < scan.carries}
    pairs = enumerate(zip(node.operands, body.inputs, strict=True))
    used = ((operand, i in carried or id(value) in inside) for i, (operand, value) in pairs)
    return {id(operand) for operand, is_used in used if operand is not None and is_used} | inside


def _inner(node: Node, live: Set[int]) -> list[tuple[Body, Set[int] | None]]:
    """The programs that an operation runs, and which of their outputs are needed."""
    results = {i for i, result in enumerate(node.results) if id(result) in live}
    if node.kind == Kind.BRANCH:
        return [(body, results) for body in node.bodies]
    if node.kind != Kind.SCAN:
        return [(body, None) for body in node.bodies]
    (body,), scan = node.bodies, Scan.of(node.eqn)
    carried = body.inputs[scan.consts : scan.consts + scan.carries]
    while True:  # a carry is needed where a later step needs it
        inside = _live(body, results)[0]
        more = {k for k, value in enumerate(carried) if id(value) in inside} - results
        if not more:
            return [(body, results)]
        results |= more
