"""Orthogonalize matrices over named axes, on any number of devices.

The singular values of a matrix are driven to one by steps of an odd polynomial, the Newton-Schulz
iteration `X <- aX + (bA + cA^2)X` with `A = X X^T`. In a mapped body each device has a block of
every matrix. Three collectives make products of whole rows possible, and each mesh axis that shards
rows or columns uses one of them:

- *distribute*: an all-to-all gives every device whole matrices of a part of the batch, and another
  one returns the blocks. It sends every block twice.
- *gather*: an all-gather gives every device whole matrices. Each keeps its block of the result.
- *sum*: the short side becomes whole by an all-to-all, the long side stays sharded, and an
  all-reduce adds the products of the blocks, in every step or in every third one. Every iterate is
  `p(A) X` with a polynomial `p`. So several steps can run on the matrix `A` of the short side, and
  only a new `A` needs an all-reduce.

The assignment with the least communication and computation is chosen from the shapes
(`_cheapest`). Matrices of several parameters with the same shape and sharding form one batch.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import jax
import jax.numpy as jnp
from jax import lax

from namedax.core.array import NamedArray, make_in_region
from namedax.core.names import Dims
from namedax.core.padded_sharding import plain
from namedax.core.region import Region, ambient
from namedax.core.variance import cast_data
from namedax.interop.matrix_axes import Sides
from namedax.ops.operands.broadcasting import to_local
from namedax.ops.operands.operation import operation
from namedax.resources import communication as comm
from namedax.resources.padding_masks import masked, refilled

__all__ = ["Preconditioning", "Settings", "orthogonalize"]

Preconditioning: TypeAlias = Literal["frobenius", "spectral", "aol", "schatten"]
PRECONDITIONINGS = get_args(Preconditioning)

#: The most steps of the iteration per product `X X^T`. Each step on the product alone multiplies
#: the rounding errors of its small eigenvalues by up to `a^2`, about 12. Two such steps are as
#: exact as steps on `X`; four are 30 times less exact.
STEPS_PER_PRODUCT = 3


class Settings(NamedTuple):
    """The settings of the iteration: one triple of coefficients per step."""

    coefficients: tuple[tuple[float, float, float], ...]
    preconditioning: Preconditioning
    eps: float
    dtype: Any


@operation(lambda arrays, sides, settings: (), name="muon")
def orthogonalize(
    arrays: list[NamedArray], sides: tuple[Sides, ...], settings: Settings
) -> list[NamedArray]:
    """Orthogonalize arrays over their rows and columns; all other axes are batch axes."""
    region = ambient()
    local = [to_local(array, "muon", region) for array in arrays]
    if region is None or not region.manual:
        return [_of_global(array, own, settings) for array, own in zip(local, sides, strict=True)]
    groups: dict[Hashable, list[int]] = {}
    matrices = [_Matrix.of(array, own, region) for array, own in zip(local, sides, strict=True)]
    for i, matrix in enumerate(matrices):
        groups.setdefault(matrix.key if matrix.shared else i, []).append(i)
    results: list[Any] = [None] * len(matrices)
    for members in groups.values():
        stacks = [matrices[i].stack(local[i]._data) for i in members]
        counts = [len(stack) for stack in stacks]
        whole = stacks[0] if len(stacks) == 1 else jnp.concatenate(stacks)
        whole = _of_blocks(whole, matrices[members[0]], region, settings)
        for i, start, count in zip(
            members, itertools.accumulate([0, *counts]), counts, strict=False
        ):
            part = lax.slice_in_dim(whole, start, start + count)
            results[i] = make_in_region(matrices[i].unstack(part, region), local[i]._dims)
    return results


# --- one device -----------------------------------------------------------------------------------


def _short_and_long(
    array: NamedArray, sides: Sides
) -> tuple[tuple[Hashable, ...], tuple[Hashable, ...]]:
    sizes = array.named_shape
    rows, columns = (math.prod(sizes[name] for name in side) for side in sides)
    return (sides.columns, sides.rows) if rows > columns else (sides.rows, sides.columns)


def _of_global(array: NamedArray, sides: Sides, settings: Settings) -> NamedArray:
    """Orthogonalize a global array. Batch dimensions stay as they are, for XLA's partitioner."""
    dims, data = array._dims, array._data
    short, long = _short_and_long(array, sides)
    order = _order(dims, short, long)
    moved = data.transpose(order)
    batch = moved.shape[: len(dims) - len(short) - len(long)]
    flat = moved.reshape(*batch, math.prod(moved.shape[len(batch) :][: len(short)]), -1)
    done = newton_schulz(flat, settings).reshape(moved.shape)
    return make_in_region(done.transpose(_inverse(order)).astype(data.dtype), dims)


def _order(dims: Dims, short: Sequence[Hashable], long: Sequence[Hashable]) -> list[int]:
    names = (*short, *long)
    batch = [i for i, dim in enumerate(dims) if dim is None or dim not in names]
    return [*batch, *(dims.index(name) for name in names)]


def _inverse(order: Sequence[int]) -> list[int]:
    return sorted(range(len(order)), key=lambda i: order[i])


def _product(x: jax.Array) -> jax.Array:
    return jnp.matmul(x, x.swapaxes(-1, -2).conj())


def newton_schulz(x: jax.Array, settings: Settings) -> jax.Array:
    """Run the iteration on whole matrices, whose rows are not longer than their columns."""
    x = x.astype(settings.dtype or jnp.promote_types(x.dtype, jnp.float32))
    a = None
    if settings.preconditioning == "frobenius":
        x = x / (jnp.linalg.norm(x, axis=(-2, -1), keepdims=True) + settings.eps)
    elif settings.preconditioning == "spectral":
        x = x / (jnp.linalg.norm(x, ord=2, axis=(-2, -1), keepdims=True) + settings.eps)
    else:
        x, a = _prepared(x, _product(x), settings)
    for c0, c1, c2 in settings.coefficients:
        a = _product(x) if a is None else a
        x = c0 * x + jnp.matmul(c1 * a + c2 * jnp.matmul(a, a), x)
        a = None
    return x


def _prepared(x: jax.Array, a: jax.Array, settings: Settings) -> tuple[jax.Array, jax.Array]:
    """Scale matrices before the first step by means of their products `a`."""
    if settings.preconditioning == "frobenius":
        norm = jnp.sqrt(jnp.trace(a, axis1=-2, axis2=-1).real)
        scale = 1 / (norm[..., None, None] + settings.eps)
    elif settings.preconditioning == "spectral":
        norm = jnp.sqrt(jnp.maximum(jnp.linalg.eigvalsh(a)[..., -1], 0))
        scale = 1 / (norm[..., None, None] + settings.eps)
    elif settings.preconditioning == "schatten":
        norm = jnp.linalg.norm(a, axis=(-2, -1), keepdims=True)
        scale = lax.rsqrt(jnp.maximum(norm, settings.eps))
    else:
        scale = lax.rsqrt(jnp.maximum(jnp.abs(a).sum(-1, keepdims=True), settings.eps))
    return x * scale.astype(x.dtype), a * scale * scale.swapaxes(-1, -2)


# --- several devices ------------------------------------------------------------------------------


class _Matrix(NamedTuple):
    """The matrices of one parameter, as blocks.

    Attributes:
      order: the order of the dims: batch, short side, long side.
      short: the size of a block along the short side.
      long: the size of a block along the long side.
      short_axes: the mesh axes of the short side, in the order of the mesh.
      long_axes: the mesh axes of the long side, in the order of the mesh.
      key: the facts that the matrices of one group share.
      shared: True if a side is sharded, so that groups save collectives.
      shape: the shape of the block in the new order.
      places: the placement of each dim.
      dtype: the dtype of the parameter.
    """

    order: tuple[int, ...]
    short: int
    long: int
    short_axes: tuple[str, ...]
    long_axes: tuple[str, ...]
    key: Hashable
    shared: bool
    shape: tuple[int, ...]
    places: tuple[tuple[str, ...], ...]
    dtype: Any

    @classmethod
    def of(cls, array: NamedArray, sides: Sides, region: Region) -> _Matrix:
        """Describe a block."""
        dims, shape = array._dims, array._data.shape
        short, long = _short_and_long(array, sides)
        order = _order(dims, short, long)
        sizes = dict(zip(dims, shape, strict=True))
        places = region.layout(dims)
        axes_of = dict(zip(dims, places, strict=True))
        mesh_axes = [] if region.mesh is None else list(region.mesh.axis_names)

        def axes(names: Sequence[Hashable]) -> tuple[str, ...]:
            found = [axis for name in names for axis in plain(axes_of[name])]
            return tuple(
                sorted(
                    found, key=lambda a: mesh_axes.index(a) if a in mesh_axes else len(mesh_axes)
                )
            )

        n_short, n_long = (math.prod(sizes[name] for name in side) for side in (short, long))
        batch = frozenset(
            axis
            for dim, place in zip(dims, places, strict=True)
            if dim not in (*short, *long)
            for axis in place
        )
        key = (n_short, n_long, axes(short), axes(long), batch, array._data.dtype)
        return cls(
            order=tuple(order),
            short=n_short,
            long=n_long,
            short_axes=axes(short),
            long_axes=axes(long),
            key=key,
            shared=bool(axes(short) or axes(long)),
            shape=tuple(shape[i] for i in order),
            places=places,
            dtype=array._data.dtype,
        )

    def stack(self, data: jax.Array) -> jax.Array:
        """Return the block as a stack of matrices, with zeros as padding."""
        for dim, place in enumerate(self.places):
            data = masked(data, dim, place, 0)
        return data.transpose(self.order).reshape(-1, self.short, self.long)

    def unstack(self, stack: jax.Array, region: Region) -> jax.Array:
        """Return a stack of matrices as the block of the parameter."""
        del region
        data = stack.reshape(self.shape).transpose(_inverse(self.order)).astype(self.dtype)
        for dim, place in enumerate(self.places):
            data = refilled(data, dim, place)
        return data


class _Plan(NamedTuple):
    """The mesh axes of each kind of communication.

    Attributes:
      distributed: those along which a batch is distributed.
      gathered: those along which matrices are gathered.
      summed: those along which products are added.
      period: the steps of the iteration per product, if products are added.
    """

    distributed: tuple[str, ...] = ()
    gathered: tuple[str, ...] = ()
    summed: tuple[str, ...] = ()
    period: int = 1


#: FLOPs in the time of one byte of a collective, about as on recent accelerators.
FLOPS_PER_BYTE = 500


def _cheapest(count: int, matrix: _Matrix, sizes: dict[str, int], steps: int) -> _Plan:
    """Return the plan with the least communication and computation per device.

    Among equal ones it is the plan that keeps the fewest elements on a device.

    Args:
      count: the matrices in the batch.
      matrix: the blocks.
      sizes: the devices along each mesh axis.
      steps: the steps of the iteration.
    """
    axes = (*matrix.short_axes, *matrix.long_axes)

    def devices(of: Sequence[str]) -> int:
        return math.prod(sizes[axis] for axis in of)

    side = matrix.short * devices(matrix.short_axes)

    def cost(plan: _Plan) -> tuple[float, float]:
        n = devices(plan.distributed)
        if n > count:
            return math.inf, math.inf
        batch = -(-count // n)
        block = batch * n * matrix.short * matrix.long
        sent = 2 * block * (n - 1) / n
        gathered = devices(plan.gathered)
        sent += block * (gathered - 1)
        block *= gathered
        turned = devices([axis for axis in plan.summed if axis in matrix.short_axes])
        sent += 2 * block * (turned - 1) / turned
        products = -(-steps // plan.period)
        summed = devices(plan.summed)
        sent += products * 2 * batch * side**2 * (summed - 1) / summed
        # Products of long matrices, their squares, and those that replace a new product.
        flops = products * 4 * side * block + batch * side**3 * (8 * steps - 6 * products)
        return sent * matrix.dtype.itemsize * FLOPS_PER_BYTE + flops, block

    def along(kinds: Sequence[int], kind: int) -> tuple[str, ...]:
        return tuple(axis for axis, each in zip(axes, kinds, strict=True) if each == kind)

    plans = (
        _Plan(along(kinds, 0), along(kinds, 1), along(kinds, 2), period)
        for kinds in itertools.product(range(3), repeat=len(axes))
        for period in ((1, STEPS_PER_PRODUCT) if 2 in kinds else (1,))
    )
    return min(plans, key=cost)


def _of_blocks(stack: jax.Array, matrix: _Matrix, region: Region, settings: Settings) -> jax.Array:
    """Orthogonalize a stack of blocks."""
    axes = (*matrix.short_axes, *matrix.long_axes)
    if not axes:
        return newton_schulz(stack, settings)
    if any(type(axis) is not str for axis in axes):
        return _over_steps(stack, matrix, settings)
    sizes = {axis: region.mesh_axis_size((axis,)) for axis in axes}
    plan = _cheapest(len(stack), matrix, sizes, len(settings.coefficients))
    return _run(stack, matrix, plan, sizes, settings)


def _over_steps(stack: jax.Array, matrix: _Matrix, settings: Settings) -> jax.Array:
    """Orthogonalize matrices with an axis in a loop: gather both sides."""
    whole = stack
    for dim, axes in ((1, matrix.short_axes), (2, matrix.long_axes)):
        whole = comm.all_gather(whole, dim, axes, "varying") if axes else whole
    whole = newton_schulz(whole, settings)
    for dim, axes in ((1, matrix.short_axes), (2, matrix.long_axes)):
        whole = comm.cut(whole, dim, axes) if axes else whole
    return whole


def _run(
    stack: jax.Array, matrix: _Matrix, plan: _Plan, sizes: dict[str, int], settings: Settings
) -> jax.Array:
    """Orthogonalize a stack of blocks by a plan."""
    count = len(stack)
    if plan.distributed:
        stack = _to_parts(stack, plan.distributed, matrix, sizes)
    short_gathered = tuple(a for a in plan.gathered if a in matrix.short_axes)
    long_gathered = tuple(a for a in plan.gathered if a in matrix.long_axes)
    for dim, axes in ((1, short_gathered), (2, long_gathered)):
        stack = comm.all_gather(stack, dim, axes, "varying") if axes else stack
    if plan.summed:
        stack = _over_columns(stack, matrix, plan, sizes, settings)
    else:
        stack = newton_schulz(stack, settings)
    stack = stack.astype(matrix.dtype)
    for dim, axes in ((1, short_gathered), (2, long_gathered)):
        stack = comm.cut(stack, dim, axes) if axes else stack
    if plan.distributed:
        stack = _to_blocks(stack, plan.distributed, matrix, sizes, count)
    return stack


def _to_parts(
    stack: jax.Array, axes: tuple[str, ...], matrix: _Matrix, sizes: dict[str, int]
) -> jax.Array:
    """Give each device along `axes` a part of the batch, with larger blocks of its matrices."""
    counts = [sizes[axis] for axis in axes]
    n, (count, short, long) = math.prod(counts), stack.shape
    part = -(-count // n)
    stack = jnp.pad(stack, [(0, part * n - count), (0, 0), (0, 0)])
    stack = comm.all_to_all(stack.reshape(n, part, short, long), 0, 0, axes)
    stack = stack.reshape(*counts, part, short, long)
    return stack.transpose(_merging(axes, matrix)).reshape(part, *_merged(axes, matrix, sizes))


def _to_blocks(
    stack: jax.Array,
    axes: tuple[str, ...],
    matrix: _Matrix,
    sizes: dict[str, int],
    count: int,
) -> jax.Array:
    """Undo `_to_parts`."""
    part, k = len(stack), len(axes)
    order = _merging(axes, matrix)
    shape = (*(sizes[axis] for axis in axes), part, matrix.short, matrix.long)
    stack = stack.reshape([shape[i] for i in order]).transpose(_inverse(order))
    n = math.prod(shape[:k])
    stack = comm.all_to_all(stack.reshape(n, part, matrix.short, matrix.long), 0, 0, axes)
    return stack.reshape(n * part, matrix.short, matrix.long)[:count]


def _merging(axes: tuple[str, ...], matrix: _Matrix) -> list[int]:
    """Return the order that puts the dims of `axes` before the sides that they shard."""
    k = len(axes)
    short = [i for i, axis in enumerate(axes) if axis in matrix.short_axes]
    long = [i for i, axis in enumerate(axes) if axis in matrix.long_axes]
    return [k, *short, k + 1, *long, k + 2]


def _merged(axes: tuple[str, ...], matrix: _Matrix, sizes: dict[str, int]) -> tuple[int, int]:
    short = math.prod(sizes[axis] for axis in axes if axis in matrix.short_axes)
    long = math.prod(sizes[axis] for axis in axes if axis in matrix.long_axes)
    return matrix.short * short, matrix.long * long


def _over_columns(
    stack: jax.Array,
    matrix: _Matrix,
    plan: _Plan,
    sizes: dict[str, int],
    settings: Settings,
) -> jax.Array:
    """Orthogonalize matrices by sums of products of blocks."""
    axes = plan.summed
    turned = tuple(axis for axis in axes if axis in matrix.short_axes)
    long = stack.shape[2]
    if turned:
        n = math.prod(sizes[axis] for axis in turned)
        stack = jnp.pad(stack, [(0, 0), (0, 0), (0, -long % n)])
        stack = comm.all_to_all(stack, 2, 1, turned)
    x = stack.astype(settings.dtype or jnp.promote_types(stack.dtype, jnp.float32))
    steps = settings.coefficients
    for start in range(0, len(steps), plan.period):
        a = _summed_product(x, axes)
        if start == 0:
            x, a = _prepared(x, a, settings)
        x = jnp.matmul(
            cast_data(_polynomial(a, steps[start : start + plan.period]), axes).astype(x.dtype),
            x,
        )
    stack = x.astype(stack.dtype)
    return comm.all_to_all(stack, 1, 2, turned)[:, :, :long] if turned else stack


def _summed_product(x: jax.Array, axes: tuple[str, ...]) -> jax.Array:
    wide = jnp.promote_types(x.dtype, jnp.float32)
    y = x.swapaxes(-1, -2).conj()
    product = jnp.matmul(x, y, precision="highest", preferred_element_type=wide)
    return comm.psum(product, axes)


def _polynomial(a: jax.Array, steps: Sequence[tuple[float, float, float]]) -> jax.Array:
    """Return the factor of `x` after some steps, from the product `a` of `x`."""

    def times(p: jax.Array, q: jax.Array) -> jax.Array:
        return jnp.matmul(p, q, precision="highest")

    one = jnp.eye(a.shape[-1], dtype=a.dtype)
    total = None
    for i, (c0, c1, c2) in enumerate(steps):
        p = c0 * one + c1 * a + c2 * times(a, a)
        total = p if total is None else times(p, total)
        if i + 1 < len(steps):
            a = times(times(p, a), p)
            a = (a + a.swapaxes(-1, -2).conj()) / 2
    return one if total is None else total
