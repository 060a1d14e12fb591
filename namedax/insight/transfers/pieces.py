"""Pieces of blocks: which device sends what to which other device.

The blocks of the source layout are disjoint cells; several devices may have the same cell. A device
of the target layout needs the overlap of its new block with each cell. It keeps its own overlap,
and receives the others, each from one of the devices that have that cell. So the bytes moved are
the minimum: those that a device needs and does not have.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from namedax.insight.transfers.layouts import Boxes

__all__ = ["Pieces", "pieces_of"]


class Pieces(NamedTuple):
    """The pieces of one array, or of several that move in the same way.

    Attributes:
      senders: the device that sends each piece.
      receivers: the device that receives it.
      parts: its row in `low` and `high`.
      kept_by: a device that keeps an overlap, for each overlap.
      kept: its row in `low` and `high`.
      low: the first index of each overlap, by dimension.
      high: the index behind the last one.
      whole: for each piece, True if it is the complete block of the sender.
      direct: for each piece, True if it is the complete block of the receiver.
      in_place: the devices whose blocks are the same in both layouts.
      lost: the number of elements that no device has any more.
    """

    senders: np.ndarray
    receivers: np.ndarray
    parts: np.ndarray
    kept_by: np.ndarray
    kept: np.ndarray
    low: np.ndarray
    high: np.ndarray
    whole: np.ndarray
    direct: np.ndarray
    in_place: np.ndarray
    lost: int

    @property
    def sizes(self) -> np.ndarray:
        """The number of elements of each row of `low` and `high`."""
        sizes: np.ndarray = np.prod(self.high - self.low, axis=1, dtype=np.int64)
        return sizes


def pieces_of(
    shape: tuple[int, ...],
    source: Boxes,
    target: Boxes,
    lost: np.ndarray,
    groups: np.ndarray,
) -> Pieces:
    """Return the pieces of an array.

    Args:
      shape: the true shape; padding is not moved.
      source: the blocks in the source layout.
      target: the blocks in the target layout.
      lost: by device, True if its data are lost.
      groups: by device, the number of its group; a sender in the group of the receiver is
        preferred.
    """
    bounds = np.array(shape, np.int64)
    cells, cell_of = _distinct(source)
    blocks, block_of = _distinct(target)
    holders = _holders(source.devices, cell_of, len(cells), lost)
    own = np.full(len(lost), -1)
    own[source.devices] = np.where(lost[source.devices], -1, cell_of)
    consumers = _groups(target.devices, block_of, len(blocks))
    rows: list[np.ndarray] = []  # receiver, cell, row of the overlap
    overlaps: list[np.ndarray] = []
    count, ndim = 0, len(shape)
    for block, devices in zip(blocks, consumers, strict=True):
        low = np.maximum(cells[:, :ndim], block[:ndim])
        high = np.minimum(np.minimum(cells[:, ndim:], block[ndim:]), bounds)
        (at,) = np.nonzero((high > low).all(axis=1))
        overlaps.append(np.concatenate([low[at], high[at]], axis=1))
        each = np.arange(count, count + len(at))
        rows.append(
            np.stack(
                [
                    np.repeat(devices, len(at)),
                    np.tile(at, len(devices)),
                    np.tile(each, len(devices)),
                ]
            )
        )
        count += len(at)
    box = np.concatenate(overlaps) if overlaps else np.zeros((0, 2 * ndim), np.int64)
    receivers, cell, part = np.concatenate(rows, axis=1) if rows else np.zeros((3, 0), np.int64)
    keeps = own[receivers] == cell
    kept_by, kept = receivers[keeps], part[keeps]
    receivers, cell, part = receivers[~keeps], cell[~keeps], part[~keeps]
    senders = _senders(receivers, cell, holders, groups)
    gone = senders < 0
    sizes = np.prod(box[:, ndim:] - box[:, :ndim], axis=1, dtype=np.int64)
    missing = int(sizes[part[gone]].sum())
    receivers, cell, part, senders = (x[~gone] for x in (receivers, cell, part, senders))
    new = np.full(len(lost), -1)
    new[target.devices] = block_of
    whole = (box[part] == cells[cell]).all(axis=1)
    direct = (box[part] == blocks[new[receivers]]).all(axis=1)
    both = np.nonzero((own >= 0) & (new >= 0))[0]
    same = (cells[own[both]] == blocks[new[both]]).all(axis=1)
    return Pieces(
        senders,
        receivers,
        part,
        kept_by,
        kept,
        box[:, :ndim],
        box[:, ndim:],
        whole,
        direct,
        both[same],
        missing,
    )


def _distinct(boxes: Boxes) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct blocks, and the row of each device in them."""
    both = np.concatenate([boxes.low, boxes.high], axis=1)
    if not both.shape[1]:  # NumPy has no unique rows without columns
        return both[:1], np.zeros(len(both), np.int64)
    rows, inverse = np.unique(both, axis=0, return_inverse=True)
    return rows, inverse.reshape(-1)


def _groups(devices: np.ndarray, of: np.ndarray, count: int) -> list[np.ndarray]:
    """Return the devices of each of `count` blocks."""
    order = np.argsort(of, kind="stable")
    return np.split(devices[order], np.searchsorted(of[order], np.arange(1, count)))


def _holders(
    devices: np.ndarray, cell_of: np.ndarray, count: int, lost: np.ndarray
) -> list[np.ndarray]:
    alive = ~lost[devices]
    return _groups(devices[alive], cell_of[alive], count)


def _senders(
    receivers: np.ndarray, cell: np.ndarray, holders: list[np.ndarray], groups: np.ndarray
) -> np.ndarray:
    """Return a sender for each piece; -1 if no device has it.

    The pieces of a cell are spread evenly over the devices that have it, as far as they are in the
    groups of the receivers.
    """
    senders = np.full(len(receivers), -1)
    order = np.argsort(cell, kind="stable")
    starts = np.searchsorted(cell[order], np.arange(len(holders) + 1))
    for i, having in enumerate(holders):
        rows = order[starts[i] : starts[i + 1]]
        if len(having) and len(rows):
            for some, near in _nearest(groups[receivers[rows]], having, groups[having]):
                senders[rows[some]] = near[np.arange(len(some)) % len(near)]
    return senders


def _nearest(
    wanted: np.ndarray, having: np.ndarray, groups: np.ndarray
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield the rows of receivers, and the devices from which they receive."""
    near = np.isin(wanted, groups)
    if (~near).any():
        yield np.nonzero(~near)[0], having
    for group in np.unique(wanted[near]):
        yield np.nonzero(wanted == group)[0], having[groups == group]
