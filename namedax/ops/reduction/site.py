"""Where a reduction takes place: which dimensions of the block, over which mesh axes, and what is left."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from namedax.core.array import NamedArray, dims_of, make_in_region
from namedax.core.display import type_text
from namedax.core.names import Dims
from namedax.core.region import ambient, check_region_lives
from namedax.core.variance import varying
from namedax.errors import ArgumentTypeError
from namedax.operands.axes import Axis, resolve_axis
from namedax.operands.broadcasting import align, local_block, wrap
from namedax.resources import communication as comm

__all__ = ["Site", "reduction_site"]


@dataclasses.dataclass(slots=True, frozen=True)
class Site:
    """One reduction: what is reduced, and where it lives.

    Attributes:
      data: the local block.
      axes: the dimensions of `data` that are reduced.
      named: those of them that have names.
      mesh_axes: the mesh axes over which the reduced names are sharded.
      count: the global number of elements that go into one result.
      dims_in: the dims of `data`.
      dims: the dims of the result.
      keepdims: whether positional axes stay, with size 1.
      where: a mask of the shape of `data`, or `None`.
    """

    data: Any
    axes: tuple[int, ...]
    named: tuple[int, ...]
    mesh_axes: tuple[str, ...]
    count: int
    dims_in: Dims
    dims: Dims
    keepdims: bool
    where: Any

    def bare(self) -> Site:
        """This site without its arrays, for rules of differentiation: these outlive the trace that the arrays belong to."""
        return dataclasses.replace(self, data=None, where=None)

    def finish_whole(self, data: Any) -> Any:
        """Wraps `data` of the shape of the argument."""
        return wrap(data, self.dims_in)

    def finish(self, data: Any) -> Any:
        """Wraps `data`, the result of a `jnp` reduction that was called with `axes` and `keepdims`."""
        if self.keepdims and self.named:
            data = lax.squeeze(data, self.named)
        return wrap(data, self.dims)


def reduction_site(op: str, x: Any, axis: Axis, keepdims: bool = False, where: Any = None) -> Site:
    """Resolves the axes of a reduction and finds out where they are sharded."""
    region = ambient()
    if where is not None:
        (data, mask), dims = align(op, x, where)
        data, mask = jnp.broadcast_arrays(data, mask)
        x = make_in_region(data, dims)
    else:
        mask = None
        x = local_block(x, op, region)
        data, dims = (x._data, x._dims) if isinstance(x, NamedArray) else (jnp.asarray(x), dims_of(x))
    if comm.is_keys(data):
        raise ArgumentTypeError(
            f"{op}: {type_text(x)} is an array of random keys, which have no order and no sum. Take what is drawn with them, or their words, "
            "nx.random.key_data(keys)."
        )
    axes = resolve_axis(op, x, axis)
    named = tuple(i for i in axes if dims[i] is not None)
    if region is None and named and isinstance(data, jax.core.Tracer) and (variance := varying(data)):
        for i in named:
            check_region_lives(op, dims[i], variance)
    mesh_axes: tuple[str, ...] = ()
    if region is not None and region.manual:
        mesh_axes = tuple(mesh_axis for i in named for mesh_axis in region.placement(dims[i]))
    count = math.prod(data.shape[i] for i in axes)
    if region is not None and mesh_axes:
        count *= region.mesh_axis_size(mesh_axes)
    out = tuple(dim for i, dim in enumerate(dims) if i not in axes or (keepdims and dim is None))
    return Site(data, axes, named, mesh_axes, count, dims, out, keepdims, mask)
