"""Other spellings, as `spellings` has them for `jax.numpy`, in `jax.lax`, `jax.nn` and `jax.scipy`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy as jsp
from jax import lax

from namedax.core.annotations import AnyArray, LikeArguments
from namedax.core.array import NamedArray, as_array
from namedax.core.call_errors import checks_signature
from namedax.core.display import type_text
from namedax.errors import ArgumentError, AxisSizeError, as_integer, format_value
from namedax.namespaces.reduction_forms import LOGSUMEXP
from namedax.namespaces.spellings import by_name, entries_of, names_in
from namedax.operands.along_axes import along_axes
from namedax.operands.nmap import nmap
from namedax.operands.operation import REDUCED, Explicit, operation
from namedax.ops.elementwise import FUNCTIONS as _ELEMENTWISE
from namedax.ops.indexing.getitem import getitem
from namedax.ops.reduction.reductions import REDUCTIONS
from namedax.ops.shape import joining, repeating
from namedax.ops.shape.broadcast_to import expand_dims
from namedax.ops.shape.inspection import size
from namedax.ops.sorting import sorting
from namedax.ops.statistics.without_nans import nanstd

__all__ = ["LAX", "NN", "STATS", "frompyfunc"]

_sqrt, _log, _isnan = (_ELEMENTWISE[name] for name in ("sqrt", "log", "isnan"))
_sum, _std = REDUCTIONS["sum"], REDUCTIONS["std"]


# --- reductions and the like in jax.lax -----------------------------------------------------------------------------


def _lax_reduction(name: str, own: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    positional = along_axes(getattr(lax, name), name, ("axes",))

    def reduce(operand: Any, axes: Any) -> AnyArray:
        operand = as_array(operand, name)
        return (
            own(operand, tuple(entries_of(axes))) if names_in(axes) else positional(operand, axes)
        )

    reduce.__name__ = reduce.__qualname__ = name
    sent = {
        "reduce_prod": "one all-gather of the products of the blocks",
        **dict.fromkeys(
            ("reduce_and", "reduce_or"),
            "one all-reduce of the result for booleans; the bits of integers are gathered (one"
            " all-gather)",
        ),
    }
    reduce.__doc__ = f"""`jax.lax.{name}`, by name or position; the element type stays.

    Over sharded names: {sent.get(name, "one all-reduce of the result")}.

    Raises:
      AxisNotFoundError: `operand` lacks a name.
    """
    return reduce


def _logical(name: str, own: str) -> Callable[..., Any]:
    """`reduce_and` and its like, which act on the bits of integers: those are lifted."""
    by_bits = along_axes(getattr(lax, name), name, ("axes",))
    return _lax_reduction(
        name,
        lambda x, axes: REDUCTIONS[own](x, axes) if x.dtype == jnp.bool_ else by_bits(x, axes=axes),
    )


def _lax_arg(name: str) -> Callable[..., Any]:
    positional = along_axes(getattr(lax, name), name, ("axis",))

    def arg(operand: Any, axis: Any, index_dtype: Any) -> AnyArray:
        return (
            REDUCTIONS[name](operand, axis).astype(index_dtype)
            if names_in(axis)
            else positional(operand, axis, index_dtype)
        )

    arg.__name__ = arg.__qualname__ = name
    arg.__doc__ = f"""`jax.lax.{name}`, by name or position. Over a sharded name: reductions of the size of the result.

    Raises:
      AxisNotFoundError: `operand` lacks the name.
    """
    return arg


def rev(operand: Any, dimensions: Any) -> LikeArguments:
    """Entries in reverse order along axes, positions or names: `jax.lax.rev`.

    Whole blocks change places along a sharded name.

    Raises:
      AxisNotFoundError: `operand` lacks a name.
    """
    return repeating.flip(operand, tuple(entries_of(dimensions)))


_positional_sort = along_axes(lax.sort, "sort", ("dimension",))


def sort(operand: Any, dimension: Any = -1, is_stable: bool = True, num_keys: int = 1) -> Any:
    """`jax.lax.sort`, by name or position.

    One array along a sharded name is sorted as by `nx.sort`; several at once gather the axis.

    Raises:
      AxisNotFoundError: `operand` lacks the name.
    """
    if isinstance(operand, NamedArray) and names_in(dimension):
        return sorting.sort(operand, dimension, stable=is_stable)
    return _positional_sort(operand, dimension, is_stable, num_keys)


_positional_concatenate = along_axes(lax.concatenate, "concatenate", ("dimension",))


def concatenate(operands: Any, dimension: Any) -> AnyArray:
    """Arrays one after the other along an axis, a position or a name: `jax.lax.concatenate`.

    Along a name it is `nx.concatenate`.

    Raises:
      AxisNotFoundError: an array lacks the name.
    """
    return (
        joining.concatenate(operands, dimension)
        if names_in(dimension)
        else _positional_concatenate(operands, dimension)
    )


_positional_index = along_axes(lax.index_in_dim, "index_in_dim", ("axis",))


def _one_name(op: str, axis: Any) -> Hashable:
    names = names_in(axis)
    if len(names) != 1:
        raise ArgumentError(
            f"{op}: axis={format_value(axis)} has {len(names)} names, and there is one index. Write"
            f" axis={format_value(names[0])}."
        )
    return names[0]


def index_in_dim(operand: Any, index: int, axis: Any = 0, keepdims: bool = True) -> AnyArray:
    """One entry along an axis, a position or a name: `jax.lax.index_in_dim`.

    Along a sharded name it costs what `x[name, index]` does.

    Raises:
      AxisNotFoundError: `operand` lacks the name.
      AxisSizeError: the index is out of range, or the name would keep a size that it cannot have in
        this mapped function.
    """
    if not names_in(axis):
        return _positional_index(operand, index, axis, keepdims)
    name = _one_name("index_in_dim", axis)
    entry = getitem(operand, {name: as_integer("index_in_dim", "index", index)})
    return expand_dims(entry, name) if keepdims else entry


def slice_in_dim(
    operand: Any, start_index: Any, limit_index: Any, stride: int = 1, axis: Any = 0
) -> AnyArray:
    """A slice along an axis, a position or a name: `jax.lax.slice_in_dim`.

    Along a name it is `x[name, start:limit:stride]`.

    Raises:
      AxisNotFoundError: `operand` lacks the name.
      AxisSizeError: the name would have a different size in this mapped function.
    """
    if not names_in(axis):
        return _positional_slice(operand, start_index, limit_index, stride, axis)
    name = _one_name("slice_in_dim", axis)
    n = size(operand, name)
    for what, index in (("start_index", start_index), ("limit_index", limit_index)):
        if index is not None and not -n <= as_integer("slice_in_dim", what, index) <= n:
            raise AxisSizeError(
                f"slice_in_dim: index {index} is out of range for axis {name!r} of size {n} in"
                f" {type_text(operand)}."
            )
    return getitem(operand, {name: slice(start_index, limit_index, stride)})


_positional_slice = along_axes(lax.slice_in_dim, "slice_in_dim", ("axis",))


# --- statistics -----------------------------------------------------------------------------------------------------


@functools.cache
def _positional_sem() -> Callable[..., Any]:
    return along_axes(jsp.stats.sem, "sem", ("axis",))  # which JAX loads when it is first asked for


def sem(
    a: Any, axis: Any = 0, ddof: int = 1, nan_policy: str = "propagate", *, keepdims: bool = False
) -> AnyArray:
    """The standard error of the mean, `std / sqrt(count)`: `jax.scipy.stats.sem`, by name or position.

    Over sharded names it costs what `nx.std` (or `nx.nanstd`, with `nan_policy="omit"`) costs.

    Raises:
      AxisNotFoundError: `a` lacks a name.

    >>> import jax.numpy as jnp, namedax as nx
    >>> print(f"{nx.scipy.stats.sem(nx.named(jnp.array([2.0, 4.0, 1.0, 5.0]), ['k']), 'k'):.3f}")
    0.913
    """
    if not names_in(axis) or nan_policy not in ("propagate", "omit"):
        return _positional_sem()(a, axis, ddof, nan_policy, keepdims=keepdims)
    if nan_policy == "propagate":
        spread = _std(a, axis, ddof=ddof, keepdims=keepdims)
        return spread / jnp.sqrt(size(a, axis)).astype(spread.dtype)
    spread = nanstd(a, axis, ddof=ddof, keepdims=keepdims)
    count = _sum(~_isnan(a), axis, keepdims=keepdims)
    return spread / _sqrt(count.astype(spread.dtype))


@operation(requires_axis=REDUCED, explicit=Explicit.KEPT)
def logmeanexp(x: Any, axis: Any = None, where: Any = None, keepdims: bool = False) -> AnyArray:
    """`log(mean(exp(x)))` without overflow: `jax.nn.logmeanexp`, by name or position.

    Over sharded names it costs what `nx.logsumexp` costs, and with `where` one all-reduce more.

    Raises:
      AxisNotFoundError: `x` lacks a name.

    >>> import jax.numpy as jnp, namedax as nx
    >>> nx.nn.logmeanexp(nx.named(jnp.array([0.0, 0.0, 0.0]), ["k"]), "k")
    Array(0., dtype=float32)
    """
    if axis is not ... and not names_in(axis):
        return _positional_logmeanexp(x, axis, where, keepdims)
    total = LOGSUMEXP["logsumexp"](x, axis, where=where, keepdims=keepdims)
    if where is None:
        return total - jnp.log(size(x, axis)).astype(total.dtype)
    counted = where + nmap(lambda data: jnp.zeros_like(data, int))(x)
    return total - _log(_sum(counted, axis, keepdims=keepdims).astype(total.dtype))


_positional_logmeanexp = along_axes(jax.nn.logmeanexp, "logmeanexp", ("axis",))


LAX = by_name(
    _lax_reduction("reduce_sum", lambda x, axes: _sum(x, axes, promote_integers=False)),
    _lax_reduction(
        "reduce_prod", lambda x, axes: REDUCTIONS["prod"](x, axes, promote_integers=False)
    ),
    _lax_reduction("reduce_max", lambda x, axes: REDUCTIONS["max"](x, axes)),
    _lax_reduction("reduce_min", lambda x, axes: REDUCTIONS["min"](x, axes)),
    _logical("reduce_and", "all"),
    _logical("reduce_or", "any"),
    _lax_arg("argmax"),
    _lax_arg("argmin"),
    concatenate,
    rev,
    sort,
    index_in_dim,
    slice_in_dim,
)
NN = by_name(logmeanexp)
STATS = by_name(sem)


@checks_signature
def frompyfunc(func: Callable[..., Any], /, nin: int, nout: int, *, identity: Any = None) -> Any:
    """`jax.numpy.frompyfunc`: a `jnp.ufunc` of a function of scalars.

    Args:
      func: a function of `nin` scalars.
      nin: the number of its arguments.
      nout: the number of its results.
      identity: the neutral element of its reductions.

    Returns:
      A `jnp.ufunc`, for arrays without names; call it in `nx.nmap` on named ones.

    Raises:
      ArgumentTypeError: `func` is not a function.

    >>> import jax.numpy as jnp, namedax as nx
    >>> nx.numpy.frompyfunc(lambda x, y: x + y, 2, 1)(jnp.arange(3), 1)
    Array([1, 2, 3], dtype=int32)
    """
    return jnp.frompyfunc(func, nin, nout, identity=identity)
