"""The rule of tests/covering.py: what `make test` leaves out of a matrix occurs there all the same, singly."""

import collections
import dataclasses
import itertools

import pytest

from tests.covering import (
    EXCEPTIONS,
    FAMILIES_OF_THIS_RUN,
    HERE,
    PLACES,
    Case,
    cover,
    families,
    family_of,
    met_in_rest,
    operation_of,
    products,
    rooms,
    traits,
)
from tests.harness import FEW, PARTITIONER, PLACEMENTS
from tests.operations import OPERATIONS

ALL = {
    "unmapped", "one entry on each device", "chunks", "1-D mesh", "2-D mesh", "auto axes", "explicit axes", "several names",
    "several mesh axes for one name", "shard_map", "partitioner",
}  # fmt: skip


def matrix(function, operations, placements, part=None):
    return [Case(function, frozenset({op}), traits(placement), part) for op in operations for placement in placements]


def test_what_placements_are_like():
    assert traits(FEW[0]) == {"unmapped"}
    assert frozenset().union(*map(traits, [*PLACEMENTS, *PARTITIONER])) == ALL


def test_every_operation_occurs_and_everything_that_placements_are_like():
    cases = matrix("f", ["sum", "max", "sort"], [*PLACEMENTS, *PARTITIONER])
    kept = [cases[i] for i in cover(cases)]
    assert frozenset().union(*(case.values for case in kept)) == {"sum", "max", "sort"}
    assert frozenset().union(*(case.traits for case in kept)) == ALL
    assert len(kept) < len(cases) / 5


def test_one_program_of_many_operations_runs_in_several_placements():
    cases = [Case("f", frozenset(), traits(placement)) for placement in PLACEMENTS]
    assert len(cover([*cases, *matrix("g", "abcdef", [*PLACEMENTS])]) & set(range(len(cases)))) >= PLACES


def test_what_one_function_has_met_the_next_one_need_not_meet():
    first = [Case("f", frozenset(), traits(placement)) for placement in FEW]
    second = [Case("g", frozenset(), traits(placement)) for placement in FEW]
    chosen = [traits(FEW[i % len(FEW)]) for i in sorted(cover([*first, *second]))]
    assert len(set(chosen)) >= 4


def test_what_is_left_to_products_only_multiplies():
    cases = matrix("f", ["sum", "max"], [*PLACEMENTS, *PARTITIONER])
    kept = cover(cases)
    left = products(cases, kept)
    assert left
    assert not left & kept
    for operation in ("sum", "max"):
        of_it = [i for i, case in enumerate(cases) if operation in case.values]
        for i in of_it:
            for pair in itertools.combinations(cases[i].traits, 2):
                assert any(cases[j].traits >= set(pair) for j in of_it if j not in left), f"{operation} has not met {pair}"


def test_cases_without_a_placement_are_no_products():
    assert products([Case("f", frozenset({k}), frozenset()) for k in range(9)], {0}) == set()


@pytest.mark.parametrize("rest", [0, 1, 3, 30])
def test_of_a_function_with_the_mark_rest_that_many_cases_are_no_products(rest):
    cases = [Case("f", frozenset({i}), rest=rest) for i in range(12)]
    left = products(cases, {0, 5})
    assert len(left) == 10 - min(rest, 10)
    assert not left & {0, 5}


def test_beside_the_rest_every_function_runs_with_every_value():
    cases = [Case("f", frozenset({value}), part=part) for part in (None, 1) for value in "abca"]
    cases = [dataclasses.replace(case, function=f"f{i // 4}") for i, case in enumerate(cases)]
    kept, in_rest = {0, 1, 2, 4, 5}, {3, 7}
    # `a` of the first function is met again, `b` and `c` are not; with `part` every case is met
    assert met_in_rest(cases, kept, in_rest) == {0, 4, 5}
    assert met_in_rest(cases, kept, {3}) == {0}
    assert met_in_rest(cases, kept, set()) == set()


@pytest.mark.parametrize("part", [1, 3, 30])
def test_parts_are_spread_evenly(part):
    cases = [Case("f", frozenset({i}), part=part) for i in range(12)]
    assert len(cover(cases)) == min(part, 12)
    assert max(cover(cases)) >= 12 - 12 / part - 1


def test_families_are_of_rooms_that_exist():
    assert [label for label, row in OPERATIONS.items() if operation_of(row) is None] == ["at", "index"]
    assert [room for room in rooms() if not list((HERE / "ops" / room).glob("test_*.py"))] == []
    assert set(families()) == {*rooms().values(), "xmap"}
    assert family_of("tests/ops/contraction/test_einsum.py") == "contraction"
    assert family_of("tests/ops/sorting/test_sorting.py") == "reduction"
    assert family_of("tests/core/test_array.py") == "tests/core/test_array.py"


def test_exceptions_are_of_modules_that_exist_in_another_room():
    assert [module for module in EXCEPTIONS if not (HERE.parent / module).exists()] == []
    by_room = {module: rooms().get(module.split("/")[-2]) for module in EXCEPTIONS}
    assert [module for module, family in EXCEPTIONS.items() if by_room[module] == family] == []


def test_in_this_very_run(request):
    """Whatever was collected: no value of a parameter and nothing that placements are like is left out."""
    families = request.config.stash[FAMILIES_OF_THIS_RUN]
    assert families
    for family, (cases, kept) in families.items():
        want, have = (frozenset().union(*(cases[i].traits for i in indices)) for indices in (range(len(cases)), kept))
        assert have == want, f"{family} is not met in placements that are {sorted(want - have)}"
        functions = collections.defaultdict(list)
        for i, case in enumerate(cases):
            functions[case.function].append(i)
        for function, indices in functions.items():
            ran = [cases[i] for i in indices if i in kept]
            assert ran, function
            if not cases[indices[0]].part:
                left = frozenset().union(*(cases[i].values for i in indices)) - frozenset().union(*(c.values for c in ran))
                assert not left, function


@pytest.mark.parametrize("family", sorted({*families()} - {"xmap"}))
def test_families_of_operations_are_met_in_placements_of_every_kind(family, request):
    cases, kept = request.config.stash[FAMILIES_OF_THIS_RUN].get(family, ([], set()))
    modules = {case.function.partition("::")[0] for case in cases}
    if len(modules) < len(families()[family]):
        return  # a run of a part of the tests
    assert frozenset().union(*(cases[i].traits for i in kept)) >= ALL - {"several mesh axes for one name", "several names"}
