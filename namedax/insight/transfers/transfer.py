"""The public function `transfer`, which plans the move of a tree, and runs it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from namedax.core.names import PyTree
from namedax.core.region import ambient
from namedax.errors import (
    ArgumentError,
    ArgumentTypeError,
    AxisResourceError,
    MeshError,
    format_value,
)
from namedax.insight.transfers.figures import result_of
from namedax.insight.transfers.layouts import Devices, Layout, check_names, leaves_of, parse_layout
from namedax.insight.transfers.plans import plan_of
from namedax.insight.transfers.result import Transfer
from namedax.machines import Machine
from namedax.machines.links import positive
from namedax.messages.call_errors import checks_signature
from namedax.messages.layout_names import check_layout_names

__all__ = ["transfer"]


@checks_signature
def transfer(
    types: PyTree,
    from_layout: Layout | None,
    to_layout: Layout,
    *,
    memory: float | None = None,
    machine: Machine | None = None,
    donate: bool = False,
    padded: bool = False,
    disjoint: bool = False,
    lost: Iterable[Any] = (),
) -> Transfer:
    """Plan the move of a tree of arrays from one layout to another, and return the function.

    The meshes may have different devices, sizes, shapes, axis names and axis types: from a trainer
    to a server, or to the devices that remain after a failure. Nothing is compiled or moved until
    the result is called, so both meshes may be abstract.

    A device receives only what it needs and does not have. The arrays move in rounds: the slices
    that a device sends in a round and the pieces that it receives stay within `memory`. Large
    arrays move in several rounds.

    If both meshes have the same devices in the same order, a round is one program of XLA, unless
    that program sends more than the plan. Otherwise each piece is copied from device to device.
    With several processes, only the first case is supported, and every process must make the call.

    Args:
      types: the tree: arrays, named or not, or their types (from `jax.eval_shape`). Arrays without
        named axes are replicated. Names that an array lacks are ignored, and so is a `SerialLoop`.
      from_layout: a pair of a mesh and `axis_resources`, or `None` for the shardings of the arrays
        in `types`.
      to_layout: a pair of a mesh and `axis_resources`.
      memory: the limit in bytes for the slices and received pieces on a device. Default: as much as
        the largest array has if it moves in one round.
      machine: a machine of `nx.machines`, for estimates of seconds. Default: `None`.
      donate: whether the arrays may be freed as they move, so that the tree is in memory about
        once. The old tree cannot be used afterwards. Default: False.
      padded: whether axes that do not divide are stored padded in both layouts, as in `nx.shard`.
        Default: False, such axes are replicated.
      disjoint: for abstract meshes, whether they have different devices. Default: False: devices
        are numbered by their position in each mesh, so the smaller mesh consists of the first
        devices of the larger one.
      lost: devices that no longer have their data, or their numbers if a mesh is abstract.
        `Transfer.missing` lists the arrays that cannot be moved. Default: none.

    Returns:
      A `Transfer`, which prints as a table. Call it with the tree to get the tree in the new
      layout.

    Raises:
      ArgumentTypeError: a layout is not a pair of a mesh and `axis_resources`, or a leaf is not an
        array.
      ArgumentError: `memory` is too small, or another argument is invalid.
      AxisNotFoundError: the tree is one array that lacks a name, or no array has a named axis.
      AxisResourceError: `axis_resources` is malformed or has a misspelled axis name, or the call is
        inside a mapped function.
      MeshError: a mesh lacks a mesh axis, or does not fit on the machine.
      PlacementConflictError: two names of one array are on one mesh axis.

    >>> import jax, jax.numpy as jnp, namedax as nx
    >>> train = jax.make_mesh((4, 2), ("data", "model"))
    >>> serve = jax.make_mesh((2,), ("x",), devices=jax.devices()[:2])
    >>> w = nx.named(jnp.arange(48.0).reshape(8, 6), ["inputs", "hidden"])
    >>> w = nx.shard(w, {"inputs": "data", "hidden": "model"}, train)
    >>> move = nx.transfer(w, (train, {"inputs": "data", "hidden": "model"}),
    ...                    (serve, {"hidden": "x"}))
    >>> move.moved, move.kept
    (144, 48)
    >>> move(w).sharding.spec
    P(None, 'x')
    """
    if (surrounding := ambient()) is not None and surrounding.resources:
        raise AxisResourceError(
            "transfer: this function cannot be called inside a mapped function. Call it before or"
            " after the mapped function."
        )
    if memory is not None:
        positive("transfer", "memory", memory, "bytes")
    if machine is not None and not isinstance(machine, Machine):
        raise ArgumentTypeError(
            f"transfer: machine={format_value(machine)} is not a machine. Pass one of nx.machines,"
            " such as nx.machines.v5p."
        )
    source = None if from_layout is None else parse_layout(from_layout, "from_layout")
    target = parse_layout(to_layout, "to_layout")
    leaves, tree = leaves_of(types, source, target, padded)
    check_names(types, leaves, {"from_layout": source, "to_layout": target})
    for what, layout in (("from_layout", from_layout), ("to_layout", to_layout)):
        if layout is not None:
            dims = (dim for leaf in leaves for dim in leaf.dims)
            check_layout_names(f"transfer, {what}", layout[1], dims)
    if source is not None:
        devices = Devices.of_sides(source, target, disjoint)
    else:
        if not target.concrete:
            raise MeshError(
                "transfer: from_layout=None means the shardings of the arrays, but the mesh of"
                " to_layout is abstract. Pass a mesh with devices."
            )
        devices = Devices.of_shardings([leaf.source.sharding for leaf in leaves], target)
    gone = _numbers(lost, devices)
    plan = plan_of(leaves, tree, source, target, devices, gone, machine, memory, donate)
    return result_of(plan, machine, padded)


def _numbers(lost: Iterable[Any], devices: Devices) -> np.ndarray:
    """Return by device whether its data are lost.

    Raises:
      ArgumentError: a lost device is in no layout.
    """
    number = {device: i for i, device in enumerate(devices.labels)}
    gone = np.zeros(devices.total, bool)
    for device in lost:
        if device not in number:
            raise ArgumentError(
                f"transfer: lost= has {format_value(device)}, which is in neither layout. Pass"
                " devices of the source mesh, or their numbers if a mesh is abstract."
            )
        gone[number[device]] = True
    return gone
