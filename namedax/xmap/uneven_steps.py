"""Axes whose number of steps does not divide their size, where a loop in steps begins and ends."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import jax

from namedax.core.names import Dims, MeshAxes, PyTree
from namedax.core.padded_sharding import block_size
from namedax.core.records import Record
from namedax.resources import communication as comm
from namedax.resources.assignment import partition_spec
from namedax.resources.padding import padded, unpadded
from namedax.resources.serial import on_devices

__all__ = ["UnevenSteps"]


class UnevenSteps(Record):
    """Arguments and results along axes whose number of steps does not divide their size.

    Padding is added before the steps and removed after them.

    Attributes:
      call: the `namedax.xmap.lowering.Call`.
      short: the names of these axes.
      shard_map: `jax.shard_map` on the mesh, or `None` without a mesh. Each device slices its
        block, and the blocks are gathered.
    """

    call: Any
    short: frozenset[Hashable]
    shard_map: Callable[..., Any] | None

    def padded(self, datas: Sequence[Any]) -> list[Any]:
        """Pad the data of the arguments, which is unsharded along these axes."""
        return self._each(list(datas), self.call.argument_dims(), self._pad, before=True)

    def unpadded(self, results: PyTree) -> PyTree:
        """Remove the padding of the results. Requires a traced body."""
        leaves, tree = jax.tree.flatten(results)
        return jax.tree.unflatten(
            tree,
            self._each(leaves, self.call.result_dims(), self._unpad, before=False),
        )

    def _pad(self, data: jax.Array, dim: int, name: Hashable, axes: MeshAxes) -> jax.Array:
        region = self.call.region
        blocks = region.mesh_axis_size(region.resources[name])
        data = padded(data, dim, block_size(region.sizes[name], blocks) * blocks)
        return comm.cut(data, dim, axes) if axes else data

    def _unpad(self, data: jax.Array, dim: int, name: Hashable, axes: MeshAxes) -> jax.Array:
        data = comm.all_gather(data, dim, axes, "invarying") if axes else data
        return unpadded(data, dim, self.call.region.sizes[name])

    def _each(
        self, datas: list[Any], dims: Sequence[Dims], change: Callable[..., jax.Array], before: bool
    ) -> list[Any]:
        devices = on_devices(self.call.region.resources)
        for i, own in enumerate(dims):
            places = [
                (dim, name, devices.get(name, ()))
                for dim, name in enumerate(own)
                if name in self.short
            ]
            if not places:
                continue

            def changed(
                data: jax.Array, places: list[tuple[int, Hashable, MeshAxes]] = places
            ) -> jax.Array:
                for place in places:
                    data = change(data, *place)
                return data

            if self.shard_map is not None:
                whole = [None if name in self.call.region.uneven else name for name in own]
                cut = [
                    None if name in self.call.region.uneven - self.short else name for name in own
                ]
                resources = self.call.with_stored(devices)
                specs = [partition_spec(names, resources) for names in (whole, cut)]
                changed = self.shard_map(
                    changed, in_specs=(specs[not before],), out_specs=specs[before]
                )
            datas[i] = changed(datas[i])
        return datas
