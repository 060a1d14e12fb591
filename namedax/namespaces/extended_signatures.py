"""Functions with the additional parameters of JAX's: `where(size=)`, `take_along_axis` from the end, `diff(prepend=)`, and the like.

The ordinary form of each has a module of its own, and is called whenever none of these arguments is
given.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, overload

import jax.numpy as jnp

from namedax.core.annotations import AnyArray, ArrayLike, AxisSpec, LikeArguments
from namedax.core.array import NamedArray, as_array, dims_of
from namedax.core.element_types import common_type
from namedax.core.records import Record
from namedax.errors import ArgumentError
from namedax.operands.axes import is_axis_name, resolve_axis, unwrap_single
from namedax.operands.broadcasting import make_result
from namedax.operands.nmap import Lifted
from namedax.operands.operation import Explicit, operation
from namedax.operands.pytree import data_of
from namedax.ops import elementwise
from namedax.ops.elementwise import FUNCTIONS as _ELEMENTWISE
from namedax.ops.indexing.take_along_axis import take_along_axis as _take_along_axis
from namedax.ops.reduction import cumulative as scans
from namedax.ops.shape import joining
from namedax.ops.sorting.selection import nonzero
from namedax.ops.window import neighbours

__all__ = ["FORMS"]

_where = _ELEMENTWISE["where"]


# --- selections ---------------------------------------------------------------------------------------------------------


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
@operation(explicit=Explicit.ALIGNED)
def where(
    condition: Any,
    x: Any = None,
    y: Any = None,
    /,
    *,
    size: int | None = None,
    fill_value: Any = None,
    axis: Any = None,
    out_axis: Hashable | None = None,
) -> AnyArray | tuple[AnyArray, ...]:
    """Elements of `x` where `condition` holds, else of `y`, broadcast by name.

    Args:
      condition: a boolean array, named or not.
      x: an array or a number.
      y: an array or a number. Without both: the indices at which `condition` holds, in the
        positional axes, as in `jnp.where`; names are batch axes.
      size: how many indices the form with one argument returns; needed if the array has names.
      fill_value: what stands behind the last index found.
      axis: names along which the form with one argument looks, as in `nx.nonzero`; default: the
        positional axes.
      out_axis: the name of the axis of the indices then.

    Raises:
      NamedAxesLeftError: the condition has names, and neither `x` and `y` nor a size is given; the
        result's shape depends on data.
      ArgumentError: `size` or `fill_value` with `x` and `y`.

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
        return elementwise.where(condition, x, y)
    if axis is not None:
        return nonzero(condition, size=size, fill_value=fill_value, axis=axis, out_axis=out_axis)
    if not isinstance(condition, NamedArray):
        if isinstance(x, NamedArray) or isinstance(condition, str):
            return elementwise.where(condition, x, y)  # which says what is missing
        plain: Any = jnp.where  # whose types keep the two forms apart
        return plain(condition, x, y, size=size, fill_value=fill_value)
    if size is None:
        return elementwise.where(condition, x, y)
    return Lifted(lambda data: jnp.where(data, size=size, fill_value=fill_value), "where")(
        condition
    )


@operation()
def take_along_axis(
    x: Any,
    indices: Any,
    axis: Any = -1,
    mode: str | None = None,
    fill_value: Any = None,
    *,
    wrap_negative_indices: bool | None = None,
) -> AnyArray:
    """Entries of `x` along one axis, at indices that differ from place to place.

    Args:
      x: an array, named or not.
      indices: integers. Along `axis` their size may differ from that of `x` (not in a mapped
        function that fixes it); if they lack `axis`, so does the result. All other axes, named and
        positional, broadcast with those of `x`.
      axis: a name, or a position among the positional axes.
      mode: what an index out of range gives: `"fill"` (the default: NaN, or the least integer, or
        `fill_value`), `"clip"`, or `"promise_in_bounds"`.
      fill_value: what to fill with.
      wrap_negative_indices: whether negative indices count from the end, as they do unless this is
        `False`; then they are out of range.

    Costs as in `getitem`: along a sharded name one all-gather of the indices, and one
    reduce-scatter of the result.

    Raises:
      AxisNotFoundError: `x` lacks the name.

    >>> import jax.numpy as jnp, namedax as nx
    >>> x = nx.named(jnp.array([[3.0, 1.0, 2.0], [5.0, 6.0, 4.0]]), ["batch", "k"])
    >>> order = nx.named(jnp.array([[1, 2, 0], [2, 0, 1]]), ["batch", "k"])
    >>> nx.positional(nx.take_along_axis(x, order, "k"), ["batch", "k"])
    Array([[1., 2., 3.],
           [4., 5., 6.]], dtype=float32)
    """
    if wrap_negative_indices is False and mode != "promise_in_bounds":
        x, indices = as_array(x), as_array(indices)
        (dim,) = resolve_axis("take_along_axis", x, (axis,))
        name = dims_of(x)[dim]
        size = x.shape[dims_of(x)[:dim].count(None)] if name is None else x.named_shape[name]
        # Out of range as they stand: behind the end to be filled, or before the beginning to be
        # clipped.
        outside = 0 if mode == "clip" else size
        indices = indices.astype(common_type(indices.dtype, jnp.int32))
        indices = _where(indices < 0, jnp.asarray(outside, indices.dtype), indices)
    return _take_along_axis(x, indices, axis, mode, fill_value)


# --- axes that become longer ----------------------------------------------------------------------------------------------


def _cumulative(
    name: str,
    x: Any,
    axis: Any,
    dtype: Any,
    include_initial: bool,
    out_axis: Hashable | None,
    *,
    neutral: int,
) -> Any:
    base = scans.FUNCTIONS[name]
    if not include_initial or axis is None or not is_axis_name(axis):
        return base(x, axis=axis, dtype=dtype, include_initial=include_initial)
    longer = {axis: out_axis} if out_axis else None
    return neighbours.pad(
        base(x, axis=axis, dtype=dtype), {axis: (1, 0)}, constant_values=neutral, out_axis=longer
    )


@operation()
def cumulative_sum(
    x: Any,
    /,
    *,
    axis: Any = None,
    dtype: Any = None,
    include_initial: bool = False,
    out_axis: Hashable | None = None,
) -> LikeArguments:
    """Cumulative sum along one axis, as in the array API: narrow integers are combined as `int`.

    Args:
      x: an array, named or not.
      axis: a position or a name; may be left out if there is exactly one positional axis.
      dtype: element type of the result.
      include_initial: whether the result begins with 0, and is longer by one.
      out_axis: the name of the longer axis; needed in a mapped function in which `axis` has a size.

    Returns:
      An array with the same axes. Costs as for `cumsum`; with `include_initial` along a sharded
      name, those of `pad` too.

    Raises:
      AxisNotFoundError: `x` has no axis of that name.
      AxisSizeError: the longer axis has a different size in the mapped function.
      PositionalAxisError: `axis` is not one axis.

    >>> import jax.numpy as jnp, namedax as nx
    >>> x = nx.named(jnp.array([1.0, 2.0, 3.0]), ["pos"])
    >>> nx.cumulative_sum(x, axis="pos", include_initial=True, out_axis="edge").data.tolist()
    [0.0, 1.0, 3.0, 6.0]
    """
    return _cumulative("cumulative_sum", x, axis, dtype, include_initial, out_axis, neutral=0)


@operation()
def cumulative_prod(
    x: Any,
    /,
    *,
    axis: Any = None,
    dtype: Any = None,
    include_initial: bool = False,
    out_axis: Hashable | None = None,
) -> LikeArguments:
    """Cumulative product along one axis, as in the array API. Arguments and costs as for `cumulative_sum`; it begins with 1.

    >>> import jax.numpy as jnp, namedax as nx
    >>> x = nx.named(jnp.array([1.0, 2.0, 3.0]), ["pos"])
    >>> nx.cumulative_prod(x, axis="pos", include_initial=True, out_axis="edge").data.tolist()
    [1.0, 1.0, 2.0, 6.0]
    """
    return _cumulative("cumulative_prod", x, axis, dtype, include_initial, out_axis, neutral=1)


class _Joined(Record):
    """The name of an axis with what stands before and behind it."""

    axis: Hashable


@operation(explicit=Explicit.KEPT)
def diff(
    a: Any,
    n: int = 1,
    axis: Any = -1,
    prepend: Any = None,
    append: Any = None,
    *,
    out_axis: Hashable | None = None,
) -> LikeArguments:
    """The `n`-th differences along one axis, which becomes shorter by `n`.

    Args:
      a: an array, named or not.
      n: how often differences are taken.
      axis: a position or a name.
      prepend: values before the first: a number, or an array with that axis. Along a name, an array
        without it is one entry; one that has it, all of its entries.
      append: the same at the other end.
      out_axis: the name of the resulting axis; needed in a mapped function in which `axis` has a
        different size.

    Returns:
      The differences. Along a sharded name each device gets the rows that it lacks of the next
      block; several entries in front or behind are joined on first, for which a sharded axis is
      gathered.

    Raises:
      AxisNotFoundError: `a` lacks the name.
      AxisSizeError: in a mapped function the name has a different size than the result, or than the
        entries in front or behind.

    >>> import jax.numpy as jnp, namedax as nx
    >>> x, first = nx.named(jnp.array([1, 4, 9]), ["k"]), nx.named(jnp.array([5, 3]), ["k"])
    >>> nx.diff(x, axis="k", prepend=first, out_axis="d").data.tolist()
    [-2, -2, 3, 5]
    """
    axis = unwrap_single(axis, dims_of(a))
    ends = [end for end in (prepend, append) if end is not None]
    if not is_axis_name(axis) or not any(axis in dims_of(end) for end in ends):
        return neighbours.diff(a, n, axis, prepend, append, out_axis=out_axis)

    def entries(end: Any) -> list[Any]:
        if end is None:
            return []
        return [
            (
                end
                if axis in dims_of(end)
                else make_result(jnp.asarray(data_of(end))[None], (axis, *dims_of(end)))
            )
        ]

    joined = _Joined(axis)
    whole = joining.concatenate([*entries(prepend), a, *entries(append)], axis, out_axis=joined)
    return neighbours.diff(whole, n, joined, out_axis=axis if out_axis is None else out_axis)


#: Functions of `jax.numpy` whose ordinary form is another module's.
FORMS: dict[str, Callable[..., Any]] = {
    f.__name__: f for f in (cumulative_sum, cumulative_prod, diff, take_along_axis, where)
}
