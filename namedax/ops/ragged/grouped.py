"""Contraction of every token with the weights of its own group.

Experts without capacity are an example. On a device the tokens are sorted by group, and
`jax.lax.ragged_dot` contracts each contiguous stretch with the weights of its group. No weights are
repeated per token, no token is dropped, and there are no slots. A device counts its own tokens of
each group, so that a block of sharded tokens may begin anywhere within a group.

The communication depends on the sharding of the groups; see `grouped_dot`.
`multiply_elsewhere` sends tokens to the devices that have their weights.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import AxisType, Mesh, PartitionSpec

from namedax.core.annotations import AnyArray, ArrayLike, AxisSpec
from namedax.core.array import NamedArray, as_array, dims_of
from namedax.core.display import type_text
from namedax.core.names import Dims, MeshAxes, is_name
from namedax.core.records import Record
from namedax.core.region import Region, ambient
from namedax.core.variance import cast, cast_data, varying
from namedax.errors import (
    ArgumentTypeError,
    AxisNameError,
    AxisSizeError,
    PositionalAxisError,
    format_value,
    raise_not_found,
)
from namedax.ops.operands.broadcasting import make_result, to_local
from namedax.ops.operands.operation import operation
from namedax.ops.operands.pytree import wide_index
from namedax.ops.sorting.sorting import search
from namedax.resources import communication as comm
from namedax.resources.mesh import replicated
from namedax.resources.padding_masks import masked
from namedax.resources.serial import LoopAxis

__all__ = [
    "contract_by_group",
    "grouped_dot",
    "multiply_elsewhere",
    "supports_exchange",
    "supports_ragged_all_to_all",
    "undo_order",
]


_OP = "grouped_dot"


@operation(scope=True)
def grouped_dot(
    x: ArrayLike, w: ArrayLike, axis: AxisSpec, *, groups: ArrayLike, group: Hashable
) -> AnyArray:
    """Contract every token with the weights of its group, by `jax.lax.ragged_dot`.

    Equals `nx.dot(x, nx.take(w, groups, group), axis)`, without an array of weights for every
    token.

    Args:
      x: a named array: the tokens, with the axes of `groups` and with `axis`.
      w: a named array: the weights, with `group` and with `axis`. Its other axes are axes of the
        result; an axis that `x` has too (heads) is a batch axis.
      axis: the contracted axis names, one or a tuple.
      groups: integers, with axes of `x`: the group of every token. A number out of range belongs to
        no group: the result is zero there, and so is the gradient.
      group: the axis name of the groups in `w`.

    Returns:
      An array with the axes of `x`, and the axes of `w` alone in place of `axis`.

    Communication: it depends on the mesh axes of the groups.

    - No mesh axes, for any sharding of tokens: none, and in the gradient one reduction of the
      weights' gradient.
    - Mesh axes along which the tokens are replicated: one all-reduce of the result.
    - Mesh axes of the tokens: the cheaper of two ways. Either the weights of all groups are
      gathered, and their gradient is reduce-scattered. Or all tokens are gathered, and their
      results are reduce-scattered. On GPUs and TPUs, tokens are instead sent by
      `jax.lax.ragged_all_to_all`, each only to the device of its group; CPUs have no such
      collective.

    A sharded contracted axis costs one all-reduce of the result. There is no forward mode; reverse
    mode is of any order.

    Raises:
      AxisNotFoundError: an array lacks an axis.
      AxisNameError: an axis occurs in an array that must not have it.
      AxisSizeError: an axis has two sizes.
      ArgumentTypeError: the groups are not integers.
      PositionalAxisError: an array has positional axes.
      PlacementConflictError: two axes of the result are sharded over one mesh axis.

    >>> import jax.numpy as jnp, namedax as nx
    >>> x = nx.named(jnp.ones((4, 2)), ["token", "embed"])
    >>> w = nx.named(jnp.arange(12.0).reshape(3, 2, 2), ["expert", "embed", "out"])
    >>> expert = nx.named(jnp.array([2, 0, 3, 2]), ["token"])
    >>> y = nx.nn.grouped_dot(x, w, "embed", groups=expert, group="expert")
    >>> nx.positional(y, ["token", "out"]).tolist()
    [[18.0, 20.0], [2.0, 4.0], [0.0, 0.0], [18.0, 20.0]]
    """
    return contract_by_group(x, w, axis, groups, group, False)


def contract_by_group(
    x: ArrayLike, w: ArrayLike, axis: AxisSpec, groups: ArrayLike, group: Hashable, is_sorted: bool
) -> AnyArray:
    """Apply `grouped_dot`.

    `is_sorted` is true for groups in order and in range along their one axis, which saves the sort.
    """
    region = ambient()
    blocks: list[Any] = [as_array(to_local(as_array(a), _OP, region)) for a in (x, w, groups)]
    tokens, weights, numbers = blocks
    names = _Names.of(tokens, weights, numbers, axis, group)
    names.check_sizes(*blocks)
    return _Contraction(tokens, weights, numbers, names, is_sorted).run()


class _Names(Record):
    """The roles of the axes.

    `tokens` are the axes of `x` alone that are not contracted, `out` the axes of `w` alone.
    """

    batch: tuple[Hashable, ...]
    tokens: tuple[Hashable, ...]
    contracted: tuple[Hashable, ...]
    out: tuple[Hashable, ...]
    group: Hashable

    @classmethod
    def of(
        cls, x: AnyArray, w: AnyArray, groups: AnyArray, axis: AxisSpec, group: Hashable
    ) -> _Names:
        for what, array in (("x", x), ("w", w), ("groups", groups)):
            if None in dims_of(array):
                raise PositionalAxisError(
                    f"{_OP}: {what}, {type_text(array)}, must have named axes only. Name the others"
                    " with nx.named."
                )
        if not jnp.issubdtype(groups.dtype, jnp.integer):
            raise ArgumentTypeError(
                f"{_OP}: groups must contain integers, got {type_text(groups)}."
            )
        of_x, of_w, of_groups = dims_of(x), dims_of(w), dims_of(groups)
        contracted = tuple(axis) if isinstance(axis, (tuple, list)) else (axis,)
        for what, array, wanted in (
            ("x", x, contracted),
            ("w", w, (*contracted, group)),
            ("x", x, of_groups),
        ):
            for name in wanted:
                if name not in dims_of(array) or name is None:
                    raise_not_found(_OP, name, f"{what}, {type_text(array)}", [*dims_of(array)])
        if not is_name(group) or group in of_x:
            raise AxisNameError(
                f"{_OP}: group={format_value(group)} names the groups of the weights, but x,"
                f" {type_text(x)}, also has this axis. The group of each token is in groups=;"
                " rename the axis of x."
            )
        for name in contracted:
            if name in of_groups:
                raise AxisNameError(
                    f"{_OP}: groups, {type_text(groups)}, has the contracted axis {name!r}, but a"
                    " token has one group. Rename it."
                )
        batch = tuple(name for name in of_x if name in of_w and name not in contracted)
        tokens = tuple(name for name in of_x if name not in of_w)
        out = tuple(name for name in of_w if name not in of_x and name != group)
        return cls(batch, tokens, contracted, out, group)

    def check_sizes(self, *arrays: NamedArray) -> None:
        """Raise if an axis has two sizes."""
        known: dict[Hashable, tuple[int, NamedArray]] = {}
        for array in arrays:
            for name, n in array.named_shape.items():
                size, first = known.setdefault(name, (n, array))
                if size != n:
                    raise AxisSizeError(
                        f"{_OP}: axis {name!r} has size {size} in {type_text(first)} and {n} in"
                        f" {type_text(array)}; a name has one size."
                    )


class _Contraction:
    """One call on `x[batch, tokens, k]`, `w[batch, groups, k, out]` and `ids[batch, tokens]`."""

    def __init__(
        self, x: NamedArray, w: NamedArray, groups: NamedArray, names: _Names, is_sorted: bool
    ):
        self.names, self.region = names, ambient()
        region, n = self.region, names
        if region is not None and region.resources:
            region.check_placement(_OP, (*n.batch, *n.tokens, *n.out))
            region.check_placement(_OP, (n.group, *n.batch, *n.contracted, *n.out))
        self.of_groups = self.place((n.group,))
        self.of_tokens = self.place(n.tokens)
        self.of_contracted = self.place(n.contracted)
        self.is_sorted = (
            is_sorted and not self.of_groups and len(n.tokens) == 1 and n.tokens == dims_of(groups)
        )
        everywhere = self.place((*n.batch, *n.tokens, *n.contracted, *n.out, n.group))
        common = frozenset(everywhere).union(*(varying(a._data) for a in (x, w, groups)))
        x_data = self.real(cast(x, common), dims_of(x))
        w_data = self.real(cast(w, common), dims_of(w))
        ids = cast_data(groups._data, common)
        dtype = jnp.result_type(x_data, w_data)
        self.dims = dims_of(x)
        rows = [x_data.shape[dims_of(x).index(name)] for name in (*n.batch, *n.tokens)]
        self.row_shape = tuple(rows)
        self.out_shape = tuple(w_data.shape[dims_of(w).index(name)] for name in n.out)
        width = math.prod(x_data.shape[dims_of(x).index(name)] for name in n.contracted)
        batch = math.prod(rows[: len(n.batch)])
        self.count = w.named_shape[n.group]
        tokens = math.prod(rows[len(n.batch) :])
        in_order = _ordered(x_data, dims_of(x), (*n.batch, *n.tokens, *n.contracted))
        self.x = in_order.reshape(batch, tokens, width).astype(dtype)
        here = w_data.shape[dims_of(w).index(n.group)]
        in_order = _ordered(w_data, dims_of(w), (*n.batch, n.group, *n.contracted, *n.out))
        self.w = in_order.reshape(batch, here, width, math.prod(self.out_shape)).astype(dtype)
        own = [name for name in (*n.batch, *n.tokens) if name in dims_of(groups)]
        ids = _ordered(ids, dims_of(groups), own)
        missing = [i for i, name in enumerate((*n.batch, *n.tokens)) if name not in own]
        ids = lax.expand_dims(ids, missing)
        ids = wide_index(jnp.broadcast_to(ids, rows).reshape(batch, tokens))
        # A number after all groups (including padding), so at least the number of groups on all
        # devices.
        self.none = here * (1 if region is None else region.mesh_axis_size(self.of_groups))
        self.ids = jnp.where((ids >= 0) & (ids < self.count), ids, self.none).astype(jnp.int32)

    def place(self, names: tuple[Hashable, ...]) -> MeshAxes:
        """Return the mesh axes over which these axes are sharded.

        Padding of tokens acts as tokens with zero cotangents.
        """
        region = self.region
        return (
            () if region is None else tuple(axis for name in names for axis in region.place(name))
        )

    def real(self, data: jax.Array, dims: Dims) -> jax.Array:
        """Fill the padding of contracted axes of an operand with zeros."""
        if self.region is not None:
            for name in self.names.contracted:
                data = masked(data, dims.index(name), self.region.place(name), 0)
        return data

    def run(self) -> AnyArray:
        """Compute the result, with the names in the order of `x`."""
        shared = tuple(axis for axis in self.of_groups if axis in self.of_tokens)
        own = tuple(axis for axis in self.of_groups if axis not in self.of_tokens)
        if not shared:
            result = self.multiply(self.x, self.w, self._among_own(self.ids), self.is_sorted)
        elif not own and (
            self._weights_are_less(shared) or any(isinstance(axis, LoopAxis) for axis in shared)
        ):
            whole = comm.all_gather(self.w, 1, self.of_groups, "varying")
            result = self.multiply(self.x, whole, self.ids, False)
        else:
            result = self._exchange_tokens(shared)
        if own or self.of_contracted:
            result = comm.psum(result, (*own, *self.of_contracted))
        n = self.names
        have = (*n.batch, *n.tokens, *n.out)
        data = result.reshape(*self.row_shape, *self.out_shape)
        order = [name for name in self.dims if name in have]
        order += [name for name in n.out if name not in order]
        return make_result(_ordered(data, have, order), tuple(order))

    def _weights_are_less(self, shared: MeshAxes) -> bool:
        """Return True if it sends less to gather the weights than the tokens.

        The results of gathered tokens are reduce-scattered.
        """
        width, out = self.w.shape[2:]
        return self.w.size <= self.x.shape[0] * self.x.shape[1] * (width + out)

    def _exchange_tokens(self, shared: MeshAxes) -> jax.Array:
        """Send tokens to the devices that have their weights, and the results back."""
        here = self.w.shape[1]
        is_single = shared == self.of_groups and self.x.shape[0] == 1
        if is_single and supports_exchange(self.region, shared):

            def multiply(rows: jax.Array, ids: jax.Array) -> jax.Array:
                return self.multiply(rows[None], self.w, ids[None], False)[0]

            return multiply_elsewhere(self.x[0], self.ids[0], here, shared, multiply)[None]
        x, ids = (comm.all_gather(data, 1, shared, "varying") for data in (self.x, self.ids))
        result = self.multiply(x, self.w, self._among_own(ids), False)
        return comm.psum_scatter(result, 1, shared)

    def _among_own(self, ids: jax.Array) -> jax.Array:
        """Convert numbers of groups to numbers among this device's groups.

        Other groups become this device's number of groups.
        """
        if not self.of_groups:
            return ids
        here = self.w.shape[1]
        ids = ids - comm.block_index(self.of_groups).astype(ids.dtype) * here
        return jnp.where((ids >= 0) & (ids < here), ids, here)

    @staticmethod
    def multiply(x: jax.Array, w: jax.Array, ids: jax.Array, is_sorted: bool) -> jax.Array:
        """Multiply on this device, with separate groups for each batch."""
        batch, tokens, width = x.shape
        here, out = w.shape[1], w.shape[3]
        first = here * lax.broadcasted_iota(ids.dtype, ids.shape, 0)
        numbers = jnp.where(ids < here, ids + first, batch * here)
        flat = (
            x.reshape(batch * tokens, width),
            w.reshape(batch * here, width, out),
            numbers.reshape(-1),
        )
        return multiply_groups(*flat, is_sorted and batch == 1).reshape(batch, tokens, out)


def multiply_groups(x: jax.Array, w: jax.Array, ids: jax.Array, is_sorted: bool) -> jax.Array:
    """Compute `x[t] @ w[ids[t]]`, and zeros if `ids` is the number of groups.

    Args:
      x: `[tokens, k]`.
      w: `[groups, k, out]`.
      ids: numbers from 0 to the number of groups.
      is_sorted: `True` if they are in order.
    """
    tokens, count = x.shape[0], w.shape[0]
    if not x.size or not w.size:
        return cast_data(jnp.zeros((tokens, w.shape[2]), x.dtype), varying(x) | varying(w))
    x, w, ids = map(replicated, (x, w, ids))
    if not is_sorted:
        order = jnp.argsort(ids, stable=True)
        x, ids = (jnp.take(a, order, axis=0, mode="clip", unique_indices=True) for a in (x, ids))
    bounds = search(
        ids, cast_data(jnp.arange(count + 1, dtype=ids.dtype), varying(ids)), "left"
    ).astype(jnp.int32)
    is_real = (jnp.arange(tokens, dtype=bounds.dtype) < bounds[count])[:, None]
    # After the last group a backend may compute anything: masked before, for the weights' gradient,
    # and afterwards.
    x = jnp.where(is_real, x, jnp.zeros((), x.dtype))
    result = jnp.where(is_real, _ragged_dot(x, w, jnp.diff(bounds)), jnp.zeros((), x.dtype))
    return result if is_sorted else undo_order(result, order)


# --- with derivatives, and vectorized -------------------------------------------------------------

_FORWARDS = lax.RaggedDotDimensionNumbers((((1,), (1,)), ((), ())), [0], [0])
_OUTER = lax.RaggedDotDimensionNumbers((((0,), (0,)), ((), ())), [0], [])


def _with_batches(numbers: lax.RaggedDotDimensionNumbers) -> Callable[..., Any]:
    """Build the contraction with a batching rule that adds groups.

    JAX's own rule supports neither two batches nor some operands.
    """

    @jax.custom_batching.custom_vmap
    def run(x: jax.Array, y: jax.Array, sizes: jax.Array) -> jax.Array:
        if AxisType.Explicit not in jax.sharding.get_abstract_mesh().axis_types:
            return lax.ragged_dot_general(x, y, sizes, numbers)
        # JAX does not infer the sharding of the result.
        spec = PartitionSpec(*[None] * (3 if numbers is _OUTER else 2))
        x, y, sizes = map(replicated, (x, y, sizes))
        return lax.ragged_dot_general(x, y, sizes, numbers, out_sharding=spec)

    @run.def_vmap
    def of_batches(n: int, batched: Sequence[bool], *operands: jax.Array) -> tuple[jax.Array, bool]:
        x, y, sizes = (
            a if is_batched else jnp.broadcast_to(a, (n, *a.shape))
            for a, is_batched in zip(operands, batched, strict=True)
        )
        # The rows after the groups of one batch form a group, too.
        sizes = jnp.concatenate(
            [sizes, x.shape[1] - jnp.sum(sizes, 1, keepdims=True, dtype=sizes.dtype)], 1
        )
        if numbers is _FORWARDS:
            y = jnp.concatenate([y, jnp.zeros_like(y[:, :1])], 1)
        x, y = (a.reshape(-1, *a.shape[2:]) for a in (x, y))
        result = run(x, y, sizes.reshape(-1))
        result = result.reshape(n, -1, *result.shape[1:])
        return (result[:, :-1] if numbers is _OUTER else result), True

    return run


_run_dot, _run_outer = _with_batches(_FORWARDS), _with_batches(_OUTER)


@jax.custom_vjp
def _ragged_dot(x: jax.Array, w: jax.Array, sizes: jax.Array) -> jax.Array:
    """Compute `x[t] @ w[g]` for the tokens of each group, which are contiguous."""
    return _run_dot(x, w, sizes)


@jax.custom_vjp
def _outer(x: jax.Array, y: jax.Array, sizes: jax.Array) -> jax.Array:
    """Sum the outer products of `x[t]` and `y[t]` by group: `[groups, k, out]`."""
    return _run_outer(x, y, sizes)


def _save(function: Callable[..., jax.Array]) -> Callable[..., Any]:
    return lambda *operands: (function(*operands), operands)


def _of_dot(
    saved: tuple[jax.Array, jax.Array, jax.Array], cotangent: jax.Array
) -> tuple[jax.Array, jax.Array, None]:
    x, w, sizes = saved
    return _ragged_dot(cotangent, jnp.swapaxes(w, 1, 2), sizes), _outer(x, cotangent, sizes), None


def _of_outer(
    saved: tuple[jax.Array, jax.Array, jax.Array], cotangent: jax.Array
) -> tuple[jax.Array, jax.Array, None]:
    x, y, sizes = saved
    return (
        _ragged_dot(y, jnp.swapaxes(cotangent, 1, 2), sizes),
        _ragged_dot(x, cotangent, sizes),
        None,
    )


_ragged_dot.defvjp(_save(_ragged_dot), _of_dot)
_outer.defvjp(_save(_outer), _of_outer)


def _ordered(data: jax.Array, dims: Dims, order: Sequence[Hashable]) -> jax.Array:
    return lax.transpose(data, [dims.index(name) for name in order])


FUNCTIONS: dict[str, Callable[..., AnyArray]] = {"grouped_dot": grouped_dot}


# --- transfer of tokens to the devices with the weights of their groups, an -----------------------
# That collective requires four offsets and sizes for each other device. They all follow from one
# small gathered table: the number of tokens that each device has for each other one. GPUs and TPUs
# support the collective; elsewhere tokens are gathered, and results reduce-scattered (`grouped`).


def supports_ragged_all_to_all(platform: str) -> bool:
    """Return True if devices of a platform support `ragged_all_to_all`."""
    return platform in ("gpu", "tpu")


def supports_exchange(region: Region | None, axes: MeshAxes) -> bool:
    """Return True if tokens can be exchanged along these mesh axes.

    It needs a single mesh axis, of devices with the collective.
    """
    mesh = None if region is None else region.mesh
    if not isinstance(mesh, Mesh) or len(axes) != 1 or isinstance(axes[0], LoopAxis):
        return False
    return supports_ragged_all_to_all(mesh.devices.flat[0].platform)


def multiply_elsewhere(
    rows: jax.Array,
    ids: jax.Array,
    here: int,
    axes: MeshAxes,
    multiply: Callable[[jax.Array, jax.Array], jax.Array],
) -> jax.Array:
    """Compute `multiply(rows, ids)` on the devices that have the groups, `here` on each.

    Args:
      rows: the tokens of this device, `[tokens, k]`.
      ids: the number of each token's group, among all groups; the number of all groups for none.
      here: the number of groups on a device.
      axes: the single mesh axis of groups and tokens.
      multiply: a function of tokens and the numbers of their groups among the groups of the device,
        `here` for none.
    """
    devices = lax.axis_size(axes[0])
    order = jnp.argsort(ids, stable=True)
    rows, ids = (jnp.take(a, order, axis=0, mode="clip", unique_indices=True) for a in (rows, ids))
    variance = varying(rows) | varying(ids) | frozenset(axes)
    edges = jnp.arange(devices, dtype=ids.dtype) * here
    owner = (ids[:, None] >= edges[None]) & (ids[:, None] < edges[None] + here)
    sent = jnp.sum(owner, 0, dtype=jnp.int32)
    table = comm.all_gather(sent[None], 0, axes, "varying")  # from sender, to receiver
    route = _Route(table, axes, cast_data(jnp.zeros((), jnp.int32), variance))
    buffer = rows.shape[0] * devices
    arrived = route.send(rows, buffer)
    numbers = _exchange(ids + 1, buffer, route.there, axes)  # an unused row of the buffer has 0
    own = numbers - 1 - comm.block_index(axes).astype(ids.dtype) * here
    results = multiply(arrived, jnp.where((numbers > 0) & (own >= 0) & (own < here), own, here))
    back = route.back(results, rows.shape[0])
    tokens = jnp.arange(rows.shape[0], dtype=jnp.int32)
    back = jnp.where((tokens < jnp.sum(sent))[:, None], back, jnp.zeros((), back.dtype))
    return undo_order(back, order)


def undo_order(rows: jax.Array, order: jax.Array) -> jax.Array:
    """Reverse the permutation of rows that were taken in `order`."""
    numbers = cast_data(jnp.arange(order.size, dtype=order.dtype), varying(order))
    place = (
        jnp.zeros_like(order).at[order].set(numbers, unique_indices=True, mode="promise_in_bounds")
    )
    return jnp.take(rows, place, axis=0, mode="clip", unique_indices=True)


#: Input offsets, send sizes, output offsets and receive sizes of a transfer.
Transfers = tuple[jax.Array, jax.Array, jax.Array, jax.Array]


class _Route:
    """The offsets and sizes of the transfers between devices.

    Each direction is the transpose of the other.
    """

    def __init__(self, table: jax.Array, axes: MeshAxes, zero: jax.Array):
        self.axes = axes
        me = comm.block_index(axes)
        to, of = table[me] + zero, table[:, me] + zero
        before = jnp.cumsum(table, 0) - table  # tokens of earlier devices, at the receiver
        along = jnp.cumsum(table, 1) - table  # tokens for earlier devices, at the sender
        self.there = (along[me] + zero, to, before[me] + zero, of)
        self.home = (before[:, me] + zero, of, along[:, me] + zero, to)

    def send(self, rows: jax.Array, size: int) -> jax.Array:
        """Send rows to the devices of their groups, in a buffer of `size`."""
        return _transfer(rows, size, self.there, self.home, self.axes)

    def back(self, rows: jax.Array, size: int) -> jax.Array:
        """Send rows back to their original devices."""
        return _transfer(rows, size, self.home, self.there, self.axes)


def _transfer(
    rows: jax.Array, size: int, way: Transfers, other: Transfers, axes: MeshAxes
) -> jax.Array:
    @jax.custom_vjp
    def move(rows: jax.Array, way: Transfers, other: Transfers) -> jax.Array:
        return _exchange(rows, size, way, axes)

    def forward(
        rows: jax.Array, way: Transfers, other: Transfers
    ) -> tuple[jax.Array, tuple[Transfers, Transfers]]:
        return move(rows, way, other), (way, other)

    count = rows.shape[0]

    def backward(
        saved: tuple[Transfers, Transfers], cotangent: jax.Array
    ) -> tuple[jax.Array, None, None]:
        way, other = saved
        return _transfer(cotangent, count, other, way, axes), None, None

    move.defvjp(forward, backward)
    return move(rows, way, other)


def _exchange(rows: jax.Array, size: int, way: Transfers, axes: MeshAxes) -> jax.Array:
    buffer = cast_data(
        jnp.zeros((size, *rows.shape[1:]), rows.dtype), varying(rows).union(*map(varying, way))
    )
    return lax.ragged_all_to_all(
        cast_data(rows, varying(buffer)), buffer, *way, axis_name=comm.own(axes)[0]
    )
