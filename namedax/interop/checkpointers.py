"""The types and shardings of restored arrays, which checkpointers need."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import jax

from namedax.core.array import NamedArray, is_named, make, make_padded
from namedax.core.names import Mesh, PyTree
from namedax.core.region import ambient
from namedax.errors import (
    AxisResourceError,
)
from namedax.messages.call_errors import checks_signature
from namedax.messages.layout_names import check_layout_names
from namedax.ops.operands.pytree import data_of
from namedax.resources.assignment import check_mesh_axes, named_sharding, parse_placement
from namedax.resources.mesh import any_mesh
from namedax.resources.stored_padding import padding_for, without_padding

__all__ = ["abstract"]


@checks_signature
def abstract(
    tree: PyTree,
    axis_resources: Mapping[Hashable, Any],
    mesh: Mesh | None = None,
    *,
    padded: bool = False,
) -> PyTree:
    """Return the types and shardings of a tree of arrays, into which a checkpointer restores.

    The result is the tree of `nx.shard(tree, axis_resources, mesh, padded=padded)` with a
    `jax.ShapeDtypeStruct` in place of every value, as from `jax.eval_shape`.

    Args:
      tree: a pytree of arrays, named or not, or of their types (from `jax.eval_shape`).
      axis_resources: as in `xmap`. Axis names that an array lacks, and `SerialLoop`s, have no
        effect here.
      mesh: a mesh, possibly an `AbstractMesh` without devices. Default: the mesh of `jax.set_mesh`.
      padded: if True, an axis that does not divide over its mesh axes is stored padded and sharded,
        as in `nx.shard`. `nx.checkpoints.restore` reads into such types. Default: False, each
        device stores all of that axis.

    Returns:
      The tree with named arrays whose `data` is a `jax.ShapeDtypeStruct` with a sharding. An array
      without named axes becomes a replicated `jax.ShapeDtypeStruct`.

    Raises:
      AxisResourceError: `axis_resources` is malformed or has a misspelled axis name, or the call is
        inside a mapped function.
      MeshError: there is no mesh, or it lacks a mesh axis.
      PlacementConflictError: two axes of one array are sharded over one mesh axis.

    >>> import jax, jax.numpy as jnp, namedax as nx
    >>> mesh = jax.make_mesh((4, 2), ("x", "y"))
    >>> types = jax.eval_shape(lambda: {"w": nx.named(jnp.ones((8, 3)), ["batch", "k"])})
    >>> nx.interop.abstract(types, {"batch": "x"}, mesh)
    {'w': NamedArray(f32[]{batch:8@x, k:3})}
    """
    surrounding = ambient()
    if surrounding is not None and surrounding.resources:
        raise AxisResourceError(
            "abstract: this function cannot be called inside a mapped function. Call it before the"
            " mapped function."
        )
    # Loops do not affect the sharding.
    assignment = parse_placement(axis_resources, "abstract")
    mesh = any_mesh(mesh, "abstract")
    check_mesh_axes(assignment, mesh, "abstract")
    arrays = filter(is_named, jax.tree.leaves(tree, is_leaf=is_named))
    check_layout_names("abstract", axis_resources, (dim for x in arrays for dim in x.dims))

    def abstract_leaf(leaf: object) -> NamedArray | jax.ShapeDtypeStruct:
        leaf = without_padding(leaf) if isinstance(leaf, NamedArray) else leaf
        data = data_of(leaf)
        dims = leaf.dims if isinstance(leaf, NamedArray) else (None,) * len(data.shape)
        named_sizes = {
            name: n for name, n in zip(dims, data.shape, strict=True) if name is not None
        }
        padding = padding_for(dims, named_sizes, assignment, mesh) if padded else None
        sizes = padding.padded_sizes if padding is not None else {}
        shape = tuple(sizes.get(name, n) for name, n in zip(dims, data.shape, strict=True))
        sharding = named_sharding(dims, shape, assignment, mesh, "abstract")
        placed = jax.ShapeDtypeStruct(shape, data.dtype, sharding=sharding)
        if padding is not None:
            return make_padded(placed, dims, padding)
        return make(placed, dims) if isinstance(leaf, NamedArray) else placed

    return jax.tree.map(
        abstract_leaf, jax.eval_shape(lambda leaves: leaves, tree), is_leaf=is_named
    )
