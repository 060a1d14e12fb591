"""What is found along names, in a fixed number of places: `nonzero`, and `unique` over names.

How many entries there are depends on data, so the result has a given size, and an axis of its own. Each device knows how many
are found before its block (a cumulative sum), so it knows the places of those that it finds; one all-reduce puts them together.
"""

from __future__ import annotations

import functools
from collections.abc import Hashable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from namedax.core.annotations import Array
from namedax.core.array import NamedArray, dims_of
from namedax.core.display import type_text
from namedax.core.names import is_name
from namedax.core.region import ambient
from namedax.errors import ArgumentError, AxisNameError, NamedAxesLeftError, format_value, raise_not_found
from namedax.operands.along_axes import along_axes
from namedax.operands.broadcasting import to_local
from namedax.operands.nmap import nmap
from namedax.operands.operation import MOVED, operation
from namedax.operands.pytree_leaves import names_of
from namedax.operands.sizes import size_of
from namedax.ops.collectives.reducing import global_index
from namedax.ops.elementwise import FUNCTIONS as _ELEMENTWISE
from namedax.ops.indexing.getitem import read
from namedax.ops.indexing.take_along_axis import take_along_axis
from namedax.ops.reduction.cumulative import FUNCTIONS as _SCANS
from namedax.ops.reduction.reductions import REDUCTIONS
from namedax.ops.reduction.segments import segment_sum
from namedax.ops.shape.rearrange import merge_axes
from namedax.ops.shape.rename import rename
from namedax.ops.shape.triangles import index_along
from namedax.ops.sorting.sorting import FUNCTIONS as _SORTING
from namedax.ops.window.neighbours import shift

__all__ = ["nonzero", "unique"]

_where, _isnan = _ELEMENTWISE["where"], _ELEMENTWISE["isnan"]
_sum, _cumsum = REDUCTIONS["sum"], _SCANS["cumsum"]


class _Found:
    """The axis of what is found, until it has its name."""

    def __init__(self, name: Hashable):
        self.name = name

    def __repr__(self) -> str:
        return repr(self.name)


def _axes(op: str, x: Any, axis: Any, out_axis: Any) -> tuple[Hashable, ...]:
    axes = tuple(axis) if isinstance(axis, (tuple, list)) else (axis,)
    names = names_of(dims_of(x))
    for name in axes:
        if not is_name(name):
            raise AxisNameError(
                f"{op}: axis={format_value(axis)} must be a name or a tuple of names; positional axes need no axis= here."
            )
        if name not in names:
            raise_not_found(op, name, type_text(x), names)
    if out_axis is not None and (not is_name(out_axis) or out_axis in names):
        raise AxisNameError(f"{op}: out_axis={format_value(out_axis)} must be an axis name that {type_text(x)} lacks.")
    return axes


def _size(op: str, size: Any, out_axis: Hashable | None) -> int:
    if size is not None and (isinstance(size, bool) or not isinstance(size, (int, np.integer)) or size < 0):
        raise ArgumentError(f"{op}: size={format_value(size)} must be an integer from 0, the number of places in the result.")
    if out_axis is None:
        if size is None:
            raise ArgumentError(f"{op}: give size=, the number of places in the result; how many are found depends on data.")
        return int(size)
    return size_of(op, out_axis, None if size is None else int(size), "size")


def _named_last(result: Any, found: Any, out_axis: Hashable | None) -> Any:
    return result if out_axis is None else rename(result, {found: out_axis})


@operation(scope=True)
def nonzero(
    a: Any, *, size: Any = None, fill_value: Any = None, axis: Any = None, out_axis: Hashable | None = None
) -> tuple[Array, ...]:
    """The indices of the entries that are not zero, in row-major order.

    Args:
      a: an array, named or not.
      size: how many are returned: the first ones, and after them `fill_value`. A name may leave it out: its size in the mapped function
        is used.
      fill_value: what stands after the last one: a number, or one for each axis; default 0.
      axis: a name, or a tuple of names, major first: other axes are batch axes. Default: the positional axes, as in `jnp.nonzero`, where
        names are batch axes.
      out_axis: the name of the result's axis; default: a positional one, in front.

    Returns:
      A tuple with an array of indices for every axis, each with the batch axes and that of the places. Over sharded names: a
      number per device to count what is before it, and one all-reduce of the result for each axis. (With several names, each
      but the last needs a table of the places before they are added up.)

    Raises:
      AxisNotFoundError: `a` lacks a name, or the number of places is not known.
      ArgumentError: there is no size.
      AxisNameError: `out_axis` is a name of `a`.

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
                f"{op}: the number of indices of {type_text(a)} would depend on data, and differ from entry to entry of its names. Give "
                "size=, and for indices along names axis= too."
            )
        return nmap(functools.partial(jnp.nonzero, size=size, fill_value=fill_value))(a)
    a = to_local(a, op, ambient())
    axes, places = _axes(op, a, axis, out_axis), _size(op, size, out_axis)
    fills = fill_value if isinstance(fill_value, (tuple, list)) else (fill_value,) * len(axes)
    if len(fills) != len(axes):
        raise ArgumentError(
            f"{op}: fill_value={format_value(fill_value)} has {len(fills)} entries for {len(axes)} axes; give a number, or one for each."
        )
    mask = a if a.dtype == jnp.bool_ else a != 0
    slot, count = _slots(mask, axes, places)
    found = _Found(out_axis)
    results = []
    for name, fill in zip(axes, fills, strict=True):
        index = _where(mask, index_along(op, mask, name), 0)
        result = _gathered(index, slot, places, axes, found if out_axis is not None else None)
        results.append(_filled(op, result, count, places, 0 if fill is None else fill, found, out_axis))
    return tuple(results)


def _slots(mask: Any, axes: Sequence[Hashable], places: int) -> tuple[Any, Any]:
    """The place of every entry that is found, `places` for the others, and how many there are."""
    ones = mask.astype(jnp.arange(1).dtype)
    rank, count = _cumsum(ones, axes[-1]) - 1, _sum(ones, axes[-1])
    for name in reversed(axes[:-1]):
        rank = rank + _cumsum(count, name) - count
        count = _sum(count, name)
    return _where(mask, rank, places), count


def _gathered(values: Any, slot: Any, places: int, axes: Sequence[Hashable], out: Any) -> Any:
    """The values at their places; those at places out of range are left out."""
    result = segment_sum(values, slot, places, axis=axes[-1], out_axis=out)
    return _sum(result, tuple(axes[:-1])) if len(axes) > 1 else result


def _filled(op: str, result: Any, count: Any, places: int, fill: Any, found: _Found, out_axis: Hashable | None) -> Any:
    """`result` with `fill` at the places behind those that are found."""
    if out_axis is not None:
        known = global_index(op, found, places) < count
        return _named_last(_where(known, result, fill), found, out_axis)
    rest = (slice(None), *(None,) * (np.ndim(result) - 1 if not isinstance(result, NamedArray) else result.ndim - 1))
    return _where(jnp.arange(places)[rest] < count, result, fill)


_lifted_unique = along_axes(jnp.unique, "unique", ("axis",))


@operation(requires_axis=MOVED, scope=True)
def unique(
    ar: Any,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: Any = None,
    *,
    equal_nan: bool = True,
    size: Any = None,
    fill_value: Any = None,
    sorted: bool = True,
    out_axis: Hashable | None = None,
) -> Array | tuple[Array, ...]:
    """The different values of an array, in order.

    With `out_axis`, over names: a form that works on sharded axes. Without it this is `jnp.unique` (rows along `axis` where that is given,
    a sharded name is gathered), and names are batch axes.

    Args:
      ar: an array, named or not.
      return_index: whether the indices of the first entry of each value are returned too, with `out_axis`.
      return_inverse: whether the index among the values is returned too, for every entry.
      return_counts: whether the number of entries of each value is returned too.
      axis: with `out_axis` a name, or a tuple of names, whose entries are taken together, major first. Other axes are batch axes.
      equal_nan: whether NaNs are one value.
      size: how many values are returned: the smallest ones, and after them `fill_value`. A name may leave it out.
      fill_value: what stands after the last one; default: the smallest value.
      sorted: without `out_axis`, as in `jnp.unique`; with it the values are always in order.
      out_axis: the name of the axis of the values.

    Returns:
      The values, or a tuple of these and what else was asked for. (The inverse has the one axis along which values were looked
      for, under its name; several names must be merged before: `nx.merge_axes`.) Over a sharded name it costs a sort
      (`nx.sort`), a number per device, and one all-reduce of the result; the index and the inverse a sort of indices more.

    Raises:
      AxisNotFoundError: `ar` lacks a name, or the number of values is not known.
      ArgumentError: there is no size, or an inverse over several names is asked for.
      AxisNameError: `out_axis` is a name of `ar`.

    >>> import jax.numpy as jnp, namedax as nx
    >>> x = nx.named(jnp.array([[3, 1], [1, 3]]), ["a", "b"])
    >>> nx.positional(nx.unique(x, axis=("a", "b"), size=2, out_axis="value"), ["value"])
    Array([1, 3], dtype=int32)
    """
    op = "unique"
    if out_axis is None:
        options = {"equal_nan": equal_nan, "size": size, "fill_value": fill_value, "sorted": sorted}
        return _lifted_unique(ar, return_index, return_inverse, return_counts, axis, **options)
    ar = to_local(ar, op, ambient())
    axes, places = _axes(op, ar, axis, out_axis), _size(op, size, out_axis)
    if len(axes) > 1:
        if return_inverse or return_index:
            raise ArgumentError(
                f"{op}: an index into {axes} is not one number; merge them before, nx.merge_axes(x, {format_value(axes)}, 'flat')."
            )
        name: Hashable = _Found(axes)
        ar = merge_axes(ar, axes, name)
    else:
        (name,) = axes
    return _unique(op, ar, name, places, fill_value, equal_nan, out_axis, (return_index, return_inverse, return_counts))


def _unique(
    op: str, x: Any, axis: Hashable, places: int, fill: Any, equal_nan: bool, out_axis: Hashable, more: tuple[bool, bool, bool]
) -> Any:
    ordered = _SORTING["sort"](x, axis)
    before = shift(ordered, 1, axis)
    first = (ordered != before) | (index_along(op, ordered, axis) == 0)
    if equal_nan and jnp.issubdtype(x.dtype, jnp.inexact):
        first = first & ~(_isnan(ordered) & _isnan(before) & (index_along(op, ordered, axis) > 0))
    ones = first.astype(jnp.arange(1).dtype)
    slot, count = _cumsum(ones, axis) - 1, _sum(ones, axis)
    found = _Found(out_axis)

    def at_places(values: Any, fill: Any) -> Any:
        """The value of the first entry of each."""
        result = _gathered(values, _where(first, slot, places), places, (axis,), found)
        return _filled(op, result, count, places, fill, found, out_axis)

    truth = x.dtype == jnp.bool_
    numbers = ordered.astype(jnp.int8) if truth else ordered
    values = at_places(numbers, _at_first(op, numbers, axis) if fill is None else fill)
    results = [values.astype(x.dtype) if values.dtype != x.dtype else values]
    if more[0] or more[1]:
        order = _SORTING["argsort"](x, axis)
        if more[0]:
            results.append(at_places(order, _at_first(op, order, axis)))
        if more[1]:
            results.append(take_along_axis(slot, _SORTING["argsort"](order, axis), axis))
    if more[2]:
        counts = _gathered(ones * 0 + 1, slot, places, (axis,), found)
        results.append(_filled(op, counts, count, places, 0, found, out_axis))
    return results[0] if len(results) == 1 else tuple(results)


def _at_first(op: str, x: Any, axis: Hashable) -> Any:
    """The entry of `x` at index 0."""
    return read(op, x, {axis: 0})
