"""Put the arrays of a call on one mesh."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax

from namedax.core.array import NamedArray, make, make_padded, padding_of, stored_data
from namedax.core.display import type_text
from namedax.errors import MeshError
from namedax.ops.operands.call_arguments import rebuilt
from namedax.ops.operands.pytree import stored_leaf
from namedax.resources.mesh import current_mesh, is_tracked, on_ambient_mesh

__all__ = ["on_one_mesh"]


def on_one_mesh(
    op: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    """Return the arguments of a call with all arrays on one mesh, or `None` if they are already.

    Results of a mapped function of plain arrays are on an Auto copy of its mesh. They get the axis
    types of the ambient mesh, or of the Explicit mesh of another argument. No data moves.

    Raises:
      MeshError: an array is on a mesh with other axes.
    """
    moved = False
    mesh: Any = current_mesh()

    def find(value: Any) -> Any:
        nonlocal mesh
        data = stored_leaf(value)
        if mesh is None and is_tracked(data):
            mesh = jax.typeof(data).sharding.mesh
        return value

    def move(value: Any) -> Any:
        nonlocal moved
        try:
            there = _on_mesh(value, mesh, op)
        except MeshError:
            own = jax.typeof(stored_leaf(value)).sharding.mesh
            raise MeshError(
                f"{op}: {type_text(value)} is on the mesh {dict(own.shape)}, and another operand on"
                f" the mesh {dict(mesh.shape)}; an operation runs on one mesh. Place both on one"
                " mesh: nx.shard(x, axis_resources, mesh)."
            ) from None
        moved = moved or there is not value
        return there

    rebuilt((args, dict(kwargs)), find)
    if mesh is None:
        return None
    result = rebuilt((args, dict(kwargs)), move)
    return result if moved else None


def _on_mesh(value: Any, mesh: Any, op: str) -> Any:
    if type(value) is not NamedArray:
        return on_ambient_mesh(value, op, mesh) if isinstance(value, jax.Array) else value
    data = stored_data(value)
    there = on_ambient_mesh(data, op, mesh)
    if there is data:
        return value
    padding = padding_of(value)
    if padding is not None:
        return make_padded(there, value._dims, padding)
    return make(there, value._dims)
