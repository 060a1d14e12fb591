"""Broadcast operands of any dims to common dims, by name.

Positional axes align from the right, as in NumPy; named axes align by name. The result has the
physical order of the first operand. Names of later operands are inserted at their place relative to
the known ones, so `bias{h} + x{batch, h}` is stored as `x` is. The plan depends on dims only and is
cached.

This is also where operands enter a mapped body. A global array that the body closes over is sliced
to its block, and values of different device variance are cast to a common one.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Hashable, Sequence
from typing import Any, overload

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import NamedSharding

from namedax.core.annotations import AnyArray, ArrayLike
from namedax.core.array import (
    NamedArray,
    dims_of,
    make,
    make_block,
    make_in_region,
    placeholder_remedy,
    positions,
)
from namedax.core.cpu_workarounds import sums_abort
from namedax.core.display import type_text
from namedax.core.element_types import (
    NUMPY,
    SCALARS,
    as_jax,
    check_numbers,
    is_foreign_type,
    native_order,
    reject_foreign,
)
from namedax.core.memory_kinds import on_device, to_device
from namedax.core.names import Dims
from namedax.core.region import Region, ambient, check_regions_live
from namedax.core.variance import cast, cast_data, saves_when_cast, varying
from namedax.errors import AxisSizeError, PositionalAxisError, reject_names, rename_code
from namedax.resources import communication as comm
from namedax.resources.assignment import partition_spec
from namedax.resources.layout import relayout
from namedax.resources.mesh import enter_mesh, must_enter, on_ambient_mesh
from namedax.resources.padding_masks import without_gradient_of_padding

__all__ = [
    "align",
    "align_ranks",
    "as_block",
    "constrain_sharding",
    "make_result",
    "merge_dims",
    "note_aligned",
    "of_real_entries",
    "own_blocks",
    "to_local",
    "unify_variance",
    "union_of_variance",
]


def _labels(dims: Dims) -> tuple[Hashable, ...]:
    """Label every positional axis of the dims from the right: -1, -2, ...

    Integers are not names.
    """
    numbers = iter(range(-dims.count(None), 0))
    return tuple(next(numbers) if dim is None else dim for dim in dims)


@functools.lru_cache(maxsize=8192)
def _plan(
    all_dims: tuple[Dims, ...],
) -> tuple[tuple[Hashable, ...], Dims, tuple[tuple[Any, tuple[int, ...]], ...]]:
    """Return labels and dims of the result, and the permutation and positions of each operand.

    The permutation is `None` if the order stays.
    """
    result: list[Hashable] = []
    for dims in all_dims:
        at = len(result)
        for label in reversed(_labels(dims)):
            if label in result:
                at = result.index(label)
            else:
                result.insert(at, label)
    # Names may have separated positional axes; these keep their order, in the same places.
    places = [i for i, label in enumerate(result) if isinstance(label, int)]
    in_order = sorted(label for label in result if isinstance(label, int))
    for i, label in zip(places, in_order, strict=True):
        result[i] = label
    steps = []
    for dims in all_dims:
        places = [result.index(label) for label in _labels(dims)]
        order = tuple(int(i) for i in np.argsort(places))
        steps.append((None if order == tuple(range(len(order))) else order, tuple(sorted(places))))
    dims_out = tuple(None if isinstance(label, int) else label for label in result)
    return tuple(result), dims_out, tuple(steps)


def merge_dims(*all_dims: Dims) -> Dims:
    """Return the dims of the result of broadcasting operands with these dims.

    >>> from namedax.ops.operands.broadcasting import merge_dims
    >>> merge_dims(("h",), ("batch", "h")), merge_dims(("a", None), ("b",))
    (('batch', 'h'), ('a', None, 'b'))
    """
    return _plan(all_dims)[1]


@overload
def to_local(
    array: NamedArray, op: str, region: Region | None, keeps_host: bool = False
) -> NamedArray: ...
@overload
def to_local(array: object, op: str, region: Region | None, keeps_host: bool = False) -> Any: ...
def to_local(array: object, op: str, region: Region | None, keeps_host: bool = False) -> object:
    """Return `array` as a value of the body of `region`.

    A global array that the body closes over is sliced to its block, in the memory of the device,
    except with `keeps_host`.

    A block of the body of an enclosing mapped function is sliced too, along the names that only
    this region maps.

    Raises:
      AxisSizeError: a name has a different size in the region.
      PlacementConflictError: an array from outside has two names that are on one mesh axis here.
    """
    if type(array) is not NamedArray:
        return array if type(array) in SCALARS else _without_names(array, op, region)
    if region is None:
        positions(array, op)
        return array
    dims, data, info = array._dims, array._data, array._block
    # Functions of trees may put a list or another object in place of the data.
    shape = getattr(data, "shape", None)
    if type(data) is NamedArray or shape is None or len(shape) != len(dims):
        positions(array, op)
    origin = None if info is None else info.region
    key = (dims, shape)
    # A block of this region, or a global array where all arrays are global, is unchanged.
    is_at_home = origin is region or (origin is None and not region.resources)
    if is_at_home and key in region.state.looked_at:
        return array
    region.seen.update([dim for dim in dims if dim is not None])
    if origin is not None and origin != region:
        return _from_surrounding(array, op, origin, region)
    if origin is None and region.resources:
        data = _from_outside(array, op, region)
        data = data if keeps_host else to_device(data)
    local = _sliced(data, dims, op, region, is_global=origin is None)
    if local is not array._data:
        return make_in_region(local, dims)
    if is_at_home:
        region.state.note_looked_at(key)
    return array


@overload
def as_block(leaf: NamedArray, op: str, keeps_host: bool = False) -> NamedArray: ...
@overload
def as_block(leaf: ArrayLike, op: str, keeps_host: bool = False) -> AnyArray: ...
def as_block(leaf: ArrayLike, op: str, keeps_host: bool = False) -> AnyArray:
    """Return a leaf as a local array of the body of the ambient region, or of the current mesh.

    It is in the memory of the device, except with `keeps_host`.
    """
    region = ambient()
    leaf = to_local(leaf if keeps_host else on_device(leaf), op, region, keeps_host)
    array = leaf if isinstance(leaf, (NamedArray, jax.Array)) else as_jax(op, leaf)
    if region is not None:
        return array
    data = array._data if isinstance(array, NamedArray) else array
    on_mesh = on_ambient_mesh(data, op)
    return array if on_mesh is data else make_result(on_mesh, dims_of(array))


def _without_names(array: object, op: str, region: Region | None) -> object:
    """Return an operand without names as a value of the body of `region`, after checks."""
    if type(array) in _NO_ARRAYS:
        reject_names(op, array)
    elif isinstance(array, NUMPY):
        check_numbers(op, array)
        array = native_order(array)
    elif is_foreign_type(type(array)):
        reject_foreign(op, array)
    return array if region is None or not region.resources else _entered(array, region)


def _from_outside(array: NamedArray, op: str, region: Region) -> Any:
    """Return the data of a global array that the body closes over, with a type for the body."""
    names = [dim for dim in array._dims if dim is not None]
    region.check_placement(f"{op}, of {_FROM_OUTSIDE}", names, _OUTSIDE_REMEDY)
    return _entered(array._data, region)


def _sliced(data: Any, dims: Dims, op: str, region: Region, is_global: bool) -> Any:
    """Return `data` with the block of this device along each name that the region maps."""
    for i, dim in enumerate(dims):
        if dim is None:
            continue
        size = region.sizes.get(dim)
        if size is None:
            if not is_global or dim not in region.resources:
                continue
            size = data.shape[i]  # a new name, from an array that the body closes over
        is_mapped = dim in region.resources
        block = region.block_size(dim, size, op, supports_padding=True) if is_mapped else size
        if data.shape[i] == block and not (is_global and (block != size or dim in region.uneven)):
            continue
        if data.shape[i] != size:
            raise AxisSizeError(
                f"{op}: axis {dim!r} has size {data.shape[i]} in an array of shape {data.shape}"
                f" with dims {dims}, but {dim!r} has size {size} in this mapped function; a name"
                f" has one size. Rename one of the two axes.{placeholder_remedy(data.shape)}"
            )
        data = comm.cut(data, i, region.place(dim))
    return data


def _entered(data: Any, region: Region) -> Any:
    """Return a value from outside, with a type that the body of `region` can use."""
    if not must_enter(data, region.mesh):
        return data
    return region.state.closure.lift_closure(data, lambda data: enter_mesh(data, region.mesh))


_NO_ARRAYS = frozenset({str, list, tuple})
_FROM_OUTSIDE = "an array that the mapped function closes over"
_OUTSIDE_REMEDY = (
    "Rename one of them before, outside the mapped function (nx.rename, which does not communicate"
    " there), or change axis_resources."
)


def _from_surrounding(array: NamedArray, op: str, origin: Region, region: Region) -> NamedArray:
    """Return a block of the body of another region as a value of the body of `region`."""
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
                f"{op}: axis {dim!r} has size {size} in {_FROM_OUTSIDE}, of shape {data.shape} with"
                f" dims {dims}, but {dim!r} has size {known} in this mapped function; a name has"
                " one size. Rename one of the two axes."
            )
        region.block_size(dim, size, op, supports_padding=True)
    region.check_placement(f"{op}, of {_FROM_OUTSIDE}", names, _OUTSIDE_REMEDY)
    entered = relayout(_entered(data, region), old, new)
    return array if entered is data else make_in_region(entered, dims)


def _common_size(label: Hashable, known: int, n: int) -> int | None:
    """Return the size of an axis that operands have in two sizes.

    Positional axes of size 1 broadcast; named axes do not (`None`).
    """
    if not isinstance(label, int) or (known != 1 and n != 1):
        return None
    return max(known, n) if n and known else 0


@functools.lru_cache(maxsize=8192)
def _shape_of(
    all_dims: tuple[Dims, ...], shapes: tuple[tuple[int, ...], ...]
) -> tuple[int, ...] | None:
    """Return the shape to which operands broadcast; `None` if they do not."""
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


def _check_sizes(
    op: str, operands: Sequence[Any], all_labels: Sequence[tuple[Hashable, ...]]
) -> dict[Hashable, int]:
    """Return the size of every label in the result; raise if operands disagree."""
    sizes: dict[Hashable, int] = {}
    first: dict[Hashable, int] = {}
    for i, (operand, labels) in enumerate(zip(operands, all_labels, strict=True)):
        for label, n in zip(
            labels, np.shape(operand._data if type(operand) is NamedArray else operand), strict=True
        ):
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
                    f"{op}: axis {label!r} has size {known} in operand {first[label]},"
                    f" {type_text(operands[first[label]])}, and size {n} in operand {i},"
                    f" {type_text(operand)}; a name has one size. Rename one of the two axes:"
                    f" {rename_code('y', label)}."
                )
            raise PositionalAxisError(
                f"{op}: positional axis {label} has size {known} in operand {first[label]},"
                f" {type_text(operands[first[label]])}, and size {n} in operand {i},"
                f" {type_text(operand)}; positional axes broadcast from the right, as in NumPy."
                " Insert an axis (x[..., None]), or give the axis a name."
            )
    return sizes


def align(op: str, *operands: ArrayLike) -> tuple[list[Any], Dims]:
    """Return the data of all operands, broadcast to common dims, and these dims.

    Operands without dimensions stay scalars.

    Raises:
      AxisSizeError: a name has two sizes.
      PositionalAxisError: positional axes do not broadcast.
      PlacementConflictError: two names on one mesh axis would be in one value.
    """
    datas, dims, shape = align_ranks(op, *operands)
    return [_whole(data, shape) for data in datas], dims


def align_ranks(op: str, *operands: ArrayLike) -> tuple[list[Any], Dims, tuple[int, ...]]:
    """Align operands to common dims with size 1 for missing ones; return their shape too.

    Use this for functions that broadcast as `jnp` does: the residual for the gradient of an operand
    (the other one, in a product) then stays as small as possible.
    """
    region = ambient()
    blocks: list[Any] = [to_local(operand, op, region) for operand in operands]
    all_dims = tuple(dims_of(block) for block in blocks)
    labels, dims, steps = _plan(all_dims)
    shape = _shape_of(
        all_dims, tuple([np.shape(b._data if type(b) is NamedArray else b) for b in blocks])
    )
    if shape is None:
        sizes = _check_sizes(op, blocks, [_labels(d) for d in all_dims])
        shape = tuple([sizes[label] for label in labels])
    if region is not None and region.resources:
        region.check_placement(op, (dim for dim in dims if dim is not None))
    if region is not None and region.manual:
        union = union_of_variance(blocks)
        datas: list[Any] = [
            cast(b, union) if hasattr(b, "dtype") and len(d) else b
            for b, d in zip(blocks, all_dims, strict=True)
        ]
    else:
        datas = [b._data if type(b) is NamedArray else b for b in blocks]
    return (
        [_of_rank(data, len(shape), step) for data, step in zip(datas, steps, strict=True)],
        dims,
        shape,
    )


def unify_variance(
    op: str, operands: Sequence[Any], region: Region, wanted: frozenset[str] = frozenset()
) -> list[Any]:
    """Return local operands cast to one device variance, for an elementwise kernel.

    Values other than scalars vary at least over the mesh axes `wanted` (default: none).
    """
    blocks = [to_local(operand, op, region) for operand in operands]
    if not region.manual:
        return blocks
    names = dict.fromkeys(
        dim
        for block in blocks
        if type(block) is NamedArray
        for dim in block._dims
        if dim is not None
    )
    region.check_placement(op, names)
    if not wanted and (len(blocks) == 1 or _vary_alike(blocks)):
        return blocks
    union = union_of_variance(blocks) | wanted
    # Results computed from gathered arrays may be smaller than these. Their forms depend on whether
    # the gathered arrays have been cast.
    if region.state.has_gathered:
        for block in blocks:
            if saves_when_cast(block):
                cast(block, union)
    return [
        (
            make(cast(block, union), block._dims)
            if type(block) is NamedArray
            else (
                cast(block, union)
                if hasattr(block, "dtype") and (np.ndim(block) or sums_abort(block))
                else block
            )
        )
        for block in blocks
    ]


def own_blocks(operands: Sequence[Any], region: Region) -> tuple[Any, ...] | None:
    """Return a key of the operands, if all are numbers and traced blocks of the body of `region`.

    The result is `None` if one is not. The entry of an array has its dims, shape, device variance,
    dtype and weak type; that of a number is `None`. After such operands have been aligned,
    `note_aligned` records the key in the region. Operands with the same key need no alignment.
    """
    key: list[Any] = []
    for operand in operands:
        if type(operand) is NamedArray:
            data, block = operand._data, operand._block
            if (
                block is None
                or block.region is not region
                or block.form is not None
                or not isinstance(data, jax.core.Tracer)
            ):
                return None
            aval = jax.typeof(data)
            key.append(
                (
                    operand._dims,
                    aval.shape,
                    aval.manual_axis_type.varying,
                    aval.dtype,
                    aval.weak_type,
                )
            )
        elif type(operand) in SCALARS:
            key.append(None)
        else:
            return None
    return tuple(key)


def note_aligned(key: tuple[Any, ...], region: Region) -> None:
    """Record that operands with this key (`own_blocks`) need no alignment, if none was needed."""
    entries = [entry for entry in key if entry is not None]
    if len({variance for _, _, variance, *_ in entries}) < 2 and all(
        entry[:2] in region.state.looked_at for entry in entries
    ):
        region.state.note_looked_at(key)


def _vary_alike(blocks: Sequence[Any]) -> bool:
    """Return True if all arrays among the blocks have names and one device variance.

    The other blocks must be Python numbers.
    """
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


def union_of_variance(blocks: Sequence[Any]) -> frozenset[str]:
    """Return all mesh axes over which the blocks vary."""
    datas = [block._data if type(block) is NamedArray else block for block in blocks]
    return frozenset[str]().union(*(varying(data) for data in datas if hasattr(data, "dtype")))


def _of_rank(
    data: jax.typing.ArrayLike, rank: int, step: tuple[Any, tuple[int, ...]]
) -> jax.typing.ArrayLike:
    """Transpose `data` to the order of the result, with size 1 for missing dims.

    A scalar is unchanged.
    """
    order, places = step
    if not places:
        return data
    if not hasattr(data, "dtype"):
        data = jnp.asarray(data)
    if order is not None:
        data = lax.transpose(data, order)
    return (
        data
        if len(places) == rank
        else lax.expand_dims(data, [i for i in range(rank) if i not in places])
    )


def _whole(data: jax.typing.ArrayLike, shape: tuple[int, ...]) -> jax.typing.ArrayLike:
    return (
        data
        if np.shape(data) in ((), shape)
        else lax.broadcast_in_dim(data, shape, range(len(shape)))
    )


def make_result(data: jax.Array, dims: Dims, entry_by_entry: Sequence[Any] | None = None) -> Any:
    """Return the result of an operation: a named array, or `data` itself if no dim has a name.

    `entry_by_entry` has the operands if the operation is elementwise; default: `None`.
    """
    if dims.count(None) == len(dims):
        return data
    region = ambient()
    if region is None:
        return make(data, dims)
    axes: list[str] = []
    for dim, n in zip(dims, data.shape, strict=True):
        if dim is not None:
            axes += region.places.get(dim, ())
            if dim in region.sizes:  # inlined `note`
                region.seen.add(dim)
            else:
                region.note(dim, n)
    if region.manual:
        # A block that is equal on all devices, such as zeros, is still one of several blocks. The
        # gradient of a value added to it comes from all of them.
        if axes:
            data = cast_data(data, axes)
        if region.uneven and (entry_by_entry is None or _repeats(entry_by_entry, dims)):
            data = of_real_entries(data, dims, region)
        return make_block(data, dims, region)
    if region.mode == "global":
        return make_in_region(data, dims)
    return make(constrain_sharding(data, dims), dims)


def _repeats(operands: Sequence[Any], dims: Dims) -> bool:
    """Return True if an array among the operands is repeated along one of these names."""
    names = {dim for dim in dims if dim is not None}
    return any(
        not names.issubset(dims_of(operand))
        for operand in operands
        if not isinstance(operand, (bool, int, float, complex))
    )


def of_real_entries(data: jax.Array, dims: Dims, region: Region | None) -> jax.Array:
    """Return the block `data` with the gradient from its padding masked.

    A call of `jax.vjp` in a body, or a derivative rule, makes cotangents like any other values.
    Their padding is a copy of the last element, and the gradient of a value repeated along the axis
    would count it.
    """
    if region is not None and region.uneven:
        for i, dim in enumerate(dims):
            if dim in region.uneven:
                data = without_gradient_of_padding(data, i, region.place(dim))
    return data


def constrain_sharding(data: jax.Array, dims: Dims) -> jax.Array:
    """Constrain the sharding of `data` under XLA's partitioner.

    It is sharded by its names, and replicated along its positional axes.

    The partitioner chooses how an operation runs over an axis that it may partition, and it is
    wrong for some. A maximum drops NaN, and a convolution counts a sharded kernel several times.
    Such operations constrain their operands to be replicated along that axis.
    """
    region = ambient()
    if region is None or region.mode != "auto":
        return data
    return lax.with_sharding_constraint(
        data, NamedSharding(region.mesh, partition_spec(dims, region.resources))
    )
