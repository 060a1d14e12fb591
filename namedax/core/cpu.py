"""What XLA's CPU backend cannot do in a mapped region, in plain JAX too, and what is done there instead (JAX 0.10 and 0.11).

**Sums of `bfloat16` between devices** in a `jax.shard_map` over a part of the mesh axes abort the process: an all-reduce or a
reduce-scatter is "Invalid binary instruction opcode copy". Over all mesh axes, in other element types, and for what only moves values it
is not so. In such a region these sums, and those that JAX makes of the transposes of casts and gathers, are of `float32`.

**Fourier transforms** fail where the operand or the result has another than the usual layout, which XLA chooses as it likes beside a
collective. In a region both are made one-dimensional for a moment, so that there is nothing to choose.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.extend.core import jaxpr_as_fun, subjaxprs
from jax.sharding import AxisType, Mesh

from namedax.core.region import ambient
from namedax.programs.evaluator import Replay, inlined, inner_jaxpr

__all__ = ["on_cpus", "sums_abort", "widened", "with_plain_layouts"]


def on_cpus() -> bool:
    """Whether the devices that a program is traced for are CPUs."""
    region = ambient()
    mesh = None if region is None else region.mesh
    platform = mesh.devices.flat[0].platform if isinstance(mesh, Mesh) else jax.default_backend()
    return bool(platform == "cpu")


def widened(data: Any) -> Any:
    """`data` in a type that XLA can add up between devices here; what moves it and is transposed to a sum takes this, too."""
    return data.astype(jnp.float32) if sums_abort(data) else data


def sums_abort(data: Any) -> bool:
    """Whether XLA can not add up values of the type of `data` between devices here."""
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


# --- Fourier transforms ---------------------------------------------------------------------------------------------


def with_plain_layouts(function: Callable[..., Any], datas: Sequence[Any]) -> Any:
    """`function(*datas)`, in which every Fourier transform has an operand and a result of the usual layout, and so has its gradient."""
    places = [i for i, data in enumerate(datas) if isinstance(data, jax.Array)]  # the others are numbers of axes, and sizes

    def of_arrays(*arrays: Any) -> Any:
        filled = list(datas)
        for i, array in zip(places, arrays, strict=True):
            filled[i] = array
        return function(*filled)

    arrays = [datas[i] for i in places]
    closed, shape = jax.make_jaxpr(of_arrays, return_shape=True)(*arrays)
    if _transforms(closed.jaxpr):
        flat: Sequence[Any] = _evaluate(closed.jaxpr, [*closed.consts, *arrays])
    else:
        flat = jaxpr_as_fun(closed)(*arrays)
    return jax.tree.unflatten(jax.tree.structure(shape), flat)


def _transforms(jaxpr: Any) -> bool:
    return any(eqn.primitive.name == "fft" for eqn in jaxpr.eqns) or any(map(_transforms, subjaxprs(jaxpr)))


def _evaluate(jaxpr: Any, values: Sequence[Any]) -> list[Any]:
    jaxpr = inlined(jaxpr)
    replay = Replay(jaxpr, values)
    for eqn in jaxpr.eqns:
        inner = inner_jaxpr(eqn)
        if eqn.primitive.name == "fft":
            replay.flush()
            (operand,) = eqn.invars
            replay.give(eqn, [_flat_for_a_moment(eqn.primitive.bind(_flat_for_a_moment(replay.read(operand)), **eqn.params))])
        elif inner is not None and _transforms(inner):
            replay.flush()
            replay.give(eqn, jax.jit(functools.partial(_evaluate, inner))([replay.read(var) for var in eqn.invars]))
        else:
            replay.later(eqn)
    return replay.results()


def _flat_for_a_moment(data: Any) -> Any:
    # Without the barrier XLA would see that nothing happens.
    return lax.optimization_barrier(data.reshape(-1)).reshape(data.shape)
