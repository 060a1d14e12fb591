"""The plan of a reduction: its dimensions, its mesh axes, and the dims of the result."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Hashable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from namedax.core.annotations import AnyArray, ArrayLike, AxisSpec
from namedax.core.array import NamedArray, dims_of, make_in_region
from namedax.core.display import type_text
from namedax.core.element_types import accumulate, accumulation_type
from namedax.core.names import Dims, DType
from namedax.core.padded_sharding import Uneven
from namedax.core.records import Record
from namedax.core.region import ambient, check_region_lives
from namedax.core.variance import varying
from namedax.errors import ArgumentTypeError, PositionalAxisError, check_options, format_value
from namedax.ops.operands import kernels
from namedax.ops.operands.axes import axis_key, resolve_axis
from namedax.ops.operands.broadcasting import align, make_result, to_local
from namedax.resources.exchange import Exchange
from namedax.resources.padding_masks import is_real

__all__ = ["ReductionPlan", "check_mask", "reduction_plan", "run_reduction"]


class ReductionPlan(Record):
    """One reduction: its data, the reduced axes, and their sharding.

    Attributes:
      data: the local block.
      axes: the reduced dimensions of `data`.
      named: the reduced dimensions that have names.
      mesh_axes: the mesh axes over which the reduced named axes are sharded.
      count: the global number of elements in one result.
      dims_in: the dims of `data`.
      dims: the dims of the result.
      keepdims: if `True`, positional axes remain with size 1.
      where: a mask of the shape of `data`, or `None`.
      uneven: the reduced dimensions with padding in their last blocks, with their sharding.
      is_counted: if `True`, `where` excludes more than padding, so that `count` is not the number
        of elements.
    """

    data: jax.Array
    axes: tuple[int, ...]
    named: tuple[int, ...]
    mesh_axes: tuple[str, ...]
    count: int
    dims_in: Dims
    dims: Dims
    keepdims: bool
    where: jax.Array | None
    uneven: tuple[tuple[int, Uneven], ...] = ()
    is_counted: bool = False

    @property
    def place(self) -> tuple[str, ...]:
        """Return the sharding of a single reduced axis, an `Uneven` if its blocks have padding."""
        return self.uneven[0][1] if self.uneven else self.mesh_axes

    def real(self) -> jax.Array | None:
        """Return a mask of real elements that broadcasts to `data`, or `None` without padding."""
        masks = [is_real(self.data.shape, dim, place) for dim, place in self.uneven]
        return functools.reduce(operator.and_, masks) if masks else None

    def of_real(self) -> ReductionPlan:
        """Add padding to the mask of the plan, for results without the reduced axes."""
        if not self.uneven:
            return self
        real: Any = self.real()
        mask = jnp.broadcast_to(real, self.data.shape)
        return self.replace(where=mask if self.where is None else mask & self.where)

    def exchange(self) -> Exchange | None:
        """Return an exchange of the sharded axes with a free one; `None` if there is none."""
        region = ambient()
        if not self.mesh_axes or region is None:
            return None
        places = {i: region.place(self.dims_in[i]) for i in self.named}
        return Exchange.of(self.data.shape, self.axes, places)

    def bare(self) -> ReductionPlan:
        """Drop the arrays of the plan, for differentiation rules, which outlive their trace."""
        return self.replace(data=None, where=None)

    def finish_whole(self, data: jax.Array) -> AnyArray:
        """Wrap `data` of the shape of the argument."""
        return make_result(data, self.dims_in)

    def finish(self, data: jax.Array) -> AnyArray:
        """Wrap `data`, the result of a `jnp` reduction with `axes` and `keepdims`."""
        if self.keepdims and self.named:
            data = lax.squeeze(data, self.named)
        return make_result(data, self.dims)


def reduction_plan(
    op: str,
    x: ArrayLike,
    axis: AxisSpec,
    keepdims: bool = False,
    where: ArrayLike | None = None,
    supports_padding: bool = False,
) -> ReductionPlan:
    """Resolve the axes of a reduction and their sharding.

    Args:
      op: the operation, for messages.
      x: an array, named or not.
      axis: the axes to reduce.
      keepdims: if `True`, positional axes remain with size 1; by default `False`.
      where: a mask, or `None` (default).
      supports_padding: if `True`, the operation excludes padding by `real`; by default `False`.

    Raises:
      PositionalAxisError: the mask has positional axes that `x` lacks.
      UnevenAxisError: a reduced axis has padding, and the operation does not support it.
    """
    region = ambient()
    if where is not None:
        check_mask(op, x, where)
        (data, mask), dims = align(op, x, where)
        data, mask = jnp.broadcast_arrays(data, mask)
        x = make_in_region(data, dims)
    else:
        mask = None
        x = to_local(x, op, region)
        data, dims = (
            (x._data, x._dims) if isinstance(x, NamedArray) else (jnp.asarray(x), dims_of(x))
        )
    if jnp.issubdtype(data.dtype, jax.dtypes.prng_key):
        raise ArgumentTypeError(
            f"{op}: {type_text(x)} is an array of random keys, which have no order and no sum."
            " Reduce the numbers drawn with them, or their words, nx.random.key_data(keys)."
        )
    axes = resolve_axis(op, x, axis)
    named = tuple([i for i in axes if dims[i] is not None])
    if (
        region is None
        and named
        and isinstance(data, jax.core.Tracer)
        and (variance := varying(data))
    ):
        for i in named:
            check_region_lives(op, dims[i], variance)
    mesh_axes: tuple[str, ...] = ()
    uneven: tuple[tuple[int, Uneven], ...] = ()
    if region is not None and region.manual:
        places = [
            (i, region.place(dims[i]) if supports_padding else region.placement(dims[i]))
            for i in named
        ]
        mesh_axes = tuple(mesh_axis for _, place in places for mesh_axis in place)
        uneven = tuple((i, place) for i, place in places if isinstance(place, Uneven))
    sizes = [
        data.shape[i]
        if region is None or dims[i] is None
        else region.global_size(dims[i], data.shape[i])
        for i in axes
    ]
    count = math.prod(sizes)
    out = tuple([dim for i, dim in enumerate(dims) if i not in axes or (keepdims and dim is None)])
    return ReductionPlan(
        data, axes, named, mesh_axes, count, dims, out, keepdims, mask, uneven, mask is not None
    )


def check_mask(op: str, x: ArrayLike, where: ArrayLike) -> None:
    """Raise if a mask has positional axes that the array lacks: it would repeat the array.

    By name it broadcasts.

    Raises:
      PositionalAxisError: the mask has such axes.
    """
    own, mask = (_positional_shape(value) for value in (x, where))
    fits = len(mask) <= len(own) and all(
        n in (1, of_x) for n, of_x in zip(mask[::-1], own[::-1], strict=False)
    )
    if fits:
        return
    names = _names_that_fit(x, mask)
    remedy = f" Name the mask: nx.named(mask, {format_value(names)})." if names else ""
    raise PositionalAxisError(
        f"{op}: where= is {type_text(where)}, which does not broadcast to the positional axes of"
        f" {type_text(x)}.{remedy}"
    )


def _positional_shape(x: ArrayLike) -> tuple[int, ...]:
    shape = np.shape(x._data if isinstance(x, NamedArray) else x)
    return tuple(n for n, dim in zip(shape, dims_of(x), strict=True) if dim is None)


def _names_that_fit(x: ArrayLike, shape: tuple[int, ...]) -> list[Hashable]:
    """Return axis names of the array for axes of these sizes, or none if a size fits no axis."""
    names: list[Hashable] = []
    sizes = dict(x.named_shape) if isinstance(x, NamedArray) else {}
    for n in shape:
        fitting = [dim for dim, size in sizes.items() if size == n and dim not in names]
        if not fitting:
            return []
        names.append(fitting[0])
    return names


def run_reduction(
    op: str,
    reduce: Callable[..., Any],
    x: ArrayLike,
    axis: AxisSpec,
    keepdims: bool,
    where: ArrayLike | None,
    *static: object,
    dtype: DType | None = None,
    initial: ArrayLike | None = None,
) -> AnyArray:
    """Run one reduction, in the accumulation type of the elements.

    `reduce(plan, *static, initial, dtype=dtype)` returns the reduced data, with `keepdims` as in
    the plan; it receives `initial` and `dtype` only if the caller passed them.
    """
    try:
        hash((keepdims, dtype, static))
    except TypeError:
        check_options(
            op, keepdims=keepdims, dtype=dtype, **dict(zip(("ddof",), static, strict=False))
        )
    operands = [x]
    if where is not None:
        operands.append(where)
    if initial is not None:
        operands.append(initial)
    given = (reduce, keepdims, where is not None, initial is not None, dtype, *static)
    axes = axis if type(axis) is str else axis_key(op, axis)
    return kernels.run(op, _reduce, axes, given, *operands, only_axes=True)


def _reduce(
    op: str,
    axis: AxisSpec,
    reduce: Callable[..., Any],
    keepdims: bool,
    has_mask: bool,
    has_initial: bool,
    dtype: DType | None,
    *more: Any,
) -> AnyArray:
    """Run `reduce` on a plan; `more` has its further arguments, then the operands."""
    count = len(more) - 1 - has_mask - has_initial
    static, x, others = more[:count], more[count], more[count + 1 :]
    plan = reduction_plan(
        op, x, axis, keepdims, others[0] if has_mask else None, supports_padding=True
    )
    if plan.uneven:
        plan = plan.of_real()
    if dtype is None and accumulation_type(plan.data.dtype) == plan.data.dtype:
        return plan.finish(reduce(plan, *static, *others[has_mask:]))

    def of(data: jax.Array, dtype: DType | None) -> jax.Array:
        options = {} if dtype is None else {"dtype": dtype}
        return reduce(plan.replace(data=data), *static, *others[has_mask:], **options)

    return plan.finish(accumulate(op, of, plan.data, dtype))
