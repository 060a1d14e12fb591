"""The cost of one equation on a device: floating-point operations, and memory traffic.

An equation that is not listed here counts as one operation for each element of its results, and
writes all of them. A cost that is unknown is therefore never omitted.
"""

from __future__ import annotations

import math
from collections.abc import Hashable

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import ShapedArray
from jax.extend.core import Jaxpr, JaxprEqn

from namedax.programs.primitives import aval_of, bodies_of, called_in_steps, open_jaxpr
from namedax.resources.padding import ZERO_COTANGENT

__all__ = [
    "KNOWN",
    "concatenates",
    "copies_operand",
    "factorizes_one",
    "flops_of",
    "is_along_rows",
    "is_cheap",
    "is_contraction",
    "is_elementwise",
    "is_fused",
    "is_idempotent",
    "is_in_order",
    "is_update",
    "is_view",
    "is_zero_cotangent",
    "joins",
    "joins_rows",
    "keeps_uniform",
    "largest_result",
    "moved_dimensions",
    "reduced_dimensions",
    "size_in_bytes",
    "subtracts",
    "sums_up",
    "transposes",
    "what_it_does",
]

#: Operations that return a view of the same memory, or that XLA folds into the layout of adjacent
#: operations.
_VIEWS = frozenset(
    "reshape squeeze pvary bitcast_convert_type copy sharding_constraint reshard".split()
)
#: Operations that compute one operation for each element.
_ELEMENTWISE = frozenset(
    """
    add add_any sub mul div rem neg sign floor ceil round max min abs pow integer_pow sqrt rsqrt
    cbrt square exp exp2 expm1 log log1p log2 sin cos tan asin acos atan atan2 sinh cosh tanh asinh
    acosh atanh logistic erf erfc erf_inv lgamma digamma is_finite one_minus_square and or xor not
    shift_left shift_right_logical shift_right_arithmetic population_count clz eq ne lt le gt ge
    select_n clamp nextafter real imag complex conj convert_element_type reduce_precision
    stop_gradient name mask_cotangent zero_cotangent named_leaf
    """.split()
)
#: Elementwise operations that take many instructions: XLA does not compute them twice.
_EXPENSIVE = frozenset(
    """
    div rem pow sqrt rsqrt cbrt exp exp2 expm1 log log1p sin cos tan asin acos atan atan2 sinh cosh
    tanh asinh acosh atanh logistic erf erfc erf_inv lgamma digamma
    """.split()
)
#: Operations without arithmetic; XLA computes them where their results are used.
_MOVES = frozenset(
    "broadcast_in_dim transpose iota slice dynamic_slice pad rev concatenate gather device_block"
    " split axis_index name".split()
)
#: The subset of `_MOVES` that only repeats, reorders or drops elements.
_REPEATS = frozenset(
    "broadcast_in_dim transpose slice dynamic_slice rev device_block split name".split()
)
_REDUCTIONS = frozenset(
    "reduce_sum reduce_max reduce_min reduce_prod reduce_and reduce_or reduce_xor argmax argmin"
    " reduce".split()
)
_FREE = frozenset(
    "name stop_gradient mask_cotangent zero_cotangent named_leaf convert_element_type".split()
)
#: The rounds of a random word. Each round is an addition, a rotation and an exclusive or of two
#: words.
_RANDOM = {"threefry2x32": 20 * 5 / 2, "random_bits": 20 * 5 / 2}

_FACTORIZATIONS = frozenset("cholesky lu qr geqrf householder_product eigh svd".split())
_JOINS = frozenset("pad concatenate gather".split())
_CUMULATIVE = frozenset("cumsum cumprod cummax cummin cumlogsumexp".split())

#: All primitives whose cost is known.
KNOWN = frozenset().union(_VIEWS, _ELEMENTWISE, _EXPENSIVE, _MOVES, _REDUCTIONS, _FREE, _RANDOM)


def size_in_bytes(aval: ShapedArray) -> int:
    """Return the size in bytes of an array of this type."""
    shape, dtype = getattr(aval, "shape", ()), getattr(aval, "dtype", None)
    if dtype is None:
        return 0
    if jnp.issubdtype(dtype, jax.dtypes.prng_key):
        words = jax.eval_shape(
            lambda key: jax.random.key_data(key), jax.ShapeDtypeStruct((), dtype)
        )
        return math.prod(shape) * math.prod(words.shape) * 4
    return math.prod(shape) * (
        0 if dtype == jax.dtypes.float0 else max(1, np.dtype(dtype).itemsize)
    )


def exported_name(eqn: JaxprEqn) -> str | None:
    """Return the name of the function of `jax.export` that an equation calls, or `None`."""
    return str(eqn.params["exported"].fun_name) if eqn.primitive.name == "call_exported" else None


def is_elementwise(eqn: JaxprEqn) -> bool:
    """Return True if each element of a result depends only on the operands at its index."""
    return eqn.primitive.name in _ELEMENTWISE or eqn.primitive.name in (
        "pvary",
        "copy",
        "sharding_constraint",
        "reshard",
    )


def is_view(eqn: JaxprEqn) -> bool:
    """Return True if the result is the operand, in the same memory."""
    return eqn.primitive.name in _VIEWS


def is_fused(eqn: JaxprEqn) -> bool:
    """Return True if XLA computes the result where it is used, without writing it to memory."""
    name = eqn.primitive.name
    return name in _ELEMENTWISE or name in _MOVES or name in _RANDOM


def copies_operand(eqn: JaxprEqn) -> bool:
    """Return True if XLA first writes a copy of the operand.

    This holds for cumulative operations, which XLA splits into several passes.
    """
    return eqn.primitive.name in _CUMULATIVE


def sums_up(eqn: JaxprEqn) -> bool:
    """Return True if it is a reduction, which XLA fuses with elementwise operations before it."""
    return eqn.primitive.name in _REDUCTIONS


def is_update(eqn: JaxprEqn) -> bool:
    """Return True if the result replaces the first operand."""
    return eqn.primitive.name == "dynamic_update_slice" or eqn.primitive.name.startswith("scatter")


def joins(eqn: JaxprEqn) -> bool:
    """Return True if elements of the result come from several operands or indices.

    XLA does not recompute such a result for each use.
    """
    return eqn.primitive.name in _JOINS


def is_contraction(eqn: JaxprEqn) -> bool:
    """Return True if the equation multiplies and sums."""
    return eqn.primitive.name in ("dot_general", "ragged_dot_general", "conv_general_dilated")


def is_in_order(eqn: JaxprEqn) -> tuple[bool, ...]:
    """Return True for each operand of a matrix product with its dimensions in the needed order.

    XLA multiplies by the transpose of a matrix in place, but copies an array of more dimensions.
    """
    if eqn.primitive.name != "dot_general":
        return ()
    (left, right), (left_batch, right_batch) = eqn.params["dimension_numbers"]
    x, y = (aval_of(var).ndim for var in eqn.invars)
    batch, n = len(left_batch), len(left)
    leads = tuple(range(batch))
    last = tuple(range(x - n, x)), tuple(range(y - n, y))
    is_left = tuple(left_batch) == leads and (x <= 2 or tuple(left) == last[0])
    return is_left, tuple(right_batch) == leads and tuple(right) in (
        last[1],
        tuple(range(batch, batch + n)),
    )


def reduced_dimensions(eqn: JaxprEqn) -> tuple[int, ...]:
    """Return the dimensions that a reduction reduces over."""
    return tuple(eqn.params.get("axes", eqn.params.get("dimensions", ())))


def moved_dimensions(eqn: JaxprEqn) -> tuple[int | None, ...] | None:
    """Return, for each dimension of the result, the operand's dimension that it comes from.

    This applies to operations that only move, add or remove dimensions, or sum over some. For other
    operations the result is `None`.
    """
    if not eqn.outvars:  # an effect, such as a callback
        return None
    name, ndim = eqn.primitive.name, aval_of(eqn.outvars[0]).ndim
    if name == "transpose":
        return tuple(eqn.params["permutation"])
    if name == "broadcast_in_dim":
        given = {place: i for i, place in enumerate(eqn.params["broadcast_dimensions"])}
        return tuple(given.get(i) for i in range(ndim))
    if name == "squeeze" or sums_up(eqn):
        gone = eqn.params["dimensions"] if name == "squeeze" else reduced_dimensions(eqn)
        return tuple(i for i in range(aval_of(eqn.invars[0]).ndim) if i not in gone)
    return None


def keeps_uniform(eqn: JaxprEqn) -> bool:
    """Return True if uniform operands (one repeated value) give a uniform result."""
    return is_elementwise(eqn) or is_view(eqn) or sums_up(eqn) or eqn.primitive.name in _REPEATS


def transposes(eqn: JaxprEqn) -> bool:
    """Return True if the equation transposes axes."""
    return eqn.primitive.name == "transpose"


def subtracts(eqn: JaxprEqn) -> bool:
    """Return True if the second operand is subtracted from the first."""
    return eqn.primitive.name == "sub"


def concatenates(eqn: JaxprEqn) -> bool:
    """Return True if the equation concatenates its operands along one dimension."""
    return bool(eqn.primitive.name == "concatenate")


def is_zero_cotangent(eqn: JaxprEqn) -> bool:
    """Return True if the cotangent of the result is zero, as for padding."""
    return eqn.primitive is ZERO_COTANGENT


def joins_rows(eqn: JaxprEqn) -> bool:
    """Return True if the equation concatenates its operands along the last dimension.

    XLA then writes the operands and the result: a loop over elements would branch for each of them.
    """
    return concatenates(eqn) and eqn.params["dimension"] == aval_of(eqn.outvars[0]).ndim - 1


def is_along_rows(eqn: JaxprEqn) -> bool:
    """Return True if a gather or a scatter over devices is not along the first dimension.

    Dimensions of size 1 do not count. The blocks of devices have to be contiguous, so XLA copies
    the result of such a gather, and the operand of such a scatter, into another order.
    """
    is_gather = "all_gather_dimension" in eqn.params
    along = eqn.params.get("all_gather_dimension", eqn.params.get("scatter_dimension"))
    whole = (eqn.outvars if is_gather else eqn.invars)[0].aval
    return along is not None and any(size > 1 for size in getattr(whole, "shape", ())[:along])


def is_idempotent(eqn: JaxprEqn) -> bool:
    """Return True if the operation on two equal operands returns the same value."""
    return eqn.primitive.name in ("max", "min", "and", "or")


def what_it_does(eqn: JaxprEqn) -> tuple[Hashable, ...]:
    """Return a key that is equal for equations that do the same thing, apart from their operands.

    The variance of values is ignored, because XLA has no such notion.
    """
    params = tuple(
        (name, eqn.params[name]) for name in sorted(eqn.params) if eqn.params[name] is not None
    )
    return eqn.primitive.name.removesuffix("_invariant"), params


def is_cheap(eqn: JaxprEqn) -> bool:
    """Return True if XLA prefers to recompute the result for each use over writing it to memory."""
    return is_fused(eqn) and eqn.primitive.name not in _EXPENSIVE


def largest_result(jaxpr: Jaxpr) -> int:
    """Return the number of elements of the largest array that a jaxpr computes.

    The results of a loop may be stacked, so only those of an iteration count.
    """
    largest = 0
    for eqn in jaxpr.eqns:
        inner = called_in_steps(eqn)
        bodies = [*bodies_of(eqn)] if inner is None else [inner]
        for body in bodies:
            largest = max(largest, largest_result(open_jaxpr(body)))
        if not bodies:
            shapes = (getattr(var.aval, "shape", ()) for var in eqn.outvars)
            largest = max(largest, *map(math.prod, shapes), 0)
    return largest


def flops_of(eqn: JaxprEqn) -> float:
    """Return the floating-point operations of an equation; a multiply-add counts as two."""
    name = eqn.primitive.name
    if name in _VIEWS or name in _MOVES or name in _FREE:
        return 0
    if name == "dot_general":
        return _dot(eqn)
    if name == "ragged_dot_general":
        return _ragged_dot(eqn)
    if name == "conv_general_dilated":
        return _convolution(eqn)
    results = sum(math.prod(getattr(var.aval, "shape", ())) for var in eqn.outvars)
    taken = sum(math.prod(getattr(var.aval, "shape", ())) for var in eqn.invars)
    if name in _REDUCTIONS:
        return max(taken - results, 0)
    if name.startswith("scatter"):
        return math.prod(aval_of(eqn.invars[-1]).shape) if name != "scatter" else 0
    if name.startswith("reduce_window") or name == "select_and_scatter_add":
        return results * math.prod(eqn.params["window_dimensions"])
    if name == "sort":
        n = aval_of(eqn.invars[0]).shape[eqn.params["dimension"]]
        return taken * math.ceil(math.log2(max(n, 2)))
    if name == "fft":
        n = math.prod(eqn.params["fft_lengths"])
        return 5 * max(taken, results) * math.log2(max(n, 2))
    if name in _FACTORIZATIONS or name == "triangular_solve":
        return _factorisation(eqn)
    return results * _RANDOM.get(name, 1)


def _dot(eqn: JaxprEqn) -> float:
    (contracted, _), _ = eqn.params["dimension_numbers"]
    left = aval_of(eqn.invars[0]).shape
    return 2.0 * math.prod(aval_of(eqn.outvars[0]).shape) * math.prod(left[i] for i in contracted)


def _ragged_dot(eqn: JaxprEqn) -> float:
    (contracted, _), _ = eqn.params["ragged_dot_dimension_numbers"].dot_dimension_numbers
    left = aval_of(eqn.invars[0]).shape
    free = math.prod(n for i, n in enumerate(left) if i not in contracted)
    return 2.0 * free * math.prod(left[i] for i in contracted) * aval_of(eqn.outvars[0]).shape[-1]


def _convolution(eqn: JaxprEqn) -> float:
    spec = eqn.params["dimension_numbers"].rhs_spec  # features out, features in, then space
    kernel = aval_of(eqn.invars[1]).shape
    return (
        2.0
        * math.prod(aval_of(eqn.outvars[0]).shape)
        * kernel[spec[1]]
        * math.prod(kernel[i] for i in spec[2:])
    )


def factorizes_one(eqn: JaxprEqn) -> bool:
    """Return True if an equation factorizes a single matrix: no axis is left to divide it by."""
    return eqn.primitive.name in _FACTORIZATIONS and aval_of(eqn.invars[0]).ndim == 2


def _factorisation(eqn: JaxprEqn) -> float:
    """Return the leading term of the usual operation count of a matrix factorization."""
    factors = {"cholesky": 1 / 3, "lu": 2 / 3, "triangular_solve": 1.0, "eigh": 9.0, "svd": 22.0}
    *batch, m, n = aval_of(eqn.invars[0]).shape
    columns = (
        aval_of(eqn.invars[1]).shape[-1] if eqn.primitive.name == "triangular_solve" else min(m, n)
    )
    return math.prod(batch) * m * n * columns * factors.get(eqn.primitive.name, 4 / 3)
