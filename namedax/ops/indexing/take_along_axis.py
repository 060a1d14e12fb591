"""`take_along_axis`: reads along an axis at indices that differ between elements."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from namedax.core.array import NamedArray, dims_of, make_in_region
from namedax.core.display import type_text
from namedax.core.element_types import check_fits
from namedax.core.names import is_name
from namedax.core.region import ambient
from namedax.errors import PositionalAxisError, format_value
from namedax.operands.axes import resolve_axis, unwrap_single
from namedax.operands.broadcasting import make_result, to_local
from namedax.operands.operation import operation
from namedax.operands.pytree import wide_index
from namedax.ops.indexing.getitem import read_parts
from namedax.ops.indexing.parts import ARRAY, READ_MODES, Part, StandIn

__all__ = ["take_along_axis"]


class _Place(StandIn):
    """A temporary name for a positional axis."""


@operation(scope=True)
def take_along_axis(
    x: Any, indices: Any, axis: Any = -1, mode: str | None = None, fill_value: Any = None
) -> Any:
    """Take elements along an axis at indices that differ between elements; negative indices count from the end."""
    op = "take_along_axis"
    region = ambient()
    x, indices = to_local(x, op, region), to_local(indices, op, region)
    x, indices = (v if isinstance(v, NamedArray) else jnp.asarray(v) for v in (x, indices))
    if not jnp.issubdtype(indices.dtype, jnp.integer):
        raise PositionalAxisError(f"{op}: the indices {type_text(indices)} are not integers.")
    indices = wide_index(indices)
    axis = unwrap_single(axis, dims_of(x))
    (dim,) = resolve_axis(op, x, (axis,))
    if not is_name(axis) and x.ndim != indices.ndim:
        raise PositionalAxisError(
            f"{op}: {type_text(x)} and the indices {type_text(indices)} have {x.ndim} and"
            f" {indices.ndim} positional axes; along a positional axis these numbers must be equal."
        )
    # Positional axes temporarily become names, so that they broadcast.
    count = max(x.ndim, indices.ndim)
    stand_ins = [_Place(-1 - n) for n in range(count)][::-1]
    at = dims_of(x)[:dim].count(None) if not is_name(axis) else None
    shapes = [list(v.shape) for v in (x, indices)]
    if at is not None:
        for shape in shapes:
            shape[at] = 1
    try:
        common = np.broadcast_shapes(*map(tuple, shapes))
    except ValueError:
        raise PositionalAxisError(
            f"{op}: the positional axes of {type_text(x)} and of the indices {type_text(indices)}"
            " do not broadcast."
        ) from None
    target = axis if at is None else stand_ins[at]

    def stand_in(value: Any) -> NamedArray:
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
    check_fits(op, "fill_value", fill_value, x.dtype)
    x, indices = stand_in(x), stand_in(indices)
    data, dims = read_parts(
        op, x, (Part(x._dims.index(target), ARRAY),), [indices], mode or "fill", fill_value, {}
    )
    order = [dims.index(dim) for dim in stand_ins if dim in dims]
    names = [i for i, dim in enumerate(dims) if not isinstance(dim, _Place)]
    return make_result(
        lax.transpose(data, names + order), tuple(dims[i] for i in names) + (None,) * len(order)
    )
