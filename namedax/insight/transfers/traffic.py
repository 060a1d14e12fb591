"""Bytes by link and by mesh axis, and estimates of seconds.

A machine has the links of a mesh (`namedax.machines.links`). The devices are
in the order of the larger mesh. Two devices that differ in several coordinates communicate over the
slowest of the links between them. Through a switch, a device sends and receives with its full
bandwidth. On a ring, data travel over all links between two devices, in the shorter direction, and
the load is assumed to be spread evenly. Data that several devices need are forwarded along a ring,
as in an all-gather.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from namedax.core.records import Record
from namedax.machines import Link, Machine

__all__ = ["Load", "Wire", "Wires", "axes_of", "wires_of"]


class Wire(Record):
    """One kind of link.

    Attributes:
      name: its name, in tables.
      link: the link; `None` if no machine is known.
      factors: the number of devices along each axis of a ring or a line.
      share: the part of the bandwidth of each of these axes.
    """

    name: str
    link: Link | None = None
    factors: tuple[int, ...] = ()
    share: float = 1.0


class Load(NamedTuple):
    """The load of one link in one round.

    Attributes:
      sent: the bytes that each device sends.
      received: the bytes that each device receives.
      hops: for each axis of a ring, the bytes times the links that they pass, in both directions.
      distance: the most links that a message passes.
    """

    sent: np.ndarray
    received: np.ndarray
    hops: np.ndarray
    distance: int

    @classmethod
    def sum(cls, loads: Sequence[Load]) -> Load:
        """Return the load of several arrays together."""
        return cls(
            np.sum([load.sent for load in loads], axis=0),
            np.sum([load.received for load in loads], axis=0),
            np.sum([load.hops for load in loads], axis=0),
            max(load.distance for load in loads),
        )

    def seconds(self, wire: Wire, devices: int) -> float | None:
        """Return the seconds of this load; `None` without a link."""
        link = wire.link
        if link is None:
            return None
        most = float(max(self.sent.max(initial=0), self.received.max(initial=0)))
        if not most:
            return 0.0
        bandwidth = link.bandwidth * wire.share
        if link.kind == "switch" or not wire.factors:
            return most / bandwidth + link.latency
        seconds = most / (bandwidth * len(wire.factors))
        for (forward, backward), size in zip(self.hops, wire.factors, strict=True):
            # The links of an axis in one direction have half of its bandwidth. On a line, the links
            # in the middle have twice the average load.
            uneven = 1 if link.closed(size) else 2
            load = uneven * max(forward, backward) / devices
            seconds = max(seconds, float(load) / (bandwidth / 2))
        return seconds + self.distance * link.latency


class Wires(Record):
    """The links between numbered devices.

    Attributes:
      all: the links, the slowest first.
      groups: by device, the number of its group on the fastest link.
      coordinates: by device, its coordinate along each factor of the mesh; -1 outside of it.
      factors: the size of each factor, and the number of its link.
      devices: the number of devices of the mesh.
    """

    all: tuple[Wire, ...]
    groups: np.ndarray
    coordinates: np.ndarray
    factors: tuple[tuple[int, int], ...]
    devices: int

    def loads(
        self,
        senders: np.ndarray,
        receivers: np.ndarray,
        parts: np.ndarray,
        sizes: np.ndarray,
        count: int,
    ) -> list[Load]:
        """Return the load of each link.

        Args:
          senders: the device that sends each piece.
          receivers: the device that receives it.
          parts: a number for the data of each piece; equal data are forwarded along a ring.
          sizes: its bytes.
          count: the number of devices.
        """
        apart = self.coordinates[senders] != self.coordinates[receivers]
        outside = (self.coordinates[senders] < 0).any(1) | (self.coordinates[receivers] < 0).any(1)
        over = np.full(len(senders), len(self.all) - 1)
        for factor, (_, slower) in enumerate(self.factors):
            over = np.where(apart[:, factor], np.minimum(over, slower), over)
        over = np.where(outside, 0, over)
        loads = []
        for number in range(len(self.all)):
            (at,) = np.nonzero(over == number)
            some = senders[at], receivers[at], parts[at], sizes[at]
            hops, distance = self._hops(number, *some)
            sent = np.bincount(senders[at], sizes[at], minlength=count)
            received = np.bincount(receivers[at], sizes[at], minlength=count)
            loads.append(Load(sent, received, hops, distance))
        return loads

    def _hops(
        self,
        number: int,
        senders: np.ndarray,
        receivers: np.ndarray,
        parts: np.ndarray,
        sizes: np.ndarray,
    ) -> tuple[np.ndarray, int]:
        """Return the bytes times links of each axis of a link, and the longest distance.

        Data travel along one axis after the other. Data for several devices pass each link once.
        """
        wire = self.all[number]
        hops, total = np.zeros((len(wire.factors), 2)), np.zeros(len(senders), np.int64)
        if wire.link is None or not wire.factors or not len(senders):
            return hops, 1
        _, path = np.unique(np.stack([senders, parts]), axis=1, return_inverse=True)
        path = path.reshape(-1)
        mine = [f for f, (_, of) in enumerate(self.factors) if of == number]
        for row, factor in enumerate(mine):
            n = self.factors[factor][0]
            here = self.coordinates[senders, factor]
            ahead = self.coordinates[receivers, factor] - here
            if wire.link.closed(n):
                # Half way round, every second device sends in the other direction.
                ahead = (ahead + n // 2 - (here % 2 == 0)) % n - n // 2 + (here % 2 == 0)
            farthest = np.zeros((2, path.max() + 1))
            np.maximum.at(farthest[0], path, ahead)
            np.maximum.at(farthest[1], path, -ahead)
            size = np.zeros(path.max() + 1)
            size[path] = sizes
            hops[row] = (farthest * size).sum(axis=1)
            total += np.abs(ahead)
            _, path = np.unique(path * n + ahead % n, return_inverse=True)
            path = path.reshape(-1)
        return hops, int(total.max(initial=0)) or 1


def wires_of(
    machine: Machine | None,
    sizes: Mapping[str, int],
    numbers: np.ndarray,
    processes: np.ndarray,
) -> Wires:
    """Return the links between devices.

    Args:
      machine: the machine; `None` if it is unknown. Then devices of one process are near.
      sizes: the sizes of the larger mesh.
      numbers: the numbers of its devices, in row-major order.
      processes: by device, the number of its process.

    Raises:
      MeshError: the machine has no link for a mesh axis, or the mesh does not fit on it.
    """
    if machine is None:
        several = len(np.unique(processes)) > 1
        names = ("between processes", "within a process") if several else ("between devices",)
        wires = tuple(map(Wire, names))
        return Wires(wires, processes, processes[:, None], ((0, 0),), len(numbers))
    layout = machine.layout(sizes)
    flat = [(axis, n, link) for axis, parts in layout.items() for n, link in parts]
    outer = [_outermost(link) for _, _, link in flat]
    if not flat:
        outer = [_outermost(link) for link in machine.links.values()]
    links = dict.fromkeys([*(link for _, _, link in flat), *outer])
    ordered = sorted(links, key=lambda link: link.bandwidth)
    wires = tuple(_wire(link, flat) for link in ordered)
    count = len(processes)
    coordinates = np.full((count, max(len(flat), 1)), -1)
    index = np.unravel_index(np.arange(len(numbers)), tuple(sizes.values()))
    column = 0
    for place, parts in zip(index, layout.values(), strict=True):
        each = np.unravel_index(place, tuple(n for n, _ in parts)) if parts else ()
        for values in each:
            coordinates[numbers, column] = values
            column += 1
    if not flat:
        coordinates[numbers, 0] = 0
    factors = tuple((n, ordered.index(link)) for _, n, link in flat)
    fast = [f for f, (_, of) in enumerate(factors) if of == len(wires) - 1]
    slow = [f for f in range(coordinates.shape[1]) if f not in fast]
    _, groups = np.unique(coordinates[:, slow], axis=0, return_inverse=True)
    groups = groups.reshape(-1) if slow else np.where(coordinates[:, 0] < 0, 1, 0)
    return Wires(wires, groups, coordinates, factors or ((1, 0),), len(numbers))


def _outermost(link: Link) -> Link:
    while link.beyond is not None:
        link = link.beyond
    return link


def _wire(link: Link, flat: Sequence[tuple[str, int, Link]]) -> Wire:
    mine = [(axis, n) for axis, n, of in flat if of == link]
    speed = f"{link.bandwidth / 1e9:g} GB/s"
    axes = ", ".join(dict.fromkeys(axis for axis, _ in mine)) or "between the meshes"
    factors = tuple(n for _, n in mine) if link.kind != "switch" else ()
    share = 1.0
    if link.dimensions is not None and factors:
        share = min(1.0, link.dimensions / len(factors))
    return Wire(f"{link.kind} {speed}: {axes}", link, factors, share)


def axes_of(
    sizes: Mapping[str, int], numbers: np.ndarray, count: int, pairs: tuple[np.ndarray, ...]
) -> dict[tuple[str, ...], int]:
    """Return the bytes by the mesh axes along which sender and receiver differ.

    Args:
      sizes: the sizes of the source mesh.
      numbers: the numbers of its devices.
      count: the number of devices.
      pairs: senders, receivers and bytes.

    Returns:
      A dict; the key `("outside",)` has the bytes for devices that are not in the mesh.
    """
    senders, receivers, size = pairs
    code = np.full(count, -1)
    code[numbers] = np.arange(math.prod(sizes.values()))
    inside = code[receivers] >= 0
    grid = tuple(sizes.values())
    here = np.unravel_index(code[senders], grid) if grid else ()
    there = np.unravel_index(np.maximum(code[receivers], 0), grid) if grid else ()
    mask = np.zeros(len(senders), np.int64)
    for i, (a, b) in enumerate(zip(here, there, strict=True)):
        mask |= (a != b).astype(np.int64) << i
    found: dict[tuple[str, ...], int] = {}
    for key in np.unique(mask[inside]):
        axes = tuple(axis for i, axis in enumerate(sizes) if key >> i & 1)
        found[axes] = int(size[inside & (mask == key)].sum())
    if (~inside).any():
        found[("outside",)] = int(size[~inside].sum())
    return dict(sorted(found.items(), key=lambda item: -item[1]))
