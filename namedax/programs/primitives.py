"""What is known of JAX's primitives: the only table of them, and the only accessors of their parameters.

A pass over a traced program asks here what an equation does. It never looks at a primitive's name or parameters itself, so that what
another version of JAX changes is changed in one place; `tests/programs/test_primitives.py` compares every entry with the JAX that is installed.

A primitive that is not in the table does something that is not known (`Kind.UNKNOWN`), and a pass leaves its neighbourhood alone. What
can be seen of any equation (whether it has side effects, runs programs, names mesh axes) is told by functions, after the table.
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import EllipsisType
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.extend.core import ClosedJaxpr, Jaxpr
from jax.sharding import NamedSharding

from namedax.core.leaf_marks import LEAF
from namedax.core.records import Record
from namedax.core.region import without_region
from namedax.programs.hijax import HIGH, bind_name, names_of, primitive_name, program_of
from namedax.resources.local_slice import PRIMITIVE
from namedax.resources.padding_gradients import MASK_COTANGENT, ZERO_COTANGENT

__all__ = [
    *("COLLECTIVES", "LOCAL_KINDS", "TABLE"),
    *("Algebra", "Kind", "Known", "MeshAxes", "Scan", "While"),
    *("axes_of", "barrier", "bind", "block_of", "bodies_of", "call_whole", "called", "called_in_steps"),
    *("cast_axes", "collective_kind", "commutes", "constraint", "dimension_of", "facts", "facts_of", "has_side_effects"),
    *("is_in_groups", "is_inlined", "is_local", "is_tiled", "is_to_be_inlined"),
    *("is_whole_sum", "kind_of", "mapped_program", "name_of", "operands_of_bodies"),
    *("parameters_with", "programs_of", "slice_sizes", "solve", "with_bodies"),
]

MeshAxes = frozenset[str]


class Kind(enum.Enum):
    """What a primitive does, if passes treat it in a way of its own."""

    UNKNOWN = "nothing is known of it"
    PLAIN = "computes with what its device has"
    CAST = "casts to device-varying"
    SUM = "adds up over mesh axes"
    MAXIMUM = "is the maximum over mesh axes"
    MINIMUM = "is the minimum over mesh axes"
    GATHER = "puts the blocks of devices together"
    SCATTER = "adds up over mesh axes, of which each device keeps its block"
    EXCHANGE = "sends blocks between devices"
    PLACE = "is the index of the device along a mesh axis"
    CALL = "calls a program"
    RULE = "calls a program that has a rule of its own for a transformation"
    REMAT = "calls a program that is computed anew for the gradient"
    SOLVE = "solves a linear system, by programs"
    SCAN = "scan"
    WHILE = "while"
    BRANCH = "cond"
    MAP = "maps a program over mesh axes"
    BARRIER = "gives its operands back, for the compiler to take them apart from what is before"
    CONSTRAINT = "says where a value is to live"
    TRANSFORM = "is a Fourier transform"
    SLICE = "takes a block that begins where numbers say"
    UPDATE = "puts a block where numbers say"
    NAME = "names a value for jax.checkpoint"
    OWN_BLOCK = "takes the block of its device"


class Algebra(enum.Enum):
    """What a primitive does to numbers, if the indices of devices are computed with it."""

    SAME = "its operand"
    SUM = "the sum of its operands"
    DIFFERENCE = "the first without the second"
    PRODUCT = "the product of its operands"
    LESS = "whether the first is less than the second"
    CHOICE = "one of its operands but the first, which says which"


Group = tuple[int | EllipsisType, ...]


def _always(eqn: Any, operand: int) -> bool:
    return True


def _is_inexact(aval: Any) -> bool:
    return bool(jnp.issubdtype(aval.dtype, jnp.inexact))


def _product(eqn: Any, operand: int) -> bool:
    # Of floats `p * s` may be infinite where `(p + q) * s` is finite, NaN (0 * inf) where it is infinite, or finite where `p + q` is not.
    return not _is_inexact(eqn.outvars[0].aval)


def _contraction(eqn: Any, operand: int) -> bool:
    before, after = eqn.invars[operand].aval, eqn.outvars[0].aval
    return bool(before.dtype == after.dtype) and not _is_inexact(before)


def _conversion(eqn: Any, operand: int) -> bool:
    # To integers it rounds, to truth values it compares, integers of a narrow type have wrapped around, and a narrow float overflows.
    before, after = eqn.invars[operand].aval.dtype, eqn.outvars[0].aval.dtype
    if jnp.issubdtype(before, jnp.inexact) or jnp.issubdtype(after, jnp.inexact):
        both = jnp.issubdtype(before, jnp.inexact) and jnp.issubdtype(after, jnp.inexact)
        return bool(both and jnp.finfo(after).max >= jnp.finfo(before).max)
    return bool(
        jnp.issubdtype(before, jnp.integer) and jnp.issubdtype(after, jnp.integer) and after.itemsize <= before.itemsize
    )


def _taking(eqn: Any, operand: int) -> bool:
    # Outside of the operand a gather gives zeros, which add up to zero, or NaNs, which do to NaN.
    filled, fill = eqn.params["mode"] == lax.GatherScatterMode.FILL_OR_DROP, eqn.params["fill_value"]
    is_nan = fill is None or fill != fill
    return not filled or fill == 0 or (is_nan and _is_inexact(eqn.outvars[0].aval))


class Known(Record):
    """What is known of a primitive.

    Attributes:
      kind: what it does.
      parameters: those of its parameters that are relied on.
      linear: groups of operands. It is linear in all operands of a group together, whatever the others are: a sum may be taken after it.
        In IEEE arithmetic, up to the order of additions: finite where it is finite of the sum, with the same infinities and NaN. No
        other place lists such operations. `...` at the end of a group stands for all operands that follow.
      when: returns True if it is linear in this operand of an equation, where that depends on types, parameters or constants.
      is_exact: False if it may round the summands otherwise than the sum.
      algebra: what it does to integers.
      moves: whether the result has exactly the entries of the operand, in another shape or element type.
      repeats: whether the result has the entries of the operand, repeated.
      selects: True if every element of the result is one of the first operand's, at a place that does not depend on its values.
      scales: the operands that it multiplies or divides, element by element, by the other one.
      is_cheap: whether the result is made of less than itself.
      is_invariant: of a collective, whether the result counts as the same on all devices along its axes.
      called: how users call it, where the name is another: a function of `jax.lax`.
      takes: what a reduction to one number takes of all entries, as messages say it.
    """

    kind: Kind = Kind.PLAIN
    parameters: tuple[str, ...] = ()
    linear: tuple[Group, ...] = ()
    when: Callable[[Any, int], bool] = _always
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
    "convert_element_type": Known(linear=_ONE, when=_conversion, is_exact=False, algebra=Algebra.SAME, moves=True),
    # Linear in all of some operands together.
    "add": Known(linear=_BOTH, algebra=Algebra.SUM),
    "add_any": Known(linear=_BOTH, algebra=Algebra.SUM),
    "sub": Known(linear=_BOTH, algebra=Algebra.DIFFERENCE),
    "concatenate": Known(linear=_EACH),
    "pad": Known(linear=_BOTH),
    "dynamic_update_slice": Known(Kind.UPDATE, linear=_BOTH),
    "select_n": Known(linear=((1, ...),), algebra=Algebra.CHOICE),
    "scatter-add": Known(linear=((0, 2),)),
    # Linear in one of several operands. Division is not: it rounds integers, and floats are as in products.
    "div": Known(scales=(0,)),
    "mul": Known(linear=_EITHER, when=_product, scales=(0, 1), algebra=Algebra.PRODUCT),
    "dot_general": Known(linear=_EITHER, when=_contraction, takes="an inner product"),
    "dynamic_slice": Known(Kind.SLICE, ("slice_sizes",), _ONE, selects=True),
    "gather": Known(linear=_ONE, when=_taking, parameters=("mode", "fill_value")),
    # Reductions that are not linear, for messages.
    "reduce_prod": Known(takes="the product"),
    "reduce_max": Known(takes="the maximum"),
    "reduce_min": Known(takes="the minimum"),
    "reduce_and": Known(takes="a truth value"),
    "reduce_or": Known(takes="a truth value"),
    "reduce_xor": Known(takes="a truth value"),
    "argmax": Known(takes="the place of the maximum"),
    "argmin": Known(takes="the place of the minimum"),
    # Others of which something is said.
    "iota": Known(is_cheap=True),
    # What a user names for jax.checkpoint stays whole: saved as a summand, it would be added up again in the backward pass.
    "name": Known(Kind.NAME, ("name",)),
    "lt": Known(algebra=Algebra.LESS),
    "fft": Known(Kind.TRANSFORM),
    "optimization_barrier": Known(Kind.BARRIER),
    "sharding_constraint": Known(Kind.CONSTRAINT, ("sharding",)),
    # Casts, and what is sent between devices.
    "pvary": Known(Kind.CAST, ("axes",), _ONE, algebra=Algebra.SAME),
    "psum": Known(Kind.SUM, ("axes",), _ONE),
    "psum_invariant": Known(Kind.SUM, ("axes",), _ONE, is_invariant=True, called="psum"),
    "pmax": Known(Kind.MAXIMUM, ("axes",)),
    "pmin": Known(Kind.MINIMUM, ("axes",)),
    "all_gather": Known(Kind.GATHER, ("axis_name", "all_gather_dimension", "tiled"), _ONE),
    "all_gather_invariant": Known(
        Kind.GATHER, ("axis_name", "all_gather_dimension", "tiled"), _ONE, is_invariant=True, called="all_gather"
    ),
    "reduce_scatter": Known(Kind.SCATTER, ("axis_name", "scatter_dimension", "tiled"), _ONE, called="psum_scatter"),
    "all_to_all": Known(Kind.EXCHANGE, ("axis_name",), _ONE),
    "ppermute": Known(Kind.EXCHANGE, ("axis_name",), _ONE),
    "axis_index": Known(Kind.PLACE, ("axis_name",)),
    **dict.fromkeys((MASK_COTANGENT.name, ZERO_COTANGENT.name, LEAF.name), Known(linear=_ONE)),
    PRIMITIVE.name: Known(Kind.OWN_BLOCK, ("axes", "dim"), _ONE, selects=True),
    # Those that run programs.
    "jit": Known(Kind.CALL, ("jaxpr", "inline", "compiler_options_kvs")),
    "closed_call": Known(Kind.CALL, ("call_jaxpr",)),  # JAX 0.10
    "eval_jaxpr": Known(Kind.CALL, ("call_jaxpr",)),  # JAX 0.12
    "custom_jvp_call": Known(Kind.RULE, ("call_jaxpr",)),
    "custom_vjp_call": Known(Kind.RULE, ("call_jaxpr", "bwd")),
    "custom_vmap_call": Known(Kind.RULE, ("call",)),
    "custom_partitioning": Known(Kind.RULE, ("call",)),
    HIGH: Known(Kind.RULE, ("_prim",)),  # JAX 0.12
    "remat2": Known(Kind.REMAT, ("jaxpr", "prevent_cse", "differentiated", "policy")),
    "custom_linear_solve": Known(Kind.SOLVE, ("const_lengths", "jaxprs")),
    "scan": Known(Kind.SCAN, ("jaxpr", "length", "reverse", "unroll")),
    "while": Known(Kind.WHILE, ("cond_nconsts", "cond_jaxpr", "body_nconsts", "body_jaxpr")),
    "cond": Known(Kind.BRANCH, ("branches",)),
    "shard_map": Known(Kind.MAP, ("jaxpr", "in_specs", "out_specs", "mesh", "newly_manual_axes")),
}
_NOTHING = Known(Kind.UNKNOWN)
# Those that compute with what their device has, name no mesh axes and run no programs; most equations of a program are of these. A
# scatter that adds has the program of one addition.
LOCAL_KINDS = (Kind.PLAIN, Kind.BARRIER, Kind.CONSTRAINT, Kind.TRANSFORM, Kind.SLICE, Kind.UPDATE, Kind.NAME)
_LOCAL = frozenset(name for name, known in TABLE.items() if known.kind in LOCAL_KINDS and name != "scatter-add")
# Those that name mesh axes, and run no programs either.
_NAMING = (Kind.CAST, Kind.SUM, Kind.MAXIMUM, Kind.MINIMUM, Kind.GATHER, Kind.SCATTER, Kind.EXCHANGE, Kind.PLACE)
_WITHOUT_PROGRAMS = _LOCAL | {name for name, known in TABLE.items() if known.kind in _NAMING}

# Parameters that name the mesh that they were traced on.
_OF_MESH = (Jaxpr, ClosedJaxpr, NamedSharding)

# The functions of `jax.lax` that communicate, or ask where their device is, as users call them.
COLLECTIVES = frozenset(
    "psum pmean pmax pmin ppermute pshuffle pswapaxes pbroadcast all_gather psum_scatter all_to_all axis_index".split()
)

# --- what an equation does ------------------------------------------------------------------------------------------


def facts(eqn: Any) -> Known:
    """What is known of the primitive of an equation."""
    return TABLE.get(primitive_name(eqn), _NOTHING)


def facts_of(eqns: Sequence[Any]) -> list[Known]:
    """What is known of the primitives of many equations, which one look at a whole program asks for."""
    return [TABLE[name] if name in TABLE else _NOTHING for name in names_of(eqns)]


def kind_of(eqn: Any) -> Kind:
    """What an equation does."""
    known = TABLE.get(name, _NOTHING) if (name := eqn.primitive.name) != HIGH else facts(eqn)
    return known.kind  # for every equation of every program


def collective_kind(eqn: Any) -> Kind:
    """Return the kind of an equation; if it starts an asynchronous collective, which another equation ends, the kind of the collective."""
    return TABLE.get(primitive_name(eqn).removesuffix("_start"), _NOTHING).kind


def is_local(eqn: Any) -> bool:
    """Whether it is known of an equation that it names no mesh axes and runs no programs."""
    return eqn.primitive.name in _LOCAL


def name_of(eqn: Any) -> str:
    """What users call the function of JAX that an equation is, for messages."""
    return facts(eqn).called or primitive_name(eqn)


def bind(eqn: Any, values: Sequence[Any], **changes: Any) -> list[Any]:
    """The results of an equation for these operands, with some parameters changed."""
    if eqn.primitive.name == HIGH and kind_of(eqn) is Kind.NAME:
        return bind_name(eqn, *values)
    result = eqn.primitive.bind(*values, **{**eqn.params, **changes})
    return list(result) if eqn.primitive.multiple_results else [result]


def parameters_with(eqn: Any, change: Callable[[Any], Any]) -> dict[str, Any]:
    """The parameters of an equation, with each that is a program or a sharding as `change` gives it."""
    params: dict[str, Any] = eqn.params
    changes = {name: change(value) for name, value in params.items() if type(value) in _OF_MESH}
    return {**params, **changes} if changes else params


# --- mesh axes ------------------------------------------------------------------------------------------------------


def axes_of(eqn: Any) -> tuple[str, ...]:
    """The mesh axes that an equation names (a cast, a collective, the index of a device), in its order.

    Of one that nothing is known of, all that any of its parameters names.
    """
    if eqn.primitive.name in _LOCAL:
        return ()
    axes = eqn.params.get("axes", eqn.params.get("axis_name"))
    if axes is None:
        return _axes_named(eqn) if kind_of(eqn) == Kind.UNKNOWN else ()
    axes = axes if isinstance(axes, (tuple, list, frozenset, set)) else (axes,)
    return tuple(axis for axis in axes if isinstance(axis, str))  # those of a reduction are numbers


def _axes_named(eqn: Any) -> tuple[str, ...]:
    strings = [part for key, value in eqn.params.items() if key != "name" for part in _parts(value) if isinstance(part, str)]
    return tuple(part for part in strings if part in jax.sharding.get_abstract_mesh().axis_names) if strings else ()


def cast_axes(eqn: Any) -> MeshAxes:
    """The mesh axes over which an equation casts its operand to device-varying; none if it is not a cast."""
    return frozenset(axes_of(eqn)) if kind_of(eqn) == Kind.CAST else frozenset()


def is_whole_sum(eqn: Any) -> bool:
    """Whether an equation adds up each of its operands over all devices along its axes."""
    return kind_of(eqn) == Kind.SUM and not is_in_groups(eqn) and len(eqn.invars) == len(eqn.outvars)


def is_in_groups(eqn: Any) -> bool:
    """Whether a collective goes over groups of the devices along its axes, each by itself."""
    return eqn.params.get("axis_index_groups") is not None


def is_whole_exchange(eqn: Any) -> bool:
    """Whether an exchange is an all-to-all: each device sends to all others, and not to one."""
    return "perm" not in eqn.params


def dimension_of(eqn: Any) -> int:
    """The dimension along which a gather or a scatter has the blocks of devices."""
    name = "all_gather_dimension" if kind_of(eqn) == Kind.GATHER else "scatter_dimension"
    return int(eqn.params[name])


def is_tiled(eqn: Any) -> bool:
    """Whether a gather, or a scatter, has blocks in an existing dimension, and not one entry for each device in a new one."""
    return bool(eqn.params["tiled"])


def block_of(eqn: Any) -> tuple[int, tuple[str, ...]]:
    """The dimension of which an equation takes the block of its device, and the mesh axes along which it is cut, major first."""
    return int(eqn.params["dim"]), axes_of(eqn)


def slice_sizes(eqn: Any) -> Sequence[int]:
    """The shape of what a dynamic slice gives."""
    sizes: Sequence[int] = eqn.params["slice_sizes"]
    return sizes


def constraint(eqn: Any) -> Any:
    """The sharding that a constraint says."""
    return eqn.params["sharding"]


# --- programs -------------------------------------------------------------------------------------------------------


def programs_of(eqn: Any) -> list[Any]:
    """The programs that an equation has among its parameters, open or closed."""
    if eqn.primitive.name in _WITHOUT_PROGRAMS:
        return []
    if eqn.primitive.name == HIGH:
        return [] if kind_of(eqn) is Kind.NAME else [program_of(eqn)]
    return [part for part in _parts_of(eqn) if hasattr(part, "eqns") or hasattr(part, "jaxpr")]


def _parts_of(eqn: Any) -> list[Any]:
    return [part for value in eqn.params.values() for part in _parts(value)]


def _parts(value: Any) -> Iterable[Any]:
    return value if isinstance(value, (tuple, list, frozenset, set)) else (value,)


def called(eqn: Any) -> Any:
    """The (open) jaxpr that an equation calls once, with its operands, and no rule of its own for derivatives; or `None`."""
    if eqn.primitive.name in _LOCAL:
        return None
    return _opened(called_in_steps(eqn)) if kind_of(eqn) in (Kind.CALL, Kind.REMAT) else None


def called_in_steps(eqn: Any) -> Any:
    """The jaxpr, open or closed, that an equation calls once, with its operands, where it has been differentiated; or `None`."""
    if kind_of(eqn) not in (Kind.CALL, Kind.RULE, Kind.REMAT):
        return None
    if eqn.primitive.name == HIGH:
        return program_of(eqn)
    return next((eqn.params[name] for name in ("jaxpr", "call_jaxpr", "call") if name in eqn.params), None)


def _opened(jaxpr: Any) -> Any:
    if isinstance(jaxpr, ClosedJaxpr):
        return None if jaxpr.consts else jaxpr.jaxpr
    return jaxpr


def call_whole(jaxpr: Any, values: Sequence[Any]) -> list[Any]:
    """The results of an open jaxpr without constants: under a trace one call of it, so that none of its equations is bound anew."""
    with jax.disable_jit(False):  # a call with two operands and three results says what there is to say of each
        (like,) = without_region(_some_call(), 0.0, 0.0).jaxpr.eqns
    counts = {2: len(jaxpr.invars), 3: len(jaxpr.outvars)}
    changes = {
        name: value[:1] * counts[len(value)]
        for name, value in like.params.items()
        if isinstance(value, tuple) and len(value) in counts
    }
    return bind(like, values, **{**changes, "jaxpr": ClosedJaxpr(jaxpr, ())})


@functools.cache
def _some_call() -> Callable[..., Any]:  # one function for all regions, since JAX remembers what it calls
    def part_of_body(x: Any, y: Any) -> tuple[Any, Any, Any]:
        return x, y, x

    return jax.make_jaxpr(jax.jit(part_of_body))


def is_inlined(eqn: Any, small: int) -> bool:
    """Whether a call can be replaced by what it calls: it is to be inlined, is one of `call_whole`, or calls at most `small` operations."""
    inner = called(eqn)
    if inner is None or kind_of(eqn) == Kind.REMAT or eqn.params.get("compiler_options_kvs"):
        return False
    return eqn.params.get("name") == "part_of_body" or is_to_be_inlined(eqn) or len(inner.eqns) <= small


def is_to_be_inlined(eqn: Any) -> bool:
    """Whether a call was made to be inlined. JAX remembers what it calls, with the lines of the first one who called it."""
    # A truth value, or, in JAX 0.12, one of several ways: JAX's own, which it leaves to its lowering, are meant.
    inline = eqn.params.get("inline", False)
    return inline if isinstance(inline, bool) else str(getattr(inline, "value", "")).startswith("jax")


def solve(eqn: Any, operands: Sequence[Any]) -> tuple[Any, list[Any]]:
    """The program that gives the solution of a linear system, and those of the operands that it takes."""
    lengths, programs = eqn.params["const_lengths"], eqn.params["jaxprs"]
    first = lengths.matvec + lengths.vecmat
    return programs.solve, [*operands[first : first + lengths.solve], *operands[sum(lengths) :]]


class Scan(Record):
    """A scan.

    Attributes:
      body: its closed jaxpr, of constants, carry and slices.
      consts: how many operands are constants.
      carries: how many belong to the carry, and how many results; the others have one axis more than in the body.
      options: the number of steps and how they are taken, as keywords of `jax.lax.scan`.
    """

    body: ClosedJaxpr
    consts: int
    carries: int
    options: Mapping[str, Any]

    @classmethod
    def of(cls, eqn: Any) -> Scan:
        """The scan that an equation runs. How its parameters say what is carried depends on the version of JAX."""
        body: ClosedJaxpr = eqn.params["jaxpr"]

        def unscanned(operands: Sequence[Any], avals: Sequence[Any]) -> int:
            return sum(operand.aval.ndim == aval.ndim for operand, aval in zip(operands, avals, strict=True))

        carries = unscanned(eqn.outvars, body.out_avals)
        options = {name: eqn.params[name] for name in ("length", "reverse", "unroll")}
        return cls(body, unscanned(eqn.invars, body.in_avals) - carries, carries, options)

    @property
    def open_body(self) -> Any:
        """The body as an open jaxpr; `None` where it has constants of its own."""
        return _opened(self.body)


class While(Record):
    """A while loop: its closed jaxprs, and how many operands each has as constants; the others are the carry."""

    condition: ClosedJaxpr
    body: ClosedJaxpr
    condition_consts: int
    body_consts: int

    @classmethod
    def of(cls, eqn: Any) -> While:
        """The loop that an equation runs."""
        p = eqn.params
        return cls(p["cond_jaxpr"], p["body_jaxpr"], p["cond_nconsts"], p["body_nconsts"])

    @property
    def ndim(self) -> int:
        """The dimensions of the condition: those in front, if `jax.vmap` has made it, where each entry goes on by itself."""
        return int(self.condition.out_avals[0].ndim)


def bodies_of(eqn: Any) -> list[Any]:
    """The closed jaxprs that control flow runs."""
    kind = kind_of(eqn)
    if kind == Kind.SCAN:
        return [Scan.of(eqn).body]
    if kind == Kind.WHILE:
        loop = While.of(eqn)
        return [loop.condition, loop.body]
    return list(eqn.params["branches"]) if kind == Kind.BRANCH else []


def operands_of_bodies(eqn: Any) -> list[Sequence[int]]:
    """Which of the operands of control flow each of its bodies takes."""
    count = len(eqn.invars)
    if kind_of(eqn) != Kind.WHILE:
        return [range(count)] if kind_of(eqn) == Kind.SCAN else [range(1, count)] * len(eqn.params["branches"])
    first, start = While.of(eqn).condition_consts, While.of(eqn).condition_consts + While.of(eqn).body_consts
    return [[*range(first), *range(start, count)], range(first, count)]


def with_bodies(eqn: Any, bodies: Sequence[Any]) -> dict[str, Any]:
    """The parameters of control flow with other closed jaxprs in place of its bodies."""
    names = {Kind.SCAN: ("jaxpr",), Kind.WHILE: ("cond_jaxpr", "body_jaxpr")}.get(kind_of(eqn))
    return {**eqn.params, **({"branches": tuple(bodies)} if names is None else dict(zip(names, bodies, strict=True)))}


def mapped_program(eqn: Any) -> tuple[Any, tuple[Any, ...], tuple[Any, ...]]:
    """The open jaxpr that is mapped over mesh axes, and the partition specs of its operands and results."""
    return eqn.params["jaxpr"], tuple(eqn.params["in_specs"]), tuple(eqn.params["out_specs"])


def mesh_sizes(eqn: Any) -> dict[str, int]:
    """The size of each axis of the mesh over which a program is mapped."""
    return dict(eqn.params["mesh"].shape)


def mapped_axes(eqn: Any) -> MeshAxes:
    """The mesh axes over which a program is mapped; the others of the mesh stay with the partitioner."""
    return frozenset(eqn.params["newly_manual_axes"])


# --- what can be seen of any equation -------------------------------------------------------------------------------


def has_side_effects(eqn: Any) -> bool:
    """Whether an equation does something besides giving its results; JAX counts it as an effect that a collective names an axis."""
    return bool(eqn.effects) and any(type(effect).__name__ != "NamedAxisEffect" for effect in eqn.effects)


def commutes(eqn: Any) -> bool:
    """Whether an operation on values that were cast equals the operation's result, cast."""
    if eqn.effects or kind_of(eqn) == Kind.CAST or axes_of(eqn):
        return False
    return not programs_of(eqn) and not any(map(callable, _parts_of(eqn)))


def barrier(values: Sequence[Any]) -> list[Any]:
    """`jax.lax.optimization_barrier` of values that may vary over different mesh axes, and go on doing so."""
    if len({jax.typeof(value).manual_axis_type for value in values}) > 1:
        # JAX 0.10 gives all results the variance of all operands; but for what it computes anew for a gradient.
        (again,) = jax.make_jaxpr(jax.checkpoint(lambda *xs: list(xs)))(*values).jaxpr.eqns
        if "differentiated" in again.params:
            return bind(again, values, differentiated=True)
    return list(jax.lax.optimization_barrier(tuple(values)))
