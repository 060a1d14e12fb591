"""Put the arrays of a call on one mesh."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
from jax.errors import JaxRuntimeError

from namedax.core.array import NamedArray, make, make_padded, padding_of, stored_data
from namedax.core.display import type_text
from namedax.errors import MeshError
from namedax.messages.jax_errors import ErrorKind
from namedax.ops.operands.call_arguments import rebuilt
from namedax.ops.operands.pytree import stored_leaf
from namedax.resources.mesh import (
    concrete_mesh,
    current_mesh,
    device_order,
    devices_text,
    is_tracked,
    on_ambient_mesh,
)

__all__ = ["on_one_mesh", "reject_other_devices"]


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


def reject_other_devices(
    op: str, args: tuple[Any, ...], kwargs: Mapping[str, Any], error: Exception
) -> None:
    """Raise if a call failed because its arrays are on different devices.

    Arrays on the same devices in another order are on another mesh, too.

    Raises:
      MeshError: the arrays are on different devices, or on one set of devices in two orders.
    """
    is_of_devices = ErrorKind.INCOMPATIBLE_DEVICES.matches(error)
    if not is_of_devices and not isinstance(error, JaxRuntimeError):
        return
    mesh = concrete_mesh(None)
    found: dict[tuple[int, ...], str] = {}
    if mesh is not None:
        found[tuple(device.id for device in mesh.devices.flat)] = "the mesh of jax.set_mesh"

    def find(value: Any) -> Any:
        order = device_order(stored_leaf(value))
        if order is not None:
            found.setdefault(order, type_text(value))
        return value

    rebuilt((args, dict(kwargs)), find)
    if len(found) > 1:
        where = " and ".join(
            f"{text} is on the devices {devices_text(order)}"
            for order, text in list(found.items())[:2]
        )
    elif is_of_devices:
        where = "its arrays are on different devices, or on the same devices in different orders"
    else:
        return
    raise MeshError(
        f"{op}: {where}; an operation runs on one mesh, and the order of devices is part of it."
        " Place all arrays on one mesh: nx.shard(x, axis_resources, mesh)."
    ) from error
