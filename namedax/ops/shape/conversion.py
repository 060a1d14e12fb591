"""Conversion between positional and named axes: `named`, `positional`, `order_like`."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from types import EllipsisType, NoneType
from typing import Any, TypeVar, overload

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.tree_util import KeyPath, PyTreeDef

from namedax.core.annotations import AnyArray, ArrayLike
from namedax.core.array import (
    NamedArray,
    dims_of,
    is_named,
    make,
    make_in_region,
    make_padded,
    padding_of,
)
from namedax.core.axis_mappings import AxisMapping, What, is_mapping, parse_mapping, text_of
from namedax.core.display import type_text
from namedax.core.element_types import (
    check_numbers,
    foreign_dims,
    is_foreign_type,
)
from namedax.core.names import Dims, PyTree, check_dims
from namedax.core.recent import Recent
from namedax.core.region import active_regions, ambient
from namedax.errors import (
    ArgumentTypeError,
    AxisMappingError,
    AxisSizeError,
    NamedAxesLeftError,
    closest,
    did_you_mean,
    format_value,
    raise_not_found,
    show_names,
)
from namedax.messages.call_errors import checks_signature
from namedax.messages.tree_differences import ELEMENT, Label, tree_differences
from namedax.ops.operands import kernels
from namedax.ops.operands.broadcasting import make_result, to_local
from namedax.ops.operands.operation import Explicit, operation
from namedax.ops.operands.pytree import data_of, names_of
from namedax.ops.shape.placement import leaf_array, leaf_text
from namedax.ops.shape.rename import move, transpose_to
from namedax.resources.layout import relayout

__all__ = [
    "attach_names",
    "detach_names",
    "leaves_with_mappings",
    "map_with_mappings",
    "named",
    "order_like",
    "positional",
    "untag",
]

Tree = TypeVar("Tree")


_LABELS: tuple[Label, Label] = ("axes{}", "the tree{}")


def map_with_mappings(
    function: Callable[..., AnyArray],
    tree: PyTree,
    axes: PyTree,
    op: str,
    labels: tuple[Label, Label] = _LABELS,
) -> PyTree:
    """Apply `function(leaf, mapping, path)` to the leaves of a tree.

    Args:
      function: a function of a leaf, its axis mapping and its path.
      tree: a pytree, in which named arrays are leaves.
      axes: a pytree prefix of axis mappings.
      op: the operation, for messages.
      labels: the texts of a mapping and of a value at a path, as in `tree_differences`. Default:
        those of `nx.named`.

    Raises:
      AxisMappingError: `axes` is not a prefix of `tree`.
    """
    leaves, structure = leaves_with_mappings(tree, axes, op, labels)
    return jax.tree.unflatten(structure, [function(*leaf) for leaf in leaves])


def leaves_with_mappings(
    tree: PyTree, axes: PyTree, op: str, labels: tuple[Label, Label] = _LABELS
) -> tuple[list[tuple[Any, AxisMapping | None, KeyPath[Any]]], PyTreeDef]:
    """Return the leaves of a tree with mapping and path, and its structure.

    The arguments are those of `map_with_mappings`.
    """
    leaves, structure = jax.tree_util.tree_flatten_with_path(tree, is_leaf=is_named)
    if axes is None:
        return [(leaf, None, path) for path, leaf in leaves], structure
    prefix = jax.tree.map(
        lambda m: None if m is None else parse_mapping(m, op, axes),
        axes,
        is_leaf=lambda m: m is None or is_mapping(m),
    )
    boxed = jax.tree.map(_Box, prefix, is_leaf=_is_parsed)
    try:
        full = jax.tree.broadcast(
            boxed, tree, is_leaf=lambda node: is_named(node) or isinstance(node, _Box)
        )
    except ValueError:
        differences = tree_differences(jax.tree.structure(boxed), structure, labels, ELEMENT)
        raise AxisMappingError(
            f"{op}: {differences} Write one axis mapping per value, or one for a whole container. A"
            " tuple, a list of lists or dicts, and a dict with string keys are containers."
        ) from None
    boxes = jax.tree.leaves(full)
    return [
        (leaf, box.mapping, path) for (path, leaf), box in zip(leaves, boxes, strict=True)
    ], structure


def _is_parsed(node: object) -> bool:
    return node is None or isinstance(node, AxisMapping)


class _Box:
    """A leaf that contains a mapping (or `None`, which is not a leaf by itself)."""

    def __init__(self, mapping: AxisMapping | None):
        self.mapping = mapping


def attach_names(
    array: AnyArray, mapping: AxisMapping | None, op: str, what: What
) -> tuple[Any, Dims]:
    """Return the global data of an array, and its dims with names for positional axes."""
    dims = dims_of(array)
    data = data_of(array)
    if mapping is None:
        return data, dims
    _check_positional(dims, mapping, op, what)
    given = mapping.place(dims.count(None), op, what)
    names = iter(given)
    return data, check_dims(tuple(next(names) if dim is None else dim for dim in dims), op)


def _check_positional(dims: Dims, mapping: AxisMapping, op: str, what: What) -> None:
    """Raise if the mapping counts axes of the array that already have names."""
    own, free = names_of(dims), dims.count(None)
    if not own or mapping.rank in (None, free) or not (op == "xmap" or mapping.rank == len(dims)):
        return
    renamed = {}
    if mapping.rank == len(dims):
        pairs = zip(dims, mapping.place(len(dims), op, what), strict=True)
        renamed = {dim: name for dim, name in pairs if None not in (dim, name) and dim != name}
    remedy = (
        f"Rename its axes with nx.rename(x, {renamed!r})."
        if renamed
        else "It already has these names."
    )
    if op == "xmap":
        remedy = (
            "A named array needs no mapping: leave out in_axes, or write None for this argument."
        )
        remedy += f" To rename its axes, call nx.rename(x, {renamed!r}) first." if renamed else ""
    raise AxisMappingError(
        f"{op}: the axis mapping {mapping.text} asserts {mapping.rank} axes, but {text_of(what)}"
        f" has {free} positional axes, and the named axes {show_names(own)}. {remedy}"
    )


def detach_names(
    array: object,
    mapping: AxisMapping,
    op: str,
    what: What,
    carried: frozenset[Hashable] = frozenset(),
) -> tuple[Any, Dims]:
    """Transpose an array to the order of the mapping, and return its data and dims.

    Positional axes of the result are `None` in the dims. A name that the mapping places and the
    array lacks is broadcast to its size in the mapped function. Names in `carried` that the mapping
    does not place are kept in front of the others.

    Raises:
      NamedAxesLeftError: the array has a name that the mapping does not place.
      AxisMappingError: the rank of the mapping differs from the rank of the result, or it places a
        name of unknown size.
      PlacementConflictError: it places a name that the array lacks, over a mesh axis of another
        axis of the array.
    """
    region = ambient()
    block = to_local(array, op, region)
    data = block._data if isinstance(block, NamedArray) else jnp.asarray(block)
    dims = dims_of(block)
    placed = [name for _, name in mapping.names]
    left = [dim for dim in dims if dim is not None and dim not in placed and dim not in carried]
    if left:
        sizes = {} if region is None else region.sizes
        meant = {
            name: closest(name, left) for name in placed if name not in dims and name not in sizes
        }
        right = [dim if (dim := meant.get(name)) is not None else name for name in placed]
        known = [name for name in placed if name in dims or name in sizes]
        remedy = f"Reduce them in the function, or place them in the mapping, as in {known + left}."
        if set(left) <= set(right) and len(set(right)) == len(right):
            remedy = (
                "".join(did_you_mean(name, left)[1:] + " " for name in meant) + f"Write {right}."
            )
        absent = f"; no axis here is named {show_names(meant)}" if meant else ""
        raise NamedAxesLeftError(
            f"{op}: {text_of(what)}, {type_text(array)}, still has the axes {show_names(left)},"
            f" which {mapping.text} does not place{absent}. {remedy}"
        )
    missing = [name for name in placed if name not in dims]
    for name in missing:
        size = None if region is None else region.size_of(name)
        if size is None:
            raise AxisMappingError(
                f"{op}: {mapping.text} places {name!r}, but {text_of(what)}, {type_text(array)},"
                " has no such axis, and it has no size to broadcast to."
                f"{did_you_mean(name, () if region is None else region.sizes)} Write"
                f" {[name for name in placed if name not in missing]}, or give its size in"
                " axis_sizes."
            )
        n = size if region is None else region.block_size(name, size, op, supports_padding=True)
        data = lax.broadcast_in_dim(data, (n, *data.shape), range(1, data.ndim + 1))
        dims = (name, *dims)
    if missing and region is not None:
        region.check_placement(
            f"{op} {mapping.text}, {text_of(what)}", (dim for dim in dims if dim is not None)
        )
    staying = tuple(dim for dim in dims if dim in carried and dim not in placed)
    target = staying + mapping.place(
        len(dims) - len(staying), op, lambda: f"{text_of(what)}, {type_text(array)}, with its names"
    )
    places = iter([i for i, dim in enumerate(dims) if dim is None])
    order = [next(places) if dim is None else dims.index(dim) for dim in target]
    if order != list(range(len(order))):
        data = kernels.run(op, _transposed, None, (tuple(order),), data)
    return data, target


def _transposed(op: str, axes: None, order: tuple[int, ...], data: jax.Array) -> jax.Array:
    return lax.transpose(data, order)


@overload
def named(array: ArrayLike, axes: PyTree) -> NamedArray: ...
@overload
def named(array: PyTree, axes: PyTree) -> PyTree: ...
@checks_signature
def named(array: PyTree, axes: PyTree) -> PyTree:
    """Name positional axes.

    Args:
      array: an array, or a pytree of arrays.
      axes: an axis mapping, or a pytree prefix of mappings. A mapping is a dict from positional
        axes to names, a list with one element per axis, or a list that ends with `...`.

    Returns:
      Named arrays; a plain array if the mapping has no names. In a mapped body a positional array
      is the same on every device, and each device keeps its block of a mapped axis.

    Communication: none.

    Raises:
      AxisMappingError: the mapping is malformed or does not fit the rank.
      AxisSizeError: the axis has a different size in the mapped function.

    >>> import jax.numpy as jnp, namedax as nx
    >>> nx.named(jnp.ones((2, 5, 3)), {0: "batch", 2: "k"}).dims
    ('batch', None, 'k')
    """
    is_plain = (
        type(axes) is list
        and type(array) in kernels.whole_types
        and _STRINGS.issuperset(map(type, axes))
        and not active_regions
    )
    if is_plain and (dims := _known_dims.get((*axes, array.ndim))) is not None:
        return make(array, dims)

    def one(leaf: ArrayLike, mapping: AxisMapping | None, path: KeyPath[Any]) -> AnyArray:
        if (
            mapping is not None
            and mapping.names
            and path
            and isinstance(leaf, (int, float, complex))
        ):
            raise AxisMappingError(
                f"named: the number {format_value(leaf)} in a list, tuple or dict is a separate"
                f" array without an axis that {mapping.text} could name. Convert all the numbers to"
                " one array first, with jnp.array or np.array."
            )
        own = None
        if is_foreign_type(type(leaf)):
            own, leaf = foreign_dims(leaf), np.asarray(leaf)
        op = leaf_text("named", path)
        if type(leaf) is NamedArray and (padding := padding_of(leaf)) is not None:
            what = f"the array {type_text(leaf)}"
            stored, dims = attach_names(make(leaf._stored, leaf._dims), mapping, op, lambda: what)
            return make_padded(stored, dims, padding)
        check_numbers(op, leaf)
        leaf = to_local(leaf, op, ambient())
        leaf = leaf if isinstance(leaf, (NamedArray, jax.Array)) else leaf_array(op, leaf)
        data, dims = attach_names(leaf, mapping, op, lambda: f"the array {type_text(leaf)}")
        if own is not None and own != dims:
            raise AxisMappingError(
                f"{op}: the array already has the dims {show_names(own)}, but"
                f" {mapping.text if mapping else 'None'} gives its axes other names. Convert it"
                " first with nx.from_xarray(x), then rename its axes with nx.rename."
            )
        if all(dim is None for dim in dims):
            return data
        return _enter(make_in_region(data, dims), dims_of(leaf), op)

    result = map_with_mappings(one, array, axes, "named")
    if is_plain and type(result) is NamedArray:
        _known_dims.put((*axes, array.ndim), result._dims)
    return result


#: The dims of named plain arrays, by the list of names and the rank.
_known_dims = Recent(1024)
_STRINGS = frozenset({str, NoneType, EllipsisType})


def _enter(array: NamedArray, before: Dims, op: str) -> AnyArray:
    """Slice newly named axes, which are complete on every device, to their blocks."""
    region = ambient()
    if region is None:
        return array
    region.check_placement(op, names_of(array._dims))
    for dim, was, size in zip(array._dims, before, array._data.shape, strict=True):
        if dim is None or was is not None:
            continue
        known = region.sizes.get(dim, size)
        if known != size:
            raise AxisSizeError(
                f"{op}: axis {dim!r} would have size {size}, but it has size {known} in this mapped"
                " function; a name has one size, and a positional array is complete on every"
                " device. Choose another name."
            )
        region.block_size(dim, size, op, supports_padding=True)
    if not region.manual:
        return make_result(array._data, array._dims)
    old = region.layout(before)
    new = region.layout(array._dims)
    return make_result(relayout(array._data, old, new), array._dims)


def _names_placed(x: PyTree, axes: PyTree) -> list[Hashable]:
    """Return the names in a pytree of axis mappings, for the scope of the operation."""
    if isinstance(axes, Mapping):
        return _names_placed(x, list(axes.values()))
    return (
        [name for part in axes for name in _names_placed(x, part)]
        if isinstance(axes, (list, tuple))
        else [axes]
    )


@overload
def positional(x: ArrayLike, axes: PyTree) -> jax.Array: ...
@overload
def positional(x: PyTree, axes: PyTree) -> PyTree: ...
@operation(_names_placed, explicit=Explicit.AS_JAX, scope=True)
def positional(x: PyTree, axes: PyTree) -> PyTree:
    """Convert all named axes to positional axes.

    Args:
      x: a named array, or a pytree of them.
      axes: an axis mapping that places every name, or a pytree prefix of mappings; positions count
        in the result.

    Returns:
      Plain `jax.Array`s.

    Communication: in a mapped body a positional array is the same on every device, so a sharded
    axis is gathered (one all-gather).

    Raises:
      NamedAxesLeftError: a name is not placed.
      AxisMappingError: the mapping is malformed or does not fit the rank.

    >>> import jax.numpy as jnp, namedax as nx
    >>> x = nx.named(jnp.ones((2, 5, 3)), {0: "batch", 2: "k"})
    >>> nx.positional(x, ["k", "batch", ...]).shape
    (3, 2, 5)
    """

    def one(leaf: ArrayLike, mapping: AxisMapping | None, path: KeyPath[Any]) -> AnyArray:
        if mapping is None:
            raise AxisMappingError(
                "positional: None is not an axis mapping here. Write a dict or a list of names."
            )
        data, dims = detach_names(leaf, mapping, leaf_text("positional", path), "the array")
        region = ambient()
        if region is not None and region.manual:
            old = region.layout(dims)
            data = relayout(data, old, [()] * len(dims))
        return data

    return map_with_mappings(one, x, axes, "positional")


@overload
def untag(x: ArrayLike, axes: PyTree) -> AnyArray: ...
@overload
def untag(x: PyTree, axes: PyTree) -> PyTree: ...
@operation(_names_placed, explicit=Explicit.AS_JAX, scope=True)
def untag(x: PyTree, axes: PyTree) -> PyTree:
    """Convert some named axes to positional axes, and keep the others: a partial `nx.positional`.

    Args:
      x: a named array, or a pytree of them.
      axes: an axis mapping that places the names that become positional, or a pytree prefix of
        mappings. Positions count among the positional axes of the result.

    Returns:
      Arrays with the remaining named axes in front.

    Communication: in a mapped body a positional axis is complete on every device, so a sharded axis
    is gathered (one all-gather). The gradient is a reduce-scatter if the result was combined with
    values that vary over the same mesh axes.

    Raises:
      AxisNotFoundError: an array lacks a name that the mapping places.
      AxisMappingError: the mapping is malformed or does not fit the rank.

    >>> import jax.numpy as jnp, namedax as nx
    >>> x = nx.named(jnp.ones((2, 5, 3)), ["batch", None, "k"])
    >>> nx.untag(x, ["k", ...]).dims, nx.untag(x, ["k", ...]).shape
    (('batch', None, None), (3, 5))
    """

    def one(leaf: ArrayLike, mapping: AxisMapping | None, path: KeyPath[Any]) -> AnyArray:
        if mapping is None:
            raise AxisMappingError(
                "untag: None is not an axis mapping here. Write a dict or a list of names."
            )
        dims = dims_of(leaf)
        placed = {name for _, name in mapping.names}
        for name in placed:
            if name not in dims:
                raise_not_found(
                    leaf_text("untag", path),
                    name,
                    type_text(leaf),
                    names_of(dims),
                )
        data, dims = detach_names(
            leaf, mapping, leaf_text("untag", path), "the array", frozenset(dims) - placed - {None}
        )
        final = tuple(None if dim in placed else dim for dim in dims)
        region = ambient()
        if region is None or not region.manual:
            return make_result(data, final)
        old = region.layout(dims)
        new = region.layout(final)
        return move(make_in_region(data, dims), old, new, final)

    return map_with_mappings(one, x, axes, "untag")


@checks_signature
def order_like(tree: Tree, like: PyTree) -> Tree:
    """Transpose every named array of `tree` to the physical order of its counterpart in `like`.

    JAX compares tree structures, which include the order; this makes them equal. The named shapes
    must agree.

    Args:
      tree: a pytree of named arrays.
      like: a pytree of the same structure with the orders.

    Returns:
      The tree of transposed arrays.

    Communication: none.

    Raises:
      ArgumentTypeError: the trees have different structures.
      NamedAxesLeftError: two arrays have different names.

    >>> import jax.numpy as jnp, namedax as nx
    >>> a, b = nx.named(jnp.ones((2, 3)), ["a", "b"]), nx.named(jnp.ones((3, 2)), ["b", "a"])
    >>> nx.order_like(b, a).dims
    ('a', 'b')
    """
    if isinstance(like, (list, tuple)) and like and all(isinstance(name, str) for name in like):
        example = (
            f"nx.order_like(x, y), or nx.positional(x, {format_value(list(like))}) for an array"
            " without names in this order"
        )
        raise ArgumentTypeError(
            f"order_like: expected an array that defines the order, got {format_value(like)}. Write"
            f" {example}."
        )

    def one(x: Any, target: Any) -> AnyArray:
        dims, wanted = dims_of(x), dims_of(target)
        if set(dims) - {None} != set(wanted) - {None}:
            raise NamedAxesLeftError(
                f"order_like: {type_text(x)} cannot be ordered like {type_text(target)}; they have"
                " different names. Broadcast or reduce first."
            )
        if not isinstance(x, NamedArray):
            return x
        # Positional axes keep their number, which may differ; the leading ones of `like` correspond
        # to all axes in front.
        order = list(wanted)
        extra = dims.count(None) - wanted.count(None)
        if extra > 0:
            order = [None] * extra + order
        for _ in range(-extra):
            order.remove(None)
        return transpose_to(x, tuple(order))

    have, want = (jax.tree.structure(each, is_leaf=is_named) for each in (tree, like))
    if different := tree_differences(have, want, ("the tree{}", "like{}")):
        raise ArgumentTypeError(f"order_like: {different} Pass two trees of the same structure.")
    return jax.tree.map(one, tree, like, is_leaf=is_named)
