"""Gathers whose results are cast to varying later, taken in the varying form from the start.

A gathered value counts as invariant, and is cast to varying when it is combined with values that have a sharded name. The
transposes of the gather and the cast are an all-reduce and a slice. The transpose of a gather that is varying from the start is
a reduce-scatter, which sends half as many bytes.

While a body is traced, operations keep both forms (`namedax.core.variance`). A helper that is compiled, a helper that is
recomputed for the gradient, and a function of JAX lose the second form. This pass therefore searches for it in the traced
jaxpr, before it is differentiated. It does not run on a jaxpr that is executed in steps: each step would scatter its part of a
gradient that is reduced once, after the steps.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import jax
from jax.extend.core import ClosedJaxpr

from namedax.programs.evaluator import consts_to_inputs, is_inexact
from namedax.programs.loop_casts import CastFinder, WithForms
from namedax.programs.primitives import Kind, MeshAxes, axes_of, dimension_of, facts_of, is_in_groups, is_tiled
from namedax.resources import communication as comm

__all__ = ["with_varying_gathers"]

# An all-reduce sends twice as many bytes as a reduce-scatter of the same size.
_ALL_REDUCE = 2


def with_varying_gathers(jaxpr: Any, values: Sequence[Any]) -> ClosedJaxpr | None:
    """Return a jaxpr without constants that gathers in the form in which results are used; `None` if nothing is saved.

    Args:
      jaxpr: an open jaxpr.
      values: its constants and inputs, or values of the same types.
    """
    gathers = {
        eqn.outvars[0]: eqn
        for eqn, fact in zip(jaxpr.eqns, facts_of(jaxpr.eqns), strict=True)
        if fact.kind is Kind.GATHER and fact.is_invariant and _is_whole(eqn)
    }
    wanted = {} if not gathers or _has_gradient(jaxpr) else _wanted(jaxpr, gathers)
    if not wanted:
        return None
    return jax.make_jaxpr(lambda *values: _Varying(consts_to_inputs(jaxpr), values, gathers, wanted).run()[0])(*values)


def _is_whole(gather: Any) -> bool:
    return is_tiled(gather) and not is_in_groups(gather) and is_inexact(gather.outvars[0].aval)


def _has_gradient(jaxpr: Any) -> bool:
    """Return True if a jaxpr computes a gradient itself.

    Then the casts have been transposed, and the remaining ones are not differentiated.
    """
    return any("transpose(" in str(eqn.source_info.name_stack) for eqn in reversed(jaxpr.eqns))


def _wanted(jaxpr: Any, gathers: Mapping[Any, Any]) -> dict[Any, set[MeshAxes]]:
    """Return the mesh axes over which results of gathers are cast later, if the cast is not cheap.

    This includes values that are computed from these results alone.
    """
    results = list(gathers)
    finder = CastFinder([math.prod(var.aval.shape) for var in results], _ALL_REDUCE)
    finder.visit(jaxpr, {var: frozenset({(i, frozenset())}) for i, var in enumerate(results)})
    wanted: dict[Any, set[MeshAxes]] = {}
    # A gather along one axis may follow one along another: then the first gather must vary too.
    waiting = [(results[i], over) for i, over in finder.found if over.issuperset(axes_of(gathers[results[i]]))]
    while waiting:
        var, over = waiting.pop()
        wanted.setdefault(var, set()).add(over)
        operand, before = gathers[var].invars[0], over.difference(axes_of(gathers[var]))
        if operand in gathers and before.issuperset(axes_of(gathers[operand])):
            waiting.append((operand, before))
    return wanted


class _Varying(WithForms):
    """Evaluator of a jaxpr whose gathers have forms that vary over more mesh axes.

    Args:
      jaxpr: the jaxpr.
      values: its inputs.
      gathers: its gathers, by their results.
      wanted: the mesh axes over which the results are to vary.
    """

    def __init__(
        self, jaxpr: Any, values: Sequence[Any], gathers: Mapping[Any, Any], wanted: Mapping[Any, set[MeshAxes]]
    ) -> None:
        super().__init__(jaxpr, values, [{} for _ in values], [False] * len(values))
        self._gathers, self._wanted = gathers, wanted

    def _rule(self, eqn: Any) -> Any:
        result = eqn.outvars[0] if eqn.outvars else None
        if result not in self._wanted:
            return super()._rule(eqn)

        def evaluate() -> None:
            self.evaluator.as_it_stands(eqn)
            dim, axes = dimension_of(eqn), axes_of(eqn)
            for over in sorted(self._wanted[result], key=sorted):
                # Cast over the other axes before the gather, while the block is small.
                block = self._form(eqn.invars[0], over.difference(axes))
                self.forms.setdefault(result, {})[over] = comm.all_gather(block, dim, axes, "varying")
            self._note_formless(eqn)

        return evaluate
