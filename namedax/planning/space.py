"""What can be chosen: the sizes of the mesh axes, which names live on each, and which choices are neighbours or the same.

A choice says for each mesh axis how many devices are along it and which names live there. Names that meet in one value cannot; names
whose size does not divide cannot either, unless they may. Both are known before anything is traced, or learned from the first trace that fails.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from namedax.core.records import Record
from namedax.planning.shapes import Shape, near
from namedax.resources.serial import LoopAxis, SerialLoop

__all__ = ["Choice", "Space"]

Names = frozenset[Hashable]


class Choice(Record):
    """One assignment on one shape of the mesh.

    Attributes:
      sizes: of the mesh axes, in the order of the mesh.
      roles: the names on each mesh axis; on one of one device there are none.
      loops: names that are executed in steps, each with its loop, in the order of the names.
      overlap: what `nx.xmap` takes as `overlap`.
    """

    sizes: tuple[int, ...]
    roles: tuple[Names, ...]
    loops: tuple[tuple[Hashable, SerialLoop], ...] = ()
    overlap: Any = False


class Space:
    """The choices that there are.

    Args:
      sizes: the names that may be mapped, with their sizes.
      axes: the mesh axes.
      shapes: the sizes that they may have; the first is where the search begins.
      apart: pairs of names that are known to meet in one value.
      loops: for names that may be executed in steps: in which loops, beside none.
      overlaps: what `overlap` may be; the first is the default.
      uneven: names that may live where their size does not divide.
    """

    def __init__(
        self,
        sizes: Mapping[Hashable, int],
        axes: Sequence[str],
        shapes: Sequence[Shape],
        apart: Iterable[Names] = (),
        loops: Mapping[Hashable, Sequence[SerialLoop]] | None = None,
        overlaps: Sequence[Any] = (False,),
        uneven: Iterable[Hashable] = (),
    ):
        self.sizes, self.axes = dict(sizes), list(axes)
        self.names = sorted(self.sizes, key=lambda name: (-self.sizes[name], str(name)))
        self.apart, self.uneven = set(apart), set(uneven)
        self._others = {
            name: frozenset(n for n in self.names if self.sizes[n] == size and n != name) for name, size in sizes.items()
        }
        self.barred: set[tuple[Hashable, int]] = set()
        self.loops, self.overlaps = dict(loops or {}), tuple(overlaps)
        self.empty = Choice(shapes[0].sizes, tuple(frozenset() for _ in axes), (), self.overlaps[0])
        self._shapes = {shape.sizes: shape for shape in shapes}
        self._homes = dict(home for shape in reversed(shapes) for home in shape.same())
        # Axes that are interchangeable within a shape.
        self._groups = {shape.sizes: shape.groups() for shape in shapes}

    @property
    def has_shapes(self) -> bool:
        """Whether there is more than one shape."""
        return len(self._shapes) > 1

    # --- assignments ---

    def resources(self, choice: Choice) -> dict[Hashable, Any]:
        """A choice as `axis_resources`: mesh axes in the order of the mesh, major first, but for those that a name shares with others.

        Where names of one size share some of their mesh axes, these are major. A name that is renamed to such a name, as between layers
        positions are, then keeps what is cut by them where it is, and only gathers over the others.
        """
        loops = dict(choice.loops)
        found: dict[Hashable, Any] = {}
        places = {name: [i for i, role in enumerate(choice.roles) if name in role] for name in self.names}
        # Those of the first mesh axis come first, as one reads them.
        for name in sorted(self.names, key=lambda name: (*places[name], len(self.axes))):
            axes: list[Any] = [
                self.axes[i] for i in sorted(places[name], key=lambda i: -len(self._others[name] & choice.roles[i]))
            ]
            if name in loops:
                axes.append(loops[name])
            if axes:
                found[name] = axes[0] if len(axes) == 1 else tuple(axes)
        return found

    def choice_of(self, resources: Mapping[Hashable, Any], overlap: Any) -> Choice:
        """The choice that an assignment is, on the first shape; what it says of names and mesh axes that are not chosen is left out."""
        roles = [set[Hashable]() for _ in self.axes]
        loops = {}
        for name, entry in resources.items():
            for axis in entry if isinstance(entry, tuple) else (entry,):
                if isinstance(axis, LoopAxis):
                    axis = SerialLoop(axis.steps, axis.keep)
                if isinstance(axis, SerialLoop) and name in self.sizes:
                    loops[name] = axis
                elif axis in self.axes and name in self.sizes:
                    roles[self.axes.index(axis)].add(name)
        return Choice(self.empty.sizes, tuple(map(frozenset, roles)), _in_order(loops), overlap)

    def blocks(self, choice: Choice, name: Hashable) -> int:
        """Into how many blocks a name is cut, over devices."""
        return math.prod(n for n, role in zip(choice.sizes, choice.roles, strict=True) if name in role)

    def divides(self, choice: Choice) -> bool:
        """Whether every size divides over devices, but for names that need not, and every block has an entry for each step or device.

        The last of steps may be short: who offers a number of steps wants the memory that it spares.
        """
        steps = {name: loop.steps for name, loop in choice.loops}
        for name, n in self.sizes.items():
            blocks = self.blocks(choice, name)
            if (n % blocks and name not in self.uneven) or blocks * steps.get(name, 1) > n:
                return False
        return True

    def not_dividing(self) -> dict[Hashable, list[int]]:
        """For names that are not offered as uneven: numbers of devices that were left out because the size does not divide over them."""
        counts: set[int] = set()
        for sizes in self._shapes:
            used = [n for n in sizes if n > 1]
            counts.update(math.prod(some) for k in range(1, len(used) + 1) for some in itertools.combinations(used, k))
        found = {
            name: [n for n in sorted(counts) if self.sizes[name] >= n and self.sizes[name] % n]
            for name in self.names
            if name not in self.uneven
        }
        return {name: left_out for name, left_out in found.items() if left_out}

    def allowed(self, choice: Choice) -> bool:
        """Whether nothing is known that speaks against it."""
        if any((name, n) in self.barred for n, role in zip(choice.sizes, choice.roles, strict=True) for name in role):
            return False
        return self.divides(choice) and not any(pair <= role for role in choice.roles for pair in self.apart if len(role) > 1)

    def learn(self, choice: Choice, names: Sequence[Hashable]) -> None:
        """Of a choice that cannot be traced: `names` meet in one value, or if there are none, what is known of it by itself."""
        if len(names) == 2 and names[0] != names[1]:
            self.apart.add(frozenset(names))
            return
        placed = [(name, n) for n, role in zip(choice.sizes, choice.roles, strict=True) for name in role]
        if len(placed) == 1 and not choice.loops:
            self.barred.update(placed)

    # --- which are the same, and which are near ---

    def canonical(self, choice: Choice) -> Choice:
        """The one that stands for all that differ in the order of mesh axes of equal link only."""
        sizes, order = self._homes[choice.sizes]
        roles = [choice.roles[i] if n > 1 else frozenset() for n, i in zip(sizes, order, strict=True)]
        for group in self._groups[sizes]:
            ordered = sorted((roles[i] for i in group), key=self._rank)
            for i, role in zip(group, ordered, strict=True):
                roles[i] = role
        return choice.replace(sizes=sizes, roles=tuple(roles))

    def _rank(self, role: Names) -> tuple[int, ...]:
        return tuple(int(name not in role) for name in self.names)

    def put(self, choice: Choice, name: Hashable, place: Iterable[int]) -> Choice:
        """The choice with a name on these mesh axes and no others; what cannot be there with it leaves them."""
        place = set(place)
        roles = []
        for i, role in enumerate(choice.roles):
            if i in place:
                role = frozenset(other for other in role if frozenset((name, other)) not in self.apart) | {name}
            else:
                role = role - {name}
            roles.append(role)
        return choice.replace(roles=tuple(roles))

    def neighbours(self, choice: Choice) -> Iterator[Choice]:
        """What differs in where one name lives, in what lives on two mesh axes, in one number of steps, or by a factor of two mesh axes."""
        found = dict.fromkeys(map(self.canonical, self._changes(choice)))
        found.pop(choice, None)
        yield from (other for other in found if self.allowed(other))

    def _changes(self, choice: Choice) -> Iterator[Choice]:
        used = _used(choice)
        places = [place for size in range(len(used) + 1) for place in itertools.combinations(used, size)]
        for name in self.names:
            for place in places:
                yield self.put(choice, name, place)
        for i, j in itertools.permutations(used, 2):
            roles = list(choice.roles)
            roles[i] = roles[j]
            yield choice.replace(roles=tuple(roles))
            roles[j] = choice.roles[i]
            yield choice.replace(roles=tuple(roles))
        for name, options in self.loops.items():
            others = {n: loop for n, loop in choice.loops if n != name}
            yield choice.replace(loops=_in_order(others))
            for loop in options:
                yield choice.replace(loops=_in_order({**others, name: loop}))
        for overlap in self.overlaps:
            yield choice.replace(overlap=overlap)
        if self.has_shapes:
            yield from self._reshaped(choice)

    def _reshaped(self, choice: Choice) -> Iterator[Choice]:
        """With a prime factor of one mesh axis moved to another; a new axis may have the names of the one that it is a part of."""
        for i, j, sizes in near(choice.sizes):
            if sizes not in self._homes:
                continue
            roles = list(choice.roles)
            yield choice.replace(sizes=sizes)
            if choice.sizes[j] == 1 or sizes[i] == 1:
                roles[j] = choice.roles[i]
                yield choice.replace(sizes=sizes, roles=tuple(roles))

    def crossed(self, choice: Choice, roles: Iterable[Names]) -> Iterator[Choice]:
        """With all that lives on one mesh axis replaced by what lives on some mesh axis elsewhere."""
        for i in _used(choice):
            for role in roles:
                other = self.canonical(choice.replace(roles=(*choice.roles[:i], role, *choice.roles[i + 1 :])))
                if self.allowed(other):
                    yield other

    def edited(self, choice: Choice) -> Iterator[Choice]:
        """With one name taken from a mesh axis, or put on one beside what lives there."""
        for i in _used(choice):
            for name in self.names:
                role = choice.roles[i] ^ {name}
                other = self.canonical(choice.replace(roles=(*choice.roles[:i], role, *choice.roles[i + 1 :])))
                if self.allowed(other):
                    yield other

    def joining(self, choice: Choice) -> Iterator[Choice]:
        """With two mesh axes made one, on which the same names live."""
        for i, j in itertools.combinations(_used(choice), 2):
            sizes = list(choice.sizes)
            sizes[i], sizes[j] = sizes[i] * sizes[j], 1
            if choice.roles[i] == choice.roles[j] and tuple(sizes) in self._homes:
                yield self.canonical(choice.replace(sizes=tuple(sizes)))

    def alone(self) -> Iterator[Choice]:
        """Every name by itself, on the largest mesh axis over which it divides."""
        for name in self.names:
            for i in sorted(_used(self.empty), key=lambda i: -self.empty.sizes[i]):
                choice = self.canonical(self.put(self.empty, name, (i,)))
                if self.allowed(choice):
                    yield choice
                    break

    def beside(self, base: Choice) -> Iterator[Choice]:
        """Every name on a mesh axis that is free in `base`, or taken from it, the smallest; the first over which it divides."""
        order = sorted(_used(base), key=lambda i: (bool(base.roles[i]), base.sizes[i]))
        for name in self.names:
            for i in order:
                kept = (
                    base.roles[i] if not any(frozenset((name, other)) in self.apart for other in base.roles[i]) else frozenset()
                )
                roles = tuple(kept | {name} if j == i else role for j, role in enumerate(base.roles))
                choice = self.canonical(base.replace(roles=roles))
                if choice != base and self.allowed(choice):
                    yield choice
                    break

    def rebuilt(self, choice: Choice) -> Iterator[tuple[Choice, int]]:
        """With one mesh axis emptied but for one name; and which axis it is."""
        for i in _used(choice):
            for name in self.names:
                roles = tuple(frozenset((name,)) if j == i else role for j, role in enumerate(choice.roles))
                other = choice.replace(roles=roles)
                if self.allowed(other):
                    yield other, i

    def joined(self, choice: Choice, axis: int) -> Iterator[Choice]:
        """With one more name on a mesh axis."""
        for name in self.names:
            if name not in choice.roles[axis]:
                role = choice.roles[axis] | {name}
                other = choice.replace(roles=(*choice.roles[:axis], role, *choice.roles[axis + 1 :]))
                if self.allowed(other):
                    yield other


def _used(choice: Choice) -> list[int]:
    """The mesh axes of more than one device."""
    return [i for i, n in enumerate(choice.sizes) if n > 1]


def _in_order(loops: Mapping[Hashable, SerialLoop]) -> tuple[tuple[Hashable, SerialLoop], ...]:
    return tuple(sorted(loops.items(), key=lambda item: str(item[0])))
