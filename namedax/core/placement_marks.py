"""Marks that say how the names of an array place it, in a program that is traced on global shapes.

The partitioner (`namedax.programs.partitioner`) reads them; everything else takes them for the
identity. The cotangent of a marked value is marked alike, because it has the same names.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from namedax.core.names import Dims, MeshAxes
from namedax.core.region import Region

__all__ = ["PLACED", "mark_names", "mark_placement"]

Layout = tuple[MeshAxes, ...]


def mark_placement(data: jax.Array, layout: Layout) -> jax.Array:
    """Mark `data`, which is global, as sharded by `layout`: mesh axes for each dimension.

    >>> import jax.numpy as jnp
    >>> from namedax.core.placement_marks import mark_placement
    >>> mark_placement(jnp.ones(4), (("x",),))
    Array([1., 1., 1., 1.], dtype=float32)
    """
    marked: jax.Array = PLACED.bind(data, layout=layout)
    return marked


def mark_names(data: Any, dims: Dims, region: Region) -> Any:
    """Mark global data as sharded by the mesh axes of its names; return placeholders unchanged.

    Raises:
      PlacementConflictError: two of the names are on one mesh axis.
    """
    if not isinstance(data, jax.Array) or data.ndim != len(dims):
        return data
    region.check_placement("xmap", [dim for dim in dims if dim is not None])
    return mark_placement(data, tuple(region.resources.get(dim, ()) for dim in dims))


def _transpose(cotangent: Any, data: Any, *, layout: Layout) -> list[Any]:
    return [cotangent if type(cotangent) is ad.Zero else mark_placement(cotangent, layout)]


def _batch(operands: Sequence[Any], batched: Sequence[int], *, layout: Layout) -> tuple[Any, int]:
    (data,), (at,) = operands, batched
    return mark_placement(data, (*layout[:at], (), *layout[at:])), at


PLACED = Primitive("named_placement")
PLACED.def_abstract_eval(lambda data, layout: data)
PLACED.def_impl(lambda data, layout: data)
ad.deflinear2(PLACED, _transpose)
batching.primitive_batchers[PLACED] = _batch
mlir.register_lowering(PLACED, lambda _, data, layout: [data])
