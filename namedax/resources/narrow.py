"""Collectives that send blocks in a narrow number format, and choose that of their transpose.

Each function is the collective of the same name in `namedax.resources.communication` with a `Wire`.
The cotangents pass as if nothing were rounded. They have reverse mode only, of any order.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable
from typing import Any, Literal

import jax
import jax.numpy as jnp
from jax import lax

from namedax.core.names import MeshAxes
from namedax.core.reshape import as_one
from namedax.core.variance import cast_data, varying
from namedax.resources import communication as comm
from namedax.resources.serial import LoopAxis, reject_microbatches
from namedax.resources.wire import Encoded, Wire, WireFormat, decode, encode, is_narrower

__all__ = ["all_gather", "all_to_all", "cut", "ppermute", "psum_scatter"]

To = Literal["varying", "invarying"]
Pairs = tuple[tuple[int, int], ...]


def all_gather(
    data: jax.Array, dim: int, axes: MeshAxes, to: To, wire: Wire, real: jax.Array | None = None
) -> jax.Array:
    """Gather encoded blocks along `dim`.

    Args:
      data: the block.
      dim: the dimension.
      axes: the mesh axes. A loop among them, and a mesh axis over which the block is invariant,
        need no communication.
      to: as in `communication.all_gather`.
      wire: the formats.
      real: a mask of the shape of `data`, False at padding; default: there is none.

    Communication: one all-gather of the payload, and one of the scales. If the result is varying,
    the transpose is an all-to-all of each.
    """
    variance = varying(data)

    def kind(axis: str) -> str:
        return "sent" if axis in variance and not isinstance(axis, LoopAxis) else "here"

    # Minor axes first.
    for found, group in itertools.groupby(reversed(axes), key=kind):
        part = tuple(reversed(list(group)))
        if found == "here" or not data.size:
            data, real = (
                comm.all_gather(data, dim, part, to),
                None if real is None else comm.all_gather(real, dim, part, to),
            )
        else:
            data = _gather(data, real, dim, comm.own(part), to, wire)
            real = None
    return cast_data(data, axes) if to == "varying" else data


def psum_scatter(
    data: jax.Array, dim: int, axes: MeshAxes, wire: Wire, real: jax.Array | None = None
) -> jax.Array:
    """Sum over `axes` and keep this device's block along `dim`; the summands are encoded.

    Communication: one all-to-all of the payload, and one of the scales. The transpose is an
    all-gather of each.
    """
    reject_microbatches(axes)
    loops = any(isinstance(axis, LoopAxis) for axis in axes)
    if loops or varying(data).isdisjoint(axes) or not data.size:
        return comm.psum_scatter(data, dim, axes)
    return _scatter(cast_data(data, axes), real, dim, comm.own(axes), wire)


def cut(data: jax.Array, dim: int, axes: MeshAxes, wire: Wire) -> jax.Array:
    """Slice this device's block along `dim` from a value replicated over `axes`.

    There is no communication. The transpose is an all-gather of encoded blocks.
    """
    loops = any(isinstance(axis, LoopAxis) for axis in axes)
    if loops or not varying(data).isdisjoint(axes) or not data.size or wire.backward is None:
        return comm.cut(data, dim, axes)
    return _cut(data, dim, comm.own(axes), wire)


def all_to_all(
    data: jax.Array,
    split_dim: int,
    concat_dim: int,
    axes: MeshAxes,
    wire: Wire,
    real: jax.Array | None = None,
) -> jax.Array:
    """Split `split_dim` into a block per device, and gather the blocks of `concat_dim`, encoded.

    Communication: one all-to-all of the payload, and one of the scales; the same in the transpose.
    """
    if any(isinstance(axis, LoopAxis) for axis in axes) or not data.size:
        return comm.all_to_all(data, split_dim, concat_dim, axes)
    return _exchange(cast_data(data, axes), real, split_dim, concat_dim, comm.own(axes), wire)


def ppermute(
    data: jax.Array, axes: MeshAxes, perm: Pairs, wire: Wire, real: jax.Array | None = None
) -> jax.Array:
    """Permute encoded blocks by the pairs `(source, target)` of `perm`.

    Communication: one collective-permute of the payload, and one of the scales; the same in the
    transpose.
    """
    if any(isinstance(axis, LoopAxis) for axis in axes) or not data.size:
        return comm.ppermute(data, axes, list(perm))
    return _permute(cast_data(data, axes), real, axes, perm, wire)


# --- the collectives ------------------------------------------------------------------------------


def _send(
    rows: jax.Array,
    real: jax.Array | None,
    wire_format: WireFormat,
    collective: Callable[[jax.Array], jax.Array],
    wide: bool = False,
) -> jax.Array:
    """Encode rows, apply a collective to the payload and the scales, and decode the result."""
    if real is not None:
        real = jnp.broadcast_to(real, rows.shape)
    encoded: Encoded = tuple(map(collective, encode(rows, wire_format, real)))
    return decode(encoded, wire_format, rows.shape[1], rows.dtype, wide)


def _parts(data: jax.Array, dim: int, count: int) -> jax.Array:
    """Split `dim` into `count` blocks, and stack them along a new first dimension."""
    shape = data.shape
    split = data.reshape((*shape[:dim], count, shape[dim] // count, *shape[dim + 1 :]))
    return jnp.moveaxis(split, dim, 0)


def _concatenated(parts: jax.Array, dim: int) -> jax.Array:
    """Concatenate the elements of the first dimension along `dim` of the others."""
    return as_one(jnp.moveaxis(parts, 0, dim), dim)


def _count(axes: MeshAxes) -> int:
    return math.prod(map(lax.axis_size, axes))


def _swapped(axes: MeshAxes) -> Callable[[jax.Array], jax.Array]:
    return lambda rows: lax.all_to_all(rows, axes, 0, 0, tiled=True)


def _flat(parts: jax.Array | None) -> jax.Array | None:
    return None if parts is None else parts.reshape(parts.shape[0], -1)


def _with_rule(
    forward: Callable[..., jax.Array], backward: Callable[..., jax.Array], statics: int
) -> Callable[..., jax.Array]:
    """Return `forward` with `backward` as its transpose.

    Args:
      forward: a function of data, a mask or `None`, and static arguments.
      backward: a function of the cotangent and the static arguments.
      statics: the number of static arguments.
    """
    function = jax.custom_vjp(forward, nondiff_argnums=tuple(range(2, 2 + statics)))
    function.defvjp(
        lambda data, real, *static: (function(data, real, *static), None),
        lambda *arguments: (backward(arguments[-1], *arguments[:statics]), None),
    )
    return function


def _gather_forward(
    data: jax.Array, real: jax.Array | None, dim: int, axes: MeshAxes, to: To, wire: Wire
) -> jax.Array:
    gather: Callable[..., Any] = functools.partial(lax.all_gather, axis=0, tiled=True, to=to)
    if wire.forward is None or not is_narrower(wire.forward, data.dtype):
        return comm.all_gather(data, dim, axes, to)
    rows = data.reshape(1, -1)
    real = None if real is None else jnp.broadcast_to(real, data.shape).reshape(1, -1)
    rows = _send(rows, real, wire.forward, lambda part: gather(part, axes))
    return _concatenated(rows.reshape(-1, *data.shape), dim)


def _gather_backward(
    cotangent: jax.Array, dim: int, axes: MeshAxes, to: To, wire: Wire
) -> jax.Array:
    if to == "invarying":
        return cut(cotangent, dim, axes, wire.reversed)
    return psum_scatter(cotangent, dim, axes, wire.reversed)


def _scatter_forward(
    data: jax.Array, real: jax.Array | None, dim: int, axes: MeshAxes, wire: Wire
) -> jax.Array:
    if wire.forward is None or not is_narrower(wire.forward, data.dtype):
        return comm.psum_scatter(data, dim, axes)
    count = _count(axes)
    parts = _parts(data, dim, count)
    real = None if real is None else _parts(jnp.broadcast_to(real, data.shape), dim, count)
    rows = _send(parts.reshape(count, -1), _flat(real), wire.forward, _swapped(axes), wide=True)
    return jnp.sum(rows, 0).astype(data.dtype).reshape(parts.shape[1:])


def _scatter_backward(cotangent: jax.Array, dim: int, axes: MeshAxes, wire: Wire) -> jax.Array:
    return all_gather(cotangent, dim, axes, "varying", wire.reversed)


def _cut_forward(
    data: jax.Array, real: jax.Array | None, dim: int, axes: MeshAxes, wire: Wire
) -> jax.Array:
    return comm.cut(data, dim, axes)


def _cut_backward(cotangent: jax.Array, dim: int, axes: MeshAxes, wire: Wire) -> jax.Array:
    return all_gather(cotangent, dim, axes, "invarying", wire.reversed)


def _cut(data: jax.Array, dim: int, axes: MeshAxes, wire: Wire) -> jax.Array:
    return _own_block(data, None, dim, axes, wire)


def _exchange_forward(
    data: jax.Array,
    real: jax.Array | None,
    split_dim: int,
    concat_dim: int,
    axes: MeshAxes,
    wire: Wire,
) -> jax.Array:
    if wire.forward is None or not is_narrower(wire.forward, data.dtype):
        return comm.all_to_all(data, split_dim, concat_dim, axes)
    count = _count(axes)
    parts = _parts(data, split_dim, count)
    real = None if real is None else _parts(jnp.broadcast_to(real, data.shape), split_dim, count)
    rows = _send(parts.reshape(count, -1), _flat(real), wire.forward, _swapped(axes))
    return _concatenated(rows.reshape(parts.shape), concat_dim)


def _exchange_backward(
    cotangent: jax.Array, split_dim: int, concat_dim: int, axes: MeshAxes, wire: Wire
) -> jax.Array:
    return all_to_all(cotangent, concat_dim, split_dim, axes, wire.reversed)


def _permute_forward(
    data: jax.Array, real: jax.Array | None, axes: MeshAxes, perm: Pairs, wire: Wire
) -> jax.Array:
    if wire.forward is None or not is_narrower(wire.forward, data.dtype):
        return comm.ppermute(data, axes, list(perm))
    rows = data.reshape(1, -1)
    real = None if real is None else jnp.broadcast_to(real, data.shape).reshape(1, -1)
    rows = _send(rows, real, wire.forward, lambda part: comm.ppermute(part, axes, list(perm)))
    return rows.reshape(data.shape)


def _permute_backward(cotangent: jax.Array, axes: MeshAxes, perm: Pairs, wire: Wire) -> jax.Array:
    back = tuple((target, source) for source, target in perm)
    return ppermute(cotangent, axes, back, wire.reversed)


_gather = _with_rule(_gather_forward, _gather_backward, 4)
_scatter = _with_rule(_scatter_forward, _scatter_backward, 3)
_own_block = _with_rule(_cut_forward, _cut_backward, 3)
_exchange = _with_rule(_exchange_forward, _exchange_backward, 4)
_permute = _with_rule(_permute_forward, _permute_backward, 3)
