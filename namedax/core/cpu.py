"""Sums of `bfloat16` between devices, which XLA's CPU backend cannot make in a mapped region (JAX 0.10 and 0.11).

In a `jax.shard_map` over a part of the mesh axes they abort the process, in plain JAX too: an all-reduce or a reduce-scatter
fails with "Invalid binary instruction opcode copy". Over all mesh axes, in other element types, and where values are only
moved, this does not happen. In such a region these sums, and those that JAX makes when it transposes casts and gathers, are
computed in `float32`.
"""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import AxisType, Mesh

from namedax.core.region import ambient

__all__ = ["on_cpus", "sums_abort", "widened"]


def on_cpus() -> bool:
    """Whether the devices that a program is traced for are CPUs."""
    region = ambient()
    mesh = None if region is None else region.mesh
    platform = mesh.devices.flat[0].platform if isinstance(mesh, Mesh) else jax.default_backend()
    return bool(platform == "cpu")


def widened(data: Any) -> Any:
    """`data` in a type that XLA can add up between devices here, also for what moves it and is transposed to a sum."""
    return data.astype(jnp.float32) if sums_abort(data) else data


def sums_abort(data: Any) -> bool:
    """Whether XLA cannot add up values of the type of `data` between devices here."""
    if data.dtype != jnp.bfloat16:
        return False
    mesh = jax.typeof(
        data
    ).sharding.mesh  # known in rules of differentiation, too, which JAX runs when the region has been left
    types = dict(zip(mesh.axis_names, mesh.axis_types, strict=True))
    manual = [axis for axis, kind in types.items() if kind == AxisType.Manual]
    if not manual or len(manual) == len(types):
        return False
    return math.prod(mesh.shape[axis] for axis in manual) > 1 and on_cpus()
