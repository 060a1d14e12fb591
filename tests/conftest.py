"""Marks what `make test` leaves out: see tests/covering.py."""

import itertools
from collections.abc import Hashable, Iterator

import pytest

from tests.covering import Case, cover, traits
from tests.harness import Placement


def values_of(item: pytest.Item) -> Iterator[Hashable]:
    """One for each `parametrize`: what it gave to this case, but for the placement."""
    params = item.callspec.params
    for mark in item.iter_markers("parametrize"):
        names = mark.args[0]
        names = [name.strip() for name in names.split(",")] if isinstance(names, str) else names
        if given := [(name, id(params[name])) for name in names if not isinstance(params[name], Placement)]:
            yield tuple(given)


def case_of(item: pytest.Item) -> Case:
    """What the rule has to know of a test."""
    function = item.nodeid.partition("[")[0]
    part = item.get_closest_marker("part")
    wanted = part.args[0] if part else None
    if not hasattr(item, "callspec"):
        return Case(function, frozenset({"alone"}))
    placements = [value for value in item.callspec.params.values() if isinstance(value, Placement)]
    return Case(function, frozenset(values_of(item)), frozenset().union(*map(traits, placements)), wanted)


@pytest.hookimpl(tryfirst=True)  # before pytest looks at the marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    free = [item for item in items if not item.get_closest_marker("full") and not item.get_closest_marker("leaks")]
    for _, module in itertools.groupby(free, key=lambda item: item.nodeid.partition("::")[0]):
        tests = list(module)
        kept = cover([case_of(test) for test in tests])
        for i, test in enumerate(tests):
            if i not in kept:
                test.add_marker("full")
