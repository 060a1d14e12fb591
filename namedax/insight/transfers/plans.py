"""The plan of a transfer: pieces, rounds and links of all arrays."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from namedax.core.records import Record
from namedax.insight.transfers.collectives import Program
from namedax.insight.transfers.layouts import Boxes, Devices, Leaf, Side, boxes_of
from namedax.insight.transfers.pieces import pieces_of
from namedax.insight.transfers.rounds import Kind, Round, kind_of, rounds_of
from namedax.insight.transfers.traffic import Wires, wires_of
from namedax.machines import Machine

__all__ = ["Plan", "plan_of"]


class Plan(Record, frozen=False):
    """A plan: all that is known before anything moves.

    Attributes:
      leaves: the arrays.
      tree: the structure of the tree.
      source: the source layout, or `None` for the shardings of the arrays.
      target: the target layout.
      devices: the devices of both.
      kinds: the kind of each array.
      boxes: the blocks of each array before and after.
      rounds: the rounds.
      wires: the links between devices.
      gone: by device, whether its data are lost.
      memory: the limit for the data in flight, or `None`.
      donate: whether the old arrays may be freed.
      programs: the compiled program of each round, when it is known.
    """

    leaves: Sequence[Leaf]
    tree: Any
    source: Side | None
    target: Side
    devices: Devices
    kinds: Sequence[Kind]
    boxes: Sequence[tuple[Boxes, Boxes]]
    rounds: Sequence[Round]
    wires: Wires
    gone: np.ndarray
    memory: float | None
    donate: bool
    programs: dict[int, Program | None]


def plan_of(
    leaves: Sequence[Leaf],
    tree: Any,
    source: Side | None,
    target: Side,
    devices: Devices,
    gone: np.ndarray,
    machine: Machine | None,
    memory: float | None,
    donate: bool,
) -> Plan:
    """Plan the move of a tree; the arguments are the fields of `Plan`."""
    processes = np.array([getattr(d, "process_index", 0) for d in devices.labels], np.int64)
    larger, numbers = target, devices.target
    if source is not None and devices.source is not None and source.size >= target.size:
        larger, numbers = source, devices.source
    wires = wires_of(machine, larger.sizes, numbers, processes)
    known: dict[Hashable, tuple[Kind, tuple[Boxes, Boxes]]] = {}
    for leaf in leaves:
        if leaf.kind not in known:
            before = boxes_of(leaf.source, devices.source, devices.labels)
            after = boxes_of(leaf.target, devices.target, devices.labels)
            pieces = pieces_of(leaf.shape, before, after, gone, wires.groups)
            kind = kind_of(leaf, pieces, before, after, devices.total)
            known[leaf.kind] = kind, (before, after)
    kinds = [known[leaf.kind][0] for leaf in leaves]
    boxes = [known[leaf.kind][1] for leaf in leaves]
    rounds = rounds_of(kinds, memory, donate)
    return Plan(
        leaves,
        tree,
        source,
        target,
        devices,
        kinds,
        boxes,
        rounds,
        wires,
        gone,
        memory,
        donate,
        {},
    )
