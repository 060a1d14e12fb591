"""Conversion from and to Flax, whose parameters have axis names and rules that shard them."""

from __future__ import annotations

import sys
from collections.abc import Hashable, Iterable
from typing import Any

import jax

from namedax.core.array import NamedArray, is_named, make
from namedax.core.names import Dims, PyTree, check_dims
from namedax.errors import (
    ArgumentTypeError,
    AxisMappingError,
    AxisResourceError,
    show_names,
)
from namedax.messages.call_errors import checks_signature
from namedax.messages.tree_differences import tree_differences
from namedax.ops.shape.conversion import positional

__all__ = ["from_flax", "from_logical_rules", "to_flax"]


_Places = dict[Hashable, tuple[str, ...]]
_Rules = list[tuple[Hashable, tuple[str, ...]]]


@checks_signature
def from_logical_rules(
    rules: Iterable[tuple[Hashable, Any]], *arrays: object, strict: bool = False
) -> dict[Hashable, Any]:
    """Convert logical axis rules, as in Flax and MaxText, to `axis_resources`.

    Flax applies the rules to each array separately. An axis takes its first rule whose mesh axes no
    other axis of the array has taken. A second rule for a name is its second choice. In namedax an
    axis name has one sharding. If you pass `arrays`, every array is sharded as in Flax, or the
    function raises an error. Without `arrays`, each axis name takes its first rule.

    Args:
      rules: pairs of an axis name and a mesh axis, a tuple of mesh axes, or `None` (replicated), in
        order of precedence.
      *arrays: pytrees of named arrays, of their types, or of parameters with Flax metadata. For
        arrays that the body creates, lists of axis names, such as `["batch", "mlp"]`. Default:
        none.
      strict: if `True`, an axis that has rules but is replicated, because other axes of its array
        have taken the mesh axes, is an error unless a rule with `None` allows it. If `False`
        (default), the axis is replicated, as in Flax.

    Returns:
      A dict for `axis_resources`, without replicated axes. If `arrays` are given, it contains only
      their axis names.

    Raises:
      AxisResourceError: the rules are malformed, or they shard an axis differently in two of the
        arrays; with `strict`, two axes of an array conflict.

    >>> import namedax as nx
    >>> rules = [("batch", ("data", "fsdp")), ("embed", "fsdp"), ("norm", None)]
    >>> rules += [("mlp", "tensor"), ("heads", "tensor")]
    >>> nx.interop.from_logical_rules(rules)
    {'batch': ('data', 'fsdp'), 'embed': 'fsdp', 'mlp': 'tensor', 'heads': 'tensor'}
    >>> nx.interop.from_logical_rules(rules, ["batch", "mlp"], ["heads", "kv"])
    {'batch': ('data', 'fsdp'), 'mlp': 'tensor', 'heads': 'tensor'}
    """
    pairs = [_checked_rule(rule) for rule in rules]
    given = [names for tree in arrays for names in _names_in(tree)]
    groups = given if arrays else [(name,) for name in dict.fromkeys(name for name, _ in pairs)]
    places: dict[Hashable, tuple[tuple[str, ...], Dims]] = {}
    for names in groups:
        placed = _placed(names, pairs)
        if strict:
            _check_conflicts(names, pairs, placed)
        for name, axes in placed.items():
            before, where = places.setdefault(name, (axes, names))
            if before != axes:
                first, second = (
                    f"is sharded over {show_names(a)}" if a else "is replicated"
                    for a in (before, axes)
                )
                raise AxisResourceError(
                    f"from_logical_rules: by these rules axis {name!r} {first} in the array of"
                    f" {show_names(where)}, and {second} in the array of {show_names(names)}; in"
                    " axis_resources an axis name has one sharding. Rename the axis in one of the"
                    " two arrays (with nx.rename, or {new:old} in an einsum), and add a rule for"
                    " the new name."
                )
    return {name: axes[0] if len(axes) == 1 else axes for name, (axes, _) in places.items() if axes}


def _check_conflicts(names: Dims, rules: _Rules, placed: _Places) -> None:
    """Reject an axis that is replicated only because other axes have taken its mesh axes."""
    for name, axes in placed.items():
        wanted = [choice for other, choice in rules if other == name]
        if axes or not wanted or () in wanted:
            continue
        taken = {axis: other for other, others in placed.items() for axis in others}
        shared = [axis for axis in wanted[0] if axis in taken]
        raise AxisResourceError(
            f"from_logical_rules: the rules shard axis {name!r} over {show_names(wanted[0])}, but"
            f" in the array of {show_names(names)} axis {taken[shared[0]]!r} has taken"
            f" {show_names(shared)}. Change one of the two rules, add a rule with other mesh axes"
            f" for {name!r}, or add ({name!r}, None) to replicate it."
        )


def _checked_rule(rule: object) -> tuple[Hashable, tuple[str, ...]]:
    if isinstance(rule, (tuple, list)) and len(rule) == 2:
        name, axes = rule
        axes = () if axes is None else (axes,) if isinstance(axes, str) else axes
        if isinstance(axes, (tuple, list)) and all(isinstance(axis, str) for axis in axes):
            return name, tuple(axes)
    raise AxisResourceError(
        f"from_logical_rules: {rule!r} is not a rule. Write pairs of an axis name and a mesh axis,"
        " a tuple of mesh axes, or None."
    )


def _placed(names: Dims, rules: Iterable[tuple[Hashable, tuple[str, ...]]]) -> _Places:
    """Return the mesh axes of the axes of one array, by rules in order of precedence.

    Each mesh axis is used once.
    """
    places: _Places = {name: () for name in names if name is not None}
    decided: set[Hashable] = set()
    for name, axes in rules:
        taken = {axis for other in places.values() for axis in other}
        if name in places and name not in decided and not taken & set(axes):
            places[name] = axes
            decided.add(name)
    return places


def _is_list_of_names(tree: PyTree) -> bool:
    return (
        isinstance(tree, (list, tuple))
        and bool(tree)
        and all(isinstance(x, str) or x is None or x is ... for x in tree)
    )


def _names_in(tree: PyTree) -> list[Dims]:
    """Return the axis names of every array in a tree, one tuple per array."""
    found = []
    for leaf in jax.tree.leaves(
        tree, is_leaf=lambda x: is_named(x) or _is_boxed(x) or _is_list_of_names(x)
    ):
        dims: Dims | None = (
            leaf.dims
            if isinstance(leaf, NamedArray)
            else _names_of_box(leaf)
            if _is_boxed(leaf)
            else None
        )
        dims = tuple(leaf) if _is_list_of_names(leaf) else dims
        found.append(tuple(dim for dim in dims or () if dim is not None and dim is not ...))
    return [names for names in dict.fromkeys(found) if names]


def _is_boxed(leaf: object) -> bool:
    """Return True if a leaf is a Flax box or variable with axis names.

    Without an import of Flax the result is False.
    """
    linen, nnx = sys.modules.get("flax.core.meta"), sys.modules.get("flax.nnx")
    return (linen is not None and isinstance(leaf, linen.Partitioned)) or (
        nnx is not None and isinstance(leaf, nnx.Variable)
    )


def _names_of_box(box: Any) -> Dims | None:
    if hasattr(box, "get_metadata"):
        metadata = box.get_metadata()
        names = metadata.get("out_sharding") or metadata.get("sharding_names")
    else:
        names = box.names
    return None if names is None else tuple(names)


@checks_signature
def from_flax(tree: PyTree) -> PyTree:
    """Convert parameters with Flax axis names to named arrays.

    Args:
      tree: a pytree with linen's `LogicallyPartitioned` or `Partitioned` boxes (from
        `nn.with_logical_partitioning`). Or a pytree with `nnx.Variable`s that have sharding names
        (from `nnx.with_partitioning`), such as the state from `nnx.split`.

    Returns:
      The tree with a named array in place of each box or variable. An axis without a name is
      positional. An array without axis names becomes or stays a plain array.

    Raises:
      AxisMappingError: the number of names in a box is not the number of axes of its array.
      AxisNameError: a box contains a name twice.

    >>> import jax, flax.linen as nn, jax.numpy as jnp, namedax as nx
    >>> init = nn.with_logical_partitioning(nn.initializers.ones, ("embed", "mlp"))
    >>> variables = nn.Dense(3, kernel_init=init).init(jax.random.key(0), jnp.ones((2, 4)))
    >>> nx.interop.from_flax(variables)["params"]["kernel"].dims
    ('embed', 'mlp')
    """

    def unbox(path: tuple[Any, ...], leaf: Any) -> Any:
        if not _is_boxed(leaf):
            return leaf
        value, names = (
            (leaf.get_value() if hasattr(leaf, "get_value") else leaf.value),
            _names_of_box(leaf),
        )
        if names is None or isinstance(value, NamedArray):
            return value
        if len(names) != len(value.shape):
            raise AxisMappingError(
                f"from_flax: {jax.tree_util.keystr(path)} has the names {list(names)} for an array"
                f" of shape {tuple(value.shape)}. Pass one name, or None, for each axis where the"
                " parameter is created."
            )
        return (
            make(value, check_dims(names, "from_flax"))
            if any(name is not None for name in names)
            else value
        )

    return jax.tree_util.tree_map_with_path(unbox, tree, is_leaf=_is_boxed)


@checks_signature
def to_flax(tree: PyTree, like: PyTree) -> PyTree:
    """Convert named arrays to parameters with Flax axis names, the inverse of `from_flax`.

    Args:
      tree: a tree from `from_flax`, possibly with other values.
      like: a tree with boxes or variables, such as the argument of `from_flax`. Its values are
        ignored.

    Returns:
      A tree like `like` with the values of `tree`, whose axes are in the order of each box's names.

    Raises:
      ArgumentTypeError: `tree` and `like` have different structures.
      NamedAxesLeftError: an array has a named axis that its box does not have.
      AxisMappingError: an array lacks a named axis of its box.

    >>> import jax, flax.linen as nn, jax.numpy as jnp, namedax as nx
    >>> init = nn.with_logical_partitioning(nn.initializers.ones, ("embed", "mlp"))
    >>> variables = nn.Dense(3, kernel_init=init).init(jax.random.key(0), jnp.ones((2, 4)))
    >>> doubled = jax.tree.map(lambda x: x * 2, nx.interop.from_flax(variables))
    >>> nx.interop.to_flax(doubled, variables)["params"]["kernel"].value.shape
    (4, 3)
    """

    def rebox(box: Any, value: object) -> Any:
        names = _names_of_box(box) if _is_boxed(box) else None
        value = (
            positional(value, list(names) if names else [...])
            if isinstance(value, NamedArray)
            else value
        )
        if not _is_boxed(box):
            return value
        return box.replace(value) if hasattr(box, "get_metadata") else box.replace_boxed(value)

    boxes = jax.tree.structure(like, is_leaf=_is_boxed)
    values = jax.tree.structure(tree, is_leaf=is_named)
    if different := tree_differences(values, boxes, ("the tree{}", "like{}")):
        raise ArgumentTypeError(
            f"to_flax: {different} Pass a tree with the structure of from_flax(like)."
        )
    return jax.tree.map(rebox, like, tree, is_leaf=_is_boxed)
