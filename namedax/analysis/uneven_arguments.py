"""Arguments that every device stores whole because an axis does not divide over its mesh axes.

A mapped function pads such an argument and slices the block of its device. In the program, the argument is concatenated with
copies of its last element before it becomes a block.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from namedax.analysis.graph import Body, Node, Value
from namedax.core.records import Record
from namedax.programs import costs
from namedax.programs.evaluator import is_inexact
from namedax.programs.primitives import Kind, block_of

__all__ = ["UnevenAxis", "uneven_axes"]


class UnevenAxis(Record):
    """An axis of an argument that does not divide over its mesh axes.

    Attributes:
      argument: the argument.
      name: the axis name, as text; a description of the dimension if the name is unknown.
      size: its size.
      padded: its size with padding, the next one that divides.
      mesh: the sizes of the mesh axes.
    """

    argument: Value
    name: str
    size: int
    padded: int
    mesh: Mapping[str, int]


def uneven_axes(body: Body) -> Iterator[UnevenAxis]:
    """Find the axes of a program's arguments that are padded on entry to a mapped function."""
    found = {(id(axis.argument), axis.name, *axis.mesh): axis for axis in _in(body, {})}
    yield from found.values()


def _in(body: Body, arguments: dict[int, Value]) -> Iterator[UnevenAxis]:
    """Find the axes in a body; `arguments` maps the `id` of a value to its argument, perhaps padded or sliced."""
    if not arguments:
        arguments.update((id(value), value) for value in body.inputs if value is not None and value.given is not None)
    for node in body.nodes:
        for inner in node.bodies:
            yield from _in(inner, arguments)
        argument = arguments.get(id(node.operands[0])) if node.operands else None
        if argument is None:
            continue
        if node.kind is Kind.OWN_BLOCK:
            dim, axes = block_of(node.eqn)
            size, padded = argument.aval.shape[dim], node.eqn.invars[0].aval.shape[dim]
            if padded > size:
                mesh = {axis: node.sizes[axis] for axis in axes}
                yield UnevenAxis(argument, _name(node, argument, dim, axes), size, padded, mesh)
        if _holds_operand(node):
            arguments[id(node.results[0])] = argument


def _holds_operand(node: Node) -> bool:
    """Return True if the result has the elements of the first operand, perhaps cast, padded or sliced."""
    eqn: Any = node.eqn
    if eqn is None or node.kind in (Kind.OWN_BLOCK, Kind.CAST):
        return True
    if costs.concatenates(eqn):
        first, *others = node.operands
        return all(value is not None and _is_padding(value, first) for value in others)
    return len(eqn.invars) == 1 and costs.is_elementwise(eqn)


def _is_padding(value: Value, of: Value | None) -> bool:
    """Return True for padding, a copy of the last element of a value: its cotangent is zero."""
    made = value.maker
    if made is None or made.eqn is None:
        return False
    return costs.is_zero_cotangent(made.eqn) or (not is_inexact(value.aval) and made.operands[:1] == [of])


def _name(node: Node, argument: Value, dim: int, mesh_axes: tuple[str, ...]) -> str:
    dims = argument.given.dims if argument.given is not None else ()
    if len(dims) == len(argument.aval.shape) and dims[dim] is not None:
        return str(dims[dim])
    there = [name for name, axes in node.origin.placements().items() if axes == mesh_axes]
    return there[0] if len(there) == 1 else f"dimension {dim}"
