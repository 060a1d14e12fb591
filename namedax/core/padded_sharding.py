"""Sharding of names that do not divide over their mesh axes.

The last blocks are partly or fully padding.

A name of `size` elements over `devices` devices has blocks of `ceil(size / devices)` elements.
Padding repeats the last real element, so elementwise results are finite there where the real ones
are. An operation that mixes elements excludes it.
"""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["Uneven", "block_size", "dividing_sizes", "plain"]


class Uneven(tuple[str, ...]):
    """The mesh axes of a name that does not divide over them, and its size.

    It is the tuple of mesh axes; a slice of it, or its sum with another tuple, is a plain tuple
    without a size.
    """

    size: int

    def __new__(cls, axes: Iterable[str], size: int) -> Uneven:
        """Return the placement over `axes` of a name of this size."""
        place = super().__new__(cls, axes)
        place.size = size
        return place


def plain(axes: tuple[str, ...]) -> tuple[str, ...]:
    """Return the mesh axes as a plain tuple."""
    return tuple(axes) if isinstance(axes, Uneven) else axes


def block_size(size: int, devices: int) -> int:
    """Return the number of elements on each device, padding included."""
    return -(-size // devices)


def dividing_sizes(size: int, devices: int) -> tuple[int, int]:
    """Return the next sizes below and above that divide; the first is at least `devices`.

    >>> dividing_sizes(10, 8), dividing_sizes(3, 8)
    ((8, 16), (8, 8))
    """
    above = block_size(size, devices) * devices
    return max(devices, above - devices), above
