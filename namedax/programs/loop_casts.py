"""Casts to device-varying that are taken out of the body of a loop.

What a loop's body closes over, or slices, is often the same on all devices, and cast to device-varying where it meets values
with a sharded name. The transpose of the cast is an all-reduce. So casts of the operands of a loop are taken out of its body,
past what is computed from these operands alone: the gradient is reduced once, after the loop, and not in every step.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.extend.core import ClosedJaxpr, Literal, Var, jaxpr_as_fun

from namedax.core.records import Record
from namedax.core.region import ambient
from namedax.core.variance import cast_data, varying
from namedax.programs.evaluator import Evaluator, consts_to_inputs, is_inexact, skip, source_of
from namedax.programs.passes import LOOP_CASTS
from namedax.programs.primitives import Kind, MeshAxes, bind, called, cast_axes, commutes, kind_of
from namedax.programs.remat import remat_like, with_program
from namedax.resources.mesh import enter_mesh, is_foreign

__all__ = ["Body", "CastFinder", "Forms", "Hoist", "Hoisted", "WithForms", "apart_from_constants"]

# The forms of a value that vary over more mesh axes than it does, by these axes.
Forms = dict[MeshAxes, Any]
# What a value is computed from: operands of a loop by their numbers, and the mesh axes over which each has been cast on the
# way. There is none for a value that depends on anything else that can be differentiated.
Origin = frozenset[tuple[int, MeshAxes]]


def _elements(aval: Any) -> int:
    return math.prod(aval.shape)


class CastFinder(Record, frozen=False):
    """Looks for casts, in a loop's body, of what is computed from operands of the loop alone.

    Attributes:
      sizes: the number of elements of every operand.
      steps: the number of steps, where it is known.
      found: operands (their numbers), and the mesh axes over which to cast them before the loop; with the first such cast.
    """

    sizes: Sequence[int]
    steps: int
    found: dict[tuple[int, MeshAxes], Any] = dataclasses.field(default_factory=dict)

    def visit(self, jaxpr: Any, origins: Mapping[Any, Origin]) -> list[Origin | None]:
        """Notes the casts in an open jaxpr with inputs of these origins; returns the origins of its results."""
        known: dict[Any, Origin] = dict(origins)

        def origin(var: Any) -> Origin | None:
            if isinstance(var, Literal):
                return frozenset()
            return known.get(var, None if is_inexact(var.aval) else frozenset())

        for eqn in jaxpr.eqns:
            sources = [origin(var) for var in eqn.invars]
            if not any(sources):
                if None not in sources and not eqn.effects:  # a constant, whose cast has no gradient
                    known.update(dict.fromkeys(eqn.outvars, frozenset()))
                continue
            axes, inner = cast_axes(eqn), called(eqn)
            if inner is not None:
                pairs = zip(inner.invars, sources, strict=True)
                results = self.visit(inner, {var: source for var, source in pairs if source is not None})
                if kind_of(eqn) != Kind.REMAT:
                    known.update((var, result) for var, result in zip(eqn.outvars, results, strict=True) if result is not None)
                continue
            if any(source is None for source in sources):
                continue
            union: Origin = frozenset().union(*(source for source in sources if source is not None))
            if axes:
                union = frozenset((number, before | axes) for number, before in union)
                # The gradient is reduced once, with the size of the operands, instead of in every step with that of the value.
                if sum(self.sizes[number] for number, _ in union) <= self.steps * _elements(eqn.invars[0].aval):
                    self.found = {**dict.fromkeys(union, eqn), **self.found}
                known[eqn.outvars[0]] = union
            elif commutes(eqn):
                known.update(dict.fromkeys(eqn.outvars, union))
        return [origin(var) for var in jaxpr.outvars]


class WithForms:
    """Evaluates an open jaxpr; where it casts a value that has that form, the form is taken.

    Args:
      jaxpr: the program.
      values: its inputs.
      forms: those of the inputs.
      constant: which inputs without forms have none because they are constants, whose casts have no gradient.
    """

    def __init__(self, jaxpr: Any, values: Sequence[Any], forms: Sequence[Forms], constant: Sequence[bool]):
        self.jaxpr, self.evaluator = jaxpr, Evaluator(jaxpr, values)
        self.forms: dict[Any, Forms] = {var: f for var, f in zip(jaxpr.invars, forms, strict=True) if f}
        # Values that can be differentiated and have no forms. Constants are not among them: they are cast where they are needed.
        candidates = (var for var, fixed in zip(jaxpr.invars, constant, strict=True) if not fixed)
        self.formless = {var for var in candidates if var not in self.forms and is_inexact(var.aval)}

    def run(self) -> tuple[list[Any], list[Forms]]:
        """The results, and their forms."""
        return self.evaluator.run(self._rule), [self._forms_of(var) for var in self.jaxpr.outvars]

    def _rule(self, eqn: Any) -> Any:
        of, inner = [self._forms_of(var) for var in eqn.invars], called(eqn)
        if not any(of):
            self._note_formless(eqn)
            return None
        if cast_axes(eqn) in of[0]:
            # Its form is known already, so nothing need be evaluated before.
            self._cast(eqn, of)
            self._note_formless(eqn)
            return skip
        take = self._operation if inner is None else self._call

        def evaluate() -> None:
            take(eqn, of)
            self._note_formless(eqn)

        return evaluate

    def _cast(self, eqn: Any, of: Sequence[Forms]) -> None:
        axes, (out,) = cast_axes(eqn), eqn.outvars
        self.evaluator.known[out] = of[0][axes]
        self.forms[out] = {more - axes: value for more, value in of[0].items() if axes < more}

    def _call(self, eqn: Any, of: Sequence[Forms]) -> None:
        inner, operands = called(eqn), self.evaluator.operands(eqn)
        fixed = [isinstance(var, Literal) or var not in self.formless for var in eqn.invars]
        if kind_of(eqn) == Kind.REMAT:
            listed = functools.partial(_evaluate_listed, inner, [list(f) for f in of], fixed)
            results = remat_like(eqn, listed)(operands, [list(f.values()) for f in of])
        else:
            results, forms = WithForms(inner, operands, of, fixed).run()
            self.forms.update((var, f) for var, f in zip(eqn.outvars, forms, strict=True) if f)
        self.evaluator.known.update(zip(eqn.outvars, results, strict=True))

    def _operation(self, eqn: Any, of: Sequence[Forms]) -> None:
        """What has operands with forms: in the forms that all its operands have, if it commutes with casts, as well as the plain one."""
        self.evaluator.as_it_stands(eqn)
        used = [f for var, f in zip(eqn.invars, of, strict=True) if f or self._is_formless(var)]
        for axes in set(used[0]).intersection(*used) if commutes(eqn) else ():
            results = bind(eqn, [self._form(var, axes) for var in eqn.invars])
            for var, value in zip(eqn.outvars, results, strict=True):
                self.forms.setdefault(var, {})[axes] = value

    def _form(self, var: Any, axes: MeshAxes) -> Any:
        forms = self._forms_of(var)
        if axes in forms:
            return forms[axes]
        value = self.evaluator.read(var)
        return cast_data(value if hasattr(value, "aval") else jnp.asarray(value, var.aval.dtype), axes)

    def _forms_of(self, var: Any) -> Forms:
        return {} if isinstance(var, Literal) else self.forms.get(var, {})

    def _is_formless(self, var: Any) -> bool:
        return not isinstance(var, Literal) and var in self.formless

    def _note_formless(self, eqn: Any) -> None:
        """Results that can be differentiated have no forms where they depend on what has none, or do more than they say."""
        differentiable = [var for var in eqn.invars if not isinstance(var, Literal) and is_inexact(var.aval)]
        if eqn.effects or any(var in self.formless or self.forms.get(var) for var in differentiable):
            self.formless.update(var for var in eqn.outvars if not self.forms.get(var) and is_inexact(var.aval))


def _with_inputs_cast(jaxpr: Any, forms: Mapping[Any, MeshAxes]) -> tuple[Any, list[Any]] | None:
    """An open jaxpr that takes casts of inputs as inputs, after the others; and which, in the order of these inputs.

    That is possible where nothing but casts, and programs that are computed anew for the gradient, would go by these forms: then no
    equation need be bound anew. Otherwise `None`.

    Args:
      jaxpr: the program.
      forms: inputs, and the mesh axes over which each has been cast.
    """
    taken: dict[Any, Any] = {}  # the casts that are inputs now
    stands_for: dict[Any, Any] = {}
    eqns: list[Any] = []
    for eqn in jaxpr.eqns:
        operands = [var if isinstance(var, Literal) else stands_for.get(var, var) for var in eqn.invars]
        eqn = eqn if operands == eqn.invars else eqn.replace(invars=operands)
        held = [None if isinstance(var, Literal) else forms.get(var) for var in operands]
        if not any(held):
            eqns.append(eqn)
        elif cast_axes(eqn) == held[0]:
            stands_for[eqn.outvars[0]] = taken.setdefault(operands[0], eqn.outvars[0])
        elif kind_of(eqn) == Kind.REMAT and (inner := called(eqn)) is not None:
            given = {var: axes for var, axes in zip(inner.invars, held, strict=True) if axes}
            found = _with_inputs_cast(inner, given)
            if found is None:
                return None
            within, wanted = found
            outside = dict(zip(inner.invars, operands, strict=True))
            aliases = dict(zip(wanted, within.invars[len(inner.invars) :], strict=True))
            more = [taken.setdefault(outside[var], Var(alias.aval)) for var, alias in aliases.items()]
            eqns.append(with_program(eqn, within, [*operands, *more], eqn.outvars))
        else:
            return None
    outvars = [var if isinstance(var, Literal) else stands_for.get(var, var) for var in jaxpr.outvars]
    changed = jaxpr.replace(eqns=eqns, invars=[*jaxpr.invars, *taken.values()], outvars=outvars)
    return changed, list(taken)


def _evaluate_listed(
    jaxpr: Any,
    axes: Sequence[Sequence[MeshAxes]],
    constant: Sequence[bool],
    values: Sequence[Any],
    forms: Sequence[Sequence[Any]],
) -> list[Any]:
    return WithForms(jaxpr, values, [dict(zip(a, f, strict=True)) for a, f in zip(axes, forms, strict=True)], constant).run()[0]


def apart_from_constants(
    closed: ClosedJaxpr, change: Callable[[Any], Any], axes: MeshAxes
) -> tuple[Callable[..., list[Any]], list[Any]]:
    """A traced function whose constants are operands, and these, changed where they vary over mesh axes.

    Those that do not vary there are changed in the casts that the function makes of them.

    Args:
      closed: the function.
      change: gives another value of the same type.
      axes: the mesh axes.

    Returns:
      A function of a list of operands and of the arguments of `closed`; and the list.
    """
    jaxpr, consts = closed.jaxpr, [jnp.asarray(const) for const in closed.consts]
    count = len(consts)
    finder = CastFinder([0] * count, 1)
    finder.visit(jaxpr, {var: frozenset({(i, frozenset())}) for i, var in enumerate(jaxpr.constvars) if is_inexact(var.aval)})
    casts = sorted(finder.found, key=lambda pair: (pair[0], sorted(pair[1])))
    varied = list(consts)
    for i, over in casts:
        with source_of(finder.found[i, over]):
            varied.append(cast_data(consts[i], over))
    operands = [change(value) if axes <= varying(value) else value for value in varied]
    open_jaxpr = consts_to_inputs(jaxpr)

    def run(operands: Sequence[Any], *datas: Any) -> list[Any]:
        if not casts:
            return list(jaxpr_as_fun(ClosedJaxpr(open_jaxpr, ()))(*operands, *datas))
        forms: list[Forms] = [{} for _ in (*consts, *datas)]
        for (i, over), form in zip(casts, operands[count:], strict=True):
            forms[i][over] = form
        return WithForms(open_jaxpr, [*operands[:count], *datas], forms, [False] * len(forms)).run()[0]

    return run, operands


class Hoist(Exception):
    """Something is to be taken out of a body, as `Body` says; raised while it is traced, for the tracing code."""

    def __init__(self, closed: ClosedJaxpr, casts: Mapping[tuple[int, MeshAxes], Any], mesh: Any):
        super().__init__("casts are to be taken out of a loop")
        self.closed, self.casts, self.mesh = closed, casts, mesh


class Body:
    """A loop's body on flat data, traced once where casts may be taken out of it.

    Args:
      flat: takes the data of the carry and of what is sliced, and returns those of the next carry and of the results.
      carried: the number of leaves of the carry, which come first.
      steps: the number of steps, where it is known.
      sliced: whether what follows are slices of operands of the loop, one for each step.
    """

    def __init__(self, flat: Callable[..., list[Any]], carried: int, steps: int, sliced: bool = True):
        self.flat, self.carried, self.steps, self.sliced = flat, carried, steps, sliced
        self.region = ambient()

    def __call__(self, *datas: Any) -> list[Any]:
        """One step.

        Raises:
          Hoist: the step casts what the loop has as operands, or closes over what belongs to the region around this one.
        """
        if self.region is None or self.region.mesh is None:
            return self.flat(*datas)
        closed, n, mesh = jax.make_jaxpr(self.flat)(*datas), self.carried, self.region.mesh
        same = [a.dtype for a in closed.in_avals[:n]] == [a.dtype for a in closed.out_avals[:n]]
        if same:  # otherwise JAX promotes the carry, and traces again
            casts = self._casts(closed.jaxpr) if self.region.manual and LOOP_CASTS not in self.region.left_out else {}
            if casts or any(is_foreign(const, mesh) for const in closed.consts):
                raise Hoist(closed, casts, mesh)
        return list(jaxpr_as_fun(closed)(*datas))

    def _casts(self, jaxpr: Any) -> dict[tuple[int, MeshAxes], Any]:
        """The casts of operands of the loop: their numbers, and the axes; with the first such cast."""
        slices = jaxpr.invars[self.carried :] if self.sliced else []
        operands = [*jaxpr.constvars, *slices]
        sizes = [_elements(var.aval) for var in jaxpr.constvars] + [self.steps * _elements(var.aval) for var in slices]
        finder = CastFinder(sizes, self.steps)
        # An operand that cannot be differentiated is a constant: its cast has no gradient.
        finder.visit(jaxpr, {var: frozenset({(i, frozenset())}) for i, var in enumerate(operands) if is_inexact(var.aval)})
        return finder.found


class Hoisted:
    """A traced body, its constants as operands, and the casts that were taken out of it.

    Args:
      hoist: what `Body` has raised.
      carried: the number of leaves of the carry.
    """

    def __init__(self, hoist: Hoist, carried: int):
        closed = hoist.closed
        self.carried = carried
        self.dtypes = [aval.dtype for aval in closed.in_avals[:carried]]
        # A weak type that the body does not keep (a carry that begins with 0.0) is given up before.
        kept = zip(closed.in_avals[:carried], closed.out_avals[:carried], strict=True)
        self.weak = [all(getattr(aval, "weak_type", False) for aval in pair) for pair in kept]
        # JAX cannot transpose a loop one of whose constants has a type of a region around it, in `jax.lax.scan` either.
        self.consts = [enter_mesh(const, hoist.mesh) if is_foreign(const, hoist.mesh) else const for const in closed.consts]
        jaxpr = closed.jaxpr
        self.jaxpr = consts_to_inputs(jaxpr)
        count = len(self.consts)
        self.casts = sorted(hoist.casts, key=lambda pair: (pair[0], sorted(pair[1])))
        self.const_forms: list[Forms] = [{} for _ in self.consts]
        for i, axes in self.casts:
            if i < count:
                with source_of(hoist.casts[i, axes]):
                    self.const_forms[i][axes] = cast_data(jnp.asarray(self.consts[i]), axes)
        self.sliced_casts = [(i - count, axes) for i, axes in self.casts if i >= count]
        self._sources = [hoist.casts[i, axes] for i, axes in self.casts if i >= count]
        self.direct = self._direct()

    def _direct(self) -> tuple[Any, list[int]] | None:
        """The body with casts as inputs, and the numbers of these casts, if it can be had without tracing the body again."""
        # The operands that can be cast are the constants and what is sliced; the carry lies between them.
        places = [i if i < len(self.consts) else i + self.carried for i, _ in self.casts]
        inputs = [self.jaxpr.invars[place] for place in places]
        if len(set(places)) < len(places):
            return None
        found = _with_inputs_cast(self.jaxpr, {var: axes for var, (_, axes) in zip(inputs, self.casts, strict=True)})
        if found is None:
            return None
        body, taken = found
        return body, [inputs.index(var) for var in taken]

    def start(self, datas: Sequence[Any]) -> list[Any]:
        """The beginning, with the element types that the body was traced with."""
        return [
            data if data.dtype == dtype and data.weak_type == weak else lax.convert_element_type(data, dtype)
            for data, dtype, weak in zip(datas, self.dtypes, self.weak, strict=True)
        ]

    def slices(self, datas: Sequence[Any], cast_of: Callable[[int, MeshAxes], Any] | None = None) -> list[Any]:
        """What is sliced, and the forms of it that the body wants.

        Args:
          datas: what is sliced.
          cast_of: gives one of them, by its number, varying over mesh axes, where something better is known than a cast.
        """
        cast = []
        for (i, axes), source in zip(self.sliced_casts, self._sources, strict=True):
            with source_of(source):
                cast.append(cast_data(datas[i], axes) if cast_of is None else cast_of(i, axes))
        return [*datas, *cast]

    def __call__(self, carry: Sequence[Any], slices: Sequence[Any]) -> list[Any]:
        """One step, of data that come from `start`, or from another step, and of one slice of each of `slices`."""
        count = len(slices) - len(self.sliced_casts)
        forms: list[Forms] = [{} for _ in range(count)]
        for (i, axes), form in zip(self.sliced_casts, slices[count:], strict=True):
            forms[i][axes] = form
        no_forms: list[Forms] = [{} for _ in carry]
        values = [*self.consts, *carry, *slices[:count]]
        if self.direct is not None:
            body, wanted = self.direct
            given = [
                (self.const_forms[i] if i < len(self.consts) else forms[i - len(self.consts)])[axes] for i, axes in self.casts
            ]
            return list(jaxpr_as_fun(ClosedJaxpr(body, ()))(*values, *(given[i] for i in wanted)))
        return WithForms(self.jaxpr, values, [*self.const_forms, *no_forms, *forms], [False] * len(values)).run()[0]
