"""Functions that reorder positional axes: `transpose`, `moveaxis`, `swapaxes` and `rollaxis`.

Named axes are batch axes and have no order.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

import jax.numpy as jnp

from namedax.core.annotations import AnyArray, ArrayLike, AxisSpec, LikeArguments
from namedax.core.array import as_array, dims_of
from namedax.core.display import type_text
from namedax.errors import AxisNameError, format_value, raise_not_found
from namedax.ops.operands.along_axes import checks_axes, names_in
from namedax.ops.operands.axes import is_axis_name, reject_reversal, resolve_axis
from namedax.ops.operands.nmap import nmap
from namedax.ops.operands.pytree import names_of

__all__ = ["moveaxis", "permute_dims", "rollaxis", "swapaxes", "transpose"]

_transpose, _moveaxis = nmap(jnp.transpose), nmap(jnp.moveaxis)
_rollaxis, _swapaxes = nmap(jnp.rollaxis), nmap(jnp.swapaxes)


def _reorder(op: str, a: ArrayLike, axes: Sequence[Hashable] | None) -> LikeArguments:
    if axes is None:
        reject_reversal(op, a)
        resolve_axis(op, a, ())
        return _transpose(a)
    names = names_in(axes)
    resolve_axis(op, a, tuple(names))
    if not names:
        return _transpose(a, axes)
    rest = tuple(entry for entry in axes if not is_axis_name(entry))
    return _transpose(a, rest) if rest else as_array(a)


@checks_axes
def transpose(a: ArrayLike, axes: Sequence[Hashable] | None = None) -> LikeArguments:
    """Reorder the positional axes.

    Args:
      a: an array, named or not.
      axes: the positional axes in their new order, and axis names, which have no effect; by default
        `None`, the positional axes in reverse order.

    Communication: none.

    Raises:
      AxisNotFoundError: `a` lacks a name.
      PositionalAxisError: `axes` is omitted, and every axis of `a` is named.

    >>> import jax.numpy as jnp, namedax as nx
    >>> nx.transpose(nx.named(jnp.ones((2, 3, 4)), ["b", ...]), ("b", 1, 0)).shape
    (4, 3)
    """
    return _reorder("transpose", a, axes)


@checks_axes
def permute_dims(a: ArrayLike, axes: Sequence[Hashable] | None = None) -> LikeArguments:
    """Reorder the positional axes: `nx.transpose` under its name in the array API.

    Args:
      a: an array, named or not.
      axes: the positional axes in their new order, and axis names, which have no effect; by default
        `None`, the positional axes in reverse order.

    Communication: none.

    Raises:
      AxisNotFoundError: `a` lacks a name.
      PositionalAxisError: `axes` is omitted, and every axis of `a` is named.
    """
    return _reorder("permute_dims", a, axes)


def _move(
    function: Callable[..., AnyArray], op: str, a: ArrayLike, source: AxisSpec, target: AxisSpec
) -> LikeArguments:
    """Call `function(a, source, target)`.

    Raises:
      AxisNameError: an axis is a name, which has no position.
    """
    dims = names_of(dims_of(a))
    names = [*names_in(source), *names_in(target)]
    for name in names:
        if name not in dims:
            raise_not_found(op, name, type_text(a), dims)
    if names:
        raise AxisNameError(
            f"{op}: names have no order, so axis {format_value(names[0])} of {type_text(a)} cannot"
            f" be moved from {format_value(source)} to {format_value(target)}. To give axes"
            " positions write nx.positional(x, [...]); to exchange the names of two, nx.rename(x,"
            " {a: b, b: a})."
        )
    return function(a, source, target)


@checks_axes
def moveaxis(a: ArrayLike, source: AxisSpec, destination: AxisSpec) -> LikeArguments:
    """Move positional axes to other positions, as `jnp.moveaxis`; named axes are batch axes.

    Args:
      a: an array, named or not.
      source: the positional axes to move, an integer or a sequence.
      destination: their positions in the result.

    Communication: none.

    Raises:
      AxisNameError: an axis is a name.

    >>> import jax.numpy as jnp, namedax as nx
    >>> nx.numpy.moveaxis(nx.named(jnp.ones((2, 3, 4)), ["b", ...]), 0, 1).shape
    (4, 3)
    """
    return _move(_moveaxis, "moveaxis", a, source, destination)


@checks_axes
def rollaxis(a: ArrayLike, axis: int, start: int = 0) -> LikeArguments:
    """Move a positional axis before another one, as `jnp.rollaxis`; named axes are batch axes.

    Args:
      a: an array, named or not.
      axis: the positional axis to move.
      start: the positional axis before which it is placed; by default 0.

    Communication: none.

    Raises:
      AxisNameError: an axis is a name.

    >>> import jax.numpy as jnp, namedax as nx
    >>> nx.numpy.rollaxis(nx.named(jnp.ones((2, 3, 4)), ["b", ...]), 1).shape
    (4, 3)
    """
    return _move(_rollaxis, "rollaxis", a, axis, start)


@checks_axes
def swapaxes(a: ArrayLike, axis1: int, axis2: int) -> LikeArguments:
    """Swap two positional axes, as `jnp.swapaxes`; `nx.rename` swaps the names of two axes.

    Args:
      a: an array, named or not.
      axis1: the first positional axis.
      axis2: the second positional axis.

    Communication: none.

    Raises:
      AxisNameError: an axis is a name.

    >>> import jax.numpy as jnp, namedax as nx
    >>> nx.numpy.swapaxes(nx.named(jnp.ones((2, 3, 4)), ["b", ...]), 0, 1).shape
    (4, 3)
    """
    return _move(_swapaxes, "swapaxes", a, axis1, axis2)
