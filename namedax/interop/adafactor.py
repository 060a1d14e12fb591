"""Adafactor for named arrays: second moments that are factored over named rows and columns."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from namedax.core.array import dims_of, is_named
from namedax.core.names import PyTree
from namedax.errors import ArgumentError
from namedax.interop.matrix_axes import (
    MatrixAxes,
    Names,
    Override,
    Sides,
    check_updates,
    computed_wide,
    optax_for,
    partitioned,
    paths_and_leaves,
)
from namedax.messages.call_errors import checks_signature
from namedax.ops.reduction.reductions import mean

__all__ = ["FactoredState", "adafactor"]


class FactoredState(NamedTuple):
    """The second moments of Adafactor.

    Attributes:
      count: the number of updates.
      rows: the moments of rows, without the axes of columns; empty for unfactored parameters.
      columns: the moments of columns, without the axes of rows; empty for unfactored parameters.
      elements: the moments of unfactored parameters; empty for all others.
    """

    count: jax.Array  # type: ignore[assignment]  # as in the states of optax
    rows: PyTree
    columns: PyTree
    elements: PyTree


@checks_signature
def adafactor(
    learning_rate: Any = None,
    *,
    rows: Names,
    columns: Names,
    override: Override | None = None,
    min_dim_size_to_factor: int = 128,
    decay_rate: float = 0.8,
    decay_offset: int = 0,
    multiply_by_parameter_scale: bool = True,
    clipping_threshold: float | None = 1.0,
    momentum: float | None = None,
    dtype_momentum: Any = jnp.float32,
    weight_decay_rate: Any = None,
    weight_decay_mask: Any = None,
    eps: float = 1e-30,
    factored: bool = True,
    fallback: Any = None,
) -> Any:
    """Return the optimizer Adafactor for named arrays, as `optax.adafactor`.

    optax factors the two largest dimensions of the data. This function factors named axes, so the
    storage order and the layout do not matter. The rows of a parameter are its names in `rows`, its
    columns are its names in `columns`, and all its other axes are batch axes. Every matrix of the
    batch has its own moments and its own root mean squares, as if it were a parameter.

    Communication: in a mapped body, all-reduces of the moments of rows over the mesh axes of
    columns, of the moments of columns over those of rows, and of root mean squares.

    Args:
      learning_rate: a number, a schedule, or `None` for 1. Default: `None`.
      rows: the axis names of rows.
      columns: the axis names of columns.
      override: a function of the path and the parameter that returns other `(rows, columns)` for
        it, or `None`. Default: no other ones.
      min_dim_size_to_factor: the smallest size of rows and columns that are factored. Default: 128.
      decay_rate: the exponent of the decay of the moments. Default: 0.8.
      decay_offset: the first step of fine-tuning. Default: 0.
      multiply_by_parameter_scale: True to multiply updates by the root mean square of the
        parameter. Default: True.
      clipping_threshold: the maximum root mean square of updates; `None` for no maximum. Default:
        1.0.
      momentum: the decay of the momentum, or `None` for no momentum. Default: `None`.
      dtype_momentum: the dtype of the momentum. Default: float32.
      weight_decay_rate: a number, a schedule, or `None`. Default: `None`.
      weight_decay_mask: as in `optax.add_decayed_weights`. Default: all parameters.
      eps: a number that is added to squared gradients. Default: 1e-30.
      factored: False to factor no parameter. Default: True.
      fallback: an optax transformation for the parameters without rows or without columns, with
        its own learning rate. Default: this optimizer with unfactored moments. The axes of `rows`
        and `columns` are then reduced in root mean squares; without one, all axes.

    Returns:
      An `optax.GradientTransformation`. Its state has named arrays with the dtypes of the
      parameters, but float32 for float16 and integers. Updates have the dtypes of the gradients.

    Raises:
      ArgumentError: a name is in `rows` and in `columns`, or `update` gets no parameters.
      AxisNotFoundError: no parameter has one of the names (in `init`).
      ImportError: optax is not installed.

    >>> import jax.numpy as jnp, namedax as nx
    >>> params = {"w": nx.named(jnp.ones((4, 8)), ["inputs", "hidden"])}
    >>> optimizer = nx.interop.adafactor(
    ...     0.1, rows={"inputs"}, columns={"hidden"}, min_dim_size_to_factor=4
    ... )
    >>> state = optimizer.init(params)
    >>> updates, state = optimizer.update(params, state, params)
    >>> updates["w"].dims
    ('inputs', 'hidden')
    """
    optax = optax_for("adafactor")
    axes = MatrixAxes.parse("adafactor", rows, columns, override)
    chain = [
        _scale(
            axes,
            min_dim_size_to_factor if factored else math.inf,
            _Decay(decay_rate, decay_offset, eps),
        )
    ]
    if clipping_threshold is not None:
        chain.append(_clip(axes, clipping_threshold))
    if learning_rate is not None:
        chain.append(optax.scale_by_learning_rate(learning_rate, flip_sign=False))
    if multiply_by_parameter_scale:
        chain.append(_scale_by_parameter(axes))
    if momentum is not None:
        chain.append(optax.ema(momentum, debias=False, accumulator_dtype=dtype_momentum))
    if weight_decay_rate is not None:
        chain.append(optax.add_decayed_weights(weight_decay_rate, mask=weight_decay_mask))
    chain.append(optax.scale(-1))
    if fallback is not None:
        return partitioned(axes, computed_wide(optax.chain(*chain)), fallback)
    return _checked(axes, optax.chain(*chain))


class _Decay(NamedTuple):
    rate: float
    offset: int
    eps: float


def _checked(axes: MatrixAxes, optimizer: Any) -> Any:
    """Check the names of the parameters before `optimizer` is initialized."""
    optax = optax_for(axes.op)

    def init(params: PyTree) -> Any:
        axes.check(params)
        return optimizer.init(params)

    return computed_wide(optax.GradientTransformationExtraArgs(init, optimizer.update))


def _scale(axes: MatrixAxes, smallest: float, decay: _Decay) -> Any:
    """Return the scaling by second moments."""
    optax = optax_for(axes.op)
    nothing = optax.MaskedNode()

    def sides_of(path: tuple[Any, ...], leaf: Any) -> Sides | None:
        sides = axes.sides(path, leaf)
        if sides is None:
            return None
        sizes = (math.prod(leaf.named_shape[name] for name in side) for side in sides)
        return sides if min(sizes) >= smallest else None

    def init(params: PyTree) -> FactoredState:
        def zeros(path: tuple[Any, ...], leaf: Any) -> tuple[Any, Any, Any]:
            sides = sides_of(path, leaf)
            if sides is None:
                return nothing, nothing, jax.tree.map(jnp.zeros_like, leaf)
            means = mean(leaf, sides.columns), mean(leaf, sides.rows)
            return (*jax.tree.map(jnp.zeros_like, means), nothing)

        leaves = [zeros(*pair) for pair in paths_and_leaves(params)]
        return FactoredState(jnp.zeros([], jnp.int32), *_unzipped(params, leaves, 3))

    def update(
        updates: PyTree, state: FactoredState, params: PyTree = None
    ) -> tuple[Any, FactoredState]:
        del params
        check_updates(axes.op, updates, state.rows)
        step = (state.count - decay.offset + 1).astype(jnp.float32)
        kept = 1.0 - step**-decay.rate

        def scaled(
            path: tuple[Any, ...], leaf: Any, row: Any, column: Any, element: Any
        ) -> tuple[Any, Any, Any, Any]:
            sides = sides_of(path, leaf)
            square = (leaf * leaf.conj()).real + decay.eps

            def moved(old: Any, new: Any) -> Any:
                return kept * old + (1.0 - kept) * new

            if sides is None:
                element = moved(element, square)
                return leaf * element**-0.5, nothing, nothing, element
            row = moved(row, mean(square, sides.columns))
            column = moved(column, mean(square, sides.rows))
            factor = (row / mean(row, sides.rows)) ** -0.5
            return leaf * factor * column**-0.5, row, column, nothing

        structure: Any = jax.tree.structure(updates, is_leaf=is_named)
        moments = map(structure.flatten_up_to, (state.rows, state.columns, state.elements))
        leaves = [
            scaled(*pair, *each)
            for pair, *each in zip(paths_and_leaves(updates), *moments, strict=True)
        ]
        done, *new = _unzipped(updates, leaves, 4)
        return done, FactoredState(optax.safe_increment(state.count), *new)

    return optax.GradientTransformation(init, update)


def _unzipped(tree: PyTree, leaves: list[tuple[Any, ...]], count: int) -> list[PyTree]:
    structure: Any = jax.tree.structure(tree, is_leaf=is_named)
    return [structure.unflatten([leaf[i] for leaf in leaves]) for i in range(count)]


def _root_mean_square(axes: MatrixAxes, path: tuple[Any, ...], leaf: Any) -> Any:
    """Return the root mean square of each matrix of a parameter."""
    sides = axes.sides(path, leaf)
    reduced: Any = None if sides is None else (*sides.rows, *sides.columns)
    if sides is None and is_named(leaf):
        names = axes.rows | axes.columns
        reduced = tuple(dim for dim in dims_of(leaf) if dim in names) or ...
    return mean((leaf * leaf.conj()).real, reduced) ** 0.5


def _clip(axes: MatrixAxes, threshold: float) -> Any:
    """Clip the root mean square of each matrix."""
    optax = optax_for(axes.op)

    def clipped(path: tuple[Any, ...], leaf: Any) -> Any:
        ratio = _root_mean_square(axes, path, leaf) / threshold
        return leaf / jax.tree.map(lambda each: jnp.maximum(1.0, each), ratio)

    def update(updates: PyTree, state: Any, params: PyTree = None) -> tuple[Any, Any]:
        del params
        return jax.tree_util.tree_map_with_path(clipped, updates, is_leaf=is_named), state

    return optax.GradientTransformation(lambda params: optax.EmptyState(), update)


def _scale_by_parameter(axes: MatrixAxes, smallest: float = 1e-3) -> Any:
    """Multiply updates by the root mean square of each matrix of the parameter."""
    optax = optax_for(axes.op)

    def scaled(path: tuple[Any, ...], leaf: Any, param: Any) -> Any:
        size = _root_mean_square(axes, path, param)
        return leaf * jax.tree.map(lambda each: jnp.maximum(each, smallest), size)

    def update(updates: PyTree, state: Any, params: PyTree = None) -> tuple[Any, Any]:
        if params is None:
            raise ArgumentError(
                "adafactor: update has no parameters, and the scale of an update is that of its"
                " parameter. Pass update(updates, state, params), or pass"
                " multiply_by_parameter_scale=False."
            )
        check_updates(axes.op, updates, params, "the parameters")
        done = jax.tree_util.tree_map_with_path(scaled, updates, params, is_leaf=is_named)
        return done, state

    return optax.GradientTransformation(lambda params: optax.EmptyState(), update)
