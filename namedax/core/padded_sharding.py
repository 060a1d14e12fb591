"""Where a name lives that does not divide over its mesh axes: the last blocks are partly or wholly padding.

A name of `size` entries over `devices` devices has blocks of `ceil(size / devices)` entries. Padding repeats the last real entry, so that
what is computed of it entry by entry is finite where the real values are; an operation that mixes entries leaves it out.
"""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["Uneven", "block_of", "dividing_sizes", "plain"]


class Uneven(tuple[str, ...]):
    """The mesh axes of a name that does not divide over them, and its size.

    It is the tuple of mesh axes; a part of it, or a sum with another, says nothing of padding any more.
    """

    size: int

    def __new__(cls, axes: Iterable[str], size: int) -> Uneven:
        """The placement over `axes` of a name of this size."""
        place = super().__new__(cls, axes)
        place.size = size
        return place


def plain(axes: tuple[str, ...]) -> tuple[str, ...]:
    """The mesh axes alone."""
    return tuple(axes) if isinstance(axes, Uneven) else axes


def block_of(size: int, devices: int) -> int:
    """The number of entries on each device, padding included."""
    return -(-size // devices)


def dividing_sizes(size: int, devices: int) -> tuple[int, int]:
    """The next sizes below and above that divide; the first is `devices` at least.

    >>> dividing_sizes(10, 8), dividing_sizes(3, 8)
    ((8, 16), (8, 8))
    """
    above = block_of(size, devices) * devices
    return max(devices, above - devices), above
