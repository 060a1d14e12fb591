"""Forward pass over a traced body that tracks which dimensions of its blocks are sharded.

The pass finds functions of JAX that mix elements of a block. The data of each argument of a body
have known dimensions, so the mesh axes that shard each dimension are known. Each equation
propagates the shardings as the record of its primitive says (`namedax.primitives`). An
operation of namedax may do anything with a sharded dimension. An equation from user code must not
mix elements along it, and must not draw numbers for the elements of a block.

An equation whose primitive has no record is a finding, if it takes a sharded value: it may mix
elements. Its results, and all values without a known sharding, count as not sharded.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence, Set
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal

from namedax.core.names import Dims
from namedax.core.records import Record
from namedax.core.variance import varying_of
from namedax.primitives.dimensions import NONE, by_alignment, united
from namedax.primitives.equations import (
    MARK,
    Scan,
    While,
    bodies_of,
    called_in_steps,
    facts,
    kind_of,
    mapped_jaxpr,
    marked_axes_moved,
    names_of,
    open_jaxpr,
    solve,
)
from namedax.primitives.record import (
    AnyJaxpr,
    Atom,
    Forward,
    Kind,
    Mixed,
    Primitive,
    Sharding,
    aval_of,
)
from namedax.primitives.table import TABLE, names_with

__all__ = ["Dimensions", "Finding", "findings", "is_used"]

Path = tuple[JaxprEqn, ...]
Shardings = tuple[Sharding | None, ...]


_ELEMENTWISE = names_with(lambda record: record.is_elementwise)
# Primitives whose result may have a sharded dimension even if no operand has one.
_SHARDING = names_with(lambda record: record.kind in (Kind.SCATTER, Kind.EXCHANGE, Kind.OWN_BLOCK))


def _rule(record: Primitive) -> Forward | None:
    aligned = record.aligned
    if record.forward is not None or aligned is None:
        return record.forward
    return lambda eqn, known: by_alignment(aligned(eqn), eqn, known)


_RULES = {name: rule for name, record in TABLE.items() if (rule := _rule(record)) is not None}


class Finding(Record):
    """An equation that mixes elements of a block, or combines them with drawn numbers.

    The numbers are drawn in the shape of the block.

    Attributes:
      path: the equations whose jaxprs contain it, outermost first, and then the equation itself.
      axes: the mesh axes over which the elements are sharded.
      drawn: the path of the equation that has drawn the numbers; empty if they are a constant,
        `None` if elements are mixed.
      is_unknown: True if nothing is known about the primitive.
      operand: set if the numbers are an operand of the jaxpr: the operand's index and its
        dimension. The origin of the numbers may then be found in the surrounding jaxpr.
      is_moved: True if a pytree operation gives the name of a sharded dimension to another
        dimension.
    """

    path: Path
    axes: Mixed
    drawn: Path | None = None
    is_unknown: bool = False
    operand: tuple[int, int] | None = None
    is_moved: bool = False


class Dimensions(Record):
    """The dimensions of the operands and results of a body.

    Attributes:
      resources: the mesh axes of every mapped name.
      unsharded: the names whose axes are replicated in operands and results, with padding.
      operands: the dims of each operand, or `None` if they are unknown.
      results: the dims of each result; default: empty (unknown).
    """

    resources: Mapping[Hashable, tuple[str, ...]]
    unsharded: Set[Hashable]
    operands: Sequence[Dims | None]
    results: Sequence[Dims | None] = ()

    def shardings(self, all_dims: Sequence[Dims | None], count: int) -> Sequence[Sharding | None]:
        """Return the shardings of `count` arrays with these dims."""
        if len(all_dims) != count:
            return [None] * count
        sharded = {
            name: frozenset(axes)
            for name, axes in self.resources.items()
            if name not in self.unsharded
        }
        shardings = {
            dims: tuple(sharded.get(dim, NONE) for dim in dims)
            for dims in {*all_dims}
            if dims is not None
        }
        return [None if dims is None else shardings[dims] for dims in all_dims]


def findings(closed: ClosedJaxpr, dimensions: Dimensions | None) -> list[Finding]:
    """Return all findings in a traced body, in the order of its equations."""
    jaxpr, dimensions = closed.jaxpr, dimensions or Dimensions({}, frozenset(), ())
    flow = _Flow(dict(zip(jaxpr.constvars, closed.consts, strict=True)))
    shardings = dimensions.shardings(dimensions.operands, len(jaxpr.invars))
    outs, found = flow.run(jaxpr, tuple(map(_within, jaxpr.invars, shardings)))
    found = [finding for finding in found if finding.operand is None]
    return found + flow.drawn_results(
        jaxpr, outs, dimensions.shardings(dimensions.results, len(jaxpr.outvars))
    )


def _within(var: Atom, sharding: Sharding | None) -> Sharding | None:
    """Remove from a sharding the mesh axes over which the type of a value does not vary."""
    aval: Any = var.aval  # this runs for every operand, so it does not call `aval_of`
    if sharding is None or not any(sharding) or len(sharding) != len(aval.shape):
        return None
    varying = varying_of(aval)
    if not all(axes <= varying for axes in sharding):
        sharding = tuple(axes & varying for axes in sharding)
    return sharding


def is_used(jaxpr: Jaxpr, path: Path) -> bool:
    """Return True if a result of the jaxpr depends on the first equation of a path.

    Callbacks are ignored: they may show the block of one device.
    """
    used = {id(var) for var in path[0].outvars}
    is_after = False
    for eqn in jaxpr.eqns:
        if is_after and not facts(eqn).shows_values and any(id(var) in used for var in eqn.invars):
            used.update(map(id, eqn.outvars))
        is_after = is_after or eqn is path[0]
    return any(id(var) in used for var in jaxpr.outvars)


class _Frame(Record):
    """A jaxpr under inspection.

    It maps each value to the equation that made it, and each operand to its index or to the operand
    in the surrounding jaxpr.
    """

    made: Mapping[Atom, JaxprEqn]
    operands: Mapping[Atom, Any]
    path: Path = ()
    around: _Frame | None = None


class _Origin(Record):
    """The path of an equation (empty for a constant), or an operand and its dimension."""

    path: Path = ()
    operand: tuple[int, int] | None = None


def _finding(path: Path, origin: _Origin, axes: Mixed) -> Finding:
    return Finding(path, axes, origin.path, operand=origin.operand)


class _Flow:
    """One pass over a jaxpr and its inner jaxprs, each visited once for equal shardings."""

    def __init__(self, consts: dict[Atom, Any]) -> None:
        self._consts = consts
        self._known: dict[tuple[int, Shardings], tuple[Shardings, list[Finding]]] = {}
        self._kept: list[Jaxpr] = []  # keeps the ids of these jaxprs from being reused
        self._made: dict[int, dict[Atom, JaxprEqn]] = {}
        self._frames: dict[int, _Frame] = {}

    def run(self, jaxpr: Jaxpr, shardings: Shardings) -> tuple[Shardings, list[Finding]]:
        """Return the shardings of the results, and the findings, whose paths begin here."""
        key = id(jaxpr), shardings
        if key in self._known:
            return self._known[key]
        self._kept.append(jaxpr)
        env: dict[Atom, Sharding] = {
            var: own for var, own in zip(jaxpr.invars, shardings, strict=True) if own is not None
        }
        found: list[Finding] = []
        for name, eqn in zip(names_of(jaxpr.eqns), jaxpr.eqns, strict=True):
            operands = eqn.invars
            if name in _ELEMENTWISE:
                if len(operands) == 1:
                    if type(operands[0]) is not Literal and operands[0] in env:
                        env[eqn.outvars[0]] = leaf = env[operands[0]]
                        if name == MARK and (moved := marked_axes_moved(eqn, leaf)):
                            found.append(Finding((eqn,), moved, is_moved=True))
                    continue
                known = [None if type(var) is Literal else env.get(var) for var in operands]
                if (own := known[0]) is not None and own == known[-1] and len(known) == 2:
                    env[eqn.outvars[0]] = own
                elif any(known):
                    self._elementwise(jaxpr, eqn, known, env, found)
                continue
            known = [None if type(var) is Literal else env.get(var) for var in operands]
            rule = _RULES.get(name)
            if rule is None:
                outs, more = self._inner(jaxpr, eqn, known)
                found += more
            elif any(known) or name in _SHARDING:
                outs, mixed = rule(eqn, known)
                if mixed:
                    found.append(Finding((eqn,), mixed))
            else:
                continue
            for var, own in zip(eqn.outvars, outs, strict=False):
                if own is not None and len(own) == len(aval_of(var).shape):
                    env[var] = own
        outs = tuple(None if type(var) is Literal else env.get(var) for var in jaxpr.outvars)
        self._known[key] = outs, found
        return outs, found

    def _elementwise(
        self,
        jaxpr: Jaxpr,
        eqn: JaxprEqn,
        known: list[Sharding | None],
        env: dict[Atom, Sharding],
        found: list[Finding],
    ) -> None:
        aval: Any = eqn.outvars[0].aval
        own, mixed = united(known, len(aval.shape))
        if own is None:
            return
        env.update(dict.fromkeys(eqn.outvars, own))
        if mixed:
            found.append(Finding((eqn,), mixed))
            return
        for var, sharding in zip(eqn.invars, known, strict=True):
            aval = var.aval
            if sharding is not own and len(aval.shape) == len(own) and sharding != own:
                if (drawn := self._drawn(jaxpr, var, own, sharding)) is not None:
                    found.append(_finding((eqn,), *drawn))
                    if drawn[0].operand is None:
                        return

    def _drawn(
        self, jaxpr: Jaxpr, var: Atom, own: Sharding, sharding: Sharding | None
    ) -> tuple[_Origin, Mixed] | None:
        """Return the origin of numbers that differ along a sharded dimension, and the mesh axes.

        The dimension is sharded in another operand.
        """
        for i, axes in enumerate(own):
            missing = axes if sharding is None else axes - sharding[i]
            if (
                missing
                and aval_of(var).shape[i] != 1
                and (origin := self._origin_in(jaxpr, var, i, missing)) is not None
            ):
                return origin, missing
        return None

    def _origin_in(self, jaxpr: Jaxpr, var: Atom, dim: int, axes: Mixed) -> _Origin | None:
        if (frame := self._frames.get(id(jaxpr))) is None:
            frame = self._frames[id(jaxpr)] = _Frame(
                self._makers(jaxpr), {var: i for i, var in enumerate(jaxpr.invars)}
            )
        return self._origin(frame, var, dim, axes)

    def _makers(self, jaxpr: Jaxpr) -> dict[Atom, JaxprEqn]:
        if id(jaxpr) not in self._made:
            self._kept.append(jaxpr)
            self._made[id(jaxpr)] = {var: eqn for eqn in jaxpr.eqns for var in eqn.outvars}
        return self._made[id(jaxpr)]

    def drawn_results(
        self, jaxpr: Jaxpr, outs: Shardings, shardings: Sequence[Sharding | None]
    ) -> list[Finding]:
        """Return findings for results that are only drawn in the shape of a block."""
        found = []
        for var, out, own in zip(jaxpr.outvars, outs, shardings, strict=False):
            if (
                own
                and out is None
                and (drawn := self._drawn(jaxpr, var, own, None)) is not None
                and drawn[0].path
            ):
                found.append(_finding(drawn[0].path, *drawn))
        return found

    def _origin(self, frame: _Frame, var: Atom, dim: int, axes: Mixed) -> _Origin | None:
        """Return the origin of numbers that differ along `dim`, but not along these mesh axes."""
        while True:
            if len(aval_of(var).shape) <= dim or aval_of(var).shape[dim] == 1:
                return None
            if type(var) is Literal:
                return _Origin() if _differs(var.val, dim) else None
            eqn = frame.made.get(var)
            if eqn is None:
                if var in self._consts:
                    return _Origin() if _differs(self._consts[var], dim) else None
                if var not in frame.operands:
                    return None
                if frame.around is None:
                    return (
                        None
                        if axes & varying_of(var.aval)
                        else _Origin(operand=(frame.operands[var], dim))
                    )
                var, frame = frame.operands[var], frame.around
                continue
            record = facts(eqn)
            if record.draws:
                is_same = bool(axes & varying_of(var.aval)) or not record.differs_along(eqn, dim)
                return None if is_same else _Origin((*frame.path, eqn))
            if record.is_elementwise:
                several = [self._origin(frame, operand, dim, axes) for operand in eqn.invars]
                return next(
                    iter(
                        sorted(filter(None, several), key=lambda origin: origin.operand is not None)
                    ),
                    None,
                )
            if record.aligned is not None and record.keeps_elements:
                before = record.aligned(eqn)[0][dim]
                if type(before) is not int:
                    return None
                var, dim = eqn.invars[0], before
                continue
            inner = called_in_steps(eqn)
            if inner is None:
                return None
            inner = open_jaxpr(inner)
            operands: dict[Atom, Atom] = dict(zip(inner.invars, eqn.invars, strict=False))
            var = inner.outvars[eqn.outvars.index(var)]
            frame = _Frame(self._makers(inner), operands, (*frame.path, eqn), frame)

    # --- equations that run jaxprs ----------------------------------------------------------------

    def _inner(
        self, jaxpr: Jaxpr, eqn: JaxprEqn, known: list[Sharding | None]
    ) -> tuple[Sequence[Sharding | None], list[Finding]]:
        look = _LOOKS.get(kind_of(eqn))
        if look is None:
            axes = NONE.union(*(axes for own in known if own is not None for axes in own))
            return (), [Finding((eqn,), axes, is_unknown=True)] if axes else []
        outs, inner = look(self, eqn, known)
        found = []
        for finding in inner:
            path = (eqn, *finding.path)
            drawn = finding.drawn and (eqn, *finding.drawn)
            operand = finding.operand
            if operand is not None:
                origin = self._origin_in(jaxpr, eqn.invars[operand[0]], operand[1], finding.axes)
                if origin is None:
                    continue
                drawn, operand = origin.path, origin.operand
            found.append(
                Finding(path, finding.axes, drawn, finding.is_unknown, operand, finding.is_moved)
            )
        return outs, found

    def _call(
        self, eqn: JaxprEqn, known: list[Sharding | None]
    ) -> tuple[Sequence[Sharding | None], list[Finding]]:
        inner = called_in_steps(eqn)
        if not any(known) and not any(varying_of(var.aval) for var in eqn.outvars):
            return (), []  # a value that does not vary is not sharded
        return ((), []) if inner is None else self._open(inner, known)

    def _open(
        self, jaxpr: AnyJaxpr, known: Sequence[Sharding | None]
    ) -> tuple[Shardings, list[Finding]]:
        if consts := getattr(jaxpr, "consts", None):
            self._consts.update(zip(open_jaxpr(jaxpr).constvars, consts, strict=True))
        jaxpr = open_jaxpr(jaxpr)
        return self.run(jaxpr, tuple(known)) if len(jaxpr.invars) == len(known) else ((), [])

    def _scan(
        self, eqn: JaxprEqn, known: list[Sharding | None]
    ) -> tuple[Sequence[Sharding | None], list[Finding]]:
        scan = Scan.of(eqn)
        start = scan.consts + scan.carries
        steps = NONE.union(*(own[0] for own in known[start:] if own is not None))
        slices = [None if own is None or not any(own[1:]) else own[1:] for own in known[start:]]

        def body(carry: list[Sharding | None]) -> tuple[Shardings, list[Finding]]:
            return self._open(scan.body, [*known[: scan.consts], *carry, *slices])

        carry, (outs, found) = self._fixed(known[scan.consts : start], body, scan.carries)
        found = [
            _of_operand(finding, 0, dict.fromkeys(range(start, len(known)), 1)) for finding in found
        ]
        if steps and scan.carries:
            found = [Finding((), steps), *found]
        stacked: list[Sharding | None] = []
        for i, var in enumerate(eqn.outvars[scan.carries :], scan.carries):
            own = (outs[i] if outs else None) or (NONE,) * (len(aval_of(var).shape) - 1)
            stacked.append((steps, *own) if steps or any(own) else None)
        return [*carry, *stacked], found

    def _while(
        self, eqn: JaxprEqn, known: list[Sharding | None]
    ) -> tuple[Sequence[Sharding | None], list[Finding]]:
        loop = While.of(eqn)
        first, start = loop.condition_consts, loop.condition_consts + loop.body_consts

        def body(carry: list[Sharding | None]) -> tuple[Shardings, list[Finding]]:
            return self._open(loop.body, [*known[first:start], *carry])

        carry, (_, found) = self._fixed(known[start:], body, len(known) - start)
        of_condition = [
            finding
            for finding in self._open(loop.condition, [*known[:first], *carry])[1]
            if finding.operand is None
        ]
        return carry, [*of_condition, *(_of_operand(finding, first) for finding in found)]

    def _fixed(
        self,
        carry: list[Sharding | None],
        body: Callable[[list[Sharding | None]], tuple[Shardings, list[Finding]]],
        count: int,
    ) -> tuple[list[Sharding | None], tuple[Shardings, list[Finding]]]:
        """Return the fixed-point sharding of a carry, and the results and findings of the body."""
        moved: list[
            Finding
        ] = []  # from an iteration whose carry does not yet have the moved dimension
        while True:
            outs, found = body(carry)
            after = [
                united((before, out), len(before or out or ()))[0]
                for before, out in zip(carry, outs[:count] or carry, strict=True)
            ]
            if after == carry:
                return carry, (outs, [*moved, *found])
            moved += [finding for finding in found if finding.is_moved]
            carry = after

    def _branches(
        self, eqn: JaxprEqn, known: list[Sharding | None]
    ) -> tuple[Sequence[Sharding | None], list[Finding]]:
        each = [self._open(branch, known[1:]) for branch in bodies_of(eqn)]
        outs = [
            united([own[i] if own else None for own, _ in each], len(aval_of(var).shape))[0]
            for i, var in enumerate(eqn.outvars)
        ]
        return outs, [_of_operand(finding, 1) for _, found in each for finding in found]

    def _mapped(
        self, eqn: JaxprEqn, known: list[Sharding | None]
    ) -> tuple[Sequence[Sharding | None], list[Finding]]:
        return self._open(mapped_jaxpr(eqn)[0], known)

    def _solve(
        self, eqn: JaxprEqn, known: list[Sharding | None]
    ) -> tuple[Sequence[Sharding | None], list[Finding]]:
        outs, found = self._open(*solve(eqn, known))
        return outs, [finding for finding in found if finding.operand is None]


def _of_operand(finding: Finding, offset: int, dimensions: Mapping[int, int] = {}) -> Finding:
    """Shift a finding to a jaxpr with `offset` more operands and other leading dimensions."""
    if finding.operand is None:
        return finding
    i, dim = finding.operand
    return Finding(
        finding.path,
        finding.axes,
        finding.drawn,
        finding.is_unknown,
        (i + offset, dim + dimensions.get(i, 0)),
    )


_LOOKS: Mapping[Kind, Any] = {
    **dict.fromkeys((Kind.CALL, Kind.RULE, Kind.REMAT), _Flow._call),
    Kind.SCAN: _Flow._scan,
    Kind.WHILE: _Flow._while,
    Kind.BRANCH: _Flow._branches,
    Kind.MAP: _Flow._mapped,
    Kind.SOLVE: _Flow._solve,
}


def _differs(value: object, dim: int) -> bool:
    """Return True if a constant has different elements along a dimension."""
    if (
        isinstance(value, jax.core.Tracer)
        or not hasattr(value, "dtype")
        or jnp.issubdtype(value.dtype, jax.dtypes.extended)
    ):
        return False
    entries = np.moveaxis(np.asarray(value), dim, 0)
    return bool((entries != entries[:1]).any())
