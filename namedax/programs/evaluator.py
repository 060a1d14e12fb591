"""Evaluation of traced jaxprs with some equations replaced, and queries about a jaxpr.

Facts about a single equation belong in `namedax.primitives`.
"""

from __future__ import annotations

import functools
import os
import typing
from collections.abc import Callable, Container, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend.core import ClosedJaxpr, DropVar, Jaxpr, JaxprEqn, Literal, Var, jaxpr_as_fun
from jax.extend.source_info_util import NameStack, SourceInfo, current_name_stack, user_context

from namedax.core.name_scopes import DEBUGGING
from namedax.core.names import PyTree
from namedax.core.variance import varying_of
from namedax.errors import ArgumentError, did_you_mean
from namedax.primitives.equations import (
    are_side_effects,
    axes_of,
    bind,
    call_whole,
    called,
    called_in_steps,
    condition_of,
    facts_of,
    is_inlined,
    is_to_be_inlined,
    jaxprs_of,
    jaxprs_within,
    kind_of,
    open_jaxpr,
    reading,
    stand_ins,
)
from namedax.primitives.record import Atom, Kind
from namedax.primitives.table import LOCAL_KINDS
from namedax.programs.outlining import outlined

__all__ = [
    "LATE_SUMS",
    "LOOP_CASTS",
    "PASSES",
    "SERIAL_STEPS",
    "Evaluator",
    "Pass",
    "Rule",
    "as_one_call",
    "calls_jax",
    "collective_axes",
    "consts_to_inputs",
    "diverging_axes",
    "has_calls_of_python",
    "has_kind",
    "has_reverse_rules",
    "has_sums",
    "in_plain_layout",
    "inlined",
    "inlined_source",
    "is_pinned",
    "number_of",
    "own_sources",
    "skip",
    "skipped_passes",
    "source_of",
    "summed_axes",
    "with_plain_layouts",
]


# The size, in equations, of `jnp` functions that are compiled on their own, such as `jnp.take`.
_SMALL = 32


def inlined(jaxpr: Jaxpr) -> Jaxpr:
    """Inline calls of small jaxprs, and marked calls, which JAX 0.12 inlines when lowering."""
    pairs = zip(jaxpr.eqns, facts_of(jaxpr.eqns), strict=True)
    calls = {
        id(eqn): called(eqn)
        for eqn, known in pairs
        if known.kind is Kind.CALL and is_inlined(eqn, _SMALL)
    }
    if not calls:
        return jaxpr
    eqns: list[JaxprEqn] = []
    stands_for: dict[Atom, Atom] = {}

    for eqn in jaxpr.eqns:
        if (inner := calls.get(id(eqn))) is None:
            eqns.append(reading(eqn, stands_for))
            continue
        pinned = is_pinned(eqn)
        within = dict(zip(inner.invars, stand_ins(eqn.invars, stands_for), strict=True))
        # The same jaxpr may be called many times: each call needs fresh variables.
        for part in (inner := inlined(inner)).eqns:
            fresh = [var if isinstance(var, DropVar) else Var(var.aval) for var in part.outvars]
            inputs = [var if type(var) is Literal else within[var] for var in part.invars]
            within.update(zip(part.outvars, fresh, strict=True))
            eqns.append(
                part.replace(
                    invars=inputs,
                    outvars=fresh,
                    source_info=inlined_source(eqn.source_info, pinned, part),
                )
            )
        results = [var if type(var) is Literal else within[var] for var in inner.outvars]
        stands_for.update(zip(eqn.outvars, results, strict=True))
    return jaxpr.replace(eqns=eqns, outvars=stand_ins(jaxpr.outvars, stands_for))


def inlined_source(call: SourceInfo, is_pinned: bool, eqn: JaxprEqn) -> SourceInfo:
    """Return the source of an equation of a called jaxpr that replaces the call.

    Args:
      call: the source of the call.
      is_pinned: whether the jaxpr belongs to the line of the call; see `is_pinned`.
      eqn: the equation.
    """
    inner = eqn.source_info
    if not call.name_stack.stack:
        return inner.replace(traceback=call.traceback) if is_pinned else inner
    return (call if is_pinned else inner).replace(name_stack=call.name_stack + inner.name_stack)


def is_pinned(eqn: JaxprEqn) -> bool:
    """Return True if the jaxpr that an equation calls belongs to the line of the call.

    JAX traced it once, for the first caller.
    """
    return is_to_be_inlined(eqn) or calls_jax(eqn)


_JAX_FOLDER = os.path.dirname(jax.__file__) + os.sep


def calls_jax(eqn: JaxprEqn) -> bool:
    """Return True if an equation calls a jitted function that a file of JAX defines.

    A name proves nothing: a user's `clip`, `softmax` or `_block` has the name of a function of JAX.
    """
    if kind_of(eqn) is not Kind.CALL:
        return False
    debug_info = getattr(called_in_steps(eqn), "debug_info", None)
    return str(getattr(debug_info, "func_filename", None) or "").startswith(_JAX_FOLDER)


def number_of(literal: Literal) -> Any:
    """Return the scalar number or boolean that a literal represents, or `None`.

    For example, the tangents of integers have a type of their own.
    """
    value, dtype = literal.val, literal.aval.dtype  # type: ignore[attr-defined]
    is_number = dtype == jnp.bool_ or jnp.issubdtype(dtype, jnp.number)
    return None if isinstance(value, jax.core.Tracer) or np.ndim(value) or not is_number else value


def collective_axes(
    jaxpr: Jaxpr, or_index: bool = False, without_debugging: bool = False
) -> frozenset[str]:
    """Return the mesh axes along which a jaxpr communicates.

    With `or_index`, include those whose device index it reads. With `without_debugging`, leave out
    gathers of values that are only shown (`nx.debug`), which mix no elements.
    """
    silent = {Kind.CAST} if or_index else {Kind.CAST, Kind.DEVICE_INDEX, Kind.OWN_BLOCK}
    found = (
        axes
        for eqn in jaxpr.eqns
        if kind_of(eqn) not in silent
        and (axes := axes_of(eqn))
        and not (without_debugging and _is_of_debugging(eqn))
    )
    return frozenset[str]().union(
        *found,
        *(collective_axes(inner, or_index, without_debugging) for inner in jaxprs_within(jaxpr)),
    )


def _is_of_debugging(eqn: JaxprEqn) -> bool:
    return f"{DEBUGGING}." in str(eqn.source_info.name_stack)


def has_calls_of_python(closed: ClosedJaxpr) -> bool:
    """Return True if a jaxpr may call Python, as `nx.debug` does."""
    return are_side_effects(closed.effects)


def diverging_axes(jaxpr: Jaxpr) -> frozenset[str]:
    """Return the mesh axes along which devices would wait for each other forever.

    These are axes of communication in a loop or a branch of JAX whose condition differs between
    devices along them.
    """
    found = set[str]()
    for eqn in jaxpr.eqns:
        condition = condition_of(eqn)
        if condition is not None and (differs := varying_of(condition)):
            for part in jaxprs_of(eqn):
                found |= differs & collective_axes(open_jaxpr(part))
    return frozenset(found).union(*map(diverging_axes, jaxprs_within(jaxpr)))


def has_reverse_rules(jaxpr: Jaxpr) -> bool:
    """Return True if a jaxpr, or a jaxpr that it runs, has a custom rule for its gradient."""
    return any("bwd" in fact.parameters for fact in facts_of(jaxpr.eqns)) or any(
        map(has_reverse_rules, jaxprs_within(jaxpr))
    )


def loses_variance(jaxpr: Jaxpr) -> bool:
    """Return True if a result that differs from device to device may have a type that does not.

    JAX types the results of a loop and of a branch by their operands, although they also differ if
    the condition does. It types the results of a callback as equal on all devices.
    """
    for eqn, fact in zip(jaxpr.eqns, facts_of(jaxpr.eqns), strict=True):
        if fact.kind in (Kind.WHILE, Kind.BRANCH):
            condition = condition_of(eqn)
            differs = frozenset[str]() if condition is None else varying_of(condition)
        elif fact.kind in LOCAL_KINDS or (fact.kind is Kind.UNKNOWN and not axes_of(eqn)):
            differs = frozenset[str]().union(*(varying_of(var.aval) for var in eqn.invars))
        else:
            continue
        if any(not differs <= varying_of(var.aval) for var in eqn.outvars):
            return True
    return any(map(loses_variance, jaxprs_within(jaxpr)))


def has_kind(jaxpr: Jaxpr, kind: Kind) -> bool:
    """Return True if a jaxpr, or a jaxpr that it runs, has an equation of a kind."""
    return any(fact.kind is kind for fact in facts_of(jaxpr.eqns)) or any(
        has_kind(inner, kind) for inner in jaxprs_within(jaxpr)
    )


def summed_axes(jaxpr: Jaxpr) -> frozenset[str]:
    """Return the mesh axes over which a jaxpr sums."""
    found = (axes_of(eqn) for eqn in jaxpr.eqns if kind_of(eqn) in (Kind.SUM, Kind.SCATTER))
    return frozenset[str]().union(*found, *(summed_axes(inner) for inner in jaxprs_within(jaxpr)))


def has_sums(jaxpr: Jaxpr, known: dict[int, tuple[bool, Jaxpr]] | None = None) -> bool:
    """Return True if a jaxpr, or a jaxpr that it runs, sums over mesh axes.

    Args:
      jaxpr: the jaxpr.
      known: the results for jaxprs, by their ids, with the jaxprs, so that the ids stay valid; the
        function adds to it. Default: empty.
    """
    known = {} if known is None else known
    if id(jaxpr) not in known:
        facts = facts_of(jaxpr.eqns)
        found = Kind.SUM in [fact.kind for fact in facts] or any(
            has_sums(open_jaxpr(part), known)
            for eqn, fact in zip(jaxpr.eqns, facts, strict=True)
            if fact.kind not in LOCAL_KINDS
            for part in jaxprs_of(eqn)
        )
        known[id(jaxpr)] = found, jaxpr
    return known[id(jaxpr)][0]


def consts_to_inputs(jaxpr: Jaxpr) -> Jaxpr:
    """Return a jaxpr that takes its constants as its first arguments."""
    return jaxpr.replace(constvars=[], invars=[*jaxpr.constvars, *jaxpr.invars])


def _one_by_one(jaxpr: Jaxpr, values: Sequence[jax.Array]) -> list[jax.Array]:
    return list(jaxpr_as_fun(ClosedJaxpr(jaxpr, ()))(*values))


def as_one_call(jaxpr: Jaxpr, values: Sequence[jax.Array]) -> list[jax.Array]:
    """Evaluate an open jaxpr without constants, if large as one call, without binding again."""
    return (call_whole if len(jaxpr.eqns) > _SMALL else _one_by_one)(jaxpr, values)


def source_of(eqn: JaxprEqn, within: NameStack | None = None) -> AbstractContextManager[object]:
    """Return a context manager in which bound equations get the source lines and scopes of `eqn`.

    Args:
      eqn: an equation.
      within: the name stack of its jaxpr; default: that of the caller.
    """
    source = eqn.source_info
    around = current_name_stack() if within is None else within
    return user_context(source.traceback, name_stack=around + source.name_stack)


class _NoTraceback:
    """Stand-in for the traceback of a rule; it is empty, so JAX uses an equation's own."""

    def __bool__(self) -> bool:
        return False

    def as_python_traceback(self) -> None:
        """Return None, so that JAX adds nothing to an exception."""


def own_sources() -> AbstractContextManager[object]:
    """Return a context in which equations of a rule keep their own lines, not the call's."""
    return user_context(cast(Any, _NoTraceback()), name_stack=current_name_stack())


# The result of a rule for an equation: `None` if it is evaluated as written; a function that
# evaluates it, or does the replacement work and returns `None`; or `skip`.
Replacement = Callable[[], Iterable[jax.Array] | None] | None
Rule = Callable[[JaxprEqn], Replacement]


def skip() -> None:
    """Mark an equation whose results are not needed."""


class Evaluator:
    """Evaluator of the equations of an open jaxpr, some of them replaced by a rule.

    JAX itself evaluates the other equations, in groups, and keeps their source information.

    Args:
      jaxpr: the jaxpr.
      values: the values of its constants and inputs.
      constant: returns the value of a literal; default: the literal's own value.
      as_call: whether a large group becomes one call, so that its equations are not bound again;
        default: False.
      needed: the variables that are read after the group of the equation that makes them; default:
        any variable may be.

    Attributes:
      known: the values of variables that have been evaluated so far.
    """

    def __init__(
        self,
        jaxpr: Jaxpr,
        values: Sequence[Any],
        constant: Callable[[Literal], Any] = lambda literal: literal.val,
        as_call: bool = False,
        needed: Container[Atom] | None = None,
    ):
        self._jaxpr, self._constant, self._as_call, self._needed = jaxpr, constant, as_call, needed
        self._group: list[JaxprEqn] = []
        self._name_stack: NameStack | None = None
        self.known: dict[Atom, Any] = dict(
            zip([*jaxpr.constvars, *jaxpr.invars], values, strict=True)
        )

    def run(self, rule: Rule, positions: Iterable[int] | None = None) -> list[Any]:
        """Evaluate the jaxpr and return its results.

        Args:
          rule: takes an equation, and returns how to evaluate it. All earlier equations have been
            evaluated when that function runs.
          positions: the indices of the equations to which the rule applies, in order; the others
            are evaluated as written. Default: all.
        """
        self._name_stack = current_name_stack()
        eqns, begin = self._jaxpr.eqns, 0
        for position in range(len(eqns)) if positions is None else positions:
            eqn = eqns[position]
            self._group += eqns[begin:position]
            begin = position + 1
            evaluate = rule(eqn)
            if evaluate is None:
                self._group.append(eqn)
            elif evaluate is not skip:
                self._flush()
                with self.source_of(eqn):
                    results = evaluate()
                if results is not None:
                    self.known.update(zip(eqn.outvars, results, strict=True))
        self._group += eqns[begin:]
        self._flush()
        return [self.read(var) for var in self._jaxpr.outvars]

    def read(self, var: Atom) -> Any:
        """Return the value of an operand."""
        return self._constant(var) if isinstance(var, Literal) else self.known[var]

    def operands(self, eqn: JaxprEqn) -> list[Any]:
        """Return the values of the operands of an equation."""
        return [self.read(var) for var in eqn.invars]

    def source_of(self, eqn: JaxprEqn) -> AbstractContextManager[object]:
        """Return a context manager that gives bound equations the lines and scopes of an equation.

        The equation belongs to the running jaxpr.
        """
        return source_of(eqn, self._name_stack)

    def as_it_stands(self, eqn: JaxprEqn) -> None:
        """Evaluate an equation as written."""
        self._group.append(eqn)
        self._flush()

    def _flush(self) -> None:
        """Evaluate the equations of a group as one small jaxpr."""
        if not self._group:
            return
        known, needed = self.known, self._needed
        read = [v for eqn in self._group for v in eqn.invars if type(v) is not Literal]
        inputs = list(dict.fromkeys([v for v in read if v in known]))
        outputs = [
            v
            for eqn in self._group
            for v in eqn.outvars
            if not isinstance(v, DropVar) and (needed is None or v in needed)
        ]
        effects = frozenset().union(*[eqn.effects for eqn in self._group])
        part = self._jaxpr.replace(
            constvars=[], invars=inputs, outvars=outputs, eqns=self._group, effects=effects
        )
        values = [known[v] for v in inputs]
        results = (
            as_one_call(outlined(part), values) if self._as_call else _one_by_one(part, values)
        )
        self.known.update(zip(outputs, results, strict=True))
        self._group = []


# --- Fourier transforms on CPUs: XLA's backend fails for some layouts (JAX 0.10 and 0.11) ---------

# The transforms fail if the operand or the result does not have the default layout. XLA chooses the
# layout freely next to a collective, in plain JAX too. `with_plain_layouts` flattens both to one
# dimension around the transform, so that XLA has no choice.


def with_plain_layouts(function: Callable[..., PyTree], datas: Sequence[Any]) -> PyTree:
    """Evaluate `function(*datas)` with default layouts for Fourier transforms and gradients."""
    # The other values are axis indices and sizes.
    positions = [i for i, data in enumerate(datas) if isinstance(data, jax.Array)]

    def of_arrays(*arrays: jax.Array) -> PyTree:
        filled = list(datas)
        for i, array in zip(positions, arrays, strict=True):
            filled[i] = array
        return function(*filled)

    arrays = [datas[i] for i in positions]
    closed, shape = jax.make_jaxpr(of_arrays, return_shape=True)(*arrays)
    if has_kind(closed.jaxpr, Kind.TRANSFORM):
        flat: Sequence[Any] = _evaluate(closed.jaxpr, [*closed.consts, *arrays])
    else:
        flat = jaxpr_as_fun(closed)(*arrays)
    return jax.tree.unflatten(jax.tree.structure(shape), flat)


def _evaluate(jaxpr: Jaxpr, values: Sequence[jax.Array]) -> list[jax.Array]:
    jaxpr = inlined(jaxpr)
    evaluator = Evaluator(jaxpr, values)

    def rule(eqn: JaxprEqn) -> Replacement:
        inner = called(eqn)
        if kind_of(eqn) == Kind.TRANSFORM:
            return lambda: map(
                in_plain_layout,
                bind(eqn, list(map(in_plain_layout, evaluator.operands(eqn)))),
            )
        if inner is not None and has_kind(inner, Kind.TRANSFORM):
            return lambda: jax.jit(functools.partial(_evaluate, inner))(evaluator.operands(eqn))
        return None

    return evaluator.run(rule)


def in_plain_layout(data: jax.Array) -> jax.Array:
    """Return `data`, in the default layout of memory."""
    # Without the barrier XLA would remove the two reshapes.
    return lax.optimization_barrier(data.reshape(-1)).reshape(data.shape)


# --- the names by which `xmap` enables passes -----------------------------------------------------


Pass = typing.Literal["late_sums", "loop_casts", "serial_steps"]
PASSES: tuple[Pass, ...] = typing.get_args(Pass)
LATE_SUMS, LOOP_CASTS, SERIAL_STEPS = PASSES


def skipped_passes(passes: object) -> frozenset[str]:
    """Return the passes that are missing from the `passes` argument of `xmap`.

    Raises:
      ArgumentError: an element is not a pass.
    """
    if isinstance(passes, str) or not isinstance(passes, Iterable):
        raise ArgumentError(
            f"xmap: passes={passes!r} must be a tuple of pass names. Choose from {_listed()}."
        )
    for name in (passes := tuple(passes)):
        if name not in PASSES:
            hint = did_you_mean(name, PASSES) if isinstance(name, str) else ""
            raise ArgumentError(
                f"xmap: passes={passes!r} contains {name!r}, which is not a pass. Choose from"
                f" {_listed()}.{hint}"
            )
    return frozenset(PASSES).difference(passes)


def _listed() -> str:
    return ", ".join(map(repr, PASSES))
