"""Sums over mesh axes, postponed past what commutes with them, where that sends fewer bytes.

A program over names says where it reduces, and each reduction alone is one all-reduce. Seen together, some are not needed: sums
that are only added can be added before, where a sum is only sliced the slice can be summed, and a sum of which each device
keeps its block is a reduce-scatter. A sum of blocks among zeros, which JAX makes of the transpose of a local slice, is an
all-gather. None of this can be seen while the body is traced, because it depends on what comes after. So it is done to the
traced body, before JAX differentiates or lowers it.

A sum is postponed only as long as nothing else uses it, and only to a place where that gains something; everything else stays
as it was. Values that are added to such a sum on the way (a residual) are added when it has been taken.
"""

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Callable, Sequence, Set
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.extend.core import ClosedJaxpr, Literal

from namedax.core.closure_capture import Traces, traced
from namedax.core.functions import Source, set_display_source
from namedax.core.records import Record
from namedax.core.variance import cast_alike, cast_data, varying_of
from namedax.programs.evaluator import Evaluator, as_one_call, consts_to_inputs, has_sums
from namedax.programs.gathered_forms import with_varying_gathers
from namedax.programs.primitives import Algebra, Kind, Scan, axes_of, bind, cast_axes, facts, kind_of
from namedax.programs.psum_plan import Gather, Late, Plan, is_addition, is_scaling
from namedax.programs.remat import remat_again
from namedax.resources import communication as comm
from namedax.resources.local_slice import sliced

__all__ = ["ClosesOver", "Traced", "postponing"]

Axes = tuple[str, ...]

Check = Callable[[ClosedJaxpr], None]

# So few operations are bound again for less than a call costs. From so many arrays on, `call_whole` costs less: more at once, and less for each.
_FEW, _MANY = 2, 300
_NO_JIT = "jax_disable_jit"  # under which JAX would run the body again

# The blocks are one list: what JAX does for each argument of a function it does for each entry of a list with fewer functions.
_ARGUMENTS = inspect.Signature([inspect.Parameter("arguments", inspect.Parameter.POSITIONAL_OR_KEYWORD)])


class ClosesOver(Exception):
    """A body closes over values that have to enter in another way: `postponing` stops a trace with this that would be of no use.

    Args:
      values: all that it closes over.
      body: gives its results for such values, and blocks.
    """

    def __init__(self, values: list[Any], body: Callable[[Sequence[Any], Sequence[Any]], Any]):
        super().__init__()
        self.values, self.body = values, body


def postponing(
    body: Callable[..., Any],
    loops: Set[str] = frozenset(),
    check: Check | None = None,
    late: bool = True,
    traces: Traces = traced,
    source: Source | None = None,
    must_enter: Callable[[Any], bool] | None = None,
) -> Callable[..., Any]:
    """`body`, a function of blocks that `jax.shard_map` maps, with its sums over mesh axes postponed.

    Args:
      body: the function.
      loops: axes that are executed in steps, over which a sum is taken before what is sent between devices.
      check: looks through the traced body, and raises where something is wrong with it.
      late: whether the sums are postponed, or stay where they are.
      traces: traces it.
      source: where the user has written what the body runs.
      must_enter: whether a value must not be closed over. If there is one, the function raises `ClosesOver`.
    """

    def run(*datas: Any) -> Any:
        if not any(isinstance(data, jax.core.Tracer) for data in datas):
            return body(*datas)
        structures: list[Any] = []

        def flat(blocks: Sequence[Any]) -> list[Any]:
            leaves, structure = jax.tree.flatten(body(*blocks))
            structures.append(structure)
            return leaves

        set_display_source(flat, source, _ARGUMENTS)
        closed, call = traces(flat, datas)
        if check is not None:
            check(closed)

        def results(consts: Sequence[Any], datas: Sequence[Any], call: Callable[[], list[Any]] | None = None) -> Any:
            return jax.tree.unflatten(structures[-1], evaluate(closed.jaxpr, consts, datas, loops, late, call))

        if must_enter is not None and any(map(must_enter, closed.consts)):
            raise ClosesOver(closed.consts, results)
        return results(closed.consts, datas, call)

    return run


def evaluate(
    jaxpr: Any,
    consts: Sequence[Any],
    datas: Sequence[Any],
    loops: Set[str],
    late: bool,
    call: Callable[[], list[Any]] | None = None,
) -> list[Any]:
    """The results of a traced body, its sums postponed if they are to be late; those of `call` where nothing is changed."""
    values = [*consts, *datas]
    if late and not loops and (varying := with_varying_gathers(jaxpr, values)) is not None:
        values, jaxpr, call = [*varying.consts, *values], varying.jaxpr, None
    seen: dict[int, tuple[bool, Any]] = {}
    plan = Plan(jaxpr, dict, loops, seen) if late and has_sums(jaxpr, seen) else None
    if plan is not None and plan.gains:
        return _evaluate(plan, values, whole=True)
    is_cheap = len(jaxpr.eqns) > _FEW and len(jaxpr.invars) + len(jaxpr.outvars) <= _MANY
    if call is not None and is_cheap and not getattr(jax.config, _NO_JIT):
        return call()
    return as_one_call(consts_to_inputs(jaxpr), values)


class Traced:
    """A function of blocks that is traced before it is executed; it returns a flat list. Its sums are postponed.

    Args:
      body: the function.
      loops: axes that are executed in steps.
      check: looks through the traced body, and raises where something is wrong with it.
      late: whether the sums are postponed, or stay where they are.
      traces: traces it.
      source: where the user has written what the body runs.
    """

    def __init__(
        self,
        body: Callable[..., list[Any]],
        loops: Set[str] = frozenset(),
        check: Check | None = None,
        late: bool = True,
        traces: Traces = traced,
        source: Source | None = None,
    ):
        self._body, self._loops, self._check, self._late = body, loops, check, late
        self._traces, self._source = traces, source
        self._closed: ClosedJaxpr | None = None

    def trace(self, *datas: Any) -> tuple[()]:
        """Traces the function, and returns nothing."""

        def flat(blocks: Sequence[Any]) -> list[Any]:
            return self._body(*blocks)

        set_display_source(flat, self._source, _ARGUMENTS)
        self._closed, _ = self._traces(flat, datas)
        if self._check is not None:
            self._check(self._closed)
        return ()

    def __call__(self, *datas: Any) -> list[Any]:
        """The results, for blocks of the types that were traced. What is not to be compiled runs as it is."""
        return self.with_closure([] if self._closed is None else self._closed.consts, *datas)

    @property
    def closure(self) -> list[Any]:
        """What the traced function closes over."""
        return [] if self._closed is None else list(self._closed.consts)

    def with_closure(self, consts: Sequence[Any], *datas: Any) -> list[Any]:
        """The results where `consts` stand for what the traced function closes over."""
        if self._closed is None or not any(isinstance(data, jax.core.Tracer) for data in (*consts, *datas)):
            return self._body(*datas)
        return evaluate(self._closed.jaxpr, consts, datas, self._loops, self._late)


# --- the program with its sums postponed ----------------------------------------------------------------------------


class _Step(Record):
    """An equation that is applied after a sum; among its operands `None` stands for the sum."""

    eqn: Any
    operands: tuple[Any, ...]

    def of(self, total: Any) -> Any:
        """The result for a sum that has been taken."""
        (result,) = bind(self.eqn, cast_alike([total if operand is None else operand for operand in self.operands]))
        return result

    def of_selection(self, select: Callable[[Any], Any]) -> _Step:
        """The same equation for a part of the elements, which `select` takes of arrays; a scalar serves all elements."""
        return self.replace(operands=tuple(x if x is None or jnp.ndim(x) == 0 else select(x) for x in self.operands))


class _Sum(Record, frozen=False):
    """A sum that is still to be taken: of `part`, over `axes`; `rest` is added to it, and then `steps` are applied.

    `source` gives a context in which it has the line and the operation of the equation that was the sum, the first one where sums are
    added up.
    """

    part: Any
    axes: Axes
    source: Callable[[], Any]
    rest: Any = None
    steps: tuple[_Step, ...] = ()

    def take(self) -> Any:
        """The value."""
        with self.source():
            total = comm.psum(self.part, self.axes)
        total = total if self.rest is None else self.rest + total
        for step in self.steps:
            total = step.of(total)
        return total


def _evaluate(plan: Plan, values: Sequence[Any], whole: bool = False) -> list[Any]:
    places, needed = plan.places()
    evaluator = Evaluator(plan.jaxpr, values, whole=whole, needed=needed)
    sums: dict[Any, _Sum] = {}

    def gather(eqn: Any, found: Gather) -> list[Any]:
        lie = {axis for _, axes in found.places for axis in axes}
        whole = comm.psum(evaluator.read(found.block), tuple(axis for axis in axes_of(eqn) if axis not in lie))
        for dim, axes in reversed(found.places):
            whole = comm.all_gather(whole, dim, axes, "invarying")
        return [whole]

    def wait(eqn: Any, waiting: Sequence[_Sum | None]) -> None:
        if any(waiting):
            (out,) = eqn.outvars
            sums[out] = _apply(eqn, plan.late[out], waiting, evaluator, plan.loops)
        else:
            source = functools.partial(evaluator.source_of, eqn)
            pairs = zip(evaluator.operands(eqn), eqn.outvars, strict=True)
            sums.update((var, _Sum(operand, axes_of(eqn), source)) for operand, var in pairs)
        for var in eqn.outvars:
            if var not in plan.kept:
                evaluator.known[var] = cast_data(sums.pop(var).take(), varying_of(var.aval))

    def rule(eqn: Any) -> Any:
        waiting = [None if isinstance(var, Literal) else sums.get(var) for var in eqn.invars]
        found = plan.gathers.get(eqn.outvars[0]) if eqn.outvars else None
        if found is not None:
            return lambda: gather(eqn, found)
        if any(waiting) or any(var in plan.kept for var in eqn.outvars):
            return lambda: wait(eqn, waiting)
        inner = plan.inner.get(id(eqn))
        return None if inner is None else lambda: _call(eqn, inner, evaluator.operands(eqn))

    return evaluator.run(rule, places)


def _apply(eqn: Any, late: Late, sums: Sequence[_Sum | None], evaluator: Evaluator, loops: Set[str]) -> _Sum:
    """What an operation gives whose operands, where they are not `None`, are sums still to be taken."""
    operands = [None if s is not None else evaluator.read(v) for s, v in zip(sums, eqn.invars, strict=True)]

    def apply(*values: Any) -> Any:
        (result,) = bind(eqn, cast_alike(values))
        return result

    if kind_of(eqn) == Kind.SUM:
        assert sums[0] is not None
        return _Sum(sums[0].part, late.axes, sums[0].source)
    position = next(i for i, s in enumerate(sums) if s is not None)
    if late.scaled and (is_addition(eqn) or is_scaling(eqn, position)):
        return _after(eqn, sums, position, evaluator)
    if is_addition(eqn):
        x, y = sums
        sign = -1 if facts(eqn).algebra == Algebra.DIFFERENCE else 1
        if x is not None and y is not None:
            return _Sum(apply(x.part, y.part), late.axes, x.source, _total(x.rest, y.rest, sign))
        if x is not None:
            return _Sum(x.part, late.axes, x.source, _total(x.rest, operands[1], sign))
        assert y is not None
        return _Sum(y.part if sign > 0 else -y.part, late.axes, y.source, _total(operands[0], y.rest, sign))
    (one,) = (s for s in sums if s is not None)

    def on(value: Any) -> Any:
        return apply(*(value if i == position else operand for i, operand in enumerate(operands)))

    rest = None if one.rest is None else on(_in_shape(one.rest, eqn.invars[position].aval))
    steps = tuple(step.of_selection(on) for step in one.steps)
    if late.scatter is not None:
        dim, axes = late.scatter
        with one.source():
            part = comm.psum(one.part, tuple(axis for axis in one.axes if axis in loops))
            # The sum over a loop is whole now: a step takes its block of it, and adds nothing up.
            for is_loop, group in itertools.groupby(axes, key=lambda axis: axis in loops):
                part = (sliced if is_loop else comm.psum_scatter)(part, dim, tuple(group))
        return _Sum(part, late.axes, one.source, rest, steps)
    if cast_axes(eqn):
        part = cast_data(one.part, cast_axes(eqn))
        return _Sum(part, late.axes, one.source, rest, steps)
    return _Sum(on(one.part), late.axes, one.source, rest, steps)


def _after(eqn: Any, sums: Sequence[_Sum | None], position: int, evaluator: Evaluator) -> _Sum:
    """The sum at this position, with the equation as one more step; another sum among the operands is taken."""
    operands = [
        None if i == position else evaluator.read(var) if s is None else s.take()
        for i, (s, var) in enumerate(zip(sums, eqn.invars, strict=True))
    ]
    one = sums[position]
    assert one is not None
    return one.replace(steps=(*one.steps, _Step(eqn, tuple(operands))))


def _in_shape(value: Any, aval: Any) -> Any:
    """A value that was added to a sum of this type: a scalar, which JAX adds to any shape, in that shape."""
    return value if jnp.shape(value) == aval.shape else jnp.broadcast_to(jnp.asarray(value, aval.dtype), aval.shape)


def _total(x: Any, y: Any, sign: int) -> Any:
    """`x + sign * y`, where `None` is nothing."""
    if y is None:
        return x
    y = -y if sign < 0 else y
    return y if x is None else x + y


def _call(eqn: Any, plan: Plan, values: Sequence[Any]) -> Sequence[Any]:
    """An equation that runs a program of its own."""
    if kind_of(eqn) == Kind.REMAT:
        again = jax.make_jaxpr(lambda *xs: _evaluate(plan, xs))(*values)
        assert not again.consts
        return remat_again(eqn, again.jaxpr, values)
    if kind_of(eqn) != Kind.SCAN:
        return _evaluate(plan, values)
    scan = Scan.of(eqn)
    consts, carries = scan.consts, scan.carries

    def iterate(carry: list[Any], xs: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        results = _evaluate(plan, [*values[:consts], *carry, *xs], whole=True)
        return results[:carries], results[carries:]

    start, sliced = list(values[consts : consts + carries]), list(values[consts + carries :])
    last, stacked = lax.scan(iterate, start, sliced, **scan.options)
    return [*last, *stacked]
