"""Renamings that gather values which depend on the same argument.

Parameters that are each gathered once, as in fully sharded training, depend on different arguments and do not count.
"""

from __future__ import annotations

from collections.abc import Iterator

from namedax.analysis.graph import Body, Node, Value
from namedax.programs.primitives import Kind, axes_of

__all__ = ["gathered_again"]


def gathered_again(body: Body) -> set[tuple[tuple[str, ...], tuple[str, ...]]]:
    """Return the names and mesh axes of gathers by `nx.rename` of which two depend on one argument."""
    arguments = [value for value in body.inputs if value is not None and value.given is not None]
    depends = {id(value): 1 << i for i, value in enumerate(arguments)}  # a set of arguments for each value, as bits
    seen: dict[tuple[tuple[str, ...], tuple[str, ...]], int] = {}
    found = set()
    for node, needed in _gathers(body, depends):
        axes = tuple(axis for axis in dict.fromkeys(axes_of(node.eqn)) if node.sizes.get(axis, 1) > 1)
        key = node.origin.names_on(axes), axes
        if seen.get(key, 0) & needed:
            found.add(key)
        seen[key] = seen.get(key, 0) | needed
    return found


def _gathers(body: Body, depends: dict[int, int]) -> Iterator[tuple[Node, int]]:
    def needed(values: list[Value]) -> int:
        bits = 0
        for value in values:
            bits |= depends.get(id(value), 0)
        return bits

    for node in body.nodes:
        bits = needed(node.reads)
        depends.update((id(value), bits) for value in node.results)
        for inner in node.bodies:
            if node.kind is Kind.SCAN:
                pairs = zip(inner.inputs, node.operands, strict=False)
                depends.update((id(value), 0 if operand is None else needed([operand])) for value, operand in pairs)
            depends.update((id(value), bits) for value in inner.inputs if id(value) not in depends)
            yield from _gathers(inner, depends)
        origin = node.origin
        if node.kind is Kind.GATHER and (origin.operation, origin.phase) == ("nx.rename", "forward"):
            yield node, bits
