"""Workarounds for XLA's CPU backend.

Maxima and minima of large arrays of floats drop NaN there (JAX 0.10 to 0.12): `jnp.max` of a million numbers is a number although one of
them is NaN, and of eight numbers it is NaN. `extremum` finds NaN by a reduction of its own.

Sums of `bfloat16` between devices cannot be made in a mapped region (JAX 0.10 and 0.11). In a `jax.shard_map` over a part of the mesh
axes they abort the process, in plain JAX too: an all-reduce or a reduce-scatter fails with "Invalid binary instruction opcode copy". Over
all mesh axes, in other element types, and where values are only moved, this does not happen. In such a region these sums, and those that
JAX makes when it transposes casts and gathers, are computed in `float32`.
"""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import AxisType, Mesh

from namedax.core.region import ambient

__all__ = ["extremum", "on_cpus", "sums_abort", "widened"]


def on_cpus() -> bool:
    """Whether the devices that a program is traced for are CPUs."""
    region = ambient()
    mesh = None if region is None else region.mesh
    platform = mesh.devices.flat[0].platform if isinstance(mesh, Mesh) else jax.default_backend()
    return bool(platform == "cpu")


def extremum(data: Any, axes: tuple[int, ...], largest: bool) -> Any:
    """The maximum (if `largest`) or minimum over `axes`, which are kept with size 1; NaN where there is one, on CPUs too."""
    result = (jnp.max if largest else jnp.min)(data, axes, keepdims=True)
    if not (jnp.issubdtype(data.dtype, jnp.floating) and on_cpus()):
        return result
    return jnp.where(jnp.any(lax.ne(data, data), axes, keepdims=True), jnp.asarray(jnp.nan, data.dtype), result)


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
