"""`convolve`: convolution along one axis, as in NumPy.

Over a sharded axis a device receives the rows that its windows need beyond its block, and computes
its own block.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from namedax.core.annotations import LikeArguments
from namedax.core.array import NamedArray, dims_of, make_in_region
from namedax.core.display import type_text
from namedax.core.names import Dims
from namedax.core.padded_sharding import Uneven
from namedax.core.region import Region, enter
from namedax.core.reshape import as_one
from namedax.core.types import MeshAxes
from namedax.core.variance import with_varying_form
from namedax.errors import PositionalAxisError, format_value
from namedax.operands.axes import unwrap_single
from namedax.operands.broadcasting import constrain_sharding, make_result
from namedax.operands.nmap import Lifted, nmap
from namedax.operands.one_axis import Along, along
from namedax.operands.operation import operation
from namedax.ops.window.windows import check_together
from namedax.resources.padding_masks import refilled

__all__ = ["convolve", "without_constraints"]


@operation(scope=True)
def convolve(
    a: Any,
    v: Any,
    mode: str = "full",
    *,
    axis: Hashable | None = None,
    out_axis: Hashable | None = None,
    precision: Any = None,
) -> LikeArguments:
    """Convolve along one axis, as `jnp.convolve`.

    Args:
      a: an array, named or not.
      v: the kernel. Along a named axis: an array with one positional axis, the taps; its named axes
        are batch axes.
      mode: `"full"` (default), `"same"` or `"valid"`, as in `jnp.convolve`.
      axis: the axis of `a`; by default its only positional axis.
      out_axis: the name of the axis in the result; by default `axis`. Required in a mapped function
        if its size changes (in all modes but `"same"`).
      precision: as in `jnp.convolve`; by default `None`.

    Returns:
      The convolution.

    Communication: along a sharded axis each device receives the boundary rows that the kernel
    reaches. Nothing is gathered, except if `out_axis` is not sharded over the mesh axes of `axis`.

    Raises:
      AxisNotFoundError: `a` lacks the axis.
      AxisSizeError: the axis of the result has a different size in the mapped function, or does not
        divide over its mesh axes.

    >>> import jax.numpy as jnp, namedax as nx
    >>> x = nx.named(jnp.array([1.0, 2.0, 4.0]), ["k"])
    >>> nx.positional(convolve(x, jnp.array([1.0, -1.0]), axis="k"), ["k"])
    Array([ 1.,  1.,  2., -4.], dtype=float32)
    """
    if mode not in ("full", "same", "valid"):
        raise PositionalAxisError(
            f"convolve: mode must be 'full', 'same' or 'valid', got {format_value(mode)}."
        )
    if axis is None:
        return Lifted(lambda x, k: jnp.convolve(x, k, mode, precision=precision), "convolve")(a, v)
    if dims_of(v).count(None) != 1:
        raise PositionalAxisError(
            f"convolve: the kernel {type_text(v)} must have exactly one positional axis, the taps."
        )
    axis = unwrap_single(axis, dims_of(a))
    site = along("convolve", a, axis, supports_padding=True)
    taps = v.shape[0] if isinstance(v, NamedArray) else np.shape(v)[0]
    if not taps or not site.size:
        raise PositionalAxisError(
            f"convolve: the kernel {type_text(v)} and axis {format_value(axis)} of size {site.size}"
            " must not be empty."
        )
    # Element i of the result is element i + first of the full convolution. It reads the rows from i
    # + first - (taps - 1).
    long, short = max(site.size, taps), min(site.size, taps)
    first = {"full": 0, "same": (short - 1) // 2, "valid": short - 1}[mode]
    size = {"full": site.size + taps - 1, "same": long, "valid": long - short + 1}[mode]
    dims, new = site.result(out_axis, size)
    block = site.block(new, size)
    return _convolve(site, v, dims, new, block, block + taps - 1, first - (taps - 1), precision)


def _convolve(
    site: Along,
    v: Any,
    dims: Dims,
    new: MeshAxes,
    block: int,
    length: int,
    first: int,
    precision: Any,
) -> Any:
    """Convolve windows with the kernel; all axes except the axis of `site` are batch axes."""
    ranks = sum(dim is None for dim in site.dims)

    def rows(x: Any, k: Any) -> Any:
        flat = as_one(x, 0, x.ndim - 1)
        out = jax.vmap(lambda row: jnp.convolve(row, k, "valid", precision=precision))(flat)
        return out.reshape(*x.shape[:-1], out.shape[-1])

    def compute(keep: frozenset[str]) -> Any:
        data = site.windows(new, first, block, length, "fill", 0, keep | frozenset(new))
        batch = [i for i in range(data.ndim) if i != site.dim]
        labelled = [i for i in batch if site.dims[i] is not None]
        order = [*labelled, *(i for i in batch if site.dims[i] is None), site.dim]
        x = constrain_sharding(
            lax.transpose(data, order), (*(site.dims[i] for i in order[:-1]), None)
        )
        labels = tuple(site.dims[i] for i in labelled) + (None,) * (ranks + 1)
        with without_constraints(site.region):
            result = nmap(rows)(make_in_region(x, labels) if labelled else x, v)
        if not isinstance(new, Uneven):
            return result
        data = result._data if isinstance(result, NamedArray) else result
        return make_in_region(refilled(data, data.ndim - 1, new), dims_of(result))

    def named_result(value: Any) -> tuple[Any, Dims]:
        own, out_axis = dims_of(value), dims[site.dim]
        data = value._data if isinstance(value, NamedArray) else value
        return constrain_sharding(data, own), (*own[:-1], out_axis)

    gathered = frozenset(site.old) - frozenset(new)
    data, out = named_result(compute(frozenset()))
    check_together(site.op, out)
    if not gathered:
        return make_result(data, out)
    return with_varying_form(data, out, gathered, lambda: named_result(compute(gathered))[0])


def without_constraints(region: Region | None) -> Any:
    """Prevent XLA's partitioner from treating a temporarily unnamed axis as replicated."""
    return enter(region if region is None or region.mode != "auto" else None)
