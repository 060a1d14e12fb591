"""Facts about JAX's primitives: the only table of them, and the only accessors of their parameters.

Passes over a traced jaxpr look up here what an equation does. They never inspect a primitive's name
or parameters themselves, so a change in another version of JAX needs a change in one place only.
`tests/programs/test_primitives.py` compares every entry with the installed JAX. A primitive that is
not in the table is unknown (`Kind.UNKNOWN`), and a pass leaves its neighbors unchanged. Properties
that any equation shows (side effects, jaxprs, mesh axes) are computed by functions, after the
table.
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import EllipsisType
from typing import Any, TypeAlias, TypeVar

import jax
import jax.numpy as jnp
from jax import lax
from jax.core import AbstractValue, ShapedArray
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var, subjaxprs
from jax.sharding import AbstractMesh, NamedSharding, PartitionSpec

from namedax.core.records import Record
from namedax.core.region import without_region
from namedax.core.user_code import LEAF
from namedax.resources.communication import PRIMITIVE
from namedax.resources.padding import MASK_COTANGENT, ZERO_COTANGENT
from namedax.resources.two_level import PRIMITIVE as TWO_LEVEL

# Long: one table of all facts about primitives, and the accessors of their parameters.

__all__ = [
    "CALL_OF_PYTHON",
    "COLLECTIVES",
    "HIGH",
    "LOCAL_KINDS",
    "TABLE",
    "Algebra",
    "AnyJaxpr",
    "Atom",
    "Kind",
    "Known",
    "Scan",
    "While",
    "aval_of",
    "axes_of",
    "barrier",
    "bind",
    "bodies_of",
    "call_whole",
    "called",
    "called_in_steps",
    "cast_axes",
    "collective_kind",
    "commutes",
    "constraint",
    "dimension_of",
    "facts",
    "facts_of",
    "has_forward_rule",
    "has_side_effects",
    "in_two_levels",
    "is_in_groups",
    "is_inexact",
    "is_inlined",
    "is_local",
    "is_tiled",
    "is_to_be_inlined",
    "is_whole_sum",
    "jaxpr_of",
    "jaxprs_of",
    "jaxprs_within",
    "kind_of",
    "mapped_jaxpr",
    "name_of",
    "names_of",
    "open_jaxpr",
    "operands_of_bodies",
    "parameters_of",
    "parameters_with",
    "primitive_name",
    "slice_sizes",
    "sliced_dimension",
    "solve",
    "strings_of",
    "with_bodies",
    "with_jaxprs",
    "with_operands",
]

#: An operand of an equation.
Atom: TypeAlias = Var | Literal
#: A jaxpr, open or closed.
AnyJaxpr: TypeAlias = Jaxpr | ClosedJaxpr

T = TypeVar("T")


def open_jaxpr(jaxpr: AnyJaxpr) -> Jaxpr:
    """Return the open jaxpr of a closed one; an open one is returned unchanged."""
    return jaxpr.jaxpr if isinstance(jaxpr, ClosedJaxpr) else jaxpr


def aval_of(var: Atom) -> ShapedArray:
    """Return the type of a value; JAX declares it as one without a shape and a dtype."""
    aval: Any = var.aval
    return aval


# --- high primitives ------------------------------------------------------------------------------
# Equations of JAX 0.12 that hold an object with its own rules, instead of a primitive with
# parameters. They all have one primitive, `call_hi_primitive`, whose parameter is a
# `jax.experimental.hijax.HiPrim`. `jnp.nonzero` is one. With the flags `jax_remat3`,
# `jax_custom_jvp3` and `jax_custom_vjp3`, so are `jax.checkpoint` and functions with custom
# derivative rules. The functions here give these the names and the parameters of the older
# primitives. Every other high primitive is represented by the jaxpr that its `expand` traces.

#: The primitive of `namedax.debug`, which calls Python once for all devices.
CALL_OF_PYTHON = "named_callback"
HIGH = "call_hi_primitive"
_OLDER = {
    "RematTraced": "remat2",
    "CustomJVPTraced": "custom_jvp_call",
    "CustomVJPTraced": "custom_vjp_call",
    "CheckpointName": "name",
    "CheckpointNameFwd": "name",
}


def primitive_name(eqn: JaxprEqn) -> str:
    """Return the name of the primitive of an equation.

    For a high primitive, return that of the equivalent older primitive, if any.
    """
    name: str = eqn.primitive.name
    return name if name != HIGH else _OLDER.get(type(eqn.params["_prim"]).__name__, HIGH)


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


# --- the table ------------------------------------------------------------------------------------


class Kind(enum.Enum):
    """The kind of a primitive, if passes treat it in a special way."""

    UNKNOWN = "unknown"
    PLAIN = "local computation"
    CAST = "cast to varying"
    SUM = "sum over mesh axes"
    MAXIMUM = "maximum over mesh axes"
    MINIMUM = "minimum over mesh axes"
    GATHER = "gather of the blocks of devices"
    SCATTER = "sum over mesh axes, of which each device keeps its block"
    EXCHANGE = "exchange of blocks between devices"
    DEVICE_INDEX = "index of the device along a mesh axis"
    CALL = "call of a jaxpr"
    RULE = "call of a jaxpr with a custom rule for a transformation"
    REMAT = "call of a jaxpr that is recomputed for the gradient"
    SOLVE = "solution of a linear system, by jaxprs"
    SCAN = "scan"
    WHILE = "while"
    BRANCH = "cond"
    MAP = "map of a jaxpr over mesh axes"
    BARRIER = "identity that the compiler does not optimize across"
    CONSTRAINT = "sharding constraint on a value"
    TRANSFORM = "Fourier transform"
    SLICE = "slice at dynamic indices"
    UPDATE = "update at dynamic indices"
    NAME = "name of a value for jax.checkpoint"
    OWN_BLOCK = "slice of the block of its device"


class Algebra(enum.Enum):
    """The arithmetic of a primitive, if device indices are computed with it."""

    SAME = "its operand"
    SUM = "the sum of its operands"
    DIFFERENCE = "the first operand minus the second"
    PRODUCT = "the product of its operands"
    LESS = "True if the first operand is less than the second"
    CHOICE = "one of its operands, selected by the first"


Group = tuple[int | EllipsisType, ...]


def _always(eqn: JaxprEqn, operand: int) -> bool:
    return True


def is_inexact(value: jax.Array | AbstractValue) -> bool:
    """Return True if a value, or values of this type, can be differentiated."""
    aval: Any = value  # JAX declares no dtype for `AbstractValue`
    return bool(jnp.issubdtype(aval.dtype, jnp.inexact))


def _product(eqn: JaxprEqn, operand: int) -> bool:
    # For floats, `p * s` may be infinite where `(p + q) * s` is finite, NaN (0 * inf) where it is
    # infinite, or finite where `p + q` is not.
    return not is_inexact(eqn.outvars[0].aval)


def _contraction(eqn: JaxprEqn, operand: int) -> bool:
    before, after = aval_of(eqn.invars[operand]), aval_of(eqn.outvars[0])
    return bool(before.dtype == after.dtype) and not is_inexact(before)


def _conversion(eqn: JaxprEqn, operand: int) -> bool:
    # Conversion to integers rounds, conversion to booleans compares, integers of a narrow type have
    # wrapped around, and a narrow float overflows.
    before, after = aval_of(eqn.invars[operand]).dtype, aval_of(eqn.outvars[0]).dtype
    if jnp.issubdtype(before, jnp.inexact) or jnp.issubdtype(after, jnp.inexact):
        both = jnp.issubdtype(before, jnp.inexact) and jnp.issubdtype(after, jnp.inexact)
        return bool(both and jnp.finfo(after).max >= jnp.finfo(before).max)
    return bool(
        jnp.issubdtype(before, jnp.integer)
        and jnp.issubdtype(after, jnp.integer)
        and after.itemsize <= before.itemsize
    )


def _taking(eqn: JaxprEqn, operand: int) -> bool:
    # Out of bounds a gather returns zeros, which sum to zero, or NaNs, which sum to NaN.
    filled = eqn.params["mode"] == lax.GatherScatterMode.FILL_OR_DROP
    fill = eqn.params["fill_value"]
    is_nan = fill is None or fill != fill
    return not filled or fill == 0 or (is_nan and is_inexact(eqn.outvars[0].aval))


class Known(Record):
    """Facts about a primitive.

    Attributes:
      kind: its kind.
      parameters: the parameters that passes rely on.
      linear: groups of operands. The primitive is linear in all operands of a group together, for
        any values of the others: a sum may be taken after it. This holds in IEEE arithmetic, up to
        the order of additions: the result is finite wherever the result for the sum is finite, with
        the same infinities and NaN. No other place lists such operations. `...` at the end of a
        group stands for all operands that follow.
      when: returns True if the primitive is linear in this operand of an equation, if that depends
        on types, parameters or constants.
      is_exact: False if it may round the summands differently from the sum.
      algebra: its arithmetic on integers.
      moves: True if the result has exactly the elements of the operand, in another shape or dtype.
      repeats: True if the result has the elements of the operand, repeated.
      selects: True if every element of the result is an element of the first operand, at an index
        that does not depend on its values.
      scales: the operands that it multiplies or divides, element by element, by the other one.
      is_cheap: True if the result is made from operands smaller than itself.
      is_invariant: for a collective, True if the result counts as the same on all devices along its
        axes.
      called: the name by which users call it, if that differs: a function of `jax.lax`.
      takes: the value that a reduction to a scalar computes from all elements, as a phrase for
        messages.
    """

    kind: Kind = Kind.PLAIN
    parameters: tuple[str, ...] = ()
    linear: tuple[Group, ...] = ()
    when: Callable[[JaxprEqn, int], bool] = _always
    is_exact: bool = True
    algebra: Algebra | None = None
    moves: bool = False
    repeats: bool = False
    selects: bool = False
    scales: tuple[int, ...] = ()
    is_cheap: bool = False
    is_invariant: bool = False
    called: str | None = None
    takes: str | None = None


_ONE, _EITHER, _BOTH, _EACH = ((0,),), ((0,), (1,)), ((0, 1),), ((0, ...),)

TABLE: Mapping[str, Known] = {
    # Linear in their one operand.
    "neg": Known(linear=_ONE),
    "rev": Known(linear=_ONE, selects=True),
    "slice": Known(linear=_ONE, selects=True),
    "cumsum": Known(linear=_ONE),
    "reduce_sum": Known(linear=_ONE, takes="the sum"),
    "broadcast_in_dim": Known(linear=_ONE, repeats=True, is_cheap=True),
    "reshape": Known(linear=_ONE, moves=True),
    "transpose": Known(linear=_ONE, moves=True),
    "squeeze": Known(linear=_ONE, moves=True),
    "copy": Known(linear=_ONE, moves=True),
    "convert_element_type": Known(
        linear=_ONE, when=_conversion, is_exact=False, algebra=Algebra.SAME, moves=True
    ),
    # Linear in several operands together.
    "add": Known(linear=_BOTH, algebra=Algebra.SUM),
    "add_any": Known(linear=_BOTH, algebra=Algebra.SUM),
    "sub": Known(linear=_BOTH, algebra=Algebra.DIFFERENCE),
    "concatenate": Known(linear=_EACH),
    "pad": Known(linear=_BOTH),
    "dynamic_update_slice": Known(Kind.UPDATE, linear=_BOTH),
    "select_n": Known(linear=((1, ...),), algebra=Algebra.CHOICE),
    "scatter-add": Known(linear=((0, 2),)),
    # Linear in one of several operands. Division is not: it rounds integers, and floats behave as
    # in products.
    "div": Known(scales=(0,)),
    "mul": Known(linear=_EITHER, when=_product, scales=(0, 1), algebra=Algebra.PRODUCT),
    "dot_general": Known(linear=_EITHER, when=_contraction, takes="an inner product"),
    "dynamic_slice": Known(Kind.SLICE, ("slice_sizes",), _ONE, selects=True),
    "gather": Known(linear=_ONE, when=_taking, parameters=("mode", "fill_value")),
    # Reductions that are not linear, for messages.
    "reduce_prod": Known(takes="the product"),
    "reduce_max": Known(takes="the maximum"),
    "reduce_min": Known(takes="the minimum"),
    "reduce_and": Known(takes="a boolean"),
    "reduce_or": Known(takes="a boolean"),
    "reduce_xor": Known(takes="a boolean"),
    "argmax": Known(takes="the index of the maximum"),
    "argmin": Known(takes="the index of the minimum"),
    # Other primitives with known properties.
    "iota": Known(is_cheap=True),
    # A value that a user names for jax.checkpoint is stored complete: a saved summand would be
    # summed again in the backward pass.
    "name": Known(Kind.NAME, ("name",)),
    "lt": Known(algebra=Algebra.LESS),
    "fft": Known(Kind.TRANSFORM),
    "optimization_barrier": Known(Kind.BARRIER),
    "sharding_constraint": Known(Kind.CONSTRAINT, ("sharding",)),
    # Casts and collectives.
    "pvary": Known(Kind.CAST, ("axes",), _ONE, algebra=Algebra.SAME),
    "psum": Known(Kind.SUM, ("axes",), _ONE),
    "psum_invariant": Known(Kind.SUM, ("axes",), _ONE, is_invariant=True, called="psum"),
    "pmax": Known(Kind.MAXIMUM, ("axes",)),
    "pmin": Known(Kind.MINIMUM, ("axes",)),
    "all_gather": Known(Kind.GATHER, ("axis_name", "all_gather_dimension", "tiled"), _ONE),
    "all_gather_invariant": Known(
        Kind.GATHER,
        ("axis_name", "all_gather_dimension", "tiled"),
        _ONE,
        is_invariant=True,
        called="all_gather",
    ),
    "reduce_scatter": Known(
        Kind.SCATTER, ("axis_name", "scatter_dimension", "tiled"), _ONE, called="psum_scatter"
    ),
    "all_to_all": Known(Kind.EXCHANGE, ("axis_name",), _ONE),
    "ppermute": Known(Kind.EXCHANGE, ("axis_name",), _ONE),
    "axis_index": Known(Kind.DEVICE_INDEX, ("axis_name",)),
    **dict.fromkeys((MASK_COTANGENT.name, ZERO_COTANGENT.name, LEAF.name), Known(linear=_ONE)),
    PRIMITIVE.name: Known(Kind.OWN_BLOCK, ("axes", "dim"), _ONE, selects=True),
    # Primitives that run jaxprs.
    "jit": Known(Kind.CALL, ("jaxpr", "inline", "compiler_options_kvs")),
    "closed_call": Known(Kind.CALL, ("call_jaxpr",)),  # JAX 0.10
    "eval_jaxpr": Known(Kind.CALL, ("call_jaxpr",)),  # JAX 0.12
    "custom_jvp_call": Known(Kind.RULE, ("call_jaxpr",)),
    "custom_vjp_call": Known(Kind.RULE, ("call_jaxpr", "bwd")),
    "custom_vmap_call": Known(Kind.RULE, ("call",)),
    "custom_partitioning": Known(Kind.RULE, ("call",)),
    TWO_LEVEL.name: Known(Kind.RULE, ("jaxpr",)),
    HIGH: Known(Kind.RULE, ("_prim",)),  # JAX 0.12
    "remat2": Known(Kind.REMAT, ("jaxpr", "prevent_cse", "differentiated", "policy")),
    "custom_linear_solve": Known(Kind.SOLVE, ("const_lengths", "jaxprs")),
    "scan": Known(Kind.SCAN, ("jaxpr", "length", "reverse", "unroll")),
    "while": Known(Kind.WHILE, ("cond_nconsts", "cond_jaxpr", "body_nconsts", "body_jaxpr")),
    "cond": Known(Kind.BRANCH, ("branches",)),
    "shard_map": Known(Kind.MAP, ("jaxpr", "in_specs", "out_specs", "mesh", "newly_manual_axes")),
}
_NOTHING = Known(Kind.UNKNOWN)
# Kinds that compute locally, name no mesh axes and run no jaxprs; most equations have one of these.
# A scatter that adds is an exception: it has the jaxpr of one addition.
LOCAL_KINDS = (
    Kind.PLAIN,
    Kind.BARRIER,
    Kind.CONSTRAINT,
    Kind.TRANSFORM,
    Kind.SLICE,
    Kind.UPDATE,
    Kind.NAME,
)
_LOCAL = frozenset(
    name for name, known in TABLE.items() if known.kind in LOCAL_KINDS and name != "scatter-add"
)
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
_WITHOUT_PROGRAMS = _LOCAL | {name for name, known in TABLE.items() if known.kind in _NAMING}

# Parameters that refer to the mesh that they were traced on.
_OF_MESH = (Jaxpr, ClosedJaxpr, NamedSharding)

# The functions of `jax.lax` that communicate or read the device index, by their public names.
COLLECTIVES = frozenset(
    "psum pmean pmax pmin ppermute pshuffle pswapaxes pbroadcast all_gather psum_scatter all_to_all"
    " axis_index".split()
)

# --- equations ------------------------------------------------------------------------------------


def facts(eqn: JaxprEqn) -> Known:
    """Return the facts about the primitive of an equation."""
    return TABLE.get(primitive_name(eqn), _NOTHING)


def facts_of(eqns: Sequence[JaxprEqn]) -> list[Known]:
    """Return the facts about the primitives of many equations, for a pass over a whole jaxpr."""
    return [TABLE[name] if name in TABLE else _NOTHING for name in names_of(eqns)]


def kind_of(eqn: JaxprEqn) -> Kind:
    """Return the kind of an equation."""
    known = TABLE.get(name, _NOTHING) if (name := eqn.primitive.name) != HIGH else facts(eqn)
    return known.kind  # runs for every equation of every jaxpr


def collective_kind(eqn: JaxprEqn) -> Kind:
    """Return the kind of an equation, or of the asynchronous collective that it starts."""
    return TABLE.get(primitive_name(eqn).removesuffix("_start"), _NOTHING).kind


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


def has_forward_rule(eqn: JaxprEqn) -> bool:
    """Return True if an equation calls a jaxpr with a custom rule for its JVP."""
    return eqn.primitive.name == "custom_jvp_call"


def parameters_with(eqn: JaxprEqn, change: Callable[[Any], Any]) -> dict[str, Any]:
    """Return the parameters of an equation, with jaxprs and shardings changed by `change`."""
    params: dict[str, Any] = eqn.params
    changes = {name: change(value) for name, value in params.items() if type(value) in _OF_MESH}
    return {**params, **changes} if changes else params


# --- mesh axes ------------------------------------------------------------------------------------


def axes_of(eqn: JaxprEqn) -> tuple[str, ...]:
    """Return the mesh axes that an equation names, in its order.

    The equation may be a cast, a collective or a device index.

    For an unknown equation, return all mesh axes that any of its parameters names.
    """
    if eqn.primitive.name in _LOCAL:
        return ()
    axes = eqn.params.get("axes", eqn.params.get("axis_name"))
    if axes is None:
        return _axes_named(eqn) if kind_of(eqn) == Kind.UNKNOWN else ()
    axes = axes if isinstance(axes, (tuple, list, frozenset, set)) else (axes,)
    # The axes of a reduction are integers.
    return tuple(axis for axis in axes if isinstance(axis, str))


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
    with jax.disable_jit(
        False
    ):  # two operands and three results, to count per-operand and per-result values
        (like,) = without_region(_some_call(), 0.0, 0.0).jaxpr.eqns
    counts = {2: len(jaxpr.invars), 3: len(jaxpr.outvars)}
    changes = {
        name: value[:1] * counts[len(value)]
        for name, value in like.params.items()
        if isinstance(value, tuple) and len(value) in counts
    }
    return bind(like, values, **{**changes, "jaxpr": ClosedJaxpr(jaxpr, ())})


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


def has_side_effects(eqn: JaxprEqn) -> bool:
    """Return True if an equation has effects other than the axis names of a collective."""
    return bool(eqn.effects) and any(
        type(effect).__name__ != "NamedAxisEffect" for effect in eqn.effects
    )


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
