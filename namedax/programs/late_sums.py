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
import math
from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.extend.core import ClosedJaxpr, Literal

from namedax.core.functions import Source, shown_as
from namedax.core.outside import Traces, traced
from namedax.core.records import Record
from namedax.core.variance import cast_alike, cast_data, varying_of
from namedax.programs.evaluator import Evaluator, as_one_call, has_sums, inlined, opened
from namedax.programs.gathered_forms import with_varying_gathers
from namedax.programs.indices import Index, Indices
from namedax.programs.primitives import (
    LOCAL_KINDS,
    Algebra,
    Kind,
    Scan,
    axes_of,
    bind,
    block_of,
    called,
    cast_axes,
    facts,
    facts_of,
    has_side_effects,
    is_whole_sum,
    kind_of,
    remat_again,
    slice_sizes,
)
from namedax.programs.sums_of_calls import with_sums_after_calls
from namedax.programs.waiting import may_wait
from namedax.resources import communication as comm
from namedax.resources.own_block import sliced

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

        shown_as(flat, source, _ARGUMENTS)
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
    plan = _Plan(jaxpr, dict, loops, seen) if late and has_sums(jaxpr, seen) else None
    if plan is not None and plan.gains:
        return _evaluate(plan, values, whole=True)
    is_cheap = len(jaxpr.eqns) > _FEW and len(jaxpr.invars) + len(jaxpr.outvars) <= _MANY
    if call is not None and is_cheap and not getattr(jax.config, _NO_JIT):
        return call()
    return as_one_call(opened(jaxpr), values)


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

        shown_as(flat, self._source, _ARGUMENTS)
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


# --- what is gained -------------------------------------------------------------------------------------------------


class _Late(Record):
    """What is known of a value that is a sum still to be taken, perhaps with something added.

    Attributes:
      axes: the mesh axes of the sum.
      least: the bytes of the sum, had it been taken at the best place so far.
      source: the operands that were such sums themselves, each used only here.
      gain: whether this operation makes the sum smaller, or one of two.
      cast: the axes over which it was cast to device-varying after the sum, which only a cut into blocks may follow.
      mixed: whether something that is not such a sum is added.
      scatter: the dimension that is cut into blocks, and the axes: the sum over them is a reduce-scatter.
    """

    axes: Axes
    least: int
    source: tuple[Any, ...] = ()
    gain: bool = False
    cast: frozenset[str] = frozenset()
    mixed: bool = False
    scatter: tuple[int, Axes] | None = None

    def then(self, operand: Any, out: Any, gain: bool = False, **changes: Any) -> _Late:
        """After an operation that has this as its operand, and gives `out`. It is a gain if that is smaller than all before."""
        size = _size(out)
        gain, least = gain or size < self.least, min(size, self.least)
        return self.replace(**{"source": (operand,), "gain": gain, "least": least, "scatter": None, **changes})


class _Gather(Record):
    """A sum over mesh axes of blocks among zeros.

    Attributes:
      block: what the blocks are.
      places: the dimensions, and the mesh axes along which the blocks lie in them, the outermost first.
    """

    block: Any
    places: tuple[tuple[int, Axes], ...]


class _Plan:
    """What is done to an open jaxpr: which values are kept as sums still to be taken, and which sums are gathers.

    Args:
      jaxpr: the program.
      known: gives what is known of its inputs, if that is asked for.
      loops: axes that are executed in steps.
      seen: which programs have sums, for `has_sums`.

    Attributes:
      jaxpr: the program without what nothing depends on.
      gathers: the sums that are gathers, by their results.
      late: what is known of sums still to be taken.
      kept: those of them that are not taken at once.
      inner: the plans of what equations run, by the ids of these.
    """

    def __init__(
        self, jaxpr: Any, known: Callable[[], Mapping[Any, Index]], loops: Set[str], seen: dict[int, tuple[bool, Any]]
    ):
        self.loops, self._seen = loops, seen
        self.gathers: dict[Any, _Gather] = {}
        self.late: dict[Any, _Late] = {}
        self.kept: set[Any] = set()
        self.inner: dict[int, _Plan] = {}
        self._look_at(inlined(jaxpr) if loops else with_sums_after_calls(inlined(jaxpr)), known)

    def _look_at(self, jaxpr: Any, known: Callable[[], Mapping[Any, Index]]) -> None:
        # This sees every equation of every body, so it calls functions only for the few that matter.
        facts = facts_of(jaxpr.eqns)
        self.indices = Indices(known, jaxpr, facts)
        pairs = list(zip(jaxpr.eqns, facts, strict=True))
        sums = [eqn for eqn, fact in pairs if fact.kind is Kind.SUM]
        updates = {eqn.outvars[0]: eqn for eqn, fact in pairs if fact.kind is Kind.UPDATE} if sums else {}
        for eqn in sums if updates else ():
            self._find_gather(eqn, updates)
        dead, self.uses = self._uses(jaxpr)
        if dead:
            pairs = [(eqn, fact) for eqn, fact in pairs if id(eqn) not in dead]
            jaxpr = jaxpr.replace(eqns=[eqn for eqn, _ in pairs])
        self.jaxpr, late = jaxpr, self.late
        for eqn, fact in pairs:
            kind = fact.kind
            if kind is Kind.SUM:
                self._visit(eqn)
            elif late:  # before a sum there is nothing that waits
                for var in eqn.invars:
                    if type(var) is not Literal and var in late:
                        self._visit(eqn)
                        break
            if kind not in LOCAL_KINDS:
                self._look_inside(eqn, kind)
        # What leads to a gain is kept; what does not is taken at once.
        for var, found in reversed(late.items()):  # in the order of the program
            if found.gain or var in self.kept:
                self.kept.update(found.source)

    @property
    def gains(self) -> bool:
        """Whether the program, or a part of it that can be changed, sends less."""
        return bool(self.kept or self.gathers or self.inner)

    def _operands(self, eqn: Any) -> Sequence[Any]:
        gather = self.gathers.get(eqn.outvars[0]) if self.gathers and eqn.outvars else None
        return eqn.invars if gather is None else [gather.block]

    def _uses(self, jaxpr: Any) -> tuple[set[int], dict[Any, int]]:
        """The equations that neither results nor side effects depend on, and how often the others use each variable."""
        uses: dict[Any, int] = {}
        for var in jaxpr.outvars:
            if type(var) is not Literal:
                uses[var] = uses[var] + 1 if var in uses else 1
        dead: set[int] = set()
        for eqn in reversed(jaxpr.eqns):
            for out in eqn.outvars:
                if out in uses:
                    break
            else:
                if not (eqn.effects and has_side_effects(eqn)):
                    dead.add(id(eqn))
                    continue
            for var in self._operands(eqn) if self.gathers else eqn.invars:
                if type(var) is not Literal:
                    uses[var] = uses[var] + 1 if var in uses else 1
        return dead, uses

    def places(self) -> tuple[list[int], set[Any]]:
        """The numbers of the equations that are not evaluated as written, and the variables that are read from one of their groups in another."""
        places: list[int] = []
        group, made, needed = 0, dict[Any, int](), {var for var in self.jaxpr.outvars if type(var) is not Literal}
        for number, eqn in enumerate(self.jaxpr.eqns):
            operands = self._operands(eqn) if self.gathers else eqn.invars
            is_changed = id(eqn) in self.inner or not (
                self.kept.isdisjoint(eqn.outvars) and self.gathers.keys().isdisjoint(eqn.outvars)
            )
            for var in operands:
                is_changed = is_changed or (type(var) is not Literal and var in self.kept)
            if is_changed:
                places.append(number)
                group += 1
            for var in operands:
                if type(var) is not Literal and var in made and made[var] != group:
                    needed.add(var)
            for out in eqn.outvars:
                made[out] = group
            group += is_changed
        return places, needed

    def _find_gather(self, eqn: Any, updates: Mapping[Any, Any]) -> None:
        if not is_whole_sum(eqn) or len(eqn.invars) != 1 or isinstance(eqn.invars[0], Literal):
            return
        block, left, places = eqn.invars[0], set(axes_of(eqn)), list[tuple[int, Axes]]()
        while (placed := None if isinstance(block, Literal) else updates.get(block)) is not None:
            base, update, *starts = placed.invars
            found = self.indices.block(base.aval.shape, update.aval.shape, starts)
            if found is None or not self.indices.is_zero(base) or not (left & varying_of(update.aval)).issuperset(found[1]):
                break
            places.append(found)
            block, left = update, left.difference(found[1])
        if places:
            self.gathers[eqn.outvars[0]] = _Gather(block, tuple(places))

    def _look_inside(self, eqn: Any, kind: Kind) -> None:
        """Plans what an equation runs, where that can be changed."""
        inner, operands = called(eqn), eqn.invars
        if kind is Kind.SCAN:
            scan = Scan.of(eqn)
            inner, operands = scan.open_body, operands[: scan.consts]
        if inner is None or not has_sums(inner, self._seen):
            return

        def known() -> dict[Any, Index]:
            facts = ((var, self.indices.of(operand)) for var, operand in zip(inner.invars, operands, strict=False))
            return {var: fact for var, fact in facts if fact is not None}

        plan = _Plan(inner, known, self.loops, self._seen)
        if plan.gains:
            self.inner[id(eqn)] = plan

    def _of(self, var: Any) -> _Late | None:
        """What is known of an operand, if it is a sum and used only once."""
        late = None if isinstance(var, Literal) or self.uses[var] != 1 else self.late.get(var)
        return late if late is not None and late.axes else None

    def _visit(self, eqn: Any) -> None:
        if eqn.outvars and eqn.outvars[0] in self.gathers:
            return
        if is_whole_sum(eqn):
            for operand, var in zip(eqn.invars, eqn.outvars, strict=True):
                before = self._of(operand)
                if before is not None and not (before.cast or before.mixed) and len(eqn.outvars) == 1:
                    self.late[var] = before.then(operand, var, axes=(*before.axes, *axes_of(eqn)), gain=True)
                else:
                    self.late[var] = _Late(axes_of(eqn), _size(var))
            return
        lates = [self._of(var) for var in eqn.invars]
        if not any(lates) or has_side_effects(eqn) or len(eqn.outvars) != 1:
            return
        found = self._linear(eqn, lates)
        if found is not None:
            self.late[eqn.outvars[0]] = found

    def _linear(self, eqn: Any, lates: Sequence[_Late | None]) -> _Late | None:
        operands, (out,) = eqn.invars, eqn.outvars
        if _is_addition(eqn):
            return self._added(operands, lates, out)
        (here, *others) = [i for i, late in enumerate(lates) if late is not None]
        late = lates[here]
        assert late is not None
        if others:
            return None
        if kind_of(eqn) == Kind.OWN_BLOCK and not late.cast and set(axes_of(eqn)) <= set(late.axes):
            return self._scattered(eqn, late, block_of(eqn))
        axes = cast_axes(eqn)
        if axes and axes.isdisjoint(late.axes):
            return None if late.cast else late.then(operands[here], out)
        if axes:
            return late.then(operands[here], out, cast=axes | late.cast) if axes <= set(late.axes) else None
        if late.cast:
            return self._block(eqn, late) if kind_of(eqn) == Kind.SLICE and here == 0 else None
        if axes_of(eqn) and not self.loops.isdisjoint(late.axes):
            return None  # over the steps a sum is taken before what is sent between devices
        wait = may_wait(eqn, {here: late.axes}, lambda i: self.indices.is_zero(operands[i]), exactly=True)
        return late.then(operands[here], out) if wait is not None and not wait.once else None

    def _added(self, operands: Sequence[Any], lates: Sequence[_Late | None], out: Any) -> _Late | None:
        if any(late is not None and late.cast for late in lates):
            return None
        x, y = lates
        if x is not None and y is not None and set(x.axes) == set(y.axes) and _size(out) < x.least + y.least:
            return _Late(x.axes, _size(out), tuple(operands), gain=True, mixed=x.mixed or y.mixed)
        late, operand = (x, operands[0]) if x is not None else (y, operands[1])
        return None if late is None else late.then(operand, out, mixed=True)

    def _block(self, eqn: Any, late: _Late) -> _Late | None:
        """After a sum that was cast has been cut into blocks along its axes."""
        operand, *starts = eqn.invars
        found = self.indices.block(operand.aval.shape, slice_sizes(eqn), starts)
        if found is None or not late.cast.issuperset(found[1]):
            return None
        return self._scattered(eqn, late, found)

    def _scattered(self, eqn: Any, late: _Late, found: tuple[int, Axes]) -> _Late | None:
        """Of a sum of which each device keeps its block: the dimension that is cut, and the axes."""
        left = tuple(axis for axis in late.axes if axis not in found[1] and axis not in self.loops)
        cast = late.cast.difference(found[1])
        # An all-reduce sends twice what a reduce-scatter does; where the sum was smaller than what is cut now, it may send less.
        if _size(eqn.invars[0]) + (2 * _size(eqn.outvars[0]) if left else 0) > 2 * late.least:
            return None
        return late.then(eqn.invars[0], eqn.outvars[0], gain=True, axes=left, cast=cast, scatter=found)


def _is_addition(eqn: Any) -> bool:
    return facts(eqn).algebra in (Algebra.SUM, Algebra.DIFFERENCE)


def _size(var: Any) -> int:
    """In bytes."""
    size: int = math.prod(var.aval.shape) * var.aval.dtype.itemsize
    return size


# --- the program with its sums postponed ----------------------------------------------------------------------------


class _Sum(Record, frozen=False):
    """A sum that is still to be taken: of `part`, over `axes`; `rest` is added to it.

    `source` gives a context in which it has the line and the operation of the equation that was the sum, the first one where sums are
    added up.
    """

    part: Any
    axes: Axes
    source: Callable[[], Any]
    rest: Any = None

    def take(self) -> Any:
        """The value."""
        with self.source():
            total = comm.psum(self.part, self.axes)
        return total if self.rest is None else self.rest + total


def _evaluate(plan: _Plan, values: Sequence[Any], whole: bool = False) -> list[Any]:
    places, needed = plan.places()
    evaluator = Evaluator(plan.jaxpr, values, whole=whole, needed=needed)
    sums: dict[Any, _Sum] = {}

    def gather(eqn: Any, found: _Gather) -> list[Any]:
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


def _apply(eqn: Any, late: _Late, sums: Sequence[_Sum | None], evaluator: Evaluator, loops: Set[str]) -> _Sum:
    """What an operation gives whose operands, where they are not `None`, are sums still to be taken."""
    operands = [None if s is not None else evaluator.read(v) for s, v in zip(sums, eqn.invars, strict=True)]

    def apply(*values: Any) -> Any:
        (result,) = bind(eqn, cast_alike(values))
        return result

    if kind_of(eqn) == Kind.SUM:
        assert sums[0] is not None
        return _Sum(sums[0].part, late.axes, sums[0].source)
    if _is_addition(eqn):
        x, y = sums
        sign = -1 if facts(eqn).algebra == Algebra.DIFFERENCE else 1
        if x is not None and y is not None:
            return _Sum(apply(x.part, y.part), late.axes, x.source, _total(x.rest, y.rest, sign))
        if x is not None:
            return _Sum(x.part, late.axes, x.source, _total(x.rest, operands[1], sign))
        assert y is not None
        return _Sum(y.part if sign > 0 else -y.part, late.axes, y.source, _total(operands[0], y.rest, sign))
    position = next(i for i, s in enumerate(sums) if s is not None)
    (one,) = (s for s in sums if s is not None)

    def on(value: Any) -> Any:
        return apply(*(value if i == position else operand for i, operand in enumerate(operands)))

    rest = None if one.rest is None else on(_in_shape(one.rest, eqn.invars[position].aval))
    if late.scatter is not None:
        dim, axes = late.scatter
        with one.source():
            part = comm.psum(one.part, tuple(axis for axis in one.axes if axis in loops))
            # The sum over a loop is whole now: a step takes its block of it, and adds nothing up.
            for is_loop, group in itertools.groupby(axes, key=lambda axis: axis in loops):
                part = (sliced if is_loop else comm.psum_scatter)(part, dim, tuple(group))
        return _Sum(part, late.axes, one.source, rest)
    if cast_axes(eqn):
        part = cast_data(one.part, cast_axes(eqn))
        return _Sum(part, late.axes, one.source, rest)
    return _Sum(on(one.part), late.axes, one.source, rest)


def _in_shape(value: Any, aval: Any) -> Any:
    """A value that was added to a sum of this type: a scalar, which JAX adds to any shape, in that shape."""
    return value if jnp.shape(value) == aval.shape else jnp.broadcast_to(jnp.asarray(value, aval.dtype), aval.shape)


def _total(x: Any, y: Any, sign: int) -> Any:
    """`x + sign * y`, where `None` is nothing."""
    if y is None:
        return x
    y = -y if sign < 0 else y
    return y if x is None else x + y


def _call(eqn: Any, plan: _Plan, values: Sequence[Any]) -> Sequence[Any]:
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
