"""Workarounds for XLA's CPU backend.

Maxima and minima of large arrays of floats drop NaN there (JAX 0.10 to 0.12). `jnp.max` of a
million numbers is a number although one of them is NaN; of eight numbers it is NaN. `extremum`
detects NaN by a separate reduction.

Sums of `bfloat16` between devices fail in a mapped region (JAX 0.10 and 0.11). In a `jax.shard_map`
over some of the mesh axes they abort the process, in plain JAX too. An all-reduce or a
reduce-scatter then fails with "Invalid binary instruction opcode copy". Over all mesh axes, in
other dtypes, and in collectives without sums this does not happen. In such a region these sums run
in `float32`. So do the sums that JAX creates when it transposes casts and gathers.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import AxisType, Mesh

from namedax.core.region import ambient

__all__ = ["extremum", "on_cpus", "sums_abort", "widened"]


def on_cpus() -> bool:
    """Return True if the program is traced for CPU devices."""
    region = ambient()
    mesh = None if region is None else region.mesh
    platform = mesh.devices.flat[0].platform if isinstance(mesh, Mesh) else jax.default_backend()
    return bool(platform == "cpu")


def extremum(data: jax.Array, axes: tuple[int, ...], largest: bool) -> jax.Array:
    """Return the maximum (if `largest`) or minimum over `axes`, kept with size 1.

    The result is NaN if an element is NaN, on CPUs too.

    Complex numbers are ordered by their real parts, then by their imaginary parts, as in NumPy. XLA
    has no such reduction between devices, and drops NaN.
    """
    if jnp.iscomplexobj(data):
        real = extremum(data.real, axes, largest)
        nothing = jnp.asarray(-jnp.inf if largest else jnp.inf, real.dtype)
        imag = extremum(jnp.where(data.real == real, data.imag, nothing), axes, largest)
        best = lax.complex(real, imag)
        missing = jnp.any(lax.ne(data, data), axes, keepdims=True)
        return jnp.where(missing, jnp.asarray(jnp.nan, data.dtype), best)
    result = (jnp.max if largest else jnp.min)(data, axes, keepdims=True)
    if not (jnp.issubdtype(data.dtype, jnp.floating) and on_cpus()):
        return result
    return jnp.where(
        jnp.any(lax.ne(data, data), axes, keepdims=True), jnp.asarray(jnp.nan, data.dtype), result
    )


def widened(data: jax.Array) -> jax.Array:
    """Cast `data` to a dtype that XLA can sum between devices here.

    Use it also for collectives whose transpose is a sum.
    """
    if data.dtype != jnp.bfloat16 or not sums_abort(data):
        return data
    return data.astype(jnp.float32)


def sums_abort(data: jax.Array) -> bool:
    """Return True if XLA cannot sum values of the dtype of `data` between devices here."""
    if data.dtype != jnp.bfloat16:
        return False
    mesh = jax.typeof(
        data
    ).sharding.mesh  # also valid in differentiation rules, which JAX runs outside the region
    types = dict(zip(mesh.axis_names, mesh.axis_types, strict=True))
    manual = [axis for axis, kind in types.items() if kind == AxisType.Manual]
    if not manual or len(manual) == len(types):
        return False
    return math.prod(mesh.shape[axis] for axis in manual) > 1 and on_cpus()
