"""Loops whose gathers run one step ahead: the pass behind `prefetch=1` of `scan` and `fold`.

The body of a scan is split into two jaxprs. The *gather* computes, from the slices of a step and
from constants alone, the results of collectives. The *rest* takes these results and the carry. The
loop carries the gathered values of its next step, so no collective waits for a computation of its
step, and no computation waits for it.

A scan with gathered values in its carry would save all of them for the gradient. Therefore the loop
has its own backward pass: it saves the carry of each step, gathers again one step ahead, and
computes the step again. It carries the cotangents of gathered values to the next step, whose
computation does not depend on their reduction.

The first gather, the last step and both ends of the backward pass are outside of the loops, so each
slice is gathered once in each pass.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence, Set
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.custom_derivatives import SymbolicZero
from jax.extend.core import ClosedJaxpr, DropVar, Jaxpr, JaxprEqn, Literal, jaxpr_as_fun

from namedax.core.memory_kinds import is_on_host, to_host
from namedax.core.names import PyTree
from namedax.core.records import Record
from namedax.core.variance import cast_data, varying, varying_of
from namedax.primitives.equations import (
    Scan,
    axes_of,
    barrier,
    called,
    has_side_effects,
    is_copy_from_host,
    is_whole_exchange,
    jaxprs_of,
    kind_of,
    open_jaxpr,
)
from namedax.primitives.record import Atom, Kind, aval_of, is_inexact
from namedax.programs.evaluator import Evaluator, Replacement
from namedax.programs.postpone_psum import evaluate
from namedax.programs.two_level import with_two_levels
from namedax.resources.two_level import SlowAxes

__all__ = ["scan_ahead"]

Arrays = list[jax.Array]

_COLLECTIVES = (Kind.SUM, Kind.MAXIMUM, Kind.MINIMUM, Kind.GATHER, Kind.SCATTER, Kind.EXCHANGE)


def scan_ahead(
    step: Callable[[PyTree, PyTree], tuple[PyTree, PyTree]],
    init: PyTree,
    xs: PyTree,
    postpones: bool,
    loops: Set[str],
    slow_axes: SlowAxes,
    **options: Any,
) -> tuple[PyTree, PyTree]:
    """Run `lax.scan(step, init, xs, **options)` with the gathers of a step before it.

    If no collective depends on `xs` alone, the equations are those of `lax.scan`.

    Args:
      step: as for `lax.scan`.
      init: the initial carry.
      xs: the arrays to scan.
      postpones: whether to postpone psums in the body.
      loops: axes that are executed in steps, which have no communication.
      slow_axes: slow mesh axes. The collectives of the backward pass run in two levels too.
      options: the keywords of `lax.scan`.
    """
    closed, shape = jax.make_jaxpr(functools.partial(lax.scan, step, **options), return_shape=True)(
        init, xs
    )
    evaluator = Evaluator(closed.jaxpr, [*closed.consts, *jax.tree.leaves((init, xs))])

    def rule(eqn: JaxprEqn) -> Replacement:
        if kind_of(eqn) is not Kind.SCAN:
            return None
        loop = _Loop.of(Scan.of(eqn), postpones, loops, slow_axes)
        return None if loop is None else lambda: loop(evaluator.operands(eqn))

    return jax.tree.unflatten(jax.tree.structure(shape), evaluator.run(rule))


# --- the two parts of a body ----------------------------------------------------------------------


def _communicates(eqn: JaxprEqn, loops: Set[str]) -> bool:
    """Return True if an equation communicates, other than by the permutations of a ring.

    A copy from the memory of the host communicates too. A ring has its own computation to overlap
    with.
    """
    kind = kind_of(eqn)
    if is_copy_from_host(eqn):
        return True
    if kind in _COLLECTIVES:
        is_ring = kind is Kind.EXCHANGE and not is_whole_exchange(eqn)
        return not is_ring and loops.isdisjoint(axes_of(eqn)) and bool(axes_of(eqn))
    return kind is not Kind.MAP and any(
        _communicates(inner, loops) for part in jaxprs_of(eqn) for inner in open_jaxpr(part).eqns
    )


def _opened(jaxpr: Jaxpr, values: Sequence[Any], loops: Set[str]) -> list[Any]:
    """Evaluate a jaxpr, with calls and recomputations that communicate expanded in place."""
    evaluator = Evaluator(jaxpr, values)

    def rule(eqn: JaxprEqn) -> Replacement:
        inner = called(eqn)
        if inner is None or not _communicates(eqn, loops):
            return None
        return lambda: _opened(inner, evaluator.operands(eqn), loops)

    return evaluator.run(rule)


def _variables(atoms: Sequence[Atom]) -> set[Atom]:
    return {atom for atom in atoms if not isinstance(atom, Literal)}


def _needed(eqns: Sequence[JaxprEqn], wanted: Sequence[Atom], given: Set[Atom]) -> list[JaxprEqn]:
    """Return the equations that compute `wanted` from `given`, in order."""
    needed = _variables(wanted) - given
    found = []
    for eqn in reversed(eqns):
        if has_side_effects(eqn) or not needed.isdisjoint(eqn.outvars):
            found.append(eqn)
            needed |= _variables(eqn.invars) - given
    return found[::-1]


def _with(jaxpr: Jaxpr, eqns: list[JaxprEqn], inputs: list[Any], outputs: list[Atom]) -> Jaxpr:
    effects = frozenset().union(*(eqn.effects for eqn in eqns))
    return jaxpr.replace(constvars=[], invars=inputs, outvars=outputs, eqns=eqns, effects=effects)


def _split(jaxpr: Jaxpr, carried: slice, loops: Set[str]) -> tuple[Jaxpr, Jaxpr] | None:
    """Split a body into the gather, of constants and slices, and the rest, of all operands.

    The rest takes the results of the gather as its last operands. The result is `None` if there is
    nothing to gather.
    """
    consts, slices = jaxpr.invars[: carried.start], jaxpr.invars[carried.stop :]
    early: set[Atom] = {*consts, *slices}
    sliced: set[Atom] = set(slices)
    cut: list[Atom] = []
    for eqn in jaxpr.eqns:
        read = _variables(eqn.invars)
        if has_side_effects(eqn) or not early.issuperset(read):
            continue
        early.update(eqn.outvars)
        if not sliced.isdisjoint(read):
            sliced.update(eqn.outvars)
            if _communicates(eqn, loops):
                cut += [var for var in eqn.outvars if not isinstance(var, DropVar)]
    rest = _needed(jaxpr.eqns, jaxpr.outvars, set(cut))
    used = {*_variables(jaxpr.outvars), *(var for eqn in rest for var in _variables(eqn.invars))}
    cut = [var for var in cut if var in used]
    if not cut:
        return None
    ahead = [
        eqn for eqn in jaxpr.eqns if early.issuperset(eqn.outvars) and not has_side_effects(eqn)
    ]
    gather = _needed(ahead, cut, set())
    return (
        _with(jaxpr, gather, [*consts, *slices], cut),
        _with(jaxpr, rest, [*jaxpr.invars, *cut], list(jaxpr.outvars)),
    )


# --- the loop -------------------------------------------------------------------------------------


def _zeros(shape: Sequence[int], dtype: Any, axes: Set[str]) -> jax.Array:
    return cast_data(jnp.zeros(shape, dtype), axes)


def _at(data: jax.Array, index: Any) -> jax.Array:
    """Return one slice of an array."""
    if isinstance(index, int):
        return lax.index_in_dim(data, index, 0, keepdims=False)
    index = cast_data(index, varying(data))
    return lax.dynamic_index_in_dim(data, index, 0, False, allow_negative_indices=False)


def _put(data: jax.Array, value: jax.Array, index: Any) -> jax.Array:
    """Return an array with one slice replaced."""
    index = cast_data(jnp.asarray(index, jnp.int32), varying(data))
    return lax.dynamic_update_index_in_dim(data, value, index, 0, allow_negative_indices=False)


def _reads(jaxpr: Jaxpr) -> list[bool]:
    """Return, for each input of a jaxpr, whether it has a derivative."""
    used = _variables(jaxpr.outvars).union(*(_variables(eqn.invars) for eqn in jaxpr.eqns))
    return [var in used and is_inexact(var.aval) for var in jaxpr.invars]


def _pull(
    jaxpr: Jaxpr, values: Sequence[jax.Array], over: Sequence[bool], cts: Sequence[jax.Array]
) -> list[jax.Array | None]:
    """Return the cotangents of the inputs for which `over` is True; `None` for the others.

    Args:
      jaxpr: an open jaxpr without constants.
      values: its inputs.
      over: whether to differentiate for each input.
      cts: the cotangents of the results that have some.
    """
    positions = [i for i, one in enumerate(over) if one]
    outputs = [i for i, var in enumerate(jaxpr.outvars) if is_inexact(var.aval)]

    def of(*chosen: jax.Array) -> list[jax.Array]:
        filled = list(values)
        for i, value in zip(positions, chosen, strict=True):
            filled[i] = value
        results = jaxpr_as_fun(ClosedJaxpr(jaxpr, ()))(*filled)
        return [results[i] for i in outputs]

    found: list[jax.Array | None] = [None] * len(values)
    _, pull = jax.vjp(of, *(values[i] for i in positions))
    for i, ct in zip(positions, pull(list(cts)), strict=True):
        found[i] = ct
    return found


def _plus(total: jax.Array, *parts: jax.Array | None) -> jax.Array:
    for part in parts:
        total = total if part is None else lax.add(total, part)
    return total


class _Loop(Record):
    """A loop whose gathers run one step ahead.

    Attributes:
      gather: the gather of a step.
      rest: the rest of a step.
      consts: the number of constants.
      carries: the number of leaves of the carry.
      length: the number of steps, at least 2.
      reverse: whether the last slice comes first.
      unroll: as in `lax.scan`.
    """

    gather: Jaxpr
    rest: Jaxpr
    consts: int
    carries: int
    length: int
    reverse: bool
    unroll: int | bool

    @classmethod
    def of(cls, scan: Scan, postpones: bool, loops: Set[str], slow_axes: SlowAxes) -> _Loop | None:
        """Return the loop for a scan; `None` if it has nothing to gather ahead."""
        body, length = scan.open_body, scan.options["length"]
        if body is None or length < 2:
            return None
        if not any(_communicates(eqn, loops) for eqn in body.eqns):
            return None
        carried = slice(scan.consts, scan.consts + scan.carries)

        def traced(function: Callable[..., list[Any]]) -> ClosedJaxpr:
            return jax.make_jaxpr(function)(*scan.body.in_avals)

        def opened(closed: ClosedJaxpr) -> ClosedJaxpr:
            jaxpr, consts = closed.jaxpr, closed.consts
            return traced(lambda *values: _opened(jaxpr, [*consts, *values], loops))

        closed = opened(ClosedJaxpr(body, ()))
        if postpones:
            jaxpr, consts = closed.jaxpr, closed.consts
            closed = opened(
                traced(lambda *values: evaluate(jaxpr, consts, values, loops, postpones=True))
            )
        if closed.consts:
            return None
        parts = _split(closed.jaxpr, carried, loops)
        if parts is None:
            return None
        # The outer pass does not find the rules of derivatives, so both parts are rewritten here.
        gather, rest = (with_two_levels(part, slow_axes) for part in parts)
        return cls(gather, rest, scan.consts, scan.carries, **scan.options)

    def __call__(self, operands: Sequence[jax.Array]) -> list[jax.Array]:
        """Run the loop, on the operands of the scan."""

        def primal(consts: Arrays, init: Arrays, xs: Arrays) -> Arrays:
            return self._forward(consts, init, xs, save=False)[0]

        def forward(consts: list[Any], init: list[Any], xs: list[Any]) -> tuple[Arrays, PyTree]:
            values, start, scanned = ([one.value for one in group] for group in (consts, init, xs))
            # Flags without leaves, because a rule must not depend on values.
            flags: list[list[PyTree]] = [
                [[] if one.perturbed else None for one in group] for group in (consts, xs)
            ]
            results, saved = self._forward(values, start, scanned, save=True)
            return results, (flags, values, scanned, saved)

        def backward(residuals: PyTree, cts: list[Any]) -> tuple[Any, ...]:
            flags, consts, xs, saved = residuals
            felt = [[one is not None for one in group] for group in flags]
            return self._backward(consts, xs, saved, felt, cts)

        function = jax.custom_vjp(primal)
        function.defvjp(forward, backward, symbolic_zeros=True)
        first, last = self.consts, self.consts + self.carries
        return function(list(operands[:first]), list(operands[first:last]), list(operands[last:]))

    def _index(self, step: Any) -> Any:
        """Return the index of the slice of a step."""
        return self.length - 1 - step if self.reverse else step

    def _take(self, xs: Sequence[jax.Array], step: Any) -> Arrays:
        return [_at(data, self._index(step)) for data in xs]

    def _gathered(self, consts: Arrays, xs: Arrays, step: Any) -> Arrays:
        """Return the gathered values of a step."""
        return list(jaxpr_as_fun(ClosedJaxpr(self.gather, ()))(*consts, *self._take(xs, step)))

    def _gathered_again(self, consts: Arrays, xs: Arrays, step: Any) -> Arrays:
        """Return the gathered values of a step, in the backward pass."""
        slices = self._take(xs, step)
        # Outside of a loop, XLA would keep the values that it gathered in the forward pass.
        if isinstance(step, int) or self.unroll != 1:
            slices = barrier(slices)
        return list(jaxpr_as_fun(ClosedJaxpr(self.gather, ()))(*consts, *slices))

    def _step(self, consts: Arrays, carry: Arrays, slices: Arrays, gathered: Arrays) -> Arrays:
        return list(jaxpr_as_fun(ClosedJaxpr(self.rest, ()))(*consts, *carry, *slices, *gathered))

    def _forward(
        self, consts: Arrays, init: Arrays, xs: Arrays, save: bool
    ) -> tuple[Arrays, tuple[Arrays, Arrays, Arrays]]:
        """Return the results; the carries of all steps but the last; and the last operands."""
        count, end = self.carries, self.length - 1
        outputs = [aval_of(var) for var in self.rest.outvars[count:]]
        made = [_zeros((end + 1, *a.shape), a.dtype, varying_of(a)) for a in outputs]

        def put(made: Arrays, results: Arrays, step: Any) -> Arrays:
            index = self._index(step)
            return [_put(old, new, index) for old, new in zip(made, results, strict=True)]

        def step(
            state: tuple[Arrays, Arrays, Arrays], number: jax.Array
        ) -> tuple[tuple[Arrays, Arrays, Arrays], Arrays]:
            carry, gathered, made = state
            following = self._gathered(consts, xs, number + 1)
            results = self._step(consts, carry, self._take(xs, number), gathered)
            after = (results[:count], following, put(made, results[count:], number))
            return after, carry if save else []

        start = init, self._gathered(consts, xs, 0), made
        (carry, gathered, made), saved = lax.scan(step, start, jnp.arange(end), unroll=self.unroll)
        results = self._step(consts, carry, self._take(xs, end), gathered)
        made = put(made, results[count:], end)
        return [*results[:count], *made], (saved, carry, gathered)

    def _backward(
        self,
        consts: Arrays,
        xs: Arrays,
        saved: tuple[Arrays, Arrays, Arrays],
        felt: list[list[bool]],
        cts: list[Any],
    ) -> tuple[list[Any], list[Any], list[Any]]:
        carries, last_carry, last_gathered = saved
        # Otherwise XLA would keep the results of the last step from the forward pass.
        kept = barrier([*last_carry, *last_gathered])
        last_carry, last_gathered = kept[: self.carries], kept[self.carries :]
        back = _Backward(self, consts, xs, felt, cts)
        end = self.length - 1
        ahead = self._gathered_again(consts, xs, end - 1)
        back.compute(end, last_carry, last_gathered)

        def step(state: tuple[Any, Arrays], number: jax.Array) -> tuple[tuple[Any, Arrays], None]:
            back.state, gathered = state
            following = self._gathered_again(consts, xs, number - 1)
            back.reduce(number + 1)
            back.compute(number, [_at(data, number) for data in carries], gathered)
            return (back.state, following), None

        if end > 1:
            (back.state, ahead), _ = lax.scan(
                step, (back.state, ahead), jnp.arange(1, end), reverse=True, unroll=self.unroll
            )
        back.reduce(1)
        back.compute(0, [_at(data, 0) for data in carries], ahead)
        back.reduce(0)
        return back.cotangents()


class _Backward:
    """The backward pass of a loop.

    Args:
      loop: the loop.
      consts: its constants.
      xs: its scanned arrays.
      felt: for the constants, and for the scanned arrays, whether their cotangents are needed.
      cts: the cotangents of the results.

    Attributes:
      state: the cotangents of the carry and of the gathered values of the last step, and the sums
        so far for constants and scanned arrays.
    """

    def __init__(
        self, loop: _Loop, consts: Arrays, xs: Arrays, felt: list[list[bool]], cts: list[Any]
    ):
        self.loop, self.consts, self.xs = loop, consts, xs
        n = loop.carries
        of_consts, of_xs = felt
        reads_gather, reads_rest = _reads(loop.gather), _reads(loop.rest)
        wanted = [*of_consts, *of_xs]
        self.by_gather = [a and b for a, b in zip(reads_gather, wanted, strict=True)]
        self.has_gather = any(self.by_gather)
        # A carry may depend on anything; a gathered value, on any operand of the gather.
        wanted = [*of_consts, *[True] * n, *of_xs, *[self.has_gather] * len(loop.gather.outvars)]
        self.by_rest = [a and b for a, b in zip(reads_rest, wanted, strict=True)]
        outputs = [aval_of(var) for var in loop.rest.outvars]
        cts = [_instantiated(ct) for ct in cts]
        self.of_results = [ct for ct, a in zip(cts[n:], outputs[n:], strict=True) if is_inexact(a)]
        carry = [ct for ct, a in zip(cts[:n], outputs[:n], strict=True) if is_inexact(a)]
        self.is_carry = [is_inexact(a) for a in outputs[:n]]
        m = len(consts)
        self.felt = [
            a or b
            for a, b in zip(
                self.by_gather,
                [*self.by_rest[:m], *self.by_rest[m + n : m + n + len(xs)]],
                strict=True,
            )
        ]
        sums = [
            _zeros_like(data) if one else None
            for data, one in zip([*consts, *xs], self.felt, strict=True)
        ]
        self.state: tuple[Arrays, list[Any], list[Any]] = (carry, [], sums)

    def _add(self, cts: Sequence[jax.Array | None], step: Any, is_first: Sequence[bool]) -> None:
        """Add cotangents of constants and slices to the sums."""
        carry, gathered, sums = self.state
        index, m = self.loop._index(step), len(self.consts)
        sums = list(sums)
        for i, ct in enumerate(cts):
            if ct is None:
                continue
            if i < m:
                sums[i] = _plus(sums[i], ct)
            else:
                before = None if is_first[i] else _at(sums[i], index)
                sums[i] = _put(sums[i], _plus(ct, before), index)
        self.state = carry, gathered, sums

    def compute(self, step: Any, carry: Arrays, gathered: Arrays) -> None:
        """Compute a step again, and its cotangents."""
        loop, (of_carry, _, sums) = self.loop, self.state
        slices = loop._take(self.xs, step)
        results = [_at(ct, loop._index(step)) for ct in self.of_results]
        values = [*self.consts, *carry, *slices, *gathered]
        found = _pull(loop.rest, values, self.by_rest, [*of_carry, *results])
        m, n, s = len(self.consts), len(carry), len(slices)
        of_carry = [
            _zeros(old.shape, old.dtype, varying(old)) if ct is None else ct
            for old, ct, one in zip(carry, found[m : m + n], self.is_carry, strict=True)
            if one
        ]
        of_gathered = [
            None if not is_inexact(old) else _zeros_like(old) if ct is None else ct
            for old, ct in zip(gathered, found[m + n + s :], strict=True)
        ]
        self.state = of_carry, of_gathered if self.has_gather else [], sums
        self._add([*found[:m], *found[m + n : m + n + s]], step, [True] * (m + s))

    def reduce(self, step: Any) -> None:
        """Compute the cotangents of the operands of a gather."""
        if not self.has_gather:
            return
        loop, (_, gathered, _) = self.loop, self.state
        values = [*self.consts, *loop._take(self.xs, step)]
        cts = [ct for ct in gathered if ct is not None]
        found = _pull(loop.gather, values, self.by_gather, cts)
        m, n = len(self.consts), loop.carries
        direct = [*self.by_rest[:m], *self.by_rest[m + n : m + n + len(self.xs)]]
        self._add(found, step, [not one for one in direct])

    def cotangents(self) -> tuple[list[Any], list[Any], list[Any]]:
        """Return the cotangents of constants, initial carry and scanned arrays."""
        carry, _, sums = self.state
        supply = iter(carry)
        m = len(self.consts)
        return sums[:m], [next(supply) if one else None for one in self.is_carry], sums[m:]


def _zeros_like(data: jax.Array) -> jax.Array:
    if is_on_host(data):  # not a copy of all zeros
        return lax.broadcast(to_host(_zeros((), data.dtype, varying(data))), data.shape)
    return _zeros(data.shape, data.dtype, varying(data))


def _instantiated(ct: Any) -> Any:
    """Return a cotangent as an array; one without a derivative is returned unchanged."""
    aval: Any = ct.aval if isinstance(ct, SymbolicZero) else None
    if aval is None or not is_inexact(aval):
        return ct
    return _zeros(aval.shape, aval.dtype, varying_of(aval))
