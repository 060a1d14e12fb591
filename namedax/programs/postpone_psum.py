"""Postpone psums past operations that commute with them, if that sends fewer bytes.

A program with named axes specifies where it reduces, and each reduction alone is one all-reduce.
Some of these are redundant:

- Sums that are only added can be added before the all-reduce.
- If a sum is only sliced, the slice can be summed instead.
- A sum of which each device keeps its block is a reduce-scatter.
- A sum of blocks among zeros, which JAX makes from the transpose of a local slice, is an
  all-gather.

None of this is visible while the body is traced, because it depends on later operations. The pass
therefore runs on the traced body, before JAX differentiates or lowers it.

A psum is postponed only as long as nothing else uses it, and only if it saves bytes.
Everything else is unchanged. Values that are added to such a psum on the way (a residual) are added
after it has been computed.
"""

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Callable, Sequence, Set
from contextlib import AbstractContextManager
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.core import ShapedArray
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal

from namedax.core.closure_capture import Traces, traced
from namedax.core.functions import Source, set_display_source
from namedax.core.names import MeshAxes, PyTree
from namedax.core.records import Record
from namedax.core.variance import cast_alike, cast_data, varying_of
from namedax.primitives.equations import Scan, axes_of, bind, cast_axes, facts, kind_of
from namedax.primitives.recomputation import remat_again
from namedax.primitives.record import Algebra, Atom, Kind, aval_of
from namedax.programs.evaluator import (
    Evaluator,
    Replacement,
    as_one_call,
    consts_to_inputs,
    has_sums,
)
from namedax.programs.outlining import outlined
from namedax.programs.psum_plan import Gather, Plan, Postponed, is_addition, is_scaling
from namedax.programs.varying_gathers import with_varying_gathers
from namedax.resources import communication as comm
from namedax.resources.communication import sliced

__all__ = ["ClosesOver", "Traced", "postponing"]


Check = Callable[[ClosedJaxpr], None]

# At most `_FEW` equations are bound again for less than the cost of a call. With more than `_MANY`
# arrays, `call_whole` costs less: more at once, and less for each.
_FEW, _MANY = 2, 300
_NO_JIT = "jax_disable_jit"  # with this flag JAX would run the body again

# The blocks are one list: JAX handles an element of a list with fewer function calls than an
# argument of a function.
_ARGUMENTS = inspect.Signature(
    [inspect.Parameter("arguments", inspect.Parameter.POSITIONAL_OR_KEYWORD)]
)


class ClosesOver(Exception):
    """Signal that a body closes over values that have to enter in another way.

    `postponing` raises it to stop a useless trace.

    Args:
      values: all values that the body closes over.
      body: returns the body's results for such values and blocks.
    """

    def __init__(
        self,
        values: list[jax.Array],
        body: Callable[[Sequence[jax.Array], Sequence[jax.Array]], PyTree],
    ):
        super().__init__()
        self.values, self.body = values, body


def postponing(
    body: Callable[..., PyTree],
    loops: Set[str] = frozenset(),
    check: Check | None = None,
    postpones: bool = True,
    traces: Traces = traced,
    source: Source | None = None,
    must_enter: Callable[[Any], bool] | None = None,
) -> Callable[..., PyTree]:
    """Return `body`, a function of blocks for `jax.shard_map`, with its psums postponed.

    Args:
      body: the function.
      loops: axes that are executed in steps; a psum over these runs before communication between
        devices. Default: none.
      check: inspects the traced body, and raises an error if it finds a mistake. Default: no check.
      postpones: whether to postpone psums; default: True.
      traces: the function that traces the body; default: `traced`.
      source: the user's source location of the code in the body; default: none.
      must_enter: returns True for a value that must not be closed over. If there is one, the
        function raises `ClosesOver`. Default: none.
    """

    def run(*datas: jax.Array) -> PyTree:
        if not any(isinstance(data, jax.core.Tracer) for data in datas):
            return body(*datas)
        structures: list[jax.tree_util.PyTreeDef] = []

        def flat(blocks: Sequence[jax.Array]) -> list[jax.Array]:
            leaves, structure = jax.tree.flatten(body(*blocks))
            structures.append(structure)
            return leaves

        set_display_source(flat, source, _ARGUMENTS)
        closed, call = traces(flat, datas)
        if check is not None:
            check(closed)

        def results(
            consts: Sequence[jax.Array],
            datas: Sequence[jax.Array],
            call: Callable[[], list[jax.Array]] | None = None,
        ) -> PyTree:
            return jax.tree.unflatten(
                structures[-1], evaluate(closed.jaxpr, consts, datas, loops, postpones, call)
            )

        if must_enter is not None and any(map(must_enter, closed.consts)):
            raise ClosesOver(closed.consts, results)
        return results(closed.consts, datas, call)

    return run


def evaluate(
    jaxpr: Jaxpr,
    consts: Sequence[jax.Array],
    datas: Sequence[jax.Array],
    loops: Set[str],
    postpones: bool,
    call: Callable[[], list[jax.Array]] | None = None,
) -> list[jax.Array]:
    """Evaluate a traced body, and postpone its psums; use `call` if nothing changes."""
    values = [*consts, *datas]
    if postpones and not loops and (varying := with_varying_gathers(jaxpr, values)) is not None:
        values, jaxpr, call = [*varying.consts, *values], varying.jaxpr, None
    seen: dict[int, tuple[bool, Jaxpr]] = {}
    plan = Plan(jaxpr, dict, loops, seen) if postpones and has_sums(jaxpr, seen) else None
    if plan is not None and plan.gains:
        return _evaluate(plan, values, as_call=True)
    is_cheap = len(jaxpr.eqns) > _FEW and len(jaxpr.invars) + len(jaxpr.outvars) <= _MANY
    shorter = outlined(jaxpr)
    if shorter is jaxpr and call is not None and is_cheap and not getattr(jax.config, _NO_JIT):
        return call()
    return as_one_call(consts_to_inputs(shorter), values)


class Traced:
    """A function of blocks, traced before it is executed, with its psums postponed.

    It returns a flat list.

    Args:
      body: the function.
      loops: axes that are executed in steps; default: none.
      check: inspects the traced body, and raises an error if it finds a mistake. Default: no check.
      postpones: whether to postpone psums; default: True.
      traces: the function that traces the body; default: `traced`.
      source: the user's source location of the code in the body; default: none.
    """

    def __init__(
        self,
        body: Callable[..., list[jax.Array]],
        loops: Set[str] = frozenset(),
        check: Check | None = None,
        postpones: bool = True,
        traces: Traces = traced,
        source: Source | None = None,
    ):
        self._body, self._loops, self._check, self._postpones = body, loops, check, postpones
        self._traces, self._source = traces, source
        self._closed: ClosedJaxpr | None = None

    def trace(self, *datas: jax.Array) -> tuple[()]:
        """Trace the function, and return nothing."""

        def flat(blocks: Sequence[jax.Array]) -> list[jax.Array]:
            return self._body(*blocks)

        set_display_source(flat, self._source, _ARGUMENTS)
        self._closed, _ = self._traces(flat, datas)
        if self._check is not None:
            self._check(self._closed)
        return ()

    def __call__(self, *datas: jax.Array) -> list[jax.Array]:
        """Return the results; without tracers or without a trace, run the function itself."""
        return self.with_closure([] if self._closed is None else self._closed.consts, *datas)

    @property
    def closure(self) -> list[jax.Array]:
        """The values that the traced function closes over."""
        return [] if self._closed is None else list(self._closed.consts)

    def with_closure(self, consts: Sequence[jax.Array], *datas: jax.Array) -> list[jax.Array]:
        """Return the results with `consts` in place of the function's closed-over values."""
        if self._closed is None or not any(
            isinstance(data, jax.core.Tracer) for data in (*consts, *datas)
        ):
            return self._body(*datas)
        return evaluate(self._closed.jaxpr, consts, datas, self._loops, self._postpones)


# --- evaluation with postponed psums --------------------------------------------------------------


class _Operation(Record):
    """An equation that is applied after a psum; `None` among its operands stands for the psum."""

    eqn: JaxprEqn
    operands: tuple[jax.Array | None, ...]

    def of(self, total: jax.Array) -> jax.Array:
        """Return the result for a psum that has been computed."""
        (result,) = bind(
            self.eqn,
            cast_alike([total if operand is None else operand for operand in self.operands]),
        )
        return result

    def of_selection(self, select: Callable[[jax.Array], jax.Array]) -> _Operation:
        """Return the same equation for a subset of the elements.

        `select` takes the subset from arrays. A scalar applies to all elements.
        """
        return self.replace(
            operands=tuple(x if x is None or jnp.ndim(x) == 0 else select(x) for x in self.operands)
        )


class _Sum(Record, frozen=False):
    """A postponed psum of `part` over `axes`, to which `rest` is added, with later `operations`.

    `source` returns a context that gives the psum the line and the operation of its original
    equation; the first one if psums are added together.
    """

    part: jax.Array
    axes: MeshAxes
    source: Callable[[], AbstractContextManager[object]]
    rest: jax.Array | None = None
    operations: tuple[_Operation, ...] = ()

    def take(self) -> jax.Array:
        """Compute the value."""
        with self.source():
            total = comm.psum(self.part, self.axes)
        total = total if self.rest is None else self.rest + total
        for operation in self.operations:
            total = operation.of(total)
        return total


def _evaluate(plan: Plan, values: Sequence[jax.Array], as_call: bool = False) -> list[jax.Array]:
    positions, needed = plan.positions()
    evaluator = Evaluator(plan.jaxpr, values, as_call=as_call, needed=needed)
    sums: dict[Atom, _Sum] = {}

    def gather(eqn: JaxprEqn, found: Gather) -> list[jax.Array]:
        placed = {axis for _, axes in found.dims for axis in axes}
        total = comm.psum(
            evaluator.read(found.block), tuple(axis for axis in axes_of(eqn) if axis not in placed)
        )
        for dim, axes in reversed(found.dims):
            total = comm.all_gather(total, dim, axes, "invarying")
        return [total]

    def postpone(eqn: JaxprEqn, summed: Sequence[_Sum | None]) -> None:
        if any(summed):
            (out,) = eqn.outvars
            sums[out] = _apply(eqn, plan.postponed[out], summed, evaluator, plan.loops)
        else:
            source = functools.partial(evaluator.source_of, eqn)
            pairs = zip(evaluator.operands(eqn), eqn.outvars, strict=True)
            sums.update((var, _Sum(operand, axes_of(eqn), source)) for operand, var in pairs)
        for var in eqn.outvars:
            if var not in plan.kept:
                evaluator.known[var] = cast_data(sums.pop(var).take(), varying_of(var.aval))

    def rule(eqn: JaxprEqn) -> Replacement:
        summed = [None if isinstance(var, Literal) else sums.get(var) for var in eqn.invars]
        found = plan.gathers.get(eqn.outvars[0]) if eqn.outvars else None
        if found is not None:
            return lambda: gather(eqn, found)
        if any(summed) or any(var in plan.kept for var in eqn.outvars):
            return lambda: postpone(eqn, summed)
        inner = plan.inner.get(id(eqn))
        return None if inner is None else lambda: _call(eqn, inner, evaluator.operands(eqn))

    return evaluator.run(rule, positions)


def _apply(
    eqn: JaxprEqn,
    found: Postponed,
    sums: Sequence[_Sum | None],
    evaluator: Evaluator,
    loops: Set[str],
) -> _Sum:
    """Apply an operation to operands; those that are not `None` in `sums` are postponed psums."""
    operands = [
        None if s is not None else evaluator.read(v) for s, v in zip(sums, eqn.invars, strict=True)
    ]

    def apply(*values: jax.Array) -> jax.Array:
        (result,) = bind(eqn, cast_alike(values))
        return result

    if kind_of(eqn) == Kind.SUM:
        assert sums[0] is not None
        return _Sum(sums[0].part, found.axes, sums[0].source)
    position = next(i for i, s in enumerate(sums) if s is not None)
    if found.scaled and (is_addition(eqn) or is_scaling(eqn, position)):
        return _after(eqn, sums, position, evaluator)
    if is_addition(eqn):
        x, y = sums
        sign = -1 if facts(eqn).algebra == Algebra.DIFFERENCE else 1
        if x is not None and y is not None:
            return _Sum(apply(x.part, y.part), found.axes, x.source, _total(x.rest, y.rest, sign))
        if x is not None:
            return _Sum(x.part, found.axes, x.source, _total(x.rest, operands[1], sign))
        assert y is not None
        return _Sum(
            y.part if sign > 0 else -y.part, found.axes, y.source, _total(operands[0], y.rest, sign)
        )
    (one,) = (s for s in sums if s is not None)

    def on(value: jax.Array) -> jax.Array:
        return apply(*(value if operand is None else operand for operand in operands))

    rest = None if one.rest is None else on(_in_shape(one.rest, aval_of(eqn.invars[position])))
    operations = tuple(operation.of_selection(on) for operation in one.operations)
    if found.scatter is not None:
        dim, axes = found.scatter
        with one.source():
            part = comm.psum(one.part, tuple(axis for axis in one.axes if axis in loops))
            # The sum over a loop is now complete: a step slices its block, and sums nothing.
            for is_loop, group in itertools.groupby(axes, key=lambda axis: axis in loops):
                part = (sliced if is_loop else comm.psum_scatter)(part, dim, tuple(group))
        return _Sum(part, found.axes, one.source, rest, operations)
    if cast_axes(eqn):
        part = cast_data(one.part, cast_axes(eqn))
        return _Sum(part, found.axes, one.source, rest, operations)
    return _Sum(on(one.part), found.axes, one.source, rest, operations)


def _after(eqn: JaxprEqn, sums: Sequence[_Sum | None], position: int, evaluator: Evaluator) -> _Sum:
    """Append the equation to the psum at this position; take any other psum first."""
    operands = [
        None if i == position else evaluator.read(var) if s is None else s.take()
        for i, (s, var) in enumerate(zip(sums, eqn.invars, strict=True))
    ]
    one = sums[position]
    assert one is not None
    return one.replace(operations=(*one.operations, _Operation(eqn, tuple(operands))))


def _in_shape(value: jax.Array, aval: ShapedArray) -> jax.Array:
    """Broadcast a value that was added to a psum of this type: JAX adds a scalar to any shape."""
    return (
        value
        if jnp.shape(value) == aval.shape
        else jnp.broadcast_to(jnp.asarray(value, aval.dtype), aval.shape)
    )


def _total(x: jax.Array | None, y: jax.Array | None, sign: int) -> jax.Array | None:
    """Return `x + sign * y`, where `None` is nothing."""
    if y is None:
        return x
    y = -y if sign < 0 else y
    return y if x is None else x + y


def _call(eqn: JaxprEqn, plan: Plan, values: Sequence[jax.Array]) -> Sequence[jax.Array]:
    """Evaluate an equation that runs a jaxpr."""
    if kind_of(eqn) == Kind.REMAT:
        again = jax.make_jaxpr(lambda *xs: _evaluate(plan, xs))(*values)
        assert not again.consts
        return remat_again(eqn, again.jaxpr, values)
    if kind_of(eqn) != Kind.SCAN:
        return _evaluate(plan, values)
    scan = Scan.of(eqn)
    consts, carries = scan.consts, scan.carries

    def iterate(
        carry: list[jax.Array], xs: Sequence[jax.Array]
    ) -> tuple[list[jax.Array], list[jax.Array]]:
        results = _evaluate(plan, [*values[:consts], *carry, *xs], as_call=True)
        return results[:carries], results[carries:]

    start, sliced = list(values[consts : consts + carries]), list(values[consts + carries :])
    last, stacked = lax.scan(iterate, start, sliced, **scan.options)
    return [*last, *stacked]
