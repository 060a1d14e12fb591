"""A lower bound of the step time of every layout of a space, by branch and bound.

The bound counts matrix products and convolutions only. Other operations and communication take no
negative time, and a schedule is never shorter than the sum of its operations. So the bound holds
for every schedule.

1. **Work.** The products of the program come from its trace with nothing mapped. Traces with one
   name on one mesh axis measure, for each product, whether the name divides its computation, and
   the share `p` of its operands and results that it divides. The bytes are those of its kernel,
   which may include arrays of operations that are fused with it. A mesh axis of `s` devices with
   the names `R` divides the bytes by at most `s ** p`, where `p` is the sum of the shares of `R`,
   at most 1: no value has two names of one mesh axis. For several mesh axes the product of these
   powers is a lower bound of what is left, for any distribution of the names over the operands
   (Jensen's inequality).
2. **Claims.** A product counts only where it is certain that a layout executes it. If the trace
   with a name has another number of products in a line, or divides a fraction of the computation,
   these products count nothing in layouts with that name: an algorithm that depends on the layout
   may save work. An operation whose block is so small that it is fused has no start cost. The
   premise is that a product that is in all these traces is also in the trace of a layout with these
   names together. The bytes of its kernel are moved there too, by this kernel or, if a collective
   splits it, by another operation. Contractions of more than two operands never count, because
   their order depends on the sizes of blocks. Every layout that was judged is compared with its
   bound, line by line; a line that takes less is left out.
3. **Branch and bound.** More names on a mesh axis never increase the bound. So the search begins
   with maximal sets of compatible names. It removes names only from layouts that are excluded:
   sizes that do not divide, arguments that do not fit, layouts that have been judged. It visits the
   layouts in the order of their bounds, so the first one that is left has the bound of all.
"""

from __future__ import annotations

import dataclasses
import heapq
import itertools
import math
from collections import defaultdict
from collections.abc import Container, Hashable, Iterable, Iterator, Mapping, Sequence

import numpy as np

from namedax.core.records import Record
from namedax.insight.analysis.records import Operation, Step
from namedax.insight.planning.program import Held
from namedax.insight.planning.space import Choice, Names, Space
from namedax.machines import Machine, Times
from namedax.machines.schedule import is_small

__all__ = ["Bound", "Open"]

# The exponent of an operation that counts nothing in layouts that map a name.
_NOTHING = 1e3
# The tolerance of comparisons of times, relative, and of shares.
_TIGHT, _SHARE = 1e-6, 1e-6
# Operations that XLA does not fuse into others: their operands and results are in memory.
_CONTRACTIONS = ("dot_general", "ragged_dot_general", "conv_general_dilated")
# The maximum number of steps of branch and bound, and of maximal sets of names on a mesh axis.
_STEPS, _SETS = 4_000, 2_000

_Key = tuple[str, str, str, str]
_Amounts = dict[_Key, list[tuple[float, float]]]


class Open(Record):
    """A layout that has not been judged.

    Attributes:
      seconds: the lower bound of its time.
      choice: the layout; `None` if the search for open layouts ended early. Then no open layout has
        a smaller bound.
    """

    seconds: float
    choice: Choice | None


class Bound:
    """A lower bound of the time of layouts.

    Args:
      space: the layouts.
      machine: the machine.
      arguments: the arrays among the arguments.
      memory: the memory limit of a device, in bytes.
      reordered: the lines, by number, with a contraction of more than two operands; default: none.
    """

    def __init__(
        self,
        space: Space,
        machine: Machine,
        arguments: Sequence[Held],
        memory: float,
        reordered: Container[int] = (),
    ):
        self._space, self._machine, self._memory = space, machine, memory
        self._arguments, self._reordered = arguments, reordered
        self._base: dict[_Key, list[Operation]] | None = None
        self._alone: dict[Hashable, tuple[float, _Amounts]] = {}
        self._judged: dict[Choice, dict[_Key, float]] = {}
        self._claims: _Claims | None = None

    def learn(self, choice: Choice, steps: Iterable[Step], times: Times | None = None) -> None:
        """Add a trace: of a layout that was judged, with its times, or of a probe without."""
        if times is not None:
            self._judged[choice] = _seconds_by_key(times)
            self._claims = None
        placed = [(name, i) for i, role in enumerate(choice.roles) for name in role]
        if len(placed) > 1 or not self._space.is_default(choice):
            return
        groups: dict[_Key, list[Operation]] = defaultdict(list)
        for step in steps:
            if isinstance(step, Operation):
                groups[_key(step)].append(step)
        self._claims = None
        if not placed:
            self._base = groups
            return
        ((name, i),) = placed
        size, devices = self._space.sizes[name], choice.sizes[i]
        parts = size / math.ceil(size / devices)
        self._alone[name] = (
            parts,
            {
                key: [(step.flops * step.trips, step.bytes * step.trips) for step in group]
                for key, group in groups.items()
            },
        )

    def missing(self) -> Iterator[Choice]:
        """Yield the layouts whose traces the bound needs: none mapped, and single names."""
        space = self._space
        bare = space.bare
        if self._base is None:
            yield bare
        for name in space.names:
            if name not in self._alone and (choice := self._single(name)) is not None:
                yield choice

    def _single(self, name: Hashable) -> Choice | None:
        """Return a layout with one name alone on a mesh axis, if any shape allows it."""
        space = self._space
        places = sorted((n, sizes, i) for sizes in space.shapes for i, n in enumerate(sizes))
        for n, sizes, i in places:
            roles = tuple(frozenset((name,) if j == i else ()) for j in range(len(sizes)))
            choice = space.bare.replace(sizes=sizes, roles=roles)
            if n > 1 and (name, n) not in space.barred and space.divides(choice):
                return choice
        return None

    def of(self, choice: Choice) -> float:
        """Return the lower bound of the time of a layout, in seconds."""
        claims = self._prepared()
        if claims is None:
            return 0.0
        roles = zip(choice.sizes, choice.roles, strict=True)
        return float(
            claims.seconds(
                sum((claims.exponents(n, role) for n, role in roles if n > 1), claims.none())
            )
        )

    def unjudged(self, known: Container[Choice], below: float) -> Iterator[Open]:
        """Yield layouts with a lower bound below `below`, by increasing bounds.

        Layouts that cannot fit are left out, because of the size of their arguments alone, and so
        are layouts in `known`.
        """
        claims = self._prepared()
        if claims is None:
            yield Open(0.0, None)
            return
        tree = _Tree(self._space, claims, self._arguments, self._memory)
        yield from tree.open(known, below)

    def _prepared(self) -> _Claims | None:
        """Return the claims, without those that a judged layout contradicts."""
        if self._base is None:
            return None
        if self._claims is None:
            claims = _Claims(self._base, self._alone, self._space, self._machine, self._reordered)
            for choice, seconds in self._judged.items():
                claims.compare(choice, seconds)
            claims.merge()
            self._claims = claims
        return self._claims


def _key(step: Operation) -> _Key:
    return step.source, step.operation, step.phase, step.kind


def _seconds_by_key(times: Times) -> dict[_Key, float]:
    found: dict[_Key, float] = defaultdict(float)
    for step, start, end in times.schedule:
        if isinstance(step, Operation):
            found[_key(step)] += end - start
    return found


class _Claims:
    """The work of each operation, and the share of it that each name divides."""

    def __init__(
        self,
        base: Mapping[_Key, Sequence[Operation]],
        alone: Mapping[Hashable, tuple[float, _Amounts]],
        space: Space,
        machine: Machine,
        reordered: Container[int],
    ):
        self._keys = [
            key for key in base if key[3] in _CONTRACTIONS and _line(key[0]) not in reordered
        ]
        steps = [step for key in self._keys for step in base[key]]
        self._group = np.repeat(
            np.arange(len(self._keys)), [len(base[key]) for key in self._keys]
        ).astype(int)
        devices = max(map(math.prod, space.shapes))
        work = np.array([_work(machine, step, devices) for step in steps]).reshape(len(steps), 2)
        shares = {name: self._shares(base, *alone[name]) for name in alone}
        nothing = np.full(work.shape, _NOTHING)
        self._index = {name: i for i, name in enumerate(space.names)}
        # By name, operation, and computation or memory.
        self._shares_of = np.stack([shares.get(name, nothing) for name in space.names] or [nothing])
        self._work, self._weight = work, np.ones(len(steps))

    def _shares(
        self, base: Mapping[_Key, Sequence[Operation]], parts: float, amounts: _Amounts
    ) -> np.ndarray:
        """Return the share of each operation's work that a name divides."""
        rows: list[tuple[float, float]] = []
        for key in self._keys:
            group, other = base[key], amounts.get(key, [])
            if len(group) != len(other):
                rows += [(_NOTHING, _NOTHING)] * len(group)
                continue
            for step, (flops, moved) in zip(group, other, strict=True):
                whole = step.flops * step.trips, step.bytes * step.trips
                shares = tuple(
                    _share(before, after, parts)
                    for before, after in zip(whole, (flops, moved), strict=True)
                )
                if 0 < shares[0] < 1:
                    shares = _NOTHING, _NOTHING
                rows.append((shares[0], shares[1]))
        return np.array(rows).reshape(len(rows), 2)

    def exponents(self, devices: int, role: Iterable[Hashable]) -> np.ndarray:
        """Return the logarithms of the divisors of operations by a mesh axis with these names."""
        rows = [self._index[name] for name in role]
        found = self._shares_of[rows].sum(0)
        return math.log(devices) * np.where(found < _NOTHING, np.minimum(found, 1.0), found)

    def none(self) -> np.ndarray:
        """Return the exponents with nothing mapped."""
        return np.zeros(self._work.shape)

    def each(self, exponents: np.ndarray) -> np.ndarray:
        """Return the lower bound of the seconds of each operation."""
        return np.asarray((self._work * np.exp(-exponents)).max(-1) * self._weight)

    def seconds(self, exponents: np.ndarray) -> np.ndarray:
        """Return the sum of all operations."""
        return np.asarray(self.each(exponents).sum(-1))

    def compare(self, choice: Choice, seconds: Mapping[_Key, float]) -> None:
        """Leave out the operations that take less time in a layout than their bound."""
        roles = zip(choice.sizes, choice.roles, strict=True)
        each = self.each(sum((self.exponents(n, role) for n, role in roles if n > 1), self.none()))
        claimed = np.bincount(self._group, each, len(self._keys))
        taken = np.array([seconds.get(key, 0.0) for key in self._keys])
        wrong = claimed > taken * (1 + _TIGHT) + _TIGHT**2 * sum(seconds.values())
        self._weight = np.where(wrong[self._group], 0.0, self._weight)

    def merge(self) -> None:
        """Add up operations with equal shares, of which none is limited by both resources."""
        work, shares = self._work * self._weight[:, None], self._shares_of
        same = np.all(shares[..., 0] == shares[..., 1], axis=0)
        one = same | (work.min(1) == 0.0)
        kind = np.where(same, work.argmax(1), (work[:, 1] > 0).astype(int))
        rows: dict[bytes, tuple[np.ndarray, float]] = {}
        for k in np.flatnonzero(one & (work.max(1) > 0)):
            share = shares[:, k, kind[k]]
            _, before = rows.get(share.tobytes(), (share, 0.0))
            rows[share.tobytes()] = share, before + float(work[k].max())
        both = np.flatnonzero(~one)
        merged = [np.stack([share, share], -1) for share, _ in rows.values()]
        kept = [shares[:, k] for k in both]
        self._shares_of = np.stack([*merged, *kept], 1) if merged or kept else shares[:, :0]
        self._work = np.array(
            [(seconds, 0.0) for _, seconds in rows.values()] + [tuple(work[k]) for k in both]
        ).reshape(-1, 2)
        self._weight = np.ones(len(self._work))


def _work(machine: Machine, step: Operation, devices: int) -> tuple[float, float]:
    """Return the seconds of the computation and of the memory traffic of an operation."""
    block = dataclasses.replace(step, flops=step.flops / devices, bytes=step.bytes // devices)
    if is_small(block):
        machine = dataclasses.replace(machine, launch=0.0)  # a small block has no start
    return (
        machine.time_of(dataclasses.replace(step, bytes=0)) if step.flops else 0.0,
        machine.time_of(dataclasses.replace(step, flops=0.0)) if step.bytes else 0.0,
    )


def _line(source: str) -> int:
    """Return the number of a line such as `model.py:12`; -1 if it is unknown."""
    number = source.rpartition(":")[2]
    return int(number) if number.isdigit() else -1


def _share(before: float, after: float, parts: float) -> float:
    """Return the share of work that a name divides into `parts`; `_NOTHING` if it is unclear."""
    if not before:
        return 0.0
    share = (1 - after / before) / (1 - 1 / parts) if parts > 1 else 1.0
    if share > 1 + _SHARE:
        return _NOTHING
    return 1.0 if share > 1 - _SHARE else 0.0 if share < _SHARE else share + _SHARE


_Roles = tuple[Names, ...]


class _Tree:
    """Branch and bound over the names on each mesh axis."""

    def __init__(self, space: Space, claims: _Claims, arguments: Sequence[Held], memory: float):
        self._space, self._claims, self._memory = space, claims, memory
        self._arguments = [
            (held.bytes, frozenset(dim for dim in held.dims if dim is not None))
            for held in arguments
        ]
        self._exponents: dict[tuple[int, Names], np.ndarray] = {}
        self._queue: list[tuple[float, int, tuple[int, ...], int, _Roles]] = []
        self._numbers = itertools.count()
        self._sets: dict[tuple[int, int], list[Names]] = {}
        self._most: dict[tuple[int, int], np.ndarray] = {}

    def open(self, known: Container[Choice], below: float) -> Iterator[Open]:
        """Yield layouts that are not known, by increasing bounds below `below`."""
        seen: set[tuple[tuple[int, ...], _Roles]] = set()
        for sizes in self._space.shapes:
            self._push(sizes, 0, [()], below)
        for _ in range(_STEPS):
            if not self._queue:
                return
            seconds, _, sizes, count, roles = heapq.heappop(self._queue)
            if count < len(sizes):
                self._push(sizes, count + 1, self._next(sizes, roles), below)
                continue
            choice = self._space.canonical(Choice(sizes, roles))
            if (choice.sizes, choice.roles) in seen or self._too_large(choice):
                continue
            seen.add((choice.sizes, choice.roles))
            excess = self._excess(choice)
            if excess is None:
                for one in self._space.variants(choice):
                    if one not in known:
                        yield Open(seconds, one)
            rest = excess or [(i, name) for i, role in enumerate(choice.roles) for name in role]
            self._push(choice.sizes, len(sizes), self._without(choice, rest), below)
        if self._queue:
            yield Open(self._queue[0][0], None)

    def _push(
        self, sizes: tuple[int, ...], count: int, roles: Iterable[_Roles], below: float
    ) -> None:
        """Add layouts with names on the first `count` mesh axes, unless their bound is too high."""
        several = list(roles)
        if not several:
            return
        rows = []
        for one in several:
            exponents = self._claims.none()
            for i, n in enumerate(sizes):
                if n > 1:
                    exponents = exponents + (
                        self._of(n, one[i]) if i < count else self._at_most(i, n)
                    )
            rows.append(exponents)
        for seconds, one in zip(
            self._claims.seconds(np.stack(rows)).tolist(), several, strict=True
        ):
            if seconds < below:
                heapq.heappush(self._queue, (seconds, next(self._numbers), sizes, count, one))

    def _of(self, devices: int, role: Names) -> np.ndarray:
        key = devices, role
        if key not in self._exponents:
            self._exponents[key] = self._claims.exponents(devices, role)
        return self._exponents[key]

    def _at_most(self, axis: int, devices: int) -> np.ndarray:
        """Return the largest divisor of each operation by any set of names on a mesh axis."""
        key = axis, devices
        if key not in self._most:
            self._most[key] = np.stack(
                [self._of(devices, role) for role in self._maximal(axis, devices)]
            ).max(0)
        return self._most[key]

    def _next(self, sizes: tuple[int, ...], roles: _Roles) -> Iterator[_Roles]:
        i = len(roles)
        for role in self._maximal(i, sizes[i]) if sizes[i] > 1 else [frozenset()]:
            yield (*roles, role)

    def _maximal(self, axis: int, devices: int) -> list[Names]:
        """Return the maximal sets of compatible names on a mesh axis."""
        key = axis, devices
        if key not in self._sets:
            self._sets[key] = self._space.maximal(axis, devices, _SETS)
        return self._sets[key]

    def _too_large(self, choice: Choice) -> bool:
        """Return True if the arguments alone exceed the memory."""
        total = 0.0
        for size, dims in self._arguments:
            roles = zip(choice.sizes, choice.roles, strict=True)
            total += size // math.prod(n for n, role in roles if not dims.isdisjoint(role))
        return total > self._memory

    def _excess(self, choice: Choice) -> list[tuple[int, Hashable]] | None:
        """Return names of which at least one must be removed; `None` if the layout is allowed."""
        space = self._space
        for i, role in enumerate(choice.roles):
            for pair in map(frozenset, itertools.combinations(role, 2)):
                if pair in space.apart:
                    return [(i, name) for name in pair]
        for name in space.sizes:
            if not space.divides_into(name, space.blocks(choice, name)):
                return [(i, name) for i, role in enumerate(choice.roles) if name in role]
        return None

    def _without(self, choice: Choice, removed: Iterable[tuple[int, Hashable]]) -> Iterator[_Roles]:
        for i, name in removed:
            if name in self._space.pinned_on(i):
                continue
            roles = list(choice.roles)
            roles[i] = roles[i] - {name}
            yield tuple(roles)
