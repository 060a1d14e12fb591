"""The space of choices: sizes of mesh axes, names on each, neighbors, and equivalence.

A choice has, for each mesh axis, its number of devices and the names that are mapped to it. Names
that occur in one value cannot share a mesh axis. A name whose size does not divide cannot be
mapped, unless uneven blocks are allowed for it. Both constraints are known before any trace, or are
learned from the first trace that fails.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from namedax.core.records import Record
from namedax.insight.planning.candidates import Settings
from namedax.insight.planning.meshes import Shape, near
from namedax.resources.serial import LoopAxis, SerialLoop

__all__ = ["Choice", "Names", "Pin", "Space"]

Names = frozenset[Hashable]
# A fixed mapping: the mesh axes of a name, and its loop.
Pin = tuple[frozenset[str], SerialLoop | None]


class Choice(Record):
    """One layout on one shape of the mesh.

    Attributes:
      sizes: the sizes of the mesh axes, in the order of the mesh.
      roles: the names on each mesh axis; none on a mesh axis of one device.
      loops: names that are executed in steps, each with its loop, in the order of the names;
        default: none.
      settings: the other arguments of `nx.xmap`; default: its defaults.
    """

    sizes: tuple[int, ...]
    roles: tuple[Names, ...]
    loops: tuple[tuple[Hashable, SerialLoop], ...] = ()
    settings: Settings = Settings()


class Space:
    """The set of choices.

    Args:
      sizes: the names that may be mapped, with their sizes.
      axes: the mesh axes.
      shapes: the sizes that they may have; the search begins at the first.
      apart: pairs of names that are known to occur in one value; default: none.
      loops: for names that may be executed in steps, the loops to try in addition to none; default:
        none.
      settings: the settings to try; the first are the default. Default: those of `nx.xmap` only.
      uneven: names that may be mapped where their size does not divide; default: none.
      fixed: names with a fixed mapping, each with its mesh axes and its loop; default: none.
    """

    def __init__(
        self,
        sizes: Mapping[Hashable, int],
        axes: Sequence[str],
        shapes: Sequence[Shape],
        apart: Iterable[Names] = (),
        loops: Mapping[Hashable, Sequence[SerialLoop]] | None = None,
        settings: Sequence[Settings] = (Settings(),),
        uneven: Iterable[Hashable] = (),
        fixed: Mapping[Hashable, Pin] | None = None,
    ):
        self.sizes, self.axes = dict(sizes), list(axes)
        self.names = sorted(self.sizes, key=lambda name: (-self.sizes[name], str(name)))
        self.apart, self.uneven = set(apart), set(uneven)
        self._others = {
            name: frozenset(n for n in self.names if self.sizes[n] == size and n != name)
            for name, size in sizes.items()
        }
        self.barred: set[tuple[Hashable, int]] = set()
        # Results that hold until the next constraint is learned.
        self._compatible: dict[Names, bool] = {}
        self._near: dict[Choice, list[Choice]] = {}
        self.loops, self.settings = dict(loops or {}), tuple(settings)
        self.fixed = dict(fixed or {})
        self._pinned = tuple(
            frozenset(name for name, (on, _) in self.fixed.items() if axis in on) for axis in axes
        )
        nothing: tuple[Names, ...] = tuple(frozenset() for _ in axes)
        self.bare = Choice(shapes[0].sizes, nothing, (), self.settings[0])
        self.empty = self._with_fixed(self.bare)
        self._shapes = {shape.sizes: shape for shape in shapes}
        self._homes = dict(home for shape in reversed(shapes) for home in shape.same())
        # Axes that are interchangeable within a shape.
        self._groups = {shape.sizes: shape.groups() for shape in shapes}

    @property
    def has_shapes(self) -> bool:
        """True if there is more than one shape."""
        return len(self._shapes) > 1

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """The sizes of the mesh axes of each shape."""
        return tuple(self._shapes)

    def pinned_on(self, axis: int) -> Names:
        """Return the names that are fixed on a mesh axis."""
        return self._pinned[axis]

    def _with_fixed(self, choice: Choice) -> Choice:
        """Return the choice with the fixed names in place, without names that conflict."""
        if not self.fixed:
            return choice
        roles = tuple(
            frozenset(
                name
                for name in role
                if name not in self.fixed
                and not any(frozenset((name, other)) in self.apart for other in pinned)
            )
            | pinned
            if n > 1
            else frozenset[Hashable]()
            for n, role, pinned in zip(choice.sizes, choice.roles, self._pinned, strict=True)
        )
        loops = {name: loop for name, loop in choice.loops if name not in self.fixed}
        loops.update({name: loop for name, (_, loop) in self.fixed.items() if loop is not None})
        return choice.replace(roles=roles, loops=_in_order(loops))

    def maximal(self, axis: int, devices: int, most: int) -> list[Names]:
        """Return the maximal sets of compatible names on a mesh axis of `devices` devices.

        If there are more than `most`, the result is one set with all names, compatible or not.
        """
        pinned = self._pinned[axis]
        names = [
            name
            for name in self.names
            if name not in self.fixed
            and (name, devices) not in self.barred
            and self.divides_into(name, devices)
            and not any(frozenset((name, other)) in self.apart for other in pinned)
        ]
        beside = {
            name: {n for n in names if n != name and frozenset((name, n)) not in self.apart}
            for name in names
        }
        found: list[Names] = []

        def grow(chosen: Names, open_names: set[Hashable], closed: set[Hashable]) -> None:
            if len(found) > most:
                return
            if not open_names and not closed:
                found.append(chosen | pinned)
                return
            pivot = max(
                (name for name in names if name in open_names or name in closed),
                key=lambda name: len(beside[name] & open_names),
            )
            for name in [n for n in names if n in open_names - beside[pivot]]:
                grow(chosen | {name}, open_names & beside[name], closed & beside[name])
                open_names = open_names - {name}
                closed = closed | {name}

        grow(frozenset(), set(names), set())
        return found if len(found) <= most else [frozenset(names) | pinned]

    def variants(self, choice: Choice) -> Iterator[Choice]:
        """Yield the allowed choices with these names on mesh axes, for all loops and settings."""
        names = [name for name in self.loops if name not in self.fixed]
        for loops in itertools.product(*((None, *self.loops[name]) for name in names)):
            given = {
                name: loop for name, loop in zip(names, loops, strict=True) if loop is not None
            }
            for settings in self.settings:
                one = self.canonical(choice.replace(loops=_in_order(given), settings=settings))
                if self.allowed(one):
                    yield one

    def resources(self, choice: Choice) -> dict[Hashable, Any]:
        """Return a choice as `axis_resources`, with mesh axes in mesh order, except shared ones.

        If names of one size share some of their mesh axes, these are major. A name that is renamed
        to such a name, such as positions between layers, then keeps its sharding over them, and is
        only gathered over the others.
        """
        loops = dict(choice.loops)
        found: dict[Hashable, Any] = {}
        places = {
            name: [i for i, role in enumerate(choice.roles) if name in role] for name in self.names
        }
        # Names on the first mesh axis come first, for readability.
        for name in sorted(self.names, key=lambda name: (*places[name], len(self.axes))):
            axes: list[Any] = [
                self.axes[i]
                for i in sorted(
                    places[name], key=lambda i: -len(self._others[name] & choice.roles[i])
                )
            ]
            if name in loops:
                axes.append(loops[name])
            if axes:
                found[name] = axes[0] if len(axes) == 1 else tuple(axes)
        return found

    def choice_of(self, resources: Mapping[Hashable, Any], settings: Settings) -> Choice:
        """Return the choice for a layout, on the first shape.

        Names and mesh axes that are not part of the space are left out.
        """
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
        return Choice(self.empty.sizes, tuple(map(frozenset, roles)), _in_order(loops), settings)

    def own(self, resources: Mapping[Hashable, Any], settings: Settings) -> Choice:
        """Return the choice for the layout of the program, in which names may be uneven."""
        own = self.canonical(self.choice_of(resources, settings))
        self.uneven |= {name for name, size in self.sizes.items() if size % self.blocks(own, name)}
        return own

    def blocks(self, choice: Choice, name: Hashable) -> int:
        """Return the number of blocks into which a name is partitioned over devices."""
        return math.prod(
            n for n, role in zip(choice.sizes, choice.roles, strict=True) if name in role
        )

    def divides_into(self, name: Hashable, count: int) -> bool:
        """Return True if a name may be partitioned into this number of blocks."""
        size = self.sizes[name]
        return size >= count and (size % count == 0 or name in self.uneven)

    def is_default(self, choice: Choice) -> bool:
        """Return True if no name is executed in steps, and the settings are the default."""
        return not choice.loops and choice.settings == self.settings[0]

    def divides(self, choice: Choice) -> bool:
        """Return True if every size divides over devices, except for uneven names.

        Every step or device has an element.

        The last step may be short: a user who offers a number of steps wants the memory savings.
        """
        steps = {name: loop.steps for name, loop in choice.loops}
        blocks = dict.fromkeys(steps, 1)
        for devices, role in zip(choice.sizes, choice.roles, strict=True):
            for name in role:
                blocks[name] = blocks.get(name, 1) * devices
        for name, count in blocks.items():
            n = self.sizes[name]
            if (n % count and name not in self.uneven) or count * steps.get(name, 1) > n:
                return False
        return True

    def not_dividing(self) -> dict[Hashable, list[int]]:
        """Return by name the numbers of devices left out because the size does not divide.

        Uneven names are not among them.
        """
        counts: set[int] = set()
        for sizes in self._shapes:
            used = [n for n in sizes if n > 1]
            counts.update(
                math.prod(some)
                for k in range(1, len(used) + 1)
                for some in itertools.combinations(used, k)
            )
        found = {
            name: [n for n in sorted(counts) if self.sizes[name] >= n and self.sizes[name] % n]
            for name in self.names
            if name not in self.uneven
        }
        return {name: left_out for name, left_out in found.items() if left_out}

    def allowed(self, choice: Choice) -> bool:
        """Return True if no known constraint rules the choice out."""
        if any(
            (name, n) in self.barred
            for n, role in zip(choice.sizes, choice.roles, strict=True)
            for name in role
        ):
            return False
        return (
            self.keeps_fixed(choice)
            and self.divides(choice)
            and all(map(self._are_compatible, choice.roles))
        )

    def keeps_fixed(self, choice: Choice) -> bool:
        """Return True if the fixed names are in their places."""
        return not self.fixed or self._with_fixed(choice) == choice

    def _are_compatible(self, role: Names) -> bool:
        """Return True if no two of these names are known to occur in one value."""
        if len(role) < 2:
            return True
        if role not in self._compatible:
            self._compatible[role] = not any(pair <= role for pair in self.apart)
        return self._compatible[role]

    def learn(self, choice: Choice, names: Sequence[Hashable]) -> None:
        """Learn from a choice that cannot be traced.

        `names` occur in one value; without `names`, a choice of a single name is barred.
        """
        self._compatible.clear()
        self._near.clear()
        if len(names) == 2 and names[0] != names[1]:
            self.apart.add(frozenset(names))
            return
        placed = [
            (name, n) for n, role in zip(choice.sizes, choice.roles, strict=True) for name in role
        ]
        if len(placed) == 1 and not choice.loops:
            self.barred.update(placed)

    def canonical(self, choice: Choice) -> Choice:
        """Return the representative of choices that differ in the order of axes of equal link.

        It has the fixed names in their places.
        """
        choice = self._with_fixed(choice)
        sizes, order = self._homes[choice.sizes]
        roles = [
            choice.roles[i] if n > 1 else frozenset() for n, i in zip(sizes, order, strict=True)
        ]
        for group in self._groups[sizes]:
            ordered = sorted((roles[i] for i in group), key=self._rank)
            for i, role in zip(group, ordered, strict=True):
                roles[i] = role
        return choice.replace(sizes=sizes, roles=tuple(roles))

    def _rank(self, role: Names) -> tuple[int, ...]:
        return tuple(int(name not in role) for name in self.names)

    def put(self, choice: Choice, name: Hashable, place: Iterable[int]) -> Choice:
        """Return the choice with a name on these mesh axes only; incompatible names are removed."""
        place = set(place)
        roles = []
        for i, role in enumerate(choice.roles):
            if i in place:
                role = frozenset(
                    other for other in role if frozenset((name, other)) not in self.apart
                ) | {name}
            else:
                role = role - {name}
            roles.append(role)
        return choice.replace(roles=tuple(roles))

    def neighbours(self, choice: Choice) -> Iterator[Choice]:
        """Yield the neighbors of a choice.

        A neighbor differs in one of these: the mesh axes of one name, the names of two mesh axes,
        one number of steps, the settings, or a prime factor that is moved between two mesh axes.
        """
        if choice not in self._near:
            found = dict.fromkeys(map(self.canonical, self._changes(choice)))
            found.pop(choice, None)
            self._near[choice] = [other for other in found if self.allowed(other)]
        yield from self._near[choice]

    def _changes(self, choice: Choice) -> Iterator[Choice]:
        used = _used(choice)
        places = [
            place for size in range(len(used) + 1) for place in itertools.combinations(used, size)
        ]
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
        for settings in self.settings:
            yield choice.replace(settings=settings)
        if self.has_shapes:
            yield from self._reshaped(choice)

    def _reshaped(self, choice: Choice) -> Iterator[Choice]:
        """Move a prime factor of one mesh axis to another.

        A new axis may get the names of the axis that it came from.
        """
        for i, j, sizes in near(choice.sizes):
            if sizes not in self._homes:
                continue
            roles = list(choice.roles)
            yield choice.replace(sizes=sizes)
            if choice.sizes[j] == 1 or sizes[i] == 1:
                roles[j] = choice.roles[i]
                yield choice.replace(sizes=sizes, roles=tuple(roles))

    def crossed(self, choice: Choice, roles: Iterable[Names]) -> Iterator[Choice]:
        """Yield choices with all names of one mesh axis replaced by those of another role."""
        for i in _used(choice):
            for role in roles:
                other = self.canonical(
                    choice.replace(roles=(*choice.roles[:i], role, *choice.roles[i + 1 :]))
                )
                if self.allowed(other):
                    yield other

    def edited(self, choice: Choice) -> Iterator[Choice]:
        """Yield choices with one name removed from a mesh axis, or added to one."""
        for i in _used(choice):
            for name in self.names:
                role = choice.roles[i] ^ {name}
                other = self.canonical(
                    choice.replace(roles=(*choice.roles[:i], role, *choice.roles[i + 1 :]))
                )
                if self.allowed(other):
                    yield other

    def joining(self, choice: Choice) -> Iterator[Choice]:
        """Yield choices with two mesh axes merged that have the same names."""
        for i, j in itertools.combinations(_used(choice), 2):
            sizes = list(choice.sizes)
            sizes[i], sizes[j] = sizes[i] * sizes[j], 1
            if choice.roles[i] == choice.roles[j] and tuple(sizes) in self._homes:
                yield self.canonical(choice.replace(sizes=tuple(sizes)))

    def single_names(self) -> Iterator[Choice]:
        """Yield every name alone, on the largest mesh axis over which it divides."""
        for name in self.names:
            for i in sorted(_used(self.empty), key=lambda i: -self.empty.sizes[i]):
                choice = self.canonical(self.put(self.empty, name, (i,)))
                if self.allowed(choice):
                    yield choice
                    break

    def beside(self, base: Choice) -> Iterator[Choice]:
        """Yield choices with one name added to `base`.

        The name is placed on the first mesh axis over which it divides: free mesh axes first, then
        those taken from `base`, each from the smallest.
        """
        order = sorted(_used(base), key=lambda i: (bool(base.roles[i]), base.sizes[i]))
        for name in self.names:
            for i in order:
                kept = (
                    base.roles[i]
                    if not any(frozenset((name, other)) in self.apart for other in base.roles[i])
                    else frozenset()
                )
                roles = tuple(
                    kept | {name} if j == i else role for j, role in enumerate(base.roles)
                )
                choice = self.canonical(base.replace(roles=roles))
                if choice != base and self.allowed(choice):
                    yield choice
                    break

    def rebuilt(self, choice: Choice) -> Iterator[tuple[Choice, int, Hashable]]:
        """Yield choices with one mesh axis emptied except for one name, that axis, and the name.

        Fixed names stay.
        """
        for i in _used(choice):
            for name in self.names:
                roles = tuple(
                    self._pinned[i] | {name} if j == i else role
                    for j, role in enumerate(choice.roles)
                )
                other = choice.replace(roles=roles)
                if self.allowed(other):
                    yield other, i, name

    def joined(self, choice: Choice, axis: int) -> Iterator[Choice]:
        """Yield choices with one more name on a mesh axis."""
        for name in self.names:
            if name not in choice.roles[axis]:
                role = choice.roles[axis] | {name}
                other = choice.replace(
                    roles=(*choice.roles[:axis], role, *choice.roles[axis + 1 :])
                )
                if self.allowed(other):
                    yield other


def _used(choice: Choice) -> list[int]:
    """Return the mesh axes of more than one device."""
    return [i for i, n in enumerate(choice.sizes) if n > 1]


def _in_order(loops: Mapping[Hashable, SerialLoop]) -> tuple[tuple[Hashable, SerialLoop], ...]:
    return tuple(sorted(loops.items(), key=lambda item: str(item[0])))
