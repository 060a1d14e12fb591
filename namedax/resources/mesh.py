"""Which mesh applies, and bringing arrays onto it.

On a mesh with Auto axes XLA moves what arrives with another sharding. On one with Explicit axes the sharding is part of a
value's type, and has to be changed before it enters `jax.shard_map`; mesh axes that a program does not use keep what they hold.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import Any

import jax
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

__all__ = ["auto_mesh", "concrete_mesh", "current_mesh", "has_explicit_axes", "is_placed", "mesh_for", "to_spec", "use_mesh"]


def current_mesh() -> Any:
    """The mesh of the surrounding `jax.set_mesh`, as an abstract mesh, or `None`."""
    mesh = jax.sharding.get_abstract_mesh()
    return None if mesh.empty else mesh


def concrete_mesh(mesh: Any) -> Mesh | None:
    """`mesh`, or else that of the surrounding `jax.set_mesh`, if it is one with devices; `None` while JAX is tracing."""
    if mesh is None:
        try:
            mesh = jax.sharding.get_mesh()
        except ValueError:  # "can only be used outside of jax.jit"
            return None
    return mesh if isinstance(mesh, Mesh) and not mesh.empty else None


def mesh_for(mesh: Any, datas: Iterable[Any]) -> Any:
    """`mesh`, or its Auto version where it has Explicit axes of which no value's type speaks.

    JAX tracks shardings in types where a value arrives with such a type, or under `jax.set_mesh`. Where it does not track any, a
    result with such a type would be of no use to the caller: JAX refuses eager gradients of it, for one.
    """
    if not has_explicit_axes(mesh) or current_mesh() is not None:
        return mesh
    for data in datas:
        sharding = jax.typeof(data).sharding
        if isinstance(sharding, NamedSharding) and not sharding.mesh.empty and has_explicit_axes(sharding.mesh):
            return mesh
    return auto_mesh(mesh)


def use_mesh(mesh: Any, from_context: bool) -> Any:
    """A context manager that makes `mesh` the one that JAX's sharding functions see while tracing."""
    if from_context:
        return contextlib.nullcontext()
    return jax.sharding.use_abstract_mesh(mesh.abstract_mesh if isinstance(mesh, Mesh) else mesh)


def has_explicit_axes(mesh: Any) -> bool:
    """Whether some axis of the mesh is Explicit."""
    return any(kind == AxisType.Explicit for kind in mesh.axis_types)


def auto_mesh(mesh: Any) -> Any:
    """The same devices with every axis Auto."""
    kinds = (AxisType.Auto,) * len(mesh.axis_names)
    if isinstance(mesh, Mesh):
        return Mesh(mesh.devices, mesh.axis_names, axis_types=kinds)
    return mesh.update(axis_types=kinds)


def to_spec(data: Any, spec: PartitionSpec, mesh: Any, manual: frozenset[str]) -> Any:
    """`data` resharded to `spec`, where the sharding is part of its type (Explicit axes); otherwise `data` as it is.

    `mesh` is `None` for that of `jax.set_mesh`.

    Mesh axes outside of `manual` that shard a dimension now go on sharding it, as the minor ones.
    """
    if not has_explicit_axes(current_mesh() if mesh is None else mesh):
        return data
    sharding = jax.typeof(data).sharding
    held = tuple(sharding.spec) if isinstance(sharding, NamedSharding) and not sharding.mesh.empty else ()
    entries: list[Any] = []
    for dim in range(data.ndim):
        wanted = _as_tuple(spec[dim] if dim < len(spec) else None)
        others = tuple(axis for axis in _as_tuple(held[dim] if dim < len(held) else None) if axis not in manual)
        entries.append(wanted + others or None)
    wanted_spec = PartitionSpec(*entries)
    return jax.reshard(data, wanted_spec if mesh is None else NamedSharding(mesh, wanted_spec))


def _as_tuple(entry: Any) -> tuple[str, ...]:
    return () if entry is None else entry if isinstance(entry, tuple) else (entry,)


def is_placed(data: Any, mesh: Mesh) -> bool:
    """Whether a concrete array may go into a program on `mesh` as it is: it is on that mesh, or on no device in particular."""
    if not data.committed:
        return True
    sharding = data.sharding
    return isinstance(sharding, NamedSharding) and sharding.mesh == mesh
