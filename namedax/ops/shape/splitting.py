"""Splitting of arrays along an axis: `split` and `array_split`.

Only rows that a device lacks move, as in `joining`.
"""

from __future__ import annotations

import itertools
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from namedax.core.annotations import AnyArray
from namedax.core.array import NamedArray, dims_of
from namedax.core.display import type_text
from namedax.core.names import is_name
from namedax.core.padded_sharding import Uneven
from namedax.core.types import MeshAxes
from namedax.errors import (
    AxisNameError,
    AxisSizeError,
    PositionalAxisError,
    as_integer,
    format_value,
)
from namedax.operands.axes import unwrap_single
from namedax.operands.broadcasting import constrain_sharding, make_result
from namedax.operands.one_axis import Along, along, data_and_dims, finish, position_of
from namedax.operands.operation import Explicit, operation
from namedax.ops.shape.joining import rows_of_parts
from namedax.resources.row_moves import move_rows

__all__ = ["array_split", "split"]


@operation(explicit=Explicit.KEPT, scope=True)
def split(
    ary: Any, indices_or_sections: Any, axis: Any = 0, *, out_axis: Any = None
) -> list[AnyArray]:
    """Split an array along one axis.

    Args:
      ary: an array, named or not.
      indices_or_sections: a number of equal sections, or the split indices.
      axis: a positional or named axis, by default 0.
      out_axis: the name of the axis in the sections, or a list with a name for each; by default
        `axis`. Required in a mapped function in which `axis` has a fixed size.

    Returns:
      A list of arrays.

    Communication: along a sharded axis with sharded sections, the rows of all sections move to
    their blocks in one exchange, by collective-permutes. If the sections are not sharded, the axis
    is gathered.

    Raises:
      AxisNotFoundError: the array lacks the axis.
      AxisSizeError: the sections are not equal, or a section does not have the size of its name in
        the mapped function.

    >>> import jax.numpy as jnp, namedax as nx
    >>> first, second = split(nx.named(jnp.arange(5), ["k"]), [2], "k")
    >>> nx.positional(second, ["k"])
    Array([2, 3, 4], dtype=int32)
    """
    return _split("split", ary, indices_or_sections, axis, out_axis)


@operation(explicit=Explicit.KEPT, scope=True)
def array_split(
    ary: Any, indices_or_sections: Any, axis: Any = 0, *, out_axis: Any = None
) -> list[AnyArray]:
    """Split an array like `split`, into sections that need not be equal: the first ones are larger by one.

    >>> import jax.numpy as jnp, namedax as nx
    >>> [part.named_shape["k"] for part in array_split(nx.named(jnp.arange(5), ["k"]), 2, "k")]
    [3, 2]
    """
    return _split("array_split", ary, indices_or_sections, axis, out_axis)


def _split(op: str, ary: Any, indices_or_sections: Any, axis: Any, out_axis: Any) -> list[Any]:
    where, axis = _where_to_cut(op, indices_or_sections), unwrap_single(axis, dims_of(ary))
    if not is_name(axis):
        data, dims = data_and_dims(op, ary)
        parts = getattr(jnp, op)(data, where, position_of(op, ary, axis))
        return [make_result(part, dims) for part in parts]
    site = along(op, ary, axis, supports_padding=True)
    cuts = _cuts(op, site, where)
    sizes = [end - begin for begin, end in itertools.pairwise(cuts)]
    names = list(out_axis) if isinstance(out_axis, list) else [out_axis] * len(sizes)
    if len(names) != len(sizes):
        raise AxisNameError(
            f"{op}: out_axis={format_value(out_axis)} has {len(names)} names for {len(sizes)}"
            " parts. Pass one for each, or one for all."
        )
    results = [site.result(name, size) for name, size in zip(names, sizes, strict=True)]
    old, count = site.old, site.blocks(site.old)
    together = (
        bool(old)
        and not isinstance(old, Uneven)
        and all(new and size % count == 0 for (_, new), size in zip(results, sizes, strict=True))
    )
    if together:
        # The blocks of all sections are concatenated: one exchange for all of them.
        rows = np.argsort(rows_of_parts(sizes, count)).reshape(count, -1)
        blocks = move_rows(site.data, site.dim, old, rows)
    # Slices of one value that XLA's partitioner shards, next to another use of it, cause an
    # internal error of XLA.
    data = constrain_sharding(
        site.data, tuple(None if i == site.dim else dim for i, dim in enumerate(site.dims))
    )
    parts = []
    at = 0
    for (dims, new), (begin, end) in zip(results, itertools.pairwise(cuts), strict=True):

        def compute(
            keep: frozenset[str],
            new: MeshAxes = new,
            begin: int = begin,
            end: int = end,
            at: int = at,
        ) -> Any:
            keep |= frozenset(new)
            if together:
                part = lax.slice_in_dim(blocks, at, at + (end - begin) // count, axis=site.dim)
                return site.relaid(part, old, new, keep)
            whole = site.relaid(data, old, (), keep)
            return site.relaid(lax.slice_in_dim(whole, begin, end, axis=site.dim), (), new, keep)

        parts.append(finish(compute, dims, frozenset(old) - frozenset(new)))
        at += (end - begin) // count
    return parts


def _where_to_cut(op: str, indices_or_sections: Any) -> int | list[int]:
    what = "indices_or_sections"
    if isinstance(indices_or_sections, NamedArray):
        raise PositionalAxisError(
            f"{op}: {what} must be a number or a list of indices without named axes, got"
            f" {type_text(indices_or_sections)}."
        )
    if np.ndim(indices_or_sections) == 0:
        return as_integer(op, what, indices_or_sections)
    return [as_integer(op, f"{what}[{i}]", index) for i, index in enumerate(indices_or_sections)]


def _cuts(op: str, site: Along, indices_or_sections: int | list[int]) -> list[int]:
    if isinstance(indices_or_sections, int):
        count = indices_or_sections
        if count <= 0:
            raise AxisSizeError(
                f"{op}: the number of parts of axis {site.name!r} must be a positive integer, got"
                f" {count}."
            )
        part, larger = divmod(site.size, count)
        if larger and op == "split":
            raise AxisSizeError(
                f"split: axis {site.name!r} of size {site.size} does not divide into {count} equal"
                " parts. Use array_split, or pass the split indices."
            )
        return [i * part + min(i, larger) for i in range(count + 1)]
    inner = [min(max(i + (site.size if i < 0 else 0), 0), site.size) for i in indices_or_sections]
    if inner != sorted(inner):
        raise AxisSizeError(
            f"{op}: the indices {format_value(indices_or_sections)} along axis {site.name!r} of"
            f" size {site.size} must not decrease."
        )
    return [0, *inner, site.size]
