"""Sorting arrays together, by keys: `sort_by`, `jax.lax.sort` and `jax.lax.sort_key_val`."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
from jax import lax

from namedax.core.annotations import AnyArray, ArrayLike, AxisSpec
from namedax.core.array import NamedArray, dims_of, is_named, make_in_region
from namedax.core.display import type_text
from namedax.core.names import Dims, PyTree
from namedax.core.variance import cast_data, varying
from namedax.errors import ArgumentError, AxisNotFoundError
from namedax.ops.operands.along_axes import along_axes, checks_axes, names_in
from namedax.ops.operands.broadcasting import align, align_ranks, make_result
from namedax.ops.operands.operation import operation
from namedax.ops.reduction.cumulative import plan_of_one_axis
from namedax.ops.sorting.network import global_positions, run_complete, sort_together
from namedax.ops.sorting.sorting import sort

__all__ = ["lax_sort", "lax_sort_key_val", "sort_by"]

T = TypeVar("T", bound=PyTree)


@operation(scope=True, on_blocks=True)
def sort_by(
    x: T,
    key: ArrayLike | Sequence[ArrayLike],
    axis: AxisSpec = -1,
    *,
    descending: bool = False,
) -> T:
    """Sort arrays along one axis by a key, and keep elements with equal keys in order.

    Args:
      x: a pytree of arrays with the axis, named or not. Their other axes align with those of the
        key by name; an array may have more, and gets those that it lacks.
      key: an array, or a sequence of arrays that decide in this order, the first one first.
      axis: a positional or named axis, by default -1.
      descending: if `True`, sort from the largest key (and NaN), with ties still in order; by
        default `False`.

    Returns:
      A pytree as `x`. Gradients are those of the permutation; the key has none.

    Communication: along a sharded axis, an all-to-all of the blocks of the keys and of `x`, and one
    of `x` back, if the keys have another axis whose block divides over the devices. Otherwise the
    blocks of the keys, of the indices and of `x` in each step of `nx.sort`: the axis is never
    gathered. The gradient sends the blocks of `x` back in the same steps.

    Raises:
      AxisNotFoundError: a key or an array of `x` lacks the axis.
      ArgumentError: `key` is an empty sequence.

    >>> import jax.numpy as jnp, namedax as nx
    >>> scores = nx.named(jnp.array([0.3, 0.9, 0.5]), ["item"])
    >>> items = {"id": nx.named(jnp.array([10, 11, 12]), ["item"])}
    >>> nx.sort_by(items, scores, "item", descending=True)["id"].data
    Array([11, 12, 10], dtype=int32)
    """
    keys: list[Any] = list(key) if isinstance(key, (tuple, list)) else [key]
    if not keys:
        raise ArgumentError("sort_by: needs at least one key; got none.")
    datas, dims = align("sort_by", *keys)
    datas = [lax.stop_gradient(data) for data in jnp.broadcast_arrays(*datas)]
    of_keys = make_in_region(datas[0], dims) if set(dims) - {None} else datas[0]
    plan = plan_of_one_axis("sort_by", of_keys, axis, supports_padding=True)
    leaves, tree = jax.tree.flatten(x, is_leaf=is_named)
    rows = [_Rows.of(leaf, of_keys, axis) for leaf in leaves]
    (dim,), count = plan.axes, len(datas)

    def of_complete(*datas: jax.Array) -> list[jax.Array]:
        return sort_together(datas[:count], datas[count:], dim, descending)[count:]

    def of_blocks(*datas: jax.Array) -> list[jax.Array]:
        index = global_positions(plan, jnp.int32)
        operands = datas[:count], datas[count:]
        return sort_together(*operands, dim, descending, plan.place, index)[count:]

    blocks = (*datas, *[each.data for each in rows])
    ordered = run_complete(plan, plan.exchange(), of_complete, of_blocks, *blocks)
    return jax.tree.unflatten(
        tree, [each.result(data) for each, data in zip(rows, ordered, strict=True)]
    )


class _Rows:
    """The data of an array, with the dimensions of the keys in front.

    Attributes:
      data: the data.
      dims: the dims of the result.
      order: the dimensions of the result, in the order of `data`.
    """

    def __init__(self, data: jax.Array, dims: Dims, order: Sequence[int]):
        self.data, self.dims, self.order = lax.transpose(data, order), dims, order

    @classmethod
    def of(cls, leaf: ArrayLike, of_keys: ArrayLike, axis: AxisSpec) -> _Rows:
        if names_in(axis) and axis not in dims_of(leaf):
            raise AxisNotFoundError(
                f"sort_by: {type_text(leaf)} lacks the sorted axis {axis!r}. Only arrays with the"
                " axis can be sorted; leave the others out of x."
            )
        (data, like), dims, shape = align_ranks("sort_by", leaf, of_keys)
        of_key = dims_of(of_keys)
        positions = [i for i, dim in enumerate(dims) if dim is None]
        own = iter(positions[len(positions) - of_key.count(None) :])
        front = [next(own) if dim is None else dims.index(dim) for dim in of_key]
        behind = [i for i in range(len(dims)) if i not in front]
        sizes = [shape[i] if i in front else data.shape[i] for i in range(len(dims))]
        data = cast_data(data, varying(like))
        return cls(jnp.broadcast_to(data, sizes), dims, [*front, *behind])

    def result(self, data: jax.Array) -> AnyArray:
        back = sorted(range(len(self.order)), key=self.order.__getitem__)
        return make_result(lax.transpose(data, back), self.dims)


_positional_sort = along_axes(lax.sort, "sort", ("dimension",))


@functools.partial(checks_axes, name="sort")
def lax_sort(
    operand: PyTree, dimension: AxisSpec = -1, is_stable: bool = True, num_keys: int = 1
) -> PyTree:
    """Sort along a positional or named axis, as `jax.lax.sort`.

    Args:
      operand: an array, named or not, or a tuple of them, which are sorted together.
      dimension: a positional or named axis; by default -1.
      is_stable: if `True` (default), equal elements keep their order.
      num_keys: the number of arrays of a tuple that are keys; by default 1.

    Communication: one array along a sharded axis is sorted as by `nx.sort`, several as by
    `nx.sort_by`.

    Raises:
      AxisNotFoundError: `operand` lacks the name.
    """
    if not names_in(dimension):
        return _positional_sort(operand, dimension, is_stable, num_keys)
    if isinstance(operand, NamedArray):
        return sort(operand, dimension, stable=is_stable)
    operands = list(operand)
    if not 1 <= num_keys <= len(operands):
        return _positional_sort(operand, dimension, is_stable, num_keys)  # raises JAX's error
    datas, dims = align("sort", *operands)
    datas = list(jnp.broadcast_arrays(*datas))
    first = make_in_region(datas[0], dims)
    plan = plan_of_one_axis("sort", first, dimension, supports_padding=True)
    (dim,) = plan.axes

    def of_complete(*datas: jax.Array) -> list[jax.Array]:
        return list(lax.sort(datas, dim, is_stable, num_keys))

    def of_blocks(*datas: jax.Array) -> list[jax.Array]:
        index = global_positions(plan, jnp.int32) if is_stable else None
        return sort_together(datas[:num_keys], datas[num_keys:], dim, False, plan.place, index)

    results = run_complete(plan, plan.exchange(), of_complete, of_blocks, *datas)
    return tuple(make_result(result, dims) for result in results)


@functools.partial(checks_axes, name="sort_key_val")
def lax_sort_key_val(
    keys: ArrayLike, values: ArrayLike, dimension: AxisSpec = -1, is_stable: bool = True
) -> tuple[AnyArray, AnyArray]:
    """Sort keys along a positional or named axis, and values with them, as `lax.sort_key_val`.

    Args:
      keys: an array, named or not.
      values: an array with the same axes.
      dimension: a positional or named axis; by default -1.
      is_stable: if `True` (default), equal keys keep their order.

    Communication: along a sharded axis, as for `nx.sort_by`.

    Raises:
      AxisNotFoundError: `keys` lacks the name.
    """
    return lax_sort((keys, values), dimension, is_stable, 1)
