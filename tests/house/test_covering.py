"""The rule of tests/covering.py: what the tiers leave out of a matrix occurs there all the same, singly in `fast` and in pairs in `full`."""

import collections
import itertools
import re

import pytest

from tests.conftest import case_of
from tests.covering import Case, tiers, traits
from tests.harness import FEW, PARTITIONER, PLACEMENTS

ALL = {
    "unmapped", "one entry on each device", "chunks", "1-D mesh", "2-D mesh", "auto axes", "explicit axes", "several names",
    "several mesh axes for one name", "shard_map", "partitioner",
}  # fmt: skip


def matrix(*values, placements=(*PLACEMENTS, *PARTITIONER), limits=(None, None)):
    return [Case(frozenset(combined), traits(place), limits) for *combined, place in itertools.product(*values, placements)]


def test_what_placements_are_like():
    assert traits(FEW[0]) == {"unmapped"}
    assert frozenset().union(*map(traits, [*PLACEMENTS, *PARTITIONER])) == ALL


def test_every_value_and_every_trait_occurs_and_in_full_every_value_with_every_trait():
    cases = matrix(["sum", "max", "sort"])
    fast, full = tiers("f", cases)
    assert {value for i in fast for value in cases[i].values} == {"max", "sort", "sum"}
    assert frozenset().union(*(cases[i].traits for i in fast)) == ALL
    assert len(fast) < len(cases) / 6
    assert fast < full < {*range(len(cases))}
    for value in ("sum", "max", "sort"):
        assert frozenset().union(*(cases[i].traits for i in full if value in cases[i].values)) == ALL


def test_every_two_values_occur_together_in_full():
    cases = [Case(frozenset(values)) for values in itertools.product("abc", "123", "xyz")]
    fast, full = tiers("f", cases)
    assert frozenset().union(*(cases[i].values for i in fast)) == {*"abc123xyz"}
    assert len(fast) <= 4
    assert len(full) <= 14
    for pair in itertools.chain(
        itertools.product("abc", "123"), itertools.product("abc", "xyz"), itertools.product("123", "xyz")
    ):
        assert any(cases[i].values >= {*pair} for i in full)


def test_a_function_without_parameters_is_in_both_tiers():
    assert tiers("f", [Case()]) == ({0}, {0})


def test_one_program_of_many_operations_runs_in_every_trait():
    cases = matrix()
    for chosen in tiers("f", cases):
        assert frozenset().union(*(cases[i].traits for i in chosen)) == ALL
        assert len(chosen) <= 5


def test_functions_are_met_in_different_placements():
    cases = matrix(placements=PLACEMENTS)
    assert {i for k in range(100) for i in tiers(f"f{k}", cases)[0]} == {*range(len(cases))}


@pytest.mark.parametrize("limit", [1, 3, 30])
@pytest.mark.parametrize("tier", [0, 1])
def test_limits(limit, tier):
    limits = (limit, 0) if tier == 0 else (0, limit)
    cases = [Case(frozenset({k}), limits=limits) for k in range(12)]
    chosen = tiers("f", cases)[tier]
    assert len(chosen) == min(limit, 12)


def test_what_is_marked_with_zero_is_in_no_tier_and_the_other_cases_are_chosen_as_ever():
    cases = [Case(frozenset({k}), limits=(0, None) if k % 2 else (None, 0)) for k in range(6)]
    fast, full = tiers("f", cases)
    assert (fast, full) == ({0, 2, 4}, {*range(6)})
    assert tiers("f", [Case(frozenset({k}), limits=(0, 0)) for k in range(6)]) == (set(), set())


def test_the_choice_does_not_depend_on_other_tests():
    cases = matrix(["sum", "max"])
    assert tiers("f", cases) == tiers("f", list(cases))


def test_every_room_of_operations_is_met_in_placements_of_every_kind(collected):
    """Whatever was collected: if tests of a room have what makes a placement a mapped one, it occurs in `fast`, and so in `full`."""
    functions = collections.defaultdict(list)
    for item in collected:
        if re.match("tests/ops/(?!operands|namespaces)[a-z]+/", item.nodeid) and not item.get_closest_marker("leaks"):
            functions[item.nodeid.partition("[")[0]].append(case_of(item))
    offered, met = collections.defaultdict(set), collections.defaultdict(set)
    for function, cases in functions.items():
        room = function.split("/")[2]
        offered[room].update(*(case.traits for case in cases))
        met[room].update(*(cases[i].traits for i in tiers(function, cases)[0]))
    mapped = ALL - {"unmapped", "partitioner", "1-D mesh"}
    left = {room: offered[room] & mapped - met[room] for room in offered}
    assert not any(left.values()), left
