"""Plan which psums over mesh axes are postponed (`postpone_psum`), and which are gathers.

A psum is postponed only as long as nothing else uses it, and only if that sends fewer bytes. Two
kinds of operations may stand between the psum and its later position. Both are exact in IEEE
arithmetic, up to the order of additions:

- *Linear operations* (`linear_groups`) are applied to the summands, and the psum is
  taken after them.
- *Scalings*, products and quotients of floats, are not: `p * s` may overflow where `(p + q) * s`
  does not. They are applied after the psum, to the elements that are left of it. `cut(psum(p) * s)`
  becomes `psum(cut(p)) * cut(s)`: every element is computed by the same two operations.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from types import EllipsisType
from typing import Any

import jax.numpy as jnp
from jax import lax
from jax.extend.core import DropVar, Jaxpr, JaxprEqn, Literal, Var

from namedax.core.names import MeshAxes
from namedax.core.records import Record
from namedax.core.variance import varying_of
from namedax.primitives.blocks import Block
from namedax.primitives.equations import (
    Scan,
    axes_of,
    called,
    cast_axes,
    facts,
    facts_of,
    has_side_effects,
    is_whole_sum,
    kind_of,
    slice_sizes,
    sliced_dimension,
)
from namedax.primitives.recomputation import with_jaxpr
from namedax.primitives.record import Algebra, Atom, Kind, Primitive, aval_of
from namedax.primitives.table import LOCAL_KINDS
from namedax.programs.block_demand import with_early_blocks
from namedax.programs.evaluator import has_sums, inlined, number_of

__all__ = [
    "Commuted",
    "Gather",
    "Index",
    "Indices",
    "Plan",
    "Postponed",
    "commute",
    "is_addition",
    "is_scaling",
    "linear_groups",
    "selects",
]


# --- the rule for postponing psums: an operation may run on the summands, before the psum ---------
# Both `postpone_psum` and the steps of a serial loop use postponed psums. An operation that is
# linear in such an operand may run first, if its other operands do not vary along the axes of the
# psum. A value that it adds to the psum (a residual, the padding) counts once, and not once for
# each summand; the caller handles that.


def linear_groups(eqn: JaxprEqn) -> Iterator[frozenset[int]]:
    """Yield sets of operands in which, taken together, the equation is linear."""
    entry, count = facts(eqn), len(eqn.invars)
    for group in entry.linear:
        operands = set[int]()
        for position in group:
            operands.update(
                range(max(operands), count) if isinstance(position, EllipsisType) else (position,)
            )
        if all(entry.when(eqn, i) for i in operands):
            yield frozenset(operands)


def selects(eqn: JaxprEqn) -> bool:
    """Return True if the result selects elements of the first operand at fixed indices."""
    known = facts(eqn)
    return (
        known.selects
        or known.repeats
        or (known.moves and aval_of(eqn.invars[0]).dtype == aval_of(eqn.outvars[0]).dtype)
    )


class Commuted(Record):
    """The application of an operation before a psum over `axes`.

    Attributes:
      axes: the mesh axes of the psum.
      counted_once: operands that are added to the psum, and are not summed themselves.
    """

    axes: MeshAxes
    counted_once: tuple[int, ...]


def commute(
    eqn: JaxprEqn,
    summed: Mapping[int, MeshAxes],
    is_zero: Callable[[int], bool] = lambda i: False,
    exactly: bool = False,
) -> Commuted | None:
    """Return a `Commuted` if the psums of operands may be taken after an equation.

    With `None`, they must be taken before it.

    Args:
      eqn: the equation, with one result.
      summed: the axes of the postponed psum of each operand that has one.
      is_zero: returns True if an operand is zero everywhere, so that it may count any number of
        times. Default: always False.
      exactly: whether to require that summands are rounded in the same way as the psum; default:
        False.
    """
    axes, *others = summed.values()
    if any(set(other) != set(axes) for other in others) or not set(axes_of(eqn)).isdisjoint(axes):
        return None
    if len(eqn.outvars) != 1 or has_side_effects(eqn) or (exactly and not facts(eqn).is_exact):
        return None
    for group in linear_groups(eqn):
        differing = (
            i
            for i, var in enumerate(eqn.invars)
            if i not in group and not varying_of(var.aval).isdisjoint(axes)
        )
        if group.issuperset(summed) and not any(True for _ in differing):
            return Commuted(
                axes, tuple(i for i in sorted(group) if i not in summed and not is_zero(i))
            )
    return None


# --- psums that a jaxpr returns, taken after the call of the jaxpr --------------------------------
# The gradient of a function that is recomputed, or compiled on its own, ends with the psums that
# are the transposes of its casts. Their later use is visible only outside of it.


def _with_sums_after_calls(jaxpr: Jaxpr) -> Jaxpr:
    """Move psums out of calls.

    Return an equivalent open jaxpr. No call in it has a psum as a result that is used exactly once
    by another equation.
    """
    eqns: list[JaxprEqn] = []
    changed = False
    uses: Counter[Atom] | None = None
    for eqn, fact in zip(jaxpr.eqns, facts_of(jaxpr.eqns), strict=True):
        inner = called(eqn) if fact.kind in (Kind.CALL, Kind.REMAT) else None
        if inner is None:
            eqns.append(eqn)
            continue
        uses = _uses(jaxpr) if uses is None else uses
        parts = _apart(eqn, _with_sums_after_calls(inner), uses)
        changed = changed or parts is not None
        eqns += [eqn] if parts is None else parts
    return jaxpr.replace(eqns=eqns) if changed else jaxpr


def _uses(jaxpr: Jaxpr) -> Counter[Atom]:
    """Count the uses of each variable; a result counts twice, since it is used as it is."""
    variables = [var for eqn in jaxpr.eqns for var in eqn.invars] + 2 * list(jaxpr.outvars)
    return Counter(var for var in variables if not isinstance(var, Literal))


def _apart(eqn: JaxprEqn, inner: Jaxpr, uses: Counter[Atom]) -> list[JaxprEqn] | None:
    """Split a call of `inner` into the call and the psums that it returned, if any."""
    sums = {var: part for part in inner.eqns if is_whole_sum(part) for var in part.outvars}
    within = _uses(inner) if sums else Counter[Atom]()
    results, made, after = list(inner.outvars), list(eqn.outvars), list[JaxprEqn]()
    for i, (var, out) in enumerate(zip(inner.outvars, eqn.outvars, strict=True)):
        if isinstance(var, Literal) or isinstance(out, DropVar) or var not in sums:
            continue
        part = sums[var]
        if within[var] != 2 or uses[out] != 1:
            continue
        operand = part.invars[part.outvars.index(var)]
        if isinstance(operand, Literal):
            continue
        results[i], made[i] = operand, Var(operand.aval)
        after.append(part.replace(invars=[made[i]], outvars=[out]))
    return (
        [with_jaxpr(eqn, inner.replace(outvars=results), eqn.invars, made), *after]
        if after
        else None
    )


class Postponed(Record):
    """Facts about a value that is a postponed psum, perhaps with something added.

    Attributes:
      axes: the mesh axes of the psum.
      least: the bytes of the psum at the best position so far.
      source: the operands that were postponed psums themselves, each used only here; default: none.
      gain: True if this operation makes the psum smaller, or merges two; default: False.
      cast: the axes over which it was cast to varying after the psum; only a slice into blocks may
        follow. Default: none.
      mixed: True if a value that is not a postponed psum is added; default: False.
      scaled: True if it has been multiplied or divided after the psum, so that only selections may
        follow; default: False.
      scatter: the dimension that is sliced into blocks, and the axes: the psum over them is a
        reduce-scatter. Default: `None`.
    """

    axes: MeshAxes
    least: int
    source: tuple[Atom, ...] = ()
    gain: bool = False
    cast: frozenset[str] = frozenset()
    mixed: bool = False
    scaled: bool = False
    scatter: tuple[int, MeshAxes] | None = None

    def then(
        self,
        operand: Atom,
        out: Var,
        gain: bool = False,
        scatter: tuple[int, MeshAxes] | None = None,
        **changes: Any,
    ) -> Postponed:
        """Return the facts after an operation on this operand with result `out`.

        A result smaller than all before is a gain.
        """
        size = _size(out)
        gain, least = gain or size < self.least, min(size, self.least)
        return self.replace(source=(operand,), gain=gain, least=least, scatter=scatter, **changes)


class Gather(Record):
    """A psum over mesh axes of blocks among zeros.

    Attributes:
      block: the variable of the blocks.
      dims: the dimensions, each with the mesh axes of its blocks, outermost first.
    """

    block: Atom
    dims: tuple[tuple[int, MeshAxes], ...]


class Plan:
    """Plan for an open jaxpr: the values that stay postponed psums, and the psums that are gathers.

    Args:
      jaxpr: the jaxpr.
      known: returns the device indices among its inputs; called only if they are needed.
      loops: axes that are executed in steps.
      seen: the jaxprs that have psums, for `has_sums`.

    Attributes:
      jaxpr: the jaxpr without its dead code.
      gathers: the psums that are gathers, by their results.
      postponed: the facts about postponed psums.
      kept: the postponed psums that are not taken at once.
      inner: the plans for the jaxprs of equations, by the ids of these equations.
    """

    def __init__(
        self,
        jaxpr: Jaxpr,
        known: Callable[[], Mapping[Atom, Index]],
        loops: Set[str],
        seen: dict[int, tuple[bool, Jaxpr]],
    ):
        self.loops, self._seen = loops, seen
        self.gathers: dict[Atom, Gather] = {}
        self.postponed: dict[Atom, Postponed] = {}
        self.kept: set[Atom] = set()
        self.inner: dict[int, Plan] = {}
        self._is_early = False
        if loops:
            self._look_at(inlined(jaxpr), known)
            return
        self._look_at(_with_sums_after_calls(inlined(jaxpr)), known)
        early = self._with_early_blocks()
        if early is not None:
            self.gathers, self.postponed, self.kept, self.inner = {}, {}, set(), {}
            self._is_early = True
            self._look_at(_with_sums_after_calls(inlined(early)), known)

    def _with_early_blocks(self) -> Jaxpr | None:
        """Return a jaxpr that slices blocks before operations, if more psums are then scattered."""
        slices: dict[int, Block] = {}
        for eqn, fact in zip(self.jaxpr.eqns, facts_of(self.jaxpr.eqns), strict=True):
            if fact.kind is Kind.OWN_BLOCK:
                slices[id(eqn)] = sliced_dimension(eqn)
            elif fact.kind is Kind.SLICE:
                operand, *starts = eqn.invars
                shape, part = aval_of(operand).shape, slice_sizes(eqn)
                found = None if shape == tuple(part) else self.indices.block(shape, part, starts)
                if found is not None:
                    slices[id(eqn)] = found
        if not slices:
            return None

        def is_postponed(var: Atom) -> bool:
            return var in self.gathers or (var in self.kept and not self.postponed[var].mixed)

        return with_early_blocks(self.jaxpr, slices, is_postponed)

    def _look_at(self, jaxpr: Jaxpr, known: Callable[[], Mapping[Atom, Index]]) -> None:
        # This visits every equation of every body, so it calls functions only for the few that
        # matter.
        facts = facts_of(jaxpr.eqns)
        self.indices = Indices(known, jaxpr, facts)
        pairs = list(zip(jaxpr.eqns, facts, strict=True))
        sums = [eqn for eqn, fact in pairs if fact.kind is Kind.SUM]
        updates: dict[Atom, JaxprEqn] = (
            {eqn.outvars[0]: eqn for eqn, fact in pairs if fact.kind is Kind.UPDATE} if sums else {}
        )
        for eqn in sums if updates else ():
            self._find_gather(eqn, updates)
        dead, self.uses = self._uses(jaxpr)
        if dead:
            pairs = [(eqn, fact) for eqn, fact in pairs if id(eqn) not in dead]
            jaxpr = jaxpr.replace(eqns=[eqn for eqn, _ in pairs])
        self.jaxpr, postponed = jaxpr, self.postponed
        for eqn, fact in pairs:
            kind = fact.kind
            if kind is Kind.SUM:
                self._visit(eqn)
            elif postponed:  # before the first psum nothing is postponed
                for var in eqn.invars:
                    if type(var) is not Literal and var in postponed:
                        self._visit(eqn)
                        break
            if kind not in LOCAL_KINDS:
                self._look_inside(eqn, kind)
        # A psum that leads to a gain stays postponed; any other is taken at once.
        for var, found in reversed(postponed.items()):  # in program order
            if found.gain or var in self.kept:
                self.kept.update(found.source)

    @property
    def gains(self) -> bool:
        """True if the jaxpr, or an inner one, sends fewer bytes under this plan."""
        return bool(self._is_early or self.kept or self.gathers or self.inner)

    def _operands(self, eqn: JaxprEqn) -> Sequence[Atom]:
        gather = self.gathers.get(eqn.outvars[0]) if self.gathers and eqn.outvars else None
        return eqn.invars if gather is None else [gather.block]

    def _uses(self, jaxpr: Jaxpr) -> tuple[set[int], dict[Atom, int]]:
        """Return the dead equations, and the number of uses of each variable by the others."""
        uses: dict[Atom, int] = {}
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

    def positions(self) -> tuple[list[int], set[Atom]]:
        """Return the indices of replaced equations, and variables read in later groups."""
        positions: list[int] = []
        group, made = 0, dict[Atom, int]()
        needed: set[Atom] = {var for var in self.jaxpr.outvars if type(var) is not Literal}
        for number, eqn in enumerate(self.jaxpr.eqns):
            operands = self._operands(eqn) if self.gathers else eqn.invars
            is_changed = id(eqn) in self.inner or not (
                self.kept.isdisjoint(eqn.outvars) and self.gathers.keys().isdisjoint(eqn.outvars)
            )
            for var in operands:
                is_changed = is_changed or (type(var) is not Literal and var in self.kept)
            if is_changed:
                positions.append(number)
                group += 1
            for var in operands:
                if type(var) is not Literal and var in made and made[var] != group:
                    needed.add(var)
            for out in eqn.outvars:
                made[out] = group
            group += is_changed
        return positions, needed

    def _find_gather(self, eqn: JaxprEqn, updates: Mapping[Atom, JaxprEqn]) -> None:
        if not is_whole_sum(eqn) or len(eqn.invars) != 1 or isinstance(eqn.invars[0], Literal):
            return
        block: Atom = eqn.invars[0]
        left, dims = set(axes_of(eqn)), list[tuple[int, MeshAxes]]()
        while (placed := None if isinstance(block, Literal) else updates.get(block)) is not None:
            base, update, *starts = placed.invars
            found = self.indices.block(aval_of(base).shape, aval_of(update).shape, starts)
            if (
                found is None
                or not self.indices.is_zero(base)
                or not (left & varying_of(update.aval)).issuperset(found[1])
            ):
                break
            dims.append(found)
            block, left = update, left.difference(found[1])
        if dims:
            self.gathers[eqn.outvars[0]] = Gather(block, tuple(dims))

    def _look_inside(self, eqn: JaxprEqn, kind: Kind) -> None:
        """Plan the jaxpr that an equation runs, if it can be changed."""
        inner, operands = called(eqn), eqn.invars
        if kind is Kind.SCAN:
            scan = Scan.of(eqn)
            inner, operands = scan.open_body, operands[: scan.consts]
        if inner is None or not has_sums(inner, self._seen):
            return

        def known() -> dict[Atom, Index]:
            facts = (
                (var, self.indices.of(operand))
                for var, operand in zip(inner.invars, operands, strict=False)
            )
            return {var: fact for var, fact in facts if fact is not None}

        plan = Plan(inner, known, self.loops, self._seen)
        if plan.gains:
            self.inner[id(eqn)] = plan

    def _of(self, var: Atom) -> Postponed | None:
        """Return the facts about an operand, if it is a postponed psum and used only once."""
        if isinstance(var, Literal) or self.uses[var] != 1:
            return None
        found = self.postponed.get(var)
        return found if found is not None and found.axes else None

    def _visit(self, eqn: JaxprEqn) -> None:
        if eqn.outvars and eqn.outvars[0] in self.gathers:
            return
        if is_whole_sum(eqn):
            for operand, var in zip(eqn.invars, eqn.outvars, strict=True):
                before = self._of(operand)
                if (
                    before is not None
                    and not (before.cast or before.mixed or before.scaled)
                    and len(eqn.outvars) == 1
                ):
                    self.postponed[var] = before.then(
                        operand, var, axes=(*before.axes, *axes_of(eqn)), gain=True
                    )
                else:
                    self.postponed[var] = Postponed(axes_of(eqn), _size(var))
            return
        postponed = [self._of(var) for var in eqn.invars]
        if not any(postponed) or has_side_effects(eqn) or len(eqn.outvars) != 1:
            return
        found = self._linear(eqn, postponed)
        if found is not None:
            self.postponed[eqn.outvars[0]] = found

    def _linear(self, eqn: JaxprEqn, postponed: Sequence[Postponed | None]) -> Postponed | None:
        operands, (out,) = eqn.invars, eqn.outvars
        if is_addition(eqn):
            return self._added(operands, postponed, out)
        here, *others = [i for i, before in enumerate(postponed) if before is not None]
        before = postponed[here]
        assert before is not None
        if others:
            return None
        if (
            kind_of(eqn) == Kind.OWN_BLOCK
            and not before.cast
            and set(axes_of(eqn)) <= set(before.axes)
        ):
            return self._scattered(eqn, before, sliced_dimension(eqn))
        axes = cast_axes(eqn)
        if axes and axes.isdisjoint(before.axes):
            return None if before.cast else before.then(operands[here], out)
        if axes:
            return (
                before.then(operands[here], out, cast=axes | before.cast)
                if axes <= set(before.axes)
                else None
            )
        if (
            is_scaling(eqn, here)
            and not before.cast
            and varying_of(operands[1 - here].aval).isdisjoint(before.axes)
        ):
            return before.then(operands[here], out, scaled=True)
        if before.cast:
            return self._block(eqn, before) if kind_of(eqn) == Kind.SLICE and here == 0 else None
        if axes_of(eqn) and not self.loops.isdisjoint(before.axes):
            return None  # with steps, a psum is taken before any communication between devices
        if before.scaled and not (here == 0 and selects(eqn)):
            return None
        commuted = commute(
            eqn, {here: before.axes}, lambda i: self.indices.is_zero(operands[i]), exactly=True
        )
        if commuted is None or commuted.counted_once:
            return None
        return before.then(operands[here], out)

    def _added(
        self, operands: Sequence[Atom], postponed: Sequence[Postponed | None], out: Var
    ) -> Postponed | None:
        if any(before is not None and before.cast for before in postponed):
            return None
        x, y = postponed
        are_plain = not any(before is not None and before.scaled for before in postponed)
        if are_plain and x is not None and y is not None and set(x.axes) == set(y.axes):
            # Without a gain the result may still be sliced: the psums of parts of a padded value.
            apart = x.least + y.least
            return Postponed(
                x.axes,
                min(_size(out), apart),
                tuple(operands),
                gain=_size(out) < apart,
                mixed=x.mixed or y.mixed,
            )
        before, operand = (x, operands[0]) if x is not None else (y, operands[1])
        return None if before is None else before.then(operand, out, mixed=True)

    def _block(self, eqn: JaxprEqn, before: Postponed) -> Postponed | None:
        """Return the facts after a psum that was cast is sliced into blocks along its axes."""
        operand, *starts = eqn.invars
        found = self.indices.block(aval_of(operand).shape, slice_sizes(eqn), starts)
        if found is None or not before.cast.issuperset(found[1]):
            return None
        return self._scattered(eqn, before, found)

    def _scattered(
        self, eqn: JaxprEqn, before: Postponed, found: tuple[int, MeshAxes]
    ) -> Postponed | None:
        """Return the facts for a psum scattered over `found`, the sliced dimension and the axes."""
        left = tuple(
            axis for axis in before.axes if axis not in found[1] and axis not in self.loops
        )
        cast = before.cast.difference(found[1])
        # An all-reduce sends twice as many bytes as a reduce-scatter. If the psum was smaller than
        # the array sliced here, it may send less.
        if _size(eqn.invars[0]) + (2 * _size(eqn.outvars[0]) if left else 0) > 2 * before.least:
            return None
        return before.then(
            eqn.invars[0], eqn.outvars[0], gain=True, axes=left, cast=cast, scatter=found
        )


def is_addition(eqn: JaxprEqn) -> bool:
    """Return True if an equation adds its operands, or subtracts the second one."""
    return facts(eqn).algebra in (Algebra.SUM, Algebra.DIFFERENCE)


def is_scaling(eqn: JaxprEqn, operand: int) -> bool:
    """Return True if an equation scales floats of this operand by the other one.

    Scaling is a multiplication or a division, and is not linear for floats.
    """
    if (
        operand not in facts(eqn).scales
        or aval_of(eqn.invars[operand]).shape != aval_of(eqn.outvars[0]).shape
    ):
        return False
    return not any(operand in group for group in linear_groups(eqn))


def _size(var: Atom) -> int:
    """Return the size in bytes."""
    size: int = math.prod(aval_of(var).shape) * aval_of(var).dtype.itemsize
    return size


# --- integers that are computed from device indices -----------------------------------------------
# Passes use them to decide whether each device slices its own block of a value, or writes it into
# zeros.


# A sum of multiples of device indices along mesh axes, with the constant under `None`.
Index = dict[str | None, int]


class Indices:
    """Integers of a jaxpr that are sums of multiples of device indices.

    Arrays of zeros count as the integer 0.

    Args:
      known: returns the indices of the inputs.
      jaxpr: the jaxpr, which is inspected when the first index is looked up.
      facts: the facts about its equations.
    """

    def __init__(
        self, known: Callable[[], Mapping[Atom, Index]], jaxpr: Jaxpr, facts: Sequence[Primitive]
    ):
        self._given, self._pairs = known, zip(jaxpr.eqns, facts, strict=True)
        self._known: dict[Atom, Index] | None = None

    def of(self, var: Atom) -> Index | None:
        """Return a sum `{axis: factor}`, with the constant under `None`; `None` if unknown."""
        if not isinstance(var, Literal):
            if self._known is None:
                self._known = dict(self._given())
                for eqn, known in self._pairs:
                    if (
                        known.algebra is not None
                        or known.repeats
                        or known.kind is Kind.DEVICE_INDEX
                    ):
                        self._visit(eqn, known, self._known)
            return self._known.get(var)
        value = number_of(var)
        if value is not None and _is_index(var):
            return {None: int(value)}
        return {None: 0} if value is not None and value == 0 else None

    def is_zero(self, var: Atom) -> bool:
        """Return True if a value is zero everywhere."""
        return self.of(var) == {None: 0}

    def _visit(self, eqn: JaxprEqn, known: Primitive, indices: dict[Atom, Index]) -> None:
        """Record the index that an equation computes."""
        found = None
        if known.kind is Kind.DEVICE_INDEX:
            axes = axes_of(eqn)
            found = {axes[0]: 1, None: 0} if len(axes) == 1 else None
        elif known.repeats or known.kind is Kind.CAST:
            found = self.of(eqn.invars[0])
        elif (
            len(eqn.outvars) == 1
            and eqn.invars
            and all(_is_index(v) for v in (*eqn.outvars, *eqn.invars))
        ):
            terms = [self.of(var) for var in eqn.invars]
            if all(term is not None for term in terms):
                found = self._combine(eqn, [term for term in terms if term is not None])
        if found is not None:
            indices[eqn.outvars[0]] = found

    @staticmethod
    def _combine(eqn: JaxprEqn, terms: list[Index]) -> Index | None:
        algebra, (first, *rest) = facts(eqn).algebra, terms
        if algebra == Algebra.SAME:
            return first
        if algebra == Algebra.SUM:
            return {axis: first.get(axis, 0) + rest[0].get(axis, 0) for axis in {*first, *rest[0]}}
        if algebra == Algebra.PRODUCT:
            scalar, other = (first, rest[0]) if set(first) == {None} else (rest[0], first)
            return (
                {axis: n * scalar[None] for axis, n in other.items()}
                if set(scalar) == {None}
                else None
            )
        # Wrap-around of a negative index, which a device index never is.
        if algebra == Algebra.LESS and rest[0] == {None: 0} and all(n >= 0 for n in first.values()):
            return {None: 0}
        if algebra == Algebra.CHOICE and first == {None: 0}:
            return rest[0]
        return None

    def block(
        self, shape: Sequence[int], part: Sequence[int], starts: Sequence[Atom]
    ) -> tuple[int, MeshAxes] | None:
        """Return the dimension and the mesh axes of blocks of this size at these starts.

        Each device has its block. The mesh axes are major first.
        """
        cut = [dim for dim, (n, size) in enumerate(zip(shape, part, strict=True)) if n != size]
        if len(cut) != 1 or any(
            not self.is_zero(start) for dim, start in enumerate(starts) if dim not in cut
        ):
            return None
        (dim,) = cut
        found = self.of(starts[dim])
        if found is None or found.get(None, 0) != 0:
            return None
        axes = sorted(
            (axis for axis, n in found.items() if axis is not None and n),
            key=lambda axis: -found[axis],
        )
        stride = part[dim]
        for axis in reversed(axes):
            if found[axis] != stride:
                return None
            stride *= lax.axis_size(axis)
        return (dim, tuple(axes)) if stride == shape[dim] else None


def _is_index(var: Atom) -> bool:
    return getattr(var.aval, "shape", None) == () and (
        aval_of(var).dtype == jnp.bool_ or jnp.issubdtype(aval_of(var).dtype, jnp.integer)
    )
