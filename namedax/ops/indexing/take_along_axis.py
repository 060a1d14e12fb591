"""`take_along_axis`: reads along an axis at indices that differ between elements."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import lax

from namedax.core.annotations import AnyArray, ArrayLike, AxisSpec
from namedax.core.array import NamedArray, as_array, dims_of, make_in_region
from namedax.core.display import type_text
from namedax.core.element_types import check_fits, common_type
from namedax.core.names import is_name
from namedax.core.region import ambient
from namedax.errors import PositionalAxisError, format_value
from namedax.operands.axes import resolve_axis, unwrap_single
from namedax.operands.broadcasting import make_result, to_local
from namedax.operands.operation import operation
from namedax.operands.pytree import wide_index
from namedax.ops.elementwise import FUNCTIONS as _ELEMENTWISE
from namedax.ops.indexing.getitem import read_parts
from namedax.ops.indexing.parts import ARRAY, READ_MODES, Part, StandIn
from namedax.ops.shape import inspection

__all__ = ["take_along_axis"]


class _Place(StandIn):
    """A temporary name for a positional axis."""


def _without_negative(
    x: ArrayLike, indices: ArrayLike, axis: AxisSpec, mode: str | None
) -> AnyArray:
    """Replace negative indices by the size of the axis, to be filled, or by 0, to be clipped."""
    (dim,) = resolve_axis("take_along_axis", x, (axis,))
    name = dims_of(x)[dim]
    size = inspection.size(x, dims_of(x)[:dim].count(None) if name is None else name)
    index: AnyArray = as_array(indices)
    index = index.astype(common_type(index.dtype, jnp.int32))
    outside = jnp.asarray(0 if mode == "clip" else size, index.dtype)
    return _ELEMENTWISE["where"](index < 0, outside, index)


@operation(scope=True)
def take_along_axis(
    x: ArrayLike,
    indices: ArrayLike,
    axis: AxisSpec = -1,
    mode: str | None = None,
    fill_value: ArrayLike | None = None,
    *,
    wrap_negative_indices: bool | None = None,
) -> AnyArray:
    """Take elements of `x` along one axis, at indices that differ between elements.

    Args:
      x: an array, named or not.
      indices: integers. Along `axis` their size may differ from that of `x` (not in a mapped
        function that fixes it). If they lack `axis`, so does the result. All other axes, named and
        positional, broadcast with those of `x`.
      axis: a positional or named axis; by default -1.
      mode: the result for an index out of range: `"fill"` (default; NaN, or the least integer, or
        `fill_value`), `"clip"`, or `"promise_in_bounds"`.
      fill_value: the fill value; by default `None`.
      wrap_negative_indices: if `False`, negative indices are out of range; by default they count
        from the end.

    Communication: along a sharded axis, one all-gather of the indices and one reduce-scatter of the
    result.

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
        indices = _without_negative(x, indices, axis, mode)
    op = "take_along_axis"
    region = ambient()
    array: AnyArray = as_array(to_local(x, op, region))
    index: AnyArray = as_array(to_local(indices, op, region))
    if not jnp.issubdtype(index.dtype, jnp.integer):
        raise PositionalAxisError(f"{op}: the indices {type_text(index)} are not integers.")
    index = wide_index(index)
    axis = unwrap_single(axis, dims_of(array))
    (dim,) = resolve_axis(op, array, (axis,))
    if not is_name(axis) and array.ndim != index.ndim:
        raise PositionalAxisError(
            f"{op}: {type_text(array)} and the indices {type_text(index)} have {array.ndim} and"
            f" {index.ndim} positional axes; along a positional axis these numbers must be equal."
        )
    # Positional axes temporarily become names, so that they broadcast.
    count = max(array.ndim, index.ndim)
    stand_ins = [_Place(-1 - n) for n in range(count)][::-1]
    at = dims_of(array)[:dim].count(None) if not is_name(axis) else None
    shapes = [list(v.shape) for v in (array, index)]
    if at is not None:
        for shape in shapes:
            shape[at] = 1
    try:
        common = np.broadcast_shapes(*map(tuple, shapes))
    except ValueError:
        raise PositionalAxisError(
            f"{op}: the positional axes of {type_text(array)} and of the indices {type_text(index)}"
            " do not broadcast."
        ) from None
    target = axis if at is None else stand_ins[at]

    def stand_in(value: AnyArray) -> NamedArray:
        data, dims = value._data if isinstance(value, NamedArray) else value, dims_of(value)
        own = iter(stand_ins[count - value.ndim :])
        named = [next(own) if dim is None else dim for dim in dims]
        # An axis of size 1 broadcasts; a missing name does the same.
        ones = [
            i
            for i, dim in enumerate(named)
            if isinstance(dim, _Place)
            and dim is not target
            and data.shape[i] == 1
            and common[stand_ins.index(dim)] != 1
        ]
        data = lax.squeeze(data, ones)
        return make_in_region(data, tuple(dim for i, dim in enumerate(named) if i not in ones))

    if mode not in READ_MODES:
        raise PositionalAxisError(
            f"{op}: mode must be one of {READ_MODES}, got {format_value(mode)}."
        )
    check_fits(op, "fill_value", fill_value, array.dtype)
    source, at_index = stand_in(array), stand_in(index)
    data, dims = read_parts(
        op,
        source,
        (Part(source._dims.index(target), ARRAY),),
        [at_index],
        mode or "fill",
        fill_value,
        {},
    )
    order = [dims.index(dim) for dim in stand_ins if dim in dims]
    names = [i for i, dim in enumerate(dims) if not isinstance(dim, _Place)]
    return make_result(
        lax.transpose(data, names + order), tuple(dims[i] for i in names) + (None,) * len(order)
    )
