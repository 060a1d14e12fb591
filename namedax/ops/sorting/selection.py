"""Selection of elements by a condition: `where`, `nonzero`, and `unique` over names.

The number of selected elements depends on data, so the result has a given size and a separate axis.
A cumulative sum gives each device the number of elements selected before its block, and so their
indices in the result. One all-reduce combines the results.
"""

from __future__ import annotations

import functools
from collections.abc import Hashable, Sequence
from typing import Any, overload

import jax
import jax.numpy as jnp
import numpy as np

from namedax.core.annotations import AnyArray, ArrayLike, AxisSpec
from namedax.core.array import NamedArray, as_array, dims_of
from namedax.core.display import type_text
from namedax.core.names import AxisName, is_name
from namedax.core.region import ambient
from namedax.errors import (
    ArgumentError,
    AxisNameError,
    NamedAxesLeftError,
    format_value,
    raise_not_found,
    reject_names,
)
from namedax.ops.collectives.reducing import global_index
from namedax.ops.elementwise import FUNCTIONS as _ELEMENTWISE
from namedax.ops.indexing.diagonal import index_along
from namedax.ops.indexing.getitem import read, take_along_axis
from namedax.ops.operands.along_axes import along_axes, entries_of
from namedax.ops.operands.broadcasting import to_local
from namedax.ops.operands.new_axis import size_of
from namedax.ops.operands.nmap import Lifted, nmap
from namedax.ops.operands.operation import MOVED, Explicit, operation
from namedax.ops.operands.pytree import names_of
from namedax.ops.reduction.cumulative import cumsum
from namedax.ops.reduction.reductions import REDUCTIONS
from namedax.ops.reduction.segments import segment_sum
from namedax.ops.shape.rearrange import merge_axes
from namedax.ops.shape.rename import rename
from namedax.ops.sorting.sorting import argsort, sort
from namedax.ops.window.neighbours import shift

__all__ = ["nonzero", "unique", "where"]

_where, _isnan = _ELEMENTWISE["where"], _ELEMENTWISE["isnan"]
_sum = REDUCTIONS["sum"]


class _Found:
    """A temporary name for the axis of the result."""

    def __init__(self, name: Hashable):
        self.name = name

    def __repr__(self) -> str:
        return repr(self.name)


def _axes(op: str, x: AnyArray, axis: AxisSpec, out_axis: AxisName | None) -> tuple[Hashable, ...]:
    axes = entries_of(axis)
    names = names_of(dims_of(x))
    for name in axes:
        if not is_name(name):
            raise AxisNameError(
                f"{op}: axis={format_value(axis)} must be an axis name or a tuple of names. Leave"
                " out axis= for positional axes."
            )
        if name not in names:
            raise_not_found(op, name, type_text(x), names)
    if out_axis is not None and (not is_name(out_axis) or out_axis in names):
        raise AxisNameError(
            f"{op}: out_axis={format_value(out_axis)} must be an axis name that {type_text(x)}"
            " lacks."
        )
    return axes


def _size(op: str, size: object, out_axis: Hashable | None) -> int:
    if size is not None and (
        isinstance(size, bool) or not isinstance(size, (int, np.integer)) or size < 0
    ):
        raise ArgumentError(
            f"{op}: size, the number of elements in the result, must be a nonnegative integer, got"
            f" {format_value(size)}."
        )
    if out_axis is None:
        if size is None:
            raise ArgumentError(
                f"{op}: size= is required, because the number of selected elements depends on data."
                " Pass size=."
            )
        return int(size)
    return size_of(op, out_axis, None if size is None else int(size), "size")


def _named_last(result: AnyArray, found: _Found, out_axis: Hashable | None) -> AnyArray:
    return result if out_axis is None else rename(result, {found: out_axis})


@operation(scope=True)
def nonzero(
    a: ArrayLike,
    *,
    size: int | None = None,
    fill_value: jax.typing.ArrayLike | tuple[jax.typing.ArrayLike, ...] | None = None,
    axis: AxisSpec = None,
    out_axis: Hashable | None = None,
) -> tuple[AnyArray, ...]:
    """Return the indices of the nonzero elements, in row-major order.

    Args:
      a: an array, named or not.
      size: the number of returned indices: the first ones, followed by `fill_value`. Optional for a
        named axis, which takes its size in the mapped function. By default `None`.
      fill_value: the value after the last index: a number, or one for each axis; by default 0.
      axis: an axis name, or a tuple of names, major first: other axes are batch axes. By default
        the positional axes, as in `jnp.nonzero`, with named axes as batch axes.
      out_axis: the name of the result's axis; by default a positional one, in front.

    Returns:
      A tuple with an array of indices for every axis, each with the batch axes and the axis of the
      result.

    Communication: over sharded axes, one number per device to count the preceding elements, and one
    all-reduce of the result for each axis. With several names, every axis except the last needs a
    table of the results before the sum.

    Raises:
      AxisNotFoundError: `a` lacks an axis, or the size of the result is not known.
      ArgumentError: there is no size.
      AxisNameError: `out_axis` is an axis of `a`.

    >>> import jax.numpy as jnp, namedax as nx
    >>> x = nx.named(jnp.array([0, 3, 0, 7]), ["k"])
    >>> (found,) = nx.nonzero(x, axis="k", size=3, out_axis="place", fill_value=-1)
    >>> nx.positional(found, ["place"])
    Array([ 1,  3, -1], dtype=int32)
    """
    op = "nonzero"
    if axis is None:
        if isinstance(a, NamedArray) and size is None:
            raise NamedAxesLeftError(
                f"{op}: the number of indices of {type_text(a)} depends on data, and differs along"
                " its named axes. Pass size=, and for indices along named axes also axis=."
            )
        return nmap(functools.partial(jnp.nonzero, size=size, fill_value=fill_value))(a)
    x = as_array(to_local(a, op, ambient()), op)
    axes, places = _axes(op, x, axis, out_axis), _size(op, size, out_axis)
    fills = fill_value if isinstance(fill_value, (tuple, list)) else (fill_value,) * len(axes)
    if len(fills) != len(axes):
        raise ArgumentError(
            f"{op}: fill_value={format_value(fill_value)} has {len(fills)} values for {len(axes)}"
            " axes. Pass a number, or one for each."
        )
    mask = x if x.dtype == jnp.bool_ else x != 0
    slot, count = _slots(mask, axes, places)
    found = _Found(out_axis)
    results = []
    for name, fill in zip(axes, fills, strict=True):
        index = _where(mask, index_along(op, mask, name), 0)
        result = _gathered(index, slot, places, axes, found if out_axis is not None else None)
        results.append(
            _filled(op, result, count, places, 0 if fill is None else fill, found, out_axis)
        )
    return tuple(results)


def _slots(mask: AnyArray, axes: Sequence[Hashable], places: int) -> tuple[AnyArray, AnyArray]:
    """Return the result index of every selected element, and the number of selected elements.

    The index of the others is `places`.
    """
    ones = mask.astype(jnp.arange(1).dtype)
    rank, count = cumsum(ones, axes[-1]) - 1, _sum(ones, axes[-1])
    for name in reversed(axes[:-1]):
        rank = rank + cumsum(count, name) - count
        count = _sum(count, name)
    return _where(mask, rank, places), count


def _gathered(
    values: AnyArray, slot: AnyArray, places: int, axes: Sequence[Hashable], out: _Found | None
) -> AnyArray:
    """Scatter the values to their result indices, and drop indices out of range."""
    result = segment_sum(values, slot, places, axis=axes[-1], out_axis=out)
    return _sum(result, tuple(axes[:-1])) if len(axes) > 1 else result


def _filled(
    op: str,
    result: AnyArray,
    count: AnyArray,
    places: int,
    fill: ArrayLike,
    found: _Found,
    out_axis: Hashable | None,
) -> AnyArray:
    """Fill the result after its selected elements with `fill`."""
    if out_axis is not None:
        known = global_index(op, found, places) < count
        return _named_last(_where(known, result, fill), found, out_axis)
    rest = (
        slice(None),
        *(None,) * (np.ndim(result) - 1 if not isinstance(result, NamedArray) else result.ndim - 1),
    )
    return _where(jnp.arange(places)[rest] < count, result, fill)


_lifted_unique = along_axes(jnp.unique, "unique", ("axis",))


@operation(requires_axis=MOVED, scope=True)
def unique(
    ar: ArrayLike,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: AxisSpec = None,
    *,
    equal_nan: bool = True,
    size: int | None = None,
    fill_value: ArrayLike | None = None,
    sorted: bool = True,
    out_axis: Hashable | None = None,
) -> AnyArray | tuple[AnyArray, ...]:
    """Return the distinct values of an array, in order.

    With `out_axis`, this is a form over named axes that supports sharding. Without it, this is
    `jnp.unique` (of rows along `axis` if it is given), and named axes
    are batch axes.

    Args:
      ar: an array, named or not.
      return_index: with `out_axis`, if `True`, also return the index of the first element with each
        value; by default `False`.
      return_inverse: if `True`, also return the index of every element's value; by default `False`.
      return_counts: if `True`, also return the number of elements with each value; by default
        `False`.
      axis: with `out_axis`, an axis name, or a tuple of names that are merged, major first. Other
        axes are batch axes. By default `None`.
      equal_nan: if `True` (default), NaNs are one value.
      size: the number of returned values: the smallest ones, followed by `fill_value`. Optional for
        a named axis. By default `None`.
      fill_value: the value after the last one; by default the smallest value.
      sorted: without `out_axis`, as in `jnp.unique`; with it the values are always in order. By
        default `True`.
      out_axis: the name of the axis of the values, by default `None`.

    Returns:
      The values, or a tuple of the values and the other requested results. The inverse has the one
      axis of the search, under its name; merge several names first with `nx.merge_axes`.

    Communication: over a sharded axis, a sort (`nx.sort`), a number per device, and one all-reduce
    of the result. The index and the inverse cost one more sort of indices. Without `out_axis`, a
    sharded axis is gathered.

    Raises:
      AxisNotFoundError: `ar` lacks an axis, or the number of values is not known.
      ArgumentError: there is no size, or an inverse over several names is requested.
      AxisNameError: `out_axis` is an axis of `ar`.

    >>> import jax.numpy as jnp, namedax as nx
    >>> x = nx.named(jnp.array([[3, 1], [1, 3]]), ["a", "b"])
    >>> nx.positional(nx.unique(x, axis=("a", "b"), size=2, out_axis="value"), ["value"])
    Array([1, 3], dtype=int32)
    """
    op = "unique"
    if out_axis is None:
        options = {"equal_nan": equal_nan, "size": size, "fill_value": fill_value, "sorted": sorted}
        return _lifted_unique(ar, return_index, return_inverse, return_counts, axis, **options)
    x = as_array(to_local(ar, op, ambient()), op)
    axes, places = _axes(op, x, axis, out_axis), _size(op, size, out_axis)
    if len(axes) > 1:
        if return_inverse or return_index:
            raise ArgumentError(
                f"{op}: an index over several axes, {axes}, is not one number. Merge them first,"
                f" nx.merge_axes(x, {format_value(axes)}, 'flat')."
            )
        name: Hashable = _Found(axes)
        x = merge_axes(x, axes, name)
    else:
        (name,) = axes
    return _unique(
        op,
        x,
        name,
        places,
        fill_value,
        equal_nan,
        out_axis,
        (return_index, return_inverse, return_counts),
    )


def _unique(
    op: str,
    x: AnyArray,
    axis: Hashable,
    places: int,
    fill: ArrayLike | None,
    equal_nan: bool,
    out_axis: Hashable,
    more: tuple[bool, bool, bool],
) -> AnyArray | tuple[AnyArray, ...]:
    ordered = sort(x, axis)
    before = shift(ordered, 1, axis)
    first = (ordered != before) | (index_along(op, ordered, axis) == 0)
    if equal_nan and jnp.issubdtype(x.dtype, jnp.inexact):
        first = first & ~(_isnan(ordered) & _isnan(before) & (index_along(op, ordered, axis) > 0))
    ones = first.astype(jnp.arange(1).dtype)
    slot, count = cumsum(ones, axis) - 1, _sum(ones, axis)
    found = _Found(out_axis)

    def at_places(values: AnyArray, fill: ArrayLike) -> AnyArray:
        """Scatter the value of the first element of each group."""
        result = _gathered(values, _where(first, slot, places), places, (axis,), found)
        return _filled(op, result, count, places, fill, found, out_axis)

    truth = x.dtype == jnp.bool_
    numbers = ordered.astype(jnp.int8) if truth else ordered
    values = at_places(numbers, _at_first(op, numbers, axis) if fill is None else fill)
    results = [values.astype(x.dtype) if values.dtype != x.dtype else values]
    if more[0] or more[1]:
        order = argsort(x, axis)
        if more[0]:
            results.append(at_places(order, _at_first(op, order, axis)))
        if more[1]:
            results.append(take_along_axis(slot, argsort(order, axis), axis))
    if more[2]:
        counts = _gathered(ones * 0 + 1, slot, places, (axis,), found)
        results.append(_filled(op, counts, count, places, 0, found, out_axis))
    return results[0] if len(results) == 1 else tuple(results)


def _at_first(op: str, x: AnyArray, axis: Hashable) -> AnyArray:
    """Return the element of `x` at index 0."""
    return read(op, x, {axis: 0})


@overload
def where(condition: NamedArray, x: ArrayLike, y: ArrayLike, /) -> NamedArray: ...
@overload
def where(condition: ArrayLike, x: NamedArray, y: ArrayLike, /) -> NamedArray: ...
@overload
def where(condition: ArrayLike, x: ArrayLike, y: NamedArray, /) -> NamedArray: ...
@overload
def where(condition: ArrayLike, x: ArrayLike, y: ArrayLike, /) -> AnyArray: ...
@overload
def where(
    condition: ArrayLike,
    /,
    *,
    size: int | None = None,
    fill_value: Any = None,
    axis: AxisSpec = None,
    out_axis: Hashable | None = None,
) -> tuple[AnyArray, ...]: ...
@operation(explicit=Explicit.ALIGNED, elementwise=True)
def where(
    condition: ArrayLike,
    x: ArrayLike | None = None,
    y: ArrayLike | None = None,
    /,
    *,
    size: int | None = None,
    fill_value: Any = None,
    axis: AxisSpec = None,
    out_axis: Hashable | None = None,
) -> AnyArray | tuple[AnyArray, ...]:
    """Select elements of `x` where `condition` holds, else of `y`, broadcast by name.

    Args:
      condition: a boolean array, named or not.
      x: an array or a number; by default `None`.
      y: an array or a number; by default `None`. Without both, return the indices at which
        `condition` holds, along the positional axes as in `jnp.where`; names are batch axes.
      size: the number of indices in the one-argument form, by default `None`; required if the array
        has names.
      fill_value: the fill value after the last index; by default `None`.
      axis: the names along which the one-argument form searches, as in `nx.nonzero`; by default
        `None`, the positional axes.
      out_axis: the name of the axis of the indices, as in `nx.nonzero`; by default `None`.

    Communication: none. With one argument, that of `nx.nonzero`.

    Raises:
      NamedAxesLeftError: the condition has names, and neither `x` and `y` nor a size is given; the
        result's shape depends on data.
      ArgumentError: one of `size`, `fill_value`, `axis`, `out_axis` is given with `x` and `y`.

    >>> import jax.numpy as jnp, namedax as nx
    >>> x = nx.named(jnp.array([1.0, -2.0, 3.0]), ["k"])
    >>> nx.positional(nx.where(x > 0, x, 0.0), ["k"])
    Array([1., 0., 3.], dtype=float32)
    """
    if x is not None and y is not None:
        if not (size is None and fill_value is None and axis is None and out_axis is None):
            raise ArgumentError(
                "where: size=, fill_value=, axis= and out_axis= are for the form with one argument;"
                " leave them out if x and y are given."
            )
        return _where(condition, x, y)
    if axis is not None:
        return nonzero(condition, size=size, fill_value=fill_value, axis=axis, out_axis=out_axis)
    if isinstance(condition, NamedArray) and size is not None:
        find = Lifted(lambda data: jnp.where(data, size=size, fill_value=fill_value), "where")
        return find(condition)
    reject_names("where", condition)
    if any(isinstance(array, NamedArray) for array in (condition, x, y)):
        names = [dim for dim in dims_of(condition) if dim is not None] or ["k"]
        raise NamedAxesLeftError(
            "where: named arrays require condition, x and y, because the result shape of the"
            " one-argument form depends on data. Write nx.where(condition, x, 0), or"
            f" nx.nonzero(condition, size=8, axis={format_value(names[0])}) for at most 8"
            " positions."
        )
    positional: Any = jnp.where  # its overloads separate the two forms
    return positional(condition, x, y, size=size, fill_value=fill_value)
