"""Placement of the arrays of a tree on a mesh, for `nx.shard`.

With formats, blocks of arrays that are on the mesh already are sent in narrow number formats.
"""

from __future__ import annotations

import functools
from collections.abc import Hashable, Iterator, Mapping
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.tree_util import KeyPath

from namedax.core.annotations import AnyArray, ArrayLike
from namedax.core.array import (
    NamedArray,
    dims_of,
    is_named,
    make_padded,
    padding_of,
    stored_data,
)
from namedax.core.display import type_text
from namedax.core.element_types import (
    as_jax,
    reject_foreign,
)
from namedax.core.names import Dims, MeshAxes, PyTree
from namedax.core.records import Record
from namedax.errors import (
    ArgumentError,
    ArgumentTypeError,
    AxisNotFoundError,
    NamedaxError,
    format_value,
    raise_not_found,
    show_names,
)
from namedax.ops.operands.pytree import names_of
from namedax.resources.assignment import named_sharding
from namedax.resources.layout import relayout
from namedax.resources.mesh import put
from namedax.resources.stored_padding import (
    UnevenCopy,
    padding_for,
    store,
    without_padding,
)
from namedax.resources.wire import Wire, check_narrow

__all__ = [
    "Placement",
    "check_leaves",
    "check_names_placed",
    "check_shard_wire",
    "dims_in",
    "leaf_array",
    "leaf_text",
]


class Placement(Record):
    """The placement of arrays on a mesh.

    Attributes:
      assignment: the mesh axes of each name.
      mesh: the mesh.
      padded: as in `nx.shard`.
      wire: the number formats of blocks that are sent, or `None`.
    """

    assignment: dict[Hashable, MeshAxes]
    mesh: Mesh
    padded: bool | None
    wire: Wire | None

    def place(self, op: str, leaf: ArrayLike) -> tuple[AnyArray, UnevenCopy | None]:
        """Place one array, and return the record of its replicated axes that do not divide."""
        dims = dims_of(leaf)
        if not isinstance(leaf, NamedArray):
            data = leaf_array(op, leaf)
            return put(data, self._sharding(op, dims, data.shape)), None
        uneven = padding_for(dims, leaf.named_shape, self.assignment, self.mesh)
        padding = uneven if self.padded else None
        if self.wire is not None:
            _check_without_padding(op, leaf, padding is not None or bool(padding_of(leaf)))
        if padding is not None and padding == padding_of(leaf):
            stored = stored_data(leaf)
            sharding = self._sharding(op, dims, stored.shape)
            return make_padded(put(stored, sharding), dims, padding), None
        leaf = without_padding(leaf)
        if padding is not None:
            return store(leaf._data, dims, self.assignment, self.mesh, op), None
        sharding = self._sharding(op, dims, leaf._data.shape)
        copy = None if uneven is None else UnevenCopy(dims, leaf._data, sharding, uneven)
        if dims.count(None) == len(dims):
            return put(leaf._data, sharding), copy
        if self.wire is None:
            return NamedArray(put(leaf._data, sharding), dims), copy
        return NamedArray(_put_narrow(op, leaf, leaf._data, sharding, self.wire), dims), copy

    def _sharding(self, op: str, dims: Dims, shape: tuple[int, ...]) -> NamedSharding:
        return named_sharding(dims, shape, self.assignment, self.mesh, op)


# --- leaves ---------------------------------------------------------------------------------------


def leaf_text(op: str, path: KeyPath[Any]) -> str:
    """Return the operation, and the path of a leaf if the argument is a tree, for messages."""
    return f"{op}, x{jax.tree_util.keystr(path)}" if path else op


def leaf_array(op: str, leaf: object) -> jax.Array:
    """Return a leaf as an array of JAX.

    Raises:
      ArgumentTypeError: it is neither an array nor a number.
    """
    try:
        return as_jax(op, leaf)
    except TypeError as error:
        if isinstance(error, NamedaxError):
            raise
        raise ArgumentTypeError(
            f"{op}: {format_value(leaf)} is a {type(leaf).__name__}, not an array. Pass an array or"
            " a number; in a tree, None means no array."
        ) from None


def check_leaves(tree: PyTree) -> None:
    """Check that every leaf is an array or a number.

    Raises:
      ArgumentTypeError: one is not; the message has its path.
    """
    for path, leaf in jax.tree_util.tree_leaves_with_path(tree, is_leaf=is_named):
        if isinstance(leaf, (NamedArray, jax.Array, bool, int, float, complex)):
            continue
        reject_foreign(leaf_text("shard", path), leaf)
        is_numeric = (
            isinstance(leaf, (np.ndarray, np.generic))
            and leaf.dtype.kind not in "MmOSU"
            and leaf.dtype.names is None
        )
        if is_numeric or hasattr(leaf, "__jax_array__"):
            continue
        remedy = (
            "Remove it from the tree, or set it to None."
            if path
            else "Pass an array, or a pytree of arrays."
        )
        raise ArgumentTypeError(
            f"{leaf_text('shard', path)}: {format_value(leaf)} is not an array that JAX supports."
            f" {remedy}"
        )


def dims_in(tree: PyTree) -> Iterator[Hashable | None]:
    """Return the dims of all arrays of a tree."""
    for leaf in jax.tree.leaves(tree, is_leaf=is_named):
        yield from dims_of(leaf)


def check_names_placed(x: PyTree, resources: Mapping[Hashable, Any]) -> None:
    """Raise if `axis_resources` shards nothing.

    Then the one array lacks a name, or no array of a tree has named axes. Arrays without these
    names are valid in a tree: one `axis_resources` shards all parameters of a program.
    """
    if jax.tree_util.all_leaves([x], is_leaf=is_named):
        dims = dims_of(x)
        names = names_of(dims)
        for name in resources:
            if name not in dims:
                extra = f"Name its axes first: nx.named(x, {_naming(name, len(dims))})."
                if names:
                    extra = (
                        "Correct the name or remove the entry. To use the axis_resources of a"
                        " complete program, pass all of its arrays as one tree."
                    )
                raise_not_found("shard", name, type_text(x), names, extra)
        return
    leaves = jax.tree.leaves(x, is_leaf=is_named)
    if resources and any(map(np.ndim, leaves)) and not any(map(is_named, leaves)):
        raise AxisNotFoundError(
            f"shard: axis_resources maps {show_names(resources)}, but no array of the tree has a"
            " named axis, so nothing would be sharded. Name the axes first: nx.named(tree, axes)."
        )


def _naming(name: Hashable, rank: int) -> str:
    """Return the mapping that names the first of `rank` axes."""
    return f"[{', '.join([format_value(name), *['None'] * (rank - 1)])}]"


# --- narrow formats -------------------------------------------------------------------------------


def check_shard_wire(op: str, wire: Wire | None) -> None:
    """Raise if formats select a format for gradients, which placement does not have.

    Raises:
      ArgumentError: they do.
    """
    if wire is not None and wire.backward is not None:
        raise ArgumentError(
            f"{op}: {wire!r} has a format for gradients, but arrays are placed outside of"
            f" derivatives. Pass wire={wire.forward!r}."
        )


def _check_without_padding(op: str, array: object, is_padded: bool) -> None:
    """Raise if an array is stored padded, before or after.

    Raises:
      ArgumentError: it is.
    """
    if is_padded:
        raise ArgumentError(
            f"{op}: {type_text(array)} is stored padded, and padded blocks are not sent in narrow"
            " formats. Omit wire, or omit padded=True."
        )


def _put_narrow(
    op: str, array: object, data: jax.Array, target: NamedSharding, wire: Wire
) -> jax.Array:
    """Reshard an array on its own mesh, and send its blocks in a narrow format.

    Args:
      op: the operation, for messages.
      array: the named array, for messages.
      data: its data.
      target: its new sharding.
      wire: the formats.

    Raises:
      ArgumentError: the array is traced, or not sharded over this mesh yet.
      ArgumentTypeError: it is not real floating-point.
    """
    check_narrow(op, array, wire)
    what = f"{op}: wire narrows collectives between devices of the mesh, but {type_text(array)}"
    if isinstance(data, jax.core.Tracer):
        raise ArgumentError(
            f"{what} is traced, and its sharding is unknown. Call nx.shard outside of jax.jit and"
            " of derivatives, or use nx.rename with wire in a mapped function."
        )
    source = data.sharding
    if not isinstance(source, NamedSharding) or source.mesh != target.mesh:
        raise ArgumentError(
            f"{what} is not placed on that mesh, so it is copied, not communicated. Place it"
            " without wire."
        )
    old, new = (_layout(sharding, data.ndim) for sharding in (source, target))
    if old == new:
        return jax.device_put(data, target)
    mesh = target.mesh
    assert isinstance(mesh, Mesh)
    return _resharded(data, old, new, mesh, wire)


def _layout(sharding: NamedSharding, rank: int) -> tuple[MeshAxes, ...]:
    parts = [
        () if part is None else (part,) if isinstance(part, str) else tuple(part)
        for part in sharding.spec
    ]
    return (*parts, *[()] * (rank - len(parts)))


@functools.partial(jax.jit, static_argnums=(1, 2, 3, 4))
def _resharded(
    data: jax.Array, old: tuple[MeshAxes, ...], new: tuple[MeshAxes, ...], mesh: Mesh, wire: Wire
) -> jax.Array:
    def block(data: jax.Array) -> jax.Array:
        return relayout(data, old, new, wire=wire)

    specs = (jax.P(*(axes or None for axes in layout)) for layout in (old, new))
    inside, outside = specs
    return jax.shard_map(block, mesh=mesh, in_specs=inside, out_specs=outside)(data)
