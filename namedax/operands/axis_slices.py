"""Arrays sliced along one axis, for functions of single slices such as `scan` and `vmap`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import jax.numpy as jnp
import numpy as np

from namedax.core.array import dims_of, is_named
from namedax.core.display import type_text
from namedax.core.names import Dims, is_name
from namedax.core.region import ambient
from namedax.core.variance import cast
from namedax.errors import AxisNameError, PositionalAxisError, format_value, raise_not_found
from namedax.operands.broadcasting import make_result, to_local
from namedax.operands.pytree_leaves import array_of, block_of, data_of, flatten, names_of

__all__ = ["Entries"]


def _in_front(data: Any, at: int) -> Any:
    return jnp.moveaxis(data, at, 0) if at else data


class Entries:
    """Arrays that are sliced along one axis.

    Arrays that have the axis get it in front; the others are the same for every slice. With
    `supports_padding` (default: False) the axis need not divide over its mesh axes.

    Args:
      op: the operation, for messages.
      xs: a pytree of arrays.
      axis: a name, or 0 for the first positional axis.
      every: True if all arrays must have the axis; default: False. Along a position all must have
        it.

    Attributes:
      datas: the data of the sliced leaves.
      fixed: the leaves that are the same for every slice, by number.
      dims: the dims of one slice of the sliced leaves, by number.
      placement: the mesh axes of the axis.

    Raises:
      AxisNameError: `axis` is neither 0 nor a name.
      AxisNotFoundError: no array has the name, or with `every` not all of them.
      PositionalAxisError: an array has no positional axis.
      UnevenAxisError: the axis does not divide over its mesh axes, and the operation does not
        support padding.
    """

    def __init__(
        self, op: str, xs: Any, axis: Any, every: bool = False, supports_padding: bool = False
    ):
        region = ambient()
        self.op, self.axis = op, axis
        self.by_name = not isinstance(axis, (int, np.integer)) or isinstance(axis, bool)
        if self.by_name and not is_name(axis):
            raise AxisNameError(
                f"{op}: axis={format_value(axis)} is neither 0 nor the name of an axis."
            )
        if not self.by_name and axis != 0:
            raise PositionalAxisError(
                f"{op}: axis must be 0 (the first positional axis) or a name, got"
                f" {format_value(axis)}. Use nx.numpy.moveaxis first."
            )
        leaves, self.tree = flatten(xs)
        self.datas: list[Any] = []
        # the sliced leaves, and the dimension of the axis in each
        self._cut: list[tuple[Any, int]] = []
        self.fixed: dict[int, Any] = {}
        self.dims: dict[int, Dims] = {}
        blocks = [block_of(leaf, op) for leaf in leaves]
        for i, block in enumerate(blocks):
            dims = dims_of(block)
            place = axis if self.by_name else None
            if place not in dims:
                if not self.by_name:
                    where = "in_axes" if op == "vmap" else "axis"
                    raise PositionalAxisError(
                        f"{op}: {type_text(block)} has no positional axis. Pass {where}= with the"
                        " name of an axis."
                    )
                self.fixed[i] = block
                continue
            at = dims.index(place)
            self.datas.append(_in_front(data_of(block), at))
            self._cut.append((block, at))
            self.dims[i] = dims[:at] + dims[at + 1 :]
        if self.by_name and leaves and (not self.dims or (every and self.fixed)):
            lacking = blocks[min(self.fixed)]
            candidates = [dim for block in blocks for dim in names_of(dims_of(block))]
            raise_not_found(
                op,
                axis,
                type_text(lacking),
                candidates if not self.dims else names_of(dims_of(lacking)),
            )
        self.placement: tuple[str, ...] = ()
        if self.by_name and region is not None:
            self.placement = region.place(axis) if supports_padding else region.placement(axis, op)

    @classmethod
    def uncut(cls, op: str, value: Any) -> Entries:
        """Return arguments that are all the same for every slice."""
        entries = cls(op, (), 0)
        leaves, entries.tree = flatten(value)
        region = ambient()
        entries.fixed = {
            i: to_local(leaf, op, region) if is_named(leaf) else leaf
            for i, leaf in enumerate(leaves)
        }
        return entries

    def cast(self, number: int, axes: frozenset[str]) -> Any:
        """Return one of `datas`, varying over (at least) these mesh axes.

        For a gathered array, the gradient of this gather is a reduce-scatter.
        """
        block, at = self._cut[number]
        return _in_front(cast(block, axes), at)

    def value(self, datas: Iterable[Any]) -> Any:
        """Return one slice of all arrays, from the data of the sliced leaves."""
        supply = iter(datas)
        count = len(self.fixed) + len(self.dims)
        return self.tree.unflatten(
            [
                self.fixed[i] if i in self.fixed else array_of(next(supply), self.dims[i])
                for i in range(count)
            ]
        )

    def result(self, data: Any, dims: Dims) -> Any:
        """Return an array from the results for each slice, stacked in front."""
        region = ambient()
        if self.by_name and self.axis in dims:
            raise AxisNameError(
                f"{self.op}: the result of the function for one slice along {self.axis!r} already"
                f" has an axis {self.axis!r}, from a value that it carries or closes over. Pass"
                " that value as an argument, or rename its axis."
            )
        dims = (self.axis if self.by_name else None, *dims)
        if region is not None:
            region.check_placement(self.op, names_of(dims))
        return make_result(data, dims)
