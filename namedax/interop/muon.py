"""Muon for named arrays: momentum that is orthogonalized over named rows and columns."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp

from namedax.core.array import is_named
from namedax.core.names import PyTree
from namedax.errors import ArgumentError, format_value
from namedax.interop.matrix_axes import (
    MatrixAxes,
    Names,
    Override,
    Sides,
    as_type_of,
    as_wide,
    check_updates,
    computed_wide,
    optax_for,
    partitioned,
    paths_and_leaves,
)
from namedax.interop.newton_schulz import (
    PRECONDITIONINGS,
    Preconditioning,
    Settings,
    orthogonalize,
)
from namedax.messages.call_errors import checks_signature
from namedax.ops.reduction.reductions import sum as total

__all__ = ["MuonState", "muon", "scale_by_muon"]

Coefficients: TypeAlias = Sequence[float] | Sequence[Sequence[float]]

#: The coefficients of Keller Jordan, which maximize the slope at zero.
JORDAN = (3.4445, -4.7750, 2.0315)


class MuonState(NamedTuple):
    """The state of `scale_by_muon`.

    Attributes:
      count: the number of updates.
      mu: the momentum, a tree of arrays like the parameters.
    """

    count: jax.Array  # type: ignore[assignment]  # as in the states of optax
    mu: PyTree


@checks_signature
def scale_by_muon(
    *,
    rows: Names,
    columns: Names,
    override: Override | None = None,
    ns_coeffs: Coefficients = JORDAN,
    ns_steps: int = 5,
    beta: float = 0.95,
    eps: float = 1e-8,
    mu_dtype: Any = None,
    nesterov: bool = True,
    adaptive: bool = False,
    preconditioning: Preconditioning = "frobenius",
    dtype: Any = None,
    fallback: Any = None,
) -> Any:
    """Orthogonalize the momentum over named rows and columns, as in `optax.contrib.scale_by_muon`.

    The rows of a parameter are its names in `rows`, its columns are its names in `columns`. Several
    names form one dimension of the matrix. All other axes, named or positional, are batch axes. The
    result does not depend on the storage order of the dims. Inside and outside of mapped functions
    it is the same for every layout, up to rounding.

    Communication: in a mapped body, none unless rows or columns are sharded. For these, the
    cheapest of three programs: two all-to-alls that distribute a batch of matrices, an all-gather
    of the matrices, or one all-reduce of the product of the shorter side with itself in every step
    or in every third one. Parameters with matrices of the same shape and sharding share the
    collectives. Outside of mapped functions, on Auto axes XLA chooses the collectives. To choose
    the cheapest ones, apply the update in a mapped function:
    `nx.xmap(optimizer.update, axis_resources=...)`.

    Args:
      rows: the axis names of rows: the inputs of the matrices, over which a layer contracts.
      columns: the axis names of columns: the outputs of the matrices.
      override: a function of the path and the parameter that returns other `(rows, columns)` for
        it, `((), ())` to use `fallback`, or `None`. Default: no other ones.
      ns_coeffs: three coefficients of the iteration, or three for each step. Default: those of
        Keller Jordan.
      ns_steps: the number of steps; ignored if each step has its coefficients. Default: 5.
      beta: the decay rate of the momentum. Default: 0.95.
      eps: a number that is added to the norm of a matrix. Default: 1e-8.
      mu_dtype: the dtype of the momentum. Default: that of each parameter, but float32 for float16
        and integers.
      nesterov: True for Nesterov momentum. Default: True.
      adaptive: True to multiply each result by the dual norm of its matrix. Default: False.
      preconditioning: the scaling before the first step: "frobenius", "spectral", "aol" or
        "schatten". Default: "frobenius".
      dtype: the dtype of the iteration. Default: at least float32.
      fallback: an optax transformation for the parameters without rows or without columns.
        Default: `optax.scale_by_adam()`.

    Returns:
      An `optax.GradientTransformation`. Its state has named arrays like those of the parameters.

    Raises:
      ArgumentError: a name is in `rows` and in `columns`, or another argument is invalid.
      AxisNotFoundError: no parameter has one of the names (in `init`).
      ImportError: optax is not installed.

    >>> import jax.numpy as jnp, namedax as nx
    >>> params = {"w": nx.named(jnp.array([[3.0, 0.0], [0.0, 4.0]]), ["inputs", "outputs"])}
    >>> optimizer = nx.interop.scale_by_muon(rows={"inputs"}, columns={"outputs"})
    >>> updates, _ = optimizer.update(params, optimizer.init(params))
    >>> nx.positional(updates["w"], ["inputs", "outputs"]).round(1)
    Array([[0.7, 0. ],
           [0. , 1.1]], dtype=float32)
    """
    optax = optax_for("scale_by_muon")
    axes = MatrixAxes.parse("scale_by_muon", rows, columns, override)
    settings = _settings("scale_by_muon", ns_coeffs, ns_steps, preconditioning, eps, dtype)
    core = _scale(axes, settings, beta, mu_dtype, nesterov, adaptive)
    fallback = computed_wide(optax.scale_by_adam()) if fallback is None else fallback
    return partitioned(axes, core, fallback)


@checks_signature
def muon(
    learning_rate: Any,
    *,
    rows: Names,
    columns: Names,
    override: Override | None = None,
    ns_coeffs: Coefficients = JORDAN,
    ns_steps: int = 5,
    beta: float = 0.95,
    eps: float = 1e-8,
    weight_decay: float = 0.0,
    weight_decay_mask: Any = None,
    mu_dtype: Any = None,
    nesterov: bool = True,
    adaptive: bool = False,
    preconditioning: Preconditioning = "frobenius",
    consistent_rms: float | None = None,
    dtype: Any = None,
    fallback: Any = None,
) -> Any:
    """Return the optimizer Muon for named arrays, as in `optax.contrib.muon`.

    It orthogonalizes momentum with `scale_by_muon`. Then it multiplies each matrix by
    `sqrt(max(1, columns / rows))`, or by `sqrt(max(rows, columns)) * consistent_rms`.

    Communication: that of `scale_by_muon`.

    Args:
      learning_rate: a number or a schedule.
      rows: the axis names of rows: the inputs of the matrices, over which a layer contracts.
      columns: the axis names of columns: the outputs of the matrices.
      override: as in `scale_by_muon`. Default: none.
      ns_coeffs: as in `scale_by_muon`. Default: those of Keller Jordan.
      ns_steps: the number of steps. Default: 5.
      beta: the decay rate of the momentum. Default: 0.95.
      eps: a number that is added to the norm of a matrix. Default: 1e-8.
      weight_decay: the weight decay of the matrices, times the learning rate. Default: 0.
      weight_decay_mask: as in `optax.add_decayed_weights`, for the matrices. Default: all.
      mu_dtype: the dtype of the momentum. Default: that of each parameter.
      nesterov: True for Nesterov momentum. Default: True.
      adaptive: True to multiply each result by the dual norm of its matrix. Default: False.
      preconditioning: as in `scale_by_muon`. Default: "frobenius".
      consistent_rms: the root mean square of updates, whatever the shape; 0.2 is that of AdamW.
        Default: the scaling by the width.
      dtype: the dtype of the iteration. Default: at least float32.
      fallback: an optax transformation for the parameters without rows or without columns, with
        its own learning rate. Default: `optax.adamw(learning_rate, weight_decay=0.0)`.

    Returns:
      An `optax.GradientTransformation`. Its state has named arrays like those of the parameters.

    Raises:
      ArgumentError: a name is in `rows` and in `columns`, or another argument is invalid.
      AxisNotFoundError: no parameter has one of the names (in `init`).
      ImportError: optax is not installed.

    >>> import jax.numpy as jnp, namedax as nx
    >>> params = {
    ...     "w": nx.named(jnp.ones((3, 4, 8)), ["layers", "inputs", "hidden"]),
    ...     "scale": nx.named(jnp.ones(8), ["hidden"]),
    ... }
    >>> optimizer = nx.interop.muon(0.02, rows={"inputs"}, columns={"hidden"})
    >>> updates, state = optimizer.update(params, optimizer.init(params), params)
    >>> updates["w"].dims
    ('layers', 'inputs', 'hidden')
    """
    optax = optax_for("muon")
    axes = MatrixAxes.parse("muon", rows, columns, override)
    settings = _settings("muon", ns_coeffs, ns_steps, preconditioning, eps, dtype)
    matrices = optax.chain(
        _scale(axes, settings, beta, mu_dtype, nesterov, adaptive),
        _scale_by_shape(axes, consistent_rms),
        computed_wide(optax.add_decayed_weights(weight_decay, weight_decay_mask)),
        optax.scale_by_learning_rate(learning_rate),
    )
    if fallback is None:
        fallback = computed_wide(optax.adamw(learning_rate, weight_decay=0.0))
    return partitioned(axes, matrices, fallback)


def _settings(
    op: str,
    coefficients: Coefficients,
    steps: int,
    preconditioning: Preconditioning,
    eps: float,
    dtype: Any,
) -> Settings:
    """Check the settings of the iteration.

    Raises:
      ArgumentError: the coefficients are not three numbers per step, the number of steps is not
        positive, or the preconditioning is unknown.
    """
    if preconditioning not in PRECONDITIONINGS:
        raise ArgumentError(
            f"{op}: unknown preconditioning {format_value(preconditioning)}. Choose from"
            f" {', '.join(map(repr, PRECONDITIONINGS))}."
        )
    if type(steps) is not int or steps < 1:
        raise ArgumentError(
            f"{op}: ns_steps must be a positive integer, got {format_value(steps)}. Pass"
            " ns_steps=5."
        )
    rows = [tuple(row) if isinstance(row, Sequence) else (row,) for row in coefficients]
    if all(len(row) == 1 for row in rows):
        rows = [tuple(number for (number,) in rows)] * steps
    if not rows or any(len(row) != 3 for row in rows):
        raise ArgumentError(
            f"{op}: ns_coeffs must have three numbers, or three for each step, got"
            f" {format_value(coefficients)}. Pass ns_coeffs={JORDAN}."
        )
    floats = tuple(tuple(map(float, row)) for row in rows)
    return Settings(floats, preconditioning, float(eps), dtype)  # type: ignore[arg-type]


def _scale(
    axes: MatrixAxes,
    settings: Settings,
    beta: float,
    mu_dtype: Any,
    nesterov: bool,
    adaptive: bool,
) -> Any:
    """Return the transformation of the matrices; all other parameters are `optax.MaskedNode`s."""
    optax = optax_for(axes.op)

    def init(params: PyTree) -> MuonState:
        params = jax.tree.map(lambda leaf: as_wide(leaf, jnp.bfloat16), params, is_leaf=is_named)
        return MuonState(jnp.zeros([], jnp.int32), optax.tree.zeros_like(params, dtype=mu_dtype))

    def update(updates: PyTree, state: MuonState, params: PyTree = None) -> tuple[Any, MuonState]:
        del params
        check_updates(axes.op, updates, state.mu)
        narrow = updates
        updates, old = (jax.tree.map(as_wide, x, is_leaf=is_named) for x in (updates, state.mu))
        mu = optax.tree.update_moment(updates, old, beta, 1)
        count = optax.safe_increment(state.count)
        if nesterov:
            momentum = jax.tree.map(
                lambda m, g: beta * m + (1 - beta) * g,
                optax.tree.bias_correction(mu, beta, optax.safe_increment(count)),
                optax.tree.bias_correction(updates, beta, count),
            )
        else:
            momentum = optax.tree.bias_correction(mu, beta, count)
        # Collectives send the dtype of the gradients.
        momentum = jax.tree.map(as_type_of, momentum, narrow, is_leaf=is_named)
        pairs = list(paths_and_leaves(momentum))
        leaves = [leaf for _, leaf in pairs]
        structure: Any = jax.tree.structure(momentum, is_leaf=is_named)
        sides = _sides(axes, pairs)
        done = orthogonalize(leaves, sides, settings) if leaves else []
        if adaptive:
            done = [_dual(*each) for each in zip(leaves, done, sides, strict=True)]
        mu = jax.tree.map(as_type_of, mu, state.mu, is_leaf=is_named)
        return structure.unflatten(done), MuonState(count, mu)

    return optax.GradientTransformation(init, update)


def _sides(axes: MatrixAxes, pairs: Sequence[tuple[Any, Any]]) -> tuple[Sides, ...]:
    return tuple(sides for pair in pairs if (sides := axes.sides(*pair)) is not None)


def _dual(momentum: Any, result: Any, sides: Sides) -> Any:
    """Multiply results by the dual norms of their matrices."""
    wide = as_wide(result)
    norm = total(as_wide(momentum).conj() * wide, (*sides.rows, *sides.columns))
    return as_type_of(norm * wide, result)


def _scale_by_shape(axes: MatrixAxes, consistent_rms: float | None) -> Any:
    optax = optax_for(axes.op)

    def scale(path: tuple[Any, ...], leaf: Any) -> Any:
        sides = axes.sides(path, leaf)
        if sides is None:
            return leaf
        rows, columns = (math.prod(leaf.named_shape[name] for name in side) for side in sides)
        if consistent_rms is not None:
            return leaf * (math.sqrt(max(rows, columns)) * consistent_rms)
        return leaf * math.sqrt(max(1, columns / rows))

    def update(updates: PyTree, state: Any, params: PyTree = None) -> tuple[Any, Any]:
        del params
        return jax.tree_util.tree_map_with_path(scale, updates, is_leaf=is_named), state

    return optax.GradientTransformation(lambda params: optax.EmptyState(), update)
