"""The shapes of a mesh: the sizes of its axes, and the shapes that are equivalent on a machine."""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Iterator, Sequence
from typing import Any

from namedax.core.records import Record
from namedax.errors import MeshError
from namedax.machines import Machine

__all__ = ["Shape", "near", "shapes_for", "the_shape"]

Sizes = tuple[int, ...]


class Shape(Record):
    """The sizes of the axes of a mesh, in order; size 1 stands for an absent axis.

    Attributes:
      sizes: the size of each axis.
      links: the link of each axis; axes of one size with equal links are interchangeable.
      others: the sizes of equivalent shapes, each with the order of its axes.
    """

    sizes: Sizes
    links: tuple[Hashable, ...]
    others: tuple[tuple[Sizes, tuple[int, ...]], ...] = ()

    def groups(self) -> list[list[int]]:
        """Return the groups of two or more interchangeable axes."""
        found: dict[Hashable, list[int]] = {}
        for i, axis in enumerate(zip(self.sizes, self.links, strict=True)):
            found.setdefault(axis, []).append(i)
        return [group for group in found.values() if len(group) > 1]

    def same(self) -> Iterator[tuple[Sizes, tuple[Sizes, tuple[int, ...]]]]:
        """Yield all sizes that this shape represents, each with its sizes and the order of the axes."""
        yield self.sizes, (self.sizes, tuple(range(len(self.sizes))))
        for sizes, order in self.others:
            yield sizes, (self.sizes, order)


def the_shape(machine: Machine, axes: Sequence[str], sizes: Sizes) -> Shape:
    """Return the shape of these sizes.

    Raises:
      MeshError: the machine has no link for a mesh axis, or the mesh does not fit on it.
    """
    over = machine.layout(dict(zip(axes, sizes, strict=True)))
    # Links that are known for several mesh axes together apply to these axes only.
    together = any(isinstance(key, tuple) for key in machine.links)
    return Shape(sizes, tuple(axis if together else repr(over[axis]) for axis in axes))


def shapes_for(machine: Machine, axes: Sequence[str], count: int, first: Sizes | None = None) -> list[Shape]:
    """Return the shapes of `count` devices without equivalent ones: `first`, then from many equal axes to few.

    Raises:
      MeshError: no shape fits on the machine.
    """
    found: dict[Hashable, Shape] = {}
    refused: MeshError | None = None
    for sizes in sorted(_factorizations(count, len(axes)), key=lambda sizes: (sizes != first, *_order(sizes))):
        try:
            shape = the_shape(machine, axes, sizes)
        except MeshError as error:
            refused = refused or error
            continue
        kinds = list(zip(shape.sizes, shape.links, strict=True))
        key = tuple(sorted(kinds, key=repr))
        known = found.get(key)
        if known is None:
            found[key] = shape
        else:
            found[key] = known.replace(others=(*known.others, (sizes, _matched(known, kinds))))
    if not found:
        assert refused is not None
        raise refused
    return list(found.values())


def _matched(known: Shape, kinds: list[Any]) -> tuple[int, ...]:
    """Return, for each axis of a shape, the equivalent axis of another one."""
    left = dict(enumerate(kinds))
    order = []
    for axis in zip(known.sizes, known.links, strict=True):
        i = next(i for i, kind in left.items() if kind == axis)
        del left[i]
        order.append(i)
    return tuple(order)


def _order(sizes: Sizes) -> tuple[Any, ...]:
    used = [n for n in sizes if n > 1]
    return -len(used), max(used, default=1) / min(used, default=1), tuple(-n for n in sizes)


def _factorizations(count: int, axes: int) -> Iterator[Sizes]:
    if axes == 1:
        yield (count,)
        return
    for n in (n for n in range(1, count + 1) if count % n == 0):
        for rest in _factorizations(count // n, axes - 1):
            yield (n, *rest)


def near(sizes: Sizes) -> Iterator[tuple[int, int, Sizes]]:
    """Yield the sizes with a prime factor of one axis moved to another, with these two axes."""
    for i, j in itertools.permutations(range(len(sizes)), 2):
        for factor in _primes(sizes[i]):
            moved = list(sizes)
            moved[i] //= factor
            moved[j] *= factor
            yield i, j, tuple(moved)


def _primes(count: int) -> Iterator[int]:
    for n in range(2, math.isqrt(count) + 1):
        if count % n == 0:
            yield n
            while count % n == 0:
                count //= n
    if count > 1:
        yield count
