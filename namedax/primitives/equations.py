"""Equations: their primitives, their records, and the only accessors of their parameters.

Passes over a traced jaxpr look up here what an equation does. They never inspect a primitive's name
or parameters themselves, so a change in another version of JAX needs a change in one place only.
`tests/primitives/` compares every record with the installed JAX. Properties that any equation shows
(side effects, jaxprs, mesh axes) are computed by functions.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import jax
from jax.core import AbstractValue, ShapedArray
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, subjaxprs
from jax.sharding import AbstractMesh, NamedSharding, PartitionSpec

from namedax.core.memory_kinds import is_host_type
from namedax.core.records import Record
from namedax.core.region import without_region
from namedax.core.user_code import LEAF
from namedax.primitives.calls import HIGH, OLDER
from namedax.primitives.dimensions import NONE
from namedax.primitives.elementwise import COPY
from namedax.primitives.record import (
    AnyJaxpr,
    Atom,
    Kind,
    Mixed,
    Primitive,
    Sharding,
    aval_of,
    axes_in,
)
from namedax.primitives.table import LOCAL_KINDS, TABLE, UNKNOWN, names_with
from namedax.resources.two_level import PRIMITIVE as TWO_LEVEL

# Long: all accessors of the parameters of equations.

__all__ = [
    *("COLLECTIVES", "MARK", "Scan", "While", "are_side_effects", "axes_of", "barrier", "bind"),
    *("bodies_of", "call_whole", "called", "called_in_steps", "cast_axes", "collective_kind"),
    *("commutes", "condition_of", "constraint", "dimension_of", "exported_name", "facts"),
    *("facts_of", "has_forward_rule", "has_rule", "has_side_effects", "in_two_levels"),
    *("is_call_on_devices", "is_in_groups", "is_ordered"),
    *("call_equation", "identity_of", "is_copy_from_host", "is_copy_to_host", "reading"),
    *("is_inlined", "is_local", "is_tiled", "is_to_be_inlined", "is_whole_exchange"),
    *("is_whole_sum", "jaxpr_of", "jaxprs_of", "jaxprs_within", "kind_of", "mapped_axes"),
    *("mapped_jaxpr", "marked_axes_moved", "mesh_sizes", "name_of", "names_of", "open_jaxpr"),
    *("operands_of_bodies", "parameters_of", "parameters_with", "placement_of", "primitive_name"),
    *(
        "slice_sizes",
        "sliced_dimension",
        "solve",
        "stand_ins",
        "strings_of",
        "with_bodies",
        "with_jaxprs",
        "with_operands",
    ),
]

T = TypeVar("T")


def open_jaxpr(jaxpr: AnyJaxpr) -> Jaxpr:
    """Return the open jaxpr of a closed one; an open one is returned unchanged."""
    return jaxpr.jaxpr if isinstance(jaxpr, ClosedJaxpr) else jaxpr


# --- high primitives ------------------------------------------------------------------------------
# Equations of JAX 0.12 that hold an object with its own rules, instead of a primitive with
# parameters. They all have one primitive, `call_hi_primitive`, whose parameter is a
# `jax.experimental.hijax.HiPrim`. `jnp.nonzero` is one. With the flags `jax_remat3`,
# `jax_custom_jvp3` and `jax_custom_vjp3`, so are `jax.checkpoint` and functions with custom
# derivative rules. The functions here give these the names and the parameters of the older
# primitives. Every other high primitive is represented by the jaxpr that its `expand` traces.


def primitive_name(eqn: JaxprEqn) -> str:
    """Return the name of the primitive of an equation.

    For a high primitive, return that of the equivalent older primitive, if any.
    """
    name: str = eqn.primitive.name
    return name if name != HIGH else OLDER.get(type(eqn.params["_prim"]).__name__, HIGH)


def names_of(eqns: Sequence[JaxprEqn]) -> list[str]:
    """Return the names of the primitives of equations; one call, because it runs on every jaxpr."""
    return [name if (name := eqn.primitive.name) != HIGH else primitive_name(eqn) for eqn in eqns]


def parameters_of(eqn: JaxprEqn) -> dict[str, Any]:
    """Return the parameters of an equation, or of its high primitive."""
    params: dict[str, Any] = eqn.params
    return params if eqn.primitive.name != HIGH else params["_prim"].params


def jaxpr_of(eqn: JaxprEqn) -> AnyJaxpr:
    """Return the jaxpr, of the equation's operands, that a high primitive calls or expands to."""
    params = parameters_of(eqn)
    jaxpr = params["jaxpr"] if "jaxpr" in params else getattr(params.get("traced"), "jaxpr", None)
    if jaxpr is not None and len(jaxpr.in_avals) == len(eqn.invars):
        return jaxpr
    return _expanded(
        eqn.params["_prim"], tuple(var.aval for var in eqn.invars), eqn.ctx.cur_abstract_mesh
    )


# One jaxpr for all passes, which identify jaxprs by `id`.
@functools.lru_cache(maxsize=1024)
def _expanded(prim: Any, avals: tuple[AbstractValue, ...], mesh: AbstractMesh) -> ClosedJaxpr:
    def expanded(*values: jax.Array) -> list[jax.Array]:
        return jax.tree.leaves(prim.expand(*jax.tree.unflatten(prim.in_tree, values)))

    with jax.sharding.use_abstract_mesh(mesh):
        return jax.make_jaxpr(expanded)(*avals)


def jaxprs_within(jaxpr: Jaxpr) -> list[Jaxpr]:
    """Return the open jaxprs that the equations of an open jaxpr contain."""
    high = [jaxpr_of(eqn) for eqn in jaxpr.eqns if eqn.primitive.name == HIGH]
    return [*subjaxprs(jaxpr), *map(open_jaxpr, high)]


# --- records --------------------------------------------------------------------------------------

_LOCAL = names_with(lambda record: record.kind in LOCAL_KINDS and not record.has_jaxpr)
# Kinds that name mesh axes, and run no jaxprs either.
_NAMING = (
    Kind.CAST,
    Kind.SUM,
    Kind.MAXIMUM,
    Kind.MINIMUM,
    Kind.GATHER,
    Kind.SCATTER,
    Kind.EXCHANGE,
    Kind.DEVICE_INDEX,
)
_WITHOUT_PROGRAMS = _LOCAL | names_with(lambda record: record.kind in _NAMING)

# Parameters that refer to the mesh that they were traced on.
_OF_MESH = (Jaxpr, ClosedJaxpr, NamedSharding)

#: The primitive that marks leaves (`namedax.core.user_code`).
MARK = LEAF.name

# The functions of `jax.lax` that communicate or read the device index, by their public names.
COLLECTIVES = frozenset(
    "psum pmean pmax pmin ppermute pshuffle pswapaxes pbroadcast all_gather psum_scatter all_to_all"
    " axis_index".split()
)


def facts(eqn: JaxprEqn) -> Primitive:
    """Return the facts about the primitive of an equation."""
    name = eqn.primitive.name  # runs several times for every equation of a report
    return TABLE.get(name if name != HIGH else primitive_name(eqn), UNKNOWN)


def facts_of(eqns: Sequence[JaxprEqn]) -> list[Primitive]:
    """Return the facts about the primitives of many equations, for a pass over a whole jaxpr."""
    return [TABLE[name] if name in TABLE else UNKNOWN for name in names_of(eqns)]


def kind_of(eqn: JaxprEqn) -> Kind:
    """Return the kind of an equation."""
    known = TABLE.get(name, UNKNOWN) if (name := eqn.primitive.name) != HIGH else facts(eqn)
    return known.kind  # runs for every equation of every jaxpr


def collective_kind(eqn: JaxprEqn) -> Kind:
    """Return the kind of an equation, or of the asynchronous collective that it starts."""
    return TABLE.get(primitive_name(eqn).removesuffix("_start"), UNKNOWN).kind


def is_local(eqn: JaxprEqn) -> bool:
    """Return True if an equation is known to name no mesh axes and run no jaxprs."""
    return eqn.primitive.name in _LOCAL


def name_of(eqn: JaxprEqn) -> str:
    """Return the name of the JAX function that an equation runs, as users call it, for messages."""
    return facts(eqn).called or primitive_name(eqn)


def bind(eqn: JaxprEqn, values: Sequence[jax.Array], **changes: object) -> list[jax.Array]:
    """Return the results of an equation for these operands, with some parameters changed."""
    if eqn.primitive.name == HIGH and kind_of(eqn) is Kind.NAME:
        prim = eqn.params["_prim"]  # it stores the type of its operand
        return [type(prim)(prim.params["name"], jax.typeof(values[0]))(values[0])]
    result = eqn.primitive.bind(*values, **{**eqn.params, **changes})
    return list(result) if eqn.primitive.multiple_results else [result]


def stand_ins(atoms: Sequence[Atom], stands_for: Mapping[Atom, Atom]) -> list[Atom]:
    """Return variables and literals, with others for the variables that these stand for."""
    return [stands_for[v] if type(v) is not Literal and v in stands_for else v for v in atoms]


def reading(eqn: JaxprEqn, stands_for: Mapping[Atom, Atom]) -> JaxprEqn:
    """Return an equation that reads other variables for those that these stand for."""
    operands = stand_ins(eqn.invars, stands_for) if stands_for else eqn.invars
    return eqn if operands == eqn.invars else eqn.replace(invars=operands)


def has_forward_rule(eqn: JaxprEqn) -> bool:
    """Return True if an equation calls a jaxpr with a custom rule for its JVP."""
    return eqn.primitive.name == "custom_jvp_call"


def is_call_on_devices(eqn: JaxprEqn) -> bool:
    """Return True for a call of Python whose first operand says whether this device makes it."""
    return bool(eqn.params.get("is_on_devices", False))


def has_rule(eqn: JaxprEqn) -> bool:
    """Return True if an equation calls a jaxpr with a custom rule for its JVP or its gradient."""
    return primitive_name(eqn) in ("custom_jvp_call", "custom_vjp_call")


def parameters_with(eqn: JaxprEqn, change: Callable[[Any], Any]) -> dict[str, Any]:
    """Return the parameters of an equation, with what refers to its mesh changed by `change`.

    These are jaxprs, shardings, and the types of the results of a callback or a foreign call.
    """
    params: dict[str, Any] = eqn.params
    changes = {name: change(value) for name, value in params.items() if type(value) in _OF_MESH}
    if "result_avals" in params:
        changes["result_avals"] = tuple(map(change, params["result_avals"]))
    return {**params, **changes} if changes else params


# --- mesh axes ------------------------------------------------------------------------------------


def axes_of(eqn: JaxprEqn) -> tuple[str, ...]:
    """Return the mesh axes that an equation names, in its order.

    The equation may be a cast, a collective or a device index.

    For an unknown equation, return all mesh axes that any of its parameters names.
    """
    if eqn.primitive.name in _LOCAL:
        return ()
    axes = axes_in(eqn.params)
    if axes is None:
        return _axes_named(eqn) if kind_of(eqn) == Kind.UNKNOWN else ()
    return axes


def strings_of(eqn: JaxprEqn) -> list[str]:
    """Return the strings among the parameters of an equation; some may be mesh axes."""
    return [
        part
        for key, value in eqn.params.items()
        if key != "name"
        for part in _parts(value)
        if isinstance(part, str)
    ]


def _axes_named(eqn: JaxprEqn) -> tuple[str, ...]:
    strings = strings_of(eqn)
    return (
        tuple(part for part in strings if part in jax.sharding.get_abstract_mesh().axis_names)
        if strings
        else ()
    )


def is_copy_from_host(eqn: JaxprEqn) -> bool:
    """Return True if an equation copies an array from the memory of the host to the device."""
    return primitive_name(eqn) == COPY and _memories(eqn) == (True, False)


def is_copy_to_host(eqn: JaxprEqn) -> bool:
    """Return True if an equation copies an array from the device to the memory of the host."""
    return primitive_name(eqn) == COPY and _memories(eqn) == (False, True)


def _memories(eqn: JaxprEqn) -> tuple[bool, bool]:
    operand, result = eqn.invars[0], eqn.outvars[0]
    return is_host_type(operand.aval), is_host_type(result.aval)


def cast_axes(eqn: JaxprEqn) -> frozenset[str]:
    """Return the mesh axes over which an equation casts to varying; empty if it is no cast."""
    return frozenset(axes_of(eqn)) if kind_of(eqn) == Kind.CAST else frozenset()


def is_whole_sum(eqn: JaxprEqn) -> bool:
    """Return True if an equation sums each of its operands over all devices along its axes."""
    return (
        kind_of(eqn) == Kind.SUM and not is_in_groups(eqn) and len(eqn.invars) == len(eqn.outvars)
    )


def is_in_groups(eqn: JaxprEqn) -> bool:
    """Return True if a collective runs separately in groups of the devices along its axes."""
    return eqn.params.get("axis_index_groups") is not None


def is_whole_exchange(eqn: JaxprEqn) -> bool:
    """Return True if an exchange is an all-to-all: each device sends to all others."""
    return "perm" not in eqn.params


def dimension_of(eqn: JaxprEqn) -> int:
    """Return the dimension along which a gather or a scatter has the blocks of devices."""
    name = "all_gather_dimension" if kind_of(eqn) == Kind.GATHER else "scatter_dimension"
    return int(eqn.params[name])


def is_tiled(eqn: JaxprEqn) -> bool:
    """Return True if a gather or a scatter has blocks in an existing dimension.

    Otherwise a new dimension has one element for each device.
    """
    return bool(eqn.params["tiled"])


def sliced_dimension(eqn: JaxprEqn) -> tuple[int, tuple[str, ...]]:
    """Return the dimension that an equation slices, and its mesh axes, major first."""
    return int(eqn.params["dim"]), axes_of(eqn)


def slice_sizes(eqn: JaxprEqn) -> Sequence[int]:
    """Return the shape of the result of a dynamic slice."""
    sizes: Sequence[int] = eqn.params["slice_sizes"]
    return sizes


def constraint(eqn: JaxprEqn) -> NamedSharding:
    """Return the sharding of a sharding constraint."""
    return eqn.params["sharding"]


def placement_of(eqn: JaxprEqn) -> tuple[tuple[str, ...], ...]:
    """Return the mesh axes of each dimension of a value that is placed by its names."""
    layout: tuple[tuple[str, ...], ...] = eqn.params["layout"]
    return layout


def marked_axes_moved(eqn: JaxprEqn, sharding: Sharding) -> Mixed:
    """Return the mesh axes that shard another dimension of a marked leaf than in its mark."""
    claimed = tuple(map(frozenset, eqn.params["mark"]))
    if claimed == sharding:
        return NONE
    gained = NONE.union(*(own - mark for own, mark in zip(sharding, claimed, strict=True)))
    lost = NONE.union(*(mark - own for own, mark in zip(sharding, claimed, strict=True)))
    return gained & lost


def exported_name(eqn: JaxprEqn) -> str | None:
    """Return the name of the function of `jax.export` that an equation calls, or `None`."""
    return str(eqn.params["exported"].fun_name) if eqn.primitive.name == "call_exported" else None


# --- jaxprs ---------------------------------------------------------------------------------------


def jaxprs_of(eqn: JaxprEqn) -> list[AnyJaxpr]:
    """Return the jaxprs among the parameters of an equation, open or closed."""
    if eqn.primitive.name in _WITHOUT_PROGRAMS:
        return []
    if eqn.primitive.name == HIGH:
        return [] if kind_of(eqn) is Kind.NAME else [jaxpr_of(eqn)]
    return [part for part in _parts_of(eqn) if hasattr(part, "eqns") or hasattr(part, "jaxpr")]


def _parts_of(eqn: JaxprEqn) -> list[Any]:
    return [part for value in eqn.params.values() for part in _parts(value)]


def _parts(value: object) -> Iterable[Any]:
    return value if isinstance(value, (tuple, list, frozenset, set)) else (value,)


def called(eqn: JaxprEqn) -> Jaxpr | None:
    """Return the open jaxpr of a call without custom rules, which runs once; or `None`."""
    if eqn.primitive.name in _LOCAL:
        return None
    return _opened(called_in_steps(eqn)) if kind_of(eqn) in (Kind.CALL, Kind.REMAT) else None


def called_in_steps(eqn: JaxprEqn) -> AnyJaxpr | None:
    """Return the jaxpr that a differentiated equation calls once, open or closed; or `None`."""
    if kind_of(eqn) not in (Kind.CALL, Kind.RULE, Kind.REMAT):
        return None
    if eqn.primitive.name == HIGH:
        return jaxpr_of(eqn)
    return next(
        (eqn.params[name] for name in ("jaxpr", "call_jaxpr", "call") if name in eqn.params), None
    )


def _opened(jaxpr: AnyJaxpr | None) -> Jaxpr | None:
    if isinstance(jaxpr, ClosedJaxpr):
        return None if jaxpr.consts else jaxpr.jaxpr
    return jaxpr


def call_whole(jaxpr: Jaxpr, values: Sequence[jax.Array]) -> list[jax.Array]:
    """Evaluate an open jaxpr without constants; under a trace, as one call, not bound again."""
    like, changes = _call_of(ClosedJaxpr(jaxpr, ()))
    return bind(like, values, **changes)


def call_equation(
    closed: ClosedJaxpr, operands: list[Any], results: list[Any], like: JaxprEqn
) -> JaxprEqn:
    """Return an equation that calls a jaxpr without constants, with the source of `like`."""
    call, changes = _call_of(closed)
    return call.replace(
        invars=operands,
        outvars=results,
        params={**call.params, **changes},
        effects=closed.effects,
        source_info=like.source_info,
    )


def _call_of(closed: ClosedJaxpr) -> tuple[JaxprEqn, dict[str, Any]]:
    """Return an equation with a call, and the parameters that it has for `closed`."""
    with jax.disable_jit(
        False
    ):  # two operands and three results, to count per-operand and per-result values
        (like,) = without_region(_some_call(), 0.0, 0.0).jaxpr.eqns
    counts = {2: len(closed.jaxpr.invars), 3: len(closed.jaxpr.outvars)}
    changes = {
        name: value[:1] * counts[len(value)]
        for name, value in like.params.items()
        if isinstance(value, tuple) and len(value) in counts
    }
    return like, {**changes, "jaxpr": closed}


def identity_of(eqn: JaxprEqn) -> Hashable | None:
    """Return all that an equation has in common with equal ones: all but the variables it reads.

    Return `None` if it has side effects: it must stay where it is. The result may contain
    parameters that cannot be hashed. They are compared as in JAX's own cache of lowered equations.
    """
    if has_side_effects(eqn):
        return None
    source = eqn.source_info
    return (
        eqn.primitive,
        tuple(eqn.params.items()),
        tuple([var.aval for var in eqn.outvars]),
        tuple([_literal(var) if type(var) is Literal else None for var in eqn.invars]),
        source.traceback,
        source.name_stack,
    )


def _literal(literal: Literal) -> Hashable:
    """Return a number with its type: `1`, `1.0` and `True` differ, and so do `0.0` and `-0.0`."""
    return type(literal.val), repr(literal.val), literal.aval


@functools.cache
def _some_call() -> Callable[
    ..., Any
]:  # one function for all regions, because JAX caches the functions that it calls
    def part_of_body(x: jax.Array, y: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        return x, y, x

    return jax.make_jaxpr(jax.jit(part_of_body))


def is_inlined(eqn: JaxprEqn, small: int) -> bool:
    """Return True if a call can be replaced by the jaxpr that it calls.

    This holds if the call is marked to be inlined, was made by `call_whole`, or calls at most
    `small` operations.
    """
    inner = called(eqn)
    if inner is None or kind_of(eqn) == Kind.REMAT or eqn.params.get("compiler_options_kvs"):
        return False
    return (
        eqn.params.get("name") == "part_of_body"
        or is_to_be_inlined(eqn)
        or len(inner.eqns) <= small
    )


def is_to_be_inlined(eqn: JaxprEqn) -> bool:
    """Return True if a call was made to be inlined.

    JAX caches the called jaxpr, with the source lines of its first caller.
    """
    # A boolean, or, in JAX 0.12, an enum: the members that start with "jax" are calls of JAX, which
    # it inlines when lowering.
    inline = eqn.params.get("inline", False)
    return (
        inline if isinstance(inline, bool) else str(getattr(inline, "value", "")).startswith("jax")
    )


def solve(eqn: JaxprEqn, operands: Sequence[T]) -> tuple[ClosedJaxpr, list[T]]:
    """Return the jaxpr that solves a linear system, and the operands that it takes."""
    lengths, jaxprs = eqn.params["const_lengths"], eqn.params["jaxprs"]
    first = lengths.matvec + lengths.vecmat
    return jaxprs.solve, [*operands[first : first + lengths.solve], *operands[sum(lengths) :]]


class Scan(Record):
    """A scan.

    Attributes:
      body: its closed jaxpr, a function of constants, carry and slices.
      consts: the number of operands that are constants.
      carries: the number of operands, and of results, that belong to the carry; the others have one
        more axis than in the body.
      options: the number of steps and other keywords of `jax.lax.scan`.
    """

    body: ClosedJaxpr
    consts: int
    carries: int
    options: Mapping[str, Any]

    @classmethod
    def of(cls, eqn: JaxprEqn) -> Scan:
        """Return the scan that an equation runs; its parameters depend on the version of JAX."""
        body: ClosedJaxpr = eqn.params["jaxpr"]

        def unscanned(operands: Sequence[Atom], avals: Sequence[ShapedArray]) -> int:
            return sum(
                aval_of(operand).ndim == aval.ndim
                for operand, aval in zip(operands, avals, strict=True)
            )

        carries = unscanned(eqn.outvars, body.out_avals)
        options = {name: eqn.params[name] for name in ("length", "reverse", "unroll")}
        return cls(body, unscanned(eqn.invars, body.in_avals) - carries, carries, options)

    @property
    def open_body(self) -> Jaxpr | None:
        """The body as an open jaxpr; `None` if it has constants."""
        return _opened(self.body)


class While(Record):
    """A while loop: its closed jaxprs, and their numbers of constants; the others are the carry."""

    condition: ClosedJaxpr
    body: ClosedJaxpr
    condition_consts: int
    body_consts: int

    @classmethod
    def of(cls, eqn: JaxprEqn) -> While:
        """Return the loop that an equation runs."""
        p = eqn.params
        return cls(p["cond_jaxpr"], p["body_jaxpr"], p["cond_nconsts"], p["body_nconsts"])

    @property
    def ndim(self) -> int:
        """The number of dimensions of the condition.

        It is nonzero if `jax.vmap` made the loop; each element then continues separately.
        """
        return int(self.condition.out_avals[0].ndim)


def with_jaxprs(eqn: JaxprEqn, change: Callable[[Jaxpr], Jaxpr]) -> JaxprEqn:
    """Return an equation whose jaxprs are changed; itself if none is.

    The open jaxprs have the same operands and results as before. Custom rules, which are functions,
    are left unchanged.
    """

    def changed(value: Any) -> Any:
        if isinstance(value, Jaxpr):
            return change(value)
        if isinstance(value, ClosedJaxpr):
            inner = change(value.jaxpr)
            return value if inner is value.jaxpr else ClosedJaxpr(inner, value.consts)
        if isinstance(value, tuple):
            parts = [changed(part) for part in value]
            if any(new is not part for new, part in zip(parts, value, strict=True)):
                return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
        return value

    params = {name: changed(value) for name, value in eqn.params.items()}
    if all(params[name] is value for name, value in eqn.params.items()):
        return eqn
    return eqn.replace(params=params)


def with_operands(eqn: JaxprEqn, places: Sequence[int]) -> JaxprEqn:
    """Return an equation of some of the operands, which has one result for each."""
    return eqn.replace(
        invars=[eqn.invars[i] for i in places], outvars=[eqn.outvars[i] for i in places]
    )


def in_two_levels(eqn: JaxprEqn, i: int, params: Mapping[str, Any]) -> JaxprEqn:
    """Return the two-level collective that replaces a collective for one of its operands.

    Args:
      eqn: the collective.
      i: the index of the operand.
      params: the parameters, from `namedax.resources.two_level.steps`.
    """
    return with_operands(eqn, [i]).replace(
        primitive=TWO_LEVEL, params=dict(params), effects=frozenset()
    )


def bodies_of(eqn: JaxprEqn) -> list[ClosedJaxpr]:
    """Return the closed jaxprs that control flow runs."""
    kind = kind_of(eqn)
    if kind == Kind.SCAN:
        return [Scan.of(eqn).body]
    if kind == Kind.WHILE:
        loop = While.of(eqn)
        return [loop.condition, loop.body]
    return list(eqn.params["branches"]) if kind == Kind.BRANCH else []


def operands_of_bodies(eqn: JaxprEqn) -> list[Sequence[int]]:
    """Return, for each body of control flow, the indices of the operands that it takes."""
    count = len(eqn.invars)
    if kind_of(eqn) != Kind.WHILE:
        return (
            [range(count)]
            if kind_of(eqn) == Kind.SCAN
            else [range(1, count)] * len(eqn.params["branches"])
        )
    first = While.of(eqn).condition_consts
    start = While.of(eqn).condition_consts + While.of(eqn).body_consts
    return [[*range(first), *range(start, count)], range(first, count)]


def condition_of(eqn: JaxprEqn) -> AbstractValue | None:
    """Return the type of the condition of a loop or a branch, or `None` if it is neither."""
    kind = kind_of(eqn)
    if kind is Kind.WHILE:
        condition: AbstractValue = While.of(eqn).condition.out_avals[0]
        return condition
    return eqn.invars[0].aval if kind is Kind.BRANCH else None


def with_bodies(eqn: JaxprEqn, bodies: Sequence[ClosedJaxpr]) -> dict[str, Any]:
    """Return the parameters of control flow with other closed jaxprs in place of its bodies."""
    names = {Kind.SCAN: ("jaxpr",), Kind.WHILE: ("cond_jaxpr", "body_jaxpr")}.get(kind_of(eqn))
    return {
        **eqn.params,
        **({"branches": tuple(bodies)} if names is None else dict(zip(names, bodies, strict=True))),
    }


def mapped_jaxpr(
    eqn: JaxprEqn,
) -> tuple[Jaxpr, tuple[PartitionSpec, ...], tuple[PartitionSpec, ...]]:
    """Return the open jaxpr that is mapped over mesh axes, and its in_specs and out_specs."""
    return eqn.params["jaxpr"], tuple(eqn.params["in_specs"]), tuple(eqn.params["out_specs"])


def mesh_sizes(eqn: JaxprEqn) -> dict[str, int]:
    """Return the size of each axis of the mesh over which a jaxpr is mapped."""
    return dict(eqn.params["mesh"].shape)


def mapped_axes(eqn: JaxprEqn) -> frozenset[str]:
    """Return the mesh axes over which a jaxpr is mapped; the partitioner handles the others."""
    return frozenset(eqn.params["newly_manual_axes"])


# --- properties of any equation -------------------------------------------------------------------


def are_side_effects(effects: Iterable[object]) -> bool:
    """Return True if there are effects other than the axis names of a collective."""
    return any(type(effect).__name__ != "NamedAxisEffect" for effect in effects)


def has_side_effects(eqn: JaxprEqn) -> bool:
    """Return True if an equation has effects other than the axis names of a collective."""
    return bool(eqn.effects) and are_side_effects(eqn.effects)


def is_ordered(eqn: JaxprEqn) -> bool:
    """Return True if the effects of an equation happen in the order of the program."""
    return any(type(effect).__name__.startswith("Ordered") for effect in eqn.effects)


def commutes(eqn: JaxprEqn) -> bool:
    """Return True if an operation on cast values returns the result, cast."""
    if eqn.effects or kind_of(eqn) == Kind.CAST or axes_of(eqn):
        return False
    return not jaxprs_of(eqn) and not any(map(callable, _parts_of(eqn)))


def barrier(values: Sequence[jax.Array]) -> list[jax.Array]:
    """Return `jax.lax.optimization_barrier` of values, each with its own variance."""
    if len({jax.typeof(value).manual_axis_type for value in values}) > 1:
        # JAX 0.10 gives all results the variance of all operands, except in a recomputation for a
        # gradient.
        (again,) = jax.make_jaxpr(jax.checkpoint(lambda *xs: list(xs)))(*values).jaxpr.eqns
        if "differentiated" in again.params:
            return bind(again, values, differentiated=True)
    return list(jax.lax.optimization_barrier(tuple(values)))
