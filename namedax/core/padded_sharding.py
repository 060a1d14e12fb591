"""Sharding of names that do not divide over their mesh axes.

The last blocks are partly or fully padding.

A name of `size` elements over `devices` devices has blocks of `ceil(size / devices)` elements.
Padding repeats the last real element, so elementwise results are finite there where the real ones
are. An operation that mixes elements excludes it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any

from jax.sharding import Mesh

from namedax.core.records import Record

__all__ = [
    "PaddedTail",
    "StoredName",
    "StoredPadding",
    "Uneven",
    "block_size",
    "dividing_sizes",
    "plain",
]


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

    >>> from namedax.core.padded_sharding import dividing_sizes
    >>> dividing_sizes(10, 8), dividing_sizes(3, 8)
    ((8, 16), (8, 8))
    """
    above = block_size(size, devices) * devices
    return max(devices, above - devices), above


class StoredPadding(Record):
    """The padded axes of an array that is stored with padding, outside of mapped functions.

    It is part of the type of the array: arrays with different true sizes, or with different
    layouts of a padded axis, have different types.

    Attributes:
      axes: the name, the true size, the padded size and the mesh axes of each padded axis.
      mesh: the axis names and sizes of the mesh.
      devices: the mesh with its devices; `None` if they are unknown, which is equal to all devices.
        Without them a program under `jax.jit` whose results do not depend on any argument (zeros, a
        gradient of a linear function) would not run on the mesh.
    """

    axes: tuple[tuple[Hashable, int, int, tuple[str, ...]], ...]
    mesh: tuple[tuple[str, int], ...]
    devices: Mesh | None = None

    def __eq__(self, other: object) -> bool:
        return (
            type(other) is StoredPadding
            and self.axes == other.axes
            and self.mesh == other.mesh
            and (
                self.devices is other.devices
                or self.devices is None
                or other.devices is None
                or self.devices.devices.tolist() == other.devices.devices.tolist()
            )
        )

    def __hash__(self) -> int:
        return hash((self.axes, self.mesh))

    @property
    def sizes(self) -> dict[Hashable, int]:
        """The true size of each padded axis."""
        return {name: size for name, size, _, _ in self.axes}

    @property
    def padded_sizes(self) -> dict[Hashable, int]:
        """The padded size of each padded axis."""
        return {name: padded for name, _, padded, _ in self.axes}

    @property
    def resources(self) -> dict[Hashable, tuple[str, ...]]:
        """The mesh axes of each padded axis."""
        return {name: axes for name, _, _, axes in self.axes}

    def renamed(self, names: dict[Hashable, Hashable]) -> StoredPadding:
        """Return the padding with other names."""
        return self.replace(axes=tuple((names.get(n, n), *rest) for n, *rest in self.axes))


class PaddedTail(tuple[Hashable | None, ...]):
    """The dims of an array from the first named one on, with the padding of its axes.

    Pytrees keep it, so two structures are equal only if true sizes and layouts agree.
    """

    padding: StoredPadding

    def __new__(cls, tail: Iterable[Hashable | None], padding: StoredPadding) -> PaddedTail:
        """Return the tail of an array with this padding."""
        made = super().__new__(cls, tail)
        made.padding = padding
        return made

    def __eq__(self, other: object) -> bool:
        return (
            type(other) is PaddedTail
            and tuple.__eq__(self, other)
            and self.padding == other.padding
        )

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((tuple(self), self.padding))

    def __repr__(self) -> str:
        sizes = ", ".join(f"{n!r}: {size} of {padded}" for n, size, padded, _ in self.padding.axes)
        return f"{tuple(self)!r} padded {{{sizes}}}"

    def __reduce__(self) -> tuple[Any, ...]:
        return PaddedTail, (tuple(self), self.padding)


class StoredName(Record):
    """The name of an axis that enters or leaves a mapped function stored padded."""

    name: Hashable
