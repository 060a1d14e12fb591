"""Collective matmul: contractions that overlap communication with computation around a ring.

There are two basic forms, which are each other's transpose. `ring_gather` contracts an operand that
is sharded in blocks without gathering it. Each device computes with a block, passes it on, and
computes with the next one. `ring_scatter` computes a sum over mesh axes and leaves one block of it
on each device. The partial sum of every block goes around the ring, and each device adds to it. In
both forms the transfer of one block overlaps the computation with another. No device ever has the
complete operand or the complete sum.

A third form, `ring_reduce`, computes a sum that every device needs complete: after `ring_scatter`,
the blocks go around once more. Only the first half of its communication overlaps a computation. Its
transpose does not communicate, as for any all-reduce.

In one direction, every device sends its block `n - 1` times to one neighbor. In both directions, it
sends half as often to each of two neighbors.

Source: Wang et al., "Overlap communication with dependent computation via decomposition in large
deep learning models", 2023.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Literal, TypeVar

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec

from namedax.core.names import DType, Label, Labels
from namedax.core.records import Record
from namedax.core.variance import cast_data, varying
from namedax.resources import communication as comm
from namedax.resources.serial import LoopAxis

__all__ = ["OVERLAPS", "Overlap", "Ring", "ring_gather", "ring_reduce", "ring_scatter"]

Carry = TypeVar("Carry")
Overlap = Literal[False, True, "bidirectional"]
OVERLAPS = (False, True, "bidirectional")


class Ring(Record):
    """A contraction of two operands around a ring.

    Attributes:
      x: the labels of the first operand.
      y: the labels of the second operand.
      out: the labels of the result. Labels of both operands that are missing here are summed over.
      label: the axis that is split into blocks. For `ring_gather` it is an axis of the first
        operand, whose blocks go around; for `ring_scatter` and `ring_reduce`, an axis of the
        result.
      axes: the mesh axes of the ring, major first.
      both: if `True`, blocks go around in both directions.
      precision: the precision of `jax.lax.dot_general`.
      dtype: the dtype of the result.
    """

    x: Labels
    y: Labels
    out: Labels
    label: Label
    axes: tuple[str, ...]
    both: bool
    precision: lax.PrecisionLike
    dtype: DType

    def contract(self, x: jax.Array, y: jax.Array) -> jax.Array:
        """Contract the blocks of one device, and accumulate in at least 32 bits."""
        batch = [label for label in self.x if label in self.y and label in self.out]
        summed = [label for label in self.x if label in self.y and label not in self.out]
        dimensions = (
            (tuple(map(self.x.index, summed)), tuple(map(self.y.index, summed))),
            (tuple(map(self.x.index, batch)), tuple(map(self.y.index, batch))),
        )
        data = lax.dot_general(x, y, dimensions, self.precision, comm.sum_type(self.dtype))
        labels = batch + [label for label in self.x + self.y if label not in batch + summed]
        return lax.transpose(data, [labels.index(label) for label in self.out])


def _shift(data: jax.Array, axes: tuple[str, ...], n: int, by: int) -> jax.Array:
    """Send the data of device `i` to device `i + by`."""
    return comm.ppermute(data, axes, [(i, (i + by) % n) for i in range(n)])


def _cut(data: jax.Array, labels: Labels, label: Label, block: jax.Array, size: int) -> jax.Array:
    """Slice the given block of `data` along `label`, if it has that axis."""
    if label not in labels:
        return data
    return lax.dynamic_slice_in_dim(data, block * size, size, labels.index(label))


def _loop(steps: int, step: Callable[[Carry], Carry], carry: Carry) -> Carry:
    # The program has a loop too. Unrolled, all of its blocks would exist at once, and a compiler
    # would keep the forward pass's blocks for the gradient.
    carry, _ = lax.scan(lambda carry, _: (step(carry), None), carry, None, length=steps)
    return carry


def ring_gather(ring: Ring, x: jax.Array, y: jax.Array) -> jax.Array:
    """Contract `y` with `x`, whose axis `ring.label` is sharded over the mesh axes of the ring.

    Args:
      ring: the contraction.
      x: this device's block. It varies over the mesh axes of the ring.
      y: the second operand. If it has the axis, the axis is complete.

    Returns:
      The result. If it has the axis, the axis is complete.
    """
    return _differentiable(_gather, _gather_backward, ring)(x, y)


def _gather(ring: Ring, x: jax.Array, y: jax.Array) -> jax.Array:
    n = _length(ring)
    size = x.shape[ring.x.index(ring.label)]
    sizes = (
        dict(zip(ring.y, y.shape, strict=True))
        | dict(zip(ring.x, x.shape, strict=True))
        | {ring.label: n * size}
    )
    variance = varying(x) | varying(y) | set(ring.axes)
    total = cast_data(
        jnp.zeros([sizes[label] for label in ring.out], comm.sum_type(ring.dtype)), variance
    )

    def use(total: jax.Array, block: jax.Array, source: jax.Array) -> jax.Array:
        part = ring.contract(block, _cut(y, ring.y, ring.label, source, size))
        if ring.label not in ring.out:
            return total + part
        return lax.dynamic_update_slice_in_dim(
            total, part, source * size, ring.out.index(ring.label)
        )

    return _visit(ring, x, total, use).astype(ring.dtype)


def _length(ring: Ring) -> int:
    return math.prod(lax.axis_size(axis) for axis in ring.axes)


def _visit(
    ring: Ring,
    block: jax.Array,
    total: jax.Array,
    use: Callable[[jax.Array, jax.Array, jax.Array], jax.Array],
) -> jax.Array:
    """Send every device's block around the ring.

    Each device applies `use(total, block, source)` to every block.
    """
    n, mine = _length(ring), comm.block_index(ring.axes)
    if not ring.both:

        def step(
            carry: tuple[jax.Array, jax.Array, jax.Array],
        ) -> tuple[jax.Array, jax.Array, jax.Array]:
            total, block, k = carry
            following = _shift(block, ring.axes, n, 1)  # sent while this block is used
            return use(total, block, (mine - k) % n), following, k + 1

        total, block, k = _loop(n - 1, step, (total, block, jnp.zeros((), mine.dtype)))
        return use(total, block, (mine - k) % n)

    # In both directions, half of the ring: a block from `k` devices away is sent on while it is
    # used.
    half = (n - 1) // 2

    def both_steps(
        carry: tuple[jax.Array, jax.Array, jax.Array, jax.Array],
    ) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
        total, ahead, back, k = carry
        following, leading = _shift(ahead, ring.axes, n, 1), _shift(back, ring.axes, n, -1)
        return (
            use(use(total, ahead, (mine - k) % n), back, (mine + k) % n),
            following,
            leading,
            k + 1,
        )

    ahead, back = (
        (_shift(block, ring.axes, n, 1), _shift(block, ring.axes, n, -1))
        if half
        else (block, block)
    )
    total = use(total, block, mine)
    if half:
        total, ahead, back, k = _loop(
            half - 1, both_steps, (total, ahead, back, jnp.ones((), mine.dtype))
        )
    opposite = _shift(ahead, ring.axes, n, 1) if n % 2 == 0 else None
    if half:
        total = use(use(total, ahead, (mine - k) % n), back, (mine + k) % n)
    return total if opposite is None else use(total, opposite, (mine + n // 2) % n)


def ring_scatter(ring: Ring, x: jax.Array, y: jax.Array) -> jax.Array:
    """Contract `x` and `y`, and reduce-scatter the result over the ring along `ring.label`.

    Args:
      ring: the contraction; in the operands that have its label, that axis is complete.
      x: the first operand. Both operands vary over the mesh axes of the ring.
      y: the second operand.

    Returns:
      This device's block of the sum. During the transfers it has its own dtype.
    """
    return _differentiable(_scatter, _scatter_backward, ring)(x, y)


def _scatter(ring: Ring, x: jax.Array, y: jax.Array) -> jax.Array:
    n = _length(ring)
    whole = next(
        d.shape[ls.index(ring.label)] for d, ls in ((x, ring.x), (y, ring.y)) if ring.label in ls
    )
    size, mine, dtype = whole // n, comm.block_index(ring.axes), ring.dtype

    def part(target: jax.Array) -> jax.Array:
        """Compute the contribution of this device to the block of device `target`."""
        blocks = (_cut(d, ls, ring.label, target, size) for d, ls in ((x, ring.x), (y, ring.y)))
        return ring.contract(*blocks)

    def nearer(total: jax.Array, distance: int | jax.Array, by: int) -> jax.Array:
        """Receive a partial sum from `distance + 1` devices away.

        Its local addend is computed during the transfer.
        """
        received = _shift(total, ring.axes, n, by)
        return (received + part((mine + by * distance) % n)).astype(dtype)

    def begin(distance: int, by: int) -> jax.Array:
        return part((mine + by * distance) % n).astype(dtype)

    if n == 1:
        return part(mine).astype(dtype)
    if not ring.both:

        def step(carry: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            total, distance = carry
            return nearer(total, distance, 1), distance - 1

        total, _ = _loop(n - 2, step, (begin(n - 1, 1), jnp.full((), n - 2, mine.dtype)))
        return nearer(total, 0, 1)

    # Two partial sums for every device, one per side of it; the device opposite belongs to the
    # first side.
    half = (n - 1) // 2
    ahead = begin(n // 2, 1)
    if half == 0:
        return nearer(ahead, 0, 1)
    if n % 2 == 0:
        ahead = nearer(ahead, half, 1)

    def both_steps(
        carry: tuple[jax.Array, jax.Array, jax.Array],
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        ahead, back, distance = carry
        return nearer(ahead, distance, 1), nearer(back, distance, -1), distance - 1

    ahead, back, _ = _loop(
        half - 1, both_steps, (ahead, begin(half, -1), jnp.full((), half - 1, mine.dtype))
    )
    return (nearer(ahead, 0, 1) + _shift(back, ring.axes, n, -1)).astype(dtype)


def ring_reduce(ring: Ring, x: jax.Array, y: jax.Array) -> jax.Array:
    """Contract `x` and `y`, and all-reduce the result over the mesh axes of the ring.

    Args:
      ring: the contraction; its label is an axis of the result, which is computed in blocks of that
        axis.
      x: the first operand. Both operands vary over the mesh axes of the ring.
      y: the second operand.

    Returns:
      The sum; it does not vary over the mesh axes of the ring. During the transfers it has its own
      dtype.
    """
    return _differentiable(_reduce, _reduce_backward, ring)(x, y)


def _reduce(ring: Ring, x: jax.Array, y: jax.Array) -> jax.Array:
    block = _scatter(ring, x, y)
    dim = ring.out.index(ring.label)
    if any(isinstance(axis, LoopAxis) for axis in jax.sharding.get_abstract_mesh().axis_names):
        # JAX checks the variance of a body that runs in steps throughout.
        return comm.all_gather(block, dim, ring.axes, "invarying")
    size = block.shape[dim]
    shape = (*block.shape[:dim], _length(ring) * size, *block.shape[dim + 1 :])

    def put(total: jax.Array, block: jax.Array, source: jax.Array) -> jax.Array:
        return lax.dynamic_update_slice_in_dim(total, block, source * size, dim)

    return _as_invarying(
        _visit(ring, block, cast_data(jnp.zeros(shape, block.dtype), varying(block)), put),
        ring.axes,
    )


def _as_invarying(data: jax.Array, axes: tuple[str, ...]) -> jax.Array:
    """Cast `data` to invariant over `axes`.

    All devices along these axes have assembled it from the same blocks.
    """

    def untyped(data: jax.Array) -> jax.Array:
        return lax.squeeze(lax.expand_dims(data, (0,)), (0,))

    # JAX's checker cannot derive this, and has no cast for it. It treats an unchecked result as
    # replicated. The mesh axes are already manual, so this changes nothing but the type. Through
    # jit for bodies that are not compiled.
    spec = PartitionSpec()
    mapped = jax.shard_map(
        untyped, in_specs=spec, out_specs=spec, axis_names=varying(data), check_vma=False
    )
    return cast_data(jax.jit(mapped)(data), varying(data) - set(axes))


def _gather_backward(
    ring: Ring, operands: tuple[jax.Array, jax.Array], cotangent: jax.Array
) -> tuple[jax.Array, jax.Array]:
    x, y = operands
    to_x = ring.replace(x=ring.out, y=ring.y, out=ring.x, dtype=x.dtype)
    to_y = ring.replace(x=ring.x, y=ring.out, out=ring.y, dtype=y.dtype)
    return ring_scatter(to_x, cotangent, y), ring_gather(to_y, x, cotangent)


def _scatter_backward(
    ring: Ring, operands: tuple[jax.Array, jax.Array], cotangent: jax.Array
) -> tuple[jax.Array, jax.Array]:
    x, y = operands
    to_x = ring.replace(x=ring.out, y=ring.y, out=ring.x, dtype=x.dtype)
    to_y = ring.replace(x=ring.out, y=ring.x, out=ring.y, dtype=y.dtype)
    return ring_gather(to_x, cotangent, y), ring_gather(to_y, cotangent, x)


def _reduce_backward(
    ring: Ring, operands: tuple[jax.Array, jax.Array], cotangent: jax.Array
) -> tuple[jax.Array, jax.Array]:
    # Every device has the complete cotangent, and the blocks that it needs of the other operand.
    x, y = operands
    cotangent = cast_data(cotangent, varying(x) | varying(y))
    to_x = ring.replace(x=ring.out, y=ring.y, out=ring.x, dtype=x.dtype)
    to_y = ring.replace(x=ring.x, y=ring.out, out=ring.y, dtype=y.dtype)
    return to_x.contract(cotangent, y).astype(x.dtype), to_y.contract(x, cotangent).astype(y.dtype)


def _differentiable(
    function: Callable[[Ring, jax.Array, jax.Array], jax.Array],
    backward: Callable[..., tuple[jax.Array, jax.Array]],
    ring: Ring,
) -> Callable[[jax.Array, jax.Array], jax.Array]:
    call = jax.custom_vjp(functools.partial(function, ring))
    call.defvjp(lambda x, y: (function(ring, x, y), (x, y)), functools.partial(backward, ring))
    return call
