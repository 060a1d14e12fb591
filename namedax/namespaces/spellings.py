"""Other spellings: functions of JAX's namespaces that are one of ours under another name, along names.

Without a name among the axes they are JAX's own, lifted. With one they cost what their namesakes
cost: nothing is gathered.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any, TypeVar, cast

import jax.numpy as jnp

from namedax.core.annotations import AnyArray, LikeArguments
from namedax.core.array import dims_of
from namedax.core.call_errors import bound
from namedax.core.display import type_text
from namedax.core.functions import signature_of
from namedax.errors import AxisNameError, format_value, raise_not_found
from namedax.operands.along_axes import along_axes, to_front
from namedax.operands.axes import check_axes, is_axis_name, refuse_reversal, resolve_axis
from namedax.operands.nmap import nmap
from namedax.operands.operation import REDUCED, operation
from namedax.ops.contraction.einsum import dot
from namedax.ops.elementwise import FUNCTIONS as _ELEMENTWISE
from namedax.ops.indexing.getitem import getitem
from namedax.ops.reduction.reductions import REDUCTIONS
from namedax.ops.shape import joining
from namedax.ops.shape.creation import arange
from namedax.ops.shape.inspection import size
from namedax.ops.window import neighbours

__all__ = ["FFT", "LINALG", "NUMPY", "by_name", "entries_of", "names_in"]

F = TypeVar("F", bound=Callable[..., Any])

_where, _conj, _sqrt, _log, _isnan = (
    _ELEMENTWISE[name] for name in ("where", "conj", "sqrt", "log", "isnan")
)
_sum, _std, _min, _max = (REDUCTIONS[name] for name in ("sum", "std", "min", "max"))


def names_in(axes: Any) -> list[Any]:
    """The names among axes."""
    return [
        entry
        for entry in (axes if isinstance(axes, (tuple, list)) else (axes,))
        if is_axis_name(entry)
    ]


def entries_of(axes: Any) -> tuple[Any, ...]:
    """Axes as a tuple, one or several."""
    return tuple(axes) if isinstance(axes, (tuple, list)) else (axes,)


def axes_checked(function: F) -> F:
    """`function`, its axes checked: what is left to JAX is JAX's own, which takes `True` for 1."""
    signature = signature_of(function)

    @operation(name=function.__name__)
    @functools.wraps(function)
    def checked(*args: Any, **kwargs: Any) -> Any:
        check_axes(function.__name__, bound(function.__name__, signature(), args, kwargs).arguments)
        return function(*args, **kwargs)

    return cast(F, checked)


# --- names have no order --------------------------------------------------------------------------------------------


def _transposed(op: str, positional: Callable[..., Any], a: Any, axes: Any) -> Any:
    if axes is None:
        refuse_reversal(op, a)
    names = [] if axes is None else names_in(axes)
    resolve_axis(op, a, tuple(names))
    if not names:
        return positional(a) if axes is None else positional(a, axes)
    rest = tuple(entry for entry in axes if not is_axis_name(entry))
    return positional(a, rest) if rest else a


_transpose = nmap(jnp.transpose)


@axes_checked
def transpose(a: Any, axes: Any = None) -> LikeArguments:
    """The positional axes in another order.

    Names have none: where they are given too, nothing happens to them.

    Args:
      a: an array, named or not.
      axes: the positional axes in their new order, and names, which change nothing; default: the
        positional ones reversed.

    Moves nothing between devices.

    Raises:
      AxisNotFoundError: `a` lacks a name.
      PositionalAxisError: `axes` is left out, and `a` has names and no positional axis.

    >>> import jax.numpy as jnp, namedax as nx
    >>> nx.transpose(nx.named(jnp.ones((2, 3, 4)), ["b", ...]), ("b", 1, 0)).shape
    (4, 3)
    """
    return _transposed("transpose", _transpose, a, axes)


@axes_checked
def permute_dims(a: Any, axes: Any = None) -> LikeArguments:
    """`nx.transpose`, under the name that it has in the array API.

    Args:
      a: an array, named or not.
      axes: the positional axes in their new order, and names, which change nothing; default: the
        positional ones reversed.

    Moves nothing between devices.

    Raises:
      AxisNotFoundError: `a` lacks a name.
      PositionalAxisError: `axes` is left out, and `a` has names and no positional axis.
    """
    return _transposed("permute_dims", _transpose, a, axes)


def _refuse_moves(op: str, a: Any, *axes: Any) -> None:
    """Raises where an axis that is to get another position is a name: it has none, and the result would be the array as it is."""
    dims = dims_of(a)
    names = [name for each in axes for name in names_in(each)]
    for name in names:
        if name not in dims:
            raise_not_found(op, name, type_text(a), [dim for dim in dims if dim is not None])
    if names:
        raise AxisNameError(
            f"{op}: names have no order, so axis {format_value(names[0])} of {type_text(a)} cannot"
            f" be moved from {format_value(axes[0])} to {format_value(axes[1])}. To give axes"
            " positions write nx.positional(x, [...]); to exchange the names of two, nx.rename(x,"
            " {a: b, b: a})."
        )


_moveaxis, _rollaxis, _swapaxes = nmap(jnp.moveaxis), nmap(jnp.rollaxis), nmap(jnp.swapaxes)


@axes_checked
def moveaxis(a: Any, source: Any, destination: Any) -> LikeArguments:
    """Positional axes moved to other positions: `jnp.moveaxis`; names are batch axes, and have no position to be moved to.

    Raises:
      AxisNameError: an axis is a name.

    >>> import jax.numpy as jnp, namedax as nx
    >>> nx.numpy.moveaxis(nx.named(jnp.ones((2, 3, 4)), ["b", ...]), 0, 1).shape
    (4, 3)
    """
    _refuse_moves("moveaxis", a, source, destination)
    return _moveaxis(a, source, destination)


@axes_checked
def rollaxis(a: Any, axis: int, start: int = 0) -> LikeArguments:
    """A positional axis moved in front of another one: `jnp.rollaxis`; names are batch axes, and have no position to be moved to.

    Raises:
      AxisNameError: an axis is a name.

    >>> import jax.numpy as jnp, namedax as nx
    >>> nx.numpy.rollaxis(nx.named(jnp.ones((2, 3, 4)), ["b", ...]), 1).shape
    (4, 3)
    """
    _refuse_moves("rollaxis", a, axis, start)
    return _rollaxis(a, axis, start)


@axes_checked
def swapaxes(a: Any, axis1: int, axis2: int) -> LikeArguments:
    """Two positional axes in each other's place: `jnp.swapaxes`; names are batch axes, which `nx.rename` exchanges.

    Raises:
      AxisNameError: an axis is a name.

    >>> import jax.numpy as jnp, namedax as nx
    >>> nx.numpy.swapaxes(nx.named(jnp.ones((2, 3, 4)), ["b", ...]), 0, 1).shape
    (4, 3)
    """
    _refuse_moves("swapaxes", a, axis1, axis2)
    return _swapaxes(a, axis1, axis2)


# --- diagonals ------------------------------------------------------------------------------------------------------


def _diagonal(op: str, a: Any, offset: Any, axis1: Any, axis2: Any) -> tuple[Any, int, int]:
    """The entries of the diagonal along `axis1`, without `axis2`; the first row that has one, and their number."""
    first, second = size(a, axis1), size(a, axis2)
    resolve_axis(op, a, (axis1, axis2))
    k = operator.index(offset)
    start, stop = max(0, -k), min(first, second - k)
    column = _ELEMENTWISE["clip"](arange(first, axis=axis1) + k, 0, second - 1)
    return getitem(a, {axis2: column}), start, max(0, stop - start)


def _both_named(axis1: Any, axis2: Any) -> bool:
    return is_axis_name(axis1) and is_axis_name(axis2)


_positional_diagonal = along_axes(jnp.diagonal, "diagonal", ("axis1", "axis2"))
_positional_trace = along_axes(jnp.trace, "trace", ("axis1", "axis2"))


@axes_checked
def diagonal(a: Any, offset: int = 0, axis1: Any = 0, axis2: Any = 1) -> AnyArray:
    """The diagonal over two axes, as the last positional axis of the result: `jnp.diagonal`, by name or position.

    Args:
      a: an array, named or not.
      offset: how far right of the main diagonal.
      axis1: the axis of rows, a position or a name.
      axis2: the axis of columns.

    Over sharded names only the diagonal is sent: it is read (an all-reduce of its size where
    `axis2` is sharded), and gathered where `axis1` is, because it becomes a positional axis. To
    keep the name write `x["k", nx.arange(axis="q")]`.

    Raises:
      AxisNotFoundError: `a` lacks a name.

    >>> import jax.numpy as jnp, namedax as nx
    >>> nx.numpy.diagonal(nx.named(jnp.arange(4).reshape(2, 2), ["q", "k"]), axis1="q", axis2="k")
    Array([0, 3], dtype=int32)
    """
    if not _both_named(axis1, axis2):
        return _positional_diagonal(a, offset, axis1, axis2)
    entries, start, count = _diagonal("diagonal", a, offset, axis1, axis2)
    whole = to_front(entries, [axis1], "diagonal")
    cut = whole[start : start + count]
    return nmap(lambda data: jnp.moveaxis(data, 0, -1))(cut)


@axes_checked
def trace(
    a: Any, offset: int = 0, axis1: Any = 0, axis2: Any = 1, dtype: Any = None, out: None = None
) -> AnyArray:
    """The sum of the diagonal over two axes: `jnp.trace`, by name or position.

    Over sharded names: an all-reduce of the result, and one of the diagonal where `axis2` is
    sharded too.

    Raises:
      AxisNotFoundError: `a` lacks a name.

    >>> import jax.numpy as jnp, namedax as nx
    >>> nx.numpy.trace(nx.named(jnp.arange(4).reshape(2, 2), ["q", "k"]), axis1="q", axis2="k")
    Array(3, dtype=int32)
    """
    if not _both_named(axis1, axis2):
        return _positional_trace(a, offset, axis1, axis2, dtype, out)
    entries, start, count = _diagonal("trace", a, offset, axis1, axis2)
    row = arange(size(a, axis1), axis=axis1)
    return _sum(entries, axis1, dtype=dtype, where=(row >= start) & (row < start + count))


# --- products -------------------------------------------------------------------------------------------------------


_positional_vecdot = along_axes(jnp.vecdot, "vecdot", ("axis",))


@axes_checked
def vecdot(
    x1: Any,
    x2: Any,
    /,
    *,
    axis: Any = -1,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> AnyArray:
    """The product of vectors along one axis, the first one conjugated: `jnp.vecdot`.

    Along a name it is `nx.dot`, and costs that.

    Raises:
      AxisNotFoundError: an array lacks the name.

    >>> import jax.numpy as jnp, namedax as nx
    >>> x = nx.named(jnp.arange(3.0), ["k"])
    >>> nx.numpy.vecdot(x, x, axis="k")
    Array(5., dtype=float32)
    """
    options = {"precision": precision, "preferred_element_type": preferred_element_type}
    if not names_in(axis):
        return _positional_vecdot(x1, x2, axis=axis, **options)
    return dot(_conj(x1) if jnp.iscomplexobj(getattr(x1, "data", x1)) else x1, x2, axis, **options)


_positional_tensordot = along_axes(jnp.tensordot, "tensordot", ("axes",))


@axes_checked
def tensordot(
    a: Any, b: Any, axes: Any = 2, *, precision: Any = None, preferred_element_type: Any = None
) -> AnyArray:
    """The product of two arrays, summed over axes: `jnp.tensordot`.

    Over a name, or several, it is `nx.dot`, and costs that.

    Raises:
      AxisNotFoundError: an array lacks a name.

    >>> import jax.numpy as jnp, namedax as nx
    >>> x = nx.named(jnp.arange(3.0), ["k"])
    >>> nx.numpy.tensordot(x, x, "k")
    Array(5., dtype=float32)
    """
    options = {"precision": precision, "preferred_element_type": preferred_element_type}
    names = names_in(axes)
    if not names or len(names) < len(entries_of(axes)):
        return _positional_tensordot(a, b, axes, **options)
    return dot(a, b, tuple(names), **options)


# --- Fourier shifts -------------------------------------------------------------------------------------------------


def _fourier_shift(name: str) -> Callable[..., Any]:
    positional = nmap(getattr(jnp.fft, name))

    def shifted(x: Any, axes: Any = None) -> LikeArguments:
        names = names_in(axes)
        rest = (
            [entry for entry in entries_of(axes) if entry not in names]
            if axes is not None
            else None
        )
        for axis in names:
            resolve_axis(name, x, axis)
            n = size(x, axis)
            x = neighbours.roll(x, n // 2 if name == "fftshift" else -(n // 2), axis)
        return x if rest == [] else positional(x, rest)

    shifted.__name__ = shifted.__qualname__ = name
    shifted.__doc__ = f"""`jnp.fft.{name}`, by name or position; default: all positional axes. Along a sharded name it sends what `nx.roll` sends.

    Raises:
      AxisNotFoundError: `x` lacks a name.
    """
    return shifted


@operation(requires_axis=REDUCED)
def minmax(
    a: Any, axis: Any = None, *, keepdims: bool = False, initial: Any = None, where: Any = None
) -> tuple[AnyArray, AnyArray]:
    """The minimum and the maximum over positional and named axes: `jnp.minmax`, which JAX has since 0.12.

    Args:
      a: an array, named or not.
      axis: a position, a name, or a tuple of both; `None` means all positional axes, `...` all
        axes.
      keepdims: as for `nx.min`.
      initial: one number for both, or a pair.
      where: as for `nx.min`.

    Over sharded names it costs what `nx.min` and `nx.max` cost.

    Raises:
      AxisNotFoundError: `a` lacks a name.

    >>> import jax.numpy as jnp, namedax as nx
    >>> x = nx.named(jnp.array([3.0, 1.0, 2.0]), ["k"])
    >>> (nx.min(x, "k"), nx.max(x, "k"))
    (Array(1., dtype=float32), Array(3., dtype=float32))
    """
    low, high = initial if isinstance(initial, tuple) else (initial, initial)
    return _min(a, axis, keepdims=keepdims, initial=low, where=where), _max(
        a, axis, keepdims=keepdims, initial=high, where=where
    )


def by_name(*functions: Callable[..., Any]) -> dict[str, Callable[..., Any]]:
    """A table of functions, the axes of whose calls are checked."""
    return {function.__name__: axes_checked(function) for function in functions}


NUMPY: dict[str, Callable[..., Any]] = {
    "concat": joining.concatenate,
    **{
        f.__name__: f
        for f in (
            transpose,
            permute_dims,
            moveaxis,
            rollaxis,
            swapaxes,
            diagonal,
            trace,
            vecdot,
            tensordot,
        )
    },
    **({"minmax": minmax} if hasattr(jnp, "minmax") else {}),
}
LINALG: dict[str, Callable[..., Any]] = {"vecdot": vecdot, "tensordot": tensordot}
FFT = by_name(_fourier_shift("fftshift"), _fourier_shift("ifftshift"))
