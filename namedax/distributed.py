"""Multi-process arrays, and the memory per device of layouts for any mesh.

JAX's runtime connects the processes (`jax.distributed.initialize`). Then every process runs the
same program, and a mesh spans the devices of all processes. This module computes which indices of a
named axis a process must load. It also assembles the local data of all processes into one global
array.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Hashable, Mapping
from typing import Any

import jax
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from namedax.core.annotations import AnyArray
from namedax.core.array import make
from namedax.core.axis_mappings import AxisMapping
from namedax.core.display import type_text
from namedax.core.element_types import check_numbers, native_order
from namedax.core.names import Mesh, PyTree
from namedax.core.region import Region, ambient
from namedax.errors import (
    AxisMappingError,
    AxisResourceError,
    AxisSizeError,
    MeshError,
    did_you_mean,
    show_names,
)
from namedax.messages.call_errors import checks_signature
from namedax.messages.layout_names import check_layout_names
from namedax.ops.shape.conversion import attach_names, map_with_mappings
from namedax.resources.assignment import (
    Assignment,
    check_mesh_axes,
    parse_placement,
    partition_spec,
)
from namedax.resources.mesh import mesh_with_devices
from namedax.resources.processes import compare, mesh_text, spans_processes, stable_text

__all__ = ["bytes_per_device", "from_process_local", "process_entries"]


def __dir__() -> list[str]:
    return __all__


def placement(
    axis_resources: Mapping[Hashable, Any], mesh: Mesh | None, op: str
) -> tuple[Assignment, jax.sharding.Mesh]:
    """Parse `axis_resources` and find a mesh with devices, outside of mapped functions."""
    surrounding = ambient()
    if surrounding is not None and surrounding.resources:
        raise AxisResourceError(
            f"{op}: this function cannot be called inside a mapped function. Call it before the"
            " mapped function."
        )
    assignment = parse_placement(axis_resources, op)
    found = mesh_with_devices(mesh, op)
    check_mesh_axes(assignment, found, op)
    return assignment, found


@functools.lru_cache(maxsize=1024)
def _own_blocks(mesh: jax.sharding.Mesh, axes: tuple[str, ...]) -> tuple[tuple[int, ...], bool]:
    """Return the indices of the blocks along `axes` that this process holds, and a flag.

    The flag is True if every process has equally many blocks, and every other process has either
    the same blocks or no common block.
    """
    count = math.prod(mesh.shape[axis] for axis in axes)
    where = NamedSharding(mesh, PartitionSpec(axes)).devices_indices_map((count,))
    blocks: dict[int, set[int]] = {}
    device: Any  # its type is not public in JAX
    for device, (index,) in where.items():
        blocks.setdefault(device.process_index, set()).add(index.indices(count)[0])
    own = blocks.get(jax.process_index(), set())
    uniform = all(own == other or own.isdisjoint(other) for other in blocks.values())
    uniform = uniform and all(len(other) == len(own) for other in blocks.values())
    return tuple(sorted(own)), uniform


@checks_signature
def process_entries(
    name: Hashable, size: int, axis_resources: Mapping[Hashable, Any], mesh: Mesh | None = None
) -> np.ndarray:
    """Return the indices along an axis that this process must pass to `from_process_local`.

    The result is all indices if the axis is not sharded, or if each process has all devices along
    its mesh axes. Processes that hold the same block must pass the same data.

    Args:
      name: the name of the axis.
      size: the global size of the axis.
      axis_resources: as in `xmap`.
      mesh: a mesh. Default: the mesh of `jax.set_mesh`.

    Returns:
      The indices in ascending order.

    Raises:
      AxisSizeError: the number of blocks does not divide the size of the axis.
      AxisResourceError: `axis_resources` is malformed or has a misspelled axis name, or the call is
        inside a mapped function.
      MeshError: there is no mesh, or it lacks a mesh axis or devices.

    >>> import jax, namedax as nx
    >>> mesh = jax.make_mesh((4, 2), ("data", "model"))
    >>> nx.process_entries("batch", 8, {"batch": "data"}, mesh)  # the first of two would get 0 to 3
    array([0, 1, 2, 3, 4, 5, 6, 7])
    """
    assignment, mesh = placement(axis_resources, mesh, "process_entries")
    check_layout_names("process_entries", axis_resources, [name])
    axes = assignment.get(name, ())
    if not axes:
        return np.arange(size)
    Region({}, assignment, mesh, "manual", None).block_size(name, size, "process_entries")
    blocks, _ = _own_blocks(mesh, axes)
    entries: np.ndarray = (
        np.arange(size)
        .reshape(math.prod(mesh.shape[axis] for axis in axes), -1)[list(blocks)]
        .ravel()
    )
    return entries


@checks_signature
def from_process_local(
    data: object,
    axes: object,
    axis_resources: Mapping[Hashable, Any],
    mesh: Mesh | None = None,
    global_sizes: Mapping[Hashable, int] | None = None,
) -> PyTree:
    """Assemble global named arrays from the local data of all processes.

    Use it to load input in a multi-process program.

    Along every sharded axis, each process passes the data at the indices from `process_entries`, in
    that order. Along other axes it passes all data. Blocks that several processes hold must be
    equal; this is not checked. In a single process, the local data is the global data.

    Communication: no data is sent. On the first call, the processes compare the global sizes.

    Args:
      data: the local data of this process: an array, such as a NumPy array, or a pytree of arrays.
      axes: an axis mapping, or a pytree prefix of mappings, as in `nx.named`; `None` for arrays
        that are already named.
      axis_resources: as in `xmap`. Axis names that no array has, and `SerialLoop`s, have no effect
        here.
      mesh: a mesh. Default: the mesh of `jax.set_mesh`.
      global_sizes: global sizes of axes, to check. Every process may also pass such an axis in
        full, and keeps its own block. Default: none.

    Returns:
      Arrays with global sizes, sharded by `axis_resources`. An array without named axes is
      replicated.

    Raises:
      AxisMappingError: a mapping is malformed or does not match, or `global_sizes` contains a name
        that no array has.
      AxisSizeError: the local size of an axis is invalid, or the processes have different global
        arrays.
      AxisResourceError: `axis_resources` is malformed or has a misspelled axis name, or the call is
        inside a mapped function.
      MeshError: there is no mesh, or it lacks a mesh axis or devices. Or processes share some of
        their blocks of an axis but not all; then pass the full axis, and its size in
        `global_sizes`.
      PlacementConflictError: two axes of one array are sharded over one mesh axis.

    >>> import jax, numpy as np, namedax as nx
    >>> mesh = jax.make_mesh((4, 2), ("data", "model"))
    >>> resources = {"batch": "data"}
    >>> dataset = np.ones((8, 3), np.float32)
    >>> mine = nx.process_entries("batch", 8, resources, mesh)
    >>> nx.from_process_local(dataset[mine], ["batch", "inputs"], resources, mesh).sharding.spec
    P('data', None)
    """
    op = "from_process_local"
    assignment, mesh = placement(axis_resources, mesh, op)
    region = Region({}, assignment, mesh, "manual", None)
    wanted = dict(global_sizes or {})
    seen: set[Hashable] = set()
    types: dict[str, Any] = {}

    def assemble(leaf: Any, mapping: AxisMapping | None, path: tuple[Any, ...]) -> AnyArray:
        leaf = leaf if hasattr(leaf, "shape") else np.asarray(leaf)
        check_numbers(op, leaf)
        leaf = native_order(leaf)
        what = f"the array{jax.tree_util.keystr(path)}, {type_text(leaf)}"
        block, dims = attach_names(leaf, mapping, op, what)
        if isinstance(block, jax.Array) and not block.is_fully_addressable:
            raise AxisMappingError(
                f"{op}: {what}, is a multi-process array already. Pass the local data of this"
                " process; to reshard a global array, use nx.shard."
            )
        region.check_placement(op, (dim for dim in dims if dim is not None))
        seen.update(dim for dim in dims if dim is not None)
        shape = tuple(
            n if dim is None else _global_size(dim, n, wanted.get(dim), region, what)
            for dim, n in zip(dims, np.shape(block), strict=True)
        )
        types[jax.tree_util.keystr(path)] = (
            str(np.dtype(block.dtype)) if hasattr(block, "dtype") else "",
            shape,
            dims,
        )
        sharding = NamedSharding(mesh, partition_spec(dims, assignment))
        # In a single process JAX accepts only the shape of the data.
        whole = jax.make_array_from_process_local_data(
            sharding, block, None if jax.process_count() == 1 else shape
        )
        return make(whole, dims) if any(dim is not None for dim in dims) else whole

    result = map_with_mappings(assemble, data, axes, op)
    check_layout_names(op, axis_resources, seen)
    if spans_processes(mesh):
        call = {
            "global arrays": stable_text(types),
            "axis_resources": stable_text(assignment),
            "mesh": mesh_text(mesh),
        }
        compare(op, call, mesh, AxisSizeError, once=True)
    for name in wanted:
        if name not in seen:
            raise AxisMappingError(
                f"{op}: global_sizes gives {name!r} the size {wanted[name]}, but no array has that"
                " axis; the axes are"
                f" {show_names(sorted(seen, key=str))}.{did_you_mean(name, seen)}"
            )
    return result


def _global_size(name: Hashable, part: int, wanted: int | None, region: Region, what: str) -> int:
    """Return the global size of an axis whose local data on this process has size `part`."""
    op = "from_process_local"
    axes = region.placement(name)
    count = region.blocks(name)
    own, uniform = _own_blocks(region.mesh, axes) if axes else ((0,), True)
    if wanted is None:
        if not uniform:
            raise MeshError(
                f"{op}: axis {name!r} of {what}, is sharded over mesh axes {axes}, and some"
                f" processes share only a part of its {count} blocks; the local size does not"
                " determine the global size. Pass its size in global_sizes, and the full axis as"
                " data."
            )
        if part % len(own):
            raise AxisSizeError(
                f"{op}: axis {name!r} of {what}, has local size {part} on this process, which holds"
                f" {len(own)} of its {count} blocks over mesh axes {axes}; the local size must be a"
                f" multiple of {len(own)}. See nx.process_entries."
            )
        return part // len(own) * count
    block = region.block_size(name, wanted, op)
    if part != wanted and (not uniform or part != block * len(own)):
        share = "all"
        if axes and uniform:
            share = (
                f"{block * len(own)} ({len(own)} of {count} blocks over mesh axes {axes}), or all"
            )
        raise AxisSizeError(
            f"{op}: axis {name!r} of {what}, has local size {part}; of the size {wanted} in"
            f" global_sizes, this process must pass {share}. See nx.process_entries."
        )
    return wanted


@checks_signature
def bytes_per_device(tree: PyTree) -> int:
    """Return the bytes per device of a tree of arrays, by their shardings.

    The tree may also contain types with a sharding (`nx.interop.abstract`), to compare layouts
    without the devices. A value without a sharding counts in full. So does a value in a mapped
    body, which is already the block of one device.

    Args:
      tree: a pytree of arrays, named or not, or of their types.

    Returns:
      The number of bytes.

    >>> import jax, jax.numpy as jnp, namedax as nx
    >>> mesh = jax.sharding.AbstractMesh((64, 64), ("data", "model"))
    >>> types = jax.eval_shape(lambda: {"w": nx.named(jnp.ones((8192, 1024)), ["hidden", "out"])})
    >>> layout = nx.interop.abstract(types, {"hidden": "model"}, mesh)
    >>> nx.distributed.bytes_per_device(layout) == 4 * 8192 * 1024 // 64
    True
    """
    total = 0
    for leaf in jax.tree.leaves(tree):
        shape, sharding = np.shape(leaf), getattr(leaf, "sharding", None)
        if isinstance(sharding, jax.sharding.Sharding) and not isinstance(leaf, jax.core.Tracer):
            shape = sharding.shard_shape(shape)
        dtype = leaf.dtype if hasattr(leaf, "dtype") else jax.dtypes.result_type(leaf)
        total += math.prod(shape) * int(dtype.itemsize)
    return total
