"""The tiers of the tests: `fast` for `make test`, `full` for `make test-all`, and what is in neither for `make test-products`.

The cases of a test function are what `parametrize` and fixtures give it. A case has features: its values, and the traits of its placement.

- In `fast`, every value of every parameter and every trait occurs.
- `full` is `fast` and as many cases more as it takes for every two values, and every value and every trait, to occur together.
- The mark `fast(n)` limits a function, or the parameters of `pytest.param`, to n cases in `fast`: `fast(0)` for what takes long, `fast(1)`
  where other functions hold the other values, too. The mark `full(n)` does the same for what `full` adds.

The choice depends on the cases of the function alone, so a test is in the same tier whatever else is collected.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import zlib
from collections.abc import Callable, Hashable, Sequence, Set

from tests.harness import SIZES, Placement

TIERS = ("fast", "full")


def traits(placement: Placement) -> frozenset[str]:
    """What placements differ by, where tests may."""
    found = {f"{placement.kind} axes", "partitioner" if placement.partitioning == "auto" else "shard_map"}
    if not placement.resources:
        return frozenset({"unmapped"})
    if placement.shape is None:
        return frozenset({"steps without devices"})
    found.add("1-D mesh" if len(placement.shape) == 1 else "2-D mesh")
    sizes = dict(zip("xy", placement.shape, strict=False))
    for name, resources in placement.resources:
        resources = resources if isinstance(resources, tuple) else (resources,)
        mesh_axes = [r for r in resources if r in sizes]
        if len(mesh_axes) < len(resources):
            found.add("steps")
        if len(mesh_axes) > 1:
            found.add("several mesh axes for one name")
        entries = SIZES.get(name, 0) == math.prod(sizes[axis] for axis in mesh_axes)
        found.add("one entry on each device" if entries else "chunks")
    if len(placement.resources) > 1:
        found.add("several names")
    return frozenset(found)


@dataclasses.dataclass(frozen=True)
class Case:
    """One case of a test function: the values of its parameters, the traits of its placement, and its limits in `fast` and in `full`."""

    values: frozenset[Hashable] = frozenset()
    traits: frozenset[str] = frozenset()
    limits: tuple[int | None, int | None] = (None, None)

    def pairs(self) -> set[Hashable]:
        """Each two values, and each value with each trait."""
        return {*itertools.product(self.values, self.traits), *map(frozenset, itertools.combinations(self.values, 2))}


def tiers(function: str, cases: Sequence[Case]) -> tuple[set[int], set[int]]:
    """Return the indices of those cases of one function that are in `fast`, and of those in `full`."""
    # Placements are taken in another order in every function, so the functions of a module are met in all of them.
    order = sorted(range(len(cases)), key=lambda i: zlib.crc32(f"{function} {i}".encode()))

    def choose(chosen: set[int], tier: int, kinds: Sequence[Callable[[Case], Set[Hashable]]]) -> set[int]:
        """Add cases until each feature of each kind occurs, or the limit of the tier is reached."""
        limit = len(chosen) + max((case.limits[tier] for case in cases if case.limits[tier]), default=len(cases))
        for features in kinds:
            offered = {i: features(cases[i]) for i in order if i not in chosen and cases[i].limits[tier] != 0}
            missing = set().union(*offered.values()) - set().union(*(features(cases[i]) for i in chosen))
            while missing and len(chosen) < limit:
                best = max(offered, key=lambda i: len(offered[i] & missing))
                missing -= offered.pop(best)
                chosen = {*chosen, best}
        return chosen

    singly = [lambda case: case.values or {None}, lambda case: case.traits]
    fast = choose(set(), 0, singly)
    return fast, choose(fast, 1, [*singly, Case.pairs])
