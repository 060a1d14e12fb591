"""Fusions: the kernels that XLA makes of operations, and the arrays that they read and write.

XLA computes elementwise operations where their results are used. The kernels of a program are
modeled by rules that its backends have in common:

- A kernel computes elementwise operations on one index space, and reductions of it. Equal index
  spaces have equal numbers of elements. The result of a reduction ends a kernel: operations that
  read it are in a later one.
- A contraction is a kernel of its own. Elementwise operations and reductions of its result follow
  in the same kernel. It reads its operands from memory, except for cheap operations on fewer bytes,
  such as a conversion to a wider dtype. Two contractions never share a kernel.
- Operations that do not depend on each other share a kernel if their index spaces are equal. Such a
  kernel reads each array once and may write several results.
- An array that several kernels read is either written by one of them, or computed again in each.
  The choice is the one with fewer bytes. Contractions, and elements joined from several arrays, are
  not computed again.
- A function with a declared cost (`nx.machines.cost`) reads and writes memory. Its own operations
  are left out.
- Everything else (sorts, cumulative operations, updates, loops, collectives) reads and writes
  memory.

`tests/insight/analysis/test_fusion.py` compares the bytes with figures of compiled programs.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple

from namedax.insight.analysis.graph import Body, Node, Value
from namedax.insight.analysis.uses import Uses, root_of, traits_of
from namedax.primitives import costs
from namedax.primitives.equations import facts
from namedax.primitives.record import Fusion

__all__ = ["Fusions"]

# The `id` of an array in memory, and a number for the slices through which it is read; 0 for the
# whole array.
Part = tuple[int, int]
# An array that depends on more arrays in memory is not computed again.
_MOST_SOURCES = 16
# An array that depends on more arrays in memory is written. XLA limits the operands of a kernel.
_MOST_OPERANDS = 64


class Kernel(NamedTuple):
    """A kernel, by its place in the program.

    Attributes:
      depth: the number of reductions, contractions and other barriers before it, on the longest
        path.
      elements: the number of elements of its index space.
      contraction: the `id` of its contraction; 0 if it has none.
    """

    depth: int
    elements: int
    contraction: int


_NO_KERNELS: frozenset[Kernel] = frozenset()


class Fusions:
    """The kernels of a program.

    Attributes:
      is_written: for the `id` of each result, True if it is written to memory.

    Args:
      body: the program.
      uses: its uses.
      is_simple: whether contractions and concatenations of rows are kernels of their own, and
        arrays that several operations read are written unless they are cheap. Default: False.
    """

    def __init__(self, body: Body, uses: Uses, is_simple: bool = False):
        self._body, self._uses, self._is_simple = body, uses, is_simple
        self.is_written: dict[int, bool] = {}
        # Only if it is not simple: the kernels of a value (where it is computed first), and of a
        # node (all that compute it).
        self._kernel: dict[int, Kernel] = {}
        self._kernels: dict[int, frozenset[Kernel]] = {}
        self._leaves: dict[int, dict[int, float]] = {}
        self._joined: set[int] = set()
        self._has_to: dict[int, bool] = {}
        self._sources: dict[int, dict[Part, tuple[Value, int]]] = {}
        for node in body.nodes:
            self._place(node)
        for node in reversed(body.nodes):
            self._decide(node)
        for node in body.nodes:  # in program order, because a chain may be long
            for value in node.results:
                self._sources[id(value)] = self._sources_of(node, value)

    def has_joins(self, node: Node) -> bool:
        """Return True if a kernel joins elements of several arrays before or at an operation."""
        traits = traits_of(node)
        return traits.joins or any(id(root_of(value)) in self._joined for value in traits.reads)

    # --- the place of an operation, in program order ----------------------------------------------

    def _place(self, node: Node) -> None:
        is_fusible = traits_of(node).is_fusible
        leaves = self._leaves_of(node) if is_fusible else {}
        for value in node.results:
            self._leaves[id(value)] = leaves
        if is_fusible and self.has_joins(node):
            self._joined.update(map(id, node.results))
        if not self._is_simple:
            kernel = self._first_kernel(node)
            for value in node.results:
                self._kernel[id(value)] = kernel

    def _first_kernel(self, node: Node) -> Kernel:
        """Return the kernel in which the results of an operation are computed first."""
        traits = traits_of(node)
        depth = contraction = 0
        operands: list[Kernel] = []
        for value in node.reads:
            root = root_of(value)
            kernel = self._kernel.get(id(root))
            if kernel is not None:
                ends = root.maker is None or traits_of(root.maker).ends_a_kernel
                depth = max(depth, kernel.depth + ends)
                if kernel.contraction and not ends:
                    operands.append(kernel)
        if traits.is_contraction:
            depth, contraction = depth + 1, id(node)
        elif traits.joins_kernels:
            place = depth, traits.elements
            for kernel in operands:
                if kernel[:2] == place:
                    contraction = kernel.contraction  # that of the last operand
        elif not traits.is_view:
            depth += 1
        return Kernel(depth, traits.elements, contraction)

    def _leaves_of(self, node: Node) -> dict[int, float]:
        """Return the bytes that are read to compute a value anew, by the arrays that it needs."""
        found: dict[int, float] = {}
        for operand in traits_of(node).reads:
            root = root_of(operand)
            share = _share(node, operand)
            if not self._has_to_be_written(root):
                for leaf, size in self._leaves[id(root)].items():
                    found[leaf] = max(found.get(leaf, 0.0), size * share)
            else:
                found[id(root)] = max(found.get(id(root), 0.0), root.bytes * share)
        return found

    def _has_to_be_written(self, value: Value) -> bool:
        if id(value) not in self._has_to:
            self._has_to[id(value)] = self._is_read_from_memory(value)
        return self._has_to[id(value)]

    def _is_read_from_memory(self, value: Value) -> bool:
        maker = value.maker
        if len(self._leaves.get(id(value), ())) > _MOST_OPERANDS:
            return True
        if id(value) not in self._leaves or maker is None or not traits_of(maker).is_fusible:
            return True  # also an array of a surrounding program
        if self._is_simple and costs.joins_rows(maker.eqn):
            return self._uses.has_users(value)
        return any(
            node is None or not self._reads_through(node, value)
            for node in self._uses.consumers(value)
        )

    def _reads_through(self, node: Node, value: Value) -> bool:
        """Return True if an operation can compute an operand itself."""
        if node.eqn is None or node.bodies:
            return False
        traits = traits_of(node)
        if traits.is_contraction:
            return id(value) not in self._joined and not self._is_simple
        if self._is_simple and costs.joins_rows(node.eqn):
            return False
        return traits.joins_kernels

    # --- the arrays that are written, in reverse order --------------------------------------------

    def _decide(self, node: Node) -> None:
        for value in node.results:
            self.is_written[id(value)] = self._written(node, value)
        if self._is_simple:
            return
        traits, kernels = traits_of(node), set[Kernel]()
        for value in node.results:
            if self.is_written[id(value)] or not (traits.is_fusible or traits.is_contraction):
                kernels.add(self._kernel[id(value)])
            else:
                kernels |= self._kernels_of_users(value)
        self._kernels[id(node)] = frozenset(kernels)

    def _kernels_of_users(self, value: Value) -> frozenset[Kernel]:
        users = [id(node) for node in self._uses.consumers(value) if node is not None]
        if len(users) == 1:
            return self._kernels[users[0]]
        return _NO_KERNELS.union(*[self._kernels[key] for key in users])

    def _written(self, node: Node, value: Value) -> bool:
        traits, uses = traits_of(node), self._uses
        if traits.is_view or id(value) in traits.viewed:
            return False
        if node.eqn is None or node.bodies:
            return True
        if traits.is_contraction:
            if (
                self._is_simple
                or not uses.has_users(value)
                or any(
                    user is None or not traits_of(user).joins_kernels
                    for user in uses.consumers(value)
                )
            ):
                return True
            return self._kernels_of_users(value) != {self._kernel[id(value)]}
        if not traits.is_fusible:
            return True
        if self._has_to_be_written(value):
            return True
        if self._is_simple:
            is_shared = len(uses.consumers(value)) > 1
            return is_shared and (
                facts(node.eqn).fusion is not Fusion.CHEAP or id(value) in self._joined
            )
        own, users = self._kernel[id(value)], self._kernels_of_users(value)
        others = len(users - {own})
        if not others:
            return False
        leaves = self._leaves[id(value)]
        if len(leaves) > _MOST_SOURCES or id(value) in self._joined:
            return len(users) > 1
        local = self._computed_in(own, leaves)
        first = sum(leaves.values()) - local  # to compute it in its first kernel
        again = sum(leaves.values())
        write = value.bytes * (1 + others) + first
        recompute = others * again + (first if own in users else 0) + local
        return write < recompute

    def _computed_in(self, kernel: Kernel, leaves: Mapping[int, float]) -> float:
        """Return the bytes of the leaf that is the contraction of a kernel."""
        return sum(
            size
            for leaf, size in leaves.items()
            if kernel.contraction and self._makes(kernel, leaf)
        )

    def _makes(self, kernel: Kernel, leaf: int) -> bool:
        return self._kernel.get(leaf) == kernel

    def sources(self, value: Value) -> dict[Part, tuple[Value, int]]:
        """Return the arrays in memory from which an array is computed, perhaps the array itself.

        The result maps the parts of each array that are read to the array and to their bytes.
        """
        known = self._sources.get(id(value))
        return {(id(value), 0): (value, value.bytes)} if known is None else known

    def _sources_of(self, node: Node, value: Value) -> dict[Part, tuple[Value, int]]:
        if self.is_written[id(value)]:
            return {(id(value), 0): (value, value.bytes)}
        operand = traits_of(node).viewed.get(id(value))
        if operand is not None:
            return self.sources(operand)
        found: dict[Part, tuple[Value, int]] = {}
        for operand in traits_of(node).reads:
            self._add(found, node, operand, value)
        return found

    def _add(
        self, found: dict[Part, tuple[Value, int]], node: Node, operand: Value, result: Value
    ) -> None:
        """Add the arrays that a node reads to compute a result with an operand."""
        share = _share(node, operand)
        for (key, part), (source, size) in self.sources(operand).items():
            if share < 1:
                part, size = hash((part, id(result))), math.ceil(size * share)
            if (key, part) not in found or found[key, part][1] < size:
                found[key, part] = source, size

    # --- memory traffic ---------------------------------------------------------------------------

    def traffic(self) -> dict[int, int]:
        """Return the bytes that operations of kernels read and write, by the `id` of the operation.

        An array that a kernel reads counts at the first operation with a result that needs it. In a
        kernel with a contraction everything counts there, as the kernel is as fast as the slower of
        its arithmetic and its memory traffic.
        """
        kernels: dict[Kernel, dict[Part, int]] = defaultdict(dict)
        found: dict[int, int] = defaultdict(int)
        for node in self._body.nodes:
            traits = traits_of(node)
            if node.eqn is None or node.bodies or node.kernel or traits.is_view:
                continue
            if not node.results:  # an effect, such as a callback
                sources = [self.sources(value) for value in traits.reads]
                found[id(node)] = sum(size for each in sources for _, size in each.values())
                continue
            written = sum(value.bytes for value in node.results if self.is_written[id(value)])
            is_shared = traits.joins_kernels or traits.is_contraction
            if not written and is_shared:
                continue  # it counts where its result is used
            kernel = self._kernel[id(node.results[0])]
            counted = kernels[kernel] if is_shared else {}
            needed: dict[Part, tuple[Value, int]] = {}
            for operand in traits.reads:
                self._add(needed, node, operand, node.results[0])
            place = kernel.contraction if is_shared and kernel.contraction else id(node)
            found[place] += written + sum(
                _count(counted, part, source, size)
                for part, (source, size) in needed.items()
                if not (is_shared and self._is_computed_in(kernel, source))
            )
        return found

    def _is_computed_in(self, kernel: Kernel, source: Value) -> bool:
        return self._kernel.get(id(source)) == kernel


def _count(counted: dict[Part, int], part: Part, source: Value, size: int) -> int:
    """Return the additional bytes of an array that a kernel reads, at most all of the array."""
    all_parts = part[0], -1
    more = max(0, size - counted.get(part, 0))
    counted[part] = counted.get(part, 0) + more
    more = min(more, source.bytes - counted.get(all_parts, 0))
    counted[all_parts] = counted.get(all_parts, 0) + more
    return more


def _share(node: Node, operand: Value) -> float:
    """Return the fraction of an operand that a fused operation reads."""
    traits, count = traits_of(node), operand.elements
    if not traits.is_fusible:
        return 1.0
    return min(1.0, traits.elements / count) if count else 0.0
