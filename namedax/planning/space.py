"""What can be chosen: which names live on each axis of a mesh, and which assignments are neighbours or the same.

A choice says for each mesh axis which names live there. Names that meet in one value cannot; names whose size does not divide cannot
either. Both are known before anything is traced, or learned from the first trace that fails.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from namedax.core.records import Record
from namedax.resources.serial import LoopAxis, SerialLoop

__all__ = ["Choice", "Space"]

Names = frozenset[Hashable]


class Choice(Record):
    """One assignment.

    Attributes:
      roles: the names on each mesh axis, in the order of the mesh.
      loops: names that are executed in steps, each with its loop, in the order of the names.
      overlap: what `nx.xmap` takes as `overlap`.
    """

    roles: tuple[Names, ...]
    loops: tuple[tuple[Hashable, SerialLoop], ...] = ()
    overlap: Any = False


class Space:
    """The choices that there are.

    Args:
      sizes: the names that may be mapped, with their sizes.
      mesh: the size of each mesh axis, in the order of the mesh.
      alike: mesh axes of equal size and equal link, by what they have in common.
      apart: pairs of names that are known to meet in one value.
      loops: for names that may be executed in steps: in which loops, beside none.
      overlaps: what `overlap` may be; the first is the default.
    """

    def __init__(
        self,
        sizes: Mapping[Hashable, int],
        mesh: Mapping[str, int],
        alike: Mapping[str, Hashable],
        apart: Iterable[Names] = (),
        loops: Mapping[Hashable, Sequence[SerialLoop]] | None = None,
        overlaps: Sequence[Any] = (False,),
    ):
        self.sizes, self.mesh = dict(sizes), dict(mesh)
        self.names = sorted(self.sizes, key=lambda name: (-self.sizes[name], str(name)))
        self.apart = set(apart)
        self.barred: set[tuple[Hashable, str]] = set()
        self.loops, self.overlaps = dict(loops or {}), tuple(overlaps)
        self.empty = Choice(tuple(frozenset() for _ in mesh), (), self.overlaps[0])
        self._axes = list(self.mesh)
        groups: dict[Hashable, list[int]] = {}
        for i, axis in enumerate(self._axes):
            groups.setdefault((self.mesh[axis], alike.get(axis)), []).append(i)
        self._groups = [group for group in groups.values() if len(group) > 1]

    # --- assignments ---

    def resources(self, choice: Choice) -> dict[Hashable, Any]:
        """A choice as `axis_resources`: mesh axes in the order of the mesh, major first."""
        loops = dict(choice.loops)
        found: dict[Hashable, Any] = {}
        places = {name: [i for i, role in enumerate(choice.roles) if name in role] for name in self.names}
        # Those of the first mesh axis come first, as one reads them.
        for name in sorted(self.names, key=lambda name: (*places[name], len(self._axes))):
            axes: list[Any] = [self._axes[i] for i in places[name]]
            if name in loops:
                axes.append(loops[name])
            if axes:
                found[name] = axes[0] if len(axes) == 1 else tuple(axes)
        return found

    def choice_of(self, resources: Mapping[Hashable, Any], overlap: Any) -> Choice:
        """The choice that an assignment is; what it says of names and mesh axes that are not chosen is left out."""
        roles = [set[Hashable]() for _ in self._axes]
        loops = {}
        for name, entry in resources.items():
            for axis in entry if isinstance(entry, tuple) else (entry,):
                if isinstance(axis, LoopAxis):
                    axis = SerialLoop(axis.steps, axis.keep)
                if isinstance(axis, SerialLoop) and name in self.sizes:
                    loops[name] = axis
                elif axis in self.mesh and name in self.sizes:
                    roles[self._axes.index(axis)].add(name)
        return Choice(tuple(map(frozenset, roles)), _in_order(loops), overlap)

    def blocks(self, choice: Choice, name: Hashable) -> int:
        """Into how many blocks a name is cut, over devices."""
        return math.prod(n for n, role in zip(self.mesh.values(), choice.roles, strict=True) if name in role)

    def divides(self, choice: Choice) -> bool:
        """Whether every size divides."""
        steps = {name: loop.steps for name, loop in choice.loops}
        return all(n % (self.blocks(choice, name) * steps.get(name, 1)) == 0 for name, n in self.sizes.items())

    def allowed(self, choice: Choice) -> bool:
        """Whether nothing is known that speaks against it."""
        if any((name, axis) in self.barred for axis, role in zip(self._axes, choice.roles, strict=True) for name in role):
            return False
        return self.divides(choice) and not any(pair <= role for role in choice.roles for pair in self.apart if len(role) > 1)

    def learn(self, choice: Choice, names: Sequence[Hashable]) -> None:
        """Of a choice that cannot be traced: `names` meet in one value, or if there are none, what is known of it by itself."""
        if len(names) == 2 and names[0] != names[1]:
            self.apart.add(frozenset(names))
            return
        placed = [(name, axis) for axis, role in zip(self._axes, choice.roles, strict=True) for name in role]
        if len(placed) == 1 and not choice.loops:
            self.barred.update(placed)

    # --- which are the same, and which are near ---

    def canonical(self, choice: Choice) -> Choice:
        """The one that stands for all that differ in mesh axes of equal size and link only."""
        roles = list(choice.roles)
        for group in self._groups:
            ordered = sorted((roles[i] for i in group), key=self._rank)
            for i, role in zip(group, ordered, strict=True):
                roles[i] = role
        return choice.replace(roles=tuple(roles))

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
        """What differs in where one name lives, or in what lives on two mesh axes, or in one number of steps."""
        found = dict.fromkeys(map(self.canonical, self._changes(choice)))
        found.pop(choice, None)
        yield from (other for other in found if self.allowed(other))

    def _changes(self, choice: Choice) -> Iterator[Choice]:
        count = len(self._axes)
        places = [place for size in range(count + 1) for place in itertools.combinations(range(count), size)]
        for name in self.names:
            for place in places:
                yield self.put(choice, name, place)
        for i, j in itertools.permutations(range(count), 2):
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

    def alone(self) -> Iterator[Choice]:
        """Every name by itself, on the largest mesh axis over which it divides."""
        for name in self.names:
            for i in sorted(range(len(self._axes)), key=lambda i: -self.mesh[self._axes[i]]):
                choice = self.canonical(self.put(self.empty, name, (i,)))
                if self.allowed(choice):
                    yield choice
                    break

    def beside(self, base: Choice) -> Iterator[Choice]:
        """Every name on a mesh axis that is free in `base`, or taken from it, the smallest; the first over which it divides."""
        order = sorted(range(len(self._axes)), key=lambda i: (bool(base.roles[i]), self.mesh[self._axes[i]]))
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
        for i in range(len(self._axes)):
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


def _in_order(loops: Mapping[Hashable, SerialLoop]) -> tuple[tuple[Hashable, SerialLoop], ...]:
    return tuple(sorted(loops.items(), key=lambda item: str(item[0])))
