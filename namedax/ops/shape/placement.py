"""`shard`: placement of the arrays of a tree on a mesh.

With formats, blocks of arrays that are on the mesh already are sent in narrow number formats.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Hashable, Iterator, Mapping
from typing import Any, TypeVar

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
from namedax.core.memory_kinds import check_kind, on_device
from namedax.core.names import Dims, MeshAxes, PyTree
from namedax.core.records import Record
from namedax.core.region import ambient
from namedax.errors import (
    ArgumentError,
    ArgumentTypeError,
    AxisNotFoundError,
    AxisResourceError,
    NamedaxError,
    UnevenAxisWarning,
    format_value,
    raise_not_found,
    show_names,
)
from namedax.messages.call_errors import checks_signature
from namedax.messages.layout_names import check_layout_names
from namedax.ops.operands.pytree import names_of
from namedax.resources.assignment import check_mesh_axes, named_sharding, parse_resources
from namedax.resources.layout import relayout
from namedax.resources.mesh import concrete_mesh, mesh_with_devices, put
from namedax.resources.serial import on_devices, with_loops
from namedax.resources.stored_padding import (
    UnevenCopy,
    padding_for,
    store,
    uneven_text,
    without_padding,
)
from namedax.resources.wire import Wire, WireFormat, check_narrow, parse_wire

__all__ = ["leaf_array", "leaf_text", "shard"]

Tree = TypeVar("Tree")


@checks_signature
def shard(
    x: Tree,
    axis_resources: Mapping[Hashable, Any],
    mesh: jax.sharding.Mesh | None = None,
    *,
    padded: bool | None = None,
    wire: WireFormat | Wire | None = None,
    memory_kind: str | None = None,
) -> Tree:
    """Shard named arrays over a mesh, outside of mapped functions.

    In a program of many processes each process passes the global values, and JAX compares them;
    `nx.from_process_local` takes local blocks.

    Args:
      x: a named array, or a pytree of arrays, in which arrays without named axes are replicated.
      axis_resources: as in `xmap`. A single array must have all names. The arrays of a pytree are
        sharded as one program maps them, so it may map names that none of them has.
      mesh: a mesh; by default the mesh of `jax.set_mesh`.
      padded: if True, an axis that does not divide over its mesh axes is stored padded and sharded.
        `named_shape` has its true size, and `data` the padded one. Mapped functions take and return
        the blocks. Functions of raw leaves see zeros as padding: a sum over a leaf is right, a mean
        is not. If False, such an axis is replicated. Default: None, it is replicated with a
        warning.
      memory_kind: `"pinned_host"` for the memory of the host, which the device can read, or
        `"device"`. Operations copy arrays from the host to the device when they compute with them,
        and `nx.scan` and `nx.fold` copy one slice in each step. Default: `None`, the memory of the
        device.
      wire: the number format in which blocks of arrays that are already on this mesh are sent:
        `"bf16"`, `"float8_e4m3"` or `"int8"`; by default the dtype of the array. Values are rounded
        within the bounds of `nx.Wire`, only where they are sent.

    Returns:
      The same values, with each named axis sharded over its mesh axes. Without `padded=True`, an
      axis that does not divide over its mesh axes is replicated, as an argument or result of a
      mapped function is. An array that is stored padded is gathered along axes that get another
      layout, or the same one without `padded=True`: `nx.shard(x, {}, mesh)` has the true values.
      Without a mesh and with nothing mapped, `x` unchanged. The same holds under `jax.jit`; there,
      if one axis is mapped to Auto and Explicit mesh axes, the Explicit ones are major.

    Communication: an array that is already on the mesh is resharded. Others are copied to the
    devices.

    Warns:
      UnevenAxisWarning: without `padded`, an axis does not divide over its mesh axes and is
        replicated. The message has the sizes and the bytes per device.

    Raises:
      AxisResourceError: `axis_resources` is malformed or has a misspelled axis name, or the call is
        inside a mapped function.
      AxisNotFoundError: `x` is one array, and lacks an axis; or no array of the pytree has a named
        axis.
      MeshError: there is no mesh, or it lacks a mesh axis.
      PlacementConflictError: two axes of one array are sharded over one mesh axis.
      ArgumentTypeError: a leaf is not an array, such as a string; the message has its path. With
        `wire`, a named array is not real floating-point.
      ArgumentError: the devices have no memory of this kind, or `wire` is given with it; `wire` is
        not a format or has one for gradients; or a named array is traced, or
        is not on this mesh yet, so that nothing is communicated, or is stored padded.

    >>> import jax, jax.numpy as jnp, namedax as nx
    >>> mesh = jax.make_mesh((4, 2), ("x", "y"))
    >>> nx.shard(nx.named(jnp.ones((8, 3)), ["batch", "k"]), {"batch": "x"}, mesh).sharding.spec
    P('x', None)
    >>> x = nx.shard(nx.named(jnp.ones((10, 3)), ["words", "k"]), {"words": "x"}, mesh, padded=True)
    >>> dict(x.named_shape), x.data.shape, x.sharding.spec
    ({'words': 10, 'k': 3}, (12, 3), P('x', None))
    >>> y = nx.shard(nx.arange(8, axis="batch"), {"batch": "x"}, mesh, memory_kind="pinned_host")
    >>> y.sharding.memory_kind, (y + 1).sharding.memory_kind
    ('pinned_host', 'device')
    """
    surrounding = ambient()
    if surrounding is not None and surrounding.resources:
        raise AxisResourceError(
            "shard: arrays are sharded outside of mapped functions; inside, their axis names"
            " determine the sharding. Reshard an axis with nx.rename, or call nx.shard before the"
            " mapped function."
        )
    resources = parse_resources(axis_resources, "shard")
    formats = parse_wire("shard", wire)
    _check_wire("shard", formats)
    _check_leaves(x)
    _check_names_placed(x, resources)
    check_layout_names("shard", axis_resources, _dims_in(x))
    assignment = on_devices(with_loops(resources))  # loops are no devices
    is_unplaced = not assignment and mesh is None and memory_kind is None
    if is_unplaced and concrete_mesh(mesh) is None:
        leaves, tree = jax.tree.flatten(x, is_leaf=is_named)
        unpadded = [without_padding(leaf) if is_named(leaf) else leaf for leaf in leaves]
        changed = any(new is not old for new, old in zip(unpadded, leaves, strict=True))
        result: Tree = jax.tree.unflatten(tree, unpadded) if changed else x
        return result
    mesh = mesh_with_devices(mesh, "shard")
    check_mesh_axes(assignment, mesh, "shard")
    _check_memory_kind(memory_kind, mesh, formats)

    placement = _Placement(assignment, mesh, padded, formats, memory_kind)
    copies: list[UnevenCopy] = []

    def one(path: KeyPath[Any], leaf: ArrayLike) -> AnyArray:
        placed, copy = placement.place(leaf_text("shard", path), leaf)
        if copy is not None:
            copies.append(copy)
        return placed

    placed: Tree = jax.tree_util.tree_map_with_path(one, x, is_leaf=is_named)
    if copies and padded is None:
        warnings.warn(
            f"shard: {uneven_text(copies)} Pass padded=True to store such axes padded and sharded,"
            " or padded=False to accept the copies.",
            UnevenAxisWarning,
            stacklevel=_CALLER,
        )
    return placed


_CALLER = 4  # below are `checks_signature` with its call, and `shard`


class _Placement(Record):
    """The placement of arrays on a mesh.

    Attributes:
      assignment: the mesh axes of each name.
      mesh: the mesh.
      padded: as in `nx.shard`.
      wire: the number formats of blocks that are sent, or `None`.
      memory_kind: as in `nx.shard`.
    """

    assignment: dict[Hashable, MeshAxes]
    mesh: Mesh
    padded: bool | None
    wire: Wire | None
    memory_kind: str | None

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
        if padding is not None or self.wire is not None or padding_of(leaf):
            leaf = on_device(leaf)  # for the computation
        leaf = without_padding(leaf)
        if padding is not None:
            given = leaf._data, dims, self.assignment, self.mesh, op, self.memory_kind
            return store(*given), None
        sharding = self._sharding(op, dims, leaf._data.shape)
        copy = None if uneven is None else UnevenCopy(dims, leaf._data, sharding, uneven)
        if dims.count(None) == len(dims):
            return put(leaf._data, sharding), copy
        if self.wire is None:
            return NamedArray(put(leaf._data, sharding), dims), copy
        return NamedArray(_put_narrow(op, leaf, leaf._data, sharding, self.wire), dims), copy

    def _sharding(self, op: str, dims: Dims, shape: tuple[int, ...]) -> NamedSharding:
        return named_sharding(dims, shape, self.assignment, self.mesh, op, self.memory_kind)


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


def _check_leaves(tree: PyTree) -> None:
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


def _dims_in(tree: PyTree) -> Iterator[Hashable | None]:
    """Return the dims of all arrays of a tree."""
    for leaf in jax.tree.leaves(tree, is_leaf=is_named):
        yield from dims_of(leaf)


def _check_names_placed(x: PyTree, resources: Mapping[Hashable, Any]) -> None:
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


def _check_memory_kind(kind: object, mesh: Mesh, wire: Wire | None) -> None:
    """Check that the devices have this kind of memory, and that nothing is sent in narrow formats.

    Raises:
      ArgumentError: they have not, or there are formats.
    """
    if kind is None:
        return
    check_kind("shard", kind, mesh.local_devices[:1])
    if wire is not None:
        raise ArgumentError(
            f"shard: memory_kind={kind!r} is given with wire={wire!r}, which is for arrays between"
            " devices. Place them with wire first, and then with memory_kind."
        )


# --- narrow formats -------------------------------------------------------------------------------


def _check_wire(op: str, wire: Wire | None) -> None:
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
