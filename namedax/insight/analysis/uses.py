"""Uses: the operations that read an array, and the arrays that are views of another one.

Passes over a finished graph ask the same questions about an operation several times. `traits_of`
answers them once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from namedax.insight.analysis.graph import Body, Node, Value
from namedax.primitives.equations import facts
from namedax.primitives.record import Fusion, Kind, Primitive

__all__ = ["Traits", "Uses", "root_of", "traits_of"]

_NO_VIEWS: Mapping[int, Sequence[Value]] = {}
_NOT_VIEWED: Mapping[int, Value] = {}


class Traits:
    """The traits of an operation in a graph that does not change any more.

    Attributes:
      reads: its operands that are not literals, each once.
      is_view: True if the result is the operand, in the same memory.
      is_fusible: True if XLA computes the result where it is used.
      joins_kernels: True for elementwise operations and reductions.
      is_contraction: True if it multiplies and sums.
      ends_a_kernel: True if operations on the result are in a later kernel.
      joins: True if elements of the result come from several operands or indices.
      elements: the number of elements of its index space.
      viewed: the operand of which a result is a view, by the `id` of the result.
      views: the results that are views of an operand, by the `id` of the operand.
    """

    __slots__ = (
        "elements",
        "ends_a_kernel",
        "is_contraction",
        "is_fusible",
        "is_view",
        "joins",
        "joins_kernels",
        "reads",
        "viewed",
        "views",
    )

    def __init__(self, node: Node):
        record = None if node.eqn is None else facts(node.eqn)
        plain = record if record is not None and not node.bodies and not node.kernel else None
        reads = node.reads
        self.reads = list(dict.fromkeys(reads))
        self.is_view = _is_view(node, record)
        self.is_fusible = (
            plain is not None
            and (plain.fusion is Fusion.CHEAP or plain.fusion is Fusion.EXPENSIVE)
            and node.kind != Kind.UPDATE
            and not node.is_host_copy
        )
        self.joins_kernels = self.is_fusible or (plain is not None and plain.reduces is not None)
        self.is_contraction = record is not None and not node.kernel and record.is_contraction
        self.joins = record is not None and record.joins
        self.ends_a_kernel = (
            record is None or bool(node.bodies) or not (self.is_fusible or self.is_contraction)
        )
        is_reduction = record is not None and record.reduces is not None
        self.elements = max(
            (value.elements for value in (reads if is_reduction else node.results)), default=0
        )
        self.views, self.viewed = _NO_VIEWS, _NOT_VIEWED
        if node.moved is None and (node.kind == Kind.BARRIER or self.is_view):
            self._find_views(node)

    def _find_views(self, node: Node) -> None:
        views: dict[int, list[Value]] = defaultdict(list)
        viewed: dict[int, Value] = {}
        pairs = (
            zip(node.operands, node.results, strict=True)
            if node.kind == Kind.BARRIER
            else [(operand, result) for operand in self.reads for result in node.results]
        )
        for operand, result in pairs:
            if operand is not None:
                views[id(operand)].append(result)
                viewed[id(result)] = operand
        self.views, self.viewed = dict(views), viewed


def traits_of(node: Node) -> Traits:
    """Return the traits of an operation."""
    traits: Traits | None = node.traits
    if traits is None:
        traits = node.traits = Traits(node)
    return traits


def _is_view(node: Node, record: Primitive | None) -> bool:
    """Return True if the result is the operand, in the same memory.

    A transposed product is written in its final order.
    """
    if record is None:
        return node.kind == Kind.BARRIER and node.moved is None
    if record.fusion is Fusion.VIEW:
        return True
    (value,) = node.operands if len(node.operands) == 1 else (None,)
    is_product = (
        value is not None
        and value.maker is not None
        and value.maker.eqn is not None
        and facts(value.maker.eqn).is_contraction
    )
    return is_product and record.is_transposition


def root_of(value: Value) -> Value:
    """Return the array of which a value is a view."""
    here, passed = value, []
    while here.root is None:
        passed.append(here)
        viewed = None if here.maker is None else traits_of(here.maker).viewed.get(id(here))
        if viewed is None:
            here.root = here
        else:
            here = viewed
    for each in passed:
        each.root = here.root
    return here.root


class Uses:
    """The operations of a program that read each array.

    Args:
      body: the program.
    """

    def __init__(self, body: Body):
        self._users: dict[int, list[Node]] = defaultdict(list)
        for node in body.nodes:
            for value in traits_of(node).reads:
                self._users[id(value)].append(node)
        self._results = {id(value) for value in body.outputs if value is not None}
        self._consumers: dict[int, list[Node | None]] = {}

    def has_users(self, value: Value) -> bool:
        """Return True if an operation reads the array, or it is a result."""
        return id(value) in self._users or id(value) in self._results

    def consumers(self, value: Value) -> list[Node | None]:
        """Return the users of an array, or of a view of it; `None` if it is a result."""
        key = id(value)
        if key not in self._consumers:
            found: list[Node | None] = [None] if key in self._results else []
            for node in self._users.get(key, ()):
                views = traits_of(node).views.get(key)
                if views is None:
                    found.append(node)
                else:
                    for view in views:
                        found += self.consumers(view)
            self._consumers[key] = found
        return self._consumers[key]
