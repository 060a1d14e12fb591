"""`Primitive`: the record of a primitive, with everything that is asked about its equations.

The families of records are the other modules of this package, and `table` joins them. A primitive
that has no record is `UNKNOWN`: passes leave its neighbors unchanged, its whole operands are
needed, and its cost is one operation for each element of its results, all of which it writes.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from types import EllipsisType
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
from jax.core import AbstractValue, ShapedArray
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var

from namedax.core.records import Record

__all__ = [
    "Algebra",
    "Aligned",
    "AnyJaxpr",
    "Atom",
    "Forward",
    "Fusion",
    "Group",
    "InBlocks",
    "Kind",
    "Mixed",
    "OfBlocks",
    "Placements",
    "Primitive",
    "Roles",
    "Sharding",
    "Shardings",
    "aval_of",
    "axes_in",
    "is_inexact",
    "records",
    "shape_of",
]

#: An operand of an equation.
Atom: TypeAlias = Var | Literal
#: A jaxpr, open or closed.
AnyJaxpr: TypeAlias = Jaxpr | ClosedJaxpr
#: One set of mesh axes for each dimension of a value.
Sharding: TypeAlias = tuple[frozenset[str], ...]
#: `None`: no dimension is known to be sharded.
Shardings: TypeAlias = Sequence[Sharding | None]
#: Mesh axes along which an equation mixes elements.
Mixed: TypeAlias = frozenset[str]
#: From the shardings of the operands, those of the results, and the mixed mesh axes.
Forward: TypeAlias = Callable[[JaxprEqn, Shardings], tuple[Shardings, Mixed]]
#: For each dimension of a result, the dimension of an operand whose elements it has at the same
#: index; `None` if the operand has none; `...` if its elements depend on others along it.
Aligned: TypeAlias = Sequence[int | EllipsisType | None]
#: From an equation, values of operands, and the shape of its result: the result.
InBlocks: TypeAlias = Callable[[JaxprEqn, Sequence[jax.Array], Sequence[int]], jax.Array]
#: For each operand and for each result, the role of each dimension: dimensions with one role have
#: the same elements. A role that no result has is summed over.
Roles: TypeAlias = tuple[Sequence[list[int | None]], Sequence[list[int | None]]]
#: The mesh axes of each dimension of a value, major first.
Placements: TypeAlias = Sequence[tuple[str, ...]]
#: From an equation, blocks of its operands, the shape of the block of its result, and the layouts
#: of the operands: the block of the result.
OfBlocks: TypeAlias = Callable[
    [JaxprEqn, Sequence[jax.Array], Sequence[int], Sequence[Placements]], jax.Array
]
#: Operands in which a primitive is linear together; `...` stands for all that follow.
Group: TypeAlias = tuple[int | EllipsisType, ...]


class Kind(enum.Enum):
    """The kind of a primitive, by which passes treat it."""

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
    PLACEMENT = "placement of a global value by its names"
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


class Fusion(enum.Enum):
    """The way in which XLA computes a result."""

    WRITTEN = "written to memory"
    VIEW = "the operand, in the same memory or in the layout of adjacent operations"
    CHEAP = "computed where it is used, again for each use"
    EXPENSIVE = "computed where it is used, but not twice"


def _always(eqn: JaxprEqn, operand: int) -> bool:
    return True


class Primitive(Record):
    """Facts about a primitive.

    Attributes:
      kind: its kind.
      parameters: the parameters that passes rely on.
      linear: groups of operands. The primitive is linear in all operands of a group together, for
        any values of the others: a sum may be taken after it. This holds in IEEE arithmetic, up to
        the order of additions: the result is finite wherever the result for the sum is finite, with
        the same infinities and NaN.
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
      is_elementwise: True if each element of a result is computed from the elements of the operands
        at the same index, or from scalars.
      aligned: returns, for each operand, how the dimensions of the result are aligned with its own.
        The dimensions of the operand that are not listed are mixed.
      forward: returns the shardings of the results, where `aligned` is not enough.
      in_blocks: computes a block of the result from aligned blocks of the operands. True: with the
        same parameters. `None`: it needs whole operands.
      roles: returns the roles of dimensions for the partitioner, by the layouts of the operands,
        where `aligned`, `contracted` and `forward` are not enough; `None` where they are.
      contracted: returns the dimensions that are summed over together: one of each operand.
      combine: completes a result over the mesh axes of dimensions that are summed over.
      identity: returns the element of a dtype that changes no sum; padding is replaced by it.
      of_blocks: computes the block of the result from those of the operands, where neither
        `in_blocks` nor the same parameters do.
      draws: True if a result has different elements that come from no operand.
      differs_along: returns True if drawn elements differ along a dimension.
      shows_values: True for a callback that each device calls with its block, by design.
      needs_all_axes: the function of JAX that makes it, if XLA's partitioner does not support it.
      has_jaxpr: True if a parameter is a jaxpr, such as that of one addition.
      fusion: how XLA computes its result.
      flops: the floating-point operations of an equation, or those of one element of its results;
        a multiply-add counts as two.
      reduces: returns the dimensions that a reduction reduces over. XLA fuses it with elementwise
        operations before it.
      copies_operand: True if XLA first writes a copy of the operand.
      is_update: True if the result replaces the first operand.
      joins: True if elements of the result come from several operands or indices. XLA does not
        recompute such a result for each use.
      is_contraction: True if it multiplies and sums.
      in_order: returns True for each operand of a matrix product with its dimensions in the needed
        order.
      is_transposition: True if it permutes dimensions.
      is_concatenation: True if it concatenates its operands along one dimension.
      is_factorization: True if it factorizes a matrix in the last two dimensions.
      is_idempotent: True if the operation on two equal operands returns the same value.
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
    is_elementwise: bool = False
    aligned: Callable[[JaxprEqn], Sequence[Aligned]] | None = None
    forward: Forward | None = None
    in_blocks: InBlocks | bool | None = None
    roles: Callable[[JaxprEqn, Sequence[Placements]], Roles | None] | None = None
    contracted: Callable[[JaxprEqn], Sequence[Sequence[int]]] | None = None
    combine: Callable[[jax.Array, tuple[str, ...]], jax.Array] | None = None
    identity: Callable[[Any], Any] | None = None
    of_blocks: OfBlocks | None = None
    draws: bool = False
    differs_along: Callable[[JaxprEqn, int], bool] = _always
    shows_values: bool = False
    needs_all_axes: str | None = None
    has_jaxpr: bool = False
    fusion: Fusion = Fusion.WRITTEN
    flops: float | Callable[[JaxprEqn], float] = 1.0
    reduces: Callable[[JaxprEqn], Sequence[int]] | None = None
    copies_operand: bool = False
    is_update: bool = False
    joins: bool = False
    is_contraction: bool = False
    in_order: Callable[[JaxprEqn], Sequence[bool]] | None = None
    is_transposition: bool = False
    is_concatenation: bool = False
    is_factorization: bool = False
    is_idempotent: bool = False

    @property
    def keeps_elements(self) -> bool:
        """True if the result has the elements of the first operand, perhaps repeated."""
        return self.repeats or self.is_transposition or self.fusion is Fusion.VIEW


def records(names: str, record: Primitive) -> Mapping[str, Primitive]:
    """Return a table with one record for several primitives, whose names have spaces between."""
    return dict.fromkeys(names.split(), record)


# --- types and parameters -------------------------------------------------------------------------


def aval_of(var: Atom) -> ShapedArray:
    """Return the type of a value; JAX declares it as one without a shape and a dtype."""
    aval: Any = var.aval
    return aval


def shape_of(var: Atom) -> tuple[int, ...]:
    """Return the shape of a value."""
    shape: tuple[int, ...] = aval_of(var).shape
    return shape


def is_inexact(value: jax.Array | AbstractValue) -> bool:
    """Return True if a value, or values of this type, can be differentiated."""
    aval: Any = value  # JAX declares no dtype for `AbstractValue`
    return bool(jnp.issubdtype(aval.dtype, jnp.inexact))


def axes_in(params: Mapping[str, Any]) -> tuple[str, ...] | None:
    """Return the mesh axes among the parameters of a cast, a collective or a device index."""
    axes = params.get("axes", params.get("axis_name"))
    if axes is None:
        return None
    axes = axes if isinstance(axes, (tuple, list, frozenset, set)) else (axes,)
    # The axes of a reduction are integers.
    return tuple(axis for axis in axes if isinstance(axis, str))
