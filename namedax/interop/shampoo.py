"""Shampoo for named arrays: gradients multiplied by inverse roots of sums of their products.

Every matrix has two preconditioners. The left one is a sum of `G G^T` over the rows, the right one
a sum of `G^T G` over the columns. They are named arrays, with a second name for the repeated axes:
the preconditioner of `inputs` has the axes `inputs` and `inputs'`. It is sharded over `inputs` like
the parameter.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import jax
import jax.numpy as jnp

from namedax.core.array import dims_of, is_named
from namedax.core.names import PyTree
from namedax.errors import ArgumentError, format_value
from namedax.interop.matrix_axes import (
    MatrixAxes,
    Names,
    Override,
    Sides,
    as_wide,
    check_updates,
    computed_wide,
    optax_for,
    partitioned,
    paths_and_leaves,
)
from namedax.messages.call_errors import checks_signature
from namedax.ops.contraction.einsum import dot
from namedax.ops.loops.branches import cond
from namedax.ops.operands.nmap import nmap
from namedax.ops.operands.operation import operation
from namedax.ops.reduction.reductions import sum as total
from namedax.ops.shape.conversion import named, order_like, untag
from namedax.ops.shape.rename import rename

__all__ = ["ShampooState", "scale_by_shampoo", "shampoo"]

Graft: TypeAlias = Literal["adam", "sgd"]


class ShampooState(NamedTuple):
    """The state of `scale_by_shampoo`.

    Attributes:
      count: the number of updates.
      statistics: for each matrix the sums of products of its rows and of its columns. A side above
        the block size has none.
      roots: the inverse roots of `statistics`.
      squares: the second moments of the grafted optimizer; empty without Adam.
    """

    count: jax.Array  # type: ignore[assignment]  # as in the states of optax
    statistics: PyTree
    roots: PyTree
    squares: PyTree


class _Settings(NamedTuple):
    beta: float
    eps: float
    update_every: int
    block_size: float
    graft: Graft | None
    graft_beta: float
    graft_eps: float


@checks_signature
def scale_by_shampoo(
    *,
    rows: Names,
    columns: Names,
    override: Override | None = None,
    beta: float = 0.999,
    eps: float = 1e-6,
    update_every: int = 1,
    block_size: int = 8192,
    graft: Graft | None = "adam",
    graft_beta: float = 0.999,
    graft_eps: float = 1e-8,
    fallback: Any = None,
) -> Any:
    """Precondition gradients over named rows and columns with Shampoo.

    The update of a matrix `G` is `L^(-1/4) G R^(-1/4)`, where `L` is an average of `G G^T` and `R`
    of `G^T G` (Gupta, Koren and Singer 2018). If only one side has a preconditioner, its power is
    -1/2. Grafting gives the update the norm that another optimizer has (Anil et al. 2020). Axes
    other than rows and columns are batch axes. The storage order and the layout do not matter.

    Communication: in a mapped body, an all-gather of the gradient over the mesh axes of a side, and
    an all-reduce over those of the other side, for the statistics and again for the update. Every
    `update_every` steps, an all-gather of the statistics of a sharded side: each device computes
    the roots of all its matrices.

    Args:
      rows: the axis names of rows.
      columns: the axis names of columns.
      override: a function of the path and the parameter that returns other `(rows, columns)` for
        it, `((), ())` to use `fallback`, or `None`. Default: no other ones.
      beta: the decay rate of the averages, or 1 for sums as in the first paper. Default: 0.999.
      eps: this multiple of the largest eigenvalue is added to every eigenvalue. Default: 1e-6.
      update_every: the steps between two computations of the roots. Default: 1.
      block_size: the largest side that has a preconditioner. Default: 8192.
      graft: "adam" for the norm of a step of Adam without momentum, "sgd" for that of the
        gradient, `None` for that of the preconditioned gradient. Default: "adam".
      graft_beta: the decay rate of Adam's second moments. Default: 0.999.
      graft_eps: the epsilon of Adam. Default: 1e-8.
      fallback: an optax transformation for the parameters without rows or without columns, and for
        those whose sides are both above `block_size`. Default: `optax.scale_by_adam()`.

    Returns:
      An `optax.GradientTransformation`. Its state has named arrays.

    Raises:
      ArgumentError: a name is in `rows` and in `columns`, or another argument is invalid.
      AxisNotFoundError: no parameter has one of the names (in `init`).
      ImportError: optax is not installed.

    >>> import jax.numpy as jnp, namedax as nx
    >>> params = {"w": nx.named(jnp.array([[3.0, 0.0], [0.0, 4.0]]), ["inputs", "outputs"])}
    >>> sides = {"rows": {"inputs"}, "columns": {"outputs"}}
    >>> optimizer = nx.interop.scale_by_shampoo(**sides, beta=1.0, graft=None)
    >>> updates, state = optimizer.update(params, optimizer.init(params))
    >>> nx.positional(updates["w"], ["inputs", "outputs"]).round(2)
    Array([[1., 0.],
           [0., 1.]], dtype=float32)
    >>> state.matrices.statistics["w"][0].dims
    ('inputs', "inputs'")
    """
    optax = optax_for("scale_by_shampoo")
    axes = MatrixAxes.parse("scale_by_shampoo", rows, columns, override)
    settings = _checked(
        "scale_by_shampoo",
        _Settings(beta, eps, update_every, block_size, graft, graft_beta, graft_eps),
    )
    fallback = computed_wide(optax.scale_by_adam()) if fallback is None else fallback
    matrices = computed_wide(_scale(axes, settings))
    return partitioned(axes, matrices, fallback, _fits(axes, settings))


@checks_signature
def shampoo(
    learning_rate: Any,
    *,
    rows: Names,
    columns: Names,
    override: Override | None = None,
    momentum: float | None = 0.9,
    beta: float = 0.999,
    eps: float = 1e-6,
    update_every: int = 1,
    block_size: int = 8192,
    graft: Graft | None = "adam",
    graft_beta: float = 0.999,
    graft_eps: float = 1e-8,
    weight_decay: float = 0.0,
    weight_decay_mask: Any = None,
    fallback: Any = None,
) -> Any:
    """Return the optimizer Shampoo for named arrays.

    It preconditions gradients with `scale_by_shampoo`, and adds momentum and weight decay.

    Communication: that of `scale_by_shampoo`.

    Args:
      learning_rate: a number or a schedule.
      rows: the axis names of rows.
      columns: the axis names of columns.
      override: as in `scale_by_shampoo`. Default: none.
      momentum: the decay rate of an average of updates, or `None`. Default: 0.9.
      beta: the decay rate of the statistics, or 1 for sums. Default: 0.999.
      eps: this multiple of the largest eigenvalue is added to every eigenvalue. Default: 1e-6.
      update_every: the steps between two computations of the roots. Default: 1.
      block_size: the largest side that has a preconditioner. Default: 8192.
      graft: "adam", "sgd" or `None`, as in `scale_by_shampoo`. Default: "adam".
      graft_beta: the decay rate of Adam's second moments. Default: 0.999.
      graft_eps: the epsilon of Adam. Default: 1e-8.
      weight_decay: the weight decay of the matrices, times the learning rate. Default: 0.
      weight_decay_mask: as in `optax.add_decayed_weights`, for the matrices. Default: all.
      fallback: an optax transformation for all other parameters, with its own learning rate.
        Default: `optax.adamw(learning_rate, weight_decay=0.0)`.

    Returns:
      An `optax.GradientTransformation`. Its state has named arrays.

    Raises:
      ArgumentError: a name is in `rows` and in `columns`, or another argument is invalid.
      AxisNotFoundError: no parameter has one of the names (in `init`).
      ImportError: optax is not installed.

    >>> import jax.numpy as jnp, namedax as nx
    >>> params = {
    ...     "w": nx.named(jnp.ones((3, 4, 8)), ["layers", "inputs", "hidden"]),
    ...     "scale": nx.named(jnp.ones(8), ["hidden"]),
    ... }
    >>> optimizer = nx.interop.shampoo(0.001, rows={"inputs"}, columns={"hidden"})
    >>> updates, state = optimizer.update(params, optimizer.init(params), params)
    >>> updates["w"].dims
    ('layers', 'inputs', 'hidden')
    """
    optax = optax_for("shampoo")
    axes = MatrixAxes.parse("shampoo", rows, columns, override)
    settings = _checked(
        "shampoo", _Settings(beta, eps, update_every, block_size, graft, graft_beta, graft_eps)
    )
    chain = [_scale(axes, settings)]
    if momentum is not None:
        chain.append(optax.ema(momentum, debias=False))
    chain.append(optax.add_decayed_weights(weight_decay, weight_decay_mask))
    chain.append(optax.scale_by_learning_rate(learning_rate))
    if fallback is None:
        fallback = computed_wide(optax.adamw(learning_rate, weight_decay=0.0))
    matrices = computed_wide(optax.chain(*chain))
    return partitioned(axes, matrices, fallback, _fits(axes, settings))


def _checked(op: str, settings: _Settings) -> _Settings:
    """Check the settings.

    Raises:
      ArgumentError: `graft` is unknown, or a number is not a positive integer.
    """
    if settings.graft is not None and settings.graft not in get_args(Graft):
        raise ArgumentError(
            f"{op}: unknown graft {format_value(settings.graft)}. Choose from 'adam', 'sgd', None."
        )
    for name in ("update_every", "block_size"):
        value = getattr(settings, name)
        if type(value) is not int or value < 1:
            raise ArgumentError(
                f"{op}: {name} must be a positive integer, got {format_value(value)}. Pass"
                f" {name}=1."
            )
    return settings


def _kept(leaf: Any, sides: Sides, settings: _Settings) -> tuple[bool, bool]:
    """Return for rows and for columns if they have a preconditioner."""
    sizes = leaf.named_shape
    rows, columns = (math.prod(sizes[name] for name in side) for side in sides)
    return rows <= settings.block_size, columns <= settings.block_size


def _fits(axes: MatrixAxes, settings: _Settings) -> Any:
    def fits(path: tuple[Any, ...], leaf: Any) -> bool:
        sides = axes.sides(path, leaf)
        return sides is not None and any(_kept(leaf, sides, settings))

    return fits


def _second_names(leaf: Any, names: Sequence[Hashable]) -> dict[Hashable, Hashable]:
    """Return a second name for each name that the array does not have."""
    taken = set(dims_of(leaf))
    renamed: dict[Hashable, Hashable] = {}
    for name in names:
        second: Hashable = f"{name}'" if isinstance(name, str) else (name, "'")
        while second in taken:
            second = f"{second}'" if isinstance(second, str) else (second, "'")
        taken.add(second)
        renamed[name] = second
    return renamed


@operation(lambda *args: (), name="shampoo")
def _square(leaf: Any, own: Sequence[Hashable], other: Sequence[Hashable]) -> Any:
    """Return the product of a matrix with itself, over the axes of the other side."""
    return dot(leaf, rename(leaf.conj(), _second_names(leaf, own)), tuple(other))


@operation(lambda *args: (), name="shampoo")
def _inverse_root(
    statistics: Any, own: Sequence[Hashable], seconds: Sequence[Hashable], power: float, eps: float
) -> Any:
    """Return a power of matrices with the dims of `statistics`."""
    sizes = statistics.named_shape
    side = math.prod(sizes[name] for name in own)

    def root(data: jax.Array) -> jax.Array:
        batch = data.shape[2 * len(own) :]
        flat = jnp.moveaxis(data.reshape(side, side, *batch), (0, 1), (-2, -1))
        values, vectors = jnp.linalg.eigh(flat)
        largest = jnp.maximum(values[..., -1:], 1e-30)
        added = jnp.maximum(eps * largest, jnp.finfo(values.dtype).tiny)
        scale = (jnp.maximum(values, 0) + added) ** power
        done = jnp.matmul(vectors * scale[..., None, :], vectors.swapaxes(-1, -2).conj())
        return jnp.moveaxis(done, (-2, -1), (0, 1)).reshape(data.shape)

    axes = [*own, *seconds, ...]
    return order_like(named(nmap(root)(untag(statistics, axes)), axes), statistics)


def _scale(axes: MatrixAxes, settings: _Settings) -> Any:
    """Return the transformation of the matrices."""
    optax = optax_for(axes.op)
    nothing = optax.MaskedNode()

    def init(params: PyTree) -> ShampooState:
        def zeros(path: tuple[Any, ...], leaf: Any) -> tuple[Any, Any, Any]:
            sides = axes.sides_of_matrix(path, leaf)
            kept = _kept(leaf, sides, settings)
            pair = tuple(
                jax.tree.map(jnp.zeros_like, _square(as_wide(leaf), own, other))
                if keep
                else nothing
                for own, other, keep in zip(sides, sides[::-1], kept, strict=True)
            )
            adam = settings.graft == "adam"
            return pair, pair, jax.tree.map(jnp.zeros_like, as_wide(leaf)) if adam else nothing

        leaves = [zeros(*pair) for pair in paths_and_leaves(params)]
        structure: Any = jax.tree.structure(params, is_leaf=is_named)
        trees = (structure.unflatten([leaf[i] for leaf in leaves]) for i in range(3))
        return ShampooState(jnp.zeros([], jnp.int32), *trees)

    def update(
        updates: PyTree, state: ShampooState, params: PyTree = None
    ) -> tuple[Any, ShampooState]:
        del params
        check_updates(axes.op, updates, state.statistics)
        pairs = list(paths_and_leaves(updates))
        structure: Any = jax.tree.structure(updates, is_leaf=is_named)
        sides = [axes.sides_of_matrix(*pair) for pair in pairs]
        gradients = [leaf for _, leaf in pairs]
        statistics = [
            _averaged(*each, settings.beta)
            for each in zip(
                gradients, sides, structure.flatten_up_to(state.statistics), strict=True
            )
        ]

        def computed() -> list[tuple[Any, Any]]:
            return [
                _roots(*each, settings.eps)
                for each in zip(gradients, sides, statistics, strict=True)
            ]

        roots = structure.flatten_up_to(state.roots)
        if settings.update_every == 1:
            roots = computed()
        else:
            roots = cond(state.count % settings.update_every == 0, computed, lambda: roots)
        squares = structure.flatten_up_to(state.squares)
        done = [_applied(*each) for each in zip(gradients, sides, roots, strict=True)]
        count = optax.safe_increment(state.count)
        if settings.graft is not None:
            grafted = [
                _graft(*each, count, settings)
                for each in zip(gradients, squares, done, sides, strict=True)
            ]
            done, squares = ([each[i] for each in grafted] for i in range(2))
        trees = (structure.unflatten(list(each)) for each in (statistics, roots, squares))
        return structure.unflatten(done), ShampooState(count, *trees)

    return optax.GradientTransformation(init, update)


def _averaged(leaf: Any, sides: Sides, old: tuple[Any, Any], beta: float) -> tuple[Any, ...]:
    weight = 1.0 if beta == 1 else 1.0 - beta
    return tuple(
        beta * each + weight * order_like(_square(leaf, own, other), each)
        if is_named(each)
        else each
        for own, other, each in zip(sides, sides[::-1], old, strict=True)
    )


def _roots(leaf: Any, sides: Sides, statistics: tuple[Any, ...], eps: float) -> tuple[Any, ...]:
    power = -0.5 / sum(map(is_named, statistics))
    return tuple(
        _inverse_root(each, own, tuple(_second_names(leaf, own).values()), power, eps)
        if is_named(each)
        else each
        for own, each in zip(sides, statistics, strict=True)
    )


@operation(lambda *args: (), name="shampoo")
def _applied(leaf: Any, sides: Sides, roots: tuple[Any, ...]) -> Any:
    """Multiply a matrix by the roots of both sides."""
    done = leaf
    for own, root in zip(sides, roots, strict=True):
        if is_named(root):
            seconds = _second_names(leaf, own)
            done = dot(root, rename(done, seconds), tuple(seconds.values()))
    return order_like(done, leaf)


def _graft(
    leaf: Any, square: Any, done: Any, sides: Sides, count: jax.Array, settings: _Settings
) -> tuple[Any, Any]:
    """Give updates the norms of another optimizer; return its second moments too."""
    other = leaf
    if settings.graft == "adam":
        square = settings.graft_beta * square + (1 - settings.graft_beta) * _abs_square(leaf)
        corrected = square / (1 - settings.graft_beta ** count.astype(jnp.float32))
        other = leaf / (corrected**0.5 + settings.graft_eps)
    names = (*sides.rows, *sides.columns)
    wanted, norm = (total(_abs_square(each), names) ** 0.5 for each in (other, done))
    return done * (wanted / (norm + 1e-30)), square


def _abs_square(leaf: Any) -> Any:
    return (leaf * leaf.conj()).real
