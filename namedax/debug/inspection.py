"""`nx.debug.inspect_sharding`: the placement of named arrays, by name."""

from __future__ import annotations

import builtins
import dataclasses
import functools
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import jax
from jax.sharding import NamedSharding, Sharding

from namedax.core.array import NamedArray, dims_of, is_named, stored_data
from namedax.core.display import shown_placements, type_text
from namedax.core.names import Dims, PyTree
from namedax.core.region import Region, ambient
from namedax.errors import ArgumentTypeError, format_value
from namedax.messages.call_errors import checks_signature
from namedax.ops.operands.broadcasting import to_local

__all__ = ["Placement", "inspect_sharding"]


@dataclasses.dataclass(frozen=True)
class Placement:
    """The placement of an array. It prints as text.

    Attributes:
      type: the type of the array, such as `f32[]{batch:8@data, k:6}`.
      axes: the mesh axes of each name, and of each position, major first; empty if it is not
        sharded. `None` if only the number of blocks is known.
      blocks: the number of blocks of each name and each position, and their size.
      replicated: the mesh axes over which the array is replicated.
    """

    type: str
    axes: Mapping[Hashable, tuple[str, ...] | None]
    blocks: Mapping[Hashable, tuple[int, int]]
    replicated: tuple[str, ...]

    def __str__(self) -> str:
        parts = []
        for name, axes in self.axes.items():
            count, size = self.blocks[name]
            label = f"position {name}" if isinstance(name, int) else str(name)
            if count == 1:
                continue
            over = "" if axes is None else f"{', '.join(axes)} "
            parts.append(f"{label} -> {over}({count} blocks of {size})")
        if self.replicated:
            parts.append(f"replicated over {', '.join(self.replicated)}")
        return f"{self.type}: {'; '.join(parts) or 'on one device'}"


@checks_signature
def inspect_sharding(x: PyTree, *, callback: Callable[[Placement], object] | None = None) -> None:
    """Show the placement of named arrays: the mesh axes and the blocks of each name.

    In a mapped body the placement is known, and is shown while JAX traces the body. Under `jax.jit`
    outside of bodies, and with `partitioning="auto"`, XLA chooses it, and it is shown when XLA has
    compiled the program (`jax.debug.inspect_array_sharding`). For concrete arrays it is shown at
    once.

    Args:
      x: a pytree of named arrays and arrays.
      callback: a function of a `Placement`, for each array. Default: it is printed.

    Communication: none.

    Raises:
      ArgumentTypeError: `callback` is not a function.

    >>> import jax, jax.numpy as jnp, namedax as nx
    >>> mesh = jax.make_mesh((2,), ("x",))
    >>> def double(v):
    ...     nx.debug.inspect_sharding(v)
    ...     return 2 * v
    >>> v = nx.named(jnp.arange(4.0), ["batch"])
    >>> _ = nx.xmap(double, axis_resources={"batch": "x"}, mesh=mesh)(v)
    f32[]{batch:4@x}: batch -> x (2 blocks of 2)
    """
    if callback is not None and not callable(callback):
        raise ArgumentTypeError(
            f"nx.debug.inspect_sharding: callback must be a function, got {format_value(callback)}."
            " Leave it out to print the placement."
        )
    show: Callable[[Placement], object] = builtins.print if callback is None else callback
    region = ambient()
    for leaf in jax.tree.leaves(x, is_leaf=is_named):
        if region is not None and region.manual:
            show(_in_body(to_local(leaf, "nx.debug.inspect_sharding", region), region))
            continue
        data = stored_data(leaf) if is_named(leaf) else leaf
        if isinstance(data, jax.core.Tracer):
            text, dims, shape = type_text(leaf), dims_of(leaf), tuple(data.shape)
            jax.debug.inspect_array_sharding(
                data, callback=functools.partial(_show, show, text, dims, shape)
            )
        elif isinstance(data, jax.Array):
            _show(show, type_text(leaf), dims_of(leaf), data.shape, data.sharding)


def _show(
    show: Callable[[Placement], object],
    text: str,
    dims: Dims,
    shape: tuple[int, ...],
    sharding: Sharding,
) -> None:
    show(_of_sharding(text, dims, shape, sharding))


def _labels(dims: Dims) -> list[Hashable]:
    """Return the names, and the positions of axes without a name."""
    positions = iter(range(len(dims)))
    return [next(positions) if dim is None else dim for dim in dims]


def _in_body(leaf: Any, region: Region) -> Placement:
    dims = dims_of(leaf)
    shape = leaf.data.shape if isinstance(leaf, NamedArray) else jax.numpy.shape(leaf)
    places = shown_placements(leaf) if isinstance(leaf, NamedArray) else [()] * len(dims)
    axes = dict(zip(_labels(dims), places, strict=True))
    blocks = {
        label: (region.mesh_axis_size(place), n)
        for (label, place), n in zip(axes.items(), shape, strict=True)
    }
    used = {axis for place in places for axis in place}
    replicated = tuple(axis for axis in region.mesh.axis_names if axis not in used)
    return Placement(type_text(leaf), axes, blocks, replicated)


def _of_sharding(text: str, dims: Dims, shape: Sequence[int], sharding: Sharding) -> Placement:
    labels, block = _labels(dims), sharding.shard_shape(tuple(shape))
    blocks = {
        label: (-(-n // max(size, 1)) if n else 1, size)
        for label, n, size in zip(labels, shape, block, strict=True)
    }
    if not isinstance(sharding, NamedSharding):
        return Placement(text, dict.fromkeys(labels, None), blocks, ())
    entries = [*sharding.spec.partitions, *[None] * len(labels)]
    places = [
        () if entry is None else (entry,) if isinstance(entry, str) else tuple(entry)
        for entry in entries[: len(labels)]
    ]
    used = {axis for place in places for axis in place}
    replicated = tuple(axis for axis in sharding.mesh.axis_names if axis not in used)
    return Placement(text, dict(zip(labels, places, strict=True)), blocks, replicated)
