"""Memory use: the peak memory of a device, from the arrays that a program writes.

`fusion` decides which arrays are written. An array is freed after its last use, in program order.
This is an estimate, because the compiler may reorder operations.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence, Set

from namedax.insight.analysis.fusion import Fusions
from namedax.insight.analysis.graph import Body, Node, Value
from namedax.insight.analysis.uses import Uses, root_of
from namedax.primitives import costs
from namedax.primitives.equations import Scan, axes_of, facts
from namedax.primitives.record import Kind

__all__ = ["Storage", "kept_for_gradient"]

# The bytes of the sums over mesh axes that become one collective. XLA has no limit on CPU devices,
# and 30 MiB by default on GPUs.
_MOST_COMBINED = 30 << 20


class Storage:
    """The arrays that a program writes to memory.

    Args:
      body: the program.
    """

    def __init__(self, body: Body):
        self._body = body
        self._inner: dict[int, Storage] = {}
        self._uses = Uses(body)
        self._fusions = Fusions(body, self._uses, is_simple=True)
        self.is_written = self._fusions.is_written
        self._traffic: dict[int, int] | None = None

    def bytes_of(self, node: Node) -> int:
        """Return the bytes that an operation of the program reads and writes, per run."""
        if self._traffic is None:
            self._traffic = Fusions(self._body, self._uses).traffic()
        return self._traffic.get(id(node), 0)

    def within(self, body: Body) -> Storage:
        """Return the storage of a program that one of the operations runs."""
        if id(body) not in self._inner:
            self._inner[id(body)] = Storage(body)
        return self._inner[id(body)]

    def _taken_by(self, value: Value) -> list[Node]:
        """Return the users of a slice of a step if it is copied first.

        It is copied if users other than elementwise operations read it.
        """
        users = [node for node in self._uses.consumers(value) if node is not None]
        return [] if len(users) <= 1 and all(map(_computes_operands, users)) else users

    def sources(self, value: Value) -> list[Value]:
        """Return the arrays in memory from which an array is computed, perhaps the array itself."""
        parts = self._fusions.sources(value).values()
        return list({id(source): source for source, _ in parts}.values())

    def peak(self, in_place: Set[int] = frozenset()) -> int:
        """Return the peak memory in bytes, without the inputs and without `in_place` results.

        `in_place` has the ids of these results.
        """
        lives = _Lifetimes(self._body, self.sources)
        lives.add_results(lambda node, value: self._is_held(node, value, in_place))
        lives.add_uses(self.is_written)
        lives.add_copies()
        lives.combine_sums()
        for value in self._body.slices:
            lives.add_slice(value, self._taken_by(value))
        return self._sweep(lives)

    def _is_held(self, node: Node, value: Value, in_place: Set[int]) -> bool:
        """Return True if a result takes memory of its own."""
        return (
            self.is_written[id(value)]
            and id(value) not in in_place
            and not self._is_left_out(node, value)
            and not self.is_within_kernel(node, value)
        )

    def _is_left_out(self, node: Node, value: Value) -> bool:
        """Return True for a stacked result of a scan that is unused."""
        if node.kind != Kind.SCAN or self._uses.has_users(value):
            return False
        return all(value is not carried for carried in node.results[: Scan.of(node.eqn).carries])

    def is_within_kernel(self, node: Node, value: Value) -> bool:
        """Return True for an array within a function with a declared cost."""
        kernel = node.kernel
        return kernel is not None and all(
            user is not None and user.kernel is not None and user.kernel.number == kernel.number
            for user in self._uses.consumers(value)
        )

    def _in_place(self, loop: Node, body: Body) -> set[int]:
        """Return the new values of a carry that XLA writes over the old ones.

        They are elementwise functions or updates of the old ones, after all other uses, or are
        computed after the last use.
        """
        if loop.kind not in (Kind.SCAN, Kind.WHILE) or body is not loop.bodies[0]:
            return set()
        first = (
            Scan.of(loop.eqn).consts
            if loop.kind == Kind.SCAN
            else len(body.inputs) - len(body.outputs)
        )
        count = Scan.of(loop.eqn).carries if loop.kind == Kind.SCAN else len(body.outputs)
        inner = self.within(body)
        order = {id(node): i for i, node in enumerate(body.nodes)}
        found: set[int] = set()
        for old, new in zip(body.inputs[first : first + count], body.outputs[:count], strict=True):
            new = None if new is None else root_of(new)
            if old is None or new is None or new.maker is None or id(new.maker) not in order:
                continue
            when, users = order[id(new.maker)], list(inner._uses.consumers(old))
            if all(
                user is not None
                and (
                    order[id(user)] < when
                    or (user is new.maker and (_is_elementwise(user) or _updates(user, old)))
                )
                for user in users
            ):
                found.add(id(new))
        return found

    def _is_in_place(self, node: Node) -> bool:
        """Return True if the result may reuse the memory of an operand."""
        if node.eqn is None:
            return False
        is_update = node.kind == Kind.UPDATE or facts(node.eqn).is_update
        return is_update or (costs.is_fused(node.eqn) and not self._fusions.has_joins(node))

    def _sweep(self, lives: _Lifetimes) -> int:
        """Return the most bytes of arrays that live at the same time."""
        begins, ends, size = lives.by_time()
        held = most = 0
        for when, node in enumerate(self._body.nodes):
            new = begins[when]
            dying = sum(size[key] for key in ends[when] if key not in new)
            grown = sum(size[key] for key in new)
            reused = min(self._reused(node, dying), grown)
            held += grown - reused
            most = max(most, held + self._within_peak(node))
            held -= dying - reused
            held -= sum(size[key] for key in ends[when] if key in new)
        return most

    def _reused(self, node: Node, dying: int) -> int:
        """Return the bytes that the results of an operation may take over from dying operands."""
        if node.kind in (Kind.SCAN, Kind.WHILE):
            return min(dying, _carry_bytes(node))  # the carry takes over its initial value
        return dying if self._is_in_place(node) else 0

    def _within_peak(self, node: Node) -> int:
        """Return the peak memory of the programs that an operation runs."""
        if not node.bodies or node.kernel:
            return 0
        return max(self.within(body).peak(self._in_place(node, body)) for body in node.bodies)


class _Lifetimes:
    """The arrays in memory, each with the operations that make it and that last use it.

    An operation is its number in the order of the program.

    Args:
      body: the program.
      sources: returns the arrays in memory from which an array is computed.
    """

    def __init__(self, body: Body, sources: Callable[[Value], list[Value]]):
        self._body, self._sources = body, sources
        self._order = {id(node): i for i, node in enumerate(body.nodes)}
        # By id. The values are kept, because a copy must not be freed while its id is in use.
        self._made: dict[int, tuple[Value, int]] = {}
        self._last: dict[int, int] = {}

    def _use(self, value: Value, when: int) -> None:
        last = self._last
        for source in self._sources(value):
            last[id(source)] = max(last.get(id(source), 0), when)

    def add_results(self, is_held: Callable[[Node, Value], bool]) -> None:
        """Add the results that take memory."""
        for when, node in enumerate(self._body.nodes):
            for value in node.results:
                if is_held(node, value):
                    self._made[id(value)] = (value, when)

    def add_uses(self, is_written: Mapping[int, bool]) -> None:
        """Add the uses of arrays by operations that write their results, and by the program."""
        for when, node in enumerate(self._body.nodes):
            if node.bodies or any(is_written[id(value)] for value in node.results):
                for value in node.reads:
                    self._use(value, when)
        end = len(self._body.nodes)
        for output in self._body.outputs:
            if output is not None:
                self._use(output, end)

    def add_copies(self) -> None:
        """Add the copies of operands that XLA makes: in another order, or during an operation."""
        for when, node in enumerate(self._body.nodes):
            for value in _rearranged(node):
                maker = root_of(value).maker
                begin = when if maker is None else self._order.get(id(maker), when)
                self._last[self._add_copy(value, begin)] = when
            for value in _copied(node):
                self._add_copy(value, when)

    def _add_copy(self, value: Value, when: int) -> int:
        """Add a copy, and return its id."""
        copy = Value(value.aval, value.layout, value.sizes)
        self._made[id(copy)] = (copy, when)
        return id(copy)

    def combine_sums(self) -> None:
        """Move sums that become one collective to the time when the last operand is known."""
        for group in _combined(self._body):
            when = self._order[id(group[-1])]
            for node in group:
                for value in node.reads:
                    self._use(value, when)
                for value in node.results:
                    if id(value) in self._made:
                        self._made[id(value)] = (value, when)

    def add_slice(self, value: Value, users: Sequence[Node]) -> None:
        """Add a slice of a loop's step, if these operations read a copy of it."""
        if users:
            self._made[id(value)] = (value, min(self._order[id(node)] for node in users))

    def by_time(self) -> tuple[dict[int, list[int]], dict[int, list[int]], dict[int, int]]:
        """Return the ids of arrays by their first and by their last operation, and their bytes."""
        begins: dict[int, list[int]] = defaultdict(list)
        ends: dict[int, list[int]] = defaultdict(list)
        for key, (_, when) in self._made.items():
            begins[when].append(key)
            ends[max(self._last.get(key, when), when)].append(key)
        return begins, ends, {key: value.bytes for key, (value, _) in self._made.items()}


def _computes_operands(node: Node) -> bool:
    """Return True if XLA fuses elementwise operations into a reader of their results."""
    return (
        node.eqn is not None
        and not node.bodies
        and (costs.is_fused(node.eqn) or facts(node.eqn).reduces is not None)
    )


def _is_elementwise(node: Node) -> bool:
    return node.eqn is not None and not node.bodies and costs.is_elementwise(node.eqn)


def _updates(node: Node, value: Value) -> bool:
    """Return True if a node writes a part of an array."""
    return node.kind == Kind.UPDATE and node.operands[0] is value


def _rearranged(node: Node) -> list[Value]:
    """Return the operands of a contraction that are first copied into another order."""
    orders = costs.is_in_order(node.eqn) if node.eqn is not None and not node.kernel else ()
    return [
        value
        for value, good in zip(node.operands, orders, strict=False)
        if value is not None and not good
    ]


def _copied(node: Node) -> list[Value]:
    """Return the arrays of which XLA holds a copy during an operation."""
    if node.eqn is None or node.kernel:
        return []
    if node.kind in (Kind.GATHER, Kind.SCATTER) and costs.is_along_rows(node.eqn):
        return node.results if node.kind == Kind.GATHER else node.reads
    return node.reads if facts(node.eqn).copies_operand else []


def _combined(body: Body) -> list[list[Node]]:
    """Return the sums over mesh axes that XLA combines into one collective.

    These are sums of one dtype over the same mesh axes that do not depend on each other.
    """
    groups: dict[tuple[str, ...], list[list[Node]]] = defaultdict(list)
    sizes: dict[tuple[str, ...], int] = {}
    # For each array, by dtype and mesh axes, the number of the last group that it depends on.
    needed: dict[int, dict[tuple[str, ...], int]] = {}
    for node in body.nodes:
        needs: dict[tuple[str, ...], int] = {}
        for value in node.reads:
            for key, number in needed.get(id(value), {}).items():
                needs[key] = max(needs.get(key, 0), number)
        if node.kind == Kind.SUM and node.eqn is not None and node.moved is None:
            dtypes = sorted({str(value.aval.dtype) for value in node.reads})
            axes = (*dtypes, *sorted(map(str, axes_of(node.eqn))))
            known, size = groups[axes], sum(value.bytes for value in node.reads)
            if not known or needs.get(axes, 0) == len(known) or sizes[axes] + size > _MOST_COMBINED:
                known.append([])
                sizes[axes] = 0
            known[-1].append(node)
            sizes[axes] += size
            needs[axes] = len(known)
        for value in node.results:
            needed[id(value)] = needs
    return [group for known in groups.values() for group in known if len(group) > 1]


def _carry_bytes(node: Node) -> int:
    if node.kind == Kind.SCAN:
        return sum(value.bytes for value in node.results[: Scan.of(node.eqn).carries])
    return sum(value.bytes for value in node.results)


def kept_for_gradient(body: Body, storage: Storage) -> Iterator[tuple[Node, int]]:
    """Yield the operations of the forward pass whose results the gradient reads, with bytes."""
    read = {
        id(value) for node in body.nodes if node.origin.phase == "gradient" for value in node.reads
    }
    counted: set[int] = set()
    for node in body.nodes:
        if node.origin.phase == "gradient":
            continue
        for value in node.results:
            if id(value) not in read or storage.is_within_kernel(node, value):
                continue
            for source in storage.sources(value):
                maker = source.maker
                if maker is None or id(source) in counted:
                    continue
                counted.add(id(source))
                if maker.kind == Kind.SCAN:
                    inner = maker.bodies[0].outputs[maker.results.index(source)]
                    maker = inner.maker if inner is not None and inner.maker is not None else maker
                yield maker, source.bytes
