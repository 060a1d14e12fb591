"""Blocks of named arrays from the tensors of a state dict, and tensors from named arrays.

A block is a range of each axis of the named array. It is read from views of the tensors: a view has
one dimension for each label of the pattern, so a block takes only the elements that it needs.
"""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import NamedSharding, PartitionSpec

from namedax.core.annotations import AnyArray
from namedax.core.element_types import native_dtype
from namedax.errors import ArgumentTypeError, CheckpointError, format_value, show_names
from namedax.hlo import size_text
from namedax.interop.entries import Entry
from namedax.interop.quantization import Quantized, Reader
from namedax.interop.specs import Header, Plan
from namedax.ops.operands.pytree import array_of
from namedax.resources.assignment import Assignment, named_sharding
from namedax.resources.mesh import auto_mesh, concrete_mesh, without_mesh

__all__ = ["Target", "check_memory", "header_of", "host_tensor", "placed", "tensors_of"]

Range = tuple[int, int]
Target = tuple[Assignment, jax.sharding.Mesh]
_CHUNK = 1 << 22  # bytes of a tensor that are read at a time
_DEQUANTIZED = 1 << 19  # elements that are dequantized at a time


# --- tensors of other libraries -------------------------------------------------------------------


def header_of(key: str, tensor: Any, op: str) -> Header:
    """Return the shape and the dtype of a tensor of NumPy, JAX or PyTorch.

    Raises:
      ArgumentTypeError: it is not a tensor of numbers.
    """
    if isinstance(tensor, jax.core.Tracer):
        raise ArgumentTypeError(
            f"{op}: {key!r}, {format_value(tensor)}, has no values while it is traced. Call {op}"
            " outside of traced functions."
        )
    try:
        shape = tuple(int(n) for n in tensor.shape)
        dtype = native_dtype(np.dtype(jnp.dtype(str(tensor.dtype).removeprefix("torch."))))
    except (AttributeError, TypeError):
        dtype = None
    if dtype is None or not (jnp.issubdtype(dtype, np.number) or dtype == np.bool_):
        raise ArgumentTypeError(
            f"{op}: {key!r} is {format_value(tensor)}, of type {type(tensor).__name__}, not a"
            " tensor of numbers. Pass arrays of NumPy or JAX, or tensors of PyTorch."
        )
    return Header(shape, dtype)


def host_tensor(tensor: Any, header: Header) -> np.ndarray:
    """Return the values of a tensor on the host, as a view if possible."""
    if hasattr(tensor, "detach"):  # PyTorch
        tensor = tensor.detach().cpu()
        # PyTorch converts its short floats to NumPy as integers only. `empty.short()` has the dtype
        # without an import of PyTorch.
        if header.dtype.isbuiltin != 1:
            empty = tensor.new_zeros(0)
            bits = empty.short() if header.dtype.itemsize == 2 else empty.byte()
            tensor = tensor.view(bits.dtype)
        tensor = tensor.numpy()
    array = np.asarray(tensor)
    # Copies of its elements convert the byte order.
    is_equal = native_dtype(array.dtype) == header.dtype
    return array if is_equal else array.view(header.dtype)


# --- reading --------------------------------------------------------------------------------------


def placed(plan: Plan, reader: Reader, target: Target | None, op: str) -> AnyArray:
    """Return the named array of a plan. Each device gets its own block."""
    shape, dims = plan.shape, plan.entry.dims
    if target is None:
        whole = read_block(plan, tuple((0, n) for n in shape), reader)
        return array_of(jax.block_until_ready(jax.device_put(whole)), dims)
    sharding = named_sharding(dims, shape, *target, op)
    devices: dict[tuple[Range, ...], list[Any]] = {}
    for device, index in sharding.addressable_devices_indices_map(shape).items():
        of_device = tuple(part.indices(n)[:2] for part, n in zip(index or (), shape, strict=True))
        devices.setdefault(of_device, []).append(device)
    parts: list[jax.Array] = []
    for ranges, places in devices.items():
        block = read_block(plan, ranges, reader)
        # Only one block at a time has two copies in memory.
        parts += jax.block_until_ready([jax.device_put(block, device) for device in places])
        del block
    data = jax.make_array_from_single_device_arrays(shape, sharding, parts, dtype=plan.dtype)
    return array_of(data, dims)


def free_bytes(device: jax.Device) -> int | None:
    """Return the free memory of a device, or `None` if its backend does not report it (CPUs)."""
    stats = device.memory_stats() or {}
    limit = stats.get("bytes_limit")
    return None if limit is None else limit - stats.get("bytes_in_use", 0)


def check_memory(plans: Sequence[Plan], target: Target | None, op: str) -> None:
    """Raise if the blocks of the arrays do not fit into the free memory of a device.

    Raises:
      CheckpointError: the device reports less free memory than its blocks take.
    """
    needed: dict[jax.Device, int] = {}
    largest: dict[jax.Device, tuple[int, Plan]] = {}
    for plan in plans:
        devices: Iterable[jax.Device] = jax.local_devices()[:1]
        shape = plan.shape
        if target is not None:
            sharding = named_sharding(plan.entry.dims, shape, *target, op)
            devices, shape = sharding.addressable_devices, sharding.shard_shape(shape)
        size = math.prod(shape) * np.dtype(plan.dtype).itemsize
        for device in devices:
            needed[device] = needed.get(device, 0) + size
            if size >= largest.get(device, (0, plan))[0]:
                largest[device] = size, plan
    for device, size in needed.items():
        free = free_bytes(device)
        if free is not None and size > free:
            most, plan = largest[device]
            raise CheckpointError(
                f"{op}: the arrays take {size_text(size)} on {device}, which has"
                f" {size_text(free)} of free memory. The largest block is {size_text(most)} of"
                f" {plan.entry.place_text!r}, with the axes {show_names(plan.entry.dims)}. Shard"
                " more axes in axis_resources, use more devices, or pass dtype=jnp.bfloat16."
            )


def read_block(plan: Plan, ranges: Sequence[Range], reader: Reader) -> np.ndarray:
    """Return a new array with the elements in these ranges of the axes."""
    out = np.empty([stop - start for start, stop in ranges], plan.dtype)
    if not out.size:
        return out
    for where, labels in _boxes(plan, ranges):
        at: Any = (*where, ...)  # with the ellipsis, the result is a view even without axes
        _fill(out[at], plan, labels, reader)
    return out


def _boxes(
    plan: Plan, ranges: Sequence[Range]
) -> Iterator[tuple[tuple[slice, ...], dict[Hashable, Range]]]:
    """Split a block into boxes: products of one range for each label."""
    axes = []
    for term, (start, stop) in zip(plan.entry.right, ranges, strict=True):
        pieces, at = [], 0
        for piece in _pieces([plan.sizes[label] for label in term.axes], start, stop):
            length = math.prod(last - first for first, last in piece)
            pieces.append((slice(at, at + length), dict(zip(term.axes, piece, strict=True))))
            at += length
        axes.append(pieces)
    for combination in itertools.product(*axes):
        labels: dict[Hashable, Range] = {}
        for _, part in combination:
            labels.update(part)
        yield tuple(where for where, _ in combination), labels


def _pieces(sizes: Sequence[int], start: int, stop: int) -> list[tuple[Range, ...]]:
    """Split a range of a product of axes into products of ranges, in order.

    >>> from namedax.interop.tensors import _pieces
    >>> _pieces([3, 4], 2, 9)
    [((0, 1), (2, 4)), ((1, 2), (0, 4)), ((2, 3), (0, 1))]
    """
    if not sizes:
        return [()]
    inner = math.prod(sizes[1:])
    if len(sizes) == 1 or (start % inner == 0 and stop % inner == 0):
        return [((start // inner, stop // inner), *((0, n) for n in sizes[1:]))]
    result: list[tuple[Range, ...]] = []
    while start < stop:
        row, offset = divmod(start, inner)
        if offset == 0 and stop - start >= inner:
            rows = (stop - start) // inner
            result.append(((row, row + rows), *((0, n) for n in sizes[1:])))
            start += rows * inner
        else:
            end = min(inner, offset + stop - start)
            result += [((row, row + 1), *rest) for rest in _pieces(sizes[1:], offset, end)]
            start += end - offset
    return result


def _fill(out: np.ndarray, plan: Plan, labels: Mapping[Hashable, Range], reader: Reader) -> None:
    """Copy a box from the tensors into `out`."""
    entry = plan.entry
    right = [label for term in entry.right for label in term.axes]
    # Splitting dimensions makes a view.
    out = out.reshape([labels[label][1] - labels[label][0] for label in right])
    inner = [label for label in right if label not in entry.numbers]
    axes = [inner.index(label) for label in entry.part_labels]
    ranges = dict(labels)
    if entry.part is not None:
        ranges[entry.part.label] = entry.part.at, entry.part.at + 1
    stacked = [range(*labels[label]) for label in entry.numbers]
    for values in itertools.product(*stacked):
        at = dict(zip(entry.numbers, values, strict=True))
        place: Any = tuple(
            at[label] - labels[label][0] if label in at else slice(None) for label in right
        )
        key = plan.key_of(values)
        source_key = plan.tied.get(key, key)
        tensor = reader.read(source_key)
        target = out[(*place, ...)].transpose(axes)
        copied = (
            _copy(target, tensor, plan, ranges)
            if isinstance(tensor, np.ndarray)
            else _dequantize(target, tensor, plan, ranges)
        )
        with np.errstate(all="ignore"):  # a cast may overflow to infinity, as in JAX
            for _ in copied:
                reader.release(source_key)


def _copy(
    target: np.ndarray, tensor: np.ndarray, plan: Plan, ranges: Mapping[Hashable, Range]
) -> Iterator[None]:
    """Copy a box of a tensor, some rows at a time."""
    entry, sizes = plan.entry, plan.sizes
    split = None if entry.part is None else entry.part.label
    tensor = tensor.reshape([sizes[label] for label in entry.tensor_labels])
    cut: list[Any] = [
        ranges[label][0] if label == split else slice(*ranges[label])
        for label in entry.tensor_labels
    ]
    part = tensor[(*cut, ...)]
    row = tensor.nbytes // sizes[entry.part_labels[0]] if part.ndim else 0
    for rows in _rows(part, max(1, _CHUNK // max(1, row))):
        target[rows] = part[rows]
        yield


def _dequantize(
    target: np.ndarray, tensor: Quantized, plan: Plan, ranges: Mapping[Hashable, Range]
) -> Iterator[None]:
    """Dequantize a box of a tensor, some elements at a time."""
    left, kept = plan.entry.left, plan.entry.part_labels
    order = [label for axis in tensor.order for label in left[axis].axes]
    of_tensor = {label: ranges[label] for label in order}
    for box in _chunks(of_tensor, order):
        index = [_indices(term.axes, plan.sizes, box) for term in left]
        values = tensor.take(index, target.dtype)
        values = values.reshape([box[label][1] - box[label][0] for label in kept])
        where: list[Any] = [
            slice(box[label][0] - ranges[label][0], box[label][1] - ranges[label][0])
            for label in kept
        ]
        target[(*where, ...)] = values
        yield


def _chunks(
    ranges: dict[Hashable, Range], order: Sequence[Hashable]
) -> Iterator[dict[Hashable, Range]]:
    """Split a product of ranges into small ones, along the first labels of `order`."""
    lengths = {label: stop - start for label, (start, stop) in ranges.items()}
    if math.prod(lengths.values()) <= _DEQUANTIZED:
        yield ranges
        return
    label, *inner = order
    step = max(1, _DEQUANTIZED // math.prod(lengths[one] for one in inner))
    start, stop = ranges[label]
    for first in range(start, stop, step):
        yield from _chunks({**ranges, label: (first, min(first + step, stop))}, inner)


def _indices(
    labels: Sequence[Hashable], sizes: Mapping[Hashable, int], ranges: Mapping[Hashable, Range]
) -> np.ndarray:
    """Return the indices of a product of ranges along an axis of several labels."""
    index = np.zeros(1, np.int64)
    for label in labels:
        index = (index[:, None] * sizes[label] + np.arange(*ranges[label])).reshape(-1)
    return index


def _rows(array: np.ndarray, step: int) -> list[Any]:
    """Return indices that split an array along its first axis."""
    if not array.ndim:
        return [()]
    return [slice(start, start + step) for start in range(0, len(array), step)]


# --- writing --------------------------------------------------------------------------------------


def tensors_of(
    parts: Sequence[tuple[Entry, Any]], sizes: Mapping[Hashable, int]
) -> Iterator[tuple[str, Callable[[], np.ndarray]]]:
    """Return the keys of an entry, each with a function that gathers its tensor on the host.

    Args:
      parts: the entries of one key, each with its array, whose axes have the order of the right
        side.
      sizes: the sizes of the labels.
    """
    entry, _ = parts[0]
    numbers = [
        of.first(sizes[label]) for label, of in zip(entry.numbers, entry.ranges, strict=True)
    ]
    left = entry.tensor_labels
    final = [math.prod(sizes[label] for label in term.axes) for term in entry.left]
    for values in np.ndindex(*map(len, numbers)):
        at = dict(zip(entry.numbers, values, strict=True))

        def gather(at: Mapping[str, int] = at) -> np.ndarray:
            out = np.empty([sizes[label] for label in left], parts[0][1].dtype)
            for entry, data in parts:
                where: Any = [slice(None)] * len(left)
                if entry.part is not None:
                    where[left.index(entry.part.label)] = entry.part.at
                out[(*where, ...)] = _part_of_tensor(entry, sizes, at, data)
            return out.reshape(final)

        yield entry.key_of([of[i] for of, i in zip(numbers, values, strict=True)]), gather


def _part_of_tensor(
    entry: Entry, sizes: Mapping[Hashable, int], at: Mapping[str, int], data: Any
) -> np.ndarray:
    """Return the elements of one tensor that an array has, with one axis for each label."""
    # Along these axes of the array one tensor is one index.
    stacked = {
        axis: at[term.axes[0]]
        for axis, term in enumerate(entry.right)
        if len(term.axes) == 1 and term.axes[0] in entry.numbers
    }
    array = _on_host(data, stacked)
    shape: list[int] = []
    index: list[int | slice] = []
    kept: list[Hashable] = []
    for axis, term in enumerate(entry.right):
        if axis in stacked:
            shape.append(array.shape[axis])
            index.append(0)
            continue
        for label in term.axes:
            shape.append(sizes[label])
            number = at.get(label) if isinstance(label, str) else None
            index.append(slice(None) if number is None else number)
            if number is None:
                kept.append(label)
    part = array.reshape(shape)[tuple(index)]
    return part.transpose([kept.index(label) for label in entry.part_labels])


def _on_host(data: Any, index: Mapping[int, int]) -> np.ndarray:
    """Gather an array on the host, with only these indices of some axes, which get size 1."""
    if not isinstance(data, jax.Array):
        where = [slice(None)] * data.ndim
        for axis, number in index.items():
            where[axis] = slice(number, number + 1)
        return np.asarray(data)[tuple(where)]
    if not data.is_fully_addressable:
        return _from_processes(data, index)
    shape = [1 if axis in index else n for axis, n in enumerate(data.shape)]
    out, done = np.empty(shape, data.dtype), set()
    for shard in data.addressable_shards:
        ranges = [part.indices(n)[:2] for part, n in zip(shard.index, data.shape, strict=True)]
        if tuple(ranges) in done:
            continue
        done.add(tuple(ranges))
        if any(not ranges[axis][0] <= number < ranges[axis][1] for axis, number in index.items()):
            continue
        block = shard.data
        with _mesh_of(shard.device):
            for axis, number in index.items():
                block = lax.dynamic_slice_in_dim(block, number - ranges[axis][0], 1, axis)
        where = [slice(0, 1) if a in index else slice(*r) for a, r in enumerate(ranges)]
        out[tuple(where)] = np.asarray(block)
    return out


def _mesh_of(device: Any) -> AbstractContextManager[object]:
    """Return a context in which JAX computes on one device, under `jax.set_mesh` too."""
    if concrete_mesh(None) is None:
        return contextlib.nullcontext()
    mesh = jax.sharding.Mesh(np.asarray([device]), ("device",))
    return cast(AbstractContextManager[object], jax.set_mesh(mesh))


def _from_processes(data: jax.Array, index: Mapping[int, int]) -> np.ndarray:
    """Gather an array with blocks on other processes; every process takes part."""
    sharding = data.sharding
    if not isinstance(sharding, NamedSharding):
        raise ArgumentTypeError(
            f"to_state_dict: {format_value(data)} has blocks on other processes and no mesh. Shard"
            " it over a mesh with nx.shard."
        )
    axes = tuple(index)
    # A slice of one element of a sharded axis has no type on Explicit axes.
    mesh = auto_mesh(sharding.mesh)
    blocks = [shard.data for shard in data.addressable_shards]
    data = jax.make_array_from_single_device_arrays(
        data.shape, NamedSharding(mesh, sharding.spec), blocks, dtype=data.dtype
    )

    def cut(data: jax.Array, numbers: jax.Array) -> jax.Array:
        for place, axis in enumerate(axes):
            data = lax.dynamic_slice_in_dim(data, numbers[place], 1, axis)
        return data

    numbers = np.asarray([*index.values()], np.int32)
    with without_mesh():
        whole = jax.jit(cut, out_shardings=NamedSharding(mesh, PartitionSpec()))(data, numbers)
    return np.asarray(whole.addressable_data(0))
