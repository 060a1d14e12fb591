"""Outlining: equal parts of a program, as layers of an unrolled model, become calls of one part.

A Python loop over layers repeats the same equations with the same types, and JAX would
differentiate and lower each of them again. It does so once for a jaxpr that is called many times.
XLA inlines the calls, so what is compiled is the same.

Equal equations have the same operation, parameters, results, scopes and source lines. A period is
a distance at which they recur; a run is a stretch of the program that has a period. The parts of a
run whose operands are connected in the same way call one jaxpr.
"""

from __future__ import annotations

import collections
import itertools
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from jax.extend.core import ClosedJaxpr, DropVar, Jaxpr, JaxprEqn, Literal

from namedax.primitives.equations import call_equation, identity_of
from namedax.primitives.record import Atom

__all__ = ["outlined"]

# Fewer equations than `_PROGRAM` are not searched. A part has at least `_PART` equations, which a
# call costs, and occurs at least `_TIMES` times. `benchmarks/unrolled.py` measures what it saves.
_PROGRAM, _PART, _TIMES = 128, 12, 3
# The number of periods that are tried: a program has one in its forward pass, and one in its
# backward pass.
_PERIODS = 4


class _Run(NamedTuple):
    """A stretch of equations that consists of `times` parts of `size` equations."""

    start: int
    size: int
    times: int

    @property
    def stop(self) -> int:
        return self.start + self.size * self.times

    def parts(self) -> Iterator[range]:
        """Yield the positions of the equations of each part."""
        for start in range(self.start, self.stop, self.size):
            yield range(start, start + self.size)


class _Part(NamedTuple):
    """A part of a run.

    Attributes:
      positions: the positions of its equations.
      inputs: the variables that it reads, in the order of their first use.
      connections: what its equations read, independent of the variables.
    """

    positions: range
    inputs: list[Atom]
    connections: Hashable


def outlined(jaxpr: Jaxpr) -> Jaxpr:
    """Return an equal jaxpr in which repeated parts are calls; the same jaxpr if there are none."""
    if len(jaxpr.eqns) < _PROGRAM:
        return jaxpr
    runs = _runs(_numbered(jaxpr.eqns))
    if not runs:
        return jaxpr
    last_use = _last_uses(jaxpr)
    eqns: list[JaxprEqn] = []
    end = 0
    for run in runs:
        eqns += jaxpr.eqns[end : run.start]
        eqns += _outlined_run(jaxpr, run, last_use)
        end = run.stop
    return jaxpr.replace(eqns=eqns + jaxpr.eqns[end:])


def _numbered(eqns: Sequence[JaxprEqn]) -> np.ndarray:
    """Return a number for each equation; equal equations have equal numbers."""
    numbers: dict[Hashable, int] = {}
    unique = itertools.count(-1, -1)
    found = []
    for eqn in eqns:
        identity = identity_of(eqn)
        try:
            number = numbers.setdefault(identity, len(numbers))
        except TypeError:  # a parameter is not hashable
            number = next(unique)
        found.append(next(unique) if identity is None else number)
    return np.asarray(found)


def _runs(numbers: np.ndarray) -> list[_Run]:
    """Return runs that do not overlap, in order."""
    found: list[_Run] = []
    free = np.ones(len(numbers), bool)
    for size in _periods(numbers):
        same = np.zeros(len(numbers) + 1, bool)
        same[: len(numbers) - size] = numbers[:-size] == numbers[size:]
        both_free = free[:-size] & free[size:]
        same[: len(numbers) - size] &= both_free
        edges = np.flatnonzero(np.diff(np.concatenate([[False], same]).astype(np.int8)))
        end = 0  # of the run before, whose last part has no equal one behind it
        for first, stop in zip(edges[::2], edges[1::2], strict=True):
            start = max(int(first), end)
            times = (int(stop) - start) // size + 1
            if times >= _TIMES:
                run = _Run(start, size, times)
                found.append(run)
                free[run.start : run.stop] = False
                end = run.stop
    return sorted(found)


def _periods(numbers: np.ndarray) -> list[int]:
    """Return the distances at which most equations recur, the most frequent one first."""
    positions = collections.defaultdict(list)
    for position, number in enumerate(numbers.tolist()):
        positions[number].append(position)
    votes: collections.Counter[int] = collections.Counter()
    for found in positions.values():
        if len(found) >= _TIMES:
            distances = collections.Counter(b - a for a, b in itertools.pairwise(found))
            distance, count = distances.most_common(1)[0]
            votes[distance] += count
    common = [size for size, _ in votes.most_common() if size >= _PART]
    return common[:_PERIODS]


def _last_uses(jaxpr: Jaxpr) -> dict[Atom, int]:
    """Return the position of the last equation that reads each variable."""
    found: dict[Atom, int] = {}
    for position, eqn in enumerate(jaxpr.eqns):
        for var in eqn.invars:
            if type(var) is not Literal:
                found[var] = position
    found.update((var, len(jaxpr.eqns)) for var in jaxpr.outvars if type(var) is not Literal)
    return found


def _outlined_run(jaxpr: Jaxpr, run: _Run, last_use: dict[Atom, int]) -> Iterable[JaxprEqn]:
    """Return the equations of a run, with calls for parts that are equal."""
    parts = [_part(jaxpr.eqns, positions) for positions in run.parts()]
    equal = collections.defaultdict(list)
    for part in parts:
        equal[part.connections].append(part)
    calls: dict[int, JaxprEqn] = {}
    for same in equal.values():
        if len(same) >= _TIMES:
            calls |= _calls(jaxpr, same, last_use)
    for part in parts:
        call = calls.get(part.positions.start)
        yield from (
            jaxpr.eqns[part.positions.start : part.positions.stop] if call is None else [call]
        )


def _part(eqns: Sequence[JaxprEqn], positions: range) -> _Part:
    made: dict[Atom, Any] = {}
    inputs: dict[Atom, int] = {}
    connections: list[Hashable] = []
    for position in positions:
        eqn = eqns[position]
        for var in eqn.invars:
            if type(var) is Literal:
                continue  # a part of the identity of the equation
            if (known := made.get(var)) is None:
                known = inputs.setdefault(var, len(inputs))
            connections.append(known)
        offset = position - positions.start
        made.update((var, (offset, i)) for i, var in enumerate(eqn.outvars))
    types = tuple(var.aval for var in inputs)
    return _Part(positions, list(inputs), (tuple(connections), types))


def _calls(jaxpr: Jaxpr, parts: Sequence[_Part], last_use: dict[Atom, int]) -> dict[int, JaxprEqn]:
    """Return calls of one jaxpr for equal parts, by the position of the first equation of each."""
    made = [[var for i in part.positions for var in jaxpr.eqns[i].outvars] for part in parts]
    # What is read after one of the parts is a result of all of them.
    needed = [
        column
        for column in range(len(made[0]))
        if any(
            last_use.get(row[column], -1) >= part.positions.stop
            for row, part in zip(made, parts, strict=True)
        )
    ]
    eqns = jaxpr.eqns
    wanted = [[row[column] for column in needed] for row in made]
    complete = (i for i, row in enumerate(wanted) if not any(isinstance(v, DropVar) for v in row))
    first = next(complete, None)
    if first is None:
        return {}
    positions = parts[first].positions
    inner = eqns[positions.start : positions.stop]
    called = ClosedJaxpr(
        jaxpr.replace(
            constvars=[],
            invars=parts[first].inputs,
            outvars=wanted[first],
            eqns=inner,
            effects=frozenset().union(*[eqn.effects for eqn in inner]),
        ),
        (),
    )
    return {
        part.positions.start: call_equation(called, part.inputs, row, eqns[part.positions.start])
        for part, row in zip(parts, wanted, strict=True)
    }
