"""Collectives over a loop's axis: values of all steps are folded into one, in a pass of the loop.

The part of a collective over mesh axes of devices runs after the pass. `RULES` has a rule for each
kind of collective that can be computed from the blocks of steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.core import ShapedArray

from namedax.core.element_types import additive_identity, extreme
from namedax.core.names import MeshAxes
from namedax.core.records import Record
from namedax.core.variance import cast_data, varying, varying_of
from namedax.errors import SerialLoopError
from namedax.primitives.equations import dimension_of, facts, is_tiled
from namedax.primitives.record import Kind
from namedax.programs.serial.nodes import Added, Node
from namedax.resources import communication as comm

__all__ = ["RULES", "Fold", "Join", "Last", "Rule"]


# --- folds ----------------------------------------------------------------------------------------


class Fold:
    """A way to fold the values of all steps into one value."""

    number = "zero"

    def start(self, shape: ShapedArray, numbers: dict[Any, Any]) -> jax.Array:
        """Return the value before the first step, a repeated scalar; `numbers` caches it."""
        dims, dtype, axes = self._dims(shape), self._dtype(shape), varying_of(shape)
        if jnp.issubdtype(dtype, jax.dtypes.extended):
            return cast_data(jnp.zeros(dims, dtype), axes)
        key = (self.number, dtype, axes)
        if key not in numbers:
            numbers[key] = cast_data(self._first(dtype), axes)
        return lax.broadcast(numbers[key], dims)

    def add(self, total: jax.Array, value: jax.Array, index: jax.Array) -> jax.Array:
        """Fold the value of a step into the total of the steps before it."""
        return self._add(total, cast_data(value, varying(total)), index)

    def end(self, total: jax.Array, shape: ShapedArray) -> jax.Array:
        """Return the result after the last step."""
        return total

    def _dims(self, shape: ShapedArray) -> list[int]:
        return list(shape.shape)

    def _dtype(self, shape: ShapedArray) -> Any:
        return shape.dtype

    def _first(self, dtype: Any) -> jax.Array:
        return additive_identity(dtype)

    def _add(self, total: jax.Array, value: jax.Array, index: jax.Array) -> jax.Array:
        raise NotImplementedError


class _Sum(Fold):
    """The sum, in the dtype of sums."""

    number = "sum"

    def _dtype(self, shape: ShapedArray) -> Any:
        return comm.sum_type(shape.dtype)

    def _add(self, total: jax.Array, value: jax.Array, index: jax.Array) -> jax.Array:
        if value.dtype != total.dtype:
            value = lax.convert_element_type(value, total.dtype)
        return lax.add(total, value)

    def end(self, total: jax.Array, shape: ShapedArray) -> jax.Array:
        return total.astype(shape.dtype)


class _Extremum(Fold):
    """The maximum or minimum."""

    def __init__(self, is_maximum: bool):
        self.number = "maximum" if is_maximum else "minimum"
        self._is_maximum = is_maximum

    def _first(self, dtype: Any) -> jax.Array:
        return jnp.asarray(extreme(dtype, self._is_maximum))

    def _add(self, total: jax.Array, value: jax.Array, index: jax.Array) -> jax.Array:
        return jnp.maximum(total, value) if self._is_maximum else jnp.minimum(total, value)


class Last(Fold):
    """The value of the last step."""

    def _add(self, total: jax.Array, value: jax.Array, index: jax.Array) -> jax.Array:
        return value


class Join(Fold):
    """The blocks of all steps, joined along a dimension.

    Args:
      dim: the dimension.
      steps: the number of steps.
      expand: True if the values lack the dimension.
    """

    def __init__(self, dim: int, steps: int, expand: bool = False):
        self._dim, self._steps, self._expand = dim, steps, expand

    def _dims(self, shape: ShapedArray) -> list[int]:
        dims = list(shape.shape)
        if self._expand:
            dims.insert(self._dim, 1)
        dims[self._dim] *= self._steps
        return dims

    def _add(self, total: jax.Array, value: jax.Array, index: jax.Array) -> jax.Array:
        if self._expand:
            value = jnp.expand_dims(value, self._dim)
        return lax.dynamic_update_slice_in_dim(
            total, value, index * value.shape[self._dim], self._dim
        )


# --- rules ----------------------------------------------------------------------------------------


class Rule(Record):
    """The execution of a kind of collective.

    Attributes:
      fold: returns the fold of a node in a number of steps.
      repeated: returns the fold of an operand that is the same in every step.
      finish: runs the part over mesh axes of devices: a function of the node, the folded operand,
        these axes, the loop's axis and the number of steps.
      scatters: True if the result has the parts of all steps; other results are the same in every
        step. Default: False.
    """

    fold: Callable[[Node, int], Fold]
    repeated: Callable[[Node, jax.Array, int], jax.Array]
    finish: Callable[[Node, jax.Array, MeshAxes, str, int], jax.Array]
    scatters: bool = False


def _multiplied(node: Node, value: jax.Array, steps: int) -> jax.Array:
    return value * jnp.asarray(steps, value.dtype)


def _joined(node: Node, value: jax.Array, steps: int) -> jax.Array:
    dim = dimension_of(node.eqn)
    value = value if is_tiled(node.eqn) else jnp.expand_dims(value, dim)
    return lax.concatenate([value] * steps, dim)


def _reduced(
    reduce: Callable[[jax.Array, MeshAxes], jax.Array],
) -> Callable[[Node, jax.Array, MeshAxes, str, int], jax.Array]:
    return lambda node, total, others, axis, steps: reduce(total, others) if others else total


def _gathered(node: Node, total: jax.Array, others: MeshAxes, axis: str, steps: int) -> jax.Array:
    to: Any = "invarying" if facts(node.eqn).is_invariant else "varying"
    dim = dimension_of(node.eqn)
    gathered = comm.all_gather(total, dim, others, to) if others else total
    return _swap_minor(gathered, dim, node.axes, axis, steps, to_minor=False)


def _scattered(node: Node, total: jax.Array, others: MeshAxes, axis: str, steps: int) -> jax.Array:
    if not is_tiled(node.eqn):
        raise SerialLoopError(
            f"SerialLoop: an untiled psum_scatter over {axis} cannot be executed in steps. Use"
            " tiled=True, or an axis name, as in nx.lax.psum_scatter."
        )
    dim = dimension_of(node.eqn)
    total = _swap_minor(total, dim, node.axes, axis, steps, to_minor=True)
    return comm.psum_scatter(total, dim, others) if others else total


def _swap_minor(
    data: jax.Array, dim: int, axes: Sequence[str], axis: str, steps: int, to_minor: bool
) -> jax.Array:
    """Reorder blocks along a dimension to steps as the minor axis, or back.

    The blocks are in the order of `axes`, major first.

    Each device joins its steps, and devices are joined after that. A collective over `(loop, "x")`
    is therefore one over `("x", loop)`, of blocks in another order.
    """
    minor = axes[axes.index(axis) + 1 :]
    if not minor:
        return data
    counts = (steps, math.prod(map(lax.axis_size, minor)))
    major = math.prod(lax.axis_size(other) for other in axes[: axes.index(axis)])
    counts = counts if to_minor else counts[::-1]
    block = data.shape[dim] // (major * math.prod(counts))
    blocks = data.reshape((*data.shape[:dim], major, *counts, block, *data.shape[dim + 1 :]))
    return jnp.swapaxes(blocks, dim + 1, dim + 2).reshape(data.shape)


def _extremum(is_maximum: bool) -> Rule:
    fold = _Extremum(is_maximum)
    reduce: Any = lax.pmax if is_maximum else lax.pmin
    return Rule(lambda node, steps: fold, lambda node, value, steps: value, _reduced(reduce))


def _join(node: Node, steps: int) -> Fold:
    return Join(dimension_of(node.eqn), steps, not is_tiled(node.eqn))


_SUM = _Sum()
_sum = Rule(lambda node, steps: _SUM, _multiplied, _reduced(comm.psum))
#: The rules of all collectives over a loop's axis that can be executed in steps.
RULES: dict[Kind | Added, Rule] = {
    Kind.SUM: _sum,
    Added.POSTPONED_SUM: _sum,
    Kind.MAXIMUM: _extremum(True),
    Kind.MINIMUM: _extremum(False),
    Kind.GATHER: Rule(_join, _joined, _gathered),
    Kind.SCATTER: Rule(lambda node, steps: _SUM, _multiplied, _scattered, scatters=True),
}
