"""Gathers that are varying if their results are used so.

A gathered value counts as invariant, and is cast to varying when it is combined with values that
have a sharded name. The transposes of the gather and the cast are an all-reduce and a slice. The
transpose of a gather that is varying from the start is a reduce-scatter, which sends half as many
bytes.

While a body is traced, operations keep both variants (`namedax.core.variance`). A helper that is
compiled, a helper that is recomputed for the gradient, a branch, a function with a JVP rule and a
function of JAX lose the varying one. This pass therefore searches for it in the traced jaxpr,
before it is differentiated. It does not run on a jaxpr that is executed in steps: each step would
scatter its part of a gradient that is reduced once, after the steps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import jax
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn

from namedax.primitives.equations import (
    axes_of,
    cast_axes,
    dimension_of,
    facts,
    facts_of,
    is_in_groups,
    is_tiled,
    kind_of,
)
from namedax.primitives.record import Atom, Kind, is_inexact
from namedax.programs.evaluator import Replacement, consts_to_inputs, skip
from namedax.programs.loop_casts import CastFinder, WithVariants, elements_of
from namedax.resources import communication as comm

__all__ = ["with_varying_gathers"]


# An all-reduce sends twice as many bytes as a reduce-scatter of the same size.
_ALL_REDUCE = 2


def with_varying_gathers(jaxpr: Jaxpr, values: Sequence[jax.Array]) -> ClosedJaxpr | None:
    """Return a jaxpr whose gathers are varying if their results are used so.

    It has no constants. The result is `None` if nothing is saved.

    Args:
      jaxpr: an open jaxpr.
      values: its constants and inputs, or values of the same types.
    """
    gathers: dict[Atom, JaxprEqn] = {
        eqn.outvars[0]: eqn
        for eqn, fact in zip(jaxpr.eqns, facts_of(jaxpr.eqns), strict=True)
        if fact.kind is Kind.GATHER and fact.is_invariant and _is_complete(eqn)
    }
    wanted = {} if not gathers or _has_gradient(jaxpr) else _wanted(jaxpr, gathers)
    if not wanted:
        return None
    return jax.make_jaxpr(
        lambda *values: _Varying(consts_to_inputs(jaxpr), values, gathers, wanted).run()[0]
    )(*values)


def _is_complete(gather: JaxprEqn) -> bool:
    return is_tiled(gather) and not is_in_groups(gather) and is_inexact(gather.outvars[0].aval)


def _has_gradient(jaxpr: Jaxpr) -> bool:
    """Return True if a jaxpr computes a gradient itself.

    Then the casts have been transposed, and the remaining ones are not differentiated.
    """
    return any("transpose(" in str(eqn.source_info.name_stack) for eqn in reversed(jaxpr.eqns))


def _wanted(jaxpr: Jaxpr, gathers: Mapping[Atom, JaxprEqn]) -> dict[Atom, set[frozenset[str]]]:
    """Return the mesh axes over which results of gathers are cast later, if the cast is not cheap.

    This includes values that are computed from these results alone.
    """
    results = list(gathers)
    finder = CastFinder([elements_of(var) for var in results], _ALL_REDUCE)
    finder.visit(jaxpr, {var: frozenset({(i, frozenset())}) for i, var in enumerate(results)})
    wanted: dict[Atom, set[frozenset[str]]] = {}
    # A gather along one axis may follow one along another: then the first gather must vary too.
    remaining = [
        (results[i], over)
        for i, over in finder.found
        if over.issuperset(axes_of(gathers[results[i]]))
    ]
    while remaining:
        var, over = remaining.pop()
        wanted.setdefault(var, set()).add(over)
        operand, before = gathers[var].invars[0], over.difference(axes_of(gathers[var]))
        if operand in gathers and before.issuperset(axes_of(gathers[operand])):
            remaining.append((operand, before))
    return wanted


class _Varying(WithVariants):
    """Evaluator of a jaxpr whose gathers have variants that vary over more mesh axes.

    Args:
      jaxpr: the jaxpr.
      values: its inputs.
      gathers: its gathers, by their results.
      wanted: the mesh axes over which the results are to vary.
    """

    def __init__(
        self,
        jaxpr: Jaxpr,
        values: Sequence[jax.Array],
        gathers: Mapping[Atom, JaxprEqn],
        wanted: Mapping[Atom, set[frozenset[str]]],
    ) -> None:
        super().__init__(jaxpr, values, [{} for _ in values], [False] * len(values))
        self._gathers, self._wanted = gathers, wanted
        self._made: dict[tuple[object, ...], jax.Array] = {}
        self._casts: dict[Atom, JaxprEqn] = {
            eqn.outvars[0]: eqn for eqn in jaxpr.eqns if cast_axes(eqn)
        }

    def _rule(self, eqn: JaxprEqn) -> Replacement:
        if not eqn.outvars or eqn.outvars[0] not in self._wanted:
            made = self._already_made(eqn)
            if made is None:
                return super()._rule(eqn)
            self.evaluator.known[eqn.outvars[0]] = made
            return skip
        result = eqn.outvars[0]

        def evaluate() -> None:
            self.evaluator.as_it_stands(eqn)
            dim, axes = dimension_of(eqn), axes_of(eqn)
            for over in sorted(self._wanted[result], key=sorted):
                # Cast over the other axes before the gather, while the block is small.
                block = self._variant(eqn.invars[0], over.difference(axes))
                variant = comm.all_gather(block, dim, axes, "varying")
                self.variants.setdefault(result, {})[over] = variant
                self._made[eqn.invars[0], dim, axes, over] = variant
            self._note_plain(eqn)

        return evaluate

    def _already_made(self, eqn: JaxprEqn) -> jax.Array | None:
        """Return the result of a varying gather if this pass has made it."""
        if kind_of(eqn) is not Kind.GATHER or facts(eqn).is_invariant or not _is_complete(eqn):
            return None
        block, axes = eqn.invars[0], axes_of(eqn)
        before = self._casts.get(block)
        over = frozenset(axes)
        if before is not None:
            block, over = before.invars[0], over | cast_axes(before)
        return self._made.get((block, dimension_of(eqn), axes, over))
