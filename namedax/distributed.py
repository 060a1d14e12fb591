"""Many processes: named arrays of which each process holds a part, and layouts for machines that are not there.

JAX's own runtime connects the processes (`jax.distributed.initialize`). After that every process runs the same program, and a
mesh spans the devices of all. This module derives from an array's names what concerns processes: which entries of an axis a
process must bring, and how the parts of all of them become one array.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Hashable, Mapping
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from namedax.core.array import make
from namedax.core.axis_mappings import AxisMapping
from namedax.core.call_errors import checks_signature
from namedax.core.display import type_text
from namedax.core.element_types import check_numbers
from namedax.core.region import Region, ambient
from namedax.errors import AxisMappingError, AxisResourceError, AxisSizeError, MeshError, did_you_mean, show_names
from namedax.ops.shape.conversion import attach_names, map_with_mappings
from namedax.resources.assignment import Assignment, check_mesh_axes, parse_resources, partition_spec
from namedax.resources.mesh import mesh_with_devices
from namedax.resources.processes import compare, mesh_text, spans_processes, stable_text
from namedax.resources.serial import on_devices, with_loops

__all__ = ["bytes_per_device", "from_process_local", "process_entries"]


def __dir__() -> list[str]:
    return __all__


def placement(axis_resources: Mapping[Hashable, Any], mesh: Any, op: str) -> tuple[Assignment, Mesh]:
    """An assignment and a mesh with devices, by which arrays are placed outside of mapped functions."""
    surrounding = ambient()
    if surrounding is not None and surrounding.resources:
        raise AxisResourceError(
            f"{op}: says where arrays live outside of mapped functions; call it before the mapped function."
        )
    assignment = on_devices(with_loops(parse_resources(axis_resources, op)))  # time is not a place
    found = mesh_with_devices(mesh, op)
    check_mesh_axes(assignment, found, op)
    return assignment, found


@functools.lru_cache(maxsize=1024)
def _own_blocks(mesh: Mesh, axes: tuple[str, ...]) -> tuple[tuple[int, ...], bool]:
    """The numbers of the blocks along `axes` that lie on this process, and whether processes that share one share all."""
    count = math.prod(mesh.shape[axis] for axis in axes)
    where = NamedSharding(mesh, PartitionSpec(axes)).devices_indices_map((count,))
    blocks: dict[int, set[int]] = {}
    device: Any  # whose type JAX keeps to itself
    for device, (index,) in where.items():
        blocks.setdefault(device.process_index, set()).add(index.indices(count)[0])
    own = blocks.get(jax.process_index(), set())
    uniform = all(own == other or own.isdisjoint(other) for other in blocks.values())
    uniform = uniform and all(len(other) == len(own) for other in blocks.values())
    return tuple(sorted(own)), uniform


@checks_signature
def process_entries(name: Hashable, size: int, axis_resources: Mapping[Hashable, Any], mesh: Any = None) -> np.ndarray:
    """Which entries of an axis this process must bring to `from_process_local`.

    All of them where the axis is not mapped, and where its mesh axes lie within each process. Processes that hold the same
    block must bring the same entries.

    Args:
      name: the axis.
      size: its global size.
      axis_resources: as in `xmap`.
      mesh: a mesh; default: that of `jax.set_mesh`.

    Returns:
      Their indices, ascending.

    Raises:
      AxisSizeError: the axis does not divide over its mesh axes.
      AxisResourceError: `axis_resources` is malformed, or this is inside of a mapped function.
      MeshError: there is no mesh, or it lacks a mesh axis or devices.

    >>> import jax
    >>> mesh = jax.make_mesh((4, 2), ("data", "model"))
    >>> process_entries("batch", 8, {"batch": "data"}, mesh)  # of two processes the first would have 0 to 3
    array([0, 1, 2, 3, 4, 5, 6, 7])
    """
    assignment, mesh = placement(axis_resources, mesh, "process_entries")
    axes = assignment.get(name, ())
    if not axes:
        return np.arange(size)
    Region({}, assignment, mesh, "manual", None).block_size(name, size, "process_entries")
    blocks, _ = _own_blocks(mesh, axes)
    entries: np.ndarray = np.arange(size).reshape(math.prod(mesh.shape[axis] for axis in axes), -1)[list(blocks)].ravel()
    return entries


@checks_signature
def from_process_local(
    data: Any,
    axes: Any,
    axis_resources: Mapping[Hashable, Any],
    mesh: Any = None,
    global_sizes: Mapping[Hashable, int] | None = None,
) -> Any:
    """Global named arrays, made from the parts that the processes bring. For input, in a program of many processes.

    Along every mapped axis, each process passes the entries that `process_entries` names, in that order; along an axis that is
    not mapped, all of them. Parts that several processes hold must be equal: this is not checked. No data is sent; at the first call
    the processes compare the global sizes. In a single process the part is everything.

    Args:
      data: this process's part: an array (of NumPy, say), or a pytree of them.
      axes: an axis mapping, or a pytree prefix of mappings, as in `nx.named`; `None` for arrays that have names already.
      axis_resources: as in `xmap`; names that no array has do not matter here, nor does a `SerialLoop`.
      mesh: a mesh; default: that of `jax.set_mesh`.
      global_sizes: global sizes of axes, to be checked. An axis whose size is given here may also be brought whole by every
        process, which then keeps its part.

    Returns:
      Arrays with global sizes, each name on its mesh axes; an array without names is replicated.

    Raises:
      AxisMappingError: a mapping is malformed or does not fit, or `global_sizes` mentions a name that no array has.
      AxisSizeError: the part of an axis has a size that it cannot have, or the processes have different global arrays.
      AxisResourceError: `axis_resources` is malformed, or this is inside of a mapped function.
      MeshError: there is no mesh, it lacks a mesh axis or devices, or it spreads an axis such that processes share some of their
        blocks and not all; then give the size of the axis in `global_sizes`, and the whole axis.
      PlacementConflictError: two names of one array are on one mesh axis.

    >>> import jax, numpy as np, namedax as nx
    >>> mesh = jax.make_mesh((4, 2), ("data", "model"))
    >>> resources = {"batch": "data"}
    >>> dataset = np.ones((8, 3), np.float32)
    >>> mine = process_entries("batch", 8, resources, mesh)
    >>> from_process_local(dataset[mine], ["batch", "inputs"], resources, mesh).sharding.spec
    P('data', None)
    """
    op = "from_process_local"
    assignment, mesh = placement(axis_resources, mesh, op)
    region = Region({}, assignment, mesh, "manual", None)
    wanted = dict(global_sizes or {})
    seen: set[Hashable] = set()
    types: dict[str, Any] = {}

    def one(leaf: Any, mapping: AxisMapping | None, path: Any) -> Any:
        leaf = leaf if hasattr(leaf, "shape") else np.asarray(leaf)
        check_numbers(op, leaf)
        what = f"the array{jax.tree_util.keystr(path)}, {type_text(leaf)}"
        block, dims = attach_names(leaf, mapping, op, what)
        if isinstance(block, jax.Array) and not block.is_fully_addressable:
            raise AxisMappingError(
                f"{op}: {what}, is an array of many processes already; give this process's part. For a different placement use "
                "nx.shard."
            )
        region.check_placement(op, (dim for dim in dims if dim is not None))
        seen.update(dim for dim in dims if dim is not None)
        shape = tuple(
            n if dim is None else _global_size(dim, n, wanted.get(dim), region, what)
            for dim, n in zip(dims, np.shape(block), strict=True)
        )
        types[jax.tree_util.keystr(path)] = (str(np.dtype(block.dtype)) if hasattr(block, "dtype") else "", shape, dims)
        sharding = NamedSharding(mesh, partition_spec(dims, assignment))
        # In one process JAX takes no shape but that of the data.
        whole = jax.make_array_from_process_local_data(sharding, block, None if jax.process_count() == 1 else shape)
        return make(whole, dims) if any(dim is not None for dim in dims) else whole

    result = map_with_mappings(one, data, axes, op)
    if spans_processes(mesh):
        call = {"global arrays": stable_text(types), "axis_resources": stable_text(assignment), "mesh": mesh_text(mesh)}
        compare(op, call, mesh, AxisSizeError, once=True)
    for name in wanted:
        if name not in seen:
            raise AxisMappingError(
                f"{op}: global_sizes gives {name!r} the size {wanted[name]}, but no array has that axis; the names are "
                f"{show_names(sorted(seen, key=str))}.{did_you_mean(name, seen)}"
            )
    return result


def _global_size(name: Hashable, part: int, wanted: int | None, region: Region, what: str) -> int:
    """The global size of an axis of which this process brings `part` entries."""
    op = "from_process_local"
    axes = region.placement(name)
    count = region.blocks(name)
    own, uniform = _own_blocks(region.mesh, axes) if axes else ((0,), True)
    if wanted is None:
        if not uniform:
            raise MeshError(
                f"{op}: axis {name!r} of {what}, is on mesh axes {axes}, of whose {count} blocks some processes share a part, so "
                "that its size does not follow from this process's entries. Give its size in global_sizes, and the whole axis."
            )
        if part % len(own):
            raise AxisSizeError(
                f"{op}: axis {name!r} of {what}, has {part} entries on this process, which holds {len(own)} of its {count} blocks "
                f"over mesh axes {axes}; that takes a multiple of {len(own)}. See nx.process_entries."
            )
        return part // len(own) * count
    block = region.block_size(name, wanted, op)
    if part != wanted and (not uniform or part != block * len(own)):
        share = "all"
        if axes and uniform:
            share = f"{block * len(own)} ({len(own)} of {count} blocks over mesh axes {axes}), or all"
        raise AxisSizeError(
            f"{op}: axis {name!r} of {what}, has {part} entries; of the {wanted} in global_sizes this process brings {share}. See "
            "nx.process_entries."
        )
    return wanted


@checks_signature
def bytes_per_device(tree: Any) -> int:
    """The bytes that a tree of arrays takes on each device, by their shardings.

    For arrays, and for types with a placement (`nx.interop.abstract`), so that a layout can be judged without the machine. A value
    without a sharding counts whole, as do the values of a mapped body, which are the blocks of one device already.

    >>> import jax, jax.numpy as jnp, namedax as nx
    >>> mesh = jax.sharding.AbstractMesh((64, 64), ("data", "model"))
    >>> types = jax.eval_shape(lambda: {"w": nx.named(jnp.ones((8192, 1024)), ["hidden", "out"])})
    >>> bytes_per_device(nx.interop.abstract(types, {"hidden": "model"}, mesh)) == 4 * 8192 * 1024 // 64
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
