"""Placement of arrays with collectives that send narrow number formats, for `nx.shard`."""

from __future__ import annotations

import functools

import jax
from jax.sharding import Mesh, NamedSharding

from namedax.core.display import type_text
from namedax.core.names import MeshAxes
from namedax.errors import ArgumentError
from namedax.resources.layout import relayout
from namedax.resources.wire import Wire, check_narrow

__all__ = ["check_shard_wire", "check_without_padding", "put_narrow"]


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


def check_without_padding(op: str, array: object, is_padded: bool) -> None:
    """Raise if an array is stored padded, before or after.

    Raises:
      ArgumentError: it is.
    """
    if is_padded:
        raise ArgumentError(
            f"{op}: {type_text(array)} is stored padded, and padded blocks are not sent in narrow"
            " formats. Omit wire, or omit padded=True."
        )


def put_narrow(
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
