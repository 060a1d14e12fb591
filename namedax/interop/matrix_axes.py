"""Rows and columns of parameters by axis name, for optimizers that process matrices.

An optimizer of matrices takes the sets `rows` and `columns`. The rows of a parameter are its names
in `rows`, its columns are its names in `columns`, and all its other axes are batch axes. Parameters
without rows or without columns belong to another optimizer, the fallback.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from namedax.core.array import dims_of, is_named
from namedax.core.display import type_text
from namedax.core.element_types import inexact_type, to_type
from namedax.core.names import PyTree
from namedax.core.records import Record
from namedax.core.user_code import call_user_code
from namedax.errors import (
    ArgumentError,
    ArgumentTypeError,
    AxisNotFoundError,
    format_value,
    show_names,
)
from namedax.messages.tree_differences import ELEMENT, tree_differences

__all__ = [
    "MatrixAxes",
    "Names",
    "Override",
    "Sides",
    "as_type_of",
    "as_wide",
    "check_updates",
    "computed_wide",
    "optax_for",
    "partitioned",
]

#: One axis name, or a set or sequence of axis names.
Names: TypeAlias = Hashable | Collection[Hashable]
#: Returns the rows and columns of one parameter, from its path and the parameter; `None` for those
#: that follow from `rows` and `columns`.
Override: TypeAlias = Callable[[tuple[Any, ...], Any], tuple[Names, Names] | None]
#: Returns True if a parameter, given its path, belongs to the optimizer of matrices.
Fits: TypeAlias = Callable[[tuple[Any, ...], Any], bool]


class Sides(NamedTuple):
    """The names of the rows and of the columns of one parameter, in the order of its dims."""

    rows: tuple[Hashable, ...]
    columns: tuple[Hashable, ...]


def optax_for(op: str) -> Any:
    """Return the module `optax`.

    Raises:
      ImportError: optax is not installed.
    """
    try:
        import optax
    except ImportError as error:
        raise ImportError(
            f"{op}: optax is not installed. Install it with `pip install optax`."
        ) from error
    return optax


class MatrixAxes(Record):
    """The names that are rows, and those that are columns.

    Attributes:
      op: the optimizer, for messages.
      rows: the names of rows.
      columns: the names of columns.
      override: returns other rows and columns for single parameters, or is `None`.
    """

    op: str
    rows: frozenset[Hashable]
    columns: frozenset[Hashable]
    override: Override | None

    @classmethod
    def parse(cls, op: str, rows: Names, columns: Names, override: Override | None) -> MatrixAxes:
        """Read the arguments of an optimizer.

        Raises:
          ArgumentError: a name is in both sets, or one of the sets is empty.
          ArgumentTypeError: `override` is not a function.
        """
        if override is not None and not callable(override):
            raise ArgumentTypeError(
                f"{op}: override must be a function of a path and a parameter, got"
                f" {format_value(override)}. Return the rows and columns of the parameter, or None:"
                " override=lambda path, leaf: None."
            )
        sides = _disjoint(op, _names(rows), _names(columns))
        if not all(sides) and override is None:
            missing = "rows" if not sides[0] else "columns"
            raise ArgumentError(
                f"{op}: {missing} has no axis name. Pass the axis names that occur in the"
                f" parameters: {op}(..., rows={{'inputs'}}, columns={{'hidden'}})."
            )
        return cls(op, *sides, override)

    def sides(self, path: tuple[Any, ...], leaf: object) -> Sides | None:
        """Return the rows and columns of a parameter, or `None` if it is not a matrix.

        A parameter without elements is not a matrix.

        Raises:
          ArgumentError: `override` returns a name twice, or something else than a pair.
          AxisNotFoundError: `override` returns a name that the parameter does not have.
        """
        dims = [dim for dim in dims_of(leaf) if dim is not None] if is_named(leaf) else []
        rows, columns = self.rows, self.columns
        other = None if self.override is None else call_user_code(self.override, path, leaf)
        if other is not None:
            if not isinstance(other, tuple) or len(other) != 2:
                raise ArgumentError(
                    f"{self.op}: override returned {format_value(other)} for"
                    f" {jax.tree_util.keystr(path)}. Return a pair of rows and columns, such as"
                    " ({'inputs'}, {'hidden'}), or None."
                )
            rows, columns = _disjoint(self.op, *map(_names, other))
            unknown = [name for name in (*rows, *columns) if name not in dims]
            if unknown:
                raise AxisNotFoundError(
                    f"{self.op}: override returned the names {show_names(unknown)} for"
                    f" {jax.tree_util.keystr(path)}, which is {type_text(leaf)}. Choose from"
                    f" {show_names(dims)}."
                )
        sides = Sides(
            tuple(dim for dim in dims if dim in rows), tuple(dim for dim in dims if dim in columns)
        )
        return sides if all(sides) and not _is_empty(leaf) else None

    def sides_of_matrix(self, path: tuple[Any, ...], leaf: object) -> Sides:
        """Return the rows and columns of a matrix."""
        sides = self.sides(path, leaf)
        assert sides is not None
        return sides

    def check(self, params: PyTree) -> None:
        """Check that every name occurs in a parameter.

        Raises:
          AxisNotFoundError: a name of `rows` or `columns` occurs in no parameter.
        """
        found = {
            dim for _, leaf in paths_and_leaves(params) if is_named(leaf) for dim in dims_of(leaf)
        } - {None}
        for side, names in (("rows", self.rows), ("columns", self.columns)):
            unknown = sorted(names - found, key=str)
            if unknown:
                raise AxisNotFoundError(
                    f"{self.op}: no parameter has the axis names {show_names(unknown)} of {side}."
                    f" Choose from {show_names(sorted(found, key=str))}."
                )


def _is_empty(leaf: Any) -> bool:
    return 0 in (*leaf.shape, *leaf.named_shape.values())


def _names(names: Names) -> frozenset[Hashable]:
    if isinstance(names, (set, frozenset, list, tuple)) or type(names) is type({}.keys()):
        return frozenset(names)
    one: Hashable = names  # type: ignore[assignment]
    return frozenset([one])


def _disjoint(
    op: str, rows: frozenset[Hashable], columns: frozenset[Hashable]
) -> tuple[frozenset[Hashable], frozenset[Hashable]]:
    both = rows & columns
    if both:
        raise ArgumentError(
            f"{op}: the axis names {show_names(sorted(both, key=str))} are in rows and in columns."
            " Remove each from one of the two; use override= if parameters differ."
        )
    return rows, columns


def paths_and_leaves(tree: PyTree) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Yield the arrays of a tree with their paths; a named array is one leaf."""
    yield from jax.tree_util.tree_flatten_with_path(tree, is_leaf=is_named)[0]


def check_updates(op: str, updates: PyTree, other: PyTree, label: str = "the state") -> None:
    """Check that the structure of updates is a prefix of another one.

    Args:
      op: the optimizer, for messages.
      updates: the updates.
      other: a part of the state, which has a subtree for each update, or the parameters.
      label: the text of `other` in messages. Default: `"the state"`.

    Raises:
      ArgumentTypeError: a key, or a container, differs.
    """
    structure: Any = jax.tree.structure(updates, is_leaf=is_named)
    try:
        structure.flatten_up_to(other)
    except ValueError:
        different = tree_differences(
            structure,
            jax.tree.structure(other, is_leaf=is_named),
            ("the updates{}", label + "{}"),
            placeholder=ELEMENT,
        )
        raise ArgumentTypeError(
            f"{op}: {different} Pass updates with the structure of the parameters of init."
        ) from None


def as_wide(leaf: Any, keep: Any = None) -> Any:
    """Return an array with at least 32 bits per number, and integers as floats.

    Args:
      leaf: an array.
      keep: a dtype that is kept. Default: none.
    """
    dtype = getattr(leaf, "dtype", None)
    if dtype is None or dtype == keep or not jnp.issubdtype(dtype, np.number):
        return leaf
    is_short = jnp.issubdtype(dtype, jnp.floating) and jnp.finfo(dtype).bits < 32
    wide = jnp.dtype(jnp.float32) if is_short else inexact_type(dtype)
    return to_type(leaf, jnp.promote_types(wide, jnp.float32))


def computed_wide(optimizer: Any) -> Any:
    """Return a transformation that computes in float32 or wider, with states of constant types.

    States of bfloat16 parameters have bfloat16. Those of float16 and integers have float32, since
    squares of gradients exceed the range of float16. Updates have the dtype of the gradients, and
    float32 for integers.
    """
    optax = optax_for("optimizer")

    def init(params: PyTree) -> Any:
        return optimizer.init(
            jax.tree.map(lambda leaf: as_wide(leaf, jnp.bfloat16), params, is_leaf=is_named)
        )

    def update(updates: PyTree, state: Any, params: PyTree = None, **extra: Any) -> tuple[Any, Any]:
        wide, wide_params = (jax.tree.map(as_wide, x, is_leaf=is_named) for x in (updates, params))
        structure: Any
        old, structure = jax.tree.flatten(state, is_leaf=is_named)
        wide_state = structure.unflatten([_wide_float(leaf) for leaf in old])
        done, state = optimizer.update(wide, wide_state, wide_params, **extra)
        new = map(as_type_of, jax.tree.leaves(state, is_leaf=is_named), old)
        done = jax.tree.map(as_type_of, done, updates, is_leaf=is_named)
        return done, structure.unflatten(new)

    return optax.GradientTransformationExtraArgs(init, update)


def _wide_float(leaf: Any) -> Any:
    is_float = jnp.issubdtype(getattr(leaf, "dtype", np.dtype(bool)), jnp.floating)
    return as_wide(leaf) if is_float else leaf


def as_type_of(leaf: Any, like: Any) -> Any:
    """Cast floats to the dtype of another array, unless it has integers."""
    dtype = getattr(like, "dtype", np.dtype(bool))
    return to_type(leaf, dtype) if jnp.issubdtype(dtype, jnp.inexact) else leaf


class PartitionState(NamedTuple):
    """The states of the optimizer of matrices and of the fallback."""

    matrices: Any
    others: Any


def partitioned(axes: MatrixAxes, matrices: Any, fallback: Any, fits: Fits | None = None) -> Any:
    """Return a transformation that applies `matrices` to matrices, and `fallback` to all others.

    Each gets the tree of all parameters. An `optax.MaskedNode` replaces the parameters of the
    other, as in `optax.masked`.

    Args:
      axes: the rows and columns.
      matrices: the transformation of matrices.
      fallback: the transformation of all others.
      fits: returns True for the parameters that `matrices` gets. Default: those with rows and
        columns.
    """
    optax = optax_for(axes.op)
    matrices, fallback = map(optax.with_extra_args_support, (matrices, fallback))

    def belongs(path: tuple[Any, ...], leaf: Any) -> bool:
        return axes.sides(path, leaf) is not None if fits is None else fits(path, leaf)

    def split(tree: PyTree, like: PyTree) -> tuple[PyTree, PyTree]:
        hole = optax.MaskedNode()
        is_matrix = [belongs(*pair) for pair in paths_and_leaves(like)]
        leaves = jax.tree.leaves(tree, is_leaf=is_named)
        structure: Any = jax.tree.structure(tree, is_leaf=is_named)
        return tuple(
            structure.unflatten(
                [x if mine is side else hole for x, mine in zip(leaves, is_matrix, strict=True)]
            )
            for side in (True, False)
        )

    def init(params: PyTree) -> PartitionState:
        axes.check(params)
        own, others = split(params, params)
        return PartitionState(matrices.init(own), call_user_code(fallback.init, others))

    def update(
        updates: PyTree, state: PartitionState, params: PyTree = None, **extra: Any
    ) -> tuple[Any, PartitionState]:
        if params is not None:
            check_updates(axes.op, updates, params, "the parameters")
        own, others = split(updates, updates)
        own_params, other_params = (None, None) if params is None else split(params, updates)
        own, own_state = matrices.update(own, state.matrices, own_params, **extra)
        others, others_state = call_user_code(
            fallback.update, others, state.others, other_params, **extra
        )

        def is_leaf(node: object) -> bool:
            return is_named(node) or isinstance(node, optax.MaskedNode)

        merged = jax.tree.map(
            lambda mine, other: other if isinstance(mine, optax.MaskedNode) else mine,
            own,
            others,
            is_leaf=is_leaf,
        )
        return merged, PartitionState(own_state, others_state)

    return optax.GradientTransformationExtraArgs(init, update)
