"""Reading of stored arrays with their target sharding: the blocks that a device reads, and their conversion.

An array is read in its stored order of axes, each device its own block. If another order is
requested, the block is transposed on its device.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec, SingleDeviceSharding

from namedax.checkpoints.fitting import Wanted
from namedax.checkpoints.trees import Path, Stored, Value, path_text
from namedax.checkpoints.written_names import identity, written_name
from namedax.core.array import make
from namedax.errors import MeshError
from namedax.resources.assignment import Assignment, named_sharding
from namedax.resources.mesh import entry_of

__all__ = ["Reading", "placed_value"]


class Reading(NamedTuple):
    """The plan for one stored array."""

    stored: Stored
    wanted: Wanted
    sharding: Any  # of the result; `None` leaves it to JAX
    order: tuple[int, ...]  # for each axis of the result, the index of the stored axis

    @classmethod
    def of(
        cls,
        stored: Stored,
        wanted: Wanted,
        placement: tuple[Assignment, Mesh] | None,
        path: Path,
        op: str,
    ) -> Reading:
        """Make the plan for one array.

        Raises:
          MeshError: the array is requested on a mesh without devices.
        """
        sharding = wanted.sharding
        if placement is not None:
            sharding = named_sharding(wanted.dims, wanted.shape, *placement, op)
        elif isinstance(sharding, NamedSharding) and not isinstance(sharding.mesh, Mesh):
            raise MeshError(
                f"{op}: {path_text(path)} is requested on an AbstractMesh,"
                f" {dict(sharding.mesh.shape)}, which has no devices. Pass mesh=jax.make_mesh(...),"
                " with axis_resources=."
            )
        return cls(stored, wanted, None if wanted.host else sharding, _order(stored, wanted, op))

    def restore_args(self, ocp: Any) -> Any:
        """Return the orbax arguments for this array."""
        sharding = self._as_read()
        if sharding is None:
            return ocp.RestoreArgs(restore_type=np.ndarray)
        shape, dtype = self.stored.shape, self.stored.dtype
        if self.stored.key is not None:
            data = jax.eval_shape(jax.random.key_data, jax.ShapeDtypeStruct(shape, dtype))
            shape, dtype = data.shape, data.dtype
        return ocp.ArrayRestoreArgs(sharding=sharding, global_shape=shape, dtype=dtype)

    def _as_read(self) -> Any:
        """Return the sharding for reading the stored array, the permuted sharding of the result; `None` for the host."""
        sharding = self.sharding
        if isinstance(sharding, NamedSharding):
            spec: list[Any] = [None] * len(self.order)
            for place, axis in enumerate(self.order):
                spec[axis] = entry_of(sharding.spec, place) or None
            return NamedSharding(
                sharding.mesh, PartitionSpec(*spec), memory_kind=sharding.memory_kind
            )
        return sharding if isinstance(sharding, SingleDeviceSharding) else None

    def finish(self, data: Any) -> Any:
        """Convert the read data to the requested array; `data` is `None` if there is nothing to read."""
        stored, wanted = self.stored, self.wanted
        if data is None:
            data = (
                jnp.zeros(wanted.shape, wanted.dtype)
                if stored.key is None
                else _no_keys(wanted, stored.key)
            )
            data = np.zeros(wanted.shape, wanted.dtype) if wanted.host else data
        else:
            order = (*self.order, *range(len(self.order), data.ndim))
            if order != tuple(range(data.ndim)):
                data = (
                    lax.transpose(data, order)
                    if isinstance(data, jax.Array)
                    else np.transpose(data, order)
                )
            if stored.key is not None:
                data = jax.random.wrap_key_data(data, impl=stored.key)
        if not wanted.host:
            on_host = isinstance(data, np.ndarray)
            data = (
                jnp.asarray(data) if self.sharding is None else jax.device_put(data, self.sharding)
            )
            if on_host:
                jax.block_until_ready(
                    data
                )  # so that only one array at a time has two copies in memory
        return make(data, wanted.dims) if any(dim is not None for dim in wanted.dims) else data


def _no_keys(wanted: Wanted, kind: str) -> Any:
    return jax.random.split(jax.random.key(0, impl=kind), wanted.shape)


def _order(stored: Stored, wanted: Wanted, op: str) -> tuple[int, ...]:
    if len(stored.dims) != len(wanted.dims):
        raise AssertionError(f"{op}: {stored} and {wanted} were not compared")
    named = {identity(dim): axis for axis, dim in enumerate(stored.dims) if dim is not None}
    positional = iter([axis for axis, dim in enumerate(stored.dims) if dim is None])
    return tuple(
        next(positional) if dim is None else named[identity(written_name(dim, op, "an axis"))]
        for dim in wanted.dims
    )


def placed_value(
    value: Any, wanted: Wanted | Value, placement: tuple[Assignment, Mesh] | None
) -> Any:
    """Return a Python value in the requested form: itself, or an array without axes."""
    if isinstance(wanted, Value):
        return value
    if wanted.host:
        return np.asarray(value, wanted.dtype)
    sharding = (
        wanted.sharding if placement is None else NamedSharding(placement[1], PartitionSpec())
    )
    array = jnp.asarray(value, wanted.dtype)
    return array if sharding is None else jax.device_put(array, sharding)
