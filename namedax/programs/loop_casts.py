"""Casts to varying that are hoisted out of the body of a loop.

Values that a loop body closes over, or slices, are often invariant. They are cast to varying when
they are combined with values that have a sharded name. The transpose of the cast is an all-reduce.
This pass hoists casts of a loop's operands out of its body, past operations that depend on these
operands alone. The gradient is then reduced once, after the loop, instead of in every step.
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
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var, jaxpr_as_fun
from jax.sharding import AbstractMesh

from namedax.core.memory_kinds import host_seen, is_host_type, to_device
from namedax.core.names import Mesh
from namedax.core.records import Record
from namedax.core.region import ambient
from namedax.core.variance import cast_data, varying, varying_of
from namedax.primitives.equations import (
    bodies_of,
    called,
    cast_axes,
    is_copy_from_host,
    kind_of,
    reading,
    stand_ins,
)
from namedax.primitives.recomputation import remat_like, with_jaxpr
from namedax.primitives.record import Atom, Kind, aval_of, is_inexact
from namedax.programs.evaluator import (
    LOOP_CASTS,
    Evaluator,
    Replacement,
    consts_to_inputs,
    skip,
    source_of,
)
from namedax.programs.forward_rules import commutes_with_casts, repeat
from namedax.programs.loop_copies import with_constants_on_device
from namedax.resources.mesh import (
    current_mesh,
    enter_mesh,
    has_explicit_axes,
    is_foreign,
    on_ambient_mesh,
)

__all__ = [
    "Body",
    "CastFinder",
    "Hoist",
    "Hoisted",
    "Variants",
    "WithVariants",
    "apart_from_constants",
    "elements_of",
]


# The variants of a value that vary over more mesh axes than it does, by these axes.
Variants = dict[frozenset[str], jax.Array]
# The origin of a value: the indices of the loop operands that it is computed from, and the mesh
# axes over which each has been cast on the way. A value that depends on any other differentiable
# value has no origin.
Origin = frozenset[tuple[int, frozenset[str]]]


def elements_of(var: Atom) -> int:
    """Return the number of elements of a value."""
    return math.prod(aval_of(var).shape)


def _branches(eqn: JaxprEqn) -> list[Jaxpr] | None:
    """Return the open jaxprs of the branches of an equation, or `None`."""
    if kind_of(eqn) is not Kind.BRANCH or any(body.consts for body in bodies_of(eqn)):
        return None
    return [body.jaxpr for body in bodies_of(eqn)]


class CastFinder(Record, frozen=False):
    """Finder of casts in a loop's body, of values computed from operands of the loop alone.

    Attributes:
      sizes: the number of elements of every operand.
      steps: the number of steps, if it is known.
      found: the index of an operand and the mesh axes over which to cast it before the loop, mapped
        to the first such cast.
    """

    sizes: Sequence[int]
    steps: int
    found: dict[tuple[int, frozenset[str]], JaxprEqn] = dataclasses.field(default_factory=dict)

    def visit(self, jaxpr: Jaxpr, origins: Mapping[Atom, Origin]) -> list[Origin | None]:
        """Record the casts in an open jaxpr with these origins, and return the results' origins."""
        known: dict[Atom, Origin] = dict(origins)

        def origin(var: Atom) -> Origin | None:
            if isinstance(var, Literal):
                return frozenset()
            return known.get(var, None if is_inexact(var.aval) else frozenset())

        for eqn in jaxpr.eqns:
            sources = [origin(var) for var in eqn.invars]
            if not any(sources):
                # A constant, whose cast has no gradient.
                if None not in sources and not eqn.effects:
                    known.update(dict.fromkeys(eqn.outvars, frozenset()))
                continue
            axes, inner = cast_axes(eqn), called(eqn)
            if inner is not None:
                pairs = zip(inner.invars, sources, strict=True)
                results = self.visit(
                    inner, {var: source for var, source in pairs if source is not None}
                )
                known.update(
                    (var, result)
                    for var, result in zip(eqn.outvars, results, strict=True)
                    if result is not None
                )
                continue
            if (bodies := _branches(eqn)) is not None:
                every = [
                    self.visit(
                        body,
                        {
                            var: source
                            for var, source in zip(body.invars, sources[1:], strict=True)
                            if source is not None
                        },
                    )
                    for body in bodies
                ]
                for var, column in zip(eqn.outvars, zip(*every, strict=True), strict=True):
                    if None not in column:
                        known[var] = frozenset().union(*(o for o in column if o is not None))
                continue
            if any(source is None for source in sources):
                continue
            union: Origin = frozenset().union(*(source for source in sources if source is not None))
            if axes:
                union = frozenset((number, before | axes) for number, before in union)
                # The gradient is reduced once, with the size of the operands, instead of in every
                # step with the size of the value.
                if sum(self.sizes[number] for number, _ in union) <= self.steps * elements_of(
                    eqn.invars[0]
                ):
                    self.found = {**dict.fromkeys(union, eqn), **self.found}
                known[eqn.outvars[0]] = union
            elif commutes_with_casts(eqn) and not is_copy_from_host(eqn):
                # The gradient of such a copy is summed over devices before it goes to the host.
                known.update(dict.fromkeys(eqn.outvars, union))
        return [origin(var) for var in jaxpr.outvars]


class WithVariants:
    """Evaluator of an open jaxpr that replaces casts by variants that the values already have.

    Args:
      jaxpr: the jaxpr.
      values: its inputs.
      variants: the variants of the inputs.
      constant: True for each input that has no variants because it is a constant, whose casts have
        no gradient.
    """

    def __init__(
        self,
        jaxpr: Jaxpr,
        values: Sequence[jax.Array],
        variants: Sequence[Variants],
        constant: Sequence[bool],
    ):
        self.jaxpr, self.evaluator = jaxpr, Evaluator(jaxpr, values)
        self.variants: dict[Atom, Variants] = {
            var: f for var, f in zip(jaxpr.invars, variants, strict=True) if f
        }
        # Differentiable values without variants. Constants are not included: they are cast where
        # they are needed.
        candidates = (var for var, fixed in zip(jaxpr.invars, constant, strict=True) if not fixed)
        self.plain = {
            var for var in candidates if var not in self.variants and is_inexact(var.aval)
        }

    def run(self) -> tuple[list[jax.Array], list[Variants]]:
        """Return the results, and their variants."""
        return self.evaluator.run(self._rule), [
            self._variants_of(var) for var in self.jaxpr.outvars
        ]

    def _rule(self, eqn: JaxprEqn) -> Replacement:
        of, inner = [self._variants_of(var) for var in eqn.invars], called(eqn)
        if not any(of):
            self._note_plain(eqn)
            return None
        if cast_axes(eqn) in of[0]:
            # Its variant is already available, so nothing needs to be evaluated first.
            self._cast(eqn, of)
            self._note_plain(eqn)
            return skip
        take = self._operation if inner is None else functools.partial(self._call, inner)
        if (bodies := _branches(eqn)) is not None:
            take = functools.partial(self._branch, bodies)

        def evaluate() -> None:
            take(eqn, of)
            self._note_plain(eqn)

        return evaluate

    def _cast(self, eqn: JaxprEqn, of: Sequence[Variants]) -> None:
        axes, (out,) = cast_axes(eqn), eqn.outvars
        self.evaluator.known[out] = of[0][axes]
        self.variants[out] = {more - axes: value for more, value in of[0].items() if axes < more}

    def _call(self, inner: Jaxpr, eqn: JaxprEqn, of: Sequence[Variants]) -> None:
        operands = self.evaluator.operands(eqn)
        fixed = [isinstance(var, Literal) or var not in self.plain for var in eqn.invars]
        if kind_of(eqn) == Kind.REMAT:
            axes = [list(f) for f in of]
            keys = _keys_of(inner, axes, fixed, operands, of)
            listed = functools.partial(_evaluate_listed, inner, axes, fixed, keys)
            every = remat_like(eqn, listed)(operands, [list(f.values()) for f in of])
            self._take(eqn, keys, every)
            return
        results, variants = WithVariants(inner, operands, of, fixed).run()
        self.variants.update((var, f) for var, f in zip(eqn.outvars, variants, strict=True) if f)
        self.evaluator.known.update(zip(eqn.outvars, results, strict=True))

    def _branch(self, bodies: Sequence[Jaxpr], eqn: JaxprEqn, of: Sequence[Variants]) -> None:
        (index, *operands), (_, *of) = self.evaluator.operands(eqn), of
        fixed = [isinstance(var, Literal) or var not in self.plain for var in eqn.invars[1:]]
        axes = [list(f) for f in of]
        every = [_keys_of(body, axes, fixed, operands, of, strict=False) for body in bodies]
        keys = [_shared(column) for column in zip(*every, strict=True)]
        wanted = [[] if key is None else sorted(key, key=sorted) for key in keys]
        functions = [
            functools.partial(_evaluate_listed, body, axes, fixed, wanted) for body in bodies
        ]
        given = operands, [list(f.values()) for f in of]
        types = [
            [varying_of(aval) for aval in jax.make_jaxpr(function)(*given).out_avals]
            for function in functions
        ]
        union = [frozenset[str]().union(*column) for column in zip(*types, strict=True)]

        def alike(function: Callable[..., list[jax.Array]], *given: Any) -> list[jax.Array]:
            return [cast_data(v, over) for v, over in zip(function(*given), union, strict=True)]

        branches = [functools.partial(alike, function) for function in functions]
        self._take(eqn, wanted, list(lax.switch(index, branches, *given)))

    def _take(
        self, eqn: JaxprEqn, keys: Sequence[Sequence[frozenset[str]]], every: Sequence[jax.Array]
    ) -> None:
        """Record the results of an equation, and their variants, which follow them."""
        count = len(eqn.outvars)
        self.evaluator.known.update(zip(eqn.outvars, every[:count], strict=True))
        variants = iter(every[count:])
        for var, axes in zip(eqn.outvars, keys, strict=True):
            if axes:
                self.variants[var] = {over: next(variants) for over in axes}

    def _operation(self, eqn: JaxprEqn, of: Sequence[Variants]) -> None:
        """Evaluate an operation on operands with variants.

        It is evaluated as written and, if it commutes with casts, in every variant that all its
        operands have.
        """
        self.evaluator.as_it_stands(eqn)
        used = [
            f
            for var, f in zip(eqn.invars, of, strict=True)
            if f or (not isinstance(var, Literal) and var in self.plain)
        ]
        for axes in set(used[0]).intersection(*used) if commutes_with_casts(eqn) else ():
            results = repeat(eqn, [self._variant(var, axes) for var in eqn.invars])
            for var, value in zip(eqn.outvars, results, strict=True):
                self.variants.setdefault(var, {})[axes] = value

    def _variant(self, var: Atom, axes: frozenset[str]) -> jax.Array:
        variants = self._variants_of(var)
        if axes in variants:
            return variants[axes]
        value = self.evaluator.read(var)
        return cast_data(
            value if hasattr(value, "aval") else jnp.asarray(value, aval_of(var).dtype), axes
        )

    def _variants_of(self, var: Atom) -> Variants:
        return {} if isinstance(var, Literal) else self.variants.get(var, {})

    def _note_plain(self, eqn: JaxprEqn) -> None:
        """Record differentiable results of plain values or effects, which have no variants."""
        differentiable = [
            var for var in eqn.invars if not isinstance(var, Literal) and is_inexact(var.aval)
        ]
        if eqn.effects or any(
            var in self.plain or self.variants.get(var) for var in differentiable
        ):
            self.plain.update(
                var for var in eqn.outvars if not self.variants.get(var) and is_inexact(var.aval)
            )


def _with_inputs_cast(
    jaxpr: Jaxpr, variants: Mapping[Atom, frozenset[str]]
) -> tuple[Jaxpr, list[Atom]] | None:
    """Return an open jaxpr with casts of inputs as extra inputs, and these inputs in order.

    This works if the variants are used only by casts and by jaxprs that are recomputed for the
    gradient. Then no equation is bound again. Otherwise the result is `None`.

    Args:
      jaxpr: the jaxpr.
      variants: inputs, and the mesh axes over which each has been cast.
    """
    taken: dict[Atom, Var] = {}  # the casts that are now inputs
    stands_for: dict[Atom, Var] = {}
    eqns: list[JaxprEqn] = []
    for eqn in jaxpr.eqns:
        eqn = reading(eqn, stands_for)
        operands = eqn.invars
        held = [None if isinstance(var, Literal) else variants.get(var) for var in operands]
        if not any(held):
            eqns.append(eqn)
        elif cast_axes(eqn) == held[0]:
            stands_for[eqn.outvars[0]] = taken.setdefault(operands[0], eqn.outvars[0])
        elif kind_of(eqn) == Kind.REMAT and (inner := called(eqn)) is not None:
            given: dict[Atom, frozenset[str]] = {
                var: axes for var, axes in zip(inner.invars, held, strict=True) if axes
            }
            found = _with_inputs_cast(inner, given)
            if found is None:
                return None
            within, wanted = found
            outside: dict[Atom, Atom] = dict(zip(inner.invars, operands, strict=True))
            aliases = dict(zip(wanted, within.invars[len(inner.invars) :], strict=True))
            more = [
                taken.setdefault(outside[var], Var(alias.aval)) for var, alias in aliases.items()
            ]
            eqns.append(with_jaxpr(eqn, within, [*operands, *more], eqn.outvars))
        else:
            return None
    outvars = stand_ins(jaxpr.outvars, stands_for)
    changed = jaxpr.replace(eqns=eqns, invars=[*jaxpr.invars, *taken.values()], outvars=outvars)
    return changed, list(taken)


def _keys_of(
    jaxpr: Jaxpr,
    axes: Sequence[Sequence[frozenset[str]]],
    constant: Sequence[bool],
    values: Sequence[jax.Array],
    variants: Sequence[Variants],
    strict: bool = True,
) -> list[Any]:
    """Return the mesh axes of the variants of each result of an open jaxpr.

    Without `strict`, the mesh axes of a constant result are `None`: it may have any variant.
    """
    found: list[Any] = []

    def trace(values: Sequence[jax.Array], variants: Sequence[Sequence[jax.Array]]) -> None:
        given = [dict(zip(a, f, strict=True)) for a, f in zip(axes, variants, strict=True)]
        within = WithVariants(jaxpr, values, given, constant)
        _, results = within.run()
        for var, result in zip(jaxpr.outvars, results, strict=True):
            is_constant = isinstance(var, Literal) or var not in within.plain
            keys = sorted(result, key=sorted)
            found.append(None if not strict and not keys and is_constant else keys)

    jax.make_jaxpr(trace)(values, [list(f.values()) for f in variants])
    return found


def _shared(columns: Sequence[Sequence[frozenset[str]] | None]) -> set[frozenset[str]] | None:
    """Return the mesh axes of the variants that a result has in all branches."""
    used = [set(keys) for keys in columns if keys is not None]
    return used[0].intersection(*used) if used else None


def _evaluate_listed(
    jaxpr: Jaxpr,
    axes: Sequence[Sequence[frozenset[str]]],
    constant: Sequence[bool],
    keys: Sequence[Sequence[frozenset[str]]],
    values: Sequence[jax.Array],
    variants: Sequence[Sequence[jax.Array]],
) -> list[jax.Array]:
    """Return the results of an open jaxpr, and then their variants with these keys."""
    results, made = WithVariants(
        jaxpr,
        values,
        [dict(zip(a, f, strict=True)) for a, f in zip(axes, variants, strict=True)],
        constant,
    ).run()
    return results + [
        variant[over] if over in variant else cast_data(value, over)
        for value, variant, wanted in zip(results, made, keys, strict=True)
        for over in wanted
    ]


def apart_from_constants(
    closed: ClosedJaxpr, change: Callable[[jax.Array], jax.Array], axes: frozenset[str]
) -> tuple[Callable[..., list[jax.Array]], list[jax.Array]]:
    """Convert constants of a traced function to operands, and change those that vary.

    A constant that does not vary over these axes is changed in the casts that the function makes of
    it.

    Args:
      closed: the function.
      change: returns another value of the same type.
      axes: the mesh axes.

    Returns:
      A function of a list of operands and of the arguments of `closed`; and the list.
    """
    jaxpr, consts = closed.jaxpr, [jnp.asarray(const) for const in closed.consts]
    count = len(consts)
    finder = CastFinder([0] * count, 1)
    finder.visit(
        jaxpr,
        {
            var: frozenset({(i, frozenset())})
            for i, var in enumerate(jaxpr.constvars)
            if is_inexact(var.aval)
        },
    )
    casts = sorted(finder.found, key=lambda pair: (pair[0], sorted(pair[1])))
    varied = list(consts)
    for i, over in casts:
        with source_of(finder.found[i, over]):
            varied.append(cast_data(consts[i], over))
    operands = [change(value) if axes <= varying(value) else value for value in varied]
    open_jaxpr = consts_to_inputs(jaxpr)

    def run(operands: Sequence[jax.Array], *datas: jax.Array) -> list[jax.Array]:
        if not casts:
            return list(jaxpr_as_fun(ClosedJaxpr(open_jaxpr, ()))(*operands, *datas))
        variants: list[Variants] = [{} for _ in (*consts, *datas)]
        for (i, over), variant in zip(casts, operands[count:], strict=True):
            variants[i][over] = variant
        return WithVariants(
            open_jaxpr, [*operands[:count], *datas], variants, [False] * len(variants)
        ).run()[0]

    return run, operands


class Hoist(Exception):
    """Request of `Body`, while it is traced, to hoist casts or closed-over values out of it."""

    def __init__(
        self,
        closed: ClosedJaxpr,
        casts: Mapping[tuple[int, frozenset[str]], JaxprEqn],
        mesh: Mesh | AbstractMesh | None,
    ):
        super().__init__("casts are to be taken out of a loop")
        self.closed, self.casts, self.mesh = closed, casts, mesh


class Body:
    """A loop's body on flat data, traced once if casts may be hoisted out of it.

    Args:
      flat: takes the data of the carry and of the slices, and returns the data of the next carry
        and of the results.
      carried: the number of leaves of the carry, which come first.
      steps: the number of steps, if it is known.
      sliced: whether the remaining data are slices of operands of the loop, one for each step;
        default: True.
    """

    def __init__(
        self, flat: Callable[..., list[jax.Array]], carried: int, steps: int, sliced: bool = True
    ):
        self.flat, self.carried, self.steps, self.sliced = flat, carried, steps, sliced
        self.region = ambient()

    def __call__(self, *datas: jax.Array) -> list[jax.Array]:
        """Run one step.

        Raises:
          Hoist: the step casts operands of the loop, copies arrays that it closes over from the
            memory of the host, or closes over values of the surrounding region, or over results of
            a mapped function without the types of the current mesh.
        """
        mesh = current_mesh() if self.region is None else self.region.mesh
        is_plain = mesh is None or (self.region is None and not has_explicit_axes(mesh))
        if is_plain and not host_seen:
            results = self.flat(*datas)
            if not host_seen:
                return results
        closed, n = jax.make_jaxpr(self.flat)(*datas), self.carried
        copied = with_constants_on_device(closed) if host_seen else None
        same = [a.dtype for a in closed.in_avals[:n]] == [a.dtype for a in closed.out_avals[:n]]
        if same:  # otherwise JAX promotes the carry, and traces again
            closed = closed if copied is None else copied
            casts = (
                self._casts(closed.jaxpr)
                if self.region is not None
                and self.region.manual
                and LOOP_CASTS not in self.region.left_out
                else {}
            )
            foreign = mesh is not None and any(is_foreign(const, mesh) for const in closed.consts)
            if casts or copied is not None or foreign:
                raise Hoist(closed, casts, mesh)
        return list(jaxpr_as_fun(closed)(*datas))

    def _casts(self, jaxpr: Jaxpr) -> dict[tuple[int, frozenset[str]], JaxprEqn]:
        """Return the casts by operand of the loop and mesh axes, each with its first equation."""
        slices = jaxpr.invars[self.carried :] if self.sliced else []
        operands = [*jaxpr.constvars, *slices]
        sizes = [elements_of(var) for var in jaxpr.constvars] + [
            self.steps * elements_of(var) for var in slices
        ]
        finder = CastFinder(sizes, self.steps)
        # An operand that cannot be differentiated is a constant: its cast has no gradient.
        finder.visit(
            jaxpr,
            {
                var: frozenset({(i, frozenset())})
                for i, var in enumerate(operands)
                if is_inexact(var.aval)
            },
        )
        return finder.found


class Hoisted:
    """A traced body with its constants as operands and its casts hoisted out.

    Args:
      hoist: the exception that `Body` raised.
      carried: the number of leaves of the carry.
    """

    def __init__(self, hoist: Hoist, carried: int):
        closed = hoist.closed
        self.carried = carried
        self.dtypes = [aval.dtype for aval in closed.in_avals[:carried]]
        # A weak type that the body does not preserve (a carry that begins with 0.0) is dropped
        # before the loop.
        kept = zip(closed.in_avals[:carried], closed.out_avals[:carried], strict=True)
        self.weak = [all(getattr(aval, "weak_type", False) for aval in pair) for pair in kept]
        # JAX cannot transpose a loop with a constant whose type belongs to a surrounding region;
        # `jax.lax.scan` cannot either.
        outside = ambient() is None
        self.consts = [
            (
                on_ambient_mesh(const, "the loop", hoist.mesh)
                if outside
                else enter_mesh(const, hoist.mesh)
            )
            if hoist.mesh is not None and is_foreign(const, hoist.mesh)
            else const
            for const in (
                const if is_host_type(var.aval) else to_device(const)
                for var, const in zip(closed.jaxpr.constvars, closed.consts, strict=True)
            )
        ]
        jaxpr = closed.jaxpr
        self.jaxpr = consts_to_inputs(jaxpr)
        count = len(self.consts)
        self.casts = sorted(hoist.casts, key=lambda pair: (pair[0], sorted(pair[1])))
        self.const_variants: list[Variants] = [{} for _ in self.consts]
        for i, axes in self.casts:
            if i < count:
                with source_of(hoist.casts[i, axes]):
                    self.const_variants[i][axes] = cast_data(jnp.asarray(self.consts[i]), axes)
        self.sliced_casts = [(i - count, axes) for i, axes in self.casts if i >= count]
        self._sources = [hoist.casts[i, axes] for i, axes in self.casts if i >= count]
        self.direct = self._direct()

    def _direct(self) -> tuple[Jaxpr, list[int]] | None:
        """Return the body with casts as inputs, and the indices of these casts.

        The result is `None` if that requires another trace of the body.
        """
        # The operands that can be cast are the constants and the slices; the carry lies between
        # them.
        positions = [i if i < len(self.consts) else i + self.carried for i, _ in self.casts]
        inputs: list[Atom] = [self.jaxpr.invars[position] for position in positions]
        if len(set(positions)) < len(positions):
            return None
        found = _with_inputs_cast(
            self.jaxpr, {var: axes for var, (_, axes) in zip(inputs, self.casts, strict=True)}
        )
        if found is None:
            return None
        body, taken = found
        return body, [inputs.index(var) for var in taken]

    def start(self, datas: Sequence[jax.Array]) -> list[jax.Array]:
        """Return the initial carry, with the dtypes that the body was traced with."""
        return [
            (
                data
                if data.dtype == dtype and data.weak_type == weak
                else lax.convert_element_type(data, dtype)
            )
            for data, dtype, weak in zip(datas, self.dtypes, self.weak, strict=True)
        ]

    def slices(
        self,
        datas: Sequence[jax.Array],
        cast_of: Callable[[int, frozenset[str]], jax.Array] | None = None,
    ) -> list[jax.Array]:
        """Return the sliced operands, and the variants of them that the body uses.

        Args:
          datas: the sliced operands.
          cast_of: returns one of them, by its index, varying over mesh axes, if there is a better
            variant than a cast. Default: cast.
        """
        cast = []
        for (i, axes), source in zip(self.sliced_casts, self._sources, strict=True):
            with source_of(source):
                cast.append(cast_data(datas[i], axes) if cast_of is None else cast_of(i, axes))
        return [*datas, *cast]

    def __call__(self, carry: Sequence[jax.Array], slices: Sequence[jax.Array]) -> list[jax.Array]:
        """Run one step.

        Args:
          carry: data from `start` or from another step.
          slices: one slice of each result of `slices`.
        """
        count = len(slices) - len(self.sliced_casts)
        variants: list[Variants] = [{} for _ in range(count)]
        for (i, axes), variant in zip(self.sliced_casts, slices[count:], strict=True):
            variants[i][axes] = variant
        no_variants: list[Variants] = [{} for _ in carry]
        values = [*self.consts, *carry, *slices[:count]]
        if self.direct is not None:
            body, wanted = self.direct
            given = [
                (
                    self.const_variants[i]
                    if i < len(self.consts)
                    else variants[i - len(self.consts)]
                )[axes]
                for i, axes in self.casts
            ]
            return list(jaxpr_as_fun(ClosedJaxpr(body, ()))(*values, *(given[i] for i in wanted)))
        return WithVariants(
            self.jaxpr,
            values,
            [*self.const_variants, *no_variants, *variants],
            [False] * len(values),
        ).run()[0]
