"""Blocks of values of which each device uses its own block only.

The gradient of a gathered parameter ends with a psum and a slice of each device's block. If nothing
is between the two, `postpone_psum` makes them one reduce-scatter. A compiled helper, a helper that
is recomputed for the gradient, a branch and a custom derivative rule leave other operations there.
This module looks for the slices of blocks, and follows their operands back through operations that
keep the sliced dimension. Where it finds a psum, everything in between is computed for the block
alone, and the psum is a reduce-scatter. Each element is computed by the same operations as before.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.extend.core import Jaxpr, JaxprEqn, Literal

from namedax.core.variance import cast_data, varying_of
from namedax.primitives.blocks import WHOLE, Block, Need, block_of, parts_of
from namedax.primitives.equations import (
    axes_of,
    bodies_of,
    called,
    has_side_effects,
    is_whole_sum,
    kind_of,
)
from namedax.primitives.recomputation import remat_again
from namedax.primitives.record import Atom, Kind, aval_of
from namedax.programs.evaluator import Evaluator, Replacement, consts_to_inputs
from namedax.resources import communication as comm

__all__ = ["with_early_blocks"]


_CALLS = (Kind.CALL, Kind.REMAT, Kind.BRANCH)


def with_early_blocks(
    jaxpr: Jaxpr, slices: Mapping[int, Block], is_postponed: Callable[[Atom], bool]
) -> Jaxpr | None:
    """Return a jaxpr that takes blocks before operations, or `None` if no psum is saved.

    The result takes its constants as its first inputs.

    Args:
      jaxpr: an open jaxpr.
      slices: the equations that slice each device's block, by their ids.
      is_postponed: returns True for a postponed psum, whose slice is a reduce-scatter already.
    """
    demand = _Demand(jaxpr, [WHOLE] * len(jaxpr.outvars), slices, is_postponed)
    if not demand.settle([WHOLE] * len(jaxpr.invars)):
        return None
    opened = consts_to_inputs(jaxpr)
    closed = jax.make_jaxpr(lambda *values: demand.run(values))(
        *(var.aval for var in opened.invars)
    )
    return None if closed.consts else closed.jaxpr


def _common(one: Need, other: Need) -> Need:
    return tuple(block for block in one if block in other)


def _cut(value: Any, have: Need, wanted: Need) -> Any:
    """Slice a value, of which these blocks have been taken, to the blocks that are wanted."""
    for dim, axes in wanted:
        if (dim, axes) not in have:
            value = comm.cut(value, dim, axes)
    return value


class _Demand:
    """The blocks that each device uses of the values in an open jaxpr.

    Args:
      jaxpr: the jaxpr.
      results: the blocks that are used of its results.
      slices: see `with_early_blocks`.
      is_postponed: see `with_early_blocks`.

    Attributes:
      needs: the blocks that are used of each variable.
      parts: the blocks that each equation uses of its operands, by its id.
      inner: the demands in the jaxprs that an equation runs, by its id.
      common: the results of a `cond` that are psums in all branches, by the id of the equation. One
        psum after it replaces these.
      summands: as a branch, the operands of these psums.
    """

    def __init__(
        self,
        jaxpr: Jaxpr,
        results: Sequence[Need],
        slices: Mapping[int, Block],
        is_postponed: Callable[[Atom], bool],
    ):
        self.jaxpr, self._results, self._slices = jaxpr, results, slices
        self.needs: dict[Atom, Need] = {}
        self.parts: dict[int, list[Need]] = {}
        self.inner: dict[int, list[_Demand]] = {}
        self.common: dict[int, dict[int, JaxprEqn]] = {}
        self.summands: dict[int, Atom] = {}
        for var, need in zip(jaxpr.outvars, results, strict=True):
            self._add(var, need)
        for eqn in reversed(jaxpr.eqns):
            for var in eqn.outvars:
                if self.needs.get(var) and is_postponed(var):
                    self.needs[var] = WHOLE
            parts = self._parts(eqn)
            if parts is not None:
                self.parts[id(eqn)] = parts
            for i, var in enumerate(eqn.invars):
                self._add(var, WHOLE if parts is None else parts[i])

    def _add(self, var: Atom, need: Need) -> None:
        if not isinstance(var, Literal):
            self.needs[var] = _common(self.needs[var], need) if var in self.needs else need

    def _parts(self, eqn: JaxprEqn) -> list[Need] | None:
        """Return the blocks of operands for the blocks of results; `None` for complete ones."""
        wanted = [self.needs.get(var, WHOLE) for var in eqn.outvars]
        if id(eqn) in self._slices:
            dim, axes = self._slices[id(eqn)]
            # A block of a block, or one over the same mesh axis, is sliced afterwards.
            if any(d == dim or not set(axes).isdisjoint(along) for d, along in wanted[0]):
                wanted[0] = self.needs[eqn.outvars[0]] = WHOLE
            return [tuple(sorted({*wanted[0], (dim, axes)})), *[WHOLE] * (len(eqn.invars) - 1)]
        if not any(wanted) or has_side_effects(eqn):
            return None
        kind = kind_of(eqn)
        if kind is Kind.SUM:
            return self._of_sum(eqn, wanted)
        if kind in _CALLS:
            return self._of_call(eqn, kind, wanted)
        return parts_of(eqn, wanted[0]) if wanted else None

    def _of_sum(self, eqn: JaxprEqn, wanted: Sequence[Need]) -> list[Need] | None:
        if not is_whole_sum(eqn):
            return None
        summed, parts = set(axes_of(eqn)), list[Need]()
        for var, need in zip(eqn.outvars, wanted, strict=True):
            # A block over some axes of the psum and some others is sliced afterwards.
            kept = tuple(
                (dim, axes) for dim, axes in need if summed.isdisjoint(axes) or summed >= set(axes)
            )
            if var in self.needs:
                self.needs[var] = kept
            parts.append(tuple(block for block in kept if summed.isdisjoint(block[1])))
        return parts

    def _of_call(self, eqn: JaxprEqn, kind: Kind, wanted: Sequence[Need]) -> list[Need] | None:
        if kind is Kind.BRANCH:
            bodies = bodies_of(eqn)
            if any(body.consts for body in bodies):
                return None
            jaxprs = [body.jaxpr for body in bodies]
        else:
            inner = called(eqn)
            if inner is None or inner.constvars:
                return None
            jaxprs = [inner]
        common = _common_sums(jaxprs, wanted) if kind is Kind.BRANCH else {}
        within = [WHOLE if i in common else need for i, need in enumerate(wanted)]
        demands = [_Demand(jaxpr, within, {}, lambda var: False) for jaxpr in jaxprs]
        for number, demand in enumerate(demands):
            demand.summands = {i: sums[number].invars[0] for i, sums in common.items()}
        self.common[id(eqn)] = {i: sums[0] for i, sums in common.items()}
        parts = []
        for variables in zip(*(jaxpr.invars for jaxpr in jaxprs), strict=True):
            # An input that is not used can be any block.
            needs = [
                demand.needs[var]
                for demand, var in zip(demands, variables, strict=True)
                if var in demand.needs
            ]
            parts.append(functools.reduce(_common, needs) if needs else WHOLE)
        self.inner[id(eqn)] = demands
        return [WHOLE, *parts] if kind is Kind.BRANCH else parts

    def settle(self, inputs: Sequence[Need]) -> bool:
        """Keep only blocks that are computed from a reduce-scatter.

        All other values are computed completely, as before.

        Args:
          inputs: the blocks of the inputs that are computed in this way, and nothing for others.

        Returns:
          True if there is a reduce-scatter.
        """
        given: dict[Atom, Need] = dict(zip(self.jaxpr.invars, inputs, strict=True))
        self._useful: set[Atom] = {var for var, need in given.items() if need}
        self._scatters = False
        for eqn in self.jaxpr.eqns:
            if id(eqn) in self.parts and self._is_useful(eqn):
                self._useful.update(var for var in eqn.outvars if self.needs.get(var))
        self.needs = {
            var: need if var in self._useful else WHOLE for var, need in self.needs.items()
        } | given
        return self._scatters

    def _is_useful(self, eqn: JaxprEqn) -> bool:
        parts = [
            WHOLE if isinstance(var, Literal) or var not in self._useful else part
            for var, part in zip(eqn.invars, self.parts[id(eqn)], strict=True)
        ]
        scatters = False
        if id(eqn) in self.inner:
            self.parts[id(eqn)], demands = parts, self.inner[id(eqn)]
            found = parts[len(parts) - len(demands[0].jaxpr.invars) :]
            settled = [demand.settle(found) for demand in demands]
            scatters = any(settled) or bool(self.common[id(eqn)])
        elif kind_of(eqn) is Kind.SUM:
            summed = set(axes_of(eqn))
            scatters = any(
                summed.issuperset(axes)
                for var in eqn.outvars
                for _, axes in self.needs.get(var, WHOLE)
            )
        self._scatters = self._scatters or scatters
        return scatters or any(parts)

    def run(self, values: Sequence[Any]) -> list[Any]:
        """Evaluate the jaxpr, and return its results, of which blocks are wanted as such.

        Args:
          values: its constants and inputs; inputs of which blocks are used are these blocks.
        """
        evaluator = self._evaluator = Evaluator(self.jaxpr, values)
        results = evaluator.run(self._rule)
        return [
            _cut(value, self._have(var), need)
            for value, var, need in zip(results, self.jaxpr.outvars, self._results, strict=True)
        ]

    def _have(self, var: Atom) -> Need:
        return WHOLE if isinstance(var, Literal) else self.needs.get(var, WHOLE)

    def _rule(self, eqn: JaxprEqn) -> Replacement:
        if id(eqn) not in self.parts:
            return None
        changed = [var for var in (*eqn.invars, *eqn.outvars) if self._have(var)]
        if not changed:
            return None
        return lambda: self._evaluate(eqn)

    def _evaluate(self, eqn: JaxprEqn) -> list[Any]:
        parts, values = self.parts[id(eqn)], list[Any]()
        for var, part in zip(eqn.invars, parts, strict=True):
            value = self._evaluator.read(var)
            if not hasattr(value, "aval"):
                value = jnp.asarray(value, aval_of(var).dtype)
            values.append(_cut(value, self._have(var), part))
        if id(eqn) in self._slices:
            return [cast_data(values[0], varying_of(aval_of(eqn.outvars[0])))]
        if kind_of(eqn) is Kind.SUM:
            return [
                self._sum(eqn, value, self._have(var))
                for value, var in zip(values, eqn.outvars, strict=True)
            ]
        if id(eqn) in self.inner:
            return self._call(eqn, values)
        return [block_of(eqn, values, self._have(eqn.outvars[0]))]

    def _sum(self, eqn: JaxprEqn, value: jax.Array, need: Need) -> jax.Array:
        left = list(axes_of(eqn))
        for dim, axes in need:
            if set(axes) <= set(left):
                value = comm.psum_scatter(value, dim, axes)
                left = [axis for axis in left if axis not in axes]
        return comm.psum(value, tuple(left)) if left else value

    def _call(self, eqn: JaxprEqn, values: list[Any]) -> list[Any]:
        demands = self.inner[id(eqn)]
        wanted = [self._have(var) for var in eqn.outvars]
        functions = [functools.partial(demand.within, wanted) for demand in demands]
        if kind_of(eqn) is Kind.REMAT:
            again = jax.make_jaxpr(functions[0])(*values)
            assert not again.consts
            return remat_again(eqn, again.jaxpr, values)
        if kind_of(eqn) is not Kind.BRANCH:
            return functions[0](*values)
        index, *operands = values
        found: list[Sequence[Any]] = [
            jax.make_jaxpr(function)(*operands).out_avals for function in functions
        ]
        variances = [
            frozenset[str]().union(*map(varying_of, avals)) for avals in zip(*found, strict=True)
        ]
        results = lax.switch(index, [_alike(f, variances) for f in functions], *operands)
        sums = self.common[id(eqn)]
        return [
            self._sum(sums[i], value, need) if i in sums else value
            for i, (value, need) in enumerate(zip(results, wanted, strict=True))
        ]

    def within(self, wanted: Sequence[Need], *values: Any) -> list[Any]:
        """Evaluate a called jaxpr, and return these blocks of its results.

        Args:
          wanted: the blocks.
          values: the inputs, or the blocks of them that `settle` was told.
        """
        self._results = [WHOLE if i in self.summands else need for i, need in enumerate(wanted)]
        results = self.run(values)
        for i, operand in self.summands.items():
            results[i] = self._evaluator.read(operand)
        return results


def _common_sums(branches: Sequence[Jaxpr], wanted: Sequence[Need]) -> dict[int, list[JaxprEqn]]:
    """Return the results that are psums over the same axes in all branches, and these psums."""
    found: dict[int, list[JaxprEqn]] = {}
    made: list[dict[Atom, JaxprEqn]] = [
        {var: eqn for eqn in jaxpr.eqns for var in eqn.outvars} for jaxpr in branches
    ]
    for i, need in enumerate(wanted):
        last = [_made_by(by, jaxpr.outvars[i]) for by, jaxpr in zip(made, branches, strict=True)]
        sums = [eqn for eqn in last if eqn is not None and _is_simple_sum(eqn)]
        axes = {frozenset(axes_of(eqn)) for eqn in sums}
        if need and len(sums) == len(branches) and len(axes) == 1:
            (summed,) = axes
            if all(summed.issuperset(along) for _, along in need):
                found[i] = sums
    return found


def _made_by(made: Mapping[Atom, JaxprEqn], var: Atom) -> JaxprEqn | None:
    return None if isinstance(var, Literal) else made.get(var)


def _is_simple_sum(eqn: JaxprEqn) -> bool:
    return (
        kind_of(eqn) is Kind.SUM
        and is_whole_sum(eqn)
        and len(eqn.invars) == 1
        and not isinstance(eqn.invars[0], Literal)
    )


def _alike(
    function: Callable[..., list[Any]], variances: Sequence[frozenset[str]]
) -> Callable[..., list[Any]]:
    def cast(*operands: Any) -> list[Any]:
        return [
            cast_data(value, axes)
            for value, axes in zip(function(*operands), variances, strict=True)
        ]

    return cast
