"""Which tests `make test` runs: of every matrix of cases a part in which everything occurs. The rest is marked `full`, for `make test-all`.

Of that rest, `make test-all` leaves out what only multiplies: with it, every operation has met every two traits of placements that occur
together (an Explicit mesh and chunks, say, or two mesh axes and XLA's partitioner). A function with the mark `rest(n)` keeps n of its cases
there, evenly spread. What remains is marked `product`, for `make test-products` and before a release.

`make test-all` runs the tests of `make test` on a second JAX. Where the rest runs on it, too, `--beside-rest` leaves out the cases that show
nothing beside it: on that JAX every function runs with every value of every parameter, and these cases run on the other JAX.

The rule, for one test function and its cases (tests/conftest.py applies it, tests/house/test_covering.py checks it):

- Every value of every parameter occurs: every operation, every mistake, every element type; not every product of them.
- A function with the mark `part(n)` keeps n of its cases, evenly spread or by their placements: what its other cases hold is held by
  other functions too.
- A placement is chosen for what it is like (`traits`): each case runs in the placement whose traits its family has met least so far, and
  in every family every trait that its tests have occurs. A function that has placements only, for one program of many operations, runs
  in `PLACES` of them, which is one: `make test-all` runs it in every two traits, too.

A family is the tests of one room of operations (tests/ops/<room>), or of several similar rooms (`SHARED`). The rooms are those in which the
operations of the table are defined (tests/operations.py). The tests in tests/xmap are a family, too. Every other module is a family of its
own, except `EXCEPTIONS`.

So operations of a family are met unmapped, with one entry on each device, in chunks, over several mesh axes, on Auto and on
Explicit axes and under XLA's partitioner, each operation in some of these, and with every two of them in `make test-all`.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import itertools
import math
import types
from collections.abc import Callable, Hashable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

import namedax as nx
from tests.harness import SIZES, Placement

HERE = Path(__file__).parent
PLACES = 1
# Rooms of operations (namedax/ops) without a row in the table: it calls elementwise functions from `nx.numpy`, and a collective needs a region.
WITHOUT_ROWS = ("elementwise", "collectives")
# Rooms that share the family of another room.
SHARED = {"sorting": "reduction", "statistics": "reduction", "random": "elementwise", "experts": "nn"}
# Modules that have another family than their room.
EXCEPTIONS = {
    "tests/namespaces/test_gathers.py": "indexing",
    "tests/operands/test_kernels_lifted.py": "elementwise",
    "tests/ops/test_strict.py": "loops",
    "tests/programs/test_serial_loop.py": "loops",
    "tests/programs/test_whole_values_in_steps.py": "loops",
    "tests/ops/loops/test_solvers.py": "xmap",
    "tests/typing/test_typing.py": "xmap",
}


@functools.cache
def rooms() -> dict[str, str]:
    """Return the family of each room that has an operation of the table, or is listed above."""
    from tests.operations import OPERATIONS  # makes arrays, so not before tests/conftest.py has set the number of devices

    modules = [operation_of(row).__module__.split(".") for row in OPERATIONS.values() if operation_of(row)]
    with_rows = [module[2] for module in modules if module[:2] == ["namedax", "ops"]]
    return {room: SHARED.get(room, room) for room in (*with_rows, *WITHOUT_ROWS, *SHARED)}


def operation_of(row: tuple[Callable[..., Any], ...]) -> Callable[..., Any] | None:
    """Return the first function of namedax that a row of the table calls, or None if the row calls a method or an operator."""
    found = nx
    for name in itertools.dropwhile(lambda name: name != "nx", row[0].__code__.co_names):
        found = nx if name == "nx" else getattr(found, name)
        if not isinstance(found, types.ModuleType):
            return found
    return None


def family_of(module: str) -> str:
    """Return the family of a module of tests, given by its path."""
    folder, _, _ = module.rpartition("/")
    if module in EXCEPTIONS or folder == "tests/xmap":
        return EXCEPTIONS.get(module, "xmap")
    return rooms().get(folder.removeprefix("tests/ops/"), module)


@functools.cache
def families() -> dict[str, list[str]]:
    """Return the paths of the modules in each family that is not a single module."""
    found = collections.defaultdict(list)
    for path in sorted(HERE.rglob("test_*.py")):
        module = f"tests/{path.relative_to(HERE).as_posix()}"
        if (family := family_of(module)) != module:
            found[family].append(module)
    return dict(found)


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
    """One case of one test function: the values of its parameters, the traits of its placement, and the numbers of its marks."""

    function: str
    values: frozenset[Hashable]
    traits: frozenset[str] = frozenset()
    part: int | None = None
    rest: int | None = None


def cover(cases: Sequence[Case]) -> set[int]:
    """The indices of those cases of a family's that `make test` runs."""
    met: collections.Counter[str] = collections.Counter()
    kept: set[int] = set()

    def keep(candidates: Iterable[int], missing: frozenset[Hashable]) -> int:
        """The case with most of what is missing; among equals the one whose traits were met least."""
        best = max(
            (i for i in candidates if i not in kept),
            key=lambda i: (len(cases[i].values & missing), sum(2.0 ** -met[t] for t in cases[i].traits), -i),
        )
        kept.add(best)
        met.update(cases[best].traits)
        return best

    functions: dict[str, list[int]] = collections.defaultdict(list)
    for i, case in enumerate(cases):
        functions[case.function].append(i)
    for candidates in functions.values():
        part = cases[candidates[0]].part
        missing = frozenset().union(*(cases[i].values for i in candidates))
        part = part and min(part, len(candidates))
        if part and not any(cases[i].traits for i in candidates):
            kept |= {candidates[len(candidates) * k // part] for k in range(part)}
        elif part or not missing:
            for _ in range(min(part or PLACES, len(candidates))):
                missing -= cases[keep(candidates, missing)].values
        else:
            while missing:
                missing -= cases[keep(candidates, missing)].values
    for trait in sorted(frozenset().union(*(case.traits for case in cases))):
        if not met[trait]:
            keep((i for i, case in enumerate(cases) if trait in case.traits), frozenset())
    return kept


def products(cases: Sequence[Case], kept: set[int]) -> set[int]:
    """Return the indices of the cases that show nothing new beside `kept` and each other: no value meets two traits first there.

    Of a function with the mark `rest(n)`, these are all but n cases, besides those in `kept`.
    """
    functions: dict[str, list[int]] = collections.defaultdict(list)
    for i, case in enumerate(cases):
        if case.traits or case.rest is not None:
            functions[case.function].append(i)
    left: set[int] = set()
    for function, candidates in functions.items():
        rest = cases[candidates[0]].rest
        if rest is not None:
            others = [i for i in candidates if i not in kept]
            left |= set(others) - {others[len(others) * k // min(rest, len(others))] for k in range(min(rest, len(others)))}
            continue
        meetings = {i: meets(cases[i], function) for i in candidates}
        missing = set().union(*meetings.values())
        spare = {i for i in candidates if i not in kept}
        missing -= set().union(*(meetings[i] for i in candidates if i in kept))
        while missing:
            best = max(spare, key=lambda i: (len(meetings[i] & missing), -i))
            spare.remove(best)
            missing -= meetings[best]
        left |= spare
    return left


def met_in_rest(cases: Sequence[Case], kept: set[int], in_rest: set[int]) -> set[int]:
    """Return the indices in `kept` whose function runs in test-rest with each of their values.

    With the mark `part`, its other cases stand for all values.
    """
    values: dict[str, set[Hashable]] = {}
    for i in in_rest:
        values.setdefault(cases[i].function, set()).update(cases[i].values)
    return {
        i
        for i in kept
        if (met := values.get(cases[i].function)) is not None and (cases[i].part is not None or cases[i].values <= met)
    }


def meets(case: Case, function: str) -> set[Hashable]:
    """Each value of a case with each trait of its placement, and with each two."""
    pairs = itertools.combinations_with_replacement(sorted(case.traits), 2)
    return set(itertools.product(case.values or {function}, pairs))


# Where tests/conftest.py leaves the cases of each family, and the indices of those that run.
FAMILIES_OF_THIS_RUN = pytest.StashKey[dict[str, tuple[list[Case], set[int]]]]()
