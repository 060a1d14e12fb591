"""Broadcasting by name: operands of any dims become arrays of the same dims.

Positional axes meet from the right, as in NumPy; named axes meet by name. The result has the physical order of the first
operand, and names of later operands take the place that they have there relative to those that are known, so that
`bias{h} + x{batch, h}` is stored as `x` is. The plan depends on dims only and is cached.

This is also where an operand enters a mapped body: a global array that the body closes over is cut to its block, and values of
different device variance are cast to meet.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Hashable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import NamedSharding

from namedax.core.array import NamedArray, dims_of, make, make_block, make_in_region, positions
from namedax.core.cpu_workarounds import sums_abort
from namedax.core.display import type_text
from namedax.core.element_types import NUMPY, check_numbers
from namedax.core.foreign_arrays import is_foreign_type, refuse_foreign
from namedax.core.names import Dims
from namedax.core.region import Region, ambient, check_regions_live
from namedax.core.variance import cast, cast_data, saves_when_cast, varying
from namedax.errors import AxisSizeError, PositionalAxisError, refuse_names
from namedax.resources import communication as comm
from namedax.resources.assignment import partition_spec
from namedax.resources.layout import relayout
from namedax.resources.mesh import enter_mesh, must_enter
from namedax.resources.padding_masks import without_gradient_of_padding

__all__ = [
    *("align", "align_ranks", "to_local", "unify_variance", "merge_dims", "note_met", "of_real_entries", "own_blocks"),
    *("constrain_sharding", "make_result"),
]


@functools.lru_cache(maxsize=8192)
def _labels(dims: Dims) -> tuple[Hashable, ...]:
    """Dims with every positional axis numbered from the right: -1, -2, ... (integers are not names)."""
    numbers = iter(range(-dims.count(None), 0))
    return tuple(next(numbers) if dim is None else dim for dim in dims)


@functools.lru_cache(maxsize=8192)
def _plan(all_dims: tuple[Dims, ...]) -> tuple[tuple[Hashable, ...], Dims, tuple[tuple[Any, tuple[int, ...]], ...]]:
    """Labels and dims of the result, and for each operand its permutation (or `None`) and its positions in the result."""
    result: list[Hashable] = []
    for dims in all_dims:
        at = len(result)
        for label in reversed(_labels(dims)):
            if label in result:
                at = result.index(label)
            else:
                result.insert(at, label)
    # Names may have pulled positional axes apart; these keep their own order, in the places that they have.
    places = [i for i, label in enumerate(result) if isinstance(label, int)]
    for i, label in zip(places, sorted(result[i] for i in places), strict=True):  # type: ignore[type-var]
        result[i] = label
    steps = []
    for dims in all_dims:
        places = [result.index(label) for label in _labels(dims)]
        order = tuple(int(i) for i in np.argsort(places))
        steps.append((None if order == tuple(range(len(order))) else order, tuple(sorted(places))))
    dims_out = tuple(None if isinstance(label, int) else label for label in result)
    return tuple(result), dims_out, tuple(steps)


def merge_dims(*all_dims: Dims) -> Dims:
    """The dims of the result of broadcasting operands with these dims.

    >>> merge_dims(("h",), ("batch", "h")), merge_dims(("a", None), ("b",))
    (('batch', 'h'), ('a', None, 'b'))
    """
    return _plan(all_dims)[1]


def to_local(array: Any, op: str, region: Region | None) -> Any:
    """`array` as the body of `region` sees it: a global array that it closes over is cut to its block.

    So is what is a block of the body of a surrounding mapped function, along the names that are mapped in this one only.

    Raises:
      AxisSizeError: a name has a different size than the region says.
      PlacementConflictError: an array from outside has two names that are on one mesh axis here.
    """
    if type(array) is not NamedArray:
        if type(array) in _NO_ARRAYS:
            refuse_names(op, array)
        elif isinstance(array, NUMPY):
            check_numbers(op, array)
        elif is_foreign_type(type(array)):
            refuse_foreign(op, array)
        return array if region is None or not region.resources else _entered(array, region)
    if region is None:
        positions(array, op)
        return array
    dims, data, info = array._dims, array._data, array._block
    if type(data) is NamedArray or len(data.shape) != len(dims):
        positions(array, op)
    origin = None if info is None else info.region
    key = (dims, data.shape)
    # What is a block of this region, or whole where all arrays are, stays as it is.
    is_at_home = origin is region or (origin is None and not region.resources)
    if is_at_home and key in region.state.looked_at:
        return array
    region.seen.update(dim for dim in dims if dim is not None)
    if origin is not None and origin != region:
        return _from_surrounding(array, op, origin, region)
    whole = origin is None
    if whole and region.resources:
        region.check_placement(f"{op}, of {_FROM_OUTSIDE}", (dim for dim in dims if dim is not None), _OUTSIDE_REMEDY)
        data = _entered(data, region)
    for i, dim in enumerate(dims):
        if dim is None:
            continue
        size = region.sizes.get(dim)
        if size is None:
            if not whole or dim not in region.resources:
                continue
            size = data.shape[i]  # a name that comes into the body with an array that it closes over
        block = region.block_size(dim, size, op, supports_padding=True)
        if data.shape[i] == block and not (whole and (block != size or dim in region.uneven)):
            continue
        if data.shape[i] != size:
            raise AxisSizeError(
                f"{op}: axis {dim!r} has size {data.shape[i]} in an array of shape {data.shape} with dims {dims}, but {dim!r} has size "
                f"{size} in this mapped function; a name has one size. Rename one of the two axes."
            )
        data = comm.cut(data, i, region.place(dim))
    if data is not array._data:
        return make_in_region(data, dims)
    if is_at_home:
        region.state.note_looked_at(key)
    return array


def _entered(data: Any, region: Region) -> Any:
    """A value from outside, with a type that the body of `region` can use."""
    if not must_enter(data, region.mesh):
        return data
    return region.state.closure.lift_closure(data, lambda data: enter_mesh(data, region.mesh))


_NO_ARRAYS = frozenset({str, list, tuple})
_FROM_OUTSIDE = "an array that the mapped function closes over"
_OUTSIDE_REMEDY = "Rename one of them before, outside of the mapped function (nx.rename, which sends nothing there), or change axis_resources."


def _from_surrounding(array: NamedArray, op: str, origin: Region, region: Region) -> NamedArray:
    """A block of the body of another region, as the body of `region` sees it."""
    dims, data = array._dims, array._data
    names = [dim for dim in dims if dim is not None]
    old, new = ([() if dim is None else r.place(dim) for dim in dims] for r in (origin, region))
    for dim, n in zip(dims, data.shape, strict=True):
        if dim is None:
            continue
        size = origin.global_size(dim, n)
        known = region.sizes.get(dim, size)
        if known != size:
            raise AxisSizeError(
                f"{op}: axis {dim!r} has size {size} in {_FROM_OUTSIDE}, of shape {data.shape} with dims {dims}, but {dim!r} "
                f"has size {known} in this mapped function; a name has one size. Rename one of the two axes."
            )
        region.block_size(dim, size, op, supports_padding=True)
    region.check_placement(f"{op}, of {_FROM_OUTSIDE}", names, _OUTSIDE_REMEDY)
    entered = relayout(_entered(data, region), old, new)
    return array if entered is data else make_in_region(entered, dims)


def _common_size(label: Hashable, known: int, n: int) -> int | None:
    """The size of an axis that operands have in two sizes: positional axes of size 1 broadcast, names do not (`None`)."""
    if not isinstance(label, int) or (known != 1 and n != 1):
        return None
    return max(known, n) if n and known else 0


@functools.lru_cache(maxsize=8192)
def _shape_of(all_dims: tuple[Dims, ...], shapes: tuple[tuple[int, ...], ...]) -> tuple[int, ...] | None:
    """The shape to which operands broadcast; `None` where they do not."""
    sizes: dict[Hashable, int] = {}
    for dims, shape in zip(all_dims, shapes, strict=True):
        for label, n in zip(_labels(dims), shape, strict=True):
            known = sizes.setdefault(label, n)
            if known != n:
                common = _common_size(label, known, n)
                if common is None:
                    return None
                sizes[label] = common
    return tuple([sizes[label] for label in _plan(all_dims)[0]])


def _check_sizes(op: str, operands: Sequence[Any], all_labels: Sequence[tuple[Hashable, ...]]) -> dict[Hashable, int]:
    """The size of every label in the result; raises where operands disagree."""
    sizes: dict[Hashable, int] = {}
    first: dict[Hashable, int] = {}
    for i, (operand, labels) in enumerate(zip(operands, all_labels, strict=True)):
        for label, n in zip(labels, np.shape(operand._data if type(operand) is NamedArray else operand), strict=True):
            known = sizes.setdefault(label, n)
            first.setdefault(label, i)
            if known == n:
                continue
            common = _common_size(label, known, n)
            if common is not None:
                sizes[label] = common
                continue
            if not isinstance(label, int):
                check_regions_live(op, functools.partial(operator.eq, label), operands)
                raise AxisSizeError(
                    f"{op}: axis {label!r} has size {known} in operand {first[label]}, {type_text(operands[first[label]])}, and size {n} "
                    f"in operand {i}, {type_text(operand)}; a name has one size. Rename one of the two axes."
                )
            raise PositionalAxisError(
                f"{op}: positional axis {label} has size {known} in operand {first[label]}, {type_text(operands[first[label]])}, and size "
                f"{n} in operand {i}, {type_text(operand)}; positional axes broadcast from the right, as in NumPy. Insert an axis "
                "(x[..., None]), or give the axis a name."
            )
    return sizes


def align(op: str, *operands: Any) -> tuple[list[Any], Dims]:
    """Data of all operands, broadcast to common dims, and these dims. Operands without dimensions stay scalars.

    Raises:
      AxisSizeError: a name has two sizes.
      PositionalAxisError: positional axes do not broadcast.
      PlacementConflictError: two names on one mesh axis meet.
    """
    datas, dims, shape = align_ranks(op, *operands)
    return [_whole(data, shape) for data in datas], dims


def align_ranks(op: str, *operands: Any) -> tuple[list[Any], Dims, tuple[int, ...]]:
    """Like `align`, but an operand has size 1 along a dim that it lacks; and the shape that they broadcast to.

    For functions that broadcast as `jnp` does: what they keep for the gradient of an operand (the other one, in a product) is not
    larger than it has to be.
    """
    region = ambient()
    blocks = [to_local(operand, op, region) for operand in operands]
    all_dims = tuple(dims_of(block) for block in blocks)
    labels, dims, steps = _plan(all_dims)
    shape = _shape_of(all_dims, tuple([np.shape(b._data if type(b) is NamedArray else b) for b in blocks]))
    if shape is None:
        sizes = _check_sizes(op, blocks, [_labels(d) for d in all_dims])
        shape = tuple([sizes[label] for label in labels])
    if region is not None and region.resources:
        region.check_placement(op, (dim for dim in dims if dim is not None))
    if region is not None and region.manual:
        union = _union_of_variance(blocks)
        datas = [cast(b, union) if hasattr(b, "dtype") and len(d) else b for b, d in zip(blocks, all_dims, strict=True)]
    else:
        datas = [b._data if type(b) is NamedArray else b for b in blocks]
    return [_of_rank(data, len(shape), step) for data, step in zip(datas, steps, strict=True)], dims, shape


def unify_variance(op: str, operands: Sequence[Any], region: Region, wanted: frozenset[str] = frozenset()) -> list[Any]:
    """Operands as the body of `region` sees them, cast to one device variance, so that an elementwise kernel can take them.

    What is not a scalar varies at least over the mesh axes that are `wanted`.
    """
    blocks = [to_local(operand, op, region) for operand in operands]
    if not region.manual:
        return blocks
    names = dict.fromkeys(dim for block in blocks if type(block) is NamedArray for dim in block._dims if dim is not None)
    region.check_placement(op, names)
    if not wanted and (len(blocks) == 1 or _vary_alike(blocks)):
        return blocks
    union = _union_of_variance(blocks) | wanted
    if region.state.has_gathered:  # what is computed from gathered arrays, and is smaller, asks whether these have been cast
        for block in blocks:
            if saves_when_cast(block):
                cast(block, union)
    return [
        make(cast(block, union), block._dims)
        if type(block) is NamedArray
        else cast(block, union)
        if hasattr(block, "dtype") and (np.ndim(block) or sums_abort(block))
        else block
        for block in blocks
    ]


def own_blocks(operands: Sequence[Any], region: Region) -> tuple[Any, ...] | None:
    """What is looked at of operands that meet, if all are numbers and traced blocks which the body of `region` has made; `None` if one is not.

    An entry has an array's dims, shape, device variance, element type and whether that is weak; that of a number is `None`. Where operands
    have met, `note_met` tells the region: others of which the same is known need not meet.
    """
    key: list[Any] = []
    for operand in operands:
        if type(operand) is NamedArray:
            data, block = operand._data, operand._block
            if block is None or block.region is not region or block.form is not None or not isinstance(data, jax.core.Tracer):
                return None
            aval = jax.typeof(data)
            key.append((operand._dims, aval.shape, aval.manual_axis_type.varying, aval.dtype, aval.weak_type))
        elif type(operand) in _NUMBERS:
            key.append(None)
        else:
            return None
    return tuple(key)


_NUMBERS = frozenset({bool, int, float, complex})


def note_met(key: tuple[Any, ...], region: Region) -> None:
    """Notes that operands have met of which this is known (`own_blocks`), if nothing had to be done to them."""
    entries = [entry for entry in key if entry is not None]
    if len({variance for _, _, variance, *_ in entries}) < 2 and all(entry[:2] in region.state.looked_at for entry in entries):
        region.state.note_looked_at(key)


def _vary_alike(blocks: Sequence[Any]) -> bool:
    """Whether all blocks that are arrays have names and one device variance, and the others are numbers of Python's."""
    known: frozenset[str] | None = None
    for block in blocks:
        if type(block) is NamedArray:
            variance = varying(block._data)
            if known is not None and variance != known:
                return False
            known = variance
        elif not isinstance(block, (bool, int, float, complex)) or isinstance(block, np.generic):
            return False
    return True


def _union_of_variance(blocks: Sequence[Any]) -> frozenset[str]:
    datas = [block._data if type(block) is NamedArray else block for block in blocks]
    return frozenset[str]().union(*(varying(data) for data in datas if hasattr(data, "dtype")))


def _of_rank(data: Any, rank: int, step: tuple[Any, tuple[int, ...]]) -> Any:
    """`data` in the order of the result, with size 1 where it lacks a dim; a scalar as it is."""
    order, places = step
    if not places:
        return data
    if not hasattr(data, "dtype"):
        data = jnp.asarray(data)
    if order is not None:
        data = lax.transpose(data, order)
    return data if len(places) == rank else lax.expand_dims(data, [i for i in range(rank) if i not in places])


def _whole(data: Any, shape: tuple[int, ...]) -> Any:
    return data if np.shape(data) in ((), shape) else lax.broadcast_in_dim(data, shape, range(len(shape)))


def make_result(data: Any, dims: Dims, entry_by_entry: Sequence[Any] | None = None) -> Any:
    """The result of an operation: a named array, or `data` itself if no dim has a name.

    What it was made of is told in `entry_by_entry` if the operation acts on every element by itself.
    """
    if dims.count(None) == len(dims):
        return data
    region = ambient()
    if region is None:
        return make(data, dims)
    for dim, n in zip(dims, data.shape, strict=True):
        if dim is not None:
            if dim in region.sizes:  # what `note` does, without the call
                region.seen.add(dim)
            else:
                region.note(dim, n)
    if region.manual:
        return make_block(_as_blocks(data, dims, region, entry_by_entry), dims, region)
    return make(constrain_sharding(data, dims), dims)


def _as_blocks(data: Any, dims: Dims, region: Region, entry_by_entry: Sequence[Any] | None) -> Any:
    """The block `data`, which varies over the mesh axes of its names, and into which no gradient flows from padding.

    A block that is the same on all devices, as of zeros, is one of several all the same: the gradient of what is added to it comes from
    all of them.
    """
    axes = [axis for dim in dims if dim in region.resources for axis in region.resources[dim]]
    if axes:
        data = cast_data(data, axes)
    if not region.uneven or (entry_by_entry is not None and not _repeats(entry_by_entry, dims)):
        return data
    return of_real_entries(data, dims, region)


def _repeats(operands: Sequence[Any], dims: Dims) -> bool:
    """Whether an array among the operands is repeated along one of these names."""
    names = {dim for dim in dims if dim is not None}
    return any(
        not names.issubset(dims_of(operand)) for operand in operands if not isinstance(operand, (bool, int, float, complex))
    )


def of_real_entries(data: Any, dims: Dims, region: Region | None) -> Any:
    """The block `data`, into which no gradient flows from padding.

    Who calls `jax.vjp` in a body, or writes the rule of a derivative, makes cotangents as any other values: their padding is a copy of
    the last entry, and the gradient of what is repeated along the axis would count it.
    """
    if region is not None and region.uneven:
        for i, dim in enumerate(dims):
            if dim in region.uneven:
                data = without_gradient_of_padding(data, i, region.place(dim))
    return data


def constrain_sharding(data: Any, dims: Dims) -> Any:
    """Under XLA's partitioner: `data` where its names say, and whole along its positional dimensions.

    What an operation does over an axis that the partitioner may cut is up to the partitioner, which is wrong for some: a
    maximum drops NaN, a convolution counts a sharded kernel several times. Such operations settle what they take, whole along
    that axis.
    """
    region = ambient()
    if region is None or region.mode != "auto":
        return data
    return lax.with_sharding_constraint(data, NamedSharding(region.mesh, partition_spec(dims, region.resources)))
